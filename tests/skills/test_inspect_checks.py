"""The script of gh-fix-ci, run against a second implementation of ``gh``."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.skills.fake_gh import HOME, FakeGh, check, job, log_line, with_python
from tests.support import forked
from tests.support.cli import SECONDS, run_forked

SKILL = Path(__file__).parents[2] / "fixtures" / "skills" / "gh-fix-ci"
RELEASES = ["1.1.0", "1.2.0"]
TOKEN = "gh" + "p_" + "0123456789" * 4

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the second gh is a script with a #! line")


def script(release: str = "1.2.0") -> Path:
    return SKILL / release / "scripts" / "inspect_checks.py"


@pytest.fixture
def gh(tmp_path: Path) -> FakeGh:
    return FakeGh(tmp_path / "bin")


def run(gh: FakeGh, *args: str, release: str = "1.2.0") -> subprocess.CompletedProcess[str]:
    command = [str(script(release)), *args]
    program = forked.Program("tests.skills.run_script", command, str(gh.folder), gh.environment(), SECONDS)
    done = run_forked(program)
    return subprocess.CompletedProcess(command, done.status, done.out, done.err)


def failing(gh: FakeGh, *args: str, release: str = "1.2.0") -> list[dict[str, Any]]:
    done = run(gh, "--json", *args, release=release)
    assert done.returncode == 1, done.stderr
    result: list[dict[str, Any]] = json.loads(done.stdout)["failing"]
    return result


@pytest.mark.parametrize("release", RELEASES)
def test_failed_job_is_shown_with_its_reason(gh: FakeGh, release: str) -> None:
    done = run(gh, release=release)
    assert done.returncode == 1
    assert "PR #12 Parse empty files (topic at 012345678)" in done.stdout
    assert "1 fail, 1 pass" in done.stdout
    assert "== CI / test [FAILURE]" in done.stdout
    assert "   step: Run tests" in done.stdout
    assert "   | E   IndexError: list index out of range" in done.stdout
    assert "lint" not in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize("release", RELEASES)
def test_json_is_one_value_with_every_part(gh: FakeGh, release: str) -> None:
    report = json.loads(run(gh, "--json", release=release).stdout)
    assert report["pull_request"]["repo"] == "github.com/octo/tool"
    assert report["counts"] == {"fail": 1, "pass": 1}
    (found,) = report["failing"]
    assert (found["run"], found["job"], found["step"]) == ("702", "2", "Run tests")
    assert found["snippet"] == "E   IndexError: list index out of range"
    assert found["note"] is None


def test_script_runs_by_its_name_and_leaves_no_files(gh: FakeGh) -> None:
    before = sorted(SKILL.rglob("*"))
    done = subprocess.run([script()], env=with_python(gh.environment()), cwd=gh.folder, capture_output=True)
    assert done.returncode == 1
    assert sorted(SKILL.rglob("*")) == before


@pytest.mark.parametrize("release", RELEASES)
def test_help_needs_no_gh(tmp_path: Path, release: str) -> None:
    command = [sys.executable, str(script(release)), "--help"]
    done = subprocess.run(command, env={"PATH": str(tmp_path)}, capture_output=True, text=True)
    assert done.returncode == 0
    assert "exit status:" in done.stdout and "example:" in done.stdout


@pytest.mark.parametrize("release", RELEASES)
def test_missing_gh_is_reported(tmp_path: Path, release: str) -> None:
    command = [sys.executable, str(script(release))]
    done = subprocess.run(command, env={"PATH": str(tmp_path)}, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (3, "")
    assert "gh is not on PATH" in done.stderr


@pytest.mark.parametrize(
    ("world", "status", "message"),
    [
        ({"signed_in": False}, 3, "not signed in"),
        ({"broken": "HTTP 401: Bad credentials\nTry authenticating with:  gh auth login\n"}, 3, "not signed in"),
        ({"old": True}, 3, "too old"),
        ({"pull": None}, 4, "no pull requests found"),
        ({"checks": []}, 4, "no checks reported"),
        ({"broken": "error connecting to the server\n"}, 5, "error connecting to the server"),
    ],
)
def test_missing_prerequisites_are_reported(gh: FakeGh, world: dict[str, Any], status: int, message: str) -> None:
    gh.world.update(world)
    done = run(gh)
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr.startswith("inspect_checks: ") and message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("buckets", [["pass"], ["pass", "pending"], ["pending", "fail"], ["cancel"]])
def test_exit_status_reflects_the_checks(gh: FakeGh, buckets: list[str]) -> None:
    gh.world["checks"] = [check(f"c{at}", bucket, job(at)) for at, bucket in enumerate(buckets)]
    expected = 1 if {"fail", "cancel"} & set(buckets) else 8 if "pending" in buckets else 0
    assert run(gh).returncode == expected


@pytest.mark.parametrize("args", [["--max-lines", "0"], ["--repo=-x", "1"], ["--", "-R"], ["--max-lines", "x"]])
def test_usage_errors_never_reach_gh(gh: FakeGh, args: list[str]) -> None:
    done = run(gh, *args)
    assert done.returncode == 2
    assert "usage:" in done.stderr
    assert gh.calls() == []


def test_pull_request_and_repository_are_passed_on(gh: FakeGh) -> None:
    run(gh, "12", "--repo", "octo/tool")
    assert gh.calls()[0][:5] == ["pr", "view", "12", "--repo", "octo/tool"]


@pytest.mark.parametrize("release", RELEASES)
def test_attack_a_status_link_cannot_send_gh_elsewhere(gh: FakeGh, release: str) -> None:
    links = [
        "https://evil.example/octo/tool/actions/runs/1/job/2",
        "https://github.com.evil.example/octo/tool/actions/runs/1/job/2",
        "https://github.com/evil/tool/actions/runs/1/job/2",
        f"{HOME}/actions/runs/1/job/2/../../../../../evil",
        f"{HOME}/actions/runs/--web/job/2",
        "",
    ]
    gh.world["checks"] = [check(f"deploy {number}", "fail", link, workflow="") for number, link in enumerate(links)]
    for found, link in zip(failing(gh, release=release), links, strict=True):
        assert found["snippet"] is None and "not a GitHub Actions job" in found["note"], link
    assert [call[:2] for call in gh.calls()] == [["pr", "view"], ["pr", "checks"]]


@pytest.mark.parametrize("release", RELEASES)
def test_attack_a_log_is_shown_without_control_characters(gh: FakeGh, release: str) -> None:
    hostile = "\x1b[31mFAILED\x1b[0m \x1b]0;title\x07a \x1b]8;;x://y\x1b\\link\x1b]8;;\x1b\\"
    hostile += " \u202eevil\u200b \x9b2J b"
    gh.world["logs"]["2"] = log_line("10%\r20%\r" + hostile)
    gh.world["pull"]["title"] = "\x1b[2JTitle"
    done = run(gh, release=release)
    assert "   | FAILED a link evil 2J b" in done.stdout
    assert "PR #12 Title (" in done.stdout
    assert not {char for char in done.stdout if unicodedata.category(char) in ("Cc", "Cf")} - {"\n"}


def test_attack_a_token_in_a_log_is_not_shown(gh: FakeGh) -> None:
    gh.world["logs"]["2"] = log_line(f"error: push with {TOKEN} refused") + log_line(
        "Authorization: Bearer abcdefghijklmnop1234"
    )
    done = run(gh)
    assert "error: push with [redacted] refused" in done.stdout
    assert TOKEN not in done.stdout and "abcdefghijklmnop1234" not in done.stdout


def test_attack_a_huge_log_is_shortened(gh: FakeGh) -> None:
    line = log_line("x" * 4000).rstrip("\n")
    start, end = log_line("E   ValueError: too far up"), log_line("E   ValueError: the end")
    gh.world["logs"]["2"] = {"start": start, "line": line, "times": 2500, "end": end}
    (found,) = failing(gh, "--max-lines", "20")
    assert found["note"] == "only the last 8 MiB of the log were read"
    assert "E   ValueError: the end" in found["snippet"]
    assert "too far up" not in found["snippet"]
    assert "lines left out]" in found["snippet"] and "x [cut]" in found["snippet"]
    assert len(found["snippet"]) < 20 * 450


@pytest.mark.parametrize("release", RELEASES)
def test_missing_log_has_a_reason(gh: FakeGh, release: str) -> None:
    gh.world["checks"] = [check("slow", "fail", job(3)), check("gone", "fail", job(4))]
    gh.world["running"] = ["3"]
    slow, gone = failing(gh, release=release)
    assert "still in progress" in slow["note"] and slow["snippet"] is None
    assert "no log" in gone["note"] and gone["snippet"] is None


def test_log_of_a_repeated_job_comes_from_the_api(gh: FakeGh) -> None:
    gh.world["logs"] = {
        "repos/octo/tool/actions/jobs/2/logs": "\ufeff2026-03-01T10:00:00.1Z start\n"
        "2026-03-01T10:00:01.2Z ##[group]Run\n2026-03-01T10:00:02.3Z ##[error]it broke\n"
    }
    (found,) = failing(gh)
    assert found["snippet"] == "start\n##[error]it broke"
    assert gh.calls()[-1][:3] == ["api", "--hostname", "github.com"]


def test_check_without_a_job_reads_the_log_of_its_run(gh: FakeGh) -> None:
    gh.world["checks"] = [check("whole", "fail", f"{HOME}/actions/runs/55?pr=12")]
    gh.world["logs"] = {"55": log_line("fatal: no such ref")}
    (found,) = failing(gh)
    assert (found["run"], found["job"], found["snippet"]) == ("55", None, "fatal: no such ref")


def test_snippet_has_the_first_cause_and_the_summary(gh: FakeGh) -> None:
    middle = [f"line {number}" for number in range(500)]
    middle[20], middle[250], middle[480] = "error: the first", "error: the second", "FAILED (errors=2)"
    gh.world["logs"]["2"] = "".join(log_line(text) for text in middle)
    (found,) = failing(gh, "--max-lines", "26")
    lines = found["snippet"].splitlines()
    assert [line for line in lines if "left out" in line] == [
        "[15 lines left out]",
        "[447 lines left out]",
        "[12 lines left out]",
    ]
    assert "error: the first" in lines and "FAILED (errors=2)" in lines and "error: the second" not in lines


ERROR_LINES = [
    "src/a.c:10:4: fatal error: x.h: No such file",
    "src/a.ts(3,14): error TS2345: wrong type",
    "error[E0308]: mismatched types",
    "--- FAIL: TestParse (0.00s)",
    "Traceback (most recent call last):",
    "requests.exceptions.ReadTimeoutError: slow",
    "npm ERR! code ELIFECYCLE",
    "[ERROR] Failed to execute goal",
    "thread 'main' panicked at src/main.rs:4:5:",
    "  ● parses an empty file",
    "##[error]The operation was canceled.",
]


def test_error_lines_of_many_tools_are_found(gh: FakeGh) -> None:
    noise = [f"step {number}: 0 errors, continue-on-error: true" for number in range(200)]
    every = range(len(ERROR_LINES))
    gh.world["checks"] = [check(f"test {number}", "fail", job(number)) for number in every]
    for number, line in enumerate(ERROR_LINES):
        texts = [*noise[:100], line, *noise[100:], "##[error]Process completed with exit code 1."]
        gh.world["logs"][str(number)] = "".join(log_line(text) for text in texts)
    found = failing(gh, "--max-lines", "5", "--max-checks", str(len(ERROR_LINES)))
    for each, line in zip(found, ERROR_LINES, strict=True):
        assert line in each["snippet"]


def test_filters_and_limits_name_omitted_checks(gh: FakeGh) -> None:
    gh.world["checks"] = [check(f"test {number}", "fail", job(number)) for number in range(4)]
    gh.world["checks"].append(check("lint", "fail", job(9)))
    done = run(gh, "--check", "TEST", "--max-checks", "1")
    assert "== CI / test 0 [" in done.stdout
    assert done.stdout.count("not shown: ") == 4 and "not shown: CI / lint" in done.stdout
    assert sum(call[:2] == ["run", "view"] for call in gh.calls()) == 1


CLEAN = runpy.run_path(str(script()))["clean"]  # writes no byte code into the folder of the skill


@settings(deadline=None)
@given(st.text(st.characters() | st.sampled_from("\x1b[]0;m\x07\\\r\t\x9b\u202e"), max_size=60))
def test_clean_removes_all_control_characters(text: str) -> None:
    shown = CLEAN(text)
    assert not [char for char in shown if unicodedata.category(char)[0] == "C" and char != "\t"]

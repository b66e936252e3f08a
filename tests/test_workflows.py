"""The workflows: every action is pinned, no job has unneeded rights, all Pythons are tested."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from skillhub.project.intent import Wanted
from skillhub.project.project import edit
from skillhub.trust.roles import WELL_KNOWN, skill_path

REPO = Path(__file__).resolve().parents[1]
EXAMPLES = REPO / "docs" / "examples"
PAGES = REPO / "skillhub/registry/templates/github-pages.yml"
FILES = [*(REPO / ".github/workflows").glob("*.yml"), *EXAMPLES.glob("*.yml"), PAGES]
WORKFLOWS = {path.name: path for path in sorted(FILES)}


def read(name: str) -> dict:
    return yaml.safe_load(WORKFLOWS[name].read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", WORKFLOWS)
def test_every_action_is_pinned_by_commit(name):
    used = [step["uses"] for job in read(name)["jobs"].values() for step in job["steps"] if "uses" in step]
    assert used
    assert [each for each in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", each)] == []


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflow_has_read_permission_by_default(name):
    assert read(name)["permissions"] == {"contents": "read"}


def test_the_workflow_of_a_registry_installs_the_extra_for_pages():
    (line,) = (line for line in PAGES.read_text("utf-8").splitlines() if "pip install" in line)
    assert '"skillhub[pages]==' in line


@pytest.mark.parametrize("name", WORKFLOWS)
def test_no_script_contains_an_expression_of_an_event(name):
    """GitHub replaces an expression before the shell reads the script, so a branch name could be a command."""
    scripts = [step["run"] for job in read(name)["jobs"].values() for step in job["steps"] if "run" in step]
    assert scripts
    assert [script for script in scripts if "${{" in script.replace("${{ matrix.python }}", "")] == []


def test_the_signing_job_runs_nothing_of_the_repository():
    job = read("release.yml")["jobs"]["publish"]
    assert job["permissions"] == {"contents": "write", "id-token": "write", "attestations": "write"}
    assert not any("checkout" in step.get("uses", "") for step in job["steps"])
    assert not any(re.search(r"\b(make|pip|python)\b", step.get("run", "")) for step in job["steps"])
    assert read("release.yml")["jobs"]["build"].get("permissions") is None


def test_every_python_from_the_oldest_supported_is_tried_on_three_systems():
    own = tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    jobs = read("test.yml")["jobs"]
    for name in ("test", "windows"):
        pythons = jobs[name]["strategy"]["matrix"]["python"]
        assert own["requires-python"] == f">={pythons[0]}"
        assert pythons == ["3.11", "3.12", "3.13", "3.14"]
    systems = {*jobs["test"]["strategy"]["matrix"]["os"], jobs["windows"]["runs-on"]}
    assert {system.partition("-")[0] for system in systems} == {"ubuntu", "macos", "windows"}


def test_a_job_tries_every_extra_and_another_the_machine_of_a_user():
    jobs = read("test.yml")["jobs"]
    extras, unlike = (" ".join(step.get("run", "") for step in jobs[name]["steps"]) for name in ("extras", "unlike"))
    assert "'.[all,test]'" in extras and "pytest -q -n auto" in extras
    assert "sh tests/unlike.sh make PYTHON=python test" in unlike


@pytest.mark.skipif(sys.platform == "win32", reason="takes sh")
def test_the_machine_of_a_user_has_settings_that_no_test_may_depend_on(tmp_path):
    words = ["sh", REPO / "tests/unlike.sh", "sh", "-c", "umask; env; git config --list --global"]
    environ = {"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path), "HOME": str(tmp_path)}
    done = subprocess.run(words, env=environ, check=True, capture_output=True, text=True)
    umask, *rest = done.stdout.splitlines()
    found = dict(line.split("=", 1) for line in rest)
    assert int(umask, 8) == 0o077
    assert found["LC_ALL"] == "C" and found["COLUMNS"] == "41" and found["https_proxy"] and found["XDG_CACHE_HOME"]
    assert found["CLAUDECODE"] and found["core.autocrlf"] == found["commit.gpgsign"] == "true"
    assert Path(found["TMPDIR"]).is_symlink() and found["HOME"] != str(tmp_path)


def test_the_pushing_job_runs_no_skillhub():
    jobs = read("skillhub-update.yml")["jobs"]
    assert jobs["propose"]["permissions"] == {"contents": "write", "pull-requests": "write"}
    assert "permissions" not in jobs["update"]
    assert not any(
        re.search(r"\b(pip|python|skillhub (update|install))\b", each.get("run", ""))
        for each in jobs["propose"]["steps"]
    )
    assert jobs["update"]["steps"][0]["with"] == {"persist-credentials": False}
    (words,) = [each["run"] for each in jobs["update"]["steps"] if "skillhub update" in each.get("run", "")]
    assert "--pr-body" in words and "GH_TOKEN" not in str(jobs["update"])


def test_the_renovate_example_finds_skills_in_the_intent():
    document = json.loads((EXAMPLES / "renovate.json").read_text("utf-8"))
    lines = {
        "hello": Wanted(source="acme", version="^1.2.0"),
        "both-2": Wanted(source="acme", version=">=1.1,<2"),
        "other": Wanted(source="github", version="^1.2.0"),
        "newest": Wanted(source="acme"),
        "deploy": Wanted(git="https://git.example/team/skills", rev="v2.1.0"),
        "plain": Wanted(git="https://git.example/team/skills", rev="main"),
        "mine": Wanted(path="./skills/mine"),
    }
    text = edit(b'# acme\n[install]\nagents = ["codex"]\n', lines, ()).decode()
    found = []
    for manager in document["customManagers"]:
        (pattern,) = manager["matchStrings"]
        assert (
            re.search(
                r"\(\?[=!<]",
                pattern.replace("(?<depName>", "").replace("(?<currentValue>", "").replace("(?<packageName>", ""),
            )
            is None
        )
        assert not re.match(r"\(\?[a-z]", pattern)  # Renovate without RE2 refuses a flag there
        assert manager["managerFilePatterns"] == ["/(^|/)skillhub\\.toml$/"]
        found.append([match.groupdict() for match in re.finditer(pattern.replace("(?<", "(?P<"), text)])
    tags = {"depName": "deploy", "packageName": "https://git.example/team/skills", "currentValue": "v2.1.0"}
    ranges = [("both-2", ">=1.1,<2"), ("hello", "^1.2.0")]
    assert found == [[{"depName": name, "currentValue": value} for name, value in ranges], [tags]]
    # As described on the page about a registry's file.
    url = document["customDatasources"]["skillhub"]["defaultRegistryUrlTemplate"]
    assert url.endswith(f"/{WELL_KNOWN}/{skill_path('{{packageName}}')}")


def test_only_the_publishing_job_may_write_and_no_secret_outlives_it():
    (job,) = read(PAGES.name)["jobs"].values()
    assert job["permissions"] == {"contents": "write"}
    assert job["environment"]
    assert [step["with"]["persist-credentials"] for step in job["steps"] if "checkout" in step.get("uses", "")] == [
        False,
        False,
    ]
    assert "pull_request" not in read(PAGES.name)[True]
    assert "env" not in job and "env" not in read(PAGES.name)
    assert (job["steps"][-1]["if"], job["steps"][-1]["run"]) == ("always()", "rm -rf registry/keys")

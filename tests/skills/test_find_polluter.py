"""The script of systematic-debugging, run for real against small test runners and against pytest."""

from __future__ import annotations

import json
import os
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.cli import SECONDS

SKILL = Path(__file__).parents[2] / "fixtures" / "skills" / "systematic-debugging"
RELEASES = ["1.0.0", "1.1.0"]
VICTIM = "test_v"

# Runs "tests" by name: the victim fails if all of the polluters ran before it, and `broken` always does.
RUNNER = """
import sys
polluters, tests = set(sys.argv[1].split(",")) - {""}, sys.argv[2:]
if "odd" in tests:
    print("no such option")
    sys.exit(4)
failed = [test for at, test in enumerate(tests)
          if test == "broken" or test == "test_v" and polluters <= set(tests[:at])]
for test in failed:
    print("\\x1b[31mFAILED\\x1b[0m " + test)
sys.exit(1 if failed else 0)
"""


@pytest.fixture
def runner(tmp_path: Path) -> Path:
    path = tmp_path / "runner.py"
    path.write_text(RUNNER, encoding="utf-8")
    return path


def find(
    runner: Path, polluters: str, *options: str, tests: list[str], release: str = "1.1.0"
) -> subprocess.CompletedProcess[str]:
    script = SKILL / release / "scripts" / "find_polluter.py"
    command = [sys.executable, str(script), "--victim", VICTIM, "--tests", "-", *options]
    command += ["--", sys.executable, "-S", str(runner), polluters, "{}"]
    return subprocess.run(command, input="\n".join(tests), capture_output=True, encoding="utf-8", timeout=SECONDS)


def numbered(count: int) -> list[str]:
    return [f"t{number}" for number in range(count)]


@pytest.mark.parametrize("release", RELEASES)
def test_single_polluter_is_found(runner: Path, release: str) -> None:
    done = find(runner, "t5", tests=[*numbered(9), VICTIM, "t10"], release=release)
    assert done.returncode == 0, done.stderr
    assert "test_v fails because of" in done.stdout and " t5" in done.stdout
    reproduce = shlex.split(done.stdout.splitlines()[-1])
    assert reproduce[-2:] == ["t5", VICTIM]
    assert subprocess.run(reproduce, capture_output=True).returncode == 1
    assert "10 tests, failed" in done.stderr  # tests after the victim cannot be polluters


def test_polluters_that_work_only_together_are_found(runner: Path) -> None:
    done = find(runner, "t1,t6", "--json", tests=[*numbered(8), VICTIM])
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["polluters"] == ["t1", "t6"]
    assert report["minimal"] is True and report["runs"] < 40
    assert report["command"][-3:] == ["t1", "t6", VICTIM]


def test_earlier_release_reports_several_polluters(runner: Path) -> None:
    done = find(runner, "t1,t6", tests=[*numbered(8), VICTIM], release="1.0.0")
    assert (done.returncode, done.stdout) == (6, "")
    assert "it takes several" in done.stderr


@pytest.mark.parametrize(
    ("polluters", "tests", "status", "message"),
    [
        ("", ["t1"], 3, "fails alone"),
        ("nobody", ["t1"], 4, "not reproduced"),
        ("t1", ["t1", "broken"], 5, "--marker 'FAILED test_v'"),
        ("t1", ["t1", "odd"], 5, "exit status 4 is neither 0 nor 1; it said:\nno such option"),
        ("t1", [VICTIM, "t1"], 2, "no test that runs before"),
        ("t1", [], 2, "no test that runs before"),
    ],
)
def test_reason_of_an_early_end_is_reported(
    runner: Path, polluters: str, tests: list[str], status: int, message: str
) -> None:
    done = find(runner, polluters, tests=tests)
    assert (done.returncode, done.stdout) == (status, "")
    assert message in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("release", RELEASES)
def test_marker_separates_the_victim_from_other_failures(runner: Path, release: str) -> None:
    done = find(runner, "t1", "--marker", "^FAILED test_v$", tests=["t1", "broken", "t2"], release=release)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].endswith("t1 test_v")


def test_limit_of_runs_prints_the_smallest_set_so_far(runner: Path) -> None:
    done = find(runner, "t0", "--max-runs", "4", "--json", tests=numbered(8))
    assert done.returncode == 6
    assert json.loads(done.stdout)["minimal"] is False
    assert json.loads(done.stdout)["polluters"] == ["t0", "t1", "t2", "t3"]


def test_limit_of_runs_without_a_result_prints_no_set(runner: Path) -> None:
    done = find(runner, "t0", "--max-runs", "1", tests=numbered(8))
    assert (done.returncode, done.stdout) == (6, "")


def test_repeat_finds_an_intermittent_failure(tmp_path: Path) -> None:
    flaky = tmp_path / "flaky.py"
    flaky.write_text(
        "import pathlib, sys\n"
        "polluted = 't2' in sys.argv and 'test_v' in sys.argv\n"
        "count = pathlib.Path(__file__).with_suffix('.count')\n"
        "number = int(count.read_text()) + 1 if count.exists() else 1\n"
        "count.write_text(str(number if polluted else number - 1))\n"
        "sys.exit(polluted and number % 3 == 0)\n",
        encoding="utf-8",
    )
    once = find(flaky, "-", tests=numbered(4))
    assert once.returncode == 4
    flaky.with_suffix(".count").unlink()
    done = find(flaky, "-", "--repeat", "3", "--json", tests=numbered(4))
    assert json.loads(done.stdout)["polluters"] == ["t2"]


@pytest.mark.parametrize("release", RELEASES)
def test_run_is_ended_at_its_timeout(tmp_path: Path, release: str) -> None:
    slow = tmp_path / "slow.py"
    slow.write_text("import time\ntime.sleep(60)\n", encoding="utf-8")
    done = find(slow, "-", "--timeout", "1", tests=["t1"], release=release)
    assert done.returncode == 5 and "took longer than 1 seconds" in done.stderr


@pytest.mark.parametrize(
    "args",
    [
        ["--victim", "v", "--tests", "x"],
        ["--victim", "v", "--", "true"],
        ["--victim", "v", "--tests", "x", "--marker", "(", "--", "true"],
        ["--victim", "v", "--tests", "x", "--timeout", "0", "--", "true"],
        ["--victim", "v", "--tests", "no-such-file", "--", "true"],
    ],
)
def test_usage_errors_have_no_traceback(args: list[str], tmp_path: Path) -> None:
    command = [sys.executable, str(SKILL / RELEASES[-1] / "scripts" / "find_polluter.py"), *args]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr


def test_missing_runner_is_reported(tmp_path: Path) -> None:
    script = SKILL / "1.1.0" / "scripts" / "find_polluter.py"
    command = [sys.executable, str(script), "--victim", "v", "--tests", "-", "--", str(tmp_path / "missing")]
    done = subprocess.run(command, input="t1", capture_output=True, text=True)
    assert done.returncode == 5 and "cannot start" in done.stderr and "Traceback" not in done.stderr


def test_names_never_reach_a_shell(runner: Path, tmp_path: Path) -> None:
    evil = f"$(touch {tmp_path}/pwned); touch {tmp_path}/pwned"
    done = find(runner, evil, "--json", tests=["t1", evil, "t2"])
    assert json.loads(done.stdout)["polluters"] == [evil]
    assert not (tmp_path / "pwned").exists()


def test_polluter_is_found_with_the_listing_of_pytest(tmp_path: Path) -> None:
    (tmp_path / "test_s.py").write_text(
        "import pytest\nCACHE = []\n"
        "@pytest.mark.parametrize('n', [0])\ndef test_polluter(n): CACHE.append(n)\n"
        "def test_victim(): assert CACHE == []\n",
        encoding="utf-8",
    )
    pytest_ = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    plain = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
    listed = subprocess.run([*pytest_, "--collect-only"], cwd=tmp_path, env=plain, capture_output=True, text=True)
    (tmp_path / "tests.txt").write_text(listed.stdout, encoding="utf-8")
    script = SKILL / "1.1.0" / "scripts" / "find_polluter.py"
    command = [sys.executable, str(script), "--victim", "test_s.py::test_victim", "--tests", "tests.txt"]
    command += ["--json", "--", *pytest_]
    done = subprocess.run(command, cwd=tmp_path, env=plain, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["polluters"] == ["test_s.py::test_polluter[0]"]


# run_path writes no byte code into the folder of the skill, an import would
SEARCH = runpy.run_path(str(SKILL / "1.1.0" / "scripts" / "find_polluter.py"))["Search"]


@settings(deadline=None)
@given(st.data())
def test_search_finds_any_smallest_set(data: st.DataObject) -> None:
    tests = numbered(data.draw(st.integers(1, 24)))
    guilty = data.draw(st.sets(st.sampled_from(tests), min_size=1, max_size=4))

    class InMemory:
        def victim_fails_after(self, suspects: list[str]) -> bool:
            return guilty <= set(suspects)

    search = SEARCH(InMemory(), tests)
    search.narrow()
    assert search.suspects == [test for test in tests if test in guilty]

"""The workflows here: every action is pinned, no job has more rights than it uses, all Pythons are tried."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml

REPO = Path(__file__).resolve().parents[1]
WORKFLOWS = {path.name: path for path in sorted((REPO / ".github/workflows").glob("*.yml"))}


def read(name: str) -> dict:
    return yaml.safe_load(WORKFLOWS[name].read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", WORKFLOWS)
def test_every_action_is_pinned_by_commit(name):
    used = [step["uses"] for job in read(name)["jobs"].values() for step in job["steps"] if "uses" in step]
    assert used
    assert [each for each in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", each)] == []


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflow_may_only_read_unless_a_job_says_more(name):
    assert read(name)["permissions"] == {"contents": "read"}


@pytest.mark.parametrize("name", WORKFLOWS)
def test_no_script_has_text_of_an_event_in_it(name):
    """An expression in a script is replaced before the shell reads it: a branch's name could be a command."""
    scripts = [step["run"] for job in read(name)["jobs"].values() for step in job["steps"] if "run" in step]
    assert scripts
    assert [script for script in scripts if "${{" in script.replace("${{ matrix.python }}", "")] == []


def test_the_job_that_may_sign_runs_nothing_of_the_repository():
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

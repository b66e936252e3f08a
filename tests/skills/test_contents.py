"""Every embedded skill is valid, consistent, linked and harmless to a scanner."""

from __future__ import annotations

import os
import re
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from skillhub.formats.text import is_hidden, is_name

ROOT = Path(__file__).parents[2]
SKILLS = ROOT / "fixtures" / "skills"
RELEASES = sorted(path.parent for path in SKILLS.glob("*/*/SKILL.md"))
EXPECTED = {
    "code-review": ["1.0.0"],
    "dependency-upgrade": ["1.0.0"],
    "gh-address-comments": ["1.0.0"],
    "gh-fix-ci": ["1.1.0", "1.2.0"],
    "incident-postmortem": ["1.0.0"],
    "release-notes": ["1.0.0"],
    "systematic-debugging": ["1.0.0", "1.1.0"],
    "test-driven-development": ["1.0.0"],
}
EXECUTABLE = {
    "gh-fix-ci/1.1.0/scripts/inspect_checks.py",
    "gh-fix-ci/1.2.0/scripts/inspect_checks.py",
    "systematic-debugging/1.0.0/scripts/find_polluter.py",
    "systematic-debugging/1.1.0/scripts/find_polluter.py",
}
TOP = {"SKILL.md", "agents", "references", "scripts", "assets"}
HOSTS = {"api.github.com", "api.githubcopilot.com"}
MCP = {"type": "mcp", "value": "github", "transport": "streamable_http", "url": "https://api.githubcopilot.com/mcp/"}

every = pytest.mark.parametrize("release", RELEASES, ids=lambda path: "-".join(path.parts[-2:]))


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def parts(release: Path) -> tuple[dict[str, Any], str]:
    text = (release / "SKILL.md").read_text("utf-8")
    empty, head, body = re.split(r"^---\n", text, maxsplit=2, flags=re.MULTILINE)
    assert empty == ""
    return yaml.safe_load(head), body


def document(release: Path, name: str) -> Any:
    return yaml.safe_load((release / "agents" / name).read_text("utf-8"))


def without_description(tools: list[dict[str, str]]) -> list[dict[str, str]]:
    assert all(0 < len(tool["description"]) <= 1024 for tool in tools)
    return [{key: value for key, value in tool.items() if key != "description"} for tool in tools]


def test_every_skill_and_release_exists() -> None:
    found: dict[str, list[str]] = {}
    for release in RELEASES:
        found.setdefault(release.parent.name, []).append(release.name)
    assert found == EXPECTED


@every
def test_frontmatter_is_valid(release: Path) -> None:
    head, body = parts(release)
    assert head["name"] == release.parent.name and is_name(head["name"])
    assert head["metadata"] == {"version": release.name}
    assert head["license"] == "Apache-2.0"
    assert 100 < len(head["description"]) < 1024 and "Use it" in head["description"]
    assert set(head) <= {"name", "description", "license", "compatibility", "allowed-tools", "metadata"}
    assert all(isinstance(value, str) for key, value in head.items() if key != "metadata")
    assert len(head.get("compatibility", "")) <= 500
    assert len(body.splitlines()) < 500


@every
def test_links_lead_to_files_and_every_file_is_linked(release: Path) -> None:
    reached = set()
    for page in release.rglob("*.md"):
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8")):
            path = (page.parent / target).resolve()
            assert path.is_file() and path.is_relative_to(release.resolve()), f"{page}: {target}"
            reached.add(path.relative_to(release.resolve()).as_posix())
    body = parts(release)[1]
    for path in files(release):
        name = path.relative_to(release).as_posix()
        assert name.partition("/")[0] in TOP
        if name.startswith(("references/", "assets/")):
            assert name in reached
        elif name.startswith("scripts/"):
            assert name in body


@every
def test_files_named_in_the_text_exist(release: Path) -> None:
    for page in release.rglob("*.md"):
        for name in re.findall(r"\b(?:references|scripts|assets)/[\w.-]+\w", page.read_text("utf-8")):
            assert (release / name).is_file(), f"{page}: {name}"


@every
def test_files_have_no_suspicious_content(release: Path) -> None:
    for path in files(release):
        text = path.read_bytes().decode("utf-8")
        assert "\r" not in text and text.endswith("\n") and not text.endswith("\n\n"), path
        hidden = [char for char in text if is_hidden(char) and char != "\n"]
        assert not hidden, f"{path}: {hidden}"
        assert set(re.findall(r"\w+://([\w.-]+)", text)) <= HOSTS, path
        assert not re.search(r"\b(?:curl|wget)\b|\|\s*(?:ba|z)?sh\b|\bsudo\b|!`|\brm -rf\b|<!--", text), path
        assert len(text.splitlines()) <= 300, path


@every
def test_only_github_skills_name_a_host_or_have_needs(release: Path) -> None:
    github = release.parent.name.startswith("gh-")
    text = "".join(path.read_text("utf-8") for path in files(release))
    assert ("://" in text) == github
    openai = document(release, "openai.yaml")
    assert set(openai) == {"interface", "policy"} | ({"dependencies"} if github else set())
    assert (release / "agents" / "skillhub.yaml").exists() == github


@every
def test_interface_is_complete(release: Path) -> None:
    openai = document(release, "openai.yaml")
    assert set(openai["interface"]) == {"display_name", "short_description", "default_prompt"}
    assert len(openai["interface"]["display_name"]) <= 64
    assert all(0 < len(text) <= 1024 for text in openai["interface"].values())
    assert openai["policy"] == {"allow_implicit_invocation": True}


@pytest.mark.parametrize("release", [path for path in RELEASES if path.parent.name.startswith("gh-")])
def test_needs_of_github_skills_are_declared(release: Path) -> None:
    openai = document(release, "openai.yaml")["dependencies"]["tools"]
    assert without_description(openai) == [{"type": "env_var", "value": "GITHUB_TOKEN"}, MCP]
    own = document(release, "skillhub.yaml")
    assert set(own) == {"dependencies"}
    assert without_description(own["dependencies"]["tools"]) == [
        {"type": "program", "value": "gh"},
        {**MCP, "bearer_token_env_var": "GITHUB_TOKEN"},
    ]


def test_only_scripts_are_executable() -> None:
    scripts = {path.relative_to(SKILLS).as_posix() for path in SKILLS.glob("*/*/scripts/**/*") if path.is_file()}
    assert scripts == EXECUTABLE
    if os.name == "nt":
        pytest.skip("no execute bit on this system")
    marked = {path.relative_to(SKILLS).as_posix() for path in files(SKILLS) if path.stat().st_mode & stat.S_IXUSR}
    assert marked == EXECUTABLE


def test_git_stores_the_execute_bits() -> None:
    command = ["git", "-C", str(SKILLS), "ls-files", "--stage", "."]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("git is not here")
    rows = [line.split(maxsplit=3) for line in done.stdout.splitlines()]
    if not rows:
        pytest.skip("not a clone")
    assert {mode for mode, *_ in rows} == {"100644", "100755"}
    assert {path for mode, _, _, path in rows if mode == "100755"} == EXECUTABLE


@pytest.mark.parametrize("name", [name for name, versions in EXPECTED.items() if len(versions) > 1])
def test_releases_differ_in_text_and_scripts(name: str) -> None:
    old, new = (SKILLS / name / version for version in EXPECTED[name])
    before, after = ({path.relative_to(root).as_posix(): path for path in files(root)} for root in (old, new))
    assert set(before) < set(after)
    changed = {path for path in before if before[path].read_bytes() != after[path].read_bytes()}
    assert {"SKILL.md"} < changed and any(path.startswith("scripts/") for path in changed)
    assert set(before) - changed, "an update in which everything changed shows nothing"
    assert parts(old)[1] != parts(new)[1]

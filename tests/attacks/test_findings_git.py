"""Repositories that the lock or the intent of a clone names, on the command line."""

from __future__ import annotations

import json
import os

import pytest

from skillhub.disk.folders import remove_tree
from tests.support.gitrepos import Repo
from tests.support.here import Here, close_resources
from tests.support.web import Web

__all__ = ["close_resources"]
pytestmark = [pytest.mark.filterwarnings("ignore::ResourceWarning"), pytest.mark.usefixtures("close_resources")]
YES = ("--yes", "--allow-unsigned")
WAYS = (
    ("install",),
    ("install", "--frozen", *YES),
    ("install", "--dry-run"),
    ("sync",),
    ("update", "--check"),
    ("update", *YES),
    ("diff", "x"),
    ("diff", "--from-lock", "old.lock"),
    ("audit",),
)
TEAM = "git+ssh://git@git.example/team/skills.git"


def text(name, head=""):
    return f"---\nname: {name}\ndescription: Does {name}.\n{head}---\nDo it.\n".encode()


def locked(url, rev, tree):
    entry = {"capabilities": [], "requires": [], "size": 1, "source": f"git+{url}", "git": url, "rev": rev * 40}
    return json.dumps({"version": 1, "sources": {}, "skills": {"x": {**entry, "tree": f"sha256:{tree * 64}"}}})


@pytest.fixture
def shell(tmp_path):
    """A machine whose ssh leaves a mark when it runs."""
    shell = Here(tmp_path / "machine")
    ssh = shell.write("ssh", f'#!/bin/sh\ntouch "{shell.folder}/PWNED"\nexit 1\n')
    os.chmod(ssh, 0o755)
    shell.environ |= {"GIT_SSH": str(ssh)}
    return shell


@pytest.mark.parametrize("place", ["http", "ssh"])
def test_a_lock_or_an_intent_leads_git_to_no_local_host(place, shell):
    with Web() as web:
        url = {"http": web.url("/x"), "ssh": f"ssh://git@127.0.0.1:{web.port}/x"}[place]
        shell.write("project/skillhub.lock", locked(url, "b", "b"))
        shell.write("project/old.lock", locked(url, "a", "a"))
        for intent in ("", f'[skills]\nx = {{ git = "{url}" }}\n'):
            shell.write("project/skillhub.toml", intent)
            for words in WAYS:
                done = shell.run(*words)
                if words[0] != "audit" and "old.lock" not in words:
                    assert done.status == 5, (words, done.err)
                    assert f"skillhub install git+{url}" in done.err
        assert not web.connections
        assert not (shell.folder / "PWNED").exists()


@pytest.fixture
def team(tmp_path):
    """A machine with a skill of a private host, and the settings that another machine needs to reach the host."""
    repo = Repo(tmp_path / "repo")
    repo.commit({f"skills/{name}/SKILL.md": text(name) for name in ("x", "y")})
    first = Here(tmp_path / "first")
    first.write("home/.gitconfig", f'[url "{repo.url}"]\n\tinsteadOf = {TEAM.removeprefix("git+")}\n')
    assert first.run("install", TEAM, "--skill", "x", *YES).status == 0
    return first


def test_an_install_from_a_private_host_allows_the_host(team, tmp_path):
    clone = Here(team.copy(tmp_path / "clone").folder)
    for folder in (clone.hub, clone.project / ".agents"):
        remove_tree(str(folder))
    lock = (clone.project / "skillhub.lock").read_bytes()
    for words in (("install", "--frozen", *YES), ("install", *YES), ("sync",)):
        done = clone.run(*words)
        assert done.status == 5
        assert "expected a repository at an https URL" in done.err
        assert f"only this repository names it; to use it: skillhub install {TEAM}" in done.err
    assert clone.run("install", TEAM, "--skill", "x", *YES).status == 0
    assert (clone.project / "skillhub.lock").read_bytes() == lock
    for gone in ("data", "cache"):
        remove_tree(str(clone.hub / gone))
    assert clone.run("install", "--frozen", *YES).status == 0
    assert clone.run("update", "--check").status == 0


def test_a_patched_skill_is_restored_from_its_agreed_private_host(team):
    copy = team.project / ".agents/skills/x/SKILL.md"
    copy.write_text(copy.read_text() + "Do it well.\n")
    assert team.run("patch", "x", "--yes").status == 0
    for gone in ("data", "cache"):
        remove_tree(str(team.hub / gone))
    done = team.run("sync")
    assert done.status == 0, done.err
    assert team.run("verify").status == 0


def test_a_dependency_without_consent_is_asked_about(tmp_path, shell):
    repo = Repo(tmp_path / "repo")
    needs = b"dependencies:\n  tools:\n    - {type: skill, value: y}\n"
    repo.commit({"x/SKILL.md": text("x"), "x/agents/openai.yaml": needs, "y/SKILL.md": text("y")})
    assert shell.run("install", f"git+{repo.url}", "--skill", "x", *YES).status == 0
    lock = shell.lock()
    assert set(lock["skills"]) == {"x", "y"}
    del lock["skills"]["y"]
    shell.write("project/skillhub.lock", json.dumps(lock))
    for folder in (shell.hub, shell.project / ".agents"):
        remove_tree(str(folder))
    done = shell.run("install", "--json")
    assert done.status == 6, done.err
    assert {each["skill"] for each in done.json["questions"]} == {"x", "y"}
    assert not (shell.project / ".agents").exists()


def test_repositories_of_a_marketplace_are_checked_before_git_connects(tmp_path, shell):
    repo = Repo(tmp_path / "repo")
    plugins = [{"name": "p", "source": {"source": "url", "url": "https://host.invalid/p.git"}}]
    market = json.dumps({"plugins": plugins}).encode()
    repo.commit({".claude-plugin/marketplace.json": market, "skills/x/SKILL.md": text("x")})
    done = shell.run("install", f"git+{repo.url}", "--all", *YES, "--json")
    assert done.status == 0, done.err
    (left,) = [each for each in done.json["warnings"] if "plugin p" in each]
    assert "the host of the repository has no address" in left


def test_sync_reports_skills_without_consent_to_their_source(tmp_path, shell):
    """The same tree with another source is removed from agents' folders, with a message."""
    refs = []
    for name in ("one", "two"):
        repo = Repo(tmp_path / name)
        repo.commit({"x/SKILL.md": text("x")})
        refs.append(repo.url)
    assert shell.run("install", f"git+{refs[0]}", "--all", *YES).status == 0
    lock = (shell.project / "skillhub.lock").read_text()
    shell.write("project/skillhub.lock", lock.replace(refs[0], refs[1]))
    done = shell.run("verify")
    assert (done.status, "[origin-changed]" in done.out) == (1, True)
    done = shell.run("sync")
    assert (done.status, "not agreed to on this machine: x; skillhub install asks about" in done.err) == (0, True)
    assert not (shell.project / ".agents/skills/x").exists()
    assert shell.run("disable", "x").status == 0
    assert "nobody agreed" not in shell.run("sync").err

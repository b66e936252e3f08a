"""A source that changed after it was locked: a registry with another URL, or a site that became a registry."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from skillhub.disk.folders import remove_tree
from skillhub.formats.digest import Digest
from tests.support.cli import Shell
from tests.support.served import Served, online
from tests.support.site import WELL_KNOWN, current, entry, skill_md

YES = ("--yes", "--allow-unsigned", "--json")


@pytest.fixture
def pin(registry: Served) -> tuple[str, str]:
    return "--fingerprint", str(Digest.of(registry.root.read_bytes()))


@pytest.fixture
def docs(shell: Shell, registry: Served, pin: tuple[str, str], tmp_path: Path):
    """A machine with a skill of a site that then became a registry, trusted as one."""
    site = tmp_path / "site"
    data = skill_md("greeting")
    for path, held in ((WELL_KNOWN, current(entry("greeting", data, "/SKILL.md"))), ("/SKILL.md", data)):
        (site / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        (site / path[1:]).write_bytes(held)
    with online(site) as url:
        assert shell.run("source", "add", "docs", url, *YES).status == 0
        assert shell.run("install", "docs:greeting", *YES).status == 0
        shutil.copytree(registry.site, site, dirs_exist_ok=True)
        assert shell.run("source", "trust", "docs", *pin).status == 0
        yield shell


@pytest.fixture
def moved(shell: Shell, registry: Served, pin: tuple[str, str]):
    """A machine with a skill of a registry that then moved, added from its new URL."""
    with online(registry.site) as url:
        assert shell.run("source", "add", "acme", url, *pin).status == 0
        assert shell.run("install", "acme:greeting", *YES).status == 0
    assert shell.run("source", "remove", "acme").status == 0
    with online(registry.site) as url:
        assert shell.run("source", "add", "acme", url, *pin).status == 0
        yield shell


def test_a_skill_of_a_site_that_became_a_registry_can_be_disabled_and_removed(docs: Shell) -> None:
    assert docs.run("disable", "greeting").status == 0
    assert docs.run("remove", "greeting").status == 0
    assert docs.run("install", "docs:greeting", "--yes").status == 0
    assert docs.lock()["sources"]["docs"]["kind"] == "registry"


def test_a_site_that_became_a_registry_is_refused_with_a_hint_that_works(docs: Shell) -> None:
    for words in (["install"], ["update"], ["update", "--check"], ["sync"]):
        done = docs.run(*words, "--json")
        assert (done.status, done.error["code"]) == (5, "source-mismatch")
    remove, install = done.error["hint"].partition("skillhub ")[2].split(", then skillhub ")
    assert docs.run(*remove.split()).status == 0
    assert docs.run(*install.split(), "--yes").status == 0


def test_a_registry_is_identified_by_its_root_after_a_move(moved: Shell) -> None:
    for words in (["install", "--frozen"], ["sync"], ["verify"], ["update"], ["install"]):
        done = moved.run(*words, *(["--yes"] if words != ["verify"] else []))
        assert done.status == 0, done.err
    assert moved.run("disable", "greeting").status == 0
    assert moved.run("remove", "greeting").status == 0


def test_a_locked_skill_is_fetched_from_the_moved_registry(moved: Shell) -> None:
    remove_tree(str(moved.hub / "data"))
    lock = (moved.project / "skillhub.lock").read_bytes()
    assert moved.run("sync").status == 0
    assert moved.run("install", "--frozen", "--yes").status == 0
    assert (moved.project / "skillhub.lock").read_bytes() == lock


def test_a_new_lock_has_the_new_url_of_a_moved_registry_without_new_consent(moved: Shell, tmp_path: Path) -> None:
    assert moved.run("install", "acme:parting", "--yes").status == 0
    lock = moved.lock()
    url = lock["sources"]["acme"]["url"]
    assert all(each["url"].startswith(f"{url}/") for each in lock["skills"].values())
    assert moved.run("verify").status == 0
    again = moved.run("install", "--json")
    assert (again.status, again.json["changed"]) == (0, False), again.err
    clone = Shell(tmp_path / "clone")
    shutil.copy(moved.project / "skillhub.lock", clone.project)
    trusted = f"acme={moved.lock()['sources']['acme']['root']}"
    assert clone.run("install", "--yes", "--trust-source", trusted).status == 0


def test_attack_a_lock_with_the_same_root_and_another_url_is_refused(moved: Shell) -> None:
    """Artifacts are fetched from the user's URL of the registry; an artifact with another URL is refused."""
    lock = moved.lock()
    lock["skills"]["greeting"]["url"] = "http://127.0.0.1:9/archives/evil.zip"
    (moved.project / "skillhub.lock").write_text(json.dumps(lock))
    remove_tree(str(moved.hub / "data"))
    done = moved.run("install", *YES)
    assert (done.status, done.error["code"]) == (5, "source-mismatch")


def test_a_dry_run_of_trust_trusts_nothing(shell: Shell, registry: Served, pin: tuple[str, str]) -> None:
    before = shell.run("source", "list", "--json").json
    with online(registry.site) as url:
        (shell.project / "skillhub.toml").write_text(f'[sources.acme]\nurl = "{url}"\n')
        done = shell.run("source", "trust", "acme", *pin, "--dry-run")
    assert (done.status, done.out) == (0, f"would trust acme: {url}, root {pin[1]}, for this project alone\n")
    assert shell.run("source", "list", "--json").json == before

"""The user picks from the skills of all sources, and the picked skill is installed."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from skillhub.errors import SourceError
from skillhub.install.trusted_sources import listings, reference
from skillhub.model.index import Index, Release
from tests.support.gitrepos import Repo, files
from tests.support.world import World

PROMPT, ASK = "empty to stop: ", "[N]o: "


def test_a_picked_skill_is_asked_about_and_installed(shell):
    say = [(PROMPT, "release notes\n"), (PROMPT, "release-notes\n"), (ASK, "y\n")]
    done = shell.at_terminal("pick", say=say, SKILLHUB_PICKER="list")
    assert done.status == 0, done.out
    assert set(shell.lock()["skills"]) == {"release-notes"}
    assert (shell.project / ".agents/skills/release-notes/SKILL.md").exists()


@pytest.mark.parametrize("words", [("pick",), ("pick", "--json"), ("pick", "--yes")])
def test_pick_without_a_terminal_is_a_usage_error(shell, words):
    before = shell.files()
    assert shell.run(*words).status == 2
    assert shell.files() == before


def test_an_empty_choice_changes_nothing(shell):
    done = shell.at_terminal("pick", say=[(PROMPT, "\n")], SKILLHUB_PICKER="list")
    assert (done.status, "no skill was chosen" in done.out) == (0, True)
    assert not (shell.project / "skillhub.lock").exists()


def test_installed_skills_are_marked_and_several_skills_open_the_picker(shell):
    for each in ("pdf", "csv"):
        shell.skill(f"project/repo/{each}")
    assert shell.run("install", "./repo", "--skill", "pdf", "--yes", "--allow-unsigned").status == 0
    assert shell.run("install", "github:release-notes", "--yes").status == 0
    done = shell.at_terminal("install", "./repo", say=[(PROMPT, "\n")], TERM="dumb")
    assert (done.status, "  2  pdf  installed | Does" in done.out) == (2, True), done.out
    assert "  1  csv            | Does" in done.out
    done = shell.at_terminal("pick", say=[(PROMPT, "\n")], TERM="dumb", columns=120)
    assert "installed | Writes release" in done.out
    shell.skill("project/other/repo/pdf")
    shell.skill("project/other/repo/csv")
    done = shell.at_terminal("install", "./other/repo", say=[(PROMPT, "\n")], TERM="dumb")
    assert "pdf  name in use | " in done.out


def test_a_skill_installed_under_an_alias_is_marked_as_installed(shell):
    for each in ("one", "two"):
        repo = Repo(shell.folder / f"{each}.git")
        repo.commit(files(f"Notes of {each}.\n", "notes"))
        assert shell.run("source", "add", each, f"git+{repo.url}", "--yes", "--allow-unsigned").status == 0
    list_them = {"say": [(PROMPT, "notes\n"), (PROMPT, "\n")], "TERM": "dumb", "columns": 120}
    assert shell.run("install", "one:notes", "--yes", "--allow-unsigned").status == 0
    out = shell.at_terminal("pick", **list_them).out
    assert re.search(r"one:notes +installed +\| ", out), out
    assert re.search(r"two:notes +name in use +\| ", out), out
    assert shell.run("install", "two:notes", "--as", "other-notes", "--yes", "--allow-unsigned").status == 0
    assert re.search(r"two:notes +installed +\| ", shell.at_terminal("pick", **list_them).out)


def test_the_full_screen_picks_and_installs(shell):
    pytest.importorskip("prompt_toolkit")
    # Words filter, Tab marks, Esc shows all again, arrows move, Enter accepts.
    done = shell.at_terminal("pick", say=[("esc stops", "release notes\t\r"), (ASK, "y\n")])
    assert done.status == 0, done.out
    assert set(shell.lock()["skills"]) == {"release-notes"}
    assert done.raw.count(b"\x1b[?1049h") == done.raw.count(b"\x1b[?1049l") == 1
    for keys, status in (("\x04", 0), ("\x03", 130)):
        done = shell.at_terminal("pick", say=[("esc stops", keys)])
        assert (done.status, done.raw.count(b"\x1b[?1049l")) == (status, 1), done.out


class Listing:
    """An open registry that only lists these releases."""

    def __init__(self, *releases: Release) -> None:
        self.releases = releases

    def listing(self, text: str = "") -> Index:
        return Index({each.name: (each,) for each in self.releases})

    def advisories(self) -> None:
        """Return None: this registry publishes no advisories."""

    def cosigned_by(self, witnesses):
        """Return None: this registry has no log."""
        return frozenset()


def offered(world, **registries):
    def opened(source, *_):
        found = registries.get(source.alias)
        if found is None:
            raise SourceError("it cannot be reached")
        return found

    ports = world.ports()
    return listings(replace(ports, network=replace(ports.network, open_registry=opened)))


@pytest.fixture
def world(tmp_path):
    world = World(tmp_path)
    world.sources.add("acme", "https://skills.example", b"{}")
    return world


def release(name, **more):
    return Release(name=name, url=f"{name}.zip", **more)


def test_one_name_in_two_sources_is_listed_with_its_source(world):
    offer = offered(world, acme=Listing(release("pdf")), github=Listing(release("pdf"), release("csv")))
    assert [str(reference(each)) for each in offer.releases()] == ["github:csv", "acme:pdf", "github:pdf"]


def test_withdrawn_and_yanked_releases_are_not_offered(world):
    listing = Listing(release("gone", withdrawn="bad"), release("old", yanked="bug"), release("good"))
    assert [each.name for each in offered(world, acme=listing, github=Listing()).releases()] == ["good"]


def test_an_unreachable_source_is_reported(world):
    offer = offered(world, github=Listing(release("csv")))
    assert ([each.name for each in offer.releases()], offer.warnings) == (
        ["csv"],
        ("acme was left out: it cannot be reached",),
    )
    with pytest.raises(SourceError):
        offered(world)

"""Updates, installs over the network and repairs of a lock are interrupted; the next command repairs the project."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from skillhub.cli.network import OpenNetwork
from skillhub.edits.lock_merge import conflict, fix
from skillhub.errors import StateError
from skillhub.install.resolve import satisfies
from skillhub.model.lock import Lock
from tests.attacks.scene import Machine
from tests.edits.test_lock_merge import ONE, THREE, TWO, lock
from tests.install.test_faults import Case, check, left_over
from tests.support.faults import EVERY, KILLED, changes_of, forbidden, kill, no_space, run_with_fault, sample
from tests.support.gitrepos import Repo, program
from tests.support.here import Here, close_resources
from tests.support.registry import URL, Simulator
from tests.support.site import JSON, WELL_KNOWN, current, offer, skill_md
from tests.support.web import Web, answer
from tests.support.world import Answers

__all__ = ["close_resources"]
pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="the fault is put into a forked child"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.usefixtures("close_resources"),
]
HAPPENS = {kill: 5, no_space: 2, forbidden: 2}  # the number of steps to try, at most all
AGENTS = ("claude-code",)


class Reaching(Machine):
    """A machine that reads a registry in memory, and other places as the program does."""

    def ports(self, answers=None):
        network = OpenNetwork(self.home, self.sources, str(self.user_home))
        ports = super().ports(answers)
        return replace(ports, network=replace(ports.network, open_place=network.open_place))


class Upstream:
    """A registry, a repository and a site, all outside of the folder with the faults."""

    def __init__(self, tmp_path, web):
        self.hub = Simulator(tmp_path)
        self.hub.publish("hello")
        self.repo = Repo(tmp_path / "repo")
        self.commit("Do it.")
        self.web = web
        web.at(WELL_KNOWN, answer(current(*(offer(web, name) for name in ("one", "two"))), JSON))

    def commit(self, body, **more):
        self.repo.commit({
            "one/SKILL.md": skill_md("one", body), "two/SKILL.md": skill_md("two", body),
            "two/scripts/run.sh": program(b"#!/bin/sh\n"), **more,
        })  # fmt: skip

    def known_to(self, world):
        world.road = self.hub
        world.sources.add("acme", URL, self.hub.root)

    def of_registry(self, world):
        self.known_to(world)
        world.install("acme:hello", agents=AGENTS)
        self.hub.publish("hello", "1.1.0", **{"run.py": "print()\n"})

    def of_git(self, world):
        self.known_to(world)
        from_git(self)(world)
        self.commit("Do it otherwise.", **{"one/new.md": b"new\n"})


@pytest.fixture
def upstream(tmp_path):
    with Web() as web:
        yield Upstream(tmp_path, web)


def from_git(upstream):
    return lambda world: world.install(f"git+{upstream.repo.url}", every=True, agents=AGENTS)


def from_site(upstream):
    return lambda world: world.install(upstream.web.url(""), every=True, agents=AGENTS)


def update(upstream):
    return lambda world: world.update()


def steps(case, happen, label):
    """Return a few of the steps, with the last one: the last steps change the project."""
    found = sample(case.kinds, happen, label)
    return found if EVERY else found[:: -max(1, len(found) // HAPPENS[happen])]


CASES = {
    "update-registry": (Upstream.of_registry, update),
    "update-git": (Upstream.of_git, update),
    "install-git": (Upstream.known_to, from_git),
    "install-site": (Upstream.known_to, from_site),
}


@pytest.mark.parametrize("name", CASES)
def test_sync_and_the_command_repair_an_interruption_at_any_step(tmp_path, upstream, name):
    prepare, act = CASES[name]
    case = Case(tmp_path, lambda world: prepare(upstream, world), act(upstream), Reaching)
    assert case.before != case.after
    for label in case.interruptions({each: steps(case, each, name) for each in HAPPENS}):
        check(case, f"{name}, {label}")


def test_cut_off_at_any_step_an_update_loses_no_edit(tmp_path, upstream):
    def edited(world):
        upstream.of_registry(world)
        (world.copy("hello") / "SKILL.md").write_text("written by hand\n")

    case = Case(tmp_path, edited, lambda world: world.update(answers=Answers("yes")), Reaching)
    for label in case.interruptions({each: steps(case, each, "edit") for each in (kill, no_space)}):
        case.world.sync(Answers("yes"))
        kept = (path for path in case.world.base.rglob("*") if path.is_file())
        assert any(b"written by hand" in path.read_bytes() for path in kept), label
        assert case.world.problems() == []
        assert left_over(case.world) == []


OURS, THEIRS = lock(a=TWO, b=ONE, c=ONE), lock(a=THREE, b=ONE, d=ONE)
BOTH = lock(a=THREE, b=ONE, c=ONE, d=ONE)


@pytest.mark.parametrize("happen", HAPPENS, ids=lambda happen: happen.__name__)
def test_a_lock_is_repaired_completely_or_not_at_all(tmp_path, happen):
    clash = conflict(OURS.dump(), THEIRS.dump())

    def prepare(world):
        (world.base / "skillhub.lock").write_bytes(clash)

    world = Machine(tmp_path / "now")
    prepare(world)
    changes = changes_of(world.folder, lambda: fix(world.project, {}, satisfies))
    assert changes > 1
    for at in range(1, changes + 1):
        prepare(world)
        assert run_with_fault(world.folder, lambda: fix(world.project, {}, satisfies), at, happen) in (KILLED, 0, 7)
        assert (world.base / "skillhub.lock").read_bytes() in (clash, BOTH.dump())
        fix(world.project, {}, satisfies)
        assert world.lock() == BOTH


@pytest.mark.parametrize("happen", HAPPENS, ids=lambda happen: happen.__name__)
def test_a_lock_is_merged_for_git_completely_or_not_at_all(tmp_path, happen):
    shell = Here(tmp_path)

    def prepare():
        for name, each in (("base", lock(a=ONE, b=ONE)), ("ours", OURS), ("theirs", THEIRS)):
            shell.write(f"project/{name}", each.dump())

    def merge():
        assert shell.run("lock", "merge", "base", "ours", "theirs").status in (0, StateError.exit_code)

    prepare()
    changes = changes_of(tmp_path, merge)
    for at in range(1, changes + 1):
        prepare()
        assert run_with_fault(tmp_path, merge, at, happen) in (KILLED, 0)
        assert Lock.parse((shell.project / "ours").read_bytes()) in (OURS, BOTH)
        merge()
        assert Lock.parse((shell.project / "ours").read_bytes()) == BOTH

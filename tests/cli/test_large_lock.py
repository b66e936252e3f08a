"""Commands over a large lock: what they do grows with the number of skills, and not with its square."""

from __future__ import annotations

import json

import pytest

from skillhub.edits.merge import conflict, sides
from skillhub.formats.digest import Digest
from skillhub.model.lock import Lock, Locked, LockedSource
from tests.support.effort import is_linear, steps
from tests.support.here import Here

FEW = 140  # more than what is parsed twice is remembered for
TIMES = 4


def lock_of(number, kind="registry", version="1.0.0"):
    """Return a lock in which every second skill needs the one before it."""
    skills, sources = {}, {}
    for each in range(number):
        name = f"skill-{each:05}"
        digest = Digest.of(f"{name} {version}".encode())
        rest = {"tree": digest, "size": 1, "requires": (f"skill:skill-{each - 1:05}",) if each % 2 else ()}
        if kind == "local":
            skills[name] = Locked(source="local", path=f"mine/{name}", **rest)
        elif kind == "git":
            git = f"https://github.com/o/r{each}.git"
            skills[name] = Locked(source=f"github:o/r{each}", git=git, rev=digest.hex[:40], **rest)
        else:
            url = f"https://skills.example/{name}.zip"
            skills[name] = Locked(source="acme", version=version, url=url, digest=digest, **rest)
            sources["acme"] = LockedSource(kind="registry", url="https://skills.example", root=Digest.of(b"root"))
    return Lock(skills, sources)


COMMANDS = [
    ("list", "--json"),
    ("verify", "--json"),
    ("audit", "--offline", "--json"),
    ("audit", "--offline", "--from-lock", "skillhub.lock", "--json"),
    ("update", "--check", "--offline", "--json"),
    ("diff", "--from-lock", "skillhub.lock", "--json"),
    ("doctor", "--json"),
    ("catalog", "--json"),
    ("lock", "fix", "--json"),
]


@pytest.mark.parametrize("kind", ["registry", "git", "local"])
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_attack_a_lock_of_very_many_skills(tmp_path, words, kind):
    taken = []
    for number in (TIMES * FEW, FEW, TIMES * FEW):  # the first time things are made that stay
        shell = Here(tmp_path / f"{len(taken)}")
        (shell.project / ".git").mkdir()
        (shell.project / "skillhub.lock").write_bytes(lock_of(number, kind).dump())
        done = []
        taken.append(steps(lambda shell=shell, done=done: done.append(shell.run(*words))))
        assert done[0].status in (0, 1, 3), done[0].err
    _, few, many = taken
    # By a square law it were sixteen times, or what the rest leaves of that.
    assert many < 1.15 * TIMES * few


@pytest.mark.parametrize("form", ["cyclonedx", "spdx"])
def test_attack_a_lock_of_very_many_skills_is_exported(form):
    write = getattr(pytest.importorskip("skillhub.exchange.sbom", reason="needs skillhub[sbom]"), form)
    few, many = (steps(lambda number=number: write(lock_of(number), None)) for number in (FEW, TIMES * FEW))
    assert many < 1.15 * TIMES * few
    # What the libraries beside it do is not counted in steps.
    assert is_linear(lambda number: write(lock_of(number), None), 100)
    assert json.loads(write(lock_of(FEW), None))


def test_who_needs_a_skill_is_found_once_for_the_whole_lock():
    lock = lock_of(FEW)
    assert lock.dependents["skill-00000"] == ("skill-00001",)
    assert "skill-00001" not in lock.dependents
    assert lock.dependents is lock.dependents


def test_attack_two_locks_of_very_many_skills_that_differ_in_each():
    def both(number):
        one, other = (lock_of(number, version=version).dump() for version in ("1.0.0", "2.0.0"))
        assert sides(conflict(one, other)) == (one, other, None)

    both(1000)
    assert is_linear(both, 100)


@pytest.mark.parametrize("seed", range(20))
def test_long_texts_are_put_together_as_they_were(seed):
    one = b"".join(b"%d\n" % (each * seed % 7 if each % 5 else each) for each in range(400))
    other = b"".join(b"%d\n" % (each * seed % 11 if each % 3 else each) for each in range(390, -10, -1))
    if one != other:
        assert sides(conflict(one, other)) == (one, other, None)
    half = b"".join(one.splitlines(keepends=True)[::2])
    assert sides(conflict(one, half)) == (one, half, None)

"""A registry with another URL is the same one if it has the same root."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skillhub.formats.digest import Digest
from skillhub.install.admission import rebased_lock
from skillhub.install.candidates import is_same_place
from skillhub.model.lock import Lock

ELSEWHERE = "https://elsewhere.example/hub"


@pytest.mark.parametrize("is_same", [True, False])
def test_locked_skills_follow_a_moved_registry_with_the_same_root_only(world, hub, is_same):
    world.add_source("acme", hub)
    world.install("acme:hello")
    lock, ports = world.lock(), world.ports()
    source, entry = lock.sources["acme"], lock.skills["hello"]
    there = replace(source, url=ELSEWHERE, root=source.root if is_same else Digest.of(b"another"))
    moved = replace(entry, url=entry.url.replace(source.url, ELSEWHERE))
    assert moved != entry
    assert rebased_lock(lock, {"acme": there}).skills["hello"] == (moved if is_same else entry)
    world.project.write_lock(Lock({"hello": moved}, {"acme": there}).dump())
    assert is_same_place(entry, moved, ports.sources, world.lock()) == is_same

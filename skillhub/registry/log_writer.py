"""Write a registry's log: entries for what changed, tiles, proofs, and the signed checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from skillhub.errors import BadMetadata, Refused
from skillhub.model.index import Admission, Index, Release
from skillhub.trust.keys import PrivateKey
from skillhub.trust.log import (
    CHUNK,
    HASH,
    TOP,
    WIDTH,
    Checkpoint,
    LogHead,
    Node,
    bundle_of,
    entry,
    leaf_hash,
    nodes_of,
    proof_of,
    proof_path,
    read_bundle,
    release_entry,
    root_of,
    signed_checkpoint,
    tile_path,
)
from skillhub.trust.registry import publisher_of

CHECKPOINT = "checkpoint"


def logged(before: Index, after: Index, size: int, time: str) -> tuple[list[bytes], Index]:
    """Return the entries for what changes, and the index with the position of each release that is among them.

    Args:
        before: What was offered.
        after: What is going to be.
        size: The number of entries that the log has.
        time: Now, as documents have it.

    Raises:
        Refused: a skill is named as a file of the log, and would be a folder there.
    """
    if CHECKPOINT in after.skills:
        message = f"the name {CHECKPOINT} is taken by a file of the registry's log"
        raise Refused(message, hint="publish the skill under another name")
    found = list(_of_publishers(before, after, time))
    skills = dict(after.skills)
    for name in sorted(skills):
        old = {each.version: each for each in before.skills.get(name, ())}
        new = []
        for release in reversed(skills[name]):  # the oldest first
            known = old.get(release.version)
            if known is None or release.log is None or release_entry(known) != release_entry(release):
                new.append(replace(release, log=size + len(found)))
                found.append(release_entry(release))
            else:
                new.append(release)
            found += _recalled(known, release, time)
        skills[name] = tuple(reversed(new))
    return found, Index(skills, after.admissions)


def _recalled(old: Release | None, new: Release, time: str) -> Iterator[bytes]:
    about = {"name": new.name, "version": new.version, "publisher": new.publisher, "time": time}
    for kind in ("yanked", "withdrawn"):
        reason = getattr(new, kind)
        if reason != (getattr(old, kind) if old else None):
            yield entry(kind, **about, reason=reason)


def _of_publishers(before: Index, after: Index, time: str) -> Iterator[bytes]:
    owners = {name: publisher for publisher, each in before.admissions.items() for name in each.names}
    for publisher, admission in sorted(after.admissions.items()):
        old = before.admissions.get(publisher, Admission(publisher=publisher))
        had, has = ({*publisher_of(each).fingerprints} for each in (old, admission))
        about = {"publisher": publisher, "time": time}
        for each in sorted(has - had):
            yield entry("key-added", **about, fingerprint=each)
        for gone in admission.revoked:
            if gone not in old.revoked:
                yield entry("key-revoked", **about, fingerprint=gone.fingerprint, since=gone.since)
        for name in sorted(admission.names - old.names):
            yield entry("name", **about, name=name, former=owners.get(name))


def extended(
    head: LogHead | None, entries: Sequence[bytes], origin: str, served: Callable[[str], bytes], key: PrivateKey
) -> tuple[LogHead, dict[str, bytes]]:
    """Return the head of the log with these entries at its end, signed, and the files that are new.

    Args:
        head: The log's now; None of one that is to begin.
        entries: What is new.
        origin: The name of the log.
        served: Returns a file of the site.
        key: Signs.

    Raises:
        BadMetadata: the tiles of the site are not those of the head.
        StateError: one is gone.
    """
    size = head.checkpoint.size if head else 0
    leaves = [each for path in _paths(0, 0, size) for each in _hashes(served(path))]
    if head and (len(leaves) != size or root_of(nodes_of(leaves), size) != head.checkpoint.root):
        raise BadMetadata("the tiles do not lead to the checkpoint of the log", where=CHECKPOINT)
    bundled = read_bundle(served(_paths("entries", size - 1, size)[-1])) if size % WIDTH else []
    if [leaf_hash(each) for each in bundled] != leaves[size - size % WIDTH :]:
        raise BadMetadata("the last entries are not those of the log's tiles", where=CHECKPOINT)
    nodes = nodes_of([*leaves, *map(leaf_hash, entries)])
    end = size + len(entries)
    note = signed_checkpoint(Checkpoint(origin, end, root_of(nodes, end)), key)
    return LogHead.of(note, nodes), files([*bundled, *entries], nodes, size, end)


def files(entries: Sequence[bytes], nodes: Mapping[Node, bytes], start: int, end: int) -> dict[str, bytes]:
    """Return the files that a log of ``end`` entries has, and that one of ``start`` entries does not.

    Args:
        entries: The last ones, from the beginning of the bundle that ``start`` is in.
        nodes: All of its tree.
        start: The number of entries of before.
        end: The number of entries now.
    """
    found = {path: b"".join(nodes[level, each] for each in row) for path, level, row in _tiles(start, end)}
    for number, path in enumerate(_paths("entries", start, end)):
        found[path] = bundle_of(entries[number * WIDTH : (number + 1) * WIDTH])
    return found | {proof_path(chunk, end): proof_of(nodes, chunk, end) for chunk in _chunks(start, end)}


def paths(size: int) -> Iterator[str]:
    """Yield where the files of a log of this size are served."""
    yield from (path for path, *_ in _tiles(0, size))
    yield from _paths("entries", 0, size)
    yield from (proof_path(chunk, size) for chunk in _chunks(0, size))


def _tiles(start: int, end: int) -> Iterator[tuple[str, int, range]]:
    """Yield the path of each tile, the level of its hashes, and which of that level they are."""
    level = 0
    while end:
        for number, path in enumerate(_paths(level // 8, start, end), start // WIDTH):
            yield path, level, range(number * WIDTH, min((number + 1) * WIDTH, end))
        level, start, end = level + 8, start // WIDTH, end // WIDTH


def _paths(level: int | str, start: int, end: int) -> list[str]:
    """Return where the tiles of a row of ``end`` hashes are served that are not those of one of ``start``."""
    numbers = range(start // WIDTH, -(-end // WIDTH))
    return [tile_path(level, number, min(WIDTH, end - number * WIDTH)) for number in numbers]


def _chunks(start: int, end: int) -> range:
    return range(start >> TOP << (TOP - CHUNK), -(-end // (1 << CHUNK)))


def _hashes(data: bytes) -> list[bytes]:
    return [data[at : at + HASH] for at in range(0, len(data), HASH)]

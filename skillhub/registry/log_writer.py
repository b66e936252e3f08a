"""Write a registry's log: an entry for each change, tiles, proofs, and the signed checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from skillhub.errors import BadMetadata, Refused
from skillhub.model.index import Admission, Index, Release
from skillhub.trust import log
from skillhub.trust.keys import PrivateKey
from skillhub.trust.log import CHUNK, HASH, WIDTH, Checkpoint, LogHead, TreeNode
from skillhub.trust.publishers import publisher_of

CHECKPOINT = "checkpoint"


def log_changes(before: Index, after: Index, size: int, time: str) -> tuple[list[bytes], Index]:
    """Return an entry for each change, and the new index, in which each logged release has its position in the log.

    Args:
        before: The current index.
        after: The new index.
        size: The number of entries in the log.
        time: Now, in the form of documents.

    Raises:
        Refused: a skill has the name of a file of the log, so the skill's folder would replace that file.
    """
    if CHECKPOINT in after.skills:
        message = f"the name {CHECKPOINT} is taken by a file of the registry's log"
        raise Refused(message, hint="publish the skill under another name")
    new_entries = list(_publisher_entries(before, after, time))
    skills = dict(after.skills)
    for name in sorted(skills):
        by_version = {release.version: release for release in before.skills.get(name, ())}
        numbered = []
        for release in reversed(skills[name]):  # oldest first
            previous = by_version.get(release.version)
            if previous is None or release.log is None or log.release_entry(previous) != log.release_entry(release):
                numbered.append(replace(release, log=size + len(new_entries)))
                new_entries.append(log.release_entry(release))
            else:
                numbered.append(release)
            new_entries += _recall_entries(previous, release, time)
        skills[name] = tuple(reversed(numbered))
    return new_entries, Index(skills, after.admissions)


def _recall_entries(old: Release | None, new: Release, time: str) -> Iterator[bytes]:
    about = {"name": new.name, "version": new.version, "publisher": new.publisher, "time": time}
    for kind in ("yanked", "withdrawn"):
        reason = getattr(new, kind)
        if reason != (getattr(old, kind) if old else None):
            yield log.entry(kind, **about, reason=reason)


def _publisher_entries(before: Index, after: Index, time: str) -> Iterator[bytes]:
    owners = {name: publisher for publisher, admission in before.admissions.items() for name in admission.names}
    for publisher, admission in sorted(after.admissions.items()):
        old = before.admissions.get(publisher, Admission(publisher=publisher))
        old_fingerprints, new_fingerprints = ({*publisher_of(admitted).fingerprints} for admitted in (old, admission))
        about = {"publisher": publisher, "time": time}
        for fingerprint in sorted(new_fingerprints - old_fingerprints):
            yield log.entry("key-added", **about, fingerprint=fingerprint)
        for revocation in admission.revoked:
            if revocation not in old.revoked:
                yield log.entry("key-revoked", **about, fingerprint=revocation.fingerprint, since=revocation.since)
        for name in sorted(admission.names - old.names):
            yield log.entry("name", **about, name=name, former=owners.get(name))


def append_entries(
    head: LogHead | None, entries: Sequence[bytes], origin: str, served: Callable[[str], bytes], key: PrivateKey
) -> tuple[LogHead, dict[str, bytes]]:
    """Append entries to a log, and return its new signed head and the new files.

    Args:
        head: The current head; None for a new log.
        entries: The entries to append.
        origin: The name of the log.
        served: Returns a file of the site.
        key: The key of the log.

    Raises:
        BadMetadata: the tiles of the site do not match the head.
        StateError: a tile is missing.
    """
    size = head.checkpoint.size if head else 0
    nodes = _Nodes(head, served)
    bundled = log.read_bundle(served(_paths("entries", size - 1, size)[-1])) if size % WIDTH else []
    if [log.leaf_hash(data) for data in bundled] != [nodes[0, number] for number in range(size - size % WIDTH, size)]:
        raise BadMetadata("the last entries differ from the tiles of the log", where=CHECKPOINT)
    nodes.append(entries, size)
    end = size + len(entries)
    note = log.signed_checkpoint(Checkpoint(origin, end, log.root_of(nodes, end)), key)
    return LogHead.of(note, nodes), files([*bundled, *entries], nodes, size, end)


def consistency(head: LogHead, known_size: int, served: Callable[[str], bytes]) -> list[bytes]:
    """Return the consistency proof (RFC 9162, 2.1.4) from the log with the first ``known_size`` entries to this one.

    Raises:
        BadMetadata: the tiles of the site do not match the head.
        StateError: a tile is missing.
    """
    nodes, size = _Nodes(head, served), head.checkpoint.size
    proof: list[bytes] = []
    start = 0  # of the subtree with the last entry that was seen
    while known_size and known_size < size:
        half = 1 << ((size - 1).bit_length() - 1)
        if known_size <= half:
            proof.append(log.root_of(nodes, size - half, start + half))
            size = half
        else:
            proof.append(log.root_of(nodes, half, start))
            start, known_size, size = start + half, known_size - half, size - half
    return [*([log.root_of(nodes, size, start)] if start else []), *reversed(proof)]


class _Nodes(dict[TreeNode, bytes]):
    """The nodes of a log's tree: those of its head, and others that are read from tiles on access and verified."""

    def __init__(self, head: LogHead | None, served: Callable[[str], bytes]) -> None:
        super().__init__(head.nodes if head else {})
        self._size, self._served = head.checkpoint.size if head else 0, served
        self._complete(log.top_of(self._size) + 1, 0, self._size)

    def __missing__(self, node: TreeNode) -> bytes:
        """Return a node from its tile; refuse a tile that does not match the nodes above it, or the head."""
        row, below = divmod(node[0], 8)
        number = node[1] << below >> 8
        width = min(WIDTH, (self._size >> 8 * row) - number * WIDTH)
        if width < 1:
            raise KeyError(node)
        data = self._served(log.tile_path(row, number, width))
        hashes = [data[index : index + HASH] for index in range(0, len(data), HASH)]
        subtree = log.nodes_of(hashes, number * WIDTH)
        nodes = {(8 * row + level, index): digest for (level, index), digest in subtree.items()}
        tops = [(8 * row + level, (number * WIDTH >> level) + index) for level, index in log.subtrees(width)]
        if len(hashes) != width or any(nodes[top] != self[top] for top in tops):
            raise BadMetadata("the tiles do not lead to the checkpoint of the log", where=CHECKPOINT)
        self.update(nodes)
        return nodes[node]

    def append(self, entries: Sequence[bytes], size: int) -> None:
        """Add the leaves of these entries, and each subtree that they complete."""
        self.update({(0, size + number): log.leaf_hash(data) for number, data in enumerate(entries)})
        self._complete(1, size, size + len(entries))

    def _complete(self, level: int, start: int, end: int) -> None:
        for above in range(level, end.bit_length()):
            for index in range(start >> above, end >> above):
                self[above, index] = log.parent(self[above - 1, 2 * index], self[above - 1, 2 * index + 1])


def files(entries: Sequence[bytes], nodes: Mapping[TreeNode, bytes], start: int, end: int) -> dict[str, bytes]:
    """Return the files of a log of ``end`` entries that a log of ``start`` entries does not have.

    Args:
        entries: The last entries, from the beginning of the bundle that contains ``start``.
        nodes: All nodes of the tree.
        start: The number of entries before.
        end: The number of entries now.
    """
    new_files = {path: b"".join(nodes[level, index] for index in row) for path, level, row in _tiles(start, end)}
    for number, path in enumerate(_paths("entries", start, end)):
        new_files[path] = log.bundle_of(entries[number * WIDTH : (number + 1) * WIDTH])
    proofs = {log.proof_path(chunk, end): chunk for chunk in _chunks(start, end)}
    unchanged = {log.proof_path(chunk, start) for chunk in proofs.values() if chunk << CHUNK < start}
    return new_files | {
        path: log.proof_of(nodes, chunk, end) for path, chunk in proofs.items() if path not in unchanged
    }


def entries(size: int, served: Callable[[str], bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield the entries of a log of this size, each with its position."""
    yield from enumerate(data for path in _paths("entries", 0, size) for data in log.read_bundle(served(path)))


def paths(size: int) -> Iterator[str]:
    """Yield the path of each file of a log of this size."""
    yield from (path for path, *_ in _tiles(0, size))
    yield from _paths("entries", 0, size)
    yield from (log.proof_path(chunk, size) for chunk in _chunks(0, size))


def _tiles(start: int, end: int) -> Iterator[tuple[str, int, range]]:
    """Yield the path of each new tile, the level of its hashes, and their positions in that level."""
    level = 0
    while end:
        for number, path in enumerate(_paths(level // 8, start, end), start // WIDTH):
            yield path, level, range(number * WIDTH, min((number + 1) * WIDTH, end))
        level, start, end = level + 8, start // WIDTH, end // WIDTH


def _paths(level: int | str, start: int, end: int) -> list[str]:
    """Return the paths of the tiles that a row of ``end`` hashes has, and a row of ``start`` hashes does not."""
    numbers = range(start // WIDTH, -(-end // WIDTH))
    return [log.tile_path(level, number, min(WIDTH, end - number * WIDTH)) for number in numbers]


def _chunks(start: int, end: int) -> range:
    top = log.top_of(end)
    first = start >> top << (top - CHUNK) if top == log.top_of(start) else 0  # larger subtrees: all proofs are longer
    return range(first, -(-end // (1 << CHUNK)))

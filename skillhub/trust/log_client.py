"""The client of a registry's log: proves that releases are in it and that it only grew; and ``watch``."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from threading import RLock
from typing import Annotated, Any, NamedTuple

from skillhub.disk.state_file import StateDocument, StateFile
from skillhub.errors import BadLog, FormatError, NotFound, Rollback, WrongBytes, hinting
from skillhub.formats.digest import Digest
from skillhub.formats.document import Items, Members, Sha256, integer, part
from skillhub.formats.json import strict_json
from skillhub.model.index import Release
from skillhub.trust import log
from skillhub.trust.keys import PublicKey
from skillhub.trust.log import CHUNK, WIDTH, LogHead, NoteKey, TreeNode
from skillhub.trust.roles import LOG_SEEN

_HINT = (
    "restore the file; or delete it below tuf in the state folder, and trust the log as the registry shows it then"
)
_WATCHED_HINT = "restore the file; or delete it, and every entry is reported again"
_PROOF_CAP = 32 * ((1 << CHUNK) + 64)
_BUNDLE_CAP = WIDTH * (2 + 0xFFFF)


@part
@dataclass(frozen=True, slots=True)
class Watched:
    """The number of reported entries of a log, and the subjects to report: names, publishers, owners of keys."""

    size: Annotated[int, integer("a number of entries")] = 0
    about: Items[str] = ()


class LogSeenFile(StateDocument):
    """``log-seen.json``: the size and the tree hash of a registry's log, as last seen."""

    size: Annotated[int, integer("a number of entries")]
    root: Sha256


class LogWatchedFile(StateDocument):
    """``log-watched.json``: the reported entries and the subjects to report, by watched name."""

    watched: Members[str, Watched]


def _seen(document: LogSeenFile | None) -> tuple[int, Digest] | None:
    return (document.size, document.root) if document else None


Get = Callable[[str, int], bytes]


class AnnouncedLog(NamedTuple):
    """The log that a registry announces.

    Attributes:
        url: The URL of the registry, without a slash at the end.
        root: The first root of the registry, which names the log.
        key: The key of the log; None if the registry announces no log.
    """

    url: str
    root: Digest
    key: PublicKey | None


class RegistryLog:
    """The log that a registry has announced; safe for many threads.

    Attributes:
        is_bundled: Whether the answers come from a bundle.

    Args:
        announced: The log.
        folder: The folder of the registry's trusted metadata, and of ``log-seen.json``.
        get: Returns the file at a URL; its second argument limits the bytes.
        head: Returns the newest checkpoint that the registry's metadata signs.

    Raises:
        BadLog: the registry announced a log before, and announces none now.
        StateError: ``log-seen.json`` cannot be read.
    """

    def __init__(self, announced: AnnouncedLog, folder: str, get: Get, head: Callable[[], bytes]) -> None:
        url, root, key = announced
        if key is None:
            raise BadLog("the registry no longer announces its log", where=url, hint="ask its operator")
        self._url = url
        self._origin = log.origin_of(root)
        self._key = key
        self._fetch = get
        self.is_bundled = False
        self._fetch_head = head
        path = os.path.join(folder, LOG_SEEN)
        self._file = StateFile(path, "the last seen state of a log", _HINT, LogSeenFile, _seen)
        # This is read while the metadata is locked, so that it is no newer than this command's metadata.
        known = self._file.read()
        if known is None:
            # A search remembers the announcement of the log, too.
            known = 0, _digest(log.root_of({}, 0))
            with self._file.locked():
                self._file.write(size=0, root=known[1])
        self._seen = known
        self._mutex = RLock()
        self._nodes: dict[TreeNode, bytes] = {}
        self._chunks: set[int] = set()

    @property
    def head(self) -> LogHead:
        """The newest checkpoint: signed, and consistent with the one last seen.

        Raises:
            BadLog: the checkpoint is missing, forged, or of another log; or the log was rewritten.
            Rollback: the checkpoint is older than the one last seen.
            SourceError: the checkpoint cannot be fetched.
        """
        with self._mutex:
            return self._head

    @cached_property
    def _head(self) -> LogHead:
        with hinting(where=self._url, kinds=(BadLog, Rollback)):
            head = LogHead.parse(self._fetch_head())
            head.verify(self._origin, self._key)
            self._nodes, self._chunks = dict(head.nodes), set()
            self._compare(head)
        return head

    def require(self, release: Release) -> None:
        """Raise unless the log proves that it contains this release, at the position that the registry names.

        Raises:
            BadLog: the release is not there, or the proof is missing or wrong.
            Rollback, SourceError: as for ``head``.
        """
        with self._mutex:
            head, position = self.head, release.log
            label = f"{release.name} {release.version}"
            if position is None or position >= head.checkpoint.size:
                raise BadLog(f"{label} is not in the log of the registry", where=self._url)
            self._prove(position >> CHUNK, head)
            if self._nodes[0, position] != log.leaf_hash(log.release_entry(release)):
                raise BadLog(f"entry {position} of the log is not {label}", where=self._url)

    def cosigned_by(self, witnesses: Collection[str]) -> frozenset[str]:
        """Return the given witnesses, each ``NAME+HASH+KEY``, that have cosigned the newest checkpoint.

        Raises:
            FormatError: a text is no key of a witness.
            BadLog, Rollback, SourceError: as for ``head``; or a cosignature is invalid.
        """
        return frozenset(witness for witness in witnesses if NoteKey.parse(witness).signs(self.head.note))

    def entries(self, start: int = 0) -> Iterator[tuple[int, bytes]]:
        """Yield the position and the bytes of each entry from ``start`` on, after its proof.

        Raises:
            BadLog: an entry is missing, or is not the one in the tree.
            Rollback, SourceError: as for ``head``.
        """
        head = self.head
        size = head.checkpoint.size
        for number in range(start // WIDTH, -(-size // WIDTH)):
            width = min(WIDTH, size - number * WIDTH)
            path, whole = log.tile_path("entries", number, width), log.tile_path("entries", number)
            bundle = log.read_bundle(self._get(path, whole))
            for position, data in enumerate(bundle[:width], number * WIDTH):
                self._prove(position >> CHUNK, head)
                if self._nodes[0, position] != log.leaf_hash(data):
                    raise BadLog(f"entry {position} of the log is not the one of its tree", where=self._url)
                if position >= start:
                    yield position, data
            if len(bundle) < width:
                raise BadLog(f"expected {width} entries, found {len(bundle)}", where=self._url)

    def _compare(self, head: LogHead) -> None:
        """Compare the head with the one last seen, and remember it."""
        size, root = self._seen
        checkpoint = head.checkpoint
        if checkpoint.size < size:
            raise Rollback(f"the log has {checkpoint.size} entries, and had {size} before")
        if self.is_bundled and 0 < size < checkpoint.size:
            return  # a bundle has no proof of the entries between; the next server has to prove them
        if size:
            if size < checkpoint.size:
                self._prove((size - 1) >> CHUNK, head)
            if _digest(log.root_of(self._nodes, size)) != root:
                raise BadLog(f"the first {size} entries of the log differ from those seen before")
        if checkpoint.size > size:
            with self._file.locked():
                known = self._file.read()
                if known is None or known[0] < checkpoint.size:
                    self._file.write(size=checkpoint.size, root=_digest(checkpoint.root))

    def _prove(self, chunk: int, head: LogHead) -> None:
        if chunk not in self._chunks:
            path = log.proof_path(chunk, head.checkpoint.size)
            self._nodes |= log.proof_nodes(self._get(path), chunk, head)
            self._chunks.add(chunk)

    def _get(self, *paths: str) -> bytes:
        """Return the first file that is served at these paths; a full tile may have replaced a partial one."""
        cap = _BUNDLE_CAP if len(paths) > 1 else _PROOF_CAP
        for path in dict.fromkeys(paths):
            try:
                return self._fetch(f"{self._url}/{path}", cap)
            except NotFound:
                continue
            except WrongBytes as error:
                raise BadLog(f"a file of the log is too large: {error.message}", where=error.where) from error
        raise BadLog("a file of the log is missing", where=f"{self._url}/{paths[0]}")


class LogWatch:
    """The entries of a log about a name that were not reported yet; ``remember`` marks them as reported.

    Args:
        registry_log: The log.
        folder: The folder of the registry's trusted metadata.
        name: A publisher or a skill; empty for all.

    Raises:
        BadLog, Rollback: the log was tampered with.
        SourceError: the log cannot be fetched.
        StateError: ``log-watched.json`` cannot be read.
    """

    def __init__(self, registry_log: RegistryLog, folder: str, name: str) -> None:
        path, what = os.path.join(folder, "log-watched.json"), "the reported entries of a log"
        self._file = StateFile(path, what, _WATCHED_HINT, LogWatchedFile, lambda file: file.watched if file else {})
        self._name = name
        self._size = registry_log.head.checkpoint.size
        known = self._file.read().get(name)
        self._about = {*known.about} if known else {f"name:{name}", f"publisher:{name}"}
        if known and known.size > self._size:
            raise Rollback(f"the log has {self._size} entries, and had {known.size} before")
        rows = map(read_entry, registry_log.entries(known.size if known else 0))
        self.entries = [row for row in rows if self._is_watched_for(row)]
        self.is_known = bool(known or self.entries)

    def remember(self) -> None:
        """Mark these entries as reported.

        Raises:
            StateError: the disk refuses.
        """
        with self._file.locked():
            known = self._file.read()
            if self.is_known and known.get(self._name, Watched()).size < self._size:
                row = Watched(self._size, tuple(sorted(self._about)))
                self._file.write(watched={**known, self._name: row})

    def _is_watched_for(self, entry: Mapping[str, Any]) -> bool:
        publisher, name = entry.get("publisher"), entry.get("name")
        about = {f"name:{name}", f"publisher:{publisher}", f"publisher:{entry.get('former')}"}
        if entry["kind"].startswith("key-"):
            about.add(f"owner:{publisher}")
        if self._name and about.isdisjoint(self._about):
            return False
        # For a publisher, watch every skill that it ever owned; for a skill, the keys of every owner.
        if entry["kind"] == "name" and f"publisher:{publisher}" in self._about:
            self._about.add(f"name:{name}")
        elif entry["kind"] == "name" and name == self._name:
            self._about.add(f"owner:{publisher}")
        return True


def read_entry(numbered: tuple[int, bytes]) -> Mapping[str, Any]:
    """Return an entry and its position; values are texts and numbers."""
    where = f"entry {numbered[0]} of the log"
    try:
        row = strict_json(numbered[1], where, _BUNDLE_CAP)
    except FormatError as error:
        raise BadLog(error.message, where=where) from error
    if not isinstance(row, dict) or not isinstance(row.get("kind"), str):
        raise BadLog("expected an entry of a registry's log", where=where)
    texts = {key: value if isinstance(value, str) else str(value) for key, value in row.items() if value is not None}
    return {**texts, "position": numbered[0]}


def _digest(root: bytes) -> Digest:
    return Digest(f"sha256:{root.hex()}")

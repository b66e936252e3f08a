"""A registry's log as its clients and its watchers read it: what is offered is in it, and it only ever grew."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from threading import RLock
from typing import Annotated, Any, NamedTuple

from skillhub.disk.state_file import StateDocument, StateFile
from skillhub.errors import BadLog, FormatError, NotFound, Rollback, WrongBytes
from skillhub.formats.digest import Digest
from skillhub.formats.document import Items, Members, Sha256, integer, part
from skillhub.formats.json import strict_json
from skillhub.model.index import Release
from skillhub.trust.keys import PublicKey
from skillhub.trust.log import (
    CHUNK,
    WIDTH,
    LogHead,
    Node,
    NoteKey,
    leaf_hash,
    origin_of,
    proof_nodes,
    proof_path,
    read_bundle,
    release_entry,
    root_of,
    tile_path,
)
from skillhub.trust.roles import LOG_SEEN

_HINT = "restore the file; to trust the registry anew, remove the source and add it again"
_PROOF_CAP = 32 * ((1 << CHUNK) + 64)
_BUNDLE_CAP = WIDTH * (2 + 0xFFFF)


@part
@dataclass(frozen=True, slots=True)
class Watched:
    """How many entries of a log were looked at, and whom they have to be about: names, publishers, owners of keys."""

    size: Annotated[int, integer("a number of entries")] = 0
    about: Items[str] = ()


class LogSeenFile(StateDocument):
    """``log-seen.json``: the size of a registry's log when it was last seen, and the hash of its tree."""

    size: Annotated[int, integer("a number of entries")]
    root: Sha256


class LogWatchedFile(StateDocument):
    """``log-watched.json``: by what is watched, how many entries were told of, and whom entries have to be about."""

    watched: Members[str, Watched]


def _seen(document: LogSeenFile | None) -> tuple[int, Digest] | None:
    return (document.size, document.root) if document else None


Get = Callable[[str, int], bytes]


class AnnouncedLog(NamedTuple):
    """Which log a registry announces.

    Attributes:
        url: The registry's, without a slash at the end.
        root: The registry's first one, which names the log.
        key: The log's; None if the registry announces none.
    """

    url: str
    root: Digest
    key: PublicKey | None


class RegistryLog:
    """The log that a registry has announced; usable by many threads at once.

    Attributes:
        is_bundled: Whether a bundle answers.

    Args:
        announced: Which log it is.
        folder: Where the registry's trusted metadata is kept, and what was seen of the log.
        get: Returns the file at a URL, of so many bytes at most.
        head: Returns the newest checkpoint, as the registry's metadata has it.

    Raises:
        BadLog: a log was announced before, and is no more.
        StateError: what was seen before cannot be read.
    """

    def __init__(self, announced: AnnouncedLog, folder: str, get: Get, head: Callable[[], bytes]) -> None:
        url, root, key = announced
        if key is None:
            message = "the registry announced a log before, and announces none now"
            raise BadLog(message, where=url, hint="ask its operator; without its log a release could stay secret")
        self._url = url
        self._origin = origin_of(root)
        self._key = key
        self._fetch = get
        self.is_bundled = False
        self._fetch_head = head
        self._file = StateFile(os.path.join(folder, LOG_SEEN), "what was seen of a log", _HINT, LogSeenFile)
        # Read while the metadata is locked: it is of no newer state than this command's metadata.
        known = self._file.read(_seen)
        if known is None:
            # That the log was announced is remembered by whoever only searches, too.
            known = 0, _digest(root_of({}, 0))
            with self._file.locked():
                self._write(*known)
        self._seen = known
        self._mutex = RLock()
        self._nodes: dict[Node, bytes] = {}
        self._chunks: set[int] = set()

    @property
    def head(self) -> LogHead:
        """The newest checkpoint: signed, and consistent with the one that was seen before.

        Raises:
            BadLog: it is missing, forged, another log's, or the log was rewritten.
            Rollback: it is older than the one seen before.
            SourceError: it cannot be fetched.
        """
        with self._mutex:
            return self._head

    @cached_property
    def _head(self) -> LogHead:
        try:
            found = LogHead.parse(self._fetch_head())
            found.verify(self._origin, self._key)
            self._nodes, self._chunks = dict(found.nodes), set()
            self._compare(found)
        except (BadLog, Rollback) as error:
            error.where = error.where or self._url
            raise
        return found

    def require(self, release: Release) -> None:
        """Return if the log contains this release, at the position that the registry says.

        Raises:
            BadLog: it does not, or does not prove it.
            Rollback, SourceError: as for ``head``.
        """
        with self._mutex:
            head, position = self.head, release.log
            label = f"{release.name} {release.version}"
            if position is None or position >= head.checkpoint.size:
                raise BadLog(f"{label} is not in the log of the registry", where=self._url)
            self._prove(position >> CHUNK, head)
            if self._nodes[0, position] != leaf_hash(release_entry(release)):
                raise BadLog(f"entry {position} of the log is not {label}", where=self._url)

    def cosigned_by(self, witnesses: Collection[str]) -> frozenset[str]:
        """Return those of these witnesses, spelled ``NAME+HASH+KEY``, that have cosigned the newest checkpoint.

        Raises:
            FormatError: one is no witness's key.
            BadLog, Rollback, SourceError: as for ``head``; or a cosignature is invalid.
        """
        return frozenset(each for each in witnesses if NoteKey.parse(each).signs(self.head.note))

    def entries(self, start: int = 0) -> Iterator[tuple[int, bytes]]:
        """Yield the entries from this position on, each proved, with its position.

        Raises:
            BadLog: one is missing, or not what the tree has.
            Rollback, SourceError: as for ``head``.
        """
        head = self.head
        size = head.checkpoint.size
        for number in range(start // WIDTH, -(-size // WIDTH)):
            width = min(WIDTH, size - number * WIDTH)
            bundle = read_bundle(self._get(tile_path("entries", number, width), tile_path("entries", number)))
            for position, data in enumerate(bundle[:width], number * WIDTH):
                self._prove(position >> CHUNK, head)
                if self._nodes[0, position] != leaf_hash(data):
                    raise BadLog(f"entry {position} of the log is not the one of its tree", where=self._url)
                if position >= start:
                    yield position, data
            if len(bundle) < width:
                raise BadLog(f"expected {width} entries, found {len(bundle)}", where=self._url)

    def _compare(self, head: LogHead) -> None:
        """Hold the head against what was seen before, and remember it."""
        size, root = self._seen
        checkpoint = head.checkpoint
        if checkpoint.size < size:
            raise Rollback(f"the log has {checkpoint.size} entries, and had {size} before")
        if self.is_bundled and 0 < size < checkpoint.size:
            return  # It has no proof of what came between: the next server has to give that.
        if size:
            if size < checkpoint.size:
                self._prove((size - 1) >> CHUNK, head)
            if _digest(root_of(self._nodes, size)) != root:
                raise BadLog(f"the first {size} entries of the log differ from those seen before")
        if checkpoint.size > size:
            with self._file.locked():
                known = self._file.read(_seen)
                if known is None or known[0] < checkpoint.size:
                    self._write(checkpoint.size, _digest(checkpoint.root))

    def _write(self, size: int, root: Digest) -> None:
        self._file.write({"size": size, "root": root})

    def _prove(self, chunk: int, head: LogHead) -> None:
        if chunk not in self._chunks:
            path = proof_path(chunk, head.checkpoint.size)
            self._nodes |= proof_nodes(self._get(path), chunk, head)
            self._chunks.add(chunk)

    def _get(self, *paths: str) -> bytes:
        """Return the first of these files that is served; a full tile may have replaced a partial one."""
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
    """What is new in a log under a name since that was told of last; remembered when ``remember`` is called.

    Args:
        log: The log.
        folder: Where its registry's trusted metadata is kept.
        name: A publisher or a skill; empty for all.

    Raises:
        BadLog, Rollback: the log is not to be trusted.
        SourceError: it cannot be fetched.
        StateError: what was told of cannot be read.
    """

    def __init__(self, log: RegistryLog, folder: str, name: str) -> None:
        path = os.path.join(folder, "log-watched.json")
        self._file = StateFile(path, "what was told of a log", _HINT, LogWatchedFile)
        self._name = name
        self._size = log.head.checkpoint.size
        known = self._file.read(_watched).get(name)
        self._about = {*known.about} if known else {f"name:{name}", f"publisher:{name}"}
        if known and known.size > self._size:
            raise Rollback(f"the log has {self._size} entries, and had {known.size} before")
        found = map(read_entry, log.entries(known.size if known else 0))
        self.entries = [each for each in found if self._is_news(each)]
        self.is_known = bool(known or self.entries)

    def remember(self) -> None:
        """Tell of these entries no more.

        Raises:
            StateError: the disk refuses.
        """
        with self._file.locked():
            known = self._file.read(_watched)
            if self.is_known and known.get(self._name, Watched()).size < self._size:
                row = {"size": self._size, "about": sorted(self._about)}
                rows = {each: {"size": row.size, "about": [*row.about]} for each, row in known.items()}
                self._file.write({"watched": {**rows, self._name: row}})

    def _is_news(self, entry: Mapping[str, Any]) -> bool:
        publisher, name = entry.get("publisher"), entry.get("name")
        about = {f"name:{name}", f"publisher:{publisher}", f"publisher:{entry.get('former')}"}
        if entry["kind"].startswith("key-"):
            about.add(f"owner:{publisher}")
        if self._name and about.isdisjoint(self._about):
            return False
        # What a publisher ever had it watches further, and of a skill the keys of whoever has it.
        if entry["kind"] == "name" and f"publisher:{publisher}" in self._about:
            self._about.add(f"name:{name}")
        elif entry["kind"] == "name" and name == self._name:
            self._about.add(f"owner:{publisher}")
        return True


def _watched(document: LogWatchedFile | None) -> Mapping[str, Watched]:
    return document.watched if document else {}


def read_entry(found: tuple[int, bytes]) -> Mapping[str, Any]:
    """Return an entry and its position; values are texts and numbers."""
    where = f"entry {found[0]} of the log"
    try:
        said = strict_json(found[1], where, _BUNDLE_CAP)
    except FormatError as error:
        raise BadLog(error.message, where=where) from error
    if not isinstance(said, dict) or not isinstance(said.get("kind"), str):
        raise BadLog("expected an entry of a registry's log", where=where)
    texts = {key: value if isinstance(value, str) else str(value) for key, value in said.items() if value is not None}
    return {**texts, "position": found[0]}


def _digest(root: bytes) -> Digest:
    return Digest(f"sha256:{root.hex()}")

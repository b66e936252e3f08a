"""Where a skill comes from and who signed it: one value, one comparison, and one table of what each change means.

Both are agreed to besides the bytes, for they decide what an update brings: it comes from where the lock says, and is
held to the signer that the lock names.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, TypeAlias

from skillhub.errors import UsageError
from skillhub.formats.text import is_alias
from skillhub.model.lock import LOCAL, Locked, LockedSource, place_of
from skillhub.model.reference import authority, canonical, parse_remote

TYPE_CHECKING = False  # as type checkers know it: without `typing` a command starts 2 ms sooner

Change: TypeAlias = (
    "Literal['source', 'url', 'host', 'plugin', 'path', 'reference', 'version', 'commit', 'root', 'address',"
    " 'signer', 'signed']"
)
# Columns: a new version against the lock (`install`, `update`, `diff`); the lock against what was agreed to here
# (`install`, `verify`); a merge of two locks; an audit against an earlier lock. The host is an artifact's, for which
# its source vouches; the address a registry's, which is known by its root; the reference a branch, a tag or a digest
# that was asked for, or another spelling of the place; `signed` is what nobody had signed before.
LOCK, RECORD, MERGE, AUDIT = range(4)
_ELSEWHERE = ("source-mismatch", "question", "source", "origin-changed")
MEANING: dict[Change, tuple[str, str, str, str]] = {
    "source": _ELSEWHERE,
    "url": _ELSEWHERE,
    "plugin": _ELSEWHERE,
    "path": _ELSEWHERE,
    "root": ("source-mismatch", "source-mismatch", "source", "origin-changed"),
    "host": ("", "question", "source", "origin-changed"),
    "address": ("", "", "source", "origin-changed"),
    "reference": ("", "question", "", ""),
    "version": ("", "", "", ""),
    "commit": ("", "", "", ""),
    "signer": ("signer-changed", "signer-changed", "signer", "signer-changed"),
    "signed": ("", "question", "signer", ""),
}


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a skill comes from and who signed it; two versions from one place by one publisher are equal.

    Attributes:
        source: As the lock has it; of an alias its kind.
        server: The URL of the repository or of the alias, or the host of the artifact.
        path: The folder of the repository, or the place on this machine.
        signers: Kind and fingerprint of each, whatever they are called.
        root: Of the registry behind an alias.
        version: Like ``commit`` not known of what was agreed to: there the tree says it.
    """

    source: str
    server: str
    path: str
    signers: tuple[str, ...]
    root: str = ""
    version: str = field(default="", compare=False)
    commit: str = field(default="", compare=False)

    @classmethod
    def of(cls, entry: Locked) -> Provenance:
        """Return what an entry of the lock says."""
        server = entry.git or authority(entry.url or "")
        signers = signers_of(entry.signed_by)
        return cls(entry.source, server, entry.path or "", signers, "", entry.version or "", entry.rev or "")

    @classmethod
    def of_source(cls, source: LockedSource) -> Provenance:
        """Return what the lock says of an alias."""
        return cls(source.kind, source.url, "", (), source.root or "")

    def changes(self, now: Provenance) -> frozenset[Change]:
        """Return what differs, each fact by its name."""
        facts: tuple[Change, ...] = ("path", "root", "version", "commit")
        found = {each for each in facts if getattr(self, each) != getattr(now, each)}
        if self.source != now.source:
            parts: tuple[Change, ...] = ("source", "reference", "plugin")
            pairs = zip(parts, _parts(self.source), _parts(now.source), strict=True)
            found |= {part for part, was, is_now in pairs if was != is_now} or {"reference"}
        if self.server != now.server:
            found.add(self._server_change(now))
        if self.signers != now.signers:
            found.add("signer" if self.signers else "signed")
        return frozenset(found)

    def means(self, now: Provenance, to: int) -> set[str]:
        """Return what the changes mean ``to`` who asks: cells of ``MEANING``, none that are empty."""
        return set() if self == now else {MEANING[each][to] for each in self.changes(now)} - {""}

    def _server_change(self, now: Provenance) -> Change:
        if _spelled(self.server) == _spelled(now.server):
            return "reference"
        if self.root == now.root != "":
            return "address"
        return "url" if "://" in self.server + now.server else "host"

    def against(self, other: Provenance) -> tuple[str, str]:
        """Return the words that tell the one from the other."""
        if (self.source, self.server, self.path) == (other.source, other.server, other.path):
            return self._by(), other._by()
        if self.signers == other.signers:
            return f"from {self.place}", f"from {other.place}"
        return f"from {self.place}, {self._by()}", f"from {other.place}, {other._by()}"

    @property
    def place(self) -> str:
        """Where it is from, for a person."""
        server = f" at {self.server}" if self.server else ""
        return f"{self.source}{server}{f' ({self.path})' if self.path else ''}"

    def _by(self) -> str:
        return f"as signed by {', '.join(self.signers) or 'nobody'}"


def is_same_source(one: LockedSource, other: LockedSource) -> bool:
    """Say whether two mean one source: a registry is known by its root alone, a site by its URL."""
    return not Provenance.of_source(one).means(Provenance.of_source(other), LOCK)


@lru_cache(maxsize=256)  # few publishers sign the many skills of a lock
def signers_of(signed_by: tuple[str, ...]) -> tuple[str, ...]:
    """Return what tells these signers from others, whatever they are called: kind and fingerprint of each."""
    return tuple(sorted({":".join(each.split(":", 3)[:3]) for each in signed_by}))


@lru_cache(maxsize=256)  # the many skills of a lock are from few places
def _parts(source: str) -> tuple[str, str, str]:
    """Return the place, the branch, tag or digest that was asked for there, and the plugin."""
    place = place_of(source)
    plugin = source.removeprefix(place)
    if place == LOCAL or is_alias(place):
        return place, "", plugin
    try:
        ref = parse_remote(place)
    except UsageError:  # a record is no lock: what stands there was not held to be a reference
        return place, "", plugin
    return canonical(ref.place), ref.source.removeprefix(ref.place), plugin


def _spelled(server: str) -> str:
    """Return one spelling of a URL, or of a host."""
    return canonical(server) if "://" in server else authority(canonical(f"https://{server}"))

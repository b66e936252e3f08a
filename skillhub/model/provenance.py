"""Where a skill comes from and who signed it, what each change of that means, and what else differs between versions.

Both are agreed to besides the bytes, for they decide what an update brings: it comes from where the lock says, and is
held to the signer that the lock names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any, Literal, TypeAlias

from skillhub.errors import UsageError
from skillhub.formats.text import is_alias, word
from skillhub.model.lock import LOCAL, Locked, LockedSource, place_of, shown_signers
from skillhub.model.reference import authority, canonical, parse_remote
from skillhub.model.tree import Listing
from skillhub.model.version import is_version, precedence

Change: TypeAlias = Literal[
    "source", "url", "host", "plugin", "path", "reference", "version", "commit", "root", "address", "signer", "signed"
]
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
        path: The folder of the repository, or the place on this machine; of an alias without either, its own name.
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
        path = entry.path or entry.name or ""
        return _known(entry.source, entry.git, entry.url or "", path, entry.signed_by, (entry.version, entry.rev))

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
        return f"signed by {', '.join(self.signers)}" if self.signers else "unsigned"


def is_same_source(one: LockedSource, other: LockedSource) -> bool:
    """Say whether two mean one source: a registry is known by its root alone, a site by its URL."""
    return not Provenance.of_source(one).means(Provenance.of_source(other), LOCK)


@lru_cache(maxsize=1 << 14)  # each skill of a lock is asked where it is from over and over
def _known(
    source: str, git: str | None, url: str, path: str, signed_by: tuple[str, ...], at: tuple[str | None, str | None]
) -> Provenance:
    version, commit = at
    server = git or authority(url)
    return Provenance(source, server, path, signers_of(signed_by), "", version or "", commit or "")


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


# What differs between two versions of a skill: what an update would bring, in the words of the contract.


@dataclass(frozen=True, slots=True)
class Delta:
    """Names that came, went, or stayed with another content; each sorted."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    @classmethod
    def of_names(cls, before: Iterable[str], after: Iterable[str]) -> Delta:
        """Return what came and what went."""
        old, new = set(before), set(after)
        return cls(tuple(sorted(new - old)), tuple(sorted(old - new)))

    @classmethod
    def of_files(cls, before: Listing, after: Listing) -> Delta:
        """Return what differs between two trees, execute bits included."""
        names = cls.of_names(before, after)
        changed = (path for path in before if path in after and before[path] != after[path])
        return cls(names.added, names.removed, tuple(sorted(changed)))


@dataclass(frozen=True, slots=True)
class Changes:
    """From one locked version to another.

    Attributes:
        files: None where the files of one of the two are not known.
        vouchers: Of each of the two, the registry that says who signed it, where it is none of the user's.
    """

    before: Locked
    after: Locked
    files: Delta | None
    capabilities: Delta
    requires: Delta
    vouchers: tuple[str | None, str | None] = (None, None)

    @classmethod
    def between(cls, before: Locked, after: Locked, old: Listing | None, new: Listing | None) -> Changes:
        """Compare two entries, and their listings where both are known."""
        files = Delta.of_files(old, new) if old is not None and new is not None else None
        return cls(
            before,
            after,
            files,
            Delta.of_names(before.capabilities, after.capabilities),
            Delta.of_names(before.requires, after.requires),
        )

    @property
    def is_downgrade(self) -> bool:
        """Whether the version goes down, by SemVer's precedence."""
        old, new = self.before.version or "", self.after.version or ""
        return is_version(old) and is_version(new) and precedence(new) < precedence(old)

    def lines(self, most: int | None = None, more: str = "") -> list[str]:
        """Return the facts for a person, one to a line, then so many files, and how ``more`` are seen."""
        return [*self.facts(), *self.paths(most, more)]

    def paths(self, most: int | None = None, more: str = "") -> list[str]:
        """Return the files that came, went or changed, at most so many; then how many more, and how they are seen."""
        files = self.files or Delta()
        marked = (("+", files.added), ("-", files.removed), ("~", files.changed))
        found = [f"{mark} {word(path)}" for mark, paths in marked for path in paths]
        left = len(found[most:]) if most is not None else 0
        return [*found[:most], f"and {left} more: {more}"] if left else found

    def facts(self) -> list[str]:
        """Return what differs besides the files."""
        found = []
        if self.before.version != self.after.version:
            note = " (a downgrade)" if self.is_downgrade else ""
            found.append(f"version {word(self.before.version or '-')} -> {word(self.after.version or '-')}{note}")
        if self.before.source != self.after.source:
            found.append(f"source {word(self.before.source)} -> {word(self.after.source)}")
        if self.before.rev != self.after.rev:
            found.append(f"commit {self.before.rev} -> {self.after.rev}")
        if self.before.patch != self.after.patch:
            found.append(f"patch {_patch(self.before)} -> {_patch(self.after)}")
        if self.before.signed_by != self.after.signed_by:
            was, now = map(shown_signers, (self.before.signed_by, self.after.signed_by), self.vouchers)
            found.append(f"signed by {was} -> {now}")
        for label, names in (("it can now", self.capabilities), ("it needs now", self.requires)):
            found += [f"{label}: {', '.join(map(word, names.added))}"] if names.added else []
            found += [f"{label} no longer: {', '.join(map(word, names.removed))}"] if names.removed else []
        return found

    def to_json(self) -> dict[str, Any]:
        """Return what ``update`` adds to a SKILL."""
        names = {key: {"added": each.added, "removed": each.removed} for key, each in self._names.items()}
        changes = {"files": asdict(self.files or Delta()), **names}
        return {"from_version": self.before.version, "from_tree": self.before.tree, "changes": changes}

    @property
    def _names(self) -> dict[str, Delta]:
        return {"capabilities": self.capabilities, "requires": self.requires}


def _patch(entry: Locked) -> str:
    return word(entry.patch.path) if entry.patch else "none"


# What became of the sources of a lock: added, removed, at another URL, of another root.


@dataclass(frozen=True, slots=True)
class SourceChange:
    """One source before and after; None where it is not there."""

    alias: str
    before: LockedSource | None
    after: LockedSource | None

    @property
    def status(self) -> Literal["added", "removed", "changed"]:
        """What became of it."""
        if self.before is None or self.after is None:
            return "added" if self.before is None else "removed"
        return "changed"

    @property
    def line(self) -> str:
        """The fact for a person, in one line."""
        if self.before is None or self.after is None:
            return f"source {self.alias} {self.status}: {self.after or self.before}"
        what = [
            *(["URL"] if self.before.url != self.after.url else ()),
            *(["root"] if self.before.root != self.after.root else ()),
        ]
        return f"source {self.alias} has another {' and '.join(what)}: {self.before} -> {self.after}"

    def to_json(self) -> dict[str, Any]:
        """Return the change as data."""
        sides = {key: each and asdict(each) for key, each in (("before", self.before), ("after", self.after))}
        return {"name": self.alias, "status": self.status, **sides}


def source_changes(before: Mapping[str, LockedSource], after: Mapping[str, LockedSource]) -> tuple[SourceChange, ...]:
    """Return what differs, by alias."""
    return tuple(
        SourceChange(alias, before.get(alias), after.get(alias))
        for alias in sorted({*before, *after})
        if before.get(alias) != after.get(alias)
    )

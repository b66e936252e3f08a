"""What differs between two versions of a skill, and between the sources of two locks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from skillhub.formats.text import word
from skillhub.model.lock import Locked, LockedSource, spelled
from skillhub.model.tree import Listing
from skillhub.model.version import is_version, precedence

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
            was, now = map(spelled, (self.before.signed_by, self.after.signed_by), self.vouchers)
            found.append(f"signed by {was} -> {now}")
        for label, names in (("it can now", self.capabilities), ("it needs now", self.requires)):
            found += [f"{label}: {', '.join(map(word, names.added))}"] if names.added else []
            found += [f"{label} no longer: {', '.join(map(word, names.removed))}"] if names.removed else []
        return found

    def to_json(self) -> dict[str, Any]:
        """Return what ``update`` adds to a SKILL."""
        files = self.files or Delta()
        return {
            "from_version": self.before.version,
            "from_tree": self.before.tree,
            "changes": {
                "files": {"added": files.added, "removed": files.removed, "changed": files.changed},
                "capabilities": _names(self.capabilities),
                "requires": _names(self.requires),
            },
        }


def _names(delta: Delta) -> dict[str, Any]:
    return {"added": delta.added, "removed": delta.removed}


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
        return {"name": self.alias, "status": self.status, "before": _facts(self.before), "after": _facts(self.after)}


def source_changes(before: Mapping[str, LockedSource], after: Mapping[str, LockedSource]) -> tuple[SourceChange, ...]:
    """Return what differs, by alias."""
    return tuple(
        SourceChange(alias, before.get(alias), after.get(alias))
        for alias in sorted({*before, *after})
        if before.get(alias) != after.get(alias)
    )


def _facts(source: LockedSource | None) -> dict[str, Any] | None:
    return {"kind": source.kind, "url": source.url, "root": source.root} if source else None

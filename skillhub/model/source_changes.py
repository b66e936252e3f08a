"""What became of the sources of a lock: added, removed, at another URL, of another root."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from skillhub.model.lock import LockedSource


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
        return {
            "name": self.alias,
            "status": self.status,
            "before": _facts(self.before),
            "after": _facts(self.after),
        }


def source_changes(
    before: Mapping[str, LockedSource], after: Mapping[str, LockedSource]
) -> tuple[SourceChange, ...]:
    """Return what differs, by alias."""
    return tuple(
        SourceChange(alias, before.get(alias), after.get(alias))
        for alias in sorted({*before, *after})
        if before.get(alias) != after.get(alias)
    )


def _facts(source: LockedSource | None) -> dict[str, Any] | None:
    return {"kind": source.kind, "url": source.url, "root": source.root} if source else None

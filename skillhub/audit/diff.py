"""Diff: what was edited by hand, what an update would change, what a change of the lock did; nothing is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from skillhub.edits.edited import read_edited
from skillhub.edits.patch import difference, text_of
from skillhub.errors import Forbidden, NotFound, SecurityError, SourceError
from skillhub.install.candidates import hold_to_lock
from skillhub.install.context import LeftOut, Ports, State, read_state, wanted_of
from skillhub.install.gather import carried
from skillhub.install.links import Linker, refuse_unknown
from skillhub.install.obtain import from_lock
from skillhub.install.resolve import resolve_wanted
from skillhub.install.update import wanted_under
from skillhub.model.changes import Changes
from skillhub.model.lock import Lock, Locked
from skillhub.model.reference import Named
from skillhub.model.tree import SIGNATURE, File, Tree
from skillhub.project.intent import Intent

_Vouchers = tuple[str | None, str | None]  # who says who signed, before and after


@dataclass(frozen=True, slots=True)
class Edit:
    """What a person changed in their copies of a skill.

    Attributes:
        paths: The copies that were changed alike, relative to the project or the user's home.
        patch: The text that differs from what is locked, for ``patch -p1``.
        whole: Files that differ and that no patch can hold.
    """

    paths: tuple[str, ...]
    patch: str
    whole: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the edit as data."""
        return {"paths": list(self.paths), "patch": self.patch, "binary": list(self.whole)}


@dataclass(frozen=True, slots=True)
class Diff:
    """One skill before and after.

    Attributes:
        before: What the lock had; None of a skill that came.
        after: What it would have, or has; None of one that went.
        changes: What differs; None unless both are there.
        patch: The text that differs, for ``patch -p1``.
        whole: Files that differ and that no patch can hold.
        notes: What could not be compared, and why.
        edits: What was changed by hand here, and has no part in all that is said above.
    """

    name: str
    before: Locked | None
    after: Locked | None
    changes: Changes | None = None
    patch: str = ""
    whole: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = ()

    @property
    def status(self) -> Literal["added", "removed", "changed", "same"]:
        """What became of it."""
        if self.before is None or self.after is None:
            return "added" if self.before is None else "removed"
        return "changed" if self.before != self.after else "same"

    def to_json(self) -> dict[str, Any]:
        """Return the differences as data."""
        delta = self.changes.to_json() if self.changes else {}
        return {
            "name": self.name,
            "status": self.status,
            "before": _facts(self.before),
            "after": _facts(self.after),
            "changes": delta.get("changes"),
            "patch": self.patch,
            "binary": list(self.whole),
            "notes": list(self.notes),
            "edits": [each.to_json() for each in self.edits],
        }


def _facts(entry: Locked | None) -> dict[str, Any] | None:
    if entry is None:
        return None
    return {
        "version": entry.version,
        "tree": entry.tree,
        "source": entry.source,
        "origin": entry.origin,
        "signed_by": list(entry.signed_by),
    }


def diff(ref: Named, ports: Ports) -> Diff:
    """Compare a locked skill with the newest version that the intent allows, or with the one that ``ref`` names.

    Raises:
        NotFound: it is not locked, or there is no such version.
        SecurityError: what is offered is from elsewhere, by another signer, or not what was announced.
        SourceError: it cannot be had.
        Forbidden: a policy forbids where it is from.
    """
    state = read_state(ports)
    refuse_unknown([ref.name], state.lock.skills, ports.project.scope)
    entry = state.lock.skills[ref.name]
    wanted = wanted_under(ref.name, entry, state)
    if ref.range is not None:
        if not entry.named:
            raise NotFound(f"{entry.source} has no versions to choose from", where=str(ref))
        wanted = replace(wanted_of(entry), version=ref.range)
    found = resolve_wanted(ref.name, wanted, state, ports).acquisition.run()
    hold_to_lock(found, entry, ports.project.scope)
    whole = carried(found, entry, ports)
    notes = (whole.message,) if isinstance(whole, LeftOut) else ()
    found = found if isinstance(whole, LeftOut) else whole
    trees = _tree(ref.name, entry, state, ports), found.tree
    compared = _compared(ref.name, entry, found.entry, trees, (ports.voucher(entry), found.voucher))
    return replace(compared, notes=notes)


def edits_of(name: str, ports: Ports) -> tuple[Edit, ...]:
    """Compare the copies of a locked skill with what was put there; equal edits are one.

    Raises:
        NotFound: it is not locked.
        StateError: a copy cannot be read, or holds too much.
        SecurityError, SourceError, Forbidden: the store has lost what was put there, and it cannot be had again.
    """
    state = read_state(ports)
    refuse_unknown([name], state.lock.skills, ports.project.scope)
    entry, record = state.lock.skills[name], state.records.skills.get(name)
    if record is None or not record.enabled:
        return ()
    base = ports.store.read(record.tree) or _tree(name, entry, state, ports)
    places = Linker(ports.project, ports.store).plan(name, record.links, record.link, base.listing, record)
    found: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for step in places.steps:
        if step.path in places.edited:
            now = read_edited(step.path, ports.store.root, ports.project)
            found.setdefault(_differing(base, now), []).append(step.link)
    return tuple(Edit(tuple(paths), patch, whole) for (patch, whole), paths in found.items())


def diff_locks(old: Lock, names: Sequence[str], ports: Ports) -> list[Diff]:
    """Compare another state of the lock with the present one, skill by skill; equal ones are left out.

    The trees are taken from the store, else fetched and verified; where that fails or a policy forbids it,
    what the locks say is compared.

    Raises:
        FormatError: the present lock or intent is malformed.
    """
    state = State(ports.project.lock(), Intent(), ports.project.records())
    new = state.lock
    found = []
    for name in sorted({*old.skills, *new.skills}.intersection(names or (*old.skills, *new.skills))):
        before, after = old.skills.get(name), new.skills.get(name)
        if before is None or after is None:
            found.append(Diff(name, before, after))
        elif before != after:
            vouchers = ports.voucher(before, old), ports.voucher(after, new)
            found.append(_of_entries(name, before, after, state, ports, vouchers))
    return found


def _of_entries(name: str, before: Locked, after: Locked, state: State, ports: Ports, vouchers: _Vouchers) -> Diff:
    trees: list[Tree | None] = []
    notes = []
    for entry in (before, after):
        try:
            trees.append(_tree(name, entry, state, ports))
        except (SourceError, SecurityError, Forbidden) as error:
            trees.append(None)
            notes.append(f"the files of {entry.version or entry.tree} are not compared: {error.message}")
    return replace(_compared(name, before, after, (trees[0], trees[1]), vouchers), notes=tuple(notes))


def _tree(name: str, entry: Locked, state: State, ports: Ports) -> Tree:
    """Return the files of an entry; who reviews a lock does not agree to it, so it is reached with care."""
    record = state.records.skills.get(name)
    is_mine = record is not None and record.is_of(entry)
    return ports.store.read(entry.tree) or from_lock(name, entry, ports, agreed=is_mine, scanned=False).tree


def _compared(
    name: str, before: Locked, after: Locked, trees: tuple[Tree | None, Tree | None], vouchers: _Vouchers
) -> Diff:
    old, new = trees
    if old is None or new is None:
        changes = Changes.between(before, after, None, None)
        return Diff(name, before, after, replace(changes, vouchers=vouchers))
    changes = replace(Changes.between(before, after, old.listing, new.listing), vouchers=vouchers)
    return Diff(name, before, after, changes, *_differing(old, new))


def _differing(old: Mapping[str, File], new: Mapping[str, File]) -> tuple[str, tuple[str, ...]]:
    """Return what a person can read of what differs, as a patch, and the files of which they cannot.

    A signature is a line of some thousand digits, and another each time.
    """
    differ = {path for path in {*old, *new} if old.get(path) != new.get(path)}
    whole = {path for path in differ if None in (text_of(path, old.get(path)), text_of(path, new.get(path)))}
    whole |= differ & {SIGNATURE}
    before, after = ({path: each[path] for path in differ - whole if path in each} for each in (old, new))
    return difference(before, after)[0], tuple(sorted(whole))

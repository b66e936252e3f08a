"""Three-way merges of locks, files with git's conflict markers, and the resolution of a conflict in the lock."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from skillhub.disk import files
from skillhub.disk.home import INTENT, LOCK
from skillhub.edits.patch import changed_lines
from skillhub.errors import FormatError, NotFound, Refused, SignerChanged, SkillhubError, SourceMismatch
from skillhub.formats.text import MARKER, as_command, as_local, command, did_you_mean, line_of_marker, spelled_like
from skillhub.model.hosts import Scope
from skillhub.model.lock import CAP, RESTORE_LOCK, Lock, Locked, LockedSource, shown_signers
from skillhub.model.provenance import MERGE, Provenance
from skillhub.model.version import is_version, precedence
from skillhub.project.intent import Wanted, in_full
from skillhub.project.project import Project

# The three-way merge of two locks and their common base: the entry of each skill, and the reason for it.
# A change of only one side is taken, as git does. If both sides changed a skill, the entry that the intent allows is
# taken; if it allows both, the higher version. The merge never chooses between two sources or two signers: if both
# sides changed a skill and differ in these, that is a ``Clash``, which a person decides.

Side = Literal["ours", "theirs"]
Allows = Callable[[str, Locked], bool]  # whether the intent allows this entry of the skill of that name
Satisfies = Callable[[Locked, Wanted, str], bool]  # with the project's folder
_E = TypeVar("_E", Locked, LockedSource)


@dataclass(frozen=True, slots=True)
class Choice:
    """The side taken for a skill or source in which the sides differ, and why; ``took`` is None if it is removed."""

    name: str
    took: Side | None
    why: str


@dataclass(frozen=True, slots=True)
class Clash:
    """A skill or source for which only a person may choose a side, and the value of each side."""

    name: str
    about: Literal["source", "signer", "content"]
    ours: str
    theirs: str


@dataclass(frozen=True, slots=True)
class Merged:
    """The merged lock, with our side of each clash."""

    lock: Lock
    choices: tuple[Choice, ...]
    clashes: tuple[Clash, ...]


def merge(ours: Lock, theirs: Lock, base: Lock | None, allows: Allows, take: Mapping[str, Side]) -> Merged:
    """Return the merge of two locks.

    Args:
        ours: The lock of this branch.
        theirs: The lock of the other branch.
        base: Their common base; None if unknown: then no entry counts as removed.
        allows: Returns whether the intent allows an entry.
        take: The side that the user chose for a skill or a source, by its name.
    """

    def both(name: str, mine: Locked, yours: Locked) -> Choice | Clash:
        return _two_sided(name, mine, yours, allows)

    skills, skill_results = _merge_entries(ours.skills, theirs.skills, base.skills if base else None, take, both)
    base_sources = base.sources if base else None
    sources, source_results = _merge_entries(ours.sources, theirs.sources, base_sources, take, _redefined)
    for alias in sorted({entry.source for entry in skills.values() if entry.named} - sources.keys()):
        # One side removed the source with its last skill, while the other added a skill from it.
        sources[alias] = ours.sources.get(alias) or theirs.sources[alias]
    # A skill that comes or goes says so of its source, too; another URL or root of a source says nothing by itself.
    moved = [each for each in source_results if each.name in ours.sources.keys() & theirs.sources.keys()]
    for index, each in enumerate(skill_results):
        entry = skills.get(each.name) if each.name in take else None
        if isinstance(each, Choice) and entry is not None and not allows(each.name, entry):
            note = f"; {INTENT} asks for another: correct its line {each.name} before skillhub install"
            skill_results[index] = replace(each, why=f"{each.why}{note}")
    choices = tuple(result for result in (*moved, *skill_results) if isinstance(result, Choice))
    clashes = tuple(result for result in (*source_results, *skill_results) if isinstance(result, Clash))
    return Merged(Lock(skills, dict(sorted(sources.items()))), choices, clashes)


def _merge_entries(
    ours: Mapping[str, _E],
    theirs: Mapping[str, _E],
    base: Mapping[str, _E] | None,
    take: Mapping[str, Side],
    both: Callable[[str, _E, _E], Choice | Clash],
) -> tuple[dict[str, _E], list[Choice | Clash]]:
    """Return the merged entries, and a choice or clash for each name in which the sides differ."""
    merged: dict[str, _E] = {}
    results: list[Choice | Clash] = []
    for name in sorted({*ours, *theirs}):
        mine, yours = ours.get(name), theirs.get(name)
        entry: _E | None = mine
        if mine != yours:
            decision: Choice | Clash | None = None
            if name in take:
                decision = Choice(name, take[name], "as you chose")
            elif base is not None:
                decision = _one_sided(name, mine, yours, base.get(name))
            if decision is None:
                decision = both(name, mine, yours) if mine and yours else _one_lacks(name, mine is not None, base)
            results.append(decision)
            side = decision.took if isinstance(decision, Choice) else "ours"
            entry = {"ours": mine, "theirs": yours, None: None}[side]
        if entry is not None:
            merged[name] = entry
    return merged, results


def _one_sided(name: str, mine: _E | None, yours: _E | None, before: _E | None) -> Choice | None:
    """Return the choice if only one side changed the entry, else None."""
    if before not in (mine, yours):
        return None
    side: Side = "ours" if yours == before else "theirs"
    entry = mine if side == "ours" else yours
    if entry is None:
        return Choice(name, None, f"{side} removed it, the other left it unchanged")
    if before is None:
        return Choice(name, side, f"{side} added it")
    why = f"only {side} changed it"
    if isinstance(entry, Locked) and isinstance(before, Locked):
        old_origin, new_origin = Provenance.of(before), Provenance.of(entry)
        meanings = old_origin.means(new_origin, MERGE)
        if "source" in meanings:
            why += f"; it is from {new_origin.place} now, no longer from {old_origin.place}"
        if "signer" in meanings:
            why += f"; it is {_signed(entry)} now, no longer {_signed(before)}"
    if isinstance(entry, LockedSource):
        why += f"; this source is {entry} now, no longer {before}"
    return Choice(name, side, why)


def _one_lacks(name: str, is_ours: bool, base: Mapping[str, _E] | None) -> Choice:
    """Return the choice to keep an entry that one side lacks: the other side changed it, or the base is unknown."""
    why = "only one side has it" if base is None else "one side removed it, the other changed it"
    return Choice(name, "ours" if is_ours else "theirs", f"{why}, so it is kept")


def _two_sided(name: str, mine: Locked, yours: Locked, allows: Allows) -> Choice | Clash:
    """Return the choice between two entries of a skill that both sides changed, or the clash."""
    ours, theirs = Provenance.of(mine), Provenance.of(yours)
    meanings = ours.means(theirs, MERGE)
    if "source" in meanings:
        return Clash(name, "source", ours.place, theirs.place)
    if "signer" in meanings:
        return Clash(name, "signer", _signed(mine), _signed(yours))
    if mine.tree == yours.tree:
        return Choice(name, "ours", "both have the same content")
    is_mine, is_yours = allows(name, mine), allows(name, yours)
    if is_mine != is_yours:
        allowed = _version(mine if is_mine else yours)
        return Choice(name, "ours" if is_mine else "theirs", f"of both changes skillhub.toml allows only {allowed}")
    if higher := _higher(mine, yours):
        high, low = (mine, yours) if higher == "ours" else (yours, mine)
        note = "" if is_mine else "; skillhub.toml allows neither, so skillhub install looks for another"
        return Choice(name, higher, f"both changed it; {_version(high)} is higher than {_version(low)}{note}")
    if mine.local:
        command = as_command("skillhub", "install", as_local(mine.path or ""))
        return Choice(name, "ours", f"both changed it; {command} takes the present version")
    return Clash(name, "content", _content(mine), _content(yours))


def _redefined(alias: str, mine: LockedSource, yours: LockedSource) -> Choice | Clash:
    return Clash(alias, "source", str(mine), str(yours))


def _signed(entry: Locked) -> str:
    return f"signed by {shown_signers(entry.signed_by, entry.voucher)}" if entry.signed_by else "unsigned"


def _version(entry: Locked) -> str:
    return entry.version or entry.rev or entry.tree


def _content(entry: Locked) -> str:
    return f"{_version(entry)} with tree {entry.tree}"


def _higher(mine: Locked, yours: Locked) -> Side | None:
    versions = [entry.version for entry in (mine, yours) if entry.version and is_version(entry.version)]
    if len(versions) < 2 or precedence(versions[0]) == precedence(versions[1]):
        return None
    return "ours" if precedence(versions[0]) > precedence(versions[1]) else "theirs"


# A file with git's conflict markers: split into its sides, and written.

_MARKER = re.compile(MARKER + rb"(?: [^\n]*)?\r?\n?")
_NEXT = {b"<": b"ours", b"|": b"base", b"=": b"theirs", b">": b""}
# The markers that may follow each part; files that themselves contain markers cannot be split.
_AFTER = {b"": (b"<",), b"ours": (b"|", b"="), b"base": (b"=",), b"theirs": (b">",)}
_LINES_MAX = 1_000_000  # of both sides together; a lock of the maximum size has fewer than half as many


def sides(data: bytes) -> tuple[bytes, bytes, bytes | None] | None:
    """Return our side, their side and, if git was configured to show it, the base; None without a conflict.

    Return None, too, if the markers are incomplete, since the end of a side is unknown then.
    """
    parts: dict[bytes, list[bytes]] = {b"ours": [], b"theirs": [], b"base": []}
    part, has_base, has_conflict = b"", True, False
    for line in data.splitlines(keepends=True):
        marker = _MARKER.fullmatch(line)
        if marker is None:
            for name in [part] if part else parts:  # a line outside of a conflict belongs to all
                parts[name].append(line)
            continue
        sign = marker[1][:1]
        if sign not in _AFTER[part]:
            return None
        if (part, sign) == (b"ours", b"="):
            has_base = False
        part = _NEXT[sign]
        has_conflict = True
    if part or not has_conflict:
        return None
    ours, theirs, base = (b"".join(parts[name]) for name in (b"ours", b"theirs", b"base"))
    return ours, theirs, base if has_base else None


def conflict(ours: bytes, theirs: bytes) -> bytes:
    """Return one file with both sides, with git's conflict markers around their differences.

    Sides of very many lines, which are no locks, are one difference: to compare 10 MiB of short lines takes 2 GB.
    """
    is_long = sum(side.count(end) for side in (ours, theirs) for end in (b"\n", b"\r")) > _LINES_MAX
    mine, yours = ([side] if is_long else side.splitlines(keepends=True) for side in (ours, theirs))
    lines: list[bytes] = []
    position = 0
    for low, high, start, end in changed_lines(mine, yours):
        lines += [*mine[position:low], b"<<<<<<< ours\n", *_with_line_feeds(mine[low:high]), b"=======\n"]
        lines += [*_with_line_feeds(yours[start:end]), b">>>>>>> theirs\n"]
        position = high
    return b"".join((*lines, *mine[position:]))


def _with_line_feeds(lines: list[bytes]) -> list[bytes]:
    return [line if line.endswith(b"\n") else line + b"\n" for line in lines]


# A merge conflict in the lock, resolved in the project or for git's merge driver.

_ERRORS: Mapping[str, type[SkillhubError]] = {"signer": SignerChanged, "source": SourceMismatch}


@dataclass(frozen=True, slots=True)
class LockRepair:
    """The choices for entries in which the sides differ, and whether there was a conflict to fix."""

    choices: tuple[Choice, ...] = ()
    changed: bool = False


def fix(project: Project, take: Mapping[str, Side], satisfies: Satisfies, *, dry_run: bool = False) -> LockRepair:
    """Resolve git's merge conflict in the lock by the intent; without a conflict, do nothing.

    Args:
        project: The project of the lock.
        take: The side that the user chose for a skill or a source.
        satisfies: Returns whether an entry of the lock satisfies a line of the intent.
        dry_run: Return the choices, and write nothing.

    Raises:
        FormatError: a side is no lock, or the intent holds a conflict itself.
        NotFound: the user chose a side for a name that no side has.
        SignerChanged: both sides changed a skill, and their signers differ; nothing was changed.
        SourceMismatch: the origins of a skill, or the sources of an alias, differ.
        Refused: the contents of a skill differ, and neither has the higher version.
        StateError: the disk is in the way.
    """
    with project.exclusively():
        _refuse_conflict(project, "")
        for package in project.packages() if project.scope == "project" else ():
            _refuse_conflict(project, package)
        data = files.read(files.inside(project.root, LOCK), CAP) or b""
        versions = sides(data)
        if versions is None:
            if line := line_of_marker(data):
                where = f"{project.lock_path}:{line}"
                raise FormatError("the lock holds a part of a merge conflict", where=where, hint=RESTORE_LOCK)
            project.lock()  # raises if the lock has any other fault
            return LockRepair()
        ours, theirs, base = versions
        done = _merged(ours, theirs, base, project, take, satisfies)
        if done.clashes:
            raise _refusal(done.clashes, project.scope)
        if not dry_run:
            project.write_lock(done.lock.dump())
    return LockRepair(done.choices, True)


def _merged(
    ours: bytes, theirs: bytes, base: bytes | None, project: Project, take: Mapping[str, Side], satisfies: Satisfies
) -> Merged:
    intent = project.intent()
    sides = ((ours, "ours"), (theirs, "theirs"))
    our_lock, their_lock = (Lock.parse(side, f"{project.lock_path} ({label})") for side, label in sides)
    known = {*our_lock.skills, *our_lock.sources, *their_lock.skills, *their_lock.sources}
    for name in take:
        if name not in known:
            hint = did_you_mean(spelled_like(name, known)) or f"there are: {', '.join(sorted(known))}"
            raise NotFound(f"neither side of the lock has {name}", where=project.lock_path, hint=hint)

    def allows(name: str, entry: Locked) -> bool:
        if name not in intent.skills:
            return True
        line = in_full(replace(intent, skills={name: intent.skills[name]}), Lock({name: entry})).skills[name]
        return satisfies(entry, line, project.base)

    return merge(our_lock, their_lock, _base(base), allows, take)


def _refuse_conflict(project: Project, package: str) -> None:
    if sides(project.intent_bytes(package)) is not None:
        then = command(project.scope, "lock", "fix")
        hint = f"first edit it: keep the right lines, remove <<<<<<<, |||||||, ======= and >>>>>>>; then: {then}"
        where = os.path.join(*filter(None, (project.root, package, INTENT)))
        raise FormatError(f"{INTENT} holds a merge conflict", where=where, hint=hint)


def _base(data: bytes | None) -> Lock | None:
    """Return the common base of both sides; None if it is unknown or malformed."""
    if data is None:
        return None
    try:
        return Lock.parse(data) if data.strip() else Lock()
    except FormatError:
        return None


def _refusal(clashes: Sequence[Clash], scope: Scope = "project") -> SkillhubError:
    details = "; ".join(f"{clash.name}: ours is {clash.ours}, theirs is {clash.theirs}" for clash in clashes)
    kind = next((_ERRORS[clash.about] for clash in clashes if clash.about in _ERRORS), Refused)
    names = " ".join(clash.name for clash in clashes)
    hint = f"choose a side for {names}: {command(scope, 'lock', 'fix', '--ours', 'NAME')} or --theirs NAME"
    return kind(f"no rule decides between the sides: {details}", where=LOCK, hint=hint)


@dataclass(frozen=True, slots=True)
class MergeDriverResult:
    """The result of a merge driver: the file, the choices, and the error if the merge left a conflict."""

    data: bytes
    choices: tuple[Choice, ...] = ()
    error: SkillhubError | None = None


def drive(base: bytes, ours: bytes, theirs: bytes) -> MergeDriverResult:
    """Merge three versions of a lock for git; clashes, which only a person can decide, stay a conflict.

    The merge ignores the intent, whose merged version is unknown while git merges. An empty base means that both
    sides added the lock.
    """
    try:
        return _driven(_base(base), Lock.parse(ours, "ours"), Lock.parse(theirs, "theirs"))
    except FormatError as error:  # a side is no lock, or what both sides changed makes none together
        return MergeDriverResult(conflict(ours, theirs), error=error)


def _driven(base: Lock | None, ours: Lock, theirs: Lock) -> MergeDriverResult:
    def merged(take: Mapping[str, Side]) -> Merged:
        return merge(ours, theirs, base, lambda *_: True, take)

    done = merged({})
    if not done.clashes:
        return MergeDriverResult(done.lock.dump(), done.choices)
    with_theirs = merged({clash.name: "theirs" for clash in done.clashes})
    text = conflict(done.lock.dump(), with_theirs.lock.dump())
    return MergeDriverResult(text, done.choices, _refusal(done.clashes))

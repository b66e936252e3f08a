"""Lock fix: resolve a merge conflict in the lock, skill by skill; every choice is reported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from skillhub.disk import files
from skillhub.edits.merge import Choice, Clash, Merged, Side, conflict, merge, sides
from skillhub.errors import FormatError, NotFound, Refused, SignerChanged, SkillhubError, SourceMismatch
from skillhub.install.resolve import satisfies
from skillhub.model.lock import CAP, Lock, Locked
from skillhub.project.project import INTENT, LOCK, Project

_ERRORS: Mapping[str, type[SkillhubError]] = {"signer": SignerChanged, "source": SourceMismatch}


@dataclass(frozen=True, slots=True)
class Fixed:
    """What became of each skill that the sides do not have alike, and whether there was anything to fix."""

    choices: tuple[Choice, ...] = ()
    changed: bool = False


def fix(project: Project, take: Mapping[str, Side], *, dry_run: bool = False) -> Fixed:
    """Resolve the conflict that git left in the lock, by the intent; without one nothing is done.

    Args:
        project: Whose lock.
        take: The side that a person chose for a skill or a source.
        dry_run: Tell what would be done, and write nothing.

    Raises:
        FormatError: a side is no lock, or the intent holds a conflict itself.
        NotFound: a name that a side was chosen for, and that no side has.
        SignerChanged: both sides changed a skill, and differ in who signed it; nothing was changed.
        SourceMismatch: they differ in where it is from, or in what an alias means.
        Refused: they differ in its content, and nothing says which is newer.
        StateError: the disk is in the way.
    """
    with project.exclusively():
        data = files.read(files.inside(project.root, LOCK), CAP) or b""
        found = sides(data)
        if found is None:
            project.lock()  # tells of any other fault
            return Fixed()
        ours, theirs, base = found
        done = _merged(ours, theirs, base, project, take)
        if done.clashes:
            raise _refusal(done.clashes)
        if not dry_run:
            project.write_lock(done.lock.dump())
    return Fixed(done.choices, True)


def _merged(ours: bytes, theirs: bytes, base: bytes | None, project: Project, take: Mapping[str, Side]) -> Merged:
    if sides(project.intent_bytes()) is not None:
        hint = "resolve it by hand first: the lock is resolved by what it says"
        raise FormatError(f"{INTENT} holds a merge conflict", where=project.intent_path, hint=hint)
    wanted = project.intent().skills
    one, other = (
        Lock.parse(side, f"{project.lock_path} ({of})") for side, of in ((ours, "ours"), (theirs, "theirs"))
    )
    for name in take:
        if not any(name in part for lock in (one, other) for part in (lock.skills, lock.sources)):
            raise NotFound(f"neither side of the lock has {name}", where=project.lock_path)

    def allows(name: str, entry: Locked) -> bool:
        return name not in wanted or satisfies(entry, wanted[name], project.base)

    return merge(one, other, _base(base), allows, take)


def _base(data: bytes | None) -> Lock | None:
    """Return the lock that both sides came from; None if nobody knows, for it is there to say what was removed."""
    if data is None:
        return None
    try:
        return Lock.parse(data) if data.strip() else Lock()
    except FormatError:
        return None


def _refusal(clashes: Sequence[Clash]) -> SkillhubError:
    told = "; ".join(f"{each.name}: ours is {each.ours}, theirs is {each.theirs}" for each in clashes)
    kind = next((_ERRORS[each.about] for each in clashes if each.about in _ERRORS), Refused)
    names = " ".join(each.name for each in clashes)
    hint = f"for each of {names} a person decides: skillhub lock fix --ours NAME or --theirs NAME"
    return kind(f"the sides differ in what is not to be chosen by rule: {told}", where=LOCK, hint=hint)


@dataclass(frozen=True, slots=True)
class Driven:
    """What a merge driver gives to git: the file, and why it is no clean merge if it is none."""

    data: bytes
    choices: tuple[Choice, ...] = ()
    error: SkillhubError | None = None


def drive(base: bytes, ours: bytes, theirs: bytes) -> Driven:
    """Merge three versions of a lock for git; what only a person or the intent can settle stays a conflict.

    The intent is not asked: while git merges, nobody can say which version of it will be there. An empty base is
    that of a lock which both sides added.
    """
    try:
        one, other = Lock.parse(ours, "ours"), Lock.parse(theirs, "theirs")
    except FormatError as error:
        return Driven(conflict(ours, theirs), error=error)

    def merged(take: Mapping[str, Side]) -> Merged:
        return merge(one, other, _base(base), lambda *_: True, take)

    done = merged({})
    if not done.clashes:
        return Driven(done.lock.dump(), done.choices)
    with_theirs = merged({each.name: "theirs" for each in done.clashes})
    return Driven(conflict(done.lock.dump(), with_theirs.lock.dump()), done.choices, _refusal(done.clashes))

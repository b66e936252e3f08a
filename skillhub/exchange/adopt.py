"""Adopt skills in agents' folders that are in no lock, and import skills from the locks of other installers."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from skillhub import errors
from skillhub.command.ports import LeftOut, Options, Outcome, Ports, ask
from skillhub.command.state import State, read_state
from skillhub.disk import files
from skillhub.disk.folders import compare
from skillhub.errors import (
    Forbidden,
    FormatError,
    KnownBad,
    NotFound,
    Refused,
    SecurityError,
    SourceError,
    UsageError,
)
from skillhub.exchange.other_locks import NoOrigin, Origin, OtherLock, noted_by_gh, parse_other_lock
from skillhub.formats.text import as_command, command, did_you_mean, grouped, is_inner_path, quote, spelled_like
from skillhub.install.admission import admit
from skillhub.install.apply import apply, carry_out
from skillhub.install.candidates import Candidate
from skillhub.install.commit import Plan, Planner
from skillhub.install.gather import gather
from skillhub.install.links import Step
from skillhub.install.obtain import by_path
from skillhub.model.hosts import Scope
from skillhub.model.provenance import Record
from skillhub.model.question import Asked, Question, unanswerable
from skillhub.model.reference import Local, parse_ref
from skillhub.project import copies
from skillhub.project.copies import agent_folders, portable, unmanaged
from skillhub.project.intent import Wanted
from skillhub.project.project import Project
from skillhub.runtime.agent import unmanaged_skills

# The origins that other installers recorded, and the present content of those origins.

# Errors about a single skill; any other SecurityError, or a full disk, stops the command.
OF_ONE = (FormatError, SourceError, UsageError, Forbidden, errors.UnsafeTransfer)
_CAP = 64 * 1024 * 1024
# Paths below the project, and below the user's home.
_LOCKS = {
    "project": ("skills-lock.json", "apm.lock.yaml", ".clawhub/lock.json"),
    "user": (".agents/.skill-lock.json", ".clawhub/lock.json"),
}


class Origins:
    """The origins of skills in the locks of other installers, in a project or in a user's home.

    Attributes:
        warnings: One for each lock that cannot be read.
    """

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self.warnings: list[str] = []
        self._named = {single.name: single for origin in self._read() for single in origin.per_skill()}

    def of(self, skill: Candidate) -> Origin | None:
        """Return the origin of a skill from a lock, or else from its own frontmatter; None if both have none."""
        noted = noted_by_gh(skill.name, skill.manifest.metadata)
        return self._named.get(skill.name) or (None if isinstance(noted, NoOrigin) else noted)

    def _read(self) -> Iterator[Origin]:
        project = self._ports.project
        for name in _LOCKS[project.scope]:
            path = files.inside(project.base, name)
            try:
                data = files.read(path, _CAP)
                if data is not None:
                    yield from parse_other_lock(data, project.base.replace(os.sep, "/"), path).origins
            except FormatError as error:
                self.warnings.append(f"{error.where or path}: {error.message}")


def candidates_at(origin: Origin, options: Options, state: State, ports: Ports) -> Mapping[str, Candidate]:
    """Return the present skills of an origin by name; requests count as named by a file, not by a person.

    Raises:
        FormatError, SourceError, UsageError, Forbidden, UnsafeTransfer: ``OF_ONE``, a skill cannot be fetched.
        SecurityError: a skill was tampered with.
        StateError: the disk is in the way.
    """
    options = replace(options, skills=origin.skills, every=False)
    return gather([parse_ref(origin.ref)], options, state, ports, named_by="repository").found


def compared(local: Candidate, origin: Origin | None, state: State, ports: Ports) -> Candidate:
    """Return the skill from its origin if it is identical to ``local``; else ``local`` with a note on the difference.

    Raises:
        SecurityError: the content of the origin was tampered with.
        StateError: the disk is in the way.
    """
    if origin is None:
        return _offered(local, state, ports)
    try:
        candidates = candidates_at(origin, Options(), state, ports)
    except OF_ONE as error:
        return local.noted(f"its recorded origin is {origin.ref}, which could not be compared: {error.message}")
    remote = candidates.get(local.name)
    if remote is None:
        return local.noted(f"its recorded origin is {origin.ref}, which has no skill of that name")
    if remote.tree.digest == local.tree.digest:
        return remote.noted(f"it is identical to {origin.ref}")
    changed = sorted(path for path in {*local.tree, *remote.tree} if local.tree.get(path) != remote.tree.get(path))
    return local.noted(f"it differs from {origin.ref} in {', '.join(changed[:8])}; the local files are locked")


def _offered(local: Candidate, state: State, ports: Ports) -> Candidate:
    """Return the skill from the first configured source that offers these bytes under this name; else ``local``.

    A folder of this machine is no such source: others who share the lock do not have it. A source that cannot be
    compared, also one that was tampered with, is named in a note: nothing says that the skill is from there.

    Raises:
        KnownBad: the source offers a skill of this name that is known to be malicious.
    """
    for alias in (alias for alias, each in ports.sources.all().items() if not isinstance(each.place, Local)):
        ref = f"{alias}:{local.name}"
        try:
            found = gather([parse_ref(ref)], Options(), state, ports).found.get(local.name)
        except NotFound:
            continue
        except KnownBad:
            raise
        except (*OF_ONE, Refused, SecurityError) as error:
            local = local.noted(f"{ref} could not be compared: {error.message}")
            continue
        if found is not None and found.tree.digest == local.tree.digest:
            return found.noted(f"it is identical to {ref}")
    return local.noted("its origin is unknown")


# Adopt: unmanaged skills in agents' folders are compared with their origins, reviewed, locked and linked.
# A skill that is identical to its origin is locked with that origin. Any other becomes a local skill of the project:
# its files are copied to a folder that can be committed, since agents' folders are not committed.


@dataclass(frozen=True, slots=True)
class AdoptableSkill:
    """One unmanaged skill: its copies, and the links to them that other tools made."""

    name: str
    copies: tuple[str, ...]
    links: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Adopted:
    find: AdoptableSkill
    candidate: Candidate
    target: str | None  # the folder for its files in the project; None if its origin has them

    @property
    def name(self) -> str:
        """The skill's name."""
        return self.find.name

    @property
    def places(self) -> tuple[str, ...]:
        """The folders with its files: the copies, and the target if it exists."""
        return (*self.find.copies, *filter(os.path.lexists, filter(None, [self.target])))


def adopt(names: Sequence[str], into: str, options: Options, ports: Ports) -> Outcome:
    """Lock unmanaged skills, as one transaction; skills that cannot be adopted stay, and are in ``left_out``.

    So are those for which a person answers no.

    Args:
        names: The skills to adopt; empty for all unmanaged skills in agents' folders.
        into: The folder below the project for the files of skills that differ from their origin, or have none.
        options: Where and how to enable the skills.
        ports: The ports.

    Raises:
        NotFound: no agent's folder has an unmanaged skill with one of the names.
        UsageError: a name is already locked, or ``into`` is not below the project.
        SecurityError: the content of an origin was tampered with, or a skill is known to be malicious.
        Refused: nobody was there to answer a question, or a critical finding was found; nothing was changed.
        StateError: the disk is in the way.
    """
    if not is_inner_path(into):
        raise UsageError(f"expected a folder below the project, found {quote(into)}")
    state = read_state(ports.project, ports.sources)
    origins = Origins(ports)
    adopted, left_out = [], []
    for find in _adoptable_skills(names, state, ports):
        result = find if isinstance(find, LeftOut) else _read(find, into, origins, state, ports)
        result = result if isinstance(result, LeftOut) else _admitted(result, state, ports)
        if isinstance(result, LeftOut):
            left_out.append(result)
        else:
            adopted.append(result)
    planner = Planner(options, state, ports, [skill.candidate for skill in adopted])
    plans = [_planned(skill, planner, ports) for skill in adopted]
    to_ask = [_to_ask(skill, plan) for skill, plan in zip(adopted, plans, strict=True)]
    answers, declined = _asked([question for plan in to_ask for question in plan.questions()], options, ports)
    left_out += [LeftOut(name, Refused.code, "the answer was no") for name in declined]
    adopted = [each for each in adopted if each.name not in declined]
    plans = [each for each in plans if each.name not in declined]
    warnings = tuple(origins.warnings)
    if not adopted:
        return Outcome((), False, warnings=warnings, left_out=tuple(left_out))
    if not options.dry_run:
        with ports.project.exclusively():  # another command would remove the unfinished copies
            read_state(ports.project, ports.sources)  # an unreadable lock is refused before the first write
            for path, tree in [(path, skill.candidate.tree) for skill in adopted for path in skill.places]:
                if compare(path, tree.listing):
                    hint = "run the command again; it asks again"
                    raise errors.StateError("the copy was edited meanwhile", where=path, hint=hint)
            for skill in adopted:
                _copy_into_project(skill, ports)
    outcome = carry_out(plans, options, answers, state, ports)
    if not options.dry_run:
        with ports.project.exclusively():
            _unlink(adopted, {skill.name for skill in outcome.skills if skill.state == "disabled"}, ports.project)
    return replace(outcome, warnings=(*warnings, *outcome.warnings), left_out=(*left_out, *outcome.left_out))


def _adoptable_skills(names: Sequence[str], state: State, ports: Ports) -> Iterator[AdoptableSkill | LeftOut]:
    surroundings = ports.project, ports.user_home, ports.environ
    folders = agent_folders(*surroundings)
    # Only direct subfolders of an agent's folder are places to which a skill is linked.
    places = (path for path in unmanaged(*surroundings) if os.path.dirname(path) in folders)
    paths = grouped((os.path.basename(path), path) for path in places)
    scope = ports.project.scope
    if names:
        folders_of = {each.name: os.path.basename(each.path or "") for each in unmanaged_skills(*surroundings)}
        names = [name if name in {*paths, *state.lock.skills} else folders_of.get(name, name) for name in names]
    for name in names:
        if name in state.lock.skills:
            raise UsageError(f"{name} is managed already", hint=f"{command(scope, 'list')} shows installed skills")
        if name not in paths:
            hint = did_you_mean(spelled_like(name, paths), f"{command(scope, 'list')} shows all")
            raise NotFound(f"no agent's folder has an unmanaged skill {quote(name)}", hint=hint)
    for name in names or sorted(paths):
        if name in state.lock.skills:
            where = f"{command(scope, 'verify')} shows its path"
            yield LeftOut(name, "other-skill", f"it has the name of a locked skill; {where}")
        else:
            yield _adoptable(name, paths[name], scope)


def _adoptable(name: str, paths: Iterable[str], scope: Scope) -> AdoptableSkill | LeftOut:
    real_copies = tuple(path for path in paths if not os.path.islink(path))
    others = tuple(path for path in paths if os.path.islink(path))
    real = {os.path.realpath(path) for path in real_copies}
    for path in others:
        target = os.path.realpath(path)
        if target not in real:
            instead = f"{as_command('rm', path)}, then {command(scope, 'install', target)}"
            return LeftOut(name, "link", f"{path} is a link to {target}; to install that skill: {instead}")
    return AdoptableSkill(name, real_copies, others)


def _read(find: AdoptableSkill, into: str, origins: Origins, state: State, ports: Ports) -> _Adopted | LeftOut:
    try:
        local = by_path(find.copies[0], ports).run()
    except (FormatError, SecurityError, SourceError) as error:
        return LeftOut(find.name, error.code, f"{error.message} ({error.where or find.copies[0]})")
    if local.name != find.name:
        return LeftOut(find.name, "name", f"its SKILL.md names it {local.name}; rename the folder or the skill")
    for path in find.copies:
        if problems := compare(path, local.tree.listing):
            problem = f"{problems[0].path}: {problems[0].message}"
            return LeftOut(find.name, "differs", f"expected identical copies with only the skill's files: {problem}")
    record = state.records.skills.get(find.name)
    if record is not None and record.tree == local.tree.digest and (why := _ours(find.name, record, state, ports)):
        return LeftOut(find.name, "not-locked", why)
    candidate = compared(local, origins.of(local), state, ports)
    if find.name in state.unlocked:
        candidate = candidate.noted("skillhub.toml has a line for it, which will be replaced")
    if candidate.entry.origin != local.entry.origin:
        return _Adopted(find, candidate, None)
    path = f"{into}/{find.name}"
    target = files.inside(ports.project.base, path)
    if os.path.lexists(target) and (not os.path.isdir(target) or compare(target, local.tree.listing)):
        return LeftOut(find.name, "in-the-way", f"{target} exists with other content; --into names another folder")
    entry = replace(candidate.entry, path=path)
    return _Adopted(find, replace(candidate, entry=entry, wanted=Wanted(path=path)), target)


def _ours(name: str, record: Record, state: State, ports: Ports) -> str | None:
    """Return why a copy that skillhub made before the lock lost the skill is not adopted; None if it may be.

    As an adopted skill it would have lost its signer.
    """
    scope, agreed = ports.project.scope, record.provenance
    if name in state.unlocked:
        return f"skillhub.toml names it, and the lock does not; {command(scope, 'install')} locks it"
    if agreed is None or not agreed.signers or agreed.source not in ports.sources.all():
        return None
    again = command(scope, "install", f"{agreed.source}:{agreed.path or name}")
    return f"it is signed, and the lock does not name it any more; {again} locks it"


def _admitted(skill: _Adopted, state: State, ports: Ports) -> _Adopted | LeftOut:
    try:
        return replace(skill, candidate=admit(skill.candidate, state, ports))
    except Forbidden as error:
        return LeftOut(skill.name, error.code, f"{error.message} ({error.where})")


def _planned(skill: _Adopted, planner: Planner, ports: Ports) -> Plan:
    """Plan to link the skill in the usual folders and where it was found, with a copy in place of each link to it."""
    base = ports.project.base
    found = [portable(path, base) for path in skill.find.copies]
    excluded = {portable(path, base) for path in (*skill.find.links, *filter(None, [skill.target]))}
    links = dict.fromkeys((*planner.links(skill.name, planner.folders), *found))
    plan = planner.plan(skill.candidate, [link for link in links if link not in excluded])
    if plan.linking is None or plan.disabled_by:
        return plan
    link_paths = [portable(path, base) for path in skill.find.links]
    steps = [Step(link, copies.path_of(ports.project, link), "make") for link in link_paths]
    return replace(plan, linking=replace(plan.linking, steps=(*plan.linking.steps, *steps)))


def _to_ask(skill: _Adopted, plan: Plan) -> Plan:
    """Return the plan whose questions ask to adopt the skill, and name the places that will have its files."""
    places = [skill.candidate.entry.path] if skill.target and skill.candidate.entry.path else []
    if plan.linking:
        places += plan.linking.links
    return replace(plan, verb="Adopt", candidate=plan.candidate.noted(f"its files will be in {', '.join(places)}"))


def _asked(questions: Sequence[Question], options: Options, ports: Ports) -> tuple[list[Asked], set[str]]:
    """Ask the questions, after a no those about the other skills; return the answers, and the skills with a no.

    Raises:
        Refused: a question is unanswered that nobody was there to answer.
    """
    answers: list[Asked] = []
    declined: set[str] = set()
    while True:
        try:
            return [*answers, *ask(questions, ports, options.dry_run)], declined
        except Refused as error:
            said_no = {question.skill for question, answer in unanswerable(error.asked) if answer.said == "no"}
            if not said_no:
                raise
            declined |= said_no
            others = [(each, answer) for each, answer in (*answers, *error.asked) if each.skill not in declined]
            answers = [(each, answer) for each, answer in others if answer.said != "unanswered" or answer.seen]
            questions = [each for each, answer in others if answer.said == "unanswered" and not answer.seen]


def _copy_into_project(skill: _Adopted, ports: Ports) -> None:
    """Copy the skill to its folder in the project, and remove the links to its copies."""
    if skill.target is not None and not os.path.lexists(skill.target):
        tree = skill.candidate.tree
        copies.write_copy(ports.project, skill.target, tree, ports.store.path(tree.digest), "copy")
    for path in skill.find.links:
        copies.remove_copy(ports.project, path)


def _unlink(adopted: Iterable[_Adopted], disabled: set[str], project: Project) -> None:
    """Remove the copies of disabled skills from agents' folders; the store has their files."""
    for skill in adopted:
        if skill.name not in disabled:
            continue
        for path in skill.find.copies:
            if path != skill.target and not compare(path, skill.candidate.tree.listing):
                copies.remove_copy(project, path)


def import_lock(other: OtherLock, options: Options, ports: Ports) -> Outcome:
    """Install the skills of another installer's lock, as one transaction; unpinnable ones are left out with a reason.

    Raises:
        SecurityError: a skill was tampered with, or its name is locked from another origin; nothing was changed.
        Refused: a question was answered no, or nobody was there to answer; nothing was changed.
        StateError: the disk is in the way.
    """
    state = read_state(ports.project, ports.sources)
    left_out = [LeftOut(entry.name, "no-origin", entry.reason) for entry in other.unpinned]
    candidates: dict[str, Candidate] = {}
    for candidate in _candidates(other, options, state, ports):
        if isinstance(candidate, LeftOut):
            left_out.append(candidate)
            continue
        first = candidates.setdefault(candidate.name, candidate)
        if candidate.tree.digest != first.tree.digest:
            reason = f"the lock has it from {first.entry.origin} and from {candidate.entry.origin}"
            left_out.append(LeftOut(candidate.name, "usage", reason))
    if not candidates:
        return Outcome((), False, left_out=tuple(left_out))
    return apply(candidates, options, state, ports, left_out)


def _candidates(other: OtherLock, options: Options, state: State, ports: Ports) -> Iterator[Candidate | LeftOut]:
    """Yield each skill as a candidate, or as left out with the reason."""
    for done, origin in enumerate(other.origins):
        ports.report("resolving", done, len(other.origins))
        # One skill at a time, so that a missing one does not affect the others; a source is opened only once.
        for single in origin.per_skill():
            try:
                candidates = candidates_at(single, options, state, ports)
            except OF_ONE as error:
                yield LeftOut.of(single.name, error)
                continue
            yield from (_with_notes(candidate, single) for candidate in candidates.values())


def _with_notes(candidate: Candidate, origin: Origin) -> Candidate:
    notes = [origin.note] if origin.note else []
    if not origin.skills and candidate.name != origin.name:
        notes.append(f"the other lock calls it {quote(origin.name)}")
    return candidate.noted(*notes)

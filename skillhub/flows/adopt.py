"""Adopt: skills that lie in agents' folders without a lock are compared, asked about, locked and linked like others.

What is at its origin to the last byte is locked by that origin. Everything else becomes a local skill of the project:
its bytes are copied to a folder that can be committed, for agents' folders are not.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from skillhub.errors import Forbidden, FormatError, NotFound, SecurityError, SourceError, UsageError
from skillhub.flows.admission import admit
from skillhub.flows.candidate import Candidate
from skillhub.flows.hints import command
from skillhub.flows.install import carry_out
from skillhub.flows.linking import Step
from skillhub.flows.listing import agent_folders, unmanaged
from skillhub.flows.obtain import from_path
from skillhub.flows.options import Options
from skillhub.flows.origins import Origins, compared
from skillhub.flows.outcome import LeftOut, Outcome, ask
from skillhub.flows.plan import Plan, Planner
from skillhub.flows.ports import Ports
from skillhub.flows.state import State, read_state
from skillhub.model.intent import Wanted
from skillhub.model.skill import Scope
from skillhub.model.text import is_inner_path, quote
from skillhub.world import files, links
from skillhub.world.folders import compare
from skillhub.world.links import portable
from skillhub.world.project import Project


@dataclass(frozen=True, slots=True)
class Find:
    """One unmanaged skill: where its copies are, and the links that others made to them."""

    name: str
    copies: tuple[str, ...]
    links: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Adopted:
    find: Find
    candidate: Candidate
    target: str | None  # where its bytes are to be kept in the project; None if its origin has them


def adopt(names: Sequence[str], into: str, options: Options, ports: Ports) -> Outcome:
    """Bring unmanaged skills under the lock, as one transaction; what cannot be adopted is left as it is, and told.

    Args:
        names: Which; none means all that lie in agents' folders.
        into: The folder below the project for the bytes of those that no origin has.
        options: Where to enable, and how.
        ports: The world.

    Raises:
        NotFound: a name that no agent's folder has.
        UsageError: a name that is locked already, or a folder that is not below the project.
        SecurityError: what an origin has was tampered with.
        Refused: a question was answered no or by nobody; nothing was changed.
        StateError: the disk is in the way.
    """
    if not is_inner_path(into):
        raise UsageError(f"expected a folder below the project, found {quote(into)}")
    state = read_state(ports)
    origins = Origins(ports)
    adopted, left = [], []
    for find in _finds(names, state, ports):
        each = find if isinstance(find, LeftOut) else _read(find, into, origins, state, ports)
        each = each if isinstance(each, LeftOut) else _admitted(each, state, ports)
        left.append(each) if isinstance(each, LeftOut) else adopted.append(each)
    planner = Planner.of(options, state, ports)
    plans = [_planned(each, planner, ports) for each in adopted]
    asked = ask([question for each in plans for question in each.questions()], ports, options.dry_run)
    warnings = tuple(origins.warnings)
    if not adopted:
        return Outcome((), False, warnings=warnings, left=tuple(left))
    if not options.dry_run:
        for each in adopted:
            _keep(each, ports)
    outcome = carry_out(plans, options, asked, state, ports)
    if not options.dry_run:
        _take_away(
            adopted, {skill.name for skill in outcome.skills if skill.state == "disabled"}, ports.project
        )
    return replace(outcome, warnings=(*warnings, *outcome.warnings), left=(*left, *outcome.left))


def _finds(names: Sequence[str], state: State, ports: Ports) -> Iterator[Find | LeftOut]:
    there: dict[str, list[str]] = {}
    world = ports.project, ports.user_home, ports.environ
    folders = agent_folders(*world)
    # What lies deeper, or is such a folder itself, has no place that a skill is linked at.
    for path in (each for each in unmanaged(*world) if os.path.dirname(each) in folders):
        there.setdefault(os.path.basename(path), []).append(path)
    scope = ports.project.scope
    for name in names:
        if name in state.lock.skills:
            hint = f"{command(scope, 'list')} shows what is"
            raise UsageError(f"{name} is managed already", hint=hint)
        if name not in there:
            hint = f"{command(scope, 'list')} shows all"
            raise NotFound(f"no agent's folder has an unmanaged skill {quote(name)}", hint=hint)
    for name in names or sorted(there):
        if name in state.lock.skills:
            where = f"{command(scope, 'verify')} says where it lies"
            yield LeftOut(name, "other-skill", f"it has the name of a locked skill; {where}")
        else:
            yield _find(name, there[name], scope)


def _find(name: str, paths: Iterable[str], scope: Scope) -> Find | LeftOut:
    copies = tuple(path for path in paths if not os.path.islink(path))
    others = tuple(path for path in paths if os.path.islink(path))
    real = {os.path.realpath(path) for path in copies}
    for path in others:
        if (target := os.path.realpath(path)) not in real:
            meant = command(scope, "install", target)
            return LeftOut(name, "link", f"{path} is a link to {target}; if that is meant: {meant}")
    return Find(name, copies, others)


def _read(find: Find, into: str, origins: Origins, state: State, ports: Ports) -> _Adopted | LeftOut:
    try:
        mine = from_path(find.copies[0], ports)
    except (FormatError, SecurityError, SourceError) as error:
        return LeftOut(find.name, error.code, f"{error.message} ({error.where or find.copies[0]})")
    if mine.name != find.name:
        return LeftOut(
            find.name, "name", f"its SKILL.md names it {mine.name}; rename the folder or the skill"
        )
    for path in find.copies:
        if problems := compare(path, mine.tree.listing):
            told = f"{problems[0].path}: {problems[0].message}"
            return LeftOut(
                find.name, "differs", f"expected copies that are alike, of the skill's files alone: {told}"
            )
    found = compared(mine, origins.of(mine), state, ports)
    if found.entry.origin != mine.entry.origin:
        return _Adopted(find, found, None)
    path = f"{into}/{find.name}"
    target = files.inside(ports.project.base, path)
    if os.path.lexists(target) and (not os.path.isdir(target) or compare(target, mine.tree.listing)):
        return LeftOut(
            find.name, "in-the-way", f"{target} is there and is something else; --into names another folder"
        )
    entry = replace(found.entry, path=path)
    return _Adopted(find, replace(found, entry=entry, wanted=Wanted(path=path)), target)


def _admitted(each: _Adopted, state: State, ports: Ports) -> _Adopted | LeftOut:
    try:
        return replace(each, candidate=admit(each.candidate, state, ports))
    except Forbidden as error:
        return LeftOut(each.find.name, error.code, f"{error.message} ({error.where})")


def _planned(each: _Adopted, planner: Planner, ports: Ports) -> Plan:
    """Plan to link the skill as any other and wherever it was found, a copy in place of each link to it."""
    base = ports.project.base
    found = [portable(os.path.dirname(path), base) for path in each.find.copies]
    away = {portable(path, base) for path in (*each.find.links, *filter(None, [each.target]))}
    folders = dict.fromkeys((*planner.folders, *found))
    here = tuple(folder for folder in folders if f"{folder}/{each.find.name}" not in away)
    plan = replace(planner, folders=here).plan(each.candidate)
    if plan.linking is None or plan.held:
        return plan
    spelled = [portable(path, base) for path in each.find.links]
    steps = [Step(link, links.place(ports.project, link), "make") for link in spelled]
    return replace(plan, linking=replace(plan.linking, steps=(*plan.linking.steps, *steps)))


def _keep(each: _Adopted, ports: Ports) -> None:
    """Put the bytes where the project keeps them, and make room where a link leads to a copy of them."""
    if each.target is not None and not os.path.lexists(each.target):
        tree = each.candidate.tree
        links.make(ports.project, each.target, tree, ports.store.path(tree.digest), "copy")
    for path in each.find.links:
        links.unmake(ports.project, path)


def _take_away(adopted: Iterable[_Adopted], disabled: set[str], project: Project) -> None:
    """Take the copies of what is not to be enabled out of agents' folders; the store has their bytes."""
    for each in adopted:
        for path in each.find.copies if each.find.name in disabled else ():
            if path != each.target and not compare(path, each.candidate.tree.listing):
                links.unmake(project, path)

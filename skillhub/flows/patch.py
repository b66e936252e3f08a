"""Patch: what a person edited in an agent's folder becomes a patch that the project agrees to, or is given up."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from skillhub.errors import FormatError, UsageError
from skillhub.flows.candidate import Candidate
from skillhub.flows.carried import with_edits
from skillhub.flows.hints import command
from skillhub.flows.install import carry_out
from skillhub.flows.listing import refuse_unknown
from skillhub.flows.locked import from_lock
from skillhub.flows.options import Options
from skillhub.flows.outcome import LeftOut, Outcome, ask
from skillhub.flows.plan import Planner
from skillhub.flows.ports import Ports
from skillhub.flows.state import State, read_state
from skillhub.model.tree import Tree
from skillhub.world import links
from skillhub.world.local import read_local

_Make = Callable[[str, State, Ports], Candidate]


def patch(names: Sequence[str], options: Options, ports: Ports) -> Outcome:
    """Write what was edited in these skills as a patch beside the lock, so that everybody gets it with ``install``.

    It is what the source has that a person, a team and a signature agreed to before, so the patched skill is scanned
    and asked about like one that nobody signed, but for that one question: whoever types this made the edits.

    Raises:
        NotFound: a name that is not locked.
        UsageError: one that was not edited, is not enabled here as locked, or was edited in several ways.
        FormatError: edits that no patch can hold.
        SecurityError: edits that no skill may have.
        Refused: a question was answered no or by nobody; nothing was changed.
        StateError: the disk is in the way.
    """
    return _agree(names, _edited, options, ports)


def drop(names: Sequence[str], options: Options, ports: Ports) -> Outcome:
    """Give up the patches of these skills; they are what their source has again, and the patches' files stay.

    That nobody signed it is asked about too where the person never agreed to the patched skill.

    Raises:
        NotFound: a name that is not locked.
        UsageError: one that has no patch.
        SourceError, SecurityError: what the source has cannot be had, or is not what was locked.
        Refused: a question was answered no or by nobody; nothing was changed.
        StateError: the disk is in the way.
    """
    return _agree(names, _unpatched, options, ports)


def _agree(names: Sequence[str], make: _Make, options: Options, ports: Ports) -> Outcome:
    state = read_state(ports)
    refuse_unknown(names, state.lock.skills, ports.project.scope)
    planner = Planner.of(options, state, ports)
    candidates = [make(name, state, ports) for name in dict.fromkeys(names)]
    plans = [planner.plan(each) for each in candidates]
    # What somebody else agreed to is nobody's here until they say so.
    mine = {name for name in names if state.agreed(name)}
    raised = [
        each for one in plans for each in one.questions() if each.kind != "unsigned" or each.skill not in mine
    ]
    return carry_out(plans, options, ask(raised, ports, options.dry_run), state, ports)


def _edited(name: str, state: State, ports: Ports) -> Candidate:
    entry, record = state.lock.skills[name], state.agreed(name)
    if record is None or not record.enabled or record.link == "symlink":
        hint = f"{command(ports.project.scope, 'enable', name, '--link', 'copy')}, then edit the copy"
        raise UsageError(f"{name} has no copy here of what is locked", where=name, hint=hint)
    places = links.places(ports.project, record.links)
    copies = {
        path: read_local(path, project=ports.project)[0].tree for path in places if os.path.lexists(path)
    }
    trees = {path: tree for path, tree in copies.items() if tree.digest != record.tree}
    if not trees:
        raise UsageError(
            f"nobody edited {name} here", where=name, hint="edit a copy in an agent's folder first"
        )
    tree = _alike(trees)
    found = from_lock(name, entry.original, ports, agreed=True, scanned=False)
    edited = with_edits(found, tree, ports)
    if isinstance(edited, LeftOut):
        raise FormatError(
            edited.message, where=places[0], hint="a skill of your own can hold them: skillhub adopt"
        )
    return edited


def _alike(trees: dict[str, Tree]) -> Tree:
    if len({tree.digest for tree in trees.values()}) > 1:
        raise UsageError(
            f"expected one way of editing, found several: {', '.join(trees)}",
            hint="make the copies alike, or take away those that are not meant and run skillhub sync",
        )
    return next(iter(trees.values()))


def _unpatched(name: str, state: State, ports: Ports) -> Candidate:
    entry = state.lock.skills[name]
    if entry.patch is None:
        raise UsageError(f"the lock has no patch of {name}", where=name)
    # It is scanned: to agree to what comes of a patch is not to agree to what it is of.
    return from_lock(name, entry.original, ports, agreed=state.agreed(name) is not None)

"""Make the edits in an agent's folder a patch of the project, or drop such a patch."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from skillhub.command.ports import LeftOut, Options, Outcome, Ports, ask
from skillhub.command.state import State, read_state, refuse_unknown
from skillhub.edits.patch import patch_warning
from skillhub.errors import FormatError, StateError, UsageError
from skillhub.formats.text import as_command, command
from skillhub.install.apply import carry_out
from skillhub.install.candidates import Candidate
from skillhub.install.commit import Planner
from skillhub.install.obtain import obtain_locked, with_new_patch
from skillhub.model.tree import SIGNATURE, Tree
from skillhub.project.copies import paths_of
from skillhub.sources.local import read_local

_Make = Callable[[str, State, Ports], Candidate]


def patch(names: Sequence[str], options: Options, ports: Ports) -> Outcome:
    """Write the edits of these skills as patches beside the lock, so that the whole team gets them with ``install``.

    The signature and all former consent are about the unpatched tree. So the patched skill is scanned, and the user
    is asked about it as about an unsigned skill, without the question about the missing signature: they made the
    edits themselves. A patch whose file is missing or was changed is written again from the copies.

    Raises:
        NotFound: a name is not locked.
        UsageError: a skill has no edits, is not enabled here as locked, or its copies have different edits.
        FormatError: a patch cannot hold the edits.
        SecurityError: the edited skill is not permitted.
        Refused: a question was not answered, or with no; nothing was changed.
        StateError: the disk is in the way, or a copy was edited after the question.
    """
    return _agree(names, _edited, options, ports)


def drop(names: Sequence[str], options: Options, ports: Ports) -> Outcome:
    """Drop the patches of these skills: they are as in their source again; the patch files stay.

    The lock names the unpatched tree, so the question about a missing signature is asked, too.

    Raises:
        NotFound: a name is not locked.
        UsageError: a skill has no patch.
        SourceError, SecurityError: the unpatched skill is unavailable, or differs from the lock.
        Refused: a question was not answered, or with no; nothing was changed.
        StateError: the disk is in the way.
    """
    return _agree(names, _unpatched, options, ports)


def _agree(names: Sequence[str], make: _Make, options: Options, ports: Ports) -> Outcome:
    state = read_state(ports.project, ports.sources)
    refuse_unknown(names, state.lock.skills, ports.project, state.unlocked)
    planner = Planner(options, state, ports)
    candidates = [make(name, state, ports) for name in dict.fromkeys(names)]
    plans = [planner.plan(each) for each in candidates]
    # The user made the edits, but may never have seen the tree that the lock names as the unpatched one.
    mine = {name for name in names if make is _edited and state.agreed(name)}
    raised = [each for one in plans for each in one.questions() if each.kind != "unsigned" or each.skill not in mine]
    answers = ask(raised, ports, options.dry_run)
    if make is _edited and any(make(each.name, state, ports).tree.digest != each.tree.digest for each in candidates):
        raise StateError("a copy was edited meanwhile", hint="run the command again; it asks again")
    return carry_out(plans, options, answers, state, ports)


def _edited(name: str, state: State, ports: Ports) -> Candidate:
    entry, record = state.lock.skills[name], state.agreed(name)
    if record is None or not record.enabled or record.link == "symlink":
        hint = f"{command(ports.project.scope, 'enable', name, '--link', 'copy')}, then edit the copy"
        raise UsageError(f"{name} has no copy of the locked version here", where=name, hint=hint)
    paths = paths_of(ports.project, record.links)
    base = ports.store.listing(record.tree)
    there = [path for path in paths if os.path.lexists(path)]
    copies = {path: read_local(path, project=ports.project, like=base).tree for path in there}
    # The copies of a patch that is gone from its file are all that is left of it: it is written again.
    is_lost = patch_warning(name, entry, ports.project) is not None
    trees = {path: tree for path, tree in copies.items() if is_lost or tree.digest != record.tree}
    if not trees:
        first = "" if copies else f"{command(ports.project.scope, 'sync')} restores the copies; "
        raise UsageError(f"{name} has no edits here", where=name, hint=f"{first}edit a copy in an agent's folder")
    tree = _alike(trees, ports.project.scope)
    found = obtain_locked(name, entry.original, ports, is_agreed=True, scan=False)
    edited = with_new_patch(found, tree, ports)
    if isinstance(edited, LeftOut):
        path, scope = next(iter(trees)), ports.project.scope
        own = as_command("cp", "-R", path, name)
        own += f"; {as_command('rm', f'{name}/{SIGNATURE}')}" if SIGNATURE in tree else ""
        own += f"; {command(scope, 'remove', name)}"
        own += f"; {command(scope, 'install', f'./{name}')}"
        raise FormatError(edited.message, where=path, hint=f"take them out, or make it a skill of your own: {own}")
    return edited


def _alike(trees: dict[str, Tree], scope: str) -> Tree:
    if len({tree.digest for tree in trees.values()}) > 1:
        message = f"expected the same edits in all copies, found different ones: {', '.join(trees)}"
        raise UsageError(message, hint=f"make them equal, or delete the wrong ones and run {command(scope, 'sync')}")
    return next(iter(trees.values()))


def _unpatched(name: str, state: State, ports: Ports) -> Candidate:
    entry = state.lock.skills[name]
    if entry.patch is None:
        raise UsageError(f"the lock has no patch of {name}", where=name)
    # It is scanned: consent to the patched skill is no consent to the unpatched one.
    return obtain_locked(name, entry.original, ports, is_agreed=state.agreed(name) is not None)

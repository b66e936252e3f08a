"""Lock import: what another installer's lock names is resolved, asked about, pinned and enabled as by ``install``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from skillhub.errors import SkillhubError
from skillhub.flows.candidate import Candidate
from skillhub.flows.install import take
from skillhub.flows.options import Options
from skillhub.flows.origins import OF_ONE, obtained
from skillhub.flows.outcome import LeftOut, Outcome
from skillhub.flows.ports import Ports
from skillhub.flows.state import State, read_state
from skillhub.model.origin import Origin, OtherLock


def import_lock(other: OtherLock, options: Options, ports: Ports) -> Outcome:
    """Install what the other lock names, as one transaction; what cannot be pinned is left out, with the reason.

    Raises:
        SecurityError: something was tampered with, or a name is locked from elsewhere; nothing was changed.
        Refused: a question was answered no or by nobody; nothing was changed.
        StateError: the disk is in the way.
    """
    state = read_state(ports)
    left = [LeftOut(each.name, "no-origin", each.reason) for each in other.unpinned]
    found: dict[str, Candidate] = {}
    for each in _had(other, options, state, ports):
        if isinstance(each, LeftOut):
            left.append(each)
        elif each.tree.digest != found.setdefault(each.name, each).tree.digest:
            first = found[each.name].entry.origin
            left.append(
                LeftOut(each.name, "usage", f"the lock has it from {first} and from {each.entry.origin}")
            )
    if not found:
        return Outcome((), False, left=tuple(left))
    outcome = take(found, options, state, ports)
    return replace(outcome, left=(*left, *outcome.left))


def _had(other: OtherLock, options: Options, state: State, ports: Ports) -> Iterator[Candidate | LeftOut]:
    """Yield each skill, or why it cannot be had."""
    for done, origin in enumerate(other.origins):
        ports.report("resolving", done, len(other.origins))
        # One by one, so that one that is gone does not take its neighbours with it; a place is opened once.
        for each in origin.each():
            try:
                found = obtained(each, options, state, ports)
            except OF_ONE as error:
                yield LeftOut(each.name, error.code, _told(error))
                continue
            yield from (_noted(candidate, each) for candidate in found.values())


def _told(error: SkillhubError) -> str:
    where = f" ({error.where})" if error.where else ""
    return f"{error.message}{where}{'; ' + error.hint if error.hint else ''}"


def _noted(candidate: Candidate, origin: Origin) -> Candidate:
    notes = [origin.note] if origin.note else []
    if not origin.skills and candidate.name != origin.name:
        notes.append(f"the other lock calls it {origin.name}")
    return candidate.noted(*notes)

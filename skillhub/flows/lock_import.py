"""Import: what the lock of another installer names is resolved, asked about, pinned and enabled as by ``install``."""

from __future__ import annotations

from collections.abc import Iterator

from skillhub.errors import Forbidden, FormatError, SkillhubError, SourceError, UnsafeTransfer, UsageError
from skillhub.flows.candidate import Candidate
from skillhub.flows.gather import gather
from skillhub.flows.install import take
from skillhub.flows.options import Options
from skillhub.flows.outcome import Left, Outcome
from skillhub.flows.policy import under
from skillhub.flows.ports import Ports
from skillhub.flows.state import State, read_state
from skillhub.model.dataclass import replace
from skillhub.model.origin import Origin, OtherLock
from skillhub.model.ref import parse_ref

# What concerns one skill alone; any other SecurityError or a full disk stops all of it.
_OF_ONE = (FormatError, SourceError, UsageError, Forbidden, UnsafeTransfer)


def import_lock(other: OtherLock, options: Options, ports: Ports) -> Outcome:
    """Install what the other lock names, as one transaction; what cannot be pinned is left out, with the reason.

    Raises:
        SecurityError: something was tampered with, or a name is locked from elsewhere; nothing was changed.
        Refused: a question was answered no or by nobody; nothing was changed.
        StateError: the disk is in the way.
    """
    state = read_state(ports)
    ports = under(state.intent, ports)
    left = [Left(each.name, "no-origin", each.reason) for each in other.unpinned]
    found: dict[str, Candidate] = {}
    for each in _had(other, options, state, ports):
        if isinstance(each, Left):
            left.append(each)
        elif each.tree.digest != found.setdefault(each.name, each).tree.digest:
            first = found[each.name].entry.origin
            left.append(
                Left(each.name, "usage", f"the lock has it from {first} and from {each.entry.origin}")
            )
    if not found:
        return Outcome((), False, left=tuple(left))
    outcome = take(found, options, state, ports)
    return replace(outcome, left=(*left, *outcome.left))


def _had(other: OtherLock, options: Options, state: State, ports: Ports) -> Iterator[Candidate | Left]:
    """Yield each skill, or why it cannot be had."""
    for done, origin in enumerate(other.origins):
        ports.report("resolving", done, len(other.origins))
        # One by one, so that one that is gone does not take its neighbours with it; a place is opened once.
        for name in origin.skills or ("",):
            try:
                refs = [parse_ref(origin.ref)]
                chosen = replace(options, skills=(name,) if name else (), every=False)
                found = gather(refs, chosen, state, ports, guarded=True).found
            except _OF_ONE as error:
                yield Left(name or origin.name, error.code, _told(error))
                continue
            yield from (_noted(candidate, origin) for candidate in found.values())


def _told(error: SkillhubError) -> str:
    where = f" ({error.where})" if error.where else ""
    return f"{error.message}{where}{'; ' + error.hint if error.hint else ''}"


def _noted(candidate: Candidate, origin: Origin) -> Candidate:
    notes = [origin.note] if origin.note else []
    if not origin.skills and candidate.name != origin.name:
        notes.append(f"the other lock calls it {origin.name}")
    return replace(candidate, warnings=(*candidate.warnings, *notes))

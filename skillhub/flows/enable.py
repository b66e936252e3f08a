"""Enable: the needs of what is locked are checked again, and what nothing holds back is linked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from skillhub.flows.candidate import Candidate
from skillhub.flows.install import carry_out
from skillhub.flows.listing import refuse_unknown
from skillhub.flows.locked import about_skill, by_lock
from skillhub.flows.options import Options
from skillhub.flows.outcome import Outcome, ask
from skillhub.flows.plan import Planner
from skillhub.flows.ports import Ports
from skillhub.flows.state import State, read_state


def enable(names: Sequence[str], options: Options, ports: Ports) -> Outcome:
    """Check the needs of locked skills again, ask about what is open, and link those that nothing holds back.

    Raises:
        NotFound: a name that is not locked.
        SecurityError: what is stored or fetched is not what was locked.
        Refused: nobody agreed to the skill, or a policy forbids it.
        StateError: the disk is in the way.
    """
    state, names = read_state(ports), tuple(dict.fromkeys(names))
    refuse_unknown(names, state.lock.skills, ports.project.scope)
    willing = _willing(state, names)
    candidates = [_read(name, state, ports) for name in names]
    planner = Planner.of(options, willing, ports)
    plans = [planner.plan(each) for each in candidates]
    asked = ask([question for each in plans for question in each.questions()], ports, options.dry_run)
    return carry_out(plans, options, asked, state, ports)


def _read(name: str, state: State, ports: Ports) -> Candidate:
    """Return what is locked, read whole though it may be agreed to: what the lock claims of it is checked again."""
    with about_skill(name):
        is_agreed = state.agreed(name) is not None
        return by_lock(name, state.lock.skills[name], ports, agreed=is_agreed).go()


def _willing(state: State, names: Sequence[str]) -> State:
    """Return the state as if the person had never said ``disable`` to these."""
    skills = {
        name: replace(record, held="") if name in names else record
        for name, record in state.records.skills.items()
    }
    return replace(state, records=replace(state.records, skills=skills))

"""Enable, disable, remove: the links of what is locked already, and all that hangs on them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from skillhub.errors import NotFound
from skillhub.flows.commit import forget
from skillhub.flows.install import carry_out, plan, questions
from skillhub.flows.linking import Linker, Linking
from skillhub.flows.needs import given
from skillhub.flows.obtain import from_lock
from skillhub.flows.outcome import Outcome, ask
from skillhub.flows.ports import Ports
from skillhub.flows.standing import Standing, read_standing
from skillhub.flows.view import view
from skillhub.flows.wishes import Wishes, chosen_agents
from skillhub.model.question import Asked
from skillhub.model.record import Record, Records
from skillhub.world import links, mcp
from skillhub.world.exclude import exclude
from skillhub.world.intent import edit


def enable(names: Sequence[str], wishes: Wishes, ports: Ports) -> Outcome:
    """Check the needs of locked skills again, ask about what is open, and link those that nothing holds back.

    Raises:
        NotFound: a name that is not locked.
        SecurityError: what is stored or fetched is not what was locked.
        Refused: nobody agreed to the skill.
        StateError: the disk is in the way.
    """
    standing = _willing(_known(names, read_standing(ports)), names)
    candidates = [from_lock(name, standing.lock.skills[name], ports) for name in names]
    agents = chosen_agents(wishes, standing.records, standing.intent, ports)
    is_met = given(ports.environ, standing.lock.skills)
    plans = [plan(each, wishes, is_met, agents, standing, ports) for each in candidates]
    asked = ask([question for each in plans for question in questions(each)], ports)
    return carry_out(plans, wishes, asked, standing, ports)


def disable(names: Sequence[str], ports: Ports) -> Outcome:
    """Take the links of these skills away, nothing else; they stay so until ``enable``.

    Raises:
        NotFound: a name that is not locked.
        Refused: nobody agreed to what becomes of edits made by hand.
        StateError: the disk is in the way.
    """
    standing = _known(names, read_standing(ports))
    cleared, asked = _clear(names, standing, ports)
    with ports.project.exclusively():
        records = ports.project.records()
        changed = {name: _held(records.skills.get(name), name, standing) for name in names}
        _write(replace(records, skills={**records.skills, **changed}), ports)
        _take_away(cleared, standing, ports)
    is_met = given(ports.environ, standing.lock.skills)
    skills = tuple(
        view(name, standing.lock.skills[name], changed[name], is_met, ports.project, ports.store)
        for name in names
    )
    was = [standing.records.skills.get(name) for name in names]
    return Outcome(skills, any(record is None or record.held != "user" for record in was), asked)


def remove(names: Sequence[str], ports: Ports) -> Outcome:
    """Take these skills out of links, lock and intent, and with them the MCP entries that are still as we wrote.

    Raises:
        NotFound: a name that is not locked.
        Refused: nobody agreed to what becomes of edits made by hand.
        StateError: the disk is in the way.
    """
    standing = _known(names, read_standing(ports))
    is_met = given(ports.environ, standing.lock.skills)
    skills = tuple(
        view(name, standing.lock.skills[name], None, is_met, ports.project, ports.store) for name in names
    )
    cleared, asked = _clear(names, standing, ports)
    with ports.project.exclusively():
        lock, records = forget(names, read_standing(ports))
        text = ports.project.intent_bytes()
        ports.project.write_intent(edit(text, {}, names))
        ports.project.write_lock(lock)
        _take_away(cleared, standing, ports)
        take_back_servers((standing.records.skills.get(name) for name in names), records, ports)
        _write(records, ports)
    return Outcome(skills, True, asked)


def take_back_servers(gone: Iterable[Record | None], left: Records, ports: Ports) -> None:
    """Remove the MCP entries of skills that are gone, unless somebody changed them or another skill uses them.

    Raises:
        FormatError: an agent's configuration is malformed; it is left as it is.
        StateError: it cannot be written.
    """
    used = {server for record in left.skills.values() for server in record.mcp}
    for record in gone:
        for server, entries in (record.mcp if record else {}).items():
            if server in used:
                continue
            for agent, entry in entries.items():
                project = ports.project
                file = mcp.config_file(agent, project.scope, project.base, ports.user_home, ports.environ)
                if file is not None:
                    mcp.remove(file, server, entry, project.config_lock)


def _known(names: Sequence[str], standing: Standing) -> Standing:
    for name in names:
        if name not in standing.lock.skills:
            known = ", ".join(standing.lock.skills) or "none"
            raise NotFound(f"no skill named {name} is installed here", hint=f"installed: {known}")
    return standing


def _willing(standing: Standing, names: Sequence[str]) -> Standing:
    """Return the standing as if the person had never said ``disable`` to these."""
    records: dict[str, Record] = dict(standing.records.skills)
    for name in names:
        if name in records:
            records[name] = replace(records[name], held="")
    return replace(standing, records=replace(standing.records, skills=records))


def _clear(names: Sequence[str], standing: Standing, ports: Ports) -> tuple[list[Linking], tuple[Asked, ...]]:
    """Look at the links that are to go, and ask about edits made by hand in them."""
    linker = Linker(ports.project, ports.store)
    cleared = []
    for name in names:
        record = standing.records.skills.get(name)
        if record is not None:
            cleared.append(linker.plan_removal(name, record))
    return cleared, tuple(ask([question for each in cleared for question in each.questions()], ports))


def _take_away(cleared: Sequence[Linking], standing: Standing, ports: Ports) -> None:
    linker = Linker(ports.project, ports.store)
    for linking in cleared:
        linker.save_edits(linking, standing.records.skills.get(linking.name))
        for path in linking.paths:
            links.unmake(path)


def _held(record: Record | None, name: str, standing: Standing) -> Record:
    entry = standing.lock.skills[name]
    if record is None or record.tree != entry.tree:
        return Record(tree=entry.tree, enabled=False, held="user")
    return replace(record, enabled=False, held="user", links=())


def _write(records: Records, ports: Ports) -> None:
    ports.project.write_records(records)
    exclude(ports.project.base, [link for record in records.skills.values() for link in record.links])

"""Disable and remove: what is locked leaves the agents' folders, and with ``remove`` lock and intent, too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from skillhub.errors import Refused, StateError
from skillhub.formats.digest import NO_FILES
from skillhub.install.commit import write_records
from skillhub.install.context import Outcome, Ports, State, ask, command, read_unchecked
from skillhub.install.gather import orphans
from skillhub.install.links import Linker, Linking, about_deleted, refuse_unknown
from skillhub.model.lock import Lock
from skillhub.model.question import Asked
from skillhub.model.record import Record, Records, Skill
from skillhub.project import copies, mcp
from skillhub.project.installed import given, view
from skillhub.project.intent_file import edit


def disable(names: Sequence[str], ports: Ports, *, dry_run: bool = False) -> Outcome:
    """Take the links of these skills away, nothing else; they stay so until ``enable``.

    A dry run asks and does nothing.

    Raises:
        NotFound: a name that is not locked.
        Refused: nobody agreed to what becomes of edits made by hand.
        StateError: the disk is in the way.
    """
    state, names = read_unchecked(ports), tuple(dict.fromkeys(names))
    refuse_unknown(names, state.lock.skills, ports.project.scope)
    cleared, asked = _ask(names, state, ports, dry_run)
    if dry_run:
        return Outcome(_views(names, state.records.skills, state, ports), False, asked)
    with ports.project.exclusively():
        linker = _saving(cleared, state, ports)
        records = read_unchecked(ports).records
        changed = {name: _held(records.skills.get(name)) for name in names}
        # Their links are forgotten only when they are gone: until then `sync` would take them away.
        write_records(replace(records, skills={**records.skills, **changed}), ports)
        for linking in cleared:
            linker.take_away(linking)
        changed = {name: replace(record, links=()) for name, record in changed.items()}
        write_records(replace(records, skills={**records.skills, **changed}), ports)
    skills = _views(names, changed, state, ports)
    was = [state.records.skills.get(name) for name in names]
    return Outcome(skills, any(record is None or record.held != "user" for record in was), asked)


def remove(names: Sequence[str], ports: Ports, *, dry_run: bool = False, unwanted: bool = False) -> Outcome:
    """Take these skills out of links, lock and intent, with the MCP entries that are as we wrote them.

    What only they have needed goes with them, as do agents' folders and files that were made for skills and are
    empty by now. A dry run asks and does nothing. What is ``unwanted`` goes only if it is so to the last.

    Raises:
        NotFound: a name that is not locked.
        Refused: a skill that stays needs one of them, or nobody agreed to what becomes of edits made by hand.
        StateError: the disk is in the way, or what was unwanted is wanted by now.
    """
    state = read_unchecked(ports)
    _refuse_needed(frozenset(names), state, ports)
    if unwanted:  # with all that only they need; another process may be quicker
        names = tuple(name for name in names if name in state.lock.skills)
    else:
        names = tuple(dict.fromkeys((*names, *orphans(names, state))))
    # What `sync` found gone from the lock may have left MCP entries behind.
    refuse_unknown(names, {*state.lock.skills, *state.records.skills}, ports.project.scope)
    configured = _config_files(names, state, ports)
    cleared, asked = _ask(names, state, ports, dry_run)
    if dry_run:
        return Outcome(_views(names, state.records.skills, state, ports), False, asked)
    gone = {name: replace(r, enabled=False, links=()) for name, r in state.records.skills.items()}
    skills = _views(names, gone, state, ports)
    with ports.project.exclusively():
        now = read_unchecked(ports)
        if unwanted and (wanted := sorted({*names} & now.lock.skills.keys() - {*now.unwanted})):
            message = f"{wanted[0]} is wanted again: lock or skillhub.toml changed meanwhile"
            raise StateError(message, where=ports.project.intent_path, hint="run the command again")
        linker = _saving(cleared, state, ports)
        lock, records = _without(frozenset(names), now)
        text = ports.project.intent_bytes()
        ports.project.write_intent(edit(text, {}, names))
        ports.project.write_lock(lock.dump())
        for linking in cleared:
            linker.take_away(linking)
        removed = [now.records.skills[name] for name in names if name in now.records.skills]
        records = _take_back_servers(removed, records, configured, ports)
        write_records(replace(records, made=copies.clear(ports.project, records.made)), ports)
    return Outcome(skills, True, asked)


def _without(names: frozenset[str], state: State) -> tuple[Lock, Records]:
    """Return lock and records without these skills, and without the sources that nothing else uses.

    Where nothing is left, the next skill is asked about as the first one was, the agents that are to have it too.
    """
    skills = {name: entry for name, entry in state.lock.skills.items() if name not in names}
    used = {entry.source for entry in skills.values()}
    sources = {alias: source for alias, source in state.lock.sources.items() if alias in used}
    records = {name: record for name, record in state.records.skills.items() if name not in names}
    agents = state.records.agents if records else ()
    return Lock(skills, sources), replace(state.records, skills=records, agents=agents)


def _refuse_needed(names: frozenset[str], state: State, ports: Ports) -> None:
    """Refuse to remove what a skill that stays needs."""
    for other, entry in state.lock.skills.items():
        missed = sorted(names.intersection(entry.dependencies))
        if missed and other not in names:
            hint = f"remove both: {command(ports.project.scope, 'remove', other, *missed)}"
            raise Refused(f"{other} needs {', '.join(missed)}", where=other, hint=hint)


def _config_files(names: Iterable[str], state: State, ports: Ports) -> Mapping[str, mcp.ConfigFile | None]:
    """Return the file of each agent that has servers of these skills, as it is before anything is asked."""
    project, records = ports.project, state.records.skills
    agents = {agent for name in names if name in records for each in records[name].mcp.values() for agent in each}
    return {
        agent: mcp.config_file(agent, project.scope, project.base, ports.user_home, ports.environ)
        for agent in sorted(agents)
    }


def _take_back_servers(
    gone: Iterable[Record], left: Records, configured: Mapping[str, mcp.ConfigFile | None], ports: Ports
) -> Records:
    """Remove the MCP entries of skills that are gone, unless somebody changed them.

    Entries that another skill needs stay, and are that skill's from now on.

    Raises:
        FormatError: an agent's configuration is malformed; it is left as it is.
        StateError: it cannot be written.
    """
    skills = dict(left.skills)
    for record in gone:
        for server, entries in record.mcp.items():
            heir = next((name for name, each in skills.items() if _needs(each, server)), None)
            if heir is None:
                _take_back(server, entries, configured, ports)
            else:
                merged = {**entries, **skills[heir].mcp.get(server, {})}
                skills[heir] = replace(skills[heir], mcp={**skills[heir].mcp, server: merged})
    return replace(left, skills=skills)


def _needs(record: Record, server: str) -> bool:
    return server in record.mcp or any(need.spell() == f"mcp:{server}" for need in record.facts.needs)


def _take_back(
    server: str, entries: Mapping[str, Any], configured: Mapping[str, mcp.ConfigFile | None], ports: Ports
) -> None:
    for agent, entry in entries.items():
        file = configured.get(agent)  # one that came meanwhile is not of what was removed
        if file is not None:
            mcp.remove(file, server, entry, ports.project)


def _ask(names: Sequence[str], state: State, ports: Ports, dry_run: bool) -> tuple[list[Linking], tuple[Asked, ...]]:
    """Ask what becomes of edits where links are to go; return what is to be done there, and what was said.

    Raises:
        Refused: nobody agreed.
    """
    linker, records = Linker(ports.project, ports.store), state.records.skills
    # To keep a copy would be to keep the skill: that is a no to the command.
    found = [
        replace(linker.plan_removal(name, records[name]), ways=("save", "take")) for name in names if name in records
    ]
    asked = ask(about_deleted(found), ports, dry_run)
    return [linking for each in found if (linking := each.answered(asked))], tuple(asked)


def _views(names: Sequence[str], records: Mapping[str, Record], state: State, ports: Ports) -> tuple[Skill, ...]:
    """Return these skills as they are shown, as far as they are locked."""
    locked = state.lock.skills
    is_met = given(ports.environ, state.records.enabled(locked))
    return tuple(
        view(name, locked[name], records.get(name), is_met, ports.project, ports.store)
        for name in names
        if name in locked
    )


def _saving(cleared: Sequence[Linking], state: State, ports: Ports) -> Linker:
    """Save what was edited in these places, before anything is changed, and return what takes it away."""
    linker = Linker(ports.project, ports.store)
    for linking in cleared:
        linker.save(linking, state.records.skills.get(linking.name))
    return linker


def _held(record: Record | None) -> Record:
    """Return the record of a skill that its user disabled; to disable it is not to agree to its tree."""
    return replace(record or Record(tree=NO_FILES, enabled=False), enabled=False, held="user")

"""Needs of a skill against this machine: what is missing, MCP servers, questions and their answers."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from skillhub.formats.text import quoted
from skillhub.install.candidates import Candidate
from skillhub.install.context import McpChoice, Options, Ports, State, command
from skillhub.model import mcp_server
from skillhub.model.hosts import Host
from skillhub.model.manifest import Manifest
from skillhub.model.needs import McpServer, Requirement
from skillhub.model.question import SERVER_KINDS, SERVER_RUNS, Asked, Kind, Question
from skillhub.model.record import DeclaredNeed, Facts, Need, Record, Records, Scope, SkillScope
from skillhub.model.server_command import Risk, steered_by
from skillhub.project import mcp
from skillhub.project.installed import Given, or_stored
from skillhub.project.project import Project

# What a skill needs, held against this machine: is it there, and does its absence keep the skill disabled.


def facts_of(manifest: Manifest, capabilities: tuple[str, ...]) -> Facts:
    """Return what ``list`` will show of a skill's content without reading it again."""
    rows = tuple(DeclaredNeed(need.kind, need.name, need.description, need.required) for need in manifest.requires)
    return Facts(manifest.description, manifest.model_invocable, rows, capabilities)


def how_to_meet(skill: str, need: Need, scope: SkillScope) -> tuple[str, ...]:
    """Return what to type or do about an open need, a line for each way; a command ends its line."""
    enable = command(scope, "enable", skill)
    if need.kind == "env":
        return (
            f"export {need.name}=…, then: {enable}",
            f"or at once: {enable} --env {need.name}=…",
            f"or to keep it, by the extra keyring: {command(scope, 'env', 'set', need.name)}",
        )
    if need.kind == "program":
        return (f"install the program {need.name}, then: {enable}",)
    if need.kind == "mcp":
        return f"to have it configured: {enable} --mcp configure", or_skip(enable)
    return (
        f"once it can be found: {command(scope, 'install')}",
        f"or have it from elsewhere ({command(scope, 'install', 'REF')}), then: {enable}",
    )


def or_skip(enable: str) -> str:
    """Return the last way to meet the need of an MCP server, given the command that enables the skill."""
    return f"or if you see to it yourself: {enable} --mcp skip"


# An MCP server that a skill needs, held against the configuration of the agents that are to have the skill.


@dataclass(frozen=True, slots=True)
class ServerNeed:
    """What these agents have of one server.

    Attributes:
        files: Agent to the file where it keeps its servers, of those agents that have one.
        states: Agent to what is in that file under the server's name: ``absent``, ``equal``, ``different``.
        theirs: Agent to the entry of that name that differs, as it stands there.
        by_hand: Those of them that lack it and spell it in a way that we do not know.
        chosen: Agent to the entry that would be used as it stands there, where it has others of that name elsewhere.
        elsewhere: Agent to other servers of that name: where they stand (file, scope, project), and the entry.
        steered: Files of the project that may have its launcher fetch, or run, something else.
    """

    need: Requirement
    files: Mapping[str, mcp.ConfigFile]
    states: Mapping[str, mcp.State]
    by_hand: tuple[str, ...] = ()
    theirs: Mapping[str, object] = field(default_factory=dict)
    chosen: Mapping[str, object] = field(default_factory=dict)
    elsewhere: Mapping[str, Sequence[tuple[str, object]]] = field(default_factory=dict)
    steered: tuple[str, ...] = ()

    @property
    def is_configured(self) -> bool:
        """Whether every one of these agents has just this server already, and no other of its name."""
        return bool(self.states) and set(self.states.values()) == {"equal"} and not self.elsewhere

    @property
    def uses_code(self) -> bool:
        """Whether another server of its name, which would be used, runs a shell or code that its words hold."""
        return any(map(mcp_server.runs_code, self.theirs.values()))

    @property
    def absent(self) -> tuple[str, ...]:
        """The agents whose file would be written."""
        return tuple(agent for agent, found in self.states.items() if found == "absent")

    @property
    def to_do(self) -> tuple[str, ...]:
        """What a person has to do where we cannot, a line for each agent."""
        unknown = "nobody has told skillhub how"
        return tuple(
            f"add the MCP server {self.need.name} to {self.files[agent].path} yourself; {unknown} {agent} spells it"
            for agent in self.by_hand
        )

    def described(self) -> McpServer:
        """Return how it is run or reached; only of one that somebody described, as nothing else is written."""
        if self.need.server is None:
            raise AssertionError("a server that nobody described is never written")
        return self.need.server

    def questions(self, skill: str, choice: McpChoice) -> Iterator[Question]:
        """Yield what is to be asked before it is written, or before another of its name is used."""
        need, server = self.need, self.need.server
        if self.is_configured or choice == "skip" or not self.states:
            return
        about = f"{skill} needs the MCP server {need.name}"
        if self.theirs:
            kind: Kind = "mcp-shell" if self.uses_code else "mcp-conflict"
            which = f"{'an' if server is None else 'another'} MCP server is configured as {need.name}"
            runs = SERVER_RUNS["shell"] if self.uses_code else ""
            message = f"{which}{runs}; use that one for {skill}, unchanged?"
            yield Question(kind, skill, message, tuple(self._against()), need.name)
        elif self.elsewhere:
            message = f"{about}; {', '.join(self.elsewhere)} has another of that name in another place; use this one?"
            yield Question("mcp-conflict", skill, message, tuple(self._against()), need.name)
        if server is None or not self.absent:
            return
        details = (*server.facts(), *self._files(self.absent))
        steered = f"{', '.join(self.steered)} of this project may have it run something else"
        details = (*details, steered) if self.steered else details
        risk: Risk = "unpinned" if self.steered and server.risk == "ordinary" else server.risk
        if risk != "ordinary" or choice == "ask":
            runs = SERVER_RUNS[risk] if risk == server.risk else f", and {steered}"
            message = f"{about}{runs}; write it into the configuration?"
            yield Question(SERVER_KINDS[risk], skill, message, details, need.name)

    def _files(self, agents: Iterable[str]) -> Iterator[str]:
        return (f"{agent}: {self.files[agent].path}" for agent in agents)

    def _against(self) -> Iterator[str]:
        """Yield what is configured, which is what a yes agrees to, and what the skill would have instead."""
        for agent, entry in self.theirs.items():
            yield from self._files([agent])
            yield from mcp_server.facts(entry)
        for agent, others in self.elsewhere.items():
            for where, entry in others:
                yield f"{agent}: {where}"
                yield from mcp_server.facts(entry)
        for agent, entry in self.chosen.items():
            yield f"it would be used as it is in {self.files[agent].path}"
            yield from mcp_server.facts(entry)
        if self.need.server is not None:
            another = "another" if self.theirs or self.absent else "the one that is configured"
            yield f"the skill asks for {another}: {'; '.join(self.need.server.facts())}"

    def ways(self, skill: str, scope: Scope) -> tuple[str, ...]:
        """Return, as ``how_to_meet`` does, what to do where ``--mcp configure`` does not make an end of it."""
        enable = command(scope, "enable", skill)
        found = tuple(self._ways(enable, scope))
        return (*found, or_skip(enable)) if found else ()

    def _ways(self, enable: str, scope: Scope) -> Iterator[str]:
        name, server = self.need.name, self.need.server
        theirs = ", ".join(self.files[agent].path for agent in self.theirs)
        if not self.states and self.by_hand:
            yield f"{'; '.join(self.to_do)}; then: {enable}"
        elif not self.states:
            agents = mcp.agents_with_file(scope)
            first, *others = (each for each in agents if server is None or mcp.is_spelled(each, server))
            configure = f"{enable} --mcp configure --agent {first}"
            yield f"no agent that keeps MCP servers in a file was found here; to configure {first}: {configure}"
            yield f"or another than {first}: {', '.join(others)}"
        elif theirs:
            runs = (
                f"{name} in {theirs} runs a shell or code; to use it"
                if self.uses_code
                else f"to use {name} as it is in {theirs}"
            )
            yield f"{runs}, agree at a terminal: {enable}"
            yield f"or rename {name} in {theirs}, for another"
        elif self.elsewhere:
            places = ", ".join(where for others in self.elsewhere.values() for where, _ in others)
            yield f"another server is called {name} in {places}; to have this one too, agree at a terminal: {enable}"
            yield f"or rename {name} in {places}"
        elif server is None:
            files = ", ".join(self.files[agent].path for agent in self.absent)
            yield f"the skill does not say how to run it; add {name} to {files}, then: {enable}"
        elif server.risk == "shell":
            yield f"it runs a shell or code, to which no flag agrees; at a terminal: {enable}"
        elif server.risk == "unpinned" or self.steered:
            files = f"{', '.join(self.steered)} of this project may have it run something else"
            why = files if self.steered else "it downloads a package of no fixed version"
            yield f"{why}; to agree: {enable} --mcp configure --accept mcp"


def look_at(
    need: Requirement, agents: Sequence[Host], ports: Ports, written: Mapping[str, object] | None = None
) -> ServerNeed:
    """Look into these agents' files.

    Args:
        need: The server.
        agents: The agents that are to have the skill.
        ports: Where their files are.
        written: Agent to what was written for this skill before, when a person agreed to it beside any other.

    Raises:
        FormatError: such a file is malformed.
        StateError: such a file leads out of the project or cannot be read.
    """
    project = ports.project
    may = steered_by(need.server.command) if need.server is not None and project.scope == "project" else ()
    steered = tuple(name for name in may if os.path.lexists(os.path.join(project.base, name)))
    found = ServerNeed(need, {}, {}, steered=steered)
    for agent in agents:
        place = (project.base, ports.user_home, ports.environ)
        file = mcp.config_file(agent.id, project.scope, *place)
        if file is not None:
            found = _with_agent(
                found, file, list(mcp.elsewhere(file, need.name, *place)), (written or {}).get(agent.id)
            )
    return found


def _with_agent(
    so_far: ServerNeed, file: mcp.ConfigFile, others: Sequence[tuple[str, object]], written: object
) -> ServerNeed:
    """Return what is known with one agent added: what its file has, and what stands elsewhere under the name."""
    need, agent = so_far.need, file.agent
    there = mcp.servers(file)
    entry = there.get(need.name)
    state = _undescribed(entry) if need.server is None else mcp.state(file, need.name, need.server)
    files = {**so_far.files, agent: file}
    if need.server and state == "absent" and not mcp.is_spelled(agent, need.server):
        return replace(so_far, files=files, by_hand=(*so_far.by_hand, agent))
    if need.server is not None and state != "different":
        others = [each for each in others if not mcp.is_same(agent, each[1], need.server)]
    else:
        others = [each for each in others if not mcp.is_equal(each[1], entry)]
    is_settled = state == "equal" and written is not None and mcp.is_equal(entry, written)
    if is_settled or (need.server is None and state == "absent"):
        others = ()
    found = replace(so_far, files=files, states={**so_far.states, agent: state})
    if state == "different":
        found = replace(found, theirs={**found.theirs, agent: entry})
    if others:
        found = replace(found, elsewhere={**found.elsewhere, agent: tuple(others)})
    if others and state == "equal":
        found = replace(found, chosen={**found.chosen, agent: entry})
    return found


def _undescribed(entry: object) -> mcp.State:
    """Return what an entry is to a skill that does not describe its server: any will do, but no shell unasked."""
    if entry is None:
        return "absent"
    return "different" if mcp_server.runs_code(entry) else "equal"


# What a skill still needs before it is enabled: the questions about it, and what comes of the answers.

_ABOUT_MAX = 240  # characters of what a skill says of a variable


@dataclass(frozen=True, slots=True)
class OpenNeeds:
    """The needs of one skill that stand open.

    Attributes:
        given: Those that this command meets by ``--env``, as a record spells them.
        missing: Variables that nobody has a value of.
        servers: MCP servers, held against the agents that are to have the skill.
        choice: What the person wants to become of servers.
        programs: Those that are not there: they keep the skill disabled, whatever is answered.
    """

    skill: str
    given: tuple[str, ...]
    missing: tuple[Requirement, ...]
    servers: tuple[ServerNeed, ...]
    choice: McpChoice
    programs: tuple[str, ...] = ()

    def questions(self) -> list[Question]:
        """Return what is to be asked about them: nothing where no answer lets the skill be enabled."""
        if self.programs:
            return []
        variables = [_ask_variable(self.skill, need) for need in self.missing]
        return [*variables, *(each for one in self.servers for each in one.questions(self.skill, self.choice))]

    def warnings(self, environ: Mapping[str, str]) -> list[str]:
        """Return what a person has to see to themselves, and which programs of servers are not there."""
        found = []
        for one in self.servers:
            if one.states and self.choice != "skip":
                found += [f"{self.skill}: {line}" for line in one.to_do]
            described = one.need.server
            if described and described.command and one.states and not one.is_configured:
                program = described.command[0]
                if shutil.which(program, path=environ.get("PATH")) is None:
                    found.append(f"the MCP server {one.need.name} runs {program}, which is not on PATH")
        return found

    def ways(self, scope: Scope) -> Mapping[tuple[str, str], tuple[str, ...]]:
        """Return by skill and need what to do about servers of which ``--mcp configure`` does not make an end."""
        found = {(self.skill, one.need.spell()): one.ways(self.skill, scope) for one in self.servers}
        return {key: ways for key, ways in found.items() if ways}

    def answered(self, asked: Iterable[Asked]) -> MetNeeds:
        """Return what the answers, and the options, come to."""
        asked = tuple(asked)
        values = {question.subject: answer.value for question, answer in asked if question.kind == "env"}
        met, waived = [*self.given], []
        met += [need.spell() for need in self.missing if values.get(need.name)]
        writes: list[tuple[ServerNeed, tuple[str, ...]]] = []
        for one in self.servers:
            if one.is_configured:
                met.append(one.need.spell())
            elif self.choice == "skip":
                waived.append(one.need.spell())
            elif one.states and not self.programs and _is_agreed(one, asked):
                met.append(one.need.spell())
                writes += [(one, one.absent)] if one.absent else []
        return MetNeeds(tuple(met), tuple(waived), tuple(writes))


@dataclass(frozen=True, slots=True)
class MetNeeds:
    """Needs met or waived, as a record spells them, and the MCP entries that are to be written: for which agents."""

    met: tuple[str, ...]
    waived: tuple[str, ...]
    writes: tuple[tuple[ServerNeed, tuple[str, ...]], ...]

    def onto(self, record: Record) -> Record:
        """Return ``record`` with this remembered; entries written earlier stay remembered as ours."""
        if not (self.met or self.waived or self.writes):
            return record
        written = dict(record.mcp)
        for server, agents in self.writes:
            entries = {agent: mcp.entry(agent, server.described()) for agent in agents}
            written[server.need.name] = {**written.get(server.need.name, {}), **entries}
        met, waived = dict.fromkeys((*record.met, *self.met)), dict.fromkeys((*record.waived, *self.waived))
        return replace(record, met=tuple(met), waived=tuple(waived), mcp=written)

    def told(self) -> tuple[str, ...]:
        """Return what is written, a line for each file."""
        lines = (
            f"{server.files[agent].path}: the MCP server {server.need.name}"
            for server, agents in self.writes
            for agent in agents
        )
        return tuple(dict.fromkeys(lines))

    def write(self, project: Project) -> None:
        """Write the entries into the agents' files, keeping everything else in them.

        Args:
            project: What they are of.

        Raises:
            FormatError: such a file is malformed; it is left as it is.
            StateError: such a file cannot be written, or leads out of the project.
        """
        for server, agents in self.writes:
            for agent in agents:
                mcp.write(server.files[agent], server.need.name, server.described(), project)


def open_needs(
    candidate: Candidate, before: Record | None, options: Options, is_met: Given, agents: Sequence[Host], ports: Ports
) -> OpenNeeds:
    """Return what a skill needs that is to be enabled, and is not there; ``before`` is its record, if it has one.

    Raises:
        FormatError: a configuration file of an agent is malformed.
        StateError: such a file leads out of the project or cannot be read.
    """
    name, manifest = candidate.name, candidate.manifest
    written = before.mcp if before is not None else {}
    is_met = or_stored(is_met, name, ports.project)
    missing = tuple(
        need
        for need in manifest.requires
        if need.kind == "env" and need.required
        if not options.env.get(need.name) and not is_met("env", need.name)
    )
    servers = [
        look_at(need, agents, ports, written.get(need.name)) for need in manifest.requires if need.kind == "mcp"
    ]
    programs = tuple(
        need.name
        for need in manifest.requires
        if need.kind == "program" and need.required and not is_met("program", need.name)
    )
    return OpenNeeds(name, _given(manifest, options), missing, tuple(servers), options.mcp, programs)


def open_for_more_agents(
    name: str, manifest: Manifest, record: Record, options: Options, agents: Sequence[Host], ports: Ports
) -> OpenNeeds:
    """Return the servers that an enabled skill needs, for the agents that we wrote no entry for.

    What a person sees to themselves is theirs to do for another agent too, unless they name it now; so is another
    server of that name, which they agreed to use.

    Raises:
        FormatError, StateError: as for ``open_needs``.
    """
    servers = []
    for need in manifest.requires:
        if need.kind == "mcp" and (options.agents or need.spell() not in record.waived):
            written = record.mcp.get(need.name, {})
            server = look_at(need, [each for each in agents if each.id not in written], ports)
            is_settled = need.spell() in record.met and not (options.agents or server.absent)
            servers += [] if is_settled else [server]
    return OpenNeeds(name, _given(manifest, options), (), tuple(servers), options.mcp)


def _given(manifest: Manifest, options: Options) -> tuple[str, ...]:
    named = (need for need in manifest.requires if need.kind == "env" and options.env.get(need.name))
    return tuple(need.spell() for need in named)


def _is_agreed(server: ServerNeed, asked: Iterable[Asked]) -> bool:
    name = server.need.name
    answers = [answer.said for question, answer in asked if question.subject == name and question.kind != "env"]
    can_be_there = server.need.server is not None or not server.absent
    return can_be_there and {*answers} <= {"yes"}


def _ask_variable(skill: str, need: Requirement) -> Question:
    message = f"{skill} needs the variable {need.name}; give a value for this command?"
    about = quoted(need.description, _ABOUT_MAX, command("project", "show", skill)) if need.description else ()
    details = (*about, "it is not stored: export it where your agent runs")
    return Question("env", skill, message, details, need.name)


def config_files(names: Iterable[str], state: State, ports: Ports) -> Mapping[str, mcp.ConfigFile | None]:
    """Return the file of each agent that has servers of these skills, as it is before anything is asked."""
    project, records = ports.project, state.records.skills
    agents = {agent for name in names if name in records for each in records[name].mcp.values() for agent in each}
    return {
        agent: mcp.config_file(agent, project.scope, project.base, ports.user_home, ports.environ)
        for agent in sorted(agents)
    }


def take_back_servers(
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
            heir = next((name for name, each in skills.items() if _needs_server(each, server)), None)
            if heir is None:
                _take_back(server, entries, configured, ports)
            else:
                merged = {**entries, **skills[heir].mcp.get(server, {})}
                skills[heir] = replace(skills[heir], mcp={**skills[heir].mcp, server: merged})
    return replace(left, skills=skills)


def _needs_server(record: Record, server: str) -> bool:
    return server in record.mcp or any(need.spell() == f"mcp:{server}" for need in record.facts.needs)


def _take_back(
    server: str, entries: Mapping[str, Any], configured: Mapping[str, mcp.ConfigFile | None], ports: Ports
) -> None:
    for agent, entry in entries.items():
        file = configured.get(agent)  # one that came meanwhile is not of what was removed
        if file is not None:
            mcp.remove(file, server, entry, ports.project)

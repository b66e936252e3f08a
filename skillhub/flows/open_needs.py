"""What a skill still needs before it is enabled: the questions about it, and what comes of the answers."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from skillhub.flows.candidate import Candidate
from skillhub.flows.hints import command
from skillhub.flows.options import McpChoice, Options
from skillhub.flows.ports import Ports
from skillhub.flows.server_needs import ServerNeed, look_at
from skillhub.model.hosts import Host
from skillhub.model.manifest import Manifest
from skillhub.model.question import Asked, Question
from skillhub.model.record import Record
from skillhub.model.requirement import Requirement
from skillhub.model.skill import Scope
from skillhub.model.text import quoted
from skillhub.world import mcp
from skillhub.world.installed import Given, or_stored
from skillhub.world.project import Project

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
        return [
            *variables,
            *(each for one in self.servers for each in one.questions(self.skill, self.choice)),
        ]

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
        written: dict[str, Mapping[str, Any]] = dict(record.mcp)
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
    candidate: Candidate,
    before: Record | None,
    options: Options,
    is_met: Given,
    agents: Sequence[Host],
    ports: Ports,
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
        look_at(need, agents, ports, written.get(need.name))
        for need in manifest.requires
        if need.kind == "mcp"
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
    answers = [
        answer.said for question, answer in asked if question.subject == name and question.kind != "env"
    ]
    can_be_there = server.need.server is not None or not server.absent
    return can_be_there and {*answers} <= {"yes"}


def _ask_variable(skill: str, need: Requirement) -> Question:
    message = f"{skill} needs the variable {need.name}; give a value for this command?"
    about = (
        quoted(need.description, _ABOUT_MAX, command("project", "show", skill)) if need.description else ()
    )
    details = (*about, "it is not stored: export it where your agent runs")
    return Question("env", skill, message, details, need.name)

"""The gate before enabling: what a skill still needs, what is asked about it, and what comes of the answers."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from typing import Any

from skillhub.flows.needs import Given, or_stored
from skillhub.flows.options import McpChoice, Options
from skillhub.flows.ports import Ports
from skillhub.model.dataclass import dataclass, replace
from skillhub.model.hosts import Host
from skillhub.model.manifest import Manifest
from skillhub.model.question import Answer, Asked, Kind, Question
from skillhub.model.record import Record
from skillhub.model.requirement import McpServer, Requirement
from skillhub.world import mcp


@dataclass(frozen=True, slots=True)
class Survey:
    """One MCP server that a skill needs, held against the configuration of the chosen agents.

    Attributes:
        files: Agent to the file where it keeps its servers, of those agents that have one.
        states: Agent to what is in that file under the server's name: ``absent``, ``equal``, ``different``.
        by_hand: Those of them that lack it and spell it in a way that we do not know.
    """

    need: Requirement
    files: Mapping[str, mcp.ConfigFile]
    states: Mapping[str, mcp.State]
    by_hand: tuple[str, ...] = ()

    @property
    def settled(self) -> bool:
        """Whether every one of these agents has just this server already."""
        return bool(self.states) and set(self.states.values()) == {"equal"}

    @property
    def differs(self) -> bool:
        """Whether one of them has another server of that name."""
        return "different" in self.states.values()

    @property
    def absent(self) -> tuple[str, ...]:
        """The agents whose file would be written."""
        return self.where("absent")

    @property
    def to_do(self) -> tuple[str, ...]:
        """What a person has to do where we cannot, a line for each agent."""
        unknown = "nobody has told skillhub how"
        return tuple(
            f"add the MCP server {self.need.name} to {self.files[agent].path} yourself; {unknown} {agent} spells it"
            for agent in self.by_hand
        )

    def where(self, *states: mcp.State) -> tuple[str, ...]:
        """Return the agents whose file is in one of these states."""
        return tuple(agent for agent, state in self.states.items() if state in states)


@dataclass(frozen=True, slots=True)
class Gate:
    """One skill before it is enabled: the needs that stand open and the questions about them."""

    name: str
    missing: tuple[Requirement, ...]
    surveys: tuple[Survey, ...]
    questions: tuple[Question, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Passage:
    """What the answers came to: needs met or waived, and the MCP entries that are to be written."""

    met: tuple[str, ...]
    waived: tuple[str, ...]
    writes: tuple[tuple[Survey, tuple[str, ...]], ...]

    def onto(self, record: Record) -> Record:
        """Return ``record`` with this remembered; entries written earlier stay remembered as ours."""
        if not (self.met or self.waived or self.writes):
            return record
        written: dict[str, Mapping[str, Any]] = dict(record.mcp)
        for survey, agents in self.writes:
            server = _server(survey.need)
            entries = {agent: mcp.entry(agent, server) for agent in agents}
            written[survey.need.name] = {**written.get(survey.need.name, {}), **entries}
        met, waived = dict.fromkeys((*record.met, *self.met)), dict.fromkeys((*record.waived, *self.waived))
        return replace(record, met=tuple(met), waived=tuple(waived), mcp=written)

    def write(self, lock: str) -> None:
        """Write the entries into the agents' files, keeping everything else in them.

        Args:
            lock: The lock file that keeps other skillhub processes from editing them meanwhile.

        Raises:
            FormatError: such a file is malformed; it is left as it is.
            StateError: such a file cannot be written, or leads out of the project.
        """
        for survey, agents in self.writes:
            for agent in agents:
                mcp.write(survey.files[agent], survey.need.name, _server(survey.need), lock)


def approach(
    name: str, manifest: Manifest, options: Options, is_met: Given, agents: Sequence[Host], ports: Ports
) -> Gate:
    """Look at what the skill needs and put the questions that enabling it raises.

    Raises:
        FormatError: a configuration file of an agent is malformed.
        StateError: such a file leads out of the project or cannot be read.
    """
    env = [need for need in manifest.requires if need.kind == "env" and need.required]
    is_met = or_stored(is_met, name, ports.project)
    missing = tuple(need for need in env if not options.env.get(need.name) and not is_met("env", need.name))
    surveys = [_survey(need, agents, ports) for need in manifest.requires if need.kind == "mcp"]
    return _gate(name, missing, surveys, options.mcp, ports)


def widen(
    name: str, manifest: Manifest, record: Record, options: Options, agents: Sequence[Host], ports: Ports
) -> Gate:
    """Look at the servers that an enabled skill needs, for the agents that we wrote no entry for.

    What a person sees to themselves is theirs to do for another agent too, unless they name it now; so is another
    server of that name, which they agreed to use.

    Raises:
        FormatError, StateError: as for ``approach``.
    """
    surveys = []
    for need in manifest.requires:
        if need.kind == "mcp" and (options.agents or need.spell() not in record.waived):
            others = [each for each in agents if each.id not in record.mcp.get(need.name, {})]
            survey = _survey(need, others, ports)
            is_settled = need.spell() in record.met and not (options.agents or survey.absent)
            surveys += [] if is_settled else [survey]
    return _gate(name, (), surveys, options.mcp, ports)


def _gate(
    name: str, missing: tuple[Requirement, ...], surveys: Sequence[Survey], choice: McpChoice, ports: Ports
) -> Gate:
    questions = [_ask_variable(name, need) for need in missing]
    warnings = []
    for survey in surveys:
        questions += _ask_server(name, survey, choice)
        server = survey.need.server
        if survey.states and choice != "skip":
            warnings += [f"{name}: {line}" for line in survey.to_do]
        if server and server.command and survey.states and not survey.settled:
            program = server.command[0]
            if shutil.which(program, path=ports.environ.get("PATH")) is None:
                warnings.append(f"the MCP server {survey.need.name} runs {program}, which is not on PATH")
    return Gate(name, missing, tuple(surveys), tuple(questions), tuple(warnings))


def passage(gate: Gate, manifest: Manifest, options: Options, asked: Sequence[Asked]) -> Passage:
    """Return what the answers to a gate's questions, and the flags, come to."""
    said = {(question.kind, question.subject): answer for question, answer in asked}
    met = [
        f"env:{need.name}" for need in manifest.requires if need.kind == "env" and options.env.get(need.name)
    ]
    for need in gate.missing:
        answer = said.get(("env", need.name))
        if answer is not None and answer.said == "yes" and answer.value:
            met.append(f"env:{need.name}")
    waived: list[str] = []
    writes: list[tuple[Survey, tuple[str, ...]]] = []
    for survey in gate.surveys:
        spelled = survey.need.spell()
        if survey.settled:
            met.append(spelled)
        elif options.mcp == "skip":
            waived.append(spelled)
        elif survey.states and _agreed(survey, said):
            met.append(spelled)
            writes += [(survey, survey.absent)] if survey.absent else []
    return Passage(tuple(met), tuple(waived), tuple(writes))


def _agreed(survey: Survey, said: Mapping[tuple[Kind, str], Answer]) -> bool:
    answers = [
        answer for (kind, subject), answer in said.items() if subject == survey.need.name and kind != "env"
    ]
    return survey.need.server is not None and all(answer.said == "yes" for answer in answers)


def _survey(need: Requirement, agents: Sequence[Host], ports: Ports) -> Survey:
    files: dict[str, mcp.ConfigFile] = {}
    states: dict[str, mcp.State] = {}
    by_hand: list[str] = []
    for agent in agents:
        project = ports.project
        file = mcp.config_file(agent.id, project.scope, project.base, ports.user_home, ports.environ)
        if file is None:
            continue
        files[agent.id] = file
        if need.server is None:
            states[agent.id] = "absent" if mcp.servers(file).get(need.name) is None else "equal"
            continue
        found = mcp.state(file, need.name, need.server)
        if found == "absent" and not mcp.is_spelled(agent.id, need.server):
            by_hand.append(agent.id)
        else:
            states[agent.id] = found
    return Survey(need, files, states, tuple(by_hand))


def _ask_variable(skill: str, need: Requirement) -> Question:
    return Question(
        "env",
        skill,
        f"{skill} needs the variable {need.name}; give a value for this command?",
        (need.description, "It is not stored: export it where your agent runs.") if need.description else (),
        need.name,
    )


def _ask_server(skill: str, survey: Survey, choice: McpChoice) -> list[Question]:
    need = survey.need
    if survey.settled or choice == "skip" or not survey.states or need.server is None:
        return []
    where = tuple(f"{agent}: {survey.files[agent].path}" for agent in survey.absent)
    questions = []
    if survey.differs:
        theirs = tuple(f"{agent}: {survey.files[agent].path}" for agent in survey.where("different"))
        questions.append(
            Question(
                "mcp-conflict",
                skill,
                f"another MCP server is configured as {need.name}; use that one for {skill}, unchanged?",
                (*theirs, *_facts(need.server)),
                need.name,
            )
        )
    if survey.absent and need.server.runs_shell:
        message = (
            f"{skill} needs the MCP server {need.name}, which runs a shell; write it into the configuration?"
        )
        questions.append(Question("mcp-shell", skill, message, (*_facts(need.server), *where), need.name))
    elif survey.absent and choice == "ask":
        message = f"{skill} needs the MCP server {need.name}; write it into the configuration?"
        questions.append(Question("mcp", skill, message, (*_facts(need.server), *where), need.name))
    return questions


def _facts(server: McpServer) -> tuple[str, ...]:
    if server.url is not None:
        given = (
            f"it is given the variable {server.bearer} as its token"
            if server.bearer
            else "it is given no variable"
        )
        return (
            f"it is reached at {server.url}",
            f"{given}, which goes to {server.host}" if server.bearer else given,
        )
    given = f"it is given the variables {', '.join(server.env)}" if server.env else "it is given no variable"
    return (f"it runs: {' '.join(server.command)}", given)


def _server(need: Requirement) -> McpServer:
    if need.server is None:
        raise AssertionError("a server that nobody described is never written")
    return need.server

"""An MCP server that a skill needs, held against the configuration of the agents that are to have the skill."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from skillhub.flows.hints import command
from skillhub.flows.needs import or_skip
from skillhub.flows.options import McpChoice
from skillhub.flows.ports import Ports
from skillhub.model import configured_server
from skillhub.model.dataclass import dataclass, field
from skillhub.model.hosts import Host
from skillhub.model.question import Kind, Question
from skillhub.model.requirement import McpServer, Requirement
from skillhub.model.skill import Scope
from skillhub.world import mcp


@dataclass(frozen=True, slots=True)
class ServerNeed:
    """What these agents have of one server.

    Attributes:
        files: Agent to the file where it keeps its servers, of those agents that have one.
        states: Agent to what is in that file under the server's name: ``absent``, ``equal``, ``different``.
        theirs: Agent to the entry of that name that differs, as it stands there.
        by_hand: Those of them that lack it and spell it in a way that we do not know.
    """

    need: Requirement
    files: Mapping[str, mcp.ConfigFile]
    states: Mapping[str, mcp.State]
    by_hand: tuple[str, ...] = ()
    theirs: Mapping[str, object] = field(default_factory=dict)

    @property
    def is_configured(self) -> bool:
        """Whether every one of these agents has just this server already."""
        return bool(self.states) and set(self.states.values()) == {"equal"}

    @property
    def uses_shell(self) -> bool:
        """Whether another server of its name, which would be used, runs a shell."""
        return any(map(configured_server.runs_shell, self.theirs.values()))

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
            kind: Kind = "mcp-shell" if self.uses_shell else "mcp-conflict"
            which = f"{'an' if server is None else 'another'} MCP server is configured as {need.name}"
            runs = ", which runs a shell" if self.uses_shell else ""
            message = f"{which}{runs}; use that one for {skill}, unchanged?"
            yield Question(kind, skill, message, tuple(self._against()), need.name)
        if server is None:
            return
        details = (*_facts(server), *self._files(self.absent))
        if self.absent and server.runs_shell:
            message = f"{about}, which runs a shell; write it into the configuration?"
            yield Question("mcp-shell", skill, message, details, need.name)
        elif self.absent and choice == "ask":
            yield Question("mcp", skill, f"{about}; write it into the configuration?", details, need.name)

    def _files(self, agents: Iterable[str]) -> Iterator[str]:
        return (f"{agent}: {self.files[agent].path}" for agent in agents)

    def _against(self) -> Iterator[str]:
        """Yield what is configured, which is what a yes agrees to, and what the skill would have instead."""
        for agent, entry in self.theirs.items():
            yield from self._files([agent])
            yield from configured_server.facts(entry)
        if self.need.server is not None:
            yield f"the skill asks for another: {'; '.join(_facts(self.need.server))}"

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
        elif theirs and self.uses_shell:
            yield f"{name} in {theirs} runs a shell; to use it, agree at a terminal: {enable}"
            yield f"or rename {name} in {theirs}, for another"
        elif theirs:
            yield f"to use {name} as it is in {theirs}: {enable} --yes"
            yield f"or rename {name} in {theirs}, for another"
        elif server is None:
            files = ", ".join(self.files[agent].path for agent in self.absent)
            yield f"the skill does not say how to run it; add {name} to {files}, then: {enable}"
        elif server.runs_shell:
            yield f"it runs a shell, to which no flag agrees; at a terminal: {enable}"


def look_at(need: Requirement, agents: Sequence[Host], ports: Ports) -> ServerNeed:
    """Look into these agents' files.

    Raises:
        FormatError: such a file is malformed.
        StateError: such a file leads out of the project or cannot be read.
    """
    files: dict[str, mcp.ConfigFile] = {}
    states: dict[str, mcp.State] = {}
    by_hand: list[str] = []
    theirs: dict[str, object] = {}
    for agent in agents:
        project = ports.project
        file = mcp.config_file(agent.id, project.scope, project.base, ports.user_home, ports.environ)
        if file is None:
            continue
        files[agent.id] = file
        if need.server is None:
            found = _undescribed(mcp.servers(file).get(need.name))
        else:
            found = mcp.state(file, need.name, need.server)
        if need.server and found == "absent" and not mcp.is_spelled(agent.id, need.server):
            by_hand.append(agent.id)
        else:
            states[agent.id] = found
        if found == "different":
            theirs[agent.id] = mcp.servers(file).get(need.name)
    return ServerNeed(need, files, states, tuple(by_hand), theirs)


def _undescribed(entry: object) -> mcp.State:
    """Return what an entry is to a skill that does not describe its server: any will do, but no shell unasked."""
    if entry is None:
        return "absent"
    return "different" if configured_server.runs_shell(entry) else "equal"


def _facts(server: McpServer) -> tuple[str, ...]:
    if server.url is not None:
        token = f"it is given the variable {server.bearer} as its token, which goes to {server.host}"
        given = token if server.bearer else "it is given no variable"
        return (f"it is reached at {server.url}", given)
    given = f"it is given the variables {', '.join(server.env)}" if server.env else "it is given no variable"
    return (f"it runs: {' '.join(server.command)}", given)

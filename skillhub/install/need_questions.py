"""The needs of a skill on this machine: open needs, MCP servers, questions and their answers."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

from skillhub.command.ports import Options, Ports
from skillhub.command.state import State
from skillhub.formats.text import command, packaged, quoted
from skillhub.install.candidates import Candidate
from skillhub.model import mcp_server
from skillhub.model.hosts import Host, Scope, SkillScope
from skillhub.model.lock import DeclaredNeed
from skillhub.model.mcp_server import SERVER_RUNS
from skillhub.model.provenance import Facts, Record, Records
from skillhub.model.question import SERVER_KINDS, Asked, McpChoice, Question, QuestionKind, Rows
from skillhub.model.skill import Need
from skillhub.project import mcp_config
from skillhub.project.copies import NeedCheck, with_stored_values
from skillhub.project.mcp_config import ConfigFile
from skillhub.project.project import Project

if TYPE_CHECKING:
    from skillhub.model.manifest import Manifest
    from skillhub.model.needs import McpServer, Requirement

# The needs of a skill on this machine, and how the user satisfies them.


def facts_of(manifest: Manifest, capabilities: tuple[str, ...]) -> Facts:
    """Return the facts of a skill's content, so that ``list`` need not read it again."""
    rows = tuple(DeclaredNeed(need.kind, need.name, need.description, need.required) for need in manifest.requires)
    return Facts(manifest.description, manifest.model_invocable, rows, capabilities)


def how_to_satisfy(skill: str, need: Need, scope: SkillScope, typed: str = "") -> tuple[str, ...]:
    """Return the ways to satisfy an open need, one alternative to a line; a command ends its line.

    ``typed`` is the flag, after a blank, that answers another need of the skill.
    """
    enable = f"{command(scope, 'enable', skill)}{typed}"
    if need.kind == "env":
        once = (f"export {need.name}=…, then: {enable}", f"or type the value when asked: {enable}")
        store = f"or to store it in this system's keyring: {command(scope, 'env', 'set', need.name)}"
        return (*once, store) if find_spec("keyring") else once
    if need.kind == "program":
        hints = [f"{manager} install {package}" for manager, package in _packages().get(need.name, {}).items()]
        hint = f" ({', '.join(hints)})" if hints else ""
        return (f"install the program {need.name}{hint}, then: {enable}",)
    if need.kind == "mcp":
        return f"to configure it: {enable} --mcp configure", _or_skip(enable)
    return (
        f"when a source has it: {command(scope, 'install')}",
        f"or install it from another source ({command(scope, 'install', 'REF')}), then: {enable}",
    )


@cache
def _packages() -> Mapping[str, Mapping[str, str]]:
    """Return by program and package manager the name of its package, from our own list, never from a skill."""
    return dict(packaged("model/packages.json")["programs"])


def _or_skip(enable: str) -> str:
    return f"or if you configure it yourself: {enable} --mcp skip"


# An MCP server that a skill needs, and the configurations of the agents to enable for.


@dataclass(frozen=True, slots=True)
class _AgentServer:
    """The entries of one agent under the name of a server.

    Attributes:
        file: The agent's file for servers.
        state: The state of the entry in that file; ``former`` if skillhub wrote it for another version of the skill
            and nobody changed it; None if the server is absent and the file's format cannot hold it.
        entry: The entry itself; None if it is absent.
        others: Other servers of that name: their place (file, scope, project), and the entry.
        is_agreed: Whether an equal entry needs no question: it is in the user's own file, or the user agreed to it.
        is_recorded: Whether the record of the skill needs no change for an equal entry; a command that is killed
            writes the entry and not the record.
    """

    file: ConfigFile
    state: mcp_config.EntryState | Literal["former"] | None
    entry: object = None
    others: tuple[tuple[str, object], ...] = ()
    is_agreed: bool = True
    is_recorded: bool = True

    def __str__(self) -> str:
        return f"{self.file.agent}: {self.file.path}"


@dataclass(frozen=True, slots=True)
class ServerNeed:
    """One server that a skill needs, in the configurations of the agents to enable for.

    Attributes:
        agents: The agents that keep servers in a file.
        steered: The warning about files of the project that can change what the server's launcher runs.
    """

    need: Requirement
    agents: tuple[_AgentServer, ...]
    steered: str = ""

    def _agents(self, *states: str | None) -> list[_AgentServer]:
        return [each for each in self.agents if each.state in states]

    @property
    def is_known(self) -> bool:
        """Whether the file of at least one of these agents has the server, or can hold it."""
        return any(each.state for each in self.agents)

    @property
    def is_configured(self) -> bool:
        """Whether each of these agents already has exactly this server, with consent, and no other of its name."""
        is_there = all(each.state in ("equal", None) and not each.others for each in self.agents)
        return self.is_known and is_there and not self.from_project()

    def from_project(self) -> list[_AgentServer]:
        """Return the agents whose file in the project has this server, if its risk is higher than ordinary.

        The repository may have brought the entry, so that the skill would be enabled without a question; no flag for
        ordinary servers answers it.
        """
        server = self.need.server
        if server is None or server.risk_if(self.steered)[0] == "ordinary":
            return []
        return [each for each in self._agents("equal") if not each.is_agreed]

    def configured_otherwise(self, *states: Literal["different", "former"]) -> str:
        """Return the files that have another server of this name, in one of these states."""
        return ", ".join(each.file.path for each in self._agents(*states))

    @property
    def runs_code(self) -> bool:
        """Whether a different server of this name, which would be used, runs a shell or code in its arguments."""
        return any(mcp_server.runs_code(each.entry) for each in self._agents("different"))

    @property
    def to_write(self) -> tuple[_AgentServer, ...]:
        """The agents whose file or record lacks the entry."""
        return tuple(each for each in self.agents if each.state in ("absent", "former") or not each.is_recorded)

    @property
    def by_hand(self) -> tuple[str, ...]:
        """The steps for the user where skillhub cannot write the entry, a line for each agent."""
        return tuple(
            f"add the MCP server {self.need.name} to {file.path} yourself; "
            f"skillhub cannot write such a server for {file.agent}"
            for file in (each.file for each in self._agents(None))
        )

    def described(self) -> McpServer:
        """Return the skill's description of the server; only described servers are ever written."""
        if self.need.server is None:
            raise AssertionError("a server without a description is never written")
        return self.need.server

    def questions(self, skill: str, choice: McpChoice, sharing: Sequence[str]) -> Iterator[Question]:
        """Yield the questions before the server is written, or before another of its name is used.

        A server that skills of ``sharing`` use, too, is replaced only after the answer of a person.
        """
        need, server = self.need, self.need.server
        if self.is_configured or choice == "skip" or not self.is_known:
            return
        about = f"{skill} needs the MCP server {need.name}"
        facts, comparison = tuple(self._conflict_facts()), tuple(self._conflict_rows())
        conflict = partial(Question, skill=skill, subject=need.name, details=facts, compared=comparison)
        if different := self._agents("different"):
            kind: QuestionKind = (
                "mcp-shell" if self.runs_code else "mcp-unpinned" if server is None else "mcp-conflict"
            )
            which = f"{'an' if server is None else 'another'} MCP server is configured as {need.name}"
            warning = max(mcp_server.warning(each.entry) for each in different)
            runs = SERVER_RUNS["shell"] if self.runs_code else warning
            yield conflict(kind, message=f"{which}{runs}; use that one for {skill}, unchanged?")
        elif names := ", ".join(each.file.agent for each in self.agents if each.others):
            message = f"{about}; {names} has another of that name in another place; use this one?"
            yield conflict("mcp-conflict", message=message)
        absent, former, brought = self._agents("absent"), self._agents("former"), self.from_project()
        if server is None or not (absent or former or brought):
            return
        details = [*server.facts(), *map(str, absent), *(f"{each} has it already" for each in brought)]
        details += [f"{each}, in place of: {'; '.join(mcp_server.facts(each.entry))}" for each in former]
        if former:
            details.append("comments inside the replaced entry are lost")
        if self.steered:
            details.append(self.steered)
        risk, runs = server.risk_if(self.steered)
        kind, act = SERVER_KINDS[risk], "use the one that this project configures"
        if former and sharing:
            kind = "mcp-shell" if risk == "shell" else "mcp-conflict"
            details.append(f"{', '.join(sharing)} would use it, too")
        if absent or former:
            act = "replace the entry of the version before" if former else "write it into the configuration"
        if kind != "mcp" or choice == "ask":
            yield Question(kind, skill, f"{about}{runs}; {act}?", tuple(details), need.name)

    def _conflict_facts(self) -> Iterator[str]:
        """Yield the facts of the configured server, to which a yes agrees, and of the one that the skill asks for."""
        for where, entry in self._places():
            yield where
            yield from mcp_server.facts(entry)
        if self.need.server is not None:
            another = "another" if self._agents("different", "absent", "former") else "the one that is configured"
            yield f"the skill asks for {another}: {'; '.join(self.need.server.facts())}"

    def _places(self) -> Iterator[tuple[str, object]]:
        """Yield the place of each configured server of this name, and its entry."""
        yield from ((str(each), each.entry) for each in self._agents("different"))
        yield from ((f"{each.file.agent}: {where}", entry) for each in self.agents for where, entry in each.others)
        for each in self._agents("equal"):
            if each.others:
                yield f"it would be used unchanged, as {each.file.path} has it", each.entry

    def _conflict_rows(self) -> Iterator[tuple[str, Rows]]:
        """Yield the same facts as rows: the configured server, without secrets, beside the one of the skill."""
        ours = self.need.server.shown() if self.need.server is not None else {mcp_server.RUNS: "any of this name"}
        for where, entry in self._places():
            theirs = mcp_server.shown(entry) or {mcp_server.RUNS: "unknown"}
            keys = [key for key in mcp_server.KEYS if key in theirs | ours]
            yield where, tuple((key, theirs.get(key, "-"), ours.get(key, "-")) for key in keys)

    def remedies(self, skill: str, scope: Scope) -> tuple[str, ...]:
        """Return the ways to satisfy the need, as ``how_to_satisfy``; nothing if ``--mcp configure`` satisfies it."""
        enable = command(scope, "enable", skill)
        found = tuple(self._remedies(enable, scope))
        return (*found, _or_skip(enable)) if found else ()

    def _remedies(self, enable: str, scope: Scope) -> Iterator[str]:
        name, server = self.need.name, self.need.server
        theirs = self.configured_otherwise("different")
        elsewhere = ", ".join(where for each in self.agents for where, _ in each.others)
        if not self.is_known and self.by_hand:
            yield f"{'; '.join(self.by_hand)}; then: {enable}"
        elif not self.is_known:
            agents = mcp_config.agents_with_file(scope)
            first, *others = (each for each in agents if server is None or mcp_config.is_spelled(each, server))
            configure = f"{enable} --mcp configure --agent {first}"
            found = "no agent with a configuration file for MCP servers was found here"
            yield f"{found}; to configure {first}: {configure}"
            yield f"or for another agent: {', '.join(others)}"
        elif theirs:
            use = f"to use {name} unchanged, as {theirs} has it"
            use = f"{name} in {theirs} runs a shell or code; to use it" if self.runs_code else use
            at_terminal = f"{use}, agree at a terminal: {enable}"
            is_flag = server is None and not self.runs_code
            yield f"{use}: {enable} --mcp configure --accept mcp" if is_flag else at_terminal
            yield f"or rename {name} in {theirs}, for another"
        elif elsewhere:
            also = f"to add this one too, agree at a terminal: {enable}"
            yield f"another server is called {name} in {elsewhere}; {also}"
            yield f"or rename {name} in {elsewhere}"
        elif server is None:
            files = ", ".join(each.file.path for each in self._agents("absent"))
            yield f"the skill does not say how to run it; add {name} to {files}, then: {enable}"
        elif server.risk == "shell":
            yield f"it runs a shell or code, which no flag accepts; at a terminal: {enable}"
        elif server.risk == "unpinned" or self.steered:
            why = self.steered or "it downloads a package without a fixed version"
            yield f"{why}; to agree: {enable} --mcp configure --accept mcp"


def server_need(
    need: Requirement,
    agents: Sequence[Host],
    ports: Ports,
    written: Mapping[str, object] | None = None,
    *,
    is_agreed: bool = False,
) -> ServerNeed:
    """Return a server need with its state in these agents' files.

    Args:
        need: The need of the server.
        agents: The agents to enable for.
        ports: The ports of the command.
        written: By agent, the entry that was written for this skill before, after the user agreed to it.
        is_agreed: Whether the user agreed here to exactly this skill with this server.

    Raises:
        FormatError: such a file is malformed.
        StateError: such a file leads out of the project or cannot be read.
    """
    project = ports.project
    steered = need.server.steered(project.base) if need.server is not None and project.scope == "project" else ""
    place = (project.base, ports.user_home, ports.environ)
    found = []
    for agent in agents:
        file = mcp_config.config_file(agent.id, project.scope, *place)
        if file is not None:
            others = mcp_config.elsewhere(file, need.name, *place)
            is_users = project.scope != "project" or not file.path.startswith(project.base.rstrip(os.sep) + os.sep)
            one = _agent_server(need, file, others, (written or {}).get(agent.id), is_users=is_users)
            found.append(replace(one, is_agreed=one.is_agreed or is_agreed or is_users))
    return ServerNeed(need, tuple(found), steered)


def _agent_server(
    need: Requirement, file: ConfigFile, others: Iterable[tuple[str, object]], written: object, *, is_users: bool
) -> _AgentServer:
    server = need.server
    entry = mcp_config.servers(file).get(need.name)
    ours = file.dialect.spell(server) if server is not None and file.dialect.knows(server) else written
    is_new = written is not None and not mcp_config.is_equal(written, ours)
    state: mcp_config.EntryState | Literal["former"]
    if server is None:
        # Without a description, any server satisfies the need; a question is asked about one that runs a shell, and
        # about one of the repository that has any other risk.
        is_asked = mcp_server.runs_code(entry) or (not is_users and mcp_server.warning(entry))
        if entry is None:
            state = "absent"
        elif is_asked:
            state = "different"
        else:
            state = "equal"
    else:
        state = mcp_config.state(file, need.name, server)
        if state == "absent" and not file.dialect.knows(server):
            return _AgentServer(file, None)
        if state == "different" and is_new and mcp_config.is_equal(entry, written):
            state = "former"
    if server is not None and state != "different":
        others = tuple(each for each in others if not mcp_config.is_same(file, each[1], server))
    else:
        others = tuple(each for each in others if not mcp_config.is_equal(each[1], entry))
    is_agreed = state == "equal" and written is not None and mcp_config.is_equal(entry, written)
    if is_agreed or (server is None and state == "absent"):
        others = ()
    is_recorded = not (is_new and mcp_config.is_equal(entry, ours))
    return _AgentServer(file, state, entry, others, is_agreed, is_recorded)


# The open needs of a skill before it is enabled: the questions about them, and the result of the answers.

_ABOUT_MAX = 240  # characters of what a skill says of a variable


@dataclass(frozen=True, slots=True)
class OpenNeeds:
    """The open needs of one skill.

    Attributes:
        supplied: The needs that this command satisfies by ``--env``, in the form of a record.
        missing: Variables without a value.
        servers: MCP servers, in the configurations of the agents to enable for.
        choice: The user's choice for servers.
        programs: Missing programs, which keep the skill disabled whatever the answers.
        sharing: By server, other enabled skills that need it, and not as this skill describes it.
    """

    skill: str
    supplied: tuple[str, ...]
    missing: tuple[Requirement, ...]
    servers: tuple[ServerNeed, ...]
    choice: McpChoice
    programs: tuple[str, ...] = ()
    sharing: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def questions(self) -> list[Question]:
        """Return the questions about the needs; none if a missing program keeps the skill disabled anyway."""
        if self.programs:
            return []
        found = []
        for need in self.missing:
            message = f"{self.skill} needs the variable {need.name}; give a value for this command?"
            shows = command("project", "show", self.skill)
            about = quoted(need.description, _ABOUT_MAX, shows) if need.description else ()
            details = (*about, "it is not stored: export it where your agent runs")
            found.append(Question("env", self.skill, message, details, need.name))
        for one in self.servers:
            found += one.questions(self.skill, self.choice, self.sharing.get(one.need.name, ()))
        return found

    def holding(self) -> list[str]:
        """Return all that is missing, if a missing program keeps the skill disabled whatever the answers; else none.

        Of the servers, those are left out that the user's choice answers.
        """
        if not self.programs:
            return []
        servers = [each for each in self.servers if each.need.required and not each.is_configured]
        if self.choice != "ask":
            servers = [
                each for each in servers if self.choice == "configure" and each.remedies(self.skill, "project")
            ]
        needs = (*self.missing, *(each.need for each in servers))
        return [*(f"{each.kind} {each.name}" for each in needs), *(f"program {each}" for each in self.programs)]

    def entries_of(self, record: Record) -> dict[str, Any]:
        """Return the MCP entries in a record without servers that became a risk since, which no flag agrees to."""
        risky = {one.need.name for one in self.servers if one.runs_code or one.from_project()}
        return {name: entries for name, entries in record.mcp.items() if name not in risky}

    def warnings(self, environ: Mapping[str, str]) -> list[str]:
        """Return a line for each step left to the user, and for each server whose program is missing."""
        found = []
        for one in self.servers:
            if one.is_known and self.choice != "skip":
                found += [f"{self.skill}: {line}" for line in one.by_hand]
            described = one.need.server
            if described and described.command and one.is_known and not one.is_configured:
                program = described.command[0]
                if shutil.which(program, path=environ.get("PATH")) is None:
                    found.append(f"the MCP server {one.need.name} runs {program}, which is not on PATH")
        return found

    def unchanged(self, asked: Sequence[Asked], scope: Scope) -> Iterator[str]:
        """Yield a line for each configured server that stays, though the enabled skill asks for another."""
        for one in self.servers:
            said = {answer.said for question, answer in asked if question.subject == one.need.name}
            if said - {"yes"} and (theirs := one.configured_otherwise("different", "former")):
                again = f"{command(scope, 'disable', self.skill)} && {command(scope, 'enable', self.skill)}"
                first = "remove it there, then: " if one.configured_otherwise("different") else ""
                to_have = f"to have the one that {self.skill} asks for, {first}{again} --mcp configure"
                yield f"{theirs} keeps another MCP server as {one.need.name}; {to_have}"

    def remedies(self, scope: Scope) -> Mapping[tuple[str, str], tuple[str, ...]]:
        """Return by skill and need the ways to satisfy servers that ``--mcp configure`` alone does not satisfy."""
        found = {(self.skill, one.need.spell()): one.remedies(self.skill, scope) for one in self.servers}
        return {key: lines for key, lines in found.items() if lines}

    def answered(self, asked: Sequence[Asked]) -> AnsweredNeeds:
        """Return the needs that the answers and the options satisfy or waive."""
        values = {question.subject: answer.value for question, answer in asked if question.kind == "env"}
        satisfied, waived = [*self.supplied], []
        satisfied += [need.spell() for need in self.missing if values.get(need.name)]
        writes: list[tuple[ServerNeed, _AgentServer]] = []
        for one in self.servers:
            name = one.need.name
            answers = {answer.said for each, answer in asked if each.subject == name and each.kind != "env"}
            is_usable = one.is_known and (one.need.server is not None or not one.to_write)
            if self.choice == "skip" and not one.is_configured:
                waived.append(one.need.spell())
            elif one.is_configured or (is_usable and not self.programs and answers <= {"yes"}):
                satisfied.append(one.need.spell())
                writes += [(one, each) for each in one.to_write]
        return AnsweredNeeds(tuple(satisfied), tuple(waived), tuple(writes))


@dataclass(frozen=True, slots=True)
class AnsweredNeeds:
    """The satisfied and waived needs, in the form of a record, and the MCP entries to write."""

    satisfied: tuple[str, ...]
    waived: tuple[str, ...]
    writes: tuple[tuple[ServerNeed, _AgentServer], ...]

    def onto(self, record: Record) -> Record:
        """Return ``record`` with these needs and entries added to its own."""
        written = dict(record.mcp)
        for server, each in self.writes:
            entry = each.file.dialect.spell(server.described())
            written[server.need.name] = {**written.get(server.need.name, {}), each.file.agent: entry}
        satisfied = tuple(dict.fromkeys((*record.satisfied, *self.satisfied)))
        waived = tuple(dict.fromkeys((*record.waived, *self.waived)))
        return replace(record, satisfied=satisfied, waived=waived, mcp=written)

    def lines(self) -> tuple[str, ...]:
        """Return a line for each file and server that is written."""
        found = []
        for one, file in ((one, each.file) for one, each in self.writes):
            server = one.described()
            login = f"; if it wants a login: {file.login(one.need.name)}" if server.url and not server.bearer else ""
            found.append(f"{file.path}: the MCP server {one.need.name}{login}")
        return tuple(dict.fromkeys(found))

    def write(self, project: Project) -> None:
        """Write the entries into the agents' files of ``project``, keeping everything else in them.

        Raises:
            FormatError: such a file is malformed; it stays unchanged.
            StateError: such a file cannot be written, or leads out of the project, or its entry differs from the one
                that was shown.
        """
        for server, each in self.writes:
            mcp_config.write(each.file, server.need.name, server.described(), project, each.entry)


def needs_to_enable(
    candidate: Candidate,
    before: Record | None,
    options: Options,
    is_satisfied: NeedCheck,
    agents: Sequence[Host],
    ports: Ports,
) -> OpenNeeds:
    """Return the open needs of a skill to enable; ``before`` is its record, if it has one.

    Raises:
        FormatError: a configuration file of an agent is malformed.
        StateError: such a file leads out of the project or cannot be read.
    """
    name, manifest = candidate.name, candidate.manifest
    written = before.mcp if before is not None else {}
    is_satisfied = with_stored_values(is_satisfied, name, ports.project)
    missing = [need for need in manifest.requires if need.required and not is_satisfied(need.kind, need.name)]
    agreed = before.satisfied if before is not None and before.tree == candidate.tree.digest else ()
    servers = tuple(
        server_need(need, agents, ports, written.get(need.name), is_agreed=need.spell() in agreed)
        for need in manifest.requires
        if need.kind == "mcp"
    )
    variables = tuple(need for need in missing if need.kind == "env" and not options.env.get(need.name))
    programs = tuple(need.name for need in missing if need.kind == "program")
    return OpenNeeds(name, _supplied(manifest, options), variables, servers, options.mcp, programs)


def needs_for_agents(
    name: str, manifest: Manifest, record: Record, options: Options, agents: Sequence[Host], ports: Ports
) -> OpenNeeds:
    """Return the servers that an enabled skill needs, for the agents that have no entry of ours.

    If the user configures a server themselves, or agreed to use another server of its name, no question about it is
    raised for a further agent, unless the user names that agent now.

    Raises:
        FormatError, StateError: as for ``needs_to_enable``.
    """
    servers = []
    for need in manifest.requires:
        if need.kind == "mcp" and (options.agents or need.spell() not in record.waived):
            written = record.mcp.get(need.name, {})
            server = server_need(need, [each for each in agents if each.id not in written], ports)
            if need.spell() not in record.satisfied or options.agents or server.to_write:
                servers.append(server)
    return OpenNeeds(name, _supplied(manifest, options), (), tuple(servers), options.mcp)


def _supplied(manifest: Manifest, options: Options) -> tuple[str, ...]:
    return tuple(need.spell() for need in manifest.requires if need.kind == "env" and options.env.get(need.name))


# MCP servers that several skills need, and those of removed skills.


def with_shared_servers(skills: Mapping[str, Record], changed: Iterable[str]) -> dict[str, Record]:
    """Return the records; the entries that satisfy a need of a changed skill belong to it, too."""
    found = dict(skills)
    needs = [(each, need) for each in changed for need in skills[each].facts.needs if need.kind == "mcp"]
    for name, need in needs:
        entries: dict[str, dict[str, Any]] = {}
        for each in (*skills.values(), found[name]):
            entries |= each.mcp.get(need.name, {})
        if entries and need.spell() in found[name].satisfied:
            found[name] = replace(found[name], mcp={**found[name].mcp, need.name: entries})
    return found


def config_files(names: Iterable[str], state: State, ports: Ports) -> Mapping[str, ConfigFile]:
    """Return the file of each agent that has servers of these skills, before any question is asked."""
    project, records = ports.project, state.records.skills
    agents = {agent for name in names if name in records for each in records[name].mcp.values() for agent in each}
    place = (project.scope, project.base, ports.user_home, ports.environ)
    found = ((agent, mcp_config.config_file(agent, *place)) for agent in sorted(agents))
    return {agent: file for agent, file in found if file is not None}


def remove_servers(
    removed: Iterable[Record], left: Records, configured: Mapping[str, ConfigFile], ports: Ports
) -> Records:
    """Remove the MCP entries of removed skills that no one changed; return the records of the other skills.

    An entry that another skill needs stays, and belongs to that skill from now on.

    Raises:
        FormatError: an agent's configuration is malformed; it stays unchanged.
        StateError: it cannot be written.
    """
    skills = dict(left.skills)
    for record in removed:
        for server, entries in record.mcp.items():
            heir = next((name for name, each in skills.items() if _needs_server(each, server)), None)
            if heir is not None:
                merged = {**entries, **skills[heir].mcp.get(server, {})}
                skills[heir] = replace(skills[heir], mcp={**skills[heir].mcp, server: merged})
                continue
            for agent, entry in entries.items():
                if agent in configured:  # a file that appeared meanwhile holds no entry of the removed skills
                    mcp_config.remove(configured[agent], server, entry, ports.project)
    return replace(left, skills=skills)


def _needs_server(record: Record, server: str) -> bool:
    return server in record.mcp or any(need.spell() == f"mcp:{server}" for need in record.facts.needs)

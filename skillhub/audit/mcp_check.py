"""Checks an MCP server: starts or calls it once, and compares its tools and skills with the needs of skills."""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from shutil import which
from typing import Any, Literal

import anyio
import httpx2
from anyio.abc import Process
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import PaginatedRequest, PaginatedRequestParams, PaginatedResult, jsonrpc_message_adapter
from pydantic import ConfigDict, ValidationError

from skillhub.command.ports import Ports
from skillhub.disk import files
from skillhub.errors import FormatError, NotFound, SkillhubError, SourceError, UsageError
from skillhub.formats.text import as_command, clean, quote
from skillhub.model import mcp_server
from skillhub.model.manifest import Manifest
from skillhub.model.needs import McpServer
from skillhub.model.question import Question
from skillhub.net.fetch import RequestOptions, Web
from skillhub.project import mcp_config
from skillhub.sources.mcp import EXTENSION

_SECONDS = 60.0
_GRACE = 2.0  # seconds that a server gets to exit by itself
_OUTPUT_MAX = 8 << 20
_LOG_MAX = 2000  # bytes of its stderr
_MOST = 1000  # tools, and skills
_NAME_MAX = 200
_CLOSED = (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)
# The variables that every program needs, and those that the SDK passes to the servers that it starts.
_PASSED = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "SYSTEMROOT", "TEMP", "APPDATA", "USERPROFILE")
_NAME = r"([A-Za-z_][A-Za-z0-9_]*)"
_REFERENCE = re.compile(
    rf"\$\{{\{{ ?secrets\.{_NAME} ?\}}\}}|\$\{{(?:env:)?{_NAME}(?::-((?:[^}}$]|\$(?!\{{))*))?\}}|\{{env:{_NAME}\}}"
)


@dataclass(frozen=True)
class CheckedServer:
    """A server to check: an entry in an agent's configuration, or the description of a skill.

    Attributes:
        place: The file, or the skill.
        facts: The facts to show before it is started; they contain no value of a variable.
        base: The folder of the project.
        file: The configuration file, if an agent has the server.
    """

    name: str
    place: str
    entry: Mapping[str, Any]
    facts: tuple[str, ...]
    base: str
    environ: Mapping[str, str]
    file: mcp_config.ConfigFile | None = None

    @property
    def login(self) -> str:
        """How the user logs in to the server: with the agent, which keeps its own login."""
        return self.file.login(self.name) if self.file is not None else "log in with the agent that is to use it"

    @property
    def url(self) -> str:
        """The URL of the server; empty if it is started by a command."""
        return self._resolve(mcp_server.url_of(self.entry))

    @property
    def cwd(self) -> str:
        """The folder in which the server is started."""
        folder = self.entry.get("cwd")
        return os.path.normpath(os.path.join(self.base, self._resolve(folder) if isinstance(folder, str) else ""))

    @property
    def command(self) -> list[str]:
        """The words of the command, the first of which is the absolute path of the program.

        Raises:
            NotFound: there is no such program.
            UsageError: the entry has no command.
        """
        words = _words(self.entry)
        if not words or not words[0] or not all(isinstance(word, str) for word in words):
            raise UsageError(f"the MCP server {self.name} has neither a command nor a URL", where=self.place)
        program, *arguments = map(self._resolve, words)
        program_path = os.path.join(self.cwd, program) if os.path.dirname(program) else program
        path = which(program_path, path=files.search_path(self.environ))
        if path is None or not os.path.isabs(path):
            message = f"the MCP server {self.name} runs {quote(program)}, which is not on PATH"
            raise NotFound(message, where=self.place)
        return [path, *arguments]

    @property
    def process_environ(self) -> dict[str, str]:
        """The environment of the server's process."""
        environ = {name: self.environ[name] for name in _PASSED if name in self.environ}
        for key in ("env", "environment", "envs"):
            environ |= self._values(self.entry.get(key))
        names = mcp_server.texts([self.entry.get(key) or [] for key in ("env_vars", "env_keys")])
        return environ | {name: self._value(name) for name in names}

    @property
    def headers(self) -> dict[str, str]:
        """The headers of each request."""
        headers = self._values(self.entry.get("headers")) | self._values(self.entry.get("http_headers"))
        options, named = self.entry.get("requestOptions"), self.entry.get("env_http_headers")
        headers |= self._values(options.get("headers") if isinstance(options, dict) else {})
        by_header = named.items() if isinstance(named, dict) else ()
        headers |= {str(header): self._value(str(name)) for header, name in by_header}
        if bearer := self.entry.get("bearer_token_env_var"):
            headers["Authorization"] = f"Bearer {self._value(str(bearer))}"
        return headers

    @property
    def variables(self) -> list[str]:
        """The names of the user's variables whose values the server gets, without those that every program gets."""
        keys = ("env_vars", "env_keys", "bearer_token_env_var", "env_http_headers")
        named = [self.entry.get(key) or [] for key in keys]
        references = (next(filter(None, match.groups())) for match in _REFERENCE.finditer(str(self.entry)))
        return sorted({*mcp_server.texts(named), *references})

    def question(self) -> Question:
        """Return the question that the user must agree to."""
        started: tuple[str, ...] = ()
        message, names = f"Call the MCP server {self.name}?", self.variables
        if not self.url:
            message = f"Start the MCP server {self.name}, a program that runs with all your rights?"
            started = (f"the program is {self.command[0]}", f"it is started in {self.cwd}")
            names = [*(name for name in _PASSED if name in self.environ), *names]
        gets = f"it gets the values of your variables {', '.join(names)}" if names else "it gets no variable of yours"
        return Question("mcp-check", self.name, message, (*self.facts, *started, gets, self.place), self.name)

    def _values(self, pairs: object) -> dict[str, str]:
        rows = pairs if isinstance(pairs, dict) else {}
        return {str(name): self._resolve(value) for name, value in rows.items() if isinstance(value, str)}

    def _resolve(self, text: str) -> str:
        resolved = _REFERENCE.sub(lambda match: self._value(match[1] or match[2] or match[4], match[3]), text)
        if re.search(r"\$\{(?:\w+:|\{)", resolved):
            message = f"the MCP server {self.name} has a placeholder that only its agent can fill in"
            raise UsageError(message, where=self.place)
        return resolved

    def _value(self, name: str, default: str | None = None) -> str:
        value = self.environ.get(name, default)
        if value is None:
            message = f"the MCP server {self.name} gets the variable {quote(name)}, which is not set"
            raise UsageError(message, where=self.place, hint=f"export {clean(name)}=… first")
        return value


def to_check(name: str, agent: str | None, path: str | None, ports: Ports) -> CheckedServer:
    """Return the server of a name, from the agents' configuration or the given file, else as a skill describes it.

    Raises:
        NotFound: no agent and no skill has it.
        UsageError: several agents have it, with different entries.
        FormatError, StateError: a configuration cannot be read.
    """
    project = ports.project
    place = (project.base, ports.user_home, ports.environ)
    entries = [*mcp_config.configured(name, project.scope, *place, only=agent)]
    if path is not None:
        entries = [(file, entry) for file, entry in entries if os.path.realpath(file.path) == os.path.realpath(path)]
        if not entries:
            raise NotFound(f"no agent has an MCP server {quote(name)} in that file", where=path)
    make = partial(CheckedServer, name, base=project.base, environ=ports.environ)
    if entries:
        (file, entry), *others = entries
        if not isinstance(entry, dict):
            raise FormatError(f"expected an object, found {quote(entry)}", where=file.path)
        plain = mcp_config.without_defaults(entry)
        is_one = all(mcp_config.is_equal(mcp_config.without_defaults(other), plain) for _, other in others) or any(
            # Each agent has its own spelling, such as that of a variable.
            all(mcp_config.is_same(config, each, server) for config, each in entries)
            for _, server in _described_servers(name, ports)
        )
        if not is_one:
            agents = {config.agent for config, _ in entries}
            ways = [("--agent", owner) for owner in sorted(agents)] if len(agents) == len(entries) else []
            paths = [("--file", config.path) for config, _ in entries]
            hint = " or ".join(as_command(*way) for way in ways or paths)
            raise UsageError(f"{name} is not the same server for every agent", hint=f"choose one: {hint}")
        return make(f"{file.agent}: {file.path}", entry, _facts(file, entry), file=file)
    for skill, server in _described_servers(name, ports):
        url = {"url": server.url, "bearer_token_env_var": server.bearer} if server.url else {}
        entry = url or {"command": server.command[0], "args": [*server.command[1:]], "env_vars": [*server.env]}
        return make(f"as the skill {skill} describes it", entry, server.facts())
    hint = "skillhub mcp check takes the name of a server in an agent's configuration, or of a need"
    raise NotFound(f"no agent has an MCP server {quote(name)}, and no skill describes one", hint=hint)


def _facts(file: mcp_config.ConfigFile, entry: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the facts of an entry; for a file of the project, which anyone may have written, the whole command."""
    facts = mcp_server.facts(entry)
    if file.scope == "project" and not mcp_server.url_of(entry):
        facts = (f"it runs: {as_command(*map(str, _words(entry)))[:_LOG_MAX]}", *facts[1:])
    # The Python that runs skillhub itself may be in any folder.
    judged = {**entry, "command": "python3"} if entry.get("command") == sys.executable else entry
    return (*facts, "it runs a shell or other unchecked code") if mcp_server.runs_code(judged) else facts


def _words(entry: Mapping[str, Any]) -> list[Any]:
    """Return the words of a command; only some agents store the program and its arguments apart."""
    parts = (entry.get("command", entry.get("cmd", [])), entry.get("args", []))
    return [word for part in parts for word in (part if isinstance(part, list) else [part])]


def _described_servers(name: str, ports: Ports) -> Iterator[tuple[str, McpServer]]:
    for skill, entry in ports.project.lock().skills.items():
        tree = ports.store.read(entry.tree) if f"mcp:{name}" in entry.requires else None
        if tree is None:
            continue
        for need in Manifest.read(tree).requires:
            if (need.kind, need.name) == ("mcp", name) and need.server is not None:
                yield skill, need.server


def compared(checked: CheckedServer, content: ServerContent, ports: Ports) -> list[dict[str, Any]]:
    """Return a row for each skill that needs the server: the tools that it names, and those that the server lacks.

    The tools are those of ``allowed-tools``. ``describes`` is the server as the skill describes it, if the agent has
    a different one.
    """
    before, file, rows = f"tools:mcp__{checked.name}__", checked.file, []
    others: dict[str, str] = {}
    if file is not None:
        for skill, server in _described_servers(checked.name, ports):
            if not mcp_config.is_same(file, checked.entry, server):
                others[skill] = "; ".join(server.facts())
    for skill, entry in ports.project.lock().skills.items():
        tools = [name.removeprefix(before) for name in entry.capabilities if name.startswith(before)]
        if tools or f"mcp:{checked.name}" in entry.requires:
            missing = [tool for tool in tools if tool != "*" and tool not in content.tools]
            rows.append({"skill": skill, "tools": tools, "missing": missing, "describes": others.get(skill)})
    return rows


@dataclass(frozen=True)
class ServerContent:
    """The tools and skills of a server; every text comes from the server, and is shortened."""

    server: str
    protocol: str
    tools: tuple[str, ...]
    skills: tuple[str, ...] | None


class _Skills(PaginatedResult):
    model_config = ConfigDict(extra="allow")

    skills: list[Any]


class _ListSkills(PaginatedRequest[Literal["skills/list"]]):
    method: Literal["skills/list"] = "skills/list"


def inspect_server(checked: CheckedServer, web: Web | None, seconds: float = _SECONDS) -> ServerContent:
    """Start the server, or call it through ``web``, and return its tools and skills; its processes are ended.

    Raises:
        SourceError: it does not start, does not answer in time, or answers with an error.
        FormatError: its answer is malformed.
        SkillhubError: as ``Web.ask`` raises it.
    """
    logging.getLogger("mcp").addHandler(logging.NullHandler())  # else its messages would reach the terminal unescaped
    log = bytearray()
    posted = _ThroughWeb(checked, web) if web is not None else None
    try:
        return anyio.run(partial(_read, checked, posted, log, seconds))
    except (MCPError, OSError, TimeoutError, ValueError, ExceptionGroup) as error:
        if posted is not None and posted.error is not None:
            raise posted.error from error
        first = _first(error)
        reason = quote(str(first), _NAME_MAX)
        if isinstance(first, TimeoutError | ValidationError):
            is_late = isinstance(first, TimeoutError)
            reason = f"it took more than {seconds:.0f} s" if is_late else "its answer does not follow the protocol"
        kind = FormatError if isinstance(first, ValidationError) else SourceError
        hint = f"it printed: {quote(log.decode('utf-8', 'replace')[-_LOG_MAX:], _LOG_MAX)}" if log else None
        raise kind(f"the MCP server {checked.name} failed: {reason}", where=checked.place, hint=hint) from error


def _first(error: BaseException) -> BaseException:
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


async def _read(checked: CheckedServer, posted: _ThroughWeb | None, log: bytearray, seconds: float) -> ServerContent:
    with anyio.fail_after(seconds):
        if posted is None:
            transport: Any = _start(checked, log)
        else:
            http_client = httpx2.AsyncClient(transport=posted)
            transport = streamable_http_client(checked.url, http_client=http_client, terminate_on_close=False)
        async with Client(transport, read_timeout_seconds=seconds, cache=None) as client:
            about, capable = client.server_info, client.server_capabilities
            declared = {**(capable.experimental or {}), **(capable.extensions or {})}
            tools = await _list_pages(partial(_tools, client)) if capable.tools is not None else ()
            skills = await _list_pages(partial(_skills, client)) if EXTENSION in declared else None
            server = _shorten(f"{about.name} {about.version}" if about else "")
            return ServerContent(server, client.protocol_version, tools, skills)


async def _list_pages(ask: Callable[[str | None], Awaitable[tuple[list[str], str | None]]]) -> tuple[str, ...]:
    """Ask for one page after another, and return the names in them, shortened."""
    collected: list[str] = []
    cursor = None
    for _ in range(_MOST):
        names, cursor = await ask(cursor)
        collected += map(_shorten, names)
        if cursor is None or len(collected) >= _MOST:
            break
    return tuple(collected[:_MOST])


async def _tools(client: Client, cursor: str | None) -> tuple[list[str], str | None]:
    page = await client.list_tools(cursor=cursor)
    return [tool.name for tool in page.tools], page.next_cursor


async def _skills(client: Client, cursor: str | None) -> tuple[list[str], str | None]:
    request = _ListSkills(params=PaginatedRequestParams(cursor=cursor))
    page = await client.session.send_request(request, _Skills)
    return [str(skill.get("uri")) if isinstance(skill, dict) else "" for skill in page.skills], page.next_cursor


def _shorten(text: str) -> str:
    return clean(text)[:_NAME_MAX]


@asynccontextmanager
async def _start(checked: CheckedServer, log: bytearray) -> AsyncIterator[tuple[Any, Any]]:
    """Start the server and yield its streams; on exit kill its process group."""
    process = await anyio.open_process(
        checked.command, env=checked.process_environ, cwd=checked.cwd, stderr=subprocess.PIPE, start_new_session=True
    )
    give, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    sent, take = anyio.create_memory_object_stream[SessionMessage](0)

    async def read() -> None:
        tail, count = b"", 0
        async with give:
            async for data in _stream(process.stdout):
                count += len(data)
                *lines, tail = (tail + data).split(b"\n")
                if count > _OUTPUT_MAX:
                    return
                for line in (line for line in lines if line.startswith(b"{")):
                    with suppress(ValueError):  # some servers print lines that are not messages
                        await give.send(SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False)))

    async def write() -> None:
        with suppress(*_CLOSED):
            async for message in take:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                await process.stdin.send(f"{text}\n".encode())  # type: ignore[union-attr]

    async def hear() -> None:
        async for data in _stream(process.stderr):
            log[:] = (log + data)[-_LOG_MAX:]

    try:
        async with anyio.create_task_group() as group:
            for task in (read, write, hear):
                group.start_soon(task)
            try:
                yield received, sent
            finally:
                with anyio.CancelScope(shield=True):
                    await _end_process(process)
                group.cancel_scope.cancel()
    finally:
        for stream in (give, received, sent, take):
            stream.close()
        await _drain(process)


async def _drain(process: Process) -> None:
    """Read the pipes to their end, which closes them."""
    with anyio.move_on_after(_GRACE, shield=True):
        for stream in (process.stdout, process.stderr):
            async for _ in _stream(stream):
                pass


async def _stream(stream: Any) -> AsyncIterator[bytes]:  # noqa: ANN401 - anyio's
    with suppress(*_CLOSED):
        async for data in stream:
            yield data


async def _end_process(process: Process) -> None:
    """Let the server exit by itself, then kill its process group; a second Ctrl-C ends only the wait."""
    try:
        with suppress(*_CLOSED):
            await process.stdin.aclose()  # type: ignore[union-attr]
        with anyio.move_on_after(_GRACE):
            while process.returncode is None:  # `wait` would also wait for other processes with its pipes
                await anyio.sleep(0.01)
    finally:
        with suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
    with anyio.move_on_after(_GRACE):
        while process.returncode is None:
            await anyio.sleep(0.01)


class _ThroughWeb(httpx2.AsyncBaseTransport):
    """Sends the requests of the SDK through our own client, only to the URL that the user agreed to."""

    def __init__(self, checked: CheckedServer, web: Web) -> None:
        self._url, self._login = checked.url, checked.login
        self._headers = checked.headers
        self._web = web
        self.error: SkillhubError | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.method != "POST":
            return httpx2.Response(405)  # a stream of events, which this check does not need
        known = ("accept", "content-type", "mcp-")
        headers = {name: value for name, value in request.headers.items() if name.startswith(known)}
        headers.pop("accept-encoding", None)
        body = await request.aread()
        options = RequestOptions(headers={**self._headers, **headers}, body=body)
        ask = partial(self._web.ask, self._url, cap=_OUTPUT_MAX, options=options)
        try:
            answer = await anyio.to_thread.run_sync(ask, abandon_on_cancel=True)
        except SkillhubError as error:
            self.error = error
            raise httpx2.ConnectError("it cannot be asked") from error
        if answer.status == 401:
            hint = f"log in with the agent: {self._login}; or name a token for this host in config.toml"
            self.error = SourceError("the MCP server requires a login", where=self._url, hint=hint)
            raise httpx2.ConnectError("it wants a login")
        kept = {name: value for name, value in answer.headers.items() if name in ("content-type", "mcp-session-id")}
        return httpx2.Response(answer.status, headers=kept, content=answer.data)

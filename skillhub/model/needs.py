"""The needs of a skill (variables, MCP servers, programs, other skills), and the files that declare them."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import Field

from skillhub.errors import ForbiddenVariable, FormatError, SecurityError, UndeclaredVariable, UsageError
from skillhub.formats import yaml
from skillhub.formats.document import Before, ForeignDocument, Items, Lenient, Members, Read, valid
from skillhub.formats.text import as_command, clean, deferred, is_hidden, is_name, quote
from skillhub.formats.yaml import Node
from skillhub.model.finding import Issue
from skillhub.model.mcp_server import SERVER_RUNS, Risk, is_loopback, loads_code, risk, steered_by
from skillhub.model.reference import Named, parse_ref
from skillhub.model.tree import DECLARATIONS, SKILL_MD, Tree
from skillhub.model.version import Range

# The constructor of a ``Requirement`` checks its name, so that each one is safe to show, lock and satisfy.

NeedKind = Literal["env", "mcp", "program", "skill"]
Transport = Literal["stdio", "http"]
TEXT_MAX = 1024
VALUE_MAX = 64 * 1024  # characters
_SERVERS_MAX = 200
_D = TypeVar("_D", bound=ForeignDocument)

_NAMES = {
    "env": re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}", re.ASCII),
    "mcp": re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII),
    "program": re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,63}", re.ASCII),
}
_PROGRAM = deferred(r"([A-Za-z0-9_][A-Za-z0-9_.+-]*?) {0,3}(?:@|(?=[<>=^~]))(.+)", re.ASCII)
# Variables that control shells, loaders, interpreters, package tools, proxies, or skillhub itself.
_FORBIDDEN = deferred(
    r"(?ai)PATH|HOME|SHELL|IFS|ENV|BASH_ENV|ZDOTDIR|PROMPT_COMMAND|NODE_OPTIONS|NODE_PATH|DOTNET_STARTUP_HOOKS"
    r"|(?:JAVA_TOOL|JDK_JAVA|_JAVA)_OPTIONS|PERLLIB|OPENSSL_CONF|SSLKEYLOGFILE|(?:CURL|REQUESTS)_CA_BUNDLE"
    r"|NODE_EXTRA_CA_CERTS|NODE_TLS_REJECT_UNAUTHORIZED"
    r"|(?:LD_|DYLD_|PYTHON|PERL5|RUBY|GIT_|SSL_CERT_|PIP_|UV_|NPM_CONFIG_|SKILLHUB_).*|.*_PROXY"
)
# URLs that every client reads alike: an ASCII host, no user, no backslash, no blank.
_URL = deferred(
    r"(?ai)(?P<scheme>https?)://(?P<host>[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?"
    r"(?:[/?#][!-\[\]-~]*)?"
)
# The forms that agents expand in their configuration: `$VAR`, `${VAR}`, `${env:VAR}` and `{env:VAR}`; some agents
# also expand `${input:…}`, `{file:…}` and `%VAR%`.
_REFERENCE = deferred(r"\$\{?(?:env:)?(\w+)|\{env:(\w+)", re.ASCII)
_EXPANSION = deferred(r"\$[\w{(]|\{\w+:|%(?![0-9A-Fa-f]{2}%)[A-Za-z_]\w*%", re.ASCII)


@dataclass(frozen=True, slots=True)
class McpServer:
    """The command (``stdio``) or the URL (``http``) of an MCP server.

    Attributes:
        command: The words of the command, as a POSIX shell would split them; skillhub starts no shell for them.
        url: The URL of its endpoint: https, or http on this machine's loopback.
        env: The names of the variables that a stdio server gets.
        bearer: The variable whose value is the bearer token for an http server.
    """

    transport: Transport
    command: tuple[str, ...] = ()
    url: str | None = None
    env: tuple[str, ...] = ()
    bearer: str | None = None

    def __post_init__(self) -> None:
        stdio, http = bool(self.command), self.url is not None
        if (self.transport, stdio, http) not in (("stdio", True, False), ("http", False, True)):
            raise FormatError("expected a stdio server with a command, or an http server with a url")
        if (self.env and not stdio) or (self.bearer is not None and not http):
            raise FormatError("expected env with a command only, and bearer_token_env_var with a url only")
        for text in (*self.command, self.url or ""):
            _check_literal(text)
        if self.url is not None:
            _check_url(self.url)
        for name in self.variables:
            _check_variable(name)

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables that the server gets, in its environment or as its token."""
        return self.env if self.bearer is None else (*self.env, self.bearer)

    @property
    def host(self) -> str | None:
        """The host of ``url``, in lower case, without port or brackets."""
        match = _URL.fullmatch(self.url or "")
        return match["host"].strip("[]").lower() if match else None

    def facts(self) -> tuple[str, ...]:
        """Return its command or its URL, and the variables that it gets, a line each."""
        if self.url is not None:
            token = f"it is given the variable {self.bearer} as its token, which goes to {self.host}"
            variables = token if self.bearer else "it is given no variable"
            return (f"it is reached at {self.url}", variables)
        variables = "the variable" if len(self.env) == 1 else "the variables"
        names = f"{variables} {', '.join(self.env)}" if self.env else "no variable"
        return (f"it runs: {as_command(*self.command)}", f"it is given {names}")

    def shown(self) -> dict[str, str]:
        """Return the keys of ``mcp_server.shown``, with nothing masked: a skill contains no secret of the user."""
        values = {"runs": as_command(*self.command) if self.command else "", "is reached at": self.url or ""}
        return {key: text for key, text in {**values, "is given": ", ".join(self.variables)}.items() if text}

    @property
    def risk(self) -> Risk:
        """The risk of its command and its variables; a server with a URL runs nothing on this machine."""
        if not self.command:
            return "ordinary"
        return "shell" if any(map(loads_code, self.env)) else risk(self.command)

    def steered(self, project: str) -> str:
        """Return the warning about files of the project that can change what its launcher runs; empty without any."""
        files = [file for file in steered_by(self.command) if os.path.lexists(os.path.join(project, file))]
        return f"{', '.join(files)} of this project can change what it runs" if files else ""

    def risk_if(self, steered: str) -> tuple[Risk, str]:
        """Return the risk with the warning of ``steered``, and the words for it in a question."""
        is_raised = steered and self.risk == "ordinary"
        return ("unpinned", f", and {steered}") if is_raised else (self.risk, SERVER_RUNS[self.risk])


@dataclass(frozen=True, slots=True)
class Requirement:
    """One need.

    Attributes:
        server: How to configure the MCP server, if the skill declares it.
        range: The versions of another skill, or of a program, that satisfy the need; None is any.
        source: The user's alias of the source of the other skill; None is the source of this skill.
    """

    kind: NeedKind
    name: str
    description: str = ""
    required: bool = True
    server: McpServer | None = None
    range: str | None = None
    source: str | None = None

    def __post_init__(self) -> None:
        if self.kind == "env":
            _check_variable(self.name)
        elif not (is_name(self.name) if self.kind == "skill" else _NAMES[self.kind].fullmatch(self.name)):
            raise FormatError(f"expected the name of a {self.kind}, found {quote(self.name)}")

    def spell(self) -> str:
        """Return ``kind:name``, as in the lock."""
        return f"{self.kind}:{self.name}"


def check_value(value: str) -> None:
    """Refuse a text that cannot be the value of a variable that a skill needs.

    Raises:
        UsageError: it is empty, too long or contains NUL.
    """
    if not value or "\0" in value or len(value) > VALUE_MAX:
        raise UsageError(f"expected a value of 1 to {VALUE_MAX} characters, none of them NUL")


def is_forbidden(name: str) -> bool:
    """Return whether no skill may ask for the variable ``name``, in upper or lower case."""
    return _FORBIDDEN.fullmatch(name) is not None


def split_command(text: str) -> tuple[str, ...]:
    """Return the words of ``text``, split as a POSIX shell splits them, with nothing expanded.

    Raises:
        FormatError: a quote is not closed.
    """
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise FormatError(f"expected a command, found {quote(text)}: {error}") from error


def references(text: str) -> tuple[str, ...]:
    """Return the variables that some agent would expand in ``text`` from its own environment."""
    return tuple(next(filter(None, match.groups())) for match in _REFERENCE.finditer(text))


def _check_variable(name: str) -> None:
    if not _NAMES["env"].fullmatch(name):
        raise FormatError(f"expected the name of a variable, found {quote(name)}")
    if is_forbidden(name):
        message = f"asks for the variable {name}, which controls how programs run; no skill may ask for it"
        raise ForbiddenVariable(message, hint="no flag permits it; ask the author to use another variable")


def _check_literal(text: str) -> None:
    if len(text) > TEXT_MAX or any(is_hidden(char) for char in text):
        raise FormatError(f"expected at most {TEXT_MAX} characters, all of them visible, found {quote(text)}")
    if _EXPANSION.search(text):
        hint = "pass variables by `env` or `bearer_token_env_var`"
        raise FormatError(f"expected literal text, found {quote(text)}, which an agent would expand", hint=hint)


def _check_url(url: str) -> None:
    match = _URL.fullmatch(url)
    if match is None:
        raise FormatError(f"expected an https URL without user and blanks, found {quote(url)}")
    if match["scheme"].lower() == "http" and not is_loopback(match["host"]):
        raise FormatError(f"expected https (http is only for this machine), found {quote(url)}")


# The needs and the interface of a skill as declared in ``agents/*.yaml`` and in other clients' metadata.
# An invalid declaration is left out with a warning, since a skill can be read without it. But a declaration that asks
# for a variable which the skill must not have is a ``SecurityError``, never left out.

OPENCLAW: Final = ("openclaw", "clawdbot", "clawdis")
_TYPES: Final[Mapping[str, NeedKind]] = {"env_var": "env", "mcp": "mcp", "program": "program", "skill": "skill"}
_TRANSPORTS: Final[Mapping[str, Transport]] = {"stdio": "stdio", "streamable_http": "http", "http": "http"}

_Text = Annotated[str, Field(max_length=TEXT_MAX)]
_Truth = Annotated[bool, Read(partial(yaml.truth, default=True), type="boolean")]


class _Tool(ForeignDocument):
    """One need; if any part of it is invalid, the whole need is ignored."""

    LENIENT = ()

    type: Literal["env_var", "mcp", "program", "skill"]
    value: _Text
    description: _Text = ""
    required: _Truth = True
    transport: _Text = ""
    command: _Text = ""
    url: _Text = ""
    env: Annotated[Items[_Text], Before(lambda node: node or ())] = ()
    bearer_token_env_var: _Text = ""

    def requirement(self, declared: Collection[tuple[NeedKind, str]]) -> Requirement:
        """Return the need.

        Args:
            declared: Kind and name of the needs read before this one, all variables among them.

        Raises:
            FormatError: the declaration is invalid.
            SecurityError: it asks for a variable that the skill must not have.
        """
        if self.type == "skill":
            return _skill(self.value, self.description, required=self.required)
        if self.type == "program":
            return _program(self.value, self.description, required=self.required)
        server = self._server(declared) if self.type == "mcp" else None
        return Requirement(_TYPES[self.type], self.value, self.description, self.required, server)

    def _server(self, declared: Collection[tuple[NeedKind, str]]) -> McpServer | None:
        bearer = self.bearer_token_env_var or None
        variables = (*self.env, *filter(None, [bearer]), *references(self.command), *references(self.url))
        for name in variables:
            if ("env", name) not in declared:
                message = f"an MCP server would be given {quote(name)}, a variable that the skill does not declare"
                raise UndeclaredVariable(message, hint="the author can declare it as a tool of type env_var")
        if not (self.command or self.url):
            return None
        transport = self.transport or ("stdio" if self.command else "streamable_http")
        if transport not in _TRANSPORTS:
            raise FormatError(f"expected a transport of {', '.join(_TRANSPORTS)}, found {quote(transport)}")
        return McpServer(_TRANSPORTS[transport], split_command(self.command), self.url or None, self.env, bearer)


class _Dependencies(ForeignDocument):
    tools: Items[Lenient[_Tool]] = ()


class _InvocationPolicy(ForeignDocument):
    allow_implicit_invocation: bool | None = None


class AgentFile(ForeignDocument):
    """``agents/openai.yaml`` and ``agents/skillhub.yaml``: needs, interface and permissions of a skill."""

    interface: Members[str, Lenient[_Text]] = Field(default_factory=dict)
    policy: _InvocationPolicy = _InvocationPolicy()
    dependencies: _Dependencies = _Dependencies()
    permissions: str | list[Any] | dict[str, Any] = ""


class _Variable(ForeignDocument):
    LENIENT = ()

    name: _Text
    required: _Truth = True
    description: _Text = ""


class _OpenClawNeeds(ForeignDocument):
    env: Items[Lenient[_Text]] = ()
    bins: Items[Lenient[_Text]] = ()
    any_bins: Items[Lenient[_Text]] = Field((), alias="anyBins")


class OpenClawMetadata(ForeignDocument):
    """``metadata.openclaw`` in the frontmatter of a ``SKILL.md``, or the same under one of its other names."""

    requires: _OpenClawNeeds = _OpenClawNeeds.model_construct()
    primary_env: _Text = Field("", alias="primaryEnv")
    variables: Items[Lenient[_Variable]] = Field((), alias="envVars")


@dataclass(frozen=True, slots=True)
class Declared:
    """The declarations of a skill beyond the specification.

    Attributes:
        requires: Its needs, sorted by kind and name, each once.
        interface: ``display_name``, ``short_description``, ``default_prompt`` and so on.
        permissions: Each declared permission as ``path.to.key=value``, sorted; those of both files.
        implicit: Whether a model may invoke the skill by itself.
        unread: The keys without a meaning here, to tell the author.
    """

    requires: tuple[Requirement, ...]
    interface: Mapping[str, str]
    permissions: tuple[str, ...]
    implicit: bool
    warnings: tuple[Issue, ...]
    unread: tuple[Issue, ...] = ()


def read(tree: Tree, metadata: Mapping[str, Node]) -> Declared:
    """Return the declarations in ``agents/*.yaml`` of ``tree`` and in the frontmatter's ``metadata``.

    Raises:
        ForbiddenVariable: the skill asks for a variable that no skill may have.
        UndeclaredVariable: an MCP server refers to a variable that the skill does not declare.
    """
    reading = _Reading()
    reading.skills(metadata.get("requires", ""), f"{SKILL_MD}: metadata.requires")
    for name in OPENCLAW:
        if isinstance(fields := metadata.get(name), dict):
            reading.openclaw(fields, f"{SKILL_MD}: metadata.{name}")
            break
    documents = [(path, reading.document(tree, path)) for path in DECLARATIONS if path in tree]
    tools = [
        (tool, f"{path}: dependencies.tools[{number}]")
        for path, document in documents
        for number, tool in valid(enumerate(document.dependencies.tools))
    ]
    # Variables first: a server may refer to one that another file declares.
    for tool, where in sorted(tools, key=lambda pair: pair[0].type == "mcp"):
        with reading.leniently(where):
            reading.add(tool.requirement(reading.needs))
    files = [document for _, document in documents]
    own = DECLARATIONS[-1]
    forms: list[tuple[ForeignDocument, str]] = [(document, path) for path, document in documents if path == own]
    forms += [*((document.dependencies, f"{path}: dependencies") for path, document in documents), *tools]
    unknown = ((key, where) for form, where in forms for key in form.model_extra or ())
    unread = ((f"the unknown key {quote(key)} has no effect", where) for key, where in unknown)
    # `agents/skillhub.yaml` decides; without it, a no in the file of Codex or of OpenOxide decides.
    policies = {path: document.policy.allow_implicit_invocation for path, document in documents}
    own_decision = policies.get(own)
    return Declared(
        requires=tuple(need for _, need in sorted(reading.needs.items())),
        interface=MappingProxyType(
            {clean(key): clean(text) for document in files for key, text in valid(document.interface.items())}
        ),
        permissions=tuple(sorted({clean(line) for document in files for line in _flattened(document.permissions)})),
        implicit=False not in policies.values() if own_decision is None else own_decision,
        warnings=tuple(reading.warnings),
        unread=tuple(Issue("unknown-key", *row) for row in unread),
    )


@dataclass(slots=True)
class _Reading:
    """The needs and warnings read so far; a later need replaces an earlier one of the same kind and name."""

    needs: dict[tuple[NeedKind, str], Requirement] = field(default_factory=dict)
    warnings: list[Issue] = field(default_factory=list)

    @contextmanager
    def leniently(self, where: str) -> Iterator[None]:
        try:
            yield
        except FormatError as error:
            self.warnings.append(Issue("bad-declaration", error.message, error.where or where))
        except SecurityError as error:
            error.where = error.where or where
            raise

    def add(self, need: Requirement) -> None:
        self.needs[need.kind, need.name] = need

    def document(self, tree: Tree, path: str) -> AgentFile:
        with self.leniently(path):
            try:
                node = yaml.parse(tree[path].data.decode("utf-8").removeprefix("\ufeff"), path) or {}
            except UnicodeDecodeError as error:
                raise FormatError("expected UTF-8 text", where=path) from error
            if not isinstance(node, dict):
                raise FormatError(f"expected a mapping, found {quote(node)}")
            found = self.read(AgentFile, node, f"{path}: ")
            servers = sum(tool.type == "mcp" for _, tool in valid(enumerate(found.dependencies.tools)))
            if servers > _SERVERS_MAX:  # each is written to a file of each agent
                raise FormatError(f"expected at most {_SERVERS_MAX} MCP servers, found {servers}")
            return found
        return AgentFile()

    def read(self, form: type[_D], node: Mapping[str, Node], start: str) -> _D:
        document = form.parse(node, start)
        self.warnings += [Issue("bad-declaration", message, start + path) for path, message in document.ignored()]
        return document

    def openclaw(self, metadata: Mapping[str, Node], where: str) -> None:
        declared = self.read(OpenClawMetadata, metadata, f"{where}.")
        if declared.primary_env:
            with self.leniently(f"{where}.primaryEnv"):
                # The variable that OpenClaw's settings page fills; alone it does not keep a skill disabled there.
                self.add(Requirement("env", declared.primary_env, required=False))
        kinds: tuple[tuple[str, NeedKind], ...] = (("env", "env"), ("bins", "program"))
        for key, kind in kinds:
            for number, name in valid(enumerate(getattr(declared.requires, key))):
                with self.leniently(f"{where}.requires.{key}[{number}]"):
                    self.add(_program(name) if kind == "program" else Requirement(kind, name))
        if any_of := [quote(name) for _, name in valid(enumerate(declared.requires.any_bins))]:
            names = ", ".join(any_of[:20])
            message = f"one of these programs is needed, which is not checked: {names}"
            self.warnings.append(Issue("any-program", message, f"{where}.requires.anyBins"))
        for number, variable in valid(enumerate(declared.variables)):
            with self.leniently(f"{where}.envVars[{number}]"):
                self.add(Requirement("env", variable.name, variable.description, variable.required))

    def skills(self, node: Node, where: str) -> None:
        if isinstance(node, list):
            for number, item in enumerate(node):
                with self.leniently(f"{where}[{number}]"):
                    self.add(_skill(item, "", required=True))
            return
        with self.leniently(where):
            if not isinstance(node, str):
                raise FormatError(f"expected text, found {quote(node)}")
            # Words of a sentence may be valid names: either every word is a need, or none is.
            for need in [_skill(word, "", required=True) for word in node.replace(",", " ").split()]:
                self.add(need)


def _program(text: str, description: str = "", *, required: bool = True) -> Requirement:
    """Return the need of a program: ``gh``, ``gh>=2.40`` or ``gh@^2``; the program's version is never checked."""
    match = _PROGRAM.fullmatch(text)
    if match is None:
        return Requirement("program", text, description, required)
    try:
        version_range = Range(match[2]).text
    except UsageError as error:
        raise FormatError(error.message) from error
    details = f"version {version_range}{f'; {description}' if description else ''}"[:TEXT_MAX]
    return Requirement("program", match[1], details, required, range=version_range)


def _skill(text: Node, description: str, *, required: bool) -> Requirement:
    """Return the need of another skill: ``name``, ``name@range`` or ``source:name@range``."""
    if not isinstance(text, str):
        raise FormatError(f"expected text, found {quote(text)}")
    try:
        ref = parse_ref(text)
        if isinstance(ref, Named) and ref.range is not None:
            Range(ref.range)
    except UsageError as error:
        raise FormatError(error.message) from error
    if not isinstance(ref, Named):
        raise FormatError(f"expected the name of a skill, found {quote(text)}")
    return Requirement("skill", ref.name, description, required, range=ref.range, source=ref.source)


def _flattened(node: Node, path: str = "") -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            yield from _flattened(value, f"{path}.{key}" if path else key)
    elif isinstance(node, list):
        for item in node:
            yield from _flattened(item, path)
    elif path or node:
        yield f"{path}={node}" if path and node else path or node

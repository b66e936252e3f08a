"""What a skill needs before it can work: variables, MCP servers, programs, other skills.

A ``Requirement`` that exists is one that may be shown, locked and met: its name is checked when it is made.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import Literal

from skillhub.errors import ForbiddenVariable, FormatError
from skillhub.model.server_command import Risk, loads_code, risk
from skillhub.model.text import is_hidden, is_name, quote

Kind = Literal["env", "mcp", "program", "skill"]
Transport = Literal["stdio", "http"]
TEXT_MAX = 1024

_NAMES = {
    "env": re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}", re.ASCII),
    "mcp": re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII),
    "program": re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,63}", re.ASCII),
}
# Variables that steer shells, loaders, interpreters, package tools, proxies, or skillhub itself.
_FORBIDDEN = re.compile(
    r"PATH|HOME|SHELL|IFS|ENV|BASH_ENV|NODE_OPTIONS|JAVA_TOOL_OPTIONS"
    r"|(?:LD_|DYLD_|PYTHON|PERL5|RUBY|GIT_|SSL_CERT_|PIP_|UV_|NPM_CONFIG_|SKILLHUB_).*|.*_PROXY",
    re.ASCII | re.IGNORECASE,
)
# One spelling of URL that every client reads alike: an ASCII host, no user part, no backslash, no blank.
_URL = re.compile(
    r"(?P<scheme>https?)://(?P<host>[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?"
    r"(?:[/?#][!-\[\]-~]*)?",
    re.ASCII | re.IGNORECASE,
)
_LOOPBACK = re.compile(r"localhost|127(?:\.[0-9]{1,3}){3}|\[::1\]", re.IGNORECASE)
# `$VAR`, `${VAR}`, `${env:VAR}` and `{env:VAR}`, as agents expand them in their configuration; some expand
# `${input:…}` and `{file:…}` as well.
_REFERENCE = re.compile(r"\$\{?(?:env:)?(\w+)|\{env:(\w+)", re.ASCII)
_EXPANSION = re.compile(r"\$[\w{(]|\{\w+:", re.ASCII)


@dataclass(frozen=True, slots=True)
class McpServer:
    """How an MCP server is started (``stdio``) or reached (``http``).

    Attributes:
        command: The words of the command, as a POSIX shell would split them; never run by a shell of ours.
        url: Where it listens: https, or http on this machine's loopback.
        env: Names of the variables that a stdio server is given.
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
        """The variables that it is given, whichever way."""
        return self.env if self.bearer is None else (*self.env, self.bearer)

    @property
    def host(self) -> str | None:
        """The host of ``url``, in lower case, without port or brackets."""
        match = _URL.fullmatch(self.url or "")
        return match["host"].strip("[]").lower() if match else None

    @property
    def risk(self) -> Risk:
        """What its command, with the variables that it is given, may run; a URL runs nothing here."""
        if not self.command:
            return "ordinary"
        return "shell" if any(map(loads_code, self.env)) else risk(self.command)


@dataclass(frozen=True, slots=True)
class Requirement:
    """One need.

    Attributes:
        server: How to configure an MCP server, where the skill says so.
        range: The versions of another skill that will do; None is any.
        source: Where the other skill is to come from, if not from where this one came: an alias of the user's.
    """

    kind: Kind
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


def is_forbidden(name: str) -> bool:
    """Say whether no skill may ask for the variable ``name``, in any case of its letters."""
    return _FORBIDDEN.fullmatch(name) is not None


def split_command(text: str) -> tuple[str, ...]:
    """Split ``text`` into words as a POSIX shell does, and expand nothing.

    Raises:
        FormatError: a quote is not closed.
    """
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise FormatError(f"expected a command, found {quote(text)}: {error}") from error


def references(text: str) -> tuple[str, ...]:
    """Return the variables that some agent would put into ``text`` from its own environment."""
    return tuple(next(filter(None, match.groups())) for match in _REFERENCE.finditer(text))


def _check_variable(name: str) -> None:
    if not _NAMES["env"].fullmatch(name):
        raise FormatError(f"expected the name of a variable, found {quote(name)}")
    if is_forbidden(name):
        raise ForbiddenVariable(
            f"asks for the variable {name}, which steers programs and may not be asked for",
            hint="no flag lifts this; ask the author to use a name of the skill's own",
        )


def _check_literal(text: str) -> None:
    if len(text) > TEXT_MAX or any(is_hidden(char) for char in text):
        raise FormatError(f"expected at most {TEXT_MAX} characters, all of them visible, found {quote(text)}")
    if _EXPANSION.search(text):
        raise FormatError(
            f"expected literal text, found {quote(text)}, which an agent would expand",
            hint="hand variables over by `env` or `bearer_token_env_var`",
        )


def _check_url(url: str) -> None:
    match = _URL.fullmatch(url)
    if match is None:
        raise FormatError(f"expected an https URL without user and blanks, found {quote(url)}")
    if match["scheme"].lower() == "http" and not _LOOPBACK.fullmatch(match["host"]):
        raise FormatError(f"expected https (http is for this machine alone), found {quote(url)}")

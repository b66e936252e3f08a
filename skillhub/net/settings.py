"""The user's ``config.toml``: defaults, tokens, mirrors, trusted hosts; logins from these tokens and the netrc."""

from __future__ import annotations

import netrc
import os
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, ClassVar, Self, get_args

from pydantic import Field

from skillhub.disk import files
from skillhub.disk.home import CONFIG, Home
from skillhub.errors import FormatError, UnsafeTransfer
from skillhub.formats.document import Absent, Document, Items, Members, Read, one_of, part, visible
from skillhub.formats.text import deferred, quote
from skillhub.formats.toml import CAP, strict_toml
from skillhub.model.hosts import LinkKind, Scope, read_id
from skillhub.model.reference import NO_SECRET, PORTS, holds_secret, parse
from skillhub.net.target import RequestTarget, is_loopback

_HOST = deferred(r"(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|[0-9a-f:]+)(?::[1-9][0-9]{0,4})?", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}", re.ASCII)


def _name_of_host(host: str) -> str:
    if not _HOST.fullmatch(host):
        hint = 'such as "skills.example" or "skills.example:8443"'
        raise FormatError(f"expected a host in lower case, found {quote(host)}", hint=hint)
    return host


def _variable(value: object) -> str:
    name = value.get("env") if isinstance(value, dict) and len(value) == 1 else None
    if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
        # The error does not show the value, which may be the token itself.
        hint = 'put the token in a variable and its name here: { env = "NAME" }'
        raise FormatError("expected the name of a variable", hint=hint)
    return name


def _trusted(text: object) -> tuple[str, int | None]:
    try:
        if not isinstance(text, str) or text != text.lower() or not {*text}.isdisjoint("/?#"):
            raise UnsafeTransfer("expected a host")
        target = RequestTarget.parse(f"https://{text}")
    except UnsafeTransfer as error:
        hint = 'such as "git.corp.example", "git.corp.example:8443" or "10.0.0.7"'
        raise FormatError(f"expected a host in lower case, found {quote(text)}", hint=hint) from error
    return target.host, target.port if text.rpartition("]")[2].count(":") else None


def _base(value: object) -> str:
    try:
        if not isinstance(value, str) or "?" in value or "#" in value or "%" in value:
            raise UnsafeTransfer(f"expected a URL, found {quote(value)}")
        target = RequestTarget.parse(value)
    except UnsafeTransfer as error:
        hint = '"https://host/path" = "https://mirror.example/path"'
        raise FormatError(error.message, hint=hint) from error
    return f"{target.scheme}://{target.authority}{target.raw_path}".rstrip("/")


def _mirror(value: object) -> str:
    if not isinstance(value, str) or not value.startswith("file:"):
        return _base(value)
    path = visible(value).removeprefix("file://").rstrip("/")
    if not path.startswith("/") or {"..", "."} & {*path.split("/")} or not {*path}.isdisjoint("?#%\\"):
        raise FormatError(f"expected file:///folder, found {quote(value)}", hint="no dot segments and no escapes")
    return f"file://{path}"


def _place(value: object) -> str:
    place = visible(value)
    found = parse(place) if "://" in place else None
    is_safe = found and (found.scheme == "https" or (found.scheme == "http" and is_loopback(found.host)))
    if "://" in place and (not is_safe or holds_secret(place)):
        raise FormatError("expected a file, or an https URL without password or another credential", hint=NO_SECRET)
    return place


def _agent(value: object) -> str:
    return "all" if value == "all" else read_id(value)


@part
@dataclass(frozen=True, slots=True)
class InstallDefaults:
    """The user's defaults, which flags and a project's ``skillhub.toml`` override.

    Attributes:
        agents: The agents to enable skills for; if empty, the agents that are found on this machine.
        link: Whether to copy or link skills; None for a copy.
        scope: The scope of commands in a folder without lock and intent; None for the project.
    """

    UNKNOWN: ClassVar = "known: agents, link, scope"

    agents: Items[Annotated[str, Read(_agent, type="string", minLength=1)]] = ()
    link: Absent[Annotated[LinkKind, one_of(*get_args(LinkKind))]] = None
    scope: Absent[Annotated[Scope, one_of(*get_args(Scope))]] = None


_Base = Annotated[str, Read(_base, type="string", pattern="^https?://")]
_Mirror = Annotated[str, Read(_mirror, type="string", pattern="^(https?|file)://")]
_ENV = {"env": {"pattern": f"^{_VARIABLE.pattern}$"}}
_TOKEN = {"properties": _ENV, "required": ["env"], "additionalProperties": False}


class Settings(Document):
    """The user's settings; all are empty if the file is missing.

    Attributes:
        tokens: The environment variable with the token, by host, or by host and port.
        mirrors: The URL or ``file:`` folder to fetch from, by the base URL that it replaces; neither ends with a
            slash.
        trusted: The trusted hosts, each with its port; None for the default port of the protocol.
        install: Defaults for the commands that install.
        advisories: Files, relative to the folder of the settings, and URLs with advisories about known bad skills.
    """

    OBJECT = "a table"
    UNKNOWN = "known: advisories, trusted-hosts, [install], [mirrors], [tokens]; check the spelling"

    tokens: Members[Annotated[str, Read(_name_of_host)], Annotated[str, Read(_variable, type="object", **_TOKEN)]] = (
        Field(default_factory=dict)
    )
    mirrors: Members[_Base, _Mirror] = Field(default_factory=dict)
    install: InstallDefaults = InstallDefaults()
    trusted: Items[Annotated[tuple[str, int | None], Read(_trusted)]] = Field((), alias="trusted-hosts")
    advisories: Items[Annotated[str, Read(_place, type="string", minLength=1)]] = ()

    @classmethod
    def read(cls, home: Home) -> Self:
        """Return the user's settings.

        Raises:
            FormatError: the file is no TOML, or has an unknown key or an invalid value.
            StateError: the file cannot be read.
        """
        path = os.path.join(home.config, CONFIG)
        return cls.parse(files.read_linked(path, CAP) or b"", path)

    @classmethod
    def read_json(cls, data: bytes, where: str) -> object:
        """Return the parsed TOML of the file.

        Raises:
            FormatError: the file is no TOML.
        """
        return strict_toml(data, where)

    def trusts(self, url: str) -> bool:
        """Return whether the host is trusted, so that a URL there counts as named by the user, whoever named it.

        Only https, ssh, and http on this machine count: these prove the identity of the server.
        """
        if not self.trusted:  # the usual case, checked for each artifact
            return False
        found = parse(url)
        usual = found and PORTS.get("https" if found.scheme == "oci" else found.scheme)
        if not found or not usual or (found.scheme == "http" and not is_loopback(found.host)):
            return False
        port = found.port or usual
        return (found.host, port) in self.trusted or (port == usual and (found.host, None) in self.trusted)


_NETRC_CAP = 1 << 20


def token_variable(target: RequestTarget, tokens: Mapping[str, str]) -> str | None:
    """Return the variable that holds the token for a target, by host and port, else by host alone."""
    return tokens.get(f"{target.host}:{target.port}") or tokens.get(target.host)


class Logins:
    """The user's credentials for each host; looked up for each request, and never shown.

    Args:
        tokens: The environment variable that holds the token, by host, or by host and port.
        environ: The environment, in which ``NETRC`` may name the netrc.
        user_home: The folder of the netrc, unless ``NETRC`` names it.
    """

    def __init__(self, tokens: Mapping[str, str], environ: Mapping[str, str], user_home: str) -> None:
        self._tokens, self._environ = tokens, environ
        usual = os.path.join(user_home, "_netrc" if os.name == "nt" else ".netrc")
        self._netrc = environ.get("NETRC") or usual

    def __call__(self, target: RequestTarget) -> str | None:
        """Return the value of ``Authorization`` for the host of ``target``, and for no other; None without a login.

        Raises:
            FormatError: a header cannot hold the token, or the netrc is malformed.
            StateError: the netrc cannot be read.
        """
        if target.is_plain:
            return None
        variable = token_variable(target, self._tokens)
        if variable is not None:
            token = self._environ.get(variable, "")
            if not (token.isascii() and token.isprintable()) or " " in token:
                raise FormatError(f"expected a token in {variable}, found a space or a character outside ASCII")
            return f"Bearer {token}" if token else None
        # The netrc is parsed only for the hosts in it, so that a malformed one does not prevent other requests.
        if target.host.encode() not in self._netrc_data.lower():
            return None
        user, password = self._logins.get(target.host, ("", ""))
        return "Basic " + b64encode(f"{user}:{password}".encode()).decode() if user or password else None

    @cached_property
    def _netrc_data(self) -> bytes:
        # `read` refuses pipes, devices and links. Dotfiles are often links, so the path is resolved first.
        return files.read(os.path.realpath(self._netrc), _NETRC_CAP) or b""

    @cached_property
    def _logins(self) -> Mapping[str, tuple[str, str]]:
        """Users and passwords by host; ``default`` is ignored, since it would send a password to every host."""
        path = self._netrc
        try:
            rows = netrc.netrc(path).hosts
        except netrc.NetrcParseError as error:
            # The message of the parser is not shown: it may quote a password.
            where = f"{path}:{error.lineno}"
            raise FormatError("expected a netrc, found a line that does not belong in one", where=where) from None
        except ValueError as error:
            raise FormatError(f"expected a netrc in UTF-8: {quote(type(error).__name__)}", where=path) from None
        except OSError as error:
            raise files.disk_error(error, path) from error
        return {host.lower(): (row[0], row[2] or "") for host, row in rows.items() if host != "default"}


def base_of(url: str, bases: Iterable[str]) -> str | None:
    """Return the longest base that ``url`` begins with, letter by letter; no base ends with a slash."""
    found = [base for base in bases if url == base or url.startswith((base + "/", base + "?"))]
    return max(found, key=len, default=None)

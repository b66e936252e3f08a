"""``config.toml`` in the user's config folder: tokens, mirrors and trusted hosts, for all projects of this user."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Self

from pydantic import Field

from skillhub.disk import files
from skillhub.disk.home import Home
from skillhub.errors import FormatError, UnsafeTransfer
from skillhub.formats.document import Document, Items, Members, Read
from skillhub.formats.text import quote
from skillhub.formats.toml import CAP, strict_toml
from skillhub.model.reference import PORTS, parse
from skillhub.net.target import RequestTarget, is_loopback

_HOST = re.compile(r"(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|[0-9a-f:]+)(?::[1-9][0-9]{0,4})?", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Settings:
    """What a user has configured.

    Attributes:
        tokens: The environment variable with the token for a host, or a host and port.
        mirrors: Where to fetch instead of a URL and what is below it; neither ends with a slash.
        trusted: Hosts, and with each the one port that is meant; None is the usual one of whatever is spoken.
    """

    tokens: Mapping[str, str] = field(default_factory=dict)
    mirrors: Mapping[str, str] = field(default_factory=dict)
    trusted: frozenset[tuple[str, int | None]] = frozenset()

    def trusts(self, url: str) -> bool:
        """Say whether what a repository names there may be asked, as if the person had named it in the command.

        Only over what proves who answers, or where nobody can be in between: https, ssh, http on this very machine.
        """
        if not self.trusted:  # most trust none, and this is asked for each artifact
            return False
        found = parse(url)
        if found is None or (found.scheme == "http" and not is_loopback(found.host)):
            return False
        usual = PORTS.get("https" if found.scheme == "oci" else found.scheme)
        if usual is None:
            return False
        port = found.port or usual
        return (found.host, port) in self.trusted or (port == usual and (found.host, None) in self.trusted)

    @classmethod
    def read(cls, home: Home) -> Self:
        """Return the user's settings; without a file, those of somebody who configured nothing.

        Raises:
            FormatError: the file is no TOML, or says something that means nothing here.
            StateError: it cannot be read.
        """
        path = os.path.join(home.config, "config.toml")
        data = files.read(os.path.realpath(path), CAP)
        return cls() if data is None else cls.parse(data, path)

    @classmethod
    def parse(cls, data: bytes, where: str) -> Self:
        """Return the settings that ``data`` spells.

        Raises:
            FormatError: see ``read``.
        """
        found = SettingsFile.parse(strict_toml(data, where), where)
        return cls(found.tokens, found.mirrors, frozenset(found.trusted))


def _name_of_host(host: str) -> str:
    if not _HOST.fullmatch(host):
        hint = 'such as "skills.example" or "skills.example:8443"'
        raise FormatError(f"expected a host in lower case, found {quote(host)}", hint=hint)
    return host


def _variable(value: object) -> str:
    name = value.get("env") if isinstance(value, dict) and len(value) == 1 else None
    if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
        # What stands there instead may be the token itself.
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


_Base = Annotated[str, Read(_base)]


class SettingsFile(Document):
    """The file as a person writes it."""

    OBJECT = "a table"
    UNKNOWN = "there are trusted-hosts, [tokens] and [mirrors]; mind the spelling"

    tokens: Members[Annotated[str, Read(_name_of_host)], Annotated[str, Read(_variable, type="object")]] = Field(
        default_factory=dict
    )
    mirrors: Members[_Base, _Base] = Field(default_factory=dict)
    trusted: Items[Annotated[tuple[str, int | None], Read(_trusted)]] = Field((), alias="trusted-hosts")

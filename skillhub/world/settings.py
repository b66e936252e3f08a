"""``config.toml`` in the user's config folder: what holds for every project of this user."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Self

from skillhub.errors import FormatError, UnsafeTransfer
from skillhub.model.dataclass import dataclass, field
from skillhub.model.text import quote
from skillhub.model.toml import CAP, strict_toml
from skillhub.world import files
from skillhub.world.home import Home
from skillhub.world.hop import Hop

_HOST = re.compile(r"(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|[0-9a-f:]+)(?::[1-9][0-9]{0,4})?", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Settings:
    """What a user has configured.

    Attributes:
        tokens: The environment variable with the token for a host, or a host and port.
        mirrors: Where to fetch instead of a URL and what is below it; neither ends with a slash.
    """

    tokens: Mapping[str, str] = field(default_factory=dict)
    mirrors: Mapping[str, str] = field(default_factory=dict)

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
        document = strict_toml(data, where)
        for section in document:
            if section not in ("tokens", "mirrors"):
                raise _unknown(section, where)
        tokens = _table(document, "tokens", where)
        mirrors = _table(document, "mirrors", where)
        return cls(
            {host: _variable(host, value, where) for host, value in tokens.items()},
            dict(_mirror(base, value, where) for base, value in mirrors.items()),
        )


def _unknown(key: str, where: str) -> FormatError:
    return FormatError(
        f"{quote(key)} is no setting", where=where, hint="there are [tokens] and [mirrors]; mind the spelling"
    )


def _table(document: Mapping[str, object], key: str, where: str) -> dict[str, object]:
    found = document.get(key, {})
    if not isinstance(found, dict):
        raise FormatError(f"expected a table, found {quote(found)}", where=f"{where} {key}")
    return found


def _variable(host: str, value: object, where: str) -> str:
    if not _HOST.fullmatch(host):
        hint = 'such as "skills.example" or "skills.example:8443"'
        raise FormatError(f"expected a host in lower case, found {quote(host)}", where=where, hint=hint)
    name = value.get("env") if isinstance(value, dict) and len(value) == 1 else None
    if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
        # What stands there instead may be the token itself.
        hint = f'put the token in a variable and its name here: "{host}" = {{ env = "NAME" }}'
        raise FormatError("expected the name of a variable", where=f"{where} tokens.{host}", hint=hint)
    return name


def _mirror(base: str, value: object, where: str) -> tuple[str, str]:
    return _base(base, where), _base(value, f"{where} mirrors.{quote(base)[1:-1]}")


def _base(value: object, where: str) -> str:
    try:
        if not isinstance(value, str) or "?" in value or "#" in value or "%" in value:
            raise UnsafeTransfer(f"expected a URL, found {quote(value)}")
        hop = Hop.parse(value)
    except UnsafeTransfer as error:
        hint = '"https://host/path" = "https://mirror.example/path"'
        raise FormatError(error.message, where=where, hint=hint) from error
    return f"{hop.scheme}://{hop.authority}{hop.target}".rstrip("/")

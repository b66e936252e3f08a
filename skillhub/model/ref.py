"""What a person asks for: a skill of a source by name, or something local by path."""

from __future__ import annotations

import re
from dataclasses import dataclass

from skillhub.errors import UsageError
from skillhub.model.text import clean, is_name, quote

# Words that start other kinds of reference and so can never be a source's alias.
RESERVED_ALIASES = frozenset({"http", "https", "git", "oci", "file", "embedded"})
_LOCAL = re.compile(r"\.{1,2}(?:[/\\]|$)|[/\\~]|[A-Za-z]:[/\\]")
# What a range is made of; whether it is one is seen when it is put to use, for that takes a slower import.
_RANGE = re.compile(r"[0-9A-Za-z.*^~<>=!,+ -]{1,256}", re.ASCII)
_GRAMMAR = "github:gh-fix-ci, gh-fix-ci@^1.2, ./folder or ./skill.zip"


@dataclass(frozen=True, slots=True)
class Named:
    """A skill of a configured source (``source`` is None: of whichever has it), within a version range."""

    name: str
    source: str | None = None
    range: str | None = None

    def __str__(self) -> str:
        alias = f"{self.source}:" if self.source else ""
        return f"{alias}{self.name}{'@' + self.range if self.range else ''}"


@dataclass(frozen=True, slots=True)
class Local:
    """A folder or an archive on this machine, the path as the person wrote it."""

    path: str

    def __str__(self) -> str:
        return self.path


Ref = Named | Local


def is_alias(text: str) -> bool:
    """Say whether ``text`` may name a source."""
    return is_name(text) and text not in RESERVED_ALIASES


def is_range(text: str) -> bool:
    """Say whether ``text`` is made of what version ranges are made of."""
    return not text.isspace() and _RANGE.fullmatch(text) is not None


def parse_ref(text: str) -> Ref:
    """Return what ``text`` refers to; it is only parsed, nothing is looked up.

    Raises:
        UsageError: it is no reference, or of a kind that this version cannot install from.
    """
    if clean(text) != text:
        raise UsageError(f"expected a reference without hidden characters, found {quote(text)}")
    if _LOCAL.match(text):
        return Local(text)
    head, _, version = text.partition("@")
    alias, colon, name = head.rpartition(":")
    if "/" in head or alias in RESERVED_ALIASES:
        raise UsageError(
            f"{quote(text)} names a place on the network, which this version cannot install from",
            hint=f"put ./ before a folder or an archive; a reference looks like {_GRAMMAR}",
        )
    if (colon and not is_alias(alias)) or not is_name(name) or ("@" in text and not is_range(version)):
        raise UsageError(
            f"expected a reference such as {_GRAMMAR}, found {quote(text)}",
            hint="a name is of a-z, 0-9 and single hyphens, 64 at most; put ./ before a folder or an archive",
        )
    return Named(name, alias or None, version.strip() or None)

"""Versions and ranges: Semantic Versioning 2.0.0, with the range signs that cargo and pip share."""

from __future__ import annotations

import re

from semantic_version import SimpleSpec, Version

from skillhub.errors import UsageError
from skillhub.model.text import quote

# SemVer 2.0.0 with ASCII digits and nothing after it, where the library's own expression is more lenient.
_VERSION = re.compile(
    r"(?:(?:0|[1-9][0-9]{0,15})\.){2}(?:0|[1-9][0-9]{0,15})(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?"
)
_LENGTH_MAX = 256
_BLANKS = re.compile(r" *, *|(?<=[<>=~^!]) +")
_PRE_RELEASE = re.compile(r"([0-9]+\.[0-9]+\.[0-9]+)-[0-9A-Za-z]")


class Range:
    """What versions a request allows: ``1.2.0``, ``^1.2``, ``~1.2``, ``>=1.1,<2``, ``*``.

    A pre-release is allowed only where the range itself names one of the same version, as cargo and npm have it.

    Raises:
        UsageError: the text is no range.
    """

    def __init__(self, text: str) -> None:
        self.text = text.strip()
        try:
            if len(self.text) > _LENGTH_MAX:
                raise ValueError("too long")
            self._spec = SimpleSpec(_BLANKS.sub(lambda found: found[0].strip(" "), self.text))
        except ValueError as error:
            raise UsageError(
                f"expected a version or a range such as 1.2.0, ^1.2 or >=1.1,<2, found {quote(text)}"
            ) from error
        self._pre_released = frozenset(_PRE_RELEASE.findall(self.text))

    def allows(self, version: str) -> bool:
        """Say whether this is a version, and within the range."""
        if not is_version(version):
            return False
        parsed = Version(version)
        if parsed.prerelease and version.partition("-")[0] not in self._pre_released:
            return False
        return bool(self._spec.match(parsed))

    def __str__(self) -> str:
        return self.text


def is_version(text: str) -> bool:
    """Say whether ``text`` is a version by Semantic Versioning 2.0.0, of at most 256 characters."""
    if len(text) > _LENGTH_MAX or not _VERSION.fullmatch(text):
        return False
    try:
        Version(text)
    except ValueError:
        return False
    return True


def precedence(version: str) -> Version:
    """Return a key by which versions, for which ``is_version`` holds, sort (SemVer clause 11)."""
    return Version(version)

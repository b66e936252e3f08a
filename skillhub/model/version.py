"""Versions and ranges: Semantic Versioning 2.0.0, with the range signs that cargo and pip share."""

from __future__ import annotations

from semantic_version import SimpleSpec, Version

from skillhub.errors import UsageError
from skillhub.model.text import quote


class Range:
    """What versions a request allows: ``1.2.0``, ``^1.2``, ``~1.2``, ``>=1.1,<2``, ``*``.

    A pre-release is allowed only where the range itself names one, as cargo and npm have it.

    Raises:
        UsageError: the text is no range.
    """

    def __init__(self, text: str) -> None:
        self.text = text.strip()
        try:
            self._spec = SimpleSpec(self.text)
        except ValueError as error:
            raise UsageError(
                f"expected a version or a range such as 1.2.0, ^1.2 or >=1.1,<2, found {quote(text)}"
            ) from error

    def allows(self, version: str) -> bool:
        """Say whether this version, which must be SemVer, is within the range."""
        parsed = Version(version)
        if parsed.prerelease and "-" not in self.text:
            return False
        return bool(self._spec.match(parsed))

    def __str__(self) -> str:
        return self.text


def is_version(text: str) -> bool:
    """Say whether ``text`` is a version by Semantic Versioning 2.0.0."""
    try:
        Version(text)
    except ValueError:
        return False
    return True


def precedence(version: str) -> Version:
    """Return a key by which versions sort (SemVer clause 11)."""
    return Version(version)

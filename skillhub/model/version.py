"""Versions by Semantic Versioning 2.0.0, and ranges with the signs of cargo and pip."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from skillhub.errors import UsageError
from skillhub.formats.text import quote

_LENGTH_MAX = 256
_NUMBER = r"(?:0|[1-9][0-9]{0,15})"
# Clause 9: no identifier is empty, and no numeric one begins with a zero.
_IDENTIFIER = r"(?:0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_LABELS = rf"(?:-({_IDENTIFIER}(?:\.{_IDENTIFIER})*))?(?:\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?"
_VERSION = re.compile(rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER}){_LABELS}")
VERSION_PATTERN = f"^(?:{_VERSION.pattern})$"
_CLAUSE = re.compile(
    rf"(<=?|>=?|==?|!=|~=?|\^)?(?:({_NUMBER})(?:\.({_NUMBER})(?:\.({_NUMBER}){_LABELS})?)?(?:\.\*)*|\*)"
)
_BLANKS = re.compile(r" *, *|(?<=[<>=~^!]) +")

Triple = tuple[int, ...]
Precedence = tuple[Triple, bool, tuple[tuple[bool, int, str], ...]]


class Range:
    """A range of versions: ``1.2.0``, ``^1.2``, ``~1.2``, ``>=1.1,<2``, ``*``.

    A pre-release is allowed only if the range itself names a pre-release of the same version, as in cargo and npm.

    Raises:
        UsageError: the text is no range.
    """

    def __init__(self, text: str) -> None:
        self.text = text.strip()
        try:
            if len(self.text) > _LENGTH_MAX:
                raise ValueError("too long")
            spelled = _BLANKS.sub(lambda match: match[0].strip(" "), self.text)
            self._clauses = [_Clause(clause) for clause in spelled.split(",")]
        except ValueError as error:
            message = f"expected a version or a range such as 1.2.0, ^1.2 or >=1.1,<2, found {quote(text)}"
            raise UsageError(message, hint="without a range the newest version counts") from error
        self._pre_released = {clause.numbers for clause in self._clauses if clause.pre}

    def allows(self, version: str) -> bool:
        """Return whether ``version`` is a version within the range."""
        if not is_version(version):
            return False
        key = precedence(version)
        if not key[1] and key[0] not in self._pre_released:
            return False
        build = version.partition("+")[2]
        return all(clause.allows(key, build) for clause in self._clauses)

    def __str__(self) -> str:
        return self.text


range_of = lru_cache(maxsize=256)(Range)  # the many lines of a project have few different ranges


class _Clause:
    """One sign and one version, whose last numbers may be missing or stars."""

    def __init__(self, text: str) -> None:
        match = _CLAUSE.fullmatch(text)
        if match is None:
            raise ValueError(f"no clause: {text}")
        sign, *numbers, pre, build = match.groups(default="")
        self.written = tuple(int(number) for number in numbers if number)
        self.numbers = (*self.written, 0, 0, 0)[:3]
        self.pre, self.build = pre, build
        self.key = _key(self.numbers, pre)
        self.sign = {"": "=", "==": "="}.get(sign, sign)
        if (build and self.sign not in ("=", "!=")) or (not self.written and self.sign not in ("=", ">=")):
            raise ValueError(f"{sign} is not allowed with a build or a star")

    def allows(self, key: Precedence, build: str) -> bool:
        return _ALLOWS[self.sign](self, key, build)

    def next(self, place: int) -> Triple:
        """Return the first version with a larger number at ``place``."""
        return (*self.numbers[:place], self.numbers[place] + 1, 0, 0)[:3]

    def is_below(self, key: Precedence) -> bool:
        """Return whether ``key`` is lower: a pre-release of 2.0.0 is not below ``<2``, but below ``<2.0.0``."""
        return key < self.key if len(self.written) == 3 else key[0] < self.numbers

    def is_same(self, key: Precedence, build: str) -> bool:
        if len(self.written) < 3:
            return not self.written or (self.key <= key and key[0] < self.next(len(self.written) - 1))
        return key == self.key and self.build in ("", build)

    def is_other(self, key: Precedence, build: str) -> bool:
        if self.pre or self.build:
            return not self.is_same(key, build)
        return key[0][: len(self.written)] != self.written

    def is_within(self, key: Precedence, place: int) -> bool:
        return self.key <= key and key[0] < self.next(place)

    def caret(self) -> int:
        """Return the place of the first number that is not zero, else of the last number."""
        return next((index for index, number in enumerate(self.written) if number), len(self.written) - 1)


# For each sign, whether a clause allows a version.
_ALLOWS: dict[str, Callable[[_Clause, Precedence, str], bool]] = {
    "=": _Clause.is_same,
    "!=": _Clause.is_other,
    "<": lambda clause, key, _: clause.is_below(key),
    "<=": lambda clause, key, _: key <= clause.key or clause.is_same(key, ""),
    ">": lambda clause, key, _: key > clause.key and not clause.is_same(key, ""),
    ">=": lambda clause, key, _: key >= clause.key,
    "^": lambda clause, key, _: clause.is_within(key, clause.caret()),
    "~": lambda clause, key, _: clause.is_within(key, min(len(clause.written), 2) - 1),
    "~=": lambda clause, key, _: clause.is_within(key, len(clause.written) // 3),
}


def is_version(text: str) -> bool:
    """Return whether ``text`` is a version by Semantic Versioning 2.0.0, of at most 256 characters."""
    return len(text) <= _LENGTH_MAX and _VERSION.fullmatch(text) is not None


def precedence(version: str) -> Precedence:
    """Return the sort key of a version (SemVer clause 11); ``is_version`` must hold for it."""
    core, _, pre = version.partition("+")[0].partition("-")
    return _key(tuple(map(int, core.split("."))), pre)


def _key(numbers: Triple, pre: str) -> Precedence:
    # Numeric identifiers sort before others; a version sorts after its pre-releases.
    identifiers = ((False, int(part), "") if part.isdecimal() else (True, 0, part) for part in pre.split(".") if part)
    return numbers, not pre, tuple(identifiers)

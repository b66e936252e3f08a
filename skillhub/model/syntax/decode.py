"""Parsed JSON into checked values, by readers made of readers.

A reader returns what it makes of one value or raises a FormatError, whose ``where`` grows on its way out into the
path to the fault: ``.skills[1].url``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from skillhub.errors import FormatError
from skillhub.model.text import clean, quote

TYPE_CHECKING = False  # as type checkers know it: without `typing` a command starts 2 ms sooner
if TYPE_CHECKING:
    from typing import Any, NoReturn, TypeAlias, TypeVar

    _T = TypeVar("_T")

Read: TypeAlias = "Callable[[Any], Any]"


def wrong(expected: str, found: object) -> NoReturn:
    """Raise the FormatError that says what was expected and what was found."""
    raise FormatError(f"expected {expected}, found {quote(found)}")


def text(value: object) -> str:
    """Read any string."""
    return value if isinstance(value, str) else wrong("a text", value)


def text_that(holds: Callable[[str], object], expected: str) -> Callable[[object], str]:
    """Return a reader of strings for which ``holds`` holds; ``expected`` says in words what those are."""

    def read(value: object) -> str:
        return value if isinstance(value, str) and holds(value) else wrong(expected, value)

    return read


def visible(value: object) -> str:
    """Read text that is not empty and that a person sees whole."""
    # What is plain need not be looked at letter by letter.
    if (
        isinstance(value, str)
        and value
        and ((value.isascii() and value.isprintable()) or clean(value) == value)
    ):
        return value
    wrong("text without hidden characters", value)


def name_that(holds: Callable[[str], bool], what: str = "name") -> Callable[[object], str]:
    """Return a reader of the names of a ``what``, for which ``holds`` holds."""

    def read(value: object) -> str:
        name = value if isinstance(value, str) else visible(value)
        if not holds(name):
            raise FormatError(f"{quote(name)} is no {what}")
        return name

    return read


def one_of(*known: str) -> Callable[[object], str]:
    """Return a reader of these words."""
    return text_that(known.__contains__, " or ".join(known))


def version_of(what: str, known: int) -> Callable[[object], int]:
    """Return a reader of the version of a format, ``what``, which is ``known`` or nothing that can be read."""

    def read(value: object) -> int:
        # Not equality alone: JSON's true and 1.0 equal 1 in Python.
        if type(value) is int and value == known:
            return known
        is_newer = type(value) is int and value > known
        kind = "the text " if isinstance(value, str) else ""
        raise FormatError(
            f"expected {what} {known}, found {kind}{quote(value)}",
            hint="a newer skillhub wrote it; upgrade skillhub" if is_newer else None,
        )

    return read


def integer(expected: str, most: int | None = None) -> Callable[[object], int]:
    """Return a reader of whole numbers from 0 to ``most``; ``expected`` says in words what those are."""

    def read(value: object) -> int:
        # Not isinstance: true is an int to Python.
        if type(value) is int and value >= 0 and (most is None or value <= most):
            return value
        wrong(f"{expected}, a number without quotes" if isinstance(value, str) else expected, value)

    return read


def nullable(read: Callable[[Any], _T]) -> Callable[[object], _T | None]:
    """Return a reader of null and of what ``read`` reads."""
    return lambda value: None if value is None else read(value)


def array(read: Callable[[Any], _T]) -> Callable[[object], tuple[_T, ...]]:
    """Return a reader of lists of what ``read`` reads."""

    def read_all(value: object) -> tuple[_T, ...]:
        if not isinstance(value, list):
            wrong("a list", value)
        if not value:  # most lists of a lock are
            return ()
        found: list[_T] = []
        try:
            for element in value:
                found.append(read(element))
        except FormatError as error:
            raise _below(f"[{len(found)}]", error) from error.__cause__
        return tuple(found)

    return read_all


def record(
    needed: Mapping[str, Read],
    optional: Mapping[str, Read] | None = None,
    unknown: str | None = None,
    what: str = "an object",
) -> Callable[[object], dict[str, Any]]:
    """Return a reader of objects with these members.

    Args:
        needed: The reader of each that has to be there.
        optional: The reader of each that may be there.
        unknown: What to do about any other key, which is then refused; None passes over them.
        what: What its format calls an object.
    """
    readers = [*needed.items(), *(optional or {}).items()]

    def read_all(value: object) -> dict[str, Any]:
        block = value if isinstance(value, dict) else wrong(what, value)
        found = {}
        key = ""
        try:
            for key, read in readers:
                if key in block:
                    found[key] = read(block[key])
                elif key in needed:
                    raise FormatError(f"the key {key!r} is missing")
        except FormatError as error:
            raise _below(f".{key}", error) from error.__cause__
        if unknown is not None and len(found) < len(block):
            key = min(block.keys() - found.keys())
            raise FormatError(f"unknown key {quote(key)}", where=f".{clean(key[:64])}", hint=unknown)
        return found

    return read_all


def mapping(
    read_key: Callable[[Any], str], read: Callable[[Any], _T], what: str = "an object"
) -> Callable[[object], dict[str, _T]]:
    """Return a reader of objects whose keys are data, such as names."""

    def read_all(value: object) -> dict[str, _T]:
        block = value if isinstance(value, dict) else wrong(what, value)
        found = {}
        key = ""
        try:
            for key, member in block.items():
                found[read_key(key)] = read(member)
        except FormatError as error:
            raise _below(f".{clean(key[:64])}", error) from error.__cause__
        return found

    return read_all


@contextmanager
def located(where: str) -> Iterator[None]:
    """Put the name of the document in front of the path to a fault in it."""
    try:
        yield
    except FormatError as error:
        error.where = where if error.where in (None, where) else f"{where}: {error.where.removeprefix('.')}"
        raise


def _below(part: str, error: FormatError) -> FormatError:
    error.where = part + (error.where or "")
    return error

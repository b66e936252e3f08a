"""Runs a table of rows as one test, each row a call of its own: an item of pytest costs more than most rows do."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import wraps
from itertools import product
from typing import Any

import pytest

_SHOWN = 300  # characters of a value in a failure
_Table = tuple[tuple[str, ...], list[tuple[object, ...]]]


def in_one(test: Callable[..., object]) -> Callable[[], None] | None:
    """Return what runs every row of a test; None of one that is no table, or has fixtures or marks of its own."""
    marks = getattr(test, "pytestmark", ())
    tables = [_table(mark) for mark in marks if mark.name == "parametrize"]
    if not tables or None in tables or hasattr(test, "is_hypothesis_test"):
        return None
    if {name for names, _ in tables for name in names} != {*inspect.signature(test).parameters}:
        return None

    @wraps(test)
    def all_rows() -> None:
        errors: list[Exception] = []
        skips: list[pytest.skip.Exception] = []
        number = 0
        for number, row in enumerate(_rows(tables), 1):
            try:
                test(**row)
            except pytest.skip.Exception as skip:
                skips.append(skip)
            except (Exception, pytest.fail.Exception) as failure:
                # What pytest itself raises is none that a group may hold.
                error = failure if isinstance(failure, Exception) else AssertionError(str(failure))
                shown = ", ".join(f"{name}={value!r}"[:_SHOWN] for name, value in row.items())
                error.add_note(f"in row {number}: {shown}")
                errors.append(error)
        if len(errors) > 1:
            raise ExceptionGroup(f"{len(errors)} of {number} rows failed", errors)
        if errors:
            raise errors[0]
        if skips and len(skips) == number:
            raise skips[0]

    all_rows.__signature__ = inspect.Signature()
    all_rows.pytestmark = [mark for mark in marks if mark.name != "parametrize"]
    return all_rows


def _table(mark: pytest.Mark) -> _Table | None:
    if (
        len(mark.args) != 2
        or {*mark.kwargs} - {"ids"}
        or not isinstance(mark.args[1], Collection)
        or not mark.args[1]
    ):
        return None
    names, values = mark.args
    names = tuple(name.strip() for name in names.split(",")) if isinstance(names, str) else tuple(names)
    rows = []
    for value in values:
        if isinstance(value, type(pytest.param())):
            if value.marks:
                return None
            rows.append(tuple(value.values))
        else:
            rows.append((value,) if len(names) == 1 else tuple(value))
    return names, rows


def _rows(tables: list[_Table]) -> Iterator[Mapping[str, Any]]:
    for row in product(*(values for _, values in tables)):
        named = zip(tables, row, strict=True)
        yield {name: value for (names, _), values in named for name, value in zip(names, values, strict=True)}

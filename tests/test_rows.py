"""A table that runs as one test: each row is called, and a failure names its row."""

from __future__ import annotations

import pytest

from tests.support.rows import in_one

CALLED = []


@pytest.mark.parametrize("one", [1, 2, 3])
@pytest.mark.parametrize(("two", "three"), [(4, 5), (6, 7)])
def table(one, two, three):
    CALLED.append((one, two, three))


@pytest.mark.parametrize("number", range(5))
def odd(number):
    assert number % 2, "even"


@pytest.mark.parametrize("number", range(4))
def raising(number):
    with pytest.raises(ValueError, match="x"):
        number != 2 or int("x")


@pytest.mark.parametrize("number", range(4))
def skipping(number):
    if number < 3:
        pytest.skip("small")


@pytest.mark.parametrize("number", [1, pytest.param(2, marks=pytest.mark.skip)])
def marked(number):
    raise AssertionError


@pytest.mark.parametrize("number", [1])
def with_a_fixture(number, tmp_path):
    raise AssertionError


def test_every_row_is_called_in_the_order_of_pytest():
    CALLED.clear()
    in_one(table)()
    assert [(one, two, three) for two, three in ((4, 5), (6, 7)) for one in (1, 2, 3)] == CALLED


def test_a_failure_names_each_failed_row():
    with pytest.raises(ExceptionGroup, match="3 of 5 rows failed") as raised:
        in_one(odd)()
    notes = [error.__notes__ for error in raised.value.exceptions]
    assert notes == [["in row 1: number=0"], ["in row 3: number=2"], ["in row 5: number=4"]]
    with pytest.raises(ExceptionGroup, match="3 of 4 rows failed"):
        in_one(raising)()


def test_a_skipped_row_skips_no_other():
    in_one(skipping)()


@pytest.mark.parametrize("test", [marked, with_a_fixture, test_a_skipped_row_skips_no_other])
def test_rows_with_marks_or_fixtures_are_left_to_pytest(test, tmp_path):
    assert in_one(test) is None

"""Held against the standard library's, which is the promise."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillhub.model import dataclass as ours

SHAPES = [
    dict(frozen=True, slots=True),
    dict(frozen=True, slots=True, kw_only=True),
    dict(frozen=True),
    dict(slots=True),
    dict(),
]


def _classes(library, **shape):
    @library.dataclass(**shape)
    class Empty:
        pass

    @library.dataclass(**shape)
    class Point:
        """A place."""

        x: int
        y: object = 0
        tags: list = library.field(default_factory=list)
        secret: str = library.field(default="s", repr=False)
        note: str = library.field(default="", compare=False)

        @property
        def double(self):
            return self.x * 2

        def __str__(self):
            return f"at {self.x}"

        def __post_init__(self):
            if self.x == 13:
                raise ValueError("13")

    return Empty, Point


def _said(call):
    try:
        return call()
    except (TypeError, AttributeError, ValueError) as error:
        return type(error).__mro__[-4:] if isinstance(error, AttributeError) else (type(error), str(error))


VALUES = st.one_of(st.integers(-2, 13), st.text(max_size=3), st.none())
NAMES = st.sampled_from(["x", "y", "tags", "secret", "note", "other"])


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@given(
    args=st.lists(VALUES, max_size=6),
    named=st.dictionaries(NAMES, VALUES),
    changed=st.dictionaries(NAMES, VALUES),
)
def test_the_same_as_the_standard_librarys(shape, args, named, changed):
    their_class, own_class = (_classes(library, **shape)[1] for library in (dataclasses, ours))
    theirs, own = _said(lambda: their_class(*args, **named)), _said(lambda: own_class(*args, **named))
    assert (repr(theirs), str(theirs)) == (repr(own), str(own))
    if isinstance(theirs, tuple):  # both refused it
        return
    assert dataclasses.asdict(theirs) == ours.asdict(own)
    assert repr(_said(lambda: dataclasses.replace(theirs, **changed))) == repr(
        _said(lambda: ours.replace(own, **changed))
    )
    assert own == own_class(*args, **named)
    assert _said(lambda: their_class(**changed) == theirs) == _said(lambda: own_class(**changed) == own)
    assert isinstance(_said(lambda: hash(theirs)), int) == isinstance(_said(lambda: hash(own)), int)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_class_is_as_the_standard_library_makes_it(shape):
    for standard, own in zip(_classes(dataclasses, **shape), _classes(ours, **shape), strict=True):
        assert (own.__name__ == standard.__name__ and own.__doc__ is None) or own.__doc__ == standard.__doc__
        assert (own.__qualname__, own.__module__) == (standard.__qualname__, standard.__module__)
        assert own.__match_args__ == standard.__match_args__
        assert getattr(own, "__slots__", None) == getattr(standard, "__slots__", None)
        assert (own.__hash__ is None) == (standard.__hash__ is None)
        assert [each.name for each in ours.fields(own)] == [
            each.name for each in dataclasses.fields(standard)
        ]


@pytest.mark.parametrize("library", [dataclasses, ours], ids=["standard", "own"])
@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape.get("frozen")], ids=str)
def test_frozen_is_frozen(library, shape):
    value = _classes(library, **shape)[1](x=1)
    for change in (
        lambda: setattr(value, "x", 2),
        lambda: delattr(value, "x"),
        lambda: setattr(value, "z", 2),
    ):
        with pytest.raises((AttributeError, TypeError)):
            change()
    assert value.x == 1


def test_another_class_with_the_same_fields_is_not_equal():
    (_, one), (_, two) = (_classes(ours, frozen=True) for _ in range(2))
    assert one(1) != two(1)


def test_a_match_reads_the_fields():
    _, point = _classes(ours, frozen=True, slots=True)
    match point(1, 2):
        case point(x, y):
            assert (x, y) == (1, 2)
        case _:
            pytest.fail("no match")


def test_first_used_by_many_threads_at_once():
    _, point = _classes(ours, frozen=True, slots=True)
    made, gate = [], threading.Barrier(8)

    def make(number):
        gate.wait()
        made.append(point(number).double)

    threads = [threading.Thread(target=make, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(made) == [0, 2, 4, 6, 8, 10, 12, 14]


def test_nothing_heavy_is_loaded_for_it():
    code = (
        "import sys, skillhub.model.dataclass; print({'inspect', 'typing', 'dataclasses'} & set(sys.modules))"
    )
    run = subprocess.run(
        [sys.executable, "-S", "-c", code], capture_output=True, env={"PYTHONPATH": "."}, check=True
    )
    assert run.stdout == b"set()\n"

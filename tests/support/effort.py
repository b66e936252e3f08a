"""Cost of a piece of work for this process, independent of the speed and load of the machine."""

from __future__ import annotations

import dis
import inspect
import math
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import CodeType, FrameType

import skillhub
from tests.support.hearing import heard_by

_OURS = str(Path(skillhub.__file__).parent)


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Fail if the body takes more processor time; its usual time is a thirtieth of that or less."""
    began = time.process_time()
    yield
    assert time.process_time() - began < seconds


def is_linear(work: Callable[[int], object], size: int) -> bool:
    """Return whether three times ``size`` takes less than five times as long; quadratic work takes nine times.

    It is tried again, for a busy machine makes any one time longer, and none shorter: the larger, which it interrupts
    more often, by more. The larger comes first: what is loaded or compiled at the first use is in its time.
    """
    once = math.inf
    for _ in range(20):
        larger = seconds(work, 3 * size)
        once = min(once, seconds(work, size))
        if larger < 5 * max(once, 0.001):
            return True
    return False


def seconds(work: Callable[[int], object], size: int) -> float:
    """Return the processor time of ``work``."""
    began = time.process_time()
    work(size)
    return time.process_time() - began


def files_read(work: Callable[[], object], folder: str) -> dict[str, int]:
    """Return the size of each file below ``folder`` that ``work`` reads, by its path below."""
    sizes: dict[str, int] = {}

    def hear(event: str, arguments: tuple) -> None:
        if event != "open" or not isinstance(arguments[0], str):
            return
        path, _, flags = arguments
        if not flags & (os.O_WRONLY | os.O_RDWR) and os.path.isfile(path):
            sizes[path] = os.path.getsize(path)

    with heard_by(hear):
        work()
    start = os.path.join(folder, "")
    return {path.removeprefix(start): size for path, size in sizes.items() if path.startswith(start)}


def steps(work: Callable[[], object]) -> int:
    """Return how many calls of ours, and lines of ours that may come more than once in a call, ``work`` takes.

    It is the same on every machine. Of a function without a loop a call has no more lines than it is long.
    """
    count = 0

    def called(frame: FrameType, _event: str, _given: object) -> object:
        nonlocal count
        if not frame.f_code.co_filename.startswith(_OURS):
            return None
        count += 1
        return lined if _loops(frame.f_code) else None

    def lined(_frame: FrameType, _event: str, _given: object) -> object:
        nonlocal count
        count += 1
        return lined

    before = sys.gettrace()
    sys.settrace(called)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


@cache
def _loops(code: CodeType) -> bool:
    return any("BACKWARD" in each.opname for each in dis.get_instructions(code))


def calls(work: Callable[[], object], *functions: Callable[..., object]) -> list[int]:
    """Return how often ``work`` calls each of these functions."""
    counts = Counter[object]()
    codes = [inspect.unwrap(each).__code__ for each in functions]

    def profiled(frame: FrameType, event: str, _given: object) -> None:
        if event == "call" and frame.f_code in codes:
            counts[frame.f_code] += 1

    before = sys.getprofile()
    sys.setprofile(profiled)
    try:
        work()
    finally:
        sys.setprofile(before)
    return [counts[each] for each in codes]

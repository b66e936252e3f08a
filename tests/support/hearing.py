"""Audit events of the interpreter in the process of the tests.

An interpreter forgets no hook, and each costs a twentieth of everything from then on: there is one, and only from
where it is needed for the first time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Listener = Callable[[str, tuple[object, ...]], None]
_listeners: list[Listener] = []


def _hear(event: str, args: tuple[object, ...]) -> None:
    for listener in _listeners[-1:]:
        listener(event, args)


_hooks: list[Listener] = []


@contextmanager
def heard_by(listener: Listener) -> Iterator[None]:
    """Call ``listener`` with each event meanwhile."""
    if not _hooks:
        _hooks.append(_hear)
        sys.addaudithook(_hear)
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)

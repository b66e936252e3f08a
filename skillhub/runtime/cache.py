"""The cache of discovery: what was found in each root, one file for each, believed only while all stamps agree.

Measured with 10,000 skills: JSON takes 0.7 µs for the facts of one, SQLite 1.2 µs and twice the time to import.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final, cast

from skillhub.disk import read
from skillhub.errors import FormatError, StateError
from skillhub.model.head import Rules
from skillhub.model.profile import Bounds
from skillhub.runtime.catalog import Problem
from skillhub.runtime.files import Stamp, changed, write_own
from skillhub.runtime.walk import Find, Look

_VERSION: Final = 2
_CAP: Final = 1 << 28
_NEVER: Final[Stamp] = ""
# An edit within the same tick of the file system's clock as the last one leaves the stamp as it was. Ticks are
# 10 ms at most where stamps have fractions of a second, and 2 s where they have none.
_TICK: Final = 50_000_000
_COARSE_TICK: Final = 2_000_000_000


class Cache:
    """Keeps what walks found, in files of one folder, and in memory while this object lives."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._last: dict[str, Look] = {}

    def load(self, root: str, rules: Rules, bounds: Bounds) -> Look:
        """Return what the last walk through a root found; the caller checks its stamps. Empty if there was none."""
        path = self._path(root, rules, bounds)
        if path in self._last:
            return self._last[path]
        try:
            data = read(path, _CAP)
            look = Look() if data is None else _parse(json.loads(data))
        except (FormatError, StateError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return Look()  # cut off or tampered with: as good as deleted
        self._last[path] = look
        return look

    def save(self, root: str, rules: Rules, bounds: Bounds, look: Look) -> None:
        """Keep what a walk found; what changed a moment ago is kept without its stamp. A full disk is no error."""
        now = time.time_ns()
        look.folders = _settled(look.folders, now)
        for find in look.finds:
            find.stamps = _settled(find.stamps, now)
        path = self._path(root, rules, bounds)
        self._last[path] = look
        block = {
            "version": _VERSION,
            "folders": look.folders,
            "finds": [_dump(find) for find in look.finds],
            "problems": [_row(each) for each in look.problems],
        }
        data = json.dumps(block, separators=(",", ":")).encode("ascii")
        try:
            write_own(path, data)
        except StateError:
            return

    def _path(self, root: str, rules: Rules, bounds: Bounds) -> str:
        # Links on the way to the root may change where it is, so that the place it has now is part of the key.
        key = f"{_VERSION}\0{root}\0{os.path.realpath(root)}\0{rules}\0{bounds}"
        return os.path.join(
            self._folder, f"{sha256(key.encode('utf-8', 'surrogateescape')).hexdigest()}.json"
        )


def _settled(stamps: Mapping[str, Stamp], now: int) -> dict[str, Stamp]:
    return {path: stamp if _is_settled(stamp, now) else _NEVER for path, stamp in stamps.items()}


def _is_settled(stamp: Stamp, now: int) -> bool:
    if stamp == _NEVER:
        return False
    last = changed(stamp)
    return last < now - (_TICK if last % 1_000_000_000 else _COARSE_TICK)


def _dump(find: Find) -> list[Any]:
    found = find.found if find.found != find.folder else ""
    return [find.folder, found, find.stamps, find.facts, [_row(each) for each in find.problems]]


def _row(problem: Problem) -> list[Any]:
    return [problem.path, problem.message, problem.line, problem.level]


def _parse(block: dict[str, Any]) -> Look:
    if block["version"] != _VERSION:
        return Look()
    finds = [Find(*row) for row in block["finds"]]
    for find in finds:
        find.found = find.found or find.folder
        if find.problems:
            find.problems = [Problem(*each) for each in cast("list[list[Any]]", find.problems)]
    return Look({**block["folders"]}, finds, [Problem(*each) for each in block["problems"]])

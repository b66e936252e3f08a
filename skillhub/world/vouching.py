"""By whose word a signer has a name: a registry of the user's, or one that only a project names.

This is for showing: it loads little, since ``list`` asks it, and what it cannot read it takes for none of the user's.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache

from skillhub.errors import FormatError, StateError
from skillhub.model.digest import Digest
from skillhub.model.lock import Lock, Locked
from skillhub.model.syntax.json import strict_json
from skillhub.world import files
from skillhub.world.home import Home

FILE = "sources.json"  # in ``<state>``; ``world/sources.py`` writes it
EMBEDDED = "embedded:"
_CAP = 16 << 20
_PACKAGED = os.path.join(os.path.dirname(__file__), os.pardir, "embedded", "metadata", "1.root.json")


def voucher(entry: Locked, lock: Lock, home: Home) -> str | None:
    """Return the registry by whose word alone an entry's signer has a name; None if it is one of the user's.

    Args:
        entry: Of the lock, or about to be.
        lock: What says which sources are registries.
        home: The user's.
    """
    if not (entry.signed_by and entry.named):
        return None
    locked, mine = lock.sources.get(entry.source), _own(home)
    if locked is None:
        return None if entry.source in mine else entry.source
    return None if locked.root is None or mine.get(entry.source) == locked.root else entry.source


def _own(home: Home) -> Mapping[str, str | None]:
    """Return the root of each of the user's sources by alias."""
    path = os.path.join(home.state, FILE)
    try:
        status = os.lstat(path)
    except OSError:
        return {"github": _packaged()}
    return _read(path, (status.st_ino, status.st_size, status.st_mtime_ns))


@lru_cache(maxsize=4)
def _read(path: str, stamp: tuple[int, int, int]) -> Mapping[str, str | None]:
    try:
        document = strict_json(files.read(path, _CAP) or b"", path, _CAP)
    except (FormatError, StateError):
        return {}
    rows = document.get("sources") if isinstance(document, dict) else None
    found = {
        alias: row for alias, row in (rows if isinstance(rows, dict) else {}).items() if isinstance(row, dict)
    }
    return {
        alias: _packaged() if row.get("url") == EMBEDDED else row.get("root") for alias, row in found.items()
    }


@lru_cache(maxsize=1)
def _packaged() -> str | None:
    data = files.read(_PACKAGED, _CAP)
    return Digest.of(data) if data is not None else None

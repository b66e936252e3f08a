"""All projects of a user, known by what this machine keeps of each, and the trees that they need."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from skillhub.errors import FormatError
from skillhub.model.digest import Digest
from skillhub.model.lock import Lock
from skillhub.model.record import Records
from skillhub.model.syntax.json import strict_json
from skillhub.world import files
from skillhub.world.home import Home
from skillhub.world.project import Project, state_key

_CAP = 64 * 1024 * 1024
_ENDS = (".json", ".json.lock")


@dataclass(frozen=True, slots=True)
class Known:
    """One project, or the user's own scope.

    Attributes:
        base: Its folder.
        gone: Whether there is no such folder any more.
        trees: What its lock and its links need.
    """

    base: str
    gone: bool
    trees: frozenset[Digest]


def known(home: Home, patience: float = Project.patience) -> Iterator[Known]:
    """Yield every project that something was ever installed into; whoever is changing one is waited for.

    Raises:
        FormatError: a lock, or what is kept of a project, is malformed.
        StateError: one cannot be read, or another process is at work for longer than ``patience`` seconds.
    """
    folder = os.path.join(home.state, "projects")
    with files.disk_errors(folder):
        names = os.listdir(folder) if os.path.isdir(folder) else []
    for key in sorted({name.removesuffix(end) for name in names for end in _ENDS if name.endswith(end)}):
        path = os.path.join(folder, f"{key}.json")
        with files.lock(f"{path}.lock", timeout=patience):
            found = _known(key, path, home)
        if found is not None:
            yield found


def _known(key: str, path: str, home: Home) -> Known | None:
    data = files.read(path, _CAP)
    if data is None:
        return None  # nothing was linked yet: whoever began to install has nothing that was agreed to
    document = strict_json(data, path, _CAP)
    base = document.get("project") if isinstance(document, dict) else None
    if not isinstance(base, str) or not os.path.isabs(base):
        raise FormatError("expected the folder of a project", where=f"{path}: project")
    project = Project(base, "user" if key == state_key(base, "user") else "project", home)
    gone = project.scope == "project" and _is_gone(base)
    lock = Lock() if gone else project.lock()
    trees = {entry.tree for entry in lock.skills.values()}
    trees |= {entry.original.tree for entry in lock.skills.values()}
    trees |= {record.tree for record in Records.parse(data, path).skills.values()}
    return Known(base, gone, frozenset(trees))


def _is_gone(base: str) -> bool:
    """Say whether there is no such folder; one that cannot be looked at, or whose name is not all known, is there."""
    if "?" in base:
        return False
    try:
        os.lstat(base)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False

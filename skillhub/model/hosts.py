"""The agents that read skills, as data: where each keeps them, and by what one can tell that it is in use.

What differs between agents is a row of ``agents.json``, never a subclass. ``~/.config`` in it means
``$XDG_CONFIG_HOME``; a variable that holds no absolute path is ignored, as that specification says.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

from skillhub.errors import UsageError
from skillhub.model.skill import Scope
from skillhub.model.text import did_you_mean, quote, spelled_like

# Many agents read these, so that they are there says nothing of which agent is in use.
_SHARED = frozenset({".agents", "~/.agents", "~/.config/agents"})


@dataclass(frozen=True, slots=True)
class Host:
    """One agent; folders are written with ``/``, those of a user begin with ``~/``."""

    id: str
    name: str
    project_dir: str | None = None
    user_dir: str | None = None
    user_dir_env: str | None = None
    other_dirs: tuple[str, ...] = ()
    config: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()

    @property
    def signs(self) -> tuple[str, ...]:
        """The folders and files that only this agent (or a sibling of its maker) reads, of project and user.

        What an editor keeps there for everybody (``.vscode``), or a forge (``.github``), is none.
        """
        parents = (
            folder.rpartition("/")[0]
            for folder in (self.project_dir, self.user_dir, *self.other_dirs)
            if folder
        )
        # A parent such as `data` or the project itself is there for reasons of its own.
        own = (parent for parent in parents if parent.startswith((".", "~/")) and parent not in _SHARED)
        return tuple(dict.fromkeys((*own, *self.config)))


@cache
def hosts() -> Mapping[str, Host]:
    """Return every agent by its id, in the order of the table; read from the package once."""
    with open(os.path.join(os.path.dirname(__file__), "agents.json"), encoding="utf-8") as file:
        rows = json.load(file)["agents"]
    return MappingProxyType({row["id"]: _host(row) for row in rows})


def host(name: str) -> Host:
    """Return the agent with this id or alias.

    Raises:
        UsageError: there is none; the hint lists ids that are spelled alike.
    """
    found = hosts().get(name) or next((each for each in hosts().values() if name in each.aliases), None)
    if found:
        return found
    known = [*hosts(), *(alias for each in hosts().values() for alias in each.aliases)]
    hint = did_you_mean(spelled_like(name, known)) or f"there are {', '.join(hosts())}; `all` is every one"
    raise UsageError(f"there is no agent {quote(name)}", hint=hint)


def expand(folder: str, home: str, environ: Mapping[str, str], moved_by: str | None = None) -> str:
    """Return the absolute path of ``~/…``.

    Args:
        folder: A path that begins with ``~/``.
        home: The user's home folder.
        environ: Where ``XDG_CONFIG_HOME`` and ``moved_by`` are looked up.
        moved_by: A variable whose value, if it is set, stands for the first segment below the home.
    """
    segments = folder.split("/")[1:]
    if moved_by and (value := absolute(environ.get(moved_by, ""), home)):
        return os.path.join(value, *segments[1:])
    if segments[0] == ".config" and (value := absolute(environ.get("XDG_CONFIG_HOME", ""), home)):
        return os.path.join(value, *segments[1:])
    return os.path.join(home, *segments)


def absolute(value: str, home: str) -> str | None:
    """Return the path that a variable's value names, ``~`` being the home; None if it is not absolute."""
    if value == "~" or value.startswith("~/"):
        value = home + value[1:]
    return value if os.path.isabs(value) else None


def skill_folder(host: Host, scope: Scope, project: str, home: str, environ: Mapping[str, str]) -> str | None:
    """Return the absolute path of the folder that this agent reads skills from; None if it has none there."""
    if scope == "project":
        return os.path.join(project, *host.project_dir.split("/")) if host.project_dir else None
    return expand(host.user_dir, home, environ, host.user_dir_env) if host.user_dir else None


def found(
    host: Host, project: str, home: str, environ: Mapping[str, str], exists: Callable[[str], bool]
) -> bool:
    """Say whether this agent is in use on this machine or in this project.

    Args:
        host: The agent.
        project: The project's folder.
        home: The user's home folder.
        environ: Where the variables that move an agent's folder are looked up.
        exists: Says whether there is something at a path.
    """
    for sign in host.signs:
        in_home = sign.startswith("~/")
        at = expand(sign, home, environ, host.user_dir_env) if in_home else os.path.join(project, sign)
        if exists(at):
            return True
    return False


def detect(
    project: str, home: str, environ: Mapping[str, str], exists: Callable[[str], bool]
) -> tuple[Host, ...]:
    """Return the agents that are ``found``, in the order of the table."""
    return tuple(each for each in hosts().values() if found(each, project, home, environ, exists))


def _host(row: dict[str, Any]) -> Host:
    fields: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in row.items()
    }
    return Host(**fields)

"""The policies of this machine, of its user and of a project, read off the disk when they are asked."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property

from skillhub.disk import files
from skillhub.disk.home import Home
from skillhub.errors import StateError
from skillhub.formats.toml import CAP
from skillhub.policy.policy import Level, Policies, Policy, parse_policy
from skillhub.project.project import Project

if sys.platform == "win32":
    import ctypes

NAME = "policy.toml"
_COMMON_APPDATA = 0x23


def machine_policy() -> str:
    """Return where the machine's policy is; no variable of the environment says so, or anybody could do without it.

    Raises:
        StateError: Windows does not say where its machine-wide folder is.
    """
    if sys.platform == "win32":
        folder = ctypes.create_unicode_buffer(1024)
        if ctypes.windll.shell32.SHGetFolderPathW(None, _COMMON_APPDATA, None, 0, folder):
            raise StateError("Windows does not say where the machine's policy would be")
        return os.path.join(folder.value, "skillhub", NAME)
    return f"/etc/skillhub/{NAME}"


def places(home: Home) -> dict[Level, str]:
    """Return where the machine's policy is read from, and the user's."""
    return {"machine": machine_policy(), "user": os.path.join(home.config, NAME)}


def read_policies(home: Home, project: Project, machine: str | None = None) -> Policies:
    """Return the policies of machine, user and project, as far as there are any; they are read when one is asked.

    So who only takes away, or looks at what is here, is not stopped by one that is malformed. Whoever asks gets a
    FormatError then, since nobody can tell what it would have forbidden, or a StateError if it cannot be read.

    Args:
        home: Where the user's is.
        project: What has a policy in its intent, if any.
        machine: Where the machine's is; None is ``machine_policy()``.
    """
    paths = places(home) | ({"machine": machine} if machine is not None else {})
    return Policies(_WhenAsked(paths, project))


class _WhenAsked(Collection[Policy]):
    """The policies of these files and of the project, each read once, by the first question."""

    def __init__(self, paths: Mapping[Level, str], project: Project) -> None:
        self._paths = paths
        self._project = project

    @cached_property
    def _each(self) -> tuple[Policy, ...]:
        found = [_read(level, path) for level, path in self._paths.items()]
        found.append(self._project.intent().policy)
        return tuple(policy for policy in found if policy is not None)

    def __iter__(self) -> Iterator[Policy]:
        return iter(self._each)

    def __contains__(self, policy: object) -> bool:
        return policy in self._each

    def __len__(self) -> int:
        return len(self._each)


def _read(level: Level, path: str) -> Policy | None:
    data = files.read(os.path.realpath(path), CAP)
    return None if data is None else parse_policy(data, level, path)

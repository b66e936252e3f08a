"""The policies of this machine and of its user, read off the disk."""

from __future__ import annotations

import os
import sys

from skillhub.errors import StateError
from skillhub.model.policy import Level, Policies, Policy
from skillhub.model.policy_file import parse_policy
from skillhub.model.toml import CAP
from skillhub.world import files
from skillhub.world.home import Home

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


def read_policies(home: Home, machine: str | None = None) -> Policies:
    """Return the machine's policy and the user's, as far as there are any.

    Args:
        home: Where the user's is.
        machine: Where the machine's is; None is ``machine_policy()``.

    Raises:
        FormatError: one is malformed; nobody can tell what it would have forbidden.
        StateError: one cannot be read.
    """
    paths = places(home) | ({"machine": machine} if machine is not None else {})
    return Policies(tuple(policy for each in paths.items() if (policy := _read(*each)) is not None))


def _read(level: Level, path: str) -> Policy | None:
    data = files.read(os.path.realpath(path), CAP)
    return None if data is None else parse_policy(data, level, path)

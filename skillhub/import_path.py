"""Refuses to start if Python imports modules from the working folder, whose files may be an attacker's."""

from __future__ import annotations

import os
import sys


def way_in(*, working_folder_leads: bool) -> str | None:
    """Return why Python would import modules from the working folder, or None.

    Relative entries of PYTHONPATH are removed from ``sys.path``. Entries of an installer or a ``.pth`` file are
    accepted: each names one fixed folder, not the current working folder.
    """
    named = "" if sys.flags.ignore_environment else os.environ.get("PYTHONPATH", "")
    relative = [each for each in named.split(os.pathsep) if not os.path.isabs(each)] if named else []
    if relative:
        away = {*relative, *map(_absolute, relative)}
        sys.path[:] = [each for each in sys.path if each not in away]
    return "-m" if working_folder_leads else "PYTHONPATH" if relative else None


def refuse(way: str) -> None:
    """Raise the error for ``way``, with the command to type instead."""
    from skillhub.errors import UsageError
    from skillhub.formats.text import as_command

    isolated = as_command(sys.executable or "python", "-I", "-m", "skillhub")
    if way == "PYTHONPATH":
        raise UsageError(
            "PYTHONPATH names the working folder: its files would run as a part of skillhub",
            hint=f"use only absolute paths in PYTHONPATH (an empty one is the working folder), or type: {isolated}",
        )
    raise UsageError(
        "without -I, python -m takes modules from the working folder: its files would run as a part of skillhub",
        hint=f"type: {isolated}",
    )


def _absolute(path: str) -> str:
    try:
        return os.path.abspath(path)
    except OSError:  # the working folder no longer exists
        return path

"""A file system that keeps no modes, such as exFAT, NTFS or a share: each file has the same mode, whatever is set."""

from __future__ import annotations

import os
import stat

import pytest

from skillhub.disk import files

EXECUTABLE, PLAIN = 0o777, 0o666


def keep_no_modes(patch: pytest.MonkeyPatch, mode: int) -> None:
    """Let each file of this process seem to have this mode."""

    def told(ask):
        def told_by(*args, **named):
            status = ask(*args, **named)
            if not stat.S_ISREG(status.st_mode):
                return status
            made, (values, more) = status.__reduce__()
            return made((stat.S_IFREG | mode, *values[1:]), more)

        return told_by

    for name in ("stat", "lstat", "fstat"):
        patch.setattr(os, name, told(getattr(os, name)))
    patch.setattr(files, "_KEPT_MODES", {})

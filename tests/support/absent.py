"""Libraries that are not installed, as where an extra of skillhub is missing."""

from __future__ import annotations

import sys

import pytest


def without(monkeypatch: pytest.MonkeyPatch, *libraries: str, loaded_by: tuple[str, ...] = ()) -> None:
    """Let each import of these libraries fail in this process, for one test.

    Args:
        monkeypatch: Ends it.
        libraries: Their names.
        loaded_by: The modules of skillhub that have them since they were imported: they are imported again.
    """
    for name in list(sys.modules):
        if name in loaded_by or name.partition(".")[0] in libraries:
            monkeypatch.delitem(sys.modules, name)
    for name in libraries:
        monkeypatch.setitem(sys.modules, name, None)

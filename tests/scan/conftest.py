"""The two readers of Markdown; mistakes of the scan are raised."""

from __future__ import annotations

import sys

import pytest


@pytest.fixture(autouse=True)
def _mistakes_are_raised(monkeypatch):
    """Raise what is a finding for a user: a mistake of the scan."""
    monkeypatch.setenv("SKILLHUB_TRACEBACK", "1")


@pytest.fixture(params=["markdown-it", "lines"])
def reader(request, monkeypatch):
    """Read Markdown with markdown-it, or line by line, as without that extra."""
    if request.param == "lines":
        monkeypatch.setitem(sys.modules, "markdown_it", None)
    else:
        pytest.importorskip("markdown_it")
    return request.param

"""The two readers of Markdown."""

from __future__ import annotations

import sys

import pytest


@pytest.fixture(params=["markdown-it", "lines"])
def reader(request, monkeypatch):
    """Read Markdown with markdown-it, or line by line, as without that extra."""
    if request.param == "lines":
        monkeypatch.setitem(sys.modules, "markdown_it", None)
    else:
        pytest.importorskip("markdown_it")
    return request.param

"""What an agent imports, and what that costs."""

from __future__ import annotations

import pytest

import skillhub.runtime
from tests.support.bare import run_bare


def test_every_public_name_is_there():
    for name in skillhub.runtime.__all__:
        assert getattr(skillhub.runtime, name).__name__ == name
    assert set(skillhub.runtime.__all__) == set(skillhub.runtime._HOMES)


def test_no_other_name_is():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        skillhub.runtime.nothing  # noqa: B018


def test_to_import_it_costs_next_to_nothing():
    out = run_bare("import sys, skillhub.runtime; print(*sys.modules)").split()
    assert not {"re", "json", "yaml", "dataclasses", "inspect", "sqlite3", "pathlib", "skillhub.model"} & set(out)


def test_all_of_it_loads_no_network_and_no_cryptography():
    out = run_bare("import sys; from skillhub.runtime import *; print(*sys.modules)").split()
    heavy = {"tuf", "cryptography", "typer", "ssl", "http.client", "httpx", "rich"}
    assert not heavy & set(out)
    assert not [
        name
        for name in out
        if name.startswith(("skillhub.install", "skillhub.sources", "skillhub.net", "skillhub.trust"))
    ]
    assert {name for name in out if name.startswith("skillhub.project.")} <= READ


# What of the room below is loaded: it reads where skillhub's things are, locks and records.
READ = {
    f"skillhub.project.{name}"
    for name in ("project", "store", "copies", "installed", "intent", "user_state", "last_seen", "mcp")
}

"""The imports of an agent, and their cost."""

from __future__ import annotations

import ast
from inspect import isfunction
from pathlib import Path
from typing import Literal, get_args, get_origin, get_type_hints

import pytest

import skillhub.runtime
from tests.support.bare import run_bare


def test_every_public_name_exists():
    for name in skillhub.runtime.__all__:
        public = getattr(skillhub.runtime, name)
        assert get_origin(public) is Literal or public.__name__ == name
    assert set(skillhub.runtime.__all__) <= set(dir(skillhub.runtime))


def test_a_type_checker_sees_every_public_name():
    stub = Path(skillhub.runtime.__file__).with_suffix(".pyi").read_text(encoding="utf-8")
    names = [each for node in ast.walk(ast.parse(stub)) if isinstance(node, ast.ImportFrom) for each in node.names]
    assert sorted(each.name for each in names if each.asname == each.name) == skillhub.runtime.__all__


def classes(hint):
    """Yield our classes in a type hint."""
    if isinstance(hint, type) and hint.__module__.startswith("skillhub."):
        yield hint.__name__
    for part in get_args(hint):
        yield from classes(part)


def test_a_host_can_name_what_functions_return_and_what_it_has_to_run():
    public = [getattr(skillhub.runtime, name) for name in skillhub.runtime.__all__]
    returned = [get_type_hints(each)["return"] for each in public if isfunction(each)]
    run = [get_type_hints(skillhub.runtime.Loaded)[name] for name in ("fork", "hooks")]
    found = {name for hint in (*returned, *run) for name in classes(hint)}
    assert {"Fork", "Hits", "Hook"} < found
    opaque = {"Stored"}  # the rows of a search index, which a host only passes on
    assert found - opaque <= set(skillhub.runtime.__all__)


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        skillhub.runtime.nothing  # noqa: B018


def test_import_of_the_package_loads_few_modules():
    out = run_bare("import sys, skillhub.runtime; print(*sys.modules)").split()
    assert not {"re", "json", "yaml", "dataclasses", "inspect", "sqlite3", "pathlib", "skillhub.model"} & set(out)


def test_import_of_all_names_loads_no_network_and_no_cryptography():
    out = run_bare("import sys; from skillhub.runtime import *; print(*sys.modules)").split()
    heavy = {"tuf", "cryptography", "typer", "ssl", "http.client", "httpx", "rich"}
    assert not heavy & set(out)
    assert not [
        name
        for name in out
        if name.startswith(("skillhub.install", "skillhub.sources", "skillhub.net", "skillhub.trust"))
    ]
    assert {name for name in out if name.startswith("skillhub.project.")} <= READ


# The loaded modules of the room below, which read paths, locks and records; ``git_exclude`` is called by writers.
READ = {
    f"skillhub.project.{name}"
    for name in ("project", "store", "copies", "git_exclude", "intent", "user_state", "last_seen")
}

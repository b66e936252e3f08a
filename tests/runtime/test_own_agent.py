"""An agent that skillhub has no row for brings its own row."""

from __future__ import annotations

import inspect
from dataclasses import fields
from pathlib import Path

import pytest

from skillhub.errors import NotFound
from skillhub.runtime import (
    AgentFolder,
    Bounds,
    Budget,
    Profile,
    Rules,
    Surroundings,
    answers,
    call_tool,
    catalog_of,
    mentioned,
    pick,
    profile,
    section,
    set_reach,
    skills_list,
    urls_of,
)
from tests.runtime.test_discover import write

ACME = Profile(id="acme", name="Acme", places=(AgentFolder("project", ".acme/skills", at="inner"),))


@pytest.fixture
def around(tmp_path):
    (tmp_path / "repo/.git").mkdir(parents=True)
    write(tmp_path / "repo/.acme/skills/demo")
    write(tmp_path / "repo/.agents/skills/other")
    return Surroundings(cwd=tmp_path / "repo", home=tmp_path, environ={"SKILLHUB_HOME": str(tmp_path / "hub")})


def test_no_message_names_an_agent_that_the_command_line_does_not_know(around):
    catalog = catalog_of(ACME, around)
    assert [skill.name for skill in catalog.skills] == ["demo"]
    assert mentioned("$nope", catalog).mentions[0].message == "No skill named 'nope'."
    with pytest.raises(NotFound) as missing:
        pick(catalog, "nope")
    assert missing.value.hint is None
    set_reach(pick(catalog, "demo"), "disabled", "project", ACME, around)
    off = catalog_of(ACME, around)
    held = pick(off, "demo").held
    assert (held.status, held.command) == ("disabled", "")
    assert held.file.startswith(str(Path(around.cwd).parent / "hub"))
    assert (
        call_tool(ACME, off, "activate_skill", {"name": "demo"}).error.hint == f"change the settings in {held.file}"
    )
    set_reach(pick(off, "demo"), "active", "project", ACME, around)
    assert catalog_of(ACME, around) == catalog


def test_every_function_takes_an_agent_or_its_id(around):
    row = profile("agents")
    catalog = catalog_of("agents", around)
    assert catalog == catalog_of(row, around)
    assert section(catalog, "agents") == section(catalog, row)
    assert skills_list("agents", [around]) == skills_list(row, [around])
    assert (answers("agents", around), urls_of("agents", around)) == ({}, {})
    set_reach(pick(catalog, "other"), "disabled", "user", "agents", around)
    assert pick(catalog_of("agents", around), "other").held.command == "skillhub enable other --host agents --global"


def test_folders_given_as_paths_are_texts_afterwards(around, tmp_path):
    more = Surroundings(cwd=tmp_path, home=tmp_path, state=tmp_path, extra=(tmp_path,), plugins={"p": tmp_path})
    assert {type(each) for each in (more.cwd, more.home, more.state, *more.extra, *more.plugins.values())} == {str}
    assert around.cwd == str(tmp_path / "repo")


@pytest.mark.parametrize("kind", [AgentFolder, Bounds, Budget, Profile, Rules])
def test_help_explains_each_field(kind):
    assert [each.name for each in fields(kind) if f"\n    {each.name}: " not in inspect.getdoc(kind)] == []

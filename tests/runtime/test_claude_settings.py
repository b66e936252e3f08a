"""What Claude Code's settings and a plugin's manifest say of skills, as its documentation has it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from skillhub.errors import Refused, StateError
from skillhub.model.hosts import HostStateFile
from skillhub.runtime.discover import expanded
from skillhub.runtime.loading import Request, load, pick
from skillhub.runtime.meaning import mentioned
from skillhub.runtime.overview import section
from skillhub.runtime.state import set_reach
from tests.runtime.test_claude import Desk
from tests.runtime.test_discover import write


@pytest.fixture
def desk(tmp_path):
    """A machine whose administrator's settings are below ``etc``, with two skills of the project."""
    desk = Desk(tmp_path)
    desk.etc = tmp_path / "etc"
    states = [state for state in desk.host.states if not state.path.startswith("/")]
    managed = [HostStateFile("claude", str(desk.etc / name)) for name in ("managed.d/*.json", "managed.json")]
    desk.host = replace(desk.host, states=(*managed, *states))
    for name in ("demo", "other"):
        (desk.project / ".claude/skills" / name).mkdir(parents=True)
        text = f"---\nname: {name}\ndescription: About {name}s.\n---\nDo it.\n"
        (desk.project / ".claude/skills" / name / "SKILL.md").write_text(text)
    return desk


USER, SHARED, LOCAL = (
    "home/.claude/settings.json",
    "project/.claude/settings.json",
    "project/.claude/settings.local.json",
)
MANAGED, FIRST, SECOND = "etc/managed.json", "etc/managed.d/10-first.json", "etc/managed.d/20-second.json"
REACH = {"on": "active", "name-only": "active", "user-invocable-only": "enabled", "off": "disabled"}


def said(desk, tmp_path, **words):
    for place, word in words.items():
        desk.settings(tmp_path / globals()[place], skillOverrides={"demo": word})
    return pick(desk.catalog(), "demo")


@pytest.mark.parametrize("place", ["USER", "SHARED", "LOCAL", "MANAGED", "FIRST"])
@pytest.mark.parametrize("word", REACH)
def test_an_override_says_how_far_a_skill_reaches(desk, tmp_path, place, word):
    skill = said(desk, tmp_path, **{place: word})
    assert (skill.reach, pick(desk.catalog(), "other").reach) == (REACH[word], "active")
    text = section(desk.catalog(), desk.host).text
    assert ("demo" in text, "About demos." in text) == (REACH[word] == "active", word == "on")
    assert (skill.name_only, skill.description, "About others." in text) == (
        word == "name-only",
        "About demos.",
        True,
    )
    if word == "off":
        assert skill.held.file == str(tmp_path / globals()[place])
        with pytest.raises(Refused):
            load(skill)
    else:
        assert load(skill, Request(caller="user")).body


@pytest.mark.parametrize("word", ["OFF", "", "hidden", 0, None, False, True, [], {"on": 1}, "on ", "ON"])
def test_attack_a_word_that_nobody_knows_is_a_no(desk, tmp_path, word):
    assert said(desk, tmp_path, SHARED=word).reach == "disabled"


@pytest.mark.parametrize("value", ["off", ["demo"], 7, None, True])
def test_attack_overrides_of_another_shape_leave_all_skills_to_the_user(desk, tmp_path, value):
    desk.settings(tmp_path / LOCAL, skillOverrides=value)
    assert {skill.reach for skill in desk.catalog().skills} == {"enabled"}


ORDER = ["SECOND", "FIRST", "MANAGED", "LOCAL", "SHARED", "USER"]


@pytest.mark.parametrize("higher", range(len(ORDER) - 1))
def test_the_machine_decides_before_the_project_and_that_before_the_user(desk, tmp_path, higher):
    for lower in ORDER[higher + 1 :]:
        for one, other in (("off", "on"), ("on", "off"), ("user-invocable-only", "name-only")):
            skill = said(desk, tmp_path, **{ORDER[higher]: one, lower: other})
            assert (skill.reach, skill.name_only) == (REACH[one], False)
        (tmp_path / globals()[lower]).unlink()


def test_each_skill_is_decided_by_itself(desk, tmp_path):
    desk.settings(tmp_path / LOCAL, skillOverrides={"demo": "on"})
    desk.settings(tmp_path / USER, skillOverrides={"demo": "off", "other": "off"})
    assert [skill.reach for skill in desk.catalog().skills] == ["active", "disabled"]


def test_a_deny_holds_whatever_an_override_says(desk, tmp_path):
    desk.settings(tmp_path / USER, permissions={"deny": ["Skill(demo)"]})
    assert said(desk, tmp_path, MANAGED="on").reach == "enabled"


def test_skills_of_plugins_are_not_overridden(desk, tmp_path):
    desk.install("tools@market")
    for key in ("fix", "tools:fix", "tools"):
        desk.settings(tmp_path / MANAGED, skillOverrides={key: "off"})
        assert pick(desk.catalog(), "tools:fix").reach == "active"


def test_a_skill_is_overridden_by_the_name_of_its_folder_too(desk, tmp_path):
    write(desk.project / ".claude/skills/folder", "called")
    for key in ("folder", "called"):
        desk.settings(tmp_path / LOCAL, skillOverrides={key: "off"})
        assert pick(desk.catalog(), "called").reach == "disabled"


def test_an_override_widens_nothing_that_the_skill_says_itself(desk, tmp_path):
    write(desk.project / ".claude/skills/mine", disable_model_invocation="true")
    desk.settings(tmp_path / LOCAL, skillOverrides={"mine": "on"})
    assert pick(desk.catalog(), "mine").reach == "enabled"


def test_what_an_override_disables_is_not_said_to_be_enabled(desk, tmp_path):
    skill = said(desk, tmp_path, USER="off")
    with pytest.raises(StateError, match="stays disabled") as raised:
        set_reach(skill, "active", "user", desk.host, desk.around)
    assert raised.value.where == str(tmp_path / USER)
    set_reach(skill, "disabled", "user", desk.host, desk.around)
    assert "settings.json" in mentioned("$demo", desk.catalog()).mentions[0].message
    said(desk, tmp_path, LOCAL="on")
    set_reach(skill, "active", "user", desk.host, desk.around)


def test_settings_that_are_dropped_in_are_read_by_name_and_hidden_ones_are_not(desk, tmp_path):
    for name, word in ((".hidden.json", "off"), ("z.txt", "off"), ("a.json", "off"), ("b.json", "name-only")):
        desk.settings(desk.etc / "managed.d" / name, skillOverrides={"demo": word})
    assert pick(desk.catalog(), "demo").name_only
    desk.settings(desk.etc / "managed.d/a.json", permissions={"deny": ["Skill(other)"]})
    desk.settings(desk.etc / "managed.d/b.json", permissions={"deny": ["Skill(demo)"]})
    assert {skill.reach for skill in desk.catalog().skills} == {"enabled"}


@pytest.mark.parametrize("text", ["{", "[]", "\xff", '{"permissions": 7}'])
def test_attack_what_is_dropped_in_and_cannot_be_read_leaves_all_skills_to_the_user(desk, text):
    (desk.etc / "managed.d").mkdir(parents=True)
    (desk.etc / "managed.d/x.json").write_text(text, "latin-1")
    assert {skill.reach for skill in desk.catalog().skills} == {"enabled"}


def test_attack_very_many_files_are_dropped_in(desk, tmp_path):
    (desk.etc / "managed.d").mkdir(parents=True)
    for number in range(257):
        (desk.etc / f"managed.d/{number}.json").write_text("{}")
    assert {skill.reach for skill in desk.catalog().skills} == {"enabled"}
    assert expanded(str(tmp_path / "none/*.json")) == []
    (tmp_path / "file").write_text("")
    assert expanded(str(tmp_path / "file/*.json")) == []


@pytest.mark.parametrize("place", ["MANAGED", "FIRST"])
def test_a_plugin_that_the_machine_switches_off_is_not_there(desk, tmp_path, place):
    desk.install("tools@market")
    desk.settings(tmp_path / globals()[place], enabledPlugins={"tools@market": False})
    desk.settings(tmp_path / LOCAL, enabledPlugins={"tools@market": True})
    assert desk.names() == ["demo", "other"]


@pytest.fixture
def plugin(tmp_path):
    """A plugin with one skill and one command, and what its manifest says."""
    desk = Desk(tmp_path)
    desk.install("tools@market")
    folder = desk.home / ".claude/plugins/cache/tools/market/1.0.0"

    def says(**manifest):
        (folder / ".claude-plugin").mkdir(exist_ok=True)
        (folder / ".claude-plugin/plugin.json").write_text(json.dumps({"name": "tools", **manifest}))
        return desk.names()

    says.desk, says.folder = desk, folder
    return says


def test_skills_that_a_plugin_names_are_looked_for_beside_its_folder(plugin):
    for path in ("extra/one", "extra/two", "single"):
        write(plugin.folder / path)
    usual = ["tools:fix", "tools:ship"]
    assert plugin() == usual
    assert plugin(skills="./extra") == sorted([*usual, "tools:one", "tools:two"])
    assert plugin(skills=["./extra/", "./single"]) == sorted([*usual, "tools:one", "tools:single", "tools:two"])
    assert plugin(skills=["./extra/one", "./extra/one", "./skills"]) == sorted([*usual, "tools:one"])
    assert plugin(skills=["./missing"]) == usual
    assert plugin(skills=[]) == usual


@pytest.mark.parametrize("path", [".", "./"])
def test_a_plugin_that_names_its_own_folder_is_one_skill_of_its_own(plugin, path):
    write(plugin.folder, "whole")
    write(plugin.folder / "examples/template")
    assert plugin(skills=path) == ["tools:fix", "tools:ship", "tools:whole"]
    assert plugin() == ["tools:fix", "tools:ship"]


def test_a_plugin_without_a_folder_of_skills_is_one_skill(plugin):
    write(plugin.folder, "whole")
    write(plugin.folder / "examples/template")
    (plugin.folder / "skills").rename(plugin.folder / "elsewhere")
    assert plugin() == ["tools:ship", "tools:whole"]
    assert plugin(skills=[]) == ["tools:ship"]


OUTSIDE = [
    "../x",
    "./../x",
    "/x",
    "skills",
    "x",
    "",
    ".hidden",
    "./a/../../x",
    "./out",
    "./a\0b",
    7,
    None,
    True,
    {},
    ["./x"],
]


@pytest.mark.parametrize("path", OUTSIDE)
def test_attack_a_plugin_names_skills_elsewhere(plugin, path, tmp_path):
    write(plugin.folder.parent / "x/evil")
    write(tmp_path / "elsewhere/evil")
    (plugin.folder / "out").symlink_to(tmp_path / "elsewhere")
    assert plugin(skills=[path]) == ["tools:fix", "tools:ship"]
    assert [("exists in the plugin" in each.message) for each in plugin.desk.catalog().problems] == [True]


def test_attack_a_manifest_names_skills_as_an_object(plugin):
    write(plugin.folder / "extra/one")
    assert plugin(skills={"one": "./extra"}) == ["tools:fix", "tools:ship"]


def test_commands_may_be_an_object_of_names(plugin):
    (plugin.folder / "README.md").write_text("---\ndescription: Reads.\n---\nAbout it.\n")
    write(plugin.folder / "docs/not-a-command")
    names = plugin(
        commands={
            "about": {"source": "./README.md"},
            "what-is-it": {
                "source": "./README.md",
                "description": "Says what\nit is.",
                "argumentHint": "[topic]",
                "model": "x",
                "allowedTools": ["Read"],
            },
        }
    )
    assert names == ["tools:about", "tools:fix", "tools:what-is-it"]  # in place of the folder
    catalog = plugin.desk.catalog()
    assert pick(catalog, "tools:about").description == "Reads."
    skill = pick(catalog, "tools:what-is-it")
    assert (skill.description, skill.argument_hint) == ("Says what it is.", "[topic]")
    assert load(skill).body.endswith("About it.\n")
    assert plugin(commands={}) == ["tools:fix"]


SOURCES = [
    *({"source": path} for path in OUTSIDE),
    {},
    {"content": "Inline."},
    {"source": "./a.md", "content": "x"},
    "./a.md",
    [],
]


@pytest.mark.parametrize("entry", [*SOURCES, {"source": "./commands"}, {"source": "./a.txt"}, 7, None])
def test_attack_an_object_of_commands_names_what_is_no_file_of_the_plugin(plugin, entry):
    (plugin.folder / "a.md").write_text("A.\n")
    assert plugin(commands={"evil": entry}) == ["tools:fix"]
    assert len(plugin.desk.catalog().problems) == 1


@pytest.mark.parametrize("name", ["", "a/b", "../x", "a\nb", "a\u200bb", "\u202ea"])
def test_attack_a_command_is_named_what_no_file_is_called(plugin, name):
    (plugin.folder / "a.md").write_text("A.\n")
    assert plugin(commands={name: {"source": "./a.md"}}) == ["tools:fix"]
    assert len(plugin.desk.catalog().problems) == 1

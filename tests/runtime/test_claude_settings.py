"""Settings of Claude Code and manifests of plugins, by the documentation of Claude Code."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from skillhub.errors import Refused, StateError
from skillhub.model.hosts import HostStateFile
from skillhub.runtime.discover import expanded
from skillhub.runtime.loading import Request, load, pick
from skillhub.runtime.mention_resolver import mentioned
from skillhub.runtime.overview import section
from skillhub.runtime.state import set_reach
from tests.runtime.test_claude import Desk
from tests.runtime.test_discover import write


@pytest.fixture
def desk(tmp_path):
    """Return a machine with two skills of the project; the settings of its administrator are in ``etc``."""
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


def overridden(desk, tmp_path, **words):
    for place, word in words.items():
        desk.settings(tmp_path / globals()[place], skillOverrides={"demo": word})
    return pick(desk.catalog(), "demo")


@pytest.mark.parametrize("place", ["USER", "SHARED", "LOCAL", "MANAGED", "FIRST"])
@pytest.mark.parametrize("word", REACH)
def test_override_sets_the_reach_of_a_skill(desk, tmp_path, place, word):
    skill = overridden(desk, tmp_path, **{place: word})
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
def test_attack_an_unknown_override_disables_the_skill(desk, tmp_path, word):
    assert overridden(desk, tmp_path, SHARED=word).reach == "disabled"


@pytest.mark.parametrize("value", ["off", ["demo"], 7, None, True])
def test_attack_malformed_overrides_reserve_all_skills_to_the_user(desk, tmp_path, value):
    desk.settings(tmp_path / LOCAL, skillOverrides=value)
    assert {skill.reach for skill in desk.catalog().skills} == {"enabled"}


ORDER = ["SECOND", "FIRST", "MANAGED", "LOCAL", "SHARED", "USER"]


@pytest.mark.parametrize("higher", range(len(ORDER) - 1))
def test_machine_precedes_project_and_project_precedes_user(desk, tmp_path, higher):
    for lower in ORDER[higher + 1 :]:
        for one, other in (("off", "on"), ("on", "off"), ("user-invocable-only", "name-only")):
            skill = overridden(desk, tmp_path, **{ORDER[higher]: one, lower: other})
            assert (skill.reach, skill.name_only) == (REACH[one], False)
        (tmp_path / globals()[lower]).unlink()


def test_each_skill_has_its_own_override(desk, tmp_path):
    desk.settings(tmp_path / LOCAL, skillOverrides={"demo": "on"})
    desk.settings(tmp_path / USER, skillOverrides={"demo": "off", "other": "off"})
    assert [skill.reach for skill in desk.catalog().skills] == ["active", "disabled"]


def test_deny_precedes_an_override(desk, tmp_path):
    desk.settings(tmp_path / USER, permissions={"deny": ["Skill(demo)"]})
    assert overridden(desk, tmp_path, MANAGED="on").reach == "enabled"


def test_skills_of_plugins_are_not_overridden(desk, tmp_path):
    desk.install("tools@market")
    for key in ("fix", "tools:fix", "tools"):
        desk.settings(tmp_path / MANAGED, skillOverrides={key: "off"})
        assert pick(desk.catalog(), "tools:fix").reach == "active"


def test_override_matches_the_name_or_the_folder(desk, tmp_path):
    write(desk.project / ".claude/skills/folder", "called")
    for key in ("folder", "called"):
        desk.settings(tmp_path / LOCAL, skillOverrides={key: "off"})
        assert pick(desk.catalog(), "called").reach == "disabled"


def test_override_does_not_widen_the_reach_of_the_skill(desk, tmp_path):
    write(desk.project / ".claude/skills/mine", disable_model_invocation="true")
    desk.settings(tmp_path / LOCAL, skillOverrides={"mine": "on"})
    assert pick(desk.catalog(), "mine").reach == "enabled"


def test_skill_disabled_by_an_override_cannot_be_enabled(desk, tmp_path):
    skill = overridden(desk, tmp_path, USER="off")
    with pytest.raises(StateError, match="stays disabled") as raised:
        set_reach(skill, "active", "user", desk.host, desk.around)
    assert raised.value.where == str(tmp_path / USER)
    set_reach(skill, "disabled", "user", desk.host, desk.around)
    assert "settings.json" in mentioned("$demo", desk.catalog()).mentions[0].message
    overridden(desk, tmp_path, LOCAL="on")
    set_reach(skill, "active", "user", desk.host, desk.around)


def test_drop_in_settings_are_read_in_order_without_hidden_files(desk, tmp_path):
    for name, word in ((".hidden.json", "off"), ("z.txt", "off"), ("a.json", "off"), ("b.json", "name-only")):
        desk.settings(desk.etc / "managed.d" / name, skillOverrides={"demo": word})
    assert pick(desk.catalog(), "demo").name_only
    desk.settings(desk.etc / "managed.d/a.json", permissions={"deny": ["Skill(other)"]})
    desk.settings(desk.etc / "managed.d/b.json", permissions={"deny": ["Skill(demo)"]})
    assert {skill.reach for skill in desk.catalog().skills} == {"enabled"}


@pytest.mark.parametrize("text", ["{", "[]", "\xff", '{"permissions": 7}'])
def test_attack_unreadable_drop_in_settings_reserve_all_skills_to_the_user(desk, text):
    (desk.etc / "managed.d").mkdir(parents=True)
    (desk.etc / "managed.d/x.json").write_text(text, "latin-1")
    assert {skill.reach for skill in desk.catalog().skills} == {"enabled"}


def test_attack_too_many_drop_in_settings_reserve_all_skills_to_the_user(desk, tmp_path):
    (desk.etc / "managed.d").mkdir(parents=True)
    for number in range(257):
        (desk.etc / f"managed.d/{number}.json").write_text("{}")
    assert {skill.reach for skill in desk.catalog().skills} == {"enabled"}
    assert expanded(str(tmp_path / "none/*.json")) == []
    (tmp_path / "file").write_text("")
    assert expanded(str(tmp_path / "file/*.json")) == []


@pytest.mark.parametrize("place", ["MANAGED", "FIRST"])
def test_plugin_disabled_by_the_machine_is_not_read(desk, tmp_path, place):
    desk.install("tools@market")
    desk.settings(tmp_path / globals()[place], enabledPlugins={"tools@market": False})
    desk.settings(tmp_path / LOCAL, enabledPlugins={"tools@market": True})
    assert desk.names() == ["demo", "other"]


@pytest.fixture
def plugin(tmp_path):
    """Return a function that writes the manifest of a plugin and returns the names of the skills."""
    desk = Desk(tmp_path)
    desk.install("tools@market")
    folder = desk.home / ".claude/plugins/cache/tools/market/1.0.0"

    def write_manifest(**manifest):
        (folder / ".claude-plugin").mkdir(exist_ok=True)
        (folder / ".claude-plugin/plugin.json").write_text(json.dumps({"name": "tools", **manifest}))
        return desk.names()

    write_manifest.desk, write_manifest.folder = desk, folder
    return write_manifest


def test_manifest_adds_folders_of_skills(plugin):
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
def test_plugin_that_names_its_own_folder_is_one_more_skill(plugin, path):
    write(plugin.folder, "whole")
    write(plugin.folder / "examples/template")
    assert plugin(skills=path) == ["tools:fix", "tools:ship", "tools:whole"]
    assert plugin() == ["tools:fix", "tools:ship"]


def test_plugin_without_a_folder_of_skills_is_one_skill(plugin):
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
def test_attack_skills_outside_of_the_plugin_are_refused(plugin, path, tmp_path):
    write(plugin.folder.parent / "x/evil")
    write(tmp_path / "elsewhere/evil")
    (plugin.folder / "out").symlink_to(tmp_path / "elsewhere")
    assert plugin(skills=[path]) == ["tools:fix", "tools:ship"]
    assert [("exists in the plugin" in each.message) for each in plugin.desk.catalog().problems] == [True]


def test_attack_an_object_of_skills_in_a_manifest_is_ignored(plugin):
    write(plugin.folder / "extra/one")
    assert plugin(skills={"one": "./extra"}) == ["tools:fix", "tools:ship"]


def test_manifest_may_name_commands_in_an_object(plugin):
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
def test_attack_an_invalid_source_of_a_command_is_refused(plugin, entry):
    (plugin.folder / "a.md").write_text("A.\n")
    assert plugin(commands={"evil": entry}) == ["tools:fix"]
    assert len(plugin.desk.catalog().problems) == 1


@pytest.mark.parametrize("name", ["", "a/b", "../x", "a\nb", "a\u200bb", "\u202ea"])
def test_attack_an_invalid_name_of_a_command_is_refused(plugin, name):
    (plugin.folder / "a.md").write_text("A.\n")
    assert plugin(commands={name: {"source": "./a.md"}}) == ["tools:fix"]
    assert len(plugin.desk.catalog().problems) == 1

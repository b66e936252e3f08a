"""Claude Code: installed plugins, commands, nested folders, the skills of sub-agents."""

from __future__ import annotations

import json

import pytest

from skillhub.errors import FormatError, NotFound, OutsideSkill, Refused
from skillhub.model.hosts import profile
from skillhub.runtime.agent import catalog_of, skills_list
from skillhub.runtime.discover import Surroundings
from skillhub.runtime.envelope import inject
from skillhub.runtime.loading import Request, load, pick, preload
from skillhub.runtime.mention_resolver import mentioned
from skillhub.runtime.overview import section
from skillhub.runtime.ranking import SearchIndex, rows_of, search
from skillhub.runtime.state import set_reach
from skillhub.runtime.walk import Cache
from tests.runtime.test_discover import write


class Desk:
    def __init__(self, folder, host="claude-code"):
        self.project, self.home = folder / "project", folder / "home"
        (self.project / ".git").mkdir(parents=True)
        (self.home / ".claude/plugins").mkdir(parents=True)
        self.host = profile(host)
        environ = {"SKILLHUB_HOME": str(folder / "hub")}
        self.around = Surroundings(cwd=str(self.project), home=str(self.home), environ=environ)

    def catalog(self, **more):
        return catalog_of(self.host, self.around, **more)

    def names(self):
        return [skill.full_name for skill in self.catalog().skills]

    def install(self, key, **entry):
        """Add a plugin with a skill and a command to the list of installed plugins."""
        folder = self.home / ".claude/plugins/cache" / key.replace("@", "/") / "1.0.0"
        write(folder / "skills/fix")
        (folder / "commands").mkdir()
        (folder / "commands/ship.md").write_text("Ship it.\n")
        place = self.home / ".claude/plugins/installed_plugins.json"
        known = json.loads(place.read_text()) if place.exists() else {"version": 2, "plugins": {}}
        known["plugins"].setdefault(key, []).append({"scope": "user", "installPath": str(folder), **entry})
        place.write_text(json.dumps(known))

    def settings(self, place, **settings):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(settings))


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path)


@pytest.mark.parametrize(
    ("host", "found"), [("claude-code", ["tools:fix", "tools:ship"]), ("gencode", ["tools:fix"])]
)
def test_skills_of_installed_plugins_have_the_plugin_as_namespace(tmp_path, host, found):
    desk = Desk(tmp_path, host)
    desk.install("tools@market")
    assert desk.names() == found
    assert load(pick(desk.catalog(), "tools:fix")).body


def test_version_1_of_the_plugin_list_is_read(desk):
    desk.install("tools@market")
    place = desk.home / ".claude/plugins/installed_plugins.json"
    first = {"version": 1, "plugins": {"tools@market": json.loads(place.read_text())["plugins"]["tools@market"][0]}}
    place.write_text(json.dumps(first))
    assert "tools:fix" in desk.names()


def test_plugin_of_another_project_is_not_read(desk, tmp_path):
    desk.install("tools@market", scope="project", projectPath=str(tmp_path / "other"))
    assert desk.names() == []
    desk.install("mine@market", scope="project", projectPath=str(desk.project))
    assert desk.names() == ["mine:fix", "mine:ship"]


@pytest.mark.parametrize(
    "place", ["home/.claude/settings.json", "project/.claude/settings.json", "project/.claude/settings.local.json"]
)
def test_plugin_disabled_by_settings_is_not_read(desk, tmp_path, place):
    desk.install("tools@market")
    desk.settings(tmp_path / place, enabledPlugins={"tools@market": False})
    assert desk.names() == []
    desk.settings(tmp_path / place, enabledPlugins={"tools@market": True})
    assert desk.names() == ["tools:fix", "tools:ship"]


def test_attack_a_repository_cannot_enable_a_plugin_that_the_user_disabled(desk):
    desk.install("tools@market")
    desk.settings(desk.home / ".claude/settings.json", enabledPlugins={"tools@market": False})
    desk.settings(desk.project / ".claude/settings.json", enabledPlugins={"tools@market": True})
    assert desk.names() == []


@pytest.mark.parametrize("entry", [{"installPath": "../relative"}, {"installPath": 7}, {"installPath": None}, {}])
@pytest.mark.parametrize("key", ["tools@market", "../up@market", "@market", "two words@market"])
def test_attack_a_malformed_plugin_list_names_no_folder(desk, key, entry):
    write(desk.project / "relative/skills/fix")
    place = desk.home / ".claude/plugins/installed_plugins.json"
    place.write_text(json.dumps({"version": 2, "plugins": {key: [entry], "x@y": "z", "z@y": [7]}}))
    assert desk.names() == []


@pytest.mark.parametrize("text", ["{[", "\xff", "[]", '{"plugins": []}'])
@pytest.mark.parametrize("name", ["plugins/installed_plugins.json", "settings.json"])
def test_attack_an_unreadable_plugin_list_enables_no_plugin(desk, name, text):
    desk.install("tools@market")
    (desk.home / ".claude" / name).write_text(text, "latin-1")
    catalog = desk.catalog()
    is_malformed = text in ("{[", "\xff")
    assert (catalog.skills == ()) == (is_malformed or "plugins" in name)
    named = {each.path for each in catalog.problems if "no plugin is searched" in each.message}
    assert named == ({str(desk.home / ".claude" / name)} if is_malformed else set())
    write(desk.project / ".claude/skills/other")
    assert pick(desk.catalog(), "other").state == "enabled"


def test_claude_config_dir_moves_the_plugin_list(desk, tmp_path):
    desk.install("tools@market")
    (desk.home / ".claude").rename(tmp_path / "moved")
    text = (tmp_path / "moved/plugins/installed_plugins.json").read_text()
    moved = text.replace(str(desk.home / ".claude"), str(tmp_path / "moved"))
    (tmp_path / "moved/plugins/installed_plugins.json").write_text(moved)
    around = Surroundings(
        cwd=str(desk.project), home=str(desk.home), environ={"CLAUDE_CONFIG_DIR": str(tmp_path / "moved")}
    )
    assert [skill.full_name for skill in catalog_of(desk.host, around).skills] == ["tools:fix", "tools:ship"]


COMMAND = """---
description: Put it out there.
argument-hint: "[where]"
allowed-tools: Bash(git push:*)
---
Deploy to $0.
"""


@pytest.fixture
def commands(desk):
    folder = desk.project / ".claude/commands"
    (folder / "ops").mkdir(parents=True)
    (folder / "deploy.md").write_text(COMMAND)
    (folder / "ops/page.md").write_text("Page the one on call.\n\nMore.\n")
    (folder / ".hidden.md").write_text("No.\n")
    (folder / "notes.txt").write_text("No.\n")
    return folder


def test_command_is_a_skill_of_one_file(desk, commands):
    catalog = desk.catalog()
    assert [(each.name, each.description) for each in catalog.skills] == [
        ("deploy", "Put it out there."),
        ("page", "Page the one on call."),
    ]
    found = mentioned("/deploy production now", catalog)
    loaded = load(found.skills[0], Request(arguments=found.task))
    assert loaded.body.startswith("Deploy to production.")
    assert (loaded.files, loaded.tools) == ((), ("Bash(git push:*)",))
    assert "Deploy to production." in inject(loaded, desk.host)
    assert str(commands / "deploy.md") in section(catalog, desk.host).text
    assert catalog.at(str(commands / "deploy.md")).name == "deploy"
    (row, _) = skills_list(desk.host, [desk.around])["data"][0]["skills"]
    assert (row["path"], row["dir"]) == (str(commands / "deploy.md"), str(commands))
    index = SearchIndex.build(rows_of(catalog.skills))
    assert search("on call", [index]).hits[0].name == "page"
    index.close()


def test_skill_takes_precedence_over_a_command_of_its_name(desk, commands):
    write(desk.project / ".claude/skills/deploy")
    catalog = desk.catalog()
    assert [each.is_command for each in catalog.named("deploy")] == [False]
    assert [each.skill.path for each in catalog.shadowed] == [str(commands / "deploy.md")]
    (desk.home / ".claude/commands").mkdir()
    (desk.home / ".claude/commands/page.md").write_text("Mine.\n")
    assert desk.catalog().named("page")[0].description == "Mine."


def test_attack_a_linked_command_is_not_read(desk, commands, tmp_path):
    (tmp_path / "secret").write_text("secret\n")
    (commands / "leak.md").symlink_to(tmp_path / "secret")
    (commands / "out").symlink_to(tmp_path)
    assert "leak" not in desk.names()
    skill = pick(desk.catalog(), "deploy")
    (commands / "deploy.md").unlink()
    (commands / "deploy.md").symlink_to(tmp_path / "secret")
    with pytest.raises(OutsideSkill, match="link"):
        load(skill)


def test_broken_command_is_a_problem_and_hides_no_other(desk, commands):
    (commands / "bad.md").write_text("---\ndescription: [\n---\n")
    catalog = desk.catalog()
    assert [each.name for each in catalog.skills] == ["deploy", "page"]
    assert [each.path for each in catalog.problems] == [str(commands / "bad.md")]


def test_command_may_be_reserved_to_the_user(desk, commands):
    (commands / "deploy.md").write_text("---\ndisable-model-invocation: true\n---\nGo.\n")
    skill = pick(desk.catalog(), "deploy")
    assert skill.reach == "enabled"
    with pytest.raises(Refused):
        load(skill, Request(caller="model"))


def test_added_command_is_found_with_a_cache(desk, commands, tmp_path):
    cache = Cache(str(tmp_path / "cache"))
    assert len(desk.catalog(cache=cache).skills) == 2
    (commands / "third.md").write_text("Third.\n")
    assert len(desk.catalog(cache=cache).skills) == 3


def test_nested_folders_of_skills_are_read(desk):
    for path in ("packages/web", "packages/api/deep", "node_modules/x", ".hidden/y"):
        write(desk.project / path / ".claude/skills" / f"of-{path.rpartition('/')[2]}")
    write(desk.project / ".claude/skills/of-project")
    assert desk.names() == ["of-deep", "of-project", "of-web"]
    write(desk.project / "packages/web/.claude/skills/of-project")
    assert desk.catalog().named("of-project")[0].path == str(desk.project / ".claude/skills/of-project")


def test_attack_the_walk_of_folders_is_limited(desk):
    for number in range(2100):
        (desk.project / f"many/{number:04}").mkdir(parents=True)
    write(desk.project / "z-last/.claude/skills/reached")
    catalog = desk.catalog()
    assert any("more than 2000 folders" in each.message for each in catalog.problems)
    assert [skill.name for skill in catalog.skills] == ["reached"]  # level by level


def test_attack_a_linked_folder_is_not_walked(desk, tmp_path):
    write(tmp_path / "elsewhere/.claude/skills/foreign")
    (desk.project / "linked").symlink_to(tmp_path / "elsewhere")
    assert desk.names() == []


AGENT = "---\nname: reviewer\nskills: {}\n---\nReview.\n"


@pytest.mark.parametrize("named", ["first, second", "first second", "[first, second]", "\n  - first\n  - second"])
def test_sub_agent_preloads_its_skills(desk, named):
    for name in ("first", "second", "third"):
        write(desk.project / ".claude/skills" / name)
    found = preload(AGENT.format(named).encode(), desk.catalog())
    assert [loaded.skill.name for loaded in found] == ["first", "second"]
    assert preload(b"---\nname: plain\n---\n", desk.catalog()) == ()


def test_sub_agent_gets_no_skill_that_is_refused_to_models(desk):
    write(desk.project / ".claude/skills/mine", disable_model_invocation="true")
    for named, error in (("mine", Refused), ("missing", NotFound), ("{a: b}", FormatError)):
        with pytest.raises(error):
            preload(AGENT.format(named).encode(), desk.catalog())


RULES = {
    "Skill": ["demo", "other", "tools:fix", "tools:ship"],
    "Skill(*)": ["demo", "other", "tools:fix", "tools:ship"],
    "*": ["demo", "other", "tools:fix", "tools:ship"],
    "Skill(demo)": ["demo"],
    " Skill( demo ) ": ["demo"],
    "Skill(demo *)": ["demo"],
    "Skill(demo:*)": ["demo"],
    "Skill(dem*)": ["demo"],
    "Skill(fix)": ["tools:fix"],
    "Skill(tools:fix)": ["tools:fix"],
    "Skill(tools:*)": ["tools:fix", "tools:ship"],
    "Skill(dem)": [],
    "Skill(demo-two)": [],
    "Bash(demo)": [],
    "SkillX(demo)": [],
    "Read": [],
}
PLACES = [".claude/settings.json", ".claude/settings.local.json", "home"]
# Each rule in one place, and one rule in each place: whatever the place, its rules are read alike.
RULES_IN_PLACES = [*((rule, "home") for rule in RULES), *(("Skill(dem*)", place) for place in PLACES[:2])]


def denied(desk):
    desk.install("tools@market")
    for name in ("demo", "other"):
        write(desk.project / f".claude/skills/{name}")


@pytest.mark.parametrize(("rule", "place"), RULES_IN_PLACES)
def test_skill_denied_by_settings_is_for_the_user_only(desk, rule, place):
    denied(desk)
    file = desk.home / ".claude/settings.json" if place == "home" else desk.project / place
    desk.settings(file, permissions={"deny": ["Bash(rm *)", rule], "allow": ["Skill", rule]})
    catalog = desk.catalog()
    assert sorted(each.full_name for each in catalog.skills if each.reach != "active") == RULES[rule]
    for skill in catalog.skills:
        assert load(skill, Request(caller="user")).body
        if skill.full_name in RULES[rule]:
            assert skill.full_name not in section(catalog, desk.host).text
            with pytest.raises(Refused):
                load(skill, Request(caller="model"))


def test_attack_a_repository_cannot_override_a_denial_of_the_user(desk):
    denied(desk)
    desk.settings(desk.home / ".claude/settings.json", permissions={"deny": ["Skill(demo)"], "ask": ["Skill(other)"]})
    for name in ("settings.json", "settings.local.json"):
        desk.settings(
            desk.project / ".claude" / name, permissions={"allow": ["Skill", "Skill(demo)", "Skill(other)"]}
        )
    for name in ("demo", "other"):
        with pytest.raises(Refused):
            load(pick(desk.catalog(), name), Request(caller="model"))


def test_linked_settings_of_a_project_apply(desk):
    """They can only deny. A link to a device is not opened and keeps every skill from the model."""
    denied(desk)
    desk.settings(desk.project / "shared.json", permissions={"deny": ["Skill(demo)"]})
    (desk.project / ".claude/settings.json").symlink_to("../shared.json")
    assert {each.name for each in desk.catalog().skills if each.reach == "enabled"} == {"demo"}
    (desk.project / ".claude/settings.json").unlink()
    (desk.project / ".claude/settings.json").symlink_to("/dev/zero")
    assert {each.reach for each in desk.catalog().skills} == {"enabled"}


def test_skill_that_settings_ask_about_is_loaded_after_consent(desk):
    denied(desk)
    desk.settings(desk.project / ".claude/settings.json", permissions={"ask": ["Skill(demo)"]})
    skill = pick(desk.catalog(), "demo")
    with pytest.raises(Refused):
        load(skill, Request(caller="model"))
    assert load(skill, Request(caller="model", ask=lambda each: True)).body
    assert load(pick(desk.catalog(), "other"), Request(caller="model")).body


@pytest.mark.parametrize(
    "text",
    [
        *(
            "{",
            "[]",
            '{"permissions": []}',
            '{"permissions": {"deny": "Skill"}}',
            '{"permissions": {"ask": [1]}}',
            "\xff",
        ),
        json.dumps({"permissions": {"deny": ["Skill(a)"] * 1001}}),
    ],
    ids=range(7),
)
def test_attack_unreadable_settings_reserve_all_skills_to_the_user(desk, text):
    denied(desk)
    (desk.project / ".claude/settings.json").write_bytes(text.encode("latin-1"))
    catalog = desk.catalog()
    assert {skill.reach for skill in catalog.skills} == {"enabled"}
    assert any("the user's only until it can be read" in problem.message for problem in catalog.problems)


def test_any_number_of_rules_about_other_tools_leaves_settings_readable(desk):
    denied(desk)
    rules = [f"Read(/srv/{number}/**)" for number in range(1001)]
    desk.settings(desk.project / ".claude/settings.json", permissions={"deny": [*rules, "Skill(other)"]})
    assert {skill.full_name: skill.reach for skill in desk.catalog().skills}["demo"] == "active"


def test_disabling_a_skill_leaves_the_settings_of_claude_unchanged(desk):
    denied(desk)
    file = desk.project / ".claude/settings.json"
    desk.settings(file, permissions={"deny": ["Skill(other)"]})
    before = file.read_bytes()
    set_reach(pick(desk.catalog(), "demo"), "disabled", "project", desk.host, desk.around)
    assert file.read_bytes() == before
    assert {skill.full_name: skill.reach for skill in desk.catalog().skills}["demo"] == "disabled"


def plugin_json(desk, **manifest):
    desk.install("tools@market")
    folder = desk.home / ".claude/plugins/cache/tools/market/1.0.0"
    for path in ("admin/audit.md", "admin/deep/sweep.md", "one.md"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("Do it.\n")
    (folder / ".claude-plugin").mkdir()
    (folder / ".claude-plugin/plugin.json").write_text(json.dumps({"name": "tools", **manifest}))
    return folder


@pytest.mark.parametrize(
    ("manifest", "found"),
    [
        ({}, ["ship"]),
        ({"commands": "./admin"}, ["audit", "sweep"]),
        ({"commands": ["./admin/", "./commands/"]}, ["audit", "ship", "sweep"]),
        ({"commands": "./one.md"}, ["one"]),
        ({"commands": ["./one.md", "./admin/audit.md", "./gone.md", "./gone"]}, ["audit", "one"]),
        ({"commands": []}, []),
    ],
    ids=json.dumps,
)
def test_manifest_of_a_plugin_names_its_commands(desk, manifest, found):
    plugin_json(desk, **manifest)
    catalog = desk.catalog()
    assert sorted(each.name for each in catalog.skills if each.is_command) == found
    assert {each.namespace for each in catalog.skills} == {"tools"}
    assert catalog.problems == ()
    for skill in catalog.skills:
        assert load(skill).body


@pytest.mark.parametrize(
    "path",
    [
        *(
            "../../../../../../evil",
            "./../evil",
            "./admin/../../evil",
            "/etc",
            "~/evil",
            "admin",
            "",
            ".",
            "..",
            "./\0",
        ),
        *("./out", "./out/evil.md", 1, None, {"audit": {"source": "./one.md"}}, ["./one.md"]),
    ],
    ids=json.dumps,
)
def test_attack_commands_outside_of_the_plugin_are_refused(desk, path):
    folder = plugin_json(desk, commands=[path])
    evil = folder.parent / "evil"
    evil.mkdir()
    (evil / "evil.md").write_text("Evil.\n")
    (folder / "out").symlink_to(evil)
    catalog = desk.catalog()
    assert [each.full_name for each in catalog.skills] == ["tools:fix"]
    assert any("plugin.json" in problem.path for problem in catalog.problems)


def test_attack_linked_commands_of_a_plugin_are_refused(desk):
    folder = plugin_json(desk, commands=["./here.md", "./out.md"])
    (desk.home / "secret.md").write_text("Secret.\n")
    (folder / "out.md").symlink_to(desk.home / "secret.md")
    (folder / "here.md").symlink_to(folder / "one.md")
    catalog = desk.catalog()
    assert [each.full_name for each in catalog.skills] == ["tools:fix"]
    assert len(catalog.problems) == 2


@pytest.mark.parametrize("text", ["{", "\xff", '{"a": 1, "a": 2}'])
def test_attack_an_unreadable_plugin_json_gives_no_commands(desk, text):
    folder = plugin_json(desk)
    (folder / ".claude-plugin/plugin.json").write_text(text, "latin-1")
    catalog = desk.catalog()
    assert [each.full_name for each in catalog.skills] == ["tools:fix"]
    assert len(catalog.problems) == 1


def test_folder_of_a_command_is_not_part_of_its_name(desk):
    for path in ("ship.md", "front/style.md", "front/deep/check.md"):
        file = desk.project / ".claude/commands" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("Do it.\n")
    assert sorted(desk.names()) == ["check", "ship", "style"]

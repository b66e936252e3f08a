"""The reach of skills: the matrix, the state of skillhub, and the files of agents, read and written."""

from __future__ import annotations

import json
import os
import tomllib
from contextlib import suppress
from functools import partial
from itertools import count

import pytest

from skillhub.errors import FormatError, LinkLeavesProject, Refused, StateError, UsageError
from skillhub.formats import json as jsonc
from skillhub.model.hosts import profile
from skillhub.model.skill import PermissionRule, Skill, permitted
from skillhub.runtime.agent import answers, catalog_of, remember
from skillhub.runtime.discover import Surroundings
from skillhub.runtime.loading import Request, load
from skillhub.runtime.mention_resolver import mentioned
from skillhub.runtime.state import FORMS, Layer, set_reach, with_reach
from tests.install.test_concurrency import at_once
from tests.runtime.test_discover import write
from tests.support.effort import at_most
from tests.support.hearing import heard_by
from tests.support.killing import Killed, Killer


class Desk:
    """A project, a home, and an agent."""

    def __init__(self, folder, host):
        self.project, self.home, self.state = folder / "project", folder / "home", folder / "state"
        (self.project / ".git").mkdir(parents=True)
        self.home.mkdir()
        self.profile = profile(host)
        self.around = Surroundings(cwd=str(self.project), home=str(self.home), state=str(self.state))

    def catalog(self):
        return catalog_of(self.profile, self.around)

    def skill(self, name="demo"):
        (skill,) = self.catalog().named(name)
        return skill

    def set(self, reach, scope="user", name="demo"):
        set_reach(self.skill(name), reach, scope, self.profile, self.around)


@pytest.fixture
def desk(tmp_path, request):
    desk = Desk(tmp_path, getattr(request, "param", "agents"))
    folder = {"gencode": ".gen", "opencode": ".opencode"}.get(desk.profile.id, ".agents")
    write(desk.project / folder / "skills/demo")
    return desk


@pytest.mark.parametrize("of_model", [True, False])
@pytest.mark.parametrize("of_user", [True, False])
@pytest.mark.parametrize("reach", ["disabled", "enabled", "active"])
def test_reach_and_invocation_decide_for_user_and_model(of_model, of_user, reach):
    skill = Skill(
        name="demo",
        path="/demo",
        scope="user",
        state="enabled",
        invocation="model" if of_model else "user",
        user_invocable=of_user,
    )
    (seen,) = with_reach([skill], [Layer(names={"demo": reach})])
    by_user = seen.state == "enabled" and seen.user_invocable
    by_model = seen.reach == "active"
    assert by_user == (reach != "disabled" and of_user)
    assert by_model == (reach == "active" and of_model)


@pytest.mark.parametrize("desk", ["gencode"], indirect=True)
@pytest.mark.parametrize("reach", ["disabled", "enabled"])
def test_attack_a_linked_file_of_an_agent_is_not_written(desk, reach, tmp_path):
    skill = desk.skill()
    os.rename(desk.project / ".gen", tmp_path / "gen")
    (tmp_path / "gen/skills.json").write_text("{}")
    (desk.project / ".gen").symlink_to(tmp_path / "gen")
    with pytest.raises(LinkLeavesProject):
        set_reach(skill, reach, "project", desk.profile, desk.around)
    assert (tmp_path / "gen/skills.json").read_text() == "{}"
    assert not desk.state.exists()


HOSTS = ["agents", "gencode", "codex", "opencode"]


@pytest.mark.parametrize("desk", HOSTS, indirect=True)
@pytest.mark.parametrize("scope", ["user", "project"])
def test_reach_can_be_set_and_reset(desk, scope):
    for reach in ("disabled", "enabled", "active", "disabled", "active"):
        desk.set(reach, scope)
        assert desk.skill().reach == reach


@pytest.mark.parametrize("desk", HOSTS, indirect=True)
@pytest.mark.parametrize(("reach", "scope"), [("disable", "user"), ("disabled", "extra"), ("disabled", "repo")])
def test_reach_and_scope_that_do_not_exist_are_refused(desk, reach, scope):
    with pytest.raises(UsageError, match="expected one of"):
        desk.set(reach, scope)
    if reach == "disabled":
        with pytest.raises(UsageError, match="expected one of project, user, found"):
            remember(desk.skill(), False, scope, desk.profile, desk.around)
    assert desk.skill().reach == "active"
    assert not desk.state.exists()


@pytest.mark.parametrize("desk", HOSTS, indirect=True)
def test_project_takes_precedence_over_the_user(desk):
    desk.set("disabled", "user")
    if desk.profile.id in ("agents", "gencode"):
        desk.set("active", "project")
        assert desk.skill().reach == "active"
    desk.set("disabled", "project")
    desk.set("active", "user")
    assert desk.skill().reach == "disabled"


def test_state_of_a_project_is_stored_outside_of_it(desk):
    desk.set("disabled", "project")
    assert sorted(os.listdir(desk.project)) == [".agents", ".git"]
    assert len(os.listdir(desk.state / "skills")) == 1


@pytest.mark.parametrize("desk", ["gencode"], indirect=True)
def test_file_of_gencode_is_read_and_written_in_its_form(desk):
    place = desk.home / ".gen/skills.json"
    place.parent.mkdir()
    other = {"git:other": "active", "later": {"state": "pinned"}}
    place.write_text(text := json.dumps({"skills": {"demo": "enable", **other}, "more": 1}, indent=1))
    assert desk.skill().reach == "enabled"
    desk.set("disabled")
    assert place.read_text() == text.replace('"enable"', '"disable"')
    desk.set("active")
    assert place.read_text() == text.replace('"enable"', '"active"')


CONFIG = """# mine
model = "x"

[[skills.config]]
name = "other"
enabled = false

# about servers
[mcp_servers.a]
command = "a"
"""


@pytest.mark.parametrize("desk", ["codex"], indirect=True)
def test_skill_that_codex_disables_stays_disabled_whatever_the_project_says(desk):
    desk.set("active", "project")
    desk.set("disabled", "user")  # as the user does in Codex
    assert desk.skill().state == "disabled"
    with pytest.raises(StateError, match="stays disabled"):
        desk.set("active", "project")
    desk.set("active", "user")
    assert desk.skill().reach == "active"


@pytest.mark.parametrize("desk", ["codex"], indirect=True)
def test_config_of_codex_keeps_all_other_lines(desk):
    place = desk.home / ".codex/config.toml"
    place.parent.mkdir()
    place.write_text(CONFIG)
    desk.set("disabled")
    path = str(desk.project / ".agents/skills/demo/SKILL.md")
    assert place.read_text().startswith(CONFIG)
    assert tomllib.loads(place.read_text())["skills"]["config"][1] == {"path": path, "enabled": False}
    desk.set("active")
    assert place.read_text() == CONFIG
    assert desk.skill().reach == "active"


@pytest.mark.parametrize("text", ["a = 1", "a = 1\n", "a = 1\n\n", "\ufeffa = 1\r\n# end\r\n", CONFIG])
@pytest.mark.parametrize("added", ["", "\n[mcp_servers.b]\ncommand = 'b'\n"])
@pytest.mark.parametrize("desk", ["codex"], indirect=True)
def test_config_of_codex_is_as_before_once_a_skill_is_enabled_again(desk, text, added):
    place = desk.home / ".codex/config.toml"
    place.parent.mkdir()
    place.write_bytes(text.encode())
    desk.set("disabled")
    disabled = place.read_bytes()
    assert disabled.count(b"\r\n") in (0, disabled.count(b"\n"))
    if added and text.endswith("\n"):
        place.write_bytes(disabled + added.encode())
        text += added
    desk.set("active")
    assert place.read_bytes() == text.encode()


@pytest.mark.parametrize("desk", ["codex", "opencode", "gencode"], indirect=True)
def test_files_stay_unchanged_if_one_of_them_cannot_be_edited(desk):
    desk.set("enabled")
    (own,) = (desk.state / "skills").iterdir()
    own.write_text("{")
    before = {path: path.read_bytes() for path in desk.home.rglob("*") if path.is_file()}
    skill = Skill(name="demo", path=str(desk.project / "demo"), scope="user", state="enabled", managed=False)
    with pytest.raises(FormatError):
        set_reach(skill, "disabled", "user", desk.profile, desk.around)
    assert {path: path.read_bytes() for path in desk.home.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("selector", ['name = "demo"', "path = {path}"])
@pytest.mark.parametrize("desk", ["codex"], indirect=True)
def test_entries_of_codex_match_by_name_or_path(desk, selector):
    place = desk.home / ".codex/config.toml"
    place.parent.mkdir()
    path = json.dumps(str(desk.project / ".agents/skills/demo/SKILL.md"))
    block = f"[[skills.config]]\n{selector.format(path=path)}\nenabled = false\n# note\n\n"
    place.write_text(CONFIG + block)
    assert desk.skill().reach == "disabled"
    desk.set("active")
    assert place.read_text() == CONFIG + "# note\n\n"


def test_config_of_codex_escapes_a_path_for_toml():
    skill = Skill(name="demo", path="/home/a\x7fb/demo", scope="user", state="enabled", managed=False)
    text = FORMS["codex"].edit("", skill, "disabled", "config.toml")
    assert FORMS["codex"].parse(text, "config.toml").reach(skill) == "disabled"


@pytest.mark.parametrize("desk", ["codex"], indirect=True)
def test_config_of_codex_in_another_form_is_not_edited(desk):
    place = desk.home / ".codex/config.toml"
    place.parent.mkdir()
    text = 'skills = {config = [{name = "demo", enabled = false}]}\n'
    place.write_text(text)
    with pytest.raises(FormatError):
        desk.set("active")
    assert place.read_text() == text
    assert desk.skill().reach == "disabled"


@pytest.mark.parametrize("desk", ["opencode"], indirect=True)
def test_config_of_opencode_keeps_its_comments(desk):
    place = desk.project / "opencode.jsonc"
    place.write_text('{\n  // mine\n  "permission": {"skill": {"internal-*": "ask"}}\n}\n')
    desk.set("disabled", "project")
    assert "// mine" in place.read_text()
    data = jsonc.parse(place.read_text(), "x").data
    assert data == {"permission": {"skill": {"internal-*": "ask", "demo": "deny"}}}
    assert desk.skill().reach == "disabled"
    desk.set("active", "project")
    assert jsonc.parse(place.read_text(), "x").data == {"permission": {"skill": {"internal-*": "ask"}}}


@pytest.mark.parametrize(
    ("rules", "after"),
    [
        ('{"demo": "ask"}', '{"demo": "ask"}'),
        ('{"*": "deny", "demo": "allow"}', '{"*": "deny", "demo": "allow"}'),
        ('{"*": "allow", "demo": "ask", "x": "ask"}', '{"*": "allow", "demo": "ask", "x": "ask"}'),
        ('{"*": "allow", "demo": /* mine */ "ask", // why\n "x": "ask"}',) * 2,
        ('{"demo": "ask", "*": "allow"}', '{"*": "allow"}'),  # the other rule decided, and does again
    ],
)
@pytest.mark.parametrize("scope", ["project", "user"])
@pytest.mark.parametrize("desk", ["opencode"], indirect=True)
def test_rule_on_one_skill_is_back_once_it_is_enabled_again(desk, scope, rules, after):
    place = (desk.project if scope == "project" else desk.home / ".config/opencode") / "opencode.json"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(f'{{"permission": {{"skill": {rules}}}}}')
    permission = desk.skill().permission
    desk.set("disabled", scope)
    desk.set("disabled", scope)
    assert desk.skill().state == "disabled"
    desk.set("active", scope)
    assert place.read_text() == f'{{"permission": {{"skill": {after}}}}}'
    assert desk.skill().permission == permission
    assert all("replaced" not in path.read_text() for path in (desk.state / "skills").iterdir())


@pytest.mark.parametrize("reach", ["disabled", "active"])
@pytest.mark.parametrize("desk", ["opencode"], indirect=True)
def test_interruption_at_any_step_forgets_no_rule(desk, reach):
    place = desk.project / "opencode.json"
    place.write_text(text := '{"permission": {"skill": {"demo": "ask", "x": "ask"}}}')
    for step in count():
        desk.set("active" if reach == "disabled" else "disabled", "project")
        killer = Killer(step)
        with suppress(Killed), heard_by(killer.hear):
            desk.set(reach, "project")
        if killer.left is not None:
            assert step == (3 if reach == "disabled" else 2)
            break
        desk.set(reach, "project")
        desk.set("active", "project")
        assert place.read_text() == text


@pytest.mark.skipif(not hasattr(os, "fork"), reason="each command runs in a forked child")
def test_simultaneous_changes_of_two_skills_are_both_kept(desk):
    names = [f"s{number}" for number in range(8)]
    for name in names:
        write(desk.project / ".agents/skills" / name)
    skills = [desk.skill(name) for name in names]
    acts = [partial(set_reach, each, "disabled", "project", desk.profile, desk.around) for each in skills]
    answers_too = [partial(remember, each, True, "project", desk.profile, desk.around) for each in skills]
    assert at_once(*acts, *answers_too) == [0] * 16
    assert [desk.skill(name).reach for name in names] == ["disabled"] * 8
    assert answers(desk.profile, desk.around, skills) == dict.fromkeys(names, True)


@pytest.mark.parametrize("desk", ["opencode"], indirect=True)
def test_change_of_another_program_meanwhile_is_not_overwritten(desk, monkeypatch):
    place = desk.project / "opencode.json"
    place.write_text("{}")
    seen = FORMS["opencode"]

    def edit(text, *rest):
        place.write_text('{"theme": "dark"}')
        return seen.edit(text, *rest)

    skill = desk.skill()
    monkeypatch.setitem(FORMS, "opencode", seen._replace(edit=edit))
    with pytest.raises(StateError, match="another program changed the file"):
        set_reach(skill, "disabled", "project", desk.profile, desk.around)
    assert place.read_text() == '{"theme": "dark"}'
    assert desk.skill().reach == "active"


@pytest.mark.parametrize("desk", ["opencode"], indirect=True)
def test_rule_that_the_user_removed_does_not_come_back(desk):
    place = desk.project / "opencode.json"
    place.write_text('{"permission": {"skill": {"demo": "ask"}}}')
    desk.set("disabled", "project")
    place.write_text("{}")
    desk.set("disabled", "project")
    desk.set("active", "project")
    assert json.loads(place.read_text()) == {"permission": {"skill": {}}}


@pytest.mark.parametrize("desk", ["opencode"], indirect=True)
def test_rule_with_a_wildcard_is_not_overridden(desk):
    place = desk.project / "opencode.json"
    place.write_text('{"permission": {"skill": {"d*": "deny"}}}')
    assert desk.skill().reach == "disabled"
    with pytest.raises(StateError, match="stays disabled"):
        desk.set("active", "project")
    assert json.loads(place.read_text()) == {"permission": {"skill": {"d*": "deny"}}}


@pytest.mark.parametrize(
    ("permission", "data"),
    [
        ('{"skill": {"*": "ask"}}', "ask"),
        ('"ask"', "ask"),
        ('{"*": "ask"}', "ask"),
        ('{"sk*": "ask"}', "ask"),
        ('{"skill": {"*": "deny", "demo": "ask"}}', "ask"),
        ('{"skill": {"*": "deny", "demo": "allow"}}', "allow"),
        ('{"skill": {"demo": "allow", "*": "deny"}}', "deny"),
        ('{"skill": {"demo": "deny", "*": "allow"}}', "allow"),
        ('{"skill": {"demo": "ask", "d*": "allow"}}', "allow"),
        ('{"*": "deny", "skill": {"other": "allow"}}', "deny"),
        ('{"*": "deny", "skill": {"demo": "allow"}}', "allow"),
        ('{"skill": {"demo": "allow"}, "*": "deny"}', "deny"),
        ('{"*": "deny", "bash": "allow"}', "deny"),
        ('{"*": "deny", "skill": {}}', "deny"),
        ('{"*": "ask", "skill": "allow"}', "allow"),
        ('{"bash": "deny", "edit": {"*": "deny"}}', "allow"),
        ('{"skill": {"dem?": "ask"}}', "ask"),
        ('{"skill": {"Demo": "deny"}}', "allow"),
    ],
)
@pytest.mark.parametrize("desk", ["opencode"], indirect=True)
def test_last_matching_rule_of_opencode_counts(desk, permission, data):
    (desk.project / "opencode.json").write_text(f'{{"permission": {permission}}}')
    skill = desk.skill()
    assert (skill.permission, skill.state) == (
        "allow" if data == "deny" else data,
        {"deny": "disabled"}.get(data, "enabled"),
    )
    if data == "allow":
        assert load(skill).body
        return
    for caller in ("user", "model"):
        with pytest.raises(Refused):
            load(skill, Request(caller=caller))


@pytest.mark.parametrize("desk", ["opencode"], indirect=True)
def test_skill_with_permission_ask_is_loaded_after_consent(desk):
    (desk.project / "opencode.json").write_text('{"permission": {"skill": {"*": "ask"}}}')
    skill, asked = desk.skill(), []
    with pytest.raises(Refused, match="require asking"):
        load(skill, Request(caller="model"))
    with pytest.raises(Refused, match="user refuses"):
        load(skill, Request(caller="model", ask=lambda each: asked.append(each.name)))
    assert load(skill, Request(caller="model", ask=lambda _: True)).body
    assert asked == ["demo"]
    remember(skill, True, "project", desk.profile, desk.around)
    assert load(desk.skill(), Request(caller="model")).body
    remember(skill, False, "project", desk.profile, desk.around)
    assert desk.skill().state == "disabled"


@pytest.mark.parametrize("desk", ["opencode"], indirect=True)
def test_attack_a_repository_cannot_lift_a_deny_or_answer_for_the_user(desk):
    user = desk.home / ".config/opencode/opencode.json"
    user.parent.mkdir(parents=True)
    user.write_text('{"permission": {"skill": {"demo": "deny"}}}')
    text = '{"permission": {"skill": {"demo": "allow"}}, "skills": {}, "answers": {"demo": true}}'
    (desk.project / "opencode.json").write_text(text)
    assert desk.skill().state == "disabled"
    user.write_text('{"permission": {"skill": {"demo": "ask"}}}')
    (desk.project / "opencode.json").write_text('{"answers": {"demo": true}}')
    assert desk.skill().permission == "ask"


@pytest.mark.parametrize("desk", ["opencode"], indirect=True)
def test_folders_in_the_config_of_opencode_are_searched(desk):
    write(desk.project / "more/extra-one")
    (desk.project / "opencode.json").write_text('{"skills": {"paths": ["more", "~/none"]}}')
    assert desk.skill("extra-one").scope == "extra"


@pytest.mark.parametrize("desk", ["gencode", "codex", "opencode"], indirect=True)
@pytest.mark.parametrize("text", ["{[", "\xff", "<<<<<<< mine\n", "[]", " " * (1 << 21)])
def test_attack_an_unreadable_file_of_an_agent_enables_no_skill(desk, text):
    place = desk.home / desk.profile.states[-1].path.removeprefix("~/")
    place.parent.mkdir(parents=True, exist_ok=True)
    desk.set("disabled", "user")
    place.write_text(text, "latin-1")
    catalog = desk.catalog()
    assert [(skill.name, skill.reach) for skill in catalog.skills] == [("demo", "disabled")]
    (problem,) = catalog.problems
    assert problem.path == str(place)
    assert "every skill is disabled until it can be read" in problem.message
    assert "settings" in mentioned("$demo", catalog).mentions[0].message
    with pytest.raises(Refused, match="disabled") as refused:
        load(catalog.skills[0])
    assert "settings" in refused.value.hint


@pytest.mark.parametrize("desk", ["opencode"], indirect=True)
def test_attack_a_file_of_more_than_1000_rules_enables_no_skill(desk):
    for number_of, reach in ((1000, "active"), (1001, "disabled")):
        rules = {f"*{number}": "allow" for number in range(number_of)}
        for permission in (rules, {"skill": rules}):
            (desk.project / "opencode.json").write_text(json.dumps({"permission": permission}))
            assert desk.skill().reach == reach


def test_attack_an_unreadable_state_of_skillhub_enables_no_skill(desk):
    desk.set("disabled", "user")
    (desk.state / "skills/user.json").write_text('{"skills": {"demo": "disa')
    assert desk.skill().reach == "disabled"


@pytest.mark.parametrize(
    ("desk", "text"),
    [
        *(("gencode", f'{{"skills": {{"demo": {word}}}}}') for word in ('"disabeld"', "false", "null")),
        ("codex", '[[skills.config]]\nname = "demo"\nenabled = "no"\n'),
        *(
            ("opencode", f'{{"permission": {word}}}')
            for word in (
                '"deny"',
                '{"*": "deny"}',
                '{"skill": "no"}',
                '{"skill": {"demo": "denied"}}',
                '{"skill": []}',
            )
        ),
    ],
    indirect=["desk"],
)
def test_attack_an_unknown_value_disables_the_skill(desk, text):
    place = desk.home / desk.profile.states[-1].path.removeprefix("~/")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    assert desk.skill().reach == "disabled"


def test_linked_file_of_the_project_is_not_read(tmp_path):
    desk = Desk(tmp_path, "gencode")
    write(desk.project / ".gen/skills/demo")
    (tmp_path / "secret").write_text('{"skills": {"demo": "active"}}')
    (desk.project / ".gen/skills.json").symlink_to(tmp_path / "secret")
    assert desk.skill().reach == "disabled"
    assert ["link" in problem.message for problem in desk.catalog().problems] == [True]


@pytest.mark.parametrize("desk", ["gencode", "codex", "opencode"], indirect=True)
def test_linked_file_of_the_user_is_read_and_written(desk, tmp_path):
    link, kept = desk.home / desk.profile.states[-1].path.removeprefix("~/"), tmp_path / "dotfiles"
    link.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text("")
    link.symlink_to(kept)
    for reach in ("active", "disabled"):
        desk.set(reach, "user")
        assert (desk.skill().reach, desk.catalog().problems) == (reach, ())
    assert link.is_symlink() and kept.read_text()


@pytest.mark.parametrize("desk", ["agents", "gencode"], indirect=True)
def test_answer_of_the_project_precedes_that_of_the_user(desk):
    skill = desk.skill()
    assert answers(desk.profile, desk.around) == {}
    remember(skill, True, "user", desk.profile, desk.around)
    assert permitted(skill, [PermissionRule("*", "ask")], answers(desk.profile, desk.around, [skill])) == "allow"
    desk.set("enabled", "project")
    remember(skill, False, "project", desk.profile, desk.around)
    assert answers(desk.profile, desk.around) == {"demo": False}
    assert permitted(skill, [PermissionRule("*", "ask")], answers(desk.profile, desk.around)) == "deny"
    assert desk.skill().reach == "enabled"
    assert (
        not (desk.project / ".gen/skills.json").exists()
        or "answers" not in (desk.project / ".gen/skills.json").read_text()
    )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("text", ["", "\x00", "[", "{}", "[]", '"x"', '{"skills": []}', "skills = 3", "a=1\n" * 9])
def test_any_text_is_read_or_refused(form, text):
    try:
        FORMS[form].parse(text, "file")
    except FormatError as error:
        assert error.where.startswith("file")


def test_attack_a_deeply_nested_key_is_refused_fast():
    with at_most(1), pytest.raises(FormatError, match="at most 100 levels"):
        FORMS["codex"].parse("a." * 120_000 + "a = 1", "config.toml")

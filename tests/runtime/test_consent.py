"""Stored answers about skills whose host says ``ask``: a yes is for the files that the user allowed, no others."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest

from skillhub.errors import Refused, StateError
from skillhub.model.hosts import profile
from skillhub.model.skill import PermissionRule, permitted
from skillhub.runtime.agent import answers, catalog_of, remember
from skillhub.runtime.discover import Surroundings
from skillhub.runtime.loading import Request, load, pick
from tests.runtime.test_discover import write
from tests.support.locked import agreed

HOST = profile("opencode")
RULES = [PermissionRule("*", "ask")]


class Desk:
    """A project whose OpenCode asks about each skill, and the skill ``demo`` in it, which is in no lock."""

    def __init__(self, folder):
        self.project, self.state = folder / "project", folder / "state"
        self.folder = self.project / ".opencode/skills/demo"
        (self.project / ".git").mkdir(parents=True)
        (folder / "home").mkdir()
        self.around = Surroundings(cwd=str(self.project), home=str(folder / "home"), state=str(self.state))
        write(self.folder)
        (self.folder / "scripts").mkdir()
        (self.folder / "scripts/run.sh").write_text("echo 1\n")
        (self.project / "opencode.json").write_text('{"permission": {"skill": {"*": "ask"}}}')

    def skill(self):
        (skill,) = catalog_of(HOST, self.around).named("demo")
        return skill

    def remember(self, skill=None, allowed=True, scope="project"):
        remember(skill or self.skill(), allowed, scope, HOST, self.around)

    def stored(self):
        (file,) = [each for each in self.state.glob("skills/*.json") if each.name != "user.json"]
        return file


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path)


def change(folder, how):
    script = folder / "scripts/run.sh"
    if how == "changed":
        script.write_text("echo 2\n")
    elif how == "added":
        (folder / "scripts/more.sh").write_text("")
    elif how == "removed":
        script.unlink()
    elif how == "executable":
        script.chmod(0o755)
    elif how == "in a folder of tools":
        (folder / "node_modules").mkdir()
        (folder / "node_modules/index.js").write_text("")
    elif how == "a link":
        (folder / "link").symlink_to("/etc")
    elif how == "instructions":
        (folder / "SKILL.md").write_text((folder / "SKILL.md").read_text() + "More.\n")


CHANGES = ["changed", "added", "removed", "executable", "in a folder of tools", "a link", "instructions"]


@pytest.mark.parametrize("scope", ["project", "user"])
@pytest.mark.parametrize("how", CHANGES)
def test_attack_a_changed_skill_is_asked_about_again(desk, how, scope):
    desk.remember(scope=scope)
    before = desk.skill()
    assert before.permission == "allow" and load(before).body
    change(desk.folder, how)
    now = desk.skill()
    assert now.permission == "ask"
    for skill in (before, now):  # a host may keep its catalogue for as long as it runs
        with pytest.raises(Refused, match="require asking"):
            load(skill)
    assert load(now, Request(ask=lambda _: True)).body


def test_skill_with_the_allowed_files_again_is_not_asked_about(desk):
    desk.remember()
    change(desk.folder, "changed")
    assert desk.skill().permission == "ask"
    (desk.folder / "scripts/run.sh").write_text("echo 1\n")
    assert load(desk.skill()).body


def test_attack_another_project_with_a_skill_of_that_name_is_asked_about(desk, tmp_path):
    desk.remember(scope="user")
    other = Desk(tmp_path / "other")
    other.around = replace(other.around, home=desk.around.home, state=desk.around.state)
    assert other.skill().permission == "allow"  # the same files
    change(other.folder, "changed")
    assert (other.skill().permission, desk.skill().permission) == ("ask", "allow")


def test_answer_of_an_older_version_asks_again_and_its_no_holds(desk):
    desk.remember()
    file = desk.stored()
    file.write_text(json.dumps({"skills": {}, "answers": {"demo": True}}))
    assert (desk.skill().permission, answers(HOST, desk.around, [desk.skill()])) == ("ask", {})
    file.write_text(json.dumps({"skills": {}, "answers": {"demo": False}}))
    assert (desk.skill().state, answers(HOST, desk.around)) == ("disabled", {"demo": False})


@pytest.mark.parametrize("answer", [None, 1, "", "yes", "sha256:", "sha256:" + "A" * 64, {}, ["sha256:" + "0" * 64]])
def test_attack_an_answer_that_names_no_tree_counts_for_nothing(desk, answer):
    desk.remember()
    desk.stored().write_text(json.dumps({"skills": {}, "answers": {"demo": answer}}))
    assert desk.skill().permission == "ask"


def test_answer_is_about_the_files_that_the_user_was_asked_about(desk):
    def agree(skill):
        change(desk.folder, "added")  # while the question is open
        desk.remember(skill)
        return True

    load(desk.skill(), Request(ask=agree))
    assert desk.skill().permission == "ask"
    (desk.folder / "scripts/more.sh").unlink()
    assert desk.skill().permission == "allow"


def test_instructions_that_change_during_the_question_are_not_loaded(desk):
    def agree(_):
        change(desk.folder, "instructions")
        return True

    with pytest.raises(Exception, match="changed meanwhile"):
        load(desk.skill(), Request(ask=agree))


def test_skill_that_cannot_be_compared_later_is_asked_about_each_time(desk):
    change(desk.folder, "a link")
    with pytest.raises(StateError, match="so that a change of the skill is noticed"):
        desk.remember()
    assert load(desk.skill(), Request(ask=lambda skill: skill.tree is None)).body
    desk.remember(allowed=False)
    assert desk.skill().state == "disabled"


def test_attack_a_skill_of_many_bytes_is_not_read_for_the_answer(desk):
    desk.remember()
    for number in range(2):
        with (desk.folder / f"big{number}").open("wb") as file:
            os.truncate(file.fileno(), 40 << 20)
    assert desk.skill().permission == "ask"
    with pytest.raises(StateError, match="64 MiB"):
        desk.remember()


def test_rules_that_allow_need_no_answer(desk):
    desk.remember()
    change(desk.folder, "changed")
    (desk.project / "opencode.json").write_text('{"permission": {"skill": {"*": "allow"}}}')
    assert desk.skill().permission == "allow" and load(desk.skill()).body


def test_a_host_with_rules_of_its_own_is_told_only_of_unchanged_skills(desk):
    desk.remember()
    skill = desk.skill()
    assert answers(HOST, desk.around) == {}
    assert permitted(skill, RULES, answers(HOST, desk.around, [skill])) == "allow"
    change(desk.folder, "changed")
    assert permitted(skill, RULES, answers(HOST, desk.around, [skill])) == "ask"


def test_attack_a_twin_of_an_allowed_skill_is_not_allowed(desk, tmp_path):
    desk.remember()
    twin = tmp_path / "twin/demo"
    write(twin)
    skill = desk.skill()
    both = [skill, replace(skill, path=str(twin))]
    assert answers(HOST, desk.around, both) == answers(HOST, desk.around, both[::-1]) == {}


def test_a_new_version_of_a_locked_skill_is_asked_about(tmp_path):
    here = agreed(tmp_path)
    here.write("project/opencode.json", json.dumps({"permission": {"skill": {"demo": "ask"}}}))
    before = pick(here.catalog("opencode"), "demo")
    assert before.permission == "ask"
    remember(before, True, "project", "opencode", here.around())
    allowed = pick(here.catalog("opencode"), "demo")
    assert (allowed.permission, load(allowed).body) == ("allow", "Good.\n")
    here.write("project/mine/demo/SKILL.md", "---\nname: demo\ndescription: Good.\n---\nNewer.\n")
    assert here.run("update", "demo", "--yes", "--allow-unsigned").status == 0
    assert pick(here.catalog("opencode"), "demo").permission == "ask"
    with pytest.raises(Refused, match="require asking"):
        load(allowed)

"""Attempts to load blocked skills: folders around and inside of skills, the store, similar names."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from itertools import cycle, product

import pytest

from skillhub.errors import Drifted, NotFound, Refused
from skillhub.model.skill import Skill
from skillhub.project.project import state_key
from skillhub.runtime import (
    Cache,
    Surroundings,
    catalog_of,
    context_inspect,
    load,
    mentioned,
    pick,
    profile,
    section,
    skills_list,
)
from skillhub.runtime.folder import Folder
from skillhub.runtime.walk import stamp_of
from tests.support.forked import REPO
from tests.support.locked import EVIL, HOSTS, Machine, agreed, served_content, serving, twin

OTHER = EVIL.replace("name: demo", "name: zz")


@pytest.fixture
def here(tmp_path):
    return agreed(tmp_path)


def without_entry(here):
    path = here.project / "skillhub.lock"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"skills": {}}))


def cloned(here, folder):
    other = Machine(folder)
    shutil.rmtree(other.project)
    shutil.copytree(here.project, other.project, symlinks=True)
    return other


@pytest.mark.parametrize("root", [".agents/skills/demo", ".agents/skills/demo/references"])
def test_attack_a_root_inside_of_a_locked_skill_is_not_loaded(here, root):
    here.evil(".agents/skills/demo/references/x", OTHER)
    here.write("project/opencode.json", json.dumps({"skills": {"paths": [root]}}))
    assert "EVIL" not in served_content(here, "opencode")[0]
    assert serving("EVIL", here, extra=(str(here.project / root),)) == []


@pytest.mark.parametrize("state", ["enabled", "disabled"])
def test_attack_a_working_folder_inside_of_a_locked_skill_loads_no_other(here, state):
    assert here.run("disable", "demo").status == 0 if state == "disabled" else True
    for root in (".agents/skills", ".claude/skills", ".gen/skills", "skills", "data/skills", ".opencode/skill"):
        here.evil(f".agents/skills/demo/{root}/x", OTHER)
    assert serving("EVIL", here, cwd=str(here.copy_of_demo)) == []


def test_attack_a_link_into_a_locked_skill_is_not_loaded(here):
    here.evil(".agents/skills/demo/references/x", OTHER)
    for root in (".agents/skills", ".claude/skills", ".gen/skills", "skills", "data/skills"):
        (here.project / root).mkdir(parents=True, exist_ok=True)
        (here.project / root / "linked").symlink_to(here.copy_of_demo / "references/x")
    assert serving("EVIL", here) == []


def test_attack_a_skill_nested_in_an_unconsented_one_is_not_loaded(here, tmp_path):
    here.evil(".agents/skills/demo/sub", OTHER)
    other = cloned(here, tmp_path / "other")
    assert serving("EVIL", other) == []
    mine = Skill(
        name="zz", path=str(other.copy_of_demo / "sub"), scope="project", state="enabled", managed=False,
        locks=other.catalog().skills[0].locks,
    )  # fmt: skip
    with pytest.raises(Refused):
        load(mine)


@pytest.mark.parametrize("inner", ["", "/sub", "/sub/deep"])
def test_attack_another_skill_at_the_place_of_a_disabled_one_is_not_loaded(here, inner):
    assert here.run("disable", "demo").status == 0
    for root in (".agents/skills", ".claude/skills", ".gen/skills", "skills", "data/skills", "more"):
        here.evil(f"{root}/demo{inner}", OTHER)
    for extra in ((), (str(here.project / ".agents/skills"), str(here.project / "more"))):
        assert serving("EVIL", here, extra=extra) == []


@pytest.mark.parametrize("taken", ["entry", "lock", "lock and intent"])
def test_attack_a_disabled_skill_removed_from_the_lock_stays_disabled(here, taken):
    assert here.run("disable", "demo").status == 0
    without_entry(here)
    for name in () if taken == "entry" else ("lock",) if taken == "lock" else ("lock", "toml"):
        (here.project / f"skillhub.{name}").unlink()
    for name in ("demo", "zz"):
        here.evil(".agents/skills/demo", EVIL.replace("name: demo", f"name: {name}"))
        here.evil(".agents/skills/demo/sub", OTHER)
        assert serving("EVIL", here) == []


@pytest.mark.parametrize("taken", ["entry", "entry and intent", "lock", "lock and intent"])
def test_the_command_of_a_disabled_skill_that_left_the_lock_makes_it_forgotten(here, taken):
    assert here.run("disable", "demo").status == 0
    without_entry(here)
    (here.project / "skillhub.lock").unlink() if "lock" in taken else None
    (here.project / "skillhub.toml").unlink() if "intent" in taken else None
    here.evil(".agents/skills/demo")
    (skill,) = here.catalog().skills
    assert (skill.held.status, skill.held.command) == ("disabled", "skillhub remove demo")
    assert here.run("sync", "--yes").status == 0
    if taken == "entry and intent":  # only then it is for sure that nobody wants the skill any more
        assert [skill.state for skill in here.catalog().skills] == ["enabled"]
        return
    assert [skill.state for skill in here.catalog().skills] == ["disabled"]
    assert here.run(*skill.held.command.split()[1:], "--yes").status == 0
    here.evil(".agents/skills/demo")
    assert [skill.state for skill in here.catalog().skills] == ["enabled"]


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("above", ["", "/.."])
def test_attack_the_store_as_a_root_gives_no_skill(here, host, above):
    assert here.run("remove", "demo", "--yes").status == 0
    root = f"{here.hub}/data/store{above}"
    here.write("project/opencode.json", json.dumps({"skills": {"paths": [root]}}))
    catalog = here.catalog(host, extra=(root,))
    assert (section(catalog, profile(host)).text, mentioned("$demo", catalog).skills) == ("", ())
    assert {skill.held.status for skill in catalog.skills} <= {"not-agreed"}


LOOKALIKES = [
    "demo\u200b",
    "de\u00admo",
    '"demo\\ufe0f"',
    '"de\\u034fmo"',
    '"demo\\U000e0100"',
    "\uff44\uff45\uff4d\uff4f",
    "\U0001d41demo",
    "d\u0435mo",
    "dem\u043e",
    "\u0501emo",
    "dem\u03bf",
    "dem\u1d0f",
    "DEM\u041e",
    "'local: demo'",
    "'local :demo'",
    "'local\uff1ademo'",
    "'local\u2236demo'",
    "'l\u03bfcal:demo'",
]


def test_attack_a_lookalike_of_a_locked_name_is_not_loaded(here):
    for number, name in enumerate(LOOKALIKES):
        for root in (".agents/skills", ".claude/skills", ".gen/skills", "data/skills"):
            here.evil(f"{root}/aaa-{number}", EVIL.replace("name: demo", f"name: {name}"))
    assert serving("EVIL", here) == []


def test_names_in_other_scripts_are_loaded(here):
    for name in ("d\u00e9mo", "\u0434\u0435\u043c\u043e", "demo-2"):
        here.evil(f".agents/skills/{name}", f"---\nname: {name}\ndescription: x\n---\nMine.\n")
        assert load(pick(here.catalog(), name)).body == "Mine.\n"


@pytest.mark.parametrize("name", ["Demo", "DEMO", "demo"])
def test_attack_a_plugin_cannot_provide_the_short_form_of_a_locked_name(here, name):
    here.evil(".gen/plugins/acme/skills/x", EVIL.replace("name: demo", f"name: {name}"))
    with pytest.raises(NotFound):
        pick(here.catalog("gencode"), name)


@pytest.mark.parametrize(
    "name", ["demo\u200b", "demo ", " demo", "x\n- demo: EVIL", "demo\u202e", "d\u0435mo", "demo\ufe0f", "\u200bx"]
)
def test_attack_a_command_with_an_unsafe_file_name_is_not_listed(here, name):
    here.write(f"project/.claude/commands/{name}.md", "EVIL")
    text, _ = served_content(here, "claude-code")
    assert "EVIL" not in text
    (answer,) = skills_list(profile("claude-code"), [here.around()])["data"]
    assert answer["errors"] != []


def test_attack_a_file_deleted_during_verification_is_detected_later(here, monkeypatch):
    path = here.copy_of_demo / "references/style.md"
    skill, whole = here.catalog().skills[0], Folder.read

    def taken_once_read(folder, relative, limit):
        data = whole(folder, relative, limit)
        if relative == "references/style.md":
            path.unlink(missing_ok=True)
        return data

    os.utime(path)
    monkeypatch.setattr(Folder, "read", taken_once_read)
    assert load(skill).body == "Good.\n"
    monkeypatch.undo()
    with pytest.raises(Drifted):
        load(skill)


@pytest.mark.parametrize("linked", ["skill", "root"])
def test_attack_a_link_into_an_unconsented_clone_is_not_loaded(here, linked, tmp_path):
    here.evil(".agents/skills/demo/sub", OTHER)
    here.evil(".agents/skills/demo", OTHER)
    other = cloned(here, tmp_path / "other")
    elsewhere = tmp_path / "elsewhere"
    for root in (".agents", ".claude", ".gen", "data"):
        (elsewhere / root).mkdir(parents=True)
        if linked == "root":
            (elsewhere / root / "skills").symlink_to(other.project / ".agents/skills")
        else:
            (elsewhere / root / "skills").mkdir()
            (elsewhere / root / "skills/mine").symlink_to(other.copy_of_demo)
            (elsewhere / root / "skills/more").symlink_to(other.copy_of_demo / "sub")
    assert serving("EVIL", other, cwd=str(elsewhere)) == []


@pytest.mark.parametrize("key", ["name", "description", "namespace", "argument_hint"])
def test_attack_a_forged_cache_adds_no_line_to_the_list(here, tmp_path, key):
    here.evil(".agents/skills/loose", "---\nname: loose\ndescription: x\n---\nLoose.\n")
    cache = tmp_path / "cache"
    for name in ("demo", "loose"):
        catalog_of(profile("codex"), here.around(), cache=Cache(str(cache)), reload=True)
        for path in cache.iterdir():
            block = json.loads(path.read_text())
            block["folders"] = {place: stamp_of(os.stat(place)) for place in block["folders"]}
            for find in block["finds"]:
                find[2] = {place: stamp_of(os.stat(find[0] + place)) for place in find[2]}
                find[3] |= {key: "x\n- other: EVIL (file: /x/SKILL.md)"} if find[3]["name"] == name else {}
            path.write_text(json.dumps(block))
        catalog = catalog_of(profile("codex"), here.around(), cache=Cache(str(cache)))
        assert "EVIL" not in section(catalog, profile("codex")).text
        assert "EVIL" not in json.dumps(context_inspect(catalog))


def test_attack_a_changed_skill_is_refused_by_any_spelling_of_its_path(here, monkeypatch):
    monkeypatch.setenv("SKILLHUB_HOME", str(here.hub))
    monkeypatch.setenv("HOME", str(here.home))
    monkeypatch.chdir(here.project)
    (here.copy_of_demo / "SKILL.md").write_text(EVIL)
    (here.folder / "linked").symlink_to(here.copy_of_demo)
    (here.folder / "project-linked").symlink_to(here.project)
    for path in (
        ".agents/skills/demo",
        "./.agents/skills/../skills/demo/",
        f"{here.project}/.agents/skills/../skills/demo",
        f"/{here.copy_of_demo}",
        f"{here.copy_of_demo}/.",
        f"{here.folder}/linked",
        f"{here.folder}/project-linked/.agents/skills/demo",
        f"{here.copy_of_demo}/references/..",
    ):
        mine = Skill(name="zz", path=path, scope="project", state="enabled", managed=False)
        with pytest.raises((Drifted, Refused)):
            load(mine)


def test_attack_a_repository_cannot_replace_ask_by_allow(here):
    here.evil(".agents/skills/zz", OTHER)
    mine = here.home / ".config/opencode/opencode.json"
    mine.parent.mkdir(parents=True)
    for asks in ({"*": "ask"}, {"z*": "ask"}, "ask"):
        mine.write_text(json.dumps({"permission": {"skill": asks}}))
        for allows in ({"permission": "allow"}, {"permission": {"skill": {"*": "allow", "zz": "allow"}}}):
            here.write("project/opencode.json", json.dumps(allows))
            skill = pick(here.catalog("opencode"), "zz")
            assert skill.permission == "ask"
            with pytest.raises(Refused):
                load(skill)
    mine.write_text(json.dumps({"permission": {"skill": "allow"}}))
    here.write("project/opencode.json", json.dumps({"permission": {"skill": "ask"}}))
    assert pick(here.catalog("opencode"), "zz").permission == "ask"


def test_attack_load_needs_yes_where_settings_ask(here):
    here.evil(".agents/skills/zz", OTHER)
    here.write("project/opencode.json", json.dumps({"permission": {"skill": "ask"}}))
    for flags in ((), ("--json",)):
        done = here.run("load", "zz", "--host", "opencode", *flags)
        assert (done.status, "EVIL" in done.out) == (6, False)
    assert "EVIL" in here.run("load", "zz", "--host", "opencode", "--yes").out


@pytest.mark.parametrize("case", ["clone", "enabled", "disabled"])
def test_attack_nested_projects_do_not_hide_the_lock(here, case, tmp_path):
    assert here.run("disable", "demo").status == 0 if case == "disabled" else True
    other = cloned(here, tmp_path / "other") if case == "clone" else here
    for folder in ("sub", ".agents", ".claude"):
        other.write(f"project/{folder}/skillhub.toml", "")
    for root in (".agents/skills", ".claude/skills"):
        other.evil(f"{root}/demo", OTHER if case == "disabled" else EVIL)
        other.evil(f"{root}/aaa")
    (other.project / "sub/.git").mkdir() if case == "clone" else None
    more = (str(other.project / ".agents/skills"),)
    for cwd in ("sub", ".agents"):
        for extra in ((), more):
            assert serving("EVIL", other, cwd=str(other.project / cwd), extra=extra) == []


@pytest.mark.parametrize("cwd", [".", "../project", "sub/.."])
def test_attack_a_linked_copy_is_not_loaded_from_a_relative_folder(here, cwd, monkeypatch):
    (here.project / "sub").mkdir()
    monkeypatch.chdir(here.project)
    here.write("elsewhere/x/SKILL.md", OTHER)
    shutil.rmtree(here.copy_of_demo)
    here.copy_of_demo.symlink_to(here.folder / "elsewhere/x")
    assert serving("EVIL", here, cwd=cwd) == []


@pytest.mark.parametrize("host", HOSTS)
def test_attack_texts_of_a_changed_copy_are_not_shown(here, host, tmp_path):
    head = "---\nname: demo\nnamespace: evil\ndescription: EVIL\nargument-hint: EVIL\n---\n"
    here.write("project/.agents/skills/demo/SKILL.md", head)
    declaration = "interface:\n  display_name: EVIL\n  default_prompt: EVIL\npermissions:\n  network: true\n"
    here.write("project/.agents/skills/demo/agents/openai.yaml", declaration)
    for machine in (here, cloned(here, tmp_path / "other")):
        shown = json.dumps(skills_list(profile(host), [machine.around()]))
        assert not [word for word in ("EVIL", "evil:", "network") if word in shown]


SAYS = """---
name: demo
description: Good.
argument-hint: "[version]"
---
Good.
"""
DECLARES = """dependencies:
  tools:
    - {type: mcp, value: notes, command: notes-server}
interface: {display_name: Notes, short_description: Good notes.}
permissions: {network: false}
"""
# False values of a row of the cache, in the form that a walk writes.
LIES = {
    "name": "other",
    "description": "EVIL",
    "version": "6.6.6",
    "namespace": "evil",
    "argument_hint": "EVIL",
    "invocation": "user",
    "user_invocable": False,
    "declared": {
        "requires": [["mcp", "notes", "EVIL", True, ["stdio", ["sh", "-c", "EVIL"], None, [], None]]],
        "interface": {"display_name": "EVIL", "default_prompt": "EVIL", "icon_small": "EVIL"},
        "permissions": ["network=true"],
    },
}


def lied(cache, name, lies):
    """Overwrite values in each row of the cache about a skill of this name."""
    for path in cache.iterdir():
        block = json.loads(path.read_text())
        block["folders"] = {place: stamp_of(os.stat(place)) for place in block["folders"]}
        for find in block["finds"]:
            find[2] = {place: stamp_of(os.stat(find[0] + place)) for place in find[2]}
            if find[3]["name"] == name:
                find[3] = {key: value for key, value in {**find[3], **lies}.items() if value is not None}
        path.write_text(json.dumps(block))


@pytest.fixture
def declaring(declared, tmp_path):
    return twin(declared, tmp_path)


@pytest.fixture(scope="module")
def declared(tmp_path_factory):
    machine = Machine(tmp_path_factory.mktemp("declared"))
    (machine.project / ".git").mkdir()
    machine.write("project/mine/demo/SKILL.md", SAYS)
    machine.write("project/mine/demo/agents/openai.yaml", DECLARES)
    done = machine.run(
        *(
            "install",
            "./mine/demo",
            "--yes",
            "--allow-unsigned",
            "--accept",
            "needs",
            "--accept",
            "mcp",
            "--mcp",
            "skip",
        )
    )
    assert done.status == 0, done.err
    return machine


HOSTS_OF_ROWS = ("agents", "claude-code", "codex", "codewhale")
# Each lie on one host, and all of them on each.
FORGED = [*zip(cycle(HOSTS_OF_ROWS), LIES), *product(HOSTS_OF_ROWS, ("all", "nothing at all"))]


@pytest.mark.parametrize("left", ["locked", "left the lock"])
@pytest.mark.parametrize(("host", "lie"), FORGED)
def test_attack_a_forged_row_of_the_cache_changes_no_locked_skill(declaring, tmp_path, host, lie, left):
    cache = tmp_path / "cache"
    for folder in (".claude", ".codex"):
        (declaring.project / folder).symlink_to(".agents")
    if left != "locked":
        without_entry(declaring)

    def shown(**more):
        catalog = catalog_of(profile(host), declaring.around(), **more)
        servers = [need.server for skill in catalog.skills for need in skill.requires]
        return context_inspect(catalog), servers, section(catalog, profile(host)).text

    honest = shown()
    assert "EVIL" not in str(honest)
    (skill,) = honest[0]["skills"]["catalog"]
    assert (skill["enabled"], skill["argument_hint"]) == (True, "[version]")
    assert (skill["interface"]["display_name"], skill["permissions"]) == ("Notes", ["network=false"])
    lies = LIES if lie == "all" else dict.fromkeys(LIES) if lie == "nothing at all" else {lie: LIES[lie]}
    shown(cache=Cache(str(cache)), reload=True)
    lied(cache, "demo", lies)
    assert shown(cache=Cache(str(cache))) == honest


def test_old_and_broken_records_of_verified_copies_are_ignored(declaring):
    os.utime(declaring.copy_of_demo / "SKILL.md", (1, 1))
    place = declaring.hub / "state/seen"
    for _ in range(2):
        (honest,) = declaring.catalog().skills
    for path in place.iterdir() if place.exists() else ():
        kept = json.loads(path.read_text())
        for facts in (None, 7, [], {"name": 7}, {"declared": []}, {"argument_hint": "a\nb"}):
            path.write_text(json.dumps({**kept, "facts": facts}))
            assert declaring.catalog().skills == (honest,)
        path.write_text(json.dumps({key: kept[key] for key in ("tree", "stamps")}))
        assert declaring.catalog().skills == (honest,)


_PROBLEMS = """
import sys
from skillhub.runtime import Surroundings, catalog_of, profile
around = Surroundings(cwd=sys.argv[1], home=sys.argv[2], environ={"SKILLHUB_HOME": sys.argv[3]})
print([problem.path for problem in catalog_of(profile("agents"), around).problems])
"""


def test_projects_on_both_sides_of_a_link_have_one_order(here):
    near, far = here.folder / "near", here.folder / "far"
    near.mkdir()
    (far / "project/.git").mkdir(parents=True)
    (near / "project").symlink_to(far / "project")
    for folder in (near, far):
        (here.hub / "state/projects" / f"{state_key(str(folder), 'project')}.json").write_text("{")
    around = Surroundings(cwd=str(near / "project"), home=str(here.home), environ={"SKILLHUB_HOME": str(here.hub)})
    orders = {f"{[problem.path for problem in catalog_of(profile('agents'), around).problems]}\n"}
    for seed in range(3):
        words = [sys.executable, "-P", "-c", _PROBLEMS, near / "project", here.home, here.hub]
        environ = {**os.environ, "PYTHONHASHSEED": str(seed)}
        orders.add(subprocess.check_output(words, cwd=REPO, env=environ, text=True))
    (order,) = orders
    assert order.count(".json") == 2

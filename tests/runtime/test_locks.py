"""The library loads a skill of a lock only as locked, consented and enabled, by every entry point."""

from __future__ import annotations

import copy
import json
import os
import pickle
import shutil
from dataclasses import asdict, replace
from functools import partial

import pytest

from skillhub import runtime
from skillhub.disk.home import is_project
from skillhub.errors import Drifted, FormatError, NotFound, Refused, SkillhubError, StateError
from skillhub.formats.digest import Digest
from skillhub.model.hosts import Bounds
from skillhub.model.skill import Skill
from skillhub.project.copies import view
from skillhub.runtime import (
    Agreed,
    Cache,
    Request,
    SearchIndex,
    Surroundings,
    catalog_of,
    complete,
    context_inspect,
    load,
    mentioned,
    pick,
    profile,
    profiles,
    rows_of,
    search,
    section,
    skills_list,
)
from skillhub.runtime.agent import catalog_naming
from skillhub.runtime.discover import roots
from skillhub.runtime.folder import Folder
from skillhub.runtime.locks import Locks
from tests.support.effort import calls, files_read
from tests.support.locked import EVIL, Machine, agreed, served_content, serving


@pytest.fixture
def here(tmp_path):
    return agreed(tmp_path)


def test_attack_a_request_for_another_tree_than_the_locked_one_is_refused(here):
    (skill,) = here.catalog().skills
    assert load(skill, agreed=Agreed(skill.tree)).body == "Good.\n"
    with pytest.raises(Drifted, match="found sha256:"):
        load(skill, agreed=Agreed(Digest.of(b"other")))


def test_unchanged_locked_skill_is_listed_and_loaded(here):
    catalog = here.catalog()
    (skill,) = catalog.skills
    assert (skill.state, skill.managed, skill.held) == ("enabled", True, None)
    loaded = load(skill)
    assert (loaded.body, loaded.read("references/style.md")) == ("Good.\n", b"Short.\n")
    assert "Good." in section(catalog, profile("agents")).text


@pytest.mark.parametrize("copied", [asdict, copy.deepcopy, lambda skill: pickle.loads(pickle.dumps(skill))])
def test_copies_of_a_skill_close_no_folder_twice(here, copied):
    skill = pick(here.catalog(), "demo")
    load(skill)
    copied(skill)  # and forgotten
    with open(os.devnull, "rb") as reused:
        assert load(skill).body
        del skill
        assert os.fstat(reused.fileno())


@pytest.mark.skipif(not os.path.isdir("/dev/fd"), reason="the system does not list open files")
def test_what_a_host_keeps_holds_no_open_folder(here):
    here.evil(".agents/skills/loose", "---\nname: loose\ndescription: x\n---\nLoose.\n")
    before = len(os.listdir("/dev/fd"))
    cache = Cache()
    kept = [
        (catalog, *map(load, catalog.skills))
        for catalog in [catalog_of(profile("agents"), here.around(), cache=cache)]
    ]
    assert [len(each) for each in kept] == [3]
    assert len(os.listdir("/dev/fd")) <= before


def test_what_a_host_keeps_can_be_sent_to_another_process(here, monkeypatch):
    monkeypatch.setenv("SKILLHUB_HOME", str(here.hub))
    monkeypatch.setenv("DEMO_SECRET", "swordfish")
    catalog = catalog_of(profile("agents"), here.around(environ={}))
    loaded = load(pick(catalog, "demo"))
    data = pickle.dumps([catalog, loaded])
    assert b"swordfish" not in data
    copied_catalog, copied = pickle.loads(data)
    assert (copied_catalog, copied.body, copied.read("references/style.md")) == (catalog, "Good.\n", b"Short.\n")
    assert load(pick(copied_catalog, "demo")).body == "Good.\n"


def test_a_disabled_skill_comes_after_those_in_folders(here):
    here.evil(".agents/skills/later", "---\nname: later\ndescription: x\n---\nLater.\n")
    assert here.run("disable", "demo").status == 0
    assert [skill.name for skill in here.catalog().skills] == ["later", "demo"]


def test_unlocked_skill_is_loaded(here):
    here.evil(".agents/skills/loose", "---\nname: loose\ndescription: x\n---\nLoose.\n")
    assert load(pick(here.catalog(), "loose")).body == "Loose.\n"


def _body(here):
    (here.copy_of_demo / "SKILL.md").write_text("---\nname: demo\ndescription: Good.\n---\nEVIL\n")


def _frontmatter(here):
    (here.copy_of_demo / "SKILL.md").write_text("---\nname: zz\ndescription: EVIL\n---\nEVIL\n")


def _another_case(here):
    (here.copy_of_demo / "SKILL.md").write_text("---\nname: DEMO\ndescription: EVIL\n---\nEVIL\n")


def _namespace(here):
    (here.copy_of_demo / "SKILL.md").write_text("---\nname: demo\nnamespace: local\ndescription: EVIL\n---\nEVIL\n")


def _file_more(here):
    (here.copy_of_demo / "run.sh").write_text("EVIL\n")


def _file_less(here):
    (here.copy_of_demo / "references/style.md").unlink()


def _execute_bit(here):
    (here.copy_of_demo / "references/style.md").chmod(0o755)


def _other_file(here):
    (here.copy_of_demo / "references/style.md").write_text("EVIL!\n")


def _link_to_another_folder(here):
    here.evil("elsewhere")
    shutil.rmtree(here.copy_of_demo)
    here.copy_of_demo.symlink_to(here.project / "elsewhere")


def _link_inside(here):
    here.evil("elsewhere")
    (here.copy_of_demo / "SKILL.md").unlink()
    (here.copy_of_demo / "SKILL.md").symlink_to(here.project / "elsewhere/SKILL.md")


def _same_size_and_time(here):
    path = here.copy_of_demo / "SKILL.md"
    status = path.stat()
    path.write_bytes(path.read_bytes().replace(b"Good.\n", b"EVIL.\n"))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


DRIFTS = [
    _body,
    _frontmatter,
    _another_case,
    _namespace,
    _file_more,
    _file_less,
    _execute_bit,
    _other_file,
    _link_to_another_folder,
    _same_size_and_time,
]


# A drift is found for all hosts alike.
DRIFTS_OF_HOSTS = [*((each, "agents") for each in DRIFTS), (_body, "codex"), (_body, "opencode")]


@pytest.mark.parametrize(("attack", "host"), DRIFTS_OF_HOSTS, ids=lambda each: getattr(each, "__name__", each))
def test_attack_a_changed_copy_of_a_locked_skill_is_not_loaded(here, attack, host):
    load(here.catalog(host).named("demo")[0])  # a change is detected after a successful load, too
    attack(here)
    text, held = served_content(here, host)
    assert "EVIL" not in text
    assert [*held.values()] == ["drifted"]
    (skill,) = (each for each in here.catalog(host).skills if each.held)
    assert (skill.name, skill.state, skill.description) == ("demo", "disabled", "Good.")
    assert skill.held.command == "skillhub sync"
    with pytest.raises(Drifted):
        load(skill)


def test_attack_a_linked_skill_md_of_a_locked_skill_is_not_read(here):
    _link_inside(here)
    text, _ = served_content(here)
    assert "EVIL" not in text


@pytest.mark.parametrize("attack", DRIFTS, ids=lambda each: each.__name__)
def test_attack_a_copy_changed_after_the_catalogue_is_refused(here, attack):
    catalog = here.catalog()
    attack(here)
    for skill in (*catalog.skills, *mentioned("$demo x", catalog).skills, pick(catalog, "demo")):
        with pytest.raises(Drifted):
            load(skill)


def test_attack_a_file_changed_after_loading_is_refused(here):
    loaded = load(here.catalog().skills[0])
    path = here.copy_of_demo / "references/style.md"
    for change in (lambda: path.write_text("EVIL!!\n"), path.unlink, lambda: path.symlink_to("/etc/passwd")):
        change()
        with pytest.raises(SkillhubError) as caught:
            loaded.read("references/style.md")
        assert caught.value.code in ("drifted", "outside-skill")


def test_attack_a_file_with_a_forged_stamp_is_refused(here):
    loaded = load(here.catalog().skills[0])
    path = here.copy_of_demo / "references/style.md"
    path.write_text("EVIL!\n")
    loaded.folder.stamps.update(type(loaded.folder)(loaded.folder.path).stamps)
    with pytest.raises(Drifted):
        loaded.read("references/style.md")


def test_attack_a_file_added_after_loading_is_not_found(here):
    loaded = load(here.catalog().skills[0])
    (here.copy_of_demo / "late.md").write_text("EVIL\n")
    with pytest.raises(NotFound):
        loaded.read("late.md")


@pytest.mark.parametrize("inner", ["nested", "more/nested", "references/nested"])
def test_attack_a_skill_nested_in_a_locked_one_is_not_loaded(here, inner):
    here.evil(f".agents/skills/demo/{inner}", EVIL.replace("name: demo", "name: nested"))
    text, held = served_content(here)
    assert ("EVIL" in text, held) == (False, {"demo": "drifted"})
    mine = Skill(
        name="nested",
        path=str(here.copy_of_demo / inner),
        scope="project",
        state="enabled",
        managed=False,
        locks=here.catalog().skills[0].locks,
    )
    with pytest.raises(Refused):
        load(mine)


@pytest.mark.parametrize("name", ["demo", "DEMO", "Demo", "local:demo"])
def test_attack_an_imitation_of_a_locked_skill_is_not_loaded(here, name):
    for place in (".claude/skills/demo", ".agents/skills/aaa", ".agents/skills/Demo", "skills/deep/x"):
        here.evil(place, EVIL.replace("name: demo", f"name: {name}"))
    assert serving("EVIL", here) == []


def test_folder_with_a_locked_name_in_capitals_does_not_hold_back_the_locked_skill(here):
    here.evil(".agents/skills/Demo")
    beside = here.project / ".agents/skills/Demo"
    if beside.samefile(here.copy_of_demo):
        pytest.skip("this file system ignores case")
    catalog = here.catalog()
    (skill,) = catalog.skills
    assert (skill.path, skill.state, load(skill).body) == (str(here.copy_of_demo), "enabled", "Good.\n")
    assert [each.path for each in catalog.problems if "has the name of demo" in each.message] == [str(beside)]
    mine = Skill(name="demo", path=str(beside), scope="project", state="enabled", managed=False, locks=skill.locks)
    with pytest.raises(Refused, match="is another skill"):
        load(mine)


@pytest.mark.parametrize("left", [None, "", "no frontmatter", "---\nname: [x\n---\n"])
def test_locked_skill_with_a_damaged_copy_stays_in_the_catalogue_with_the_reason(here, left):
    path = here.copy_of_demo / "SKILL.md"
    path.unlink()
    if left is not None:
        path.write_text(left)
    (skill,) = here.catalog().skills
    assert (skill.path, skill.state, skill.held.status) == (str(here.copy_of_demo), "disabled", "drifted")
    assert (skill.held.reason.startswith("differs"), skill.held.command) == (True, "skillhub sync")
    with pytest.raises(Drifted):
        load(skill)
    assert here.run("sync", "--yes").status == 0
    assert load(here.catalog().skills[0]).body == "Good.\n"


def test_locked_skill_without_its_copy_stays_in_the_catalogue_of_the_hosts_that_read_its_folder(here):
    shutil.rmtree(here.copy_of_demo)
    (skill,) = here.catalog().skills
    assert (skill.held.status, skill.held.reason.startswith("cannot be read")) == ("drifted", True)
    assert here.catalog("pegasus").skills == ()


def test_skills_beyond_the_limit_of_a_folder_are_not_read_one_by_one(here):
    for name in "abc":
        here.evil(f".agents/skills/{name}")
    narrow = replace(profile("agents"), bounds=Bounds(folders=3))
    catalogs = []
    read = files_read(lambda: catalogs.append(catalog_of(narrow, here.around())), str(here.copy_of_demo))
    assert [len(each.unchecked) for each in catalogs] == [1]
    assert (read, catalogs[0].named("demo")) == ({}, ())


def test_attack_a_renamed_and_changed_copy_is_not_loaded(here):
    here.copy_of_demo.rename(here.copy_of_demo.with_name("renamed"))
    (here.copy_of_demo.with_name("renamed") / "SKILL.md").write_text(EVIL)
    text, _ = served_content(here)
    assert "EVIL" not in text


def test_attack_a_changed_copy_is_not_loaded_through_a_link(here):
    (here.project / ".claude").mkdir()
    (here.project / ".claude/skills").symlink_to(here.project / ".agents/skills")
    (here.copy_of_demo / "SKILL.md").write_text("---\nname: zz\ndescription: EVIL\n---\nEVIL\n")
    for host in ("claude-code", "opencode", "codex"):
        text, held = served_content(here, host)
        assert ("EVIL" in text, held.get("demo")) == (False, "drifted")


def test_attack_a_swapped_parent_folder_is_refused(here):
    alias = here.project / "alias"
    alias.symlink_to(here.project / ".agents")
    (skill,) = here.catalog().skills
    met = replace(skill, path=str(alias / "skills/demo"), links=())
    assert load(met).body == "Good.\n"
    here.evil("elsewhere/skills/demo")
    alias.unlink()
    alias.symlink_to(here.project / "elsewhere")
    with pytest.raises(SkillhubError):
        load(met)
    alias.unlink()
    alias.symlink_to(here.project / ".agents")
    assert load(met).body == "Good.\n"


def stored(here):
    """Return the folder of the one tree in the store."""
    (folder,) = (each for each in (here.hub / "data/store").glob("*/*") if each.is_dir())
    return folder


def test_attack_a_link_into_the_store_without_consent_is_not_loaded(here):
    assert here.run("remove", "demo", "--yes").status == 0
    folder = stored(here)
    for name in ("demo", "zz"):
        (here.project / ".agents/skills").mkdir(parents=True, exist_ok=True)
        (here.project / ".agents/skills" / name).symlink_to(folder)
    text, held = served_content(here)
    assert ("Good." in text, set(held.values())) == (False, {"not-agreed"})


def test_skill_linked_into_the_store_is_loaded_and_verified(here):
    assert here.run("remove", "demo", "--yes").status == 0
    done = here.run("install", "./mine/demo", "--yes", "--allow-unsigned", "--link", "symlink")
    assert done.status == 0, done.err
    assert load(here.catalog().skills[0]).body == "Good.\n"
    path = stored(here) / "SKILL.md"
    path.chmod(0o644)
    path.write_text(EVIL)
    text, held = served_content(here)
    assert ("EVIL" in text, held) == (False, {"demo": "drifted"})


def test_attack_a_clone_with_lock_and_copy_is_not_loaded(here, tmp_path):
    other = Machine(tmp_path / "other")
    shutil.rmtree(other.project)
    shutil.copytree(here.project, other.project, symlinks=True)
    for name in ("demo", "zz", "DEMO"):
        other.evil(".agents/skills/demo", EVIL.replace("name: demo", f"name: {name}"))
        text, held = served_content(other)
        assert ("EVIL" in text, held) == (False, {"demo": "not-agreed"})
    (skill,) = other.catalog().skills
    assert skill.held.command == "skillhub install"
    with pytest.raises(Refused, match="not agreed to on this machine"):
        load(skill)
    mine = Skill(
        name="zz", path=str(other.copy_of_demo), scope="project", state="enabled", managed=False, locks=skill.locks
    )
    with pytest.raises(Refused):
        load(mine)


def test_attack_a_lock_with_an_unconsented_tree_is_not_loaded(here):
    (here.copy_of_demo / "SKILL.md").write_text(EVIL)
    listing = here.run("pack", "./.agents/skills/demo", "--json")
    assert listing.status == 0, listing.err
    lock = json.loads((here.project / "skillhub.lock").read_text())
    lock["skills"]["demo"]["tree"] = listing.json["tree"]
    (here.project / "skillhub.lock").write_text(json.dumps(lock))
    text, held = served_content(here)
    assert ("EVIL" in text, held) == (False, {"demo": "not-agreed"})


def test_attack_a_changed_skill_removed_from_the_lock_is_not_loaded(here):
    lock = json.loads((here.project / "skillhub.lock").read_text())
    lock["skills"] = {}
    (here.project / "skillhub.lock").write_text(json.dumps(lock))
    assert "Good." in served_content(here)[0]
    catalog = here.catalog()
    for attack in (_body, _frontmatter):
        attack(here)
        text, held = served_content(here)
        assert ("EVIL" in text, [*held.values()]) == (False, ["drifted"])
        with pytest.raises(Drifted):
            load(catalog.skills[0])


@pytest.mark.parametrize("left", ["skillhub.toml", None])
def test_attack_a_changed_copy_without_its_lock_is_not_loaded(here, left):
    for name in {"skillhub.lock", "skillhub.toml"} - {left}:
        (here.project / name).unlink()
    assert "Good." in served_content(here)[0]
    _body(here)
    text, held = served_content(here)
    assert ("EVIL" in text, held) == (False, {"demo": "drifted"})


@pytest.mark.parametrize("lock", [b"", b"{", b"<<<<<<< HEAD\n{}\n=======\n", b'{"version": 99}', b"\xff\xfe", None])
def test_attack_with_an_unreadable_lock_no_skill_is_loaded(here, lock):
    here.evil(".agents/skills/loose", EVIL.replace("name: demo", "name: loose"))
    catalog = here.catalog()
    path = here.project / "skillhub.lock"
    path.unlink()
    path.mkdir() if lock is None else path.write_bytes(lock)
    text, held = served_content(here)
    assert ("EVIL" in text, "Good" in text) == (False, False)
    assert held == {"demo": "not-agreed", "loose": "not-agreed"}
    assert str(path) in here.catalog().problems[0].path
    for skill in catalog.skills:
        with pytest.raises((FormatError, StateError)):
            load(skill)


def test_a_locked_skill_stays_in_the_catalogue_while_another_lock_cannot_be_read(here):
    (here.hub / "state/skillhub.lock").write_bytes(b"{")  # the user's, not the project's
    text, held = served_content(here)
    assert ("Good" in text, held) == (False, {"demo": "not-agreed"})
    assert {problem.path.partition(":")[0] for problem in here.catalog().problems} == {
        str(here.hub / "state/skillhub.lock")
    }


def test_attack_with_an_unreadable_record_no_locked_skill_is_loaded(here):
    (record,) = (here.hub / "state/projects").glob("*.json")
    record.write_text("{")
    text, held = served_content(here)
    assert ("Good" in text, held) == (False, {"demo": "not-agreed"})


def test_missing_record_means_no_consent(here):
    (record,) = (here.hub / "state/projects").glob("*.json")
    record.unlink()
    text, held = served_content(here)
    assert ("Good" in text, held) == (False, {"demo": "not-agreed"})
    assert served_content(here, environ={"SKILLHUB_HOME": str(here.folder / "nothing")})[1] == {"demo": "not-agreed"}


@pytest.mark.parametrize(
    ("planted", "where"),
    [
        (".git", ".agents"),
        ("skillhub.toml", ".agents"),
        ("skillhub.lock", ".agents"),
        (".git", ".agents/skills"),
        (".git", "sub"),
    ],
)
def test_attack_a_nested_project_does_not_hide_the_lock(here, planted, where):
    folder = here.project / where
    folder.mkdir(exist_ok=True)
    if planted == ".git":
        (folder / planted).mkdir()
    else:
        empty = '{"skills": {}, "sources": {}, "version": 1}\n' if planted.endswith("lock") else ""
        (folder / planted).write_text(empty)
    _frontmatter(here)
    for cwd in (here.project, folder):
        assert serving("EVIL", here, cwd=str(cwd)) == []


@pytest.mark.parametrize("host", ["codex", "claude-code", "opencode"])
def test_attack_a_changed_copy_above_the_working_folder_is_not_loaded(here, host):
    _frontmatter(here)
    here.evil(".claude/skills/zz")
    deep = here.project / "a/b"
    deep.mkdir(parents=True)
    assert "EVIL" not in served_content(here, host, cwd=str(deep))[0]


def test_attack_a_changed_copy_is_not_loaded_from_another_project(here, tmp_path):
    _frontmatter(here)
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / ".agents/skills").mkdir(parents=True)
    extra = (str(here.project / ".agents/skills"),)
    assert "EVIL" not in served_content(here, cwd=str(elsewhere), extra=extra)[0]
    (elsewhere / ".agents/skills/linked").symlink_to(here.copy_of_demo)
    assert "EVIL" not in served_content(here, cwd=str(elsewhere))[0]


def test_attack_a_copy_at_the_place_of_a_disabled_skill_is_not_loaded(here):
    assert here.run("disable", "demo").status == 0
    for name in ("demo", "zz"):
        here.evil(".agents/skills/demo", EVIL.replace("name: demo", f"name: {name}"))
        text, held = served_content(here)
        assert ("EVIL" in text, held) == (False, {"demo": "disabled"})
    assert here.catalog().named("demo")[0].held.command == "skillhub enable demo"


def test_attack_a_copy_at_the_place_of_a_waiting_skill_is_not_loaded(here):
    text = '---\nname: waits\ndescription: x\ncompatibility: x\nmetadata:\n  requires: "env:NOT_THERE"\n---\nEVIL\n'
    here.write("project/mine/waits/SKILL.md", text)
    here.write(
        "project/mine/waits/agents/openai.yaml",
        "dependencies:\n  tools:\n    - type: env_var\n      value: NOT_THERE\n      description: x\n",
    )
    done = here.run("install", "./mine/waits", "--yes", "--allow-unsigned")
    assert done.status == 6, done.out + done.err
    shutil.copytree(here.project / "mine/waits", here.project / ".agents/skills/waits")
    text, held = served_content(here)
    assert ("EVIL" in text, held) == (False, {"waits": "disabled"})
    (skill,) = here.catalog().named("waits")
    assert "has open needs" in skill.why["message"]


def test_lock_of_the_user_applies(here):
    here.write("project/mine/own/SKILL.md", "---\nname: own\ndescription: x\n---\nOwn.\n")
    assert here.run("install", "./mine/own", "--global", "--yes", "--allow-unsigned").status == 0
    assert "Own." in served_content(here)[0]
    (here.home / ".agents/skills/own/SKILL.md").write_text(EVIL.replace("name: demo", "name: zz"))
    text, held = served_content(here)
    assert ("EVIL" in text, held) == (False, {"own": "drifted"})
    (skill,) = here.catalog().named("own")
    assert skill.held.command == "skillhub sync --global"


def test_skill_from_another_search_is_checked_against_its_lock(here, monkeypatch):
    monkeypatch.setenv("SKILLHUB_HOME", str(here.hub))
    monkeypatch.setenv("HOME", str(here.home))
    mine = Skill(name="whatever", path=str(here.copy_of_demo), scope="project", state="enabled", managed=False)
    assert load(mine).body == "Good.\n"
    _body(here)
    with pytest.raises(Drifted):
        load(mine)
    catalog = catalog_of(profile("agents"), Surroundings(cwd=str(here.project), home=str(here.home)))
    assert [skill.held.status for skill in catalog.skills] == ["drifted"]
    assert "EVIL" in load(mine, Request(ignore_locks=True)).body


@pytest.mark.parametrize("attack", DRIFTS, ids=lambda each: each.__name__)
def test_attack_no_other_entry_point_offers_a_changed_skill(here, attack):
    attack(here)
    (answer,) = skills_list(profile("agents"), [here.around()])["data"]
    (row,) = answer["skills"]
    assert (row["name"].removeprefix("local:"), row["enabled"], row["why"]) == ("demo", False, "drifted")
    assert (row["command"], row["message"].count("demo")) != ("", 0)
    catalog = here.catalog()
    (row,) = context_inspect(catalog)["skills"]["catalog"]
    assert (row["enabled"], row["why"]) == (False, "drifted")
    (row,) = section(catalog, profile("agents")).to_json()["skills"]
    assert (row["enabled"], row["listed"], row["why"]) == (False, False, "drifted")
    assert mentioned("$demo", catalog).skills == ()
    offered = complete("$d", 2, catalog)
    assert offered is None or offered.names == ()
    index = SearchIndex.build(rows_of(catalog.skills))
    assert search("demo EVIL", [index]).hits == ()
    index.close()


@pytest.mark.parametrize("host", sorted(profiles()))
def test_attack_a_stale_or_poisoned_cache_loads_no_changed_skill(here, host, tmp_path):
    cache = tmp_path / "cache"
    here.evil("elsewhere", EVIL.replace("name: demo", "name: evil"))
    place = next(root.path for root in roots(profile(host), here.around()) if root.path.startswith(str(here.project)))
    place = os.path.relpath(place, here.project)
    here.evil(f"{place}/loose", "---\nname: loose\ndescription: x\n---\nLoose.\n")
    catalog_of(profile(host), here.around(), cache=Cache(str(cache)))
    _frontmatter(here)
    catalog = catalog_of(profile(host), here.around(), cache=Cache(str(cache)))
    assert [load(skill).body for skill in catalog.skills if skill.state == "enabled"] == ["Loose.\n"]
    assert [*cache.iterdir()] != []
    for path in cache.iterdir():
        kept = path.read_text().replace(f"{place}/loose", "elsewhere")
        path.write_text(kept.replace('"name":"loose"', '"name":"loose","managed":true,"tree":"x"'))
    catalog = catalog_of(profile(host), here.around(), cache=Cache(str(cache)))
    assert [load(skill).body for skill in catalog.skills if skill.state == "enabled"] == ["Loose.\n"]


@pytest.mark.parametrize("row", [0, 1])
def test_attack_a_forged_cache_adds_no_folder_outside_of_the_root(here, tmp_path, row):
    here.evil(".agents/skills/loose", EVIL.replace("name: demo", "name: loose").replace("EVIL", "Loose"))
    here.evil("elsewhere", EVIL.replace("name: demo", "name: loose"))
    cache = tmp_path / "cache"
    root = str(here.project / ".agents/skills")
    os.utime(here.project / ".agents/skills/loose", ns=(1, 1))
    catalog_of(profile("agents"), here.around(), cache=Cache(str(cache)))
    for path in cache.iterdir():
        block = json.loads(path.read_text())
        for find in block["finds"]:
            if find[3] and find[3]["name"] == "loose":
                find[row] = str(here.project / "elsewhere")
                find[2] = {}
        block["folders"] = {}
        path.write_text(json.dumps(block))
    catalog = catalog_of(profile("agents"), here.around(), cache=Cache(str(cache)))
    assert {skill.path.startswith(root) for skill in catalog.skills} == {True}


def test_ignore_locks_loads_a_changed_skill(here):
    _body(here)
    catalog = catalog_of(profile("agents"), here.around(), ignore_locks=True)
    (skill,) = catalog.skills
    assert (skill.managed, load(skill).body) == (False, "EVIL\n")
    (answer,) = skills_list(profile("agents"), [here.around()], ignore_locks=True)["data"]
    assert [row["enabled"] for row in answer["skills"]] == [True]


def test_restored_skill_is_loaded(here):
    _body(here)
    assert here.run("sync", "--yes").status == 0
    assert load(here.catalog().skills[0]).body == "Good.\n"


def test_library_does_not_write_to_the_project_or_its_record(here):
    def kept():
        (record,) = (here.hub / "state/projects").glob("*.json")
        files = [each for each in here.project.rglob("*") if each.is_file()]
        return {each: (each.read_bytes(), each.stat().st_mtime_ns) for each in (*files, record)}

    before = kept()
    _file_more(here)
    (here.copy_of_demo / "run.sh").unlink()
    served_content(here)
    assert kept() == before


def test_attack_hosts_cannot_declare_a_folder_as_written(here):
    _body(here)
    (skill,) = here.catalog().skills
    with pytest.raises(TypeError, match="written"):
        replace(here.around(), written={skill.path: skill.tree})
    assert not [name for name in runtime.__all__ if "writ" in name]
    places = [here.around(), (str(here.project),)]
    known, unknown = Locks(*places, written={skill.path: skill.tree}), Locks(*places)
    assert (known == unknown, known == Locks(*places, written={}), unknown == Locks(*places)) == (False, False, True)
    assert len({known, unknown, Locks(*places)}) == 2


@pytest.mark.parametrize("start", ["project", "elsewhere/deeper"])
def test_folders_above_the_searched_ones_are_looked_at_once(here, tmp_path, start):
    folders = [str(tmp_path / start / f".agent{number}" / "skills") for number in range(50)]
    (looks,) = calls(Locks(here.around(), folders).read, is_project)
    assert 100 < looks < 150


@pytest.fixture
def here_with_nine(here):
    for number in range(8):
        here.write(f"project/mine/skill-{number}/SKILL.md", f"---\nname: skill-{number}\ndescription: x\n---\nx\n")
    here.run("install", "./mine", "--all", "--yes", "--allow-unsigned")
    return here


def test_a_load_looks_at_no_other_skill_of_the_lock(here_with_nine):
    skills = here_with_nine.catalog().skills
    assert len(skills) == 9
    assert [calls(partial(load, skill), view) for skill in skills] == [[1]] * 9


def test_a_load_by_name_checks_no_other_skill(here_with_nine):
    here = here_with_nine
    here.write("project/.agents/skills/skill-3/SKILL.md", "Changed.\n")
    load_demo, load_changed = (partial(here.run, "load", name) for name in ("demo", "skill-3"))
    assert calls(load_demo, Folder.check) == [2]
    assert (load_demo().status, load_changed().status, here.run("load", "skill-33").status) == (0, 5, 3)


@pytest.mark.parametrize("name", ["demo", "Demo", "dem\u043e", "x:demo"])
def test_a_load_by_name_means_the_skill_that_the_whole_catalogue_means(here, name):
    here.evil(".agents/skills/other", EVIL.replace("demo", f'"{name}"'))
    whole, named = here.catalog().named(name), catalog_naming(profile("agents"), here.around(), name).named(name)
    assert [each.path for each in named] == [each.path for each in whole]
    assert [each.name for each in catalog_naming(profile("agents"), here.around(), "demo").skills] == ["demo"]

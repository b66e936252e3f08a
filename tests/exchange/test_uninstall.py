"""``self uninstall`` removes the files of skillhub and keeps those that the user made or changed."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

import skillhub
from skillhub.disk.folders import remove_tree
from skillhub.exchange.uninstall import _completion
from tests.support.effort import at_most
from tests.support.here import Here
from tests.support.world import STDIO, needs


@pytest.fixture
def here(tmp_path):
    """A machine with two projects and the user's scope, entries of agents, and git in one project."""
    here = Here(tmp_path)
    subprocess.run(["git", "init", "-q", here.project], check=True)
    for name in ("mine", "more"):
        here.skill(f"src/{name}")
    src = here.folder / "src"
    assert here.run("install", src, "--all", "--yes", "--allow-unsigned", "--agent", "claude-code").status == 0
    assert here.run("install", src / "mine", "-g", "--yes", "--allow-unsigned").status == 0
    other = here.folder / "other"
    other.mkdir()
    assert here.run("install", src / "mine", "--project", other, "--yes", "--allow-unsigned").status == 0
    return here


def left(here):
    """Return the paths of all files except git's."""
    return sorted(path for path in here.files() if "/.git/" not in path and os.path.isfile(path))


def test_attack_a_later_link_makes_the_source_the_copy_that_uninstall_removes(here):
    here.skill("project/own/third")
    assert here.run("install", "./own/third", "--yes", "--allow-unsigned").status == 0
    remove_tree(str(here.project / ".agents/skills"))
    (here.project / ".agents/skills").symlink_to("../own")
    kept = here.run("self", "uninstall", "--yes", "--json").json["kept"]
    assert [each["name"] for each in kept] == ["third"]
    assert (here.project / "own/third/SKILL.md").exists()


def test_uninstall_removes_all_of_skillhub_and_keeps_project_files(here):
    for agent in ("cursor", "claude-code"):
        assert here.run("mcp", "install", "--agent", agent, "--yes").status == 0
    assert here.run("mcp", "install", "--agent", "cursor", "-g", "--yes").status == 0
    before = left(here)
    would = here.run("self", "uninstall", "--dry-run", "--json").json
    assert (would["changed"], left(here)) == (False, before)
    asked = here.run("self", "uninstall").err
    assert "unanswered: Remove all of this? [--yes]" in asked
    assert f"    folder: {here.hub / 'data'}\n" in asked
    refused = here.run("self", "uninstall", "--json")
    assert (refused.status, refused.json["questions"][0]["kind"], left(here)) == (6, "uninstall", before)
    done = here.run("self", "uninstall", "--yes", "--json")
    assert done.status == 0, done.err
    assert done.json["removed"] == would["removed"] and done.json["kept"] == []
    assert {each["kind"] for each in done.json["removed"]} == {"copy", "mcp", "folder"}
    names = {os.path.relpath(path, here.folder) for path in left(here) if "/src/" not in path}
    assert names == {f"{place}/skillhub.{end}" for place in ("project", "other") for end in ("toml", "lock")}
    assert not here.hub.exists()
    assert "skillhub" not in (here.project / ".git/info/exclude").read_text()
    assert here.run("self", "uninstall", "--json").json["removed"] == []


def test_servers_of_skills_are_removed_from_agents_files_and_changed_ones_stay(here):
    path = here.skill("tracking", **{"agents/openai.yaml": needs(STDIO)})
    words = ("--yes", "--allow-unsigned", "--mcp", "configure", "--agent", "claude-code", "--agent", "cursor")
    assert here.run("install", path, *words).status == 0
    kept, config = here.project / ".cursor/mcp.json", here.project / ".mcp.json"
    assert "tracker" in config.read_text()
    kept.write_text(kept.read_text().replace("-P", "-I"))
    done = here.run("self", "uninstall", "--yes", "--json")
    assert [(each["path"], each["why"]) for each in done.json["kept"]] == [(str(kept), "the entry was changed")]
    assert {each["path"] for each in done.json["removed"] if each["kind"] == "mcp"} == {str(config)}
    assert "tracker" in kept.read_text() and not config.exists()


def test_a_malformed_file_of_an_agent_is_named_and_the_rest_removed(here):
    path = here.skill("tracking", **{"agents/openai.yaml": needs(STDIO)})
    words = ("--yes", "--allow-unsigned", "--mcp", "configure", "--agent", "cursor")
    assert here.run("install", path, *words).status == 0
    config = here.project / ".cursor/mcp.json"
    config.write_text("{")
    done = here.run("self", "uninstall", "--yes", "--json")
    assert [(each["kind"], each["path"]) for each in done.json["kept"]] == [("mcp", f"{config}:1")]
    assert config.read_text() == "{" and not (here.project / ".agents/skills").exists()


def test_a_malformed_record_stops_it_only_if_the_project_still_exists_or_is_unknown(here):
    other = here.folder / "other"
    records = [*(here.hub / "state/projects").glob("*.json")]
    (path,) = [each for each in records if json.loads(each.read_text())["project"] == str(other)]
    record = {**json.loads(path.read_text()), "agents": 7}
    path.write_text(json.dumps(record))
    before = left(here)
    assert (here.run("self", "uninstall", "--yes").status, left(here)) == (4, before)
    remove_tree(str(other))
    before = left(here)
    for broken in ({**record, "project": str(here.folder / "never")}, {**record, "project": 7}, [record]):
        path.write_text(json.dumps(broken))
        assert (here.run("self", "uninstall", "--yes").status, left(here)) == (4, before)
    path.write_text(json.dumps(record))
    done = here.run("self", "uninstall", "--yes", "--json")
    (row,) = done.json["kept"]
    assert (done.status, row["path"]) == (0, str(other))
    assert row["why"].startswith("the folder is gone, and its record is malformed: expected ")
    assert not here.hub.exists()


def test_what_a_killed_process_left_beside_the_copies_is_removed_too(here):
    left_over = here.project / ".agents/.skillhub-0123456789ab-old"
    left_over.mkdir()
    (left_over / "SKILL.md").write_text("half removed\n")
    assert here.run("self", "uninstall", "--dry-run").status == 0
    assert left_over.exists()
    assert here.run("self", "uninstall", "--yes").status == 0
    assert not (here.project / ".agents").exists()


def test_attack_edited_changed_or_foreign_files_stay(here):
    copy = here.project / ".agents/skills/mine"
    (copy / "SKILL.md").write_text("mine")
    link = here.project / ".claude/skills/mine"
    (here.folder / "elsewhere").mkdir()
    (here.folder / "elsewhere/precious").write_text("x")
    for path in sorted(link.rglob("*"), reverse=True):
        path.unlink()
    link.rmdir()
    link.symlink_to(here.folder / "elsewhere")
    assert here.run("mcp", "install", "--agent", "cursor", "--yes").status == 0
    config = here.project / ".cursor/mcp.json"
    changed = json.loads(config.read_text())
    changed["mcpServers"]["skillhub"]["args"] += ["--all"]
    config.write_text(json.dumps(changed))
    here.write("project/.claude/skills/loose/SKILL.md", "---\nname: loose\ndescription: x\n---\n")
    assert here.run("key", "new", SKILLHUB_PASSPHRASE="x").status == 0
    would = here.run("self", "uninstall", "--dry-run").out
    assert f"would remove folder: {here.hub / 'state'} (all but what stays)\n" in would
    assert f"stays: {here.hub / 'state/keys'}: your signing keys\n" in would
    done = here.run("self", "uninstall", "--yes", "--json").json
    assert {(each["path"], each["why"]) for each in done["kept"]} == {
        (str(copy), "it was edited"),
        (str(link), "a link that skillhub did not make"),
        (str(config), "the entry was changed"),
        (str(here.hub / "state/keys"), "your signing keys"),
    }
    assert (copy / "SKILL.md").read_text() == "mine"
    assert (here.folder / "elsewhere/precious").exists() and json.loads(config.read_text()) == changed
    assert (here.project / ".claude/skills/loose/SKILL.md").exists()
    assert not (here.project / ".claude/skills/more").exists()
    assert sorted(os.listdir(here.hub / "state")) == ["keys"]
    assert "/.agents/skills/mine" in (here.project / ".git/info/exclude").read_text()


def test_attack_other_files_in_the_folder_of_the_home_stay(tmp_path):
    here = Here(tmp_path)
    here.skill("src/mine")
    for name in ("data/photos/one.jpg", "other.txt"):
        here.write(f"home/{name}", "x")
    home = {"SKILLHUB_HOME": str(here.folder / "home")}
    assert here.run("install", here.folder / "src/mine", "--yes", "--allow-unsigned", **home).status == 0
    done = here.run("self", "uninstall", "--yes", "--json", **home).json
    assert {each["kind"] for each in done["removed"]} == {"copy"}
    assert {each["kind"] for each in done["kept"]} == {"folder"}
    assert (here.folder / "home/data/photos/one.jpg").exists() and (here.folder / "home/other.txt").exists()


def test_attack_an_edit_behind_a_link_into_the_store_is_not_lost(tmp_path):
    here = Here(tmp_path)
    here.skill("src/mine")
    assert here.run("install", "../src/mine", "--yes", "--allow-unsigned", "--link", "symlink").status == 0
    file = here.project / ".agents/skills/mine/SKILL.md"
    os.chmod(file, 0o644)
    file.write_text("edited")
    kept = here.run("self", "uninstall", "--yes", "--json").json["kept"]
    assert [each["why"] for each in kept] == ["it was edited", "an edited skill is linked to it"]
    assert file.read_text() == "edited"


@pytest.mark.parametrize("lock", ["", "<<<<<<< ours", None])
def test_a_project_with_a_broken_or_missing_lock_is_cleaned_too(here, lock):
    (here.project / "skillhub.lock").unlink()
    if lock is not None:
        here.write("project/skillhub.lock", lock)
    assert here.run("self", "uninstall", "--yes", cwd=here.folder / "other").status == 0
    assert not (here.project / ".agents").exists()


def test_uninstall_lists_the_commands_that_remove_completion(here):
    here.write("home/.bashrc", "alias a=b\nsource '/home/x/.bash_completions/skillhub.sh'\n")
    here.write("home/.bash_completions/skillhub.sh", "x")
    left = here.run("self", "uninstall", "--dry-run", "--json").json["left"]
    assert left[0] == f"rm {here.home}/.bash_completions/skillhub.sh"
    assert left[1].startswith(f"take line 2 out of {here.home}/.bashrc: source ")


def test_a_long_line_of_a_shell_file_takes_linear_time(tmp_path):
    (tmp_path / ".zshrc").write_text("skillhub " * 20_000)
    with at_most(2):
        assert [*_completion(str(tmp_path))] == []


def forged(here, base, name=None, **values):
    """Change the records of a project, or store them under another name as those of another project."""
    kept = json.loads((file := next((here.hub / "state/projects").glob("*.json"))).read_text())
    kept["skills"]["mine"] |= {key: value for key, value in values.items() if key == "links"}
    kept |= {"project": str(base), **{key: value for key, value in values.items() if key != "links"}}
    (file.with_name(name) if name else file).write_text(json.dumps(kept))


@pytest.mark.parametrize(
    "link", ["{}/other/.agents/skills/mine", "src/mine", ".agents/mine", "../other/.agents/skills/mine"]
)
def test_attack_a_forged_record_removes_nothing_outside_of_agents_folders(tmp_path, link):
    here = Here(tmp_path)
    for place in ("project/src", "project/.agents", "other/.agents/skills"):
        here.skill(f"{place}/mine")
    (here.folder / "other/empty").mkdir()
    assert here.run("install", "./src/mine", "--yes", "--allow-unsigned").status == 0
    forged(
        here, here.project, links=[link.format(here.folder)], made=[f"{here.folder}/other/empty", "../other/empty"]
    )
    done = here.run("self", "uninstall", "--yes", "--json").json
    assert {each["kind"] for each in done["removed"]} == {"folder"} and len(done["kept"]) == 1
    for place in ("project/src", "project/.agents", "other/.agents/skills"):
        assert (here.folder / place / "mine/SKILL.md").exists()
    assert (here.folder / "other/empty").exists()


def test_attack_a_record_that_names_another_project_removes_nothing_there(tmp_path):
    here = Here(tmp_path)
    here.skill("src/mine")
    here.skill("other/.agents/skills/mine")
    assert here.run("install", here.folder / "src/mine", "--yes", "--allow-unsigned").status == 0
    forged(here, here.folder / "other", f"{'0' * 32}.json")
    assert here.run("self", "uninstall", "--yes").status == 0
    assert (here.folder / "other/.agents/skills/mine/SKILL.md").exists()
    assert not (here.project / ".agents").exists()


def test_attack_foreign_files_in_folders_of_skillhub_stay(tmp_path):
    here = Here(tmp_path)
    here.skill("src/mine")
    assert here.run("install", here.folder / "src/mine", "--yes", "--allow-unsigned").status == 0
    (here.hub / "state/listings").symlink_to(here.folder / "src")
    theirs = {
        here.write(f"hub/{name}", "x") for name in ("config/ca.pem", "state/notes.txt", "config/policy.toml.mine")
    }
    here.write("hub/config/config.toml", "")
    done = here.run("self", "uninstall", "--yes", "--json").json
    assert {each["path"] for each in done["kept"]} == {str(each) for each in theirs}
    assert {str(each) for each in here.hub.rglob("*") if each.is_file()} == {str(each) for each in theirs}
    assert (here.folder / "src/mine/SKILL.md").exists()


def test_every_file_of_the_state_is_known_to_uninstall(tmp_path):
    package = Path(skillhub.__file__).parent
    joined = re.compile(r'join\((?:\w+\.)*state, "([^"]+)"')
    names = {name for path in package.rglob("*.py") for name in joined.findall(path.read_text())} - {
        "keys",
        "mcp-entries.json",
        "secrets.json",
    }
    assert {"publish.json", "sites.json", "tuf"} < names
    here = Here(tmp_path)
    for name in names:
        here.write(f"hub/state/{name}", "x")
    done = here.run("self", "uninstall", "--yes", "--json")
    assert done.json.get("kept") == [], done.err


@pytest.mark.parametrize("is_named", [True, False])
def test_attack_linked_or_empty_parent_folders_stay_without_an_error(tmp_path, is_named):
    here = Here(tmp_path)
    here.skill("src/mine")
    (here.folder / "disk").mkdir()
    (here.folder / "link").symlink_to("disk")
    parts = {f"XDG_{each}_HOME": str(here.folder / "link" / each) for each in ("CONFIG", "DATA", "CACHE", "STATE")}
    home = {"SKILLHUB_HOME": f"{here.folder}/link"} if is_named else {"SKILLHUB_HOME": "", **parts}
    assert here.run("install", here.folder / "src/mine", "--yes", "--allow-unsigned", **home).status == 0
    done = here.run("self", "uninstall", "--yes", "--json", **home)
    assert (done.status, done.json["kept"]) == (0, [])
    assert sorted(os.listdir(here.folder / "disk")) == ([] if is_named else ["DATA", "STATE"])


def test_attack_an_unreadable_shell_file_is_no_error(tmp_path):
    here = Here(tmp_path)
    here.write("home/.zshrc", "# skillhub \x1b[2J complete\n")
    (here.home / ".bashrc").symlink_to("/proc/self/mem")
    done = here.run("self", "uninstall", "--yes")
    assert done.status == 0 and ".zshrc" in done.out and "\x1b[2J" not in done.out + done.err


@pytest.mark.parametrize("kind", ["link", "folder"])
def test_attack_an_unreadable_exclude_file_stops_uninstall_before_any_change(here, kind):
    exclude = here.project / ".git/info/exclude"
    exclude.unlink()
    if kind == "link":
        exclude.symlink_to(here.write("theirs.txt", "x"))
    else:
        exclude.mkdir()
    before = here.files()
    done = here.run("self", "uninstall", "--yes", "--json")
    assert (done.status, done.error["where"], here.files()) == (7, str(exclude), before)

"""Edits by hand are kept as patches, which two tools apply."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from skillhub.disk.folders import remove_tree, write_tree
from skillhub.edits.patch import difference
from skillhub.errors import LinkLeavesProject, Refused, StateError
from skillhub.model.tree import File, Tree
from tests.support.world import TOKEN, Answers, needs, plain, refused, skill, snapshot, unlocked

BASE = {
    "SKILL.md": File(b"one\ntwo\nthree\n"),
    "crlf.txt": File(b"a\r\nb\r\nc\r\n"),
    "gone.txt": File(b"gone\n"),
    "last.txt": File(b"no line end"),
    "run.sh": File(b"#!/bin/sh\n", executable=True),
    "with blank.txt": File(b"x\ny\n"),
    "odd/\u00fcml\u00e4ut \U0001f600.txt": File(b"x\n"),
    "feed.txt": File(b"a\x0cb\x0bc\xe2\x80\xa8d\n e\n"),
    "nothing": File(b""),
    "logo.png": File(b"\x89PNG\0\xff"),
}
EDITS = {
    "a line": {"SKILL.md": File(b"one\n2\nthree\n")},
    "carriage returns": {"crlf.txt": File(b"a\r\nB\r\nc\r\n")},
    "carriage returns gone": {"crlf.txt": File(b"a\nb\nc\n")},
    "a file less": {"gone.txt": None},
    "a file more": {"new/deep/file.txt": File(b"new\n")},
    "a file more without line end": {"new.txt": File(b"new")},
    "line end more": {"last.txt": File(b"no line end\n")},
    "line end less": {"SKILL.md": File(b"one\ntwo\nthree")},
    "line end less and a line": {"last.txt": File(b"no line\nend")},
    "mode more": {"SKILL.md": File(b"one\ntwo\nthree\n", executable=True)},
    "mode less and a line": {"run.sh": File(b"#!/bin/bash\n")},
    "a program more": {"go.sh": File(b"#!/bin/sh\n", executable=True)},
    "a program less": {"run.sh": None},
    "blank in the name": {"with blank.txt": File(b"x\nz\n")},
    "blank in a new name": {"a b c": File(b"x\n")},
    "odd name": {"odd/\u00fcml\u00e4ut \U0001f600.txt": File(b"y\n")},
    "odd line ends": {"feed.txt": File(b"a\x0cB\x0bc\xe2\x80\xa8D\n e\n")},
    "emptied": {"SKILL.md": File(b"")},
    "filled": {"nothing": File(b"now\n")},
    "an empty file more": {"empty": File(b"")},
    "an empty file less": {"nothing": None},
    "lines like a patch": {"SKILL.md": File(b"one\n--- a/x\n+++ b/x\n@@ -1 +1 @@\ndiff --git a/x b/x\n")},
    "all of it": {"SKILL.md": None, "x.txt": File(b"x"), "run.sh": File(b"new\n", executable=True)},
}


def edited(change):
    now = {**BASE, **change}
    return {path: file for path, file in now.items() if file is not None}


def read_back(folder):
    return {
        str(path.relative_to(folder)): File(path.read_bytes(), os.access(path, os.X_OK))
        for path in folder.rglob("*")
        if path.is_file() and ".git" not in path.parts
    }


@pytest.mark.parametrize(
    "tool", [("patch", "-p1", "--binary", "-f", "-s", "-i"), ("git", "apply", "--whitespace=nowarn")]
)
@pytest.mark.parametrize("change", EDITS)
def test_a_patch_applies(tmp_path, tool, change):
    if shutil.which(tool[0]) is None:
        pytest.skip(f"{tool[0]} is not here")
    now = edited(EDITS[change])
    patch, whole = difference(Tree(BASE), now)
    assert whole == {}
    write_tree(str(tmp_path / "tree"), BASE.items(), read_only=False)
    (tmp_path / "it.patch").write_bytes(patch.encode())
    done = subprocess.run([*tool, str(tmp_path / "it.patch")], cwd=tmp_path / "tree", capture_output=True)
    assert done.returncode == 0, (done.stdout, done.stderr, patch)
    assert read_back(tmp_path / "tree") == now


@pytest.mark.parametrize(
    "path,file",
    [
        ("logo.png", File(b"\x89PNG\0\xfe")),
        ("zeros", File(b"\0\0")),
        ("a\nb", File(b"x\n")),
        ('a"b', File(b"x\n")),
        ("a\\b", File(b"x\n")),
        (os.fsdecode(b"\xff"), File(b"x\n")),
        ("large", File(b"line\n" * 300_000)),
    ],
)
def test_a_file_that_no_patch_can_represent_is_kept_whole(path, file):
    assert difference(Tree(BASE), edited({path: file})) == ("", {path: file})


def test_a_removed_binary_file_leaves_nothing_to_keep():
    assert difference(Tree(BASE), edited({"logo.png": None})) == ("", {})


def test_identical_edits_are_saved_once_and_the_locked_files_restored(world):
    world.install(plain(world), agents=("claude-code", "windsurf"))
    folders = (".agents/skills", ".claude/skills", ".windsurf/skills")
    for folder, text in zip(folders, ("mine\n", "mine\n", "other\n"), strict=True):
        (world.copy("plain", folder) / "SKILL.md").write_text(text)
    (world.copy("plain") / "logo").write_bytes(b"\xff\0")
    before = unlocked(world.snapshot())
    for act in (world.sync, world.install):
        with pytest.raises(Refused):
            act(answers=Answers())
    assert unlocked(world.snapshot()) == before
    world.sync(Answers("yes"))
    assert world.problems() == []
    edits = world.base / "skillhub-edits"
    assert sorted(path.name for path in edits.iterdir()) == [
        "plain-1", "plain-1.patch", "plain-2.patch", "plain-3.patch",
    ]  # fmt: skip
    assert (edits / "plain-1/logo").read_bytes() == b"\xff\0"
    assert "+other" in (edits / "plain-3.patch").read_text()


def test_a_saved_patch_restores_the_edit(world):
    world.install(plain(world, scripts__run_sh="echo\n"))
    copy = world.copy("plain")
    (copy / "SKILL.md").write_text((copy / "SKILL.md").read_text() + "Mine.\r\nNo end")
    (copy / "scripts/run.sh").chmod(0o644)
    (copy / "new file").write_text("new")
    mine = read_back(copy)
    world.install(answers=Answers("yes"))
    assert read_back(copy) != mine
    patch = world.base / "skillhub-edits/plain-1.patch"
    subprocess.run(["git", "apply", "--whitespace=nowarn", patch], cwd=copy, check=True)
    assert read_back(copy) == mine


def test_a_file_in_place_of_the_skill_is_saved(world):
    world.install(plain(world))
    shutil.rmtree(world.copy("plain"))
    world.copy("plain").write_text("precious\n")
    world.sync(Answers("yes"))
    assert "+precious" in (world.base / "skillhub-edits/plain-1.patch").read_text()
    assert world.problems() == []


def test_the_target_of_an_added_link_is_in_the_saved_patch(world):
    world.install(plain(world), answers=Answers("yes"))
    (world.copy("plain") / "notes").symlink_to("../elsewhere")
    world.sync(answers=Answers("yes"))
    assert not (world.copy("plain") / "notes").exists()
    saved = [path.read_text() for path in (world.base / "skillhub-edits").iterdir() if path.is_file()]
    assert any("+../elsewhere" in text for text in saved)


def test_a_file_with_the_name_that_the_target_of_a_link_gets_is_saved_too(world):
    world.install(plain(world), answers=Answers("yes"))
    (world.copy("plain") / "notes").symlink_to("../elsewhere")
    (world.copy("plain") / "notes.link").write_text("precious\n")
    world.sync(answers=Answers("yes"))
    saved = (world.base / "skillhub-edits/plain-1.patch").read_text()
    assert "+../elsewhere" in saved
    assert "+precious" in saved


LINES = "".join(f"Step {number}.\n" for number in range(9))


def newer(world, old="Step 8.", new="Step eight."):
    """Install a skill, edit its copy, and put a new version into its folder; return the folder."""
    path = plain(world, scripts__run_sh="echo\n", body=LINES)
    world.install(path)
    copy = world.copy("plain")
    (copy / "SKILL.md").write_text((copy / "SKILL.md").read_text().replace("Step 1.", "Step one."))
    (copy / "mine.md").write_text("mine\n")
    plain(world, scripts__run_sh="echo 2\n", body=LINES.replace(old, new))
    return path


def test_edits_can_be_merged_into_a_new_version(world):
    path = newer(world)
    answers = Answers("yes", local_edit="merge")
    outcome = world.install(path, answers=answers)
    (question,) = [each for each in answers.seen if each.kind == "local-edit"]
    assert question.ways == ("save", "merge", "take", "keep")
    copy = world.copy("plain")
    text = (copy / "SKILL.md").read_text()
    assert "Step one." in text and "Step eight." in text
    assert (copy / "scripts/run.sh").read_text() == "echo 2\n"
    assert os.access(copy / "scripts/run.sh", os.X_OK)
    assert (copy / "mine.md").read_text() == "mine\n"
    assert outcome.skills[0].tree == world.record("plain").tree
    assert not (world.base / "skillhub-edits").exists()
    assert sorted(world.problems()) == ["changed-file", "extra-file"]  # only this user agreed to the edits


@pytest.mark.parametrize("old", ["Step 1.", "Step 0.", "Step 2."])
def test_overlapping_edits_offer_no_merge(world, old):
    path = newer(world, old, "Theirs.")
    answers = Answers("yes")
    world.install(path, answers=answers)
    (question,) = [each for each in answers.seen if each.kind == "local-edit"]
    assert "merge" not in question.ways
    assert "+Step one." in (world.base / "skillhub-edits/plain-1.patch").read_text()
    assert world.problems() == []


@pytest.mark.parametrize("theirs", ["mine.md/x.md", "MINE.md"])
def test_edits_whose_names_collide_with_the_new_version_offer_no_merge(world, theirs):
    """A merge would end in the middle of the update, with the new version locked, or lose a file on some disks."""
    path = newer(world)
    added = Path(path, *theirs.split("/"))
    added.parent.mkdir(exist_ok=True)
    added.write_text("theirs\n")
    answers = Answers("yes")
    world.install(path, answers=answers)
    (question,) = [each for each in answers.seen if each.kind == "local-edit"]
    assert "merge" not in question.ways
    assert "+mine" in (world.base / "skillhub-edits/plain-1.patch").read_text()
    assert world.problems() == []


def test_edits_of_the_locked_version_offer_no_merge(world):
    world.install(plain(world))
    (world.copy("plain") / "SKILL.md").write_text("mine\n")
    answers = Answers("yes")
    world.install(answers=answers)
    assert [question.ways for question in answers.seen] == [("save", "take", "keep")]


def test_the_answer_take_discards_edits(world):
    world.install(newer(world), answers=Answers("yes", local_edit="take"))
    assert world.problems() == []
    assert not (world.copy("plain") / "mine.md").exists()
    assert not (world.base / "skillhub-edits").exists()


def test_the_answer_keep_keeps_the_edited_skill_and_installs_the_rest(world):
    path = newer(world)
    other = str(skill(world.base / "more", "other"))
    before = snapshot(world.copy("plain")), world.lock().skills["plain"], world.record("plain")
    outcome = world.install(path, other, answers=Answers("yes", local_edit="no"))
    assert (snapshot(world.copy("plain")), world.lock().skills["plain"], world.record("plain")) == before
    assert [skill.name for skill in outcome.skills] == ["other"]
    assert [(left.name, left.code) for left in outcome.left_out] == [("plain", "edited")]
    assert world.copy("other").exists()
    assert not (world.base / "skillhub-edits").exists()


def test_sync_leaves_a_kept_skill_and_repairs_the_rest(world):
    world.install(plain(world), agents=("claude-code",))
    world.install(str(skill(world.base / "more", "other")))
    (world.copy("plain") / "SKILL.md").write_text("mine\n")
    shutil.rmtree(world.copy("other"))
    outcome = world.sync(Answers("no"))
    assert [left.name for left in outcome.left_out] == ["plain"]
    assert (world.copy("plain") / "SKILL.md").read_text() == "mine\n"
    assert world.copy("other").exists()


def test_sync_leaves_a_kept_skill_that_left_the_lock(world):
    world.install(plain(world))
    (world.copy("plain") / "SKILL.md").write_text("mine\n")
    (world.base / "skillhub.lock").write_text('{\n  "skills": {},\n  "sources": {},\n  "version": 1\n}\n')
    (world.base / "skillhub.toml").unlink()
    for _ in range(2):
        assert [left.name for left in world.sync(Answers("no")).left_out] == ["plain"]
    assert (world.copy("plain") / "SKILL.md").read_text() == "mine\n"
    world.sync(Answers("yes"))
    assert not world.copy("plain").exists()
    assert "+mine" in (world.base / "skillhub-edits/plain-1.patch").read_text()


@pytest.mark.parametrize("act", ["disable", "remove"])
def test_keep_is_no_answer_to_disable_or_remove(world, act):
    world.install(plain(world))
    (world.copy("plain") / "SKILL.md").write_text("mine\n")
    answers = Answers("no")
    refused(world, Refused, lambda: getattr(world, act)("plain", answers=answers))
    assert [question.ways for question in answers.seen] == [("save", "take")]
    getattr(world, act)("plain", answers=Answers("take"))
    assert not (world.base / "skillhub-edits").exists()
    assert not world.copy("plain").exists()


def edit_through_link(world):
    path = plain(world)
    world.install(path, link="symlink")
    file = world.copy("plain") / "SKILL.md"
    assert world.copy("plain").is_symlink()
    stored = file.resolve()
    stored.parent.chmod(0o755)
    stored.chmod(0o644)
    text = stored.read_text()
    stored.write_text(text + "Mine.\n")
    return path, stored


@pytest.mark.parametrize("act", ["sync", "install"])
def test_edits_through_a_link_into_the_store_are_not_lost(world, act):
    _, stored = edit_through_link(world)
    assert "changed-file" in world.problems()
    edited = stored.read_text()
    with pytest.raises(Refused):
        getattr(world, act)(answers=Answers())
    assert stored.read_text() == edited
    getattr(world, act)(answers=Answers("no"))
    assert stored.read_text() == edited
    getattr(world, act)(answers=Answers("yes"))
    assert world.problems() == []
    assert "+Mine." in (world.base / "skillhub-edits/plain-1.patch").read_text()
    assert world.copy("plain").is_symlink()


@pytest.mark.parametrize("act", ["sync", "remove"])
@pytest.mark.parametrize("kind", ["file", "folder", "link"])
def test_a_foreign_file_in_the_store_at_the_target_of_a_link_does_not_matter(world, act, kind):
    world.install(plain(world), link="symlink")
    stored = Path(world.store.path(world.record("plain").tree))
    assert stored.is_relative_to(world.folder)
    remove_tree(str(stored))
    if kind == "file":
        stored.write_text("Mine.\n")
    elif kind == "folder":
        stored.mkdir()
    else:
        stored.symlink_to(world.user_home)
    if act == "sync":
        world.sync(answers=Answers("yes"))
        assert world.problems() == []
    else:
        world.remove("plain")
        assert not os.path.lexists(world.copy("plain"))
    if kind == "file":
        assert "+Mine." in (world.base / "skillhub-edits/plain-1.patch").read_text()
    assert world.user_home.is_dir()


@pytest.mark.parametrize("act", ["disable", "remove"])
def test_edits_that_cannot_be_saved_stop_the_command(world, act):
    world.install(plain(world))
    (world.copy("plain") / "SKILL.md").write_text("Mine.\n")
    outside = world.folder / "outside"
    outside.mkdir()
    (world.base / "skillhub-edits").symlink_to(outside)
    refused(world, LinkLeavesProject, lambda: getattr(world, act)("plain", answers=Answers("yes")))


def test_edits_through_a_link_are_saved_before_another_version(world):
    path, _ = edit_through_link(world)
    skill(world.base / "src", body="Newer.\n")
    with pytest.raises(Refused):
        world.install(path, answers=Answers("yes", local_edit="unanswered"))
    world.install(path, answers=Answers("yes"))
    assert "+Mine." in (world.base / "skillhub-edits/plain-1.patch").read_text()
    assert "Newer." in (world.copy("plain") / "SKILL.md").read_text()
    assert world.problems() == []


def test_a_kept_skill_cannot_be_a_new_dependency_of_another(world):
    tool = "dependencies:\n  tools:\n    - {type: skill, value: plain}\n"
    path = plain(world)
    world.install(path)
    (world.copy("plain") / "SKILL.md").write_text("mine\n")
    plain(world, body="Newer.\n")
    other = str(skill(world.base / "more", "other", agents__openai_yaml=tool))
    refused(world, Refused, lambda: world.install(path, other, answers=Answers("yes", local_edit="no")))
    assert world.install(other, answers=Answers("yes", local_edit="no")).skills[0].name == "other"


@pytest.mark.parametrize("path", ["SKILL.md", "model.bin"])
def test_attack_an_edit_larger_than_memory_is_reported_and_not_read(world, path):
    world.install(plain(world))
    with (world.copy("plain") / path).open("ab") as file:
        file.truncate(1 << 42)  # sparse: it uses no space on the disk
    assert world.problems() == ["extra-file" if path == "model.bin" else "changed-file"]
    for act in (world.sync, lambda answers: world.remove("plain", answers=answers)):
        with pytest.raises(StateError, match="more than 256 MiB of edits"):
            act(answers=Answers("yes"))
    assert (world.copy("plain") / path).exists()


def test_attack_a_pipe_in_place_of_a_skill_is_an_error(world):
    world.install(plain(world))
    shutil.rmtree(world.copy("plain"))
    os.mkfifo(world.copy("plain"))
    with pytest.raises(StateError, match="found a folder, pipe or device"):
        world.sync(Answers("yes"))


def test_edits_to_merge_into_a_disabled_version_are_saved(world):
    world.install(plain(world, notes_md="one\ntwo\nthree\n"))
    (world.copy("plain") / "notes.md").write_text("one\ntwo\nthree\nprecious\n")
    skill(world.base / "src", agents__openai_yaml=needs(TOKEN))
    outcome = world.update(answers=Answers("yes", env="unanswered", local_edit="merge"))
    assert outcome.skills[0].state == "disabled"
    assert not world.copy("plain").exists()
    assert "+precious" in (world.base / "skillhub-edits/plain-1.patch").read_text()


@pytest.mark.parametrize("act", ["update", "remove", "disable"])
def test_an_unchanged_copy_without_its_store_is_not_taken_for_edited(world, act):
    folder = skill(world.base / "src")
    world.install(str(folder))
    skill(world.base / "src", body="It is otherwise by now.\n")
    remove_tree(world.home.data)
    answers = Answers("yes")
    getattr(world, act)("plain", answers=answers)
    assert "local-edit" not in answers.kinds_seen
    assert not (world.base / "skillhub-edits").exists()
    if act == "update":
        assert "otherwise" in (world.copy("plain") / "SKILL.md").read_text()


def test_an_update_names_only_edited_files_and_offers_the_new_version(world):
    path = newer(world)
    answers = Answers("yes", local_edit="no")
    world.install(path, answers=answers)
    (question,) = [each for each in answers.seen if each.kind == "local-edit"]
    # Without scripts/run.sh, which only differs in the new version.
    assert question.details[1:] == ("  ~ SKILL.md", "  + mine.md")
    assert question.message.endswith("save the edits as a patch and install the new version?")


def test_without_a_new_version_the_question_offers_the_locked_files(world):
    world.install(plain(world))
    (world.copy("plain") / "SKILL.md").write_text("mine\n")
    answers = Answers("yes")
    world.install(answers=answers)
    (question,) = answers.seen
    assert question.details[1:] == ("  ~ SKILL.md",)
    assert question.message.endswith("save the edits as a patch and restore the locked files?")

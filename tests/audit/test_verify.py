"""Verify finds every difference from the lock, in the store and in agents' folders; sync repairs all of them."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from skillhub.audit.verify import verify
from skillhub.disk.folders import list_folder, remove_tree
from skillhub.errors import NotFound, SecurityError, WrongBytes
from tests.support.registry import key_of
from tests.support.world import Answers, World, skill

PLACES = ("store", ".agents/skills", ".claude/skills")


def change_a_byte(folder):
    path = folder / "SKILL.md"
    data = bytearray(path.read_bytes())
    data[-2] ^= 1
    path.chmod(0o644)
    path.write_bytes(data)


def change_a_byte_and_keep_size_and_times(folder):
    status = (folder / "SKILL.md").stat()
    change_a_byte(folder)
    os.utime(folder / "SKILL.md", ns=(status.st_atime_ns, status.st_mtime_ns))


def take_the_execute_bit(folder):
    (folder / "scripts/run.sh").chmod(0o444)


def set_an_execute_bit(folder):
    (folder / "SKILL.md").chmod(0o755)


def replace_a_file_by_a_link(folder):
    (folder / "SKILL.md").unlink()
    os.symlink("scripts/run.sh", folder / "SKILL.md")


def replace_the_folder_by_a_link(folder):
    shutil.move(folder, f"{folder}-moved")
    os.symlink(f"{folder}-moved", folder)


def replace_the_folder_by_a_file(folder):
    shutil.rmtree(folder)
    folder.write_text("x")


HARMS = {
    "changed byte": change_a_byte,
    "changed byte, same size and times": change_a_byte_and_keep_size_and_times,
    "extra file": lambda folder: (folder / "scripts/evil.py").write_text("x"),
    "extra hidden file": lambda folder: (folder / ".evil").write_text("x"),
    "extra empty file": lambda folder: (folder / "empty").touch(),
    "missing file": lambda folder: (folder / "SKILL.md").unlink(),
    "execute bit taken": take_the_execute_bit,
    "execute bit set": set_an_execute_bit,
    "extra link": lambda folder: os.symlink("/etc/hostname", folder / "extra"),
    "dangling link": lambda folder: os.symlink("nowhere", folder / "extra"),
    "extra pipe": lambda folder: os.mkfifo(folder / "scripts/pipe"),
    "file is a link": replace_a_file_by_a_link,
    "folder is a link": replace_the_folder_by_a_link,
    "folder is a file": replace_the_folder_by_a_file,
    "folder is gone": lambda folder: shutil.rmtree(folder),
    "folder is empty": lambda folder: (shutil.rmtree(folder), folder.mkdir()),
}


@pytest.fixture
def world(tmp_path):
    world = World(tmp_path)
    world.install(str(skill(world.base / "src", scripts__run_sh="echo\n")), agents=("claude-code",))
    return world


def stored(world, name="plain"):
    return Path(world.store.path(world.lock().skills[name].tree))


def place(world, where):
    folder = stored(world) if where == "store" else world.copy("plain", where)
    for path in (folder.parent, folder, folder / "scripts"):
        path.chmod(0o755)
    return folder


# What happens to the copy of one agent happens to that of any other.
@pytest.mark.parametrize("where", PLACES[:2])
@pytest.mark.parametrize("harm", HARMS)
def test_every_difference_is_found_and_repaired(world, where, harm):
    assert world.problems() == []
    HARMS[harm](place(world, where))
    found = world.problems()
    assert found
    assert world.problems("plain") == found
    assert world.sync(Answers("yes")).changed
    assert world.problems() == []
    assert not world.sync(Answers()).changed
    copies = [world.copy("plain", folder) for folder in PLACES[1:]]
    assert not any(copy.is_symlink() for copy in copies)
    assert all(os.access(copy / "scripts/run.sh", os.X_OK) for copy in copies)


@pytest.mark.parametrize("harm", ["extra file", "execute bit taken", "missing file"])
def test_differences_in_all_places_are_repaired_at_once(world, harm):
    for where in PLACES:
        HARMS[harm](place(world, where))
    assert len(world.problems()) == 3
    world.sync(Answers("yes"))
    assert world.problems() == []


def test_verify_changes_nothing_and_needs_no_network(world):
    place(world, ".agents/skills").joinpath("extra").touch()
    before = world.snapshot()
    world.opened.clear()
    assert world.problems() == ["extra-file"]
    assert world.snapshot() == before
    assert world.opened == []


LISTINGS = {
    "gone": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
    "a line less": lambda path: path.write_bytes(path.read_bytes().partition(b"\n")[2]),
    "not text": lambda path: path.write_bytes(b"\xff" * 100),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    "a link": lambda path: (path.unlink(), path.symlink_to("/etc/hostname")),
    "a pipe": lambda path: (path.unlink(), os.mkfifo(path)),
}


@pytest.mark.parametrize("harm", LISTINGS)
def test_a_changed_listing_hides_no_difference(world, harm):
    copy = place(world, ".claude/skills")
    LISTINGS[harm](stored(world).with_name(stored(world).name + ".listing"))
    assert "listing" in world.problems()
    (copy / "evil").touch()
    assert [code for code in world.problems() if code != "listing"]
    world.sync(Answers("yes"))
    assert world.problems() == []
    assert not (copy / "evil").exists()


def test_a_listing_changed_together_with_the_files_is_found(world):
    folder = place(world, "store")
    (folder / "evil").touch()
    folder.with_name(folder.name + ".listing").write_bytes(list_folder(str(folder)).text)
    assert world.problems()
    world.sync(Answers())
    assert world.problems() == []
    assert not (folder / "evil").exists()


def test_a_signature_changed_together_with_the_listing_is_found(tmp_path):
    world = World(tmp_path)
    world.install("github:code-review")
    folder = stored(world, "code-review")
    signature = folder / "skill.oms.sig"
    for path in (folder, signature):
        path.chmod(0o755)
    document = json.loads(signature.read_bytes())
    document["dsseEnvelope"]["signatures"][0]["sig"] = "AAAA"
    signature.write_text(json.dumps(document))
    signature.chmod(0o444)
    folder.with_name(folder.name + ".listing").write_bytes(list_folder(str(folder)).text)
    assert world.problems()
    world.sync(Answers())
    assert world.problems() == []


def test_a_signature_is_verified_with_the_pinned_key(tmp_path):
    world = World(tmp_path)
    world.install("github:code-review")
    pins = tmp_path / "home/skillhub/state/signers"
    (pin,) = pins.iterdir()
    other = World(tmp_path / "else")
    other.install("github:release-notes")
    pin.write_bytes(key_of("somebody")("else", "p256").public.pem)
    assert world.problems() == ["signature"]
    pin.unlink()
    assert world.problems() == ["signer-unknown"]
    world.install(answers=Answers())  # verified again by the registry
    assert world.problems() == []


def test_a_missing_tree_with_a_changed_source_is_not_restored(world):
    (world.base / "src/plain/SKILL.md").write_text("---\nname: plain\ndescription: Else.\n---\n")
    HARMS["changed byte"](place(world, "store"))
    for folder in (".agents", ".claude"):
        shutil.rmtree(world.base / folder, ignore_errors=True)
    before = (world.base / "skillhub.lock").read_bytes()
    with pytest.raises(WrongBytes):
        world.sync(Answers("yes"))
    assert (world.base / "skillhub.lock").read_bytes() == before
    assert world.problems()


def test_an_unknown_name_is_not_found(world):
    with pytest.raises(NotFound):
        world.problems("nobody")


def test_a_link_to_another_target_is_found_and_repaired(tmp_path):
    world = World(tmp_path)
    world.install(str(skill(world.base / "src")), link="symlink")
    copy = world.copy("plain")
    assert copy.is_symlink()
    assert world.problems() == []
    copy.unlink()
    copy.symlink_to(tmp_path)
    assert world.problems() == ["wrong-link"]
    world.sync(Answers("yes"))
    assert world.problems() == []
    assert os.readlink(copy) == str(stored(world))
    copy.unlink()
    shutil.copytree(stored(world), copy)
    copy.chmod(0o755)
    assert world.problems() == []  # a copy may replace a link: some disks have no links
    (copy / "SKILL.md").chmod(0o644)
    (copy / "SKILL.md").write_text("mine\n")
    assert world.problems() == ["changed-file"]
    world.sync(Answers("yes"))
    assert os.readlink(copy) == str(stored(world))


def test_verify_without_a_lock_finds_nothing(tmp_path):
    assert World(tmp_path).problems() == []


@pytest.mark.parametrize("how", ["renamed", "swapped"])
def test_attack_a_skill_under_another_name_in_the_lock_is_found(world, how):
    """The lock was edited by hand; only the stored files contain the real name."""
    world.install(str(skill(world.folder / "two", name="other")), agents=("claude-code",))
    world.disable("plain")
    world.disable("other")
    assert world.problems() == []
    path = world.base / "skillhub.lock"
    lock = json.loads(path.read_text())
    plain = lock["skills"].pop("plain")
    if how == "swapped":
        lock["skills"] |= {"plain": lock["skills"].pop("other"), "other": plain}
    else:
        lock["skills"]["new"] = plain
    path.write_text(json.dumps(lock))
    found = verify((), world.ports())
    codes = {each.name: [problem.code for problem in each.problems] for each in found}
    wrong = ["plain", "other"] if how == "swapped" else ["new"]
    assert all("source-mismatch" in codes[name] for name in wrong)
    assert how == "swapped" or codes["other"] == []
    (message,) = [
        problem.message
        for each in found
        for problem in each.problems
        if each.name == wrong[0] and problem.code == "source-mismatch"
    ]
    assert message == f"the lock names {wrong[0]}, its SKILL.md {'other' if how == 'swapped' else 'plain'}"


@pytest.mark.parametrize(
    "change",
    [
        ('"version": "1.0.0"', '"version": "1.0.1"'),
        ('"root": "sha256:', '"root": "sha256:0000'),
        ('"key:sha256:', '"key:sha256:0000'),
    ],
)
def test_a_changed_fact_in_the_lock_is_a_problem_and_install_fails(world, change):
    world.install("github:release-notes")
    path = world.base / "skillhub.lock"
    text = path.read_text()
    was, now = change
    at = text.index(was) + len(was)
    path.write_text(text[: at - len(was)] + now + text[at + (len(now) - len(was)) :])
    (found,) = verify(("release-notes",), world.ports())
    assert "signer-unknown" in {each.code for each in found.problems} <= {"signer-unknown", "origin-changed"}
    assert all("or reports the error" in each.message for each in found.problems)
    with pytest.raises(SecurityError):
        world.install()


def test_a_locked_copy_is_recognized_without_store_and_state(world):
    world.install("github:release-notes")
    shutil.rmtree(world.home.state)
    for folder, *_ in os.walk(world.home.data):
        Path(folder).chmod(0o755)
    remove_tree(world.home.data)
    (found,) = verify(("release-notes",), world.ports())
    assert {each.code for each in found.problems} == {"missing", "not-enabled"}
    world.sync()
    assert not (world.base / ".agents/skills/release-notes").exists()

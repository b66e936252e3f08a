"""The index of folders found intact: the changes that it notices, and the entries that it ignores."""

import json
import os
import shutil
import time

import pytest

from skillhub.disk import proved
from skillhub.disk.proved import GRAIN, IdleCommand, ProvedFolders, is_proof, is_settled, stamp_of

TREE, SECOND = "sha256:" + "1" * 64, 1_000_000_000


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Let recent changes count as old, so that no test waits."""
    monkeypatch.setattr(proved, "GRAIN", 0)


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "skill"
    (folder / "scripts").mkdir(parents=True)
    (folder / "empty").mkdir()
    (folder / "SKILL.md").write_text("one")
    (folder / "scripts/run.sh").write_text("two")
    (tmp_path / "skill.listing").write_text("three")
    return folder


@pytest.fixture
def index(tmp_path, folder):
    """Return an index with the folder, as the next command reads it."""
    path = tmp_path / "state" / "proved" / "key.json"
    first = ProvedFolders(str(path), believed=True)
    first.keep(str(folder), TREE, first.before(str(folder), ".listing"))
    first.note("plain", ("some", "facts"))
    first.save()
    assert oct(path.stat().st_mode & 0o777) == "0o600"
    return path


def holds(index, folder, tree=TREE) -> bool:
    return ProvedFolders(str(index), believed=True).holds(str(folder), tree)


def same_size_and_time(path, text):
    was = path.stat()
    path.write_text(text)
    os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (was.st_size, was.st_mtime_ns)


def replaced(path, text):
    other = path.with_name("other")
    other.write_text(text)
    shutil.copystat(path, other)
    os.replace(other, path)


def through_a_hard_link(path, text):
    other = path.parents[2] / "elsewhere" if path.parent.name == "scripts" else path.parents[1] / "elsewhere"
    os.link(path, other)
    same_size_and_time(other, text)


def through_a_writable_handle(path, text):
    handle = os.open(path, os.O_RDWR)
    os.pwrite(handle, text.encode(), 0)
    os.close(handle)


EDITS = {
    "an edit": lambda folder: (folder / "SKILL.md").write_text("1"),
    "the same size, and its time set back": lambda folder: same_size_and_time(folder / "SKILL.md", "eno"),
    "the same below a folder": lambda folder: same_size_and_time(folder / "scripts/run.sh", "owt"),
    "another file of its name, size and time": lambda folder: replaced(folder / "SKILL.md", "eno"),
    "through a hard link elsewhere": lambda folder: through_a_hard_link(folder / "SKILL.md", "eno"),
    "through a handle, without a write of the whole": lambda f: through_a_writable_handle(f / "SKILL.md", "e"),
    "its mode": lambda folder: (folder / "SKILL.md").chmod(0o755),
    "a file more": lambda folder: (folder / "more.md").write_text(""),
    "a file in a folder that was empty": lambda folder: (folder / "empty/more.md").write_text(""),
    "a folder more": lambda folder: (folder / "scripts/more").mkdir(),
    "a file less": lambda folder: (folder / "scripts/run.sh").unlink(),
    "an empty folder less": lambda folder: (folder / "empty").rmdir(),
    "a file of another name": lambda folder: (folder / "SKILL.md").rename(folder / "skill.md"),
    "a link in place of a file": lambda folder: (
        (folder / "SKILL.md").rename(folder.parent / "moved"),
        (folder / "SKILL.md").symlink_to(folder.parent / "moved"),
    ),
    "a link in place of a folder": lambda folder: (
        (folder / "scripts").rename(folder.parent / "moved"),
        (folder / "scripts").symlink_to(folder.parent / "moved"),
    ),
    "a link in place of all": lambda folder: (folder.rename(f"{folder}2"), folder.symlink_to(f"{folder}2")),
    "a copy with all its times": lambda folder: (
        shutil.copytree(folder, f"{folder}2", copy_function=shutil.copy2),
        shutil.rmtree(folder),
        os.rename(f"{folder}2", folder),
    ),
    "what lies beside it": lambda folder: same_size_and_time(folder.parent / "skill.listing", "eerht"),
    "all of it gone": shutil.rmtree,
}


@pytest.mark.parametrize("what", EDITS)
def test_attack_a_disguised_edit_is_noticed(index, folder, what):
    assert holds(index, folder)
    EDITS[what](folder)
    assert not holds(index, folder)


def test_attack_a_second_edit_in_the_same_tick_is_hashed_again(tmp_path, folder, monkeypatch):
    monkeypatch.setattr(proved, "GRAIN", GRAIN)
    young = ProvedFolders(str(tmp_path / "index.json"), believed=True)
    assert young.before(str(folder)) is None
    young.keep(str(folder), TREE, young.before(str(folder)))
    assert not young.holds(str(folder), TREE)


@pytest.mark.parametrize(
    ("content", "anything", "now", "proves"),
    [
        (5 * SECOND + 1, 5 * SECOND + 1, 8 * SECOND, True),
        (5 * SECOND + 1, 5 * SECOND + 1, 7 * SECOND, False),  # as recent as the look
        (5 * SECOND + 1, 9 * SECOND + 1, 8 * SECOND, False),  # the clock was set back, or is another machine's
        (9 * SECOND + 1, 5 * SECOND + 1, 8 * SECOND, False),
        (5 * SECOND, 5 * SECOND, 900 * SECOND, False),  # FAT, or NFS from a server with times in seconds
        (5 * SECOND, 5 * SECOND + 1, 900 * SECOND, True),  # from an archive
    ],
)
def test_attack_a_coarse_clock_or_one_set_back_gives_no_proof(content, anything, now, proves, monkeypatch):
    monkeypatch.setattr(proved, "GRAIN", GRAIN)
    assert is_proof(f"3 {content} {anything} 7 8 33188", now) == proves


def test_attack_without_a_time_of_change_no_stamp_is_proof(monkeypatch):
    stamp = f"3 {5 * SECOND + 1} {5 * SECOND + 1} 7 8 33188"
    assert is_proof(stamp, 8 * SECOND)
    monkeypatch.setattr(proved, "_HAS_CHANGE_TIME", False)  # Windows has the time of creation there
    assert not is_proof(stamp, 8 * SECOND)


def test_a_stamp_is_settled_after_a_tick_of_the_clock(monkeypatch):
    monkeypatch.setattr(proved, "GRAIN", GRAIN)
    assert is_settled(f"3 {SECOND + 1} {SECOND + 1} 7 8 9", SECOND + 101, 99)
    assert not is_settled(f"3 {SECOND + 1} {SECOND + 1} 7 8 9", SECOND + 101, 100)
    assert not is_settled(f"3 {SECOND} {SECOND} 7 8 9", 2 * SECOND, 99)  # with whole seconds a tick is two


def test_attack_a_file_changed_while_hashed_is_not_kept(tmp_path, folder):
    index = ProvedFolders(str(tmp_path / "index.json"), believed=True)
    look = index.before(str(folder))
    same_size_and_time(folder / "SKILL.md", "eno")
    index.keep(str(folder), TREE, look)
    assert not index.holds(str(folder), TREE)


def forge(index, change):
    block = json.loads(index.read_text())
    change(block)
    index.write_text(json.dumps(block))


FORGERIES = {
    "cut off": lambda index: index.write_bytes(index.read_bytes()[:-7]),
    "empty": lambda index: index.write_bytes(b""),
    "no JSON": lambda index: index.write_bytes(b"\xff\xfe"),
    "another type": lambda index: index.write_text("[1]"),
    "nested beyond reason": lambda index: index.write_text("[" * 100_000),
    "of another version": lambda index: forge(index, lambda block: block.update(version=1)),
    "rows of another type": lambda index: forge(
        index, lambda block: block.update(folders={k: 7 for k in block["folders"]})
    ),
    "no rows": lambda index: forge(index, lambda block: block.update(folders=None)),
    "names that are none": lambda index: forge(
        index, lambda block: [row.__setitem__(1, 7) for row in block["folders"].values()]
    ),
    "another digest": lambda index: forge(
        index, lambda block: [row.__setitem__(2, "0" * 64) for row in block["folders"].values()]
    ),
    "written by others": lambda index: index.chmod(0o620),
    "read by others": lambda index: index.chmod(0o644),
    "a link": lambda index: (index.rename(f"{index}2"), index.symlink_to(f"{index}2")),
    "a folder": lambda index: (index.unlink(), index.mkdir()),
    "a pipe": lambda index: (index.unlink(), os.mkfifo(index, 0o600)),
}


@pytest.mark.parametrize("how", FORGERIES)
def test_attack_a_damaged_or_shared_index_is_ignored(index, folder, how):
    FORGERIES[how](index)
    assert not holds(index, folder)
    assert not ProvedFolders(str(index), believed=True).is_noted("plain", ("some", "facts")) or how.endswith(
        ("type", "digest", "none")
    )


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives a file away")
def test_attack_an_index_of_another_user_is_ignored(index, folder):
    os.chown(index, 12345, -1)
    assert not holds(index, folder)


def test_attack_an_index_of_another_machine_is_ignored(index, folder, tmp_path):
    """A copied home contains the index, and files with other inodes and times of change."""
    shutil.copytree(tmp_path, f"{tmp_path}-there", copy_function=shutil.copy2)
    shutil.rmtree(folder)
    shutil.copytree(f"{tmp_path}-there/skill", folder, copy_function=shutil.copy2)
    assert not holds(index, folder)


def test_another_tree_folder_or_fact_is_not_proved(index, folder):
    found = ProvedFolders(str(index), believed=True)
    assert found.holds(str(folder), TREE)
    assert not found.holds(str(folder), TREE.replace("1", "2"))
    assert not found.holds(str(folder / "scripts"), TREE)
    assert found.is_noted("plain", ("some", "facts"))
    assert not found.is_noted("plain", ("some", "other facts"))
    assert not found.is_noted("other", ("some", "facts"))
    assert found.is_noted("plain", ("some", "facts"))  # a query changes nothing


def test_without_belief_the_index_hashes_and_forgets_differences(index, folder):
    checking = ProvedFolders(str(index))
    assert not checking.holds(str(folder), TREE)
    assert not checking.is_noted("plain", ("some", "facts"))
    assert checking.before(str(folder)) is None
    checking.forget(str(folder))
    checking.save()
    assert not holds(index, folder)


def test_a_read_only_index_writes_nothing(index, folder, tmp_path):
    before = index.read_bytes()
    for other in (ProvedFolders(str(index), believed=True, kept=False), ProvedFolders()):
        other.keep(str(folder), TREE, other.before(str(folder)))
        other.keep(str(tmp_path), TREE, other.before(str(tmp_path)))
        other.note("more", 1)
        other.save()
    assert index.read_bytes() == before


def test_a_missing_folder_is_dropped_from_the_index(index, folder):
    shutil.rmtree(folder)
    other = ProvedFolders(str(index), believed=True)
    other.note("more", 1)
    other.save()
    assert json.loads(index.read_text())["folders"] == {}


def test_names_of_any_bytes_are_stored(tmp_path):
    folder = tmp_path / "skill"
    folder.mkdir()
    (folder / os.fsdecode(b"\xff\n\x01")).write_text("one")
    index = ProvedFolders(str(tmp_path / "index.json"), believed=True)
    index.keep(str(folder), TREE, index.before(str(folder)))
    index.save()
    assert holds(tmp_path / "index.json", folder)
    assert len(stamp_of(folder.stat()).split()) == 6


@pytest.fixture
def idle(tmp_path, index, folder):
    """A command that was remembered: it read a file, looked for another one, and listed a folder."""
    (tmp_path / "config.toml").write_text("one")
    (tmp_path / "listed").mkdir()
    (tmp_path / "there").mkdir()
    keep(tmp_path, index, folder)
    assert again(tmp_path) == [("stdout", "done \udcff\n"), ("stderr", "ok")]
    return tmp_path


def command(top, surroundings="x", words=("install",)):
    return IdleCommand(str(top / "state/proved"), words, surroundings)


def started(top):
    """Return a command that has looked at the paths of the last time."""
    found = command(top)
    found.output()
    return found


def keep(top, index, folder, tree=TREE, remembering=None):
    paths = [str(top / each) for each in ("config.toml", "absent", "there")]
    output = [("stdout", "done \udcff\n"), ("stderr", "ok")]
    known = ProvedFolders(str(index), believed=True)
    for running in [remembering] if remembering else [None, None]:
        (running or started(top)).keep(known, {str(folder): tree}, [*paths, f"{top}/listed/"], output)


def again(top):
    found = command(top).output()
    return found and [tuple(each) for each in found]


def the_file(top):
    return next((top / "state/proved").glob("idle-*.json"))


NEWS = {
    "an edit of a file, its time set back": lambda top: same_size_and_time(top / "config.toml", "two"),
    "another file of its name": lambda top: replaced(top / "config.toml", "two"),
    "a file less": lambda top: (top / "config.toml").unlink(),
    "a file that was absent": lambda top: (top / "absent").touch(),
    "an entry of a folder that was listed": lambda top: (top / "listed/new").touch(),
    "another folder": lambda top: ((top / "there").rename(top / "away"), (top / "there").mkdir()),
    "a link in place of a folder": lambda top: (
        (top / "there").rename(top / "away"),
        (top / "there").symlink_to(top / "away"),
    ),
    "a file of a skill": lambda top: same_size_and_time(top / "skill/SKILL.md", "eno"),
    "another index": lambda top: (top / "state/proved/key.json").write_text("{}"),
    "others may write what was remembered": lambda top: the_file(top).chmod(0o622),
    "what was remembered is damaged": lambda top: the_file(top).write_text("{"),
    "it is of another form": lambda top: the_file(top).write_text('{"version": 2, "surroundings": 1}'),
    "it is nothing": lambda top: the_file(top).write_text("null"),
}


@pytest.mark.parametrize("news", NEWS)
def test_attack_a_command_is_not_answered_from_memory_after_a_change(idle, news):
    NEWS[news](idle)
    assert again(idle) is None


def test_a_change_in_a_folder_that_was_only_looked_for_does_not_count(idle):
    (idle / "there/new").touch()
    assert again(idle)


def test_another_command_or_environment_is_not_answered(idle):
    assert command(idle, "y").output() is None
    assert command(idle, words=("install", "--json")).output() is None


def test_a_command_is_not_remembered_unless_all_folders_of_its_skills_are_proved(tmp_path, index, folder):
    (tmp_path / "config.toml").write_text("one")
    (tmp_path / "listed").mkdir()
    keep(tmp_path, index, folder, tree="sha256:" + "2" * 64)
    keep(tmp_path, index, tmp_path / "listed")
    assert again(tmp_path) is None


@pytest.mark.parametrize("late", ["config.toml", "listed/new", "absent"])
def test_attack_a_command_is_not_remembered_if_a_path_changed_meanwhile(tmp_path, index, folder, late):
    for each in ("listed", "there"):
        (tmp_path / each).mkdir()
    (tmp_path / "config.toml").write_text("one")
    keep(tmp_path, index, folder)
    running = started(tmp_path)
    time.sleep(0.02)  # a tick of the file system's clock
    (tmp_path / late).touch()
    if late != "absent":
        os.utime(tmp_path / late, ns=(1, 1))
    keep(tmp_path, index, folder, remembering=running)
    assert again(tmp_path) is None


@pytest.mark.parametrize("is_behind_link", [False, True])
def test_attack_a_command_is_not_remembered_if_a_link_on_the_way_changed_meanwhile(
    tmp_path, index, folder, is_behind_link
):
    for version in ("1", "2"):
        for each in ("listed", "there"):
            (tmp_path / version / each).mkdir(parents=True)
        (tmp_path / version / "config.toml").write_text(version)
    current, top = tmp_path / "current", tmp_path
    current.symlink_to("1")
    for each in ("listed", "there"):
        (tmp_path / each).mkdir()
    (tmp_path / "config.toml").symlink_to("current/config.toml")
    watched = [f"{current}/config.toml", f"{current}/listed/"] if is_behind_link else [f"{top}/config.toml"]

    def remember(running):
        known = ProvedFolders(str(index), believed=True)
        running.keep(known, {str(folder): TREE}, watched, [("stdout", "done")])

    remember(started(top))
    running = started(top)
    time.sleep(0.02)  # a tick of the file system's clock
    current.unlink()
    current.symlink_to("2")
    remember(running)
    assert again(top) is None
    remember(started(top))
    assert again(top)


@pytest.mark.parametrize("is_switched", [False, True])
def test_a_link_straight_to_a_file_is_remembered_unless_it_changes_meanwhile(tmp_path, index, folder, is_switched):
    (tmp_path / "history").mkdir()
    for version in ("1", "2"):
        (tmp_path / "history" / version).write_text(version)
    link = tmp_path / "root.json"
    link.symlink_to("history/1")
    known = ProvedFolders(str(index), believed=True)
    started(tmp_path).keep(known, {str(folder): TREE}, [str(link)], [("stdout", "done")])
    running = started(tmp_path)
    time.sleep(0.02)  # a tick of the file system's clock
    if is_switched:
        link.unlink()
        link.symlink_to("history/2")
    running.keep(known, {str(folder): TREE}, [str(link)], [("stdout", "done")])
    assert bool(again(tmp_path)) is not is_switched


def test_paths_of_the_last_time_may_lie_in_folders_that_change_while_the_command_runs(idle, index, folder):
    """A home or a temporary folder gets files of other programs at any time."""
    for late, is_kept in (("other", True), ("there/new", True), ("config.toml", False), ("listed/new", False)):
        (idle / "other").write_text(late)  # the folder of the absent path has just changed
        keep(idle, index, folder)
        running = started(idle)
        time.sleep(0.02)  # a tick of the file system's clock
        (idle / late).unlink(missing_ok=True)
        (idle / late).touch()
        keep(idle, index, folder, remembering=running)
        assert bool(again(idle)) == is_kept, late


def test_attack_paths_of_the_last_time_that_changed_meanwhile_count(idle, index, folder):
    for change in (
        lambda: (idle / "absent").touch(),
        lambda: (idle / "absent").unlink(),
        lambda: ((idle / "there").rename(idle / "away"), (idle / "there").mkdir()),
        lambda: (idle / "listed").chmod(0o700),
    ):
        running = started(idle)
        time.sleep(0.02)
        change()
        keep(idle, index, folder, remembering=running)
        assert again(idle) is None


def test_a_folder_with_times_in_whole_seconds_counts_after_a_day(tmp_path, index, folder, monkeypatch):
    """Those of an image of a disk have them; a clock that ticks in seconds may be that of another machine."""
    (tmp_path / "config.toml").write_text("one")
    for each in ("listed", "there"):
        (tmp_path / each).mkdir()
    today = time.time_ns() // proved._SECOND * proved._SECOND
    look = proved._stamp
    for age, is_kept in ((3600, False), (90_000, True)):
        times = today - age * proved._SECOND
        monkeypatch.setattr(proved, "_stamp", lambda status, times=times: (1, times, times, *look(status)[3:]))
        with monkeypatch.context() as patch:
            patch.setattr(ProvedFolders, "holds", lambda *_: True)
            keep(tmp_path, index, folder)
        assert (json.loads(the_file(tmp_path).read_bytes())["stamps"] != "") == is_kept


@pytest.mark.parametrize("looks", range(1, 6))
def test_attack_a_command_is_not_remembered_if_a_path_changes_while_it_is_looked_at(
    tmp_path, index, folder, looks, monkeypatch
):
    for each in ("listed", "there"):
        (tmp_path / each).mkdir()
    path, seen, lstat = tmp_path / "config.toml", [], os.lstat
    path.write_text("one")
    keep(tmp_path, index, folder)
    running = started(tmp_path)
    time.sleep(0.02)  # a tick of the file system's clock

    def changing(looked_at, *rest, **more):
        status = lstat(looked_at, *rest, **more)
        if looked_at == str(path):
            seen.append(looked_at)
            if len(seen) == looks:
                path.write_text("another process")
        return status

    with monkeypatch.context() as disk:
        disk.setattr(os, "lstat", changing)
        keep(tmp_path, index, folder, remembering=running)
    assert again(tmp_path) is None or len(seen) < looks

import errno
import os
import shutil
import socket
import stat
import threading

import pytest

from skillhub.disk import files
from skillhub.errors import FormatError, StateError
from tests.support.cli import run_code

AS_OTHER_USER = """
import os, sys
from skillhub.errors import StateError
from skillhub.disk import files
os.chdir(sys.argv[1])
if os.getuid() == 0:
    os.setuid(65534)
"""
needs_posix = pytest.mark.skipif(os.name == "nt", reason="needs POSIX modes and signals")


def names(folder):
    return sorted(os.listdir(folder))


def test_read_returns_bytes_or_none(tmp_path):
    (tmp_path / "a").write_bytes(b"12345")
    assert files.read(str(tmp_path / "a"), 5) == b"12345"
    assert files.read(str(tmp_path / "b"), 5) is None
    assert files.read(str(tmp_path / "b/c"), 5) is None


def test_a_file_over_the_limit_is_a_format_error(tmp_path):
    (tmp_path / "a").write_bytes(b"123456")
    with pytest.raises(FormatError):
        files.read(str(tmp_path / "a"), 5)


@needs_posix
def test_a_pipe_is_an_error_and_does_not_block(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StateError):
        files.read(str(tmp_path / "pipe"), 10)


def test_a_folder_a_link_and_a_socket_are_errors(tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "link").symlink_to("file")
    monkeypatch.chdir(tmp_path)  # a socket needs a short address
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        for name in (".", "link", "socket"):
            with pytest.raises(StateError):
                files.read(str(tmp_path / name), 10)


def test_a_name_with_nul_is_a_state_error():
    with pytest.raises(StateError):
        files.read("a\0b", 10)


# write_atomic


def test_write_creates_folders_and_leaves_no_other_file(tmp_path):
    path = tmp_path / "a/b/file"
    files.write_atomic(str(path), b"one")
    files.write_atomic(str(path), b"", sync=False)
    assert path.read_bytes() == b""
    assert names(path.parent) == ["file"]


@needs_posix
def test_write_keeps_the_mode_or_sets_it(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"")
    path.chmod(0o640)
    files.write_atomic(str(path), b"x")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    files.write_atomic(str(path), b"x", mode=0o755)
    assert stat.S_IMODE(path.stat().st_mode) == 0o755
    fresh = tmp_path / "fresh"
    umask = os.umask(0o027)
    try:
        files.write_atomic(str(fresh), b"x")
    finally:
        os.umask(umask)
    assert stat.S_IMODE(fresh.stat().st_mode) == 0o640


def test_write_replaces_a_link_and_does_not_follow_it(tmp_path):
    target = tmp_path / "target"
    target.write_bytes(b"theirs")
    (tmp_path / "link").symlink_to("target")
    files.write_atomic(str(tmp_path / "link"), b"ours")
    assert target.read_bytes() == b"theirs"
    assert not (tmp_path / "link").is_symlink()


def test_write_over_a_folder_fails_without_a_temporary_file(tmp_path):
    (tmp_path / "name/kept").mkdir(parents=True)
    with pytest.raises(StateError) as caught:
        files.write_atomic(str(tmp_path / "name"), b"x")
    assert caught.value.where == str(tmp_path / "name")
    assert caught.value.hint
    assert names(tmp_path) == ["name"]


@needs_posix
def test_a_full_disk_keeps_the_old_file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    code = """
import resource, sys
from skillhub.errors import StateError
from skillhub.disk import files
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
try:
    files.write_atomic(sys.argv[1], b"x" * 100_000)
except StateError as error:
    print(error.code, error.where == sys.argv[1], bool(error.hint))
"""
    assert run_code(code, path).out.split() == ["state", "True", "True"]
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


@needs_posix
def test_a_kill_before_the_rename_keeps_the_old_file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    code = """
import os, signal, sys
from skillhub.disk import files
sys.addaudithook(lambda event, _: event == "os.rename" and os.kill(os.getpid(), signal.SIGKILL))
files.write_atomic(sys.argv[1], b"new")
"""
    assert run_code(code, path).status == -9
    assert path.read_bytes() == b"old"
    files.write_atomic(str(path), b"later")  # the temporary file of the killed process does not matter
    assert path.read_bytes() == b"later"


@needs_posix
def test_a_read_only_folder_is_an_error_with_a_hint(tmp_path):
    (tmp_path / "file").write_bytes(b"old")
    tmp_path.chmod(0o555)
    code = """
try:
    files.write_atomic("file", b"new")
except StateError as error:
    print(error.code, error.where, "|", error.hint)
"""
    done = run_code(AS_OTHER_USER + code, tmp_path)
    tmp_path.chmod(0o755)
    assert done.out.startswith("state file | check its owner"), done.err
    assert names(tmp_path) == ["file"]


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can make another user's file")
def test_a_refused_rename_leaves_no_temporary_file(tmp_path):
    (tmp_path / "file").write_bytes(b"old")
    tmp_path.chmod(0o1777)  # sticky: other users may add files here, and not replace this one
    code = """
try:
    files.write_atomic("file", b"new")
except StateError as error:
    print(error.code)
"""
    assert run_code(AS_OTHER_USER + code, tmp_path).out == "state\n"
    assert names(tmp_path) == ["file"]
    assert (tmp_path / "file").read_bytes() == b"old"


def test_readers_see_only_whole_files(tmp_path):
    path = str(tmp_path / "file")
    contents = [bytes([number]) * 50_000 for number in range(40)]
    files.write_atomic(path, contents[0], sync=False)
    seen = set()
    done = threading.Event()

    def look():
        while not done.is_set():
            seen.add(files.read(path, 100_000))

    reader = threading.Thread(target=look, daemon=True)
    reader.start()
    for content in contents:
        files.write_atomic(path, content, sync=False)
    done.set()
    reader.join()
    assert seen <= set(contents)


# swap


def test_swap_replaces_only_the_expected_content(tmp_path):
    path = tmp_path / "file"
    assert files.swap(str(path), None, b"one", mode=0o600)
    assert not files.swap(str(path), None, b"two")
    assert not files.swap(str(path), b"another", b"two")
    assert not files.swap(str(path), b"o", b"two")
    assert files.swap(str(path), b"one", b"two")
    assert path.read_bytes() == b"two"
    assert names(tmp_path) == ["file"]
    assert os.name == "nt" or stat.S_IMODE(path.stat().st_mode) == 0o600


def test_swap_does_not_restore_a_deleted_file(tmp_path):
    assert not files.swap(str(tmp_path / "file"), b"one", b"two")
    assert names(tmp_path) == []


def test_swap_over_a_folder_is_a_state_error(tmp_path):
    (tmp_path / "name").mkdir()
    with pytest.raises(StateError):
        files.swap(str(tmp_path / "name"), b"one", b"two")
    assert names(tmp_path) == ["name"]


# names_in


def test_names_in_a_folder_are_sorted_and_empty_without_a_folder(tmp_path):
    for name in ("b", "a"):
        (tmp_path / name).touch()
    assert files.names_in(str(tmp_path)) == ["a", "b"]
    assert files.names_in(str(tmp_path / "a")) == files.names_in(str(tmp_path / "none")) == []


def test_an_unreadable_folder_is_a_state_error(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(StateError):
        files.names_in(str(tmp_path / "loop"))


# lock


def test_a_lock_excludes_other_processes(tmp_path):
    code = """
import sys
from skillhub.disk import files
for _ in range(15):
    with files.lock(sys.argv[1] + "/state/lock"):
        number = int(open(sys.argv[1] + "/number").read())
        open(sys.argv[1] + "/number", "w").write(str(number + 1))
"""
    (tmp_path / "number").write_text("0")
    workers = [threading.Thread(target=run_code, args=(code, tmp_path)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert (tmp_path / "number").read_text() == "45"


def test_a_lock_held_beyond_the_timeout_is_an_error(tmp_path):
    path = str(tmp_path / "lock")
    with files.lock(path):
        with pytest.raises(StateError, match=r"more than 0\.05 s") as caught, files.lock(path, timeout=0.05):
            raise AssertionError("two hold the lock")
        assert caught.value.where == path
    with files.lock(path, timeout=0):
        pass


def test_the_lock_is_free_after_an_error_and_a_stale_file_is_harmless(tmp_path):
    path = tmp_path / "lock"
    path.write_bytes(b"left by a process that died")
    with pytest.raises(KeyError), files.lock(str(path)):
        raise KeyError
    with files.lock(str(path), timeout=0):
        pass


@needs_posix
def test_the_lock_of_a_killed_process_is_free(tmp_path):
    code = """
import os, signal, sys
from skillhub.disk import files
with files.lock(sys.argv[1]):
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert run_code(code, tmp_path / "lock").status == -9
    with files.lock(str(tmp_path / "lock"), timeout=0):
        pass


@needs_posix
@pytest.mark.parametrize(("number", "says"), [(errno.ENOLCK, "cannot lock files"), (errno.EIO, "the disk refuses")])
def test_a_disk_without_locks_is_an_error_that_names_it(tmp_path, monkeypatch, number, says):
    import fcntl

    def refuse(handle, operation):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(StateError, match=says) as caught, files.lock(str(tmp_path / "lock")):
        raise AssertionError("held without a lock")
    assert ("SKILLHUB_HOME" in (caught.value.hint or "")) == (number == errno.ENOLCK)


@needs_posix
def test_a_lock_file_behind_a_link_is_refused(tmp_path):
    (tmp_path / "lock").symlink_to("elsewhere")
    with pytest.raises(StateError), files.lock(str(tmp_path / "lock")):
        raise AssertionError("locked through a link")
    assert names(tmp_path) == ["lock"]


def test_a_failed_copy_of_a_tree_gives_a_readable_message(tmp_path):
    (tmp_path / "from").mkdir()
    (tmp_path / "from/socket").symlink_to("nowhere")
    with pytest.raises(StateError) as caught, files.disk_errors("here"):
        shutil.copytree(tmp_path / "from", tmp_path / "to")
    assert caught.value.message == "the disk refuses: 'No such file or directory'"

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillhub.edits.lock_merge import conflict, sides

OURS, THEIRS = b"{\n  1\n  ours\n  3\n}\n", b"{\n  1\n  theirs\n  3\n}\n"
BASE = b"{\n  1\n  base\n  3\n}\n"


def merge_file(folder, *options, base=BASE):
    """Let git merge the three files."""
    paths = [folder / name for name in ("ours", "base", "theirs")]
    for path, data in zip(paths, (OURS, base, THEIRS), strict=True):
        path.write_bytes(data)
    done = subprocess.run(["git", "merge-file", "-p", *options, *map(str, paths)], capture_output=True, check=False)
    assert done.returncode == 1
    return done.stdout


def test_conflicts_written_by_git_are_split_into_sides(tmp_path):
    assert sides(merge_file(tmp_path)) == (OURS, THEIRS, None)
    assert sides(merge_file(tmp_path, "--diff3")) == (OURS, THEIRS, BASE)
    assert sides(merge_file(tmp_path, "-L", "HEAD", "-L", "old", "-L", "a branch")) == (OURS, THEIRS, None)


def test_windows_line_ends_are_kept(tmp_path):
    data = merge_file(tmp_path, "--diff3").replace(b"\n", b"\r\n")
    assert sides(data) == tuple(each.replace(b"\n", b"\r\n") for each in (OURS, THEIRS, BASE))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        OURS,
        b"<<<<<<< a\n1\n",
        b"<<<<<<< a\n1\n=======\n2\n",
        b"1\n=======\n2\n>>>>>>> b\n",
        b"<<<<<<< a\n<<<<<<< a\n=======\n>>>>>>> b\n>>>>>>> b\n",
        b"<<<<<<<< a\n=======\n>>>>>>> b\n",
        b"<<<<<<< a\n=======\n=======\n>>>>>>> b\n",
    ],
)
def test_incomplete_markers_are_no_conflict(data):
    assert sides(data) is None


def test_the_base_is_none_if_one_conflict_has_no_base():
    one, other = (b"<<<<<<< a\n1\n||||||| o\n0\n=======\n2\n>>>>>>> b\n", b"<<<<<<< a\n1\n=======\n2\n>>>>>>> b\n")
    assert sides(one + one) == (b"1\n1\n", b"2\n2\n", b"0\n0\n")
    assert sides(one + other) == (b"1\n1\n", b"2\n2\n", None)


lines = st.lists(st.sampled_from([b"{\n", b"}\n", b'  "a": 1,\n', b"\n", b"x\r\n"]), max_size=8).map(b"".join)


@given(lines, lines)
def test_a_written_conflict_is_split_into_the_same_sides(ours, theirs):
    if ours == theirs:
        assert conflict(ours, theirs) == ours
    else:
        assert sides(conflict(ours, theirs)) == (ours, theirs, None)


@given(st.binary())
def test_any_bytes_raise_no_error(data):
    sides(data)


def test_attack_sides_of_very_many_lines_are_one_difference():
    """They are no locks; git's merge driver would take 2 GB of memory to compare 10 MiB of short lines."""
    ours, theirs = b"\r" * 500_000 + b"a\n", b"b\n" + b"\r" * 500_000 + b"\n"
    assert conflict(ours, theirs) == b"<<<<<<< ours\n" + ours + b"=======\n" + theirs + b">>>>>>> theirs\n"
    assert sides(conflict(ours, theirs)) == (ours, theirs, None)

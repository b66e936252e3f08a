"""Our patches are applied exactly or not at all; edits and a new version are merged if they do not overlap."""

from __future__ import annotations

import shutil
import subprocess
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillhub.edits.patch import _anchors, apply, difference, merge
from skillhub.errors import FormatError, SkillhubError
from skillhub.model.tree import File, Tree
from tests.support.effort import at_most, calls, is_linear

BASE = {
    "SKILL.md": File(b"one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\n"),
    "run.sh": File(b"#!/bin/sh\n", executable=True),
    "empty": File(b""),
    "no end": File(b"a\nb"),
    "logo.png": File(b"\x89PNG\0\xff"),
}
TEXTS = st.lists(st.sampled_from(["a", "b", "c\r", "-x", "+y", " z", "@@ -1 +1 @@", "\x0c", ""]), max_size=8)
FILES = st.builds(
    lambda lines, end, mode: File(("\n".join(lines) + end).encode(), mode),
    TEXTS,
    st.sampled_from(["", "\n"]),
    st.booleans(),
)
TREES = st.dictionaries(st.sampled_from(["SKILL.md", "a b/c", "\u00fc", "d b/d"]), FILES)


@given(TREES, TREES)
def test_a_written_patch_applies(base, now):
    patch, whole = difference(base, now)
    assert whole == {}
    assert apply(patch.encode(), base, "it.patch") == Tree(now)


def changed(path, old, new):
    file = BASE[path]
    return {**BASE, path: File(file.data.replace(old, new), file.executable)}


GOOD = difference(BASE, changed("SKILL.md", b"four", b"4"))[0]


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        (" three", " 3", 7),  # context that is absent
        ("-four", "-vier", 8),
        ("@@ -1,7 +1,7 @@", "@@ -2,7 +2,7 @@", 5),  # another place: no fuzz
        ("@@ -1,7 +1,7 @@", "@@ -1,7 +2,7 @@", 4),
        ("@@ -1,7 +1,7 @@", "@@ -1,6 +1,7 @@", 12),
        ("@@ -1,7 +1,7 @@", "@@ -1,8 +1,8 @@", 13),
        ("@@ -1,7 +1,7 @@", "@@ -999999999,7 +1,7 @@", 4),
        ("@@ -1,7 +1,7 @@", "@@ -1,7 +1,7 @@ and more", 4),
        ("--- a/SKILL.md", "--- a/other", 2),
        ("+++ b/SKILL.md", "+++ b/../../other", 3),
        ("diff --git a/SKILL.md b/SKILL.md", "diff --git a/SKILL.md b/other", 1),
        ("diff --git a/SKILL.md b/SKILL.md", "diff --git a/absent b/absent", 2),
        ("--- a", "new file mode 100644\n--- a", 3),
        ("--- a", "old mode 100755\nnew mode 100644\n--- a", 4),
        ("--- a", "old mode 100644\n--- a", 3),
        ("--- a", "new file mode 120000\n--- a", 2),
        ("--- a", "deleted file mode 100644\n--- a", 4),
    ],
)
def test_attack_a_patch_that_does_not_fit_exactly_is_refused(old, new, line):
    assert old in GOOD
    with pytest.raises(FormatError) as caught:
        apply(GOOD.replace(old, new, 1).encode(), BASE, "it.patch")
    assert caught.value.where == f"it.patch:{line}", caught.value


@pytest.mark.parametrize("patch", [GOOD + GOOD, GOOD[:-1], "junk\n", GOOD + "junk\n", "\n"])
def test_attack_an_invalid_patch_is_refused(patch):
    with pytest.raises(FormatError):
        apply(patch.encode(), BASE, "it.patch")


def test_attack_a_patch_that_names_a_file_twice_is_refused():
    again = difference(changed("SKILL.md", b"four", b"4"), BASE)[0]
    with pytest.raises(FormatError, match="each file once"):
        apply((GOOD + again).encode(), BASE, "it.patch")


def test_a_change_that_both_sides_made_is_merged_once():
    mine = {**BASE, "SKILL.md": File(b"one\n2\nthree\nfour\nfive\nsix\nseven\n8\n")}
    theirs = {**BASE, "SKILL.md": File(b"one\n2\nthree\nfour\n5\nsix\nseven\neight\n")}
    merged = merge(BASE, mine, theirs)
    assert merged["SKILL.md"].data == b"one\n2\nthree\nfour\n5\nsix\nseven\n8\n"


def test_a_patch_of_a_binary_file_is_refused():
    patch = GOOD.replace("SKILL.md", "logo.png")
    with pytest.raises(FormatError, match="not text"):
        apply(patch.encode(), BASE, "it.patch")


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes_raise_only_our_errors(data):
    for patch in (data, GOOD.encode()[:60] + data, GOOD.encode() + data):
        try:
            apply(patch, BASE, "it.patch")
        except SkillhubError as error:
            assert error.where


MINE = changed("SKILL.md", b"two", b"2")
MERGES = {
    "apart": (changed("SKILL.md", b"seven", b"7"), b"one\n2\nthree\nfour\nfive\nsix\n7\neight\n"),
    "the same": (MINE, MINE["SKILL.md"].data),
    "a line between": (changed("SKILL.md", b"four", b"4"), b"one\n2\nthree\n4\nfive\nsix\nseven\neight\n"),
    "nothing": (BASE, MINE["SKILL.md"].data),
    "the mode": ({**BASE, "SKILL.md": File(BASE["SKILL.md"].data, True)}, MINE["SKILL.md"].data),
}
OVERLAPS = {
    "one line": changed("SKILL.md", b"two", b"zwei"),
    "the line beside": changed("SKILL.md", b"three", b"3"),
    "gone": {path: file for path, file in BASE.items() if path != "SKILL.md"},
    "no longer text": {**BASE, "SKILL.md": File(b"\0")},
}


@pytest.mark.parametrize("case", MERGES)
def test_changes_without_overlap_are_merged(case):
    theirs, text = MERGES[case]
    found = merge(BASE, MINE, theirs)
    assert found is not None
    assert found["SKILL.md"].data == text
    assert found["SKILL.md"].executable == theirs["SKILL.md"].executable
    assert merge(BASE, theirs, MINE) == found


@pytest.mark.parametrize("case", OVERLAPS)
def test_overlapping_changes_are_not_merged(case):
    assert merge(BASE, MINE, OVERLAPS[case]) is None
    assert merge(BASE, OVERLAPS[case], MINE) is None


def test_files_changed_by_one_side_are_taken_from_it():
    mine = {**BASE, "mine.md": File(b"x"), "logo.png": File(b"\0mine")}
    theirs = {**{p: f for p, f in BASE.items() if p != "empty"}, "run.sh": File(b"#!/bin/bash\n", True)}
    found = merge(BASE, mine, theirs)
    assert found == Tree({**theirs, "mine.md": File(b"x"), "logo.png": File(b"\0mine")})
    assert merge(BASE, mine, {**BASE, "mine.md": File(b"y")}) is None


@given(FILES, FILES, FILES)
def test_a_merge_is_the_same_from_both_sides(base, mine, theirs):
    found = merge({"f": base}, {"f": mine}, {"f": theirs})
    if found is not None:
        assert merge({"f": base}, {"f": theirs}, {"f": mine}) == found
        assert merge({"f": base}, {"f": mine}, {"f": base}) == Tree({"f": mine})


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not here")
@pytest.mark.parametrize("case", ["apart", "a line between"])
def test_a_merge_equals_that_of_git_merge_file(tmp_path, case):
    theirs, _ = MERGES[case]
    for name, tree in (("mine", MINE), ("base", BASE), ("theirs", theirs)):
        (tmp_path / name).write_bytes(tree["SKILL.md"].data)
    done = subprocess.run(
        ["git", "merge-file", "-p", "mine", "base", "theirs"], cwd=tmp_path, capture_output=True, check=True
    )
    found = merge(BASE, MINE, theirs)
    assert found is not None
    assert done.stdout == found["SKILL.md"].data


def woven(count, name):
    """Return lines that all versions have, a hundred of each kind, and between them lines of one version."""
    lines = (line for number in range(count) for line in (f"c{number % 50}\n", f"{name}{number}\n"))
    return {"f": File("".join(lines).encode())}


def test_attack_the_cost_of_a_merge_is_linear():
    """`difflib` alone takes 48 s for each of these comparisons."""
    assert is_linear(lambda count: merge(woven(count, "base"), woven(count, "mine"), woven(count, "theirs")), 1_000)
    base, mine, theirs = b"a\nb\n" * 4_900, b"x\n" + b"b\na\n" * 4_900, b"a\nb\n" * 4_900 + b"y\n"
    with at_most(5):
        merge({"f": File(base)}, {"f": File(mine)}, {"f": File(theirs)})


def test_attack_texts_of_very_many_lines_are_not_cut():
    """Two versions of a skill with 2,000 such files took ten minutes; a patch of them is longer, and as exact."""
    lines = [f"{'a' * (number % 2)}{number if number % 70 == 0 else ''}\n" for number in range(9_000)]
    old, new = File("".join(lines).encode()), File("".join(lines[1:] + lines[:1]).encode())
    for count, is_cut in ((1, True), (23, False)):
        base, now = (dict.fromkeys(map(str, range(count)), file) for file in (old, new))
        found = []
        [cuts] = calls(lambda base=base, now=now, found=found: found.append(difference(base, now)[0]), _anchors)
        assert (cuts > 0) == is_cut
        assert apply(found[0].encode(), base, "it.patch") == now
        [cuts] = calls(lambda base=base, now=now: merge(base, now, dict.fromkeys(base, File(b"c"))), _anchors)
        assert (cuts > 0) == is_cut


def test_attack_the_cost_of_a_patch_with_a_long_path_is_linear():
    def refused(size):
        with pytest.raises(FormatError):
            apply(b"diff --git a/" + b"x b/" * (size // 4) + b"\n", {}, "it.patch")

    assert is_linear(refused, 40_000)


@pytest.mark.parametrize("seed", range(8))
def test_a_patch_of_a_long_text_applies_and_is_short(seed):
    """Long texts are cut at lines that occur once; here many lines occur often, and others once."""
    chance = Random(seed)
    before = [chance.choice(["", "}", f"{number}"]) for number in range(3_000)]
    after = list(before)
    for _ in range(20):
        at = chance.randrange(len(after))
        after[at : at + chance.randrange(3)] = [chance.choice(["", "}", "new"])] * chance.randrange(3)
    base, now = ({"f": File("\n".join(lines).encode())} for lines in (before, after))
    patch, _ = difference(base, now)
    assert apply(patch.encode(), base, "it.patch") == Tree(now)
    assert patch.count("\n") < 20 * 16


def test_a_change_in_a_long_text_without_distinct_lines_is_a_short_patch():
    before = ["", "}"] * 2_000
    base, now = ({"f": File("\n".join(lines).encode())} for lines in (before, [*before[:900], "x", *before[900:]]))
    assert difference(base, now)[0].count("\n") == 11

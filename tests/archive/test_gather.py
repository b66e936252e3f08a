"""The check that the entries of every reader pass."""

import itertools

import pytest

from skillhub.archive.limits import Entry, Limits
from skillhub.archive.unpack import gather
from skillhub.errors import UnsafeArchive
from skillhub.model.tree import File

SKILL = b"---\nname: demo\n---\n"


def entries(*paths):
    """Return files of one byte, folders for paths that end in a slash, and ``SKILL.md`` with valid content."""
    for path in paths:
        data = SKILL if path.endswith("SKILL.md") else b"x"
        yield Entry(path.removesuffix("/"), None if path.endswith("/") else File(data))


def reason_of(*paths, **how):
    with pytest.raises(UnsafeArchive) as caught:
        gather(entries(*paths), **how)
    return caught.value.reason


def test_files_keep_bytes_and_execute_bit():
    run = File(b"#!/bin/sh\n", executable=True)
    unpacked = gather([Entry("scripts", None), Entry("scripts/run", run), Entry("SKILL.md", File(SKILL))])
    assert dict(unpacked.tree) == {"SKILL.md": File(SKILL), "scripts/run": run}
    assert unpacked.warnings == ()


def test_folder_entries_may_be_late_missing_or_empty():
    assert list(gather(entries("a/b/c", "SKILL.md", "a/b/", "a/", "empty/")).tree) == ["SKILL.md", "a/b/c"]


def test_folders_without_an_entry_count_towards_the_limit():
    limits = Limits(files=4)
    eight = "a/b/c/d/e/f/g/h"
    assert list(gather(entries("SKILL.md", f"{eight}/x"), limits).tree) == ["SKILL.md", f"{eight}/x"]
    assert reason_of("SKILL.md", f"{eight}/i/x", limits=limits) == "too-many-files"


def test_a_wrapping_folder_is_removed_with_a_warning():
    unpacked = gather(entries("pkg-1.0/", "pkg-1.0/SKILL.md", "pkg-1.0/a/b", "__MACOSX/._pkg-1.0", ".DS_Store"))
    assert list(unpacked.tree) == ["SKILL.md", "a/b"]
    assert len(unpacked.warnings) == 1
    assert "'pkg-1.0'" in unpacked.warnings[0]


def test_a_skill_inside_a_skill_is_data():
    assert gather(entries("SKILL.md", "examples/SKILL.md", "examples/skill.md.txt")).warnings == ()


def test_system_files_are_checked_and_then_dropped():
    kept = gather(entries("SKILL.md", "__MACOSX/", "__MACOSX/._a", "a/.DS_Store", ".DS_Store", "a/__MACOSX/b"))
    assert list(kept.tree) == ["SKILL.md"]
    assert reason_of("SKILL.md", "__MACOSX/../x") == "path-traversal"
    assert reason_of("SKILL.md", ".DS_Store", ".ds_store") == "collision"
    assert list(gather(entries("SKILL.md", ".ds_store", "__macosx")).tree) == [".ds_store", "SKILL.md", "__macosx"]


@pytest.mark.parametrize(
    ("paths", "reason"),
    [
        (["a", "a"], "collision"),
        (["a", "A"], "collision"),
        (["a/", "a/"], "collision"),
        (["D/x", "d/y"], "collision"),
        (["é", "e\u0301"], "collision"),
        (["a", "a/b"], "file-as-folder"),
        (["a/b", "a"], "file-as-folder"),
        (["a", "a/"], "file-as-folder"),
        (["a/", "a"], "file-as-folder"),
        (["a/b", "A"], "collision"),
    ],
)
def test_entries_that_collide_are_refused(paths, reason):
    assert reason_of("SKILL.md", *paths) == reason


@pytest.mark.parametrize(
    ("paths", "reason"),
    [
        ([], "no-skill-md"),
        (["a"], "no-skill-md"),
        (["a/"], "no-skill-md"),
        (["a/b/SKILL.md"], "no-skill-md"),
        (["a/x", "b/y"], "no-skill-md"),
        (["__MACOSX/SKILL.md"], "no-skill-md"),
        (["a/SKILL.md", "b/SKILL.md"], "two-roots"),
        (["a/SKILL.md", "README.md"], "two-roots"),
        (["README.md", "a/SKILL.md"], "two-roots"),
        (["a/SKILL.md", "b/"], "two-roots"),
        (["skill.md"], "name-lookalike"),
        (["a/skill.md"], "name-lookalike"),
        (["SKILL.md", "\u0405KILL.md"], "name-lookalike"),
        (["SKILL.md", "Agents/openai.yaml"], "name-lookalike"),
        (["a/SKILL.md", "a/agents/OPENAI.yaml"], "name-lookalike"),
        (["SKILL.md", "agent\u017f/skillhub.yaml"], "name-lookalike"),
        (["SKILL.md/"], "skill-md-folder"),
        (["SKILL.md/SKILL.md"], "skill-md-folder"),
        (["a/SKILL.md/x"], "skill-md-folder"),
    ],
)
def test_an_archive_of_a_wrong_shape_is_refused(paths, reason):
    assert reason_of(*paths) == reason


def test_a_registry_accepts_no_wrapping_folder():
    assert reason_of("a/SKILL.md", wrapper=False) == "no-skill-md"
    assert reason_of("a/SKILL.md", "b/SKILL.md", wrapper=False) == "two-roots"
    assert list(gather(entries("SKILL.md", "a/b"), wrapper=False).tree) == ["SKILL.md", "a/b"]


@pytest.mark.parametrize(
    ("data", "reason"),
    [(b"caf\xe9", "skill-md-encoding"), (b"\xed\xa0\x80", "skill-md-encoding"), (b"a\0b", "skill-md-nul")],
)
def test_skill_md_that_is_not_text_is_refused(data, reason):
    with pytest.raises(UnsafeArchive) as caught:
        gather([Entry("SKILL.md", File(data))])
    assert (caught.value.reason, caught.value.where) == (reason, "SKILL.md")


def test_limits_are_inclusive():
    limits = Limits(total=len(SKILL) + 2, files=3)
    assert len(gather(entries("SKILL.md", "a", "b"), limits).tree) == 3
    assert reason_of("SKILL.md", "a", "b", "c", limits=Limits(files=3)) == "too-many-files"
    assert reason_of("SKILL.md", "a", "b", "c", limits=limits) == "too-large"


def test_entries_are_counted_and_the_limit_is_inclusive():
    limits = Limits(files=2)
    assert len(gather(entries("SKILL.md", "a", "b/", "c/"), limits).tree) == 2
    assert reason_of("SKILL.md", "a", "b/", "c/", "__MACOSX/d", limits=limits) == "too-many-files"


@pytest.mark.parametrize("pattern", ["f{}", "d{}/", "__MACOSX/{}", "__MACOSX/{}/", "d{}/e/f/g"])
def test_endless_entries_stop_the_reader_early(pattern):
    endless = entries(*(pattern.format(number) for number in range(10_000)))
    with pytest.raises(UnsafeArchive) as caught:
        gather(itertools.chain(entries("SKILL.md"), endless))
    assert caught.value.reason == "too-many-files"
    assert next(endless) is not None


def test_endless_bytes_stop_the_reader_early():
    taken = []

    def files():
        for number in itertools.count():
            taken.append(number)
            yield Entry(f"f{number}", File(bytes(100)))

    with pytest.raises(UnsafeArchive) as caught:
        gather(files(), Limits(total=1000))
    assert caught.value.reason == "too-large"
    assert len(taken) == 11

"""Skills on this machine: folders and archives."""

from __future__ import annotations

import os

import pytest

from skillhub.archive.unpack import pack
from skillhub.errors import FormatError, NotFound, StateError, UnsafeArchive, UsageError
from skillhub.formats.digest import Digest
from skillhub.model.tree import File, Tree
from skillhub.sources.local import read_local

TREE = Tree({"SKILL.md": File(b"---\nname: plain\n---\n"), "run.sh": File(b"#!\n", executable=True)})


@pytest.fixture
def folder(tmp_path):
    for path, file in TREE.items():
        (tmp_path / path).write_bytes(file.data)
        (tmp_path / path).chmod(0o755 if file.executable else 0o644)
    return tmp_path


def test_who_names_the_file_of_a_skill_is_told_its_folder(folder, monkeypatch):
    monkeypatch.chdir(folder)
    for path, place in ((str(folder / "SKILL.md"), str(folder)), ("SKILL.md", ".")):
        with pytest.raises(UsageError) as raised:
            read_local(path)
        assert raised.value.hint == f"name the folder of the skill: {place}"


def test_folder_is_read_as_a_skill(folder):
    found = read_local(str(folder))
    assert (found.tree.digest, found.archive) == (TREE.digest, None)


def test_git_and_system_files_are_left_out(folder):
    (folder / ".git").mkdir()
    (folder / ".git/config").touch()
    (folder / ".DS_Store").touch()
    assert read_local(str(folder)).tree.digest == TREE.digest


@pytest.mark.parametrize("name,kind", [("a.zip", "zip"), ("a.skill", "zip"), ("a.tar.gz", "tar.gz")])
def test_archive_is_read_as_a_skill(tmp_path, name, kind):
    data = pack(TREE, kind)
    (tmp_path / name).write_bytes(data)
    found = read_local(str(tmp_path / name))
    assert (found.tree.digest, found.archive) == (TREE.digest, Digest.of(data))


@pytest.mark.parametrize(
    "harm",
    [
        lambda folder: (folder / "link").symlink_to("SKILL.md"),
        lambda folder: (folder / "link").symlink_to("/"),
        lambda folder: os.mkfifo(folder / "pipe"),
        lambda folder: (folder / "CON").touch(),
        lambda folder: (folder / "skill.md").touch(),
        lambda folder: (folder / "a\nb").touch(),
        lambda folder: os.close(os.open(os.fsencode(folder) + b"/\xff", os.O_CREAT)),
    ],
)
def test_attack_a_folder_with_forbidden_entries_is_refused(folder, harm):
    harm(folder)
    with pytest.raises(UnsafeArchive):
        read_local(str(folder))


def test_attack_a_folder_above_the_size_limit_is_refused(folder):
    os.truncate(folder / "run.sh", 1 << 40)
    with pytest.raises(UnsafeArchive):
        read_local(str(folder))


def test_a_misspelled_path_gives_a_suggestion(folder, monkeypatch):
    (folder / "my skill").mkdir()
    monkeypatch.chdir(folder)
    with pytest.raises(NotFound) as caught:
        read_local("./my skil")
    assert caught.value.hint.startswith("did you mean './my skill'? expected a skill: ")


def test_missing_path_or_non_skill_is_refused(tmp_path):
    (tmp_path / "text.txt").touch()
    (tmp_path / "short.zip").write_bytes(b"PK")
    (tmp_path / "nowhere.zip").symlink_to("nothing")
    os.mkfifo(tmp_path / "pipe.zip")
    errors = {
        "no": NotFound,
        "no.zip": NotFound,
        ".": NotFound,
        "nowhere.zip": NotFound,
        "text.txt": UsageError,
        "short.zip": FormatError,
        "pipe.zip": StateError,
    }
    for name, error in errors.items():
        with pytest.raises(error):
            read_local(str(tmp_path / name))

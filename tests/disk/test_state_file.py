"""A file of the state: complete, validated in every member, shared with other processes."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skillhub.disk.state_file import StateDocument, StateFile
from skillhub.errors import FormatError, StateError
from skillhub.formats.document import Items, Members


class Words(StateDocument):
    words: Items[str]


def parse(document):
    return () if document is None else document.words


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "state" / "words.json")


def at(path):
    return StateFile(path, "the words", "restore the file", Words, parse)


def put(file, *words):
    with file.locked():
        file.write(words=(*file.read(), *words))


def test_a_written_document_is_read_by_every_reader(path):
    mine, other = at(path), at(path)
    assert mine.read() == ()
    put(mine, "a")
    assert other.read() == ("a",)
    put(other, "b")
    assert mine.read() == ("a", "b")
    assert json.loads(Path(path).read_bytes()) == {"words": ["a", "b"], "version": 1}


class Counts(StateDocument):
    counts: Members[str, int]


def test_the_documents_class_is_written_with_members_in_order(path):
    file = StateFile(path, "the counts", "restore the file", Counts, lambda found: found)
    with file.locked():
        file.write(counts={"b": 1, "a": 2})
    assert list(json.loads(Path(path).read_bytes())["counts"]) == ["b", "a"]


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
@pytest.mark.parametrize("document", [{}, {"words": "a"}, {"words": (1,)}, {"words": None}])
def test_attack_an_invalid_document_is_not_written(path, document):
    file = at(path)
    put(file, "a")
    with file.locked(), pytest.raises(FormatError):
        file.write(**document)
    assert at(path).read() == ("a",)


def test_an_unchanged_document_is_parsed_once(path):
    seen = []
    put(at(path), "a")
    file = StateFile(path, "the words", "restore the file", Words, seen.append)
    for _ in range(3):
        file.read()
    assert len(seen) == 1


def test_a_missing_document_is_parsed_once_until_written(path):
    seen = []
    file = StateFile(path, "the words", "restore the file", Words, lambda found: seen.append(found) or parse(found))
    for _ in range(3):
        file.read()
    assert seen == [None]
    put(at(path), "a")
    assert file.read() == ("a",)


def test_attack_an_unreadable_place_is_not_taken_for_a_missing_file(path):
    file = at(path)
    assert file.read() == ()
    Path(path).parent.write_bytes(b"")
    with pytest.raises(StateError):
        file.read()


def test_a_deleted_file_is_not_cached(path):
    file = at(path)
    put(file, "a")
    assert file.read() == ("a",)
    os.unlink(path)
    assert file.read() == ()


def test_simultaneous_writers_lose_nothing(path):
    threads = [threading.Thread(target=put, args=(at(path), str(number))) for number in range(16)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(map(int, at(path).read())) == list(range(16))


def test_a_path_outside_of_utf8_can_be_read_again(path):
    put(at(path), os.fsdecode(b"/caf\xe9"))
    assert at(path).read() == ("/caf?",)


def test_the_file_is_private_to_its_user(path):
    put(at(path), "a")
    assert os.name == "nt" or os.stat(path).st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", ":1:1"),
        ("[]", ""),
        ("null", ""),
        ('{"words": []}', ": version"),
        ('{"words": [], "version": 2}', ": version"),
        ('{"words": [], "version": true}', ": version"),
        ('{"words": ["a", 7], "version": 1}', ": words[1]"),
        ('{"words": [], "words": [], "version": 1}', ""),
    ],
)
def test_an_invalid_file_is_refused_with_the_place_of_the_fault(path, text, fault):
    os.mkdir(os.path.dirname(path))
    Path(path).write_text(text)
    for _ in range(2):
        with pytest.raises(StateError) as caught:
            at(path).read()
        assert caught.value.where == f"{path}{fault}"
        assert caught.value.message.startswith("the file with the words cannot be read: ")
    with pytest.raises(StateError):
        put(at(path), "a")
    assert Path(path).read_text() == text


@pytest.mark.parametrize(("version", "words"), [(2, "upgrade skillhub"), (0, "restore the file")])
def test_a_file_of_another_version_is_refused_with_a_hint(path, version, words):
    os.mkdir(os.path.dirname(path))
    Path(path).write_text(json.dumps({"words": [], "version": version}))
    with pytest.raises(StateError) as caught:
        at(path).read()
    assert words in caught.value.hint


def test_a_file_over_the_limit_is_not_read(path):
    os.mkdir(os.path.dirname(path))
    with open(path, "wb") as file:
        file.truncate((16 << 20) + 1)
    with pytest.raises(StateError) as caught:
        at(path).read()
    assert caught.value.where == path


@pytest.mark.skipif(os.name != "posix", reason="a link is made with a right of its own elsewhere")
def test_attack_a_link_in_place_of_the_state_file_is_not_followed(path, tmp_path):
    put(at(path), "a")
    os.rename(path, tmp_path / "elsewhere.json")
    os.symlink(tmp_path / "elsewhere.json", path)
    with pytest.raises(StateError):
        at(path).read()


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=200))
def test_any_bytes_raise_only_our_error(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    Path(path).write_bytes(data)
    with pytest.raises(StateError):
        at(path).read()

"""The index of stored values: the skills of each name, without the values."""

from __future__ import annotations

import json
import os

import pytest

from skillhub.errors import StateError
from skillhub.project.user_state import Secret, SecretIndex

ONE = Secret("k1", "project", "/one", "TOKEN", ("a", "b"))
OTHER = Secret("k2", "project", "/two", "TOKEN", ("a",))


@pytest.fixture
def index(tmp_path):
    return SecretIndex(str(tmp_path / "state"))


def test_value_belongs_to_one_project_and_its_skills(index):
    assert index.all() == ()
    index.put(ONE)
    index.put(OTHER)
    assert index.names_for("k1", "a") == {"TOKEN"}
    assert index.names_for("k2", "b") == index.names_for("k3", "a") == frozenset()
    index.put(Secret("k1", "project", "/one", "TOKEN", ("c",)))
    assert [each.skills for each in index.all()] == [("c",), ("a",)]
    index.drop(ONE)
    assert index.all() == (OTHER,)
    assert index.find("k1", "TOKEN") is None


def test_removed_skill_loses_its_values(index):
    index.put(ONE)
    index.put(OTHER)
    index.leave("k1", ["a", "absent"])
    assert [each.skills for each in index.all()] == [("b",), ("a",)]


def test_index_is_private_to_the_user(index, tmp_path):
    index.put(ONE)
    path = tmp_path / "state" / "secrets.json"
    assert os.stat(path).st_mode & 0o077 == 0
    assert set(json.loads(path.read_bytes())["secrets"][0]) == {"key", "scope", "project", "name", "skills"}


def test_readers_see_changes_of_other_readers(index, tmp_path):
    other = SecretIndex(str(tmp_path / "state"))
    index.put(ONE)
    assert other.all() == (ONE,)
    other.put(OTHER)
    assert index.all() == (ONE, OTHER)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[]", ""),
        ('{"version": 1}', ": secrets"),
        ('{"secrets": [], "version": 2}', ": version"),
        (
            '{"secrets": [{"key": "k", "scope": "all", "project": "/", "name": "A", "skills": []}], "version": 1}',
            ": secrets[0].scope",
        ),
        (
            '{"secrets": [{"key": "k", "scope": "user", "project": "/", "name": "A", "skills": ["*"]}],"version": 1}',
            ": secrets[0].skills[0]",
        ),
    ],
)
def test_invalid_index_is_refused_with_its_path(index, tmp_path, text, fault):
    path = tmp_path / "state" / "secrets.json"
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(StateError) as caught:
        index.names_for("k", "a")
    assert caught.value.where == f"{path}{fault}"

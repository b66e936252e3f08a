"""Every archive of ``fixtures/attacks`` is refused for its reason, or unpacks to exactly its content."""

import os
from collections import Counter
from contextlib import chdir

import pytest

from fixtures.attacks import CASES, Accepted, Case, Hostile, Malformed
from skillhub.archive.unpack import unpack
from skillhub.errors import FormatError, UnsafeArchive


def _cases(kind):
    return [pytest.param(case, id=case.name) for case in CASES if isinstance(case.expect, kind)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Run in an empty folder without other files."""
    folder = tmp_path_factory.mktemp("corpus") / "here"
    folder.mkdir()
    with chdir(folder):
        yield folder


@pytest.fixture(autouse=True)
def empty(folder):
    """Assert that the folder is empty afterwards: unpacking writes no file."""
    yield
    assert os.listdir(folder) == []
    assert os.listdir(folder.parent) == ["here"]


@pytest.mark.parametrize("case", _cases(Hostile))
def test_hostile_archive_is_refused_for_its_reason(case: Case) -> None:
    with pytest.raises(UnsafeArchive) as caught:
        unpack(case.make(), case.kind)
    assert caught.value.reason in case.expect.reasons
    assert caught.value.exit_code == 5


@pytest.mark.parametrize("case", _cases(Malformed))
def test_bytes_without_an_archive_are_a_format_error(case: Case) -> None:
    with pytest.raises(FormatError) as caught:
        unpack(case.make(), case.kind)
    assert caught.value.exit_code == 4


@pytest.mark.parametrize("case", _cases(Accepted))
def test_an_honest_archive_unpacks_to_its_content(case: Case) -> None:
    unpacked = unpack(case.make(), case.kind)
    tree = unpacked.tree
    assert set(tree) == set(case.expect.files)
    assert [path for path, file in tree.items() if file.data != case.expect.files[path]] == []
    assert {path for path, file in tree.items() if file.executable} == case.expect.executables
    assert case.expect.warning in (None, bool(unpacked.warnings))


def test_names_are_unique() -> None:
    assert [name for name, count in Counter(case.name for case in CASES).items() if count > 1] == []


def test_corpus_is_large_enough() -> None:
    kinds = Counter((case.kind, type(case.expect)) for case in CASES)
    for kind in ("zip", "tar.gz"):
        assert kinds[kind, Hostile] >= 150
        assert kinds[kind, Accepted] >= 40


def test_archives_are_the_same_each_time() -> None:
    small = [case for case in CASES if "-bomb-" not in case.name and "-size-" not in case.name]
    # Each third of them: all are made by the same few functions.
    assert [case.name for case in small[::3] if case.make() != case.make()] == []

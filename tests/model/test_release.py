import pytest

from skillhub.errors import NotFound
from skillhub.model.index import Index, Release, newest_first


def release(version):
    return Release(name="a", url="a.zip", version=version)


def test_newest_release_is_first_by_precedence():
    releases = tuple(map(release, ["1.9.0", "1.10.0", "2.0.0-rc.1", "2.0.0", None]))
    ordered = [each.version for each in newest_first(releases)]
    assert ordered == ["2.0.0", "2.0.0-rc.1", "1.10.0", "1.9.0", None]


def test_index_lists_names_and_escapes_an_unknown_one():
    index = Index({"b": (release("1.0.0"),), "a": ()})
    assert index.names == ("a", "b")
    assert index.releases("b") == (release("1.0.0"),)
    with pytest.raises(NotFound) as caught:
        index.releases("\x1b[2J")
    assert caught.value.message.isprintable()


@pytest.mark.parametrize(
    ("yanked", "withdrawn", "expected"),
    [
        (None, None, ""),
        ("slow", None, "yanked: slow"),
        ("slow", "harmful", "withdrawn: harmful"),
        ("", None, "yanked: no reason given"),
    ],
)
def test_taken_back_states_yank_or_withdrawal(yanked, withdrawn, expected):
    assert Release(name="one", url="u", yanked=yanked, withdrawn=withdrawn).taken_back == expected

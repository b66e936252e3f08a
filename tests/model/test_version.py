import contextlib
import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from semantic_version import SimpleSpec, Version

from skillhub.errors import SkillhubError, UsageError
from skillhub.model.version import Range, is_version, precedence


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("1.2.0", ["1.2.0", "1.2.0+build"], ["1.2.1", "1.2.0-rc.1"]),
        ("^1.2", ["1.2.0", "1.9.9"], ["1.1.9", "2.0.0", "2.0.0-rc.1", "1.2.0-rc.1"]),
        ("~1.2", ["1.2.0", "1.2.9"], ["1.3.0"]),
        (">=1.1,<2", ["1.1.0", "1.99.0"], ["2.0.0", "1.0.9", "2.0.0-rc.1", "1.5.0-rc.1"]),
        (" >= 1.1 , < 2 ", ["1.1.0"], ["2.0.0"]),
        ("*", ["0.0.1", "9.9.9"], ["1.0.0-rc.1"]),
        ("1", ["1.0.0", "1.9.0"], ["2.0.0"]),
        ("!=1.2.0", ["1.2.1"], ["1.2.0"]),
        ("^0.1.2", ["0.1.2", "0.1.9"], ["0.2.0"]),
        ("1.2.0-rc.1", ["1.2.0-rc.1"], ["1.2.0", "1.2.0-rc.2"]),
        # A pre-release only where the range names one of the same version.
        ("^1.2.0-rc.1", ["1.2.0-rc.1", "1.2.0-rc.2", "1.2.0", "1.3.0"], ["1.2.0-beta", "1.3.0-rc.1"]),
        (">=1.0.0-alpha,<3", ["1.0.0-alpha", "1.0.0-beta", "2.0.0"], ["2.0.0-beta"]),
    ],
)
def test_range_allows_its_versions(text, inside, outside):
    wanted = Range(text)
    assert [version for version in (*inside, *outside) if wanted.allows(version)] == inside
    assert str(wanted) == text.strip()


@pytest.mark.parametrize("version", ["", "1.0", "v1.0.0", "latest", "1.0.0\n", "１.0.0", "1.0.0-01"])
def test_invalid_version_is_in_no_range(version):
    assert not is_version(version)
    assert not Range("*").allows(version)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "latest",
        "v1.2.0",
        "1.x",
        "1 2",
        "1.2.0 ^1",
        "1.2 || 2",
        "1.2,",
        ">",
        "^^1",
        "01.2.0",
        "１.2",
        "^" + "9" * 5000,
        "1," * 50000 + "1",
    ],
)
def test_invalid_range_is_refused(text):
    with pytest.raises(UsageError, match="expected a version or a range"):
        Range(text)


@given(st.text(max_size=30) | st.from_regex(r"[0-9.^~<>=!*, a-z+-]{0,20}", fullmatch=True))
def test_any_range_is_parsed_or_refused(text):
    is_version(text)
    with contextlib.suppress(SkillhubError):
        assert Range(text).allows("1.2.3") in (True, False)


def test_precedence_follows_clause_11_of_semver():
    ascending = ["1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2"]
    ascending += ["1.0.0-beta.11", "1.0.0-rc.1", "1.0.0", "2.0.0", "2.1.0", "2.1.1", "2.10.0"]
    assert sorted(reversed(ascending), key=precedence) == ascending
    assert all(map(is_version, ascending))


numbers = st.sampled_from(["0", "1", "2", "10", "9007199254740993"])
identifiers = st.sampled_from(["0", "1", "10", "rc", "alpha", "a-b", "1a", "-", "01", ""])
labels = st.lists(identifiers, min_size=1, max_size=3).map(".".join)
texts = st.builds(
    lambda core, pre, build: ".".join(core) + pre + build,
    st.lists(numbers, min_size=3, max_size=3),
    st.just("") | labels.map("-{}".format),
    st.just("") | labels.map("+{}".format),
)
versions = texts.filter(is_version)
signs = st.sampled_from(["", "=", "==", "!=", "<", "<=", ">", ">=", "^", "~", "~="])
partial = st.sampled_from(["*", "1", "1.*", "2", "2.*.*", "1.2", "1.2.*", "0.1", "10.0"])
clauses = st.builds("{}{}".format, signs, versions | partial)


@given(texts)
def test_versions_equal_those_of_another_implementation(text):
    try:
        Version(text)
    except ValueError:
        assert not is_version(text)
    else:
        assert is_version(text)


@given(versions, versions)
def test_precedence_equals_that_of_another_implementation(one, other):
    plain, other_plain = (Version(each.partition("+")[0]) for each in (one, other))
    assert (precedence(one) < precedence(other)) == (plain < other_plain)


@given(clauses, st.none() | clauses, versions)
def test_ranges_equal_those_of_another_implementation(clause, second, version):
    spelled = clause if second is None else f"{clause},{second}"
    # There, ^1.0.0-rc.1 and ~1.2.0-rc.1 end before 1.0.0 and 1.2.0; for cargo and npm they continue.
    assume(not re.search(r"[\^~]=?(?:\d+\.\d+\.0|\d+\.0\.0)-", spelled))
    # There, pre-releases of the version after `<` are not below it, even if the range names one.
    assume(not (re.search(r"<(?!=)", spelled) and "-" in version))
    try:
        other = SimpleSpec(spelled)
    except (ValueError, AssertionError):
        with pytest.raises(UsageError):
            Range(spelled)
        return
    if "-" in version.partition("+")[0]:
        assert not Range(spelled).allows(version) or other.match(Version(version))
    else:
        assert Range(spelled).allows(version) == other.match(Version(version))


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("^0", ["0.0.0", "0.9.9"], ["1.0.0"]),
        ("^0.0", ["0.0.9"], ["0.1.0"]),
        ("^0.0.3", ["0.0.3"], ["0.0.4", "0.0.2"]),
        ("^1.0.0-rc.1", ["1.0.0-rc.2", "1.0.0", "1.9.0"], ["1.0.0-beta", "2.0.0"]),
        ("~1.2.0-rc.1", ["1.2.0", "1.2.9"], ["1.3.0"]),
        ("<1.2.0,>=1.2.0-rc.1", ["1.2.0-rc.1", "1.2.0-rc.2"], ["1.2.0-beta", "1.2.0"]),
        ("<1.2.0", ["1.1.9"], ["1.2.0-rc.1"]),
        ("<2,>=2.0.0-rc.1", [], ["2.0.0-rc.1", "2.0.0"]),
        ("=1.2.0+b", ["1.2.0+b"], ["1.2.0", "1.2.0+c"]),
        ("<=1.2", ["1.2.9"], ["1.3.0"]),
        (">1.2", ["1.3.0"], ["1.2.9"]),
    ],
)
def test_edge_cases_of_ranges_follow_cargo(text, inside, outside):
    wanted = Range(text)
    assert [version for version in (*inside, *outside) if wanted.allows(version)] == inside

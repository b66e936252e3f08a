"""Accepted paths, and names that some file system treats as equal."""

import posixpath
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillhub.archive.limits import _PLAIN, Limits, _check_segment, check_path, fold, is_lookalike
from skillhub.errors import UnsafeArchive

LIMITS = Limits()


def reason_of(path, limits=LIMITS):
    with pytest.raises(UnsafeArchive) as caught:
        check_path(path, limits)
    return caught.value.reason


@pytest.mark.parametrize(
    "path",
    [
        "SKILL.md",
        "a",
        "-",
        "_",
        "scripts/run.sh",
        ".gitignore",
        ".github/workflows/x.yml",
        ".gitmodules",
        "gitlab/.gitattributes",
        "a b (1).txt",
        " leading space",
        "..a",
        "a..b",
        "...a",
        "%2e%2e%2fa",
        "~root",
        "notes~",
        "notes.md~1",
        "~1.md",
        "longer-name~1.md",
        "SKILLF~12",
        "report~1.json",
        "console.log",
        "common/null.txt",
        "aux1.md",
        "com10",
        "icon.png",
        "naïve.md",
        "日本語/説明。.md",
        "🎉.md",
        "❤️.md",
        "1️⃣ first.md",
        "Screenshot 9.41.00\u202fAM.png",
        "a/" * 31 + "b",
        "n" * 255,
        "é" * 127,
    ],
)
def test_honest_paths_are_accepted(path):
    check_path(path, LIMITS)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("", "path-traversal"),
        (".", "path-traversal"),
        ("..", "path-traversal"),
        ("a/../b", "path-traversal"),
        ("a//b", "path-traversal"),
        ("a/", "path-traversal"),
        (".. /a", "path-traversal"),
        ("...", "path-traversal"),
        ("．．/a", "path-traversal"),
        ("/a", "path-absolute"),
        ("C:a", "path-absolute"),
        ("\\\\host\\share", "path-absolute"),
        ("\\a", "path-backslash"),
        ("ab:c", "path-stream"),
        ("a\0b", "path-nul"),
        ("a\udc80", "name-encoding"),
        ("a\x1b", "name-hidden"),
        ("\ufe0fa", "name-hidden"),
        ("NUL", "name-reserved"),
        ("x/con.tar.gz", "name-reserved"),
        ("nul .txt", "name-reserved"),
        ("COM¹", "name-reserved"),
        ("a.", "name-reserved"),
        ("a ", "name-reserved"),
        ("what?", "name-reserved"),
        (".GIT", "name-dot-git"),
        (".git. ", "name-dot-git"),
        ("．git", "name-dot-git"),
        ("GIT~1", "name-dot-git"),
        ("agents/OPENAI~1.YAM", "name-reserved"),
        ("SKILL~12", "name-reserved"),
        ("AB1F2C~1.M", "name-reserved"),
        ("n" * 256, "name-too-long"),
        ("é" * 128, "name-too-long"),
        ("/".join(["n" * 204] * 5 + ["n"]), "path-too-long"),
        ("a/" * 32 + "b", "too-deep"),
    ],
)
def test_a_hostile_path_is_refused(path, reason):
    assert reason_of(path) == reason


def test_limits_are_inclusive_and_configurable():
    small = Limits(name=4, path=8, depth=2)
    check_path("abcd/abc", small)
    assert reason_of("abcde", small) == "name-too-long"
    assert reason_of("abcd/abcd", small) == "path-too-long"
    assert reason_of("a/b/c", small) == "too-deep"
    assert reason_of("a/b/c", Limits(path=4)) == "path-too-long"


ANY = st.text(max_size=40) | st.from_regex(r"[a-zA-Z0-9._~ /:\\-]{0,24}", fullmatch=True)


@given(ANY)
def test_an_accepted_path_stays_inside(path):
    try:
        check_path(path, LIMITS)
    except UnsafeArchive as error:
        assert error.reason
        return
    assert posixpath.normpath(path) == path
    assert not path.startswith("/")
    assert ".." not in path.split("/")
    assert not re.search(r'[\\:\0<>"|?*\x01-\x1f\x7f]|[. ](?:/|\Z)', path)
    assert path.encode().decode() == path


@given(st.from_regex(r"[a-zA-Z0-9._-]{1,12}(/[a-zA-Z0-9._-]{1,12}){0,2}", fullmatch=True))
def test_the_fast_check_accepts_only_paths_that_the_rules_accept(path):
    if _PLAIN.fullmatch(path):
        for segment in path.split("/"):
            _check_segment(segment, path)


def test_reserved_names_are_refused_in_spite_of_the_fast_check():
    for name in ("con", "PRN", "Aux", "nul", "com0", "COM9", "lpt1", "Lpt9"):
        for path in (name, name + ".md", f"a/{name}", f"{name}/a", f"{name}.x/y"):
            assert reason_of(path) == "name-reserved"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("README", "readme"),
        ("É", "é"),
        ("é", "e\u0301"),
        ("straße", "STRASSE"),
        ("ς", "σ"),
        ("\u0131", "I"),
        ("\u212a", "k"),
        ("ﬁ", "FI"),
        ("ａ", "a"),
        ("a", "a."),
        ("a．", "a"),
        ("❤️", "❤"),
        ("①", "1"),
    ],
)
def test_names_that_some_file_system_treats_as_equal_fold_to_one(first, second):
    assert fold(first) == fold(second)


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8))
def test_folding_joins_case_and_form(name):
    forms = {unicodedata.normalize(form, name) for form in ("NFC", "NFD", "NFKC", "NFKD")}
    assert len({fold(form) for form in forms}) == 1
    assert fold(name.upper()) == fold(name)


@pytest.mark.parametrize(
    "name", ["skill.md", "Skill.MD", "SKlLL.md", "SK1LL.md", "5KILL.md", "SKILL.rnd", "SKÍLL.md", "SKILL.md\u0301"]
)
def test_a_misspelled_skill_md_is_a_look_alike(name):
    assert is_lookalike(name)


@pytest.mark.parametrize(
    "name",
    [
        "ＳＫＩＬＬ.md",
        "SKILL．md",
        "SKILL․md",
        "SKILL.ⅿd",
        "\u0405KILL.md",
        "SКILL.md",
        "ꓢKILL.md",
        "𝐒𝐊𝐈𝐋𝐋.md",
        "S\u0301K\u0301I\u0301LL.md",
        "SKILL\ufe0f.md",
    ],
)
def test_skill_md_in_other_scripts_is_a_look_alike(name):
    assert is_lookalike(name)


@pytest.mark.parametrize(
    ("letter", "others"),
    [
        ("s", "5ѕꜱƽᏚꓢտ"),
        ("k", "κкᴋĸⲕқҝᏦꓗ"),
        ("i", "1|!ıɩɪιіӏⲓᎥᏞꓡꓲʟǀ∣"),
        (".", "·۰"),
        ("m", "μмᴍⲙϻᎷꓟ"),
        ("d", "ԁɗđᎠꓓᴅ"),
    ],
)
def test_every_confusable_letter_makes_a_look_alike(letter, others):
    for other in others:
        assert is_lookalike("skill.md".replace(letter, other)), other
    assert not is_lookalike("skill.md".replace(letter, "~"))


@pytest.mark.parametrize("name", ["SKILL.md", "SKILLS.md", "SKILL.mdx", "SHELL.md", "skill", "KILL.md", "説明.md"])
def test_an_ordinary_name_is_no_lookalike(name):
    assert not is_lookalike(name)

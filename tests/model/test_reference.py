import contextlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skillhub.errors import SkillhubError, UsageError
from skillhub.formats.text import RESERVED_ALIASES, is_alias
from skillhub.model.reference import (
    Git,
    GitHub,
    Local,
    Named,
    Oci,
    SiteReference,
    canonical,
    is_range,
    parse_ref,
    parse_remote,
    repository,
)
from tests.support.effort import is_linear

ROWS = [
    ("github:gh-fix-ci", Named("gh-fix-ci", "github")),
    ("gh-fix-ci", Named("gh-fix-ci")),
    ("github:gh-fix-ci@1.2.0", Named("gh-fix-ci", "github", "1.2.0")),
    ("gh-fix-ci@^1.2", Named("gh-fix-ci", None, "^1.2")),
    ("gh-fix-ci@>=1.1,<2", Named("gh-fix-ci", None, ">=1.1,<2")),
    ("gh-fix-ci@ >= 1.1, < 2 ", Named("gh-fix-ci", None, ">= 1.1, < 2")),
    ("gh-fix-ci@1.2.0-rc.1+build.5", Named("gh-fix-ci", None, "1.2.0-rc.1+build.5")),
    ("a" * 64, Named("a" * 64)),
    ("locally:deploy", Named("deploy", "locally")),
    ("./folder", Local("./folder")),
    ("/folder", Local("/folder")),
    ("./skill.zip", Local("./skill.zip")),
    ("./skill.tar.gz", Local("./skill.tar.gz")),
    ("./skill.skill", Local("./skill.skill")),
    ("../skill@1.0", Local("../skill@1.0")),
    (".", Local(".")),
    ("..", Local("..")),
    ("~/skill", Local("~/skill")),
    ("./a b/ünïcode", Local("./a b/ünïcode")),
    (".\\folder", Local(".\\folder")),
    ("C:\\skills\\deploy", Local("C:\\skills\\deploy")),
    ("c:/skills/deploy", Local("c:/skills/deploy")),
    ("\\\\server\\share", Local("\\\\server\\share")),
    ("owner/repo", GitHub("owner", "repo")),
    ("owner/repo@v1", GitHub("owner", "repo", "v1")),
    ("github:owner/repo", GitHub("owner", "repo")),
    ("github:owner/repo/skills/x@feature/y", GitHub("owner", "repo", "feature/y", "skills/x")),
    ("https://github.com/owner/repo", GitHub("owner", "repo")),
    ("https://github.com/owner/repo.git", GitHub("owner", "repo")),
    ("https://github.com/owner/repo/tree/main/skills/x", GitHub("owner", "repo", "main", "skills/x")),
    ("git+https://host/repo.git", Git("https://host/repo.git")),
    ("git+https://host/repo.git@v1#path", Git("https://host/repo.git", "v1", "path")),
    ("git+ssh://git@host/repo.git@feature/x#a/b", Git("ssh://git@host/repo.git", "feature/x", "a/b")),
    ("git+file:///srv/a b/ü@v1", Git("file:///srv/a b/ü", "v1")),
    ("https://gitlab.example/a/b.git", Git("https://gitlab.example/a/b.git")),
    ("https://host", SiteReference("https://host")),
    ("https://host/path/index.json", SiteReference("https://host/path/index.json")),
    ("http://localhost:8000", SiteReference("http://localhost:8000")),
    (f"https://{'a' * 63}.b-1.example.:8443", SiteReference(f"https://{'a' * 63}.b-1.example.:8443")),
    ("http://[::1]:8000/x", SiteReference("http://[::1]:8000/x")),
    ("oci://registry:5000/a/b:tag", Oci("registry:5000/a/b", "tag")),
    ("oci://registry/repository@sha256:" + "a" * 64, Oci("registry/repository", None, "sha256:" + "a" * 64)),
]


@pytest.mark.parametrize(("text", "expected"), ROWS)
def test_reference_is_parsed(text, expected):
    assert parse_ref(text) == expected


@pytest.mark.parametrize("ref", [ref for _, ref in ROWS], ids=str)
def test_reference_is_read_back(ref):
    assert parse_ref(str(ref)) == ref


@pytest.mark.parametrize(
    ("typed", "canonical_form"),
    [
        ("git@github.com:owner/repo.git", "git+ssh://git@github.com/owner/repo.git"),
        ("git@github.com:owner/repo.git@v1", "git+ssh://git@github.com/owner/repo.git@v1"),
        ("git@github.com:a/b", "git+ssh://git@github.com/a/b"),
        ("git@host:/srv/repo.git", "git+ssh://git@host/srv/repo.git"),
        ("gitlab.com:group/sub/repo", "git+ssh://gitlab.com/group/sub/repo"),
        ("ssh://git@host:2222/a/b.git@v1#skills/pdf", "git+ssh://git@host:2222/a/b.git@v1#skills/pdf"),
    ],
)
def test_typed_form_of_git_over_ssh_is_a_reference_and_spelled_as_url(typed, canonical_form):
    assert parse_ref(typed) == parse_ref(canonical_form)
    assert str(parse_ref(typed)) == canonical_form
    with pytest.raises(UsageError):
        parse_remote(typed)


@pytest.mark.parametrize(
    "text", ["file:///srv/skill", "https:deploy", "embedded:deploy", "local:deploy", "git://host/r"]
)
def test_unknown_kind_is_refused_with_a_hint_about_git(text):
    with pytest.raises(UsageError, match="expected a reference such as") as caught:
        parse_ref(text)
    assert ("git+file:///" if text.startswith("file:") else "git+") in caught.value.hint
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("text", ["github.com/owner/repo", "gitlab.com/a/b", "skills.example.com", "a.example:8443"])
def test_host_without_a_scheme_is_refused_with_its_url(text):
    with pytest.raises(UsageError) as caught:
        parse_ref(text)
    assert f"https://{text}" in caught.value.hint
    parse_ref(f"https://{text}")


@pytest.mark.parametrize("text", ["skill.zip", "a.example/$(id)", "a.example/x;id"])
def test_archive_and_code_of_a_shell_are_no_host(text):
    with pytest.raises(UsageError) as caught:
        parse_ref(text)
    assert "https://" not in caught.value.hint


@pytest.mark.parametrize(
    "text",
    [
        "git+https://-x/repo",
        *("git+ssh://-oProxyCommand=id/repo", "ssh://-oProxyCommand=id/repo", "ssh://git@host/a@--upload-pack=id"),
        "git+ext::sh -c id",
        "git+https://me:secret@host/repo",
        "git+https://host/repo@--upload-pack=id",
        "git+https://host/repo@a..b",
        "git+https://host/repo#../../etc",
        "git+file://host/repo",
        "owner/repo@-x",
        "owner/repo/../../x",
        "owner/..",
        "https://me:secret@host/",
        "https://host/a b",
        "oci://host/UPPER:tag",
        "oci://host/a@sha256:12",
        "oci://host",
        "oci://a..b/x",
        "https://a..b/x",
        "git+ssh://git@a..b/x",
        f"https://{'a' * 64}.example/",
    ],
)
def test_attack_an_unsafe_reference_is_refused(text):
    with pytest.raises(UsageError):
        parse_ref(text)


@pytest.mark.parametrize(
    ("text", "place", "source"),
    [
        ("github:owner/repo/skills/x@v1", "github:owner/repo", "github:owner/repo@v1"),
        ("git+https://host/repo.git@v1#path", "git+https://host/repo.git", "git+https://host/repo.git@v1"),
        ("https://host/skills", "https://host/skills", "https://host/skills"),
        ("oci://host/a/b:1.0", "oci://host/a/b", "oci://host/a/b:1.0"),
    ],
)
def test_source_of_a_reference_has_no_folder(text, place, source):
    ref = parse_remote(text)
    assert (ref.place, ref.source) == (place, source)
    assert parse_remote(source).place == place


def test_repository_is_recognized_by_its_url():
    assert repository("https://github.com/owner/repo") == GitHub("owner", "repo")
    assert repository("https://git.example/owner/repo") == Git("https://git.example/owner/repo")


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        " gh-fix-ci",
        "gh-fix-ci ",
        "Gh-Fix-Ci",
        "GitHub:gh-fix-ci",
        "gh_fix_ci",
        "gh--fix",
        "-gh",
        "gh-",
        "--yes",
        "a" * 65,
        "a" * 65 + ":b",
        ":gh",
        "github:",
        "a:b:c",
        "@1.2.0",
        "gh@",
        "gh@ ",
        "gh@1@2",
        "gh@v1;rm",
        "gh@" + "1" * 257,
        "skill.zip",
        ".hidden",
        "...",
        "gh-fix-ci#path",
        "дерloy",
        "ｇｈ",
        "gh²",
        "C:deploy",
        "gh:..",
        "gh@１.2",
    ],
)
def test_invalid_reference_is_refused_with_a_hint(text):
    with pytest.raises(UsageError, match="expected a reference") as caught:
        parse_ref(text)
    assert "./" in caught.value.hint


@pytest.mark.parametrize(
    "text", ["gh\n", "gh\0", "./a\0b", "./a\nb", "./\x1b[2J", "gh\u200b", "./caf\udce9", "gh@1\u202e"]
)
def test_attack_hidden_characters_are_refused(text):
    with pytest.raises(UsageError, match="without hidden characters") as caught:
        parse_ref(text)
    assert caught.value.message.isprintable()


@given(st.text(max_size=40) | st.from_regex(r"[a-z:@./~^<>=0-9-]{0,20}", fullmatch=True))
@example("a@" + "^" * 256)
def test_any_reference_is_read_back_or_refused(text):
    with contextlib.suppress(SkillhubError):
        ref = parse_ref(text)
        assert parse_ref(str(ref)) == ref
        if isinstance(ref, Named):
            assert ref.source is None or is_alias(ref.source)
            assert ref.range is None or is_range(ref.range)


def test_reserved_words_are_no_aliases():
    assert {"http", "https", "git", "oci", "file", "embedded", "local", "mcp"} == RESERVED_ALIASES
    assert not any(map(is_alias, RESERVED_ALIASES))
    assert is_alias("github")
    assert not is_alias("GitHub")


@pytest.mark.parametrize(
    "text", ["https://me:secret@host/", "git+https://me:secret@host/repo", "ssh://me:secret@host/x"]
)
def test_password_in_a_reference_is_refused_and_not_shown(text):
    with pytest.raises(UsageError) as caught:
        parse_ref(text)
    assert "secret" not in caught.value.message + (caught.value.hint or "")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("git+https://host/a", "git+https://HOST/a/"),
        ("https://host:443/a@v1", "https://host/a/@v1"),
        ("git+ssh://git@host:22/a?plugin=x", "git+ssh://git@Host/a/?plugin=x"),
        ("http://[::1]:80/a", "http://[::1]/a"),
        ("file:///srv/a/", "file:///srv/a"),
    ],
)
def test_equivalent_spellings_have_one_canonical_form(one, other):
    assert canonical(one) == canonical(other)
    assert canonical(canonical(one)) == canonical(one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://host/a", "https://host/A"),
        ("https://host/a", "https://host/a.git"),
        ("https://host/a", "https://host/a//"),
        ("https://host/a", "http://host/a"),
        ("https://host/a", "https://host:22/a"),
        ("ssh://a@host/a", "ssh://A@host/a"),
        ("https://host/a@v1", "https://host/a@V1"),
        ("file:///srv/a", "file:///srv/A"),
        ("git+https://host/a", "https://host/a"),
    ],
)
def test_attack_different_urls_have_different_canonical_forms(one, other):
    assert canonical(one) != canonical(other)


def test_attack_the_cost_of_a_long_path_over_ssh_is_linear():
    def work(size):
        with pytest.raises(UsageError):
            parse_ref(f"host.name:{'a/' * size}:")

    assert is_linear(work, 1_000)


@pytest.mark.parametrize(
    "token", ["ghp_0123456789abcdefghij0123456789abcdef", "glpat-0123456789abcdefghij", "x" * 17]
)
def test_attack_a_token_before_the_host_is_not_shown(token):
    with pytest.raises(UsageError) as caught:
        parse_ref(f"{token}@github.com:owner/repo.git")
    assert token not in f"{caught.value.message} {caught.value.hint}"

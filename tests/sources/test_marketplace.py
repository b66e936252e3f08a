"""Marketplaces of plugins: what an entry may say, and what is declined."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillhub.errors import FormatError, SkillhubError
from skillhub.sources.layout import Declined, Elsewhere, Here, PluginFile, read_marketplace

COMMIT = "0123456789" * 4


def read(*plugins, **more):
    return read_marketplace(json.dumps({"name": "m", "plugins": plugins, **more}).encode(), "market.json")


def source_of(source, **more):
    (plugin,) = read({"name": "p", "source": source}, **more)
    return plugin.source


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("./plugins/a", Here("plugins/a")),
        ("./", Here("")),
        ({"source": "local", "path": "./plugins/a/"}, Here("plugins/a")),
        ({"source": "github", "repo": "o/r"}, Elsewhere("https://github.com/o/r.git")),
        ({"source": "github", "repo": "o/r", "ref": "v1"}, Elsewhere("https://github.com/o/r.git", "v1")),
        (
            {"source": "url", "url": "https://git.example/x.git", "sha": COMMIT, "ref": "main"},
            Elsewhere("https://git.example/x.git", COMMIT),
        ),
        (
            {"source": "git-subdir", "url": "https://git.example/x.git", "path": "a/b", "ref": "v1"},
            Elsewhere("https://git.example/x.git", "v1", "a/b"),
        ),
        ({"source": "git-subdir", "url": "o/r", "path": "./"}, Elsewhere("https://github.com/o/r.git")),
        ({"source": "url", "url": "git@host.example:o/r.git"}, Elsewhere("ssh://git@host.example/o/r.git")),
    ],
)
def test_where_a_plugin_is(source, expected):
    assert source_of(source) == expected


def test_a_folder_that_all_plugins_are_in_goes_before_each():
    assert source_of("formatter", metadata={"pluginRoot": "./plugins"}) == Here("plugins/formatter")
    assert source_of("./", metadata={"pluginRoot": "./plugins"}) == Here("plugins")


def test_packages_are_named_and_declined_with_the_reason():
    declined = source_of({"source": "npm", "package": "@acme/tool", "version": "^2"})
    assert isinstance(declined, Declined)
    assert "'@acme/tool'" in declined.reason and "pinned" in declined.reason


@pytest.mark.parametrize(
    "source",
    [
        "../outside",
        "./a/../../b",
        "/etc",
        "a\\b",
        "a\u202eb",
        7,
        None,
        {"source": "local", "path": "../x"},
        {"source": "local"},
        {"source": "github", "repo": "o/.."},
        {"source": "github", "repo": "https://evil.example"},
        {"source": "github", "repo": "o/r", "ref": "--upload-pack=x"},
        {"source": "github", "repo": "o/r", "sha": "short"},
        {"source": "url", "url": "ext::sh -c x"},
        {"source": "url", "url": "--upload-pack=x"},
        {"source": "url", "url": "https://x y"},
        {"source": "git-subdir", "url": "https://git.example/x.git", "path": "a/../../b"},
        {"source": "archive", "url": "https://x"},
    ],
)
def test_an_entry_that_leads_out_or_nowhere_is_declined_by_itself(source):
    good, bad = read({"name": "good", "source": "./a"}, {"name": "bad", "source": source})
    assert good.source == Here("a")
    assert (bad.name, type(bad.source)) == ("bad", Declined)


@pytest.mark.parametrize("root", ["../x", "/x", None, 1, ["a"], {"a": "b"}, "a\u202eb"])
def test_attack_a_folder_of_plugins_that_is_none_is_not_passed_over(root):
    for metadata in ({"pluginRoot": root}, [root]):
        with pytest.raises(FormatError) as caught:
            source_of("./a", metadata=metadata)
        assert caught.value.where.startswith("market.json: metadata")


@pytest.mark.parametrize("key", ["ref", "sha", "path"])
@pytest.mark.parametrize("value", [None, 1, True, [], {}, "../x", "-x", "a b"])
def test_attack_a_pin_that_is_none_is_not_passed_over(key, value):
    for source in ({"source": "github", "repo": "o/r"}, {"source": "url", "url": "https://h.example/x"}):
        assert isinstance(source_of({**source, "path": "a", key: value}), Declined | Elsewhere)
        if (key, value) != ("path", "-x") and (key, value) != ("path", "a b"):
            assert isinstance(source_of({**source, key: value}), Declined)


def test_an_entry_that_is_malformed_says_where():
    declined = source_of({"source": "github", "repo": "o/r", "sha": "x"})
    assert declined.reason == (
        "its entry is malformed: expected a commit of 40 hex digits, found 'x' (p: source: sha)"
    )


def test_what_is_unknown_is_passed_over():
    assert source_of({"source": "github", "repo": "o/r", "x": [1]}, owner={"name": 1}, version=2) == Elsewhere(
        "https://github.com/o/r.git"
    )


@pytest.mark.parametrize("name", ["", "../x", "a:b", "a b", "\x1b[2J", None, "x" * 101])
def test_a_plugin_whose_name_is_none_is_told_by_its_number(name):
    (plugin,) = read({"name": name, "source": "./a"})
    assert plugin.name == "plugin 1"
    assert isinstance(plugin.source, Declined)


def test_of_two_plugins_with_one_name_the_first_is_it():
    (plugin,) = read({"name": "p", "source": "./a"}, {"name": "p", "source": "./b"})
    assert plugin.source == Here("a")


def test_the_skills_that_an_entry_names():
    (plugin,) = read({"name": "p", "source": "./", "strict": False, "skills": ["./skills/a", "b"]})
    assert plugin.skills == ("skills/a", "b")
    (plugin,) = read({"name": "p", "source": "./", "skills": "./skills"})
    assert plugin.skills == ("skills",)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"plugins": {}}', '{"plugins": [], "plugins": []}', "{"])
def test_what_is_no_marketplace(text):
    with pytest.raises(FormatError) as caught:
        read_marketplace(text.encode(), "market.json")
    assert caught.value.where.startswith("market.json")


def test_a_plugin_says_its_name_and_where_its_skills_are():
    found = PluginFile.parse(b'{"name": "p", "skills": "./more/", "hooks": {}}', "x")
    assert (found.name, found.skills) == ("p", ("more",))
    assert (PluginFile.parse(b"{}", "x").name, PluginFile.parse(b"{}", "x").skills) == (None, ())
    for text in (b'{"skills": 1}', b'{"skills": ["../x"]}', b'{"name": "a/b"}', b"[]"):
        with pytest.raises(FormatError):
            PluginFile.parse(text, "plugin.json")


@settings(max_examples=60)
@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["name", "source", "plugins", "url", "path", "x"]), inner, max_size=4)
        ),
    )
)
def test_any_document_at_all_raises_only_our_errors(value):
    for read_it in (read_marketplace, PluginFile.parse):
        try:
            read_it(json.dumps(value).encode(), "x")
        except SkillhubError:
            continue

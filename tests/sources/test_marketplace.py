"""Marketplaces of plugins: valid entries, and entries that are declined."""

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
def test_source_of_a_plugin_is_read(source, expected):
    assert source_of(source) == expected


def test_plugin_root_is_prefixed_to_each_source():
    assert source_of("formatter", metadata={"pluginRoot": "./plugins"}) == Here("plugins/formatter")
    assert source_of("./", metadata={"pluginRoot": "./plugins"}) == Here("plugins")


def test_package_of_npm_is_declined_with_a_reason():
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
def test_invalid_source_declines_only_its_own_entry(source):
    good, bad = read({"name": "good", "source": "./a"}, {"name": "bad", "source": source})
    assert good.source == Here("a")
    assert (bad.name, type(bad.source)) == ("bad", Declined)


@pytest.mark.parametrize("root", ["../x", "/x", None, 1, ["a"], {"a": "b"}, "a\u202eb"])
def test_attack_an_invalid_plugin_root_is_refused(root):
    for metadata in ({"pluginRoot": root}, [root]):
        with pytest.raises(FormatError) as caught:
            source_of("./a", metadata=metadata)
        assert caught.value.where.startswith("market.json: metadata")


@pytest.mark.parametrize("key", ["ref", "sha", "path"])
@pytest.mark.parametrize("value", [None, 1, True, [], {}, "../x", "-x", "a b"])
def test_attack_an_invalid_pin_is_declined(key, value):
    for source in ({"source": "github", "repo": "o/r"}, {"source": "url", "url": "https://h.example/x"}):
        if (key, value) != ("path", "-x") and (key, value) != ("path", "a b"):
            assert isinstance(source_of({**source, "path": "a", key: value}), Declined)
            assert isinstance(source_of({**source, key: value}), Declined)


def test_reason_of_a_malformed_entry_names_its_place():
    declined = source_of({"source": "github", "repo": "o/r", "sha": "x"})
    assert declined.reason == (
        "its entry is malformed: expected a commit of 40 hex digits, found 'x' (p: source: sha)"
    )


def test_unknown_keys_are_ignored():
    assert source_of({"source": "github", "repo": "o/r", "x": [1]}, owner={"name": 1}, version=2) == Elsewhere(
        "https://github.com/o/r.git"
    )


@pytest.mark.parametrize("name", ["", "../x", "a:b", "a b", "\x1b[2J", None, "x" * 101])
def test_plugin_with_an_invalid_name_is_called_by_its_number(name):
    (plugin,) = read({"name": name, "source": "./a"})
    assert plugin.name == "plugin 1"
    assert isinstance(plugin.source, Declined)


def test_first_of_two_plugins_with_one_name_counts():
    (plugin,) = read({"name": "p", "source": "./a"}, {"name": "p", "source": "./b"})
    assert plugin.source == Here("a")


def test_skills_of_an_entry_are_read():
    (plugin,) = read({"name": "p", "source": "./", "strict": False, "skills": ["./skills/a", "b"]})
    assert plugin.skills == ("skills/a", "b")
    (plugin,) = read({"name": "p", "source": "./", "skills": "./skills"})
    assert plugin.skills == ("skills",)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"plugins": {}}', '{"plugins": [], "plugins": []}', "{"])
def test_invalid_marketplace_is_refused_with_its_place(text):
    with pytest.raises(FormatError) as caught:
        read_marketplace(text.encode(), "market.json")
    assert caught.value.where.startswith("market.json")


def test_plugin_file_has_a_name_and_folders_of_skills():
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
def test_any_document_raises_only_errors_of_skillhub(value):
    for read_it in (read_marketplace, PluginFile.parse):
        try:
            read_it(json.dumps(value).encode(), "x")
        except SkillhubError:
            continue

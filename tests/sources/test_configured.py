"""The sources of a user: pinned by their root, with unique names."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from skillhub.disk.home import Home
from skillhub.errors import FormatError, NotFound, SourceMismatch, StateError, TrustDowngrade, UsageError
from skillhub.formats.digest import Digest
from skillhub.model.lock import Lock
from skillhub.model.reference import McpConfigured, parse_ref
from skillhub.project.project import Project
from skillhub.sources.configured import ProjectSources, Sources, embedded_root

URL = "https://registry.example/hub"


@pytest.fixture
def sources(tmp_path):
    return Sources(Home.of({"SKILLHUB_HOME": str(tmp_path)}))


def test_embedded_source_is_the_default(sources):
    assert [(alias, source.embedded) for alias, source in sources.all().items()] == [("github", True)]
    assert sources.root(sources.get("github")) == embedded_root()


def test_parallel_commands_lose_no_source(tmp_path):
    names = {f"hub-{number}" for number in range(16)}

    def add(name):
        Sources(Home.of({"SKILLHUB_HOME": str(tmp_path)})).add(name, f"{URL}/{name}", b"root of " + name.encode())

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, names))
    assert Sources(Home.of({"SKILLHUB_HOME": str(tmp_path)})).all().keys() == {"github", *names}


@pytest.mark.parametrize("alias", ["http", "https", "git", "oci", "file", "embedded", "local", "mcp"])
def test_attack_a_source_cannot_be_named_like_a_kind_of_reference(alias, sources):
    with pytest.raises(UsageError, match="cannot name a source"):
        sources.add(alias, URL, b"a root")
    if alias == "mcp":
        assert parse_ref("mcp:deploy") == McpConfigured("deploy")  # a server that an agent has
    else:
        with pytest.raises(UsageError, match="expected a reference"):
            parse_ref(f"{alias}:deploy")
    entry = {"tree": f"sha256:{'1' * 64}", "size": 1, "capabilities": [], "requires": [], "source": alias}
    entry |= {"url": f"{URL}/a.zip", "digest": f"sha256:{'2' * 64}", "version": "1.0.0"}
    source = {"kind": "well-known", "url": URL}
    for named in ({alias: source}, {}):
        lock = {"version": 1, "skills": {"deploy": entry}, "sources": named}
        with pytest.raises(FormatError):
            Lock.parse(json.dumps(lock).encode())


def test_source_is_added_found_and_removed(sources):
    added = sources.add("acme", URL + "/", b"root")
    assert (added.url, sources.get("acme"), sources.root(added)) == (URL, added, b"root")
    assert sources.add("acme", URL, b"root") == added
    assert set(sources.all()) == {"github", "acme"}
    sources.remove("acme")
    with pytest.raises(NotFound):
        sources.get("acme")
    with pytest.raises(NotFound):
        sources.remove("acme")
    sources.remove("github")
    assert sources.all() == {}


@pytest.mark.parametrize("alias", ["", "A", "http", "embedded", "a/b", "..", "a" * 65, "-a"])
def test_invalid_alias_is_refused(sources, alias):
    with pytest.raises(UsageError):
        sources.add(alias, URL, b"root")


def test_attack_the_embedded_root_is_refused_for_another_url(sources):
    with pytest.raises(UsageError):
        sources.add("acme", URL, embedded_root())


def test_attack_another_root_or_url_for_a_known_name_is_refused(sources):
    sources.add("acme", URL, b"root")
    for url, first in ((URL, b"other"), (URL + "/else", b"root")):
        with pytest.raises(SourceMismatch):
            sources.add("acme", url, first)
    assert sources.root(sources.get("acme")) == b"root"


def test_attack_a_changed_or_missing_stored_root_is_refused(sources, tmp_path):
    added = sources.add("acme", URL, b"root")
    (path,) = (tmp_path / "state/roots").iterdir()
    for harm in (lambda: path.write_bytes(b"other"), path.unlink):
        harm()
        with pytest.raises(StateError):
            sources.root(added)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"version": 1}',
        '{"version": 1, "sources": []}',
        '{"version": 1, "sources": {"a": 1}}',
        '{"version": 1, "sources": {"a": {}}}',
        '{"version": 1, "sources": {"a": {"url": "http://["}}}',
        '{"version": 1, "sources": {"a": {"url": "https://a.example", "root": "sha256:0"}}}',
        '{"version": 1, "sources": {}, "registries": "https://a.example"}',
        '{"version": 1, "sources": {}, "former": [["a"]]}',
    ],
)
def test_invalid_file_of_sources_is_refused(sources, tmp_path, text):
    (tmp_path / "state").mkdir()
    (tmp_path / "state/sources.json").write_text(text)
    with pytest.raises(StateError):
        sources.all()


def test_site_without_a_registry_has_no_root(sources):
    added = sources.add("docs", URL + "/", None)
    assert (added.root, added.locked().kind) == (None, "well-known")
    assert sources.get("docs") == added
    with pytest.raises(SourceMismatch):
        sources.add("docs", URL, b"root")


@pytest.mark.parametrize(
    "url",
    [
        *(URL, URL + "/", "https://REGISTRY.example/%68ub", "https://registry.example:443/hub"),
        *(URL.replace("s:", ":"), URL.replace("/hub", "//hub"), URL + "/.", URL + "/./", URL + "/x/.."),
        "https://registry.example/x/%2e%2E//hub",
    ],
)
def test_attack_a_former_registry_is_refused_as_a_site(sources, tmp_path, url):
    sources.add("acme", URL, b"root")
    sources.remove("acme")
    with pytest.raises(TrustDowngrade):
        sources.add("acme", url, None)
    assert set(sources.all()) == {"github"}
    again = Sources(Home.of({"SKILLHUB_HOME": str(tmp_path)}))
    with pytest.raises(TrustDowngrade):
        again.add("other", url, None)


@pytest.mark.parametrize(
    "url", ["https://", "https://[x", "https://a:b/", "https://a:99999", URL + "/index.json", URL + "/?q"]
)
def test_invalid_url_of_a_source_is_refused(sources, url):
    with pytest.raises(UsageError):
        sources.add("acme", url, b"root")


def of_project(home, project):
    return ProjectSources(home, project.key, project.proposals)


def test_source_kept_for_a_project_applies_only_there(tmp_path):
    home = Home.of({"SKILLHUB_HOME": str(tmp_path / "hub")})
    here, there = (Project(str(tmp_path / name), "project", home) for name in ("here", "there"))
    for project in (here, there):
        os.makedirs(project.base)
        write_intent(project, b"one")
    sources = of_project(home, here)
    adopted = sources.adopt("acme", URL, b"one")
    assert (adopted.named_by, sources.all()["acme"], sources.root(adopted)) == ("repository", adopted, b"one")
    assert "acme" not in of_project(home, here).all()
    sources.keep()
    assert of_project(home, here).all()["acme"] == adopted
    assert "acme" not in Sources(home).all()
    assert "acme" not in of_project(home, there).all()
    write_intent(here, b"two")
    other = of_project(home, here)
    assert "acme" not in other.all()
    assert other.had_another("acme")
    other.adopt("acme", URL, b"two")
    other.keep()
    assert of_project(home, here).had_another("acme")
    with pytest.raises(TrustDowngrade):
        of_project(home, there).adopt("acme", URL, None)
    with pytest.raises(TrustDowngrade):
        Sources(home).add("mine", URL, None)


def write_intent(project, root):
    text = f'[sources.acme]\nurl = "{URL}"\nroot = "{Digest.of(root)}"\n'
    Path(project.intent_path).write_text(text)

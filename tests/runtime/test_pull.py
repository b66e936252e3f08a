"""Skills at the URLs of OpenCode's settings, fetched by a given client and cached by digest."""

from __future__ import annotations

import json
import shutil
import urllib.parse
import urllib.request
from pathlib import Path

import pytest

from skillhub.errors import Drifted, OutsideSkill, Refused, SourceError
from skillhub.runtime import Agreed, Cache, Request, Surroundings, catalog_of, load, pick, profile, pull, urls_of
from tests.support.web import Web, answer

BASE = "https://skills.example/team"


def skill_md(name="demo", body="Do it."):
    return f"---\nname: {name}\ndescription: Does it.\n---\n{body}\n".encode()


class Client:
    """A web of files that records its requests."""

    def __init__(self, entries, files):
        self.files = {f"{BASE}/index.json": json.dumps({"skills": entries}).encode(), **files}
        self.asked = []

    def __call__(self, url):
        self.asked.append(url)
        if url not in self.files:
            raise OSError(2, "not found")
        return self.files[url]


@pytest.fixture
def client():
    entry = {"name": "demo", "description": "Does it.", "files": ["SKILL.md", "references/style.md"]}
    files = {f"{BASE}/demo/SKILL.md": skill_md(), f"{BASE}/demo/references/style.md": b"Short.\n"}
    return Client([entry], files)


def around(tmp_path, **more):
    (tmp_path / "repo/.git").mkdir(parents=True, exist_ok=True)
    environ = {"SKILLHUB_HOME": str(tmp_path / "hub")}
    return Surroundings(cwd=str(tmp_path / "repo"), home=str(tmp_path / "home"), environ=environ, **more)


def test_listed_skill_is_found_and_loaded(tmp_path, client):
    pulled = pull([BASE], client, str(tmp_path / "cache"))
    assert pulled.problems == ()
    skill = pick(catalog_of(profile("opencode"), around(tmp_path, extra=pulled.folders)), "demo")
    loaded = load(skill)
    assert loaded.version == pulled.trees[skill.path]
    assert loaded.body == "Do it.\n"
    assert loaded.read("references/style.md") == b"Short.\n"


def test_a_skill_in_a_cache_behind_a_link_has_a_tree(tmp_path, client):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    pulled = pull([BASE], client, str(tmp_path / "link/cache"))
    assert pick(catalog_of("opencode", around(tmp_path, extra=pulled.folders)), "demo").path in pulled.trees


@pytest.mark.parametrize("base", [BASE, f"{BASE}/", f"{BASE}/index.json"])
def test_second_pull_fetches_only_the_index(tmp_path, client, base):
    first = pull([base], client, str(tmp_path / "cache"))
    client.asked.clear()
    assert pull([base], client, str(tmp_path / "cache")) == first
    assert client.asked == [f"{BASE}/index.json"]
    client.files[f"{BASE}/demo/SKILL.md"] = skill_md(body="New.")
    again = pull([base], client, str(tmp_path / "cache"), reload=True)
    assert again.trees != first.trees


def test_pulled_skills_are_used_while_the_url_is_unreachable(tmp_path, client):
    first = pull([BASE], client, str(tmp_path / "cache"))
    client.files.clear()
    offline = pull([BASE], client, str(tmp_path / "cache"))
    assert offline.trees == first.trees
    assert "not found" in offline.problems[0].message


@pytest.mark.parametrize("fetch_error", [SourceError("the server does not answer"), OSError("no route")])
@pytest.mark.parametrize("path", ["index.json", "demo/SKILL.md"])
def test_an_index_or_a_file_that_a_client_cannot_reach_keeps_the_earlier_trees(tmp_path, client, path, fetch_error):
    first = pull([BASE], client, str(tmp_path / "cache"))

    def failing(url):
        if url == f"{BASE}/{path}":
            raise fetch_error
        return client(url)

    failed = pull([BASE], failing, str(tmp_path / "cache"), reload=True)
    assert failed.trees == first.trees
    assert len(failed.problems) == 1


def test_listed_skill_comes_from_the_cache_after_a_failed_fetch(tmp_path, client):
    first = pull([BASE], client, str(tmp_path / "cache"))
    lost = {f"{BASE}/demo/SKILL.md": client.files.pop(f"{BASE}/demo/SKILL.md")}
    failed = pull([BASE], client, str(tmp_path / "cache"), reload=True)
    assert failed.trees == first.trees
    assert [problem.path for problem in failed.problems] == [f"{BASE}/index.json: skills[0]"]
    index = client.files.pop(f"{BASE}/index.json")
    assert pull([BASE], client, str(tmp_path / "cache")).trees == first.trees
    client.files |= {**lost, f"{BASE}/index.json": index}
    assert pull([BASE], client, str(tmp_path / "cache"), reload=True) == first


@pytest.mark.parametrize(
    ("entries", "body"),
    [
        ([], skill_md()),
        ([{"name": "demo", "files": []}], skill_md()),
        ([{"name": "demo", "files": ["SKILL.md"]}], b"no frontmatter"),
        ([{"name": "demo", "files": ["SKILL.md"]}], skill_md("other")),
    ],
)
def test_attack_a_withdrawn_or_malformed_skill_does_not_return_offline(tmp_path, client, entries, body):
    assert pull([BASE], client, str(tmp_path / "cache")).trees
    client.files[f"{BASE}/index.json"] = json.dumps({"skills": entries}).encode()
    client.files[f"{BASE}/demo/SKILL.md"] = body
    assert pull([BASE], client, str(tmp_path / "cache")).trees == {}
    client.files.clear()
    assert pull([BASE], client, str(tmp_path / "cache")).trees == {}


BROKEN = [
    1,
    {},
    {"name": "x"},
    {"name": "X Y", "files": ["SKILL.md"]},
    {"name": "../up", "files": ["SKILL.md"]},
    {"name": "x", "files": []},
    {"name": "x", "files": ["README.md"]},
    {"name": "x", "files": ["SKILL.md", "../../.ssh/config"]},
    {"name": "x", "files": ["SKILL.md", "/etc/passwd"]},
    {"name": "x", "files": ["SKILL.md", "a\\b"]},
    {"name": "x", "files": ["SKILL.md", "SKILL.md"]},
    {"name": "x", "files": ["SKILL.md", "skill.md"]},
    {"name": "x", "files": "SKILL.md"},
    {"name": "x", "files": ["SKILL.md", 1]},
    {"name": "gone", "files": ["SKILL.md"]},
    {"name": "other", "files": ["SKILL.md"]},
    {"name": "demo", "files": ["SKILL.md"]},
]


@pytest.mark.parametrize("entry", BROKEN, ids=json.dumps)
def test_attack_a_broken_entry_is_skipped_and_reported(tmp_path, client, entry):
    index = f"{BASE}/index.json"
    client.files[index] = json.dumps({"skills": [*json.loads(client.files[index])["skills"], entry]}).encode()
    client.files |= {f"{BASE}/x/{path}": skill_md("x") for path in ("SKILL.md", "skill.md", "README.md")}
    client.files[f"{BASE}/other/SKILL.md"] = skill_md("demo")
    pulled = pull([BASE], client, str(tmp_path / "cache"))
    assert [path.rpartition("/")[2] for path in pulled.trees] == ["demo"]
    assert [problem.path for problem in pulled.problems] == [f"{index}: skills[1]"]
    inside = {str(path) for path in tmp_path.rglob("*")}
    assert all(path.startswith(str(tmp_path / "cache")) for path in inside)


@pytest.mark.parametrize(
    "url",
    [
        "http://skills.example",
        "file:///etc",
        "ftp://x",
        "https://u:p@x",
        "https://",
        "",
        "//x",
        "https://x?y",
        "x",
        "https://[",
        "https://a:b/",
        "https://a:65536/",
        "https://a:0/",
        "https://a b/",
        "https://a\x7f/",
        "https://a\ud800/",
        f"https://{'a' * 64}.example/",
    ],
)
def test_attack_a_url_without_https_is_not_fetched(tmp_path, client, url):
    pulled = pull([url], client, str(tmp_path / "cache"))
    assert (client.asked, pulled.trees) == ([], {})
    assert pulled.problems


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b"\xff", b'{"skills": {}}', b'{"skills": [], "skills": []}'])
def test_attack_an_invalid_index_offers_no_skill(tmp_path, client, data):
    client.files[f"{BASE}/index.json"] = data
    pulled = pull([BASE], client, str(tmp_path / "cache"))
    assert pulled.trees == {}
    assert pulled.problems


def test_attack_a_changed_cache_entry_is_refused_and_fetched_again(tmp_path, client):
    first = pull([BASE], client, str(tmp_path / "cache"))
    ((path, tree),) = first.trees.items()
    with open(f"{path}/SKILL.md", "wb") as file:
        file.write(skill_md(body="EVIL"))
    skill = pick(catalog_of(profile("opencode"), around(tmp_path, extra=first.folders)), "demo")
    for agreed in (None, Agreed(tree)):
        with pytest.raises(Drifted):
            load(skill, agreed=agreed)
    assert pull([BASE], client, str(tmp_path / "cache")).trees == first.trees  # fetched again
    skill = pick(catalog_of(profile("opencode"), around(tmp_path, extra=first.folders)), "demo")
    assert load(skill).body == load(skill, agreed=Agreed(tree)).body == "Do it.\n"


def add_file(folder):
    (folder / "more.md").write_text("More.\n")


def change_file(folder):
    (folder / "references/style.md").write_text("EVIL\n")


def make_executable(folder):
    (folder / "SKILL.md").chmod(0o755)


def link_skill_md(folder):
    (folder / "SKILL.md").rename(folder.parents[2] / "SKILL.md")
    (folder / "SKILL.md").symlink_to(folder.parents[2] / "SKILL.md")


def delete_file(folder):
    (folder / "references/style.md").unlink()


def swap_folder(folder):
    shutil.copytree(folder, folder.parents[2] / "evil")
    (folder.parents[2] / "evil/SKILL.md").write_bytes(skill_md(body="EVIL"))
    shutil.rmtree(folder)
    folder.symlink_to(folder.parents[2] / "evil")


def add_sibling(folder):
    shutil.copytree(folder, folder.parent / "a")
    (folder.parent / "a/SKILL.md").write_bytes(skill_md("second", "EVIL"))


def add_nested(folder):
    shutil.copytree(folder, folder.parent / "a/b")
    (folder.parent / "a/b/SKILL.md").write_bytes(skill_md("second", "EVIL"))


@pytest.mark.parametrize("is_cached", [False, True])
@pytest.mark.parametrize(
    "change",
    [add_file, change_file, make_executable, link_skill_md, delete_file, swap_folder, add_sibling, add_nested],
)
@pytest.mark.parametrize("when", ["before", "after"])
def test_attack_a_changed_pulled_skill_is_refused_without_arguments(tmp_path, client, change, when, is_cached):
    """The check needs no argument and no lock, before and after the catalogue is made."""
    pulled = pull([BASE], client, str(tmp_path / "cache"))
    (path,) = map(Path, pulled.trees)
    cache = Cache(str(tmp_path / "looks")) if is_cached else None

    def seen(**given):
        given = {"cache": cache, **given}
        return catalog_of(profile("opencode"), around(tmp_path, extra=pulled.folders), **given)

    catalogs = [seen(), seen(ignore_locks=True)]
    change(path)
    catalogs = [seen(), seen(ignore_locks=True)] if when == "before" else catalogs
    for catalog in catalogs:
        for skill in catalog.skills:
            is_untouched = change in (add_sibling, add_nested) and skill.name == "demo"
            assert when == "after" or (skill.state == "enabled") == is_untouched
            for request in (Request(), Request(caller="model"), Request(ignore_locks=True)):
                if is_untouched:
                    assert load(skill, request).body == "Do it.\n"
                    continue
                with pytest.raises((Drifted, Refused, OutsideSkill)):
                    load(skill, request)


def test_attack_a_changed_record_of_the_cache_is_ignored(tmp_path, client):
    first = pull([BASE], client, str(tmp_path / "cache"))
    (kept,) = (tmp_path / "cache").glob("*.json")
    for text in ("", "[]", '{"../../x": ["sha256:' + "0" * 64 + '", []]}', '{"demo": 1}', '{"demo": ["x", []]}'):
        kept.write_text(text)
        assert pull([BASE], client, str(tmp_path / "cache")).trees == first.trees
    kept.write_text('{"../../x": ["sha256:' + "0" * 64 + '", []]}')
    client.files.clear()
    assert pull([BASE], client, str(tmp_path / "cache")).trees == {}


def test_error_of_the_client_is_a_problem(tmp_path):
    def fetch(url):
        raise SourceError("this host may not be asked")

    assert pull([BASE], fetch, str(tmp_path)).problems[0].message == "this host may not be asked"


@pytest.mark.parametrize("path", ["a b", "\u00fc", "a%20b", "\x7f"])
def test_any_path_is_requested_as_a_client_can_request_it(tmp_path, path):
    """A client of the standard library raises no OSError for a space, and UnicodeEncodeError for an umlaut."""

    def fetch(url):
        with urllib.request.urlopen(url) as found:
            return found.read()

    with Web() as web:
        encoded = path if "%" in path else urllib.parse.quote(path)
        web.at(f"/{encoded}/index.json", answer(b'{"skills": [{"name": "demo", "files": ["SKILL.md"]}]}'))
        web.at(f"/{encoded}/demo/SKILL.md", answer(skill_md()))
        pulled = pull([web.url(f"/{path}")], fetch, str(tmp_path))
    assert (len(pulled.trees), pulled.problems) == (1, ())


def test_urls_of_the_settings_have_their_file(tmp_path):
    place = around(tmp_path)
    (tmp_path / "repo/opencode.json").write_text(json.dumps({"skills": {"urls": [BASE, 1], "paths": ["more"]}}))
    assert urls_of(profile("opencode"), place) == {BASE: str(tmp_path / "repo/opencode.json")}
    (tmp_path / "repo/opencode.json").write_text('{"skills": {"urls": "x"}}')
    assert urls_of(profile("opencode"), place) == {}
    shutil.rmtree(tmp_path / "repo")

"""Skills at the URLs of OpenCode's settings: by a client handed in, broken entries skipped, cached by digest."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from skillhub.errors import Drifted, OutsideSkill, Refused, SourceError
from skillhub.runtime import Agreed, Cache, Request, Surroundings, catalog_of, load, pick, profile, pull, urls_of

BASE = "https://skills.example/team"


def skill_md(name="demo", body="Do it."):
    return f"---\nname: {name}\ndescription: Does it.\n---\n{body}\n".encode()


class Client:
    """A web of files; what was asked of it is counted."""

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


def test_what_an_index_lists_is_found_and_loaded(tmp_path, client):
    pulled = pull([BASE], client, str(tmp_path / "cache"))
    assert pulled.problems == ()
    skill = pick(catalog_of(profile("opencode"), around(tmp_path, extra=pulled.folders)), "demo")
    loaded = load(skill)
    assert loaded.version == pulled.trees[skill.path]
    assert loaded.body == "Do it.\n"
    assert loaded.read("references/style.md") == b"Short.\n"


@pytest.mark.parametrize("base", [BASE, f"{BASE}/", f"{BASE}/index.json"])
def test_a_second_pull_fetches_the_index_alone(tmp_path, client, base):
    first = pull([base], client, str(tmp_path / "cache"))
    client.asked.clear()
    assert pull([base], client, str(tmp_path / "cache")) == first
    assert client.asked == [f"{BASE}/index.json"]
    client.files[f"{BASE}/demo/SKILL.md"] = skill_md(body="New.")
    again = pull([base], client, str(tmp_path / "cache"), reload=True)
    assert again.trees != first.trees


def test_what_was_pulled_counts_while_a_url_cannot_be_reached(tmp_path, client):
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


def test_a_listed_skill_whose_fetch_fails_once_is_returned_from_the_cache_now_and_offline(tmp_path, client):
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
def test_attack_a_skill_that_is_withdrawn_or_malformed_by_now_does_not_return_offline(
    tmp_path, client, entries, body
):
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
def test_attack_a_broken_entry_is_skipped_and_named(tmp_path, client, entry):
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
    ],
)
def test_attack_a_url_that_is_none_of_https_is_not_fetched(tmp_path, client, url):
    pulled = pull([url], client, str(tmp_path / "cache"))
    assert (client.asked, pulled.trees) == ([], {})
    assert pulled.problems


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b"\xff", b'{"skills": {}}', b'{"skills": [], "skills": []}'])
def test_attack_an_index_that_is_none_offers_nothing(tmp_path, client, data):
    client.files[f"{BASE}/index.json"] = data
    pulled = pull([BASE], client, str(tmp_path / "cache"))
    assert pulled.trees == {}
    assert pulled.problems


def test_attack_what_is_in_the_cache_was_changed(tmp_path, client):
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


def more(folder):
    (folder / "more.md").write_text("More.\n")


def other(folder):
    (folder / "references/style.md").write_text("EVIL\n")


def mode(folder):
    (folder / "SKILL.md").chmod(0o755)


def linked(folder):
    (folder / "SKILL.md").rename(folder.parents[2] / "SKILL.md")
    (folder / "SKILL.md").symlink_to(folder.parents[2] / "SKILL.md")


def gone(folder):
    (folder / "references/style.md").unlink()


def swapped(folder):
    shutil.copytree(folder, folder.parents[2] / "evil")
    (folder.parents[2] / "evil/SKILL.md").write_bytes(skill_md(body="EVIL"))
    shutil.rmtree(folder)
    folder.symlink_to(folder.parents[2] / "evil")


def beside(folder):
    shutil.copytree(folder, folder.parent / "a")
    (folder.parent / "a/SKILL.md").write_bytes(skill_md("second", "EVIL"))


def nested(folder):
    shutil.copytree(folder, folder.parent / "a/b")
    (folder.parent / "a/b/SKILL.md").write_bytes(skill_md("second", "EVIL"))


@pytest.mark.parametrize("is_cached", [False, True])
@pytest.mark.parametrize("change", [more, other, mode, linked, gone, swapped, beside, nested])
@pytest.mark.parametrize("when", ["before", "after"])
def test_attack_what_was_pulled_is_held_to_its_digest_by_itself(tmp_path, client, change, when, is_cached):
    """No argument is needed, before or after the catalogue is made, and no lock need be asked."""
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
            is_untouched = change in (beside, nested) and skill.name == "demo"
            assert when == "after" or (skill.state == "enabled") == is_untouched
            for request in (Request(), Request(caller="model"), Request(ignore_locks=True)):
                if is_untouched:
                    assert load(skill, request).body == "Do it.\n"
                    continue
                with pytest.raises((Drifted, Refused, OutsideSkill)):
                    load(skill, request)


def test_attack_the_record_of_the_cache_was_changed(tmp_path, client):
    first = pull([BASE], client, str(tmp_path / "cache"))
    (kept,) = (tmp_path / "cache").glob("*.json")
    for text in ("", "[]", '{"../../x": ["sha256:' + "0" * 64 + '", []]}', '{"demo": 1}', '{"demo": ["x", []]}'):
        kept.write_text(text)
        assert pull([BASE], client, str(tmp_path / "cache")).trees == first.trees
    kept.write_text('{"../../x": ["sha256:' + "0" * 64 + '", []]}')
    client.files.clear()
    assert pull([BASE], client, str(tmp_path / "cache")).trees == {}


def test_a_client_that_says_no_is_told(tmp_path):
    def fetch(url):
        raise SourceError("this host may not be asked")

    assert pull([BASE], fetch, str(tmp_path)).problems[0].message == "this host may not be asked"


def test_the_urls_of_the_settings_come_with_the_file_that_names_them(tmp_path):
    place = around(tmp_path)
    (tmp_path / "repo/opencode.json").write_text(json.dumps({"skills": {"urls": [BASE, 1], "paths": ["more"]}}))
    assert urls_of(profile("opencode"), place) == {BASE: str(tmp_path / "repo/opencode.json")}
    (tmp_path / "repo/opencode.json").write_text('{"skills": {"urls": "x"}}')
    assert urls_of(profile("opencode"), place) == {}
    shutil.rmtree(tmp_path / "repo")

"""A repository as a place: what it offers, and what it hands out."""

import json

import pytest

from skillhub.errors import FormatError, NotFound, UnsafeArchive, UnsafeTransfer, WrongBytes
from skillhub.model.index import Release
from skillhub.model.tree import File
from skillhub.sources.repository import Repository
from tests.support.snapshot import Hub, Memory, skill

URL = "https://git.example/main.git"
REV = "a" * 40
OTHER = "b" * 40
MARKET = ".claude-plugin/marketplace.json"
LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 9\n"


def place(files, hub=None, path=None):
    return Repository(Memory(files), url=URL, path=path, elsewhere=hub or Hub())


def market(*plugins):
    return json.dumps({"plugins": [{"name": name, "source": source} for name, source in plugins]})


def there(repository="other", **more):
    return {"source": "url", "url": f"https://git.example/{repository}.git", **more}


def test_what_it_offers_and_hands_out():
    repository = place(
        {"skills/a/SKILL.md": skill("a"), "skills/a/run*": "#!", "skills/a/.git/config": "x", "README.md": "r"}
    )
    index = repository.index()
    assert index.warnings == ()
    assert index.skills == {
        "a": (Release(name="a", url=URL, type="tree", rev=REV, path="skills/a", description="What a does."),)
    }
    unpacked = repository.unpacked(index.releases("a")[0])
    assert dict(unpacked.tree) == {"SKILL.md": File(skill("a").encode()), "run": File(b"#!", executable=True)}


def test_a_repository_that_is_one_skill():
    (release,) = place({"SKILL.md": skill(), "docs/SKILL.md": skill("b")}).index().releases("main")
    assert release.path is None
    assert len(place({"SKILL.md": skill(), "docs/SKILL.md": skill("b")}).unpacked(release).tree) == 2


def test_all_that_says_what_is_there_is_read_in_one_go():
    files = {f"plugins/p{number}/skills/s{number}/SKILL.md": skill(f"s{number}") for number in range(30)}
    more = {f"plugins/p{number}/.claude-plugin/plugin.json": "{}" for number in range(30)}
    listed = market(*((f"p{number}", f"./plugins/p{number}") for number in range(30)))
    snapshot = Memory({**files, **more, MARKET: listed})
    index = Repository(snapshot, url=URL, elsewhere=Hub()).index()
    assert index.releases("s7")[0].plugin == "p7"
    assert len(snapshot.reads) == 1


def test_a_folder_of_it_alone():
    files = {"a/skills/x/SKILL.md": skill("x"), "b/SKILL.md": skill("b"), "b/c/SKILL.md": skill("c")}
    assert place(files, path="a").index().names == ("x",)
    assert place(files, path="b").index().names == ("b",)
    with pytest.raises(NotFound, match="no folder 'c'"):
        place(files, path="c").index()


def test_what_a_lock_spells_is_had_without_an_index():
    repository = place({"skills/a/SKILL.md": skill("a")})
    locked = Release(name="a", url=URL, rev=REV, path="skills/a", type="tree")
    assert list(repository.unpacked(locked).tree) == ["SKILL.md"]
    with pytest.raises(NotFound):
        repository.unpacked(Release(name="a", url=URL, rev=REV, path="skills/gone", type="tree"))


def test_same_bytes_twice_are_one_skill_and_different_ones_stand_side_by_side():
    same, run = skill("a"), "#!/bin/sh"
    files = {"skills/a/SKILL.md": same, "skills/a/run": run, ".claude/skills/a/SKILL.md": same}
    twice = place({**files, ".claude/skills/a/run": run}).index()
    assert [each.path for each in twice.releases("a")] == ["skills/a"]
    for other in ({".claude/skills/a/run": "#!/bin/ba"}, {".claude/skills/a/run*": run}, {}):
        index = place({**files, **other}).index()
        assert [each.path for each in index.releases("a")] == ["skills/a", ".claude/skills/a"]


def test_attack_thousands_of_one_name_are_told_apart_in_one_reading_of_each():
    files = {f"skills/s{number:04}/SKILL.md": skill("a", body=f"{number:04}") for number in range(2000)}
    snapshot = Memory(files)
    index = Repository(snapshot, url=URL, elsewhere=Hub()).index()
    assert len(index.releases("a")) == 2000
    assert len(snapshot.reads) == 2001


def test_a_place_is_read_once():
    hub, snapshot = Hub(), Memory({"skills/a/SKILL.md": skill("a"), MARKET: market(("gone", there("gone")))})
    repository = Repository(snapshot, url=URL, elsewhere=hub)
    assert repository.index() is repository.index()
    assert repository.index(["a"]).names == ("a",)
    assert len(hub.opened) == 1


def test_a_skill_without_a_usable_head_is_offered_under_its_folder():
    index = place({"skills/Bad One/SKILL.md": "no head", "skills/link/SKILL.md": None}).index()
    assert index.names == ("bad-one", "link")
    with pytest.raises(UnsafeArchive) as caught:
        place({"skills/link/SKILL.md": None}).unpacked(
            Release(name="link", url=URL, rev=REV, path="skills/link", type="tree")
        )
    assert caught.value.reason == "link"


def test_what_its_author_marks_as_internal_is_left_out_unless_it_is_named():
    files = {"skills/a/SKILL.md": skill("a", more="metadata:\n  internal: true\n")}
    index = place(files).index()
    assert (index.names, "internal" in index.warnings[0]) == ((), True)
    assert place(files, path="skills/a").index().names == ("a",)


@pytest.mark.parametrize(
    ("more", "error", "reason"),
    [
        ({"skills/a/x": None}, UnsafeArchive, "link"),
        ({"skills/a/x": ...}, UnsafeArchive, "link"),
        ({"skills/a/.GIT/config": "x"}, UnsafeArchive, "name-dot-git"),
        ({"skills/a/x": "1", "skills/a/X": "2"}, UnsafeArchive, "collision"),
        ({"skills/a/skill.md": "2"}, UnsafeArchive, "collision"),
        ({"skills/a/aux.txt": "2"}, UnsafeArchive, "name-reserved"),
        ({f"skills/a/{n}": "" for n in range(2001)}, UnsafeArchive, "too-many-files"),
        ({"skills/a/model.bin": LFS}, FormatError, None),
    ],
)
def test_attack_what_no_skill_may_hold_is_refused(more, error, reason):
    repository = place({"skills/a/SKILL.md": skill("a"), **more})
    with pytest.raises(error) as caught:
        repository.unpacked(repository.index().releases("a")[0])
    assert getattr(caught.value, "reason", None) == reason


def test_attack_a_repository_larger_than_any_skill_is_refused_before_a_byte_is_fetched():
    snapshot = Memory({"SKILL.md": skill("a"), **{f"f{number}": "" for number in range(5000)}})
    repository = Repository(snapshot, url=URL, elsewhere=Hub())
    (release,) = repository.index().releases("a")
    snapshot.reads.clear()
    with pytest.raises(UnsafeArchive):
        repository.unpacked(release)
    assert snapshot.reads == []


def test_links_outside_of_the_skill_are_nobodys_business():
    repository = place({"skills/a/SKILL.md": skill("a"), ".claude/skills": None, "vendor": ...})
    assert len(repository.unpacked(repository.index().releases("a")[0]).tree) == 1


def test_plugins_in_the_repository():
    files = {
        MARKET: json.dumps(
            {
                "plugins": [
                    {"name": "docs", "source": "./", "skills": ["./skills/a"]},
                    {"name": "all", "source": "./", "skills": ["./skills/a", "./skills/b"]},
                    {"name": "tool", "source": "./plugins/tool"},
                ]
            }
        ),
        "plugins/tool/.claude-plugin/plugin.json": '{"name": "tool", "skills": ["./more"]}',
        "plugins/tool/more/c/SKILL.md": skill("c"),
        "plugins/tool/skills/d/SKILL.md": skill("d"),
        **{f"skills/{name}/SKILL.md": skill(name) for name in "abx"},
    }
    index = place(files).index()
    assert {name: index.releases(name)[0].plugin for name in index.names} == {
        **{"a": "docs", "b": "all", "x": None},
        **{"c": "tool", "d": "tool"},
    }


def test_both_marketplaces_are_read_and_the_first_has_its_way():
    files = {
        MARKET: market(("p", "./one")),
        ".agents/plugins/marketplace.json": market(("p", "./two"), ("q", {"source": "local", "path": "./two"})),
        "one/skills/a/SKILL.md": skill("a"),
        "two/skills/b/SKILL.md": skill("b"),
    }
    index = place(files).index()
    assert {name: index.releases(name)[0].plugin for name in index.names} == {"a": "p", "b": "q"}


def test_a_repository_that_is_a_plugin():
    files = {".codex-plugin/plugin.json": '{"name": "tool"}', "skills/a/SKILL.md": skill("a")}
    assert place(files).index().releases("a")[0].plugin == "tool"


def test_a_marketplace_that_is_none_costs_no_skill():
    index = place({MARKET: "{", "skills/a/SKILL.md": skill("a")}).index()
    assert index.names == ("a",)
    assert "was not read" in index.warnings[0]


def test_plugins_in_other_repositories_are_pinned_there():
    other = Memory({"deep/skills/a/SKILL.md": skill("a"), "skills/no/SKILL.md": skill("no")}, OTHER)
    hub = Hub(other=other)
    source = {**there(ref="v1"), "source": "git-subdir", "path": "deep"}
    repository = place({MARKET: market(("p", source))}, hub)
    index = repository.index()
    (release,) = index.releases("a")
    assert index.names == ("a",)
    assert (release.url, release.rev, release.path, release.plugin) == (
        "https://git.example/other.git",
        OTHER,
        "deep/skills/a",
        "p",
    )
    assert len(repository.unpacked(release).tree) == 1
    assert hub.opened == [("https://git.example/other.git", "v1")]
    assert len(place({}, hub).unpacked(release).tree) == 1
    assert hub.opened[1:] == [("https://git.example/other.git", OTHER)]


def test_plugins_elsewhere_are_opened_only_for_what_nobody_has_here():
    hub = Hub(other=Memory({"skills/b/SKILL.md": skill("b")}), third=Memory({"skills/c/SKILL.md": skill("c")}))
    files = {
        "skills/a/SKILL.md": skill("a"),
        MARKET: market(("p", there()), ("q", there("third")), ("gone", there("gone"))),
    }
    assert place(files, hub).index(["a"]).names == ("a",)
    assert hub.opened == []
    assert place(files, hub).index(["p:b", "skills/a"]).names == ("a", "b")
    assert len(hub.opened) == 1
    everything = place(files, hub).index()
    assert everything.names == ("a", "b", "c")
    assert everything.warnings == ("plugin gone was left out: there is no such repository",)
    with pytest.raises(NotFound):
        place(files, hub).index(["gone:x"])


def test_packages_are_declined_with_the_reason():
    index = place({MARKET: market(("p", {"source": "npm", "package": "x"}))}).index()
    assert index.skills == {}
    assert index.warnings[0].startswith("plugin p was left out: it is the package 'x'")


@pytest.mark.parametrize(
    "url",
    [
        "http://git.example/other.git",
        "file:///srv/private.git",
        "https://127.0.0.1/x.git",
        "https://127.1/x.git",
        "https://[::1]/x.git",
        "https://169.254.169.254/latest",
        "https://10.0.0.1/x.git",
        "https://localhost/x.git",
        "https://build.internal/x.git",
        "https://user:secret@git2.example/x.git",
        "ssh://root@10.1.2.3/x.git",
    ],
)
def test_attack_a_marketplace_leads_into_a_private_network(url):
    hub = Hub()
    index = place({MARKET: market(("p", {"source": "url", "url": url}))}, hub).index()
    assert (index.skills, hub.opened) == ({}, [])
    assert "left out" in index.warnings[0]
    with pytest.raises(UnsafeTransfer):
        place({}, hub).unpacked(Release(name="x", url=url, rev=OTHER, type="tree"))
    assert hub.opened == []


def test_attack_another_commit_comes_than_the_one_that_was_pinned():
    hub = Hub(other=Memory({"skills/a/SKILL.md": skill("a")}, "c" * 40))
    with pytest.raises(WrongBytes):
        place({MARKET: market(("p", there(sha=OTHER)))}, hub).index()


def test_who_asks_for_one_skill_after_another_has_all_read_once():
    """Each name was looked for anew in all of it: to ask for what is newer of 550 skills took a minute and a half."""
    snapshot = Memory({f"skills/s{number}/SKILL.md": skill(f"s{number}") for number in range(20)})
    repository = Repository(snapshot, url=URL, elsewhere=Hub())
    for number in range(20):
        assert len(repository.index((f"s{number}",)).releases(f"s{number}")) == 1
    assert len(snapshot.reads) == 1

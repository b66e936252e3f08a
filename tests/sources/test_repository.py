"""A repository as a source: its index and its skills."""

import json
from dataclasses import replace

import pytest

from skillhub.errors import FormatError, NotFound, UnsafeArchive, UnsafeTransfer, WrongBytes
from skillhub.model.index import Release
from skillhub.model.tree import File
from skillhub.sources.git_snapshot import object_id
from skillhub.sources.repository import Repository
from tests.support.effort import steps
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


def test_repository_offers_and_unpacks_its_skill():
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


@pytest.mark.parametrize("path", [None, "docs"])
def test_the_site_of_a_registry_is_no_repository_of_unsigned_skills(path):
    """A branch that ``publish`` filled: its signed lists offer the skills, and not the files of other clients."""
    top = f"{path}/" if path else ""
    files = {f"{top}metadata/1.root.json": "{}", f"{top}.well-known/agent-skills/a/SKILL.md": skill("a")}
    with pytest.raises(FormatError, match="found the site of a registry"):
        place(files, path=path).index()


def test_skill_at_the_top_is_the_whole_repository():
    (release,) = place({"SKILL.md": skill(), "docs/SKILL.md": skill("b")}).index().releases("main")
    assert release.path is None
    assert len(place({"SKILL.md": skill(), "docs/SKILL.md": skill("b")}).unpacked(release).tree) == 2


def test_a_folder_of_a_large_repository_is_read_without_the_others():
    """A lock has a reference for each of them, so that a look at the others would be quadratic."""

    def cost(count):
        snapshot = Memory({f"skills/s{number}/SKILL.md": skill(f"s{number}") for number in range(count)})

        def work():
            repository = Repository(snapshot, url=URL, path="skills/s7", elsewhere=Hub())
            repository.unpacked(repository.index().releases("s7")[0])

        work()  # sorts the paths once
        return steps(work)

    assert cost(400) == cost(20)


def test_index_reads_all_heads_and_plugin_files_at_once():
    files = {f"plugins/p{number}/skills/s{number}/SKILL.md": skill(f"s{number}") for number in range(30)}
    more = {f"plugins/p{number}/.claude-plugin/plugin.json": "{}" for number in range(30)}
    listed = market(*((f"p{number}", f"./plugins/p{number}") for number in range(30)))
    snapshot = Memory({**files, **more, MARKET: listed})
    index = Repository(snapshot, url=URL, elsewhere=Hub()).index()
    assert index.releases("s7")[0].plugin == "p7"
    assert len(snapshot.reads) == 1


def test_path_limits_the_index_to_a_folder():
    files = {"a/skills/x/SKILL.md": skill("x"), "b/SKILL.md": skill("b"), "b/c/SKILL.md": skill("c")}
    assert place(files, path="a").index().names == ("x",)
    assert place(files, path="b").index().names == ("b",)
    with pytest.raises(NotFound, match="no folder 'c'"):
        place(files, path="c").index()


@pytest.mark.parametrize("path", ["pdf", "skills/pfd", "skill/pdf"])
def test_the_folder_that_was_meant_is_named(path):
    files = {"skills/pdf/SKILL.md": skill("pdf"), "skills/docx/SKILL.md": skill("docx"), "pdfs/README.md": "r"}
    with pytest.raises(NotFound) as caught:
        place(files, path=path).index()
    assert caught.value.hint.startswith("did you mean 'skills/pdf'? without the folder, ")
    with pytest.raises(NotFound) as caught:
        place(files, path="other").index()
    assert caught.value.hint.startswith("without the folder, ")


def test_locked_skill_is_unpacked_without_an_index():
    repository = place({"skills/a/SKILL.md": skill("a")})
    locked = Release(name="a", url=URL, rev=REV, path="skills/a", type="tree")
    assert list(repository.unpacked(locked).tree) == ["SKILL.md"]
    with pytest.raises(NotFound):
        repository.unpacked(Release(name="a", url=URL, rev=REV, path="skills/gone", type="tree"))


def test_equal_copies_are_one_release_and_different_ones_are_separate():
    same, run = skill("a"), "#!/bin/sh"
    files = {"skills/a/SKILL.md": same, "skills/a/run": run, ".claude/skills/a/SKILL.md": same}
    twice = place({**files, ".claude/skills/a/run": run}).index()
    assert [each.path for each in twice.releases("a")] == ["skills/a"]
    for other in ({".claude/skills/a/run": "#!/bin/ba"}, {".claude/skills/a/run*": run}, {}):
        index = place({**files, **other}).index()
        assert [each.path for each in index.releases("a")] == ["skills/a", ".claude/skills/a"]


def test_attack_thousands_of_skills_of_one_name_are_read_once_each():
    files = {f"skills/s{number:04}/SKILL.md": skill("a", body=f"{number:04}") for number in range(2000)}
    snapshot = Memory(files)
    index = Repository(snapshot, url=URL, elsewhere=Hub()).index()
    assert len(index.releases("a")) == 2000
    assert len(snapshot.reads) == 2001


def test_attack_equal_skills_of_a_commit_are_not_read_to_be_compared():
    files = {f"skills/{folder}/{path}": skill("s") for folder in "abc" for path in ("SKILL.md", "large")}
    snapshot = Memory({**files, "skills/c/large": skill("t")})
    for path, node in snapshot.nodes.items():
        snapshot.nodes[path] = replace(node, id=object_id("blob", next(snapshot.read([path]))))
    snapshot.reads.clear()
    found = Repository(snapshot, url=URL, elsewhere=Hub()).index().releases("s")
    assert [each.path for each in found] == ["skills/a", "skills/c"]
    assert len(snapshot.reads) == 1


def test_attack_one_large_file_at_many_paths_is_not_read_at_all_of_them():
    manifests = {f"p{number}/.claude-plugin/plugin.json": b" " * (1 << 20) for number in range(65)}
    with pytest.raises(FormatError, match="67108864 bytes"):
        place({"skills/a/SKILL.md": skill("a"), **manifests}).index()


def test_attack_thousands_of_plugins_with_all_skills_are_refused():
    files = {f"skills/s{number}/SKILL.md": skill(f"s{number}") for number in range(400)}
    with pytest.raises(FormatError, match="100000 skills"):
        place({**files, MARKET: market(*((f"p{number}", "./") for number in range(300)))}).index()


def test_repository_is_read_once():
    hub, snapshot = Hub(), Memory({"skills/a/SKILL.md": skill("a"), MARKET: market(("gone", there("gone")))})
    repository = Repository(snapshot, url=URL, elsewhere=hub)
    assert repository.index() is repository.index()
    assert repository.index(["a"]).names == ("a",)
    assert len(hub.opened) == 1


def test_a_skill_without_a_valid_name_is_called_by_its_folder():
    index = place({"skills/Bad One/SKILL.md": "no head", "skills/link/SKILL.md": None}).index()
    assert index.names == ("link", "skills/Bad One")
    with pytest.raises(UnsafeArchive) as caught:
        place({"skills/link/SKILL.md": None}).unpacked(
            Release(name="link", url=URL, rev=REV, path="skills/link", type="tree")
        )
    assert caught.value.reason == "link"


def test_internal_skill_is_offered_only_by_its_path():
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
def test_attack_forbidden_content_is_refused(more, error, reason):
    repository = place({"skills/a/SKILL.md": skill("a"), **more})
    with pytest.raises(error) as caught:
        repository.unpacked(repository.index().releases("a")[0])
    assert getattr(caught.value, "reason", None) == reason


def test_attack_a_skill_with_too_many_files_is_refused_before_any_is_read():
    snapshot = Memory({"SKILL.md": skill("a"), **{f"f{number}": "" for number in range(5000)}})
    repository = Repository(snapshot, url=URL, elsewhere=Hub())
    (release,) = repository.index().releases("a")
    snapshot.reads.clear()
    with pytest.raises(UnsafeArchive):
        repository.unpacked(release)
    assert snapshot.reads == []


def test_links_outside_of_the_skill_are_ignored():
    repository = place({"skills/a/SKILL.md": skill("a"), ".claude/skills": None, "vendor": ...})
    assert len(repository.unpacked(repository.index().releases("a")[0]).tree) == 1


def test_plugins_of_the_repository_label_their_skills():
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


def test_first_of_two_marketplaces_takes_precedence():
    files = {
        MARKET: market(("p", "./one")),
        ".agents/plugins/marketplace.json": market(("p", "./two"), ("q", {"source": "local", "path": "./two"})),
        "one/skills/a/SKILL.md": skill("a"),
        "two/skills/b/SKILL.md": skill("b"),
    }
    index = place(files).index()
    assert {name: index.releases(name)[0].plugin for name in index.names} == {"a": "p", "b": "q"}


def test_plugin_file_at_the_top_labels_its_skills():
    files = {".codex-plugin/plugin.json": '{"name": "tool"}', "skills/a/SKILL.md": skill("a")}
    assert place(files).index().releases("a")[0].plugin == "tool"


def test_invalid_marketplace_gives_a_warning_and_no_loss():
    index = place({MARKET: "{", "skills/a/SKILL.md": skill("a")}).index()
    assert index.names == ("a",)
    assert "was not read" in index.warnings[0]


def test_plugin_of_another_repository_is_pinned_to_a_commit():
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


def test_other_repositories_are_opened_only_for_missing_skills():
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


def test_package_in_a_marketplace_gives_a_warning():
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
def test_attack_a_marketplace_reaches_no_private_network(url):
    hub = Hub()
    index = place({MARKET: market(("p", {"source": "url", "url": url}))}, hub).index()
    assert (index.skills, hub.opened) == ({}, [])
    assert "left out" in index.warnings[0]
    with pytest.raises(UnsafeTransfer):
        place({}, hub).unpacked(Release(name="x", url=url, rev=OTHER, type="tree"))
    assert hub.opened == []


def test_attack_a_commit_other_than_the_pinned_one_is_refused():
    hub = Hub(other=Memory({"skills/a/SKILL.md": skill("a")}, "c" * 40))
    with pytest.raises(WrongBytes):
        place({MARKET: market(("p", there(sha=OTHER)))}, hub).index()


def test_repeated_requests_for_single_skills_read_the_repository_once():
    """Without this, an update check of 550 skills took a minute and a half, since each name was searched anew."""
    snapshot = Memory({f"skills/s{number}/SKILL.md": skill(f"s{number}") for number in range(20)})
    repository = Repository(snapshot, url=URL, elsewhere=Hub())
    for number in range(20):
        assert len(repository.index((f"s{number}",)).releases(f"s{number}")) == 1
    assert len(snapshot.reads) == 1

"""Real git over repositories that are written object by object; the server is git or a plain web server."""

import os
import shlex
import shutil
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from skillhub.disk import files as disk
from skillhub.errors import FormatError, NotFound, SourceError, StateError, UsageError
from skillhub.sources.git_program import GitLimits
from skillhub.sources.layout import SnapshotNode
from tests.support.gitbackend import backend
from tests.support.gitrepos import SKILL, Repo, link, program, submodule
from tests.support.gitserver import served

PARTIAL = "[uploadpack]\n\tallowFilter = true\n"
FILES = {"skills/deploy/SKILL.md": SKILL, "skills/deploy/run.sh": program(b"#!/bin/sh\n"), "README.md": b"Read me.\n"}


def cached(tmp_path):
    return [path for path in (tmp_path / "cache").rglob("*") if path.suffix == ".pack"]


def logged(tmp_path, environ):
    """Put a git on the path that logs its arguments; return a function that returns the lines of a verb."""
    log, folder = tmp_path / "log", tmp_path / "bin"
    folder.mkdir()
    script = folder / "git"
    script.write_text(f'#!/bin/sh\necho "$*" >> "{log}"\nexec {shlex.quote(shutil.which("git"))} "$@"\n')
    script.chmod(0o755)
    environ["PATH"] = f"{folder}:{environ['PATH']}"
    return lambda verb: [line for line in log.read_text().splitlines() if f" {verb} " in line]


def test_snapshot_has_the_nodes_and_bytes_of_the_commit(repo, opened):
    commit = repo.commit(FILES | {"current": link("skills"), "other": submodule(), "empty": b""})
    snapshot = opened(repo.url, None)
    assert snapshot.rev == commit
    assert snapshot.nodes == {
        "README.md": SnapshotNode("file", size=9),
        "current": SnapshotNode("link"),
        "empty": SnapshotNode("file"),
        "other": SnapshotNode("submodule"),
        "skills/deploy/SKILL.md": SnapshotNode("file", size=len(SKILL)),
        "skills/deploy/run.sh": SnapshotNode("file", executable=True, size=10),
    }
    wanted = ["skills/deploy/run.sh", "empty", "README.md", "empty"]
    assert list(snapshot.read(wanted)) == [b"#!/bin/sh\n", b"", b"Read me.\n", b""]


def test_attributes_do_not_change_bytes(repo, opened):
    files = {
        ".gitattributes": b"*.txt eol=crlf\nID ident export-subst\nold export-ignore\n",
        "a.txt": b"one\ntwo\n",
        "a.ps1": b"Write\n",
        "ID": b"$Id$ $Format:%H$\n",
        "old": b"kept\n",
    }
    repo.commit(files)
    assert list(opened(repo.url, None).read(files)) == list(files.values())


def test_names_that_are_not_utf8_are_kept(repo, opened):
    name = os.fsdecode(b"caf\xe9")
    repo.commit({name: b"x", "Read": b"1", "read": b"2"})
    assert set(opened(repo.url, None).nodes) == {name, "Read", "read"}


def test_missing_file_is_not_found(repo, opened):
    repo.commit(FILES | {"current": link("skills")})
    snapshot = opened(repo.url, None)
    for path in ("nothing", "skills", "current"):
        with pytest.raises(NotFound):
            list(snapshot.read([path]))


def test_branches_tags_and_commits_are_found_by_their_names(repo, opened):
    main = repo.commit(FILES)
    old = repo.commit({"SKILL.md": SKILL}, "refs/heads/release/1.x")
    loose = repo.commit({"SKILL.md": b"loose"}, "refs/heads/gone")
    (repo.path / "refs/heads/gone").unlink()
    repo.point("refs/tags/v1", old)
    repo.tag("v2", main)
    assert opened(repo.url, "main").rev == main
    assert opened(repo.url, "release/1.x").rev == old
    assert opened(repo.url, "heads/release/1.x").rev == old
    assert opened(repo.url, "v1").rev == old
    assert opened(repo.url, "v2").rev == main
    assert opened(repo.url, "refs/tags/v2").rev == main
    assert opened(repo.url, old).rev == old
    assert list(opened(repo.url, loose).read(["SKILL.md"])) == [b"loose"]


def test_a_commit_that_a_rewritten_history_lost_has_a_hint(repo, opened):
    repo.commit(FILES)
    with pytest.raises(NotFound, match="no object with the id") as caught:
        list(opened(repo.url, "1" * 40).read(["SKILL.md"]))
    assert "skillhub remove NAME" in caught.value.hint


def test_name_of_a_branch_and_a_tag_is_refused(repo, opened):
    branch = repo.commit(FILES, "refs/heads/v1")
    tag = repo.commit({"SKILL.md": SKILL}, "refs/tags/v1")
    with pytest.raises(UsageError) as caught:
        opened(repo.url, "v1")
    assert caught.value.hint == "say which: @refs/heads/v1, @refs/tags/v1"
    assert opened(repo.url, "refs/heads/v1").rev == branch
    assert opened(repo.url, "tags/v1").rev == tag
    repo.tag("v1", branch)
    assert opened(repo.url, "v1").rev == branch


@pytest.mark.parametrize("rev", ["nothing", "mai", "MAIN", "0" * 40, "abcdef1"])
def test_an_unknown_revision_is_not_found(rev, repo, opened):
    repo.commit(FILES)
    with pytest.raises(NotFound):
        opened(repo.url, rev)


def test_hint_about_a_short_commit_asks_for_40_digits(repo, opened):
    commit = repo.commit(FILES)
    with pytest.raises(NotFound) as caught:
        opened(repo.url, commit[:10])
    assert "40" in (caught.value.hint or "")


def test_the_hint_about_an_unknown_tag_lists_the_tags(repo, opened):
    repo.commit(FILES)
    with pytest.raises(NotFound) as caught:
        opened(repo.url, "v2")
    assert caught.value.hint == f"git ls-remote {repo.url} lists them"


def test_empty_and_missing_repositories_are_not_found(repo, opened, tmp_path):
    for url in (repo.url, (tmp_path / "nothing").as_uri(), tmp_path.as_uri()):
        with pytest.raises(NotFound) as caught:
            opened(url, None)
        assert caught.value.where == url
        assert (url != repo.url) or (caught.value.hint or "").endswith("skillhub source add NAME URL")


def test_tag_of_a_tree_is_refused(repo, opened):
    repo.commit(FILES)
    tree = repo.folder({"SKILL.md": SKILL})
    repo.point("refs/tags/odd", tree)
    with pytest.raises(FormatError):
        opened(repo.url, "odd")


def test_repository_with_sha256_ids_is_refused(tmp_path, opened):
    repo = Repo(tmp_path / "new", "[extensions]\n\tobjectFormat = sha256\n")
    config = (repo.path / "config").read_text().replace("version = 0", "version = 1")
    (repo.path / "config").write_text(config)
    repo.point("refs/heads/main", "a" * 64)
    with pytest.raises(SourceError):
        opened(repo.url, None)


def test_partial_clone_fetches_only_the_files_read(tmp_path, opened):
    repo = Repo(tmp_path / "repo", PARTIAL)
    repo.commit(FILES | {"film.mp4": os.urandom(300_000)})
    snapshot = opened(repo.url, None)
    assert snapshot.nodes["film.mp4"] == SnapshotNode("file")
    assert list(snapshot.read(["skills/deploy/SKILL.md"])) == [SKILL]
    assert sum(path.stat().st_size for path in cached(tmp_path)) < 10_000
    assert len(next(snapshot.read(["film.mp4"]))) == 300_000


def test_many_skills_take_few_fetches(tmp_path, environ, opened):
    asked = logged(tmp_path, environ)
    repo = Repo(tmp_path / "repo", PARTIAL)
    homes = [f"skills/s{number}" for number in range(30)]
    files = {f"{home}/{name}": f"{home}{name}".encode() for home in homes for name in ("SKILL.md", "a", "b")}
    repo.commit(files | {"film.mp4": os.urandom(300_000)})
    snapshot = opened(repo.url, None)
    assert len(list(snapshot.read([f"{home}/SKILL.md" for home in homes]))) == 30
    for home in homes:
        paths = [f"{home}/{name}" for name in ("SKILL.md", "a", "b")]
        assert list(snapshot.read(paths)) == [files[path] for path in paths]
    assert len(asked("fetch")) == 4
    assert len(asked("cat-file")) <= 12
    assert sum(path.stat().st_size for path in cached(tmp_path)) < 20_000


def test_new_repository_is_fetched_without_listing_its_refs(tmp_path, opened):
    repo = Repo(tmp_path / "served/now.git")
    commit = repo.commit(FILES)
    with backend(tmp_path / "served") as server:
        url = server.url("/now.git")
        assert opened(url, None).rev == commit
        assert [path.rpartition("/")[2] for path in server.asked] == [
            "refs?service=git-upload-pack",
            *(["git-upload-pack"] * 2),
        ]
        assert opened(url, commit).rev == commit
        assert len(server.asked) == 3
        newer = repo.commit(FILES | {"new": b"1"})
        assert opened(url, None).rev == newer
        assert len(cached(tmp_path)) == 2


def test_a_local_repository_takes_few_processes(tmp_path, environ, repo, opened):
    asked = logged(tmp_path, environ)
    files = {f"skills/s{number}/SKILL.md": b"%d" % number for number in range(200)}
    repo.commit(files)
    snapshot = opened(repo.url, None)
    assert list(snapshot.read(files)) == list(files.values())
    for path, data in files.items():
        assert list(snapshot.read([path])) == [data]
    assert [len(asked(verb)) for verb in ("ls-remote", "fetch", "cat-file")] == [0, 1, 2]


def test_a_commit_in_the_cache_needs_no_network(repo, opened):
    commit = repo.commit(FILES)
    list(opened(repo.url, None).read(FILES))
    shutil.rmtree(repo.path)
    offline = GitLimits(offline=True)
    assert list(opened(repo.url, commit, bounds=offline).read(["README.md"])) == [b"Read me.\n"]
    for rev, lacks in ((None, "which commit"), ("main", "which commit"), ("0" * 40, "the cache does not have")):
        with pytest.raises(SourceError, match=f"{lacks}.* --offline"):
            opened("https://git.invalid/repo", rev, bounds=offline)


def test_a_repository_on_this_disk_is_read_without_a_network(repo, opened):
    commit = repo.commit(FILES)
    assert opened(repo.url, "main", bounds=GitLimits(offline=True)).rev == commit


def test_moved_branch_is_fetched_and_the_old_commit_stays(repo, opened):
    old = repo.commit(FILES)
    opened(repo.url, "main")
    new = repo.commit(FILES | {"README.md": b"New.\n"})
    assert opened(repo.url, "main").rev == new
    assert list(opened(repo.url, "main").read(["README.md"])) == [b"New.\n"]
    assert list(opened(repo.url, old).read(["README.md"])) == [b"Read me.\n"]


def test_the_cache_may_be_deleted_at_any_time(tmp_path, repo, opened):
    repo.commit(FILES)
    snapshot = opened(repo.url, None)
    shutil.rmtree(tmp_path / "cache")
    assert list(snapshot.read(FILES))[2] == b"Read me.\n"
    shutil.rmtree(tmp_path / "cache", ignore_errors=True)
    assert list(opened(repo.url, None).read(FILES))[2] == b"Read me.\n"


def test_leftovers_of_a_killed_process_are_removed(tmp_path, repo, opened):
    repo.commit(FILES)
    opened(repo.url, None)
    (folder,) = (path for path in (tmp_path / "cache/git").iterdir() if path.is_dir())
    for name in ("shallow.lock", "objects/pack/tmp_pack_x", "refs/commits/x.lock", "config.lock"):
        (folder / name).write_bytes(b"half")
    new = repo.commit(FILES | {"README.md": b"New.\n"})
    assert opened(repo.url, None).rev == new
    assert not (folder / "objects/pack/tmp_pack_x").exists()


@pytest.mark.parametrize("part", ["pack", "idx", "all", "shallow", "HEAD"])
def test_a_half_written_cache_heals(part, tmp_path, repo, opened):
    repo.commit(FILES)
    commit = opened(repo.url, None).rev
    (folder,) = (path for path in (tmp_path / "cache/git").iterdir() if path.is_dir())
    if part == "all":
        shutil.rmtree(folder / "objects")
    for path in [path for path in folder.rglob("*") if path.is_file() and path.name.endswith(part)]:
        path.chmod(stat.S_IRUSR | stat.S_IWUSR)
        path.write_bytes(path.read_bytes()[:-30] + b"half")
    assert list(opened(repo.url, commit).read(FILES))[2] == b"Read me.\n"
    repo.commit(FILES | {"README.md": b"New.\n"})
    assert list(opened(repo.url, None).read(["README.md"])) == [b"New.\n"]


def test_parallel_snapshots_share_one_cache(tmp_path, environ, opened):
    asked = logged(tmp_path, environ)
    repo = Repo(tmp_path / "repo", PARTIAL)
    commit = repo.commit(FILES)
    with ThreadPoolExecutor(4) as pool:
        snapshots = list(pool.map(lambda _: opened(repo.url, commit), range(4)))
        found = list(pool.map(lambda one: list(one.read(FILES)), snapshots * 2))
    assert all(one == found[0] for one in found)
    assert len(asked("fetch")) == 2


def test_cached_commit_is_opened_while_another_process_holds_the_lock(tmp_path, repo, opened):
    commit = repo.commit(FILES)
    opened(repo.url, None)
    (folder,) = (tmp_path / "cache/git").glob("*/objects")
    with disk.lock(f"{folder.parent}.lock", timeout=1):
        assert opened(repo.url, None, bounds=GitLimits(seconds=300)).rev == commit


def test_threads_read_one_snapshot(repo, opened):
    files = {f"f{number}": b"%d" % number * number for number in range(300)}
    repo.commit(files)
    snapshot = opened(repo.url, None)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda path: next(snapshot.read([path])), files)) == list(files.values())


def test_objects_come_from_the_mirror(repo, opened):
    commit = repo.commit(FILES)
    with served(repo.path.parent) as server:
        mirrors = {"https://git.example/team": server.url.rstrip("/"), "https://git.example": "https://127.0.0.1:1"}
        bounds = GitLimits(mirrors=mirrors)
        assert opened("https://git.example/team/repo", commit, bounds=bounds).rev == commit
        with pytest.raises(SourceError):
            opened("https://git.example/teams/repo", commit, bounds=bounds)
        with pytest.raises(UsageError):
            opened("https://git.example/team/../repo", commit, bounds=bounds)


def test_unwritable_cache_is_an_error(tmp_path, repo, opened):
    repo.commit(FILES)
    (tmp_path / "cache").write_text("a file")
    for rev in (None, "0" * 40):
        with pytest.raises(StateError):
            opened(repo.url, rev)


def test_settings_of_a_remote_origin_have_no_effect(tmp_path, repo, opened):
    commit = repo.commit(FILES)
    (tmp_path / "home/.gitconfig").write_text(
        '[remote "origin"]\n\turl = /nowhere\n\tfetch = +refs/*:refs/*\n\tmirror = true\n[fetch]\n\tprune = true\n'
    )
    assert opened(repo.url, None).rev == commit
    assert list(opened(repo.url, commit).read(["README.md"])) == [b"Read me.\n"]


def test_server_of_plain_files_serves_a_repository(repo, opened):
    commit = repo.commit(FILES)
    with served(repo.path) as server:
        assert opened(server.url, commit).rev == commit
        assert list(opened(server.url, "main").read(["README.md"])) == [b"Read me.\n"]
        with pytest.raises(NotFound):
            opened(server.url, "0" * 40)

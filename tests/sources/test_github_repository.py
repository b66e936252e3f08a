"""GitHub without git: the fake server answers from a real repository, with the false answers of a test."""

import gzip
import io
import json
import os
import tarfile
from base64 import b64encode

import pytest

from skillhub.errors import (
    FormatError,
    NotFound,
    RateLimited,
    SourceError,
    UnsafeArchive,
    UnsafeTransfer,
    UsageError,
    WrongBytes,
)
from skillhub.model.reference import GitHub, url_of
from skillhub.net.client import Http
from skillhub.sources import github
from skillhub.sources.git_program import GitLimits
from skillhub.sources.git_snapshot import GitSnapshot, open_git
from skillhub.sources.github import host_of, open_repository, token_for
from tests.support.github_api import GitHubServer
from tests.support.gitrepos import SKILL, link, program, submodule
from tests.support.gitserver import served

REPOSITORY = "https://github.com/acme/skills"
FILES = {
    "LICENSE": b"Free.\n",
    "skills/deploy/SKILL.md": SKILL,
    "skills/deploy/run.sh": program(b"#!/bin/sh\n"),
    "skills/deploy/lib/a.py": b"a\n",
    "skills/deploy/lib-old/b.py": b"b\n",
    "skills/deploy/lib.py": b"c\n",
    "skills/deploy/café.md": b"d\n",
}


@pytest.fixture
def hub(repo):
    with GitHubServer(repo) as server:
        yield server


@pytest.fixture
def environ(hub, tmp_path):
    (tmp_path / "empty").mkdir()
    return {"PATH": str(tmp_path / "empty"), "HOME": str(tmp_path), "GITHUB_API_URL": hub.url}


@pytest.fixture
def opened(environ, tmp_path):
    with Http() as web:
        yield lambda rev=None: open_repository(
            REPOSITORY, rev, cache=str(tmp_path / "cache"), environ=environ, bounds=GitLimits(web=web)
        )


def test_github_and_git_give_the_same_snapshot(repo, opened, tmp_path):
    repo.commit(FILES | {"current": link("skills"), "other": submodule(), "z/empty": b""})
    ours = opened()
    theirs = open_git(repo.url, None, cache=str(tmp_path / "git"), environ=os.environ)
    assert ours.rev == theirs.rev
    assert list(ours.nodes) == list(theirs.nodes)
    kinds = {path: (node.kind, node.executable) for path, node in ours.nodes.items()}
    assert kinds == {path: (node.kind, node.executable) for path, node in theirs.nodes.items()}
    assert ours.nodes["skills/deploy/SKILL.md"].size == len(SKILL)
    paths = [path for path, node in ours.nodes.items() if node.kind == "file"]
    assert list(ours.read(paths)) == list(theirs.read(paths))
    assert list(ours.read(["LICENSE", "z/empty", "LICENSE"])) == [b"Free.\n", b"", b"Free.\n"]
    for path in ("current", "nothing"):
        with pytest.raises(NotFound):
            list(ours.read([path]))


def test_few_files_are_read_one_by_one_and_many_as_one_archive(repo, hub, opened):
    homes = [f"skills/s{number}" for number in range(30)]
    files = {f"{home}/{name}": f"{home}{name}".encode() for home in homes for name in ("SKILL.md", "a")}
    repo.commit(files | {"LICENSE": b"Free.\n"})
    snapshot = opened()
    assert len(hub.asked) == 3
    assert list(snapshot.read(["LICENSE"])) == [b"Free.\n"]
    assert len(hub.asked) == 4
    for paths in ([f"{home}/SKILL.md" for home in homes], list(files)):
        assert list(snapshot.read(paths)) == [files[path] for path in paths]
    assert [path.split("/")[0] for path in hub.paths[4:]] == ["tarball", "codeload"]


def test_files_that_attributes_change_in_an_archive_are_read_one_by_one(repo, hub, opened):
    files = {f"skills/deploy/{number}": b"%d" % number for number in range(9)}
    files |= {
        ".gitattributes": b"secret.md export-ignore\nID export-subst\n*.txt eol=crlf\n",
        "skills/deploy/SKILL.md": SKILL,
        "skills/deploy/secret.md": b"left out\n",
        "skills/deploy/ID": b"$Format:%H$\n",
        "skills/deploy/a.txt": b"one\ntwo\n",
    }
    repo.commit(files)
    assert list(opened().read(files)) == list(files.values())
    assert [path.split("/")[0] for path in hub.paths].count("tarball") == 1
    assert sum(path.startswith("git/blobs/") for path in hub.paths) == 3


@pytest.mark.parametrize("archive", [b"", b"no archive", b"\x1f\x8b\x08\x00" + bytes(30)])
def test_broken_archive_is_replaced_by_single_requests(archive, repo, hub, opened):
    commit = repo.commit(FILES)
    hub.lies[f"tarball/{commit}"] = archive
    paths = list(FILES)
    assert list(opened().read(paths))[1] == SKILL


PLAIN = {f"skills/deploy/{path}": path.encode() for path in ("SKILL.md", "a", "b", "c", "d")}


def of_headers(kind, body, count):
    """Return an archive that holds the files after ``count`` headers of this type with this body."""
    head = tarfile.TarInfo("x/none")
    head.type, head.size = kind, len(body)
    block = head.tobuf(tarfile.GNU_FORMAT) + body + bytes(-len(body) % 512)
    kept = io.BytesIO()
    with tarfile.open(fileobj=kept, mode="w") as tar:
        for path, data in PLAIN.items():
            info = tarfile.TarInfo(f"x/{path}")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return gzip.compress(block * count + kept.getvalue(), 1)


@pytest.mark.parametrize(
    ("kind", "body", "count", "is_read"),
    [
        (tarfile.XHDTYPE, b"11 mtime=1\n", 1, True),
        (tarfile.XHDTYPE, b"11 mtime=1\n" * 9_000, 1, False),
        (tarfile.REGTYPE, b"", 40, True),
        (tarfile.REGTYPE, b"", 50, False),
    ],
)
def test_attack_an_archive_of_large_or_many_headers_is_not_read_further(
    kind, body, count, is_read, repo, hub, opened, monkeypatch
):
    """A header of 1.5 GB took 3 GB of memory and minutes, four million files 1.8 GB."""
    monkeypatch.setattr(github, "_MEMBERS", 50)
    hub.lies[f"tarball/{repo.commit(PLAIN)}"] = of_headers(kind, body, count)
    assert list(opened().read(PLAIN)) == list(PLAIN.values())
    assert any(path.startswith("git/blobs/") for path in hub.paths) is not is_read


def test_attack_a_tree_of_very_many_values_is_refused_unread(repo, hub, opened):
    tree = repo.get(repo.commit(FILES))[1].split()[1].decode()
    hub.lies[f"git/trees/{tree}"] = b'{"tree":[],"more":[' + b"[]," * 500_000 + b"[]]}"
    with pytest.raises(FormatError, match="at most 1000000 values"):
        opened()


def test_truncated_tree_is_read_folder_by_folder(repo, hub, opened):
    files = {f"{a}/{b}/{c}": f"{a}{b}{c}".encode() for a in "abc" for b in "de" for c in "fghij"}
    repo.commit(files)
    hub.most = 12
    assert sorted(opened().nodes) == sorted(files)


def test_revisions_are_found_as_by_git(repo, opened):
    main = repo.commit(FILES)
    old = repo.commit({"SKILL.md": SKILL}, "refs/heads/release/1.x")
    repo.point("refs/tags/v1", old)
    repo.tag("v2", main)
    for rev, commit in {
        None: main, "main": main, "release/1.x": old, "heads/release/1.x": old, "v1": old, "v2": main,
        "refs/tags/v2": main, old: old,
    }.items():  # fmt: skip
        assert opened(rev).rev == commit
    repo.commit({"SKILL.md": b"tag"}, "refs/tags/main")
    with pytest.raises(UsageError):
        opened("main")
    for rev in ("nothing", "0" * 40, main[:9], repo.folder({"a": b"b"})):
        with pytest.raises(NotFound):
            opened(rev)


def test_an_empty_repository_is_not_found(opened):
    with pytest.raises(NotFound):
        opened()


def test_tree_of_another_commit_is_refused(repo, hub, opened):
    commit = repo.commit(FILES)
    repo.commit(FILES | {"skills/deploy/SKILL.md": b"evil"}, "refs/heads/evil")
    root = repo.get(commit)[1].split()[1].decode()
    evil = hub.tree(repo.get(hub.resolve("evil"))[1].split()[1].decode(), True)
    hub.lies[f"git/trees/{root}"] = json.dumps(evil).encode()
    with pytest.raises(WrongBytes):
        opened()


def test_a_file_with_other_bytes_is_refused(repo, hub, opened):
    repo.commit(FILES)
    hub.lies[f"git/blobs/{repo.put('blob', SKILL)}"] = b"evil"
    with pytest.raises(WrongBytes):
        list(opened().read(["skills/deploy/SKILL.md"]))


def test_a_changed_execute_bit_is_refused(repo, hub, opened):
    commit = repo.commit({"run.sh": program(b"run")})
    root = repo.get(commit)[1].split()[1].decode()
    changed = json.dumps(hub.tree(root, True)).replace("100755", "100644")
    hub.lies[f"git/trees/{root}"] = changed.encode()
    with pytest.raises(WrongBytes):
        opened()


def test_recursive_answer_is_not_trusted_for_subfolders(repo, hub, opened):
    commit = repo.commit(FILES)
    root = repo.get(commit)[1].split()[1].decode()
    changed = json.dumps(hub.tree(root, True)).replace("100755", "100644")
    hub.lies[f"git/trees/{root}"] = changed.encode()
    assert opened().nodes["skills/deploy/run.sh"].executable


@pytest.mark.parametrize("answer", [b"", b"[]", b"{}", b'{"tree": [{}]}', b'{"tree": {"sha": "../../x"}}', b"\xff"])
def test_malformed_answer_is_refused(answer, repo, hub, opened):
    commit = repo.commit(FILES)
    hub.lies[f"git/commits/{commit}"] = answer
    with pytest.raises(FormatError):
        opened()


def test_a_path_out_of_the_repository_is_refused(repo, opened):
    blob = repo.put("blob", b"evil")
    inner = repo.tree([(b"..", "40000", repo.tree([(b"x", "100644", blob)]))])
    repo.commit_tree(inner)
    with pytest.raises(UnsafeArchive) as caught:
        opened()
    assert caught.value.reason == "path-traversal"


def test_rate_limit_is_reported_with_its_end_and_a_hint(repo, hub, opened):
    repo.commit(FILES)
    hub.remaining = 1
    with pytest.raises(RateLimited, match="until 08:00 UTC") as caught:
        opened()
    assert "GITHUB_TOKEN" in (caught.value.hint or "")
    assert caught.value.resets == 1800000000


def test_token_is_sent_to_the_api_and_never_shown(repo, hub, environ, opened):
    repo.commit(FILES)
    hub.token = "ghp_secret"
    with pytest.raises(NotFound) as caught:
        opened()
    assert "GITHUB_TOKEN" in (caught.value.hint or "")
    environ["GITHUB_TOKEN"] = "ghp_secret"
    hub.asked.clear()
    assert list(opened().read(FILES))[1] == SKILL
    assert all(sent == "Bearer ghp_secret" for _, sent in hub.asked)
    assert "ghp_secret" not in repr(host_of(environ))
    environ["GITHUB_TOKEN"] = "ghp_wrong"
    with pytest.raises(SourceError, match="rejects the token") as caught:
        opened()
    assert "ghp_wrong" not in str(vars(caught.value))


def test_hints_name_the_token_variable_of_an_enterprise_server(repo, hub, environ, tmp_path):
    repo.commit(FILES)
    hub.token = "ghp_secret"
    environ["GH_HOST"] = "git.corp.example"
    with Http() as web:
        bounds = GitLimits(web=web)
        for token, error in (("", NotFound), ("ghp_wrong", SourceError)):
            environ["GITHUB_ENTERPRISE_TOKEN"] = token
            with pytest.raises(error) as caught:
                url = "https://git.corp.example/acme/skills"
                open_repository(url, None, cache=str(tmp_path / "cache"), environ=environ, bounds=bounds)
            assert "GITHUB_ENTERPRISE_TOKEN" in (caught.value.hint or "")


def test_the_token_of_gh_is_used(tmp_path, environ):
    folder = tmp_path / ".config/gh"
    folder.mkdir(parents=True)
    (folder / "hosts.yml").write_text(
        "github.com:\n    user: me\n    oauth_token: gho_kept\ngit.corp.example:\n    oauth_token: gho_corp\n"
    )
    assert host_of(environ).token == "gho_kept"
    assert host_of(environ | {"GITHUB_TOKEN": "ghp_set"}).token == "ghp_set"
    assert host_of(environ | {"GH_CONFIG_DIR": str(tmp_path)}).token is None
    (folder / "hosts.yml").write_text("github.com: &a\n  - [")
    assert host_of(environ).token is None
    (folder / "hosts.yml").unlink()
    (folder / "hosts.yml").mkdir()
    assert host_of(environ).token is None


def test_github_server_url_selects_an_enterprise_server(tmp_path):
    server = {"GITHUB_SERVER_URL": "https://git.corp.example/", "HOME": str(tmp_path), "GH_ENTERPRISE_TOKEN": "t"}
    host = host_of(server)
    assert (host.site, host.api, host.token) == (
        "https://git.corp.example", "https://git.corp.example/api/v3", "t",
    )  # fmt: skip
    public = host_of({"HOME": str(tmp_path)})
    assert (public.site, public.api, public.token) == ("https://github.com", "https://api.github.com", None)


@pytest.mark.parametrize(
    ("named", "site", "api", "token"),
    [
        ({"GH_HOST": "git.corp.example"}, "https://git.corp.example", "https://git.corp.example/api/v3", "corp"),
        ({"GH_HOST": "acme.ghe.com"}, "https://acme.ghe.com", "https://api.acme.ghe.com", "public"),
        ({"GH_HOST": "github.com"}, "https://github.com", "https://api.github.com", "public"),
        ({"GH_HOST": "GitHub.COM"}, "https://github.com", "https://api.github.com", "public"),
        ({"GITHUB_SERVER_URL": "https://GitHub.com/"}, "https://github.com", "https://api.github.com", "public"),
        ({"GH_HOST": "Acme.GHE.com"}, "https://acme.ghe.com", "https://api.acme.ghe.com", "public"),
        (
            {"GH_HOST": "git.corp.example", "GITHUB_SERVER_URL": "https://github.com"},
            "https://git.corp.example",
            "https://git.corp.example/api/v3",
            "corp",
        ),
    ],
)
def test_gh_host_selects_a_server_as_in_gh(named, site, api, token, tmp_path):
    tokens = {"GH_TOKEN": "public", "GH_ENTERPRISE_TOKEN": "corp", "HOME": str(tmp_path)}
    host = host_of({**tokens, **named})
    assert (host.site, host.api, host.token) == (site, api, token)
    assert host_of({"HOME": str(tmp_path), host.variable: "known", **named}).token == "known"
    assert url_of(GitHub("o", "r"), named) == f"{site}/o/r"


def test_attack_a_server_of_gh_host_gets_no_token_of_github(tmp_path):
    tokens = {"GH_TOKEN": "public", "GITHUB_TOKEN": "public", "HOME": str(tmp_path)}
    for name in ("evil.example", "evilghe.com", "ghe.com.evil.example", "github.com.evil.example"):
        assert host_of({**tokens, "GH_HOST": name}).token is None
    for name in ("evil.example/x", "user@evil.example", "a b", "-x", "http://evil.example", "[::1]", "x?y", "x#y"):
        with pytest.raises(UsageError):
            host_of({**tokens, "GH_HOST": name})


_TOKENS = {"git.example": "T", "git.example:8443": "P"}
_VARIABLES = {"T": "t", "P": "p", "GITLAB_TOKEN": "g"}


@pytest.mark.parametrize(
    ("url", "more", "token"),
    [
        ("https://git.example/a/b", {}, "t"),
        ("https://git.example:8443/a/b", {}, "p"),
        ("https://gitlab.com/a/b.git", {}, "g"),
        ("https://gitlab.com:8443/a/b.git", {}, None),
        ("https://gitlab.com/a/b.git", {"GITLAB_HOST": "gitlab.corp.example"}, None),
        ("https://gitlab.corp.example/a", {"GITLAB_HOST": "https://gitlab.corp.example/"}, "g"),
        ("https://gitlab.corp.example:8443/a", {"GITLAB_HOST": "gitlab.corp.example:8443"}, "g"),
        ("https://gitlab.com.evil.example/a", {}, None),
        ("https://evil.example/gitlab.com", {}, None),
        ("http://gitlab.com/a", {}, None),
        ("http://git.example/a", {}, None),
        ("ssh://git@gitlab.com/a", {}, None),
        ("file:///gitlab.com/a", {}, None),
        ("https://git.example/a", {"T": ""}, None),
    ],
)
def test_attack_a_token_goes_only_to_its_host_over_https(url, more, token):
    assert token_for(url, {**_VARIABLES, **more}, _TOKENS) == token


def test_git_uses_a_token_of_the_settings(repo, environ, tmp_path):
    repo.commit(FILES)
    environ |= {"PATH": os.environ["PATH"], "T": "secret"}
    with served(repo.path, password="Basic " + b64encode(b"x-access-token:secret").decode()) as server:
        bounds = GitLimits(tokens={server.url.split("/")[2]: "T"})
        found = open_repository(server.url, None, cache=str(tmp_path / "cache"), environ=environ, bounds=bounds)
        assert list(found.read(["LICENSE"])) == [b"Free.\n"]


@pytest.mark.parametrize("url", ["http://api.example", "file:///etc/passwd", "https:example", "ext::sh"])
def test_api_url_without_https_is_refused(url, tmp_path):
    with pytest.raises((UsageError, UnsafeTransfer)):
        host_of({"HOME": str(tmp_path), "GITHUB_API_URL": url})


def test_token_with_a_line_break_is_refused(tmp_path):
    for variable in ("GITHUB_TOKEN", "GH_TOKEN"):
        with pytest.raises(UsageError) as caught:
            host_of({"HOME": str(tmp_path), variable: "a\r\nHost: evil"})
        assert caught.value.where == variable


def test_git_is_preferred_when_installed(repo, hub, environ, tmp_path):
    repo.commit(FILES)
    environ |= {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": str(tmp_path / "config")}
    (tmp_path / "config").write_text(f'[url "{repo.url}"]\n\tinsteadOf = {REPOSITORY}\n')
    with Http() as web:
        snapshot = open_repository(
            REPOSITORY, None, cache=str(tmp_path / "cache"), environ=environ, bounds=GitLimits(web=web)
        )
    assert isinstance(snapshot, GitSnapshot)
    assert list(snapshot.read(["LICENSE"])) == [b"Free.\n"]
    assert hub.asked == []


def test_without_git_only_repositories_of_github_are_read(repo, environ, tmp_path):
    commit = repo.commit(FILES)
    with Http() as web:
        cache = str(tmp_path / "cache")
        found = open_repository(REPOSITORY, commit, cache=cache, environ=environ, bounds=GitLimits(web=web))
        assert list(found.read(["LICENSE"])) == [b"Free.\n"]
        with pytest.raises(SourceError, match="cannot run git"):
            open_repository(
                "https://git.example/acme/skills", None, cache=cache, environ=environ, bounds=GitLimits(web=web)
            )
        offline = GitLimits(offline=True, web=web)
        with pytest.raises(SourceError, match="--offline"):
            open_repository(REPOSITORY, None, cache=cache, environ=environ, bounds=offline)

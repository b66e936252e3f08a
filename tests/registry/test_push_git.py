"""The site of a registry on a branch of a git repository; git is real, the repository is not trusted."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from skillhub.disk.home import Home
from skillhub.errors import BadMetadata, FormatError, NotFound, Refused, Rollback, SourceError, StateError, UsageError
from skillhub.registry.operator import Signing, opened
from skillhub.registry.outputs import SHAPES, build
from skillhub.registry.push import push
from skillhub.registry.push_targets import branch_address, open_branch
from skillhub.registry.upkeep import withdraw
from skillhub.scan.results import ScanCache
from tests.support.gitbackend import backend
from tests.support.gitrepos import Repo, Special, link
from tests.support.published import offered
from tests.support.registry import now

HOOKS = [
    *("pre-receive", "update", "post-receive", "post-update"),
    *("reference-transaction", "push-to-checkout", "proc-receive"),
]
TIMESTAMP = "metadata/timestamp.json"


class Pages:
    """A bare repository and the machine of the operator; ``ran`` lists the programs of the repository that ran."""

    def __init__(self, folder):
        self.folder, self.path = folder, folder / "site.git"
        self.environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
        self.address = f"git+file://{self.path}@gh-pages"
        self.git("init", "-q", "--bare", str(self.path))

    def git(self, *words, at=None, stdin=None):
        done = subprocess.run(
            ["git", *words], cwd=at or self.folder, env=self.environ, input=stdin, capture_output=True, check=True
        )
        return done.stdout.decode().strip()

    def connect(self, address):
        return open_branch(address, str(self.folder / "cache"), self.environ, {})

    def push(self, hub, address=None, connect=None, **more):
        return push(hub.dir.path, address or self.address, connect or self.connect, now=now(), **more)

    def tip(self, branch="gh-pages"):
        return self.git("rev-parse", branch, at=self.path)

    def files(self, branch="gh-pages"):
        return set(self.git("ls-tree", "-r", "--name-only", branch, at=self.path).splitlines())

    def checkout(self, name="out"):
        self.git("clone", "-q", "-b", "gh-pages", str(self.path), name)
        return self.folder / name

    def commit(self, files, branch="gh-pages"):
        """Add a commit of another user to the branch; other files stay."""
        at = self.folder / f"other-{len(os.listdir(self.folder))}"
        self.git("clone", "-q", str(self.path), str(at))
        self.git("checkout", "-q", "-B", branch, *([f"origin/{branch}"] if branch == "gh-pages" else []), at=at)
        for path, data in files.items():
            (at / path).parent.mkdir(parents=True, exist_ok=True)
            (at / path).write_bytes(data)
        self.git("add", "-A", at=at)
        self.git("-c", "user.name=x", "-c", "user.email=x@x", "commit", "-qm", "x", at=at)
        self.git("push", "-q", "origin", branch, at=at)

    def trap(self):
        """Add hooks and settings to the repository that write a file when they run."""
        for name in HOOKS:
            hook = self.path / "hooks" / name
            hook.write_text(f"#!/bin/sh\ntouch {self.folder}/RAN-{name}\n")
            hook.chmod(0o755)
        for name in ("core.fsmonitor", "core.alternateRefsCommand", "core.sshCommand", "gpg.program", "core.editor"):
            self.git("config", name, f"touch {self.folder}/RAN-{name}", at=self.path)
        self.git("config", "receive.autogc", "true", at=self.path)
        self.git("config", "uploadpack.packObjectsHook", f"touch {self.folder}/RAN-pack; exec git", at=self.path)

    @property
    def ran(self):
        return sorted(each for each in os.listdir(self.folder) if each.startswith("RAN"))


@pytest.fixture
def pages(tmp_path):
    return Pages(tmp_path)


def test_each_push_is_one_installable_commit(hub, pages, tmp_path):
    written = pages.push(hub).written
    assert pages.files() == {*written, ".nojekyll"}
    assert pages.push(hub).written == ()
    hub.publish(version="1.1.0")
    assert pages.push(hub).written[-1] == TIMESTAMP
    assert pages.git("rev-list", "--count", "gh-pages", at=pages.path) == "2"
    assert offered(pages.checkout(), tmp_path / "client", hub.root) == ("1.1.0", "1.0.0")


def test_hooks_and_settings_of_the_repository_do_not_run(hub, pages):
    pages.trap()
    pages.push(hub)
    pages.commit({".gitattributes": b"* filter=evil\n", ".gitmodules": b'[submodule "x"]\n\turl = ext::sh\n'})
    hub.publish(version="1.1.0")
    [(pages.path / "hooks" / name).unlink() for name in HOOKS]  # the commit above ran its own hooks
    [(pages.folder / name).unlink() for name in pages.ran]
    pages.trap()
    pages.push(hub)
    assert pages.ran == []


def test_other_files_and_branches_stay(hub, pages):
    pages.commit({"README": b"mine"}, "main")
    pages.git("branch", "gh-pages", "main", at=pages.path)
    pages.commit({"CNAME": b"skills.example", "docs/a": b"b"})
    main = pages.tip("main")
    pages.push(hub)
    assert {"README", "CNAME", "docs/a", TIMESTAMP} <= pages.files()
    assert pages.tip("main") == main


def test_files_of_somebody_else_are_named_and_stay_and_those_of_a_withdrawn_release_go(hub, pages, tmp_path):
    def built():
        with opened(hub.dir.path, Signing(now=hub.when)) as registry:
            build(registry, [SHAPES], ScanCache(Home.of({"SKILLHUB_HOME": str(tmp_path / "home")})))

    built()
    pages.commit({"index.json": b"mine", "hello/notes.txt": b"mine"}, "main")
    pages.git("branch", "gh-pages", "main", at=pages.path)
    tip = pages.tip()
    with pytest.raises(Refused, match=r"index\.json"):
        pages.push(hub)
    assert pages.tip() == tip
    pages.git("update-ref", "-d", "refs/heads/gh-pages", at=pages.path)
    pages.commit({"hello/notes.txt": b"mine"}, "gh-pages-2")
    pages.git("branch", "gh-pages", "gh-pages-2", at=pages.path)
    pages.push(hub)
    withdraw(hub.dir.path, "hello@1.0.0", "steals", Signing(now=hub.when))
    built()
    assert "hello/SKILL.md" in pages.push(hub).removed
    left = pages.files()
    assert {each for each in left if each.startswith("hello/") and "well-known" not in each} == {"hello/notes.txt"}


def test_a_push_that_failed_on_one_branch_makes_no_file_of_another_branch_ours(hub, pages, tmp_path):
    with opened(hub.dir.path, Signing(now=hub.when)) as registry:
        build(registry, [SHAPES], ScanCache(Home.of({"SKILLHUB_HOME": str(tmp_path / "home")})))

    pages.commit({"a": b"first"}, "main")
    pages.git("branch", "gh-pages", "main", at=pages.path)

    def moving(address):
        target = pages.connect(address)
        pages.commit({"a": b"moved"}, "gh-pages")
        return target

    with pytest.raises(StateError):
        pages.push(hub, connect=moving)
    pages.commit({"index.json": b"mine"}, "other")
    with pytest.raises(Refused, match=r"index\.json") as refused:
        pages.push(hub, f"git+file://{pages.path}@other")
    assert refused.value.where.endswith("@other")


def test_partial_clone_is_used_when_available(hub, pages, tmp_path):
    pages.git("config", "uploadpack.allowFilter", "true", at=pages.path)
    pages.git("config", "uploadpack.allowAnySHA1InWant", "true", at=pages.path)
    pages.push(hub)
    pages.commit({"large": os.urandom(300_000)})
    hub.publish(version="1.1.0")
    pages.environ["HOME"] = str(tmp_path)
    fresh = tmp_path / "fresh"
    push(hub.dir.path, pages.address, lambda at: open_branch(at, str(fresh), pages.environ, {}), now=now())
    assert sum(each.stat().st_size for each in fresh.rglob("*") if each.is_file()) < 200_000
    assert "large" in pages.files()
    assert offered(pages.checkout(), tmp_path / "client", hub.root) == ("1.1.0", "1.0.0")


def test_concurrent_push_is_not_overwritten(hub, pages):
    pages.push(hub)
    hub.publish(version="1.1.0")
    for change in (
        lambda: pages.commit({"theirs": b"1"}),
        lambda: pages.git("update-ref", "-d", "refs/heads/gh-pages", at=pages.path),
    ):

        def connect(address, change=change):
            target = pages.connect(address)
            change()
            return target

        with pytest.raises(StateError, match="another writer") as caught:
            pages.push(hub, connect=connect)
        assert "run the command again" in caught.value.hint
    pages.push(hub)
    assert TIMESTAMP in pages.files()


def test_concurrently_created_branch_is_not_overwritten(hub, pages):
    def connect(address):
        target = pages.connect(address)
        pages.commit({"x": b"1"}, "main")
        pages.git("branch", "gh-pages", "main", at=pages.path)
        return target

    with pytest.raises(StateError, match="another writer"):
        pages.push(hub, connect=connect)
    assert pages.files() == {"x"}


@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (lambda _: {TIMESTAMP: b"{}"}, FormatError),
        (lambda _: {"metadata/1.root.json": b"another"}, Refused),
        (lambda _: {"metadata/2.root.json": b"{}"}, BadMetadata),
        (lambda hub: {max(each for each in hub.files if each.endswith(".snapshot.json")): b"{}"}, StateError),
    ],
)
def test_branch_with_invalid_metadata_is_refused(hub, pages, spoil, error):
    pages.push(hub)
    pages.commit(spoil(hub))
    tip = pages.tip()
    hub.publish(version="1.1.0")
    with pytest.raises(error):
        pages.push(hub)
    assert pages.tip() == tip


def test_old_copy_of_the_registry_is_refused(hub, pages, tmp_path):
    (tmp_path / "stale").mkdir()
    stale = hub.copy(tmp_path / "stale")
    hub.publish(version="1.1.0")
    pages.push(hub)
    tip = pages.tip()
    with pytest.raises(Rollback):
        pages.push(stale)
    assert pages.tip() == tip


@pytest.mark.parametrize(
    "planted",
    [
        {TIMESTAMP: link("/etc/passwd")},
        {"metadata": link("..")},
        {"metadata": Special("160000", id="1" * 40)},
        {"archives": Special("100755", b"#!/bin/sh\n")},
    ],
)
def test_links_and_submodules_at_paths_of_the_site_are_replaced_or_refused(hub, tmp_path, pages, planted):
    repo = Repo(tmp_path / "planted.git")
    repo.commit(planted, "refs/heads/gh-pages")
    address = f"git+{repo.url}@gh-pages"
    before = set(os.listdir(tmp_path))
    try:
        pages.push(hub, address)
    except StateError as error:
        assert "other content" in str(error)
        return
    listed = pages.git("ls-tree", "-r", "gh-pages", at=repo.path)
    assert "120000" not in listed and "160000" not in listed
    assert {*os.listdir(tmp_path)} - before <= {"cache"}


def test_push_to_a_checked_out_branch_is_refused(hub, pages):
    work = pages.folder / "work"
    pages.git("init", "-q", "-b", "gh-pages", str(work))
    pages.git("config", "receive.denyCurrentBranch", "updateInstead", at=work)
    (work / "a").write_bytes(b"a")
    pages.git("add", "-A", at=work)
    pages.git("-c", "user.name=x", "-c", "user.email=x@x", "commit", "-qm", "x", at=work)
    with pytest.raises(SourceError, match=r"refuses the push.*checked out"):
        pages.push(hub, f"git+{work.as_uri()}@gh-pages")
    assert sorted(os.listdir(work)) == [".git", "a"]


def test_token_is_sent_only_to_its_host_and_never_stored(hub, pages, tmp_path):
    pages.git("config", "http.receivepack", "true", at=pages.path)
    with backend(tmp_path) as server:
        server.password = "Basic eC1hY2Nlc3MtdG9rZW46c2VzYW1lLW9wZW4="  # x-access-token:sesame-open
        address = f"git+{server.url('/site.git')}@gh-pages"
        host = server.url("").removeprefix("http://").rstrip("/")
        with pytest.raises(SourceError, match="login"):
            pages.push(hub, address)
        pages.environ["THE_TOKEN"] = "sesame-open"
        tokens = {host: "THE_TOKEN"}
        push(hub.dir.path, address, lambda at: open_branch(at, str(tmp_path / "c"), pages.environ, tokens), now=now())
    assert TIMESTAMP in pages.files()
    for top, _, names in os.walk(tmp_path / "c"):
        assert not any(b"sesame" in Path(top, name).read_bytes() for name in names)


def test_committer_is_the_user_of_git_or_skillhub(hub, pages):
    pages.push(hub)
    assert pages.git("log", "-1", "--format=%cn <%ce>", "gh-pages", at=pages.path) == "skillhub <skillhub@localhost>"
    (pages.folder / ".gitconfig").write_text(
        "[user]\n\tname = Ada L\n\temail = ada@example.org\n[push]\n\tgpgSign = true\n"
    )
    hub.publish(version="1.1.0")
    pages.push(hub)
    assert pages.git("log", "-1", "--format=%cn <%ce>", "gh-pages", at=pages.path) == "Ada L <ada@example.org>"


@pytest.mark.parametrize(
    ("typed", "address"),
    [
        ("github:acme/skills", "git+https://github.com/acme/skills@gh-pages"),
        ("github:acme/skills@pages", "git+https://github.com/acme/skills@pages"),
        ("git+https://host.example/a/b.git@site", "git+https://host.example/a/b.git@site"),
        ("git@host.example:a/b", "git+ssh://git@host.example/a/b@gh-pages"),
        ("git+file:///srv/site.git@refs/heads/x", "git+file:///srv/site.git@x"),
    ],
)
def test_address_names_repository_and_branch(typed, address):
    assert branch_address(typed, {}) == address


@pytest.mark.parametrize(
    "typed",
    [
        "github:acme/skills/folder",
        "git+https://host.example/a#folder",
        "git+https://host.example/a@--upload-pack=x",
        "git+https://host.example/a@a..b",
        "git+https://user:secret@host.example/a",
        "git+ext::sh -c x",
        "git+https://host.example/../a",
        "github:acme",
        "git+https://host.example/a@x\ny",
    ],
)
def test_invalid_address_of_a_branch_is_refused_without_its_secret(typed):
    with pytest.raises(UsageError) as caught:
        branch_address(typed, {})
    assert "secret" not in str(caught.value)


def test_missing_repository_is_not_found(hub, pages):
    with pytest.raises(NotFound):
        pages.push(hub, f"git+file://{pages.folder}/absent.git@gh-pages")

"""Attacks by a repository, its URL, its server or another user of this machine.

Each program of an attacker writes a file ``PWNED`` into the folder of the test; it must not exist in the end.
"""

import os
import shlex
import shutil
import socket
import subprocess
import threading
import time
import zlib
from contextlib import suppress

import pytest

from skillhub.archive.limits import Entry
from skillhub.archive.unpack import gather
from skillhub.errors import (
    FormatError,
    NotFound,
    SkillhubError,
    SourceError,
    StateError,
    UnsafeArchive,
    UnsafeTransfer,
    UsageError,
    WrongBytes,
)
from skillhub.model.tree import File
from skillhub.sources import git_program, git_repository, git_snapshot
from skillhub.sources.git_program import GitLimits, GitProgram
from tests.support.bare import run_bare
from tests.support.gitrepos import SKILL, Repo, Special, link, submodule
from tests.support.gitserver import served

FILES = {"SKILL.md": SKILL, "README.md": b"Read me.\n"}


@pytest.fixture
def script(tmp_path):
    """Return the path of a program that writes the file ``PWNED``."""
    path = tmp_path / "pwn"
    path.write_text(f'#!/bin/sh\ntouch "{tmp_path}/PWNED"\nexit 1\n')
    path.chmod(0o755)
    return path


def cache_of(tmp_path):
    (folder,) = (path for path in (tmp_path / "cache/git").iterdir() if path.is_dir())
    return folder


@pytest.mark.parametrize(
    "url",
    [
        "-u./pwn", "--upload-pack=./pwn", "ext::sh -c ./pwn", "fd::7", "file://host.example/x", "git://host.example/x",
        "http://host.example/x", "http://10.0.0.1/x", "ftp://host.example/x", "ssh://-oProxyCommand=./pwn/x",
        "ssh://-oProxyCommand=./pwn@host.example/x", "ssh://host.example/x;./pwn\n", "git@host.example:x", "./repo",
        "https://user:password@host.example/x", "https://host.example/x#y", "https://host.example/x@y", "",
        "https://host.example/\x1b[2Jx", "https://-host/x", "file://../x", "https:///x", "ssh://host.example",
    ],
)  # fmt: skip
def test_url_that_is_an_option_or_names_a_program_is_refused(url, opened, tmp_path):
    with pytest.raises(UsageError):
        opened(url, None)
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    "rev", ["-n", "--upload-pack=./pwn", "main^{}", "a..b", "main:x", "+main:main", "*", "", "a b"]
)
def test_revision_that_is_an_option_or_an_expression_is_refused(rev, repo, opened):
    repo.commit(FILES)
    with pytest.raises(UsageError):
        opened(repo.url, rev)


def test_variables_that_make_git_run_programs_are_ignored(repo, opened, environ, script, tmp_path):
    repo.commit(FILES)
    environ |= {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.fsmonitor",
        "GIT_CONFIG_VALUE_0": str(script),
        "GIT_CONFIG_PARAMETERS": f"'remote.origin.uploadpack'='{script}'",
        "GIT_EXEC_PATH": str(tmp_path),
        "GIT_TEMPLATE_DIR": str(tmp_path),
        "GIT_DIR": str(tmp_path / "nowhere"),
        "GIT_OBJECT_DIRECTORY": str(tmp_path / "nowhere"),
        "GIT_ASKPASS": str(script),
        "GIT_PROXY_COMMAND": str(script),
        "GIT_EXTERNAL_DIFF": str(script),
        "GIT_TRACE": str(tmp_path / "PWNED"),
        "GIT_ALLOW_PROTOCOL": "ext",
        "LD_PRELOAD": str(script),
    }
    assert list(opened(repo.url, None).read(["SKILL.md"])) == [SKILL]


def test_hooks_and_settings_of_the_repository_are_ignored(tmp_path, opened, script):
    settings = (
        f"[uploadpack]\n\tpackObjectsHook = {script}\n[core]\n\tfsmonitor = {script}\n\tsshCommand = {script}\n"
        f'\thooksPath = {tmp_path}\n[remote "origin"]\n\turl = x\n\tpromisor = true\n\tuploadpack = {script}\n'
        f"\tvcs = ext\n[credential]\n\thelper = !{script}\n[include]\n\tpath = {tmp_path}/more\n"
    )
    (tmp_path / "more").write_text(f"[core]\n\tgitProxy = {script}\n")
    repo = Repo(tmp_path / "repo", settings)
    (repo.path / "hooks").mkdir()
    for name in ("post-upload-pack", "pre-upload-pack", "reference-transaction", "post-checkout"):
        shutil.copy(script, repo.path / "hooks" / name)
    repo.commit(FILES)
    assert list(opened(repo.url, None).read(["SKILL.md"])) == [SKILL]


@pytest.mark.parametrize("forbids", ["1", "0"])  # git before 2.45.1 does not know the variable
def test_missing_object_starts_no_program_of_the_repository(forbids, tmp_path, opened, script, monkeypatch):
    monkeypatch.setitem(git_program._SET, "GIT_NO_LAZY_FETCH", forbids)
    settings = (
        f'[extensions]\n\tpartialClone = origin\n[remote "origin"]\n\turl = {tmp_path}/x\n\tpromisor = true\n'
        f"\tuploadpack = {script}\n"
    )
    repo = Repo(tmp_path / "repo", settings)
    (repo.path / "config").write_text((repo.path / "config").read_text().replace("version = 0", "version = 1"))
    repo.commit(FILES | {"lost": Special("100644", id="2" * 40)})
    with pytest.raises(SkillhubError):
        list(opened(repo.url, None).read(["lost"]))


def test_checkout_filters_do_not_run(repo, opened, environ, script, tmp_path):
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"a" * 64 + b"\nsize 9\n"
    repo.commit(FILES | {".gitattributes": b"* filter=pwn\n*.bin filter=lfs\n", "model.bin": pointer})
    (tmp_path / "home/.gitconfig").write_text(
        f'[filter "pwn"]\n\tsmudge = {script}\n\tprocess = {script}\n[filter "lfs"]\n\tsmudge = {script}\n'
    )
    assert list(opened(repo.url, None).read(["model.bin"])) == [pointer]


def test_a_submodule_is_not_followed(repo, opened, script):
    modules = f'[submodule "x"]\n\tpath = x\n\turl = file://{script}\n\tupdate = !{script}\n'.encode()
    repo.commit(FILES | {"x": submodule(), ".gitmodules": modules})
    try:
        snapshot = opened(repo.url, None)
    except FormatError:
        return  # Git refuses some of these itself.
    assert snapshot.nodes["x"].kind == "submodule"
    with pytest.raises(NotFound):
        list(snapshot.read(["x"]))


@pytest.mark.parametrize("url", ["-u./pwn", "ext::sh -c ./pwn", "../../../x"])
def test_url_of_a_submodule_is_not_used(url, repo, opened):
    repo.commit(FILES | {"x": submodule(), ".gitmodules": f'[submodule "x"]\n\tpath = x\n\turl = {url}\n'.encode()})
    with suppress(FormatError):  # Git refuses some of these itself.
        assert "x" in opened(repo.url, None).nodes


def test_url_that_the_settings_of_the_user_rewrite_to_a_program_is_refused(opened, tmp_path, script):
    (tmp_path / "home/.gitconfig").write_text(
        f'[url "ext::{script} "]\n\tinsteadOf = https://host.example/\n[protocol "ext"]\n\tallow = always\n'
    )
    with pytest.raises(UnsafeTransfer):
        opened("https://host.example/x", None)


def entered(name, mode="100644"):
    """Return a function that writes a tree with an entry ``name`` in a folder."""

    def put(repo):
        blob = repo.put("blob", b"x")
        if mode == "40000":
            blob = repo.tree([(b"x", "100644", blob)])
        inner = repo.tree([(name, mode, blob), (b"ok", "100644", repo.put("blob", b"ok"))])
        return repo.tree([(b"SKILL.md", "100644", repo.put("blob", SKILL)), (b"a", "40000", inner)])

    return put


@pytest.mark.parametrize(
    "put",
    [
        entered(b"..", "40000"), entered(b".", "40000"), entered(b"../../etc"), entered(b"a/b"), entered(b""),
        entered(b"ok"), entered(b"x", "777"), entered(b"x", "0"), entered(b"x", "140000"),
    ],
    ids=["dot-dot", "dot", "path", "slash", "empty", "twice", "mode", "no-mode", "gitlink-like"],
)  # fmt: skip
def test_invalid_tree_entry_is_refused(put, repo, opened):
    repo.commit_tree(put(repo))
    with pytest.raises((FormatError, UnsafeArchive)):
        opened(repo.url, None)


@pytest.mark.parametrize(
    ("tree", "told"),
    [
        (b"100644 a\0%(id)b100755 a\0%(id)b", "each name once"),
        (b"100644 a\0%(id)b40000 a\0%(id)b", "each name once"),
        (b"100644 a\0short", "a mode, a name and an id"),
        (b"100666 a\0%(id)b", "the mode of a file"),
    ],
)
def test_attack_a_tree_that_no_git_has_checked_is_refused_by_its_bytes(tree, told):
    """A bundle and the API of GitHub have trees, too."""
    with pytest.raises(FormatError, match=told):
        list(git_snapshot.entries(tree % {b"id": bytes(20)}))


@pytest.mark.parametrize(
    ("name", "reason"),
    [(b".git", "name-dot-git"), (b".GIT", "name-dot-git"), (b"git~1", "name-dot-git"), (b"a\\b", "path-backslash"),
     (b"\xff", "name-encoding"), (b"con", "name-reserved"), (b"a\nb", "name-hidden")],
)  # fmt: skip
def test_unportable_name_is_refused(name, reason, repo, opened):
    repo.commit_tree(entered(name)(repo))
    try:
        snapshot = opened(repo.url, None)
    except FormatError:
        return  # Git refuses some of these itself
    paths = [path for path, node in snapshot.nodes.items() if node.kind == "file"]
    with pytest.raises(UnsafeArchive) as caught:
        gather(Entry(path, File(data)) for path, data in zip(paths, snapshot.read(paths), strict=True))
    assert caught.value.reason == reason


def test_names_that_differ_only_in_case_are_read_and_then_refused(repo, opened):
    repo.commit(FILES | {"run.sh": b"good", "RUN.sh": b"evil"})
    snapshot = opened(repo.url, None)
    assert list(snapshot.read(["run.sh", "RUN.sh"])) == [b"good", b"evil"]
    with pytest.raises(UnsafeArchive, match="as the same name"):
        gather(Entry(path, File(b"")) for path in snapshot.nodes)


def test_link_out_of_the_repository_is_not_read(repo, opened, tmp_path):
    (tmp_path / "secret").write_text("secret")
    repo.commit(FILES | {"leak": link("../../secret"), "folder": link("/")})
    snapshot = opened(repo.url, None)
    assert snapshot.nodes["leak"].kind == snapshot.nodes["folder"].kind == "link"
    with pytest.raises(NotFound):
        list(snapshot.read(["leak"]))


def test_exponentially_nested_trees_are_refused(repo, opened):
    tree = repo.tree([(b"x", "100644", repo.put("blob", b"x"))])
    for _ in range(12):
        tree = repo.tree([(b"%02d" % number, "40000", tree) for number in range(20)])
    repo.commit_tree(tree)
    with pytest.raises(UnsafeArchive) as caught:
        opened(repo.url, None)
    assert caught.value.reason == "too-many-files"


def test_too_deep_folders_are_refused(repo, opened):
    tree = repo.tree([(b"x", "100644", repo.put("blob", b"x"))])
    for _ in range(git_snapshot.MAX_DEPTH + 1):
        tree = repo.tree([(b"d", "40000", tree)])
    repo.commit_tree(tree)
    with pytest.raises(UnsafeArchive) as caught:
        opened(repo.url, None)
    assert caught.value.reason == "too-deep"


def test_too_large_file_is_refused(repo, opened):
    repo.commit(FILES | {"zeros": bytes(300_000)})
    snapshot = opened(repo.url, None, bounds=GitLimits(blob=100_000))
    with pytest.raises(UnsafeArchive) as caught:
        list(snapshot.read(["zeros"]))
    assert caught.value.reason == "too-large"
    assert list(snapshot.read(["SKILL.md"])) == [SKILL]


def test_too_large_repository_is_refused(repo, opened):
    repo.commit(FILES | {"noise": os.urandom(1_000_000)})
    with served(repo.path, slowly=True) as server, pytest.raises(SourceError, match="more than 200000 bytes"):
        opened(server.url, None, bounds=GitLimits(fetched=200_000))


def test_silent_server_ends_at_the_deadline(opened):
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/x"
        with pytest.raises(SourceError, match=r"more than 0\.3 s"):
            opened(url, None, bounds=GitLimits(seconds=0.3))


def test_silent_ssh_is_killed_at_the_deadline(opened, environ, tmp_path):
    slow = tmp_path / "slow"
    slow.write_text(f'#!/bin/sh\necho $$ > "{tmp_path}/new" && mv "{tmp_path}/new" "{tmp_path}/pid"\nsleep 600\n')
    slow.chmod(0o755)
    environ["GIT_SSH"] = str(slow)
    for seconds in (0.4, 4, 40):  # until git has had the time to start ssh
        with pytest.raises(SourceError, match=f"more than {seconds} s"):
            opened("ssh://host.example/x", None, bounds=GitLimits(seconds=seconds))
        if (tmp_path / "pid").exists():
            break
    assert _ends(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize("script", ["sleep 30", "exec >&- 2>&-; sleep 30"], ids=["reads nothing", "says nothing"])
def test_git_is_killed_at_the_deadline(environ, tmp_path, script):
    git = _fake_git(tmp_path, environ, script)
    with pytest.raises(SourceError, match=r"git took more than 0\.3 s"):
        git.run(("x",), GitLimits(seconds=0.3), stdin=[bytes(1 << 20)])


def test_git_is_killed_when_skillhub_ends_while_a_thread_waits(environ, tmp_path):
    """An interrupt does not wait for threads; git alone would know no limit of time and size."""
    _fake_git(
        tmp_path, environ, f'echo $$ > "{tmp_path}/new" && mv "{tmp_path}/new" "{tmp_path}/pid"\nexec sleep 600'
    )
    code = (
        "import atexit, os, threading\nfrom skillhub.sources.git_program import GitLimits, GitProgram\n"
        f"git = GitProgram({str(tmp_path)!r}, os.environ, (), {{}})\n"
        "waits = threading.Event()\n"
        "run = lambda: git.run(('x',), GitLimits(), grown=lambda: waits.set() or 0)\n"
        "threading.Thread(target=run, daemon=True).start()\nwaits.wait()\n"
        f"while not os.path.exists({str(tmp_path / 'pid')!r}): pass\n"
        "atexit._run_exitfuncs(); os._exit(0)"
    )
    run_bare(code, environ=environ | {"PATH": f"{tmp_path}/bin:{environ['PATH']}"})
    assert _ends(int((tmp_path / "pid").read_text()))


def test_git_gets_no_end_of_input_after_a_read_error(environ, tmp_path):
    def parts():
        yield b"some"
        raise StateError("the disk refused")

    git = _fake_git(tmp_path, environ, f"cat > '{tmp_path}/read'; touch '{tmp_path}/whole'")
    with pytest.raises(StateError, match="the disk refused"):
        git.run(("x",), GitLimits(), stdin=parts())
    assert not (tmp_path / "whole").exists()


def _fake_git(folder, environ, script):
    (folder / "bin").mkdir()
    (folder / "bin/git").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "bin/git").chmod(0o755)
    return GitProgram(str(folder), environ | {"PATH": f"{folder}/bin:{environ['PATH']}"}, (), {})


def _ends(pid):
    """Return whether a process ends, which may take a while after its kill."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and not _gone(pid):
        time.sleep(0.02)
    return _gone(pid)


def _gone(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except OSError:  # the process ended before or while its file is read
        return True


def test_ssh_never_prompts(opened, environ, tmp_path):
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "ssh").write_text(
        f'#!/bin/sh\necho "$*" "$GIT_TERMINAL_PROMPT" "$SSH_ASKPASS_REQUIRE" > "{tmp_path}/arguments"\n'
        'echo "git@host.example: Permission denied (publickey)." >&2\nexit 255\n'
    )
    (folder / "ssh").chmod(0o755)
    environ["PATH"] = f"{folder}:{environ['PATH']}"
    with pytest.raises(SourceError, match="accepts none of the offered ssh keys") as caught:
        opened("ssh://git@host.example/x", None)
    assert "ssh-agent" in (caught.value.hint or "")
    arguments = (tmp_path / "arguments").read_text()
    assert "-oBatchMode=yes" in arguments and "0 never" in arguments
    (tmp_path / "home/.gitconfig").write_text(f"[core]\n\tsshCommand = {folder}/ssh -x\n")
    with pytest.raises(SourceError):
        opened("ssh://git@host.example/x", None)
    assert "BatchMode" not in (tmp_path / "arguments").read_text()


@pytest.mark.parametrize("entry", ["", ".", "bin"])
def test_attack_a_relative_entry_of_path_runs_no_git_of_a_clone_or_of_the_cache(
    repo, opened, environ, script, tmp_path, monkeypatch, entry
):
    environ["PATH"] = f"{entry}{os.pathsep}{environ['PATH']}"
    clone = tmp_path / "clone"
    (clone / entry).mkdir(parents=True)
    shutil.copy(script, clone / entry / "git")
    monkeypatch.chdir(clone)
    assert git_repository.remote("ssh://git@host.example/x", environ, GitLimits()).fetch_url
    repo.commit(FILES)
    opened(repo.url, None)
    cache = cache_of(tmp_path)
    (cache / entry).mkdir(exist_ok=True)
    shutil.copy(script, cache / entry / "git")
    repo.commit(FILES | {"README.md": b"New.\n"})
    assert list(opened(repo.url, None).read(["README.md"])) == [b"New.\n"]


def test_attack_a_clone_in_the_form_of_a_repository_does_not_let_ssh_prompt(environ, tmp_path, monkeypatch):
    clone = Repo(tmp_path / "clone", "\tsshCommand = ssh\n")
    monkeypatch.chdir(clone.path)
    variables = git_repository.remote("ssh://git@host.example/x", environ, GitLimits()).variables
    assert "-oBatchMode=yes" in variables["GIT_SSH_COMMAND"]


def test_git_does_not_prompt_for_a_password(repo, opened):
    repo.commit(FILES)
    with served(repo.path, password="Basic bWU6c2VjcmV0") as server, pytest.raises(SourceError) as caught:
        opened(server.url, None)
    assert "credentials" in (caught.value.hint or "")


def test_git_uses_the_credential_helper_of_the_user(repo, opened, tmp_path):
    repo.commit(FILES)
    (tmp_path / "home/.git-credentials").touch()
    with served(repo.path, password="Basic bWU6c2VjcmV0") as server:
        place = server.url.replace("http://", "http://me:secret@").rstrip("/")
        (tmp_path / "home/.git-credentials").write_text(place + "\n")
        (tmp_path / "home/.gitconfig").write_text("[credential]\n\thelper = store\n")
        assert list(opened(server.url, None).read(["SKILL.md"])) == [SKILL]


def test_token_is_sent_on_request_and_never_passed_as_an_argument(repo, opened, environ, tmp_path):
    repo.commit(FILES)
    real, folder = shutil.which("git"), tmp_path / "bin"
    folder.mkdir()
    (folder / "git").write_text(f'#!/bin/sh\necho "$*" >> "{tmp_path}/log"\nexec {shlex.quote(real)} "$@"\n')
    (folder / "git").chmod(0o755)
    environ["PATH"] = f"{folder}:{environ['PATH']}"
    with served(repo.path, password="Basic eC1hY2Nlc3MtdG9rZW46Z2hwX3g=") as server:  # x-access-token:ghp_x
        assert list(opened(server.url, None, token="ghp_x").read(["SKILL.md"])) == [SKILL]
    assert "ghp_x" not in (tmp_path / "log").read_text()
    with served(repo.path) as server:
        opened(server.url, None, token="ghp_x")
        assert server.seen == {None}


def test_secret_in_the_git_settings_of_the_user_is_not_shown(opened, tmp_path):
    (tmp_path / "home/.gitconfig").write_text(
        '[url "http://me:s3cret@127.0.0.1:1/"]\n\tinsteadOf = http://localhost/\n'
    )
    with pytest.raises(SourceError) as caught:
        opened("http://localhost/x", None)
    assert "s3cret" not in str(vars(caught.value))


def test_settings_and_hooks_in_the_cache_are_ignored(repo, opened, script, tmp_path):
    repo.commit(FILES)
    opened(repo.url, None)
    cache = cache_of(tmp_path)
    (cache / "config").write_text(
        f'[core]\n\tfsmonitor = {script}\n\tsshCommand = {script}\n[remote "skillhub"]\n\tuploadpack = {script}\n'
    )
    (cache / "hooks").mkdir()
    shutil.copy(script, cache / "hooks/reference-transaction")
    repo.commit(FILES | {"README.md": b"New.\n"})
    assert list(opened(repo.url, None).read(["README.md"])) == [b"New.\n"]


def test_commondir_in_the_cache_is_removed(repo, opened, script, tmp_path):
    repo.commit(FILES)
    opened(repo.url, None)
    cache = cache_of(tmp_path)
    for folder in ("evil/objects/pack", "evil/refs"):
        (cache / folder).mkdir(parents=True)
    shutil.copy(cache / "HEAD", cache / "evil/HEAD")
    (cache / "evil/config").write_text(
        f'[core]\n\tbare = true\n\tsshCommand = {script}\n[remote "skillhub"]\n\tuploadpack = {script}\n'
        f'[credential]\n\thelper = "!{script}"\n'
    )
    (cache / "commondir").write_text("evil\n")
    repo.commit(FILES | {"README.md": b"New.\n"})
    assert list(opened(repo.url, None).read(["README.md"])) == [b"New.\n"]
    assert sorted(path.name for path in cache.iterdir()) == ["HEAD", "config", "objects", "refs", "shallow"]


def test_alternates_and_links_of_objects_in_the_cache_are_removed(repo, opened, tmp_path):
    """The objects would be verified, but a path can name a server: of an automounter, of Windows."""
    commit = repo.commit(FILES)
    opened(repo.url, None)
    cache, other = cache_of(tmp_path), tmp_path / "other"
    other.mkdir()
    (cache / "objects/info").mkdir(exist_ok=True)
    (cache / "objects/info/alternates").write_text(f"{repo.path}/objects\n")
    shutil.rmtree(cache / "objects/pack")
    (cache / "objects/pack").symlink_to(other)
    (cache / "shallow").unlink()
    (other / "precious.lock").touch()
    assert list(opened(repo.url, commit).read(["SKILL.md"])) == [SKILL]
    assert not (cache / "objects/info").exists()
    assert [path.name for path in other.iterdir()] == ["precious.lock"]
    assert any((cache / "objects/pack").iterdir())


def test_replaced_commit_in_the_cache_is_not_used(repo, opened, tmp_path):
    commit = repo.commit(FILES)
    opened(repo.url, None)
    evil = repo.commit(FILES | {"SKILL.md": b"evil"})
    opened(repo.url, None)
    replaced = cache_of(tmp_path) / "refs/replace" / commit
    replaced.parent.mkdir()
    replaced.write_text(f"{evil}\n")
    shutil.rmtree(repo.path)  # only the cache is left
    assert opened(repo.url, commit).rev == commit


@pytest.mark.parametrize("kind", ["blob", "tree", "commit"])
def test_forged_object_in_the_cache_is_not_used(kind, repo, opened, tmp_path):
    commit = repo.commit(FILES)
    evil = Repo(tmp_path / "evil")
    other = evil.commit(FILES | {"SKILL.md": b"evil"})
    opened(repo.url, None)
    cache = cache_of(tmp_path)
    (pack,) = cache.rglob("*.pack")
    data = pack.read_bytes()
    for path in list((cache / "objects/pack").iterdir()):
        path.unlink()
    environ = {"PATH": os.environ["PATH"], "GIT_DIR": str(cache)}
    subprocess.run(["git", "unpack-objects", "-q"], input=data, env=environ, check=True)
    swapped = {
        "blob": (repo.put("blob", SKILL), b"evil"),
        "tree": (repo.folder(FILES), evil.get(evil.folder(FILES | {"SKILL.md": b"evil"}))[1]),
        "commit": (commit, evil.get(other)[1]),
    }
    id_, body = swapped[kind]
    loose = cache / "objects" / id_[:2] / id_[2:]
    loose.chmod(0o644)
    loose.write_bytes(zlib.compress(b"%s %d\0%s" % (kind.encode(), len(body), body)))
    assert list(opened(repo.url, commit).read(["SKILL.md"])) == [SKILL]
    if kind == "blob":
        return
    loose.parent.mkdir(exist_ok=True)
    loose.write_bytes(zlib.compress(b"%s %d\0%s" % (kind.encode(), len(body), body)))
    for path in (cache / "objects/pack").iterdir():
        path.unlink()
    shutil.rmtree(repo.path)
    with pytest.raises((WrongBytes, NotFound)):
        opened(repo.url, commit)


def test_cache_that_is_a_link_is_replaced_without_touching_its_target(repo, opened, tmp_path):
    commit = repo.commit(FILES)
    opened(repo.url, None)
    cache = cache_of(tmp_path)
    target = tmp_path / "precious"
    shutil.move(cache, target)
    (target / "precious.txt").write_text("kept")
    for path in (target / "objects/pack").iterdir():
        path.chmod(0o644)
        path.write_bytes(b"broken")
    cache.symlink_to(target)
    assert opened(repo.url, commit).rev == commit
    assert (target / "precious.txt").read_text() == "kept"


def test_parallel_readers_get_their_own_files(repo, opened):
    files = {f"f{number}": b"%d" % number * 1000 for number in range(100)}
    repo.commit(files)
    snapshot = opened(repo.url, None)
    wrong = []

    def check():
        for path, data in zip(files, snapshot.read(files), strict=True):
            if data != files[path]:
                wrong.append(path)

    threads = [threading.Thread(target=check) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    half = snapshot.read(files)
    assert next(half) == files["f0"]
    half.close()
    assert list(snapshot.read(["f7"])) == [files["f7"]]
    assert wrong == []


@pytest.mark.parametrize("left", ["folder", "link", "other", "text", "nothing"])
def test_foreign_entry_at_the_ref_of_the_first_commit_is_replaced(left, repo, opened, tmp_path):
    commit = repo.commit(FILES)
    opened(repo.url, commit)
    cache = cache_of(tmp_path)
    for pack in (cache / "objects/pack").iterdir():
        pack.unlink()
    place = cache / "refs/commits/first"
    if left == "folder":
        (place / "below").mkdir(parents=True)
    elif left == "link":
        place.symlink_to(tmp_path / "elsewhere")
        (tmp_path / "elsewhere").write_text("1" * 40 + "\n")
    elif left != "nothing":
        place.write_text({"other": "1" * 40 + "\n", "text": "../../x"}[left])
    snapshot = opened(repo.url, None)
    assert snapshot.rev == commit
    assert list(snapshot.read(["SKILL.md"])) == [SKILL]
    assert left != "link" or (tmp_path / "elsewhere").read_text() == "1" * 40 + "\n"


def test_head_that_is_no_commit_gives_no_other_commit(repo, opened):
    commit = repo.commit(FILES)
    for target in (repo.tag("v1", commit), repo.put("blob", b"text"), repo.folder({"SKILL.md": SKILL})):
        (repo.path / "HEAD").write_text(f"{target}\n")
        with suppress(FormatError, NotFound, SourceError, WrongBytes):
            assert opened(repo.url, None).rev == commit

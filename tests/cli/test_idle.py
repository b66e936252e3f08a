"""A command that had nothing to do writes the same again without work, until anything that decided so has changed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from skillhub.cli.terminal import Terminal
from skillhub.disk import proved
from tests.support.cli import Shell, run_code

if sys.platform != "win32":
    import fcntl

WORDS = [("install",), ("install", "--frozen"), ("sync",), ("list",)]
COMMANDS = [*WORDS, ("install", "--json"), ("sync", "--quiet"), ("list", "--json")]


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Let recent changes count as old, so that no test waits."""
    monkeypatch.setattr(proved, "GRAIN", 0)


@pytest.fixture(scope="module")
def settled(tmp_path_factory):
    """A machine with two enabled skills of a registry in a git repository, and a copy of its folder."""
    shell = Shell(tmp_path_factory.mktemp("idle") / "machine")
    subprocess.run(["git", "init", "-q"], cwd=shell.project, check=True, env=shell.environ)
    names = ("github:release-notes", "github:code-review")
    assert shell.run("install", *names, "--yes", "--agent", "claude-code").status == 0
    return shell, moved(shell.folder, shell.folder.with_name("copy"))


@pytest.fixture
def shell(settled):
    """The machine as it was in the beginning, in the same folder: a record names the folder of its project."""
    shell, copy = settled
    moved(copy, shell.folder)
    return shell


def moved(folder: Path, to: Path) -> Path:
    """Replace a folder by a copy of another one."""
    shutil.rmtree(to, ignore_errors=True)
    return shutil.copytree(folder, to, symlinks=True)


def kept(shell):
    """Return the files of commands whose output is remembered, not their paths alone."""
    found = sorted((shell.hub / "state/proved").glob("idle-*.json"))
    return [path for path in found if json.loads(path.read_bytes())["stamps"]]


def files(shell):
    """Return the paths on a machine, without the files of copies that were hashed."""
    return {path for path in shell.files() if "/state/seen" not in path}


def forget(shell):
    for path in kept(shell):
        path.unlink()


def is_idle(shell, *words, **environ):
    """Run a command until it is remembered, then return whether it is answered without work."""
    shell.run("sync")  # `list` hashes nothing of the store
    forget(shell)
    for _ in range(5):  # the first ones write the index of what they hashed
        if not kept(shell):
            shell.run(*words, **environ)
    return bool(kept(shell))


def are_idle(shell, commands):
    """Run commands until each is remembered, and return whether each is answered without work."""
    for _ in range(5):
        if len(kept(shell)) < len(commands):
            for words in commands:
                shell.run(*words)
    return len(kept(shell)) == len(commands)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_repeated_command_writes_the_same_as_one_that_works(shell, words, monkeypatch):
    first = shell.run(*words)
    assert is_idle(shell, *words)
    monkeypatch.setattr("skillhub.cli.app.run", None)  # not called
    again = shell.run(*words)
    assert (again.status, again.raw, again.raw_err) == (0, first.raw, first.raw_err)
    assert (words[-1] == "--quiet") == (not again.raw + again.raw_err)


def test_a_terminal_and_a_file_do_not_share_an_answer(shell):
    assert is_idle(shell, "sync")
    on_terminal = shell.at_terminal("sync")
    assert b"\x1b[" in on_terminal.raw
    assert b"\x1b[" not in shell.run("sync").raw


def test_a_repeated_command_loads_no_library(shell):
    program = "import sys; from skillhub.cli.main import main; main(['sync']); print(*sys.modules)"
    program = f"import skillhub.disk.proved as proved; proved.GRAIN = 0; {program}"
    words = [sys.executable, "-P", "-c", program]
    for _ in range(6):
        done = subprocess.run(words, cwd=shell.project, env=shell.environ, capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert not loaded & {"pydantic", "httpx", "cryptography", "typer", "yaml", "tomlkit"}


LOOKS = """
import atexit, builtins, io, json, os, sys
seen = set()
def watch(module, name):
    call = getattr(module, name)
    def watched(path=".", *rest, **more):
        if isinstance(path, (str, bytes)) or hasattr(path, "__fspath__"):
            at = more.get("dir_fd")
            folder = os.readlink(f"/proc/self/fd/{at}") if at is not None else os.getcwd()
            seen.add(os.path.normpath(os.path.join(folder, os.fsdecode(path))))
        return call(path, *rest, **more)
    setattr(module, name, watched)
readlink = os.readlink
for name in ("stat", "lstat", "open", "scandir", "listdir", "access"):
    watch(os, name)
watch(io, "open")
builtins.open = io.open
import skillhub
from skillhub.disk import proved
proved.GRAIN = 0
from skillhub.cli.main import main
status = main(sys.argv[2:])
with open(sys.argv[1], "w") as file:
    json.dump(sorted(seen), file)
sys.exit(status)
"""


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="folders behind handles are named by /proc alone")
@pytest.mark.parametrize("words", WORDS, ids=" ".join)
def test_every_path_that_a_command_looks_at_is_watched(shell, tmp_path, words):
    """The paths that Python's own functions are called with are those that were remembered, or lie around them."""
    out = tmp_path / "looks.json"
    shell.run("sync")
    for _ in range(5 - 4 * bool(kept(shell))):
        assert run_code(LOOKS, out, *words, cwd=shell.project, environ=shell.environ).status == 0
    (path,) = kept(shell)
    block = json.loads(path.read_bytes())
    watched = {*block["paths"].split("\0")}
    folders = json.loads(Path(block["index"]).read_bytes())["folders"]
    watched |= {folder + name for folder, row in folders.items() for name in row[1].split("\0")}
    around = {str(above) for each in watched for above in Path(each).parents}
    own = shell.hub / "state/proved", shell.hub / "state/projects"
    unwatched = [
        each
        for each in json.loads(out.read_bytes())
        if each.startswith(str(shell.folder))
        and not {each, f"{each}/"} & watched
        and each not in around
        and (os.path.lexists(each) or not {f"{nearest(each)}/", *absent_above(each)} & watched)
        and not each.startswith(tuple(map(str, own)))
    ]
    assert unwatched == []
    assert len(json.loads(out.read_bytes())) > 50


def nearest(path: str) -> str:
    """Return the nearest folder above a path that exists."""
    return next(str(each) for each in Path(path).parents if each.exists())


def absent_above(path: str) -> list[str]:
    """Return the folders above a path that do not exist, in the form in which their entries are watched."""
    return [f"{each}/" for each in Path(path).parents if not each.exists()]


def newest(folder: Path) -> Path:
    return max((each for each in folder.rglob("*") if each.is_file()), key=lambda each: each.stat().st_mtime_ns)


def relink(shell):
    """Move the agent's folder, and put a link in its place."""
    (shell.project / ".claude").rename(shell.folder / "elsewhere")
    (shell.project / ".claude").symlink_to(shell.folder / "elsewhere")


CHANGES = {
    "a copy is edited": lambda shell: shell.write("project/.claude/skills/code-review/SKILL.md", "edited"),
    "a copy has a file more": lambda shell: shell.write("project/.claude/skills/code-review/more", ""),
    "a copy is gone": lambda shell: (shell.project / ".claude/skills/code-review/SKILL.md").unlink(),
    "a stored tree is edited": lambda shell: (
        (path := next((shell.hub / "data/store").rglob("SKILL.md"))).chmod(0o644),
        path.write_text("edited"),
    ),
    "the lock is gone": lambda shell: (shell.project / "skillhub.lock").unlink(),
    "the lock is damaged": lambda shell: shell.write("project/skillhub.lock", "{"),
    "the lock has a blank more": lambda shell: (path := shell.project / "skillhub.lock").write_bytes(
        path.read_bytes() + b" \n"
    ),
    "the intent wants less": lambda shell: shell.write("project/skillhub.toml", "[skills]\n"),
    "the intent has a policy": lambda shell: (path := shell.project / "skillhub.toml").write_bytes(
        path.read_bytes() + b'\n[policy]\nsources = ["https://allowed.invalid/"]\n'
    ),
    "the user has a policy": lambda shell: shell.write(
        "hub/config/policy.toml", 'sources = ["https://a.invalid/"]\n'
    ),
    "the user has a damaged policy": lambda shell: shell.write("hub/config/policy.toml", "sources = 1\n"),
    "the user has settings": lambda shell: shell.write("hub/config/config.toml", '[install]\nscope = "user"\n'),
    "the settings are damaged": lambda shell: shell.write("hub/config/config.toml", "["),
    "the record is gone": lambda shell: newest(shell.hub / "state/projects").unlink(),
    "all records are gone": lambda shell: [each.unlink() for each in (shell.hub / "state/projects").glob("*.json")],
    "the pinned key of a publisher is gone": lambda shell: [
        each.unlink() for each in (shell.hub / "state/signers").iterdir()
    ],
    "the state is damaged": lambda shell: shell.write("hub/state/publishers.json", "{"),
    "an agent has a folder of a locked name": lambda shell: shell.skill("project/.cursor/skills/code-review"),
    "an agent has another skill": lambda shell: shell.skill("project/.claude/skills/mine"),
    "an agent has another skill, deeper": lambda shell: shell.skill("project/.claude/skills/mine/deeper"),
    "the user scope has a damaged lock": lambda shell: shell.write("hub/state/skillhub.lock", "{"),
    "a killed process left a file beside the copies": lambda shell: shell.write(
        "project/.claude/.skillhub-0123456789ab/SKILL.md", ""
    ),
    "a killed process left a file beside the lock": lambda shell: shell.write(
        "project/.skillhub-0123456789abcdef.tmp", ""
    ),
    "git no longer leaves the copies out": lambda shell: shell.write("project/.git/info/exclude", ""),
    "the agent's folder is a link out of the project": relink,
    "the folder of skillhub may be written by others": lambda shell: (shell.hub / "state").chmod(0o777),
    "an index of others": lambda shell: [each.chmod(0o644) for each in kept(shell)],
}


# What decides is listed by one function for all commands; `install` gives it the same skills as `sync`.
COMMANDS_OF = {change: [("sync",), ("list",)] for change in CHANGES}
COMMANDS_OF |= dict.fromkeys(("a copy is edited", "the lock is damaged", "the user has a policy"), WORDS)


@pytest.mark.parametrize("change", CHANGES)
def test_attack_after_a_change_the_answer_is_that_of_a_command_that_works(shell, change, monkeypatch):
    commands = COMMANDS_OF[change]
    assert are_idle(shell, commands)
    CHANGES[change](shell)
    calls = []
    monkeypatch.setattr("skillhub.cli.app.run", lambda args, idle: calls.append((*args,)) or 0)
    for words in commands:
        shell.run(*words)
    assert calls == commands


@pytest.mark.parametrize(
    "environ",
    [{"HOME": "home2"}, {"CI": "1"}, {"XDG_CONFIG_HOME": "/nowhere"}, {"GH_HOST": "git.invalid"}, {"X": ""}],
)
def test_another_environment_is_worked_out_anew(shell, environ, monkeypatch):
    assert is_idle(shell, "sync")
    calls = []
    monkeypatch.setattr("skillhub.cli.app.run", lambda args, idle: calls.append(args) or 0)
    shell.run("sync")
    assert not calls
    shell.run("sync", **environ)
    assert calls == [["sync"]]


@pytest.mark.parametrize("folder", ["install", "scan/code"])
def test_other_code_of_the_same_version_works_anew(shell, monkeypatch, tmp_path, folder):
    assert is_idle(shell, "install")
    calls = []
    monkeypatch.setattr("skillhub.cli.app.run", lambda args, idle: calls.append(args) or 0)
    shell.run("install")
    assert not calls
    package = tmp_path / "skillhub"
    (package / folder).mkdir(parents=True)
    monkeypatch.setattr(proved, "_PACKAGE", str(package))
    monkeypatch.setattr(proved, "code_stamps", proved.code_stamps.__wrapped__)  # as in a new process
    before = proved.code_stamps()
    (package / folder / "new.py").touch()
    assert proved.code_stamps() != before
    shell.run("install")
    assert calls == [["install"]]


def test_a_command_that_says_or_changes_something_is_not_remembered(shell):
    shell.skill("project/loose")
    assert shell.run("install", "./loose", "--yes", "--allow-unsigned").status == 0
    for words in [("install",), ("sync",), ("install", "--frozen")]:  # a local skill may change at any time
        assert not is_idle(shell, *words)
    assert shell.run("remove", "loose").status == 0
    for words in [
        ("install", "--dry-run"),
        ("sync", "--verify"),
        ("install", "--verify"),
        ("install", "code-review"),
    ]:
        assert not is_idle(shell, *words)
    assert is_idle(shell, "install")
    assert shell.run("disable", "code-review").status == 0
    assert not is_idle(shell, "install")


def test_a_list_of_more_than_enabled_skills_is_not_remembered(shell):
    assert is_idle(shell, "list")
    more = shell.skill("project/.claude/skills/group/mine")
    assert not is_idle(shell, "list")
    shutil.rmtree(more.parent)
    assert is_idle(shell, "list")
    assert shell.run("install", "github:release-notes", "--global", "--yes").status == 0
    assert not is_idle(shell, "list")
    assert shell.run("remove", "release-notes", "--global").status == 0
    assert shell.run("disable", "code-review").status == 0
    assert not is_idle(shell, "list")


def test_attack_a_list_is_not_remembered_beside_a_link_that_may_lead_to_a_skill_later(shell):
    (shell.project / ".claude/skills/mine").symlink_to(shell.folder / "elsewhere")
    assert not is_idle(shell, "list")
    shell.skill("elsewhere", "mine")
    assert "mine" in shell.run("list").out


@pytest.mark.parametrize("words", WORDS[:3], ids=" ".join)
def test_a_file_of_a_killed_process_that_may_still_run_is_removed_once_it_is_old(shell, words):
    left = shell.write("project/.cursor/.skillhub-0123456789abcdef.tmp", "half")  # beside the file of MCP servers
    assert not is_idle(shell, *words)
    os.utime(left, (1, 1))
    assert shell.run(*words).status == 0
    assert not left.exists()
    assert is_idle(shell, *words)


@pytest.mark.parametrize("words", WORDS, ids=" ".join)
def test_attack_what_a_linked_folder_of_the_state_has_is_not_overlooked(shell, words):
    folder = shell.hub / "state/signers"
    folder.rename(shell.folder / "elsewhere")
    folder.symlink_to(shell.folder / "elsewhere")
    assert not is_idle(shell, *words)


@pytest.mark.parametrize("words", WORDS, ids=" ".join)
def test_attack_a_link_on_the_way_to_a_policy_leads_to_another_one(shell, words):
    """As where a configuration is replaced by its link ``current``, and the file before it stays."""
    for version, sources in (("1", ""), ("2", 'sources = ["https://a.invalid/"]\n')):
        shell.write(f"versions/{version}/policy.toml", sources)
    current = shell.folder / "versions/current"
    current.symlink_to("1")
    (shell.hub / "config").mkdir(exist_ok=True)
    (shell.hub / "config/policy.toml").symlink_to(current / "policy.toml")
    assert is_idle(shell, *words)
    current.unlink()
    current.symlink_to("2")
    remembered = shell.run(*words)
    forget(shell)
    worked = shell.run(*words)
    assert (remembered.status, remembered.out, remembered.err) == (worked.status, worked.out, worked.err)


@pytest.mark.skipif(sys.platform == "win32", reason="another kind of lock")
@pytest.mark.parametrize("words", WORDS[:3], ids=" ".join)
def test_the_message_of_a_command_that_waited_is_not_repeated(shell, words, monkeypatch):
    assert is_idle(shell, *words)
    forget(shell)
    say = Terminal.say
    with next((shell.hub / "state/projects").glob("*.json.lock")).open("rb+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        def freeing(terminal, *text):
            say(terminal, *text)
            fcntl.flock(lock, fcntl.LOCK_UN)

        monkeypatch.setattr(Terminal, "say", freeing)
        assert "waiting for it" in shell.run(*words).err
    assert "waiting for it" not in shell.run(*words).err


def test_a_file_that_a_command_does_not_need_does_not_stop_it(shell):
    shell.write("hub/config/policy.toml", "sources = 1\n")
    assert shell.run("install").status == 4
    assert not is_idle(shell, "sync")
    assert shell.run("sync").status == 0


def test_attack_a_change_as_recent_as_the_command_is_not_trusted(shell, monkeypatch):
    monkeypatch.setattr(proved, "GRAIN", 3_600_000_000_000)
    assert time.time_ns() - (shell.project / "skillhub.lock").stat().st_ctime_ns < proved.GRAIN
    assert not is_idle(shell, "sync")


def test_attack_a_link_to_the_project_may_lead_elsewhere_the_next_time(shell):
    (shell.folder / "link").symlink_to(shell.project)
    assert not is_idle(shell, "sync", "--project", shell.folder / "link")


def test_secrets_of_the_environment_are_not_stored(shell):
    assert is_idle(shell, "sync", API_TOKEN="the-value-of-a-secret")
    assert all(b"the-value-of-a-secret" not in path.read_bytes() for path in kept(shell))

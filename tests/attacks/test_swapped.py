"""During a command, folders and files of a project become links out of it: no file outside changes."""

from __future__ import annotations

import os
import shutil
import zlib
from pathlib import Path

import pytest

from skillhub.command.ports import Options
from skillhub.disk.folders import remove_tree
from skillhub.errors import NotFound, StateError, UnsafeArchive, UsageError
from skillhub.exchange.adopt import adopt
from skillhub.install.patches import patch
from tests.support.faults import EVERY
from tests.support.swapping import Swap, link_to, look_at, run_with_swap, steps_of, unchanged
from tests.support.world import STDIO, Answers, OfUser, World, needs, skill

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the attacker is a forked child")
AGENTS = ("claude-code",)
LEFT = ".skillhub-0123456789ab"
SAMPLES = 2
# A path that changed gives an error for the patch or adoption; a project that changed gives not-found; a link inside
# of a skill is unsafe.
REFUSED = (UsageError.exit_code, NotFound.exit_code, StateError.exit_code, UnsafeArchive.exit_code)


class Scene:
    """A project in a git repository, and beside it a copy outside of the project."""

    def __init__(self, folder, prepare, act, kind=World, also=None):
        self.folder, self.start = folder / "now", folder / "start"
        self.world = kind(self.folder / "in")
        for each in (".git/info", ".agents/skills", ".claude/skills", "skillhub-edits"):
            (self.world.base / each).mkdir(parents=True)
        (self.world.base / ".git/HEAD").write_text("ref: refs/heads/main\n")
        prepare(self.world)
        self.outside = self.folder / "outside"
        shutil.copytree(self.folder / "in", self.outside, symlinks=True)
        self.like = self.outside / self.world.base.relative_to(self.folder / "in")
        for top, _, _ in list(os.walk(self.like)):
            (Path(top) / LEFT / "deep").mkdir(parents=True)
            (Path(top) / LEFT / "deep/file").write_text("theirs\n")
        if also:
            also(self.like)
        self.folder.rename(self.start)
        self.act = lambda: act(self.world)
        self._steps = {}
        self._theirs = None
        self.reset()

    def reset(self):
        """Restore the project, and the files outside if an earlier attack damaged them."""
        if self._theirs is None:
            if self.folder.exists():
                remove_tree(str(self.folder))
            shutil.copytree(self.start, self.folder, symlinks=True)
            self._theirs = look_at(self.outside)
        else:
            remove_tree(str(self.folder / "in"))
            shutil.copytree(self.start / "in", self.folder / "in", symlinks=True)

    def steps(self, late):
        """Return the number of file operations of the command without an attack; counted once."""
        if late not in self._steps:
            self.reset()
            self._steps[late] = steps_of(self.act, late=late)
        return self._steps[late]

    def attack(self, name, label, both=False, by=None, late=False):
        """Swap ``name`` at each step, or at some; ``both`` swaps it back at the next."""
        steps = self.steps(late)
        chance = zlib.crc32(label.encode())
        every = range(1, steps + 1)
        ends = set()
        for at in every if EVERY else sorted({(chance + steps * k // SAMPLES) % steps + 1 for k in range(SAMPLES)}):
            self.reset()
            before, self._theirs = self._theirs, None
            path = self.world.base / name
            make = by or link_to(self.like / name)
            ended = run_with_swap(self.act, Swap(path, make, at, at + 1 + chance % 3 if both else 0, late=late))
            assert ended in (0, *REFUSED), (label, at, steps, ended)
            assert not list(brought(self.folder / "in")), (label, at)
            now = look_at(self.outside)
            assert now == before, (label, at, sorted({*now.items()} ^ {*before.items()}))
            self._theirs = before
            ends.add(ended)
        return ends


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    """Make the scene of a command once; every attack starts with its initial state."""
    made = {}

    def of(command, kind=World, also=None):
        key = command, kind, also
        if key not in made:
            made[key] = Scene(tmp_path_factory.mktemp(command), *COMMANDS[command], kind=kind, also=also)
        return made[key]

    return of


def brought(folder):
    """Yield files with content that only files outside had; a link to such a file does not count."""
    for top, _, names in os.walk(folder):
        for path in (Path(top, name) for name in names):
            if not path.is_symlink() and path.is_file() and b"confidential" in path.read_bytes():
                yield path


def source(world, body="Do it.\n", **files):
    tools = needs(STDIO)
    return str(skill(world.folder / "src", body=body, agents__openai_yaml=tools, scripts__run_sh="echo\n", **files))


def add(world):
    world.install(str(world.folder / "src/plain"), agents=AGENTS, mcp="configure")


def installed(world):
    source(world)
    add(world)


def changed(world):
    installed(world)
    source(world, body="Do it otherwise.\n", more_txt="more\n")


def edited(world):
    installed(world)
    (world.copy("plain") / "SKILL.md").write_text((world.copy("plain") / "SKILL.md").read_text() + "mine\n")
    (world.copy("plain") / "logo").write_bytes(b"\0\xff by hand")


def patched(world):
    installed(world)
    (world.copy("plain") / "SKILL.md").write_text((world.copy("plain") / "SKILL.md").read_text() + "mine\n")


def disabled(world):
    installed(world)
    world.disable("plain")


def strange(world):
    skill(world.base / ".agents/skills", "plain")
    (world.base / ".claude/skills/plain").symlink_to(world.base / ".agents/skills/plain")


def broken(world):
    installed(world)
    shutil.rmtree(world.copy("plain"))
    (world.base / ".agents" / LEFT).mkdir()
    shutil.copytree(world.copy("plain", ".claude/skills"), world.copy("gone"))


COMMANDS = {
    "install": (source, add),
    "update": (changed, add),
    "remove": (installed, lambda world: world.remove("plain")),
    "disable": (installed, lambda world: world.disable("plain")),
    "enable": (disabled, lambda world: world.enable("plain")),
    "sync": (broken, lambda world: world.sync(Answers("yes"))),
    "sync-edited": (edited, lambda world: world.sync(Answers("yes"))),
    "remove-edited": (edited, lambda world: world.remove("plain", answers=Answers("yes"))),
    "patch": (patched, lambda world: patch(["plain"], Options(), world.ports())),
    "adopt": (strange, lambda world: adopt([], "skills", Options(agents=AGENTS), world.ports())),
    "as-links": (installed, lambda world: world.install(link="symlink")),
}
PLACES = (
    ".agents",
    ".agents/skills",
    ".agents/skills/plain",
    ".agents/skills/plain/scripts",
    ".agents/skills/plain/SKILL.md",
    ".claude",
    ".claude/skills",
    "skillhub-edits",
    "skillhub.lock",
    "skillhub.toml",
    ".mcp.json",
    ".git",
    ".git/info",
    ".git/info/exclude",
    "../project",
    "..",
)


@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("command", COMMANDS)
def test_attack_a_swap_for_a_link_at_any_step_changes_nothing_outside(scene, command, name):
    scene(command).attack(name, f"{command} {name}", both=False)


@pytest.mark.parametrize("name", [".agents", ".agents/skills", ".claude/skills", "skillhub-edits", ".git", ".."])
@pytest.mark.parametrize("command", ["install", "remove-edited", "sync-edited", "disable"])
def test_attack_a_link_swapped_back_at_the_next_step_changes_nothing_outside(scene, command, name):
    scene(command).attack(name, f"{command} {name} and back", both=True)


@pytest.mark.parametrize(
    "name", [".agents", ".agents/skills", ".agents/skills/plain", ".agents/skills/plain/scripts"]
)
@pytest.mark.parametrize("command", ["sync-edited", "remove-edited", "patch"])
def test_attack_content_from_outside_is_not_saved_as_an_edit(scene, command, name):
    scene(command, also=confidential).attack(name, f"{command} {name} confidential", both=True)
    scene(command, also=confidential).attack(name, f"{command} {name} confidential")


def confidential(like):
    for each in ("SKILL.md", "scripts/run.sh", "scripts/more.txt"):
        (like / ".agents/skills/plain" / each).write_text("confidential\n")


IN_PLACE = {
    "loop": lambda path: path.symlink_to(path.name),
    "up": lambda path: path.symlink_to(".."),
    "root": lambda path: path.symlink_to("/"),
    "pipe": lambda path: os.mkfifo(path),
    "file": lambda path: path.write_text("x"),
    "dangling": lambda path: path.symlink_to("../../outside/not-there"),
}


@pytest.mark.parametrize("what", IN_PLACE)
@pytest.mark.parametrize(
    "name", [".agents", ".agents/skills", "skillhub-edits", "skillhub.lock", ".git/info/exclude"]
)
def test_attack_a_loop_a_pipe_or_a_link_upwards_changes_nothing_outside(scene, name, what):
    if (name, what) not in ((".git/info/exclude", "root"), ("skillhub.lock", "file")):
        scene("sync-edited").attack(name, f"{name} {what}", by=IN_PLACE[what])


def test_attack_a_hard_link_is_replaced_and_not_written_through(tmp_path):
    for name in ("skillhub.lock", "skillhub.toml", ".mcp.json", ".git/info/exclude", ".agents/skills/plain/SKILL.md"):
        scene = Scene(tmp_path / name.replace("/", "-"), *COMMANDS["remove-edited"])
        theirs = scene.outside / "project" / name
        data = theirs.read_bytes()
        (scene.world.base / name).unlink()
        os.link(theirs, scene.world.base / name)
        scene.act()
        assert theirs.read_bytes() == data, name


def test_attack_a_folder_swapped_for_a_link_during_a_question_is_refused(tmp_path):
    for command in ("remove", "disable", "sync"):
        scene = Scene(tmp_path / command, *COMMANDS["remove-edited"])
        world = scene.world
        answers = Answers("yes")

        def meanwhile(base=world.base, outside=scene.outside):
            (base / ".agents").rename(base / ".agents.aside")
            (base / ".agents").symlink_to(outside / "project/.agents")

        answers.meanwhile = meanwhile
        acts = {"remove": world.remove, "disable": world.disable}
        with unchanged(scene.outside), pytest.raises(StateError) as raised:
            acts[command]("plain", answers=answers) if command in acts else world.sync(answers)
        assert raised.value.code == "link-leaves-project"


@pytest.mark.parametrize("name", [".agents", ".agents/skills", ".claude", ".claude/skills", ".claude.json", ".."])
@pytest.mark.parametrize("command", ["install", "remove", "sync"])
def test_attack_a_folder_of_the_home_swapped_for_a_link_changes_nothing_outside(scene, command, name):
    # The home may have links in these places from the start, for example to dotfiles.
    scene(command, kind=InHome).attack(name, f"{command} {name} of the user", late=True)


class InHome(OfUser):
    """A user who installs for all projects; ``base`` is the user's home."""

    def __init__(self, folder):
        super().__init__(folder)
        self.base = self.user_home


@pytest.mark.parametrize("target", ["..", "../.", "../../project"])
def test_attack_an_agents_folder_that_is_the_project_removes_nothing_above_it(tmp_path, target):
    world = World(tmp_path)
    (world.base / ".agents").mkdir()
    (world.base / ".agents/skills").symlink_to(target)
    above = tmp_path / LEFT
    above.mkdir()
    (above / "file").write_text("theirs\n")
    with unchanged(above):
        source(world)
        add(world)
        assert (world.base / "plain/SKILL.md").exists()
        world.sync()
        world.remove("plain")
    assert not (world.base / "plain").exists()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".skillhub") and path != above]

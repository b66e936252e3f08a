"""While a command runs, folders and files of a project become links out of it: nothing outside changes."""

from __future__ import annotations

import os
import shutil
import zlib
from pathlib import Path

import pytest

from skillhub.errors import StateError, UsageError
from skillhub.flows.adopt import adopt
from skillhub.flows.options import Options
from skillhub.flows.patch import patch
from skillhub.world.folders import remove_tree
from tests.support.faults import EVERY
from tests.support.swapping import Swap, link_to, run_with_swap, steps_of, unchanged
from tests.support.world import STDIO, Answers, World, needs, skill

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="somebody acts in a forked child")
AGENTS = ("claude-code",)
LEFT = ".skillhub-0123456789ab"
SAMPLES = 3
# Of what is no longer what was to be patched or adopted, that is said.
REFUSED = (UsageError.exit_code, StateError.exit_code)


class Scene:
    """A project in a git repository, and beside it the same once more, which is none of our business."""

    def __init__(self, folder, prepare, act):
        self.folder, self._start = folder / "now", folder / "start"
        self.world = World(self.folder / "in")
        for each in (".git/info", ".agents/skills", ".claude/skills", "skillhub-edits"):
            (self.world.base / each).mkdir(parents=True)
        (self.world.base / ".git/HEAD").write_text("ref: refs/heads/main\n")
        prepare(self.world)
        self.outside = self.folder / "outside"
        shutil.copytree(self.folder / "in", self.outside, symlinks=True)
        for top, _, _ in list(os.walk(self.outside / "project")):
            (Path(top) / LEFT / "deep").mkdir(parents=True)
            (Path(top) / LEFT / "deep/file").write_text("theirs\n")
        self.folder.rename(self._start)
        self.act = lambda: act(self.world)
        self.reset()

    def reset(self):
        if self.folder.exists():
            remove_tree(str(self.folder))
        shutil.copytree(self._start, self.folder, symlinks=True)

    def attack(self, name, label, both=False, by=None):
        """Swap ``name`` at each step, or at some; ``both`` swaps it back at the next."""
        steps = steps_of(self.act)
        chance = zlib.crc32(label.encode())
        every = range(1, steps + 1)
        ends = set()
        for at in (
            every if EVERY else sorted({(chance + steps * k // SAMPLES) % steps + 1 for k in range(SAMPLES)})
        ):
            self.reset()
            path = self.world.base / name
            make = by or link_to(self.outside / "project" / name)
            with unchanged(self.outside):
                ended = run_with_swap(self.act, Swap(path, make, at, at + 1 + chance % 3 if both else 0))
            assert ended in (0, *REFUSED), (label, at, steps, ended)
            ends.add(ended)
        return ends


def source(world, body="Do it.\n", **files):
    tools = needs(STDIO)
    return str(
        skill(world.folder / "src", body=body, agents__openai_yaml=tools, scripts__run_sh="echo\n", **files)
    )


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
def test_attack_what_becomes_a_link_at_any_step_changes_nothing_outside(tmp_path, command, name):
    scene = Scene(tmp_path, *COMMANDS[command])
    scene.attack(name, f"{command} {name}", both=False)

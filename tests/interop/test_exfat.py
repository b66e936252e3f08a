"""A project on a real exFAT, which keeps no execute bits, has no links, and does not tell ``a`` from ``A``."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from tests.support.cli import Shell

NEEDED = ("mkfs.exfat", "mount.exfat-fuse")
CAN = all(map(shutil.which, NEEDED)) and os.path.exists("/dev/fuse") and os.geteuid() == 0
pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(not CAN, reason="takes root, /dev/fuse, exfatprogs and exfat-fuse"),
]
NAME = "systematic-debugging"


@pytest.fixture
def machine(tmp_path):
    """A machine whose project lies on an exFAT."""
    image, shell = tmp_path / "image", Shell(tmp_path / "machine")
    with image.open("wb") as file:
        file.truncate(64 << 20)
    subprocess.run(["mkfs.exfat", image], check=True, capture_output=True)
    device = subprocess.run(
        ["losetup", "--find", "--show", image], check=True, capture_output=True, text=True
    ).stdout.strip()
    try:
        subprocess.run(["mount.exfat-fuse", device, shell.project], check=True, capture_output=True)
        try:
            yield shell
        finally:
            subprocess.run(["umount", shell.project], check=True)
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)


def test_skills_are_installed_edited_updated_and_removed(machine):
    assert machine.run("install", f"github:{NAME}@1.0.0", "--yes").status == 0
    assert (machine.project / f".agents/skills/{NAME}/SKILL.md").stat().st_mode & 0o100
    assert machine.run("verify").status == 0
    assert "already up to date" in machine.run("sync").err
    copy = machine.project / f".agents/skills/{NAME}/SKILL.md"
    copy.write_text(copy.read_text() + "\nOurs.\n")
    assert machine.run("verify").out.count("[") == 1
    assert machine.run("sync", "--yes").status == 0
    (saved,) = (machine.project / "skillhub-edits").glob("*.patch")
    assert "mode 100" not in saved.read_text()
    assert machine.run("install", f"github:{NAME}", "--yes", "--link", "symlink").status == 0
    assert machine.run("verify").status == 0
    assert [path.name for path in machine.project.rglob(".skillhub-*")] == []
    assert machine.run("remove", NAME).status == 0
    assert not copy.exists()


def test_a_home_there_is_refused_at_the_first_command(machine):
    done = machine.run("install", f"github:{NAME}", "--yes", "--json", SKILLHUB_HOME=str(machine.project / "hub"))
    assert (done.status, done.error["code"]) == (7, "state")
    assert "keeps no access rights" in done.error["hint"]
    assert os.listdir(machine.project) == []

"""Skills that are in order are known to be, and not looked into again; what differs is hashed, planned and mended."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from skillhub.disk import folders, proved
from skillhub.disk.proved import ProvedFolders
from skillhub.errors import KnownBad, Refused, Withdrawn
from skillhub.project.copies import managed
from skillhub.project.store import Store
from skillhub.registry.upkeep import withdraw, yank
from skillhub.runtime.loading import with_edits
from tests.install.test_known_bad import digests_of, found, tell
from tests.install.test_recalled import change, heard, restart
from tests.support.world import Answers, World, skill


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Let what changed just now count as old: the tests wait for no clock."""
    monkeypatch.setattr(proved, "GRAIN", 0)


@pytest.fixture
def read(monkeypatch):
    """The trees that are read from the store, and the paths of files that are hashed."""
    paths: list[str] = []
    bytes_of, tree_of = folders._read, Store.read
    monkeypatch.setattr(folders, "_read", lambda full, *rest: (paths.append(full), bytes_of(full, *rest))[1])
    monkeypatch.setattr(Store, "read", lambda self, tree: (paths.append(tree), tree_of(self, tree))[1])
    return paths


def remembering(world, believed=True):
    """Give each command of a world the index of the one before."""
    ports = type(world).ports

    def anew(answers=None):
        world.store.proved.save()
        path = os.path.join(world.home.state, "proved", "key.json")
        world.store = Store(world.home.data, ProvedFolders(path, believed=believed))
        return ports(world, answers)

    world.ports = anew
    return world


@pytest.fixture
def world(tmp_path):
    world = remembering(World(tmp_path))
    folders = [str(skill(world.base / "src", name)) for name in ("plain", "second")]
    world.install("github:code-review", *folders, agents=("claude-code",))
    assert not world.install().changed  # hashed; from now on known
    return world


WAYS = {
    "install": lambda world: world.install(),
    "frozen": lambda world: world.install(frozen=True),
    "by name": lambda world: world.install("github:code-review", str(world.base / "src/plain")),
    "sync": lambda world: world.sync(Answers(default="yes")),
}


@pytest.mark.parametrize("way", ["install", "frozen", "sync"])
def test_with_nothing_to_do_no_byte_is_hashed(world, read, way):
    outcome = WAYS[way](world)
    assert (outcome.changed, outcome.warnings, outcome.left) == (False, (), ())
    assert outcome.unchanged == {"code-review", "plain", "second"}
    assert read == []
    assert world.problems() == []
    stored = [path for path in Path(world.store.root).rglob("*") if path.is_file() and path.suffix != ".listing"]
    assert {*map(str, stored)} <= {*read}  # verify hashes every byte


def test_the_answer_is_the_same_as_when_every_byte_is_hashed(world):
    known = world.install()
    whole = remembering(world, believed=False).install()
    assert {each.name: each for each in known.skills} == {each.name: each for each in whole.skills}
    assert (known.unchanged, known.changed, known.warnings) == (whole.unchanged, whole.changed, whole.warnings)


def hidden_edit(path: Path) -> None:
    """Change a byte, and set back what can be set back."""
    was = path.stat()
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    path.chmod(was.st_mode)
    os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))


@pytest.mark.parametrize("way", WAYS)
def test_attack_a_copy_that_is_changed_and_dated_back_is_restored(world, way):
    hidden_edit(world.copy("plain") / "SKILL.md")
    assert WAYS[way](world).changed
    assert world.problems() == []
    assert [*(world.base / "skillhub-edits").iterdir()]


@pytest.mark.parametrize("way", WAYS)
def test_attack_a_stored_tree_that_is_changed_and_dated_back_is_stored_anew(world, way):
    hidden_edit(Path(world.store.path(world.lock().skills["plain"].tree)) / "SKILL.md")
    WAYS[way](world)
    assert world.problems() == []


def test_attack_what_is_linked_is_hashed_whatever_the_index_says(world):
    entry = world.lock().skills["plain"]
    stored = Path(world.store.path(entry.tree))
    hidden_edit(stored / "SKILL.md")
    index = world.store.proved
    index.keep(str(stored), entry.tree, index.before(str(stored), ".listing"))  # a forged index
    shutil.rmtree(world.copy("plain"))
    world.install()
    assert (world.copy("plain") / "SKILL.md").read_bytes().endswith(b"Do it.\n")


def test_what_verify_finds_is_restored_whatever_the_index_says(world):
    """What no stamp shows, such as a disk that loses bits, verify finds, and the index forgets."""
    entry, copy = world.lock().skills["plain"], world.copy("plain")
    hidden_edit(copy / "SKILL.md")
    index = world.store.proved
    index.keep(str(copy), entry.tree, index.before(str(copy)))
    assert not world.sync().changed
    assert remembering(world, believed=False).problems() == ["changed-file"]
    assert WAYS["sync"](remembering(world)).changed


def test_only_what_differs_is_planned(world, read):
    (world.copy("second") / "SKILL.md").write_text("---\nname: second\ndescription: Other.\n---\n")
    outcome = world.install()
    assert (outcome.restored, outcome.unchanged) == ({"second"}, {"code-review", "plain"})
    assert not [path for path in read if "plain" in path or "review" in path]
    assert {path for path in read if path.startswith("sha256:")} == {world.lock().skills["second"].tree}


def test_what_needs_a_skill_that_is_planned_is_planned_with_it(world):
    head = "metadata:\n  requires: plain\n"
    world.install(str(skill(world.base / "src", "needy", head=head)))
    world.install()
    (world.copy("plain") / "SKILL.md").unlink()
    outcome = world.install()
    assert outcome.restored == {"plain"}
    assert outcome.unchanged == {"code-review", "needy", "second"}
    assert world.lock().skills["needy"].dependencies == ("plain",)


def test_attack_what_was_never_agreed_to_or_is_disabled_is_not_in_order(world):
    world.disable("plain")
    world.install()
    shutil.copytree(world.copy("second"), world.copy("plain"))  # a clone brings it
    WAYS["sync"](world)
    assert world.record("plain").held == "user"
    other = remembering(world.on_another_machine())
    shutil.copytree(Path(world.home.state) / "proved", Path(other.home.state) / "proved")
    with pytest.raises(Refused):
        other.install(answers=Answers())


def test_a_choice_of_agents_or_of_links_is_carried_out(world):
    world.install(agents=("claude-code", "windsurf"))
    assert world.copy("plain", ".windsurf/skills").is_dir()
    world.install()
    assert world.install(link="symlink").changed
    assert world.copy("plain").is_symlink()
    assert not world.install().changed


def test_attack_a_lock_that_claims_something_else_is_looked_at_whole(world, read):
    path = world.base / "skillhub.lock"
    text = path.read_text()
    assert '"capabilities": []' in text
    path.write_text(text.replace('"capabilities": []', '"capabilities": ["scripts"]'))
    world.install()
    assert read


@pytest.mark.parametrize("way", ["install", "frozen"])
def test_attack_what_is_recalled_or_known_to_be_bad_is_not_in_order(scene, way):
    machine = remembering(scene.machine)
    machine.install("acme:hello")
    assert not machine.install().changed
    assert not machine.install().changed
    change(scene, yank, "hello@1.0.0", "it leaks")
    restart(heard(scene))
    assert any("it leaks" in each for each in WAYS[way](machine).warnings)
    scene.hub.before = lambda path: None
    change(scene, withdraw, "hello@1.0.0", "it steals")
    restart(heard(scene))
    with pytest.raises(Withdrawn):
        WAYS[way](machine)


@pytest.mark.parametrize("way", ["install", "frozen", "sync"])
def test_attack_what_an_advisory_names_since_is_not_in_order(scene, way):
    machine = remembering(scene.machine)
    machine.install("acme:hello")
    assert not machine.install().changed
    tell(scene, digests=[digests_of(scene)["tree"]])
    restart(machine)
    found(machine)  # which hears of it
    restart(machine)
    with pytest.raises(KnownBad):
        WAYS[way](machine)


def test_attack_a_signer_who_is_no_longer_known_is_looked_for(scene, read):
    machine = remembering(scene.machine)
    machine.install("acme:hello")
    assert not machine.install().changed
    read.clear()
    assert not machine.install().changed
    assert read == []
    for path in Path(machine.top).rglob("*.pem"):
        path.unlink()
    machine.install()
    assert read


def test_attack_list_names_a_copy_that_was_edited_since_it_was_found_whole(world, read):
    def edited():
        skills = list(managed(world.project, world.store, {}))
        return [name for each in with_edits(skills, world.project, world.store) for name in each.edited]

    world.ports()
    assert edited() == []
    copy = next(path for path in (world.base / ".claude" / "skills").glob("plain/SKILL.md"))
    text = copy.read_text()
    copy.write_text(text.replace("a", "b"))
    assert edited() == [str(copy.parent)]
    copy.write_text(text)
    assert edited() == []

"""Skills in order are known from the index and not read again; differing skills are hashed, planned and repaired."""

from __future__ import annotations

import json
import os
import re
import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from skillhub.command.ports import Options
from skillhub.disk import folders, proved
from skillhub.disk.proved import ProvedFolders
from skillhub.errors import Forbidden, KnownBad, Refused, SkillhubError, Withdrawn
from skillhub.install.candidates import EXPIRED
from skillhub.install.install import install
from skillhub.project.copies import managed, unproved
from skillhub.project.store import Store
from skillhub.project.user_state import Publishers
from skillhub.registry.upkeep import withdraw, yank
from skillhub.runtime.loading import with_edits
from skillhub.sources.configured import Sources
from skillhub.sources.local import read_local
from skillhub.sources.repository import Repository
from skillhub.trust.oms import sign
from tests.install.test_expired import CHAIN, leaf_key
from tests.install.test_known_bad import digests_of, found, publish_advisories
from tests.install.test_recalled import change, heard, restart
from tests.support.snapshot import Hub, Memory
from tests.support.snapshot import skill as text_of
from tests.support.world import Answers, World, skill


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Let recent changes count as old, so that no test waits."""
    monkeypatch.setattr(proved, "GRAIN", 0)


@pytest.fixture
def read(monkeypatch):
    """Record the trees read from the store and the paths of hashed files."""
    paths: list[str] = []
    bytes_of, tree_of = folders._read, Store.read
    monkeypatch.setattr(folders, "_read", lambda full, *rest: (paths.append(full), bytes_of(full, *rest))[1])
    monkeypatch.setattr(Store, "read", lambda self, tree: (paths.append(tree), tree_of(self, tree))[1])
    return paths


def remembering(world, believed=True):
    """Give each command of a world the index of the previous command."""
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
    assert not world.install().changed  # hashed now, known from now on
    return world


WAYS = {
    "install": lambda world: world.install(),
    "frozen": lambda world: world.install(frozen=True),
    "by name": lambda world: world.install("github:code-review", str(world.base / "src/plain")),
    "sync": lambda world: world.sync(Answers(default="yes")),
}


@pytest.mark.parametrize("way", ["install", "frozen", "sync"])
def test_an_install_without_changes_hashes_no_byte(world, read, way):
    outcome = WAYS[way](world)
    assert (outcome.changed, outcome.warnings, outcome.left_out) == (False, (), ())
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


def test_the_skills_of_an_install_stand_in_the_order_of_the_lock(world):
    order = [*world.lock().skills]
    (world.copy(order[0]) / "SKILL.md").unlink()  # no longer known to be in order
    for _ in range(3):
        assert [each.name for each in world.install(answers=Answers(default="yes")).skills] == order


def hidden_edit(path: Path) -> None:
    """Change a byte and restore the time of modification."""
    was = path.stat()
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    path.chmod(was.st_mode)
    os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))


@pytest.mark.parametrize("way", WAYS)
def test_attack_a_backdated_change_of_a_copy_is_restored(world, way):
    hidden_edit(world.copy("plain") / "SKILL.md")
    assert WAYS[way](world).changed
    assert world.problems() == []
    assert [*(world.base / "skillhub-edits").iterdir()]


@pytest.mark.parametrize("way", WAYS)
def test_attack_a_backdated_change_of_a_stored_tree_is_repaired(world, way):
    hidden_edit(Path(world.store.path(world.lock().skills["plain"].tree)) / "SKILL.md")
    WAYS[way](world)
    assert world.problems() == []


def test_attack_a_copy_is_made_from_hashed_content_in_spite_of_the_index(world):
    entry = world.lock().skills["plain"]
    stored = Path(world.store.path(entry.tree))
    hidden_edit(stored / "SKILL.md")
    index = world.store.proved
    index.keep(str(stored), entry.tree, index.before(str(stored), ".listing"))  # a forged index
    shutil.rmtree(world.copy("plain"))
    world.install()
    assert (world.copy("plain") / "SKILL.md").read_bytes().endswith(b"Do it.\n")


def test_a_problem_found_by_verify_is_repaired_in_spite_of_the_index(world):
    """verify finds changes without a new timestamp, such as bit rot, and removes them from the index."""
    entry, copy = world.lock().skills["plain"], world.copy("plain")
    hidden_edit(copy / "SKILL.md")
    index = world.store.proved
    index.keep(str(copy), entry.tree, index.before(str(copy)))
    assert not world.sync().changed
    assert remembering(world, believed=False).problems() == ["changed-file"]
    assert WAYS["sync"](remembering(world)).changed


def test_only_differing_skills_are_planned(world, read):
    (world.copy("second") / "SKILL.md").write_text("---\nname: second\ndescription: Other.\n---\n")
    outcome = world.install()
    assert (outcome.restored, outcome.unchanged) == ({"second"}, {"code-review", "plain"})
    assert not [path for path in read if "plain" in path or "review" in path]
    assert {path for path in read if path.startswith("sha256:")} == {world.lock().skills["second"].tree}


def test_the_dependents_of_a_planned_skill_are_planned_with_it(world):
    head = "metadata:\n  requires: plain\n"
    world.install(str(skill(world.base / "src", "needy", head=head)))
    world.install()
    (world.copy("plain") / "SKILL.md").unlink()
    outcome = world.install()
    assert outcome.restored == {"plain"}
    assert outcome.unchanged == {"code-review", "needy", "second"}
    assert world.lock().skills["needy"].dependencies == ("plain",)


def test_attack_a_skill_without_consent_or_disabled_is_not_in_order(world):
    world.disable("plain")
    world.install()
    shutil.copytree(world.copy("second"), world.copy("plain"))  # as in a clone
    WAYS["sync"](world)
    assert world.record("plain").disabled_by == "user"
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


def test_attack_a_lock_with_changed_facts_is_checked_in_full(world, read):
    path = world.base / "skillhub.lock"
    text = path.read_text()
    assert '"capabilities": []' in text
    path.write_text(text.replace('"capabilities": []', '"capabilities": ["scripts"]'))
    world.install()
    assert read


@pytest.mark.parametrize("way", ["install", "frozen"])
def test_attack_a_recalled_release_is_not_in_order(scene, way):
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
def test_attack_a_skill_named_by_a_new_advisory_is_not_in_order(scene, way):
    machine = remembering(scene.machine)
    machine.install("acme:hello")
    assert not machine.install().changed
    publish_advisories(scene, digests=[digests_of(scene)["tree"]])
    restart(machine)
    found(machine)  # reads the advisory
    restart(machine)
    with pytest.raises(KnownBad):
        WAYS[way](machine)


@pytest.mark.parametrize("way", ["install", "frozen"])
def test_attack_a_new_line_in_a_file_of_the_users_advisories_is_read(scene, way):
    """The file is in no folder of skillhub, so the index does not know when it changes."""
    machine = remembering(scene.machine)
    file, tree = machine.folder / "advisories.txt", machine.lock().skills["hello"].tree
    file.write_text(f"sha256:{'0' * 64} sends tokens\n")
    machine.advisories = [str(file)]
    for _ in range(3):
        assert not machine.install().changed
    file.write_text(f"{tree} sends tokens\n")
    with pytest.raises(KnownBad):
        WAYS[way](machine)


def test_attack_a_missing_signer_is_looked_up_again(scene, read):
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


def test_attack_list_marks_a_copy_edited_after_a_check(world, read):
    def edited():
        skills = list(managed(world.project, world.store, {}))
        seen = [with_edits(each, unproved(each, world.store), world.project) for each in skills]
        return [name for each in seen for name in each.edited]

    world.ports()
    assert edited() == []
    copy = next(path for path in (world.base / ".claude" / "skills").glob("plain/SKILL.md"))
    text = copy.read_text()
    copy.write_text(text.replace("a", "b"))
    assert edited() == [str(copy.parent)]
    copy.write_text(text)
    assert edited() == []


def in_place(path: Path, old: bytes, new: bytes) -> None:
    """Change bytes of a file; keep its inode and modification time."""
    was, data = path.stat(), path.read_bytes()
    assert old in data, path
    with path.open("r+b") as file:
        file.truncate()
        file.write(data.replace(old, new))
    os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))


def led_away(path: Path) -> None:
    """Replace a file or folder by a link to its content."""
    path.rename(path.with_name("moved"))
    path.symlink_to(path.with_name("moved"))


def swapped(path: Path) -> None:
    """Replace a file by another of the same size and times."""
    was, other = path.stat(), path.with_name("other")
    other.write_bytes(path.read_bytes()[:-1] + b"!")
    os.utime(other, ns=(was.st_atime_ns, was.st_mtime_ns))
    other.replace(path)


def add(path: Path, text: str) -> None:
    path.write_text(f"{text}\n{path.read_text()}")


def policy(config: Path, line: str) -> None:
    """Write this line into the user's policy."""
    config.mkdir(parents=True)
    (config / "policy.toml").write_text(f"{line}\n")


def paths_of(machine) -> dict[str, Path]:
    state, entry = Path(machine.home.state), machine.lock().skills["hello"]
    trust = Path(machine.trust_folder(machine.sources.get("acme")))
    return {
        "lock": machine.base / "skillhub.lock",
        "intent": machine.base / "skillhub.toml",
        "record": next((state / "projects").glob("*.json")),
        "index": next((trust / "targets").glob("idx*")),
        "names": next((trust / "targets").glob("ns*")),
        "owners": trust / "publishers.json",
        "targets": trust / "targets",
        "trust": trust,
        "pin": next((state / "signers").iterdir()),
        "copy": machine.copy("hello"),
        "stored": Path(machine.store.path(entry.tree)),
        "proved": state / "proved" / "key.json",
        "config": Path(machine.home.config),
        "state": state,
        "hidden": machine.base / ".claude" / "skills",
    }


# Changes beside the bytes of a skill, each after everything was in order: the fact and the change.
CHANGES = {
    "capabilities in the lock": lambda at: in_place(at["lock"], b'"capabilities": []', b'"capabilities": ["shell"]'),
    "another size in the lock": lambda at: in_place(at["lock"], b'"size": ', b'"size": 1'),
    "another URL in the lock": lambda at: in_place(at["lock"], b".zip", b".zap"),
    "another version in the lock": lambda at: in_place(at["lock"], b'"version": "1.0.0"', b'"version": "1.0.1"'),
    "no signer in the lock": lambda at: at["lock"].write_bytes(
        re.sub(rb'"signed_by": \[[^]]*\],\s*', b"", at["lock"].read_bytes())
    ),
    "no lock": lambda at: at["lock"].unlink(),
    "the lock is a link": lambda at: led_away(at["lock"]),
    "a range in the intent": lambda at: in_place(at["intent"], b"1.0.0", b"2.0.0"),
    "links in the intent": lambda at: at["intent"].write_text(
        '[install]\nlink = "symlink"\n' + at["intent"].read_text()
    ),
    "a line less in the intent": lambda at: at["intent"].write_text("[skills]\n"),
    "no intent": lambda at: at["intent"].unlink(),
    "a package in the intent": lambda at: add(at["intent"], '[workspace]\nmembers = ["src"]'),
    "disabled in the record": lambda at: in_place(at["record"], b'"enabled": true', b'"enabled": false'),
    "held in the record": lambda at: in_place(at["record"], b'"held": ""', b'"held": "user"'),
    "another signer in the record": lambda at: in_place(at["record"], b"key:sha256:", b"key:sha256:0"),
    "a link less in the record": lambda at: in_place(
        at["record"], b'".claude/skills/hello"', b'".agents/skills/hello"'
    ),
    "other agents in the record": lambda at: in_place(at["record"], b'["claude-code"]', b'["windsurf"]'),
    "no record": lambda at: at["record"].unlink(),
    "a policy of sources": lambda at: policy(at["config"], 'sources = ["https://elsewhere.example/"]'),
    "a policy of publishers": lambda at: policy(at["config"], 'publishers = ["somebody"]'),
    "a policy of agents": lambda at: policy(at["config"], 'agents = ["windsurf"]'),
    "an invalid policy": lambda at: policy(at["config"], "agents = 1"),
    "another agent": lambda at: {"agents": ("windsurf",)},
    "links": lambda at: {"link": "symlink"},
    "copies": lambda at: {"link": "copy"},
    "a value": lambda at: {"env": {"TOKEN": "x"}},
    "the lock alone": lambda at: {"frozen": True},
    "no enabling": lambda at: {"enable": False},
    "a publisher": lambda at: (at["state"] / "publishers.json").write_text("{}"),
    "sources that say otherwise": lambda at: in_place(at["state"] / "sources.json", b"acme", b"acne"),
    "a pin": lambda at: in_place(at["pin"], b"A", b"B"),
    "another pin in its place": lambda at: swapped(at["pin"]),
    "a pin that is a link": lambda at: led_away(at["pin"]),
    "no pin": lambda at: at["pin"].unlink(),
    "deleted pins": lambda at: shutil.rmtree(at["state"] / "signers"),
    "a withdrawn release": lambda at: in_place(at["index"], b'"withdrawn":null', b'"withdrawn":"bad"'),
    "a withdrawn release in another file": lambda at: swapped(at["index"]),
    "a name taken away": lambda at: in_place(at["names"], b"acme", b"acne"),
    "documents behind a link": lambda at: led_away(at["targets"]),
    "a registry behind a link": lambda at: led_away(at["trust"]),
    "no registry heard": lambda at: shutil.rmtree(at["state"] / "tuf"),
    "no owners": lambda at: at["owners"].unlink(),
    "an edit": lambda at: hidden_edit(at["copy"] / "SKILL.md"),
    "another file": lambda at: swapped(at["copy"] / "SKILL.md"),
    "a file more": lambda at: (at["copy"] / "more.md").write_text("more"),
    "a folder more": lambda at: (at["copy"] / "more").mkdir(),
    "a mode": lambda at: (at["copy"] / "SKILL.md").chmod(0o755),
    "a copy that is a link": lambda at: led_away(at["copy"]),
    "no copy": lambda at: shutil.rmtree(at["copy"]),
    "an agent's folder that is a link": lambda at: led_away(at["hidden"]),
    "no agent's folder": lambda at: shutil.rmtree(at["hidden"].parent),
    "a file in place of an agent's folder": lambda at: (shutil.rmtree(at["hidden"]), at["hidden"].write_text("")),
    "an edit in the store": lambda at: hidden_edit(at["stored"] / "SKILL.md"),
    "another list in the store": lambda at: hidden_edit(at["stored"].with_suffix(".listing")),
    "no store": lambda at: shutil.rmtree(at["stored"].parent.parent),
    "an index that others may read": lambda at: at["proved"].chmod(0o644),
    "a damaged index": lambda at: at["proved"].write_bytes(at["proved"].read_bytes()[:-9]),
    "an index with other folders": lambda at: in_place(at["proved"], b'"folders": {', b'"folders": {"/x": [1], '),
}


def test_attack_a_change_of_any_fact_in_the_index_is_noticed(scene):
    """The result equals that without the index, for every change since the last install without work."""
    machine, backup = remembering(scene.machine), scene.machine.folder.with_name("backup")
    machine.install("acme:hello", agents=("claude-code",))
    heard(scene)
    for _ in range(3):
        machine.install()
    shutil.copytree(machine.folder, backup, symlinks=True)

    def result(believed, options):
        machine.sources, machine.publishers = Sources(machine.home), Publishers(machine.home)
        ports = machine.ports()
        ports.store.proved.is_believed = believed
        try:
            outcome = install([], Options(dry_run=True, **options), ports)
        except SkillhubError as error:
            return type(error), error.message, error.where
        problems = outcome.warnings, outcome.left_out
        return outcome.changed, outcome.unchanged, outcome.restored, problems, outcome.skills

    for what, change_it in CHANGES.items():
        shutil.rmtree(machine.folder)
        shutil.copytree(backup, machine.folder, symlinks=True)
        machine.sources, machine.publishers = Sources(machine.home), Publishers(machine.home)
        machine.install()
        machine.ports()
        assert [*json.loads(paths_of(machine)["proved"].read_bytes())["notes"]] == ["hello"], what
        changed = change_it(paths_of(machine))
        options = changed if isinstance(changed, dict) else {}
        assert result(True, options) == result(False, options), what


def test_attack_metadata_read_before_a_withdrawal_does_not_decide_after_it(scene):
    """One command may read cached metadata, ask the registry, and decide after both."""
    machine = remembering(scene.machine)
    machine.install("acme:hello")
    assert not machine.install().changed
    restart(machine)
    ports = machine.ports()
    assert ports.seen.of(machine.sources.get("acme").root).index(["hello"]).skills
    change(scene, withdraw, "hello@1.0.0", "it steals")
    heard(scene)
    with pytest.raises(Withdrawn):
        install([], Options(), ports)
    machine.store = ports.store  # with its index
    restart(machine)
    with pytest.raises(Withdrawn):
        machine.install()


def same_result(machine) -> object:
    """Return the result of an install; assert that it is the same with and without the index."""

    def result(believed):
        ports = remembering(machine, believed).ports()
        try:
            outcome = install([], Options(dry_run=True), ports)
        except SkillhubError as error:
            return type(error), error.message
        return outcome.unchanged, outcome.warnings

    machine.ports().store.proved.save()
    answer = result(True)
    assert answer == result(False)
    return answer


def in_order(machine, *refs, **options) -> None:
    machine.install(*refs, **options)
    for _ in range(2):
        assert not machine.install().changed


def test_attack_an_expired_certificate_of_an_untrusted_signer_is_noticed(tmp_path):
    """No one trusts its root, so the lock names no signer; the time of expiry still decides."""
    world = remembering(World(tmp_path))
    folder = skill(world.base / "src")
    (folder / "skill.oms.sig").write_bytes(sign(read_local(str(folder)).tree, "plain", leaf_key(), CHAIN[:-1]))
    in_order(world, str(folder))
    assert world.lock().skills["plain"].signed_by == ()
    world.now += timedelta(days=400)
    assert same_result(world) == ({"plain"}, (f"plain: {EXPIRED}",))


def test_attack_a_local_skill_behind_a_new_link_is_checked_by_the_policy(tmp_path):
    world = remembering(World(tmp_path))
    policy(Path(world.home.config), f'sources = ["{(world.base / "src").as_uri()}"]')
    in_order(world, str(skill(world.base / "src")))
    led_away(world.base / "src")
    assert same_result(world)[0] is Forbidden


def test_attack_another_github_host_in_the_environment_is_checked_by_the_policy(tmp_path):
    world = remembering(World(tmp_path))
    snapshot = Memory({"plain/SKILL.md": text_of("plain")}, "a" * 40)
    world.places["github:acme/skills"] = Repository(snapshot, url="https://github.com/acme/skills", elsewhere=Hub())
    policy(Path(world.home.config), 'sources = ["https://github.com/acme"]')
    in_order(world, "acme/skills/plain")
    world.environ["GH_HOST"] = "elsewhere.invalid"
    assert same_result(world)[0] is Forbidden

"""Every command is killed, and meets a full disk, at each of its steps; the next command must repair the project."""

from __future__ import annotations

import os
import shutil
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from skillhub.command.ports import Options
from skillhub.disk.folders import list_folder, remove_tree
from skillhub.errors import NotFound, Refused, StateError
from skillhub.install.skill_sets import save_profile, use_profile
from skillhub.model.lock import Lock
from tests.support.faults import forbidden, in_child, kill, killed_at, kinds_of, no_space, run_with_fault, sample
from tests.support.world import AGENT_FOLDERS, STDIO, TOKEN, Answers, World, needs, skill

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the fault is put into a forked child")
AGENTS = ("claude-code",)


class Case:
    """A world that is reset to the same start, at the same path, before each run."""

    def __init__(self, tmp_path, prepare, act, kind=World):
        self.folder = tmp_path / "now"
        self._start = tmp_path / "start"
        self.world = kind(self.folder)
        prepare(self.world)
        self.folder.rename(self._start)
        self.act = lambda: act(self.world)
        self.reset()
        self.before = look(self.world)
        self.kinds = kinds_of(self.folder, self.act)
        self.changes = len(self.kinds)
        self.after = look(self.world)

    def reset(self):
        remove_tree(str(self.folder))  # the store is read-only
        shutil.copytree(self._start, self.folder, symlinks=True)

    def interruptions(self, steps):
        """Interrupt the command in each of these ways at these steps; yield which, with the folder as it is then."""
        for happen, numbers in steps.items():
            self.reset()
            if happen is kill:
                for at in killed_at(self.folder, self.act, numbers):
                    yield f"killed at {at} of {self.changes}"
                continue
            for at in numbers:
                self.reset()
                label = f"{happen.__name__} at {at} of {self.changes}"
                # A step may fail without effect, for example when temporary files are removed.
                assert run_with_fault(self.folder, self.act, at, happen) in (0, StateError.exit_code), label
                yield label


@dataclass(frozen=True)
class Look:
    """The state of a project: its documents, its agents' folders by tree, and its records on this machine."""

    documents: dict
    folders: dict
    records: dict


def look(world):
    names = ("skillhub.lock", "skillhub.toml", ".mcp.json")
    documents = {name: (world.base / name).read_bytes() if (world.base / name).exists() else None for name in names}
    if documents[".mcp.json"] and b'"mcpServers": {}' in documents[".mcp.json"]:
        documents[".mcp.json"] = None  # a file that cannot be removed stays, empty
    records = {
        name: (record.enabled, record.disabled_by, record.links, record.mcp)
        for name, record in world.project.records().skills.items()
    }
    return Look(documents, in_folders(world), records)


def in_folders(world):
    """Return the tree of each folder that an agent sees; an incomplete skill has an unknown tree."""
    found = {}
    for folder in (".agents/skills", ".claude/skills"):
        if (world.base / folder).is_dir():
            for path in (world.base / folder).iterdir():
                found[f"{folder}/{path.name}"] = str(list_folder(str(path)).digest)
    return found


def left_over(world):
    return [str(path) for path in world.base.rglob(".skillhub-*")]


def check(case, label):
    """Look at the state, repair it by ``sync`` and by the command itself, and compare with a run without fault."""
    world = case.world
    cut = look(world)
    for name in ("skillhub.lock", "skillhub.toml"):
        assert cut.documents[name] in (case.before.documents[name], case.after.documents[name]), label
    known = {**case.before.folders, **case.after.folders}
    for place, tree in cut.folders.items():
        assert place in known, (label, "something strange in an agent's folder", place)
        assert tree in (case.before.folders.get(place), case.after.folders.get(place)), (label, "half", place)
    silent = Answers()
    world.sync(silent)
    assert silent.seen == [], (label, "an edit reported without a change")
    assert world.problems() == [], label
    assert left_over(world) == [], label
    synced = look(world)
    enabled = {link for is_on, _, links, _ in synced.records.values() if is_on for link in links}
    assert set(synced.folders) == enabled, (label, "links and records disagree")
    lock = Lock.parse(cut.documents["skillhub.lock"]) if cut.documents["skillhub.lock"] else Lock()
    for place, tree in synced.folders.items():
        assert lock.skills[place.rpartition("/")[2]].tree == tree, label
    with suppress(NotFound):  # already removed
        case.act()
    healed = look(world)
    assert healed.folders == case.after.folders, label
    assert healed.documents == case.after.documents, label
    if case.before.records:  # a first install that is killed does not know the MCP entries that it wrote
        assert healed.records == case.after.records, label
    assert world.problems() == [], label
    assert not (world.base / "skillhub-edits").exists(), label


def source(world, body="Do it.\n", **files):
    tools = needs(STDIO)
    return str(skill(world.base / "src", body=body, agents__openai_yaml=tools, scripts__run_sh="echo\n", **files))


def add(world):
    world.install(str(world.base / "src/plain"), agents=AGENTS, mcp="configure")


def installed(world):
    source(world)
    add(world)


def changed(world):
    installed(world)
    source(world, body="Do it otherwise.\n", more_txt="more\n")


def needy(world):
    """A new version needs a variable that is not set: the change removes the skill from the agents' folders."""
    installed(world)
    skill(world.base / "src", body="Needy.\n", agents__openai_yaml=needs(STDIO, TOKEN))


def served_otherwise(world):
    """A new version describes its MCP server otherwise: the change replaces the entry."""
    installed(world)
    skill(world.base / "src", agents__openai_yaml=needs(STDIO.replace("-m tracker", "-m other")))


def broken(world):
    installed(world)
    shutil.rmtree(world.copy("plain"))
    stored = world.store.path(world.lock().skills["plain"].tree)
    os.chmod(stored, 0o755)
    os.unlink(f"{stored}/SKILL.md")


def disabled(world):
    installed(world)
    world.disable("plain")


def profiled(world):
    """A profile that enables one skill and disables another."""
    two_new(world)
    add_two(world)
    world.disable("other")
    save_profile("daily", world.ports())
    world.enable("other", agents=AGENTS)
    world.disable("plain")


def two_new(world):
    source(world)
    skill(world.base / "src", "other")


def add_two(world):
    world.install(str(world.base / "src/plain"), str(world.base / "src/other"), agents=AGENTS, mcp="configure")


CASES = {
    "install": (two_new, add_two),
    "change": (changed, add),
    "change-to-open-need": (needy, add),
    "change-of-server": (served_otherwise, add),
    "as-links": (installed, lambda world: world.install(link="symlink")),
    "disable": (installed, lambda world: world.disable("plain")),
    "remove": (installed, lambda world: world.remove("plain")),
    "sync": (broken, lambda world: world.sync()),
}


@pytest.mark.parametrize("name", CASES)
def test_sync_and_the_command_repair_an_interruption_at_any_step(tmp_path, name):
    case = Case(tmp_path, *CASES[name])
    for label in case.interruptions({each: sample(case.kinds, each, name) for each in (kill, no_space, forbidden)}):
        check(case, f"{name}, {label}")


@pytest.mark.parametrize("prepare", [lambda world: world.install(str(skill(world.base / "src"))), installed])
def test_a_killed_removal_remembers_no_consent(tmp_path, prepare):
    """Unlike a branch without the skill: from the write of the lock on, ``sync`` completes the removal."""
    case = Case(tmp_path, prepare, lambda world: world.remove("plain"))
    asked = []
    for label in case.interruptions({kill: sample(case.kinds, kill, "removal")}):
        is_removed = "plain" not in case.world.lock().skills
        case.world.sync()
        for name in ("skillhub.lock", "skillhub.toml"):
            (case.world.base / name).write_bytes(case.before.documents[name])
        with pytest.raises(Refused) if is_removed else nullcontext():
            case.world.install(answers=Answers())
        asked += [label] if is_removed else []
    assert asked


@pytest.mark.parametrize("verb", ["remove", "disable"])
def test_a_removal_removes_the_unfinished_files_of_a_killed_command(tmp_path, verb):
    case = Case(
        tmp_path,
        lambda world: world.install(str(skill(world.base / "src"))),
        lambda world: world.install(agents=AGENTS),
    )
    for label in case.interruptions({kill: range(1, case.changes + 1)}):
        getattr(case.world, verb)("plain")
        case.world.sync()
        assert (left_over(case.world), in_folders(case.world)) == ([], {}), label


def edited(world):
    installed(world)
    (world.copy("plain") / "SKILL.md").write_text("written by hand\n")
    (world.copy("plain") / "logo").write_bytes(b"\0\xff by hand")


@pytest.mark.parametrize("verb", ["sync", "disable", "remove"])
def test_an_interruption_at_any_step_loses_no_edit(tmp_path, verb):
    agree = {"answers": Answers("yes")}
    acts = {
        "sync": lambda world: world.sync(**agree),
        "disable": lambda world: world.disable("plain", **agree),
        "remove": lambda world: world.remove("plain", **agree),
    }
    case = Case(tmp_path, edited, acts[verb])
    for label in case.interruptions({each: sample(case.kinds, each, verb) for each in (kill, no_space)}):
        case.world.sync(Answers("yes"))
        for text in (b"written by hand", b"\0\xff by hand"):
            kept = [path for path in case.world.base.rglob("*") if path.is_file() and text in path.read_bytes()]
            assert kept, f"{verb}, {label}: {text!r} is lost"
        assert case.world.problems() == []


def to_be_merged(world):
    lines = "".join(f"Step {number}.\n" for number in range(9))
    source(world, body=lines)
    add(world)
    file = world.copy("plain") / "SKILL.md"
    file.write_text(file.read_text().replace("Step 1.", "written by hand"))
    source(world, body=lines.replace("Step 7.", "Step seven."))


def test_an_interruption_of_a_merge_at_any_step_loses_no_edit(tmp_path):
    case = Case(tmp_path, to_be_merged, lambda world: world.update(answers=Answers("yes", local_edit="merge")))
    # Also after each rename: a copy is nowhere but beside its folder until the next one.
    after = {at for at, kind in enumerate(case.kinds, 2) if kind.startswith("os.rename") and at <= case.changes}
    for label in case.interruptions({kill: {*sample(case.kinds, kill, "merge"), *after}}):
        case.world.sync(Answers("yes"))
        kept = (path for path in case.world.base.rglob("*") if path.is_file())
        assert any(b"written by hand" in path.read_bytes() for path in kept), label
        assert (case.world.problems(), left_over(case.world)) == ([], [])


def test_a_disk_without_space_changes_nothing(tmp_path):
    case = Case(tmp_path, two_new, add_two)

    def small() -> None:
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (40, 40))

    case.reset()
    assert in_child(case.act, small) == StateError.exit_code
    assert look(case.world) == case.before
    check(case, "RLIMIT_FSIZE")


ORDINARY = 65534


def as_ordinary_user() -> None:
    """Drop root's privileges, since root ignores permission bits."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(ORDINARY)
        os.setuid(ORDINARY)


def give(folder):
    """Make the ordinary user the owner of all of ``folder``."""
    if os.geteuid() == 0:
        for path in (folder, *folder.rglob("*")):
            os.lchown(path, ORDINARY, ORDINARY)


@pytest.fixture
def reachable():
    """A folder that another user can reach; pytest's folders are private to its user."""
    with TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


VERBS = ("install", "sync", "disable", "enable", "use", "remove")
# All of skillhub's home is no more than its folders together; who changes no skill writes nothing to the store.
READ_ONLY = [
    *((verb, place) for place in ("project", "home/skillhub/state") for verb in VERBS),
    *((verb, "home/skillhub/data") for verb in ("install", "sync", "enable", "remove")),
    ("install", "home/skillhub"),
]


@pytest.mark.parametrize(("verb", "place"), READ_ONLY)
def test_a_read_only_home_or_project_changes_nothing(reachable, verb, place):
    world = World(reachable / "now")
    starts = {"install": two_new, "enable": disabled, "use": profiled}
    starts.get(verb, broken)(world)
    acts = {
        "install": lambda: add_two(world),
        "sync": lambda: world.sync(),
        "disable": lambda: world.disable("plain"),
        "enable": lambda: world.enable("plain", agents=AGENTS, mcp="configure"),
        "use": lambda: use_profile("daily", Options(agents=AGENTS), world.ports()),
        "remove": lambda: world.remove("plain"),
    }
    locked = reachable / "now" / place
    locked.mkdir(parents=True, exist_ok=True)
    give(reachable / "now")
    before = look(world)
    shut(locked)
    try:
        status = in_child(acts[verb], as_ordinary_user)
    finally:
        for path in (locked, *locked.rglob("*")):
            if path.is_dir():
                path.chmod(0o755)
    not_in_the_way = {("sync", "state"), ("enable", "data"), ("remove", "data")}
    is_free = (verb, os.path.basename(place)) in not_in_the_way
    assert status == (0 if is_free else StateError.exit_code)
    assert is_free or look(world) == before

    def repair() -> None:
        world.sync()
        assert world.problems() == []

    assert in_child(repair, as_ordinary_user) == 0


def shut(folder):
    for path in (folder, *folder.rglob("*")):
        if path.is_dir():
            path.chmod(0o555)


def test_a_skill_without_copies_is_disabled_and_removed_beside_a_read_only_folder(reachable):
    world = World(reachable / "now")
    installed(world)
    folders = [world.base / each for each in AGENT_FOLDERS]
    for folder in folders:
        remove_tree(str(folder / "plain"))
    give(reachable / "now")
    for folder in folders:
        shut(folder.parent)
    assert in_child(lambda: world.disable("plain"), as_ordinary_user) == 0
    assert in_child(lambda: world.remove("plain"), as_ordinary_user) == 0


def test_an_unreadable_file_in_an_agents_folder_is_an_error(reachable):
    world = World(reachable / "now")
    installed(world)
    give(reachable / "now")
    (world.copy("plain") / "SKILL.md").chmod(0)
    for act in (world.sync, lambda: world.disable("plain"), lambda: world.install()):
        assert in_child(act, as_ordinary_user) == StateError.exit_code
    status = in_child(lambda: os._exit(len(world.problems())), as_ordinary_user)
    assert status == 1

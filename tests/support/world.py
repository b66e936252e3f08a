"""A user's machine in a folder: home, project, sources, answers to questions, and snapshots of them."""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from skillhub.audit.verify import verify
from skillhub.command.ports import Options, Ports
from skillhub.disk.home import Home
from skillhub.errors import NotFound, SourceError
from skillhub.install.apply import disable, enable, remove
from skillhub.install.install import install, update
from skillhub.install.obtain import obtain_locked
from skillhub.install.sync import sync
from skillhub.model.question import NO, UNANSWERED, YES, Answer, Question
from skillhub.model.reference import Local, parse_ref
from skillhub.project.last_seen import Advisories, SeenRegistries, own_advisories
from skillhub.project.project import Project, read_policies
from skillhub.project.store import Store
from skillhub.project.user_state import Publishers
from skillhub.sources.configured import ProjectSources, Source, Sources, embedded
from skillhub.sources.history import FirstSeen
from skillhub.sources.registry_client import TufRegistry

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
ANSWER_OF = {"yes": YES, "no": NO, "unanswered": UNANSWERED}
ANSWER_OF |= {way: Answer("yes", way=way) for way in ("save", "merge", "take")}


class Answers:
    """A user who gives one answer to all questions except the named kinds, and records the questions.

    ``meanwhile`` is called while they think, and may look at the world or change it.
    """

    def __init__(self, default: str = "unanswered", **kinds: str) -> None:
        self.default, self.kinds = default, {kind.replace("_", "-"): answer for kind, answer in kinds.items()}
        self.values: dict[str, str] = {}
        self.seen: list[Question] = []
        self.meanwhile = lambda: None

    def answer(self, questions: Sequence[Question]) -> list[Answer]:
        self.seen += questions
        self.meanwhile()
        return [self._one(question) for question in questions]

    def _one(self, question: Question) -> Answer:
        if question.kind == "env" and question.subject in self.values:
            return Answer("yes", self.values[question.subject])
        return ANSWER_OF[self.kinds.get(question.kind, self.default)]

    @property
    def kinds_seen(self) -> list[str]:
        return [question.kind for question in self.seen]


@dataclass
class Given:
    """A network of parts."""

    open_registry: object
    open_place: object
    fetch_root: object
    waiting: list = field(default_factory=list)

    def before_requests(self, call):
        self.waiting = [call]


AGENT_FOLDERS = (".agents/skills", ".claude/skills")
YES_MAN = {"default": "yes", "env": "unanswered"}


class World:
    """One user, one project; registries by alias are simulators, ``github`` is the one in the package."""

    def __init__(self, folder: Path, home: str = "home", **environ: str) -> None:
        self.folder = folder
        self.top = folder / home
        self.user_home = self.top / "user"
        self.base = folder / "project"
        for path in (self.user_home, self.base):
            path.mkdir(parents=True, exist_ok=True)
        self.home = Home.of({"SKILLHUB_HOME": str(self.top / "skillhub")})
        self.environ = {"PATH": os.environ["PATH"], **environ}
        self.registries: dict[str, object] = {}
        self.places: dict[str, object] = {}
        self.store = Store(self.home.data)
        self.sources = Sources(self.home)
        self.publishers = Publishers(self.home)
        self.opened: list[str] = []
        self._opened: dict[str, TufRegistry] = {}
        self.answers = Answers(**YES_MAN)
        self.patience = 60.0
        self.now = NOW
        self.advisories: list[str] = []
        self.mirrors: dict[str, bytes] = {}
        self.network = Given(self._open, self.open_place, lambda url, named_by="person": self._simulator(url).root)

    @property
    def project(self) -> Project:
        found = Project(str(self.base), "project", self.home)
        found.patience = self.patience
        return found

    def on_another_machine(self) -> World:
        """Return the same project as another user with a home of their own sees it."""
        other = World(self.folder, home=f"{self.top.name}-other", **self.environ)
        other.registries, other.places, other.now = self.registries, self.places, self.now
        return other

    def ports(self, answers: Answers | None = None) -> Ports:
        self.answers = answers or Answers(**YES_MAN)
        self._opened = {}
        project = self.project
        sources, seen = ProjectSources(self.home, project.key, project.proposals), SeenRegistries(self.home)
        return Ports(
            project=project,
            store=self.store,
            sources=sources,
            publishers=self.publishers,
            network=self.network,
            pick=self.picker,
            approver=self.answers,
            environ=self.environ,
            user_home=str(self.user_home),
            policies=read_policies(self.home, project.policy, str(self.folder / "machine" / "policy.toml")),
            seen=seen,
            advisories=Advisories(
                seen,
                sources.roots,
                lambda: own_advisories(self.advisories, "", self.home.state, self.mirror),
                lambda: self.now,
            ),
            first_seen=FirstSeen(self.home),
            clock=lambda: self.now,
            report=lambda what, done, of: None,
        )

    def mirror(self, url: str) -> bytes:
        if url not in self.mirrors:
            raise SourceError("no server answers", where=url)
        return self.mirrors[url]

    def open_place(self, ref, pin=None, *, named_by="person", check_allowed=None):
        """Open a place that is no registry: one of ``places``, by the reference without its revision."""
        if isinstance(ref, Local) and ref.path not in self.places:
            raise NotFound("there is no SKILL.md here")
        return self.places[str(ref) if isinstance(ref, Local) else ref.place]

    def picker(self, offered):
        """Pick nothing, as without a user."""
        return ()

    def add_source(self, alias: str, simulator: object) -> None:
        from tests.support.registry import URL

        self.registries[alias] = simulator
        self.sources.add(alias, URL, simulator.root)

    def _simulator(self, url: str) -> object:
        return next(iter(self.registries.values()))

    def _open(self, source: Source, root: bytes | None = None, name: str = "") -> TufRegistry:
        if source.alias not in self._opened:
            while self.network.waiting:
                self.network.waiting.pop()()
            self.opened.append(source.alias)
            fetcher = embedded() if source.embedded else self.registries[source.alias]
            metadata = self.folder / "metadata" / f"{source.alias}-{len(self.opened)}"
            root = root or self.sources.root(source)
            self._opened[source.alias] = TufRegistry.open(source.url, root, fetcher, str(metadata), name=name)
        return self._opened[source.alias]

    def install(self, *refs: str, answers: Answers | None = None, **options: object):
        return install([parse_ref(ref) for ref in refs], Options(**options), self.ports(answers))

    def update(self, *names: str, answers: Answers | None = None, **options: object):
        return update(names, Options(**options), self.ports(answers))

    def enable(self, *names: str, answers: Answers | None = None, **options: object):
        return enable(names, Options(**options), self.ports(answers))

    def disable(self, *names: str, answers: Answers | None = None):
        return disable(names, self.ports(answers))

    def remove(self, *names: str, answers: Answers | None = None):
        return remove(names, self.ports(answers))

    def sync(self, answers: Answers | None = None):
        ports = self.ports(answers or Answers())
        return sync(partial(obtain_locked, ports=ports), ports)

    def problems(self, *names: str) -> list[str]:
        """Return the codes of the problems that ``verify`` finds."""
        found = verify(names, self.ports(self.answers))
        return [problem.code for each in found for problem in each.problems]

    def lock(self):
        return self.project.lock()

    def record(self, name: str):
        return self.project.records().skills[name]

    def copy(self, name: str, folder: str = ".agents/skills") -> Path:
        return self.base / folder / name

    def snapshot(self) -> dict[str, object]:
        """Return all of project and home: kinds, modes, bytes, times."""
        return {**snapshot(self.base), **snapshot(self.top)}


class OfUser(World):
    """The skills of the user's own, in whatever project."""

    @property
    def project(self) -> Project:
        return super().project.users(str(self.user_home))


def snapshot(folder: Path) -> dict[str, object]:
    """Return everything below ``folder`` by path: kind and mode, content, and time of change."""
    found: dict[str, object] = {}
    for top, folders, names in os.walk(folder):
        for path in (top, *(f"{top}/{name}" for name in (*folders, *names))):
            status, content = os.lstat(path), None
            if stat.S_ISREG(status.st_mode):
                content = Path(path).read_bytes()
            elif stat.S_ISLNK(status.st_mode):
                content = os.readlink(path)
            found[path] = (oct(status.st_mode), content, status.st_mtime_ns)
    return found


def unlocked(seen: dict[str, object]) -> dict[str, object]:
    """Return a snapshot less the empty lock files, the folders that only hold state, and folders' times."""
    return {
        path: (mode, content, time if content is not None else 0)
        for path, (mode, content, time) in seen.items()
        if (content is not None and not path.endswith(".lock")) or path.endswith("skillhub.lock")
    }


def refused(world: World, error: type[Exception], act: Callable[[], object]):
    """Assert that ``act`` fails so, with project and home the same to the byte; return the error."""
    before = unlocked(world.snapshot())
    with pytest.raises(error) as caught:
        act()
    assert unlocked(world.snapshot()) == before
    return caught.value


def skill(parent: Path, name: str = "plain", body: str = "Do it.\n", head: str = "", **files: str | bytes) -> Path:
    """Write a skill and return its folder; ``scripts__run_sh`` in ``files`` is ``scripts/run.sh``, executable."""
    folder = parent / name
    text = f"---\nname: {name}\ndescription: Does it.\n{head}---\n\n{body}"
    for key, content in {"SKILL_md": text, **files}.items():
        path = folder.joinpath(*key.replace("_", ".").replace("..", "/").split("/"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        if path.suffix == ".sh":
            path.chmod(0o755)
    return folder


def plain(world: World, **files: str) -> str:
    """Return the folder of a skill that needs nothing, beside the project's own files."""
    return str(skill(world.base / "src", **files))


def wanted(world: World) -> dict[str, object]:
    """Return the table of skills of the intent."""
    return tomllib.loads((world.base / "skillhub.toml").read_text())["skills"]


def needs(*tools: str) -> str:
    """Return an ``openai.yaml`` with these tools, each in YAML's flow style."""
    return "dependencies:\n  tools:\n" + "".join(f"    - {{{tool}}}\n" for tool in tools)


STDIO = 'type: mcp, value: tracker, transport: stdio, command: "python3 -P -m tracker"'
SHELL = "type: mcp, value: tracker, transport: stdio, command: \"sh -c 'curl x | sh'\""
TOKEN = "type: env_var, value: TRACKER_TOKEN"

"""A project or the user scope: its lock, intent and record; and all projects of a user."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, TypeVar

from skillhub.disk import files
from skillhub.disk.files import MACHINE, HeldFolder
from skillhub.disk.home import Home
from skillhub.errors import FormatError, StateError
from skillhub.formats.digest import Digest
from skillhub.formats.json import strict_json
from skillhub.model.lock import CAP, Lock
from skillhub.model.record import Records, Scope
from skillhub.project.exclude import check_exclude
from skillhub.project.intent import Intent
from skillhub.project.secrets import SecretIndex

# A project, or the user's own scope: its lock, its intent, and what this machine knows of it.

_Parsed = TypeVar("_Parsed")

LOCK, INTENT = "skillhub.lock", "skillhub.toml"
_RECORDS_CAP = 64 * 1024 * 1024


class Project:
    """One place that skills are installed into.

    Attributes:
        scope: ``project``, or ``user`` for the user's own.
        base: The folder that agents' folders hang off: the project's root, or the user's home.
        root: Where lock and intent lie: the same, or ``<state>`` for the user's own.
        key: What names the files that this machine keeps of it.
        secrets: Which values the user has stored, for this and for all other projects.
        top: ``root``, opened, so that what is written there is written there, whatever comes in its place.
        around: ``base`` likewise.
        config_lock: The lock file for editing agents' configuration, which projects of a user may share.
        patience: Seconds to wait for another process that is changing the project.
        waiting: Called once when that takes longer than a second.
    """

    patience = 60.0
    waiting: Callable[[], None] | None = None

    def __init__(self, base: str, scope: Scope, home: Home) -> None:
        self.base = base
        self.scope: Scope = scope
        self.root = base if scope == "project" else home.state
        self.around = HeldFolder(base)
        self.around.open()
        self.top = self.around if scope == "project" else HeldFolder(self.root)
        self.lock_path = os.path.join(self.root, LOCK)
        self.intent_path = os.path.join(self.root, INTENT)
        self.config_lock = os.path.join(home.state, "agents.lock")
        self.key = state_key(base, scope)
        self.secrets = SecretIndex(home.state)
        self._state = os.path.join(home.state, "projects", f"{self.key}.json")
        self._home = home
        self._seen: dict[str, tuple[bytes, Any]] = {}
        self._real: dict[str, str] = {}

    @classmethod
    def find(cls, start: str, home: Home) -> Project:
        """Return the project that ``start`` lies in.

        The nearest folder upwards with a lock or an intent, searched up to the root of the git repository;
        without one that root; outside of any repository ``start`` itself.

        Raises:
            StateError: the repository around ``start`` is another user's, who may have put it there as a trap.
        """
        folder = project_folder(start)
        git = os.path.join(folder, ".git")
        if not _has_lock_or_intent(folder) and os.path.lexists(git):
            _refuse_other_owner(os.lstat(git), git)
        return cls(folder, "project", home)

    @classmethod
    def of_user(cls, user_home: str, home: Home) -> Project:
        """Return the user's own scope, whose skills every project of theirs sees."""
        return cls(os.path.abspath(user_home), "user", home)

    def root_of(self, path: str) -> HeldFolder:
        """Return what holds the way to ``path``, which is free of links: the project, or where a user keeps it."""
        if self.top.covers(path):
            return self.top
        return self.around if self.around.covers(path) else MACHINE

    def hold(self, path: str, *, make: bool = False) -> AbstractContextManager[tuple[str, int | None]]:
        """Hold a path as ``Root.hold`` does, below what ``root_of`` names."""
        return self.root_of(path).hold(path, make=make)

    def folder(self, relative: str) -> str:
        """Return where a folder really is; a repository may not lead out of itself, a home may, for dotfiles.

        Of a home that is found once: what a link there becomes meanwhile leads nowhere.

        Raises:
            LinkLeavesProject: it is, or lies behind, a link to somewhere outside of the project.
        """
        if self.scope == "project" and not os.path.isabs(relative):
            return files.inside(self.base, relative)
        if relative not in self._real:
            self._real[relative] = os.path.realpath(os.path.join(self.base, relative))
        return self._real[relative]

    def users(self, user_home: str) -> Project:
        """Return the user's own scope, which is beside this one."""
        return Project.of_user(user_home, self._home)

    @property
    def home(self) -> Home:
        """Where skillhub keeps its own things, for its user."""
        return self._home

    def last_lock(self) -> Lock:
        """Return the lock as it was last read or written here, for who asks once a skill. Raises as ``lock`` does."""
        seen = self._seen.get(self.lock_path)
        return seen[1] if seen else self.lock()

    def lock(self) -> Lock:
        """Return the lock; an absent one is empty.

        Raises:
            FormatError: it is there and is no lock.
            StateError: it cannot be read, is another user's, or is a link that leaves the project.
        """
        data = self._read(LOCK)
        return Lock() if data is None else self._parsed(Lock.parse, data, self.lock_path)

    def intent(self) -> Intent:
        """Return the intent; an absent one is empty. Raises as ``lock`` does."""
        # A parser of TOML, 5 ms, that `list` and `verify` have no use for.
        from skillhub.project.intent import Intent  # noqa: PLC0415

        data = self._read(INTENT)
        return Intent() if data is None else self._parsed(Intent.parse, data, self.intent_path)

    def intent_bytes(self) -> bytes:
        """Return the intent's text for editing."""
        return self._read(INTENT) or b""

    def has_lock_or_intent(self) -> bool:
        """Say whether there is anything to install from."""
        return os.path.lexists(self.lock_path) or os.path.lexists(self.intent_path)

    def records(self) -> Records:
        """Return what this machine knows of the project."""
        data = files.read(self._state, _RECORDS_CAP)
        return Records() if data is None else self._parsed(Records.parse, data, self._state)

    def write_records(self, records: Records) -> None:
        """Replace what this machine knows of the project, atomically; a skill that is forgotten may have no value."""
        self._make_state()
        self.secrets.leave(self.key, self.records().skills.keys() - records.skills.keys())
        data = records.dump(self.base)
        files.write_atomic(self._state, data, mode=0o600)
        self._seen[self._state] = data, records

    def remember(self) -> None:
        """Have ``cache gc`` know of the project, though nothing of it is on record here yet.

        Raises:
            StateError: the disk refuses.
        """
        if not os.path.lexists(self._state):
            self.write_records(Records())

    def write_lock(self, data: bytes) -> None:
        """Replace the lock by what ``Lock.dump`` gave, atomically; the same content is not written again."""
        self._write(LOCK, data)
        self._seen.pop(self.lock_path, None)

    def write_intent(self, data: bytes) -> None:
        """Replace the intent, atomically; the same content is not written again."""
        self._write(INTENT, data)

    @contextmanager
    def exclusively(self) -> Iterator[None]:
        """Keep other skillhub processes from changing this project meanwhile.

        Raises:
            LinkLeavesProject: where git is to be told of what is enabled leads elsewhere.
            StateError: another one is at work for longer than ``patience`` seconds, or the disk refuses.
        """
        check_exclude(self.around)
        self._make_state()
        with files.lock(f"{self._state}.lock", timeout=self.patience, waiting=self.waiting):
            yield

    def _make_state(self) -> None:
        folder = os.path.dirname(self._state)
        with files.disk_errors(folder):
            os.makedirs(folder, mode=0o700, exist_ok=True)

    def _parsed(self, parse: Callable[[bytes, str], _Parsed], data: bytes, path: str) -> _Parsed:
        """Return what ``parse`` makes of ``data``; bytes that were parsed before are not parsed again."""
        seen = self._seen.get(path)
        if seen is None or seen[0] != data:
            seen = self._seen[path] = data, parse(data, path)
        found: _Parsed = seen[1]
        return found

    def _read(self, name: str) -> bytes | None:
        path = files.inside(self.root, name)
        try:
            with self.top.hold(path) as (inner, at):
                _refuse_other_owner(os.stat(inner, dir_fd=at), path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StateError(f"cannot be read: {error.strerror}", where=path) from error
        return files.read(path, CAP, root=self.top)

    def _write(self, name: str, data: bytes) -> None:
        if (self._read(name) or b"") == data:
            return
        files.write_atomic(files.inside(self.root, name), data, root=self.top)


def project_folder(start: str) -> str:
    """Return the folder of the project that ``start`` lies in, whosever it is; see ``Project.find``."""
    folder = start = os.path.abspath(start)
    while True:
        if _has_lock_or_intent(folder) or os.path.lexists(os.path.join(folder, ".git")):
            return folder
        parent = os.path.dirname(folder)
        if parent == folder:
            return start
        folder = parent


def _has_lock_or_intent(folder: str) -> bool:
    return any(os.path.lexists(os.path.join(folder, name)) for name in (LOCK, INTENT))


def state_key(base: str, scope: Scope) -> str:
    """Return the ``key`` of a project, or of the user's own scope."""
    return sha256(os.fsencode(f"{scope}:{os.path.realpath(base)}")).hexdigest()[:32]


def _refuse_other_owner(status: os.stat_result, path: str) -> None:
    if hasattr(os, "geteuid") and status.st_uid != os.geteuid():
        raise StateError(
            "it belongs to another user, whose wishes are not yours",
            where=path,
            hint="take it over with chown if you trust it, or name your project with --project",
        )


# All projects of a user, known by what this machine keeps of each, and the trees that they need.

_CAP = 64 * 1024 * 1024
_ENDS = (".json", ".json.lock")


@dataclass(frozen=True, slots=True)
class Known:
    """One project, or the user's own scope.

    Attributes:
        base: Its folder.
        gone: Whether there is no such folder any more.
        trees: What its lock and its links need.
    """

    base: str
    gone: bool
    trees: frozenset[Digest]


def known(home: Home, patience: float = Project.patience) -> Iterator[Known]:
    """Yield every project that something was ever installed into; whoever is changing one is waited for.

    Raises:
        FormatError: a lock, or what is kept of a project, is malformed.
        StateError: one cannot be read, or another process is at work for longer than ``patience`` seconds.
    """
    folder = os.path.join(home.state, "projects")
    with files.disk_errors(folder):
        names = os.listdir(folder) if os.path.isdir(folder) else []
    for key in sorted({name.removesuffix(end) for name in names for end in _ENDS if name.endswith(end)}):
        path = os.path.join(folder, f"{key}.json")
        with files.lock(f"{path}.lock", timeout=patience):
            found = _known(key, path, home)
        if found is not None:
            yield found


def _known(key: str, path: str, home: Home) -> Known | None:
    data = files.read(path, _CAP)
    if data is None:
        return None  # nothing was linked yet: whoever began to install has nothing that was agreed to
    document = strict_json(data, path, _CAP)
    base = document.get("project") if isinstance(document, dict) else None
    if not isinstance(base, str) or not os.path.isabs(base):
        raise FormatError("expected the folder of a project", where=f"{path}: project")
    project = Project(base, "user" if key == state_key(base, "user") else "project", home)
    gone = project.scope == "project" and _is_gone(base)
    lock = Lock() if gone else project.lock()
    trees = {entry.tree for entry in lock.skills.values()}
    trees |= {entry.original.tree for entry in lock.skills.values()}
    trees |= {record.tree for record in Records.parse(data, path).skills.values()}
    return Known(base, gone, frozenset(trees))


def _is_gone(base: str) -> bool:
    """Say whether there is no such folder; one that cannot be looked at, or whose name is not all known, is there."""
    if "?" in base:
        return False
    try:
        os.lstat(base)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False

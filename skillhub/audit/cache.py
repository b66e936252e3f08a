"""Cache: the files that skillhub keeps on this disk, and the removal of unused ones.

A tree that seems unused is first set aside. Then every project is read again, each under its lock, and a tree that
one of them needs by now is put back. A process that installs the tree later finds it missing, and stores it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from typing import Literal

from skillhub.command.ports import Ports, ask
from skillhub.disk import files
from skillhub.disk.folders import remove_tree
from skillhub.disk.home import Home
from skillhub.errors import FormatError, StateError
from skillhub.formats.digest import Digest, is_hex
from skillhub.formats.text import as_command, command
from skillhub.install.pins import pin_name
from skillhub.model.lock import Lock
from skillhub.model.manifest import glance
from skillhub.model.provenance import Records
from skillhub.model.question import Asked, Question
from skillhub.model.tree import SKILL_MD
from skillhub.project.project import Project, state_key
from skillhub.project.store import Store
from skillhub.scan.results import PART

DAY = 24 * 60 * 60.0
_SHOWN = 20
_HEAD_CAP = 1 << 20
_PARTS = {"http": "downloads", "git": "git"}


@dataclass(frozen=True, slots=True)
class CachedEntry:
    """A folder or file of the store or the cache; ``size`` is in bytes."""

    name: str
    path: str
    files: int
    size: int


WasteKind = Literal["tree", "signer", "leftover", "download", "repository", "scan"]


@dataclass(frozen=True, slots=True)
class Waste:
    """An unused file or folder.

    Attributes:
        name: For a tree, the name of its skill, if it can be read.
        tree: The digest of a tree.
    """

    kind: WasteKind
    path: str
    size: int
    name: str | None = None
    tree: Digest | None = None


@dataclass(frozen=True, slots=True)
class Collected:
    """What was removed, or could be.

    Attributes:
        gone: The deleted projects that alone needed some of the trees.
        asked: The questions, with their answers.
    """

    waste: tuple[Waste, ...]
    gone: tuple[str, ...] = ()
    asked: tuple[Asked, ...] = ()

    @property
    def size(self) -> int:
        """The total size in bytes."""
        return sum(waste.size for waste in self.waste)


def places(home: Home, store: Store) -> tuple[CachedEntry, ...]:
    """Return the store and each part of the cache."""
    parts = dict.fromkeys((*_PARTS, *files.names_in(home.cache)))
    paths = {"store": store.root, **{_PARTS.get(part, part): os.path.join(home.cache, part) for part in parts}}
    sizes = {name: [size for _, size, _ in _files(path)] for name, path in paths.items()}
    return tuple(CachedEntry(name, path, len(sizes[name]), sum(sizes[name])) for name, path in paths.items())


def collect(home: Home, days: float, ports: Ports, *, dry_run: bool = False) -> Collected:
    """Remove stored trees that no project needs, downloads older than ``days``, and files left by killed processes.

    Raises:
        Refused: the user did not agree to the removal of trees; nothing was removed.
        FormatError: a project's lock is malformed, so its needs are unknown; nothing was removed.
        StateError: the disk prevents it, or another process works on a project for too long.
    """
    now = ports.clock().timestamp()
    projects = list(known_projects(home))
    trees = [*_unused_trees(projects, ports.store), *_unused_signers(projects, home, now - DAY, ports)]
    unused = {item.tree for item in trees}
    gone = tuple(each.base for each in projects if each.gone and not unused.isdisjoint(each.trees))
    # On some systems several of these are the same folder, or one contains another.
    folders = (home.config, home.data, home.cache, home.state)
    leftovers = {each.path: each for folder in folders for each in _incomplete(folder, now - DAY)}
    others = [*leftovers.values(), *_old_downloads(home, now - days * DAY)]
    if dry_run:
        return Collected((*trees, *others), gone)
    answers = ask(_questions(trees, gone), ports)
    dropped = _remove_trees([item.tree for item in trees if item.tree], home, ports.store)
    unpinned = {item.path for item in _unused_signers(list(known_projects(home)), home, now - DAY, ports)}
    pins = [item for item in trees if item.kind == "signer" and item.path in unpinned]
    removed = [item for item in trees if item.tree in dropped]
    removed += [item for item in (*pins, *others) if _remove(item)]
    return Collected(tuple(removed), gone, tuple(answers))


def _needed_trees(projects: Sequence[KnownProject]) -> frozenset[Digest]:
    return frozenset(tree for project in projects if not project.gone for tree in project.trees)


def _unused_trees(projects: Sequence[KnownProject], store: Store) -> Iterator[Waste]:
    needed = _needed_trees(projects)
    for tree in store.trees():
        if tree not in needed:
            path = store.path(tree)
            yield Waste("tree", path, _size(path), _declared_name(path), tree)


def _unused_signers(projects: Sequence[KnownProject], home: Home, before: float, ports: Ports) -> Iterator[Waste]:
    """Return the pinned signers of entries that no lock has; the lock of a recent one may not be written yet."""
    folder = os.path.join(home.state, "signers")
    roots = {None, *(source.root for source in ports.sources.all().values())}
    needed = set[str]()
    for lock in (project.lock for project in projects):
        known_roots = roots | {source.root for source in lock.sources.values()}
        for name, entry in lock.skills.items():
            if entry.signed_by:
                pairs = product({entry, entry.original}, known_roots)
                needed.update(f"{pin_name(name, variant, root).hex}.pem" for variant, root in pairs)
    pins = _old_files(folder, before, "signer")
    return (pin for pin in pins if os.path.basename(pin.path) not in needed)


def _declared_name(path: str) -> str | None:
    """Return the name that a stored skill declares, or None."""
    with suppress(FormatError, StateError):
        return glance(files.read(os.path.join(path, SKILL_MD), _HEAD_CAP) or b"").name or None
    return None


def _old_downloads(home: Home, before: float) -> Iterator[Waste]:
    # One file for each working folder and command line.
    yield from _old_files(os.path.join(home.state, "proved"), before, "leftover")
    yield from _old_repositories(home.cache, before)
    for part in files.names_in(home.cache):
        if part != "git":
            yield from _old_files(os.path.join(home.cache, part), before, "scan" if part == PART else "download")


def _questions(trees: Sequence[Waste], gone: Sequence[str]) -> list[Question]:
    if not trees:
        return []
    size = sum(waste.size for waste in trees)
    stored = [waste for waste in trees if waste.kind == "tree"]
    lines = [f"{waste.name or 'a skill'}: {waste.tree}, {waste.size} bytes" for waste in stored[:_SHOWN]]
    if len(stored) > _SHOWN:
        lines.append(f"and {len(stored) - _SHOWN} more")
    lines += [f"{base} used some of these, and no longer exists" for base in gone]
    skills, signers = len(stored), len(trees) - len(stored)
    counts = [(skills, "a stored skill", "stored skills"), (signers, "a pinned signer", "pinned signers")]
    amounts = " and ".join(thing if count == 1 else f"{count} {things}" for count, thing, things in counts if count)
    return [Question("unused", "store", f"Remove {amounts} that no project needs, {size} bytes?", tuple(lines))]


def _remove_trees(trees: Sequence[Digest], home: Home, store: Store) -> Set[Digest]:
    """Remove the trees that still no project needs, and return them."""
    aside: dict[Digest, str] = {}
    needed: Set[Digest] = frozenset(trees)  # all of them, until every project was read
    try:
        for tree in trees:
            aside[tree] = store.set_aside(tree)
        needed = _needed_trees(list(known_projects(home)))
    finally:
        for tree, place in aside.items():
            if tree in needed:
                store.put_back(tree, place)
            else:
                store.discard(place)
    return aside.keys() - needed


def _remove(waste: Waste) -> bool:
    """Remove a file or a folder, a repository only if no process uses it; return whether it was removed."""
    gone = waste.path
    try:
        if waste.kind == "repository":
            gone = f"{waste.path}.{os.urandom(4).hex()}.gone"
            with files.lock(f"{waste.path}.lock", timeout=0):
                os.rename(waste.path, gone)
        remove_tree(gone)
    except (StateError, OSError):
        return False
    return True


# All projects of a user, known by their records on this machine, and the trees that they need.

_CAP = 64 * 1024 * 1024
_ENDS = (".json", ".json.lock")


@dataclass(frozen=True, slots=True)
class KnownProject:
    """One project, or the user's own scope.

    Attributes:
        base: The folder of the project.
        gone: Whether the folder no longer exists.
        trees: The trees that its lock and its links need.
        lock: The lock; an empty one if the project is gone.
    """

    base: str
    gone: bool
    trees: frozenset[Digest]
    lock: Lock


def known_projects(home: Home, patience: float = Project.patience) -> Iterator[KnownProject]:
    """Yield every project into which a skill was ever installed; wait for processes that change one.

    Raises:
        FormatError: a lock, or the record of a project, is malformed.
        StateError: one cannot be read, or another process works on a project for longer than ``patience`` seconds.
    """
    folder = os.path.join(home.state, "projects")
    names = files.names_in(folder)
    for key in sorted({name.removesuffix(end) for name in names for end in _ENDS if name.endswith(end)}):
        path = os.path.join(folder, f"{key}.json")
        with files.lock(f"{path}.lock", timeout=patience):
            project = _read_project(key, path, home)
        if project is not None:
            yield project


def _read_project(key: str, path: str, home: Home) -> KnownProject | None:
    data = files.read(path, _CAP)
    if data is None:
        return None  # no skill is linked yet: a process that is installing now has no consent yet
    records = Records.parse(data, path)
    if not os.path.isabs(base := records.project):
        raise FormatError("expected the folder of a project", where=f"{path}: project")
    project = Project(base, "user" if key == state_key(base, "user") else "project", home)
    gone = project.scope == "project" and _is_gone(base)
    try:
        lock = Lock() if gone else project.lock()
    except FormatError as error:
        if project.scope == "project" and error.hint:
            fix = command("project", "lock", "fix")
            error.hint = error.hint.replace(fix, as_command("skillhub", "lock", "fix", "--project", base))
        raise
    trees = {entry.tree for entry in lock.skills.values()}
    trees |= {entry.original.tree for entry in lock.skills.values()}
    trees |= {record.tree for record in records.skills.values()}
    return KnownProject(base, gone, frozenset(trees), lock)


def _is_gone(base: str) -> bool:
    """Return whether a folder no longer exists; False if it cannot be read, or if its name contains ``?``."""
    if "?" in base:
        return False
    try:
        os.lstat(base)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


# The size of skillhub's folders, and leftovers and old files in them. No link is followed.

# Names of the temporary files and folders of `Store`, `write_atomic` and `GitCache`.
_LEFTOVER = re.compile(
    r"(?a)[0-9a-f]{64}\.[0-9a-f]{8}\.tmp(?:\.listing)?|\.skillhub-[0-9a-f]{16}\.tmp|[0-9a-f]{32}\.[0-9a-f]{8}\.gone"
)
_REPOSITORY = re.compile(r"[0-9a-f]{32}", re.ASCII)
# The folders into which git writes when it fetches.
_FRESH = ("", "objects", os.path.join("objects", "pack"), os.path.join("refs", "commits"))


def _size(path: str) -> int:
    """Return the bytes of the files below ``path``, or of the file ``path`` itself."""
    return sum(size for _, size, _ in _files(path))


def _incomplete(folder: str, before: float) -> Iterator[Waste]:
    """Yield incomplete files and folders of killed processes below ``folder``, last changed before that time (epoch).

    Stored trees are skipped: their files may have any name.
    """
    for above, folders, names in os.walk(folder):
        for name in sorted((*folders, *names)):
            path = os.path.join(above, name)
            if _LEFTOVER.fullmatch(name) and _change_time(path, float("inf")) < before:
                yield Waste("leftover", path, _size(path))
        folders[:] = [name for name in folders if not (_LEFTOVER.fullmatch(name) or is_hex(name))]


def _old_files(folder: str, before: float, kind: WasteKind) -> Iterator[Waste]:
    """Yield the files below ``folder`` that were last changed before that time, except lock files."""
    for path, size, changed in sorted(_files(folder)):
        if changed < before and not path.endswith(".lock"):
            yield Waste(kind, path, size)


def _old_repositories(cache: str, before: float) -> Iterator[Waste]:
    """Yield the cached repositories into which nothing was fetched since that time."""
    folder = os.path.join(cache, "git")
    for path in (os.path.join(folder, name) for name in files.names_in(folder) if _REPOSITORY.fullmatch(name)):
        is_folder = os.path.isdir(path) and not os.path.islink(path)
        if is_folder and max(_change_time(os.path.join(path, name), 0) for name in _FRESH) < before:
            yield Waste("repository", path, _size(path))


def _files(path: str) -> Iterator[tuple[str, int, float]]:
    """Yield each file below ``path``, or ``path`` itself, with its size and time of change."""
    is_folder = os.path.isdir(path) and not os.path.islink(path)
    below = (os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names)
    for each in below if is_folder else (path,):
        with suppress(OSError):  # removed meanwhile
            status = os.lstat(each)
            yield each, status.st_size, status.st_mtime


def _change_time(path: str, otherwise: float) -> float:
    try:
        return os.lstat(path).st_mtime
    except OSError:
        return otherwise

"""Cache: the files that skillhub keeps on this disk, and the removal of unused ones.

A tree that seems unused is first set aside. Then every project is read again, each under its lock, and a tree that
one of them needs by now is put back. A process that installs the tree later finds it missing, and stores it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Literal

from skillhub.disk import files, usage
from skillhub.disk.home import Home
from skillhub.disk.usage import abandoned
from skillhub.errors import FormatError, StateError
from skillhub.formats.digest import Digest
from skillhub.formats.json import strict_json
from skillhub.install.candidates import pin_name
from skillhub.install.context import Ports, ask
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


@dataclass(frozen=True, slots=True)
class Waste:
    """An unused file or folder.

    Attributes:
        about: A description for a person: for a tree the name of its skill, if it can be read.
        tree: The digest of a tree.
    """

    kind: Literal["tree", "signer", "leftover", "download", "repository", "scan"]
    path: str
    size: int
    about: str = ""
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
        return sum(each.size for each in self.waste)


def places(home: Home, store: Store) -> tuple[CachedEntry, ...]:
    """Return the store and each part of the cache."""
    parts = dict.fromkeys((*_PARTS, *files.names_in(home.cache)))
    paths = {"store": store.root, **{_PARTS.get(part, part): os.path.join(home.cache, part) for part in parts}}
    return tuple(CachedEntry(name, path, *usage.use(path)) for name, path in paths.items())


def collect(home: Home, days: float, ports: Ports, *, dry_run: bool = False) -> Collected:
    """Remove stored trees that no project needs, downloads older than ``days``, and files left by killed processes.

    Raises:
        Refused: the user did not agree to the removal of trees; nothing was removed.
        FormatError: a project's lock is malformed, so its needs are unknown; nothing was removed.
        StateError: the disk prevents it, or another process works on a project for too long.
    """
    now = ports.clock().timestamp()
    projects = list(known_projects(home))
    trees = [*_unused(projects, ports.store), *_signers(projects, home, now - DAY, ports)]
    gone = _gone(projects, trees)
    rest = [*_leftovers(home, now - DAY), *_old(home, now - days * DAY)]
    if dry_run:
        return Collected((*trees, *rest), gone)
    asked = ask(_questions(trees, gone), ports)
    dropped = _drop([each.tree for each in trees if each.tree], home, ports.store)
    still = {each.path for each in _signers(list(known_projects(home)), home, now - DAY, ports)}
    pins = [each for each in trees if each.kind == "signer" and each.path in still]
    removed = [each for each in trees if each.tree in dropped] + [each for each in (*pins, *rest) if _remove(each)]
    return Collected(tuple(removed), gone, tuple(asked))


def _needed(projects: Sequence[KnownProject]) -> frozenset[Digest]:
    return frozenset(tree for each in projects if not each.gone for tree in each.trees)


def _unused(projects: Sequence[KnownProject], store: Store) -> Iterator[Waste]:
    needed = _needed(projects)
    for tree in store.trees():
        if tree not in needed:
            path = store.path(tree)
            yield Waste("tree", path, usage.use(path).size, _name(path), tree)


def _signers(projects: Sequence[KnownProject], home: Home, before: float, ports: Ports) -> Iterator[Waste]:
    """Yield pinned signers of entries that no lock has, except recent ones, whose lock may not be written yet."""
    folder = os.path.join(home.state, "signers")
    roots = {None, *(source.root for source in ports.sources.all().values())}
    needed = {
        f"{pin_name(name, each, root).hex}.pem"
        for lock in (project.lock for project in projects)
        for name, entry in lock.skills.items()
        if entry.signed_by
        for each in {entry, entry.original}
        for root in roots | {source.root for source in lock.sources.values()}
    }
    for old in usage.old_files(folder, before):
        if os.path.basename(old.path) not in needed:
            yield Waste("signer", old.path, old.size)


def _name(path: str) -> str:
    """Return the name that a stored skill declares, or an empty string."""
    try:
        data = files.read(os.path.join(path, SKILL_MD), _HEAD_CAP)
    except (FormatError, StateError):
        return ""
    return glance(data or b"").name or ""


def _gone(projects: Sequence[KnownProject], trees: Sequence[Waste]) -> tuple[str, ...]:
    unused = {each.tree for each in trees}
    return tuple(each.base for each in projects if each.gone and not unused.isdisjoint(each.trees))


def _leftovers(home: Home, before: float) -> Iterator[Waste]:
    # On some systems several of these are the same folder, or one contains another.
    folders = (home.config, home.data, home.cache, home.state)
    found = {each.path: each for folder in folders for each in usage.leftovers(folder, before)}
    found |= {each.path: each for each in abandoned(before)}
    return (Waste("leftover", each.path, each.size) for each in found.values())


def _old(home: Home, before: float) -> Iterator[Waste]:
    for each in usage.old_repositories(home.cache, before):
        yield Waste("repository", each.path, each.size)
    for part in files.names_in(home.cache):
        if part != "git":
            for each in usage.old_files(os.path.join(home.cache, part), before):
                yield Waste("scan" if part == PART else "download", each.path, each.size)


def _questions(trees: Sequence[Waste], gone: Sequence[str]) -> list[Question]:
    if not trees:
        return []
    size = sum(each.size for each in trees)
    stored = [each for each in trees if each.kind == "tree"]
    lines = [f"{each.about or 'a skill'}: {each.tree}, {each.size} bytes" for each in stored[:_SHOWN]]
    lines += [f"and {len(stored) - _SHOWN} more"] if len(stored) > _SHOWN else []
    lines += [f"{base} used some of these, and no longer exists" for base in gone]
    skills, signers = len(stored), len(trees) - len(stored)
    counts = [(skills, "a stored skill", "stored skills"), (signers, "a pinned signer", "pinned signers")]
    many = " and ".join(one if count == 1 else f"{count} {more}" for count, one, more in counts if count)
    message = f"Remove {many} that no project needs, {size} bytes?"
    return [Question("unused", "store", message, tuple(lines))]


def _drop(trees: Sequence[Digest], home: Home, store: Store) -> Set[Digest]:
    """Remove the trees that still no project needs, and return them."""
    aside: dict[Digest, str] = {}
    needed: Set[Digest] = frozenset(trees)  # all of them, until every project was read
    try:
        for tree in trees:
            aside[tree] = store.set_aside(tree)
        needed = _needed(list(known_projects(home)))
    finally:
        for tree, place in aside.items():
            if tree in needed:
                store.put_back(tree, place)
            else:
                store.discard(place)
    return aside.keys() - needed


def _remove(each: Waste) -> bool:
    if each.kind == "repository":
        return usage.remove_repository(each.path)
    return usage.remove(each.path)


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
            found = _known(key, path, home)
        if found is not None:
            yield found


def _known(key: str, path: str, home: Home) -> KnownProject | None:
    data = files.read(path, _CAP)
    if data is None:
        return None  # no skill is linked yet: a process that is installing now has no consent yet
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

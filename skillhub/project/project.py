"""A project or the user scope: its lock, intent and record; all projects of a user; the git repository around one."""

from __future__ import annotations

import os
import posixpath
import re
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import Any, TypeAlias, TypeVar

from skillhub.disk import files
from skillhub.disk.files import MACHINE, HeldFolder
from skillhub.disk.home import INTENT, LOCK, Home, has_lock_or_intent, project_folder
from skillhub.errors import FormatError, LinkLeavesProject, StateError
from skillhub.formats.text import clean, deferred
from skillhub.formats.toml import spell_toml
from skillhub.model.hosts import Scope
from skillhub.model.lock import CAP, Lock
from skillhub.model.record import Records
from skillhub.project.intent import Intent, Wanted, edit
from skillhub.project.user_state import SecretIndex

# A project, or the user's own scope: its lock, its intent, and what this machine knows of it.

_Parsed = TypeVar("_Parsed")
_Parse: TypeAlias = Callable[[bytes, str], _Parsed]
_RECORDS_CAP = 64 * 1024 * 1024


class Project:
    """One place that skills are installed into.

    Attributes:
        scope: ``project``, or ``user`` for the user's own.
        base: The folder that agents' folders hang off: the project's root, or the user's home.
        root: Where lock and intent lie: the same, or ``<state>`` for the user's own.
        home: Where skillhub keeps its own things, for its user.
        key: What names the files that this machine keeps of it.
        secrets: Which values the user has stored, for this and for all other projects.
        top: ``root``, opened, so that what is written there is written there, whatever comes in its place.
        around: ``base`` likewise.
        config_lock: The lock file for editing agents' configuration, which projects of a user may share.
        patience: Seconds to wait for another process that is changing the project.
        waiting: Called once when that takes longer than a second.
        brought: What counts as its lock while it has none: the lock of a bundle.
        package: The package of the workspace that the command is about; nothing for its root, or where there is none.
    """

    patience = 60.0
    waiting: Callable[[], None] | None = None
    brought: Lock | None = None
    package = ""

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
        self.home = home
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
        folder = workspace_folder(start)
        git = os.path.join(folder, ".git")
        if not has_lock_or_intent(folder) and os.path.lexists(git):
            refuse_other_owner(os.lstat(git), git)
        project = cls(folder, "project", home)
        below = os.path.relpath(os.path.abspath(start), folder).split(os.sep)
        project.package = next((at for each in workspace_of(folder) or () if (at := package_at(below, each))), "")
        return project

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
        return Project.of_user(user_home, self.home)

    def last_lock(self) -> Lock:
        """Return the lock as it was last read or written here, for who asks once a skill. Raises as ``lock`` does."""
        return self._seen[self.lock_path][1] if self.lock_path in self._seen else self.lock()

    def read_bytes(self) -> str:
        """Return what tells the bytes of lock, intents and record, as last read, from others; of a bundle nothing."""
        rows = [(path, sha256(data).hexdigest()) for path, (data, _) in sorted(self._seen.items())]
        return "" if self.brought is not None else repr(rows)

    def lock(self) -> Lock:
        """Return the lock; an absent one is empty.

        Raises:
            FormatError: it is there and is no lock.
            StateError: it cannot be read, is another user's, or is a link that leaves the project.
        """
        return self._parsed(Lock.parse, self._read(LOCK), self.lock_path, self.brought or Lock())

    def intent(self) -> Intent:
        """Return the intent, with that of the packages if it is a workspace's; an absent one is empty.

        Raises:
            FormatError, StateError: as ``lock``.
            LinkLeavesProject: a package is a link to somewhere else.
        """
        found = self._intent(INTENT)
        if found.members is None or self.scope != "project":
            return found
        others = {each: self._intent(f"{each}/{INTENT}") for each in self.packages()}
        return with_packages(found, others, self.package)

    def _intent(self, name: str) -> Intent:
        return self._parsed(Intent.parse, self._read(name), os.path.join(self.root, name), Intent())

    def packages(self) -> list[str]:
        """Return the packages of the workspace as paths, sorted; none where there is no workspace.

        Raises:
            LinkLeavesProject: one is a link to somewhere else.
            FormatError: one that is named is not there, or has a lock of its own.
        """
        return packages_in(self.root, self.members())

    def members(self) -> Sequence[str]:
        """Return what the workspace calls its packages, names and patterns; raises as ``lock``."""
        return self._intent(INTENT).members or ()

    def edit_intent(self, add: Mapping[str, Wanted], remove: Collection[str]) -> bool:
        """Set lines in the file of this package, take skills out of those of all; return whether any changed.

        Raises:
            FormatError, StateError: a file is malformed, or cannot be written.
        """
        changed = False
        for each in ["", *(self.packages() if self.scope == "project" else ())]:
            name = f"{each}/{INTENT}".lstrip("/")
            text = self._read(name) or b""
            lines = {key: moved(line, each, "") for key, line in add.items()} if each == self.package else {}
            if (edited := edit(text, lines, remove)) != text:
                self._write(name, edited)
                changed = True
        return changed

    def intent_bytes(self, package: str = "") -> bytes:
        """Return the text of the intent, or of a package's, for editing."""
        return self._read(os.path.join(package, INTENT)) or b""

    def has_lock_or_intent(self) -> bool:
        """Return whether there is anything to install from."""
        return any(map(os.path.lexists, (self.lock_path, self.intent_path))) or self.brought is not None

    def records(self) -> Records:
        """Return what this machine knows of the project."""
        return self._parsed(Records.parse, files.read(self._state, _RECORDS_CAP), self._state, Records())

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
        with files.disk_errors(folder := os.path.dirname(self._state)):
            os.makedirs(folder, mode=0o700, exist_ok=True)

    def _parsed(self, parse: _Parse[_Parsed], data: bytes | None, path: str, absent: _Parsed) -> _Parsed:
        """Return what ``parse`` makes of ``data``; bytes that were parsed before are not parsed again."""
        if data is None:
            self._seen.pop(path, None)
            return absent
        seen = self._seen.get(path)
        if seen is None or seen[0] != data:
            seen = self._seen[path] = data, parse(data, path)
        found: _Parsed = seen[1]
        return found

    def _read(self, name: str) -> bytes | None:
        path = files.inside(self.root, name)
        try:
            with self.top.hold(path) as (inner, at):
                refuse_other_owner(os.stat(inner, dir_fd=at), path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StateError(f"cannot be read: {error.strerror}", where=path) from error
        return files.read(path, CAP, root=self.top)

    def _write(self, name: str, data: bytes) -> None:
        if (self._read(name) or b"") != data:
            files.write_atomic(files.inside(self.root, name), data, root=self.top)


def workspace_folder(start: str) -> str:
    """Return the folder of the project that ``start`` lies in: of a package of a workspace the workspace's root."""
    return workspace_around(project_folder(start))


def with_packages(root: Intent, others: Mapping[str, Intent], package: str) -> Intent:
    """Return what a workspace wants: the root, and its packages by their paths.

    Raises:
        FormatError: a package says more than ``[skills]``, or two want one skill in two ways.
    """
    skills, packages = dict(root.skills), {name: ("",) for name in root.skills}
    for path, other in others.items():
        if other != Intent(skills=other.skills, lists=other.lists):
            message = "a package of a workspace may have [skills] alone"
            raise FormatError(message, where=f"{path}/{INTENT}", hint=f"write the rest into the root's {INTENT}")
        for name, line in other.skills.items():
            wanted = moved(line, "", path)
            if skills.setdefault(name, wanted) != wanted:
                raise two_lines(name, (skills[name], packages[name][0]), (wanted, path))
            packages[name] = (*packages.get(name, ()), path)
    lists = root.lists or any(each.lists for each in others.values())
    return replace(root, skills=skills, packages=packages, lists=lists, package=package)


def moved(line: Wanted, old: str, new: str) -> Wanted:
    """Return a line whose path is relative to the package ``new``, as it is spelled relative to ``old``."""
    if old == new or line.path is None or line.git is not None or os.path.isabs(line.path) or line.path[0] == "~":
        return line
    path = posixpath.normpath(posixpath.join(new, line.path))
    return replace(line, path=posixpath.relpath(path, old) if old else path)


def two_lines(name: str, one: tuple[Wanted, str], other: tuple[Wanted, str]) -> FormatError:
    """Return the error for a skill that two packages want in two ways; each as the line and its package."""
    told = (f"{f'{path}/' if path else ''}{INTENT}: {clean(spell_toml(line.spell()))}" for line, path in (one, other))
    hint = "one lock has one version: write the same line into both"
    return FormatError(f"two packages want {name} in two ways: {'; '.join(told)}", where=INTENT, hint=hint)


def workspace_around(folder: str) -> str:
    """Return the root of the workspace that a folder is a package of, searched up to the root of git; or itself."""
    above, below = folder, list[str]()
    while not os.path.lexists(os.path.join(above, ".git")) and above != os.path.dirname(above):
        below.insert(0, os.path.basename(above))
        above = os.path.dirname(above)
        if any(package_at(below, each) == "/".join(below) for each in workspace_of(above) or ()):
            return above
    return folder


def workspace_of(folder: str) -> tuple[str, ...] | None:
    """Return the patterns of the workspace whose root a folder is; None of any other, and of another user's file."""
    path = os.path.join(folder, INTENT)
    try:
        if b"workspace" not in (data := files.read(path, CAP) or b""):
            return None
        refuse_other_owner(os.stat(path), path)
        return Intent.parse(data, path).members
    except (OSError, StateError, FormatError):  # told of by whoever reads it as the project's
        return None


def package_at(below: Sequence[str], pattern: str) -> str | None:
    """Return the package that a way below the root lies in, by one pattern."""
    parts = pattern.split("/")
    named = zip(below, parts, strict=False)
    is_in = len(below) >= len(parts) and all(_fits(name, part) for name, part in named)
    return "/".join(below[: len(parts)]) if is_in else None


def folders_matching(root: str, pattern: str) -> list[str]:
    """Return the folders below the root that a pattern names; hidden ones only by their name, and none behind a link.

    Links that lead back would be as many ways as there are folders, to the power of the pattern's depth.

    Raises:
        LinkLeavesProject: one leads out of the root.
    """
    found = [""]
    for part in pattern.split("/"):
        names = [
            f"{each}/{name}".lstrip("/") for each in found for name in _folders_in(os.path.join(root, each), part)
        ]
        found = [each for each in names if files.inside(root, each) == os.path.join(root, *each.split("/"))]
    return found


def _folders_in(folder: str, part: str) -> list[str]:
    with files.disk_errors(folder), os.scandir(folder) as rows:
        return [row.name for row in rows if _fits(row.name, part) and row.is_dir()]


def _fits(name: str, part: str) -> bool:
    # What no text can spell, no record of a place can.
    is_seen = name != "node_modules" and clean(name) == name and (name[0] != "." or part[0] == ".")
    return is_seen and fnmatchcase(name, part)


def refuse_other_owner(status: os.stat_result, path: str) -> None:
    """Refuse a file of a project that is another user's.

    Raises:
        StateError: it is.
    """
    if hasattr(os, "geteuid") and status.st_uid != os.geteuid():
        raise StateError(
            "it belongs to another user",
            where=path,
            hint="use chown if you trust it, or name your project with --project",
        )


def packages_in(root: str, patterns: Iterable[str]) -> list[str]:
    """Return the packages below the root of a workspace as paths, sorted.

    Raises:
        LinkLeavesProject: one is a link to somewhere else.
        FormatError: one that is named is not there, or has a lock of its own.
    """
    found: set[str] = set()
    for pattern in patterns:
        there = folders_matching(root, pattern)
        if not there and not {*pattern} & {*"*?["}:
            raise FormatError(f"the workspace names {pattern}, which is no folder", where=os.path.join(root, INTENT))
        found.update(there)
    for each in found:
        if os.path.lexists(own := os.path.join(root, each, LOCK)):
            raise FormatError("a package of a workspace has no lock of its own", where=own, hint="remove the file")
    return sorted(found)


def root_markers(start: str) -> tuple[str, ...]:
    """Return the files that mark the root of the project around a folder; those of a package do not."""
    return (LOCK,) if workspace_of(workspace_folder(start)) is not None else (INTENT, LOCK)


def state_key(base: str, scope: Scope, real: Callable[[str], str] = os.path.realpath) -> str:
    """Return the ``key`` of a project, or of the user's own scope."""
    return sha256(os.fsencode(f"{scope}:{real(base)}")).hexdigest()[:32]


# Keeping enabled copies out of git, through ``.git/info/exclude``, which no clone shares.
# A repository may come with its ``.git``: one that leads to another repository, which it does not belong to, is
# none.

_MAGIC = deferred(r"[\\*?\[]|^[!#]| $")
_LINE_BREAK = re.compile(r"[\r\n]")
_END = "# skillhub: end"
_EXCLUDE_CAP = 16 * 1024 * 1024
_NAME_CAP, _CONFIG_CAP = 4096, 1 << 20
_WORK_TREE = re.compile(r"(?i:worktree)\s*=\s*(.*)")
_ESCAPE = re.compile(r'\\(["\\])')
_TRIES = 5


@dataclass(frozen=True, slots=True)
class GitFolder:
    """The git repository around a project.

    Attributes:
        root: What the way to git's folder may not leave.
        folder: Git's folder, which all work trees share.
        prefix: Where the project is in its work tree, ``/`` between segments and around them.
        work_tree: What git calls the work tree; nothing for the first.
    """

    root: HeldFolder
    folder: str
    prefix: str
    work_tree: str


def exclude(project: HeldFolder, links: Iterable[str]) -> None:
    """Make this project's block of the exclude file name exactly these links, relative to it.

    Outside of a git repository nothing happens. Lines of others stay as they are, and so do the blocks of other
    projects in the same repository, whose work trees all share the one file.

    Raises:
        LinkLeavesProject: the file is, or lies behind, a link out of git's folder.
        StateError: it cannot be read or written.
    """
    _, git = _repository(project)
    if git is None:
        return
    start = f"# skillhub: enabled skills of {git.prefix}" + (f" in {git.work_tree}" if git.work_tree else "")
    ours = sorted(f"{git.prefix}{_literal(link)}" for link in links if not os.path.isabs(link))
    path = _exclude_path(git)
    for _ in range(_TRIES):
        before = files.read(path, _EXCLUDE_CAP, root=git.root)
        after = _with_block(before or b"", start, ours)
        if after == (before or b"") or files.swap(path, before, after, root=git.root):
            return
    raise StateError("another program keeps changing the file", where=path)


def check_exclude(project: HeldFolder) -> None:
    """Return if ``exclude`` can read its file, which is to be known before anything else is written.

    Raises:
        LinkLeavesProject, StateError: as ``exclude``.
    """
    if found := exclude_file(project):
        files.read(found[0], _EXCLUDE_CAP, root=found[1])


def exclude_file(project: HeldFolder) -> tuple[str, HeldFolder] | None:
    """Return the exclude file of the repository around a project, and what it may not leave; None outside of one.

    Raises:
        LinkLeavesProject: it is, or lies behind, a link out of git's folder.
    """
    _, git = _repository(project)
    return (_exclude_path(git), git.root) if git is not None else None


def unrelated_git(project: HeldFolder) -> str | None:
    """Return the nearest ``.git`` if it does not belong to this work tree, so that copies are not kept out of it."""
    path, git = _repository(project)
    return path if git is None else None


def _exclude_path(git: GitFolder) -> str:
    # Behind a link, the names of a repository's folders would be lines of a shell's file.
    return files.inside(git.folder, "info/exclude")


def _with_block(data: bytes, start: str, ours: list[str]) -> bytes:
    """Return the file with the block that ``start`` begins in place of the one that is there."""
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    bare = [line.rstrip("\r") for line in lines]
    if start in bare:
        first = bare.index(start)
        # Without its end, a block is only its first line: what follows may be somebody's own.
        last = bare.index(_END, first) if _END in bare[first:] else first
        del lines[first : last + 1]
    text = "\n".join(lines)
    if ours:
        text += ("" if text.endswith("\n") or not text else "\n") + "\n".join([start, *ours, _END]) + "\n"
    return text.encode("utf-8", "surrogateescape")


def _literal(path: str) -> str:
    """Return the pattern that means just this path; a line break, which no pattern can hold, as any character."""
    return _LINE_BREAK.sub("?", _MAGIC.sub(r"\\\g<0>", path))


def _repository(project: HeldFolder) -> tuple[str | None, GitFolder | None]:
    """Return the nearest ``.git``, and its repository if its folder is the user's own, and is of this work tree."""
    folder: HeldFolder | None = project
    below: list[str] = []
    with files.disk_errors(project.path or os.sep):
        while folder is not None and folder.path is not None:
            pointer = os.path.join(folder.path, ".git")
            with folder.hold(pointer) as (name, at):
                status = _status_of(name, at)
            if status is not None:
                git = _git_folder(folder, pointer, status)
                prefix = "".join(f"/{_literal(each)}" for each in reversed(below))
                return pointer, GitFolder(*git[:2], f"{prefix}/", _literal(git[2])) if git is not None else None
            below.append(os.path.basename(os.path.realpath(folder.path)))
            folder = folder.parent()
    return None, None


def _status_of(name: str, at: int | None) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=at, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _git_folder(tree: HeldFolder, pointer: str, status: os.stat_result) -> tuple[HeldFolder, str, str] | None:
    """Return what the way to git's folder may not leave, it, and which work tree it is; None if it is not ours."""
    if stat.S_ISREG(status.st_mode):
        # A work tree or a submodule: `.git` is a file that names the folder, `commondir` in it the shared one.
        text = (files.read(pointer, _NAME_CAP, root=tree) or b"").decode("utf-8", "surrogateescape")
        if not text.startswith("gitdir: "):
            return None
        return _linked_folder(os.path.realpath(os.path.join(os.path.dirname(pointer), text[8:].strip())), pointer)
    if files.is_link_at(pointer, None):
        with suppress(LinkLeavesProject):
            return tree, files.inside(os.path.dirname(pointer), ".git"), ""
        return _linked_folder(os.path.realpath(pointer), pointer)
    return (tree, pointer, "") if stat.S_ISDIR(status.st_mode) and _is_own(status) else None


def _linked_folder(git: str, pointer: str) -> tuple[HeldFolder, str, str] | None:
    """Return the folder that ``pointer`` leads to if that names ``pointer``, as git writes it into both."""
    try:
        with MACHINE.hold(os.path.join(git, "HEAD")) as (name, at):
            known_projects = _is_own(os.stat(os.path.dirname(name) or ".", dir_fd=at)) and _status_of(name, at)
        if not known_projects or not _leads_back(git, pointer):
            return None
        common = files.read(os.path.join(git, "commondir"), _NAME_CAP, root=MACHINE)
    except OSError:
        return None
    if common is None:
        return MACHINE, git, ""
    # A repository could name another's: git keeps the folder of a work tree in the one that they share.
    shared = os.path.realpath(os.path.join(git, os.fsdecode(common).strip()))
    if git != os.path.join(shared, "worktrees", os.path.basename(git)):
        return None
    return MACHINE, shared, os.path.basename(git)


def _leads_back(git: str, pointer: str) -> bool:
    """Return whether git's folder names this work tree: in ``gitdir``, or as ``core.worktree`` of a submodule."""
    back = files.read(os.path.join(git, "gitdir"), _NAME_CAP, root=MACHINE)
    named = [os.fsdecode(back).strip()] if back is not None else []
    for name in ("config", "config.worktree") if back is None else ():
        config = files.read(os.path.join(git, name), _CONFIG_CAP, root=MACHINE) or b""
        named += [os.path.join(each, ".git") for each in _work_trees(os.fsdecode(config))]
    with suppress(OSError):
        return bool(named) and os.path.samefile(os.path.join(git, named[-1]), pointer)
    return False


def _work_trees(config: str) -> list[str]:
    """Return each ``core.worktree`` of a configuration, as git spells it there."""
    section, found = "", []
    for line in map(str.strip, config.split("\n")):
        if line.startswith("["):
            section = line.lower()
        elif section == "[core]" and (match := _WORK_TREE.fullmatch(line)):
            found.append(_ESCAPE.sub(r"\1", match[1].removeprefix('"').removesuffix('"')))
    return found


def _is_own(status: os.stat_result) -> bool:
    return not hasattr(os, "geteuid") or status.st_uid == os.geteuid()

"""Walks one root for folders with a ``SKILL.md``, and caches the result with stamps that reveal changes."""

from __future__ import annotations

import errno
import json
import os
import stat
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import astuple, dataclass, field, replace
from hashlib import sha256
from typing import Any, Final, NamedTuple

from skillhub.disk.files import READ, disk_errors, read, write_atomic
from skillhub.disk.proved import Stamp, is_settled, stamp_of
from skillhub.errors import FormatError, SecurityError, SkillhubError, StateError
from skillhub.formats.text import is_name, quote
from skillhub.model import needs
from skillhub.model.hosts import Bounds, Rules
from skillhub.model.manifest import Head, NamedCommand, one_line, read_head
from skillhub.model.skill import Need, Problem, Skill, check_paths
from skillhub.model.tree import DECLARATIONS, SKILL_MD, File, Tree

# Opens regular files of skills; writes files of skillhub's own.

_LINK = frozenset({errno.ELOOP, getattr(errno, "EMLINK", errno.ELOOP)})


def opened(path: str) -> tuple[int, os.stat_result] | None:
    """Open a regular file for reading; return None if ``path`` does not exist. The caller closes the handle.

    Raises:
        FormatError: ``path`` is a link, a folder, a pipe or a device.
        OSError: the system refuses.
    """
    try:
        handle = os.open(path, READ)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno in _LINK:
            raise FormatError("expected a file, found a link", where=path) from error
        raise
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        os.close(handle)
        raise FormatError("expected a file, found a folder or a device", where=path)
    return handle, status


def write_own(path: str, data: bytes) -> None:
    """Replace the file at ``path``; only its owner can read a new file, and a new folder around it.

    Raises:
        StateError: the disk refuses; the file is unchanged.
    """
    folder = os.path.dirname(path)
    with disk_errors(folder):
        os.makedirs(folder, mode=0o700, exist_ok=True)
    # Without `fsync`: after a power cut, such a file can be written again.
    write_atomic(path, data, mode=None if os.path.lexists(path) else 0o600, sync=False)


# The walk: finds the folders with a ``SKILL.md``, reads the frontmatter, and keeps stamps that reveal changes.

_SKILL: Final = os.sep + SKILL_MD
# The bytes of the first read. Most frontmatters are far shorter; a longer one costs a second read.
_FIRST: Final = 1 << 12
_CAP: Final = 1 << 20
_SKIPPED = frozenset({"node_modules"})
_STAMPS_MAX = 40  # of one skill: each search asks the disk for each of them
# The specification reserves these folders for a skill's own files: a SKILL.md in one is a template or an example.
_RESOURCES = frozenset({"scripts", "references", "assets", "agents"})
# If a file system counts subfolders among a folder's links, 2 means none (POSIX leaves it open; 1 means unknown).
_LEAF: Final = 2
# The rules of the most lenient host; a skill that they refuse is a skill for no host.
LENIENT: Final = Rules(nameless="folder", undescribed="empty")
# Keys of `metadata` in which other clients declare needs.
_NEEDS: Final = frozenset({"requires", *needs.OPENCLAW})


@dataclass(slots=True)
class Find:
    """A folder with a ``SKILL.md``, or the file of a command.

    Attributes:
        folder: Its canonical path.
        shown_path: The path on which it was found, which may lead through links.
        stamps: The stamps of the folder (key ``""``), of the files read in it and of the folders below it, by the
            rest of their path; one that may not reveal the next change begins with ``?``, so that it equals no other.
        facts: The fields of a ``Skill``, except its place; None if it cannot be read.
        problems: The problems of the skill.
        last_skill: The root and locks for which a ``Skill`` was last made of it, and that skill.
    """

    folder: str
    shown_path: str
    stamps: dict[str, Stamp] = field(default_factory=dict)
    facts: Mapping[str, Any] | None = None
    problems: list[Problem] = field(default_factory=list)
    last_skill: tuple[object, Skill] | None = None

    @property
    def stamp(self) -> str:
        """The stamps of its folder and files, as they were when these were read."""
        return " ".join(stamp.removeprefix(_UNSURE) for stamp in self.stamps.values())


@dataclass(slots=True)
class WalkResult:
    """The result of one walk through a root, valid while no stamp changes.

    Attributes:
        folders: The stamps of the folders without a ``SKILL.md``, by canonical path.
        finds: The folders with a ``SKILL.md``.
        problems: The problems of the root.
    """

    folders: dict[str, Stamp] = field(default_factory=dict)
    finds: list[Find] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def is_current(self) -> bool:
        """Return whether no folder or file was added, removed or changed since; this takes one ``stat`` for each."""
        return _are_current("", self.folders) and all(_are_current(find.folder, find.stamps) for find in self.finds)


class _Step(NamedTuple):
    folder: str
    shown_path: str
    depth: int
    in_skill: bool


class Walk:
    """A walk through one root.

    Args:
        root: The path of the root.
        contained: Whether links that lead out of the root are ignored.
        rules: How strictly skills are read.
        bounds: The limits on depth and folders.
        earlier: The result of an earlier walk; a skill with the same stamps is not read again.
    """

    def __init__(self, root: str, contained: bool, rules: Rules, bounds: Bounds, earlier: WalkResult) -> None:
        self.root, self.contained = root, contained
        self.rules, self.bounds = rules, bounds
        self._base = os.path.realpath(root)
        self._known = {find.folder: find for find in earlier.finds}
        self._seen = {self._base}
        self._is_cut = False

    def run(self) -> WalkResult:
        """Walk through the root, breadth first, by name within a folder, and visit each folder once."""
        result = WalkResult()
        queue = deque([_Step(self._base, self.root, 0, False)] if os.path.isdir(self._base) else [])
        while queue:
            step = queue.popleft()
            try:
                queue.extend(self._visit(step, result))
            except OSError as error:
                result.problems.append(Problem(step.shown_path, f"cannot be read: {error.strerror}"))
        if self._is_cut:
            result.problems.append(_cut(self.root, f"{self.bounds.folders} folders"))
        return result

    def _visit(self, step: _Step, result: WalkResult) -> list[_Step]:
        status = os.stat(step.folder)
        stamp = stamp_of(status)
        is_leaf = status.st_nlink == _LEAF
        find = self._known_find(step, stamp) or _find(step, self.rules, stamp, has_folders=not is_leaf)
        if find:
            result.finds.append(find)
        else:
            result.folders[step.folder] = stamp
        in_skill = step.in_skill or (find is not None and step.depth > 0)
        if step.depth >= self.bounds.depth or (in_skill and (is_leaf or not self.bounds.nested)):
            return []
        return list(self._subfolders(step, in_skill))

    def _subfolders(self, step: _Step, in_skill: bool) -> Iterator[_Step]:
        with os.scandir(step.folder) as entries:
            ordered = sorted(entries, key=lambda entry: entry.name)
        for entry in ordered:
            name = entry.name
            if _is_skipped(name) or (in_skill and name in _RESOURCES):
                continue
            target = self._folder_of(step, entry, in_skill)
            if target is None or target in self._seen:
                continue
            if len(self._seen) >= self.bounds.folders:
                self._is_cut = True
                return
            self._seen.add(target)
            yield _Step(target, step.shown_path + os.sep + entry.name, step.depth + 1, in_skill)

    def _folder_of(self, step: _Step, entry: os.DirEntry[str], in_skill: bool) -> str | None:
        """Return the canonical path of the folder that an entry is or leads to; None if the walk skips the entry."""
        if not entry.is_symlink():
            return step.folder + os.sep + entry.name if entry.is_dir(follow_symlinks=False) else None
        if in_skill:
            return None  # a link inside a skill is a file of that skill, which `load` refuses
        target = os.path.realpath(entry.path)
        if self.contained and not target.startswith(os.path.join(self._base, "")):
            return None
        return target if os.path.isdir(target) else None

    def _known_find(self, step: _Step, stamp: Stamp) -> Find | None:
        earlier = self._known.get(step.folder)
        if earlier is None or earlier.shown_path != step.shown_path or earlier.stamps.get("") != stamp:
            return None
        return earlier if _are_current(earlier.folder, earlier.stamps) else None


def _find(step: _Step, rules: Rules, stamp: Stamp, has_folders: bool) -> Find | None:
    find = Find(step.folder, step.shown_path, {"": stamp})
    try:
        check_paths(step.folder, step.shown_path)  # a link may lead deeper than a skill may lie
        data = _read(_SKILL, find)
        if data is None:
            return None
        find.facts = _facts(_head(data, find, rules), find, _declarations(find) if has_folders else None)
        if has_folders:
            with suppress(OSError):  # a folder that cannot be read does not make the skill unreadable
                _stamp_subfolders(find)
    except (SkillhubError, OSError) as error:
        find.problems.append(_problem(find.shown_path, error))
    return find


def _stamp_subfolders(find: Find) -> None:
    """Keep the stamps of the folders below a skill, which reveal that a file was added or removed in one of them."""
    queue = deque([""])
    while queue:
        above = queue.popleft()
        with os.scandir(find.folder + above) as entries:
            folders = [each for each in entries if each.is_dir(follow_symlinks=False) and not _is_skipped(each.name)]
        for entry in sorted(folders, key=lambda each: each.name):
            if len(find.stamps) >= _STAMPS_MAX:
                return
            path, status = f"{above}{os.sep}{entry.name}", entry.stat(follow_symlinks=False)
            find.stamps[path] = stamp_of(status)
            if status.st_nlink != _LEAF:
                queue.append(path)


def _is_skipped(name: str) -> bool:
    return name.startswith(".") or name in _SKIPPED


def facts_in(files: Mapping[str, bytes], name: str) -> Mapping[str, Any]:
    """Return the facts that a walk finds in these files of a skill, by the rules of the most lenient host.

    Args:
        files: The bytes of ``SKILL.md`` and of the files in ``agents``, by path.
        name: The name of the skill's folder.
    """
    try:
        head = read_head(files.get(SKILL_MD, b""), name, LENIENT)
        agents = {path: File(files[path]) for path in DECLARATIONS if path in files}
        return _facts(head, Find(name, name), Tree(agents) if agents else None)
    except SkillhubError:
        return {}


def commands(root: str, rules: Rules, bounds: Bounds, command: NamedCommand | None = None) -> WalkResult:
    """Return the commands in a folder: each file ``NAME.md`` is a skill of that name; links are ignored.

    Folders between ``root`` and a file add nothing to its name. ``root`` may be such a file itself; ``command`` is
    then what the plugin says of the command.
    """
    result = WalkResult()
    if root.endswith(".md") and os.path.isfile(root):
        folder, name = os.path.split(root)
        result.finds.append(_command(os.path.join(os.path.realpath(folder), name), root, rules, command))
    queue = deque([(os.path.realpath(root), root, 0)] if os.path.isdir(root) else [])
    while queue:
        folder, shown_folder, depth = queue.popleft()
        try:
            with os.scandir(folder) as entries:
                ordered = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            result.problems.append(Problem(shown_folder, f"cannot be read: {error.strerror}"))
            continue
        for entry in ordered:
            if entry.name.startswith("."):
                continue
            shown_path = os.path.join(shown_folder, entry.name)
            if len(result.finds) + len(queue) >= bounds.folders:
                result.problems.append(_cut(root, f"{bounds.folders} files"))
                return result
            if entry.is_dir(follow_symlinks=False) and depth < bounds.depth:
                queue.append((os.path.join(folder, entry.name), shown_path, depth + 1))
            elif entry.name.endswith(".md") and entry.is_file(follow_symlinks=False):
                result.finds.append(_command(os.path.join(folder, entry.name), shown_path, rules))
    return result


def _command(path: str, shown_path: str, rules: Rules, command: NamedCommand | None = None) -> Find:
    find = Find(path, shown_path)
    try:
        check_paths(path, shown_path)
        name = command.name if command else os.path.basename(shown_path).removesuffix(".md")
        if name != one_line(name):
            raise FormatError(f"expected a name without hidden characters, found {quote(name)}")
        head = read_head(_read("", find, _CAP) or b"", name, rules)
        fields = {key: text for key, text in command._asdict().items() if text} if command else {}
        find.facts = _facts(replace(head, name=name, warnings=()), find) | fields
    except (SkillhubError, OSError) as error:
        find.problems.append(Problem(shown_path, reason_of(error)))
    return find


def _are_current(folder: str, stamps: Mapping[str, Stamp]) -> bool:
    try:
        for path, stamp in stamps.items():
            if stamp_of(os.stat(folder + path)) != stamp:
                return False
    except OSError:
        return False
    return True


def _read(path: str, find: Find, limit: int = _FIRST) -> bytes | None:
    """Return at most ``limit`` bytes of a file of a skill; ``path`` is appended to the path of its folder."""
    opened_file = opened(find.folder + path)
    if opened_file is None:
        return None
    handle, status = opened_file
    try:
        find.stamps[path] = stamp_of(status)
        return os.read(handle, min(limit, status.st_size + 1))
    finally:
        os.close(handle)


def _head(data: bytes, find: Find, rules: Rules) -> Head:
    folder = os.path.basename(find.shown_path)
    if len(data) < _FIRST:
        return read_head(data, folder, rules)
    try:
        # Up to the end of a line, so that no character is split.
        return read_head(data[: data.rfind(b"\n") + 1], folder, rules)
    except FormatError:
        whole_file = _read(_SKILL, find, _CAP)
        return read_head(whole_file or b"", folder, rules)


def _facts(head: Head, find: Find, tree: Tree | None = None) -> dict[str, Any]:
    """Return the fields of a ``Skill`` that differ from their defaults."""
    facts: dict[str, Any] = {"name": head.name, "description": head.description}
    for issue in head.warnings:
        find.problems.append(_issue(find.shown_path, issue.where, issue.message))
    is_implicit = head.model_invocable
    if declaration := _declaration(head, find, tree):
        is_implicit = is_implicit and declaration.implicit
        for issue in declaration.warnings:
            find.problems.append(_issue(find.shown_path, issue.where, issue.message))
        if value := _declared_facts(declaration):
            facts["declared"] = value
    for key in ("version", "namespace", "argument_hint"):
        if value := getattr(head, key):
            facts[key] = value
    if not is_implicit:
        facts["invocation"] = "user"
    if not head.user_invocable:
        facts["user_invocable"] = False
    return facts


def _declaration(head: Head, find: Find, tree: Tree | None) -> needs.Declared | None:
    metadata = head.front.get("metadata")
    if tree is None and (not isinstance(metadata, dict) or _NEEDS.isdisjoint(metadata)):
        return None
    try:
        return needs.read(tree or Tree({}), head.metadata)
    except SecurityError as error:
        if tree is not None:
            raise
        # The host would load the skill all the same; the forbidden variable is never requested from the user.
        find.problems.append(_issue(find.shown_path, error.where or SKILL_MD, error.message))
        return None


def _declared_facts(declaration: needs.Declared) -> dict[str, Any]:
    """Return the declaration in the form of the cache, as JSON."""
    rows = [
        [need.kind, need.name, need.description, need.required, need.server and astuple(need.server)]
        for need in declaration.requires
    ]
    facts = {"requires": rows, "interface": dict(declaration.interface), "permissions": list(declaration.permissions)}
    return {key: value for key, value in facts.items() if value}


def declared(facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields of a ``Skill``, made from facts of a walk or of the cache, whose names are checked again.

    Raises:
        SkillhubError, ValueError, TypeError: no walk finds such facts; the cache was tampered with.
    """
    if "declared" not in facts:
        return facts
    declaration = facts["declared"]
    requires = []
    for kind, name, description, required, row in declaration.get("requires", ()):
        server = None
        if row is not None:
            transport, command, url, env, bearer = row
            server = needs.McpServer(transport, tuple(command), url, tuple(env), bearer)
        needs.Requirement(kind, name, description, required, server)
        requires.append(Need(kind, name, description, required, satisfied=False, server=server))
    return {
        **{key: value for key, value in facts.items() if key != "declared"},
        "requires": tuple(requires),
        "interface": {str(key): str(value) for key, value in declaration.get("interface", {}).items()},
        "permissions": tuple(map(str, declaration.get("permissions", ()))),
    }


def _declarations(find: Find) -> Tree | None:
    agents = f"{os.sep}agents"
    try:
        status = os.lstat(find.folder + agents)
    except OSError:
        return None
    if not stat.S_ISDIR(status.st_mode):
        return None
    find.stamps[agents] = stamp_of(status)
    files = {}
    for path in DECLARATIONS:
        data = _read(os.sep + path.replace("/", os.sep), find, _CAP)
        if data is not None:
            files[path] = File(data)
    return Tree(files) if files else None


def reason_of(error: SkillhubError | OSError) -> str:
    """Return why something cannot be read, in a few words."""
    return (error.message if isinstance(error, SkillhubError) else error.strerror) or type(error).__name__


def _problem(folder: str, error: SkillhubError | OSError) -> Problem:
    if isinstance(error, OSError):
        return Problem(os.path.join(folder, SKILL_MD), reason_of(error))
    return _issue(folder, error.where or SKILL_MD, error.message, is_broken=True)


def _cut(root: str, most: str) -> Problem:
    return Problem(root, f"more than {most}; the rest was not checked", is_cut=True)


def _issue(folder: str, where: str, message: str, is_broken: bool = False) -> Problem:
    """Return the problem at ``FILE:LINE`` or ``FILE: key`` of the skill in ``folder``."""
    file, _, line = where.partition(":")
    path = where if os.path.isabs(where) else os.path.join(folder, *file.split("/"))
    number = int(line) if line.isdigit() else None
    return Problem(path, message, number, "error" if is_broken else "warning")


# The cache of walks: one file for each root, valid while all stamps are unchanged.
# Measured with 10,000 skills: JSON takes 0.7 µs for the facts of one skill, SQLite 1.2 µs and twice the import.

_VERSION: Final = 6
# The facts that a walk may find, and their types; all others come from locks and records, never from the cache.
_FACTS: Final[Mapping[str, type]] = {
    **dict.fromkeys(("name", "description", "version", "namespace", "argument_hint", "invocation"), str),
    "user_invocable": bool,
    "declared": dict,
}
_CACHE_CAP: Final = 1 << 28
_UNSURE: Final = "?"
# Two edits within a tick of the file system's clock, of at most 10 ms if it has fractions, leave the same stamp.
_TICK: Final = 50_000_000


class Cache:
    """Keeps the results of walks: in memory, and with a folder also in files for later processes.

    Args:
        folder: The folder of the files; None for memory only.

    Raises:
        UsageError: the folder is no valid path.
    """

    def __init__(self, folder: str | None = None) -> None:
        check_paths(folder)
        self._folder = folder
        self._last: dict[str, WalkResult] = {}

    def load(self, root: str, rules: Rules, bounds: Bounds, contained: bool = False) -> WalkResult:
        """Return the result of the last such walk, whose stamps the caller checks; empty if there was none.

        Args:
            root: The path of the root.
            rules: How strictly skills were read.
            bounds: The limits of the walk.
            contained: Whether links that lead out of the root were ignored.
        """
        path = self._path(root, rules, bounds, contained)
        if path in self._last or self._folder is None:
            return self._last.get(path, WalkResult())
        try:
            data = read(path, _CACHE_CAP)
            result = WalkResult() if data is None else _parse(json.loads(data), root)
        except (FormatError, StateError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return WalkResult()  # a truncated or forged file counts as absent
        self._last[path] = result
        return result

    def save(self, root: str, rules: Rules, bounds: Bounds, result: WalkResult, contained: bool = False) -> None:
        """Keep the result of a walk, without the stamps of what changed a moment ago; a full disk is no error."""
        now = time.time_ns()
        result.folders = _reliable_stamps(result.folders, now)
        for find in result.finds:
            find.stamps = _reliable_stamps(find.stamps, now)
        path = self._path(root, rules, bounds, contained)
        self._last[path] = result
        if self._folder is None:
            return
        finds, problems = [*map(_dump, result.finds)], [*map(_row, result.problems)]
        block = {"version": _VERSION, "folders": result.folders, "finds": finds, "problems": problems}
        data = json.dumps(block, separators=(",", ":")).encode("ascii")
        try:
            write_own(path, data)
        except StateError:
            return

    def _path(self, root: str, rules: Rules, bounds: Bounds, contained: bool) -> str:
        # Links on the way to the root may change, so its canonical path is part of the key.
        key = f"{_VERSION}\0{root}\0{os.path.realpath(root)}\0{contained}\0{rules}\0{bounds}"
        return os.path.join(self._folder or "", f"{sha256(key.encode('utf-8', 'surrogateescape')).hexdigest()}.json")


def _reliable_stamps(stamps: Mapping[str, Stamp], now: int) -> dict[str, Stamp]:
    return {path: stamp if is_settled(stamp, now, _TICK) else f"{_UNSURE}{stamp}" for path, stamp in stamps.items()}


def _dump(find: Find) -> list[Any]:
    found_path = find.shown_path if find.shown_path != find.folder else ""
    return [find.folder, found_path, find.stamps, find.facts, [_row(problem) for problem in find.problems]]


def _row(problem: Problem) -> list[Any]:
    return [problem.path, problem.message, problem.line, problem.level, problem.is_cut]


def _parse(block: dict[str, Any], root: str) -> WalkResult:
    if block["version"] != _VERSION:
        return WalkResult()
    finds = [Find(*row) for row in block["finds"]]
    base = os.path.realpath(root)
    for find in finds:
        find.shown_path = find.shown_path or find.folder
        if not (_is_below(find, root, base) and are_facts(find.facts)):
            return WalkResult()  # no walk through this root found it
        find.stamps, find.problems = {**find.stamps}, _problems(find.problems)
    return WalkResult({**block["folders"]}, finds, _problems(block["problems"]))


def _problems(rows: Any) -> list[Problem]:  # noqa: ANN401 - a JSON value
    return [Problem(str(path), str(message), *rest) for path, message, *rest in rows]


def _is_below(find: Find, root: str, base: str) -> bool:
    """Return whether a walk through ``root``, whose canonical path is ``base``, can find this folder on this path."""
    below = find.shown_path.removeprefix(root)
    if find.shown_path in (root, base):
        return find.folder == base
    if below == find.shown_path or not below.startswith(os.sep) or f"{os.sep}." in below:
        return False
    return find.folder == base + below or find.folder == os.path.realpath(find.shown_path)


def are_facts(facts: Mapping[str, Any] | None) -> bool:
    """Return whether a walk may have found these facts: each has its type, and texts are one line, nothing hidden."""
    if facts is None:
        return True
    try:
        declared(facts)
    except (SkillhubError, ValueError, TypeError, AttributeError, KeyError):
        return False
    texts = (value for value in facts.values() if isinstance(value, str))
    is_shown = all((text.isascii() and text.isprintable()) or text == one_line(text) for text in texts)
    is_named = "name" in facts and ("namespace" not in facts or is_name(str(facts["namespace"])))
    return is_shown and is_named and all(isinstance(value, _FACTS.get(key, ())) for key, value in facts.items())

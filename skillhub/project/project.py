"""A project or the user scope: its lock, intent and record; the packages of a workspace; the policies in force."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from fnmatch import translate
from functools import cache, lru_cache
from hashlib import sha256
from typing import Any, NamedTuple, TypeVar

from skillhub.disk import files
from skillhub.disk.files import MACHINE, HeldFolder
from skillhub.disk.home import INTENT, LOCK, Home, has_lock_or_intent, is_own, project_folder
from skillhub.errors import FormatError, SourceMismatch, StateError, hinting
from skillhub.formats.digest import NO_FILES
from skillhub.formats.document import Absent
from skillhub.formats.text import clean, command
from skillhub.formats.toml import LINES_CAP, lines_in_order, set_line, spell_toml, strict_toml
from skillhub.model.hosts import Scope
from skillhub.model.lock import CAP, FIX, RESTORE, Lock, LockedSource
from skillhub.model.provenance import Records, is_same_source
from skillhub.policy.policy import Level, Policies, Policy, PolicyRules, parse_policy, policy_of
from skillhub.project.git_exclude import check_exclude
from skillhub.project.intent import Intent, IntentTables, Wanted, moved, two_lines
from skillhub.project.user_state import SecretIndex

if sys.platform == "win32":
    import ctypes

_Parsed = TypeVar("_Parsed")
_Parse = Callable[[bytes, str], _Parsed]
_RECORDS_CAP = 64 * 1024 * 1024
_WORKSPACE = re.compile(rb"^[\s\[]*['\"]?workspace\b", re.MULTILINE)
# Matches the name of a folder with one part of a workspace's pattern; a hidden one only by a part that names it.
_fits = cache(lambda part: re.compile(("" if part[0] == "." else r"(?!\.)") + translate(part)).match)


class Project:
    """A project or the user scope, into which skills are installed.

    Attributes:
        scope: ``project``, or ``user`` for the user scope.
        base: The parent of agents' folders: the project's root, or the user's home.
        root: The folder of lock and intent: ``base``, or ``<state>`` for the user scope.
        home: The folders of skillhub for this user.
        key: The name of its files in ``<state>``.
        secrets: The index of the values that the user has stored, for all projects.
        top: ``root`` as an open folder: writes stay in it, even if its path becomes another folder.
        around: ``base`` as an open folder.
        config_lock: The lock file for edits of agents' configuration, which all projects of a user share.
        patience: Seconds to wait for another process that is changing the project.
        waiting: Called once if the wait takes longer than a second.
        brought: The lock of a bundle, which counts while the project has no lock.
        package: The package of the workspace on which the command works; empty for the root, or without a workspace.
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
        self.parsed_files: dict[str, tuple[bytes | None, Any]] = {}  # as last read; shared by objects of a project
        self._real: dict[str, str] = {}

    @classmethod
    def find(cls, start: str, home: Home) -> Project:
        """Return the project around ``start``.

        Its root is the nearest folder upwards with a lock or an intent, up to the root of the git repository. If no
        folder has one, it is the root of the repository, and outside a repository ``start`` itself.

        Raises:
            StateError: the repository around ``start`` belongs to another user, who may have put it there as a trap.
        """
        folder = workspace_folder(start)
        git = os.path.join(folder, ".git")
        if not has_lock_or_intent(folder) and os.path.lexists(git):
            refuse_other_owner(os.lstat(git), git)
        project = cls(folder, "project", home)
        below = os.path.relpath(os.path.abspath(start), folder).split(os.sep)
        found = (package_at(below, pattern) for pattern in workspace_of(folder) or ())
        project.package = next(filter(None, found), "")
        return project

    @classmethod
    def of_user(cls, user_home: str, home: Home) -> Project:
        """Return the user scope, whose skills agents find in every project of the user."""
        return cls(os.path.abspath(user_home), "user", home)

    def root_of(self, path: str) -> HeldFolder:
        """Return the open folder above ``path``, a path without links: of the project, else the whole machine."""
        if self.top.covers(path):
            return self.top
        return self.around if self.around.covers(path) else MACHINE

    def hold(self, path: str, *, make: bool = False) -> AbstractContextManager[tuple[str, int | None]]:
        """Hold a path with ``HeldFolder.hold`` of its ``root_of``."""
        return self.root_of(path).hold(path, make=make)

    def folder(self, relative: str) -> str:
        """Return the real path of a folder; links may not lead out of a project, but out of a home, as for dotfiles.

        In a home each path is resolved once, so that a later change of a link has no effect.

        Raises:
            LinkLeavesProject: the folder is, or lies behind, a link out of the project.
        """
        if self.scope == "project" and not os.path.isabs(relative):
            return files.inside(self.base, relative)
        if relative not in self._real:
            self._real[relative] = os.path.realpath(os.path.join(self.base, relative))
        return self._real[relative]

    def users(self, user_home: str) -> Project:
        """Return the user scope of the same user."""
        return Project.of_user(user_home, self.home)

    def last_lock(self) -> Lock:
        """Return the lock as last read, for callers that need it once for each skill. Raises as ``lock``."""
        return self.parsed_files[self.lock_path][1] if self.lock_path in self.parsed_files else self.lock()

    def lock(self) -> Lock:
        """Return the lock; an absent one is empty.

        Raises:
            FormatError: the file is no lock.
            StateError: it cannot be read, belongs to another user, or is a link that leaves the project.
        """
        try:
            return self._parsed(Lock.parse, self._read(LOCK), self.lock_path, self.brought or Lock())
        except FormatError as error:
            error.hint = error.hint and error.hint.replace(FIX, command(self.scope, "lock", "fix"))
            raise

    def intent(self) -> Intent:
        """Return the intent, in a workspace with those of its packages; an absent one is empty.

        Raises:
            FormatError, StateError: as ``lock``.
            LinkLeavesProject: a package is a link out of the workspace.
        """
        found = self._intent_file(INTENT).intent
        if found.members is None or self.scope != "project":
            return found
        others = {each: self._intent_file(f"{each}/{INTENT}") for each in self.packages()}
        return with_packages(found, others, self.package)

    def policy(self) -> Policy | None:
        """Return the policy in the project's ``skillhub.toml``; None without one. Raises as ``lock``."""
        return self._intent_file(INTENT).policy

    def _intent_file(self, name: str) -> _Content:
        return self._parsed(_parse, self._read(name), os.path.join(self.root, name), _Content())

    def packages(self) -> list[str]:
        """Return the sorted paths of the packages of the workspace; none without a workspace.

        Raises:
            LinkLeavesProject: a package is a link out of the workspace.
            FormatError: a named package does not exist, or a package has its own lock.
        """
        return packages_in(self.root, self.members())

    def members(self) -> Sequence[str]:
        """Return the names and patterns of the workspace's packages; raises as ``lock``."""
        return self._intent_file(INTENT).intent.members or ()

    def proposals(self) -> Mapping[str, LockedSource]:
        """Return the sources that lock and intent propose; raises as both, and as ``proposals``."""
        return proposals(self.lock(), self.intent())

    def edit_intent(self, add: Mapping[str, Wanted], remove: Collection[str]) -> bool:
        """Set lines in this package's intent and remove skills from those of all; return whether a file changed.

        Raises:
            FormatError, StateError: a file is malformed, or cannot be written.
        """
        changed = False
        for each in ["", *(self.packages() if self.scope == "project" else ())]:
            name = f"{each}/{INTENT}".lstrip("/")
            text = self._read(name) or b""
            lines = {key: moved(line, each, "") for key, line in add.items()} if each == self.package else {}
            edited = edit(text, lines, remove, os.path.join(self.root, name))
            if edited != text:
                self._write(name, edited)
                changed = True
        return changed

    def intent_bytes(self, package: str) -> bytes:
        """Return the bytes of a package's intent, or of the root's for an empty path; empty if it is absent."""
        return self._read(os.path.join(package, INTENT)) or b""

    def has_lock_or_intent(self) -> bool:
        """Return whether the project has a lock, an intent or a bundle's lock."""
        return any(map(os.path.lexists, (self.lock_path, self.intent_path))) or self.brought is not None

    def records(self) -> Records:
        """Return the records of the project on this machine."""
        return self._parsed(Records.parse, files.read(self._state, _RECORDS_CAP), self._state, Records())

    def last_records(self) -> Records:
        """Return the records as last read, for callers that need them once for each skill."""
        return self.parsed_files[self._state][1] if self._state in self.parsed_files else self.records()

    def write_records(self, records: Records) -> None:
        """Replace the records atomically; a skill that loses its record, or its consent, loses its stored values."""
        self._make_state()
        before, after = self.records().skills, records.skills
        lost = {name for name in before.keys() & after if before[name].tree != NO_FILES == after[name].tree}
        self.secrets.leave(self.key, (before.keys() - after) | lost)
        files.write_atomic(self._state, data := records.dump(self.base), mode=0o600)
        self.parsed_files[self._state] = data, records

    def remember(self) -> None:
        """Write empty records if there are none, so that ``cache gc`` knows the project.

        Raises:
            StateError: the disk refuses.
        """
        if not os.path.lexists(self._state):
            self.write_records(Records())

    def write_lock(self, data: bytes) -> None:
        """Replace the lock atomically by bytes of ``Lock.dump``; the same bytes are not written again."""
        self._write(LOCK, data)
        self.parsed_files.pop(self.lock_path, None)

    @contextmanager
    def exclusively(self) -> Iterator[None]:
        """Lock the project, so that no other skillhub process changes it.

        Raises:
            LinkLeavesProject: git's exclude file is, or lies behind, a link out of git's folder.
            StateError: another process holds the lock for longer than ``patience`` seconds, or the disk refuses.
        """
        check_exclude(self.around)
        self._make_state()
        with files.lock(f"{self._state}.lock", timeout=self.patience, waiting=self.waiting):
            yield

    def _make_state(self) -> None:
        with files.disk_errors(folder := os.path.dirname(self._state)):
            os.makedirs(folder, mode=0o700, exist_ok=True)

    def _parsed(self, parse: _Parse[_Parsed], data: bytes | None, path: str, absent: _Parsed) -> _Parsed:
        """Return ``data`` parsed; the same bytes are parsed once."""
        cached = self.parsed_files.get(path)
        if data is None or cached is None or cached[0] != data:
            cached = self.parsed_files[path] = data, absent if data is None else parse(data, path)
        found: _Parsed = cached[1]
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
    """Return the root of the project around ``start``; for a package of a workspace, the workspace's root."""
    return workspace_around(project_folder(start))


def with_packages(root: Intent, others: Mapping[str, _Content], package: str) -> Intent:
    """Return the intent of a workspace: that of the root together with those of its packages, by their paths.

    Raises:
        FormatError: a package has more than ``[skills]``, or two packages have different lines for one skill.
    """
    skills, packages = dict(root.skills), {name: ("",) for name in root.skills}
    for path, (other, policy) in others.items():
        if policy is not None or other != Intent(skills=other.skills, lists=other.lists):
            message = "a package of a workspace may have only [skills]"
            raise FormatError(message, where=f"{path}/{INTENT}", hint=f"write the rest into the root's {INTENT}")
        for name, line in other.skills.items():
            wanted = moved(line, "", path)
            if skills.setdefault(name, wanted) != wanted:
                raise two_lines(name, (skills[name], packages[name][0]), (wanted, path))
            packages[name] = (*packages.get(name, ()), path)
    lists = root.lists or any(each.intent.lists for each in others.values())
    return replace(root, skills=skills, packages=packages, lists=lists, package=package)


def workspace_around(folder: str) -> str:
    """Return the root of the workspace with this package, searched up to the root of git; else the folder itself.

    Below a workspace whose patterns cannot be read, every folder counts as a package: as a project of its own it
    would have neither the lock nor the policy of the root.
    """
    above, below = folder, list[str]()
    while not os.path.lexists(os.path.join(above, ".git")) and above != os.path.dirname(above):
        below.insert(0, os.path.basename(above))
        above = os.path.dirname(above)
        try:
            patterns = _patterns(above) or ()
        except FormatError:  # `Project.intent` reports it
            return above
        if any(package_at(below, each) == "/".join(below) for each in patterns):
            return above
    return folder


def workspace_of(folder: str) -> tuple[str, ...] | None:
    """Return the patterns of the workspace with this root; None if it is none, or the file is another user's."""
    try:
        return _patterns(folder)
    except FormatError:  # `Project.intent` reports it
        return None


def _patterns(folder: str) -> tuple[str, ...] | None:
    path = os.path.join(folder, INTENT)
    try:
        refuse_other_owner(os.stat(path), path)
        data = files.read(path, CAP) or b""
    except (OSError, StateError):  # `Project.intent` reports it
        return None
    return parse_intent(data, path).members if _WORKSPACE.search(data) else None


def package_at(below: Sequence[str], pattern: str) -> str | None:
    """Return the package around a path, given as segments below the root, by one pattern; None if there is none."""
    parts = pattern.split("/")
    named = zip(below, parts, strict=False)
    is_in = len(below) >= len(parts) and all(_is_seen(name) and _fits(part)(name) for name, part in named)
    return "/".join(below[: len(parts)]) if is_in else None


def folders_matching(root: str, patterns: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield each pattern, and the folders below the root that match it; hidden ones only by name, none behind a link.

    With links back to the root, the number of paths would grow exponentially with the pattern's depth.

    Raises:
        LinkLeavesProject: a link leads out of the root.
    """

    @cache  # many patterns may match one folder
    def names_in(folder: str) -> list[str]:
        with files.disk_errors(folder), os.scandir(os.path.join(root, folder)) as rows:
            return [row.name for row in rows if _is_seen(row.name) and row.is_dir()]

    is_plain = cache(lambda each: files.inside(root, each) == os.path.join(root, *each.split("/")))
    for pattern in patterns:
        found = [""]
        for fits in map(_fits, pattern.split("/")):
            inner = (f"{each}/{name}".lstrip("/") for each in found for name in names_in(each) if fits(name))
            found = [each for each in inner if is_plain(each)]
        yield pattern, found


def _is_seen(name: str) -> bool:
    return name != "node_modules" and clean(name) == name  # a record could not have a path with hidden characters


def refuse_other_owner(status: os.stat_result, path: str) -> None:
    """Refuse a file of a project that belongs to another user.

    Raises:
        StateError: it does.
    """
    if not is_own(status):
        hint = "if you trust it, run the command as its owner, or chown it; another project: --project DIR"
        raise StateError("it belongs to another user, who could say what is installed", where=path, hint=hint)


def packages_in(root: str, patterns: Iterable[str]) -> list[str]:
    """Return the sorted paths of the packages below the root of a workspace.

    Raises:
        LinkLeavesProject: a package is a link out of the workspace.
        FormatError: a named package does not exist, or a package has its own lock.
    """
    found: set[str] = set()
    for pattern, matches in folders_matching(root, patterns):
        if not matches and not {*pattern} & {*"*?["}:
            where, hint = os.path.join(root, INTENT), "create the folder, or take it out of members"
            raise FormatError(f"the workspace names {pattern}, which is no folder", where=where, hint=hint)
        found.update(matches)
    for own in filter(os.path.lexists, (os.path.join(root, each, LOCK) for each in found)):
        raise FormatError("a package of a workspace has no lock of its own", where=own, hint="remove the file")
    return sorted(found)


def root_markers(start: str) -> tuple[str, ...]:
    """Return the files that mark the root of the project around a folder; in a workspace only the lock does."""
    return (LOCK,) if workspace_of(workspace_folder(start)) is not None else (INTENT, LOCK)


def state_key(base: str, scope: Scope, real: Callable[[str], str] = os.path.realpath) -> str:
    """Return the ``key`` of a project, or of the user scope."""
    return sha256(os.fsencode(f"{scope}:{real(base)}")).hexdigest()[:32]


# The sources that a project proposes, by its lock and its intent.


def proposals(lock: Lock, intent: Intent) -> dict[str, LockedSource]:
    """Return the proposed sources by alias; one of kind ``registry`` without a root may be a site.

    The root identifies a registry, so the intent may state its new URL; the URL identifies a site.

    Raises:
        SourceMismatch: lock and intent give one alias to two sources.
    """
    found = dict(lock.sources)
    for alias, wanted in intent.sources.items():
        locked = lock.sources.get(alias)
        if locked is None and wanted.place is not None:
            continue
        found[alias] = wanted.over(locked)
        if locked is not None and (wanted.place is not None or not is_same_source(locked, found[alias])):
            root = f" with root {wanted.root}" if wanted.root else ""
            message = f"the lock has the source {alias} as {locked}; skillhub.toml names {found[alias].url}{root}"
            raise SourceMismatch(message, hint=f"remove its skills from the lock, or correct [sources.{alias}]")
    return found


# ``skillhub.toml``: its intent and its policy, and edits that keep its comments.


class IntentFile(IntentTables):
    """``skillhub.toml`` as a document."""

    policy: Absent[PolicyRules] = None


class _Content(NamedTuple):
    """The content of a ``skillhub.toml``; that of an absent one is empty."""

    intent: Intent = Intent()
    policy: Policy | None = None


@lru_cache(maxsize=4)  # a command may read it for more than one purpose
def _parse(data: bytes, where: str) -> _Content:
    with hinting(f"correct it, or {RESTORE}"):
        found = IntentFile.parse(strict_toml(data, where, LINES_CAP), where)
    policy = None if found.policy is None else policy_of(found.policy, "project", where)
    return _Content(Intent.of(found), policy)


def parse_intent(data: bytes, where: str = INTENT) -> Intent:
    """Return the intent in the bytes of a ``skillhub.toml``.

    Raises:
        FormatError: the bytes are not TOML, or a key is unknown or has a wrong value: a team relies on each line.
    """
    return _parse(data, where).intent


def edit(data: bytes, add: Mapping[str, Wanted], remove: Iterable[str], where: str = "skillhub.toml") -> bytes:
    """Return ``data`` with lines of ``[skills]`` set and removed; without a change, the same bytes.

    Args:
        data: The bytes of an intent.
        add: The lines to set, by name.
        remove: The names of the lines to remove.
        where: The path of the intent, for errors; ``Project.intent`` need not parse the result again for this path.

    Raises:
        FormatError: ``data`` is no intent, or cannot be edited without other changes.
    """
    before, policy = _parse(data, where)
    removed = set(remove)
    wanted = {name: each for name, each in before.skills.items() if name not in removed} | dict(add)
    if wanted == before.skills:
        return data
    text = data.decode("utf-8")
    alone = "[skills]\n" + "".join(f"{name} = {_value(wanted[name])}\n" for name in sorted(wanted))
    after = _edited(text, before.skills, wanted, where) if before.lists else (text and f"{text}\n") + alone
    if text.count("\r\n") == text.count("\n") > 0:
        after = re.sub(r"(?<!\r)\n", "\r\n", after)
    edited = after.encode()
    # The result is parsed again, by another parser: it must have this change and no other.
    found = _parse(edited, where)
    expected = replace(before, skills=wanted, lists=True), policy
    if found._replace(intent=replace(found.intent, lists=True)) != expected:
        raise FormatError("it cannot be edited safely", where=where, hint="list its skills in one [skills] table")
    return edited


def _edited(text: str, before: Mapping[str, Wanted], wanted: Mapping[str, Wanted], where: str) -> str:
    """Return ``text`` with the changed lines in its table; if tomlkit fails to edit it, the unchanged text."""
    # The import takes 9 ms, and a project's first install does not need it.
    import tomlkit  # noqa: PLC0415
    from tomlkit.exceptions import TOMLKitError  # noqa: PLC0415

    try:
        document = tomlkit.parse(text)
        skills = document["skills"]
        if not isinstance(skills, MutableMapping):
            raise FormatError("expected a table", where=f"{where}: skills")
        for name in [each for each in before if before[each] != wanted.get(each)]:
            set_line(skills, name, _value(wanted[name]) if name in wanted else None)
        names = before.keys() & wanted.keys()
        new = {name: f"{name} = {_value(each)}\n" for name, each in wanted.items() if name not in before}
        if edited := lines_in_order(str(tomlkit.dumps(document)), "skills", names, new):
            return edited
        # tomlkit searches the whole table for each new line, so it adds the first and the others are put after it.
        for number, name in enumerate(new):
            skills[name] = tomlkit.value(_value(wanted[name]))
            edited = "" if number else str(tomlkit.dumps(document))
            if edited.count(f"\n{new[name]}") == 1:
                return edited.replace(f"\n{new[name]}", "\n" + "".join(new.values()))
        return str(tomlkit.dumps(document))
    except TOMLKitError as error:
        raise FormatError(f"not TOML: {clean(str(error))[:200]}", where=where) from error
    except IndexError:  # a defect of tomlkit (0.15.2): both parts of a table in two parts became empty
        return text


def _value(wanted: Wanted) -> str:
    pairs = [f"{key} = {spell_toml(value)}" for key, value in wanted.spell().items()]
    return f"{{ {', '.join(pairs)} }}" if pairs else "{}"


# The policies in force.

_POLICY_FILE = "policy.toml"
_COMMON_APPDATA = 0x23


def machine_policy() -> str:
    """Return the path of the machine's policy; no variable changes it, since any user could then avoid the policy.

    Raises:
        StateError: Windows does not name its machine-wide folder.
    """
    if sys.platform == "win32":
        folder = ctypes.create_unicode_buffer(1024)
        if ctypes.windll.shell32.SHGetFolderPathW(None, _COMMON_APPDATA, None, 0, folder):
            raise StateError("Windows does not give the folder of the machine's policy")
        return os.path.join(folder.value, "skillhub", _POLICY_FILE)
    return f"/etc/skillhub/{_POLICY_FILE}"


def policy_places(home: Home) -> dict[Level, str]:
    """Return the paths of the machine's policy and of the user's."""
    return {"machine": machine_policy(), "user": os.path.join(home.config, _POLICY_FILE)}


def read_policies(home: Home, of_project: Callable[[], Policy | None], machine: str | None = None) -> Policies:
    """Return the existing policies of machine, user and project; they are read at the first question to them.

    Args:
        home: The folders of the user, with the user's policy.
        of_project: Reads the project's policy.
        machine: The path of the machine's policy; None is ``machine_policy()``.
    """
    paths = policy_places(home) | ({"machine": machine} if machine is not None else {})

    def read() -> tuple[Policy, ...]:
        found = [*(_read_policy(level, path) for level, path in paths.items()), of_project()]
        return tuple(policy for policy in found if policy is not None)

    return Policies(read)


def _read_policy(level: Level, path: str) -> Policy | None:
    data = files.read_linked(path, CAP)
    return None if data is None else parse_policy(data, level, path)

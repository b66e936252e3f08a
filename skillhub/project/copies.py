"""Enabled copies of skills in agents' folders, the paths that skillhub created there, and the installed skills."""

from __future__ import annotations

import errno
import os
import re
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Literal, TypeAlias

from skillhub.disk import files
from skillhub.disk.files import OPEN_FOLDER
from skillhub.disk.folders import TreeProblem, clone_tree, move_tree, remove_tree, write_tree
from skillhub.disk.home import EDITS, LOCK, first_there
from skillhub.errors import SkillhubError, StateError
from skillhub.formats.text import command
from skillhub.model.hosts import Host, LinkKind, folders_read, skill_folder
from skillhub.model.lock import Lock, Locked, Signer
from skillhub.model.provenance import Facts, Record, Records
from skillhub.model.skill import Need, Skill
from skillhub.model.tree import SKILL_MD, Listing, Tree
from skillhub.project.project import Project, folders_matching
from skillhub.project.store import Store
from skillhub.project.user_state import voucher

# To enable a skill is to put its tree into agents' folders; before a person agrees to it, it is in none of them.

if sys.platform == "win32":
    import _winapi

SHARED = ".agents/skills"
_STAGED = ".skillhub-"
WORTH_SHARING = 1 << 20  # bytes; writing a smaller tree takes a third of the time of cloning it
# The names of files that a killed process leaves here and in `files.write_atomic`.
UNFINISHED = re.compile(r"\.skillhub-(?:[0-9a-f]{12}(?:-old(?:@.+)?)?|[0-9a-f]{16}\.tmp)")
_OLD_AFTER = 3600.0  # seconds; no process writes one file for so long
_LONG_PATH = "\\\\?\\"  # the prefix of a junction's target on Windows
CopyState: TypeAlias = Literal["absent", "equal", "edited"]
# Target, path of the link, and open folder -> None; raises OSError.
Linkage = Callable[[str, str, int | None], None]


def _symlink(target: str, path: str, at: int | None) -> None:
    os.symlink(target, path, target_is_directory=True, dir_fd=at)


if sys.platform == "win32":

    def _junction(target: str, path: str, _at: int | None) -> None:
        _winapi.CreateJunction(target, path)

    # On Windows few users may create symbolic links; every user may create junctions on one disk.
    LINKAGES: tuple[Linkage, ...] = (_symlink, _junction)
else:
    LINKAGES = (_symlink,)


def folders_of(
    project: Project, hosts: Iterable[Host], user_home: str, environ: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the folders, existing or not, in which these agents get copies; the shared one first."""
    own = (skill_folder(host, project.scope, project.base, user_home, environ) for host in hosts)
    return tuple(dict.fromkeys((_shared(project), *filter(None, own))))


def read_by_agents(
    project: Project, user_home: str, environ: Mapping[str, str], agents: Iterable[Host] | None = None
) -> tuple[str, ...]:
    """Return the folders, existing or not, from which these agents, or all, read skills; the shared one first."""
    folders = folders_read(agents, project.scope, project.base, user_home, environ)
    return tuple(dict.fromkeys((_shared(project), *folders)))


def _shared(project: Project) -> str:
    return os.path.join(project.base, *SHARED.split("/"))


def link_folders(
    project: Project, hosts: Iterable[Host], user_home: str, environ: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the agents' folders that get copies: the shared one first, each real folder once.

    In a project they are relative to it, with ``/`` between segments; in the user scope relative to the home, or
    absolute for an agent whose folder is elsewhere.

    Raises:
        LinkLeavesProject: a folder of the project is a link out of the project.
    """
    folders: dict[str, str] = {}
    for folder in folders_of(project, hosts, user_home, environ):
        relative = portable(folder, project.base)
        folders.setdefault(project.folder(relative), relative)
    return tuple(folders.values())


def portable(path: str, base: str) -> str:
    """Return ``path`` as in lock and records: relative to ``base`` with ``/`` if inside it, else absolute."""
    full = os.path.abspath(path)
    try:
        relative = os.path.relpath(full, base).replace(os.sep, "/")
    except ValueError:  # on Windows: another drive
        return full
    return full if relative.split("/")[0] == ".." else relative


def path_of(project: Project, link: str, folder: Callable[[str], str] | None = None) -> str:
    """Return the absolute path of an item of ``Record.links``.

    Args:
        project: The project of the record.
        link: The item.
        folder: Returns the real path of a folder, as ``Project.folder`` does, which is the default.

    Raises:
        LinkLeavesProject: a folder on the path is a link out of the project.
    """
    parent, name = os.path.split(link) if os.path.isabs(link) else link.rpartition("/")[::2]
    return os.path.join((folder or project.folder)(parent), name)


def paths_of(project: Project, links: Iterable[str], folder: Callable[[str], str] | None = None) -> list[str]:
    """Return the absolute path of each of these items, as ``path_of``.

    Raises:
        LinkLeavesProject: as for ``path_of``.
    """
    return [path_of(project, link, folder) for link in links]


def absolute(base: str, link: str) -> str:
    """Return the absolute path of an item of ``Record.links``, without a look at the disk."""
    folder, _, name = link.rpartition("/")
    return f"{_folder(base, folder)}{os.sep}{name}"


@lru_cache(maxsize=64)  # few folders hold the many links of a project
def _folder(base: str, folder: str) -> str:
    return os.path.join(base, folder.replace("/", os.sep))


def compare_copy(path: str, listing: Listing, store: Store, kind: LinkKind) -> tuple[CopyState, list[TreeProblem]]:
    """Return whether ``path`` holds the tree of ``listing``, and the differences, as ``Store.compare`` finds them.

    Args:
        path: The path in an agent's folder.
        listing: The expected files.
        store: The store, to which a link of kind ``symlink`` must lead.
        kind: Whether a copy or a link is expected; in place of a link a copy is accepted.
    """
    if not os.path.lexists(path):
        return "absent", [TreeProblem("missing-link", path, "the skill is enabled, but its copy is missing")]
    if files.is_link(path):
        if kind == "symlink" and os.readlink(path).removeprefix(_LONG_PATH) == store.path(listing.digest):
            return "equal", []
        return "edited", [TreeProblem("wrong-link", path, "a link that skillhub did not make")]
    if not os.path.isdir(path):
        return "edited", [TreeProblem("not-a-folder", path, "expected the skill's folder")]
    # In place of a link a copy is accepted: some file systems have no links.
    problems = store.compare(path, listing)
    return ("edited" if problems else "equal"), problems


def write_copy(
    project: Project, path: str, tree: Tree, stored: str, kind: LinkKind, linkages: Sequence[Linkage] = LINKAGES
) -> None:
    """Write the tree to ``path`` and replace what is there; a reader finds the whole old or the whole new tree.

    The tree is built beside the agent's folder, not in it, so that no agent finds half a skill.

    Args:
        project: The project.
        path: The path in an agent's folder, from ``path_of``.
        tree: The files to write.
        stored: The tree's folder in the store.
        kind: Whether to write a copy or a link; if no link can be made, a copy.
        linkages: The ways to make a link, each tried if those before it fail.

    Raises:
        LinkLeavesProject: a folder on the path has become a link.
        StateError: the disk refuses.
    """
    beside = os.path.join(_beside(project, path), f"{_STAGED}{os.urandom(6).hex()}")
    with files.disk_errors(path), project.hold(path, make=True) as (name, at), project.hold(beside) as (staged, by):
        old = f"{staged}-old@{os.path.basename(path)}"
        try:
            is_linked = kind == "symlink" and _linked(stored, staged, by, linkages)
            # A clone shares the store's blocks if the file system can; `clone_tree` refuses a damaged tree.
            if not is_linked and (tree.size < WORTH_SHARING or not clone_tree(stored, staged, tree, by)):
                write_tree(staged, tree.items(), read_only=False, dir_fd=by)
            is_there = files.status_of(name, at) is not None
            if is_there:
                move_tree(name, old, at, by)
            os.rename(staged, name, src_dir_fd=by, dst_dir_fd=at)
            if is_there:
                remove_tree(old, by)
        except OSError:
            with suppress(OSError):
                remove_tree(staged, by)
            with suppress(OSError):
                if files.status_of(name, at) is None:
                    os.rename(old, name, src_dir_fd=by, dst_dir_fd=at)
            raise


def refuse_read_only(project: Project, paths: Iterable[str]) -> None:
    """Refuse to change these places if a folder for it is read-only; called before the change is recorded.

    Raises:
        StateError: the folder of a place, or the one to build its tree in, cannot be written.
    """
    by_folder = {os.path.dirname(path): path for path in paths}.values()  # one for all places of a folder
    tops = {first_there(each) for path in by_folder for each in (os.path.dirname(path), _beside(project, path))}
    for folder in sorted(tops):
        if not os.access(folder, os.W_OK):
            is_mounted_so = hasattr(os, "statvfs") and os.statvfs(folder).f_flag & os.ST_RDONLY
            code = errno.EROFS if is_mounted_so else errno.EACCES
            raise files.disk_error(OSError(code, os.strerror(code)), folder)


def _beside(project: Project, path: str) -> str:
    """Return the folder in which to build the tree for ``path``: the parent of the agent's folder.

    If the agent's folder is the project itself, it is that folder, since the parent does not belong to the project.
    """
    folder = os.path.dirname(path)
    return folder if folder == project.base else os.path.dirname(folder)


def _linked(target: str, path: str, at: int | None, linkages: Sequence[Linkage]) -> bool:
    """Make a link in the first way that works; return whether one worked."""
    for linkage in linkages:
        with suppress(OSError):
            linkage(target, path, at)
            return True
    return False


def remove_copy(project: Project, path: str) -> None:
    """Remove the file, folder or link at ``path``, if it exists.

    Raises:
        LinkLeavesProject: a folder on the path has become a link.
        StateError: the disk refuses.
    """
    beside = os.path.join(_beside(project, path), f"{_STAGED}{os.urandom(6).hex()}-old")
    with (
        files.disk_errors(path),
        suppress(FileNotFoundError),
        project.hold(path) as (name, at),
        project.hold(beside) as (gone, by),
    ):
        move_tree(name, gone, at, by)
        remove_tree(gone, by)


def sweep(project: Project, links: Collection[str], shared: Iterable[tuple[str, files.HeldFolder]]) -> None:
    """Remove the unfinished files of a killed process: beside the folders of these links, the lock and saved edits.

    A copy that it moved aside and did not replace is moved back, with its edits. The caller holds the project's lock.
    In ``shared`` folders skillhub may be writing for another project: there only old files are removed.

    Raises:
        LinkLeavesProject: a folder is behind a link out of the project.
        StateError: the disk refuses.
    """
    folders = {path_of(project, f"{folder}/x") for folder in {link.rpartition("/")[0] for link in links}}
    beside = {_beside(project, each) for each in folders}
    for each in folders:
        _put_back(project, os.path.dirname(each), _beside(project, each), {link.rpartition("/")[2] for link in links})
    edits = os.path.join(project.root, EDITS)
    beside |= {project.root} if files.is_link(edits) else {project.root, edits}
    for folder in beside:
        _sweep(folder, project.root_of(os.path.join(folder, "")), float("inf"))
    for folder, root in shared:
        if folder not in beside:
            with suppress(StateError):  # a folder that this user cannot read has no file of this user's skillhub
                _sweep(folder, root, time.time() - _OLD_AFTER)


def _put_back(project: Project, folder: str, beside: str, names: Collection[str]) -> None:
    for aside in files.names_in(beside):
        name = aside.rpartition("-old@")[2]
        path, old = os.path.join(folder, name), os.path.join(beside, aside)
        if UNFINISHED.fullmatch(aside) and name in names and not os.path.lexists(path):
            with files.disk_errors(path), project.hold(path, make=True) as (to, at), project.hold(old) as (gone, by):
                os.rename(gone, to, src_dir_fd=by, dst_dir_fd=at)


def _sweep(folder: str, root: files.HeldFolder, before: float) -> None:
    """Remove the unfinished files in a folder that were last changed before that time."""
    with (
        files.disk_errors(folder),
        suppress(FileNotFoundError, NotADirectoryError),
        root.hold(os.path.join(folder, _STAGED)) as (name, at),
    ):
        for row in _rows(os.path.dirname(name) or ".", at):
            if UNFINISHED.fullmatch(row.name) and row.stat(follow_symlinks=False).st_mtime < before:
                remove_tree(row.name if at is not None else row.path, at)


def _rows(folder: str, at: int | None) -> Iterator[os.DirEntry[str]]:
    handle = os.open(folder, OPEN_FOLDER, dir_fd=at) if at is not None else None
    try:
        with os.scandir(folder if handle is None else handle) as rows:
            yield from rows
    finally:
        if handle is not None:
            os.close(handle)


def foreign_error(path: str, project: Project) -> StateError:
    """Return the error for a file or folder in the way that is not from skillhub, which never removes it."""
    hint = "move it away, or remove it, then run the command again"
    name = os.path.basename(path)
    is_inside = files.is_within(path, project.base)  # adopt follows no other link
    is_skill = is_inside and os.path.isfile(os.path.join(path, SKILL_MD))
    if is_skill and name not in project.last_lock().skills:
        hint = f"{command(project.scope, 'adopt', name)} locks the skill that is there; or {hint}"
    return StateError("another file or folder, not from skillhub, is in the way", where=path, hint=hint)


# The folders and files of agents that skillhub created; it removes them once they are empty. The folder of an agent
# is the sign that the agent is in use, so an empty one must not stay.


def missing_paths(project: Project, paths: Iterable[str]) -> tuple[str, ...]:
    """Return those of these absolute paths, and of the folders above them, that do not exist, as ``portable``."""
    todo, found = [*dict.fromkeys(paths)], dict[str, None]()
    while todo:
        path = todo.pop()
        if not os.path.lexists(path):
            found[portable(path, project.base)] = None
            todo.append(os.path.dirname(path))
    return tuple(found)


# The installed skills: each skill of the lock with its state on this machine. Nothing here writes.

NeedCheck = Callable[[str, str], bool]  # kind and name of a need -> whether it is satisfied


def managed(project: Project, store: Store, environ: Mapping[str, str]) -> list[Skill]:
    """Return every locked skill, by name.

    Raises:
        FormatError: the lock is malformed.
        StateError: it cannot be read.
    """
    lock, records = project.lock(), project.records()
    is_satisfied = need_check(environ, records.enabled(lock.skills))
    return [
        view(name, entry, records.skills.get(name), is_satisfied, project, store)
        for name, entry in lock.skills.items()
    ]


def view(
    name: str, entry: Locked, record: Record | None, is_satisfied: NeedCheck, project: Project, store: Store
) -> Skill:
    """Return the skill of a lock's entry with its state on this machine.

    A record with another tree or another origin than the entry counts as none: no one has agreed to the entry yet.
    """
    record = record if record is not None and record.is_of(entry) else None
    facts = record.facts if record else Facts()
    enabled = record is not None and record.enabled
    signers = tuple(map(Signer.parse, entry.signed_by))
    return Skill(
        name=name,
        **{fact: getattr(entry, fact) for fact in ("source", "version", "digest", "tree", "size", "url")},
        path=store.path(entry.tree),
        links=tuple(absolute(project.base, link) for link in record.links) if record and enabled else (),
        scope=project.scope,
        state="enabled" if enabled else "disabled",
        invocation="model" if facts.model_invocable else "user",
        signed_by=signers if record else (),
        claimed_by=() if record else signers,
        vouched_by=voucher(entry, project.last_lock(), project.home) if entry.signed_by else None,
        requires=needs_of(facts, record, with_stored_values(is_satisfied, name, project)) if facts.needs else (),
        capabilities=facts.capabilities if record else entry.capabilities,
        description=facts.description,
        patch=entry.patch.path if entry.patch else None,
        own_name=entry.name,
    )


def need_check(environ: Mapping[str, str], enabled: Collection[str] = ()) -> NeedCheck:
    """Return the check of a need against the variables and programs of an environment and the enabled skills.

    It does not know MCP servers: the skill's record has those that are configured.
    """
    programs: dict[str, bool] = {}

    def is_satisfied(kind: str, name: str) -> bool:
        if kind == "env":
            return bool(environ.get(name))
        if kind == "program":
            if name not in programs:
                from shutil import which  # noqa: PLC0415 - it imports three compression modules, 3 ms for few skills

                programs[name] = which(name, path=environ.get("PATH")) is not None
            return programs[name]
        return kind == "skill" and name in enabled

    return is_satisfied


def with_stored_values(is_satisfied: NeedCheck, skill: str, project: Project) -> NeedCheck:
    """Return the check for one skill: a stored value that this skill may have also satisfies a variable."""

    def is_satisfied_for_it(kind: str, name: str) -> bool:
        return is_satisfied(kind, name) or (kind == "env" and name in project.secrets.names_for(project.key, skill))

    return is_satisfied_for_it


def needs_of(
    facts: Facts, record: Record | None, is_satisfied: NeedCheck, supplied: Collection[str] = ()
) -> tuple[Need, ...]:
    """Return every need of a skill; needs that were satisfied or waived when it was enabled still are.

    But not a variable whose value was an argument of an earlier command: only the ``supplied`` variables of the
    current command count. An MCP entry that skillhub wrote, maybe for an earlier version, satisfies a need only of a
    skill that is enabled.
    """
    met_needs, waived = {*supplied}, record.waived if record else ()
    if record:
        met_needs |= {need for need in record.satisfied if not need.startswith("env:")}
        met_needs |= {f"mcp:{name}" for name in record.mcp if record.enabled}
    return tuple(
        Need(
            need.kind,
            need.name,
            need.description,
            need.required,
            satisfied=need.spell() in met_needs or is_satisfied(need.kind, need.name),
            waived=need.spell() in waived,
        )
        for need in facts.needs
    )


_DEEPEST = 8  # levels of folders that are searched; no agent searches more
_FOLDERS_MAX = 2000  # folders that are searched in one root; no known agent searches more


def not_agreed(project: Project) -> list[str]:
    """Return the locked skills that no one agreed to on this machine, without those that the user disabled.

    Raises:
        FormatError: the lock is malformed.
        StateError: it cannot be read.
    """
    locked = project.lock().skills
    records = project.records().returned(locked).skills
    found = []
    for name, entry in locked.items():
        record = records.get(name)
        if record is None or (record.disabled_by != "user" and not record.consent_to(entry)):
            found.append(name)
    return found


def left_the_lock(project: Project, lock: Lock, records: Records) -> dict[str, list[str]]:
    """Return the skills that left the lock with the copies that agents still read; none if there is no lock.

    Raises:
        LinkLeavesProject: as for ``path_of``.
    """
    gone = records.skills.keys() - lock.skills if os.path.lexists(project.lock_path) else set()
    copies = {name: paths_of(project, records.skills[name].links) for name in sorted(gone)}
    left = {name: [*filter(os.path.lexists, paths)] for name, paths in copies.items()}
    return {name: paths for name, paths in left.items() if paths}


def users_skills(project: Project, user_home: str, store: Store, environ: Mapping[str, str]) -> list[Skill]:
    """Return the enabled skills of the user scope, which agents find beside those of a project.

    Raises:
        FormatError, StateError: as for ``managed``, of the user's own lock.
    """
    if project.scope == "user":
        return []
    skills = managed(project.users(user_home), store, environ)
    return [skill for skill in skills if skill.state == "enabled"]


def unproved(skill: Skill, store: Store) -> list[str]:
    """Return the copies of a locked skill that may have changed since all their bytes were hashed."""
    return [link for link in skill.links if skill.tree and not store.proved.holds(link, skill.tree)]


def is_in_package(path: str | None, project: Project) -> bool:
    """Return whether a path is in the package on which the command works."""
    return os.path.realpath(path or "").startswith(os.path.join(os.path.realpath(project.base), project.package, ""))


def unmanaged(project: Project, user_home: str, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield each folder with a ``SKILL.md`` in agents' folders that skillhub did not put there.

    Agents also search the folders in their folders, except hidden ones; an agent's folder may itself be a skill.
    """
    managed_names: defaultdict[str, set[str]] = defaultdict(set)
    folder_names = [*_managed_names(project).items()]
    if project.scope == "project" and os.path.realpath(project.base) == os.path.realpath(user_home):
        # A project in the home shares the agents' folders with the user scope.
        folder_names += _managed_names(project.users(user_home)).items()
    for folder, names in folder_names:
        managed_names[os.path.realpath(folder)] |= names
    for top in agent_folders(project, user_home, environ):
        level, seen = [top], {os.path.realpath(top)}
        holder, name = os.path.split(top)
        if os.path.isfile(os.path.join(top, SKILL_MD)) and name not in managed_names[os.path.realpath(holder)]:
            yield top
        for _ in range(_DEEPEST):
            below: list[str] = []
            for folder in level:
                yield from _skills_in(folder, managed_names[os.path.realpath(folder)], below, seen)
            level = below


def _skills_in(folder: str, managed_names: Collection[str], below: list[str], seen: set[str]) -> Iterator[str]:
    """Yield the skills in a folder that are not from skillhub, and add its folders to search next to ``below``."""
    try:
        names = sorted({*os.listdir(folder)}.difference(managed_names))
    except OSError:
        return
    for name in names:
        path = os.path.join(folder, name)
        if os.path.isfile(os.path.join(path, SKILL_MD)):
            yield path
        elif not (name.startswith(".") or name == "node_modules") and os.path.isdir(path):
            real = os.path.realpath(path)
            if real not in seen and len(seen) < _FOLDERS_MAX:
                seen.add(real)
                below.append(path)


def _managed_names(project: Project) -> dict[str, set[str]]:
    """Return the names by folder that the lock accounts for: links of enabled skills, and folders of local skills.

    A copy of a removed or disabled skill that could not be deleted is not among them: agents still read it.
    """
    locked, records = project.lock().skills, project.records().skills
    links = [link for name, record in records.items() if record.enabled and name in locked for link in record.links]
    # The path of a skill that is not local is one in its repository.
    links += [entry.path for entry in locked.values() if entry.local and entry.path]
    return by_folder(project, links)


def by_folder(project: Project, links: Iterable[str]) -> dict[str, set[str]]:
    """Return the names of links, as records have them, by absolute folder."""
    names: defaultdict[str, set[str]] = defaultdict(set)
    for link in links:
        folder, _, name = link.rpartition("/")
        names[_folder(project.base, folder)].add(name)
    return names


def agent_folders(
    project: Project, user_home: str, environ: Mapping[str, str], agents: Iterable[Host] | None = None
) -> list[str]:
    """Return the existing folders from which these agents, or all agents, read skills; each real folder once.

    If skillhub.toml cannot be read, which other functions report, folders to a depth of three count as packages.

    Raises:
        FormatError, LinkLeavesProject: as ``Project.packages``, for a file that can be read.
    """
    folders = read_by_agents(project, user_home, environ, agents)
    if packages := _packages(project):
        below = [each for each in (portable(each, project.base) for each in folders) if not os.path.isabs(each)]
        folders += tuple(os.path.join(project.base, package, each) for package in packages for each in below)
    found: dict[str, str] = {}
    for folder in filter(os.path.isdir, folders):
        found.setdefault(os.path.realpath(folder), folder)
    return list(found.values())


def _packages(project: Project) -> Sequence[str]:
    try:
        is_workspace = project.scope == "project" and project.members()
    except SkillhubError:
        root, patterns = project.root, ("*", "*/*", "*/*/*")
        folders = (each for _, found in folders_matching(root, patterns) for each in found)
        return [each for each in folders if not os.path.lexists(os.path.join(root, each, LOCK))]
    return project.packages() if is_workspace else ()

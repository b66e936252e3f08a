"""Uninstall: list and remove the files that skillhub wrote on this machine; files of the user, and edits, stay."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

from skillhub.command.ports import Ports, ask
from skillhub.disk import files
from skillhub.disk.folders import remove_tree
from skillhub.disk.home import EDITS, Home
from skillhub.disk.installer import extra_command, removal_command
from skillhub.errors import Drifted, FormatError, SkillhubError, StateError
from skillhub.exchange.own_mcp_entry import NAME, entries_file
from skillhub.formats.json import strict_json
from skillhub.formats.text import as_command
from skillhub.install.links import refuse_source
from skillhub.model.hosts import Scope
from skillhub.model.provenance import Record, Records
from skillhub.model.question import Asked, Question
from skillhub.project import copies, mcp_config
from skillhub.project.git_exclude import check_exclude, exclude
from skillhub.project.project import Project, state_key
from skillhub.project.store import Store
from skillhub.project.user_state import Secret
from skillhub.runtime.folder import Agreed, Folder

_CAP = 256 << 20
_PARTS = frozenset({"config", "data", "cache", "state"})
# Files of the user that cannot be restored: signing keys, and saved edits of skills of the user scope.
_OWN = {"keys": "your signing keys", EDITS: "edits of yours that were saved"}
_COMPLETIONS = (".bash_completions/skillhub.sh", ".zfunc/_skillhub", ".config/fish/completions/skillhub.fish")
_SHELLS = (".bashrc", ".bash_profile", ".zshrc", ".config/fish/config.fish")
_SHOWN = 30
# The names in skillhub's own folders, except the cache; on some platforms, two or three folders are the same.
_WRITTEN = re.compile(
    r"(?:\.skillhub-.*|(?:advisories|agents|config|first-seen|keys|listings|mcp-entries|policy|profiles|project-sources|"
    r"projects|proved|publish|publishers|roots|scan-cache|secrets|seen|shown-time|signers|sites|skillhub|skillhub-edits|skills|"
    r"sources|store|tuf)(\.json)?(\.lock|\.toml|\.key)?)"
)


class Installed(NamedTuple):
    """An item of skillhub on this machine; ``kept`` is the reason why it stays, and empty if it is removed."""

    kind: Literal["copy", "mcp", "value", "folder"]
    path: str
    name: str
    kept: str = ""


@dataclass(frozen=True, slots=True)
class Uninstalled:
    """The result of ``uninstall``.

    Attributes:
        rows: The items that are removed, and those that stay.
        left: Steps for the user.
        package: The command that removes the program.
    """

    rows: tuple[Installed, ...]
    left: tuple[str, ...]
    package: str
    asked: tuple[Asked, ...] = ()


def uninstall(ports: Ports, drop: Callable[[Secret], None] | None, *, dry_run: bool) -> Uninstalled:
    """Remove what skillhub wrote on this machine: copies, entries of agents, stored values, its own folders.

    ``skillhub.toml`` and ``skillhub.lock`` belong to projects and stay.

    Args:
        ports: The ports.
        drop: Removes a value from the keyring; None if the keyring cannot be reached.
        dry_run: List the items, and remove none.

    Raises:
        Refused: the user did not agree; nothing was removed.
        FormatError, StateError: the record of a project that still exists, or is unknown, cannot be read.
    """
    rows = _rows(ports, drop, remove=False)
    lines = [f"{row.kind}: {row.path}{f' ({row.name})' if row.name else ''}" for row in rows if not row.kept]
    omitted = [f"and {len(lines) - _SHOWN} more: --dry-run lists all"] if len(lines) > _SHOWN else []
    staying = [f"stays: {row.path}: {row.kept}" for row in rows if row.kept]
    answers = []
    if lines:
        question = Question("uninstall", NAME, "Remove all of this?", (*lines[:_SHOWN], *omitted, *staying[:_SHOWN]))
        answers = ask([question], ports, dry_run)
    if lines and not dry_run:
        rows = _rows(ports, drop, remove=True)
    return Uninstalled(tuple(rows), (*_completion(ports.user_home),), removal_command(), tuple(answers))


def _rows(ports: Ports, drop: Callable[[Secret], None] | None, *, remove: bool) -> list[Installed]:
    """Return all items; with ``remove``, remove each item right after it was checked, unless it stays."""
    home = ports.project.home
    rows: list[Installed] = []
    for project, records in [*_projects(home, rows)]:
        check_exclude(project.around)  # without ``remove``, which comes first, for all projects
        with project.exclusively() if remove else nullcontext():
            rows += _of_project(project, records, ports, remove)
    rows += dict.fromkeys(_own_entries(ports, remove))  # a file below the home may also belong to a project
    for secret in ports.project.secrets.all():
        where = f"{secret.name} in the system's keyring"
        if remove and drop is not None:
            drop(secret)
        why = "" if drop else f"skillhub cannot remove it without: {extra_command('keyring')}"
        rows.append(Installed("value", where, "", why))
    stored = os.path.realpath(ports.store.root) + os.sep
    links = [os.path.realpath(row.path) for row in rows if row.kept and files.is_link(row.path)]
    is_linked = any(link.startswith(stored) for link in links)
    own_names = {**_OWN, **({"store": "an edited skill is linked to it"} if is_linked else {})}
    return [*rows, *_folders(home, own_names, remove)]


def _projects(home: Home, rows: list[Installed]) -> Iterator[tuple[Project, Records]]:
    """Yield each project that still exists, with its record; the lock may be gone.

    A project that is gone, and whose record is malformed, becomes one of the ``rows``.
    """
    folder = os.path.join(home.state, "projects")
    for name in files.names_in(folder):
        path = os.path.join(folder, name)
        data = files.read(path, _CAP) if name.endswith(".json") else None
        try:
            records = Records() if data is None else Records.parse(data, path)
        except FormatError as error:
            gone = _gone_project(data or b"", path)
            if gone is None:
                raise
            rows.append(
                Installed("copy", gone, "", f"the folder is gone, and its record is malformed: {error.message}")
            )
            continue
        if not (os.path.isabs(records.project) and os.path.isdir(records.project)):
            continue
        for scope in get_args(Scope):
            if name == f"{state_key(records.project, scope)}.json":  # otherwise the record is for another folder
                yield Project(records.project, scope, home), records


def _gone_project(data: bytes, path: str) -> str | None:
    """Return the project that a malformed record is about, if its folder is gone; else None."""
    with suppress(FormatError):
        match strict_json(data, path, _CAP):
            case {"project": str() as base} if os.path.isabs(base) and not os.path.isdir(base):
                names = [f"{state_key(base, scope)}.json" for scope in get_args(Scope)]
                return base if os.path.basename(path) in names else None
    return None


def _of_project(project: Project, records: Records, ports: Ports, remove: bool) -> Iterator[Installed]:
    remaining = dict(records.skills)
    folders = copies.read_by_agents(project, ports.user_home, ports.environ)
    agent_folders = {copies.portable(folder, project.base) for folder in folders}
    in_packages = tuple(f"/{folder}" for folder in agent_folders)  # also of one that the workspace no longer names

    def is_for_agents(link: str) -> bool:
        folder = os.path.split(link)[0]
        return folder in agent_folders or (not os.path.isabs(folder) and folder.endswith(in_packages))

    if remove:
        known = [link for record in records.skills.values() for link in record.links]
        with suppress(StateError):  # behind a link out of the project, unfinished files stay
            copies.sweep(project, [*filter(is_for_agents, known)], ())
    for name, record in [*records.skills.items(), *records.pending.items()]:
        kept_links = []
        for link in record.links:
            path = copies.absolute(project.base, link)
            row: Installed | None = Installed("copy", path, name, "it is in no agent's folder")
            if is_for_agents(link):
                row = _copy(project, name, link, record, ports.store, remove)
            if row is not None:
                if row.kept:
                    kept_links.append(link)
                yield row
        remaining[name] = replace(record, links=tuple(kept_links))
        yield from _written_entries(record, project, ports, remove)
    if remove:
        exclude(project.around, [link for record in remaining.values() for link in record.links])
        is_user = project.scope == "user"
        created = [path for path in records.created_paths if not os.path.isabs(path) or is_user]
        mcp_config.remove_created(project, created)


def _written_entries(record: Record, project: Project, ports: Ports, remove: bool) -> Iterator[Installed]:
    """Yield the entries that were written for one skill, with ``remove`` after each was removed."""
    place = (project.scope, project.base, ports.user_home, ports.environ)
    entries = [(server, *each) for server, by_agent in record.mcp.items() for each in by_agent.items()]
    for server, agent, entry in entries:
        try:
            file = mcp_config.config_file(agent, *place)
            if file is not None:
                yield from _entry(file, server, entry, project, remove)
        except SkillhubError as error:
            yield Installed("mcp", error.where or project.base, server, error.message)


def _copy(project: Project, name: str, link: str, record: Record, store: Store, remove: bool) -> Installed | None:
    """Return a copy in an agent's folder, and remove it with ``remove``; None if it does not exist."""
    try:
        path = copies.path_of(project, link)
        if not os.path.lexists(path):
            return None
        if files.is_link(path) and os.path.realpath(path) != os.path.realpath(store.path(record.tree)):
            return Installed("copy", path, name, "a link that skillhub did not make")
        refuse_source(project, link, path, record)
        Folder(path).check(Agreed(record.tree, store.listing(record.tree)))
        if remove:
            copies.remove_copy(project, path)
        return Installed("copy", path, name)
    except SkillhubError as error:
        why_kept = "it was edited" if isinstance(error, Drifted) else error.message
        return Installed("copy", copies.absolute(project.base, link), name, why_kept)


def _entry(
    file: mcp_config.ConfigFile, server: str, entry: mcp_config.ConfigEntry, project: Project, remove: bool
) -> Iterator[Installed]:
    present = mcp_config.servers(file).get(server)
    if present is None:
        return
    why_kept = "" if mcp_config.is_equal(present, entry) else "the entry was changed"
    if remove and not why_kept:
        mcp_config.remove(file, server, entry, project)
    yield Installed("mcp", file.path, server, why_kept)


def _own_entries(ports: Ports, remove: bool) -> Iterator[Installed]:
    """Yield the entries of agents that run ``skillhub mcp``, since they would fail without the program."""
    own_entries = entries_file(ports.project.home)
    for path, entry in own_entries.entries.items():
        for agent, dialect in mcp_config.DIALECTS.items():
            bases = [path.removesuffix(f"/{suffix}") for suffix in dialect.project if path.endswith(f"/{suffix}")]
            places = [*(("project", base) for base in bases), ("user", ports.user_home)]
            for scope, base in places:
                try:
                    project = Project(base, "user" if scope == "user" else "project", ports.project.home)
                    file = mcp_config.config_file(agent, project.scope, base, ports.user_home, ports.environ)
                    if file is not None and file.path == path:
                        yield from _entry(file, NAME, entry, project, remove)
                        if remove:
                            mcp_config.remove_created(project, own_entries.created.get(path, ()))
                except SkillhubError as error:
                    yield Installed("mcp", path, NAME, error.message)


def _folders(home: Home, own_names: Mapping[str, str], remove: bool) -> Iterator[Installed]:
    """Yield skillhub's own folders; a folder with files of other programs stays."""
    folders = (home.cache, home.data, home.config, home.state)
    is_named = {*map(os.path.basename, folders)} == _PARTS  # set by SKILLHUB_HOME, which may be any folder
    is_own = {*files.names_in(os.path.dirname(home.state))} <= _PARTS and {*files.names_in(home.data)} <= {"store"}
    for folder in filter(os.path.lexists, dict.fromkeys(folders)):
        is_ours = is_own if is_named else "skillhub" in folder.split(os.sep)
        if not is_ours or files.is_link(folder):
            yield Installed("folder", folder, "", "it holds, or leads to, more than skillhub's own files")
            continue
        staying = [(os.path.join(folder, name), why) for name, why in own_names.items()]
        staying = [(path, why) for path, why in staying if files.names_in(path)]
        staying += [(path, "skillhub did not write it") for path in _foreign_paths(folder, home)]
        yield from (Installed("folder", path, "", why) for path, why in staying)
        if remove:
            _remove_but(folder, {path for path, _ in staying})
            if is_named:
                with suppress(OSError):  # the folder is not empty, is a link, or is a mount point
                    os.rmdir(os.path.dirname(folder))
        yield Installed("folder", folder, "all but what stays" if staying else "")


def _foreign_paths(folder: str, home: Home) -> Iterator[str]:
    """Yield the paths in one of skillhub's own folders that skillhub did not write."""
    if folder != home.cache:
        paths = {name: os.path.join(folder, name) for name in files.names_in(folder)}
        yield from (path for name, path in paths.items() if not _WRITTEN.fullmatch(name) and path != home.cache)


def _remove_but(folder: str, kept_paths: set[str]) -> None:
    try:
        if not kept_paths:
            remove_tree(folder)
            return
        for path in (os.path.join(folder, name) for name in files.names_in(folder)):
            if path not in kept_paths:
                remove_tree(path)
    except OSError as error:
        raise StateError(f"cannot be removed: {error.strerror}", where=folder) from error


def _completion(user_home: str) -> Iterator[str]:
    """Yield the steps that remove shell completion: files to delete, and lines in files of the user."""
    for name in _COMPLETIONS:
        if os.path.isfile(path := os.path.join(user_home, *name.split("/"))):
            yield as_command("rm", path)
    for name in _SHELLS:
        path = os.path.join(user_home, *name.split("/"))
        with suppress(OSError), open(path if os.path.isfile(path) else os.devnull, errors="replace") as lines:
            for number, line in enumerate(lines, 1):
                words = line.lower()
                if "skillhub" in words and ("complet" in words or "skillhub.sh" in words):
                    yield f"take line {number} out of {path}: {line.strip()[:200]}"

"""MCP servers in the configuration of agents: the path of each file, and how an entry is written and removed."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, get_args

from skillhub.disk import files
from skillhub.errors import FormatError, StateError, UsageError
from skillhub.formats import json as jsonc
from skillhub.formats import toml, yaml
from skillhub.formats.text import deferred, packaged, quote
from skillhub.model.hosts import Scope, absolute, expand, host
from skillhub.project.git_exclude import exclude_file
from skillhub.project.project import Project

if TYPE_CHECKING:
    from skillhub.model.needs import McpServer

# The files with the MCP servers of each agent, and the format of an entry: ``mcp_files.json``.
# An entry never holds a secret: it names variables, in the syntax that the agent expands.

ConfigEntry = dict[str, object]
_YAML = (".yaml", ".yml")


@dataclass(frozen=True)
class McpDialect:
    """The files of one agent and the format of their entries, a row of ``mcp_files.json``.

    Attributes:
        key: The key of the object with the servers, by name.
        local: The template of an entry with a command; ``<args>`` and others are placeholders.
        remote: The template of an entry with a URL.
        project: Files below a project; the agent's file is the first that exists, else the first.
        user: The same for a user; empty if the agent has no such file.
        moved: A variable with the folder of the user's file, and the name of the file in it; with an empty name, the
            variable has the path of the file.
        reference: The texts before and after the name of a variable; None if the syntax is unknown.
        by_project: Whether the user's file also has servers for single projects, by their folders.
        listed: Whether the servers are a list, each with its name.
        head: The first text of a new file.
        folder: Whether the agent reads all files of the project's folder.
        login: How a person logs in to a server with OAuth; ``{}`` is the server's name.
        also: Another program of this agent, with its own files.
    """

    key: str
    local: ConfigEntry
    remote: ConfigEntry
    project: Sequence[str] = ()
    user: Sequence[str] = ()
    moved: Sequence[str] = ("", "")
    reference: Sequence[str] | None = None
    by_project: bool = False
    listed: bool = False
    head: str = ""
    folder: bool = False
    login: str = ""
    also: Mapping[str, Any] | None = None

    def knows(self, server: McpServer) -> bool:
        """Return whether ``server`` can be written: not if it has variables whose syntax is unknown."""
        return self.reference is not None or not server.variables

    def spell(self, server: McpServer) -> ConfigEntry:
        """Return the entry for a server that ``knows`` accepts: text, lists and references to variables."""
        before, after = self.reference or ("", "")
        values: ConfigEntry = {
            "<program>": server.command[:1] and server.command[0],
            "<args>": list(server.command[1:]),
            "<words>": list(server.command),
            "<env>": {name: f"{before}{name}{after}" for name in server.env},
            "<names>": list(server.variables) or None,
            "<url>": server.url,
            "<bearer>": server.bearer,
            "<headers>": {"Authorization": f"Bearer {before}{server.bearer}{after}"} if server.bearer else None,
        }
        return _filled(self.remote if server.url is not None else self.local, values)

    def insert(self, text: str, name: str, entry: ConfigEntry, where: str) -> str:
        """Return the text of a file with the entry added by the editor of its format."""
        path = (self.key, name)
        if where.endswith(".toml"):
            return toml.insert(text, path, entry, where)
        if where.endswith(_YAML):
            return yaml.insert(text or self.head, path, entry, where, listed=self.listed)
        return jsonc.insert(text, path, entry, where)

    def remove(self, text: str, name: str, where: str) -> str:
        """Return the text of a file without the entry, by the editor of its format."""
        path = (self.key, name)
        if where.endswith(".toml"):
            return toml.remove(text, path, where)
        return yaml.remove(text, path, where) if where.endswith(_YAML) else jsonc.remove(text, path, where)


def _filled(template: ConfigEntry, values: ConfigEntry) -> ConfigEntry:
    found: ConfigEntry = {}
    for key, each in template.items():
        value = values.get(each, each) if isinstance(each, str) else each
        value = _filled(each, values) if isinstance(each, dict) else value
        if value is not None and value != {}:
            found[key] = value
    return found


DIALECTS = {name: McpDialect(**row) for name, row in packaged("model/mcp_files.json")["agents"].items()}


# Reading, adding and removing MCP servers in the config files of agents.
# Those files belong to the user and to the agent. One entry is added, replaced or removed and every other byte stays;
# an entry with the same name that skillhub did not write is never changed, nor is a malformed file.

EntryState = Literal["absent", "equal", "different"]
# bytes; ~/.claude.json also holds the history of every project and grows to some megabytes. A file in a repository
# has no reason to be as large.
_LIMITS: Mapping[Scope, int] = {"project": 1 << 20, "user": 32 << 20}
_TRIES = 5
_FOLDER_MAX = 100
# The names that Claude Code and Codex accept, without `__proto__`, which has a meaning in JavaScript.
_NAME = deferred(r"(?!__proto__$)[A-Za-z0-9_-]{1,64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """The file of one agent in one scope; ``path`` is absolute, free of links, and may not exist yet."""

    agent: str
    scope: Scope
    path: str
    dialect: McpDialect

    def login(self, name: str) -> str:
        """Return how a person logs in to this server with OAuth; only the agent can open that login."""
        return self.dialect.login.format(name) or f"use {name} in {self.agent}, which opens its login"


def dialects(agent: str, scope: Scope) -> tuple[McpDialect, ...]:
    """Return the dialects of this agent with files in this scope; none for an agent without such files."""
    first = DIALECTS.get(agent)
    both = [first, *([McpDialect(**first.also)] if first.also else [])] if first is not None else []
    return tuple(each for each in both if (each.project if scope == "project" else each.user))


def agents_with_file(scope: Scope) -> tuple[str, ...]:
    """Return the agents with a file for MCP servers in this scope."""
    return tuple(name for name in DIALECTS if dialects(name, scope))


def entry(agent: str, server: McpServer, scope: Scope | None = None) -> ConfigEntry:
    """Return the entry for ``server`` in this agent's file; it holds names of variables, never a value.

    Without ``scope`` the entry is that for a project's file, or for the user's if the agent has no other.

    Raises:
        UsageError: there is no such agent, it has no known file for MCP servers, or the syntax of such an entry is
            unknown.
    """
    name = host(agent).id
    if name not in DIALECTS:
        hint = f"agents with such a file: {', '.join(DIALECTS)}"
        raise UsageError(f"{name} has no configuration file for MCP servers that skillhub supports", hint=hint)
    of_scope = dialects(name, scope) if scope else ()
    dialect = of_scope[0] if of_scope else DIALECTS[name]
    if not dialect.knows(server):
        raise UsageError(f"skillhub cannot write such a server for {name}", hint="write it into the file yourself")
    return dialect.spell(server)


def is_spelled(agent: str, server: McpServer) -> bool:
    """Return whether ``entry`` can write ``server`` for this agent, which has a file."""
    return DIALECTS[host(agent).id].knows(server)


def config_file(agent: str, scope: Scope, project: str, home: str, environ: Mapping[str, str]) -> ConfigFile | None:
    """Return the file from which this agent reads MCP servers; None if it has none in this scope.

    In a project no link may lead out of the project. In the home links are followed, since a person may keep such
    files elsewhere.

    Raises:
        UsageError: there is no such agent.
        LinkLeavesProject: the project's file is, or lies behind, a link out of the project.
        StateError: a folder on the path cannot be read.
    """
    found = _files(agent, scope, project, home, environ)
    return next((each for each in found if os.path.exists(each.path)), found[0]) if found else None


def configured(
    name: str, scope: Scope, project: str, home: str, environ: Mapping[str, str], only: str | None = None
) -> Iterator[tuple[ConfigFile, object]]:
    """Yield the entries with a name of every agent, or of ``only`` one, in the files of project and user.

    In the user scope only the user's files are read.

    Raises:
        FormatError, StateError: as for ``servers``.
    """
    scopes: tuple[Scope, ...] = ("project", "user") if scope == "project" else ("user",)
    for each in scopes:
        for agent in (agent for agent in agents_with_file(each) if only in (None, agent)):
            for file in _files(agent, each, project, home, environ):  # some agents are two programs
                there = servers(file)
                if name in there:
                    yield file, there[name]


def elsewhere(
    file: ConfigFile, name: str, project: str, home: str, environ: Mapping[str, str]
) -> Iterator[tuple[str, object]]:
    """Yield the other places where this agent has a server of this name, and the entries there.

    These are its other files, scopes and projects. A name that differs only in case, or in `-` and `_`, counts as the
    same: people, and rules for tools, confuse them.

    Raises:
        FormatError: such a file is malformed.
        StateError: such a file cannot be read, or leads out of the project.
    """
    scopes: tuple[Scope, ...] = ("project", "user") if file.scope == "project" else ("user",)
    found_files = [each for scope in scopes for each in _files(file.agent, scope, project, home, environ)]
    if file.dialect.folder and file.scope == "project":
        found_files += _beside(file, project)
    for each in {each.path: each for each in (file, *found_files)}.values():
        text = _text(files.read(each.path, _LIMITS[each.scope]), each)
        tables = [(each.path, _servers(text, each))]
        if each.scope == "user" and each.dialect.by_project:
            tables += _of_projects(text, each, project if file.scope == "project" else None)
        for where, there in tables:
            for called, found in there.items():
                is_asked_for = called == name and where == file.path
                if _folded(called) == _folded(name) and not is_asked_for:
                    yield (where if called == name else f"{where}, as {called}"), found


def _beside(file: ConfigFile, project: str) -> Iterator[ConfigFile]:
    """Yield the files of the project's folder, all of which the agent reads."""
    folder = os.path.dirname(file.dialect.project[0])
    with files.disk_errors(os.path.join(project, folder)):
        found = os.listdir(os.path.dirname(file.path)) if os.path.isdir(os.path.dirname(file.path)) else []
    names = sorted(name for name in found if name.endswith((*_YAML, ".json")))
    if len(names) > _FOLDER_MAX:
        raise StateError(f"expected at most {_FOLDER_MAX} files", where=os.path.join(project, folder))
    for name in names:
        yield replace(file, path=files.inside(project, f"{folder}/{name}"))


def _of_projects(text: str, file: ConfigFile, project: str | None) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yield the servers in a user's file for single projects: for ``project`` and those around or in it.

    Without ``project``, those for every project.
    """
    root = jsonc.parse(text, file.path)
    projects = root.data.get("projects") if root and isinstance(root.data, dict) else None
    if not isinstance(projects, dict):
        return
    for path, settings in projects.items():
        found = settings.get(file.dialect.key) if isinstance(settings, dict) else None
        is_near = project is None or files.is_within(path, project) or files.is_within(project, path)
        if isinstance(found, dict) and is_near:
            yield f"{file.path}, for {path}", found


def _folded(name: str) -> str:
    return name.casefold().replace("-", "_")


def _files(agent: str, scope: Scope, project: str, home: str, environ: Mapping[str, str]) -> list[ConfigFile]:
    """Return the files that an agent reads in a scope; if none exists, skillhub creates the first."""
    name = host(agent).id
    found = []
    for dialect in dialects(name, scope):
        variable, moved_name = dialect.moved
        moved = absolute(environ.get(variable, ""), home)
        if scope == "project":
            paths = [files.inside(project, relative) for relative in dialect.project]
        elif moved:
            paths = [os.path.realpath(os.path.join(moved, moved_name) if moved_name else moved)]
        else:
            paths = [os.path.realpath(expand(path, home, environ)) for path in dialect.user]
        found += [ConfigFile(name, scope, path, dialect) for path in paths]
    for each in found:
        beside = (os.path.join(folder, ".env") for folder in (project, os.path.dirname(each.path)))
        is_linked = each.path in map(os.path.realpath, beside)
        if is_linked or os.path.basename(each.path).casefold().startswith(".env"):
            raise StateError("the configuration is a link to a .env file", where=each.path, hint="remove the link")
    return found


def servers(file: ConfigFile) -> Mapping[str, object]:
    """Return every server in ``file`` by name, as the file has it.

    Raises:
        FormatError: the file is malformed, or the value under the servers' key is no object.
        StateError: the file cannot be read.
    """
    return _servers(_text(files.read(file.path, _LIMITS[file.scope]), file), file)


def state(file: ConfigFile, name: str, server: McpServer) -> EntryState:
    """Return whether ``file`` has the server ``name``, and whether that is ``server``. Raises as ``servers``.

    If the syntax of variables is unknown, an entry is ``server`` if it has variables with the same names, and its
    other keys are those that skillhub would write without variables. Members that say what holds without them count
    for nothing: see ``without_defaults``.
    """
    entries = servers(file)
    if name not in entries:
        return "absent"
    return "equal" if is_same(file, entries[name], server) else "different"


def is_same(file: ConfigFile, found: object, server: McpServer) -> bool:
    """Return whether an entry of this agent is ``server``, by the rule of ``state``."""
    found = without_defaults(found)
    if file.dialect.knows(server):
        return is_equal(found, without_defaults(file.dialect.spell(server)))
    bare = replace(server, env=(), bearer=None)
    if not isinstance(found, dict):
        return False
    named = {key: {*found[key]} for key in ("env", "headers") if isinstance(found.get(key), dict)}
    wanted = {"env": {*server.env}} if server.env else {"headers": {"Authorization"}}
    rest = {key: value for key, value in found.items() if key not in named}
    return named == wanted and is_equal(rest, without_defaults(file.dialect.spell(bare)))


def without_defaults(entry: object) -> object:
    """Return an entry without the members that mean the same if they are absent.

    These are the type ``stdio`` of a server with a command, and empty arguments, variables and headers.
    """
    if not isinstance(entry, dict):
        return entry
    defaults: dict[str, object] = {"args": [], "env": {}, "headers": {}}
    if "command" in entry:
        defaults["type"] = "stdio"
    return {key: value for key, value in entry.items() if key not in defaults or value != defaults[key]}


def is_equal(one: object, two: object) -> bool:
    """Return whether two entries are the same JSON value."""
    # Compared as text, since in Python 1 equals True; `str` is for the dates of TOML.
    one, two = (json.dumps(each, sort_keys=True, default=str) for each in (one, two))
    return one == two


def write(file: ConfigFile, name: str, server: McpServer, project: Project, replaced: object = None) -> ConfigEntry:
    """Add ``server`` to ``file`` under ``name``, and return the entry, for ``remove``.

    Args:
        file: The file; created if absent (a user's file readable only by that user).
        name: The agent's name for the server.
        server: The server; if ``file`` has it, nothing is written.
        project: The project.
        replaced: The entry of that name that ``file`` has and that goes; None if it has none.

    Raises:
        FormatError: the file is malformed or ``name`` cannot name a server; the file is unchanged.
        StateError: the file has another entry of this name, or the disk refuses; the file is unchanged.
    """
    if not _NAME.fullmatch(name):
        raise FormatError(f"expected a name of letters, digits, - and _, found {quote(name)}", where=file.path)
    new_entry = file.dialect.spell(server) if file.dialect.knows(server) else entry(file.agent, server, file.scope)

    def edited(text: str) -> str | None:
        there = _servers(text, file).get(name)
        if is_equal(there, new_entry):
            return None
        if not is_equal(there, replaced):
            raise StateError(f"the server {name} changed meanwhile", where=file.path, hint="run the command again")
        text = file.dialect.remove(text, name, file.path) if replaced is not None else text
        return file.dialect.insert(text, name, new_entry, file.path)

    _edit(file, edited, project)
    return new_entry


def remove(file: ConfigFile, name: str, written: Mapping[str, object], project: Project) -> bool:
    """Remove the server ``name`` from ``file`` if its entry still is the one that ``write`` returned.

    Returns whether it was removed.

    Raises:
        FormatError: the file is malformed, or cannot be edited in place; the file is unchanged.
        StateError: the disk refuses; the file is unchanged.
    """

    def removed(text: str) -> str | None:
        is_ours = is_equal(_servers(text, file).get(name), written)
        return file.dialect.remove(text, name, file.path) if is_ours else None

    return _edit(file, removed, project)


def _edit(file: ConfigFile, change: Callable[[str], str | None], project: Project) -> bool:
    """Replace the file's text by the one that ``change`` returns; return whether it did: not if that is None."""
    root = project.root_of(file.path)
    with files.lock(project.config_lock):
        for _ in range(_TRIES):
            before = files.read(file.path, _LIMITS[file.scope], root=root)
            after = change(_text(before, file))
            if after is None:
                return False
            # Only the user may read a new user's file: the agent may write its own tokens into it.
            mode = 0o600 if before is None and file.scope == "user" else None
            if files.swap(file.path, before, after.encode(), mode=mode, root=root):
                return True
    raise StateError("another program keeps changing the file", where=file.path, hint="close the agent")


def _text(data: bytes | None, file: ConfigFile) -> str:
    try:
        return (data or b"").decode("utf-8")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise FormatError("expected UTF-8", where=f"{file.path}:{line}") from error


def _servers(text: str, file: ConfigFile) -> Mapping[str, object]:
    if file.path.endswith(".toml"):
        data: object = toml.others_toml(text, file.path)
    elif file.path.endswith(_YAML):
        data = yaml.others_yaml(text, file.path) or {}
    else:
        root = jsonc.parse(text, file.path)
        data = root.data if root else {}
    key = file.dialect.key
    found: object = None
    if isinstance(data, dict):
        found = {} if data.get(key) is None else data[key]
    if file.path.endswith(_YAML) and isinstance(found, list):
        found = _by_name(found, file)
    if not isinstance(found, dict):
        raise FormatError(f"expected an object with the servers in {quote(key)}", where=file.path)
    return found


def _by_name(found: list[object], file: ConfigFile) -> dict[str, object]:
    """Return the servers of a list by their names, without items that have none."""
    rows = [each for each in found if isinstance(each, dict) and isinstance(each.get("name"), str)]
    by_name: dict[str, object] = {each["name"]: {k: v for k, v in each.items() if k != "name"} for each in rows}
    if len(by_name) != len(rows):
        raise FormatError(f"expected each name once in {file.dialect.key}", where=file.path)
    return by_name


# Removing empty configuration of agents that skillhub created.

_LEFT_CAP = 1 << 16
_MCP = {scope: [each for name in DIALECTS for each in dialects(name, scope)] for scope in get_args(Scope)}
_OURS = {text for each in chain(*_MCP.values()) for text in (f'{{"{each.key}":{{}}}}', "".join(each.head.split()))}
_EMPTY = frozenset({"", "{}", *_OURS})


def shared_folders(project: Project) -> Iterator[tuple[str, files.HeldFolder]]:
    """Yield the folders in which skillhub and other programs write, with the open folder above each.

    They are those of agents' configuration and of git's exclude file.

    Raises:
        LinkLeavesProject: as ``exclude_file``; agents' folders that lead out of the project are skipped.
    """
    for each in _MCP[project.scope]:
        for path in each.project if project.scope == "project" else each.user:
            with suppress(StateError):
                file = files.inside(project.base, path.removeprefix("~/"))
                yield os.path.dirname(file), project.around
    if found := exclude_file(project.around):
        yield os.path.dirname(found[0]), found[1]


def remove_created(project: Project, made: Iterable[str]) -> tuple[str, ...]:
    """Remove those paths from ``missing_paths`` that are empty now, and return the others that exist.

    A path that cannot be removed stays, without an error. A link stays too: its target is not from skillhub.
    """
    remaining = []
    for each in sorted(made, key=len, reverse=True):
        path = each if os.path.isabs(each) else os.path.join(project.base, *each.split("/"))
        with suppress(OSError, StateError, FormatError):
            if files.is_link(path) or not (os.path.isabs(each) or files.inside(project.base, each) == path):
                continue
            root = project.root_of(path)
            is_folder = os.path.isdir(path)
            data = b"" if is_folder else files.read(path, _LEFT_CAP, root=root) or b""
            if "".join(data.decode("utf-8", "replace").split()) in _EMPTY:
                with root.hold(path) as (name, at):
                    (os.rmdir if is_folder else os.unlink)(name, dir_fd=at)
        if os.path.lexists(path):
            remaining.append(each)
    return tuple(reversed(remaining))

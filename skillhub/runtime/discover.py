"""Finds an agent's roots and the skills in them, read as strictly as that agent reads them."""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from skillhub.disk import files
from skillhub.disk.home import upwards
from skillhub.errors import FormatError, SkillhubError, UsageError
from skillhub.formats.digest import Digest
from skillhub.formats.json import strict_json
from skillhub.formats.text import clean, is_name, is_path, quote, without_garbage_collection
from skillhub.model.hosts import AgentFolder, Bounds, Profile, Rules, Scope, absolute, expand
from skillhub.model.manifest import Manifest, NamedCommand, read_head
from skillhub.model.skill import Need, Problem, Skill, check_paths
from skillhub.model.tree import SKILL_MD, File, Tree
from skillhub.runtime.catalog import HEAD, Root
from skillhub.runtime.walk import LENIENT, Cache, Find, Walk, WalkResult, commands, declared, opened, reason_of

_CAP = 1 << 20
# The name in a frontmatter, whose other lines may be malformed.
_NAME_LINE = re.compile(rb"(?m)^[\"']?name[\"']?[ \t]*:[ \t]*[\"']?([a-z0-9-]{1,64})[\"']?[ \t]*(?:#.*)?\r?$")
_TREE_FOLDER = re.compile(r"sha256-([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class Discovered:
    """The skills and problems in the order of the roots; within a root breadth first, then by folder name."""

    skills: tuple[Skill, ...]
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """How roots are searched.

    Attributes:
        rules: How strictly skills are read.
        bounds: The limits on depth and folders of each root.
        cache: Keeps the results of earlier searches; None keeps none.
        reload: Whether to read every folder again and ignore the cache.
        locks: The locks that each skill is checked against when it is loaded.
    """

    rules: Rules = field(default_factory=Rules)
    bounds: Bounds = field(default_factory=Bounds)
    cache: Cache | None = None
    reload: bool = False
    locks: object = None


def discover(roots: Iterable[Root], search: Search | None = None) -> Discovered:
    """Return every skill in the roots, and a problem for each broken one; an absent root is empty.

    A skill that is found twice, through links or roots within roots, belongs to the first root.
    """
    skills: list[Skill] = []
    problems: list[Problem] = []
    places: set[str] = set()
    search = search or Search()
    with without_garbage_collection():
        for root in roots:
            result, tree = _walk(root, search), _tree_in(root.path)
            problems += result.problems
            for find in result.finds:
                place = f"{find.folder}\0{root.command and root.command.name}"
                if place not in places:
                    places.add(place)
                    problems += find.problems
                    if find.facts is not None:
                        skills.append(_skill(find, find.facts, root, search, tree))
    return Discovered(tuple(skills), tuple(problems))


def _walk(root: Root, search: Search) -> WalkResult:
    cache = search.cache
    if root.problem:
        return WalkResult(problems=[Problem(root.path, root.problem)])
    if root.is_commands:
        return commands(root.path, search.rules, search.bounds, root.command)
    is_contained = root.scope == "system"
    bounds = replace(search.bounds, depth=0) if root.is_skill else search.bounds
    key = root.path, search.rules, bounds
    earlier = WalkResult() if cache is None or search.reload else cache.load(*key, is_contained)
    if (earlier.folders or earlier.finds) and earlier.is_current():
        return earlier
    result = Walk(root.path, is_contained, search.rules, bounds, earlier).run()
    if cache is not None and (result.folders or result.finds):
        cache.save(*key, result, is_contained)
    return result


def _skill(find: Find, facts: Mapping[str, Any], root: Root, search: Search, tree: Digest | None) -> Skill:
    if find.last_skill and find.last_skill[0] == (root, search.locks):
        return find.last_skill[1]
    skill = Skill(
        path=find.folder,
        scope=root.scope,
        state="enabled",
        links=(find.shown_path,),
        managed=False,
        root=root.path,
        locks=search.locks,
        tree=tree,
        rules=search.rules,
        is_command=root.is_commands,
        stamp=find.stamp,
        **{"namespace": root.namespace, **declared(facts)},
    )
    find.last_skill = (root, search.locks), skill
    return skill


def folder_for(tree: Digest) -> str:
    """Return the name of a folder whose skill must be this tree."""
    return f"sha256-{tree.hex}"


def _tree_in(folder: str) -> Digest | None:
    match = _TREE_FOLDER.fullmatch(os.path.basename(folder))
    return Digest.parse(f"sha256:{match[1]}") if match else None


def found_skill(folder: str, scope: Scope) -> Skill:
    """Return the skill in ``folder``, which is in no lock.

    A broken skill has the name of its folder, the error as its description, and no links, so that it hides no other.
    """
    unmanaged = partial(Skill, path=folder, scope=scope, state="enabled", managed=False)
    try:
        manifest = Manifest.read(Tree(_files(folder)))
    except (SkillhubError, OSError) as error:
        name = os.path.basename(folder)
        return unmanaged(name=clean(name) or quote(name), description=f"cannot be read: {reason_of(error)}")
    needs = (Need(r.kind, r.name, r.description, r.required, satisfied=False) for r in manifest.requires)
    return unmanaged(
        name=manifest.name,
        version=manifest.version,
        links=(folder,),
        invocation="model" if manifest.model_invocable else "user",
        requires=tuple(needs),
        description=manifest.description,
    )


def found_name(folder: str) -> str | None:
    """Return the name that the most lenient agent gives the skill in ``folder``; None if no agent sees a skill there.

    Agents follow a link to a ``SKILL.md``, and read text and YAML that skillhub refuses.
    """
    try:
        data = _content(os.path.realpath(os.path.join(folder, SKILL_MD)))
    except (FormatError, OSError):
        return None
    try:
        return read_head(data, os.path.basename(folder), LENIENT).name if data is not None else None
    except FormatError:
        match = _NAME_LINE.search(data or b"")
        return match[1].decode("ascii") if match else None


def _files(folder: str) -> Iterable[tuple[str, File]]:
    """Yield the files that describe a skill; links are not followed, so that no error shows what they lead to."""
    for path in HEAD:
        try:
            data = _content(os.path.join(folder, *path.split("/")))
        except FormatError:
            if path == SKILL_MD:
                raise
            continue  # invalid metadata never blocks
        if data is not None:
            yield path, File(data)


def _content(path: str) -> bytes | None:
    opened_file = opened(path)
    if opened_file is None:
        return None
    with os.fdopen(opened_file[0], "rb") as file:
        return file.read(_CAP)


# The roots of an agent: the folders that the places in its profile stand for, in order of precedence.

_DROPPED_IN_MAX = 256
_DRIVE = re.compile(r"[A-Za-z]:")


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Where an agent runs; its folders may also be given as ``Path``, and are texts afterwards.

    Attributes:
        cwd: The working folder, absolute.
        home: The user's home folder, absolute.
        environ: The variables that move an agent's folders, and ``SKILLHUB_HOME``. If empty, ``SKILLHUB_HOME`` is
            taken from the variables of the process.
        state: The folder of skillhub's own state; None for the one below ``SKILLHUB_HOME``, or the platform's.
        extra: Folders of skills that the user names; relative ones are below ``cwd``.
        plugins: The folder of the skills of each installed plugin, by the plugin's name.
        markers: Names of files and folders that mark a project's root, in addition to those of the profile.

    Raises:
        UsageError: one of the folders is no valid path, or ``home`` is relative.
    """

    cwd: str
    home: str
    environ: Mapping[str, str] = field(default_factory=dict)
    state: str | None = None
    extra: tuple[str, ...] = ()
    plugins: Mapping[str, str] = field(default_factory=dict)
    markers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("cwd", "home", "state"):
            if isinstance(path := getattr(self, name), os.PathLike):
                object.__setattr__(self, name, os.fspath(path))
        object.__setattr__(self, "extra", tuple(map(os.fspath, self.extra)))
        object.__setattr__(self, "plugins", {name: os.fspath(path) for name, path in self.plugins.items()})
        check_paths(self.cwd, self.home, self.state, *self.extra, *self.plugins.values(), *self.markers)
        if not os.path.isabs(self.home):
            # Below a relative one, the working folder would have this machine's record, which a repository can write.
            raise UsageError(f"expected the absolute path of the user's home folder, found {quote(self.home)}")

    @property
    def variables(self) -> Mapping[str, str]:
        """``environ``, or the variables of the process if it is empty."""
        return self.environ or os.environ


def project_root(profile: Profile, around: Surroundings) -> str:
    """Return the root of the project around the working folder.

    It is the folder that the profile's variable names, else the nearest folder upwards with a marker, else the
    working folder itself.
    """
    if profile.root_env and (root := absolute(around.environ.get(profile.root_env, ""), around.home)):
        return os.path.normpath(root)
    markers = (*profile.markers, *around.markers)
    for folder in upwards(around.cwd):
        if any(os.path.lexists(os.path.join(folder, marker)) for marker in markers):
            return folder
    return os.path.normpath(around.cwd)


def roots(profile: Profile, around: Surroundings) -> tuple[Root, ...]:
    """Return the folders that this agent reads, each once, in order of precedence; they may be absent."""
    all_roots = (root for place in profile.places for root in _folders(place, profile, around))
    return tuple({(root.path, root.command): root for root in reversed(tuple(all_roots))}.values())[::-1]


def _folders(place: AgentFolder, profile: Profile, around: Surroundings) -> Iterator[Root]:
    if not place.path:
        yield from _named_roots(place, around)
        return
    if place.form.startswith("plugin-"):
        for path in _paths(place, profile, around):
            yield from _installed_roots(path, place, profile, around)
        return
    is_commands = place.form == "commands"
    if place.at == "below":
        yield from _nested_folders(around.cwd, place)
        return
    for path in _paths(place, profile, around):
        before, star, behind = path.partition(f"{os.sep}*{os.sep}")
        if not star:
            yield Root(path, place.scope, label=place.label, is_commands=is_commands)
            continue
        for name in _subfolder_names(before):
            yield Root(os.path.join(before, name, behind), place.scope, name if is_name(name) else None, place.label)


def _named_roots(place: AgentFolder, around: Surroundings) -> Iterator[Root]:
    """Yield the folders that the agent or its user names."""
    if place.scope == "plugin":
        for name, folder in sorted(around.plugins.items()):
            path, is_commands = os.path.abspath(folder), place.form == "commands"
            path = os.path.join(os.path.dirname(path), "commands") if is_commands else path
            yield Root(path, "plugin", name if is_name(name) else None, place.label, is_commands)
    else:
        for folder in around.extra:
            path = absolute(folder, around.home) or os.path.join(around.cwd, folder)
            yield Root(os.path.normpath(path), "extra", label=place.label)


def _installed_roots(path: str, place: AgentFolder, profile: Profile, around: Surroundings) -> Iterator[Root]:
    """Yield the folders of each plugin that Claude's ``installed_plugins.json`` names and no settings disable.

    If one of these files cannot be read, every plugin counts as disabled, since it may disable them.
    """
    root = project_root(profile, around)
    settings = os.path.join(os.path.dirname(os.path.dirname(path)), "settings.json")
    project_files = (os.path.join(root, ".claude", name) for name in ("settings.json", "settings.local.json"))
    off: set[str] = set()
    file = path
    try:
        plugins = _object(_json(path).get("plugins"))
        for file in (*managed_settings(profile), settings, *project_files):
            off |= {key for key, is_on in _object(_json(file).get("enabledPlugins")).items() if is_on is not True}
    except (SkillhubError, OSError) as error:
        yield Root(file, "plugin", problem=f"no plugin is searched: {reason_of(error)}")
        return
    for key, entries in plugins.items():
        name = key.partition("@")[0]
        for entry in map(_object, entries if isinstance(entries, list) else [entries]):
            folder, project = entry.get("installPath"), entry.get("projectPath")
            is_here = not isinstance(project, str) or os.path.normpath(project) in upwards(around.cwd)
            if not isinstance(folder, str) or not os.path.isabs(folder) or not is_path(folder):
                continue
            if key not in off and is_here and is_name(name):
                yield from _of_plugin(os.path.normpath(folder), place.form.removeprefix("plugin-"), name, place.label)


def managed_settings(profile: Profile) -> tuple[str, ...]:
    """Return the settings files of the machine's administrator, in order of precedence."""
    paths = (state.path for state in profile.states if state.path.startswith("/"))
    return tuple(file for path in paths for file in expanded(path))


def expanded(path: str) -> list[str]:
    """Return the files that ``FOLDER/*.json`` stands for, without hidden ones; the last name takes precedence.

    If the folder cannot be listed, or has too many files, return the folder itself, so that reading it fails.
    """
    folder, name = os.path.split(path)
    if name != "*.json":
        return [path]
    try:
        names = sorted(file for file in os.listdir(folder) if file.endswith(".json") and not file.startswith("."))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError:
        return [folder]
    return [os.path.join(folder, file) for file in reversed(names)] if len(names) <= _DROPPED_IN_MAX else [folder]


def _of_plugin(plugin: str, below: str, name: str, label: str) -> Iterator[Root]:
    """Yield the folders of a plugin's ``skills`` or ``commands``, as its ``plugin.json`` names them.

    Folders of skills that it names are searched in addition to the folder ``skills``; commands that it names replace
    the folder ``commands``. A plugin that names no skills and has no folder ``skills`` may be one skill itself.
    """
    manifest, default_path = os.path.join(plugin, ".claude-plugin", "plugin.json"), os.path.join(plugin, below)
    try:
        entry = _json(manifest).get(below)
    except (SkillhubError, OSError) as error:
        problem = f"its commands are not searched: {reason_of(error)}"
        is_there = below == "skills"
        yield Root(default_path, "plugin", name, label) if is_there else Root(manifest, "plugin", problem=problem)
        return
    if below == "commands":
        if entry is None:
            yield Root(default_path, "plugin", name, label, is_commands=True)
    elif entry is not None or os.path.isdir(default_path):
        yield Root(default_path, "plugin", name, label)
    else:
        yield Root(plugin, "plugin", name, label, is_skill=True)
    where = f"{manifest}: {below}"
    if below == "commands" and isinstance(entry, dict):
        yield from _named_commands(entry, Root(plugin, "plugin", name, label, is_commands=True), where)
        return
    for value in _as_list(entry):
        target = _path_in_plugin(plugin, "./" if value == "." and below == "skills" else value)
        if target is None:
            yield _malformed(where, "a path", value)
        elif below == "commands":
            yield Root(target, "plugin", name, label, is_commands=True)
        else:
            yield Root(target, "plugin", name, label, is_skill=os.path.lexists(os.path.join(target, SKILL_MD)))


def _named_commands(commands: Mapping[str, object], plugin: Root, where: str) -> Iterator[Root]:
    """Yield the file of each command that the mapping names; ``plugin`` has the plugin's folder."""
    for key, value in commands.items():
        command = NamedCommand.of(key, value)
        target = _path_in_plugin(plugin.path, _object(value).get("source")) if command else None
        if target is not None and target.endswith(".md"):
            yield replace(plugin, path=target, command=command)
        else:
            yield _malformed(where, "a name and a source (a .md file)", value)


def _malformed(where: str, expected: str, value: object) -> Root:
    """Return the root that reports a member of ``plugin.json`` that cannot be searched."""
    message = f"expected {expected} that begins with ./ and exists in the plugin, found {quote(value)}"
    return Root(where, "plugin", problem=message)


def _as_list(entry: object) -> list[object]:
    return [] if entry is None else entry if isinstance(entry, list) else [entry]


def _path_in_plugin(plugin: str, path: object) -> str | None:
    """Return the file or folder at a path of a ``plugin.json``; None if it is invalid or leaves the plugin."""
    if not isinstance(path, str) or not path.startswith("./") or not is_path(path):
        return None
    target = os.path.normpath(os.path.join(plugin, path))
    return target if files.is_within(target, plugin) else None


def _json(path: str) -> Mapping[str, Any]:
    """Return the object in one of Claude's files; empty if the file is absent. A user may keep it behind a link."""
    data = _content(os.path.realpath(path))
    return _object(strict_json(data, path, _CAP)) if data is not None and data.strip() else {}


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _nested_folders(cwd: str, place: AgentFolder) -> Iterator[Root]:
    """Yield the folders ``place.path`` below the working folder, breadth first; links are not followed."""
    bounds, visited = Bounds(), 0
    queue = deque([(os.path.normpath(cwd), 1)])
    while queue:
        folder, depth = queue.popleft()
        for name in _folders_in(folder):
            visited += 1
            if visited > bounds.folders:
                message = f"more than {bounds.folders} folders; the rest was not searched for {place.path}"
                yield Root(os.path.normpath(cwd), place.scope, problem=message)
                return
            below = os.path.join(folder, name)
            path = os.path.join(below, *place.path.split("/"))
            if os.path.isdir(path):
                yield Root(path, place.scope, label=place.label, is_commands=place.form == "commands")
            if depth < bounds.depth:
                queue.append((below, depth + 1))


def _folders_in(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as rows:
            names = (row.name for row in rows if row.is_dir(follow_symlinks=False) and not row.name.startswith("."))
            return sorted(name for name in names if name != "node_modules")
    except OSError:
        return []


def _paths(place: AgentFolder, profile: Profile, around: Surroundings) -> Iterator[str]:
    path = place.path
    if path.startswith("~/"):
        yield expand(path, around.home, around.environ, place.env)
    elif os.path.isabs(path):
        yield path
    elif not _DRIVE.match(path):  # a path of another system
        for folder in _base_folders(place, project_root(profile, around), around.cwd):
            yield os.path.join(folder, *path.split("/"))


def _base_folders(place: AgentFolder, root: str, cwd: str) -> list[str]:
    if place.at == "root":
        return [root]
    if place.at == "cwd":
        return [os.path.normpath(cwd)]
    chain = []
    for folder in upwards(cwd):
        chain.append(folder)
        if folder == root:
            return chain if place.at == "inner" else chain[::-1]
    return [root]  # a variable names a root outside of which the working folder lies


def _subfolder_names(folder: str) -> list[str]:
    try:
        names = sorted(name for name in os.listdir(folder) if not name.startswith("."))
        return [name for name in names if os.path.isdir(os.path.join(folder, name))]
    except OSError:
        return []

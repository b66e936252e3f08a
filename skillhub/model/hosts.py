"""The agents as data: the folders of skills of each, how it reads skills, and how it shows them to its model."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Literal, TypeAlias, get_args

from skillhub.errors import FormatError, UsageError
from skillhub.formats.document import Document, Items, part, visible
from skillhub.formats.text import did_you_mean, is_path, packaged, quote, spelled_like

Scope: TypeAlias = Literal["project", "user"]
# The scopes of skills that agents read: the two that skillhub installs into, and those that others fill.
SkillScope: TypeAlias = Literal["project", "user", "system", "admin", "plugin", "extra"]

# The agents that read skills: the folders of each, and the signs that it is in use. A difference between agents is
# a row of ``agents.json``, never a subclass. ``~/.config`` in it means ``$XDG_CONFIG_HOME``; a variable that holds
# no absolute path is ignored, as the XDG specification demands.

# Many agents read these folders, or projects have them without any, so they are no sign of any one agent.
_SHARED = frozenset({".agents", "~/.agents", "~/.config/agents", ".github"})


@part
@dataclass(frozen=True, slots=True)
class Host:
    """One agent; folders have ``/`` between segments, those of a user begin with ``~/``.

    Attributes:
        named_folder: Whether its documentation demands that a skill's folder has the name of the skill.
        listing_chars: The characters of the list of skills that its model gets, if known; only without a profile.
    """

    id: str
    name: str
    project_dir: str | None = None
    user_dir: str | None = None
    user_dir_env: str | None = None
    other_dirs: Items[str] = ()
    config: Items[str] = ()
    named_folder: bool = False
    aliases: Items[str] = ()
    listing_chars: int | None = None

    @property
    def signs(self) -> tuple[str, ...]:
        """The folders and files of project and user that only this agent, or another of its maker, reads.

        A folder that an editor (``.vscode``) or a forge (``.github``) has for any project is no sign.
        """
        folders = filter(None, (self.project_dir, self.user_dir, *self.other_dirs))
        parents = (folder.rpartition("/")[0] for folder in folders)
        # A parent such as `data`, or the project itself, exists without any agent.
        own_parents = (parent for parent in parents if parent.startswith((".", "~/")) and parent not in _SHARED)
        return tuple(dict.fromkeys((*own_parents, *self.config)))


class AgentsFile(Document):
    """``agents.json`` of the package."""

    about: str
    agents: Items[Host]


@cache
def hosts() -> Mapping[str, Host]:
    """Return every agent by its id, in the order of the table; read from the package once."""
    file = AgentsFile.parse(packaged("model/agents.json"), "agents.json")
    return MappingProxyType({host.id: host for host in file.agents})


def host(name: str) -> Host:
    """Return the agent with this id or alias.

    Raises:
        UsageError: there is none; the hint lists similar ids.
    """
    agent = hosts().get(name) or next((agent for agent in hosts().values() if name in agent.aliases), None)
    if agent:
        return agent
    names = [*hosts(), *(alias for agent in hosts().values() for alias in agent.aliases)]
    if "," in name:
        raise UsageError(f"expected one agent, found {quote(name)}", hint="repeat the option: --agent A --agent B")
    hint = did_you_mean(spelled_like(name, names)) or f"there are {', '.join(hosts())}; `all` means all of them"
    raise UsageError(f"there is no agent {quote(name)}", hint=hint)


def read_id(value: object) -> str:
    """Return the id of the agent that a document names by its id or an alias.

    Raises:
        FormatError: there is none; the hint lists similar ids.
    """
    try:
        return host(visible(value)).id
    except UsageError as error:
        raise FormatError(error.message, hint=error.hint) from error


def expand(folder: str, home: str, environ: Mapping[str, str], moved_by: str | None = None) -> str:
    """Return the absolute path of ``~/…``.

    Args:
        folder: A path that begins with ``~/``.
        home: The user's home folder.
        environ: The variables, for ``XDG_CONFIG_HOME`` and ``moved_by``.
        moved_by: The name of a variable whose value, if set, replaces the home and the first segment below it.
    """
    segments = folder.split("/")[1:]
    if moved_by and (value := absolute(environ.get(moved_by, ""), home)):
        return os.path.join(value, *segments[1:])
    if segments[0] == ".config" and (value := absolute(environ.get("XDG_CONFIG_HOME", ""), home)):
        return os.path.join(value, *segments[1:])
    return os.path.join(home, *segments)


def absolute(value: str, home: str) -> str | None:
    """Return the path in a variable's value, with ``~`` as the home; None if it is not absolute."""
    if value == "~" or value.startswith("~/"):
        value = home + value[1:]
    return value if os.path.isabs(value) and is_path(value) else None


def skill_folder(host: Host, scope: Scope, project: str, home: str, environ: Mapping[str, str]) -> str | None:
    """Return the absolute path of the folder that this agent reads skills from; None if it has none in ``scope``."""
    if scope == "project":
        return os.path.join(project, *host.project_dir.split("/")) if host.project_dir else None
    return expand(host.user_dir, home, environ, host.user_dir_env) if host.user_dir else None


def folders_read(
    agents: Iterable[Host] | None, scope: Scope, project: str, home: str, environ: Mapping[str, str]
) -> list[str]:
    """Return the absolute paths of all folders from which these agents, or all known ones, read skills in ``scope``.

    They are those of ``agents.json`` and of ``profiles.json``, whose hosts read more than skillhub links into.
    """
    every = hosts().values() if agents is None else tuple(agents)
    rows = [row for each in every for row in ((each.project_dir, None), (each.user_dir, each.user_dir_env))]
    rows += [(folder, None) for each in every for folder in each.other_dirs]
    ids = profiles() if agents is None else profiles().keys() & {agent.id for agent in every}
    places = [place for name, profile in profiles().items() if name in ids for place in profile.places]
    rows += [(each.path, each.env) for each in places if each.form == "skills" and each.scope in get_args(Scope)]
    folders = [(folder, moved_by) for folder, moved_by in rows if folder]
    if scope == "user":
        return [expand(folder, home, environ, moved_by) for folder, moved_by in folders if folder.startswith("~/")]
    return [os.path.join(project, *folder.split("/")) for folder, _ in folders if not folder.startswith(("~/", "/"))]


def signs_of(host: Host, project: str, home: str, environ: Mapping[str, str]) -> list[str]:
    """Return the paths of which one exists if this agent is in use; ``environ`` may move an agent's folder."""
    return [
        expand(sign, home, environ, host.user_dir_env) if sign.startswith("~/") else os.path.join(project, sign)
        for sign in host.signs
    ]


def detect(project: str, home: str, environ: Mapping[str, str], exists: Callable[[str], bool]) -> tuple[Host, ...]:
    """Return the agents that are in use on this machine or in this project, in the order of the table.

    ``exists`` returns whether a file or folder exists at a path.
    """
    return tuple(host for host in hosts().values() if any(map(exists, signs_of(host, project, home, environ))))


# How each agent reads skills and shows them to its model: a row of ``profiles.json``, never a subclass.

At = Literal["root", "cwd", "inner", "outer", "below"]


@part
@dataclass(frozen=True, slots=True)
class AgentFolder:
    """A folder in which an agent looks for skills, as a pattern.

    Attributes:
        scope: The scope of its skills. ``plugin`` and ``extra`` without a path are folders that the agent names.
        path: With ``/``: below the project, below the home (``~/``), or absolute. A segment ``*`` matches every
            folder there, whose name is the namespace of its skills.
        at: For a path below the project: at its root, in the working folder, or in each folder between the two, the
            inner or the outer first; or in every folder below the working folder.
        form: Folders of skills, commands (files ``NAME.md``), or the skills or commands of the plugins in Claude's
            list of installed plugins.
        env: A variable whose value, if set, replaces the home and the first segment below it.
        label: The agent's word for the scope, if it differs from ``scope``.
    """

    scope: SkillScope
    path: str = ""
    at: At = "root"
    form: Literal["skills", "commands", "plugin-skills", "plugin-commands"] = "skills"
    env: str | None = None
    label: str = ""


@part
@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits of the search in one root.

    Attributes:
        depth: How many levels of folders below the root are searched.
        folders: How many folders are searched; of one with more, the rest is a problem of the catalogue.
        nested: Whether the folders within a skill are searched, too.
    """

    depth: int = 6
    folders: int = 2000
    nested: bool = True


@part
@dataclass(frozen=True, slots=True)
class Budget:
    """The part of a model's context that the catalogue may take.

    Attributes:
        percent: Percent of the context window in tokens, if the window is known.
        chars: Characters, if the window is not known.
        size: Bytes.
        entries: Skills.
        description: Characters of one description.
        least: Characters that a cut description keeps at least; if None, no description is cut, and whole skills
            are left out.
        env: A variable in which the user sets the number of characters.
    """

    percent: float | None = None
    chars: int | None = None
    size: int | None = None
    entries: int | None = None
    description: int | None = None
    least: int | None = 60
    env: str | None = None


@part
@dataclass(frozen=True, slots=True)
class HostStateFile:
    """A file of the agent that disables skills; path and env as in an ``AgentFolder``.

    ``FOLDER/*.json`` means each of these files. An absolute path is a file of the machine, which decides before all
    others.
    """

    form: Literal["gen", "codex", "opencode", "claude"]
    path: str
    env: str | None = None


@part
@dataclass(frozen=True, slots=True)
class Rules:
    """How strictly an agent reads a skill.

    Attributes:
        strict: Refuse a breach of the specification; else it is a warning, and YAML that only lacks quotes around
            a colon is read as if it had them.
        nameless: A skill without a name is refused, or takes the name of its folder or its first heading.
        undescribed: A skill without a description is refused, has an empty one, or takes its first paragraph.
        limited: Refuse a name or a description that is longer than the specification allows.
    """

    strict: bool = False
    nameless: Literal["refused", "folder", "heading"] = "refused"
    undescribed: Literal["refused", "empty", "paragraph"] = "refused"
    limited: bool = False


@part
@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """How one agent reads skills and shows them to its model.

    Attributes:
        id: The name that commands and functions take.
        name: The name to show.
        places: The folders in which it looks; of two skills with one name it takes that in the earlier folder.
        hides: Whether the skill in the earlier folder hides the other; else the name is ambiguous.
        rules: How strictly it reads skills.
        bounds: How far it searches each folder.
        budget: How much of its model's context the list may take.
        listing: The order of scopes in its list; skills of the last scope are left out first.
        markers: Names of files and folders, one of which every project's root holds.
        root_env: A variable that names the project's root.
        dialect: The format of the catalogue.
        envelope: The text around the instructions of a skill.
        many: Whether one message may call several skills.
        reminds: Whether a text that the conversation already holds is not inserted again.
        states: The agent's files that disable skills; an earlier file decides before a later one.
    """

    id: str
    name: str
    places: Items[AgentFolder]
    hides: bool = True
    rules: Rules = field(default_factory=Rules)
    bounds: Bounds = field(default_factory=Bounds)
    budget: Budget = field(default_factory=Budget)
    listing: Items[SkillScope] = ("project", "extra", "user", "plugin", "system", "admin")
    markers: Items[str] = (".git", ".jj")
    root_env: str | None = None
    dialect: str = "agents"
    envelope: str = "skill_content"
    many: bool = False
    reminds: bool = False
    states: Items[HostStateFile] = ()


class ProfilesFile(Document):
    """``profiles.json`` of the package."""

    about: str
    profiles: Items[Profile]


@cache
def profiles() -> Mapping[str, Profile]:
    """Return every profile by its id; read from the package once."""
    file = ProfilesFile.parse(packaged("model/profiles.json"), "profiles.json")
    return MappingProxyType({profile.id: profile for profile in file.profiles})


def is_profile(name: str) -> bool:
    """Return whether there is a profile with this id."""
    return name in profiles() or measured(name) is not None


def profile(name: Profile | str) -> Profile:
    """Return the profile with this id; a profile itself is returned as it is.

    Raises:
        UsageError: there is none; the hint lists those that exist.
    """
    if isinstance(name, Profile):
        return name
    by_id = profiles()
    if chosen := by_id.get(name) or measured(name):
        return chosen
    hint = did_you_mean(spelled_like(name, by_id), f"there are: {', '.join(by_id)}")
    raise UsageError(f"there is no host {quote(name)}", hint=hint)


def measured(name: str) -> Profile | None:
    """Return a profile for an agent that has none: the reference client's, bounded by the agent's ``listing_chars``.

    It leaves out whole skills: an agent is only assumed to shorten descriptions where its profile states so.
    """
    row = hosts().get(name)
    if row is None or row.listing_chars is None:
        return None
    folders: dict[SkillScope, str | None] = {"project": row.project_dir, "user": row.user_dir}
    places = tuple(AgentFolder(scope, path) for scope, path in folders.items() if path)
    return Profile(id=row.id, name=row.name, places=places, budget=Budget(chars=row.listing_chars, least=None))


LinkKind: TypeAlias = Literal["copy", "symlink"]

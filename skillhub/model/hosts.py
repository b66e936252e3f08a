"""The agents as data: where each keeps skills, how it reads them, how it shows them to its model."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Literal, TypeAlias, TypeVar

from skillhub.errors import UsageError
from skillhub.formats.document import Document, Items, part
from skillhub.formats.text import did_you_mean, is_path, quote, spelled_like

Scope: TypeAlias = Literal["project", "user"]
# Where agents read skills: beside the two scopes that skillhub installs into, what others put there.
SkillScope: TypeAlias = Literal["project", "user", "system", "admin", "plugin", "extra"]

# The agents that read skills, as data: where each keeps them, and by what one can tell that it is in use.
# What differs between agents is a row of ``agents.json``, never a subclass. ``~/.config`` in it means
# ``$XDG_CONFIG_HOME``; a variable that holds no absolute path is ignored, as that specification says.

# Many agents read these, so that they are there says nothing of which agent is in use.
_SHARED = frozenset({".agents", "~/.agents", "~/.config/agents"})


@part
@dataclass(frozen=True, slots=True)
class Host:
    """One agent; folders are written with ``/``, those of a user begin with ``~/``.

    ``named_folder`` is for an agent whose documentation demands that a skill's folder has the name of the skill;
    ``listing_chars`` for one without a profile, of which it is known how much of the list of skills its model gets.
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
        """The folders and files that only this agent (or a sibling of its maker) reads, of project and user.

        What an editor keeps there for everybody (``.vscode``), or a forge (``.github``), is none.
        """
        parents = (
            folder.rpartition("/")[0] for folder in (self.project_dir, self.user_dir, *self.other_dirs) if folder
        )
        # A parent such as `data` or the project itself is there for reasons of its own.
        own = (parent for parent in parents if parent.startswith((".", "~/")) and parent not in _SHARED)
        return tuple(dict.fromkeys((*own, *self.config)))


class AgentsFile(Document):
    """``agents.json`` of the package."""

    about: str
    agents: Items[Host]


_F = TypeVar("_F", bound=Document)


def _packaged(form: type[_F], name: str) -> _F:
    with open(os.path.join(os.path.dirname(__file__), name), "rb") as file:
        return form.parse(file.read(), name)


@cache
def hosts() -> Mapping[str, Host]:
    """Return every agent by its id, in the order of the table; read from the package once."""
    return MappingProxyType({each.id: each for each in _packaged(AgentsFile, "agents.json").agents})


def host(name: str) -> Host:
    """Return the agent with this id or alias.

    Raises:
        UsageError: there is none; the hint lists ids that are spelled alike.
    """
    found = hosts().get(name) or next((each for each in hosts().values() if name in each.aliases), None)
    if found:
        return found
    known = [*hosts(), *(alias for each in hosts().values() for alias in each.aliases)]
    hint = did_you_mean(spelled_like(name, known)) or f"there are {', '.join(hosts())}; `all` is every one"
    raise UsageError(f"there is no agent {quote(name)}", hint=hint)


def expand(folder: str, home: str, environ: Mapping[str, str], moved_by: str | None = None) -> str:
    """Return the absolute path of ``~/…``.

    Args:
        folder: A path that begins with ``~/``.
        home: The user's home folder.
        environ: Where ``XDG_CONFIG_HOME`` and ``moved_by`` are looked up.
        moved_by: A variable whose value, if it is set, stands for the first segment below the home.
    """
    segments = folder.split("/")[1:]
    if moved_by and (value := absolute(environ.get(moved_by, ""), home)):
        return os.path.join(value, *segments[1:])
    if segments[0] == ".config" and (value := absolute(environ.get("XDG_CONFIG_HOME", ""), home)):
        return os.path.join(value, *segments[1:])
    return os.path.join(home, *segments)


def absolute(value: str, home: str) -> str | None:
    """Return the path that a variable's value names, ``~`` being the home; None if it is not absolute."""
    if value == "~" or value.startswith("~/"):
        value = home + value[1:]
    return value if os.path.isabs(value) and is_path(value) else None


def skill_folder(host: Host, scope: Scope, project: str, home: str, environ: Mapping[str, str]) -> str | None:
    """Return the absolute path of the folder that this agent reads skills from; None if it has none there."""
    if scope == "project":
        return os.path.join(project, *host.project_dir.split("/")) if host.project_dir else None
    return expand(host.user_dir, home, environ, host.user_dir_env) if host.user_dir else None


def found(host: Host, project: str, home: str, environ: Mapping[str, str], exists: Callable[[str], bool]) -> bool:
    """Say whether this agent is in use on this machine or in this project.

    Args:
        host: The agent.
        project: The project's folder.
        home: The user's home folder.
        environ: Where the variables that move an agent's folder are looked up.
        exists: Says whether there is something at a path.
    """
    for sign in host.signs:
        in_home = sign.startswith("~/")
        at = expand(sign, home, environ, host.user_dir_env) if in_home else os.path.join(project, sign)
        if exists(at):
            return True
    return False


def detect(project: str, home: str, environ: Mapping[str, str], exists: Callable[[str], bool]) -> tuple[Host, ...]:
    """Return the agents that are ``found``, in the order of the table."""
    return tuple(each for each in hosts().values() if found(each, project, home, environ, exists))


# How each agent reads skills and shows them to its model, as data: a row of ``profiles.json``, never a
# subclass.

At = Literal["root", "cwd", "inner", "outer", "below"]


@part
@dataclass(frozen=True, slots=True)
class AgentFolder:
    """Where an agent looks: a folder by its pattern.

    Attributes:
        scope: Whose skills are there. ``plugin`` and ``extra`` without a path are those that the agent names.
        path: With ``/``: below the project, below the home (``~/``), or absolute. A segment ``*`` stands for
            every folder there, whose name is the namespace of its skills.
        at: Of a path below the project: at its root, in the working folder, or in each folder from one to
            the other, the inner or the outer first; or in every folder below the working folder.
        form: What is there: folders of skills, commands (files ``NAME.md``), or Claude's list of the plugins that are
            installed, of each of which either counts.
        env: A variable that, if it is set, stands for the first segment below the home.
        label: The scope as the agent spells it, if not as we do.
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
    """How far a look into one root goes: levels of folders, number of folders, and into skills themselves or not."""

    depth: int = 6
    folders: int = 2000
    nested: bool = True


@part
@dataclass(frozen=True, slots=True)
class Budget:
    """How much of a model's context the catalogue may take.

    Attributes:
        percent: Of the context window in tokens, if that is known.
        chars: Characters, if the window is not known.
        size: Bytes.
        entries: Skills.
        description: Characters of one description.
        least: Characters that a description is cut down to at the least; where None, none is cut, and whole skills
            are left out instead.
        env: A variable in which the user says how many characters.
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
    """A file of the agent's that says which skills are switched off; path and env as of an ``AgentFolder``.

    ``FOLDER/*.json`` is each of these files. What is absolute is the machine's, and decides before all others.
    """

    form: Literal["gen", "codex", "opencode", "claude"]
    path: str
    env: str | None = None


@part
@dataclass(frozen=True, slots=True)
class Rules:
    """How strictly an agent reads.

    Attributes:
        strict: Refuse what the specification forbids; else it is a warning, and YAML that only lacks quotes
            around a colon is read as if it had them.
        nameless: What becomes of a skill without a name: its folder's name, or its first heading, stands in.
        undescribed: What becomes of one without a description: it has none, or its first paragraph stands in.
        limited: Refuse a name or a description that is longer than the specification allows.
    """

    strict: bool = False
    nameless: Literal["refused", "folder", "heading"] = "refused"
    undescribed: Literal["refused", "empty", "paragraph"] = "refused"
    limited: bool = False


@part
@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One agent.

    Attributes:
        places: Where it looks; of two skills of one name the one in the earlier place is meant.
        hides: Whether that one hides the other, as opposed to both being ambiguous.
        listing: In which order of scopes it lists; what comes last is left out first.
        markers: What a project's root holds.
        root_env: A variable that names the project's root.
        dialect: How the catalogue is spelled.
        envelope: What is put around the instructions of a skill.
        many: Whether one message may call several skills.
        reminds: Whether a text that the conversation has already is not put into it again.
        states: Its own files of what is switched off, those that decide first.
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
    return MappingProxyType({each.id: each for each in _packaged(ProfilesFile, "profiles.json").profiles})


def profile(name: str) -> Profile:
    """Return the profile with this id.

    Raises:
        UsageError: there is none; the hint says which there are.
    """
    known = profiles()
    if found := known.get(name) or measured(name):
        return found
    hint = " ".join(filter(None, (did_you_mean(spelled_like(name, known)), f"there are: {', '.join(known)}")))
    raise UsageError(f"there is no host {quote(name)}", hint=hint)


def measured(name: str) -> Profile | None:
    """Return an agent of which the budget of its list is known and little else: as the reference client, so bounded.

    It leaves whole skills out, as no agent is known to shorten descriptions of which that is not said.
    """
    row = hosts().get(name)
    if row is None or row.listing_chars is None:
        return None
    folders: dict[SkillScope, str | None] = {"project": row.project_dir, "user": row.user_dir}
    places = tuple(AgentFolder(scope, path) for scope, path in folders.items() if path)
    return Profile(id=row.id, name=row.name, places=places, budget=Budget(chars=row.listing_chars, least=None))


LinkKind: TypeAlias = Literal["copy", "symlink"]

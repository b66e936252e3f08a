"""What the loaded skills of a turn still need, as questions to the person; and which permissions they declare."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from skillhub.formats.text import clean, quote, quoted
from skillhub.model import manifest, needs
from skillhub.model.needs import Declared, McpServer, Requirement
from skillhub.model.question import SERVER_KINDS, SERVER_RUNS, Answer, Question
from skillhub.model.server_command import Risk, steered_by
from skillhub.model.tree import File, Tree
from skillhub.runtime.discover import Surroundings
from skillhub.runtime.loading import Loaded, Session
from skillhub.runtime.walk import LENIENT

# Which needs are open, asked once a session. What is asked is read off the very bytes that were checked when the
# skill was loaded; nothing is started, written or stored here.

_ABOUT_MAX = 240  # characters of what a skill says of a variable


@dataclass(frozen=True, slots=True)
class TurnNeeds:
    """What is open.

    Attributes:
        questions: Of kind ``env`` (the answer is a secret value: read it without showing it), or ``mcp``,
            ``mcp-unpinned`` and ``mcp-shell`` (whether to set up a server; ``details`` say what it runs).
        servers: By server name how it is run or reached, for the host to set up after a yes.
        missing: What no answer can supply, a line each.
    """

    questions: tuple[Question, ...] = ()
    servers: Mapping[str, McpServer] = field(default_factory=dict)
    missing: tuple[str, ...] = ()


def declared(loaded: Loaded) -> Declared:
    """Return the needs, the interface and the permissions of a loaded skill.

    Raises:
        ForbiddenVariable, UndeclaredVariable: it asks for a variable that it may not have.
        Drifted, StateError: one of its files was changed since it was loaded, or cannot be read.
    """
    files: dict[str, File] = {path: File(loaded.read(path)) for path in needs.READ if path in loaded.files}
    head = manifest.read_head(loaded.front.encode("utf-8", "replace"), loaded.skill.name, LENIENT)
    return needs.read(Tree(files), head.metadata)


def open_needs(
    skills: Iterable[Loaded], session: Session, around: Surroundings, servers: Collection[str] = ()
) -> TurnNeeds:
    """Return what these skills need and do not have; what was asked in this session before is not asked again.

    Args:
        skills: Those that were loaded for this turn.
        session: The conversation; it remembers what was asked, and in memory alone what was answered.
        around: Where the host runs: its variables, and the project whose files may steer a launcher.
        servers: Names of the MCP servers that the host has already.

    Raises:
        ForbiddenVariable, UndeclaredVariable, Drifted, StateError: as ``declared``.
    """
    environ = around.environ or os.environ
    questions: list[Question] = []
    missing: list[str] = []
    found: dict[str, McpServer] = {}
    for loaded in skills:
        name = clean(loaded.skill.full_name)
        # What a person agreed to or saw to when the skill was installed.
        settled = {
            *servers,
            *(n.name for n in loaded.skill.requires if n.kind == "mcp" and (n.satisfied or n.waived)),
        }
        for need in declared(loaded).requires:
            key = loaded.folder.path, need.spell(), repr(need.server)
            if need.kind == "env" and need.required and not environ.get(need.name):
                question = _variable(name, need)
            elif need.kind == "mcp" and need.name not in settled and need.server is not None:
                question = _server(name, need.name, need.server, around.cwd)
            else:
                missing += () if need.kind == "mcp" and need.name in settled else _unanswerable(name, need, environ)
                continue
            if key not in session.asked:
                session.asked[key] = None
                questions.append(question)
                if need.server is not None:
                    found[need.name] = need.server
    return TurnNeeds(tuple(questions), found, tuple(dict.fromkeys(missing)))


def supply(loaded: Loaded, question: Question, answer: Answer, session: Session) -> None:
    """Keep the value of a variable for this skill until the session ends, in memory alone."""
    if question.kind != "env" or question.skill != clean(loaded.skill.full_name):
        return  # it was given for another skill
    for key in session.asked:
        if key[:2] == (loaded.folder.path, f"env:{question.subject}"):
            session.asked[key] = answer.value if answer.said == "yes" else None


def values(loaded: Loaded, session: Session) -> dict[str, str]:
    """Return the variables that the session has for this skill, for what the host runs on its behalf.

    A variable is handed to the skill for which the person gave it, and to no other that has its name.
    """
    return {
        spelled.removeprefix("env:"): value
        for (path, spelled, _), value in session.asked.items()
        if path == loaded.folder.path and value is not None
    }


def _variable(skill: str, need: Requirement) -> Question:
    about = quoted(need.description, _ABOUT_MAX, "agents/openai.yaml") if need.description else ()
    message = f"{skill} needs the variable {need.name}; give a value for this session?"
    details = (*about, "it is kept in memory for this skill until the session ends")
    return Question("env", skill, message, details, need.name)


def _server(skill: str, name: str, server: McpServer, project: str) -> Question:
    steered = [file for file in steered_by(server.command) if os.path.lexists(os.path.join(project, file))]
    by_project = f"{', '.join(steered)} of this project can change what it runs"
    risk: Risk = "unpinned" if steered and server.risk == "ordinary" else server.risk
    runs = SERVER_RUNS[risk] if risk == server.risk else f", and {by_project}"
    message = f"{skill} needs the MCP server {name}{runs}; set it up?"
    return Question(SERVER_KINDS[risk], skill, message, (*server.facts(), *([by_project] if steered else [])), name)


def _unanswerable(skill: str, need: Requirement, environ: Mapping[str, str]) -> Iterator[str]:
    if need.kind == "mcp":
        yield f"{skill} needs the MCP server {need.name}, and does not say how to run it"
    elif need.kind == "program" and need.required and not shutil.which(need.name, path=environ.get("PATH")):
        yield f"{skill} needs the program {need.name}, which is not on PATH"


# The permissions that a skill declares, compiled as Codex does. Nothing is granted here: who wants to widen what a
# skill may do shows `beyond` to the person first.

MacAutomation = Literal["none", "all"] | tuple[str, ...]
_PREFERENCES: Final[Mapping[str, Literal["none", "readonly", "readwrite"]]] = {
    "true": "readonly",
    "false": "none",
    **dict.fromkeys(("readonly", "read-only"), "readonly"),
    **dict.fromkeys(("readwrite", "read-write"), "readwrite"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionProfile:
    """What commands of a skill may do, once a person agreed to it.

    Attributes:
        read: Folders and files that may be read, absolute; empty means any.
        write: Folders and files that may be written, absolute; empty means none.
        network: Whether the network may be used.
        preferences: Of macOS, its preferences.
        automations: Of macOS, the applications that may be steered, by bundle id.
        accessibility: Of macOS, its interface for accessibility.
        calendar: Of macOS, its calendar.
        approval: What happens beyond that: nothing is asked, it fails.
    """

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    network: bool = False
    preferences: Literal["none", "readonly", "readwrite"] = "readonly"
    automations: MacAutomation = "none"
    accessibility: bool = False
    calendar: bool = False
    approval: Literal["never"] = "never"

    @property
    def sandbox(self) -> Literal["workspace-write", "read-only"]:
        """``workspace-write`` if anything may be written."""
        return "workspace-write" if self.write else "read-only"

    def to_json(self) -> dict[str, Any]:
        """Return the profile for a host's sandbox."""
        automations = self.automations if isinstance(self.automations, str) else list(self.automations)
        macos: dict[str, Any] = {"preferences": self.preferences, "automations": automations}
        macos |= {"accessibility": self.accessibility, "calendar": self.calendar}
        files = {"read": list(self.read), "write": list(self.write)}
        shown = {"sandbox": self.sandbox, "file_system": files, "network": self.network}
        return {**shown, "macos": macos, "approval": self.approval}

    def beyond(self, allowed: PermissionProfile | None = None) -> tuple[str, ...]:
        """Return what this allows and ``allowed`` does not, a line each, to be shown before a person agrees."""
        base = allowed or PermissionProfile(preferences="none")
        lines = [f"reads {quote(path)}" for path in self.read if base.read and not _is_below(path, base.read)]
        lines += ["reads any file"] if base.read and not self.read else []
        lines += [f"writes {quote(path)}" for path in self.write if not _is_below(path, base.write)]
        lines += ["uses the network"] if self.network > base.network else []
        ranks = ("none", "readonly", "readwrite")
        if ranks.index(self.preferences) > ranks.index(base.preferences) and self.preferences == "readwrite":
            lines.append("changes the preferences of macOS")
        if self.automations == "all" != base.automations:
            lines.append("steers any application of macOS")
        elif isinstance(self.automations, tuple) and base.automations != "all":
            lines += [f"steers {quote(app)}" for app in self.automations if app not in base.automations]
        lines += ["uses accessibility of macOS"] if self.accessibility > base.accessibility else []
        lines += ["uses the calendar of macOS"] if self.calendar > base.calendar else []
        return tuple(lines)


def permission_profile(loaded: Loaded, home: str) -> PermissionProfile | None:
    """Return the permissions that a skill declares; None if it declares none.

    Relative paths start from the skill, ``~`` is the home; links in what is there already are followed. What makes no
    sense is left out.

    Raises:
        ForbiddenVariable, UndeclaredVariable, Drifted, StateError: as ``declared``.
    """
    said: dict[str, list[str]] = {}
    for line in declared(loaded).permissions:
        key, _, value = line.partition("=")
        said.setdefault(key, []).append(value.strip())
    if not said:
        return None

    def truth(key: str) -> bool:
        return [each.lower() for each in said.get(key, ())] == ["true"]

    def paths(key: str) -> tuple[str, ...]:
        found = (_absolute(each, loaded.folder.path, home) for each in said.get(f"file_system.{key}", ()))
        return tuple(dict.fromkeys(path for path in found if path))

    apps = tuple(each for each in said.get("macos.automations", ()) if each)
    automations: MacAutomation = "all" if apps == ("true",) else apps if apps not in ((), ("false",)) else "none"
    (preferences,) = said.get("macos.preferences", [""])[:1]
    return PermissionProfile(
        read=paths("read"),
        write=paths("write"),
        network=truth("network"),
        preferences=_PREFERENCES.get(preferences.lower(), "readonly"),
        automations=automations,
        accessibility=truth("macos.accessibility"),
        calendar=truth("macos.calendar"),
    )


def _absolute(path: str, folder: str, home: str) -> str | None:
    if not path or clean(path) != path:
        return None
    if path == "~" or path.startswith("~/"):
        path = home + path[1:]
    return os.path.realpath(os.path.join(folder, path))


def _is_below(path: str, folders: Collection[str]) -> bool:
    return any(path == folder or path.startswith(os.path.join(folder, "")) for folder in folders)

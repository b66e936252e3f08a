"""The open needs of the loaded skills, as questions to the user, and the permissions that they declare."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from skillhub.formats.text import clean, grouped, quote, quoted
from skillhub.model import manifest, needs
from skillhub.model.hosts import absolute
from skillhub.model.needs import Declared, McpServer, Requirement
from skillhub.model.question import SERVER_KINDS, Answer, Question
from skillhub.model.tree import DECLARATIONS, File, Tree
from skillhub.runtime.catalog import Session
from skillhub.runtime.discover import Surroundings
from skillhub.runtime.folder import Loaded
from skillhub.runtime.walk import LENIENT

# Open needs, asked once in a session. They are read from the bytes that were checked when the skill was loaded;
# nothing is started, written or stored here.

_ABOUT_MAX = 240  # characters of a variable's description


@dataclass(frozen=True, slots=True)
class TurnNeeds:
    """The open needs of a turn.

    Attributes:
        questions: Questions of kind ``env`` (the answer is a secret value: read it without echo), or ``mcp``,
            ``mcp-unpinned`` and ``mcp-shell`` (whether to set up a server; ``details`` show its command or URL).
        servers: The command or URL of each server, by its name; the host sets up a server after a yes.
        missing: A line for each need that no answer can satisfy, or that the user declined in this session.
    """

    questions: tuple[Question, ...] = ()
    servers: Mapping[str, McpServer] = field(default_factory=dict)
    missing: tuple[str, ...] = ()


def declared(loaded: Loaded) -> Declared:
    """Return the needs, the interface and the permissions that a loaded skill declares.

    Raises:
        ForbiddenVariable, UndeclaredVariable: the skill needs a variable that it may not have.
        Drifted, StateError: one of its files was changed since it was loaded, or cannot be read.
    """
    files: dict[str, File] = {path: File(loaded.read(path)) for path in DECLARATIONS if path in loaded.files}
    head = manifest.read_head(loaded.front.encode("utf-8", "replace"), loaded.skill.name, LENIENT)
    return needs.read(Tree(files), head.metadata)


def open_needs(
    skills: Iterable[Loaded], session: Session, around: Surroundings, servers: Collection[str] = ()
) -> TurnNeeds:
    """Return the open needs of these skills; each question is asked once in a session.

    Args:
        skills: The skills that were loaded for this turn.
        session: The conversation; it keeps the questions that were asked, and in memory alone the answers.
        around: Where the host runs: its variables, and the project whose files may influence a launcher.
        servers: The names of the MCP servers that the host has already.

    Raises:
        ForbiddenVariable, UndeclaredVariable: a skill needs a variable that it may not have.
        Drifted, StateError: a file of a skill was changed since it was loaded, or cannot be read.
    """
    environ = around.variables
    questions: list[Question] = []
    missing: list[str] = []
    asked_servers: dict[str, McpServer] = {}
    for loaded in skills:
        name = clean(loaded.skill.full_name)
        # Among them the servers that a person agreed to, or promised to set up, when the skill was installed.
        satisfied = {("mcp", server) for server in servers}
        for known in loaded.skill.requires:
            if known.kind in ("mcp", "skill") and (known.satisfied or known.waived):
                satisfied.add((known.kind, known.name))
        for need in declared(loaded).requires:
            key = loaded.folder.path, need.spell(), repr(need.server)
            if need.kind == "env" and need.required and not environ.get(need.name):
                question = _variable(name, need)
            elif need.kind == "mcp" and ("mcp", need.name) not in satisfied and need.server is not None:
                question = _server(name, need.name, need.server, around.cwd)
            else:
                if (need.kind, need.name) not in satisfied:
                    missing += _unanswerable(name, need, environ)
                continue
            if key in session.declined:
                missing.append(f"{name} needs {_called(need)}, which was declined")
            elif key not in session.asked:
                session.asked[key] = None
                questions.append(question)
                if need.server is not None:
                    asked_servers[need.name] = need.server
    return TurnNeeds(tuple(questions), asked_servers, tuple(dict.fromkeys(missing)))


def supply(loaded: Loaded, question: Question, answer: Answer, session: Session) -> None:
    """Keep the value of a variable for this skill until the session ends, in memory alone.

    A need that was declined is in ``TurnNeeds.missing`` from then on. A question about another skill is ignored.

    Args:
        loaded: The skill.
        question: The question of ``open_needs``.
        answer: The user's answer, for a variable with the value; an answer other than yes removes the value.
        session: The conversation.

    Raises:
        UsageError: the value is empty, too long or contains NUL.
    """
    if question.skill != clean(loaded.skill.full_name):
        return  # the answer is for another skill
    kind = "env" if question.kind == "env" else "mcp"
    is_yes = answer.said == "yes"
    if kind == "env" and is_yes:
        needs.check_value(answer.value or "")
    for key in session.asked:
        if key[:2] == (loaded.folder.path, f"{kind}:{question.subject}"):
            session.asked[key] = answer.value if kind == "env" and is_yes else None
            if is_yes:
                session.declined.discard(key)
            else:
                session.declined.add(key)


def values(loaded: Loaded, session: Session) -> dict[str, str]:
    """Return the variables that the session has for this skill, for commands that the host runs on its behalf.

    A value belongs to the folder of the skill for which the user gave it; another skill of its name does not get it.
    """
    own = ((spelled, value) for (path, spelled, _), value in session.asked.items() if path == loaded.folder.path)
    return {spelled.removeprefix("env:"): value for spelled, value in own if value is not None}


def _variable(skill: str, need: Requirement) -> Question:
    explanation = quoted(need.description, _ABOUT_MAX, "agents/openai.yaml") if need.description else ()
    message = f"{skill} needs the variable {need.name}; give a value for this session?"
    details = (*explanation, "it is kept in memory for this skill until the session ends")
    return Question("env", skill, message, details, need.name)


def _server(skill: str, name: str, server: McpServer, project: str) -> Question:
    steered = server.steered(project)
    risk, runs = server.risk_if(steered)
    message = f"{skill} needs the MCP server {name}{runs}; set it up?"
    return Question(SERVER_KINDS[risk], skill, message, (*server.facts(), *filter(None, [steered])), name)


def _unanswerable(skill: str, need: Requirement, environ: Mapping[str, str]) -> Iterator[str]:
    if need.kind == "mcp":
        yield f"{skill} needs {_called(need)}, and does not say how to run it"
    elif need.kind == "program" and need.required and not shutil.which(need.name, path=environ.get("PATH")):
        yield f"{skill} needs {_called(need)}, which is not on PATH"
    elif need.kind == "skill" and need.required:
        yield f"{skill} needs {_called(need)}, which is not enabled here"


def _called(need: Requirement) -> str:
    kinds = {"env": "variable", "mcp": "MCP server"}
    return f"the {kinds.get(need.kind, need.kind)} {need.name}"


# The permissions that a skill declares, compiled like Codex. Nothing is granted here: before a host extends the
# permissions of a skill, it shows `beyond` to the user.

MacAutomation = Literal["none", "all"] | tuple[str, ...]
_PREFERENCES: Final[Mapping[str, Literal["none", "readonly", "readwrite"]]] = {
    "true": "readonly",
    "false": "none",
    **dict.fromkeys(("readonly", "read-only"), "readonly"),
    **dict.fromkeys(("readwrite", "read-write"), "readwrite"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionProfile:
    """The permissions of a skill's commands, once the user agrees to them.

    Attributes:
        read: Absolute paths of folders and files that may be read; empty means any.
        write: Absolute paths of folders and files that may be written; empty means none.
        network: Whether the network may be used.
        preferences: The access to the preferences of macOS.
        automations: The applications of macOS that may be controlled, by bundle id.
        accessibility: Whether the accessibility interface of macOS may be used.
        calendar: Whether the calendar of macOS may be used.
        approval: Always ``never``: an action without permission fails, and the user is not asked.
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
        """``workspace-write`` if any path may be written, else ``read-only``."""
        return "workspace-write" if self.write else "read-only"

    def to_json(self) -> dict[str, Any]:
        """Return the profile as JSON for a host's sandbox."""
        automations = self.automations if isinstance(self.automations, str) else list(self.automations)
        macos: dict[str, Any] = {"preferences": self.preferences, "automations": automations}
        macos |= {"accessibility": self.accessibility, "calendar": self.calendar}
        files = {"read": list(self.read), "write": list(self.write)}
        row = {"sandbox": self.sandbox, "file_system": files, "network": self.network}
        return {**row, "macos": macos, "approval": self.approval}

    def beyond(self, allowed: PermissionProfile | None = None) -> tuple[str, ...]:
        """Return a line for each permission that ``allowed`` lacks, to show before the user agrees.

        Args:
            allowed: The permissions that the user has agreed to; None for the least.
        """
        base = allowed or PermissionProfile(preferences="none")
        lines = []
        if base.read:
            lines += [f"reads {quote(path)}" for path in self.read if not _is_below(path, base.read)]
            if not self.read:
                lines.append("reads any file")
        lines += [f"writes {quote(path)}" for path in self.write if not _is_below(path, base.write)]
        if self.network and not base.network:
            lines.append("uses the network")
        ranks = ("none", "readonly", "readwrite")
        if ranks.index(self.preferences) > ranks.index(base.preferences) and self.preferences == "readwrite":
            lines.append("changes the preferences of macOS")
        if base.automations != "all" and self.automations == "all":
            lines.append("steers any application of macOS")
        elif base.automations != "all" and isinstance(self.automations, tuple):
            lines += [f"steers {quote(app)}" for app in self.automations if app not in base.automations]
        if self.accessibility and not base.accessibility:
            lines.append("uses accessibility of macOS")
        if self.calendar and not base.calendar:
            lines.append("uses the calendar of macOS")
        return tuple(lines)


def permission_profile(loaded: Loaded, home: str) -> PermissionProfile | None:
    """Return the permissions that a skill declares; None if it declares none.

    Relative paths refer to the folder of the skill, ``~`` to ``home``; links on the way are followed. Invalid values
    are ignored.

    Args:
        loaded: The skill.
        home: The user's home folder.

    Raises:
        ForbiddenVariable, UndeclaredVariable: the skill needs a variable that it may not have.
        Drifted, StateError: one of its files was changed since it was loaded, or cannot be read.
    """
    parts = (line.partition("=") for line in declared(loaded).permissions)
    lines = grouped((key, value.strip()) for key, _, value in parts)
    if not lines:
        return None

    def is_true(key: str) -> bool:
        return [value.lower() for value in lines.get(key, ())] == ["true"]

    def paths(key: str) -> tuple[str, ...]:
        absolute_paths = (_absolute(value, loaded.folder.path, home) for value in lines.get(f"file_system.{key}", ()))
        return tuple(dict.fromkeys(path for path in absolute_paths if path))

    apps = tuple(app for app in lines.get("macos.automations", ()) if app)
    automations: MacAutomation = "none" if apps in ((), ("false",)) else apps
    if apps == ("true",):
        automations = "all"
    preferences = lines.get("macos.preferences", [""])[0]
    return PermissionProfile(
        read=paths("read"),
        write=paths("write"),
        network=is_true("network"),
        preferences=_PREFERENCES.get(preferences.lower(), "readonly"),
        automations=automations,
        accessibility=is_true("macos.accessibility"),
        calendar=is_true("macos.calendar"),
    )


def _absolute(path: str, folder: str, home: str) -> str | None:
    if not path or clean(path) != path:
        return None
    return os.path.realpath(os.path.join(folder, absolute(path, home) or path))


def _is_below(path: str, folders: Collection[str]) -> bool:
    return any(path == folder or path.startswith(os.path.join(folder, "")) for folder in folders)

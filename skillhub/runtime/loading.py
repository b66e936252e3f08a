"""Loads a skill: picks it by name or path, checks that it is what was agreed to, and fills in its instructions."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from skillhub.errors import Drifted, NotFound, Refused, UsageError
from skillhub.model import head
from skillhub.model.skill import Skill
from skillhub.model.text import clean, did_you_mean, quote
from skillhub.model.tree import SKILL_MD
from skillhub.runtime.arguments import Given, put_in
from skillhub.runtime.catalog import Catalog
from skillhub.runtime.folder import Agreed, Folder
from skillhub.runtime.locks import STORED, Locks, holding, imitates, is_inside
from skillhub.runtime.requested import Fork, Hook, hooks_of
from skillhub.runtime.resolve import Caller, called, refusal
from skillhub.runtime.suggest import Suggestions

_CAP: Final = 1 << 20
_SHOWN = 5
_NOT_THE_SKILLS = frozenset({".git", ".hg", ".jj", "node_modules", "__pycache__", ".venv"})


@dataclass(frozen=True, slots=True)
class Commands:
    """A host's leave to run commands that stand in skills as ``!`command```; without it they stay text.

    Attributes:
        run: Runs a command (first) in a folder (second) and returns what it prints.
        agreed: Says whether the person agreed to this command (second) of the skill with this ``version`` (first).
    """

    run: Callable[[str, str], str]
    agreed: Callable[[str, str], bool]


class Session:
    """One conversation, which remembers what was loaded into it; ``forget`` when its context was compacted."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self._versions: dict[str, str] = {}

    def has(self, path: str, version: str) -> bool:
        """Say whether this version is in the conversation already; from now on it is."""
        before = self._versions.get(path)
        self._versions[path] = version
        return before == version

    def forget(self) -> None:
        """Let everything be loaded in full again."""
        self._versions.clear()

    @property
    def versions(self) -> dict[str, str]:
        """The version of each skill that was loaded, by path."""
        return dict(self._versions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """How a skill is to be loaded.

    Attributes:
        arguments: As typed behind its name.
        caller: Who asks; a user may not have what is for the model alone, and the other way round.
        session: The conversation, where the host keeps one.
        rules: How strictly the host reads, ``Profile.rules``.
        commands: Leave to run commands.
        ignore_locks: Load the skill as the host alone would, whatever a lock or this machine's record says of it.
    """

    arguments: str = ""
    caller: Caller = "user"
    session: Session | None = None
    rules: head.Rules = field(default_factory=head.Rules)
    commands: Commands | None = None
    ignore_locks: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A skill as it goes to a model; ``inject`` puts the host's envelope around it.

    Attributes:
        folder: Where its files are, which relative paths in ``body`` start from.
        front: The lines above the instructions, as written.
        body: The instructions with everything put in.
        version: The tree that was checked, else SHA-256 of ``SKILL.md``; the same means the same instructions.
        files: The paths of its other files, sorted; listed, not read.
        tools: The only tools that it wants while it leads; None if it says nothing of them.
        is_repeat: Whether this session has it already, so that a reminder will do.
        notes: What to tell a person, a line each.
    """

    skill: Skill
    folder: Folder
    front: str
    body: str
    arguments: str
    version: str
    files: tuple[str, ...]
    tools: tuple[str, ...] | None
    fork: Fork | None
    hooks: tuple[Hook, ...]
    is_repeat: bool
    notes: tuple[str, ...]

    def narrowed(self, tools: Collection[str]) -> tuple[str, ...]:
        """Return those of the host's tools that this skill leaves; never one that the host does not have."""
        if self.tools is None:
            return tuple(tools)
        left = {tool.partition("(")[0].lower() for tool in self.tools}
        return tuple(tool for tool in tools if tool.lower() in left)

    def read(self, relative: str) -> bytes:
        """Return one of the skill's files, unchanged since it was loaded. Raises as ``Folder.read``."""
        return self.folder.read(relative, _CAP * 8)


def pick(catalog: Catalog, name: str | None = None, path: str | None = None) -> Skill:
    """Return the skill at ``path``, or else the only one of this ``name``.

    Raises:
        NotFound: there is none; a path counts only if the catalogue has it.
        UsageError: several have the name; the hint lists their paths.
    """
    if path is not None:
        found = catalog.at(path)
        if found is None:
            hint = f"{catalog.command} shows which there are"
            raise NotFound(f"no skill of the catalogue is at {quote(path)}", hint=hint)
        return found
    name = name or ""
    matches = called(catalog, name) or catalog.named(name)
    if len(matches) > 1:
        paths = ", ".join(clean(skill.path or "") for skill in matches)
        raise UsageError(f"{quote(name)} are {len(matches)} skills", hint=f"name one by its path: {paths}")
    if not matches and name in catalog.taken:
        message = f"the skill {quote(name)} is locked, and lies in no folder that this agent reads"
        raise NotFound(message, hint=f"{catalog.command} shows what it reads")
    if not matches:
        like = [clean(skill.full_name) for skill in Suggestions(catalog.skills).like(name).skills[:_SHOWN]]
        hint = did_you_mean(like) or f"{catalog.command} shows which there are"
        raise NotFound(f"there is no skill {quote(name)}", hint=hint)
    return matches[0]


def load(skill: Skill, request: Request | None = None, agreed: Agreed | None = None) -> Loaded:
    """Return the skill, read now; nothing of it is run but commands that ``request`` gives leave to run.

    The lock that knows it, and this machine's record, are read anew. What is handed out is hashed as it is read.

    Args:
        skill: One of a catalogue, or one that a host found by itself.
        request: What for.
        agreed: What its folder must hold besides what its lock says.

    Raises:
        Refused: it is disabled, was not agreed to on this machine, or is not for this caller.
        Drifted: its files are not those that were agreed to.
        FormatError: it cannot be read as ``request.rules`` want.
        OutsideSkill: its ``SKILL.md`` is a link.
        StateError: the disk refuses.
    """
    asked = request or Request()
    if not asked.ignore_locks:
        skill, ours = _by_now(skill)
        agreed = agreed or ours
        if agreed is not None and ours is not None and agreed.tree != ours.tree:
            message = f"expected the tree {ours.tree}, which is locked, found that {agreed.tree} is asked for"
            raise Drifted(message, where=skill.path)
    if agreed is None or skill.held is None or skill.held.status != "drifted":
        _refuse(skill, asked.caller)
    # What was agreed to is checked whole; of what somebody works on, tools keep folders that are none of the skill's.
    folder = Folder(skill.path or "", () if agreed else _NOT_THE_SKILLS)
    if agreed is not None:
        folder.hold_to(agreed)
        _refuse(skill, asked.caller)
    data = folder.read(SKILL_MD, _CAP)
    read = head.read(data, os.path.basename(skill.path or ""), asked.rules)
    version = agreed.tree if agreed else f"sha256:{sha256(data).hexdigest()}"
    body = put_in(read.body, _given(folder, version, asked))
    tools = read.allowed_tools if "allowed-tools" in read.front else None
    return Loaded(
        skill=skill,
        folder=folder,
        front=data.decode("utf-8", "replace").removesuffix(read.body),
        body=body,
        arguments=asked.arguments,
        version=version,
        files=tuple(name for name in folder.names if name != SKILL_MD),
        tools=tools,
        fork=Fork(read.fork.get("agent", ""), read.fork.get("model", ""), body) if read.fork else None,
        hooks=hooks_of(read.hooks),
        is_repeat=asked.session is not None and asked.session.has(folder.path, version),
        notes=_notes(skill, tools, folder),
    )


def _by_now(skill: Skill) -> tuple[Skill, Agreed | None]:
    """Return the skill as its lock and this machine's record have it now, and what its folder must hold.

    Raises:
        FormatError, StateError: a lock or a record cannot be read, so that nobody knows what was agreed to.
    """
    locks = skill.locks if isinstance(skill.locks, Locks) else Locks.near(skill)
    known = locks.read((os.path.dirname(skill.path or ""),))
    if known.errors:
        raise known.errors[0]
    owner = known.at(skill)
    if owner is None:
        held = STORED if known.is_linked_into_store(skill) and not skill.managed else None
        if (imitated := known.named(skill)) is not None:
            held = imitates(imitated)
        return (holding(skill, held) if held else skill), Agreed(skill.tree) if skill.tree else None
    if owner.how == "inside":
        return holding(skill, is_inside(owner.skill)), None
    if owner.how == "place" and owner.skill.held is not None:
        return holding(skill, owner.skill.held), None
    tree = owner.skill.tree or skill.tree
    return skill, locks.agreed(tree) if tree else None


def _refuse(skill: Skill, caller: Caller) -> None:
    if refused := refusal(skill, caller):
        raise Refused(f"the skill {quote(skill.full_name)} {refused[0]}", hint=refused[1] or None)


def _given(folder: Folder, version: str, request: Request) -> Given:
    variables = {"SKILL_DIR": folder.path, "CLAUDE_SKILL_DIR": folder.path}
    if request.session is not None and request.session.name:
        variables["CLAUDE_SESSION_ID"] = request.session.name
    leave = request.commands

    def run(command: str) -> str | None:
        return leave.run(command, folder.path) if leave and leave.agreed(version, command) else None

    return Given(request.arguments, variables, run)


def _notes(skill: Skill, tools: tuple[str, ...] | None, folder: Folder) -> tuple[str, ...]:
    notes = [f"Using skill: {clean(skill.full_name)}"]
    if tools is not None:
        notes.append(f"Tools while it leads: {', '.join(map(clean, tools)) or 'none'}")
    if folder.is_cut:
        notes.append("It has more files than are listed")
    if folder.odd:
        notes.append(f"Left out, being neither file nor folder: {', '.join(map(quote, folder.odd[:_SHOWN]))}")
    return tuple(notes)

"""Loads a skill: picked by name or path, held to the lock, with its arguments and requests filled in."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, Final

from skillhub.errors import (
    Drifted,
    FormatError,
    KnownBad,
    NotFound,
    Refused,
    SkillhubError,
    StateError,
    UsageError,
    Withdrawn,
)
from skillhub.formats import yaml
from skillhub.formats.text import clean, did_you_mean, quote
from skillhub.formats.yaml import Node
from skillhub.model import manifest
from skillhub.model.hosts import Rules
from skillhub.model.record import Skill
from skillhub.project.project import Project
from skillhub.runtime.catalog import Catalog
from skillhub.runtime.folder import STORED, Agreed, Folder, Locks, holding, imitates, is_inside
from skillhub.runtime.meaning import Caller, called, refusal, usable
from skillhub.runtime.mention import Suggestions

# Fills the places in instructions: arguments, the session, the folder, and what agreed commands print.
# One pass over the text as it was agreed to: what is put in is never looked at again, so that no argument and
# no output of a command can bring in a command.

_PLACE = re.compile(
    r"(?<![\w`)\]!])!`(?P<command>[^`\n]+)`"
    r"|(?<![\\$])\$(?:ARGUMENTS(?:\[(?P<at>[0-9]{1,4})\]|(?!\w))|(?P<nth>[0-9]{1,4})(?!\w|[.,][0-9]))"
    r"|(?<!\\)\$\{(?P<variable>[A-Z_]{1,40})\}"
)

# What a word is made of (POSIX, Shell Command Language 2.2): in quotes of either kind, escaped, or as it is.
_PIECE = re.compile(
    r"""'(?P<single>[^']*)'|"(?P<double>[^"\\]*(?:\\.[^"\\]*)*)"|\\(?P<escaped>.)"""
    r"""|(?P<plain>[^ \t\r\n'"\\]+)|(?P<blank>[ \t\r\n]+)""",
    re.DOTALL,
)
_ESCAPED = re.compile(r"""\\(["\\])""")
_FILLED_MAX: Final = 1 << 20  # characters; a skill may name its arguments ten thousand times


@dataclass(frozen=True, slots=True)
class Given:
    """What there is to put in.

    Attributes:
        arguments: As typed behind the skill's name.
        variables: By name, such as ``SKILL_DIR``; a variable that is not here stays as it is written.
        run: Returns what a command prints, or None where it must not be run; then it stays text.
    """

    arguments: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    run: Callable[[str], str | None] = lambda _: None


def split_words(arguments: str) -> list[str]:
    """Return the words as a POSIX shell splits them; where a quote is left open, at blanks.

    The standard library's ``shlex`` takes time that is quadratic in the length of a word.
    """
    found: list[list[str]] = []
    end, is_apart = 0, True
    for piece in _PIECE.finditer(arguments):
        if piece.start() != end:
            break
        end = piece.end()
        single, double, escaped, plain = piece.group("single", "double", "escaped", "plain")
        if piece["blank"]:
            is_apart = True
            continue
        if is_apart:
            found.append([])
            is_apart = False
        if double is not None:
            found[-1].append(_ESCAPED.sub(r"\1", double))
        else:
            found[-1].append(next(each for each in (single, escaped, plain) if each is not None))
    return ["".join(word) for word in found] if end == len(arguments) else arguments.split()


def put_in(body: str, given: Given) -> str:
    """Return ``body`` with its places filled; arguments that no place takes come at the end.

    ``$ARGUMENTS`` is all of them as typed, ``$ARGUMENTS[N]`` and ``$N`` the word N from 0; a place whose word is
    not there stays as it is written, for it may be a price. A command that holds a place is not run.

    Raises:
        FormatError: the arguments are put in so often that it is over 1 MiB of text in all.
    """
    words = split_words(given.arguments)
    is_used, filled = False, 0

    def bounded(place: re.Match[str]) -> str:
        nonlocal filled
        text = fill(place)
        filled += 0 if place["command"] else len(text)
        if filled > _FILLED_MAX:
            raise FormatError(f"expected at most {_FILLED_MAX} characters to be put into the instructions")
        return text

    def fill(place: re.Match[str]) -> str:
        nonlocal is_used
        if command := place["command"]:
            printed = None if _PLACE.search(command) else given.run(command)
            return place[0] if printed is None else printed
        if variable := place["variable"]:
            return given.variables.get(variable, place[0])
        number = place["at"] or place["nth"]
        if number is None:
            is_used = True
            return given.arguments
        if int(number) >= len(words):
            return place[0]
        is_used = True
        return words[int(number)]

    text = _PLACE.sub(bounded, body)
    if is_used or not given.arguments:
        return text
    return f"{text.rstrip()}\n\nARGUMENTS: {given.arguments}\n"


# Reads what a skill requests of the host that loads it: a context of its own, and hooks. Nothing is granted
# here.


@dataclass(frozen=True, slots=True)
class Fork:
    """What a skill asks for that wants a context of its own; who loads it decides whether it gets one.

    Attributes:
        agent: The kind of agent; empty for the host's usual one.
        model: The model; empty for the one at work.
        task: The instructions with their arguments, for that agent alone.
    """

    agent: str
    model: str
    task: str

    def to_json(self) -> dict[str, str | None]:
        """Return the request as the contract has it."""
        return {"agent": self.agent or None, "model": self.model or None, "task": self.task}


@dataclass(frozen=True, slots=True)
class Hook:
    """A hook that a skill wants to have while it is in use; nothing here runs it.

    Attributes:
        event: When: ``Stop``, ``PreToolUse`` and so on.
        matcher: For which tools; empty for all.
        kind: ``command``, or as the skill has it.
        command: What is to run.
        once: Whether it is gone after it ran once in a session.
        lifetime: Always ``skill``: it goes when the skill does.
    """

    event: str
    matcher: str
    kind: str
    command: str
    once: bool
    lifetime: str = "skill"

    def to_json(self) -> dict[str, Any]:
        """Return the hook as the contract has it."""
        shown = {"event": self.event, "matcher": self.matcher, "type": self.kind, "command": self.command}
        return {**shown, "once": self.once, "lifetime": self.lifetime}


def hooks_of(hooks: Node) -> tuple[Hook, ...]:
    """Return the hooks of a frontmatter; what has another shape than Claude Code's is left out."""
    found = []
    for event, groups in hooks.items() if isinstance(hooks, dict) else ():
        for group in groups if isinstance(groups, list) else [groups]:
            if not isinstance(group, dict):
                continue
            inner = group.get("hooks", [group])
            for hook in inner if isinstance(inner, list) else [inner]:
                if isinstance(hook, dict) and isinstance(command := hook.get("command"), str):
                    kind, once = hook.get("type", "command"), hook.get("once", group.get("once"))
                    matcher = group.get("matcher", "")
                    found.append(Hook(event, str(matcher), str(kind), command, str(once).lower() == "true"))
    return tuple(found)


# Loads a skill: picks it by name or path, checks that it is what was agreed to, and fills in its instructions.

_FILE_CAP: Final = 1 << 20
_SHOWN = 5
# Of what nobody agreed to as a whole, folders that tools keep in it.
NOT_THE_SKILLS: Final = frozenset({".git", ".hg", ".jj", "node_modules", "__pycache__", ".venv"})


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
        # By folder, need and server what was asked; the value of a variable, if one was given, for that skill alone.
        self.asked: dict[tuple[str, str, str], str | None] = {}
        self._texts: set[tuple[str, str]] = set()

    def has(self, path: str, version: str, text: str = "") -> bool:
        """Say whether this very text of this version is in the conversation already; from now on it is."""
        key = path, sha256(f"{version}\n{text}".encode("utf-8", "surrogatepass")).hexdigest()
        is_there = key in self._texts
        self._texts.add(key)
        self._versions[path] = version
        return is_there

    def forget(self) -> None:
        """Let everything be loaded in full again."""
        self._versions.clear()
        self._texts.clear()

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
        rules: How strictly to read; None as strictly as the host that found the skill.
        commands: Leave to run commands.
        ask: Asks the person whether a skill may be loaded of which its host's rules say ``ask``; without it none is.
        ignore_locks: Load the skill as the host alone would, whatever a lock or this machine's record says of it.
    """

    arguments: str = ""
    caller: Caller = "user"
    session: Session | None = None
    rules: Rules | None = None
    commands: Commands | None = None
    ask: Callable[[Skill], bool] | None = None
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
        is_repeat: Whether this session has this very text already; ``inject`` says so to hosts that want a reminder.
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
        return self.folder.read(relative, _FILE_CAP * 8)


def pick(catalog: Catalog, name: str | None = None, path: str | None = None) -> Skill:
    """Return the skill at ``path``, or else the only one of this ``name``.

    Raises:
        NotFound: there is none; a path counts only if the catalogue has it.
        UsageError: several have the name; the hint lists their paths.
    """
    if path is not None:
        found = catalog.at(path)
        if found is None:
            hint = f"{catalog.command} lists the skills"
            raise NotFound(f"no skill of the catalogue is at {quote(path)}", hint=hint)
        return found
    name = name or ""
    matches = called(catalog, name) or usable(catalog.named(name))
    if len(matches) > 1:
        paths = ", ".join(clean(skill.path or "") for skill in matches)
        raise UsageError(f"{quote(name)} are {len(matches)} skills", hint=f"name one by its path: {paths}")
    if not matches and name in catalog.taken:
        message = f"the skill {quote(name)} is locked, but in no folder that this agent reads"
        message = "; ".join([message, *(f"{clean(each.path)}: {each.message}" for each in catalog.unchecked)])
        raise NotFound(message, hint=f"{catalog.command} lists the skills that it reads")
    if not matches:
        like = [clean(skill.full_name) for skill in Suggestions(catalog.skills).like(name).skills[:_SHOWN]]
        hint = did_you_mean(like) or f"{catalog.command} lists the skills"
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
        KnownBad: an advisory or a digest that this machine has heard of says so.
        Withdrawn: its registry has recalled it, as it was last heard.
        Refused: it is disabled, was not agreed to on this machine, is not for this caller, or the person said no.
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
            message = f"expected the tree {ours.tree}, which is locked, found {agreed.tree[:80]} requested"
            raise Drifted(message, where=skill.path)
    elif skill.tree and not skill.managed:
        agreed = agreed or Agreed(skill.tree)
    if agreed is None or skill.held is None or skill.held.status != "drifted":
        _refuse(skill, asked)
    # What was agreed to is checked whole; of what somebody works on, tools keep folders that are none of the skill's.
    place, name = os.path.split(skill.file)
    folder = Folder(place, () if agreed else NOT_THE_SKILLS, name if skill.is_command else "")
    if agreed is not None:
        folder.hold_to(agreed)
        _refuse(skill, asked)
    _ask(skill, asked)
    data = folder.read(name, _FILE_CAP)
    found_by = skill.rules if isinstance(skill.rules, Rules) else Rules()
    read = manifest.read_head(data, os.path.basename(skill.path or ""), asked.rules or found_by)
    version = agreed.tree if agreed else f"sha256:{sha256(data).hexdigest()}"
    body = put_in(read.body, _given(folder, version, asked))
    key = os.path.join(folder.path, name) if skill.is_command else folder.path
    tools = read.allowed_tools if "allowed-tools" in read.front else None
    return Loaded(
        skill=skill,
        folder=folder,
        front=data.decode("utf-8", "replace").removesuffix(read.body),
        body=body,
        arguments=asked.arguments,
        version=version,
        files=tuple(each for each in folder.names if each != name),
        tools=tools,
        fork=Fork(read.fork.get("agent", ""), read.fork.get("model", ""), body) if read.fork else None,
        hooks=hooks_of(read.hooks),
        is_repeat=asked.session is not None and asked.session.has(key, version, body),
        notes=_notes(skill, tools, folder),
    )


def preload(agent: bytes, catalog: Catalog, request: Request | None = None) -> tuple[Loaded, ...]:
    """Return the skills that a sub-agent has from its start: those that ``skills`` of its frontmatter names.

    Args:
        agent: The file that describes it, such as ``.claude/agents/reviewer.md``.
        catalog: The skills there are.
        request: What for; they are loaded as for the model.

    Raises:
        FormatError: the file has no such frontmatter.
        NotFound, UsageError: a name means no skill, or several.
        Refused, Drifted, OutsideSkill, StateError: as ``load``.
    """
    where = "the sub-agent's file"
    front = yaml.parse(manifest.split(agent, where).yaml, where, line_offset=1)
    named = front.get("skills", "") if isinstance(front, dict) else ""
    words = re.split(r"[,\s]+", named) if isinstance(named, str) else named
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise FormatError(f"expected names of skills, found {quote(named)}", where=where)
    asked = replace(request or Request(), caller="model", arguments="")
    names = dict.fromkeys(word for word in map(str, words) if word)
    return tuple(load(pick(catalog, name), asked) for name in names)


def _by_now(skill: Skill) -> tuple[Skill, Agreed | None]:
    """Return the skill as its lock and this machine's record have it now, and what its folder must hold.

    Raises:
        FormatError, StateError: a lock or a record cannot be read, so that nobody knows what was agreed to.
    """
    locks = skill.locks if isinstance(skill.locks, Locks) else Locks.near(skill)
    # A host may spell the path of what it found by itself in any way.
    path = os.path.realpath(skill.path or "")
    links = dict.fromkeys(map(os.path.abspath, (*skill.links, skill.path or "")))
    known = locks.read(map(os.path.dirname, (*links, path)))
    if known.errors:
        raise known.errors[0]
    owner = known.at(replace(skill, path=path, links=tuple(links)))
    if owner is None:
        held = STORED if known.is_stored(path) and not skill.managed else None
        if (imitated := known.named(skill)) is not None:
            held = imitates(imitated)
        return (holding(skill, held) if held else skill), Agreed(skill.tree) if skill.tree else None
    if owner.how == "inside":
        return holding(skill, is_inside(owner.skill)), None
    if owner.how == "place" and owner.skill.held is not None:
        return holding(skill, owner.skill.held), None
    tree = owner.skill.tree or skill.tree
    found = replace(skill, managed=False) if owner.how == "left" else skill
    return found, locks.agreed(tree) if tree else None


def held_error(skill: Skill) -> type[SkillhubError]:
    """Return the class of the error for a skill that is held back, or else refused."""
    errors = {"known-bad": KnownBad, "withdrawn": Withdrawn}
    return errors.get(skill.held.status, Refused) if skill.held is not None else Refused


def _refuse(skill: Skill, request: Request) -> None:
    if refused := refusal(skill, request.caller):
        raise held_error(skill)(f"the skill {quote(skill.full_name)} {refused[0]}", hint=refused[1] or None)


def _ask(skill: Skill, request: Request) -> None:
    if skill.permission != "ask":
        return
    if request.ask is None:
        message = f"the settings require asking the user before {quote(skill.full_name)} is loaded"
        raise Refused(message, hint="pass Request(ask=...), which asks, or store an answer with remember(...)")
    if not request.ask(skill):
        raise Refused(f"the user refuses to load {quote(skill.full_name)}")


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
        notes.append(f"Left out, neither file nor folder: {', '.join(map(quote, folder.odd[:_SHOWN]))}")
    return tuple(notes)


def with_edits(skill: Skill, changed: Iterable[str], project: Project) -> Skill:
    """Return a locked skill with those of its ``changed`` copies that agents are refused."""
    return replace(skill, edited=tuple(link for link in changed if _is_edited(skill, link, project.home.state)))


def _is_edited(skill: Skill, link: str, state: str) -> bool:
    try:
        if skill.tree is not None:
            Folder(link).check(Agreed(skill.tree, state=state))
    except Drifted:
        return True
    except StateError:  # it is gone, or no folder
        return os.path.lexists(link)
    return False

"""Loads a skill: picks it by name or path, checks it against the lock, and fills in its instructions."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Final

from skillhub import errors
from skillhub.disk.home import Home
from skillhub.errors import Drifted, FormatError, NotFound, Refused, SkillhubError, StateError, UsageError
from skillhub.formats import yaml
from skillhub.formats.text import clean, command, did_you_mean, quote
from skillhub.model import manifest
from skillhub.model.hosts import Rules
from skillhub.model.skill import Skill
from skillhub.model.tree import Listing
from skillhub.project.project import Project
from skillhub.project.store import Store
from skillhub.runtime.catalog import STORED, Catalog, Session, holding, imitation_reason, inside_reason
from skillhub.runtime.folder import Agreed, Folder, Fork, Loaded, all_files, has_tree, hooks_of
from skillhub.runtime.locks import Locks
from skillhub.runtime.mention_parser import Suggestions
from skillhub.runtime.mention_resolver import Caller, called, check_caller, refusal, usable

# Fills the placeholders in instructions: arguments, the session, the folder, and the output of agreed commands.
# One pass over the agreed text: inserted text is never scanned again, so that no argument and no output of a command
# can bring in a command.

_PLACEHOLDER = re.compile(
    r"(?<![\w`)\]!])!`(?P<command>[^`\n]+)`"
    r"|(?<![\\$])\$(?:ARGUMENTS(?:\[(?P<at>[0-9]{1,4})\]|(?!\w))|(?P<nth>[0-9]{1,4})(?!\w|[.,][0-9]))"
    r"|(?<!\\)\$\{(?P<variable>[A-Z_]{1,40})\}"
)

_SPLIT_MAX: Final = 1 << 14  # characters; ``shlex`` takes quadratic time in the length of a word
_FILLED_MAX: Final = 1 << 20  # characters; a skill may use its arguments ten thousand times


@dataclass(frozen=True, slots=True)
class PlaceholderValues:
    """The values for the placeholders.

    Attributes:
        arguments: The text that was typed behind the skill's name.
        variables: The values by name, such as ``SKILL_DIR``; a variable without a value stays as it is written.
        run: Returns the output of a command, or None if it must not be run; then it stays text.
    """

    arguments: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    run: Callable[[str], str | None] = lambda _: None


def split_words(arguments: str) -> list[str]:
    """Split a text into words like a POSIX shell; at blanks if a quote is not closed, or if the text is very long."""
    with suppress(ValueError):
        if len(arguments) <= _SPLIT_MAX:
            return shlex.split(arguments)
    return arguments.split()


def fill_placeholders(body: str, values: PlaceholderValues) -> str:
    """Return ``body`` with its placeholders filled; arguments without a placeholder are appended.

    ``$ARGUMENTS`` is all arguments as typed, ``$ARGUMENTS[N]`` and ``$N`` the word N from 0. A placeholder without a
    word stays as it is written, since it may be a price. A command that contains a placeholder is not run.

    Raises:
        FormatError: more than 1,048,576 characters would be inserted, without the output of commands.
    """
    words = split_words(values.arguments)
    is_used, inserted = False, 0

    def replacement(placeholder: re.Match[str]) -> str:
        nonlocal inserted
        text = value_of(placeholder)
        inserted += 0 if placeholder["command"] else len(text)
        if inserted > _FILLED_MAX:
            raise FormatError(f"expected at most {_FILLED_MAX} characters to insert into the instructions")
        return text

    def value_of(placeholder: re.Match[str]) -> str:
        nonlocal is_used
        if command := placeholder["command"]:
            printed = None if _PLACEHOLDER.search(command) else values.run(command)
            return placeholder[0] if printed is None else printed
        if variable := placeholder["variable"]:
            return values.variables.get(variable, placeholder[0])
        number = placeholder["at"] or placeholder["nth"]
        if number is None:
            is_used = True
            return values.arguments
        if int(number) >= len(words):
            return placeholder[0]
        is_used = True
        return words[int(number)]

    text = _PLACEHOLDER.sub(replacement, body)
    if is_used or not values.arguments:
        return text
    return f"{text.rstrip()}\n\nARGUMENTS: {values.arguments}\n"


# Picks and loads a skill.

_SHOWN = 5
# Folders of tools, which are no part of a skill in no lock.
NOT_THE_SKILLS: Final = frozenset({".git", ".hg", ".jj", "node_modules", "__pycache__", ".venv"})


@dataclass(frozen=True, slots=True)
class Commands:
    """A host's permission to run the commands that a skill contains as ``!`command```; without it they stay text.

    Attributes:
        run: Runs a command (first argument) in a folder (second) and returns its output.
        agreed: Returns whether the user agreed to a command (second argument) of a skill's ``version`` (first).
    """

    run: Callable[[str, str], str]
    agreed: Callable[[str, str], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """How to load a skill.

    Attributes:
        arguments: The text that was typed behind the skill's name.
        caller: Who loads it; a skill may be for users only, or for models only.
        session: The conversation, if the host keeps one.
        rules: How strictly to read ``SKILL.md``; None for the rules of the host that found the skill.
        commands: The permission to run commands of the skill; None runs none.
        ask: Asks the user whether a skill may be loaded if the host's rules say ``ask``; without it such a skill is
            refused. The skill that it gets has the tree of its files, for ``remember``.
        ignore_locks: Whether to load the skill as the host alone would, without locks and this machine's record.

    Raises:
        UsageError: there is no such caller.
    """

    arguments: str = ""
    caller: Caller = "user"
    session: Session | None = None
    rules: Rules | None = None
    commands: Commands | None = None
    ask: Callable[[Skill], bool] | None = None
    ignore_locks: bool = False

    def __post_init__(self) -> None:
        check_caller(self.caller)


def pick(catalog: Catalog, name: str | None = None, path: str | None = None) -> Skill:
    """Return the skill at ``path``, or without a path the only skill named ``name``.

    Args:
        catalog: The skills to pick from.
        name: A name or a full name.
        path: The folder of a skill, or its ``SKILL.md``.

    Raises:
        NotFound: the catalogue has no such skill.
        UsageError: several skills have the name; the hint lists their paths.
    """
    if path is not None:
        skill = catalog.at(path)
        if skill is None:
            raise NotFound(f"the catalog has no skill at {quote(path)}", hint=catalog.hint)
        return skill
    name = name or ""
    matches = called(catalog, name) or usable(catalog.named(name))
    if len(matches) > 1:
        paths = ", ".join(clean(skill.path or "") for skill in matches)
        raise UsageError(f"{len(matches)} skills have the name {quote(name)}", hint=f"name one by its path: {paths}")
    if not matches and name in catalog.taken:
        message = f"the skill {quote(name)} is locked, but in no folder that this agent reads"
        message = "; ".join([message, *(f"{clean(each.path)}: {each.message}" for each in catalog.unchecked)])
        raise NotFound(message, hint=catalog.hint)
    if not matches:
        similar = [clean(skill.full_name) for skill in Suggestions(catalog.skills).like(name).skills[:_SHOWN]]
        problem = catalog.problem_of(name)
        message = f"; {clean(problem.path)}: {problem.message}" if problem else ""
        raise NotFound(f"there is no skill {quote(name)}{message}", hint=did_you_mean(similar) or catalog.hint)
    return matches[0]


def load(skill: Skill, request: Request | None = None, agreed: Agreed | None = None) -> Loaded:
    """Read a skill now, check it against its lock, and return it with its instructions filled in.

    The lock of the skill and this machine's record are read again, and the returned bytes themselves are hashed.
    Nothing is run except commands that ``request.commands`` permits.

    Args:
        skill: A skill of a catalogue, or one that the host found itself.
        request: How to load it; None for a user, without arguments.
        agreed: The tree that its folder must hold; it must agree with the lock.

    Raises:
        KnownBad: an advisory or a digest that this machine knows names the skill.
        Withdrawn: its registry has withdrawn it, as far as this machine knows.
        Refused: it is disabled, was not agreed to on this machine, is not for this caller, or the user refused.
        Drifted: its files differ from the agreed ones.
        NotFound: its folder has no ``SKILL.md``.
        FormatError: its ``SKILL.md`` does not satisfy the rules, or a lock or a record is malformed.
        OutsideSkill: its ``SKILL.md`` is a link.
        StateError: a file, a lock or a record cannot be read.
    """
    request = request or Request()
    if not request.ignore_locks:
        skill, locked = _as_locked_now(skill)
        agreed = agreed or locked
        if agreed is not None and locked is not None and agreed.tree != locked.tree:
            raise Drifted(f"expected the locked tree {locked.tree}, found {agreed.tree[:80]}", where=skill.path)
    elif skill.tree and not skill.managed:
        agreed = agreed or Agreed(skill.tree)
    if agreed is None or skill.held is None or skill.held.status != "drifted":
        _refuse(skill, request)
    # An agreed tree is checked as a whole; in a skill under development, tools keep folders that are no part of it.
    parent, name = os.path.split(skill.file)
    try:
        folder = Folder(parent, () if agreed else NOT_THE_SKILLS, name if skill.is_command else "")
        if agreed is not None:
            folder.hold_to(agreed)
    except (Drifted, StateError) as error:
        if skill.managed:
            verify, sync = (command(skill.scope, each) for each in ("verify", "sync"))
            error.hint = f"{verify} shows what differs, {sync} restores the locked files"
        raise
    if agreed is not None:
        _refuse(skill, request)
    _ask_user(skill, request, agreed)
    data = folder.read(name, manifest.SKILL_MD_MAX)
    skill_rules = skill.rules if isinstance(skill.rules, Rules) else Rules()
    head = manifest.read_head(data, os.path.basename(skill.path or ""), request.rules or skill_rules)
    version = agreed.tree if agreed else f"sha256:{sha256(data).hexdigest()}"
    body = fill_placeholders(head.body, _placeholder_values(folder, version, request))
    key = os.path.join(folder.path, name) if skill.is_command else folder.path
    tools = head.allowed_tools if "allowed-tools" in head.front else None
    return Loaded(
        skill=skill,
        folder=folder,
        front=data.decode("utf-8", "replace").removesuffix(head.body),
        body=body,
        arguments=request.arguments,
        version=version,
        files=tuple(path for path in folder.names if path != name),
        tools=tools,
        fork=Fork(head.fork.get("agent", ""), head.fork.get("model", ""), body) if head.fork else None,
        hooks=hooks_of(head.hooks),
        is_repeat=request.session is not None and request.session.has(key, version, body),
        notes=_notes(skill, tools, folder),
    )


def preload(agent: bytes, catalog: Catalog, request: Request | None = None) -> tuple[Loaded, ...]:
    """Load the skills that the frontmatter of a sub-agent names as ``skills``, and return them.

    Args:
        agent: The bytes of the file that describes the sub-agent, such as ``.claude/agents/reviewer.md``.
        catalog: The skills of the host.
        request: How to load them; the caller is always the model, and there are no arguments.

    Raises:
        FormatError: the frontmatter is malformed, or its ``skills`` are not names.
        NotFound, UsageError: a name means no skill, or several.
        KnownBad, Withdrawn, Refused, Drifted, OutsideSkill, StateError: as ``load``.
    """
    where = "the sub-agent's file"
    front = yaml.parse(manifest.split(agent, where).yaml, where, line_offset=1)
    declared = front.get("skills", "") if isinstance(front, dict) else ""
    words = re.split(r"[,\s]+", declared) if isinstance(declared, str) else declared
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise FormatError(f"expected names of skills, found {quote(declared)}", where=where)
    model_request = replace(request or Request(), caller="model", arguments="")
    names = dict.fromkeys(word for word in map(str, words) if word)
    return tuple(load(pick(catalog, name), model_request) for name in names)


def _as_locked_now(skill: Skill) -> tuple[Skill, Agreed | None]:
    """Return the skill as its lock and this machine's record have it now, and the tree that its folder must hold.

    Raises:
        FormatError, StateError: a lock or a record cannot be read, so that the agreement is unknown.
    """
    locks = skill.locks if isinstance(skill.locks, Locks) else Locks.near(skill)
    # A host may spell the path of a skill that it found itself in any way.
    path = os.path.realpath(skill.path or "")
    links = dict.fromkeys(map(os.path.abspath, (*skill.links, skill.path or "")))
    placed = replace(skill, path=path, links=tuple(links))
    known_locks = locks.read(map(os.path.dirname, (*links, path)), placed)
    if known_locks.errors:
        raise known_locks.errors[0]
    owner = known_locks.at(placed)
    if owner is None:
        hold_reason = STORED if known_locks.is_stored(path) and not skill.managed else None
        imitated = known_locks.named(skill)
        if imitated is not None:
            hold_reason = imitation_reason(imitated)
        return (holding(skill, hold_reason) if hold_reason else skill), Agreed(skill.tree) if skill.tree else None
    if owner.how == "inside":
        return holding(skill, inside_reason(owner.skill)), None
    if owner.skill.held is not None:  # it is at its place, in the lock or gone from it
        return holding(skill, owner.skill.held), None
    tree = owner.skill.tree or skill.tree
    present = replace(skill, managed=False) if owner.how == "gone" else skill
    return present, locks.agreed(tree) if tree else None


def held_error(skill: Skill) -> type[SkillhubError]:
    """Return the class of the error with which a skill is refused."""
    by_status = {"known-bad": errors.KnownBad, "withdrawn": errors.Withdrawn}
    return by_status.get(skill.held.status, Refused) if skill.held is not None else Refused


def _refuse(skill: Skill, request: Request) -> None:
    if refused := refusal(skill, request.caller):
        raise held_error(skill)(f"the skill {quote(skill.full_name)} {refused[0]}", hint=refused[1] or None)


def _ask_user(skill: Skill, request: Request, agreed: Agreed | None) -> None:
    """Ask about the files that the skill has now, if the rules say ``ask`` and no stored answer is about these."""
    skill = replace(skill, tree=agreed.tree if agreed else None)
    state = skill.locks.state if isinstance(skill.locks, Locks) else None
    if skill.permission != "ask" and (skill.allowed is None or has_tree(skill, skill.allowed, state)):
        return
    if request.ask is None:
        message = f"the settings require asking the user before {quote(skill.full_name)} is loaded"
        raise Refused(message, hint="pass Request(ask=...), which asks, or store an answer with remember(...)")
    with suppress(SkillhubError):  # without a tree the user is asked, too, but no yes can be stored
        skill = replace(skill, tree=skill.tree or Listing(all_files(skill).hashed()).digest)
    if not request.ask(skill):
        raise Refused(f"the user refuses to load {quote(skill.full_name)}")


def _placeholder_values(folder: Folder, version: str, request: Request) -> PlaceholderValues:
    variables = {"SKILL_DIR": folder.path, "CLAUDE_SKILL_DIR": folder.path}
    if request.session is not None and request.session.name:
        variables["CLAUDE_SESSION_ID"] = request.session.name
    commands = request.commands

    def run(command: str) -> str | None:
        return commands.run(command, folder.path) if commands and commands.agreed(version, command) else None

    return PlaceholderValues(request.arguments, variables, run)


def _notes(skill: Skill, tools: tuple[str, ...] | None, folder: Folder) -> tuple[str, ...]:
    notes = [f"Using skill: {clean(skill.full_name)}"]
    if tools is not None:
        notes.append(f"Tools while this skill is in use: {', '.join(map(clean, tools)) or 'none'}")
    if folder.is_cut:
        notes.append("The skill has more files than are listed")
    if folder.non_files:
        notes.append(f"Ignored, neither file nor folder: {', '.join(map(quote, folder.non_files[:_SHOWN]))}")
    return tuple(notes)


def with_edits(skill: Skill, changed: Iterable[str], project: Project) -> Skill:
    """Return a locked skill with those of its ``changed`` copies whose files differ from the agreed tree."""
    return replace(skill, edited=tuple(link for link in changed if _is_edited(skill, link, project.home)))


def _is_edited(skill: Skill, link: str, home: Home) -> bool:
    try:
        if skill.tree is not None:
            Folder(link).check(Agreed(skill.tree, Store(home.data).listing(skill.tree), home.state))
    except Drifted:
        return True
    except StateError:  # the copy is absent, or no folder
        return os.path.lexists(link)
    return False

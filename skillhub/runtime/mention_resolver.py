"""Resolves each mention in a message to one skill, or to the reason for none, and completes mentions."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, Literal, get_args

from skillhub.errors import UsageError
from skillhub.formats.text import as_command, clean, quote, typed_flags
from skillhub.model.skill import Skill
from skillhub.runtime.catalog import Catalog
from skillhub.runtime.mention_parser import NOT_WITHIN, Suggested, Suggestions, Typed, code_spans, mentions

Outcome = Literal[
    "activated", "unknown", "suggested", "ambiguous", "disabled", "choose-one", "missing-path", "connector"
]
Caller = Literal["user", "model"]
# A suggestion compares the mention with every name; a message with more unknown names gets none for the others.
_SUGGESTED_MAX = 8
_NAME_MAX = 200  # longer than any full name
_SHOWN_MAX = 8
_CANDIDATES_MAX = 50
_CONNECTORS = ("app://", "mcp://")


@dataclass(frozen=True, slots=True)
class Selected:
    """A skill that the user picked from a list instead of typing its name; its path determines the skill."""

    name: str
    path: str


@dataclass(frozen=True, slots=True)
class Mention:
    """A mention in a message, and the skill that it means.

    Attributes:
        text: The mention as it was typed.
        outcome: ``activated`` if ``skill`` is to be loaded; any other outcome means that no skill is.
        message: One line for the user.
        skill: The skill that is activated, or would be if it were not ``disabled``.
        candidates: The names that the user could type instead, likeliest first; paths of skills with the same name.
        leads: The name of the skill if the mention means it beyond doubt; ``MentionRules.leads`` limits their number.
    """

    text: str
    outcome: Outcome
    message: str
    skill: Skill | None = None
    candidates: tuple[str, ...] = ()
    leads: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the mention as a row of ``mentions`` in ``skillhub resolve --json``."""
        return {
            "text": self.text,
            "outcome": self.outcome,
            "skill": self.skill.to_json() if self.skill else None,
            "candidates": list(self.candidates),
            "message": self.message,
        }


@dataclass(frozen=True, slots=True)
class Resolved:
    """The mentions of a message, and its task.

    Attributes:
        mentions: Each mention once, the selected skills first.
        task: The message without the ``activated`` mentions at its beginning; mentions within a sentence, and those
            without a skill, stay in it.
    """

    mentions: tuple[Mention, ...]
    task: str

    @property
    def skills(self) -> tuple[Skill, ...]:
        """The skills to load."""
        return tuple(mention.skill for mention in self.mentions if mention.outcome == "activated" and mention.skill)

    def to_json(self) -> dict[str, Any]:
        """Return the answer of ``skillhub resolve --json``."""
        return {"mentions": [mention.to_json() for mention in self.mentions], "task": self.task}


@dataclass(frozen=True, slots=True, kw_only=True)
class MentionRules:
    """The rules by which a host resolves mentions.

    Attributes:
        caller: Who wrote the message; a skill may be for users only, or for models only.
        leads: How many skills one message may load.
        connectors: Names that have another meaning for this host, such as its apps; they take precedence over skills.
        objection: Returns why a skill cannot be loaded, such as files that no one agreed to; None if it can.
        folder: The folder to which a relative path in a link refers; without it such a link matches no skill.

    Raises:
        UsageError: there is no such caller.
    """

    caller: Caller = "user"
    leads: int = 1
    connectors: Collection[str] = ()
    objection: Callable[[Skill], str | None] | None = None
    folder: str = ""

    def __post_init__(self) -> None:
        check_caller(self.caller)


def mentioned(
    text: str, catalog: Catalog, selected: Iterable[Selected] = (), rules: MentionRules | None = None
) -> Resolved:
    """Resolve the mentions in a message, in linear time in the length of ``text``.

    A mention means the skill at its path, or the skill of exactly its name. Otherwise it means no skill, and similar
    names are suggested.

    Args:
        text: The message of a user or a model; any text is valid.
        catalog: The skills of the host.
        selected: The skills that the user picked from a list; they take precedence over typed mentions.
        rules: The rules of the host; None for the defaults.
    """
    return _resolved(text, _Resolver(catalog, rules or MentionRules()), selected)


def _resolved(text: str, resolver: _Resolver, selected: Iterable[Selected] = ()) -> Resolved:
    picked = {typed.name: Typed(f"${typed.name}", typed.name, 0, 0, typed.path) for typed in selected}
    in_text = [typed for typed in mentions(text) if typed.path or typed.name not in picked]
    resolved: dict[str, Mention] = {}
    for typed in (*picked.values(), *in_text):
        if typed.text not in resolved and (mention := resolver.of(typed)):
            resolved[typed.text] = mention
    resolved = _with_one_leader(resolved, resolver.rules.leads)
    return Resolved(_one_per_skill(resolved.values()), _task(text, in_text, resolved))


def called(catalog: Catalog, name: str) -> Sequence[Skill]:
    """Return the skills of exactly this full name; ``SOURCE:NAME`` is valid for locked skills too.

    A disabled skill makes no name ambiguous: it is returned only if no enabled skill has the name.
    """
    skills = [skill for skill in catalog.named(name) if skill.full_name == name]
    if not skills and ":" in name:
        source, _, bare_name = name.partition(":")
        skills = [skill for skill in catalog.named(bare_name) if skill.source == source]
    return usable(skills)


def usable(skills: Sequence[Skill]) -> Sequence[Skill]:
    """Return the enabled skills, or all of them if none is enabled."""
    return [skill for skill in skills if skill.state == "enabled"] or skills


def check_caller(caller: str) -> None:
    """Raise a UsageError unless this is a caller: for another one, no rule about callers would hold."""
    if caller not in get_args(Caller):
        raise UsageError(f"expected one of {', '.join(get_args(Caller))}, found {quote(caller)}")


def may_invoke(skill: Skill, caller: Caller) -> bool:
    """Return whether a skill is enabled, and for this caller."""
    return skill.reach == "active" if caller == "model" else skill.state == "enabled" and skill.user_invocable


def refusal(skill: Skill, caller: Caller) -> tuple[str, str] | None:
    """Return why a caller may not load a skill, and a hint, which may be empty; None if the caller may."""
    if skill.held is not None:
        if not skill.held.command:
            return skill.held.reason, f"change the settings in {clean(skill.held.file)}" if skill.held.file else ""
        does = "enable it with" if skill.held.status == "disabled" else "to resolve it"
        return skill.held.reason, f"{does}: {skill.held.command}"
    if may_invoke(skill, caller):
        return None
    if skill.state == "enabled":
        return f"is for {'the model' if caller == 'user' else 'the user'} only to invoke", ""
    typed = as_command("skillhub", "enable", clean(skill.name), *typed_flags(skill.scope))
    return "is disabled", f"enable it with: {typed}"


def _with_one_leader(resolved: dict[str, Mention], limit: int) -> dict[str, Mention]:
    """Return the mentions; if they mean more than ``limit`` skills, each of these asks to choose one."""
    names = tuple(dict.fromkeys(mention.leads for mention in resolved.values() if mention.leads))
    if len(names) <= limit:
        return resolved
    shown = _joined([f"${name}" for name in names], " or ")
    message = f"Choose one skill to lead this turn: {shown}."
    return {
        text: Mention(text, "choose-one", message, None, names[:_CANDIDATES_MAX], mention.leads)
        if mention.leads
        else mention
        for text, mention in resolved.items()
    }


def _one_per_skill(resolved: Iterable[Mention]) -> tuple[Mention, ...]:
    """Return one mention for each skill, or for each text without a skill."""
    unique: dict[object, Mention] = {}
    for mention in resolved:
        identity = (mention.skill.path, mention.skill.full_name) if mention.skill else mention.leads or mention.text
        unique.setdefault(identity, mention)
    return tuple(unique.values())


def _task(text: str, in_text: Sequence[Typed], resolved: dict[str, Mention]) -> str:
    end = 0
    for typed in in_text:
        mention = resolved.get(typed.text)
        if text[end : typed.start].strip() or mention is None or mention.outcome != "activated":
            break
        end = typed.end
    return text[end:].strip()


class _Resolver:
    """Resolves mentions in one catalogue by the rules of one host."""

    def __init__(self, catalog: Catalog, rules: MentionRules) -> None:
        self.rules, self._catalog = rules, catalog
        self._connectors = {name.lower() for name in rules.connectors}
        self._suggestions_made = 0
        self._known: dict[Typed, Mention | None] = {}

    def of(self, typed: Typed) -> Mention | None:
        """Resolve a mention, once each; return None if the text is a variable or a number instead."""
        key = typed._replace(start=0, end=0)
        if key not in self._known:
            self._known[key] = self._of(typed)
        return self._known[key]

    def _of(self, typed: Typed) -> Mention | None:
        if typed.path is not None:
            return self._of_link(typed, typed.path)
        exact = called(self._catalog, typed.name)
        if typed.doubtful and not exact:
            alike = self._spelled.get(typed.name.lower(), ()) if typed.name != typed.name.lower() else ()
            return self._of_suggestion(typed, Suggested(tuple(alike))) if alike else None
        if typed.name.lower() in self._connectors:
            return _connector_mention(typed, exact)
        if len(exact) > 1:
            return _ambiguous(typed, exact)
        return self._of_skill(typed.text, exact[0], typed.name) if exact else self._of_similar(typed)

    def _of_link(self, typed: Typed, path: str) -> Mention:
        """Resolve a link by its path alone; its text does not count."""
        if path.startswith(_CONNECTORS):
            return _connector_mention(typed, ())
        # `join` leaves an absolute path unchanged.
        skill = self._catalog.at(os.path.join(self.rules.folder, path.removeprefix("skill://").strip()))
        if skill is not None:
            return self._of_skill(typed.text, skill, skill.full_name)
        message = f"There is no skill at {quote(path)}, linked to as {quote(typed.name)}."
        return Mention(typed.text, "missing-path", message)

    def _of_skill(self, text: str, skill: Skill, name: str) -> Mention:
        if refused := refusal(skill, self.rules.caller):
            return Mention(text, "disabled", f"Skill {quote(name)} {'; '.join(filter(None, refused))}", skill)
        if self.rules.objection is not None and (why := self.rules.objection(skill)):
            return Mention(text, "disabled", f"Skill {quote(name)} cannot be loaded: {why}", skill)
        return Mention(text, "activated", f"Using skill: {clean(name)}", skill, leads=clean(name))

    @cached_property
    def _suggestions(self) -> Suggestions:
        return Suggestions(skill for skill in self._catalog.skills if may_invoke(skill, self.rules.caller))

    @cached_property
    def _spelled(self) -> Mapping[str, Sequence[Skill]]:
        """The skills by full name in lower case: `$Aleph` may be a variable, or mean `aleph`."""
        spelled: dict[str, dict[str, Skill]] = {}
        for skill in self._catalog.skills:
            if may_invoke(skill, self.rules.caller):
                spelled.setdefault(skill.full_name.lower(), {}).setdefault(skill.full_name, skill)
        return {name: tuple(skills.values()) for name, skills in spelled.items()}

    def _of_similar(self, typed: Typed) -> Mention:
        text, name = typed.text, typed.name
        if name in self._catalog.taken and not self._catalog.named(name):
            return Mention(text, "unknown", f"Skill {quote(name)} is locked, but in no folder that this agent reads.")
        if problem := self._catalog.problem_of(name):
            message = f"Skill {quote(name)} cannot be read: {clean(problem.path)}: {problem.message}."
            return Mention(text, "unknown", message)
        self._suggestions_made += 1
        is_worth_it = self._suggestions_made <= _SUGGESTED_MAX and len(name) <= _NAME_MAX
        suggested = self._suggestions.like(name) if is_worth_it else Suggested()
        if suggested.skills:
            return self._of_suggestion(typed, suggested)
        command, message = self._catalog.command, f"No skill named {quote(name)}."
        return Mention(text, "unknown", f"{message} Run {command} for a list." if command else message)

    def _of_suggestion(self, typed: Typed, suggested: Suggested) -> Mention:
        text, name = typed.text, typed.name
        names = tuple(clean(skill.full_name) for skill in suggested.skills)
        if len(names) == 1:
            message = f"No exact skill {quote(name)}, did you mean ${names[0]}?"
            return Mention(text, "suggested", message, None, names, names[0] if suggested.is_short_form else "")
        use = next((candidate for candidate in names if ":" in candidate), names[0])
        message = f"${clean(name)} matched {len(names)} skills: {_joined(names)}, use ${use}"
        return Mention(text, "ambiguous", message, None, names[:_CANDIDATES_MAX])


def _joined(names: Sequence[str], between: str = ", ") -> str:
    return between.join(names if len(names) <= _SHOWN_MAX else [*names[:_SHOWN_MAX], "…"])


def _ambiguous(typed: Typed, skills: Sequence[Skill]) -> Mention:
    """Return the mention of a name that several skills have; only their paths differ."""
    paths = tuple(clean(skill.path or "") for skill in skills)
    use = f"[${typed.name}]({paths[0]})"
    message = f"${typed.name} matched {len(paths)} skills: {_joined(paths)}, use {use}"
    return Mention(typed.text, "ambiguous", message, None, paths)


def _connector_mention(typed: Typed, skills: Sequence[Skill]) -> Mention:
    paths = tuple(clean(skill.path or "") for skill in skills)
    advice = f"; for the skill use [${typed.name}]({paths[0]})" if paths else ""
    return Mention(typed.text, "connector", f"{quote(typed.name)} is a connector of this agent{advice}", None, paths)


# Completes a mention that is being typed.

_SHOWN = 20
# The text between a `$` and the cursor, at most longer than any full name; and the rest of the name behind it.
_BEFORE = re.compile(NOT_WITHIN + r"\$[A-Za-z0-9_:-]{0,200}\Z")
_SLASH = re.compile(r"\s*(?P<sign>/(?:skill[ \t]+)?)[A-Za-z0-9_:-]{0,200}\Z")
_AFTER = re.compile(r"[A-Za-z0-9_:-]*")


@dataclass(frozen=True, slots=True)
class Completion:
    """Replacements for ``text[start:end]``, likeliest first.

    Attributes:
        start: The first character to replace.
        end: The end of the part to replace, not included.
        names: The replacements, each with its sign, such as ``$github:gh-fix-ci``; if several skills have the name, a
            link to each, such as ``[$gh-fix-ci](/path)``.
        skills: The skill of each replacement.
    """

    start: int
    end: int
    names: tuple[str, ...]
    skills: tuple[Skill, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the completion for a host's menu."""
        items = [
            {"name": name, "description": skill.description, "argument_hint": skill.argument_hint}
            for name, skill in zip(self.names, self.skills, strict=True)
        ]
        return {"start": self.start, "end": self.end, "items": items}


def complete(text: str, cursor: int, catalog: Catalog, rules: MentionRules | None = None) -> Completion | None:
    """Complete the mention before the cursor; return None if there is none, for example within code.

    Args:
        text: The message so far.
        cursor: The number of characters before the cursor; at most the length of the text counts.
        catalog: The skills of the host; only those that ``mentioned`` would activate are offered.
        rules: The rules of the host; None for the defaults.
    """
    cursor = min(max(cursor, 0), len(text))
    before = text[max(0, cursor - 201) : cursor]
    match = _BEFORE.search(before) or (_SLASH.match(before) if cursor < 200 else None)
    if match is None:
        return None
    typed = match.group().lstrip()
    start = cursor - len(typed)
    if typed[0] == "$" and any(span.start <= start < span.end for span in code_spans(text)):
        return None
    after = _AFTER.match(text, cursor)
    rules = rules or MentionRules()
    suggestions = Suggestions(skill for skill in catalog.skills if may_invoke(skill, rules.caller))
    sign = "$" if typed[0] == "$" else match["sign"]
    part = typed.removeprefix(sign)
    skills = {skill.full_name: skill for skill in (*suggestions.beginning(part), *suggestions.containing(part))}
    resolver = _Resolver(catalog, rules)  # one for all names: it prepares suggestions at most once
    offers = (offer for skill in skills.values() for offer in _completions(skill, sign, catalog, resolver))
    first_offers = tuple(islice(offers, _SHOWN))
    end = after.end() if after else cursor
    return Completion(start, end, tuple(name for name, _ in first_offers), tuple(skill for _, skill in first_offers))


def _completions(skill: Skill, sign: str, catalog: Catalog, resolver: _Resolver) -> Iterator[tuple[str, Skill]]:
    """Yield each mention that means a skill of this name, with that skill."""
    twins = called(catalog, skill.full_name)
    is_linked = len(twins) > 1 and sign == "$"
    for twin in twins if is_linked else (skill,):
        name = f"[${twin.full_name}]({twin.path})" if is_linked else sign + twin.full_name
        if any(meant is twin for meant in _resolved(name, resolver).skills):
            yield name, twin

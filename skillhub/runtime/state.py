"""How far each skill reaches: switched off, user only, or model too; in ours and in each host's file."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import Any, Final, Literal, NamedTuple

from skillhub.disk.files import inside, read
from skillhub.disk.home import Home
from skillhub.errors import FormatError, SkillhubError, StateError
from skillhub.formats import json as jsonc
from skillhub.formats.json import strict_json
from skillhub.formats.text import as_command, clean, is_path, typed_flags
from skillhub.formats.toml import others_toml, spell_toml
from skillhub.model.hosts import Profile, Scope, expand
from skillhub.model.question import Held
from skillhub.model.record import Permission, Reach, Skill
from skillhub.runtime.catalog import Problem
from skillhub.runtime.discover import Surroundings, expanded, project_root
from skillhub.runtime.walk import write_own

# Says what an agent may load without asking: by rules on names, and by what the user answered before.

ACTIONS: Final[tuple[Permission, ...]] = ("deny", "allow", "ask")


@dataclass(frozen=True, slots=True)
class PermissionRule:
    """``pattern`` is a name, full or not; ``*`` in it stands for any text, ``?`` for one character."""

    pattern: str
    action: Permission


def permitted(
    skill: Skill,
    rules: Iterable[PermissionRule],
    answers: Mapping[str, bool] | None = None,
    otherwise: Permission = "allow",
    last_wins: bool = False,
) -> Permission:
    """Return what the rules say of a skill.

    Args:
        skill: A rule matches it by its name or its full name.
        rules: In the order in which they are written.
        answers: By full name, what the user answered when asked and wants to be remembered; a deny of the
            rules stays one.
        otherwise: What holds if no rule matches.
        last_wins: Whether the last rule that matches counts, as for OpenCode; else a deny counts more than an
            allow, and an allow more than an ask, in any order, as for Codelia.
    """
    said = [rule.action for rule in rules if _matches(rule.pattern, skill.name, skill.full_name)]
    if last_wins:
        action = said[-1] if said else otherwise
    else:
        action = next((action for action in ACTIONS if action in said), otherwise)
    if action == "ask" and answers and skill.full_name in answers:
        return "allow" if answers[skill.full_name] else "deny"
    return action


def _matches(pattern: str, *names: str) -> bool:
    plain = pattern.replace("[", "[[]")  # which begins a set of characters in a shell's patterns, and not in these
    return any(fnmatchcase(name, plain) for name in names)


# Parses and edits the files in which agents keep which skills are switched off.
# Text in, text out; every byte that is not about the skill stays as it is. A word that nobody knows is a no.

CAP: Final = 1 << 20
_GEN: Final[Mapping[str, Reach]] = {"enable": "enabled", "enabled": "enabled", "active": "active"}
_GEN_WORDS: Final[Mapping[Reach, str]] = {"disabled": "disable", "enabled": "enable", "active": "active"}
_CLAUDE: Final[Mapping[str, Reach]] = {"on": "active", "name-only": "active", "user-invocable-only": "enabled"}
_TABLE = re.compile(r"^[ \t]*\[\[[ \t]*skills[ \t]*\.[ \t]*config[ \t]*\]\][^\n]*\n?", re.MULTILINE)
_ANY_TABLE = re.compile(r"^[ \t]*\[", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Layer:
    """What one file says.

    Attributes:
        names: How far skills reach, by full name.
        paths: The same, by path.
        name_only: Names of skills that are listed for the model without their descriptions.
        rules: Of permission; the last that matches counts.
        hidden: Patterns of names that the model may not have, whatever another file says; the user may.
        extra: Further folders of skills.
        urls: Where further skills can be pulled from.
        answers: By full name, what the user answered when asked.
        file: The file.
        error: Why it cannot be read.
    """

    names: Mapping[str, Reach] = field(default_factory=dict)
    paths: Mapping[str, Reach] = field(default_factory=dict)
    name_only: frozenset[str] = frozenset()
    rules: tuple[PermissionRule, ...] = ()
    hidden: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    answers: Mapping[str, bool] = field(default_factory=dict)
    file: ReachFile | None = None
    error: str = ""

    def reach(self, skill: Skill) -> Reach | None:
        """Return how far a skill reaches; None if the file does not say."""
        if self.paths and skill.path:
            for path in (skill.file, skill.path):
                if path in self.paths:
                    return self.paths[path]
        return self.names.get(self.key(skill))

    def key(self, skill: Skill) -> str:
        """Return the name by which the file speaks of a skill, if it does."""
        if self.file is None or self.file.form != "claude":
            return skill.full_name
        # Claude Code's speaks of no plugin's skills, and of others by the name of their folder too.
        names = () if skill.scope == "plugin" else (skill.full_name, os.path.basename(skill.path or ""))
        return next((name for name in names if name in self.names), "")

    def permission(self, skill: Skill, answers: Mapping[str, bool]) -> Permission | None:
        """Return what the rules say of a skill; None if none of them is about it."""
        about = [rule for rule in self.rules if _matches(rule.pattern, skill.name, skill.full_name)]
        return permitted(skill, about, answers, last_wins=True) if about else None


# What nobody can read is taken to switch everything off: somebody may have written it to do so.
_NONE = Layer(rules=(PermissionRule("*", "deny"),))


class Form(NamedTuple):
    """How such a file is read, and how it is changed for one skill, if it can say so; both raise a FormatError.

    ``unread`` is what a file says that cannot be read: no more than it could say.
    """

    parse: Callable[[str, str], Layer]
    edit: Callable[[str, Skill, Reach, str], str] | None
    unread: Layer = _NONE


def _gen_parse(text: str, where: str) -> Layer:
    skills = _gen(text, where)["skills"]
    return Layer(names={name: _GEN.get(str(word), "disabled") for name, word in skills.items()})


def _gen_edit(text: str, skill: Skill, reach: Reach, where: str) -> str:
    block = _gen(text, where)
    block["skills"][skill.full_name] = _GEN_WORDS[reach]
    return json.dumps(block, indent=2, ensure_ascii=False) + "\n"


def gen_answers(text: str, where: str) -> dict[str, bool]:
    """Return the answers in a file of skillhub's own state."""
    given = _gen(text, where).get("answers")
    found = given.items() if isinstance(given, dict) else ()
    return {name: said for name, said in found if isinstance(said, bool)}


def gen_remember(text: str, name: str, allowed: bool, where: str) -> str:
    """Return the text with one answer more, or another."""
    block = _gen(text, where) | {"answers": gen_answers(text, where) | {name: allowed}}
    return json.dumps(block, indent=2, ensure_ascii=False) + "\n"


def _gen(text: str, where: str) -> dict[str, Any]:
    block = strict_json(text.encode("utf-8", "surrogatepass"), where, CAP) if text.strip() else {}
    if not isinstance(block, dict):
        raise FormatError("expected an object", where=where)
    skills = block.get("skills") or {}
    if not isinstance(skills, dict):
        raise FormatError("expected skills and their states", where=f"{where}: skills")
    return {**block, "skills": skills}


def _codex_parse(text: str, where: str) -> Layer:
    names: dict[str, Reach] = {}
    paths: dict[str, Reach] = {}
    for entry in _codex_entries(text, where):
        reach: Reach = "active" if entry.get("enabled", True) is True else "disabled"
        name, path = entry.get("name"), entry.get("path")
        # With both, or neither, Codex passes the entry over.
        if isinstance(path, str) and name is None and is_path(path):
            paths[os.path.realpath(path)] = reach
        elif isinstance(name, str) and path is None and name.strip():
            names[name.strip()] = reach
    return Layer(names, paths)


def _codex_edit(text: str, skill: Skill, reach: Reach, where: str) -> str:
    entries = _codex_entries(text, where)
    kept = [entry for entry in entries if not _is_about(entry, skill)]
    heads = list(_TABLE.finditer(text))
    if len(heads) != len(entries):
        raise FormatError("expected each skill in a [[skills.config]] of its own", where=where)
    for head, entry in reversed(list(zip(heads, entries, strict=True))):
        if _is_about(entry, skill):
            following = _ANY_TABLE.search(text, head.end())
            block = text[head.end() : following.start() if following else None].splitlines(keepends=True)
            while block and block[-1].lstrip()[:1] in ("", "#"):
                block.pop()  # comments and blank lines at its end are about what comes next
            text = text[: head.start()] + text[head.end() + sum(map(len, block)) :]
    if reach == "disabled":
        path = skill.file
        gap = "" if not text or text.endswith("\n\n") else "\n" if text.endswith("\n") else "\n\n"
        text += f"{gap}[[skills.config]]\npath = {spell_toml(path)}\nenabled = false\n"
        kept = [*kept, {"path": path, "enabled": False}]
    if _codex_entries(text, where) != kept:
        raise FormatError("expected a file that can be edited by lines", where=where)
    return text


def _codex_entries(text: str, where: str) -> list[dict[str, Any]]:
    skills = others_toml(text, where).get("skills", {})
    entries = skills.get("config", []) if isinstance(skills, dict) else None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise FormatError("expected a list of tables", where=f"{where}: skills.config")
    return entries


def _is_about(entry: Mapping[str, Any], skill: Skill) -> bool:
    if entry.get("name") == skill.full_name:
        return True
    path = entry.get("path")
    places = (skill.path, skill.file)
    return isinstance(path, str) and is_path(path) and os.path.realpath(path) in places


def _opencode_parse(text: str, where: str) -> Layer:
    root = jsonc.parse(text, where)
    block = root.data if root else {}
    if not isinstance(block, dict):
        raise FormatError("expected an object", where=where)
    skills = block.get("skills")
    extra, urls = (_texts(skills.get(key)) if isinstance(skills, dict) else () for key in ("paths", "urls"))
    return Layer(rules=tuple(_opencode_rules(block)), extra=tuple(filter(is_path, extra)), urls=urls)


def _texts(node: object) -> tuple[str, ...]:
    return tuple(each for each in node if isinstance(each, str)) if isinstance(node, list) else ()


def _opencode_rules(block: Mapping[str, Any]) -> list[PermissionRule]:
    permission = block.get("permission", {})
    # One action for all tools, or for each kind of them; for all skills, or by patterns.
    by_kind = permission if isinstance(permission, dict) else {"*": permission}
    found = []
    for kind, given in by_kind.items():
        if _matches(kind, "skill"):
            by_pattern = given if isinstance(given, dict) else {"*": given}
            for pattern, action in by_pattern.items():
                found.append(PermissionRule(pattern, action if action in ACTIONS else "deny"))
    return found


def _opencode_edit(text: str, skill: Skill, reach: Reach, where: str) -> str:
    place = ("permission", "skill", skill.full_name)
    own = {rule.action for rule in _opencode_parse(text, where).rules if rule.pattern == skill.full_name}
    if own and (reach == "disabled" or own == {"deny"}):
        text = jsonc.remove(text, place, where)
    return jsonc.insert(text, place, "deny", where) if reach == "disabled" else text


def _claude_parse(text: str, where: str) -> Layer:
    block = strict_json(text.encode("utf-8", "surrogatepass"), where, CAP) if text.strip() else {}
    if not isinstance(block, dict) or not isinstance(given := block.get("permissions", {}), dict):
        raise FormatError("expected an object, and one of permissions", where=where)
    asked = (PermissionRule(pattern, "ask") for pattern in _claude_patterns(given, "ask", where))
    said = block.get("skillOverrides", {})
    if not isinstance(said, dict):
        raise FormatError("expected an object of skills and words", where=f"{where}: skillOverrides")
    return Layer(
        names={name: _CLAUDE.get(str(word), "disabled") for name, word in said.items()},
        name_only=frozenset(name for name, word in said.items() if word == "name-only"),
        rules=tuple(asked),
        hidden=tuple(_claude_patterns(given, "deny", where)),
    )


def _claude_patterns(permissions: Mapping[str, Any], key: str, where: str) -> Iterator[str]:
    """Yield the patterns of names in rules about the tool: ``Skill``, ``Skill(name)``, ``Skill(name *)``."""
    rules = permissions.get(key, [])
    if not isinstance(rules, list) or not all(isinstance(rule, str) for rule in rules):
        raise FormatError("expected a list of rules", where=f"{where}: permissions.{key}")
    for rule in rules:
        tool, _, inner = rule.strip().partition("(")
        if _matches(tool.strip(), "Skill"):
            name = inner.removesuffix(")").strip() or "*"
            yield name
            # The rest of such a rule is about the arguments; older ones have a colon before it.
            yield from (name[: -len(end)] for end in (" *", ":*") if name.endswith(end) and name != end)


FORMS: Final[Mapping[str, Form]] = {
    "gen": Form(_gen_parse, _gen_edit),
    "codex": Form(_codex_parse, _codex_edit),
    "opencode": Form(_opencode_parse, _opencode_edit),
    "claude": Form(_claude_parse, None, Layer(hidden=("*",))),
}


# Reads and writes how far each skill reaches: switched off, for the user alone, or for the model too.
# Kept by skillhub for a project and for the user, and read from and written to the agent's own files where its
# profile names some. The project's files decide before the user's, the agent's own before skillhub's.


@dataclass(frozen=True, slots=True)
class ReachFile:
    """A file that says how far skills reach; ``ours`` is skillhub's own."""

    path: str
    form: Literal["gen", "codex", "opencode", "claude"]
    scope: Scope
    host: str
    ours: bool = False


def reach_files(profile: Profile, around: Surroundings) -> tuple[ReachFile, ...]:
    """Return the files that count here, those that decide first; they need not be there."""
    root = project_root(profile, around)
    managed: list[ReachFile] = []
    found: dict[Scope, list[ReachFile]] = {"project": [], "user": []}
    for file in profile.states:
        if file.path.startswith("/"):
            managed += [ReachFile(path, file.form, "user", profile.id) for path in expanded(file.path)]
        elif file.path.startswith("~/"):
            # Users may keep their own files elsewhere, behind a link; a repository's link is not followed.
            path = os.path.realpath(expand(file.path, around.home, around.environ, file.env))
            found["user"].append(ReachFile(path, file.form, "user", profile.id))
        else:
            path = os.path.join(root, *file.path.split("/"))
            if FORMS[file.form].edit is None:
                path = os.path.realpath(path)  # all that it can say is a no
            found["project"].append(ReachFile(path, file.form, "project", profile.id))
    if (state := around.state or _state(around)) is not None:
        ours = os.path.join(state, "skills")
        # A repository can never bring its own: what is kept for a project lies with the user.
        key = sha256(root.encode("utf-8", "surrogateescape")).hexdigest()
        found["project"].append(ReachFile(os.path.join(ours, f"{key}.json"), "gen", "project", profile.id, ours=True))
        found["user"].append(ReachFile(os.path.join(ours, "user.json"), "gen", "user", profile.id, ours=True))
    return (*managed, *found["project"], *found["user"])


def _state(around: Surroundings) -> str | None:
    try:
        return Home.around(around.environ or os.environ, os.path.abspath(around.home)).state
    except SkillhubError:
        return None  # the locks, which lie there too, tell why, and hold every skill back


def layers(profile: Profile, around: Surroundings) -> tuple[tuple[Layer, ...], tuple[Problem, ...]]:
    """Return what these files say, and what is wrong with those that cannot be read."""
    known: list[Layer] = []
    problems: list[Problem] = []
    for file in reach_files(profile, around):
        try:
            text = _text(file)
            if text is not None:
                # A file that a repository may bring gives no answers.
                given = gen_answers(text, file.path) if file.ours else {}
                known.append(replace(FORMS[file.form].parse(text, file.path), answers=given, file=file))
        except (FormatError, StateError) as error:
            unread = FORMS[file.form].unread
            known.append(replace(unread, file=file, error=error.message))
            becomes = "the user's only" if unread.hidden else "disabled"
            problems.append(Problem(file.path, f"{error.message}; every skill is {becomes} until it can be read"))
    return tuple(known), tuple(problems)


def settled(skills: Iterable[Skill], known: Sequence[Layer]) -> Iterator[Skill]:
    """Yield each skill as far as it reaches here: no further than it says itself, nor than a layer lets it.

    | the skill says | nothing | ``disable-model-invocation`` | ``user-invocable: false`` |
    |---|---|---|---|
    | active | user, model | user | model |
    | enabled | user | user | nobody |
    | disabled | nobody | nobody | nobody |

    Of the rules in one file the last that matches counts. A deny of any file holds, and an ask of the user's
    against the project's; else the first file that says something of a skill decides. What any file hides from the
    model is the user's alone. What was answered is an answer to ``ask``, and no more.
    """
    hidden = {pattern for layer in known for pattern in layer.hidden}
    ruled = [layer for layer in known if layer.rules]
    answered = {name: given for layer in reversed(known) for name, given in layer.answers.items()}
    for skill in skills:
        by, reach = _first(skill, known)
        if hidden and reach == "active" and any(_matches(pattern, skill.name, skill.full_name) for pattern in hidden):
            reach = "enabled"
        permission, denies = _ruling(skill, ruled, answered)
        if denies is not None:
            by, reach = by if by.error else denies, "disabled"
        if reach == "disabled":
            yield replace(skill, state="disabled", held=skill.held or _switched_off(skill, by))
        elif reach == "enabled" or permission != "allow" or by.name_only:
            invocation = "user" if reach == "enabled" else skill.invocation
            name_only = by.key(skill) in by.name_only
            yield replace(skill, invocation=invocation, permission=permission, name_only=name_only)
        else:
            yield skill


def _ruling(skill: Skill, ruled: Sequence[Layer], answered: Mapping[str, bool]) -> tuple[Permission, Layer | None]:
    """Return what the rules of these files say of a skill together, and which file denies it.

    A repository may bring the project's: what its user wants to be asked, it does not allow.
    """
    permission: Permission = "allow"
    denies: Layer | None = None
    is_asked = False
    for layer in reversed(ruled):
        said = layer.permission(skill, answered)
        if said is None:
            continue
        if said == "deny" and not (denies and denies.error):
            denies = layer
        if layer.file is not None and layer.file.scope == "user":
            permission, is_asked = said, said == "ask"
        elif not is_asked:
            permission = said
    return permission, denies


def _first(skill: Skill, known: Iterable[Layer]) -> tuple[Layer, Reach]:
    """Return the first file that says how far a skill reaches; where none does, it is active."""
    return next(((layer, found) for layer in known if (found := layer.reach(skill))), (Layer(), "active"))


def _switched_off(skill: Skill, layer: Layer) -> Held | None:
    """Return which file disables a skill, and the command that enables it, if it is no rule about several."""
    file = layer.file
    if file is None:
        return None
    if layer.error:
        reason = f"is disabled, as every skill is, for the settings cannot be read: {layer.error}"
        return Held("disabled", reason, "", file.path)
    if FORMS[file.form].edit is None:
        return Held("disabled", "is disabled", "", file.path)
    if layer.reach(skill) or any(rule.pattern == skill.full_name for rule in layer.rules):
        typed = ("skillhub", "enable", clean(skill.full_name), "--host", file.host, *typed_flags(file.scope))
        return Held("disabled", "is disabled", as_command(*typed), file.path)
    return Held("disabled", "is disabled by a rule on several skills", "", file.path)


def set_reach(skill: Skill, reach: Reach, scope: Scope, profile: Profile, around: Surroundings) -> None:
    """Keep how far a skill reaches, in skillhub's state and in the agent's own file of that scope, if it has one.

    An agent's file that knows on and off alone is told of these; the rest is in skillhub's.

    Raises:
        FormatError: a file is malformed, or written so that it cannot be edited.
        LinkLeavesProject: a file of the project lies behind a link out of it.
        StateError: a file cannot be read or written, or another rule in it says the contrary.
    """
    root = project_root(profile, around)
    unwritten = [layer for layer in layers(profile, around)[0] if layer.file and FORMS[layer.file.form].edit is None]
    by, said = _first(skill, unwritten)
    if said == "disabled" != reach and by.file:
        raise StateError(f"{skill.full_name} stays disabled", where=by.file.path, hint="change it in this file")
    for file in _written(profile, around, scope):
        path = file.path
        if scope == "project" and not file.ours:
            path = inside(root, os.path.relpath(path, root).replace(os.sep, "/"))
        form = FORMS[file.form]
        if form.edit is None:
            continue
        before = _text(file)
        after = form.edit(before or "", skill, reach, file.path)
        now = next(settled([replace(skill, state="enabled")], [form.parse(after, file.path)]))
        if (now.state == "disabled") != (reach == "disabled"):
            hint = "a rule in this file is about several skills; change it there"
            raise StateError(f"{skill.full_name} stays {now.state}", where=file.path, hint=hint)
        if after != (before or ""):
            _write(path, after)


def answers(profile: Profile, around: Surroundings) -> dict[str, bool]:
    """Return what the user answered when asked for a skill and wants to be remembered, by full name.

    Raises:
        FormatError: a file of the state is malformed.
        StateError: it cannot be read.
    """
    found: dict[str, bool] = {}
    for file in reversed(reach_files(profile, around)):
        if file.ours:
            found |= gen_answers(_text(file) or "", file.path)
    return found


def remember(skill: Skill, allowed: bool, scope: Scope, profile: Profile, around: Surroundings) -> None:
    """Keep an answer, in skillhub's state alone; without a folder for that it is forgotten.

    Raises:
        FormatError: the file is malformed.
        StateError: it cannot be read or written.
    """
    for file in reach_files(profile, around):
        if file.scope == scope and file.ours:
            _write(file.path, gen_remember(_text(file) or "", skill.full_name, allowed, file.path))


def _written(profile: Profile, around: Surroundings, scope: Scope) -> Iterator[ReachFile]:
    """Yield one file of each form: of an agent's several the first that is there, else the first."""
    mine = [file for file in reach_files(profile, around) if file.scope == scope]
    own = [file for file in mine if not file.ours]
    if own:
        yield next((file for file in own if os.path.lexists(file.path)), own[0])
    yield from (file for file in mine if file not in own)


def _write(path: str, text: str) -> None:
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise FormatError("expected names and paths in UTF-8", where=path) from error
    write_own(path, data)


def _text(file: ReachFile) -> str | None:
    data = read(file.path, CAP)
    if data is None:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError("expected UTF-8 text", where=file.path) from error

"""The reach of each skill (off, for the user only, or for the model too), in skillhub's and in each host's files."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

from skillhub.disk.files import inside, lock, read
from skillhub.disk.home import Home
from skillhub.errors import FormatError, SkillhubError, StateError, UsageError
from skillhub.formats import json as jsonc
from skillhub.formats.digest import Digest
from skillhub.formats.json import strict_json
from skillhub.formats.text import as_command, clean, is_path, quote, typed_flags
from skillhub.formats.toml import others_toml, spell_toml, with_table, without_tables
from skillhub.model.hosts import Profile, Scope, expand, is_profile
from skillhub.model.hosts import profile as profile_of
from skillhub.model.question import HoldReason
from skillhub.model.skill import ACTIONS, Permission, PermissionRule, Problem, Reach, Skill, name_fits, permitted
from skillhub.runtime.discover import Surroundings, expanded, project_root
from skillhub.runtime.walk import write_own

# A stored answer of the user: the tree of the skill that they allowed, or no.
StoredAnswer: TypeAlias = Digest | Literal[False]

# Parses and edits the files in which agents disable skills.
# Text in, text out; every byte that is not about the skill stays. An unknown word disables.

CAP: Final = 1 << 20
_RULES_MAX: Final = 1000  # about skills, in one file; each is compared with each skill
_GEN: Final[Mapping[str, Reach]] = {"enable": "enabled", "enabled": "enabled", "active": "active"}
_GEN_WORDS: Final[Mapping[Reach, str]] = {"disabled": "disable", "enabled": "enable", "active": "active"}
_CLAUDE: Final[Mapping[str, Reach]] = {"on": "active", "name-only": "active", "user-invocable-only": "enabled"}


@dataclass(frozen=True, slots=True)
class Layer:
    """The contents of one settings file.

    Attributes:
        names: The reach of skills, by full name.
        paths: The reach of skills, by path.
        name_only: The names of skills that are listed for the model without their descriptions.
        rules: The rules on permission; the last matching one decides.
        hidden: Patterns of names that are hidden from the model, whatever other files have; the user may call them.
        extra: Further folders of skills.
        urls: URLs of further skills, for ``pull``.
        answers: The stored answers of the user, by full name.
        file: The file.
        error: Why the file cannot be read; empty if it can.
    """

    names: Mapping[str, Reach] = field(default_factory=dict)
    paths: Mapping[str, Reach] = field(default_factory=dict)
    name_only: frozenset[str] = frozenset()
    rules: tuple[PermissionRule, ...] = ()
    hidden: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    answers: Mapping[str, StoredAnswer] = field(default_factory=dict)
    file: ReachFile | None = None
    error: str = ""

    def reach(self, skill: Skill) -> Reach | None:
        """Return the reach of a skill; None if the file does not set it."""
        if self.paths and skill.path:
            for path in (skill.file, skill.path):
                if path in self.paths:
                    return self.paths[path]
        return self.names.get(self.key(skill))

    def key(self, skill: Skill) -> str:
        """Return the name of a skill in this file; empty if a file of Claude Code does not name it."""
        if self.file is None or self.file.form != "claude":
            return skill.full_name
        # Claude Code's file never names a plugin's skill; it names others by their folder too.
        names = () if skill.scope == "plugin" else (skill.full_name, os.path.basename(skill.path or ""))
        return next((name for name in names if name in self.names), "")

    def permission(self, skill: Skill, answers: Mapping[str, bool]) -> Permission | None:
        """Return the permission of a skill by the rules; None if no rule matches it."""
        matching = [rule for rule in self.rules if name_fits(rule.pattern, skill.name, skill.full_name)]
        return permitted(skill, matching, answers, last_wins=True) if matching else None


# An unreadable file disables every skill, since it may disable any.
_DENIES_ALL = Layer(rules=(PermissionRule("*", "deny"),))


class Form(NamedTuple):
    """The format of a settings file: its parser, and its editor for one skill, if there is one.

    Both raise a ``FormatError``. ``unread`` are the contents that an unreadable file counts as: the strictest that
    the format can express.
    """

    parse: Callable[[str, str], Layer]
    edit: Callable[[str, Skill, Reach, str], str] | None
    unread: Layer = _DENIES_ALL


def _gen_parse(text: str, where: str) -> Layer:
    skills = _gen(text, where)["skills"]
    return Layer(names={name: _GEN.get(str(word), "disabled") for name, word in skills.items()})


def _gen_edit(text: str, skill: Skill, reach: Reach, where: str) -> str:
    set_member = jsonc.replace if skill.full_name in _gen(text, where)["skills"] else jsonc.insert
    return set_member(text, ("skills", skill.full_name), _GEN_WORDS[reach], where)


def gen_answers(text: str, where: str) -> dict[str, StoredAnswer]:
    """Return the user's answers in a file of skillhub's own state; the ``true`` of older versions names no tree."""
    answers: dict[str, StoredAnswer] = {}
    for name, answer in _member(_gen(text, where), "answers").items():
        with suppress(FormatError):
            answers[name] = False if answer is False else Digest.parse(answer)
    return answers


def gen_remember(text: str, name: str, answer: StoredAnswer, where: str) -> str:
    """Return the text with the answer about ``name`` added or replaced."""
    block = _gen(text, where) | {"answers": gen_answers(text, where) | {name: answer}}
    return json.dumps(block, indent=2, ensure_ascii=False) + "\n"


def _with_replaced(text: str, name: str, rules: Mapping[str, str], where: str) -> str:
    """Return the text of skillhub's own state with the rules, by file, that the ``deny`` of a skill replaced."""
    block = _gen(text, where)
    replaced = {**_member(block, "replaced"), name: {file: rule for file, rule in rules.items() if rule}}
    block["replaced"] = {skill: rows for skill, rows in replaced.items() if rows}
    if not block["replaced"]:
        del block["replaced"]
    return json.dumps(block, indent=2, ensure_ascii=False) + "\n"


def _member(block: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {**value} if isinstance(value := block.get(key), dict) else {}


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
        # Codex ignores an entry with both, or with neither.
        if isinstance(path, str) and name is None and is_path(path):
            paths[os.path.realpath(path)] = reach
        elif isinstance(name, str) and path is None and name.strip():
            names[name.strip()] = reach
    return Layer(names, paths)


def _codex_edit(text: str, skill: Skill, reach: Reach, where: str) -> str:
    entries = _codex_entries(text, where)
    remaining = [entry for entry in entries if not _is_about(entry, skill)]
    text = without_tables(text, "skills.config", [_is_about(entry, skill) for entry in entries], where)
    if reach == "disabled":
        path = skill.file
        text = with_table(text, ["[[skills.config]]", f"path = {spell_toml(path)}", "enabled = false"])
        remaining = [*remaining, {"path": path, "enabled": False}]
    if _codex_entries(text, where) != remaining:
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
    return Layer(rules=tuple(_opencode_rules(block, where)), extra=tuple(filter(is_path, extra)), urls=urls)


def _texts(node: object) -> tuple[str, ...]:
    return tuple(item for item in node if isinstance(item, str)) if isinstance(node, list) else ()


def _opencode_rules(block: Mapping[str, Any], where: str) -> list[PermissionRule]:
    permission = block.get("permission", {})
    # One action for all tools, or for each kind of them; for all skills, or by patterns.
    by_kind = permission if isinstance(permission, dict) else {"*": permission}
    _check_few(by_kind, f"{where}: permission")
    rules = []
    for kind, rule in by_kind.items():
        if name_fits(kind, "skill"):
            by_pattern = rule if isinstance(rule, dict) else {"*": rule}
            for pattern, action in by_pattern.items():
                rules.append(PermissionRule(pattern, action if action in ACTIONS else "deny"))
    _check_few(rules, f"{where}: permission")
    return rules


def _check_few(rules: Sized, where: str) -> None:
    if len(rules) > _RULES_MAX:
        raise FormatError(f"expected at most {_RULES_MAX} rules, found {len(rules)}", where=where)


def _opencode_edit(text: str, skill: Skill, reach: Reach, where: str) -> str:
    place = ("permission", "skill", skill.full_name)
    if reach == "disabled" and _own_rule(text, skill, where):
        return jsonc.replace(text, place, "deny", where)
    actions = {rule.action for rule in _opencode_parse(text, where).rules if rule.pattern == skill.full_name}
    if actions and (reach == "disabled" or actions == {"deny"}):
        text = jsonc.remove(text, place, where)
    return jsonc.insert(text, place, "deny", where) if reach == "disabled" else text


def _own_rule(text: str, skill: Skill, where: str) -> Permission | None:
    """Return the action of the rule with a skill's full name; None if there is none, or another one decides."""
    layer = _opencode_parse(text, where)
    rules = [rule for rule in layer.rules if name_fits(rule.pattern, skill.name, skill.full_name)]
    return rules[-1].action if rules and rules[-1].pattern == skill.full_name else None


def _claude_parse(text: str, where: str) -> Layer:
    block = strict_json(text.encode("utf-8", "surrogatepass"), where, CAP) if text.strip() else {}
    if not isinstance(block, dict) or not isinstance(permissions := block.get("permissions", {}), dict):
        raise FormatError("expected an object, and one of permissions", where=where)
    ask_rules = (PermissionRule(pattern, "ask") for pattern in _claude_patterns(permissions, "ask", where))
    overrides = block.get("skillOverrides", {})
    if not isinstance(overrides, dict):
        raise FormatError("expected an object of skills and words", where=f"{where}: skillOverrides")
    return Layer(
        names={name: _CLAUDE.get(str(word), "disabled") for name, word in overrides.items()},
        name_only=frozenset(name for name, word in overrides.items() if word == "name-only"),
        rules=tuple(ask_rules),
        hidden=tuple(_claude_patterns(permissions, "deny", where)),
    )


def _claude_patterns(permissions: Mapping[str, Any], key: str, where: str) -> Iterator[str]:
    """Yield the patterns of names in rules about the tool: ``Skill``, ``Skill(name)``, ``Skill(name *)``."""
    rules = permissions.get(key, [])
    if not isinstance(rules, list) or not all(isinstance(rule, str) for rule in rules):
        raise FormatError("expected a list of rules", where=f"{where}: permissions.{key}")
    of_skills = [
        (tool.strip(), inner)
        for tool, _, inner in (rule.strip().partition("(") for rule in rules)
        if tool.strip() == "Skill" or "*" in tool or "?" in tool
    ]
    _check_few(of_skills, f"{where}: permissions.{key}")
    for tool, inner in of_skills:
        if name_fits(tool, "Skill"):
            name = inner.removesuffix(")").strip() or "*"
            yield name
            # The end of such a rule is a pattern for the arguments; older rules have a colon before it.
            yield from (name[: -len(end)] for end in (" *", ":*") if name.endswith(end) and name != end)


FORMS: Final[Mapping[str, Form]] = {
    "gen": Form(_gen_parse, _gen_edit),
    "codex": Form(_codex_parse, _codex_edit),
    "opencode": Form(_opencode_parse, _opencode_edit),
    "claude": Form(_claude_parse, None, Layer(hidden=("*",))),
}


# Reads and writes the reach of each skill: disabled, for the user only, or for the model too.
# Skillhub keeps it for a project and for the user, and reads and writes the agent's own files that its profile names.
# The project's files take precedence over the user's, the agent's own over skillhub's.


@dataclass(frozen=True, slots=True)
class ReachFile:
    """A file that sets the reach of skills; ``ours`` is true for skillhub's own."""

    path: str
    form: Literal["gen", "codex", "opencode", "claude"]
    scope: Scope
    host: str
    ours: bool = False


def reach_files(profile: Profile, around: Surroundings) -> tuple[ReachFile, ...]:
    """Return the files that apply, in order of precedence; they may be absent."""
    root = project_root(profile, around)
    managed: list[ReachFile] = []
    files: dict[Scope, list[ReachFile]] = {"project": [], "user": []}
    for file in profile.states:
        if file.path.startswith("/"):
            managed += [ReachFile(path, file.form, "user", profile.id) for path in expanded(file.path)]
        elif file.path.startswith("~/"):
            # Users may keep their own files elsewhere, behind a link; a repository's link is not followed.
            path = os.path.realpath(expand(file.path, around.home, around.environ, file.env))
            files["user"].append(ReachFile(path, file.form, "user", profile.id))
        else:
            path = os.path.join(root, *file.path.split("/"))
            if FORMS[file.form].edit is None:
                path = os.path.realpath(path)  # such a file can only restrict skills
            files["project"].append(ReachFile(path, file.form, "project", profile.id))
    state = state_folder(around)
    if state is not None:
        base = os.path.join(state, "skills")
        # The state of a project is in the user's folder, so that no repository can bring one.
        key = sha256(root.encode("utf-8", "surrogateescape")).hexdigest()
        files["project"].append(ReachFile(os.path.join(base, f"{key}.json"), "gen", "project", profile.id, ours=True))
        files["user"].append(ReachFile(os.path.join(base, "user.json"), "gen", "user", profile.id, ours=True))
    return (*managed, *files["project"], *files["user"])


def state_folder(around: Surroundings) -> str | None:
    """Return the folder of skillhub's state; None if it cannot be trusted."""
    try:
        return around.state or Home.around(around.variables, os.path.abspath(around.home)).state
    except SkillhubError:
        return None  # the locks, read from there too, report the error and hold every skill back


def layers(profile: Profile, around: Surroundings) -> tuple[tuple[Layer, ...], tuple[Problem, ...]]:
    """Return the contents of the files that apply, in order of precedence, and a problem for each unreadable one."""
    found_layers: list[Layer] = []
    problems: list[Problem] = []
    for file in reach_files(profile, around):
        try:
            text = _text(file)
            if text is not None:
                # Answers in a file that a repository may bring do not count.
                stored = gen_answers(text, file.path) if file.ours else {}
                found_layers.append(replace(FORMS[file.form].parse(text, file.path), answers=stored, file=file))
        except (FormatError, StateError) as error:
            unread = FORMS[file.form].unread
            found_layers.append(replace(unread, file=file, error=error.message))
            becomes = "the user's only" if unread.hidden else "disabled"
            problems.append(Problem(file.path, f"{error.message}; every skill is {becomes} until it can be read"))
    return tuple(found_layers), tuple(problems)


def with_reach(skills: Iterable[Skill], settings: Sequence[Layer]) -> Iterator[Skill]:
    """Yield each skill with its reach: the smaller of its own declaration and of the setting in these files.

    | setting; the skill declares | nothing | ``disable-model-invocation`` | ``user-invocable: false`` |
    |---|---|---|---|
    | active | user, model | user | model |
    | enabled | user | user | no one |
    | disabled | no one | no one | no one |

    The last matching rule of a file decides for that file. A ``deny`` of any file holds, and so does an ``ask`` of a
    user's file against the project's; otherwise the first file that mentions a skill decides. A skill that any file
    hides from the model is for the user only. A stored answer replaces ``ask``, and nothing else; a yes is in
    ``Skill.allowed``, for the caller to compare with the skill's files.
    """
    hidden = {pattern for layer in settings for pattern in layer.hidden}
    with_rules = [layer for layer in settings if layer.rules]
    answers = {name: answer for layer in reversed(settings) for name, answer in layer.answers.items()}
    is_allowed = {name: answer is not False for name, answer in answers.items()}
    for skill in skills:
        deciding, reach = _first_setting(skill, settings)
        if hidden and reach == "active" and any(name_fits(each, skill.name, skill.full_name) for each in hidden):
            reach = "enabled"
        permission, denying = _ruling(skill, with_rules, is_allowed)
        allowed = answers.get(skill.full_name) or None
        if allowed and _ruling(skill, with_rules, {})[0] != "ask":
            allowed = None
        if denying is not None:
            reach = "disabled"
            deciding = deciding if deciding.error else denying
        if reach == "disabled":
            yield replace(skill, state="disabled", held=skill.held or _switched_off(skill, deciding))
        elif reach == "enabled" or permission != "allow" or deciding.name_only or allowed:
            invocation = "user" if reach == "enabled" else skill.invocation
            name_only = deciding.key(skill) in deciding.name_only
            yield replace(skill, invocation=invocation, permission=permission, name_only=name_only, allowed=allowed)
        else:
            yield skill


def _ruling(skill: Skill, layers: Sequence[Layer], answered: Mapping[str, bool]) -> tuple[Permission, Layer | None]:
    """Return the permission of a skill by the rules of all these files, and the file that denies it, if one does.

    A repository may bring the project's file, so its ``allow`` does not replace an ``ask`` of the user's.
    """
    permission: Permission = "allow"
    denying: Layer | None = None
    is_asked = False
    for layer in reversed(layers):
        layer_permission = layer.permission(skill, answered)
        if layer_permission is None:
            continue
        if layer_permission == "deny" and not (denying and denying.error):
            denying = layer
        if layer.file is not None and layer.file.scope == "user":
            permission, is_asked = layer_permission, layer_permission == "ask"
        elif not is_asked:
            permission = layer_permission
    return permission, denying


def _first_setting(skill: Skill, settings: Iterable[Layer]) -> tuple[Layer, Reach]:
    """Return the first file that sets the reach of a skill, and that reach; ``active`` if no file does.

    Codex has no file in a project: what Codex's own file disables stays disabled, whatever the project's file says.
    """
    pairs = [(layer, reach) for layer in settings if (reach := layer.reach(skill))]
    for layer, reach in pairs:
        if reach == "disabled" and layer.file and layer.file.form == "codex":
            return layer, reach
    return pairs[0] if pairs else (Layer(), "active")


def _switched_off(skill: Skill, layer: Layer) -> HoldReason | None:
    """Return the file that disables a skill, and the command that enables it, unless a rule disables several."""
    file = layer.file
    if file is None:
        return None
    if layer.error:
        reason = f"is disabled, like every skill, because the settings cannot be read: {layer.error}"
        return HoldReason("disabled", reason, "", file.path)
    if FORMS[file.form].edit is None or not is_profile(file.host):  # no command knows an agent of another program
        return HoldReason("disabled", "is disabled", "", file.path)
    if layer.reach(skill) or any(rule.pattern == skill.full_name for rule in layer.rules):
        command = ("skillhub", "enable", clean(skill.full_name), "--host", file.host, *typed_flags(file.scope))
        return HoldReason("disabled", "is disabled", as_command(*command), file.path)
    return HoldReason("disabled", "is disabled by a rule on several skills", "", file.path)


def set_reach(skill: Skill, reach: Reach, scope: Scope, profile: Profile | str, around: Surroundings) -> list[str]:
    """Write a skill's reach to skillhub's state and the agent's own file of that scope, if any; return their paths.

    If the format of an agent's file has only on and off, the finer distinction is in skillhub's state alone.

    Args:
        skill: The skill.
        reach: ``disabled``, ``enabled`` (for the user only) or ``active`` (for the model too).
        scope: Whether to write the project's files or the user's.
        profile: The agent, or its id.
        around: Where the agent runs.

    Raises:
        FormatError: a file is malformed, or has a form that cannot be edited.
        LinkLeavesProject: a link leads from a file of the project out of it.
        StateError: a file cannot be read or written, or another rule in it overrides this reach.
        UsageError: there is no such reach, scope or agent.
    """
    if reach not in get_args(Reach):
        raise UsageError(f"expected one of {', '.join(get_args(Reach))}, found {quote(reach)}")
    profile = profile_of(profile)
    root = project_root(profile, around)
    # The files that are not written here, and that disable a skill whatever the written ones say.
    binding = [
        layer
        for layer in layers(profile, around)[0]
        if layer.file and (FORMS[layer.file.form].edit is None or (layer.file.form, scope) == ("codex", "project"))
    ]
    deciding, bound_reach = _first_setting(skill, binding)
    if bound_reach == "disabled" != reach and deciding.file:
        raise StateError(f"{skill.full_name} stays disabled", where=deciding.file.path, hint="change it in this file")
    files = [file for file in _files_to_write(profile, around, scope) if FORMS[file.form].edit]
    written = {file: _within(root, file) for file in files}
    edits: list[tuple[ReachFile, str | None, str]] = []
    with _locked(profile, around, scope):
        own_state = next((_gen(_text(file) or "", file.path) for file in files if file.ours), {})
        replaced = _member(_member(own_state, "replaced"), skill.full_name)
        for file in files:
            before = _text(file)
            after = _edited(file, before or "", skill, reach, replaced)
            if file.ours and reach == "disabled" and any(replaced.values()):
                # Before the rule is gone from the agent's file, so that a crash between forgets none.
                edits.insert(0, (file, before, _with_replaced(before or "", skill.full_name, replaced, file.path)))
            if after != (before or ""):
                edits.append((file, before, after))
        for file, before, after in edits:
            _write(written[file], before, after)
    return [file.path for file, _, _ in edits]


def _within(root: str, file: ReachFile) -> ReachFile:
    """Return the file with its links followed; one of a project may not lead out of it."""
    if file.scope != "project" or file.ours:
        return file
    return replace(file, path=inside(root, os.path.relpath(file.path, root).replace(os.sep, "/")))


def _edited(file: ReachFile, before: str, skill: Skill, reach: Reach, replaced: dict[str, str]) -> str:
    """Return the text of a file with the new reach of a skill; raises as ``set_reach``.

    ``replaced`` has the skill's own rules, by file, that are kept in skillhub's state while a ``deny`` is in their
    place; skillhub's file comes last.
    """
    form = FORMS[file.form]
    after = form.edit(before, skill, reach, file.path) if form.edit else before
    if file.form == "opencode" and (rule := _own_rule(before, skill, file.path)) != "deny":
        replaced[file.path] = rule or ""
    elif reach != "disabled" and replaced.get(file.path) in ("allow", "ask"):
        after = jsonc.replace(before, ("permission", "skill", skill.full_name), replaced[file.path], file.path)
    elif file.ours:
        after = _with_replaced(after, skill.full_name, replaced if reach == "disabled" else {}, file.path)
    edited = next(with_reach([replace(skill, state="enabled")], [form.parse(after, file.path)]))
    if (edited.state == "disabled") != (reach == "disabled"):
        hint = "a rule in this file is about several skills; change it there"
        raise StateError(f"{skill.full_name} stays {edited.state}", where=file.path, hint=hint)
    return after


def stored_answers(profile: Profile, around: Surroundings) -> dict[str, StoredAnswer]:
    """Return the user's answers about skills with the permission ``ask``, by full name; the project's come first.

    Raises:
        FormatError, StateError: a file of skillhub's state is malformed, or cannot be read.
    """
    stored: dict[str, StoredAnswer] = {}
    for file in reversed(reach_files(profile, around)):
        if file.ours:
            stored |= gen_answers(_text(file) or "", file.path)
    return stored


def store_answer(name: str, answer: StoredAnswer, scope: Scope, profile: Profile, around: Surroundings) -> None:
    """Store the user's answer about the skill with this full name; nothing if there is no folder for the state.

    Raises:
        FormatError, StateError: the file is malformed, or cannot be read or written.
        UsageError: there is no such scope.
    """
    with _locked(profile, around, scope):
        for file in _of_scope(profile, around, scope):
            if file.ours:
                before = _text(file)
                _write(file, before, gen_remember(before or "", name, answer, file.path))


def _files_to_write(profile: Profile, around: Surroundings, scope: Scope) -> Iterator[ReachFile]:
    """Yield the files of a scope to write: the first existing one of the agent's, else its first; and skillhub's."""
    in_scope = _of_scope(profile, around, scope)
    of_agent = [file for file in in_scope if not file.ours]
    if of_agent:
        yield next((file for file in of_agent if os.path.lexists(file.path)), of_agent[0])
    yield from (file for file in in_scope if file not in of_agent)


def _of_scope(profile: Profile, around: Surroundings, scope: Scope) -> list[ReachFile]:
    # A skill may have another scope, such as `extra`: of that there is no file, and nothing would be written.
    if scope not in get_args(Scope):
        raise UsageError(f"expected one of {', '.join(get_args(Scope))}, found {quote(scope)}")
    return [file for file in reach_files(profile, around) if file.scope == scope]


@contextmanager
def _locked(profile: Profile, around: Surroundings, scope: Scope) -> Iterator[None]:
    """Hold the lock of skillhub's own files, if there are any: two processes would undo each other's edits."""
    with ExitStack() as held:
        for file in _of_scope(profile, around, scope):
            if file.ours:
                held.enter_context(lock(f"{os.path.dirname(file.path)}.lock"))
        yield


def _write(file: ReachFile, before: str | None, after: str) -> None:
    """Replace the text of a file; an agent's file only if it still has the text ``before`` (None: no file)."""
    try:
        data = after.encode("utf-8")
    except UnicodeEncodeError as error:
        raise FormatError("expected names and paths in UTF-8", where=file.path) from error
    if not file.ours and read(file.path, CAP) != (None if before is None else before.encode()):
        raise StateError("another program changed the file meanwhile", where=file.path, hint="run the command again")
    write_own(file.path, data)


def _text(file: ReachFile) -> str | None:
    data = read(file.path, CAP)
    if data is None:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError("expected UTF-8 text", where=file.path) from error

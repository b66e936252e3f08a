"""Parses and edits the files in which agents keep which skills are switched off.

Text in, text out; every byte that is not about the skill stays as it is. A word that nobody knows is a no.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from skillhub.errors import FormatError
from skillhub.model.skill import Reach, Skill
from skillhub.model.syntax import jsonc, jsonc_edit
from skillhub.model.syntax.json import strict_json
from skillhub.model.syntax.toml import others_toml, spell_toml
from skillhub.model.tree import SKILL_MD
from skillhub.runtime.permission import ACTIONS, Rule

CAP: Final = 1 << 20
_GEN: Final[Mapping[str, Reach]] = {"enable": "enabled", "enabled": "enabled", "active": "active"}
_GEN_WORDS: Final[Mapping[Reach, str]] = {"disabled": "disable", "enabled": "enable", "active": "active"}
_TABLE = re.compile(r"^[ \t]*\[\[[ \t]*skills[ \t]*\.[ \t]*config[ \t]*\]\][^\n]*\n?", re.MULTILINE)
_ANY_TABLE = re.compile(r"^[ \t]*\[", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Layer:
    """What one file says: how far skills reach, by full name or by path, and rules of permission."""

    names: Mapping[str, Reach] = field(default_factory=dict)
    paths: Mapping[str, Reach] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()
    extra: tuple[str, ...] = ()  # further folders of skills

    def reach(self, skill: Skill) -> Reach | None:
        """Return how far a skill reaches; None if the file does not say."""
        if self.paths and skill.path:
            for path in (os.path.join(skill.path, SKILL_MD), skill.path):
                if path in self.paths:
                    return self.paths[path]
        return self.names.get(skill.full_name)


class Form(NamedTuple):
    """How such a file is read, and how it is changed for one skill; both raise a FormatError."""

    parse: Callable[[str, str], Layer]
    edit: Callable[[str, Skill, Reach, str], str]


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
        if isinstance(path, str) and name is None:
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
        path = os.path.join(skill.path or "", SKILL_MD)
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
    places = (skill.path, os.path.join(skill.path or "", SKILL_MD))
    return isinstance(path, str) and os.path.realpath(path) in places


def _opencode_parse(text: str, where: str) -> Layer:
    root = jsonc.parse(text, where)
    block = root.data if root else {}
    if not isinstance(block, dict):
        raise FormatError("expected an object", where=where)
    skills = block.get("skills")
    paths = skills.get("paths") if isinstance(skills, dict) else None
    extra = tuple(path for path in paths if isinstance(path, str)) if isinstance(paths, list) else ()
    return Layer(rules=tuple(_opencode_rules(block)), extra=extra)


def _opencode_rules(block: Mapping[str, Any]) -> list[Rule]:
    permission = block.get("permission", {})
    # One action for all tools, or for each kind of them; for all skills, or by patterns.
    by_kind = permission if isinstance(permission, dict) else {"*": permission}
    given = by_kind.get("skill", by_kind.get("*", {}))
    by_pattern = given if isinstance(given, dict) else {"*": given}
    return [Rule(name, action if action in ACTIONS else "deny") for name, action in by_pattern.items()]


def _opencode_edit(text: str, skill: Skill, reach: Reach, where: str) -> str:
    place = ("permission", "skill", skill.full_name)
    own = {rule.action for rule in _opencode_parse(text, where).rules if rule.pattern == skill.full_name}
    if own and (reach == "disabled" or own == {"deny"}):
        text = jsonc_edit.remove(text, place, where)
    return jsonc_edit.insert(text, place, "deny", where) if reach == "disabled" else text


FORMS: Final[Mapping[str, Form]] = {
    "gen": Form(_gen_parse, _gen_edit),
    "codex": Form(_codex_parse, _codex_edit),
    "opencode": Form(_opencode_parse, _opencode_edit),
}

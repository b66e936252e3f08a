"""Puts the host's envelope around a loaded skill; no text inside can break out of it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from skillhub.formats.text import clean, is_unseen
from skillhub.model.hosts import Profile, profile
from skillhub.runtime.loading import Loaded
from skillhub.runtime.overview import counted

# Of every host, so that what is written for one cannot be misread by another. Between `<` and the name may stand
# what a lenient reader, or a model, passes over; hidden characters, each a `_VEIL` here, between any two letters.
_TAGS: Final = (
    *("skill", "skill_content", "skill_context", "skill-invocation", "skill_files", "skill_resources"),
    *("skills", "skills_context", "skills_catalog", "available_skills", "system-reminder"),
)
_VEIL: Final = "\u200b"
_NAMES: Final = "|".join(f"{_VEIL}*+".join(map(re.escape, tag)) for tag in _TAGS)
_TAG: Final = re.compile(rf"<(?=[\s/{_VEIL}]*+(?:{_NAMES})(?![\w-]))", re.IGNORECASE)
_LISTED_MAX: Final = 50
_LISTED_BYTES: Final = 4096


def inject(loaded: Loaded, host: Profile | str = "agents") -> str:
    """Return the text that ``host`` puts before its model for this skill.

    A host that wants it so gets a reminder of a text that its session has already, and all others the text again.
    Every tag of an envelope that is inside of text, of a name or of a path has its ``<`` written as ``&lt;``;
    all else is as the skill has it.

    Raises:
        UsageError: there is no host of that name.
    """
    row = profile(host) if isinstance(host, str) else host
    loaded = replace(loaded, is_repeat=loaded.is_repeat and row.reminds)
    return "\n".join(_ENVELOPES.get(row.envelope, _skill_content)(loaded))


class Display(NamedTuple):
    """What GenCode shows its user of a skill that was called, apart from the text that its model gets.

    Attributes:
        status: ``loading``, ``loaded`` or ``failed``.
        name: The skill; empty while it is not known.
        detail: Behind the mark of the second line.
    """

    status: Literal["loading", "loaded", "failed"]
    name: str
    detail: str

    @property
    def lines(self) -> tuple[str, str]:
        """The two lines: ``⚡Skill(git:commit)`` and what became of it."""
        called = f"({self.name})" if self.name else ""
        return f"⚡Skill{called}", f"  {_MARKS[self.status]}  {self.detail}".replace("⠹  ", "⠹ ")


_MARKS: Final = {"loading": "⠹", "loaded": "⎿", "failed": "✗"}


def display(loaded: Loaded | None = None, name: str = "", error: str = "") -> Display:
    """Return what to show of a skill that was loaded, could not be (``name`` and ``error``), or is not yet."""
    if loaded is not None:
        scripts, references, assets = (
            sum(each.startswith(f"{folder}/") for each in loaded.files)
            for folder in ("scripts", "references", "assets")
        )
        shown = clean(loaded.skill.full_name)
        return Display("loaded", shown, f"Loaded: {shown}{counted((scripts, references, assets))}")
    if error:
        return Display("failed", clean(name), clean(error))
    return Display("loading", clean(name), "Loading skill...")


def to_json(loaded: Loaded, host: Profile | str = "agents") -> dict[str, Any]:
    """Return what ``skillhub load --json`` prints."""
    return {
        "name": loaded.skill.full_name,
        "path": loaded.folder.path,
        "text": inject(loaded, host),
        "files": list(loaded.files),
        "tools": None if loaded.tools is None else list(loaded.tools),
        "fork": loaded.fork.to_json() if loaded.fork else None,
        "hooks": [hook.to_json() for hook in loaded.hooks],
    }


def listed(loaded: Loaded, most: int = _LISTED_MAX) -> tuple[str, ...]:
    """Return the files to name to the model: ``most`` of them, and no more than 4 KiB of names."""
    room, named = _LISTED_BYTES, 0
    for name in loaded.files[:most]:
        room -= len(os.fsencode(name))
        if room < 0:
            break
        named += 1
    return loaded.files[:named]


def safe(text: str) -> str:
    """Return ``text`` with no tag in it that opens or closes an envelope, nor would without its hidden characters."""
    hidden = {ord(char): _VEIL for char in set(text) if is_unseen(char)}
    starts = {match.start() for match in _TAG.finditer(text.translate(hidden))}
    return "".join("&lt;" if at in starts else char for at, char in enumerate(text)) if starts else text


def _attribute(text: str) -> str:
    return clean(escape(text, quote=False).replace('"', "&quot;"))


def _instructions(loaded: Loaded, whole: bool = False) -> str:
    if not loaded.is_repeat:
        return safe((loaded.front if whole else "") + loaded.body).strip()
    name = clean(loaded.skill.full_name)
    told = f"The instructions of {name} are in this conversation already, unchanged; follow them."
    return f"{told}\nARGUMENTS: {safe(loaded.arguments)}" if loaded.arguments else told


def _skill_md(loaded: Loaded) -> str:
    return os.path.join(loaded.folder.path, os.path.basename(loaded.skill.file))


def _file_lines(loaded: Loaded, most: int, indent: str, absolute: bool) -> list[str]:
    some = listed(loaded, most)
    left_out = len(loaded.files) - len(some)
    base = os.path.join(loaded.folder.path, "") if absolute else ""
    lines = [f"{indent}<file>{_attribute(base + name)}</file>" for name in some]
    return [*lines, f"{indent}({left_out} more)"] if left_out else lines


def _skill(loaded: Loaded) -> list[str]:
    """Codex, OpenOxide: the file as it is."""
    return [
        "<skill>",
        f"<name>{_attribute(loaded.skill.full_name)}</name>",
        f"<path>{_attribute(_skill_md(loaded))}</path>",
        _instructions(loaded, whole=True),
        "</skill>",
    ]


def _skill_content(loaded: Loaded) -> list[str]:
    """The reference client of the Agent Skills guide."""
    lines = [
        f'<skill_content name="{_attribute(loaded.skill.full_name)}">',
        _instructions(loaded),
        "",
        f"Skill directory: {_attribute(loaded.folder.path)}",
        "Relative paths in this skill are relative to the skill directory.",
    ]
    if loaded.files and not loaded.is_repeat:
        files = _file_lines(loaded, _LISTED_MAX, "  ", absolute=False)
        lines += ["", "<skill_resources>", *files, "</skill_resources>"]
    return [*lines, "</skill_content>"]


def _opencode(loaded: Loaded) -> list[str]:
    name = _attribute(loaded.skill.full_name)
    return [
        f'<skill_content name="{name}">',
        f"# Skill: {name}",
        "",
        _instructions(loaded),
        "",
        f"Base directory for this skill: {_attribute(_uri(loaded))}",
        "Paths in this skill, such as scripts/ or reference/, start from that directory.",
        "Not all of its files need be listed.",
        "",
        "<skill_files>",
        *([] if loaded.is_repeat else _file_lines(loaded, 10, "", absolute=True)),
        "</skill_files>",
        "</skill_content>",
    ]


def _skill_context(loaded: Loaded) -> list[str]:
    """Codelia: the file as it is, and what is beside it."""
    name, path = _attribute(loaded.skill.full_name), _attribute(_skill_md(loaded))
    return [
        f'<skill_context name="{name}" path="{path}">',
        _instructions(loaded, whole=True),
        "",
        f"Base directory: {_attribute(_uri(loaded))}/",
        "Relative paths in this skill are resolved from this directory.",
        "<skill_files>",
        *([] if loaded.is_repeat else _file_lines(loaded, _LISTED_MAX, "", absolute=True)),
        "</skill_files>",
        "</skill_context>",
    ]


def _skill_invocation(loaded: Loaded) -> list[str]:
    """GenCode: with the arguments, and what can be run or read."""
    lines = [f'<skill-invocation name="{_attribute(loaded.skill.full_name)}">']
    if loaded.arguments:
        lines += [f"User arguments: {safe(loaded.arguments)}", ""]
    for folder, title in (
        ("scripts/", "Available scripts (use Bash to execute):"),
        ("references/", "Reference files (use Read when needed):"),
    ):
        inside = [name for name in listed(loaded) if name.startswith(folder)]
        if inside and not loaded.is_repeat:
            paths = (_attribute(os.path.join(loaded.folder.path, name)) for name in inside)
            lines += [title, *(f"  - {path}" for path in paths), ""]
    return [*lines, _instructions(loaded), "</skill-invocation>"]


def _pegasus(loaded: Loaded) -> list[str]:
    return [f"[Skill: {_attribute(loaded.skill.full_name)}]", "", _instructions(loaded)]


def _uri(loaded: Loaded) -> str:
    return Path(loaded.folder.path).as_uri()


_ENVELOPES: Final[Mapping[str, Callable[[Loaded], list[str]]]] = {
    "skill": _skill,
    "skill_content": _skill_content,
    "skill_context": _skill_context,
    "skill-invocation": _skill_invocation,
    "opencode": _opencode,
    "pegasus": _pegasus,
}

"""Puts a host's envelope around a loaded skill; no text inside can close it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from skillhub.errors import SkillhubError, SourceError, UsageError
from skillhub.formats.text import clean
from skillhub.model.hosts import Profile, profile
from skillhub.runtime.folder import Loaded
from skillhub.runtime.overview import counted, safe

_LISTED_MAX: Final = 50
_LISTED_BYTES: Final = 4096


def inject(loaded: Loaded, host: Profile | str = "agents") -> str:
    """Return the text of a skill in the host's envelope, for its model.

    If the session has this text already, a host whose profile asks for a reminder gets one; all others get the text
    again. In each tag of an envelope inside the text, a name or a path, ``<`` becomes ``&lt;``; the rest of the
    skill's text is unchanged.

    Args:
        loaded: The skill, as ``load`` returned it.
        host: The host, or its id.

    Raises:
        UsageError: there is no host of that name.
    """
    row = profile(host)
    loaded = replace(loaded, is_repeat=loaded.is_repeat and row.reminds)
    return "\n".join(_ENVELOPES.get(row.envelope, _skill_content)(loaded))


def told_to_model(error: SkillhubError) -> str:
    """Return the text of an error for a model.

    A model with a shell would run the command that lifts a block, so a hint is only in errors about the call itself.
    """
    if isinstance(error, SourceError):
        return clean(error.message)
    if isinstance(error, UsageError):
        return ": ".join(map(clean, filter(None, (error.message, error.hint))))
    return f"Not available here: {': '.join(map(clean, filter(None, (error.where, error.message))))}"


class Display(NamedTuple):
    """The two lines that GenCode shows its user about the call of a skill.

    Attributes:
        status: ``loading``, ``loaded`` or ``failed``.
        name: The skill; empty if it is unknown.
        detail: The text behind the mark of the second line.
    """

    status: Literal["loading", "loaded", "failed"]
    name: str
    detail: str

    @property
    def lines(self) -> tuple[str, str]:
        """The call, such as ``⚡Skill(git:commit)``, and its result."""
        called = f"({self.name})" if self.name else ""
        return f"⚡Skill{called}", f"  {_MARKS[self.status]}  {self.detail}".replace("⠹  ", "⠹ ")


_MARKS: Final = {"loading": "⠹", "loaded": "⎿", "failed": "✗"}


def display(loaded: Loaded | None = None, name: str = "", error: str = "") -> Display:
    """Return the lines for the user about the call of a skill.

    Args:
        loaded: The skill, once it is loaded.
        name: The name that was called, while the skill is being loaded or if it failed.
        error: Why it could not be loaded; empty while it is being loaded.
    """
    if loaded is not None:
        scripts, references, assets = (
            sum(path.startswith(f"{folder}/") for path in loaded.files)
            for folder in ("scripts", "references", "assets")
        )
        skill_name = clean(loaded.skill.full_name)
        return Display("loaded", skill_name, f"Loaded: {skill_name}{counted((scripts, references, assets))}")
    if error:
        return Display("failed", clean(name), clean(error))
    return Display("loading", clean(name), "Loading skill...")


def to_json(loaded: Loaded, host: Profile | str = "agents") -> dict[str, Any]:
    """Return the answer of ``skillhub load --json``."""
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
    """Return the files to list for the model: at most ``most``, with names of at most 4 KiB together."""
    room, count = _LISTED_BYTES, 0
    for name in loaded.files[:most]:
        room -= len(os.fsencode(name))
        if room < 0:
            break
        count += 1
    return loaded.files[:count]


def _attribute(text: str) -> str:
    return clean(escape(text, quote=False).replace('"', "&quot;"))


def _instructions(loaded: Loaded, with_front: bool = False) -> str:
    if not loaded.is_repeat:
        return safe((loaded.front if with_front else "") + loaded.body).strip()
    name = clean(loaded.skill.full_name)
    reminder = f"The instructions of {name} are in this conversation already, unchanged; follow them."
    return f"{reminder}\nARGUMENTS: {safe(loaded.arguments)}" if loaded.arguments else reminder


def _skill_md(loaded: Loaded) -> str:
    return os.path.join(loaded.folder.path, os.path.basename(loaded.skill.file))


def _file_lines(loaded: Loaded, most: int, indent: str, absolute: bool) -> list[str]:
    shown_files = listed(loaded, most)
    left_out = len(loaded.files) - len(shown_files)
    base = os.path.join(loaded.folder.path, "") if absolute else ""
    lines = [f"{indent}<file>{_attribute(base + name)}</file>" for name in shown_files]
    return [*lines, f"{indent}({left_out} more)"] if left_out else lines


def _skill(loaded: Loaded) -> list[str]:
    """Codex, OpenOxide: ``SKILL.md`` with its frontmatter."""
    return [
        "<skill>",
        f"<name>{_attribute(loaded.skill.full_name)}</name>",
        f"<path>{_attribute(_skill_md(loaded))}</path>",
        _instructions(loaded, with_front=True),
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
    """Codelia: ``SKILL.md`` with its frontmatter, and the files beside it."""
    name, path = _attribute(loaded.skill.full_name), _attribute(_skill_md(loaded))
    return [
        f'<skill_context name="{name}" path="{path}">',
        _instructions(loaded, with_front=True),
        "",
        f"Base directory: {_attribute(_uri(loaded))}/",
        "Relative paths in this skill are resolved from this directory.",
        "<skill_files>",
        *([] if loaded.is_repeat else _file_lines(loaded, _LISTED_MAX, "", absolute=True)),
        "</skill_files>",
        "</skill_context>",
    ]


def _skill_invocation(loaded: Loaded) -> list[str]:
    """GenCode: the arguments, the scripts, the references, and the instructions."""
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

"""Puts a host's envelope around a loaded skill; no text inside can close it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from skillhub.errors import SkillhubError, SourceError, UsageError
from skillhub.formats.text import clean, packaged
from skillhub.model.hosts import Profile, profile
from skillhub.runtime.folder import Loaded
from skillhub.runtime.overview import counted, safe

_LISTED_MAX: Final = 50
_LISTED_BYTES: Final = 4096


def inject(loaded: Loaded, host: Profile | str = "agents") -> str:
    """Return the text of a skill in the host's envelope, for its model.

    If the session has this text already, a host whose profile asks for a reminder gets one; all others get the text
    again. In each tag of an envelope inside the text, a name or a path, ``<`` becomes ``&lt;``, and ``[`` before
    ``Skill:`` becomes ``&#91;``; the rest of the skill's text is unchanged.

    Args:
        loaded: The skill, as ``load`` returned it.
        host: The host, or its id.

    Raises:
        UsageError: there is no host of that name.
    """
    row = profile(host)
    loaded = replace(loaded, is_repeat=loaded.is_repeat and row.reminds)
    if row.envelope == "skill-invocation":
        return "\n".join(_skill_invocation(loaded))
    return "\n".join(_ENVELOPES.get(row.envelope, _ENVELOPES["skill_content"]).spell(loaded))


def told_to_model(error: SkillhubError) -> str:
    """Return the text of an error for a model, with no tag of an envelope.

    A model with a shell would run the command that lifts a block, so a hint is only in errors about the call itself.
    """
    if isinstance(error, SourceError):
        return safe(clean(error.message))
    if isinstance(error, UsageError):
        return safe(": ".join(map(clean, filter(None, (error.message, error.hint)))))
    return safe(f"Not available here: {': '.join(map(clean, filter(None, (error.where, error.message))))}")


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
    return safe(clean(escape(text, quote=False).replace('"', "&quot;")))


def _instructions(loaded: Loaded, with_front: bool = False) -> str:
    if not loaded.is_repeat:
        return safe((loaded.front if with_front else "") + loaded.body).strip()
    name = clean(loaded.skill.full_name)
    reminder = f"The instructions of {name} are in this conversation already, unchanged; follow them."
    return f"{reminder}\nARGUMENTS: {safe(loaded.arguments)}" if loaded.arguments else reminder


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillEnvelope:
    """How a host writes a loaded skill: three parts, in which ``{instructions}`` and ``{files}`` are whole lines.

    Attributes:
        above: The lines up to the files.
        files: The lines with the files.
        below: The lines after the files.
        lists_none: Whether ``files`` stands there without a file, too.
        with_front: Whether the instructions begin with the frontmatter.
        most: The number of files to list.
        indent: The beginning of the line of a file.
        absolute: Whether the paths of files are absolute.
    """

    above: Sequence[str]
    files: Sequence[str] = ()
    below: Sequence[str] = ()
    lists_none: bool = False
    with_front: bool = False
    most: int = _LISTED_MAX
    indent: str = ""
    absolute: bool = False

    def spell(self, loaded: Loaded) -> list[str]:
        """Return the lines for a skill."""
        folder, files = loaded.folder.path, [] if loaded.is_repeat else self._file_lines(loaded)
        whole = {"{instructions}": [_instructions(loaded, self.with_front)], "{files}": files}
        facts = {
            "name": _attribute(loaded.skill.full_name),
            "path": _attribute(os.path.join(folder, os.path.basename(loaded.skill.file))),
            "folder": _attribute(folder),
            "uri": _attribute(Path(folder).as_uri()),
        }
        lines = [*self.above, *(self.files if files or self.lists_none else ()), *self.below]
        return [line for each in lines for line in (whole[each] if each in whole else [each.format(**facts)])]

    def _file_lines(self, loaded: Loaded) -> list[str]:
        shown_files = listed(loaded, self.most)
        left_out = len(loaded.files) - len(shown_files)
        base = os.path.join(loaded.folder.path, "") if self.absolute else ""
        lines = [f"{self.indent}<file>{_attribute(base + name)}</file>" for name in shown_files]
        return [*lines, f"{self.indent}({left_out} more)"] if left_out else lines


def _skill_invocation(loaded: Loaded) -> list[str]:
    """Return the lines of GenCode: the arguments, the scripts, the references, and the instructions."""
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


_ENVELOPES: Final = {name: SkillEnvelope(**row) for name, row in packaged("runtime/envelopes.json").items()}

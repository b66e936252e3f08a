"""Editing ``skillhub.toml`` so that a person's comments, order and layout stay as they are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, MutableMapping

import tomlkit
from tomlkit.exceptions import TOMLKitError

from skillhub.errors import FormatError
from skillhub.model.dataclass import replace
from skillhub.model.intent import Intent, Wanted
from skillhub.model.text import clean

_WHERE = "skillhub.toml"


def edit(data: bytes, add: Mapping[str, Wanted], remove: Iterable[str]) -> bytes:
    """Return ``data`` with these lines of ``[skills]`` set and those taken out; no change gives the same bytes.

    Raises:
        FormatError: ``data`` is no intent, or is written in a way that cannot be edited without harm.
    """
    before = Intent.parse(data, _WHERE)
    gone = set(remove)
    kept = {name: each for name, each in before.skills.items() if name not in gone}
    wanted = {**kept, **add}
    if wanted == before.skills:
        return data
    try:
        edited = _edited(data.decode("utf-8"), before.skills, wanted)
        # Another parser's word that the edit did what was meant and nothing else.
        after = Intent.parse(edited, _WHERE)
    except TOMLKitError as error:
        raise FormatError(f"not TOML: {clean(str(error))[:200]}", where=_WHERE) from error
    except IndexError:  # tomlkit (seen in 0.15.2), when both parts of a table that is in two are emptied
        after = None
    if after != replace(before, skills=wanted):
        hint = "write its skills as lines of one [skills] table"
        raise FormatError("the file cannot be edited without harm", where=_WHERE, hint=hint)
    return edited


def _edited(text: str, before: Mapping[str, Wanted], wanted: Mapping[str, Wanted]) -> bytes:
    document = tomlkit.parse(text)
    if "skills" not in document:
        # Line by line, tomlkit would look through all lines for each: 0.8 s for a thousand.
        lines = "".join(f"{name} = {_line(each)}\n" for name, each in wanted.items())
        gap = "\n" if text else ""
        return _ended(text, f"{text}{gap}[skills]\n{lines}")
    skills = document["skills"]
    if not isinstance(skills, MutableMapping):
        raise FormatError("expected a table", where=f"{_WHERE}: skills")
    for name in before.keys() - wanted.keys():
        del skills[name]
    for name, each in wanted.items():
        if before.get(name) != each:
            skills[name] = tomlkit.value(_line(each))
    return _ended(text, tomlkit.dumps(document))


def _ended(text: str, edited: str) -> bytes:
    """Return ``edited`` with the line ends of ``text``."""
    if text.count("\r\n") == text.count("\n") > 0:
        edited = re.sub(r"(?<!\r)\n", "\r\n", edited)
    return edited.encode()


def _line(wanted: Wanted) -> str:
    pairs = [f"{key} = {tomlkit.string(value).as_string()}" for key, value in wanted.spell().items()]
    return f"{{ {', '.join(pairs)} }}" if pairs else "{}"

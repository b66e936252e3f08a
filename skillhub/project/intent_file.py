"""Editing ``skillhub.toml`` so that a person's comments, order and layout stay as they are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import replace

from skillhub.errors import FormatError
from skillhub.formats.text import clean
from skillhub.formats.toml import spell_toml, strict_toml
from skillhub.project.intent import Intent, Wanted

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
    text = data.decode("utf-8")
    if "skills" in strict_toml(data, _WHERE):
        lines = _edited(text, before.skills, wanted)
    else:
        lines = "".join([text, "\n" if text else "", "[skills]\n", *map(_line, wanted.items())])
    edited = _ended(text, lines)
    # Another parser's word that the edit did what was meant and nothing else.
    if replace(Intent.parse(edited, _WHERE), lists=True) != replace(before, skills=wanted, lists=True):
        hint = "write its skills as lines of one [skills] table"
        raise FormatError("the file cannot be edited without harm", where=_WHERE, hint=hint)
    return edited


def _edited(text: str, before: Mapping[str, Wanted], wanted: Mapping[str, Wanted]) -> str:
    """Return ``text`` with other lines in its table; what cannot be done without harm is not done."""
    # 9 ms of import, which a project's first install has no use for.
    import tomlkit  # noqa: PLC0415
    from tomlkit.exceptions import TOMLKitError  # noqa: PLC0415

    try:
        document = tomlkit.parse(text)
        skills = document["skills"]
        if not isinstance(skills, MutableMapping):
            raise FormatError("expected a table", where=f"{_WHERE}: skills")
        for name in before.keys() - wanted.keys():
            del skills[name]
        for name, each in wanted.items():
            if before.get(name) != each:
                skills[name] = tomlkit.value(_value(each))
        return str(tomlkit.dumps(document))
    except TOMLKitError as error:
        raise FormatError(f"not TOML: {clean(str(error))[:200]}", where=_WHERE) from error
    except IndexError:  # tomlkit (seen in 0.15.2), when both parts of a table that is in two are emptied
        return text


def _ended(text: str, edited: str) -> bytes:
    """Return ``edited`` with the line ends of ``text``."""
    if text.count("\r\n") == text.count("\n") > 0:
        edited = re.sub(r"(?<!\r)\n", "\r\n", edited)
    return edited.encode()


def _line(item: tuple[str, Wanted]) -> str:
    return f"{item[0]} = {_value(item[1])}\n"


def _value(wanted: Wanted) -> str:
    pairs = [f"{key} = {spell_toml(value)}" for key, value in wanted.spell().items()]
    return f"{{ {', '.join(pairs)} }}" if pairs else "{}"

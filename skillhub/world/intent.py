"""Editing ``skillhub.toml`` so that a person's comments, order and layout stay as they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import Table

from skillhub.errors import FormatError
from skillhub.model.intent import Wanted


def edit(data: bytes, add: Mapping[str, Wanted], remove: Iterable[str]) -> bytes:
    """Return ``data`` with these lines of ``[skills]`` set and those taken out; no change gives the same bytes.

    Raises:
        FormatError: ``data`` is not TOML, or its ``skills`` is no table.
    """
    try:
        document = tomlkit.parse(data.decode("utf-8"))
    except (UnicodeDecodeError, TOMLKitError) as error:
        raise FormatError(f"not TOML: {error}", where="skillhub.toml") from error
    skills = document.get("skills")
    if skills is None:
        if not add:
            return data
        skills = tomlkit.table()
        document["skills"] = skills
    if not isinstance(skills, Table):
        raise FormatError("expected a table", where="skillhub.toml: skills")
    for name in remove:
        skills.pop(name, None)
    for name, wanted in add.items():
        line = tomlkit.inline_table()
        for key in ("source", "version", "path"):
            if value := getattr(wanted, key):
                line[key] = value
        if skills.get(name) != line:
            skills[name] = line
    return tomlkit.dumps(document).encode()

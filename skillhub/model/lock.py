"""``skillhub.lock``: what a team agreed to, skill by skill; parsed whole or not at all.

Format 1 is JSON, two spaces deep, keys sorted, one block a skill, so that two branches that each add a skill
merge as text. It holds no time, no secret, and no path of a store, a home or a cache.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, TypeVar

from skillhub.errors import FormatError
from skillhub.model.digest import Digest
from skillhub.model.json import strict_json
from skillhub.model.ref import is_alias
from skillhub.model.text import is_name, quote

VERSION = 1
_CAP = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Locked:
    """One skill as agreed to: ``tree`` binds, the rest says whence the bytes come and what they may do.

    A registry's skill has ``url`` and ``digest``; a local one has ``path``, relative to the project if
    inside of it. ``signed_by`` empty means unsigned.
    """

    source: str
    tree: Digest
    size: int
    version: str | None = None
    url: str | None = None
    digest: Digest | None = None
    path: str | None = None
    capabilities: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    signed_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedSource:
    """Where an alias pointed when its skills were locked; ``root`` is the SHA-256 of its ``1.root.json``."""

    kind: str
    url: str
    root: Digest | None = None


@dataclass(frozen=True, slots=True)
class Lock:
    """The whole lock."""

    skills: Mapping[str, Locked] = field(default_factory=dict)
    sources: Mapping[str, LockedSource] = field(default_factory=dict)

    def dump(self) -> bytes:
        """Return the file's bytes; the same lock gives the same bytes."""
        document = {
            "skills": {name: _block(entry) for name, entry in self.skills.items()},
            "sources": {name: _block(entry) for name, entry in self.sources.items()},
            "version": VERSION,
        }
        return (json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode()

    @classmethod
    def parse(cls, data: bytes, where: str = "skillhub.lock") -> Lock:
        """Return the lock that these bytes spell.

        Raises:
            FormatError: they are not a lock of this format; ``where`` names the line or the key.
        """
        _refuse_conflict(data, where)
        document = strict_json(data, where, _CAP)
        if not isinstance(document, dict):
            raise FormatError(f"expected an object, found {quote(document)}", where=where)
        found = document.get("version")
        if found != VERSION or isinstance(found, bool):
            newer = isinstance(found, int) and found > VERSION
            hint = "a newer skillhub wrote it; upgrade skillhub" if newer else None
            raise FormatError(
                f"expected lock format {VERSION}, found {quote(found)}", where=f"{where}: version", hint=hint
            )
        _only(document, {"skills", "sources", "version"}, where)
        skills = {
            name: _decode(Locked, block, f"{where}: skills.{name}")
            for name, block in _named(document, "skills", is_name, where)
        }
        sources = {
            name: _decode(LockedSource, block, f"{where}: sources.{name}")
            for name, block in _named(document, "sources", is_alias, where)
        }
        return cls(skills, sources)


_T = TypeVar("_T", Locked, LockedSource)


def _refuse_conflict(data: bytes, where: str) -> None:
    for number, line in enumerate(data.split(b"\n"), 1) if b"<<<<<<<" in data else ():
        if line.startswith((b"<<<<<<<", b">>>>>>>")):
            raise FormatError(
                "the lock holds a merge conflict",
                where=f"{where}:{number}",
                hint="resolve the conflict in git, then run skillhub install",
            )


def _block(entry: Locked | LockedSource) -> dict[str, Any]:
    values = ((f.name, getattr(entry, f.name)) for f in fields(entry))
    return {name: value for name, value in values if value is not None and (name, value) != ("signed_by", ())}


def _only(block: Mapping[str, Any], known: set[str], where: str) -> None:
    for key in block.keys() - known:
        raise FormatError(
            f"unknown key {quote(key)}", where=where, hint="a newer skillhub may have written it"
        )


def _named(
    document: Mapping[str, Any], key: str, is_good: Callable[[str], bool], where: str
) -> list[tuple[str, dict[str, Any]]]:
    blocks = document.get(key)
    if not isinstance(blocks, dict):
        raise FormatError(f"expected an object, found {quote(blocks)}", where=f"{where}: {key}")
    for name, block in blocks.items():
        if not is_good(name):
            raise FormatError(f"{quote(name)} is no name", where=f"{where}: {key}")
        if not isinstance(block, dict):
            raise FormatError(f"expected an object, found {quote(block)}", where=f"{where}: {key}.{name}")
    return list(blocks.items())


def _text(value: object) -> str:
    if not isinstance(value, str) or not value or any(ord(char) < 32 for char in value):
        raise ValueError(f"expected text, found {quote(value)}")
    return value


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError(f"expected a list of texts, found {quote(value)}")
    return tuple(map(_text, value))


def _size(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"expected a number of bytes, found {quote(value)}")
    return value


_FIELDS: dict[str, Any] = {
    **dict.fromkeys(("source", "version", "url", "path", "kind"), _text),
    **dict.fromkeys(("capabilities", "requires", "signed_by"), _texts),
    **dict.fromkeys(("tree", "digest", "root"), Digest.parse),
    "size": _size,
}


def _decode(kind: type[_T], block: Mapping[str, Any], where: str) -> _T:
    known = fields(kind)
    _only(block, {f.name for f in known}, where)
    values = {}
    for f in known:
        if f.name not in block:
            if f.default is MISSING:
                raise FormatError(f"the key {f.name!r} is missing", where=where)
            continue
        try:
            values[f.name] = _FIELDS[f.name](block[f.name])
        except (ValueError, FormatError) as error:
            raise FormatError(str(error), where=f"{where}.{f.name}") from error
    return kind(**values)

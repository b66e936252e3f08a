"""``skillhub.lock``: what a team agreed to, skill by skill; parsed whole or not at all.

Format 1 is JSON, two spaces deep, keys sorted, one block a skill, so that two branches that each add a skill
merge as text. It holds no time, no secret, and no path of a store, a home or a cache.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Set
from functools import partial
from operator import attrgetter, is_

from skillhub.errors import FormatError
from skillhub.model.dataclass import MISSING, asdict, dataclass, field, fields, replace
from skillhub.model.decode import record
from skillhub.model.digest import Digest
from skillhub.model.json import strict_json
from skillhub.model.lock_fields import FIELDS, Patch
from skillhub.model.lock_origin import check_origin, check_version
from skillhub.model.text import clean, is_alias, is_name, line_of_marker, quote

VERSION = 1
LOCAL = "local"  # the `source` of what has a `path` on this machine
_origin = attrgetter("url", "digest", "version", "rev", "path")
_is_absent = partial(is_, None)
_PLUGIN = "?plugin="  # what follows it in a `source` is the plugin of a marketplace that the skill is part of
CAP = 64 * 1024 * 1024  # bytes of a lock


@dataclass(frozen=True, slots=True, kw_only=True)
class Locked:
    """One skill as agreed to: ``tree`` binds, the rest says whence the bytes come and what they may do.

    Where the project has a ``patch``, ``tree`` is what comes of it, and so is what the skill can do and requires.

    A registry's skill has ``url``, ``digest`` and ``version``, and its ``source`` stands in ``sources``. A local
    one has ``path``, relative to the project if inside of it, and ``local`` for a source. One that was asked for
    by the place it lies at has that reference for a source, less the skill: from a git repository with ``git``,
    ``rev`` and the folder in it as ``path``, from elsewhere with ``url``, and ``digest`` if the site has any.
    ``signed_by`` empty means unsigned.
    """

    source: str
    tree: Digest
    size: int
    version: str | None = None
    url: str | None = None
    digest: Digest | None = None
    git: str | None = None
    rev: str | None = None
    path: str | None = None
    capabilities: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    signed_by: tuple[str, ...] = ()
    patch: Patch | None = None

    @property
    def original(self) -> Locked:
        """The entry of what the source has, without the project's patch."""
        return replace(self, tree=self.patch.base, patch=None) if self.patch else self

    @property
    def local(self) -> bool:
        """Whether it lies on this machine, at ``path``."""
        return place_of(self.source) == LOCAL and self.path is not None

    @property
    def named(self) -> bool:
        """Whether ``source`` is an alias, which stands in ``sources``."""
        return is_alias(self.source) and not self.local

    @property
    def place(self) -> str:
        """The source, less the plugin."""
        return place_of(self.source)

    @property
    def plugin(self) -> str | None:
        """The plugin of a marketplace that the skill is part of."""
        return self.source.partition(_PLUGIN)[2] or None

    @property
    def short(self) -> str:
        """What tells it from another state of the skill where there is no version."""
        return self.rev[:12] if self.rev else self.tree.hex[:12]

    @property
    def origin(self) -> str:
        """Where its bytes are, for a person."""
        if self.git is not None:
            return f"{self.git}@{self.rev}{'#' + self.path if self.path else ''}"
        return self.path or self.url or self.source


def place_of(source: str) -> str:
    """Return a ``source`` less the plugin."""
    return source.partition(_PLUGIN)[0]


def of_plugin(source: str, plugin: str | None) -> str:
    """Return the ``source`` of a skill that is part of a plugin, or of none."""
    return f"{source}{_PLUGIN}{plugin}" if plugin else source


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedSource:
    """Where an alias pointed when its skills were locked; ``root`` is the SHA-256 of its ``1.root.json``.

    ``kind`` is ``registry``, or ``well-known`` for a site that is none and so has no root.
    """

    kind: str
    url: str
    root: Digest | None = None

    def __str__(self) -> str:
        return f"{self.url} with root {self.root}" if self.root else f"{self.url}, which is no registry"


@dataclass(frozen=True, slots=True)
class Lock:
    """The whole lock."""

    skills: Mapping[str, Locked] = field(default_factory=dict)
    sources: Mapping[str, LockedSource] = field(default_factory=dict)

    def dump(self) -> bytes:
        """Return the file's bytes; the same lock gives the same bytes.

        Raises:
            FormatError: the lock holds what ``parse`` would refuse, and is better not written.
        """
        document = {
            "skills": {name: _block(entry) for name, entry in self.skills.items()},
            "sources": {name: _block(entry) for name, entry in self.sources.items()},
            "version": VERSION,
        }
        self._read(document, "skillhub.lock")
        return (json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode()

    @classmethod
    def parse(cls, data: bytes, where: str = "skillhub.lock") -> Lock:
        """Return the lock that these bytes spell.

        Raises:
            FormatError: they are not a lock of this format; ``where`` names the line and the key.
        """
        try:
            return cls._read(_json(data, where), where)
        except FormatError as error:
            error.where = _with_line(error.where or where, data, where)
            raise

    @classmethod
    def _read(cls, document: object, where: str) -> Lock:
        if not isinstance(document, dict):
            raise FormatError(f"expected an object, found {quote(document)}", where=where)
        _check_version(document, where)
        _only(document, {"skills", "sources", "version"}, where, ": ")
        sources = {
            name: _decode(LockedSource, block, where, "sources", name)
            for name, block in _named(document, "sources", is_alias, where)
        }
        skills = {
            name: _decode(Locked, block, where, "skills", name)
            for name, block in _named(document, "skills", is_name, where)
        }
        for name, source in sources.items():
            if (source.root is None) == (source.kind == "registry"):
                message = f"expected {'a' if source.root is None else 'no'} root of a {source.kind}"
                raise FormatError(message, where=f"{where}: sources.{name}.root")
        # All that decides it, so that a thousand skills of a source are one look.
        seen: set[tuple[object, ...]] = set()
        kinds = {alias: source.kind for alias, source in sources.items()}
        for name, entry in skills.items():
            shape = (entry.source, entry.git, entry.git and entry.path, *map(_is_absent, _origin(entry)))
            if shape not in seen:
                check_origin(entry, kinds, f"{where}: skills.{name}")
                seen.add(shape)
            if entry.version is not None and entry.named and kinds[entry.source] == "registry":
                check_version(entry.version, f"{where}: skills.{name}.version")
        return cls(skills, sources)


TYPE_CHECKING = False  # as type checkers know it: without `typing` a command starts 2 ms sooner
if TYPE_CHECKING:
    from typing import Any, TypeVar

    _T = TypeVar("_T", Locked, LockedSource)


def _json(data: bytes, where: str) -> object:
    hint = "take it back out of version control, or delete it and install anew"
    if not data.strip():
        raise FormatError("the lock is empty", where=where, hint=hint)
    try:
        return strict_json(data, where, CAP)
    except FormatError as error:
        if line := line_of_marker(data):
            hint = "skillhub lock fix resolves it, skill by skill"
            raise FormatError(
                "the lock holds a merge conflict", where=f"{where}:{line}", hint=hint
            ) from error
        raise


def _with_line(place: str, data: bytes, where: str) -> str:
    """Return the place of an error with its line; one that names a line already stays."""
    from skillhub.model.json_place import line_of, line_of_fault  # noqa: PLC0415 - 3 ms, and most locks have no fault

    rest = place.removeprefix(where)
    if rest and not rest.startswith(": "):
        return place
    line = line_of(data, rest[2:]) if rest else line_of_fault(data)
    return f"{where}:{line}{rest}" if line else place


def _check_version(document: Mapping[str, Any], where: str) -> None:
    found = document.get("version")
    if type(found) is not int or found != VERSION:  # JSON's true and 1.0 equal 1 in Python
        is_newer = type(found) is int and found > VERSION
        hint = "a newer skillhub wrote it; upgrade skillhub" if is_newer else None
        kind = "the text " if isinstance(found, str) else ""
        message = (
            f"expected lock format {VERSION}, found {kind}{quote(found) if 'version' in document else 'none'}"
        )
        raise FormatError(message, where=f"{where}: version", hint=hint)


def _block(entry: Locked | LockedSource) -> dict[str, Any]:
    values = ((f.name, getattr(entry, f.name)) for f in fields(entry))
    return {
        name: list(value)
        if isinstance(value, tuple)
        else asdict(value)
        if isinstance(value, Patch)
        else value
        for name, value in values
        if value is not None and (name, value) != ("signed_by", ())
    }


def _only(block: Mapping[str, Any], known: Set[str], where: str, joint: str = ".") -> None:
    for key in sorted(block.keys() - known):
        raise FormatError(
            f"unknown key {quote(key)}",
            where=f"{where}{joint}{clean(key[:64])}",
            hint="a newer skillhub may have written it",
        )


def _named(
    document: Mapping[str, Any], key: str, is_good: Callable[[str], bool], where: str
) -> list[tuple[str, dict[str, Any]]]:
    """Return the blocks below ``key``, by name."""
    if key not in document:
        raise FormatError(f"the key {key!r} is missing", where=f"{where}: {key}")
    blocks = document[key]
    if not isinstance(blocks, dict):
        raise FormatError(f"expected an object, found {quote(blocks)}", where=f"{where}: {key}")
    for name, block in blocks.items():
        if not is_good(name):
            raise FormatError(f"{quote(name)} is no name", where=f"{where}: {key}.{clean(name[:64])}")
        if not isinstance(block, dict):
            raise FormatError(f"expected an object, found {quote(block)}", where=f"{where}: {key}.{name}")
    return sorted(blocks.items())


# What a file must have beyond what the values cannot do without; null is never written for an absent key.
_NEEDED = {Locked: {"capabilities", "requires"}, LockedSource: set[str]()}


def _reader(kind: type[_T]) -> Callable[[object], dict[str, Any]]:
    needed = {f.name for f in fields(kind) if f.default is MISSING} | _NEEDED[kind]
    keys = {f.name: FIELDS[f.name] for f in fields(kind)}
    return record(
        {key: read for key, read in keys.items() if key in needed},
        {key: read for key, read in keys.items() if key not in needed},
    )


_READERS = {kind: _reader(kind) for kind in _NEEDED}
_KNOWN = {kind: {f.name for f in fields(kind)} for kind in _NEEDED}


def _decode(kind: type[_T], block: Mapping[str, Any], where: str, part: str, name: str) -> _T:
    if not block.keys() <= _KNOWN[kind]:
        _only(block, _KNOWN[kind], f"{where}: {part}.{name}")
    try:
        return kind(**_READERS[kind](block))
    except FormatError as error:
        error.where = f"{where}: {part}.{name}{error.where}"
        raise

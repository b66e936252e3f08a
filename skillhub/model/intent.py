"""``skillhub.toml``: what a project wants, as a person writes it; edits keep its comments and its order."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from skillhub.errors import FormatError
from skillhub.model.digest import Digest
from skillhub.model.ref import is_alias
from skillhub.model.text import is_name, quote

LinkKind = Literal["copy", "symlink"]


@dataclass(frozen=True, slots=True)
class Wanted:
    """One line of ``[skills]``: a skill of a source within a range, or something local."""

    source: str | None = None
    version: str | None = None
    path: str | None = None


@dataclass(frozen=True, slots=True)
class ProposedSource:
    """A source that the repository proposes; to a user who does not have it, it is a Question."""

    url: str
    root: Digest | None = None


@dataclass(frozen=True, slots=True)
class Intent:
    """The whole file; an absent one is an empty one."""

    skills: Mapping[str, Wanted] = field(default_factory=dict)
    sources: Mapping[str, ProposedSource] = field(default_factory=dict)
    agents: tuple[str, ...] = ()
    link: LinkKind | None = None

    @classmethod
    def parse(cls, data: bytes, where: str = "skillhub.toml") -> Intent:
        """Return the intent that these bytes spell.

        Raises:
            FormatError: not TOML, or a key that is unknown or of the wrong kind; nothing is skipped,
                for what a team wrote and skillhub does not heed would be a false promise.
        """
        try:
            document = tomllib.loads(data.decode("utf-8"))
        except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
            raise FormatError(f"not TOML: {error}", where=where) from error
        known = {"skills", "sources", "install"}
        if strange := sorted(document.keys() - known):
            hint = f"this version knows {', '.join(f'[{key}]' for key in sorted(known))}"
            raise FormatError(f"unknown section {quote(strange[0])}", where=where, hint=hint)
        install = _table(document.get("install", {}), {"agents": list, "link": str}, f"{where}: install")
        if install.get("link", "copy") not in ("copy", "symlink"):
            raise FormatError(
                f'expected "copy" or "symlink", found {quote(install["link"])}', where=f"{where}: install.link"
            )
        return cls(
            _blocks(document.get("skills", {}), is_name, _wanted, f"{where}: skills"),
            _blocks(document.get("sources", {}), is_alias, _source, f"{where}: sources"),
            tuple(str(agent) for agent in install.get("agents", ())),
            cast("LinkKind | None", install.get("link")),
        )


def _blocks(
    value: object, is_good: Callable[[str], bool], read: Callable[[object, str], Any], where: str
) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise FormatError(f"expected a table, found {quote(value)}", where=where)
    for name in value:
        if not is_good(name):
            raise FormatError(f"{quote(name)} is no name", where=where)
    return {name: read(block, f"{where}.{name}") for name, block in value.items()}


def _table(value: object, known: Mapping[str, type], where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise FormatError(f"expected a table, found {quote(value)}", where=where)
    for key, item in value.items():
        if key not in known:
            raise FormatError(f"unknown key {quote(key)}", where=where, hint=f"known: {', '.join(known)}")
        if not isinstance(item, known[key]):
            raise FormatError(f"expected {known[key].__name__}, found {quote(item)}", where=f"{where}.{key}")
    return value


def _wanted(value: object, where: str) -> Wanted:
    # `name = "^1.2"` is the short spelling that cargo's users expect.
    table = {"version": value} if isinstance(value, str) else value
    wanted = Wanted(**_table(table, {"source": str, "version": str, "path": str}, where))
    if wanted.path is not None and (wanted.source or wanted.version):
        raise FormatError("a path goes with neither source nor version", where=where)
    if wanted.source is not None and not is_alias(wanted.source):
        raise FormatError(f"{quote(wanted.source)} is no source", where=f"{where}.source")
    return wanted


def _source(value: object, where: str) -> ProposedSource:
    table = _table(value, {"url": str, "root": str}, where)
    if "url" not in table:
        raise FormatError("the key 'url' is missing", where=where)
    root = Digest.parse(table["root"], f"{where}.root") if "root" in table else None
    return ProposedSource(table["url"], root)

"""One skill of the lock and one source of it: what they say, and that it says in one way where bytes come from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from skillhub.errors import FormatError, UsageError
from skillhub.model.lock_fields import (
    OFFERED,
    ORIGINS,
    Capability,
    Commit,
    InnerPath,
    LockDigest,
    Need,
    Path,
    Repository,
    Signers,
    Size,
    TreeDigest,
    Url,
)
from skillhub.model.ref import Git, GitHub, parse_remote
from skillhub.model.syntax.document import Absent, Items, Visible, part
from skillhub.model.text import is_alias, is_inner_path, quote
from skillhub.model.version import is_version

LOCAL = "local"  # the `source` of what has a `path` on this machine
_PLUGIN = "?plugin="  # what follows it in a `source` is the plugin of a marketplace that the skill is part of
_SKILL = "skill:"  # what a need of another skill begins with
_PLAIN = re.compile(r"(?:(?:0|[1-9][0-9]{0,8})(?:\.(?!\Z)|\Z)){3}", re.ASCII)


def _is_empty(values: tuple[str, ...]) -> bool:
    return not values


@part
@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """A patch that a team agreed to, on top of what the source of a skill has.

    Attributes:
        base: The tree that the source has and its publisher signed.
        digest: Of the patch's bytes.
        path: Where it is, below the folder of the lock.
    """

    base: TreeDigest
    digest: LockDigest
    path: InnerPath


@part
@dataclass(frozen=True, slots=True, kw_only=True)
class Locked:
    """One skill as agreed to: ``tree`` binds, the rest says where the bytes are from and what they may do.

    Where the project has a ``patch``, ``tree`` is what comes of it, and so is what the skill can do and requires.

    A registry's skill has ``url``, ``digest`` and ``version``, and its ``source`` stands in ``sources``. A local
    one has ``path``, relative to the project if inside of it, and ``local`` for a source. One that was asked for
    by the place it lies at has that reference for a source, less the skill: from a git repository with ``git``,
    ``rev`` and the folder in it as ``path``, from elsewhere with ``url``, and ``digest`` if the site has any.
    ``signed_by`` empty means unsigned.
    """

    NEEDED: ClassVar = ("capabilities", "requires")
    SCHEMA: ClassVar = {"anyOf": [*ORIGINS, OFFERED]}

    source: Visible
    tree: TreeDigest
    size: Size
    version: Absent[Visible] = None
    url: Absent[Url] = None
    digest: Absent[LockDigest] = None
    git: Absent[Repository] = None
    rev: Absent[Commit] = None
    path: Absent[Path] = None
    capabilities: Items[Capability] = ()
    requires: Items[Need] = ()
    # What nobody signed has no key: an empty list would be a second way to say so.
    signed_by: Annotated[Signers, Field(exclude_if=_is_empty, json_schema_extra={"minItems": 1})] = ()
    patch: Absent[Patch] = None

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
    def dependencies(self) -> tuple[str, ...]:
        """The names of the skills that it needs."""
        return tuple(need.removeprefix(_SKILL) for need in self.requires if need.startswith(_SKILL))

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


@part
@dataclass(frozen=True, slots=True, kw_only=True)
class LockedSource:
    """Where an alias pointed when its skills were locked; ``root`` is the SHA-256 of its ``1.root.json``.

    ``kind`` is ``registry``, or ``well-known`` for a site that is none and so has no root.
    """

    SCHEMA: ClassVar = {
        "oneOf": [
            {"properties": {"kind": {"const": "registry"}}, "required": ["root"]},
            {"properties": {"kind": {"const": "well-known"}, "root": False}},
        ]
    }

    kind: Literal["registry", "well-known"]
    url: Url
    root: Absent[LockDigest] = None

    def check(self) -> None:
        """Refuse a registry without a root, and a root of what is none.

        Raises:
            FormatError: it is one of these.
        """
        if (self.root is None) == (self.kind == "registry"):
            article = "a" if self.root is None else "no"
            raise FormatError(f"expected {article} root of a {self.kind}", where=".root")

    def __str__(self) -> str:
        return f"{self.url} with root {self.root}" if self.root else f"{self.url}, which is no registry"


def check_origin(entry: Locked, kinds: Mapping[str, str], where: str) -> None:
    """Return if the entry says in one way where its bytes come from.

    Args:
        entry: One skill of a lock.
        kinds: The kind of each source of the lock, by alias.
        where: The entry, for the error.

    Raises:
        FormatError: it says nothing, too much, or two things; ``where`` names the key.
    """
    if entry.local:
        return _have(entry, (), ("git", "rev", "url"), where)
    if entry.named:
        kind = kinds.get(entry.source)
        is_site = kind == "well-known"
        _have(entry, ("url",) if is_site else ("digest", "url", "version"), ("git", "path", "rev"), where)
        if kind is None:
            raise FormatError(f"{quote(entry.source)} is not in sources", where=f"{where}.source")
        return None
    return _check_place(entry, where)


def check_version(version: str, where: str) -> None:
    """Return if a registry's release may have this version.

    Raises:
        FormatError: it is none by Semantic Versioning 2.0.0.
    """
    if not _PLAIN.fullmatch(version) and not is_version(version):
        message = f"expected a version by Semantic Versioning 2.0.0, found {quote(version)}"
        raise FormatError(message, where=where)


def _check_place(entry: Locked, where: str) -> None:
    try:
        ref = parse_remote(entry.place)
    except UsageError as error:
        raise FormatError(error.message, where=f"{where}.source") from error
    if entry.git is None:
        return _have(entry, ("url",), ("path", "rev"), where)
    _have(entry, ("rev",), ("digest", "url"), where)
    # The source is what a person is shown, and whom a policy permits; a plugin may lie in another repository.
    if not isinstance(ref, Git | GitHub) or not (entry.plugin or ref.is_at(entry.git)):
        message = f"expected the repository of {quote(entry.source)}, found {quote(entry.git)}"
        raise FormatError(message, where=f"{where}.git")
    if entry.path is not None and not is_inner_path(entry.path):
        raise FormatError(
            f"expected a folder of the repository, found {quote(entry.path)}", where=f"{where}.path"
        )
    return None


def _have(entry: Locked, needed: tuple[str, ...], unwanted: tuple[str, ...], where: str) -> None:
    for key in unwanted:
        if getattr(entry, key) is not None:
            message = f"expected no {key} of what comes from {quote(entry.source)}"
            raise FormatError(message, where=f"{where}.{key}")
    for key in needed:
        if getattr(entry, key) is None:
            message = f"expected a {key} of what comes from {quote(entry.source)}"
            raise FormatError(message, where=f"{where}.{key}")

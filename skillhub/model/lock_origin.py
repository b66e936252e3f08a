"""Where a lock says that bytes come from: in one way, and one that its parts agree on."""

from __future__ import annotations

import re
from collections.abc import Mapping

from skillhub.errors import FormatError, UsageError
from skillhub.model.text import quote

_PLAIN = re.compile(r"(?:(?:0|[1-9][0-9]{0,8})(?:\.(?!\Z)|\Z)){3}", re.ASCII)
TYPE_CHECKING = False  # as type checkers know it: without `typing` a command starts 2 ms sooner
if TYPE_CHECKING:
    from typing import Protocol

    class Entry(Protocol):
        """What is looked at of one locked skill; its keys are those of ``lock.Locked``."""

        @property
        def source(self) -> str:
            """As the lock spells it."""
            ...

        @property
        def git(self) -> str | None:
            """The repository."""
            ...

        @property
        def path(self) -> str | None:
            """A folder of it, or something on this machine."""
            ...

        @property
        def local(self) -> bool:
            """Whether it lies on this machine."""
            ...

        @property
        def named(self) -> bool:
            """Whether its source is an alias."""
            ...

        @property
        def place(self) -> str:
            """Its source, less the plugin."""
            ...

        @property
        def plugin(self) -> str | None:
            """The plugin that it is part of."""
            ...


def check_origin(entry: Entry, kinds: Mapping[str, str], where: str) -> None:
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
    if not _PLAIN.fullmatch(version):
        from skillhub.model.version import is_version  # noqa: PLC0415 - 1 ms, and most versions are plain

        if not is_version(version):
            message = f"expected a version by Semantic Versioning 2.0.0, found {quote(version)}"
            raise FormatError(message, where=where)


def _check_place(entry: Entry, where: str) -> None:
    from skillhub.model.ref import Git, GitHub, is_inner_path, parse_remote  # noqa: PLC0415 - 4 ms, and seldom needed

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


def _have(entry: Entry, needed: tuple[str, ...], unwanted: tuple[str, ...], where: str) -> None:
    for key in unwanted:
        if getattr(entry, key) is not None:
            message = f"expected no {key} of what comes from {quote(entry.source)}"
            raise FormatError(message, where=f"{where}.{key}")
    for key in needed:
        if getattr(entry, key) is None:
            message = f"expected a {key} of what comes from {quote(entry.source)}"
            raise FormatError(message, where=f"{where}.{key}")

"""Reads what a person gives on the command line: files, and the options of a flow."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from skillhub.cli.common import Common
from skillhub.errors import FormatError, NotFound, UsageError
from skillhub.flows.options import McpChoice, Options
from skillhub.world import files

if TYPE_CHECKING:
    from skillhub.model.digest import Digest
    from skillhub.model.lock import Lock
    from skillhub.model.record import LinkKind

_T = TypeVar("_T")

_PEM_CAP = 1 << 16
_ENV_FILE_CAP = 1 << 20
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_A_NAME = "NAME=VALUE; a name has letters, digits and _, and no digit first"


def read_file(path: str, cap: int = _PEM_CAP) -> bytes:
    """Return the bytes of a file, by default of at most 64 KiB, which no key or certificate exceeds; a link will do.

    Raises:
        NotFound: there is none.
        FormatError: it is larger.
        StateError: it cannot be read.
    """
    data = files.read(os.path.realpath(os.path.expanduser(path)), cap)
    if data is None:
        raise NotFound("there is no such file", where=path)
    return data


def read_as(path: str, parse: Callable[[bytes], _T]) -> _T:
    """Return what ``parse`` makes of a file.

    Raises:
        NotFound, StateError: as for ``read_file``.
        FormatError: it is something else; the file is named.
    """
    try:
        return parse(read_file(path))
    except FormatError as error:
        error.where = error.where or path
        raise


def read_lock(path: str) -> Lock:
    """Return the lock at a path that a person named; ``-`` is what comes on stdin."""
    from skillhub.model.lock import CAP, Lock

    if path == "-":
        return Lock.parse(sys.stdin.buffer.read(CAP + 1), "stdin")
    return Lock.parse(read_file(path, CAP), path)


def options_of(
    common: Common,
    agent: list[str] | None,
    env: list[str] | None,
    env_file: str | None,
    mcp: McpChoice,
    link: LinkKind | None,
    no_enable: bool = False,
) -> Options:
    """Return what these options spell, for a flow.

    Raises:
        UsageError: a variable without a value, or a file that is none.
    """
    values = _read_env_file(env_file) if env_file else {}
    for number, word in enumerate(env or [], 1):
        # The word is not shown: it may be a value, with = in it or not, that lost its name.
        name, has_value, value = word.partition("=")
        if has_value and not _VARIABLE.fullmatch(name):
            message = f"--env number {number} does not begin with the name of a variable and ="
            raise UsageError(message, hint=_A_NAME)
        if not has_value and name not in os.environ:
            message = f"--env number {number} has no value, and the process has no variable of that name"
            raise UsageError(message, hint="--env NAME=VALUE, or export NAME first and give --env NAME")
        values[name] = value if has_value else os.environ[name]
    return Options(
        agents=tuple(agent or ()),
        env=values,
        mcp=mcp,
        link=link,
        enable=not no_enable,
        dry_run=common.dry_run,
    )


def trusted_sources(given: list[str] | None) -> Mapping[str, Digest]:
    """Return what ``--trust-source NAME=sha256:…`` says, by alias.

    Raises:
        UsageError: one is not of that form, or one alias has two roots.
    """
    from skillhub.model.digest import Digest
    from skillhub.model.text import is_alias, quote

    found: dict[str, Digest] = {}
    for word in given or ():
        alias, _, text = word.partition("=")
        try:
            root = Digest.parse(text)
        except FormatError as error:
            message = f"--trust-source expects NAME=sha256:…, found {quote(word)}"
            raise UsageError(message, hint="the SHA-256 of its 1.root.json, in 64 digits") from error
        if not is_alias(alias):
            raise UsageError(f"--trust-source: {quote(alias)} cannot name a source")
        if found.setdefault(alias, root) != root:
            raise UsageError(f"--trust-source gives {alias} two roots")
    return found


def _read_env_file(path: str) -> dict[str, str]:
    data = files.read(os.path.realpath(path), _ENV_FILE_CAP)
    if data is None:
        raise UsageError("--env-file names no file", where=path)
    values = {}
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        text = line.strip().removeprefix("export ").strip()
        if not text or text.startswith("#"):
            continue
        name, has_value, value = text.partition("=")
        if not has_value or not _VARIABLE.fullmatch(name.strip()):
            # The line is not shown: it may be a value that lost its name.
            raise UsageError("expected NAME=VALUE", where=f"{path}:{number}", hint=_A_NAME)
        bare = value.strip()
        is_quoted = len(bare) > 1 and bare[0] == bare[-1] and bare[0] in "\"'"
        values[name.strip()] = bare[1:-1] if is_quoted else bare
    return values

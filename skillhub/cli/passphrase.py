"""Gets passphrases from a variable or a person, never from the command line, which others can read."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

from skillhub.cli.common import Common
from skillhub.errors import PassphraseNeeded, UsageError

VARIABLE = "SKILLHUB_PASSPHRASE"
_T = TypeVar("_T")


def new_passphrase(what: str, common: Common) -> bytes | None:
    """Return a passphrase for something new: as given, else as typed twice; None protects by file mode alone.

    Raises:
        UsageError: the two differ.
    """
    if (found := _given()) is not None or not common.asks:
        return found
    first = common.terminal.secret(f"{what}: a passphrase (empty for none):")
    if first and common.terminal.secret("the same again:") != first:
        raise UsageError("the two passphrases differ")
    return first.encode() or None


def with_passphrase(what: str, common: Common, use: Callable[[bytes | None], _T]) -> _T:
    """Return what ``use`` returns, asking a person only where the key turns out to be encrypted.

    Raises:
        PassphraseNeeded: it is, and nobody is there.
        FormatError: what was given or typed is not the passphrase.
    """
    found = _given()
    if found is not None or not common.asks:
        return use(found)
    try:
        return use(None)
    except PassphraseNeeded:
        return use(common.terminal.secret(f"{what}:").encode())


def _given() -> bytes | None:
    value = os.environ.get(VARIABLE)
    return value.encode() if value else None

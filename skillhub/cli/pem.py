"""Keys and certificates that a person names by a file."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

from skillhub.errors import FormatError, NotFound
from skillhub.world import files

_T = TypeVar("_T")

_CAP = 1 << 16


def read_pem(path: str) -> bytes:
    """Return the bytes of a file of at most 64 KiB; a link to it will do.

    Raises:
        NotFound: there is none.
        FormatError: it is larger.
        StateError: it cannot be read.
    """
    data = files.read(os.path.realpath(os.path.expanduser(path)), _CAP)
    if data is None:
        raise NotFound("there is no such file", where=path)
    return data


def read_as(path: str, parse: Callable[[bytes], _T]) -> _T:
    """Return what ``parse`` makes of a file.

    Raises:
        NotFound, StateError: as for ``read_pem``.
        FormatError: it is something else; the file is named.
    """
    try:
        return parse(read_pem(path))
    except FormatError as error:
        error.where = error.where or path
        raise

"""Files that a person names on the command line."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

from skillhub.errors import FormatError, NotFound
from skillhub.world import files

_T = TypeVar("_T")

_PEM_CAP = 1 << 16


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

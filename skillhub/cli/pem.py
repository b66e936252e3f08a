"""Keys and certificates that a person names by a file."""

from __future__ import annotations

import os

from skillhub.errors import NotFound
from skillhub.world import files

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

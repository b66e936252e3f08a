"""Bytes that were fetched before, by their SHA-256; whatever is taken out is hashed again, so nothing is trusted.

Safe to delete at any time, safe beside other processes, and no failure if the disk is full or read-only.
"""

from __future__ import annotations

import os
from contextlib import suppress

from skillhub.errors import FormatError, StateError
from skillhub.model.digest import Digest
from skillhub.world import files
from skillhub.world.fetch import Answer

_TYPE_MAX = 256  # bytes of that line


class Cache:
    """A folder of files named by the digest of their bytes, which stand below a line with their media type.

    Nobody vouches for the media type.

    Args:
        folder: It.
        fixed: Whether it is read alone.
    """

    def __init__(self, folder: str, *, fixed: bool = False) -> None:
        self._folder = folder
        self._fixed = fixed

    def get(self, digest: Digest, url: str, limit: int) -> Answer | None:
        """Return the bytes of this digest as the answer of ``url``, if they are here and no more than ``limit``."""
        try:
            found = files.read(self._path(digest), limit + _TYPE_MAX + 1)
        except (FormatError, StateError):
            return None
        if found is None:
            return None
        content_type, _, data = found.partition(b"\n")
        if Digest.of(data) != digest:
            # Cut off by a power failure, or put there by somebody: it goes, and is fetched again.
            with suppress(OSError):
                if not self._fixed:
                    os.unlink(self._path(digest))
            return None
        return Answer(url, data, content_type.decode("latin-1"))

    def put(self, digest: Digest, answer: Answer) -> None:
        """Keep the bytes of an answer, which have this digest."""
        if self._fixed:
            return
        content_type = answer.content_type.encode("latin-1", "replace").replace(b"\n", b" ")[:_TYPE_MAX]
        with suppress(StateError):
            files.write_atomic(self._path(digest), content_type + b"\n" + answer.data, mode=0o600, sync=False)

    def _path(self, digest: Digest) -> str:
        return os.path.join(self._folder, digest.hex[:2], digest.hex)

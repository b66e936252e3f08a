"""SHA-256 digests in the form of all skillhub documents: ``sha256:<64 hex>``."""

from __future__ import annotations

import re
from hashlib import sha256

from skillhub.errors import FormatError
from skillhub.formats.text import quote

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def is_hex(text: str) -> bool:
    """Return whether ``text`` is the 64 lowercase hex digits of a SHA-256, the form without a prefix."""
    return len(text) == 64 and not text.strip("0123456789abcdef")


class Digest(str):
    """A checked ``sha256:<64 lowercase hex>``; it compares, sorts and serialises as a string."""

    __slots__ = ()

    @classmethod
    def of(cls, data: bytes) -> Digest:
        """Return the digest of these bytes."""
        return cls("sha256:" + sha256(data).hexdigest())

    @classmethod
    def parse(cls, text: object, where: str | None = None) -> Digest:
        """Return the digest in ``text``.

        Raises:
            FormatError: ``text`` is not ``sha256:`` and 64 lowercase hex digits.
        """
        if not isinstance(text, str) or not _DIGEST.fullmatch(text):
            raise FormatError(f"expected sha256: and 64 lowercase hex digits, found {quote(text)}", where=where)
        return cls(text)

    @property
    def hex(self) -> str:
        """The 64 hex digits alone."""
        return self[7:]


NO_FILES = Digest.of(b"")  # the digest of a tree without files, which no skill has

"""The headers of a tar file that speak of the entry after them: pax records and GNU long names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from skillhub.archive.entry import unsafe
from skillhub.model.text import quote

PAX: Final = b"x"
GLOBAL: Final = b"g"
LONG_NAME: Final = b"L"
LONG_LINK: Final = b"K"

_MAX_BYTES: Final = 64 << 10
_MAX_HEADERS: Final = 2
# macOS writes a dozen or so; 64 KiB could hold thousands.
_MAX_RECORDS: Final = 64
_RECORD: Final = re.compile(rb"([1-9][0-9]{0,4}) ([^=]+)=")
# What would make an entry another: a link, a sparse file, one of another size, type or encoding.
_REFUSED: Final = re.compile(
    r"linkpath|hdrcharset|GNU\..*|SCHILY\.(?:realsize|filetype|offset)|SUN\.holesdata", re.DOTALL
)


class Pending:
    """What the headers read since the last entry say of the next one: its name, or its size once more."""

    def __init__(self) -> None:
        self.count = 0
        self.name: bytes | None = None
        self.size: bytes | None = None
        self._kinds: set[bytes] = set()

    def expect(self, kind: bytes, size: int) -> None:
        """Refuse a header that is one too many or too large, before its ``size`` bytes are read.

        Raises:
            UnsafeArchive: ``tar-header``, ``tar-pax``, ``tar-long-name``.
        """
        self.count += 1
        reason = "tar-long-name" if kind == LONG_NAME else "tar-pax"
        if kind == LONG_LINK:
            raise unsafe("tar-long-name", "a skill holds no links, found the long target of one")
        if size > _MAX_BYTES:
            raise unsafe(reason, f"expected at most {_MAX_BYTES} bytes in a header, found {size}")
        if kind in self._kinds:
            raise unsafe(reason, "expected one header of a kind before an entry, found two")
        if self.count > _MAX_HEADERS:
            raise unsafe("tar-header", f"expected at most {_MAX_HEADERS} headers before an entry")
        self._kinds.add(kind)

    def take(self, kind: bytes, body: bytes) -> None:
        """Read the body of a header.

        Raises:
            UnsafeArchive: ``tar-header`` (a record is malformed), ``tar-pax``, ``tar-long-name``.
        """
        if kind == LONG_NAME:
            self._rename(body.removesuffix(b"\0"), "tar-long-name")
            return
        keys: set[str] = set()
        for key, value in _records(body):
            if key in keys or len(keys) >= _MAX_RECORDS:
                raise unsafe("tar-pax", f"expected one value for each key, found {quote(key)} once more")
            keys.add(key)
            self._note(key, value, kind)

    def _note(self, key: str, value: bytes, kind: bytes) -> None:
        if _REFUSED.fullmatch(key) or (kind == GLOBAL and key in ("path", "size")):
            raise unsafe("tar-pax", f"the pax key {quote(key)} would make an entry another than it says")
        if key == "path":
            self._rename(value, "tar-pax")
        elif key == "size":
            self.size = value

    def _rename(self, name: bytes, reason: str) -> None:
        if not name or self.name is not None:
            raise unsafe(reason, "expected one long name for an entry, found none or a second")
        self.name = name


def _records(body: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield key and value of ``LENGTH KEY=VALUE LF`` (POSIX.1-2017, pax), the length counting all of it."""
    at = 0
    while at < len(body):
        match = _RECORD.match(body, at)
        stop = at + int(match[1]) if match else 0
        if match is None or not match.end() < stop <= len(body) or body[stop - 1 : stop] != b"\n":
            raise unsafe("tar-header", "a pax record is malformed or lies about its length")
        try:
            key = match[2].decode()
        except UnicodeDecodeError as error:
            raise unsafe("tar-header", "a pax key is not UTF-8") from error
        yield key, body[match.end() : stop - 1]
        at = stop

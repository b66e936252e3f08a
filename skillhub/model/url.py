"""What a URL is to us: one way to take it apart, and what lies below another."""

from __future__ import annotations

import re
from collections.abc import Iterable

from skillhub.model.dataclass import dataclass

# The usual port of each scheme that has one here.
PORTS = {"https": 443, "http": 80, "ssh": 22, "oci": None, "file": None}
# RFC 3986, appendix B, stricter: nothing in it that some drop (tabs, line feeds), a host without blanks, a port that
# is a number. The user ends at the last `@`; an IPv6 address may have a zone.
_URL = (
    r"(?![^\0-\x1f\x7f]*[\0-\x1f\x7f])([A-Za-z][A-Za-z0-9+.-]*)://(?:([^/?#\[\]]*)@)?"
    r"(\[[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*(?:%[0-9A-Za-z._~-]+)?\]|[^\s/?#@:\[\]\\]*)(?::([0-9]{0,5}))?"
    r"(|/[^?#]*)(?:\?([^#]*))?(?:#.*)?"
)
_USER = r"://[^/?#]*@"
_SCP = r"(?a)([\w.-]+@[\w.-]+):/?([^/:\s][^:\s]*)"
_ESCAPED = rb"%([0-9A-Fa-f]{2})"


@dataclass(frozen=True, slots=True)
class Url:
    """The parts of a URL.

    Attributes:
        user: What stands before the ``@``, a password among it; None without one.
        host: In lower case, an IPv6 address without its brackets.
        port: The usual one where none is said; None if there is none.
    """

    scheme: str
    user: str | None
    host: str
    port: int | None
    path: str
    query: str


def parse(text: str) -> Url | None:
    """Return the parts of a URL with ``://`` in it, None if it is none."""
    found = re.fullmatch(_URL, text, re.DOTALL)
    if found is None or (found[4] and not 0 < int(found[4]) < 65536):
        return None
    scheme, user, host, port, path, query = found.groups()
    scheme = scheme.lower()
    host = host.lower().strip("[]")
    return Url(scheme, user, host, int(port) if port else PORTS.get(scheme), path, query or "")


def authority(text: str) -> str:
    """Return what a URL says between ``://`` and the path, as it is spelled; empty of what is none."""
    return re.split(r"[/?#]", text.partition("://")[2], maxsplit=1)[0]


def of_repository(text: str) -> str:
    """Return the URL that git means by ``user@host:path``; what is not spelled so is left as it is."""
    found = None if "://" in text else re.fullmatch(_SCP, text)
    return f"ssh://{found[1]}/{found[2]}" if found else text


def names_user(text: str) -> bool:
    """Say whether something stands before the host: a user, and maybe a password."""
    return "@" in text and re.match(rf"[^/?#]*{_USER}", text) is not None


def masked(text: str) -> str:
    """Return the text without what may be a password in it."""
    # A password may hold what ends a host: of what it is in doubt, more is hidden.
    return re.sub(r"://[^/\s]*@", "://…@", text)


def is_prefix(text: str) -> bool:
    """Say whether ``text`` is a URL that others can lie below: https, http, ssh, oci with a host, or file."""
    return _placed(text) is not None


def is_under(text: str, prefix: str) -> bool:
    """Say whether a URL is ``prefix`` or lies below it; segments are compared whole, a user name not at all.

    A path that a server may take for another one is below nothing: one with ``.``, ``..`` or an empty segment, plain
    or percent-encoded, or with an encoded slash.
    """
    mine, theirs = _placed(text), _placed(prefix)
    if mine is None or theirs is None or mine[0] != theirs[0]:
        return False
    return mine[1][: len(theirs[1])] == theirs[1]


def base_of(url: str, bases: Iterable[str]) -> str | None:
    """Return the longest of these, none of which ends with a slash, that ``url`` begins with, letter by letter."""
    found = [base for base in bases if url == base or url.startswith((base + "/", base + "?"))]
    return max(found, key=len, default=None)


def _segments(path: str) -> list[bytes]:
    """Return what stands between the slashes of a path, percent-decoded."""
    return [
        re.sub(_ESCAPED, lambda found: bytes([int(found[1], 16)]), each)
        for each in path.encode("utf-8", "surrogatepass").split(b"/")
    ]


def _placed(text: str) -> tuple[tuple[str, str, int | None], tuple[bytes, ...]] | None:
    """Return where a URL is, and the segments of its path."""
    url = parse(text)
    if url is None or url.scheme not in PORTS or (not url.host) != (url.scheme == "file") or "\\" in text:
        return None
    path = _segments(url.path)[1:]
    if path and not path[-1]:
        path.pop()
    if any(each in (b"", b".", b"..") or not {*each}.isdisjoint(b"/\\\0") for each in path):
        return None
    return (url.scheme, url.host, url.port), tuple(path)

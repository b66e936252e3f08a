"""Whether one URL lies below another: of the same scheme, host and port, at or below its path."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import unquote, urlsplit

_PORTS = {"https": 443, "http": 80, "ssh": 22, "oci": None, "file": None}


class _Parts(NamedTuple):
    scheme: str
    host: str
    port: int | None
    path: tuple[str, ...]


def is_prefix(text: str) -> bool:
    """Say whether ``text`` is a URL that others can lie below: https, http, ssh, oci with a host, or file."""
    return _parts(text) is not None


def is_under(url: str, prefix: str) -> bool:
    """Say whether ``url`` is ``prefix`` or lies below it; segments are compared whole, a user name not at all.

    A path that a server may take for another one is below nothing: one with ``.``, ``..`` or an empty segment, plain
    or percent-encoded, or with an encoded slash.
    """
    mine, theirs = _parts(url), _parts(prefix)
    if mine is None or theirs is None or mine[:3] != theirs[:3]:
        return False
    return mine.path[: len(theirs.path)] == theirs.path


def _parts(url: str) -> _Parts | None:
    try:
        split = urlsplit(url)
        port = split.port
    except ValueError:
        return None
    host = split.hostname or ""
    if split.scheme not in _PORTS or (not host) != (split.scheme == "file") or "\\" in url:
        return None
    segments = [unquote(each) for each in split.path.split("/")[1:]]
    if segments and not segments[-1]:
        segments.pop()
    if any(each in ("", ".", "..") or "/" in each or "\\" in each or "\0" in each for each in segments):
        return None
    return _Parts(split.scheme, host, port or _PORTS[split.scheme], tuple(segments))

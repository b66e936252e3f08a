"""How the files of a registry's site are served, by whichever server: as what, and how long they may be kept."""

from __future__ import annotations

import os
import re

_TYPES = {
    ".json": "application/json",
    ".md": "text/markdown; charset=utf-8",
    ".zip": "application/zip",
    ".gz": "application/gzip",
}
# A version or a hash in the name: what is under it never changes.
_FIXED = re.compile(r"(?:[0-9]+\.[^/]+\.json|[0-9a-f]{64}\.[^/]+)", re.ASCII)


def is_fixed(path: str) -> bool:
    """Say whether what is under this name is never to change."""
    return _FIXED.fullmatch(path.rpartition("/")[2]) is not None


def media_type(path: str) -> str:
    """Return the media type of a file."""
    return _TYPES.get(os.path.splitext(path)[1], "application/octet-stream")


def cache_control(path: str) -> str:
    """Return how long others may keep it, as ``Cache-Control`` says it."""
    return "public, max-age=31536000, immutable" if is_fixed(path) else "public, max-age=60"

"""The documents that every new client wants, whatever it installs, in one file: four round trips for one.

A transport and nothing more. A client takes a document out of it where it would have fetched that very one, by its
name and version, and verifies it all the same; one that is stale or not there is fetched on its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from skillhub.trust.roles import NAMESPACES, RELEASES, SNAPSHOT, TARGETS

AHEAD_PATH = "metadata/ahead.txt"
_WANTED = tuple(f".{role}.json" for role in (SNAPSHOT, TARGETS, NAMESPACES, RELEASES))


def is_ahead(name: str) -> bool:
    """Say whether a document of that name may be among those that are packed."""
    return name.endswith(_WANTED)


def ahead(files: Mapping[str, bytes]) -> bytes:
    """Return the file made of a registry's newest metadata, given by path: for each a line of name and document."""
    rows = {path.rpartition("/")[2]: data for path, data in files.items() if is_ahead(path)}
    return b"".join(b"%s %s\n" % (name.encode(), data) for name, data in rows.items() if b"\n" not in data)


def read_ahead(data: bytes) -> Mapping[str, bytes]:
    """Return the documents by name. Bytes that are something else hold nothing that is asked for.

    Roots and the timestamp are always fetched: they say what is newest.
    """
    rows = (line.partition(b" ") for line in data.split(b"\n"))
    found = {name.decode("latin-1"): document for name, _, document in rows}
    return MappingProxyType({name: data for name, data in found.items() if is_ahead(name)})

"""Git objects and packs as static files, written and read without the program git.

Packs hold whole objects, no deltas, so any packs can be served together, and their bytes depend only on the objects.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha1
from itertools import accumulate
from struct import pack, unpack_from
from typing import Final

from skillhub.errors import WrongBytes
from skillhub.model.tree import Tree
from skillhub.sources.git_program import object_id, tree_of

FOLDER: Final = "40000"
PACK_MAX: Final = 32 << 20  # bytes of content, after which a new pack begins
_CONTENT_MAX: Final = 128 << 20  # bytes of content of a pack that is read; ours have `PACK_MAX` and one skill
_KINDS: Final = {"commit": 1, "tree": 2, "blob": 3}
_BY_NUMBER: Final = {number: kind for kind, number in _KINDS.items()}
_HEAD, _ID = 12, 20
_PART: Final = 4096


class Objects(dict[str, tuple[str, bytes]]):
    """Objects by id, each with its kind and its content."""

    def put(self, kind: str, data: bytes) -> str:
        """Add an object, and return its id."""
        id_ = object_id(kind, data)
        self[id_] = kind, data
        return id_

    def put_files(self, files: Tree) -> str:
        """Add all files, and return the id of their folder."""
        modes = "100644", "100755"
        entries = {path: (modes[file.executable], self.put("blob", file.data)) for path, file in files.items()}
        return self.put_folder(entries)

    def put_folder(self, entries: Mapping[str, tuple[str, str]]) -> str:
        """Add a folder, and return its id; ``entries`` has mode and id of each path below it."""
        direct: dict[str, tuple[str, str]] = {}
        deeper: dict[str, dict[str, tuple[str, str]]] = {}
        for path, entry in entries.items():
            head, is_deeper, tail = path.partition("/")
            if is_deeper:
                deeper.setdefault(head, {})[tail] = entry
            else:
                direct[head] = entry
        direct |= {name: (FOLDER, self.put_folder(inner)) for name, inner in deeper.items()}
        return self.put("tree", tree_of((mode, name, id_) for name, (mode, id_) in direct.items()))

    def without(self, ids: Collection[str]) -> Objects:
        """Return all objects except these."""
        return Objects((id_, entry) for id_, entry in self.items() if id_ not in ids)

    def size(self) -> int:
        """Return the total size of all content in bytes."""
        return sum(len(data) for _, data in self.values())


@dataclass(frozen=True, slots=True)
class Pack:
    """A pack file and its index file."""

    data: bytes
    index: bytes

    @property
    def name(self) -> str:
        """The part of the file names after ``pack-``: the checksum of the pack in hex."""
        return self.data[-_ID:].hex()


def packed(objects: Mapping[str, tuple[str, bytes]], level: int) -> Pack:
    """Return a pack of these objects in the order of their ids, deflated at this zlib level."""
    out = bytearray(b"PACK" + pack(">II", 2, len(objects)))
    rows = []
    for id_ in sorted(objects):
        kind, data = objects[id_]
        entry = _length(_KINDS[kind], len(data)) + zlib.compress(data, level)
        rows.append((id_, zlib.crc32(entry), len(out)))
        out += entry
    out += sha1(out, usedforsecurity=False).digest()
    return Pack(bytes(out), _index(rows, bytes(out[-_ID:])))


def read_pack(data: bytes, where: str) -> tuple[Objects, bytes]:
    """Return the objects of a pack, by ids computed from their content, and the index computed for the pack.

    Raises:
        WrongBytes: the data is not a pack, is damaged, has deltas, or more content than any pack of ours.
    """
    if len(data) < _HEAD + _ID or data[:8] != b"PACK\0\0\0\2":
        raise WrongBytes("expected a pack of git", where=where)
    if sha1(data[:-_ID], usedforsecurity=False).digest() != data[-_ID:]:
        raise WrongBytes("expected a pack of git that ends with its checksum", where=where)
    objects, rows, offset, view, left = Objects(), [], _HEAD, memoryview(data)[:-_ID], _CONTENT_MAX
    try:
        for _ in range(unpack_from(">I", data, 8)[0]):
            kind, content, end = _entry(view, offset, left)
            left -= len(content)
            rows.append((objects.put(kind, content), zlib.crc32(view[offset:end]), offset))
            offset = end
    except (zlib.error, IndexError, KeyError) as error:
        raise WrongBytes("expected a pack of whole objects", where=where) from error
    if offset != len(view):
        raise WrongBytes("expected nothing behind the last object of a pack", where=where)
    return objects, _index(sorted(rows), data[-_ID:])


def ids_of(index: bytes) -> list[str]:
    """Return the ids in an index; none if the data is not an index."""
    count = unpack_from(">I", index, 8 + 4 * 255)[0] if index[:8] == b"\xfftOc\0\0\0\2" and len(index) > 1072 else 0
    names = index[1032 : 1032 + _ID * min(count, len(index) // _ID)]
    return [names[offset : offset + _ID].hex() for offset in range(0, len(names), _ID)]


def is_sound(data: bytes, index: bytes, path: str) -> bool:
    """Return whether a pack and its index at this path end with correct checksums, and belong together."""
    ends = [sha1(part[:-_ID], usedforsecurity=False).digest() == part[-_ID:] for part in (data, index)]
    return all(ends) and index[-2 * _ID : -_ID] == data[-_ID:] and path.endswith(f"/pack-{data[-_ID:].hex()}.idx")


def packs(objects: Iterable[Objects], level: int) -> Iterator[Pack]:
    """Yield packs of all these objects; a pack exceeds ``PACK_MAX`` only by its last group of objects."""
    pending = Objects()
    for group in objects:
        pending |= group
        if pending.size() > PACK_MAX:
            yield packed(pending, level)
            pending = Objects()
    if pending:
        yield packed(pending, level)


def _length(number: int, size: int) -> bytes:
    """Return the header of an object: its kind and the lowest four bits of its size, then seven bits in each byte."""
    header, size, current = bytearray(), size >> 4, number << 4 | size & 15
    while size:
        header.append(current | 0x80)
        size, current = size >> 7, size & 0x7F
    return bytes((*header, current))


def _entry(data: memoryview, offset: int, most: int) -> tuple[str, bytes, int]:
    """Return kind, content and end of the object that begins at ``offset``, of at most ``most`` bytes."""
    byte = data[offset]
    kind, size, shift = _BY_NUMBER[byte >> 4 & 7], byte & 15, 4
    while byte & 0x80 and size <= most:
        offset += 1
        byte = data[offset]
        size |= (byte & 0x7F) << shift
        shift += 7
    offset += 1
    inflater, content = zlib.decompressobj(), bytearray()
    while not inflater.eof:
        part = data[offset : offset + _PART]
        content += inflater.decompress(part)
        offset += len(part) - len(inflater.unused_data)
        if not part or len(content) > min(size, most):
            raise IndexError
    if len(content) != size:
        raise IndexError
    return kind, bytes(content), offset


def _index(rows: list[tuple[str, int, int]], trailer: bytes) -> bytes:
    """Return an index (version 2) of these rows: id, checksum and offset of each object."""
    counts = [0] * 256
    for id_, _, _ in rows:
        counts[int(id_[:2], 16)] += 1
    body = b"\xfftOc" + pack(">I256I", 2, *accumulate(counts)) + b"".join(bytes.fromhex(id_) for id_, _, _ in rows)
    body += pack(f">{len(rows)}I", *(crc for _, crc, _ in rows)) + pack(f">{len(rows)}I", *(at for _, _, at in rows))
    body += trailer
    return body + sha1(body, usedforsecurity=False).digest()


def read_object(data: bytes, index: bytes, id_: str) -> bytes:
    """Return the content of one object of a pack.

    Raises:
        WrongBytes: the pack has no such object, or its content does not have that id.
    """
    ids = ids_of(index)
    try:
        (offset,) = unpack_from(">I", index, 1032 + 24 * len(ids) + 4 * ids.index(id_))
        kind, content, _ = _entry(memoryview(data), offset, _CONTENT_MAX)
    except (ValueError, struct.error, zlib.error, IndexError, KeyError) as error:
        raise WrongBytes("expected an object of git", where=id_) from error
    if object_id(kind, content) != id_:
        raise WrongBytes("expected an object of git that its id names", where=id_)
    return content

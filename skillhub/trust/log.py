"""A transparency log: Merkle trees (RFC 6962), signed notes, checkpoints, tiles and cosignatures (C2SP)."""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from skillhub.errors import BadLog, BadSignature, FormatError
from skillhub.formats.digest import Digest
from skillhub.formats.text import quote
from skillhub.model.index import Release
from skillhub.trust.keys import PrivateKey, PublicKey

# The entries of a log: one for each release, and for each change of a publisher's keys and names.


def entry(kind: str, **facts: object) -> bytes:
    """Return an entry of the log; the same facts give the same bytes."""
    return json.dumps({"kind": kind, **facts}, separators=(",", ":"), sort_keys=True).encode()


def release_entry(release: Release) -> bytes:
    """Return the entry of a release, which a client computes from the release to find it in the log."""
    facts = ("name", "version", "publisher", "published", "size", "digest", "tree")
    return entry("release", **{fact: getattr(release, fact) for fact in facts})


# The Merkle tree (RFC 6962, 2.1). A node is named by its level and its index there; leaves have level 0.

TreeNode = tuple[int, int]
HASH = 32
WIDTH = 256  # entries of a full tile
# A client reads the hashes of a chunk of 64 neighbouring leaves, and the sibling hashes on the path to a subtree of
# 1,024 leaves at most. The hashes of all such subtrees come with the checkpoint; if they would be more than 128, the
# subtrees are 64 times as large. So both together never exceed 8 kB.
CHUNK = 6
_TOP, _TOPS_MAX = 10, 128


def leaf_hash(data: bytes) -> bytes:
    """Return the hash of an entry."""
    return sha256(b"\0" + data).digest()


def top_of(size: int) -> int:
    """Return the level of the largest subtrees whose hashes come with the checkpoint, for a tree of this size."""
    top = _TOP
    while size >> top > _TOPS_MAX:
        top += CHUNK
    return top


def subtrees(size: int) -> Iterator[TreeNode]:
    """Yield the complete subtrees that a tree consists of, from left to right, up to the level ``top_of(size)``."""
    start, top = 0, top_of(size)
    while start < size:
        level = min(top, (size - start).bit_length() - 1)
        yield level, start >> level
        start += 1 << level


def parent(left: bytes, right: bytes) -> bytes:
    """Return the hash of the node above two siblings."""
    return sha256(b"\1" + left + right).digest()


def nodes_of(leaves: Sequence[bytes], start: int = 0) -> dict[TreeNode, bytes]:
    """Return the hashes of all complete subtrees of these leaves, the first of which has the index ``start``."""
    nodes: dict[TreeNode, bytes] = {}
    level, row = 0, list(leaves)
    while row:
        nodes |= {(level, (start >> level) + number): digest for number, digest in enumerate(row)}
        row = [parent(*row[number : number + 2]) for number in range(0, len(row) - 1, 2)]
        level += 1
    return nodes


def root_of(nodes: Mapping[TreeNode, bytes], size: int, start: int = 0) -> bytes:
    """Return the hash of the tree of ``size`` leaves from ``start`` on, computed from known nodes.

    Raises:
        BadLog: a needed node is unknown.
    """
    level = max(0, size - 1).bit_length()
    if size == 1 << level:
        with suppress(KeyError):  # then it is computed from those below it
            return nodes[level, start >> level]
    if size == 0:
        return sha256(b"").digest()
    if level == 0:
        raise BadLog("the log lacks a hash that the proof needs")
    half = 1 << (level - 1)
    return parent(root_of(nodes, half, start), root_of(nodes, size - half, start + half))


def tile_path(level: int | str, number: int, width: int = WIDTH) -> str:
    """Return the path of a tile, or with the level ``entries`` that of a bundle of entries (tlog-tiles)."""
    digits = f"{number:0{-(-len(str(number)) // 3) * 3}d}"
    parts = [digits[start : start + 3] for start in range(0, len(digits), 3)]
    name = "/".join([*(f"x{part}" for part in parts[:-1]), parts[-1]])
    return f"tile/{level}/{name}" + (f".p/{width}" if width < WIDTH else "")


def bundle_of(entries: Sequence[bytes]) -> bytes:
    """Return a bundle of entries (tlog-tiles)."""
    return b"".join(len(entry).to_bytes(2) + entry for entry in entries)


def read_bundle(data: bytes) -> list[bytes]:
    """Return the entries of a bundle, at most those of a full tile; the last of a truncated bundle is too short."""
    entries, offset = list[bytes](), 0
    while offset < len(data) and len(entries) < WIDTH:
        end = offset + 2 + int.from_bytes(data[offset : offset + 2])
        entries.append(data[offset + 2 : end])
        offset = end
    return entries


def _subtree_level(chunk: int, size: int) -> int:
    """Return the level of the subtree that contains the beginning of a chunk, in a tree of this size."""
    return min(top_of(size), (chunk << CHUNK ^ size).bit_length() - 1)


def _chunk_width(chunk: int, size: int) -> int:
    return min(1 << CHUNK, size - (chunk << CHUNK))


def proof_path(chunk: int, size: int) -> str:
    """Return the path of the proof of a chunk; the file at this path never changes."""
    width = _chunk_width(chunk, size)
    return f"tile/proof/{chunk}/" + (f"p{width}" if width < 1 << CHUNK else str(_subtree_level(chunk, size)))


def proof_of(nodes: Mapping[TreeNode, bytes], chunk: int, size: int) -> bytes:
    """Return the proof of a chunk: the hashes of its leaves, and the sibling hashes on its path."""
    width, start = _chunk_width(chunk, size), chunk << CHUNK
    leaves = [nodes[0, start + number] for number in range(width)]
    above = range(CHUNK, _subtree_level(chunk, size)) if width == 1 << CHUNK else ()
    return b"".join([*leaves, *(nodes[level, chunk >> (level - CHUNK) ^ 1] for level in above)])


def proof_nodes(data: bytes, chunk: int, head: LogHead) -> Mapping[TreeNode, bytes]:
    """Return the nodes that a chunk's proof proves to be in the tree of this head.

    Raises:
        BadLog: the proof is truncated, forged, or of another tree.
    """
    size, start = head.checkpoint.size, chunk << CHUNK
    width = _chunk_width(chunk, size)
    if width < 1 or len(data) != HASH * (width + max(0, _subtree_level(chunk, size) - CHUNK)):
        raise BadLog(f"expected the proof of entries {start} to {size - 1}, found {len(data)} bytes")
    hashes = [data[offset : offset + HASH] for offset in range(0, len(data), HASH)]
    nodes = nodes_of(hashes[:width], start)
    for level, beside in enumerate(hashes[width:], CHUNK):
        index = chunk >> (level - CHUNK)
        pair = (beside, nodes[level, index]) if index & 1 else (nodes[level, index], beside)
        nodes |= {(level, index ^ 1): beside, (level + 1, index >> 1): parent(*pair)}
    for level, index in head.nodes:
        overlaps = index << level < start + width and start < (index + 1) << level
        if overlaps and nodes.get((level, index)) != head.nodes[level, index]:
            raise BadLog("the proof does not lead to the checkpoint of the log")
    return nodes


# A checkpoint is a signed note (C2SP): a text, an empty line, and a line for each signature.

NOTE_CAP = 1 << 16  # bytes of a note that is read
_SIZE = re.compile(r"0|[1-9][0-9]{0,15}", re.ASCII)
_VKEY = re.compile(r"([^\s+]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/]+=*)", re.ASCII)
_LOG, _COSIGNER = 1, 4  # the kinds of Ed25519 signatures
_MARK = "\N{EM DASH} "


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The signed state of a log: its origin, the number of its entries, and the hash of their tree."""

    origin: str
    size: int
    root: bytes

    @property
    def text(self) -> str:
        """The lines that are signed."""
        return f"{self.origin}\n{self.size}\n{_base64(self.root)}\n"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the checkpoint in a text, which has no other lines.

        Raises:
            BadLog: the text is no checkpoint.
        """
        match text.split("\n"):
            case [origin, size, root, ""] if origin and _SIZE.fullmatch(size) and len(_bytes(root)) == HASH:
                return cls(origin, int(size), _bytes(root))
        raise BadLog("expected a checkpoint: an origin, a size and a hash")


@dataclass(frozen=True, slots=True)
class NoteKey:
    """A key that signs notes under a name: that of a log, or of a witness, which cosigns them."""

    name: str
    kind: int
    key: PublicKey

    @classmethod
    def of_log(cls, name: str, key: PublicKey) -> Self:
        """Return the key of a log."""
        return cls(name, _LOG, key)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the key of a witness in the form ``NAME+HASH+KEY``.

        Raises:
            FormatError: the text is no such key.
        """
        match = _VKEY.fullmatch(text)
        data = _bytes(match[3]) if match else b""
        if match and len(data) == 1 + HASH and data[0] == _COSIGNER:
            key = cls(match[1], _COSIGNER, PublicKey.of(Ed25519PublicKey.from_public_bytes(data[1:])))
            if key.id.hex() == match[2]:
                return key
        raise FormatError(f"expected the key of a witness, NAME+HASH+KEY, found {quote(text)}")

    @property
    def raw(self) -> bytes:
        """The 32 bytes of the key."""
        return self.key.der[-HASH:]

    @property
    def id(self) -> bytes:
        """The four bytes that identify the key in its signatures."""
        return sha256(f"{self.name}\n".encode() + bytes([self.kind]) + self.raw).digest()[:4]

    def __str__(self) -> str:
        return f"{self.name}+{self.id.hex()}+{_base64(bytes([self.kind]) + self.raw)}"

    def signs(self, note: Note) -> bool:
        """Return whether this key has signed a note.

        Raises:
            BadLog: a signature with the name and the id of this key is invalid.
        """
        signatures = [data for name, data in note.signatures if name == self.name and data[:4] == self.id]
        for data in signatures:
            try:
                if self.kind == _COSIGNER:
                    time = int.from_bytes(data[4:12])
                    self.key.verify(data[12:], f"cosignature/v1\ntime {time}\n{note.text}".encode())
                else:
                    self.key.verify(data[4:], note.text.encode())
            except BadSignature as error:
                raise BadLog(f"the signature of {quote(self.name)} on the checkpoint is invalid") from error
        return bool(signatures)


@dataclass(frozen=True, slots=True)
class Note:
    """A signed note: its text, and its signatures, each with the name of its key."""

    text: str
    signatures: tuple[tuple[str, bytes], ...]

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Return the note in these bytes.

        Raises:
            BadLog: the bytes are no signed note.
        """
        try:
            decoded = data.decode() if len(data) <= NOTE_CAP else ""
        except UnicodeDecodeError:
            decoded = ""
        text, blank, lines = decoded.rpartition("\n\n")
        rows = [line.removeprefix(_MARK).split(" ") for line in lines.split("\n")[:-1] if line.startswith(_MARK)]
        signatures = [(row[0], _bytes(row[1])) for row in rows if len(row) == 2]
        is_whole = bool(signatures) and len(signatures) == lines.count("\n") and lines.endswith("\n")
        if not blank or not is_whole or any(char < " " and char != "\n" for char in decoded):
            raise BadLog("expected a signed note")
        if any(len(signature) <= 4 or not name for name, signature in signatures):
            raise BadLog("expected a signature in each last line of a note")
        return cls(text + "\n", tuple(signatures))

    def dump(self) -> bytes:
        """Return the bytes of the note."""
        lines = (f"{_MARK}{name} {_base64(data)}\n" for name, data in self.signatures)
        return f"{self.text}\n{''.join(lines)}".encode()


def signed_checkpoint(checkpoint: Checkpoint, key: PrivateKey) -> Note:
    """Return the checkpoint, signed by the key of its log."""
    known = NoteKey.of_log(checkpoint.origin, key.public)
    return Note(checkpoint.text, ((known.name, known.id + key.sign(checkpoint.text.encode())),))


@dataclass(frozen=True, slots=True)
class LogHead:
    """The newest checkpoint of a log, and the hashes of the subtrees that its tree consists of."""

    note: Note
    checkpoint: Checkpoint
    nodes: Mapping[TreeNode, bytes]

    @classmethod
    def of(cls, note: Note, nodes: Mapping[TreeNode, bytes]) -> Self:
        """Return the head of the tree with these nodes."""
        checkpoint = Checkpoint.parse(note.text)
        return cls(note, checkpoint, {node: nodes[node] for node in subtrees(checkpoint.size)})

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Return the head in the output of ``dump``; no signature is verified.

        Raises:
            BadLog: the bytes are no head, or the hashes are those of another tree.
        """
        text, _, hashes = data.partition(b"\0")
        note = Note.parse(text)
        checkpoint = Checkpoint.parse(note.text)
        # The size is used only after the check that as many hashes are there as it needs.
        top = top_of(checkpoint.size)
        count = (checkpoint.size >> top) + (checkpoint.size % (1 << top)).bit_count()
        if len(hashes) != HASH * count:
            raise BadLog("expected the hashes of the subtrees of the log, found others")
        nodes = {node: hashes[HASH * i : HASH * (i + 1)] for i, node in enumerate(subtrees(checkpoint.size))}
        if root_of(nodes, checkpoint.size) != checkpoint.root:
            raise BadLog("the hashes of the subtrees do not lead to the checkpoint of the log")
        return cls(note, checkpoint, nodes)

    def dump(self) -> bytes:
        """Return the bytes of the head: the signed checkpoint, a zero, and the hashes."""
        return self.note.dump() + b"\0" + b"".join(self.nodes.values())

    def verify(self, origin: str, key: PublicKey) -> None:
        """Raise unless this is a checkpoint of the log with this origin, signed by this key.

        Raises:
            BadLog: the checkpoint is that of another log, or not signed by the key.
        """
        if self.checkpoint.origin != origin:
            raise BadLog(f"expected the log {quote(origin)}, found {quote(self.checkpoint.origin)}")
        if not NoteKey.of_log(origin, key).signs(self.note):
            raise BadLog(f"the checkpoint is not signed by the key of the log, {key.fingerprint}")


def origin_of(root: Digest) -> str:
    """Return the name of the log of the registry with this first root."""
    return f"skillhub-registry/{root.hex}"


def _base64(data: bytes) -> str:
    return b64encode(data).decode()


def _bytes(text: str) -> bytes:
    """Return the bytes of a canonical base64 text; empty for any other text."""
    try:
        data = b64decode(text, validate=True)
    except ValueError:
        return b""
    return data if _base64(data) == text else b""

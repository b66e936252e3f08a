"""Trees, notes, checkpoints and cosignatures of a log: valid ones pass, forged ones are refused."""

from base64 import b64encode
from hashlib import sha256

import pytest

from skillhub.errors import BadLog, FormatError
from skillhub.trust.keys import PrivateKey
from skillhub.trust.log import (
    CHUNK,
    Checkpoint,
    LogHead,
    Note,
    NoteKey,
    bundle_of,
    leaf_hash,
    nodes_of,
    proof_nodes,
    proof_of,
    proof_path,
    read_bundle,
    root_of,
    signed_checkpoint,
    tile_path,
)

ORIGIN = "log.example/test"
KEY = PrivateKey.from_seed(b"l" * 32, "ed25519")
WITNESS = PrivateKey.from_seed(b"w" * 32, "ed25519")
SIZES = [*range(1, 70), 127, 128, 129, 1023, 1024, 1025, 1600, 2047, 2048, 3000]


def tree(size, label=""):
    return nodes_of([leaf_hash(f"{label}{number}".encode()) for number in range(size)])


def head_of(size, label="", key=KEY):
    nodes = tree(size, label)
    return LogHead.of(signed_checkpoint(Checkpoint(ORIGIN, size, root_of(nodes, size)), key), nodes), nodes


def by_definition(leaves):
    """Return the hash of a tree as RFC 6962, 2.1 defines it."""
    if len(leaves) < 2:
        return leaves[0] if leaves else sha256(b"").digest()
    half = 1 << (len(leaves) - 1).bit_length() - 1
    return sha256(b"\1" + by_definition(leaves[:half]) + by_definition(leaves[half:])).digest()


@pytest.mark.parametrize("size", SIZES)
def test_root_of_a_tree_matches_rfc_6962(size):
    head, nodes = head_of(size)
    assert head.checkpoint.root == by_definition([nodes[0, number] for number in range(size)])
    assert LogHead.parse(head.dump()) == head


@pytest.mark.parametrize("size", SIZES)
def test_proof_has_its_entries_and_each_earlier_tree(size):
    head, nodes = head_of(size)
    for chunk in range(-(-size // (1 << CHUNK))):
        data = proof_of(nodes, chunk, size)
        found = proof_nodes(data, chunk, head)
        assert all(nodes[node] == value for node, value in found.items())
        first = chunk << CHUNK
        for before in range(first + 1, min(first + (1 << CHUNK), size) + 1):
            assert root_of({**head.nodes, **found}, before) == root_of(nodes, before)
        assert len(data) <= 32 * (64 + 4)


def test_proof_of_one_name_never_changes():
    known = {}
    for size in SIZES:
        nodes = tree(size)
        for chunk in range(-(-size // (1 << CHUNK))):
            data = proof_of(nodes, chunk, size)
            assert known.setdefault(proof_path(chunk, size), data) == data


def forged(data):
    """Yield forged variants of a proof."""
    yield from (b"", data[:-1], data[:-32], data + b"\0", data + data[:32], bytes(len(data)), data[32:] + data[:32])
    yield from (data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] for at in range(0, len(data), 31))


@pytest.mark.parametrize(("size", "chunk"), [(3, 0), (64, 0), (100, 1), (130, 1), (1024, 7), (2000, 30)])
def test_attack_a_truncated_or_forged_proof_is_refused(size, chunk):
    head, nodes = head_of(size)
    for data in forged(proof_of(nodes, chunk, size)):
        with pytest.raises(BadLog):
            proof_nodes(data, chunk, head)


def test_attack_a_proof_of_another_chunk_is_refused():
    head, nodes = head_of(2000)
    other = proof_of(nodes, 3, 2000)
    for chunk in (0, 2, 16, 31):
        with pytest.raises(BadLog):
            proof_nodes(other, chunk, head)
    for chunk in (32, 1 << 40):
        with pytest.raises(BadLog):
            proof_nodes(other, chunk, head)


def test_attack_the_hash_of_an_inner_node_is_no_leaf_hash():
    """RFC 6962 hashes leaves and nodes with different prefixes."""
    _, nodes = head_of(4)
    assert leaf_hash(nodes[0, 0] + nodes[0, 1]) != nodes[1, 0]


HEAD, _ = head_of(100)
NOTE = HEAD.note.dump()
HASHES = HEAD.dump().partition(b"\0")[2]
OTHER = head_of(100, "other")[0]
BAD_HEADS = {
    "nothing": b"",
    "no hashes": NOTE,
    "fewer hashes": HEAD.dump()[:-32],
    "more hashes": HEAD.dump() + bytes(32),
    "hashes of another tree": NOTE + b"\0" + OTHER.dump().partition(b"\0")[2],
    "hashes in another order": NOTE + b"\0" + HASHES[32:] + HASHES[:32],
    "a size that is to come": NOTE.replace(b"\n100\n", b"\n101\n") + b"\0" + HASHES,
    "a size beyond all sense": NOTE.replace(b"\n100\n", b"\n9999999999999999\n") + b"\0" + HASHES,
    "a size with a zero in front": NOTE.replace(b"\n100\n", b"\n0100\n") + b"\0" + HASHES,
    "a size below zero": NOTE.replace(b"\n100\n", b"\n-100\n") + b"\0" + HASHES,
    "digits of another script": NOTE.replace(b"\n100\n", "\n١٠٠\n".encode()) + b"\0" + HASHES,
    "a further line": NOTE.replace(b"\n100\n", b"\n100\nx\n") + b"\0" + HASHES,
    "line ends of Windows": NOTE.replace(b"\n", b"\r\n") + b"\0" + HASHES,
    "no text": b"\n" + NOTE[NOTE.index(b"\n\n") + 1 :] + b"\0" + HASHES,
    "no signature": NOTE[: NOTE.index(b"\n\n") + 2] + b"\0" + HASHES,
    "a signature that is none": NOTE + "— x y\n".encode() + b"\0" + HASHES,
    "a last line that is no signature": NOTE + b"x\n\0" + HASHES,
    "a signature without an end": NOTE[:-1] + b"\0" + HASHES,
    "a control character": NOTE.replace(b"log.example", b"log.\x1bexample") + b"\0" + HASHES,
    "no UTF-8": NOTE.replace(b"log.example", b"log.\xffexample") + b"\0" + HASHES,
    "base64 in another spelling": NOTE.replace(b"=\n\n", b"\n\n", 1) + b"\0" + HASHES,
    "more than a note may be": NOTE + NOTE[NOTE.index("—".encode()) :] * 700 + b"\0" + HASHES,
}


@pytest.mark.parametrize("data", BAD_HEADS.values(), ids=BAD_HEADS)
def test_attack_a_malformed_checkpoint_is_refused(data):
    with pytest.raises(BadLog):
        LogHead.parse(data).verify(ORIGIN, KEY.public)


def flipped(note):
    ((name, data),) = note.signatures
    return Note(note.text, ((name, data[:-1] + bytes([data[-1] ^ 1])),))


def renamed(note, name):
    return Note(note.text, tuple((name, data) for _, data in note.signatures))


BAD_NOTES = {
    "signed by another key": head_of(100, key=WITNESS)[0].note,
    "signed by the key, forged": flipped(HEAD.note),
    "signed by the key and once more, forged": Note(
        HEAD.note.text, HEAD.note.signatures + flipped(HEAD.note).signatures
    ),
    "signed under another name": renamed(HEAD.note, "log.example/other"),
    "a signature of another checkpoint": Note(HEAD.note.text, OTHER.note.signatures),
}


@pytest.mark.parametrize("note", BAD_NOTES.values(), ids=BAD_NOTES)
def test_attack_a_checkpoint_of_another_key_is_refused(note):
    found = LogHead(note, Checkpoint.parse(note.text), HEAD.nodes)
    with pytest.raises(BadLog):
        found.verify(ORIGIN, KEY.public)


def test_attack_a_checkpoint_of_another_log_is_refused():
    with pytest.raises(BadLog, match="expected the log"):
        HEAD.verify("log.example/other", KEY.public)


def test_checkpoint_with_further_signatures_is_accepted():
    HEAD.verify(ORIGIN, KEY.public)
    note = Note(HEAD.note.text, (("someone", bytes(20)), *HEAD.note.signatures))
    LogHead(Note.parse(note.dump()), HEAD.checkpoint, HEAD.nodes).verify(ORIGIN, KEY.public)


VKEY = NoteKey("witness.example/w", 4, WITNESS.public)


def cosigned(note, time=1_700_000_000, key=WITNESS, name=None):
    """Return the note with the cosignature of a witness (tlog-cosignature)."""
    known = NoteKey(name or VKEY.name, 4, key.public)
    signature = key.sign(f"cosignature/v1\ntime {time}\n{note.text}".encode())
    return Note(note.text, (*note.signatures, (known.name, known.id + time.to_bytes(8) + signature)))


def test_cosignature_of_a_witness_is_recognized():
    assert NoteKey.parse(str(VKEY)) == VKEY
    assert VKEY.signs(cosigned(HEAD.note))
    assert not VKEY.signs(HEAD.note)


COSIGNED = cosigned(HEAD.note)
_, (NAME, COSIGNATURE) = COSIGNED.signatures


@pytest.mark.parametrize(
    "note",
    [
        cosigned(HEAD.note, key=KEY),
        cosigned(HEAD.note, name="witness.example/other"),
        Note(HEAD.note.text, ((NAME, WITNESS.sign(HEAD.note.text.encode())),)),
    ],
)
def test_attack_a_cosignature_of_another_witness_does_not_count(note):
    assert not VKEY.signs(note)


@pytest.mark.parametrize(
    "note",
    [
        Note(OTHER.note.text, COSIGNED.signatures),
        Note(HEAD.note.text, ((NAME, COSIGNATURE[:11] + b"x" + COSIGNATURE[12:]),)),
        Note(HEAD.note.text, ((NAME, COSIGNATURE[:4] + WITNESS.sign(HEAD.note.text.encode())),)),
        Note(HEAD.note.text, ((NAME, COSIGNATURE[:20]),)),
        Note(HEAD.note.text, (*COSIGNED.signatures, (NAME, COSIGNATURE[:-1] + b"x"))),
    ],
)
def test_attack_a_forged_or_foreign_cosignature_is_refused(note):
    with pytest.raises(BadLog):
        VKEY.signs(note)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "name",
        str(VKEY).replace("+", " "),
        str(VKEY)[:-1],
        str(NoteKey.of_log(VKEY.name, WITNESS.public)),
        str(VKEY).replace("witness", "other"),
        f"{VKEY.name}+{VKEY.id.hex()}+{b64encode(bytes(33)).decode()}",
    ],
)
def test_invalid_key_of_a_witness_is_refused(text):
    with pytest.raises(FormatError, match="key of a witness"):
        NoteKey.parse(text)


def test_tiles_are_named_by_the_standard():
    assert tile_path(0, 1234067) == "tile/0/x001/x234/067"
    assert tile_path(1, 0, 17) == "tile/1/000.p/17"
    assert tile_path("entries", 999, 255) == "tile/entries/999.p/255"
    assert tile_path("entries", 1000) == "tile/entries/x001/000"


def test_bundle_is_read_back():
    entries = [b"", b"x", bytes(0xFFFF)]
    assert read_bundle(bundle_of(entries)) == entries
    assert len(read_bundle(bytes(1 << 20))) == 256  # a server may send empty entries without end
    assert [leaf_hash(each) for each in read_bundle(bundle_of(entries)[:-1])] != [*map(leaf_hash, entries)]

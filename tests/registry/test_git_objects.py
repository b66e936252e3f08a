"""Objects and packs of git without git: git reads them, and damaged packs are refused."""

import os
import subprocess
import zlib
from hashlib import sha1

import pytest

from skillhub.errors import WrongBytes
from skillhub.model.tree import File, Tree
from skillhub.registry.git_objects import PACK_MAX, Objects, _length, ids_of, packed, packs, read_object, read_pack
from tests.support.effort import steps

FILES = Tree(
    {
        "a/b.txt": File(b"x" * 100_000),
        "a.txt": File(os.urandom(9_000), executable=True),
        "a-b": File(b""),
        "ab/c/d": File(b"z"),
        "é/ü": File(b"1"),
    }
)


@pytest.fixture
def objects():
    found = Objects()
    who = "skillhub <> 0 +0000"
    found.put("commit", f"tree {found.put_files(FILES)}\nauthor {who}\ncommitter {who}\n\nx\n".encode())
    return found


def test_git_accepts_the_pack_with_the_same_files(objects, tmp_path):
    tip = next(each for each, (kind, _) in objects.items() if kind == "commit")
    pack = packed(objects, -1)
    (tmp_path / "objects/pack").mkdir(parents=True)
    (tmp_path / "refs/heads").mkdir(parents=True)
    (tmp_path / "HEAD").write_text("ref: refs/heads/main\n")
    (tmp_path / "refs/heads/main").write_text(f"{tip}\n")
    (tmp_path / f"objects/pack/pack-{pack.name}.pack").write_bytes(pack.data)
    (tmp_path / f"objects/pack/pack-{pack.name}.idx").write_bytes(pack.index)

    def git(*words):
        return subprocess.run(["git", "-C", tmp_path, *words], capture_output=True, check=True).stdout

    assert git("fsck", "--strict", "--full") == b""
    assert git("index-pack", "--strict", "-o", tmp_path / "again.idx", f"objects/pack/pack-{pack.name}.pack")
    assert (tmp_path / "again.idx").read_bytes() == pack.index
    assert [git("show", f"main:{path}") for path in FILES] == [file.data for file in FILES.values()]
    assert git("ls-tree", "main", "a.txt").startswith(b"100755")


def test_pack_is_read_back(objects):
    pack = packed(objects, 9)
    found, index = read_pack(pack.data, "x")
    assert (found, index, ids_of(index)) == (objects, pack.index, sorted(objects))
    assert all(read_object(pack.data, index, each) == data for each, (_, data) in objects.items())


@pytest.mark.parametrize("at", [0, 4, 11, 12, 13, 40, 200, -40, -1])
def test_pack_with_one_flipped_bit_is_refused(objects, at):
    data = bytearray(packed(objects, 9).data)
    data[at] ^= 1
    with pytest.raises(WrongBytes):
        read_pack(bytes(data), "x")


@pytest.mark.parametrize("count", [0, 1, 7, 9, 2**32 - 1])
def test_pack_with_a_wrong_count_is_refused(objects, count):
    data = packed(objects, 9).data[:-20]
    data = data[:8] + count.to_bytes(4, "big") + data[12:]
    assert len(objects) not in (0, 1, 7, 2**32 - 1)
    with pytest.raises(WrongBytes):
        read_pack(data + sha1(data, usedforsecurity=False).digest(), "x")


@pytest.mark.parametrize("objects", [1, 2, 150])
def test_attack_a_pack_of_little_data_and_much_content_is_refused(objects):
    size, deflater = (150 << 20) // objects, zlib.compressobj(1)
    piece = bytes(1 << 16)
    content = b"".join([*(deflater.compress(piece) for _ in range(size >> 16)), deflater.flush()])
    data = b"PACK" + (2).to_bytes(4, "big") + objects.to_bytes(4, "big") + (_length(3, size) + content) * objects
    assert len(data) < 1 << 20
    with pytest.raises(WrongBytes):
        read_pack(data + sha1(data, usedforsecurity=False).digest(), "x")


def test_attack_a_size_of_many_digits_is_not_read_to_its_end():
    data = b"PACK" + bytes([0, 0, 0, 2, 0, 0, 0, 1]) + b"\xb0" + b"\xff" * 10_000

    def read():
        with pytest.raises(WrongBytes, match="whole objects"):
            read_pack(data + sha1(data, usedforsecurity=False).digest(), "x")

    assert steps(read) < 100


@pytest.mark.parametrize(
    "index", [b"", b"\xfftOc", b"\xfftOc\0\0\0\2" + b"\xff" * 1024, b"\xfftOc\0\0\0\2" + b"\xff" * 5000]
)
def test_invalid_index_of_a_pack_is_refused(objects, index):
    with pytest.raises(WrongBytes):
        read_object(packed(objects, 9).data, index, next(iter(objects)))


def test_attack_an_index_that_gives_an_object_another_id_is_refused(objects):
    pack = packed(objects, 9)
    id_ = ids_of(pack.index)[-1]
    other = f"{id_[:-1]}{'0' if id_[-1] != '0' else '1'}"
    index = pack.index.replace(bytes.fromhex(id_), bytes.fromhex(other))
    assert ids_of(index)[-1] == other
    with pytest.raises(WrongBytes):
        read_object(pack.data, index, other)


def test_large_content_is_spread_over_packs():
    several = [Objects() for _ in range(3)]
    for number, each in enumerate(several):
        each.put("blob", bytes([number]) * (PACK_MAX + 1))
    assert [len(ids_of(pack.index)) for pack in packs(several, 1)] == [1, 1, 1]

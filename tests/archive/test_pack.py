"""A packed tree unpacks to the same tree, reproducibly, here and with the standard library."""

import gzip
import hashlib
import io
import tarfile
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillhub.archive.limits import Limits, check_path
from skillhub.archive.unpack import _gzip, pack, unpack
from skillhub.errors import UnsafeArchive
from skillhub.model.tree import File, Tree

KINDS = ["zip", "tar.gz"]
LITTER = {".DS_Store", "__MACOSX"}
SKILL = File(b"---\nname: demo\n---\n" * 20)
DEEP = "/".join(["folder" * 10] * 4) + "/näme.md"
TREE = Tree({"SKILL.md": SKILL, "run.sh": File(b"#!/bin/sh\n", True), "empty": File(b""), DEEP: File(bytes(70_000))})


def passes(path):
    try:
        check_path(path, Limits())
    except UnsafeArchive:
        return False
    return True


LETTERS = st.sampled_from("aAbéßıñ日本🎉0 -_.~") | st.characters(categories=["L", "N"])
NAMES = st.text(LETTERS, min_size=1, max_size=12).filter(lambda name: passes(name) and name not in LITTER)
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
TREES = st.dictionaries(PATHS, st.builds(File, st.binary(max_size=200), st.booleans()), max_size=5).map(
    lambda files: Tree({**files, "SKILL.md": SKILL})
)


@given(TREES, st.sampled_from(KINDS), st.booleans())
def test_a_packed_tree_unpacks_to_the_same_tree(tree, kind, compress):
    try:
        data = pack(tree, kind, compress)
    except UnsafeArchive as error:
        assert error.reason in {"collision", "file-as-folder", "name-lookalike"}
        return
    unpacked = unpack(data, kind, wrapper=False)
    assert unpacked.tree.digest == tree.digest
    assert unpacked.warnings == ()


@pytest.mark.parametrize("compress", [True, False])
def test_the_standard_library_reads_the_zip(compress):
    with zipfile.ZipFile(io.BytesIO(pack(TREE, "zip", compress))) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == list(TREE)
        for info in archive.infolist():
            assert archive.read(info) == TREE[info.filename].data
            assert info.external_attr >> 16 == (0o100755 if TREE[info.filename].executable else 0o100644)
            assert info.date_time == (1980, 1, 1, 0, 0, 0)


@pytest.mark.parametrize("compress", [True, False])
def test_the_standard_library_reads_the_tar(compress):
    with tarfile.open(fileobj=io.BytesIO(pack(TREE, "tar.gz", compress))) as archive:
        assert archive.getnames() == list(TREE)
        for info in archive.getmembers():
            assert archive.extractfile(info).read() == TREE[info.name].data
            assert info.mode == (0o755 if TREE[info.name].executable else 0o644)
            assert (info.uid, info.gid, info.uname, info.mtime) == (0, 0, "", 315_532_800)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("zip", "dad1979ea925cfee7e942399d61e29f53dce18816e19309891cfc0d24373a48e"),
        ("tar.gz", "c0471c640e1bfdb9e104d05440fd9b5a7365a8ea0142599c1d39dfe001486359"),
    ],
)
def test_stored_bytes_are_the_same_everywhere(kind, expected):
    assert hashlib.sha256(pack(TREE, kind, compress=False)).hexdigest() == expected


@pytest.mark.parametrize("kind", KINDS)
def test_compressible_files_are_compressed(kind):
    assert len(pack(TREE, kind)) < 2000 < 70_000 < len(pack(TREE, kind, compress=False))


@pytest.mark.parametrize("size", [1, 65_534, 65_535, 65_536, 2 * 65_535])
def test_the_last_stored_block_is_marked_as_last(size):
    assert gzip.decompress(_gzip(bytes(size), compress=False)) == bytes(size)


def test_the_utf8_flag_is_set_only_where_needed():
    with zipfile.ZipFile(io.BytesIO(pack(TREE))) as archive:
        assert [info.filename for info in archive.infolist() if info.flag_bits] == [DEEP]


@pytest.mark.parametrize(("name", "needed"), [("n" * 100, False), ("n" * 101, True), ("é", True)])
def test_a_pax_header_is_written_only_where_needed(name, needed):
    data = pack(Tree({"SKILL.md": SKILL, name: File(b"x")}), "tar.gz")
    with tarfile.open(fileobj=io.BytesIO(data), encoding="latin-1") as archive:
        assert archive.getnames() == sorted(["SKILL.md", name])
        assert [bool(info.pax_headers) for info in archive if info.name == name] == [needed]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"a": File(b"")}, "no-skill-md"),
        ({"a/SKILL.md": SKILL}, "no-skill-md"),
        ({"SKILL.md": SKILL, "../a": File(b"")}, "path-traversal"),
        ({"SKILL.md": SKILL, "a": File(b""), "A": File(b"")}, "collision"),
        ({"SKILL.md": SKILL, "a\udc80": File(b"")}, "name-encoding"),
    ],
)
def test_pack_refuses_files_that_unpack_would_refuse(kind, files, reason):
    with pytest.raises(UnsafeArchive) as caught:
        pack(Tree(files), kind)
    assert caught.value.reason == reason


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("length", [*range(85, 102), 230])
def test_names_of_every_length_around_a_tar_header(kind, length):
    tree = Tree({"SKILL.md": SKILL, "n" * length: File(b"x"), "é" * (length // 2): File(b"y")})
    assert unpack(pack(tree, kind), kind).tree.digest == tree.digest

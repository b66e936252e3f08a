"""A changed archive gives the same tree or a SkillhubError."""

import contextlib
import io
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.attacks.honest_zips import WRITES_ZIP64
from skillhub.archive.unpack import pack, unpack
from skillhub.errors import SkillhubError
from skillhub.model.tree import File, Tree

TREE = Tree(
    {
        "SKILL.md": File(b"---\nname: demo\n---\n" + b"one word after another\n" * 9),
        "scripts/run.sh": File(b"#!/bin/sh\n", True),
        "näme.txt": File(b"x" * 100),
        "n" * 120: File(b""),
    }
)


def streamed():
    class Pipe(io.BytesIO):
        def seekable(self):
            return False

        def tell(self):
            raise OSError

    sink = Pipe()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, file in TREE.items():
            with archive.open(path, "w", force_zip64=WRITES_ZIP64) as entry:
                entry.write(file.data)
    return sink.getvalue()


ARCHIVES = {
    "zip": ("zip", pack(TREE, "zip")),
    "stored zip": ("zip", pack(TREE, "zip", compress=False)),
    "streamed zip64": ("zip", streamed()),
    "tar.gz": ("tar.gz", pack(TREE, "tar.gz")),
    "stored tar.gz": ("tar.gz", pack(TREE, "tar.gz", compress=False)),
}
BYTES = {path: file.data for path, file in TREE.items()}


def same_or_refused(data, kind):
    # The execute bit of a zip has no checksum, so only the content is compared.
    try:
        tree = unpack(data, kind).tree
    except SkillhubError:
        return
    assert {path: file.data for path, file in tree.items()} == BYTES


def test_unchanged_archives_contain_the_tree():
    for kind, data in ARCHIVES.values():
        assert {path: file.data for path, file in unpack(data, kind).tree.items()} == BYTES


@pytest.mark.parametrize("which", ARCHIVES)
@given(st.data())
def test_an_archive_with_changed_bytes_is_the_same_or_refused(which, draw):
    kind, data = ARCHIVES[which]
    changed = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 3))):
        changed[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    same_or_refused(bytes(changed), kind)


@pytest.mark.parametrize("which", ARCHIVES)
@given(st.data())
def test_an_archive_with_inserted_or_removed_bytes_is_the_same_or_refused(which, draw):
    kind, data = ARCHIVES[which]
    at = draw.draw(st.integers(0, len(data)))
    gone = draw.draw(st.integers(0, 60))
    new = draw.draw(st.binary(max_size=60) | st.sampled_from([bytes(512), data[:80], data[-40:], data]))
    same_or_refused(data[:at] + new + data[at + gone :], kind)


@pytest.mark.parametrize("which", ARCHIVES)
@given(st.data())
def test_an_archive_with_moved_bytes_is_the_same_or_refused(which, draw):
    kind, data = ARCHIVES[which]
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(data)), min_size=3, max_size=3)))
    head, first, second, tail = (data[: cuts[0]], data[cuts[0] : cuts[1]], data[cuts[1] : cuts[2]], data[cuts[2] :])
    same_or_refused(head + second + first + tail, kind)


@pytest.mark.parametrize("which", ARCHIVES)
def test_every_truncation_is_refused(which):
    kind, data = ARCHIVES[which]
    for length in range(len(data)):
        with pytest.raises(SkillhubError):
            unpack(data[:length], kind)


@given(st.binary(max_size=300), st.sampled_from(["zip", "tar.gz"]))
def test_any_bytes_raise_only_our_errors(data, kind):
    for head, tail in ((b"", b""), (b"PK\3\4", b"PK\5\6" + bytes(18)), (b"\x1f\x8b\x08", b"")):
        with contextlib.suppress(SkillhubError):
            unpack(head + data + tail, kind)

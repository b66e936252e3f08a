"""Zip structure: archives of the standard library are read alike, changed ones are refused."""

import io
import struct
import warnings
import zipfile

import pytest

from fixtures.attacks.honest_zips import WRITES_ZIP64
from skillhub.archive.limits import Limits
from skillhub.archive.unpack import unpack
from skillhub.errors import FormatError, UnsafeArchive

SKILL = b"---\nname: demo\n---\n" + b"words and words\n" * 40
FILES = {"SKILL.md": SKILL, "scripts/run.sh": b"#!/bin/sh\n", "data/empty": b"", "naïve 🎉.md": b"x" * 300}
LOCAL, CENTRAL, END = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"


class Pipe(io.RawIOBase):
    """A sink that cannot seek, which makes ``zipfile`` stream."""

    def __init__(self):
        self.data = b""

    def writable(self):
        return True

    def write(self, data):
        self.data += bytes(data)
        return len(data)


def zipped(files=FILES, *, method=zipfile.ZIP_DEFLATED, stream=False, zip64=False, modes=None, comment=b""):
    sink = Pipe() if stream else io.BytesIO()
    with zipfile.ZipFile(sink, "w", method) as archive:
        for path, data in files.items():
            info = zipfile.ZipInfo(path)
            info.compress_type = method
            info.external_attr = (modes or {}).get(path, 0o100644) << 16
            with archive.open(info, "w", force_zip64=zip64 and WRITES_ZIP64) as file:
                file.write(data)
        archive.comment = comment
    return sink.data if stream else sink.getvalue()


def reason_of(data, **how):
    with pytest.raises(UnsafeArchive) as caught:
        unpack(data, "zip", **how)
    return caught.value.reason


def patched(data, signature, offset, form, value, which=0):
    """Return ``data`` with a new value in a field of the ``which``-th record with this signature."""
    at = -1
    for _ in range(which + 1):
        at = data.index(signature, at + 1)
    size = struct.calcsize(form)
    values = value if isinstance(value, tuple) else (value,)
    return data[: at + offset] + struct.pack(form, *values) + data[at + offset + size :]


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("zip64", [False, True])
def test_zip_archives_of_the_standard_library_are_read(method, zip64):
    tree = unpack(zipped(method=method, zip64=zip64, comment=b"made by hand"), "zip").tree
    assert {path: file.data for path, file in tree.items()} == FILES


@pytest.mark.parametrize("zip64", [False, True])
def test_streamed_archives_of_the_standard_library_are_read(zip64):
    tree = unpack(zipped(stream=True, zip64=zip64), "zip").tree
    assert {path: file.data for path, file in tree.items()} == FILES


def test_folder_entries_and_execute_bits():
    modes = {"scripts/": 0o040755, "scripts/run.sh": 0o100755}
    tree = unpack(zipped({"scripts/": b"", **FILES}, modes=modes), "zip").tree
    assert [path for path, file in tree.items() if file.executable] == ["scripts/run.sh"]


def test_a_mode_is_used_only_for_archives_of_unix():
    data = zipped({"SKILL.md": SKILL}, modes={"SKILL.md": 0o755})
    for system, runs in ((3, True), (19, True), (0, False), (10, False)):
        tree = unpack(patched(data, CENTRAL, 5, "B", system), "zip").tree
        assert tree["SKILL.md"].executable is runs


def test_utf8_names_without_the_flag_are_read_as_info_zip_writes_them():
    data = zipped({"SKILL.md": SKILL, "é": b"x"})
    for signature, offset in ((LOCAL, 6), (CENTRAL, 8)):
        data = patched(data, signature, offset, "<H", 0, which=1)
    assert list(unpack(data, "zip").tree) == ["SKILL.md", "é"]


def test_archives_inside_are_data():
    inner = zipped({"a": b"x"}, method=zipfile.ZIP_STORED)
    data = zipped({"SKILL.md": SKILL, "inner.zip": inner}, method=zipfile.ZIP_STORED)
    assert unpack(data, "zip").tree["inner.zip"].data == inner


@pytest.mark.parametrize("data", [b"", b"PK", LOCAL + bytes(40), b"\x1f\x8b\x08", zipped()[:-8], END + bytes(17)])
def test_no_end_record_is_a_format_error(data):
    with pytest.raises(FormatError):
        unpack(data, "zip")


@pytest.mark.parametrize("gap", [0, 1, 15, 16])
def test_attack_an_end_record_after_half_a_locator_is_refused(gap):
    end = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, 0, 0, 0, 0, 0)
    data = b"PK\x06\x07" + bytes(gap) + end
    assert reason_of(data) == ("zip-zip64" if gap == 16 else "zip-not-tiled")


def test_attack_a_locator_at_an_offset_from_the_end_is_refused():
    count, size = struct.unpack("<HH", b"PK\x06\x07")
    end = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, count, count, size, 0, 0)
    assert reason_of(bytes(8) + end) == "zip-not-tiled"


def test_attack_an_end_record_with_a_shortened_comment_is_refused():
    end = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, 0, 0, 0, 0, 9)
    assert reason_of(end + b"short") == "zip-not-tiled"
    assert reason_of(end) == "zip-not-tiled"


def test_attack_an_entry_missing_in_the_directory_is_refused():
    data = zipped({"SKILL.md": SKILL, "hidden.txt": b"x", "z.txt": b"y"}, method=zipfile.ZIP_STORED)
    at = data.index(CENTRAL, data.index(CENTRAL) + 1)
    length = 46 + len("hidden.txt")
    size = struct.unpack_from("<I", data, data.index(END) + 12)[0]
    data = patched(data[:at] + data[at + length :], END, 8, "<HHI", (2, 2, size - length))
    assert reason_of(data) == "zip-hidden-entry"


def test_an_entry_has_32_extra_fields_at_most():
    def bearing(count):
        info = zipfile.ZipInfo("SKILL.md")
        info.extra = b"".join(struct.pack("<2H", 0xA000 + number, 0) for number in range(count))
        sink = io.BytesIO()
        with zipfile.ZipFile(sink, "w") as archive:
            archive.writestr(info, SKILL)
        return sink.getvalue()

    assert list(unpack(bearing(32), "zip").tree) == ["SKILL.md"]
    assert reason_of(bearing(33)) == "zip-extra"


def test_empty_archive_has_no_skill():
    assert reason_of(END + bytes(18)) == "no-skill-md"


def test_an_archive_larger_than_any_skill_is_refused_unread():
    assert reason_of(bytes(2000), limits=Limits(total=1000, files=0)) == "too-large"


def test_a_zip_may_be_as_large_as_the_largest_tar():
    data = zipped({"SKILL.md": SKILL}, comment=bytes(20_000))
    most = len(data) - 16 * 1024
    assert list(unpack(data, "zip", limits=Limits(total=most, files=1)).tree) == ["SKILL.md"]
    assert reason_of(data, limits=Limits(total=most - 1, files=1)) == "too-large"


PLAIN = zipped({"SKILL.md": SKILL, "a.txt": b"y" * 200})
STREAMED = zipped({"SKILL.md": SKILL, "a.txt": b"y" * 200}, stream=True)
STORED = zipped({"SKILL.md": SKILL, "a.txt": b"y" * 200}, method=zipfile.ZIP_STORED)


@pytest.mark.parametrize(
    ("attack", "data", "reason"),
    [
        ("data before", b"#!/bin/sh\n" + PLAIN, "zip-not-tiled"),
        ("data after", PLAIN + b"x", "zip-not-tiled"),
        ("zeros after", PLAIN + bytes(512), "zip-not-tiled"),
        ("archive after", PLAIN + STORED, "zip-not-tiled"),
        ("archive in comment", zipped(comment=END + bytes(18)), "zip-comment"),
        ("local name differs", patched(PLAIN, LOCAL, 30, "B", ord("T")), "zip-header-mismatch"),
        ("local method differs", patched(PLAIN, LOCAL, 8, "<H", 0), "zip-header-mismatch"),
        ("local crc differs", patched(PLAIN, LOCAL, 14, "<I", 1), "zip-header-mismatch"),
        ("local size differs", patched(PLAIN, LOCAL, 22, "<I", 1), "zip-header-mismatch"),
        ("local flag differs", patched(PLAIN, LOCAL, 6, "<H", 1 << 11), "name-encoding"),
        ("encrypted", patched(PLAIN, CENTRAL, 8, "<H", 1), "zip-encrypted"),
        ("strongly encrypted", patched(PLAIN, CENTRAL, 8, "<H", 1 << 6), "zip-encrypted"),
        ("masked headers", patched(PLAIN, CENTRAL, 8, "<H", 1 << 13), "zip-encrypted"),
        ("patch data", patched(PLAIN, CENTRAL, 8, "<H", 1 << 5), "zip-flags"),
        ("in another part", patched(PLAIN, CENTRAL, 34, "<H", 1), "zip-split"),
        ("a part of several", patched(PLAIN, END, 4, "<H", 1), "zip-split"),
        ("entry not counted", patched(patched(PLAIN, END, 8, "<H", 1), END, 10, "<H", 1), "zip-hidden-entry"),
        ("directory elsewhere", patched(PLAIN, END, 16, "<I", 5), "zip-not-tiled"),
        ("zip64 that is not there", patched(PLAIN, END, 16, "<I", 0xFFFFFFFF), "zip-zip64"),
        ("two entries, one body", patched(PLAIN, CENTRAL, 42, "<I", 0, which=1), "zip-not-tiled"),
        ("descriptor crc", patched(STREAMED, b"PK\7\x08", 4, "<I", 1), "zip-descriptor"),
        ("descriptor size", patched(STREAMED, b"PK\7\x08", 12, "<I", 1), "zip-descriptor"),
        ("descriptor signature", patched(STREAMED, b"PK\7\x08", 0, "<I", 1), "zip-descriptor"),
        ("windows link", patched(PLAIN, CENTRAL, 38, "<I", 0x400), "link"),
        ("dos folder", patched(PLAIN, CENTRAL, 38, "<I", 0x10), "kind-mismatch"),
        ("volume label", patched(PLAIN, CENTRAL, 38, "<I", 0x08), "special-file"),
    ],
)
def test_a_defective_record_is_refused(attack, data, reason):
    assert reason_of(data) == reason, attack


@pytest.mark.parametrize(
    ("attack", "data", "reason"),
    [
        ("crc", ((LOCAL, 14, 1), (CENTRAL, 16, 1)), "wrong-crc"),
        ("size too small", ((LOCAL, 22, 100), (CENTRAL, 24, 100)), "wrong-size"),
        ("size too large", ((LOCAL, 22, 1000), (CENTRAL, 24, 1000)), "wrong-size"),
        ("bomb", ((LOCAL, 22, 1 << 27), (CENTRAL, 24, 1 << 27)), "too-large"),
    ],
)
def test_wrong_values_in_both_headers_are_refused(attack, data, reason):
    changed = PLAIN
    for signature, offset, value in data:
        changed = patched(changed, signature, offset, "<I", value)
    assert reason_of(changed) == reason, attack


@pytest.mark.parametrize("method", [1, 9, 12, 14, 93, 99])
def test_methods_other_than_stored_and_deflated_are_refused(method):
    assert reason_of(patched(patched(PLAIN, LOCAL, 8, "<H", method), CENTRAL, 10, "<H", method)) == "zip-method"


def test_a_defective_deflate_stream_is_refused():
    at = PLAIN.index(b"SKILL.md") + 8
    assert reason_of(PLAIN[:at] + b"\xff" + PLAIN[at + 1 :]) == "deflate"


def test_stored_bytes_are_checked():
    at = STORED.index(b"words")
    assert reason_of(STORED[:at] + b"W" + STORED[at + 1 :]) == "wrong-crc"


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (["../x"], "path-traversal"),
        (["a\\b"], "path-backslash"),
        (["a/", "a/"], "collision"),
        (["a", "A"], "collision"),
        (["a", "a/b"], "file-as-folder"),
        (["b.txt", "b.txt"], "collision"),
        (["SKILL.md;1"], "name-reserved"),
    ],
)
def test_unsafe_names_are_refused(names, reason):
    sink = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(sink, "w") as archive:
        warnings.simplefilter("ignore")
        for name in ("SKILL.md", *names):
            archive.writestr(name, b"" if name.endswith("/") else b"x")
    assert reason_of(sink.getvalue()) == reason

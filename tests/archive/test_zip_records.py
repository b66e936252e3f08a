"""Zips built record by record: each defect has its own reason, and archives of honest tools are read."""

from zlib import crc32

import pytest

from fixtures.attacks.zip_writer import Entry, Tail, body_of, descriptor, extra, unicode_path, zip_bytes
from skillhub.archive.limits import Limits
from skillhub.archive.unpack import unpack
from skillhub.archive.zip import read_zip
from skillhub.errors import UnsafeArchive

ROOT = Entry("SKILL.md", b"---\nname: demo\n---\n" * 9)
A = Entry("a.txt", b"x" * 50)
B = Entry("b.txt", b"y" * 50)


def refused(*parts, tail=None):
    with pytest.raises(UnsafeArchive) as caught:
        unpack(zip_bytes(parts, tail), "zip")
    return caught.value.reason, caught.value.where


def files(*parts):
    return {path: file.data for path, file in unpack(zip_bytes(parts), "zip").tree.items()}


def refused_at_once(limits, *parts):
    """Return the reason of the refusal, given before any entry is inflated."""
    with pytest.raises(UnsafeArchive) as caught:
        next(read_zip(zip_bytes(parts), limits))
    return caught.value.reason


def about(entry, **how):
    return descriptor(crc32(entry.data), len(body_of(entry)), len(entry.data), **how)


def test_windows_attributes_are_accepted():
    assert files(Entry("SKILL.md", ROOT.data, central={"external": 0x21})) == {"SKILL.md": ROOT.data}


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("signature", [b"", b"PK\7\x08"])
def test_every_form_of_a_data_descriptor_is_read(wide, signature):
    descriptor = about(ROOT, wide=wide, signature=signature)
    assert files(Entry("SKILL.md", ROOT.data, described=True, descriptor=descriptor)) == {"SKILL.md": ROOT.data}


def test_attack_an_unannounced_data_descriptor_is_refused():
    entry = Entry("a.txt", A.data, descriptor=about(A))
    assert refused(ROOT, entry, B) == ("zip-descriptor", "a.txt")


@pytest.mark.parametrize("beyond", [17, 400])
def test_attack_a_streamed_entry_that_overlaps_the_next_is_refused(beyond):
    entry = Entry("a.txt", A.data, described=True, central={"packed": len(body_of(A)) + beyond})
    assert refused(ROOT, entry, B) == ("zip-not-tiled", "a.txt")


def test_attack_an_entry_beyond_the_directory_is_refused():
    beyond = Entry("z.txt", b"z", headers="central", central={"offset": 1 << 20})
    assert refused(ROOT, beyond, A, B) == ("zip-not-tiled", "z.txt")


def test_attack_an_entry_hidden_behind_a_descriptor_is_refused():
    streamed = Entry("a.txt", A.data, described=True)
    assert refused(ROOT, streamed, Entry("b.txt", B.data, headers="local"))[0] == "zip-hidden-entry"
    assert refused(ROOT, streamed, bytes(9), B) == ("zip-not-tiled", "a.txt")


@pytest.mark.parametrize("record", [b"PK\1\2", b"PK\3\4", b"PK\5\6", b"PK\6\6", b"PK\6\7"])
def test_attack_a_record_inside_a_comment_is_refused(record):
    assert refused(ROOT, tail=Tail(comment=b"see " + record + b" there"))[0] == "zip-comment"


@pytest.mark.parametrize("field", ["disk", "central_disk"])
def test_attack_an_end_record_that_refers_to_a_missing_zip64_record_is_refused(field):
    assert refused(ROOT, tail=Tail(end={field: 0xFFFF}))[0] == "zip-zip64"


@pytest.mark.parametrize("tag", [0x14, 0x15, 0x16, 0x17, 0x9901])
def test_attack_an_extra_field_of_an_encrypted_entry_is_refused(tag):
    assert refused(ROOT, Entry("a.txt", A.data, both={"extra": extra(tag, b"")})) == ("zip-encrypted", "a.txt")


def test_sizes_are_checked_before_inflation():
    assert len(list(read_zip(zip_bytes([A, B]), Limits(total=100)))) == 2
    assert refused_at_once(Limits(total=99), A, B) == "too-large"


def test_the_number_of_entries_is_checked_before_inflation():
    four = [Entry(f"{number}.txt") for number in range(4)]
    assert len(list(read_zip(zip_bytes(four), Limits(files=2)))) == 4
    assert refused_at_once(Limits(files=2), *four, A) == "too-many-files"


def test_long_names_are_checked_before_inflation():
    assert len(list(read_zip(zip_bytes([A, Entry("abcd/abc/", mode=0)]), Limits(path=8)))) == 2
    assert refused_at_once(Limits(path=8), A, Entry("abcd/abcde")) == "path-too-long"


def test_attack_a_directory_that_ends_inside_an_entry_is_refused():
    fields = {"here": 2, "count": 2, "size": 46 + len("SKILL.md") + 4}
    assert refused(ROOT, tail=Tail(between=b"PK\1\2", end=fields))[0] == "zip-not-tiled"


@pytest.mark.parametrize("extra_bytes", [b"junk", b"PK\1\2" + bytes(42)])
def test_attack_a_directory_with_additional_bytes_is_refused(extra_bytes):
    fields = {"size": 46 + len("SKILL.md") + len(extra_bytes)}
    reason, _ = refused(ROOT, tail=Tail(between=extra_bytes, end=fields))
    assert reason == ("zip-not-tiled" if extra_bytes == b"junk" else "zip-hidden-entry")


@pytest.mark.parametrize("header", ["local", "central"])
def test_attack_a_header_that_overlaps_the_next_record_is_refused(header):
    fields = {"local": {"extra_length": 9999}, "central": {"comment_length": 99}}[header]
    assert refused(ROOT, Entry("a.txt", A.data, **{header: fields}))[0] == "zip-not-tiled"


def test_attack_an_entry_without_a_name_is_refused():
    assert refused(ROOT, Entry("", method=0))[0] == "path-traversal"


@pytest.mark.parametrize(
    ("field", "reason"),
    [
        (extra(1, b""), "zip-zip64"),
        (extra(1, bytes(8)) * 2, "zip-zip64"),
        (unicode_path(b"a.txt", b"b.txt"), "zip-unicode-path"),
        (unicode_path(b"a.txt", b"a.txt", version=2), "zip-unicode-path"),
    ],
)
def test_attack_an_invalid_extra_field_is_refused(field, reason):
    assert refused(ROOT, Entry("a.txt", A.data, both={"extra": field})) == (reason, "a.txt")


def test_a_unicode_path_equal_to_the_name_is_accepted():
    assert files(ROOT, Entry("a.txt", A.data, both={"extra": unicode_path(b"a.txt", b"a.txt")})).keys() > {"a.txt"}

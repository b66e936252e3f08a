"""Zips made record by record: each lie has a reason of its own, and what some honest tool writes is read."""

from zlib import crc32

import pytest

from fixtures.attacks.zip_writer import Entry, Tail, body_of, descriptor, extra, unicode_path, zip_bytes
from skillhub.archive import Limits, unpack
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
    """Return why the archive is refused before anything of it is inflated."""
    with pytest.raises(UnsafeArchive) as caught:
        next(read_zip(zip_bytes(parts), limits))
    return caught.value.reason


def about(entry, **how):
    return descriptor(crc32(entry.data), len(body_of(entry)), len(entry.data), **how)


def test_what_windows_marks_as_read_only_and_to_be_archived():
    assert files(Entry("SKILL.md", ROOT.data, central={"external": 0x21})) == {"SKILL.md": ROOT.data}


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("signature", [b"", b"PK\7\x08"])
def test_every_form_of_a_data_descriptor(wide, signature):
    said = about(ROOT, wide=wide, signature=signature)
    assert files(Entry("SKILL.md", ROOT.data, described=True, descriptor=said)) == {"SKILL.md": ROOT.data}


def test_attack_data_descriptor_that_no_flag_announced():
    entry = Entry("a.txt", A.data, descriptor=about(A))
    assert refused(ROOT, entry, B) == ("zip-descriptor", "a.txt")


@pytest.mark.parametrize("beyond", [17, 400])
def test_attack_streamed_entry_that_reaches_into_the_next(beyond):
    entry = Entry("a.txt", A.data, described=True, central={"packed": len(body_of(A)) + beyond})
    assert refused(ROOT, entry, B) == ("zip-not-tiled", "a.txt")


def test_attack_entry_that_begins_beyond_the_directory():
    beyond = Entry("z.txt", b"z", headers="central", central={"offset": 1 << 20})
    assert refused(ROOT, beyond, A, B) == ("zip-not-tiled", "z.txt")


def test_attack_streamed_entry_with_another_hidden_behind_its_descriptor():
    streamed = Entry("a.txt", A.data, described=True)
    assert refused(ROOT, streamed, Entry("b.txt", B.data, headers="local"))[0] == "zip-hidden-entry"
    assert refused(ROOT, streamed, bytes(9), B) == ("zip-not-tiled", "a.txt")


@pytest.mark.parametrize("record", [b"PK\1\2", b"PK\3\4", b"PK\5\6", b"PK\6\6", b"PK\6\7"])
def test_attack_comment_that_holds_a_record_of_any_kind(record):
    assert refused(ROOT, tail=Tail(comment=b"see " + record + b" there"))[0] == "zip-comment"


@pytest.mark.parametrize("field", ["disk", "central_disk"])
def test_attack_end_record_that_sends_to_a_zip64_record_that_is_not_there(field):
    assert refused(ROOT, tail=Tail(end={field: 0xFFFF}))[0] == "zip-zip64"


@pytest.mark.parametrize("tag", [0x14, 0x15, 0x16, 0x17, 0x9901])
def test_attack_extra_field_of_an_encrypted_entry(tag):
    assert refused(ROOT, Entry("a.txt", A.data, both={"extra": extra(tag, b"")})) == ("zip-encrypted", "a.txt")


def test_sizes_are_judged_before_anything_is_inflated():
    assert len(list(read_zip(zip_bytes([A, B]), Limits(total=100)))) == 2
    assert refused_at_once(Limits(total=99), A, B) == "too-large"


def test_the_number_of_entries_is_judged_before_anything_is_inflated():
    four = [Entry(f"{number}.txt") for number in range(4)]
    assert len(list(read_zip(zip_bytes(four), Limits(files=2)))) == 4
    assert refused_at_once(Limits(files=2), *four, A) == "too-many-files"


def test_long_names_are_judged_before_anything_is_inflated():
    assert len(list(read_zip(zip_bytes([A, Entry("abcd/abc/", mode=0)]), Limits(path=8)))) == 2
    assert refused_at_once(Limits(path=8), A, Entry("abcd/abcde")) == "path-too-long"


def test_attack_directory_that_ends_within_an_entry():
    said = {"here": 2, "count": 2, "size": 46 + len("SKILL.md") + 4}
    assert refused(ROOT, tail=Tail(between=b"PK\1\2", end=said))[0] == "zip-not-tiled"


@pytest.mark.parametrize("extra_bytes", [b"junk", b"PK\1\2" + bytes(42)])
def test_attack_directory_with_more_in_it_than_its_entries(extra_bytes):
    said = {"size": 46 + len("SKILL.md") + len(extra_bytes)}
    reason, _ = refused(ROOT, tail=Tail(between=extra_bytes, end=said))
    assert reason == ("zip-not-tiled" if extra_bytes == b"junk" else "zip-hidden-entry")


@pytest.mark.parametrize("header", ["local", "central"])
def test_attack_header_that_reaches_into_what_follows(header):
    said = {"local": {"extra_length": 9999}, "central": {"comment_length": 99}}[header]
    assert refused(ROOT, Entry("a.txt", A.data, **{header: said}))[0] == "zip-not-tiled"


def test_attack_entry_without_a_name():
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
def test_attack_extra_field_that_is_not_what_it_has_to_be(field, reason):
    assert refused(ROOT, Entry("a.txt", A.data, both={"extra": field})) == (reason, "a.txt")


def test_unicode_path_that_is_the_name_once_more():
    assert files(ROOT, Entry("a.txt", A.data, both={"extra": unicode_path(b"a.txt", b"a.txt")})).keys() > {"a.txt"}

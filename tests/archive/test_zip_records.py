"""Zips made record by record: each lie has a reason of its own, and what some honest tool writes is read."""

from zlib import crc32

import pytest

from fixtures.attacks.zip_writer import Entry, Tail, body_of, descriptor, zip_bytes
from skillhub.archive import unpack
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

"""Tar and gzip: archives of the standard library are read alike, changed ones are refused."""

import gzip
import io
import tarfile

import pytest

from skillhub.archive.limits import Limits
from skillhub.archive.tar import Pending, read_tar
from skillhub.archive.unpack import unpack
from skillhub.errors import FormatError, UnsafeArchive

SKILL = b"---\nname: demo\n---\n" + b"words and words\n" * 40
LONG = "/".join(["folder" * 10] * 3) + "/näme.md"
FILES = {"SKILL.md": SKILL, "scripts/run.sh": b"#!/bin/sh\n", "empty": b"", "naïve 🎉.md": bytes(512), LONG: b"x"}


def tarred(files=FILES, form=tarfile.PAX_FORMAT, **fields):
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w", format=form) as archive:
        for path, data in files.items():
            info = tarfile.TarInfo(path)
            info.size = len(data)
            info.mode = 0o755 if path.endswith(".sh") else 0o644
            for field, value in fields.items():
                setattr(info, field, value)
            archive.addfile(info, io.BytesIO(data))
    return sink.getvalue()


def unpacked(tar, **how):
    return unpack(gzip.compress(tar), "tar.gz", **how)


def reason_of(tar, **how):
    with pytest.raises(UnsafeArchive) as caught:
        unpacked(tar, **how)
    return caught.value.reason


def patched(tar, at, value):
    """Return ``tar`` with these bytes in its first header, and a matching checksum."""
    head = bytearray(tar[:512])
    head[at : at + len(value)] = value
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    return bytes(head) + tar[512:]


def header(name, kind, size=0):
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, size
    return info.tobuf(tarfile.GNU_FORMAT)


def block(data):
    return data + bytes(-len(data) % 512)


def pax(*records, kind=b"x"):
    body = b"".join(records)
    return header("pax", kind, len(body)) + block(body)


def long_name(name):
    return header("././@LongLink", b"L", len(name)) + block(name)


END = bytes(1024)
A = header("a", b"0", 1) + block(b"x")
ROOT = header("SKILL.md", b"0", len(SKILL)) + block(SKILL)


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_tar_archives_of_the_standard_library_are_read(form):
    tree = unpacked(tarred(form=form)).tree
    assert {path: file.data for path, file in tree.items()} == FILES
    assert [path for path, file in tree.items() if file.executable] == ["scripts/run.sh"]


def test_a_ustar_prefix_is_read():
    files = {"SKILL.md": SKILL, "/".join(["folder" * 10] * 3): b"x"}
    assert set(unpacked(tarred(files, tarfile.USTAR_FORMAT)).tree) == set(files)


def test_global_comment_and_owners_are_ignored():
    comment = pax(b"52 comment=0123456789012345678901234567890123456789\n", kind=b"g")
    owners = {"uid": 1 << 40, "gid": 1 << 40, "uname": "ü" * 40, "mtime": 1e9 + 0.5}
    assert list(unpacked(comment + tarred({"SKILL.md": SKILL}, **owners)).tree) == ["SKILL.md"]


def test_one_leading_dot_slash_is_removed():
    tar = header("./", b"5") + header("./SKILL.md", b"0", len(SKILL)) + block(SKILL) + END
    assert list(unpacked(tar).tree) == ["SKILL.md"]
    assert unpacked(tar).warnings == ()
    assert reason_of(header("./", b"5") + tar) == "path-traversal"
    assert reason_of(ROOT + header("././a", b"0") + END) == "path-traversal"


def test_an_old_format_name_with_a_trailing_slash_is_a_folder():
    old = patched(patched(header("d/", b"\0"), 257, bytes(8)), 156, b"\0")
    assert list(unpacked(old + ROOT + END).tree) == ["SKILL.md"]
    assert reason_of(header("d/", b"\0") + ROOT + END) == "kind-mismatch"


def test_several_gzip_members_and_padding_are_read():
    tar = tarred()
    data = gzip.compress(tar[:700]) + gzip.compress(b"") + gzip.compress(tar[700:] + bytes(40 << 10))
    assert set(unpack(data, "tar.gz").tree) == set(FILES)


@pytest.mark.parametrize(
    ("attack", "tar", "reason"),
    [
        ("symlink", ROOT + header("a", b"2") + END, "link"),
        ("hard link", ROOT + header("a", b"1") + END, "link"),
        ("device", ROOT + header("a", b"3") + END, "special-file"),
        ("sparse", ROOT + header("a", b"S") + END, "special-file"),
        ("folder with data", ROOT + header("a/", b"5", 1) + block(b"x") + END, "folder-data"),
        ("file named as folder", ROOT + header("a/", b"0") + END, "kind-mismatch"),
        ("twice", ROOT + A + A + END, "collision"),
        ("no end marker", ROOT + A, "tar-header"),
        ("half an end marker", ROOT + END[:512], "tar-trailing"),
        ("entry after one zero block", ROOT + END[:512] + A + END, "tar-trailing"),
        ("entry after the end", ROOT + END + A + END, "tar-trailing"),
        ("bytes after the end", ROOT + END + b"x", "tar-trailing"),
        ("part of a block after the end", ROOT + END + bytes(511), "tar-trailing"),
        ("64 KiB and a block after the end", ROOT + END + bytes((64 << 10) + 512), "tar-trailing"),
        ("cut in a header", ROOT + A[:100], "tar-header"),
        ("block of another byte after the end", ROOT + END + b"~" * 512, "tar-trailing"),
        ("cut in a body of whole blocks", ROOT + header("a", b"0", 512) + bytes(511), "tar-size"),
        ("cut in a body", ROOT + A[:600], "tar-size"),
        ("gzip inside", gzip.compress(ROOT + END), "gzip"),
        ("nothing inside", b"", "tar-header"),
        ("checksum", ROOT + b"b" + A[1:] + END, "tar-checksum"),
        ("magic", patched(A, 257, b"xstar") + ROOT + END, "tar-header"),
        ("prefix in a GNU header", patched(A, 345, b"..") + ROOT + END, "tar-header"),
        (
            "sparse map in a GNU header of a file",
            patched(patched(A, 257, b"ustar  \0"), 386, b"0" * 24) + ROOT + END,
            "tar-header",
        ),
        ("negative size", patched(A, 124, b"\xff" * 12) + ROOT + END, "tar-size"),
        ("huge size", patched(A, 124, b"\x80" + b"\1" * 11) + ROOT + END, "tar-size"),
        ("size in five bytes", patched(A, 124, b"\x80" + bytes(6) + b"\1" + bytes(4)) + ROOT + END, "tar-size"),
        ("size in a far byte", patched(A, 124, b"\x80\1" + bytes(9) + b"\1") + ROOT + END, "tar-size"),
        ("size in no base", patched(A, 124, b"\1" + bytes(10) + b"\1") + ROOT + END, "tar-size"),
        ("two gigabytes", patched(A, 124, b"\x80" + bytes(7) + b"\x7f\0\0\0") + ROOT + END, "too-large"),
        ("file named as the root", header(".", b"0", 1) + block(b"x") + ROOT + END, "path-traversal"),
        ("letters for a size", patched(A, 124, b"0000000000x\0") + ROOT + END, "tar-size"),
        ("size beyond the limit", patched(A, 124, b"77777777777\0") + ROOT + END, "too-large"),
        ("binary mode", patched(A, 100, b"\x80" + bytes(5) + b"\1\xed") + ROOT + END, "tar-header"),
        ("set-id", patched(A, 100, b"0004755\0") + ROOT + END, "mode-bits"),
        ("not UTF-8", patched(A, 0, b"\xff") + ROOT + END, "name-encoding"),
    ],
)
def test_defective_entries_are_refused(attack, tar, reason):
    assert reason_of(tar) == reason, attack


@pytest.mark.parametrize(
    ("attack", "heads", "reason"),
    [
        ("pax path of another folder", pax(b"13 path=../b\n"), "path-traversal"),
        ("pax path twice", pax(b"10 path=b\n", b"10 path=c\n"), "tar-pax"),
        ("two pax headers", pax(b"10 path=b\n") * 2, "tar-pax"),
        ("pax path and long name", pax(b"10 path=b\n") + long_name(b"c\0"), "tar-long-name"),
        ("long name and pax path", long_name(b"c\0") + pax(b"10 path=b\n"), "tar-pax"),
        ("two long names", long_name(b"b\0") * 2, "tar-long-name"),
        ("empty long name", long_name(b"\0"), "tar-long-name"),
        ("long name with a NUL", long_name(b"b\0c\0"), "path-nul"),
        ("long link", header("././@LongLink", b"K", 2) + block(b"b\0"), "tar-long-name"),
        ("three headers", pax(kind=b"g") + pax() + long_name(b"b\0"), "tar-header"),
        ("global path", pax(b"10 path=b\n", kind=b"g"), "tar-pax"),
        ("linkpath", pax(b"14 linkpath=b\n"), "tar-pax"),
        ("hdrcharset", pax(b"21 hdrcharset=BINARY\n"), "tar-pax"),
        ("another size", pax(b"10 size=2\n"), "tar-pax"),
        ("sparse as Solaris has it", pax(b"19 SUN.holesdata=x\n"), "tar-pax"),
        ("another size as star has it", pax(b"21 SCHILY.realsize=2\n"), "tar-pax"),
        ("another type as star has it", pax(b"21 SCHILY.filetype=2\n"), "tar-pax"),
        ("permissions as star has them", pax(b"31 SCHILY.acl.access=user::rwx\n"), "tar-pax"),
        ("an offset as star has it", pax(b"19 SCHILY.offset=2\n"), "tar-pax"),
        ("global size", pax(b"10 size=1\n", kind=b"g"), "tar-pax"),
        ("record that ends in its key", pax(b"4 a\n6 b=c\n"), "tar-header"),
        ("two global headers", pax(kind=b"g") * 2, "tar-pax"),
        ("sparse", pax(b"22 GNU.sparse.major=1\n"), "tar-pax"),
        ("record of length zero", pax(b"0 path=b\n"), "tar-header"),
        ("record too long", pax(b"11 path=b\n"), "tar-header"),
        ("record too short", pax(b"8 path=b\n"), "tar-header"),
        ("record without key", pax(b"5 =b\n"), "tar-header"),
        ("blank before a key", pax(b"11  path=b\n"), "tar-header"),
        ("tab before a key of all entries", pax(b"11 \tpath=b\n", kind=b"g"), "tar-header"),
        ("record without value", pax(b"7 path\n"), "tar-header"),
        ("record without line feed", pax(b"10 path=bc"), "tar-header"),
        ("record of signs", pax(b"+10 path=b\n"), "tar-header"),
        ("key of no encoding", pax(b"7 \xff=b\n"), "tar-header"),
        ("over 64 KiB", pax(b"%d comment=%s\n" % (66000, b"x" * 65985)), "tar-pax"),
        ("long name over 64 KiB", long_name(b"n" * 65537), "tar-long-name"),
        ("too many records", pax(*(b"9 k%03d=v\n" % number for number in range(65))), "tar-pax"),
    ],
)
def test_defective_headers_of_a_next_entry_are_refused(attack, heads, reason):
    assert reason_of(ROOT + heads + A + END) == reason, attack


def test_the_type_of_a_special_file_is_named_as_the_header_has_it():
    with pytest.raises(UnsafeArchive, match="expected a file or folder, found type '3'"):
        unpack(gzip.compress(ROOT + header("a", b"3") + END), "tar.gz")


def test_limits_of_a_header_are_inclusive():
    Pending().expect(b"x", 64 << 10)
    most = pax(*(b"9 k%03d=v\n" % number for number in range(64)))
    assert set(unpacked(ROOT + most + A + END).tree) == {"SKILL.md", "a"}


@pytest.mark.parametrize("heads", [pax(b"10 path=b\n"), long_name(b"b\0"), pax(kind=b"g")])
def test_a_header_without_a_next_entry_is_refused(heads):
    assert reason_of(ROOT + heads + END) == "tar-header"


def test_a_long_name_applies_to_one_entry():
    tree = unpacked(ROOT + long_name(b"b\0") + A + pax(b"10 size=1\n", b"10 path=c\n") + A + A + END).tree
    assert set(tree) == {"SKILL.md", "a", "b", "c"}


def test_pending_takes_the_name_of_a_pax_header():
    pending = Pending()
    pending.take(b"x", b"10 path=b\n18 comment=anything\n".replace(b"18", b"20"))
    assert pending.name == b"b"


@pytest.mark.parametrize("data", [b"", b"PK\3\4", b"\x1f", ROOT + END, b"\xfd7zXZ\0"])
def test_no_gzip_is_a_format_error(data):
    with pytest.raises(FormatError):
        unpack(data, "tar.gz")


def test_a_binary_size_of_gnu_tar_is_read():
    tar = patched(A, 124, b"\x80" + bytes(10) + b"\1") + ROOT + END
    assert unpacked(tar).tree["a"].data == b"x"


def test_limits_are_checked_before_an_entry_is_read():
    def taken(bodies, limits):
        with pytest.raises(UnsafeArchive) as caught:
            list(read_tar(gzip.compress(bodies), limits))
        return caught.value.reason

    two = A + header("b", b"0", 1) + block(b"y")
    assert len(list(read_tar(gzip.compress(two + END), Limits(files=1, total=2)))) == 2
    assert taken(two + header("c", b"0", 1), Limits(files=1)) == "too-many-files"
    assert taken(two[:1536], Limits(total=1)) == "too-large"


def test_endless_headers_stop_early():
    many = b"".join(header(f"d{number}/", b"5") for number in range(50))
    assert reason_of(ROOT + many + END, limits=Limits(files=20)) == "too-many-files"


def test_endless_zeros_stop_early():
    assert reason_of(ROOT + bytes(40 << 20), limits=Limits(total=1 << 20)) == "tar-trailing"


def test_headers_count_towards_the_size_limit():
    comment = pax(b"65000 comment=" + b"x" * 64985 + b"\n")
    assert reason_of(ROOT + comment + A + END, limits=Limits(total=2000, files=1)) == "too-large"

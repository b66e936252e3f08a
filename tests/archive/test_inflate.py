"""Inflation stops at its limit and gives the reason."""

import contextlib
import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillhub.archive.limits import Gunzipped, inflate
from skillhub.errors import FormatError, SkillhubError, UnsafeArchive


def _gzip(data: bytes, level: int = 9) -> bytes:
    """Compress without a timestamp, so that test ids are the same in every worker."""
    return gzip.compress(data, level, mtime=0)


def deflate(data):
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


def reason_of(call):
    with pytest.raises(UnsafeArchive) as caught:
        call()
    return caught.value.reason


@given(st.binary(max_size=2000))
def test_inflate_restores_deflated_data(data):
    assert inflate(memoryview(deflate(data)), len(data), "a") == data


@pytest.mark.parametrize(
    ("packed", "size", "reason"),
    [
        (deflate(b"abc"), 2, "wrong-size"),
        (deflate(b"abc"), 4, "wrong-size"),
        (deflate(b"abc"), 0, "wrong-size"),
        (deflate(bytes(10 << 20)), 5, "wrong-size"),
        (deflate(b"abc") + b"x", 3, "deflate"),
        (deflate(b"abc")[:-1], 3, "deflate"),
        (b"", 0, "deflate"),
        (b"\xff\xff", 0, "deflate"),
    ],
)
def test_inflate_refuses_defective_data(packed, size, reason):
    assert reason_of(lambda: inflate(memoryview(packed), size, "a")) == reason


@given(st.lists(st.binary(max_size=3000), min_size=1, max_size=4), st.lists(st.integers(0, 2000), max_size=20))
def test_reading_in_pieces_equals_reading_at_once(members, sizes):
    whole = b"".join(members)
    stream = Gunzipped(b"".join(map(_gzip, members)), len(whole))
    pieces = [stream.read(size) for size in sizes]
    assert b"".join(pieces) == whole[: sum(sizes)]
    assert stream.read(len(whole) + 1) == whole[sum(sizes) :]
    assert stream.read(1) == b""


def test_large_data_is_decompressed_in_steps():
    data = bytes(3 << 20) + bytes(range(256)) * 4096
    assert Gunzipped(_gzip(data, 0), len(data)).read(len(data) + 1) == data
    assert Gunzipped(_gzip(data, 9), len(data)).read(len(data) + 1) == data


ONE = _gzip(b"abc")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (ONE[:-1], "gzip"),
        (ONE[:5], "gzip"),
        (ONE + b"x", "gzip"),
        (ONE + bytes(512), "gzip"),
        (ONE[:-8] + bytes(4) + ONE[-4:], "gzip"),
        (ONE[:-4] + bytes(4), "gzip"),
        (ONE + ONE[:12], "gzip"),
        (_gzip(b"") * 5000, "gzip"),
        (_gzip(bytes(101)), "too-large"),
        (_gzip(bytes(51)) * 2, "too-large"),
    ],
)
def test_gunzip_refuses_defective_data(data, reason):
    assert reason_of(lambda: Gunzipped(data, 100).read(1 << 20)) == reason


def test_gunzipped_data_is_read_one_byte_at_a_time():
    stream = Gunzipped(ONE, 100)
    assert [stream.read(1) for _ in range(5)] == [b"a", b"b", b"c", b"", b""]


def test_attack_bytes_after_a_member_inflated_in_steps_are_refused():
    large = _gzip(bytes(1 << 20))
    assert Gunzipped(large + ONE, 2 << 20).read(2 << 20) == bytes(1 << 20) + b"abc"
    for more in (b"x", bytes(3), bytes(40)):
        assert reason_of(lambda more=more: Gunzipped(large + more, 2 << 20).read(2 << 20)) == "gzip"


def test_the_number_of_members_is_limited():
    assert Gunzipped(_gzip(b"") * 4096, 100).read(1) == b""
    assert reason_of(lambda: Gunzipped(_gzip(b"") * 4097, 100).read(1)) == "gzip"


@pytest.mark.parametrize("data", [b"", b"\x1f", b"PK\3\4", zlib.compress(b"abc")])
def test_no_gzip_is_a_format_error(data):
    with pytest.raises(FormatError):
        Gunzipped(data, 100)


@given(st.binary(max_size=200))
def test_any_bytes_raise_only_our_errors(data):
    for head in (b"", b"\x1f\x8b\x08", ONE[:10], ONE):
        with contextlib.suppress(SkillhubError):
            Gunzipped(head + data, 1000).read(2000)

"""Kinds, limits and Unix modes of archive entries."""

import pytest

from skillhub.archive.limits import Limits, executable, unsafe
from skillhub.errors import UnsafeArchive
from skillhub.model.tree import kind_of


@pytest.mark.parametrize(
    ("name", "media", "kind"),
    [
        ("a.zip", None, "zip"),
        ("A.ZIP", None, "zip"),
        ("a.skill", None, "zip"),
        ("a.tar.gz", None, "tar.gz"),
        ("a-1.2.TGZ", None, "tar.gz"),
        ("a.tar", None, None),
        ("a.gz", None, None),
        ("zip", None, None),
        ("", None, None),
        ("a.zip", "application/octet-stream", "zip"),
        ("a.zip", "application/gzip", "tar.gz"),
        ("a.tar.gz", "Application/ZIP; charset=binary", "zip"),
        ("download", "application/x-gtar", "tar.gz"),
        ("blob", "application/vnd.oci.image.layer.v1.tar+gzip", "tar.gz"),
        ("blob", "application/vnd.example+zip", "zip"),
        *(("blob", f"application/{kind}", "zip") for kind in ("x-zip", "x-zip-compressed")),
        *(("blob", f"application/x-{kind}", "tar.gz") for kind in ("gzip", "tgz", "compressed-tar", "tar-gz")),
        ("blob", "text/html", None),
    ],
)
def test_the_content_type_takes_precedence_over_the_extension(name, media, kind):
    assert kind_of(name, media) == kind


def test_limits_are_the_documented_ones():
    assert Limits() == Limits(total=67_108_864, files=2000, name=255, path=1024, depth=32)


@pytest.mark.parametrize(
    ("mode", "folder", "expected"),
    [
        (0, False, False),
        (0o644, False, False),
        (0o755, False, True),
        (0o100700, False, True),
        (0o100677, False, False),
        (0o040755, True, False),
        (0o755, True, False),
    ],
)
def test_execute_bit_is_the_owners(mode, folder, expected):
    assert executable(mode, folder=folder, path="a") is expected


@pytest.mark.parametrize(
    ("mode", "folder", "reason"),
    [
        (0o120777, False, "link"),
        (0o120777, True, "link"),
        (0o010644, False, "special-file"),
        (0o060644, False, "special-file"),
        (0o040755, False, "kind-mismatch"),
        (0o100644, True, "kind-mismatch"),
        (0o4755, False, "mode-bits"),
        (0o2755, True, "mode-bits"),
        (0o1777, True, "mode-bits"),
        (0o1000644, False, "mode-bits"),
        (0o200644, False, "mode-bits"),
    ],
)
def test_unsafe_modes_are_refused(mode, folder, reason):
    with pytest.raises(UnsafeArchive) as caught:
        executable(mode, folder=folder, path="a/b")
    assert (caught.value.reason, caught.value.where) == (reason, "a/b")


def test_the_place_of_an_error_is_escaped_and_shortened():
    assert unsafe("link", "x", "a\x1b[2J\u202eb").where == "a[2Jb"
    assert len(unsafe("link", "x", "a" * 70_000).where or "") == 1024

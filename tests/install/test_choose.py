"""Whether a locked version is within a range."""

from __future__ import annotations

import pytest

from skillhub.errors import UsageError
from skillhub.formats.digest import Digest
from skillhub.install.candidates import is_within
from skillhub.model.lock import Locked


def entry(version):
    return Locked(source="acme", tree=Digest.of(b""), size=0, version=version)


@pytest.mark.parametrize(
    ("version", "range_", "is_in"),
    [
        ("1.2.0", "^1", True),
        ("2.0.0", "^1", False),
        ("1.2.0", None, True),
        (None, None, True),
        (None, "^1", False),
        ("as of May", "^1", False),
        ("as of May", None, True),
    ],
)
def test_a_version_is_in_a_range_or_not(version, range_, is_in):
    assert is_within(entry(version), range_) is is_in


def test_an_invalid_range_is_refused():
    with pytest.raises(UsageError):
        is_within(entry("1.0.0"), "newest")

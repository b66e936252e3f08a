"""The view of a root for a user."""

import json

import pytest

from skillhub.errors import FormatError
from skillhub.trust.roles import MetadataFile, RootFile, changes

ROLES = {"root": {"threshold": 2, "keyids": ["a", "b"]}, "targets": {"threshold": 1, "keyids": ["c"]}}
SIGNED = {"version": 3, "expires": "2027-01-01T00:00:00Z", "roles": ROLES}


def spelled(**change):
    return json.dumps({"signed": {**SIGNED, **change}, "signatures": []}).encode()


def test_root_is_read_role_by_role():
    found = RootFile.parse(spelled(), "here").signed
    roles = {name: (role.threshold, role.keyids) for name, role in found.roles.items()}
    assert (found.version, found.expires) == (3, SIGNED["expires"])
    assert roles == {"root": (2, ("a", "b")), "targets": (1, ("c",))}
    view = MetadataFile.parse(spelled(), "here").signed
    assert (view.version, view.expires) == (3, SIGNED["expires"])


def test_largest_root_is_read():
    largest = spelled().ljust(4 << 20)
    assert MetadataFile.parse(largest, "here").signed.version == 3
    with pytest.raises(FormatError):
        MetadataFile.parse(largest + b" ", "here")


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"[]", b"{}", b'{"signed": []}', b'{"signed": {"version": 1}}'),
        *(spelled(version="3"), spelled(version=None), spelled(expires=3)),
    ],
)
def test_invalid_metadata_has_no_view(data):
    for view in (RootFile, MetadataFile):
        with pytest.raises(FormatError) as caught:
            view.parse(data, "here")
        assert caught.value.where.startswith("here")


@pytest.mark.parametrize("roles", [None, [], {"root": None}, {"root": {}}, {"root": {"threshold": 1}}])
def test_document_without_roles_has_no_view_of_a_root(roles):
    with pytest.raises(FormatError):
        RootFile.parse(spelled(roles=roles), "here")
    assert MetadataFile.parse(spelled(roles=roles), "here").signed.version == 3


def test_changes_between_two_roots_are_listed():
    now = {"root": {"threshold": 1, "keyids": ["b", "d"]}, "mirrors": {"threshold": 2, "keyids": ["e"]}}
    before, after = (RootFile.parse(spelled(**change), "").signed for change in ({}, {"version": 4, "roles": now}))
    assert list(changes(before, after)) == [
        "root went from version 3 to 4",
        "mirrors gained the key e",
        "mirrors needs 2 keys instead of 0",
        "root gained the key d",
        "root lost the key a",
        "root needs 1 keys instead of 2",
    ]
    assert list(changes(before, before)) == []

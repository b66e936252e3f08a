"""The documents of a registry for readers without TUF."""

import json

import pytest

from skillhub.formats.digest import Digest
from skillhub.model.index import Admission, Index, Release, index_path
from skillhub.trust.documents import LISTING_PATH, signed_documents


def release(version, **more):
    digest = Digest.of(version.encode())
    facts = {"published": "2026-01-01T00:00:00Z", "size": 1, "tree": digest, "publisher": "acme"}
    facts |= {"url": f"{version}.zip", "digest": digest}
    return Release(name="hello", version=version, **{**facts, **more})


@pytest.mark.parametrize(
    ("newest", "older", "shown"),
    [
        ({}, {}, "2.0.0"),
        ({"yanked": "bad"}, {}, "1.0.0"),
        ({"withdrawn": "bad"}, {}, "1.0.0"),
        ({"withdrawn": "bad"}, {"yanked": "bad"}, "1.0.0"),
        ({"yanked": "bad"}, {"withdrawn": "bad"}, "2.0.0"),
        ({"withdrawn": "bad"}, {"withdrawn": "bad"}, "2.0.0"),
    ],
)
def test_listing_shows_the_newest_selectable_release(newest, older, shown):
    index = Index(
        {"hello": (release("2.0.0", **newest), release("1.0.0", **older))},
        {"acme": Admission(publisher="acme", names=frozenset({"hello"}))},
    )
    (row,) = json.loads(signed_documents(index, ["acme"], ["hello"])[LISTING_PATH])["skills"]
    assert row["version"] == shown


def test_index_of_a_publisher_has_only_its_releases():
    moved = (release("2.0.0"), release("1.0.0", publisher="rival", digest=None))
    index = Index({"hello": moved}, {})
    for publisher, version, has_digest in (("acme", "2.0.0", True), ("rival", "1.0.0", False)):
        (row,) = json.loads(signed_documents(index, [publisher], [])[index_path(publisher)])["releases"]
        assert (row["version"], row["sha256"] is not None) == (version, has_digest)


def test_documents_are_utf8():
    index = Index({"hello": (release("1.0.0", description="Größe 😀"),)}, {})
    assert "Größe 😀".encode() in signed_documents(index, [], [])[LISTING_PATH]

"""What a registry shows to readers that know no TUF."""

import json

import pytest

from skillhub.model.digest import Digest
from skillhub.model.release import Admission, Release
from skillhub.trust.registry_documents import LISTING_PATH, Shelf


def release(version, **more):
    digest = Digest.of(version.encode())
    facts = {"published": "2026-01-01T00:00:00Z", "size": 1, "tree": digest, "publisher": "acme"}
    return Release(name="hello", url=f"{version}.zip", digest=digest, version=version, **facts, **more)


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
def test_listing_shows_the_newest_release_that_one_may_choose(newest, older, shown):
    shelf = Shelf(
        {"acme": Admission(publisher="acme", names=frozenset({"hello"}))},
        {"hello": (release("2.0.0", **newest), release("1.0.0", **older))},
    )
    (row,) = json.loads(shelf.targets(["acme"], ["hello"])[LISTING_PATH])["skills"]
    assert row["version"] == shown

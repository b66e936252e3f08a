"""Search in sources and in the project."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skillhub.audit.show import search
from skillhub.errors import SourceError
from skillhub.install.trusted_sources import listings
from skillhub.model.advisory import AdvisoriesDocument, AdvisoryFeed
from skillhub.model.index import Index, Release
from skillhub.model.skill import Skill


class Listing:
    """A registry that only has a listing, or is unreachable without one."""

    def __init__(self, **skills):
        self.skills = skills

    def advisories(self):
        return AdvisoryFeed(AdvisoriesDocument())

    def cosigned_by(self, witnesses):
        return frozenset()

    def listing(self, text=""):
        if not self.skills:
            raise SourceError("it is down")
        return Index(
            {
                name: (Release(name=name, url="x", description=text, withdrawn="" if "evil" in name else None),)
                for name, text in self.skills.items()
            }
        )


def look(world, query, registry=None, skills=(), limit=8):
    ports = world.ports()
    if registry is not None:
        ports = replace(ports, network=replace(ports.network, open_registry=lambda *_: registry))
    listed = listings(ports, needed=not skills)
    return search(query, skills, limit, listed.each), listed.warnings


HERE = Skill(name="release-here", path="/p/release-here", scope="project", state="enabled", description="Release.")


def test_skills_of_sources_and_of_the_project_are_found_together(world):
    found = look(world, "release", skills=[HERE])[0]
    assert [(hit.name, hit.source, hit.scope) for hit in found.hits][:2] == [
        ("release-here", None, "project"),
        ("release-notes", "github", None),
    ]


def test_a_withdrawn_skill_is_not_found(world):
    assert look(world, "first", Listing(evil="The first.", good="The first."))[0].hits[0].name == "good"
    assert len(look(world, "first", Listing(evil="The first.", good="The first."))[0].hits) == 1


def test_an_unreachable_source_is_left_out_with_a_warning(world):
    found, warnings = look(world, "release", Listing(), [HERE])
    assert [hit.name for hit in found.hits] == ["release-here"]
    assert warnings == ("github was left out: it is down",)
    with pytest.raises(SourceError):
        look(world, "release", Listing())


def test_local_search_reads_no_source():
    assert search("releases", [HERE], 8).hits[0].name == "release-here"

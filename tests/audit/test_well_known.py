"""A well-known site without a registry as a source: by its alias, unsigned, and never in place of a registry."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from skillhub.audit.show import diff, search, show
from skillhub.disk.folders import remove_tree
from skillhub.errors import NotFound, Refused, SourceMismatch, TrustDowngrade, UsageError, WrongBytes
from skillhub.formats.digest import Digest
from skillhub.install.trusted_sources import Pin, add_source, listings, trust_source
from skillhub.model.lock import Lock, LockedSource
from skillhub.model.reference import Named, parse_ref
from skillhub.project.intent import Wanted
from tests.support.reaching import Reaching
from tests.support.registry import Simulator
from tests.support.site import JSON, LEGACY, WELL_KNOWN, current, entry, legacy, offer, skill_md
from tests.support.web import Web, answer
from tests.support.world import Answers, refused, unlocked

ROOT = "/metadata/1.root.json"


@pytest.fixture
def web(web):
    web.at(WELL_KNOWN, answer(current(offer(web, "pdf"), offer(web, "mail")), JSON))
    return web


@pytest.fixture
def world(reaching: Reaching) -> Reaching:
    return reaching


@pytest.fixture
def added(world: Reaching, web: Web) -> Reaching:
    add_source("docs", web.url(""), Pin(), world.ports())
    return world


def changed(web: Web, name: str = "pdf", body: str = "Do it otherwise.") -> None:
    """Change the content of a skill on the site, with its digest."""
    data = skill_md(name, body)
    web.at(f"/{name}/SKILL.md", answer(data, "Content-Type: text/markdown"))
    web.at(WELL_KNOWN, answer(current(entry(name, data, f"/{name}/SKILL.md")), JSON))


def test_a_site_is_added_only_with_consent_to_unsigned_skills(world: Reaching, web: Web) -> None:
    error = refused(world, Refused, lambda: add_source("docs", web.url(""), Pin(), world.ports(Answers())))
    assert [question.kind for question, _ in error.asked] == ["place"]
    source = add_source("docs", web.url("/"), Pin(), world.ports(Answers(place="yes")))
    assert (source.url, source.root) == (web.url(""), None)
    assert world.sources.get("docs") == source
    assert web.seen[ROOT] == 2


def test_a_site_is_not_accepted_in_place_of_a_pinned_registry(world: Reaching, web: Web) -> None:
    pin = Pin(fingerprint=Digest.of(b"root"))
    refused(world, NotFound, lambda: add_source("docs", web.url(""), pin, world.ports()))


def test_without_site_or_registry_no_source_is_added(world: Reaching) -> None:
    with Web() as empty:
        refused(world, NotFound, lambda: add_source("docs", empty.url(""), Pin(), world.ports()))
    assert world.answers.seen == []


@pytest.mark.parametrize("end", ["/.well-known/agent-skills/index.json", "/.well-known", "/a?b", "/x#y"])
def test_attack_the_url_of_an_index_is_refused_as_a_source(world: Reaching, web: Web, end: str) -> None:
    """Beside an index there is no root, so a registry would be taken for a site."""
    refused(world, UsageError, lambda: add_source("docs", web.url(end), Pin(), world.ports()))
    assert not web.seen


def test_a_sites_skill_is_locked_by_alias_url_and_digest(added: Reaching, web: Web) -> None:
    done = added.install("docs:pdf")
    assert "unsigned" in [question.kind for question, _ in done.asked]
    lock = added.lock()
    assert lock.sources == {"docs": LockedSource(kind="well-known", url=web.url(""))}
    locked = lock.skills["pdf"]
    assert (locked.source, locked.url) == ("docs", web.url("/pdf/SKILL.md"))
    assert locked.digest == Digest.of(skill_md("pdf"))
    assert added.project.intent().skills["pdf"] == Wanted(source="docs")
    assert Lock.parse(lock.dump()) == lock


def test_a_bare_name_is_found_on_a_site(added: Reaching) -> None:
    added.install("mail")
    assert added.lock().skills["mail"].source == "docs"
    with pytest.raises(NotFound):
        added.install("docs:nothing")
    with pytest.raises(NotFound, match="no release of pdf is"):
        added.install("docs:pdf@^1.0")


def test_show_and_search_find_a_sites_skills(added: Reaching) -> None:
    shown = show(parse_ref("docs:pdf"), added.ports())
    assert (shown.skill.source, shown.skill.signed_by) == ("docs", ())
    listed = listings(added.ports())
    found = search("pdf", [], 5, listed.each)
    assert ("pdf", "docs") in [(hit.name, hit.source) for hit in found.hits]
    assert listed.warnings == ()


def test_another_site_under_the_locked_alias_gets_no_request(added: Reaching, web: Web) -> None:
    added.install("docs:pdf")
    added.sources.remove("docs")
    with Web() as other:
        other.at(WELL_KNOWN, answer(current(offer(other, "pdf")), JSON))
        add_source("docs", other.url(""), Pin(), added.ports())
        seen = other.seen[WELL_KNOWN]
        shown = show(parse_ref("pdf"), added.ports())
        assert (shown.releases, other.seen[WELL_KNOWN]) == ((), seen)
    assert "differs from the source of pdf in the lock" in shown.warnings[0]


def test_update_takes_the_sites_new_content_and_install_does_not(added: Reaching, web: Web) -> None:
    added.install("docs:pdf")
    before = added.lock_bytes()
    changed(web)
    assert not added.install("docs:pdf").changed
    assert added.lock_bytes() == before
    assert [skill.name for skill in added.behind().skills] == ["pdf"]
    assert "otherwise" in diff(Named("pdf"), added.ports()).patch
    added.update()
    assert "otherwise" in added.text("pdf")
    assert added.behind().skills == ()


def test_on_another_machine_the_site_needs_consent_and_the_lock_decides(added: Reaching, web: Web) -> None:
    added.install("docs:pdf")
    other = added.as_cloned()
    error = refused(other, Refused, lambda: other.install(answers=Answers("yes", unsigned="unanswered")))
    assert error.where == "pdf"
    remove_tree(other.home.cache)
    changed(web)
    web.at("/old.md", answer(skill_md("pdf"), "Content-Type: text/markdown"))
    refused_bytes = unlocked(other.snapshot())
    with pytest.raises(WrongBytes, match="pdf"):
        other.install()
    assert [*other.ports().sources.all()] == ["github"]
    assert not other.copy("pdf").exists()
    assert set(refused_bytes) <= set(unlocked(other.snapshot()))
    web.at("/pdf/SKILL.md", answer(skill_md("pdf"), "Content-Type: text/markdown"))
    other.install()
    assert other.text("pdf").encode() == skill_md("pdf")
    assert [*other.ports().sources.all()] == ["github", "docs"]
    assert [*other.sources.all()] == ["github"]


def test_a_site_without_digests_is_pinned_by_its_trees(world: Reaching) -> None:
    with Web() as web:
        web.at(LEGACY, answer(legacy({"name": "old", "description": "Old.", "files": ["SKILL.md"]}), JSON))
        web.at("/.well-known/skills/old/SKILL.md", answer(skill_md("old")))
        add_source("docs", web.url(""), Pin(), world.ports())
        world.install("docs:old")
        assert world.lock().skills["old"].digest is None
        assert world.behind().skills == ()
        web.at("/.well-known/skills/old/SKILL.md", answer(skill_md("old", "Worse.")))
        assert [skill.name for skill in world.behind().skills] == ["old"]
        other = world.as_cloned()
        with pytest.raises(WrongBytes):
            other.install()
        assert not other.copy("old").exists()


class TestFormerRegistry:
    """A former registry never becomes an unsigned site."""

    @pytest.fixture
    def registry(self, world: Reaching, web: Web) -> Reaching:
        world.sources.add("acme", web.url("/hub"), b"root")
        web.at(f"/hub{WELL_KNOWN}", web.acts[WELL_KNOWN])
        return world

    @pytest.mark.parametrize("alias", ["acme", "other"])
    def test_attack_removed_metadata_are_refused(self, registry: Reaching, web: Web, alias: str) -> None:
        refused(registry, TrustDowngrade, lambda: add_source(alias, web.url("/hub/"), Pin(), registry.ports()))
        assert registry.answers.seen == []

    def test_attack_removed_metadata_are_refused_after_removal_of_the_source(
        self, registry: Reaching, web: Web
    ) -> None:
        registry.sources.remove("acme")
        for url in (web.url("/hub"), web.url("/hub/"), web.url("/hub").replace("http:", "HTTP:")):
            refused(registry, TrustDowngrade, lambda url=url: add_source("x", url, Pin(), registry.ports()))

    def test_attack_new_trust_without_a_root_is_refused(self, registry: Reaching) -> None:
        refused(registry, TrustDowngrade, lambda: trust_source("acme", Pin(), registry.ports()))

    def test_attack_a_lock_that_calls_the_registry_a_site_is_refused(self, registry: Reaching, web: Web) -> None:
        lock = Lock({}, {"acme": LockedSource(kind="well-known", url=web.url("/hub"))})
        (registry.base / "skillhub.lock").write_bytes(lock.dump())
        refused(registry, SourceMismatch, lambda: registry.install())

    def test_attack_a_lock_calls_an_unknown_registry_a_site(self, world: Reaching, web: Web) -> None:
        url = web.url("/hub")
        web.at(f"/hub{ROOT}", answer(b"{}", JSON))
        lock = Lock({}, {"acme": LockedSource(kind="well-known", url=url)})
        (world.base / "skillhub.lock").write_bytes(lock.dump())
        error = refused(world, SourceMismatch, lambda: world.install())
        assert f"skillhub source add acme {url}" in error.hint


def test_a_site_that_became_a_registry_is_trusted_by_its_root(world: Reaching, tmp_path: Path, web) -> None:
    add_source("acme", web.url(""), Pin(), world.ports())
    assert trust_source("acme", Pin(), world.ports()).root is None
    world.registries["acme"] = Simulator(tmp_path)
    with pytest.raises(Refused):
        trust_source("acme", Pin(), world.ports(Answers()))
    assert world.sources.get("acme").root is None


def test_the_sources_file_keeps_the_urls_of_removed_registries(world: Reaching, web: Web) -> None:
    world.sources.add("acme", web.url("/hub"), b"root")
    add_source("docs", web.url(""), Pin(), world.ports())
    world.sources.remove("acme")
    kept = json.loads(Path(world.home.state, "sources.json").read_bytes())
    assert kept["sources"]["docs"] == {"url": web.url("")}
    assert kept["registries"] == [f"127.0.0.1:{web.port}/hub"]


def test_a_skill_missing_on_a_site_does_not_block_others(added: Reaching, web: Web) -> None:
    added.install("docs:pdf", "docs:mail")
    changed(web, "pdf")
    assert [each.name for each in added.behind().skills] == ["pdf"]
    done = added.update()
    ((left, code, message),) = [(each.name, each.code, each.message) for each in done.left_out]
    assert (left, code, done.changed) == ("mail", "not-found", True)
    assert "skillhub remove mail" in message
    assert added.text("pdf").endswith("Do it otherwise.\n")
    error = refused(added, NotFound, lambda: added.update("mail"))
    assert "mail" in error.message
    web.at(WELL_KNOWN, answer(b"gone", status="404 Not Found"))
    refused(added, NotFound, added.update)


def test_skills_of_a_removed_source_do_not_block_others(added: Reaching, web: Web) -> None:
    added.install("docs:pdf", "docs:mail")
    added.sources.remove("docs")
    done = added.update()
    assert [(each.name, each.code) for each in done.left_out] == [("mail", "not-found"), ("pdf", "not-found")]
    assert "skillhub source" in done.left_out[0].message

"""The examples of ``docs/formats``, read by the code that they describe."""

import json
import re
import tomllib
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path

from skillhub.formats.digest import Digest
from skillhub.model.advisory import AdvisoryFeed, AdvisoryIndex
from skillhub.model.discovery import admitted, parse_namespaces, parse_releases
from skillhub.model.index import Index, namespace_path
from skillhub.model.lock import Lock, Locked, LockedSource
from skillhub.model.tree import Listing
from skillhub.model.version import Range
from skillhub.policy.policy import AGREEABLE, KEYS, parse_policy
from skillhub.project.intent import ProposedSource, Wanted
from skillhub.project.project import Project
from skillhub.trust.documents import pinned_documents, signed_documents
from skillhub.trust.registry_rules import keys_of, part_of, released_by
from tests.model.test_tree import PIPELINE

DOCS = Path(__file__).parents[1] / "docs" / "formats"


def page(name):
    return (DOCS / name).read_text(encoding="utf-8")


def examples(name, kind):
    return [found.encode() for found in re.findall(rf"```{kind}\n(.*?)```", page(name), re.DOTALL)]


def test_the_example_of_the_lock_is_canonical():
    (data,) = examples("lock.md", "json")
    lock = Lock.parse(data)
    assert lock.dump() == data
    assert list(lock.skills) == ["deploy", "gh-fix-ci", "review"]


def test_the_page_of_the_lock_names_every_key():
    for field in (*fields(Locked), *fields(LockedSource)):
        assert f"`{field.name}`" in page("lock.md")


def test_the_example_of_the_intent_is_read(home, tmp_path):
    (data,) = examples("intent.md", "toml")
    (tmp_path / "skillhub.toml").write_bytes(data)
    project = Project(str(tmp_path), "project", home)
    intent, policy = project.intent(), project.policy()
    assert set(intent.sources) == {"acme"}
    assert intent.skills["pdf"].version == "^2"
    assert intent.skills["deploy"].path == "skills/deploy"
    assert (intent.agents, intent.link) == (("claude-code", "codex"), "copy")
    assert (policy.signed, policy.min_age_days) == ("required", 3)
    assert set(tomllib.loads(data.decode())) == {"sources", "skills", "install", "policy"}


def test_the_page_of_the_intent_names_every_key():
    text = page("intent.md")
    for field in fields(Wanted):
        assert f"`skills.NAME.{'from' if field.name == 'origin' else field.name}`" in text
    assert {field.name for field in fields(ProposedSource)} == {"url", "root"}
    assert "`sources.ALIAS.url`, `.root`" in text
    for spelled in re.findall(r"`([\^~>*\d][^`]*)`", text.split("skills.NAME.version")[1].split("\n")[0]):
        Range(spelled)


def test_pre_releases_match_as_described():
    wanted = Range("^1.2.0-rc.1")
    assert wanted.allows("1.2.0-rc.2")
    assert wanted.allows("1.3.0")
    assert not wanted.allows("1.3.0-rc.1")


def test_the_example_listing_has_the_digest_shown():
    (data,) = examples("tree.md", "listing")
    assert Listing.parse(data).text == data
    assert f"`{Digest.of(data)}`" in page("tree.md")


def test_the_pipeline_of_the_page_is_the_tested_one():
    (shown,) = examples("tree.md", "sh")
    assert shown.decode().strip() == PIPELINE.strip()


def test_the_example_documents_of_a_registry_are_read():
    bucket, document, index, part = examples("registry.md", "json")
    assert [row.key for row in part_of("", None, part, "part").rows] == keys_of("fill-pdf", "Fill a PDF.")
    admission = admitted("acme", document, "publishers")
    shelf = Index({}, {"acme": admission})
    written = signed_documents(shelf, ["acme"], [])[namespace_path("acme")]
    assert parse_namespaces(bucket, "ns") == parse_namespaces(written, "ns")
    (kept,) = pinned_documents(shelf, ["acme"]).values()
    assert json.loads(kept) == json.loads(document)
    publisher, (release,) = parse_releases(index, "idx")
    assert released_by(admission, publisher, (release,)) == {"my-skill": (release,)}


def test_the_example_advisory_is_valid():
    (data,) = examples("advisories.md", "json")
    feed = AdvisoryFeed.parse(data, "page")
    (found,) = feed.document.advisories
    assert (found.rank, bool(AdvisoryIndex([feed], datetime.now(UTC)))) == ("high", True)


def test_the_example_policies_are_read():
    lines, build = examples("policy.md", "toml")
    assert set(dict(parse_policy(lines, "machine", "p").rules())) == set(KEYS) - {
        "allow-findings",
        "agree",
        "trusted-sources",
    }
    assert parse_policy(build, "machine", "p").agree == ("install",)
    assert parse_policy(build, "machine", "p").trusted_sources == (f"acme=sha256:{'3' * 64}",)


def test_the_page_of_policies_names_every_key_and_every_question():
    for word in (*KEYS, *AGREEABLE):
        assert f"`{word}`" in page("policy.md")

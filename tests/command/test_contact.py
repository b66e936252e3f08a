"""A forbidden source gets no request: a request alone shows the server who asks, and when."""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from skillhub.audit.audit import AuditRequest, audit
from skillhub.audit.show import diff, diff_locks, edits_of, search, show
from skillhub.command.ports import Options
from skillhub.disk.folders import remove_tree
from skillhub.errors import Forbidden, Refused, SkillhubError, SourceError
from skillhub.exchange.adopt import adopt, import_lock
from skillhub.exchange.other_locks import Origin, OtherLock
from skillhub.formats.digest import Digest
from skillhub.install.apply import enable
from skillhub.install.install import available_updates, install, update
from skillhub.install.obtain import obtain_locked
from skillhub.install.patches import drop, patch
from skillhub.install.sync import sync
from skillhub.install.trusted_sources import Pin, add_source, listings, trust_source
from skillhub.model.lock import Lock
from skillhub.model.reference import Named, parse_ref
from tests.support.gitbackend import backend
from tests.support.gitrepos import Repo
from tests.support.reaching import Reaching
from tests.support.site import JSON, WELL_KNOWN, current, entry, offer, skill_md
from tests.support.web import Web, answer
from tests.support.world import Answers, skill

TEXT = "Content-Type: text/markdown"
ROOMS = Path(__file__).resolve().parents[2] / "skillhub"


@pytest.fixture
def world(tmp_path):
    world = Reaching(tmp_path)
    yield world
    world.close()


def policy(world, *sources):
    path = Path(world.home.config, "policy.toml")
    os.makedirs(path.parent, exist_ok=True)
    path.write_text(f"sources = {json.dumps(sources)}\n")
    return str(path)


@pytest.fixture
def webs():
    """An allowed site with two skills, one of them on another server."""
    with Web() as site, Web() as other:
        data = skill_md("there")
        other.at("/there/SKILL.md", answer(data, TEXT))
        rows = [offer(site, "here"), entry("there", data, other.url("/there/SKILL.md"))]
        site.at(WELL_KNOWN, answer(current(*rows), JSON))
        yield site, other


def test_attack_a_forbidden_server_of_an_allowed_site_gets_no_request(world, webs):
    site, other = webs
    line = policy(world, site.url("/"))
    with pytest.raises(Forbidden) as caught:
        world.install(site.url(""), skills=("there",))
    assert caught.value.where == line
    assert other.url("/there/SKILL.md") in caught.value.message
    done = world.install(site.url(""), every=True)
    assert [each.name for each in done.skills] == ["here"]
    assert [(each.name, each.code) for each in done.left_out] == [("there", "policy")]
    assert not other.connections


@pytest.mark.parametrize("allowed", ["https://allowed.example/", f"sha256:{'3' * 64}"])
def test_attack_a_forbidden_source_is_not_added(world, webs, allowed):
    site, _ = webs
    line = policy(world, allowed)
    before = world.snapshot()
    for pin in (Pin(), Pin(fingerprint=Digest.of(b"root")), Pin(root=b"root")):
        with pytest.raises(Forbidden) as caught:
            add_source("docs", site.url(""), pin, world.ports(Answers("yes")))
        assert caught.value.where == line
        assert ("--fingerprint" in caught.value.hint) == (pin == Pin())
    assert not site.connections
    assert world.snapshot() == before


def test_attack_a_project_policy_forbids_a_source(world, webs):
    site, _ = webs
    Path(world.base, "skillhub.toml").write_text('[policy]\nsources = ["https://allowed.example/"]\n')
    with pytest.raises(Forbidden):
        add_source("docs", site.url(""), Pin(), world.ports(Answers("yes")))
    assert not site.connections


def test_attack_an_added_source_that_is_forbidden_later_is_not_trusted(world, webs):
    site, _ = webs
    world.sources.add("docs", site.url(""), None)
    policy(world, "https://allowed.example/")
    for pin in (Pin(), Pin(fingerprint=Digest.of(b"root"))):
        with pytest.raises(Forbidden):
            trust_source("docs", pin, world.ports(Answers("yes")))
    assert not site.connections


def test_an_allowed_source_is_added_and_needs_an_answer_in_spite_of_agree(world, webs):
    site, other = webs
    policy(world, site.url("/"))
    path = Path(world.home.config, "policy.toml")
    path.write_text(path.read_text() + 'agree = ["unsigned"]\n')
    with pytest.raises(Refused):
        add_source("docs", site.url(""), Pin(), world.ports(Answers()))
    assert add_source("docs", site.url(""), Pin(), world.ports(Answers("yes"))).alias == "docs"
    assert not other.connections


def test_attack_a_locked_artifact_on_a_forbidden_server_is_not_requested(world, webs):
    site, other = webs
    world.install(site.url(""), skills=("there",))
    assert other.connections == 1
    policy(world, site.url("/"))
    for path in (world.store.root, world.home.cache):
        remove_tree(path)
    for act in (world.install, lambda: world.install(frozen=True), lambda: world.enable("there")):
        with pytest.raises(Forbidden):
            act()
    assert other.connections == 1


def test_attack_an_update_on_a_forbidden_server_is_not_requested(world, webs):
    site, other = webs
    world.install(site.url(""), skills=("here",))
    data = skill_md("here", "Do it better.")
    other.at("/here/SKILL.md", answer(data, TEXT))
    site.at(WELL_KNOWN, answer(current(entry("here", data, other.url("/here/SKILL.md"))), JSON))
    policy(world, site.url("/"))
    for act in (world.update, world.behind):
        with pytest.raises(Forbidden):
            act()
    assert not other.connections


@pytest.fixture
def market(tmp_path):
    """A server with a marketplace, and with a plugin in a repository of its own."""
    with backend(tmp_path / "served") as server:
        plugins = [{"name": "p", "source": {"source": "url", "url": server.url("/plugin.git")}}]
        files = {
            ".claude-plugin/marketplace.json": json.dumps({"name": "m", "plugins": plugins}).encode(),
            "skills/mail/SKILL.md": skill_md("mail"),
        }
        Repo(tmp_path / "served/market.git").commit(files)
        Repo(tmp_path / "served/plugin.git").commit({"skills/pdf/SKILL.md": skill_md("pdf")})
        yield server


def test_attack_a_forbidden_repository_of_an_allowed_marketplace_is_refused(world, market):
    ref = f"git+{market.url('/market.git')}"
    line = policy(world, market.url("/market.git"))
    for word in ("pdf", "p:pdf", "nothing"):
        with pytest.raises(Forbidden) as caught:
            world.install(ref, skills=(word,))
        assert caught.value.where == line
    done = world.install(ref, every=True)
    assert [each.name for each in done.skills] == ["mail"]
    assert any("plugin p was left out" in each and "/plugin.git" in each for each in done.warnings)
    assert not any("plugin" in each for each in market.asked)
    policy(world, market.url("/market.git"), market.url("/plugin.git"))
    assert [each.name for each in world.install(ref, skills=("pdf",)).skills] == ["pdf"]


def test_attack_a_locked_plugin_in_a_forbidden_repository_is_not_requested(world, market):
    ref = f"git+{market.url('/market.git')}"
    world.install(ref, skills=("pdf",))
    policy(world, market.url("/market.git"))
    for path in (world.store.root, world.home.cache):
        remove_tree(path)
    del market.asked[:]
    with pytest.raises(Forbidden):
        world.install()
    assert not any("plugin" in each for each in market.asked)


def test_attack_reading_commands_send_no_request_to_a_forbidden_server(world, webs):
    site, _ = webs
    skills = world.install(site.url(""), skills=("here",)).skills
    world.sources.add("site", site.url(""), None)
    lock = world.lock()
    before = Lock({"here": replace(lock.skills["here"], capabilities=("scripts",))}, lock.sources)
    asked = site.connections
    line = policy(world, "https://allowed.example/")
    looks = (
        lambda: diff(Named("here"), world.ports()),
        lambda: show(parse_ref(site.url("")), world.ports()),
        lambda: show(parse_ref("site:here"), world.ports()),
        lambda: show(parse_ref("there"), world.ports()),
        lambda: listings(world.ports()),
    )
    for look in looks:
        with pytest.raises(Forbidden) as caught:
            look()
        assert caught.value.where == line
    found = listings(world.ports(), needed=False)
    assert [each.name for each in search("here", skills, 5, found.each).hits] == ["here"]
    assert any(each.startswith("site was left out") for each in found.warnings)
    for path in (world.store.root, world.home.cache):
        remove_tree(path)
    (one,) = diff_locks(before, [], world.ports())
    assert (one.status, one.patch) == ("changed", "")
    assert all("is not an allowed source" in each for each in one.notes)
    assert len(one.notes) == 2
    assert site.connections == asked


def test_an_allowed_source_gets_requests(world, webs):
    site, other = webs
    policy(world, site.url("/"), other.url("/"))
    assert len(world.install(site.url(""), every=True).skills) == 2


def test_attack_a_place_opened_before_the_policy_was_applied_is_checked(world, webs):
    site, other = webs
    policy(world, site.url("/"))
    ports, ref = world.ports(), parse_ref(site.url(""))
    ports.network.open_place(ref).index()
    place = ports.open_place(ref)
    (release,) = place.index().skills["there"]
    with pytest.raises(Forbidden):
        place.unpacked(release)
    assert not other.connections


class Cut:
    """A network that fails every request and records it."""

    def __init__(self):
        self.asked = []

    def open_registry(self, source, root=None, name=""):
        self._cut(source.url)

    def open_place(self, ref, pin=None, *, named_by="person", check_allowed=None):
        self._cut(str(ref))

    def before_requests(self, call):
        pass

    def fetch_root(self, url, *, named_by="person"):
        self._cut(url)

    def _cut(self, url):
        self.asked.append(url)
        raise SourceError("there is no network", where=url)


def verbs(ref, lock):
    """Return every flow that may send a request, each as a function of the world."""
    yes, before = (Options(), Lock({"here": replace(lock.skills["here"], capabilities=("scripts",))}, lock.sources))
    other = OtherLock("other", (Origin("there", ref, ("there",)),), ())
    return {
        "install": lambda ports: install([], yes, ports),
        "install --frozen": lambda ports: install([], Options(frozen=True), ports),
        "install REF": lambda ports: install([parse_ref(ref)], yes, ports),
        "install NAME": lambda ports: install([parse_ref("docs:there")], yes, ports),
        "update": lambda ports: update((), yes, ports),
        "update --check": lambda ports: available_updates((), ports),
        "enable": lambda ports: enable(["here"], yes, ports),
        "enable of a registry": lambda ports: enable(["release-notes"], yes, ports),
        "sync": lambda ports: sync(partial(obtain_locked, ports=ports), ports),
        "diff": lambda ports: diff(Named("here"), ports),
        "diff LOCK": lambda ports: diff_locks(before, [], ports),
        "diff --edits": lambda ports: edits_of("here", ports),
        "patch": lambda ports: patch(["here"], yes, ports),
        "patch --drop": lambda ports: drop(["code-review"], yes, ports),
        "adopt": lambda ports: adopt((), "skills", yes, ports),
        "lock import": lambda ports: import_lock(other, yes, ports),
        "show REF": lambda ports: show(parse_ref(ref), ports),
        "show NAME": lambda ports: show(parse_ref("docs:there"), ports),
        "search": lambda ports: listings(ports),
        "audit": lambda ports: audit(AuditRequest(), ports),
        "source add": lambda ports: add_source("more", ref, Pin(), ports),
        "source trust": lambda ports: trust_source("docs", Pin(), ports),
    }


def test_attack_no_flow_sends_a_request_to_a_place_that_the_project_forbids(world, webs):
    """Each flow sends a request if nothing forbids it, and none if the project's policy does."""
    site, _ = webs
    world.install(site.url(""), skills=("here",))
    world.install("github:release-notes", "github:code-review")
    world.copy("code-review").joinpath("more.md").write_text("More.\n")
    patch(["code-review"], Options(), world.ports())
    world.copy("here").joinpath("more.md").write_text("More.\n")
    noted = "metadata:\n  github-repo: https://git.example/a/b\n  github-path: stray\n"
    skill(world.base / ".claude/skills", "stray", head=noted)
    world.sources.add("docs", site.url(""), None)
    for path in (world.store.root, world.home.cache):
        remove_tree(path)
    intent = Path(world.base, "skillhub.toml")
    text = intent.read_text()
    for name, act in verbs(site.url(""), world.lock()).items():
        for line, is_asked in (("", True), ('\n[policy]\nsources = ["https://allowed.example/"]\n', False)):
            intent.write_text(text + line)
            network = Cut()
            with suppress(SkillhubError):
                act(replace(world.ports(Answers("unanswered")), network=network))
            assert bool(network.asked) == is_asked, (name, line)


def test_attack_only_two_modules_use_the_network_without_the_policy():
    """The modules that open places directly: one applies the policy, the other wraps its own policy around them."""
    found = {
        f"{path.parent.name}/{path.name}"
        for room in ("command", "install", "author", "audit", "exchange", "registry")
        for path in (ROOMS / room).glob("*.py")
        if re.search(r"\.network\b", path.read_text("utf-8"))
    }
    assert found == {"command/ports.py", "audit/audit.py"}

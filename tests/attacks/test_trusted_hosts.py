"""A clone may lead to a host that the user's configuration trusts; every other check still applies."""

from __future__ import annotations

import json
from base64 import b64encode

import pytest

from skillhub.disk.folders import remove_tree
from skillhub.errors import SourceError, UnsafeTransfer
from skillhub.net.client import Http
from skillhub.net.mirrors import Mirrors, UntrustedClient
from skillhub.net.settings import Settings
from skillhub.sources.oci import OciWire
from tests.support.gitbackend import backend
from tests.support.gitrepos import Repo
from tests.support.here import Here, close_resources
from tests.support.site import JSON, WELL_KNOWN, current, entry, skill_md
from tests.support.web import Web, answer, redirect, requester_of

__all__ = ["close_resources"]
pytestmark = [pytest.mark.filterwarnings("ignore::ResourceWarning"), pytest.mark.usefixtures("close_resources")]
YES = ("--yes", "--allow-unsigned")
FROZEN = ("install", "--frozen", *YES)
LOGIN = b64encode(b"me:s3cret").decode()


@pytest.fixture
def server(tmp_path):
    Repo(tmp_path / "served/skills.git").commit({"skills/x/SKILL.md": skill_md("x")})
    with backend(tmp_path / "served") as server:
        yield server


@pytest.fixture
def clone(tmp_path, server):
    """A new runner with a clone whose lock names a local server."""
    first = Here(tmp_path / "first")
    assert first.run("install", f"git+{server.url('/skills.git')}", "--all", *YES).status == 0
    clone = Here(first.copy(tmp_path / "clone").folder)
    fresh(clone)
    del server.asked[:]
    return clone


def fresh(shell):
    for folder in (shell.hub, shell.project / ".agents"):
        remove_tree(str(folder))


def trust(shell, *hosts):
    shell.write("hub/config/config.toml", f"trusted-hosts = {json.dumps(hosts)}\n")


def host_of(server):
    return server.url("").removeprefix("http://")


def test_a_new_runner_installs_locked_skills_from_a_trusted_host(clone, server):
    assert clone.run(*FROZEN).status == 5
    assert not server.asked
    trust(clone, host_of(server))
    done = clone.run(*FROZEN)
    assert done.status == 0, done.err
    assert (clone.project / ".agents/skills/x/SKILL.md").read_bytes() == skill_md("x")
    assert clone.run("update", "--check").status == 0


@pytest.mark.parametrize("host", ["git.corp.example", "127.0.0.1", "127.0.0.1:1", "localhost"])
def test_attack_another_host_or_port_than_the_trusted_one_gets_no_request(host, clone, server):
    trust(clone, host)
    for words in (FROZEN, ("install", *YES), ("sync",), ("update", "--check")):
        assert clone.run(*words).status == 5
    assert not server.asked


def test_attack_a_repository_cannot_trust_hosts(clone, server):
    lines = f"trusted-hosts = {json.dumps([host_of(server)])}\n"
    for path in (".skillhub/config.toml", "config.toml", "config/config.toml", "hub/config/config.toml"):
        clone.write(f"project/{path}", lines)
    assert clone.run(*FROZEN).status == 5
    clone.write("project/skillhub.toml", lines + (clone.project / "skillhub.toml").read_text())
    assert clone.run(*FROZEN).status == 4
    assert not server.asked


def test_attack_content_of_a_trusted_host_is_checked_against_lock_and_policy(clone, server, tmp_path):
    """Trust in a host allows requests; it is neither trust in its answers nor consent."""
    trust(clone, host_of(server))
    assert clone.run("install", "--frozen").status == 6  # no consent
    lock = clone.lock()
    lock["skills"]["x"]["tree"] = "sha256:" + "a" * 64
    clone.write("project/skillhub.lock", json.dumps(lock))
    done = clone.run(*FROZEN)
    assert (done.status, "[wrong-bytes]" in done.err) == (5, True)
    clone.write("hub/config/policy.toml", 'sources = ["https://elsewhere.example/"]\n')
    fresh_cache = len(server.asked)
    assert clone.run(*FROZEN).status == 6
    assert len(server.asked) == fresh_cache


def test_attack_a_redirect_of_a_trusted_host_to_another_is_refused(clone, server):
    with Web() as inner:
        for there in ("https://10.0.0.7/x", inner.url("/x")):
            server.moved["skills.git"] = there
            trust(clone, host_of(server))
            done = clone.run(*FROZEN)
            assert done.status == 5
            assert "the server redirects to another URL" in done.err
        assert not inner.connections


def locked(source, **more):
    entry = {"source": source, "tree": "sha256:" + "a" * 64, "size": 1, "capabilities": [], "requires": []}
    return json.dumps({"version": 1, "sources": {}, "skills": {"x": {**entry, **more}}})


@pytest.mark.parametrize("is_trusted", [False, True])
def test_credentials_are_sent_to_a_trusted_host_only(is_trusted, tmp_path):
    with Web() as web, Web() as other:
        shell = Here(tmp_path)
        shell.write("home/.netrc", "machine 127.0.0.1 login me password s3cret\n")
        host = f"127.0.0.1:{web.port}"
        shell.write("home/.docker/config.json", json.dumps({"auths": {host: {"auth": LOGIN}}}))
        if is_trusted:
            trust(shell, host)
        url = web.url("/x/SKILL.md")
        web.at("/x/SKILL.md", answer(skill_md("x")))
        shell.write("project/skillhub.lock", locked(url, url=url, digest="sha256:" + "d" * 64))
        assert shell.run(*FROZEN).status == 5
        ask = answer(b"", 'WWW-Authenticate: Basic realm="x"', status="401 Unauthorized")
        web.at("/v2/team/x/manifests/latest", ask)
        shell.write("project/skillhub.toml", f'[skills]\nx = {{ from = "oci://{host}/team/x" }}\n')
        (shell.project / "skillhub.lock").unlink()
        shell.run("install", *YES)
        requests = [head for head in web.heads if f"Authorization: Basic {LOGIN}" in head]
        assert {head.split()[1] for head in requests} == (
            {"/x/SKILL.md", "/v2/team/x/manifests/latest"} if is_trusted else set()
        )
        # A redirect target gets no credentials, even if trusted.
        web.at("/x/SKILL.md", redirect(other.url("/x/SKILL.md")))
        shell.write("project/skillhub.lock", locked(url, url=url, digest="sha256:" + "d" * 64))
        (shell.project / "skillhub.toml").unlink()
        assert shell.run(*FROZEN).status == 5
        assert not other.connections


def test_a_marketplace_can_name_a_private_repository_on_a_trusted_host_only(tmp_path):
    plugins = [
        {"name": name, "source": {"source": "url", "url": f"https://127.0.0.1:{port}/{name}.git"}}
        for name, port in (("p", 1), ("q", 2))
    ]
    repo = Repo(tmp_path / "market")
    market = json.dumps({"name": "m", "plugins": plugins}).encode()
    repo.commit({".claude-plugin/marketplace.json": market, "skills/x/SKILL.md": skill_md("x")})
    shell = Here(tmp_path / "machine")
    words = ("install", f"git+{repo.url}", "--all", "--dry-run", "--json")
    assert " ".join(shell.run(*words).json["warnings"]).count("leads into a private network") == 2
    trust(shell, "127.0.0.1:1")
    p, q = sorted(each for each in shell.run(*words).json["warnings"] if each.startswith("plugin"))
    assert "the server cannot be reached" in p  # a request was sent; no server listens there
    assert "leads into a private network" in q


def test_ssh_is_started_for_a_trusted_host_only(tmp_path):
    shell = Here(tmp_path)
    ssh = shell.write("ssh", f'#!/bin/sh\necho "$@" >> "{tmp_path}/asked"\nexit 1\n')
    ssh.chmod(0o755)
    for host in ("git.corp.example", "evil.example"):
        url = f"ssh://git@{host}/team/x.git"
        shell.write("project/skillhub.lock", locked(f"git+{url}", git=url, rev="b" * 40))
        trust(shell, "git.corp.example")
        shell.run(*FROZEN, GIT_SSH=str(ssh))
    asked = (tmp_path / "asked").read_text()
    assert "git.corp.example" in asked
    assert "evil" not in asked


@pytest.mark.parametrize("is_trusted", [False, True])
def test_artifacts_of_a_site_on_another_private_host_need_trust(is_trusted, tmp_path):
    """No user named this site, so only the configuration allows requests to private hosts."""
    with Web() as site, Web() as files, Web() as other:
        shell = Here(tmp_path)
        for name, host in (("x", files), ("y", other)):
            data = skill_md(name)
            host.at(f"/{name}/SKILL.md", answer(data, "Content-Type: text/markdown"))
            url = host.url(f"/{name}/SKILL.md")
            site.at(WELL_KNOWN, answer(current(entry(name, data, url)), JSON))
            shell.write("project/skillhub.toml", f'[skills]\n{name} = {{ from = "{site.url("/")}" }}\n')
            if is_trusted:
                trust(shell, f"127.0.0.1:{files.port}")
            done = shell.run("install", *YES)
            assert done.status == (0 if is_trusted and name == "x" else 5), done.err
        assert bool(files.connections) is is_trusted
        assert not other.connections


def test_attack_an_untrusted_private_host_in_a_public_index_gets_no_request(tmp_path):
    settings = Settings.parse(b'trusted-hosts = ["files.intranet"]', "config.toml")
    with Web() as web, Http() as http:
        asking = Mirrors(http, settings)
        for url in (web.url("/x"), f"https://127.0.0.1:{web.port}/x", "https://127.0.0.1/x"):
            with pytest.raises(UnsafeTransfer) as caught:
                asking.get(url, cap=9, named_by=requester_of("https://public.example/"))
            assert ("trusted-hosts" in (caught.value.hint or "")) == url.startswith("https")
        assert not web.connections


def test_attack_a_redirect_of_a_trusted_artifact_host_is_refused():
    with Web() as web, Web() as inner, Http() as http:
        asking = Mirrors(http, Settings.parse(f'trusted-hosts = ["127.0.0.1:{web.port}"]'.encode(), ""))
        web.at("/x", redirect(f"https://127.0.0.1:{inner.port}/x"))
        with pytest.raises(UnsafeTransfer):
            asking.get(web.url("/x"), cap=9, named_by=requester_of("https://public.example/"))
        assert not inner.connections


@pytest.mark.parametrize("way", ["typed", "locked", "mirror"])
def test_attack_a_registry_gets_no_token_of_a_trusted_host(way):
    """The registry that names the trusted host would receive the token."""
    with Web() as evil, Web() as ours, Http(credentials=lambda hop: "Bearer s3cret") as http:
        settings = Settings.parse(f'trusted-hosts = ["127.0.0.1:{ours.port}"]'.encode(), "")
        trusting = Mirrors(http, settings)
        web = (
            Mirrors(http, Settings(mirrors={"https://registry.example": ours.url("")}))
            if way == "mirror"
            else trusting
        )
        web = UntrustedClient(web, "oci://evil") if way == "locked" else web
        realm = "https://registry.example/v2/token" if way == "mirror" else ours.url("/v2/token")
        ours.at("/v2/token?scope=repository%3Ax%3Apull", answer(b'{"token": "t0ken"}'))
        challenge = f'WWW-Authenticate: Bearer realm="{realm}"'
        evil.at("/v2/x/manifests/v1", answer(b"", challenge, status="401 Unauthorized"))
        with pytest.raises(SourceError):
            OciWire(f"127.0.0.1:{evil.port}/x", web, None, settings.trusts).manifest("v1", ())
        assert ours.heads
        assert not any("s3cret" in head for head in ours.heads)

"""Places that a cloned repository names, on the command line."""

from __future__ import annotations

import json
from base64 import b64encode

import pytest

from tests.support import oci
from tests.support.here import Here, close_resources
from tests.support.site import JSON, WELL_KNOWN, current, offer
from tests.support.snapshot import skill
from tests.support.web import answer

__all__ = ["close_resources"]
pytestmark = [pytest.mark.filterwarnings("ignore::ResourceWarning"), pytest.mark.usefixtures("close_resources")]
LOGIN = b64encode(b"me:s3cret").decode()
YES = ("--yes", "--allow-unsigned", "--json")


@pytest.fixture
def shell(tmp_path, web):
    """A machine whose user has credentials for a local server: in docker's logins and in netrc."""
    shell = Here(tmp_path)
    host = f"127.0.0.1:{web.port}"
    shell.write("home/.docker/config.json", json.dumps({"auths": {host: {"auth": LOGIN}}}))
    shell.write("home/.netrc", "machine 127.0.0.1 login me password s3cret\n")
    return shell


@pytest.mark.parametrize("variables", [False, True])
def test_a_registry_named_by_an_intent_gets_no_docker_login(shell, web, variables):
    environ = {"DOCKER_CONFIG": str(shell.home / ".docker")} if variables else {}
    ask = answer(b"", 'WWW-Authenticate: Basic realm="x"', status="401 Unauthorized")
    web.at("/v2/team/x/manifests/latest", ask)
    ref = f"oci://127.0.0.1:{web.port}/team/x"
    shell.write("project/skillhub.toml", f'[skills]\nx = {{ from = "{ref}" }}\n')
    for words in (("install", "--json"), ("install", "--dry-run", "--json")):
        assert shell.run(*words, **environ).status == 3
    assert len(web.heads) >= 2
    assert not any("authorization" in head.lower() for head in web.heads)
    shell.run("install", ref, "--json", **environ)  # named by the user
    assert f"Basic {LOGIN}" in web.heads[-1]


@pytest.mark.parametrize(
    "words", [("adopt", *YES), ("adopt", "--dry-run", "--json"), ("lock", "import", "skills-lock.json", *YES)]
)
def test_a_private_url_in_another_installers_lock_gets_no_request(shell, web, words):
    shell.skill("project/.claude/skills/x")
    url = f"https://127.0.0.1:{web.port}/admin"
    entry = {"source": url, "sourceUrl": url, "sourceType": "well-known", "computedHash": "0" * 64}
    shell.write("project/skills-lock.json", json.dumps({"version": 1, "skills": {"x": entry}}))
    done = shell.run(*words)
    assert web.connections == 0
    if words[0] == "adopt":  # adopt takes the present files
        assert done.status == 0, done.err
        assert "could not be compared: leads into a private network" in " ".join(done.json["warnings"])
    else:
        (left,) = done.json["refused"]
        assert (done.status, left["code"]) == (6, "unsafe-transfer")
        assert f"skillhub install {url}" in left["message"]


def test_a_local_url_of_a_lock_gets_no_request(shell, web):
    url = web.url("/shutdown?now=1")
    entry = {"source": url, "url": url, "digest": "sha256:" + "d" * 64, "tree": "sha256:" + "a" * 64}
    lock = {"version": 1, "sources": {}, "skills": {"x": {**entry, "size": 1, "capabilities": [], "requires": []}}}
    shell.write("project/skillhub.lock", json.dumps(lock))
    for words in (("install",), ("install", "--frozen", *YES), ("update", "--check"), ("diff", "x"), ("sync",)):
        assert shell.run(*words).status == 5, words
    assert web.connections == 0


def test_a_local_source_or_private_address_of_a_lock_gets_no_request(shell, web):
    entry = {"source": "http://localhost:1/", "url": f"https://127.0.0.1:{web.port}/admin/reboot.zip"}
    entry |= {"digest": "sha256:" + "d" * 64, "tree": "sha256:" + "a" * 64, "size": 1}
    lock = {"version": 1, "sources": {}, "skills": {"x": {**entry, "capabilities": [], "requires": []}}}
    shell.write("project/skillhub.lock", json.dumps(lock))
    other = {**lock, "skills": {"x": {**lock["skills"]["x"], "digest": "sha256:" + "e" * 64}}}
    shell.write("project/old.lock", json.dumps(other))
    for words in (("install", "--frozen", *YES), ("sync",), ("diff", "--from-lock", "old.lock")):
        shell.run(*words)
    assert web.connections == 0


def test_a_local_site_and_registry_that_the_user_named_are_read_from_the_lock(shell, web, tmp_path):
    """Users can still test local servers."""
    web.at(WELL_KNOWN, answer(current(offer(web, "one")), JSON))
    artifact = oci.skr({"SKILL.md": skill("hello").encode()})
    web.at("/v2/team/x/manifests/latest", answer(artifact.manifest))
    web.at(f"/v2/team/x/manifests/{artifact.digest}", answer(artifact.manifest))
    for digest, data in artifact.blobs.items():
        web.at(f"/v2/team/x/blobs/{digest}", answer(data))
    refs = (web.url(""), f"oci://127.0.0.1:{web.port}/team/x")
    assert [shell.run("install", ref, *YES).status for ref in refs] == [0, 0]
    other = Here(tmp_path / "other")
    for name in ("skillhub.lock", "skillhub.toml"):
        other.write(f"project/{name}", (shell.project / name).read_text("utf-8"))
    done = other.run("install", "--frozen", *YES)
    assert done.status == 0, done.err
    assert {each["name"] for each in done.json["skills"]} == {"one", "hello"}

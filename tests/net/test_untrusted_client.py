"""Requests to addresses that only a repository names: a cloned lock must not reach into a private network."""

import pytest

from skillhub.errors import NotFound, UnsafeTransfer
from skillhub.net.client import Http, Patience
from skillhub.net.fetch import PERSON, PLAIN, RequestOptions, Response
from skillhub.net.mirrors import UntrustedClient
from skillhub.net.settings import Logins
from tests.support.web import Web, answer, redirect, requester_of

PLACE = "oci://skills.example/x"
INDEX = "/.well-known/agent-skills/index.json"


class Recorder:
    def __init__(self):
        self.asked = []

    def ask(self, url, *, cap, options=PLAIN):
        self.asked.append((url, options.named_by))
        return Response(url, b"")

    def get(self, url, *, cap, named_by=PERSON):
        return self.ask(url, cap=cap, options=RequestOptions(named_by=named_by))


@pytest.fixture
def http(tmp_path):
    """Return a client whose netrc has a login for this machine."""
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password s3cret\n")
    with Http(patience=Patience(pauses=()), credentials=Logins({}, {}, str(tmp_path))) as http:
        yield http


@pytest.mark.parametrize(
    "url", ["https://10.0.0.7/", "https://169.254.169.254/latest/", "http://skills.example/", "https://[fd00::1]/"]
)
def test_attack_a_private_address_in_a_lock_is_refused(http, url):
    for named_by in (None, url):  # the site names its files, and no user named the site
        with pytest.raises(UnsafeTransfer) as caught:
            UntrustedClient(http, PLACE).get(url, cap=100, named_by=requester_of(named_by))
        assert f"skillhub install {PLACE}" in caught.value.hint
        assert caught.value.where == url


@pytest.mark.parametrize("url", ["https://skills.example/x", "http://127.0.0.1:8000/x.zip"])
def test_every_request_counts_as_named_by_the_repository(url):
    web = Recorder()
    for named_by in (None, url, "https://other.example/"):
        UntrustedClient(web, PLACE).get(url, cap=1, named_by=requester_of(named_by))
    assert len(web.asked) == 3
    assert {named_by.who for _, named_by in web.asked} == {"repository"}


def test_attack_a_local_site_cannot_name_private_addresses(http, web):
    http.get(web.at("/x", answer(b"")), cap=1)  # the user named this site, so the client knows that it is private
    for site in ("http://localhost:1/", "http://127.0.0.1:1/", web.url("/")):
        for url in ("https://10.0.0.7/admin/reboot.zip", "https://127.0.0.1:1/reboot.zip"):
            with pytest.raises(UnsafeTransfer, match="private network"):
                UntrustedClient(http, PLACE).get(url, cap=100, named_by=requester_of(site))


@pytest.mark.parametrize(
    "target",
    [
        "/shutdown",
        "/shutdown?now=1",
        "/x.zip?now=1",
        f"{INDEX}?now=1",
        "/shutdown;x.zip",
        "/.well-known/agent-skills/../../shutdown",
        "/.well-known/agent-skills/%2e%2e/%2e%2e/shutdown",
        "/api/skills.json",
        "/v2/_catalog",
        "/v2/../a/manifests/b",
        "//x.zip",
        "/",
    ],
)
def test_attack_a_lock_reaches_no_other_service_on_this_machine(http, web, target):
    for named_by in (None, web.url("/")):
        with pytest.raises(UnsafeTransfer):
            UntrustedClient(http, PLACE).get(web.url(target), cap=100, named_by=requester_of(named_by))
    assert web.connections == 0


def test_attack_a_local_site_cannot_lead_to_another_local_port(http, web):
    with Web() as other:
        there = other.at("/x.zip", answer(b"x"))
        with pytest.raises(UnsafeTransfer):
            UntrustedClient(http, PLACE).get(there, cap=100, named_by=requester_of(web.url("/")))
        with pytest.raises(UnsafeTransfer):
            UntrustedClient(http, PLACE).get(web.at(INDEX, redirect(there)), cap=100)
        assert other.connections == 0


@pytest.mark.parametrize(
    "path",
    [
        INDEX,
        f"/team{INDEX}",
        "/old/.well-known/skills/x/scripts/run.py",
        "/x-1.0.0.zip",
        "/x.skill",
        "/x.tar.gz",
        "/x/SKILL.md",
        "/v2/acme/hello/manifests/v1",
        f"/v2/acme/hello/blobs/sha256:{'0' * 64}",
    ],
)
def test_local_site_is_fetched_without_credentials(http, web, path):
    url = web.at(path, answer(b"x"))
    assert UntrustedClient(http, PLACE).get(url, cap=1).data == b"x"
    assert UntrustedClient(http, PLACE).get(url, cap=1, named_by=requester_of(web.url("/"))).data == b"x"
    assert len(web.heads) == 2
    assert not any("s3cret" in head or "Authorization" in head for head in web.heads)
    http.get(url, cap=1)  # named by the user
    assert "Authorization" in web.heads[-1]


def test_status_404_is_not_found(http, web):
    with pytest.raises(NotFound):
        UntrustedClient(http, PLACE).get(web.url(INDEX), cap=1)

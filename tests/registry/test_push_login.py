"""The login of an OCI registry goes to its own host, whatever other host the registry names."""

from __future__ import annotations

import socket

import pytest

from skillhub.errors import FormatError, SourceError, UnsafeTransfer
from skillhub.formats.digest import Digest
from skillhub.net.settings import Settings
from tests.support import tls
from tests.support.web import Web, answer, redirect

push_oci = pytest.importorskip("skillhub.registry.push_oci", reason="takes the extra oci", exc_type=ImportError)
MANIFEST = "/v2/acme/skills/manifests/v1"
LOGIN = "Authorization: Basic bWU6c2VjcmV0"  # me:secret


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return tls.authority(tmp_path_factory.mktemp("tls"), "localhost", "registry.invalid", "upload.invalid")


@pytest.fixture
def here(authority):
    with Web() as web:
        yield secured(web, authority)


@pytest.fixture
def other(authority):
    with Web() as web:
        yield secured(web, authority)


def secured(web, authority):
    web._server.socket = tls.server_context(authority).wrap_socket(web._server.socket, server_side=True)
    return web


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path):
    monkeypatch.setenv("SKILLHUB_OCI_USERNAME", "me")
    monkeypatch.setenv("SKILLHUB_OCI_PASSWORD", "secret")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))


@pytest.fixture
def opened(here, authority):
    """Open the tag of the registry at ``here``, as ``push`` does, but over TLS."""
    clients = []

    def connect(trusts=no_other_host, host="127.0.0.1"):
        host = f"{host}:{here.port}"
        clients.append(push_oci.DXF(host, "acme/skills", push_oci._login(host), tlsverify=authority, timeout=20))
        return type("_Target", (push_oci.OciTarget,), {"waits": ()})(
            clients[-1].__enter__(), "v1", f"oci://{host}", trusts
        )

    yield connect
    for client in clients:
        client.__exit__(None, None, None)


def url(web, host="127.0.0.1"):
    return f"https://{host}:{web.port}"


def asks_for_a_token(web, realm):
    """Let the registry ask for a token of ``realm``, and find no manifest with it."""

    def act(connection):
        has_token = "authorization: bearer t" in web.heads[-1].lower()
        challenge = f'WWW-Authenticate: Bearer realm="{realm}",service="s"'
        answer(b"", *([] if has_token else [challenge]), status="404 No" if has_token else "401 No")(connection)

    web.at(MANIFEST, act)


def no_other_host(url):
    return False


def logins(web):
    return [head for head in web.heads if "authorization: basic" in head.lower()]


def test_attack_a_push_sends_no_login_to_the_realm_on_another_host(here, other, opened):
    other.at("/token?service=s", answer(b"", status="401 No"))
    asks_for_a_token(here, f"{url(other)}/token")
    with pytest.raises(SourceError, match="refuses access") as caught:
        opened()
    assert len(other.heads) == 1 and logins(other) == logins(here) == []
    assert "your login was not sent" in caught.value.hint and f"{url(other)}/token" in caught.value.hint
    other.at("/token?service=s", answer(b'{"token": "t"}'))
    opened()  # a token for anybody serves, as it does for an install
    assert logins(other) == []


def test_a_push_sends_the_login_to_the_realm_on_a_host_that_the_user_trusts(here, other, opened):
    other.at("/token?service=s", answer(b'{"token": "t"}'))
    asks_for_a_token(here, f"{url(other)}/token")
    opened(Settings.parse(f'trusted-hosts = ["127.0.0.1:{other.port}"]'.encode(), "config.toml").trusts)
    (login,) = logins(other)
    assert login.startswith("GET /token") and LOGIN in login and logins(here) == []


def test_a_push_sends_the_login_to_the_realm_of_its_registry_alone(here, opened):
    here.at("/token?service=s", answer(b'{"token": "t"}'))
    asks_for_a_token(here, f"http://127.0.0.1:{here.port}/token")  # the client asks over https all the same
    opened()
    (login,) = logins(here)
    assert login.startswith("GET /token") and LOGIN in login


def test_attack_an_upload_on_another_host_gets_neither_login_nor_token(here, other, opened):
    here.at(MANIFEST, answer(b"", status="404 No"))
    target = opened()
    data = b"{}"
    path = "/v2/acme/skills/blobs"

    def act(connection):
        is_known = LOGIN in here.heads[-1]
        answer(b"", 'WWW-Authenticate: Basic realm="x"', status="404 No" if is_known else "401 No")(connection)

    here.at(f"{path}/{Digest.of(data)}", act)
    here.at(f"{path}/uploads/", answer(b"", f"Location: {url(other)}/upload", status="202 Yes"))
    other.at(f"/upload?digest={str(Digest.of(data)).replace(':', '%3A')}", answer(b"", status="201 Yes"))
    target._upload(data)
    assert logins(here) and other.heads and logins(other) == []


@pytest.mark.parametrize("is_trusted", [False, True])
@pytest.mark.parametrize("is_redirect", [False, True])
def test_attack_a_registry_gets_no_token_of_a_host_in_netrc(
    is_redirect, is_trusted, here, other, opened, monkeypatch, tmp_path
):
    monkeypatch.delenv("SKILLHUB_OCI_PASSWORD")
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    (tmp_path / "netrc").write_text("machine localhost login me password secret\n")
    there = f"{url(other, 'localhost')}/token?service=s"
    other.at("/token?service=s", answer(b"", status="401 No"))
    here.at("/token?service=s", redirect(there))
    asks_for_a_token(here, f"{url(here) if is_redirect else url(other, 'localhost')}/token")
    with pytest.raises(SourceError, match="refuses access"):
        opened(lambda url: is_trusted)
    assert other.heads and logins(other) == []


def test_a_push_uses_the_login_of_its_registry_in_the_netrc(here, opened, monkeypatch, tmp_path):
    monkeypatch.delenv("SKILLHUB_OCI_PASSWORD")
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password secret\n")
    here.at(MANIFEST, answer(b"", status="404 No"))
    opened()
    assert [LOGIN in head for head in here.heads] == [True]


@pytest.mark.parametrize("name", ["docker.io", "index.docker.io", "registry-1.docker.io"])
def test_a_push_to_docker_hub_asks_its_registry_whose_login_host_is_known(name, monkeypatch):
    monkeypatch.setattr(push_oci.OciTarget, "waits", ())
    with Web() as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url("/"))
        with pytest.raises(SourceError, match="cannot reach the registry"):
            push_oci.open_target(f"oci://{name}/acme/skills", no_other_host)
    assert [head.split()[:2] for head in proxy.heads] == [["CONNECT", "registry-1.docker.io:443"]]


def test_attack_a_redirect_of_a_registry_to_plain_http_is_refused(here, opened):
    here.at(MANIFEST, redirect("http://192.0.2.1/meta-data"))
    with pytest.raises(UnsafeTransfer, match="expected https"):
        opened()


class Routed(socket.socket):
    """A connection to any address, which a server of the test answers in its place."""

    def connect(self, address):
        self.peer = address[:2]
        super().connect(("127.0.0.1", address[1]))

    def getpeername(self):
        return self.peer


@pytest.fixture
def names(monkeypatch):
    """The addresses of each name, one for each look-up; the last one stays."""
    names = {}

    def getaddrinfo(host, port, *_, **__):
        found = names.get(host, [host])
        address = found.pop(0) if len(found) > 1 else found[0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(socket, "socket", Routed)
    return names


@pytest.mark.parametrize(
    ("own", "other_addresses", "is_refused"),
    [
        ("1.1.1.1", ["10.0.0.7"], True),
        ("1.1.1.1", ["169.254.169.254"], True),
        ("1.1.1.1", ["1.0.0.1", "10.0.0.7"], True),  # another address once it was judged (DNS rebinding)
        ("1.1.1.1", ["1.0.0.1"], False),
        ("10.0.0.1", ["10.0.0.7"], False),
    ],
)
def test_attack_a_public_registry_names_no_host_in_a_private_network(
    here, other, opened, names, own, other_addresses, is_refused
):
    names |= {"registry.invalid": [own], "upload.invalid": other_addresses}
    here.at(MANIFEST, redirect(f"{url(other, 'upload.invalid')}/v1"))
    other.at("/v1", answer(b"", status="404 No"))
    if not is_refused:
        opened(host="registry.invalid")
    else:
        with pytest.raises(UnsafeTransfer, match="private network") as caught:
            opened(host="registry.invalid")
        assert "trusted-hosts in config.toml" in caught.value.hint
    assert len(other.heads) == (0 if is_refused else 1)


def test_attack_a_registry_whose_name_gets_a_private_address_names_no_private_host(here, other, opened, names):
    names |= {"registry.invalid": ["1.1.1.1", "10.0.0.1"], "upload.invalid": ["10.0.0.7"]}
    here.at(MANIFEST, redirect(f"{url(other, 'upload.invalid')}/v1"))
    with pytest.raises(UnsafeTransfer, match="private network"):
        opened(host="registry.invalid")
    assert not other.heads


def test_attack_an_endless_answer_is_not_read_whole(here, opened):
    here.at(MANIFEST, answer(b"", status="404 No"))
    target = opened()
    path = "/v2/acme/skills/blobs"
    here.at(f"{path}/{Digest.of(b'{}')}", answer(b"", status="404 No"))
    here.at(f"{path}/uploads/", answer(b"x" * (2 << 20), f"Location: {url(here)}/upload", status="202 Yes"))
    with pytest.raises(FormatError, match="expected at most 1048576 bytes"):
        target._upload(b"{}")

"""Attacks on access: other hosts and origins, missing or misplaced tokens, endless requests."""

from __future__ import annotations

from base64 import b64encode

import pytest

pytest.importorskip("uvicorn")

from skillhub.answers.setup import ErrorAnswer
from skillhub.cli.server import read_token
from skillhub.errors import NotFound, UsageError
from skillhub.server import guard
from skillhub.server.application import Address
from skillhub.server.guard import AccessRules
from skillhub.server.headers import HEADERS
from tests.support.http_api import BASE, HOST, PORT, TOKEN, api
from tests.support.locked import agreed

ROUTES = [
    "/",
    "/style.css",
    "/openapi.json",
    "/api/v1/skills",
    "/skill",
    "/api/v1/skills/demo/files/SKILL.md",
    "/nope",
]
BEARER = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    return agreed(tmp_path_factory.mktemp("guard"))


@pytest.fixture
def client(machine, monkeypatch):
    return api(machine, monkeypatch)


@pytest.fixture
def guarded(machine, monkeypatch):
    return api(machine, monkeypatch, token=TOKEN)


def is_refused(answer, status):
    ErrorAnswer.model_validate(answer.json())
    assert "Good." not in answer.text and "demo" not in answer.text
    return answer.status_code == status


REBOUND = [
    "evil.example",
    f"evil.example:{PORT}",
    f"127.0.0.1.evil.example:{PORT}",
    f"localhost.evil.example:{PORT}",
    f"127.0.0.1:{PORT}.evil.example",
    f"evil.example@127.0.0.1:{PORT}",
    f"127.0.0.1:{PORT}@evil.example",
    "127.0.0.1",
    "localhost",
    "127.0.0.1:1",
    f"127.0.0.1:{PORT}0",
    f"127.0.0.1:0{PORT}",
    f"127.1:{PORT}",
    f"2130706433:{PORT}",
    f"0x7f000001:{PORT}",
    f"0.0.0.0:{PORT}",
    f"[::ffff:127.0.0.1]:{PORT}",
    f"[::]:{PORT}",
    f"localhost.:{PORT}",
    f"local\u200bhost:{PORT}".encode(),
    f"127.0.0.1:{PORT}, evil.example",
    f"127.0.0.1:{PORT} evil.example",
    f"127.0.0.1:{PORT}/",
    f" 127.0.0.1:{PORT}x",
    "",
]


@pytest.mark.parametrize("host", REBOUND)
def test_attack_a_rebound_host_name_is_refused(client, host):
    for path in (*ROUTES, "/mcp"):
        assert is_refused(client.get(path, headers={"Host": host}), 421)
    assert is_refused(client.post("/mcp", json={}, headers={"Host": host}), 421)
    assert is_refused(client.post("/rpc", json={}, headers={"Host": host}), 421)


@pytest.mark.parametrize("host", [HOST, f"localhost:{PORT}", f"LOCALHOST:{PORT}", f"[::1]:{PORT}"])
def test_names_of_this_machine_are_accepted(client, host):
    assert client.get("/api/v1/skills", headers={"Host": host}).status_code == 200
    assert client.get("/api/v1/skills", headers={"Host": host, "Origin": f"http://{host}"}).status_code == 200


def test_attack_two_host_fields_or_none_are_refused(machine):
    access = AccessRules("127.0.0.1", "127.0.0.1", PORT)
    for hosts in ([], [HOST.encode(), HOST.encode()], [b"evil.example", HOST.encode()]):
        scope = {
            "headers": [(b"host", each) for each in hosts],
            "raw_path": b"/",
            "query_string": b"",
            "method": "GET",
            "path": "/",
        }
        assert access.refusal(scope)[0] == 421


FOREIGN = [
    "http://evil.example",
    "https://evil.example",
    f"http://evil.example:{PORT}",
    "null",
    "",
    "http://127.0.0.1",
    "http://127.0.0.1:1",
    f"http://localhost:{PORT}",  # another name than the Host
    f"http://{HOST}.evil.example",
    f"http://evil.example#{HOST}",
    f"file://{HOST}",
    f"ftp://{HOST}",
    "chrome-extension://abcdef",
    f"http://{HOST}/",
    f"http://{HOST} http://evil.example",
    HOST,
]


@pytest.mark.parametrize("origin", FOREIGN)
def test_attack_a_request_of_a_foreign_origin_is_refused(client, origin):
    for path in (*ROUTES, "/mcp"):
        answer = client.get(path, headers={"Origin": origin})
        assert is_refused(answer, 403)
        assert "access-control-allow-origin" not in answer.headers
    for path in ("/rpc", "/mcp", "/api/v1/load", "/api/v1/resolve", "/api/v1/tools/call"):
        assert is_refused(client.post(path, json={}, headers={"Origin": origin}), 403)


def test_attack_two_origins_are_refused(client):
    answer = client.get("/api/v1/skills", headers=[("Origin", BASE), ("Origin", "http://evil.example")])
    assert is_refused(answer, 403)
    assert is_refused(client.get("/api/v1/skills", headers=[("Origin", BASE), ("Origin", BASE)]), 403)


def test_attack_embedding_and_preflight_of_another_site_are_refused(client):
    for site in ("cross-site", "same-site", "nonsense"):
        for mode in ("no-cors", "cors", "navigate-", ""):
            headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode}
            assert is_refused(client.get("/api/v1/skills", headers=headers), 403)
        assert is_refused(
            client.post("/rpc", json={}, headers={"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate"}), 403
        )
    visit = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    for frame in ("iframe", "frame", "embed", "object", "empty"):
        assert is_refused(client.get("/", headers={**visit, "Sec-Fetch-Dest": frame}), 403)
    assert client.get("/", headers={**visit, "Sec-Fetch-Dest": "document"}).status_code == 200  # a link to the page
    answer = client.options("/rpc", headers={"Access-Control-Request-Method": "POST"})
    assert answer.status_code == 405 and not [each for each in answer.headers if each.startswith("access-control")]


def test_every_answer_has_the_security_headers(client):
    asked = [client.get(path) for path in ROUTES]
    asked += [client.get("/", headers={"Host": "evil"}), client.post("/rpc", content=b"{"), client.delete("/")]
    for answer in asked:
        for name, value in HEADERS.items():
            if name != "Content-Security-Policy":
                assert answer.headers[name] == value
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; ") and "unsafe" not in policy and "script" not in policy
        assert "server" not in answer.headers and "set-cookie" not in answer.headers


WRONG = [
    {},
    {"Authorization": ""},
    {"Authorization": "Bearer"},
    {"Authorization": "Bearer "},
    {"Authorization": TOKEN},
    {"Authorization": f"Bearer {TOKEN[:-1]}"},
    {"Authorization": f"Bearer {TOKEN}x"},
    {"Authorization": f"Bearer {TOKEN.upper()}"},
    {"Authorization": f"Bearer {TOKEN} {TOKEN}"},
    {"Authorization": f"Token {TOKEN}"},
    {"Authorization": f"Digest {TOKEN}"},
    {"Authorization": f"Basic {TOKEN}"},
    {"Authorization": f"Basic {b64encode(TOKEN.encode()).decode()}"},
    {"Authorization": "Basic !!!"},
    {"Authorization": b"Bearer \xff\xfe"},
    {"Cookie": f"token={TOKEN}"},
    {"X-Token": TOKEN},
    {"X-API-Key": TOKEN},
    {"Proxy-Authorization": f"Bearer {TOKEN}"},
    {"Bearer": TOKEN},
]


@pytest.mark.parametrize("headers", WRONG, ids=repr)
def test_attack_a_missing_or_misplaced_token_is_refused(guarded, headers):
    for path in (*ROUTES, "/mcp"):
        answer = guarded.get(path, headers=headers)
        assert is_refused(answer, 401)
        assert answer.headers["www-authenticate"].startswith(("Bearer ", "Basic "))
        assert TOKEN not in answer.text
    for place in (f"?token={TOKEN}", f"?access_token={TOKEN}", f"?authorization=Bearer%20{TOKEN}", f"#{TOKEN}"):
        assert is_refused(guarded.get(f"/api/v1/skills{place}", headers=headers), 401)
    body = {"token": TOKEN, "jsonrpc": "2.0", "id": 1, "method": "skills.list"}
    assert is_refused(guarded.post("/rpc", json=body, headers=headers), 401)


def test_attack_two_tokens_are_refused(guarded):
    twice = [("Authorization", "Bearer x"), ("Authorization", f"Bearer {TOKEN}")]
    assert is_refused(guarded.get("/api/v1/skills", headers=twice), 401)
    assert is_refused(guarded.get("/api/v1/skills", headers=[*reversed(twice)]), 401)


def test_token_is_accepted_as_bearer_and_for_the_page_as_password(guarded):
    for path in ROUTES[:-1]:
        assert guarded.get(path, headers=BEARER).status_code == 200
    basic = {"Authorization": f"Basic {b64encode(f'me:{TOKEN}'.encode()).decode()}"}
    assert guarded.get("/", headers=basic).status_code == 200
    # A browser sends a password with requests that other sites cause.
    assert is_refused(guarded.get("/api/v1/skills", headers=basic), 401)
    assert is_refused(guarded.post("/rpc", json={}, headers=basic), 401)


def test_attack_a_foreign_host_or_origin_is_refused_despite_the_token(guarded):
    assert is_refused(guarded.get("/api/v1/skills", headers={**BEARER, "Host": "evil.example"}), 421)
    assert is_refused(guarded.get("/api/v1/skills", headers={**BEARER, "Origin": "http://evil.example"}), 403)


def test_attack_tokens_are_compared_as_digests_of_equal_length(guarded, monkeypatch):
    compared = []
    monkeypatch.setattr(guard, "compare_digest", lambda one, other: compared.append((one, other)) or False)
    for sent in ("x", TOKEN, TOKEN[:5], "x" * 500):
        assert guarded.get("/api/v1/skills", headers={"Authorization": f"Bearer {sent}"}).status_code == 401
    assert len(compared) == 4 and {len(each) for pair in compared for each in pair} == {32}


@pytest.mark.parametrize(
    ("host", "ip", "more", "asked", "is_answered"),
    [
        ("0.0.0.0", "0.0.0.0", (), f"192.0.2.7:{PORT}", True),
        ("::", "::", (), f"[2001:db8::1]:{PORT}", True),
        ("0.0.0.0", "0.0.0.0", (), "192.0.2.7", False),
        ("0.0.0.0", "0.0.0.0", (), f"evil.example:{PORT}", False),
        ("0.0.0.0", "0.0.0.0", (), f"192.0.2.7.evil.example:{PORT}", False),
        ("0.0.0.0", "0.0.0.0", (), f"3232235777:{PORT}", False),
        ("0.0.0.0", "0.0.0.0", (), f"[192.0.2.7]x:{PORT}", False),
        ("0.0.0.0", "0.0.0.0", ("box.example",), f"box.example:{PORT}", True),
        ("0.0.0.0", "0.0.0.0", ("Box.example",), "box.example", True),
        ("0.0.0.0", "0.0.0.0", ("box.example:443",), "box.example:443", True),
        ("0.0.0.0", "0.0.0.0", ("box.example",), f"sub.box.example:{PORT}", False),
        ("192.0.2.7", "192.0.2.7", (), f"192.0.2.7:{PORT}", True),
        ("192.0.2.7", "192.0.2.7", (), f"192.0.2.8:{PORT}", False),
    ],
)
def test_public_server_accepts_its_addresses_and_configured_names(host, ip, more, asked, is_answered):
    access = AccessRules(host, ip, PORT, more, TOKEN)
    scope = {
        "headers": [(b"host", asked.encode()), (b"authorization", f"Bearer {TOKEN}".encode())],
        "raw_path": b"/",
        "query_string": b"",
        "method": "GET",
        "path": "/",
    }
    assert (access.refusal(scope) is None) is is_answered


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "[::1]", "127.0.0.2"])
def test_loopback_addresses_are_local(host):
    assert Address.of(host, 0).is_local


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "0"])
def test_attack_an_address_that_others_reach_is_not_local(host):
    assert not Address.of(host, 0).is_local


@pytest.mark.parametrize("host", ["", "nope.invalid", "127.0.0.1:80", "a b", "\0", "x" * 70])
def test_invalid_address_is_a_usage_error(host):
    with pytest.raises(UsageError):
        Address.of(host, 0)


def test_file_of_a_token_is_read_or_refused(tmp_path):
    def made(text, mode=0o600):
        path = tmp_path / "token"
        path.unlink(missing_ok=True)
        path.write_bytes(text)
        path.chmod(mode)
        return str(path)

    assert read_token(made(f"{TOKEN}\n".encode())) == TOKEN
    assert read_token(made(f"{TOKEN}\r\n".encode())) == TOKEN
    for wrong in (
        b"",
        b"\n",
        b"short",
        b"x" * 513,
        f"{TOKEN}\n{TOKEN}".encode(),
        f"{TOKEN} x".encode(),
        b"\xff" * 30,
    ):
        with pytest.raises(UsageError) as caught:
            read_token(made(wrong))
        assert "xxxx" not in str(caught.value) and TOKEN not in str(caught.value)
    for mode in (0o640, 0o604, 0o644, 0o660):
        with pytest.raises(UsageError, match="other users"):
            read_token(made(f"{TOKEN}\n".encode(), mode))
    with pytest.raises(NotFound):
        read_token(str(tmp_path / "nope"))


def test_attack_an_oversized_target_or_header_is_refused(client):
    assert is_refused(client.get(f"/api/v1/skills?cursor={'x' * 9000}"), 414)
    assert is_refused(client.get("/" + "x" * 9000), 414)
    assert is_refused(client.get("/api/v1/skills", headers={"X-More": "x" * 40_000}), 431)
    assert client.get("/api/v1/skills").status_code == 200


def test_attack_an_oversized_body_without_length_is_refused(client):
    def endless():
        for _ in range(40):
            yield b"x" * 65_536

    answer = client.post("/rpc", content=endless(), headers={"content-type": "application/json"})
    assert is_refused(answer, 413)
    lie = {"content-type": "application/json", "content-length": "99999999999999999999"}
    assert is_refused(client.post("/rpc", content=b"{}", headers=lie), 413)

"""The answers of `registry serve` besides files: APIs of other clients, git and MCP, without withdrawn releases."""

from __future__ import annotations

import gzip
import http.client
import json
import os
import socket
import struct
import subprocess
import threading
import time
import tracemalloc
from collections import deque
from contextlib import suppress
from pathlib import Path

import pytest

from skillhub.archive.unpack import unpack
from skillhub.disk.home import Home
from skillhub.errors import NotFound, UsageError
from skillhub.net.client import Http
from skillhub.registry.check import check
from skillhub.registry.operator import Signing, opened
from skillhub.registry.outputs import SHAPES, build
from skillhub.registry.upkeep import withdraw, yank
from skillhub.scan.results import ScanCache
from skillhub.server.registry_api import RegistryApi, RegistryHandler, inflated
from skillhub.server.site import site_server
from tests.support.registry import Simulator, now
from tests.support.serving import serving

HOST = "127.0.0.1:8000"
BASE = f"http://{HOST}"
LIST = "/registry/acme/v0.1/x/dev.toolhive/skills"


def scans(hub):
    return ScanCache(Home.of({"SKILLHUB_HOME": str(Path(hub.dir.path).parent / "home")}))


def rebuilt(hub):
    with opened(hub.dir.path, Signing(now=hub.when)) as found:
        build(found, [SHAPES], scans(hub))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    hub = Simulator(tmp_path_factory.mktemp("hub"))
    hub.publish("hello")
    hub.publish("hello", "1.1.0", **{"run.sh": "#!/bin/sh\n"})
    hub.publish("other", **{"page.html": "<p>x</p>"})
    rebuilt(hub)
    return hub


@pytest.fixture
def hub(made, tmp_path):
    return made.copy(tmp_path)


@pytest.fixture
def api(hub):
    return RegistryApi(hub.dir.path, scans(hub))


@pytest.fixture
def ask(api):
    def ask(target, host=HOST):
        found = api.answer(target, host)
        return json.loads(found.content) if found.type == "application/json" else found.content

    return ask


@pytest.fixture
def server(hub, api):
    handler = type("_Handler", (RegistryHandler,), {"api": api, "mcp": None})
    with serving(site_server(hub.dir.site, handler=handler)) as running:
        yield f"http://127.0.0.1:{running.server_port}"


def test_search_finds_skills_with_urls_of_this_server(ask):
    assert [each["id"] for each in ask("/api/search?q=hello&limit=10")["skills"]] == [
        "hello",
        "other",
    ]  # by description
    assert ask("/api/search?q=hello&limit=1")["skills"][0]["source"] == f"{BASE}/hello#"
    assert ask("/api/search?q=nothing-at-all")["skills"] == []
    assert len(ask("/api/search")["skills"]) == 2
    assert next(each["slug"] for each in ask("/api/v1/search?q=other")["results"]) == "other"


def test_urls_in_lists_and_packages_use_the_requested_host(hub, ask):
    assert ask("/marketplace.json")["plugins"][0]["source"]["registry"] == f"{BASE}/-/npm/"
    hub.dir.create(hub.dir.settings().at("https://skills.example/hub"))
    rebuilt(hub)
    tarball = "/-/npm/-/hello-1.1.0.tgz"
    for host, base in (
        (HOST, BASE),
        ("[::1]:80", "http://[::1]:80"),
        ("skills.example", "https://skills.example/hub"),
    ):
        assert ask("/-/npm/hello", host)["versions"]["1.1.0"]["dist"]["tarball"] == base + tarball
        assert ask("/.well-known/clawhub.json", host) == {"apiBase": base}


def test_the_host_of_the_public_url_is_accepted_from_a_proxy(hub, server):
    hub.dir.create(hub.dir.settings().at("https://skills.invalid/hub"))
    for host, status in (("skills.invalid", 200), ("evil.invalid", 421)):
        connection = http.client.HTTPConnection(server.removeprefix("http://"), timeout=300)
        connection.request("GET", "/metadata/timestamp.json", headers={"Host": host})
        assert connection.getresponse().status == status
        connection.close()


@pytest.mark.parametrize("host", ["", "a b", "evil.example/x", "a@b", 'x"y', "x\\y", "http://x", "a:b:c", "x:999999"])
def test_attack_an_invalid_host_is_refused(ask, host):
    with pytest.raises(UsageError):
        ask("/marketplace.json", host)


def test_clawhub_gets_the_signed_archive(hub, ask):
    assert ask("/api/v1/skills/hello")["latestVersion"]["version"] == "1.1.0"
    assert ask("/api/v1/resolve?slug=hello&hash=x") == {"latestVersion": {"version": "1.1.0"}, "match": None}
    assert ask("/api/v1/skills/hello/versions/1.0.0")["version"]["version"] == "1.0.0"
    assert {each["slug"] for each in ask("/api/v1/skills?limit=9")["items"]} == {"hello", "other"}
    with opened(hub.dir.path, Signing(now=hub.when)) as found:
        trees = {each.version: each.tree for each in found.index().skills["hello"]}
    for query, version in (("", "1.1.0"), ("&version=1.0.0", "1.0.0")):
        archive = ask(f"/api/v1/download?slug=hello{query}")
        assert unpack(archive, "zip", wrapper=False).tree.digest == trees[version]


def test_toolhive_gets_the_commit_in_the_repository(hub, ask):
    page = ask(f"{LIST}?limit=1")
    assert ([each["name"] for each in page["skills"]], page["metadata"]["nextCursor"]) == (["hello"], "hello")
    assert [each["name"] for each in ask(f"{LIST}?limit=1&cursor=hello")["skills"]] == ["other"]
    assert ask(f"{LIST}?search=other")["skills"][0]["name"] == "other"
    skill = ask(f"{LIST}/skillhub.acme/hello")
    [package] = skill["packages"]
    tip = Path(hub.dir.site, "skills.git/refs/heads/main").read_text().strip()
    assert (package["url"], package["commit"]) == (f"{BASE}/skills.git", tip)
    assert package["subfolder"] == "plugins/hello/skills/hello"
    assert ask(f"{LIST}/skillhub.acme/hello/versions/1.1.0") == skill
    versions = ask(f"{LIST}/skillhub.acme/hello/versions")["skills"]
    assert [(each["version"], "packages" in each) for each in versions] == [("1.1.0", True), ("1.0.0", False)]


# The required fields of registry/types/data/skill.schema.json in toolhive-core.
SKILL_SCHEMA = {
    "type": "object",
    "required": ["namespace", "name", "description", "version"],
    "additionalProperties": False,
    "properties": {
        "namespace": {"type": "string", "minLength": 3, "maxLength": 128},
        "name": {"type": "string", "pattern": "^[a-z0-9][a-z0-9-]*[a-z0-9]$", "maxLength": 64},
        "description": {"type": "string", "minLength": 1, "maxLength": 1024},
        "version": {"type": "string", "minLength": 1},
        "status": {"enum": ["active", "deprecated", "archived"]},
        "packages": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["registryType"],
                "additionalProperties": False,
                "properties": {
                    "registryType": {"enum": ["oci", "git"]},
                    **{key: {"type": "string"} for key in ("url", "ref", "commit", "subfolder")},
                },
            },
        },
        "_meta": {"type": "object"},
    },
}


def test_answers_match_the_schema_of_toolhive(hub, ask):
    jsonschema = pytest.importorskip("jsonschema")
    hub.publish("x")  # a name that the schema does not allow
    rebuilt(hub)
    assert [each["slug"] for each in ask("/api/v1/search?q=x")["results"]].count("x") == 1
    assert {each["name"] for each in ask(f"{LIST}?search=x")["skills"]} <= {"hello", "other"}
    for each in (*ask(LIST)["skills"], *ask(f"{LIST}/skillhub.acme/hello/versions")["skills"]):
        jsonschema.validate(each, SKILL_SCHEMA)


@pytest.mark.parametrize(
    "target",
    [
        "/api/v1/skills/nothing",
        "/api/v1/skills/..%2f..%2fmetadata",
        "/api/v1/skills/hello/versions/9.9.9",
        "/api/v1/download",
        "/api/v1/download?slug=../metadata",
        "/api/v1/download?slug=hello&version=..",
        "/-/npm/nothing",
        "/registry/other/v0.1/x/dev.toolhive/skills",
        f"{LIST}/other.namespace/hello",
    ],
)
def test_attack_an_unknown_skill_is_not_found(ask, target):
    with pytest.raises(NotFound):
        ask(target)


def test_yanked_and_withdrawn_releases_are_not_served(hub, ask):
    signing = Signing(now=hub.when)
    yank(hub.dir.path, "hello@1.1.0", "breaks", signing)
    assert ask("/api/v1/skills/hello")["latestVersion"]["version"] == "1.0.0"
    assert ask(f"{LIST}/skillhub.acme/hello/versions/1.1.0")["status"] == "deprecated"
    withdraw(hub.dir.path, "hello@1.1.0", "steals", signing)
    with pytest.raises(NotFound):
        ask("/api/v1/download?slug=hello&version=1.1.0")
    withdraw(hub.dir.path, "hello@1.0.0", "steals", signing)
    with pytest.raises(NotFound):
        ask("/api/v1/download?slug=hello")
    assert [each["id"] for each in ask("/api/search")["skills"]] == ["other"]


def test_served_site_is_valid_and_its_answers_are_no_active_documents(hub, server):
    with Http() as fetcher:
        assert check(server, now(), fetcher_for=lambda _: fetcher).problems == ()
    connection = http.client.HTTPConnection(server.removeprefix("http://"))
    for target, status in (
        ("/api/search?q=%3Cscript%3E", 200),
        ("/api/v1/skills/%3Cscript%3E", 404),
        ("/api/v1/x", 404),
    ):
        connection.request("GET", target)
        response = connection.getresponse()
        assert response.read() is not None and response.status == status
        assert response.getheader("Content-Type").partition(";")[0] in ("application/json", "text/plain")
        assert response.getheader("X-Content-Type-Options") == "nosniff"
        assert "sandbox" in response.getheader("Content-Security-Policy")
    connection.close()


def git(*words):
    environ = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    return subprocess.run(["git", *words], capture_output=True, text=True, timeout=300, check=False, env=environ)


def test_git_clones_shallow_sparse_and_by_the_old_protocol(hub, server, tmp_path):
    Path(hub.dir.site, "skills.git/refs/heads/evil").write_text("a" * 40 + "\n")  # never advertised
    kinds = {
        "shallow": ["--depth", "1"],
        "sparse": ["--filter=blob:none", "--sparse"],
        "old": ["-c", "protocol.version=0"],
    }
    for kind, words in kinds.items():
        done = git("clone", "-q", *words, f"{server}/skills.git", str(tmp_path / kind))
        assert done.returncode == 0, done.stderr
        assert git("-C", str(tmp_path / kind), "branch", "-r").stdout.split()[-1] == "origin/main"
    assert (tmp_path / "shallow/plugins/hello/skills/hello/run.sh").read_text() == "#!/bin/sh\n"
    hub.publish("hello", "1.2.0")
    rebuilt(hub)
    assert git("-C", str(tmp_path / "shallow"), "pull", "-q", "--ff-only").returncode == 0
    assert '"1.2.0"' in (tmp_path / "shallow/plugins/hello/plugin.json").read_text()


def test_git_clones_from_a_server_without_git(hub, api, tmp_path):
    class NoGit(RegistryApi):
        def git(self, words, protocol, request, **_):
            yield from ()

    handler = type("_Handler", (RegistryHandler,), {"api": NoGit(hub.dir.path, scans(hub))})
    with serving(site_server(hub.dir.site, handler=handler)) as running:
        done = git("clone", "-q", f"http://127.0.0.1:{running.server_port}/skills.git", str(tmp_path / "clone"))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("path", "headers", "body", "status"),
    [
        ("/skills.git/git-upload-pack", {}, b"0000", 200),
        ("/skills.git/git-upload-pack", {"Content-Encoding": "gzip"}, gzip.compress(b"0000", mtime=0), 200),
        ("/skills.git/git-upload-pack", {"Git-Protocol": "version=2;rm -rf /"}, b"\xff" * 100, 200),
        ("/skills.git/git-upload-pack", {"Content-Encoding": "gzip"}, b"garbage", 400),
        ("/skills.git/git-upload-pack", {"Content-Length": "5000000"}, b"", 413),
        ("/skills.git/git-upload-pack", {"Content-Length": "-1"}, b"", 413),
        ("/skills.git/git-upload-pack", {"Content-Length": "²"}, b"", 413),
        ("/skills.git/git-receive-pack", {}, b"0000", 501),
        ("/skills.git/info/refs", {}, b"0000", 501),
        ("/metadata/timestamp.json", {}, b"{}", 501),
        ("/mcp", {}, b"{}", 501),
    ],
)
def test_attack_an_invalid_body_is_refused_and_changes_no_file(hub, server, path, headers, body, status):
    before = {name: Path(hub.dir.site, name).read_bytes() for name in ("metadata/timestamp.json", "skills.git/HEAD")}
    connection = http.client.HTTPConnection(server.removeprefix("http://"), timeout=300)
    connection.putrequest("POST", path)
    for name, value in {"Content-Length": str(len(body)), **headers}.items():
        connection.putheader(name, value.encode("latin-1"))
    connection.endheaders(body)
    response = connection.getresponse()
    assert response.status == status
    response.read()
    connection.close()
    assert {name: Path(hub.dir.site, name).read_bytes() for name in before} == before


@pytest.mark.parametrize(
    "head",
    [
        "GET /index.json HTTP/1.1\r\nContent-Length: {size}",
        "HEAD /index.json HTTP/1.1\r\nContent-Length: {size}",
        "GET /api/search HTTP/1.1\r\nContent-Length: {size}",
        "GET /skills.git/info/refs?service=git-upload-pack HTTP/1.1\r\nContent-Length: {size}",
        "GET /nothing HTTP/1.1\r\nTransfer-Encoding: chunked",
        "GET /index.json HTTP/1.1\r\nContent-Length: 0\r\nContent-Length: {size}",
        "POST /skills.git/git-upload-pack HTTP/1.1\r\nContent-Length: 0\r\nTransfer-Encoding: chunked",
        "POST /skills.git/git-upload-pack HTTP/1.1\r\nContent-Length: 0\r\nContent-Length: {size}",
        "PUT /index.json HTTP/1.1\r\nContent-Length: {size}",
    ],
)
def test_attack_a_request_in_the_body_of_another_is_not_answered(server, head):
    inner = b"GET /metadata/timestamp.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
    host, port = server.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=300) as peer:
        peer.sendall(f"{head.format(size=len(inner))}\r\nHost: {host}\r\n\r\n".encode() + inner)
        peer.shutdown(socket.SHUT_WR)
        response = b"".join(iter(lambda: peer.recv(1 << 16), b""))
    assert response.count(b"HTTP/1.1 ") == 1 and b'"_type":"timestamp"' not in response


def test_attack_a_client_that_hangs_up_causes_no_traceback(server, capfd):
    host, port = server.removeprefix("http://").split(":")
    reset = struct.pack("ii", 1, 0)
    for sent in (
        b"GET /index.json HT",
        b"POST /skills.git/git-upload-pack HTTP/1.1\r\nContent-Length: 9000\r\n\r\n00",
    ):
        with socket.create_connection((host, int(port)), timeout=300) as peer:
            peer.sendall(sent)
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
    connection = http.client.HTTPConnection(host, int(port), timeout=300)
    connection.request("GET", "/index.json")
    assert connection.getresponse().status == 200
    connection.close()
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("taken", [0, 512])
@pytest.mark.parametrize("request_line", ["POST /skills.git/git-upload-pack", "GET /skills.git/info/refs?service={}"])
def test_attack_a_slow_reader_is_cut_off_and_frees_its_slot(hub, api, taken, request_line):
    """One client reads no byte, the other reads too slowly; both free their slot."""
    ended = threading.Event()

    class Endless(RegistryApi):
        def git(self, words, protocol, request, **_):
            try:
                while True:
                    yield b"0" * (1 << 16)
            finally:
                ended.set()

    facts = {"api": Endless(hub.dir.path, scans(hub)), "mcp": None, "timeout": 0.2, "rate": 1 << 60}
    line = request_line.format("git-upload-pack")
    listening = site_server(hub.dir.site, handler=type("_Handler", (RegistryHandler,), facts))
    with socket.create_connection(("127.0.0.1", listening.server_port), timeout=300) as peer:
        # The request is complete before the server reads it, since the same limit applies to requests.
        peer.sendall(f"{line} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n".encode())
        with serving(listening):
            while taken and not ended.is_set() and peer.recv(taken):
                pass
            assert ended.wait(300)


@pytest.mark.parametrize("begun", ["", "GET / HTTP/1.1\r\nX-", "POST /mcp HTTP/1.1\r\nContent-Length: 60000\r\n\r\n"])
def test_attack_a_dripping_request_is_cut_off(hub, api, begun):
    """Each byte comes in time, the whole request takes minutes; without the limit the server would answer it."""
    facts = {"api": api, "mcp": lambda *_: (200, {}, b"{}"), "timeout": 0.2, "rate": 1 << 60}
    handler = type("_Handler", (RegistryHandler,), facts)
    with serving(site_server(hub.dir.site, handler=handler)) as running:
        with socket.create_connection(("127.0.0.1", running.server_port), timeout=300) as peer:
            peer.sendall(begun.encode())
            peer.settimeout(0.02)
            answer = None
            while answer is None:
                with suppress(TimeoutError):
                    try:
                        peer.sendall(b"x")
                        answer = peer.recv(100)
                    except (ConnectionError, BrokenPipeError):
                        answer = b""
        assert answer == b""


def test_a_request_in_pieces_is_answered(hub, api):
    facts = {"api": api, "mcp": lambda *given: (200, {}, given[-1])}
    listening = site_server(hub.dir.site, handler=type("_Handler", (RegistryHandler,), facts))
    with serving(listening), socket.create_connection(("127.0.0.1", listening.server_port), timeout=300) as peer:
        for _ in range(2):  # the connection stays open
            for piece in (b"POST /mcp HT", b"TP/1.1\r\nContent-", b"Length: 4\r\n\r\n{", b"  }"):
                peer.sendall(piece)
                time.sleep(0.01)
            answer = more = peer.recv(1000)
            while more and not answer.endswith(b"{  }"):
                answer += (more := peer.recv(1000))
            assert answer.startswith(b"HTTP/1.1 200 ")
            assert answer.endswith(b"{  }")


def test_large_answer_reaches_a_steady_reader(hub, api):
    data = os.urandom(8 << 20)
    Path(hub.dir.site, "large.bin").write_bytes(data)
    handler = type("_Handler", (RegistryHandler,), {"api": api, "mcp": None})
    with serving(site_server(hub.dir.site, handler=handler)) as running:
        connection = http.client.HTTPConnection("127.0.0.1", running.server_port, timeout=300)
        for _ in range(2):  # the connection stays open
            connection.request("GET", "/large.bin")
            assert connection.getresponse().read() == data
        connection.close()


def test_attack_slow_clients_of_one_archive_share_its_bytes(hub, api):
    hub.publish("hello", "1.2.0", **{"large.txt": os.urandom(4 << 20).hex()})
    answers = [api.answer("/api/v1/download?slug=hello", HOST)]
    tracemalloc.start()
    answers += (api.answer("/api/v1/download?slug=hello", HOST) for _ in range(3))
    files = [each.opened() for each in answers]
    assert len({file.read() for file in files}) == 1
    assert tracemalloc.get_traced_memory()[0] < 1 << 20
    tracemalloc.stop()


@pytest.mark.parametrize("body", [gzip.compress(b"0" * (17 << 20)), gzip.compress(b"0000")[:-8], b"garbage"])
def test_attack_a_compressed_bomb_is_refused(body):
    with pytest.raises(UsageError):
        deque(inflated(body), 0)


def test_attack_a_compressed_request_takes_little_memory():
    """Otherwise each of many requests of 16 KB would take 16 MB."""
    body = gzip.compress(b"0" * (15 << 20))
    tracemalloc.start()
    assert sum(map(len, inflated(body))) == 15 << 20
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20

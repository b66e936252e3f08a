"""A temporary failure of a registry or store does not stop a push; a lasting one ends the push soon."""

from __future__ import annotations

import json
import socket
import threading
from collections import Counter
from contextlib import suppress
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit
from xml.sax.saxutils import escape

import pytest

from skillhub.errors import FormatError, SourceError
from skillhub.formats.digest import Digest
from skillhub.registry.push import push
from tests.support.registry import now
from tests.support.serving import serving

TIMESTAMP = "metadata/timestamp.json"
TITLE = "org.opencontainers.image.title"


class Failing(BaseHTTPRequestHandler):
    """A store whose first requests of each kind fail.

    ``how`` is a status, ``reset`` if the connection ends without an answer, or ``lost`` if only the answer is lost.
    """

    protocol_version = "HTTP/1.1"
    how: object = None
    times = 1

    def kind(self):
        raise NotImplementedError

    def reply(self, body):
        raise NotImplementedError

    def _do(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        store, kind = self.server.store, self.kind()
        store["asked"][kind] += 1
        if store["asked"][kind] > self.times:
            return self._answer(*self.reply(body))
        if self.how == "lost":
            self.reply(body)
        if isinstance(self.how, int):
            return self._answer(self.how, {}, b"")
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    do_GET = do_PUT = do_POST = do_HEAD = _do  # noqa: N815 - named by http.server

    def _answer(self, status, headers, body):
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(b"" if self.command == "HEAD" else body)

    def log_message(self, *_):
        """Keep silent."""


class Oci(Failing):
    def kind(self):
        return self.command, self.path.split("/")[4 if "uploads" not in self.path else 5]

    def reply(self, body):
        url, store = urlsplit(self.path), self.server.store
        if self.command == "POST":
            store["uploads"] += 1
            return 202, {"Location": f"/v2/acme/skills/blobs/uploads/{store['uploads']}"}, b""
        name = url.path.rpartition("/")[2]
        if self.command == "PUT" and "uploads" in url.path:
            if name in store["done"]:
                return 404, {}, b""  # an upload has one end
            store["done"].add(name)
            (name,) = parse_qs(url.query)["digest"]
            assert name == Digest.of(body)
        if self.command == "PUT":
            store["files"][name] = body
            return 201, {}, b""
        found = store["files"].get(name)
        return (404, {}, b"") if found is None else (200, {"Docker-Content-Digest": Digest.of(found)}, found)


class S3(Failing):
    def kind(self):
        return self.command, "list" if "list-type" in self.path else ""

    def reply(self, body):
        files, key = self.server.store["files"], urlsplit(self.path).path.removeprefix("/bucket/")
        if "list-type" in self.path:
            rows = (f"<Contents><Key>{escape(key)}</Key><ETag>{tag(files[key])}</ETag></Contents>" for key in files)
            return (
                200,
                {"Content-Type": "application/xml"},
                f"<ListBucketResult>{''.join(rows)}</ListBucketResult>".encode(),
            )
        if self.command == "PUT":
            if "If-None-Match" in self.headers and key in files:
                return 412, {}, b""
            files[key] = body
        found = files.get(key)
        return (404, {}, b"") if found is None else (200, {"ETag": tag(found)}, found)


def tag(data):
    return f'"{md5(data, usedforsecurity=False).hexdigest()}"'


def server(handler, how, times=1):
    found = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (handler,), {"how": how, "times": times}))
    found.daemon_threads = True
    found.store = {"files": {}, "asked": Counter(), "uploads": 0, "done": set()}
    return found


def to_oci(hub, running, waits=(0.0, 0.0, 0.0), login=None, **limits):
    module = pytest.importorskip("skillhub.registry.push_oci", reason="takes the extra oci", exc_type=ImportError)
    host = f"127.0.0.1:{running.server_port}"

    def connect(address):
        client = module.DXF(host, "acme/skills", login, insecure=True, timeout=20)
        return type("_Target", (module.OciTarget,), {"waits": waits, **limits})(
            client.__enter__(), "v1", address, lambda url: False
        )

    return push(hub.dir.path, f"oci://{host}/acme/skills:v1", connect, now=now())


def to_s3(hub, running, **limits):
    module = pytest.importorskip("skillhub.registry.push_s3", reason="takes the extra s3", exc_type=ImportError)
    session = module.boto3.session.Session("key", "secret", region_name="eu-west-1")
    url = f"http://127.0.0.1:{running.server_port}"
    kind = type("_Target", (module.S3Target,), limits)
    client = module.bounded(session.client("s3", config=module._CONFIG, endpoint_url=url), kind.seconds)
    return push(hub.dir.path, "s3://bucket", lambda _: kind(client, "bucket", ""), now=now())


@pytest.mark.parametrize("how", [500, 502, 503, 504, 429, 408, "reset", "lost"])
def test_push_to_oci_succeeds_after_temporary_failures(hub, how):
    with serving(server(Oci, how)) as running:
        done = to_oci(hub, running)
        layers = json.loads(running.store["files"]["v1"])["layers"]
        assert {each["annotations"][TITLE] for each in layers} == set(done.written)
        assert all(each["digest"] in running.store["files"] for each in layers)
        assert to_oci(hub, running).written == ()


@pytest.mark.parametrize(("how", "asked"), [(503, 4), ("reset", 4), (403, 1), (400, 1), (507, 1)])
def test_push_to_oci_ends_after_lasting_failures(hub, how, asked):
    with serving(server(Oci, how, times=99)) as running:
        with pytest.raises(SourceError):
            to_oci(hub, running)
        assert running.store["asked"] == {("GET", "manifests"): asked}
        assert running.store["files"] == {}


@pytest.mark.parametrize("how", [401, 403])
def test_refused_access_to_oci_asks_for_a_login(hub, how):
    refused = pytest.raises(SourceError, match=f"refuses access: it answered {how}$")
    with serving(server(Oci, how, times=99)) as running, refused as caught:
        to_oci(hub, running)
    assert (caught.value.hint or "").startswith("log in with docker")


@pytest.mark.parametrize("fault", [TypeError, AttributeError, KeyError, ValueError])
def test_attack_a_malformed_challenge_or_token_is_an_error_of_the_registry(hub, fault):
    """dxf raises TypeError for ``Bearer`` without a realm, and AttributeError for a token that is no JSON object."""

    def login(client, response):
        raise fault("x")

    refused = pytest.raises(SourceError, match=r"^the registry refuses the request: ")
    with serving(server(Oci, 401, times=99)) as running, refused:
        to_oci(hub, running, login=login)


@pytest.mark.parametrize("how", [500, 503, "reset", "lost"])
def test_push_to_s3_succeeds_after_temporary_failures(hub, how):
    with serving(server(S3, how)) as running:
        done = to_s3(hub, running)
        assert set(running.store["files"]) == set(done.written) and TIMESTAMP in done.written


@pytest.mark.parametrize("row", ["<Key>a</Key>", "<ETag>a</ETag>", "<Key>a</Key><ETag>a</ETag><Size>x</Size>"])
def test_attack_a_malformed_list_is_an_error_of_the_store(hub, row):
    class Malformed(S3):
        def reply(self, body):
            return 200, {}, f"<ListBucketResult><Contents>{row}</Contents></ListBucketResult>".encode()

    with serving(server(Malformed, None, times=0)) as running, pytest.raises(SourceError, match="answer of an S3"):
        to_s3(hub, running)


def test_push_to_oci_reports_that_pages_are_left_out(hub, shell):
    pytest.importorskip("skillhub.registry.push_oci", reason="takes the extra oci", exc_type=ImportError)
    with serving(server(Oci, None, times=0)) as running:
        address = f"oci://127.0.0.1:{running.server_port}/acme/skills"
        done = shell.run("registry", "push", hub.dir.path, address, "--json")
        assert (done.status, done.json["pages"]) == (0, False), done.err
        assert "gets no pages" in shell.run("registry", "push", hub.dir.path, address).err
    done = shell.run("registry", "push", hub.dir.path, shell.folder / "public", "--json")
    assert (done.json["pages"], "no pages" in done.err) == (True, False)


class Forgetful:
    """A store that accepts the file with which clients see the site, and keeps nothing of it."""

    def reply(self, body):
        status, headers, found = super().reply(body)
        if self.command == "PUT":
            files = self.server.store["files"]
            self.server.store["files"] = {key: files[key] for key in files if key not in ("v1", TIMESTAMP)}
        return status, headers, b"" if self.command == "PUT" else found


@pytest.mark.parametrize(("kind", "to"), [(Oci, to_oci), (S3, to_s3)])
def test_attack_a_store_that_keeps_nothing_of_what_it_accepts_is_reported(hub, kind, to):
    forgetful = type("_Forgetful", (Forgetful, kind), {})
    refused = pytest.raises(SourceError, match=r"accepted .* and does not have it")
    with serving(server(forgetful, None, times=0)) as running, refused:
        to(hub, running)


def test_attack_an_endless_list_ends(hub):
    class Endless(S3):
        def reply(self, body):
            self.server.store["pages"] = page = self.server.store.get("pages", 0) + 1
            more = f"<IsTruncated>true</IsTruncated><NextContinuationToken>{page}</NextContinuationToken>"
            return 200, {}, f"<ListBucketResult>{more}</ListBucketResult>".encode()

    with serving(server(Endless, None, times=0)) as running, pytest.raises(SourceError, match="more than 20 pages"):
        to_s3(hub, running, pages_max=20)


@pytest.mark.parametrize("status", [200, 403])
def test_attack_an_endless_answer_of_a_store_is_not_read_whole(hub, status):
    class Large(S3):
        def reply(self, body):
            return status, {}, b"<ListBucketResult>" + b" " * (17 << 20) + b"</ListBucketResult>"

    refused = pytest.raises(FormatError, match="expected at most 16777216 bytes")
    with serving(server(Large, None, times=0)) as running, refused:
        to_s3(hub, running)


class Dripping:
    """A store that sends one byte after another, in the head or in the body of its ``late``-th answer to a GET."""

    late = 1

    def _answer(self, status, headers, body):
        store = self.server.store
        store["gets"] = store.get("gets", 0) + (self.command == "GET")
        if self.command != "GET" or store["gets"] < self.late:
            return super()._answer(status, headers, body)
        head = b"HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n"
        with suppress(OSError):
            self.wfile.write(head + (b"\r\n" if self.in_body else b"X-A: "))
            for _ in range(200):
                if not store["over"].wait(0.02):
                    self.wfile.write(b" ")


@pytest.mark.parametrize("in_body", [False, True])
@pytest.mark.parametrize(("kind", "to", "late"), [(Oci, to_oci, 1), (S3, to_s3, 1), (S3, to_s3, 2)])
def test_attack_a_store_that_sends_one_byte_after_another_is_given_up(hub, kind, to, late, in_body):
    """It would hold the push for ever, since each byte arrives in time."""
    dripping = type("_Dripping", (Dripping, kind), {"in_body": in_body, "late": late})
    with serving(server(dripping, None, times=0)) as running:
        running.store["over"] = threading.Event()
        running.store["files"] = {"metadata/1.root.json": b"", TIMESTAMP: b""}
        try:
            with pytest.raises(SourceError, match=r"took more than \d+ s$"):
                to(hub, running, seconds=0.4)
        finally:
            running.store["over"].set()

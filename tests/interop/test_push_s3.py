"""Against moto's S3 with If-Match and If-None-Match; the pushed registry is then installed over plain http."""

import os
import shutil
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from skillhub.errors import NotFound, Refused, Rollback, SourceError, StateError, UsageError
from skillhub.formats.digest import Digest
from skillhub.registry.push import push
from tests.support.cli import Shell
from tests.support.published import change, offered
from tests.support.registry import Simulator, now

boto3 = pytest.importorskip("boto3")
push_s3 = pytest.importorskip("skillhub.registry.push_s3")
pytestmark = pytest.mark.interop
REPO = Path(__file__).resolve().parents[2]
PUBLIC_READ = (
    '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"s3:GetObject",'
    '"Resource":"arn:aws:s3:::skills/*"}]}'
)
LISTING, TIMESTAMP = ".well-known/agent-skills/index.json", "metadata/timestamp.json"


def program():
    places = (os.environ.get("SKILLHUB_MOTO_SERVER"), shutil.which("moto_server"))
    found = [place for place in (*places, REPO / ".venv-interop/bin/moto_server") if place]
    if not os.path.exists(found[0]):
        pytest.skip("there is no moto_server")
    return str(found[0])


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


@pytest.fixture(scope="module")
def endpoint():
    port = free_port()
    quiet = subprocess.DEVNULL
    server = subprocess.Popen([program(), "-H", "127.0.0.1", "-p", str(port)], stdout=quiet, stderr=quiet)
    url = f"http://127.0.0.1:{port}"
    for _ in range(600):
        try:
            urllib.request.urlopen(url, timeout=1).close()
            break
        except OSError:
            time.sleep(0.1)
    yield url
    server.terminate()
    server.wait()


@pytest.fixture
def store(endpoint, monkeypatch):
    """An empty public bucket, ``skills``."""
    for name, value in {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    urllib.request.urlopen(urllib.request.Request(f"{endpoint}/moto-api/reset", method="POST")).close()
    client = boto3.client("s3")
    client.create_bucket(Bucket="skills")
    client.put_bucket_policy(Bucket="skills", Policy=PUBLIC_READ)
    yield client
    client.close()


def pushed(hub, address="s3://skills/hub", connect=push_s3.open_target, **more):
    return push(hub.dir.path, address, connect, now=now(), **more)


def objects(client, prefix="hub/"):
    pages = client.get_paginator("list_objects_v2").paginate(Bucket="skills", Prefix=prefix)
    keys = [each["Key"] for page in pages for each in page.get("Contents", ())]
    return {key.removeprefix(prefix): client.get_object(Bucket="skills", Key=key)["Body"].read() for key in keys}


def put(client, path, data):
    client.put_object(Bucket="skills", Key=f"hub/{path}", Body=data)


def test_every_byte_is_pushed_and_a_second_push_writes_nothing(store, hub):
    done = pushed(hub)
    found = objects(store)
    assert sorted(found) == sorted(done.written)
    assert found == {path: hub.files[path] for path in found}
    assert pushed(hub) == type(done)((), (), len(found), is_new=False)
    pushed(hub, "s3://skills")
    assert set(objects(store, "")) == {*found, *(f"hub/{path}" for path in found)}


def test_objects_have_the_media_types_and_caching_of_our_server(store, hub):
    pushed(hub)
    forever, minute = "public, max-age=31536000, immutable", "public, max-age=60"
    for path, type_, cache in (
        (TIMESTAMP, "application/json", minute),
        (LISTING, "application/json", minute),
        ("metadata/1.root.json", "application/json", forever),
        (next(path for path in hub.files if path.endswith(".zip")), "application/zip", forever),
    ):
        head = store.head_object(Bucket="skills", Key=f"hub/{path}")
        assert (head["ContentType"], head["CacheControl"]) == (type_, cache)


def test_a_skill_is_installed_from_the_bucket(store, hub, endpoint, tmp_path):
    pushed(hub)
    shell = Shell(tmp_path / "machine")
    url, root = f"{endpoint}/skills/hub", Digest.of(hub.root)
    added = shell.run("source", "add", "acme", url, "--fingerprint", root, "--json")
    assert added.status == 0, added.err
    done = shell.run("install", "acme:hello", "--yes", "--json")
    assert done.status == 0, done.err
    assert done.json["skills"][0]["trust"] == "signed"
    hub.publish(version="1.1.0")
    pushed(hub)
    offers = shell.run("source", "show", "acme", "--json").json["skills"]
    assert [(each["name"], each["version"]) for each in offers] == [("hello", "1.1.0")]


def test_a_dry_run_of_a_push_to_s3_writes_nothing(store, hub):
    assert len(pushed(hub, dry_run=True).written) > 10
    assert objects(store) == {}


def test_an_old_copy_and_another_registry_are_refused(store, hub, tmp_path):
    (tmp_path / "stale").mkdir()
    stale = hub.copy(tmp_path / "stale")
    hub.publish(version="1.1.0")
    pushed(hub)
    before = objects(store)
    with pytest.raises(Rollback):
        pushed(stale)
    (tmp_path / "other").mkdir()
    with pytest.raises(Refused):
        pushed(Simulator(tmp_path / "other", label="other"))
    assert objects(store) == before


class Meddled(push_s3.S3Target):
    """A store in which another writer writes between comparison and first write."""

    meddle = staticmethod(lambda: None)

    def publish(self, *given):
        self.meddle()
        super().publish(*given)


def meddled(client, meddle):
    target = Meddled(boto3.client("s3"), "skills", "hub/")
    target.meddle = meddle
    return lambda address: target


@pytest.mark.parametrize("path", [LISTING, TIMESTAMP])
@pytest.mark.parametrize("first", [True, False])
def test_a_concurrent_writer_loses_nothing(store, hub, path, first):
    if not first:
        pushed(hub)
        hub.publish(version="1.1.0")
    with pytest.raises(StateError, match="another writer"):
        pushed(hub, connect=meddled(store, lambda: put(store, path, b"theirs")))
    assert objects(store)[path] == b"theirs"
    if path == TIMESTAMP:
        store.delete_object(Bucket="skills", Key=f"hub/{path}")
    pushed(hub)
    assert objects(store)[path] == hub.files[path]


def test_a_file_deleted_during_a_push_is_an_error(store, hub):
    pushed(hub)
    hub.publish(version="1.1.0")
    with pytest.raises(StateError, match="another writer"):
        pushed(hub, connect=meddled(store, lambda: store.delete_object(Bucket="skills", Key=f"hub/{TIMESTAMP}")))
    pushed(hub)
    assert objects(store)[TIMESTAMP] == hub.files[TIMESTAMP]


def test_an_immutable_file_of_a_concurrent_writer_is_an_error(store, hub):
    archive = next(path for path in hub.files if path.endswith(".zip"))
    with pytest.raises(StateError, match="another writer"):
        pushed(hub, connect=meddled(store, lambda: put(store, archive, b"evil")))
    assert TIMESTAMP not in objects(store)
    with pytest.raises(StateError, match="never changes"):
        pushed(hub)
    store.delete_object(Bucket="skills", Key=f"hub/{archive}")
    pushed(hub)
    assert objects(store)[archive] == hub.files[archive]


def test_an_identical_file_of_a_concurrent_writer_is_accepted(store, hub):
    archive = next(path for path in hub.files if path.endswith(".zip"))
    pushed(hub, connect=meddled(store, lambda: put(store, archive, hub.files[archive])))
    assert objects(store)[TIMESTAMP] == hub.files[TIMESTAMP]


class Cut(Exception):
    """The pushing machine is switched off."""


def test_cut_off_before_each_write_the_public_site_is_the_old_or_the_new(store, hub, tmp_path):
    pushed(hub)
    before = objects(store)
    hub.publish(version="1.1.0")
    count = len(pushed(hub, dry_run=True).written)

    class Dying(push_s3.S3Target):
        left = 0

        def _put(self, file):
            if not self.left:
                raise Cut
            self.left -= 1
            super()._put(file)

    for step in range(count):
        target = Dying(boto3.client("s3"), "skills", "hub/")
        target.left = step
        with pytest.raises(Cut):
            pushed(hub, connect=lambda address, target=target: target)
        now_there = objects(store)
        assert now_there[TIMESTAMP] == before[TIMESTAMP]
        site = tmp_path / f"seen-{step}"
        for path, data in now_there.items():
            change(site / path, data)
        assert offered(site, tmp_path / f"client-{step}", hub.root) == ("1.0.0",)
        for key in set(now_there) - set(before):
            store.delete_object(Bucket="skills", Key=f"hub/{key}")
        for path, data in before.items():
            put(store, path, data)
    assert len(pushed(hub).written) == count


class Simple(BaseHTTPRequestHandler):
    """Passes all requests on to moto without conditional writes, like some stores."""

    protocol_version = "HTTP/1.1"
    upstream = ""
    refused = 0

    def _pass(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        conditional = {"If-Match", "If-None-Match"} & set(self.headers)
        if self.command == "PUT" and conditional:
            type(self).refused += 1
            return self._answer(501, {}, b"<Error><Code>NotImplemented</Code></Error>")
        headers = {name: value for name, value in self.headers.items() if name not in ("Host", "Connection")}
        asked = urllib.request.Request(self.upstream + self.path, body or None, headers, method=self.command)
        try:
            with urllib.request.urlopen(asked) as answer:
                self._answer(answer.status, answer.headers, answer.read())
        except urllib.error.HTTPError as answer:
            with answer:
                self._answer(answer.code, answer.headers, answer.read())

    do_GET = do_PUT = do_HEAD = _pass  # noqa: N815 - named by http.server

    def _answer(self, status, headers, body):
        self.send_response(status)
        for name in ("ETag", "Content-Type", "Last-Modified"):
            if name in headers:
                self.send_header(name, headers[name])
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(b"" if self.command == "HEAD" else body)

    def log_message(self, *_):
        """Print no log."""


@pytest.fixture
def simple(store, endpoint, monkeypatch):
    handler = type("Bound", (Simple,), {"upstream": endpoint})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
    yield handler
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_store_without_conditional_writes_is_checked_again(store, simple, hub):
    pushed(hub)
    assert simple.refused > 10
    assert objects(store) == {path: hub.files[path] for path in objects(store)}
    hub.publish(version="1.1.0")
    with pytest.raises(StateError, match="another writer"):
        pushed(hub, connect=meddled(store, lambda: put(store, LISTING, b"theirs")))
    assert objects(store)[LISTING] == b"theirs"
    pushed(hub)
    assert objects(store)[TIMESTAMP] == hub.files[TIMESTAMP]


def test_a_missing_bucket_endpoint_or_credential_is_reported(store, hub, monkeypatch):
    with pytest.raises(NotFound, match="bucket"):
        pushed(hub, "s3://nothing-here")
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    with pytest.raises(SourceError):
        pushed(hub)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    with pytest.raises(SourceError, match="credentials"):
        pushed(hub)


@pytest.mark.parametrize("address", ["s3://", "s3://A", "s3://b", "s3://skills/../x", "s3://skills/a//b", "s3://s?k"])
def test_an_invalid_address_is_refused(store, hub, address):
    with pytest.raises(UsageError):
        pushed(hub, address)

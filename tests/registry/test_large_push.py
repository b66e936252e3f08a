"""A registry with a listing in parts: pushes to S3 and OCI, interrupted and continued, and serving."""

from __future__ import annotations

import json
import os
import threading
import urllib.request
from collections import deque
from contextlib import suppress

import pytest

from skillhub.disk.home import Home
from skillhub.errors import SourceError, UsageError
from skillhub.formats.digest import Digest
from skillhub.model.discovery import parse_listing
from skillhub.net.client import Http
from skillhub.registry.build import add
from skillhub.registry.operator import Signing, opened
from skillhub.registry.outputs import SHAPES, build
from skillhub.registry.push import push
from skillhub.registry.push_targets import FolderTarget, SiteFile, in_stages
from skillhub.registry.upkeep import yank
from skillhub.scan.results import ScanCache
from skillhub.server.registry_api import RegistryApi, RegistryHandler
from skillhub.server.site import SiteHandler, site_server
from skillhub.sources.registry_client import TufRegistry
from skillhub.trust.documents import SHARD_PATHS, LargeListing
from skillhub.trust.roles import WELL_KNOWN
from tests.registry.test_large import NAMES, set_limit
from tests.registry.test_push_retries import S3, TITLE, Oci, server, to_oci, to_s3
from tests.registry.test_push_stages import Bucket
from tests.support.effort import calls
from tests.support.registry import Simulator, now, write_skill
from tests.support.serving import serving

TIMESTAMP = "metadata/timestamp.json"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    hub = Simulator(folder, log=True)
    set_limit(hub, 0)
    add(hub.dir.path, [write_skill(folder, name) for name in NAMES], Signing(now=hub.when))
    hub.pull()
    return hub


@pytest.fixture
def hub(made, tmp_path):
    return made.copy(tmp_path)


def test_a_push_reads_each_part_once_for_the_releases_and_once_for_the_files(hub, tmp_path):
    (tmp_path / "site").mkdir()
    with opened(hub.dir.path, Signing(now=hub.when)) as own:
        (parts,) = calls(lambda: deque(own.large.targets(), 0), LargeListing.read)
    site = str(tmp_path / "site")
    (reads,) = calls(lambda: push(hub.dir.path, site, FolderTarget, now=hub.when), LargeListing.read)
    assert parts > 1 and reads == 2 * parts


def is_complete(hub, files, tmp_path):
    """Return whether a client finds, verifies and fetches every skill of these files, and the lists name all."""
    hub.files = dict(files)
    registry = hub.open(tmp_path / f"m{len(os.listdir(tmp_path))}")
    for name in NAMES:
        assert name in registry.listing(name).skills
        registry.artifact(registry.release_index([name]).releases(name)[0])
    lists = [f"{WELL_KNOWN}/{each}" for each in json.loads(files[f"{WELL_KNOWN}/index.json"])["lists"]]
    found = [name for path in lists if path in files for name in parse_listing(files[path], path).names]
    return sorted(found) == sorted(NAMES)


def test_interrupted_push_to_s3_continues_to_a_complete_registry(hub, tmp_path):
    module = pytest.importorskip("skillhub.registry.push_s3", reason="takes the extra s3", exc_type=ImportError)
    bucket = Bucket()

    def pushed():
        return push(hub.dir.path, "s3://bucket", lambda _: module.S3Target(bucket, "bucket", ""), now=now())

    sound = push(hub.dir.path, str(tmp_path / "folder"), FolderTarget, now=now())
    total = len(sound.written)
    for cut in (0, 1, total // 3, total // 2, total - 3, total - 2):
        bucket.cut = cut
        with pytest.raises(SourceError):
            pushed()
        assert TIMESTAMP not in bucket.objects and len(bucket.objects) == bucket.asked["put"] == cut
    bucket.cut = None
    pushed()
    assert len(bucket.objects) == bucket.asked["put"] == total  # no file was sent twice
    assert is_complete(hub, bucket.objects, tmp_path)


def test_push_to_s3_sends_only_changes_and_keeps_the_old_state_readable(hub, tmp_path):
    with serving(server(S3, None, times=0)) as running:
        to_s3(hub, running)
        before = dict(running.store["files"])
        hub.publish("merge-c", "1.1.0")
        files = dict(hub.files)
        done = to_s3(hub, running)
        assert 0 < len(done.written) < 40
        assert {path for path, data in running.store["files"].items() if before.get(path) != data} == {*done.written}
        old = {path: data for path, data in running.store["files"].items() if path in before}
        assert is_complete(hub, old | {path: before[path] for path in done.written if path in before}, tmp_path)
        assert is_complete(hub, running.store["files"], tmp_path)
        assert running.store["files"] == {path: files[path] for path in running.store["files"]}
        yank(hub.dir.path, "merge-c@1.1.0", "slow", Signing(now=hub.when))
        assert 0 < len(to_s3(hub, running).written) < 40


class _Ending(Oci):
    """An OCI registry that stops after some uploads."""

    left = 0

    def reply(self, body):
        if self.command == "PUT":
            self.server.store["sent"].append(Digest.of(body))
        return super().reply(body)

    def _do(self):
        if self.command == "PUT":
            with self.server.store["lock"]:
                type(self).left -= 1
            if type(self).left < 0:
                self.close_connection = True
                return None
        return super()._do()

    do_GET = do_PUT = do_POST = do_HEAD = _do  # noqa: N815 - named by http.server


def test_interrupted_push_to_oci_continues_and_moves_the_tag_last(hub, tmp_path):
    pytest.importorskip("skillhub.registry.push_oci", reason="takes the extra oci", exc_type=ImportError)
    with serving(server(_Ending, None, times=0)) as running:
        store, handler = running.store, running.RequestHandlerClass
        store["lock"], store["sent"] = threading.Lock(), []
        for left in (0, 40, 70):
            handler.left = left
            with suppress(SourceError):
                to_oci(hub, running, waits=())
                pytest.fail("the registry was gone")
            assert "v1" not in store["files"]
        handler.left = 10_000
        before = {*store["files"]}
        store["sent"].clear()
        done = to_oci(hub, running)
        assert store["sent"] and not before & {*store["sent"]}
        layers = {each["annotations"][TITLE]: each["digest"] for each in json.loads(store["files"]["v1"])["layers"]}
        assert {*layers} == {*done.written}
        assert is_complete(hub, {path: store["files"][digest] for path, digest in layers.items()}, tmp_path)


def test_registry_with_too_many_files_for_a_manifest_is_refused(hub):
    module = pytest.importorskip("skillhub.registry.push_oci", reason="takes the extra oci", exc_type=ImportError)
    with serving(server(Oci, None, times=0)) as running:
        to_oci(hub, running)
        row = len(running.store["files"]["v1"]) / len(json.loads(running.store["files"]["v1"])["layers"])
        sent = dict(running.store["files"])
        client = module.DXF(f"127.0.0.1:{running.server_port}", "acme/skills", None, insecure=True)
        site = [SiteFile(f"skills/{number}", b"x".__bytes__) for number in range(int(5 * 2**20 / row))]
        target = module.OciTarget(client.__enter__(), "v1", "oci://here", lambda url: False)
        with pytest.raises(UsageError, match="too many for one artifact"):
            target.publish(site, site)
        assert running.store["files"] == sent


def test_lists_are_written_after_their_files():
    order = []
    lists = [*SHARD_PATHS[:3], f"{WELL_KNOWN}/index.json"]
    named = [f"{WELL_KNOWN}/skills/a.json", f"archives/a/{'0' * 64}.zip"]
    site = [SiteFile(path, path.encode) for path in (*lists, *named, TIMESTAMP)]
    in_stages(site, lambda file: order.append(file.path))
    assert order[:2] == named[::-1]
    assert ({*order[2:6]}, order[6]) == ({*lists}, TIMESTAMP)


def test_plain_server_and_registry_serve_offer_every_skill(hub, tmp_path):
    home = Home.of({"SKILLHUB_HOME": str(tmp_path / "home")})
    with opened(hub.dir.path, Signing(now=hub.when)) as found:
        build(found, [SHAPES], ScanCache(home))
    api = RegistryApi(hub.dir.path, ScanCache(home, remember=False))
    ours = type("_Handler", (RegistryHandler,), {"api": api, "mcp": None})
    for number, handler in enumerate((SiteHandler, ours)):
        with serving(site_server(hub.dir.site, "127.0.0.1", 0, handler)) as running:
            url = f"http://127.0.0.1:{running.server_address[1]}"
            with Http() as http:
                registry = TufRegistry.open(url, hub.root, http, str(tmp_path / f"m{number}"))
                assert "merge-c" in registry.listing("merge").skills
                registry.artifact(registry.release_index(["merge-c"]).releases("merge-c")[0])
            if handler is ours:
                with urllib.request.urlopen(f"{url}/api/v1/search?q=merge") as answer:
                    assert "merge-c" in answer.read().decode()
    assert sorted(api.state().skills) == sorted(NAMES)

"""Against Debian's ``docker-registry``; pushed artifacts are read back by a plain client of the protocol."""

import json
import os
import shutil
import socket
import urllib.request
from functools import partial
from pathlib import Path

import pytest

from skillhub.errors import FormatError, Refused, Rollback, SourceError, StateError, UsageError
from skillhub.formats.digest import Digest
from skillhub.registry.check import check
from skillhub.registry.push import push
from skillhub.sources.oci import REGISTRY_SITE
from skillhub.trust.keys import PrivateKey
from tests.support.cli import Shell
from tests.support.docker_registry import registry
from tests.support.published import change
from tests.support.registry import Simulator, now
from tests.support.web import Web, answer, endless
from tests.support.world import skill

push_oci = pytest.importorskip("skillhub.registry.push_oci")
pytestmark = pytest.mark.interop
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
TIMESTAMP = "metadata/timestamp.json"


def no_other_host(url):
    return False


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    with registry(tmp_path_factory.mktemp("registry")) as host:
        yield host


@pytest.fixture
def address(host, request):
    """An unused repository."""
    return f"oci://{host}/acme/{abs(hash(request.node.name))}:v1"


CONNECT = partial(push_oci.open_target, trusts=no_other_host)


def pushed(hub, address, connect=CONNECT, **more):
    return push(hub.dir.path, address, connect, now=now(), **more)


def get(address, path, **headers):
    base, _, tag = address.removeprefix("oci://").rpartition(":")
    host, _, repository = base.partition("/")
    url = f"http://{host}/v2/{repository}/{path or 'manifests/' + tag}"
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as found:
        return found.read()


def manifest(address):
    return json.loads(get(address, "", Accept=MANIFEST))


def pulled(address):
    """Return every file of the artifact."""
    return {
        layer["annotations"]["org.opencontainers.image.title"]: get(address, f"blobs/{layer['digest']}")
        for layer in manifest(address)["layers"]
    }


def put_manifest(address, document):
    base, _, tag = address.removeprefix("oci://").rpartition(":")
    host, _, repository = base.partition("/")
    data = json.dumps(document).encode()
    url = f"http://{host}/v2/{repository}/manifests/{tag}"
    headers = {"Content-Type": document["mediaType"]}
    urllib.request.urlopen(urllib.request.Request(url, data, headers, method="PUT")).close()


def test_every_byte_arrives_and_is_a_sound_registry(hub, address, tmp_path):
    done = pushed(hub, address)
    found = pulled(address)
    assert sorted(found) == sorted(done.written)
    assert found == {path: hub.files[path] for path in found}
    assert pushed(hub, address) == type(done)((), (), len(found), is_new=False)
    shutil.rmtree(hub.dir.site)
    for path, data in found.items():
        change(Path(hub.dir.site, path), data)
    assert check(hub.dir.path, now()).problems == ()


def test_the_artifact_has_its_type_digests_and_sizes(hub, address):
    pushed(hub, address)
    found = manifest(address)
    assert (found["mediaType"], found["artifactType"]) == (MANIFEST, "application/vnd.skillhub.registry.v1")
    assert found["config"]["mediaType"] == "application/vnd.oci.empty.v1+json"
    for layer in found["layers"]:
        data = get(address, f"blobs/{layer['digest']}")
        assert (layer["digest"], layer["size"]) == (Digest.of(data), len(data))
    zips = [each for each in found["layers"] if each["mediaType"] == "application/zip"]
    assert len(zips) == 1


def test_the_tag_moves_last_and_has_only_the_newest_state(hub, address):
    pushed(hub, address)
    hub.publish(version="1.1.0")
    before = manifest(address)

    class Cut(Exception):
        """The pushing machine is switched off."""

    class Dying(push_oci.OciTarget):
        def _upload(self, data):
            super()._upload(data)
            if data == hub.files[TIMESTAMP]:
                raise Cut

    opened = push_oci.open_target(address, no_other_host)
    dying = Dying(opened._client, "v1", address, no_other_host)
    with pytest.raises(Cut):
        pushed(hub, address, lambda _: dying)
    assert manifest(address) == before
    pushed(hub, address)
    found = pulled(address)
    assert found == {path: hub.files[path] for path in found}
    assert len([path for path in found if path.endswith(".snapshot.json")]) == 1


def test_same_site_gives_the_same_manifest(hub, address):
    pushed(hub, address)
    pushed(hub, address.replace(":v1", ":v2"))
    assert manifest(address) == manifest(address.replace(":v1", ":v2"))


def test_the_line_that_publish_prints_installs_from_oci(address, tmp_path):
    shell = Shell(tmp_path)
    skill(shell.project, "greeting", head="metadata:\n  version: 1.0.0\n")
    made = shell.run("registry", "init", "registry", "--publisher", "acme", "--url", "https://skills.example")
    assert made.status == 0
    done = shell.run("publish", "greeting", "--to", address, "--registry", "registry", "--yes")
    line = f"skillhub install {address} --skill greeting"
    assert done.status == 0 and done.err.endswith(f"to install from it: {line}\n")
    key = PrivateKey.load((shell.project / "registry/keys/publishers/acme.pem").read_bytes())
    (shell.project / "acme.pub.pem").write_bytes(key.public.pem)
    assert shell.run("publisher", "trust", "acme", "--key", "acme.pub.pem").status == 0
    assert shell.run(*line.split()[1:], "--yes").status == 0


def test_a_dry_run_of_a_push_to_oci_writes_nothing(hub, address):
    assert len(pushed(hub, address, dry_run=True).written) > 10
    with pytest.raises(urllib.error.HTTPError):
        manifest(address)


def test_an_old_copy_and_another_registry_are_refused(hub, address, tmp_path):
    (tmp_path / "stale").mkdir()
    stale = hub.copy(tmp_path / "stale")
    hub.publish(version="1.1.0")
    pushed(hub, address)
    before = manifest(address)
    with pytest.raises(Rollback):
        pushed(stale, address)
    (tmp_path / "other").mkdir()
    with pytest.raises(Refused):
        pushed(Simulator(tmp_path / "other", label="other"), address)
    assert manifest(address) == before


def test_a_concurrent_writer_loses_nothing(hub, address, tmp_path):
    pushed(hub, address)
    hub.publish(version="1.1.0")
    (tmp_path / "late").mkdir()
    late = hub.copy(tmp_path / "late")
    late.publish(version="1.2.0")

    class Overtaken(push_oci.OciTarget):
        def publish(self, *given):
            pushed(late, address)
            super().publish(*given)

    target = Overtaken(push_oci.open_target(address, no_other_host)._client, "v1", address, no_other_host)
    with pytest.raises(StateError, match="another writer"):
        pushed(hub, address, lambda _: target)
    assert pulled(address)[TIMESTAMP] == late.files[TIMESTAMP]


def test_an_image_under_the_tag_is_not_overwritten(hub, address):
    pushed(hub, address)
    found = manifest(address)
    image = {**found, "layers": found["layers"][:1]}
    del image["artifactType"]
    put_manifest(address, image)
    with pytest.raises(StateError, match="another artifact"):
        pushed(hub, address)
    assert manifest(address) == image


@pytest.mark.parametrize(
    "other",
    [
        {"artifactType": "application/vnd.example", "blobs": []},
        {"fsLayers": [], "name": "x", "schemaVersion": 1},
        {"manifests": []},
        {"config": {}, "layers": [{}]},
        [],
    ],
)
def test_a_foreign_artifact_under_the_tag_is_refused_with_a_hint(hub, other):
    with pytest.raises(StateError, match="another artifact") as caught:
        push_oci._layers(json.dumps(other).encode(), "oci://example/x:v1")
    assert caught.value.hint == "publish under another tag"


@pytest.mark.parametrize("layer", [{"annotations": {}}, {"digest": "sha256:no"}, {"annotations": None}])
def test_an_invalid_layer_at_the_target_is_refused(hub, layer):
    where = "oci://example/x:v1"
    blob = {"digest": Digest.of(b""), "size": 0, "annotations": {"org.opencontainers.image.title": "a"}}
    site = {"artifactType": REGISTRY_SITE, "config": {"digest": Digest.of(b""), "size": 0}}
    assert set(push_oci._layers(json.dumps({**site, "layers": [blob]}).encode(), where)) == {"a"}
    text = json.dumps({**site, "layers": [{**blob, **layer}]})
    with pytest.raises(FormatError):
        push_oci._layers(text.encode(), where)


@pytest.mark.parametrize(
    "address",
    [
        "oci://",
        "oci://host",
        "oci://host/UPPER",
        "oci://host/a/../b",
        "oci://u:p@host/x",
        "oci://host/x@sha256:" + "0" * 64,
        "oci://host/x?y",
        "oci://host/x:" + "y" * 129,
    ],
)
def test_an_invalid_address_is_refused(hub, address):
    with pytest.raises(UsageError):
        pushed(hub, address)


def test_a_password_is_not_sent_over_plain_http(hub, monkeypatch, tmp_path):
    monkeypatch.setenv("SKILLHUB_OCI_USERNAME", "me")
    monkeypatch.setenv("SKILLHUB_OCI_PASSWORD", "secret")
    with Web() as web:
        web.at("/v2/x/manifests/v1", answer(b"", 'WWW-Authenticate: Basic realm="x"', status="401 No"))
        with pytest.raises(SourceError, match="no password"):
            pushed(hub, f"oci://127.0.0.1:{web.port}/x:v1")
        assert not any("authorization" in head.lower() for head in web.heads)


def test_the_login_of_docker_is_used(monkeypatch, tmp_path):
    for name in ("USERNAME", "PASSWORD"):
        monkeypatch.delenv(f"SKILLHUB_OCI_{name}", raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    assert push_oci._credentials("host") is None
    config = tmp_path / "config.json"
    config.write_text('{"auths": {"host": {"auth": "bWU6c2VjOnJldA=="}, "bad": {"auth": "%"}, "none": {}}}')
    assert push_oci._credentials("host") == ("me", "sec:ret")
    assert push_oci._credentials("none") is None
    assert push_oci._credentials("other") is None
    with pytest.raises(FormatError) as caught:
        push_oci._credentials("bad")
    assert "%" not in str(caught.value)


def test_an_unreachable_or_broken_registry_is_reported(hub):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(SourceError, match="cannot reach"):
        pushed(hub, f"oci://127.0.0.1:{port}/x:v1")
    with Web() as web:
        web.at("/v2/x/manifests/v1", answer(b"", status="500 Broken"))
        with pytest.raises(SourceError, match="500"):
            pushed(hub, f"oci://127.0.0.1:{web.port}/x:v1")
        web.at("/v2/x/manifests/v1", answer(b"<html>"))
        with pytest.raises(FormatError):
            pushed(hub, f"oci://127.0.0.1:{web.port}/x:v1")
    assert os.path.isdir(hub.dir.site)


def test_attack_an_endless_manifest_is_refused(hub):
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"
    with Web() as web:
        web.at("/v2/acme/x/manifests/v1", endless(head, b" " * (1 << 16)))
        with pytest.raises(FormatError, match="at most 4194304 bytes"):
            push_oci.open_target(f"oci://127.0.0.1:{web.port}/acme/x:v1", no_other_host)

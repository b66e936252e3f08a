"""Pulling a skill from an OCI registry: three layouts, every digest, the recipients of credentials."""

import base64
import contextlib
import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillhub.archive.unpack import pack
from skillhub.errors import (
    FormatError,
    NotFound,
    SkillhubError,
    SourceError,
    UnsafeArchive,
    UnsafeTransfer,
    UsageError,
    WrongBytes,
)
from skillhub.formats.digest import Digest
from skillhub.model.discovery import SCHEMA
from skillhub.model.index import Release
from skillhub.model.reference import parse_ref
from skillhub.model.tree import File, Tree
from skillhub.net.client import Http, Patience
from skillhub.net.settings import Settings
from skillhub.sources.oci import Artifact, Blob, is_login_host, kept_login, read_image
from tests.support import oci
from tests.support.docker_registry import put, registry
from tests.support.effort import at_most
from tests.support.snapshot import skill
from tests.support.web import Web, answer, redirect

NAME = "acme/hello"
FILES = {"SKILL.md": skill("hello").encode(), "scripts/run.sh": b"#!/bin/sh\n"}
ONCE = Patience(pauses=())


def no_other_host(url):
    return False


@pytest.fixture
def opened(web, tmp_path):
    """Return a function that opens ``:v1`` of the server or the given tail; logins are stored in ``tmp_path``."""
    with Http(patience=ONCE) as http:
        yield lambda tail=":v1", trusts=no_other_host: Artifact(
            parse_ref(f"oci://127.0.0.1:{web.port}/{NAME}{tail}"), http, {"DOCKER_CONFIG": str(tmp_path)}, trusts
        )


def serve(web, artifact, tag="v1"):
    web.at(f"/v2/{NAME}/manifests/{tag}", answer(artifact.manifest))
    for digest, data in {artifact.digest: artifact.manifest, **artifact.below}.items():
        web.at(f"/v2/{NAME}/manifests/{digest}", answer(data))
    for digest, data in artifact.blobs.items():
        web.at(f"/v2/{NAME}/blobs/{digest}", answer(data))
    return artifact


def plain(unpacked):
    return {path: file.data for path, file in unpacked.tree.items()}


def test_layout_of_toolhive_is_read(web, opened):
    artifact = serve(web, oci.toolhive("hello", FILES))
    place = opened()
    (release,) = place.index().releases("hello")
    assert release.url == f"oci://127.0.0.1:{web.port}/{NAME}@{artifact.digest}"
    assert artifact.blobs[release.digest] == oci.tar_gz(FILES)
    assert (release.type, release.size, release.description) == (
        "archive",
        len(oci.tar_gz(FILES)),
        "What hello does.",
    )
    assert plain(place.unpacked(release)) == FILES


def test_layout_of_skr_is_read(web, opened):
    serve(web, oci.skr(FILES, ["scripts"]))
    place = opened()
    assert plain(place.unpacked(place.index().releases("hello")[0])) == FILES


def test_pushed_archive_is_read(web, opened):
    data = pack(Tree({path: File(data) for path, data in FILES.items()}))
    serve(web, oci.titled(("hello.zip", "application/octet-stream", data)))
    assert opened().index().releases("hello")[0].digest == Digest.of(data)


def test_artifact_of_a_skillhub_registry_is_read(web, opened):
    data = pack(Tree({path: File(data) for path, data in FILES.items()}))
    entry = {"name": "hello", "type": "archive", "description": "Hi.", "url": "../../x.zip"}
    gone = {**entry, "name": "gone", "digest": Digest.of(b"gone")}
    sound = {**entry, "digest": Digest.of(data), "version": "1.0.0"}
    withdrawn = {**sound, "name": "thief", "withdrawn": "sends tokens"}
    listing = {"$schema": SCHEMA, "skills": [sound, gone, withdrawn]}
    artifact = oci.titled(
        (".well-known/agent-skills/index.json", "application/json", oci.dump(listing)),
        ("skills/hello.zip", "application/zip", data),
        kind="application/vnd.skillhub.registry.v1",
    )
    serve(web, artifact)
    place = opened()
    index = place.index()
    assert (index.names, len(index.warnings)) == (("hello",), 2)
    assert "thief 1.0.0 was withdrawn: sends tokens" in index.warnings
    assert index.releases("hello")[0].version == "1.0.0"
    assert plain(place.unpacked(index.releases("hello")[0])) == FILES


def test_attack_warnings_about_skills_that_the_artifact_lacks_are_limited(web, opened):
    rows = [
        {"name": f"s{number}", "type": "archive", "description": "d", "url": "x.zip", "digest": Digest.of(b"gone")}
        for number in range(1_000)
    ]
    listing = oci.dump({"$schema": SCHEMA, "skills": rows})
    title = ".well-known/agent-skills/index.json"
    serve(web, oci.titled((title, "application/json", listing), kind="application/vnd.skillhub.registry.v1"))
    assert len(opened().index().warnings) == 21


def test_locked_release_is_pulled_by_digest_after_its_tag_moved(web, opened):
    before = serve(web, oci.skr(FILES))
    (release,) = opened().index().releases("hello")
    serve(web, oci.skr({"SKILL.md": skill("other").encode()}))
    locked = Release(name="hello", url=release.url, digest=release.digest)
    web.seen.clear()
    assert plain(opened().unpacked(locked)) == FILES
    assert list(web.seen) == [f"/v2/{NAME}/manifests/{before.digest}", f"/v2/{NAME}/blobs/{release.digest}"]


def test_reference_by_digest_equals_the_tag_latest(web, opened):
    artifact = serve(web, oci.skr(FILES), tag="latest")
    assert opened("").index() == opened(f"@{artifact.digest}").index()


def test_missing_tag_and_refused_access_are_reported(web, opened):
    with pytest.raises(NotFound):
        opened().index()
    web.at(f"/v2/{NAME}/manifests/v1", answer(b"", status="403 Forbidden"))
    with pytest.raises(SourceError, match="refuses access") as caught:
        opened().index()
    assert "log in" in caught.value.hint


def test_attack_a_manifest_with_another_digest_is_refused(web, opened):
    artifact = serve(web, oci.skr(FILES))
    web.at(f"/v2/{NAME}/manifests/{artifact.digest}", answer(oci.skr({"SKILL.md": b"x"}).manifest))
    with pytest.raises(WrongBytes):
        opened(f"@{artifact.digest}").index()


def test_attack_a_swapped_manifest_of_an_index_is_refused(web, opened):
    artifact = serve(web, oci.toolhive("hello", FILES))
    first, second = artifact.below
    web.at(f"/v2/{NAME}/manifests/{first}", answer(artifact.below[second]))
    with pytest.raises(WrongBytes):
        opened().index()


@pytest.mark.parametrize("which", [0, 1])
def test_attack_a_forged_layer_or_configuration_is_refused(web, opened, which):
    artifact = serve(web, oci.skr(FILES))
    digest = list(artifact.blobs)[which]
    for forged in (bytes(len(artifact.blobs[digest])), artifact.blobs[digest] + b"x", b""):
        web.at(f"/v2/{NAME}/blobs/{digest}", answer(forged))
        with pytest.raises(WrongBytes):
            opened().index()


def test_attack_a_lock_with_another_repository_or_layer_is_refused(web, opened):
    artifact = serve(web, oci.skr(FILES))
    (release,) = opened().index().releases("hello")
    for url in (release.url.replace("hello", "other"), f"oci://127.0.0.1:{web.port}/{NAME}:v1", "https://x/y"):
        with pytest.raises(UsageError):
            opened().unpacked(replace(release, url=url))
    with pytest.raises(WrongBytes):
        opened().unpacked(replace(release, digest=Digest(artifact.digest)))


def test_attack_a_layer_with_unsafe_paths_is_refused(web, opened):
    serve(web, oci.skr({"../x": b"", **FILES}))
    with pytest.raises(UnsafeArchive):
        opened().index()


def test_attack_a_layer_above_the_size_limit_is_not_fetched(web, opened):
    artifact = oci.skr(FILES)
    document = json.loads(artifact.manifest)
    document["layers"][0]["size"] = 1 << 33
    artifact.manifest = oci.dump(document)
    serve(web, artifact)
    with pytest.raises(UnsafeArchive) as caught:
        opened().index()
    assert caught.value.reason == "too-large"
    assert f"/v2/{NAME}/blobs/{document['layers'][0]['digest']}" not in web.seen


@pytest.mark.parametrize(
    "artifact",
    [
        oci.titled(),
        oci.titled(("a.zip", "x/y", b"1"), ("b.zip", "x/y", b"2")),
        oci.titled(("SKILL.md", "text/markdown", b"x")),
        replace(oci.Artifact(), manifest=b"{}"),
        replace(oci.Artifact(), manifest=b'{"manifests": []}'),
        replace(oci.Artifact(), manifest=b"<html>"),
    ],
)
def test_unknown_layout_is_refused(web, opened, artifact):
    with pytest.raises(FormatError):
        serve(web, artifact)
        opened().index()


def test_attack_a_manifest_with_layers_and_manifests_is_refused(web, opened):
    artifact = oci.skr(FILES)
    below = {"mediaType": oci.MANIFEST, "digest": artifact.digest, "size": len(artifact.manifest)}
    both = json.loads(artifact.manifest) | {"manifests": [below]}
    serve(web, replace(artifact, manifest=oci.dump(both), below={artifact.digest: artifact.manifest}))
    with pytest.raises(FormatError, match="expected layers or manifests, found both"):
        opened().index()


@pytest.mark.parametrize("part", ["layers", "config"])
def test_attack_a_descriptor_with_another_size_is_refused(web, opened, part):
    artifact = oci.skr(FILES)
    document = json.loads(artifact.manifest)
    blob = document[part][0] if part == "layers" else document[part]
    blob["size"] += 1
    serve(web, replace(artifact, manifest=oci.dump(document)))
    with pytest.raises(WrongBytes, match=f"expected {blob['size']} bytes"):
        opened().index()


def test_nested_index_is_refused(web, opened):
    inner = oci.toolhive("hello", FILES)
    found = {"mediaType": oci.INDEX, "digest": inner.digest, "size": len(inner.manifest)}
    outer = oci.Artifact(oci.dump({"manifests": [found]}), {inner.digest: inner.manifest, **inner.below})
    serve(web, outer)
    with pytest.raises(FormatError, match="index in an index"):
        opened().index()


def guarded(web, artifact, challenge, wanted):
    """Serve ``artifact`` to requests with the authorization ``wanted``, else answer with the challenge."""
    serve(web, artifact)
    for path, act in list(web.acts.items()):

        def guard(connection, act=act):
            heads = web.heads[-1].lower()
            ask = answer(b"", f"WWW-Authenticate: {challenge}", status="401 Unauthorized")
            (act if f"authorization: {wanted}".lower() in heads else ask)(connection)

        web.at(path, guard)


def test_anonymous_token_is_fetched_on_a_challenge(web, opened):
    challenge = f'Bearer realm="{web.url("/token")}",service="reg",scope="repository:other:push"'
    guarded(web, oci.skr(FILES), challenge, "Bearer t0ken")
    web.at("/token?service=reg&scope=repository%3Aacme%2Fhello%3Apull", answer(b'{"token": "t0ken"}'))
    assert opened().index().names == ("hello",)
    assert not any("basic" in head.lower() for head in web.heads)
    assert len([path for path in web.seen if path.startswith("/token")]) == 1


def test_login_is_sent_only_to_its_registry(web, opened, tmp_path):
    packed = base64.b64encode(b"me:secret").decode()
    (tmp_path / "config.json").write_text(json.dumps({"auths": {f"127.0.0.1:{web.port}": {"auth": packed}}}))
    guarded(web, oci.skr(FILES), 'Basic realm="x"', f"Basic {packed}")
    with Web() as other:
        artifact = oci.skr(FILES)
        blob = next(iter(artifact.blobs))
        elsewhere = other.at("/blob", answer(artifact.blobs[blob]))
        web.at(f"/v2/{NAME}/blobs/{blob}", redirect(elsewhere))
        with pytest.raises(UnsafeTransfer):
            opened().index()
        assert other.heads == []
    (tmp_path / "config.json").write_text(json.dumps({"auths": {"registry.example": {"auth": packed}}}))
    with pytest.raises(SourceError, match="refuses access"):
        opened().index()


def test_missing_home_means_no_login(web, opened, monkeypatch):
    monkeypatch.delenv("DOCKER_CONFIG", raising=False)
    monkeypatch.setenv("HOME", "")
    guarded(web, oci.skr(FILES), f'Bearer realm="{web.url("/token")}"', "Bearer t0ken")
    web.at("/token?scope=repository%3Aacme%2Fhello%3Apull", answer(b'{"token": "t0ken"}'))
    assert kept_login(f"127.0.0.1:{web.port}", {}) is None
    assert opened().index().names == ("hello",)


def test_attack_a_login_is_not_sent_to_the_realm_on_another_host(web, opened, tmp_path):
    packed = base64.b64encode(b"me:secret").decode()
    (tmp_path / "config.json").write_text(json.dumps({"auths": {f"127.0.0.1:{web.port}": {"auth": packed}}}))
    query = "?scope=repository%3Aacme%2Fhello%3Apull"
    with Web() as other:
        realm = other.at(f"/token{query}", answer(b'{"token": "t0ken"}')).partition("?")[0]
        guarded(web, oci.skr(FILES), f'Bearer realm="{realm}"', "Bearer for-the-login-alone")
        with pytest.raises(SourceError, match="refuses access") as caught:
            opened().index()
        other.at(f"/token{query}", answer(b"", status="401 No"))
        with pytest.raises(SourceError, match="needs a login") as again:
            opened().index()
    assert len(other.heads) == 2
    assert not any("authorization: basic" in head.lower() for head in other.heads + web.heads)
    for error in (caught.value, again.value):
        assert "your login was not sent" in error.hint and realm in error.hint


def test_login_is_sent_only_with_the_request_for_a_token(web, opened, tmp_path):
    packed = base64.b64encode(b"me:secret").decode()
    (tmp_path / "config.json").write_text(json.dumps({"auths": {f"127.0.0.1:{web.port}": {"auth": packed}}}))
    guarded(web, oci.skr(FILES), f'Bearer realm="{web.url("/token")}"', "Bearer t0ken")
    web.at("/token?scope=repository%3Aacme%2Fhello%3Apull", answer(b'{"token": "t0ken"}'))
    assert opened().index().names == ("hello",)
    assert [head.split()[1] for head in web.heads if f"Basic {packed}" in head] == [
        "/token?scope=repository%3Aacme%2Fhello%3Apull"
    ]


@pytest.mark.parametrize(
    ("registry", "realm", "is_allowed"),
    [
        ("https://registry-1.docker.io/v2/", "https://auth.docker.io/token", True),
        ("https://registry.gitlab.com/v2/", "https://gitlab.com/jwt/auth", True),
        ("https://ghcr.io/v2/", "https://ghcr.io:443/token", True),
        ("https://registry.example/v2/", "https://auth.docker.io/token", False),
        ("https://registry-1.docker.io/v2/", "https://auth.docker.io.example/token", False),
        ("https://registry-1.docker.io/v2/", "http://auth.docker.io/token", False),
        ("https://registry-1.docker.io:8443/v2/", "https://auth.docker.io/token", False),
        ("https://registry.example/v2/", "https://registry.example:8443/token", False),
    ],
)
def test_hosts_that_may_get_a_login(registry, realm, is_allowed):
    assert is_login_host(registry, realm) is is_allowed


@pytest.mark.parametrize("is_trusted", [False, True])
def test_a_login_is_sent_to_the_realm_on_a_host_that_the_user_trusts(is_trusted, web, opened, tmp_path):
    packed = base64.b64encode(b"me:secret").decode()
    (tmp_path / "config.json").write_text(json.dumps({"auths": {f"127.0.0.1:{web.port}": {"auth": packed}}}))
    with Web() as other:
        realm = other.at("/token?scope=repository%3Aacme%2Fhello%3Apull", answer(b'{"token": "t0ken"}'))
        guarded(web, oci.skr(FILES), f'Bearer realm="{realm.partition("?")[0]}"', "Bearer t0ken")
        trusted = f"127.0.0.1:{other.port if is_trusted else web.port}"
        settings = Settings.parse(f'trusted-hosts = ["{trusted}"]'.encode(), "config.toml")
        assert opened(trusts=settings.trusts).index().names == ("hello",)
    assert [f"authorization: basic {packed}".lower() in head.lower() for head in other.heads] == [is_trusted]


@pytest.mark.parametrize(
    ("challenge", "error"),
    [
        ("", SourceError),
        ("Negotiate", SourceError),
        ("Bearer", UnsafeTransfer),
        ('Bearer realm="file:///etc/x"', UnsafeTransfer),
        ('Bearer realm="http://registry.example/token"', UnsafeTransfer),
        pytest.param(f"Bearer {'a' * 60_000}", UnsafeTransfer, id="long"),
    ],
)
def test_attack_an_unsafe_challenge_is_refused(web, opened, challenge, error):
    web.at(f"/v2/{NAME}/manifests/v1", answer(b"", f"WWW-Authenticate: {challenge}", status="401 No"))
    with at_most(5), pytest.raises(error):
        opened().index()


@pytest.mark.parametrize("body", [b"{}", b'{"token": "a\\nb"}', b'{"token": 1}', b"<html>"])
def test_invalid_token_is_refused(web, opened, body):
    realm = web.at("/token?scope=repository%3Aacme%2Fhello%3Apull", answer(body)).partition("?")[0]
    web.at(f"/v2/{NAME}/manifests/v1", answer(b"", f'WWW-Authenticate: Bearer realm="{realm}"', status="401 No"))
    with pytest.raises(FormatError):
        opened().index()


BLOB = {"digest": "sha256:" + "0" * 64, "size": 1, "mediaType": "application/gzip"}
MANIFEST = {"config": BLOB, "layers": [BLOB]}


@pytest.mark.parametrize("value", [None, [], {}, True])
@pytest.mark.parametrize("key", ["artifactType", "mediaType"])
def test_attack_an_invalid_type_is_refused(key, value):
    layer = {**BLOB, key: value} if key == "mediaType" else BLOB
    manifest = {**MANIFEST, "layers": [layer], **({key: value} if key == "artifactType" else {})}
    with pytest.raises(FormatError) as caught:
        read_image(json.dumps(manifest).encode(), "x")
    assert caught.value.where.endswith(key)


@pytest.mark.parametrize("size", [-1, 1.0, "1", True, None, 1 << 40])
def test_attack_an_invalid_size_is_refused(size):
    with pytest.raises(FormatError):
        read_image(json.dumps({**MANIFEST, "config": {**BLOB, "size": size}}).encode(), "x")


def test_invalid_annotation_is_ignored_with_a_warning():
    found = read_image(json.dumps({**MANIFEST, "annotations": {"a": []}, "more": 1}).encode(), "x")
    assert found.warnings() == ("annotations.a: expected a text, found '[]'; ignored",)
    assert found.layers[0].annotations == {}


@settings(max_examples=60)
@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=6) | st.just("sha256:" + "0" * 64),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["config", "layers", "manifests", "digest", "size", "annotations"]), inner
            )
        ),
        max_leaves=12,
    )
)
def test_any_manifest_raises_only_errors_of_skillhub(value):
    with contextlib.suppress(SkillhubError):
        found = read_image(json.dumps(value).encode(), "x")
        assert isinstance(found, Blob) or found.skill("x")


def test_skills_are_pulled_from_the_registry_of_debian(tmp_path):
    (tmp_path / "registry").mkdir()
    with registry(tmp_path / "registry") as host, Http() as http:
        for tag, artifact in (("thv", oci.toolhive("hello", FILES)), ("skr", oci.skr(FILES, ["scripts"]))):
            for digest, manifest in artifact.below.items():
                put(host, NAME, digest, artifact.blobs, manifest)
            put(host, NAME, tag, artifact.blobs, artifact.manifest)
            ref = parse_ref(f"oci://{host}/{NAME}:{tag}")
            place = Artifact(ref, http, {"DOCKER_CONFIG": str(tmp_path)}, no_other_host)
            (release,) = place.index().releases("hello")
            assert release.url == f"oci://{host}/{NAME}@{artifact.digest}"
            again = Artifact(ref, http, {}, no_other_host)
            assert plain(again.unpacked(release)) == FILES

"""Pulling a skill from an OCI registry: three layouts, every digest, who is told what."""

import base64
import contextlib
import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillhub.archive import pack
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
from skillhub.sources.oci import Artifact, Blob, kept_login, may_send_login, read_image
from tests.support import oci
from tests.support.docker_registry import put, registry
from tests.support.snapshot import skill
from tests.support.web import Web, answer, redirect

NAME = "acme/hello"
FILES = {"SKILL.md": skill("hello").encode(), "scripts/run.sh": b"#!/bin/sh\n"}
ONCE = Patience(pauses=())


@pytest.fixture
def opened(web, tmp_path):
    """Opens ``:v1`` of the server, or what is named; logins are kept in ``tmp_path``."""
    with Http(patience=ONCE) as http:
        yield lambda tail=":v1": Artifact(
            parse_ref(f"oci://127.0.0.1:{web.port}/{NAME}{tail}"), http, {"DOCKER_CONFIG": str(tmp_path)}
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


def test_as_toolhive_lays_it_out(web, opened):
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


def test_as_skr_lays_it_out(web, opened):
    serve(web, oci.skr(FILES, ["scripts"]))
    place = opened()
    assert plain(place.unpacked(place.index().releases("hello")[0])) == FILES


def test_as_anybody_pushes_an_archive(web, opened):
    data = pack(Tree({path: File(data) for path, data in FILES.items()}))
    serve(web, oci.titled(("hello.zip", "application/octet-stream", data)))
    assert opened().index().releases("hello")[0].digest == Digest.of(data)


def test_as_we_publish_a_registry(web, opened):
    data = pack(Tree({path: File(data) for path, data in FILES.items()}))
    entry = {"name": "hello", "type": "archive", "description": "Hi.", "url": "../../x.zip"}
    gone = {**entry, "name": "gone", "digest": Digest.of(b"gone")}
    listing = {"$schema": SCHEMA, "skills": [{**entry, "digest": Digest.of(data), "version": "1.0.0"}, gone]}
    artifact = oci.titled(
        (".well-known/agent-skills/index.json", "application/json", oci.dump(listing)),
        ("skills/hello.zip", "application/zip", data),
        kind="application/vnd.skillhub.registry.v1",
    )
    serve(web, artifact)
    place = opened()
    index = place.index()
    assert (index.names, len(index.warnings)) == (("hello",), 1)
    assert index.releases("hello")[0].version == "1.0.0"
    assert plain(place.unpacked(index.releases("hello")[0])) == FILES


def test_what_a_lock_spells_is_had_wherever_the_tag_is_by_now(web, opened):
    before = serve(web, oci.skr(FILES))
    (release,) = opened().index().releases("hello")
    serve(web, oci.skr({"SKILL.md": skill("other").encode()}))
    locked = Release(name="hello", url=release.url, digest=release.digest)
    web.seen.clear()
    assert plain(opened().unpacked(locked)) == FILES
    assert list(web.seen) == [f"/v2/{NAME}/manifests/{before.digest}", f"/v2/{NAME}/blobs/{release.digest}"]


def test_by_digest_and_without_a_tag(web, opened):
    artifact = serve(web, oci.skr(FILES), tag="latest")
    assert opened("").index() == opened(f"@{artifact.digest}").index()


def test_what_is_not_there_and_who_is_not_let_in(web, opened):
    with pytest.raises(NotFound):
        opened().index()
    web.at(f"/v2/{NAME}/manifests/v1", answer(b"", status="403 Forbidden"))
    with pytest.raises(SourceError, match="refuses access") as caught:
        opened().index()
    assert "log in" in caught.value.hint


def test_attack_another_manifest_than_the_one_asked_for(web, opened):
    artifact = serve(web, oci.skr(FILES))
    web.at(f"/v2/{NAME}/manifests/{artifact.digest}", answer(oci.skr({"SKILL.md": b"x"}).manifest))
    with pytest.raises(WrongBytes):
        opened(f"@{artifact.digest}").index()


def test_attack_another_platform_s_manifest_in_an_index(web, opened):
    artifact = serve(web, oci.toolhive("hello", FILES))
    first, second = artifact.below
    web.at(f"/v2/{NAME}/manifests/{first}", answer(artifact.below[second]))
    with pytest.raises(WrongBytes):
        opened().index()


@pytest.mark.parametrize("which", [0, 1])
def test_attack_another_layer_or_configuration(web, opened, which):
    artifact = serve(web, oci.skr(FILES))
    digest = list(artifact.blobs)[which]
    for forged in (bytes(len(artifact.blobs[digest])), artifact.blobs[digest] + b"x", b""):
        web.at(f"/v2/{NAME}/blobs/{digest}", answer(forged))
        with pytest.raises(WrongBytes):
            opened().index()


def test_attack_a_lock_that_names_another_repository_or_layer(web, opened):
    artifact = serve(web, oci.skr(FILES))
    (release,) = opened().index().releases("hello")
    for url in (release.url.replace("hello", "other"), f"oci://127.0.0.1:{web.port}/{NAME}:v1", "https://x/y"):
        with pytest.raises(UsageError):
            opened().unpacked(replace(release, url=url))
    with pytest.raises(WrongBytes):
        opened().unpacked(replace(release, digest=Digest(artifact.digest)))


def test_attack_a_layer_that_is_no_honest_archive(web, opened):
    serve(web, oci.skr({"../x": b"", **FILES}))
    with pytest.raises(UnsafeArchive):
        opened().index()


def test_attack_a_layer_as_large_as_no_skill_is(web, opened):
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
def test_what_is_laid_out_as_no_skill(web, opened, artifact):
    with pytest.raises(FormatError):
        serve(web, artifact)
        opened().index()


def test_an_index_in_an_index_is_not_followed(web, opened):
    inner = oci.toolhive("hello", FILES)
    found = {"mediaType": oci.INDEX, "digest": inner.digest, "size": len(inner.manifest)}
    outer = oci.Artifact(oci.dump({"manifests": [found]}), {inner.digest: inner.manifest, **inner.below})
    serve(web, outer)
    with pytest.raises(FormatError, match="index in an index"):
        opened().index()


def guarded(web, artifact, challenge, wanted):
    """Serve what is behind a question of who asks."""
    serve(web, artifact)
    for path, act in list(web.acts.items()):

        def guard(connection, act=act):
            heads = web.heads[-1].lower()
            ask = answer(b"", f"WWW-Authenticate: {challenge}", status="401 Unauthorized")
            (act if f"authorization: {wanted}".lower() in heads else ask)(connection)

        web.at(path, guard)


def test_a_token_is_fetched_for_whoever_asks(web, opened):
    challenge = f'Bearer realm="{web.url("/token")}",service="reg",scope="repository:other:push"'
    guarded(web, oci.skr(FILES), challenge, "Bearer t0ken")
    web.at("/token?service=reg&scope=repository%3Aacme%2Fhello%3Apull", answer(b'{"token": "t0ken"}'))
    assert opened().index().names == ("hello",)
    assert not any("basic" in head.lower() for head in web.heads)
    assert len([path for path in web.seen if path.startswith("/token")]) == 1


def test_a_login_is_told_to_its_own_registry_alone(web, opened, tmp_path):
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


def test_who_has_no_home_is_not_logged_in(web, opened, monkeypatch):
    monkeypatch.delenv("DOCKER_CONFIG", raising=False)
    monkeypatch.setenv("HOME", "")
    guarded(web, oci.skr(FILES), f'Bearer realm="{web.url("/token")}"', "Bearer t0ken")
    web.at("/token?scope=repository%3Aacme%2Fhello%3Apull", answer(b'{"token": "t0ken"}'))
    assert kept_login(f"127.0.0.1:{web.port}", {}) is None
    assert opened().index().names == ("hello",)


def test_attack_a_login_is_wanted_on_another_host(web, opened, tmp_path):
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


def test_a_login_is_told_to_the_host_itself_for_a_token(web, opened, tmp_path):
    packed = base64.b64encode(b"me:secret").decode()
    (tmp_path / "config.json").write_text(json.dumps({"auths": {f"127.0.0.1:{web.port}": {"auth": packed}}}))
    guarded(web, oci.skr(FILES), f'Bearer realm="{web.url("/token")}"', "Bearer t0ken")
    web.at("/token?scope=repository%3Aacme%2Fhello%3Apull", answer(b'{"token": "t0ken"}'))
    assert opened().index().names == ("hello",)
    assert [head.split()[1] for head in web.heads if f"Basic {packed}" in head] == [
        "/token?scope=repository%3Aacme%2Fhello%3Apull"
    ]


@pytest.mark.parametrize(
    ("registry", "asker", "is_allowed"),
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
def test_the_hosts_that_a_login_may_be_sent_to(registry, asker, is_allowed):
    assert may_send_login(registry, asker) is is_allowed


@pytest.mark.parametrize(
    ("challenge", "error"),
    [
        ("", SourceError),
        ("Negotiate", SourceError),
        ("Bearer", UnsafeTransfer),
        ('Bearer realm="file:///etc/x"', UnsafeTransfer),
        ('Bearer realm="http://registry.example/token"', UnsafeTransfer),
    ],
)
def test_attack_a_challenge_that_leads_astray(web, opened, challenge, error):
    web.at(f"/v2/{NAME}/manifests/v1", answer(b"", f"WWW-Authenticate: {challenge}", status="401 No"))
    with pytest.raises(error):
        opened().index()


@pytest.mark.parametrize("said", [b"{}", b'{"token": "a\\nb"}', b'{"token": 1}', b"<html>"])
def test_a_token_that_is_none(web, opened, said):
    realm = web.at("/token?scope=repository%3Aacme%2Fhello%3Apull", answer(said)).partition("?")[0]
    web.at(f"/v2/{NAME}/manifests/v1", answer(b"", f'WWW-Authenticate: Bearer realm="{realm}"', status="401 No"))
    with pytest.raises(FormatError):
        opened().index()


BLOB = {"digest": "sha256:" + "0" * 64, "size": 1, "mediaType": "application/gzip"}
MANIFEST = {"config": BLOB, "layers": [BLOB]}


@pytest.mark.parametrize("value", [None, [], {}, True])
@pytest.mark.parametrize("key", ["artifactType", "mediaType"])
def test_attack_a_type_that_is_none_is_not_passed_over(key, value):
    layer = {**BLOB, key: value} if key == "mediaType" else BLOB
    manifest = {**MANIFEST, "layers": [layer], **({key: value} if key == "artifactType" else {})}
    with pytest.raises(FormatError) as caught:
        read_image(json.dumps(manifest).encode(), "x")
    assert caught.value.where.endswith(key)


@pytest.mark.parametrize("size", [-1, 1.0, "1", True, None, 1 << 40])
def test_attack_a_size_that_is_none(size):
    with pytest.raises(FormatError):
        read_image(json.dumps({**MANIFEST, "config": {**BLOB, "size": size}}).encode(), "x")


def test_annotations_that_are_none_are_left_out_with_a_warning():
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
def test_any_manifest_at_all_raises_only_our_errors(value):
    with contextlib.suppress(SkillhubError):
        found = read_image(json.dumps(value).encode(), "x")
        assert isinstance(found, Blob) or found.skill("x")


def test_from_debians_registry(tmp_path):
    (tmp_path / "registry").mkdir()
    with registry(tmp_path / "registry") as host, Http() as http:
        for tag, artifact in (("thv", oci.toolhive("hello", FILES)), ("skr", oci.skr(FILES, ["scripts"]))):
            for digest, manifest in artifact.below.items():
                put(host, NAME, digest, artifact.blobs, manifest)
            put(host, NAME, tag, artifact.blobs, artifact.manifest)
            ref = parse_ref(f"oci://{host}/{NAME}:{tag}")
            place = Artifact(ref, http, {"DOCKER_CONFIG": str(tmp_path)})
            (release,) = place.index().releases("hello")
            assert release.url == f"oci://{host}/{NAME}@{artifact.digest}"
            again = Artifact(ref, http, {})
            assert plain(again.unpacked(release)) == FILES

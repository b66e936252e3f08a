"""An OCI repository and an MCP server as sources, from ``source add`` to ``update``; honest and hostile servers."""

from __future__ import annotations

import base64
import json
from contextlib import contextmanager

import pytest

from tests.sources import test_mcp_sdk as sdk
from tests.sources.test_oci_artifact import NAME, guarded, serve
from tests.support import oci
from tests.support.docker_registry import put, registry
from tests.support.here import Here
from tests.support.skill_server import Raw, skill, skill_server
from tests.support.web import Web, answer, endless, redirect

YES = ("--yes", "--allow-unsigned", "--json")
ESCAPES = "\x1b]0;owned\x07\u202etxt\x1b[2J"


@pytest.fixture
def here(tmp_path):
    return Here(tmp_path / "machine")


@contextmanager
def debians(folder):
    """Yield Debian's registry with the skill pdf, and a function that pushes a later version."""
    with registry(folder) as host:

        def push(body):
            artifact = oci.skr({"SKILL.md": skill("pdf", body), "a.txt": b"a\n"})
            put(host, "team/pdf", "v1", artifact.blobs, artifact.manifest)

        push("Do it.")
        yield f"oci://{host}/team/pdf:v1", push


@contextmanager
def of_sdk(folder):
    """A server run by the official SDK for MCP."""
    before = dict(sdk.FILES)
    try:
        with sdk.serving(in_json=False) as url:
            yield (
                f"mcp+{url}",
                lambda body: sdk.FILES.update({"SKILL.md": skill("pdf", body, metadata={"version": 1.0})}),
            )
    finally:
        sdk.FILES.update(before)


@pytest.mark.parametrize("server", [debians, of_sdk])
def test_a_source_from_add_to_update(here, tmp_path, server):
    (tmp_path / "registry").mkdir()
    with server(tmp_path / "registry") as (ref, push):
        assert here.run("source", "add", "team", ref, "--yes").status == 0
        assert [each["name"] for each in here.run("search", "pdf", "--json").json["hits"]] == ["pdf"]
        assert here.run("show", "team:pdf", "--json").json["description"] == "What pdf does."
        assert "Do it." in here.run("show", "team:pdf", "--file", "SKILL.md").out
        assert "Do it." in here.run("use", "team:pdf").out
        done = here.run("install", "team:pdf", *YES)
        assert (done.status, done.json["skills"][0]["source"]) == (0, ref)
        assert [here.run(*each).status for each in (["update", "--check"], ["verify"], ["audit"])] == [0, 0, 0]
        push("Do more.")
        assert here.run("update", "--check").status == 1
        assert here.run("update", *YES).status == 0
        assert "Do more." in (here.project / ".agents/skills/pdf/SKILL.md").read_text()
        assert here.run("install", "--frozen", *YES).json["changed"] is False
    done = here.run("source", "refresh", "team", "--json")
    assert (done.status, done.error["code"]) == (3, "source")
    assert here.run("search", "pdf").status == 0  # the listing is kept


def changed(artifact, **more):
    artifact.manifest = oci.dump({**json.loads(artifact.manifest), **more})
    return artifact


def test_attack_a_hostile_registry_of_artifacts_is_refused(here):
    """Each lie meets ``source add``, then ``source refresh`` and ``search`` of a source that was honest before."""
    sound = oci.skr({"SKILL.md": skill("pdf")})
    blob = next(iter(sound.blobs))
    huge = {"layers": [{"mediaType": oci.SKR_LAYER, "digest": blob, "size": 1 << 39}]}
    manifest, blobs = f"/v2/{NAME}/manifests/v1", f"/v2/{NAME}/blobs/"
    lies = {
        "other bytes": lambda web: web.at(f"{blobs}{blob}", answer(b"x" * len(sound.blobs[blob]))),
        "more bytes": lambda web: web.at(f"{blobs}{blob}", answer(sound.blobs[blob] + b"x")),
        "a huge layer": lambda web: serve(web, changed(oci.skr({"SKILL.md": skill("pdf")}), **huge)),
        "bytes without end": lambda web: web.at(manifest, endless(b"HTTP/1.1 200 OK\r\n\r\n", b"[" * 65536)),
        "a size that is a lie": lambda web: web.at(manifest, answer(b"{}", length=1 << 40)),
        "elsewhere": lambda web: web.at(manifest, redirect("http://169.254.169.254/latest/meta-data")),
        "a file": lambda web: web.at(manifest, redirect("file:///etc/passwd")),
        "round and round": lambda web: web.at(manifest, redirect(manifest)),
        "no archive": lambda web: serve(web, oci.titled(("x.tar.gz", oci.IMAGE_LAYER, b"no"))),
        "out of its folder": lambda web: serve(web, oci.skr({"SKILL.md": skill("pdf"), "../../x": b""})),
        "no manifest": lambda web: web.at(manifest, answer(f'"{ESCAPES}"'.encode())),
    }
    for lie, tell in lies.items():
        with Web() as web:
            serve(web, sound)
            ref = f"oci://127.0.0.1:{web.port}/{NAME}:v1"
            assert here.run("source", "add", "sound", ref, "--yes").status == 0
            tell(web)
            for words in (["source", "add", "bad", ref, "--yes"], ["source", "refresh", "sound"]):
                done = here.run(*words)
                assert done.status in (3, 4, 5, 6), (lie, words, done.out, done.err)
                assert not {*"\x1b\x07\u202e"} & {*(done.out + done.err)}, lie
            assert "bad" not in here.run("source", "list").out, lie
            assert [each["name"] for each in here.run("search", "pdf", "--json").json["hits"]] == ["pdf"], lie
            assert here.run("source", "remove", "sound").status == 0


def test_attack_the_login_of_a_host_is_not_sent_to_another(here):
    """A challenge and a blob lead to another host; the login stays with the first one."""
    packed = base64.b64encode(b"me:hunter2").decode()
    with Web() as web, Web() as thief:
        here.write("docker/config.json", json.dumps({"auths": {f"127.0.0.1:{web.port}": {"auth": packed}}}))
        environ = {"DOCKER_CONFIG": str(here.folder / "docker")}
        ref, artifact = f"oci://127.0.0.1:{web.port}/{NAME}:v1", oci.skr({"SKILL.md": skill("pdf")})
        guarded(web, artifact, f'Bearer realm="{thief.url("/token")}"', "Bearer t0ken")
        assert here.run("source", "add", "team", ref, "--yes", **environ).status == 3
        guarded(web, artifact, 'Basic realm="x"', f"Basic {packed}")
        assert here.run("source", "add", "team", ref, "--yes", **environ).status == 0
        for blob, data in artifact.blobs.items():
            thief.at("/blob", answer(data))
            web.at(f"/v2/{NAME}/blobs/{blob}", redirect(thief.url("/blob")))
        for words in (["source", "refresh", "team"], ["install", "team:pdf", *YES]):
            done = here.run(*words, **environ)
            assert done.status == 5 and "hunter2" not in done.out + done.err
        assert not [head for head in thief.heads if "authorization" in head.lower()]


def test_attack_a_hostile_mcp_server_is_refused(here):
    with skill_server() as server:
        server.add("pdf", "skill://acme/pdf", {"a.txt": b"a\n"})
        assert here.run("source", "add", "corp", server.ref, "--yes").status == 0
        rows = {
            "elsewhere": Raw(status=307, headers={"Location": "http://169.254.169.254/"}),
            "endless": Raw(b"[" * 65536, is_endless=True),
            "no JSON": Raw(ESCAPES.encode()),
            "unauthorized": Raw(status=401, headers={"WWW-Authenticate": f'Bearer realm="{"x" * 5000}"'}),
            "not a list": {"skills": {"a": 1}},
            "invalid name": {"skills": [{"uri": "skill://x/SKILL.md", "frontmatter": {"name": ESCAPES}}]},
        }
        for lie, listed in rows.items():
            server.alter = lambda method, params, result, listed=listed: listed if method == "skills/list" else result
            for words in (["source", "refresh", "corp"], ["source", "add", "bad", server.ref, "--yes"]):
                done = here.run(*words)
                assert done.status in (3, 4, 5), (lie, words, done.out, done.err)
                assert not {*"\x1b\x07\u202e"} & {*(done.out + done.err)}, lie
            assert [each["name"] for each in here.run("search", "pdf", "--json").json["hits"]] == ["pdf"], lie

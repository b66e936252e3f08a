"""A registry is pushed, served by any web server, and a source of installs."""

from __future__ import annotations

import functools
import http.server
import subprocess

import pytest

from skillhub.disk.installer import extra_command
from skillhub.formats.digest import Digest
from tests.support.absent import without
from tests.support.published import tree_of
from tests.support.serving import serving


@pytest.fixture
def shell(offered, tmp_path):
    return offered.copy(tmp_path / "twin")


@pytest.fixture
def place(shell):
    return shell.folder / "public"


def test_a_skill_is_installed_from_a_pushed_registry_on_a_plain_web_server(shell, place):
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            """Print no log."""

    done = shell.run("registry", "push", shell.folder / "registry", place, "--json")
    assert done.status == 0, done.err
    assert (done.json["target"], done.json["unchanged"]) == (str(place), 0)
    assert done.json["written"][-2:] == ["metadata/timestamp.json", "checkpoint"]
    handler = functools.partial(Quiet, directory=str(place))
    with serving(http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)) as server:
        url = f"http://127.0.0.1:{server.server_port}"
        root = Digest.of((place / "metadata/1.root.json").read_bytes())
        assert shell.run("source", "add", "acme", url, "--fingerprint", root).status == 0
        done = shell.run("install", "acme:greeting", "--yes", "--json")
        checked = shell.run("registry", "check", url, "--json")
    assert done.status == 0, done.err
    assert done.json["skills"][0]["trust"] == "signed"
    assert checked.json["ok"] is True


def test_push_reports_its_changes(shell, place):
    words = ("registry", "push", shell.folder / "registry", place)
    plan = shell.run(*words, "--dry-run")
    assert "would write" in plan.out
    assert not place.exists()
    assert f"{place} (new): published" in shell.run(*words).out
    assert "already up to date" in shell.run(*words).out
    (place / "metadata/timestamp.json").unlink()
    done = shell.run(*words, "--verbose")
    assert f"{place}: published" in done.out
    assert "metadata/timestamp.json" in done.err


@pytest.mark.parametrize("scheme", ["s3://bucket", "oci://127.0.0.1:1/x:v1"])
def test_a_missing_extra_is_named_in_the_hint(shell, scheme, monkeypatch):
    without(monkeypatch, "boto3", "dxf", loaded_by=("skillhub.registry.push_s3", "skillhub.registry.push_oci"))
    done = shell.run("registry", "push", shell.folder / "registry", scheme, "--json")
    assert (done.status, done.error["code"]) == (2, "usage")
    assert done.error["hint"] == extra_command(scheme.partition(":")[0])


def test_a_bucket_name_that_is_too_short_is_refused(shell):
    pytest.importorskip("boto3", reason="takes the extra s3")
    done = shell.run("registry", "push", shell.folder / "registry", "s3://b/x", "--json")
    assert (done.status, "3 to 63 characters" in done.error["hint"]) == (2, True)


@pytest.mark.parametrize(
    ("target", "more", "status"),
    [("ftp://host/x", [], 2), ("s3://bucket", ["--offline"], 3), ("oci://host/x:v1", ["--offline"], 3)],
)
def test_an_invalid_or_offline_target_is_refused(shell, target, more, status):
    done = shell.run("registry", "push", shell.folder / "registry", target, *more, "--json")
    assert done.status == status, done.err


def test_a_misspelled_kind_of_a_target_creates_no_folder(shell):
    for target in ("githb:acme/skills", "s3:/bucket/x"):
        done = shell.run("registry", "push", shell.folder / "registry", target, cwd=shell.folder)
        assert (done.status, f"a folder of that name: ./{target}" in done.err) == (2, True), done.err
        assert not (shell.folder / target).exists()


def test_a_repository_without_its_kind_is_no_folder(shell):
    done = shell.run("registry", "push", shell.folder / "registry", "acme/skills", cwd=shell.folder)
    assert (done.status, "on GitHub: github:acme/skills; a folder: ./acme/skills" in done.err) == (2, True), done.err
    (shell.folder / "acme").mkdir()
    assert shell.run("registry", "push", shell.folder / "registry", "acme/skills", cwd=shell.folder).status == 0


def test_a_git_repository_is_no_folder_for_a_site(shell):
    target = shell.folder / "site.git"
    subprocess.run(["git", "init", "-q", "--bare", str(target)], check=True)
    before = tree_of(target)
    done = shell.run("registry", "push", shell.folder / "registry", target)
    assert (done.status, f"a branch of it: git+file://{target}@gh-pages" in done.err) == (2, True), done.err
    assert tree_of(target) == before


def test_push_into_the_folder_of_the_keys_is_refused(shell):
    done = shell.run("registry", "push", shell.folder / "registry", shell.folder / "registry/public", "--json")
    assert (done.status, done.error["code"]) == (2, "usage")
    assert not (shell.folder / "registry/public").exists()

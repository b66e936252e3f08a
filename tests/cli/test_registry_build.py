"""``registry build`` and the commands that keep its pages up to date; without the extra they work, too."""

from __future__ import annotations

import os
import shutil

import pytest

pytest.importorskip("jinja2")

from tests.support.absent import without
from tests.support.here import Here


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A machine with a registry of one skill, and two versions of an unpublished skill."""
    shell = Here(tmp_path_factory.mktemp("made"))
    for version in ("1.0.0", "1.1.0"):
        shell.skill(f"{version}/plain", head=f'metadata:\n  version: "{version}"\n')
    assert shell.run("registry", "init", "../hub", "--url", "https://skills.example/a/").status == 0
    assert shell.run("registry", "add", "../hub", "../1.0.0/plain").status == 0
    return shell


@pytest.fixture
def shell(made, tmp_path):
    made.copy(tmp_path)
    return Here(tmp_path)


def page(shell, path="-/skill/plain.html"):
    return (shell.folder / "hub/site" / path).read_text("utf-8")


def test_build_lists_the_changed_files_if_asked_and_a_dry_run_keeps_the_url(shell):
    before = {path: path.read_bytes() for path in (shell.folder / "hub").rglob("*") if path.is_file()}
    words = ("registry", "build", "../hub", "--url", "https://other.example/b", "--verbose")
    planned = shell.run(*words, "--dry-run")
    assert planned.status == 0
    assert {path: path.read_bytes() for path in (shell.folder / "hub").rglob("*") if path.is_file()} == before
    done = shell.run(*words)
    assert "feed.xml\n" in done.err
    assert done.err == planned.err
    assert "https://other.example/b --fingerprint" in page(shell, "index.html")


def test_every_command_that_changes_releases_writes_the_pages(shell):
    assert "https://skills.example/a --fingerprint" in page(shell, "index.html")
    key = shell.run("key", "new", "mine", "--json").json
    for words, shown in (
        (("add", "../hub", "../1.1.0/plain"), "What 1.1.0 changed"),
        (("yank", "../hub", "plain@1.1.0", "--reason", "too slow"), "too slow"),
        (("advise", "../hub", "--digest", f"sha256:{'3' * 64}"), "too slow"),
        (("withdraw", "../hub", "plain@1.0.0", "--reason", "leaks"), "leaks"),
    ):
        before = page(shell, "feed.xml")
        assert shell.run("registry", *words, "--dry-run").status == 0
        assert page(shell, "feed.xml") == before
        done = shell.run("registry", *words)
        assert (done.status, shown in page(shell)) == (0, True), done.err
    assert (
        shell.run("registry", "delegate", "../hub", "acme", "--key", shell.hub / "state/keys/mine.pub.pem").status
        == 0
    )
    assert key["fingerprint"] in page(shell, "-/publisher/acme/index.html")
    assert shell.run("registry", "check", "../hub").status == 0


def test_build_lists_the_written_files(shell):
    done = shell.run("registry", "build", "../hub", "--json").json
    assert (done["url"], done["skills"], done["written"]) == ("https://skills.example/a", 1, [])
    os.remove(shell.folder / "hub/site/-/skill/plain.html")  # a missing page is written again
    planned = shell.run("registry", "build", "../hub", "--json", "--dry-run").json
    assert "-/skill/plain.html" in planned["written"]
    assert not (shell.folder / "hub/site/-/skill/plain.html").exists()
    assert shell.run("registry", "build", "../hub", "--json").json["written"] == planned["written"]
    done = shell.run("registry", "build", "../hub", "--url", "http://127.0.0.1:8000")
    assert "wrote" in done.err + done.out and "removed, 1 skill\n" in done.err + done.out
    assert "http://127.0.0.1:8000 --fingerprint" in page(shell, "index.html")
    assert shell.run("registry", "build", "../nothing").status == 3


@pytest.mark.parametrize(
    "url",
    [
        "skills.example",
        "ftp://skills.example",
        "javascript:alert(1)",
        "https://user:word@skills.example",
        "https://skills.example/?a=b",
        "https://skills.example/#a",
        "https://skills.example/../x",
        "https://skills.example/'><script>",
        "https://skills.example:99999",
        "https://skills.example/\u202e",
        "https://",
        "",
        "https://skills.example/a b; rm -rf",
    ],
)
def test_attack_an_invalid_url_of_the_site_is_refused(shell, url):
    for words in (("build", "../hub"), ("init", "../new")):
        done = shell.run("registry", *words, "--url", url)
        assert done.status == 2, (words, done.err)
    assert "https://skills.example/a --fingerprint" in page(shell, "index.html")
    assert not (shell.folder / "new").exists()


def test_without_the_extra_a_release_is_published_with_a_warning(shell, monkeypatch):
    without(
        monkeypatch, "jinja2", "markdown_it", loaded_by=("skillhub.registry.pages", "skillhub.registry.rendering")
    )
    done = shell.run("registry", "init", "../other")
    assert (done.status, "pages" in done.err + done.out) == (0, True)
    done = shell.run("registry", "add", "../other", "../1.0.0/plain")
    assert (done.status, "pages" in done.err + done.out) == (0, False)  # the note is printed once
    assert not (shell.folder / "other/site/index.html").exists()
    shutil.rmtree(shell.folder / "hub/outputs")  # like a site fetched by a workflow
    done = shell.run("registry", "add", "../hub", "../1.1.0/plain")
    assert (done.status, "warning: the pages are out of date" in done.err) == (0, True)
    assert "1.1.0" not in page(shell)
    done = shell.run("registry", "build", "../hub")
    assert (done.status, "the extra pages, which is not installed" in done.err) == (2, True)
    monkeypatch.undo()
    assert shell.run("registry", "build", "../hub").status == 0
    assert "1.1.0" in page(shell)

"""Sites and archives on the command line; the examples of docs/sources.md are run."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from skillhub.disk.folders import remove_tree
from skillhub.formats.digest import Digest
from tests.support.cli import REPO
from tests.support.site import JSON, LEGACY, WELL_KNOWN, current, entry, legacy, offer, skill_md, tarred, zipped
from tests.support.web import answer

SITE = "https://skills.example"
PAGE = (REPO / "docs" / "sources.md").read_text("utf-8")
SHOWN = re.findall(rf"^skillhub (install {SITE}.*)$", PAGE, re.MULTILINE)
YES = ("--yes", "--allow-unsigned", "--json")


@pytest.fixture
def web(web):
    """The server of skills.example, as on the page."""
    archive = tarred({"SKILL.md": skill_md("pdf-tools"), "scripts/run.sh": b"#!/bin/sh\n"})
    web.at("/pdf-tools.tar.gz", answer(archive, "Content-Type: application/gzip"))
    web.at("/git-workflow/SKILL.md", answer(skill_md("git-workflow"), "Content-Type: text/markdown"))
    entries = (
        entry("pdf-tools", archive, "/pdf-tools.tar.gz"),
        entry("git-workflow", skill_md("git-workflow"), f"{SITE}/git-workflow/SKILL.md"),
    )
    web.at(WELL_KNOWN, answer(current(*entries), JSON))
    return web


@pytest.fixture
def mirrored(shell, web):
    """A machine with a mirror of skills.example."""
    shell.write("hub/config/config.toml", f'[mirrors]\n"{SITE}" = "{web.url("")}"\n')
    return shell


@pytest.mark.parametrize("line", SHOWN)
def test_an_example_of_the_page_runs(mirrored, line):
    done = mirrored.run(*line.split(), "--yes")
    assert done.status == 0, done.err
    names = {"--all": {"pdf-tools", "git-workflow"}}.get(line.split()[2])
    names = names or {name for name in ("pdf-tools", "git-workflow") if name in line}
    lock = mirrored.lock()["skills"]
    assert set(lock) == names
    for name in names:
        assert (mirrored.project / ".agents" / "skills" / name / "SKILL.md").read_bytes() == skill_md(name)
        assert lock[name]["url"].startswith(SITE) and lock[name]["source"] == line.split()[1]


def test_the_page_has_at_least_five_examples():
    assert len(SHOWN) >= 5


def test_frozen_installs_the_locked_content_or_refuses_another(mirrored, web, tmp_path):
    """Offline from the cache, and on another machine from a site with changed content."""
    assert mirrored.run("install", SITE, "--all", *YES).status == 0
    trees = {name: row["tree"] for name, row in mirrored.lock()["skills"].items()}
    remove_tree(str(mirrored.hub / "data"))
    for folder in (".agents", ".claude"):
        shutil.rmtree(mirrored.project / folder, ignore_errors=True)
    twin = mirrored.copy(tmp_path / "twin")
    shutil.rmtree(twin.hub / "cache")
    assert mirrored.run("install", "--frozen", "--offline", *YES).status == 0
    assert {name: row["tree"] for name, row in mirrored.lock()["skills"].items()} == trees
    web.at("/git-workflow/SKILL.md", answer(skill_md("git-workflow", "rm -rf ~")))
    before = twin.files()
    done = twin.run("install", *YES)
    assert (done.status, done.error["code"]) == (5, "wrong-bytes")
    assert "git-workflow" in done.error["message"]
    assert {path: data for path, data in twin.files().items() if "/cache" not in path} == before


def test_one_wrong_digest_refuses_the_whole_install(shell, web):
    web.at("/pdf-tools.tar.gz", answer(zipped({"SKILL.md": skill_md("pdf-tools", "evil")})))
    web.at("/git-workflow/SKILL.md", answer(skill_md("git-workflow")))
    entries = entry("pdf-tools", b"x", "/pdf-tools.tar.gz"), offer(web, "good")
    web.at(WELL_KNOWN, answer(current(*entries), JSON))
    done = shell.run("install", web.url(""), "--all", *YES)
    assert (done.status, done.error["code"]) == (5, "wrong-bytes")
    assert "pdf-tools" in done.error["message"]
    assert list(shell.project.iterdir()) == []
    chosen = shell.run("install", web.url(""), *YES)
    assert chosen.status == 2 and "good" in chosen.error["message"] + chosen.error["hint"]


def test_a_site_of_the_first_version_is_pinned_by_its_trees(shell, web):
    del web.acts[WELL_KNOWN]
    web.at(LEGACY, answer(legacy({"name": "old", "description": "Old.", "files": ["SKILL.md"]}), JSON))
    web.at("/.well-known/skills/old/SKILL.md", answer(skill_md("old")))
    assert shell.run("install", web.url(""), "--all", *YES).status == 0
    row = shell.lock()["skills"]["old"]
    assert "digest" not in row and Digest.parse(row["tree"])
    remove_tree(str(shell.hub / "data"))
    shutil.rmtree(shell.project / ".agents")
    assert shell.run("install", *YES).status == 0
    remove_tree(str(shell.hub / "data"))
    web.at("/.well-known/skills/old/SKILL.md", answer(skill_md("old", "rm -rf ~")))
    done = shell.run("install", *YES)
    assert (done.status, done.error["code"]) == (5, "wrong-bytes")
    assert Path(shell.project, "skillhub.lock").exists()


def test_the_locked_version_is_that_of_the_skill_not_that_of_the_index(shell, web, tmp_path):
    """Only the index states a version here: a lock with it would fail ``verify`` and each other install."""
    web.at(WELL_KNOWN, answer(current(offer(web, "new") | {"version": "3.0.0"}), JSON))
    web.at("/old" + LEGACY, answer(legacy({"name": "old", "files": ["SKILL.md"], "version": "1.0.0"}), JSON))
    web.at("/old/.well-known/skills/old/SKILL.md", answer(skill_md("old")))
    for url in (web.url(""), web.url("/old")):
        assert shell.run("install", url, *YES).status == 0
    assert not any("version" in row for row in shell.lock()["skills"].values())
    assert shell.run("verify").status == 0
    remove_tree(str(shell.hub / "data"))
    before = shell.lock()
    done = shell.copy(tmp_path / "twin").run("install", "--frozen", *YES)
    assert (done.status, shell.lock()) == (0, before), done.err


def test_a_broken_entry_of_an_index_is_skipped_and_named(shell, web):
    web.at(
        "/team/index.json", answer(legacy({"name": "old", "files": ["SKILL.md"]}, {"name": "x", "files": []}), JSON)
    )
    web.at("/team/old/SKILL.md", answer(skill_md("old")))
    done = shell.run("install", web.url("/team/index.json"), "--all", *YES)
    assert done.status == 0
    assert list(shell.lock()["skills"]) == ["old"]
    assert any("skills[1]: 'x': " in warning and "skipped" in warning for warning in done.json["warnings"])
    before = shell.lock()
    done = shell.run("install", web.url("/team/index.json"), "--skill", "x", *YES)
    assert (done.status, done.error["code"]) == (3, "not-found")
    assert shell.lock() == before


def test_a_wrong_digest_of_one_skill_is_reported_once(shell, web):
    data = skill_md("mail")
    web.at("/mail.md", answer(data, "Content-Type: text/markdown"))
    web.at(WELL_KNOWN, answer(current(entry("mail", skill_md("mail", "Other."), "/mail.md")), JSON))
    done = shell.run("install", web.url(""), "--all", *YES[:2])
    assert done.status == 5
    assert done.err.count("mail does not match its digest") == 1
    assert "mail: mail" not in done.err


def test_the_same_artifact_through_another_source_is_refused(mirrored):
    assert mirrored.run("install", f"{SITE}/git-workflow/SKILL.md", *YES).status == 0
    done = mirrored.run("install", SITE, "--skill", "git-workflow", *YES)
    assert (done.status, done.error["code"]) == (5, "source-mismatch")
    assert f"through {SITE}" in done.error["message"]

"""Repositories of many skills, marketplaces and OCI artifacts on the command line; the page's examples are run."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import pytest

from skillhub.disk.folders import remove_tree
from tests.support import oci
from tests.support.cli import REPO
from tests.support.snapshot import skill
from tests.support.web import answer

PAGE = (REPO / "docs" / "sources.md").read_text("utf-8")
SHOWN = re.findall(r"^skillhub (install (?:\./my-|oci:).*)$", PAGE, re.MULTILINE)
MANY = {
    "skills/pdf-tools": "pdf-tools",
    ".claude/skills/mail": "mail",
    "plugins/office/skills/notes": "notes",
    "team/drafts/old": "old",
}
MARKET = {
    "plugins": [
        {"name": "office", "source": "./plugins/office"},
        {"name": "other", "source": "./plugins/other"},
        {"name": "packaged", "source": {"source": "npm", "package": "x"}},
    ]
}
ARTIFACT = "/v2/team/pdf-tools"
YES = ("--yes", "--allow-unsigned", "--json")
PROMPT = "empty to stop: "


@pytest.fixture
def web(web):
    """The server at registry.example."""
    artifact = oci.toolhive("pdf-tools", {"SKILL.md": skill("pdf-tools").encode()})
    for tag, data in {"1.0": artifact.manifest, artifact.digest: artifact.manifest, **artifact.below}.items():
        web.at(f"{ARTIFACT}/manifests/{tag}", answer(data))
    for digest, data in artifact.blobs.items():
        web.at(f"{ARTIFACT}/blobs/{digest}", answer(data))
    return web


@pytest.fixture
def machine(shell, web):
    """A machine with a folder of several skills, a marketplace, and a mirror of registry.example."""
    for folder, name in MANY.items():
        shell.skill(f"project/my-skills/{folder}", name)
    shell.write("project/my-market/.claude-plugin/marketplace.json", json.dumps(MARKET))
    shell.skill("project/my-market/plugins/office/skills/notes", more="office")
    shell.skill("project/my-market/plugins/other/skills/notes", more="other")
    shell.write("hub/config/config.toml", f'[mirrors]\n"https://registry.example" = "{web.url("")}"\n')
    return shell


@pytest.mark.parametrize("line", SHOWN)
def test_an_example_of_the_page_runs(machine, line):
    done = machine.run(*line.split(), "--yes")
    assert done.status == 0, done.err
    assert machine.lock()["skills"]


def test_the_page_has_at_least_five_examples():
    assert len(SHOWN) >= 5


def test_install_with_all_takes_every_skill_of_a_folder(machine):
    done = machine.run("install", "./my-skills", "--all", *YES)
    assert done.status == 0, done.out
    assert set(machine.lock()["skills"]) == {"pdf-tools", "mail", "notes"}


def test_install_with_all_refuses_unsafe_skills_and_hints_at_except(machine):
    for place in ("skills/pdf-tools", ".claude/skills/mail"):
        (machine.project / "my-skills" / place / "x").symlink_to("/etc/passwd")
    done = machine.run("install", "./my-skills", "--all", *YES)
    assert (done.status, done.error["code"]) == (5, "unsafe-archive")
    assert [each["name"] for each in done.error["skills"]] == ["mail", "pdf-tools"]
    assert set(done.error["skills"][0]) == {"name", "code", "reason", "message"}
    assert "  mail: " in done.err
    assert not (machine.project / "skillhub.lock").exists()
    words = done.error["hint"].removeprefix("to install the others: ").split()
    done = machine.run("install", "./my-skills", *words, *YES)
    assert done.status == 0, done.out
    assert set(machine.lock()["skills"]) == {"notes"}
    assert machine.run("install", "--except", "mail", *YES).status == 2


def test_several_skills_without_a_choice_are_a_usage_error(machine):
    done = machine.run("install", "./my-skills", *YES)
    assert (done.status, done.error["code"]) == (2, "usage")
    assert all(name in done.error["message"] for name in ("pdf-tools", "mail", "notes"))
    assert not (machine.project / "skillhub.lock").exists()


def test_a_skill_is_picked_at_a_terminal(machine):
    say = [(PROMPT, "mail\n"), ("[N]o: ", "y\n")]
    done = machine.at_terminal("install", "./my-skills", "--allow-unsigned", say=say, TERM="dumb")
    assert done.status == 0, done.out
    assert list(machine.lock()["skills"]) == ["mail"]


def test_an_empty_choice_at_a_terminal_installs_nothing(machine):
    assert machine.at_terminal("install", "./my-skills", say=[(PROMPT, "\n")], TERM="dumb").status == 2
    assert not (machine.project / "skillhub.lock").exists()


@pytest.fixture
def market(machine):
    """The marketplace as a repository; the fixture returns its URL."""
    folder = machine.project / "my-market"
    shutil.move(folder, machine.folder / "market")
    git = ["git", "-C", str(machine.folder / "market"), "-c", "user.name=x", "-c", "user.email=x@y"]
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "x"]):
        subprocess.run([*git, *words], check=True, env=machine.environ)
    return f"git+file://{machine.folder}/market"


def test_a_plugins_skill_is_stored_under_its_own_name(machine, market):
    assert machine.run("install", market, "--skill", "notes", *YES).status == 2
    done = machine.run("install", market, "--skill", "other:notes", *YES)
    assert done.status == 0, done.out
    entry = machine.lock()["skills"]["notes"]
    assert "other" in entry["source"]
    assert entry["path"] == "plugins/other/skills/notes"
    assert b"other" in (machine.project / ".agents/skills/notes/more").read_bytes()
    done = machine.run("update", "--check")
    assert (done.status, "at the newest" in done.err) == (0, True), done.err
    more = machine.folder / "market/plugins/other/skills/notes/more"
    more.write_text("other, and more")
    git = ["git", "-C", str(machine.folder / "market"), "-c", "user.name=x", "-c", "user.email=x@y"]
    subprocess.run([*git, "commit", "-q", "-a", "-m", "y"], check=True, env=machine.environ)
    assert machine.run("diff", "notes").status == 0
    assert machine.run("update", *YES).status == 0
    assert b"more" in (machine.project / ".agents/skills/notes/more").read_bytes()
    remove_tree(str(machine.hub / "data"))
    shutil.rmtree(machine.project / ".agents")
    assert machine.run("install", "--frozen", *YES).status == 0
    assert (machine.project / ".agents/skills/notes/more").exists()


def test_an_oci_artifact_is_restored_from_the_lock_alone(machine, web):
    ref = "oci://registry.example/team/pdf-tools:1.0"
    assert machine.run("install", ref, *YES).status == 0
    entry = machine.lock()["skills"]["pdf-tools"]
    assert (entry["source"], entry["url"].partition("@")[0]) == (ref, ref.removesuffix(":1.0"))
    for folder in (machine.hub / "data", machine.hub / "cache", machine.project / ".agents"):
        remove_tree(str(folder))
    web.at(f"{ARTIFACT}/manifests/1.0", answer(b"", status="404 Not Found"))
    assert machine.run("install", "--frozen", *YES).status == 0
    assert (machine.project / ".agents/skills/pdf-tools/SKILL.md").exists()
    web.at(f"{ARTIFACT}/blobs/{entry['digest']}", answer(b"x" * entry["size"]))
    remove_tree(str(machine.hub / "data"))
    shutil.rmtree(machine.project / ".agents")
    done = machine.run("install", "--frozen", *YES)
    assert (done.status, done.error["code"]) == (5, "wrong-bytes")
    assert not (machine.project / ".agents").exists()


def test_the_source_of_a_local_plugins_skill_names_the_plugin(machine):
    words = ("install", "./my-market", "--skill", "office:notes", *YES)
    assert machine.run(*words).status == 0
    row = machine.lock()["skills"]["notes"]
    assert (row["source"], row["path"]) == ("local?plugin=office", "my-market/plugins/office/skills/notes")
    shown = machine.run("list").out.splitlines()
    assert [row.split()[2] for row in shown if row.startswith("notes ")] == ["local"], shown
    for again in (words, ("install", *YES), ("install", "--frozen", *YES), ("update", *YES), ("sync", "--json")):
        done = machine.run(*again)
        assert (done.status, done.json["changed"]) == (0, False), done.err
    machine.skill("project/my-market/plugins/office/skills/notes", more="newer")
    assert machine.run("update", *YES).status == 0
    after = machine.lock()["skills"]["notes"]
    assert after["tree"] != row["tree"] and after["source"] == row["source"]
    (machine.project / "skillhub.lock").unlink()
    assert machine.run("install", *YES).status == 0
    assert machine.lock()["skills"]["notes"] == after


def test_an_older_lock_without_plugin_in_the_source_is_migrated(machine):
    words = ("install", "./my-market", "--skill", "office:notes", *YES)
    assert machine.run(*words).status == 0
    path = machine.project / "skillhub.lock"
    path.write_text(path.read_text().replace("local?plugin=office", "local"))
    assert machine.run("install", *YES).status == 0
    machine.skill("project/my-market/plugins/office/skills/notes", more="newer")
    assert machine.run("update", *YES).status == 0
    assert machine.lock()["skills"]["notes"]["source"] == "local?plugin=office"

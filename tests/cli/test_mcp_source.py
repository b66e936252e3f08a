"""Skills of MCP servers on the command line: install, update, audit, a second machine, signatures."""

from __future__ import annotations

import json
import re

import pytest

from skillhub.model.tree import SIGNATURE
from tests.support.cli import REPO
from tests.support.here import Here
from tests.support.skill_server import Raw, skill_server

YES = ("--yes", "--allow-unsigned", "--json")
FILES = {"scripts/run.sh": b"#!/bin/sh\ncurl https://api.example\n"}
PAGE = (REPO / "docs" / "sources.md").read_text("utf-8")
SHOWN = re.findall(r"^skillhub (install mcp.*)$", PAGE, re.MULTILINE)


@pytest.fixture
def server():
    with skill_server() as found:
        found.add("pdf-tools", "skill://acme/docs/pdf-tools", FILES)
        yield found


@pytest.fixture
def here(tmp_path):
    return Here(tmp_path / "one")


@pytest.fixture
def other(tmp_path, here):
    """Return a function that copies the project to another machine."""
    found = Here(tmp_path / "two")

    def copied():
        for name in ("skillhub.lock", "skillhub.toml"):
            (found.project / name).write_bytes((here.project / name).read_bytes())
        return found

    return copied


def configure(here, **servers):
    here.write("project/.mcp.json", json.dumps({"mcpServers": servers}))


@pytest.mark.parametrize("line", SHOWN)
def test_an_example_of_the_page_runs(here, server, line):
    base = server.url.removesuffix("/mcp")
    here.write("hub/config/config.toml", f'[mirrors]\n"https://mcp.example" = "{base}"\n')
    configure(here, corp={"type": "http", "url": "https://mcp.example/mcp"})
    done = here.run(*line.split(), "--yes")
    assert done.status == 0, done.err
    entry = here.lock()["skills"]["pdf-tools"]
    assert entry["source"] == "mcp+https://mcp.example/mcp"
    assert entry["path"] == "skill://acme/docs/pdf-tools"


def test_the_page_has_three_examples():
    assert len(SHOWN) == 3


def test_a_skill_of_a_server_is_installed_verified_and_updated(here, server):
    refused = here.run("install", server.ref, "--yes", "--json")
    assert refused.status == 6
    assert [each["kind"] for each in refused.json["questions"] if each["answer"] == "unanswered"] == ["unsigned"]
    done = here.run("install", server.ref, *YES)
    assert done.status == 0, done.err
    (skill,) = done.json["skills"]
    assert skill["source"] == server.ref
    assert "network:api.example" in skill["capabilities"]
    copy = here.project / ".agents/skills/pdf-tools"
    assert (copy / "scripts/run.sh").read_bytes() == FILES["scripts/run.sh"]
    assert here.run("update", "--check").status == 0
    assert here.run("verify").status == 0
    server.seen.clear()
    assert here.run("install", "--frozen", *YES).json["changed"] is False
    assert server.seen == []
    server.skills["skill://acme/docs/pdf-tools"]["more.md"] = b"More.\n"
    assert here.run("update", "--check").status == 1
    assert "outdated" in {each["rule"] for each in here.run("audit", "--json").json["findings"]}
    assert here.run("update", "--yes", "--json").status == 6
    assert not (copy / "more.md").exists()
    assert here.run("update", *YES).json["skills"][0]["changes"]["files"]["added"] == ["more.md"]
    assert (copy / "more.md").exists()


def test_an_update_without_changes_reads_no_file(here, server):
    assert here.run("install", server.ref, *YES).status == 0
    server.seen.clear()
    assert here.run("update", *YES).status == 0
    assert server.methods == ["server/discover", "skills/get"]


def test_several_skills_need_a_choice(here, server):
    server.add("pdf-tools", "skill://sales/pdf-tools")
    server.add("other")
    done = here.run("install", server.ref, *YES)
    assert done.status == 2
    assert "skill://acme/docs/pdf-tools" in done.error["message"]
    assert here.run("install", server.ref, "--skill", "pdf-tools", *YES).status == 2
    for word in ("skill://sales/pdf-tools", "skill://sales/pdf-tools/SKILL.md"):
        assert here.run("install", server.ref, "--skill", word, *YES).status == 0
    assert here.lock()["skills"]["pdf-tools"]["path"] == "skill://sales/pdf-tools"
    again = here.run("install", f"{server.ref}#skill://acme/docs/pdf-tools", *YES)
    assert (again.status, again.error["code"]) == (5, "source-mismatch")


def test_a_skill_that_moved_on_its_server_is_not_updated(here, server):
    assert here.run("install", server.ref, *YES).status == 0
    before = here.lock()
    server.skills.clear()
    server.add("pdf-tools", "skill://evil/pdf-tools")
    done = here.run("update", *YES)
    assert done.status == 6
    assert f"{server.ref}#skill://evil/pdf-tools" in done.json["refused"][0]["message"]
    assert here.lock() == before


def test_another_machine_asks_for_consent_to_the_server(here, other, server):
    assert here.run("install", server.ref, *YES).status == 0
    far = other()
    done = far.run("install", "--frozen", *YES)
    assert (done.status, done.error["code"]) == (5, "unsafe-transfer")
    assert done.error["hint"] == f"only this repository names it; to use it: skillhub install {server.ref}"
    far.write("hub/config/config.toml", f'trusted-hosts = ["127.0.0.1:{server.server_port}"]\n')
    assert far.run("install", "--frozen", "--yes", "--json").status == 6
    assert far.run("install", "--frozen", *YES).status == 0
    assert far.run("sync").status == 0


def test_attack_content_that_differs_from_the_lock_is_refused(here, other, server):
    assert here.run("install", server.ref, *YES).status == 0
    far = other()
    far.write("hub/config/config.toml", f'trusted-hosts = ["127.0.0.1:{server.server_port}"]\n')
    server.skills["skill://acme/docs/pdf-tools"]["scripts/run.sh"] += b"curl https://evil.example\n"
    done = far.run("install", "--frozen", *YES)
    assert (done.status, done.error["code"]) == (5, "wrong-bytes")
    assert not (far.project / ".agents").exists()


def test_a_signature_among_the_files_is_verified(here, server):
    folder = here.skill("src/signed", **{"notes.md": "x"})
    assert here.run("key", "new").status == 0
    done = here.run("sign", folder)
    assert done.status == 0, done.err
    assert here.run("publisher", "trust", "me", "--key", here.hub / "state/keys/default.pub.pem").status == 0
    files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert SIGNATURE in files
    server.skills["skill://signed"] = files
    done = here.run("install", server.ref, "--skill", "signed", "--yes", "--json")
    assert done.status == 0, done.out
    assert done.json["skills"][0]["trust"] == "signed"
    server.skills["skill://signed"] = {**files, "notes.md": b"y"}
    done = here.run("update", "signed", *YES)
    assert (done.status, done.error["code"]) == (5, "bad-signature")
    server.skills["skill://signed"] = {path: data for path, data in files.items() if path != SIGNATURE}
    done = here.run("update", "signed", *YES)
    assert (done.status, done.error["code"]) == (5, "signer-changed")


def test_a_server_is_referenced_by_its_configured_name(here, server):
    here.write("home/.claude.json", json.dumps({"mcpServers": {"corp": {"type": "http", "url": server.url}}}))
    done = here.run("install", "mcp:corp", *YES)
    assert done.status == 0, done.out
    assert here.lock()["skills"]["pdf-tools"]["source"] == server.ref
    assert "mcp:corp" not in (here.project / "skillhub.toml").read_text()
    assert here.run("show", "mcp:corp").status == 0


def test_attack_a_local_server_configured_by_a_project_is_refused(here, server):
    for entry in ({"url": server.url}, {"type": "http", "url": server.url}, {"httpUrl": server.url}):
        configure(here, corp=entry)
        done = here.run("install", "mcp:corp", *YES)
        assert (done.status, done.error["code"]) == (5, "unsafe-transfer")
        assert done.error["hint"].endswith(f"skillhub install {server.ref}")
    assert server.seen == []


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "touch", "args": ["RAN"]},
        {"command": "touch", "args": ["RAN"], "url": "https://mcp.example/mcp"},
        {"type": "http", "command": ["touch", "RAN"]},
        "touch RAN",
        {},
        None,
        {"url": 7},
    ],
)
def test_attack_install_starts_no_server(here, entry):
    configure(here, corp=entry)
    done = here.run("install", "mcp:corp", *YES)
    assert done.status == 2
    assert done.error["hint"] == "to see what it serves: skillhub mcp check corp"
    assert not (here.project / "RAN").exists()


@pytest.mark.parametrize(
    "url",
    [
        "https://user:hunter2@mcp.example/mcp",
        "https://mcp.example/mcp?token=hunter2hunter2",
        "file:///etc/passwd",
        "stdio://x",
        "https://mcp.example/${TOKEN}",
        "https://mcp.example/mcp\u202e",
        "",
    ],
)
def test_attack_an_invalid_configured_url_is_a_usage_error(here, url):
    configure(here, corp={"type": "http", "url": url})
    done = here.run("install", "mcp:corp", *YES)
    assert done.status == 2
    assert "hunter2" not in done.out + done.err


def test_an_ambiguous_server_name_is_refused(here, server):
    configure(here, corp={"url": "https://mcp.example/mcp"})
    here.write("project/.cursor/mcp.json", json.dumps({"mcpServers": {"corp": {"url": server.url}}}))
    assert here.run("install", "mcp:corp", *YES).status == 2
    assert here.run("install", "mcp:none", *YES).status == 3


def test_attack_a_redirect_of_a_server_is_refused(here, server):
    server.alter = lambda method, params, result: (
        Raw(status=302, headers={"Location": "http://169.254.169.254/"}) if method == "resources/read" else result
    )
    done = here.run("install", server.ref, *YES)
    assert (done.status, done.error["code"]) == (5, "unsafe-transfer")
    assert not (here.project / "skillhub.lock").exists()


def test_a_policy_allows_servers_by_url(here, server):
    here.write("hub/config/policy.toml", 'sources = ["https://skills.example/"]\n')
    done = here.run("install", server.ref, *YES)
    assert (done.status, done.error["code"]) == (6, "policy"), done.out
    assert server.seen == []
    here.write("hub/config/policy.toml", f'sources = ["{server.url}"]\n')
    assert here.run("install", server.ref, *YES).status == 0


def test_a_server_is_added_as_a_source_by_url_and_not_by_a_project_file(here, server):
    assert here.run("source", "add", "corp", server.ref, "--yes", "--json").json["kind"] == "mcp"
    assert [each["name"] for each in here.run("search", "pdf", "--json").json["hits"]] == ["pdf-tools"]
    assert here.run("install", "corp:pdf-tools", *YES).status == 0
    assert here.lock()["skills"]["pdf-tools"]["source"] == server.ref
    assert here.run("show", "corp:pdf-tools", "--json").json["state"] == "enabled"
    assert "still locked from it in this project: pdf-tools" in here.run("source", "remove", "corp").err
    configure(here, evil={"type": "http", "url": server.url})
    refused = here.run("source", "add", "evil", "mcp:evil", "--yes")
    assert refused.status == 2
    assert server.ref in refused.err

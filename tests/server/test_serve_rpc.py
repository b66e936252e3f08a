"""JSON-RPC 2.0 at ``/rpc``: methods of Codelia and Codex, batches, notifications, codes of errors."""

from __future__ import annotations

import pytest

pytest.importorskip("uvicorn")

from tests.support.http_api import api
from tests.support.locked import agreed

JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    machine = agreed(tmp_path_factory.mktemp("rpc"))
    (machine.project / "sub").mkdir()
    return machine


@pytest.fixture
def call(machine, monkeypatch):
    client = api(machine, monkeypatch)

    def call(method, number=1, **params):
        answer = client.post("/rpc", json={"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        assert answer.status_code == 200 and answer.json()["id"] == number and answer.json()["jsonrpc"] == "2.0"
        return answer.json()

    call.client = client
    return call


def test_methods_of_codelia_are_answered(call, machine):
    found = call("skills.list")["result"]
    (row,) = found["skills"]
    assert found["errors"] == [] and found["truncated"] is False
    assert (row["name"], row["scope"], row["path"]) == ("demo", "repo", str(machine.copy_of_demo / "SKILL.md"))
    assert {"id", "description", "dir", "mtimeMs", "mtime_ms"} <= set(row)
    assert call("skills.list", cwd=str(machine.project / "sub"), force_reload=True)["result"]["skills"] == [row]
    hits = call("skills.search", query="demo", limit=3, scope="repo")["result"]
    assert (hits["count"], hits["results"][0]["reason"]) == (1, "exact_name")
    assert call("skills.search", query="demo", scope="user")["result"]["count"] == 0
    loaded = call("skills.load", name="demo")["result"]
    assert loaded["text"].startswith('<skill_context name="demo"') and "Good." in loaded["text"]
    assert loaded["metadata"] == {key: row[key] for key in ("name", "path", "dir", "mtime_ms")} | {
        "skill_id": row["id"]
    }
    assert call("skills.load", path=row["path"])["result"] == loaded
    assert call("context.inspect")["result"] == {}
    inspected = call("context.inspect", include_skills=True)["result"]["skills"]
    assert inspected["catalog"][0]["name"] == "demo" and inspected["loaded"] == []


def test_method_of_codex_is_answered_without_a_jsonrpc_version(call, machine):
    asked = {"id": 7, "method": "skills/list", "params": {"cwds": [str(machine.project)], "forceReload": True}}
    (entry,) = call.client.post("/rpc", json=asked).json()["result"]["data"]
    (row,) = entry["skills"]
    assert entry["cwd"] == str(machine.project) and entry["errors"] == []
    assert (row["name"], row["scope"], row["enabled"], row["provenance"]) == ("demo", "repo", True, "project")
    assert row["path"] == str(machine.copy_of_demo / "SKILL.md")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", -32700),
        (b"{", -32700),
        (b"\xff", -32700),
        (b'{"jsonrpc": "2.0", "id": 1, "id": 2, "method": "skills.list"}', -32700),
        (b"[" * 100_000, -32700),
        (b'{"a":' * 100_000, -32700),
        (b"NaN", -32700),
        (b"1" * 10_000, -32700),
        (b"[]", -32600),
        (b"1", -32600),
        (b'"text"', -32600),
        (b"null", -32600),
        (b"{}", -32600),
        (b'{"jsonrpc": "2.0"}', -32600),
        (b'{"jsonrpc": "1.0", "id": 1, "method": "skills.list"}', -32600),
        (b'{"id": 1, "method": "skills.list"}', -32600),
        (b'{"jsonrpc": 2.0, "id": 1, "method": "skills.list"}', -32600),
        (b'{"jsonrpc": "2.0", "id": {}, "method": "skills.list"}', -32600),
        (b'{"jsonrpc": "2.0", "id": true, "method": "skills.list"}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": 1}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "skills.list", "params": 1}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "skills.list", "params": null}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "nope"}', -32601),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "__class__"}', -32601),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "skills.list", "params": [1]}', -32602),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "skills.list", "params": {"more": 1}}', -32602),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "skills.list", "params": {"force_reload": "yes"}}', -32602),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "skills.search", "params": {}}', -32602),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "skills.search", "params": {"query": "x", "limit": 51}}', -32602),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "skills.search", "params": {"query": "x", "limit": "5"}}', -32602),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "skills.load", "params": {}}', -32602),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "skills.load", "params": {"name": "nope"}}', -32000),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "skills.load", "params": {"path": "/etc"}}', -32000),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "skills.list", "params": {"cwd": "/etc"}}', -32000),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "skills.list", "params": {"cwd": ".."}}', -32000),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "skills.list", "params": {"cwd": "/a\\u0000b"}}', -32000),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "skills/list", "params": {"cwds": ["/"]}}', -32000),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_an_error_has_the_code_of_the_standard(call, body, code):
    answer = call.client.post("/rpc", content=body, headers=JSON)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert (
        found["error"]["code"] == code
        and "result" not in found
        and set(found["error"]) <= {"code", "message", "data"}
    )
    if code == -32000:
        assert found["error"]["data"]["code"] in ("not-found", "refused")


def test_batches_and_notifications_are_answered_by_the_standard(call):
    one = {"jsonrpc": "2.0", "method": "context.inspect"}
    batch = [{**one, "id": "a"}, one, {**one, "id": None}, 1, {"jsonrpc": "2.0", "method": "nope"}, {**one, "id": 2}]
    found = call.client.post("/rpc", json=batch).json()
    assert [(each["id"], "result" in each) for each in found] == [("a", True), (None, True), (None, False), (2, True)]
    for quiet in (one, {**one, "method": "nope"}, {**one, "params": {"x": 1}}, [one, one]):
        answer = call.client.post("/rpc", json=quiet)
        assert (answer.status_code, answer.content) == (204, b"")
    assert call.client.post("/rpc", json=[one] * 51).json()["error"]["code"] == -32600
    assert len(call.client.post("/rpc", json=[{**one, "id": 1}] * 50).json()) == 50

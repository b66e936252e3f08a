"""The routes of the HTTP API: typed answers, paging, errors in one form, a correct OpenAPI document."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest

pytest.importorskip("uvicorn")

from skillhub.answers.http_api import openapi
from skillhub.answers.setup import ErrorAnswer
from skillhub.model.hosts import profiles
from skillhub.server.routes import ROUTES
from tests.support.http_api import TOKEN, api
from tests.support.locked import agreed

JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    """Return a machine with a locked skill, an unlocked one and a global one; no test changes the machine."""
    machine = agreed(tmp_path_factory.mktemp("serve"))
    machine.write("project/.agents/skills/loose/SKILL.md", "---\nname: loose\ndescription: Loose.\n---\n$ARGUMENTS\n")
    machine.write("mine/theirs/SKILL.md", "---\nname: theirs\ndescription: The user's.\n---\nText.\n")
    assert machine.run("install", machine.folder / "mine/theirs", "--global", "--yes", "--allow-unsigned").status == 0
    return machine


@pytest.fixture
def client(machine, monkeypatch):
    return api(machine, monkeypatch)


def test_the_skills_are_listed_and_paged_without_a_gap(client):
    whole = client.get("/api/v1/skills").json()
    names = [row["name"] for row in whole["skills"]]
    assert names == ["demo", "loose", "theirs"] and whole["total"] == 3 and whole["next"] is None
    assert [row["scope"] for row in whole["skills"]] == ["project", "project", "user"]
    seen, cursor = [], None
    for _ in range(4):
        page = client.get("/api/v1/skills", params={"limit": 1, **({"cursor": cursor} if cursor else {})}).json()
        seen += [row["name"] for row in page["skills"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert seen == names
    assert client.get("/api/v1/skills", params={"cursor": "zz"}).json()["skills"] == []


@pytest.mark.parametrize("name", ["demo", "loose", "theirs"])
def test_answer_of_one_skill_equals_show(client, machine, name):
    answer = client.get(f"/api/v1/skills/{name}").json()
    scope = ("--global",) if name == "theirs" else ()
    assert answer == machine.run("show", name, "--json", "--offline", *scope).json


def test_only_installed_skills_are_found(client):
    for name in ("gh-fix-ci", "github:gh-fix-ci", "./mine/demo", "..", "Demo"):
        assert client.get(f"/api/v1/skills/{name}").status_code == 404


def test_answers_of_routes_equal_those_of_the_commands(client, machine):
    for host in ("agents", "codex", "opencode"):
        assert client.get("/api/v1/catalog", params={"host": host}).json() == (
            machine.run("catalog", "--host", host, "--json").json
        )
    assert client.get("/api/v1/search", params={"q": "good"}).json() == (
        machine.run("search", "good", "--local", "--json").json
    )
    text = "$demo do it"
    assert client.post("/api/v1/resolve", json={"text": text}).json() == machine.run("resolve", text, "--json").json
    loaded = client.post("/api/v1/load", json={"name": "demo", "host": "codex", "arguments": "a b"}).json()
    assert loaded == machine.run("load", "demo", "--host", "codex", "--arguments", "a b", "--json").json
    (tool,) = client.get("/api/v1/tools", params={"host": "opencode"}).json()["tools"]
    assert tool["name"] == "skill"
    call = {"host": "opencode", "name": "skill", "arguments": {"name": "demo"}}
    result = client.post("/api/v1/tools/call", json=call).json()
    assert not result["is_error"] and "Good." in result["text"] and result["error"] is None
    wrong = client.post("/api/v1/tools/call", json={**call, "arguments": {"nam": 1}}).json()
    assert wrong["is_error"] and "invalid arguments" in wrong["text"]
    assert client.post("/api/v1/tools/call", json={**call, "name": "nope"}).status_code == 404


def test_the_command_that_lifts_a_block_is_for_the_user_of_a_host(tmp_path, monkeypatch):
    machine = agreed(tmp_path)
    assert machine.run("disable", "demo").status == 0
    call = {"host": "agents", "name": "activate_skill", "arguments": {"name": "demo"}}
    held = api(machine, monkeypatch).post("/api/v1/tools/call", json=call).json()
    assert held["text"] == "Not available here: the skill 'demo' is disabled"
    assert (held["error"]["code"], held["error"]["hint"]) == ("refused", "enable it with: skillhub enable demo")


def test_needs_and_skills_in_the_form_of_opencode(client):
    rows = {row["name"]: row for row in client.get("/api/v1/needs").json()["skills"]}
    assert rows["demo"] == {"name": "demo", "scope": "project", "state": "enabled", "requires": [], "open": []}
    skills = {row["name"]: row for row in client.get("/skill").json()}
    assert set(skills["demo"]) == {"name", "description", "location", "content"}
    assert skills["loose"]["content"] == "$ARGUMENTS\n"
    assert skills["demo"]["content"].strip() == "Good." and skills["demo"]["location"].endswith("/demo/SKILL.md")


def test_file_of_a_skill_is_served_as_plain_text_in_a_sandbox(client, machine):
    answer = client.get("/api/v1/skills/demo/files/references/style.md")
    assert (answer.text, answer.headers["content-type"]) == ("Short.\n", "text/plain; charset=utf-8")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-security-policy"].endswith("; sandbox")
    for path in ("nope.md", "references", "references/", "/etc/passwd", ""):
        assert client.get(f"/api/v1/skills/demo/files/{path}").status_code in (400, 404)


def test_answer_of_every_route_matches_the_openapi_document(client):
    document = client.get("/openapi.json").json()
    assert document["openapi"].startswith("3.1.")
    assert set(document["paths"]) == {route.path for route in ROUTES}
    asked = {
        "/api/v1/skills": {},
        "/api/v1/skills/{name}": {"name": "demo"},
        "/api/v1/search": {"q": "demo"},
        "/api/v1/catalog": {},
        "/api/v1/tools": {"host": "codelia"},
        "/api/v1/tools/call": {"host": "codelia", "name": "skill_search", "arguments": {"query": "demo"}},
        "/api/v1/resolve": {"text": "$demo"},
        "/api/v1/load": {"name": "demo"},
        "/api/v1/needs": {},
        "/skill": {},
        "/rpc": {"jsonrpc": "2.0", "id": 1, "method": "skills.list"},
    }
    for path, given in asked.items():
        (method, operation), *_ = document["paths"][path].items()
        at = path.format(**given)
        query = {key: value for key, value in given.items() if f"{{{key}}}" not in path}
        answer = client.get(at, params=query) if method == "get" else client.post(at, json=given)
        assert answer.status_code == 200, (path, answer.text)
        schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
        jsonschema.Draft202012Validator({**schema, "components": document["components"]}).validate(answer.json())


def test_openapi_document_requires_the_token_if_one_is_set(machine, monkeypatch, client):
    assert "securitySchemes" not in client.get("/openapi.json").json()["components"]
    guarded = api(machine, monkeypatch, token=TOKEN)
    document = guarded.get("/openapi.json", headers={"Authorization": f"Bearer {TOKEN}"}).json()
    assert document["security"] == [{"token": []}]


@pytest.mark.parametrize(
    ("ask", "status", "code"),
    [
        (("GET", "/api/v1/skills/nope"), 404, "not-found"),
        (("GET", "/nope"), 404, "not-found"),
        (("GET", "/api/v1/skills/"), 404, "not-found"),
        (("DELETE", "/api/v1/skills"), 405, "usage"),
        (("POST", "/api/v1/skills"), 405, "usage"),
        (("GET", "/rpc"), 405, "usage"),
        (("GET", "/api/v1/skills?limit=0"), 400, "usage"),
        (("GET", "/api/v1/skills?limit=501"), 400, "usage"),
        (("GET", "/api/v1/skills?limit=x"), 400, "usage"),
        (("GET", "/api/v1/skills?limit=1&limit=2"), 400, "usage"),
        (("GET", "/api/v1/skills?nope=1"), 400, "usage"),
        (("GET", "/api/v1/skills/demo?name=other"), 400, "usage"),
        (("GET", "/api/v1/search"), 400, "usage"),
        (("GET", "/api/v1/search?q="), 400, "usage"),
        (("GET", "/api/v1/catalog?host=nope"), 400, "usage"),
        (("GET", "/api/v1/catalog?window=-1"), 400, "usage"),
        (("GET", "/skill?directory=/etc"), 403, "refused"),
        (("GET", "/skill?directory=../.."), 403, "refused"),
    ],
)
def test_an_error_has_one_form_and_the_right_status(client, ask, status, code):
    answer = client.request(*ask)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    ErrorAnswer.model_validate(answer.json())
    if status == 405:
        assert answer.headers["allow"]


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"{}", {}, 415),
        (b"{}", {"content-type": "text/plain"}, 415),
        (b"{}", {"content-type": "application/x-www-form-urlencoded"}, 415),
        (b"", JSON, 400),
        (b"{", JSON, 400),
        (b"[]", JSON, 400),
        (b"{}", JSON, 400),
        (b'{"text": 1}', JSON, 400),
        (b'{"text": "a", "text": "b"}', JSON, 400),
        (b'{"text": "\\ud800"}', JSON, 400),
        (b'{"text": "a", "more": 1}', JSON, 400),
        (b'{"text": NaN}', JSON, 400),
        (b"\xff\xfe", JSON, 400),
        (b"[" * 200_000, JSON, 400),
        (b'{"text": ' + b"[" * 100_000, JSON, 400),
        (b'{"text": "' + b"x" * 200_000 + b'"}', JSON, 400),
        (b'{"text": "' + b"x" * (2 << 20) + b'"}', JSON, 413),
    ],
)
def test_invalid_or_too_large_body_is_refused(client, body, headers, status):
    answer = client.post("/api/v1/resolve", content=body, headers=headers)
    assert answer.status_code == status, answer.text
    ErrorAnswer.model_validate(answer.json())
    assert client.post("/api/v1/resolve?text=a", json={"text": "a"}).status_code == 400


def test_no_route_changes_a_file(client, machine):
    def state():
        places = [*machine.project.rglob("*"), *(machine.hub / "state").rglob("*"), *machine.home.rglob("*")]
        # The memory of verified copies is there, so that they are not hashed each time.
        return {path: path.read_bytes() for path in places if path.is_file() and "seen" not in path.parts}

    before = state()
    for route in ROUTES:
        if route.run is None:
            continue
        at = route.path.replace("{name}", "demo").replace("{path}", "SKILL.md")
        body = {"name": "demo", "text": "$demo", "host": "opencode", "arguments": {"name": "demo"}}
        bodies = [{key: body[key] for key in body if key in getattr(route.takes, "model_fields", ())}]
        client.get(at, params={"q": "x"} if "search" in at else {}) if route.method == "GET" else [
            client.post(at, json=each) for each in bodies
        ]
    assert client.get("/").status_code == 200
    assert state() == before


def test_table_of_the_page_names_exactly_the_routes():
    page = (Path(__file__).parents[2] / "docs" / "serve.md").read_text("utf-8")
    rows = re.findall(r"^\| `(GET|POST) (\S+)` \|", page, re.MULTILINE)
    own = [("GET", "/"), ("GET", "/style.css"), ("GET", "/openapi.json")]
    assert sorted(rows) == sorted([*((route.method, route.path) for route in ROUTES), *own])


def test_every_parameter_of_the_openapi_document_has_a_plain_schema():
    document = openapi((*ROUTES,), "http://127.0.0.1:1", has_token=False)
    assert "$defs" not in json.dumps(document["paths"])
    for operations in document["paths"].values():
        for operation in operations.values():
            for given in operation.get("parameters", ()):
                assert given["schema"]["type"] in ("string", "integer"), given
                if given["name"] == "host":
                    assert given["schema"]["enum"] == [*profiles()]


def test_invalid_request_is_explained_in_messages_of_skillhub(client):
    for path, message in {
        "/api/v1/skills?limit=x": "limit: expected a whole number",
        "/api/v1/skills?limit=0&nope=1": "limit: expected at least 1; nope: unknown",
        "/api/v1/skills?limit=501": "limit: expected at most 500",
        "/api/v1/search": "q: missing",
        "/api/v1/search?q=": "q: expected at least 1 characters",
        f"/api/v1/skills?cursor={'x' * 401}": "cursor: expected at most 400 characters",
    }.items():
        assert client.get(path).json()["error"]["message"] == message
    for body, message in {
        "[]": "expected an object",
        '{"name": 3}': "name: expected a text",
        '{"name": "demo", "host": "nope"}': f"host: expected one of {', '.join(profiles())}",
    }.items():
        assert client.post("/api/v1/load", content=body, headers=JSON).json()["error"]["message"] == message

"""The answers of ``skillhub mcp``, frame by frame: the extension for skills, resources, tools, prompts, changes."""

from __future__ import annotations

import base64
import json
import os
from functools import partial
from hashlib import sha256
from itertools import count, product

import jsonschema
import pytest

pytest.importorskip("mcp")

from skillhub.server.content import ServedContent
from skillhub.server.mcp import _words_of, serve_stdio
from tests.server.test_content import BLOCKED, DRIFT, FRONT, disable, edit
from tests.support.cli import Shell
from tests.support.locked import agreed
from tests.support.mcp_wire import HELLO, READY, Wire, WireWithin, request, talk

BINARY = bytes(range(256))
PREFIX = "io.github.skillhub/"
TOOLS = ["search_skills", "load_skill", "read_skill_file"]


def furnished(folder):
    """Return a machine with three skills, one of them for users only."""
    machine = agreed(folder)
    machine.skill(
        "project/mine/files",
        head="argument-hint: '[add|remove] [name]'\n",
        **{"data.bin": BINARY, "a b/ü#%.md": "odd\r\n", "scripts/run.sh": "echo\n", "LICENSE": "free\n", "empty": ""},
    )
    machine.skill("project/mine/by-hand", head="disable-model-invocation: true\n")
    done = machine.run("install", "./mine/files", "./mine/by-hand", "--yes", "--allow-unsigned")
    assert done.status == 0, done.err
    return Shell(folder)


class Asking:
    """A client in one era of the protocol that returns results or errors.

    It asks the server of ``wire``, if that is given and the questions need no arguments, else one of its own.
    """

    def __init__(self, shell, modern, wire=None):
        self.shell, self._modern, self._wire = shell, modern, wire
        self._numbers = count()

    def __call__(self, *questions, args=()):
        frames = [
            request(next(self._numbers), method, self._modern, **dict(*params)) for method, *params in questions
        ]
        if self._wire is None or args:
            answers, _ = talk(self.shell, *(() if self._modern else (HELLO, READY)), *frames, args=args)
        else:
            answers = {frame["id"]: self._wire.answer(frame) for frame in frames}
        found = [answers[frame["id"]].get("result") or answers[frame["id"]]["error"] for frame in frames]
        assert all(each.get("resultType", "complete") == "complete" for each in found)
        return found[0] if len(found) == 1 else found


@pytest.fixture(scope="module")
def shell(tmp_path_factory):
    """Return a machine that no test changes."""
    return furnished(tmp_path_factory.mktemp("made"))


@pytest.fixture(scope="module", params=[True, False], ids=["2026-07-28", "handshake"])
def ask(request, shell):
    """Return a client of a server that stays for all tests of this file."""
    with Wire(shell) as wire:
        if not request.param:
            wire.answer(HELLO)
            wire.send(READY)
        yield Asking(shell, request.param, wire)


@pytest.fixture(params=[True, False], ids=["2026-07-28", "handshake"])
def changed(request, tmp_path):
    """Return a client of a machine that the test may change."""
    return Asking(furnished(tmp_path), request.param)


def read(uri):
    return "resources/read", {"uri": uri}


def folder(uri):
    return "resources/directory/read", {"uri": uri}


def call(tool, /, **arguments):
    return "tools/call", {"name": tool, "arguments": arguments}


def test_discovery_declares_the_extension_and_instructions(shell):
    answers, _ = talk(shell, request(1, "server/discover"))
    found = answers[1]["result"]
    assert found["capabilities"]["extensions"] == {"io.modelcontextprotocol/skills": {"directoryRead": True}}
    assert found["capabilities"]["resources"]["listChanged"]
    assert found["supportedVersions"] == ["2026-07-28"]
    for each in (found, talk(shell, HELLO, args=["--no-tools"])[0]["hello"]["result"]):
        assert 200 < len(each["instructions"]) < 1000
    assert "load_skill" in found["instructions"]
    assert "load_skill" not in each["instructions"]


def test_list_has_the_frontmatter_and_files_of_every_skill(ask, shell):
    found = ask(("skills/list",))
    assert [each["uri"] for each in found["skills"]] == [
        f"skill://{name}/SKILL.md" for name in ("by-hand", "demo", "files")
    ]
    assert (found["ttlMs"] >= 0, found["cacheScope"]) == (True, "private")
    entry = found["skills"][2]
    assert entry["frontmatter"] == {
        "name": "files",
        "description": "Does what files does.",
        "argument-hint": "[add|remove] [name]",
    }
    copy = shell.project / ".agents/skills/files"
    named = {each["uri"]: each for each in entry["resources"]}
    assert len(named) == len(entry["resources"]) == 6
    assert named["skill://files/a%20b/%C3%BC%23%25.md"]["size"] == 5
    digests = {f"sha256:{sha256(path.read_bytes()).hexdigest()}" for path in copy.rglob("*") if path.is_file()}
    assert {each["digest"] for each in entry["resources"]} == digests
    assert entry["_meta"][f"{PREFIX}tree"] == shell.lock()["skills"]["files"]["tree"]
    assert entry["_meta"][f"{PREFIX}verified"] == {"tree": True, "consent": True, "signature": False}
    assert entry["_meta"][f"{PREFIX}locked"] is True
    assert ask(("skills/get", {"uri": entry["uri"]}))["skill"] == entry


def test_every_listed_file_is_read_with_its_exact_bytes(ask):
    entry = ask(("skills/get", {"uri": "skill://files/SKILL.md"}))["skill"]
    found = ask(*(read(each["uri"]) for each in entry["resources"]))
    for each, result in zip(entry["resources"], found, strict=True):
        (content,) = result["contents"]
        data = content["text"].encode() if "text" in content else base64.b64decode(content["blob"])
        assert content["uri"] == each["uri"]
        assert (len(data), f"sha256:{sha256(data).hexdigest()}") == (each["size"], each["digest"])


def test_resources_have_the_media_types_of_their_files(ask):
    types = {
        "skill://files/SKILL.md": "text/markdown",
        "skill://files/data.bin": "application/octet-stream",
        "skill://files/scripts/run.sh": "text/x-shellscript",
        "skill://files/LICENSE": "text/plain",
    }
    found = ask(*map(read, types))
    assert [each["contents"][0]["mimeType"] for each in found] == [*types.values()]


def test_folders_list_their_direct_children(ask):
    top, deeper = ask(folder("skill://files"), folder("skill://files/a%20b"))
    assert [(each["name"], each.get("mimeType")) for each in top["resources"]] == [
        ("LICENSE", "application/octet-stream"),
        ("files", "text/markdown"),
        ("a b", "inode/directory"),
        ("data.bin", "application/octet-stream"),
        ("empty", "application/octet-stream"),
        ("scripts", "inode/directory"),
    ]
    assert [each["uri"] for each in deeper["resources"]] == ["skill://files/a%20b/%C3%BC%23%25.md"]
    assert "nextCursor" not in top


def test_resources_list_each_skill_md_and_a_template_of_all_files(ask):
    listed, templates = ask(("resources/list",), ("resources/templates/list",))
    row = listed["resources"][1]
    assert (row["uri"], row["name"], row["description"]) == ("skill://demo/SKILL.md", "demo", "Good.")
    assert row["mimeType"] == "text/markdown"
    assert all(key.startswith(PREFIX) for key in row["_meta"])
    assert [each["uriTemplate"] for each in templates["resourceTemplates"]] == ["skill://{+path}"]


NOT_SERVED = [
    *("skill://nope/SKILL.md", "skill://demo/nope.md", "skill://demo/skill.md", "skill://DEMO/SKILL.md"),
    *("skill://demo/../files/SKILL.md", "skill://demo/%2e%2e/files/SKILL.md", "skill://demo/..%2ffiles/SKILL.md"),
    *("skill://demo/references/../SKILL.md", "skill://demo/./SKILL.md", "skill://demo//SKILL.md", "skill://../demo"),
    *("skill://demo/references%2fstyle.md", "skill://demo/SKILL%2Emd", "skill://demo/%53KILL.md", "skill://demo/"),
    *("skill:///etc/passwd", "skill://etc/passwd", "file:///etc/passwd", "/etc/passwd", "SKILL.md", "", "skill://"),
    *("skill://demo/SKILL.md?x=1", "skill://demo/SKILL.md#x", "skill://demo/SKILL.md/", "Skill://demo/SKILL.md"),
    *("skill://user@demo/SKILL.md", "skill://demo:80/SKILL.md", "skill://demo/SKILL.md\n", "skill://demo/\u0000"),
    *(
        "skill://as.demo/demo/SKILL.md",
        "skill://of.x/demo/SKILL.md",
        "skill://as./demo/SKILL.md",
        "https://demo/SKILL.md",
    ),
    *("skill://demo/references\\style.md", "skill://demo/SKILL.md%00", "skill://demo/%ff", "skill://d%65mo/SKILL.md"),
    "skill://" + "a/" * 50_000,
]


def test_attack_a_uri_outside_of_the_skills_is_refused(ask):
    for method in ("resources/read", "skills/get", "resources/directory/read"):
        found = ask(*((method, {"uri": uri}) for uri in NOT_SERVED))
        for uri, error in zip(NOT_SERVED, found, strict=True):
            assert (error["code"], error["data"]) == (-32602, {"uri": uri}), (method, uri)
            assert error["message"]
            assert "Traceback" not in error["message"]


def test_files_are_not_read_as_folders_nor_folders_as_files_or_skills(ask):
    wrong = [
        folder("skill://demo/SKILL.md"),
        folder("skill://demo/references/"),
        read("skill://demo"),
        read("skill://demo/references"),
        ("skills/get", {"uri": "skill://demo"}),
        ("skills/get", {"uri": "skill://demo/references/style.md"}),
    ]
    assert {error["code"] for error in ask(*wrong)} == {-32602}


@pytest.mark.parametrize("params", [{}, {"uri": 5}, {"uri": None}, {"uri": ["skill://demo/SKILL.md"]}])
def test_parameters_of_another_shape_are_invalid(ask, params):
    methods = ("skills/get", "resources/directory/read", "resources/read")
    assert {error["code"] for error in ask(*((method, params) for method in methods))} == {-32602}


LISTS = ("skills/list", "resources/list", "prompts/list")


def test_unknown_cursor_is_refused_or_ends_the_list(ask):
    for method, cursor in product(LISTS, ("a", "=", "x" * 5000)):
        found = ask((method, {"cursor": cursor}))
        assert found.get("code") == -32602 or found.get("nextCursor") is None, (method, cursor[:9])


def test_a_cursor_that_is_no_base64_is_refused(ask):
    for method, cursor in product(LISTS, ("%%%", "!", "abcd%", "YQ", "\u00fc")):
        assert ask((method, {"cursor": cursor}))["code"] == -32602, (method, cursor)


def test_unknown_methods_are_not_found(ask):
    assert {error["code"] for error in ask(("skills/nope",), ("skills/install",), ("resources/write",))} == {-32601}


def test_many_skills_are_paged_each_complete_and_once(tmp_path):
    shell = Shell(tmp_path)
    for number in range(1100):
        name = f"skill-{number:04}"
        text = f"---\nname: {name}\ndescription: {'x' * 700}\n---\n"
        shell.write(f"project/.agents/skills/{name}/SKILL.md", text)
        shell.write(f"project/.agents/skills/{name}/a.md", "a")
    seen, cursor, pages = [], {}, 0
    with Wire(shell, "--all") as wire:
        while cursor is not None:
            found = wire.ask(pages, "skills/list", **cursor)["result"]
            assert all(len(each["resources"]) == 2 for each in found["skills"])
            assert len(json.dumps(found)) < 1200 * 1024
            seen += [each["uri"] for each in found["skills"]]
            cursor = {"cursor": found["nextCursor"]} if "nextCursor" in found else None
            pages += 1
    assert seen == [f"skill://skill-{number:04}/SKILL.md" for number in range(1100)]
    assert pages == 2


@pytest.mark.parametrize("change", [*DRIFT, *BLOCKED], ids=lambda change: change.__name__)
def test_attack_a_skill_changed_between_list_and_read_is_refused(tmp_path, change):
    machine = agreed(tmp_path)
    with WireWithin(partial(serve_stdio, ServedContent(machine.around()))) as wire:
        (entry,) = wire.ask(1, "skills/list")["result"]["skills"]
        assert wire.ask(2, "resources/read", uri=entry["uri"])["result"]
        change(machine)
        for number, each in enumerate(entry["resources"], 3):
            assert wire.ask(number, "resources/read", uri=each["uri"])["error"]["code"] in (-32602, -32603)
        assert wire.ask(90, "skills/get", uri=entry["uri"])["error"]["code"] in (-32602, -32603)
        assert wire.ask(91, "resources/directory/read", uri="skill://demo")["error"]["code"] in (-32602, -32603)
        assert wire.ask(92, "tools/call", name="load_skill", arguments={"name": "demo"})["result"]["isError"]
        assert wire.ask(93, "prompts/get", name="demo")["error"]
        assert wire.ask(94, "skills/list")["result"]["skills"] == []
        assert (
            wire.ask(95, "tools/call", name="search_skills", arguments={"query": "demo"})["result"][
                "structuredContent"
            ]["results"]
            == []
        )


def test_tools_have_valid_schemas_and_are_read_only(ask):
    found = ask(("tools/list",))["tools"]
    assert [each["name"] for each in found] == TOOLS
    for each in found:
        assert each["annotations"]["readOnlyHint"] is True
        assert each["annotations"]["destructiveHint"] is False
        for schema in (each["inputSchema"], each["outputSchema"]):
            jsonschema.Draft202012Validator.check_schema(schema)
            assert schema["type"] == "object"


def test_tools_search_load_and_read(ask):
    schemas = {each["name"]: each["outputSchema"] for each in ask(("tools/list",))["tools"]}
    calls = [
        call("search_skills", query="what files does", limit=2),
        call("load_skill", name="demo"),
        call("load_skill", name="files", arguments="add x"),
        call("read_skill_file", name="demo", path="references/style.md"),
        call("read_skill_file", name="files", path="data.bin"),
        call("read_skill_file", name="demo", path="SKILL.md", offset=4, limit=4),
    ]
    found = ask(*calls)
    for (_, params), result in zip(calls, found, strict=True):
        assert not result.get("isError"), result
        jsonschema.validate(result["structuredContent"], schemas[params["name"]])
    hits, demo, files, style, data, part = (each["structuredContent"] for each in found)
    assert hits["results"][0]["uri"] == "skill://files/SKILL.md"
    assert "Good." in demo["text"] == found[1]["content"][0]["text"]
    assert (demo["files"], demo["provenance"]["locked"]) == (["references/style.md"], True)
    assert "add x" in files["text"]
    assert (style["content"], style["mime_type"], style["next_offset"]) == ("Short.\n", "text/markdown", None)
    assert (data["encoding"], base64.b64decode(data["content"])) == ("base64", BINARY)
    assert (part["content"], part["next_offset"]) == ("name", 8)


def test_attack_invalid_or_forbidden_tool_calls_are_errors(ask):
    wrong = [
        call("load_skill"),
        call("load_skill", name="nope"),
        call("load_skill", name="by-hand"),  # for users only
        call("read_skill_file", name="by-hand", path="SKILL.md"),
        call("load_skill", name=5),
        call("load_skill", name="demo", more=1),
        call("search_skills", query="x", limit=0),
        call("search_skills", query="x" * 3000),
        call("read_skill_file", name="demo", path="../../secret"),
        call("read_skill_file", name="demo", path="/etc/passwd"),
        call("read_skill_file", name="demo", path="nope"),
        call("read_skill_file", name="demo", path=""),
        call("read_skill_file", name="demo", path="SKILL.md", offset=-1),
    ]
    for result in ask(*wrong):
        assert result["isError"] is True
        assert result["content"][0]["text"]
    assert ask(call("nope"))["code"] == -32602
    hits = ask(call("search_skills", query="by-hand"))["structuredContent"]["results"]
    assert "by-hand" not in [each["name"] for each in hits]


def test_no_tools_disables_the_tools(ask):
    listed, called = ask(("tools/list",), call("load_skill", name="demo"), args=["--no-tools"])
    assert listed["code"] == called["code"] == -32601
    assert ask(("skills/list",), args=["--no-tools"])["skills"]


def test_skills_for_users_are_prompts_with_completed_arguments(ask):
    listed = ask(("prompts/list",))["prompts"]
    assert [each["name"] for each in listed] == ["by-hand", "demo", "files"]
    (argument,) = listed[2]["arguments"]
    assert argument == {"name": "arguments", "description": "[add|remove] [name]", "required": False}
    prompt = ask(("prompts/get", {"name": "files", "arguments": {"arguments": "remove it"}}))
    (message,) = prompt["messages"]
    assert message["role"] == "user"
    assert "remove it" in message["content"]["text"]

    def complete(ref, name, value):
        return "completion/complete", {"ref": ref, "argument": {"name": name, "value": value}}

    of_files = {"type": "ref/prompt", "name": "files"}
    of_uris = {"type": "ref/resource", "uri": "skill://{+path}"}
    offered = [
        complete(of_files, "arguments", ""),
        complete(of_files, "arguments", "re"),
        complete(of_files, "nope", ""),
        complete(of_uris, "path", "demo/"),
    ]
    assert [each["completion"]["values"] for each in ask(*offered)] == [
        ["add", "remove"],
        ["remove"],
        [],
        ["demo/SKILL.md", "demo/references/style.md"],
    ]
    unknown = [
        complete({"type": "ref/prompt", "name": "nope"}, "arguments", ""),
        complete({"type": "ref/resource", "uri": "file://{x}"}, "x", ""),
        ("prompts/get", {"name": "nope"}),
    ]
    assert {each["code"] for each in ask(*unknown)} == {-32602}


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        ("[add|remove] [name]", ["add", "remove"]),
        ("<a.b|c-d|e_f> | x", ["a.b", "c-d", "e_f"]),
        ("[name]", []),
        ("|", []),
        ("a||b", ["a", "b"]),
        ("", []),
        ("a" * 60_000, []),
        ("a|" * 30_000, ["a"] * 30_000),
    ],
)
def test_words_of_an_argument_hint_are_parsed(hint, words):
    assert _words_of(hint) == words


def test_skill_for_models_only_is_no_prompt(changed):
    ask, shell = changed, changed.shell
    shell.skill("project/mine/model-only", head="user-invocable: false\n")
    assert shell.run("install", "./mine/model-only", "--yes", "--allow-unsigned").status == 0
    assert "model-only" not in [each["name"] for each in ask(("prompts/list",))["prompts"]]
    assert ask(("prompts/get", {"name": "model-only"}))["code"] == -32602
    assert not ask(call("load_skill", name="model-only")).get("isError")


def test_attack_no_command_that_lifts_a_block_reaches_the_model(changed):
    assert changed.shell.run("disable", "demo").status == 0
    (refusal,) = changed(call("load_skill", name="demo"))["content"]
    assert refusal["text"] == "Not available here: demo is disabled"
    asked = read("skill://demo/SKILL.md"), folder("skill://demo"), ("prompts/get", {"name": "demo"})
    for error in map(changed, asked):
        assert error["code"] < 0 and "skillhub" not in error["message"], error


def test_unlocked_skills_are_served_with_all_and_marked_unlocked(changed):
    ask, shell = changed, changed.shell
    shell.skill("project/.agents/skills/loose")
    uri = "skill://loose/SKILL.md"
    assert ask(read(uri))["code"] == -32602
    (refusal,) = ask(call("load_skill", name="loose"))["content"]
    assert refusal["text"] == "the skill 'loose' is in no lock, so it is not served"  # no command to serve it
    entry = ask(("skills/get", {"uri": uri}), args=["--all"])["skill"]
    assert entry["_meta"][f"{PREFIX}locked"] is False
    assert entry["_meta"][f"{PREFIX}verified"] == {"tree": False, "consent": False, "signature": False}


def test_attack_a_listed_resource_has_no_invisible_text(changed):
    hidden = 'description: "Seen.\\u202e\\u200b\\U000E0041\\e[8m"\n'
    changed.shell.write("project/.agents/skills/veiled/SKILL.md", f"---\nname: veiled\n{hidden}---\n")
    rows = changed(("resources/list",), args=["--all"])["resources"]
    assert [row["description"] for row in rows if row["name"] == "veiled"] == ["Seen.[8m"]


def test_frontmatter_in_an_entry_has_the_types_of_yaml_1_2(changed):
    ask, shell = changed, changed.shell
    shell.write("project/mine/typed/SKILL.md", FRONT)
    assert shell.run("install", "./mine/typed", "--yes", "--allow-unsigned").status == 0
    front = ask(("skills/get", {"uri": "skill://typed/SKILL.md"}))["skill"]["frontmatter"]
    assert (front["version"], front["yes-is-text"], front["count"], front["empty"]) == (1.0, "yes", 17, None)
    assert "version" in front and not isinstance(front["version"], str)


NOT_CONFORMING = {
    "number": "---\nname: 123\ndescription: x\n---\n",
    "numeric-description": "---\nname: numeric-description\ndescription: 5\n---\n",
    "true-description": "---\nname: true-description\ndescription: true\n---\n",
    "not-yaml": "---\nname: not-yaml\ndescription: Use this: always\n---\n",
    "separator": "---\nname: separator\ndescription: a\u2028b\n---\n",
}


def test_attack_a_nonconforming_skill_is_not_listed(changed):
    ask, shell = changed, changed.shell
    for name, text in NOT_CONFORMING.items():
        shell.write(f"project/.agents/skills/{name}/SKILL.md", text)
    for number in range(512):
        shell.write(f"project/.agents/skills/many-files/{number}.txt", "x")
    shell.skill("project/.agents/skills/many-files")
    shell.skill("project/.agents/skills/heavy", **{"a.bin": "x" * (16 * 1024 * 1024)})
    listed = ask(("skills/list",), args=["--all"])["skills"]
    assert [each["uri"] for each in listed] == [f"skill://{name}/SKILL.md" for name in ("by-hand", "demo", "files")]
    for name in ("many-files", "heavy", "not-yaml"):
        error = ask(read(f"skill://{name}/SKILL.md"), args=["--all"])
        assert error["code"] == -32602
        assert not ask(call("load_skill", name=name), args=["--all"]).get("isError")


def test_attack_a_file_name_that_is_not_utf8_breaks_no_answer(changed):
    ask, shell = changed, changed.shell
    shell.skill("project/.agents/skills/loose")
    (shell.project / ".agents/skills/loose" / os.fsdecode(b"\xff.md")).write_bytes(b"odd")
    asked = [
        ("skills/list",),
        ("skills/get", {"uri": "skill://loose/SKILL.md"}),
        folder("skill://loose"),
        read("skill://loose/%FF.md"),
        call("load_skill", name="loose"),
        call("search_skills", query="loose"),
        ("prompts/get", {"name": "loose"}),
        (
            "completion/complete",
            {
                "ref": {"type": "ref/resource", "uri": "skill://{+path}"},
                "argument": {"name": "path", "value": "loose"},
            },
        ),
    ]
    found = ask(*asked, args=["--all"])
    assert not [each for each in found if "code" in each], found
    assert found[3]["contents"][0]["text"] == "odd"


def test_clients_of_the_handshake_are_notified_of_changes(tmp_path):
    machine = agreed(tmp_path)
    with Wire(Shell(tmp_path)) as wire:
        wire.send(HELLO, READY)
        wire.receive()
        assert wire.ask(1, "skills/list", modern=False)["result"]["skills"]
        edit(machine)
        methods = {wire.receive()["method"] for _ in range(2)}
        assert methods == {"notifications/resources/list_changed", "notifications/prompts/list_changed"}
        assert wire.ask(2, "skills/list", modern=False)["result"]["skills"] == []


def test_subscribers_are_notified_of_changes(tmp_path):
    machine = agreed(tmp_path)
    wanted = {"resourcesListChanged": True, "promptsListChanged": True}
    with Wire(Shell(tmp_path)) as wire:
        wire.send(request("stream", "subscriptions/listen", notifications=wanted))
        assert wire.receive()["method"] == "notifications/subscriptions/acknowledged"
        assert wire.ask(1, "skills/list")["result"]["skills"]
        disable(machine)
        methods = {wire.receive()["method"] for _ in range(2)}
        assert methods == {"notifications/resources/list_changed", "notifications/prompts/list_changed"}


def test_subscribers_are_notified_of_changes_since_their_own_list(tmp_path):
    machine = agreed(tmp_path)
    wanted = {"resourcesListChanged": True}
    with Wire(Shell(tmp_path)) as wire:
        assert wire.ask(1, "skills/list")["result"]["skills"]
        disable(machine)
        assert wire.ask(2, "skills/list")["result"]["skills"] == []
        wire.send(request("stream", "subscriptions/listen", notifications=wanted))
        assert wire.receive()["method"] == "notifications/subscriptions/acknowledged"
        Shell(tmp_path).run("enable", "demo")
        assert wire.receive()["method"] == "notifications/resources/list_changed"


def test_attack_with_an_unreadable_lock_no_skill_is_served(tmp_path):
    agreed(tmp_path)
    shell = Shell(tmp_path)
    lock = shell.project / "skillhub.lock"
    kept = lock.read_bytes()
    lock.write_bytes(b"{")
    with Wire(shell, "--all") as wire:
        assert wire.ask(1, "skills/list")["result"]["skills"] == []
        lock.write_bytes(kept)
        assert len(wire.ask(2, "skills/list")["result"]["skills"]) == 1


def test_flags_select_the_scope_and_the_project(shell, tmp_path):
    answers, _ = talk(shell, request(1, "skills/list"), args=["--global"])
    assert answers[1]["result"]["skills"] == []
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    done = shell.run(
        "mcp", "--project", shell.project, stdin=json.dumps(request(1, "skills/list")).encode(), cwd=elsewhere
    )
    assert len(json.loads(done.raw)["result"]["skills"]) == 3

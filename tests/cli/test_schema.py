"""The JSON Schemas of documents and answers; commands print what the schemas describe."""

import contextlib
import json
import pkgutil
import re
import tomllib
from importlib import import_module
from pathlib import Path

import jsonschema
import pytest

import skillhub
from skillhub.answers import VERSION
from skillhub.answers.table import ANSWERS, DOCUMENTS, schema_of
from skillhub.cli.app import commands_of
from skillhub.cli.table import COMMANDS
from skillhub.formats.document import Document, ForeignDocument

REPO = Path(__file__).parents[2]

# Their output is in another format or comes from another program.
NO_ANSWERS = {"env exec", "lock export", "pick"}
NO_COMMANDS = {
    *("audit --explain", "audit --explain all", "--version", "doctor policy", "error", "show file"),
    "source add suggested",
}


def check(command, value):
    jsonschema.Draft202012Validator(schema_of(command)).validate(value)
    assert next(iter(value.items())) == ("schema", VERSION)


def test_every_command_has_an_answer():
    every = set()
    for name in COMMANDS:
        every |= set(commands_of(name))
    assert every - NO_ANSWERS == set(ANSWERS) - NO_COMMANDS


def test_every_schema_is_valid():
    schemas = [dict(schema_of(name)) for name in (*DOCUMENTS, *ANSWERS)]
    parts = [*schemas, *(part for schema in schemas for part in schema.pop("$defs", {}).values())]  # many are shared
    for part in {json.dumps(each): each for each in parts}.values():
        jsonschema.Draft202012Validator.check_schema(part)


@pytest.mark.parametrize("name", ANSWERS)
def test_the_schema_of_an_answer_is_closed_and_described(name):
    found = schema_of(name)
    assert found["required"][0] == "schema"
    assert found["properties"]["schema"] == {"const": 1, "title": "Schema", "type": "integer"}
    for each in (found, *found.get("$defs", {}).values()):
        assert each["additionalProperties"] is False
        assert each["description"]


def test_schemas_are_listed_and_shown(shell):
    listed = shell.run("schema", "--json").json
    check("schema", listed)
    assert (listed["documents"], listed["answers"]) == ([*DOCUMENTS], [*ANSWERS])
    listing = shell.run("schema").out.split("\n")
    assert {f"  {name}" for name in (*DOCUMENTS, *ANSWERS)} < set(listing)
    for words in (["lock"], ["source", "list"], ["source list"], ["lock", "--json"]):
        name = " ".join(words).removesuffix(" --json")
        assert shell.run("schema", *words).json == schema_of(name)


def classes(kind):
    for each in kind.__subclasses__():
        yield each
        yield from classes(each)


def test_every_document_class_is_listed():
    for module in pkgutil.walk_packages(skillhub.__path__, "skillhub."):
        if not module.name.endswith("__main__"):
            with contextlib.suppress(ModuleNotFoundError):  # a module that needs an extra
                import_module(module.name)
    listed = {path.rpartition(".")[2] for path in DOCUMENTS.values()}
    parts = {part for name in DOCUMENTS for part in schema_of(name).get("$defs", ())}
    found = {each for kind in (Document, ForeignDocument) for each in classes(kind) if not each.__subclasses__()}
    mine = {each.__name__ for each in found if each.__module__.startswith("skillhub.")}
    # These models parse one key of a document of another program: a login of Docker, a plugin.
    assert mine - parts - listed == {"_Entry", "_Folder", "_GitHub", "_Kind", "_Login"}
    assert listed <= mine


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_schema_of_a_document_is_described_and_types_every_key(name):
    found = schema_of(name)
    assert found["description"]
    for each in (found, *found.get("$defs", {}).values()):
        for key, field in each.get("properties", {}).items():
            assert field is False or {"type", "$ref", "enum", "const", "anyOf", "allOf"} & field.keys(), (key, field)


EXAMPLES = {
    "config": ("config.md", "toml"),
    "index": ("index.md", "json"),
    "intent": ("intent.md", "toml"),
    "lock": ("lock.md", "json"),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_of_the_pages_match_their_schemas(name):
    page, kind = EXAMPLES[name]
    text = (REPO / "docs" / "formats" / page).read_text("utf-8")
    found = re.findall(rf"```{kind}\n(.*?)```", text, re.DOTALL)
    assert found
    for each in found:
        value = json.loads(each) if kind == "json" else tomllib.loads(each)
        jsonschema.Draft202012Validator(schema_of(name)).validate(value)


@pytest.mark.parametrize(("file", "name"), [("agents", "known-agents"), ("profiles", "profiles")])
def test_the_tables_of_the_package_match_their_schemas(file, name):
    value = json.loads((REPO / "skillhub" / "model" / f"{file}.json").read_bytes())
    jsonschema.Draft202012Validator(schema_of(name)).validate(value)


def test_files_of_the_state_match_their_schemas(shell):
    shell.skill("project/needy", **{"agents/openai.yaml": "dependencies: {tools: [{type: program, value: sh}]}\n"})
    for line in ("install github:release-notes --yes", "install ./needy --yes --allow-unsigned"):
        assert shell.run(*line.split()).status == 0
    state = shell.hub / "state"
    kept = {"sources.json": "sources", "first-seen.json": "first-seen", "shown-time.json": "shown-time"}
    files = {path: kept[path.name] for path in state.glob("*.json") if path.name in kept}
    files |= dict.fromkeys(state.glob("projects/*.json"), "records")
    assert "records" in files.values()
    for path, name in files.items():
        jsonschema.Draft202012Validator(schema_of(name)).validate(json.loads(path.read_bytes()))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("agent-file", {"dependencies": {"tools": [{"type": "oauth", "value": "x"}]}}),
        ("agent-file", {"interface": []}),
        ("config", {"trusted-hosts": "all"}),
        ("discovery", {"skills": [{"name": "../up", "type": "archive", "description": "", "url": "x"}]}),
        ("index", {"$schema": "x", "skills": [{"name": "A", "type": "archive", "description": ""}]}),
        ("intent", {"skills": {"../up": "^1"}}),
        ("intent", {"sources": {"local": {"url": "https://x.invalid"}}}),
        ("intent", {"install": {"link": "hard"}}),
        ("intent", {"policy": {"fail-on": "some"}}),
        ("policy", {"policy": {"agents": ["nope"]}}),
        ("policy", {"policy": {"min-age-days": 4000}}),
        ("policy", {"policy": {"trusted-sources": ["acme"]}}),
        ("profiles", {"about": "", "profiles": [{"id": "x", "name": "y", "places": [{"scope": "here"}]}]}),
        ("records", {"version": 1, "agents": [], "skills": {"a": {"tree": "sha256:0"}}}),
        ("releases", {"publisher": "a", "releases": [{"name": "a", "url": "../up"}]}),
        ("shown-time", {"version": 2, "latest": "2026-01-02T03:04:05Z", "by": "x"}),
    ],
)
def test_attack_an_invalid_document_is_refused_by_its_schema(name, value):
    assert not jsonschema.Draft202012Validator(schema_of(name)).is_valid(value)


@pytest.mark.parametrize("name", ["nope", "lock nope", "../lock", "\x1b[31m", "__class__", "Lock"])
def test_attack_an_unknown_schema_is_not_found(shell, name):
    assert shell.run("schema", name, "--json").error["code"] == "not-found"


def test_output_of_commands_matches_its_schema(shell):
    shell.skill("project/loose", text="")
    shell.skill("project/.agents/skills/found")
    for status, line in (
        (0, "--version"),
        (0, "install github:release-notes --yes"),
        (0, "install ./loose --yes --allow-unsigned"),
        (0, "list"),
        (0, "show release-notes"),
        (0, "show ./loose"),
        (0, "verify"),
        (0, "audit"),
        (0, "doctor"),
        (0, "doctor policy"),
        (0, "catalog"),
        (0, "resolve $release-notes"),
        (0, "load release-notes"),
        (0, "search --local notes"),
        (0, "source list"),
        (0, "source show github"),
        (0, "publisher list"),
        (0, "key list"),
        (0, "env list"),
        (0, "cache info"),
        (0, "cache gc --dry-run"),
        (0, "validate ./loose"),
        (0, "new other --dry-run"),
        (0, "pack ./loose --dry-run"),
        (0, "key new --dry-run"),
        (0, "sync"),
        (0, "update --check"),
        (0, "diff release-notes"),
        (0, "disable loose"),
        (0, "enable loose"),
        (0, "remove loose"),
    ):
        done = shell.run(*line.split(), "--json")
        assert done.status == status, (line, done.err)
        words = line.split()
        two = " ".join(words[:2])
        check(two if two in ANSWERS else words[0], done.json)


@pytest.mark.parametrize(
    "line", ["show nope", "install ./nope", "install", "nope", "list --nope", "install ./loose --yes"]
)
def test_errors_match_the_error_schema(shell, line):
    shell.skill("project/loose")
    check("error", shell.run(*line.split(), "--json").json)


def test_a_path_outside_of_utf_8_is_kept_in_json(shell):
    skill = dict.fromkeys(schema_of("list")["$defs"]["SkillRow"]["required"])
    lists = dict.fromkeys(("links", "signed_by", "requires", "capabilities"), ())
    words = {"name": "a", "scope": "user", "state": "enabled", "invocation": "user", "trust": "unsigned"}
    skill |= {**lists, **words, "managed": False, "description": "", "path": "/\udcff"}
    value = {"schema": 1, "skills": [skill], "user": [], "shadowed": []}
    found = ANSWERS["list"].model_validate(value).model_dump(by_alias=True, exclude_unset=True)
    assert json.loads(json.dumps(found))["skills"][0]["path"] == "/\udcff"

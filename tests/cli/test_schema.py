"""The JSON Schemas of documents and answers, and that what commands print is as they say."""

import json
from importlib import import_module

import jsonschema
import pytest

from skillhub.answers import VERSION
from skillhub.answers.table import ANSWERS, DOCUMENTS, schema_of
from skillhub.cli.table import COMMANDS

# What they print is a document of another format, or another program's.
NO_ANSWERS = {"env exec", "lock export", "pick"}
NO_COMMANDS = {"--version", "doctor policy", "error"}


def check(command, value):
    jsonschema.Draft202012Validator(schema_of(command)).validate(value)
    assert next(iter(value.items())) == ("schema", VERSION)


def test_every_command_has_an_answer():
    every = set()
    for name, command in COMMANDS.items():
        verbs = getattr(import_module(f"skillhub.cli.{command.module}"), "VERBS", {})
        every |= {f"{name} {verb}" for verb in verbs} or {name}
    assert every - NO_ANSWERS == set(ANSWERS) - NO_COMMANDS


@pytest.mark.parametrize("name", [*DOCUMENTS, *ANSWERS])
def test_a_schema_is_one(name):
    jsonschema.Draft202012Validator.check_schema(schema_of(name))


@pytest.mark.parametrize("name", ANSWERS)
def test_a_schema_says_all_that_is_there(name):
    found = schema_of(name)
    assert found["required"][0] == "schema"
    assert found["properties"]["schema"] == {"const": 1, "title": "Schema", "type": "integer"}
    for each in (found, *found.get("$defs", {}).values()):
        assert each["additionalProperties"] is False
        assert each["description"]


def test_they_are_listed_and_shown(shell):
    listed = shell.run("schema", "--json").json
    check("schema", listed)
    assert (listed["documents"], listed["answers"]) == ([*DOCUMENTS], [*ANSWERS])
    told = shell.run("schema").out.split("\n")
    assert {f"  {name}" for name in (*DOCUMENTS, *ANSWERS)} < set(told)
    for words in (["lock"], ["source", "list"], ["source list"], ["lock", "--json"]):
        name = " ".join(words).removesuffix(" --json")
        assert shell.run("schema", *words).json == schema_of(name)


@pytest.mark.parametrize("name", ["nope", "lock nope", "../lock", "\x1b[31m", "__class__", "Lock"])
def test_attack_a_name_of_no_schema(shell, name):
    assert shell.run("schema", name, "--json").error["code"] == "not-found"


def test_what_commands_print_is_as_their_schemas_say(shell):
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
def test_what_goes_wrong_is_an_answer_too(shell, line):
    shell.skill("project/loose")
    check("error", shell.run(*line.split(), "--json").json)


def test_a_path_that_is_no_utf_8_is_told_as_it_is(shell):
    skill = dict.fromkeys(schema_of("list")["$defs"]["SkillRow"]["required"])
    lists = dict.fromkeys(("links", "signed_by", "requires", "capabilities"), ())
    words = {"name": "a", "scope": "user", "state": "enabled", "invocation": "user", "trust": "unsigned"}
    skill |= {**lists, **words, "managed": False, "description": "", "path": "/\udcff"}
    value = {"schema": 1, "skills": [skill], "user": [], "shadowed": []}
    found = ANSWERS["list"].model_validate(value).model_dump(by_alias=True, exclude_unset=True)
    assert json.loads(json.dumps(found))["skills"][0]["path"] == "/\udcff"

"""Commands served without Typer give the answers of Typer."""

from __future__ import annotations

import pytest

from skillhub.cli.app import run_plain

INSTALLS = [
    ("github:release-notes", "--yes"),
    ("github:release-notes", "github:code-review", "-y", "--agent", "codex", "--agent", "claude-code"),
    ("./many", "--all", "--yes", "--allow-unsigned"),
    ("./many", "--skill", "one", "--yes", "--allow-unsigned", "--quiet"),
    ("./many", "--yes", "--allow-unsigned"),
    ("./many", "--all", "--yes"),
    ("github:nope",),
    ("nope:", "--yes"),
    ("github:release-notes", "--yes", "--agent", "nobody"),
    ("github:release-notes", "--yes", "--offline", "--global"),
    (),
]


@pytest.fixture
def many(shell):
    for name in ("one", "two"):
        shell.skill(f"project/many/{name}")
    return shell


@pytest.mark.parametrize("words", INSTALLS, ids=" ".join)
def test_an_install_is_the_same_with_and_without_typer(many, words):
    plain = many.run("install", *words, "--json")
    before = {*many.files()}
    for name in [each["name"] for each in plain.json.get("skills", [])]:
        scope = ("--global",) if "--global" in words else ()
        assert many.run("remove", name, *scope, "--yes").status == 0
    by_typer = many.run("install", *words, "--json", "--mcp", "ask")
    assert (plain.status, plain.json) == (by_typer.status, by_typer.json)
    assert before == {*many.files()}


@pytest.mark.parametrize("words", [(), ("one",), ("nobody",), ("./many/two", "--offline"), ("--sources",), ("--ci",)])
def test_an_audit_is_the_same_with_and_without_typer(many, words):
    many.run("install", "./many", "--all", "--yes", "--allow-unsigned")
    plain, by_typer = many.run("audit", *words, "--json"), many.run("audit", *words, "--json", "--fail-on", "high")
    assert (plain.status, plain.json, plain.err) == (by_typer.status, by_typer.json, by_typer.err)


@pytest.mark.parametrize(
    "words",
    [
        ["install", "--help"],
        ["install", "x", "--agent"],
        ["install", "x", "--agent", "--json"],
        ["install", "x", "--agent=codex"],
        ["install", "x", "--accept", "findings"],
        ["install", "x", "--project", "y"],
        ["install", "x", "--mcp", "skip"],
        ["install", "--", "x"],
        ["install", "-yq"],
        ["list", "x"],
        ["list", "--all"],
        ["verify", "--allow-unsigned"],
        ["audit", "--fail-on", "low"],
        ["audit", "--sarif", "x"],
        ["sync", "--project=y"],
        ["update"],
        ["update", "--yes"],
        [],
    ],
    ids=" ".join,
)
def test_other_options_are_left_to_typer(words):
    assert run_plain(words) is None

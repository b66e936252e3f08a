"""The JSON shapes of the contract: every key and type, and no other output on stdout."""

from __future__ import annotations

import hashlib
import os
import re

import pytest

TEXT, NUMBER, BOOL, NONE = str, int, bool, type(None)
HASH = re.compile(r"sha256:[0-9a-f]{64}\Z")
NEED = {"kind": TEXT, "name": TEXT, "description": TEXT, "required": BOOL, "satisfied": BOOL}
SIGNER = {"kind": TEXT, "identity": TEXT, "fingerprint": HASH}
QUESTION = {"kind": TEXT, "skill": TEXT, "message": TEXT, "details": [TEXT], "answer": TEXT}
ISSUE = {"code": TEXT, "message": TEXT, "where": TEXT}
SKILL = {
    "name": TEXT,
    "source": (TEXT, NONE),
    "version": (TEXT, NONE),
    "digest": (HASH, NONE),
    "tree": (HASH, NONE),
    "size": (NUMBER, NONE),
    "url": (TEXT, NONE),
    "path": (TEXT, NONE),
    "links": [TEXT],
    "scope": TEXT,
    "state": TEXT,
    "invocation": TEXT,
    "managed": BOOL,
    "signed_by": [SIGNER],
    "trust": TEXT,
    "requires": [NEED],
    "capabilities": [TEXT],
    "description": TEXT,
}
OUTCOME = {
    "skills": [SKILL],
    "changed": BOOL,
    "questions": [QUESTION],
    "refused": [{"name": TEXT, "code": TEXT, "message": TEXT}],
}
VERIFY = {
    "ok": BOOL,
    "skills": [{"name": TEXT, "ok": BOOL, "problems": [{"code": TEXT, "path": TEXT, "message": TEXT}]}],
}
SIGNATURE = {"status": (TEXT, NONE), "identity": (TEXT, NONE), "fingerprint": (HASH, NONE), "code": (TEXT, NONE)}
VALIDATE = {
    "ok": BOOL,
    "skills": [
        {
            "path": TEXT,
            "ok": BOOL,
            "name": (TEXT, NONE),
            "tree": (HASH, NONE),
            "errors": [ISSUE],
            "warnings": [ISSUE],
            "signature": SIGNATURE,
        }
    ],
}
DOCTOR = {
    "ok": BOOL,
    "checks": [{"name": TEXT, "ok": BOOL, "message": TEXT, "hint": (TEXT, NONE)}],
    "roots": [dict],
    "agents": [dict],
    "sources": [dict],
}


def check(value, shape, where="$"):
    """Check a JSON value against a shape; additional keys are allowed, missing keys are not."""
    if isinstance(shape, tuple):
        assert any(fits(value, each) for each in shape), f"{where}: {value!r}"
    elif isinstance(shape, dict):
        assert isinstance(value, dict), f"{where}: {value!r}"
        assert shape.keys() <= value.keys(), f"{where}: {shape.keys() - value.keys()} missing"
        for key, inner in shape.items():
            check(value[key], inner, f"{where}.{key}")
    elif isinstance(shape, list):
        assert isinstance(value, list), f"{where}: {value!r}"
        for number, each in enumerate(value):
            check(each, shape[0], f"{where}[{number}]")
    else:
        assert fits(value, shape), f"{where}: {value!r}"


def fits(value, shape):
    if isinstance(shape, re.Pattern):
        return isinstance(value, str) and shape.match(value) is not None
    return type(value) is shape or (shape is dict and isinstance(value, dict))


SHAPES = [
    (("list",), {"skills": [SKILL]}, 0),
    (("show", "release-notes"), {**SKILL, "manifest": dict, "files": [dict], "releases": [dict]}, 0),
    (("show", "github:gh-fix-ci@1.2.0"), {**SKILL, "manifest": dict, "files": [dict], "releases": [dict]}, 0),
    (("show", "./.agents/skills/loose"), {**SKILL, "manifest": dict, "files": [dict], "releases": [dict]}, 0),
    (("verify",), VERIFY, 0),
    (("doctor",), DOCTOR, 1),
    (("sync", "--dry-run"), OUTCOME, 0),
    (("validate", ".agents/skills/loose"), VALIDATE, 0),
    (("validate", ".agents/skills/release-notes"), VALIDATE, 0),
    (("source", "list"), {"sources": [{"name": TEXT, "url": TEXT, "root": HASH}]}, 0),
    (("source", "show", "github"), {"name": TEXT, "url": TEXT, "root": HASH, "skills": [dict]}, 0),
    (("publisher", "list"), {"publishers": [dict]}, 0),
    (("key", "list"), {"keys": [dict]}, 0),
]


@pytest.mark.parametrize(("words", "shape", "status"), SHAPES, ids=lambda each: str(each)[:40])
def test_the_json_of_a_command_has_its_documented_shape(installed, words, shape, status):
    done = installed.run(*words, "--json")
    assert done.status == status, done.err
    check(done.json, shape)


def test_commands_that_change_skills_print_the_outcome_shape(shell):
    for words in (
        ("install", "github:release-notes", "--yes"),
        ("disable", "release-notes"),
        ("enable", "release-notes"),
        ("sync",),
        ("remove", "release-notes"),
    ):
        done = shell.run(*words, "--json")
        assert done.status == 0, done.err
        check(done.json, OUTCOME)
        assert done.json["skills"] or words[0] == "remove"
        assert done.json["refused"] == []


def test_an_installed_skill_is_described_as_installed(installed):
    skill = next(each for each in installed.run("list", "--json").json["skills"] if each["name"] == "release-notes")
    assert (skill["source"], skill["scope"], skill["state"]) == ("github", "project", "enabled")
    assert (skill["managed"], skill["trust"], skill["invocation"]) == (True, "signed", "model")
    assert skill["links"] == [str(installed.project / ".agents/skills/release-notes")]
    assert skill["path"].startswith(str(installed.hub / "data/store"))
    for folder in (skill["path"], *skill["links"]):
        assert tree_of(folder) == skill["tree"]
    assert skill["tree"] == installed.lock()["skills"]["release-notes"]["tree"]


def tree_of(folder):
    """Return the tree as the contract's shell loop computes it."""
    lines = {}
    for top, _, names in os.walk(folder):
        for name in names:
            full = os.path.join(top, name)
            with open(full, "rb") as file:
                digest = hashlib.sha256(file.read()).hexdigest()
            path = os.path.relpath(full, folder)
            lines[os.fsencode(path)] = f"{'x' if os.stat(full).st_mode & 0o100 else '-'} {digest}  {path}\n"
    text = "".join(lines[path] for path in sorted(lines))
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def test_an_unlocked_skill_is_listed_as_enabled(installed):
    skill = next(each for each in installed.run("list", "--json").json["skills"] if each["name"] == "loose")
    folder = str(installed.project / ".agents/skills/loose")
    assert (skill["managed"], skill["state"], skill["path"]) == (False, "enabled", folder)
    assert (skill["source"], skill["tree"], skill["digest"], skill["trust"]) == (None, None, None, "unsigned")


def test_needs_outside_of_skillhub_are_not_satisfied(installed):
    skill = next(each for each in installed.run("list", "--json").json["skills"] if each["name"] == "gh-fix-ci")
    needs = {(each["kind"], each["name"]): each for each in skill["requires"]}
    assert needs.keys() == {("env", "GITHUB_TOKEN"), ("mcp", "github"), ("program", "gh")}
    assert all(each["required"] and not each["satisfied"] for each in needs.values())
    assert skill["links"] == []


def test_drift_is_reported_with_paths(shell):
    shell.run("install", "github:release-notes", "--yes")
    shell.write("project/.agents/skills/release-notes/extra", "x")
    (shell.project / ".agents/skills/release-notes/agents/openai.yaml").unlink()
    done = shell.run("verify", "release-notes", "--json")
    check(done.json, VERIFY)
    assert (done.status, done.json["ok"], done.json["skills"][0]["ok"]) == (1, False, False)
    problems = {os.path.basename(each["path"]) for each in done.json["skills"][0]["problems"]}
    assert problems == {"extra", "openai.yaml"}


def test_show_lists_files_and_releases(installed):
    shown = installed.run("show", "github:systematic-debugging@1.1.0", "--json").json
    assert {"SKILL.md", "skill.oms.sig"} <= {each["path"] for each in shown["files"]}
    assert all(set(each) == {"path", "size", "sha256", "executable"} for each in shown["files"])
    assert "1.1.0" in [each["version"] for each in shown["releases"]]
    assert shown["manifest"]["name"] == "systematic-debugging"
    assert (shown["managed"], shown["path"], shown["links"]) == (False, None, [])

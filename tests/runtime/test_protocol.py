"""Answers in the protocols of hosts: all facts of each skill, and the folders in their order."""

from __future__ import annotations

import json
import os

import pytest

from skillhub.model.needs import McpServer
from skillhub.runtime import (
    Cache,
    Surroundings,
    catalog_of,
    context_inspect,
    load,
    pick,
    profile,
    profiles,
    section,
    skills_list,
)
from skillhub.runtime.agent import codex_rows
from skillhub.runtime.walk import stamp_of
from tests.runtime.test_discover import write

OPENAI = """interface:
  display_name: Fix CI
  short_description: Mends builds.
  default_prompt: Mend it.
dependencies:
  tools:
    - type: env_var
      value: CI_TOKEN
      description: A token.
    - type: mcp
      value: ci
      transport: stdio
      command: ci-server --stdio
      env: [CI_TOKEN]
permissions:
  network: true
  file_system:
    read: [./data]
"""
CARRIED = {"name", "description", "path", "scope", "root", "source", "trust", "needs", "enabled"}


def skill_with_needs(folder, text=OPENAI, **front):
    write(folder, **front)
    (folder / "agents").mkdir()
    (folder / "agents/openai.yaml").write_text(text)
    return folder


@pytest.fixture
def around(tmp_path):
    (tmp_path / "repo/.git").mkdir(parents=True)
    (tmp_path / "home").mkdir()
    environ = {"SKILLHUB_HOME": str(tmp_path / "hub"), "CI_TOKEN": "t"}
    return Surroundings(cwd=str(tmp_path / "repo"), home=str(tmp_path / "home"), environ=environ)


SPELLED = [
    ("codelia", "repo/.agents/skills", "repo"),
    ("codelia", "home/.agents/skills", "user"),
    ("codex", "repo/.agents/skills", "repo"),
    ("openoxide", "repo/.openoxide/skills", "repo"),
    ("openoxide", "home/.claude/skills", "user"),
    ("claude-code", "repo/.claude/skills", "project"),
    ("claude-code", "home/.claude/skills", "personal"),
    ("pegasus", "repo/data/skills", "user"),
    ("pegasus", "repo/skills", "builtin"),
    ("gencode", "repo/.gen/skills", "Project"),
    ("gencode", "repo/.claude/skills", "ClaudeProject"),
    ("gencode", "repo/.gen/plugins/tools/skills", "ProjectPlugin"),
    ("gencode", "repo/.claude/plugins/tools/skills", "ProjectPlugin"),
    ("gencode", "home/.gen/skills", "User"),
    ("gencode", "home/.gen/plugins/tools/skills", "UserPlugin"),
    ("gencode", "home/.claude/plugins/tools/skills", "UserPlugin"),
    ("gencode", "home/.claude/skills", "ClaudeUser"),
    ("agents", "repo/.agents/skills", "project"),
]


@pytest.mark.parametrize(("host", "folder", "scope"), SPELLED)
def test_scope_has_the_spelling_of_the_host(tmp_path, around, host, folder, scope):
    write(tmp_path / folder / "demo")
    catalog = catalog_of(profile(host), around)
    (listed,) = skills_list(profile(host), [around])["data"][0]["skills"]
    (inspected,) = context_inspect(catalog)["skills"]["catalog"]
    (row,) = section(catalog, profile(host)).to_json()["skills"]
    assert [each["scope"] for each in (listed, inspected, row)] == [scope] * 3


def test_the_list_for_codex_has_its_words(tmp_path, around):
    skill_with_needs(tmp_path / "repo/.agents/skills/demo")
    write(tmp_path / "repo/.agents/skills/plain")
    rows = {row["name"]: row for row in codex_rows(catalog_of(profile("codex"), around))}
    assert rows["demo"]["interface"] == {
        "displayName": "Fix CI",
        "shortDescription": "Mends builds.",
        "defaultPrompt": "Mend it.",
    }
    assert [rows[name]["shortDescription"] for name in ("demo", "plain")] == ["Mends builds.", None]
    assert (rows["plain"]["interface"], rows["plain"]["scope"]) == (None, "repo")


@pytest.mark.parametrize("host", sorted(profiles()))
def test_every_protocol_has_the_facts_of_a_skill(tmp_path, around, host):
    place = next(root for root in profile(host).places if root.path and not root.path.startswith(("/", "~", "C:")))
    skill_with_needs(tmp_path / "repo" / place.path.replace("*", "tools") / "demo")
    catalog = catalog_of(profile(host), around)
    rows = [
        *skills_list(profile(host), [around])["data"][0]["skills"],
        *context_inspect(catalog)["skills"]["catalog"],
        *section(catalog, profile(host)).to_json()["skills"],
    ]
    assert len(rows) == 3
    for row in rows:
        assert set(row) >= CARRIED
        assert (row["root"], row["trust"], row["enabled"]) == (catalog.skills[0].root, "unsigned", True)
        needs = {need["name"]: need["satisfied"] for need in row["needs"]}
        assert needs == {"CI_TOKEN": True, "ci": False}
        json.dumps(row)


def test_roots_come_in_order_with_their_found_and_shadowed_skills(tmp_path, around):
    write(tmp_path / "repo/.agents/skills/demo")
    write(tmp_path / "repo/.agents/skills/other")
    write(tmp_path / "home/.agents/skills/demo")
    catalog = catalog_of(profile("agents"), around)
    expected = [
        (str(tmp_path / "repo/.agents/skills"), "project", ["demo", "other"], []),
        (str(tmp_path / "home/.agents/skills"), "user", [], ["demo"]),
    ]
    listed = skills_list(profile("agents"), [around])["data"][0]["roots"]
    for rows in (
        listed,
        context_inspect(catalog)["skills"]["roots"],
        section(catalog, profile("agents")).to_json()["roots"],
    ):
        assert [(row["path"], row["scope"], row["found"], row["shadowed"]) for row in rows] == expected


@pytest.mark.parametrize("host", ["claude-code", "pegasus", "gencode"])
def test_skill_without_a_name_is_loaded_for_lenient_hosts(tmp_path, around, host):
    place = next(root for root in profile(host).places if root.path and not root.path.startswith(("/", "~", "C:")))
    folder = tmp_path / "repo" / place.path / "unnamed"
    write(folder, text="---\ndescription: Has no name.\n---\nDo it.\n")
    skill = pick(catalog_of(profile(host), around), "unnamed")
    assert load(skill).body == "Do it.\n"


@pytest.mark.parametrize("is_cached", [False, True])
def test_skill_has_the_declarations_of_its_author(tmp_path, around, is_cached):
    skill_with_needs(tmp_path / "repo/.agents/skills/fix")
    for _ in range(2):
        cache = Cache(str(tmp_path / "cache")) if is_cached else None
        (skill,) = catalog_of(profile("agents"), around, cache=cache).skills
        assert skill.interface["display_name"] == "Fix CI"
        assert skill.interface["default_prompt"] == "Mend it."
        assert skill.permissions == ("file_system.read=./data", "network=true")
        assert [(need.spell(), need.satisfied) for need in skill.requires] == [
            ("env:CI_TOKEN", True),
            ("mcp:ci", False),
        ]
        assert skill.requires[1].server == McpServer("stdio", ("ci-server", "--stdio"), env=("CI_TOKEN",))


def test_needs_in_the_frontmatter_are_read(tmp_path, around):
    head = "{openclaw: {requires: {env: [SOME_TOKEN], bins: [gh]}}}"
    write(tmp_path / "repo/.agents/skills/fix", metadata=head)
    (skill,) = catalog_of(profile("agents"), around).skills
    assert [need.spell() for need in skill.requires] == ["env:SOME_TOKEN", "program:gh"]


@pytest.mark.parametrize("name", ["LD_PRELOAD", "PATH", "PYTHONPATH", "https_proxy", "SKILLHUB_HOME"])
def test_need_for_a_forbidden_variable_is_a_problem(tmp_path, around, name):
    write(tmp_path / "repo/.agents/skills/fix", metadata=f"{{openclaw: {{requires: {{env: [{name}]}}}}}}")
    catalog = catalog_of(profile("agents"), around)
    assert [skill.requires for skill in catalog.skills] == [()]
    assert name in catalog.problems[0].message


TAMPERED = [
    {"requires": [["env", "LD_PRELOAD", "", True, None]]},
    {"requires": [["mcp", "ci", "", True, ["stdio", ["sh", "-c", "$HOME"], None, [], None]]]},
    {"requires": [["mcp", "ci", "", True, ["http", [], "http://evil.example", [], None]]]},
    {"requires": 1},
    {"requires": [["env"]]},
    {"interface": []},
    {"permissions": 3},
    [],
    "text",
]


@pytest.mark.parametrize("declared", TAMPERED)
def test_attack_forged_declarations_in_the_cache_are_ignored(tmp_path, around, declared):
    skill_with_needs(tmp_path / "repo/.agents/skills/fix")
    first = catalog_of(profile("agents"), around, cache=Cache(str(tmp_path / "cache")))
    for path in (tmp_path / "cache").iterdir():
        block = json.loads(path.read_bytes())
        # The walk omits stamps of new folders; an attacker writes them, too.
        block["folders"] = {place: stamp_of(os.stat(place)) for place in block["folders"]}
        for find in block["finds"]:
            find[2] = {place: stamp_of(os.stat(find[0] + place)) for place in find[2]}
            find[3]["declared"] = declared
        path.write_text(json.dumps(block))
    again = catalog_of(profile("agents"), around, cache=Cache(str(tmp_path / "cache")))
    assert again.skills == first.skills

"""Every entry point of the library refuses a blocked skill and lists it with the reason."""

from __future__ import annotations

import json
from itertools import cycle

import pytest

from skillhub.errors import SkillhubError
from skillhub.model.skill import Skill
from skillhub.runtime import (
    Request,
    SearchIndex,
    catalog_of,
    complete,
    context_inspect,
    load,
    mentioned,
    pick,
    preload,
    profile,
    profiles,
    rows_of,
    search,
    section,
    skills_list,
)
from tests.runtime.test_locks import EVIL, Machine

PLACES = {
    **dict.fromkeys(("agents", "codex", "openoxide", "codelia", "codewhale"), ".agents/skills"),
    **{
        "claude-code": ".claude/skills",
        "opencode": ".agents/skills",
        "gencode": ".claude/skills",
        "pegasus": "skills",
    },
}


def _drifted(machine, copy):
    (copy / "SKILL.md").write_text(EVIL)


def _not_agreed(machine, copy):
    (record,) = (machine.hub / "state/projects").glob("*.json")
    document = json.loads(record.read_text())
    document["skills"] = {}
    record.write_text(json.dumps(document))
    (copy / "SKILL.md").write_text(EVIL)


def _not_agreed_as_locked(machine, copy):
    lock = machine.project / "skillhub.lock"
    (tree,) = {word for word in lock.read_text().split('"') if word.startswith("sha256:") and len(word) > 40} & {
        json.loads(next((machine.hub / "state/projects").glob("*.json")).read_text())["skills"]["demo"]["tree"]
    }
    lock.write_text(lock.read_text().replace(tree, f"sha256:{'0' * 64}"))
    (copy / "SKILL.md").write_text(EVIL)


def _disabled(machine, copy):
    assert machine.run("disable", "demo").status == 0
    machine.write(f"{copy.relative_to(machine.folder)}/SKILL.md", EVIL)


def _lock_broken(machine, copy):
    (machine.project / "skillhub.lock").write_text("<<<<<<< HEAD\n")
    (copy / "SKILL.md").write_text(EVIL)


STATES = {_drifted: "drifted", _not_agreed: "not-agreed", _not_agreed_as_locked: "not-agreed", _disabled: "disabled"}


HOSTS = sorted(set(PLACES) - {"pegasus"})


@pytest.fixture(params=HOSTS)
def machine(request, tmp_path):
    """Return a machine where ``demo`` is locked, consented and enabled in a folder of the host."""
    here = Machine(tmp_path)
    (here.project / ".git").mkdir()
    here.write("project/mine/demo/SKILL.md", "---\nname: demo\ndescription: Good.\n---\nGood.\n")
    agent = {".agents/skills": "codex", ".claude/skills": "claude-code"}
    named = agent[PLACES[request.param]]
    done = here.run("install", "./mine/demo", "--yes", "--allow-unsigned", "--agent", named)
    assert done.status == 0, done.err
    return here, request.param, here.project / PLACES[request.param] / "demo"


# Each state on one host, and each host with one state: whether a skill is blocked does not depend on the host.
PAIRS = [*(("agents", state) for state in STATES), *zip(HOSTS[1:], cycle(STATES))]


@pytest.mark.parametrize(
    ("machine", "state"), PAIRS, ids=[f"{host}-{state.__name__}" for host, state in PAIRS], indirect=["machine"]
)
def test_attack_no_entry_point_loads_a_blocked_skill(machine, state):
    here, host, copy = machine
    row = profile(host)
    assert load(pick(here.catalog(host), "demo")).body == "Good.\n"
    before = pick(here.catalog(host), "demo")
    state(here, copy)
    catalog = here.catalog(host)
    rows = [
        *(each for each in skills_list(row, [here.around()])["data"][0]["skills"]),
        *context_inspect(catalog)["skills"]["catalog"],
        *section(catalog, row).to_json()["skills"],
        *here.run("catalog", "--host", host, "--json").json["skills"],
    ]
    assert len(rows) == 4
    for each in rows:
        assert (each["enabled"], each["why"], "demo" in each["message"]) == (False, STATES[state], True)
        assert each["command"].startswith("skillhub ")
    asked = {
        "text": section(catalog, row).text,
        "user": mentioned("$demo", catalog),
        "slash": mentioned("/skill demo", catalog),
    }
    assert "EVIL" not in asked["text"]
    assert (asked["user"].skills, asked["slash"].skills) == ((), ())
    assert complete("$de", 3, catalog).names == complete("/skill de", 9, catalog).names == ()
    index = SearchIndex.build(rows_of(catalog.skills))
    assert search("demo EVIL", [index]).hits == ()
    index.close()
    assert "EVIL" not in here.run("search", "EVIL", "--json").out
    found = Skill(name="demo", path=str(copy), scope="project", state="enabled", managed=False, locks=before.locks)
    for skill in (before, *catalog.named("demo"), found):
        for caller in ("user", "model"):
            with pytest.raises(SkillhubError):
                load(skill, Request(caller=caller))
    with pytest.raises(SkillhubError):
        preload(b"---\nskills: demo\n---\n", catalog)
    for done in (here.run("load", "demo", "--host", host), here.run("load", "--path", str(copy), "--host", host)):
        assert (done.status != 0, "EVIL" in done.out + done.err) == (True, False)


def test_attack_no_entry_point_loads_a_skill_with_an_unreadable_lock(machine):
    here, host, copy = machine
    before = pick(here.catalog(host), "demo")
    _lock_broken(here, copy)
    catalog = here.catalog(host)
    assert {skill.held.status for skill in catalog.skills} == {"not-agreed"}
    for skill in (before, *catalog.skills):
        with pytest.raises(SkillhubError):
            load(skill)


@pytest.mark.parametrize(
    "place",
    [
        ".claude/commands/demo.md",
        ".claude/commands/deep/demo.md",
        ".claude/commands/Demo.md",
        "packages/web/.claude/skills/demo/SKILL.md",
        "packages/web/.claude/skills/other/SKILL.md",
        "packages/web/.claude/commands/demo.md",
    ],
)
def test_attack_an_imitation_as_a_command_or_nested_skill_is_not_loaded(tmp_path, place):
    here = Machine(tmp_path)
    (here.project / ".git").mkdir()
    here.write("project/mine/demo/SKILL.md", "---\nname: demo\ndescription: Good.\n---\nGood.\n")
    assert here.run("install", "./mine/demo", "--yes", "--allow-unsigned", "--agent", "claude-code").status == 0
    here.write(f"project/{place}", EVIL)
    catalog = here.catalog("claude-code")
    assert [load(skill).body for skill in catalog.skills if skill.state == "enabled"] == ["Good.\n"]
    assert any(str(here.project / place).startswith(each.path) for each in catalog.problems)
    assert here.run("disable", "demo").status == 0
    assert [skill.name for skill in here.catalog("claude-code").skills if skill.state == "enabled"] == []


def test_attack_a_file_of_a_locked_skill_is_not_loaded_as_a_command(machine):
    here, _, copy = machine
    (copy / "SKILL.md").write_text(EVIL)
    locks = here.catalog().skills[0].locks if here.catalog().skills else pick(here.catalog("codex"), "demo").locks
    forged = Skill(
        name="x",
        path=str(copy / "SKILL.md"),
        scope="project",
        state="enabled",
        managed=False,
        is_command=True,
        locks=locks,
    )
    with pytest.raises(SkillhubError):
        load(forged)


def test_skill_with_a_one_time_value_stays_enabled_with_an_open_need(tmp_path):
    here = Machine(tmp_path)
    (here.project / ".git").mkdir()
    here.write("project/mine/needy/SKILL.md", "---\nname: needy\ndescription: Yes.\n---\nUse it.\n")
    tool = "dependencies: {tools: [{type: env_var, value: NEEDY_TOKEN, description: A token}]}\n"
    here.write("project/mine/needy/agents/openai.yaml", tool)
    done = here.run("install", "./mine/needy", "--yes", "--allow-unsigned", "--env", "NEEDY_TOKEN=abc")
    assert done.status == 0, done.err
    for host in ("agents", "codex"):
        skill = pick(here.catalog(host), "needy")
        assert (skill.state, skill.held) == ("enabled", None)
        assert [(need.name, need.satisfied) for need in skill.requires] == [("NEEDY_TOKEN", False)]
        assert load(skill).body == "Use it.\n"
        (row,) = here.run("catalog", "--host", host, "--json").json["skills"]
        assert (row["enabled"], row["listed"], [need["satisfied"] for need in row["needs"]]) == (True, True, [False])


@pytest.mark.parametrize("host", sorted(profiles()))
def test_ignore_locks_applies_at_each_entry_point(tmp_path, host):
    here = Machine(tmp_path)
    (here.project / "skillhub.lock").write_text("<<<<<<< HEAD\n")
    here.write(f"project/{PLACES[host]}/loose/SKILL.md", EVIL.replace("demo", "loose"))
    assert {skill.state for skill in here.catalog(host).skills} == {"disabled"}
    catalog = catalog_of(profile(host), here.around(), ignore_locks=True)
    assert [load(skill).body for skill in catalog.skills] == ["EVIL\n"]
    (answer,) = skills_list(profile(host), [here.around()], ignore_locks=True)["data"]
    assert [each["enabled"] for each in answer["skills"]] == [True]
    assert preload(b"---\nskills: [loose]\n---\n", catalog)[0].body == "EVIL\n"

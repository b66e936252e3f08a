"""`enable` and `disable` of unlocked skills, in an agent's own file and in skillhub's."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from skillhub.model.hosts import profile
from skillhub.runtime.agent import catalog_of
from skillhub.runtime.discover import Surroundings
from tests.support.hearing import heard_by
from tests.support.here import Here

PLACES = {
    "gencode": ".gen/skills",
    "codex": ".agents/skills",
    "opencode": ".opencode/skills",
    "claude-code": ".claude/skills",
}
FILES = {
    "gencode": "project/.gen/skills.json",
    "codex": "home/.codex/config.toml",
    "opencode": "project/opencode.json",
}


@pytest.fixture(params=PLACES)
def machine(request, tmp_path):
    shell = Here(tmp_path)
    shell.skill(f"project/{PLACES[request.param]}/demo")
    (tmp_path / "project/.git").mkdir()
    return shell, request.param


def seen(shell, host):
    """Return the skill as a host sees it that knows only its working folder."""
    environ = (
        {"SKILLHUB_HOME": str(shell.folder / "skillhub")} if (shell.folder / "skillhub").exists() else shell.environ
    )
    around = Surroundings(cwd=str(shell.folder / "project"), home=str(shell.folder / "home"), environ=environ)
    (skill,) = catalog_of(profile(host), around).named("demo")
    return skill


def test_a_found_skill_is_disabled_and_enabled_in_the_agents_own_file(machine):
    shell, host = machine
    done = shell.run("disable", "demo", "--host", host)
    assert (done.status, "disabled" in done.out + done.err) == (0, True)
    assert seen(shell, host).state == "disabled"
    if host in FILES:
        assert "demo" in (shell.folder / FILES[host]).read_text()
    typed = seen(shell, host).held.command.split()
    assert typed[:4] == ["skillhub", "enable", "demo", "--host"]
    assert shell.run(*typed[1:]).status == 0
    assert seen(shell, host).state == "enabled"


def test_without_an_agent_the_state_of_skillhub_disables_for_every_agent(machine):
    shell, host = machine
    assert shell.run("disable", "demo").status == 0
    assert not any((shell.folder / each).exists() for each in FILES.values())
    skill = seen(shell, host)
    assert skill.state == "disabled"
    (row,) = [
        each for each in shell.run("catalog", "--host", host, "--json").json["skills"] if each["name"] == "demo"
    ]
    assert (row["enabled"], row["why"]) == (False, "disabled")
    assert row["command"] == f"skillhub enable demo --host {host}"
    assert skill.held.file in row["message"]
    assert shell.run("enable", "demo").status == 0
    assert seen(shell, host).state == "enabled"


def test_list_and_show_have_the_state_that_skillhub_keeps_of_an_unlocked_skill(tmp_path):
    shell = Here(tmp_path)
    shell.skill("project/.agents/skills/demo")
    (tmp_path / "project/.git").mkdir()
    for command, state in (("disable", "disabled"), ("enable", "enabled")):
        assert shell.run(command, "demo").status == 0
        (row,) = shell.run("list", "--json").json["skills"]
        assert (row["state"], shell.run("show", "demo", "--json").json["state"]) == (state, state)
        assert f"  state         {state}\n" in shell.run("show", "demo").out


def test_disable_says_that_agents_still_read_a_skill_that_only_skillhub_leaves_out(machine):
    shell, host = machine
    done = shell.run("disable", "demo", "--json")
    (warning,) = done.json["warnings"]
    assert warning == (
        f"agents that do not load skills through skillhub still read {PLACES[host]}/demo/SKILL.md: "
        "skillhub disable demo --host HOST changes an agent's own settings (HOST: codex, opencode, gencode)"
    )
    warnings = shell.run("disable", "demo", "--host", host, "--json").json["warnings"]
    still = f"agents that do not load skills through skillhub still read {PLACES[host]}/demo/SKILL.md"
    assert warnings == ([] if host in FILES else [f"skillhub changes no settings of Claude Code: {still}"])


def test_disable_with_host_names_the_files_and_not_the_copies(machine):
    shell, host = machine
    done = shell.run("disable", "demo", "--host", host, columns=400)
    head, did, *files = done.out.splitlines()
    whose = "your" if host == "codex" else "this project's"
    assert head.startswith(f"in {whose} settings of ")
    assert (head.endswith(" and skillhub:"), did) == (host in FILES, "disabled demo")
    own, skillhubs = [shell.folder / FILES[host]] if host in FILES else [], shell.folder / "hub"
    written = [shell.project / line.strip() for line in files]
    assert [file for file in written if not file.is_relative_to(skillhubs)] == own
    assert all(map(os.path.isfile, written))
    assert any(file.is_relative_to(skillhubs) for file in written)


def test_a_dry_run_writes_nothing(machine):
    shell, host = machine
    assert shell.run("disable", "demo", "--host", host, "--dry-run").status == 0
    assert seen(shell, host).state == "enabled"


def test_a_rule_of_another_file_is_reported_with_the_file(tmp_path):
    shell = Here(tmp_path)
    shell.skill("project/.opencode/skills/demo")
    place = tmp_path / "project/opencode.json"
    place.write_text('{"permission": {"skill": {"d*": "deny"}}}')
    done = shell.run("enable", "demo")
    assert done.status == 0
    assert f"OpenCode: demo is disabled by a rule on several skills (in {place})" in done.err
    done = shell.run("enable", "demo", "--host", "opencode")
    assert done.status == 7
    assert str(place) in done.err
    done = shell.run("resolve", "$demo", "--host", "opencode", "--json")
    assert str(place) in done.json["mentions"][0]["message"]


def test_a_locked_skill_is_disabled_for_one_agent(tmp_path):
    shell = Here(tmp_path)
    shell.skill("src/demo")
    assert (
        shell.run("install", str(tmp_path / "src/demo"), "--yes", "--allow-unsigned", "--agent", "claude-code").status
        == 0
    )
    assert shell.run("disable", "demo", "--host", "claude-code").status == 0
    assert (tmp_path / "project/.claude/skills/demo").exists()
    assert seen(shell, "claude-code").state == "disabled"
    assert shell.run("enable", "demo", "--host", "claude-code").status == 0
    assert seen(shell, "claude-code").state == "enabled"


def test_disable_with_host_has_the_json_of_disable(machine):
    shell, host = machine
    shown = shell.run("disable", "demo", "--host", host, "--json").json
    assert (shown["changed"], [(each["name"], each["state"]) for each in shown["skills"]]) == (
        True,
        [("demo", "disabled")],
    )


def test_an_unknown_name_is_not_found(machine):
    shell, host = machine
    assert shell.run("disable", "nope").status == shell.run("disable", "nope", "--host", host).status == 3
    assert json.loads(shell.run("disable", "nope", "--json").out)["error"]["code"]


def test_a_skill_disabled_before_it_was_agreed_to_is_asked_about_as_a_new_one(shell):
    assert shell.run("install", "github:release-notes", "--yes").status == 0
    other = type(shell)(shell.folder / "other")
    for name in ("skillhub.lock", "skillhub.toml"):
        other.write(f"project/{name}", (shell.project / name).read_bytes())
    assert other.run("disable", "release-notes").status == 0
    (question,) = other.run("install", "--frozen", "--json").json["questions"]
    assert question["message"] == "Install release-notes 1.0.0?"
    said = "release-notes was not agreed to on this machine; skillhub enable release-notes\n"
    assert other.run("catalog").err.endswith(said)
    assert other.run("install", "--yes").status == 0
    assert not list((other.project / ".agents/skills").glob("release-notes"))
    assert other.run("enable", "release-notes", "--yes").status == 0
    assert (other.project / ".agents/skills/release-notes/SKILL.md").is_file()


def test_a_skill_that_another_process_removes_meanwhile_is_no_bug(shell):
    own = shell.skill("project/.agents/skills/mine")

    def remove(event, args):
        if event == "os.rename" and own.exists():
            shutil.rmtree(own)

    with heard_by(remove):
        done = shell.run("disable", "mine", "--json")
    assert (done.status, done.json["skills"]) == (0, [])


def test_a_skill_of_a_project_below_is_not_switched(tmp_path):
    shell = Here(tmp_path)
    (shell.project / "below/.git").mkdir(parents=True)
    assert (
        shell.run(
            "install", "github:code-review", "--yes", "--agent", "claude-code", cwd=shell.project / "below"
        ).status
        == 0
    )
    before = shell.files()
    for verb in ("disable", "enable", "remove"):
        done = shell.run(verb, "code-review", "--json")
        assert (done.status, done.error["code"]) == (3, "not-found"), done.out
    assert shell.files() == before


def test_an_unknown_agent_is_a_usage_error_for_a_skill_in_no_lock_too(tmp_path):
    shell = Here(tmp_path)
    shell.skill("project/.agents/skills/demo")
    assert shell.run("disable", "demo").status == 0
    done = shell.run("enable", "--agent", "nope", "demo", "--json")
    assert (done.status, done.error["message"]) == (2, "there is no agent 'nope'")
    assert shell.run("enable", "demo").status == 0

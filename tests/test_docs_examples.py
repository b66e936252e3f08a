"""The example hosts: each runs its recorded conversation, in the words of its host's own description."""

from __future__ import annotations

import json
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from skillhub.model.question import Answer
from skillhub.runtime import Surroundings, profile, remember, set_reach
from tests.runtime.test_discover import write

EXAMPLES = Path(__file__).resolve().parents[1] / "docs/examples"


def example(name):
    spec = spec_from_file_location(f"examples_{name}", EXAMPLES / f"{name}.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def around(tmp_path):
    (tmp_path / "project/.git").mkdir(parents=True)
    (tmp_path / "home").mkdir()
    environ = {"SKILLHUB_HOME": str(tmp_path / "hub")}
    return Surroundings(cwd=str(tmp_path / "project"), home=str(tmp_path / "home"), environ=environ)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_an_example_is_short_and_has_a_recorded_conversation(path):
    text = path.read_text("utf-8")
    assert 30 <= len(text.splitlines()) <= 80
    assert "RECORDED = [" in text
    assert len(example(path.stem).RECORDED) >= 5


def test_codewhale(around, tmp_path):
    for name in ("systematic-debugging", "test-driven-development", "aleph"):
        write(tmp_path / "project/.agents/skills" / name)
    write(tmp_path / "home/.agents/skills/root-cause-debugging")
    for namespace, name in (("superpowers", "systematic-debugging"), ("github", "gh-fix-ci")):
        write(tmp_path / f"plugins/{namespace}/{name}", name)
    plugins = {each: str(tmp_path / "plugins" / each) for each in ("superpowers", "github")}
    around = Surroundings(cwd=around.cwd, home=around.home, environ=around.environ, plugins=plugins)
    module = example("codewhale")
    (aleph,) = module.CodeWhale(around).catalog.named("aleph")
    set_reach(aleph, "disabled", "project", module.HOST, around)
    host = module.CodeWhale(around)
    for typed, shown, task in module.RECORDED:
        lines, messages = host.submit(typed)
        assert (lines, messages[-1]) == (shown, task)
        assert [each.startswith("<skill>\n<name>") for each in messages[:-1]] == [True] * (len(messages) - 1)
        assert len(messages) == 1 + sum(line.startswith("Using skill") for line in shown)
    assert "- systematic-debugging: " in host.system_prompt()


def test_codex(around, tmp_path):
    skills = tmp_path / "project/.agents/skills"
    for name in ("deploy", "review", "slack", "off"):
        write(skills / name)
    for place in (skills / "a/twin", tmp_path / "home/.agents/skills/twin"):
        write(place)
    (skills / "deploy/agents").mkdir()
    (skills / "deploy/agents/openai.yaml").write_text(
        "dependencies: {tools: [{type: env_var, value: DEPLOY_TOKEN, description: Where to}]}\n"
        "permissions: {file_system: {write: [./out]}}\n"
    )
    config = tmp_path / "home/.codex/config.toml"
    config.parent.mkdir()
    config.write_text('[[skills.config]]\nname = "off"\nenabled = false\n')
    module, asked = example("codex"), []

    def ask(question):
        asked.append((question.kind, question.subject))
        return Answer("yes", value="secret")

    host = module.Codex(around, ask, apps=["slack"])
    for typed, starts in module.RECORDED:
        items = host.turn(typed)
        assert [item["content"].startswith(start) for item, start in zip(items, starts, strict=True)] == [True] * len(
            items
        )
        assert {item["role"] for item in items} == {"user"}
    assert asked == [("env", "DEPLOY_TOKEN")]  # once a session
    (first, *_) = host.turn("it", [module.Selected("twin", str(skills / "a/twin"))])
    assert f"<path>{skills}/a/twin/SKILL.md</path>" in first["content"]
    assert host.sandbox("review") is None
    assert "off" not in host.instructions()


def test_claude_code(around, tmp_path):
    skills = tmp_path / "project/.claude/skills"
    head = "---\nname: {}\ndescription: Does it.\n{}---\n{}\n"
    hook = "hooks: {Stop: [{hooks: [{type: command, command: echo done, once: true}]}]}\n"
    write(
        skills / "deploy",
        text=head.format(
            "deploy", f"disable-model-invocation: true\n{hook}", "Deploy $0 (all: $ARGUMENTS) at !`git branch`."
        ),
    )
    write(
        skills / "background",
        text=head.format("background", "user-invocable: false\n", "Conventions of this project."),
    )
    write(
        skills / "research", text=head.format("research", "context: fork\nagent: Explore\n", "Research $ARGUMENTS.")
    )
    write(tmp_path / "plugins/tools/lint")
    plugins = {"tools": str(tmp_path / "plugins/tools")}
    around = Surroundings(cwd=around.cwd, home=around.home, environ=around.environ, plugins=plugins)
    module = example("claude_code")
    host = module.ClaudeCode(around, run=lambda command, folder: {"git branch": "main"}[command])
    for caller, given, part in module.RECORDED:
        assert part in getattr(host, caller)(*given)
    assert host.hooks == {"Stop": ["echo done"]}
    assert sorted(host.menu()) == ["/deploy", "/research", "/tools:lint"]
    assert "deploy" not in host.system_prompt()
    assert "background" in host.system_prompt()
    (text,) = host.sub_agent(b"---\nname: reviewer\nskills: background\n---\nReview.\n")
    assert "Conventions of this project." in text


def test_opencode(around, tmp_path):
    for name in ("git-release", "internal-docs", "experimental-ui"):
        write(tmp_path / "project/.opencode/skills" / name)
    (tmp_path / "project/.opencode/skills/git-release/notes.md").write_text("Notes.\n")
    rules = {"*": "allow", "internal-*": "deny", "experimental-*": "ask"}
    (tmp_path / "project/opencode.json").write_text(json.dumps({"permission": {"skill": rules}}))
    module, asked = example("opencode"), []
    host = module.OpenCode(around, ask=lambda skill: asked.append(skill.name))
    for given, start, part in module.RECORDED:
        output = host.call(given)
        assert (output.startswith(start), part in output) == (True, True), output
    assert asked == ["experimental-ui"]
    (tool,) = host.tools()
    assert (tool["name"], tool["parameters"]["required"]) == ("skill", ["name"])
    assert ("<name>git-release</name>" in tool["description"], "internal-docs" in tool["description"]) == (
        True,
        False,
    )
    assert sorted(host.commands(taken={"git-release"})) == ["experimental-ui"]
    assert [each["name"] for each in host.debug_skill()] == ["experimental-ui", "git-release", "internal-docs"]
    (skill,) = host.catalog.named("experimental-ui")
    remember(skill, True, "project", profile("opencode"), around)
    again = module.OpenCode(around, ask=lambda skill: asked.append(skill.name))
    assert again.call('{"name": "experimental-ui"}').startswith("<skill_content")
    assert asked == ["experimental-ui"]

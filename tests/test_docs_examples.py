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
    assert asked == [("env", "DEPLOY_TOKEN")]  # once in a session
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


def test_openoxide(around, tmp_path):
    skills = tmp_path / "project/.openoxide/skills"
    for name in ("deploy", "a/twin"):
        write(skills / name)
    write(skills / "secret", disable_model_invocation="true")
    write(tmp_path / "home/.agents/skills/twin")
    (skills / "deploy/agents").mkdir()
    permissions = "permissions: {network: true, file_system: {write: [./out]}}\n"
    (skills / "deploy/agents/openai.yaml").write_text(permissions)
    module, shown = example("openoxide"), []
    host = module.OpenOxide(around, agree=lambda delta: bool(shown.append(delta)))
    for typed, starts in module.RECORDED:
        items = host.turn(typed.format(twin=skills / "a/twin"))
        assert len(items) == len(starts), (typed, items)
        for item, start in zip(items, starts, strict=True):
            assert item.startswith(start.format(twin=skills / "a/twin")), item
    assert shown == [(f"writes '{skills}/deploy/out'", "uses the network")]
    assert (host.allowed.network, host.allowed.write) == (False, ())  # no consent was given
    assert "secret" not in host.instructions()
    assert [(scope, found) for scope, _, found in host.debug()] == [
        ("repo", ["deploy", "secret", "twin"]),
        ("user", ["twin"]),
    ]
    assert host.turn("x", [module.Selected("twin", str(skills / "a/twin"))])[0].startswith("<skill>\n<name>twin")
    write(skills / "late")
    host.reload()
    assert "late" in host.instructions()


def test_pegasus(around, tmp_path):
    commit = "Create a git commit following conventional commits:"
    review = "Review code changes for $ARGUMENTS:\n\n1. Get the diff"
    conventions = "# Project Conventions\n\n- Runtime: Bun (not Node)"
    for place, head, body in (
        ("skills/commit", "description: Use when committing changes\ndisable-model-invocation: true\n", commit),
        ("skills/code-review", "description: Use when reviewing code changes or PRs\ncontext: fork\n", review),
        ("data/skills/project-conventions", "description: Conventions\nuser-invocable: false\n", conventions),
    ):
        name = place.rpartition("/")[2]
        write(tmp_path / "project" / place, text=f"---\nname: {name}\n{head}---\n\n{body}\n")
    module = example("pegasus")
    host = module.MainAgent(around, submit=str.strip)
    for method, given, expected in module.RECORDED:
        assert getattr(host, method)(given) == expected
    assert host.system_prompt() == (
        "Available skills:\n- project-conventions: Conventions\n"
        "- code-review: Use when reviewing code changes or PRs\n\n"
        "Use the use_skill tool to invoke a skill when relevant."
    )
    assert sorted(host.menu()) == ["/code-review", "/commit"]
    (tool,) = host.tools()
    assert tool["description"] == "Invoke a skill by name. Use when a task matches an available skill."
    assert "only" in host.send("/project-conventions")


def test_gencode(around, tmp_path):
    skills = tmp_path / "project/.gen/skills"
    commit = write(skills / "commit", namespace="git", description="Create git commits with DCO sign-off")
    for name in ("scripts/commit.sh", "scripts/sign.sh", "references/CONVENTIONS.md"):
        (commit / name).parent.mkdir(exist_ok=True)
        (commit / name).write_text("x\n")
    write(skills / "my-skill", text="---\ndescription: Do something useful\n---\nDo something.\n")
    module = example("gencode")
    host = module.GenCode(around)
    for given, part in module.RECORDED:
        assert part.format(commit=commit) in host.call(**given)
    assert host.shown[:2] == ["⚡Skill(git:commit)", "  ⎿  Loaded: git:commit [2 scripts, 1 ref]"]
    assert host.shown[-2:] == ["⚡Skill(unknown-skill)", "  ✗  Skill not found: unknown-skill"]
    assert host.message("hello") == (
        "<system-reminder>\nUse the Skill tool to invoke these capabilities:\n\n"
        "- git:commit: Create git commits with DCO sign-off [2 scripts, 1 ref]\n"
        "- my-skill: Do something useful\n\n"
        'Invoke with: Skill(skill="name", args="optional args")\n</system-reminder>\n\nhello'
    )
    assert host.message("again") == "again"
    host.compacted()
    assert host.message("more").startswith("<system-reminder>")
    assert host.message('/commit -m "Fix bug"').startswith(
        '<skill-invocation name="git:commit">\nUser arguments: -m "Fix bug"'
    )
    (tool,) = host.tools()
    assert tool["parameters"]["required"] == ["skill"]
    assert [host.cycle("my-skill") for _ in range(3)] == ["disabled", "enabled", "active"]
    assert json.loads((tmp_path / "project/.gen/skills.json").read_text())["skills"] == {"my-skill": "active"}
    host.cycle("my-skill")
    assert "Do something." not in host.call(skill="my-skill")
    assert "disabled" in host.message("/my-skill")


def test_codelia(around, tmp_path):
    skills = tmp_path / "project/.agents/skills"
    write(skills / "release-notes", description="Draft release notes from commits")
    write(skills / "repo-review", description="Review PR with risk-first checklist")
    for name in ("a/twin", "b/twin", "forbidden"):
        write(skills / name)
    module, confirmed = example("codelia"), []
    rules = [
        module.PermissionRule("repo-review", "allow"),
        module.PermissionRule("*", "allow"),
        module.PermissionRule("forbidden", "deny"),
    ]
    host = module.Codelia(around, rules, confirm=lambda skill: bool(confirmed.append(skill.name)))
    for name, params, part in module.RECORDED:
        given = {key: value.format(skills=skills) for key, value in params.items()}
        assert part.format(skills=skills) in host.call(name, given), (name, given)
    assert confirmed == []
    asking = module.Codelia(around, [], confirm=lambda skill: confirmed.append(skill.name) or True)
    for _ in range(2):
        assert "<skill_context" in asking.call("skill_load", {"name": "repo-review"})
    assert confirmed == ["repo-review"]  # and remembered
    prompt = host.system_prompt()
    assert prompt.startswith("<skills_context>\n<skills_usage>")
    assert "<name>repo-review</name>\n    <description>Review PR with risk-first checklist</description>" in prompt
    assert "<scope>repo</scope>" in prompt
    listed = host.rpc("skills.list", {"force_reload": True})
    assert {each["scope"] for each in listed["skills"]} == {"repo"}
    inspected = host.rpc("context.inspect", {"include_skills": True})["skills"]
    assert [each["path"] for each in inspected["loaded"]] == [f"{skills}/a/twin", f"{skills}/repo-review"]
    assert host.rpc("context.inspect", {"include_skills": False}) == {}

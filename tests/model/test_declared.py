"""Needs and interface from ``agents/*.yaml`` and from other clients' metadata."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillhub.errors import ForbiddenVariable, SecurityError, UndeclaredVariable
from skillhub.model import needs as declared
from skillhub.model.tree import DECLARATIONS, File, Tree

OPENAI, _, OWN = DECLARATIONS


def read(openai=None, own=None, metadata=None):
    texts = {path: text for path, text in ((OPENAI, openai), (OWN, own)) if text is not None}
    files = {path: File(t if isinstance(t, bytes) else t.encode()) for path, t in texts.items()}
    return declared.read(Tree(files), metadata or {})


def spelled(found):
    return [need.spell() for need in found.requires]


TOKEN = """\
dependencies:
  tools:
    - {type: env_var, value: GITHUB_TOKEN, description: To read issues}
"""
SERVER = TOKEN + "    - {type: mcp, value: github, %s}\n"


def test_skill_without_declarations_has_defaults():
    found = read()
    assert (found.requires, found.permissions, found.implicit, found.warnings) == ((), (), True, ())


def test_all_keys_of_openai_yaml_are_read():
    found = read(
        SERVER % "transport: streamable_http, url: 'https://mcp.example.org/', description: Issues"
        + "interface: {display_name: GitHub, default_prompt: Look, colour: red}\n"
        + "policy: {allow_implicit_invocation: false}\n"
        + "permissions: {network: {enabled: true}, files: {write: [./out, ./log]}}\n"
    )
    assert spelled(found) == ["env:GITHUB_TOKEN", "mcp:github"]
    token, github = found.requires
    assert (token.description, token.required) == ("To read issues", True)
    assert (github.server.transport, github.server.host) == ("http", "mcp.example.org")
    assert found.interface == {"display_name": "GitHub", "default_prompt": "Look", "colour": "red"}
    assert found.permissions == ("files.write=./log", "files.write=./out", "network.enabled=true")
    assert not found.implicit
    assert not found.warnings


def test_skillhub_yaml_adds_programs_skills_and_variables_of_servers():
    found = read(
        own=SERVER % "command: npx -y gh-mcp, env: [GITHUB_TOKEN]"
        + "    - {type: program, value: gh, required: false}\n"
        + "    - {type: skill, value: git-basics}\n"
        + "    - {type: mcp, value: docs, url: 'https://d.example.org', bearer_token_env_var: GITHUB_TOKEN}\n"
    )
    assert spelled(found) == ["env:GITHUB_TOKEN", "mcp:docs", "mcp:github", "program:gh", "skill:git-basics"]
    needs = {need.spell(): need for need in found.requires}
    assert not needs["program:gh"].required
    assert needs["mcp:github"].server.command == ("npx", "-y", "gh-mcp")
    assert needs["mcp:github"].server.env == ("GITHUB_TOKEN",)
    assert needs["mcp:docs"].server.bearer == "GITHUB_TOKEN"


def test_skillhub_yaml_takes_precedence():
    found = read(
        SERVER % "command: old" + "interface: {display_name: Old, brand_color: red}\n"
        "policy: {allow_implicit_invocation: false}\n",
        SERVER % "command: new" + "interface: {display_name: New}\npolicy: {allow_implicit_invocation: true}\n",
    )
    assert [need.server.command for need in found.requires if need.server] == [("new",)]
    assert found.interface == {"display_name": "New", "brand_color": "red"}
    assert found.implicit


def test_attack_hidden_characters_of_the_interface_are_left_out():
    found = read('interface: {display_name: "A\\u202eB\\e[31m\\nC", "\\u200bx": y}\n')
    assert found.interface == {"display_name": "AB[31m C", "x": "y"}


def test_attack_hidden_characters_of_permissions_are_left_out():
    found = read('permissions: {file_system: {write: ["./out\\u202e\\u200b"]}, "net\\u200bwork": "a\\eb"}\n')
    assert found.permissions == ("file_system.write=./out", "network=ab")


def test_permissions_of_both_files_are_kept():
    assert read("permissions: {a: 1}", "permissions: [b, c]").permissions == ("a=1", "b", "c")


@pytest.mark.parametrize("alias", declared.OPENCLAW)
def test_metadata_of_openclaw_is_read_under_each_name(alias):
    found = read(
        metadata={
            alias: {
                "requires": {"env": ["A_KEY"], "bins": ["jq"], "anyBins": ["npm", "yarn"], "config": ["x"]},
                "primaryEnv": "B_KEY",
                "envVars": [{"name": "C_KEY", "required": "false", "description": "Optional"}],
            }
        }
    )
    assert [(need.spell(), need.required) for need in found.requires] == [
        ("env:A_KEY", True),
        ("env:B_KEY", False),
        ("env:C_KEY", False),
        ("program:jq", True),
    ]
    (warning,) = found.warnings
    assert (warning.code, "'npm', 'yarn'" in warning.message) == ("any-program", True)


def test_metadata_of_unknown_clients_is_ignored():
    assert read(metadata={"other": {"requires": {"env": ["PATH"]}}}).requires == ()


@pytest.mark.parametrize(
    "broken",
    [
        b"\xff\xfe",
        "- a\n- b\n",
        "a: &x 1\nb: *x\n",
        "dependencies: {tools: 5}",
        "dependencies: text",
        "dependencies: {tools: [text]}",
        "dependencies: {tools: [{type: oauth, value: x}]}",
        "dependencies: {tools: [{type: env_var}]}",
        "dependencies: {tools: [{type: env_var, value: A B}]}",
        "dependencies: {tools: [{type: env_var, value: [A]}]}",
        "dependencies: {tools: [{type: env_var, value: A, required: maybe}]}",
        "dependencies: {tools: [{type: mcp, value: x, command: a, url: 'https://b.example'}]}",
        "dependencies: {tools: [{type: mcp, value: x, url: 'http://b.example'}]}",
        "dependencies: {tools: [{type: mcp, value: x, transport: sse, url: 'https://b.example'}]}",
        'dependencies: {tools: [{type: mcp, value: x, command: "a \'b"}]}',
        "dependencies: {tools: [{type: mcp, value: x, command: a, env: {A: b}}]}",
        "dependencies: {tools: [{type: program, value: /bin/sh}]}",
        "interface: [a]",
        "interface: {display_name: [a]}",
        f"interface: {{display_name: {'x' * 1025}}}",
        "policy: {allow_implicit_invocation: perhaps}",
        "policy: no",
        "x" * 70_000,
    ],
)
def test_broken_file_gives_a_warning_and_hides_no_other(broken):
    found = read(broken, TOKEN)
    assert spelled(found) == ["env:GITHUB_TOKEN"]
    (warning,) = found.warnings
    assert warning.code == "bad-declaration"
    assert warning.where.startswith(OPENAI)


@pytest.mark.parametrize(
    ("value", "name", "wanted"),
    [
        ("gh", "gh", None),
        ("gh>=2.40", "gh", ">=2.40"),
        ("gh >=2.40, <3", "gh", ">=2.40, <3"),
        ("gh@^2", "gh", "^2"),
        ("gh @ 2.1.0", "gh", "2.1.0"),
        ("node~20.1", "node", "~20.1"),
        ("g++>=12", "g++", ">=12"),
        ("python3.11=3.11.4", "python3.11", "=3.11.4"),
        ("yt-dlp<2030", "yt-dlp", "<2030"),
        ("c++", "c++", None),
    ],
)
def test_versions_of_a_program_are_read(value, name, wanted):
    found = read(f"dependencies: {{tools: [{{type: program, value: '{value}', description: Reads checks}}]}}")
    (need,) = found.requires
    assert (need.spell(), need.range) == (f"program:{name}", wanted)
    assert need.description == (f"version {wanted}; Reads checks" if wanted else "Reads checks")
    (need,) = read(metadata={"openclaw": {"requires": {"bins": [value]}}}).requires
    assert (need.name, need.range, need.description) == (name, wanted, f"version {wanted}" if wanted else "")


@pytest.mark.parametrize(
    "value",
    [
        "gh>=",
        "gh>=2; rm -rf /",
        "gh@$(id)",
        "gh@latest",
        "gh>=2\n3",
        "gh>",
        ">=2",
        "@2",
        "/bin/gh>=2",
        "gh @ ",
        "gh==x",
        "gh>=" + "1" * 1000,
        "gh    >=2",
        "gh>=\u202e2",
        "é>=2",
    ],
)
def test_attack_invalid_versions_of_a_program_give_a_warning(value):
    found = read(f"dependencies: {{tools: [{{type: program, value: {json.dumps(value)}}}]}}")
    assert not found.requires
    assert [each.code for each in found.warnings] == ["bad-declaration"]


def test_one_broken_tool_does_not_hide_the_others():
    found = read(TOKEN + "    - {type: program, value: a/b}\n    - {type: program, value: jq}\n")
    assert spelled(found) == ["env:GITHUB_TOKEN", "program:jq"]
    assert found.warnings[0].where == f"{OPENAI}: dependencies.tools[1]"


@pytest.mark.parametrize("name", ["PATH", "ld_preload", "HTTPS_PROXY"])
def test_forbidden_variable_in_any_place_is_refused(name):
    tool = f"dependencies: {{tools: [{{type: env_var, value: {name}}}]}}"
    variable = {"envVars": [{"name": name, "required": "false"}]}
    for place in (
        {"openai": tool},
        {"own": tool},
        {"metadata": {"openclaw": {"requires": {"env": [name]}}}},
        {"metadata": {"clawdis": {"primaryEnv": name}}},
        {"metadata": {"clawdbot": variable}},
    ):
        with pytest.raises(ForbiddenVariable) as caught:
            read(**place)
        assert caught.value.where


@pytest.mark.parametrize(
    "server",
    [
        "command: a, env: [AWS_SECRET_ACCESS_KEY]",
        "url: 'https://e.example', bearer_token_env_var: AWS_SECRET_ACCESS_KEY",
        "url: 'https://e.example/?k=${AWS_SECRET_ACCESS_KEY}'",
        "url: 'https://e.example/?k={env:AWS_SECRET_ACCESS_KEY}'",
        "command: a $AWS_SECRET_ACCESS_KEY",
        "command: 'a ${env:AWS_SECRET_ACCESS_KEY}'",
        "env: [AWS_SECRET_ACCESS_KEY]",
    ],
)
def test_server_with_an_undeclared_variable_is_refused(server):
    with pytest.raises(UndeclaredVariable, match="AWS_SECRET_ACCESS_KEY") as caught:
        read(SERVER % server)
    assert (caught.value.code, caught.value.exit_code) == ("undeclared-variable", 5)
    assert caught.value.where == f"{OPENAI}: dependencies.tools[1]"


def test_server_may_use_a_variable_declared_later_or_elsewhere():
    server = "dependencies:\n  tools:\n    - {type: mcp, value: github, command: a, env: [GITHUB_TOKEN, KEY]}\n"
    found = read(server + TOKEN.split("tools:\n")[1], metadata={"openclaw": {"primaryEnv": "KEY"}})
    assert spelled(found) == ["env:GITHUB_TOKEN", "env:KEY", "mcp:github"]


def test_variable_inside_of_a_command_gives_a_warning():
    found = read(SERVER % "command: a $GITHUB_TOKEN")
    assert spelled(found) == ["env:GITHUB_TOKEN"]
    assert "expand" in found.warnings[0].message


node = st.recursive(
    st.sampled_from(["", "a", "true", "PATH", "mcp", "env_var", "A_KEY"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["requires", "env", "bins", "envVars", "name", "primaryEnv"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*declared.OPENCLAW, "x"]), node), st.binary(max_size=80))
def test_any_declaration_gives_needs_or_a_security_error(metadata, data):
    try:
        read(data, metadata=metadata)
    except SecurityError as error:
        assert error.code == "forbidden-variable"


def test_needed_skills_in_the_frontmatter_are_read():
    assert spelled(read(metadata={"requires": "base, acme:other@^1 third"})) == [
        "skill:base",
        "skill:other",
        "skill:third",
    ]
    found = read(metadata={"requires": ["base", "./no", {"x": "y"}]})
    assert (spelled(found), len(found.warnings)) == (["skill:base"], 2)


def test_sentence_in_requires_declares_no_skill():
    """Words of a sentence are valid names of skills; such needs stopped the install."""
    found = read(metadata={"requires": "GPU node Blackwell, Hopper and Ampere for benchmarking"})
    assert spelled(found) == []
    (warning,) = found.warnings
    assert (warning.code, "'GPU'" in warning.message) == ("bad-declaration", True)


def test_attack_a_file_with_endless_servers_is_not_read():
    """Each server is written to the files of all agents, one after the other: 400 took half a minute."""
    servers = [{"type": "mcp", "value": f"server{number}", "command": "npx pkg@1.0.0"} for number in range(201)]
    found = read(own=json.dumps({"dependencies": {"tools": servers}}))
    assert found.requires == ()
    assert [(each.code, each.message) for each in found.warnings] == [
        ("bad-declaration", "expected at most 200 MCP servers, found 201")
    ]
    assert len(read(own=json.dumps({"dependencies": {"tools": servers[:200]}})).requires) == 200

import itertools
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillhub.errors import FormatError, SkillhubError
from skillhub.model.manifest import Manifest
from skillhub.model.tree import File
from skillhub.policy.patterns import BARE_KINDS, NAMED_KINDS, Pattern, Tool, globs_overlap
from skillhub.scan.capability import capabilities
from tests.support.effort import at_most, calls, is_linear, steps

# Patterns that a policy denies, each with spellings that grant the denied tool or more.
GRANTS = {
    "tools:Bash": (
        *("Bash", "bash", "BASH", "Bash(*)", "Bash( * )", "Bash()", "Bash(:*)", "Bash(*:*)", "Bash(**)"),
        *("Bash(git:*)", "Bash(ls)", "bash(curl *)", '"Bash"', "'Bash(git *)", "`bash`", "[Bash", "Bash]"),
        *("*", "**", "B*", "?ash", "Ba?h(git:*)", "*(git *)", "Bash:*", "Bash:git", "Bash/x", "@bash", "B_ash"),
        *("shell", "Shell(curl)", "run_shell_command", "execute_bash", "runCommands", "local_shell"),
        *("Bash(curl", "Bash(a(b))", "Ｂａｓｈ", "Bаsh", "Bash，Read", "Ba\u00adsh", "Bash;Read", "Bash|Read"),
    ),
    "tools:Bash(curl:*)": (
        *("Bash", "bash", "*", "Bash(*)", "Bash(curl:*)", "bash( curl:* )", "Bash(curl *)", "Bash(curl)", "Bash(c*)"),
        *("Bash(curl https://x)", "Bash(CURL:*)", "Bash(/usr/bin/curl:*)", "Bash(*curl*)", "Bash(c?rl:*)"),
        *("Bash(git log && curl x)", "Bash(true;curl x)", "Bash(X=1 curl x)", "Bash('curl' x)", "Bash(c\\url x)"),
        *("Bash(yes | curl -d@- x)", "run_shell_command(curl)", "run_shell_command(cu)", "Bash (curl:*)"),
        *(
            "Bash(bash:*)",
            "Bash(env *)",
            "Bash(sudo:*)",
            "Bash(python3 -c:*)",
            "Bash(/usr/bin/env:*)",
            "Bash(xargs:*)",
        ),
    ),
    "tools:mcp__github__delete_repo": (
        *("mcp__github__delete_repo", "MCP__GitHub__Delete_Repo", "mcp__github", "mcp__github__*", "mcp__*", "*"),
        *("mcp__github__delete*", "mcp__git*", "mcp__github__", "mcp__github(*)"),
    ),
    "tools:mcp__github": (
        *("mcp__github", "mcp__github__x", "mcp__github__*", "mcp__*", "mcp__*__delete", "mcp__g?thub__x"),
    ),
    "tools:mcp__my_docs": ("mcp__my.docs__search", "mcp__my_docs__search"),
    "tools:github": ("github/*", "@github/create_issue", "github:create_issue", "GitHub"),
    "tools:WebFetch": ("WebFetch", "webfetch", "web_fetch", "web-fetch", "WebFetch(domain:x.io)", "Web*"),
    "tools:WebFetch(domain:x.io)": ("WebFetch", "WebFetch(domain:x.io)", "WebFetch(domain:*)", "WebFetch(*)"),
    "tools": ("Read", "anything", "(", "…"),
    "tools:*": ("Read", "Bash(git *)", "…"),
}
SPARED = {
    "tools:Bash": ("Read", "BashOutput", "mcp__bash", "Bas", "Bashful", "WebFetch", "—", "&", "-", "mcp__x__bash"),
    "tools:Bash(curl:*)": ("Bash(git:*)", "Bash(ls)", "Read", "Bash(cu)", "Bash(git commit -m curl)"),
    "tools:mcp__github__delete_repo": ("mcp__gitlab", "mcp__github__list", "mcp__gitlab__delete_repo", "Bash"),
    "tools:mcp__github": ("mcp__githubby", "mcp__gitlab__github", "github_x"),
    "tools:WebFetch(domain:x.io)": ("WebFetch(domain:y.io)", "Read"),
}
ROWS = [(pattern, tool) for pattern, tools in GRANTS.items() for tool in tools]


def in_frontmatter(text):
    data = f"---\nname: x\ndescription: y\n{text}\n---\n".encode()
    tree = {"SKILL.md": File(data)}
    return capabilities(tree, Manifest.read(tree))


@pytest.mark.parametrize(("pattern", "tool"), ROWS)
def test_attack_another_spelling_of_a_denied_tool_is_denied(pattern, tool):
    assert Pattern.parse(pattern).denies(f"tools:{tool}")


@pytest.mark.parametrize(("pattern", "tool"), [(p, t) for p, tools in SPARED.items() for t in tools])
def test_denial_applies_to_no_other_tool(pattern, tool):
    assert not Pattern.parse(pattern).denies(f"tools:{tool}")


@pytest.mark.parametrize(
    "text",
    [
        *("allowed-tools: Bash", "allowed-tools: Read, Bash", "allowed-tools: Read Bash(git:*)"),
        *("allowed-tools: [Read, Bash]", "allowed-tools:\n  - Read\n  - bash", 'allowed-tools: "Bash"'),
        *("allowed-tools: '\"Bash\", Read'", "allowed-tools: '[Bash, Read]'", "allowed-tools: Bash (curl:*)"),
        *("allowed-tools: '*'", "allowed-tools: |\n  - Read\n  - Bash", "allowedTools: Bash", "tools: Bash"),
        *("allowed_tools: [Bash]", "Allowed-Tools: Bash", "tools: {bash: true}", "tools: {allow: [Bash]}"),
        *("tools:\n  - name: Bash", "allowed-tools: [[Read, [Bash]]]", "tools: {bash: 'no'}"),
        *("allowed-tools: Read\ntools: Bash", "allowed-tools: Read,Bash,Glob", "allowed-tools: Bash(a (b) c)"),
        *("allowed tools: Bash", "Allowed.Tools: Bash", "tool: Bash", "toolset: [bash]"),
        *("allowed-tools: Bash(", "allowed-tools: >-\n  Read,\n  Bash", "tools: {Read: [Bash(ls)]}"),
    ],
)
def test_attack_a_denied_tool_is_found_in_any_form_of_frontmatter(text):
    found = in_frontmatter(text)
    assert any(Pattern.parse("tools:Bash").denies(each) for each in found), found
    assert not all(Pattern.parse("tools:Read").permits(each) for each in found), found


@pytest.mark.parametrize(
    ("pattern", "tool"),
    [
        *(("tools:Bash(git:*)", tool) for tool in ("Bash(git:*)", "Bash(git *)", "bash(git add *)", "Bash(git)")),
        *(("tools:Bash", tool) for tool in ("Bash", "bash", "Bash(*)", "Bash(x)", "B_ash")),
        *(("tools:mcp__docs", tool) for tool in ("mcp__docs", "mcp__docs__x", "mcp__docs__*")),
        *(("tools:*", "Bash"), ("tools", "x"), ("tools:Web*", "WebFetch(domain:x)"), ("tools:Read", "read")),
    ],
)
def test_pattern_permits_its_tools(pattern, tool):
    assert Pattern.parse(pattern).permits(f"tools:{tool}")


@pytest.mark.parametrize(
    ("pattern", "tool"),
    [
        *(("tools:Bash(git:*)", tool) for tool in ("Bash", "Bash(*)", "*", "Bash(g*)", "Bash(gitx)", "Bash(git")),
        *(("tools:Bash(git ?)", tool) for tool in ("Bash(git *)", "Bash(git:*)")),
        *(("tools:mcp__docs__x", tool) for tool in ("mcp__docs", "mcp__docs__*", "mcp__docs__y")),
        *(("tools:B?sh", "B*"), ("tools:Bash", "*"), ("tools:Bash", "shell"), ("tools:Read", "…")),
    ],
)
def test_attack_a_pattern_permits_no_wider_tool(pattern, tool):
    assert not Pattern.parse(pattern).permits(f"tools:{tool}")


def test_attack_the_cost_of_a_pattern_with_many_stars_is_linear():
    permits = Pattern.parse("tools:Bash(*a*a*b)").permits
    assert is_linear(lambda size: permits(f"tools:Bash({'a' * size})"), 400)


def test_attack_the_cost_of_two_globs_with_many_stars_is_linear():
    globs = [f"*{'a*' * 140}{end}" for end in "yz"]
    assert steps(lambda: globs_overlap(*globs)) < 10 * len(globs[0])


def test_attack_each_pattern_and_capability_is_parsed_once():
    """A policy of 64 kB with short patterns took minutes for a skill with 200 tools."""
    patterns = [Pattern.parse(f"tools:of-policy-{number}") for number in range(20)]
    tools = [f"tools:Bash(of-skill-{number})" for number in range(20)]
    [parsed] = calls(lambda: [each.denies(tool) for each in patterns for tool in tools], Tool.parse)
    assert 0 < parsed <= len(patterns) + len(tools)


def test_attack_equal_parts_of_a_tool_are_compared_once():
    denied = Pattern.parse("tools:Bash(*a*b)")
    [compared] = calls(lambda: denied.denies(f"tools:{'a.' * 40}b"), globs_overlap)
    assert 0 < compared < 10


OF_AGENTS = """
functions.Bash builtin.bash builtin/bash claude:Bash Read:Bash Read/Bash bash.* Bash? default_api:run_shell_command
functions.shell ShellTool runInTerminal2 terminal_run developer__shell shell_command bash_20250124 BashTool runTasks
PowerShell pwsh unified_exec container.exec code_interpreter local_shell_call launch-process write_stdin write_bash
cmd Zsh sh all ALL any true yes default @builtin @builtin/bash runInTerminal execute/runInTerminal terminal Execute
"""
WRAPPED = """
then curl *|if true; then curl *|! curl *|-- curl x|A="x y" curl *|A+=b curl *|>x curl *|2>/dev/null curl *|c$@url x
c${x}url x|$EDITOR x|true; ${X} y|xargs -n1 curl|env curl x|env -i curl x|sudo curl x|sudo -u x curl x|coproc curl x
time command curl x|source *|. *|make:*|docker:*|npm:*|npm exec *|uv run *|go run *|tar:*|git -c *|git --exec-path=x *
curl.exe *|/usr/bin/env /usr/bin/curl x|nohup nice curl x|bash -c curl|if curl x; then y|while curl x|time curl x
"""
HARMLESS = """
git commit -m curl|git log --format=*|ls -l *|git log > curl|echo curl|grep -r curl *|cat curl.txt|git log $X
"""


@pytest.mark.parametrize("tool", OF_AGENTS.split())
def test_attack_names_of_other_agents_for_a_denied_tool_are_denied(tool):
    assert Pattern.parse("tools:Bash").denies(f"tools:{tool}")


@pytest.mark.parametrize(
    "tool", ["Read", "Task", "Edit", "github/*", "WebFetch", "NotebookEdit", "TodoWrite", "shells"]
)
def test_denial_of_bash_leaves_tools_that_run_no_command(tool):
    assert not Pattern.parse("tools:Bash").denies(f"tools:{tool}")


@pytest.mark.parametrize("command", WRAPPED.strip().replace("\n", "|").split("|"))
def test_attack_a_denied_command_behind_another_command_is_denied(command):
    assert Pattern.parse("tools:Bash(curl:*)").denies(f"tools:Bash({command})")


def test_attack_a_long_value_of_a_variable_does_not_stop_the_policy():
    for value in ("b" * 900, "='b'" * 200):
        with at_most(3):
            assert not Pattern.parse("tools:Bash(curl:*)").denies(f"tools:Bash(A={value})")


@pytest.mark.parametrize("command", HARMLESS.strip().split("|"))
def test_command_that_only_mentions_a_denied_command_is_allowed(command):
    assert not Pattern.parse("tools:Bash(curl:*)").denies(f"tools:Bash({command})")


MALFORMED = (
    *(
        "tools:Bash(*",
        "tools:Bash(",
        "tools:Bash)",
        "tools:Bash(git:*",
        "tools:(git)",
        "tools:",
        "tools: ",
        "tools:-",
    ),
    *("tools:Bash(a)(b)", "tools:Bash((x))", "tools:Bash Read", "tools:*rm -rf*", "tools:Bаsh", "tools:Bash;x"),
    *("tool:Bash", "Bash", "tools :Bash", " tools:Bash", "nework", "network :x", "", ":", ":Bash", "[tools]:x"),
    *("network:https://evil.io", "network:evil.io/x", "network:evil.io:443", "network: evil.io", "network:"),
    *("network:evil.io,b.io", "network:user@evil.io", "network:*:443", "network:{a,b}.io"),
    *("env:$TOKEN", "env: TOKEN", "env:A B", "env:", "env:A,B", "env:A=1", "mcp:a b", "mcp:", "mcp:a/b"),
    *("scripts:x", "hooks:Stop", "shell:ls", "scripts:", "binary:a.exe", "agents:x", "permissions:", "t*:Bash("),
)


@pytest.mark.parametrize("text", MALFORMED)
def test_attack_a_pattern_without_possible_match_is_refused(text):
    with pytest.raises(FormatError):
        Pattern.parse(text)


@pytest.mark.parametrize(
    ("pattern", "capability"),
    [
        *(("scripts:*", "scripts"), ("hooks:*", "hooks"), ("*", "scripts"), ("*:*", "shell"), ("S*", "scripts")),
        *(("network:Evil.IO", "network:evil.io"), ("network:evil.io.", "network:evil.io")),
        *(("network:bücher.de", "network:xn--bcher-kva.de"), ("network:10.0.0.1", "network:167772161")),
        *(("network:10.0.0.1", "network:0xa000001"), ("network:10.0.0.1", "network:::ffff:10.0.0.1")),
        *(("network:2001:db8::1", "network:2001:db8:0:0:0:0:0:1"), ("network:[2001:DB8::1]", "network:2001:db8::1")),
        *(("network:evil.io", "network:*"), ("network:x", "network:?"), ("env:A", "env:*"), ("network", "network:?")),
        *(("env:aws_*", "env:AWS_KEY"), ("mcp:Docs", "mcp:docs"), ("permissions:net*", "permissions:network=all")),
        *(("permissions:x", "permissions:aaa…01234567"), ("mcp:x", "mcp:aaa…01234567")),
    ],
)
def test_attack_another_spelling_of_a_denied_capability_is_denied(pattern, capability):
    assert Pattern.parse(pattern).denies(capability)


def test_unknown_value_is_permitted_by_its_own_name_or_its_whole_kind():
    for capability in ("network:*", "network:?", "env:*"):
        kind = capability.partition(":")[0]
        assert Pattern.parse(kind).permits(capability)
        assert Pattern.parse(f"{kind}:*").permits(capability)
        assert not Pattern.parse(f"{kind}:x*").permits(capability)
    assert Pattern.parse("network:?").permits("network:?")
    assert not Pattern.parse("network:?").permits("network:*")


def test_every_kind_of_capability_is_a_valid_pattern():
    for kind in (*BARE_KINDS, *NAMED_KINDS):
        assert Pattern.parse(kind).denies(kind if kind in BARE_KINDS else f"{kind}:x")


GLOBS = st.text("ab*?", max_size=4)


@given(GLOBS, GLOBS)
def test_globs_overlap_where_a_text_fits_both(one, two):
    texts = ("".join(letters) for size in range(9) for letters in itertools.product("ab", repeat=size))
    assert globs_overlap(one, two) == any(fnmatchcase(each, one) and fnmatchcase(each, two) for each in texts)


@given(st.text(max_size=40), st.text(max_size=40))
def test_any_text_is_parsed_or_refused(pattern, value):
    for kind in (*BARE_KINDS, *NAMED_KINDS):
        try:
            read = Pattern.parse(f"{kind}:{pattern}")
        except SkillhubError:
            continue
        read.denies(f"{kind}:{value}")
        read.permits(f"{kind}:{value}")

"""Needs: their names, their servers, and the forbidden variables."""

import pytest

from skillhub.errors import ForbiddenVariable, FormatError
from skillhub.model.needs import McpServer, Requirement, is_forbidden, references, split_command

FORBIDDEN = [
    *("PATH", "HOME", "SHELL", "IFS", "ENV", "BASH_ENV", "LD_PRELOAD", "LD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES"),
    *("PYTHONPATH", "PYTHONSTARTUP", "PYTHON", "NODE_OPTIONS", "PERL5LIB", "RUBYOPT", "JAVA_TOOL_OPTIONS"),
    *("GIT_SSH_COMMAND", "SSL_CERT_FILE", "PIP_INDEX_URL", "UV_INDEX_URL", "NPM_CONFIG_REGISTRY"),
    *("JDK_JAVA_OPTIONS", "DOTNET_STARTUP_HOOKS", "PROMPT_COMMAND", "node_path", "CURL_CA_BUNDLE", "SSLKEYLOGFILE"),
    *("HTTPS_PROXY", "all_proxy", "SKILLHUB_HOME", "path", "Ld_Preload", "pip_index_url"),
]
ALLOWED = ["GITHUB_TOKEN", "PATHS", "MY_PATH", "HOMEPAGE", "PERL", "NODE_ENV", "EDITOR", "PROXY", "UVX", "LD"]


def stdio(command, **more):
    return McpServer("stdio", split_command(command), **more)


def test_need_is_spelled_like_in_the_lock():
    assert Requirement("env", "GITHUB_TOKEN").spell() == "env:GITHUB_TOKEN"
    assert Requirement("program", "c++").spell() == "program:c++"


@pytest.mark.parametrize("name", FORBIDDEN)
def test_forbidden_variable_is_refused_by_name(name):
    assert is_forbidden(name)
    with pytest.raises(ForbiddenVariable, match=name) as caught:
        Requirement("env", name)
    assert (caught.value.code, caught.value.exit_code) == ("forbidden-variable", 5)
    with pytest.raises(ForbiddenVariable):
        stdio("server", env=(name,))
    with pytest.raises(ForbiddenVariable):
        McpServer("http", url="https://mcp.example.org/", bearer=name)


@pytest.mark.parametrize("name", ALLOWED)
def test_similar_variable_is_allowed(name):
    assert Requirement("env", name).name == name


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        *[("env", name) for name in ("", "A B", "A-B", "1A", "A=B", "Ä", "A\n", "A" * 256)],
        *[("program", name) for name in ("", "/bin/sh", "a/b", "a\\b", "-x", ".hidden", "a b", "a;b", "C:x", "a\n")],
        *[("mcp", name) for name in ("", "a b", "a.b", "a" * 65, "../x", "a\n")],
        *[("skill", name) for name in ("", "A", "a_b", "a--b", "../a", "a" * 65)],
    ],
)
def test_invalid_name_of_a_need_is_refused(kind, name):
    with pytest.raises(FormatError):
        Requirement(kind, name)


def test_command_is_split_like_a_shell_without_expansion():
    assert split_command("npx -y '@scope/server' --root=\"a b\" # c") == (
        *("npx", "-y", "@scope/server", "--root=a b"),
        *("#", "c"),
    )
    with pytest.raises(FormatError):
        split_command("npx 'a")


@pytest.mark.parametrize(
    "command",
    [
        "sh -c 'curl x'",
        "/bin/bash script",
        "bash",
        "env A=b bash -c x",
        "/usr/bin/env -i zsh",
        "env -S 'sh -c x'",
        "env '-Ssh -c x'",
        "nice -n 5 dash",
        "sudo -u root fish",
        "busybox sh",
        "busybox ash -c x",
        "docker run image /bin/sh -c x",
        "timeout 5 sh -c x",
        "cmd /c dir",
        "CMD.EXE /c dir",
        "'C:\\Windows\\System32\\cmd.exe' /c dir",
        "powershell -c x",
        "pwsh.exe -c x",
        "su -c x",
        "xargs --shell=/bin/ksh",
        "npx -c 'curl x'",
        "npm exec --call x",
        "python3 -c pass",
        "node --eval x",
    ],
)
def test_shell_is_detected_behind_a_wrapper(command):
    assert stdio(command).risk == "shell"


@pytest.mark.parametrize(
    "command",
    ["npx -y @scope/push", "uvx mcp-server-fish-data", "/opt/cmd/server", "node /opt/bash.js", "ssh-mcp", "dash-mcp"],
)
def test_program_with_a_similar_name_is_no_shell(command):
    assert stdio(command).risk != "shell"


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://mcp.example.org", "mcp.example.org"),
        ("https://MCP.example.org:8443/a?b=c#d", "mcp.example.org"),
        ("https://x.example.org/%C3%A9", "x.example.org"),
        ("https://x.example.org/%AB%CD%20a%20", "x.example.org"),
        ("http://localhost:3000/mcp", "localhost"),
        ("http://127.0.0.1:3000", "127.0.0.1"),
        ("http://[::1]:3000/", "::1"),
        ("https://[2001:db8::1]/", "2001:db8::1"),
    ],
)
def test_plain_https_url_is_accepted(url, host):
    assert McpServer("http", url=url).host == host


@pytest.mark.parametrize(
    "url",
    [
        "http://mcp.example.org",
        "http://127.0.0.1.evil.example/",
        "http://localhost.evil.example/",
        "http://localhost@evil.example/",
        "https://user:pass@mcp.example.org/",
        "https://a\\@evil.example/",
        "https://аpple.com/",
        "https://mcp.example.org/a b",
        "https://mcp.example.org\n",
        "https:///x",
        "https://-x/",
        "ftp://mcp.example.org",
        "file:///etc/hosts",
        "javascript:alert(1)",
        "//mcp.example.org",
        "",
        "https://x.example/" + "a" * 1024,
    ],
)
def test_unsafe_url_of_a_server_is_refused(url):
    with pytest.raises(FormatError):
        McpServer("http", url=url)


@pytest.mark.parametrize(
    "text",
    [
        "$TOKEN",
        "${TOKEN}",
        "${env:TOKEN}",
        "{env:TOKEN}",
        "a$TOKEN",
        "${input:x}",
        "{file:~/.netrc}",
        "$(id)",
        "%TOKEN%",
        "a%_X%",
    ],
)
def test_expandable_text_is_refused(text):
    with pytest.raises(FormatError, match="expand"):
        McpServer("stdio", ("server", text))
    with pytest.raises(FormatError):
        McpServer("http", url=f"https://x.example/?{text}")


def test_references_finds_every_spelling():
    assert references("a $B ${C} ${env:D} {env:E} $F-x {file:g} $1") == ("B", "C", "D", "E", "F", "1")
    assert references("https://x.example/%20a%20b") == ()


def test_command_with_hidden_characters_is_refused():
    with pytest.raises(FormatError, match="all of them visible, found"):
        McpServer("stdio", ("server", "a\u202eb"))


@pytest.mark.parametrize(
    "server",
    [
        {"transport": "stdio"},
        {"transport": "http"},
        {"transport": "http", "command": ("a",)},
        {"transport": "stdio", "url": "https://x.example"},
        {"transport": "http", "command": ("a",), "url": "https://x.example"},
        {"transport": "http", "url": "https://x.example", "env": ("A",)},
        {"transport": "stdio", "command": ("a",), "bearer": "A"},
        {"transport": "stdio", "command": ("a",), "env": ("A B",)},
    ],
)
def test_contradictory_server_is_refused(server):
    with pytest.raises(FormatError):
        McpServer(**server)


def test_variables_of_a_server_are_listed():
    assert stdio("a", env=("A", "B")).variables == ("A", "B")
    assert McpServer("http", url="https://x.example", bearer="C").variables == ("C",)

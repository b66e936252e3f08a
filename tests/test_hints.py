"""Commands in hints: one function makes them and quotes each value as one argument of a shell."""

import ast
import re
import shlex
import subprocess

import pytest

from skillhub.cli.table import COMMANDS
from skillhub.formats.text import as_command, as_local
from tests.support.source import MODULES, REPO, nodes

_COMMAND = re.compile(rf"\bskillhub (?:COMMAND|{'|'.join(sorted(COMMANDS))})\b(?:[^;,:.)]|[,:.](?=\S))*\Z")
HOSTILE = (
    *("a b", "$(touch pwned)", "`touch pwned`", "a;touch pwned", "a&touch pwned", "a|touch pwned", "a\ntouch pwned"),
    *("'", "';touch pwned;'", '";touch pwned;"', "\\", "a\\'b", ">pwned", "<(touch pwned)", "~", "*", "!!", "#a"),
    *("${IFS}touch${IFS}pwned", "a\rtouch pwned", "{a,b}", "a=b", "=ls", "$'\\x27'", "é", "", "\t", "%PATH%"),
)


def texts(nodes):
    """Yield each composed text: its parts, a string for a literal and None for a value."""
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            yield node, [each.value if isinstance(each, ast.Constant) else None for each in node.values]
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mod):
            left = node.left.values[-1] if isinstance(node.left, ast.JoinedStr) else node.left
            if isinstance(left, ast.Constant) and isinstance(left.value, str):
                yield node, [left.value, None]
        elif (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format"
        ) and isinstance(node.func.value, ast.Constant):
            yield node, [str(node.func.value.value).partition("{")[0], None]


def unquoted(nodes):
    """Yield the places of values in our commands that were not made of arguments."""
    for node, parts in texts(nodes):
        written = ""
        for part in parts:
            if part is None and _COMMAND.search(written):
                yield node.lineno
            written += part if part is not None else "\0"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(REPO)))
def test_attack_every_value_in_a_command_is_quoted(path):
    found = [f"{path}:{line}" for line in unquoted(nodes(path))]
    assert not found, "make it with as_command or command"


def test_an_unquoted_value_is_found():
    for code in (
        'f"run skillhub install {path}"',
        'f"skillhub registry refresh --role {role}"',
        'f"if it is meant: skillhub source add {alias} {url}"',
        '"skillhub remove " + name',
        '"skillhub remove %s" % name',
        '"skillhub remove {}".format(name)',
        'f"skillhub key show{name}"',
        'f"a {b}: skillhub install ./{path} takes it"',
    ):
        assert list(unquoted(ast.walk(ast.parse(code)))), code
    for code in (
        'f"{as_command(a)} adds {b}"',
        'f"skillhub install, then {a}"',
        'f"another skillhub process has {a}"',
    ):
        assert not list(unquoted(ast.walk(ast.parse(code)))), code


@pytest.mark.parametrize("shell", ["sh", "bash"])
@pytest.mark.parametrize("value", HOSTILE)
def test_attack_a_pasted_command_runs_nothing_else(value, shell, tmp_path):
    words = ["printf", "%s\\0", value, as_local(value)]
    done = subprocess.run([shell, "-c", as_command(*words)], cwd=tmp_path, capture_output=True, check=True)
    assert done.stdout.decode().split("\0")[:2] == [value, as_local(value)]
    assert shlex.split(as_command(*words)) == words
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", ["--yes", "-g", "https:", "a", "a/b", "github:x"])
def test_attack_a_path_is_no_option_and_no_reference(path):
    assert as_local(path) == f"./{path}"
    assert as_local(f"/{path}") == f"/{path}"

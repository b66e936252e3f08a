"""Which environment variables programs read, where they name them; a name that is put together is not seen."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import islice

# More names than anybody reads are one `*`; so is more that looks like a reading than an honest program has.
NAMES_MAX = 200
_MATCHES_MAX = 50_000
_BYTES_MAX = 4 * 1024 * 1024  # a second, if they were written for it; no honest programs are as large
_NAME = rb"([A-Za-z_][A-Za-z0-9_]{0,254}+)(?![A-Za-z0-9_])"
_UPPER = rb"([A-Z_][A-Z0-9_]{0,254}+)(?![A-Za-z0-9_])"
_NOT_SET = rb"(?!\s{0,8}+\]?\s{0,8}+=[^=~])"
_WORD = rb"[bru]?[\"'`]" + _NAME + rb"[\"'`]" + _NOT_SET
# A name in quotes, as an index or as the first argument; a member, as JavaScript has them.
_QUOTED = rb"\s{0,99}+[\[({]\s{0,99}+(?:key\s{0,9}+=\s{0,9}+)?" + _WORD
_MEMBER = rb"(?:\??\." + _NAME + rb"(?!\()" + _NOT_SET + rb"|(?:\?\.|\.get|\.has)?" + _QUOTED + rb")"
_POWER = rb"nv:(?:(?<=\$[eE]nv:)|(?<=\$\{[eE]nv:))" + _NAME + _NOT_SET
_PROCESS = rb"\.env(?:(?<=process\.env)|(?<=process\?\.env)|(?<=meta\.env)|(?<=Bun\.env)|(?<=Deno\.env))"
_PYTHON = (
    rb"environb?(?:\.(?:copy|items|values)\(|(?:\.(?:get|pop|setdefault|__getitem__))?" + _QUOTED + rb")"
)
_RUBY = rb"ENV(?:(?<=\$_ENV)|(?<![A-Za-z0-9_]ENV))(?:\.(?:fetch|key\?|dig|get))?" + _QUOTED
_RUBY_ALONE = rb"ENV\.(?<!\wENV\.)(?:fetch[ \t]{1,9}+" + _WORD + rb"|(?:to_h|to_a|each)\b)"
_PIPED = rb"(?:(?<=[\"'`;&|]env)|(?<=[;&|] env)|(?<=printenv)|(?<=bin/env)|(?<=\$\(env))[ \t]{0,9}+[|>]"
_PIPED += rb"|(?:(?<=\$\(env)|(?<=\$\(printenv))\)"
_GO = rb"Env(?:(?<=LookupEnv)|ironmentVariable)" + _QUOTED
# What the patterns have in common is looked for in the whole file first, which is what keeps this fast. Few skills
# need any of them: `re` compiles a pattern when it is first used, and keeps it. One that has no name takes them all.
_ACCESS = (
    (b"environ", _PYTHON),
    (b"tenv", rb"etenvb?" + _QUOTED, rb"printenv[\"', \t]{1,9}+" + _UPPER),  # Python, PHP, Lua, R, Java
    (b".env", _PROCESS + _MEMBER),  # JavaScript
    (b"env", rb"env(?:" + _PIPED + rb"|(?<=process\[.env)[\"'`]\]" + _MEMBER + rb")"),
    (b"env:", _POWER, rb"env::var(?:_os)?" + _QUOTED, rb"env::vars"),  # PowerShell, Rust
    (b"Env", _GO, _POWER, rb"os\.Environ\(\)"),
    (b"ENV", _RUBY, _RUBY_ALONE, rb"\$ENV[{.]" + _NAME),  # Ruby, PHP, Julia; Perl, jq
)
_TEXT = rb"xpand(?:Env|vars)\(\s{0,9}+[bru]?[\"'`]([^\"'`\n]{0,2000}+)"  # Go, Python
# The whole environment: by another name or taken apart, where `=` is before it; as one value, after one of these.
_BARE = rb"(?!\w|\??\s{0,9}+[.\[])"
_NAMED = ((b"os.environ", rb"os\.environ" + _BARE), (b".env", _PROCESS + _BARE))
_OWNERS = (b"process", b"process?", b"import.meta", b"Bun", b"Deno")
_ALIAS = rb"([A-Za-z_]\w{0,30})\s{0,9}(?::[^=\n]{0,40})?\Z"
_ALIASES_MAX = 16
_SOUGHT = rb"[\"']" + _NAME + rb"[\"']\s{1,9}+(?:not\s{1,9}+)?in\Z"
_KEY = rb"(?:^|,)\s*+" + _NAME
_TAKER = (
    rb"(?:\*\*|\.{3}|[:|]|(?<!\.)dict\(|\{\},|(?:copy|str|repr|print|stringify|entries|values)\(|data=)\s*\Z"
)

_SHELL = (".sh", ".bash", ".zsh", ".ksh")
_SHEBANG = rb"(?:\xef\xbb\xbf)?#![^\n]{0,200}\b(?:ba|da|k|z|a)?sh\b"
_READ = rb"\$(?<!\\\$)(?:\{[#!]?)?" + _UPPER
_IN_SHELL = (
    (b"-v ", rb"-v(?<!command -v) {1,9}+" + _UPPER + rb"(?=[ \t]{0,9}+(?:\]|&&|\|\|))"),
    (b"jq", rb"env\.(?<![\w.$]env\.)" + _UPPER),
    (b"env", rb"\n[ \t]*+(?:/usr/bin/)?(?:print)?env(?:[ \t]++-0)?[ \t]*+(?:[|>;](?!\w++[|)])|\n|\Z)"),
)
# A value may go on over lines; it is read to its end, so that no line within it is one of its own.
_VALUE = (
    rb"(?:[^\s;&|\"'\\`()$]|\"(?:[^\"\\]|\\.)*+\"|'[^']*+'|`[^`]*+`|\\.|\$\{[^}\n]*+\}"
    rb"|\$?\((?:[^()]|\((?:[^()]|\([^()]*+\))*+\))*+\)|\$)*+"
)
# Only a command of its own, at the start of a line or after another such: `X=1 program` sets it for that program,
# `X=1 |` and `X=1 &` for nobody.
_SET = (
    rb"(?ms)(?:^(?<!\\\n)|(?<=;))[ \t]*+((?:export|local|readonly|declare|typeset)\b(?:[ \t]++-\w++)*+[ \t]++)?"
    + rb"([A-Z_][A-Z0-9_]{0,254}+)="
    + _VALUE
    + rb"((?=[ \t]*+(?:[;\r\n]|\Z|&&|\|\|)|[ \t]++#)|(?(1)(?=[ \t]++\w)|(?!)))?"
)
_FILLED = (
    rb"(?m)^[ \t]*+(?:(?:while|until|if|IFS=\S{0,20}+)[ \t]++)*+(?:(?:for|select|printf -v|getopts[ \t]++\S++)[ \t]++"
    + _UPPER
    + rb"[^\n;]*+|((?:read|mapfile|readarray)\b(?:[ \t]++(?:\"[^\"\n]*+\"|'[^'\n]*+'|[^\s;<>|&#\"'`()]++))*+))"
)
_NO_NAMES = (
    rb"(?<!mapfile )(?<!readarray )-\w*[pdnNtuicCO][ \t]++(?:\"[^\"]*+\"|'[^']*+'|\S++)|\"[^\"]*+\"|'[^']*+'"
)
_FILLS = rb"(?<![\w${\"'-])" + _UPPER
_HERE = (
    rb"\n(?:[ \t]*+#[^\n]*+|(\t*+)([^\s#]{1,64})(?=\n|\Z))"
    rb"|<<(?<!<<<)(?!<)(-?)[ \t]*+((?:'[^'\n]*'|\"[^\"\n]*\"|\\.|[^\s;&|<>()'\"\\]){1,64})"
)
_HARMLESS = frozenset(
    b"_ PATH HOME PWD USER LANG LANGUAGE TERM SHELL TMPDIR IFS OLDPWD HOSTNAME LOGNAME"
    b" ENV LINENO RANDOM SRANDOM SECONDS EPOCHSECONDS EPOCHREALTIME UID EUID PPID GROUPS REPLY SHLVL"
    b" OPTARG OPTIND OPTERR FUNCNAME PIPESTATUS DIRSTACK COLUMNS LINES OSTYPE HOSTTYPE MACHTYPE SHELLOPTS"
    b" MAPFILE COPROC PS1 PS2 PS3 PS4"
    b" NF NR FNR FS OFS RS ORS FILENAME"  # awk, between single quotes
    b" ID ID_LIKE VERSION_ID VERSION_CODENAME UBUNTU_CODENAME PRETTY_NAME".split()  # /etc/os-release
)
_HARMLESS_PREFIXES = (b"LC_", b"BASH")


class _TooMany(Exception):
    """There is no end of it."""


def variables(files: Iterable[tuple[str, bytes]]) -> frozenset[str]:
    """Return the variables that these programs read, by path and content; ``*`` alone where they are too many.

    What every process has (``PATH``, ``HOME``) and what shells set themselves is left out. In shell only names of
    capital letters count, and none that the same file sets in a command of its own, at the start of a line, before it
    reads it. Whether that command is ever run is not known: a file that means to hide a name can.

    ``*`` is one of them where a program takes the whole environment as a value (``os.environ.copy()``, ``env |``).
    Most only hand it on; that they do not send it is nothing that can be seen, and few do it.
    """
    budget = _Budget()
    found: set[bytes] = set()
    left = _BYTES_MAX
    try:
        for path, data in files:
            left -= len(data)
            if left < 0:
                return frozenset("*")
            found |= _accessed(data, budget)
            if _is_shell(path, data):
                found |= _expanded(data, budget)
            found = {
                name for name in found if name not in _HARMLESS and not name.startswith(_HARMLESS_PREFIXES)
            }
            if len(found) > NAMES_MAX:
                return frozenset("*")
    except _TooMany:
        return frozenset("*")
    return frozenset(name.decode("ascii") for name in found)


class _Budget:
    """How many matches may still be looked at; beyond them a file is no program but an attack on its reader."""

    def __init__(self) -> None:
        self._left = _MATCHES_MAX

    def matches(self, pattern: bytes, data: bytes) -> list[re.Match[bytes]]:
        """Return the matches."""
        found = list(islice(re.finditer(pattern, data), self._left + 1))
        self._left -= len(found)
        if self._left < 0:
            raise _TooMany
        return found

    def all(self, pattern: bytes, data: bytes) -> Iterator[bytes]:
        """Yield the group that matched, or ``*`` where there is none."""
        return (match[match.lastindex] if match.lastindex else b"*" for match in self.matches(pattern, data))


def _accessed(data: bytes, budget: _Budget) -> set[bytes]:
    found: set[bytes] = set()
    for needle, *patterns in _ACCESS:
        if needle in data:
            for pattern in patterns:
                found.update(budget.all(pattern, data))
    if b"xpand" in data:
        for text in budget.all(_TEXT, data):
            found.update(budget.all(rb"\$\{?" + _NAME, text))
    for needle, pattern in _NAMED:
        if needle in data:
            found |= _renamed(pattern, data, budget)
    return found


def _renamed(pattern: bytes, data: bytes, budget: _Budget) -> set[bytes]:
    """Return what is read by another name of the environment, or taken out of it by `{A, B} = process.env`."""
    found: set[bytes] = set()
    aliases: set[bytes] = set()
    for match in budget.matches(pattern, data):
        before = data[max(0, match.start() - 2000) : match.start()]
        for owner in _OWNERS:
            before = before.removesuffix(owner)
        before = before.rstrip()
        left, right = before[:-1].rstrip(), before[-1:]
        if right == b"=" and left.endswith(b"}"):
            keys = left[:-1].rpartition(b"{")
            found.update(budget.all(_KEY, keys[2]) if keys[1] else (), [b"*"] if b"..." in keys[2] else ())
        elif re.search(_TAKER, before[-40:]):
            found.add(b"*")
        elif right == b"n":
            found.update(budget.all(_SOUGHT, before[-300:]))
        elif right == b"=":
            aliases.update(budget.all(_ALIAS, left[-80:]))
    if len(aliases) > _ALIASES_MAX:
        raise _TooMany
    for name in aliases:
        found.update(budget.all(name + rb"(?<![\w.$]" + name + rb")" + _MEMBER, data))
        if re.search(name + rb"(?:(?<=[(.*]" + name + rb")\s{0,9}+[,)}]|\.(?:copy|items|values)\()", data):
            found.add(b"*")
    return found


def _is_shell(path: str, data: bytes) -> bool:
    """Say whether a shell would run it: by its first line, else its name, else because nothing says otherwise."""
    if data.startswith((b"#!", b"\xef\xbb\xbf#!")):
        return re.match(_SHEBANG, data) is not None
    return path.lower().endswith(_SHELL) or ("." not in path.rpartition("/")[2] and b"\0" not in data)


def _expanded(data: bytes, budget: _Budget) -> set[bytes]:
    """Return what a shell reads before the file has set it."""
    data = b"\n" + data
    read: dict[bytes, int] = {}
    for match in budget.matches(_READ, data):
        read.setdefault(match[1], match.start())
    found: set[bytes] = set()
    for needle, pattern in _IN_SHELL:
        if needle in data:
            found.update(budget.all(pattern, data))
    if not read:
        return found
    edges = _here_documents(data, budget) if b"<<" in data else []
    own: dict[bytes, int] = {}
    after = -1
    for match in budget.matches(_SET, data):
        begins = data[match.start() - 1] == ord("\n") or match.start() == after
        if begins and match[3] is not None and bisect_right(edges, match.start()) % 2 == 0:
            own.setdefault(match[2], match.end())
            after = match.end() + 1
    for match in budget.matches(_FILLED, data):
        if bisect_right(edges, match.start()) % 2 == 0:
            for name in budget.all(_FILLS, match[1] or re.sub(_NO_NAMES, b"", match[2])):
                own[name] = min(match.end(), own.get(name, len(data)))
    return found.union(name for name, at in read.items() if own.get(name, len(data)) > at)


def _here_documents(data: bytes, budget: _Budget) -> list[int]:
    """Return where here-documents begin and end, in turns; where one may be within another, both are open."""
    edges: list[int] = []
    waited: set[tuple[bytes, bytes]] = set()
    for match in budget.matches(_HERE, data):
        was = bool(waited)
        if match[4]:
            waited.add((re.sub(rb"['\"\\]", b"", match[4]), match[3]))
        elif match[2]:
            waited.discard((match[2], b"-"))
            if not match[1]:
                waited.discard((match[2], b""))
        if was != bool(waited):
            edges.append(match.end())
    return edges

"""Which environment variables programs read, where they name them; names that are put together are not seen."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise

from skillhub.model.matching import Budget, TooMany
from skillhub.model.variables_shell import expanded, is_shell

# More names than anybody reads are one `*`.
NAMES_MAX = 200
_BYTES_MAX = 4 * 1024 * 1024  # a second, if they were written for it; no honest programs are as large
_NAME = rb"([A-Za-z_][A-Za-z0-9_]{0,254}+)(?![A-Za-z0-9_])"
_UPPER = rb"([A-Z_][A-Z0-9_]{0,254}+)(?![A-Za-z0-9_])"
_NOT_SET = rb"(?!\s{0,8}+\]?\s{0,8}+=[^=~])"
_WORD = rb"[bru]?[\"'`]" + _NAME + rb"[\"'`]" + _NOT_SET
# A name in quotes, as an index or as the first argument; a member, as JavaScript has them.
_QUOTED = rb"\s{0,99}+[\[({]\s{0,99}+(?:key\s{0,9}+=\s{0,9}+)?" + _WORD
_MEMBER = rb"(?:\??\." + _NAME + rb"(?!\()" + _NOT_SET + rb"|(?:\?\.|\.get|\.has)?" + _QUOTED + rb")"
_POWER = rb"nv:(?:(?<=\$[eE]nv:)|(?<=\$\{[eE]nv:))" + _NAME + _NOT_SET
_PROCESS = rb"\.env(?:(?<=process\.env)|(?<=process\?\.env)|(?<=meta\.env)|(?<=Bun\.env)|(?<=Deno\.env)"
_PROCESS += rb"|(?<=process['\"]\)\.env))"
_PYTHON = (
    rb"environb?(?:\.(?:copy|items|values)\(|(?:\.(?:get|pop|setdefault|__getitem__))?" + _QUOTED + rb")"
)
_RUBY = rb"ENV(?:(?<=\$_ENV)|(?<![A-Za-z0-9_]ENV))(?:\.(?:fetch|key\?|dig|get))?" + _QUOTED
_RUBY_ALONE = rb"ENV\.(?<!\wENV\.)(?:fetch[ \t]{1,9}+" + _WORD + rb"|values_at" + _QUOTED
_RUBY_ALONE += (
    rb"|(?:to_[has]|to_hash|each|map|collect|select|filter|reject|values|sort|inspect|dup|clone)\b)"
)
_RUBY_WHOLE = rb"ENV(?<=[( ]ENV)(?:(?<=dump.ENV)|(?<=rate.ENV)|(?<=puts.ENV)|(?<=rint.ENV)|(?<=[\n ;]p.ENV))"
_RUBY_WHOLE += rb"(?!\w|\s{0,9}+[\[.])"
_DRIVE = rb"(?i:\b(?:gci|dir|ls|gi|gc|cat|type|get-(?:childitem|item|content))[ \t]{1,9}+"
_DRIVE += rb"(?:-path[ \t]{1,9}+)?[\"']?env:)(?!\$)"
_PIPED = rb"(?:(?<=[\"'`;&|]env)|(?<=[;&|] env)|(?<=printenv)|(?<=bin/env)|(?<=\$\(env))[ \t]{0,9}+[|>]"
_PIPED += rb"|(?:(?<=\$\(env)|(?<=\$\(printenv))\)"
_GO = rb"Env(?:(?<=LookupEnv)|ironmentVariable)" + _QUOTED
# What the patterns have in common is looked for around each `nv` and `NV` first, which is what keeps this fast. Few
# skills need any of them: `re` compiles a pattern when it is first used, and keeps it. One without a name takes all.
_ACCESS = (
    (b"environ", _PYTHON),
    (  # Python, PHP, Lua, R, Java
        b"tenv",
        rb"etenvb?" + _QUOTED,
        rb"printenv[\"', \t]{1,9}+" + _UPPER,
        rb"etenv(?:\(\s{0,9}+\)|[ \t]{0,9}+" + _WORD + rb")",
    ),
    (b".env", _PROCESS + _MEMBER),  # JavaScript
    (b"env", rb"env(?:" + _PIPED + rb"|(?<=process\[.env)[\"'`]\]" + _MEMBER + rb")"),
    (b"nv:", _DRIVE + rb"[\\/]?(?:" + _NAME + rb")?"),
    (b"env:", _POWER, rb"env::var(?:_os)?" + _QUOTED, rb"env::vars"),  # PowerShell, Rust
    (b"/environ", rb"/environ(?![\w/.-])"),  # of `/proc/self`
    (b"Env", _GO, _POWER, rb"os\.Environ\(\)", rb"EnvironmentVariables\("),
    (b"ENVIRON", rb"ENVIRON\s{0,9}+\[\s{0,9}+\\?[\"']" + _NAME, rb"ENVIRON(?<=\sENVIRON)\s{0,9}+\)"),  # awk
    (b"ENV", rb"%ENV\b", rb"\$_ENV(?!\w|\s{0,9}+\[)", _RUBY_WHOLE),
    (b"ENV", _RUBY, _RUBY_ALONE, rb"\$ENV[{.]" + _NAME),  # Ruby, PHP, Julia; Perl, jq
)
_TEXT = rb"xpand(?:Env|vars)\(\s{0,9}+[bru]?[\"'`]([^\"'`\n]{0,2000}+)"  # Go, Python
# The whole environment: by another name or taken apart, where `=` is before it; as one value, after one of these.
_BARE = rb"(?!\w|\??\s{0,9}+[.\[])"
_NAMED = ((b"os.environ", rb"os\.environ" + _BARE), (b".env", _PROCESS + _BARE))
_AS = rb"\s{1,9}+as\s{1,9}+([A-Za-z_]\w{0,30})"
_IMPORTED = (
    rb"from(?<!\wfrom)\s{1,9}+os\s{1,9}+import\b\s{0,9}(?:\([^)]{0,300}?|[^\n(;]{0,300}?)\b(environ|getenv)\b(?:"
    + _AS
    + rb")?"
)
_OS = rb"import(?<!\wimport)\s{1,9}+os" + _AS
# JavaScript's `process` itself, taken apart or called by another name.
_WHOLE = rb"process(?<=[=\s\"':.]process)[\"']?\)?(?!\s{0,9}+[\w.\[?(])"
_GIVEN = rb"(?:=\s{0,9}(?:globalThis\.|require\(\s{0,9}[\"'](?:node:)?)?|\bfrom\s{0,9}[\"'](?:node:)?)\Z"
_PART = rb"\benv\b(?:\s{0,9}+(?::|as\b)\s{0,9}+(?:([A-Za-z_]\w{0,30})|\{([^{}]*+)\}))?"
_OWNERS = (b"process", b"process?", b"import.meta", b"Bun", b"Deno")
_ALIAS = rb"([A-Za-z_]\w{0,30})\s{0,9}(?::[^=\n]{0,40})?\Z"
_ALIASES_MAX = 16
_SOUGHT = rb"[\"']" + _NAME + rb"[\"']\s{1,9}+(?:not\s{1,9}+)?in\Z"
_KEY = rb"(?:^|,)\s*+" + _NAME
_TAKER = (
    rb"(?:\*\*|\.{3}|[:|]|(?<!\.)(?:dict|list|sorted)\(|\{\},|(?:copy|str|repr|print|stringify|entries|values|dumps?)\("
    rb"|(?:data|json|params|headers)=|\bfor\s{1,9}\w{1,30}\s{1,9}in\b)\s*\Z"
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


def variables(files: Iterable[tuple[str, bytes]]) -> frozenset[str]:
    """Return the variables that these programs read, by path and content; ``*`` alone where they are too many.

    What every process has (``PATH``, ``HOME``) and what shells set themselves is left out. In shell only names of
    capital letters count, and none that the same file sets in a command of its own, at the start of a line, before it
    reads it. Whether that command is ever run is not known: so a name that looks like a secret (``…_TOKEN``) counts
    even then.

    ``*`` is one of them where a program takes the whole environment as a value (``os.environ.copy()``, ``env |``).
    Most only hand it on; that they do not send it is nothing that can be seen, and few do it.
    """
    budget = Budget()
    found: set[bytes] = set()
    left = _BYTES_MAX
    try:
        for path, data in files:
            left -= len(data)
            if left < 0:
                return frozenset("*")
            found |= _accessed(data, budget)
            if is_shell(path, data):
                found |= expanded(data, budget)
            found = {
                name for name in found if name not in _HARMLESS and not name.startswith(_HARMLESS_PREFIXES)
            }
            if len(found) > NAMES_MAX:
                return frozenset("*")
    except TooMany:
        return frozenset("*")
    return frozenset(name.decode("ascii") for name in found)


def _accessed(data: bytes, budget: Budget) -> set[bytes]:
    around = _around(data)
    found = {
        name
        for needle, *patterns in _ACCESS
        if needle in around
        for pattern in patterns
        for name in budget.all(pattern, data)
    }
    if b"xpand" in data:
        for text in budget.all(_TEXT, data):
            found.update(budget.all(rb"\$\{?" + _NAME, text))
    aliases: set[bytes] = set()
    named = [pattern for needle, pattern in _NAMED if needle in around]
    if b"env" in around and b"process" in data:
        found |= _of_process(data, aliases, budget)
    if (b"environ" in around or b"getenv" in around) and b"import" in data:
        found |= _imported(data, aliases, budget)
        named += [each + rb"\.environ" + _BARE for each in {*budget.all(_OS, data)}]
    for pattern in named:
        found |= _renamed(pattern, data, aliases, budget)
    return found | _by_alias(aliases, data, budget)


def _around(data: bytes) -> bytes:
    """Return each ``nv`` and ``NV`` of a file, with up to five bytes before and behind it."""
    return b" ".join(
        before[-5:] + letters + behind[:5]
        for letters in (b"nv", b"NV")
        for before, behind in pairwise(data.split(letters))
    )


def _imported(data: bytes, aliases: set[bytes], budget: Budget) -> set[bytes]:
    """Return what Python's `getenv` reads by another name; other names of its environment go to ``aliases``."""
    found: set[bytes] = set()
    for match in budget.matches(_IMPORTED, data):
        if match[1] == b"environ":
            aliases.add(match[2] or match[1])
        elif match[2]:
            found.update(budget.all(match[2] + _QUOTED, data))
    return found


def _of_process(data: bytes, aliases: set[bytes], budget: Budget) -> set[bytes]:
    """Return what is taken out of `process` in one go; other names of its environment go to ``aliases``."""
    found: set[bytes] = set()
    for match in budget.matches(_WHOLE, data):
        before = data[max(0, match.start() - 300) : match.start()]
        given = re.search(_GIVEN, before[-40:])
        left = before.removesuffix(given[0]).rstrip() if given else b""
        if left.endswith(b"}"):
            for part in budget.matches(_PART, left.rpartition(b";")[2]):
                if part[2] is not None:
                    found.update(budget.all(_KEY, part[2]), [b"*"] if b"..." in part[2] else ())
                else:
                    aliases.add(part[1] or b"env")
        else:
            aliases.update(name + rb"\.env" for name in budget.all(_ALIAS, left[-80:]))
    return found


def _renamed(pattern: bytes, data: bytes, aliases: set[bytes], budget: Budget) -> set[bytes]:
    """Return what is taken out of the environment by `{A, B} = process.env`; its other names go to ``aliases``."""
    found: set[bytes] = set()
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
    return found


def _by_alias(aliases: set[bytes], data: bytes, budget: Budget) -> set[bytes]:
    """Return what is read by another name of the environment."""
    found: set[bytes] = set()
    if len(aliases) > _ALIASES_MAX:
        raise TooMany
    for name in aliases:
        found.update(budget.all(name + rb"(?<![\w.$]" + name + rb")" + _MEMBER, data))
        handed = rb"(?:(?<=[(*]" + name + rb")|(?<=\.\." + name + rb"))\s{0,9}+[,)}]"
        if re.search(name + rb"(?:" + handed + rb"|\.(?:copy|items|values)\()", data):
            found.add(b"*")
    return found

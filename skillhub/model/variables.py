"""Which environment variables programs read, where they name them; a name that is put together is not seen."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice

# More names than anybody reads are one `*`; so is more that looks like a reading than an honest program has.
NAMES_MAX = 200
_MATCHES_MAX = 50_000
_BYTES_MAX = 4 * 1024 * 1024  # a second, if they were written for it; no honest programs are as large
_NAME = rb"([A-Za-z_][A-Za-z0-9_]{0,254}+)(?![A-Za-z0-9_])"
_NOT_SET = rb"(?!\s{0,8}+\]?\s{0,8}+=[^=~])"
# A name in quotes, as an index or as the first argument.
_QUOTED = rb"\s{0,99}+[\[({]\s{0,99}+[bru]?[\"'`]" + _NAME + rb"[\"'`]" + _NOT_SET
_OF_PROCESS = rb"(?:(?<=process\.env)|(?<=meta\.env)|(?<=Bun\.env)|(?<=Deno\.env))"
# Each pattern begins with what is looked for in the whole file first, which is what keeps this fast. Few skills need
# any of them: `re` compiles a pattern when it is first used, and keeps it.
_ACCESS = tuple(
    (needle, re.escape(needle) + rest)
    for needle, rest in (
        (b"environ", rb"b?(?:\.(?:get|pop|setdefault|__getitem__))?" + _QUOTED),  # Python
        (b"getenv", rb"b?" + _QUOTED),  # Python, PHP, Lua, R, Java
        (b"Getenv", _QUOTED),  # Go
        (b"LookupEnv", _QUOTED),
        (b".env", _OF_PROCESS + rb"\??\." + _NAME + rb"(?!\()" + _NOT_SET),  # JavaScript
        (b".env", _OF_PROCESS + rb"(?:\?\.|\.get|\.has)?" + _QUOTED),
        (
            b"ENV",
            rb"(?:(?<=\$_ENV)|(?<![A-Za-z0-9_]ENV))(?:\.(?:fetch|key\?|dig|get))?" + _QUOTED,
        ),  # Ruby, PHP, Julia
        (b"$ENV", rb"[{.]" + _NAME),  # Perl, jq
        (b"nv:", rb"(?:(?<=\$[eE]nv:)|(?<=\$\{[eE]nv:))" + _NAME + _NOT_SET),  # PowerShell
        (b"EnvironmentVariable", _QUOTED),
        (b"env::var", rb"(?:_os)?" + _QUOTED),  # Rust
    )
)
_TAKEN = rb"\{([^{}]{1,2000}+)\}\s{0,8}+=\s{0,8}+(?:process|Bun|import\.meta)\.env\b"
_KEY = rb"(?:^|,)\s*+" + _NAME

_SHELL = (".sh", ".bash", ".zsh", ".ksh")
_SHEBANG = rb"#![^\n]{0,200}\b(?:ba|da|k|z|a)?sh\b"
_UPPER = rb"([A-Z_][A-Z0-9_]{0,254}+)(?![A-Za-z0-9_])"
_READ = rb"\$(?<!\\\$)(?:\{[#!]?)?" + _UPPER
# Where a command begins; what is set from itself, as in `X=${X:-1}`, comes from outside all the same.
_SET = (
    rb"(?m)(?:^|[;&|({`]|\b(?:then|do|else)\b)[ \t]*+"
    rb"(?:(?:export|local|readonly|declare|typeset)\b(?:[ \t]++-\w++)*+[ \t]++)?"
    rb"([A-Z_][A-Z0-9_]{0,254}+)(?:\[[^\]\n]{0,64}\])?\+?=(?![\"']?\$\{?\1\b)"
)
_FILLED = rb"\b(?:read|for|select|mapfile|readarray|getopts|local|declare|printf -v)\b([^\n;]*+)"
_FILLS = rb"(?<![\w${\"'-])" + _UPPER
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
    capital letters count, and none that the same file sets.
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
            if b"$" in data and _is_shell(path, data):
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

    def all(self, pattern: bytes, data: bytes) -> Iterator[bytes]:
        """Yield the first group of each match."""
        found = [match[1] for match in islice(re.finditer(pattern, data), self._left + 1)]
        self._left -= len(found)
        if self._left < 0:
            raise _TooMany
        return iter(found)


def _accessed(data: bytes, budget: _Budget) -> set[bytes]:
    found: set[bytes] = set()
    for needle, pattern in _ACCESS:
        if needle in data:
            found.update(budget.all(pattern, data))
    if b"= process.env" in data or b"=process.env" in data or b"meta.env" in data:
        for keys in budget.all(_TAKEN, data):
            found.update(budget.all(_KEY, keys))
    return found


def _is_shell(path: str, data: bytes) -> bool:
    """Say whether a shell would run it: by its first line, else its name, else because nothing says otherwise."""
    if data.startswith(b"#!"):
        return re.match(_SHEBANG, data) is not None
    return path.lower().endswith(_SHELL) or ("." not in path.rpartition("/")[2] and b"\0" not in data)


def _expanded(data: bytes, budget: _Budget) -> set[bytes]:
    found = set(budget.all(_READ, data))
    if not found:
        return found
    found.difference_update(budget.all(_SET, data))
    for names in budget.all(_FILLED, data):
        found.difference_update(budget.all(_FILLS, names))
    return found

"""Variables that programs read from the environment itself; ``*`` where they take all of it.

    one   os.environ["A"]  process.env.A  ENV.fetch "A"  getenv("A")  env::var("A")  $env:A  printenv A
    all   os.environ.copy()  env::vars()  ENV.to_h  gci env:  env | sort  /proc/self/environ
    none  os.environ["A"] = "1"  env X=1 program

Repeats are possessive or have a bound, so that no text takes more than its length.
"""

from __future__ import annotations

from collections.abc import Iterable

from skillhub.model.matching import Budget

NAME = rb"([A-Za-z_][A-Za-z0-9_]{0,254}+)(?![A-Za-z0-9_])"
_NOT_SET = rb"(?!\s{0,8}+\]?\s{0,8}+=[^=~])"
_WORD = rb"[bru]?[\"'`]" + NAME + rb"[\"'`]" + _NOT_SET
# As an index, or as the first argument.
QUOTED = rb"\s{0,99}+[\[({]\s{0,99}+(?:key\s{0,9}+=\s{0,9}+)?" + _WORD
# As JavaScript has members.
MEMBER = rb"(?:\??\." + NAME + rb"(?!\()" + _NOT_SET + rb"|(?:\?\.|\.get|\.has)?" + QUOTED + rb")"


def after(befores: Iterable[bytes], word: bytes) -> bytes:
    """Return the pattern of a word that stands behind one of these; `re` finds what begins with letters soonest."""
    return word + rb"(?:" + rb"|".join(rb"(?<=" + before + word + rb")" for before in befores) + rb")"


def begins(word: bytes) -> bytes:
    """Return the pattern of a word that no other sign of a word is before."""
    return word + rb"(?<!\w" + word + rb")"


PROCESS_ENV = after((rb"process", rb"process\?", rb"process['\"]\)", rb"meta", rb"Bun", rb"Deno"), rb"\.env")
# What a file has to hold, and what is looked for in it then: few do, and `re` takes long to compile a pattern.
# The group is the name; a pattern without one takes all.
_SPELLINGS = (
    (  # Python
        b"environ",
        rb"environb?(?:\.(?:copy|items|values)\(|(?:\.(?:get|pop|setdefault|__getitem__))?" + QUOTED + rb")",
    ),
    (  # Python, PHP, Lua, R, Java
        b"tenv",
        rb"etenvb?" + QUOTED,
        rb"etenv(?:\(\s{0,9}+\)|[ \t]{0,9}+" + _WORD + rb")",
        rb"printenv[\"', \t]{1,9}+([A-Z_][A-Z0-9_]{0,254}+)(?![A-Za-z0-9_])",
    ),
    (b".env", PROCESS_ENV + MEMBER),  # JavaScript
    (b"process[", rb"process\[[\"'`]env[\"'`]\]" + MEMBER),
    (b"$_ENV", rb"\$_ENV" + QUOTED, rb"\$_ENV(?!\w|\s{0,9}+\[)"),  # PHP
    (  # Perl, jq, Ruby, Julia; `ENV.fetch "A"` needs no brackets
        b"ENV",
        rb"%ENV\b",
        rb"\$ENV[{.]" + NAME,
        begins(b"ENV") + rb"(?:\.(?:get|fetch|key\?|dig|values_at))?" + QUOTED,
        begins(b"ENV") + rb"\.fetch[ \t]{1,9}+" + _WORD,
        begins(b"ENV")
        + rb"\.(?:to_[has]|to_hash|each|map|collect|select|filter|reject|values|sort|inspect|dup|clone)\b",
        after((rb"dump[( ]", rb"generate[( ]", rb"puts[( ]", rb"print[( ]", rb"[\n ;]p[( ]"), b"ENV")
        + rb"(?!\w|\s{0,9}+[\[.])",
    ),
    (b"ENVIRON", rb"ENVIRON\s{0,9}+\[\s{0,9}+\\?[\"']" + NAME, rb"ENVIRON(?<=\sENVIRON)\s{0,9}+\)"),  # awk
    (b"LookupEnv", rb"LookupEnv" + QUOTED),  # Go
    (b"os.Environ()", rb"os\.Environ\(\)"),
    (b"env::var", rb"env::var(?:_os)?" + QUOTED, rb"env::vars"),  # Rust
    (b"nvironmentVariable", rb"nvironmentVariable" + QUOTED, rb"nvironmentVariables\("),  # PowerShell, .NET
    (
        b"nv:",
        after((rb"\$[eE]", rb"\$\{[eE]"), rb"nv:") + NAME + _NOT_SET,
        rb"(?i:\b(?:gci|dir|ls|gi|gc|cat|type|get-(?:childitem|item|content))[ \t]{1,9}+"
        rb"(?:-path[ \t]{1,9}+)?[\"']?env:)(?!\$)[\\/]?(?:" + NAME + rb")?",
    ),
    (b"/environ", rb"/environ(?![\w/.-])"),  # of Linux's `/proc/self`
    (  # in a string that a shell runs
        b"env",
        after((rb"[\"'`;&|]", rb"[;&|] ", rb"print", rb"bin/", rb"\$\("), b"env") + rb"[ \t]{0,9}+[|>]",
        rb"\$\((?:print)?env\)",
    ),
)
_EXPANDED = rb"xpand(?:Env|vars)\(\s{0,9}+[bru]?[\"'`]([^\"'`\n]{0,2000}+)"  # Go, Python


def direct(data: bytes, budget: Budget) -> set[bytes]:
    """Return what a program reads so. Raises TooMany where it is an attack on its reader."""
    found = budget.of_rows(_SPELLINGS, data)
    for text in budget.all(_EXPANDED, data) if b"xpand" in data else ():
        found.update(budget.all(rb"\$\{?" + NAME, text))
    return found

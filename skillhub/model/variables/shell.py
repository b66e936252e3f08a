"""Variables that shell scripts read, among those that they do not set themselves; ``*`` where they take all of them.

    one   $A  ${A}  ${#A}  ${!A}  [[ -v A ]]  declare -p A  local -n x=A  jq 'env.A'  and A over two lines: $TO\\⏎KEN
    all   env | …  env > f  $(env)  printenv  set  export -p  declare -px  compgen -e
    none  \\$A, but for a secret's: another shell may read it, `bash -c "\\$TOKEN"`

What the file sets before it reads it is its own (`shell_own`), unless it looks like a secret: the line that sets it
may never run (`if false`, a function that nobody calls).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from skillhub.model.matching import Budget
from skillhub.model.variables.shell_own import CAPITALS, own

_SHELL = (".sh", ".bash", ".zsh", ".ksh", ".fish")
# What `$` is something else in. Any other text is a shell's as soon as somebody writes `bash scripts/notes.txt`.
_OTHERS = r"(?i)\.(?:[cm]?[jt]s|[jt]sx|pyw?|rb|pl|php|lua|r|jl|go|rs|psm?1|bat|cmd|applescript)\Z"
_SHEBANG = rb"(?:\xef\xbb\xbf)?#![^\n]{0,200}\b(?:ba|da|k|z|a|fi|c|tc)?sh\b"
_SECRET = (
    rb"TOKEN|KEY|SECRET|PASSW|PASSPHRASE|CREDENTIAL|DATABASE_UR"
    rb"|(?:_PASS|(?:^|_)(?:AUTH|CREDS|PAT|JWT|DSN|COOKIES?|BEARER|WEBHOOK))(?:_|$)"
)
_READ = rb"""(?x)
    \$ (?:\\\n)*+ (?:\{ (?:\\\n)*+ [#!]? )?                   # a backslash joins two lines anywhere
    ( (?=[A-Z_\\]) (?: [A-Z0-9_] | \\\n )++ ) (?![a-z])
"""
_LONGEST = 255
# A command of its own, to the end of it; what is printed goes somewhere.
_BEGINS = rb"\n[ \t]*+"
_ENDS = rb"[ \t]*+(?:[0-9]?[|>;](?!\w++[|)])|\n|\Z)"
_ENV = rb"\\?(?:(?:sudo|command|exec|busybox)[ \t]++)*+(?:/usr/bin/)?(?:print)?env(?:[ \t]++-0)?"
_ALL = rb"[ \t]++-\w*[px]\w*[ \t]*+(?:[|>;)\n]|\Z)"  # printed, each with its value
_ONE = rb"[ \t]++-\w*(?:p\w*[ \t]++|n\w*[ \t]++\w++=)[\"']?" + CAPITALS  # printed, or by another name
# A row is what a file has to hold, and what is looked for in it then; a pattern without a group takes all.
_COMMANDS: Sequence[tuple[bytes, ...]] = (
    (b"-v ", rb"-v(?<!command -v) {1,9}+" + CAPITALS + rb"(?=[ \t]{0,9}+(?:\]|&&|\|\|))"),
    (b"jq", rb"env\.(?<![\w.$]env\.)" + CAPITALS),
    (b"env", _BEGINS + _ENV + _ENDS),
    (b"set", _BEGINS + rb"set" + _ENDS),
    (b"export", _BEGINS + rb"export" + _ENDS),
    *((word, word + _ALL, word + _ONE) for word in (b"export", b"declare", b"typeset", b"local")),
    (b"compgen", rb"compgen[ \t]++-[ev]\b"),
)
# The same within `$(…)`, `<(…)`, `(…)`, `{…}` or backticks: what stands before the word, and what behind it.
_OPENED = rb"(?:[$<]\(|\n[ \t]*[({]|[=\"]`)[ \t]*(?:/usr/bin/|/bin/)?(?:print)?\Z"
_CLOSED = rb"(?:[ \t]++-0)?[ \t]*+[|;)`}]"


def is_shell(path: str, data: bytes) -> bool:
    """Say whether a shell may be told to run it: by its first line, else because nothing says otherwise."""
    if data.startswith((b"#!", b"\xef\xbb\xbf#!")):
        return re.match(_SHEBANG, data) is not None
    return path.lower().endswith(_SHELL) or (b"\0" not in data and re.search(_OTHERS, path) is None)


def expanded(data: bytes, budget: Budget) -> set[bytes]:
    """Return what a shell reads before the file has set it, and whatever it reads that looks like a secret.

    Raises:
        TooMany: it is an attack on its reader.
    """
    data = b"\n" + data
    found = _named(data, budget)
    if read := _read(data, budget):
        set_at = own(data, budget)
        found |= {
            name for name, at in read.items() if set_at.get(name, len(data)) > at or re.search(_SECRET, name)
        }
    return found


def _named(data: bytes, budget: Budget) -> set[bytes]:
    """Return what commands are told to read."""
    found = budget.of_rows(_COMMANDS, data)
    for word in (b"env", b"set", b"export"):
        for match in budget.matches(word + _CLOSED, data) if word in data else ():
            if re.search(_OPENED, data[max(0, match.start() - 40) : match.start()]):
                found.add(b"*")
    return found


def _read(data: bytes, budget: Budget) -> dict[bytes, int]:
    """Return where each name is first read after a `$`."""
    read: dict[bytes, int] = {}
    for match in budget.matches(_READ, data):
        name = match[1].replace(b"\\\n", b"")
        if not 0 < len(name) <= _LONGEST or name[:1].isdigit():
            continue
        at = match.start()
        # A backslash takes the meaning from `$`, a second one gives it back.
        is_plain = data[at - 1 : at] != b"\\" or data[at - 2 : at - 1] == b"\\"
        if is_plain or re.search(_SECRET, name):
            read.setdefault(name, at)
    return read

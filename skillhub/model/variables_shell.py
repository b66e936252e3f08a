"""Which variables shell scripts read, among those that they do not set themselves."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

from skillhub.model.matching import Budget

_LONGEST = 255
_NAME = rb"([A-Z_][A-Z0-9_]{0,254}+)(?![A-Za-z0-9_])"
_SHELL = (".sh", ".bash", ".zsh", ".ksh", ".fish")
# What `$` is something else in. Any other text is a shell's as soon as somebody writes `bash scripts/notes.txt`.
_OTHERS = r"(?i)\.(?:[cm]?[jt]s|[jt]sx|pyw?|rb|pl|php|lua|r|jl|go|rs|psm?1|bat|cmd|applescript)\Z"
_SHEBANG = rb"(?:\xef\xbb\xbf)?#![^\n]{0,200}\b(?:ba|da|k|z|a|fi|c|tc)?sh\b"
_JOINED = rb"(?:[A-Z0-9_]|\\\n)"
# A name may go on over lines.
_READ = rb"\$(?:\\\n)*+(?:\{(?:\\\n)*+[#!]?)?((?=[A-Z_\\])" + _JOINED + rb"++)(?![a-z])"
# Told of even where the file sets it: the line that does may never run (`if false`, a function that nobody calls).
_SECRET = (
    rb"TOKEN|KEY|SECRET|PASSW|PASSPHRASE|CREDENTIAL|DATABASE_UR"
    rb"|(?:_PASS|(?:^|_)(?:AUTH|CREDS|PAT|JWT|DSN|COOKIES?|BEARER|WEBHOOK))(?:_|$)"
)
_ALL = rb"[ \t]++-\w*[px]\w*[ \t]*+(?:[|>;)\n]|\Z)"  # printed, each with its value
_ONE = rb"[ \t]++-\w*(?:p\w*[ \t]++|n\w*[ \t]++\w++=)[\"']?" + _NAME  # printed, or by another name
_ENDS = rb"[ \t]*+(?:[0-9]?[|>;](?!\w++[|)])|\n|\Z)"
_WITHIN = rb"(?:[$<]\(|\n[ \t]*[({]|[=\"]`)[ \t]*(?:/usr/bin/|/bin/)?(?:print)?\Z"
_CLOSED = rb"(?:[ \t]++-0)?[ \t]*+[|;)`}]"
_ENV = rb"(?:/usr/bin/)?(?:print)?env(?:[ \t]++-0)?"
_IN_SHELL: Sequence[tuple[bytes, ...]] = (
    (b"-v ", rb"-v(?<!command -v) {1,9}+" + _NAME + rb"(?=[ \t]{0,9}+(?:\]|&&|\|\|))"),
    (b"jq", rb"env\.(?<![\w.$]env\.)" + _NAME),
    (b"env", rb"\n[ \t]*+\\?(?:(?:sudo|command|exec|busybox)[ \t]++)*+" + _ENV + _ENDS),
    (b"set", rb"\n[ \t]*+set" + _ENDS),
    (b"export", rb"export" + _ALL, rb"\n[ \t]*+export" + _ENDS),
    (b"declare", rb"declare" + _ALL, rb"declare" + _ONE),
    (b"typeset", rb"typeset" + _ALL, rb"typeset" + _ONE),
    (b"local", rb"local" + _ONE),
    (b"compgen", rb"compgen[ \t]++-[ev]\b"),
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
    + _NAME
    + rb"[^\n;]*+|((?:read|mapfile|readarray)\b(?:[ \t]++(?:\"[^\"\n]*+\"|'[^'\n]*+'|[^\s;<>|&#\"'`()]++))*+))"
)
_NO_NAMES = (
    rb"(?<!mapfile )(?<!readarray )-\w*[pdnNtuicCO][ \t]++(?:\"[^\"]*+\"|'[^']*+'|\S++)|\"[^\"]*+\"|'[^']*+'"
)
_FILLS = rb"(?<![\w${\"'-])" + _NAME
_HERE = (
    rb"\n(?:[ \t]*+#[^\n]*+|(\t*+)([^\s#]{1,64})(?=\n|\Z))"
    rb"|<<(?<!<<<)(?!<)(-?)[ \t]*+((?:'[^'\n]*'|\"[^\"\n]*\"|\\.|[^\s;&|<>()'\"\\]){1,64})"
)


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
    found: set[bytes] = set()
    for needle, *patterns in _IN_SHELL:
        if needle in data:
            for pattern in patterns:
                found.update(budget.all(pattern, data))
    for word in (b"env", b"set", b"export"):
        closed = budget.matches(word + _CLOSED, data) if word in data else ()
        if any(re.search(_WITHIN, data[max(0, each.start() - 40) : each.start()]) for each in closed):
            found.add(b"*")
    read = _read(data, budget)
    if not read:
        return found
    own = _set(data, budget)
    return found.union(
        name for name, at in read.items() if own.get(name, len(data)) > at or re.search(_SECRET, name)
    )


def _read(data: bytes, budget: Budget) -> dict[bytes, int]:
    """Return where each name is read first."""
    read: dict[bytes, int] = {}
    for match in budget.matches(_READ, data):
        name = match[1].replace(b"\\\n", b"")
        if 0 < len(name) <= _LONGEST and not name[:1].isdigit() and _is_read(match, name):
            read.setdefault(name, match.start())
    return read


def _is_read(match: re.Match[bytes], name: bytes) -> bool:
    """Say whether this shell reads the name there, or if it is a secret's another one may: `bash -c "\\$TOKEN"`."""
    at = match.start()
    # A backslash before `$` takes its meaning, a second one gives it back.
    is_plain = match.string[at - 1 : at] != b"\\" or match.string[at - 2 : at - 1] == b"\\"
    return is_plain or re.search(_SECRET, name) is not None


def _set(data: bytes, budget: Budget) -> dict[bytes, int]:
    """Return where each name is first set, as far as can be seen."""
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
    return own


def _here_documents(data: bytes, budget: Budget) -> list[int]:
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

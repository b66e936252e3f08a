"""Which variables a shell script sets itself, and where: as far as can be told from a text that nobody runs.

    sets ::= (line's begin | `;` right behind another) [export | local | readonly | declare | typeset, with flags]
             NAME=VALUE (line's end | `;` | `&&` | `||` | a comment)
    fills ::= line's begin (while | until | if | IFS=…)* (for NAME … | select NAME … | printf -v NAME … |
             getopts … NAME | (read | mapfile | readarray) flags NAME…)

`X=1 program` sets it for that program, `X=1 |` and `X=1 &` for nobody. A value goes on over lines, so that no line
within it is one of its own; neither is a line of a here-document, or one that a backslash joins to the line before.
"""

from __future__ import annotations

import re
from bisect import bisect_right

from skillhub.model.matching import Budget

CAPITALS = rb"([A-Z_][A-Z0-9_]{0,254}+)(?![A-Za-z0-9_])"
_VALUE = rb"""(?:
      [^\s;&|"'\\`()$]
    | "(?:[^"\\]|\\.)*+" | '[^']*+' | `[^`]*+` | \\.
    | \$\{[^}\n]*+\}
    | \$?\((?:[^()]|\((?:[^()]|\([^()]*+\))*+\))*+\)      # a substitution, a sum, a list; three deep
    | \$
)*+"""
_SETS = (
    rb"""(?xms)
    (?:^(?<!\\\n)|(?<=;))[ \t]*+
    ((?:export|local|readonly|declare|typeset)\b(?:[ \t]++-\w++)*+[ \t]++)?
    ([A-Z_][A-Z0-9_]{0,254}+)=
    """
    + _VALUE
    + rb"""
    (                                                     # that it ends as a command, or goes on with the next name
        (?=[ \t]*+(?:[;\r\n]|\Z|&&|\|\|)|[ \t]++\#)
      | (?(1)(?=[ \t]++\w)|(?!))
    )?"""
)
_FILLS = (
    rb"""(?xm)
    ^[ \t]*+(?:(?:while|until|if|IFS=\S{0,20}+)[ \t]++)*+
    (?:
        (?:for|select|printf[ ]-v|getopts[ \t]++\S++)[ \t]++"""
    + CAPITALS
    + rb"""[^\n;]*+
      | ((?:read|mapfile|readarray)\b(?:[ \t]++(?:"[^"\n]*+"|'[^'\n]*+'|[^\s;<>|&\#"'`()]++))*+)
    )"""
)
# Among the words behind `read`: what belongs to a flag, and what is quoted.
_NO_NAME = (
    rb"(?<!mapfile )(?<!readarray )-\w*[pdnNtuicCO][ \t]++(?:\"[^\"]*+\"|'[^']*+'|\S++)|\"[^\"]*+\"|'[^']*+'"
)
_FILLED = rb"(?<![\w${\"'-])" + CAPITALS
_HERE = rb"""(?x)
      \n(?:[ \t]*+\#[^\n]*+ | (\t*+)([^\s\#]{1,64})(?=\n|\Z))                       # a comment; what may end one
    | <<(?<!<<<)(?!<)(-?)[ \t]*+((?:'[^'\n]*'|"[^"\n]*"|\\.|[^\s;&|<>()'"\\]){1,64})  # what begins one
"""


def own(data: bytes, budget: Budget) -> dict[bytes, int]:
    """Return where each name has been set for the first time, as far as can be seen. Raises TooMany.

    Args:
        data: A line's end, and the script.
        budget: How many matches are looked at.
    """
    edges = _here_documents(data, budget) if b"<<" in data else []
    found: dict[bytes, int] = {}
    behind_another = -1
    for match in budget.matches(_SETS, data):
        begins = data[match.start() - 1] == ord("\n") or match.start() == behind_another
        if begins and match[3] is not None and not _is_within(edges, match):
            found.setdefault(match[2], match.end())
            behind_another = match.end() + 1
    for match in budget.matches(_FILLS, data):
        if not _is_within(edges, match):
            for name in budget.all(_FILLED, match[1] or re.sub(_NO_NAME, b"", match[2])):
                found[name] = min(match.end(), found.get(name, len(data)))
    return found


def _is_within(edges: list[int], match: re.Match[bytes]) -> bool:
    return bisect_right(edges, match.start()) % 2 == 1


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

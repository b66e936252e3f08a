"""What can be seen in a skill without running it: a table of rules, and a few detectors."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from skillhub.model.capability import is_text
from skillhub.model.finding import SEVERITIES, Finding, Rule
from skillhub.model.tree import File, Tree
from skillhub.scan.commands import FETCH, SYSTEM
from skillhub.scan.files import FILES, SCANNED_MAX, files
from skillhub.scan.hidden import HIDDEN, hidden
from skillhub.scan.instructions import INSTRUCTIONS
from skillhub.scan.secrets import SECRETS, secrets
from skillhub.scan.secrets import WORDS as SECRET_WORDS

_PATTERNS: Final = (*FETCH, *INSTRUCTIONS, *SYSTEM)
RULES: Final = {rule.id: rule for rule in (*HIDDEN, *SECRETS, *FILES, *(rule for rule, _ in _PATTERNS))}
LOOKS: Final = tuple((rule, look) for rule, looks in _PATTERNS for look in looks)
_WORDS: Final = SECRET_WORDS.union(*(group for _, look in LOOKS for group in look.words))
# By each word of a look's first group, where the look stands.
_BY_WORD: Final[defaultdict[bytes, list[int]]] = defaultdict(list)
for _number, (_, _look) in enumerate(LOOKS):
    for _word in _look.words[0]:
        _BY_WORD[_word].append(_number)
# Letters in lower case, digits, and a blank for everything else.
_ONLY_WORDS: Final = bytes(ord(chr(n).lower()) if n < 128 and chr(n).isalnum() else 32 for n in range(256))
# More places of one rule in one file tell a reader nothing new.
PLACES_MAX: Final = 10


def scan(tree: Tree) -> tuple[Finding, ...]:
    """Return what the rules see in ``tree``: the worst first, then by path, line and rule.

    The same tree gives the same findings on every machine. Of each file the first 2 MiB are searched, and
    a larger one is a finding itself; of each rule at most ten lines of a file are named.
    """
    found = (finding for path, file in tree.items() for finding in _findings(path, file))
    return tuple(sorted(found, key=_worst_first))


def _worst_first(finding: Finding) -> tuple[int, str, int, str]:
    return -SEVERITIES.index(finding.severity), finding.path or "", finding.line, finding.rule


def _findings(path: str, file: File) -> Iterator[Finding]:
    text = is_text(file.data)
    for rule in files(path, file.data, text):
        yield rule.finding(path, 0)
    seen: dict[str, set[int]] = {}
    ends: list[int] = []
    for rule, offset in _places(file.data, text):
        ends = ends or [*(end.start() for end in re.finditer(b"\n", file.data)), len(file.data)]
        line = bisect_left(ends, offset) + 1
        lines = seen.setdefault(rule.id, set())
        if line not in lines and len(lines) < PLACES_MAX:
            lines.add(line)
            yield rule.finding(path, line)


def _places(whole: bytes, text: bool) -> Iterator[tuple[Rule, int]]:
    data = whole[:SCANNED_MAX]
    if text:
        yield from hidden(data)
    words = _WORDS.intersection(data.translate(_ONLY_WORDS).split())
    yield from secrets(data, words)
    worth = sorted({number for word in words for number in _BY_WORD.get(word, ())})
    looks = [LOOKS[number] for number in worth if LOOKS[number][1].is_worth(words)]
    if looks:
        # A line that a shell joins to the next is one line here; offsets stay what they were.
        lowered = data.lower().replace(b"\\\r\n", b"   ").replace(b"\\\n", b"  ")
        for rule, look in looks:
            yield from ((rule, offset) for offset in look.places(lowered))

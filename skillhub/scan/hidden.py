"""Characters that draw nothing, or turn the text around them: what a person cannot see, a model reads.

Looked for as the bytes that UTF-8 spells them with, each behind a prefix that ordinary text hardly has.
Emoji joined by zero-width joiners, variation selectors after a character, flags of regions, and joiners
inside words of scripts that need them are ordinary text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from skillhub.model.finding import Rule

BIDI: Final = Rule(
    "SH001",
    "high",
    "bidirectional control characters: what is shown is not what is read",
    "remove them",
)
UNSEEN: Final = Rule(
    "SH002",
    "critical",
    "text written in characters that are never shown",
    "remove it, and ask why it was there",
)
ZERO_RUN: Final = Rule(
    "SH003",
    "high",
    "a run of zero-width characters, which can carry hidden text",
    "remove them",
)
ZERO_WORD: Final = Rule(
    "SH004",
    "medium",
    "a zero-width character inside a word, which hides the word from a search",
    "remove it",
)
HIDDEN: Final = (BIDI, UNSEEN, ZERO_RUN, ZERO_WORD)

# What follows is tried in this order: each begins with the bytes it is found by, for speed.
# U+200B-200F and U+202A-202E; U+2060-2064 and U+2066-2069; U+FEFF.
_SUSPECTS = tuple(
    map(re.compile, (rb"\xe2\x80[\x8b-\x8f\xaa-\xae]", rb"\xe2\x81[\xa0-\xa4\xa6-\xa9]", rb"\xef\xbb\xbf"))
)
_ASCII = bytes(range(128))
# Embeddings, overrides, isolates (CVE-2021-42574).
_BIDI = re.compile(rb"\xe2(?:\x80[\xaa-\xae]|\x81[\xa6-\xa9])")
_ZERO = rb"(?:\xe2\x80[\x8b-\x8f]|\xe2\x81[\xa0-\xa4]|\xef\xbb\xbf)"
_ZERO_RUN = re.compile(_ZERO + rb"{3}")
_ZERO_WORD = re.compile(rb"(?<=[A-Za-z])" + _ZERO + rb"(?=[A-Za-z])")
# U+E0000-E007F are tags; legitimate only as the tail of a flag: U+1F3F4, a few tags, U+E007F.
_FLAG = re.compile(rb"\xf0\x9f\x8f\xb4(?:\xf3\xa0[\x80\x81][\x80-\xbf]){2,6}\xf3\xa0\x81\xbf")
_TAG = re.compile(rb"\xf3\xa0[\x80\x81]")
# U+FE00-FE0F and U+E0100-E01EF select a variant of one character; two in a row select nothing.
_SELECTORS = re.compile(rb"(?:\xef\xb8[\x80-\x8f]|\xf3\xa0[\x84-\x87][\x80-\xbf]){2}")


def hidden(data: bytes) -> Iterator[tuple[Rule, int]]:
    """Yield what is hidden in the UTF-8 text ``data``: the rule, and the offset of each place."""
    if data.isascii():
        return
    foreign = data.translate(None, _ASCII)  # of most texts hardly a byte is left to look at
    if b"\xf3\xa0" in foreign:
        unflagged = _FLAG.sub(lambda match: b"?" * len(match[0]), data)
        yield from ((UNSEEN, match.start()) for match in _TAG.finditer(unflagged))
    if (b"\xf3\xa0" in foreign or b"\xef\xb8" in foreign) and _SELECTORS.search(foreign):
        yield from ((UNSEEN, match.start()) for match in _SELECTORS.finditer(data))
    if any(suspect.search(foreign) for suspect in _SUSPECTS):
        for rule, pattern in ((BIDI, _BIDI), (ZERO_RUN, _ZERO_RUN), (ZERO_WORD, _ZERO_WORD)):
            yield from ((rule, match.start()) for match in pattern.finditer(data))

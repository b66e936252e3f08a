"""Characters that draw nothing, or turn the text around them: what a person cannot see, a model reads.

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
STEERING: Final = Rule(
    "SH005",
    "high",
    "a control character that a terminal obeys or leaves out: what is shown is not what is read",
    "remove it, or write it as an escape sequence",
)
HIDDEN: Final = (BIDI, UNSEEN, ZERO_RUN, ZERO_WORD, STEERING)

# ASCII that honest text is made of; page breaks (VT, FF) go on below what is shown and cover nothing.
_PLAIN = bytes((*range(9, 13), *range(32, 127)))
# Embeddings, overrides, isolates (CVE-2021-42574).
_BIDI = "[\u202a-\u202e\u2066-\u2069]"
# Of Unicode's Default_Ignorable_Code_Point what is not elsewhere here, and the marks of annotations.
_ZERO = (
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2060-\u2065\u206a-\u206f\u3164\ufeff"
    "\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0080-\U000e00ff\U000e01f0-\U000e0fff]"
)
# A soft hyphen, alone, says where a word may be parted.
_ZERO_WORD = f"(?<=[A-Za-z])(?:{_ZERO}{{2}}|(?!\u00ad){_ZERO})(?=[A-Za-z])"
# C1 (ECMA-48) too, which terminals take for the two bytes that begin with ESC; U+0085 is a line break.
_CONTROL = "[\x01-\x08\x0e-\x1f\x7f-\x84\x86-\x9f]"
# What follows it is drawn over its line. Before LF it ends a line, and so do several, as careless tools write.
_RETURN = r"(?<!\r)\r++(?!\n|\Z)"
# Legitimate only as the tail of a flag: U+1F3F4, a few tags, U+E007F.
_TAG = "[\U000e0000-\U000e007f]"
_FLAG = re.compile(f"\U0001f3f4{_TAG}{{2,6}}\U000e007f")
# Each selects a variant of one character; two in a row select nothing.
_SELECTORS = "[\ufe00-\ufe0f\U000e0100-\U000e01ef]{2}"
_SUSPECT = re.compile("|".join((_BIDI, _ZERO, _CONTROL, "\r", _TAG, _SELECTORS)))
_PATTERNS = tuple(
    (rule, re.compile(pattern))
    for rule, pattern in (
        (UNSEEN, _TAG),
        (UNSEEN, _SELECTORS),
        (BIDI, _BIDI),
        (ZERO_RUN, _ZERO + "{3}"),
        (ZERO_WORD, _ZERO_WORD),
        (STEERING, f"{_CONTROL}|{_RETURN}"),
    )
)


def hidden(data: bytes) -> Iterator[tuple[Rule, int]]:
    """Yield what is hidden in the UTF-8 text ``data``: the rule, and the offset of each place.

    A character that the end of ``data`` cuts is none.
    """
    # Of most texts hardly any is left to look at.
    odd = data.replace(b"\r\n", b"").translate(None, _PLAIN)
    if not odd or not _SUSPECT.search(odd.decode("utf-8", "ignore")):
        return
    text = _FLAG.sub(lambda match: "?" * len(match[0].encode()), data.decode("utf-8", "ignore"))
    for rule, pattern in _PATTERNS:
        char = offset = 0
        for match in pattern.finditer(text):
            offset += len(text[char : match.start()].encode())
            char = match.start()
            yield rule, offset

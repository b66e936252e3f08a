"""Words of the network in instructions; a skill whose instructions have one has the capability ``network:?``.

No file that runs is read for that: whatever a program says, it may reach a host that it does not name.
"""

from __future__ import annotations

import re

from skillhub.formats.text import deferred, words
from skillhub.scan.pattern import PATTERNS, line_patterns
from skillhub.scan.views import Letters

_WORDS = words(PATTERNS["network_words"])  # programs and modules
_PATTERNS = (
    # The longest run of letters in a name is a word of each text with the name.
    *line_patterns(
        {"words": max(re.split("[_-]", word), key=len), "first": rf"{word}(?<![\w.-]{word})(?![\w-])"}
        for word in _WORDS
    ),
    *line_patterns(PATTERNS["network"]),
)
# Words that count only in the place of a command: at the start of a line, after a prompt, a quote or another command.
(_AS_COMMAND,) = line_patterns(PATTERNS["network_as_command"])
_JOINT = deferred(rb"[\\`^]\r?\n")


def names_network(letters: Letters) -> bool:
    """Return whether a text has a word of the network, read with its lines joined, too."""
    plain = Letters(letters.data.translate(None, b"\0")) if b"\0" in letters.data else letters
    has_joint = any(sign in plain.data for sign in (b"\\", b"`", b"^")) and _JOINT.search(plain.data) is not None
    return _has_word(plain) or (has_joint and _has_word(Letters(_JOINT.sub(b"", plain.data))))


def _has_word(letters: Letters) -> bool:
    literals = letters.literals
    is_named = any(each.may_match(literals) and each.first.search(letters.lowered) for each in _PATTERNS)
    lines = b"\n" + letters.data.replace(b"\r", b"\n")
    return is_named or (_AS_COMMAND.may_match(literals) and _AS_COMMAND.first.search(lines) is not None)

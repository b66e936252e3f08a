"""Words of the network in instructions; a skill whose instructions have one has the capability ``network:?``.

No file that runs is read for that: whatever a program says, it may reach a host that it does not name.
"""

from __future__ import annotations

import re

from skillhub.formats.text import deferred, words
from skillhub.scan.pattern import PATTERNS, line_patterns
from skillhub.scan.views import LazyPattern, Letters, Literals

# Programs and modules: the first part of a word, up to a dot. The search is in lower case.
_STRONG_WORDS = words(
    "curl wget wget2 aria2c axel ncat netcat socat scp sftp rsync lftp tftp nslookup rclone s3cmd gsutil ngrok"
    " cloudflared lynx w3m elinks certutil bitsadmin invoke-webrequest invoke-restmethod start-bitstransfer npx"
    " uvx bunx pipx s_client xmlhttprequest webfetch websearch paramiko aiohttp httpx urllib3 smtplib ftplib"
    " imaplib poplib telnetlib xmlrpc socketserver pycurl"
)
# By the longest run of letters in each name, which a text with the name contains as a word.
_STRONG_BY_WORD = {
    max(re.split("[_-]", word), key=len).encode(): LazyPattern(rf"{word}(?<![\w.-]{word})(?![\w-])".encode())
    for word in _STRONG_WORDS
}
# Parts of words.
_STRONG_PARTS = Literals(
    *b"downloadstring downloadfile urlopen urlretrieve sendbeacon fsockopen".split(),
    *b"net.webclient net.sockets net.http".split(),
)


# Patterns that hardly occur in a text about something offline.
_STRONG = tuple(line_patterns(PATTERNS["network"], {}))
# Words that count only in the place of a command: at the start of a line, after a prompt, a quote or another command.
(_WEAK,) = line_patterns(PATTERNS["network_as_command"], {})
_JOINT = deferred(rb"[\\`^]\r?\n")


def names_network(letters: Letters) -> bool:
    """Return whether a text has a word of the network, read with its lines joined, too."""
    plain = Letters(letters.data.translate(None, b"\0")) if b"\0" in letters.data else letters
    has_joint = any(sign in plain.data for sign in (b"\\", b"`", b"^")) and _JOINT.search(plain.data) is not None
    return _has_word(plain) or (has_joint and _has_word(Letters(_JOINT.sub(b"", plain.data))))


def _has_word(letters: Letters) -> bool:
    """Return whether a text has a word of the network; the cached set of its words is compared first."""
    text_words, lowered = letters.words, letters.lowered
    return (
        any(_STRONG_BY_WORD[word].search(lowered) for word in _STRONG_BY_WORD.keys() & text_words)
        or _STRONG_PARTS.is_in(letters)
        or any(pattern.may_match(text_words) and pattern.first.search(lowered) for pattern in _STRONG)
        or (
            _WEAK.may_match(text_words) and _WEAK.first.search(b"\n" + letters.data.replace(b"\r", b"\n")) is not None
        )
    )

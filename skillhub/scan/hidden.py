"""Invisible characters, and characters that change the direction of text: a model reads what no person sees.

Every such character is a finding, except in the sequences of ``_ALLOWED``: emoji, keycaps, the three flags of regions
among the emoji, variants that Unicode standardizes, joiners and marks beside the scripts that need them. The tables
are our own: ``unicodedata`` differs between versions of Python, but a skill must have the same findings on each.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

from skillhub.formats.text import deferred
from skillhub.model.finding import Rule, rules

BIDI: Final = rules()["SH001"]
UNSEEN: Final = rules()["SH002"]
ZERO_RUN: Final = rules()["SH003"]
ZERO: Final = rules()["SH004"]
STEERING: Final = rules()["SH005"]

# More variation selectors without effect than this, or more other invisible characters, can encode text. Fewer come
# from careless copying, and encode no more than a few letters.
_STRAY_SELECTORS_MAX = 3
_STRAYS_MAX = 16
# Random bytes contain one of these characters every few 100,000 bytes.
_IN_BINARY_MAX = 16
# The first bytes of each character that ``hidden_in_binary`` searches for; and a table that makes ``12`` of them, but
# of a few other bytes, too.
_LEADS = deferred(rb"\xe2[\x80\x81]|\xef[\xb8\xbb]|\xf3\xa0")
_LIKE_LEADS = bytes.maketrans(b"12\xe2\xef\xf3\x80\x81\xb8\xbb\xa0", b"0011122222")

# The ASCII of honest text; most texts have no other characters.
_PLAIN = bytes((9, 10, *range(32, 127)))
# Embeddings, overrides, isolates (CVE-2021-42574).
_BIDI = "[\u202a-\u202e\u2066-\u2069]"
# Unicode's Default_Ignorable_Code_Point without the characters of the other patterns here; marks of annotations; the
# line break of IBM (NEL) and page breaks; blanks that are no white space: fillers, an empty Braille cell, an empty
# note; marks of shorthand and hieroglyphs; noncharacters.
_ZERO = (
    "[\x0b\x0c\x85\u00ad\u034f\u061c\u070f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028\u2029\u2060-\u2065\u206a-\u206f"
    "\u2800\u3164\ufdd0-\ufdef\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\U00013430-\U0001343f\U00016fe4"
    "\U0001bca0-\U0001bca3\U0001d159\U0001d173-\U0001d17a\U000e0080-\U000e00ff\U000e01f0-\U000e0fff]"
)
# Private use: icons of programmers' fonts stand alone, encoded text does not.
_PRIVATE = "[\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd]{8}"
# With C1 (ECMA-48), which terminals treat like the two-byte sequences that begin with ESC.
_CONTROL = "[\x01-\x08\x0e-\x1f\x7f-\x84\x86-\x9f]"
# A terminal draws the text after it over the line. Before LF it ends a line; some tools write several before LF.
_RETURN = r"(?<!\r)\r++(?!\n|\Z)"
_TAG = "[\U000e0000-\U000e007f]"
_SELECTOR = "[\ufe00-\ufe0f\U000e0100-\U000e01ef]"
_RTL = (
    "\u0590-\u061b\u061d-\u070e\u0710-\u08ff\ufb1d-\ufdcf\ufdf0-\ufdff\ufe70-\ufefc"
    "\U00010800-\U00010fff\U0001e800-\U0001efff"
)
# Arabic, Syriac, N'Ko; the scripts of India, Sri Lanka, Tibet, Burma, Cambodia, Mongolia, Java, Bali and their like.
_JOINING = (
    "\u0600-\u061b\u061d-\u070e\u0710-\u07ff\u0840-\u08ff\ufb50-\ufdcf\ufdf0-\ufdff\ufe70-\ufefc\u0900-\u0dff\u0f00-\u109f"
    "\u1700-\u17b3\u17b6-\u180a\u1810-\u18af\u1900-\u1cff\ua800-\uabff\U00010a00-\U00010eff\U00011000-\U00011fff\U0001e900-\U0001e95f"
)
# Thai, Lao, Tibetan, Burmese, Khmer and related scripts, which do not separate words by blanks.
_UNPARTED = "\u0e00-\u109f\u1780-\u17b3\u17b6-\u17ff\u1950-\u19ff\u1a20-\u1aaf\ua980-\ua9ff\uaa60-\uaadf"
_HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_PICTURE = (
    "\xa9\xae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u24c2\u25a0-\u27bf\u2900-\u297f\u2b00-\u2bff\u3030\u303d"
    "\u3297\u3299\U0001f000-\U0001faff"
)
# Of StandardizedVariants.txt: mathematics, zero, Burmese, Phags-pa, Manichaean and punctuation of CJK.
_VARIED = (
    "0\u2205\u2229\u222a\u2268\u2269\u2272\u2273\u228a\u228b\u2293-\u2295\u2297\u229c\u22da\u22db\u2a3c\u2a3d\u2a9d\u2a9e"
    "\u2aac\u2aad\u2acb\u2acc\u1000-\u109f\uaa60-\uaa7f\ua840-\ua877\U00010ac0-\U00010aef\u3001\u3002\uff01\uff0c\uff0e"
    "\uff1a\uff1b\uff1f"
)
# Of emoji-variation-sequences.txt, below U+10000.
_TWO_STYLES = (
    "\xa9\xae\u203c\u2049\u2122\u2139\u2194-\u2199\u21a9\u21aa\u231a\u231b\u2328\u23cf\u23e9-\u23f3\u23f8-\u23fa\u24c2\u25aa\u25ab"
    "\u25b6\u25c0\u25fb-\u25fe\u2600-\u2604\u260e\u2611\u2614\u2615\u2618\u261d\u2620\u2622\u2623\u2626\u262a\u262e\u262f\u2638-\u263a"
    "\u2640\u2642\u2648-\u2653\u265f\u2660\u2663\u2665\u2666\u2668\u267b\u267e\u267f\u2692-\u2697\u2699\u269b\u269c\u26a0\u26a1\u26a7"
    "\u26aa\u26ab\u26b0\u26b1\u26bd\u26be\u26c4\u26c5\u26c8\u26ce\u26cf\u26d1\u26d3\u26d4\u26e9\u26ea\u26f0-\u26f5\u26f7-\u26fa\u26fd"
    "\u2702\u2705\u2708-\u270d\u270f\u2712\u2714\u2716\u271d\u2721\u2728\u2733\u2734\u2744\u2747\u274c\u274e\u2753-\u2755\u2757\u2763"
    "\u2764\u2795-\u2797\u27a1\u27b0\u27bf\u2934\u2935\u2b05-\u2b07\u2b1b\u2b1c\u2b50\u2b55\u3030\u303d\u3297\u3299"
)
_EMOJI = f"(?:[{_TWO_STYLES}\U0001f000-\U0001faff][\ufe0e\ufe0f]|[{_PICTURE}][\U0001f3fb-\U0001f3ff]?)"
_SINGLE = f"(?!{_SELECTOR}|{_ZERO})"
# The first character of each match, tried before the alternatives: hardly any character of a text begins one.
_ODD = "(?=[#*0-9\x01-\x08\x0b-\x1f\x7f-\U0010ffff])"
_ALLOWED = deferred(
    f"{_ODD}(?:"
    + "|".join(
        (
            "\U0001f3f4\U000e0067\U000e0062(?:\U000e0065\U000e006e\U000e0067|\U000e0073\U000e0063\U000e0074|"
            "\U000e0077\U000e006c\U000e0073)\U000e007f",
            f"{_EMOJI}(?:\u200d{_EMOJI}){{0,7}}+{_SINGLE}",
            f"[#*0-9][\ufe0e\ufe0f]\u20e3{_SINGLE}",
            "(?<=[\u1820-\u18aa])[\u180b-\u180d\u180f](?![\u180b-\u180d\u180f])",
            "(?<=[\u1820-\u18aa\u180b-\u180d])\u180e(?=[\u1820-\u18aa])",
            "(?<=[\U00013000-\U0001342f\U00013440-\U00013455])[\U00013430-\U0001343f]{1,2}+",
            f"(?<=[{_JOINING}])[\u200c\u200d]{_SINGLE}|\u200c(?=[\u0600-\u06ff])(?<!{_ZERO}\u200c)",
            f"(?<=[{_UNPARTED}])\u200b{_SINGLE}",
            f"(?<=[{_RTL}])[\u061c\u200e\u200f]{_SINGLE}",
            f"[\u061c\u200e\u200f](?=[ -/:-@]{{0,4}}[{_RTL}])(?<!{_ZERO}[\u061c\u200e\u200f])",
            "(?<=[\u0591-\u05c7])\u034f(?=[\u0591-\u05ea])|\u070f(?=[\u0710-\u074a])",
            "\u115f(?=[\u1160-\u11ff\ud7b0-\ud7c6])|(?<=[\u1100-\u115f\ua960-\ua97c])\u1160"
            "(?=[\u1160-\u11ff\ud7b0-\ud7fb]|\\Z|\\W)",
            "(?<=[\u2801-\u28ff])\u2800++|\u2800{1,80}+(?=[\u2801-\u28ff])",  # a row of a drawing in Braille
            "(?<=\\w)\u00ad(?=\\w)",  # a soft hyphen within a word
            "(?<![^\n\r])[\x0b\x0c]|[\x0b\x0c](?=[\r\n]|\\Z)",  # a page break, alone where a line begins or ends
        )
    )
    + ")"
)
_MARK = deferred(f"\ufeff{_SINGLE}")
# Variants of a character that look almost the same: a few are ordinary, many can encode text. The database of
# ideographs has at most 32 variants of one; pictures that are not emoji have none.
_VARIANT = deferred(
    f"(?:[{_HAN}][\ufe00-\ufe02\U000e0100-\U000e011f]|[{_VARIED}]\ufe00|[\U00013000-\U0001342f][\ufe00-\ufe06]"
    f"|[{_PICTURE}][\ufe0e\ufe0f]){_SINGLE}"
)
_SUSPECT = deferred("|".join((_BIDI, _ZERO, _CONTROL, "\r", _TAG, _SELECTOR, _PRIVATE)))
_FIND = deferred(
    f"{_ODD}(?:(?P<tag>{_TAG}|{_SELECTOR}{{2}})|(?P<bidi>{_BIDI})|(?P<run>{_ZERO}{{3}}|{_PRIVATE})|(?P<zero>{_ZERO})"
    f"|(?P<selector>{_SELECTOR})|(?P<control>{_CONTROL}|{_RETURN}))"
)
_RULES = {"tag": UNSEEN, "bidi": BIDI, "run": ZERO_RUN, "zero": ZERO, "selector": ZERO, "control": STEERING}
_IN_BINARY = deferred("|".join((_BIDI, "[\u200b-\u200f\u2060-\u2064\ufeff]", _TAG, _SELECTOR)))


def hidden(data: bytes, *, first: bool = True) -> Iterator[tuple[Rule, int]]:
    """Yield the rule and the offset of the invisible and steering characters in the UTF-8 text ``data``.

    Of those of one kind on one line only the first is yielded.

    Args:
        data: The bytes; bytes that are not UTF-8, and a character cut off at the end, are skipped.
        first: Whether ``data`` is the start of the file, where a byte order mark is allowed.
    """
    # Most texts have hardly any other characters.
    odd = (data.replace(b"\r\n", b"") if b"\r" in data else data).translate(None, _PLAIN)
    if not odd or not _SUSPECT.search(odd.decode("utf-8", "ignore")):
        return
    text = data.decode("utf-8", "surrogateescape")
    if first and _MARK.match(text):
        text = "???" + text[1:]
    text = _ALLOWED.sub(_blank, text)
    variants = len(_VARIANT.findall(text))
    if 0 < variants <= _STRAYS_MAX:
        text = _VARIANT.sub(_blank, text)
    strays: list[tuple[str, int]] = []
    counts, on_line = Counter[str](), set[str]()
    char = offset = line_end = 0
    for match in _FIND.finditer(text):
        kind, start = match.lastgroup or "", match.start()
        counts[kind] += 1
        if start > line_end:
            on_line.clear()
            line_end = text.find("\n", start)
            line_end = len(text) if line_end < 0 else line_end
        if kind not in on_line:
            on_line.add(kind)
            offset += len(text[char:start].encode("utf-8", "surrogateescape"))
            char = start
            strays.append((kind, offset))
    is_written = counts["selector"] - (variants if variants > _STRAYS_MAX else 0) > _STRAY_SELECTORS_MAX
    is_many = counts["zero"] + variants > _STRAYS_MAX
    for kind, offset in strays:
        if kind == "selector" and is_written:
            yield UNSEEN, offset
        elif kind in ("zero", "selector") and is_many:
            yield ZERO_RUN, offset
        else:
            yield _RULES[kind], offset


def hidden_in_binary(data: bytes) -> Iterator[tuple[Rule, int]]:
    """Yield the first place of invisible characters in binary data, if it has more of them than random bytes have."""
    if data.translate(_LIKE_LEADS).count(b"12") <= _IN_BINARY_MAX or len(_LEADS.findall(data)) <= _IN_BINARY_MAX:
        return
    text = data.decode("utf-8", "surrogateescape")
    offsets = [match.start() for match in _IN_BINARY.finditer(text)]
    if len(offsets) > _IN_BINARY_MAX:
        yield UNSEEN, len(text[: offsets[0]].encode("utf-8", "surrogateescape"))


def _blank(match: re.Match[str]) -> str:
    return "?" * len(match[0].encode("utf-8", "surrogateescape"))

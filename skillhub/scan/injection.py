"""Injected instructions: text that turns an agent against its user, in prose, in hidden text or in agents' memory.

One phrase proves little: texts about attacks quote it, and honest skills say "do not tell the user". Two of these
phrases within a few sentences make an instruction suspicious: drop the earlier instructions, keep something from the
user, send private data away, follow the text at an address.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from sys import maxsize
from typing import Final

from skillhub.formats.text import deferred, words
from skillhub.model.finding import Sighting
from skillhub.scan.pattern import OTHERS_ACT, is_installer
from skillhub.scan.skill_files import PHRASES, Sign, Signs, SkillFiles, SourceFile, displayed
from skillhub.scan.views import Literals

# Words of a text about attacks. A phrase that such a text quotes, or shows in a table, is no instruction.
_LESSON = deferred(
    r"\b(?:attack|malicious|injection|detect|threat|vulnerab|red flag|suspicious|adversar|jailbreak|exploit|phishing"
    r"|unsafe|anti-?pattern|for example|e\.g\.|such as|look for|check for|test that|never do|indicator|poison"
    r"|exfiltrat|review)"
)
_QUOTE = deferred(r"[\"'`“”«»|]")
# Text that is not displayed: link definitions used as comments, alternative texts of pictures, titles of links.
_UNDRAWN = deferred(
    r"^ {0,3}\[[^\]\n]{0,20}\]: ?# ?[(\"']([^\n]*)[)\"'] *$|!\[([^\[\]\n]{10,})\]\("
    r"|\]\([^()\s\]]{1,300} (?:\"([^\"\n]{10,})\"|'([^'\n]{10,})')\)",
    re.MULTILINE,
)
_INVISIBLE = deferred(
    r"<(\w{1,12})\b(?=[^<>]{0,4000}>)[^<>]{0,4000}?"
    r"(?:display: ?none|visibility: ?hidden|font-size: ?0|opacity: ?0|color[=:] ?[\"']?(?:white|#fff))[^<>]{0,4000}>",
    re.IGNORECASE,
)
_LINKS: Final = Literals(b"](", b"]:")
_TITLES: Final = Literals(b"]: #", b"]:#", b"![", b"')", b'")')
_STYLES: Final = Literals(b"none", b"hidden", b"font-size", b"opacity", b"white", b"#fff")
# Elements without an end.
_VOID: Final = frozenset(words("area base br col embed hr img input link meta source track wbr"))
_ENCODED = deferred(r"[A-Za-z0-9+/]{40,4000}")
# Each of these signs in a hidden text is an order.
_ORDERS: Final = (
    *(PHRASES["orders"][name] for name in words("override secrecy send fetch private")),
    PHRASES["safeguards"]["unsafe"],
)


def orders(files: SkillFiles) -> Iterator[Sighting]:
    """Yield the instructions in documents to drop the user's, to keep secrets from the user, or to send them away."""
    for file in files:
        if file.is_document and not file.is_program:
            signs = Signs(file, "orders")
            if signs.has_any("override", "secrecy") or (signs.has_any("send") and signs.has_any("private")):
                yield from _combined(signs)
            yield from _overridden(file, signs)
            yield from _hidden(file)


def _combined(signs: Signs) -> Iterator[Sighting]:
    for number in sorted({*signs.where("override"), *signs.where("secrecy"), *signs.where("private")}):
        near = partial(signs.near, number=number, before=1, after=1)
        is_sent = near("send")
        is_private = signs.has("private", number)
        if is_private and is_sent:
            name, rule = "private", "SH307"
        elif signs.has("override", number) and (near("secrecy") or is_sent or near("fetch") or near("private")):
            name, rule = "override", "SH308"
        elif signs.has("secrecy", number) and (is_sent or near("private") or (near("follow") and near("fetch"))):
            name, rule = "secrecy", "SH308"
        else:
            continue
        if not _is_lesson(signs, number, name):
            yield Sighting(rule, signs.path, signs.line(name, number))


def _overridden(file: SourceFile, signs: Signs) -> Iterator[Sighting]:
    """Yield the instructions that a pattern of a line misses, such as those with emphasis, tags or other letters."""
    override = signs.sign("override")
    if override is None or not any(_search(override, paragraph) for paragraph in file.paragraphs):
        return
    for number, text in enumerate(signs.texts):
        for shown in (text, displayed(text)):
            if (match := override.search(shown)) and not _is_lesson(signs, number, "override", shown):
                line = signs.passages[number].line + shown.count("\n", 0, match.start())
                yield Sighting("SH301", signs.path, line)


def _search(wanted: Sign, text: str) -> bool:
    """Return whether a sign is in a folded text, or in what a reader sees of it."""
    if wanted.search(text):
        return True
    may_match = wanted.may_match(text) or "<" in text or "&" in text
    return may_match and wanted.search(displayed(text)) is not None


def _is_lesson(signs: Signs, number: int, name: str, shown: str = "") -> bool:
    """Return whether a passage quotes a sign in a text about attacks; ``shown`` is another reading of its text."""
    passage, text = signs.passages[number], shown or signs.texts[number]
    match = signs.table[name].search(text)
    start = match.start() if match else 0
    is_quoted = passage.kind == "code" or _QUOTE.search(text, max(0, start - 80), start) is not None
    around = (passage.heading.lower(), text, signs.texts[number - 1] if number else "")
    return is_quoted and any(_LESSON.search(nearby) for nearby in around)


def _hidden(file: SourceFile) -> Iterator[Sighting]:
    """Yield the instructions in text that is not displayed, which only a model reads."""
    for start, inner in _invisible_texts(file):
        text = "\n".join((inner, *_decoded(inner))).lower()
        count = sum(order.search(text) is not None for order in _ORDERS)
        signs = PHRASES["orders"]
        if count > 1 or signs["override"].search(text) or (count and signs["follow"].search(text)):
            yield Sighting("SH306", file.path, file.line(start))


def _invisible_texts(file: SourceFile) -> Iterator[tuple[int, str]]:
    if b"<" in file.data and "<!--" in file.text:
        text = file.text
        # A comment ends at its end or at the start of the next one, so no text is read twice.
        starts = [match.end() for match in re.finditer("<!--", text)]
        yield from ((start, text[start:end].partition("-->")[0]) for start, end in pairwise((*starts, len(text))))
    if b"]" in file.data and file.has(_LINKS) and file.has(_TITLES):
        yield from ((match.start(), match[match.lastindex or 0]) for match in _UNDRAWN.finditer(file.text))
    if b"<" in file.data and file.has(_STYLES):
        end = 0
        for match in _INVISIBLE.finditer(file.text):
            if match.start() >= end:  # an element within another one was read with it
                end = _end_of(match, file.text)
                yield match.start(), file.text[match.end() : end]


def _end_of(element: re.Match[str], text: str) -> int:
    """Return the offset at which an element ends, with the elements within it; the end of the text without a mark."""
    if element[1].lower() in _VOID:
        return element.end()
    depth = 1
    for mark in re.compile(rf"<(/?){element[1]}\b", re.IGNORECASE).finditer(text, element.end()):
        depth += -1 if mark[1] else 1
        if not depth:
            return mark.start()
    return len(text)


def _decoded(text: str) -> Iterator[str]:
    """Yield the texts that a text contains in base64."""
    for match in _ENCODED.finditer(text):
        with suppress(ValueError):
            yield b64decode(match[0] + "=" * (-len(match[0]) % 4)).decode("utf-8", "ignore")


# Rules about one sign, or about signs near each other: one sign proves little, where honest skills have it, too.
# "memory": instructions in the files that agents read at every start. "demands": on an agent, which no task needs: at
# every start, before every task, with every result. "hooks": of agents and of git. "covert": acts behind the back of
# the user, each of which is honest where the user is told of it. "pictures": their addresses carry what the user
# wrote, and their hosts get that as soon as they are shown.

_TOLD_OF = deferred(
    r"\b(?:attack|malicious|detect|threat|suspicious|adversar|exploit|indicator|red flag|forensic|do not|don't|never"
    r"|for example|such as|look for|check for|mitre|incident|review|secret|token|password|api key|credential)"
)
_ABOUT = deferred(r"\b(?:attack|injection|exfiltrat|threat|vulnerab)")
_OTHERS_ACT = deferred(OTHERS_ACT)


def _has_file(signs: Signs, number: int, _name: str) -> bool:
    """Return whether a passage names a file of an agent's memory, for which there is a stricter rule."""
    return signs.has("file", number)


def _is_known_script(signs: Signs, number: int, _name: str) -> bool:
    """Return whether each script near a passage is the installer of a well-known project."""
    around = signs.texts[max(0, number - 2) : number + 2]
    return all(is_installer(match[0]) for text in around for match in signs.table["script"].finditer(text))


def _is_told_of(signs: Signs, number: int, name: str) -> bool:
    """Return whether each sentence with a sign, or its heading, is of a text about attacks, or is about a secret."""
    heading, text = signs.passages[number].heading.lower(), signs.texts[number]
    said = [each for each in re.split(r"[.!?]\s|\n\W", text) if signs.table[name].search(each)] or [text]
    return all(_TOLD_OF.search(f"{heading}\n{each}") for each in said)


def _is_taught(signs: Signs, number: int, _name: str) -> bool:
    """Return whether a passage quotes a picture in a text about attacks, or says that others show it."""
    is_quoted = "`![" in signs.texts[number] and _ABOUT.search(signs.passages[number].heading.lower()) is not None
    return is_quoted or any(map(_OTHERS_ACT.search, signs.texts[max(number - 1, 0) : number + 1]))


@dataclass(frozen=True, slots=True)
class _Near:
    """A rule, the sign that it reports, the signs that must be near it, and what excuses it.

    Attributes:
        near: Each sign with the numbers of passages before and after in which it may be.
    """

    rule: str
    sign: str
    near: tuple[tuple[str, int, int], ...] = ()
    is_excused: Callable[[Signs, int, str], bool] = lambda *_: False


_ANYWHERE: Final = (maxsize, maxsize)
_RULES: Final[Mapping[str, tuple[_Near, ...]]] = {
    "memory": (
        _Near("SH304", "file", (("remember", 1, 1), ("consent", 1, 1)), _is_lesson),
        _Near("SH304", "remember", (("consent", 0, 0),), _has_file),
    ),
    "safeguards": (_Near("SH305", "unsafe", (), _is_lesson),),
    "hooks": (_Near("SH312", "post", (("hook", 1, 0),)), _Near("SH118", "package", (("hook", 0, 0),))),
    "demands": (
        _Near("SH115", "run it", (("script", 2, 1),), _is_known_script),
        _Near("SH116", "more skills", (("each start", 3, 3),)),
        _Near("SH309", "no question", (("program", 1, 3),)),
        _Near("SH310", "in front"),
        _Near("SH311", "each result", (("sent", 0, 4),)),
    ),
    "covert": (
        _Near("SH313", "copied", (("unsaid", 1, 2),)),
        _Near("SH411", "erased", (), _is_told_of),
        _Near("SH315", "conversations", (("delivered", *_ANYWHERE),)),
        _Near("SH314", "code word", (("unasked", *_ANYWHERE),)),
    ),
    "pictures": (_Near("SH307", "picture", (("filled in", 1, 1), ("words", 1, 1)), _is_taught),),
}
_IN_ANY_FILE: Final = ("memory", "safeguards", "hooks")  # not only in documents


def near_each_other(files: SkillFiles) -> Iterator[Sighting]:
    """Yield what the rules of ``_RULES`` find."""
    for file in files:
        for table in () if file.is_program else _RULES if file.is_document else _IN_ANY_FILE:
            signs = Signs(file, table)
            for rule in _RULES[table]:
                is_there = all(map(signs.has_any, (rule.sign, *(name for name, *_ in rule.near))))
                for number in signs.where(rule.sign) if is_there else ():
                    is_near = all(signs.near(name, number, *reach) for name, *reach in rule.near)
                    if is_near and not rule.is_excused(signs, number, rule.sign):
                        yield Sighting(rule.rule, file.path, signs.line(rule.sign, number))

"""What the prose of a skill tells an agent or a person: injected instructions, and to run programs from the network.

The phrases are the tables of ``phrases.json``. One phrase proves little: texts about attacks quote it, and honest
skills say "do not tell the user". Two of them within a few sentences make an instruction suspicious.
"""

from __future__ import annotations

import re
from base64 import b64decode
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from sys import maxsize
from typing import Any, Final

from skillhub.formats.text import deferred, words
from skillhub.model.finding import Sighting
from skillhub.scan.pattern import (
    ANYBODYS,
    FORGES,
    OTHERS_ACT,
    OWN_NETWORK,
    PHRASE_ROWS,
    PHRASES,
    URL,
    AddressKind,
    Sign,
    is_installer,
    kind_of,
)
from skillhub.scan.skill_files import Passage, SkillFiles, SourceFile, displayed, fold_section
from skillhub.scan.views import Literals

# Signs, phrases of the tables, and where a file has them.


class Signs:
    """Finds the sections of a file that have a sign, and signs near each other; a section is named by its number.

    Args:
        file: The file.
        table: The name of a table of ``PHRASES``; its signs are searched in the folded text.
    """

    def __init__(self, file: SourceFile, table: str) -> None:
        self.path = file.path
        self.table = PHRASES[table]
        self._file = file
        self._signs: dict[str, Sign | None] = {}
        self._results: dict[tuple[str, int], bool] = {}
        self._ends: dict[int, list[int]] = {}

    @property
    def passages(self) -> tuple[Passage, ...]:
        """The sections of the file."""
        return self._file.sections

    @property
    def texts(self) -> tuple[str, ...]:
        """The folded text of each section."""
        return self._file.folded_sections

    def has_any(self, *names: str) -> bool:
        """Return whether one of the signs is anywhere in the file; its structure is not parsed for that."""
        signs = [sign for name in names if (sign := self.sign(name))]
        return any(sign.search(text) for text in (self._file.paragraphs if signs else ()) for sign in signs)

    def may_have(self, name: str) -> bool:
        """Return whether the file has the words of a sign, which is quicker than to look for the sign."""
        literals = self._file.literals
        for group in self.table[name].literals:  # noqa: SIM110 - a generator takes twice as long
            if group.parts.isdisjoint(literals):
                return False
        return True

    def sign(self, name: str) -> Sign | None:
        """Return a sign with only the words of the file; None if it cannot be in the file."""
        if name not in self._signs:
            sign, file = self.table[name], self._file
            self._signs[name] = (
                sign.within(file.literals, file.folded, file.unmarked) if self.may_have(name) else None
            )
        return self._signs[name]

    def where(self, name: str) -> list[int]:
        """Return the numbers of the passages that have a sign."""
        return [number for number in range(len(self.texts)) if self.has(name, number)]

    def has(self, name: str, number: int) -> bool:
        """Return whether a passage has a sign."""
        if (name, number) not in self._results:
            sign = self.sign(name)
            self._results[name, number] = sign is not None and sign.search(self.texts[number]) is not None
        return self._results[name, number]

    def near(self, name: str, number: int, before: int, after: int) -> bool:
        """Return whether a passage has a sign, from ``before`` passages before ``number`` to ``after`` after it."""
        around = range(max(0, number - before), min(len(self.texts), number + after + 1))
        return any(self.has(name, position) for position in around)

    def line(self, name: str, number: int) -> int:
        """Return the line number at which a passage has a sign."""
        match = self.table[name].search(self.texts[number])
        return self.line_at(number, match.start() if match else 0)

    def line_at(self, number: int, offset: int) -> int:
        """Return the line number of an offset in the folded text of a passage."""
        passage = self.passages[number]
        if number not in self._ends:  # joined lines have one blank between them, in place of the end of a line
            self._ends[number] = [match.start() for match in re.finditer("\n", fold_section(passage))]
        return passage.line + bisect_left(self._ends[number], offset)


# Orders to an agent.

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
            is_sent = signs.may_have("private") and signs.has_any("send") and signs.has_any("private")
            if is_sent or signs.has_any("override", "secrecy"):
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
                yield Sighting("SH301", signs.path, signs.line_at(number, match.start()))


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
_FORBIDS = deferred(r"\b(?:never|not|don't|avoid)\s(?:[\w']{1,12}\s){0,2}$")  # "not" elsewhere in it forbids nothing
_ABOUT = deferred(r"\b(?:attack|injection|exfiltrat|threat|vulnerab)")
_OTHERS_ACT = deferred(OTHERS_ACT)


def _is_forbidden(signs: Signs, number: int, name: str) -> bool:
    """Return whether a passage forbids what a sign says, or quotes it in a text about attacks."""
    text = signs.texts[number]
    starts = [match.start() for match in signs.table[name].finditer(text)]
    return _is_lesson(signs, number, name) or all(_FORBIDS.search(text, max(0, at - 100), at) for at in starts)


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


# In ``phrases.json`` a sign that is reported has a ``rule``; the signs ``near`` it, each with the numbers of passages
# before and after in which it must be, or null for anywhere in the file; and what excuses it (``unless``).
_EXCUSES: Final[Mapping[str, Callable[[Signs, int, str], bool]]] = {
    "lesson": _is_lesson,
    "forbidden": _is_forbidden,
    "file named": _has_file,
    "known script": _is_known_script,
    "told of": _is_told_of,
    "taught": _is_taught,
    "": lambda *_: False,
}
_ANYWHERE: Final = (maxsize, maxsize)
_RULES: Final[Mapping[str, Mapping[str, Any]]] = {
    table: {name: row for name, row in rows.items() if "rule" in row} for table, rows in PHRASE_ROWS.items()
}
_IN_ANY_FILE: Final = ("memory", "safeguards", "hostage", "hooks")  # not only in documents


def near_each_other(files: SkillFiles) -> Iterator[Sighting]:
    """Yield what the rules in ``phrases.json`` find."""
    for file in files:
        for table in () if file.is_program else _RULES if file.is_document else _IN_ANY_FILE:
            signs = Signs(file, table)
            for sign, row in _RULES[table].items():
                if not signs.may_have(sign):  # most files have no word of it
                    continue
                near = row.get("near", {})
                names = (sign, *near)
                is_there = all(map(signs.may_have, names)) and all(map(signs.has_any, names))
                for number in signs.where(sign) if is_there else ():
                    is_near = all(signs.near(name, number, *(near[name] or _ANYWHERE)) for name in near)
                    if is_near and not _EXCUSES[row.get("unless", "")](signs, number, sign):
                        yield Sighting(row["rule"], file.path, signs.line(sign, number))


# Prerequisites: instructions to a person to download and run a program.

# A step is described in a few sentences; passages further apart belong to different steps.
_STEP: Final = 3


@dataclass(frozen=True, slots=True)
class _Link:
    passage: int
    line: int
    kind: AddressKind
    is_program: bool


def _links(signs: Signs) -> Iterator[_Link]:
    """Yield the addresses in a document, except the installers of well-known projects."""
    for number, text in enumerate(signs.texts):
        for match in URL.finditer(text):
            host, path = match[1], match[2].rstrip(".,;:!")
            if not is_installer(f"https://{host}{path}"):
                line = signs.line_at(number, match.start())
                yield _Link(number, line, kind_of(host, path), kind_of("a.com", path) == "program")


def prerequisites(files: SkillFiles) -> Iterator[Sighting]:
    """Yield the instructions to a person to download and run a program that anybody may have published."""
    for file in files:
        if (file.is_document or file.language == "data") and b"://" in file.data and _is_suspicious(file):
            signs = Signs(file, "prerequisites")
            yield from (sighting for link in _links(signs) for sighting in _sightings_of(link, signs))


def _is_suspicious(file: SourceFile) -> bool:
    """Return whether a file has an address of a suspicious kind, or a command to copy into a terminal."""
    addresses = set(URL.findall(file.text.lower()))
    if any(kind_of(host, path.rstrip(".,;:!")) != "other" for host, path in addresses):
        return True
    return Signs(file, "prerequisites").has_any("command")


def _sightings_of(link: _Link, signs: Signs) -> Iterator[Sighting]:
    """Yield the rules that an address falls under, by the passages around it."""
    near = partial(signs.near, number=link.passage, before=_STEP, after=_STEP)
    passage = signs.passages[link.passage]
    is_prose = passage.kind != "code" or passage.language == "markdown"
    is_copied = is_prose and near("command", before=1, after=2) and near("terminal") and near("run")
    if is_copied or (link.kind == "paste" and near("execute", before=1, after=1)):
        yield Sighting("SH109", signs.path, link.line)
    is_file = link.is_program or link.kind == "drop"
    is_archive = is_file or (link.kind != "other" and near("archive"))
    if is_archive and near("password") and near("run") and near("fetch"):
        yield Sighting("SH110", signs.path, link.line)
    if is_prose and near("fetch", before=1, after=1) and near("needed"):
        if link.kind in ANYBODYS:
            yield Sighting("SH111", signs.path, link.line)
        elif link.is_program and near("run", before=0, after=1):
            yield Sighting("SH112", signs.path, link.line)


# An instruction to fetch a script and to run it in the same sentences, with the address in them.


def told_to_start(files: SkillFiles) -> Iterator[Sighting]:
    """Yield the instructions to fetch a program from an unknown address, and to run it."""
    for file in files:
        signs = Signs(file, "told")
        if file.is_document and not file.is_program and b"://" in file.data:
            for name, sign in signs.table.items():
                for number in signs.where(name) if signs.has_any(name) else ():
                    told = () if signs.passages[number].kind == "code" else sign.finditer(signs.texts[number])
                    for match in filter(_is_of_unknown, told):
                        yield Sighting("SH115", file.path, signs.line_at(number, match.start()))


def _is_of_unknown(told: re.Match[str]) -> bool:
    """Return whether an instruction has an address that is neither an installer's nor a host of repositories."""
    return any(
        not is_installer(address[0].rstrip(".,;:!"))
        and not OWN_NETWORK.match(address[1])
        and not FORGES.search(address[1].partition(":")[0])
        for address in URL.finditer(told[0])
    )


# A person who pastes what is in the clipboard into a shell runs a text that nobody sees before.

# What else than a command a person may copy into a terminal.
_VALUE = deferred(
    r"\b(?:key|token|code|password|passphrase|secret|url|link|address|id|path|prompt|result|output"
    r"|report|summary|answer|image|screenshot|markdown|html|json|sql)s?\b"
)
_WARNS = deferred(OTHERS_ACT + r"|\b(?:never|do not|don't) (?:paste|press|run|open)")


def pasted(files: SkillFiles) -> Iterator[Sighting]:
    """Yield the instructions to a person to run the text that is in the clipboard."""
    for file in files:
        signs = Signs(file, "clipboard")
        if file.is_document and not file.is_program and signs.has_any("paste keys", "pasted", "copied"):
            for name in ("paste keys", "pasted", "copied"):
                for number in signs.where(name):
                    if _runs_clipboard(signs, name, number) and not _warns(signs, number):
                        yield Sighting("SH119", file.path, signs.line(name, number))


def _runs_clipboard(signs: Signs, name: str, number: int) -> bool:
    """Return whether the passages around a sign tell a person to paste the clipboard into a shell."""
    near = partial(signs.near, number=number)
    is_opened = near("open", before=2, after=1)
    if name == "pasted":
        return (is_opened or near("run dialog", before=2, after=1)) and not _is_value(signs, name, number)
    if name == "copied":
        return (
            not _is_value(signs, name, number)
            and (is_opened or near("open", before=0, after=2))
            and near("paste", before=0, after=2)
        )
    if not near("press", before=2, after=0) or not near("enter", before=0, after=1):
        return False
    is_shown = any(each.kind == "code" for each in signs.passages[max(0, number - 3) : number + 2])
    return near("run dialog", before=2, after=0) or (is_opened and not is_shown)


def _is_value(signs: Signs, name: str, number: int) -> bool:
    """Return whether each sentence of a sign says that a key, an address or the like is copied."""
    text = signs.texts[number]
    ends = (match.end() for match in signs.table[name].finditer(text))
    return all(_VALUE.search(re.split(r"[.:\n]\s", text[:end])[-1]) for end in ends)


def _warns(signs: Signs, number: int) -> bool:
    """Return whether a passage is part of a text about such instructions."""
    return any(_WARNS.search(text) for text in signs.texts[max(number - 1, 0) : number + 1])

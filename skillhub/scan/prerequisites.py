"""What a person is told to fetch and to run before the skill works: where it lies, and how it is to be opened.

A prerequisite of an honest skill comes from a package registry or from a known project's own site. That of a planted
one lies on a page that anybody may write, in an archive with a password, which keeps scanners out, or on a site that
costs nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from skillhub.scan.addresses import PASTE_HOSTS, URL, AddressKind, is_installer, kind_of
from skillhub.scan.source import Passage, Sighting, SkillFiles, SourceFile

# A step is told in a few sentences: what is further apart than that many passages belongs to another.
_NEAR: Final = 3
_ANYBODYS: Final = frozenset[AddressKind]({"paste", "drop", "tenant", "short", "odd"})
_FETCH = r"\b(?:download|install|grab|obtain|get|visit|open|go to|navigate to|fetch|available|found) "
_SIGNS: Final = {
    name: re.compile(pattern)
    for name, pattern in {
        "fetch": r"\bdown-?loads?\b|\binstall(?:er|ed|ation|ing)?\b|\bgrab\b|\bobtain\b|\bvisit\b|\bgo to\b|\bnavigate to\b",
        "run": r"\b(?:run|execute|launch|open|start|double[- ]click|paste|enter)\b|\binstall(?:er)?\b|\bsetup\.exe\b",
        "execute": r"\b(?:run|execute|paste|copy|curl|bash|powershell|terminal)\b",
        "needed": r"\b(?:must|needs?|has|have) (?:to )?be (?:\w+ )?(?:installed|running|downloaded|set up|active)"
        r"|\brequires? [^.\n]{1,80}(?:\binstalled|\bto (?:function|work|run|operate)|\butility|\btool\b|\bagent\b|\bhelper|\bclient\b"
        r"|\bcli\b|\bdriver|\bcomponent|\bcli\b|cli\b)|\bprerequisites?\b|\bbefore (?:using|proceeding|you (?:use|start|begin))"
        r"|\b(?:will|won't|does|can)\s?(?:not|n't) (?:work|function|operate)|\brequired (?:\w+ ){0,2}(?:tool|utility|helper|component|software)"
        r"|\b(?:mandatory|critical requirement|required)\b",
        "password": r"\b(?:pass(?:word|phrase|code|wd)?|pwd|pw)\b[\s:=*_`\"'(-]{1,8}(?:is |for \w+ (?:is )?)?[\s:=*_`\"'(-]{0,4}[\w!@#$%-]{2,40}"
        r"|\b(?:extract|unzip|unpack|unrar|open)(?:ed)? (?:it )?(?:using|with)[: ]{1,2}[`\"']?\w",
        "archive": r"\bextract|\bunzip|\bunpack|\bunrar|\bdecompress|\barchive|\.(?:zip|rar|7z)\b|\bzip\b|\brar\b",
        "command": r"\bcopy (?:and (?:paste|run|execute) )?(?:(?:the|this|that|its|following|provided|entire|whole|install\w*|setup)\s){0,4}"
        r"(?:terminal |shell |powershell )?(?:command|script|code|snippet|one-?liner|line)",
        "terminal": r"\b(?:terminal|power-?shell|command prompt|command line|cmd(?:\.exe)?|console|run dialog|win(?:dows)?\s?(?:key)?\s?\+ ?[rx])\b",
    }.items()
}
# One of these words at least is in a file that any of the rules below sees something in.
_LOOK: Final = (*PASTE_HOSTS, b"download", b"install", b"terminal", b"powershell", b"copy ")


@dataclass(frozen=True, slots=True)
class _Link:
    passage: int
    line: int
    kind: AddressKind
    is_program: bool
    is_installer: bool


class _Document:
    """A document by its passages: in which of them each sign is, and which addresses."""

    def __init__(self, file: SourceFile) -> None:
        self.path = file.path
        self.passages = file.passages
        self._texts = [each.text.lower() for each in self.passages]
        self.signs = {name: self._where(name) for name in _SIGNS}
        self.links = [link for number, each in enumerate(self.passages) for link in self._links(number, each)]

    def _where(self, name: str) -> list[int]:
        search = _SIGNS[name].search
        return [number for number, text in enumerate(self._texts) if search(text)]

    def _links(self, number: int, passage: Passage) -> Iterator[_Link]:
        text = self._texts[number]
        for match in URL.finditer(text):
            host, path = match[1], match[2].rstrip(".,;:!")
            kind = kind_of(host, path)
            line = passage.line + text.count("\n", 0, match.start())
            is_program = kind == "program" or (kind in _ANYBODYS and kind_of("a.com", path) == "program")
            yield _Link(number, line, kind, is_program, is_installer(f"https://{host}{path}"))

    def near(self, name: str, number: int, before: int = _NEAR, after: int = _NEAR) -> bool:
        """Say whether a sign is in one of the passages from ``before`` to ``after`` that one."""
        return any(number - before <= each <= number + after for each in self.signs[name])


def prerequisites(files: SkillFiles) -> Iterator[Sighting]:
    """Yield where a person is told to fetch and run what anybody may have put there."""
    for file in files:
        if file.is_document and b"://" in file.data and file.has(*_LOOK):
            yield from file.parsed(_in_document)


def _in_document(file: SourceFile) -> list[Sighting]:
    document = _Document(file)
    return [seen for link in document.links if not link.is_installer for seen in _about(link, document)]


def _about(link: _Link, document: _Document) -> Iterator[Sighting]:
    near = partial(document.near, number=link.passage)
    is_prose = document.passages[link.passage].kind != "code"
    if link.kind == "paste" and near("execute", before=1, after=1):
        yield Sighting("SH109", document.path, link.line)
    elif is_prose and near("command", after=2, before=1) and near("terminal") and near("run"):
        yield Sighting("SH109", document.path, link.line)
    if near("password") and near("archive") and near("run") and near("fetch") and (link.is_program or link.kind != "other"):
        yield Sighting("SH110", document.path, link.line)
    if is_prose and near("fetch", before=1, after=0) and near("needed"):
        if link.kind in _ANYBODYS:
            yield Sighting("SH111", document.path, link.line)
        elif link.is_program and near("run", before=0, after=1):
            yield Sighting("SH112", document.path, link.line)

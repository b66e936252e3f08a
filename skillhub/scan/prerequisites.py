"""What a person is told to fetch and to run before the skill works: where it lies, and how it is to be opened.

A prerequisite of an honest skill comes from a package registry or from a known project's own site. That of a planted
one lies on a page that anybody may write, in an archive with a password, which keeps scanners out, or on a site that
costs nothing.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from skillhub.scan.addresses import ANYBODYS, URL, AddressKind, is_installer, kind_of
from skillhub.scan.source import Sighting, SkillFiles, SourceFile

# A step is told in a few sentences: what is further apart than that many passages belongs to another.
_NEAR: Final = 3
_SIGNS: Final = {
    name: re.compile("|".join(patterns))
    for name, patterns in {
        "fetch": (r"\b(?:down-?loads?|install(?:er|ed|ation|ing)?|grab|obtain|visit|go to|navigate to)\b",),
        "run": (r"\b(?:run|execute|launch|open|start|double[- ]click|paste|enter|install(?:er)?|setup\.exe)\b",),
        "execute": (
            r"\b(?:run|execute|bash|powershell|terminal)\b",
            r"\bpaste (?:it|the|this|that|in)\b",
            r"\bcopy (?:it|the|and|every)",
        ),
        "needed": (
            r"\b(?:must|needs?|has|have) (?:to )?be (?:\w{1,20} )?(?:installed|running|downloaded|set up|active)\b",
            r"\brequires? [^.\n]{1,80}(?:\binstalled|\bto (?:function|work|run|operate)|\butility|\bhelper|cli)\b",
            r"\brequires? [^.\n]{1,80}\b(?:tool|agent|client|driver|component)\b",
            r"\b(?:prerequisites?|mandatory|required)\b|\bbefore (?:using|proceeding|you (?:use|start|begin))\b",
            r"\b(?:will|won't|does|can)\s?(?:not|n't) (?:work|function|operate)\b",
        ),
        "password": (
            r"\b(?:pass(?:word|phrase|code|wd)?|pwd|pw)\b[\s:=*_`\"'(-]{1,8}(?:(?:is|for \w{1,20}) ){0,2}"
            r"[\s:=*_`\"'(-]{0,4}[\w!@#$%-]{2,40}",
            r"\b(?:extract|unzip|unpack|unrar|open)(?:ed)? (?:it )?(?:using|with)[: ]{1,2}[`\"']?\w",
        ),
        "archive": (r"\b(?:extract|unzip|unpack|unrar|decompress|archive)|\b(?:zip|rar|7z)\b",),
        "command": (
            r"\bcopy (?:and (?:paste|run|execute) )?"
            r"(?:(?:the|this|that|its|following|entire|whole|install\w{0,6}|setup)\s){0,4}"
            r"(?:terminal |shell |powershell )?(?:command|script|code|snippet|one-?liner|line)",
        ),
        "terminal": (
            r"\b(?:terminal|power-?shell|command (?:prompt|line)|cmd(?:\.exe)?|console|run dialog)\b",
            r"\bwin(?:dows)?\s?(?:key)?\s?\+ ?[rx]\b",
        ),
    }.items()
}


@dataclass(frozen=True, slots=True)
class _Link:
    passage: int
    line: int
    kind: AddressKind
    is_program: bool


class _Document:
    """A document by its passages: in which of them each sign is, and which addresses are worth a look."""

    def __init__(self, file: SourceFile) -> None:
        self.path = file.path
        self.passages = file.passages
        self._texts = [each.text.lower() for each in self.passages]
        self._signs: dict[str, list[int]] = {}

    def links(self) -> Iterator[_Link]:
        """Yield the addresses, but for those of well-known installers."""
        for number, (passage, text) in enumerate(zip(self.passages, self._texts, strict=True)):
            for match in URL.finditer(text):
                host, path = match[1], match[2].rstrip(".,;:!")
                if not is_installer(f"https://{host}{path}"):
                    line = passage.line + text.count("\n", 0, match.start())
                    yield _Link(number, line, kind_of(host, path), kind_of("a.com", path) == "program")

    def near(self, name: str, number: int, before: int = _NEAR, after: int = _NEAR) -> bool:
        """Say whether a sign is in one of the passages from ``before`` to ``after`` that one."""
        if name not in self._signs:
            search = _SIGNS[name].search
            self._signs[name] = [each for each, text in enumerate(self._texts) if search(text)]
        where = self._signs[name]
        first = bisect_left(where, number - before)
        return first < len(where) and where[first] <= number + after


def prerequisites(files: SkillFiles) -> Iterator[Sighting]:
    """Yield where a person is told to fetch and run what anybody may have put there."""
    for file in files:
        if file.is_document and b"://" in file.data and _is_worth(file):
            document = _Document(file)
            yield from (seen for link in document.links() for seen in _about(link, document))


def _is_worth(file: SourceFile) -> bool:
    """Say whether there is an address that anybody may have set up, or a command to copy into a terminal."""
    if file.has(b"copy", b"grab") and _SIGNS["terminal"].search(file.lowered.decode("utf-8", "replace")):
        return True
    found = set(URL.findall(file.text.lower()))
    return any(kind_of(host, path.rstrip(".,;:!")) != "other" for host, path in found)


def _about(link: _Link, document: _Document) -> Iterator[Sighting]:
    """Yield what is told about an address, by the passages around it."""
    near = partial(document.near, number=link.passage)
    is_prose = document.passages[link.passage].kind != "code"
    is_copied = is_prose and near("command", before=1, after=2) and near("terminal") and near("run")
    if is_copied or (link.kind == "paste" and near("execute", before=1, after=1)):
        yield Sighting("SH109", document.path, link.line)
    is_file = link.is_program or link.kind == "drop"
    is_archive = is_file or (link.kind != "other" and near("archive"))
    if is_archive and near("password") and near("run") and near("fetch"):
        yield Sighting("SH110", document.path, link.line)
    if is_prose and near("fetch", before=1, after=0) and near("needed"):
        if link.kind in ANYBODYS:
            yield Sighting("SH111", document.path, link.line)
        elif link.is_program and near("run", before=0, after=1):
            yield Sighting("SH112", document.path, link.line)

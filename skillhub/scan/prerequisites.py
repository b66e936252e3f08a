"""Instructions to run programs from the network: of what a skill needs, and of what is in the clipboard."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from skillhub.formats.text import deferred
from skillhub.model.finding import Sighting
from skillhub.scan.commands import FORGES
from skillhub.scan.pattern import ANYBODYS, OTHERS_ACT, OWN_NETWORK, URL, AddressKind, is_installer, kind_of
from skillhub.scan.skill_files import Signs, SkillFiles, SourceFile

# A step is described in a few sentences; passages further apart belong to different steps.
_NEAR: Final = 3


@dataclass(frozen=True, slots=True)
class _Link:
    passage: int
    line: int
    kind: AddressKind
    is_program: bool


def _links(signs: Signs) -> Iterator[_Link]:
    """Yield the addresses in a document, except the installers of well-known projects."""
    for number, (passage, text) in enumerate(zip(signs.passages, signs.texts, strict=True)):
        line, counted_to = passage.line, 0
        for match in URL.finditer(text):
            host, path = match[1], match[2].rstrip(".,;:!")
            line, counted_to = line + text.count("\n", counted_to, match.start()), match.start()
            if not is_installer(f"https://{host}{path}"):
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
    near = partial(signs.near, number=link.passage, before=_NEAR, after=_NEAR)
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

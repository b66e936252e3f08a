"""What a person is told to fetch and to run before the skill works: where it lies, and how it is to be opened.

A prerequisite of an honest skill comes from a package registry or from a known project's own site. That of a planted
one lies on a page that anybody may write, in an archive with a password, which keeps scanners out, or on a site that
costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from skillhub.scan.addresses import ANYBODYS, URL, AddressKind, is_installer, kind_of
from skillhub.scan.source import Sighting, Signs, SkillFiles, SourceFile, sign

# A step is told in a few sentences: what is further apart than that many passages belongs to another.
_NEAR: Final = 3
_SIGNS: Final = {
    name: sign(words, *patterns)
    for name, (words, *patterns) in {
        "fetch": (
            "load install grab obtain visit go navigate setup get lade herunter charg descarg 下载 скачай",
            r"\b(?:herunter|laden?\b|télécharg|descarg)|下载|скачай",
            r"\b(?:down-?loads?|install(?:er|ed|ation|ing)?|grab|obtain|visit|go to|navigate to)\b",
            r"\b(?:setup|set it up|get (?:it|the \w{1,20})|get started) (?:here|from|at|guide|page|via)\b",
        ),
        "run": (
            "run execute launch open start click paste enter install setup führ exécut lance ejecut 运行 запуст",
            r"\bausführ|\bexécute|\blance[rz]\b|\bejecut|运行|запуст",
            r"\b(?:run|execute|launch|open|start|double[- ]click|paste|enter|install(?:er)?|setup\.exe)\b",
        ),
        "execute": (
            "run execute bash shell terminal paste copy",
            r"\b(?:run|execute|bash|powershell|terminal)\b",
            r"\bpaste (?:it|the|this|that|in)\b",
            r"\bcopy (?:it|the|and|every)",
        ),
        "needed": (
            "be require prerequisite mandatory before work function operate voraussetz erforder requis necesari 必须"
            " необходим",
            r"\b(?:voraussetzung|erforderlich|prérequis|requisito|necesari)|必须|необходим",
            r"\b(?:must|needs?|has|have) (?:to )?be (?:\w{1,20} )?(?:installed|running|downloaded|set up|active)\b",
            r"\brequires? [^.\n]{1,80}(?:\binstalled|\bto (?:function|work|run|operate)|\butility|\bhelper|cli)\b",
            r"\brequires? [^.\n]{1,80}\b(?:tool|agent|client|driver|component)\b",
            r"\b(?:prerequisites?|mandatory|required)\b|\bbefore (?:using|proceeding|you (?:use|start|begin))\b",
            r"\b(?:will|won't|does|can)\s?(?:not|n't) (?:work|function|operate)\b",
        ),
        "password": (
            "pass pw extract unzip unpack unrar open contraseña пароль 密码",
            r"\b(?:passwort|mot de passe|contraseña|пароль)\b[\s:=*_`\"'(-]{1,8}[\w!@#$%-]{2,40}|密码.{0,4}\w",
            r"\b(?:pass(?:word|phrase|code|wd)?|pwd|pw)\b[\s:=*_`\"'(-]{1,8}(?:(?:is|for \w{1,20}) ){0,2}"
            r"[\s:=*_`\"'(-]{0,4}[\w!@#$%-]{2,40}",
            r"\b(?:extract|unzip|unpack|unrar|open)(?:ed)? (?:it )?(?:using|with)[: ]{1,2}[`\"']?\w",
        ),
        "archive": (
            "extract unzip unpack unrar compress archiv zip rar 7z entpack 解压 распак",
            r"\b(?:archiv|entpack|décompress)|解压|распак",
            r"\b(?:extract|unzip|unpack|unrar|decompress|archive)|\b(?:zip|rar|7z)\b",
        ),
        "command": (
            "copy kopier copie copia",
            r"\b(?:kopier\w{1,3}|copiez|copie|copia)\b[^\n]{0,20}\b(?:skript|befehl|code|commande|script|comando)\b",
            r"\bcopy (?:and (?:paste|run|execute) )?"
            r"(?:(?:the|this|that|its|following|entire|whole|install\w{0,6}|setup)\s){0,4}"
            r"(?:terminal |shell |powershell )?(?:command|script|code|snippet|one-?liner|line)",
        ),
        "terminal": (
            "terminal shell command cmd console dialog win",
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


def _links(signs: Signs) -> Iterator[_Link]:
    """Yield the addresses of a document, but for those of well-known installers."""
    for number, (passage, text) in enumerate(zip(signs.passages, signs.texts, strict=True)):
        line, counted = passage.line, 0
        for match in URL.finditer(text):
            host, path = match[1], match[2].rstrip(".,;:!")
            line, counted = line + text.count("\n", counted, match.start()), match.start()
            if not is_installer(f"https://{host}{path}"):
                yield _Link(number, line, kind_of(host, path), kind_of("a.com", path) == "program")


def prerequisites(files: SkillFiles) -> Iterator[Sighting]:
    """Yield where a person is told to fetch and run what anybody may have put there."""
    for file in files:
        if (file.is_document or file.language == "data") and b"://" in file.data and _is_worth(file):
            signs = Signs(file, _SIGNS)
            yield from (seen for link in _links(signs) for seen in _about(link, signs))


def _is_worth(file: SourceFile) -> bool:
    """Say whether there is an address that anybody may have set up, or a command to copy into a terminal."""
    found = set(URL.findall(file.text.lower()))
    if any(kind_of(host, path.rstrip(".,;:!")) != "other" for host, path in found):
        return True
    return Signs(file, _SIGNS).is_worth("command")


def _about(link: _Link, signs: Signs) -> Iterator[Sighting]:
    """Yield what is told about an address, by the passages around it."""
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

"""A file that is downloaded and then started: by commands that follow each other, in a script or a block of code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from skillhub.formats.text import words
from skillhub.scan.addresses import ANYBODYS, URL, is_installer, kind_of
from skillhub.scan.source import Language, Passage, Sighting, SkillFiles

_READ: Final = frozenset[Language]({"shell", "powershell", "batch", "applescript", "other"})
_FETCHERS: Final = frozenset(
    words("curl curl.exe wget wget.exe aria2c axel certutil certutil.exe bitsadmin bitsadmin.exe iwr irm")
    + words("invoke-webrequest invoke-restmethod start-bitstransfer")
)
_LOOKED_FOR: Final = tuple(each.encode() for each in ("mshta", "regsvr32", "downloadfile", *_FETCHERS))
_TO_FILE: Final = frozenset(words("-o -O --output --output-document -outfile -destination --out > >>"))
_BEFORE: Final = frozenset(
    words("sudo nohup exec time start /b /wait env then do else ! & ( { command setsid run: $ >")
)
_STARTERS: Final = frozenset(
    words(
        "sh bash zsh dash ksh python python3 node perl ruby php . source open start-process saps ii invoke-item cmd"
    )
    + words("powershell pwsh rundll32 msiexec wine")
)
# Keeps from the user, or from the system, that something is started.
_HIDES = re.compile(r"\bxattr\s+-\w*[cd]|com\.apple\.quarantine|/tmp/\.\w|-w(?:indowstyle)?\s+hidden", re.IGNORECASE)
_COMMAND = re.compile(r"\n|&&|\|\||[;|]|&(?=\s|$)|(?<=\s)&\s|\\\n")
_SCRIPTLET = re.compile(r"\b(?:mshta|regsvr32)(?:\.exe)?[^\S\n][^\n]{0,80}https?://")
_WORD = re.compile(r"[^\s\"'`]{1,400}")
# Of a command, no more words are looked at; a longer one does nothing that a short one could not.
_WORDS_MAX: Final = 40


def staged(files: SkillFiles) -> Iterator[Sighting]:
    """Yield where a program comes from the network and is started, though no pipe joins the two."""
    for file in files:
        if file.has(*_LOOKED_FOR):
            for passage in file.passages:
                seen = _started(passage) if passage.kind == "code" and passage.language in _READ else _run(passage)
                yield from (Sighting(rule, file.path, line) for rule, line in seen)


def _run(passage: Passage) -> Iterator[tuple[str, int]]:
    """Yield where a program of Windows is given an address, and runs what is there."""
    text, line, counted = passage.text.lower(), passage.line, 0
    for match in _SCRIPTLET.finditer(text):
        line, counted = line + text.count("\n", counted, match.start()), match.start()
        yield "SH113", line


def _started(passage: Passage) -> Iterator[tuple[str, int]]:
    """Yield the downloads that a later command starts: the rule, and the line."""
    text = passage.text.replace("\\\n", "  ").replace("^\n", "  ")
    yield from _run(passage)
    line = passage.line
    fetched: dict[str, tuple[str, int]] = {}
    hides = _HIDES.search(text) is not None
    for row in text.split("\n"):
        for command in _COMMAND.split(row):
            found = _WORD.findall(command[:4000])[:_WORDS_MAX]
            while found and (found[0].lower() in _BEFORE or re.fullmatch(r"\w{1,40}=\S*", found[0])):
                del found[0]
            name = found[0].lower() if found else ""
            if name in _FETCHERS or ".downloadfile(" in command.lower():
                rule = "SH113" if hides or any(map(_is_anybodys, found)) else "SH114"
                fetched.update(dict.fromkeys(_saved(found), (rule, line)))
            elif name and (target := _target(found)) and target in fetched:
                yield fetched.pop(target)
        line += 1


def _is_anybodys(word: str) -> bool:
    match = URL.search(word.lower())
    return match is not None and kind_of(match[1], match[2]) in ANYBODYS


def _saved(command: list[str]) -> Iterator[str]:
    """Yield the name of the file that a download is saved as; none if it is a known project's own installer."""
    urls = [each for each in command if "://" in each]
    if any(each.startswith(("-d", "--data", "-F", "--form", "-XPOST")) or each == "POST" for each in command):
        return  # what is saved is an answer
    if urls and all(is_installer(url.lower()) for url in urls):
        return
    for option, value in pairwise(command):
        is_option = not _TO_FILE.isdisjoint((option, option.lower())) or re.fullmatch(r"-[a-zA-Z]{1,8}[oO]", option)
        if is_option and "://" not in value and not value.startswith("-"):
            yield _base(value)
    last = command[-1]
    if urls and ("://" not in last or ".downloadfile(" in " ".join(command).lower()):
        yield _base(last.rstrip(")"))
    yield from (_base(url.partition("?")[0]) for url in urls)


def _target(command: list[str]) -> str:
    """Return the name of the file that a command starts, empty if it starts none."""
    name = command[0].lower()
    if name.rpartition("/")[2] in _STARTERS or name.rpartition("/")[2].removesuffix(".exe") in _STARTERS:
        rest = [each for each in command[1:] if not each.startswith(("-", "/c", "/q"))]
        return _base(rest[0]) if rest else ""
    return _base(command[0]) if re.search(r"[/\\$%]|\.(?:exe|sh|bat|ps1)$", name) else ""


def _base(path: str) -> str:
    return re.split(r"[/\\]", path.strip("\"'(),;{}[]").lower())[-1]

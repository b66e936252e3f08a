"""Views of a skill before it is installed: the list of its files, and each file with the findings at their lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from skillhub.cli.terminal import Terminal, Tone
from skillhub.formats.text import Quoted, is_hidden, quote
from skillhub.model.finding import Finding, Severity, counted
from skillhub.model.tree import SIGNATURE, SKILL_MD, File, Tree
from skillhub.scan import scan
from skillhub.scan.views import is_text

_TONES: dict[Severity, Tone] = {"low": "dim", "medium": "yellow", "high": "red", "critical": "red"}


def view(tree: Tree, terminal: Terminal, stream: TextIO) -> None:
    """Show all files of a skill during a question: the list, then each but the signature, ``SKILL.md`` first."""
    findings = scan(tree)
    lines = listing(tree, findings)
    for path in sorted(tree.without([SIGNATURE]), key=lambda each: each != SKILL_MD):
        lines += [("", "plain"), *numbered(path, tree[path], findings)]
    terminal.page(lines, stream)


def listing(tree: Tree, findings: Sequence[Finding]) -> list[tuple[str, Tone]]:
    """Return a line for each file: its execute bit, size and path, and the number of findings in it."""
    lines: list[tuple[str, Tone]] = []
    for path, file in tree.items():
        found = [each for each in findings if each.path == path]
        name = quote(path, len(path)) if "  " in path else path  # two blanks separate columns
        line = f"{'x' if file.executable else '-'} {len(file.data):>8}  {name}"
        tone = _TONES[found[0].severity] if found else "plain"
        lines.append((f"{line}  ({counted(found)})" if found else line, tone))
    return lines


def numbered(path: str, file: File, findings: Sequence[Finding]) -> list[tuple[str, Tone]]:
    """Return the numbered lines of a file, each followed by its findings.

    A hidden character is shown as its code point, ``<U+200B>``, so that the reader sees it.
    """
    found = [each for each in findings if each.path == path]
    size = f"{len(file.data)} bytes{', executable' if file.executable else ''}"
    lines: list[tuple[str, Tone]] = [(f"{path}: {size}", "bold"), *(_mark(each) for each in found if not each.line)]
    text = text_of(file)
    if text is None:
        return [*lines, ("binary: its bytes are not shown", "dim"), *(_mark(each) for each in found if each.line)]
    rows = text.removesuffix("\n").split("\n")
    width = len(str(len(rows)))
    for number, row in enumerate(rows, 1):
        lines.append((Quoted(f"{number:>{width}}  {_visible(row)}"), "plain"))
        lines += [_mark(each) for each in found if each.line == number]
    return lines


def _mark(finding: Finding) -> tuple[str, Tone]:
    return f"^ {finding.severity}: {finding.message} [{finding.rule}]", _TONES[finding.severity]


def _visible(row: str) -> str:
    spaced = row.removesuffix("\r").expandtabs(4)
    if spaced.isascii() and spaced.isprintable():
        return spaced
    return "".join(f"<U+{ord(char):04X}>" if is_hidden(char) else char for char in spaced)


def text_of(file: File) -> str | None:
    """Return the text of a file; None if it is binary."""
    return file.data.decode("utf-8") if is_text(file.data) else None

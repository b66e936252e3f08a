"""Draw what was seen on a terminal as an SVG: wrapped as a terminal wraps, in the few colours that skillhub uses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.sax.saxutils import escape

STYLE = {"1": "font-weight:bold", "2": "fill:#8b949e", "31": "fill:#ff7b72", "32": "fill:#7ee787"}
STYLE |= {"33": "fill:#e3b341"}
PARTS = re.compile(r"\x1b\[([0-9]*)m|([^\x1b])")
WIDTH, HEIGHT, MARGIN = 8.4, 19, 16


def drawn(transcript: str, columns: int) -> str:
    """Return an SVG of ``transcript``, text with SGR colours, ``columns`` characters wide."""
    rows = list(_rows(transcript.rstrip("\n"), columns))
    width, height = columns * WIDTH + 2 * MARGIN, len(rows) * HEIGHT + 2 * MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" role="img">',
        "<title>skillhub finds a skill, shows its files, and asks before it installs or updates it</title>",
        f"<style>{''.join(f'.c{code}{{{style}}}' for code, style in STYLE.items())}</style>",
        f'<rect width="{width:.0f}" height="{height}" rx="8" fill="#0d1117"/>',
        '<g font-family="ui-monospace,Menlo,Consolas,monospace" font-size="14" fill="#e6edf3">',
    ]
    for number, row in enumerate(rows, 1):
        spans = "".join(_span(code, text) for code, text in row)
        place = f'x="{MARGIN}" y="{MARGIN + number * HEIGHT - 5}"'
        lines.append(f'<text {place} xml:space="preserve">{spans}</text>')
    return "\n".join([*lines, "</g>", "</svg>", ""])


def _rows(transcript: str, columns: int) -> Iterator[list[tuple[str, str]]]:
    """Yield each row of the terminal as runs of a colour's code and its text."""
    code = ""
    for line in transcript.split("\n"):
        row: list[tuple[str, str]] = []
        used = 0
        for sgr in PARTS.finditer(line):
            if sgr[2] is None:
                code = sgr[1] if sgr[1] != "0" else ""
                continue
            if used == columns:
                yield row
                row, used = [], 0
            used += 1
            if row and row[-1][0] == code:
                row[-1] = (code, row[-1][1] + sgr[2])
            else:
                row.append((code, sgr[2]))
        yield row


def _span(code: str, text: str) -> str:
    return f'<tspan class="c{code}">{escape(text)}</tspan>' if code else escape(text)

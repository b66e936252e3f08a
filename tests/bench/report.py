"""Writes the measurements into `docs/performance.md`, between its markers, and the picture beside it."""

from __future__ import annotations

import math
import os
import platform
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from growth import FIRST, FLOORED, FROM_SITE, SCANNED, Growth
from peers import OURS, Row, milliseconds

DOCS = Path(__file__).resolve().parents[2] / "docs"
_MEASURED = re.compile(r"(<!-- measured: begin [^\n]*-->\n).*(<!-- measured: end -->)", re.DOTALL)
# Measurements from before unchanged files were skipped, on a quiet machine with two cores.
BEFORE = {
    "install again 1000": "8.6",
    "install --frozen 1000": "8.7",
    "sync 1000": "9",
    "list 1000": "2.1",
    "update --check 1000 to 1": "4.0",
    "remove skill-00000 1000 to 1": "3.5",
    "install 1000 to one copy": "4.7",
}
_COLOURS = ("#0b62a4", "#c04000", "#2b7d2b", "#7a3fa0", "#8a6d00", "#b0307a", "#3a8a8a", "#555555")
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _EDGE = 760, 440, 64, 180, 40


def write(rows: Iterable[Sequence[str]], grown: Sequence[Growth], peers: Sequence[Row], links: Sequence[Row]) -> None:
    """Replace the figures and the picture of the page."""
    page = DOCS / "performance.md"
    told = _races("Against other installers", _PEERS, peers), _races("Over a network", _LINE, links)
    text = "\n".join([*_floors(rows), *_growth(grown), *told[0], *told[1], ""])
    found, count = _MEASURED.subn(lambda match: f"{match[1]}{text}{match[2]}", page.read_text("utf-8"))
    if count != 1:
        raise SystemExit(f"{page} has no place for what is measured")
    page.write_text(found, "utf-8")
    (DOCS / "growth.svg").write_text(picture(grown), "utf-8")


def _floors(rows: Iterable[Sequence[str]]) -> list[str]:
    machine = (
        f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, {os.cpu_count()} processors"
    )
    lines = [f"### Against a floor in the same run\n\n{machine}.\n"]
    lines += [
        "| command | skillhub ms | floor ms | ratio | of CPU | limit | before | MiB | |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for label, *figures, verdict in rows:
        *times, peak = figures
        cells = [f"`{label}`", *times, BEFORE.get(label, ""), peak, "" if verdict == "ok" else "**over**"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _growth(grown: Sequence[Growth]) -> list[str]:
    if not grown:
        return []
    counts = sorted({count for each in grown for count in each.took})
    lines = ["\n### Growth\n", "Seconds of processor time, and MiB at the most skills. ![Growth](growth.svg)"]
    for source in dict.fromkeys(each.source for each in grown):
        lines += [
            f"\nFrom {source}:\n",
            f"| command | {' | '.join(f'{count:,}' for count in counts)} | exponent | MiB |",
            "|---" * (len(counts) + 3) + "|",
            *(_growth_row(each, counts) for each in grown if each.source == source),
        ]
    return lines


def _growth_row(growth: Growth, counts: Sequence[int]) -> str:
    times = [f"{growth.took[count].cpu:.2f}" if count in growth.took else "" for count in counts]
    power = "" if growth.exponent is None else f"{growth.exponent:.2f}"
    label = growth.command if growth.command.startswith("(") else f"`{growth.command}`"
    return f"| {label} | {' | '.join(times)} | {power} | {growth.took[max(growth.took)].peak:.0f} |"


_PEERS = """{} skills on this machine. `skills` and `openskills` are clients from npm; uv installs the same files as
wheels of a folder."""
_LINE = """First installs of {} skills. The server is 20 ms away over TLS, and 100 Mbit pass in a second."""
_CELLS = """Milliseconds, and in brackets the time of skillhub by that of the other program. A program without such a
command has no figure; *fails* says that it ended with an error. A ratio over its limit is bold.
"""


def _races(title: str, about: str, rows: Sequence[Row]) -> list[str]:
    """Return a table of skillhub and others; the figures of each number of skills share a cell."""
    if not rows:
        return []
    counts = " / ".join(f"{count:,}" for count in sorted({row.count for row in rows}))
    names = list(dict.fromkeys(name for row in rows for name in row.took))
    lines = [f"\n### {title}\n", about.format(counts), _CELLS]
    lines += [f"| | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for work in dict.fromkeys(row.work for row in rows):
        same = sorted((row for row in rows if row.work == work), key=lambda row: row.count)
        lines.append(f"| {work} | {' | '.join(_cell(same, name) for name in names)} |")
    return lines


def _cell(rows: Sequence[Row], name: str) -> str:
    if not all(name in row.took for row in rows):
        return ""
    times = " / ".join(milliseconds(row.took[name]) for row in rows)
    if name == OURS:
        return times
    ratios = []
    for row in rows:
        ratio = row.ratio(name)
        told = "-" if ratio is None else f"{ratio:.2f}"
        ratios.append(told if row.is_good(name) else f"**{told}**")
    return times if set(ratios) == {"-"} else f"{times} ({' / '.join(ratios)})"


def picture(grown: Sequence[Growth]) -> str:
    """Return the growth with skills of a site as an SVG: count and processor time, both by powers of ten.

    Grey is linear growth.
    """
    apart = (FIRST, FLOORED, SCANNED)
    shown = [each for each in grown if each.source == FROM_SITE and each.command not in apart and len(each.took) > 1]
    points = [(count, sample.cpu) for each in shown for count, sample in each.took.items()]
    if not points:
        return '<svg xmlns="http://www.w3.org/2000/svg"/>\n'
    right = max(count for count, _ in points)
    low, high = (
        math.floor(math.log10(min(cpu for _, cpu in points))),
        math.ceil(math.log10(max(cpu for _, cpu in points))),
    )

    def at(count: float, cpu: float) -> str:
        x = _LEFT + (_WIDTH - _LEFT - _RIGHT) * math.log10(count) / math.log10(right)
        y = _HEIGHT - _EDGE - (_HEIGHT - 2 * _EDGE) * (math.log10(cpu) - low) / (high - low)
        return f"{x:.1f},{y:.1f}"

    def text(place: str, words: str, more: str = "") -> str:
        x, y = place.split(",")
        return f'<text x="{x}" y="{y}" {more}>{words}</text>'

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}"',
        'font-family="sans-serif" font-size="11">',
        "<title>Processor time by the number of skills of a site</title>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>',
    ]
    for power in range(low, high + 1):
        out.append(f'<polyline points="{at(1, 10.0**power)} {at(right, 10.0**power)}" stroke="#dddddd" fill="none"/>')
        out.append(text(at(1, 10.0**power), f"{10.0**power:g} s", 'dx="-8" dy="4" text-anchor="end"'))
    for power in range(round(math.log10(right)) + 1):
        out.append(text(at(10**power, 10.0**low), f"{10**power:,}", 'dy="16" text-anchor="middle"'))
    start = 10.0**high / right  # here the line of linear growth starts
    first = max(1.0, 10.0**low / start)
    line = f"{at(first, start * first)} {at(right, 10.0**high)}"
    out.append(f'<polyline points="{line}" stroke="#bbbbbb" stroke-dasharray="4" fill="none"/>')
    for number, each in enumerate(shown):
        colour, row = _COLOURS[number % len(_COLOURS)], 20 + 16 * number
        line = " ".join(at(count, each.took[count].cpu) for count in sorted(each.took))
        dashes = ' stroke-dasharray="6 3"' if number >= len(_COLOURS) else ""
        out.append(f'<polyline points="{line}" stroke="{colour}" stroke-width="2" fill="none"{dashes}/>')
        key = _WIDTH - _RIGHT + 24
        here = f"{key},{row - 4} {key + 22},{row - 4}"
        out.append(f'<polyline points="{here}" stroke="{colour}" stroke-width="2"{dashes}/>')
        out.append(text(f"{key + 28},{row}", each.command))
    return "\n".join([*out, "</svg>", ""])

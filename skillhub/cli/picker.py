"""The picker: the skills to choose from, in groups, and the numbered list that a person chooses from."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from importlib.util import find_spec

from skillhub.cli.terminal import BAR, Terminal, cells_of, obeys_escapes, screen_size, shortened
from skillhub.formats.text import Quoted, collapsed, word
from skillhub.model.index import Release, words_for
from skillhub.model.lock import Lock, Locked
from skillhub.project.intent import PlaceRefs, is_from

_NUMBERS = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", re.ASCII)


class Offered:
    """The releases to choose from, sorted by group.

    Attributes:
        releases: The releases.
        groups: The group of each release: its source, its plugin, or the folder above its own.
        labels: The label of each release: its name, with more words if several have that name.
        marks: ``installed``, ``name in use`` if another skill of its name is installed, or empty.
        descriptions: The description of each release, in one line.
    """

    def __init__(self, releases: Sequence[Release], lock: Lock, base: str, places: PlaceRefs | None = None) -> None:
        self.releases = sorted(releases, key=_group)
        self.groups = [collapsed(_group(each)) for each in self.releases]
        words = words_for(self.releases)
        self.labels = [word(words[each]) for each in self.releases]
        self._is_grouped, self._wide = len({*self.groups}) > 1, max(map(cells_of, self.labels), default=0)
        self.marks = [_mark(each, lock, base, places) for each in self.releases]
        self._marked = max((len(each) + 1 for each in self.marks if each), default=0)
        self.descriptions = [Quoted(collapsed(release.description)) for release in self.releases]
        called = zip(self.labels, self.releases, strict=True)
        self._names = [
            {name.lower() for name in (label, each.name, f"{each.qualifier}:{each.name}")} for label, each in called
        ]
        self._texts = [
            " ".join((release.name, release.qualifier or "", release.path or "", release.description)).lower()
            for release in self.releases
        ]

    def heading(self, number: int, before: int | None) -> str:
        """Return the heading above a row: its group, if there are several and the row ``before`` has another one."""
        group = self.groups[number]
        is_new = before is None or self.groups[before] != group
        return f"{word(group) if group else '(no folder)'}:" if is_new and self._is_grouped else ""

    def row(self, number: int, columns: int, before: str = "") -> str:
        """Return the row of a release in at most ``columns`` cells; the skill's own text comes last, after a bar."""
        wide = min(columns // 2, self._wide)
        label = shortened(self.labels[number], wide)
        label += " " * (wide - cells_of(label.replace("…", ".")))
        row = f"{before}{label}  {self.marks[number]:<{self._marked}}{BAR}{self.descriptions[number]}"
        return shortened(row, columns).rstrip()

    def named(self, words: Sequence[str]) -> list[int]:
        """Return the releases that numbers and names select; none if a word is unknown or selects several by name."""
        chosen: dict[int, None] = {}
        for each in words:
            meant = self._numbered(each)
            if meant is None:
                meant = [number for number, names in enumerate(self._names) if each.lower() in names]
                if len(meant) > 1:
                    return []
            if not meant:
                return []
            chosen |= dict.fromkeys(meant)
        return list(chosen)

    def matching(self, words: Sequence[str]) -> list[int]:
        """Return the releases whose text contains all of these words."""
        wanted = [each.lower() for each in words]
        return [number for number, text in enumerate(self._texts) if all(each in text for each in wanted)]

    def _numbered(self, text: str) -> list[int] | None:
        """Return the releases of ``3`` or ``3-5``, none if there are not so many; None if the text is no number."""
        found = _NUMBERS.fullmatch(text)
        if found is None:
            return None
        first, last = int(found[1]), int(found[2] or found[1])
        return list(range(first - 1, last)) if 1 <= first <= last <= len(self.labels) else []


def _group(release: Release) -> str:
    return release.qualifier or (release.path or "").rpartition("/")[0]


def _mark(release: Release, lock: Lock, base: str, places: PlaceRefs | None) -> str:
    entries = [entry for name, entry in lock.skills.items() if entry.own_name(name) == release.name]
    if any(_is_of(release, each, base, places) for each in entries):
        return "installed"
    return "name in use" if release.name in lock.skills else ""


def _is_of(release: Release, entry: Locked, base: str, places: PlaceRefs | None) -> bool:
    if places is not None and entry.named:
        return entry.source == release.source
    if entry.local:
        paths = (os.path.join(base, entry.path or ""), os.path.join(release.url, release.path or ""))
        return len({*map(os.path.realpath, paths)}) == 1
    place = (places or {}).get(release.source or "")
    is_there = is_from(entry, place, base) if place else (entry.git or entry.url) == release.url
    return is_there and entry.path == release.path


_HELP = "numbers or names to choose, words to filter the list, {more}all for the whole list, empty to stop:"
_AROUND = 5  # lines of the screen that are not rows of the list
_LEAST = (40, 12)  # the least columns and lines of a screen with a list and a preview
LIST = "SKILLHUB_PICKER"  # the variable that asks for the numbered list, with the value `list`


def draws() -> bool:
    """Return whether to draw on the whole screen: it is large enough, the extra is there, no list is asked for."""
    columns, lines = screen_size()
    is_wanted = not os.environ.get(LIST) and obeys_escapes(sys.stderr) and columns >= _LEAST[0] and lines >= _LEAST[1]
    return is_wanted and find_spec("prompt_toolkit") is not None


def choose(terminal: Terminal, offered: Offered) -> list[int]:
    """Let the person choose from a numbered list; return none if they stop.

    A filter does not change the numbers, and each filter applies to the whole list.
    """
    listed, start = list(range(len(offered.labels))), 0
    while True:
        shown = _show(terminal, offered, listed[start:])
        line = terminal.prompt(f"  {_HELP.format(more='more for the rest, ' if shown < len(listed) else '')}")
        words = line.replace(",", " ").split()
        if not words:
            return []
        if words == ["all"]:
            return listed
        if words == ["more"] and shown < len(listed):
            start = start + shown if start + shown < len(listed) else 0
            continue
        chosen = offered.named(words)
        if chosen:
            return chosen
        found = offered.matching(words)
        if found:
            listed, start = found, 0
        else:
            terminal.prose(f"no skill matches {' '.join(words)[:200]}", 2, "yellow")


def _show(terminal: Terminal, offered: Offered, listed: Sequence[int]) -> int:
    """Show as many releases as the screen has room for, and return their number."""
    columns, rows = screen_size()
    lines: list[str] = []
    shown = 0
    for before, number in zip((None, *listed), listed, strict=False):
        heading = offered.heading(number, before)
        if shown and len(lines) + bool(heading) + 1 > max(1, rows - _AROUND) - (shown + 1 < len(listed)):
            break
        lines += [*([heading] if heading else []), offered.row(number, columns, f"{number + 1:>3}  ")]
        shown += 1
    for line in lines:
        terminal.prose(shortened(line, columns))
    if shown < len(listed):
        terminal.prose(f"and {len(listed) - shown} more", 2, "dim")
    return shown

"""The skills that a person may pick: in groups, each with a mark if it is installed, and a row that fits."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from skillhub.cli.terminal import BAR, cells_of, shortened
from skillhub.formats.text import Quoted, collapsed, word
from skillhub.model.index import Release, words_for
from skillhub.model.lock import Lock, Locked
from skillhub.project.intent import Place, is_from

_NUMBERS = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", re.ASCII)


class Offered:
    """Every release by its group, with what it is called here: its name, or what tells it from others of that name.

    Attributes:
        releases: Sorted by group.
        groups: Of each its plugin, or else the folder that its own is in.
        labels: What each is called.
        marks: ``installed`` if it is, ``name in use`` if another of its name is.
        descriptions: What each says of itself, in one line.
    """

    def __init__(
        self, releases: Sequence[Release], lock: Lock, base: str, places: Mapping[str, Place] | None = None
    ) -> None:
        self.releases = sorted(releases, key=_group)
        self.groups = [collapsed(_group(each)) for each in self.releases]
        called = words_for(self.releases)
        self.labels = [word(called[each]) for each in self.releases]
        self._is_grouped, self._wide = len({*self.groups}) > 1, max(map(cells_of, self.labels), default=0)
        self.marks = [_mark(each, lock, base, places) for each in self.releases]
        self._marked = max((len(each) + 1 for each in self.marks if each), default=0)
        self.descriptions = [Quoted(collapsed(release.description)) for release in self.releases]
        self._texts = [
            " ".join((release.name, release.plugin or "", release.path or "", release.description)).lower()
            for release in self.releases
        ]

    def heading(self, number: int, before: int | None) -> str:
        """Return its group, to stand above it, if it is a new one and there are several."""
        group = self.groups[number]
        is_new = before is None or self.groups[before] != group
        return f"{word(group) if group else '(no folder)'}:" if is_new and self._is_grouped else ""

    def row(self, number: int, columns: int, before: str = "") -> str:
        """Return the row of one, of so many cells at most; text of the skill stands behind all that is ours."""
        wide = min(columns // 2, self._wide)
        label = shortened(self.labels[number], wide)
        label += " " * (wide - cells_of(label.replace("…", ".")))
        row = f"{before}{label}  {self.marks[number]:<{self._marked}}{BAR}{self.descriptions[number]}"
        return shortened(row, columns).rstrip()

    def named(self, words: Sequence[str]) -> list[int]:
        """Return what these numbers and names mean; empty if one of the words is neither, or means several."""
        chosen: dict[int, None] = {}
        for each in words:
            meant = self._numbered(each)
            if meant is None:
                called = zip(self.releases, self.labels, strict=True)
                meant = [n for n, (r, label) in enumerate(called) if each.lower() in _words(r, label)]
                if len(meant) > 1:
                    return []
            if not meant:
                return []
            chosen |= dict.fromkeys(meant)
        return list(chosen)

    def matching(self, words: Sequence[str]) -> list[int]:
        """Return what says every one of these words somewhere."""
        wanted = [each.lower() for each in words]
        return [number for number, text in enumerate(self._texts) if all(each in text for each in wanted)]

    def _numbered(self, text: str) -> list[int] | None:
        """Return what ``3`` or ``3-5`` means, nothing if there are not so many; None of what is no number."""
        found = _NUMBERS.fullmatch(text)
        if found is None:
            return None
        first, last = int(found[1]), int(found[2] or found[1])
        return list(range(first - 1, last)) if 1 <= first <= last <= len(self.labels) else []


def _words(release: Release, label: str) -> set[str]:
    return {each.lower() for each in (label, release.name, f"{release.plugin}:{release.name}")}


def _group(release: Release) -> str:
    return release.plugin or (release.path or "").rpartition("/")[0]


def _mark(release: Release, lock: Lock, base: str, places: Mapping[str, Place] | None) -> str:
    entries = [entry for name, entry in lock.skills.items() if entry.own_name(name) == release.name]
    is_it = any(_is_of(release, each, base, places) for each in entries)
    return "installed" if is_it else "name in use" if release.name in lock.skills else ""


def _is_of(release: Release, entry: Locked, base: str, places: Mapping[str, Place] | None) -> bool:
    if places is not None and entry.named:
        return entry.source == release.plugin
    if entry.local:
        paths = (os.path.join(base, entry.path or ""), os.path.join(release.url, release.path or ""))
        return len({*map(os.path.realpath, paths)}) == 1
    place = (places or {}).get(release.plugin or "")
    is_there = is_from(entry, place, base) if place else (entry.git or entry.url) == release.url
    return is_there and entry.path == release.path

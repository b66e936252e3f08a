"""Lets a person pick among many skills, line by line, so that a screen reader can follow."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Sequence

from skillhub.cli.terminal import Terminal
from skillhub.model.release import Release

_HELP = "numbers or names to install, words to narrow the list, all for all that is listed, empty to stop:"
_NUMBERS = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", re.ASCII)
_AROUND = 5  # lines of the screen that are not rows of the list


def pick(terminal: Terminal, releases: Sequence[Release]) -> tuple[Release, ...]:
    """Let the person at the terminal pick; empty if they stop.

    Numbers stay those of the whole list, however it is narrowed; each search is in the whole list again.
    """
    offered = _Offered(releases)
    listed = list(range(len(releases)))
    while True:
        _show(terminal, offered, listed)
        said = terminal.prompt(f"  {_HELP}")
        words = said.replace(",", " ").split()
        if not words:
            return ()
        if words == ["all"]:
            return tuple(releases[number] for number in listed)
        chosen = offered.named(words)
        if chosen:
            return tuple(releases[number] for number in chosen)
        found = offered.matching(words)
        if found:
            listed = found
        else:
            terminal.prose(f"nothing here is called or about {' '.join(words)[:200]}", 2, "yellow")


class _Offered:
    """Every release with what it is called here: its name, or what tells it from others of that name."""

    def __init__(self, releases: Sequence[Release]) -> None:
        names = Counter(release.name for release in releases)
        full = Counter((release.plugin, release.name) for release in releases)
        self.labels = [
            release.name
            if names[release.name] == 1
            else f"{release.plugin}:{release.name}"
            if release.plugin and full[release.plugin, release.name] == 1
            else release.path or release.name
            for release in releases
        ]
        self.descriptions = [release.description for release in releases]
        self._called: dict[str, list[int]] = {}
        for number, (label, release) in enumerate(zip(self.labels, releases, strict=True)):
            for word in {label, release.name, f"{release.plugin}:{release.name}"}:
                self._called.setdefault(word.lower(), []).append(number)
        self._texts = [
            " ".join((release.name, release.plugin or "", release.path or "", release.description)).lower()
            for release in releases
        ]

    def named(self, words: Sequence[str]) -> list[int]:
        """Return what these numbers and names mean; empty if one of the words is neither, or means several."""
        chosen: dict[int, None] = {}
        for word in words:
            meant = self._numbered(word)
            if meant is None:
                meant = self._called.get(word.lower(), [])
                if len(meant) > 1:
                    return []
            if not meant:
                return []
            chosen |= dict.fromkeys(meant)
        return list(chosen)

    def matching(self, words: Sequence[str]) -> list[int]:
        """Return what says every one of these words somewhere."""
        wanted = [word.lower() for word in words]
        return [number for number, text in enumerate(self._texts) if all(word in text for word in wanted)]

    def _numbered(self, word: str) -> list[int] | None:
        """Return what ``3`` or ``3-5`` means, nothing if there are not so many; None of what is no number."""
        found = _NUMBERS.fullmatch(word)
        if found is None:
            return None
        first, last = int(found[1]), int(found[2] or found[1])
        return list(range(first - 1, last)) if 1 <= first <= last <= len(self.labels) else []


def _show(terminal: Terminal, offered: _Offered, listed: Sequence[int]) -> None:
    room = max(1, terminal.height - _AROUND)
    shown = listed if len(listed) <= room else listed[: room - 1]
    rows = [(str(number + 1), offered.labels[number], offered.descriptions[number]) for number in shown]
    terminal.table(("#", "skill", "what it does"), rows, sys.stderr)
    if len(shown) < len(listed):
        terminal.prose(f"and {len(listed) - len(shown)} more", 2, "dim")

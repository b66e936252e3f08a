"""Applying what ``patch.difference`` wrote: exactly, or not at all.

Nothing is guessed: every line of context is where its hunk says, every count is right, every file is as the patch
found it. Whoever writes the result to a disk checks its paths as those of an archive; a patch may name any.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NoReturn

from skillhub.errors import FormatError
from skillhub.model.patch import lines_of, mode_of
from skillhub.model.text import quote
from skillhub.model.tree import File, Tree

_FILE = re.compile(r"diff --git a/(?P<path>.+) b/(?P=path)")
_MODE = re.compile(r"(new file|deleted file|old|new) mode (100644|100755)")
_HUNK = re.compile(r"@@ -([0-9]{1,9})(?:,([0-9]{1,9}))? \+([0-9]{1,9})(?:,([0-9]{1,9}))? @@")
_CHANGES_OF_MODE: tuple[set[str], ...] = (set(), {"new file"}, {"deleted file"}, {"old", "new"})
_NO_END = "\\ No newline at end of file"


def apply(patch: bytes, base: Mapping[str, File], where: str) -> Tree:
    """Return ``base`` with the patch applied.

    Args:
        patch: Its bytes.
        base: What it was made from.
        where: What to call the patch in errors.

    Raises:
        FormatError: it is no such patch, or was made from something else; ``where`` names the line.
    """
    reader = _Reader(_decoded(patch, where), where)
    files = dict(base)
    seen: set[str] = set()
    while reader.at < len(reader.lines):
        path = reader.file(files)
        if path in seen:
            reader.fail(f"expected each file once, found {quote(path)} again")
        seen.add(path)
    return Tree(files)


def _decoded(patch: bytes, where: str) -> list[str]:
    try:
        text = patch.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError("expected a patch in UTF-8", where=where) from error
    if not text:
        return []
    if not text.endswith("\n"):
        raise FormatError("the patch is cut off: its last line has no end", where=where)
    return text.split("\n")[:-1]


class _Reader:
    """The lines of a patch, and where in them we are."""

    def __init__(self, lines: list[str], where: str) -> None:
        self.lines = lines
        self.where = where
        self.at = 0

    @property
    def line(self) -> str:
        """The line that is next; past the end an empty one, which nothing expects."""
        return self.lines[self.at] if self.at < len(self.lines) else ""

    def fail(self, message: str) -> NoReturn:
        raise FormatError(message, where=f"{self.where}:{self.at + 1}")

    def expect(self, is_so: object, message: str) -> None:
        if not is_so:
            self.fail(f"expected {message}, found {quote(self.line)}")

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Read the next line if it is such a one."""
        match = pattern.fullmatch(self.line)
        self.at += match is not None
        return match

    def file(self, files: dict[str, File]) -> str:
        """Carry out in ``files`` what the next section says of its file; return its path."""
        match = self.take(_FILE)
        if match is None:
            self.fail(f"expected the line of a file, found {quote(self.line)}")
        path = match["path"]
        old = files.pop(path, None)
        modes: dict[str, str] = {}
        while mode := self.take(_MODE):
            modes[mode[1]] = mode[2]
        self.expect(set(modes) in _CHANGES_OF_MODE, "one change of mode")
        is_new, is_gone = "new file" in modes, "deleted file" in modes
        self.expect(is_new == (old is None), f"{quote(path)} to be {'absent' if is_new else 'there'}")
        was = modes.get("deleted file", modes.get("old", mode_of(old)))
        self.expect(is_new or was == mode_of(old), f"{quote(path)} to have mode {was}")
        try:
            lines = lines_of(old.data.decode("utf-8") if old else "")
        except UnicodeDecodeError:
            self.fail(f"{quote(path)} is no text")
        if self.line.startswith("--- "):
            names = ("/dev/null" if is_new else f"a/{path}", "/dev/null" if is_gone else f"b/{path}")
            for wanted in map(str.__add__, ("--- ", "+++ "), names):
                self.expect(self.line in (wanted, f"{wanted}\t"), quote(wanted))
                self.at += 1
            lines = self.hunks(lines)
        self.expect(not is_gone or not lines, f"{quote(path)} to be gone whole")
        if not is_gone:
            mode_now = modes.get("new file") or modes.get("new") or mode_of(old)
            files[path] = File("".join(lines).encode("utf-8"), mode_now == "100755")
        return path

    def hunks(self, before: list[str]) -> list[str]:
        """Return the lines of a file with the hunks that are next."""
        after: list[str] = []
        at = 0
        self.expect(_HUNK.fullmatch(self.line), "a hunk")
        while match := _HUNK.fullmatch(self.line):
            olds, news = (int(count) if count is not None else 1 for count in (match[2], match[4]))
            # Where nothing is, the line before it is named.
            start, new_start = int(match[1]) - bool(olds), int(match[3]) - bool(news)
            self.expect(at <= start <= len(before), "hunks in order, within the file")
            after += before[at:start]
            self.expect(len(after) == new_start, "the hunk to go where it says")
            at = start
            self.at += 1
            while olds or news:
                mark, text = self.line[:1], self.line[1:]
                olds -= mark in (" ", "-")
                news -= mark in (" ", "+")
                self.expect(
                    mark in (" ", "-", "+") and min(olds, news) >= 0, "as many lines as the hunk says"
                )
                has_end = self.lines[self.at + 1 : self.at + 2] != [_NO_END]
                text += "\n" * has_end
                if mark != "+":
                    self.expect(before[at : at + 1] == [text], "a line that the file has there")
                    at += 1
                if mark != "-":
                    after.append(text)
                self.at += 1 + (not has_end)
        after += before[at:]
        self.expect(all(line.endswith("\n") for line in after[:-1]), "a line without end to be the last")
        return after

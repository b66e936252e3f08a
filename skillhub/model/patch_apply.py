"""Applying what ``patch.difference`` wrote: exactly, or not at all.

Nothing is guessed: every line of context is where its hunk says, every count is right, every file is as the patch
found it. Whoever writes the result to a disk checks its paths as those of an archive; a patch may name any.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from skillhub.errors import FormatError
from skillhub.model.patch import lines_of, mode_of
from skillhub.model.text import quote
from skillhub.model.tree import File, Tree

_FILE = re.compile(r"diff --git a/(?P<path>.+) b/(?P=path)")
_MODE = re.compile(r"(new file|deleted file|old|new) mode (100644|100755)")
_HUNK = re.compile(r"@@ -([0-9]{1,9})(?:,([0-9]{1,9}))? \+([0-9]{1,9})(?:,([0-9]{1,9}))? @@")
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
    found = dict(base)
    seen: set[str] = set()
    while reader.more:
        path = reader.file()
        if path in seen:
            reader.fail(f"expected each file once, found {quote(path)} again")
        seen.add(path)
        file = _applied(reader, path, base.get(path))
        found.pop(path, None)
        if file is not None:
            found[path] = file
    return Tree(found)


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


@dataclass()
class _Reader:
    """The lines of a patch, and where in them we are."""

    lines: list[str]
    where: str
    at: int = 0
    modes: dict[str, str] = field(default_factory=dict)

    @property
    def more(self) -> bool:
        return self.at < len(self.lines)

    @property
    def line(self) -> str:
        """The line that is next; past the end an empty one, which nothing expects."""
        return self.lines[self.at] if self.more else ""

    def fail(self, message: str) -> NoReturn:
        raise FormatError(message, where=f"{self.where}:{self.at + 1}")

    def file(self) -> str:
        """Read the line that names a file, and those that tell of its mode."""
        match = _FILE.fullmatch(self.line)
        if match is None:
            self.fail(f"expected the line of a file, found {quote(self.line)}")
        self.at += 1
        self.modes = {}
        while mode := _MODE.fullmatch(self.line):
            self.modes[mode[1]] = mode[2]
            self.at += 1
        if set(self.modes) not in (set(), {"new file"}, {"deleted file"}, {"old", "new"}):
            self.fail("expected one change of mode")
        return match["path"]

    def names(self, old: str, new: str) -> bool:
        """Read the two lines before hunks; False if there are no hunks."""
        if not self.line.startswith("--- "):
            return False
        for wanted in (f"--- {old}", f"+++ {new}"):
            if self.line not in (wanted, f"{wanted}\t"):
                self.fail(f"expected {quote(wanted)}, found {quote(self.line)}")
            self.at += 1
        return True

    def body(self, olds: int, news: int) -> Iterator[tuple[str, str]]:
        """Yield the lines of a hunk, each with its mark, until both counts are used up."""
        while olds or news:
            mark, text = self.line[:1], self.line[1:]
            olds -= mark in (" ", "-")
            news -= mark in (" ", "+")
            if mark not in (" ", "-", "+") or olds < 0 or news < 0:
                self.fail(f"expected as many lines as the hunk says, found {quote(self.line)}")
            self.at += 1
            has_end = self.line != _NO_END
            self.at += not has_end
            yield mark, text + "\n" * has_end


def _applied(reader: _Reader, path: str, old: File | None) -> File | None:
    """Return what the next section of the patch makes of a file; None if it takes it away."""
    is_new, is_gone = "new file" in reader.modes, "deleted file" in reader.modes
    if is_new == (old is not None):
        reader.fail(f"expected {quote(path)} to be {'absent' if is_new else 'there'}")
    was, becomes = reader.modes.get("old"), reader.modes.get("new")
    was = reader.modes.get("deleted file", was)
    if was is not None and was != mode_of(old):
        reader.fail(f"expected {quote(path)} to have mode {was}")
    try:
        before = lines_of(old.data.decode("utf-8") if old else "")
    except UnicodeDecodeError as error:
        raise FormatError(f"{quote(path)} is no text", where=f"{reader.where}:{reader.at}") from error
    after = before
    if reader.names("/dev/null" if is_new else f"a/{path}", "/dev/null" if is_gone else f"b/{path}"):
        after = _hunks(reader, before)
    if is_gone:
        if after:
            reader.fail(f"expected {quote(path)} to be gone whole")
        return None
    mode = reader.modes.get("new file") or becomes or mode_of(old)
    return File("".join(after).encode("utf-8"), mode == "100755")


def _hunks(reader: _Reader, before: list[str]) -> list[str]:
    after: list[str] = []
    at = 0
    if not _HUNK.fullmatch(reader.line):
        reader.fail(f"expected a hunk, found {quote(reader.line)}")
    while match := _HUNK.fullmatch(reader.line):
        olds, news = (int(count) if count is not None else 1 for count in (match[2], match[4]))
        # Where nothing is, the line before it is named.
        start, new_start = int(match[1]) - bool(olds), int(match[3]) - bool(news)
        if not at <= start <= len(before):
            reader.fail("expected hunks in order, within the file")
        after += before[at:start]
        if len(after) != new_start:
            reader.fail("the hunk does not go where it says")
        at = start
        reader.at += 1
        for mark, text in reader.body(olds, news):
            if mark != "+":
                if before[at : at + 1] != [text]:
                    reader.at -= 1
                    reader.fail(f"the file is not as the patch has it: expected {quote(text.rstrip())}")
                at += 1
            if mark != "-":
                after.append(text)
    after += before[at:]
    if any(not line.endswith("\n") for line in after[:-1]):
        reader.fail("expected a line without end to be the last")
    return after

"""Patches between trees: written, applied, merged; local edits of copies in agents' folders."""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from difflib import SequenceMatcher
from typing import NoReturn, TypeVar

from skillhub.disk import files
from skillhub.disk.folders import LARGEST, list_folder, walk, write_tree
from skillhub.disk.home import EDITS
from skillhub.errors import FormatError, NotFound, SkillhubError, StateError, UnsafeArchive, WrongBytes
from skillhub.formats.digest import Digest
from skillhub.formats.text import command, deferred, quote
from skillhub.model.lock import Locked, Patch
from skillhub.model.tree import File, Listing, Tree
from skillhub.project.project import Project

# The lines in which two texts differ. A publisher may write two versions whose comparison by `difflib` alone takes
# minutes for each file, so the texts are first cut at lines that occur exactly once in each and in the same order
# (Cohen's patience diff); a long part without such lines counts as changed as a whole. If a skill has very many lines
# that may differ, no text is cut.

_COMPARED_MAX = 1 << 12  # pairs of lines; if many lines are alike, the comparison takes cubic time
_DEPTH_MAX = 8  # of cuts within cuts
_CUT_MAX = 200_000  # lines of all files of a skill that differ; with more, no text is cut
_Line = TypeVar("_Line", bound=Hashable)
Changed = tuple[int, int, int, int]  # the first line and the one after the last, in the one text and in the other


def changed_lines(one: Sequence[_Line], other: Sequence[_Line], depth: int = _DEPTH_MAX) -> Iterator[Changed]:
    """Yield in order the parts in which two texts differ."""
    position = other_position = 0
    for low, start, count in (*_equal_lines(one, other, 0, 0, depth), (len(one), len(other), 0)):
        if position < low or other_position < start:
            yield position, low, other_position, start
        position, other_position = low + count, start + count


def _equal_lines(
    one: Sequence[_Line], other: Sequence[_Line], low: int, start: int, depth: int
) -> Iterator[tuple[int, int, int]]:
    """Yield in order the equal parts of texts that begin at ``low`` and ``start``: both positions, and the lines."""
    shorter = min(len(one), len(other))
    head = next((index for index in range(shorter) if one[index] != other[index]), shorter)
    yield low, start, head
    tail = next((index for index in range(shorter - head) if one[-1 - index] != other[-1 - index]), shorter - head)
    mine, yours = one[head : len(one) - tail], other[head : len(other) - tail]
    low, start = low + head, start + head
    if len(mine) * len(yours) <= _COMPARED_MAX:
        matcher = SequenceMatcher(None, mine, yours, autojunk=False)
        yield from ((low + block.a, start + block.b, block.size) for block in matcher.get_matching_blocks())
    elif depth and (cuts := [*_anchors(mine, yours)]):
        i = j = 0
        for cut, other_cut in (*cuts, (len(mine), len(yours))):
            yield from _equal_lines(mine[i:cut], yours[j:other_cut], low + i, start + j, depth - 1)
            i, j = cut, other_cut
    yield low + len(mine), start + len(yours), tail


def _depth(base: Mapping[str, File], *others: Mapping[str, File]) -> int:
    """Return how deep the texts of these trees are cut."""
    pairs = ((file, base.get(path)) for other in others for path, file in other.items())
    lines = sum(file.data.count(b"\n") for file, before in pairs if before is not None and file != before)
    return _DEPTH_MAX if lines <= _CUT_MAX else 0


def _anchors(mine: Sequence[_Line], yours: Sequence[_Line]) -> list[tuple[int, int]]:
    """Return the positions, in both texts, of the lines to cut at."""
    counts, other_counts = Counter(mine), Counter(yours)
    places = {line: index for index, line in enumerate(yours) if other_counts[line] == 1}
    shared = [(index, places[line]) for index, line in enumerate(mine) if counts[line] == 1 and line in places]
    # The longest subsequence that ascends in both.
    tops: list[int] = []
    piles: list[int] = []
    before: list[int] = []
    for number, (_, position) in enumerate(shared):
        pile = bisect_left(tops, position)
        before.append(piles[pile - 1] if pile else -1)
        tops[pile : pile + 1] = [position]
        piles[pile : pile + 1] = [number]
    anchors = []
    number = piles[-1] if piles else -1
    while number >= 0:
        anchors.append(shared[number])
        number = before[number]
    return anchors[::-1]


# The difference between two trees, as a patch for ``patch -p1`` and ``git apply``.

# Paths that a patch spells unquoted: no control character, quote, backslash or lone surrogate.
_NAMEABLE = deferred(r'[^\x00-\x1f"\\\x7f\ud800-\udfff]+')
_LARGEST = 1 << 20  # bytes
_LINES_MAX = 10_000
_CONTEXT = 3  # equal lines around a change


def difference(base: Mapping[str, File], now: Mapping[str, File]) -> tuple[str, dict[str, File]]:
    """Return the changes from ``base`` to ``now``: a patch for ``patch -p1``, and the files that it cannot hold."""
    patch: list[str] = []
    unpatchable, depth = {}, _depth(base, now)
    for path in sorted({*base, *now}):
        old, new = base.get(path), now.get(path)
        if old == new:
            continue
        before, after = text_of(path, old), text_of(path, new)
        if before is not None and after is not None:
            patch += _section(path, old, new, [*_unified(lines_of(before), lines_of(after), depth)])
        elif new:
            unpatchable[path] = new
    return "".join(patch), unpatchable


def text_of(path: str, file: File | None) -> str | None:
    """Return the text of a file, ``""`` for a missing one; None if a patch cannot hold it or its path."""
    if not _NAMEABLE.fullmatch(path) or (file and (len(file.data) > _LARGEST or b"\0" in file.data)):
        return None
    if file and file.data.count(b"\n") > _LINES_MAX:
        return None
    try:
        return file.data.decode("utf-8") if file else ""
    except UnicodeDecodeError:
        return None


def _section(path: str, old: File | None, new: File | None, lines: list[str]) -> list[str]:
    head = [f"diff --git a/{path} b/{path}\n"]
    if old is None:
        head.append(f"new file mode {mode_of(new)}\n")
    elif new is None:
        head.append(f"deleted file mode {mode_of(old)}\n")
    elif old.executable != new.executable:
        head += [f"old mode {mode_of(old)}\n", f"new mode {mode_of(new)}\n"]
    tab = "\t" if " " in path else ""  # without it, `patch` ends the name at the space
    names = (f"a/{path}{tab}" if old else "/dev/null", f"b/{path}{tab}" if new else "/dev/null")
    if lines:
        head += [f"--- {names[0]}\n", f"+++ {names[1]}\n"]
    return head + [line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines]


def _unified(before: list[str], after: list[str], depth: int) -> Iterator[str]:
    """Yield the lines of each hunk; changes with few lines between them share one."""
    hunk: list[Changed] = []
    for change in changed_lines(before, after, depth):
        if hunk and change[0] - hunk[-1][1] > 2 * _CONTEXT:
            yield from _hunk(hunk, before, after)
            hunk = []
        hunk.append(change)
    if hunk:
        yield from _hunk(hunk, before, after)


def _hunk(changes: list[Changed], before: list[str], after: list[str]) -> Iterator[str]:
    position, new_start = (max(begin - _CONTEXT, 0) for begin in (changes[0][0], changes[0][2]))
    old_end, new_end = min(changes[-1][1] + _CONTEXT, len(before)), min(changes[-1][3] + _CONTEXT, len(after))
    yield f"@@ -{_range(position, old_end)} +{_range(new_start, new_end)} @@\n"
    for low, high, start, stop in changes:
        yield from (f" {line}" for line in before[position:low])
        yield from (f"-{line}" for line in before[low:high])
        yield from (f"+{line}" for line in after[start:stop])
        position = high
    yield from (f" {line}" for line in before[position:old_end])


def _range(first: int, last: int) -> str:
    count = last - first
    return str(last) if count == 1 else f"{first + bool(count)},{count}"


def mode_of(file: File | None) -> str:
    """Return the mode of a file in git's form."""
    return "100755" if file is not None and file.executable else "100644"


def lines_of(text: str) -> list[str]:
    """Return the lines of a text, each with its line feed; only the last may lack it."""
    # Not splitlines: `patch` and `git apply` end no line at a form feed or a Unicode line separator.
    parts = text.split("\n")
    return [f"{part}\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


# Apply a patch of ``difference`` exactly, or not at all.
# Nothing is guessed: every line of context must be where its hunk says, every count correct, and every file the same
# as when the patch was made. A patch may name any path: before the result is written to a disk, the caller must check
# its paths like those of an archive.

_FILE = "diff --git a/"
_MODE = deferred(r"(new file|deleted file|old|new) mode (100644|100755)")
_HUNK = deferred(r"@@ -([0-9]{1,9})(?:,([0-9]{1,9}))? \+([0-9]{1,9})(?:,([0-9]{1,9}))? @@")
_CHANGES_OF_MODE: tuple[set[str], ...] = (set(), {"new file"}, {"deleted file"}, {"old", "new"})
_NO_END = "\\ No newline at end of file"


def apply(patch: bytes, base: Mapping[str, File], where: str) -> Tree:
    """Return ``base`` with the patch applied.

    Args:
        patch: The bytes of the patch.
        base: The files from which it was made.
        where: The name of the patch in errors.

    Raises:
        FormatError: the patch is malformed, or was made from other files; ``where`` names the line.
    """
    reader = _Reader(_decoded(patch, where), where)
    files = dict(base)
    patched: set[str] = set()
    while reader.at < len(reader.lines):
        path = reader.file(files)
        if path in patched:
            reader.fail(f"expected each file once, found {quote(path)} again")
        patched.add(path)
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
    """The lines of a patch, and the position of the next one."""

    def __init__(self, lines: list[str], where: str) -> None:
        self.lines, self.where = lines, where
        self.at = 0

    @property
    def line(self) -> str:
        """The next line; past the end an empty one, which matches no expectation."""
        return self.lines[self.at] if self.at < len(self.lines) else ""

    def fail(self, message: str) -> NoReturn:
        raise FormatError(message, where=f"{self.where}:{self.at + 1}")

    def expect(self, condition: object, message: str) -> None:
        if not condition:
            self.fail(f"expected {message}, found {quote(self.line)}")

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Read the next line if it matches ``pattern``."""
        match = pattern.fullmatch(self.line)
        self.at += match is not None
        return match

    def file(self, files: dict[str, File]) -> str:
        """Apply the next section of the patch to its file in ``files``; return the file's path."""
        # Both paths are the same, so each is half of the line. A pattern would try every place where the first may
        # end.
        both = self.line.removeprefix(_FILE)
        path = both[: (len(both) - len(" b/")) // 2]
        self.expect(path and self.line == f"{_FILE}{path} b/{path}", "the line of a file")
        self.at += 1
        old = files.pop(path, None)
        modes: dict[str, str] = {}
        while mode := self.take(_MODE):
            modes[mode[1]] = mode[2]
        self.expect(set(modes) in _CHANGES_OF_MODE, "one change of mode")
        is_new, is_gone = "new file" in modes, "deleted file" in modes
        self.expect(is_new == (old is None), f"{quote(path)} to be {'absent' if is_new else 'there'}")
        old_mode = modes.get("deleted file", modes.get("old", mode_of(old)))
        self.expect(is_new or old_mode == mode_of(old), f"{quote(path)} to have mode {old_mode}")
        try:
            lines = lines_of(old.data.decode("utf-8") if old else "")
        except UnicodeDecodeError:
            self.fail(f"{quote(path)} is not text")
        if self.line.startswith("--- "):
            names = ("/dev/null" if is_new else f"a/{path}", "/dev/null" if is_gone else f"b/{path}")
            for name_line in map(str.__add__, ("--- ", "+++ "), names):
                self.expect(self.line in (name_line, f"{name_line}\t"), quote(name_line))
                self.at += 1
            lines = self.hunks(lines)
        self.expect(not is_gone or not lines, f"{quote(path)} to be gone whole")
        if not is_gone:
            mode_now = modes.get("new file") or modes.get("new") or mode_of(old)
            files[path] = File("".join(lines).encode("utf-8"), mode_now == "100755")
        return path

    def hunks(self, before: list[str]) -> list[str]:
        """Return the lines of a file with the following hunks applied."""
        after: list[str] = []
        position = 0
        self.expect(_HUNK.fullmatch(self.line), "a hunk")
        while match := _HUNK.fullmatch(self.line):
            olds, news = (int(count) if count is not None else 1 for count in (match[2], match[4]))
            # The start of an empty range is the line before it.
            start, new_start = int(match[1]) - bool(olds), int(match[3]) - bool(news)
            self.expect(position <= start <= len(before), "hunks in order, within the file")
            after += before[position:start]
            self.expect(len(after) == new_start, "the hunk to go where it says")
            position = start
            self.at += 1
            while olds or news:
                mark, text = self.line[:1], self.line[1:]
                olds -= mark in (" ", "-")
                news -= mark in (" ", "+")
                self.expect(mark in (" ", "-", "+") and min(olds, news) >= 0, "as many lines as the hunk says")
                has_end = self.lines[self.at + 1 : self.at + 2] != [_NO_END]
                text += "\n" if has_end else ""
                if mark != "+":
                    self.expect(before[position : position + 1] == [text], "a line that the file has there")
                    position += 1
                if mark != "-":
                    after.append(text)
                self.at += 1 if has_end else 2
        after += before[position:]
        self.expect(all(line.endswith("\n") for line in after[:-1]), "a line without end to be the last")
        return after


# The user's edits and a new version, merged unless both changed the same lines.


class _Overlap(Exception):
    """Both sides changed the same lines or files."""


def merge(base: Mapping[str, File], mine: Mapping[str, File], theirs: Mapping[str, File]) -> Tree | None:
    """Return ``theirs`` with the changes from ``base`` to ``mine``; None if the two overlap.

    A file that both changed is merged line by line; changes of the same or of adjacent lines overlap, as in git.
    """
    merged: dict[str, File] = {}
    depth = _depth(base, mine, theirs)
    try:
        for path in {*base, *mine, *theirs}:
            file = _file(path, base.get(path), mine.get(path), theirs.get(path), depth)
            if file is not None:
                merged[path] = file
    except _Overlap:
        return None
    return Tree(merged)


def checked_as_archive(tree: Tree) -> Tree:
    """Return the tree of a patched skill, checked by the rules for archives: a patch may name any path.

    Raises:
        SecurityError: it holds a forbidden path or file.
    """
    from skillhub.archive.limits import Entry  # noqa: PLC0415 - most commands that read edits merge none
    from skillhub.archive.unpack import gather  # noqa: PLC0415 - most commands that read edits merge none

    return gather((Entry(path, file) for path, file in tree.items()), wrapper=False).tree


def merge_skills(base: Mapping[str, File], mine: Mapping[str, File], theirs: Mapping[str, File]) -> Tree | None:
    """Return the ``merge`` of a skill's files; None, too, if it breaks a rule for archives.

    For example, one side may have added a file, and the other a folder of its name.
    """
    merged = merge(base, mine, theirs)
    if merged is None:
        return None
    try:
        return checked_as_archive(merged)
    except UnsafeArchive:
        return None


def _file(path: str, base: File | None, mine: File | None, theirs: File | None, depth: int) -> File | None:
    if mine in (base, theirs):
        return theirs
    if theirs == base:
        return mine
    if base is None or mine is None or theirs is None:
        raise _Overlap  # one removed the file that the other changed, or both added a file of this name
    executable = theirs.executable if mine.executable == base.executable else mine.executable
    if mine.data in (base.data, theirs.data):
        return File(theirs.data, executable)
    if base.data == theirs.data:
        return File(mine.data, executable)
    texts = [text for text in (text_of(path, file) for file in (base, mine, theirs)) if text is not None]
    if len(texts) < 3:
        raise _Overlap
    return File("".join(_lines(depth, *map(lines_of, texts))).encode("utf-8"), executable)


_Change = tuple[int, int, list[str]]  # the first line of the base, the one after the last, and the new lines


def _lines(depth: int, base: list[str], mine: list[str], theirs: list[str]) -> list[str]:
    """Return the base with the changes of both sides.

    Raises:
        _Overlap: two changes touch and are not the same.
    """
    merged: list[str] = []
    position = 0
    changes = sorted([*_changes(base, mine, depth), *_changes(base, theirs, depth)])
    for number, (start, end, lines) in enumerate(changes):
        if number and changes[number - 1] == (start, end, lines):
            continue  # both made the same change
        if number and start <= position:
            raise _Overlap
        merged += base[position:start] + lines
        position = end
    return merged + base[position:]


def _changes(base: list[str], side: list[str], depth: int) -> Iterator[_Change]:
    for start, end, first, last in changed_lines(base, side, depth):
        yield start, end, side[first:last]


# Local edits of copies in agents' folders: read, saved as a patch, merged into a new version, never lost.

_EDITS_MAX = 256 << 20  # bytes; a copy may have become a build folder
_PATCH_CAP = 64 << 20


def save(
    name: str, edited: Iterable[Mapping[str, File]], base: Mapping[str, File], project: Project, taken: str | None
) -> list[str]:
    """Write edits to ``skillhub-edits/``, equal ones once: a patch, and beside it the files that it cannot hold.

    Return the paths of the patches, relative to the project; none of them is ``taken``.

    Raises:
        LinkLeavesProject: that folder is a link that leads out of the project.
        StateError: the disk refuses.
    """
    saved: list[tuple[str, dict[str, File]]] = []
    paths = []
    for copy in edited:
        edits = difference(base, copy)
        if edits in saved or not any(edits):
            continue
        saved.append(edits)
        patch, unpatchable = edits
        paths.append(free_path(name, project, taken))
        path = os.path.join(project.root, *paths[-1].split("/"))
        if unpatchable:
            with files.disk_errors(path), project.hold(path, make=True) as (file, dir_fd):
                write_tree(file.removesuffix(".patch"), unpatchable.items(), read_only=False, dir_fd=dir_fd)
        files.write_atomic(path, patch.encode("utf-8"), root=project.top)
    return paths


def free_path(name: str, project: Project, taken: str | None = None) -> str:
    """Return an unused path, relative to the project, for a patch in ``skillhub-edits/``; it is not ``taken``.

    Raises:
        LinkLeavesProject: that folder is a link that leads out of the project.
    """
    folder = files.inside(project.root, EDITS)
    top = os.path.relpath(folder, project.root).replace(os.sep, "/")
    number = 1
    while True:
        path = f"{top}/{name}-{number}.patch"
        in_the_way = [os.path.join(folder, f"{name}-{number}{end}") for end in ("", ".patch")]
        if path != taken and not any(map(os.path.lexists, in_the_way)):
            return path
        number += 1


def read_edited(path: str, store: str, project: Project, base: Mapping[str, File]) -> dict[str, File]:
    """Return the files at ``path``, which the user has in place of ``base``, the files of a skill.

    For a link of the user's own, return nothing: its target stays. A link into ``store``, the store's folder, is
    ours: return the files of the stored tree, which were edited through it.

    Raises:
        LinkLeavesProject: a folder on the path has become a link.
        StateError: the files cannot be read, or are too large to save.
    """
    if not os.path.lexists(path) or (files.is_link(path) and not is_under(path, store)):
        return {}
    try:
        with files.disk_errors(path):
            if not os.path.isdir(path):
                target = os.path.realpath(path)  # a link here is ours, and its target in the store is no folder
                return {os.path.basename(path): File(files.read(target, _EDITS_MAX) or b"")}
            if files.is_link(path):
                return _read_folder(os.path.realpath(path), base)
            with project.hold(path) as (name, dir_fd):
                return _read_folder(path, base, dir_fd, name)
    except (FormatError, UnsafeArchive) as error:
        raise _too_much(path) from error


def is_under(path: str, store: str) -> bool:
    """Return whether the link at ``path`` leads to a tree of the store."""
    return os.path.dirname(os.path.dirname(os.path.realpath(path))) == os.path.realpath(store)


def _read_folder(path: str, base: Mapping[str, File], dir_fd: int | None = None, name: str = "") -> dict[str, File]:
    edited, links, size = {}, {}, 0
    for inner, file in walk(name or path, largest=_EDITS_MAX, dir_fd=dir_fd, like=base):
        if file is not None:
            edited[inner] = file
            size += len(file.data)
        elif os.path.islink(full_path := f"{path}/{inner}"):
            links[inner] = File(os.fsencode(os.readlink(full_path)) + b"\n")
        if size > _EDITS_MAX:
            raise _too_much(path)
    for link, target in links.items():
        free = f"{link}.link"
        while free in edited:
            free += ".link"
        edited[free] = target
    return edited


def _too_much(path: str) -> StateError:
    hint = "move away what does not belong to the skill, then run the command again"
    return StateError(f"more than {_EDITS_MAX >> 20} MiB of edits to save", where=path, hint=hint)


def merged(base: Tree | None, path: str, theirs: Tree, project: Project) -> Tree | None:
    """Return ``theirs`` with the edits of the copy at ``path``; None if there is no copy or the two overlap.

    Raises:
        LinkLeavesProject: a folder on the path has become a link.
        StateError: the copy cannot be read, or is too large.
    """
    if base is None or files.is_link(path) or not os.path.isdir(path):
        return None
    try:
        with files.disk_errors(path), project.hold(path) as (name, dir_fd):
            found = dict(walk(name, largest=_EDITS_MAX, dir_fd=dir_fd, like=base))
    except UnsafeArchive:
        return None
    mine = {inner: file for inner, file in found.items() if file is not None}
    return merge_skills(base, mine, theirs) if len(mine) == len(found) else None


def read_patch(patch: Patch, project: Project) -> bytes:
    """Return the bytes of a patch that the lock names.

    Raises:
        NotFound: the file does not exist.
        WrongBytes: its digest differs from the lock.
        LinkLeavesProject: its path leads out of the project through a link.
    """
    path = files.inside(project.root, patch.path)
    data = files.read(path, _PATCH_CAP)
    if data is None:
        raise NotFound("the locked patch is missing", where=path, hint="commit the patch together with the lock")
    if Digest.of(data) != patch.digest:
        message = f"expected a patch of digest {patch.digest}, found {Digest.of(data)}"
        raise WrongBytes(message, where=path, hint="restore the patch from version control")
    return data


def patch_warning(name: str, entry: Locked, project: Project) -> str | None:
    """Return the warning that the patch of a locked skill cannot be read or is another one; None if all is well.

    A machine that has the patched tree does not need the patch; all others do.
    """
    if entry.patch is None:
        return None
    try:
        read_patch(entry.patch, project)
    except SkillhubError as error:
        what = "is missing" if isinstance(error, NotFound) else "is not the patch that the lock names"
        again = command(project.scope, "patch", name)
        return f"{entry.patch.path} {what}; restore it from version control, or write it again: {again}"
    return None


# Intact copies in agents' folders of trees that the store has lost.


def listing_of_copy(places: Iterable[str], tree: Digest) -> Listing | None:
    """Return the listing of the first copy that is exactly this tree."""
    return next((listing for _, listing in _copies(places, tree)), None)


def tree_of_copy(places: Iterable[str], tree: Digest) -> Tree | None:
    """Return the tree from the first copy that is exactly this tree."""
    for path, _ in _copies(places, tree):
        with suppress(OSError, UnsafeArchive):
            copied = Tree({inner: file for inner, file in walk(path, largest=LARGEST) if file})
            if copied.digest == tree:
                return copied
    return None


def _copies(places: Iterable[str], tree: Digest) -> Iterator[tuple[str, Listing]]:
    for path in places:
        if os.path.isdir(path) and not files.is_link(path):
            with suppress(OSError):
                listing = list_folder(path)
                if listing is not None and listing.digest == tree:
                    yield path, listing

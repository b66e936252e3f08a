"""What differs between two trees, as a patch that ``patch -p1`` and ``git apply`` take."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import unified_diff

from skillhub.model.tree import File

# What a patch spells as it is: no control character, quote, backslash or lone surrogate.
_NAMEABLE = re.compile(r'[^\x00-\x1f"\\\x7f\ud800-\udfff]+')
_LARGEST = 1 << 20  # bytes
_LINES_MAX = 10_000  # a second; they are matched in quadratic time


def difference(base: Mapping[str, File], now: Mapping[str, File]) -> tuple[str, dict[str, File]]:
    """Return what was changed from ``base`` to ``now``: a patch for ``patch -p1``, and files it cannot hold."""
    patch: list[str] = []
    whole = {}
    for path in sorted({*base, *now}):
        old, new = base.get(path), now.get(path)
        if old == new:
            continue
        before, after = text_of(path, old), text_of(path, new)
        if before is not None and after is not None:
            patch += _hunks(path, before, after, old, new)
        elif new:
            whole[path] = new
    return "".join(patch), whole


def text_of(path: str, file: File | None) -> str | None:
    """Return the text of a file that a patch can hold and name, else None."""
    if not _NAMEABLE.fullmatch(path) or (file and (len(file.data) > _LARGEST or b"\0" in file.data)):
        return None
    if file and file.data.count(b"\n") > _LINES_MAX:
        return None
    try:
        return file.data.decode("utf-8") if file else ""
    except UnicodeDecodeError:
        return None


def _hunks(path: str, before: str, after: str, old: File | None, new: File | None) -> list[str]:
    head = [f"diff --git a/{path} b/{path}\n"]
    if old is None:
        head.append(f"new file mode {mode_of(new)}\n")
    elif new is None:
        head.append(f"deleted file mode {mode_of(old)}\n")
    elif old.executable != new.executable:
        head += [f"old mode {mode_of(old)}\n", f"new mode {mode_of(new)}\n"]
    tab = "\t" if " " in path else ""  # else `patch` takes the name to end at the blank
    names = (f"a/{path}{tab}" if old else "/dev/null", f"b/{path}{tab}" if new else "/dev/null")
    lines = unified_diff(lines_of(before), lines_of(after), *names)
    return head + [
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    ]


def mode_of(file: File | None) -> str:
    """Return the mode of a file as git spells it."""
    return "100755" if file is not None and file.executable else "100644"


def lines_of(text: str) -> list[str]:
    """Return the lines of a text, each with its end; only the last may have none."""
    # Not splitlines: a form feed or a Unicode line separator is no line end to `patch` and `git apply`.
    parts = text.split("\n")
    return [f"{part}\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])

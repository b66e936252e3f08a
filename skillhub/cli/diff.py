"""``diff``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from skillhub.cli.common import Common, command
from skillhub.cli.terminal import Terminal, Tone
from skillhub.errors import NotFound, UsageError
from skillhub.flows.diff import Diff
from skillhub.model.patch import lines_of
from skillhub.model.text import clean, quote

if TYPE_CHECKING:
    from skillhub.model.lock import Lock

_TONES: dict[str, Tone] = {"+": "green", "-": "red", "@": "dim", "d": "bold"}


def diff(
    common: Common,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME[@VERSION]]...", help="Installed skills.")
    ] = None,
    from_lock: Annotated[
        str | None,
        typer.Option(
            "--from-lock", metavar="FILE", help="Compare this lock (- for stdin) with the present one."
        ),
    ] = None,
    form: Annotated[
        Literal["text", "json", "markdown"], typer.Option("--format", help="How to write it.")
    ] = "text",
) -> int:
    """Show what an update would change: files, lines, capabilities, needs, signer. Writes nothing.

    A skill is compared with the newest version that skillhub.toml allows, or with the one named.
    With --from-lock two locks are compared, for whoever reviews a change.

    For a comment on a pull request: git show main:skillhub.lock | skillhub diff --from-lock - --format markdown

    Example: skillhub diff gh-fix-ci
    """
    from skillhub.flows.diff import diff as flow
    from skillhub.flows.diff import diff_locks
    from skillhub.model.ref import Named, parse_ref

    ports = common.ports(scratch=True)
    if from_lock is not None:
        found = diff_locks(read_lock(from_lock), names or [], ports)
    elif not names:
        raise UsageError("expected the name of an installed skill, or --from-lock FILE")
    else:
        refs = [parse_ref(name) for name in names]
        wrong = [
            name for name, ref in zip(names, refs, strict=True) if not isinstance(ref, Named) or ref.source
        ]
        if wrong:
            raise UsageError(f"expected NAME or NAME@VERSION, found {quote(wrong[0])}")
        found = [flow(ref, ports) for ref in refs if isinstance(ref, Named)]
    if common.json or form == "json":
        common.terminal.json({"skills": [each.to_json() for each in found]})
    elif form == "markdown":
        for line in _markdown(found):
            common.terminal.verbatim(line)
    else:
        _draw(found, common.terminal)
    return 0


def read_lock(path: str) -> Lock:
    """Return the lock at a path that a person named; ``-`` is what comes on stdin."""
    from skillhub.model.lock import CAP, Lock
    from skillhub.world import files

    if path == "-":
        return Lock.parse(sys.stdin.buffer.read(CAP + 1), "stdin")
    data = files.read(os.path.realpath(path), CAP)
    if data is None:
        raise NotFound("there is no such lock", where=path)
    return Lock.parse(data, path)


def _draw(found: Sequence[Diff], terminal: Terminal) -> None:
    if not found or all(each.status == "same" for each in found):
        terminal.say("nothing differs", "dim")
    terminal.page([line for each in found for line in _lines(each)])


def _lines(each: Diff) -> Iterator[tuple[str, Tone]]:
    if each.status == "same":
        return
    yield f"{each.name}: {each.status}", "bold"
    facts = each.changes.lines() if each.changes else [_origin(each)]
    yield from ((f"  {line}", "plain") for line in (*facts, *each.notes))
    yield from ((f"  differs, and is no text: {path}", "plain") for path in each.whole)
    yield from ((line, _TONES.get(line[:1], "plain")) for line in _shown(each.patch))


def _origin(each: Diff) -> str:
    entry = each.after or each.before
    return f"{entry.version or '-'} from {entry.source}, {entry.origin}" if entry else ""


def _markdown(found: Sequence[Diff]) -> Iterator[str]:
    """Yield the lines of a comment on a pull request; text from outside stands in code, which it cannot end."""
    yield "## Skills"
    if not found:
        yield from ("", "Nothing differs.")
    for each in found:
        yield from ("", f"### {each.name}: {each.status}", "")
        for line in each.changes.lines() if each.changes else [_origin(each)]:
            yield f"- {_code(line)}"
        yield from (f"- {_code(note)}" for note in each.notes)
        if each.patch:
            lines = _shown(each.patch)
            fence = "`" * max(3, _longest_run("\n".join(lines)) + 1)
            yield from ("", "<details><summary>diff</summary>", "")
            yield from (f"{fence}diff", *lines, fence)
            yield from ("", "</details>")


def _shown(patch: str) -> list[str]:
    """Return the lines of a patch, each as it is seen: one, whatever it holds that elsewhere ends a line."""
    return [clean(line.removesuffix("\n")) for line in lines_of(patch)]


def _code(text: str) -> str:
    shown = clean(text)
    fence = "`" * (_longest_run(shown) + 1)
    return f"{fence} {shown} {fence}"


def _longest_run(text: str) -> int:
    return max(map(len, "".join(char if char == "`" else " " for char in text).split()), default=0)


def register(app: typer.Typer, name: str) -> None:
    """Add the command to the app."""
    app.command(name)(command(diff))

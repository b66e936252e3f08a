"""``diff``: shows edits by hand, what an update would change, and how two locks differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

from skillhub.cli.common import Common
from skillhub.cli.given import read_lock
from skillhub.cli.options import argument, option
from skillhub.cli.terminal import Terminal, Tone
from skillhub.errors import SkillhubError, UsageError
from skillhub.flows.diff import Diff, Edit
from skillhub.model.patch import lines_of
from skillhub.model.source_changes import SourceChange, source_changes
from skillhub.model.text import Quoted, clean, quote, word

if TYPE_CHECKING:
    from skillhub.flows.ports import Ports

_TONES: dict[str, Tone] = {"+": "green", "-": "red", "@": "dim", "d": "bold"}


def diff(
    common: Common,
    names: Annotated[list[str] | None, argument("[NAME[@VERSION]]...", "Installed skills.")] = None,
    from_lock: Annotated[
        str | None, option("--from-lock FILE", "Compare this lock (- for stdin) with the present one.")
    ] = None,
    form: Annotated[Literal["text", "json", "markdown"], option("--format", "How to write it.")] = "text",
) -> int:
    """Show what you edited by hand, then what an update would change. Writes nothing.

    Your edits are compared with what is locked. What is locked is compared with the newest version that
    skillhub.toml allows, or with the one named: files, lines, capabilities, needs, signer.
    With --from-lock two locks are compared, for whoever reviews a change.

    For a comment on a pull request: git show main:skillhub.lock | skillhub diff --from-lock - --format markdown

    Example: skillhub diff gh-fix-ci
    """
    from skillhub.flows.diff import diff_locks

    ports = common.ports(scratch=True)
    sources: tuple[SourceChange, ...] = ()
    form = "json" if common.json else form
    if from_lock is not None:
        old = read_lock(from_lock)
        sources = source_changes(old.sources, ports.project.lock().sources)
        found = diff_locks(old, names or [], ports)
    elif not names:
        message = "expected the name of an installed skill, or --from-lock FILE"
        raise UsageError(message, hint=f"{common.command('list')} shows what is installed")
    else:
        found = _of_names(names, ports, common.terminal, is_read=form != "json")
    if form == "json":
        rows = {"sources": [each.to_json() for each in sources]} if from_lock is not None else {}
        common.terminal.answer("diff", {**rows, "skills": [each.to_json() for each in found]})
    elif form == "markdown":
        for line in _markdown(found, sources):
            common.terminal.verbatim(line)
    else:
        _draw(found, sources, common.terminal)
    return 0


def _of_names(names: Sequence[str], ports: Ports, terminal: Terminal, *, is_read: bool) -> list[Diff]:
    """Compare installed skills; edits are here, and a person reads them though the source cannot be reached."""
    from skillhub.flows.diff import diff as flow
    from skillhub.flows.diff import edits_of
    from skillhub.model.ref import Named, parse_ref

    refs = []
    for name in names:
        ref = parse_ref(name)
        if not isinstance(ref, Named) or ref.source:
            raise UsageError(f"expected NAME or NAME@VERSION, found {quote(name)}")
        refs.append(ref)
    edits = {ref.name: edits_of(ref.name, ports) for ref in refs}
    try:
        return [replace(flow(ref, ports), edits=edits[ref.name]) for ref in refs]
    except SkillhubError:
        if is_read:
            terminal.page([line for name, each in edits.items() for line in _edit_lines(name, each)])
        raise


def _draw(found: Sequence[Diff], sources: Sequence[SourceChange], terminal: Terminal) -> None:
    first: list[tuple[str, Tone]] = [(each.line, "yellow") for each in sources]
    if not sources and all(each.status == "same" and not each.edits for each in found):
        terminal.say("nothing differs", "dim")
    terminal.page([*first, *(line for each in found for line in _lines(each))])


def _lines(each: Diff) -> Iterator[tuple[str, Tone]]:
    yield from _edit_lines(each.name, each.edits)
    if each.status == "same":
        if each.edits:
            yield f"{each.name}: an update would change nothing", "bold"
        return
    yield _title(each), "bold"
    yield from ((f"  {line}", "plain") for line in (*_facts(each), *each.notes))
    yield from _patch_lines(each.whole, each.patch)


def _edit_lines(name: str, edits: Sequence[Edit]) -> Iterator[tuple[str, Tone]]:
    for edit in edits:
        yield f"{name}: edited by hand in {', '.join(edit.paths)}", "bold"
        yield from _patch_lines(edit.whole, edit.patch)


def _patch_lines(whole: Sequence[str], patch: str) -> Iterator[tuple[str, Tone]]:
    yield from ((f"  differs, and is no text: {word(path)}", "plain") for path in whole)
    yield from ((Quoted(line), _TONES.get(line[:1], "plain")) for line in _shown(patch))


def _title(each: Diff) -> str:
    return f"{each.name}: {each.status}{' by an update' if each.edits else ''}"


def _facts(each: Diff) -> Sequence[str]:
    """Return what changes, or of a skill that one lock alone has where it comes from."""
    if each.changes:
        return each.changes.lines()
    entry = each.after or each.before
    return [f"{entry.version or '-'} from {entry.source}, {entry.origin}" if entry else ""]


def _markdown(found: Sequence[Diff], sources: Sequence[SourceChange]) -> Iterator[str]:
    """Yield the lines of a comment on a pull request; text from outside stands in code, which it cannot end."""
    if sources:
        yield from ("## Sources", "", *(f"- {_code(each.line)}" for each in sources), "")
    yield "## Skills"
    if not found:
        yield from ("", "Nothing differs.")
    for each in found:
        for edit in each.edits:
            yield from ("", f"### {each.name}: edited by hand", "")
            yield from (f"- {_code(path)}" for path in edit.paths)
            yield from (f"- differs, and is no text: {_code(path)}" for path in edit.whole)
            yield from _block(edit.patch)
        yield from ("", f"### {_title(each)}", "")
        yield from (f"- {_code(line)}" for line in (*_facts(each), *each.notes))
        yield from _block(each.patch)


def _block(patch: str) -> Iterator[str]:
    """Yield a patch, folded, as a block that nothing in it ends."""
    if patch:
        lines = _shown(patch)
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


COMMANDS = {"diff": diff}

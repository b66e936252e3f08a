"""``diff``, and the text that ``update --pr-body`` writes for the reviewer of an update."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Literal

from skillhub.audit.show import Diff, Edit, diff_locks, edits_of, every_edit
from skillhub.audit.show import diff as diff_flow
from skillhub.cli.common import Arg, Common, Strings, read_lock, write_output
from skillhub.cli.network import open_ports
from skillhub.cli.terminal import Terminal, Tone
from skillhub.command.ports import Ports
from skillhub.edits.patch import lines_of
from skillhub.errors import SkillhubError, UsageError
from skillhub.formats.text import Quoted, clean, quote, word
from skillhub.model.lock import Lock
from skillhub.model.provenance import SourceChange, source_changes
from skillhub.model.reference import Named, parse_ref
from skillhub.project.intent import sources_since

# ``diff``: shows edits by hand, the changes of an update, and the differences of two locks.

_TONES: dict[str, Tone] = {"+": "green", "-": "red", "@": "dim", "d": "bold"}


def diff(
    common: Common,
    names: Annotated[Strings, Arg("[NAME[@VERSION]]...", "Installed skills (default: only edits, of all).")] = None,
    from_lock: Annotated[
        str | None,
        Arg("--from-lock FILE", "Compare this lock (- for stdin, /dev/null for none) with the current one."),
    ] = None,
    form: Annotated[Literal["text", "json", "markdown"], Arg("--format", "The output format.")] = "text",
) -> None:
    """Show your edits by hand, then the changes that an update of the named skills would make. Writes nothing.

    First it compares your copies with the lock. Then it compares the locked version with the newest version that
    skillhub.toml allows, or with the version you name: files, lines, capabilities, needs, signer.
    With --from-lock it compares two locks, for the review of a change.

    For a comment on a pull request: git show main:skillhub.lock | skillhub diff --from-lock - --format markdown

    Example: skillhub diff gh-fix-ci
    """
    ports = open_ports(common, scratch=True)
    sources: tuple[SourceChange, ...] = ()
    form = "json" if common.json else form
    if from_lock is not None:
        found, sources = _since(read_lock(from_lock, "diff"), names or [], ports)
    elif not names:
        return _every_edit(ports, form, common.terminal)
    else:
        found = _of_names(names, ports, common.terminal, is_read=form != "json")
    if form == "json":
        rows = {"sources": sources} if from_lock is not None else {}
        common.answer("diff", {**rows, "skills": found})
    elif form == "markdown":
        common.terminal.lines(_joined(_markdown(found, sources)))
    else:
        _draw(found, sources, common.terminal)


def _since(old: Lock, names: Sequence[str], ports: Ports) -> tuple[list[Diff], tuple[SourceChange, ...]]:
    """Compare an older lock, and its sources, with the current one."""
    sources = source_changes(old.sources, sources_since(old, ports.project.lock(), ports.project.intent()))
    return diff_locks(old, names, ports), sources


_BODY_MAX = 60_000  # of 65,536 characters that GitHub takes; other forges take more


def write_review(path: str, old: Lock | Sequence[str], ports: Ports) -> None:
    """Write a text for the reviewer of the changes since a lock, or of the changes by an update of skills.

    It is the Markdown of ``diff --from-lock``, or of ``diff NAME``. If it is too long for the body of a pull request,
    the differences of files are left out first, and the text says so.

    Raises:
        SourceError, SecurityError, FormatError: the new version cannot be fetched, or is refused.
        StateError: the file cannot be written.
    """
    if isinstance(old, Lock):
        found, sources = _since(old, [], ports)
    else:
        found, sources = [diff_flow(Named(name), ports) for name in old], ()
    text = _joined(_markdown(found, sources))
    if len(text) > _BODY_MAX:
        note = "The differences of files are left out here: `skillhub diff --from-lock FILE` shows them."
        lines = [note, "", *_markdown([replace(each, patch="") for each in found], sources)]
        text = _joined(lines)
        if len(text) > _BODY_MAX:
            text = f"{text[:_BODY_MAX].rpartition(chr(10))[0]}\n\nThe rest is left out: it is too long.\n"
    write_output(path, text.encode("utf-8", "replace"), ports.project)


def _joined(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _every_edit(ports: Ports, form: str, terminal: Terminal) -> None:
    """Show every edit by hand; contact no source."""
    found = every_edit(ports)
    if form == "json":
        terminal.answer("diff", {"skills": found})
    elif form == "markdown":
        terminal.lines(_joined(line for each in found for line in _edit_markdown(each)))
    else:
        if not found:
            terminal.say("no copy was edited by hand", "dim")
        terminal.page([line for each in found for line in _edit_lines(each.name, each.edits)])


def _of_names(names: Sequence[str], ports: Ports, terminal: Terminal, *, is_read: bool) -> list[Diff]:
    """Compare installed skills; if a source cannot be reached, show the edits to a person and raise the error."""
    refs = []
    for name in names:
        ref = parse_ref(name)
        if not isinstance(ref, Named) or ref.source:
            raise UsageError(f"expected NAME or NAME@VERSION, found {quote(name)}")
        refs.append(ref)
    edits = {ref.name: edits_of(ref.name, ports) for ref in refs}
    try:
        return [replace(diff_flow(ref, ports), edits=edits[ref.name]) for ref in refs]
    except SkillhubError:
        if is_read:
            terminal.page([line for name, each in edits.items() for line in _edit_lines(name, each)])
        raise


def _draw(found: Sequence[Diff], sources: Sequence[SourceChange], terminal: Terminal) -> None:
    first: list[tuple[str, Tone]] = [(each.line, "yellow") for each in sources]
    if not sources and all(each.status == "same" and not each.edits for each in found):
        terminal.say("no differences", "dim")
    terminal.page([*first, *(line for each in found for line in _lines(each, terminal))])


def _lines(each: Diff, terminal: Terminal) -> Iterator[tuple[str, Tone]]:
    yield from _edit_lines(each.name, each.edits)
    if each.status == "same":
        if each.edits:
            yield f"{each.name}: an update would change nothing", "bold"
        yield from ((note, "yellow") for note in each.notes)
        return
    yield _title(each), "bold"
    yield from ((f"  {line}", "plain") for line in terminal.once((*_facts(each), *each.notes)))
    yield from _patch_lines(each.binary, each.patch)


def _edit_lines(name: str, edits: Sequence[Edit]) -> Iterator[tuple[str, Tone]]:
    for edit in edits:
        yield f"{name}: edited by hand in {', '.join(edit.paths)}", "bold"
        yield from _patch_lines(edit.binary, edit.patch)


def _patch_lines(binaries: Sequence[str], patch: str) -> Iterator[tuple[str, Tone]]:
    yield from ((f"  differs, and is not shown: {word(path)}", "plain") for path in binaries)
    yield from ((Quoted(line), _TONES.get(line[:1], "plain")) for line in _shown(patch))


def _title(each: Diff) -> str:
    return f"{each.name}: {each.status}{' by an update' if each.edits else ''}"


def _facts(each: Diff) -> Sequence[str]:
    """Return the changes of a skill, the facts of a new one, or the origin of a removed one; then the findings."""
    entry = each.before
    origin = [f"{entry.version or '-'} from {entry.source}, {entry.origin}"] if entry else []
    facts = each.changes.lines() if each.changes else [*each.facts] or origin
    return [*facts, *(f"the scan found {finding}" for finding in each.findings)]


def _markdown(found: Sequence[Diff], sources: Sequence[SourceChange]) -> Iterator[str]:
    """Yield the lines of a comment on a pull request; untrusted text is in code that it cannot close."""
    if sources:
        yield from ("## Sources", "", *(f"- {_code(each.line)}" for each in sources), "")
    yield "## Skills"
    if not found:
        yield from ("", "No differences.")
    for each in found:
        yield from _edit_markdown(each)
        yield from ("", f"### {_title(each)}", "")
        yield from (f"- {_code(line)}" for line in (*_facts(each), *each.notes))
        yield from (f"- {_code(f'differs, and is not shown: {path}')}" for path in each.binary)
        yield from _block(each.patch)


def _edit_markdown(each: Diff) -> Iterator[str]:
    for edit in each.edits:
        yield from ("", f"### {each.name}: edited by hand", "")
        yield from (f"- {_code(path)}" for path in edit.paths)
        yield from (f"- differs, and is not shown: {_code(path)}" for path in edit.binary)
        yield from _block(edit.patch)


def _block(patch: str) -> Iterator[str]:
    """Yield a patch as a folded code block with a fence that the patch does not contain."""
    if patch:
        lines = _shown(patch)
        fence = "`" * max(3, _longest_run("\n".join(lines)) + 1)
        yield from ("", "<details><summary>diff</summary>", "")
        yield from (f"{fence}diff", *lines, fence)
        yield from ("", "</details>")


def _shown(patch: str) -> list[str]:
    """Return the cleaned lines of a patch; only ``\\n`` ends a line."""
    return [clean(line.removesuffix("\n")) for line in lines_of(patch)]


def _code(text: str) -> str:
    shown = clean(text)
    fence = "`" * (_longest_run(shown) + 1)
    return f"{fence} {shown} {fence}"


def _longest_run(text: str) -> int:
    return max(map(len, "".join(char if char == "`" else " " for char in text).split()), default=0)

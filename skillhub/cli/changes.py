"""Commands that change versions and edits, or show how they differ: ``update``, ``diff``, ``patch``, ``adopt``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

from skillhub.audit.show import Diff, Edit
from skillhub.cli.common import Common, Run, options_of, read_lock, trusted_sources
from skillhub.cli.options import (
    Agents,
    AllowUnsigned,
    Env,
    EnvFile,
    Link,
    Mcp,
    NoEnable,
    TrustSource,
    argument,
    option,
)
from skillhub.cli.render import finish, show_changes, show_plan, show_sources
from skillhub.cli.terminal import Terminal, Tone
from skillhub.edits.patch import lines_of
from skillhub.errors import SkillhubError, UsageError
from skillhub.formats.text import Quoted, clean, quote, word
from skillhub.install.context import show_no_plan
from skillhub.model.provenance import Changes, SourceChange, source_changes
from skillhub.project.intent import sources_since

if TYPE_CHECKING:
    from skillhub.install.context import Ports


# ``diff``: shows edits by hand, what an update would change, and how two locks differ.

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
    from skillhub.audit.show import diff_locks

    ports = common.ports(scratch=True)
    sources: tuple[SourceChange, ...] = ()
    form = "json" if common.json else form
    if from_lock is not None:
        old = read_lock(from_lock)
        sources = source_changes(old.sources, sources_since(old, ports.project.lock(), ports.project.intent()))
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
    from skillhub.audit.show import diff as flow
    from skillhub.audit.show import edits_of
    from skillhub.model.reference import Named, parse_ref

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


# ``patch``: keeps edits of a skill as a patch that the project agrees to.


def patch(
    common: Common,
    names: Annotated[list[str], argument("NAME...", "Names of installed skills.")],
    drop: Annotated[bool, option("--drop", "Give up the patch: the skill is as its source has it again.")] = False,
) -> int:
    """Keep what was edited in a skill's copy as a patch that the project agrees to.

    The patch is written to skillhub-edits/ and named in skillhub.lock; commit both. From then on install and
    sync give everybody the patched skill, verify takes it as it is, and update carries the patch over to the
    new version where the two do not touch the same lines.

    Example: skillhub patch gh-fix-ci
    """
    from skillhub.exchange import adopt as flow
    from skillhub.install.context import Options

    act, verb, done = (flow.drop, "unpatch", "unpatched") if drop else (flow.patch, "patch", "patched")
    options = Options(dry_run=common.dry_run)
    outcome = act(names, options, common.ports())
    status = finish(common, outcome, options, verb, done)
    if not common.json and not common.dry_run:
        for skill in outcome.skills:
            if skill.patch:
                common.terminal.say(f"{skill.patch} belongs to skillhub.lock: commit both")
    return status


# ``update``: brings skills to the newest version that is allowed, and shows the plan first.

BEHIND = 1
_MOST = 24  # lines of the plan for one skill, where nobody is there to scroll back


def update(
    common: Common,
    names: Annotated[list[str] | None, argument("[NAME]...", "Installed skills; else all of them.")] = None,
    check: Annotated[
        bool, option("--check", "Only tell what is behind, and exit 1 if anything is; write nothing.")
    ] = False,
    skill: Annotated[
        list[str] | None, option("--skill NAME", "Of the locked skills, this one too (repeatable).")
    ] = None,
    every: Annotated[bool, option("--all", "All that are locked, as without a name; goes with none.")] = False,
    frozen: Annotated[bool, option("--frozen", "Fail rather than change the lock, if anything is newer.")] = False,
    agent: Agents = None,
    env: Env = None,
    env_file: EnvFile = None,
    mcp: Mcp = "ask",
    link: Link = None,
    no_enable: NoEnable = False,
    allow_unsigned: AllowUnsigned = False,
    trust_source: TrustSource = None,
) -> int:
    """Bring skills to the newest version that skillhub.toml allows: show the plan, ask, then change; all or none.

    What a new version can do or needs, and the old one did not, is asked for by name. A new signer
    is refused. Without NAME, a skill is left as it is, and told (exit status 6), if its source has
    it no longer, or if the newer version is malformed, critical in the scan, or forbidden.
    `skillhub diff NAME` shows every line.

    Example: skillhub update --check
    """
    from skillhub.install.install import available_updates
    from skillhub.install.install import update as flow

    chosen = [*(names or []), *(skill or [])]
    if every and chosen:
        raise UsageError("--all is every skill that is locked; it goes with no name", hint="leave one of the two out")
    if check:
        outcome = available_updates(chosen, common.ports(scratch=True))
        show_changes(common, outcome)
        return BEHIND if outcome.skills or outcome.left or outcome.pending else 0
    options = options_of(common, agent, env, env_file, mcp, link, no_enable)
    options = replace(options, frozen=frozen, trusted=trusted_sources(trust_source))
    ports = common.ports(allow_unsigned=allow_unsigned)
    outcome = flow(chosen, options, replace(ports, plan=_planning(common)))
    return finish(common, outcome, options, "update", "updated")


def _planning(common: Common) -> Callable[[Mapping[str, Changes], Sequence[SourceChange]], None]:
    """Return what shows the plan to who is not asked; in the questions it stands anyway."""
    if common.json:
        return show_no_plan
    terminal, is_asked = common.terminal, common.asks and not (common.yes or common.dry_run)
    write = terminal.out if common.dry_run else terminal.say

    def show(plan: Mapping[str, Changes], sources: Sequence[SourceChange]) -> None:
        show_sources(sources, write)
        if not is_asked:
            show_plan(common, plan, write, _MOST)

    return show


# ``adopt``: brings skills that lie in agents' folders under the lock.


def adopt(
    common: Common,
    names: Annotated[list[str] | None, argument("[NAME]...", "Skills in agents' folders; else all of them.")] = None,
    into: Annotated[str, option("--into FOLDER", "Where the project keeps those that no origin has.")] = "skills",
    agent: Agents = None,
    env: Env = None,
    env_file: EnvFile = None,
    mcp: Mcp = "ask",
    link: Link = None,
    allow_unsigned: AllowUnsigned = False,
) -> int:
    """Bring skills that lie in agents' folders under the lock: compare with their origin, scan, ask, lock.

    The locks of other installers, and what gh skill wrote into a skill, say where it came from. What is there to the
    last byte is locked from there; the rest is copied to FOLDER, to be committed, and locked from there.

    Example: skillhub adopt
    """
    from skillhub.exchange.adopt import adopt as flow

    options = options_of(common, agent, env, env_file, mcp, link)
    outcome = flow(
        names or [], into.removeprefix("./").rstrip("/") or into, options, common.ports(allow_unsigned=allow_unsigned)
    )
    return finish(common, outcome, options, "adopt", "adopted")


COMMANDS: dict[str, Run] = {"update": update, "diff": diff, "patch": patch, "adopt": adopt}

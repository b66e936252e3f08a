"""Rendering of results and errors, as JSON or as lines; the terminal cleans every value."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from skillhub.answers import VERSION, error_json
from skillhub.cli.common import Common
from skillhub.cli.terminal import Terminal, Tone, how_to_parse
from skillhub.errors import Refused, SkillhubError, StateError, UsageError
from skillhub.formats.text import Quoted, as_command, collapsed, deferred, from_here, quote, word
from skillhub.model.finding import NO_PARSER, Finding, at_least
from skillhub.model.lock import Signer
from skillhub.model.question import chosen_edit, how_to_answer, refusal
from skillhub.model.reference import masked

if TYPE_CHECKING:
    from skillhub.command.ports import LeftOut, Options, Outcome, Ports
    from skillhub.model.provenance import Changes, SourceChange
    from skillhub.model.question import Question
    from skillhub.model.skill import Skill
    from skillhub.project.project import Project
    from skillhub.project.store import Store

# Verbs that imply the state, which is then not repeated.
_SAY_ALL = frozenset({"removed", "would remove", "disabled", "would disable", "enabled"})
# Questions that are shown even if a flag or a policy agreed to them.
_READ = frozenset({"finding", "mcp-unpinned", "mcp-conflict"})
# Skills that are unchanged, or that nobody was asked about; with more of them, the lines about others would be lost.
_LISTED = 10
_NAME_MAX = 120  # a name from another installer's lock can have megabytes
_NAMED = 5  # with more skills than this, a hint has a command that takes no names
# The skill and the places in a warning; the rest says of which kind it is.
_PARTICULAR = deferred(r"^\S+: |\S*[/\\]\S*")
_ABOUT_MAX = 240  # characters of a skill's description of a need
_LABELS: Mapping[str, str] = {"critical-finding": "no answer accepts it: "}


def _waiting(outcome: Outcome) -> list[Skill]:
    """Return the skills that an open need keeps disabled, without those that the user disabled."""
    waiting = (each for each in outcome.skills if each.state == "disabled" and each.name not in outcome.disabled)
    return [each for each in waiting if any(need.open for need in each.requires)]


def show_outcome(
    common: Common, outcome: Outcome, verb: str, done: str, reasons: Mapping[str, str] | None = None
) -> None:
    """Show the result for each skill: ``done`` such as "installed", or for a dry run "would" and the ``verb``.

    ``reasons`` says by name why a skill is disabled.

    Raises:
        Refused: it is a dry run with ``--yes``, and the flags leave a question open.
    """
    terminal, is_plan = common.terminal, common.dry_run
    error = refusal(outcome.asked) if is_plan and common.yes else None
    if common.json:
        if error is not None:
            raise error
        terminal.answer("install", outcome.to_json())
        return
    done, restored = (f"would {verb}", "would restore") if is_plan else (done, "restored")
    shown = _show_questions(outcome, common)
    _show_beside(outcome, "would leave out" if is_plan else "left out", terminal, shown)
    if error is not None:
        raise error
    if refusing := _refusing(outcome):
        found = f"no answer accepts the findings in {', '.join(refusing)}"
        terminal.warn(f"the whole command would be refused: {found}", "red")
        return
    left = {left.name for left in outcome.left_out}
    # If a skill changes, the others are shown as unchanged; if none does, one line says so for all.
    is_meant = is_plan and any(skill.name not in left | outcome.unchanged for skill in outcome.skills)
    is_busy = outcome.changed or outcome.pending or is_meant
    verbs = (done, restored, "unchanged") if is_busy else ("", "", "")
    _show_skills(outcome, terminal, verbs, reasons or {})
    _show_edits(common, outcome)
    if not (is_busy or outcome.left_out or _waiting(outcome) or (is_plan and outcome.asked)):
        _show_unchanged(common, outcome, verb, is_plan=is_plan)


def _show_skills(outcome: Outcome, terminal: Terminal, verbs: Sequence[str], reasons: Mapping[str, str]) -> None:
    """Show a row for each skill, with one of ``verbs``: it changed, its copies were put back, it was up to date."""
    done, restored, unchanged = verbs
    left = {left.name for left in outcome.left_out}
    enabled = {each.name for each in outcome.skills if each.name in outcome.unchanged and each.links}
    counted = enabled if len(enabled) > _LISTED and not terminal.verbose else set[str]()
    for skill in outcome.skills:
        if skill.name in counted:
            continue
        if skill.name in outcome.unchanged:
            did = unchanged
        elif skill.name in left:
            did = ""
        else:
            did = restored if skill.name in outcome.restored else done
        tone: Tone = "green" if skill.links or did == "enabled" else "yellow"
        terminal.did(_done(skill, did, reasons.get(skill.name, skill.state)), tone)
        if terminal.reports:
            for place in (*skill.links, *outcome.written.get(skill.name, ())):
                terminal.verbatim(f"  {from_here(place)}")  # a path may have blanks
    if counted:
        terminal.did(f"{len(counted):,} skills: {unchanged or 'enabled'}", "green")


def _show_unchanged(common: Common, outcome: Outcome, verb: str, *, is_plan: bool) -> None:
    if is_plan:
        common.terminal.say("nothing would change", "dim")
    elif verb == "sync" and not outcome.skills:
        common.say_nothing_locked(verb, ())
    elif verb == "adopt":
        common.terminal.say("nothing to adopt: no agent's folder has an unmanaged skill", "dim")
    elif verb == "sync" and outcome.warnings:
        common.terminal.say("nothing was changed", "dim")
    else:
        newest = ": no source offers a newer version that skillhub.toml allows" if verb == "update" else ""
        common.terminal.say(f"already up to date{newest}{_as_known(common) if newest else ''}", "dim")


def _as_known(common: Common) -> str:
    return "; with --offline no source was asked, each is as it last answered" if common.offline else ""


def _refusing(outcome: Outcome) -> list[str]:
    """Return the skills with findings that only a policy may accept; only a dry run gets this far with them."""
    return [question.skill for question, _ in outcome.asked if question.kind == "critical-finding"]


def _show_edits(common: Common, outcome: Outcome) -> None:
    """Show which edits made by hand were saved or merged."""
    ways = [(question.skill, chosen_edit(question, answer)) for question, answer in outcome.asked]
    copies = {each.name: each.links[0] for each in outcome.skills if each.links}
    for name, paths in outcome.saved.items():
        again = ""
        if name in copies:
            apply = as_command("patch", "-p1", "-d", from_here(copies[name]))
            patch = as_command(from_here(os.path.join(common.open_project().root, paths[0])))
            again = f"; to keep them: {apply} < {patch}"
        common.terminal.say(f"the edits of {name} are saved in {', '.join(paths)}{again}")
        if again:
            common.terminal.say(f"then: {common.command('patch', name)}")
    if common.dry_run and (names := ", ".join(name for name, way in ways if way == "save")):
        common.terminal.say(f"the edits of {names} would be saved in skillhub-edits/")
    for name, way in ways:
        if way == "merge":
            agree = f"to keep them as a patch: {common.command('patch', name)}"
            common.terminal.say(f"the edits of {name} are merged into the new version; {agree}")


def _show_questions(outcome: Outcome, common: Common) -> set[str]:
    """Show questions that no person was asked: of a dry run all, else those of ``_READ`` with a yes beforehand.

    Those that a dry run would ask are shown as they would be asked: beside a critical finding, none.

    Returns:
        The facts that the person has read with questions, spelled as warnings are.
    """
    is_plan, would = common.dry_run, "--yes does not answer: " if common.yes else "would ask: "
    unseen = {
        question: "agreed to beforehand: " if answer.said == "yes" else _LABELS.get(question.kind, would)
        for question, answer in outcome.asked
        if not answer.seen and (is_plan or (answer.said == "yes" and question.kind in _READ))
    }
    if unseen:
        from skillhub.cli.prompts import heads, in_person, show

        unshown = heads([*unseen])
        agreed = [question for question, answer in outcome.asked if answer.said == "yes"]
        opened = [question for question in unseen if question not in agreed]
        asked, _, gains = in_person([each for each in opened if each.kind == "critical-finding"] or opened)
        for question, label in unseen.items():
            if question in agreed or question in asked:
                show(question, unshown, common.terminal, label, gains)
        common.terminal.prose("")
    read = [question for question, answer in outcome.asked if answer.seen or is_plan]
    return {f"{each.skill}: {line.removeprefix('note: ')}" for each in read for line in each.details}


def _show_beside(outcome: Outcome, left_out: str, terminal: Terminal, shown: Collection[str] = ()) -> None:
    """Show the warnings that are not among ``shown``, and the skills that were left out."""
    warnings = [*terminal.once(each for each in outcome.warnings if each not in shown)]
    terminal.warn_each(_counted(warnings, terminal))
    show_left_out(outcome.left_out, terminal, left_out)


def show_left_out(skills: Iterable[LeftOut], terminal: Terminal, verb: str = "left out") -> None:
    """Show the skills that a command leaves out, and why."""
    for each in skills:
        name = word(each.name) if len(each.name) <= _NAME_MAX else quote(each.name)
        terminal.warn(f"{'unchanged' if each.code == 'edited' else verb} {name}: {each.message} [{each.code}]")


def _counted(warnings: Sequence[str], terminal: Terminal) -> Iterator[str]:
    """Yield the warnings; of many that differ only in skill and path, the first ones and the number of the others.

    With ``--quiet`` one of such many is shown, with ``--verbose`` each.
    """
    kinds = [_PARTICULAR.sub("", warning) for warning in warnings]
    counts, most = Counter(kinds), 1 if terminal.quiet else _LISTED
    passed: Counter[str] = Counter()
    for kind, warning in zip(kinds, warnings, strict=True):
        passed[kind] += 1
        is_many = counts[kind] > _LISTED and not terminal.verbose
        if not is_many or passed[kind] <= most:
            yield warning
        if is_many and passed[kind] == most:
            yield f"{counts[kind] - most:,} more of this kind, which --verbose lists"


def _done(skill: Skill, done: str, state: str) -> str:
    """Return what was done to a skill, if anything, with its name, version and state."""
    version = f" {skill.version}" if skill.version else ""
    done = "" if done == "enabled" != state else done
    shown = "" if done in _SAY_ALL else f": {state}"
    return f"{done} {skill.name}{version}{shown}".lstrip()


def show_changes(common: Common, outcome: Outcome) -> None:
    """Show the available updates and their changes."""
    terminal = common.terminal
    if common.json:
        terminal.answer("install", outcome.to_json())
        return
    show_sources(outcome.sources, terminal.out)
    _show_beside(outcome, "update would leave out", terminal)
    show_plan(common, {skill.name: outcome.changes[skill.name] for skill in outcome.skills}, terminal.out)
    if not outcome.skills:
        newest = "all skills are at the newest version that skillhub.toml allows"
        is_held = outcome.left_out or outcome.pending or outcome.warnings
        says = "there is no update that skillhub.toml allows" if is_held else newest
        terminal.say(f"{says}{_as_known(common)}", "dim")


def show_sources(sources: Sequence[SourceChange], write: Callable[[str, Tone], None]) -> None:
    """Show the changes of the lock's sources; the callers show them before changes of skills."""
    for each in sources:
        write(each.line, "yellow")


def show_plan(
    common: Common, plan: Mapping[str, Changes], write: Callable[[str, Tone], None], most: int | None = None
) -> None:
    """Show the findings and changes of each skill, with at most ``most`` files."""
    for name, changes in plan.items():
        old_entry, new_entry = changes.before, changes.after
        if not (old_entry.rev and new_entry.rev):  # trees on both sides, and no commit on one
            old_entry, new_entry = replace(old_entry, rev=None), replace(new_entry, rev=None)
        old, new = old_entry.version or old_entry.short, new_entry.version or new_entry.short
        if old == new:
            old, new = old_entry.short, new_entry.short
        voucher = changes.vouchers[1]
        signers = ", ".join(Signer.parse(each).named(voucher) for each in new_entry.signed_by)
        write(f"{name} {old} -> {new}, {f'signed by {signers}' if signers else 'not signed'}", "yellow")
        for finding in changes.findings or ():
            write(f"  the scan found {finding}", "red")
        for line in changes.lines(most, common.command("diff", name)):
            write(f"  {line}", "plain")


def _show_waiting(waiting: Sequence[Skill], outcome: Outcome, options: Options, common: Common) -> None:
    """Show the open needs of skills and what to type, without the needs that this command's flags answered."""
    from skillhub.install.need_questions import how_to_satisfy

    terminal = common.terminal
    stays = "would be stored and locked, and stay" if common.dry_run else "is stored and locked, and stays"
    for skill in waiting:
        answered, typed = _answered(skill, outcome, options)
        needs = [need for need in skill.requires if need.open and need.spell() not in answered]
        if not needs:  # of a skill that --no-enable keeps disabled
            continue
        terminal.warn(f"{skill.name} {stays} disabled; missing:")
        needs.sort(key=lambda need: need.kind != "program")  # without its programs, no other need is asked about
        then = f"then: {common.command('enable', skill.name)}{typed}"  # once, below the last of several needs
        for need in needs:
            terminal.warn(f"  {need.kind} {need.name}", "plain")
            if need.description:
                terminal.warn(Quoted(f"    {collapsed(need.description)[:_ABOUT_MAX]}"), "plain")
            ways = outcome.remedies.get((skill.name, need.spell()))
            for way in ways or how_to_satisfy(skill.name, need, skill.scope, typed):
                line = way
                if len(needs) > 1:
                    line = way.removesuffix(f", {then}")
                    if need.kind == "program":
                        line += " first: enable asks about the others after that"
                terminal.warn(f"    {line}", "dim")
        if len(needs) > 1:
            terminal.warn(f"  {then}", "dim")


def _answered(skill: Skill, outcome: Outcome, options: Options) -> tuple[set[str], str]:
    """Return the needs that the flags of this command answered, and the flag to type again with the next command."""
    answered = {need for name, need in outcome.supplied if name == skill.name}
    # A value that was given to this command is not kept: the next one needs it again.
    typed = "".join(f" --env {need.removeprefix('env:')}=…" for need in sorted(answered) if need.startswith("env:"))
    # A missing program, or --no-enable, keeps a skill disabled before its servers are configured.
    is_kept = not options.enable or any(need.open and need.kind == "program" for need in skill.requires)
    if options.mcp != "ask" and is_kept:
        servers = {need.spell() for need in skill.requires if need.open and need.kind == "mcp"}
        if options.mcp == "configure":
            servers -= {need for name, need in outcome.remedies if name == skill.name}
        if servers:
            typed += f" --mcp {options.mcp}"
        answered |= servers
    return answered, typed


def held_back(waiting: Collection[str], project: Project) -> dict[str, str]:
    """Return, by name, why each of these skills is disabled, without those that the user disabled."""
    from skillhub.project.copies import not_agreed

    records, unagreed = project.records(), not_agreed(project)
    held: dict[str, str] = {}
    for name in waiting:
        record = records.known(name)
        if name in unagreed:
            held[name] = "not agreed to"
        elif record is not None and record.disabled_by == "needs":
            held[name] = "needs open"
    return held


def finish(common: Common, outcome: Outcome, options: Options, verb: str, done: str) -> int:
    """Show the result for the skills, as ``show_outcome``, and the open needs; return the exit status.

    It is that of ``Refused`` if a skill was left out, or if an open need keeps a skill disabled that the command
    should enable (not with ``--accept needs``). A dry run returns 0.
    """
    show_outcome(common, outcome, verb, done)
    if _refusing(outcome):
        return 0
    terminal, dry_run = common.terminal, common.dry_run
    waiting = _waiting(outcome)
    _show_waiting(waiting, outcome, options, common)
    supplied = {need for skill, need in outcome.supplied if skill not in {each.name for each in waiting}}
    for kind, _, name in sorted(need.partition(":") for need in supplied):
        if kind == "env" and name not in os.environ and not dry_run:
            keep = common.command("env", "set", name)
            lasting = f"export it where your agent runs, or store it: {keep}"
            terminal.say(f"{name} was set for this command only; {lasting}")
    ready = [each.name for each in outcome.skills if each.state == "disabled" and each not in waiting]
    if ready and not options.enable:
        stay = "would stay disabled until" if dry_run else "to enable the disabled skills"
        terminal.say(f"{stay}: {to_enable(ready, outcome, common)}")
    is_open = options.enable and waiting and "needs" not in (common.accept or ())
    return Refused.exit_code if (is_open or outcome.left_out) and not dry_run else 0


def to_enable(names: Sequence[str], outcome: Outcome, common: Common, *flags: str) -> str:
    """Return the command that enables these skills of an outcome: by name, or all of the lock if they are many.

    ``install`` leaves disabled what the user disabled, so these are named, however many they are.
    """
    by_name = len(names) <= _NAMED or outcome.disabled.intersection(names)
    return common.command(*(("enable", *names) if by_name else ("install",)), *flags)


def remember_outcome(common: Common, outcome: Outcome, ports: Ports) -> None:
    """Remember that ``install`` or ``sync`` had nothing to do and to say, if files and the environment decided so.

    Known advisories, and a skill that every command has to check, decide anew each time.
    """
    from skillhub.command.state import read_state
    from skillhub.install.admission import SharedFacts, deciding_facts
    from skillhub.project import copies

    something = outcome.changed, outcome.pending, outcome.asked, outcome.warnings, outcome.left_out, outcome.supplied
    if common.idle is None or any(something):
        return
    with suppress(SkillhubError):  # of a file that the command did not need
        state, store, trees = read_state(ports.project, ports.sources), ports.store, dict[str, str]()
        shared = SharedFacts(ports)
        for name, entry in state.lock.skills.items():
            record = state.enabled(name)
            if record is None or entry.local or deciding_facts(name, shared, state, ports) is None:
                return
            places = copies.paths_of(ports.project, record.links)
            trees |= dict.fromkeys((*places, store.path(record.tree)), record.tree)
        if not ports.advisories.known():
            remember_idle(common, ports.project, store, trees)


def remember_idle(common: Common, project: Project, store: Store, trees: Mapping[str, str]) -> None:
    """Remember what the command wrote, until a file that decided so changes; ``trees`` has the folders of skills.

    A workspace has more files, and advisories of the user may come over the network.
    """
    if common.idle is None or Terminal.written is None or common.dry_run or not trees or store.proved.is_changed:
        return
    from skillhub.net.settings import Settings
    from skillhub.project.deciding_paths import deciding_paths

    with suppress(SkillhubError):
        if project.intent().members is None and not Settings.read(common.home).advisories:
            paths = deciding_paths(project, common.user_home, os.environ)
            common.idle.keep(store.proved, trees, paths, Terminal.written)


# Errors: to a person as lines on stderr, to a script as JSON on stdout.

CommandOf = Callable[[list[str]], tuple[str, frozenset[str]]]
_UNREACHED = ("cannot fetch it", "cannot reach the", "the server cannot be reached")
_REPORT = "this is a bug in skillhub; please report it at https://github.com/skillhub/skillhub/issues"


def fail(error: Exception, args: list[str], command_of: CommandOf) -> int:
    """Print ``error`` on stderr, and with ``--json`` also on stdout, and return the exit status.

    Args:
        error: The error that ended the command.
        args: The command line.
        command_of: Returns the command of a command line and its flags, some of which may answer a question.
    """
    terminal = Terminal()
    if not isinstance(error, SkillhubError):
        error = _bug(error)
    if not error.hint and error.message.startswith(_UNREACHED):
        error.hint = "check the address, the network and the settings of your proxy"
    asked = getattr(error, "asked", ())
    is_bare = isinstance(error, UsageError) and not error.hint
    name, flags = command_of(args) if asked or is_bare else ("", frozenset[str]())
    if name and is_bare:
        error.hint = f"{as_command('skillhub', *name.split())} --help shows its usage"
    if "--json" in (args[: args.index("--")] if "--" in args else args):
        terminal.json({"schema": VERSION, **error_json(error)})
    is_refused = any(answer.said == "no" for _, answer in asked)
    if not is_refused:  # a person who answered has read them
        show_left_out(getattr(error, "left_out", ()), terminal)
    terminal.error(error)
    skills = getattr(error, "skills", ())
    if len(skills) > 1:  # the error names a single one
        for each in skills:
            terminal.prose(f"{each['name']}: {masked(each['message'])}", 2)
    if not is_refused:
        unanswered = [question for question, answer in asked if answer.said == "unanswered"]
        _show_unanswered(error, unanswered, flags, terminal)
    return error.exit_code


def _show_unanswered(
    error: SkillhubError, unanswered: Sequence[Question], flags: frozenset[str], terminal: Terminal
) -> None:
    are_few = len([each for each in unanswered if each.row]) <= _LISTED
    for question in unanswered:
        # A person who was not asked must read the question before they agree by a flag.
        how = how_to_answer(question, flags)
        has_facts = question.kind in ("finding", "critical-finding", "local-edit", "uninstall")
        is_said = len(unanswered) == 1 and question.message in error.message and how in (error.hint or "")
        if has_facts or not is_said:
            chosen = f", which chooses {question.ways[0]}" if question.ways else ""
            terminal.prose(f"unanswered: {masked(question.message)} [{how}{chosen}]", 2)
        if has_facts:
            for line in question.details:
                terminal.prose(line, 4)
        elif question.row and are_few:
            terminal.prose(_in_short(question.row), 4)


def _in_short(row: Sequence[str]) -> str:
    """Return in one line what a person agrees to who agrees to the question with this row."""
    name, version, source, signer, capabilities, needs = map(masked, row)
    signed = signer if signer.startswith("unsigned") else f"signed by {signer}"
    needed = "nothing" if needs == "-" else needs
    return f"{name} {version} from {source}, {signed}; it can: {capabilities}; it needs: {needed}"


def _bug(error: Exception) -> SkillhubError:
    if isinstance(error, MemoryError):
        return StateError("there is not enough memory", hint="end other programs, or raise the limit (ulimit -v)")
    # Only the type of the error and the place in the code: its message may contain a secret.
    if os.environ.get("SKILLHUB_TRACEBACK"):
        import traceback

        for cause in _chain(error):
            sys.stderr.write(f"{type(cause).__name__} at\n")
            traceback.print_tb(cause.__traceback__, file=sys.stderr)
    message = f"unexpected {type(error).__name__}; {_REPORT}"
    found = SkillhubError(message, hint="SKILLHUB_TRACEBACK=1 shows where it happened")
    found.__cause__ = error
    return found


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and its causes, the first cause first."""
    if error is not None:
        yield from _chain(error.__cause__ or error.__context__)
        yield error


_MANY = 3  # findings of one rule that are shown as a line each
_TONES: dict[str, Tone] = {"critical": "red", "high": "red", "medium": "yellow", "low": "dim"}


def show_findings(findings: Iterable[Finding], terminal: Terminal, indent: str = "") -> None:
    """Show findings and hints; without ``--verbose``, many of one rule in one skill below high are one line.

    So are those of all skills that say that skillhub lacks a parser.
    """
    groups: dict[object, list[Finding]] = {}
    for each in findings:
        stays = terminal.verbose or at_least(each.severity, "high")
        alike = (NO_PARSER if each.is_about_parsers else each.skill), each.rule, each.rank
        groups.setdefault(each if stays else alike, []).append(each)
    for group in groups.values():
        rest = group[1:] if len(group) > _MANY or group[0].is_about_parsers else []
        more = f"; and {len(rest)} more, which --verbose lists" if rest else ""
        for each in group[: 1 if rest else _MANY]:
            terminal.out(f"{indent}{each}{more}", "dim" if each.accepted else _TONES[each.severity])
            terminal.hint(f"{indent}    {how_to_parse() if each.is_about_parsers else each.hint}")

"""From what flows return to what is shown; every value goes through the terminal, which cleans it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from skillhub.cli.failure import question_json
from skillhub.cli.terminal import Terminal
from skillhub.errors import Refused
from skillhub.model.question import way_of
from skillhub.model.skill import Skill

if TYPE_CHECKING:
    from skillhub.flows.outcome import Outcome


def outcome_json(outcome: Outcome) -> dict[str, Any]:
    """Return what install, update and sync print with ``--json``."""
    return {
        "skills": [
            {
                **skill.to_json(),
                **(outcome.changes[skill.name].to_json() if skill.name in outcome.changes else {}),
            }
            for skill in outcome.skills
        ],
        "changed": outcome.changed,
        "questions": [question_json(question, answer) for question, answer in outcome.asked],
        "refused": [{"name": e.name, "code": e.code, "message": e.message} for e in outcome.left],
        "warnings": list(outcome.warnings),
    }


def waiting(outcome: Outcome) -> list[Skill]:
    """Return the skills that an open need keeps disabled."""
    return [
        skill
        for skill in outcome.skills
        if skill.state == "disabled" and any(need.open for need in skill.requires)
    ]


def show_outcome(outcome: Outcome, done: str, terminal: Terminal, *, as_json: bool) -> None:
    """Show what became of each skill."""
    if as_json:
        terminal.json(outcome_json(outcome))
        return
    for warning in outcome.warnings:
        terminal.say(f"warning: {warning}", "yellow")
    for left in outcome.left:
        terminal.say(f"left out {left.name}: {left.message} [{left.code}]", "yellow")
    for skill in outcome.skills:
        version = f" {skill.version}" if skill.version else ""
        state = "" if done in ("removed", "would remove") else f": {skill.state}"
        terminal.out(f"{done} {skill.name}{version}{state}", "green" if skill.links else "yellow")
        for link in skill.links:
            terminal.out(f"  {link}")
    if any(way_of(question, answer) == "save" for question, answer in outcome.asked):
        terminal.say("what was edited by hand is kept in skillhub-edits/")
    for question, answer in outcome.asked:
        if way_of(question, answer) == "merge":
            terminal.say(
                f"the edits of {question.skill} are in what is new; to agree to them: skillhub patch {question.skill}"
            )
    if not (outcome.changed or outcome.left or done.startswith("would ") or waiting(outcome)):
        terminal.say("nothing had to be done", "dim")


def show_changes(outcome: Outcome, terminal: Terminal, *, as_json: bool) -> None:
    """Show what is newer than what is locked, and what it would change."""
    if as_json:
        terminal.json(outcome_json(outcome))
        return
    for warning in outcome.warnings:
        terminal.say(f"warning: {warning}", "yellow")
    for skill in outcome.skills:
        changes = outcome.changes[skill.name]
        was, is_now = changes.before, changes.after
        terminal.out(f"{skill.name} {was.version or was.short} -> {is_now.version or is_now.short}", "yellow")
        for line in changes.lines():
            terminal.out(f"  {line}")
    if not outcome.skills:
        terminal.say("everything is as new as the intent allows", "dim")


def show_waiting(skills: Iterable[Skill], given: Collection[tuple[str, str]], terminal: Terminal) -> None:
    """Say which needs are open and what to type; what was ``given`` just now is not asked for again."""
    from skillhub.flows.needs import how_to_meet

    for skill in skills:
        terminal.say(f"{skill.name} is stored and locked, and stays disabled; missing:", "yellow")
        for need in skill.requires:
            if need.open and (skill.name, need.spell()) not in given:
                about = f" ({need.description})" if need.description else ""
                terminal.say(f"  {need.kind} {need.name}{about}")
                terminal.say(f"    {how_to_meet(skill.name, need)}", "dim")


def skills_table(skills: Sequence[Skill], terminal: Terminal) -> None:
    """Show skills as rows."""
    rows = [
        (
            skill.name,
            skill.version or "-",
            skill.source or "(unmanaged)",
            skill.state,
            (skill.signed_by[0].identity if skill.signed_by else "unsigned")
            + (", patched" if skill.patch else ""),
            skill.description,
        )
        for skill in skills
    ]
    terminal.table(("NAME", "VERSION", "SOURCE", "STATE", "SIGNED BY", "DESCRIPTION"), rows)


def ended(outcome: Outcome, terminal: Terminal) -> int:
    """Return the exit status of an outcome: refused, if a need keeps one of its skills disabled."""
    held = waiting(outcome)
    show_waiting(held, outcome.given, terminal)
    return Refused.exit_code if held or outcome.left else 0

"""Shows errors: to a person as lines on stderr, to a script as JSON on stdout."""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Iterator
from typing import Any

from skillhub.answers import VERSION
from skillhub.cli.table import COMMANDS
from skillhub.cli.terminal import Terminal, members
from skillhub.errors import SkillhubError, StateError, UsageError
from skillhub.model.question import Answer, Question, how_to_answer
from skillhub.model.reference import all_masked, masked

_REPORT = "this is a bug in skillhub; please report it at https://github.com/skillhub/skillhub/issues"


def fail(error: Exception, args: list[str]) -> int:
    """Tell of ``error`` on stderr, and with ``--json`` on stdout, and return the exit status."""
    terminal = Terminal()
    if not isinstance(error, SkillhubError):
        error = _usage_of_typer(error, args) or _of_machine(error) or _bug(error)
    if "--json" in (args[: args.index("--")] if "--" in args else args):
        terminal.json({"schema": VERSION, **error_json(error)})
    terminal.error(error)
    skills = getattr(error, "skills", ())
    for each in skills if len(skills) > 1 else ():  # of a single one the error tells
        terminal.prose(f"{each['name']}: {masked(each['message'])}", 2)
    asked = getattr(error, "asked", ())
    for question, answer in asked if all(answer.said != "no" for _, answer in asked) else ():
        # Who was asked has seen it; who was not is to read it before they agree by a flag.
        if answer.said == "unanswered":
            terminal.prose(f"unanswered: {masked(question.message)} [{how_to_answer(question)}]", 2)
            is_finding = question.kind in ("finding", "critical-finding")
            for line in question.details if is_finding else ():
                terminal.prose(line, 4)
    return error.exit_code


def error_json(error: SkillhubError) -> dict[str, Any]:
    """Return the error of the contract, with the questions that were open."""
    body = members(error, "code", "message", "where", "hint")
    body |= {name: masked(text) for name, text in body.items() if text}
    if reason := getattr(error, "reason", None):
        body["reason"] = masked(reason)
    if skills := getattr(error, "skills", ()):
        body["skills"] = [all_masked(dict(each)) for each in skills]
    asked = getattr(error, "asked", ())
    return {"error": body, "questions": [question_json(question, answer) for question, answer in asked]}


def question_json(question: Question, answer: Answer) -> dict[str, Any]:
    """Return the QUESTION of the contract; the value of an answer is a secret and not in it."""
    return {**all_masked(members(question, "kind", "skill", "message", "details")), "answer": answer.said}


_UNKNOWN = re.compile(
    r"(No such (?:command '?|option: )(.*?)'?)(?:\. Did you mean '([^']*)'.*| \(Possible options: .*)?", re.DOTALL
)
# What other installers call it: the nearest spelling of `uninstall` is `install`.
_ELSEWHERE = {
    **dict.fromkeys(("add", "i"), "install"),
    **dict.fromkeys(("uninstall", "rm", "delete"), "remove"),
    **dict.fromkeys(("upgrade", "outdated"), "update"),
    **dict.fromkeys(("info", "view"), "show"),
    **dict.fromkeys(("status", "check"), "verify"),
    **dict.fromkeys(("init", "create"), "new"),
    **{"ls": "list", "find": "search", "help": "--help", "version": "--version"},
}


def _usage_of_typer(error: Exception, args: list[str]) -> SkillhubError | None:
    """Return an error of the command line's parser as one of ours; it quotes what was typed, which we clean."""
    if not callable(getattr(error, "format_message", None)):
        return None
    context = getattr(error, "ctx", None)
    program = getattr(
        context, "command_path", " ".join(["skillhub", *(each for each in args[:1] if each in COMMANDS)])
    )
    if type(error).__name__ == "NoArgsIsHelpError":
        return UsageError(f"expected a command after {program}", hint=f"{program} --help lists them")
    message = str(error.format_message()).strip().rstrip(".")  # type: ignore[attr-defined]
    hint = f"{program} --help shows how it is used"
    if found := _UNKNOWN.fullmatch(message):
        message, hint = found[1], f"{program} --help shows which there are"
        elsewhere = _ELSEWHERE.get(found[2]) if program == "skillhub" else None
        # What the parser names first is the nearest; in its message it sorts options.
        if meant := elsewhere or next(iter(getattr(error, "possibilities", None) or ()), found[3]):
            hint = f"did you mean: {program} {meant}"
        elif program == "skillhub" and found[2].startswith("-"):
            hint = "options of a command stand behind it: skillhub COMMAND --help shows them"
    return UsageError(message[:1].lower() + message[1:], hint=hint)


def _of_machine(error: Exception) -> SkillhubError | None:
    if not isinstance(error, MemoryError):
        return None
    return StateError("there is not enough memory", hint="end other programs, or raise the limit (ulimit -v)")


def _bug(error: Exception) -> SkillhubError:
    # The type alone, and where: a message may hold anything, a secret among it.
    if os.environ.get("SKILLHUB_TRACEBACK"):
        for cause in _chain(error):
            sys.stderr.write(f"{type(cause).__name__} at\n")
            traceback.print_tb(cause.__traceback__, file=sys.stderr)
    found = SkillhubError(
        f"unexpected {type(error).__name__}; {_REPORT}", hint="SKILLHUB_TRACEBACK=1 shows where it happened"
    )
    found.__cause__ = error
    return found


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and what led to it, the first cause first."""
    if error is not None:
        yield from _chain(error.__cause__ or error.__context__)
        yield error

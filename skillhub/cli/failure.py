"""From an error to what a person, or a script, is told of it."""

from __future__ import annotations

import json
import os
import sys
import traceback
from typing import Any

from skillhub.cli.terminal import Terminal
from skillhub.errors import SkillhubError
from skillhub.model.question import Answer, Question


def fail(error: Exception, args: list[str], report: str) -> int:
    """Tell of ``error`` on stderr, and with ``--json`` on stdout, and return the exit status."""
    if status := _usage_of_typer(error, args):
        return status
    wants_json = "--json" in args[: args.index("--")] if "--" in args else "--json" in args
    if not isinstance(error, SkillhubError):
        error = _bug(error, report)
    if wants_json:
        sys.stdout.write(json.dumps(error_json(error), indent=2) + "\n")
    Terminal().error(error)
    return error.exit_code


def error_json(error: SkillhubError) -> dict[str, Any]:
    """Return the error of the contract, with the questions that were open."""
    body = {"code": error.code, "message": error.message, "where": error.where, "hint": error.hint}
    if reason := getattr(error, "reason", None):
        body["reason"] = reason
    asked = getattr(error, "asked", ())
    return {"error": body, "questions": [question_json(question, answer) for question, answer in asked]}


def question_json(question: Question, answer: Answer) -> dict[str, Any]:
    """Return the QUESTION of the contract; the value of an answer is a secret and not in it."""
    return {
        "kind": question.kind,
        "skill": question.skill,
        "message": question.message,
        "details": list(question.details),
        "answer": answer.said,
    }


def _usage_of_typer(error: Exception, args: list[str]) -> int | None:
    """Show a usage error of the parser as it would itself, and as JSON where that is wanted."""
    show, status = getattr(error, "show", None), getattr(error, "exit_code", None)
    if not callable(show) or not isinstance(status, int):
        return None
    if "--json" in args:
        message = getattr(error, "message", str(error))
        body = {"code": "usage", "message": message, "where": None, "hint": "see --help"}
        sys.stdout.write(json.dumps({"error": body, "questions": []}, indent=2) + "\n")
    show()
    return status


def _bug(error: Exception, report: str) -> SkillhubError:
    if os.environ.get("SKILLHUB_TRACEBACK"):
        traceback.print_exception(error, file=sys.stderr)
    # The type alone: a message may hold anything, a secret among it.
    found = SkillhubError(
        f"unexpected {type(error).__name__}; {report}", hint="SKILLHUB_TRACEBACK=1 shows where it happened"
    )
    found.__cause__ = error
    return found

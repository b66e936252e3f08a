"""The answers of commands with ``--json`` and of the HTTP API: one class each, and the form of every error."""

from __future__ import annotations

from typing import Any

from skillhub.errors import SkillhubError
from skillhub.formats.json import members
from skillhub.model.reference import all_masked, masked

VERSION = 1  # the value of ``schema`` in each answer: the version of the form of all answers


def error_json(error: SkillhubError) -> dict[str, Any]:
    """Return the JSON of an error, with its questions."""
    body: dict[str, Any] = {"code": error.code, "message": error.message, "where": error.where, "hint": error.hint}
    body |= {name: masked(text) for name, text in body.items() if text}
    if reason := getattr(error, "reason", None):
        body["reason"] = masked(reason)
    if skills := getattr(error, "skills", ()):
        body["skills"] = [all_masked(dict(each)) for each in skills]
    questions = [question.to_json(answer) for question, answer in getattr(error, "asked", ())]
    refused = [all_masked(members(each, "name", "code", "message")) for each in getattr(error, "left_out", ())]
    return {"error": body, "questions": questions, **({"refused": refused} if refused else {})}

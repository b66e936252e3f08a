"""The answer of each command as the class has it that ``--json`` promises, and the JSON Schemas of these classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel

from skillhub.answers import VERSION, setup
from skillhub.answers.skills import CLASSES, JsonAnswer
from skillhub.model.lock import LockFile
from skillhub.policy.file import PolicyFile
from skillhub.project.intent import IntentFile

__all__ = ["ANSWERS", "DIALECT", "DOCUMENTS", "answer", "schema_of", "setup"]

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
# What the TOML of an intent or a policy holds is described as the JSON of the same shape.
DOCUMENTS: Final[Mapping[str, type[BaseModel]]] = {"intent": IntentFile, "lock": LockFile, "policy": PolicyFile}
ANSWERS: Final[Mapping[str, type[JsonAnswer]]] = dict(sorted(CLASSES.items()))  # those of `setup` too


def answer(command: str, value: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a command prints, with the version of its form, as the class of its answer has it."""
    found = ANSWERS[command].model_validate({"schema": VERSION, **value})
    return found.model_dump(by_alias=True, exclude_unset=True)


def schema_of(name: str) -> dict[str, Any]:
    """Return the JSON Schema of a document, or of what a command answers.

    Raises:
        KeyError: there is none of that name.
    """
    found = DOCUMENTS.get(name) or ANSWERS[name]
    return {"$schema": DIALECT, **found.model_json_schema()}

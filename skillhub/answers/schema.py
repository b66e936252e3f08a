"""The JSON Schemas of the documents that skillhub writes, and of what its commands answer, made of their classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel

from skillhub.answers.table import ANSWERS
from skillhub.model.lock import LockFile
from skillhub.policy.file import PolicyFile
from skillhub.project.intent import IntentFile

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
# What the TOML of an intent or a policy holds is described as the JSON of the same shape.
DOCUMENTS: Final[Mapping[str, type[BaseModel]]] = {"intent": IntentFile, "lock": LockFile, "policy": PolicyFile}


def schema_of(name: str) -> dict[str, Any]:
    """Return the JSON Schema of a document, or of what a command answers.

    Raises:
        KeyError: there is none of that name.
    """
    found = DOCUMENTS.get(name) or ANSWERS[name]
    return {"$schema": DIALECT, **found.model_json_schema()}

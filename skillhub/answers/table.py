"""The class of each document and of each command's answer, and the JSON Schemas of these classes."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

from pydantic import BaseModel

from skillhub.answers import reading, setup
from skillhub.answers.skills import CLASSES, JsonAnswer
from skillhub.formats.text import packaged

__all__ = ["ANSWERS", "DIALECT", "DOCUMENTS", "reading", "schema_of", "setup"]

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
# The class of every document that is read or written, imported when its schema is requested. The schema of a document
# in TOML or YAML describes JSON of the same structure.
DOCUMENTS: Final[Mapping[str, str]] = packaged("answers/documents.json")
ANSWERS: Final[Mapping[str, type[JsonAnswer]]] = dict(sorted(CLASSES.items()))  # those of `reading` and `setup` too


def schema_of(name: str) -> dict[str, Any]:
    """Return the JSON Schema of a document or of a command's answer.

    Raises:
        KeyError: there is no document and no command of that name.
    """
    module, _, kind = DOCUMENTS.get(name, "").rpartition(".")
    found: type[BaseModel] = getattr(import_module(module), kind) if module else ANSWERS[name]
    return {"$schema": DIALECT, **found.model_json_schema()}

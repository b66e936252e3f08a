"""Which class each document and the answer of each command has, and the JSON Schemas of these classes."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

from pydantic import BaseModel

from skillhub.answers import reading, setup
from skillhub.answers.skills import CLASSES, JsonAnswer

__all__ = ["ANSWERS", "DIALECT", "DOCUMENTS", "reading", "schema_of", "setup"]

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
# Every document that is read or written, and the class that does it, imported when its schema is asked for. What the
# TOML or YAML of one holds is described as the JSON of the same shape.
with open(os.path.join(os.path.dirname(__file__), "documents.json"), encoding="utf-8") as _file:
    DOCUMENTS: Final[Mapping[str, str]] = json.load(_file)
ANSWERS: Final[Mapping[str, type[JsonAnswer]]] = dict(sorted(CLASSES.items()))  # those of `reading` and `setup` too


def schema_of(name: str) -> dict[str, Any]:
    """Return the JSON Schema of a document, or of what a command answers.

    Raises:
        KeyError: there is none of that name.
    """
    module, _, kind = DOCUMENTS.get(name, "").rpartition(".")
    found: type[BaseModel] = getattr(import_module(module), kind) if module else ANSWERS[name]
    return {"$schema": DIALECT, **found.model_json_schema()}

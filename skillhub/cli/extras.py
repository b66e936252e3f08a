"""Imports the parts of skillhub that come with extras, when they are asked for."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from skillhub.errors import UsageError, extra


def optional(module: str, name: str, what: str) -> ModuleType:
    """Return a module that the extra ``name`` brings; ``what`` begins the sentence that says it is not there.

    Raises:
        UsageError: the extra is not installed.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("skillhub"):  # ours are always there
            raise
        raise UsageError(f"{what} a part of skillhub that is not installed", hint=extra(name)) from error

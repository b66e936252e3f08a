"""Finds, verifies and installs agent skills, and loads them for agents.

``open_project`` opens a project, in which skills are installed, listed, verified and audited. ``skillhub.runtime`` is
the library with which an agent loads skills. Each name is imported at its first use, so that an agent that loads a
skill imports no network and no cryptography library.
"""

from __future__ import annotations

__version__ = "0.1.0"

# The module that defines each public name.
_HOMES = {
    name: f"skillhub.{module}"
    for module, names in {
        "answers.reading": "AuditAnswer CatalogAnswer LoadAnswer SearchAnswer ShowAnswer",
        "answers.skills": "ListAnswer OutcomeAnswer VerifyAnswer",
        "api": "OpenProject open_project",
        "command.ports": "Options",
        "errors": "FormatError Refused SecurityError SkillhubError SourceError StateError UsageError",
        "formats.digest": "Digest",
        "model.question": "Answer Question",
        "model.tree": "Tree",
    }.items()
    for name in names.split()
}
TYPE_CHECKING = False  # type checkers know this name; the import of `typing` takes a third of `skillhub --version`
__all__ = [
    "Answer",
    "AuditAnswer",
    "CatalogAnswer",
    "Digest",
    "FormatError",
    "ListAnswer",
    "LoadAnswer",
    "OpenProject",
    "Options",
    "OutcomeAnswer",
    "Question",
    "Refused",
    "SearchAnswer",
    "SecurityError",
    "ShowAnswer",
    "SkillhubError",
    "SourceError",
    "StateError",
    "Tree",
    "UsageError",
    "VerifyAnswer",
    "__version__",
    "open_project",
]

if TYPE_CHECKING:
    from skillhub.answers.reading import AuditAnswer, CatalogAnswer, LoadAnswer, SearchAnswer, ShowAnswer
    from skillhub.answers.skills import ListAnswer, OutcomeAnswer, VerifyAnswer
    from skillhub.api import OpenProject, open_project
    from skillhub.command.ports import Options
    from skillhub.errors import (
        FormatError,
        Refused,
        SecurityError,
        SkillhubError,
        SourceError,
        StateError,
        UsageError,
    )
    from skillhub.formats.digest import Digest
    from skillhub.model.question import Answer, Question
    from skillhub.model.tree import Tree


def __getattr__(name: str) -> object:
    # PEP 562: the import of all modules at once would triple the start-up of `skillhub --version`.
    if name not in _HOMES:
        raise AttributeError(f"module 'skillhub' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    # So that `help(skillhub)` shows the names that are not imported yet.
    return sorted({*globals(), *__all__})

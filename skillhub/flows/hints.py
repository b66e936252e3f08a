"""What a hint has a person type: a command for the scope that they are in, each word as a shell takes it for one."""

from __future__ import annotations

from collections.abc import Iterable

from skillhub.model.skill import SkillScope, typed_flags
from skillhub.model.text import as_command


def command(scope: SkillScope, *words: str) -> str:
    """Return a command of skillhub's about this scope."""
    return as_command("skillhub", *words, *typed_flags(scope))


def reinstall(scope: SkillScope, name: str, words: Iterable[str]) -> str:
    """Return what to type to have the skill that these words ask for in place of the one that is installed."""
    return f"{command(scope, 'remove', name)}, then {command(scope, 'install', *words)}"

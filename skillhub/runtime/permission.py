"""Says what an agent may load without asking: by rules on names, and by what the user answered before.

Of all rules that match, a deny counts more than an allow, and an allow more than an ask.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, Literal

from skillhub.model.skill import Skill

Action = Literal["allow", "ask", "deny"]
ACTIONS: Final[tuple[Action, ...]] = ("deny", "allow", "ask")


@dataclass(frozen=True, slots=True)
class Rule:
    """``pattern`` is a name, full or not; ``*`` in it stands for any text, ``?`` for one character."""

    pattern: str
    action: Action


def permitted(
    skill: Skill,
    rules: Iterable[Rule],
    answers: Mapping[str, bool] | None = None,
    otherwise: Action = "allow",
) -> Action:
    """Return what the rules say of a skill.

    Args:
        skill: A rule matches it by its name or its full name.
        rules: In any order.
        answers: By full name, what the user answered when asked and wants to be remembered; a deny of the
            rules stays one.
        otherwise: What holds if no rule matches.
    """
    said = {rule.action for rule in rules if _matches(rule.pattern, skill.name, skill.full_name)}
    action = next((action for action in ACTIONS if action in said), otherwise)
    if action == "ask" and answers and skill.full_name in answers:
        return "allow" if answers[skill.full_name] else "deny"
    return action


def _matches(pattern: str, *names: str) -> bool:
    plain = pattern.replace(
        "[", "[[]"
    )  # which begins a set of characters in a shell's patterns, and not in these
    return any(fnmatchcase(name, plain) for name in names)

"""What an agent may load without being asked: rules by name, and what the user answered before.

Of all rules that match, a deny counts more than an allow, and an allow more than an ask.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final, Literal

from skillhub.model.dataclass import dataclass
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
    return any(_compiled(pattern).fullmatch(name) for name in names)


@lru_cache(256)
def _compiled(pattern: str) -> re.Pattern[str]:
    # Each star takes as little as it can and gives nothing back: linear time for any pattern.
    first, *rest = (
        "".join("." if char == "?" else re.escape(char) for char in part) for part in pattern.split("*")
    )
    if not rest:
        return re.compile(first, re.DOTALL)
    *middle, last = rest
    return re.compile(first + "".join(f"(?>.*?{part})" for part in middle) + f".*{last}", re.DOTALL)

"""What policies come to together, for a person: every line with its place, and the strictest of each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from skillhub.model.finding import SEVERITIES
from skillhub.model.policy import Level, Policies, Policy, spell

_UNION = ("deny-capabilities", "allow-findings", "agree", "trusted-sources")
_EACH = ("sources", "publishers", "capabilities")


class Row(NamedTuple):
    """One line of a policy; one that a stricter line outdoes is not ``in_force``."""

    level: Level
    key: str
    value: Any
    where: str
    in_force: bool

    @property
    def text(self) -> str:
        """The line as it is written, cut short if it is very long."""
        return spell(self.key, self.value)


def rows(policies: Policies) -> Iterator[Row]:
    """Yield every line, the machine's first."""
    strictest = effective(policies)
    for policy in policies.each:
        for key, value in policy.rules():
            is_weaker = key in ("signed", "min-age-days") and value != strictest[key]
            is_outdone = key == "fail-on" and any(_refuses_more(each, policy) for each in policies.each)
            yield Row(policy.level, key, value, policy.where(key), not (is_weaker or is_outdone))


def _refuses_more(one: Policy, other: Policy) -> bool:
    """Say whether ``one`` refuses every finding that ``other`` does, its exceptions among them, and lesser ones."""
    ranks = [SEVERITIES.index(each.fail_on or "critical") for each in (one, other)]
    return ranks[0] < ranks[1] and set(one.allow_findings or ()) <= set(other.allow_findings or ())


def effective(policies: Policies) -> dict[str, Any]:
    """Return what holds, by key; where lists cannot be made one, the list of them: each has to permit."""
    said: dict[str, list[Any]] = {}
    for policy in policies.each:
        for key, value in policy.rules():
            said.setdefault(key, []).append(value)
    return {key: _together(key, values) for key, values in said.items()}


def _together(key: str, values: list[Any]) -> object:
    if key == "signed":
        return "required" if "required" in values else "ask"
    if key == "fail-on":
        return min(values, key=SEVERITIES.index)
    if key == "min-age-days":
        return max(values)
    if key in _EACH:
        return [list(value) for value in values]
    if key in _UNION:
        return sorted({each for value in values for each in value})
    return sorted(set(values[0]).intersection(*values[1:]))

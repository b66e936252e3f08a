"""What may be installed here: policies of which every one has to permit a skill, and the strictest of each line."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple, TypeVar

from skillhub.errors import Forbidden
from skillhub.formats import text as times
from skillhub.formats.digest import Digest
from skillhub.formats.text import quote
from skillhub.model.finding import SEVERITIES, Finding, Severity, at_least
from skillhub.model.lock import Signer
from skillhub.model.question import BEFOREHAND, Kind
from skillhub.model.reference import is_under
from skillhub.policy.patterns import pattern

# What may be installed here: the policies of machine, user and project, of which every one has to permit a
# skill.
# So none of them can loosen another. Each rule is one line of one file, and a refusal names it.

Level = Literal["machine", "user", "project"]
Signed = Literal["ask", "required"]
_T = TypeVar("_T")
_SHOWN = 80
_HINT = "skillhub doctor policy shows every line that is in force, and where it stands"
# The questions that a file may agree to beforehand.
AGREEABLE = tuple(kind for kind, beforehand in BEFOREHAND.items() if beforehand.policy)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """One file; what it does not speak of is None, and is permitted.

    Attributes:
        sources: Roots of registries, and URLs that everything has to come from or from below.
        publishers: Those who may sign: names under which the user trusts them, fingerprints, ``<root>/<name>``.
        fail_on: Findings as grave as this refuse a skill, unless this file has their rule in ``allow_findings``.
        min_age_days: How long a skill has to have been out.
        capabilities: Patterns; what a skill can do has to fit one of them.
        deny_capabilities: Patterns; what a skill can do may fit none of them.
        agents: Ids of the agents that may have skills.
        allow_findings: Rules of the scan that need nobody's yes any more.
        agree: Questions that need nobody's yes any more.
        trusted_sources: Roots of registries that projects may propose, each alone or as ``NAME=sha256:…``.
        lines: Key to the line that it stands on.
    """

    level: Level
    path: str
    sources: tuple[str, ...] | None = None
    publishers: tuple[str, ...] | None = None
    signed: Signed | None = None
    fail_on: Severity | None = None
    min_age_days: int | None = None
    capabilities: tuple[str, ...] | None = None
    deny_capabilities: tuple[str, ...] | None = None
    agents: tuple[str, ...] | None = None
    allow_findings: tuple[str, ...] | None = None
    agree: tuple[Kind, ...] | None = None
    trusted_sources: tuple[str, ...] | None = None
    lines: Mapping[str, int] = field(default_factory=dict, compare=False)

    def where(self, key: str) -> str:
        """Return the file and the line of a key, as far as that is known."""
        return f"{self.path}:{self.lines[key]}" if key in self.lines else self.path

    def rules(self) -> Iterator[tuple[str, Any]]:
        """Yield each key that is there, as it is written, with its value."""
        for key in KEYS:
            value = getattr(self, key.replace("-", "_"))
            if value is not None:
                yield key, value


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What policies judge.

    Attributes:
        root: Of the registry that it is from, if from one.
        urls: Every place that it comes from; a repository may send one on to another.
        vouched: Whether the registry of this root says that the signer has this name.
        known_as: The names under which this user trusts the signer.
        can: Its capabilities.
        age: How long it has been out; None if nobody knows.
    """

    name: str
    root: Digest | None = None
    urls: tuple[str, ...] = ()
    signer: Signer | None = None
    vouched: bool = False
    known_as: frozenset[str] = frozenset()
    can: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    age: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Objection:
    """Why a line of a policy forbids something, and where it stands."""

    key: str
    message: str
    where: str

    @property
    def error(self) -> Forbidden:
        """The refusal that it makes."""
        return Forbidden(self.message, where=self.where, hint=_HINT)


@dataclass(frozen=True, slots=True)
class Policies:
    """All that are in force, the machine's first."""

    each: Collection[Policy] = ()

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self.each)

    def objections(self, subject: Subject, keys: Collection[str]) -> Iterator[Objection]:
        """Yield what speaks against a skill or a source by the lines of these keys."""
        for policy in self.each:
            for key, value in policy.rules():
                if key in keys and (found := _OBJECTIONS[key](policy, subject)) is not None:
                    yield _objection(policy, key, value, found)

    def refuse(self, subject: Subject, keys: Collection[str]) -> None:
        """Refuse what they forbid by a line of these keys.

        Raises:
            Forbidden: the first such line.
        """
        for objection in self.objections(subject, keys):
            raise objection.error

    def against_agent(self, id_: str) -> Objection | None:
        """Return why an agent may have no skill, or None."""
        for policy in self.each:
            if policy.agents is not None and id_ not in policy.agents:
                return _objection(policy, "agents", policy.agents, f"{id_} is no agent that may have skills")
        return None

    def agrees(self, kind: Kind) -> bool:
        """Say whether a question of this kind is answered yes beforehand; of others no file is asked."""
        return kind in AGREEABLE and any(kind in (policy.agree or ()) for policy in self.each)

    def trusts_source(self, alias: str, root: Digest) -> bool:
        """Say whether a registry that a project proposes by this alias and root needs nobody's yes any more."""
        said = {root, f"{alias}={root}"}
        return any(said.intersection(policy.trusted_sources or ()) for policy in self.each)

    def allows_finding(self, rule: str) -> bool:
        """Say whether what this rule of the scan sees needs nobody's yes any more."""
        return any(rule in (policy.allow_findings or ()) for policy in self.each)

    @property
    def min_age(self) -> timedelta | None:
        """The longest that any of them wants a skill to have been out; None if none says."""
        days = [policy.min_age_days for policy in self.each if policy.min_age_days is not None]
        return timedelta(days=max(days)) if days else None

    def settled(self, now: datetime) -> str | None:
        """Return the time, as ``published`` spells it, by which a release has to be out; None if any will do."""
        return None if self.min_age is None else times.spell(now - self.min_age)


def spell(key: str, value: object) -> str:
    """Return a line of a policy, cut short if it is very long."""
    text = _toml(value)
    return f"{key} = {text if len(text) <= _SHOWN else text[:_SHOWN] + '…'}"


def _toml(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return str(value) if isinstance(value, int) else f'"{value}"'


def _objection(policy: Policy, key: str, value: object, found: str) -> Objection:
    message = f"{found}; the {policy.level}'s policy has {spell(key, value)}"
    return Objection(key, message, policy.where(key))


def _by_source(policy: Policy, subject: Subject) -> str | None:
    allowed = policy.sources or ()
    if subject.root is not None and subject.root in allowed:
        return None
    for url in subject.urls:
        if not any(is_under(url, each) for each in allowed):
            root = f" (root {subject.root})" if subject.root else ""
            return f"{quote(url)}{root} is no place that {subject.name} may come from"
    return None if subject.urls else f"nobody knows where {subject.name} comes from"


def _by_publisher(policy: Policy, subject: Subject) -> str | None:
    signer, allowed = subject.signer, policy.publishers or ()
    if signer is None:
        return f"{subject.name} is signed by nobody"
    by_registry = f"{subject.root}/{signer.identity}" if subject.root and subject.vouched else None
    if not {signer.fingerprint, by_registry, *subject.known_as}.isdisjoint(allowed):
        return None
    return f"{subject.name} is signed by {quote(signer.identity)} ({signer.fingerprint})"


def _by_signature(policy: Policy, subject: Subject) -> str | None:
    if policy.signed == "required" and subject.signer is None:
        return f"{subject.name} is signed by nobody who is known"
    return None


def _by_denial(policy: Policy, subject: Subject) -> str | None:
    denied = tuple(map(pattern, policy.deny_capabilities or ()))
    for can in subject.can:
        if any(each.denies(can) for each in denied):
            return f"{subject.name} can {quote(can)}"
    return None


def _by_capability(policy: Policy, subject: Subject) -> str | None:
    allowed = tuple(map(pattern, policy.capabilities or ()))
    for can in subject.can:
        if not any(each.permits(can) for each in allowed):
            return f"{subject.name} can {quote(can)}"
    return None


def _by_finding(policy: Policy, subject: Subject) -> str | None:
    threshold = policy.fail_on or "critical"
    grave = [each for each in subject.findings if at_least(each.severity, threshold)]
    grave = [each for each in grave if each.rule not in (policy.allow_findings or ())]
    if not grave:
        return None
    worst = max(grave, key=lambda each: SEVERITIES.index(each.severity))
    more = f" and {len(grave) - 1} more" if len(grave) > 1 else ""
    place = f"{quote(worst.path)}, line {worst.line}"
    return f"the scan saw {worst.rule} ({worst.severity}) in {subject.name}: {place}: {worst.message}{more}"


def _by_age(policy: Policy, subject: Subject) -> str | None:
    if subject.age is None:
        return f"nobody knows how long {subject.name} has been out"
    if subject.age >= timedelta(days=policy.min_age_days or 0):
        return None
    days = max(0, subject.age.days)
    return f"{subject.name} has been out for {days} day{'' if days == 1 else 's'}"


_OBJECTIONS: Mapping[str, Callable[[Policy, Subject], str | None]] = {
    "sources": _by_source,
    "signed": _by_signature,
    "publishers": _by_publisher,
    "deny-capabilities": _by_denial,
    "capabilities": _by_capability,
    "fail-on": _by_finding,
    "min-age-days": _by_age,
}
ORIGIN = frozenset({"sources"})
# What a lock's entry says enough for; the other two take the bytes, and the word of whoever offered them.
LASTING = frozenset({"sources", "signed", "publishers", "deny-capabilities", "capabilities"})
EVERYTHING = frozenset(_OBJECTIONS)
KEYS = (*_OBJECTIONS, "agents", "allow-findings", "agree", "trusted-sources")


# What policies come to together, for a person: every line with its place, and the strictest of each.

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

"""Policies: rules about what may be installed, which questions are answered, and the strictest value of each rule."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeVar

from pydantic import ConfigDict

from skillhub.errors import Forbidden, FormatError, StateError, hinting
from skillhub.formats.digest import Digest
from skillhub.formats.document import Absent, Document, Items, Read, integer, matching, one_of, part, visible, wrong
from skillhub.formats.text import amount, clean, grouped, is_alias, is_name, quote, spell_time
from skillhub.formats.toml import spell_toml, strict_toml
from skillhub.model.finding import SEVERITIES, Finding, Severity, at_least
from skillhub.model.hosts import hosts, read_id
from skillhub.model.lock import Signer
from skillhub.model.question import BEFOREHAND, QuestionKind
from skillhub.model.reference import is_prefix, is_under
from skillhub.policy.patterns import pattern

# Machine, user and project have a policy each, and every one has to permit a skill, so that none can loosen another.
# Each rule is a line of a file, and a refusal names it.

Level = Literal["machine", "user", "project"]
SignedRule = Literal["ask", "required"]
_T = TypeVar("_T")
_SHOWN = 80
_HINT = "skillhub doctor policy shows every line that applies, with its file"
# The questions that a policy may answer beforehand.
AGREEABLE = tuple(kind for kind, beforehand in BEFOREHAND.items() if beforehand.policy)


# The form of ``policy.toml``, and of ``[policy]`` in ``skillhub.toml``.
SECTION = "policy"
KEYS = (
    *("sources", "signed", "publishers", "deny-capabilities", "capabilities", "fail-on", "min-age-days"),
    *("agents", "allow-findings", "agree", "trusted-sources", "witnesses"),
)
_NEVER_OF_A_PROJECT = ("allow-findings", "agree", "trusted-sources")
_AGE_MAX = 3650
_PATTERN_MAX = 300  # characters; no capability is longer
_PATTERNS_MAX = 1000  # each is compared with each capability of a skill
_DENIED_TOOLS_MAX = 100  # each is compared with each command in each tool of a skill
_WITNESS = re.compile(r"(sha256:[0-9a-f]{64})=([^\s+=]+\+[0-9a-f]{8}\+[A-Za-z0-9+/]{44})")
_RULE = re.compile(r"[A-Za-z]{2,8}[0-9]{1,5}")


def _source(value: object) -> str:
    if isinstance(value, str) and value.startswith("sha256:"):
        return Digest.parse(value)
    if not isinstance(value, str) or clean(value) != value or not is_prefix(value):
        wrong("the fingerprint of a root, or a URL such as https://skills.example/", value)
    return value


def _trusted_source(value: object) -> str:
    """Return the root of a registry, alone or after the one alias that it may have."""
    alias, equals, root = value.rpartition("=") if isinstance(value, str) else ("", "", "")
    if not root.startswith("sha256:") or (equals and not is_alias(alias)):
        wrong("the fingerprint of a root, sha256:…, or NAME=sha256:…", value)
    return f"{alias}{equals}{Digest.parse(root)}"


def _publisher(value: object) -> str:
    name = visible(value)
    if not name.startswith("sha256:"):
        return name
    root, slash, publisher = name.partition("/")
    if slash and not is_name(publisher):
        wrong("a publisher's name behind the root of its registry, sha256:…/NAME", value)
    return f"{Digest.parse(root)}{slash}{publisher}"


def _capability(value: object) -> str:
    text = visible(value)
    if len(text) > _PATTERN_MAX:
        wrong(f"a pattern of at most {_PATTERN_MAX} characters", text)
    pattern(text)
    return text


_Pattern = Annotated[str, Read(_capability, type="string", pattern=r"^[A-Za-z*?]+(:|$)", maxLength=_PATTERN_MAX)]
_Capabilities = Items[_Pattern]
_ROOT = "sha256:[0-9a-f]{64}"


@part
@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRules:
    """The rules of one policy; a missing rule is None, and forbids nothing.

    Attributes:
        sources: The allowed sources: roots of registries, and URLs, each with everything below it.
        publishers: The allowed signers: names under which the user trusts them, fingerprints, ``<root>/<name>``.
        fail_on: Findings of at least this severity refuse a skill, unless ``allow_findings`` has their rule.
        min_age_days: The number of days since the publication of a skill.
        capabilities: Patterns; each capability of a skill has to match one of them.
        deny_capabilities: Patterns; no capability of a skill may match one of them.
        agents: Ids of the allowed agents.
        allow_findings: Rules of the scan whose findings need no further approval.
        agree: Questions that need no further approval.
        trusted_sources: Roots of registries that projects may propose, each alone or as ``NAME=sha256:…``.
        witnesses: ``sha256:…=NAME+HASH+KEY``: the witness must have cosigned the log of the registry with this root.
    """

    UNKNOWN: ClassVar = f"known: {', '.join(KEYS)}; check the spelling"
    CONFIG: ClassVar = ConfigDict(alias_generator=lambda name: name.replace("_", "-"))

    sources: Absent[Items[Annotated[str, Read(_source, type="string", pattern=f"^({_ROOT}$|[a-z]+://)")]]] = None
    publishers: Absent[Items[Annotated[str, Read(_publisher, type="string", minLength=1)]]] = None
    signed: Absent[Annotated[SignedRule, one_of("ask", "required")]] = None
    fail_on: Absent[Annotated[Severity, one_of(*SEVERITIES)]] = None
    min_age_days: Absent[Annotated[int, integer(f"0 to {_AGE_MAX} days", _AGE_MAX)]] = None
    capabilities: Absent[_Capabilities] = None
    deny_capabilities: Absent[_Capabilities] = None
    agents: Absent[Items[Annotated[str, Read(read_id, type="string", enum=[*hosts()])]]] = None
    allow_findings: Absent[Items[Annotated[str, matching(_RULE, "the id of a rule, such as SH001")]]] = None
    agree: Absent[Items[Annotated[QuestionKind, one_of(*AGREEABLE)]]] = None
    trusted_sources: Absent[
        Items[Annotated[str, Read(_trusted_source, type="string", pattern=f"^([a-z0-9-]+=)?{_ROOT}$")]]
    ] = None
    witnesses: Absent[
        Items[Annotated[str, matching(_WITNESS, "a root and the key of a witness, sha256:…=NAME+HASH+KEY")]]
    ] = None


class PolicyFile(Document):
    """``policy.toml``, with its rules below ``[policy]``."""

    OBJECT = "a table"

    policy: PolicyRules


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy(PolicyRules):
    """The rules of the file at ``path``."""

    level: Level
    path: str

    def rules(self) -> Iterator[tuple[str, Any]]:
        """Yield each key of the file, as it is written there, with its value."""
        for key in KEYS:
            value = getattr(self, key.replace("-", "_"))
            if value is not None:
                yield key, value


_FIELDS = tuple(rule.name for rule in fields(PolicyRules))


def parse_policy(data: bytes, level: Level, path: str) -> Policy:
    """Return the policy of a ``policy.toml``; ``[policy]`` above its rules may be left out.

    Raises:
        FormatError: the file is no TOML, or a key is unknown or has a value of the wrong kind.
    """
    with hinting(
        'correct this file; a rule is KEY = VALUE, and a text stands in quotation marks: signed = "required"'
    ):
        document = strict_toml(data, path)
        return policy_of(document[SECTION] if document.keys() == {SECTION} else document, level, path)


def policy_of(value: object | PolicyRules, level: Level, path: str) -> Policy:
    """Return the policy in a table of the file at ``path``.

    Raises:
        FormatError: a key is unknown, has a value of the wrong kind, or is not allowed in a project's policy.
    """
    rules = value if isinstance(value, PolicyRules) else PolicyFile.parse({SECTION: value}, path).policy
    policy = Policy(level=level, path=path, **{name: getattr(rules, name) for name in _FIELDS})
    for key, found in policy.rules():
        of_tools = [each for each in found if pattern(each).is_of_tools] if key == "deny-capabilities" else []
        for kind, texts, most in (("", found, _PATTERNS_MAX), (" for tools", of_tools, _DENIED_TOOLS_MAX)):
            if key.endswith("capabilities") and len(texts) > most:
                message = f"expected at most {most} patterns{kind}, found {len(texts)}"
                raise FormatError(message, where=f"{path}: {SECTION}.{key}", hint="a pattern with * stands for many")
        if level == "project" and key in _NEVER_OF_A_PROJECT:
            message = f"only the machine's and the user's policy may have {key}"
            hint = "a repository may forbid more, but cannot agree on your behalf"
            raise FormatError(message, where=f"{path}: {SECTION}", hint=hint)
    return policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A skill or a source that policies judge.

    Attributes:
        root: The root of its registry; None for other sources.
        urls: Every URL that it comes from; a repository may redirect to another.
        voucher: The registry that alone vouches for the signer's name; None for a publisher that the user trusts.
        vouched: Whether the registry with this root vouches for the signer's name.
        known_as: The names under which the user trusts the signer.
        capabilities: What the skill can do.
        age: The time since its publication; None if unknown.
        witnesses: The witnesses that a policy requires and that have cosigned the log of its registry.
    """

    name: str
    root: Digest | None = None
    urls: tuple[str, ...] = ()
    signer: Signer | None = None
    voucher: str | None = None
    vouched: bool = False
    known_as: frozenset[str] = frozenset()
    capabilities: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    age: timedelta | None = None
    witnesses: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Objection:
    """The reason for which a rule of a policy forbids something, and the file of the rule."""

    key: str
    message: str
    where: str

    @property
    def error(self) -> Forbidden:
        """The error for this objection."""
        return Forbidden(self.message, where=self.where, hint=_HINT)


@dataclass(frozen=True)
class Policies:
    """All policies that apply, the machine's first; ``read`` reads them at the first question.

    So a malformed policy does not stop commands that only remove or show skills. The first question raises a
    FormatError if a policy is malformed, since its rules are unknown, or a StateError if it cannot be read.
    """

    read: Callable[[], tuple[Policy, ...]] = tuple

    @cached_property
    def all(self) -> tuple[Policy, ...]:
        """The policies as they were at the first question."""
        return self.read()

    def __bool__(self) -> bool:
        """Return whether there is any policy."""
        return bool(self.all)

    def objections(self, subject: Subject, keys: Collection[str]) -> Iterator[Objection]:
        """Yield the objections to a skill or a source by the rules with these keys."""
        for policy in self.all:
            for key, value in policy.rules():
                fault = _OBJECTIONS[key](policy, subject) if key in keys else None
                if fault is not None:
                    yield _objection(policy, key, value, fault)

    def refuse(self, subject: Subject, keys: Collection[str]) -> None:
        """Raise if a rule with one of these keys forbids the subject.

        Raises:
            Forbidden: for the first such rule.
        """
        for objection in self.objections(subject, keys):
            raise objection.error

    def refuse_changed(self) -> None:
        """Raise if a policy was changed since the first question: what was planned may be forbidden now.

        Raises:
            FormatError: a policy is malformed now.
            StateError: a policy was changed, or cannot be read.
        """
        before = self.all if "all" in vars(self) else ()
        now = self.read() if "all" in vars(self) else ()
        for each in (*now, *before):
            if each not in now or each not in before:
                message = f"the {each.level}'s policy was changed meanwhile"
                raise StateError(message, where=each.path, hint="run the command again")

    def against_agent(self, id_: str) -> Objection | None:
        """Return the objection to enabling skills for an agent; None if all policies allow it."""
        for policy in self.all:
            if policy.agents is not None and id_ not in policy.agents:
                return _objection(policy, "agents", policy.agents, f"{id_} is not an allowed agent")
        return None

    def agrees(self, kind: QuestionKind) -> bool:
        """Return whether a policy answers questions of this kind with yes; some kinds no policy may answer."""
        return kind in AGREEABLE and any(kind in (policy.agree or ()) for policy in self.all)

    def trusts_source(self, alias: str, root: Digest) -> bool:
        """Return whether a policy approves a registry that a project proposes by this alias and root."""
        spellings = {root, f"{alias}={root}"}
        return any(spellings.intersection(policy.trusted_sources or ()) for policy in self.all)

    def allows_finding(self, rule: str) -> bool:
        """Return whether a policy approves the findings of this rule of the scan."""
        return any(rule in (policy.allow_findings or ()) for policy in self.all)

    def refuse_unwitnessed(
        self, name: str, root: Digest, cosigned_by: Callable[[Collection[str]], frozenset[str]]
    ) -> None:
        """Raise unless all witnesses that a policy requires have cosigned the log of a registry.

        Args:
            name: The name of the registry.
            root: Its first root.
            cosigned_by: Returns the given keys of witnesses that have cosigned; called only if a policy requires any.

        Raises:
            Forbidden: for the first witness that is missing.
        """
        rows = (witness.partition("=") for policy in self.all for witness in policy.witnesses or ())
        if required := frozenset(key for registry, _, key in rows if registry == root):
            self.refuse(Subject(name=name, root=root, witnesses=cosigned_by(required)), _LOG)

    @property
    def min_age(self) -> timedelta | None:
        """The highest minimum age of a release in all policies; None if no policy has one."""
        days = [policy.min_age_days for policy in self.all if policy.min_age_days is not None]
        return timedelta(days=max(days)) if days else None

    def latest_allowed_date(self, now: datetime) -> str | None:
        """Return the latest allowed ``published`` of a release, in its form; None if no policy limits it."""
        return None if self.min_age is None else spell_time(now - self.min_age)


def spell(key: str, value: object) -> str:
    """Return a rule as a line of TOML, cut if it is long."""
    text = spell_toml(value)
    return f"{key} = {text if len(text) <= _SHOWN else text[:_SHOWN] + '…'}"


def _objection(policy: Policy, key: str, value: object, fault: str) -> Objection:
    return Objection(key, f"{fault}; the {policy.level}'s policy has {spell(key, value)}", policy.path)


def _by_source(policy: Policy, subject: Subject) -> str | None:
    allowed = policy.sources or ()
    if subject.root is not None and subject.root in allowed:
        return None
    for url in subject.urls:
        if not any(is_under(url, prefix) for prefix in allowed):
            root = f" (root {subject.root})" if subject.root else ""
            return f"{subject.name} comes from {quote(url)}{root}, which is not an allowed source"
    return None if subject.urls else f"the source of {subject.name} is unknown"


def _by_publisher(policy: Policy, subject: Subject) -> str | None:
    signer, allowed = subject.signer, policy.publishers or ()
    if signer is None:
        return f"{subject.name} is unsigned"
    by_registry = f"{subject.root}/{signer.identity}" if subject.root and subject.vouched else None
    if not {signer.fingerprint, by_registry, *subject.known_as}.isdisjoint(allowed):
        return None
    return f"{subject.name} is signed by {signer.named(subject.voucher)} ({signer.fingerprint})"


def _by_signature(policy: Policy, subject: Subject) -> str | None:
    if policy.signed == "required" and subject.signer is None:
        return f"{subject.name} is not signed by a known publisher"
    return None


def _by_capability(policy: Policy, subject: Subject) -> str | None:
    allowed = tuple(map(pattern, policy.capabilities or ()))
    return _first_forbidden(subject, lambda capability: not any(entry.permits(capability) for entry in allowed))


def _by_denial(policy: Policy, subject: Subject) -> str | None:
    denied = tuple(map(pattern, policy.deny_capabilities or ()))
    return _first_forbidden(subject, lambda capability: any(entry.denies(capability) for entry in denied))


def _first_forbidden(subject: Subject, is_forbidden: Callable[[str], bool]) -> str | None:
    capability = next(filter(is_forbidden, subject.capabilities), None)
    return None if capability is None else f"{subject.name} can {quote(capability)}"


def _by_finding(policy: Policy, subject: Subject) -> str | None:
    threshold = policy.fail_on or "critical"
    grave = [finding for finding in subject.findings if at_least(finding.severity, threshold)]
    grave = [finding for finding in grave if finding.rule not in (policy.allow_findings or ())]
    if not grave:
        return None
    worst = max(grave, key=lambda finding: SEVERITIES.index(finding.severity))
    others = f" and {len(grave) - 1} more" if len(grave) > 1 else ""
    place = f"{quote(worst.path)}, line {worst.line}"
    return f"the scan found {worst.rule} ({worst.severity}) in {subject.name}: {place}: {worst.message}{others}"


def _by_age(policy: Policy, subject: Subject) -> str | None:
    if subject.age is None:
        return f"the publication date of {subject.name} is unknown"
    if subject.age >= timedelta(days=policy.min_age_days or 0):
        return None
    days = max(0, subject.age.days)
    return f"{subject.name} was published {amount(days, 'day')} ago"


def _by_witness(policy: Policy, subject: Subject) -> str | None:
    for registry, _, key in (witness.partition("=") for witness in policy.witnesses or ()):
        if registry == subject.root and key not in subject.witnesses:
            return f"the log of {subject.name} is not cosigned by {quote(key.partition('+')[0])}"
    return None


_OBJECTIONS: Mapping[str, Callable[[Policy, Subject], str | None]] = {
    "sources": _by_source,
    "signed": _by_signature,
    "publishers": _by_publisher,
    "deny-capabilities": _by_denial,
    "capabilities": _by_capability,
    "fail-on": _by_finding,
    "min-age-days": _by_age,
    "witnesses": _by_witness,
}
ORIGIN = frozenset({"sources"})
# The keys that can be judged by a lock's entry alone; `fail-on` and `min-age-days` need the bytes and the source.
LASTING = frozenset({"sources", "signed", "publishers", "deny-capabilities", "capabilities"})
# The witnesses of a log are judged when its registry is opened.
_LOG = frozenset({"witnesses"})
EVERYTHING = frozenset(_OBJECTIONS) - _LOG


# All policies together, to be shown: every rule with its place, and the strictest value of each.

_UNION = ("deny-capabilities", "allow-findings", "agree", "trusted-sources", "witnesses")
_EACH = ("sources", "publishers", "capabilities")


class Row(NamedTuple):
    """One rule of a policy; ``in_force`` is False for one that a stricter rule overrides."""

    level: Level
    key: str
    value: Any
    where: str
    in_force: bool

    @property
    def text(self) -> str:
        """The rule as a line of TOML."""
        return f"{self.key} = {spell_toml(self.value)}"


def rows(policies: Policies) -> Iterator[Row]:
    """Yield every rule, those of the machine first."""
    strictest = effective(policies)
    for policy in policies.all:
        for key, value in policy.rules():
            is_weaker = key in ("signed", "min-age-days") and value != strictest[key]
            is_outdone = key == "fail-on" and any(_refuses_more(other, policy) for other in policies.all)
            yield Row(policy.level, key, value, policy.path, not (is_weaker or is_outdone))


def _refuses_more(one: Policy, other: Policy) -> bool:
    """Return whether ``one`` refuses every finding that ``other`` refuses, and findings of lower severity."""
    ranks = [SEVERITIES.index(policy.fail_on or "critical") for policy in (one, other)]
    return ranks[0] < ranks[1] and set(one.allow_findings or ()) <= set(other.allow_findings or ())


def effective(policies: Policies) -> dict[str, Any]:
    """Return the combined value of each key; for lists that all have to permit, the list of these lists."""
    values_of = grouped(rule for policy in policies.all for rule in policy.rules())
    return {key: _combined(key, [*values]) for key, values in values_of.items()}


def _combined(key: str, values: list[Any]) -> object:
    if key == "signed":
        return "required" if "required" in values else "ask"
    if key == "fail-on":
        return min(values, key=SEVERITIES.index)
    if key == "min-age-days":
        return max(values)
    if key in _EACH:
        return [list(value) for value in values]
    if key in _UNION:
        return sorted({item for value in values for item in value})
    return sorted(set(values[0]).intersection(*values[1:]))

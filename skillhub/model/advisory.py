"""Advisories in the OSV format (1.7) and lists of digests: which skills are known to be bad, and why."""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from heapq import nsmallest
from itertools import islice
from math import ceil
from typing import Annotated, Literal, Self
from urllib.parse import unquote

from pydantic import ConfigDict, Field

from skillhub.errors import FormatError
from skillhub.formats.digest import NO_FILES, Digest, is_hex
from skillhub.formats.document import ExtensibleDocument, Items, Members, Sha256, Visible, version_of
from skillhub.formats.json import refuse_many, strict_json
from skillhub.formats.text import collapsed, parse_time, quote
from skillhub.model.finding import SEVERITIES, Finding, Severity
from skillhub.model.reference import parse
from skillhub.model.tree import Listing
from skillhub.model.version import Precedence, is_version, precedence

# The documents: the keys of OSV that are read. All other keys of OSV are kept and decide nothing.

ECOSYSTEM = "AgentSkills"
CAP = 32 << 20
_TEXT_MAX = 300  # the most characters of a summary that are shown
_FIXES_TRIED = 8  # the most fixed versions that are checked against all ranges, which may be many
_MATCHES_MAX = 100  # the most matches of one skill, and of one digest, which many skills of a lock may have
# The words for a severity in GitHub's advisories, which have a word where others have a CVSS vector.
_WORDS: Mapping[str, Severity] = {**{severity.upper(): severity for severity in SEVERITIES}, "MODERATE": "medium"}


class _Osv(ExtensibleDocument):
    model_config = ConfigDict(extra="allow")  # other clients of a registry may read these keys


class OsvEvent(_Osv):
    """One event of a range; an absent key is None."""

    introduced: str | None = None
    fixed: str | None = None
    last_affected: str | None = None
    limit: str | None = None

    @property
    def fault(self) -> str | None:
        """What is invalid in the event, and how it counts; None if it is valid."""
        keys = ("introduced", "fixed", "last_affected", "limit")
        pairs = [(key, value) for key in keys if (value := getattr(self, key)) is not None]
        if len(pairs) != 1:
            return f"expected one of {', '.join(keys)}, found {len(pairs)} of them; the event ends no range"
        key, value = pairs[0]
        if is_version(value) or pairs[0] in (("introduced", "0"), ("limit", "*")):
            return None
        effect = "it counts as the lowest version" if key == "introduced" else "it ends no range"
        return f"{key}: expected a version such as 1.2.0, found {quote(value)}; {effect}"


class OsvRange(_Osv):
    """A range of versions. One of type ``GIT`` names commits, whose order is unknown here."""

    type: Literal["GIT", "SEMVER", "ECOSYSTEM"]
    events: Items[OsvEvent]


class OsvPackage(_Osv):
    """A package; ``ecosystem`` is ``AgentSkills`` for every source, or ``AgentSkills:SOURCE`` for one source."""

    ecosystem: str
    name: str


class OsvSpecific(_Osv):
    """The keys of ``database_specific`` that skillhub reads: digests of artifacts, trees or files, and a severity."""

    digests: Items[Sha256] = ()
    severity: str | None = None


class OsvSeverity(_Osv):
    """A score; for CVSS, the vector."""

    type: str
    score: str


class OsvAffected(_Osv):
    """One affected package and its affected versions."""

    package: OsvPackage | None = None
    ranges: Items[OsvRange] | None = None
    versions: Items[str] | None = None
    database_specific: OsvSpecific = Field(default_factory=OsvSpecific)

    def faults(self) -> Iterator[str]:
        """Yield each invalid event of a range about a skill, with its path."""
        if self.package is not None and _source(self.package) is not None:
            for number, range_ in enumerate(self.ranges or ()):
                for position, event in enumerate(range_.events if range_.type != "GIT" else ()):
                    if fault := event.fault:
                        yield f"ranges[{number}].events[{position}]: {fault}"


class OsvAdvisory(_Osv):
    """One advisory; from the time in ``withdrawn`` on it matches no skill."""

    CAP = CAP

    id: Visible
    modified: str
    schema_version: str = "1.0.0"
    withdrawn: str | None = None
    summary: str = ""
    details: str = ""
    severity: Items[OsvSeverity] | None = None
    affected: Items[OsvAffected] | None = None
    database_specific: OsvSpecific = Field(default_factory=OsvSpecific)

    def check(self) -> None:
        """Refuse another major version of OSV, whose keys may have other meanings.

        Raises:
            FormatError: the document is not OSV 1.x.
        """
        if not self.schema_version.startswith("1."):
            raise FormatError(f"expected OSV 1.x, found {quote(self.schema_version)}", where=".schema_version")

    def is_withdrawn(self, now: datetime) -> bool:
        """Return whether ``withdrawn`` is a time up to ``now``; any other text leaves the advisory in force."""
        withdrawn = parse_time(self.withdrawn)
        return withdrawn is not None and withdrawn <= now

    def warnings(self, now: datetime) -> Iterator[str]:
        """Yield what is invalid in the advisory, so that more versions are affected than its author may mean."""
        if self.is_withdrawn(now):
            return
        if self.withdrawn is not None:
            yield f"{self.id}: withdrawn: expected a past time, found {quote(self.withdrawn)}; the advisory applies"
        for number, affected in enumerate(self.affected or ()):
            yield from (f"{self.id}: affected[{number}].{fault}" for fault in affected.faults())

    @property
    def rank(self) -> Severity:
        """The severity: critical for malware, else the advisory's own word, else CVSS, else high."""
        specifics = [self.database_specific, *(affected.database_specific for affected in self.affected or ())]
        words = [(specific.severity or "").upper() for specific in specifics]
        severities = [_WORDS[word] for word in words if word in _WORDS]
        severities = severities or [_cvss(rating.score) for rating in self.severity or () if rating.type == "CVSS_V3"]
        if self.id.startswith("MAL-"):
            severities.append("critical")
        return max(severities, key=SEVERITIES.index, default="high")


class AdvisoriesDocument(ExtensibleDocument):
    """The document that a registry signs: its advisories, and known bad digests with the reason for each."""

    CAP = CAP

    advisories: Items[OsvAdvisory] = ()
    digests: Members[Sha256, str] = Field(default_factory=dict)
    version: Annotated[int, version_of("version", 1)] = 1


# CVSS 3.1, base score: the weights of its section 7.4.
_WEIGHTS = {
    "AV": {"N": 0.85, "A": 0.62, "L": 0.55, "P": 0.2},
    "AC": {"L": 0.77, "H": 0.44},
    "PR": {"N": 0.85, "L": 0.62, "H": 0.27},
    "UI": {"N": 0.85, "R": 0.62},
    **{key: {"H": 0.56, "L": 0.22, "N": 0.0} for key in "CIA"},
}


def _cvss(vector: str) -> Severity:
    """Return the severity of a CVSS 3 vector; ``high`` for a malformed one."""
    metrics = dict(metric.partition(":")[::2] for metric in vector.split("/"))
    try:
        weight = {key: weights[metrics[key]] for key, weights in _WEIGHTS.items()}
    except KeyError:
        return "high"
    is_wide = metrics.get("S") == "C"
    if is_wide:
        weight["PR"] = {"L": 0.68, "H": 0.5}.get(metrics["PR"], weight["PR"])
    sub_score = 1 - (1 - weight["C"]) * (1 - weight["I"]) * (1 - weight["A"])
    impact = 7.52 * (sub_score - 0.029) - 3.25 * (sub_score - 0.02) ** 15 if is_wide else 6.42 * sub_score
    score = impact + 8.22 * weight["AV"] * weight["AC"] * weight["PR"] * weight["UI"]
    score = 0.0 if impact <= 0 else ceil(round(min(10, score * (1.08 if is_wide else 1)) * 10, 4)) / 10
    return SEVERITIES[sum(score >= least for least in (4.0, 7.0, 9.0))]


# The advisories of all sources, and the lookup of a skill in them.


@dataclass(frozen=True, slots=True)
class AdvisoryFeed:
    """The advisories of one registry, file or mirror.

    Attributes:
        document: The advisories.
        root: The root of the registry, whose advisories match by name only its own skills; None for a file or a
            mirror that the user chose.
        outdated: Why this is an earlier document of the source; empty if the source answered now.
    """

    document: AdvisoriesDocument
    root: Digest | None = None
    outdated: str = ""

    @classmethod
    def parse(cls, data: bytes, where: str, root: Digest | None = None) -> Self:
        """Return the advisories in a document, one advisory, a list of advisories, or lines of digests.

        A registry signs no lines of digests: its file of no bytes is damaged, not a list of none.

        Raises:
            FormatError: the bytes, or any part of them, are none of these.
        """
        if root is None and data.lstrip()[:1] not in (b"{", b"["):
            return cls(AdvisoriesDocument.model_construct(digests=dict(_digest_lines(data, where))), root)
        refuse_many(data, where)
        value = strict_json(data, where, CAP)
        if isinstance(value, list) or (isinstance(value, dict) and "id" in value):
            value = {"advisories": value if isinstance(value, list) else [value]}
        return cls(AdvisoriesDocument.parse(value, where), root)


def _digest_lines(data: bytes, where: str) -> Iterator[tuple[Digest, str]]:
    """Yield the digest and the reason of each line: ``sha256:…`` or the digits alone, a space, the reason."""
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        text, _, reason = line.strip().partition(" ")
        if text and not text.startswith("#"):
            yield Digest.parse(f"sha256:{text}" if is_hex(text) else text, f"{where}:{number}"), reason.strip()


@dataclass(frozen=True, slots=True)
class AdvisorySubject:
    """The facts of a skill that advisories are matched against.

    Attributes:
        versions: Returns its version and its commit, those that are known.
        urls: Returns every URL of its source.
        digests: Returns the digests of the artifact, the trees and their files; each with the words for what has it.
    """

    name: str
    versions: Callable[[], tuple[str, ...]]
    root: Digest | None
    urls: Callable[[], tuple[str, ...]]
    digests: Callable[[], Mapping[str, str]]


def digests_of(listing: Listing) -> dict[str, str]:
    """Return the digest of each file, with the words that name the file."""
    return {f"sha256:{file.sha256}": f"its file {path}" for path, file in listing.items()}


@dataclass(frozen=True, slots=True)
class Match:
    """A match of an advisory with a skill.

    Attributes:
        by: ``version``, or the words for what has the digest, such as ``its tree``.
        fixed: The first version that the advisory calls fixed.
    """

    id: str
    severity: Severity
    summary: str
    by: str
    fixed: str | None = None

    @property
    def is_refused(self) -> bool:
        """Whether every install of the skill is refused: a digest matched, or the advisory is critical."""
        return self.by != "version" or self.severity == "critical"

    @property
    def rule(self) -> str:
        """The id of the audit's rule for the finding."""
        return "known-bad" if self.is_refused else "advisory"

    def __str__(self) -> str:
        by = "its version" if self.by == "version" else f"the digest of {self.by}"
        remedy = f"; fixed in {self.fixed}" if self.fixed else ""
        return f"{self.id} ({self.severity}, by {by}): {self.summary or 'no reason given'}{remedy}"

    def finding(self, path: str, line: int = 0, skill: str | None = None) -> Finding:
        """Return the match as a finding at this place; only a finding of an audit names the skill."""
        fixed = f"take version {self.fixed} or a later one" if self.fixed else "no fixed version is known"
        return Finding(self.rule, self.severity, path, line, str(self), fixed, skill)


class AdvisoryIndex:
    """All advisories, by digest and by name, so that the lookup of a skill does not visit every advisory.

    Args:
        feeds: The advisories of each source, in any order.
        now: The time; advisories that are withdrawn by then are left out.
    """

    def __init__(self, feeds: Iterable[AdvisoryFeed], now: datetime) -> None:
        self._by_digest: defaultdict[str, dict[str, Match]] = defaultdict(dict)
        self._by_name: defaultdict[str, list[tuple[AdvisoryFeed, Match, OsvAffected]]] = defaultdict(list)
        for feed in feeds:
            for digest, reason in feed.document.digests.items():
                self._add(digest, Match(f"sha256-{digest[7:19]}", "critical", _shortened(reason), ""))
            for advisory in feed.document.advisories:
                if not advisory.is_withdrawn(now):
                    self._read(feed, advisory)

    def _read(self, feed: AdvisoryFeed, advisory: OsvAdvisory) -> None:
        match = Match(advisory.id, advisory.rank, _shortened(advisory.summary or advisory.details), "")
        for affected in advisory.affected or ():
            if affected.package is not None and _source(affected.package) is not None:
                self._by_name[affected.package.name].append((feed, match, affected))
            fixed = next(_fixes(affected), None)
            for digest in affected.database_specific.digests:
                self._add(digest, replace(match, severity="critical", fixed=fixed))
        for digest in advisory.database_specific.digests:
            self._add(digest, replace(match, severity="critical"))

    def _add(self, digest: str, match: Match) -> None:
        if digest != NO_FILES:  # also the digest of an empty file, which many honest skills have
            matches = self._by_digest[digest]
            if len(matches) <= _MATCHES_MAX:
                matches.setdefault(match.id, match)

    def __bool__(self) -> bool:
        """Whether there is any advisory."""
        return bool(self._by_digest or self._by_name)

    def matches(self, subject: AdvisorySubject) -> tuple[Match, ...]:
        """Return the matches with a skill, worst first, each id once: feeds may rank one id differently.

        The last of very many says that there are others.
        """
        all_matches = [*islice(self._of_digests(subject), _MATCHES_MAX + 1)]
        named = self._by_name.get(subject.name, ())
        versions = subject.versions() if named else ()
        for feed, match, affected in named:
            if _is_from(subject, affected, feed) and _is_affected(versions, affected):
                all_matches.append(replace(match, by="version", fixed=_fix(versions, affected)))
        worst: dict[str, Match] = {}
        for match in sorted(all_matches, key=lambda match: (-SEVERITIES.index(match.severity), match.id)):
            worst.setdefault(match.id, match)
        shown, others = [*worst.values()][:_MATCHES_MAX], [*worst.values()][_MATCHES_MAX:]
        if others:
            shown.append(replace(others[0], id="others", summary="more advisories match than are listed", fixed=None))
        return tuple(shown)

    def _of_digests(self, subject: AdvisorySubject) -> Iterator[Match]:
        """Yield the matches by digest, each id once."""
        digests = subject.digests() if self._by_digest else {}
        seen: set[str] = set()
        # The artifact and the tree come last in ``digests``, and are named rather than a file.
        for digest, by in reversed([*digests.items()]):
            new = {id_: match for id_, match in self._by_digest.get(digest, {}).items() if id_ not in seen}
            yield from (replace(match, by=by) for match in new.values())
            seen.update(new)


def _shortened(text: str) -> str:
    return collapsed(text)[:_TEXT_MAX]


def _source(package: OsvPackage) -> str | None:
    """Return the source that an advisory names, empty for every source; None if the package is no agent skill."""
    ecosystem, _, source = package.ecosystem.partition(":")
    return source if ecosystem == ECOSYSTEM else None


def _is_from(subject: AdvisorySubject, affected: OsvAffected, feed: AdvisoryFeed) -> bool:
    """Return whether the advisory names the subject's source; a registry names only its own skills."""
    source = _source(affected.package) if affected.package else None
    if feed.root is not None:
        return subject.root == feed.root and source in ("", feed.root)
    if not source:
        return True
    top = _place(source)
    return source == subject.root or any(_place(url)[: len(top)] == top for url in subject.urls())


# Other hosts of forges that give the same repositories: ssh on port 443, archives, single files.
_OTHER_HOSTS = {
    **dict.fromkeys(("ssh.github.com", "codeload.github.com", "raw.githubusercontent.com"), "github.com"),
    "altssh.gitlab.com": "gitlab.com",
    "altssh.bitbucket.org": "bitbucket.org",
}


def _place(url: str) -> list[str]:
    """Return the host and the folders of a URL, the same for all spellings by which servers give one repository.

    In doubt an advisory applies: case, scheme, user, port, `.git`, `www.`, dots and escapes in the path do not count.
    """
    found = parse(url)
    host, path = (found.host, found.path) if found else ("", url)
    segments = posixpath.normpath(unquote(path)).lower().split("/")
    names = (each.removesuffix(".git") for each in segments if each not in ("", "."))
    host = host.removeprefix("www.").rstrip(".")
    return [_OTHER_HOSTS.get(host, host), *names]


def _is_affected(versions: Collection[str], affected: OsvAffected) -> bool:
    """Return whether a version is affected, as OSV evaluates it; without versions and ranges every version is."""
    if not affected.ranges and not affected.versions:
        return True
    if not set(versions).isdisjoint(affected.versions or ()):
        return True
    return any(_within(versions, range_) for range_ in affected.ranges or () if range_.type != "GIT")


def _within(versions: Collection[str], range_: OsvRange) -> bool:
    """Return whether a version is in the range; an unknown version is only in a range without an end."""
    keys = [precedence(version) for version in versions if is_version(version)]
    events = sorted(filter(None, map(_position, range_.events)))
    limits = [event.limit for event in range_.events if event.limit is not None]
    is_limited = bool(limits) and all(map(is_version, limits))  # a version below any limit is in the range
    if not keys:
        return {kind for _, kind in events} == {"introduced"} and not is_limited
    top = max(map(precedence, limits)) if is_limited else None
    return any(_is_bad(key, events) and (top is None or key < top) for key in keys)


def _is_bad(key: Precedence, events: Iterable[tuple[Precedence, str]]) -> bool:
    is_bad = False
    for bound, kind in events:
        if kind == "introduced" and key >= bound:
            is_bad = True
        elif (kind == "fixed" and key >= bound) or (kind == "last" and key > bound):
            is_bad = False
    return is_bad


_LOWEST = precedence("0.0.0-0")


def _position(event: OsvEvent) -> tuple[Precedence, str] | None:
    """Return the position of an event, to sort by it.

    An ``introduced`` that is no version counts as the lowest version. None for an end that is no version, and for an
    event with two ends: they end nothing, so that more versions are affected rather than fewer.
    """
    if event.introduced is not None:
        return (precedence(event.introduced) if is_version(event.introduced) else _LOWEST), "introduced"
    end, kind = (event.fixed, "fixed") if event.last_affected is None else (event.last_affected, "last")
    has_two = event.fixed is not None and event.last_affected is not None
    return (precedence(end), kind) if end is not None and not has_two and is_version(end) else None


def _fix(versions: Collection[str], affected: OsvAffected) -> str | None:
    """Return the lowest version above these that the advisory calls fixed, and that no range affects."""
    current = [precedence(version) for version in versions if is_version(version)]
    later = (fix for fix in _fixes(affected) if not current or precedence(fix) > max(current))
    lowest = nsmallest(_FIXES_TRIED, later, key=precedence)
    return next((fix for fix in lowest if not _is_affected((fix,), affected)), None)


def _fixes(affected: OsvAffected) -> Iterator[str]:
    """Yield each version that the advisory calls fixed; other text would be shown and suggested as a command."""
    for range_ in affected.ranges or ():
        for event in range_.events if range_.type != "GIT" else ():
            if event.fixed is not None and is_version(event.fixed):
                yield event.fixed

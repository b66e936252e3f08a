"""Whether a candidate may be installed, by the policies of machine, user and project."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from skillhub.errors import Forbidden
from skillhub.flows.candidate import Candidate
from skillhub.flows.policy import names_of, of_entry, urls_of
from skillhub.flows.ports import Ports
from skillhub.flows.state import State
from skillhub.model import time as times
from skillhub.model.capability import capabilities
from skillhub.model.manifest import Manifest
from skillhub.model.policy import EVERYTHING, LASTING, Subject
from skillhub.model.record import Record
from skillhub.model.ref import repository
from skillhub.model.release import Release
from skillhub.scan import scan
from skillhub.world.requester import by_agreement

_AGE = frozenset({"min-age-days"})


def admit(candidate: Candidate, state: State, ports: Ports) -> Candidate:
    """Return the candidate, less the findings that a policy agrees to, of which it is warned instead.

    What is enabled already is held to where it comes from, who signed it and what it can do; it was held to all
    else when it was enabled. What is locked, and its user keeps disabled, is held to nothing: so one may do with
    a team's lock without what one's own policy forbids.

    Raises:
        Forbidden: a line of a policy.
        SourceError: nobody can say how old it is, for its repository cannot be reached.
    """
    policies, record = ports.policies, state.records.skills.get(candidate.name)
    is_out = record is not None and record.held == "user"
    if not policies or (is_out and state.lock.skills.get(candidate.name) == candidate.entry):
        return candidate
    known = record if record is not None and record.is_of(candidate.entry) else None
    subject = _subject(candidate, known, ports)
    if known is not None and known.enabled:
        policies.refuse(subject, LASTING)
        return candidate
    if policies.min_age is not None:
        entry = candidate.entry
        agreed_to = known is not None or state.is_known(candidate.name, entry.place, entry.git)
        subject = replace(subject, age=_age(candidate, ports, agreed=agreed_to))
    policies.refuse(subject, EVERYTHING)
    agreed = [each for each in candidate.findings if policies.allows_finding(each.rule)]
    notes = [f"a policy agrees to {each.rule} at {each.path}:{each.line}: {each.message}" for each in agreed]
    left = tuple(each for each in candidate.findings if each not in agreed)
    return replace(candidate, findings=left, warnings=(*candidate.warnings, *notes))


def too_young(candidate: Candidate, ports: Ports) -> Forbidden | None:
    """Return why a candidate has to be waited for, or None.

    Raises:
        SourceError: as for ``admit``.
    """
    if ports.policies.min_age is None:
        return None
    subject = Subject(name=candidate.name, age=_age(candidate, ports, agreed=True))
    return next((each.error for each in ports.policies.objections(subject, _AGE)), None)


def _subject(candidate: Candidate, known: Record | None, ports: Ports) -> Subject:
    can, findings = candidate.can, candidate.findings
    if known is not None and known.enabled:
        can = known.facts.capabilities
    elif known is not None:  # nobody read all of its bytes again
        can, findings = capabilities(candidate.tree, Manifest.read(candidate.tree)), scan(candidate.tree)
    subject = of_entry(candidate.name, candidate.entry, can, ports)
    is_vouched = candidate.trust == "signed"
    signer, entry = candidate.signer, candidate.entry
    known_as = names_of(signer, entry, ports) if signer else frozenset()
    return replace(subject, signer=signer, vouched=is_vouched, known_as=known_as, findings=findings)


def _age(candidate: Candidate, ports: Ports, *, agreed: bool) -> timedelta | None:
    """Return how long a skill has been out; None if nobody knows.

    A registry signs when a release was published. Of a commit its maker chooses the date, so that the first sight
    of it counts if that is later; of a repository that is met for the first time nothing but the date is known.
    """
    now, entry = ports.clock(), candidate.entry
    subject = of_entry(candidate.name, entry, (), ports)
    published = times.parse(candidate.published)
    if subject.root is not None:
        return since(candidate.published, ports)
    if published is None and entry.git is not None:
        commit = Release(name=candidate.name, url=entry.git, type="tree", rev=entry.rev, path=entry.path)
        place = ports.reach(repository(entry.git), entry.rev, named_by=by_agreement(agreed))
        published = times.parse(place.committed(commit))
    where = urls_of(entry, ports)[-1:] or (entry.source,)
    sight = ports.first_seen.of(where[0], entry.rev or entry.tree, now)
    if published is None:
        return now - sight.time
    return now - (published if sight.at_first else max(published, sight.time))


def since(published: str | None, ports: Ports) -> timedelta | None:
    """Return how long ago that was; None if it is no time."""
    time = times.parse(published)
    return ports.clock() - time if time is not None else None

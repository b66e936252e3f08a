"""Whether a skill may be installed: by advisories, policies, and its publisher; when a locked skill needs no work."""

from __future__ import annotations

import os
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TypeAlias

from skillhub.command.ports import Ports
from skillhub.command.state import State
from skillhub.disk.proved import code_stamps, digest_of
from skillhub.errors import BadSignature, Forbidden, KnownBad, NotFound, SignerChanged, SkillhubError
from skillhub.formats.digest import NO_FILES, Digest
from skillhub.formats.text import command, parse_time, reinstall
from skillhub.install import candidates, pins
from skillhub.install.candidates import Candidate, read_manifest
from skillhub.model.advisory import AdvisorySubject, Match, digests_of
from skillhub.model.finding import SEVERITIES, Finding, at_least
from skillhub.model.hosts import SkillScope
from skillhub.model.index import Release
from skillhub.model.lock import Lock, Locked, LockedSource, Signer, shown_signers
from skillhub.model.provenance import Provenance, Record, signers_of
from skillhub.model.reference import Local, parse_remote, repository, site_of
from skillhub.model.skill import Skill
from skillhub.model.tree import SIGNATURE, SKILL_MD, Tree, lines_at
from skillhub.net.fetch import by_agreement
from skillhub.policy.policy import EVERYTHING, LASTING, Subject
from skillhub.project.copies import left_the_lock
from skillhub.project.last_seen import LockedSkill, ReleaseStatus
from skillhub.scan import capabilities_and_findings, scan
from skillhub.sources.configured import Source
from skillhub.trust.publishers import keys_of_publisher, publisher_of

# Advisories that match a skill; a skill that is known to be bad is refused.


def advised(name: str, entry: Locked, tree: Tree | None, ports: Ports) -> tuple[Match, ...]:
    """Return the advisories that match a locked skill, or one about to be locked, the worst first.

    Without ``tree``, the stored files are read, if an advisory names the skill or digests.

    Raises:
        SourceError, SecurityError, FormatError, StateError: the advisories cannot be read.
    """
    if not (known := ports.advisories.known()):
        return ()
    root = ports.root_of(entry)
    record = ports.project.last_records().known(name)

    def offered() -> tuple[Release, ...]:
        return ReleaseStatus.last_seen(name, entry, root, ports.seen).offered

    skill = LockedSkill(name, entry, record, root, ports.store, partial(urls_of, entry, ports), offered, tree)
    return skill.matches(known)


def advised_tree(tree: Tree, artifact: Digest | None, ports: Ports) -> tuple[Match, ...]:
    """Return the advisories that match a skill that no lock has; raises as ``advised``."""
    known, name = ports.advisories.known(), ""
    versions: tuple[str, ...] = ()
    if known:
        with suppress(SkillhubError):
            manifest = read_manifest(tree)
            name, versions = manifest.name, (manifest.version or "",)
    digests = digests_of(tree.listing) | {each.digest: "its tree" for each in (tree, tree.without([SIGNATURE]))}
    if artifact:
        digests[artifact] = "its artifact"
    return known.matches(AdvisorySubject(name, lambda: versions, None, tuple, lambda: digests))


def advised_skills(ports: Ports) -> list[tuple[str, Match]]:
    """Return the names of skills in the lock, or that left it, and their advisories; raises as ``advised``."""
    if not ports.advisories.known():
        return []
    agreed = {name: record.entry for name, record in ports.project.records().skills.items()}
    entries = {**agreed, **ports.project.lock().skills}
    return [(name, match) for name, entry in entries.items() for match in advised(name, entry, None, ports)]


def refuse_known_bad(name: str, entry: Locked, tree: Tree | None, ports: Ports) -> tuple[Match, ...]:
    """Return the advisories that match a skill, if none of them refuses it.

    Raises:
        KnownBad: an advisory refuses it; no flag and no answer overrides this.
        SourceError, SecurityError, FormatError, StateError: as for ``advised``.
    """
    found = advised(name, entry, tree, ports)
    for match in found:
        if match.is_refused:
            is_locked = name in ports.project.lock().skills
            hint = f"{command(ports.project.scope, 'remove', name)} removes it" if is_locked else "do not use it"
            if match.fixed and entry.named:
                fixed = entry.install_command(name, match.fixed, ports.project.scope)
                hint = f"{hint}; the advisory calls version {match.fixed} fixed: {fixed}"
            shown = entry.version or entry.short
            raise KnownBad(f"{name} {shown} is known to be bad: {match}", where=name, hint=hint)
    return found


def with_advisories(candidate: Candidate, ports: Ports) -> Candidate:
    """Return the candidate with the advisories about its version among its findings.

    Raises:
        KnownBad, SourceError, SecurityError, FormatError, StateError: as for ``refuse_known_bad``.
    """
    found = refuse_known_bad(candidate.name, candidate.entry, candidate.tree, ports)
    findings = [*(each.finding(SKILL_MD) for each in found), *candidate.findings]
    findings.sort(key=lambda each: -SEVERITIES.index(each.severity))
    return candidate if (*findings,) == candidate.findings else replace(candidate, findings=tuple(findings))


Known: TypeAlias = tuple[SkillScope, str, Match]  # scope and name of a skill, and an advisory that matches it


def with_known_bad(skills: Iterable[Skill], known: Iterable[Known], left: Mapping[str | None, str]) -> list[Skill]:
    """Return the skills, each with the worst advisory that refuses it; ``known`` has the worst of a skill first.

    ``left`` has the name of each copy whose skill left the lock, by its path.
    """
    worst = {(scope, name): str(match) for scope, name, match in reversed([*known]) if match.is_refused}
    named = ((each, each.name if each.managed else left.get(each.path, "")) for each in skills)
    return [replace(each, known_bad=worst.get((each.scope, name))) for each, name in named]


# The facts of a locked skill that policies are checked against, without its bytes.


def policy_subject(name: str, entry: Locked, capabilities: Sequence[str], ports: Ports) -> Subject:
    """Return the subject that policies check for a locked skill without its bytes.

    The locked name of its signer counts as vouched for: whoever agreed to the lock was shown that name.
    """
    is_signed = entry.signed_by and entry.patch is None  # nobody signed a patch of the project
    signer = Signer.parse(entry.signed_by[0]) if is_signed else None
    return Subject(
        name=name,
        root=_root(entry, ports),
        urls=(*urls_of(entry, ports), *_artifact(entry, ports)),
        signer=signer,
        voucher=ports.voucher(entry),
        vouched=True,
        known_as=names_of(signer, entry, ports) if signer else frozenset(),
        capabilities=tuple(capabilities),
    )


def names_of(signer: Signer, entry: Locked, ports: Ports) -> frozenset[str]:
    """Return the names under which this user trusts a signer for the entry's source; none if no policy needs them."""
    if not any(policy.publishers for policy in ports.policies.all):
        return frozenset()
    source = ports.trusted_for(entry.source)
    trusted = pins.trusted_publishers(ports.publishers)
    return frozenset(each.name for each in trusted if signer.fingerprint in each.fingerprints and each.covers(source))


def urls_of(entry: Locked, ports: Ports) -> tuple[str, ...]:
    """Return the URLs that a skill comes from: that of its reference, and the repository to which it led."""
    if entry.named:
        source = _source(entry, ports)
        return (source.url,) if source is not None else ()
    if entry.local:
        return (ports.url_of(Local(os.path.join(ports.project.base, entry.path or ""))),)
    asked = ports.url_of(parse_remote(entry.place))
    return tuple(dict.fromkeys((asked, entry.git or asked)))


def _artifact(entry: Locked, ports: Ports) -> tuple[str, ...]:
    """Return the locked URL of a site's artifact, as a place of its own: nothing proves that the site named it."""
    is_web = (entry.url or "").startswith(("https://", "http://"))
    return (entry.url,) if entry.url and is_web and _root(entry, ports) is None else ()


def _root(entry: Locked, ports: Ports) -> Digest | None:
    source = _source(entry, ports) if entry.named else None
    return source.root if source is not None else None


def _source(entry: Locked, ports: Ports) -> Source | LockedSource | None:
    """Return the source of a named entry: the user's own, else that of the lock."""
    return ports.sources.all().get(entry.source) or ports.project.lock().sources.get(entry.source)


# Whether a candidate may be installed, by the policies of machine, user and project.

_AGE = frozenset({"min-age-days"})


def admit(candidate: Candidate, state: State, ports: Ports) -> Candidate:
    """Return the candidate, with a warning in place of each finding that a policy agrees to.

    An enabled skill is checked for origin, signer and capabilities; it was checked for all else when it was enabled.
    A locked skill that the user keeps disabled is not checked: the user can work with a team's lock although their
    own policy forbids one of its skills.

    Raises:
        Forbidden: a line of a policy.
        SourceError: its age is unknown, since its repository cannot be reached.
    """
    policies, record = ports.policies, state.records.skills.get(candidate.name)
    is_disabled = record is not None and record.disabled_by == "user"
    if not policies or (is_disabled and state.lock.skills.get(candidate.name) == candidate.entry):
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
    """Return the refusal of a candidate that is younger than a policy allows, or None.

    Raises:
        SourceError: as for ``admit``.
    """
    if ports.policies.min_age is None:
        return None
    subject = Subject(name=candidate.name, age=_age(candidate, ports, agreed=True))
    return next((each.error for each in ports.policies.objections(subject, _AGE)), None)


def _subject(candidate: Candidate, known: Record | None, ports: Ports) -> Subject:
    capabilities, findings = candidate.capabilities, candidate.findings
    if known is not None and known.enabled:
        capabilities = known.facts.capabilities
    elif known is not None:  # an agreed candidate was not scanned
        capabilities, findings = capabilities_and_findings(candidate.tree, read_manifest(candidate.tree))
    subject = policy_subject(candidate.name, candidate.entry, capabilities, ports)
    is_vouched = candidate.trust == "signed"
    entry = candidate.entry
    signer = candidate.signer if entry.patch is None else None
    known_as = names_of(signer, entry, ports) if signer else frozenset()
    if candidate.bundle is not None and known is None:
        subject = replace(subject, urls=(*subject.urls, ports.url_of(Local(candidate.bundle))))
    return replace(subject, signer=signer, vouched=is_vouched, known_as=known_as, findings=findings)


def _age(candidate: Candidate, ports: Ports, *, agreed: bool) -> timedelta | None:
    """Return the time since a skill was published; None if unknown.

    A registry signs the time of a release. The maker of a commit chooses its date, so the time when this machine
    first saw the commit counts if that is later; for a repository seen for the first time, only the date is known.
    """
    now, entry = ports.clock(), candidate.entry
    subject = policy_subject(candidate.name, entry, (), ports)
    published = parse_time(candidate.published)
    if subject.root is not None:
        return since(candidate.published or _released(candidate.name, entry, subject.root, ports), ports)
    if published is None and entry.git is not None:
        commit = Release(name=candidate.name, url=entry.git, type="tree", rev=entry.rev, path=entry.path)
        place = ports.open_place(repository(entry.git), entry.rev, named_by=by_agreement(agreed))
        published = parse_time(place.committed(commit))
    where = urls_of(entry, ports)[-1:] or (entry.source,)
    first_sight = ports.first_seen.of(where[0], entry.rev or entry.tree, now)
    if published is None:
        return now - first_sight.time
    return now - (published if first_sight.at_first else max(published, first_sight.time))


def _released(name: str, entry: Locked, root: Digest, ports: Ports) -> str | None:
    """Return the time of a stored release by its registry's last documents, or else by those that it has now."""
    status = ReleaseStatus.last_seen(name, entry, root, ports.seen)
    if not status.offered:
        with suppress(NotFound):
            status = ReleaseStatus(name, entry, ports.index_of(name, entry))
    # A lock may combine the digest of one release with the tree of another.
    locked = (each for each in status.offered if (each.digest, each.tree) == (entry.digest, entry.original.tree))
    return next((each.published for each in locked), None)


def since(published: str | None, ports: Ports) -> timedelta | None:
    """Return the time since ``published``; None if that is no time."""
    time = parse_time(published)
    return ports.clock() - time if time is not None else None


# Whether the publisher is the one that the user agreed to for this name, whatever the lock says.


def check_against_record(candidate: Candidate, state: State, ports: Ports) -> None:
    """Refuse a skill of another publisher than the user agreed to, and new bytes under an expired certificate.

    Raises:
        SignerChanged, SourceError, FormatError: as for ``refuse_other_signer``.
        BadSignature: as for ``_refuse_expired``.
        Withdrawn: the project's patch makes it a release that its registry withdrew.
    """
    refuse_other_signer(candidate, state.records.skills.get(candidate.name), ports)
    _refuse_expired(candidate, state)
    if (entry := candidate.entry).patch is not None:
        status = ReleaseStatus.last_seen(candidate.name, entry, ports.root_of(entry), ports.seen)
        status.refuse(ports.project.scope, ports.project.intent)


def refuse_other_signer(candidate: Candidate, record: Record | None, ports: Ports) -> None:
    """Refuse a skill whose signer is not the publisher that the user agreed to, or that has no signature any more.

    Raises:
        SignerChanged: another publisher; no flag and no answer overrides this.
        SourceError, FormatError: the registry, which knows the publisher's other keys, cannot be asked.
    """
    entry, agreed = candidate.entry, record.newest if record else None
    before = agreed.provenance if agreed else None
    if agreed is None or before is None or not before.signers or agreed.is_of(entry):
        return
    # A lock may name other signers besides the proven one; the record would then let them sign the next version.
    old, named, proven = {*before.signers}, {*signers_of(entry.signed_by)}, candidates.proven_signers(candidate)
    now = named | proven if named and proven else set()  # a lock or bytes without a signer: no publisher
    if candidates.is_same_publisher(old, now, lambda: _publisher_keys(candidate, before.source, ports)):
        return
    scope = ports.project.scope
    raise SignerChanged(
        f"expected {candidate.name} to be signed by {', '.join(sorted(old))}, as when it was agreed to here; "
        f"it is signed by {shown_signers(entry.signed_by, ports.voucher(entry))} now",
        where=entry.origin,
        hint=f"if that is intended: {reinstall(scope, candidate.name, install_words(candidate.name, entry, ports))}",
    )


def _refuse_expired(candidate: Candidate, state: State) -> None:
    """Refuse a locked skill with an expired certificate unless the user agreed to its tree.

    A lock comes with a repository: with write access to it and the key of an expired certificate, an attacker could
    pass off new bytes as the publisher's. Without any former consent, only the lock can vouch for the tree.

    Raises:
        BadSignature: no flag and no answer overrides this.
    """
    record = state.records.skills.get(candidate.name)
    if candidates.EXPIRED not in candidate.warnings or record is None or record.newest.tree == NO_FILES:
        return
    entry, before = candidate.entry, state.lock.skills.get(candidate.name)
    known = {each.tree for each in record.consents}
    known |= {before.original.tree} if before and record.is_of(before) else set()
    if known.isdisjoint((entry.tree, entry.original.tree)):
        message = (
            f"expected the tree that was agreed to here, {record.newest.tree}, or a certificate that is still valid"
        )
        hint = "its publisher can sign it again"
        raise BadSignature("certificate-expired", message, where=f"{candidate.name}: {SIGNATURE}", hint=hint)


def left_behind(found: Collection[str], state: State, ports: Ports) -> Iterator[str]:
    """Yield a warning for each skill that left the lock and skillhub.toml, and that agents still read.

    Those in ``found`` come back.

    Raises:
        LinkLeavesProject: as for ``left_the_lock``.
    """
    sync = command(ports.project.scope, "sync")
    left = left_the_lock(ports.project, state.lock, state.records).keys() - state.intent.skills
    for name in sorted(left.difference(found)):
        yield f"{name} left the lock, and agents still read it: {sync} removes it"


def without_other_signers(
    candidates: Mapping[str, Candidate], state: State, ports: Ports
) -> tuple[dict[str, Candidate], list[str]]:
    """Return the candidates without disabled skills that another publisher signs now, and a line for each of these.

    Such a skill does not stop the command, or the user would have to agree to a skill that they disabled. Its record
    stays unchanged, so that ``enable`` refuses the other signer.

    Raises:
        SourceError, FormatError: as ``check_against_record``.
    """
    found, notes = dict(candidates), []
    for name, candidate in candidates.items():
        record = state.records.skills.get(name)
        if record is None or record.disabled_by != "user":
            continue
        try:
            check_against_record(candidate, state, ports)
        except (SignerChanged, BadSignature) as error:
            del found[name]
            notes.append(f"{name} stays disabled, in the version agreed to: {error.message}; {error.hint}")
    return found, notes


def _publisher_keys(candidate: Candidate, source: str, ports: Ports) -> frozenset[Digest]:
    """Return the keys of the candidate's publisher; for a stored skill, only its registry knows them all.

    A registry does not vouch for the signers of skills from another source, even one that had the same alias.

    Raises:
        SourceError, SecurityError, FormatError: the registry cannot be asked.
    """
    name, entry = candidate.name, candidate.entry
    if entry.source != source or ports.sources.had_another(source):
        return keys_of_publisher(candidate.signer, pins.trusted_publishers(ports.publishers))
    if ports.root_of(entry) is None:
        return candidate.publisher_keys
    status = ReleaseStatus(name, entry, ports.index_of(name, entry))
    release, admitted = status.release, status.admitted
    if release is None or admitted is None:
        return candidate.publisher_keys
    return candidate.publisher_keys | keys_of_publisher(candidate.signer, [publisher_of(admitted, release.published)])


def install_words(name: str, entry: Locked, ports: Ports) -> list[str]:
    """Return the words that make ``install`` install the locked skill after it was removed from the lock."""
    own, alias = entry.own_name(name), ["--as", name] if entry.name else []
    if entry.named:
        version = f"@{entry.version}" if ports.root_of(entry) else ""
        return [f"{entry.source}:{own}{version}", *alias]
    if entry.local:
        path = entry.path or ""
        return [path if os.path.isabs(path) else f"./{path}", *alias]
    return [entry.place, "--skill", f"{entry.plugin}:{own}" if entry.plugin else own, *alias]


def new_first(candidate: Candidate, record: Record | None, ports: Ports) -> Candidate:
    """Return the candidate with its new findings first; the others say that the version before has them, too."""
    is_grave = any(at_least(each.severity, "high") for each in candidate.findings)
    before = ports.store.read(record.tree) if record is not None and is_grave else None
    if before is None:
        return candidate
    old_keys = {*_finding_keys(scan(before), before)}
    keyed = [*zip(_finding_keys(candidate.findings, candidate.tree), candidate.findings, strict=True)]
    note = "(the version before has it, too)"
    repeated = [replace(each, message=f"{each.message} {note}") for key, each in keyed if key in old_keys]
    return replace(candidate, findings=(*(each for key, each in keyed if key not in old_keys), *repeated))


def described(candidate: Candidate, record: Record | None, ports: Ports) -> Candidate:
    """Return the candidate without its files, and with the findings that ``update`` would ask about.

    Raises:
        KnownBad, SourceError, SecurityError, FormatError, StateError: as for ``with_advisories``.
    """
    candidate = new_first(with_advisories(candidate, ports), record, ports)
    grave = tuple(each for each in candidate.findings if at_least(each.severity, "high"))
    return candidates.without_files(replace(candidate, findings=grave))


def _finding_keys(findings: Sequence[Finding], tree: Tree) -> Iterator[tuple[str, str, object]]:
    """Yield the identity of each finding across versions: rule, path, and the line's text or the file's digest."""
    rows = lines_at([(each.path, each.line) for each in findings], tree)
    for each in findings:
        path = each.path or ""
        yield each.rule, path, rows.get((path, each.line), b"") if each.line else tree.listing.get(path)


# A relocated registry: its root identifies it, so that the lock follows it to its new URL.


def rebased_lock(lock: Lock, sources: Mapping[str, LockedSource]) -> Lock:
    """Return the lock with these sources; the URLs of skills from a registry that moved are below its new URL."""
    skills = dict(lock.skills)
    for alias, now in sources.items():
        was = lock.sources.get(alias)
        if was is None or was.root is None or was == now or was.root != now.root:
            continue
        for name, entry in lock.skills.items():
            if entry.named and entry.source == alias:
                skills[name] = replace(entry, url=candidates.relocated(now.url, entry.url, was.url))
    return Lock(skills, {**lock.sources, **sources})


def sources_with(candidates: Iterable[Candidate], lock: Lock, ports: Ports) -> Mapping[str, LockedSource]:
    """Return the sources of the lock with those of the candidates added."""
    known = ports.sources.all()
    used = {each.entry.source for each in candidates if each.entry.named} & known.keys()
    return {**lock.sources, **{alias: known[alias].locked() for alias in used}}


def moved_records(records: Mapping[str, Record], before: Lock, after: Lock, ports: Ports) -> dict[str, Record]:
    """Return the records with consent and pins of ``before`` carried over to ``after``, the rebased lock.

    Raises:
        StateError: the disk refuses.
    """
    found = dict(records)
    for name, was in before.skills.items():
        now, record = after.skills.get(name), records.get(name)
        root = after.sources[was.source].root if was.named else None
        if root is None or now is None or now is was or replace(was, url=now.url) != now:
            continue
        pem = ports.publishers.pinned(pins.pin_name(name, was.original, root))
        if pem is not None:
            ports.publishers.pin(pins.pin_name(name, now.original, root), pem)
        if record is not None and record.is_of(was):
            found[name] = replace(record, provenance=Provenance.of(now))
    return found


# What decides that a locked skill needs no work, besides the bytes of its files.


class SharedFacts:
    """The facts that decide about every skill: this version, trusted publishers, policies and sources."""

    def __init__(self, ports: Ports) -> None:
        self.sources = ports.sources.all()
        policies, site = [*ports.policies.all], site_of(ports.environ)
        self.facts = digest_of((code_stamps(), ports.publishers.all(), self.sources, policies, site))


def deciding_facts(name: str, shared: SharedFacts, state: State, ports: Ports) -> object:
    """Return all facts, besides the bytes, that decide whether an enabled skill needs no work.

    Return None for a skill that every command must check. Such a skill is patched, or has an entry in the
    configuration of an agent, or its registry or an advisory warns of it, or a date ends its validity. A skill of a
    local folder is one, too, if a policy limits the sources: a link may lead to a forbidden place.
    """
    entry, record = state.lock.skills[name], state.agreed(name)
    if record is None or not record.enabled or entry.patch or any(need.kind == "mcp" for need in record.facts.needs):
        return None
    if entry.local and any(policy.sources is not None for policy in ports.policies.all):
        return None
    root = ports.root_of(entry, shared.sources)
    status = ReleaseStatus.last_seen(name, entry, root, ports.seen)
    if status.objection or status.yanked or candidates.revoking(status) or advised(name, entry, None, ports):
        return None
    pinned = None
    if entry.signed_by:
        pinned = ports.publishers.pinned(pins.pin_name(name, entry, root))
        if pinned is None or {Signer.parse(each).kind for each in entry.signed_by} != {"key"}:
            return None
    needed = [(each, state.lock.skills.get(each), state.enabled(each) is not None) for each in entry.dependencies]
    if not all(locked and is_enabled for _, locked, is_enabled in needed):
        return None
    versions = [(each, locked.version) for each, locked, _ in needed if locked]
    size = status.release.size if status.release else None
    return shared.facts, entry, record, state.lock.sources.get(entry.source), pinned, size, versions


def packages_of(state: State, coming: Iterable[Candidate] = ()) -> Mapping[str, Collection[str]]:
    """Return by skill the packages of the workspace that want it, or that want a skill that needs it.

    Without a workspace, return nothing.
    """
    intent, found = state.intent, defaultdict[str, set[str]](set)
    if intent.members is None:
        return {}
    entries = dict(state.lock.skills)
    for each in coming:
        entries[each.name] = each.entry
        found[each.name] |= {intent.package} if each.wanted else set()
    for name, packages in intent.packages.items():
        found[name] |= {*packages}
    waiting = deque(found)
    while waiting:
        name = waiting.popleft()
        if name not in entries:
            continue
        for need in entries[name].dependencies:
            if not found[name] <= found[need]:
                found[need] |= found[name]
                waiting.append(need)
    return {name: packages or {""} for name, packages in found.items()}

"""The facts of a locked skill without its bytes: for advisories, policies, and to skip a skill that is in order."""

from __future__ import annotations

import os
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from skillhub.command.ports import Ports
from skillhub.command.state import State
from skillhub.disk.proved import code_stamps, names_in
from skillhub.errors import KnownBad, SkillhubError
from skillhub.formats.digest import Digest
from skillhub.formats.text import command
from skillhub.install import candidates
from skillhub.install.candidates import Candidate, ReleaseStatus, read_manifest
from skillhub.model.advisory import AdvisorySubject, Match, digests_of
from skillhub.model.finding import SEVERITIES
from skillhub.model.hosts import SkillScope
from skillhub.model.lock import Locked, LockedSource, Signer
from skillhub.model.reference import Local, parse_remote, site_of
from skillhub.model.skill import Skill
from skillhub.model.tree import SIGNATURE, SKILL_MD, Listing, Tree
from skillhub.policy.policy import Subject
from skillhub.project.last_seen import HINTS, install_command
from skillhub.sources.configured import Source


def advised(name: str, entry: Locked, listing: Listing | None, ports: Ports) -> tuple[Match, ...]:
    """Return the advisories that match a locked skill, or one about to be locked, the worst first.

    Without ``listing``, the listing of the store is used; it is read only if an advisory names digests.

    Raises:
        SourceError, SecurityError, FormatError, StateError: the advisories cannot be read.
    """

    if not (known := ports.advisories.known()):
        return ()

    def listed() -> Listing | None:
        return listing or ports.store.listing(entry.tree)

    subject = AdvisorySubject.of(name, entry, ports.root_of(entry), lambda: urls_of(entry, ports), listed)
    return known.matches(subject)


def advised_tree(tree: Tree, artifact: Digest | None, ports: Ports) -> tuple[Match, ...]:
    """Return the advisories that match a skill that no lock has; raises as ``advised``."""
    known, name = ports.advisories.known(), ""
    versions: tuple[str, ...] = ()
    if known:
        with suppress(SkillhubError):
            manifest = read_manifest(tree)
            name, versions = manifest.name, (manifest.version or "",)
    digests = digests_of(tree.listing) | {each.digest: "its tree" for each in (tree, tree.without([SIGNATURE]))}
    digests |= {artifact: "its artifact"} if artifact else {}
    return known.matches(AdvisorySubject(name, versions, None, tuple, lambda: digests))


def advised_skills(ports: Ports) -> list[tuple[str, Match]]:
    """Return the names of locked skills and the advisories that match them; raises as ``advised``."""
    locked = ports.project.lock().skills.items() if ports.advisories.known() else ()
    return [(name, match) for name, entry in locked for match in advised(name, entry, None, ports)]


def refuse_known_bad(name: str, entry: Locked, listing: Listing | None, ports: Ports) -> tuple[Match, ...]:
    """Return the advisories that match a skill, if none of them refuses it.

    Raises:
        KnownBad: an advisory refuses it; no flag and no answer overrides this.
        SourceError, SecurityError, FormatError, StateError: as for ``advised``.
    """
    found = advised(name, entry, listing, ports)
    for match in found:
        if match.is_refused:
            is_locked = name in ports.project.lock().skills
            hint = f"{command(ports.project.scope, 'remove', name)} removes it" if is_locked else "do not use it"
            if match.fixed and entry.named:
                fixed = install_command(name, entry, match.fixed, ports.project.scope)
                hint = f"{hint}; the advisory calls version {match.fixed} fixed: {fixed}"
            shown = entry.version or entry.short
            raise KnownBad(f"{name} {shown} is known to be bad: {match}", where=name, hint=hint)
    return found


def with_advisories(candidate: Candidate, ports: Ports) -> Candidate:
    """Return the candidate with the advisories about its version among its findings.

    Raises:
        KnownBad, SourceError, SecurityError, FormatError, StateError: as for ``refuse_known_bad``.
    """
    found = refuse_known_bad(candidate.name, candidate.entry, candidate.tree.listing, ports)
    findings = [*(each.finding(SKILL_MD) for each in found), *candidate.findings]
    findings.sort(key=lambda each: -SEVERITIES.index(each.severity))
    return candidate if (*findings,) == candidate.findings else replace(candidate, findings=tuple(findings))


Known: TypeAlias = tuple[SkillScope, str, Match]  # scope and name of a locked skill, and an advisory that matches it


def with_known_bad(skills: Iterable[Skill], known: Iterable[Known]) -> list[Skill]:
    """Return the skills, each with the worst advisory that refuses it; ``known`` has the worst of a skill first."""
    worst = {(scope, name): str(match) for scope, name, match in reversed([*known]) if match.is_refused}
    return [replace(each, known_bad=worst.get((each.scope, each.name)) if each.managed else None) for each in skills]


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
        for need in entries[name].dependencies if name in entries else ():
            if not found[name] <= found[need]:
                found[need] |= found[name]
                waiting.append(need)
    return {name: packages or {""} for name, packages in found.items()}


# What decides that a locked skill needs no work, besides the bytes of its files.


def files_about(entries: Mapping[str, Locked], ports: Ports) -> list[str]:
    """Return the files with these skills' pinned signers and their registries' last known state, and their folders.

    Raises:
        OSError: a folder cannot be read.
    """
    sources, found, roots = ports.sources.all(), list[str](), set[Digest]()
    for name, entry in entries.items():
        root = ports.root_of(entry, sources)
        roots |= {root} if root else set()
        if entry.signed_by:
            found.append(ports.publishers.pin_path(candidates.pin_name(name, entry, root)))
    for folder in (ports.sources.last_seen(root).folder for root in sorted(roots)):
        targets, hints = os.path.join(folder, "targets"), os.path.join(folder, HINTS)
        # The timestamps of a folder change as soon as a new file appears in it.
        found += [os.path.dirname(folder), *(each for each in (folder, hints) if os.path.lexists(each))]
        found += [f"{targets}{each}" for each in (names_in(targets) if os.path.lexists(targets) else ())]
    return found


class SharedFacts(NamedTuple):
    """The facts that decide about every skill: this version, trusted publishers, policies and sources."""

    facts: Digest
    sources: Mapping[str, Source]

    @classmethod
    def of(cls, ports: Ports) -> SharedFacts:
        """Return the facts that decide about every skill in this command."""
        sources, policies = ports.sources.all(), [*ports.policies.all]
        facts = code_stamps(), ports.publishers.all(), sources, policies, site_of(ports.environ)
        return cls(Digest.of(repr(facts).encode("utf-8", "surrogateescape")), sources)


def deciding_facts(name: str, shared: SharedFacts, state: State, ports: Ports) -> object:
    """Return all facts, besides the bytes, that decide whether an enabled skill needs no work.

    Return None for a skill that every command must check: one that its registry or an advisory warns of, whose
    validity a time decides, that is patched, that has an entry in the configuration of an agent, or that comes from a
    local folder, where a link may lead to a place that a policy forbids.
    """
    entry, record = state.lock.skills[name], state.agreed(name)
    if record is None or not record.enabled or entry.patch or any(need.kind == "mcp" for need in record.facts.needs):
        return None
    if entry.local and any(policy.sources is not None for policy in ports.policies.all):
        return None
    root = ports.root_of(entry, shared.sources)
    status = ReleaseStatus.last_seen(name, entry, root, ports.sources)
    if status.objection or status.yanked or candidates.revoking(status) or advised(name, entry, None, ports):
        return None
    pinned = None
    if entry.signed_by:
        pinned = ports.publishers.pinned(candidates.pin_name(name, entry, root))
        if pinned is None or {Signer.parse(each).kind for each in entry.signed_by} != {"key"}:
            return None
    needed = [(each, state.lock.skills.get(each), state.enabled(each) is not None) for each in entry.dependencies]
    if not all(locked and is_enabled for _, locked, is_enabled in needed):
        return None
    versions = [(each, locked.version) for each, locked, _ in needed if locked]
    size = status.release.size if status.release else None
    return shared.facts, entry, record, state.lock.sources.get(entry.source), pinned, size, versions


# The facts of a locked skill that policies are checked against, without its bytes.


def policy_subject(name: str, entry: Locked, capabilities: Sequence[str], ports: Ports) -> Subject:
    """Return the subject that policies check for a locked skill without its bytes.

    The locked name of its signer counts as vouched for: whoever agreed to the lock was shown that name.
    """
    signer = Signer.parse(entry.signed_by[0]) if entry.signed_by else None
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
    mine = ports.sources.mine()
    # Trust limited to one source of the user does not extend to a project's source with the same alias.
    source = None if entry.local else entry.source if not entry.named or entry.source in mine else ""
    trusted = candidates.trusted_publishers(ports.publishers)
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

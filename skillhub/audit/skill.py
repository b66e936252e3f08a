"""Audit of one locked skill: each check is a function from a ``Case`` to findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from skillhub.audit.report import Locations
from skillhub.audit.rules import Location, note, seen
from skillhub.audit.verify import StoredSkills
from skillhub.errors import BadSignature, FormatError, NotFound, SkillhubError
from skillhub.formats.digest import Digest
from skillhub.install import candidates
from skillhub.install.admission import asking_for, of_entry, since
from skillhub.install.candidates import ReleaseStatus, TakenBack, choose_release
from skillhub.install.context import Ports, command, reinstall
from skillhub.install.obtain import unsaid
from skillhub.model.finding import Finding
from skillhub.model.hosts import hosts
from skillhub.model.index import Admission
from skillhub.model.lock import Locked, Signer, spelled
from skillhub.model.manifest import Manifest
from skillhub.model.provenance import AUDIT, Provenance
from skillhub.model.record import Record
from skillhub.model.reference import Named
from skillhub.model.version import is_version, precedence
from skillhub.policy.policy import LASTING, Objection
from skillhub.project.copies import link_folders, place
from skillhub.scan import scan
from skillhub.scan.capability import capabilities
from skillhub.trust.publishers import Publisher
from skillhub.trust.registry import publisher_of


@dataclass(frozen=True, slots=True)
class StoredSkill:
    """What was read off a stored skill.

    Attributes:
        can: What it can do; None if its manifest cannot be read.
        fault: Why not.
    """

    findings: tuple[Finding, ...]
    can: tuple[str, ...] | None
    fault: str = ""

    @classmethod
    def of(cls, digest: Digest, stored: StoredSkills) -> StoredSkill | None:
        """Scan it, and read its manifest; None if the store does not have it whole."""
        tree = stored.tree(digest)
        if tree is None:
            return None
        findings = scan(tree)
        try:
            return cls(findings, capabilities(tree, stored.manifest(digest) or Manifest.read(tree)))
        except SkillhubError as error:
            return cls(findings, None, error.message)


@dataclass(frozen=True, slots=True)
class Case:
    """A locked skill, and all that is known of it.

    Attributes:
        record: What this machine knows of it.
        before: What an earlier lock had of it.
        stored: What the store holds of it, if that is whole and to be looked at.
        standing: How it stands with its registry, as that says or last said.
        closed: The agents' folders where a policy permits no skill.
    """

    name: str
    entry: Locked
    record: Record | None
    before: Locked | None
    stored: StoredSkill | None
    standing: ReleaseStatus
    closed: Mapping[str, Objection]
    locations: Locations
    ports: Ports

    @property
    def folder(self) -> str:
        """Where a person finds its files."""
        return self.locations.folder(self.entry.tree, self.record, self.ports.store)

    def note(self, rule: str, message: str, at: Location | None = None) -> Finding:
        """Return a finding about the skill; shown where the lock has it, unless it is said to be elsewhere."""
        return note(rule, message, self.name, at or self.locations.skill(self.name))


_HTTP = ("http://", "git+http://")
Check = Callable[[Case], Iterator[Finding]]


def release(case: Case) -> Iterator[Finding]:
    """Compare the locked release with what its registry says of it."""
    if not case.entry.named and case.entry.place.startswith(_HTTP):
        yield case.note("source-http", f"{case.name} comes from {case.entry.place}")
    standing = case.standing
    if error := standing.objection:
        rule = error.reason if isinstance(error, BadSignature) else error.code
        yield case.note(rule, error.message)
    for text in standing.yanked:
        yield case.note("yanked", text)
    if standing.release is None and standing.offered:
        twin = next((each for each in standing.offered if each.version == case.entry.version), None)
        found = f"{case.name} {case.entry.version}"
        if twin is None:
            yield case.note("release-gone", f"its registry no longer has {found}")
        else:
            message = f"the lock has {found} as {case.entry.digest}, its registry as {twin.digest}"
            yield case.note("release-changed", message)


def change(case: Case) -> Iterator[Finding]:
    """Compare origin, signer and patch with an earlier lock, for whoever reviews a change of it."""
    earlier, entry, name = case.before, case.entry, case.name
    if earlier is None:
        return
    told = Provenance.of(earlier).means(Provenance.of(entry), AUDIT)
    if "origin-changed" in told:
        message = f"{name} came from {_spelled(earlier)}, and comes from {_spelled(entry)}"
        yield case.note("origin-changed", message)
    if "signer-changed" in told:
        # Of an earlier lock the sources are not known here: what was is spelled by its key.
        found = spelled(entry.signed_by, case.ports.voucher(entry))
        message = f"{name} was signed by {', '.join(earlier.signed_by)}, and is signed by {found}"
        yield case.note("signer-changed", message)
    if entry.patch is not None and entry.patch != earlier.patch:
        yield case.note("patch-changed", f"{name} is patched by {entry.patch.path} now, which nobody signed")


def _spelled(entry: Locked) -> str:
    return f"{entry.source} ({entry.origin})"


def signer(case: Case) -> Iterator[Finding]:
    """Check that the locked signer is one whom its registry admits today, or whom the user trusts."""
    is_patched = case.entry.patch is not None
    if not case.entry.signed_by:
        as_patch = ", and neither is this project's patch of it" if is_patched else ""
        yield case.note("unsigned", f"{case.name} is signed by nobody{as_patch}")
        return
    if is_patched:
        yield case.note("unsigned", f"{case.name} is patched by this project, and nobody signed the patch")
    admitted = case.standing.admitted
    if admitted is None:
        return
    try:
        known = _fingerprints(admitted, case.ports)
    except FormatError as error:
        yield case.note("source-refused", f"{case.entry.source}: {error.message}")
        return
    for each in map(Signer.parse, case.entry.signed_by):
        if each.fingerprint not in known:
            named = each.named(case.ports.voucher(case.entry))
            message = (
                f"{named} signed it with {each.fingerprint}, which is no key of {admitted.publisher}, "
                "who has the name today"
            )
            yield case.note("signer-retired", message)


def publisher(case: Case) -> Iterator[Finding]:
    """Check that the user still trusts the signer of what no registry vouches for.

    Who was never trusted, and was agreed to in a question, has lost nothing.
    """
    entry, ports = case.entry, case.ports
    root = ports.root_of(entry)
    proven = candidates.proven(case.name, entry.original, root)
    pinned = ports.publishers.pinned(proven) if root is None and entry.signed_by else None
    if pinned is None or pinned.startswith(candidates.AGREED):
        return
    source, trusted = None if entry.local else entry.source, candidates.trusted(ports.publishers)
    known, narrowed = _vouched(each for each in trusted if each.covers(source)), _vouched(trusted)
    for signed in map(Signer.parse, entry.signed_by):
        if signed.fingerprint not in known:
            here = f" for {source or 'local paths'}" if signed.fingerprint in narrowed else ""
            message = f"{signed.identity} signed it with {signed.fingerprint}, whom you no longer trust{here}"
            yield case.note("signer-untrusted", message)


def _fingerprints(admitted: Admission, ports: Ports) -> set[str]:
    """Return the keys and roots that anybody vouches for today; a revoked one is told of as such."""
    vouched = _vouched([publisher_of(admitted), *candidates.trusted(ports.publishers)])
    return {each.fingerprint for each in admitted.revoked} | vouched


def _vouched(publishers: Iterable[Publisher]) -> set[str]:
    return {fingerprint for each in publishers for fingerprint in each.fingerprints}


def age(case: Case) -> Iterator[Finding]:
    """Look for a newer version."""
    version = case.entry.version or ""
    offered = case.standing.offered
    if not offered or not is_version(version):
        return
    with suppress(NotFound, TakenBack):
        newest = choose_release(Named(case.name, case.entry.source), offered).version or ""
        if precedence(newest) > precedence(version):
            message = f"{case.name} is locked at {version}, {newest} is the newest"
            scope, wanted = case.ports.project.scope, f"{case.name}@{newest}"
            look = f"{command(scope, 'diff', wanted)} shows what it changes"
            take = f"{command(scope, 'install', f'{case.entry.source}:{wanted}')} takes it"
            yield replace(case.note("outdated", message), hint=f"{look}, {take}")


def agents(case: Case) -> Iterator[Finding]:
    """Report copies in the folder of an agent that a policy permits no skill, unless another agent reads it too.

    Raises:
        LinkLeavesProject: a folder of the project is a link to somewhere outside of it.
    """
    for link in case.record.links if case.record and case.record.enabled else ():
        if objection := case.closed.get(link.rpartition("/")[0]):
            at = case.locations.shown(place(case.ports.project, link)), 0
            yield case.note("policy", f"{objection.message} ({objection.where})", at)


def closed_folders(ports: Ports) -> Mapping[str, Objection]:
    """Return the folders that no agent which may have skills reads as its own, and the line of a policy that says so.

    Raises:
        LinkLeavesProject: as for ``agents``.
    """
    found: dict[str, Objection | None] = {}
    is_asked = any(policy.agents is not None for policy in ports.policies.each)
    for host in hosts().values() if is_asked else ():
        objection = ports.policies.against_agent(host.id)
        # The first is the shared one, which is no agent's own.
        for folder in link_folders(ports.project, [host], ports.user_home, ports.environ)[1:]:
            found[folder] = found.get(folder, objection) and objection
    return {folder: objection for folder, objection in found.items() if objection is not None}


def content(case: Case) -> Iterator[Finding]:
    """Report what the scan saw in the stored files, and what they can do that the lock does not say."""
    if case.stored is None:
        return
    for found in case.stored.findings:
        yield seen(found, case.name, case.folder)
    if case.stored.can is None:
        yield case.note("malformed", case.stored.fault, (f"{case.folder}/SKILL.md", 0))
    elif message := unsaid(case.stored.can, case.entry):
        noted = case.note("capability-unsaid", message)
        words = asking_for(case.name, case.entry, case.ports)
        again = reinstall(case.ports.project.scope, case.name, words)
        hint = f"if it may: {again}; the lock says so then"
        yield noted if case.entry.patch else replace(noted, hint=hint)


def policy(case: Case) -> Iterator[Finding]:
    """Check it by the policies of machine, user and project, as if it were installed today."""
    policies, stored, entry = case.ports.policies, case.stored, case.entry
    if not policies:
        return
    can = stored.can if stored is not None and stored.can is not None else entry.capabilities
    subject, keys = of_entry(case.name, entry, can, case.ports), LASTING
    if stored is not None:
        subject, keys = replace(subject, findings=stored.findings), keys | {"fail-on"}
    locked = case.standing.release
    if locked is not None and (out := since(locked.published, case.ports)) is not None:
        subject, keys = replace(subject, age=out), keys | {"min-age-days"}
    for found in policies.objections(subject, keys):
        yield case.note("policy", f"{found.message} ({found.where})")


# Of where a skill came from and who signed it, and of all else.
TRUST: tuple[Check, ...] = (release, change, signer, publisher)
CHECKS: tuple[Check, ...] = (*TRUST, age, agents, content, policy)

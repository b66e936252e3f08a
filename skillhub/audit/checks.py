"""The checks of the audit: of one locked skill, and of a skill that is in no lock."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from skillhub.audit.report import RULES, Location, Locations, finding_of, located
from skillhub.audit.suppressions import Acceptance
from skillhub.audit.verify import LEFT_THE_LOCK, removal_of
from skillhub.author.author import Signature, signature_of, validate
from skillhub.command.ports import Ports
from skillhub.disk import files
from skillhub.disk.folders import LARGEST
from skillhub.errors import BadSignature, FormatError, NotFound, SkillhubError, UnsafeArchive
from skillhub.formats.digest import Digest
from skillhub.formats.text import command, reinstall
from skillhub.install import pins
from skillhub.install.admission import advised, advised_tree, install_words, policy_subject, since
from skillhub.install.candidates import undeclared
from skillhub.model.finding import Finding, Issue
from skillhub.model.hosts import hosts
from skillhub.model.index import TakenBack, choose_release
from skillhub.model.lock import Locked, Signer, by_word, shown_signers
from skillhub.model.manifest import Manifest
from skillhub.model.provenance import AUDIT, Provenance, Record
from skillhub.model.reference import Named
from skillhub.model.tree import SIGNATURE, SKILL_MD, Tree
from skillhub.model.version import Range, is_version, precedence
from skillhub.policy.policy import LASTING, Objection
from skillhub.project.copies import link_folders, path_of
from skillhub.project.last_seen import ReleaseStatus
from skillhub.scan import ScannedSkill
from skillhub.scan.results import ScanCache
from skillhub.sources.local import read_local
from skillhub.trust.publishers import Publisher, publisher_of

# The checks of one locked skill: each is a function from a ``Case`` to findings.


@dataclass(frozen=True, slots=True)
class Case:
    """A locked skill, with the facts that the checks compare.

    Attributes:
        record: The record of this machine.
        before: The entry of an earlier lock.
        stored: The scan of the stored tree, if the tree is complete and the request includes its content.
        status: The status of the release according to its registry, by its present or its last answer.
        closed: The agents' folders in which a policy permits no skill.
    """

    name: str
    entry: Locked
    record: Record | None
    before: Locked | None
    stored: ScannedSkill | None
    status: ReleaseStatus
    closed: Mapping[str, Objection]
    locations: Locations
    ports: Ports

    @property
    def folder(self) -> str:
        """The folder in which a person finds the files of the skill."""
        return self.locations.folder(self.entry.tree, self.record, self.ports.store)

    def finding(self, rule: str, message: str, location: Location | None = None) -> Finding:
        """Return a finding about the skill, located at ``location`` or else at the skill's line of the lock."""
        finding = finding_of(rule, message, self.name, location or self.locations.skill(self.name))
        error = self.status.objection if rule in _RECALLED else None
        project = self.ports.project
        way = self.status.remedy(error, project.scope, project.intent) if error else None
        return replace(finding, hint=way.hint) if way else finding


_RECALLED = frozenset({"withdrawn", "revoked", "name-not-owned"})
_HTTP = ("http://", "git+http://")
SkillCheck = Callable[[Case], Iterator[Finding]]


def release(case: Case) -> Iterator[Finding]:
    """Compare the locked release with the answer of its registry."""
    if not case.entry.named and case.entry.place.startswith(_HTTP):
        yield case.finding("source-http", f"{case.name} comes from {case.entry.place}")
    status = case.status
    if error := status.objection:
        yield case.finding(error.reason if isinstance(error, BadSignature) else error.code, error.message)
    for text in status.yanked:
        yield case.finding("yanked", text)
    if status.release is None and status.offered:
        registered = next((offer for offer in status.offered if offer.version == case.entry.version), None)
        locked = f"{case.name} {case.entry.version}"
        if registered is None:
            yield case.finding("release-gone", f"its registry no longer has {locked}")
        else:
            message = f"the lock has {locked} as {case.entry.digest}, its registry as {registered.digest}"
            yield case.finding("release-changed", message)


def change(case: Case) -> Iterator[Finding]:
    """Compare origin, signer and patch with an earlier lock, for the review of a change of the lock."""
    earlier, entry, name = case.before, case.entry, case.name
    if earlier is None:
        return
    changes = Provenance.of(earlier).means(Provenance.of(entry), AUDIT)
    if "origin-changed" in changes:
        message = f"{name} came from {_source_and_origin(earlier)}, and now comes from {_source_and_origin(entry)}"
        yield case.finding("origin-changed", message)
    if "signer-changed" in changes:
        before = shown_signers(earlier.signed_by, earlier.voucher)
        now = shown_signers(entry.signed_by, case.ports.voucher(entry))
        yield case.finding("signer-changed", f"{name} was signed by {before}, and is now signed by {now}")
    if entry.patch is not None and entry.patch != earlier.patch:
        message = f"{name} is patched by {entry.patch.path} now, and the patch is not signed"
        yield case.finding("patch-changed", message)


def _source_and_origin(entry: Locked) -> str:
    return f"{entry.source} ({entry.origin})"


def signer(case: Case) -> Iterator[Finding]:
    """Check that the registry admits the locked signer today, or that the user trusts it."""
    is_patched = case.entry.patch is not None
    if not case.entry.signed_by:
        as_patch = ", and neither is this project's patch of it" if is_patched else ""
        yield case.finding("unsigned", f"{case.name} is not signed{as_patch}")
        return
    if is_patched:
        yield case.finding("unsigned", f"{case.name} is patched by this project, and the patch is not signed")
    admitted = case.status.admitted
    if admitted is None:
        return
    try:
        known = _vouched([publisher_of(admitted), *pins.trusted_publishers(case.ports.publishers)])
        known |= {key.fingerprint for key in admitted.revoked}  # a revoked key is another finding
    except FormatError as error:
        yield case.finding("source-refused", f"{case.entry.source}: {error.message}")
        return
    for signed in map(Signer.parse, case.entry.signed_by):
        if signed.fingerprint not in known:
            voucher = case.ports.voucher(case.entry)
            message = (
                f"{signed.named(voucher)} signed it with {signed.fingerprint}, which is no key of "
                f"{by_word(admitted.publisher, voucher)}, the present owner of the name"
            )
            yield case.finding("signer-retired", message)


def publisher(case: Case) -> Iterator[Finding]:
    """Check that the user still trusts the signer of a skill that no registry vouches for.

    A signer that the user accepted in a question, and never trusted, is no finding.
    """
    entry, ports = case.entry, case.ports
    root = ports.root_of(entry)
    pin = pins.pin_name(case.name, entry.original, root)
    pinned = ports.publishers.pinned(pin) if root is None and entry.signed_by else None
    if pinned is None or pinned.startswith(pins.AGREED):
        return
    limit, trusted = ports.trusted_for(entry.source), pins.trusted_publishers(ports.publishers)
    trusted_here = _vouched(publisher for publisher in trusted if publisher.covers(limit))
    trusted_anywhere = _vouched(trusted)
    for signed in map(Signer.parse, entry.signed_by):
        if signed.fingerprint not in trusted_here:
            place = ""
            if signed.fingerprint in trusted_anywhere:
                place = f" for {'local paths' if entry.local else entry.source}"
            signer_name = signed.named(ports.voucher(entry))
            message = f"{signer_name} signed it with {signed.fingerprint}, and you no longer trust that signer{place}"
            yield case.finding("signer-untrusted", message)


def _vouched(publishers: Iterable[Publisher]) -> set[str]:
    return {fingerprint for publisher in publishers for fingerprint in publisher.fingerprints}


def age(case: Case) -> Iterator[Finding]:
    """Look for a newer version."""
    version, offered = case.entry.version or "", case.status.offered
    if not offered or not is_version(version):
        return
    with suppress(NotFound, TakenBack):
        release = choose_release(Named(case.name, case.entry.source), offered)
        newest = release.version or ""
        if precedence(newest) > precedence(version):
            message = f"{case.name} is locked at {version}, {newest} is the newest"
            diff = command(scope := case.ports.project.scope, "diff", f"{case.name}@{newest}")
            install = case.status.install_command(release, newest, scope)
            with suppress(SkillhubError):
                allowed = case.ports.project.intent().range_of(case.name)
                if allowed is not None and not Range(allowed).allows(newest):
                    message += f"; skillhub.toml allows {allowed}"
                elif not case.status.is_by_another(release):
                    install = command(scope, "update", case.name)  # leaves the intent unchanged
            hint = f"{diff} shows what it changes, {install} installs it"
            yield replace(case.finding("outdated", message), hint=hint)


def agents(case: Case) -> Iterator[Finding]:
    """Report copies in the folders of agents for which a policy permits no skill.

    A folder that a permitted agent reads too is no finding.

    Raises:
        LinkLeavesProject: a folder of the project is a link that leads outside of the project.
    """
    if not (case.record and case.record.enabled):
        return
    for link in case.record.links:
        if objection := case.closed.get(link.rpartition("/")[0]):
            location = case.locations.shown(path_of(case.ports.project, link)), 0
            yield case.finding("policy", f"{objection.message} ({objection.where})", location)


def closed_folders(ports: Ports) -> Mapping[str, Objection]:
    """Return the agents' own folders that no permitted agent reads, each with the line of the policy.

    Raises:
        LinkLeavesProject: as for ``agents``.
    """
    objections: dict[str, Objection | None] = {}
    if all(policy.agents is None for policy in ports.policies.all):
        return {}
    for host in hosts().values():
        objection = ports.policies.against_agent(host.id)
        # The first folder is shared by the agents.
        for folder in link_folders(ports.project, [host], ports.user_home, ports.environ)[1:]:
            objections[folder] = objections.get(folder, objection) and objection
    return {folder: objection for folder, objection in objections.items() if objection is not None}


def content(case: Case) -> Iterator[Finding]:
    """Report the findings of the scan in the stored files, and capabilities that the lock does not list."""
    if case.stored is None:
        return
    for finding in case.stored.findings:
        yield _with_policy(located(finding, case.name, case.folder), case.ports)
    for breach in case.stored.breaches:
        yield case.finding("form", breach, (f"{case.folder}/{SKILL_MD}", 0))
    if case.stored.capabilities is None:
        yield case.finding("malformed", case.stored.fault, (f"{case.folder}/SKILL.md", 0))
    elif message := undeclared(case.stored.capabilities, case.entry):
        unsaid = case.finding("capability-unsaid", message)
        words = install_words(case.name, case.entry, case.ports)
        install = reinstall(case.ports.project.scope, case.name, words)
        yield unsaid if case.entry.patch else replace(unsaid, hint=f"to accept it: {install}; the lock then lists it")


def known(case: Case) -> Iterator[Finding]:
    """Report the advisories about the skill."""
    path, line = case.locations.skill(case.name)
    for match in advised(case.name, case.entry, None, case.ports):
        yield match.finding(path or "", line, case.name)


def _with_policy(finding: Finding, ports: Ports) -> Finding:
    """Return a finding of the scan, marked if ``allow-findings`` accepts it; a project's policy cannot set that."""
    return replace(finding, accepted_by="a policy" if ports.policies.allows_finding(finding.rule) else "")


def policy(case: Case) -> Iterator[Finding]:
    """Check the skill by the policies of machine, user and project, as if it were installed today."""
    policies, stored, entry = case.ports.policies, case.stored, case.entry
    if not policies:
        return
    known = stored.capabilities if stored is not None and stored.capabilities is not None else entry.capabilities
    subject, keys = policy_subject(case.name, entry, known, case.ports), LASTING
    if stored is not None:
        subject, keys = replace(subject, findings=stored.findings), keys | {"fail-on"}
    locked = case.status.release
    elapsed = since(locked.published, case.ports) if locked is not None else None
    if elapsed is not None:
        subject, keys = replace(subject, age=elapsed), keys | {"min-age-days"}
    for objection in policies.objections(subject, keys):
        yield case.finding("policy", f"{objection.message} ({objection.where})")


# TRUST: origin and signer; CHECKS: everything.
TRUST: tuple[SkillCheck, ...] = (release, known, change, signer, publisher)
CHECKS: tuple[SkillCheck, ...] = (*TRUST, age, agents, content, policy)


# Skills that are in no lock: in agents' folders, and at paths that the user names.


@dataclass(frozen=True, slots=True)
class Inspection:
    """The values that the audit of every skill needs.

    Attributes:
        left: The copies of skills that left the lock.
    """

    locations: Locations
    acceptance: Acceptance
    cache: ScanCache
    left: Collection[str]
    ports: Ports


def unmanaged(folder: str, shared: Inspection, reported: Collection[str | None]) -> Iterator[Finding]:
    """Yield the findings about a skill that is in an agent's folder and in no lock; its place may be reported."""
    name, shown = os.path.basename(folder), shared.locations.shown(folder)
    removal = f"{removal_of(folder, shared.ports)} removes it"
    fault = "unmanaged", "an agent reads it, and it is in no lock"
    fault = ("not-enabled", LEFT_THE_LOCK) if folder in shared.left else fault
    findings = [finding_of(*fault, name, (shown, 0))] if shown not in reported else []
    try:
        tree = read_local(folder).tree
    except SkillhubError as error:
        rule = "unsafe-archive" if isinstance(error, UnsafeArchive) else "not-scanned"
        yield from (*findings, replace(finding_of(rule, error.message, name, (shown, 0)), hint=removal))
        return
    once, malformed = "", []
    try:
        own = Manifest.read(tree).name
        once = "" if own == name else f"its folder is named {own}, as the skill is"
    except SkillhubError as error:  # an agent may still read it
        once, malformed = "it is valid", [finding_of("malformed", error.message, name, (shown, 0))]
    hint = f"adopt locks it once {once}; {removal}"
    findings = [replace(each, hint=hint) if once and each.rule == "unmanaged" else each for each in findings]
    findings += malformed
    signature = signature_of(tree, shared.ports.publishers, shared.ports.clock())[1]
    findings += (match.finding(shown, skill=name) for match in advised_tree(tree, None, shared.ports))
    # ``allow-findings`` does not apply: a skill in no lock was never checked by a policy.
    findings += _content(shared.cache.read(tree), signature, name, shown, removal)
    yield from shared.acceptance.judged(findings, name, tree.digest, shown)


def at_path(path: str, shared: Inspection) -> Iterator[Finding]:
    """Yield the findings of ``validate`` and of the scan about a folder or an archive.

    The paths of the findings are absolute if ``path`` is.

    Raises:
        NotFound: there is no file or folder at the path.
        UsageError: the file is not an archive.
        StateError: it cannot be read.
    """
    skill = validate(path, shared.ports.publishers, shared.ports.clock())
    expanded = os.path.expanduser(path)
    whole = os.path.abspath(expanded)
    shown = whole if os.path.isabs(expanded) else shared.locations.shown(whole)
    name = name_at(path, skill.content)
    form = "not-scanned" if skill.content is None else "malformed"
    errors = skill.errors if skill.name is None else ()
    findings = [_issue_finding(error, error.code if error.code in RULES else form, name, shown) for error in errors]
    # `_content` yields the other faults of its form, which do not depend on where the skill is.
    here = [each for each in (*skill.errors, *skill.warnings) if each.code in ("folder-name", "archive", "untrusted")]
    findings += (_issue_finding(issue, "form", name, shown) for issue in here)
    if skill.content is None or skill.signature is None:
        yield from findings
        return
    if skill.signature.status == "unsigned":
        findings.append(finding_of("unsigned", "it is not signed", name, (shown, 0)))
    artifact = Digest.of(files.read(expanded, LARGEST) or b"") if os.path.isfile(expanded) else None
    findings += (match.finding(shown, skill=name) for match in advised_tree(skill.content, artifact, shared.ports))
    scanned = shared.cache.read(skill.content)
    contents = _content(scanned, skill.signature, name, shown, "do not use it")
    findings += (_with_policy(finding, shared.ports) for finding in contents)
    yield from shared.acceptance.judged(findings, name, skill.content.digest, shown)


def name_at(path: str, tree: Tree | None) -> str:
    """Return the name of the skill at a path, or the name of its folder or archive if the skill has none."""
    if tree is not None:
        with suppress(SkillhubError):
            return Manifest.read(tree).name
    return os.path.basename(os.path.abspath(os.path.expanduser(path)))


def _content(scanned: ScannedSkill, signature: Signature, name: str, shown: str, hint: str) -> Iterator[Finding]:
    """Yield the findings about a skill in no lock; ``hint`` is what to do about a bad signature."""
    if signature.status == "invalid":
        rule = "revoked" if signature.code == "revoked" else "signature"
        yield replace(finding_of(rule, signature.message, name, (f"{shown}/{SIGNATURE}", 0)), hint=hint)
    for finding in scanned.findings:
        yield located(finding, name, shown)
    for breach in scanned.breaches:
        yield finding_of("form", breach, name, (f"{shown}/{SKILL_MD}", 0))


def _issue_finding(issue: Issue, rule: str, name: str, shown: str) -> Finding:
    return finding_of(rule, f"{issue.message} [{issue.code}]", name, (shown, 0))

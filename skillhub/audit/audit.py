"""Audit: compares installed skills and their sources with lock, disk and present trust; also skills in no lock."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain

from skillhub.audit.report import RULES, Location, Locations, Report, note, seen, worst_first
from skillhub.audit.sources import Inquiry
from skillhub.audit.suppressions import Acceptance, BaselineFile
from skillhub.audit.verify import LEFT_THE_LOCK, StoredSkills, Verified, Verifier, removal_of, tracked_copies
from skillhub.author.author import Signature, signature_of, validate
from skillhub.command.ports import Ports
from skillhub.command.state import read_unchecked, users_hint
from skillhub.disk import files
from skillhub.disk.folders import LARGEST
from skillhub.errors import BadSignature, FormatError, NotFound, SkillhubError, StateError, UnsafeArchive, UsageError
from skillhub.formats.digest import Digest
from skillhub.formats.text import command, quote, reinstall
from skillhub.install import pins
from skillhub.install.admission import advised, advised_tree, install_words, policy_subject, since
from skillhub.install.candidates import ReleaseStatus, undeclared
from skillhub.model.finding import SEVERITIES, Finding, Issue, Severity
from skillhub.model.hosts import hosts
from skillhub.model.index import Admission, TakenBack, choose_release
from skillhub.model.lock import Lock, Locked, Signer, by_word, shown_signers
from skillhub.model.manifest import Manifest
from skillhub.model.provenance import AUDIT, Provenance, Record
from skillhub.model.reference import Local, Named, parse_ref
from skillhub.model.tree import SIGNATURE, SKILL_MD, Tree
from skillhub.model.version import Range, is_version, precedence
from skillhub.policy.policy import LASTING, Objection
from skillhub.project import copies
from skillhub.project.copies import link_folders, path_of
from skillhub.project.intent import in_full
from skillhub.project.last_seen import install_command
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

    def note(self, rule: str, message: str, location: Location | None = None) -> Finding:
        """Return a finding about the skill, located at ``location`` or else at the skill's line of the lock."""
        finding = note(rule, message, self.name, location or self.locations.skill(self.name))
        error = self.status.objection if rule in _RECALLED else None
        return replace(finding, hint=self.status.remedy(error, self.ports.project).hint) if error else finding


_RECALLED = frozenset({"withdrawn", "revoked", "name-not-owned"})
_HTTP = ("http://", "git+http://")
Check = Callable[[Case], Iterator[Finding]]


def release(case: Case) -> Iterator[Finding]:
    """Compare the locked release with the answer of its registry."""
    if not case.entry.named and case.entry.place.startswith(_HTTP):
        yield case.note("source-http", f"{case.name} comes from {case.entry.place}")
    status = case.status
    if error := status.objection:
        rule = error.reason if isinstance(error, BadSignature) else error.code
        yield case.note(rule, error.message)
    for text in status.yanked:
        yield case.note("yanked", text)
    if status.release is None and status.offered:
        registered = next((offer for offer in status.offered if offer.version == case.entry.version), None)
        locked = f"{case.name} {case.entry.version}"
        if registered is None:
            yield case.note("release-gone", f"its registry no longer has {locked}")
        else:
            message = f"the lock has {locked} as {case.entry.digest}, its registry as {registered.digest}"
            yield case.note("release-changed", message)


def change(case: Case) -> Iterator[Finding]:
    """Compare origin, signer and patch with an earlier lock, for the review of a change of the lock."""
    earlier, entry, name = case.before, case.entry, case.name
    if earlier is None:
        return
    changes = Provenance.of(earlier).means(Provenance.of(entry), AUDIT)
    if "origin-changed" in changes:
        message = f"{name} came from {_source_and_origin(earlier)}, and now comes from {_source_and_origin(entry)}"
        yield case.note("origin-changed", message)
    if "signer-changed" in changes:
        before = shown_signers(earlier.signed_by, earlier.voucher)
        now = shown_signers(entry.signed_by, case.ports.voucher(entry))
        message = f"{name} was signed by {before}, and is now signed by {now}"
        yield case.note("signer-changed", message)
    if entry.patch is not None and entry.patch != earlier.patch:
        yield case.note("patch-changed", f"{name} is patched by {entry.patch.path} now, and the patch is not signed")


def _source_and_origin(entry: Locked) -> str:
    return f"{entry.source} ({entry.origin})"


def signer(case: Case) -> Iterator[Finding]:
    """Check that the registry admits the locked signer today, or that the user trusts it."""
    is_patched = case.entry.patch is not None
    if not case.entry.signed_by:
        as_patch = ", and neither is this project's patch of it" if is_patched else ""
        yield case.note("unsigned", f"{case.name} is not signed{as_patch}")
        return
    if is_patched:
        yield case.note("unsigned", f"{case.name} is patched by this project, and the patch is not signed")
    admitted = case.status.admitted
    if admitted is None:
        return
    try:
        known = _fingerprints(admitted, case.ports)
    except FormatError as error:
        yield case.note("source-refused", f"{case.entry.source}: {error.message}")
        return
    for signed in map(Signer.parse, case.entry.signed_by):
        if signed.fingerprint not in known:
            voucher = case.ports.voucher(case.entry)
            message = (
                f"{signed.named(voucher)} signed it with {signed.fingerprint}, which is no key of "
                f"{by_word(admitted.publisher, voucher)}, the present owner of the name"
            )
            yield case.note("signer-retired", message)


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
    known, narrowed = _vouched(publisher for publisher in trusted if publisher.covers(limit)), _vouched(trusted)
    for signed in map(Signer.parse, entry.signed_by):
        if signed.fingerprint not in known:
            place = f" for {'local paths' if entry.local else entry.source}" if signed.fingerprint in narrowed else ""
            signer_name = signed.named(ports.voucher(entry))
            message = f"{signer_name} signed it with {signed.fingerprint}, and you no longer trust that signer{place}"
            yield case.note("signer-untrusted", message)


def _fingerprints(admitted: Admission, ports: Ports) -> set[str]:
    """Return the keys and roots that the registry or the user vouches for today, and the revoked ones.

    A revoked key is another finding.
    """
    vouched = _vouched([publisher_of(admitted), *pins.trusted_publishers(ports.publishers)])
    return {key.fingerprint for key in admitted.revoked} | vouched


def _vouched(publishers: Iterable[Publisher]) -> set[str]:
    return {fingerprint for publisher in publishers for fingerprint in publisher.fingerprints}


def age(case: Case) -> Iterator[Finding]:
    """Look for a newer version."""
    version, offered = case.entry.version or "", case.status.offered
    if not offered or not is_version(version):
        return
    with suppress(NotFound, TakenBack):
        newest = choose_release(Named(case.name, case.entry.source), offered).version or ""
        if precedence(newest) > precedence(version):
            message = f"{case.name} is locked at {version}, {newest} is the newest"
            diff = command(scope := case.ports.project.scope, "diff", f"{case.name}@{newest}")
            install = install_command(case.name, case.entry, newest, scope)
            with suppress(SkillhubError):
                line = case.ports.project.intent().skills.get(case.name)
                if line is None or line.version is None or Range(line.version).allows(newest):
                    install = command(scope, "update", case.name)  # leaves the intent unchanged
            yield replace(case.note("outdated", message), hint=f"{diff} shows what it changes, {install} installs it")


def agents(case: Case) -> Iterator[Finding]:
    """Report copies in the folders of agents for which a policy permits no skill.

    A folder that a permitted agent reads too is no finding.

    Raises:
        LinkLeavesProject: a folder of the project is a link that leads outside of the project.
    """
    for link in case.record.links if case.record and case.record.enabled else ():
        if objection := case.closed.get(link.rpartition("/")[0]):
            location = case.locations.shown(path_of(case.ports.project, link)), 0
            yield case.note("policy", f"{objection.message} ({objection.where})", location)


def closed_folders(ports: Ports) -> Mapping[str, Objection]:
    """Return the agents' own folders that no permitted agent reads, each with the line of the policy.

    Raises:
        LinkLeavesProject: as for ``agents``.
    """
    objections: dict[str, Objection | None] = {}
    is_limited = any(policy.agents is not None for policy in ports.policies.all)
    for host in hosts().values() if is_limited else ():
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
        yield _with_policy(seen(finding, case.name, case.folder), case.ports)
    for breach in case.stored.breaches:
        yield case.note("form", breach, (f"{case.folder}/{SKILL_MD}", 0))
    if case.stored.capabilities is None:
        yield case.note("malformed", case.stored.fault, (f"{case.folder}/SKILL.md", 0))
    elif message := undeclared(case.stored.capabilities, case.entry):
        unsaid = case.note("capability-unsaid", message)
        words = install_words(case.name, case.entry, case.ports)
        install = reinstall(case.ports.project.scope, case.name, words)
        hint = f"to accept it: {install}; the lock then lists it"
        yield unsaid if case.entry.patch else replace(unsaid, hint=hint)


def known(case: Case) -> Iterator[Finding]:
    """Report the advisories about the skill."""
    path, line = case.locations.skill(case.name)
    for match in advised(case.name, case.entry, None, case.ports):
        yield replace(match.finding(path or ""), line=line, skill=case.name)


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
    if locked is not None and (elapsed := since(locked.published, case.ports)) is not None:
        subject, keys = replace(subject, age=elapsed), keys | {"min-age-days"}
    for objection in policies.objections(subject, keys):
        yield case.note("policy", f"{objection.message} ({objection.where})")


# TRUST: origin and signer; CHECKS: everything.
TRUST: tuple[Check, ...] = (release, known, change, signer, publisher)
CHECKS: tuple[Check, ...] = (*TRUST, age, agents, content, policy)


# Audit of skills that are in no lock: in agents' folders, and at paths that the user names.


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
    findings = [note(*fault, name, (shown, 0))] if shown not in reported else []
    try:
        tree = read_local(folder).tree
    except SkillhubError as error:
        rule = "unsafe-archive" if isinstance(error, UnsafeArchive) else "not-scanned"
        yield from (*findings, replace(note(rule, error.message, name, (shown, 0)), hint=removal))
        return
    try:
        Manifest.read(tree)
    except SkillhubError as error:  # an agent may still read it
        findings.append(note("malformed", error.message, name, (shown, 0)))
    signature = signature_of(tree, shared.ports.publishers, shared.ports.clock())[1]
    findings += (replace(match.finding(shown), skill=name) for match in advised_tree(tree, None, shared.ports))
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
    name = _name_at(path, skill.content)
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
        findings.append(note("unsigned", "it is not signed", name, (shown, 0)))
    artifact = Digest.of(files.read(expanded, LARGEST) or b"") if os.path.isfile(expanded) else None
    matches = advised_tree(skill.content, artifact, shared.ports)
    findings += (replace(match.finding(shown), skill=name) for match in matches)
    scanned = shared.cache.read(skill.content)
    contents = _content(scanned, skill.signature, name, shown, "do not use it")
    findings += (_with_policy(finding, shared.ports) for finding in contents)
    yield from shared.acceptance.judged(findings, name, skill.content.digest, shown)


def _name_at(path: str, tree: Tree | None) -> str:
    """Return the name of the skill at a path, or the name of its folder or archive if the skill has none."""
    if tree is not None:
        with suppress(SkillhubError):
            return Manifest.read(tree).name
    return os.path.basename(os.path.abspath(os.path.expanduser(path)))


def _content(scanned: ScannedSkill, signature: Signature, name: str, shown: str, hint: str) -> Iterator[Finding]:
    """Yield the findings about a skill in no lock; ``hint`` is what to do about a bad signature."""
    if signature.status == "invalid":
        rule = "revoked" if signature.code == "revoked" else "signature"
        yield replace(note(rule, signature.message, name, (f"{shown}/{SIGNATURE}", 0)), hint=hint)
    for finding in scanned.findings:
        yield seen(finding, name, shown)
    for breach in scanned.breaches:
        yield note("form", breach, name, (f"{shown}/{SKILL_MD}", 0))


def _issue_finding(issue: Issue, rule: str, name: str, shown: str) -> Finding:
    return note(rule, f"{issue.message} [{issue.code}]", name, (shown, 0))


# Audit: compares installed skills and their sources with the lock, the disk and present trust; changes no skill.


@dataclass(frozen=True, slots=True)
class AuditRequest:
    """What to audit, and how.

    Attributes:
        names: Skills that are locked or in an agent's folder; without names and paths, all of them.
        paths: Folders and archives, installed or not.
        sources_alone: Whether to audit only sources, releases and signers.
        refresh: Whether to ask registries and places; otherwise the last answers of registries are used, and newer
            versions of places are unknown.
        threshold: The severity from which on a finding fails the audit.
        before: An earlier lock to compare with the present one.
        baseline: Known findings.
        records: Whether findings that a project may accept become the baseline.
        remember: Whether to cache the results of the scan.
        is_package: Whether the names are the skills of the project's package; other skills in its folder count, too.

    Raises:
        UsageError: the threshold is no severity.
    """

    names: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    sources_alone: bool = False
    refresh: bool = True
    threshold: Severity = "high"
    before: Lock | None = None
    baseline: BaselineFile | None = None
    records: bool = False
    remember: bool = True
    is_package: bool = False

    def __post_init__(self) -> None:
        if self.threshold not in SEVERITIES:
            raise UsageError(f"expected a severity ({', '.join(SEVERITIES)}), found {quote(self.threshold)}")

    @property
    def is_all(self) -> bool:
        """Whether the audit covers everything here."""
        return not (self.names or self.paths or self.is_package)


def names_and_paths(words: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the words that name skills, and those that are paths.

    Raises:
        UsageError: a word is neither.
    """
    refs = [(typed, parse_ref(typed)) for typed in words]
    for typed, ref in refs:
        if not isinstance(ref, Local) and ref != Named(typed):
            raise UsageError(
                f"expected the name of a skill or a path, found {quote(typed)}", hint="put ./ before a path"
            )
    names = tuple(typed for typed, ref in refs if isinstance(ref, Named))
    return names, tuple(ref.path for _, ref in refs if isinstance(ref, Local))


def audit(request: AuditRequest, ports: Ports) -> Report:
    """Audit the skills and sources of a request, and return the report.

    Raises:
        NotFound: a name is neither locked nor in an agent's folder, or a path does not exist.
        UsageError: a path leads to a file that is not an archive.
        FormatError: the lock or the intent is malformed.
        StateError: a file or folder of the project or of this user's state cannot be read.
    """
    state = read_unchecked(ports.project)
    state = replace(state, intent=in_full(state.intent, state.lock, ports.sources.places()))
    locations = Locations(ports.project, state.lock)
    subjects = _subjects(request, state.lock, ports)
    sources = Inquiry(state, locations, ports, refresh=request.refresh)
    sources.ask_registries(subjects.locked)
    sources.ask_advisories()
    findings = [*sources.configured(subjects.aliases)]
    source_changes = worst_first(sources.changed(request.before)) if request.before is not None else ()
    checks = TRUST if request.sources_alone else CHECKS
    stored, cache = StoredSkills(ports.store), ScanCache(ports.project.home, remember=request.remember)
    # With the lock read above: another process may have changed the file meanwhile.
    is_verified = subjects.locked and not request.sources_alone
    verifier = Verifier(ports, stored, state.lock, state.records) if is_verified else None
    unasked = {*copies.not_agreed(ports.project)}
    unchanged = set()
    acceptance = Acceptance(state.intent.suppressions, request.baseline, request.records, ports.clock())
    left_copies = copies.left_the_lock(ports.project, state.lock, state.records)
    shared = Inspection(locations, acceptance, cache, {*chain(*left_copies.values())}, ports)
    if not request.sources_alone:
        cache.fill((state.lock.skills[name].tree for name in subjects.locked), ports.store.read, ports.report)
    for case in _cases(subjects.locked, request, sources, stored, cache):
        case_findings = [finding for check in checks for finding in check(case)]
        findings += acceptance.judged(case_findings, case.name, case.entry.tree, case.folder if case_findings else "")
        if verifier is not None:
            verified = verifier.verify(case.name, sources.statuses.get(case.name))
            findings += _drift_findings(case, verified, is_unasked=case.name in unasked)
            unchanged |= {case.name} if sources.is_unchanged(case.name, stored) else set()
    reported = {finding.path for finding in findings}
    if not request.sources_alone:
        sources.ask_places([name for name in subjects.locked if name not in unchanged])
        try:
            findings += _tracked_findings(subjects, locations, ports)
        except StateError as error:
            sources.notes.append(error.message)
        findings += [each for path in subjects.unmanaged for each in unmanaged(path, shared, reported)]
    findings += [finding for path in request.paths for finding in at_path(path, shared)]
    findings += sources.findings
    if not request.sources_alone:
        all_skills = state.lock.skills if request.is_all else None
        findings += acceptance.left(request.before, (locations.shown(ports.project.intent_path), 0), all_skills)
        if acceptance.gone:
            sources.notes.append(f"gone: {acceptance.gone} of the baseline's findings; --write-baseline drops them")
    new = _changed_skills(subjects.locked, request.before, state.lock)
    others = [finding for finding in worst_first(findings) if finding not in source_changes]
    others.sort(key=lambda finding: finding.skill not in new)  # findings about changed skills come first
    notes, known = tuple(sources.notes), tuple(sorted(acceptance.written))
    count = len(subjects.locked) + len(subjects.unmanaged) + len(request.paths)
    return Report((*source_changes, *others), request.threshold, count, notes, known)


def _changed_skills(names: Iterable[str], before: Lock | None, lock: Lock) -> set[str]:
    """Return the skills whose tree is not in the earlier lock."""
    old = before.skills if before is not None else lock.skills
    return {name for name in names if name not in old or old[name].tree != lock.skills[name].tree}


def looked_at(request: AuditRequest, ports: Ports) -> Iterator[tuple[str, Tree]]:
    """Yield the name in the findings and the content of each skill of an audit, except those that cannot be read."""
    lock = ports.project.lock()
    subjects = _subjects(request, lock, ports)
    for name in subjects.locked:
        if (tree := ports.store.read(lock.skills[name].tree)) is not None:
            yield name, tree
    for path in subjects.unmanaged:
        with suppress(SkillhubError):
            yield os.path.basename(path), read_local(path).tree
    for path in request.paths:
        with suppress(SkillhubError):
            tree = read_local(path).tree
            yield _name_at(path, tree), tree


@dataclass(frozen=True, slots=True)
class _Subjects:
    """What a request covers here: locked skills, folders of unmanaged skills that agents read, and sources."""

    locked: tuple[str, ...]
    unmanaged: tuple[str, ...]
    aliases: tuple[str, ...]


def _subjects(request: AuditRequest, lock: Lock, ports: Ports) -> _Subjects:
    loose = tuple(copies.unmanaged(ports.project, ports.user_home, ports.environ))
    is_all, is_package = request.is_all, request.is_package
    locked = tuple(name for name in lock.skills if is_all or name in request.names)
    in_package = {path for path in loose if is_package and copies.is_in_package(path, ports.project)}
    is_meant = {path for path in loose if path in in_package or os.path.basename(path) in request.names}
    unmanaged_copies = tuple(path for path in loose if is_all or path in is_meant)
    known = {*locked, *map(os.path.basename, unmanaged_copies)}
    for name in request.names:
        if name not in known:
            listed = f"{command(ports.project.scope, 'list')} shows installed skills; put ./ before a path"
            hint = users_hint(name, ports.project) or listed
            raise NotFound(f"no skill named {quote(name)} is installed here", hint=hint)
    used = dict.fromkeys(lock.skills[name].source for name in locked)
    aliases = [alias for alias in used if alias in lock.sources]
    aliases += [alias for alias in ports.sources.all() if is_all and alias not in used]
    return _Subjects(locked, () if request.sources_alone else unmanaged_copies, tuple(aliases))


def _cases(
    names: Sequence[str], request: AuditRequest, sources: Inquiry, stored: StoredSkills, cache: ScanCache
) -> Iterator[Case]:
    state, ports = sources.state, sources.ports
    before = request.before.skills if request.before else {}
    closed = {} if request.sources_alone else closed_folders(ports)
    for number, name in enumerate(names):
        ports.report("checking skills", number, len(names))
        entry = state.lock.skills[name]
        tree = None if request.sources_alone else stored.tree(entry.tree)
        yield Case(
            name=name,
            entry=entry,
            record=state.records.skills.get(name),
            before=before.get(name),
            stored=None if tree is None else cache.read(tree),
            status=sources.statuses.get(name, ReleaseStatus(name, entry)),
            closed=closed,
            locations=sources.locations,
            ports=ports,
        )


def _drift_findings(case: Case, verified: Verified, *, is_unasked: bool) -> Iterator[Finding]:
    """Yield the findings of ``verify``; for a skill that the user has not agreed to, the hint names ``install``."""
    project = case.ports.project
    install = f"{command(project.scope, 'install')} asks about it, and enables it"
    for problem in (*verified.problems, *verified.notes):
        location = None if problem.path == project.lock_path else (case.locations.shown(problem.path), 0)
        finding = case.note(problem.code, problem.message, location)
        yield replace(finding, hint=install) if is_unasked and problem.code == "missing" else finding


def _tracked_findings(subjects: _Subjects, locations: Locations, ports: Ports) -> Iterator[Finding]:
    """Yield the copies in agents' folders that git tracks: others would get them without the checks of skillhub."""
    folders = copies.agent_folders(ports.project, ports.user_home, ports.environ)
    paths = [os.path.join(folder, name) for folder in folders for name in subjects.locked]
    for path in tracked_copies(ports.project.base, list(dict.fromkeys((*paths, *subjects.unmanaged)))):
        message = "git tracks it: others get it without the checks of lock, consent and signature"
        yield note("tracked-copy", message, os.path.basename(path), (locations.shown(path), 0))

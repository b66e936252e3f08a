"""Audit: compares installed skills and their sources with lock, disk and present trust; also skills in no lock."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from skillhub import errors
from skillhub.audit.checks import CHECKS, TRUST, Case, Inspection, at_path, closed_folders, name_at, unmanaged
from skillhub.audit.report import Locations, Report, finding_of, worst_first
from skillhub.audit.sources import view_source
from skillhub.audit.suppressions import Acceptance, BaselineFile
from skillhub.audit.verify import StoredSkills, Verified, Verifier, tracked_copies
from skillhub.command.ports import Network, Place, Ports
from skillhub.command.state import State, read_unchecked, refuse_unknown
from skillhub.disk import files
from skillhub.errors import FormatError, NameNotOwned, NotFound, SecurityError, SkillhubError, SourceError, UsageError
from skillhub.formats.text import as_command, command, deferred, grouped, quote
from skillhub.install.candidates import without_files
from skillhub.install.gather import newest_of
from skillhub.model.finding import SEVERITIES, Finding, Severity
from skillhub.model.lock import Lock, Locked, LockedSource
from skillhub.model.provenance import source_changes
from skillhub.model.reference import Local, Named, Remote, parse_ref
from skillhub.model.tree import SIGNATURE, SKILL_MD, Tree
from skillhub.project import copies
from skillhub.project.intent import Intent, in_full, is_fixed, sources_since
from skillhub.project.last_seen import ReleaseStatus
from skillhub.project.project import Project
from skillhub.runtime.agent import names_of, unmanaged_skills
from skillhub.scan.results import ScanCache
from skillhub.sources.configured import Source
from skillhub.sources.local import files_of_project, read_local


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
        makes_baseline: Whether findings that a project may accept become the baseline.
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
    makes_baseline: bool = False
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
            message = f"expected the name of a skill or a path, found {quote(typed)}"
            raise UsageError(message, hint="put ./ before a path")
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
    subjects = _subjects(request, state.lock, state.intent, ports)
    sources = Inquiry(state, locations, ports, refresh=request.refresh)
    sources.notes += subjects.notes
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
    acceptance = Acceptance(state.intent.suppressions, request.baseline, request.makes_baseline, ports.clock())
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
            if sources.is_unchanged(case.name, stored):
                unchanged.add(case.name)
    reported = {finding.path for finding in findings}
    if not request.sources_alone:
        sources.ask_places([name for name in subjects.locked if name not in unchanged])
        try:
            findings += _tracked_findings(subjects, locations, ports)
        except errors.StateError as error:
            sources.notes.append(error.message)
        findings += [each for path in subjects.unmanaged for each in unmanaged(path, shared, reported)]
    findings += [finding for path in request.paths for finding in at_path(path, shared)]
    findings += sources.findings
    if not request.sources_alone:
        all_skills = state.lock.skills if request.is_all else None
        findings += acceptance.left(request.before, (locations.shown(ports.project.intent_path), 0), all_skills)
        if acceptance.gone:
            sources.notes.append(f"gone: {acceptance.gone} of the baseline's findings; --write-baseline drops them")
    old = (request.before or state.lock).skills
    new = {name for name in subjects.locked if name not in old or old[name].tree != state.lock.skills[name].tree}
    others = [finding for finding in worst_first(findings) if finding not in source_changes]
    others.sort(key=lambda finding: finding.skill not in new)  # findings about changed skills come first
    notes, known = tuple(sources.notes), tuple(sorted(acceptance.written))
    count = len({*subjects.locked, *map(os.path.basename, subjects.unmanaged)}) + len(request.paths)
    return Report((*source_changes, *others), request.threshold, count, notes, known)


def looked_at(request: AuditRequest, ports: Ports) -> Iterator[tuple[str, Tree]]:
    """Yield the name in the findings and the content of each skill of an audit, except those that cannot be read."""
    lock = ports.project.lock()
    subjects = _subjects(request, lock, Intent(), ports)
    for name in subjects.locked:
        tree = ports.store.read(lock.skills[name].tree)
        if tree is not None:
            yield name, tree
    for path in subjects.unmanaged:
        with suppress(SkillhubError):
            yield os.path.basename(path), read_local(path).tree
    for path in request.paths:
        with suppress(SkillhubError):
            tree = read_local(path).tree
            yield name_at(path, tree), tree


@dataclass(frozen=True, slots=True)
class _Subjects:
    """What a request covers here: locked skills, folders of unmanaged skills that agents read, and sources.

    Attributes:
        notes: What was not searched.
    """

    locked: tuple[str, ...]
    unmanaged: tuple[str, ...]
    aliases: tuple[str, ...]
    notes: tuple[str, ...]


def _subjects(request: AuditRequest, lock: Lock, intent: Intent, ports: Ports) -> _Subjects:
    around = ports.project, ports.user_home, ports.environ
    loose = tuple(copies.unmanaged(*around))
    named = unmanaged_skills(*around) if request.names else []
    is_all, is_package = request.is_all, request.is_package
    locked = tuple(name for name in lock.skills if is_all or name in request.names)
    in_package = {path for path in loose if is_package and copies.is_in_package(path, ports.project)}
    is_meant = in_package | {each.path for each in named if names_of(each).intersection(request.names)}
    unmanaged_copies = tuple(path for path in loose if is_all or path in is_meant)
    notes: list[str] = []
    if is_all and not request.sources_alone:
        unmanaged_copies += tuple(_nested(notes, ports))
    known = {*lock.skills, *chain(*map(names_of, named))}
    for name in request.names:
        if name not in known and os.path.lexists(name):
            hint = f"of the file or folder here: {command(ports.project.scope, 'audit', f'./{name}')}"
            raise NotFound(f"no skill named {quote(name)} is installed here", hint=hint)
    refuse_unknown(request.names, known, ports.project)
    used = dict.fromkeys(lock.skills[name].source for name in locked)
    aliases = [alias for alias in used if alias in lock.sources]
    if is_all:
        # A project answers for the sources that it uses; the user scope for all of them.
        wanted = {*lock.sources, *intent.sources, *(line.source for line in intent.skills.values())}
        own = [alias for alias in ports.sources.all() if alias in wanted or ports.project.scope == "user"]
        aliases += [alias for alias in own if alias not in used]
    return _Subjects(locked, () if request.sources_alone else unmanaged_copies, tuple(aliases), tuple(notes))


_FOLDERS_MAX = 100_000
_OF_SKILLS = deferred(r"[\\/]skills?(?:-[^\\/]+)?\Z")


def _nested(notes: list[str], ports: Ports) -> Iterator[str]:
    """Yield each skill in a folder that some agent may read, though no table names it: below the project, of a mode.

    Such are ``src/.claude/skills``, ``.roo/skills-code`` and those of agents that skillhub does not know. The copies
    in packages, and in another project of this user below this one, are left out. If there are more folders than are
    searched, ``notes`` gets a line.
    """
    project, around = ports.project, (ports.user_home, ports.environ)
    if project.scope == "user" or os.path.realpath(project.base) == os.path.realpath(ports.user_home):
        return
    searched = {*map(os.path.realpath, copies.agent_folders(project, *around))}
    for number, (folder, names, _) in enumerate(os.walk(project.base)):
        if number == _FOLDERS_MAX:
            notes.append(f"only the first {_FOLDERS_MAX} folders of the project were searched for skills of agents")
            return
        hidden = (os.path.join(folder, each) for each in sorted(names) if each[:1] == ".")
        inside = (os.path.join(each, name) for each in hidden for name in next(os.walk(each), ("", [], []))[1])
        tops = filter(_OF_SKILLS.search, inside)
        found = [each for each in tops if os.path.realpath(each) not in searched]
        names[:] = sorted(each for each in names if each[:1] != "." and each != "node_modules")
        records = Project(folder, "project", project.home).records().skills if found else {}
        own = {
            copies.path_of(project, os.path.join(folder, link)) for each in records.values() for link in each.links
        }
        for below, inner, files_in in chain.from_iterable(map(os.walk, found)):
            if SKILL_MD in files_in:
                inner.clear()
                if below not in own:
                    yield below


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
        finding = case.finding(problem.code, problem.message, location)
        yield replace(finding, hint=install) if is_unasked and problem.code == "missing" else finding


def _tracked_findings(subjects: _Subjects, locations: Locations, ports: Ports) -> Iterator[Finding]:
    """Yield the copies in agents' folders that git tracks: others would get them without the checks of skillhub."""
    folders = copies.agent_folders(ports.project, ports.user_home, ports.environ)
    paths = [os.path.join(folder, name) for folder in folders for name in subjects.locked]
    for path in tracked_copies(ports.project, list(dict.fromkeys((*paths, *subjects.unmanaged)))):
        message = "git tracks it: others get it without the checks of lock, consent and signature"
        yield finding_of("tracked-copy", message, os.path.basename(path), (locations.shown(path), 0))


# The sources: their answers about locked skills, their URLs and roots compared with the lock, their trust.


class Inquiry:
    """Asks the sources of the locked skills, and checks the sources themselves.

    Args:
        state: The lock and the intent.
        locations: The locations of findings.
        ports: What the command works with.
        refresh: Whether to ask; otherwise the last answers of registries count, and only local places are read.

    Attributes:
        statuses: The status of each skill from a registry, by the registry's present or last answer.
        findings: The findings from the answers.
        notes: The sources that were not asked or did not answer, and other remarks for the report.
    """

    def __init__(self, state: State, locations: Locations, ports: Ports, *, refresh: bool) -> None:
        self.state, self.locations, self.ports = state, locations, ports
        self.statuses: dict[str, ReleaseStatus] = {}
        self.findings: list[Finding] = []
        self.notes: list[str] = []
        self._refresh = refresh

    def ask_registries(self, names: Iterable[str]) -> None:
        """Ask the registries of these skills; for one that cannot or must not be asked, its last answer counts.

        Raises:
            StateError: their answers cannot be written to the disk.
        """
        lock, sources = self.state.lock, self.ports.sources
        for alias, skills in grouped((lock.skills[name].source, name) for name in names).items():
            locked = lock.sources.get(alias)
            if locked is None or locked.root is None:
                continue
            source = sources.all().get(alias)
            is_same = source is not None and source.is_meant(locked)
            if source is not None and is_same and (self._refresh or source.embedded):
                self._ask_registry(source, skills)
            elif is_same or self._refresh:
                self.notes.append(f"{alias} was not contacted: {self._last_answer(locked)}")
            for name in skills:
                if name not in self.statuses:
                    entry = lock.skills[name]
                    self.statuses[name] = ReleaseStatus.last_seen(name, entry, locked.root, self.ports.seen)

    def _last_answer(self, locked: LockedSource) -> str:
        when = self.ports.seen.of(locked.root).refreshed if locked.root else None
        return f"its last answer is used, {when}" if when else "no earlier answer of it is stored"

    def _ask_registry(self, source: Source, names: Iterable[str]) -> None:
        """Ask a registry about each of these skills, until one request fails."""
        try:
            registry = self.ports.open_registry(source)
            for name in names:
                try:
                    entry = self.state.lock.skills[name]
                    index = registry.release_index([entry.own_name(name)])
                    self.statuses[name] = ReleaseStatus(name, entry, index)
                except NotFound as error:
                    self._add_finding("release-gone", error.message, name)
                except NameNotOwned as error:
                    status = ReleaseStatus.last_seen(name, entry, source.root, self.ports.seen)
                    if not isinstance(status.objection, NameNotOwned):  # otherwise the check of the skill reports it
                        self._add_finding("name-not-owned", error.message, name)
        except errors.Forbidden as error:
            self.notes.append(f"{source.alias} was not contacted, and its last answer is used: {error.message}")
        except SourceError as error:
            self.findings.append(self._finding(source.alias, "source-unreachable", error.message))
        except (SecurityError, FormatError) as error:
            self.findings.append(self._finding(source.alias, "source-refused", error.message))

    def ask_advisories(self) -> None:
        """Read the advisories; if that fails, it is a finding, and no skill is checked against them."""
        advisories = self.ports.advisories
        try:
            advisories.known()
        except SkillhubError as error:
            rule = "source-unreachable" if isinstance(error, SourceError) else "source-refused"
            message = f"the advisories cannot be read: {error.message} ({error.where})"
            finding = finding_of(rule, message, None, (None, 0))
            self.findings.append(replace(finding, hint=error.hint) if error.hint else finding)
            self.ports.advisories.ignore_all()
        self.notes += advisories.warnings()
        for text in advisories.outdated:
            if self._refresh:
                self.findings.append(finding_of("source-unreachable", text, None, (None, 0)))
            else:
                self.notes.append(text)

    def is_unchanged(self, name: str, stored: StoredSkills) -> bool:
        """Return whether a local folder still has exactly the files that are locked and stored, without a signature.

        The folder passes the checks of an install, and the manifest agrees with the lock. In every other case, also
        if an error occurs, ``ask_places`` reports the difference.
        """
        entry, project = self.state.lock.skills[name], self.ports.project
        if not entry.local or entry.patch or entry.signed_by or project.scope != "project":
            return False
        path = entry.path or "."
        if path == "." or os.path.isabs(path) or self.state.wanted(name).path != path:
            return False
        with suppress(SkillhubError):
            manifest, tree = stored.manifest(entry.tree), stored.tree(entry.tree)
            expected = (entry.own_name(name), entry.version)
            if manifest is None or tree is None or (manifest.name, manifest.version) != expected:
                return False
            folder = files.inside(project.base, path)
            found = read_local(folder, leave_out=files_of_project(folder)).tree
            return SIGNATURE not in tree and found.digest == entry.tree
        return False

    def ask_places(self, names: Iterable[str]) -> None:
        """Ask sources that are not registries for newer versions, compared with the lock as an update would do.

        Raises:
            StateError: the disk prevents it.
        """
        ports = replace(self.ports, network=_PlaceNetwork(self.ports.network))
        for place, skills in self._by_place(names).items():
            if not self._refresh and not self.state.lock.skills[skills[0]].local:
                self.notes.append(f"{place} was not contacted: newer versions are unknown")
                continue
            try:
                self._ask_place(skills, ports)
            except (SourceError, errors.UnsafeTransfer) as error:
                self.notes.append(f"{place} could not be asked for newer versions: {error.message}")

    def _by_place(self, names: Iterable[str]) -> dict[str, list[str]]:
        """Return the skills that may be outdated, by place, without those of registries, which were asked before."""
        lock, by_place = self.state.lock, dict[str, list[str]]()
        for name in names:
            entry = lock.skills[name]
            if entry.named:
                source, locked = self.ports.sources.all().get(entry.source), lock.sources.get(entry.source)
                if source is None or source.root is not None or source.locked() != locked:
                    continue
            if not is_fixed(self.state.wanted(name), entry):
                by_place.setdefault(f"./{entry.path}" if entry.local else entry.place, []).append(name)
        return by_place

    def _ask_place(self, names: Iterable[str], ports: Ports) -> None:
        locked = self.state.lock.skills
        unknown: dict[str, list[str]] = {}

        def on_error(name: str, error: SkillhubError) -> None:
            if isinstance(error, NotFound | UsageError | errors.Refused):
                unknown.setdefault(error.message, []).append(name)
            elif isinstance(error, SecurityError | FormatError) and not isinstance(error, errors.UnsafeTransfer):
                message = f"the present version at {locked[name].place} is refused: {error.message}"
                self._add_finding("newer-refused", message, name)
            else:
                raise error  # the place is unreachable, also for its other skills

        newer = newest_of(names, self.state, ports, describe=without_files, on_error=on_error)
        for newest in newer.found.values():
            before = locked[newest.name]
            old, new = _version_or_origin(before, newest.entry), _version_or_origin(newest.entry, before)
            message = f"{newest.name} is locked at {old}, {before.place} has {new}"
            diff, update = (command(ports.project.scope, verb, newest.name) for verb in ("diff", "update"))
            self._add_finding("outdated", message, newest.name, f"{diff} shows what it changes, {update} installs it")
        self.notes += newer.warnings
        self.notes += [
            f"newer versions are unknown for {', '.join(skills)}: {message}" for message, skills in unknown.items()
        ]

    def configured(self, aliases: Iterable[str]) -> Iterator[Finding]:
        """Yield the findings about sources in this user's configuration and in the lock."""
        own = self.ports.sources.all()
        for alias in aliases:
            source, locked, place = (own.get(alias), self.state.lock.sources.get(alias), self.locations.source(alias))
            if source is None:
                message = f"{alias} ({locked.url if locked else ''}) is not one of your sources"
                unknown = finding_of("source-unknown", message, None, place)
                if locked is None:
                    yield unknown
                else:
                    add = as_command("skillhub", "source", "add", alias, locked.url)
                    yield replace(unknown, hint=f"remove what came from it, or if you trust it: {add}")
                continue
            if locked is not None and locked != source.locked():
                message = f"{alias} is {source.locked()}; the lock has {locked}"
                yield finding_of("source-changed", message, None, place)
            if source.url.lower().startswith("http://"):
                yield finding_of("source-http", f"{alias} is at {source.url}", None, place)
            if source.root is not None and not source.embedded:
                yield from self._expiry_findings(source)

    def _expiry_findings(self, source: Source) -> Iterator[Finding]:
        now = self.ports.clock()
        try:
            view = view_source(source, self.ports.sources, now)
        except SkillhubError as error:
            yield self._finding(source.alias, "source-refused", error.message)
            return
        for entry, warning in zip(view.late, view.warnings, strict=True):
            if entry.expires_within(0, now):
                yield self._finding(source.alias, "source-expired", f"{entry.role} expired {entry.expires}")
            else:
                yield self._finding(source.alias, "source-expiring", warning)

    def changed(self, before: Lock) -> Iterator[Finding]:
        """Yield the changes of sources since an earlier lock; sources that only skillhub.toml names count, too."""
        rules = {"added": "source-added", "removed": "source-removed", "changed": "origin-changed"}
        now = sources_since(before, self.state.lock, self.ports.project.intent())
        for change in source_changes(before.sources, now):
            location = self.locations.source(change.name) if change.after else (None, 0)
            yield finding_of(rules[change.status], change.line, None, location)

    def _add_finding(self, rule: str, message: str, name: str, hint: str = "") -> None:
        finding = finding_of(rule, message, name, self.locations.skill(name))
        self.findings.append(replace(finding, hint=hint or finding.hint))

    def _finding(self, alias: str, rule: str, message: str) -> Finding:
        return finding_of(rule, f"{alias}: {message}", None, self.locations.source(alias))


class _PlaceNetwork:
    """Opens places; a place that does not exist is a ``SourceError``, since it fails for all of its skills."""

    def __init__(self, network: Network) -> None:
        self.open_registry, self._open_place = network.open_registry, network.open_place
        self.fetch_root, self.before_requests = network.fetch_root, network.before_requests

    def open_place(self, ref: Remote | Local, pin: str | None = None, **more: Any) -> Place:  # noqa: ANN401 - as `Network`
        try:
            return self._open_place(ref, pin, **more)
        except NotFound as error:
            raise SourceError(error.message, where=error.where) from error


def _version_or_origin(entry: Locked, other: Locked) -> str:
    """Return the version of an entry, or its origin in short if the other entry has the same version."""
    return entry.version if entry.version and entry.version != other.version else entry.short

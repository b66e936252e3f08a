"""From references to candidates, one for each name, fetched ahead; and the newer releases of locked skills."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from skillhub.command.ports import LeftOut, Options, Ports, ReportProgress
from skillhub.command.state import State
from skillhub.disk.home import Home
from skillhub.edits.patch import read_patch
from skillhub.errors import Forbidden, FormatError, NotFound, SecurityError, SkillhubError, SourceError, UsageError
from skillhub.formats.text import NAME_RULE, as_word, is_name, quote
from skillhub.install import candidates
from skillhub.install.admission import admit, policy_subject, too_young, with_advisories
from skillhub.install.candidates import EXPIRED, Candidate, TreeBudget, about_skill
from skillhub.install.obtain import (
    USUAL_SIZE,
    Acquisition,
    Scan,
    no_scan,
    nothing,
    rebase_patch,
    scan_from,
    scan_here,
    scan_loading,
)
from skillhub.install.resolve import ResolvedSkill, ranges_on, resolve_locked, resolve_ref, resolve_wanted, satisfies
from skillhub.model.index import Release, TakenBack, choose_release, fitting, no_match, words_for
from skillhub.model.lock import Locked, by_word
from skillhub.model.reference import Local, Named, Ref
from skillhub.model.version import is_version, precedence
from skillhub.net.fetch import Who
from skillhub.policy.policy import ORIGIN
from skillhub.project.intent import Wanted, is_fixed
from skillhub.project.last_seen import ReleaseStatus
from skillhub.scan import MANY

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

# Prefetch: downloads overlap with verification.

AT_ONCE = 16
_TELL_EVERY = 0.2  # seconds
_BYTES_MAX = 64 * 1024 * 1024  # fetched and not verified yet
_FIRST_SIZE = 16 * 1024 * 1024  # the assumed size of an unknown download, until the first one is complete


@contextmanager
def prefetched(
    acquisitions: Sequence[Acquisition],
    report: ReportProgress,
    is_scanned: Callable[[], bool] = lambda: True,
    home: Home | None = None,
) -> Iterator[Iterator[Callable[..., Candidate]]]:
    """Yield a function for each acquisition, in order, that is its ``run``; up to 16 threads fetch ahead.

    Fetched skills that wait stay within ``_BYTES_MAX``. Threads only fetch, unpack small archives and, while
    ``is_scanned`` returns true, pass trees to scan processes; ``home`` has the cache for their results. An error is
    raised by the function of its skill.
    """
    count = sum(each.fetch is not nothing for each in acquisitions)
    if count < 2:
        yield iter([each.run for each in acquisitions])
        return
    from skillhub.net.threads import threads  # noqa: PLC0415

    with ExitStack() as undo, threads(AT_ONCE) as pool:
        processes = None
        if count >= MANY:
            from skillhub.scan.results import ScanCache, ScansAhead  # noqa: PLC0415

            processes = ScanCache(home).ahead(count) if home else ScansAhead(count=count)
            undo.callback(processes.close)

        def begin(fetched: object) -> Scan:
            return scan_from(processes.begin(fetched)) if processes and is_scanned() else scan_here

        yield _Prefetcher(acquisitions, pool, begin).candidates(report)


class _Prefetcher:
    def __init__(
        self, acquisitions: Sequence[Acquisition], pool: ThreadPoolExecutor, begin: Callable[[object], Scan]
    ) -> None:
        self._all = acquisitions
        self._begin = begin
        self._waiting = deque(each for each in acquisitions if each.fetch is not nothing)
        self._started: deque[tuple[Future[tuple[Any, Scan]], int]] = deque()
        self._pool = pool
        self._size = _FIRST_SIZE

    def candidates(self, report: ReportProgress) -> Iterator[Callable[..., Candidate]]:
        count = len(self._waiting)
        for each in self._all:
            if each.fetch is nothing:
                yield each.run
                continue
            self._start()
            show = partial(report, "fetching", count - len(self._waiting) - len(self._started), count)
            show()
            yield partial(self._candidate, each, self._started.popleft()[0], show)

    def _start(self) -> None:
        while self._waiting and len(self._started) < AT_ONCE:
            size = self._waiting[0].size or self._size
            if self._started and sum(each for _, each in self._started) + size > _BYTES_MAX:
                return
            self._started.append((self._pool.submit(self._fetched, self._waiting.popleft()), size))

    def _fetched(self, acquisition: Acquisition) -> tuple[Any, Scan]:
        """Return the arguments for ``verify``."""
        found = acquisition.fetch()
        return found, self._begin(found)

    def _candidate(
        self, acquisition: Acquisition, download: Future[Any], show: Callable[[], None], scan: Scan | None = None
    ) -> Candidate:
        from concurrent.futures import wait  # noqa: PLC0415

        while not (download.done() or wait((download,), _TELL_EVERY).done):
            show()
        fetched, begun_scan = download.result()
        size = len(fetched) if isinstance(fetched, bytes) else fetched.tree.size
        self._size = max(USUAL_SIZE, size, self._size if self._size != _FIRST_SIZE else 0)
        return acquisition.verify(fetched, scan or begun_scan)


# The refusal of ``--all`` after failed verifications names each failed skill, so that the user can exclude them all.


class UnsafeSkills(SecurityError):
    """Skills of ``--all`` failed verification; the error lists each of them and its error.

    Args:
        failing: The errors, by the words that name the skills to ``--except``.
        where: The place that has the skills.
        excepted: The words that ``--except`` has already.

    Attributes:
        skills: Each as ``name``, ``code``, ``reason`` and ``message``.
        code: The code of all errors, if it is the same; likewise ``reason``.
    """

    code = "unsafe-skills"

    def __init__(
        self, failing: Sequence[tuple[str, SecurityError]], *, where: str, excepted: Sequence[str] = ()
    ) -> None:
        self.skills = tuple(
            {
                "name": word,
                "code": each.code,
                "reason": getattr(each, "reason", None),
                "message": f"{each.message} ({each.where})" if each.where else each.message,
            }
            for word, each in failing
        )
        words = dict.fromkeys([*excepted, *(word for word, _ in failing)])
        without = f"--all {' '.join(f'--except {as_word(word)}' for word in words)}"
        (word, first), *others = failing
        first_message = first.message if first.message.startswith(f"{word} ") else f"{word}: {first.message}"
        named = ", ".join(f"{each['name']} ({each['reason'] or each['code']})" for each in self.skills)
        message = f"{len(failing)} skills failed verification: {named}" if others else first_message
        hint = f"to install the others: {without}{f'; {first.hint}' if first.hint and not others else ''}"
        super().__init__(message, where=where if others else first.where or where, hint=hint)
        codes = {each.code for _, each in failing}
        reasons = {each["reason"] for each in self.skills}
        self.code = codes.pop() if len(codes) == 1 else self.code
        self.reason = reasons.pop() if len(reasons) == 1 else None


# From references to candidates: one for each name, each from a permitted source of its name.

_AMBIGUOUS = "ambiguous"


@dataclass(slots=True)
class Gathered:
    """The candidates by name, the skills left out, and warnings about the places; the steps below add to it.

    Attributes:
        excepted: The names whose every skill ``--except`` excludes.
        withdrawn: The names whose locked release was withdrawn.
        unchanged: The names of requested skills that are in order and need no work.
    """

    found: dict[str, Candidate] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    excepted: set[str] = field(default_factory=set)
    withdrawn: set[str] = field(default_factory=set)
    unchanged: set[str] = field(default_factory=set)


def gather(
    refs: Sequence[Ref],
    options: Options,
    state: State,
    ports: Ports,
    *,
    named_by: Who = "person",
    unchanged: Callable[[Sequence[ResolvedSkill]], Collection[str]] = lambda _: (),
) -> Gathered:
    """Return a candidate for each skill that the references name; without references, for each of lock and intent.

    ``named_by`` is the party that named the references, as for ``Ports.open_place``; ``unchanged`` returns the names
    of the skills that need no work.

    Raises:
        NotFound: no place has a skill that was chosen by name.
        UsageError: two references give one name to two skills, or several sources have a name.
        SourceMismatch: the lock has a name from another origin.
        FormatError: ``--frozen``, and intent and lock disagree.
        NotFound, WrongBytes: ``--frozen``, and a patch of the lock is missing, or is another one.
        SignerChanged: another signer than the lock's.
        UnsafeSkills: skills of ``--all`` failed verification.
        Forbidden: a policy forbids a skill that the user named, not ``--all``.
    """
    _check_options(refs, options)
    gathered, budget = Gathered(), TreeBudget(ports.store)
    resolved = [] if refs else _of_project(options, state, ports)
    is_waiting = not all(isinstance(ref, Local) for ref in refs)  # for a server
    with scan_loading(ports) if is_waiting else nullcontext():
        for ref in refs:
            skills, warnings = resolve_ref(ref, options, state, ports, named_by=named_by)
            resolved += skills
            gathered.warnings.extend(warnings)
    every, resolved = resolved, _without_excepted(resolved, options)
    gathered.excepted.update({each.name for each in every} - {each.name for each in resolved})
    gathered.unchanged.update(unchanged(resolved))
    resolved = [each for each in resolved if each.name not in gathered.unchanged]
    failing: list[tuple[Release, SecurityError]] = []
    acquisitions = [each.acquisition for each in resolved]
    home = None if options.dry_run else ports.project.home
    with prefetched(acquisitions, ports.report, lambda: not failing, home) as results:
        for each, obtain in zip(resolved, results, strict=True):
            try:
                # After a failure nothing is installed; the others are verified only to name every failed skill.
                run = partial(obtain, no_scan) if failing and not each.is_locked else obtain
                obtained = _obtained(each, run, None if failing else budget, state, ports)
            except SecurityError as error:
                if each.release is None or not options.every:
                    with about_skill(each.name):
                        raise
                failing.append((each.release, error))
                continue
            if isinstance(obtained, LeftOut):
                gathered.left_out.append(obtained)
            elif not failing:
                _add(obtained, each, gathered, state, ports)
    if failing:
        words = words_for([each.release for each in resolved if each.release])
        unsafe = [(words[release], error) for release, error in failing]
        raise UnsafeSkills(unsafe, where=", ".join(map(str, refs)), excepted=options.excepted)
    offered = [each.release for each in resolved if each.release]
    for word in options.skills:  # a reference to a single skill was resolved without these words: check them here
        if word not in gathered.found and word not in gathered.unchanged and not fitting(word, offered):
            raise no_match(word, [*gathered.found, *gathered.unchanged], ", ".join(map(str, refs)))
    return gathered


def with_intent(gathered: Gathered, options: Options, state: State, ports: Ports) -> Gathered:
    """Return what was gathered with the other skills of the intent, exactly as this person agreed to them before.

    The flags of the command are about the skills that it names: they must accept no other. If one of the others is
    unavailable, there is a warning instead.

    Raises:
        SecurityError, FormatError, Forbidden: as ``gather``.
    """
    records = state.records.skills
    others = records.keys() - gathered.found
    lines = {name: line for name, line in state.intent.skills.items() if name in others}
    state = replace(state, intent=replace(state.intent, skills=lines))
    try:
        rest = gather((), replace(options, skills=(), every=False, excepted=(), alias=None), state, ports)
    except SourceError as error:
        warning = f"the other skills of skillhub.toml are not locked: {error.message}"
        return replace(gathered, warnings=[*gathered.warnings, warning])
    found = {name: each for name, each in rest.found.items() if records[name].is_of(each.entry)}
    left_out, warnings = gathered.left_out + rest.left_out, gathered.warnings + rest.warnings
    return replace(gathered, found=gathered.found | found, left_out=left_out, warnings=warnings)


def _check_options(refs: Sequence[Ref], options: Options) -> None:
    """Refuse options that contradict each other.

    Raises:
        UsageError: two options contradict, or ``--as`` has no valid name.
    """
    if options.alias is not None and (len(refs) != 1 or options.every):
        message = f"--as names one skill; found {'--all' if options.every else f'{len(refs)} references'}"
        raise UsageError(message, hint="name one skill: skillhub install REF --as NAME")
    if options.alias is not None and not is_name(options.alias):
        raise UsageError(f"--as: {quote(options.alias)} cannot name a skill", hint=NAME_RULE)
    if refs and options.frozen:
        raise UsageError("--frozen installs only the skills of the lock; it takes no reference")
    if options.every and options.skills:
        raise UsageError("--all and --skill exclude each other")
    if (options.every or options.skills) and not refs:
        flag = "--all" if options.every else "--skill"
        raise UsageError(f"{flag} is for a reference that holds several skills, and there is none")
    if options.excepted and (options.skills or not (options.every and refs)):
        raise UsageError("--except is allowed only with REF --all")


def _without_excepted(resolved: Sequence[ResolvedSkill], options: Options) -> list[ResolvedSkill]:
    """Return the resolved skills without those that ``--except`` names.

    Raises:
        UsageError: it names a skill that no place has.
    """
    offered = [each.release for each in resolved if each.release]
    fits = {word: fitting(word, offered) for word in options.excepted}
    if unknown := [quote(word) for word, found in fits.items() if not found]:
        names = ", ".join(list(words_for(offered).values())[:40]) or "none to choose from"
        raise UsageError(f"--except: no such skill here: {', '.join(unknown)}", hint=f"there are: {names}")
    excluded = {each for found in fits.values() for each in found}
    return [each for each in resolved if each.release not in excluded]


def _obtained(
    resolved: ResolvedSkill, obtain: Callable[[], Candidate], budget: TreeBudget | None, state: State, ports: Ports
) -> Candidate | LeftOut:
    """Return the skill with its patch, or why ``--all`` leaves it out; without a ``budget``, the tree is not kept.

    Raises:
        FormatError: it is malformed and did not come with ``--all``.
        Forbidden: a policy forbids the place of its bytes, and it did not come with ``--all``.
        SecurityError: it failed verification.
    """
    try:
        candidate = obtain() if budget is None else budget.keep(obtain())
        wanted = resolved.wanted and replace(resolved.wanted, name=candidate.entry.name)
        candidate = replace(candidate, wanted=wanted)
    except (FormatError, Forbidden) as error:
        if not resolved.optional:
            raise
        where = f" ({error.where})" if isinstance(error, Forbidden) else ""
        return LeftOut(resolved.name, error.code, f"{error.message}{where}")
    entry = state.lock.skills.get(candidate.name)
    candidates.check_against_lock(candidate, entry, ports.project.scope)
    with_advisories(candidate, ports)
    return rebase_patch(candidate, entry, ports)


def _add(candidate: Candidate, resolved: ResolvedSkill, gathered: Gathered, state: State, ports: Ports) -> None:
    if any((each.name, each.code) == (candidate.name, _AMBIGUOUS) for each in gathered.left_out):
        return
    admitted = admit_optional(candidate, state, ports) if resolved.optional else admit(candidate, state, ports)
    if isinstance(admitted, LeftOut):
        gathered.left_out.append(admitted)
        return
    candidate = admitted
    twin = gathered.found.setdefault(candidate.name, candidate)
    if twin.tree.digest == candidate.tree.digest:
        return  # the same bytes twice are one skill
    message = f"{candidate.name} names two different skills: {twin.entry.origin} and {candidate.entry.origin}"
    hint = "name one of them: --skill PLUGIN:NAME, or the folder in the reference"
    if not resolved.optional:
        is_same = twin.entry.source == candidate.entry.source and twin.entry.version != candidate.entry.version
        raise UsageError(message, hint="name it once: a project has one version of a skill" if is_same else hint)
    del gathered.found[candidate.name]
    gathered.left_out.append(LeftOut(candidate.name, _AMBIGUOUS, f"{message}; {hint}"))


def admit_optional(candidate: Candidate, state: State, ports: Ports) -> Candidate | LeftOut:
    """Return the admitted candidate of a skill that the user did not name, or why it is left out.

    Raises:
        SourceError: as for ``admit``.
    """
    try:
        candidate = admit(candidate, state, ports)
    except Forbidden as error:
        return LeftOut(candidate.name, error.code, f"{error.message} ({error.where})")
    critical = next((each for each in candidate.findings if each.severity == "critical"), None)
    if critical is None:
        return candidate
    message = f"{critical.path}:{critical.line}: {critical.message} [{critical.rule}]"
    return LeftOut(candidate.name, "critical-finding", message)


def _of_project(options: Options, state: State, ports: Ports) -> list[ResolvedSkill]:
    resolved, unwanted = [], frozenset(state.unwanted)
    if options.frozen and unwanted:
        surplus = ", ".join(sorted(unwanted))
        raise candidates.stale_lock(f"the lock has {surplus}, which skillhub.toml does not require", ports.project)
    for name in dict.fromkeys((*state.lock.skills, *state.intent.skills)):
        entry, wanted = state.lock.skills.get(name), state.intent.skills.get(name)
        if name in unwanted or (entry is not None and _is_barred(name, entry, state, ports)):
            continue
        if options.frozen and entry is not None and entry.patch is not None:
            read_patch(entry.patch, ports.project)  # the next machine needs it
        if entry is not None and (wanted is None or satisfies(entry, wanted, ports.project.base)):
            resolved.append(resolve_locked(name, entry, state, ports))
        elif wanted is not None:
            if options.frozen:
                is_there = os.path.lexists(ports.project.lock_path)
                message = (
                    f"the lock does not have {name} as skillhub.toml wants it" if is_there else "there is no lock"
                )
                raise candidates.stale_lock(message, ports.project)
            resolved.append(resolve_wanted(name, wanted, state, ports))
    return resolved


def _is_barred(name: str, entry: Locked, state: State, ports: Ports) -> bool:
    """Return whether the user disabled a skill without consent, and a policy forbids the place to fetch it from."""
    record = state.records.skills.get(name)
    if record is None or record.disabled_by != "user" or state.agreed(name):
        return False
    return any(ports.policies.objections(policy_subject(name, entry, (), ports), ORIGIN))


# Newer releases than the locked ones, from each kind of source: to update, or to report.

OnError = Callable[[str, SkillhubError], None]  # raises to stop; returns to continue without the skill
Describe = Callable[[Candidate], Candidate]


def newest_of(
    names: Iterable[str], state: State, ports: Ports, *, on_error: OnError, describe: Describe | None
) -> Gathered:
    """Return the candidates that are newer than the lock; a newer one to which the patch does not apply is left out.

    Args:
        names: Names of locked skills.
        state: Lock, intent and records.
        ports: The ports of the command.
        on_error: Decides about a skill and the error that it raised: it raises, too, or the others continue.
        describe: Returns a candidate without its files, to only describe the newer releases: nothing is stored.

    Raises:
        SourceError, SecurityError, FormatError, Refused, UsageError: as ``on_error`` raises them.
        StateError: the disk is in the way.
    """
    newer, resolved = Gathered(), []
    unreachable: dict[str, SourceError] = {}  # not asked again, since each request may wait for a timeout
    for name in names:
        entry = state.lock.skills[name]
        try:
            if entry.source in unreachable:
                raise unreachable[entry.source]
            found = _latest(name, entry, state, ports, newer)
        except SkillhubError as error:
            if isinstance(error, SourceError) and not isinstance(error, NotFound):
                unreachable[entry.source] = error
            on_error(name, error)
        else:
            if found is not None:
                resolved.append(found)
    budget = TreeBudget(ports.store) if describe is None else None
    with prefetched([each.acquisition for each in resolved], ports.report) as results:
        for each, obtain in zip(resolved, results, strict=True):
            try:
                with about_skill(each.name):
                    candidate = obtain() if budget is None else budget.keep(obtain())
                    _compare(candidate, state.lock.skills[each.name], newer, ports, describe)
            except SkillhubError as error:
                on_error(each.name, error)
    return newer


def _compare(candidate: Candidate, entry: Locked, newer: Gathered, ports: Ports, describe: Describe | None) -> None:
    """Add a candidate to ``newer`` if it differs from the locked release, or a warning, or why it is left out."""
    if (candidate.tree.digest, candidate.entry.version) == (entry.original.tree, entry.version):
        newer.warnings.extend(f"{candidate.name}: {each}" for each in candidate.warnings if each == EXPIRED)
        return
    candidates.check_against_lock(candidate, entry, ports.project.scope)
    with_advisories(candidate, ports)
    if young := too_young(candidate, ports):
        newer.warnings.append(f"{young.message} ({young.where})")
        return
    patched = rebase_patch(candidate, entry, ports)
    if isinstance(patched, LeftOut):
        newer.left_out.append(patched)
    if describe is not None:
        newer.found[candidate.name] = describe(candidate if isinstance(patched, LeftOut) else patched)
    elif not isinstance(patched, LeftOut):
        newer.found[candidate.name] = patched


def _latest(name: str, entry: Locked, state: State, ports: Ports, newer: Gathered) -> ResolvedSkill | None:
    """Return the newest release in the range of a name, unless the index shows that it is the locked one.

    Warnings, and the name if its locked release was withdrawn, are added to ``newer``.
    """
    wanted, warnings = state.wanted(name), newer.warnings
    if is_fixed(wanted, entry):
        return None
    if name not in state.intent.skills and entry.named:
        # A dependency: the skills that need it limit its versions.
        ranges = dict.fromkeys(wanted for _, wanted in ranges_on(name, state.lock, ports))
        wanted = replace(wanted, version=",".join(ranges) or None)
    try:
        found = resolve_wanted(name, wanted, state, ports, known=entry.original)
    except TakenBack as error:
        status = _status(name, entry, ports, newer)
        message = _taken_back(status.release) or error.message
        way = "skillhub.toml allows no other version"
        other = status.other(ports.policies.latest_allowed_date(ports.clock()))
        if other is None and (recall := status.objection):
            way = status.remedy(recall, ports.project.scope, ports.project.intent).hint
        warnings.append(f"{message}; {way}")
        if other is not None:
            warnings.append(_outside_range(other, wanted, status, ports))
        return None
    offered = found.release
    if offered is None:
        return found
    if ports.root_of(entry) is None:
        offered_id, locked_id = (offered.rev, entry.rev) if entry.git else (offered.digest, entry.digest)
        if offered.digest is None and offered.tree is not None:  # an MCP server lists the digest of each file
            offered_id, locked_id = offered.tree, entry.original.tree
        is_locked = locked_id is not None and offered_id == locked_id
        return None if is_locked else found
    status = _status(name, entry, ports, newer)
    warnings.extend(_newer_than_allowed(offered, wanted, status, ports))
    if offered.digest == entry.digest:
        return None
    if note := _taken_back(status.release):
        warnings.append(note)
    return found if _is_wanted(entry, offered, wanted, status.release) else None


def _status(name: str, entry: Locked, ports: Ports, newer: Gathered) -> ReleaseStatus:
    """Return the status of a locked release at its registry; if it was withdrawn, add the name to ``newer``."""
    status = ReleaseStatus(name, entry, ports.index_of(name, entry))
    if status.release is not None and status.release.withdrawn is not None:
        newer.withdrawn.add(name)
    return status


def _newer_than_allowed(offered: Release, wanted: Wanted, status: ReleaseStatus, ports: Ports) -> Iterator[str]:
    """Yield a line for each newer release that the intent or a policy excludes, of which the user would not learn."""
    offered_version = precedence(offered.version or "0.0.0")
    newest_of_any_age = choose_release(Named(offered.name, None, wanted.version), status.offered)
    if precedence(newest_of_any_age.version or "0.0.0") > offered_version:
        yield f"{offered.name} {newest_of_any_age.version} is available, but younger than a policy allows"
    if wanted.version is None or is_version(wanted.version):
        return  # no range excludes a release, or the user chose this exact version
    newest = choose_release(Named(offered.name), status.offered, ports.policies.latest_allowed_date(ports.clock()))
    if precedence(newest.version or "0.0.0") > offered_version:
        yield _outside_range(newest, wanted, status, ports)


def _outside_range(release: Release, wanted: Wanted, status: ReleaseStatus, ports: Ports) -> str:
    """Return the warning about an available release that the range excludes."""
    take = status.install_command(release, f"^{release.version}", ports.project.scope)
    by = f" by {by_word(release.publisher or '', status.entry.source)}" if status.is_by_another(release) else ""
    return f"{release.name} {release.version}{by} is available, but {wanted.version} is wanted; to install it: {take}"


def _is_wanted(entry: Locked, offered: Release, wanted: Wanted, locked: Release | None) -> bool:
    """Return whether the offered release replaces the locked one: a newer one always, an older only if it must go."""
    old, new = entry.version or "", offered.version or ""
    if not (is_version(old) and is_version(new)) or precedence(new) > precedence(old):
        return True
    is_gone = locked is not None and locked.withdrawn is not None
    return is_gone or not candidates.is_within(entry, wanted.version)


def _taken_back(locked: Release | None) -> str | None:
    """Return the warning about a locked release that was yanked or withdrawn, or None."""
    if locked is None or not locked.taken_back:
        return None
    return f"{locked.name} {locked.version} was {locked.taken_back}"

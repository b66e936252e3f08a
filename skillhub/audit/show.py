"""Show one skill, search sources and this machine, and compare versions, locks and edits."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from skillhub import errors
from skillhub.command.ports import LeftOut, Options, Ports
from skillhub.command.state import State, read_state, refuse_unknown, users_hint
from skillhub.edits.patch import difference, read_edited, text_of
from skillhub.errors import BadSignature, Forbidden, NotFound, SecurityError, SkillhubError, SourceError, UsageError
from skillhub.formats.json import members
from skillhub.formats.text import command, spell_time, word
from skillhub.install.admission import Known, admit, advised, with_known_bad
from skillhub.install.candidates import Candidate, check_against_lock
from skillhub.install.links import Linker
from skillhub.install.need_questions import facts_of
from skillhub.install.obtain import by_source, obtain_locked, read, rebase_patch
from skillhub.install.pins import judge_with_own_keys
from skillhub.install.resolve import chosen_release, look_up, resolve_ref, resolve_wanted, typed
from skillhub.model.finding import Finding, in_words
from skillhub.model.index import Index, Release, TakenBack, no_match
from skillhub.model.lock import Lock, Locked, shown_signers
from skillhub.model.manifest import Manifest
from skillhub.model.provenance import Changes, Delta, Records
from skillhub.model.reference import Named, Ref
from skillhub.model.skill import Skill
from skillhub.model.tree import SIGNATURE, File, Tree
from skillhub.project.copies import need_check, needs_of, unproved, view
from skillhub.project.intent import Intent, is_from, wanted_of
from skillhub.project.last_seen import Recalls, ReleaseStatus
from skillhub.runtime.agent import names_of, unmanaged_skills
from skillhub.runtime.loading import with_edits
from skillhub.runtime.ranking import Hits, SearchIndex, Stored, rows_of
from skillhub.runtime.ranking import search as rank
from skillhub.scan import scan
from skillhub.sources.configured import Source
from skillhub.sources.history import KeptListing
from skillhub.sources.local import named, read_local

# Show: everything about one skill, installed here or offered by a source.


@dataclass(frozen=True, slots=True)
class Shown:
    """One skill: its manifest and files from verified bytes, and the releases that its source offers.

    Attributes:
        releases: The releases; the last seen ones if the source of an installed skill cannot be asked.
        commit: The full commit of a skill from git.
        patched: The files that the project's patch changes; None without a patch, or if its base is not stored.
        warnings: The source's objections to the installed release, or the reason why it was not asked; why the
            signature of a skill in no lock does not fit.
        is_broken: Whether that signature does not fit.
    """

    skill: Skill
    manifest: Manifest
    tree: Tree
    releases: tuple[Release, ...]
    patched: Delta | None = None
    commit: str | None = None
    warnings: tuple[str, ...] = ()
    is_broken: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the value for the answer of ``skillhub show``."""
        facts = members(self, "manifest", "releases", "patched", "warnings")
        return {**self.skill.to_json(), **facts, "files": file_rows(self.tree)}


def show(ref: Ref, ports: Ports, skill: str | None = None) -> Shown:
    """Return a skill: the locked one, else one in an agent's folder, else the skill at the reference.

    Args:
        ref: The skill, or a place with several skills.
        ports: What the command works with.
        skill: The name of one skill in a place with several.

    Raises:
        NotFound: there is no such skill.
        SecurityError, FormatError, SourceError: as for install.
        Forbidden: the skill is not installed, and a policy forbids its source.
    """
    if skill is not None and isinstance(ref, Named):
        raise UsageError("--skill is for a place that holds several skills", where=str(ref))
    lock = ports.project.lock()
    entry = lock.skills.get(ref.name) if isinstance(ref, Named) else None
    if isinstance(ref, Named) and ref.range in (None, entry and entry.version):
        # With a source, the name is the one in the source; an alias in the lock may differ from it.
        is_it = entry is not None and (ref.source is None or entry.own_name(ref.name) == ref.name)
        if entry and is_it and (ref.source in (None, entry.source) or _is_from(entry, ref.source, ports)):
            return _installed_skill(ref.name, entry, lock, ports)
        if ref.source is None and (local := _unmanaged_skill(ref.name, ports)):
            return local
    if not isinstance(ref, Named):
        return _offered_skill(_only_candidate(ref, skill, State(Lock(), Intent(), Records()), ports), (), ports)
    try:
        with typed(ref, ports):
            source, index = look_up(ref, ports)
    except NotFound as error:
        error.hint = users_hint(str(ref), ports.project) or error.hint
        raise
    releases = index.releases(ref.name) if source.place is None else ()
    release = chosen_release(ref, source, index)
    return _offered_skill(by_source(source, release, index, ports).run(), releases, ports)


def _is_from(entry: Locked, alias: str, ports: Ports) -> bool:
    source = ports.sources.all().get(alias)
    return source is not None and source.place is not None and is_from(entry, source.place, ports.project.base)


def _only_candidate(ref: Ref, skill: str | None, state: State, ports: Ports) -> Candidate:
    chosen, _ = resolve_ref(ref, Options(skills=(skill,) if skill is not None else ()), state, ports)
    if len(chosen) > 1:
        raise UsageError(f"expected one skill, found {len(chosen)} chosen", where=str(ref), hint="--skill NAME")
    found = chosen[0].acquisition.run()
    if skill not in (None, found.name) and chosen[0].release is None:  # nothing was chosen by this name
        raise no_match(skill, [found.name], str(ref))
    return found


def obtained(ref: Ref, skill: str | None, ports: Ports) -> Candidate:
    """Return one skill for one use, verified and scanned as for a first install, and permitted by every policy.

    Args:
        ref: The skill, or a place with several skills; the name of an installed skill means that skill.
        skill: The name of one skill in a place with several.
        ports: What the command works with.

    Raises:
        UsageError: the place has several skills, and none was chosen.
        Forbidden: a policy forbids it.
        SecurityError, FormatError, SourceError: as for install.
    """
    state = read_state(ports.project, ports.sources)
    if isinstance(ref, Named) and ref.range is None and ref.source is None and ref.name in state.lock.skills:
        candidate = obtain_locked(ref.name, state.lock.skills[ref.name], ports)
    else:
        candidate = _only_candidate(ref, skill, State(Lock(), Intent(), Records()), ports)
    return admit(candidate, State(Lock(), Intent(), Records()), ports)


def _installed_skill(name: str, entry: Locked, lock: Lock, ports: Ports) -> Shown:
    records = ports.project.records()
    is_stored = ports.store.has(entry.tree)
    tree = _stored_tree(name, entry, State(lock, Intent(), records), ports)
    satisfied = need_check(ports.environ, records.enabled(lock.skills))
    skill = view(name, entry, records.skills.get(name), satisfied, ports.project, ports.store)
    skill = skill if is_stored else skill.verified()  # what is fetched is verified
    status, notes = _release_status(name, entry, lock, ports)
    reason = Recalls(lock, ports.project.home, ports.project.key).reason(name, entry)
    skill = replace(with_edits(skill, unproved(skill, ports.store), ports.project), withdrawn=reason)
    known: list[Known] = []
    try:
        known = [(skill.scope, name, match) for match in advised(name, entry, tree, ports)]
    except SkillhubError as unread:
        notes = (*notes, f"advisories: {unread.message}")
    (skill,) = with_known_bad([skill], known, {})
    warnings = (error.message,) if (error := status.objection) else status.yanked
    base = ports.store.listing(entry.original.tree) if entry.patch else None
    patched = Delta.of_files(base, tree.listing) if base is not None else None
    manifest = Manifest.read(tree)  # a skill without consent has no record with its description
    skill = replace(skill, description=manifest.description)
    return Shown(skill, manifest, tree, status.offered, patched, entry.rev, (*notes, *warnings))


def _release_status(name: str, entry: Locked, lock: Lock, ports: Ports) -> tuple[ReleaseStatus, tuple[str, ...]]:
    """Return the release status of a locked skill by its source; else the last answer, and why it was not asked."""
    locked = lock.sources.get(entry.source)
    if locked is None:
        return ReleaseStatus(name, entry), ()
    try:
        source = ports.sources.get(entry.source)
        if not source.is_meant(locked):
            raise NotFound(f"your source of that name differs from the source of {name} in the lock")
        return ReleaseStatus(name, entry, ports.releases(source, entry.own_name(name))), ()
    except (Forbidden, SourceError, errors.StateError) as error:
        seen = ReleaseStatus.last_seen(name, entry, locked.root, ports.seen)
        when = "" if locked.root is None else "; its releases are shown as they were last seen"
        return seen, (f"{entry.source} was not contacted: {error.message}{when}",)


def _unmanaged_skill(name: str, ports: Ports) -> Shown | None:
    """Return the unmanaged skill that ``list`` or ``audit`` shows under this name, or None."""
    skills = unmanaged_skills(ports.project, ports.user_home, ports.environ)
    for found in sorted(skills, key=lambda each: each.name != name):
        if name in names_of(found):
            folder = found.path or ""
            with named(folder):
                tree = read_local(os.path.realpath(folder)).tree
                content = read(tree)
            skill = replace(found, capabilities=content.capabilities)
            try:
                signer = judge_with_own_keys(tree, ports.publishers, None, ports.clock())[0].signer
            except BadSignature as error:
                broken = f"its signature does not fit: {error.message} ({error.where or SIGNATURE})"
                return Shown(skill, content.manifest, tree, (), warnings=(broken,), is_broken=True)
            return Shown(replace(skill, signed_by=(signer,) if signer else ()), content.manifest, tree, ())
    return None


def _offered_skill(candidate: Candidate, releases: tuple[Release, ...], ports: Ports) -> Shown:
    satisfied = need_check(ports.environ, ports.project.records().enabled(ports.project.lock().skills))
    skill = replace(
        view(candidate.name, candidate.entry, None, satisfied, ports.project, ports.store).verified(),
        path=None,
        managed=False,
        vouched_by=candidate.voucher,
        invocation="model" if candidate.manifest.model_invocable else "user",
        requires=needs_of(facts_of(candidate.manifest, candidate.capabilities), None, satisfied),
        description=candidate.manifest.description,
    )
    return Shown(skill, candidate.manifest, candidate.tree, releases, commit=candidate.entry.rev)


def file_rows(tree: Tree) -> list[dict[str, Any]]:
    """Return a row for each file, for JSON."""
    return [
        {"path": path, "size": len(file.data), "sha256": tree.listing[path].sha256, "executable": file.executable}
        for path, file in tree.items()
    ]


# Search: in the listings of the sources and in the skills on this machine, with the same ranking.


def search(query: str, skills: Sequence[Skill], limit: int, listed: Iterable[tuple[Source, Index]] = ()) -> Hits:
    """Search the skills on this machine and the listings of sources.

    Args:
        query: The words to search for.
        skills: The skills on this machine.
        limit: The maximum number of hits.
        listed: Sources with their listings.

    Raises:
        StateError: this Python's SQLite cannot index texts.
    """
    with SearchIndex.build([*rows_of(skills), *_listed_rows(listed)]) as index:
        return rank(query, [index], limit)


def _listed_rows(listed: Iterable[tuple[Source, Index]]) -> Iterator[Stored]:
    for source, listing in listed:
        for name, releases in listing.skills.items():
            if releases and releases[0].withdrawn is None:
                yield Stored(name=name, description=releases[0].description, source=source.alias)


def found_json(found: Hits, kept: Mapping[str, KeptListing]) -> dict[str, Any]:
    """Return the answer of ``skillhub search --json``.

    Args:
        found: The result of ``search``.
        kept: The cached listings that were searched, by the alias of the source.
    """
    rows = ((alias, spell_time(each.listed), each.commit) for alias, each in kept.items())
    listings = [{"source": alias, "refreshed": refreshed, "commit": commit} for alias, refreshed, commit in rows]
    return {**found.to_json(), "listings": listings}


# Diff: local edits, changes of an update, changes of the lock; nothing is written.

_Vouchers = tuple[str | None, str | None]  # the party that names the signer, before and after


@dataclass(frozen=True, slots=True)
class Edit:
    """A local edit in copies of a skill.

    Attributes:
        paths: The copies with this edit, relative to the project or the user's home.
        patch: The differences from the locked tree, for ``patch -p1``.
        binary: Files that differ and do not fit into a patch.
    """

    paths: tuple[str, ...]
    patch: str
    binary: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Diff:
    """One skill before and after.

    Attributes:
        before: The earlier entry of the lock; None for an added skill.
        after: The present or future entry; None for a removed skill.
        changes: The differences; None unless there are both entries.
        facts: Facts about an added skill: its signer, capabilities, needs and files.
        findings: The findings of the scan that are new.
        patch: The differences of text files, for ``patch -p1``.
        binary: Files that differ and do not fit into a patch.
        notes: What could not be compared, and why.
        edits: The local edits; the other fields do not include them.
    """

    name: str
    before: Locked | None
    after: Locked | None
    changes: Changes | None = None
    facts: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    patch: str = ""
    binary: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = ()

    @property
    def status(self) -> Literal["added", "removed", "changed", "same"]:
        """The kind of change."""
        if self.before is None or self.after is None:
            return "added" if self.before is None else "removed"
        return "changed" if self.before != self.after else "same"


def diff(ref: Named, ports: Ports) -> Diff:
    """Compare a locked skill with the newest version that the intent allows, or with the one that ``ref`` names.

    Raises:
        NotFound: the skill is not locked, or there is no such version.
        SecurityError: the new version has another origin or signer, or its bytes are not the announced ones.
        SourceError: the new version cannot be fetched.
        Forbidden: a policy forbids its source.
    """
    state = read_state(ports.project, ports.sources)
    refuse_unknown([ref.name], state.lock.skills, ports.project, state.unlocked)
    entry = state.lock.skills[ref.name]
    wanted = state.wanted(ref.name)
    if ref.range is not None:
        if not entry.named:
            hint = f"{command(ports.project.scope, 'diff', ref.name)} compares with what its source has now"
            raise NotFound(f"{entry.source} has no versions to choose from", where=str(ref), hint=hint)
        wanted = replace(wanted_of(entry), version=ref.range)
    try:
        candidate = resolve_wanted(ref.name, wanted, state, ports).acquisition.run()
    except TakenBack as error:
        if ref.range is not None:
            raise
        return Diff(ref.name, entry, entry, notes=(f"{error.message}; {error.hint}",))
    check_against_lock(candidate, entry, ports.project.scope)
    whole = rebase_patch(candidate, entry, ports)
    notes = (whole.message,) if isinstance(whole, LeftOut) else ()
    candidate = candidate if isinstance(whole, LeftOut) else whole
    trees = _stored_tree(ref.name, entry, state, ports), candidate.tree
    compared = _diff_of_trees(ref.name, entry, candidate.entry, trees, (ports.voucher(entry), candidate.voucher))
    return replace(compared, notes=notes)


def edits_of(name: str, ports: Ports) -> tuple[Edit, ...]:
    """Return the local edits in the copies of a locked skill; copies with the same edit share one ``Edit``.

    Raises:
        NotFound: the skill is not locked.
        StateError: a copy cannot be read, or is too large.
        SecurityError, SourceError, Forbidden: the store lacks the enabled tree, and it cannot be fetched again.
    """
    state = read_state(ports.project, ports.sources)
    refuse_unknown([name], state.lock.skills, ports.project, state.unlocked)
    return _local_edits(name, state, ports)


def every_edit(ports: Ports) -> list[Diff]:
    """Return the local edits of all locked skills, without the skills that have none.

    Raises:
        StateError, SecurityError, SourceError, Forbidden: as for ``edits_of``.
    """
    state = read_state(ports.project, ports.sources)
    edits = {name: _local_edits(name, state, ports) for name in sorted(state.lock.skills)}
    skills = state.lock.skills
    return [Diff(name, skills[name], skills[name], edits=local) for name, local in edits.items() if local]


def _local_edits(name: str, state: State, ports: Ports) -> tuple[Edit, ...]:
    entry, record = state.lock.skills[name], state.records.skills.get(name)
    if record is None or not record.enabled:
        return ()
    base = ports.store.read(record.tree) or _stored_tree(name, entry, state, ports)
    places = Linker(ports.project, ports.store).plan(name, record.links, record.link, base.listing, record)
    copies: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for step in places.steps:
        if step.path in places.edited:
            now = read_edited(step.path, ports.store.root, ports.project, base)
            copies.setdefault(_differences(base, now), []).append(step.link)
    return tuple(Edit(tuple(paths), patch, whole) for (patch, whole), paths in copies.items())


def diff_locks(old: Lock, names: Sequence[str], ports: Ports) -> list[Diff]:
    """Compare another state of the lock with the present one, skill by skill; unchanged skills are left out.

    The trees are read from the store, or else fetched and verified. If that fails, or a policy forbids it, only the
    entries of the locks are compared.

    Raises:
        FormatError: the present lock or intent is malformed.
    """
    state = State(ports.project.lock(), Intent(), ports.project.records())
    new = state.lock
    diffs = []
    for name in sorted({*old.skills, *new.skills}.intersection(names or (*old.skills, *new.skills))):
        before, after = old.skills.get(name), new.skills.get(name)
        if after is None:
            diffs.append(Diff(name, before, after))
        elif before is None:
            diffs.append(_added_diff(name, after, state, ports))
        elif before != after:
            vouchers = ports.voucher(before, old), ports.voucher(after, new)
            diffs.append(_changed_diff(name, before, after, state, ports, vouchers))
    return diffs


def _added_diff(name: str, entry: Locked, state: State, ports: Ports) -> Diff:
    """Return the difference for an added skill, with as many details as for a changed one."""
    facts = [
        f"version {word(entry.version or '-')} from {word(entry.source)}: {word(entry.origin)}",
        f"signed by {shown_signers(entry.signed_by, ports.voucher(entry))}",
        f"it can: {in_words(entry.capabilities)}",
        f"it needs: {', '.join(map(word, entry.requires)) or 'nothing'}",
        *([f"patch {word(entry.patch.path)}"] if entry.patch else ()),
    ]
    try:
        tree = _stored_tree(name, entry, state, ports)
    except (SourceError, SecurityError, Forbidden) as error:
        return Diff(name, None, entry, facts=tuple(facts), notes=(f"its files are not shown: {error.message}",))
    facts += [f"+ {word(path)}" for path in tree]
    patch, whole = _differences({}, tree)
    return Diff(name, None, entry, None, tuple(facts), scan(tree), patch, whole)


def _changed_diff(name: str, before: Locked, after: Locked, state: State, ports: Ports, vouchers: _Vouchers) -> Diff:
    trees: list[Tree | None] = []
    notes = []
    for entry in (before, after):
        try:
            trees.append(_stored_tree(name, entry, state, ports))
        except (SourceError, SecurityError, Forbidden) as error:
            trees.append(None)
            notes.append(f"the files of {entry.version or entry.tree} are not compared: {error.message}")
    return replace(_diff_of_trees(name, before, after, (trees[0], trees[1]), vouchers), notes=tuple(notes))


def _stored_tree(name: str, entry: Locked, state: State, ports: Ports) -> Tree:
    """Return the files of an entry; unless the user agreed to it, it is fetched as from an unknown source."""
    record = state.records.skills.get(name)
    is_mine = record is not None and record.consent_to(entry) is not None
    return ports.store.read(entry.tree) or obtain_locked(name, entry, ports, is_agreed=is_mine, scan=False).tree


def _diff_of_trees(
    name: str, before: Locked, after: Locked, trees: tuple[Tree | None, Tree | None], vouchers: _Vouchers
) -> Diff:
    old, new = trees
    if old is None or new is None:
        changes = Changes.between(before, after, None, None)
        return Diff(name, before, after, replace(changes, vouchers=vouchers))
    changes = replace(Changes.between(before, after, old.listing, new.listing), vouchers=vouchers)
    return Diff(name, before, after, changes, (), tuple(_new_findings(old, new)), *_differences(old, new))


def _new_findings(old: Tree, new: Tree) -> Iterator[Finding]:
    """Yield the findings that ``new`` has more often than ``old``, by rule and file, since lines may have moved."""
    if old.digest == new.digest:
        return
    known = Counter(map(_finding_key, scan(old)))
    for finding in scan(new):
        known[_finding_key(finding)] -= 1
        if known[_finding_key(finding)] < 0:
            yield finding


def _finding_key(finding: Finding) -> tuple[str, str | None]:
    """Return the identity of a finding, independent of its line."""
    return finding.rule, finding.path


def _differences(old: Mapping[str, File], new: Mapping[str, File]) -> tuple[str, tuple[str, ...]]:
    """Return the differences that a person can read as a patch, and the paths of the other files that differ.

    A signature is one of the other files: it is a line of thousands of digits, which differ each time.
    """
    differ = {path for path in {*old, *new} if old.get(path) != new.get(path)}
    whole = {path for path in differ if None in (text_of(path, old.get(path)), text_of(path, new.get(path)))}
    whole |= differ & {SIGNATURE}
    before, after = ({path: files[path] for path in differ - whole if path in files} for files in (old, new))
    return difference(before, after)[0], tuple(sorted(whole))

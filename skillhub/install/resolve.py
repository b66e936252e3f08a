"""From a reference, a line of the intent or an entry of the lock to the skill that it names, by indexes alone."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

from skillhub.command.ports import Options, Place, Ports, unreachable_hint
from skillhub.command.state import State
from skillhub.errors import Forbidden, FormatError, NotFound, SkillhubError, SourceError, UsageError, hinting
from skillhub.formats.digest import Digest
from skillhub.formats.text import as_command, command, did_you_mean, spelled_like
from skillhub.install.candidates import Candidate, TreeBudget, is_within, locked_elsewhere, read_manifest
from skillhub.install.obtain import Acquisition, by_lock, by_path, by_place, by_source
from skillhub.install.trusted_sources import configured_server
from skillhub.model.hosts import Scope
from skillhub.model.index import Index, Release, choose_release, choose_skills
from skillhub.model.lock import Lock, Locked, of_plugin
from skillhub.model.reference import Git, GitHub, Local, McpConfigured, Named, Ref, Remote, canonical, parse_remote
from skillhub.model.tree import SKILL_MD
from skillhub.net.fetch import Who, by_agreement
from skillhub.project.copies import absolute, portable
from skillhub.project.intent import Wanted, is_at_place, is_from, wanted_of
from skillhub.project.last_seen import ReleaseStatus
from skillhub.project.store import Store
from skillhub.sources.configured import Source

if TYPE_CHECKING:
    from skillhub.model.manifest import Manifest
    from skillhub.model.needs import Requirement


@dataclass(frozen=True, slots=True)
class ResolvedSkill:
    """One skill to install, and its acquisition.

    Attributes:
        wanted: The line to write into the intent; None leaves the intent unchanged.
        optional: Whether it came with ``--all``, and may be left out.
        release: The release of the source, if it has an index.
        is_locked: Whether it is exactly the locked skill.
    """

    name: str
    acquisition: Acquisition
    wanted: Wanted | None = None
    optional: bool = False
    release: Release | None = None
    is_locked: bool = False

    def renamed(self, name: str) -> ResolvedSkill:
        """Return the skill under this name for the project."""
        acquisition = self.acquisition.map(lambda found: found.renamed(name))
        return replace(self, name=name, acquisition=acquisition, is_locked=self.is_locked and name == self.name)


_Skills = tuple[list[ResolvedSkill], tuple[str, ...]]  # and warnings


def resolve_ref(ref: Ref, options: Options, state: State, ports: Ports, *, named_by: Who = "person") -> _Skills:
    """Return the skills that a reference names, and warnings; ``named_by`` is as for ``Ports.open_place``.

    Raises:
        UsageError: it names several skills, or none, for one alias.
    """
    resolved, warnings = _skills_of(ref, options, state, ports, named_by)
    if options.alias is None:
        return resolved, warnings
    if len(resolved) != 1:
        names = ", ".join(each.name for each in resolved)
        raise UsageError(f"--as names one skill; found {names}", where=str(ref), hint="say which: --skill NAME")
    return [resolved[0].renamed(options.alias)], warnings


def _skills_of(ref: Ref, options: Options, state: State, ports: Ports, named_by: Who) -> _Skills:
    """Return the skills of a reference, each under its own name unless the lock has it under the alias.

    Raises:
        UsageError: the place has several skills and the user chose none, or several sources have the name.
        SourceMismatch: the lock has the name from another origin.
        SourceError: the place lacks the skill, or cannot be reached.
    """
    if isinstance(ref, Named):
        return [_of_name(ref, options.alias or ref.name, state, ports)], ()
    if isinstance(ref, Local):
        return _of_folder(ref, options, state, ports)
    if isinstance(ref, McpConfigured):
        ref, named_by = configured_server(ref, ports)
    place = _reached(ref, ports, named_by)
    index = place.index(options.skills or None)
    chosen = choose_skills(str(ref), index, options.skills, every=options.every, pick=ports.pick)
    resolved = [_of_remote(ref, place, each, options, state, ports) for each in chosen]
    return resolved, index.warnings


def _reached(ref: Remote, ports: Ports, named_by: Who) -> Place:
    try:
        return ports.open_place(ref, named_by=named_by)
    except SourceError as error:
        if isinstance(ref, GitHub):
            if ref.owner in ports.sources.all() and not (ref.path or ref.rev):
                error.hint = did_you_mean([f"{ref.owner}:{ref.repo}"])
            _hint_folder(error, str(ref).partition(":")[2], ports.project.scope)
        raise


def _of_remote(
    ref: Remote, place: Place, release: Release, options: Options, state: State, ports: Ports
) -> ResolvedSkill:
    key = options.alias or release.name
    entry = state.lock.skills.get(key)
    wanted = Wanted.of(ref, release.path, release.plugin)
    if (
        entry is not None
        and entry.own_name(key) == release.name
        and canonical(entry.source) == canonical(of_plugin(ref.source, release.plugin))
        and entry.path == release.path
    ):
        # The present contents of a place never change a locked entry; only `update` does.
        line = state.intent.skills.get(key)
        is_in_intent = line is not None and satisfies(entry, line, ports.project.base)
        found = resolve_locked(key, entry, state, ports)
        line = None if state.intent.is_here(key) else line
        return replace(found, wanted=line if is_in_intent else wanted, release=release)
    return ResolvedSkill(release.name, by_place(place, ref.source, release, ports), wanted, options.every, release)


def _of_folder(ref: Local, options: Options, state: State, ports: Ports) -> _Skills:
    full = os.path.expanduser(ref.path)
    if not os.path.isdir(full) or os.path.lexists(os.path.join(full, SKILL_MD)):
        return [_of_path(ref.path, state, ports)], ()
    index = ports.open_place(ref).index()
    base, top = ports.project.base, os.path.join(os.path.realpath(full), "")
    links = (absolute(base, link) for record in state.records.skills.values() for link in record.links)
    copies = {link.removeprefix(top) for link in links if link.startswith(top)}
    own = index.filtered(lambda each: each.path not in copies) if copies else index
    if index.skills and not own.skills:
        hint = f"{command(ports.project.scope, 'install')}, without a reference, installs the locked skills"
        raise NotFound("there are only copies of locked skills here", where=ref.path, hint=hint)
    chosen = choose_skills(ref.path, own, options.skills, every=options.every, pick=ports.pick)
    resolved = [
        replace(
            _of_path(os.path.join(ref.path, each.path) if each.path else ref.path, state, ports, each.plugin),
            name=each.name,
            optional=options.every,
            release=each,
        )
        for each in chosen
    ]
    return resolved, index.warnings


def _of_path(path: str, state: State, ports: Ports, plugin: str | None = None) -> ResolvedSkill:
    wanted = Wanted(path=portable(os.path.expanduser(path), ports.project.base), plugin=plugin)
    return ResolvedSkill(path, by_path(path, ports, "", state.trees, plugin=plugin), wanted)


def resolve_locked(name: str, entry: Locked, state: State, ports: Ports) -> ResolvedSkill:
    """Return exactly the locked skill; it is scanned if the user has not agreed to it, or may enable it now."""
    agreed = state.agreed(name)
    is_settled = agreed is not None and (agreed.enabled or agreed.disabled_by == "user")
    acquisition = by_lock(name, entry, ports, is_agreed=agreed is not None, scan=not is_settled)
    return ResolvedSkill(name, acquisition, is_locked=True)


def resolve_wanted(
    name: str, wanted: Wanted, state: State, ports: Ports, *, known: Locked | None = None
) -> ResolvedSkill:
    """Return the skill of a line of the intent; the line itself stays as it is.

    A local skill that is the same as ``known`` is not scanned, since callers that pass it drop such a skill.

    Raises:
        FormatError: the place of the line is impossible, or has several such skills.
    """

    own = wanted.name or name

    def check_name(found: Candidate) -> Candidate:
        if found.name != own:
            raise FormatError(f"skillhub.toml says {own}, its SKILL.md {found.name}", where=ports.project.intent_path)
        return found.renamed(name)

    ref = wanted.remote()
    if ref is not None:
        named_by = by_agreement(state.is_known(name, ref.source))
        try:
            found = resolve_at(own, ref, wanted.plugin, ports, named_by=named_by, locked=state.trees)
        except UsageError as error:  # the words are from a file, not typed
            where = f"{ports.project.intent_path}: skills.{name}"
            raise FormatError(error.message, where=where, hint=error.hint) from error
        return replace(found, name=name, acquisition=found.acquisition.map(check_name))
    if wanted.path is not None:
        acquisition = by_path(wanted.path, ports, ports.project.base, state.trees, known, wanted.plugin)
        return ResolvedSkill(name, acquisition.map(check_name))
    with hinting(where=f"{ports.project.intent_path}: skills.{name}", kinds=NotFound):
        found = resolve_named(Named(own, wanted.source, wanted.version), ports, state.trees)
    return replace(found.renamed(name), wanted=None)


def resolve_at(
    name: str,
    ref: Remote,
    plugin: str | None,
    ports: Ports,
    *,
    named_by: Who = "person",
    locked: Collection[Digest] = (),
) -> ResolvedSkill:
    """Return the skill of this name from a place; ``locked`` is as for ``by_place``.

    Raises:
        NotFound: the place has no such skill.
        UsageError: the place has several.
    """
    if plugin and isinstance(ref, Git | GitHub):
        ref = replace(ref, path=None)  # the list of plugins is at the top of the repository
    place = _reached(ref, ports, named_by)
    word = f"{plugin}:{name}" if plugin else name
    (release,) = choose_skills(str(ref), place.index((word,)), (word,), every=False, pick=ports.pick)
    return ResolvedSkill(name, by_place(place, ref.source, release, ports, locked), release=release)


def satisfies(entry: Locked, wanted: Wanted, base: str) -> bool:
    """Return whether the locked entry satisfies the line of the intent."""
    ref = wanted.remote()
    if wanted.name != entry.name:
        return False
    if ref is not None:
        return is_from(entry, ref) and entry.plugin == wanted.plugin
    if wanted.path is not None:
        return entry.path == portable(os.path.join(base, os.path.expanduser(wanted.path)), base)
    return wanted.source in (None, entry.source) and is_within(entry, wanted.version)


def _of_name(ref: Named, key: str, state: State, ports: Ports) -> ResolvedSkill:
    entry = state.lock.skills.get(key)
    if entry is not None and (locked := _locked_of_name(ref, key, entry, state, ports)) is not None:
        return locked
    with typed(ref, ports):
        return resolve_named(ref, ports)


def _locked_of_name(ref: Named, key: str, entry: Locked, state: State, ports: Ports) -> ResolvedSkill | None:
    """Return the locked skill, if it is what the reference names; None if the reference needs another release of it.

    The present index of a source never changes a locked entry; only `update` does.

    Raises:
        SourceMismatch: the reference names a skill of another origin.
    """
    # ``get`` raises for an unknown alias, which is a typing error, no sign of tampering.
    source = None if ref.source in (None, entry.source) else ports.sources.get(ref.source)
    place, base = source.place if source is not None else None, ports.project.base
    is_name = entry.own_name(key) == ref.name
    is_locked = is_name and (source is None or (place is not None and is_from(entry, place, base)))
    if is_locked and is_within(entry, ref.range) and not _is_recalled(key, entry, ref, ports):
        # Without a range, the present line of the intent stays; the user may have written it.
        line, wanted = state.intent.skills.get(key) if ref.range is None else None, None
        if line is not None:
            wanted = None if state.intent.is_here(key) else line
        elif entry.named:
            range_ = ref.range or _default_range(ports.sources.get(entry.source), entry.version)
            wanted = Wanted(source=entry.source, version=range_)
        elif place is not None:
            wanted = wanted_of(entry)
        return replace(resolve_locked(key, entry, state, ports), wanted=wanted)
    # Another revision of the same place has the same skill; the lock gets the revision of the request.
    if not (is_locked or (is_name and place is not None and is_at_place(entry, place, base))):
        raise locked_elsewhere(key, entry, str(replace(ref, range=None)), ports.project.scope)
    return None


def _is_recalled(key: str, entry: Locked, ref: Named, ports: Ports) -> bool:
    """Return whether the reference has a range and the locked release was withdrawn: the range may have another."""
    root = ports.root_of(entry) if ref.range is not None else None
    release = ReleaseStatus.last_seen(key, entry, root, ports.seen).release
    return release is not None and release.withdrawn is not None


def _default_range(source: Source, version: str | None) -> str | None:
    """Return the range for the intent if the user gave none; None for a source that is no registry."""
    return f"^{version}" if source.root is not None and version else None


def resolve_named(ref: Named, ports: Ports, locked: Collection[Digest] = ()) -> ResolvedSkill:
    """Return the newest release that the reference allows, from its source; ``locked`` is as for ``by_place``.

    Raises:
        NotFound, Forbidden, TakenBack, UsageError: see ``look_up`` and ``chosen_release``.
    """
    source, index = look_up(ref, ports)
    release = chosen_release(ref, source, index, ports.policies.latest_allowed_date(ports.clock()))
    wanted = Wanted(source=source.alias, version=ref.range or _default_range(source, release.version))
    if isinstance(source.place, Local):
        folder = os.path.join(source.place.path, release.path or "")
        wanted = Wanted(path=portable(folder, ports.project.base), plugin=release.plugin)
    elif source.place is not None:
        wanted = Wanted.of(source.place, release.path, release.plugin)
    acquisition = by_source(source, release, index, ports, locked)
    return ResolvedSkill(ref.name, acquisition, wanted, release=release)


def chosen_release(ref: Named, source: Source, index: Index, until: str | None = None) -> Release:
    """Return the release that the reference names; a place has one skill of a name, and no versions to choose from.

    Raises:
        NotFound, TakenBack, UsageError: see ``choose_release``.
        UsageError: a place, and the reference has a range, or several skills have the name.
    """
    if source.place is None:
        return choose_release(ref, index.releases(ref.name), until)
    if ref.range is not None:
        pinned = as_command("skillhub", "install", f"{source.alias}:{ref.name}")
        message = f"{source.alias} is {source.place}: its skills have no versions to choose by range"
        raise UsageError(message, where=str(ref), hint=f"{pinned}; a revision is pinned when a source is added")
    try:
        (release,) = choose_skills(str(ref), index, (ref.name,), every=False, pick=lambda _: ())
    except UsageError as error:
        error.hint = f"{as_command('skillhub', 'install', str(source.place))} --skill and one of these"
        raise
    return release


def look_up(ref: Named, ports: Ports) -> tuple[Source, Index]:
    """Return the one source that has the skill, and its index; a bare name is looked up in all sources.

    Sources that a policy forbids are not asked.

    Raises:
        NotFound: no source has it.
        Forbidden: no permitted source has it, and a policy forbids a source.
        UsageError: several sources have it.
    """
    if ref.source is not None:
        source = ports.sources.get(ref.source, str(ref))
        try:
            return source, ports.releases(source, ref.name)
        except NotFound as error:
            hint = f"{as_command('skillhub', 'source', 'show', ref.source)} lists what it has"
            raise NotFound(error.message, where=ref.source, hint=hint) from error
    found, refusal, known = {}, None, ports.sources.all()
    for alias, source in known.items():
        try:
            if source.place is None or ref.name in ports.listing(source).skills:
                found[alias] = ports.releases(source, ref.name)
        except NotFound:
            continue
        except Forbidden as error:
            refusal = error
        except SourceError as error:
            all_asked = f"a bare name is looked up in all sources, including {alias}; SOURCE:{ref.name} asks only one"
            error.hint = all_asked if error.hint in (None, unreachable_hint(alias)) else error.hint
            raise
    if len(found) > 1:
        names = [str(replace(ref, source=alias)) for alias in found]
        raise UsageError(f"{ref.name} is in several sources: {', '.join(names)}", hint=f"say which: {names[0]}")
    if not found:
        raise refusal or _in_no_source(ref.name, known, ports.project.scope)
    (alias,) = found
    return known[alias], found[alias]


def _in_no_source(name: str, known: Collection[str], scope: Scope) -> NotFound:
    hint = f"{as_command('skillhub', 'search', name)} finds similar names"
    if name in known:
        hint = f"{name} is a source: {as_command('skillhub', 'source', 'show', name)} lists what it has"
    error = NotFound(f"no source has a skill named {name}", where=", ".join(known) or None, hint=hint)
    _hint_folder(error, name, scope)
    return error


@contextmanager
def typed(ref: Named, ports: Ports) -> Iterator[None]:
    """Add similar names, of the source or of all sources, to the hint of a ``NotFound`` raised in the block."""
    try:
        yield
    except NotFound as error:
        aliases = [*ports.sources.all()] if ref.source is None else [ref.source]
        if error.where == ", ".join(aliases) and ref.name not in aliases:
            offered: dict[str, str] = {}
            for alias in aliases:
                with suppress(SkillhubError):  # the error stands without the similar names
                    offered |= dict.fromkeys(ports.listing(ports.sources.get(alias), ref.name).skills, alias)
            similar = [f"{offered[each]}:{each}" for each in spelled_like(ref.name, offered)]
            error.hint = did_you_mean(similar, error.hint or "")
        raise


def _hint_folder(error: SourceError, name: str, scope: Scope) -> None:
    """Replace the hint of an error by one about the folder of this name, if there is one."""
    if os.path.isdir(name):
        error.hint = f"to install the folder: {command(scope, 'install', f'./{name}')}"


_MOST = 2_000  # searches for skills that others need; each search that finds none gives a warning


class NeedConflict(SourceError):
    """Skills need each other in a cycle, or too many others, or no version satisfies all that need it."""

    code = "need-conflict"


@dataclass(frozen=True, slots=True)
class _Demand:
    """The need of one skill for another.

    Attributes:
        chain: The names from the requested skill to the one with the need.
    """

    need: Requirement
    chain: tuple[str, ...]

    def __str__(self) -> str:
        chain = self.chain if len(self.chain) <= 8 else (*self.chain[:4], "…", *self.chain[-4:])
        return f"{' -> '.join(chain)} needs {self.need.name} {self.need.range or ''}".rstrip()


def with_dependencies(
    found: Mapping[str, Candidate],
    state: State,
    ports: Ports,
    excepted: Collection[str] = (),
    unchanged: Collection[str] = (),
) -> tuple[dict[str, Candidate], list[str]]:
    """Return the candidates with their missing dependencies, and warnings about those that were not found.

    A dependency that was not found leaves the need open, and keeps the skill disabled if the need is required. A need
    without a source is looked up only in the source of the skill that has it. An ``excepted`` skill is not looked up;
    an ``unchanged`` skill was requested, too, and stays as locked.

    Raises:
        UsageError: an excepted skill is required.
        NeedConflict: a cycle of needs, too many dependencies, or no version in the ranges of all needs.
        SourceError, SecurityError, FormatError: as for any other skill.
    """
    candidates, warnings, budget, searches = dict(found), [], TreeBudget(ports.store), 0
    chains: dict[str, tuple[str, ...]] = {name: (name,) for name in candidates}
    demands: dict[str, list[_Demand]] = {}
    satisfied_by: dict[str, Locked] = {}  # the entries that satisfy all demands so far
    queue = deque(candidates)
    while queue:
        parent = candidates[queue.popleft()]
        for need in _needs(parent.manifest):
            demand = _Demand(need, chains[parent.name])
            demands.setdefault(need.name, []).append(demand)
            present = candidates[need.name].entry if need.name in candidates else state.lock.skills.get(need.name)
            open_demands = [demand] if satisfied_by.get(need.name) is present else demands[need.name]
            if present is not None and all(is_within(present, each.need.range) for each in open_demands):
                satisfied_by[need.name] = present
                if state.intent.members is not None and need.name not in {*candidates, *unchanged}:
                    # A package of the workspace that gets the parent may lack it.
                    locked = resolve_locked(need.name, present, state, ports)
                    candidates[need.name] = budget.keep(locked.acquisition.run())
                    chains[need.name] = (*chains[parent.name], need.name)
                    queue.append(need.name)
                continue
            if present is not None and (need.name in found or need.name in unchanged):
                raise _conflict(need.name, demands[need.name], present.version)
            if need.name in excepted:
                warnings.append(_left_out(demand))
                continue
            searches += 1
            if searches > _MOST:
                message = f"skills that are needed were searched more than {_MOST} times"
                raise NeedConflict(message, where=demand.chain[0], hint="install fewer at once: --skill NAME")
            try:
                candidates[need.name] = budget.keep(_obtain_dependency(demands[need.name], parent, state, ports))
            except NotFound as error:
                if need.required and present is not None:
                    raise _conflict(need.name, demands[need.name], present.version) from error
                warnings.append(_not_found(demand, error))
                if not need.required:
                    demands[need.name].pop()  # an optional need must not limit the version for others
                continue
            chains[need.name] = (*chains[parent.name], need.name)
            queue.append(need.name)
    _refuse_cycles(candidates, state.lock)
    _refuse_incompatible(candidates, state, ports)
    return candidates, warnings


def _not_found(demand: _Demand, error: NotFound) -> str:
    if not demand.need.required:
        return f"{demand}, which is optional and was not found: {error.message}"
    return f"{demand}, which was not found: {'; '.join(filter(None, (error.message, error.hint)))}"


def _left_out(demand: _Demand) -> str:
    """Return the warning about an optional dependency that ``--except`` leaves out.

    Raises:
        UsageError: the dependency is required.
    """
    message = f"{demand}, which --except leaves out"
    if demand.need.required:
        raise UsageError(message, hint=f"leave that out too: --except {demand.chain[0]}")
    return message


def ranges_on(name: str, lock: Lock, ports: Ports, but: Collection[str] = ()) -> list[tuple[str, str]]:
    """Return each locked skill that needs this one with a range, and the range, read from the stored bytes."""
    found = []
    for each in lock.dependents.get(name, ()):
        if each in but:
            continue
        needs = _stored_needs(ports.store, lock.skills[each].tree)
        found += [(each, need.range) for need in needs if need.name == name and need.range]
    return found


@lru_cache(maxsize=4096)  # a skill with many needs is read for each of them
def _stored_needs(store: Store, tree: Digest) -> tuple[Requirement, ...]:
    stored = store.read(tree)
    return tuple(_needs(read_manifest(stored))) if stored is not None else ()


def _needs(manifest: Manifest) -> Iterator[Requirement]:
    return (need for need in manifest.requires if need.kind == "skill")


def _obtain_dependency(demands: Sequence[_Demand], parent: Candidate, state: State, ports: Ports) -> Candidate:
    need = demands[-1].need
    ranges = [each.need.range for each in demands if each.need.range]
    ranges += [wanted for _, wanted in ranges_on(need.name, state.lock, ports, but={d.chain[-1] for d in demands})]
    ranges = list(dict.fromkeys(ranges))
    combined = replace(need, range=",".join(ranges) or None)
    entry = state.lock.skills.get(need.name)
    if entry is not None and need.name in state.intent.skills:
        raise _conflict(need.name, demands, entry.version)
    named_by = by_agreement(state.agreed(parent.name) is not None)
    try:
        found = _resolve_dependency(combined, parent, ports, named_by=named_by).acquisition.run()
    except NotFound as error:
        if {*ranges} <= {need.range}:
            raise
        # Raises if no version exists at all.
        _resolve_dependency(replace(need, range=None), parent, ports, named_by=named_by)
        raise _conflict(need.name, demands, None) from error
    if not is_within(found.entry, combined.range):
        raise _conflict(need.name, demands, found.entry.version)
    return found


def _resolve_dependency(need: Requirement, parent: Candidate, ports: Ports, *, named_by: Who) -> ResolvedSkill:
    if need.source is not None or parent.entry.named or parent.entry.local:
        alias = need.source or (parent.entry.source if parent.entry.named else None)
        return resolve_named(Named(need.name, alias, need.range), ports)
    ref = parse_remote(parent.entry.place)
    return resolve_at(need.name, ref, parent.entry.plugin, ports, named_by=named_by)


def _refuse_cycles(candidates: Mapping[str, Candidate], lock: Lock) -> None:
    """Refuse a cycle of needs."""
    needs = {name: [*entry.dependencies] for name, entry in lock.skills.items()}
    needs |= {name: [need.name for need in _needs(each.manifest)] for name, each in candidates.items()}
    graph: dict[str, list[str]] = {}  # the candidates and their dependencies; other locked skills do not change
    queue = deque(candidates)
    while queue:
        name = queue.popleft()
        if name not in graph:
            graph[name] = needs.get(name, [])
            queue.extend(graph[name])
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        ring = error.args[1][::-1]
        raise NeedConflict(f"skills need each other in a cycle: {' -> '.join(ring)}", where=ring[0]) from error


def _refuse_incompatible(candidates: Mapping[str, Candidate], state: State, ports: Ports) -> None:
    """Refuse a new version outside of the range of a locked skill that is no candidate."""
    locked = state.lock.skills
    for name in sorted(state.lock.dependents.keys() & candidates.keys()):
        candidate, before = candidates[name], locked.get(name)
        if before is not None and before.version == candidate.entry.version:
            continue
        for other, wanted in ranges_on(name, state.lock, ports, but=candidates):
            if not is_within(candidate.entry, wanted):
                raise NeedConflict(f"{other} needs {name} {wanted}, found {candidate.entry.version}", where=name)


def _conflict(name: str, demands: Sequence[_Demand], found: str | None) -> NeedConflict:
    chains = "; ".join(map(str, demands))
    has = f", but {name} resolves to {found}" if found else f", and no version of {name} satisfies all of them"
    return NeedConflict(f"{chains}{has}", where=name, hint="skillhub show NAME lists the versions of a skill")

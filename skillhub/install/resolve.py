"""What a reference, a line of the intent, an entry of the lock means; nothing is fetched here but indexes."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from skillhub.errors import Forbidden, FormatError, NotFound, SkillhubError, SourceError, UsageError
from skillhub.formats.digest import Digest
from skillhub.formats.text import as_command, did_you_mean, spelled_like
from skillhub.install.admission import elsewhere
from skillhub.install.candidates import Candidate, choose_release, choose_skills, choose_source, is_within
from skillhub.install.context import Options, Place, Ports, State, silent
from skillhub.install.locked import by_lock
from skillhub.install.obtain import Way, by_path, by_place, by_source
from skillhub.model.index import Index, Release
from skillhub.model.lock import Locked, of_plugin
from skillhub.model.reference import Git, GitHub, Local, Named, Ref, Remote, canonical
from skillhub.model.tree import SKILL_MD
from skillhub.net.target import Who, by_agreement
from skillhub.project.copies import portable
from skillhub.project.intent import Wanted
from skillhub.sources.configured import Source


@dataclass(frozen=True, slots=True)
class ResolvedSkill:
    """One skill that is meant, and how it is had.

    Attributes:
        wanted: The line to write into the intent; None leaves what is there.
        optional: Whether it came with ``--all``, and may be left out.
        release: What the source offers, where one does.
    """

    name: str
    way: Way[Any]
    wanted: Wanted | None = None
    optional: bool = False
    release: Release | None = None


def resolve_ref(
    ref: Ref, options: Options, state: State, ports: Ports, *, named_by: Who = "person"
) -> tuple[list[ResolvedSkill], tuple[str, ...]]:
    """Return the skills that a reference means, and what is odd about the place, which is ``named_by`` somebody.

    Raises:
        UsageError: it holds several skills and none was chosen, or its name is in several sources.
        SourceMismatch: the lock has the name from elsewhere.
        SourceError: it has no such skill, or cannot be reached.
    """
    if isinstance(ref, Named):
        return [_of_name(ref, state, ports)], ()
    if isinstance(ref, Local):
        return _of_folder(ref, options, state, ports)
    place = _opened(ref, ports, named_by=named_by)
    index = place.index(options.skills or None)
    chosen = choose_skills(str(ref), index, options.skills, every=options.every, pick=ports.pick)
    resolved = [_of_remote(ref, place, each, options, state, ports) for each in chosen]
    return resolved, index.warnings


def _opened(ref: Remote, ports: Ports, *, named_by: Who = "person") -> Place:
    try:
        return ports.reach(ref, named_by=named_by)
    except SourceError as error:
        if isinstance(ref, GitHub):
            _or_folder(error, str(ref).partition(":")[2])
        raise


def _of_remote(
    ref: Remote, place: Place, release: Release, options: Options, state: State, ports: Ports
) -> ResolvedSkill:
    entry = state.lock.skills.get(release.name)
    wanted = Wanted.of(ref, release.path, release.plugin)
    if (
        entry is not None
        and canonical(entry.source) == canonical(of_plugin(ref.source, release.plugin))
        and entry.path == release.path
    ):
        # What a place holds now never changes a locked entry; only `update` does.
        line = state.intent.skills.get(release.name)
        said = line is not None and satisfies(entry, line, ports.project.base)
        found = resolve_locked(release.name, entry, state, ports)
        return replace(found, wanted=None if said else wanted, release=release)
    return ResolvedSkill(release.name, by_place(place, ref.source, release, ports), wanted, options.every, release)


def _of_folder(
    ref: Local, options: Options, state: State, ports: Ports
) -> tuple[list[ResolvedSkill], tuple[str, ...]]:
    full = os.path.expanduser(ref.path)
    if not os.path.isdir(full) or os.path.lexists(os.path.join(full, SKILL_MD)):
        return [_of_path(ref.path, state, ports)], ()
    index = ports.reach(ref).index()
    chosen = choose_skills(ref.path, index, options.skills, every=options.every, pick=ports.pick)
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
    return ResolvedSkill(path, by_path(path, ports, locked=state.trees).then(_part_of(plugin)), wanted)


def _part_of(plugin: str | None) -> Callable[[Candidate], Candidate]:
    return lambda found: replace(found, entry=replace(found.entry, source=of_plugin(found.entry.source, plugin)))


def resolve_locked(name: str, entry: Locked, state: State, ports: Ports) -> ResolvedSkill:
    """Return the very skill that the lock names."""
    is_agreed = state.agreed(name) is not None
    return ResolvedSkill(name, by_lock(name, entry, ports, agreed=is_agreed, scanned=not is_agreed))


def resolve_wanted(name: str, wanted: Wanted, state: State, ports: Ports) -> ResolvedSkill:
    """Resolve a line of the intent; the line itself stays as the person wrote it.

    Raises:
        FormatError: what it names is no place that there could be, or holds several such skills.
    """
    ref = wanted.remote()
    if ref is not None:
        named_by = by_agreement(state.is_known(name, ref.source))
        try:
            found = resolve_at(name, ref, wanted.plugin, ports, named_by=named_by, locked=state.trees)
        except UsageError as error:  # a line of a file, not what somebody typed
            where = f"{ports.project.intent_path}: skills.{name}"
            raise FormatError(error.message, where=where, hint=error.hint) from error
        return replace(found, way=found.way.then(_called(name, ports)))
    if wanted.path is not None:
        way = by_path(wanted.path, ports, ports.project.base, state.trees).then(_part_of(wanted.plugin))
        return ResolvedSkill(name, way.then(_called(name, ports)))
    return replace(resolve_named(Named(name, wanted.source, wanted.version), ports, state.trees), wanted=None)


def resolve_at(
    name: str,
    ref: Remote,
    plugin: str | None,
    ports: Ports,
    *,
    named_by: Who = "person",
    locked: Collection[Digest] = (),
) -> ResolvedSkill:
    """Return the skill of that name which a place has; ``locked`` is as for ``by_place``.

    Raises:
        NotFound: it has none.
        UsageError: it has several.
    """
    if plugin and isinstance(ref, Git | GitHub):
        ref = replace(ref, path=None)  # which plugins there are is told at the top of the repository
    place = _opened(ref, ports, named_by=named_by)
    word = f"{plugin}:{name}" if plugin else name
    (release,) = choose_skills(str(ref), place.index((word,)), (word,), every=False, pick=ports.pick)
    return ResolvedSkill(name, by_place(place, ref.source, release, ports, locked), release=release)


def _called(name: str, ports: Ports) -> Callable[[Candidate], Candidate]:
    def check(found: Candidate) -> Candidate:
        if found.name != name:
            raise FormatError(
                f"skillhub.toml names it {name}, its SKILL.md {found.name}", where=ports.project.intent_path
            )
        return found

    return check


def satisfies(entry: Locked, wanted: Wanted, base: str) -> bool:
    """Say whether what is locked is what the line of the intent wants."""
    ref = wanted.remote()
    if ref is not None:
        folder = getattr(ref, "path", None)
        inside = folder is None or entry.path == folder or (entry.path or "").startswith(f"{folder}/")
        return inside and (canonical(entry.place), entry.plugin) == (canonical(ref.source), wanted.plugin)
    if wanted.path is not None:
        return entry.path == portable(os.path.join(base, os.path.expanduser(wanted.path)), base)
    return wanted.source in (None, entry.source) and is_within(entry, wanted.version)


def _of_name(ref: Named, state: State, ports: Ports) -> ResolvedSkill:
    entry = state.lock.skills.get(ref.name)
    if entry is not None and ref.source in (None, entry.source) and is_within(entry, ref.range):
        # What a source says now never changes a locked entry; only `update` does.
        # Who names no range agrees to the one that stands there; the line may be a person's own.
        said = ref.range is None and ref.name in state.intent.skills
        wanted = None
        if entry.named and not said:
            range_ = ref.range or _onward(ports.sources.get(entry.source), entry.version)
            wanted = Wanted(source=entry.source, version=range_)
        return replace(resolve_locked(ref.name, entry, state, ports), wanted=wanted)
    if entry is not None and ref.source not in (None, entry.source):
        ports.sources.get(ref.source)  # one that is not there is a slip, and no sign of tampering
        raise elsewhere(ref.name, entry, f"{ref.source}:{ref.name}", ports.project.scope)
    with typed(ref, ports):
        return resolve_named(ref, ports)


def _onward(source: Source, version: str | None) -> str | None:
    """Return the range that is wanted of what was asked for without one; a site that is no registry has none."""
    return f"^{version}" if source.root is not None and version else None


def resolve_named(ref: Named, ports: Ports, locked: Collection[Digest] = ()) -> ResolvedSkill:
    """Return the newest release of a source that the reference allows; ``locked`` is as for ``by_place``.

    Raises:
        NotFound, TakenBack, UsageError: see ``choose_source`` and ``choose_release``.
    """
    source, index = look_up(ref, ports)
    release = choose_release(ref, index.releases(ref.name), ports.policies.settled(ports.clock()))
    wanted = Wanted(source=source.alias, version=ref.range or _onward(source, release.version))
    way = by_source(source, release, index, ports, locked)
    return ResolvedSkill(ref.name, way, wanted, release=release)


def look_up(ref: Named, ports: Ports) -> tuple[Source, Index]:
    """Return the one source that has the skill, and what it offers; a bare name is looked for in all of them.

    Those that a policy forbids are not asked.

    Raises:
        Forbidden: no other has it.
    """
    if ref.source is not None:
        source = ports.sources.get(ref.source)
        try:
            return source, ports.releases(source, ref.name)
        except NotFound as error:
            hint = f"{as_command('skillhub', 'source', 'show', ref.source)} lists what it has"
            raise NotFound(error.message, where=ref.source, hint=hint) from error
    found, refusal, known = {}, None, ports.sources.all()
    for alias, source in known.items():
        try:
            found[alias] = ports.releases(source, ref.name)
        except NotFound:
            continue
        except Forbidden as error:
            refusal = error
        except SourceError as error:
            all_asked = f"a bare name is looked for in all sources, {alias} too; SOURCE:{ref.name} asks one alone"
            error.hint = all_asked if error.hint in (None, silent(alias)) else error.hint
            raise
    if refusal is not None and not found:
        raise refusal
    try:
        alias = choose_source(ref, tuple(found), tuple(known))
    except NotFound as error:
        if ref.name in known:
            shows = as_command("skillhub", "source", "show", ref.name)
            error.hint = f"{ref.name} is a source: {shows} lists what it has"
        _or_folder(error, ref.name)
        raise
    return known[alias], found[alias]


@contextmanager
def typed(ref: Named, ports: Ports) -> Iterator[None]:
    """Say in the hint of an error which skills of the source are spelled like the one that a person typed.

    Raises:
        NotFound: the source has no skill of that name.
    """
    try:
        yield
    except NotFound as error:
        if ref.source is not None and error.where == ref.source:
            with suppress(SkillhubError):  # that the name is not there is known without
                listed = ports.listing(ports.sources.get(ref.source)).skills
                close = [f"{ref.source}:{each}" for each in spelled_like(ref.name, listed)]
                error.hint = f"{did_you_mean(close)} {error.hint}".lstrip()
        raise


def _or_folder(error: SourceError, name: str) -> None:
    """Say in the hint of an error that what was looked for is a folder, if one is called so."""
    if os.path.isdir(name):
        error.hint = f"if the folder is meant: ./{name}"

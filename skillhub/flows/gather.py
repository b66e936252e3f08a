"""From references, intent and lock to candidates: what each means, and may it come from where it comes from."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from skillhub.errors import FormatError, NotFound, SourceMismatch, UsageError
from skillhub.flows.ahead import Ahead, Offer
from skillhub.flows.obtain import Candidate, from_lock, from_path, from_registry, portable, same_signer
from skillhub.flows.ports import Ports
from skillhub.flows.resolve import choose_release, choose_source
from skillhub.flows.standing import Standing
from skillhub.flows.wishes import Wishes
from skillhub.model.intent import Wanted
from skillhub.model.lock import Locked
from skillhub.model.ref import Local, Named, Ref
from skillhub.model.release import Index
from skillhub.model.version import Range, is_version
from skillhub.world.staged import Staged
from skillhub.world.store import Store

_HELD_MAX = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Pick:
    """What is meant: how it is obtained, and the artifact that this is going to ask for."""

    obtain: Callable[[Ports], Candidate]
    offer: Offer | None = None


def gather(refs: Sequence[Ref], wishes: Wishes, standing: Standing, ports: Ports) -> list[Candidate]:
    """Return a candidate for each reference; without any, for each skill of lock and intent.

    Raises:
        UsageError: two references give one name to two skills, or a name is in several sources.
        SourceMismatch: a name that the lock has from somewhere else.
        FormatError: ``--frozen``, and intent and lock disagree.
        SignerChanged: another signer than the lock's.
    """
    if refs and wishes.frozen:
        raise UsageError("--frozen installs what the lock says; it goes with no reference")
    picks = [_of_ref(ref, standing, ports) for ref in refs] if refs else _of_project(wishes, standing, ports)
    found: dict[str, Candidate] = {}
    for candidate in staged(_obtained(picks, ports), ports.store):
        twin = found.setdefault(candidate.name, candidate)
        if twin.tree.digest != candidate.tree.digest:
            raise UsageError(f"two references give the name {candidate.name} to different skills")
        _same_origin(candidate, standing.lock.skills.get(candidate.name), standing)
    return list(found.values())


def _obtained(picks: Sequence[_Pick], ports: Ports) -> Iterator[Candidate]:
    with Ahead([pick.offer for pick in picks if pick.offer], ports) as ahead:
        hasty = replace(ports, open=ahead.open)
        for pick in picks:
            yield pick.obtain(hasty)


def staged(candidates: Iterable[Candidate], store: Store, held_max: int = _HELD_MAX) -> Iterator[Candidate]:
    """Yield the candidates; once their trees pass ``held_max`` bytes, further ones wait in the store, unlinked.

    Raises:
        StateError: the disk is full or refuses.
    """
    held = 0
    for candidate in candidates:
        held += candidate.tree.size
        if held <= held_max:
            yield candidate
        else:
            yield replace(candidate, tree=Staged(store.put(candidate.tree), candidate.tree))


def _of_project(wishes: Wishes, standing: Standing, ports: Ports) -> list[_Pick]:
    picks = []
    for name, entry in standing.lock.skills.items():
        wanted = standing.intent.skills.get(name)
        if wanted is not None and not _satisfies(entry, wanted, ports.project.base):
            if wishes.frozen:
                raise _disagree(name, ports)
            picks.append(_of_intent(name, wanted, ports))
        else:
            picks.append(_of_lock(name, entry, standing, ports))
    for name, wanted in standing.intent.skills.items():
        if name not in standing.lock.skills:
            if wishes.frozen:
                raise _disagree(name, ports)
            picks.append(_of_intent(name, wanted, ports))
    return picks


def _disagree(name: str, ports: Ports) -> FormatError:
    return FormatError(
        f"the lock does not have {name} as skillhub.toml wants it",
        where=ports.project.lock_path,
        hint="run skillhub install without --frozen and commit the lock",
    )


def _satisfies(entry: Locked, wanted: Wanted, base: str) -> bool:
    if wanted.path is not None:
        return entry.path == portable(os.path.join(base, os.path.expanduser(wanted.path)), base)
    if wanted.source is not None and entry.source != wanted.source:
        return False
    if wanted.version is None:
        return True
    return (
        entry.version is not None
        and is_version(entry.version)
        and Range(wanted.version).allows(entry.version)
    )


def _of_intent(name: str, wanted: Wanted, ports: Ports) -> _Pick:
    """Resolve a line of the intent; the line itself stays as the person wrote it."""
    if wanted.path is None:
        newest = _newest(Named(name, wanted.source, wanted.version), ports)
        return _Pick(lambda ports: replace(newest.obtain(ports), wanted=None), newest.offer)
    path = wanted.path

    def obtain(ports: Ports) -> Candidate:
        found = from_path(path, ports, ports.project.base)
        if found.name != name:
            raise FormatError(
                f"skillhub.toml names it {name}, its SKILL.md {found.name}", where=ports.project.intent_path
            )
        return found

    return _Pick(obtain)


def _of_path(path: str) -> _Pick:
    def obtain(ports: Ports) -> Candidate:
        found = from_path(path, ports)
        return replace(found, wanted=Wanted(path=found.entry.path))

    return _Pick(obtain)


def _of_lock(name: str, entry: Locked, standing: Standing, ports: Ports) -> _Pick:
    offer = None
    if entry.path is None and not ports.store.has(entry.tree):
        source = ports.sources.get(entry.source)
        releases = ports.open(source).release_index([name]).releases(name)
        offer = next(((source, each) for each in releases if each.digest == entry.digest), None)
    agreed = standing.agreed(name) is not None
    return _Pick(lambda ports: from_lock(name, entry, ports, agreed=agreed), offer)


def _of_ref(ref: Ref, standing: Standing, ports: Ports) -> _Pick:
    if isinstance(ref, Local):
        return _of_path(ref.path)
    entry = standing.lock.skills.get(ref.name)
    if entry is not None and ref.source in (None, entry.source) and _within(entry, ref):
        # What a source says now never changes a locked entry; only `update` does.
        return _of_lock(ref.name, entry, standing, ports)
    if entry is not None and ref.source not in (None, entry.source):
        ports.sources.get(ref.source)  # one that is not there is a slip, and no sign of tampering
        raise _elsewhere(ref.name, entry, f"{ref.source}:{ref.name}", standing)
    return _newest(ref, ports)


def _within(entry: Locked, ref: Named) -> bool:
    return ref.range is None or (entry.version is not None and Range(ref.range).allows(entry.version))


def _newest(ref: Named, ports: Ports) -> _Pick:
    alias, index = look_up(ref, ports)
    release = choose_release(ref, index.releases(ref.name))
    admission = index.admissions[release.publisher or ""]
    source = ports.sources.get(alias)
    wanted = Wanted(source=alias, version=ref.range or f"^{release.version}")

    def obtain(ports: Ports) -> Candidate:
        return replace(from_registry(source, release, admission, ports), wanted=wanted)

    return _Pick(obtain, (source, release))


def look_up(ref: Named, ports: Ports) -> tuple[str, Index]:
    """Return the one source that has the skill, and what it offers; a bare name is looked for in all of them."""
    if ref.source is not None:
        registry = ports.open(ports.sources.get(ref.source))
        try:
            return ref.source, registry.release_index([ref.name])
        except NotFound as error:
            hint = f"skillhub source show {ref.source} lists what it has"
            raise NotFound(error.message, where=ref.source, hint=hint) from error
    found = {}
    for alias, source in ports.sources.all().items():
        try:
            found[alias] = ports.open(source).release_index([ref.name])
        except NotFound:
            continue
    alias = choose_source(ref, tuple(found), tuple(ports.sources.all()))
    return alias, found[alias]


def _same_origin(candidate: Candidate, entry: Locked | None, standing: Standing) -> None:
    if entry is None:
        return
    theirs = candidate.entry
    if entry.source != theirs.source or entry.path != theirs.path:
        raise _elsewhere(candidate.name, entry, theirs.path or theirs.url or theirs.source, standing)
    same_signer(candidate.name, entry, candidate)


def _elsewhere(name: str, entry: Locked, found: str, standing: Standing) -> SourceMismatch:
    origin = entry.path or entry.url or entry.source
    return SourceMismatch(
        f"{name} is locked from {entry.source} ({origin}); found another skill of that name at {found}",
        where=name,
        hint=f"if that is meant: skillhub remove {name}, then install the other one",
    )

"""From references, intent and lock to candidates: what each means, and may it come from where it comes from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from skillhub.errors import FormatError, NotFound, SourceMismatch, UsageError
from skillhub.flows.obtain import Candidate, from_lock, from_path, from_registry, same_signer
from skillhub.flows.ports import Ports
from skillhub.flows.resolve import choose_release, choose_source
from skillhub.flows.standing import Standing
from skillhub.flows.wishes import Wishes
from skillhub.model.intent import Wanted
from skillhub.model.lock import Locked
from skillhub.model.ref import Local, Named, Ref
from skillhub.model.release import Index
from skillhub.model.version import Range, is_version


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
    candidates = (
        [_of_ref(ref, standing, ports) for ref in refs] if refs else _of_project(wishes, standing, ports)
    )
    found: dict[str, Candidate] = {}
    for candidate in candidates:
        twin = found.setdefault(candidate.name, candidate)
        if twin.tree.digest != candidate.tree.digest:
            raise UsageError(f"two references give the name {candidate.name} to different skills")
        _same_origin(candidate, standing.lock.skills.get(candidate.name), standing)
    return list(found.values())


def _of_project(wishes: Wishes, standing: Standing, ports: Ports) -> list[Candidate]:
    candidates = []
    for name, entry in standing.lock.skills.items():
        wanted = standing.intent.skills.get(name)
        if wanted is not None and not _satisfies(entry, wanted):
            if wishes.frozen:
                raise _disagree(name, ports)
            candidates.append(_of_intent(name, wanted, standing, ports))
        else:
            candidates.append(from_lock(name, entry, ports))
    for name, wanted in standing.intent.skills.items():
        if name not in standing.lock.skills:
            if wishes.frozen:
                raise _disagree(name, ports)
            candidates.append(_of_intent(name, wanted, standing, ports))
    return candidates


def _disagree(name: str, ports: Ports) -> FormatError:
    return FormatError(
        f"the lock does not have {name} as skillhub.toml wants it",
        where=ports.project.lock_path,
        hint="run skillhub install without --frozen and commit the lock",
    )


def _satisfies(entry: Locked, wanted: Wanted) -> bool:
    if wanted.path is not None:
        return entry.path == wanted.path
    if wanted.source is not None and entry.source != wanted.source:
        return False
    if wanted.version is None:
        return True
    return (
        entry.version is not None
        and is_version(entry.version)
        and Range(wanted.version).allows(entry.version)
    )


def _of_intent(name: str, wanted: Wanted, standing: Standing, ports: Ports) -> Candidate:
    """Resolve a line of the intent; the line itself stays as the person wrote it."""
    if wanted.path is not None:
        found = from_path(wanted.path, ports, ports.project.base)
        if found.name != name:
            raise FormatError(
                f"skillhub.toml names it {name}, its SKILL.md {found.name}", where=ports.project.intent_path
            )
    else:
        found = _newest(Named(name, wanted.source, wanted.version), ports)
    return replace(found, wanted=None)


def _of_ref(ref: Ref, standing: Standing, ports: Ports) -> Candidate:
    if isinstance(ref, Local):
        found = from_path(ref.path, ports)
        return replace(found, wanted=Wanted(path=found.entry.path))
    entry = standing.lock.skills.get(ref.name)
    if entry is not None and ref.source in (None, entry.source) and _within(entry, ref):
        # What a source says now never changes a locked entry; only `update` does.
        return from_lock(ref.name, entry, ports)
    if entry is not None and ref.source not in (None, entry.source):
        raise _elsewhere(ref.name, entry, f"{ref.source}:{ref.name}", standing)
    return _newest(ref, ports)


def _within(entry: Locked, ref: Named) -> bool:
    return ref.range is None or (entry.version is not None and Range(ref.range).allows(entry.version))


def _newest(ref: Named, ports: Ports) -> Candidate:
    alias, index = look_up(ref, ports)
    release = choose_release(ref, index.releases(ref.name))
    admission = index.admissions[release.publisher or ""]
    candidate = from_registry(ports.sources.get(alias), release, admission, ports)
    return replace(candidate, wanted=Wanted(source=alias, version=ref.range or f"^{release.version}"))


def look_up(ref: Named, ports: Ports) -> tuple[str, Index]:
    """Return the one source that has the skill, and what it offers; a bare name is looked for in all of them."""
    if ref.source is not None:
        return ref.source, ports.open(ports.sources.get(ref.source)).release_index([ref.name])
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

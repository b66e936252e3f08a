"""Show: everything about one skill, installed here or offered by a source."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from skillhub.errors import Forbidden, NotFound, SourceError, StateError
from skillhub.flows.candidate import Candidate
from skillhub.flows.choose import choose_release
from skillhub.flows.hints import command
from skillhub.flows.listing import unmanaged
from skillhub.flows.needs import facts_of
from skillhub.flows.offered import by_source, releases_of
from skillhub.flows.options import Options
from skillhub.flows.ports import Ports
from skillhub.flows.resolve import look_up, resolve_ref, typed
from skillhub.flows.standing import Standing
from skillhub.flows.state import State
from skillhub.model.changes import Delta
from skillhub.model.intent import Intent
from skillhub.model.lock import Lock, Locked
from skillhub.model.manifest import Manifest
from skillhub.model.record import Records
from skillhub.model.ref import Named, Ref
from skillhub.model.release import Release
from skillhub.model.skill import Skill
from skillhub.model.tree import Tree
from skillhub.runtime.discover import found_skill
from skillhub.world.installed import given, needs_of, view
from skillhub.world.local import named, read_local


@dataclass(frozen=True, slots=True)
class Shown:
    """One skill, its manifest and files read off verified bytes, and the releases that its source offers.

    Attributes:
        releases: Of an installed skill whose source cannot be asked, as that was last seen.
        patched: What the project's patch touches; None where there is no patch, or what it is of is not stored.
        warnings: What the source says against the release that is installed, or why it was not asked.
    """

    skill: Skill
    manifest: Manifest
    tree: Tree
    releases: tuple[Release, ...]
    patched: Delta | None = None
    warnings: tuple[str, ...] = ()


def show(ref: Ref, ports: Ports) -> Shown:
    """Return what is known of a skill: the locked one, one in an agent's folder, else what the reference finds.

    Raises:
        NotFound: none of them is there.
        SecurityError, FormatError, SourceError: as for install.
        Forbidden: a policy forbids where what is not installed is from.
    """
    lock = ports.project.lock()
    if isinstance(ref, Named) and ref.range is None:
        entry = lock.skills.get(ref.name)
        if entry is not None and ref.source in (None, entry.source):
            return _installed(ref.name, entry, lock, ports)
        if ref.source is None and (found := _found(ref.name, ports)):
            return found
    if not isinstance(ref, Named):
        state = State(Lock(), Intent(), Records())
        (pick,), _ = resolve_ref(ref, Options(), state, ports)
        return _offered(pick.way.go(), (), ports)
    with typed(ref, ports):
        source, index = look_up(ref, ports)
    releases = index.releases(ref.name)
    release = choose_release(ref, releases)
    return _offered(by_source(source, release, index, ports).go(), releases, ports)


def _installed(name: str, entry: Locked, lock: Lock, ports: Ports) -> Shown:
    tree = ports.store.read(entry.tree)
    if tree is None:
        raise NotFound(
            f"the store does not hold {name}", hint=f"{command(ports.project.scope, 'sync')} fetches it again"
        )
    records = ports.project.records()
    is_met = given(ports.environ, records.enabled(lock.skills))
    skill = view(name, entry, records.skills.get(name), is_met, ports.project, ports.store)
    standing, silence = _standing(name, entry, lock, ports)
    error = standing.objection
    warnings = (error.message,) if error else standing.yanked
    base = ports.store.listing(entry.original.tree) if entry.patch else None
    patched = Delta.of_files(base, tree.listing) if base is not None else None
    return Shown(skill, Manifest.read(tree), tree, standing.offered, patched, (*silence, *warnings))


def _standing(name: str, entry: Locked, lock: Lock, ports: Ports) -> tuple[Standing, tuple[str, ...]]:
    """Return what the source of a locked skill says of it; where it cannot be asked what it last said, and why."""
    locked = lock.sources.get(entry.source)
    if locked is None:
        return Standing(name, entry), ()
    try:
        source = ports.sources.get(entry.source)
        if not source.is_meant(locked):
            raise NotFound(f"your source of that name is not the one that the lock has {name} from")
        said = releases_of(source, name, ports)
        return Standing(name, entry, said), ()
    except (Forbidden, SourceError, StateError) as error:
        seen = Standing.last_seen(name, entry, locked.root, ports.sources)
        when = "" if locked.root is None else "; its releases are shown as they were last seen"
        return seen, (f"{entry.source} was not asked: {error.message}{when}",)


def _found(name: str, ports: Ports) -> Shown | None:
    """Return the skill that ``list`` shows by this name though no lock knows it; None if there is none."""
    for folder in unmanaged(ports.project, ports.user_home, ports.environ):
        skill = found_skill(folder, ports.project.scope)
        if skill.name == name:
            with named(folder):
                tree = read_local(os.path.realpath(folder))[0].tree
                return Shown(skill, Manifest.read(tree), tree, ())
    return None


def _offered(found: Candidate, releases: tuple[Release, ...], ports: Ports) -> Shown:
    is_met = given(ports.environ, ports.project.records().enabled(ports.project.lock().skills))
    skill = replace(
        view(found.name, found.entry, None, is_met, ports.project, ports.store),
        path=None,
        managed=False,
        vouched_by=found.voucher,
        invocation="model" if found.manifest.model_invocable else "user",
        requires=needs_of(facts_of(found.manifest, found.can), None, is_met),
        description=found.manifest.description,
    )
    return Shown(skill, found.manifest, found.tree, releases)


def manifest_json(manifest: Manifest) -> Mapping[str, Any]:
    """Return the manifest as it is shown in JSON."""
    return {
        "name": manifest.name,
        "description": manifest.description,
        "version": manifest.version,
        "license": manifest.license,
        "compatibility": manifest.compatibility,
        "allowed_tools": list(manifest.allowed_tools),
        "user_invocable": manifest.user_invocable,
        "model_invocable": manifest.model_invocable,
        "hooks": manifest.hooks,
        "fork": dict(manifest.fork) if manifest.fork else None,
        "metadata": dict(manifest.metadata),
        "interface": dict(manifest.interface),
        "extra": dict(manifest.extra),
        "permissions": list(manifest.permissions),
        "warnings": list(manifest.warnings),
    }

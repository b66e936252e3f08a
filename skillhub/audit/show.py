"""Show one skill, and search sources and this machine."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from typing import Any

from skillhub.errors import Forbidden, NotFound, SourceError, StateError
from skillhub.formats.digest import Digest
from skillhub.install.candidates import Candidate, ReleaseStatus, choose_release
from skillhub.install.context import Options, Ports, State, command
from skillhub.install.needs import facts_of
from skillhub.install.obtain import by_source
from skillhub.install.resolve import look_up, resolve_ref, typed
from skillhub.model.changes import Delta
from skillhub.model.index import Index, Release
from skillhub.model.lock import Lock, Locked
from skillhub.model.manifest import Manifest
from skillhub.model.record import Records, Skill
from skillhub.model.reference import Named, Ref
from skillhub.model.tree import Tree
from skillhub.project.installed import given, needs_of, unmanaged, view
from skillhub.project.intent import Intent
from skillhub.runtime.discover import found_skill
from skillhub.runtime.ranking import Hits, SearchIndex, Stored, rows_of
from skillhub.runtime.ranking import search as rank
from skillhub.sources.configured import Source
from skillhub.sources.local import named, read_local

# Show: everything about one skill, installed here or offered by a source.


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

    def to_json(self) -> dict[str, Any]:
        """Return what ``skillhub show --json`` prints."""
        files = self.tree.listing
        return {
            **self.skill.to_json(),
            "manifest": manifest_json(self.manifest),
            "files": [
                {"path": path, "size": len(file.data), "sha256": files[path].sha256, "executable": file.executable}
                for path, file in self.tree.items()
            ],
            "releases": [
                {key: getattr(each, key) for key in ("version", "published", "yanked", "withdrawn")}
                for each in self.releases
            ],
            "patched": asdict(self.patched) if self.patched else None,
            "warnings": list(self.warnings),
        }


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
        return _offered(pick.acquisition.run(), (), ports)
    with typed(ref, ports):
        source, index = look_up(ref, ports)
    releases = index.releases(ref.name)
    release = choose_release(ref, releases)
    return _offered(by_source(source, release, index, ports).run(), releases, ports)


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


def _standing(name: str, entry: Locked, lock: Lock, ports: Ports) -> tuple[ReleaseStatus, tuple[str, ...]]:
    """Return what the source of a locked skill says of it; where it cannot be asked what it last said, and why."""
    locked = lock.sources.get(entry.source)
    if locked is None:
        return ReleaseStatus(name, entry), ()
    try:
        source = ports.sources.get(entry.source)
        if not source.is_meant(locked):
            raise NotFound(f"your source of that name is not the one that the lock has {name} from")
        said = ports.releases(source, name)
        return ReleaseStatus(name, entry, said), ()
    except (Forbidden, SourceError, StateError) as error:
        seen = ReleaseStatus.last_seen(name, entry, locked.root, ports.sources)
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


# Search: in the listings of the sources, and in the skills that are here; by the same ranking.


def search(
    query: str, skills: Sequence[Skill], limit: int, listed: Iterable[tuple[Source, Index]] = (), cache: str = ""
) -> Hits:
    """Return what is found in the skills that are here, and in what sources list.

    Args:
        query: What a person remembers.
        skills: Those that are here.
        limit: How many hits to return.
        listed: Sources with their listings.
        cache: Where the index of a listing is kept; always safe to delete.

    Raises:
        StateError: this Python's SQLite cannot index texts.
    """
    with ExitStack() as opened:
        indexes = [opened.enter_context(closing(SearchIndex.build(rows_of(skills))))]
        for source, listing in listed:
            indexes.append(opened.enter_context(closing(_listed(source, listing, cache))))
        return rank(query, indexes, limit)


def _listed(source: Source, listing: Index, cache: str) -> SearchIndex:
    """Return the index of a listing: the one that is kept if it was made of this very listing."""
    rows = [
        Stored(name=name, description=releases[0].description, source=source.alias)
        for name, releases in sorted(listing.skills.items())
        if releases and releases[0].withdrawn is None
    ]
    proof = sha256()
    for row in rows:
        proof.update(f"{row.name}\0{row.description}\0{row.source}\n".encode("utf-8", "replace"))
    path = os.path.join(cache, "search", f"{(source.root or Digest.of(source.url.encode())).hex}.db")
    found = SearchIndex.opened(path, proof.hexdigest())
    if found is not None:
        return found
    try:
        return SearchIndex.kept(path, proof.hexdigest(), rows)
    except StateError:  # what cannot be written, or not read again, is made for this search alone
        return SearchIndex.build(rows)

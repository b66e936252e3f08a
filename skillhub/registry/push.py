"""Publish a registry's site where clients read it, in an order that keeps the site valid at every moment.

Signed files are published only if the registry's timestamp leads to them, so leftovers of a killed ``add`` stay in
the folder. No signed file is removed, since a running client may still need the previous state.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from hashlib import sha256
from itertools import takewhile

from tuf.api.exceptions import LengthOrHashMismatchError
from tuf.api.metadata import TargetFile, Targets, Timestamp  # type: ignore[attr-defined]

from skillhub.disk import files, folders
from skillhub.errors import BadMetadata, FormatError, Refused, Rollback, StateError, UsageError
from skillhub.formats.text import as_command, quote
from skillhub.model.index import Index, Release
from skillhub.model.tree import SKILL_MD
from skillhub.registry import log_writer
from skillhub.registry.check import check
from skillhub.registry.log_writer import CHECKPOINT
from skillhub.registry.operator import OpenRegistry, RegistryDir, Signing, opened
from skillhub.registry.other_clients import NPM
from skillhub.registry.outputs import built_files, files_in, is_fixed, record_path, records
from skillhub.registry.push_targets import APART, FILE_CAP, TIMESTAMP_PATH, SiteFile, Target
from skillhub.trust.documents import LISTING_PATH, public_documents, shards, short_listing
from skillhub.trust.registry_metadata import MetadataSet, path_of, verify
from skillhub.trust.roles import ROOT, SNAPSHOT, TARGETS, TIMESTAMP, WELL_KNOWN, skill_path

Connect = Callable[[str], Target]


@dataclass(frozen=True, slots=True)
class Pushed:
    """The written and removed files, as paths below the site in their order, and the number of unchanged files.

    ``is_new`` says whether the folder or the branch did not exist before.
    """

    written: tuple[str, ...]
    removed: tuple[str, ...]
    unchanged: int
    is_new: bool


def push(folder: str, address: str, connect: Connect, *, now: datetime, dry_run: bool = False) -> Pushed:
    """Publish the current state of a registry to a target; a client sees either the old state or this one.

    If the process is killed, the site stays valid, and the same call finishes the work.

    Args:
        folder: The folder of the registry.
        address: The address of the target; a folder if it has no scheme.
        connect: Opens the target with that address.
        now: The time.
        dry_run: Report the files that would be written, and write none.

    Raises:
        Refused: the registry is invalid, or something else is published at the target.
        Rollback: the published state is newer.
        BadMetadata: the published metadata is not signed by this registry.
        UsageError: the address is invalid, or the target's folder contains the registry or is inside it.
        NotFound: the registry or the target does not exist.
        SourceError: the target cannot be reached.
        StateError: the target or the disk refuses, or another process publishes to the target at the same time.
        FormatError: a published document is not metadata.
    """
    with _connected(folder, address, connect, now) as (hub, target):
        _refuse_invalid(hub, now)
        site = list(_site_files(hub, target))
        compared = [(file, target.holds(file)) for file in site]
        earlier = _Earlier(hub, target)
        different = (file.path for file, is_same in compared if is_same is False and earlier.is_unknown(file.path))
        _refuse_others(target, [path for path in different if earlier.is_first or path in earlier.own])
        changed, gone = [file for file, is_same in compared if not is_same], earlier.gone()
        if (changed or gone or earlier.changed or earlier.was_killed) and not dry_run:
            with earlier.noted():
                target.publish(site, changed, gone, earlier.changed)
                if earlier.was_killed:
                    target.remove_unfinished(site)
    return Pushed(tuple(file.path for file in changed), tuple(gone), len(site) - len(changed), not target.is_there)


def check_target(
    folder: str, address: str, connect: Connect, *, now: datetime, planned: Collection[str] = ()
) -> bool:
    """Return whether the target is there; refuse one whose published site ``push`` would refuse; raises as ``push``.

    Args:
        folder: The folder of the registry.
        address: The address of the target.
        connect: Opens the target with that address.
        now: The time.
        planned: The paths of files that will be built for the site.
    """
    with _connected(folder, address, connect, now) as (hub, target):
        _served_metadata(hub, _roots(hub)[1], target)
        if target.is_browsed:
            earlier = _Earlier(hub, target)
            unknown = filter(earlier.is_unknown, planned)
            _refuse_others(target, sorted(path for path in unknown if target.read(path) is not None))
        return target.is_there


# The built files that earlier pushes wrote to a target: a push replaces and removes no file of anybody else.

_SHOWN = 10  # names of files in an error
_RECORDS = ".skillhub"  # the folder of a site with the records of the built files that were pushed there


class _Earlier:
    """The built files that earlier pushes wrote to a target, by its copy of the records of the build.

    A push that began and did not end left the files that it was to write in a file of the registry's folder.

    Attributes:
        own: The SHA-256 of the built files of this registry, by path.
        is_first: Whether no push wrote more than files that never change.
        changed: The records that the target does not hold.
        was_killed: Whether the last push did not end.
    """

    def __init__(self, hub: OpenRegistry, target: Target) -> None:
        own = records(hub.registry.path) if target.is_browsed else {}
        self.own = {path: digest for record in own.values() for path, digest in files_in(record).items()}
        self._target, self._digests = target, dict[str, set[str]]()
        self._registry = files.HeldFolder(hub.registry.path)
        self._begun = record_path(hub.registry.path, f"push-{sha256(target.where.encode()).hexdigest()}") + ".begun"
        root = _root_path(1)
        self.is_first = target.compare(_fixed_file(root, hub.registry.served(root))) is None
        self._is_recorded, self.changed = self.is_first, list[SiteFile]()
        for name, data in own.items():
            file = _fixed_file(f"{_RECORDS}/{name}", data)
            is_same = target.compare(file)
            self._is_recorded |= is_same is not None
            self._add((data if is_same else target.read(file.path) if is_same is False else None) or b"")
            self.changed += () if is_same else (file,)
        note = files.read(self._begun, FILE_CAP)
        self.was_killed = note is not None
        for line in (note or b"").splitlines():
            self._add(line)
        if not self._is_recorded:  # by an earlier version; npm would install a withdrawn release from its document
            self._digests.update((f"{NPM}/{name}", set()) for name in (hub.index().skills if own else ()))

    def _add(self, record: bytes) -> None:
        for path, digest in files_in(record).items():
            self._digests.setdefault(path, set()).add(digest)

    def is_unknown(self, path: str) -> bool:
        """Return whether no push is known to have written this file; an earlier version kept no records."""
        return self._is_recorded and path not in self._digests

    def gone(self) -> list[str]:
        """Return the paths of files that an earlier push wrote, nobody changed since, and the build has no more."""
        found = []
        for path, digests in self._digests.items():
            data = None if path in self.own else self._target.read(path)
            if data is not None and (not digests or sha256(data).hexdigest() in digests):
                found.append(path)
        return sorted(found)

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Keep a note of the files that a push is about to write, until it has ended."""
        fresh = {path: digest for path, digest in self.own.items() if digest not in self._digests.get(path, ())}
        folders.append(self._begun, f"\n{json.dumps({'': ['', fresh]})}\n", self._registry)
        yield
        folders.remove_below(self._begun, self._registry)


@contextmanager
def _connected(folder: str, address: str, connect: Connect, now: datetime) -> Iterator[tuple[OpenRegistry, Target]]:
    with opened(folder, Signing(now=now)) as hub:
        if "://" not in address:
            _refuse_unfit(hub.registry.path, address)
        with closing(connect(address)) as target:
            yield hub, target


def _refuse_others(target: Target, paths: Sequence[str]) -> None:
    """Raise Refused if there is a path, at which the target has a file that no push wrote."""
    if paths:
        named = ", ".join(map(quote, paths[:_SHOWN])) + (", …" if len(paths) > _SHOWN else "")
        hint = "move them away, or name another target"
        raise Refused(f"other files have names that the site needs: {named}", where=target.where, hint=hint)


def _roots(hub: OpenRegistry) -> tuple[list[str], list[bytes]]:
    paths = [_root_path(number) for number in range(1, hub.metadata.read(ROOT).version + 1)]
    return paths, [hub.registry.served(path) for path in paths]


def _refuse_unfit(registry: str, address: str) -> None:
    """Raise UsageError if one of two folders contains the other, or the target is a skill or a registry."""
    if os.path.lexists(os.path.join(address, SKILL_MD)):
        hint = "name another folder, such as the web server's: the skill would publish the registry's files"
        raise UsageError("expected a folder for a site, found a skill", where=address, hint=hint)
    own, other = (os.path.join(os.path.normcase(os.path.realpath(path)), "") for path in (registry, address))
    if own.startswith(other) or other.startswith(own) or RegistryDir(address).exists:
        hint = "name a folder that is not in the registry's and does not contain it, such as the web server's"
        raise UsageError("expected a folder apart from a registry's, which holds its keys", where=address, hint=hint)


def _refuse_invalid(hub: OpenRegistry, now: datetime) -> None:
    """Raise Refused if a client, new or returning, would refuse the registry."""
    path = hub.registry.path
    issues = check(path, now).problems
    if issues:
        hint = as_command("skillhub", "registry", "check", path)
        raise Refused(f"the registry is invalid: {issues[0].message}", where=issues[0].where, hint=hint)
    try:
        # `check` reads single documents; this verifies the snapshot in the bundle for new clients.
        snapshot_meta = hub.metadata.signed(TIMESTAMP, Timestamp).snapshot_meta
        snapshot_meta.verify_length_and_hashes(hub.metadata.documents[SNAPSHOT])
    except LengthOrHashMismatchError as error:
        raise Refused("the registry is invalid: its snapshot does not match its signature", where=path) from error


def _site_files(hub: OpenRegistry, target: Target) -> Iterator[SiteFile]:
    """Yield the files of the site in the order of publication; raises as ``push``.

    Clients use a root as soon as it is published: a root that does not verify the served metadata comes last.
    """
    paths, roots = _roots(hub)
    served = _served_metadata(hub, roots, target)
    served_roots = sum(target.read(path) is not None for path in paths)
    early_roots = served_roots + sum(1 for _ in takewhile(lambda root: _verifies(root, served), roots[served_roots:]))
    index = hub.index()
    for releases in index.skills.values():
        kept = (release for release in releases if release.withdrawn is None)  # the archive of another may be deleted
        yield from (SiteFile(_archive_path(release), partial(hub.artifact, release)) for release in kept)
    head = hub.log_head(hub.metadata)
    for path in log_writer.paths(head.checkpoint.size if head else 0):
        yield SiteFile(path, partial(hub.registry.served, path))
    listed = [*hub.large.targets()] if hub.large else []
    yield from (SiteFile(path_of(file), partial(hub.registry.content, file)) for file in _targets(hub, listed))
    yield from map(_fixed_file, paths[:early_roots], roots[:early_roots])
    metadata = hub.metadata.files()
    last_paths = {TIMESTAMP_PATH, paths[-1]}
    other_paths = sorted((path for path in metadata if path not in last_paths), key=is_fixed, reverse=True)
    yield from (_fixed_file(path, metadata[path]) for path in other_paths)
    # For clients without TUF.
    yield from _public_files(hub, index, listed)
    built = built_files(hub.registry.path) if target.is_browsed else []
    yield from (SiteFile(path, partial(hub.registry.served, path)) for path in built)
    yield _fixed_file(TIMESTAMP_PATH, metadata[TIMESTAMP_PATH])
    if head:
        yield _fixed_file(CHECKPOINT, head.note.dump())
    yield from map(_fixed_file, paths[early_roots:], roots[early_roots:])


def _public_files(hub: OpenRegistry, index: Index, listed: Sequence[TargetFile]) -> Iterator[SiteFile]:
    """Yield the public files for clients without TUF, generated from signed documents; the parts pin ``listed``."""
    if hub.large is None:
        signed = {path: hub.signed(path) for path in (LISTING_PATH, *map(skill_path, index.skills))}
        public = public_documents(index, signed, index.skills)
    else:
        lists = shards(index, index.skills, lambda _: None)
        public = public_documents(index, {}, index.skills) | lists | short_listing()
        documents = (file for file in listed if file.path.startswith("skills/"))
        yield from (SiteFile(f"{WELL_KNOWN}/{file.path}", partial(hub.registry.content, file)) for file in documents)
    yield from (_fixed_file(path, data) for path, data in public.items())


def _served_metadata(hub: OpenRegistry, roots: Sequence[bytes], target: Target) -> Mapping[str, bytes]:
    """Return the metadata that the target serves now, by role; empty if there is none, or it is already current."""
    ours = hub.metadata
    first_root, timestamp = target.read(_root_path(1)), target.read(TIMESTAMP_PATH)
    public = f"{WELL_KNOWN}/{LISTING_PATH}"
    if first_root not in (None, roots[0]) or (first_root is None and (timestamp or target.read(public))):
        hint = "push to an empty place; clients of that registry would not follow"
        raise Refused("something else is published there already", hint=hint)
    _refuse_newer_root(roots, target)
    if timestamp in (None, ours.documents[TIMESTAMP]):
        return {}
    documents = {TIMESTAMP: timestamp}
    if not any(_verifies(root, documents) for root in roots):
        raise _foreign_error(TIMESTAMP_PATH)
    _refuse_newer_versions(ours, MetadataSet.load(documents))
    return documents | _served_targets(hub, MetadataSet.load(documents), target)


def _refuse_newer_root(roots: Sequence[bytes], target: Target) -> None:
    path = _root_path(len(roots) + 1)
    next_root = target.read(path)
    if next_root is None:
        return
    try:
        verify(ROOT, next_root, MetadataSet.load({ROOT: roots[-1]}).read(ROOT))
    except (BadMetadata, FormatError) as error:
        raise _foreign_error(path) from error
    raise _stale_error(ROOT, len(roots) + 1, len(roots))


def _refuse_newer_versions(own: MetadataSet, served: MetadataSet) -> None:
    for role, served_version, own_version in (
        (TIMESTAMP, served.read(TIMESTAMP).version, own.read(TIMESTAMP).version),
        (SNAPSHOT, served.snapshot_version, own.snapshot_version),
    ):
        if served_version > own_version:
            raise _stale_error(role, served_version, own_version)
    if served.read(TIMESTAMP).version == own.read(TIMESTAMP).version:
        raise StateError("another timestamp of the same version is served there", hint=APART)


def _served_targets(hub: OpenRegistry, served: MetadataSet, target: Target) -> dict[str, bytes]:
    """Return the snapshot and the top targets that the target serves.

    Every document that the snapshot names must be in this folder. Otherwise another copy of the registry was pushed,
    and its additions would be lost.
    """
    snapshot = _own_document(hub, f"metadata/{served.snapshot_version}.snapshot.json", target)
    versions = MetadataSet.load({SNAPSHOT: snapshot}).target_versions
    documents = {role: _own_document(hub, f"metadata/{versions[role]}.{role}.json", target) for role in versions}
    return {SNAPSHOT: snapshot} | {role: data for role, data in documents.items() if role == TARGETS}


def _own_document(hub: OpenRegistry, path: str, target: Target) -> bytes:
    try:
        data = hub.registry.served(path)
    except StateError as error:
        raise StateError(f"{path} is served there, but this folder never created it", hint=APART) from error
    target.holds(_fixed_file(path, data))
    return data


def _verifies(root: bytes, documents: Mapping[str, bytes]) -> bool:
    try:
        MetadataSet.load({**documents, ROOT: root}).verify()
    except BadMetadata:
        return False
    return True


def _foreign_error(path: str) -> BadMetadata:
    hint = "find out who writes there; delete the file if it is not needed, and push again"
    return BadMetadata(f"{path} is served there, and is not signed by this registry", hint=hint)


def _stale_error(role: str, served: int, own: int) -> Rollback:
    hint = "this folder is an old copy of the registry; push from the newest one"
    return Rollback(f"version {served} of {role} is served there, and this registry has {own}", hint=hint)


def _targets(hub: OpenRegistry, listed: Sequence[TargetFile]) -> Iterator[TargetFile]:
    yield from hub.publishers().values()
    yield from listed
    for role in hub.metadata.documents:
        document = hub.metadata.read(role)
        for path in document.targets if isinstance(document, Targets) else ():
            target = hub.metadata.find(path)
            if target is not None:
                yield target


def _archive_path(release: Release) -> str:
    digest = release.digest.hex if release.digest else ""
    name = release.url.rpartition("/")[2]
    if not release.url.startswith("archives/") or ".." in release.url or name != f"{digest}.zip":
        raise BadMetadata(f"expected an archive named by its digest, found {quote(release.url)}")
    return release.url


def _root_path(number: int) -> str:
    return f"metadata/{number}.root.json"


def _fixed_file(path: str, data: bytes) -> SiteFile:
    return SiteFile(path, lambda: data)

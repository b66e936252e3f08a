"""From a source to a verified candidate: download, unpack, verify, scan, patch."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from threading import Thread
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from skillhub import scan
from skillhub.archive.limits import Limits
from skillhub.archive.unpack import unpack
from skillhub.command.ports import LeftOut, Place, Ports
from skillhub.disk import files
from skillhub.edits import patch
from skillhub.errors import BadSignature, FormatError, NotFound, SecurityError, SourceMismatch, WrongBytes
from skillhub.formats.digest import Digest
from skillhub.formats.text import command, deferred, quote
from skillhub.install import candidates, pins
from skillhub.install.candidates import Candidate, Content
from skillhub.model.index import Index, Release
from skillhub.model.lock import LOCAL, Locked, Patch, by_word, of_plugin
from skillhub.model.reference import Local, holds_secret, masked, parse_remote, repository
from skillhub.model.tree import Tree, Unpacked
from skillhub.net.fetch import Who, by_agreement
from skillhub.project.copies import portable
from skillhub.project.last_seen import ReleaseStatus
from skillhub.scan import ScannedSkill, capabilities_and_findings
from skillhub.sources.configured import Source
from skillhub.sources.local import files_of_project, hint_to_sign_again, named, read_local
from skillhub.trust.publishers import judge, publisher_of
from skillhub.trust.registry_rules import agrees

if TYPE_CHECKING:
    from skillhub.model.manifest import Manifest

USUAL_SIZE = 2 * 1024 * 1024  # bytes; few skills are larger

# Scans a tree with this manifest: here, in a process beside this one, or not at all.
Scan: TypeAlias = Callable[[Tree, "Manifest"], Content]


def scan_here(tree: Tree, manifest: Manifest) -> Content:
    """Return the content of a skill, scanned now."""
    return Content(manifest, *capabilities_and_findings(tree, manifest))


def no_scan(_: Tree, manifest: Manifest) -> Content:
    """Return the content of a skill without its capabilities and findings, which will not be used."""
    return Content(manifest)


def scan_from(result_of: Callable[[Tree], ScannedSkill]) -> Scan:
    """Return the scan that asks a process beside this one for its result."""

    def scan(tree: Tree, manifest: Manifest) -> Content:
        found = result_of(tree)
        if found.capabilities is None:
            return scan_here(tree, manifest)
        return Content(manifest, found.capabilities, found.findings)

    return scan


def unless_same(known: Locked | None, scan: Scan) -> Scan:
    """Return the scan that leaves out a skill with the tree and version of ``known``."""

    def scan_others(tree: Tree, manifest: Manifest) -> Content:
        is_same = known is not None and (known.tree, known.version) == (tree.digest, manifest.version)
        return Content(manifest) if is_same else scan(tree, manifest)

    return scan_others


def read(tree: Tree, scan: Scan = scan_here) -> Content:
    """Read the manifest and scan the tree.

    Raises:
        FormatError: the manifest is malformed.
        SecurityError: the manifest requires a forbidden variable.
    """
    return scan(tree, candidates.read_manifest(tree))


@contextmanager
def scan_loading(ports: Ports) -> Iterator[None]:
    """Load the scan's modules in a thread while the network waits for its first answer.

    The thread is joined: only a process with a single thread can be forked.
    """
    thread = Thread(target=_load_scan, daemon=True)
    ports.before_requests(thread.start)
    try:
        yield
    finally:
        ports.before_requests(lambda: None)
        if thread.ident:
            thread.join()


def _load_scan() -> None:
    with suppress(ImportError, OSError):  # raised again by the scan itself
        scan.load()


# One pipeline for every kind of source, in memory: bytes -> verified, unpacked, read and scanned: a ``Candidate``, of
# which nothing is on disk yet. A function named ``by_…`` returns an ``Acquisition``, which fetches when it runs.


@dataclass(frozen=True, slots=True)
class Acquisition:
    """The two steps that obtain one skill.

    Attributes:
        fetch: Downloads the bytes; it may run on a thread, before they are needed.
        verify: Verifies and reads the result of ``fetch``, and scans it.
        size: Bytes to download; 0 if unknown.
    """

    fetch: Callable[[], Any]
    verify: Callable[[Any, Scan], Candidate]
    size: int = 0

    def run(self, scan: Scan = scan_here) -> Candidate:
        """Fetch and verify now, on this thread."""
        return self.verify(self.fetch(), scan)

    def map(self, change: Callable[[Candidate], Candidate]) -> Acquisition:
        """Return the acquisition of the changed candidate."""
        verify = self.verify
        return replace(self, verify=lambda fetched, scan: change(verify(fetched, scan)))


def nothing() -> None:
    """Fetch nothing ahead: the skill is on this machine."""


def by_source(
    source: Source, release: Release, index: Index, ports: Ports, locked: Collection[Digest] = ()
) -> Acquisition:
    """Return the acquisition of a release of ``Ports.releases``; ``locked`` is as for ``by_place``."""
    if source.root is not None:
        return by_registry(source, release, index, ports, locked)
    if isinstance(source.ref, Local):
        return by_path(os.path.join(source.ref.path, release.path or ""), ports, "", locked, plugin=release.plugin)
    place = ports.open_place(source.ref, named_by=source.named_by)
    return by_place(place, source.ref.source if source.place else source.alias, release, ports, locked)


def by_registry(
    source: Source, release: Release, index: Index, ports: Ports, locked: Collection[Digest] = ()
) -> Acquisition:
    """Return the acquisition of a release, verified against its registry's metadata and its publisher's signature.

    Args:
        source: The registry.
        release: The release, from ``index``.
        index: The opened registry's index of the skill, with its publishers.
        ports: The ports of the command.
        locked: The trees for which an expired certificate is tolerated.
    """
    registry, admission = ports.open_registry(source), index.admissions[release.publisher or ""]
    _refuse_secret(release)

    def fetch() -> bytes | Unpacked:
        data = registry.artifact(release)
        with suppress(FormatError, SecurityError):  # ``verify`` unpacks a larger archive, and raises for a bad one
            return unpack(data, "zip", Limits(total=USUAL_SIZE), wrapper=False)
        return data

    def verify(fetched: bytes | Unpacked, scan: Scan) -> Candidate:
        unpacked = fetched if isinstance(fetched, Unpacked) else unpack(fetched, "zip", wrapper=False)
        # The registry alone decides who owns the name, not the publishers that the user trusts.
        owner = publisher_of(admission, release.published)
        verdict = judge(unpacked.tree, [owner], source.alias, ports.clock(), locked)
        if verdict.signer is None or verdict.status != "valid":
            publisher = by_word(admission.publisher, source.alias)
            message = f"expected {release.name} to be signed by {publisher}, found it {verdict.status}"
            raise SecurityError(message, where=release.url, hint="report this to the registry's operator")
        content = read(verdict.tree, scan)
        agrees(release, name=content.manifest.name, version=content.manifest.version, tree=verdict.tree.digest)
        origin = {"url": release.url, "digest": release.digest, "size": release.size or 0}
        entry = candidates.entry_of(content, verdict, source.alias, origin)
        publishers = [owner, *pins.trusted_publishers(ports.publishers)]
        found = candidates.candidate_of(content, entry, verdict, unpacked.warnings, publishers)
        return replace(found, published=release.published, voucher=ports.voucher(entry))

    return Acquisition(fetch, verify, release.size or 0)


def _refuse_secret(release: Release) -> None:
    """Refuse a URL that must not be written into a lock, before the first request.

    Raises:
        FormatError: the URL holds a credential.
    """
    if holds_secret(release.url):
        message = f"{release.name} is offered at a URL with a password or another credential in it"
        raise FormatError(message, where=masked(release.url), hint="ask its operator for a URL without one")


def by_place(
    place: Place, source: str, release: Release, ports: Ports, locked: Collection[Digest] = ()
) -> Acquisition:
    """Return the acquisition of a skill of a place that is no registry.

    Args:
        place: The opened place.
        source: The source for the lock: an alias, or the user's reference.
        release: The skill, as the place's index or a lock describes it.
        ports: The ports of the command.
        locked: The trees for which an expired certificate is tolerated.
    """
    _refuse_secret(release)
    path = {"path": release.path} if release.path else {}
    origin: dict[str, Any] = {"url": release.url, "digest": release.digest, **path}
    if release.type == "tree":
        origin = {"git": release.url, "rev": release.rev, "path": release.path}
    source = of_plugin(source, release.plugin)

    def verify(unpacked: Unpacked, scan: Scan) -> Candidate:
        try:
            found = _unvouched(unpacked, source, origin, ports, locked, scan)
        except FormatError as error:
            error.where = f"{release.url}{'#' if release.path else ''}{release.path or ''}: {error.where}"
            raise
        if release.type != "tree" and found.name != release.name:
            raise SourceMismatch(f"the index names it {release.name}, its SKILL.md {found.name}", where=release.url)
        return replace(candidates.check_folder_name(found, release.path), published=place.committed(release))

    return Acquisition(lambda: place.unpacked(release), verify, release.size or 0)


def by_path(
    path: str,
    ports: Ports,
    base: str = "",
    locked: Collection[Digest] = (),
    known: Locked | None = None,
    plugin: str | None = None,
) -> Acquisition:
    """Return the acquisition of a local folder or archive at ``path``, from ``base`` or the working folder.

    An expired certificate is tolerated for the ``locked`` trees. The tree and version of ``known`` are verified, but
    not scanned; since little is left to do for such a skill, it is not read ahead.

    The acquisition raises:
        NotFound: the path does not exist.
        LinkLeavesProject: the path is in the project, and a link on it leads out of the project.
        SecurityError: an unsafe archive or folder, or a broken signature.
        FormatError: the archive or the manifest is malformed.
    """
    full = os.path.join(base, os.path.expanduser(path))
    locked_path = portable(full, ports.project.base)

    def fetch() -> Unpacked:
        is_inside = ports.project.scope == "project" and not os.path.isabs(locked_path) and locked_path != "."
        entries = () if files.keeps_modes(full) else ports.project.lock().skills.values()
        trees = (each.original.tree for each in entries if each.local and each.path == locked_path)
        like = next(map(ports.store.listing, trees), None)
        with named(path, (FormatError,)):
            place = files.inside(ports.project.base, locked_path) if is_inside else full
            return read_local(place, like=like, leave_out=files_of_project(place))

    def verify(unpacked: Unpacked, scan: Scan) -> Candidate:
        origin = {"path": locked_path, "digest": unpacked.archive}
        with named(path, (FormatError,)):
            try:
                found = _unvouched(unpacked, LOCAL, origin, ports, locked, unless_same(known, scan))
            except BadSignature as error:
                error.hint = error.hint or hint_to_sign_again(full, error.reason)
                raise
            found = candidates.check_folder_name(found, None if unpacked.archive else os.path.abspath(full))
        found = replace(found, entry=replace(found.entry, source=of_plugin(found.entry.source, plugin)))
        if os.path.isabs(locked_path) and ports.project.scope == "project":
            return found.noted(f"{locked_path} is outside the project: others who share the lock do not have it")
        return found

    if known is not None:
        return Acquisition(nothing, lambda _, scan: verify(fetch(), scan))
    return Acquisition(fetch, verify)


def _unvouched(
    unpacked: Unpacked, source: str, origin: dict[str, Any], ports: Ports, locked: Collection[Digest], scan: Scan
) -> Candidate:
    """Verify a skill that no registry vouches for, by the publishers that the user trusts.

    Raises:
        SecurityError: a broken signature, or a forbidden need.
        FormatError: the manifest is malformed.
    """
    limit = ports.trusted_for(source)
    verdict, own = pins.judge_with_own_keys(unpacked.tree, ports.publishers, limit, ports.clock(), locked)
    content = read(verdict.tree, scan)
    entry = candidates.entry_of(content, verdict, source, origin)
    publishers = pins.trusted_publishers(ports.publishers)
    found = candidates.candidate_of(content, entry, verdict, unpacked.warnings, publishers)
    return replace(found, own=own) if own else found


# The project's patch on the source's tree: applied in memory, its result compared with the lock.


def _with_patch(found: Candidate, entry: Locked, ports: Ports, *, scan: bool) -> Candidate:
    """Return the candidate with the lock's patch, if it has one; warn of a patch or capabilities that the lock lacks.

    Raises:
        NotFound: the patch file does not exist.
        WrongBytes: the patch, or the patched tree, differs from the lock.
        FormatError: the patch or the patched manifest is malformed.
        SecurityError: the patched tree holds a forbidden path or file.
        LinkLeavesProject: the path of the patch leads out of the project through a link.
    """
    if entry.patch is not None:
        stored = ports.store.read(entry.tree)
        tree = stored or patch.checked_as_archive(
            patch.apply(patch.read_patch(entry.patch, ports.project), found.tree, entry.patch.path)
        )
        if tree.digest != entry.tree:
            raise WrongBytes(f"expected the patched tree {entry.tree}, found {tree.digest}", where=entry.patch.path)
        patched = candidates.with_patched_tree(found, tree, read(tree, scan_here if scan else no_scan))
        found = replace(patched, entry=entry, stored=found.stored and stored is not None)
    notes = candidates.undeclared(found.capabilities, entry), patch.patch_warning(found.name, entry, ports.project)
    return found.noted(*filter(None, notes))


def rebase_patch(found: Candidate, entry: Locked | None, ports: Ports) -> Candidate | LeftOut:
    """Return the candidate with the lock's patch of its name merged in; leave it out if the patch does not apply.

    Args:
        found: The candidate from a source or from the lock.
        entry: The lock's entry of the name.
        ports: The ports of the command.

    Raises:
        SourceError, SecurityError: the locked skill is unavailable, or its bytes differ from the lock.
    """
    if entry is None or entry.patch is None or found.entry.patch is not None:
        return found
    base, mine = (
        ports.store.read(each.tree) or obtain_locked(found.name, each, ports, scan=False).tree
        for each in (entry.original, entry)
    )
    merged = patch.merge_skills(base, mine, found.tree)
    if merged is None:
        message = f"{entry.patch.path} does not apply to {found.entry.version or found.entry.short}"
        drop = command(ports.project.scope, "patch", found.name, "--drop")
        return LeftOut(found.name, "patch", f"{message}; {drop} drops it")
    return with_new_patch(found, merged, ports, entry)


def with_new_patch(found: Candidate, tree: Tree, ports: Ports, before: Locked | None = None) -> Candidate | LeftOut:
    """Return the candidate with its differences from ``tree`` as the project's patch.

    Args:
        found: The candidate of the source.
        tree: The patched tree, for agents.
        ports: The ports of the command.
        before: The lock's entry; an unchanged patch is not written again.

    Raises:
        FormatError: the manifest is malformed.
        SecurityError: the patched manifest requires a forbidden variable, or has another name.
        LinkLeavesProject: the folder for patches leads out of the project.
    """
    text, unpatchable = patch.difference(found.tree, tree)
    deleted = [path for path, file in found.tree.items() if path not in tree and patch.text_of(path, file) is None]
    if unpatchable or deleted:
        files = ", ".join(sorted([*unpatchable, *deleted]))
        return LeftOut(found.name, "patch", f"a patch holds only text files, and these are not text: {files}")
    if not text:
        return found
    content = read(tree)
    new = Patch(
        base=found.tree.digest, digest=Digest.of(text.encode()), path=patch.free_path(found.name, ports.project)
    )
    old = before.patch if before else None
    is_there = old is not None and (old.base, old.digest) == (new.base, new.digest)
    kept, data = (old, None) if is_there else (new, text.encode())
    requires, capabilities = candidates.spelled(content.manifest), content.capabilities
    entry = replace(found.entry, tree=tree.digest, capabilities=capabilities, requires=requires, patch=kept)
    return replace(candidates.with_patched_tree(found, tree, content), entry=entry, patch=data)


# From an entry of the lock to exactly the locked skill, or an error, whatever the source's index says now.

# Where registries keep the archives of a skill; other layouts are not checked.
_ARCHIVE = deferred(r"/archives/([^/]+)/[^/]+/[0-9a-f]{64}\.zip\Z")


def by_lock(name: str, entry: Locked, ports: Ports, *, is_agreed: bool, scan: bool = True) -> Acquisition:
    """Return the acquisition of the locked skill: from the store if it has the tree, else from the locked origin.

    Args:
        name: The skill.
        entry: Its entry of the lock.
        ports: The ports of the command.
        is_agreed: Whether this person agreed to this tree from this origin before; until then, a repository named it.
        scan: Whether to scan it and compare the capabilities of the lock; an agreed skill was scanned before.

    Raises:
        Withdrawn: the registry withdrew it, by its last known state.
        BadSignature: the registry revoked its key.
        SourceError: its source cannot be reached.
    """
    if ports.store.has(entry.original.tree):
        found = Acquisition(nothing, lambda *_: obtain_locked(name, entry, ports, is_agreed=is_agreed, scan=scan))
    else:
        found = _by_locked_origin(name, entry.original, ports, is_agreed=is_agreed)
        found = found.map(lambda each: _with_patch(each, entry, ports, scan=scan))
    return found.map(lambda each: candidates.check_claims(each, ports.project.scope, scan=scan))


def obtain_locked(name: str, entry: Locked, ports: Ports, *, is_agreed: bool = False, scan: bool = True) -> Candidate:
    """Return the candidate of the locked skill, obtained now; see ``by_lock``.

    Raises:
        WrongBytes: the bytes differ from the lock.
        SignerChanged: its signer differs from the lock.
        Withdrawn: its registry withdrew it.
        SourceError: its source cannot be reached.
    """
    with candidates.about_skill(name):
        found = _from_store_or_source(name, entry.original, ports, is_agreed=is_agreed, scan=scan)
        return _with_patch(found, entry, ports, scan=scan)


def _from_store_or_source(name: str, entry: Locked, ports: Ports, *, is_agreed: bool, scan: bool) -> Candidate:
    """Return the stored skill, verified again; from its source if it is not stored or was not verified from there."""
    root = ports.root_of(entry)
    status = ReleaseStatus.last_seen(name, entry, root, ports.seen)
    status.refuse(ports.project.scope, ports.project.intent)
    tree = ports.store.read(entry.tree)
    pinned = pins.pinned(name, entry, root, ports.publishers)
    # Without a pin or consent, only the lock says that the stored tree came from there; of a path that is gone, too.
    is_gone = entry.local and not os.path.lexists(os.path.join(ports.project.base, entry.path or ""))
    is_known = pinned or (root is None and not entry.signed_by and (is_agreed or is_gone))
    if tree is None or not is_known:
        return _by_locked_origin(name, entry, ports, is_agreed=is_agreed).run()
    limit = ports.trusted_for(entry.source)
    publishers = [*pinned, *candidates.revoking(status), *pins.trusted_publishers(ports.publishers)]
    verdict = judge(tree, publishers, limit, ports.clock(), locked=(entry.tree,))
    content, release = read(tree, scan_here if scan else no_scan), status.release
    size = tree.size if root is None else (release.size if release else None)
    shown = replace(entry, size=entry.size if size is None else size, version=content.manifest.version)
    found = candidates.candidate_of(content, shown, verdict, (), publishers)
    found = _verified(name, entry, found, ports)
    found = replace(found, stored=ports.store.listing(entry.tree) is not None, voucher=ports.voucher(entry))
    return replace(found, published=release.published).noted(*status.yanked) if release else found


def _by_locked_origin(name: str, entry: Locked, ports: Ports, *, is_agreed: bool) -> Acquisition:
    """Return the acquisition of exactly the locked bytes from the locked origin."""
    if ports.root_of(entry):
        found = _by_locked_registry(name, entry, ports)
    else:
        found = _by_locked_place(name, entry, ports, named_by=by_agreement(is_agreed))
    return found.map(lambda each: _verified(name, entry, each, ports))


def _by_locked_place(name: str, entry: Locked, ports: Ports, *, named_by: Who) -> Acquisition:
    if entry.local:
        return _by_locked_path(name, entry, ports)
    name = entry.own_name(name)
    if entry.git is not None:
        place = ports.open_place(repository(entry.git), entry.rev, named_by=named_by)
        release = Release(name=name, url=entry.git, type="tree", rev=entry.rev, path=entry.path, plugin=entry.plugin)
    else:
        source = ports.sources.get(entry.source) if entry.named else None
        ref, by = (source.ref, source.named_by) if source is not None else (parse_remote(entry.place), named_by)
        place = ports.open_place(ref, named_by=by)
        kind: Literal["files", "archive"] = "files" if entry.digest is None else "archive"
        url = entry.url or ""
        release = Release(name=name, url=url, digest=entry.digest, type=kind, version=entry.version, path=entry.path)
        release = replace(release, tree=entry.tree)
    return by_place(place, entry.place, release, ports, (entry.tree,)).map(lambda each: each.stated_by(ports.bundle))


def _by_locked_path(name: str, entry: Locked, ports: Ports) -> Acquisition:
    """Return the acquisition of a locked folder or archive from its path, or from the bundle if the path is gone."""
    path = entry.path or ""
    full = os.path.join(ports.project.base, os.path.expanduser(path))
    if os.path.lexists(full):
        return by_path(path, ports, ports.project.base, (entry.tree,))
    unpacked = ports.bundled(entry.tree) if ports.bundled else None
    if unpacked is None:
        hint = f"put the skill there, or {command(ports.project.scope, 'remove', name)} takes it out of the lock"
        raise NotFound(f"the lock has {name} from a path that is not here", where=full, hint=hint)
    origin = {"path": path, "digest": entry.digest}

    def verify(_: None, scan: Scan) -> Candidate:
        return _unvouched(unpacked, LOCAL, origin, ports, (entry.tree,), scan).stated_by(ports.bundle)

    return Acquisition(nothing, verify)


def _by_locked_registry(name: str, entry: Locked, ports: Ports) -> Acquisition:
    source = ports.sources.get(entry.source)
    try:
        status = ReleaseStatus(name, entry, ports.index_of(name, entry))
        status.refuse(ports.project.scope, ports.project.intent)
        if status.release is None:
            raise candidates.missing_release(status, source, ports.project.scope)
    except NotFound as error:
        # A lock and a URL with different names are a contradiction, not a missing skill.
        found = _ARCHIVE.search(entry.url or "")
        own = entry.own_name(name)
        if found is None or found[1] == own:
            raise
        raise SourceMismatch(f"the lock names {own}, its URL {quote(found[1])}", where=entry.url) from error
    acquisition = by_registry(source, status.release, status.index, ports, (entry.tree,))
    return acquisition.map(lambda each: each.noted(*status.yanked))


def _verified(name: str, entry: Locked, found: Candidate, ports: Ports) -> Candidate:
    """Return ``found`` with the lock's entry, or raise if it differs from that."""
    scope, where = ports.project.scope, entry.origin
    if found.tree.digest != entry.tree:
        message = f"expected {name} to be the tree {entry.tree}, found {found.tree.digest}"
        hint = candidates.how_to_mend_lock(name, entry, scope, is_of_registry=ports.root_of(entry) is not None)
        raise WrongBytes(message, where=where, hint=hint)
    if found.entry.size != entry.size:
        raise WrongBytes(f"expected {name} to be {entry.size} bytes, found {found.entry.size}", where=where)
    own = entry.own_name(name)
    if found.name != own:
        raise SourceMismatch(f"the lock names {own}, its SKILL.md {found.name}", where=where)
    is_same = candidates.is_same_place(found.entry, entry, ports.sources, ports.project.lock())
    if found.entry.version != entry.version or not is_same:
        raise SourceMismatch(
            f"the lock has {name} {entry.version} from {where}, "
            f"found {found.entry.version} from {found.entry.origin}",
            where=name,
            hint=f"{command(scope, 'remove', name)}, then install it again",
        )
    candidates.check_same_signer(found, entry, scope, ports.root_of(entry))
    return replace(found, name=name, entry=entry)

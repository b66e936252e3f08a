"""From a source to a verified candidate: prefetch, download, unpack, verify, scan, patch."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from skillhub.archive import Entry, Limits, Unpacked, gather, unpack
from skillhub.disk import files
from skillhub.edits.patch import apply, read_patch
from skillhub.errors import BadSignature, FormatError, NotFound, SecurityError, SourceMismatch, WrongBytes
from skillhub.formats.digest import Digest
from skillhub.formats.text import command, deferred, quote
from skillhub.install import candidates
from skillhub.install.candidates import (
    SEEN_AHEAD,
    Candidate,
    Content,
    ReleaseStatus,
    SeenAhead,
    about_skill,
    candidate,
    check_same_signer,
    is_same_place,
    nothing_seen,
    read,
    spelled,
)
from skillhub.install.context import Place, Ports, Report
from skillhub.model.finding import is_kept_for_documentation
from skillhub.model.hosts import Scope
from skillhub.model.index import Index, Release
from skillhub.model.lock import LOCAL, Locked, by_word, of_plugin
from skillhub.model.reference import Local, holds_secret, masked, parse_remote, repository
from skillhub.model.tree import Tree
from skillhub.net.target import Who, by_agreement
from skillhub.project.copies import portable
from skillhub.scan import MANY
from skillhub.sources.configured import Source
from skillhub.sources.local import named, read_local, sign_anew
from skillhub.trust.publishers import Verdict, judge
from skillhub.trust.registry import agrees, publisher_of

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

# One pipeline for every kind of source, all in memory: bytes -> verified, unpacked, read and scanned. Nothing of the
# ``Candidate`` that comes out is on disk, and nobody has agreed to it yet.


@dataclass(frozen=True, slots=True)
class Acquisition:
    """How one skill is obtained.

    Attributes:
        fetch: Downloads the bytes; it may run on a thread, before they are needed.
        verify: Verifies what ``fetch`` returned, and reads it.
        size: Bytes to download; 0 if unknown.
    """

    fetch: Callable[[], Any]
    verify: Callable[[Any], Candidate]
    size: int = 0

    def run(self) -> Candidate:
        """Fetch and verify, now."""
        return self.verify(self.fetch())

    def map(self, change: Callable[[Candidate], Candidate]) -> Acquisition:
        """Return the acquisition of the changed candidate."""
        verify = self.verify
        return replace(self, verify=lambda fetched: change(verify(fetched)))


def nothing() -> None:
    """Fetch nothing: the skill is on this machine."""


def by_source(
    source: Source, release: Release, index: Index, ports: Ports, locked: Collection[Digest] = ()
) -> Acquisition:
    """Return how to obtain a release that ``Ports.releases`` gave; ``locked`` is as for ``by_place``."""
    if source.root is not None:
        return by_registry(source, release, index, ports, locked)
    if isinstance(source.ref, Local):
        return by_path(os.path.join(source.ref.path, release.path or ""), ports, "", locked, plugin=release.plugin)
    place = ports.reach(source.ref, named_by=source.named_by)
    return by_place(place, source.ref.source if source.place else source.alias, release, ports, locked)


def by_registry(
    source: Source, release: Release, index: Index, ports: Ports, locked: Collection[Digest] = ()
) -> Acquisition:
    """Return how to obtain a release, verified against its registry's metadata and its publisher's signature.

    Args:
        source: The registry.
        release: The release, from ``index``.
        index: What the opened registry says of the skill, its publishers among it.
        ports: What the command works with.
        locked: The trees for which an expired certificate is tolerated.
    """
    registry, admission = ports.open(source), index.admissions[release.publisher or ""]
    _refuse_secret(release)

    def fetch() -> bytes | Unpacked:
        data = registry.artifact(release)
        with suppress(FormatError, SecurityError):  # what is larger, or no skill, waits for its turn
            return unpack(data, "zip", Limits(total=_USUAL_SIZE), wrapper=False)
        return data

    def verify(came: bytes | Unpacked) -> Candidate:
        unpacked = came if isinstance(came, Unpacked) else unpack(came, "zip", wrapper=False)
        # Publishers that the user trusts elsewhere do not count here: the registry says who owns the name.
        owner = publisher_of(admission, release.published)
        verdict = judge(unpacked.tree, [owner], source.alias, ports.clock(), locked)
        if verdict.signer is None or verdict.status != "valid":
            publisher = by_word(admission.publisher, source.alias)
            raise SecurityError(
                f"expected {release.name} to be signed by {publisher}, found it {verdict.status}",
                where=release.url,
                hint="a registry offers only skills signed by their publishers; report this to its operator",
            )
        content = read(verdict.tree)
        agrees(release, name=content.manifest.name, version=content.manifest.version, tree=verdict.tree.digest)
        origin = {"url": release.url, "digest": release.digest, "size": release.size or 0}
        entry = _entry(content, verdict, source.alias, {**origin, "version": release.version})
        publishers = [owner, *candidates.trusted_publishers(ports.publishers)]
        found = candidate(content, entry, verdict, unpacked.warnings, publishers)
        return replace(found, published=release.published, voucher=ports.voucher(entry))

    return Acquisition(fetch, verify, release.size or 0)


def _refuse_secret(release: Release) -> None:
    """Refuse a URL that no lock may hold, before anything is fetched.

    Raises:
        FormatError: it holds a credential.
    """
    if holds_secret(release.url):
        message = f"{release.name} is offered at a URL with a password or another credential in it"
        hint = "the lock would contain it; ask its operator for a URL without one"
        raise FormatError(message, where=masked(release.url), hint=hint)


def by_place(
    place: Place, source: str, release: Release, ports: Ports, locked: Collection[Digest] = ()
) -> Acquisition:
    """Return how to obtain a skill of a place that is no registry.

    Args:
        place: Where it is.
        source: What the lock has as the source: an alias, or the reference that was asked for.
        release: The skill, as the place's index or a lock describes it.
        ports: What the command works with.
        locked: The trees for which an expired certificate is tolerated.
    """
    _refuse_secret(release)
    path = {"path": release.path} if release.path else {}
    origin: dict[str, Any] = {"url": release.url, "digest": release.digest, "version": release.version, **path}
    if release.type == "tree":
        origin = {"git": release.url, "rev": release.rev, "path": release.path, "version": release.version}
    source = of_plugin(source, release.plugin)

    def verify(unpacked: Unpacked) -> Candidate:
        found = _unvouched(unpacked, source, origin, ports, locked)
        if release.type != "tree" and found.name != release.name:
            raise SourceMismatch(f"the index names it {release.name}, its SKILL.md {found.name}", where=release.url)
        return replace(_check_folder_name(found, release.path), published=place.committed(release))

    return Acquisition(lambda: place.unpacked(release), verify, release.size or 0)


def by_path(
    path: str,
    ports: Ports,
    base: str = "",
    locked: Collection[Digest] = (),
    known: Locked | None = None,
    plugin: str | None = None,
) -> Acquisition:
    """Return how to read a folder or an archive of this machine, as ``from_path`` does, as part of a plugin."""
    found = Acquisition(nothing, lambda _: from_path(path, ports, base, locked, known))
    return found.map(
        lambda each: replace(each, entry=replace(each.entry, source=of_plugin(each.entry.source, plugin)))
    )


def from_path(
    path: str, ports: Ports, base: str = "", locked: Collection[Digest] = (), known: Locked | None = None
) -> Candidate:
    """Read a folder or an archive of this machine; ``path`` is relative to ``base``, or to the working folder.

    An expired certificate is tolerated for the trees that are ``locked``. The tree and version of ``known`` are
    verified, but not scanned.

    Raises:
        NotFound: nothing is there.
        LinkLeavesProject: it is said to be in the project, and a link there leads out of it.
        SecurityError: an unsafe archive or folder, or a broken signature.
        FormatError: the archive or the manifest is malformed.
    """
    typed = full = os.path.join(base, os.path.expanduser(path))
    place = portable(full, ports.project.base)
    if ports.project.scope == "project" and not os.path.isabs(place) and place != ".":
        full = files.inside(ports.project.base, place)
    with named(path, (FormatError,)):
        unpacked, digest = read_local(full)
        try:
            found = _unvouched(unpacked, LOCAL, {"path": place, "digest": digest}, ports, locked, known)
        except BadSignature as error:
            error.hint = error.hint or sign_anew(typed, error.reason)
            raise
        found = _check_folder_name(found, None if digest else os.path.abspath(full))
    if os.path.isabs(place):
        return found.noted(f"{place} is outside the project: others who share the lock do not have it")
    return found


def _unvouched(
    unpacked: Unpacked,
    source: str,
    origin: dict[str, Any],
    ports: Ports,
    locked: Collection[Digest],
    known: Locked | None = None,
) -> Candidate:
    """Verify a skill that no registry vouches for, by the publishers that the user trusts.

    Raises:
        SecurityError: a broken signature, or a forbidden need.
        FormatError: the manifest is malformed.
    """
    alias = None if source == LOCAL else source
    verdict, own = candidates.judge_with_own_keys(unpacked.tree, ports.publishers, alias, ports.clock(), locked)
    content = read(verdict.tree, known=known)
    entry = _entry(content, verdict, source, origin)
    found = candidate(content, entry, verdict, unpacked.warnings, candidates.trusted_publishers(ports.publishers))
    return replace(found, own=own) if own else found


def _entry(content: Content, verdict: Verdict, source: str, origin: dict[str, Any]) -> Locked:
    """Return what the lock will say of a verified skill; ``origin`` says where its bytes are from."""
    rest = {**origin, "version": origin.get("version") or content.manifest.version}
    return Locked(
        **{"size": verdict.tree.size, **rest},
        source=source,
        tree=verdict.tree.digest,
        signed_by=(verdict.signer.spell(),) if verdict.signer else (),
        capabilities=content.capabilities,
        requires=spelled(content.manifest),
    )


def _check_folder_name(found: Candidate, folder: str | None) -> Candidate:
    """Return the candidate, with a warning if its folder is not named as the specification demands."""
    if (name := os.path.basename(folder or "")) in ("", found.name):
        return found
    return found.noted(f"its folder is named {quote(name)}, the skill {found.name}")


# Prefetch: downloads overlap with verification.

AT_ONCE = 16
_TELL_EVERY = 0.2  # seconds
_BYTES_MAX = 64 * 1024 * 1024  # of what was fetched and is not verified yet
_FIRST_SIZE = 16 * 1024 * 1024  # assumed where no size is known, until the first download
_USUAL_SIZE = 2 * 1024 * 1024  # assumed from then on, unless a larger one came: few skills are


@contextmanager
def prefetched(
    acquisitions: Sequence[Acquisition], report: Report, is_scanned: Callable[[], bool] = lambda: True
) -> Iterator[Iterator[Callable[[], Candidate]]]:
    """Yield a function for each acquisition, in order, that returns its candidate; up to 16 threads fetch ahead.

    What is fetched and waits stays within ``_BYTES_MAX``. Threads only fetch, unpack what is small, and while it
    ``is_scanned`` have it scanned by other processes; an error is raised by the function that it belongs to.
    """
    if (count := sum(each.fetch is not nothing for each in acquisitions)) < 2:
        yield iter([each.run for each in acquisitions])
        return
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415

    is_stopped, ahead = False, None
    pool = ThreadPoolExecutor(AT_ONCE)
    try:
        if count >= MANY:
            from skillhub.install.scan_processes import ScansAhead  # noqa: PLC0415

            ahead = ScansAhead(count=count)
        scan = lambda fetched: ahead.begin(fetched) if ahead and is_scanned() else nothing_seen  # noqa: E731
        yield _Prefetcher(acquisitions, pool, scan).candidates(report)
    except KeyboardInterrupt:
        is_stopped = True  # and waits for no server, which may take ten minutes over each answer
        raise
    finally:
        pool.shutdown(wait=not is_stopped, cancel_futures=True)
        if ahead is not None:
            ahead.close()


class _Prefetcher:
    def __init__(
        self, acquisitions: Sequence[Acquisition], pool: ThreadPoolExecutor, scan: Callable[[object], SeenAhead]
    ) -> None:
        self._all = acquisitions
        self._scan = scan
        self._waiting = deque(each for each in acquisitions if each.fetch is not nothing)
        self._started: deque[tuple[Future[tuple[Any, SeenAhead]], int]] = deque()
        self._pool = pool
        self._size = _FIRST_SIZE

    def candidates(self, report: Report) -> Iterator[Callable[[], Candidate]]:
        count = len(self._waiting)
        for each in self._all:
            if each.fetch is nothing:
                yield each.run
                continue
            self._start()
            tell = partial(report, "fetching", count - len(self._waiting) - len(self._started), count)
            tell()
            yield partial(self._candidate, each, self._started.popleft()[0], tell)

    def _start(self) -> None:
        while self._waiting and len(self._started) < AT_ONCE:
            size = self._waiting[0].size or self._size
            if self._started and sum(each for _, each in self._started) + size > _BYTES_MAX:
                return
            self._started.append((self._pool.submit(self._fetched, self._waiting.popleft()), size))

    def _fetched(self, acquisition: Acquisition) -> tuple[Any, SeenAhead]:
        """Return what its ``verify`` takes, and what tells what was seen in it."""
        found = acquisition.fetch()
        return found, self._scan(found)

    def _candidate(self, acquisition: Acquisition, download: Future[Any], tell: Callable[[], None]) -> Candidate:
        from concurrent.futures import wait  # noqa: PLC0415

        while not (download.done() or wait((download,), _TELL_EVERY).done):
            tell()
        fetched, seen = download.result()
        size = len(fetched) if isinstance(fetched, bytes) else fetched.tree.size
        self._size = max(_USUAL_SIZE, size, self._size if self._size != _FIRST_SIZE else 0)
        token = SEEN_AHEAD.set(seen)
        try:
            return acquisition.verify(fetched)
        finally:
            SEEN_AHEAD.reset(token)


# The patch that a project agreed to, on top of what a skill's source has: applied in memory, held to the lock.


def with_patched_tree(found: Candidate, tree: Tree, content: Content) -> Candidate:
    """Return a candidate with its own tree replaced by the patched one, which has no signature.

    Raises:
        SourceMismatch: the patch gives it another name.
    """
    if content.manifest.name != found.manifest.name:
        raise SourceMismatch(f"the patch renames {found.manifest.name} to {content.manifest.name}", where=found.name)
    return replace(
        found,
        tree=tree,
        base=None if found.stored else found.tree,
        manifest=content.manifest,
        capabilities=content.capabilities,
        findings=content.findings,
        trust="unsigned",
        stored=False,
    )


def checked_as_archive(tree: Tree) -> Tree:
    """Return the tree of a patched skill, held to the rules for archives: a patch may name any path.

    Raises:
        SecurityError: it holds what no skill may.
    """
    return gather((Entry(path, file) for path, file in tree.items()), wrapper=False).tree


def _with_patch(found: Candidate, entry: Locked, ports: Ports, *, scanned: bool) -> Candidate:
    """Return what the source has, with the project's patch if there is one; what the lock leaves out is a warning.

    Raises:
        NotFound: the patch is not there.
        WrongBytes: the patch, or the patched tree, is not what was locked.
        FormatError: it is no patch, or the patched manifest is malformed.
        SecurityError: the patched tree holds what no skill may.
        LinkLeavesProject: a link leads to it out of the project.
    """
    if entry.patch is not None:
        stored = ports.store.read(entry.tree)
        tree = stored or checked_as_archive(
            apply(read_patch(entry.patch, ports.project), found.tree, entry.patch.path)
        )
        if tree.digest != entry.tree:
            message = f"expected the patch to give the tree {entry.tree}, found {tree.digest}"
            raise WrongBytes(message, where=entry.patch.path)
        patched = with_patched_tree(found, tree, read(tree, scanned=scanned))
        found = replace(patched, entry=entry, stored=found.stored and stored is not None)
    note = undeclared(found.capabilities, entry)
    return found.noted(note) if note else found


def undeclared(can: Iterable[str], entry: Locked) -> str | None:
    """Return the warning of capabilities that the lock leaves out; None if there are none."""
    if not (found := sorted(set(can) - set(entry.capabilities))):
        return None
    message = f"the lock does not list these capabilities: {', '.join(found)}"
    hosts = (each.removeprefix("network:") for each in found if not each.startswith("env:"))
    if all(each == "?" or is_kept_for_documentation(each) for each in hosts):
        # Older versions looked for neither variables nor such hosts.
        return f"{message}; an older version of skillhub wrote it, or they were removed"
    return message


# From a lock's entry to the very skill that it names, or an error; a source's present index changes nothing of it.

_BUNDLED = "where it came from is what the bundle says, and no registry proves it"
# Where registries keep the archives of a skill; other layouts are not checked.
_ARCHIVE = deferred(r"/archives/([^/]+)/[^/]+/[0-9a-f]{64}\.zip\Z")


def by_lock(name: str, entry: Locked, ports: Ports, *, agreed: bool = False, scanned: bool = True) -> Acquisition:
    """Return how to obtain the locked skill: from the store if it is there, else from where the lock says it is.

    Args:
        name: The skill.
        entry: What the lock says of it.
        ports: What the command works with.
        agreed: Whether this person agreed to this very tree, from there, before: a lock comes with a repository, and
            what that names is reached with care until then.
        scanned: Whether it is scanned, and held to all that the lock claims; what was agreed to was, then.

    Raises:
        Withdrawn: its registry withdrew it, as last seen; also ``BadSignature`` for a key that it revoked.
        SourceError: its source cannot be reached.
    """
    if ports.store.has(entry.original.tree):
        found = Acquisition(nothing, lambda _: from_lock(name, entry, ports, agreed=agreed, scanned=scanned))
    else:
        found = _from_source(name, entry.original, ports, agreed=agreed)
        found = found.map(lambda each: _with_patch(each, entry, ports, scanned=scanned))
    return found.map(lambda each: _held_to_claims(each, ports.project.scope, scanned=scanned))


def from_lock(name: str, entry: Locked, ports: Ports, *, agreed: bool = False, scanned: bool = True) -> Candidate:
    """Return what the lock names, now; see ``by_lock``.

    Raises:
        WrongBytes: the bytes there now are not those that were locked.
        SignerChanged: it is signed by another than the lock says.
        Withdrawn: its registry withdrew it.
        SourceError: it cannot be reached.
    """
    with about_skill(name):
        found = _from_store(name, entry.original, ports, agreed=agreed, scanned=scanned)
        return _with_patch(found, entry, ports, scanned=scanned)


def _held_to_claims(found: Candidate, scope: Scope, *, scanned: bool) -> Candidate:
    """Return what the lock names if it needs, and can do, all that the lock says; what that leaves out is a warning.

    Older versions of skillhub looked for less, and which hosts and variables count has changed. What was agreed to
    is not ``scanned``: the record has what was read off the bytes then.

    Raises:
        WrongBytes: the lock says more than the files do: what an update adds would then be no news.
    """
    entry, needs = found.entry, {*spelled(found.manifest)}
    more = [f"needs {each}" for each in entry.requires if each not in needs]
    if scanned:
        sure = (each for each in entry.capabilities if not each.startswith(("env:", "network:")))
        more += [f"can do {each}" for each in sure if each not in found.capabilities]
    if more:
        message = f"the lock lists for {found.name} what its files do not show: {', '.join(more)}"
        remove = command(scope, "remove", found.name)
        hint = f"restore the lock from version control, or {remove} and install it again"
        raise WrongBytes(message, where=found.name, hint=hint)
    if undeclared := sorted(needs - {*entry.requires}):
        return found.noted(f"the lock does not list these needs: {', '.join(undeclared)}")
    return found


def _from_store(name: str, entry: Locked, ports: Ports, *, agreed: bool, scanned: bool) -> Candidate:
    """Return the stored skill, verified again; from its source if it is not stored, or its signer not known."""
    root = ports.root_of(entry)
    status = ReleaseStatus.last_seen(name, entry, root, ports.sources)
    status.refuse(ports.project)
    tree = ports.store.read(entry.tree)
    pinned = candidates.pinned(name, entry, root, ports.publishers)
    if tree is None or not (pinned or (root is None and not entry.signed_by)):
        return _from_source(name, entry, ports, agreed=agreed).run()
    alias = None if entry.local else entry.source
    publishers = [*pinned, *candidates.revoking(status), *candidates.trusted_publishers(ports.publishers)]
    verdict = judge(tree, publishers, alias, ports.clock(), locked=(entry.tree,))
    seen = status.release
    size = tree.size if root is None else (seen.size if seen else None)
    sized = entry if size is None else replace(entry, size=size)
    found = candidate(read(tree, scanned=scanned), sized, verdict, (), publishers)
    found = _verified(name, entry, found, ports)
    found = replace(found, stored=ports.store.listing(entry.tree) is not None, voucher=ports.voucher(entry))
    return replace(found, published=seen.published).noted(*status.yanked) if seen else found


def _from_source(name: str, entry: Locked, ports: Ports, *, agreed: bool) -> Acquisition:
    """Return how to obtain the very bytes that are locked from where the lock says they are."""
    if ports.root_of(entry):
        found = _at_registry(name, entry, ports)
    else:
        found = _at_place(name, entry, ports, named_by=by_agreement(agreed))
    return found.map(lambda each: _verified(name, entry, each, ports))


def _at_place(name: str, entry: Locked, ports: Ports, *, named_by: Who) -> Acquisition:
    name = entry.own_name(name)
    if entry.local:
        return _at_path(name, entry, ports)
    if entry.git is not None:
        place = ports.reach(repository(entry.git), entry.rev, named_by=named_by)
        release = Release(name=name, url=entry.git, type="tree", rev=entry.rev, path=entry.path, plugin=entry.plugin)
    else:
        source = ports.sources.get(entry.source) if entry.named else None
        if source is not None:
            place = ports.reach(source.ref, named_by=source.named_by)
        else:
            place = ports.reach(parse_remote(entry.place), named_by=named_by)
        kind: Literal["files", "archive"] = "files" if entry.digest is None else "archive"
        url = entry.url or ""
        release = Release(name=name, url=url, digest=entry.digest, type=kind, version=entry.version, path=entry.path)
    found = by_place(place, entry.place, release, ports, (entry.tree,))
    return found if ports.bundled is None else found.map(lambda each: each.noted(_BUNDLED))


def _at_path(name: str, entry: Locked, ports: Ports) -> Acquisition:
    """Return how to read a locked folder or archive: where it is, else, if it is nowhere here, from the bundle."""
    path = entry.path or ""
    unpacked = ports.bundled(name) if ports.bundled else None
    if unpacked is None or os.path.lexists(os.path.join(ports.project.base, os.path.expanduser(path))):
        return by_path(path, ports, ports.project.base, (entry.tree,))
    origin = {"path": path, "digest": entry.digest}
    return Acquisition(nothing, lambda _: _unvouched(unpacked, LOCAL, origin, ports, (entry.tree,)).noted(_BUNDLED))


def _at_registry(name: str, entry: Locked, ports: Ports) -> Acquisition:
    source = ports.sources.get(entry.source)
    try:
        status = ReleaseStatus.now(name, entry, ports)
        status.refuse(ports.project)
        if status.release is None:
            raise _not_there(name, entry, status.offered, source)
    except NotFound as error:
        # A lock that gives a skill another name than its URL does is not a skill that is missing.
        found = _ARCHIVE.search(entry.url or "")
        own = entry.own_name(name)
        if found is None or found[1] == own:
            raise
        message = f"the lock calls {own} what its URL calls {quote(found[1])}"
        raise SourceMismatch(message, where=entry.url) from error
    acquisition = by_registry(source, status.release, status.said, ports, (entry.tree,))
    return acquisition.map(lambda each: each.noted(*status.yanked))


def _not_there(name: str, entry: Locked, releases: Iterable[Release], source: Source) -> NotFound | WrongBytes:
    offered = next((each for each in releases if each.version == entry.version), None)
    if offered is None:
        return NotFound(f"{source.alias} no longer has {name} {entry.version}", where=source.url)
    message = f"expected {name} {entry.version} to be {entry.digest}, found {offered.digest}"
    return WrongBytes(message, where=source.url)


def _verified(name: str, entry: Locked, found: Candidate, ports: Ports) -> Candidate:
    """Return ``found``, if it is what the lock names, with the lock's entry."""
    scope, where = ports.project.scope, entry.origin
    if found.tree.digest != entry.tree:
        message = f"expected {name} to be the tree {entry.tree}, found {found.tree.digest}"
        hint = f"if it changed there: {command(scope, 'update', name)} shows the difference and installs it"
        raise WrongBytes(message, where=where, hint=hint)
    if found.entry.size != entry.size:
        raise WrongBytes(f"expected {name} to be {entry.size} bytes, found {found.entry.size}", where=where)
    if found.name != (own := entry.own_name(name)):
        raise SourceMismatch(f"the lock names {own}, its SKILL.md {found.name}", where=where)
    if found.entry.version != entry.version or not is_same_place(found.entry, entry, ports):
        raise SourceMismatch(
            f"the lock has {name} {entry.version} from {where}, "
            f"found {found.entry.version} from {found.entry.origin}",
            where=name,
            hint=f"{command(scope, 'remove', name)}, then install it again",
        )
    check_same_signer(found, entry, scope, ports.root_of(entry))
    return replace(found, name=name, entry=entry)

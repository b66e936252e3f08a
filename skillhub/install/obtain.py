"""From a source to a verified candidate: prefetch, download, unpack, verify, scan, patch."""

from __future__ import annotations

import os
import re
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, TypeVar

from skillhub.archive import Entry, Unpacked, gather, unpack
from skillhub.disk import files
from skillhub.edits.edited import read_patch
from skillhub.edits.patch import apply
from skillhub.errors import BadSignature, FormatError, NotFound, SecurityError, SourceMismatch, WrongBytes
from skillhub.formats.digest import Digest
from skillhub.formats.text import quote
from skillhub.install import candidates
from skillhub.install.candidates import (
    Candidate,
    Content,
    Standing,
    about_skill,
    candidate,
    is_at,
    read,
    same_signer,
    spelled,
)
from skillhub.install.context import Place, Ports, Report, command
from skillhub.model.index import Admission, Index, Release
from skillhub.model.lock import LOCAL, Locked, of_plugin
from skillhub.model.manifest import Manifest
from skillhub.model.record import Scope
from skillhub.model.reference import SiteReference, holds_secret, masked, parse_remote, repository
from skillhub.model.tree import Tree
from skillhub.net.target import Who, by_agreement
from skillhub.project.copies import portable
from skillhub.scan.capability import NETWORK_UNKNOWN, is_kept_for_documentation
from skillhub.sources.configured import Source
from skillhub.sources.local import named, read_local, sign_anew
from skillhub.trust.publishers import judge
from skillhub.trust.registry import agrees, publisher_of

# One pipeline for every kind of source: bytes -> verified, unpacked, read and scanned, all in memory.
# What comes out is a ``Candidate``: nothing of it is on disk and nobody has agreed to it yet.

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Way(Generic[_T]):
    """How one skill is had.

    Attributes:
        fetch: Brings what has to come over the wire; it may be called on a thread, ahead of its turn.
        make: Verifies what came, and reads it.
        size: Bytes that will come; 0 if nobody said.
    """

    fetch: Callable[[], _T]
    make: Callable[[_T], Candidate]
    size: int = 0

    def go(self) -> Candidate:
        """Fetch and make, now."""
        return self.make(self.fetch())

    def then(self, change: Callable[[Candidate], Candidate]) -> Way[_T]:
        """Return the way whose candidate is changed so."""
        make = self.make
        return replace(self, make=lambda came: change(make(came)))


def held(came: bytes | Unpacked) -> int:
    """Return how many bytes what was fetched holds in memory."""
    return len(came) if isinstance(came, bytes) else came.tree.size


def nothing() -> None:
    """Fetch nothing: it is here already."""


def by_registry(
    source: Source, release: Release, admission: Admission, ports: Ports, locked: Collection[Digest] = ()
) -> Way[bytes]:
    """Return how a release is fetched and verified against its registry's word and its publisher's signature.

    Args:
        source: Where it comes from.
        release: Which one; as the opened registry gave it.
        admission: What the registry admitted its publisher to, likewise.
        ports: The world.
        locked: The trees for which an expired certificate is tolerated.
    """
    registry = ports.open(source)
    _refuse_secret(release)
    return Way(
        lambda: registry.artifact(release),
        lambda data: _from_registry(data, source, release, admission, ports, locked),
        release.size or 0,
    )


def _refuse_secret(release: Release) -> None:
    """Refuse what is offered at a URL that no lock may have, before anything is fetched.

    Raises:
        FormatError: it holds a credential.
    """
    if holds_secret(release.url):
        message = f"{release.name} is offered at a URL with a password or another credential in it"
        hint = "the lock would hold it; ask whoever runs the place for a URL without"
        raise FormatError(message, where=masked(release.url), hint=hint)


def _from_registry(
    data: bytes, source: Source, release: Release, admission: Admission, ports: Ports, locked: Collection[Digest]
) -> Candidate:
    """Verify the bytes of a release.

    Raises:
        SecurityError: wrong bytes, no or a broken signature, a content that is not what was announced.
        FormatError: the archive or the manifest is malformed.
    """
    unpacked = unpack(data, "zip", wrapper=False)
    # Whom the user trusts elsewhere is nobody here: the registry says whose name it is.
    owner = publisher_of(admission, release.published)
    publishers = [owner, *candidates.trusted(ports.publishers)]
    verdict = judge(unpacked.tree, [owner], source.alias, ports.clock(), locked)
    if verdict.signer is None or verdict.status != "valid":
        raise SecurityError(
            f"expected {release.name} to be signed by {admission.publisher}, found it {verdict.status}",
            where=release.url,
            hint="a registry carries skills that its publishers signed; tell whoever runs it",
        )
    content = read(verdict.tree)
    manifest = content.manifest
    agrees(release, name=manifest.name, version=manifest.version, tree=verdict.tree.digest)
    entry = Locked(
        source=source.alias,
        version=release.version,
        url=release.url,
        digest=release.digest,
        tree=verdict.tree.digest,
        size=release.size or 0,
        signed_by=(verdict.signer.spell(),),
        capabilities=content.can,
        requires=spelled(manifest),
    )
    found = candidate(content, entry, verdict, unpacked.warnings, publishers)
    return replace(found, published=release.published, voucher=ports.voucher(entry))


def by_place(
    place: Place, source: str, release: Release, ports: Ports, locked: Collection[Digest] = ()
) -> Way[Unpacked]:
    """Return how a skill of a place that is no registry is fetched and judged.

    Args:
        place: Where it is.
        source: What the lock has as the source: an alias, or the reference that was asked for.
        release: Which one; as the place's index gave it, or as a lock spells it.
        ports: The world.
        locked: The trees for which an expired certificate is tolerated.
    """
    _refuse_secret(release)
    origin: dict[str, Any] = {"url": release.url, "digest": release.digest}
    if release.type == "tree":
        origin = {"git": release.url, "rev": release.rev, "path": release.path}
    source = of_plugin(source, release.plugin)

    def make(unpacked: Unpacked) -> Candidate:
        found = _from_outside(unpacked, source, {**origin, "version": release.version}, ports, locked)
        if release.type != "tree" and found.name != release.name:
            raise SourceMismatch(f"the index names it {release.name}, its SKILL.md {found.name}", where=release.url)
        return replace(_lying_in(found, release.path), published=place.committed(release))

    return Way(lambda: place.unpacked(release), make, release.size or 0)


def _from_outside(
    unpacked: Unpacked, source: str, origin: dict[str, Any], ports: Ports, locked: Collection[Digest]
) -> Candidate:
    """Judge a skill that no registry vouches for, by those whom the user trusts.

    Raises:
        SecurityError: a broken signature, or a need that no skill may have.
        FormatError: the manifest is malformed.
    """
    alias = None if source == LOCAL else source
    verdict, own = candidates.judged(unpacked.tree, ports.publishers, alias, ports.clock(), locked)
    content = read(verdict.tree)
    entry = Locked(
        **{**origin, "version": origin.get("version") or content.manifest.version},
        source=source,
        tree=verdict.tree.digest,
        size=verdict.tree.size,
        signed_by=(verdict.signer.spell(),) if verdict.signer else (),
        capabilities=content.can,
        requires=spelled(content.manifest),
    )
    found = candidate(content, entry, verdict, unpacked.warnings, candidates.trusted(ports.publishers))
    return replace(found, own=own)


def _lying_in(found: Candidate, folder: str | None) -> Candidate:
    """Return the same with a warning if the specification wants the folder at this path to have another name."""
    name = os.path.basename(folder or "")
    if name in ("", found.name):
        return found
    return found.noted(f"its folder is named {quote(name)}, not {found.name} as the skill is")


def by_path(path: str, ports: Ports, base: str = "", locked: Collection[Digest] = ()) -> Way[None]:
    """Return how a folder or an archive of this machine is read; the rest is as for ``from_path``."""
    return Way(nothing, lambda _: from_path(path, ports, base, locked))


def from_path(path: str, ports: Ports, base: str = "", locked: Collection[Digest] = ()) -> Candidate:
    """Read a folder or an archive of this machine; ``path`` is relative to ``base``, or to where we are.

    An expired certificate is tolerated for the trees that are ``locked``.

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
            found = _from_outside(unpacked, LOCAL, {"path": place, "digest": digest}, ports, locked)
        except BadSignature as error:
            error.hint = error.hint or sign_anew(typed, error.reason)
            raise
        found = _lying_in(found, None if digest else os.path.abspath(full))
    if os.path.isabs(place):
        note = f"{place} lies outside of the project: others who share the lock do not have it"
        return found.noted(note)
    return found


# Fetching before it is asked for, so that waiting for the network and verifying overlap.

AT_ONCE = 16
_FIRST = 4
_WAIT = 0.005  # seconds; for less, more threads cost more than they bring
_BYTES_MAX = 64 * 1024 * 1024  # of what was fetched and nobody has asked for yet
_GUESS = 2 * 1024 * 1024  # of what nobody said the size of, until a larger one came: few skills are


@contextmanager
def turns(ways: Sequence[Way[Any]], report: Report) -> Iterator[Iterator[Callable[[], Candidate]]]:
    """Give out what makes the candidate of each way, in this order, while up to 16 threads fetch for the next ones.

    There are four at first, and twice as many whenever what is next had to be waited for. What is fetched and waits
    is little enough to be held in memory. Nothing is verified on a thread but what ``fetch`` verifies; an error of
    either step is raised by the turn that it belongs to.
    """
    is_stopped = False
    pool = ThreadPoolExecutor(AT_ONCE)
    try:
        yield _turns(ways, report, pool)
    except KeyboardInterrupt:
        is_stopped = True
        raise
    finally:
        # Who stops the command waits for no server, which may take ten minutes over each answer.
        pool.shutdown(wait=not is_stopped, cancel_futures=True)


def _turns(ways: Sequence[Way[Any]], report: Report, pool: ThreadPoolExecutor) -> Iterator[Callable[[], Candidate]]:
    coming = [way for way in ways if way.fetch is not nothing]
    if len(coming) < 2:
        yield from (way.go for way in ways)
        return
    todo = deque(coming)
    started: deque[tuple[Future[Any], int]] = deque()
    pace = _Pace()
    for way in ways:
        if way.fetch is nothing:
            yield way.go
            continue
        _start(todo, started, pool, pace)
        report("fetching", len(coming) - len(todo) - len(started), len(coming))
        yield partial(_made, way, started.popleft()[0], pace)


class _Pace:
    """How many are to be fetched at once, by how long was waited for them and how large they were."""

    def __init__(self) -> None:
        self.at_once = _FIRST
        self.guess = _GUESS

    def wait(self, coming: Future[Any]) -> Any:  # noqa: ANN401 - whatever the way fetches
        """Return what came, or raise what was raised instead."""
        start = time.monotonic()
        try:
            return coming.result()
        finally:
            if time.monotonic() - start > _WAIT:
                self.at_once = min(AT_ONCE, 2 * self.at_once)


def _made(way: Way[Any], coming: Future[Any], pace: _Pace) -> Candidate:
    came = pace.wait(coming)
    pace.guess = max(pace.guess, held(came))  # a site that says no sizes may have one for all
    return way.make(came)


def _start(
    todo: deque[Way[Any]], started: deque[tuple[Future[Any], int]], pool: ThreadPoolExecutor, pace: _Pace
) -> None:
    while todo and len(started) < pace.at_once:
        size = todo[0].size or pace.guess
        if started and sum(each for _, each in started) + size > _BYTES_MAX:
            return
        started.append((pool.submit(todo.popleft().fetch), size))


# The patch that a project agreed to, on top of what a skill's source has: applied in memory, held to the lock.


def patched(found: Candidate, entry: Locked, ports: Ports, *, scanned: bool) -> Candidate:
    """Return the candidate as the lock has it: verified as its source has it, with the project's patch on top.

    Nobody signed the patch, so that nobody vouches for what comes of it.

    Args:
        found: What the source has, as the lock says.
        entry: The lock's word of it, with the patch.
        ports: The world.
        scanned: Whether what comes of it is scanned.

    Raises:
        NotFound: the patch is not there.
        WrongBytes: the patch, or what comes of it, is not what was locked.
        FormatError: it is no patch, or the manifest that comes of it is malformed.
        SecurityError: what comes of it is what no skill may be.
        LinkLeavesProject: a link leads to it out of the project.
    """
    stored = ports.store.read(entry.tree)
    tree = stored or _applied(found.tree, entry, ports)
    content = read(tree) if scanned else Content(Manifest.read(tree))
    whole = on_top(found, tree, content)
    return replace(whole, entry=entry, stored=found.stored and stored is not None)


def on_top(found: Candidate, tree: Tree, content: Content) -> Candidate:
    """Return a candidate with another tree, which is its own with a patch.

    Raises:
        SourceMismatch: the patch gives it another name.
    """
    if content.manifest.name != found.name:
        raise SourceMismatch(f"the patch renames {found.name} to {content.manifest.name}", where=found.name)
    return replace(
        found,
        tree=tree,
        base=None if found.stored else found.tree,
        manifest=content.manifest,
        can=content.can,
        findings=content.findings,
        trust="unsigned",
        stored=False,
    )


def gated(tree: Tree) -> Tree:
    """Return the tree of a patched skill, held to what archives are held to: a patch may name any path.

    Raises:
        SecurityError: it holds what no skill may.
    """
    return gather((Entry(path, file) for path, file in tree.items()), wrapper=False).tree


def _applied(base: Tree, entry: Locked, ports: Ports) -> Tree:
    patch = entry.patch
    if patch is None:
        return base
    tree = gated(apply(read_patch(patch, ports.project), base, patch.path))
    if tree.digest != entry.tree:
        raise WrongBytes(f"expected the patch to give the tree {entry.tree}, found {tree.digest}", where=patch.path)
    return tree


def by_source(
    source: Source, release: Release, index: Index, ports: Ports, locked: Collection[Digest] = ()
) -> Way[Any]:
    """Return how a release is had that ``Ports.releases`` gave; ``locked`` is as for ``by_place``."""
    if source.root is not None:
        return by_registry(source, release, index.admissions[release.publisher or ""], ports, locked)
    place = ports.reach(SiteReference(source.url), named_by=source.named_by)
    return by_place(place, source.alias, release, ports, locked)


# From a lock's entry to the very skill that it names, or an error; what a source says now changes nothing of
# it.

# Where registries keep the archives of a skill; one that keeps them otherwise is believed.
_ARCHIVE = re.compile(r"/archives/([^/]+)/[^/]+/[0-9a-f]{64}\.zip\Z")


def by_lock(name: str, entry: Locked, ports: Ports, *, agreed: bool = False, scanned: bool = True) -> Way[Any]:
    """Return how the locked skill is had: from the store if it is there, else from where the lock says it is.

    Args:
        name: The skill.
        entry: What the lock says of it.
        ports: The world.
        agreed: Whether this person agreed to this very tree, from there, before: a lock comes with a repository, and
            what that names is reached with care until then.
        scanned: Whether it is scanned, and held to all that the lock claims; what was agreed to was, then.

    Raises:
        Withdrawn: its registry withdrew it, as last seen; also ``BadSignature`` for a key that it revoked.
        SourceError: its source cannot be reached.
    """
    if ports.store.has(entry.original.tree):
        way: Way[Any] = Way(nothing, lambda _: from_lock(name, entry, ports, agreed=agreed, scanned=scanned))
    else:
        way = _from_source(name, entry.original, ports, agreed=agreed)
        way = way.then(lambda found: _with_patch(found, entry, ports, scanned=scanned))
    return way.then(lambda found: _held_to_claims(found, ports.project.scope, scanned=scanned))


def from_lock(name: str, entry: Locked, ports: Ports, *, agreed: bool = False, scanned: bool = True) -> Candidate:
    """Return what the lock names, now; see ``by_lock``.

    Raises:
        WrongBytes: what is there now is not what was locked.
        SignerChanged: it is signed by another than the lock says.
        Withdrawn: its registry withdrew it.
        SourceError: it cannot be had.
    """
    with about_skill(name):
        found = _from_store(name, entry.original, ports, agreed=agreed, scanned=scanned)
        return _with_patch(found, entry, ports, scanned=scanned)


def _with_patch(found: Candidate, entry: Locked, ports: Ports, *, scanned: bool) -> Candidate:
    """Return what the source has, with the project's patch if there is one; what the lock leaves out is a warning."""
    if entry.patch is not None:
        found = patched(found, entry, ports, scanned=scanned)
    note = unsaid(found.can, entry)
    return found.noted(note) if note else found


def unsaid(can: Iterable[str], entry: Locked) -> str | None:
    """Return what the lock leaves out of what a skill can do, in words; None if nothing."""
    found = sorted(set(can) - set(entry.capabilities))
    if not found:
        return None
    names = [each.removeprefix("env:") for each in found if each.startswith("env:")]
    is_unsure = NETWORK_UNKNOWN in found
    hosts = [
        each.removeprefix("network:") for each in found if each.startswith("network:") and each != NETWORK_UNKNOWN
    ]
    if len(names) + len(hosts) + is_unsure < len(found) or not all(map(is_kept_for_documentation, hosts)):
        return f"the lock does not say that it can: {', '.join(found)}"
    reads = f"reads {'any variable' if names == ['*'] else ', '.join(names)} from the environment"
    reaches = f"names the {'host' if len(hosts) == 1 else 'hosts'} {', '.join(hosts)}"
    unsure = f"may reach hosts that it does not name ({NETWORK_UNKNOWN})"
    told = [*([reads] if names else []), *([reaches] if hosts else []), *([unsure] if is_unsure else [])]
    return (
        f"the lock does not say that it {' and '.join(told)}: "
        "skillhub has learnt to look for that since, or somebody took it out of the lock"
    )


def _held_to_claims(found: Candidate, scope: Scope, *, scanned: bool) -> Candidate:
    """Return what the lock names if it needs, and can do, all that the lock says; what that leaves out is a warning.

    Older versions of skillhub looked for less, and which hosts and variables count has changed. Of what is not
    ``scanned``, for it was agreed to, the record has what was read off the bytes then.

    Raises:
        WrongBytes: the lock says more than is there: what an update adds would then be no news.
    """
    entry, needs = found.entry, {*spelled(found.manifest)}
    more = [f"needs {each}" for each in entry.requires if each not in needs]
    if scanned:
        sure = (each for each in entry.capabilities if not each.startswith(("env:", "network:")))
        more += [f"can do {each}" for each in sure if each not in found.can]
    if more:
        message = f"the lock says of {found.name} what its files do not: {', '.join(more)}"
        hint = f"put the lock back as it was, or {command(scope, 'remove', found.name)} and install it anew"
        raise WrongBytes(message, where=found.name, hint=hint)
    if unsaid := sorted(needs - {*entry.requires}):
        return found.noted(f"the lock does not say that it needs: {', '.join(unsaid)}")
    return found


def _from_store(name: str, entry: Locked, ports: Ports, *, agreed: bool, scanned: bool) -> Candidate:
    """Return what the store has, judged again; what its source has if that is not there, or its signer not known."""
    root = ports.root_of(entry)
    standing = Standing.last_seen(name, entry, root, ports.sources)
    standing.refuse(ports.project)
    tree = ports.store.read(entry.tree)
    pinned = candidates.pinned(name, entry, root, ports.publishers)
    is_proven = bool(pinned) or (root is None and not entry.signed_by)
    if tree is None or not is_proven:
        return _from_source(name, entry, ports, agreed=agreed).go()
    alias = None if entry.local else entry.source
    publishers = [*pinned, *candidates.revoking(standing), *candidates.trusted(ports.publishers)]
    verdict = judge(tree, publishers, alias, ports.clock(), locked=(entry.tree,))
    content = read(tree) if scanned else Content(Manifest.read(tree))
    seen = standing.release
    size = tree.size if root is None else (seen.size if seen else None)
    here = entry if size is None else replace(entry, size=size)
    found = _verified(name, entry, candidate(content, here, verdict, (), publishers), ports)
    is_stored = ports.store.listing(entry.tree) is not None
    found = replace(found, stored=is_stored, voucher=ports.voucher(entry))
    return replace(found, published=seen.published).noted(*standing.yanked) if seen else found


def _from_source(name: str, entry: Locked, ports: Ports, *, agreed: bool) -> Way[Any]:
    """Return how the very bytes that are locked are had from where the lock says they are."""
    if ports.root_of(entry):
        way = _at_registry(name, entry, ports)
    else:
        way = _at_place(name, entry, ports, named_by=by_agreement(agreed))
    return way.then(lambda found: _verified(name, entry, found, ports))


def _at_place(name: str, entry: Locked, ports: Ports, *, named_by: Who) -> Way[Any]:
    """Return how the skill is had from where the lock says it is, if that is no registry.

    A lock comes with a repository: what it names is reached with care until this person has agreed to it.
    """
    if entry.local:
        return by_path(entry.path or "", ports, ports.project.base, (entry.tree,))
    if entry.git is not None:
        place = ports.reach(repository(entry.git), entry.rev, named_by=named_by)
        release = Release(name=name, url=entry.git, type="tree", rev=entry.rev, path=entry.path, plugin=entry.plugin)
    else:
        source = ports.sources.get(entry.source) if entry.named else None
        if source is not None:
            place = ports.reach(SiteReference(source.url), named_by=source.named_by)
        else:
            place = ports.reach(parse_remote(entry.place), named_by=named_by)
        release = Release(
            name=name,
            url=entry.url or "",
            digest=entry.digest,
            type="files" if entry.digest is None else "archive",
            version=entry.version,
        )
    return by_place(place, entry.place, release, ports, (entry.tree,))


def _at_registry(name: str, entry: Locked, ports: Ports) -> Way[bytes]:
    source = ports.sources.get(entry.source)
    with _refusing_other_name(name, entry):
        standing = Standing.now(name, entry, ports)
        standing.refuse(ports.project)
        release = standing.release
        if release is None:
            raise _not_there(name, entry, standing.offered, source)
    publisher = standing.said.admissions[release.publisher or ""]
    way = by_registry(source, release, publisher, ports, (entry.tree,))
    return way.then(lambda found: found.noted(*standing.yanked))


def _not_there(name: str, entry: Locked, releases: Iterable[Release], source: Source) -> NotFound | WrongBytes:
    offered = next((each for each in releases if each.version == entry.version), None)
    if offered is None:
        return NotFound(f"{source.alias} no longer has {name} {entry.version}", where=source.url)
    message = f"expected {name} {entry.version} to be {entry.digest}, found {offered.digest}"
    return WrongBytes(message, where=source.url)


@contextmanager
def _refusing_other_name(name: str, entry: Locked) -> Iterator[None]:
    """Tell of a lock that calls a skill otherwise than its URL does, instead of a skill that is not there."""
    try:
        yield
    except NotFound as error:
        found = _ARCHIVE.search(entry.url or "")
        if found is None or found[1] == name:
            raise
        message = f"the lock names {name} what is {quote(found[1])} by its URL"
        raise SourceMismatch(message, where=entry.url) from error


def _verified(name: str, entry: Locked, found: Candidate, ports: Ports) -> Candidate:
    """Return ``found``, which is what the lock names, with the entry word for word."""
    scope = ports.project.scope
    if found.tree.digest != entry.tree:
        raise WrongBytes(
            f"expected {name} to be the tree {entry.tree}, found {found.tree.digest}",
            where=entry.origin,
            hint=f"if it changed there: {command(scope, 'update', name)} shows what is new and takes it",
        )
    if found.entry.size != entry.size:
        message = f"expected {name} to be {entry.size} bytes, found {found.entry.size}"
        raise WrongBytes(message, where=entry.origin)
    if found.name != name:
        raise SourceMismatch(f"the lock names {name}, its SKILL.md {found.name}", where=entry.origin)
    if found.entry.version != entry.version or not is_at(found.entry, entry, ports):
        raise SourceMismatch(
            f"the lock has {name} {entry.version} from {entry.origin}, "
            f"found {found.entry.version} from {found.entry.origin}",
            where=name,
            hint=f"{command(scope, 'remove', name)}, then install it anew",
        )
    same_signer(found, entry, ports.project.scope)
    return replace(found, entry=entry)

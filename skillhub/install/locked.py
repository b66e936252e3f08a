"""From a lock entry to the skill that it pins, and its patch on a new version."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from skillhub.edits.edited import free_path
from skillhub.edits.patch import difference, merge
from skillhub.errors import NotFound, SecurityError, SourceMismatch, WrongBytes
from skillhub.formats.digest import Digest
from skillhub.formats.text import quote
from skillhub.install import candidates
from skillhub.install.admission import is_at, same_signer
from skillhub.install.candidates import Candidate, Content, Standing, candidate, read, spelled
from skillhub.install.context import LeftOut, Ports, command
from skillhub.install.obtain import Way, by_path, by_place, by_registry, gated, nothing, on_top, patched
from skillhub.model.index import Release
from skillhub.model.lock import Locked, Patch
from skillhub.model.manifest import Manifest
from skillhub.model.record import Scope
from skillhub.model.reference import SiteReference, parse_remote, repository
from skillhub.model.tree import Tree
from skillhub.net.target import Who, by_agreement
from skillhub.scan.capability import NETWORK_UNKNOWN, is_kept_for_documentation
from skillhub.sources.configured import Source
from skillhub.trust.publishers import judge

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


@contextmanager
def about_skill(name: str) -> Iterator[None]:
    """Let a SecurityError that is about one of many skills say which."""
    try:
        yield
    except SecurityError as error:
        if error.where is None:
            error.where = name
        elif error.where != name and not error.where.startswith(f"{name}: "):
            error.where = f"{name}: {error.where}"
        raise


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


# A project's patch, carried over to another version of the skill where the two do not touch the same lines.


def carried(found: Candidate, entry: Locked | None, ports: Ports) -> Candidate | LeftOut:
    """Return the candidate with the patch that the lock has of its name; what cannot have it is to be left out.

    Args:
        found: What a source has now, or the lock.
        entry: The lock's word of the name.
        ports: The world.

    Raises:
        SourceError, SecurityError: what the lock names cannot be had, or is not that.
    """
    if entry is None or entry.patch is None or found.entry.patch is not None:
        return found
    base, mine = (
        ports.store.read(each.tree) or from_lock(found.name, each, ports, scanned=False).tree
        for each in (entry.original, entry)
    )
    merged = merge(base, mine, found.tree)
    if merged is None:
        message = f"{entry.patch.path} does not go with {found.entry.version or found.entry.short}"
        drop = command(ports.project.scope, "patch", found.name, "--drop")
        return LeftOut(found.name, "patch", f"{message}; {drop} gives it up")
    return with_edits(found, gated(merged), ports, entry)


def with_edits(found: Candidate, tree: Tree, ports: Ports, before: Locked | None = None) -> Candidate | LeftOut:
    """Return the candidate with what ``tree`` has otherwise as the project's patch of it.

    Args:
        found: What the source has.
        tree: What agents are to have.
        ports: The world.
        before: The lock's word; a patch that is there already is not written anew.

    Raises:
        FormatError: the manifest is malformed.
        SecurityError: it asks for what no skill may have, or has another name.
        LinkLeavesProject: the folder for patches leads out of the project.
    """
    text, whole = difference(found.tree, tree)
    gone = [path for path in found.tree if path not in tree and path not in text]
    if whole or gone:
        files = ", ".join(sorted([*whole, *gone]))
        return LeftOut(found.name, "patch", f"a patch holds text alone, and these are none: {files}")
    if not text:
        return found
    content = read(tree)
    patch = Patch(base=found.tree.digest, digest=Digest.of(text.encode()), path=free_path(found.name, ports.project))
    old = before.patch if before else None
    is_there = old is not None and (old.base, old.digest) == (patch.base, patch.digest)
    entry = replace(
        found.entry,
        tree=tree.digest,
        capabilities=content.can,
        requires=spelled(content.manifest),
        patch=old if is_there else patch,
    )
    data = None if is_there else text.encode()
    return replace(on_top(found, tree, content), entry=entry, patch=data)

"""One pipeline for every kind of source: bytes -> verified, unpacked, read and scanned, all in memory.

What comes out is a ``Candidate``: nothing of it is on disk and nobody has agreed to it yet.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from skillhub.archive import unpack
from skillhub.errors import NotFound, SecurityError, SignerChanged, SourceMismatch, WrongBytes
from skillhub.flows import signers
from skillhub.flows.ports import Ports
from skillhub.flows.recalled import last_seen, refuse_recalled, yanked
from skillhub.model.capability import capabilities
from skillhub.model.digest import Digest
from skillhub.model.finding import Finding
from skillhub.model.intent import Wanted
from skillhub.model.lock import LOCAL, Locked
from skillhub.model.manifest import Manifest
from skillhub.model.release import Admission, Release
from skillhub.model.signer import Signer
from skillhub.model.tree import Tree
from skillhub.scan import scan
from skillhub.trust.publishers import Publisher, Verdict, judge
from skillhub.trust.registry import agrees, publisher_of
from skillhub.world import files
from skillhub.world.local import read_local
from skillhub.world.sources import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A skill in memory, every byte of it verified.

    Attributes:
        entry: What the lock will say of it.
        trust: ``untrusted`` is a sound signature of somebody whom nobody has pinned.
        pem: The key or certificate root behind the signature, to be pinned.
        kin: The keys and roots that whoever vouches for the signer vouches for as the same publisher's.
        can: What it can do, off its bytes; like ``findings`` empty where nobody is asked again.
        wanted: The line to write into the intent; None leaves what is there.
        warnings: What is odd and harmless.
        stored: Whether every byte was read from the store just now.
    """

    name: str
    entry: Locked
    tree: Tree
    manifest: Manifest
    trust: Literal["signed", "untrusted", "unsigned"]
    signer: Signer | None
    pem: str | None
    kin: frozenset[Digest]
    can: tuple[str, ...]
    findings: tuple[Finding, ...]
    wanted: Wanted | None = None
    warnings: tuple[str, ...] = ()
    stored: bool = False


def from_registry(source: Source, release: Release, admission: Admission, ports: Ports) -> Candidate:
    """Fetch a release and verify it against its registry's word and its publisher's signature.

    Args:
        source: Where it comes from.
        release: Which one; as the opened registry gave it.
        admission: What the registry admitted its publisher to, likewise.
        ports: The world.

    Raises:
        SecurityError: wrong bytes, no or a broken signature, a content that is not what was announced.
        SourceError: it cannot be had.
        FormatError: the archive or the manifest is malformed.
    """
    unpacked = unpack(ports.open(source).artifact(release), "zip", wrapper=False)
    # Whom the user trusts elsewhere is nobody here: the registry says whose name it is.
    owner = publisher_of(admission, release.published)
    publishers = [owner, *signers.trusted(ports.publishers)]
    verdict = judge(unpacked.tree, [owner], source.alias, ports.clock())
    if verdict.signer is None or verdict.status != "valid":
        raise SecurityError(
            f"expected {release.name} to be signed by {admission.publisher}, found it {verdict.status}",
            where=release.url,
            hint="a registry carries skills that its publishers signed; tell whoever runs it",
        )
    content = _read(verdict.tree)
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
    return _candidate(content, entry, verdict, unpacked.warnings, publishers)


def from_path(path: str, ports: Ports, base: str = "") -> Candidate:
    """Read a folder or an archive of this machine; ``path`` is relative to ``base``, or to where we are.

    Raises:
        NotFound: nothing is there.
        LinkLeavesProject: it is said to be in the project, and a link there leads out of it.
        SecurityError: an unsafe archive or folder, or a broken signature.
        FormatError: the archive or the manifest is malformed.
    """
    full = os.path.join(base, os.path.expanduser(path))
    place = portable(full, ports.project.base)
    if ports.project.scope == "project" and not os.path.isabs(place) and place != ".":
        full = files.inside(ports.project.base, place)
    unpacked, digest = read_local(full)
    publishers = signers.trusted(ports.publishers)
    verdict = judge(unpacked.tree, publishers, None, ports.clock())
    content = _read(verdict.tree)
    manifest = content.manifest
    entry = Locked(
        source=LOCAL,
        version=manifest.version,
        digest=digest,
        path=place,
        tree=verdict.tree.digest,
        size=verdict.tree.size,
        signed_by=(verdict.signer.spell(),) if verdict.signer else (),
        capabilities=content.can,
        requires=spelled(manifest),
    )
    candidate = _candidate(content, entry, verdict, unpacked.warnings, publishers)
    if os.path.isabs(place):
        note = f"{place} lies outside of the project: others who share the lock do not have it"
        return replace(candidate, warnings=(*candidate.warnings, note))
    return candidate


def from_lock(name: str, entry: Locked, ports: Ports, *, agreed: bool = False) -> Candidate:
    """Return what the lock names, from the store if it is whole there, else from where the lock says it is.

    Args:
        name: The skill.
        entry: What the lock says of it.
        ports: The world.
        agreed: Whether this person agreed to this very tree before, so that it need not be scanned again.

    Raises:
        WrongBytes: what is there now is not what was locked.
        SignerChanged: it is signed by another than the lock says.
        SecurityError: its registry, now or when it was last asked, has withdrawn it or revoked its key.
        SourceError: it cannot be had.
    """
    tree = ports.store.read(entry.tree)
    root = root_of(entry, ports)
    pinned = signers.pinned(name, entry, root, ports.publishers)
    is_proven = bool(pinned) or (entry.path is not None and not entry.signed_by)
    if tree is None or not is_proven:
        return _again(name, entry, ports)
    alias = None if entry.path is not None else entry.source
    said = last_seen(name, entry, root, ports.sources)
    release = refuse_recalled(name, entry, said)
    publishers = [*pinned, *signers.trusted(ports.publishers), *signers.revoking(release, said)]
    verdict = judge(tree, publishers, alias, ports.clock(), locked=entry.tree)
    content = _Content(Manifest.read(tree)) if agreed else _read(tree)
    candidate = _candidate(content, entry, verdict, yanked(release), publishers)
    candidate = _as_locked(name, entry, candidate)
    return replace(candidate, stored=ports.store.listing(entry.tree) is not None)


def root_of(entry: Locked, ports: Ports) -> Digest | None:
    """Return the root of the registry that the entry is from, as this user has it; None if it is from none."""
    source = ports.sources.all().get(entry.source)
    return source.root if source else None


def _again(name: str, entry: Locked, ports: Ports) -> Candidate:
    if entry.path is not None:
        candidate = from_path(entry.path, ports, ports.project.base)
    else:
        source = ports.sources.get(entry.source)
        index = ports.open(source).release_index([name])
        releases = index.releases(name)
        release = next((each for each in releases if each.digest == entry.digest), None)
        if release is None:
            offered = next((each for each in releases if each.version == entry.version), None)
            if offered is None:
                raise NotFound(f"{source.alias} no longer has {name} {entry.version}", where=source.url)
            raise WrongBytes(
                f"expected {name} {entry.version} to be {entry.digest}, found {offered.digest}",
                where=source.url,
            )
        refuse_recalled(name, entry, index)
        candidate = from_registry(source, release, index.admissions[release.publisher or ""], ports)
        candidate = replace(candidate, warnings=(*candidate.warnings, *yanked(release)))
    return _as_locked(name, entry, candidate)


def _as_locked(name: str, entry: Locked, found: Candidate) -> Candidate:
    """Return ``found``, which is what the lock names, with the entry word for word; where it is silent, a warning."""
    if found.tree.digest != entry.tree:
        raise WrongBytes(
            f"expected {name} to be the tree {entry.tree}, found {found.tree.digest}",
            where=entry.path or entry.url,
        )
    if found.name != name:
        raise SourceMismatch(
            f"the lock names {name}, its SKILL.md {found.name}", where=entry.path or entry.url
        )
    if (found.entry.version, found.entry.url) != (entry.version, entry.url):
        raise SourceMismatch(
            f"the lock has {name} {entry.version} from {entry.url or entry.path}, "
            f"found {found.entry.version} from {found.entry.url or found.entry.path}",
            where=name,
            hint=f"skillhub remove {name}, then install it anew",
        )
    same_signer(name, entry, found)
    unsaid = sorted(set(found.can) - set(entry.capabilities))
    notes = (f"the lock does not say that it can: {', '.join(unsaid)}",) if unsaid else ()
    return replace(found, entry=entry, warnings=(*found.warnings, *notes))


def same_signer(name: str, before: Locked, after: Candidate) -> None:
    """Refuse ``after`` if it is not signed by the publisher that signed ``before``.

    Raises:
        SignerChanged: another signer, or none where there was one; no flag lifts this.
    """
    locked = {(signer.kind, signer.fingerprint) for signer in map(Signer.parse, before.signed_by)}
    signer = after.signer
    if signer and any(fingerprint in after.kin for _, fingerprint in locked):
        return  # another key of the same publisher, says whoever vouches for both
    if locked and (signer is None or (signer.kind, signer.fingerprint) not in locked):
        found = signer.spell() if signer else "no signature"
        raise SignerChanged(
            f"expected {name} to be signed by {', '.join(before.signed_by)}, found {found}",
            hint=f"if that is meant: skillhub remove {name}, then install it anew",
        )


@dataclass(frozen=True, slots=True)
class _Content:
    manifest: Manifest
    can: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()


def _read(tree: Tree) -> _Content:
    manifest = Manifest.read(tree)
    return _Content(manifest, capabilities(tree, manifest), scan(tree))


def _candidate(
    content: _Content,
    entry: Locked,
    verdict: Verdict,
    warnings: tuple[str, ...],
    publishers: Sequence[Publisher],
) -> Candidate:
    statuses: dict[str, Literal["signed", "untrusted", "unsigned"]] = {
        "valid": "signed",
        "untrusted": "untrusted",
        "unsigned": "unsigned",
    }
    return Candidate(
        name=content.manifest.name,
        entry=entry,
        tree=verdict.tree,
        manifest=content.manifest,
        trust=statuses[verdict.status],
        signer=verdict.signer,
        pem=verdict.pem,
        kin=signers.kin(verdict.signer, publishers),
        can=content.can,
        findings=content.findings,
        warnings=(*warnings, *content.manifest.warnings),
    )


def spelled(manifest: Manifest) -> tuple[str, ...]:
    """Return the needs as the lock spells them."""
    return tuple(sorted(requirement.spell() for requirement in manifest.requires))


def portable(path: str, base: str) -> str:
    """Return ``path`` as the lock spells it: relative to ``base`` if inside of it, else absolute."""
    full = os.path.abspath(path)
    relative = os.path.relpath(full, base).replace(os.sep, "/")
    return full if relative.startswith("..") or os.path.isabs(relative) else relative

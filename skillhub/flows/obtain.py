"""One pipeline for every kind of source: bytes -> verified, unpacked, read and scanned, all in memory.

What comes out is a ``Candidate``: nothing of it is on disk and nobody has agreed to it yet.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from skillhub.archive import Unpacked, unpack
from skillhub.errors import BadSignature, FormatError, SecurityError, SourceMismatch
from skillhub.flows import signers
from skillhub.flows.candidate import Candidate, candidate, read, spelled
from skillhub.flows.ports import Place, Ports
from skillhub.model.digest import Digest
from skillhub.model.lock import LOCAL, Locked, of_plugin
from skillhub.model.release import Admission, Release
from skillhub.model.text import quote
from skillhub.model.url import holds_secret, masked
from skillhub.trust.judgement import judge
from skillhub.trust.registry import agrees, publisher_of
from skillhub.world import files
from skillhub.world.links import portable
from skillhub.world.local import named, read_local, sign_anew
from skillhub.world.sources import Source

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
    data: bytes,
    source: Source,
    release: Release,
    admission: Admission,
    ports: Ports,
    locked: Collection[Digest],
) -> Candidate:
    """Verify the bytes of a release.

    Raises:
        SecurityError: wrong bytes, no or a broken signature, a content that is not what was announced.
        FormatError: the archive or the manifest is malformed.
    """
    unpacked = unpack(data, "zip", wrapper=False)
    # Whom the user trusts elsewhere is nobody here: the registry says whose name it is.
    owner = publisher_of(admission, release.published)
    publishers = [owner, *signers.trusted(ports.publishers)]
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
            raise SourceMismatch(
                f"the index names it {release.name}, its SKILL.md {found.name}", where=release.url
            )
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
    verdict, own = signers.judged(unpacked.tree, ports.publishers, alias, ports.clock(), locked)
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
    found = candidate(content, entry, verdict, unpacked.warnings, signers.trusted(ports.publishers))
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

"""Judging what a registry's signed documents say: bytes have been verified by now, meaning has not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from skillhub.errors import FormatError, NameNotOwned, NotFound, SourceMismatch, WrongBytes
from skillhub.formats.digest import Digest
from skillhub.formats.text import quote
from skillhub.model.index import Admission, Release, Revocation
from skillhub.trust.publishers import Publisher, certificates_of

if TYPE_CHECKING:
    from skillhub.trust.keys import PublicKey


def refuse_shared(admissions: Iterable[Admission]) -> None:
    """Return if each name has one publisher, which only who reads the documents of all can tell.

    Raises:
        NameNotOwned: a name has two.
    """
    owners: dict[str, str] = {}
    for each in admissions:
        for name in sorted(each.names):
            if (other := owners.setdefault(name, each.publisher)) != each.publisher:
                raise NameNotOwned(
                    f"the name {quote(name)} is given to both {quote(other)} and {quote(each.publisher)}"
                )


def admission_of(name: str, publisher: str, admissions: Mapping[str, Admission]) -> Admission:
    """Return what the registry admits ``publisher`` to, which ``name`` is part of.

    Raises:
        NameNotOwned: the registry has not given the name to that publisher.
    """
    found = admissions.get(publisher)
    if found is None or name not in found.names:
        raise NameNotOwned(f"the registry has not given the name {quote(name)} to {quote(publisher)}")
    return found


def publisher_of(admission: Admission, published: str | None = None) -> Publisher:
    """Return the publisher that a registry vouches for; a key that it has revoked is kept as such.

    Args:
        admission: What the registry says of it.
        published: When the release in question was published (UTC): a revocation from a later time on leaves
            it alone. None holds every revocation against it.

    Raises:
        FormatError: a key or a certificate is none that may sign skills.
    """
    void = (each for each in admission.revoked if published is None or published >= each.since)
    return _publisher(admission, tuple(void))


@lru_cache  # each skill of a command is judged by the same
def _publisher(admission: Admission, void: tuple[Revocation, ...]) -> Publisher:
    # Here and below: where no registry is asked, cryptography stays out.
    from skillhub.trust.keys import PublicKey  # noqa: PLC0415

    revoked = {revocation.fingerprint: _revoked_key(revocation) for revocation in void}
    gone = {*revoked, *(key.fingerprint for key in revoked.values())}
    keys = (PublicKey.load(pem.encode()) for pem in admission.keys)
    roots = certificates_of(admission.certificates)
    return Publisher(
        name=admission.publisher,
        keys=tuple(key for key in keys if key.fingerprint not in gone),
        roots=tuple(root for root in roots if root.fingerprint not in gone and root.key.fingerprint not in gone),
        revoked=tuple(revoked.values()),
        former=frozenset(each.fingerprint for each in admission.revoked),
    )


def _revoked_key(revocation: Revocation) -> PublicKey:
    """Return the key that is revoked; of a certificate, the key that it bears."""
    from skillhub.trust.keys import PublicKey  # noqa: PLC0415

    if "CERTIFICATE" in revocation.pem.partition("\n")[0]:
        certificate = certificates_of([revocation.pem])[0]
        key, names = certificate.key, {certificate.fingerprint, certificate.key.fingerprint}
    else:
        key = PublicKey.load(revocation.pem.encode())
        names = {key.fingerprint}
    if revocation.fingerprint not in names:
        raise FormatError(f"expected the key {revocation.fingerprint}, found {key.fingerprint}")
    return key


def released_by(
    admission: Admission, publisher: str, releases: tuple[Release, ...]
) -> Mapping[str, tuple[Release, ...]]:
    """Return the releases of an index document by name.

    Raises:
        NameNotOwned: the document is another publisher's, or one of its names is.
    """
    if publisher != admission.publisher:
        raise NameNotOwned(f"expected the releases of {quote(admission.publisher)}, found {quote(publisher)}'s")
    by_name: dict[str, tuple[Release, ...]] = {}
    for release in releases:
        admission_of(release.name, publisher, {publisher: admission})
        by_name[release.name] = (*by_name.get(release.name, ()), release)
    return by_name


def agrees(release: Release, *, name: str, version: str | None, tree: Digest) -> None:
    """Return if the artifact is what its registry says of it; else old content could be replayed as new.

    Args:
        release: What the registry says.
        name: The name in its ``SKILL.md``.
        version: ``metadata.version`` there.
        tree: The digest of its tree.

    Raises:
        WrongBytes: the tree is another.
        SourceMismatch: the name or the version is another.
    """
    if release.tree not in (None, tree):
        raise WrongBytes(f"expected the tree {release.tree}, found {tree}", where=release.url)
    if release.name != name:
        message = f"expected the skill {quote(release.name)}, its SKILL.md says {quote(name)}"
        raise SourceMismatch(message, where=release.url)
    if release.version not in (None, version):
        message = f"expected version {quote(release.version)}, its SKILL.md says {quote(version)}"
        raise SourceMismatch(message, where=release.url)


def checked(release: Release, data: bytes) -> bytes:
    """Return the artifact of ``release``, whose size and digest it has.

    Raises:
        WrongBytes: it has another.
        NotFound: the release has no digest to check.
    """
    if release.digest is None:
        raise NotFound("the source has no digest of it", where=release.url)
    if release.size is not None and len(data) != release.size:
        raise WrongBytes(f"expected {release.size} bytes, found {len(data)}", where=release.url)
    if (found := Digest.of(data)) != release.digest:
        raise WrongBytes(f"expected {release.digest}, found {found}", where=release.url)
    return data

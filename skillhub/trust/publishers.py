"""Publishers that may sign skills, and the verdict on a skill's signature."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from skillhub.errors import BadSignature
from skillhub.formats.digest import Digest
from skillhub.model.lock import Signer
from skillhub.model.tree import SIGNATURE, Tree

if TYPE_CHECKING:
    from skillhub.trust.keys import Identity, PublicKey
    from skillhub.trust.oms import Envelope
    from skillhub.trust.x509 import Certificate

# The publishers that may sign skills, and the verdict on a signature.

Status = Literal["valid", "untrusted", "unsigned"]


@dataclass(frozen=True)
class Publisher:
    """A publisher that a person pinned or that a registry's ``ns`` vouches for.

    Attributes:
        keys: The keys it signs with.
        roots: The roots that certify its signers.
        sources: The sources it is trusted for; empty = all, local folders among them.
        revoked: Keys whose signatures are broken by now, bare or in a certificate of the chain.
        identities: The accounts that sign for it through Sigstore.
        former: Fingerprints of keys and roots that it had once; who is locked to one may follow to the others.
    """

    name: str
    keys: tuple[PublicKey, ...] = ()
    roots: tuple[Certificate, ...] = ()
    sources: tuple[str, ...] = ()
    revoked: tuple[PublicKey, ...] = ()
    identities: tuple[Identity, ...] = ()
    former: frozenset[Digest] = frozenset()

    @property
    def fingerprints(self) -> tuple[Digest, ...]:
        """Those of the keys, roots and identities that it signs with."""
        keys = (key.fingerprint for key in self.keys)
        roots = (root.fingerprint for root in self.roots)
        return (*keys, *roots, *(identity.fingerprint for identity in self.identities))

    def covers(self, source: str | None) -> bool:
        """Return whether it is trusted for ``source``; ``None`` is a local path."""
        return not self.sources or source in self.sources


def certificates_of(pems: Iterable[str]) -> tuple[Certificate, ...]:
    """Return the certificates in these texts; the rules for them are loaded with the first.

    Raises:
        FormatError: one is none that may certify signers.
    """
    found: list[Certificate] = []
    for pem in pems:
        from skillhub.trust import x509  # noqa: PLC0415 - few publishers have certificates

        found += x509.load(pem.encode())
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a signature is worth; a broken one never gets here.

    Attributes:
        status: ``valid``: signed by a publisher trusted for the source; ``untrusted``: by an unknown signer.
        tree: What was signed: the skill less the files that its signature ignores.
        signer: Who is proven to have signed. ``None`` with ``untrusted``: the key, or the root that the chain
            leads to, is not at hand, so nothing is proven, and no yes of a person can pin it; it takes
            ``publisher trust``.
        claim: The SHA-256 of the PEM file of the key that is said to have signed, where that is all there is.
        pem: The key or root that ``signer`` names, to be pinned; for an identity its ``dump``.
        expired: A certificate is past its time, which is tolerated for the locked tree alone: say it.
    """

    status: Status
    tree: Tree
    signer: Signer | None = None
    claim: Digest | None = None
    pem: str | None = None
    expired: bool = False


def judge(
    tree: Tree, publishers: Iterable[Publisher], source: str | None, now: datetime, locked: Collection[Digest] = ()
) -> Verdict:
    """Return the verdict on the signature of ``tree``, with ``publishers`` as the trusted ones.

    Args:
        tree: The skill, as unpacked.
        publishers: Whom the user or the registry vouches for; the first that fits names the signer.
        source: The alias or URL that the skill came from; ``None`` for a local path.
        now: The time, with its zone, that certificates must be valid at.
        locked: The trees that the lock has: for these alone an expired certificate is tolerated.

    Raises:
        BadSignature: the signature is malformed, does not fit the tree, was not made by whom it says, by a
            key that is ``revoked``, or with a certificate that is unsound or past its time
            (``certificate-expired``); or it is said to be by a Sigstore identity, and that is not proven
            (``sigstore``), if only for lack of the extra.
        FormatError: a pinned root is invalid.
    """
    envelope = None
    if SIGNATURE in tree:
        from skillhub.trust import oms  # noqa: PLC0415 - where nothing is signed, cryptography stays out

        envelope = oms.read(tree)
    if envelope is None:
        return Verdict("unsigned", tree)
    publishers = tuple(publishers)
    revoked = {key for publisher in publishers for key in publisher.revoked}
    trusted = tuple(publisher for publisher in publishers if publisher.covers(source))
    if envelope.bundle is not None:
        return _by_identity(envelope, trusted)
    if not envelope.chain:
        return _by_key(envelope, trusted, revoked)
    verdict = _by_certificate(envelope, trusted, revoked, now)
    if verdict.expired and envelope.tree.digest not in locked:
        message = f"expected a certificate that is still valid at {now:%Y-%m-%d}, found one that has expired"
        raise BadSignature("certificate-expired", message, where=SIGNATURE)
    return verdict


def _by_key(envelope: Envelope, trusted: tuple[Publisher, ...], revoked: set[PublicKey]) -> Verdict:
    owners = {key: publisher.name for publisher in reversed(trusted) for key in publisher.keys}
    key = _maker(envelope, {*owners, *revoked})
    if key is None:
        return Verdict("untrusted", envelope.tree, claim=envelope.hint)
    if key in revoked:
        raise _revoked(key)
    signer = Signer("key", key.fingerprint, owners[key])
    return Verdict("valid", envelope.tree, signer, pem=key.pem.decode())


def _by_certificate(
    envelope: Envelope, trusted: tuple[Publisher, ...], revoked: set[PublicKey], now: datetime
) -> Verdict:
    from skillhub.trust import x509  # noqa: PLC0415 - few signatures have certificates

    leaf = envelope.chain[0]
    envelope.prove(leaf.key)
    owners = {root: publisher.name for publisher in reversed(trusted) for root in publisher.roots}
    path = x509.verify(envelope.chain, owners, now)
    for certificate in (*envelope.chain, *([path.root] if path.root else [])):
        if certificate.key in revoked:
            raise _revoked(certificate.key)
    if path.root is None:
        return Verdict("untrusted", envelope.tree, expired=path.expired)
    owner = owners.get(path.root)
    signer = Signer("certificate", path.root.fingerprint, owner or leaf.subject)
    status: Status = "valid" if owner else "untrusted"
    return Verdict(status, envelope.tree, signer, pem=path.root.pem.decode(), expired=path.expired)


def _by_identity(envelope: Envelope, trusted: tuple[Publisher, ...]) -> Verdict:
    try:
        # An extra of 0.3 s, which few signatures need and not everybody has.
        from skillhub.trust import sigstore  # noqa: PLC0415
    except ImportError as error:
        from skillhub.disk.installer import extra  # noqa: PLC0415 - as above

        message = "a Sigstore identity, which cannot be verified here"
        hint = f"install what verifies one: {extra('sigstore')}"
        raise BadSignature("sigstore", message, where=SIGNATURE, hint=hint) from error
    owners = {each: publisher.name for publisher in reversed(trusted) for each in publisher.identities}
    # A pinned root vouches only for the identities that it was pinned with.
    for root in {each.root: None for each in owners if each.root is not None}:
        try:
            found = sigstore.prove(envelope, root)
        except BadSignature:
            continue
        if found in owners:
            return _identified(envelope, found, owners[found])
    found = sigstore.prove(envelope, None)
    return _identified(envelope, found, owners.get(found))


def _identified(envelope: Envelope, found: Identity, owner: str | None) -> Verdict:
    signer = Signer("sigstore", found.fingerprint, owner or str(found))
    return Verdict("valid" if owner else "untrusted", envelope.tree, signer, pem=found.dump())


def _maker(envelope: Envelope, known: set[PublicKey]) -> PublicKey | None:
    """Return which of the ``known`` keys made the signature; a key that it names must have."""
    for key in known:
        if key.hint == envelope.hint:
            envelope.prove(key)
            return key
    for key in known:
        try:
            envelope.prove(key)
        except BadSignature as error:
            if error.reason == "wrong-hint":
                raise
        else:
            return key
    return None


def _revoked(key: PublicKey) -> BadSignature:
    message = f"a signature by the key {key.fingerprint}, which its publisher has revoked"
    return BadSignature("revoked", message, where=SIGNATURE)

"""The publishers that may sign skills, and the verdict on a skill's signature."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from skillhub.errors import BadSignature, FormatError
from skillhub.formats.digest import Digest
from skillhub.formats.text import as_command
from skillhub.model.index import Admission, Revocation
from skillhub.model.lock import Signer
from skillhub.model.tree import SIGNATURE, Tree

if TYPE_CHECKING:
    from skillhub.trust.keys import Identity, PublicKey
    from skillhub.trust.oms import Envelope
    from skillhub.trust.x509 import Certificate

Status = Literal["valid", "untrusted", "unsigned"]


@dataclass(frozen=True)
class Publisher:
    """A publisher that the user pinned, or that a registry's ``ns`` document vouches for.

    Attributes:
        keys: The keys that it signs with.
        roots: The roots that certify its signers.
        sources: The sources that it is trusted for; empty for all, local folders included.
        revoked: The revoked keys; a signature by one, bare or in a certificate of the chain, is refused.
        identities: The accounts that sign for it through Sigstore.
        former: Fingerprints of its former keys and roots; a skill locked to one of these may change to a present one.
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
        """The fingerprints of its keys, roots and identities."""
        keys = (key.fingerprint for key in self.keys)
        roots = (root.fingerprint for root in self.roots)
        return (*keys, *roots, *(identity.fingerprint for identity in self.identities))

    def covers(self, source: str | None) -> bool:
        """Return whether the publisher is trusted for ``source``; ``None`` is a local path."""
        return not self.sources or source in self.sources


def certificates_of(pems: Iterable[str]) -> tuple[Certificate, ...]:
    """Return the certificates in these texts; the first one loads the module for certificates.

    Raises:
        FormatError: a text is no certificate that may certify signers.
    """
    certificates: list[Certificate] = []
    for pem in pems:
        from skillhub.trust import x509  # noqa: PLC0415 - few publishers have certificates

        certificates += x509.load(pem.encode())
    return tuple(certificates)


def publisher_of(admission: Admission, published: str | None = None) -> Publisher:
    """Return the publisher that a registry vouches for, with its revoked keys.

    Args:
        admission: The registry's admission of the publisher.
        published: The time at which the release was published (UTC); a revocation as of a later time is ignored.
            None applies every revocation.

    Raises:
        FormatError: a key or a certificate may not sign skills.
    """
    void = (revocation for revocation in admission.revoked if published is None or published >= revocation.since)
    # The names are left out of the key of the cache: to compare a thousand names a thousand times takes long.
    return _publisher(replace(admission, names=frozenset()), tuple(void))


@lru_cache  # many skills of a command have the same publisher
def _publisher(admission: Admission, void: tuple[Revocation, ...]) -> Publisher:
    # Here and below: a command without a registry does not import cryptography and the classes of its documents.
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
        former=frozenset(revocation.fingerprint for revocation in admission.revoked),
    )


def _revoked_key(revocation: Revocation) -> PublicKey:
    """Return the revoked key; for a certificate, the key in it."""
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


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on a signature; an invalid one raises an error and has no verdict.

    Attributes:
        status: ``valid``: signed by a publisher trusted for the source; ``untrusted``: by an unknown signer.
        tree: The signed tree: the skill without the files that its signature ignores.
        signer: The proven signer. ``None`` with ``untrusted``: the key, or the root that the chain leads to, is not
            available, so that nothing is proven, and the user cannot pin it by a yes; ``publisher trust`` can.
        claim: The SHA-256 of the PEM file of the claimed key, if the signature proves nothing else.
        pem: The key or root that ``signer`` names, to be pinned; for an identity its ``dump``.
        expired: Whether a certificate has expired, which is tolerated for a locked tree alone, with a warning.
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
        publishers: The publishers of the user and of the registry; the first that matches names the signer.
        source: The alias or URL that the skill came from; ``None`` for a local path.
        now: The time, with its zone, at which certificates must be valid.
        locked: The trees in the lock: for these alone an expired certificate is tolerated.

    Raises:
        BadSignature: the signature is malformed, does not match the tree, was not made by the claimed signer, or
            was made by a ``revoked`` key or with an invalid or expired certificate (``certificate-expired``); or a
            Sigstore identity is not proven (``sigstore``), perhaps because the extra is not installed.
        FormatError: a pinned root is invalid.
    """
    envelope = None
    if SIGNATURE in tree:
        from skillhub.trust import oms  # noqa: PLC0415 - only a signed skill needs cryptography

        envelope = oms.read(tree)
    if envelope is None:
        return Verdict("unsigned", tree)
    publishers = tuple(publishers)
    revoked = {key for publisher in publishers for key in publisher.revoked}
    trusted = tuple(publisher for publisher in publishers if publisher.covers(source))
    if envelope.bundle is not None:
        return _by_identity(envelope, envelope.bundle, trusted)
    if not envelope.chain:
        return _by_key(envelope, trusted, revoked)
    verdict = _by_certificate(envelope, trusted, revoked, now)
    if verdict.expired and envelope.tree.digest not in locked:
        raise BadSignature("certificate-expired", f"the certificate expired before {now:%Y-%m-%d}", where=SIGNATURE)
    return verdict


def _by_key(envelope: Envelope, trusted: tuple[Publisher, ...], revoked: set[PublicKey]) -> Verdict:
    owners = {key: publisher.name for publisher in reversed(trusted) for key in publisher.keys}
    key = _signing_key(envelope, {*owners, *revoked})
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


def _by_identity(envelope: Envelope, bundle: bytes, trusted: tuple[Publisher, ...]) -> Verdict:
    try:
        # An extra that takes 0.3 s to import; few signatures need it, and it may not be installed.
        from skillhub.trust import sigstore  # noqa: PLC0415
    except ImportError as error:
        from skillhub.disk.installer import extra_command  # noqa: PLC0415 - as above

        message = "a Sigstore identity, which needs the extra sigstore of skillhub"
        raise BadSignature("sigstore", message, where=SIGNATURE, hint=extra_command("sigstore")) from error
    owners = {identity: publisher.name for publisher in reversed(trusted) for identity in publisher.identities}
    # A pinned root vouches only for the identities that it was pinned with.
    for root in {identity.root: None for identity in owners if identity.root is not None}:
        try:
            identity = sigstore.prove(bundle, envelope.signed, root)
        except BadSignature:
            continue
        if identity in owners:
            return _identity_verdict(envelope, identity, owners[identity])
    identity = sigstore.prove(bundle, envelope.signed, None)
    return _identity_verdict(envelope, identity, owners.get(identity))


def _identity_verdict(envelope: Envelope, identity: Identity, owner: str | None) -> Verdict:
    signer = Signer("sigstore", identity.fingerprint, owner or str(identity))
    return Verdict("valid" if owner else "untrusted", envelope.tree, signer, pem=identity.dump())


def _signing_key(envelope: Envelope, known: set[PublicKey]) -> PublicKey | None:
    """Return the one of the ``known`` keys that made the signature, or None; raise if the claimed key did not."""
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
    return BadSignature("revoked", f"signed by the revoked key {key.fingerprint}", where=SIGNATURE)


# How to trust a signer whose key is not known here.

_PLAIN_NAME = re.compile("[A-Za-z0-9][A-Za-z0-9-]{0,63}")
_TRUST_BY = {
    "key": ("public key", "--key", "pub.pem"),
    "certificate": ("root certificate", "--certificate", "cert.pem"),
}


def keys_of_publisher(signer: Signer | None, publishers: Iterable[Publisher]) -> frozenset[Digest]:
    """Return the fingerprints of all keys, roots and identities, former ones too, of the signer's publisher."""
    found: set[Digest] = set()
    for publisher in publishers:
        if signer is not None and signer.fingerprint in publisher.fingerprints:
            found |= {*publisher.fingerprints, *publisher.former}
    return frozenset(found)


def how_to_trust(signer: Signer) -> str:
    """Return how to trust the signer of a lock, which proves no name: the fingerprint identifies it."""
    if signer.kind == "sigstore":
        return "ask the publisher for account and issuer; skillhub publisher trust --help shows how to trust them"
    name = signer.identity if _PLAIN_NAME.fullmatch(signer.identity) else "publisher"
    anchor, option, end = _TRUST_BY[signer.kind]
    trust = as_command("skillhub", "publisher", "trust", name, option, f"{name}.{end}")
    return f"get the {anchor} from the publisher, over a channel that you trust, as {name}.{end}, and then: {trust}"

"""Proving who signed: each kind of signer in its own way, who is then looked for among the trusted."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from skillhub.errors import BadSignature, extra
from skillhub.model.digest import Digest
from skillhub.model.signer import Signer
from skillhub.model.tree import SIGNATURE, Tree
from skillhub.trust import oms, x509
from skillhub.trust.identity import Identity
from skillhub.trust.keys import PublicKey
from skillhub.trust.oms import Envelope
from skillhub.trust.publishers import Publisher, Status, Verdict


def judge(
    tree: Tree,
    publishers: tuple[Publisher, ...],
    source: str | None,
    now: datetime,
    locked: Collection[Digest],
) -> Verdict:
    """Judge a tree, signed or not, as ``judgement.judge`` promises.

    Raises:
        BadSignature, FormatError: see there.
    """
    envelope = oms.read(tree)
    if envelope is None:
        return Verdict("unsigned", tree)
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
        message = "a Sigstore identity, which cannot be verified here"
        hint = f"{extra('sigstore')}, or have it signed with a key or a certificate"
        raise BadSignature("sigstore", message, where=SIGNATURE, hint=hint) from error
    owners = {each: publisher.name for publisher in reversed(trusted) for each in publisher.identities}
    # A pinned root vouches for the identities that it was pinned with, and for nobody else.
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

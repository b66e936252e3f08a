"""Delegate: admit a publisher, give it keys and names, revoke keys, move names.

All of it is in documents that offline keys vouch for; what the change leaves without a valid signature is
withdrawn by the same change, so that no client is led to a release that it must refuse.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from skillhub.archive import unpack
from skillhub.errors import BadSignature, FormatError, NameNotOwned, NotFound, Refused, UsageError
from skillhub.formats.digest import Digest
from skillhub.formats.text import is_name, quote
from skillhub.model.index import Admission, Index, Release, Revocation
from skillhub.model.tree import Tree
from skillhub.registry.operator import Opened, Signing, opened
from skillhub.trust import oms, x509
from skillhub.trust.keys import PublicKey
from skillhub.trust.publishers import judge
from skillhub.trust.registry import publisher_of
from skillhub.trust.x509 import Certificate

ALWAYS = "1970-01-01T00:00:00Z"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mandate:
    """What is to change about a publisher.

    Attributes:
        keys: PEM of public keys that it signs with.
        certificates: PEM of roots that certify its signers.
        names: The skills that it may publish, besides those that it may publish now.
        move: Take a name from the publisher that has it.
        revoke: Fingerprints, or PEM, of keys and certificates that speak for it no longer.
        since: From when on they do not (UTC, ``2026-01-02T03:04:05Z``); from ``ALWAYS`` on unless it is said.
    """

    publisher: str
    keys: tuple[bytes, ...] = ()
    certificates: tuple[bytes, ...] = ()
    names: tuple[str, ...] = ()
    move: bool = False
    revoke: tuple[str, ...] = ()
    since: str = ALWAYS


@dataclass(frozen=True, slots=True)
class Delegated:
    """What the publisher is admitted to now, and which releases lost their signature by that."""

    admission: Admission
    withdrawn: tuple[Release, ...]


def delegate(folder: str, mandate: Mandate, signing: Signing) -> Delegated:
    """Publish a change of who may publish what.

    Raises:
        UsageError: a name is none, or a publisher that is not admitted yet gets no key.
        NameNotOwned: a name is another publisher's, and it is not said to move.
        NotFound: there is no such registry, or no such key to revoke.
        Refused: a key was revoked before, or the offline keys are not at hand.
        FormatError: a key or certificate is none that may sign skills.
        SecurityError: the site is not what was signed.
        StateError: the disk refuses.
    """
    _check(mandate, signing)
    with opened(folder, signing) as hub:
        before = hub.index()
        admission = before.admissions.get(mandate.publisher, Admission(publisher=mandate.publisher))
        if not (admission.keys or admission.certificates or mandate.keys or mandate.certificates):
            hint = "give it one: --key FILE or --certificate FILE"
            raise UsageError(f"{mandate.publisher} is not admitted, and has no key", hint=hint)
        admission = _revoked(_admitted(admission, mandate), mandate, before, hub)
        index, former = _given(before, replace(admission, names=admission.names | set(mandate.names)))
        if former and not mandate.move:
            name, owner = next(iter(former.items()))
            hint = f"to take it from {owner}: --move"
            raise NameNotOwned(f"the name {quote(name)} is {quote(owner)}'s", hint=hint)
        changed = {**index.skills}
        if mandate.revoke or former:
            changed |= {name: tuple(_sound(name, index, hub)) for name in _names(index, mandate.publisher)}
        index = Index(changed, index.admissions)
        names = _names(index, mandate.publisher)
        hub.publish(index, dict.fromkeys([mandate.publisher, *former.values()]), names)
    gone = [
        release
        for name in names
        for release, old in zip(index.skills[name], before.skills[name], strict=True)
        if release.withdrawn != old.withdrawn
    ]
    return Delegated(index.admissions[mandate.publisher], tuple(gone))


def _check(mandate: Mandate, signing: Signing) -> None:
    for name in (mandate.publisher, *mandate.names):
        if not is_name(name):
            raise UsageError(f"expected a name of a-z, 0-9 and hyphens, found {quote(name)}")
    if mandate.since > signing.time:
        raise UsageError(f"expected a time that has come, found {mandate.since}")
    if mandate.since != ALWAYS and not mandate.revoke:
        raise UsageError("a time goes with a key that is revoked", hint="--revoke FINGERPRINT")


def _admitted(admission: Admission, mandate: Mandate) -> Admission:
    """Add keys and roots, in the one spelling that each has."""
    keys = [PublicKey.load(pem) for pem in mandate.keys]
    roots = [root for pem in mandate.certificates for root in x509.load(pem)]
    for root in roots:
        if not root.may_certify:
            message = f"expected a root that may sign certificates, found {quote(root.subject)}"
            raise FormatError(message, hint="a publisher's own key goes with --key")
    gone = {revocation.fingerprint for revocation in admission.revoked}
    for found in (*(key.fingerprint for key in keys), *(root.fingerprint for root in roots)):
        if found in gone:
            raise Refused(f"{found} was revoked; it is not admitted again")
    return replace(
        admission,
        keys=tuple(dict.fromkeys([*admission.keys, *(key.pem.decode() for key in keys)])),
        certificates=tuple(dict.fromkeys([*admission.certificates, *(root.pem.decode() for root in roots)])),
    )


def _revoked(admission: Admission, mandate: Mandate, index: Index, hub: Opened) -> Admission:
    """Add revocations. What was admitted stays listed, for what it signed before its time had come."""
    revoked = {each.fingerprint: each for each in admission.revoked}
    for wanted in mandate.revoke:
        found = _parse(wanted.encode()) if wanted.startswith("-----BEGIN ") else None
        for known in () if found else _known(admission, index, hub):
            if wanted in (known.fingerprint, getattr(known, "key", known).fingerprint):
                found = known
                break
        if found is None:
            hint = "a key that the registry never saw is revoked by its PEM file"
            raise NotFound(f"{mandate.publisher} has no key {quote(wanted)}", hint=hint)
        earlier = revoked.get(found.fingerprint)
        since = min(mandate.since, earlier.since) if earlier else mandate.since
        revoked[found.fingerprint] = Revocation(found.fingerprint, since, found.pem.decode())
    return replace(admission, revoked=tuple(revoked[key] for key in sorted(revoked)))


def _known(admission: Admission, index: Index, hub: Opened) -> Iterator[PublicKey | Certificate]:
    """Yield the keys and certificates of a publisher: those it is admitted with, then those in its chains."""
    for pem in (*admission.keys, *admission.certificates, *(each.pem for each in admission.revoked)):
        yield _parse(pem.encode())
    for name in _names(index, admission.publisher):
        for release in index.skills[name]:
            if release.publisher == admission.publisher and release.withdrawn is None:
                envelope = oms.read(_tree(release, hub))
                yield from envelope.chain if envelope else ()


def _parse(pem: bytes) -> PublicKey | Certificate:
    return x509.load(pem)[0] if b"CERTIFICATE" in pem.partition(b"\n")[0] else PublicKey.load(pem)


def _given(index: Index, admission: Admission) -> tuple[Index, dict[str, str]]:
    """Return the index in which the publisher has its names, and who had which of them before."""
    former = {
        name: owner
        for owner, other in index.admissions.items()
        for name in sorted(other.names & admission.names)
        if owner != admission.publisher
    }
    admissions = {owner: replace(other, names=other.names - set(former)) for owner, other in index.admissions.items()}
    skills = {
        name: tuple(replace(each, publisher=admission.publisher) for each in releases) if name in former else releases
        for name, releases in index.skills.items()
    }
    return Index(skills, {**admissions, admission.publisher: admission}), former


def _names(index: Index, publisher: str) -> list[str]:
    """Return the skills of the publisher of which there is a release."""
    return sorted(index.admissions[publisher].names & set(index.skills)) if publisher in index.admissions else []


def _sound(name: str, index: Index, hub: Opened) -> Iterator[Release]:
    """Yield the releases of a skill; one that its publisher has not validly signed any more is withdrawn."""
    for release in index.skills[name]:
        if release.withdrawn is not None:
            yield release
            continue
        publisher = publisher_of(index.admissions[release.publisher or ""], release.published)
        try:
            locked = (release.tree,) if release.tree else ()
            verdict = judge(_tree(release, hub), [publisher], None, hub.signing.now, locked)
            reason = f"it is not signed by {publisher.name}, whose name it is now"
            yield release if verdict.status == "valid" else replace(release, withdrawn=reason)
        except BadSignature as error:
            if error.reason != "revoked":
                raise
            yield replace(release, withdrawn=error.message)


def _tree(release: Release, hub: Opened) -> Tree:
    return unpack(hub.artifact(release), "zip", wrapper=False).tree


def fingerprints(admission: Admission) -> tuple[Digest, ...]:
    """Return the fingerprints of what a publisher is admitted with and what is not revoked."""
    return publisher_of(admission).fingerprints

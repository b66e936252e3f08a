"""The publishers that a signature is judged by: those a user trusts, and those pinned with what is installed."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache

from skillhub.flows.standing import Standing
from skillhub.model.digest import Digest
from skillhub.model.lock import Locked
from skillhub.model.signer import Signer
from skillhub.model.text import as_command
from skillhub.model.tree import Tree
from skillhub.trust.identity import Identity
from skillhub.trust.judgement import judge
from skillhub.trust.publishers import Publisher, Verdict
from skillhub.trust.registry import publisher_of
from skillhub.world.publishers import OWN_SUFFIX, Publishers, Trusted

EXPIRED = "its certificate has expired; it is borne for the tree that is locked, and for no other"
AGREED = "agreed to: "  # before what is pinned of a signer whom a person took for one skill and never trusted
_KEPT_AS = {"key": "keys", "certificate": "certificates", "sigstore": "identities"}


def trusted(publishers: Publishers) -> list[Publisher]:
    """Return whom the user trusts.

    Raises:
        FormatError: a key, certificate or identity is none that may sign skills.
    """
    return list(map(_parsed, publishers.all().values()))


@dataclass(frozen=True, slots=True)
class OwnKey:
    """A key of the user's own that signed, though they have not trusted it: its name, and its public half, a file."""

    name: str
    path: str

    @property
    def trusting(self) -> str:
        """What to type to trust it."""
        return as_command("skillhub", "publisher", "trust", self.name, "--key", self.path)


def judged(
    tree: Tree, publishers: Publishers, source: str | None, now: datetime, locked: Collection[Digest] = ()
) -> tuple[Verdict, OwnKey | None]:
    """Return what a signature is worth to the user, as ``judge`` does, and which key of their own made it.

    A bare key proves nothing unless it is at hand. Their own is, so that it is named and may be pinned; yet nobody
    trusts it before they say so.

    Raises:
        BadSignature, FormatError: as for ``judge``; it is said to be by a key of theirs, and is not.
    """
    known = trusted(publishers)
    verdict = judge(tree, known, source, now, locked)
    own = own_key(verdict.claim, publishers)
    if own is None:
        return verdict, None
    mine = _parsed(Trusted(own.name, keys=(publishers.read_own(own.path),)))
    return replace(judge(tree, [*known, mine], source, now, locked), status="untrusted"), own


def own_key(claim: Digest | None, publishers: Publishers) -> OwnKey | None:
    """Return the user's own key that a signature claims to be by, trusted or not; ``judged`` proves that it is."""
    path = publishers.own(claim) if claim else None
    if path is None:
        return None
    name = os.path.basename(path).removesuffix(OWN_SUFFIX)
    return OwnKey("me" if name == "default" else name, path)


def proven(name: str, entry: Locked, root: Digest | None) -> Digest:
    """Return the name that a verified signer is pinned under: a digest of the entry, and of its registry's root.

    A signer pinned for one skill must not vouch for what a lock claims of another.
    """
    origin = [entry.url, entry.digest] if entry.git is None else [entry.git, entry.rev, entry.path]
    facts = [name, entry.source, root, entry.version, *origin, entry.tree, *entry.signed_by]
    return Digest.of(json.dumps(facts).encode())


def pinned(name: str, entry: Locked, root: Digest | None, publishers: Publishers) -> list[Publisher]:
    """Return the entry's signer, if this very entry was verified on this machine before."""
    pem = publishers.pinned(proven(name, entry, root))
    if pem is None or not entry.signed_by:
        return []
    signer = Signer.parse(entry.signed_by[0])
    return [_parsed(Trusted(signer.identity, **{_KEPT_AS[signer.kind]: (pem.removeprefix(AGREED),)}))]


def revoking(standing: Standing) -> list[Publisher]:
    """Return who published a locked release, if they revoked a key: a certificate of the chain may bear that.

    Raises:
        FormatError: a key or certificate that the registry names is none.
    """
    release, admitted = standing.release, standing.admitted
    return [publisher_of(admitted, release.published)] if release and admitted and admitted.revoked else []


def kin(signer: Signer | None, publishers: Iterable[Publisher]) -> frozenset[Digest]:
    """Return the keys, roots and identities that belong to the same publisher as the signer's, its own among them."""
    found: set[Digest] = set()
    for publisher in publishers:
        if signer is not None and signer.fingerprint in publisher.fingerprints:
            found |= {*publisher.fingerprints, *publisher.former}
    return frozenset(found)


@lru_cache  # each skill of a command is judged by the same
def _parsed(one: Trusted) -> Publisher:
    # Where nobody is trusted yet, cryptography stays out.
    from skillhub.trust import x509  # noqa: PLC0415
    from skillhub.trust.keys import PublicKey  # noqa: PLC0415

    return Publisher(
        one.name,
        tuple(PublicKey.load(pem.encode()) for pem in one.keys),
        tuple(root for pem in one.certificates for root in x509.load(pem.encode())),
        one.sources,
        identities=tuple(map(Identity.parse, one.identities)),
    )

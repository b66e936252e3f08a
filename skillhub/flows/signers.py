"""The publishers that a signature is judged by: those a user trusts, and those pinned with what is installed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace

from skillhub.model.digest import Digest
from skillhub.model.lock import Locked
from skillhub.model.signer import Signer
from skillhub.trust import x509
from skillhub.trust.keys import PublicKey
from skillhub.trust.publishers import Publisher
from skillhub.world.publishers import Publishers


def trusted(publishers: Publishers) -> list[Publisher]:
    """Return whom the user trusts.

    Raises:
        FormatError: a key or certificate is none that may sign skills.
    """
    return [
        replace(_parsed(one.name, one.keys, one.certificates), sources=one.sources)
        for one in publishers.all().values()
    ]


def proven(name: str, entry: Locked, root: Digest | None) -> Digest:
    """Return what names a proof: that this very entry was verified, from a registry with this root if from one.

    A key pinned for one skill must not vouch for what a lock claims of another.
    """
    facts = [name, entry.source, root, entry.version, entry.url, entry.digest, entry.tree, *entry.signed_by]
    return Digest.of(json.dumps(facts).encode())


def pinned(name: str, entry: Locked, root: Digest | None, publishers: Publishers) -> list[Publisher]:
    """Return the entry's signer, if this very entry was verified on this machine before."""
    pem = publishers.pinned(proven(name, entry, root))
    if pem is None or not entry.signed_by:
        return []
    signer = Signer.parse(entry.signed_by[0])
    keys, roots = ((pem,), ()) if signer.kind == "key" else ((), (pem,))
    return [_parsed(signer.identity, keys, roots)]


def kin(signer: Signer | None, publishers: Iterable[Publisher]) -> frozenset[Digest]:
    """Return the keys and roots that belong to the same publisher as the signer's, its own among them."""
    found: set[Digest] = set()
    for publisher in publishers:
        each = {*(key.fingerprint for key in publisher.keys), *(root.fingerprint for root in publisher.roots)}
        if signer is not None and signer.fingerprint in each:
            found |= each
    return frozenset(found)


def _parsed(name: str, keys: tuple[str, ...], certificates: tuple[str, ...]) -> Publisher:
    roots = tuple(root for pem in certificates for root in x509.load(pem.encode()))
    return Publisher(name, tuple(PublicKey.load(pem.encode()) for pem in keys), roots)

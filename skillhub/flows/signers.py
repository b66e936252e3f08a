"""The publishers that a signature is judged by: those a user trusts, and those pinned with what is installed."""

from __future__ import annotations

from dataclasses import replace

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


def pinned(entry: Locked, publishers: Publishers) -> list[Publisher]:
    """Return those of the entry's signers whose key or root was pinned when it was installed."""
    found = []
    for signer in map(Signer.parse, entry.signed_by):
        pem = publishers.pinned(signer.fingerprint)
        if pem is not None:
            keys, roots = ((pem,), ()) if signer.kind == "key" else ((), (pem,))
            found.append(_parsed(signer.identity, keys, roots))
    return found


def _parsed(name: str, keys: tuple[str, ...], certificates: tuple[str, ...]) -> Publisher:
    roots = tuple(root for pem in certificates for root in x509.load(pem.encode()))
    return Publisher(name, tuple(PublicKey.load(pem.encode()) for pem in keys), roots)

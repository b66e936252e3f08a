"""The publishers that may sign skills, and the verdict on a signature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from skillhub.model.digest import Digest
from skillhub.model.signer import Signer
from skillhub.model.tree import Tree

if TYPE_CHECKING:
    from skillhub.trust.identity import Identity
    from skillhub.trust.keys import PublicKey
    from skillhub.trust.x509 import Certificate

Status = Literal["valid", "untrusted", "unsigned"]


@dataclass(frozen=True)
class Publisher:
    """A publisher that somebody vouches for: a person who pinned it, or a registry's ``ns``.

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
        """Say whether it is trusted for ``source``; ``None`` is a local path, which nobody is narrowed to."""
        return not self.sources or source in self.sources


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a signature is worth; a broken one never gets here.

    Attributes:
        status: ``valid`` by a publisher trusted for the source, ``untrusted`` by somebody nobody pinned.
        tree: What was signed: the skill less the files that its signature ignores.
        signer: Who is proven to have signed. ``None`` with ``untrusted``: the key, or the root that the chain
            leads to, is not at hand, so nothing is proven, and no yes of a person can pin it; it takes
            ``publisher trust``.
        claim: The SHA-256 of the PEM file of the key that is said to have signed, where that is all there is.
        pem: The key or root that ``signer`` names, for whoever pins it; of an identity its ``dump``.
        expired: A certificate is past its time, which is tolerated for the locked tree alone: say it.
    """

    status: Status
    tree: Tree
    signer: Signer | None = None
    claim: Digest | None = None
    pem: str | None = None
    expired: bool = False

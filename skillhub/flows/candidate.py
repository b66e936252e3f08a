"""A skill in memory, verified, read and scanned: what every kind of source comes to, and every question is about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from skillhub.flows import signers
from skillhub.model.capability import capabilities
from skillhub.model.digest import Digest
from skillhub.model.finding import Finding
from skillhub.model.intent import Wanted
from skillhub.model.lock import Locked
from skillhub.model.manifest import Manifest
from skillhub.model.signer import Signer
from skillhub.model.tree import Tree
from skillhub.scan import scan
from skillhub.trust.publishers import Publisher, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A skill in memory, every byte of it verified.

    Attributes:
        entry: What the lock will say of it.
        trust: ``untrusted`` is a sound signature of somebody whom nobody has pinned.
        manifest: What its author says of it; without the body where the tree is not in memory either.
        pem: The key or certificate root behind the signature, to be pinned.
        kin: The keys and roots that whoever vouches for the signer vouches for as the same publisher's.
        can: What it can do, off its bytes; like ``findings`` empty where nobody is asked again.
        wanted: The line to write into the intent; None leaves what is there.
        warnings: What is odd and harmless.
        published: When its registry says that it was published, or its commit that it was made, UTC.
        stored: Whether every byte was read from the store just now.
        base: Of a patched one, what its source has, if that is to be stored too.
        patch: The project's patch, if it is to be written anew where ``entry`` says.
        own: The user's own key that signed, where they have not trusted it.
        voucher: The registry that says who the signer is, where it is none of the user's.
        claim: Where that is all there is, the SHA-256 of the PEM file of the key that is said to have signed.
    """

    name: str
    entry: Locked
    tree: Tree
    manifest: Manifest
    trust: Literal["signed", "untrusted", "unsigned"]
    signer: Signer | None
    pem: str | None
    kin: frozenset[Digest]
    can: tuple[str, ...]
    findings: tuple[Finding, ...]
    wanted: Wanted | None = None
    warnings: tuple[str, ...] = ()
    published: str | None = None
    stored: bool = False
    base: Tree | None = None
    patch: bytes | None = None
    own: signers.OwnKey | None = None
    claim: Digest | None = None
    voucher: str | None = None

    @property
    def signed_by(self) -> str | None:
        """Who signed it, for a person: ``NAME``, or ``NAME by SOURCE``; None if nobody is known to."""
        return self.signer.named(self.voucher) if self.signer else None

    def noted(self, *notes: str) -> Candidate:
        """Return the same with more warnings."""
        return replace(self, warnings=(*self.warnings, *notes))


@dataclass(frozen=True, slots=True)
class Content:
    """What the bytes of a skill say: its manifest, what it can do, what the scan saw."""

    manifest: Manifest
    can: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()


def read(tree: Tree) -> Content:
    """Read and scan the whole tree.

    Raises:
        FormatError: the manifest is malformed.
        SecurityError: it asks for a forbidden variable.
    """
    manifest = Manifest.read(tree)
    return Content(manifest, capabilities(tree, manifest), scan(tree))


def candidate(
    content: Content,
    entry: Locked,
    verdict: Verdict,
    warnings: tuple[str, ...],
    publishers: Sequence[Publisher],
) -> Candidate:
    """Put together what was read and judged; ``publishers`` are all who vouch for a signer's kin."""
    statuses: dict[str, Literal["signed", "untrusted", "unsigned"]] = {
        "valid": "signed",
        "untrusted": "untrusted",
        "unsigned": "unsigned",
    }
    return Candidate(
        name=content.manifest.name,
        entry=entry,
        tree=verdict.tree,
        manifest=content.manifest,
        trust=statuses[verdict.status],
        signer=verdict.signer,
        pem=verdict.pem,
        kin=signers.kin(verdict.signer, publishers),
        claim=verdict.claim,
        can=content.can,
        findings=content.findings,
        warnings=(*warnings, *([signers.EXPIRED] if verdict.expired else ()), *content.manifest.warnings),
    )


def spelled(manifest: Manifest) -> tuple[str, ...]:
    """Return the needs as the lock spells them."""
    return tuple(sorted(requirement.spell() for requirement in manifest.requires))

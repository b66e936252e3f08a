"""``skill.oms.sig``: the signature at the root of a skill, in the format of OpenSSF Model Signing v1.0.

It covers every file of the folder but itself; the execute bit it does not cover. Not taken over from the
reference verifier: chains judged at the leaf's own first day, the first of several signatures alone, and
its fallbacks for what was signed before version 1.
"""

from __future__ import annotations

from dataclasses import dataclass

from skillhub.errors import BadSignature, UsageError
from skillhub.model.digest import Digest
from skillhub.model.tree import SIGNATURE, SKILL_MD, Tree
from skillhub.trust.keys import PrivateKey, PublicKey
from skillhub.trust.oms_bundle import Bundle, pae
from skillhub.trust.oms_statement import Statement
from skillhub.trust.x509 import Certificate


@dataclass(frozen=True, slots=True)
class Envelope:
    """A signature that fits its tree, and that nobody is proven to have made until ``prove`` returns.

    Attributes:
        tree: The tree less the files that the signature ignores: this one, no other, is what was signed.
        hint: The ``PublicKey.hint`` of the key that is said to have signed, if a bare key did and it is said.
        chain: The certificates that came with the signature, the leaf first; empty if a bare key signed.
        bundle: The bytes of the signature's file, if a Sigstore identity signed: what it proves is for
            ``trust.sigstore`` to say, not for ``prove``.
    """

    tree: Tree
    hint: Digest | None
    chain: tuple[Certificate, ...]
    signed: bytes
    signature: bytes
    bundle: bytes | None = None

    def prove(self, key: PublicKey) -> None:
        """Return if ``key`` made this signature.

        Raises:
            BadSignature: ``wrong-signature``, ``signature-encoding``, or ``wrong-hint`` if the signature says
                that another key made it.
        """
        key.verify(self.signature, self.signed)
        if self.hint not in (None, key.hint):
            message = f"expected the hint {key.hint.hex}, found {self.hint}"
            raise BadSignature("wrong-hint", message, where=SIGNATURE)


def read(tree: Tree) -> Envelope | None:
    """Return the signature at the root of ``tree``, held against all of its files; ``None`` if there is none.

    Raises:
        BadSignature: it is malformed, or says something else than what is there; the reasons are those of
            ``Bundle.parse``, ``Statement.parse`` and ``Statement.match``.
    """
    if SIGNATURE not in tree:
        return None
    bundle = Bundle.parse(tree[SIGNATURE].data)
    kept = Statement.parse(bundle.payload).match(tree)
    signed = pae(bundle.payload)
    return Envelope(kept, bundle.hint, bundle.chain, signed, bundle.signature, bundle.sigstore)


def sign(tree: Tree, name: str, key: PrivateKey, chain: tuple[Certificate, ...] = ()) -> bytes:
    """Return the bytes of ``skill.oms.sig`` for ``tree``, the same each time.

    A signature that is there is left out, and so are the ``.git*`` files that no signature may cover.

    Args:
        tree: The skill.
        name: Its name, for people to read; nobody verifies it.
        key: ECDSA, if the reference verifier is to accept the signature: it knows no Ed25519.
        chain: The certificate of ``key``, then its issuers; empty to sign with the bare key.

    Raises:
        UsageError: the tree is no skill, or the first certificate is another key's.
    """
    if SKILL_MD not in tree:
        raise UsageError(f"expected a skill to sign, found no {SKILL_MD}")
    if chain and chain[0].key != key.public:
        raise UsageError("expected the certificate of the signing key first, found another key's")
    payload = Statement.of(tree).dump(name)
    return Bundle(payload, key.sign(pae(payload)), None if chain else key.public.hint, chain).dump()

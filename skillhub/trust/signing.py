"""Signing and verifying one document of a registry's metadata, by TUF's rules of keys and thresholds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cryptography.hazmat.primitives.serialization import load_pem_public_key
from securesystemslib.signer import Signature, SSlibKey  # type: ignore[attr-defined]
from tuf.api.exceptions import RepositoryError
from tuf.api.metadata import Metadata, Signed  # type: ignore[attr-defined]

from skillhub.errors import BadMetadataSignature, FormatError, Refused
from skillhub.trust.keys import PrivateKey, PublicKey
from skillhub.trust.roles import RELEASES, ROLES, rule_of

# The private keys of a role that are at hand; asked only for roles whose documents are signed.
Keys = Callable[[str], Sequence[PrivateKey]]


def public_key(key: PublicKey) -> SSlibKey:
    """Return the key as metadata lists it."""
    return SSlibKey.from_crypto(load_pem_public_key(key.pem))


def keyid(key: PublicKey) -> str:
    """Return TUF's name for the key."""
    found: str = public_key(key).keyid
    return found


def sign(role: str, document: Signed, delegators: Sequence[Any], keys: Keys) -> bytes:
    """Return the document of ``role``, signed by just as many keys as each of ``delegators`` asks for.

    Args:
        role: The role.
        document: What it says.
        delegators: The metadata that delegates to the role, or, for a root, that root and the one before.
        keys: The keys at hand; those that count for nobody are left alone.

    Raises:
        Refused: too few of the right keys are at hand.
    """
    metadata: Metadata[Any] = Metadata(document)
    data = metadata.signed_bytes
    at_hand = {keyid(key.public): key for key in keys(role if role in ROLES else RELEASES)}
    for delegator in delegators:
        rule = delegator.get_delegated_role(role)
        able = [name for name in at_hand if name in rule.keyids]
        if len(able) < rule.threshold:
            raise _too_few(role, rule.threshold, len(able))
        for name in able[: rule.threshold]:
            metadata.signatures[name] = Signature(name, at_hand[name].sign(data).hex())
    return metadata.to_bytes()


def verify(role: str, data: bytes, delegator: Any) -> None:  # noqa: ANN401 - root or targets: both delegate
    """Return if the document of ``role`` is signed as ``delegator``, the metadata that delegates to it, asks.

    Raises:
        BadMetadataSignature: too few of the right keys have signed it.
        FormatError: it is no metadata.
    """
    try:
        metadata: Metadata[Any] = Metadata.from_bytes(data)
    except RepositoryError as error:
        raise FormatError("expected TUF metadata", where=role) from error
    try:
        delegator.verify_delegate(role, metadata.signed_bytes, metadata.signatures)
    except (RepositoryError, ValueError) as error:
        raise BadMetadataSignature("too few of the right keys have signed it", where=role) from error


def _too_few(role: str, expected: int, found: int) -> Refused:
    kind = "online" if rule_of(role).online else "offline"
    return Refused(
        f"the role {role} takes the signatures of {expected} keys, found {found}",
        hint=f"bring the {kind} keys of the registry, and their passphrase",
    )

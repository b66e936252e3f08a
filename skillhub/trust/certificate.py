"""A certificate that was read: all that a chain depends on."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.utils import CryptographyDeprecationWarning

from skillhub.model.digest import Digest
from skillhub.trust.keys import PublicKey

if TYPE_CHECKING:  # 30 ms, for who has no certificate too
    from cryptography import x509

    from skillhub.trust.x509_names import NameConstraints


@dataclass(frozen=True)
class Certificate:
    """A certificate, with all that a chain depends on read at once; two are equal if their bytes are.

    Attributes:
        subject: ``name``, the distinguished name, as RFC 4514 spells it.
        path_length: How many certificates may stand between this one and a leaf; ``None`` = any number.
        may_sign: ``digitalSignature`` is set, and an extended key usage, if there is one, names code signing.
        may_certify: It is a CA and ``keyCertSign`` is set, and its extended usage allows code signing too.
        names: Every name that it bears, ``name`` among them; ``constraints`` are for those below it.
    """

    der: bytes = field(repr=False)
    subject: str = field(compare=False)
    key: PublicKey = field(compare=False)
    is_ca: bool = field(compare=False)
    path_length: int | None = field(compare=False)
    may_sign: bool = field(compare=False)
    may_certify: bool = field(compare=False)
    not_before: datetime = field(compare=False)
    not_after: datetime = field(compare=False)
    name: x509.Name = field(compare=False, repr=False)
    issuer: x509.Name = field(compare=False, repr=False)
    names: tuple[x509.GeneralName, ...] = field(compare=False, repr=False)
    constraints: NameConstraints = field(compare=False, repr=False)
    _raw: x509.Certificate = field(compare=False, repr=False)

    @property
    def fingerprint(self) -> Digest:
        """SHA-256 of the DER, as browsers and ``openssl x509 -fingerprint -sha256`` show it."""
        return Digest.of(self.der)

    @property
    def pem(self) -> bytes:
        """The certificate in PEM."""
        return self._raw.public_bytes(Encoding.PEM)

    def issued(self, other: Certificate) -> bool:
        """Say whether ``other`` names this certificate as its issuer and is signed with its key."""
        return _issued(self, other)


@lru_cache(maxsize=256)  # P-384 takes half a millisecond, and the skills of one publisher share their chain
def _issued(issuer: Certificate, certificate: Certificate) -> bool:
    try:
        certificate._raw.verify_directly_issued_by(issuer._raw)
    except (InvalidSignature, UnsupportedAlgorithm, ValueError, TypeError, CryptographyDeprecationWarning):
        return False
    return True

"""From bytes to a certificate; one of a kind that no chain of ours may hold is refused."""

from __future__ import annotations

from warnings import catch_warnings, simplefilter

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.utils import CryptographyDeprecationWarning
from cryptography.x509.oid import ExtendedKeyUsageOID, SignatureAlgorithmOID

from skillhub.errors import BadSignature, FormatError
from skillhub.model.text import clean, quote
from skillhub.trust.certificate import Certificate
from skillhub.trust.keys import PublicKey
from skillhub.trust.x509_names import NameConstraints, names_of

_DER_MAX = 64 * 1024
_SUBJECT_MAX = 256
_ALGORITHMS = frozenset(
    {
        SignatureAlgorithmOID.ECDSA_WITH_SHA256,
        SignatureAlgorithmOID.ECDSA_WITH_SHA384,
        SignatureAlgorithmOID.ECDSA_WITH_SHA512,
        SignatureAlgorithmOID.ED25519,
    }
)
_UNDERSTOOD = (
    x509.BasicConstraints,
    x509.KeyUsage,
    x509.ExtendedKeyUsage,
    x509.SubjectAlternativeName,
    x509.NameConstraints,
)
_SIGNING = frozenset({ExtendedKeyUsageOID.CODE_SIGNING, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE})
# What `cryptography` raises on a certificate that is malformed somewhere.
_MALFORMED = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    CryptographyDeprecationWarning,
    x509.DuplicateExtension,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)


def split(pem: bytes) -> tuple[bytes, ...]:
    """Return the DER of each certificate in ``pem``, in its order.

    Raises:
        FormatError: there is none, or something that is no certificate in PEM.
    """
    try:
        found = x509.load_pem_x509_certificates(pem)
    except _MALFORMED as error:
        raise FormatError("expected certificates in PEM") from error
    return tuple(certificate.public_bytes(Encoding.DER) for certificate in found)


def read(der: bytes) -> Certificate:
    """Return the certificate that ``der`` holds.

    Raises:
        BadSignature: as ``x509.parse`` says.
    """
    if len(der) > _DER_MAX:
        raise BadSignature("certificate", f"expected at most {_DER_MAX} bytes, found {len(der)}")
    try:
        with catch_warnings():
            # What `cryptography` still reads with a warning, such as a negative serial, RFC 5280 forbids.
            simplefilter("error", CryptographyDeprecationWarning)
            raw = x509.load_der_x509_certificate(der)
            subject = raw.subject.rfc4514_string()
            _check_kind(raw, subject)
            return _of(der, raw, subject)
    except FormatError as error:
        raise BadSignature("certificate-key", error.message, where=quote(subject), hint=error.hint) from error
    except _MALFORMED as error:
        raise BadSignature("certificate", "expected an X.509 certificate in DER") from error


def _check_kind(raw: x509.Certificate, subject: str) -> None:
    if not subject or len(subject) > _SUBJECT_MAX or clean(subject) != subject:
        # The subject is what a person is shown and the lock keeps: it must be there and hide nothing.
        message = f"expected a subject of 1 to {_SUBJECT_MAX} characters, all of them visible, found {quote(subject)}"
        raise BadSignature("certificate-subject", message)
    if raw.signature_algorithm_oid not in _ALGORITHMS:
        message = f"expected ECDSA with SHA-2 or Ed25519, found {raw.signature_algorithm_oid.dotted_string}"
        raise BadSignature("certificate-algorithm", message, where=quote(subject))
    for extension in raw.extensions:
        if extension.critical and not isinstance(extension.value, _UNDERSTOOD):
            message = f"a critical extension that is not understood: {extension.oid.dotted_string}"
            raise BadSignature("certificate-critical", message, where=quote(subject))


def _of(der: bytes, raw: x509.Certificate, subject: str) -> Certificate:
    found = {type(extension.value): extension.value for extension in raw.extensions}
    basic = found.get(x509.BasicConstraints)
    usage = found.get(x509.KeyUsage)
    purposes = found.get(x509.ExtendedKeyUsage)
    is_ca = isinstance(basic, x509.BasicConstraints) and basic.ca
    signs = isinstance(usage, x509.KeyUsage) and usage.digital_signature
    certifies = isinstance(usage, x509.KeyUsage) and usage.key_cert_sign
    purpose = not isinstance(purposes, x509.ExtendedKeyUsage) or not _SIGNING.isdisjoint(purposes)
    return Certificate(
        der=der,
        subject=subject,
        key=PublicKey.of(raw.public_key()),
        is_ca=is_ca,
        path_length=basic.path_length if isinstance(basic, x509.BasicConstraints) else None,
        may_sign=signs and purpose,
        may_certify=is_ca and certifies and purpose,
        not_before=raw.not_valid_before_utc,
        not_after=raw.not_valid_after_utc,
        name=raw.subject,
        issuer=raw.issuer,
        names=names_of(raw.subject, found.get(x509.SubjectAlternativeName)),
        constraints=NameConstraints.of(found.get(x509.NameConstraints)),
        _raw=raw,
    )

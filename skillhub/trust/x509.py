"""X.509 certificates: parsing, chains to a pinned root (RFC 5280), and name constraints."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from itertools import pairwise
from typing import Self
from unicodedata import normalize
from warnings import catch_warnings, simplefilter

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, PublicKeyAlgorithmOID, SignatureAlgorithmOID

from skillhub.errors import BadSignature, FormatError
from skillhub.formats.digest import Digest
from skillhub.formats.text import clean, quote
from skillhub.trust.keys import PublicKey, other_kind


@dataclass(frozen=True)
class Certificate:
    """A parsed certificate, with all fields that a chain depends on; two are equal if their bytes are.

    Attributes:
        subject: ``name``, the distinguished name, in the form of RFC 4514.
        path_length: The number of certificates allowed between this one and a leaf; ``None`` for any number.
        may_sign: Whether ``digitalSignature`` is set, and an extended key usage, if present, has code signing.
        may_certify: Whether it is a CA with ``keyCertSign``, and an extended key usage, if present, has code signing.
        names: All names in the certificate, ``name`` included.
        constraints: The name constraints for the certificates below it.
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
        """Return whether ``other`` names this certificate as its issuer and is signed with its key."""
        return _issued(self, other)


Certificates = tuple[Certificate, ...]


@lru_cache(maxsize=256)  # a verification with P-384 takes 0.5 ms, and the skills of a publisher share their chain
def _issued(issuer: Certificate, certificate: Certificate) -> bool:
    try:
        certificate._raw.verify_directly_issued_by(issuer._raw)
    except (InvalidSignature, UnsupportedAlgorithm, ValueError, TypeError, UserWarning):
        return False
    return True


# Chains from the certificate that signed a skill to a root that the user pinned (RFC 5280, 6).
# The rules are fewer than those of a general verifier, and stricter: every certificate of a chain, the root included,
# has an elliptic key, is followed by its issuer, has key usage, and is judged at the present time. Revocation lists
# are not used; the user or registry that pinned a publisher revokes its keys.

LONGEST = 8


@dataclass(frozen=True)
class Path:
    """A valid chain.

    Attributes:
        root: The end of the chain: a pinned root, else the chain's own self-signed certificate, else None.
        expired: Whether a certificate of the chain has expired, which the caller may tolerate.
    """

    root: Certificate | None
    expired: bool


def verify(chain: Certificates, roots: Iterable[Certificate], now: datetime) -> Path:
    """Return the path from the leaf ``chain[0]`` to the nearest of ``roots``, or to the chain's own end.

    Every certificate of the chain must be issued by the next one, whether or not the path needs it.

    Raises:
        BadSignature: ``chain-length``, ``chain-order``, ``certificate-signature``, ``leaf-is-root``,
            ``leaf-is-ca``, ``leaf-usage``, ``issuer-not-ca``, ``path-length``, ``name-constraints``,
            ``certificate-not-yet-valid``.
    """
    if not 1 <= len(chain) <= LONGEST:
        raise BadSignature("chain-length", f"expected a chain of 1 to {LONGEST} certificates, found {len(chain)}")
    for certificate, issuer in pairwise(chain):
        _check_issued(certificate, issuer)
    # Of two roots with one key, as after a renewal, the later expiry wins.
    path, root = _anchor(chain, tuple(sorted(roots, key=lambda root: root.not_after, reverse=True)))
    _check_leaf(path[0], root)
    for below, authority in enumerate(path[1:]):
        _check_authority(authority, below)
        for certificate in path[: below + 1]:
            authority.constraints.check(certificate.names, where=quote(certificate.subject))
    for certificate in path:
        if now < certificate.not_before:
            message = f"expected a certificate valid by now, found one from {certificate.not_before} on"
            raise BadSignature("certificate-not-yet-valid", message, where=quote(certificate.subject))
    return Path(root, expired=any(now > certificate.not_after for certificate in path))


def _anchor(chain: Certificates, roots: Certificates) -> tuple[Certificates, Certificate | None]:
    for length, certificate in enumerate(chain, 1):
        for root in roots:
            if root.issued(certificate):
                return (*chain[:length], root), root
    top = chain[-1]
    if top.issuer != top.name:
        return chain, None
    _check_issued(top, top)
    return chain, top


def _check_issued(certificate: Certificate, issuer: Certificate) -> None:
    if issuer.issued(certificate):
        return
    where = quote(certificate.subject)
    if certificate.issuer != issuer.name:
        raise BadSignature("chain-order", f"expected its issuer next, found {quote(issuer.subject)}", where=where)
    raise BadSignature("certificate-signature", "expected a signature by the next certificate", where=where)


def _check_leaf(leaf: Certificate, root: Certificate | None) -> None:
    where = quote(leaf.subject)
    if leaf == root:
        raise BadSignature("leaf-is-root", "expected a CA above the certificate that signs", where=where)
    if leaf.is_ca:
        raise BadSignature("leaf-is-ca", "expected a certificate that signs skills, found a CA", where=where)
    if not leaf.may_sign:
        raise BadSignature("leaf-usage", "expected a certificate that may sign code", where=where)


def _check_authority(authority: Certificate, below: int) -> None:
    where = quote(authority.subject)
    if not authority.may_certify:
        raise BadSignature("issuer-not-ca", "expected a CA that may sign certificates", where=where)
    if authority.path_length is not None and below > authority.path_length:
        message = f"expected at most {authority.path_length} certificates between it and the leaf, found {below}"
        raise BadSignature("path-length", message, where=where)


# Name constraints (RFC 5280, 4.2.1.10): the names that a CA may certify.
# Directory, DNS and mail names are compared. If a constraint is on another form of name, a certificate with a name of
# this form is refused.


@dataclass(frozen=True)
class NameConstraints:
    """The names that a CA may and may not certify; all names if both are empty."""

    permitted: tuple[x509.GeneralName, ...] = ()
    excluded: tuple[x509.GeneralName, ...] = ()

    @classmethod
    def of(cls, extension: object) -> Self:
        """Return the constraints of the extension; empty ones if there is no extension."""
        if not isinstance(extension, x509.NameConstraints):
            return cls()
        return cls(tuple(extension.permitted_subtrees or ()), tuple(extension.excluded_subtrees or ()))

    def check(self, names: tuple[x509.GeneralName, ...], where: str) -> None:
        """Raise unless all ``names`` are permitted and none is excluded.

        Raises:
            BadSignature: ``name-constraints``.
        """
        for name in names:
            permitted = [base for base in self.permitted if type(base) is type(name)]
            excluded = [base for base in self.excluded if type(base) is type(name)]
            comparable = isinstance(name, x509.DirectoryName | x509.DNSName | x509.RFC822Name)
            if (
                (not comparable and (permitted or excluded))
                or (permitted and not any(_within(name, base) for base in permitted))
                or any(_within(name, base) for base in excluded)
            ):
                message = f"a name that its CA may not certify: {quote(str(name.value))}"
                raise BadSignature("name-constraints", message, where=where)


def names_of(subject: x509.Name, alternative: object) -> tuple[x509.GeneralName, ...]:
    """Return all names in a certificate: the subject, the mail addresses in it, the alternative names."""
    mails = subject.get_attributes_for_oid(NameOID.EMAIL_ADDRESS)
    others = alternative if isinstance(alternative, x509.SubjectAlternativeName) else ()
    return (x509.DirectoryName(subject), *(x509.RFC822Name(str(mail.value)) for mail in mails), *others)


def _within(name: x509.GeneralName, base: x509.GeneralName) -> bool:
    if isinstance(name, x509.DirectoryName) and isinstance(base, x509.DirectoryName):
        prefix = [_fold(part) for part in base.value.rdns]
        return [_fold(part) for part in name.value.rdns][: len(prefix)] == prefix
    actual, wanted = _host(name), _host(base)
    if isinstance(name, x509.DNSName):
        return wanted in ("", actual) or actual.endswith("." + wanted.lstrip("."))
    if "@" in wanted:
        return actual == wanted
    host = actual.rpartition("@")[2]
    return host.endswith(wanted) if wanted.startswith(".") else host == wanted


def _host(name: x509.GeneralName) -> str:
    return str(name.value).lower().rstrip(".")


def _fold(part: x509.RelativeDistinguishedName) -> frozenset[tuple[str, str]]:
    # Case, width and spacing are folded (RFC 4518); otherwise an exclusion of `EVIL` would miss `Evil`.
    return frozenset(
        (attribute.oid.dotted_string, " ".join(normalize("NFKC", str(attribute.value)).casefold().split()))
        for attribute in part
    )


# Parsing: a certificate that no chain may contain is refused.

_DER_MAX = 16 * 1024
_SUBJECT_MAX = 256
_NAMES_MAX = 64  # names, and name constraints, of a certificate; each name is compared with each constraint
_ALGORITHMS = frozenset(
    {
        SignatureAlgorithmOID.ECDSA_WITH_SHA256,
        SignatureAlgorithmOID.ECDSA_WITH_SHA384,
        SignatureAlgorithmOID.ECDSA_WITH_SHA512,
        SignatureAlgorithmOID.ED25519,
    }
)
_ELLIPTIC = frozenset({PublicKeyAlgorithmOID.EC_PUBLIC_KEY, PublicKeyAlgorithmOID.ED25519})
_UNDERSTOOD = (
    x509.BasicConstraints,
    x509.KeyUsage,
    x509.ExtendedKeyUsage,
    x509.SubjectAlternativeName,
    x509.NameConstraints,
)
_SIGNING = frozenset({ExtendedKeyUsageOID.CODE_SIGNING, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE})
# The exceptions of `cryptography` for malformed certificates.
MALFORMED = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    UserWarning,
    x509.DuplicateExtension,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)


def load(pem: bytes) -> Certificates:
    """Return the certificates in ``pem``, in its order.

    Raises:
        FormatError: ``pem`` contains no certificate, or is malformed.
        BadSignature: no chain may contain one of the certificates (see ``parse``).
    """
    try:
        with catch_warnings():
            simplefilter("ignore", UserWarning)  # ``parse`` refuses what they are about
            certificates = x509.load_pem_x509_certificates(pem)
    except MALFORMED as error:
        raise FormatError("expected certificates in PEM") from error
    return tuple(parse(certificate.public_bytes(Encoding.DER)) for certificate in certificates)


@lru_cache(maxsize=64)  # the skills of one publisher share their chain
def parse(der: bytes) -> Certificate:
    """Return the certificate in ``der``.

    Raises:
        BadSignature: ``certificate`` (malformed, or too many names), or by its flaw ``certificate-algorithm``,
            ``certificate-critical``, ``certificate-key``, ``certificate-subject``.
    """
    if len(der) > _DER_MAX:
        raise BadSignature("certificate", f"expected at most {_DER_MAX} bytes, found {len(der)}")
    try:
        with catch_warnings():
            # `cryptography` only warns of some flaws that RFC 5280 forbids, such as a negative serial number; Python
            # would print the warning with a line of this file.
            simplefilter("error", UserWarning)
            raw = x509.load_der_x509_certificate(der)
            subject = raw.subject.rfc4514_string()
            _check_kind(raw, subject)
            return _of(der, raw, subject)
    except FormatError as error:
        raise BadSignature("certificate-key", error.message, where=quote(subject), hint=error.hint) from error
    except MALFORMED as error:
        raise BadSignature("certificate", "expected an X.509 certificate in DER") from error


def _check_kind(raw: x509.Certificate, subject: str) -> None:
    if not subject or len(subject) > _SUBJECT_MAX or clean(subject) != subject:
        # The subject is shown to the user and kept in the lock: it must not be empty or have hidden characters.
        message = f"expected a subject of 1 to {_SUBJECT_MAX} characters, all of them visible, found {quote(subject)}"
        raise BadSignature("certificate-subject", message)
    if raw.signature_algorithm_oid not in _ALGORITHMS:
        message = f"expected ECDSA with SHA-2 or Ed25519, found {raw.signature_algorithm_oid.dotted_string}"
        raise BadSignature("certificate-algorithm", message, where=quote(subject))
    if raw.public_key_algorithm_oid not in _ELLIPTIC:
        raise other_kind()  # before the key is read, which takes minutes for a Diffie-Hellman key
    for extension in raw.extensions:
        if extension.critical and not isinstance(extension.value, _UNDERSTOOD):
            message = f"a critical extension that is not understood: {extension.oid.dotted_string}"
            raise BadSignature("certificate-critical", message, where=quote(subject))


def _of(der: bytes, raw: x509.Certificate, subject: str) -> Certificate:
    extensions = {type(extension.value): extension.value for extension in raw.extensions}
    basic = extensions.get(x509.BasicConstraints)
    usage = extensions.get(x509.KeyUsage)
    purposes = extensions.get(x509.ExtendedKeyUsage)
    is_ca = isinstance(basic, x509.BasicConstraints) and basic.ca
    signs = isinstance(usage, x509.KeyUsage) and usage.digital_signature
    certifies = isinstance(usage, x509.KeyUsage) and usage.key_cert_sign
    purpose = not isinstance(purposes, x509.ExtendedKeyUsage) or not _SIGNING.isdisjoint(purposes)
    names = names_of(raw.subject, extensions.get(x509.SubjectAlternativeName))
    constraints = NameConstraints.of(extensions.get(x509.NameConstraints))
    if max(len(names), len(constraints.permitted) + len(constraints.excluded)) > _NAMES_MAX:
        raise BadSignature("certificate", f"expected at most {_NAMES_MAX} names or constraints", where=quote(subject))
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
        names=names,
        constraints=constraints,
        _raw=raw,
    )

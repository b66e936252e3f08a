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
from cryptography.utils import CryptographyDeprecationWarning
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, SignatureAlgorithmOID

from skillhub.errors import BadSignature, FormatError
from skillhub.formats.digest import Digest
from skillhub.formats.text import clean, quote
from skillhub.trust.keys import PublicKey

# A certificate that was read: all that a chain depends on.


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
        """Return whether ``other`` names this certificate as its issuer and is signed with its key."""
        return _issued(self, other)


@lru_cache(maxsize=256)  # P-384 takes half a millisecond, and the skills of one publisher share their chain
def _issued(issuer: Certificate, certificate: Certificate) -> bool:
    try:
        certificate._raw.verify_directly_issued_by(issuer._raw)
    except (InvalidSignature, UnsupportedAlgorithm, ValueError, TypeError, CryptographyDeprecationWarning):
        return False
    return True


# From the certificate that signed a skill to a root that a person pinned (RFC 5280, 6), and no further.
# Smaller than a general verifier and stricter: every certificate of a chain has an elliptic key, names its
# issuer next to it, carries key usage, and is held to the present time, the root among them. Revocation lists
# are not used; the person or registry that pinned a publisher revokes its keys.

LONGEST = 8


@dataclass(frozen=True)
class Path:
    """A sound chain.

    Attributes:
        root: Where it ends: a pinned root, else the chain's own self-signed certificate, else nothing known.
        expired: A certificate of it is past its time; whether that is tolerated is for the caller to say.
    """

    root: Certificate | None
    expired: bool


def verify(chain: tuple[Certificate, ...], roots: Iterable[Certificate], now: datetime) -> Path:
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
    # Of two roots with one key, as after a renewal, the one that lasts.
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


def _anchor(
    chain: tuple[Certificate, ...], roots: tuple[Certificate, ...]
) -> tuple[tuple[Certificate, ...], Certificate | None]:
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
        message = f"expected its issuer next in the chain, found {quote(issuer.subject)}"
        raise BadSignature("chain-order", message, where=where)
    message = "expected it to be signed by the next certificate of the chain"
    raise BadSignature("certificate-signature", message, where=where)


def _check_leaf(leaf: Certificate, root: Certificate | None) -> None:
    where = quote(leaf.subject)
    if leaf == root:
        raise BadSignature("leaf-is-root", "expected a CA above the certificate that signs", where=where)
    if leaf.is_ca:
        raise BadSignature("leaf-is-ca", "expected a certificate that signs skills, found a CA", where=where)
    if not leaf.may_sign:
        message = "expected a certificate for digital signatures on code, found another usage"
        raise BadSignature("leaf-usage", message, where=where)


def _check_authority(authority: Certificate, below: int) -> None:
    where = quote(authority.subject)
    if not authority.may_certify:
        raise BadSignature("issuer-not-ca", "expected a CA that may sign certificates", where=where)
    if authority.path_length is not None and below > authority.path_length:
        message = f"expected at most {authority.path_length} certificates between it and the leaf, found {below}"
        raise BadSignature("path-length", message, where=where)


# Name constraints (RFC 5280, 4.2.1.10): for which names a CA may speak.
# Directory, DNS and mail names are compared; where a constraint is on any other form of name, a certificate
# that bears a name of that form is refused.


@dataclass(frozen=True)
class NameConstraints:
    """What a CA may and may not certify; without constraints, everything."""

    permitted: tuple[x509.GeneralName, ...] = ()
    excluded: tuple[x509.GeneralName, ...] = ()

    @classmethod
    def of(cls, extension: object) -> Self:
        """Return the constraints of the extension, none if there is no extension."""
        if not isinstance(extension, x509.NameConstraints):
            return cls()
        return cls(tuple(extension.permitted_subtrees or ()), tuple(extension.excluded_subtrees or ()))

    def check(self, names: tuple[x509.GeneralName, ...], where: str) -> None:
        """Return if all ``names`` are permitted and none excluded.

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
    """Return every name that a certificate bears: its subject, mail addresses in it, alternative names."""
    mails = subject.get_attributes_for_oid(NameOID.EMAIL_ADDRESS)
    others = alternative if isinstance(alternative, x509.SubjectAlternativeName) else ()
    return (x509.DirectoryName(subject), *(x509.RFC822Name(str(mail.value)) for mail in mails), *others)


def _within(name: x509.GeneralName, base: x509.GeneralName) -> bool:
    if isinstance(name, x509.DirectoryName) and isinstance(base, x509.DirectoryName):
        prefix = [_folded(part) for part in base.value.rdns]
        return [_folded(part) for part in name.value.rdns][: len(prefix)] == prefix
    found, wanted = _host(name), _host(base)
    if isinstance(name, x509.DNSName):
        return wanted in ("", found) or found.endswith("." + wanted.lstrip("."))
    if "@" in wanted:
        return found == wanted
    host = found.rpartition("@")[2]
    return host.endswith(wanted) if wanted.startswith(".") else host == wanted


def _host(name: x509.GeneralName) -> str:
    return str(name.value).lower().rstrip(".")


def _folded(part: x509.RelativeDistinguishedName) -> frozenset[tuple[str, str]]:
    # Without case, width and spacing (RFC 4518), or an exclusion would miss `Evil` for `EVIL`.
    return frozenset(
        (attribute.oid.dotted_string, " ".join(normalize("NFKC", str(attribute.value)).casefold().split()))
        for attribute in part
    )


# From bytes to a certificate; one of a kind that no chain of ours may hold is refused.

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


def load(pem: bytes) -> tuple[Certificate, ...]:
    """Return the certificates in ``pem``, in its order.

    Raises:
        FormatError: ``pem`` contains no certificate, or something that is not a certificate in PEM.
        BadSignature: no chain may contain one of them (see ``parse``).
    """
    try:
        found = x509.load_pem_x509_certificates(pem)
    except _MALFORMED as error:
        raise FormatError("expected certificates in PEM") from error
    return tuple(parse(certificate.public_bytes(Encoding.DER)) for certificate in found)


@lru_cache(maxsize=64)  # the skills of one publisher share their chain
def parse(der: bytes) -> Certificate:
    """Return the certificate in ``der``.

    Raises:
        BadSignature: ``certificate`` (malformed), or for its flaw ``certificate-algorithm``,
            ``certificate-critical``, ``certificate-key``, ``certificate-subject``.
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

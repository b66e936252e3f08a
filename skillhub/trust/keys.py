"""Keys and identities that sign skills: ECDSA P-256 and P-384, Ed25519, Sigstore identities."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Literal, Self, cast, get_args

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from skillhub.errors import BadSignature, FormatError, UsageError
from skillhub.formats.digest import Digest
from skillhub.formats.json import strict_json
from skillhub.formats.text import clean, quote

# The keys that sign skills: ECDSA on P-256 (the default) and P-384, and Ed25519; no others, and no RSA.
# Signatures are deterministic (RFC 6979, RFC 8032), so that signing the same tree again gives the same bytes.

PAYLOAD_TYPE = "application/vnd.in-toto+json"
KeyKind = Literal["p256", "p384", "ed25519"]
_CURVES: dict[str, ec.EllipticCurve] = {"p256": ec.SECP256R1(), "p384": ec.SECP384R1()}
_HASHES: dict[str, hashes.HashAlgorithm] = {"p256": hashes.SHA256(), "p384": hashes.SHA384()}
_KIND_OF_CURVE: dict[str, KeyKind] = {"secp256r1": "p256", "secp384r1": "p384"}
_Public = ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey
_Private = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey
_HINT = "expected are ECDSA keys on P-256 or P-384, and Ed25519 keys"
# The beginning of a key in DER: of an elliptic one (RFC 5480, 8410), of its older form, or of an encrypted one. No
# other is read: `cryptography` tests whether the numbers of a Diffie-Hellman or RSA key are prime, for minutes.
_SEQUENCE = rb"\x30(?:[\x00-\x7f]|\x81.|\x82..)"
_ELLIPTIC = rb"\x30[\x00-\x7f]\x06(?:\x07\x2a\x86\x48\xce\x3d\x02\x01|\x03\x2b\x65\x70)"
_PUBLIC = re.compile(_SEQUENCE + _ELLIPTIC, re.DOTALL)
_PRIVATE = re.compile(_SEQUENCE + rb"(?:\x02\x01[\x00\x01]" + _ELLIPTIC + rb"|\x02\x01\x01\x04|\x30)", re.DOTALL)
_PEM_PUBLIC_KEY = re.compile(rb"-----BEGIN PUBLIC KEY-----([^-]*)-----END PUBLIC KEY-----")
# A public key of RSA (RFC 8017), whose number is not tested.
_RSA = re.compile(_SEQUENCE + rb"\x30\x0d\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01", re.DOTALL)


def other_kind() -> FormatError:
    """Return the error for a key of a kind that may not sign skills."""
    return FormatError("expected a key that may sign skills, found another kind", hint=_HINT)


def takes_long(pem: bytes) -> bool:
    """Return whether to read a text as a public key may take long: it is PEM, and neither an elliptic key nor RSA."""
    if b"-----BEGIN" not in pem:
        return False
    try:
        der = _der_in(pem) if _PEM_PUBLIC_KEY.fullmatch(pem.strip()) else b""
    except ValueError:
        return True
    return not (_PUBLIC.match(der) or _RSA.match(der))


def _der_in(pem: bytes) -> bytes:
    block = _PEM_PUBLIC_KEY.search(pem)
    return b64decode(b"".join(block[1].split()), validate=True) if block else b""


def pae(payload: bytes) -> bytes:
    """Return the bytes that are signed: DSSE's pre-authentication encoding, which binds the payload type."""
    return b"DSSEv1 %d %s %d %s" % (len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode(), len(payload), payload)


@dataclass(frozen=True)
class PublicKey:
    """A key that verifies signatures; two are equal if their kind and bytes are.

    Attributes:
        der: The SubjectPublicKeyInfo (RFC 5280, 4.1.2.7), encoded anew, so that a key has a single encoding.
    """

    kind: KeyKind
    der: bytes = field(repr=False)
    _key: _Public = field(repr=False, compare=False)

    @classmethod
    @lru_cache(maxsize=64)
    def load(cls, pem: bytes) -> Self:
        """Return the public key in ``pem``; cached, since one signer may have signed a thousand skills.

        Raises:
            FormatError: the text is no public key in PEM, or the key is of a kind that may not sign skills.
        """
        try:
            der = _der_in(pem)
            if der and not _PUBLIC.match(der):
                raise other_kind()
            return cls.of(serialization.load_der_public_key(der))
        except (ValueError, UnsupportedAlgorithm) as error:
            message, hint = "expected a public key in PEM", _HINT
            if has_private_key(pem):
                message += ", found a private key"
                hint = "give its public half: NAME.pub.pem beside it, or from: openssl pkey -in FILE -pubout"
            raise FormatError(message, hint=hint) from error

    @classmethod
    def of(cls, key: object) -> Self:
        """Return the key for an object of ``cryptography``.

        Raises:
            FormatError: the key is of a kind that may not sign skills.
        """
        kind: KeyKind
        if isinstance(key, ed25519.Ed25519PublicKey):
            kind = "ed25519"
        elif isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name in _KIND_OF_CURVE:
            kind = _KIND_OF_CURVE[key.curve.name]
        else:
            raise other_kind()
        spki = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        return cls(kind, spki, key)

    @cached_property
    def pem(self) -> bytes:
        """The SubjectPublicKeyInfo in PEM, as ``openssl`` writes it."""
        return self._key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)

    @cached_property
    def fingerprint(self) -> Digest:
        """SHA-256 of ``der``: the name of this key in locks and questions."""
        return Digest.of(self.der)

    @cached_property
    def hint(self) -> Digest:
        """SHA-256 of ``pem``: the name of this key in a signature."""
        return Digest.of(self.pem)

    def verify(self, signature: bytes, data: bytes) -> None:
        """Raise unless this key signed ``data``; ECDSA uses SHA-256 on P-256, and SHA-384 on P-384.

        Both values ``s`` that satisfy ECDSA are accepted, as in FIPS 186-5: OpenSSL makes either, and the digest of
        the tree pins the bytes of the signature.

        Raises:
            BadSignature: ``wrong-signature``, or ``signature-encoding`` if it is no DER (X.690, 10).
        """
        try:
            if isinstance(self._key, ed25519.Ed25519PublicKey):
                self._key.verify(signature, data)
            else:
                decode_dss_signature(signature)
                self._key.verify(signature, data, ec.ECDSA(_HASHES[self.kind]))
        except InvalidSignature as error:
            raise BadSignature("wrong-signature", f"expected a signature by the key {self.fingerprint}") from error
        except ValueError as error:
            raise BadSignature("signature-encoding", "expected an ECDSA signature in DER") from error


class PrivateKey:
    """A key that signs; its ``repr`` does not show the secret."""

    def __init__(self, key: _Private) -> None:
        self._key = key
        self.public = PublicKey.of(key.public_key())

    @classmethod
    def generate(cls, kind: KeyKind = "p256") -> Self:
        """Return a new random key.

        Raises:
            UsageError: there is no such kind.
        """
        if kind not in get_args(KeyKind):
            raise UsageError(f"expected one of {', '.join(get_args(KeyKind))} as the kind of key")
        if kind == "ed25519":
            return cls(ed25519.Ed25519PrivateKey.generate())
        return cls(ec.generate_private_key(_CURVES[kind]))

    @classmethod
    def from_seed(cls, seed: bytes, kind: KeyKind = "p256") -> Self:
        """Return the key of a public test fixture: the seed is the scalar (big-endian), or Ed25519's secret.

        Raises:
            ValueError: the seed is zero, too large for the curve, or for Ed25519 not 32 bytes.
        """
        if kind == "ed25519":
            return cls(ed25519.Ed25519PrivateKey.from_private_bytes(seed))
        return cls(ec.derive_private_key(int.from_bytes(seed), _CURVES[kind]))

    @classmethod
    def load(cls, pem: bytes, passphrase: bytes | None = None) -> Self:
        """Return the private key in ``pem`` (PKCS #8, or the older forms that OpenSSL writes).

        Raises:
            UsageError: the key is encrypted and there is no passphrase, or the other way round.
            FormatError: the text is no private key in PEM, the key may not sign skills, or has another passphrase.
        """
        try:
            key = serialization.load_pem_private_key(pem, passphrase)
        except TypeError as error:
            actual = "none for an encrypted key" if passphrase is None else "one for an unencrypted key"
            raise UsageError(f"expected a passphrase for an encrypted key alone, found {actual}") from error
        except (ValueError, UnsupportedAlgorithm) as error:
            if passphrase is not None:
                hint = "type it again, or set SKILLHUB_PASSPHRASE to it"
                raise FormatError("the passphrase is wrong, or the file of the key is damaged", hint=hint) from error
            raise FormatError("expected a private key in PEM", hint=_HINT) from error
        return cls(cast("_Private", key))  # the constructor refuses every other kind

    def pem(self, passphrase: bytes | None = None) -> bytes:
        """Return the key as PKCS #8 in PEM, encrypted if there is a passphrase."""
        encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if passphrase:
            encryption = serialization.BestAvailableEncryption(passphrase)
        return self._key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)

    def sign(self, data: bytes) -> bytes:
        """Return the signature of ``data``, the same each time: DER for ECDSA, 64 bytes for Ed25519."""
        if isinstance(self._key, ed25519.Ed25519PrivateKey):
            return self._key.sign(data)
        return self._key.sign(data, ec.ECDSA(_HASHES[self.public.kind], deterministic_signing=True))


# Private keys left in a file that is to be published.

_PEM_KEY = re.compile(rb"-----BEGIN (?:EC |ENCRYPTED )?PRIVATE KEY-----(\s*Proc-Type: 4,ENCRYPTED)?([^-]{1,16384})")
_NOT_BASE64 = re.compile(rb"\\[rnt]|[^A-Za-z0-9+/=]")


def has_private_key(data: bytes) -> bool:
    """Return whether a file holds, in PEM, a private key that could sign skills, or an encrypted one of any kind.

    The key may be quoted, indented, in a comment, on one line or in UTF-16; an example without a real key is ignored.
    """
    for block in _PEM_KEY.finditer(data.replace(b"\0", b"")):
        if block[1]:
            return True
        try:
            der = b64decode(_NOT_BASE64.sub(b"", block[2]))
            key = serialization.load_der_private_key(der, None) if _PRIVATE.match(der) else None
        except TypeError:  # it has a passphrase
            return True
        except (ValueError, UnsupportedAlgorithm):
            continue
        if isinstance(key, _Private):
            return True
    return False


# Signers with an account instead of a key: a name that an OpenID provider vouches for, through Sigstore.

_CAP = 1 << 16
_LONGEST = 512
_ROOT_TYPE = "application/vnd.dev.sigstore.trustedroot"


@dataclass(frozen=True, slots=True)
class Identity:
    """A name, the provider that vouches for it, and the Sigstore that certifies it; only all three identify a signer.

    Attributes:
        name: The mail address or URI in the certificate's subject alternative name.
        issuer: The URL of the OpenID provider.
        root: The text of the ``trusted_root.json`` that the user pinned, such as that of a company's Sigstore; None
            for the public one, whose root is in the package ``sigstore``.
    """

    name: str
    issuer: str
    root: str | None = None

    def __post_init__(self) -> None:
        """Raise for an identity that a person could not tell from another.

        Raises:
            FormatError: the name or issuer is empty, too long or contains invisible characters; the issuer is no
                URL; the root is no trusted root, or too large.
        """
        for label, text in (("identity", self.name), ("issuer", self.issuer)):
            if not 1 <= len(text) <= _LONGEST or clean(text) != text or " " in text:
                expected = f"expected as {label} 1 to {_LONGEST} visible characters without a blank"
                raise FormatError(f"{expected}, found {quote(text)}")
        if not self.issuer.startswith(("https://", "http://")):
            raise FormatError(f"expected the URL of an OpenID provider as issuer, found {quote(self.issuer)}")
        if self.root is not None:
            _check_root(self.root)
        if len(self.dump()) > _CAP:
            raise FormatError(f"expected a trusted root of some kilobytes, found {len(self.root or '')}")

    @property
    def fingerprint(self) -> Digest:
        """SHA-256 of ``dump``, which is all that the user pins.

        The root of the certificate does not identify a signer: all users of the public Sigstore share it.
        """
        return Digest.of(self.dump().encode())

    def dump(self) -> str:
        """Return the canonical JSON of the identity: ASCII, sorted keys, no spaces."""
        fields = {"identity": self.name, "issuer": self.issuer, "root": self.root}
        return json.dumps(fields, sort_keys=True, separators=(",", ":"))

    @classmethod
    def parse(cls, text: str) -> Identity:
        """Return the identity in the output of ``dump``.

        Raises:
            FormatError: the text does not have this form.
        """
        match strict_json(text.encode("utf-8", "replace"), "identity", _CAP):
            case {"identity": str(name), "issuer": str(issuer), "root": str() | None as root}:
                return cls(name, issuer, root)
        raise FormatError(f"expected an identity, its issuer and its root, found {quote(text)}")

    def __str__(self) -> str:
        return f"{self.name} ({self.issuer})"


def _check_root(text: str) -> None:
    match strict_json(text.encode("utf-8", "replace"), "the trusted root", _CAP):
        case {"mediaType": str(kind)} if kind.startswith(_ROOT_TYPE):
            return
    raise FormatError("expected the trusted_root.json of a Sigstore, found another document")

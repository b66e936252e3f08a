"""The outer two layers of a skill's signature: a Sigstore bundle v0.3, and in it a DSSE envelope.

Read strictly: what the reference verifier of OpenSSF Model Signing would not write is refused, but for the
variants that its specification (v1.0, 11.1) obliges a verifier to take.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from skillhub.errors import BadSignature, FormatError
from skillhub.model.digest import Digest, is_hex
from skillhub.model.syntax.json import strict_json
from skillhub.model.text import quote
from skillhub.model.tree import SIGNATURE
from skillhub.trust import x509
from skillhub.trust.x509 import Certificate

MEDIA_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
_CAP = 4 * 1024 * 1024
_KINDS = ("publicKey", "x509CertificateChain", "certificate")
_LOGS = ("tlogEntries", "timestampVerificationData")


@dataclass(frozen=True, slots=True)
class Bundle:
    """A signature and what it is on, nothing of it verified.

    Attributes:
        hint: Which key is said to have signed; ``None`` where a certificate did, or nothing is said.
        chain: The certificates, the leaf first; empty where a bare key signed.
        sigstore: The bytes of the whole, where a Sigstore identity signed; certificate and log entries are
            read by nobody yet.
    """

    payload: bytes
    signature: bytes
    hint: Digest | None = None
    chain: tuple[Certificate, ...] = ()
    sigstore: bytes | None = None

    @classmethod
    def parse(cls, data: bytes) -> Bundle:
        """Return the bundle that ``data`` spells.

        Raises:
            BadSignature: by its flaw ``too-large``, ``json``, ``field-type``, ``field-missing``,
                ``field-unknown``, ``media-type``, ``payload-type``, ``base64``, ``signature-count``,
                ``sigstore``, ``material``, ``hint``, ``chain-length``, or a reason of ``x509.parse``.
        """
        if len(data) > _CAP:
            raise BadSignature(
                "too-large", f"expected at most {_CAP} bytes, found {len(data)}", where=SIGNATURE
            )
        bundle = fields(
            document(data), "bundle", required=("mediaType", "verificationMaterial", "dsseEnvelope")
        )
        expect("media-type", "mediaType", bundle["mediaType"], MEDIA_TYPE)
        payload, signature = _envelope(bundle["dsseEnvelope"])
        material = fields(
            bundle["verificationMaterial"], "verificationMaterial", required=(), optional=(*_KINDS, *_LOGS)
        )
        if _is_sigstore(material):
            return cls(payload, signature, sigstore=data)
        hint, chain = _material(material)
        return cls(payload, signature, hint, chain)

    def dump(self) -> bytes:
        """Return the JSON of the bundle, as the reference writes it."""
        material: dict[str, object] = {"tlogEntries": []}
        if self.chain:
            certificates = [{"rawBytes": _encode(certificate.der)} for certificate in self.chain]
            material["x509CertificateChain"] = {"certificates": certificates}
        else:
            material["publicKey"] = {"hint": self.hint.hex} if self.hint else {}
        envelope = {
            "payload": _encode(self.payload),
            "payloadType": PAYLOAD_TYPE,
            "signatures": [{"sig": _encode(self.signature), "keyid": ""}],
        }
        bundle = {"mediaType": MEDIA_TYPE, "verificationMaterial": material, "dsseEnvelope": envelope}
        return json.dumps(bundle, separators=(",", ":")).encode() + b"\n"


def pae(payload: bytes) -> bytes:
    """Return the bytes that are signed: DSSE's pre-authentication encoding, which binds the payload type."""
    return b"DSSEv1 %d %s %d %s" % (len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode(), len(payload), payload)


def document(data: bytes) -> object:
    """Return the value of a JSON document inside a signature.

    Raises:
        BadSignature: ``json``.
    """
    try:
        return strict_json(data, SIGNATURE, _CAP)
    except FormatError as error:
        raise BadSignature("json", error.message, where=error.where) from error


def fields(
    value: object, where: str, required: tuple[str, ...], optional: tuple[str, ...] = ()
) -> Mapping[str, object]:
    """Return the object ``value``, which has all ``required`` keys and none besides these and ``optional``.

    Raises:
        BadSignature: ``field-type``, ``field-missing`` or ``field-unknown``.
    """
    if not isinstance(value, dict):
        raise BadSignature(
            "field-type", f"expected an object as {where}, found {shown(value)}", where=SIGNATURE
        )
    for key in required:
        if key not in value:
            raise BadSignature("field-missing", f"expected {key} in {where}, found none", where=SIGNATURE)
    for key in value:
        if key not in required and key not in optional:
            message = f"expected only known fields in {where}, found {quote(key)}"
            raise BadSignature("field-unknown", message, where=SIGNATURE)
    return value


def items(value: object, where: str) -> list[object]:
    """Return the array ``value``.

    Raises:
        BadSignature: ``field-type``.
    """
    if not isinstance(value, list):
        raise BadSignature(
            "field-type", f"expected an array as {where}, found {shown(value)}", where=SIGNATURE
        )
    return cast("list[object]", value)


def expect(reason: str, key: str, found: object, expected: str) -> None:
    """Return if ``found``, the value of ``key``, is ``expected``.

    Raises:
        BadSignature: with that ``reason``.
    """
    if found != expected:
        message = f"expected {quote(expected)} as {key}, found {shown(found)}"
        raise BadSignature(reason, message, where=SIGNATURE)


def shown(value: object) -> str:
    """Return a JSON value for an error message; arrays and objects, however deep, by their type alone."""
    if isinstance(value, list | dict):
        return "an array" if isinstance(value, list) else "an object"
    return quote(value)


def _envelope(value: object) -> tuple[bytes, bytes]:
    envelope = fields(value, "dsseEnvelope", required=("payload", "payloadType", "signatures"))
    expect("payload-type", "payloadType", envelope["payloadType"], PAYLOAD_TYPE)
    signatures = items(envelope["signatures"], "signatures")
    if len(signatures) != 1:
        # Of several the reference looks at the first alone; then the others would vouch for nothing.
        message = f"expected exactly one signature, found {len(signatures)}"
        raise BadSignature("signature-count", message, where=SIGNATURE)
    signature = fields(signatures[0], "signatures[0]", required=("sig",), optional=("keyid",))
    return _decode(envelope["payload"], "payload"), _decode(signature["sig"], "sig")


def _is_sigstore(material: Mapping[str, object]) -> bool:
    """Say whether a certificate with log entries signed; either without the other is refused."""
    found = [kind for kind in _KINDS if kind in material]
    if found == ["certificate"] and material.get("tlogEntries"):
        return True
    if "certificate" in found or any(material.get(log) for log in _LOGS):
        message = "expected a certificate with log entries, or a key or chain with none"
        raise BadSignature("sigstore", message, where=SIGNATURE)
    return False


def _material(material: Mapping[str, object]) -> tuple[Digest | None, tuple[Certificate, ...]]:
    if len([kind for kind in _KINDS if kind in material]) != 1:
        message = "expected either publicKey or x509CertificateChain in verificationMaterial"
        raise BadSignature("material", message, where=SIGNATURE)
    if "publicKey" in material:
        return _hint(material["publicKey"]), ()
    chain = fields(material["x509CertificateChain"], "x509CertificateChain", required=("certificates",))
    certificates = items(chain["certificates"], "certificates")
    if not 1 <= len(certificates) <= x509.LONGEST:
        message = f"expected 1 to {x509.LONGEST} certificates, found {len(certificates)}"
        raise BadSignature("chain-length", message, where=SIGNATURE)
    return None, tuple(_certificate(certificate) for certificate in certificates)


def _hint(value: object) -> Digest | None:
    # Older signers put the key itself in `rawBytes`; a key that comes with the signature proves nothing.
    key = fields(value, "publicKey", required=(), optional=("hint", "rawBytes", "keyDetails"))
    hint = key.get("hint")
    if hint in (None, ""):
        return None
    if not isinstance(hint, str) or not is_hex(hint):
        message = f"expected the SHA-256 of the public key in hex, found {shown(hint)}"
        raise BadSignature("hint", message, where=SIGNATURE)
    return Digest("sha256:" + hint)


def _certificate(value: object) -> Certificate:
    return x509.parse(_decode(fields(value, "certificates", required=("rawBytes",))["rawBytes"], "rawBytes"))


def _encode(data: bytes) -> str:
    return b64encode(data).decode("ascii")


def _decode(text: object, where: str) -> bytes:
    """Return what ``text`` encodes (RFC 4648, 4): padded, canonical, no other alphabet, no white space."""
    try:
        data = b64decode(text, validate=True) if isinstance(text, str) else b""
    except ValueError as error:
        raise BadSignature("base64", f"expected base64 as {where}", where=SIGNATURE) from error
    if not data or _encode(data) != text:
        raise BadSignature("base64", f"expected canonical base64 as {where}", where=SIGNATURE)
    return data

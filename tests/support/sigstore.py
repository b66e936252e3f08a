"""A Sigstore of one's own, in memory: certificate authority, certificate log and transparency log.

It stands on ``cryptography`` and the standards alone (RFC 5280, 6962, 8785; the formats of Rekor v1), so that
it is no copy of what it tests. Each piece can be made wrong: see ``Sigstore.sign``.
"""

from __future__ import annotations

import json
import struct
from base64 import b64encode
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
NAME = "https://github.com/acme/skills/.github/workflows/release.yml@refs/heads/main"
ISSUER = "https://token.actions.githubusercontent.com"
_ISSUER_RAW = x509.ObjectIdentifier("1.3.6.1.4.1.57264.1.1")
_ISSUER_V2 = x509.ObjectIdentifier("1.3.6.1.4.1.57264.1.8")
_SCTS = x509.ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2")
_IN_TOTO = "application/vnd.in-toto+json"


def key_of(seed):
    number = int.from_bytes(sha256(b"public test key: " + seed.encode()).digest())
    return ec.derive_private_key(number, ec.SECP256R1())


def spki(key):
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def encode(data):
    return b64encode(data).decode()


def sign(key, data):
    return key.sign(data, ec.ECDSA(hashes.SHA256()))


@dataclass(frozen=True)
class Account:
    """Content of a certificate of ten minutes; the defaults are valid."""

    names: tuple[x509.GeneralName, ...] = (x509.UniformResourceIdentifier(NAME),)
    issuer: str | None = ISSUER
    old_issuer: str | None = ISSUER
    start: datetime = AT - timedelta(minutes=1)
    purposes: tuple[x509.ObjectIdentifier, ...] = (ExtendedKeyUsageOID.CODE_SIGNING,)
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: key_of("account"))


SOUND = Account()


class Sigstore:
    """One authority and its two logs, with keys derived from seeds."""

    def __init__(self, seed: str = "own") -> None:
        self.authority, self.witness, self.log = (key_of(f"{seed} {part}") for part in ("ca", "ct", "rekor"))
        self.root = self._root()

    def trusted_root(self) -> str:
        """Return ``trusted_root.json``."""
        return json.dumps(self._trusted())

    def trust_config(self) -> str:
        """Return the configuration that the reference verifier asks for."""
        kind = "application/vnd.dev.sigstore.signingconfig.v0.2+json"
        valid = {"start": "2026-01-01T00:00:00Z"}
        service = {"url": "https://own.example", "majorApiVersion": 1, "validFor": valid, "operator": "own"}
        services = {name: [service] for name in ("caUrls", "oidcUrls", "rekorTlogUrls")}
        signing = {"mediaType": kind, **services, "rekorTlogConfig": {"selector": "ANY"}}
        kind = "application/vnd.dev.sigstore.clienttrustconfig.v0.1+json"
        return json.dumps({"mediaType": kind, "trustedRoot": self._trusted(), "signingConfig": signing})

    def sign(self, payload: bytes, account: Account = SOUND, at: datetime = AT, **parts) -> dict:
        """Return a bundle on a statement.

        Args:
            payload: The statement.
            account: Who signs.
            at: When the log takes it in.
            parts: Keys that stand in for the true ones (``authority``, ``witness``, ``log``, ``promise``,
                ``checkpoint``, ``signer``), ``logged`` for the payload in the log, ``scts`` for
                how many timestamps the certificate bears.
        """
        certificate = self._certificate(account, parts)
        pae = b"DSSEv1 %d %s %d %s" % (len(_IN_TOTO), _IN_TOTO.encode(), len(payload), payload)
        signature = sign(parts.get("signer", account.key), pae)
        entry = self._entry(parts.get("logged", payload), signature, certificate, at, parts)
        return {
            "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
            "verificationMaterial": {
                "certificate": {"rawBytes": encode(certificate.public_bytes(Encoding.DER))},
                "tlogEntries": [entry],
            },
            "dsseEnvelope": {
                "payload": encode(payload),
                "payloadType": _IN_TOTO,
                "signatures": [{"sig": encode(signature), "keyid": ""}],
            },
        }

    def _trusted(self) -> dict:
        valid = {"start": "2026-01-01T00:00:00Z"}
        authority = {
            "subject": {"organization": "own", "commonName": "own"},
            "uri": "https://own.example",
            "certChain": {"certificates": [{"rawBytes": encode(self.root.public_bytes(Encoding.DER))}]},
            "validFor": valid,
        }
        logs = [
            {
                "baseUrl": "https://own.example",
                "hashAlgorithm": "SHA2_256",
                "publicKey": {
                    "rawBytes": encode(spki(key)),
                    "keyDetails": "PKIX_ECDSA_P256_SHA_256",
                    "validFor": valid,
                },
                "logId": {"keyId": encode(sha256(spki(key)).digest())},
            }
            for key in (self.log, self.witness)
        ]
        return {
            "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
            "tlogs": logs[:1],
            "certificateAuthorities": [authority],
            "ctlogs": logs[1:],
            "timestampAuthorities": [],
        }

    def _root(self) -> x509.Certificate:
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "own")])
        public = self.authority.public_key()
        made = x509.CertificateBuilder(
            name, name, public, 1, datetime(2026, 1, 1, tzinfo=UTC), datetime(2036, 1, 1, tzinfo=UTC)
        )
        made = made.add_extension(x509.BasicConstraints(True, 0), critical=True)
        made = made.add_extension(_usage(certify=True), critical=True)
        made = made.add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        return made.sign(self.authority, hashes.SHA256())

    def _certificate(self, account: Account, parts: dict) -> x509.Certificate:
        end = account.start + timedelta(minutes=10)
        made = x509.CertificateBuilder(
            self.root.subject, x509.Name([]), account.key.public_key(), 2, account.start, end
        )
        made = made.add_extension(_usage(certify=False), critical=True)
        made = made.add_extension(x509.ExtendedKeyUsage(account.purposes), critical=False)
        public = self.authority.public_key()
        made = made.add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(public), critical=False)
        made = made.add_extension(x509.SubjectAlternativeName(account.names), critical=True)
        if account.old_issuer is not None:
            made = _add(made, _ISSUER_RAW, account.old_issuer.encode())
        if account.issuer is not None:
            text = account.issuer.encode()
            made = _add(made, _ISSUER_V2, b"\x0c" + bytes([len(text)]) + text)
        authority = parts.get("authority", self.authority)
        tbs = made.sign(authority, hashes.SHA256()).tbs_certificate_bytes
        stamps = [self._stamp(tbs, parts.get("witness", self.witness))] * parts.get("scts", 1)
        if stamps:
            made = _add(made, _SCTS, _octets(_sized(b"".join(map(_sized, stamps)))))
        return made.sign(authority, hashes.SHA256())

    def _stamp(self, tbs: bytes, witness: ec.EllipticCurvePrivateKey) -> bytes:
        """Return a signed certificate timestamp (RFC 6962, 3.2)."""
        when = struct.pack("!Q", int(AT.timestamp() * 1000))
        issuer = sha256(spki(self.authority)).digest()
        signed = b"\0\0" + when + b"\0\1" + issuer + len(tbs).to_bytes(3) + tbs + b"\0\0"
        log = sha256(spki(self.witness)).digest()
        return b"\0" + log + when + b"\0\0" + b"\4\3" + _sized(sign(witness, signed))

    def _entry(
        self, payload: bytes, signature: bytes, certificate: x509.Certificate, at: datetime, parts: dict
    ) -> dict:
        pem = certificate.public_bytes(Encoding.PEM)
        spec = {
            "envelopeHash": {"algorithm": "sha256", "value": sha256(b"an envelope").hexdigest()},
            "payloadHash": {"algorithm": "sha256", "value": sha256(payload).hexdigest()},
            "signatures": [{"signature": encode(signature), "verifier": encode(pem)}],
        }
        body = _canonical({"apiVersion": "0.0.1", "kind": "dsse", "spec": spec})
        # The log has three entries, and this is its second.
        first, third = (sha256(b"\0" + each).digest() for each in (b"first", b"third"))
        below = sha256(b"\1" + first + sha256(b"\0" + body).digest()).digest()
        top = sha256(b"\1" + below + third).digest()
        log = sha256(spki(self.log)).digest()
        note = f"own.example - 1\n3\n{encode(top)}\n"
        seal = encode(log[:4] + sign(parts.get("checkpoint", parts.get("log", self.log)), note.encode()))
        promised = {"body": encode(body), "integratedTime": int(at.timestamp()), "logID": log.hex(), "logIndex": 1}
        promise = sign(parts.get("promise", parts.get("log", self.log)), _canonical(promised))
        return {
            "logIndex": "1",
            "logId": {"keyId": encode(log)},
            "kindVersion": {"kind": "dsse", "version": "0.0.1"},
            "integratedTime": str(int(at.timestamp())),
            "inclusionPromise": {"signedEntryTimestamp": encode(promise)},
            "inclusionProof": {
                "logIndex": "1",
                "rootHash": encode(top),
                "treeSize": "3",
                "hashes": [encode(first), encode(third)],
                "checkpoint": {"envelope": f"{note}\n\u2014 own.example {seal}\n"},
            },
            "canonicalizedBody": encode(body),
        }


def _usage(*, certify: bool) -> x509.KeyUsage:
    rest = dict.fromkeys(
        (
            "content_commitment",
            "key_encipherment",
            "data_encipherment",
            "key_agreement",
            "crl_sign",
            "encipher_only",
            "decipher_only",
        ),
        False,
    )
    return x509.KeyUsage(digital_signature=not certify, key_cert_sign=certify, **rest)


def _add(made, oid, data):
    return made.add_extension(x509.UnrecognizedExtension(oid, data), critical=False)


def _sized(data: bytes) -> bytes:
    return len(data).to_bytes(2) + data


def _octets(data: bytes) -> bytes:
    """Return DER of an OCTET STRING."""
    size = len(data).to_bytes((len(data).bit_length() + 7) // 8)
    return b"\x04" + (size if len(data) < 128 else bytes([128 + len(size)]) + size) + data


def _canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()

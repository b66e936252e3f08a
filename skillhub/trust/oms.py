"""``skill.oms.sig``: Sigstore bundle, DSSE envelope and in-toto statement (OpenSSF Model Signing v1.0)."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, cast

from skillhub.errors import BadSignature, FormatError, UsageError, hinting
from skillhub.formats.digest import Digest, is_hex
from skillhub.formats.json import strict_json
from skillhub.formats.text import is_inner_path, is_path, quote
from skillhub.model.tree import SIGNATURE, SKILL_MD, Tree
from skillhub.trust.keys import PAYLOAD_TYPE, PrivateKey, PublicKey, pae

if TYPE_CHECKING:
    from skillhub.trust.x509 import Certificate, Certificates

# The outer two layers of a skill's signature: a Sigstore bundle v0.3, and in it a DSSE envelope.
# Parsing is strict: a form that the reference implementation of OpenSSF Model Signing does not write is refused,
# except for the variants that a verifier has to accept (specification v1.0, 11.1).

MEDIA_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"
_CAP = 4 * 1024 * 1024
_KINDS = ("publicKey", "x509CertificateChain", "certificate")
_LOGS = ("tlogEntries", "timestampVerificationData")


@dataclass(frozen=True, slots=True)
class Bundle:
    """A signature and its payload, both unverified.

    Attributes:
        hint: The claimed key; ``None`` for a signature with a certificate, or without a claim.
        chain: The certificates, the leaf first; empty for a signature with a bare key.
        sigstore: The bytes of the whole bundle, for a signature with a Sigstore identity; its certificate and log
            entries are not parsed yet.
    """

    payload: bytes
    signature: bytes
    hint: Digest | None = None
    chain: Certificates = ()
    sigstore: bytes | None = None

    @classmethod
    def parse(cls, data: bytes) -> Bundle:
        """Return the bundle in ``data``.

        Raises:
            BadSignature: by its flaw ``too-large``, ``json``, ``field-type``, ``field-missing``,
                ``field-unknown``, ``media-type``, ``payload-type``, ``base64``, ``signature-count``,
                ``sigstore``, ``material``, ``hint``, ``chain-length``, or a reason of ``x509.parse``.
        """
        if len(data) > _CAP:
            raise BadSignature("too-large", f"expected at most {_CAP} bytes, found {len(data)}")
        bundle = fields(document(data), "bundle", required=("mediaType", "verificationMaterial", "dsseEnvelope"))
        expect("media-type", "mediaType", bundle["mediaType"], MEDIA_TYPE)
        payload, signature = _envelope(bundle["dsseEnvelope"])
        stated, optional = bundle["verificationMaterial"], (*_KINDS, *_LOGS)
        material = fields(stated, "verificationMaterial", required=(), optional=optional)
        if _is_sigstore(material):
            return cls(payload, signature, sigstore=data)
        hint, chain = _material(material)
        return cls(payload, signature, hint, chain)

    def dump(self) -> bytes:
        """Return the JSON of the bundle, as the reference implementation writes it."""
        material: dict[str, object] = {"tlogEntries": []}
        if self.chain:
            certificates = [{"rawBytes": _encode(certificate.der)} for certificate in self.chain]
            material["x509CertificateChain"] = {"certificates": certificates}
        else:
            material["publicKey"] = {"hint": self.hint.hex} if self.hint else {}
        signatures = [{"sig": _encode(self.signature), "keyid": ""}]
        envelope = {"payload": _encode(self.payload), "payloadType": PAYLOAD_TYPE, "signatures": signatures}
        bundle = {"mediaType": MEDIA_TYPE, "verificationMaterial": material, "dsseEnvelope": envelope}
        return json.dumps(bundle, separators=(",", ":")).encode() + b"\n"


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
    """Return the object ``value``, which has all ``required`` keys and no others except ``optional`` ones.

    Raises:
        BadSignature: ``field-type``, ``field-missing`` or ``field-unknown``.
    """
    if not isinstance(value, dict):
        raise BadSignature("field-type", f"expected an object as {where}, found {shown(value)}")
    for key in required:
        if key not in value:
            raise BadSignature("field-missing", f"expected {key} in {where}, found none")
    for key in value:
        if key not in required and key not in optional:
            raise BadSignature("field-unknown", f"expected only known fields in {where}, found {quote(key)}")
    return value


def items(value: object, where: str) -> list[object]:
    """Return the array ``value``.

    Raises:
        BadSignature: ``field-type``.
    """
    if not isinstance(value, list):
        raise BadSignature("field-type", f"expected an array as {where}, found {shown(value)}")
    return cast("list[object]", value)


def expect(reason: str, key: str, actual: object, expected: str) -> None:
    """Raise unless ``actual``, the value of ``key``, is ``expected``.

    Raises:
        BadSignature: with this ``reason``.
    """
    if actual != expected:
        raise BadSignature(reason, f"expected {quote(expected)} as {key}, found {shown(actual)}")


def shown(value: object) -> str:
    """Return a JSON value for an error message; an array or object, at any depth, by its type alone."""
    if isinstance(value, list | dict):
        return "an array" if isinstance(value, list) else "an object"
    return quote(value)


def _envelope(value: object) -> tuple[bytes, bytes]:
    envelope = fields(value, "dsseEnvelope", required=("payload", "payloadType", "signatures"))
    expect("payload-type", "payloadType", envelope["payloadType"], PAYLOAD_TYPE)
    signatures = items(envelope["signatures"], "signatures")
    if len(signatures) != 1:
        # The reference implementation verifies only the first of several, so that the others would prove nothing.
        raise BadSignature("signature-count", f"expected exactly one signature, found {len(signatures)}")
    signature = fields(signatures[0], "signatures[0]", required=("sig",), optional=("keyid",))
    return _decode(envelope["payload"], "payload"), _decode(signature["sig"], "sig")


def _is_sigstore(material: Mapping[str, object]) -> bool:
    """Return whether the material is a certificate with log entries; either without the other is refused."""
    kinds = [kind for kind in _KINDS if kind in material]
    if kinds == ["certificate"] and material.get("tlogEntries"):
        return True
    if "certificate" in kinds or any(material.get(log) for log in _LOGS):
        raise BadSignature("sigstore", "expected a certificate with log entries, or a key or chain with none")
    return False


def _material(material: Mapping[str, object]) -> tuple[Digest | None, tuple[Certificate, ...]]:
    if len([kind for kind in _KINDS if kind in material]) != 1:
        raise BadSignature("material", "expected either publicKey or x509CertificateChain in verificationMaterial")
    if "publicKey" in material:
        return _hint(material["publicKey"]), ()
    from skillhub.trust import x509  # noqa: PLC0415 - few signatures have certificates

    chain = fields(material["x509CertificateChain"], "x509CertificateChain", required=("certificates",))
    certificates = items(chain["certificates"], "certificates")
    if not 1 <= len(certificates) <= x509.LONGEST:
        raise BadSignature("chain-length", f"expected 1 to {x509.LONGEST} certificates, found {len(certificates)}")
    texts = (fields(each, "certificates", required=("rawBytes",))["rawBytes"] for each in certificates)
    return None, tuple(x509.parse(_decode(text, "rawBytes")) for text in texts)


def _hint(value: object) -> Digest | None:
    # Older signers put the key itself in `rawBytes`. It is ignored: a key next to the signature proves nothing.
    key = fields(value, "publicKey", required=(), optional=("hint", "rawBytes", "keyDetails"))
    hint = key.get("hint")
    if hint in (None, ""):
        return None
    if not isinstance(hint, str) or not is_hex(hint):
        raise BadSignature("hint", f"expected the SHA-256 of the public key in hex, found {shown(hint)}")
    return Digest("sha256:" + hint)


def _encode(data: bytes) -> str:
    return b64encode(data).decode("ascii")


def _decode(text: object, where: str) -> bytes:
    """Return the bytes of base64 (RFC 4648, 4): padded, canonical, no other alphabet, no white space."""
    try:
        data = b64decode(text, validate=True) if isinstance(text, str) else b""
    except ValueError as error:
        raise BadSignature("base64", f"expected base64 as {where}") from error
    if not data or _encode(data) != text:
        raise BadSignature("base64", f"expected canonical base64 as {where}")
    return data


# The inner layer of a skill's signature: an in-toto Statement v1 with OpenSSF Model Signing's predicate.
# It lists files and their SHA-256; the digest of its one subject binds the list.

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://model_signing/signature/v1.0"
_SITE_HINT = "this is a folder of a registry's site; to add the registry by its URL: skillhub source add NAME URL"
# Files that no signature may cover (specification, 6.2); the reference implementation refuses one that does.
IGNORED = (".git", ".gitattributes", ".github", ".gitignore")


@dataclass(frozen=True, slots=True)
class Statement:
    """The statement of a signature about a folder.

    Attributes:
        files: SHA-256 in hex by path, in the order of the statement.
        ignored: Paths of files and folders that the signature does not cover.
    """

    files: dict[str, str]
    ignored: tuple[str, ...] = ()

    @classmethod
    def of(cls, tree: Tree) -> Statement:
        """Return the statement about every file of ``tree`` that a signature can cover, sorted by path."""
        return cls({path: sha for path, sha in _covered(tree).items() if not _under(path, {*IGNORED})}, IGNORED)

    @classmethod
    def parse(cls, payload: bytes) -> Statement:
        """Return the statement in ``payload``.

        Raises:
            BadSignature: ``json``, ``field-type``, ``field-missing``, ``field-unknown``, ``statement-type``,
                ``predicate-type``, ``subject-count``, ``subject-digest``, ``serialization-method``,
                ``hash-type``, ``ignore-path``, ``ignores-skill-md``, ``resource-algorithm``,
                ``resource-path``, ``resource-digest``, ``resource-twice``, ``covers-itself``,
                ``covers-ignored``.
        """
        statement = fields(document(payload), "statement", ("_type", "subject", "predicateType", "predicate"))
        expect("statement-type", "_type", statement["_type"], STATEMENT_TYPE)
        expect("predicate-type", "predicateType", statement["predicateType"], PREDICATE_TYPE)
        predicate = fields(statement["predicate"], "predicate", ("resources", "serialization"))
        ignored = _serialization(predicate["serialization"])
        files = _resources(predicate["resources"])
        uncovered = {*IGNORED, *ignored}
        for path in files:
            if _under(path, uncovered):
                raise BadSignature("covers-ignored", "a file that is both covered and ignored", where=quote(path))
        result = Statement(files, ignored)
        _check_subject(statement["subject"], result.root_digest)
        return result

    @property
    def root_digest(self) -> str:
        """SHA-256 in hex over the digests of the files, raw and in their order (specification, 6.5.1)."""
        return sha256(bytes.fromhex("".join(self.files.values()))).hexdigest()

    def dump(self, name: str) -> bytes:
        """Return the JSON of the statement about the folder ``name``."""
        resources = [{"name": path, "algorithm": "sha256", "digest": digest} for path, digest in self.files.items()]
        options = {"method": "files", "hash_type": "sha256", "allow_symlinks": False, "ignore_paths": self.ignored}
        statement = {
            "_type": STATEMENT_TYPE,
            "subject": [{"name": name, "digest": {"sha256": self.root_digest}}],
            "predicateType": PREDICATE_TYPE,
            "predicate": {"serialization": options, "resources": resources},
        }
        return json.dumps(statement, ensure_ascii=False, separators=(",", ":")).encode()

    def match(self, tree: Tree) -> Tree:
        """Return ``tree`` without the ignored files, after the check that all others are as the statement says.

        Raises:
            BadSignature: ``missing-file``, ``extra-file`` or ``changed-file``.
        """
        covered = _covered(tree)
        if covered == self.files:
            return tree
        ignored = {*self.ignored}
        dropped = [path for path in covered if _under(path, ignored)]
        for path in dropped:
            del covered[path]
        if covered == self.files:
            return tree.without(dropped)
        for path, digest in self.files.items():
            if path not in covered:
                raise BadSignature("missing-file", "expected a file that is signed, found none", where=quote(path))
            if covered[path] != digest:
                message = f"changed since it was signed: expected SHA-256 {digest}, found {covered[path]}"
                raise BadSignature("changed-file", message, where=quote(path))
        extra = next(path for path in covered if path not in self.files)
        # A registry's site has a folder for each skill, with this list for other clients.
        hint = _SITE_HINT if extra == ".well-known/agent-skills/index.json" else None
        raise BadSignature("extra-file", "a file that the signature does not cover", where=quote(extra), hint=hint)


def _serialization(value: object) -> tuple[str, ...]:
    required = ("method", "hash_type", "allow_symlinks")
    options = fields(value, "serialization", required, optional=("ignore_paths", "shard_size"))
    expect("serialization-method", "method", options["method"], "files")
    expect("hash-type", "hash_type", options["hash_type"], "sha256")
    if not isinstance(options["allow_symlinks"], bool):
        found = shown(options["allow_symlinks"])
        raise BadSignature("field-type", f"expected true or false as allow_symlinks, found {found}")
    ignored = tuple(_path(item, "ignore-path") for item in items(options.get("ignore_paths", []), "ignore_paths"))
    if SKILL_MD in ignored:
        raise BadSignature("ignores-skill-md", f"expected {SKILL_MD} to be covered, found it ignored")
    return ignored


def _resources(value: object) -> dict[str, str]:
    files: dict[str, str] = {}
    for item in items(value, "resources"):
        # Resource descriptors may have additional fields (specification, 5.2.1).
        if not isinstance(item, dict):
            raise BadSignature("field-type", f"expected an object as resource, found {shown(item)}")
        path, digest = _path(item.get("name"), "resource-path"), item.get("digest")
        expect("resource-algorithm", "algorithm", item.get("algorithm"), "sha256")
        if not isinstance(digest, str) or not is_hex(digest):
            raise BadSignature("resource-digest", f"expected a SHA-256, found {shown(digest)}", where=quote(path))
        if path in files:
            raise BadSignature("resource-twice", "a file that the signature lists twice", where=quote(path))
        files[path] = digest
    if SIGNATURE in files:
        raise BadSignature("covers-itself", "a signature that covers itself")
    return files


def _check_subject(value: object, expected: str) -> None:
    subjects = items(value, "subject")
    if len(subjects) != 1:
        raise BadSignature("subject-count", f"expected one subject, found {len(subjects)}")
    subject = subjects[0]
    if not isinstance(subject, dict) or not isinstance(subject.get("name"), str) or not subject["name"]:
        raise BadSignature("field-missing", "expected a name in the subject, found none")
    if subject.get("digest") != {"sha256": expected}:
        found = shown(subject.get("digest"))
        raise BadSignature("subject-digest", f"expected the SHA-256 {expected} of the listed files, found {found}")


def _path(value: object, reason: str) -> str:
    """Return ``value`` if it is the canonical path of a file in the folder; ``.``, the folder itself, is refused."""
    if not isinstance(value, str) or not is_path(value) or not is_inner_path(value):
        raise BadSignature(reason, f"expected a path inside the skill, found {shown(value)}")
    return value


def _covered(tree: Tree) -> dict[str, str]:
    return {path: file.sha256 for path, file in tree.listing.items() if path != SIGNATURE}


def _under(path: str, ignored: Collection[str]) -> bool:
    """Return whether a path is ignored, or lies in an ignored folder; a look at each of them would be quadratic."""
    return any(path[:end] in ignored for end, char in enumerate(f"{path}/") if char == "/")


# ``skill.oms.sig``: the signature at the root of a skill, in the format of OpenSSF Model Signing v1.0.
# It covers every file of the folder except itself; it does not cover the execute bit. Unlike the reference verifier,
# skillhub does not judge chains at the leaf's own first day, does not accept several signatures and verify the first,
# and has no fallbacks for signatures from before version 1.


@dataclass(frozen=True, slots=True)
class Envelope:
    """A signature that matches its tree; its signer is unproven until ``prove`` returns.

    Attributes:
        tree: The signed tree: the skill without the files that the signature ignores.
        hint: The ``PublicKey.hint`` of the claimed key, if the signature is by a bare key and has a claim.
        chain: The certificates in the signature, the leaf first; empty for a bare key.
        signed: The bytes that were signed.
        bundle: The bytes of the signature's file, for a signature with a Sigstore identity, which
            ``trust.sigstore`` verifies instead of ``prove``.
    """

    tree: Tree
    hint: Digest | None
    chain: Certificates
    signed: bytes
    signature: bytes
    bundle: bytes | None = None

    def prove(self, key: PublicKey) -> None:
        """Raise unless ``key`` made this signature.

        Raises:
            BadSignature: ``wrong-signature``, ``signature-encoding``, or ``wrong-hint`` if the signature claims
                another key.
        """
        key.verify(self.signature, self.signed)
        if self.hint not in (None, key.hint):
            raise BadSignature("wrong-hint", f"expected the hint {key.hint.hex}, found {self.hint}", where=SIGNATURE)


def read(tree: Tree) -> Envelope | None:
    """Return the signature at the root of ``tree``, compared with all its files; ``None`` if there is none.

    Raises:
        BadSignature: the signature is malformed, or does not match the files; the reasons are those of
            ``Bundle.parse``, ``Statement.parse`` and ``Statement.match``.
    """
    if SIGNATURE not in tree:
        return None
    with hinting(where=SIGNATURE, kinds=BadSignature):
        bundle = Bundle.parse(tree[SIGNATURE].data)
        covered = Statement.parse(bundle.payload).match(tree)
    signed = pae(bundle.payload)
    return Envelope(covered, bundle.hint, bundle.chain, signed, bundle.signature, bundle.sigstore)


def sign(tree: Tree, name: str, key: PrivateKey, chain: Certificates = (), left_out: tuple[str, ...] = ()) -> bytes:
    """Return the bytes of ``skill.oms.sig`` for ``tree``, the same each time.

    It covers neither a present signature nor the ``.git*`` files that no signature may cover.

    Args:
        tree: The skill.
        name: Its name, as information for readers; it is not verified.
        key: The signing key. The reference verifier accepts ECDSA, but no Ed25519.
        chain: The certificate of ``key``, then its issuers; empty to sign with the bare key.
        left_out: Paths beside the tree that the signature ignores, too.

    Raises:
        UsageError: the tree is no skill, or the first certificate is that of another key.
    """
    if SKILL_MD not in tree:
        raise UsageError(f"expected a skill to sign, found no {SKILL_MD}")
    if chain and chain[0].key != key.public:
        raise UsageError("expected the certificate of the signing key first, found another key's")
    statement = Statement.of(tree)
    payload = replace(statement, ignored=(*statement.ignored, *left_out)).dump(name)
    return Bundle(payload, key.sign(pae(payload)), None if chain else key.public.hint, chain).dump()

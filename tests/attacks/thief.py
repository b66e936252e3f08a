"""Signatures by a thief of some of a registry's keys."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from cryptography.hazmat.primitives.serialization import load_pem_public_key
from securesystemslib.signer import Signature, SSlibKey
from tuf.api.metadata import Metadata, MetaFile, Root, Signed, Snapshot, TargetFile, Targets, Timestamp

from skillhub.trust.keys import PrivateKey
from skillhub.trust.registry_metadata import MetadataSet, path_of
from tests.attacks.scene import Scene
from tests.support.registry import key_of, role_keys

TIMESTAMP = "metadata/timestamp.json"
FAR = 2**31


def sealed(signed: Signed, keys: Iterable[PrivateKey]) -> bytes:
    """Return the document with signatures of ``keys``, few or many."""
    metadata = Metadata(signed)
    data = metadata.signed_bytes
    for key in keys:
        keyid = public(key).keyid
        metadata.signatures[keyid] = Signature(keyid, key.sign(data).hex())
    return metadata.to_bytes()


def public(key: PrivateKey) -> SSlibKey:
    return SSlibKey.from_crypto(load_pem_public_key(key.public.pem))


def fresh_keys(name: str, count: int = 1) -> list[PrivateKey]:
    """Return newly generated keys."""
    return [key_of("fresh")(f"{name}-{number}", "ed25519") for number in range(count)]


class Thief:
    """Signs with the registry's own keys, ``signers`` of a role, and replaces what the network serves.

    Each method serves the next version of a document, or that of ``version``, with the documents that lead to it.
    """

    def __init__(self, scene: Scene) -> None:
        self.scene, self.hub = scene, scene.hub
        self.keys = role_keys("test")

    def replace(self, role: str, keys: list[PrivateKey]) -> None:
        """Sign with these keys for ``role`` from now on."""
        before = self.keys
        self.keys = lambda asked: keys if asked == role else before(asked)

    @property
    def metadata(self) -> MetadataSet:
        return self.hub.dir.metadata()

    def timestamp(self, version: int | None = None, snapshot: MetaFile | None = None, signers: int = 1) -> None:
        document = self.metadata.signed("timestamp", Timestamp)
        document.version = version or document.version + 1
        document.snapshot_meta = snapshot or document.snapshot_meta
        self._serve(TIMESTAMP, sealed(document, self.keys("timestamp")[:signers]))

    def snapshot(self, version: int | None = None, signers: int = 1, **roles: int | None) -> None:
        """Serve a snapshot that names these versions of ``roles``; None leaves a role out."""
        document = self.metadata.signed("snapshot", Snapshot)
        document.version = version or document.version + 1
        for role, number in roles.items():
            name = f"{role.replace('_', '-')}.json"
            document.meta.pop(name)
            if number is not None:
                document.meta[name] = MetaFile(number)
        data = sealed(document, self.keys("snapshot")[:signers])
        self._serve(f"metadata/{document.version}.snapshot.json", data)
        self.timestamp(snapshot=MetaFile.from_data(document.version, data, ["sha256"]))

    def targets(self, role: str, paths: dict[str, bytes], signers: int = 1) -> None:
        """Let a role sign these targets."""
        document = self.metadata.signed(role, Targets)
        document.version += 1
        for path, data in paths.items():
            document.targets[path] = TargetFile.from_data(path, data, ["sha256"])
            self._serve(path_of(document.targets[path]), data)
        name = role.partition("-")[0]
        self._serve(f"metadata/{document.version}.{role}.json", sealed(document, self.keys(name)[:signers]))
        self.snapshot(**{role.replace("-", "_"): document.version})

    def root(self, signers: Sequence[PrivateKey], **roles: Sequence[PrivateKey]) -> None:
        """Let ``signers`` sign a root in which these roles have other keys."""
        document = self.metadata.signed("root", Root)
        document.version += 1
        for role, keys in roles.items():
            document.roles[role].keyids.clear()
            for key in keys:
                document.add_key(public(key), role)
        self._serve(f"metadata/{document.version}.root.json", sealed(document, signers))

    def index(self, **change: object) -> bytes:
        """Return the index of ``acme`` with this change to the release of ``other``."""
        found = json.loads(self.hub.dir.target(self.metadata, "idx/acme.json") or b"")
        row = next(each for each in found["releases"] if each["name"] == "other")
        row.update(change)
        return json.dumps(found).encode()

    def offer(self, **change: object) -> None:
        """Publish that index with the online keys."""
        self.targets(self.metadata.role_of("idx/acme.json"), {"idx/acme.json": self.index(**change)})

    def archive(self, data: bytes) -> None:
        """Publish these bytes as the archive of ``other`` with the online keys."""
        self._serve("archives/evil.zip", data)
        self.offer(
            url="archives/evil.zip",
            sha256=TargetFile.from_data("", data, ["sha256"]).hashes["sha256"],
            size=len(data),
        )

    def _serve(self, path: str, data: bytes) -> None:
        self.hub.files[path] = data
        self.scene.signed.add(data)

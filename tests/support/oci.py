"""Artifacts as ToolHive, skr and ourselves lay them out, without any of these programs."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from skillhub.formats.digest import Digest

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
IMAGE_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
SKR_LAYER = "application/vnd.agentskills.skill.layer.v1+tar+gzip"
TITLE = "org.opencontainers.image.title"


@dataclass()
class Artifact:
    """A manifest, what stands below it, and all blobs by digest."""

    manifest: bytes = b""
    below: dict[str, bytes] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)

    def add(self, data: bytes, media_type: str, **annotations: str) -> dict[str, object]:
        """Keep a blob and return its descriptor."""
        digest = str(Digest.of(data))
        self.blobs[digest] = data
        found: dict[str, object] = {"mediaType": media_type, "digest": digest, "size": len(data)}
        return {**found, "annotations": {TITLE: annotations["title"]}} if annotations else found

    @property
    def digest(self) -> str:
        return str(Digest.of(self.manifest))


def dump(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def tar_gz(files: Mapping[str, bytes], folders: Sequence[str] = ()) -> bytes:
    """Return an archive as Go's ``archive/tar`` writes it; its folders may be named without a slash."""
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in folders:
            info = tarfile.TarInfo(name)
            info.type, info.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(info)
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), 0o644
            archive.addfile(info, io.BytesIO(data))
    return gzip.compress(held.getvalue(), mtime=0)


def toolhive(name: str, files: Mapping[str, bytes]) -> Artifact:
    """One index, a manifest for each platform, one layer that all of them share."""
    made = Artifact()
    layer = made.add(tar_gz(files), IMAGE_LAYER, title="skill.tar.gz")
    notes = {"dev.toolhive.skills.name": name, "org.opencontainers.image.created": "1970-01-01T00:00:00Z"}
    platforms = []
    for architecture in ("amd64", "arm64"):
        config = made.add(
            dump({"architecture": architecture, "os": "linux"}), "application/vnd.oci.image.config.v1+json"
        )
        manifest = dump(
            {
                "schemaVersion": 2,
                "mediaType": MANIFEST,
                "artifactType": "dev.toolhive.skills.v1",
                "config": config,
                "layers": [layer],
                "annotations": notes,
            }
        )
        made.below[str(Digest.of(manifest))] = manifest
        platform = {"architecture": architecture, "os": "linux"}
        found = {"mediaType": MANIFEST, "digest": str(Digest.of(manifest)), "size": len(manifest)}
        platforms.append({**found, "platform": platform})
    made.manifest = dump(
        {
            "schemaVersion": 2,
            "mediaType": INDEX,
            "artifactType": "dev.toolhive.skills.v1",
            "manifests": platforms,
            "annotations": notes,
        }
    )
    return made


def skr(files: Mapping[str, bytes], folders: Sequence[str] = (), **more: object) -> Artifact:
    """One manifest, media types of its own, folders without a slash at their end."""
    made = Artifact()
    layer = made.add(tar_gz(files, folders), SKR_LAYER)
    config = made.add(b'{"created":"x"}', "application/vnd.agentskills.skill.config.v1+json")
    made.manifest = dump({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer], **more})
    return made


def titled(*layers: tuple[str, str, bytes], kind: str | None = None) -> Artifact:
    """One manifest of layers that say their paths, as ``oras push`` and our own publishing make it."""
    made = Artifact()
    config = made.add(b"{}", "application/vnd.oci.empty.v1+json")
    found = [made.add(data, media_type, title=title) for title, media_type, data in layers]
    document = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": found}
    made.manifest = dump({**document, "artifactType": kind} if kind else document)
    return made

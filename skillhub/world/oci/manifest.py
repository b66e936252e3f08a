"""What an OCI registry says of an artifact (OCI image specification 1.1), and which of its layers is a skill.

Three layouts are read. Of ToolHive: one image per platform, all with the same one layer, a ``tar.gz``. Of skr, and of
anybody who pushes an archive: one layer, a ``tar.gz`` or zip by its media type or its title. Our own: a whole
registry's site, each file a layer that says its path.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

from pydantic import Field

from skillhub.archive import Kind, kind_of
from skillhub.errors import FormatError
from skillhub.model.digest import Digest
from skillhub.model.syntax.document import ForeignDocument, Items, Read
from skillhub.model.syntax.json import strict_json
from skillhub.model.text import is_name, quote

REGISTRY_SITE: Final = "application/vnd.skillhub.registry.v1"
TITLE: Final = "org.opencontainers.image.title"
MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
MANIFEST_CAP: Final = 4 * 1024 * 1024  # bytes; what registries allow
ACCEPTED: Final = (
    MANIFEST,
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
_NAMES = ("dev.toolhive.skills.name",)
_SIZE_MAX = (1 << 40) - 1


@dataclass(frozen=True, slots=True)
class Blob:
    """A descriptor: what is at a digest, and of how many bytes."""

    digest: Digest
    size: int
    media_type: str = ""
    annotations: Mapping[str, str] | None = None

    @property
    def title(self) -> str:
        """The path that it had as a file, if it had one."""
        return (self.annotations or {}).get(TITLE, "")

    @property
    def kind(self) -> Kind | None:
        """The kind of archive that it is, by its media type, else by its title."""
        return kind_of(self.title, self.media_type)


@dataclass(frozen=True, slots=True)
class Image:
    """One artifact.

    Attributes:
        name: The name that its maker gave the skill, where the layout has a place for it.
        is_site: Whether it is the site of a registry of ours.
        warnings: What was left out of the manifest.
    """

    config: Blob
    layers: tuple[Blob, ...]
    name: str | None = None
    is_site: bool = False
    warnings: tuple[str, ...] = ()

    def skill(self, where: str) -> Blob:
        """Return the layer that is the skill.

        Raises:
            FormatError: it is not laid out as one.
        """
        if len(self.layers) != 1 or self.layers[0].kind is None:
            found = ", ".join(quote(each.media_type, 60) for each in self.layers[:3]) or "none"
            raise FormatError(
                f"expected one layer, a zip or tar.gz, found {len(self.layers)}: {found}",
                where=where,
                hint="this is no skill as ToolHive, skr or skillhub push them",
            )
        return self.layers[0]


class _Descriptor(ForeignDocument):
    BINDING: ClassVar = frozenset({"mediaType"})

    digest: Annotated[Digest, Read(Digest.parse)]
    size: Annotated[int, Field(strict=True, ge=0, le=_SIZE_MAX)]
    media_type: str = Field("", alias="mediaType")
    annotations: dict[str, str] = Field(default_factory=dict)

    @property
    def blob(self) -> Blob:
        return Blob(self.digest, self.size, self.media_type, self.annotations)


class _Index(ForeignDocument):
    """A manifest for several platforms."""

    manifests: Items[_Descriptor]


class _Manifest(ForeignDocument):
    """A manifest of one artifact. What its type is decides how its layers are read."""

    BINDING: ClassVar = frozenset({"artifactType"})

    config: _Descriptor
    layers: Items[_Descriptor]
    artifact_type: str = Field("", alias="artifactType")
    annotations: dict[str, str] = Field(default_factory=dict)


def read_image(data: bytes, where: str) -> Image | Blob:
    """Return what a manifest says; of one for several platforms the first, for their layers are the same.

    Raises:
        FormatError: it is no manifest.
    """
    document = strict_json(data, where, MANIFEST_CAP)
    if isinstance(document, dict) and "manifests" in document:
        several = _Index.parse(document, where).manifests
        if not several:
            raise FormatError(
                "expected a manifest for some platform, found none", where=f"{where}: manifests"
            )
        return several[0].blob
    found = _Manifest.parse(document, where)
    names = [found.annotations[key] for key in _NAMES if is_name(found.annotations.get(key, ""))]
    return Image(
        found.config.blob,
        tuple(each.blob for each in found.layers),
        names[0] if names else None,
        found.artifact_type == REGISTRY_SITE,
        found.warnings(),
    )

"""An artifact in an OCI registry, seen as a place (OCI distribution specification 1.1, "Pull").

It is asked by tag or digest and pinned by digest: of the manifest, and by that of everything below it. What comes is
hashed against what named it, so that the registry can withhold, but not put anything else in its place.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import cached_property

from skillhub.archive import Limits, Unpacked, unpack
from skillhub.errors import FormatError, NotFound, UnsafeArchive, UsageError, WrongBytes
from skillhub.model.digest import Digest
from skillhub.model.index import LISTING_CAP, parse_listing
from skillhub.model.layout import name_of_folder
from skillhub.model.ref import Oci, parse_ref
from skillhub.model.release import Index, Release
from skillhub.model.syntax.frontmatter import glance
from skillhub.model.text import quote
from skillhub.model.tree import SKILL_MD
from skillhub.world.fetch import Web
from skillhub.world.oci.manifest import ACCEPTED, MANIFEST_CAP, Blob, Image, read_image
from skillhub.world.oci.wire import OciWire

_LISTING = ".well-known/agent-skills/index.json"
_LAYER_CAP = Limits().total + (1 << 20)
_LATEST = "latest"
_DEPTH = 2  # an index of manifests, and one of them


class Artifact:
    """A place: the skill of an artifact, or those of a registry's site that was pushed as one.

    Args:
        ref: The artifact; without tag and digest it is ``latest``. Nothing is asked of its registry yet.
        web: What fetches.
        environ: Where ``DOCKER_CONFIG`` says where logins are kept; None if no login may be told.
    """

    def __init__(self, ref: Oci, web: Web, environ: Mapping[str, str] | None) -> None:
        self._ref = ref
        self._wire = OciWire(ref.repository, web, environ)
        self._images: dict[str, tuple[Digest, Image]] = {}
        self._unpacked: dict[tuple[str, Digest], Unpacked] = {}

    def index(self, words: Collection[str] | None = None) -> Index:
        """Return what the artifact holds.

        Raises:
            NotFound: there is no such artifact.
            SourceError: the registry cannot be reached, or does not let us in.
            WrongBytes: something is not what its digest says.
            UnsafeArchive: the skill holds what none may.
            FormatError: it is no manifest, or not laid out as a skill.
        """
        return self._index

    @cached_property
    def _index(self) -> Index:
        pin, image = self._image(self._ref.digest or self._ref.tag or _LATEST)
        url = f"{self._ref.place}@{pin}"
        if image.is_site:
            return self._site(url, image)
        layer = image.skill(url)
        self._wire.blob(image.config, MANIFEST_CAP)
        self._unpacked[url, layer.digest] = unpacked = self._layer(layer, url)
        head = glance(unpacked.tree[SKILL_MD].data)
        name = image.name or head.name or name_of_folder(self._ref.repository)
        release = Release(
            name=name, url=url, digest=layer.digest, size=layer.size, description=head.description
        )
        return Index({name: (release,)}, warnings=image.warnings)

    def committed(self, release: Release) -> None:
        """Return nothing: what is here is in no commit."""

    def unpacked(self, release: Release) -> Unpacked:
        """Return the skill of a release that ``index`` gave, or that a lock spells.

        Raises:
            UsageError: its URL is no artifact pinned by digest.
            NotFound, SourceError, WrongBytes, UnsafeArchive, FormatError: as for ``index``.
        """
        if release.digest is None:
            raise FormatError("expected the digest of a layer, found none", where=release.url)
        known = self._unpacked.get((release.url, release.digest))
        if known is not None:
            return known
        ref = parse_ref(release.url)
        if not isinstance(ref, Oci) or ref.digest is None or ref.repository != self._ref.repository:
            raise UsageError(
                f"expected {self._ref.place}@sha256:…, found {quote(release.url)}", where=self._ref.source
            )
        _, image = self._image(ref.digest)
        layer = next((each for each in image.layers if each.digest == release.digest), None)
        if layer is None:
            raise WrongBytes(f"expected a layer {release.digest}, found none", where=release.url)
        return self._layer(layer, release.url)

    def _image(self, tag_or_digest: str) -> tuple[Digest, Image]:
        """Return a manifest and the digest that pins it, which may be that of an index that it stands in."""
        if tag_or_digest not in self._images:
            data = self._wire.manifest(tag_or_digest, ACCEPTED)
            pin = Digest.of(data)
            for _ in range(_DEPTH):
                found = read_image(data, f"{self._ref.place}@{Digest.of(data)}")
                if isinstance(found, Image):
                    self._images[tag_or_digest] = self._images[pin] = pin, found
                    break
                data = self._wire.manifest(found.digest, ACCEPTED)
            else:
                raise FormatError("expected a manifest, found an index in an index", where=self._ref.source)
        return self._images[tag_or_digest]

    def _layer(self, layer: Blob, where: str) -> Unpacked:
        kind = layer.kind
        if kind is None:
            raise FormatError(f"expected a zip or tar.gz, found {quote(layer.media_type)}", where=where)
        if layer.size > _LAYER_CAP:
            message = f"expected a layer of at most {_LAYER_CAP} bytes, found {layer.size}"
            raise UnsafeArchive("too-large", message, where=where)
        return unpack(self._wire.blob(layer, _LAYER_CAP), kind)

    def _site(self, url: str, image: Image) -> Index:
        """Return what the site of a registry lists; here nothing of its metadata is believed, nor needed."""
        listing = next((each for each in image.layers if each.title == _LISTING), None)
        if listing is None:
            raise NotFound(f"the site has no {_LISTING}", where=url)
        listed = parse_listing(self._wire.blob(listing, LISTING_CAP), url)
        layers = {each.digest for each in image.layers}
        warnings = list(listed.warnings)
        skills = {
            name: tuple(_offered(releases, url, layers, warnings)) for name, releases in listed.skills.items()
        }
        return Index({name: each for name, each in skills.items() if each}, warnings=tuple(warnings))


def _offered(
    releases: tuple[Release, ...], url: str, layers: set[Digest], warnings: list[str]
) -> Iterator[Release]:
    for release in releases:
        if release.withdrawn is not None:
            warnings.append(f"{release.name} {release.version or ''} was withdrawn: {release.withdrawn}")
        elif release.digest not in layers:
            warnings.append(f"{release.name} was left out: the artifact does not hold it")
        else:
            yield replace(release, url=url)

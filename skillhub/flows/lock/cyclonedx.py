"""A lock as a bill of materials in CycloneDX 1.6 (ECMA-424), JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, Property, XsUri
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.tool import ToolRepository
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion

from skillhub import __version__
from skillhub.flows.lock.purl import purl
from skillhub.model.digest import Digest
from skillhub.model.lock import Lock, Locked
from skillhub.model.signer import Signer


def cyclonedx(lock: Lock, created: datetime | None) -> bytes:
    """Return the document; the same lock gives the same bytes, for its serial number is derived from the lock.

    Args:
        lock: What is told of.
        created: The time to put into it; None for none.
    """
    digest = Digest.of(lock.dump())
    root = Component(
        name="skillhub.lock", type=ComponentType.FILE, bom_ref="skillhub.lock", hashes=[_hash(digest)]
    )
    tool = Component(name="skillhub", type=ComponentType.APPLICATION, version=__version__)
    metadata = BomMetaData(
        tools=ToolRepository(components=[tool]),
        component=root,
        timestamp=created or datetime.fromtimestamp(0, UTC),
    )
    skills = {name: _component(name, entry, lock) for name, entry in lock.skills.items()}
    bom = Bom(components=skills.values(), metadata=metadata, serial_number=uuid5(NAMESPACE_URL, digest))
    bom.register_dependency(root, skills.values())
    for name, entry in lock.skills.items():
        bom.register_dependency(skills[name], [skills[each] for each in entry.dependencies if each in skills])
    text = make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string(indent=2)
    if created is None:  # the library cannot leave it out, the standard can
        document = json.loads(text)
        del document["metadata"]["timestamp"]
        text = json.dumps(document, indent=2)
    return f"{text}\n".encode()


def _component(name: str, entry: Locked, lock: Lock) -> Component:
    signers = [Signer.parse(each) for each in entry.signed_by]
    return Component(
        name=name,
        version=entry.version,
        bom_ref=f"skill:{name}",
        publisher=", ".join(each.identity for each in signers) or None,
        hashes=[_hash(entry.digest)] if entry.digest else [],
        purl=purl(name, entry),
        external_references=list(_references(entry)),
        properties=[Property(name=f"skillhub:{key}", value=value) for key, value in _facts(entry, lock)],
    )


def _hash(digest: Digest) -> HashType:
    return HashType(alg=HashAlgorithm.SHA_256, content=digest.hex)


def _references(entry: Locked) -> Iterator[ExternalReference]:
    if entry.url:
        hashes = [_hash(entry.digest)] if entry.digest else []
        yield ExternalReference(type=ExternalReferenceType.DISTRIBUTION, url=XsUri(entry.url), hashes=hashes)
    if entry.git:
        yield ExternalReference(type=ExternalReferenceType.VCS, url=XsUri(entry.git), comment=entry.rev)


def _facts(entry: Locked, lock: Lock) -> Iterator[tuple[str, str]]:
    """Yield what the lock says of a skill and the standard has no word for."""
    for key in ("source", "tree", "rev", "path"):
        if value := getattr(entry, key):
            yield key, value
    if entry.patch is not None:
        yield "patch", f"{entry.patch.path} {entry.patch.digest}"
        yield "tree-before-patch", entry.patch.base
    source = lock.sources.get(entry.source) if entry.named else None
    if source is not None:
        yield "source-url", source.url
        if source.root is not None:
            yield "source-root", source.root
    for key, values in (
        ("signed-by", entry.signed_by),
        ("capability", entry.capabilities),
        ("requires", entry.requires),
    ):
        yield from ((key, value) for value in values)

"""A lock as a bill of materials in SPDX 2.3 (ISO/IEC 5962), JSON."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from io import StringIO
from uuid import NAMESPACE_URL, uuid5

from spdx_tools.spdx.model import (
    Actor,
    ActorType,
    Checksum,
    ChecksumAlgorithm,
    CreationInfo,
    Document,
    ExternalPackageRef,
    ExternalPackageRefCategory,
    Package,
    Relationship,
    RelationshipType,
    SpdxNoAssertion,
)
from spdx_tools.spdx.validation.uri_validators import validate_download_location
from spdx_tools.spdx.writer.json.json_writer import write_document_to_stream

from skillhub import __version__
from skillhub.flows.lock.purl import purl
from skillhub.model.digest import Digest
from skillhub.model.lock import Lock, Locked

_ROOT = "SPDXRef-lock"


def spdx(lock: Lock, created: datetime | None) -> bytes:
    """Return the document; the same lock gives the same bytes, for its namespace is derived from the lock.

    Args:
        lock: What is told of.
        created: The time to put into it; None is the beginning of 1970, for the standard wants one.
    """
    digest = Digest.of(lock.dump())
    info = CreationInfo(
        spdx_version="SPDX-2.3",
        spdx_id="SPDXRef-DOCUMENT",
        name="skillhub.lock",
        document_namespace=f"urn:uuid:{uuid5(NAMESPACE_URL, digest)}",
        creators=[Actor(ActorType.TOOL, f"skillhub-{__version__}")],
        created=created or datetime.fromtimestamp(0, UTC),
    )
    root = Package(
        _ROOT, "skillhub.lock", SpdxNoAssertion(), files_analyzed=False, checksums=[_checksum(digest)]
    )
    packages = [root, *(_package(name, entry) for name, entry in sorted(lock.skills.items()))]
    stream = StringIO()
    write_document_to_stream(Document(info, packages=packages, relationships=list(_relations(lock))), stream)
    return f"{stream.getvalue()}\n".encode()


def _package(name: str, entry: Locked) -> Package:
    package_url = purl(name, entry)
    reference = ExternalPackageRef(ExternalPackageRefCategory.PACKAGE_MANAGER, "purl", str(package_url))
    return Package(
        _id(name),
        name,
        _location(entry),
        version=entry.version,
        files_analyzed=False,
        checksums=[_checksum(entry.digest)] if entry.digest else [],
        source_info=f"from {entry.source}: {entry.origin}",
        comment="\n".join(_facts(entry)),
        external_references=[reference] if package_url else [],
    )


def _id(name: str) -> str:
    return f"SPDXRef-skill-{name}"


def _checksum(digest: Digest) -> Checksum:
    return Checksum(ChecksumAlgorithm.SHA256, digest.hex)


def _location(entry: Locked) -> str | SpdxNoAssertion:
    """Return where the skill is downloaded, if the standard can spell it: it knows no bare hosts."""
    place = entry.url
    if entry.git:
        place = f"git+{entry.git}@{entry.rev}{'#' + entry.path if entry.path else ''}"
    return place if place and not validate_download_location(place) else SpdxNoAssertion()


def _facts(entry: Locked) -> Iterator[str]:
    """Yield what the lock says of a skill and the standard has no word for."""
    yield f"tree: {entry.tree}"
    if entry.patch is not None:
        yield f"patch: {entry.patch.path} {entry.patch.digest}, on the tree {entry.patch.base}"
    yield f"signed by: {', '.join(entry.signed_by) or 'nobody'}"
    yield f"can: {', '.join(entry.capabilities) or 'give instructions'}"
    yield f"requires: {', '.join(entry.requires) or 'nothing'}"


def _relations(lock: Lock) -> Iterator[Relationship]:
    yield Relationship("SPDXRef-DOCUMENT", RelationshipType.DESCRIBES, _ROOT)
    for name, entry in sorted(lock.skills.items()):
        yield Relationship(_ROOT, RelationshipType.DEPENDS_ON, _id(name))
        for each in entry.dependencies:
            if each in lock.skills:
                yield Relationship(_id(name), RelationshipType.DEPENDS_ON, _id(each))

"""A lock as a bill of materials in SPDX 2.3 (ISO/IEC 5962), JSON.

The library for it, which tests hold this against, looks through all relationships for each package: minutes for a
lock of 20,000 skills. From it comes what the standard can spell as the place of a download.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from spdx_tools.spdx.validation.uri_validators import validate_download_location

from skillhub import __version__
from skillhub.flows.lock.purl import purl
from skillhub.model.digest import Digest
from skillhub.model.lock import Lock, Locked

_DOCUMENT, _ROOT = "SPDXRef-DOCUMENT", "SPDXRef-lock"
_UNKNOWN = "NOASSERTION"


def spdx(lock: Lock, created: datetime | None) -> bytes:
    """Return the document; the same lock gives the same bytes, for its namespace is derived from the lock.

    Args:
        lock: What is told of.
        created: The time to put into it; None is the beginning of 1970, for the standard wants one.
    """
    digest = Digest.of(lock.dump())
    root = {
        "SPDXID": _ROOT,
        "checksums": _checksums(digest),
        "downloadLocation": _UNKNOWN,
        "filesAnalyzed": False,
        "name": "skillhub.lock",
    }
    time = (created or datetime.fromtimestamp(0, UTC)).astimezone(UTC)
    document = {
        "SPDXID": _DOCUMENT,
        "creationInfo": {
            "created": f"{time:%Y-%m-%dT%H:%M:%SZ}",
            "creators": [f"Tool: skillhub-{__version__}"],
        },
        "dataLicense": "CC0-1.0",
        "name": "skillhub.lock",
        "spdxVersion": "SPDX-2.3",
        "documentNamespace": f"urn:uuid:{uuid5(NAMESPACE_URL, digest)}",
        "packages": [root, *(_package(name, entry) for name, entry in sorted(lock.skills.items()))],
        "relationships": [
            {"spdxElementId": one, "relatedSpdxElement": other, "relationshipType": kind}
            for one, kind, other in dict.fromkeys(_relations(lock))
        ],
    }
    return f"{json.dumps(document, indent=4)}\n".encode()


def _package(name: str, entry: Locked) -> dict[str, Any]:
    package_url = purl(name, entry)
    reference = {
        "referenceCategory": "PACKAGE_MANAGER",
        "referenceLocator": str(package_url),
        "referenceType": "purl",
    }
    return {
        "SPDXID": _id(name),
        **({"checksums": _checksums(entry.digest)} if entry.digest else {}),
        "comment": "\n".join(_facts(entry)),
        "downloadLocation": _location(entry),
        **({"externalRefs": [reference]} if package_url else {}),
        "filesAnalyzed": False,
        "name": name,
        "sourceInfo": f"from {entry.source}: {entry.origin}",
        **({"versionInfo": entry.version} if entry.version is not None else {}),
    }


def _id(name: str) -> str:
    return f"SPDXRef-skill-{name}"


def _checksums(digest: Digest) -> list[dict[str, str]]:
    return [{"algorithm": "SHA256", "checksumValue": digest.hex}]


def _location(entry: Locked) -> str:
    """Return where the skill is downloaded, if the standard can spell it: it knows no bare hosts."""
    place = entry.url
    if entry.git:
        place = f"git+{entry.git}@{entry.rev}{'#' + entry.path if entry.path else ''}"
    return place if place and not validate_download_location(place) else _UNKNOWN


def _facts(entry: Locked) -> Iterator[str]:
    """Yield what the lock says of a skill and the standard has no word for."""
    yield f"tree: {entry.tree}"
    if entry.patch is not None:
        yield f"patch: {entry.patch.path} {entry.patch.digest}, on the tree {entry.patch.base}"
    yield f"signed by: {', '.join(entry.signed_by) or 'nobody'}"
    yield f"can: {', '.join(entry.capabilities) or 'give instructions'}"
    yield f"requires: {', '.join(entry.requires) or 'nothing'}"


def _relations(lock: Lock) -> Iterator[tuple[str, str, str]]:
    yield _DOCUMENT, "DESCRIBES", _ROOT
    for name, entry in sorted(lock.skills.items()):
        yield _ROOT, "DEPENDS_ON", _id(name)
        for each in entry.dependencies:
            if each in lock.skills:
                yield _id(name), "DEPENDS_ON", _id(each)

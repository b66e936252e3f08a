"""A lock as a bill of materials: CycloneDX 1.6 (ECMA-424) and SPDX 2.3 (ISO/IEC 5962), with package URLs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.model import XsUri
from packageurl import PackageURL
from spdx_tools.spdx.validation.uri_validators import validate_download_location

from skillhub import __version__
from skillhub.formats.digest import Digest
from skillhub.model.finding import in_words
from skillhub.model.lock import Lock, Locked, Signer, by_word, shown_signers
from skillhub.model.reference import GitHub, parse_remote

# Package URLs (purl), with which bills of materials identify locked skills.


def purl(name: str, entry: Locked) -> PackageURL | None:
    """Return the package URL of a skill; None for a local skill, which other machines cannot fetch.

    There is no type for skills: one that is not from GitHub has the type ``generic``, and its place as a qualifier.
    """
    if entry.local:
        return None
    name = entry.own_name(name)
    if entry.git is None:
        download = {"download_url": entry.url, "checksum": entry.digest}
        return PackageURL("generic", None, name, entry.version, {k: v for k, v in download.items() if v})
    place = parse_remote(entry.place)
    if isinstance(place, GitHub):
        return PackageURL("github", place.owner, place.repo, entry.rev, None, entry.path)
    qualifiers = {"vcs_url": f"git+{entry.git}@{entry.rev}"}
    return PackageURL("generic", None, name, entry.version, qualifiers, entry.path)


# A lock as a bill of materials in CycloneDX 1.6 (ECMA-424), JSON.
# The CycloneDX library, with which tests compare this output, searches all dependencies for each component, which
# takes minutes for a lock of 20,000 skills. Only its escaping of URIs is used here.

_ROOT = "skillhub.lock"
_SAFE = "!$%&'()*+,/:;=?@[]"
_LONE_PERCENT = re.compile("%(?![0-9A-Fa-f]{2})")


def cyclonedx(lock: Lock, created: datetime | None) -> bytes:
    """Return the document; equal locks give equal bytes, since the serial number is derived from the lock.

    Args:
        lock: The lock.
        created: The timestamp; None for none.
    """
    digest = Digest.of(lock.dump())
    skills = sorted(lock.skills.items())
    needs = {
        f"skill:{name}": [f"skill:{dependency}" for dependency in entry.dependencies if dependency in lock.skills]
        for name, entry in skills
    }
    needs[_ROOT] = [f"skill:{name}" for name, _ in skills]
    document = {
        "components": [_component(name, entry, lock) for name, entry in skills],
        "dependencies": [
            {"dependsOn": sorted({*needed}), "ref": ref} if needed else {"ref": ref}
            for ref, needed in sorted(needs.items())
        ],
        "metadata": {
            "component": {"bom-ref": _ROOT, "hashes": _hashes(digest), "name": _ROOT, "type": "file"},
            **({"timestamp": created.isoformat()} if created else {}),
            "tools": {"components": [{"name": "skillhub", "type": "application", "version": __version__}]},
        },
        "serialNumber": f"urn:uuid:{uuid5(NAMESPACE_URL, digest)}",
        "version": 1,
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
    }
    return f"{json.dumps(_without_nothing(document), indent=2)}\n".encode()


def _component(name: str, entry: Locked, lock: Lock) -> dict[str, Any]:
    signers = [Signer.parse(text) for text in entry.signed_by]
    package_url = purl(name, entry)
    return _without_nothing(
        {
            "bom-ref": f"skill:{name}",
            "externalReferences": list(_references(entry)),
            "hashes": _hashes(entry.digest),
            "name": name,
            "properties": [
                {"name": f"skillhub:{key}", "value": value} for key, value in sorted({*_facts(entry, lock)})
            ],
            "publisher": ", ".join(signer.named(entry.voucher) for signer in signers),
            "purl": str(package_url or ""),
            "type": "library",
            "version": entry.version,
        }
    )


def _without_nothing(document: dict[str, Any]) -> dict[str, Any]:
    """Return the keys with a value, since the standard allows no empty lists and texts."""
    return {key: value for key, value in document.items() if value}


def _hashes(digest: Digest | None) -> list[dict[str, str]]:
    return [{"alg": "SHA-256", "content": digest.hex}] if digest else []


def _references(entry: Locked) -> Iterator[dict[str, Any]]:
    if entry.url:
        hashes = {"hashes": _hashes(entry.digest)} if entry.digest else {}
        yield {**hashes, "type": "distribution", "url": _uri(entry.url)}
    if entry.git:
        comment = {"comment": entry.rev} if entry.rev else {}
        yield {**comment, "type": "vcs", "url": _uri(entry.git)}


def _uri(url: str) -> str:
    """Return a URL with escapes for what the standard's schema permits in no URL, such as a bar or a lone ``%``."""
    before, mark, fragment = _LONE_PERCENT.sub("%25", url).partition("#")
    return str(XsUri(f"{quote(before, safe=_SAFE)}{mark}{quote(fragment, safe=_SAFE)}"))


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
        ("signed-by", [by_word(signer, entry.voucher) for signer in entry.signed_by]),
        ("capability", entry.capabilities),
        ("requires", entry.requires),
    ):
        yield from ((key, value) for value in values)


# A lock as a bill of materials in SPDX 2.3 (ISO/IEC 5962), JSON.
# The SPDX library, with which tests compare this output, searches all relationships for each package, which takes
# minutes for a lock of 20,000 skills. Only its check of download locations is used here.

_DOCUMENT, _SPDX_ROOT = "SPDXRef-DOCUMENT", "SPDXRef-lock"
_UNKNOWN = "NOASSERTION"


def spdx(lock: Lock, created: datetime | None) -> bytes:
    """Return the document; equal locks give equal bytes, since the namespace is derived from the lock.

    Args:
        lock: The lock.
        created: The timestamp; None for the beginning of 1970, since the standard requires one.
    """
    digest = Digest.of(lock.dump())
    root = {
        "SPDXID": _SPDX_ROOT,
        "checksums": _checksums(digest),
        "downloadLocation": _UNKNOWN,
        "filesAnalyzed": False,
        "name": "skillhub.lock",
    }
    time = (created or datetime.fromtimestamp(0, UTC)).astimezone(UTC)
    document = {
        "SPDXID": _DOCUMENT,
        "creationInfo": {"created": f"{time:%Y-%m-%dT%H:%M:%SZ}", "creators": [f"Tool: skillhub-{__version__}"]},
        "dataLicense": "CC0-1.0",
        "name": "skillhub.lock",
        "spdxVersion": "SPDX-2.3",
        "documentNamespace": f"urn:uuid:{uuid5(NAMESPACE_URL, digest)}",
        "packages": [root, *(_package(name, entry) for name, entry in sorted(lock.skills.items()))],
        "relationships": [
            {"spdxElementId": subject, "relatedSpdxElement": related, "relationshipType": kind}
            for subject, kind, related in dict.fromkeys(_relations(lock))
        ],
    }
    return f"{json.dumps(document, indent=4)}\n".encode()


def _package(name: str, entry: Locked) -> dict[str, Any]:
    package_url, category = purl(name, entry), "PACKAGE_MANAGER"
    reference = {"referenceCategory": category, "referenceLocator": str(package_url), "referenceType": "purl"}
    return {
        "SPDXID": _id(name),
        **({"checksums": _checksums(entry.digest)} if entry.digest else {}),
        "comment": "\n".join(_spdx_facts(entry)),
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
    """Return the download location of a skill, or NOASSERTION if the standard cannot express it, such as a host."""
    place = entry.url
    if entry.git:
        place = f"git+{entry.git}@{entry.rev}{'#' + entry.path if entry.path else ''}"
    return place if place and not validate_download_location(place) else _UNKNOWN


def _spdx_facts(entry: Locked) -> Iterator[str]:
    """Yield what the lock says of a skill and the standard has no word for."""
    yield f"tree: {entry.tree}"
    if entry.patch is not None:
        yield f"patch: {entry.patch.path} {entry.patch.digest}, on the tree {entry.patch.base}"
    yield f"signed by: {shown_signers(entry.signed_by, entry.voucher)}"
    yield f"can: {in_words(entry.capabilities)}"
    yield f"requires: {', '.join(entry.requires) or 'nothing'}"


def _relations(lock: Lock) -> Iterator[tuple[str, str, str]]:
    yield _DOCUMENT, "DESCRIBES", _SPDX_ROOT
    for name, entry in sorted(lock.skills.items()):
        yield _SPDX_ROOT, "DEPENDS_ON", _id(name)
        for dependency in entry.dependencies:
            if dependency in lock.skills:
                yield _id(name), "DEPENDS_ON", _id(dependency)

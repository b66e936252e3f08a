"""A lock as a bill of materials in CycloneDX 1.6 (ECMA-424), JSON.

The library for it, which tests hold this against, looks through all dependencies for each component: minutes for a
lock of 20,000 skills. From it comes how a URI is spelled.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.model import XsUri

from skillhub import __version__
from skillhub.flows.lock.purl import purl
from skillhub.model.digest import Digest
from skillhub.model.lock import Lock, Locked
from skillhub.model.signer import Signer

_ROOT = "skillhub.lock"


def cyclonedx(lock: Lock, created: datetime | None) -> bytes:
    """Return the document; the same lock gives the same bytes, for its serial number is derived from the lock.

    Args:
        lock: What is told of.
        created: The time to put into it; None for none.
    """
    digest = Digest.of(lock.dump())
    skills = sorted(lock.skills.items())
    needs = {
        _ref(name): [_ref(each) for each in entry.dependencies if each in lock.skills]
        for name, entry in skills
    }
    needs[_ROOT] = [_ref(name) for name, _ in skills]
    document = {
        "components": [_component(name, entry, lock) for name, entry in skills],
        "dependencies": [
            {"dependsOn": sorted({*wanted}), "ref": ref} if wanted else {"ref": ref}
            for ref, wanted in sorted(needs.items())
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


def _ref(name: str) -> str:
    return f"skill:{name}"


def _component(name: str, entry: Locked, lock: Lock) -> dict[str, Any]:
    signers = [Signer.parse(each) for each in entry.signed_by]
    package_url = purl(name, entry)
    return _without_nothing(
        {
            "bom-ref": _ref(name),
            "externalReferences": list(_references(entry)),
            "hashes": _hashes(entry.digest),
            "name": name,
            "properties": [
                {"name": f"skillhub:{key}", "value": value} for key, value in sorted({*_facts(entry, lock)})
            ],
            "publisher": ", ".join(each.identity for each in signers),
            "purl": str(package_url or ""),
            "type": "library",
            "version": entry.version,
        }
    )


def _without_nothing(document: dict[str, Any]) -> dict[str, Any]:
    """Return what there is something in: the standard has no empty lists and texts."""
    return {key: value for key, value in document.items() if value}


def _hashes(digest: Digest | None) -> list[dict[str, str]]:
    return [{"alg": "SHA-256", "content": digest.hex}] if digest else []


def _references(entry: Locked) -> Iterator[dict[str, Any]]:
    if entry.url:
        hashes = {"hashes": _hashes(entry.digest)} if entry.digest else {}
        yield {**hashes, "type": "distribution", "url": str(XsUri(entry.url))}
    if entry.git:
        comment = {"comment": entry.rev} if entry.rev else {}
        yield {**comment, "type": "vcs", "url": str(XsUri(entry.git))}


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

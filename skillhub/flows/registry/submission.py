"""Turn a folder or archive into a release: validated strictly, signed, packed, described by its own bytes."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from skillhub.archive import pack
from skillhub.errors import FormatError, Refused
from skillhub.flows.registry.opened import Opened
from skillhub.flows.signers import OwnKey, judged, own_key
from skillhub.model.capability import capabilities
from skillhub.model.digest import Digest
from skillhub.model.manifest import Manifest, problems
from skillhub.model.release import Index, Release
from skillhub.model.text import as_command, quote
from skillhub.model.tree import SIGNATURE, File, Tree
from skillhub.model.version import is_version
from skillhub.trust import oms
from skillhub.trust.judgement import judge
from skillhub.trust.publishers import Publisher, Verdict
from skillhub.world.local import named, read_local
from skillhub.world.publishers import Publishers


@dataclass(frozen=True, slots=True)
class Submission:
    """A release, its artifact, and the path that it was given by."""

    path: str
    release: Release
    artifact: bytes


def submit(
    path: str, hub: Opened, index: Index, publishers: Iterable[Publisher], mine: Publishers | None
) -> Submission:
    """Return the folder or archive at ``path`` as a release of the admitted publisher that signed it.

    Args:
        path: Where the skill is; what nobody signed is signed by the registry's own publisher.
        hub: The registry.
        index: What it offers.
        publishers: All that it admits.
        mine: Whom the operator trusts, which knows their own keys.

    Raises:
        FormatError: it is not as the specification wants it, or has no version.
        SecurityError: it is unsafe, or its signature is broken.
        Refused: it is signed by somebody who is not admitted, or not signed and there is no key.
        SourceError: nothing is there.
    """
    folder = os.path.basename(os.path.abspath(path)) if os.path.isdir(path) else None
    with named(path):
        tree = read_local(path, wrapper=False)[0].tree
        errors, _ = problems(tree, folder)
        if errors:
            raise FormatError(errors[0].message, where=errors[0].where)
        manifest = Manifest.read(tree, strict=True)
    if manifest.version is None or not is_version(manifest.version):
        hint = "published skills carry metadata.version, a version by SemVer 2.0.0"
        found = quote(manifest.version) if manifest.version else "none"
        raise FormatError(f"expected metadata.version, found {found}", where=path, hint=hint)
    owner, now = index.owner(manifest.name), hub.signing.now
    # The owner of the name comes first: two may share a key.
    first = owner or hub.settings.publisher
    signers = sorted(publishers, key=lambda publisher: publisher.name != first)
    with named(path):
        verdict = judge(_signed(tree, manifest.name, hub, path), signers, None, now)
    if verdict.status != "valid" or verdict.signer is None:
        with named(path):
            own = _own(tree, verdict, hub, mine) if mine else None
        message = f"expected a signature by {owner or 'a publisher that is admitted here'}, found another"
        raise Refused(message, where=path, hint=_admitting(verdict, owner, hub, own))
    artifact = pack(verdict.tree, "zip", hub.settings.compress)
    digest = Digest.of(artifact)
    release = Release(
        name=manifest.name,
        version=manifest.version,
        published=hub.signing.time,
        digest=digest,
        size=len(artifact),
        url=f"archives/{manifest.name}/{manifest.version}/{digest.hex}.zip",
        tree=verdict.tree.digest,
        publisher=verdict.signer.identity,
        description=manifest.description,
        requires=tuple(need.spell() for need in manifest.requires),
        capabilities=capabilities(verdict.tree, manifest),
    )
    return Submission(path, release, artifact)


def _own(tree: Tree, verdict: Verdict, hub: Opened, mine: Publishers) -> OwnKey | None:
    judged(tree, mine, None, hub.signing.now)  # a key of the operator's that it names must have made it
    return own_key(verdict.claim, mine)


def _admitting(verdict: Verdict, owner: str | None, hub: Opened, own: OwnKey | None) -> str:
    """Return what to type to admit whoever signed; what nobody here knows is left to be filled in."""
    command = partial(as_command, "skillhub", "registry", "delegate", hub.registry.path)
    offline = ("--keys", hub.signing.keys) if hub.signing.keys else ()
    if own is not None:
        return f"to admit your key {own.name}: {command(owner or own.name, '--key', own.path, *offline)}"
    signer, what = verdict.signer, "--key"
    if signer is not None and signer.kind == "sigstore":
        return f"a registry admits keys and certificates, not {signer.identity}; sign it with one"
    who = f"whoever signed it, said to be with the key in a PEM file of {verdict.claim}"
    if verdict.claim is None:
        who, what = signer.identity if signer else "whoever signed it", "--certificate"
    return f"to admit {who}: {command(owner or 'PUBLISHER', what, 'FILE', *offline)}"


def _signed(tree: Tree, name: str, hub: Opened, path: str) -> Tree:
    if SIGNATURE in tree:
        return tree
    own = hub.settings.publisher
    key = hub.keys.publisher(own)
    if key is None:
        hint = f"bring the key of {own}, or sign it: skillhub sign"
        raise Refused("a registry carries signed skills only, this one is not", where=path, hint=hint)
    return Tree({**tree, SIGNATURE: File(oms.sign(tree, name, key))})

"""The publishers that judge a signature: those that the user trusts, and those pinned for an installed skill."""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from dataclasses import replace
from datetime import datetime
from functools import lru_cache

from skillhub.formats.digest import Digest
from skillhub.model.lock import Locked, Signer
from skillhub.model.tree import Tree
from skillhub.project.user_state import OWN_SUFFIX, OwnKey, Publishers, Trusted
from skillhub.trust.publishers import Publisher, Verdict, certificates_of, judge

AGREED = "agreed to: "  # precedes the pinned key of a signer whom the user accepted for one skill and does not trust
_KEPT_AS = {"key": "keys", "certificate": "certificates", "sigstore": "identities"}


def trusted_publishers(publishers: Publishers) -> list[Publisher]:
    """Return the publishers that the user trusts.

    Raises:
        FormatError: a key, certificate or identity is malformed or cannot sign skills.
    """
    return list(map(_parsed, publishers.all().values()))


def judge_with_own_keys(
    tree: Tree, publishers: Publishers, source: str | None, now: datetime, locked: Collection[Digest] = ()
) -> tuple[Verdict, OwnKey | None]:
    """Return the verdict of ``judge`` on the tree's signature, and the user's own key if that made it.

    Without the public key, a signature by a bare key cannot be verified. The user's own public keys are on this
    machine: such a signature is verified, named and may be pinned, but stays ``untrusted`` until they trust the key.

    Raises:
        BadSignature, FormatError: as for ``judge``; the signature names an own key of the user that did not make it.
    """
    known = trusted_publishers(publishers)
    verdict = judge(tree, known, source, now, locked)
    own = own_key(verdict.claim, publishers)
    if own is None:
        return verdict, None
    own_publisher = _parsed(Trusted((publishers.read_own(own.path),), name=own.name))
    return replace(judge(tree, [*known, own_publisher], source, now, locked), status="untrusted"), own


def own_key(claim: Digest | None, publishers: Publishers) -> OwnKey | None:
    """Return the user's own key that a signature claims as its signer; ``judge_with_own_keys`` verifies the claim."""
    path = publishers.own(claim) if claim else None
    if path is None:
        return None
    name, pem = os.path.basename(path).removesuffix(OWN_SUFFIX), publishers.read_own(path)
    trusted = [each.name for each in publishers.all().values() if pem in each.keys]
    return OwnKey(trusted[0] if trusted else publishers.name_of_user() if name == "default" else name, path)


def pin_name(name: str, entry: Locked, root: Digest | None) -> Digest:
    """Return the name for the pin of a verified signer: a digest of the entry and of its registry's root.

    A signer pinned for one skill must not vouch for what a lock claims of another.
    """
    origin = [entry.url, entry.digest] if entry.git is None else [entry.git, entry.rev, entry.path]
    facts = [name, entry.source, root, entry.version, *origin, entry.tree, *entry.signed_by]
    return Digest.of(json.dumps(facts).encode())


def pinned(name: str, entry: Locked, root: Digest | None, publishers: Publishers) -> list[Publisher]:
    """Return the entry's signer if exactly this entry was verified on this machine before."""
    pem = publishers.pinned(pin_name(name, entry, root))
    if pem is None or not entry.signed_by:
        return []
    signer = Signer.parse(entry.signed_by[0])
    return [_parsed(Trusted(name=signer.identity, **{_KEPT_AS[signer.kind]: (pem.removeprefix(AGREED),)}))]


@lru_cache  # the same publishers judge each skill of a command
def _parsed(one: Trusted) -> Publisher:
    # While the user trusts no publisher, cryptography is not loaded.
    from skillhub.trust.keys import Identity, PublicKey  # noqa: PLC0415

    keys = tuple(PublicKey.load(pem.encode()) for pem in one.keys)
    certificates, identities = certificates_of(one.certificates), tuple(map(Identity.parse, one.identities))
    return Publisher(one.name, keys, certificates, one.sources, identities=identities)

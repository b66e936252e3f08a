"""What speaks against a locked release by what its registry says: withdrawn, its key revoked, its name moved.

No signature is looked at here, so that whoever only compares hashes need not load what verifies them.
"""

from __future__ import annotations

from skillhub.errors import BadSignature, NameNotOwned, SecurityError, Withdrawn
from skillhub.flows.hints import command
from skillhub.model.digest import Digest
from skillhub.model.lock import Locked
from skillhub.model.release import Admission, Index, Release
from skillhub.model.signer import Signer
from skillhub.model.skill import Scope
from skillhub.world.sources import Sources


def last_seen(name: str, root: Digest | None, sources: Sources) -> Index:
    """Return what the registry with this root last said of a locked skill; nothing of what is from no registry."""
    return sources.last_seen(root).index([name]) if root else Index({})


def locked_release(name: str, entry: Locked, said: Index) -> Release | None:
    """Return the release that the lock names, if it stands in what the registry says."""
    return next((each for each in said.skills.get(name, ()) if each.digest == entry.digest), None)


def admission(release: Release, said: Index) -> Admission | None:
    """Return what the registry admits the publisher of the release to; None if it is not at hand."""
    return said.admissions.get(release.publisher or "")


def objection(name: str, entry: Locked, said: Index) -> SecurityError | None:
    """Return why a locked release may not be used any more, or None."""
    release = locked_release(name, entry, said)
    if release is None:
        return None
    found = f"{name} {release.version}"
    if release.withdrawn is not None:
        reason = release.withdrawn or "no reason given"
        return Withdrawn(f"{found} was withdrawn by its registry: {reason}", where=entry.url)
    admitted = admission(release, said)
    if admitted is None:
        return None
    if name not in admitted.names:
        message = f"the registry has taken the name {name} from {admitted.publisher}, who published {found}"
        return NameNotOwned(message, where=entry.url)
    published = release.published or ""
    void = {each.fingerprint for each in admitted.revoked if not published or published >= each.since}
    for signer in map(Signer.parse, entry.signed_by):
        if signer.fingerprint in void:
            message = (
                f"{found} is signed by the key {signer.fingerprint}, which {admitted.publisher} has revoked"
            )
            return BadSignature("revoked", message, where=entry.url)
    return None


def _way_out(error: SecurityError, name: str, entry: Locked, said: Index, scope: Scope) -> str:
    remove = f"{command(scope, 'remove', name)} takes it out"
    if isinstance(error, NameNotOwned):
        return f"{remove}; whoever has the name now may be installed in its place then"
    others = (each for each in said.skills.get(name, ()) if each.digest != entry.digest)
    if not all(each.taken_back for each in others):
        return f"{command(scope, 'update', name)} takes another version, {remove}"
    return f"{remove}; its registry has no other version of it so far"


def refuse_recalled(name: str, entry: Locked, said: Index, scope: Scope) -> Release | None:
    """Return the release that a lock names, if its registry is known to have it.

    Raises:
        Withdrawn: the registry has withdrawn it.
        BadSignature: the registry has revoked the key or root that the lock says signed it.
        NameNotOwned: the registry has taken the name from its publisher.
    """
    if error := objection(name, entry, said):
        error.hint = _way_out(error, name, entry, said, scope)
        raise error
    return locked_release(name, entry, said)


def yanked(release: Release | None) -> tuple[str, ...]:
    """Return the warning about a locked release that was yanked, if no more than that: a lock still gives it."""
    if release is None or release.yanked is None or release.withdrawn is not None:
        return ()
    return (f"version {release.version} was {release.taken_back}",)

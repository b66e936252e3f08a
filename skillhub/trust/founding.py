"""What the documents of a new registry say, role by role: which keys count for what, and nothing offered yet."""

from __future__ import annotations

from tuf.api.metadata import (  # type: ignore[attr-defined]
    DelegatedRole,
    Delegations,
    Key,
    Root,
    Signed,
    Snapshot,
    SuccinctRoles,
    Targets,
    Timestamp,
)

from skillhub.trust.roles import LISTING, NAMESPACES, RELEASES, ROLES, ROOT, SNAPSHOT, TARGETS, TIMESTAMP
from skillhub.trust.signing import Keys, public_key


def founding(keys: Keys, bin_bits: int) -> dict[str, Signed]:
    """Return the first documents of a registry, by role, unsigned.

    Args:
        keys: All keys of every role.
        bin_bits: The releases are spread over two to the power of this many documents, 1 to 32.
    """
    public = [public_key(key.public) for key in keys(RELEASES)]
    bins = SuccinctRoles([key.keyid for key in public], ROLES[RELEASES].threshold, bin_bits, RELEASES)
    binned = Delegations({key.keyid: key for key in public}, succinct_roles=bins)
    return {
        ROOT: _root(keys),
        TARGETS: Targets(delegations=_delegations(keys)),
        NAMESPACES: Targets(),
        RELEASES: Targets(delegations=binned),
        LISTING: Targets(),
        **{role: Targets() for role in bins.get_roles()},
        SNAPSHOT: Snapshot(meta={}),
        TIMESTAMP: Timestamp(),
    }


def _root(keys: Keys) -> Root:
    root = Root(consistent_snapshot=True)
    for role in (ROOT, TARGETS, SNAPSHOT, TIMESTAMP):
        for key in keys(role):
            root.add_key(public_key(key.public), role)
        root.roles[role].threshold = ROLES[role].threshold
    return root


def _delegations(keys: Keys) -> Delegations:
    known: dict[str, Key] = {}
    roles = {}
    for role in (NAMESPACES, RELEASES, LISTING):
        rule, public = ROLES[role], [public_key(key.public) for key in keys(role)]
        known |= {key.keyid: key for key in public}
        keyids = [key.keyid for key in public]
        roles[role] = DelegatedRole(role, keyids, rule.threshold, terminating=True, paths=list(rule.paths))
    return Delegations(known, roles)

"""Verifying a skill's signature for somebody who trusts certain publishers."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime

from skillhub.model.digest import Digest
from skillhub.model.tree import SIGNATURE, Tree
from skillhub.trust.publishers import Publisher, Verdict


def judge(
    tree: Tree,
    publishers: Iterable[Publisher],
    source: str | None,
    now: datetime,
    locked: Collection[Digest] = (),
) -> Verdict:
    """Return what the signature of ``tree`` is worth to somebody who trusts ``publishers``.

    Args:
        tree: The skill, as unpacked.
        publishers: Whom the user or the registry vouches for; the first that fits names the signer.
        source: The alias or URL that the skill came from; ``None`` for a local path.
        now: The time, with its zone, that certificates must be valid at.
        locked: The trees that the lock has: for these alone an expired certificate is tolerated.

    Raises:
        BadSignature: the signature is malformed, does not fit the tree, was not made by whom it says, by a
            key that is ``revoked``, or with a certificate that is unsound or past its time
            (``certificate-expired``); or it is said to be by a Sigstore identity, and that is not proven
            (``sigstore``), if only for lack of the extra.
        FormatError: a trusted root that somebody pinned is none.
    """
    if SIGNATURE not in tree:
        return Verdict("unsigned", tree)
    # Where nothing is signed, nothing is loaded that verifies: cryptography takes 11 ms.
    from skillhub.trust import proof  # noqa: PLC0415

    return proof.judge(tree, tuple(publishers), source, now, locked)

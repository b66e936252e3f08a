"""The sources that a project proposes: what lock and intent say of them together."""

from __future__ import annotations

from skillhub.errors import SourceMismatch
from skillhub.model.lock import Lock, LockedSource
from skillhub.model.provenance import is_same_source

TYPE_CHECKING = False  # as type checkers know it; at run time it would load a parser of TOML
if TYPE_CHECKING:
    from skillhub.model.intent import Intent


def proposals(lock: Lock, intent: Intent) -> dict[str, LockedSource]:
    """Return them by alias; one of kind ``registry`` without a root may turn out to be a site.

    A registry is known by its root, so that the intent may say where it has moved to; a site is known by its URL.

    Raises:
        SourceMismatch: lock and intent give one alias to two sources.
    """
    found = dict(lock.sources)
    for alias, wanted in intent.sources.items():
        url, locked = wanted.url.rstrip("/"), lock.sources.get(alias)
        if locked is None:
            found[alias] = LockedSource(kind="registry", url=url, root=wanted.root)
            continue
        found[alias] = LockedSource(kind=locked.kind, url=url, root=wanted.root or locked.root)
        if not is_same_source(locked, found[alias]):
            root = f" with root {wanted.root}" if wanted.root else ""
            raise SourceMismatch(
                f"the lock has the source {alias} as {locked}; skillhub.toml names {url}{root}",
                hint=f"remove what is locked from {alias}, or correct [sources.{alias}]",
            )
    return found


def is_proposed(agreed: LockedSource, proposal: LockedSource) -> bool:
    """Say whether what was agreed to is what is proposed: the URL, and the root unless none was said."""
    if proposal.root is None and proposal.kind == "registry":
        return agreed.url == proposal.url
    return agreed == proposal

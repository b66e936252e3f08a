"""What policies may know of what is locked, without its bytes; ``admission`` judges those."""

from __future__ import annotations

import os
from collections.abc import Sequence

from skillhub.flows import signers
from skillhub.flows.ports import Ports
from skillhub.model.digest import Digest
from skillhub.model.lock import Locked, LockedSource
from skillhub.model.policy import Subject
from skillhub.model.ref import Local, parse_remote
from skillhub.model.signer import Signer
from skillhub.world.sources import Source


def of_entry(name: str, entry: Locked, can: Sequence[str], ports: Ports) -> Subject:
    """Return what policies may know of a locked skill without its bytes; ``can`` is what it was seen to be able to.

    The name of its signer counts: whoever agreed to the lock was shown whose it is.
    """
    signer = Signer.parse(entry.signed_by[0]) if entry.signed_by else None
    return Subject(
        name=name,
        root=_root(entry, ports),
        urls=(*urls_of(entry, ports), *_artifact(entry, ports)),
        signer=signer,
        vouched=True,
        known_as=names_of(signer, entry, ports) if signer else frozenset(),
        can=tuple(can),
    )


def names_of(signer: Signer, entry: Locked, ports: Ports) -> frozenset[str]:
    """Return the names under which this user trusts a signer, for where an entry is from, if a policy asks."""
    if not any(policy.publishers for policy in ports.policies.each):
        return frozenset()
    mine = ports.sources.mine()
    # Trust that is narrowed to a source of the user's is none in what a project calls so.
    source = None if entry.local else entry.source if not entry.named or entry.source in mine else ""
    trusted = signers.trusted(ports.publishers)
    return frozenset(
        each.name for each in trusted if signer.fingerprint in each.fingerprints and each.covers(source)
    )


def urls_of(entry: Locked, ports: Ports) -> tuple[str, ...]:
    """Return every place that a skill comes from: what was asked for, and the repository that this led to."""
    if entry.named:
        source = _source(entry, ports)
        return (source.url,) if source is not None else ()
    if entry.local:
        return (ports.url_of(Local(os.path.join(ports.project.base, entry.path or ""))),)
    asked = ports.url_of(parse_remote(entry.place))
    return tuple(dict.fromkeys((asked, entry.git or asked)))


def _artifact(entry: Locked, ports: Ports) -> tuple[str, ...]:
    """Return where a lock says that the artifact of a site is: nobody proves that the site ever named that place."""
    is_web = (entry.url or "").startswith(("https://", "http://"))
    return (entry.url,) if entry.url and is_web and _root(entry, ports) is None else ()


def _root(entry: Locked, ports: Ports) -> Digest | None:
    source = _source(entry, ports) if entry.named else None
    return source.root if source is not None else None


def _source(entry: Locked, ports: Ports) -> Source | LockedSource | None:
    """Return the source of a named entry as this user has it, else as the lock does."""
    return ports.sources.all().get(entry.source) or ports.project.lock().sources.get(entry.source)

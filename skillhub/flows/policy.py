"""What policies may know of what is locked, without its bytes; ``admission`` judges those."""

from __future__ import annotations

import os
from collections.abc import Sequence

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
    signers = [Signer.parse(each) for each in entry.signed_by]
    return Subject(
        name=name,
        root=_root(entry, ports),
        urls=(*urls_of(entry, ports), *_artifact(entry, ports)),
        signer=signers[0] if signers else None,
        vouched=True,
        can=tuple(can),
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

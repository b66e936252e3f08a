"""Trusting a registry: its first root is pinned, beforehand or by a person who reads its fingerprint."""

from __future__ import annotations

from skillhub.errors import SkillhubError, WrongBytes
from skillhub.flows.outcome import ask
from skillhub.flows.ports import Ports
from skillhub.model.digest import Digest
from skillhub.model.question import Question
from skillhub.world.sources import Source


def add_source(
    alias: str,
    url: str,
    root: bytes | None,
    fingerprint: Digest | None,
    ports: Ports,
    *,
    dry_run: bool = False,
) -> Source:
    """Add the registry at ``url``, once its metadata has been verified from the root that is trusted.

    Args:
        alias: What this user will call it.
        url: Its base.
        root: The bytes of its ``1.root.json``, had from elsewhere; None fetches what it shows.
        fingerprint: What that root must be; with neither, the person is shown the fingerprint and asked.
        ports: The world.
        dry_run: Ask nothing and add nothing.

    Raises:
        WrongBytes: the registry shows another root than the fingerprint names.
        Refused: nobody agreed to the fingerprint.
        SecurityError, SourceError, FormatError: as for opening it; it is not added then.
    """
    found = root if root is not None else ports.fetch_root(url)
    if fingerprint is not None and Digest.of(found) != fingerprint:
        raise WrongBytes(f"expected the root {fingerprint}, found {Digest.of(found)}", where=url)
    if dry_run:
        return Source(alias, url, Digest.of(found))
    if root is None and fingerprint is None:
        message = f"Trust the registry at {url} as {alias}, by the root that it shows now?"
        details = (f"root {Digest.of(found)}", "compare it with what whoever runs it tells elsewhere")
        ask([Question("root", alias, message, details)], ports)
    is_new = alias not in ports.sources.all()
    source = ports.sources.add(alias, url, found)
    try:
        ports.open(source)
    except SkillhubError:
        if is_new:
            ports.sources.remove(alias)
        raise
    return source

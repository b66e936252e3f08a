"""Trusting a registry: its first root is pinned, beforehand or by a person who reads its fingerprint."""

from __future__ import annotations

from dataclasses import dataclass

from skillhub.errors import NotFound, SkillhubError, UsageError, WrongBytes
from skillhub.flows.outcome import ask
from skillhub.flows.ports import Ports
from skillhub.flows.proposals import proposals
from skillhub.flows.standing import read_standing
from skillhub.model.digest import Digest
from skillhub.model.question import Question
from skillhub.model.text import quote
from skillhub.world.sources import Source, check


@dataclass(frozen=True, slots=True)
class Pin:
    """How a person said beforehand which root is meant: its bytes, its digest, or neither (then they are asked)."""

    root: bytes | None = None
    fingerprint: Digest | None = None


def add_source(alias: str, url: str, pin: Pin, ports: Ports, *, dry_run: bool = False) -> Source:
    """Add the registry at ``url``, once its metadata has been verified from the root that is trusted.

    Args:
        alias: What this user will call it.
        url: Its base.
        pin: Which root is meant.
        ports: The world.
        dry_run: Ask nothing and add nothing.

    Raises:
        UsageError: alias or URL are none.
        WrongBytes: the registry shows another root than the fingerprint names.
        Refused: nobody agreed to the fingerprint.
        SecurityError, SourceError, FormatError: as for opening it; it is not added then.
    """
    check(alias, url)
    root = _root(url, pin, ports)
    if dry_run:
        return Source(alias, url, Digest.of(root))
    if pin == Pin():
        _ask(alias, url, root, ports)
    is_new = alias not in ports.sources.all()
    return _opened(ports.sources.add(alias, url, root), ports, forget=is_new)


def trust_source(alias: str, pin: Pin, ports: Ports) -> Source:
    """Trust a source that this project proposes, or anew one whose registry started over with another root.

    What is locked from the registry as it was stays locked from it: that is refused until it is installed anew.

    Raises:
        NotFound: the user has no such source, and the project proposes none.
        UsageError: it is the embedded registry, which comes with the package.
        WrongBytes, Refused, SecurityError, SourceError, FormatError: as ``add_source``.
    """
    mine = ports.sources.all().get(alias)
    if mine is not None and mine.embedded:
        raise UsageError(f"{alias} is inside the package, and so is the trust in it")
    if mine is None:
        proposal = proposals(read_standing(ports), ports).get(alias)
        if proposal is None:
            hint = f"skillhub source add {alias} URL adds one"
            raise NotFound(f"no source is named {quote(alias)}, and this project proposes none", hint=hint)
        wanted = Pin(pin.root, pin.fingerprint or proposal.root)
        root = _root(proposal.url, wanted, ports)
        if pin == Pin():
            _ask(alias, proposal.url, root, ports)
        return _opened(ports.sources.add(alias, proposal.url, root), ports, forget=True)
    root = _root(mine.url, pin, ports)
    if Digest.of(root) == mine.root:
        return mine
    if pin == Pin():
        _ask(alias, mine.url, root, ports)
    ports.sources.remove(alias)
    try:
        return _opened(ports.sources.add(alias, mine.url, root), ports, forget=True)
    except SkillhubError:
        ports.sources.restore(mine)
        raise


def _root(url: str, pin: Pin, ports: Ports) -> bytes:
    found = pin.root if pin.root is not None else ports.fetch_root(url)
    if pin.fingerprint is not None and Digest.of(found) != pin.fingerprint:
        raise WrongBytes(f"expected the root {pin.fingerprint}, found {Digest.of(found)}", where=url)
    return found


def _ask(alias: str, url: str, root: bytes, ports: Ports) -> None:
    message = f"Trust the registry at {url} as {alias}, by the root that it shows now?"
    details = (f"root {Digest.of(root)}", "compare it with what whoever runs it tells elsewhere")
    ask([Question("root", alias, message, details)], ports)


def _opened(source: Source, ports: Ports, *, forget: bool) -> Source:
    try:
        ports.open(source)
    except SkillhubError:
        if forget:
            ports.sources.remove(source.alias)
        raise
    return source

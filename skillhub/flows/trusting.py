"""Add a source or trust one anew: its first root is pinned, beforehand or by a person who reads its fingerprint.

A well-known site that is no registry has none; a person agrees that nobody but whoever serves it vouches for it.
"""

from __future__ import annotations

from dataclasses import dataclass

from skillhub.errors import Forbidden, NotFound, TrustDowngrade, UsageError, WrongBytes
from skillhub.flows.offered import listing_of
from skillhub.flows.outcome import ask_person
from skillhub.flows.ports import Ports
from skillhub.flows.proposed import refuse_unsafe
from skillhub.flows.questions import first_root
from skillhub.flows.state import read_state
from skillhub.model.digest import Digest
from skillhub.model.proposals import is_proposed, proposals
from skillhub.model.question import Question
from skillhub.model.text import as_command, quote
from skillhub.world.embedded import EMBEDDED_URL, root_fingerprint
from skillhub.world.requester import Who
from skillhub.world.sources import Source, check


@dataclass(frozen=True, slots=True)
class Pin:
    """How a person said beforehand which root is meant: its bytes, its digest, or neither (then they are asked)."""

    root: bytes | None = None
    fingerprint: Digest | None = None

    @property
    def digest(self) -> Digest | None:
        """The digest of the root that is meant; None if nobody said."""
        return self.fingerprint if self.root is None else Digest.of(self.root)


def add_source(alias: str, url: str, pin: Pin, ports: Ports, *, dry_run: bool = False) -> Source:
    """Add the registry at ``url``, its metadata verified from the root that is trusted; or the site, if it is none.

    Args:
        alias: What this user will call it.
        url: Its base.
        pin: Which root is meant.
        ports: The world.
        dry_run: Ask nothing and add nothing.

    Raises:
        UsageError: alias or URL are none.
        Forbidden: a policy forbids the place; it was not asked then.
        WrongBytes: the registry shows another root than the fingerprint names.
        Refused: nobody agreed to the fingerprint, or to a site that has none.
        SourceMismatch: the alias is taken by another source.
        TrustDowngrade: there was a registry at this URL before, and now there is none.
        NotFound: there is neither a registry nor a site.
        SecurityError, SourceError, FormatError: as for opening it; it is not added then.
    """
    check(alias, url)
    if url == EMBEDDED_URL and pin == Pin():
        pin = Pin(fingerprint=root_fingerprint())  # who has the package has its word for what is in it
    return _add(alias, url, pin, pin == Pin(), ports, dry_run=dry_run)


def _add(alias: str, url: str, pin: Pin, is_asked: bool, ports: Ports, *, dry_run: bool = False) -> Source:
    _refuse(url, pin, ports)
    root = _root(url, pin, ports)
    source = ports.sources.meant(alias, url, root)
    question = _site(source, ports) if source.root is None else first_root(alias, url, source.root)
    if dry_run:
        return source
    if is_asked and ports.sources.mine().get(alias) != source:
        ask_person(question, ports)
    if root is not None:
        ports.open(source, root)
    return ports.sources.add(alias, url, root)


def trust_source(alias: str, pin: Pin, ports: Ports, *, dry_run: bool = False) -> Source:
    """Trust anew a source whose registry has another root, or has one now; or, in this project, one that it proposes.

    What is locked from the registry as it was stays locked from it: that is refused until it is installed anew. A dry
    run asks nothing and trusts nothing.

    Raises:
        NotFound: the user has no such source, and the project proposes none.
        UsageError: it is the embedded registry, which comes with the package.
        Forbidden: a policy forbids the place; it was not asked then.
        WrongBytes, Refused, SecurityError, SourceError, FormatError: as ``add_source``.
    """
    mine = ports.sources.mine().get(alias)
    if mine is not None and mine.embedded:
        hint = f"nothing is to be done; {as_command('skillhub', 'source', 'show', alias)} shows its root"
        raise UsageError(f"{alias} is inside the package, and so is the trust in it", hint=hint)
    if mine is None:
        return _trust_proposal(alias, pin, ports, dry_run=dry_run)
    _refuse(mine.url, pin, ports)
    root = _root(mine.url, pin, ports)
    if root is None:
        if mine.root is None:
            return mine
        raise TrustDowngrade(
            "expected a registry, found a site without metadata",
            where=mine.url,
            hint="somebody may have taken the metadata away; ask whoever runs it",
        )
    shown = Digest.of(root)
    if shown == mine.root:
        return mine
    source = ports.sources.meant(alias, mine.url, root, instead_of=mine)
    if dry_run:
        return source
    if pin == Pin():
        ask_person(first_root(alias, mine.url, shown), ports)
    ports.open(source, root)
    return ports.sources.add(alias, mine.url, root, instead_of=mine)


def _trust_proposal(alias: str, pin: Pin, ports: Ports, *, dry_run: bool) -> Source:
    """Let a source that the project proposes count in it; the user has it nowhere else.

    Raises:
        NotFound: the project proposes none of that alias.
        Forbidden, WrongBytes, Refused, SecurityError, SourceError, FormatError: as ``trust_source``.
    """
    state = read_state(ports)
    proposal = proposals(state.lock, state.intent).get(alias)
    if proposal is None:
        hint = f"{as_command('skillhub', 'source', 'add', alias, 'URL')} adds one"
        raise NotFound(f"no source is named {quote(alias)}, and this project proposes none", hint=hint)
    wanted = Pin(pin.root, pin.fingerprint or proposal.root)
    _refuse(proposal.url, wanted, ports)
    refuse_unsafe(alias, proposal.url)
    root = _root(proposal.url, wanted, ports, named_by="repository")
    source = ports.sources.proposed(alias, proposal.url, root)
    if not is_proposed(source.locked(), proposal):
        raise WrongBytes(
            f"the project says that {alias} is {proposal}, found {source.locked()}", where=proposal.url
        )
    if dry_run or ports.sources.all().get(alias) == source:
        return source
    if root is not None:
        if pin == Pin():
            ask_person(first_root(alias, proposal.url, Digest.of(root)), ports)
        ports.open(source, root)
    adopted = ports.sources.adopt(alias, proposal.url, root)
    ports.sources.keep()
    return adopted


def _refuse(url: str, pin: Pin, ports: Ports) -> None:
    """Refuse a place before it is asked: a policy that has its root alone permits it by nothing but that root.

    Raises:
        Forbidden: a line of a policy.
    """
    try:
        ports.may(url, pin.digest)
    except Forbidden as error:
        if pin.digest is None:
            error.hint = f"{error.hint}; where a line has the root of this registry: --fingerprint sha256:…"
        raise


def _root(url: str, pin: Pin, ports: Ports, *, named_by: Who = "person") -> bytes | None:
    """Return the root that is meant; None if none was said beforehand, and the site at ``url`` has none."""
    try:
        found = pin.root if pin.root is not None else ports.fetch_root(url, pin.digest, named_by=named_by)
    except NotFound:
        if pin.fingerprint is not None:
            raise
        return None
    if pin.fingerprint is not None and Digest.of(found) != pin.fingerprint:
        raise WrongBytes(
            f"expected the root {pin.fingerprint}, found {Digest.of(found)}",
            where=url,
            hint="compare both with what whoever runs the registry gives out, elsewhere than there",
        )
    return found


def _site(source: Source, ports: Ports) -> Question:
    offered = listing_of(source, ports)
    count = len(offered.skills)
    message = (
        f"{source.url} is no registry: nobody but whoever serves it vouches for it. Add it as {source.alias}?"
    )
    details = (
        f"it offers {count} {'skill' if count == 1 else 'skills'}; the lock will pin what is installed",
        *offered.warnings,
    )
    return Question("unsigned", source.alias, message, details)

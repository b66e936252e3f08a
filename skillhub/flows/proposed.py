"""Sources that a repository proposes to a user who does not have them."""

from __future__ import annotations

from collections.abc import Iterable

from skillhub.errors import NotFound, SourceMismatch, UnsafeTransfer, WrongBytes
from skillhub.flows.outcome import ask
from skillhub.flows.ports import Ports
from skillhub.flows.questions import first_root, propose_source
from skillhub.flows.state import State
from skillhub.model.digest import Digest
from skillhub.model.lock import LockedSource
from skillhub.model.question import Asked, Question
from skillhub.model.text import as_command
from skillhub.world.embedded import EMBEDDED_URL
from skillhub.world.hop import Hop


def proposed_sources(state: State, ports: Ports) -> dict[str, LockedSource]:
    """Return the sources of intent and lock that this user does not have, by alias.

    Raises:
        Forbidden: a policy forbids one.
    """
    known = ports.sources.all()
    wanted = {
        alias: LockedSource(kind="registry", url=source.url.rstrip("/"), root=source.root)
        for alias, source in state.intent.sources.items()
    }
    every = {**wanted, **state.lock.sources}
    proposed = {alias: each for alias, each in every.items() if alias not in known}
    for each in proposed.values():
        ports.may(each.url, each.root)
    return proposed


def about_sources(proposed: dict[str, LockedSource]) -> list[Question]:
    """Return one question for each proposal."""
    return [propose_source(alias, source) for alias, source in proposed.items()]


def add_sources(proposed: dict[str, LockedSource], asked: Iterable[Asked], ports: Ports) -> None:
    """Add those that were agreed to, each by the root that the repository names, or by the one that a person sees.

    Raises:
        SourceError, SecurityError: the source cannot be reached, or shows signs of tampering; it is not added then.
        Refused: nobody agreed to a root that the repository does not name.
        WrongBytes: it answers with another root.
        SourceMismatch, TrustDowngrade: what is to be a site that nobody vouches for is a registry, or was one.
        UnsafeTransfer: its URL is none, or is not https; only a person may choose that.
    """
    agreed = {
        question.skill
        for question, answer in asked
        if question.kind in ("source", "root") and answer.said == "yes"
    }
    for alias, source in proposed.items():  # in the order in which they were asked about
        if alias not in agreed:
            continue
        if not _is_safe(source.url):
            hint = f"if that is meant: skillhub source add {alias} URL"
            raise UnsafeTransfer("a repository may propose https alone", where=source.url, hint=hint)
        if source.kind == "well-known":
            _adopt_site(alias, source.url, ports)
            continue
        root = ports.fetch_root(source.url, source.root)
        if source.root is None:
            ask([first_root(alias, source.url, Digest.of(root))], ports)
        elif Digest.of(root) != source.root:
            raise WrongBytes(f"expected the root {source.root}, found {Digest.of(root)}", where=source.url)
        ports.open(ports.sources.meant(alias, source.url, root), root)
        ports.sources.add(alias, source.url, root)


def _is_safe(url: str) -> bool:
    """Say whether a repository may propose what is there: over https, on this machine, or inside the package."""
    if url == EMBEDDED_URL:
        return True
    hop = Hop.parse(url)
    return hop.scheme == "https" or hop.loopback


def _adopt_site(alias: str, url: str, ports: Ports) -> None:
    try:
        ports.fetch_root(url)
    except NotFound:
        ports.sources.add(alias, url, None)
        return
    add = as_command("skillhub", "source", "add", alias, url)
    raise SourceMismatch(
        f"the lock takes {alias} for a site that nobody vouches for; it is a registry",
        where=url,
        hint=f"remove what is locked from it, add it with {add}, and install anew",
    )

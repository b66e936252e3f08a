"""Sources that a project proposes to a user who does not have them: for that project alone, and never by ``--yes``.

A site without a root vouches for nothing: nobody is asked about it, and what is locked from it is fetched by digest
and asked about as unsigned.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from skillhub.errors import NotFound, SourceMismatch, UnsafeTransfer, UsageError, WrongBytes
from skillhub.flows.options import Options
from skillhub.flows.outcome import ask
from skillhub.flows.ports import Ports
from skillhub.flows.questions import first_root, propose_source
from skillhub.flows.state import State
from skillhub.model.digest import Digest
from skillhub.model.lock import LockedSource
from skillhub.model.proposals import proposals
from skillhub.model.question import YES, Asked
from skillhub.model.ref import Named, Ref
from skillhub.model.text import as_command
from skillhub.world.embedded import EMBEDDED_URL
from skillhub.world.hop import RequestTarget

Trusted = Mapping[
    str, Digest
]  # by alias the root that a person said beforehand: ``--trust-source NAME=sha256:…``


def needed_by(refs: Sequence[Ref], state: State) -> Collection[str] | None:
    """Return the sources that have to count for these references, by alias; None if every one of them has to."""
    found: set[str] = set()
    for ref in refs:
        if not isinstance(ref, Named):
            continue
        entry, wanted = state.lock.skills.get(ref.name), state.intent.skills.get(ref.name)
        alias = ref.source or (entry.source if entry else wanted.source if wanted else None)
        if alias is None:
            return None
        found.add(alias)
    return found if refs else None


def settle_sources(
    state: State, needed: Collection[str] | None, options: Options, ports: Ports
) -> tuple[list[Asked], list[str]]:
    """Ask about the registries that the project proposes, and let them and its sites count in the project.

    Args:
        state: What is locked and wanted.
        needed: The aliases that the command is about; None for all.
        options: What was agreed to beforehand. In a dry run nothing is made to count.
        ports: The world.

    Returns:
        The questions with their answers, and the sources that do not count for all that: it is a dry run.

    Raises:
        UsageError: ``trusted`` names a source that nobody here proposes.
        SourceMismatch: it has another root than the project says; lock and intent disagree; a site is a registry.
        Forbidden: a policy forbids one.
        UnsafeTransfer: a URL is none, or is not https; only a person may choose that.
        Refused: nobody agreed to one.
        WrongBytes: it answers with another root.
        SourceError, SecurityError: it cannot be reached, or shows signs of tampering; it does not count then.
    """
    _check(options.trusted, state, ports)
    proposed = {
        alias: source
        for alias, source in proposed_sources(state, ports).items()
        if needed is None or alias in needed
    }
    for alias, source in proposed.items():
        refuse_unsafe(alias, source.url)
    asked = _asked(proposed, options, ports)
    if options.dry_run:
        return asked, [*proposed]
    for alias, source in proposed.items():  # in the order in which they were asked about
        if source.kind == "well-known":
            _adopt_site(alias, source.url, ports)
        else:
            _adopt_registry(alias, source, options.trusted.get(alias), ports)
    return asked, []


def proposed_sources(state: State, ports: Ports) -> dict[str, LockedSource]:
    """Return the sources of intent and lock by alias that this user neither has nor agreed to for this project.

    Raises:
        SourceMismatch: intent and lock disagree about one.
        Forbidden: a policy forbids one.
    """
    known = ports.sources.all()
    every = proposals(state.lock, state.intent)
    proposed = {alias: each for alias, each in every.items() if alias not in known}
    for each in proposed.values():
        ports.may(each.url, each.root)
    return proposed


def _check(trusted: Trusted, state: State, ports: Ports) -> None:
    """Return if what a person said beforehand is about sources that are here, and have these roots."""
    known, every = ports.sources.all(), proposals(state.lock, state.intent)
    for alias, root in trusted.items():
        source = known[alias].locked() if alias in known else every.get(alias)
        if source is None:
            hint = f"it proposes {', '.join(every)}" if every else "it proposes none"
            raise UsageError(f"--trust-source: this project proposes no source named {alias}", hint=hint)
        if source.kind == "well-known" or source.root not in (None, root):
            message = f"--trust-source expects {alias} to have the root {root}, found {source}"
            raise SourceMismatch(message, hint="compare both with what whoever runs the registry gives out")


def _asked(proposed: Mapping[str, LockedSource], options: Options, ports: Ports) -> list[Asked]:
    questions = [
        (propose_source(alias, each), each) for alias, each in proposed.items() if each.kind == "registry"
    ]
    open_ = [
        question for question, each in questions if not _is_said(question.skill, each, options.trusted, ports)
    ]
    answered = {question.skill: answer for question, answer in ask(open_, ports, options.dry_run)}
    return [(question, answered.get(question.skill, YES)) for question, _ in questions]


def _is_said(alias: str, source: LockedSource, trusted: Trusted, ports: Ports) -> bool:
    """Say whether the flag or a policy of the machine or the user agrees to a registry, by its root."""
    if source.root is None:  # the root that it shows has to be the one that was said
        return alias in trusted
    return trusted.get(alias) == source.root or ports.policies.trusts_source(alias, source.root)


def _adopt_registry(alias: str, source: LockedSource, said: Digest | None, ports: Ports) -> None:
    root = ports.fetch_root(source.url, source.root or said, named_by="repository")
    shown, expected = Digest.of(root), source.root or said
    if expected is None and not ports.policies.trusts_source(alias, shown):
        ask([first_root(alias, source.url, shown, f"--trust-source {alias}={shown}")], ports)
    elif expected not in (None, shown):
        raise WrongBytes(f"expected the root {expected}, found {shown}", where=source.url)
    ports.open(ports.sources.proposed(alias, source.url, root), root)
    ports.sources.adopt(alias, source.url, root)


def refuse_unsafe(alias: str, url: str) -> None:
    """Return if a repository may propose what is there: over https, on this machine, or inside the package.

    Raises:
        UnsafeTransfer: it is none of them; only a person may choose that.
    """
    if url == EMBEDDED_URL:
        return
    target = RequestTarget.parse(url)
    if target.scheme != "https" and not target.loopback:
        hint = f"if that is meant: {as_command('skillhub', 'source', 'add', alias, 'URL')}"
        raise UnsafeTransfer("a repository may propose https alone", where=url, hint=hint)


def _adopt_site(alias: str, url: str, ports: Ports) -> None:
    try:
        ports.fetch_root(url, named_by="repository")
    except NotFound:
        ports.sources.adopt(alias, url, None)
        return
    add = as_command("skillhub", "source", "add", alias, url)
    raise SourceMismatch(
        f"the lock takes {alias} for a site that nobody vouches for; it is a registry",
        where=url,
        hint=f"remove what is locked from it, add it with {add}, and install anew",
    )

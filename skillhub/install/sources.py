"""Add and trust sources; sources that a project proposes; what all of them list."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from skillhub import sources as sources_room
from skillhub.errors import (
    Forbidden,
    FormatError,
    NotFound,
    SourceError,
    SourceMismatch,
    TrustDowngrade,
    UnsafeTransfer,
    UsageError,
    WrongBytes,
)
from skillhub.formats.digest import Digest
from skillhub.formats.text import as_command, command, quote, word
from skillhub.install.context import Options, Ports, State, ask, ask_person, read_state
from skillhub.model import mcp_server
from skillhub.model.index import Index, Release
from skillhub.model.lock import LockedSource
from skillhub.model.question import YES, Asked, Question
from skillhub.model.reference import Local, Mcp, McpConfigured, Named, Ref, parse_ref
from skillhub.net.target import RequestTarget, Who
from skillhub.project import mcp
from skillhub.project.intent import is_proposed, place_at, proposals
from skillhub.sources.configured import EMBEDDED_URL, Source, check, root_fingerprint
from skillhub.sources.history import KeptListing

# Sources that a project proposes to a user who does not have them: for that project alone, and never by ``--yes``.
# A site without a root vouches for nothing: there is no question about it; what is locked from it is fetched by
# digest and asked about as unsigned.

_TRUSTING = "--trust-source {}=sha256:… with the fingerprint that its operator publishes elsewhere"
Trusted = Mapping[str, Digest]  # by alias the root that a person said beforehand: ``--trust-source NAME=sha256:…``


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
        ports: What the command works with.

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
        alias: source for alias, source in proposed_sources(state, ports).items() if needed is None or alias in needed
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
        ports.check_allowed(each.url, each.root)
    return proposed


def _check(trusted: Trusted, state: State, ports: Ports) -> None:
    """Return if what a person said beforehand is about sources that are here, and have these roots."""
    known, every = ports.sources.all(), proposals(state.lock, state.intent)
    for alias, root in trusted.items():
        source = known[alias].locked() if alias in known else every.get(alias)
        if source is None:
            new = [name for name, each in every.items() if name not in known and each.kind == "registry"]
            hint = f"it proposes {', '.join(new)}" if new else "it proposes none that you do not have"
            raise UsageError(f"--trust-source: this project proposes no source named {alias}", hint=hint)
        if source.kind == "well-known" or source.root not in (None, root):
            message = f"--trust-source expects {alias} to have the root {root}, found {source}"
            raise SourceMismatch(message, hint="compare both with the root that the operator publishes")


def _asked(proposed: Mapping[str, LockedSource], options: Options, ports: Ports) -> list[Asked]:
    questions = [(propose_source(alias, each), each) for alias, each in proposed.items() if each.kind == "registry"]
    open_ = []
    for question, each in questions:
        alias, trusted = question.skill, options.trusted
        # A proposal without a root has to show the one that was named beforehand.
        is_trusted = alias in trusted if each.root is None else trusted.get(alias) == each.root
        if not (is_trusted or (each.root is not None and ports.policies.trusts_source(alias, each.root))):
            open_.append(question)
    answered = {question.skill: answer for question, answer in ask(open_, ports, options.dry_run)}
    return [(question, answered.get(question.skill, YES)) for question, _ in questions]


def _adopt_registry(alias: str, source: LockedSource, said: Digest | None, ports: Ports) -> None:
    root = ports.fetch_root(source.url, source.root or said, named_by="repository")
    shown, expected = Digest.of(root), source.root or said
    if expected is None and not ports.policies.trusts_source(alias, shown):
        ask([first_root(alias, source.url, shown, _TRUSTING.format(alias))], ports)
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
        hint = f"if that is intended: {as_command('skillhub', 'source', 'add', alias, 'URL')}"
        raise UnsafeTransfer("a repository may propose only https URLs", where=url, hint=hint)


def _adopt_site(alias: str, url: str, ports: Ports) -> None:
    try:
        ports.fetch_root(url, named_by="repository")
    except NotFound:
        ports.sources.adopt(alias, url, None)
        return
    add = as_command("skillhub", "source", "add", alias, url)
    raise SourceMismatch(
        f"the lock has {alias} as a site without signed metadata; it is a registry",
        where=url,
        hint=f"remove its skills from the lock, add it with {add}, and install again",
    )


# Add a source or trust one anew: its first root is pinned, beforehand or by a person who reads its fingerprint.
# A well-known site that is no registry has none; a person agrees that only its server vouches for it.


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
    """Add the registry at ``url``, its metadata verified from the root that is trusted; or what else is there.

    Args:
        alias: What this user will call it.
        url: Its base, or a reference to a repository, a folder, an OCI artifact or an MCP server.
        pin: Which root is meant.
        ports: What the command works with.
        dry_run: Ask nothing and add nothing.

    Raises:
        UsageError: alias or URL are none.
        Forbidden: a policy forbids the place; it was not asked then.
        WrongBytes: the registry shows another root than the fingerprint names.
        Refused: nobody agreed to the fingerprint, or to a source that has none.
        SourceMismatch: the alias is taken by another source.
        TrustDowngrade: there was a registry at this URL before, and now there is none.
        NotFound: there is neither a registry nor a site.
        SecurityError, SourceError, FormatError: as for opening it; it is not added then.
    """
    url = _in_full(url, ports)
    check(alias, url)
    if place_at(url) is not None:
        return _add_place(alias, url, pin, ports, dry_run)
    if url == EMBEDDED_URL and pin == Pin():
        pin = Pin(fingerprint=root_fingerprint())  # who has the package has its word for what is in it
    _refuse(url, pin, ports)
    root = _root(url, pin, ports)
    source = ports.sources.meant(alias, url, root)
    question = _rootless(source, ports) if source.root is None else first_root(alias, url, source.root)
    if dry_run:
        return source
    if pin == Pin() and ports.sources.mine().get(alias) != source:
        ask_person(question, ports)
    if root is not None:
        ports.open(source, root)
    return ports.sources.add(alias, url, root)


def _in_full(text: str, ports: Ports) -> str:
    """Return how the URL of a source is kept: a reference in full, a folder by its absolute path."""
    if text == EMBEDDED_URL or (text.lower().startswith(("https://", "http://")) and place_at(text) is None):
        return text
    ref = parse_ref(text)
    if isinstance(ref, McpConfigured):
        ref, named_by = configured(ref, ports)
        if named_by != "person":
            message = f"only a file of this project says which server {quote(text)} is"
            raise UsageError(message, hint=f"if you trust it, name it by its URL: {ref}")
    if isinstance(ref, Local):
        full = os.path.abspath(os.path.expanduser(ref.path))
        if not os.path.isdir(full):
            raise NotFound("expected a folder of skills", where=ref.path)
        if os.path.lexists(os.path.join(full, "metadata", "1.root.json")):
            hint = "add the URL that it mirrors, and the folder under [mirrors] in config.toml"
            raise UsageError("expected a folder of skills, found a registry", where=ref.path, hint=hint)
        return full
    return text if isinstance(ref, Named) else str(ref)


def _add_place(alias: str, url: str, pin: Pin, ports: Ports, dry_run: bool) -> Source:
    if pin != Pin():
        raise UsageError(f"{quote(url)} is not a registry: it has no root", hint="leave --root and --fingerprint out")
    source = ports.sources.meant(alias, url, None)
    if ports.sources.mine().get(alias) == source:
        return source
    ports.check_allowed(ports.url_of(source.ref))
    question = _rootless(source, ports)
    if not dry_run:
        ask_person(question, ports)
        ports.sources.add(alias, url, None)
        ports.listing(source, refresh=True)  # what was read for the question; now it is kept
    return source


def suggested() -> Mapping[str, Mapping[str, str]]:
    """Return well-known public repositories by the alias that is proposed; none of them is vouched for.

    Each has its ``url``, and where its skills are signed the URL of the ``certificate``, which a person has to trust.
    """
    with open(os.path.join(os.path.dirname(sources_room.__file__), "suggested.json"), encoding="utf-8") as file:
        return dict(json.load(file))


def configured(ref: McpConfigured, ports: Ports) -> tuple[Mcp, Who]:
    """Return the server that an agent's configuration has under a name, and who named its URL.

    Raises:
        NotFound: none has that name.
        UsageError: it is started by a command, or two that have it differ, or its URL cannot be used.
        FormatError, StateError: a configuration cannot be read.
    """
    project, place = ports.project, (ports.project.base, ports.user_home, ports.environ)
    entries = [*mcp.configured(ref.name, project.scope, *place)]
    urls = {mcp_server.url_of(each): file.scope for file, each in entries}
    named = ", ".join(file.path for file, _ in entries)
    if not entries:
        hint = "mcp+https://host/mcp names a server by its URL"
        raise NotFound(f"no agent's configuration has an MCP server {ref.name}", hint=hint)
    if "" in urls:
        hint = command(project.scope, "mcp", "check", ref.name)
        message = f"{ref.name} is started by a command, and install starts none"
        raise UsageError(message, where=named, hint=f"to see what it serves: {hint}")
    if len(urls) > 1:
        raise UsageError(
            f"{ref.name} has several URLs", where=named, hint="give the one that is meant: mcp+https://…"
        )
    ((url, scope),) = urls.items()
    found = parse_ref(f"mcp+{url}")
    if not isinstance(found, Mcp):
        raise UsageError(f"expected the URL of an MCP server, found {quote(url)}", where=named)
    return found, "person" if scope == "user" else "repository"


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
        hint = f"nothing to do; {as_command('skillhub', 'source', 'show', alias)} shows its root"
        raise UsageError(f"{alias} is inside the package and always trusted", hint=hint)
    if mine is None:
        return _trust_proposal(alias, pin, ports, dry_run=dry_run)
    if mine.place is not None:
        hint = (
            "a signer of its skills is trusted with skillhub publisher trust NAME --key FILE (or --certificate FILE)"
        )
        raise UsageError(f"{alias} is {mine.place}, which has no root that could be trusted", hint=hint)
    _refuse(mine.url, pin, ports)
    root = _root(mine.url, pin, ports)
    if root is None:
        if mine.root is None:
            return mine
        raise TrustDowngrade(
            "expected a registry, found a site without metadata",
            where=mine.url,
            hint="the metadata may have been removed; ask its operator",
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
        raise WrongBytes(f"the project says that {alias} is {proposal}, found {source.locked()}", where=proposal.url)
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
        ports.check_allowed(url, pin.digest)
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
            hint="compare both with the root that the operator publishes elsewhere",
        )
    return found


def _rootless(source: Source, ports: Ports) -> Question:
    offered = ports.reach(source.ref).index()
    count = len(offered.skills)
    vouches = "no signature" if source.place else "only its server"
    message = (
        f"{word(source.url)} is not a registry: {vouches} protects its list of skills. Add it as {source.alias}?"
    )
    details = (
        *offered.warnings,
        f"it offers {count} {'skill' if count == 1 else 'skills'}; each is asked about when it is installed",
    )
    return Question("place", source.alias, message, details)


@dataclass(frozen=True, slots=True)
class Listings:
    """What all sources list, a warning for each that could not be asked, and what is kept of places."""

    each: tuple[tuple[Source, Index], ...] = ()
    warnings: tuple[str, ...] = ()
    kept: Mapping[str, KeptListing] = field(default_factory=dict)

    def releases(self) -> tuple[Release, ...]:
        """Return the newest release of each skill of each source that one may choose, by name.

        The source's alias stands where a plugin's name would; ``reference`` takes it from there.
        """
        found = (
            replace(chosen, plugin=source.alias)
            for source, listing in self.each
            for releases in listing.skills.values()
            if (chosen := next((each for each in releases if not each.taken_back), None))
        )
        return tuple(sorted(found, key=lambda each: (each.name, each.plugin or "")))


def reference(picked: Release) -> Named:
    """Return what names a release that ``Listings.releases`` gave."""
    return Named(picked.name, picked.plugin)


def listings(ports: Ports, text: str = "", *, needed: bool = True) -> Listings:
    """Return the listing of every source that can be asked and that no policy forbids; others are told of.

    Args:
        ports: What the command works with.
        text: What a person looks for; of a large registry, only what may be meant is listed.
        needed: There is nothing else to choose from, so that one source at least has to answer.

    Raises:
        SourceError, Forbidden: none can be asked, and that is ``needed``.
        SecurityError: a source shows signs of tampering.
        FormatError: a listing is malformed.
        StateError: the disk refuses.
    """
    found, warnings, failed, places = [], [], None, {}
    for alias, source in ports.sources.all().items():
        try:
            found.append((source, ports.listing(source, text)))
            warnings += [f"{alias}: {each}" for each in found[-1][1].warnings if source.root]
            if (kept := ports.sources.kept_listing(source)) is not None:
                places[alias] = kept
        except (SourceError, FormatError, Forbidden) as error:
            if isinstance(error, FormatError) and source.place is None:
                raise
            failed = error
            warnings.append(f"{alias} was left out: {error.message}")
    if needed and failed is not None and not found:
        raise failed
    return Listings(tuple(found), tuple(warnings), places)


def propose_source(alias: str, source: LockedSource) -> Question:
    """Return the question about a registry that a project brings and this user does not have."""
    root = f"root {source.root}" if source.root else "the project names no root for it"
    compare = "it decides who signs its skills; compare the root with the one that its operator publishes elsewhere"
    message = f"This project brings the registry {alias}, which you do not have; trust it in this project?"
    details = (compare, f"url {word(source.url)}", root)
    return Question("source" if source.root else "root", alias, message, details, _TRUSTING.format(alias))


def first_root(alias: str, url: str, root: Digest, subject: str = "") -> Question:
    """Return the question about a registry's root that nobody named beforehand; ``subject`` is what would name it."""
    message = f"Trust the registry at {word(url)} as {alias}, by the root that it shows now?"
    details = ("compare it with the root that its operator publishes elsewhere", f"root {root}")
    return Question("root", alias, message, details, subject)

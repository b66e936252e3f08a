"""Which sources a user trusts: add one, trust it again, adopt those that a project proposes; the listings of all."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from skillhub import errors
from skillhub.command.ports import Options, Ports, ask, ask_person
from skillhub.command.state import State, read_state
from skillhub.errors import Forbidden, FormatError, NotFound, SourceError, SourceMismatch, UsageError, WrongBytes
from skillhub.formats.digest import Digest
from skillhub.formats.text import amount, as_command, command, is_alias, packaged, quote, word
from skillhub.model import mcp_server
from skillhub.model.index import Index, Release
from skillhub.model.lock import LockedSource
from skillhub.model.question import YES, Asked, Question
from skillhub.model.reference import Local, Mcp, McpConfigured, Named, Ref, parse_ref
from skillhub.net.fetch import Who
from skillhub.net.target import RequestTarget
from skillhub.project import mcp_config
from skillhub.project.intent import is_proposed, place_at
from skillhub.project.project import proposals
from skillhub.sources.configured import EMBEDDED_URL, Source, check, root_fingerprint
from skillhub.sources.history import KeptListing

# Sources that a project proposes to a user who does not have them: for that project alone, and never by ``--yes``.
# A site without a root vouches for nothing, so there is no question about it; its locked skills are fetched by
# digest, and the user is asked about each as unsigned.

_TRUSTING = "--trust-source {}=sha256:… with the fingerprint that its operator publishes elsewhere"
ExpectedRoots = Mapping[str, Digest]  # by alias the expected root: ``--trust-source NAME=sha256:…``


def needed_by(refs: Sequence[Ref], state: State) -> Collection[str] | None:
    """Return the aliases of the sources that these references need; None if they need all sources."""
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


def ask_and_adopt_sources(
    state: State, needed: Collection[str] | None, options: Options, ports: Ports
) -> tuple[list[Asked], str]:
    """Ask about the registries that the project proposes, and adopt them and its sites for this project.

    Args:
        state: Lock, intent and records.
        needed: The aliases that the command needs; None for all.
        options: ``trusted`` has the expected roots; a dry run adopts nothing.
        ports: The ports of the command.

    Returns:
        The questions with their answers, and the note about the sources that a dry run did not adopt.

    Raises:
        UsageError: ``trusted`` names a source that the project does not propose.
        SourceMismatch: ``trusted`` and the project name different roots; lock and intent disagree; a site of the lock
            is a registry.
        Forbidden: a policy forbids a source.
        UnsafeTransfer: a URL is malformed or not https; only a person may choose that.
        Refused: a question was not answered, or with no.
        WrongBytes: the registry has another root.
        SourceError, SecurityError: a source cannot be reached, or shows signs of tampering; it is not adopted.
    """
    _check_trusted(options.trusted, state, ports)
    every = proposed_sources(state, ports)
    proposed = {alias: each for alias, each in every.items() if needed is None or alias in needed}
    for alias, source in proposed.items():
        refuse_unsafe(alias, source.url)
    asked = _ask_about(proposed, options, ports)
    if options.dry_run:
        names = ", ".join(proposed)
        return asked, f"you do not have the source {names}; its skills are not known yet" if proposed else ""
    for alias, source in proposed.items():  # in the order of the questions
        if source.kind == "well-known":
            _adopt_site(alias, source.url, ports)
        else:
            _adopt_registry(alias, source, options.trusted.get(alias), ports)
    return asked, ""


def proposed_sources(state: State, ports: Ports) -> dict[str, LockedSource]:
    """Return by alias the sources of intent and lock that this user neither has nor agreed to for this project.

    Raises:
        SourceMismatch: intent and lock disagree about a source.
        Forbidden: a policy forbids a source.
    """
    known = ports.sources.all()
    every = proposals(state.lock, state.intent)
    proposed = {alias: each for alias, each in every.items() if alias not in known}
    for each in proposed.values():
        ports.check_allowed(each.url, each.root)
    return proposed


def _check_trusted(trusted: ExpectedRoots, state: State, ports: Ports) -> None:
    """Raise if ``--trust-source`` names an unknown source, or another root than the source has."""
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


def _ask_about(proposed: Mapping[str, LockedSource], options: Options, ports: Ports) -> list[Asked]:
    questions = [(propose_source(alias, each), each) for alias, each in proposed.items() if each.kind == "registry"]
    open_ = []
    for question, each in questions:
        alias, trusted = question.skill, options.trusted
        # A registry that is proposed without a root must have the one of ``--trust-source``.
        is_trusted = alias in trusted if each.root is None else trusted.get(alias) == each.root
        if not (is_trusted or (each.root is not None and ports.policies.trusts_source(alias, each.root))):
            open_.append(question)
    answered = {question.skill: answer for question, answer in ask(open_, ports, options.dry_run)}
    return [(question, answered.get(question.skill, YES)) for question, _ in questions]


def _adopt_registry(alias: str, source: LockedSource, trusted_root: Digest | None, ports: Ports) -> None:
    root = ports.fetch_root(source.url, source.root or trusted_root, named_by="repository")
    shown, expected = Digest.of(root), source.root or trusted_root
    if expected is None and not ports.policies.trusts_source(alias, shown):
        ask([first_root(alias, source.url, shown, _TRUSTING.format(alias))], ports)
    elif expected not in (None, shown):
        raise WrongBytes(f"expected the root {expected}, found {shown}", where=source.url)
    ports.open_registry(ports.sources.proposed(alias, source.url, root), root)
    ports.sources.adopt(alias, source.url, root)


def refuse_unsafe(alias: str, url: str) -> None:
    """Refuse a URL that a repository must not propose: it is neither https, nor of this machine, nor embedded.

    Raises:
        UnsafeTransfer: only a person may choose such a URL.
    """
    if url == EMBEDDED_URL:
        return
    if RequestTarget.parse(url).is_plain:
        hint = f"if that is intended: {as_command('skillhub', 'source', 'add', alias, 'URL')}"
        raise errors.UnsafeTransfer("a repository may propose only https URLs", where=url, hint=hint)


def _adopt_site(alias: str, url: str, ports: Ports) -> None:
    try:
        ports.fetch_root(url, named_by="repository")
    except NotFound:
        ports.sources.adopt(alias, url, None)
        return
    add = as_command("skillhub", "source", "add", alias, url)
    message = f"the lock has {alias} as a site without signed metadata; it is a registry"
    raise SourceMismatch(message, where=url, hint=f"remove its skills from the lock, then: {add}, and install again")


# Add a source or trust one again: its first root is pinned, by an option or by a person who compares its fingerprint.
# A site that is no registry has no root; a person agrees that only its server vouches for it.


@dataclass(frozen=True, slots=True)
class Pin:
    """The expected root by the user's options: its bytes, its digest, or neither (then a question is asked)."""

    root: bytes | None = None
    fingerprint: Digest | None = None

    @property
    def digest(self) -> Digest | None:
        """The digest of the expected root; None without one."""
        return self.fingerprint if self.root is None else Digest.of(self.root)


def add_source(alias: str, url: str, pin: Pin, ports: Ports, *, dry_run: bool = False) -> Source:
    """Add the registry at ``url`` after its metadata is verified from the trusted root; or the site or place there.

    Args:
        alias: The user's name for the source.
        url: Its URL, or a reference to a repository, a folder, an OCI artifact or an MCP server.
        pin: The expected root.
        ports: The ports of the command.
        dry_run: Ask nothing and add nothing.

    Raises:
        UsageError: alias or URL are malformed.
        Forbidden: a policy forbids the place; no request was made to it.
        WrongBytes: the registry has another root than the fingerprint names.
        Refused: the question about the fingerprint, or about a source without one, was not answered with yes.
        SourceMismatch: the source of this alias and URL has another root.
        UsageError: another source has the alias.
        TrustDowngrade: the URL had a registry before, and has none now.
        NotFound: there is neither a registry nor a site.
        SecurityError, SourceError, FormatError: the source cannot be opened; it is not added.
    """
    url = _in_full(url, ports)
    check(alias, url)
    _refuse_taken(alias, url, ports)
    if place_at(url) is not None:
        return _add_place(alias, url, pin, ports, dry_run)
    if url == EMBEDDED_URL and pin == Pin():
        pin = Pin(fingerprint=root_fingerprint())  # the package itself vouches for the registry inside it
    _refuse_forbidden(url, pin, ports)
    root = _pinned_root(url, pin, ports)
    source = ports.sources.meant(alias, url, root)
    question = _place_question(source, ports) if source.root is None else first_root(alias, url, source.root)
    if dry_run:
        return source
    if pin == Pin() and ports.sources.mine().get(alias) != source:
        ask_person(question, ports)
    if root is not None:
        ports.open_registry(source, root)
    return ports.sources.add(alias, url, root)


def _refuse_taken(alias: str, url: str, ports: Ports) -> None:
    """Refuse an alias of another URL before any request is made to this one.

    Raises:
        UsageError: the user has a source of this alias at another URL.
    """
    mine = ports.sources.mine().get(alias)
    if mine is not None and mine.url != (url.rstrip("/") or url):
        there = "the registry inside skillhub" if mine.embedded else mine.locked()
        hint = f"choose another name; to free this one: {as_command('skillhub', 'source', 'remove', alias)}"
        raise UsageError(f"the name {alias} is taken by {there}; it cannot also name {url}", hint=hint)


def _in_full(text: str, ports: Ports) -> str:
    """Return the URL of a source as it is stored: a reference in full, a folder as its absolute path."""
    if text == EMBEDDED_URL or (text.lower().startswith(("https://", "http://")) and place_at(text) is None):
        return text
    ref = parse_ref(text)
    if isinstance(ref, McpConfigured):
        ref, named_by = configured_server(ref, ports)
        if named_by != "person":
            message = f"only a file of this project says which server {quote(text)} is"
            raise UsageError(message, hint=f"if you trust it, name it by its URL: {ref}")
    if isinstance(ref, Local):
        full = os.path.abspath(os.path.expanduser(ref.path))
        if not os.path.isdir(full):
            raise NotFound("expected a folder", where=ref.path, hint="a source is a folder, a URL or owner/repo")
        # The site of a registry, or the folder of its operator.
        if any(os.path.lexists(os.path.join(full, site, "metadata", "1.root.json")) for site in ("", "site")):
            hint = "add the URL of its site; a mirror of it on this disk is named under [mirrors] in config.toml"
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
    question = _place_question(source, ports)
    if not dry_run:
        ask_person(question, ports)
        ports.sources.add(alias, url, None)
        ports.listing(source, refresh=True)  # cache the list that was read for the question
    return source


def suggested() -> Mapping[str, Mapping[str, str]]:
    """Return well-known public repositories by suggested alias; skillhub vouches for none of them.

    Each has its ``url`` and, if its skills are signed, the URL of its ``certificate``, which the user must trust.
    """
    return dict(packaged("sources/suggested.json"))


def configured_server(ref: McpConfigured, ports: Ports) -> tuple[Mcp, Who]:
    """Return the MCP server of this name in the agents' configurations, and who named its URL.

    Raises:
        NotFound: no configuration has the name.
        UsageError: a command starts the server, two configurations have different URLs, or the URL is unusable.
        FormatError, StateError: a configuration cannot be read.
    """
    project, place = ports.project, (ports.project.base, ports.user_home, ports.environ)
    entries = [*mcp_config.configured(ref.name, project.scope, *place)]
    urls = {mcp_server.url_of(each): file.scope for file, each in entries}
    named = ", ".join(file.path for file, _ in entries)
    if not entries:
        raise NotFound(f"no agent has an MCP server {ref.name}", hint="mcp+https://host/mcp names one by its URL")
    if "" in urls:
        hint = command(project.scope, "mcp", "check", ref.name)
        message = f"{ref.name} is started by a command, and install starts none"
        raise UsageError(message, where=named, hint=f"to see what it serves: {hint}")
    if len(urls) > 1:
        raise UsageError(f"{ref.name} has several URLs", where=named, hint="say which: mcp+https://…")
    url, scope = next(iter(urls.items()))
    found = parse_ref(f"mcp+{url}")
    if not isinstance(found, Mcp):
        raise UsageError(f"expected the URL of an MCP server, found {quote(url)}", where=named)
    return found, "person" if scope == "user" else "repository"


def trust_source(alias: str, pin: Pin, ports: Ports, *, dry_run: bool = False) -> Source:
    """Trust a source whose registry has a new root, or its first one; or, in this project, a source that it proposes.

    Locked skills of the registry with the former root are refused until they are installed again. A dry run asks
    nothing and trusts nothing.

    Raises:
        NotFound: the user has no such source, and the project proposes none.
        UsageError: it is the embedded registry, which comes with the package, or a source that has no root.
        Forbidden: a policy forbids the place; no request was made to it.
        WrongBytes, Refused, SecurityError, SourceError, FormatError: as ``add_source``.
    """
    mine = ports.sources.mine().get(alias)
    if mine is not None and mine.embedded:
        hint = f"nothing to do; {as_command('skillhub', 'source', 'show', alias)} shows its root"
        raise UsageError(f"{alias} is inside the package and always trusted", hint=hint)
    if mine is None:
        return _trust_proposal(alias, pin, ports, dry_run=dry_run)
    if mine.place is not None:
        way = "skillhub publisher trust NAME --key FILE (or --certificate FILE)"
        raise UsageError(f"{alias} is {mine.place}, which has no root", hint=f"trust a signer of its skills: {way}")
    _refuse_forbidden(mine.url, pin, ports)
    root = _pinned_root(mine.url, pin, ports)
    if root is None:
        if mine.root is None:
            return mine
        hint = "the metadata may have been removed; ask its operator"
        raise errors.TrustDowngrade("expected a registry, found a site without metadata", where=mine.url, hint=hint)
    shown = Digest.of(root)
    if shown == mine.root:
        return mine
    source = ports.sources.meant(alias, mine.url, root, instead_of=mine)
    if dry_run:
        return source
    if pin == Pin():
        ask_person(first_root(alias, mine.url, shown), ports)
    ports.open_registry(source, root)
    return ports.sources.add(alias, mine.url, root, instead_of=mine)


def _trust_proposal(alias: str, pin: Pin, ports: Ports, *, dry_run: bool) -> Source:
    """Adopt a source that the project proposes, for this project alone.

    Raises:
        NotFound: the project proposes no source of that alias.
        Forbidden, WrongBytes, Refused, SecurityError, SourceError, FormatError: as ``trust_source``.
    """
    state = read_state(ports.project, ports.sources)
    proposal = proposals(state.lock, state.intent).get(alias)
    if proposal is None:
        hint = f"{as_command('skillhub', 'source', 'add', alias if is_alias(alias) else 'NAME', 'URL')} adds one"
        raise NotFound(f"no source is named {quote(alias)}, and this project proposes none", hint=hint)
    wanted = Pin(pin.root, pin.fingerprint or proposal.root)
    _refuse_forbidden(proposal.url, wanted, ports)
    refuse_unsafe(alias, proposal.url)
    root = _pinned_root(proposal.url, wanted, ports, named_by="repository")
    source = ports.sources.proposed(alias, proposal.url, root)
    if not is_proposed(source.locked(), proposal):
        raise WrongBytes(f"the project says that {alias} is {proposal}, found {source.locked()}", where=proposal.url)
    if dry_run or ports.sources.all().get(alias) == source:
        return source
    if root is not None:
        if pin == Pin():
            ask_person(first_root(alias, proposal.url, Digest.of(root)), ports)
        ports.open_registry(source, root)
    adopted = ports.sources.adopt(alias, proposal.url, root)
    ports.sources.keep()
    return adopted


def _refuse_forbidden(url: str, pin: Pin, ports: Ports) -> None:
    """Refuse a forbidden place before the first request; a policy may permit a registry by its root alone.

    Raises:
        Forbidden: a line of a policy.
    """
    try:
        ports.check_allowed(url, pin.digest)
    except Forbidden as error:
        if pin.digest is None:
            error.hint = f"{error.hint}; where a line has the root of this registry: --fingerprint sha256:…"
        raise


def _pinned_root(url: str, pin: Pin, ports: Ports, *, named_by: Who = "person") -> bytes | None:
    """Return the root at ``url``, compared with the pin; None if the site has none and the pin expects none."""
    try:
        found = pin.root if pin.root is not None else ports.fetch_root(url, pin.digest, named_by=named_by)
    except NotFound:
        if pin.fingerprint is not None:
            raise
        return None
    if pin.fingerprint is not None and Digest.of(found) != pin.fingerprint:
        hint = "compare both with the root that the operator publishes elsewhere"
        raise WrongBytes(f"expected the root {pin.fingerprint}, found {Digest.of(found)}", where=url, hint=hint)
    return found


def _place_question(source: Source, ports: Ports) -> Question:
    offered = ports.open_place(source.ref).index()
    count = len(offered.skills)
    vouches = "no signature" if source.place else "only its server"
    why = f"is not a registry: {vouches} protects its list of skills"
    message = f"{word(source.url)} {why}. Add it as {source.alias}?"
    details = (*offered.warnings, f"it offers {amount(count, 'skill')}; each is asked about when it is installed")
    return Question("place", source.alias, message, details)


@dataclass(frozen=True, slots=True)
class Listings:
    """The listings of all sources, a warning for each source left out, and the cached listings of places by alias."""

    each: tuple[tuple[Source, Index], ...] = ()
    warnings: tuple[str, ...] = ()
    kept: Mapping[str, KeptListing] = field(default_factory=dict)

    def releases(self) -> tuple[Release, ...]:
        """Return the newest release that was not taken back, of each skill of each source, by name and source."""
        found = (
            replace(chosen, source=source.alias)
            for source, listing in self.each
            for releases in listing.skills.values()
            if (chosen := next((each for each in releases if not each.taken_back), None))
        )
        return tuple(sorted(found, key=lambda each: (each.name, each.source or "")))


def reference(picked: Release) -> Named:
    """Return the reference to a release of ``Listings.releases``."""
    return Named(picked.name, picked.source)


def listings(ports: Ports, text: str = "", *, needed: bool = True) -> Listings:
    """Return the valid listing of each source that answers and that no policy forbids; warn of each other source.

    Args:
        ports: The ports of the command.
        text: The search text; a large registry lists only skills that may match it.
        needed: Raise if no source answers, since the caller has no other skills to offer.

    Raises:
        SourceError, FormatError, Forbidden: no source answers with a valid listing, and one is ``needed``.
        SecurityError: a source shows signs of tampering.
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
            failed = error
            warnings.append(f"{alias} was left out: {error.message}")
    if needed and failed is not None and not found:
        raise failed
    return Listings(tuple(found), tuple(warnings), places)


def propose_source(alias: str, source: LockedSource) -> Question:
    """Return the question about a registry that a project proposes and this user does not have."""
    root = f"root {source.root}" if source.root else "the project names no root for it"
    compare = "it decides who signs its skills; compare the root with the one that its operator publishes elsewhere"
    message = f"This project brings the registry {alias}, which you do not have; trust it in this project?"
    details = (compare, f"url {word(source.url)}", root)
    return Question("source" if source.root else "root", alias, message, details, _TRUSTING.format(alias))


def first_root(alias: str, url: str, root: Digest, subject: str = "") -> Question:
    """Return the question about an unknown root of a registry; ``subject`` is the option that names it beforehand."""
    message = f"Trust the registry at {word(url)} as {alias}, by the root that it shows now?"
    details = ("compare it with the root that its operator publishes elsewhere", f"root {root}")
    return Question("root", alias, message, details, subject)

"""What a command works with, project, store, sources, network and who answers; its options, and its outcome."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote as percent_encode

from skillhub.errors import FormatError, SkillhubError, SourceError, UsageError, hinting
from skillhub.formats.digest import Digest
from skillhub.formats.json import members
from skillhub.formats.text import is_alias, quote
from skillhub.model.hosts import Host, LinkKind, detect, host, hosts
from skillhub.model.index import Index, Release
from skillhub.model.lock import LOCAL, Lock, Locked, place_of
from skillhub.model.provenance import Changes, Records, SourceChange
from skillhub.model.question import YES, refusal
from skillhub.model.reference import Local, Remote, url_of
from skillhub.model.skill import Skill
from skillhub.net.settings import Settings
from skillhub.policy.policy import ORIGIN, Policies, Subject
from skillhub.project.intent import Intent
from skillhub.project.user_state import Publishers, voucher

if TYPE_CHECKING:
    from skillhub.model.advisory import AdvisoryFeed
    from skillhub.model.question import Approver, Asked, McpChoice, Question
    from skillhub.model.tree import Unpacked
    from skillhub.net.fetch import Who
    from skillhub.project.last_seen import Advisories, SeenRegistries
    from skillhub.project.project import Project
    from skillhub.project.store import Store
    from skillhub.sources.configured import ProjectSources, Source
    from skillhub.sources.history import FirstSeen
    from skillhub.trust.log_client import RegistryLog

# Sources are opened only through ``Ports``, which refuses forbidden places; without network, no reader is loaded.


class Place(Protocol):
    """An opened source of skills that is no registry: a site, a repository, an OCI artifact, a folder."""

    def index(self, words: Collection[str] | None = None) -> Index:
        """Return its releases; with ``words`` (names, ``plugin:name``, folders) it may look for these alone."""

    def unpacked(self, release: Release) -> Unpacked:
        """Return the skill of a release of ``index`` or of a lock, checked against the digest if it has one."""

    def committed(self, release: Release) -> str | None:
        """Return the time of the release's commit, UTC; None without a commit."""


class Registry(Protocol):
    """An opened registry, its metadata verified and fresh.

    Attributes:
        log: Its log; None if it never announced one.
    """

    log: RegistryLog | None

    def release_index(self, names: Iterable[str]) -> Index:
        """Return every release of these skills, from the publishers that own their names."""

    def listing(self, text: str = "") -> Index:
        """Return the newest release of every skill; of a large registry those that may match ``text``."""

    def advisories(self) -> AdvisoryFeed:
        """Return its advisories about skills that are known to be bad."""

    def artifact(self, release: Release) -> bytes:
        """Return the artifact of a release of ``release_index``, checked against its size and digest."""

    def cosigned_by(self, witnesses: Collection[str]) -> frozenset[str]:
        """Return the given witnesses that have cosigned the newest checkpoint of its log."""


CheckAllowed = Callable[[str], None]


class Network(Protocol):
    """Opens registries and other places without regard to policies, each once for a command."""

    def before_requests(self, call: Callable[[], None]) -> None:
        """Call this once before the next request, when the modules for requests are loaded."""
        ...

    def open_registry(self, source: Source, root: bytes | None = None, name: str = "") -> Registry:
        """Return the registry of a source, as ``Ports.open_registry`` does."""

    def open_place(
        self,
        ref: Remote | Local,
        pin: str | None = None,
        *,
        named_by: Who = "person",
        check_allowed: CheckAllowed | None = None,
    ) -> Place:
        """Return a place that is no registry, as ``Ports.open_place`` does.

        Args:
            ref: The reference of the place.
            pin: A full commit.
            named_by: Who named the place.
            check_allowed: Called with each URL that the place leads to (an artifact, the repository of a plugin)
                before a request to it; raises if a policy forbids the URL.
        """

    def fetch_root(self, url: str, *, named_by: Who = "person") -> bytes:
        """Return the ``1.root.json`` of the registry at a URL; the caller checks its digest."""


ReportProgress = Callable[[str, int, int], None]  # the current step, the number of skills done, the number of all


def unreachable_hint(alias: str) -> str:
    """Return the hint for an unreachable source."""
    return f"{alias} must be reachable for this; installed skills stay usable"


def show_no_plan(
    changes: Mapping[str, Changes], sources: Sequence[SourceChange] = (), left_out: Sequence[LeftOut] = ()
) -> None:
    """Show no plan."""


@dataclass(frozen=True, slots=True)
class Ports:
    """Everything outside of a command's own computation.

    Attributes:
        network: Opens registries and places; only methods of this class call it.
        pick: Lets the user pick among the skills of a place; without a terminal it returns none.
        environ: The environment, for variables that skills need and for agents' own folders.
        user_home: The user's home folder, which holds the agents' folders of user scope.
        policies: The policies of the machine, the user and the project.
        seen: The registries as this machine last saw them.
        advisories: The known advisories; ``open_registry`` adds those of each registry.
        first_seen: Remembers when an undated release was first seen.
        clock: The present time, UTC, for expiry: no earlier than any time in verified metadata.
        report: Shows progress.
        show_plan: Shows the changes by skill and of sources, and what is left out, before any question or change.
        bundle: The path of the bundle from which the command installs.
        bundled: Returns the files that the bundle has of a tree that only the lock vouches for.
    """

    project: Project
    store: Store
    sources: ProjectSources
    publishers: Publishers
    network: Network
    pick: Callable[[Sequence[Release]], Sequence[Release]]
    approver: Approver
    environ: Mapping[str, str]
    user_home: str
    policies: Policies
    seen: SeenRegistries
    advisories: Advisories
    first_seen: FirstSeen
    clock: Callable[[], datetime]
    report: ReportProgress
    show_plan: Callable[[Mapping[str, Changes], Sequence[SourceChange], Sequence[LeftOut]], None] = show_no_plan
    bundle: str | None = None
    bundled: Callable[[Digest], Unpacked | None] | None = None

    def open_registry(self, source: Source, root: bytes | None = None, name: str = "") -> Registry:
        """Return the registry of a source, its metadata verified.

        Args:
            source: The source.
            root: Its first root, if that is trusted only after the registry verifies: before, nothing of the registry
                is remembered.
            name: A skill that the caller wants next, which the registry is asked about meanwhile.

        Raises:
            Forbidden: a line of a policy forbids the registry, or requires witnesses that it lacks.
            SourceError, SecurityError, FormatError: it is unreachable, tampered with or malformed.
        """
        self.check_allowed(source.url, source.root)
        with hinting(unreachable_hint(source.alias), kinds=SourceError):
            registry = self.network.open_registry(source, root, name)
        if source.root is not None:
            self.policies.refuse_unwitnessed(source.alias, source.root, registry.cosigned_by)
            self.advisories.add_opened(source.root, registry.advisories)
        return registry

    def open_place(self, ref: Remote | Local, pin: str | None = None, *, named_by: Who = "person") -> Place:
        """Return a place that is no registry, which may be a folder of several skills.

        Args:
            ref: The reference of the place.
            pin: A full commit, for the state of the place at that commit.
            named_by: Who named the place: a person, or a repository without the consent of this person.

        Raises:
            Forbidden: a line of a policy; also, before a request to it, for each URL that the place leads to.
            SourceError, SecurityError, FormatError: as for ``open_registry``.
        """
        self.check_allowed(self.url_of(ref))
        named_by = "person" if self.sources.is_own(ref) else named_by
        return self.network.open_place(ref, pin, named_by=named_by, check_allowed=self.check_allowed)

    def fetch_root(self, url: str, expected: Digest | None = None, *, named_by: Who = "person") -> bytes:
        """Return the ``1.root.json`` of the registry at a URL; the caller checks its digest.

        Args:
            url: The registry's URL.
            expected: The digest of the expected root, if known; a policy may permit a registry by it.
            named_by: Who named the URL: a person, or a repository that proposes it.

        Raises:
            Forbidden: a line of a policy.
            NotFound: there is no registry at the URL.
            SourceError, SecurityError: the registry is unreachable, or its answer is refused.
        """
        self.check_allowed(url, expected)
        return self.network.fetch_root(url, named_by=named_by)

    def before_requests(self, call: Callable[[], None]) -> None:
        """Let the network call this before the next request, as ``Network.before_requests`` does."""
        self.network.before_requests(call)

    def releases(self, source: Source, name: str) -> Index:
        """Return the releases of one skill of a source: a registry proves them, a site only claims them.

        Raises:
            NotFound: the source has no skill of that name.
            SourceError, SecurityError, FormatError: it cannot be opened.
        """
        if source.root is not None:
            return self.open_registry(source, name=name).release_index([name])
        index = self.open_place(source.ref, named_by=source.named_by).index((name,))
        return replace(index, skills={name: index.releases(name)}, admissions={})

    def index_of(self, name: str, entry: Locked) -> Index:
        """Return what the registry of a locked skill has of its name; nothing for a skill of no registry.

        Raises:
            NotFound, SourceError, SecurityError, FormatError: it no longer has the name, or cannot be opened.
        """
        if self.root_of(entry) is None:
            return Index({})
        return self.open_registry(self.sources.get(entry.source)).release_index([entry.own_name(name)])

    def listing(self, source: Source, text: str = "", *, refresh: bool = False) -> Index:
        """Return the newest release of every skill of a source, for search and display only.

        A large registry returns those that may match ``text``. The list of a repository is cached for a day.

        Raises:
            SourceError, SecurityError, FormatError: the source cannot be opened.
        """
        if source.root is not None:
            return self.open_registry(source).listing(text)
        if source.place is None or isinstance(source.ref, Local):
            with hinting(unreachable_hint(source.alias), kinds=SourceError):
                return self.open_place(source.ref, named_by=source.named_by).index()
        self.check_allowed(self.url_of(source.ref))
        return self.sources.listed(source, self.clock(), lambda: self.open_place(source.ref).index(), refresh=refresh)

    def check_allowed(self, url: str, root: Digest | None = None) -> None:
        """Refuse a place that a policy forbids.

        Raises:
            Forbidden: a line of a policy.
        """
        self.policies.refuse(Subject(name="a skill", root=root, urls=(url,)), ORIGIN)

    def url_of(self, ref: Remote | Local) -> str:
        """Return the URL that policies match for a place."""
        if isinstance(ref, Local):
            path = os.path.realpath(os.path.expanduser(ref.path)).replace(os.sep, "/")
            return f"file:///{percent_encode(path.lstrip('/'), safe='/:')}"
        return url_of(ref, self.environ)

    def voucher(self, entry: Locked, lock: Lock | None = None) -> str | None:
        """Return the registry that alone names the signer of an entry; None if the signer is the user's publisher."""
        return voucher(entry, lock or self.project.last_lock(), self.project.home)

    def trusted_for(self, source: str) -> str | None:
        """Return the user's alias for the ``source`` of a lock: trust in a publisher may be limited to aliases.

        It is None for a path, empty for an alias that only the project names, the place itself if it has no alias.
        """
        place, mine = place_of(source), self.sources.mine()
        if place == LOCAL:
            return None
        if is_alias(place):
            return place if place in mine else ""
        places = {alias: each.place for alias, each in mine.items() if not isinstance(each.place, Local)}
        return next((alias for alias, each in places.items() if each is not None and each.source == place), place)

    def root_of(self, entry: Locked, among: Mapping[str, Source] | None = None) -> Digest | None:
        """Return this user's root of the entry's registry; None if the entry is from no registry."""
        source = (self.sources.all() if among is None else among).get(entry.source) if entry.named else None
        return source.root if source else None


def ask(questions: Sequence[Question], ports: Ports, dry_run: bool = False) -> list[Asked]:
    """Ask all questions at once, except those that a policy answers; a dry run asks no person and refuses nothing.

    Raises:
        FormatError, StateError: a policy was changed meanwhile, or cannot be read.
        Refused: a question that is not about a need was not answered with yes.
    """
    agreed = [ports.policies.agrees(each.kind) for each in questions]
    open_ = [each for each, is_agreed in zip(questions, agreed, strict=True) if not is_agreed]
    answered = iter([*zip(open_, ports.approver.answer(open_) if open_ else (), strict=True)])
    ports.policies.refuse_changed()
    found = zip(questions, agreed, strict=True)
    return _refuse_unanswered([(each, YES) if is_agreed else next(answered) for each, is_agreed in found], dry_run)


def ask_person(question: Question, ports: Ports) -> None:
    """Ask a question about permanent trust, which no policy answers.

    Raises:
        FormatError, StateError: a policy was changed meanwhile, or cannot be read.
        Refused: the answer was not yes.
    """
    asked = list(zip([question], ports.approver.answer([question]), strict=True))
    ports.policies.refuse_changed()
    _refuse_unanswered(asked)


def _refuse_unanswered(asked: list[Asked], dry_run: bool = False) -> list[Asked]:
    if not dry_run and (error := refusal(asked)) is not None:
        raise error
    return asked


@dataclass(frozen=True, slots=True)
class Options:
    """The flags of install and enable, besides references: where to enable, and how to satisfy needs.

    Attributes:
        agents: Ids of the agents to enable for; empty means those chosen before, or of the intent, or found here.
        env: Variables for this command alone, never stored, never shown.
        mcp: The answer about MCP servers that a skill needs.
        link: Copies or links; None leaves it to the intent.
        enable: False stores the skills and leaves them disabled.
        frozen: Fail instead of changing the lock.
        skills: The skills to install from a place of several, by name, ``plugin:name`` or folder.
        every: Install all skills of such a place; malformed ones and those with critical findings are left out.
        excepted: Skills that ``every`` leaves out, by the same words; nothing of them is fetched.
        alias: The name for the one skill in this project, in place of its own.
        trusted: By alias, the expected root of each registry that the project may propose.
        dry_run: Plan everything, ask nothing, change nothing.

    Raises:
        UsageError: a value is none of those that its type lists.
    """

    agents: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    mcp: McpChoice = "ask"
    link: LinkKind | None = None
    enable: bool = True
    frozen: bool = False
    skills: tuple[str, ...] = ()
    every: bool = False
    excepted: tuple[str, ...] = ()
    alias: str | None = None
    trusted: Mapping[str, Digest] = field(default_factory=dict)
    dry_run: bool = False

    def __post_init__(self) -> None:
        for field_name in ("agents", "skills", "excepted", "env"):
            if isinstance(value := getattr(self, field_name), str):
                raise UsageError(f"options: expected several words as {field_name}, found the text {quote(value)}")
        for field_name, known in (("mcp", ("ask", "configure", "skip")), ("link", (None, "copy", "symlink"))):
            if (value := getattr(self, field_name)) not in known:
                expected = ", ".join(map(str, known))
                raise UsageError(f"options: expected one of {expected} as {field_name}, found {quote(value)}")
        for name, value in self.env.items():
            if not isinstance(value, str) or "\0" in value:  # the value is not shown
                raise UsageError(f"options: expected text without a null character as the value of {quote(name)}")


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A skill that a command leaves out or unchanged, and why."""

    name: str
    code: str
    message: str

    @classmethod
    def of(cls, name: str, error: SkillhubError) -> LeftOut:
        """Return a skill that this error leaves out."""
        where, hint = f" ({error.where})" if error.where else "", f"; {error.hint}" if error.hint else ""
        return cls(name, error.code, f"{error.message}{where}{hint}")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a command.

    Attributes:
        skills: The skills of the command in their new state.
        changed: Whether the command changed a file.
        asked: Every question with its answer.
        warnings: Warnings, a line each.
        changes: The differences from the version before, by skill that had one.
        left_out: Skills left out or left unchanged, and why.
        unchanged, restored: The skills that were up to date, and those whose copies alone were put back.
        pending: Whether work remains that is in no skill's state: for a person, or for the command without a dry run.
        supplied: Skill and need (``env:NAME``) that this command satisfied; values of variables are not kept.
        disabled: The skills that the user disabled, whatever their needs.
        remedies: By skill and need (``mcp:NAME``) the commands that satisfy it, where ``how_to_satisfy`` has none.
        sources: Changes of the lock's sources.
        written: By skill the entries written into agents' configurations, a line for each file.
        saved: By skill the patches with edits made by hand that were written, relative to the project.
    """

    skills: tuple[Skill, ...]
    changed: bool
    asked: tuple[Asked, ...] = ()
    warnings: tuple[str, ...] = ()
    supplied: frozenset[tuple[str, str]] = frozenset()
    left_out: tuple[LeftOut, ...] = ()
    changes: Mapping[str, Changes] = field(default_factory=dict)
    unchanged: frozenset[str] = frozenset()
    restored: frozenset[str] = frozenset()
    pending: bool = False
    disabled: frozenset[str] = frozenset()
    remedies: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    written: Mapping[str, Sequence[str]] = field(default_factory=dict)
    sources: tuple[SourceChange, ...] = ()
    saved: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def preceded(self, asked: Iterable[Asked], warnings: Iterable[str]) -> Outcome:
        """Return the outcome with earlier questions and warnings before its own."""
        return replace(self, asked=(*asked, *self.asked), warnings=(*warnings, *self.warnings))

    def to_json(self) -> dict[str, Any]:
        """Return the outcome as the JSON answer of install, update and sync."""
        changes = {name: change.to_json() for name, change in self.changes.items()}
        return {
            **members(self, "changed", "warnings", "sources"),
            "skills": [{**skill.to_json(), **changes.get(skill.name, {})} for skill in self.skills],
            "questions": [question.to_json(answer) for question, answer in self.asked],
            "refused": self.left_out,
            "saved": [{"name": name, "patches": paths} for name, paths in self.saved.items()],
        }


def chosen_agents(options: Options, records: Records, intent: Intent, ports: Ports) -> tuple[Host, ...]:
    """Return the agents to enable for: of the options, else chosen before, else of the intent, else found here.

    Agents that a policy forbids are left out.

    Raises:
        UsageError: an id belongs to no agent.
        FormatError: an id of the intent belongs to no agent.
        Forbidden: a policy forbids an agent that the user named.
    """
    chosen = _chosen(options, records, intent, ports)
    allowed = []
    for each in chosen:
        objection = ports.policies.against_agent(each.id)
        if objection is None:
            allowed.append(each)
        elif options.agents and "all" not in options.agents:
            raise objection.error
    return tuple(allowed)


def _chosen(options: Options, records: Records, intent: Intent, ports: Ports) -> tuple[Host, ...]:
    for ids in (options.agents, records.agents, intent.agents, Settings.read(ports.project.home).install.agents):
        if "all" in ids:
            return tuple(hosts().values())
        if ids:
            try:
                return tuple(host(each) for each in ids)
            except UsageError as error:
                if ids is not intent.agents:
                    raise
                where = f"{ports.project.intent_path}: install.agents"
                raise FormatError(error.message, where=where, hint=error.hint) from error
    return detect(ports.project.base, ports.user_home, ports.environ, os.path.exists)

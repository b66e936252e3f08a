"""What a command works with: project, store, sources, network, approver; state, options, outcome."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote

from skillhub.errors import FormatError, NotFound, Refused, SourceError, SourceMismatch, UsageError
from skillhub.formats.digest import NO_FILES, Digest
from skillhub.formats.text import as_command, command, did_you_mean, spelled_like
from skillhub.model.hosts import Host, LinkKind, Scope, SkillScope, detect, host, hosts
from skillhub.model.lock import Lock, Locked, place_of
from skillhub.model.provenance import Changes, Provenance, SourceChange
from skillhub.model.question import A_PERSON, YES, how_to_answer, unanswerable
from skillhub.model.record import Record, Records, Skill
from skillhub.model.reference import Local, Remote, url_of
from skillhub.net.settings import Settings
from skillhub.policy.policy import ORIGIN, Policies, Subject
from skillhub.project.intent import Intent, Wanted, in_full, wanted_of
from skillhub.project.user_state import Publishers, voucher

if TYPE_CHECKING:
    from skillhub.model.advisory import Said
    from skillhub.model.index import Index, Release
    from skillhub.model.question import Answer, Approver, Asked, McpChoice, Question
    from skillhub.model.tree import Unpacked
    from skillhub.net.target import Who
    from skillhub.project.last_seen import Advisories
    from skillhub.project.project import Project
    from skillhub.project.store import Store
    from skillhub.sources.configured import ProjectSources, Source
    from skillhub.sources.history import FirstSeen

# Sources are opened through ``Ports`` alone, which refuses what policies forbid; without network none is loaded.


class Registry(Protocol):
    """An opened registry: metadata verified and fresh."""

    def release_index(self, names: Iterable[str]) -> Index:
        """Return the releases of these names that the registry's publishers vouch for."""
        ...

    def listing(self, text: str = "") -> Index:
        """Return the newest release of every skill, to search in and to show; never the authority."""
        ...

    def artifact(self, release: Release) -> bytes:
        """Return the bytes of the release: of its size and digest, or an error."""
        ...

    def advisories(self) -> Said:
        """Return what it says is known to be bad."""
        ...

    def cosigned_by(self, witnesses: Collection[str]) -> frozenset[str]:
        """Return those of these witnesses that have cosigned its log."""


class Place(Protocol):
    """Somewhere that holds skills and is no registry, opened: a site, a repository, an OCI artifact."""

    def index(self, words: Collection[str] | None = None) -> Index:
        """Return what it offers; with ``words`` (names, ``plugin:name``, folders) it may look for these alone."""
        ...

    def unpacked(self, release: Release) -> Unpacked:
        """Return the skill of a release that ``index`` gave, or that a lock spells: its very bytes, or an error."""
        ...

    def committed(self, release: Release) -> str | None:
        """Return when its commit says that it was made, UTC; None of what is in no commit."""
        ...


CheckAllowed = Callable[[str], None]


class Network(Protocol):
    """Opens registries and other places, whatever policies say of them; the same one once for a command."""

    def open(self, source: Source, root: bytes | None = None) -> Registry:
        """Return the registry of a source, as ``Ports.open`` does."""
        ...

    def reach(
        self,
        ref: Remote | Local,
        pin: str | None = None,
        *,
        named_by: Who = "person",
        check_allowed: CheckAllowed | None = None,
    ) -> Place:
        """Return a place that is no registry, as ``Ports.reach`` does.

        Args:
            ref: Which one.
            pin: A full commit.
            named_by: Who names it.
            check_allowed: Called with each URL that the place leads to (an artifact, the repository of a plugin)
                before it is asked; it raises for one that a policy forbids.
        """
        ...

    def fetch_root(self, url: str, *, named_by: Who = "person") -> bytes:
        """Return the ``1.root.json`` of the registry at a URL; whoever calls it checks its digest."""
        ...


Report = Callable[[str, int, int], None]  # what is being done, how many are done, of how many


def unreachable_hint(alias: str) -> str:
    """Return the hint for an unreachable source."""
    return f"{alias} must be reachable for this; installed skills stay usable"


def show_no_plan(changes: Mapping[str, Changes], sources: Sequence[SourceChange] = ()) -> None:
    """Show nothing before it is done."""


@dataclass(frozen=True, slots=True)
class Ports:
    """Everything outside of a command's own computation.

    Attributes:
        network: Opens registries and places; only ``open``, ``reach`` and ``fetch_root`` call it.
        pick: Lets a person pick among the skills of a place; without a terminal it returns none.
        environ: The environment, for variables that skills need and for agents' own folders.
        user_home: The user's home folder, where user-scope agents' folders hang.
        policies: What may be installed here, by the machine, the user and the project.
        advisories: What is known to be bad; a registry that is opened here is heard.
        first_seen: Remembers since when undated things are known.
        clock: The time now, UTC, by which expiry is judged: no earlier than verified metadata has shown.
        report: Shows progress.
        plan: Shows the changes, by skill and of the sources, before anything is asked or done.
        bundled: Returns the files that a bundle brings of a skill that nothing but the lock vouches for.
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
    advisories: Advisories
    first_seen: FirstSeen
    clock: Callable[[], datetime]
    report: Report
    plan: Callable[[Mapping[str, Changes], Sequence[SourceChange]], None] = show_no_plan
    bundled: Callable[[str], Unpacked | None] | None = None

    def open(self, source: Source, root: bytes | None = None) -> Registry:
        """Return the registry of a source, its metadata verified.

        Args:
            source: Which one.
            root: Its first root, where that is trusted only if what the registry says is in order: nothing of it is
                remembered otherwise.

        Raises:
            Forbidden: a line of a policy, of its witnesses too.
            SourceError, SecurityError, FormatError: it cannot be had, or is not as it should be.
        """
        self.check_allowed(source.url, source.root)
        try:
            registry = self.network.open(source, root)
        except SourceError as error:
            error.hint = error.hint or unreachable_hint(source.alias)
            raise
        if source.root is not None:
            self.policies.refuse_unwitnessed(source.alias, source.root, registry.cosigned_by)
            self.advisories.hear(source.root, registry.advisories)
        return registry

    def reach(self, ref: Remote | Local, pin: str | None = None, *, named_by: Who = "person") -> Place:
        """Return a place that is no registry, a folder of several skills among them.

        Args:
            ref: Which one.
            pin: A full commit, to have it as it was then.
            named_by: Who names it: a person, or a repository, and this person never agreed to anything from there.

        Raises:
            Forbidden: a line of a policy; of where the place leads to, too, once that is to be asked.
            SourceError, SecurityError, FormatError: as for ``open``.
        """
        self.check_allowed(self.url_of(ref))
        named_by = "person" if self.sources.is_own(ref) else named_by
        return self.network.reach(ref, pin, named_by=named_by, check_allowed=self.check_allowed)

    def fetch_root(self, url: str, meant: Digest | None = None, *, named_by: Who = "person") -> bytes:
        """Return the ``1.root.json`` of the registry at a URL; whoever calls this checks its digest.

        Args:
            url: Its base.
            meant: The root that is meant, if one is.
            named_by: Who names it: a person, or a repository that proposes it.

        Raises:
            Forbidden: a line of a policy, which permits a registry by the root that is ``meant`` too.
            NotFound: there is no registry.
            SourceError, SecurityError: it cannot be had.
        """
        self.check_allowed(url, meant)
        return self.network.fetch_root(url, named_by=named_by)

    def releases(self, source: Source, name: str) -> Index:
        """Return the releases of one skill of a source, which a registry proves and a site only claims.

        Raises:
            NotFound: the source has no skill of that name.
            SourceError, SecurityError, FormatError: it cannot be opened.
        """
        if source.root is not None:
            return self.open(source).release_index([name])
        index = self.reach(source.ref, named_by=source.named_by).index((name,))
        return replace(index, skills={name: index.releases(name)}, admissions={})

    def listing(self, source: Source, text: str = "", *, refresh: bool = False) -> Index:
        """Return the newest release of every skill of a source, to search in and to show; never the authority.

        A large registry returns those that ``text`` may mean. What a repository lists is kept for a day.

        Raises:
            SourceError, SecurityError, FormatError: the source cannot be opened.
        """
        if source.root is not None:
            return self.open(source).listing(text)
        if source.place is None or isinstance(source.ref, Local):
            return self.reach(source.ref, named_by=source.named_by).index()
        self.check_allowed(self.url_of(source.ref))
        return self.sources.listed(source, self.clock(), lambda: self.reach(source.ref).index(), refresh=refresh)

    def check_allowed(self, url: str, root: Digest | None = None) -> None:
        """Refuse a place that nothing may come from.

        Raises:
            Forbidden: a line of a policy.
        """
        self.policies.refuse(Subject(name="a skill", root=root, urls=(url,)), ORIGIN)

    def url_of(self, ref: Remote | Local) -> str:
        """Return the URL by which policies know a place."""
        if isinstance(ref, Local):
            path = os.path.realpath(os.path.expanduser(ref.path)).replace(os.sep, "/")
            return f"file:///{quote(path.lstrip('/'), safe='/:')}"
        return url_of(ref, self.environ)

    def voucher(self, entry: Locked, lock: Lock | None = None) -> str | None:
        """Return the registry by whose word alone the signer of an entry has a name; None if it is the user's own."""
        return voucher(entry, lock or self.project.last_lock(), self.project.home)

    def root_of(self, entry: Locked, among: Mapping[str, Source] | None = None) -> Digest | None:
        """Return the root of the registry that the entry is from, as this user has it; None if it is from none."""
        source = (self.sources.all() if among is None else among).get(entry.source) if entry.named else None
        return source.root if source else None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a command did.

    Attributes:
        skills: The skills it was about, as they are now.
        changed: Whether anything on disk is other than before.
        asked: Every question with its answer.
        warnings: Warnings, a line each.
        changes: What differs from the version before, of skills that had one.
        left: Skills left out or left unchanged, and why.
        unchanged, restored: Those that were up to date, and those of which only copies were put back.
        pending: Whether something remains to be done, by a person or without the dry run, that no skill shows.
        supplied: Skill and need (``env:NAME``) that this command satisfied; values of variables are not kept.
        disabled: Those of the skills that their user disabled, whatever they need.
        remedies: By skill and need (``mcp:NAME``) what to do about it, where ``how_to_satisfy`` does not know.
        sources: Changes of the lock's sources.
        written: By skill what was written into which configuration of an agent, a line for each file.
    """

    skills: tuple[Skill, ...]
    changed: bool
    asked: tuple[Asked, ...] = ()
    warnings: tuple[str, ...] = ()
    supplied: frozenset[tuple[str, str]] = frozenset()
    left: tuple[LeftOut, ...] = ()
    changes: Mapping[str, Changes] = field(default_factory=dict)
    unchanged: frozenset[str] = frozenset()
    restored: frozenset[str] = frozenset()
    pending: bool = False
    disabled: frozenset[str] = frozenset()
    remedies: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    written: Mapping[str, Sequence[str]] = field(default_factory=dict)
    sources: tuple[SourceChange, ...] = ()

    def preceded(self, asked: Iterable[Asked], left: Iterable[LeftOut], warnings: Iterable[str]) -> Outcome:
        """Return the outcome with what was asked, left out and warned of before."""
        asked, left = (*asked, *self.asked), (*left, *self.left)
        return replace(self, asked=asked, left=left, warnings=(*warnings, *self.warnings))


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A skill that a command leaves out or alone, and why."""

    name: str
    code: str
    message: str


def ask(questions: Sequence[Question], ports: Ports, dry_run: bool = False) -> list[Asked]:
    """Ask all of them at once, but what a policy agrees to; in a dry run, which asks no person, nothing is refused.

    Raises:
        Refused: one that is not about a need was not answered with yes.
    """
    agreed = [ports.policies.agrees(each.kind) for each in questions]
    open_ = [each for each, is_agreed in zip(questions, agreed, strict=True) if not is_agreed]
    answered = iter([*zip(open_, ports.approver.answer(open_) if open_ else (), strict=True)])
    found = zip(questions, agreed, strict=True)
    return _refuse_unanswered([(each, YES) if is_agreed else next(answered) for each, is_agreed in found], dry_run)


def ask_person(question: Question, ports: Ports) -> None:
    """Ask whom to trust for good; policies do not answer this.

    Raises:
        Refused: it was not answered with yes.
    """
    _refuse_unanswered(list(zip([question], ports.approver.answer([question]), strict=True)))


def _refuse_unanswered(asked: list[Asked], dry_run: bool = False) -> list[Asked]:
    if not dry_run and (error := refusal(asked)) is not None:
        raise error
    return asked


def refusal(asked: Sequence[Asked]) -> Refused | None:
    """Return the refusal of a command whose questions were answered so; None if it may go on."""
    if not (refused := unanswerable(asked)):
        return None
    question, answer = refused[0]
    said, hint = _refusal(question, answer, refused)
    coming = {each.skill for each, _ in asked if each.kind == "install"}
    if answer.said == "no" and coming - {question.skill}:
        hint = f"{hint}; for the other skills, name them without {question.skill}"
    return Refused(f"{said}: {question.message}", where=question.skill, hint=hint, asked=tuple(asked))


def _refusal(question: Question, answer: Answer, asked: Sequence[Asked]) -> tuple[str, str]:
    """Return why a question is refused, and the hint that would answer all open ones."""
    if question.kind == "critical-finding":
        return "no answer accepts it", how_to_answer(question)
    if answer.said == "no":
        return "the answer was no", "nothing was changed"
    why = "--yes does not answer this" if answer.past_yes else "the question was not answered"
    if question.kind in ("publisher", "root") and question.subject:
        return why, f"to trust it: {question.subject}"
    ways = "; ".join(dict.fromkeys(how_to_answer(each) for each, said in asked if said.said == "unanswered"))
    without = " without --yes" if answer.past_yes else ""
    return why, f"answer at a terminal{without}{'' if ways == A_PERSON else f', or beforehand: {ways}'}"


# Commands in hints: for the scope that the person is in, each word quoted for a shell.


def reinstall(scope: SkillScope, name: str, words: Iterable[str]) -> str:
    """Return the commands that replace an installed skill by the one that these words name."""
    return f"{command(scope, 'remove', name)}, then {command(scope, 'install', *words)}"


@dataclass(frozen=True)
class State:
    """Lock, intent and records, read once; ``commit`` refuses if the part it is about to change changed meanwhile."""

    lock: Lock
    intent: Intent
    records: Records
    read: str = ""  # what ``Project.read_bytes`` told then

    @cached_property
    def trees(self) -> Collection[Digest]:
        """Every tree that is locked, as its source has it."""
        return {entry.original.tree for entry in self.lock.skills.values()}

    @property
    def unwanted(self) -> list[str]:
        """What is locked and neither named by the intent nor needed by what is; nothing if it lists no skills."""
        wanted = {*self.intent.skills}
        waiting = deque(wanted)
        while waiting:
            needed = {*self._needed_by(waiting.popleft())} - wanted
            wanted.update(needed)
            waiting.extend(needed)
        return [name for name in self.lock.skills if name not in wanted] if self.intent.lists else []

    @property
    def listed(self) -> dict[str, Wanted]:
        """What an intent would name if it were written of the lock alone: what no other needs."""
        locked = self.lock.skills
        needed = {each for entry in locked.values() for each in entry.dependencies}
        found = {name: wanted_of(entry) for name, entry in locked.items() if name not in needed}
        # A ring, which only a lock makes: the skills' own files are refused.
        rest = replace(self, intent=Intent(skills=found, lists=True)).unwanted
        return found | {name: wanted_of(locked[name]) for name in rest}

    def _needed_by(self, name: str) -> Iterator[str]:
        """Yield what a skill needs: by the lock, and by its files as they were agreed to, if the lock is silent."""
        entry, record = self.lock.skills.get(name), self.agreed(name)
        yield from entry.dependencies if entry else ()
        needs = record.facts.needs if record else ()
        yield from (need.name for need in needs if need.kind == "skill")

    def agreed(self, name: str) -> Record | None:
        """Return this machine's record of a skill if it is about what is locked: the very tree, from where it was."""
        return self._agreed.get(name)

    @cached_property
    def _agreed(self) -> Mapping[str, Record]:
        locked, records = self.lock.skills, self.records.skills
        return {name: each for name, each in records.items() if name in locked and each.is_of(locked[name])}

    def enabled(self, name: str) -> Record | None:
        """Return what was ``agreed`` of a skill that agents are to read; None of any other."""
        agreed = self.agreed(name)
        return agreed if agreed and agreed.enabled else None

    def is_known(self, name: str, source: str, git: str | None = None) -> bool:
        """Return whether this person agreed to have the skill from this place, as their own record has it.

        That the lock says otherwise, or is gone, changes nothing of what they agreed to. With ``git`` it is that
        repository too: a lock may give a place the repository of a plugin, or a server, that nobody agreed to.
        """
        record = self.records.skills.get(name)
        if record is None or record.provenance is None or record.tree == NO_FILES:
            return False
        return place_of(record.provenance.source) == source and git in (None, record.provenance.server)


def read_state(ports: Ports) -> State:
    """Read all three.

    Raises:
        FormatError: one is malformed.
        StateError: one cannot be read, or is a link that leaves the project.
        SourceMismatch: lock or intent give an alias of this user's to another source.
    """
    state = read_unchecked(ports)
    known = ports.sources.all()
    for alias, locked in state.lock.sources.items():
        mine = known.get(alias)
        if mine is not None and not mine.is_meant(locked):
            raise _other_locked(mine, str(locked), state.lock, ports)
    for alias, wanted in state.intent.sources.items():
        mine = known.get(alias)
        # Without a root it is about the URL alone.
        if mine is not None and (wanted.url.rstrip("/"), wanted.root or mine.root) != (mine.url, mine.root):
            root = f" with root {wanted.root}" if wanted.root else ""
            remove = as_command("skillhub", "source", "remove", alias)
            hint = f"if your source is right, correct [sources.{alias}] there; if theirs is: {remove}"
            raise _redefined(mine, f"{wanted.url}{root}", ports.project.intent_path, hint)
    return replace(state, intent=in_full(state.intent, state.lock, ports.sources.places()))


def read_unchecked(ports: Ports) -> State:
    """Read all three, whatever lock and intent say of sources: for who only looks, or takes away.

    Raises:
        FormatError, StateError: as for ``read_state``.
    """
    lock = ports.project.lock()
    return State(lock, ports.project.intent(), _records(lock, ports), ports.project.read_bytes())


def _records(lock: Lock, ports: Ports) -> Records:
    """Return the records of what has arrived in the lock; one without provenance has that of the lock now."""
    records = ports.project.records()
    coming = records.coming
    entries = lock.skills.items()
    records = records.arrived({k: e.tree for k, e in entries if k not in coming or coming[k].is_of(e)})
    told = {
        name: replace(record, provenance=Provenance.of(lock.skills[name]))
        for name, record in records.skills.items()
        if record.provenance is None and name in lock.skills and record.is_of(lock.skills[name])
    }
    return replace(records, skills={**records.skills, **told}) if told else records


def _other_locked(mine: Source, theirs: str, lock: Lock, ports: Ports) -> SourceMismatch:
    names = [name for name, entry in lock.skills.items() if entry.named and entry.source == mine.alias]
    remove = command(ports.project.scope, "remove", *names)
    install = command(ports.project.scope, "install", *(f"{mine.alias}:{name}" for name in names))
    hint = f"if your source is right: {remove}, then {install}"
    if not names:
        hint = f"if your source is right, remove {mine.alias} from the lock, which has no skill from it"
    return _redefined(mine, theirs, ports.project.lock_path, hint)


def _redefined(mine: Source, theirs: str, where: str, hint: str) -> SourceMismatch:
    message = f"expected the source {mine.alias} to be {mine.locked()}, found {theirs}"
    return SourceMismatch(message, where=where, hint=hint)


# The options of an install beside the references: where to enable, and how to satisfy needs.


@dataclass(frozen=True, slots=True)
class Options:
    """The flags of install and enable, as values.

    Attributes:
        agents: Ids of the agents to enable for; empty means those chosen before, or wanted, or found here.
        env: Variables given for this command alone; never stored, never shown.
        mcp: What to do about MCP servers that a skill needs.
        link: Copies or links; None leaves it to the intent.
        enable: False leaves what is installed in the store.
        frozen: The lock as it stands, or fail.
        skills: Of places that hold several: these, by name, ``plugin:name`` or folder.
        every: Of such places all skills; what is malformed or critical is left out.
        excepted: Of all skills, not these, by the same words: nothing of them is fetched.
        alias: The name that the one skill is to have here, in place of its own.
        trusted: By alias the root of each registry that the project may propose, said beforehand.
        dry_run: Work everything out, ask nothing, change nothing.
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


def chosen_agents(options: Options, records: Records, intent: Intent, ports: Ports) -> tuple[Host, ...]:
    """Return the agents to enable for: as asked, else as chosen before, else as wanted, else as found here.

    Of those, the ones that the policies let have skills.

    Raises:
        UsageError: an id that is no agent's; of a file's it is a FormatError.
        Forbidden: a policy forbids one that was asked for by name.
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


def refuse_unknown(names: Iterable[str], installed: Collection[str], scope: Scope) -> None:
    """Refuse names of skills that are not installed here, in a project or for the user.

    Raises:
        NotFound: one is none; the hint lists names that are spelled alike.
    """
    for name in names:
        if name not in installed:
            listed, adopt = command(scope, "list"), command(scope, "adopt")
            rest = f"{listed} shows installed skills; {adopt} adopts unmanaged ones"
            hint = f"{did_you_mean(spelled_like(name, installed))} {rest}".lstrip()
            raise NotFound(f"no skill named {quote(name)} is installed here", hint=hint)

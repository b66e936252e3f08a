"""The last documents of registries on this machine; advisories of registries and of the user's files and mirrors."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, lru_cache, partial
from itertools import chain
from typing import Annotated

from skillhub import errors
from skillhub.disk import files
from skillhub.disk.home import Home
from skillhub.disk.proved import Stamp, stamp_of
from skillhub.errors import FormatError, NotFound, SourceError, StateError
from skillhub.formats.digest import Digest
from skillhub.formats.document import NAME, Document, Members, Read, few, text_that
from skillhub.formats.json import strict_json
from skillhub.formats.text import as_command, command, grouped, is_name, spell_time
from skillhub.model.advisory import CAP, AdvisoryFeed, AdvisoryIndex, AdvisorySubject, Match, digests_of
from skillhub.model.hosts import Scope
from skillhub.model.index import (
    ADVISORIES,
    DOCUMENT_CAP,
    Admission,
    Index,
    Release,
    choose_release,
    index_path,
    namespace_path,
    publisher_path,
)
from skillhub.model.lock import Lock, Locked, Signer, by_word
from skillhub.model.provenance import Consent, Record
from skillhub.model.question import HoldReason, Remedy
from skillhub.model.reference import Named, parse_remote, url_of
from skillhub.model.tree import Listing, Tree
from skillhub.project.intent import Intent
from skillhub.project.store import Store
from skillhub.project.user_state import advising_roots, places_by_alias

_NO_FILE = "create the file, or remove its line from advisories in config.toml"

# The last documents of registries, which were verified when they were stored. By them a withdrawn release or a
# revoked key stays refused without a network, and without TUF.

HINTS = "publishers.json"
_NOTHING = Index({})


def kept(folder: str, target: str) -> str:
    """Return the path of the stored, verified document of a target."""
    return os.path.join(folder, "targets", target.replace("/", "%2F"))


def owners(folder: str) -> Mapping[str, str]:
    """Return the owner of each name when last seen: a hint, which the signed documents must confirm."""
    # The file is written without fsync: after a power cut it may be torn, and then counts as absent.
    with suppress(FormatError, StateError):
        data = files.read(os.path.join(folder, HINTS), DOCUMENT_CAP) or b"{}"
        return OwnersFile.parse({"owners": strict_json(data, HINTS, DOCUMENT_CAP)}, HINTS).owners
    return {}


class OwnersFile(Document):
    """``publishers.json`` in the cache of a registry: the owner of each name when last seen."""

    owners: Members[str, Annotated[str, Read(text_that(is_name, "a publisher"), **NAME)]]


class LastSeen:
    """The last documents of one registry on this machine; empty if it was never asked.

    Args:
        folder: The folder of its trusted metadata.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._documents: dict[str, tuple[Admission | None, Mapping[str, tuple[Release, ...]]]] = {}

    def index(self, names: Iterable[str]) -> Index:
        """Return the known releases of these names and the admissions of their publishers.

        A publisher that the registry no longer admits has an admission without names; a publisher whose document is
        missing or damaged has no admission.
        """
        skills: dict[str, tuple[Release, ...]] = {}
        admissions: dict[str, Admission] = {}
        for name in names:
            if (publisher := self._owners.get(name)) is None:
                continue
            if publisher not in self._documents:
                self._documents[publisher] = self._admission(publisher), self._skills(publisher)
            admission, releases = self._documents[publisher]
            if name in releases:
                skills[name] = releases[name]
            if admission is not None:
                admissions[publisher] = admission
        return Index(skills, admissions)

    def advisories(self, root: Digest) -> AdvisoryFeed:
        """Return the registry's advisories; none if it has none, or they were never fetched.

        Raises:
            FormatError, StateError: the file is damaged or cannot be read, so the advisories are unknown.
        """
        return _last_advisories(kept(self.folder, ADVISORIES), root)

    @property
    def refreshed(self) -> str | None:
        """When the registry was last asked (UTC); None if never."""
        with suppress(OSError):
            asked = os.stat(os.path.join(self.folder, "timestamp.json")).st_mtime
            return spell_time(datetime.fromtimestamp(asked, UTC))
        return None

    @property
    def names(self) -> Collection[str]:
        """The names that the registry had when they were last looked up."""
        return self._owners.keys()

    @cached_property
    def _owners(self) -> Mapping[str, str]:
        return owners(self.folder)

    def _admission(self, publisher: str) -> Admission | None:
        # Imported here and below, since an install with nothing to do reads no document of a registry.
        from skillhub.model.discovery import admitted, parse_namespaces  # noqa: PLC0415

        # The digest in the bucket is not compared: another publisher's update may have renewed the bucket alone, so
        # that the stored document is older. A revocation in it must still count.
        bucket, path = (kept(self.folder, each) for each in (namespace_path(publisher), publisher_path(publisher)))
        with suppress(FormatError, errors.NameNotOwned, StateError):
            if publisher not in parse_namespaces(files.read(bucket, DOCUMENT_CAP) or b"", bucket):
                return Admission(publisher=publisher)
            return admitted(publisher, files.read(path, DOCUMENT_CAP) or b"", path)
        return None

    def _skills(self, publisher: str) -> Mapping[str, tuple[Release, ...]]:
        from skillhub.model.discovery import parse_releases  # noqa: PLC0415

        path = kept(self.folder, index_path(publisher))
        with suppress(FormatError, StateError):
            _, releases = parse_releases(files.read(path, DOCUMENT_CAP) or b"", path)
            return grouped((release.name, release) for release in releases)
        return {}


class SeenRegistries:
    """The registries as this machine last saw them; a command reads each document from the disk once."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._read: dict[Digest, LastSeen] = {}

    def of(self, root: Digest) -> LastSeen:
        """Return the last documents of the registry with this first root."""
        return self._read.setdefault(root, LastSeen(os.path.join(self._home.registries, root.hex)))

    def forget(self) -> None:
        """Read the disk again from now on, since a registry may have been read meanwhile."""
        self._read.clear()


def last_seen(home: Home, root: Digest) -> LastSeen:
    """Return the last documents of the registry with this first root; read again only if its files changed."""
    folder = os.path.join(home.registries, root.hex)
    return _last_seen(folder, (*_stamps(folder), *_stamps(os.path.join(folder, "targets"))))


@lru_cache(maxsize=4)
def _last_seen(folder: str, stamps: tuple[str, ...]) -> LastSeen:
    return LastSeen(folder)


def _stamps(folder: str) -> list[str]:
    with suppress(OSError), os.scandir(folder) as entries:
        return sorted(f"{stamp_of(each.stat())} {each.name}" for each in entries)
    return []  # the registry was never asked, or its files are being written


ReadIntent = Callable[[], Intent]


@dataclass(frozen=True, slots=True)
class ReleaseStatus:
    """The status of a locked skill at its registry; empty for a skill from another kind of source.

    Attributes:
        index: The registry's latest index of the name, by ``Ports.index_of``, or the last known one.
    """

    name: str
    entry: Locked
    index: Index = _NOTHING

    @classmethod
    def last_seen(cls, name: str, entry: Locked, root: Digest | None, seen: SeenRegistries) -> ReleaseStatus:
        """Return the last known status at the registry with this root."""
        return cls(name, entry, seen.of(root).index([entry.own_name(name)]) if root else _NOTHING)

    @property
    def offered(self) -> tuple[Release, ...]:
        """Every release of the name, newest first."""
        return self.index.skills.get(self.entry.own_name(self.name), ())

    @property
    def release(self) -> Release | None:
        """The locked release, found by its digest; None if the registry is not known to have it."""
        return next((each for each in self.offered if each.digest == self.entry.digest), None)

    @property
    def admitted(self) -> Admission | None:
        """The registry's admission of the release's publisher; None if it is unknown."""
        release = self.release
        return self.index.admissions.get(release.publisher or "") if release else None

    @property
    def yanked(self) -> tuple[str, ...]:
        """The warning about a release that was yanked and not withdrawn: a lock may still install it."""
        release = self.release
        if release is None or release.yanked is None or release.withdrawn is not None:
            return ()
        return (f"version {release.version} was {release.taken_back}",)

    @property
    def objection(self) -> errors.SecurityError | None:
        """The reason why the locked release must not be used any more, or None."""
        return next((error for _, error in self.recalls()), None)

    def recalls(self) -> Iterator[tuple[Release, errors.SecurityError]]:
        """Yield each recalled release that the lock names, and the error that refuses it."""
        # A lock may combine the digest of one release with the tree of another, or with a patch that makes it a third
        # one: none of them may be recalled.
        trees = self.entry.tree, self.entry.original.tree
        for release in self.offered:
            is_locked = release.digest == self.entry.digest or release.tree in trees
            if is_locked and (error := self._recall(release)):
                yield release, error

    def _recall(self, release: Release) -> errors.SecurityError | None:
        entry, found = self.entry, f"{self.name} {release.version}"
        own, where = entry.own_name(self.name), entry.url
        if release.withdrawn is not None:
            reason = release.withdrawn or "no reason given"
            return errors.Withdrawn(f"{found} was withdrawn by its registry: {reason}", where=where)
        admission = self.index.admissions.get(release.publisher or "")
        if admission is None:
            return None
        publisher = by_word(admission.publisher, entry.source)
        if own not in admission.names:
            message = f"the registry has taken the name {own} from {publisher}, who published {found}"
            return errors.NameNotOwned(message, where=where)
        published = release.published or ""
        void = {each.fingerprint for each in admission.revoked if not published or published >= each.since}
        for signer in map(Signer.parse, entry.signed_by):
            if signer.fingerprint in void:
                message = f"{found} is signed by the key {signer.fingerprint}, which {publisher} has revoked"
                return errors.BadSignature("revoked", message, where=where)
        return None

    def other(self, until: str | None, range_: str | None = None) -> Release | None:
        """Return the choice of ``choose_release`` among all releases but the locked one, or None."""
        others = tuple(each for each in self.offered if each.digest != self.entry.digest)
        with suppress(SourceError):
            return choose_release(Named(self.name, None, range_), others, until)
        return None

    def is_by_another(self, release: Release) -> bool:
        """Return whether a release has another publisher than the locked one, so that no update installs it."""
        signers = {Signer.parse(each).identity for each in self.entry.signed_by}
        return bool(signers) and release.publisher not in signers

    def install_command(self, release: Release, version: str, scope: Scope) -> str:
        """Return the commands that install a release; no install replaces a skill by one of another publisher."""
        take = self.entry.install_command(self.name, version, scope)
        return f"{command(scope, 'remove', self.name)}, then {take}" if self.is_by_another(release) else take

    def refuse(self, scope: Scope, intent: ReadIntent) -> None:
        """Refuse a release that its registry has recalled.

        Raises:
            Withdrawn, BadSignature, NameNotOwned: it was withdrawn, or its key revoked, or its name given to another.
        """
        if error := self.objection:
            error.hint = self.remedy(error, scope, intent).hint
            raise error

    def remedy(self, error: errors.SecurityError, scope: Scope, intent: ReadIntent) -> Remedy:
        """Return what the user can do about ``objection``."""
        newest, remove = self.other(None), command(scope, "remove", self.name)
        is_moved = isinstance(error, errors.NameNotOwned) or (newest is not None and self.is_by_another(newest))
        removes = f"{remove} removes it"
        if newest is None or is_moved:
            later = "then the skill of the name's new owner may be installed"
            note = f"; {later if is_moved else 'its registry has no other version yet'}"
            return Remedy(remove, f"{removes}{note}", note)
        wanted = None
        with suppress(FormatError, StateError):  # a malformed skillhub.toml is for the commands that change it
            wanted = intent().range_of(self.name)
        if self.other(None, wanted):
            update = command(scope, "update", self.name)
            return Remedy(update, f"{update} installs another version, {removes}")
        take = self.install_command(newest, f"^{newest.version}", scope)
        return Remedy(take, f"{take} installs {newest.version}, which skillhub.toml does not allow yet, {removes}")


# The advisories on this disk, for loading skills: those of registries, files and mirrors. The rules are those of
# ``Advisories``, which also asks mirrors and registries.


@dataclass(frozen=True, slots=True)
class LockedSkill:
    """A locked skill, or one about to be locked, as advisories are matched against it.

    Attributes:
        record: What a person agreed to, whatever the lock says.
        root: The first root of its registry.
        urls: Returns every URL of its source.
        offered: Returns the releases of its name that its registry has; the lock may name another artifact.
        tree: Its files; None for those in the store, which are read only if an advisory names its name or digests.
    """

    name: str
    entry: Locked
    record: Record | None
    root: Digest | None
    store: Store
    urls: Callable[[], tuple[str, ...]]
    offered: Callable[[], Iterable[Release]]
    tree: Tree | None = None

    def matches(self, known: AdvisoryIndex) -> tuple[Match, ...]:
        """Return the matches with these advisories, worst first."""
        own = self.entry.own_name(self.name)
        return known.matches(AdvisorySubject(own, self._versions, self.root, self.urls, self._digests))

    @property
    def _agreed(self) -> list[Consent]:
        return [each for each in self.record.consents if each.tree == self.entry.tree] if self.record else []

    def _versions(self) -> tuple[str, ...]:
        """Return the locked version and commit, those in ``SKILL.md`` with and without a patch, the agreed commit."""
        from skillhub.model.manifest import Manifest  # noqa: PLC0415 - few skills have an advisory

        entry, read = self.entry, self.store.read
        trees = [self.tree or read(entry.tree), read(entry.original.tree) if entry.patch else None]
        found = [entry.version, entry.rev, *(each.rev for each in self._agreed)]
        for tree in filter(None, trees):
            with suppress(FormatError, errors.SecurityError):
                found.append(Manifest.read(tree).version)
        return tuple(dict.fromkeys(filter(None, found)))

    def _digests(self) -> Mapping[str, str]:
        entry = self.entry
        listing = self.tree.listing if self.tree is not None else self.store.listing(entry.tree)
        names = digests_of(listing or Listing({}))
        names |= {entry.original.tree: "its tree", entry.tree: "its tree"}
        artifacts = [entry.digest, *(each.digest for each in self.offered() if each.tree == entry.original.tree)]
        artifacts += [each.digest for each in self._agreed]
        return names | dict.fromkeys(filter(None, artifacts), "its artifact")


class Recalls:
    """The releases and recalls of a project's locked skills, as their registries were last seen.

    A repository may change the root of a registry in its lock: each root that the alias named counts.

    Args:
        lock: The lock.
        home: The folders of the user.
        project: The ``key`` of the ``Project``.
    """

    def __init__(self, lock: Lock, home: Home, project: str) -> None:
        self._lock = lock
        self.places = places_by_alias(home, project)
        named = (place for each in self.places.values() for place in each if _is_root(place))
        roots = {*named, *filter(None, (each.root for each in lock.sources.values()))}
        self._registries = {root: last_seen(home, Digest(root)) for root in roots}

    def indexes(self, name: str, entry: Locked) -> Iterator[Index]:
        """Yield what each registry that may have released a locked skill has of its name."""
        named = filter(_is_root, self.places.get(entry.source, ()))
        for root in filter(None, {self._lock.root_of(entry), *named}):
            yield self._registries[root].index([entry.own_name(name)])

    def reason(self, name: str, entry: Locked) -> str | None:
        """Return why a registry recalled a locked skill; None if none did."""
        for index in self.indexes(name, entry):
            for release, error in ReleaseStatus(name, entry, index).recalls():
                return error.message if release.withdrawn is None else release.withdrawn or "no reason given"
        return None


def _is_root(place: str) -> bool:
    return place.startswith("sha256:")


class LoadCheck:
    """The check whether a locked skill must not be loaded, by an advisory on this disk or by its registry.

    Args:
        lock: The lock.
        store: The store.
        home: The folders of the user.
        project: The ``key`` of the ``Project``.
        scope: Its scope, for the commands that help.
        intent: Reads its intent.

    Raises:
        NotFound, FormatError, StateError: the user's settings, or a file that they name, cannot be read, so its
            advisories are unknown.
    """

    def __init__(self, lock: Lock, store: Store, home: Home, project: str, scope: Scope, intent: ReadIntent) -> None:
        self._lock, self._store, self._scope, self._intent = lock, store, scope, intent
        self._recalls = Recalls(lock, home, project)
        self._roots = advising_roots(home, project)
        self._advisories = _advisory_index(tuple(_advisory_files(home, self._roots.values())))

    def hold(self, name: str, entry: Locked, record: Record | None) -> HoldReason | None:
        """Return why the skill must not be loaded, and the command that helps; None if it may be."""
        if match := next((each for each in self.matches(name, entry, record) if each.is_refused), None):
            return HoldReason("known-bad", f"is known to be bad: {match}", command(self._scope, "remove", name))
        for index in self._recalls.indexes(name, entry):
            status = ReleaseStatus(name, entry, index)
            if error := status.objection:
                way = status.remedy(error, self._scope, self._intent)
                return HoldReason("withdrawn", f"must not be used, since {error.message}{way.note}", way.command)
        return None

    def matches(self, name: str, entry: Locked, record: Record | None) -> tuple[Match, ...]:
        """Return the advisories about the skill, the worst first."""
        if not self._advisories:
            return ()
        named = self._roots.get(entry.source) if entry.named else None
        root, own = Digest(named) if named else None, entry.own_name(name)
        offered = (each.skills.get(own, ()) for each in self._recalls.indexes(name, entry))
        releases, urls = partial(chain.from_iterable, offered), partial(self._urls, entry)
        skill = LockedSkill(name, entry, record, root, self._store, urls, releases)
        return skill.matches(self._advisories)

    def _urls(self, entry: Locked) -> tuple[str, ...]:
        if entry.named or entry.local:
            source = self._lock.sources.get(entry.source) if entry.named else None
            return (*self._recalls.places.get(entry.source, ()), *((source.url,) if source is not None else ()))
        url = url_of(parse_remote(entry.place), os.environ)
        return tuple(dict.fromkeys((url, entry.git or url)))


def _advisory_files(home: Home, roots: Iterable[str | None]) -> Iterator[tuple[str, str | None, Stamp]]:
    """Yield each file with advisories, of the user or of these registries: its registry's root, and its stamp."""
    for root in filter(None, dict.fromkeys(roots)):
        path = kept(os.path.join(home.registries, root.removeprefix("sha256:")), ADVISORIES)
        if os.path.isfile(path):
            yield path, root, _stamp(path)
    if not home.is_configured:
        return
    from skillhub.net.settings import Settings  # noqa: PLC0415 - few users have settings, and it loads much

    for place in Settings.read(home).advisories:
        if "://" not in place:
            own = _own_file(place, home.config)
            yield own, None, _stamp(own)
        elif os.path.isfile(own := _answer_file(place, home.state)):
            yield own, None, _stamp(own)


def _own_file(place: str, base: str) -> str:
    return os.path.realpath(os.path.join(base, os.path.expanduser(place)))


def _answer_file(url: str, state: str) -> str:
    """Return the path of the last answer of a mirror."""
    return os.path.join(state, "advisories", f"{Digest.of(url.encode()).hex}.json")


def _stamp(path: str) -> Stamp:
    try:
        return stamp_of(os.stat(path))
    except OSError as error:
        raise NotFound("there is no file with advisories", where=path, hint=_NO_FILE) from error


@lru_cache(maxsize=4)
def _advisory_index(places: tuple[tuple[str, str | None, Stamp], ...]) -> AdvisoryIndex:
    feeds = (_last_advisories(path, Digest(root) if root else None) for path, root, _ in places)
    return AdvisoryIndex(feeds, datetime.now(UTC))


def _last_advisories(path: str, root: Digest | None) -> AdvisoryFeed:
    """Return the advisories in a file of a registry, of a mirror or of the user; none without a file."""
    data = files.read(path, CAP)
    try:
        return AdvisoryFeed.parse(b"{}" if data is None else data, path, root)
    except FormatError as error:
        error.hint = f"{as_command('skillhub', 'audit')} fetches it again" if root else error.hint
        raise


# The advisories of the user's registries, files and mirrors.

FetchMirror = Callable[[str], bytes]  # URL -> bytes; raises SourceError if the server does not answer


class Advisories:
    """All advisories for one command, read at the first use.

    Args:
        seen: The registries as last seen.
        roots: Returns the roots of the user's registries.
        own: Returns the advisories of the user's files and mirrors.
        clock: Returns the time, by which an advisory may be withdrawn.

    Attributes:
        outdated: For each mirror of which only an earlier answer counts, why; filled at the first use.
    """

    def __init__(
        self,
        seen: SeenRegistries,
        roots: Callable[[], Iterable[Digest]],
        own: Callable[[], Iterable[AdvisoryFeed]],
        clock: Callable[[], datetime],
    ) -> None:
        self._seen, self._roots = seen, roots
        self._own, self._clock = own, clock
        self._opened: dict[Digest, Callable[[], AdvisoryFeed]] = {}
        self._index: AdvisoryIndex | None = None
        self.outdated: list[str] = []
        self._feeds: list[AdvisoryFeed] = []

    def add_opened(self, root: Digest, feed: Callable[[], AdvisoryFeed]) -> None:
        """Use the current advisories of an opened registry in place of its last ones."""
        if root not in self._opened:
            self._opened[root], self._index = feed, None

    def warnings(self) -> tuple[str, ...]:
        """Return what is invalid in the advisories that ``known`` returned, so that more versions are affected."""
        now = self._clock()
        return few([text for feed in self._feeds for each in feed.document.advisories for text in each.warnings(now)])

    def ignore_all(self) -> None:
        """Use no advisories; for commands that only show skills, after a warning."""
        self._index = AdvisoryIndex((), self._clock())

    def known(self) -> AdvisoryIndex:
        """Return all advisories.

        Raises:
            SourceError, SecurityError, FormatError, StateError: those of a registry, file or mirror cannot be read.
        """
        if self._index is None:
            before = [self._seen.of(root).advisories(root) for root in self._roots() if root not in self._opened]
            mine = [*self._own()]
            self.outdated = [each.outdated for each in mine if each.outdated]
            self._feeds = [*before, *(each() for each in self._opened.values()), *mine]
            self._index = AdvisoryIndex(self._feeds, self._clock())
        return self._index


def own_advisories(places: Iterable[str], base: str, state: str, fetch: FetchMirror) -> Iterator[AdvisoryFeed]:
    """Yield the advisories of the user's files and mirrors; the last answer of a mirror that does not answer.

    Args:
        places: Paths, relative to ``base``, and URLs.
        base: The folder of the user's settings.
        state: The folder that stores the last answer of each mirror.
        fetch: Asks a mirror.

    Raises:
        NotFound: a file does not exist.
        SourceError: a mirror does not answer, and has never answered.
        FormatError: a file or an answer is no list of advisories or digests.
        StateError: the disk refuses.
    """
    for place in places:
        if "://" not in place:
            data = files.read(_own_file(place, base), CAP)
            if data is None:
                raise NotFound("there is no file with advisories", where=place, hint=_NO_FILE)
            yield AdvisoryFeed.parse(data, place)
            continue
        answer = _answer_file(place, state)
        try:
            data = fetch(place)
            feed = AdvisoryFeed.parse(data, place)
            files.write_atomic(answer, data, mode=0o600, sync=False)
            yield feed
        except SourceError as error:
            last = files.read(answer, CAP)
            if last is None:
                error.hint = f"{as_command('skillhub', 'audit')} fetches its first answer"
                raise
            yield replace(AdvisoryFeed.parse(last, answer), outdated=f"{place} was not contacted: {error.message}")

"""The client of a registry: python-tuf verifies its metadata, and its errors become skillhub's."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING, Self, TypeVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from tuf.api import exceptions
from tuf.api.metadata import TargetFile, Targets  # type: ignore[attr-defined]
from tuf.api.serialization import DeserializationError
from tuf.ngclient import FetcherInterface, Updater, UpdaterConfig  # type: ignore[attr-defined]

from skillhub import errors
from skillhub.disk.files import disk_error, disk_errors, lock, read, write_atomic
from skillhub.errors import BadLog, FormatError, NameNotOwned, NotFound, SourceError, WrongBytes
from skillhub.formats.digest import Digest
from skillhub.formats.text import is_name, quote
from skillhub.model import discovery
from skillhub.model.advisory import AdvisoriesDocument, AdvisoryFeed
from skillhub.model.discovery import PartDocument, PinnedPart, admitted
from skillhub.model.index import ADVISORIES, DOCUMENT_CAP, Admission, Index, Release, index_path, namespace_path
from skillhub.model.lock import ROOT_CAP
from skillhub.net.fetch import Fetcher
from skillhub.project.last_seen import HINTS, kept, owners
from skillhub.sources.history import ShownTime
from skillhub.trust import registry_metadata, registry_rules, roles
from skillhub.trust.keys import PublicKey
from skillhub.trust.roles import NAMESPACE_PATHS, WELL_KNOWN, skill_path

if TYPE_CHECKING:
    from skillhub.trust.log_client import RegistryLog

_Done = TypeVar("_Done")

# The errors for python-tuf's exceptions.

_MEANING: Mapping[type[Exception], tuple[type[errors.SkillhubError], str]] = {
    exceptions.ExpiredMetadataError: (errors.MetadataExpired, "the metadata has expired"),
    exceptions.BadVersionNumberError: (errors.Rollback, "the metadata is older than the version last seen"),
    exceptions.UnsignedMetadataError: (errors.BadMetadataSignature, "too few of the right keys have signed"),
    exceptions.LengthOrHashMismatchError: (WrongBytes, "the metadata does not match its signed digest"),
    exceptions.RepositoryError: (errors.BadMetadata, "the metadata contradicts itself"),
    exceptions.DownloadLengthMismatchError: (WrongBytes, "the metadata exceeds its maximum size"),
    exceptions.DownloadError: (SourceError, "cannot fetch the metadata"),
}


@contextmanager
def translated(where: str, time: ShownTime | None = None) -> Iterator[None]:
    """Turn exceptions of python-tuf and of the disk into skillhub's errors, which name ``where``.

    A path out of the folder, which makes the document of a plain site malformed, is ``bad-metadata`` in a signed one.
    If metadata has expired by ``time`` and the clock is behind that, the hint says so.

    Raises:
        SecurityError: the metadata is not trusted.
        FormatError: the bytes are no metadata.
        SourceError: the metadata cannot be fetched.
        StateError: the disk refuses.
    """
    try:
        yield
    except discovery.LeadsOut as error:
        raise errors.BadMetadata(error.message, where=error.where) from error
    except DeserializationError as error:
        raise FormatError("expected signed metadata, found something else", where=where) from error
    except OSError as error:
        raise disk_error(error, os.fsdecode(error.filename or where)) from error
    except tuple(_MEANING) as error:
        kind, message = next(_MEANING[cause] for cause in type(error).__mro__ if cause in _MEANING)
        hint = None
        if kind is errors.MetadataExpired:
            hint = "set the clock of this machine; if it is right, the operator of the registry must refresh it"
            hint = f"{time.behind}: {time.remedy}" if time and time.behind else hint
        cause = error.__cause__
        reason = cause.message if isinstance(cause, errors.SkillhubError) else quote(str(error), 200)
        raise kind(f"{message}: {reason}", where=where, hint=hint) from error


@contextmanager
def _in_background(work: Callable[[], _Done]) -> Iterator[Future[_Done]]:
    """Run ``work`` on a thread meanwhile and wait for its end; an interrupt does not wait, which may take minutes."""
    pool, is_stopped = ThreadPoolExecutor(1), False
    try:
        yield pool.submit(work)
    except KeyboardInterrupt:
        is_stopped = True
        raise
    finally:
        pool.shutdown(wait=not is_stopped)


# The client of a registry: python-tuf verifies the metadata that it fetches through ``_Bridge``.

# A registry that changes the online keys of two roles every week makes 208 roots a year; python-tuf's limit of 256
# would end it after 15 months, for new and old clients alike. These limits allow the same 131 MB of roots as its own.
# A name is in the third role or nowhere: targets, releases, a bin. Each document of 5 MB may fill 110 MB of memory.
_LIMITS = UpdaterConfig(max_root_rotations=4096, root_max_length=ROOT_CAP, max_delegations=8)
_BUNDLE_CAP = 8_000_000
_PATTERNS_MAX = 10_000  # characters of the paths of delegated roles, with each of which each name is compared
_Parsed = TypeVar("_Parsed")


def fetch_root(url: str, fetcher: Fetcher) -> bytes:
    """Return the unverified ``1.root.json`` of the registry at ``url``; the user has to confirm its digest.

    Raises:
        SourceError: the registry cannot be reached, or the site is no registry.
        FormatError: the server answers with a web page.
        SecurityError: as for ``Fetcher.get``.
    """
    place = f"{url.rstrip('/')}/metadata/1.root.json"
    try:
        data = fetcher.get(place, cap=ROOT_CAP).data
    except NotFound as error:
        error.hint = "the URL of a registry is the folder of its index.html, without a file name"
        raise
    if data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
        hint = "the server may ask for a login; a site that is not a registry must answer 404 there"
        raise FormatError("expected the root of a registry, found a web page", where=place, hint=hint)
    return data


def _publisher_of(name: str, url: str, fetcher: Fetcher) -> str:
    """Return the publisher of ``name`` from the public listing: a hint, which signed documents must confirm."""
    where = f"{url}/{WELL_KNOWN}/{skill_path(name)}"
    try:
        data = fetcher.get(where, cap=DOCUMENT_CAP).data
    except NotFound as error:
        raise NotFound(f"there is no skill {quote(name)}", where=url) from error
    with translated(url):
        first = discovery.parse_skill(data, where)[0]
    if first.publisher is None or first.name != name:
        raise FormatError(f"expected the releases of {quote(name)}, found {quote(first.name)}'s", where=where)
    return first.publisher


@dataclass(frozen=True, slots=True)
class _Published:
    """The admission of one publisher, and its releases by name."""

    admission: Admission
    skills: Mapping[str, tuple[Release, ...]]


class TufRegistry:
    """A registry whose metadata is verified and fresh as of ``open``; safe for many threads.

    Attributes:
        url: The base URL, without a slash at the end.
        fingerprint: SHA-256 of the first root, which identifies the registry.
        log: The log of the registry; None if it never announced one.
    """

    def __init__(self, url: str, fingerprint: Digest, fetcher: Fetcher, updater: _Client, folder: str) -> None:
        self.url, self.fingerprint = url, fingerprint
        self._fetcher, self._updater, self._folder = fetcher, updater, folder
        self._timestamp = self._kept_timestamp()
        self._owners: dict[str, _Published] = {}
        self._asked: Mapping[str, Future[str]] = {}
        self._is_log_checked = False
        self.log: RegistryLog | None = None

    @classmethod
    def open(
        cls, url: str, root: bytes, fetcher: Fetcher, folder: str, time: ShownTime | None = None, name: str = ""
    ) -> Self:
        """Return the registry at ``url``, its metadata updated and verified.

        Args:
            url: The base URL, as the user configured it.
            root: The bytes of the first root, which have the pinned digest.
            fetcher: Fetches documents and artifacts.
            folder: The folder of this registry's trusted metadata; it protects against rollback.
            time: The time by which expiry is judged; None for the machine's clock alone.
            name: A skill that the caller wants next: who publishes it is asked meanwhile, if it is not known.

        Raises:
            SecurityError: the metadata is expired (``metadata-expired``), older than before (``rollback``), lacks
                signatures (``bad-metadata-signature``), differs from its signed digest (``wrong-bytes``), or is
                contradictory (``bad-metadata``); the registry no longer announces its log (``bad-log``).
            SourceError: the registry cannot be reached.
            FormatError: the answer is no metadata, such as the sign-in page of a captive portal.
            StateError: the disk refuses.
        """
        base = url.rstrip("/")
        asked = dict[str, Future[str]]()
        with translated(base, time), lock(os.path.join(folder, "lock")), ExitStack() as meanwhile:
            if is_name(name) and name not in owners(folder):
                asked[name] = meanwhile.enter_context(_in_background(partial(_publisher_of, name, base, fetcher)))
            is_new = not os.path.exists(os.path.join(folder, "snapshot.json"))
            bridge = _Bridge(fetcher, f"{base}/{registry_metadata.METADATA_BUNDLE_PATH}" if is_new else None)
            updater = _Client(folder, f"{base}/metadata/", bridge, root, time)
            updater.refresh()
            updater.keep_bundled(bridge)
            registry = cls(base, Digest.of(root), fetcher, updater, folder)
            registry._asked = asked
            if updater.log_key is not None or os.path.exists(os.path.join(folder, roles.LOG_SEEN)):
                # Most registries have no log: an install loads this module only for those that do.
                from skillhub.trust.log_client import AnnouncedLog, RegistryLog  # noqa: PLC0415

                def get(url: str, cap: int) -> bytes:
                    return fetcher.get(url, cap=cap).data

                announced = AnnouncedLog(base, registry.fingerprint, updater.log_key)
                registry.log = RegistryLog(announced, folder, get, registry._log_head)
        return registry

    @property
    def shown(self) -> datetime:
        """The latest time that the verified metadata shows."""
        return self._updater.shown

    def release_index(self, names: Iterable[str]) -> Index:
        """Return every release of these skills, from the publishers that own their names.

        Raises:
            NotFound: there is no such skill.
            NameNotOwned: the publisher that offers the skill does not own its name.
            BadLog: the registry's log was rewritten, or is missing.
            SecurityError, SourceError, FormatError, StateError: as for ``open``.
        """
        skills: dict[str, tuple[Release, ...]] = {}
        admissions: dict[str, Admission] = {}
        with self._log_checked():
            for name in names:
                owner = self._owner(name)
                if name not in owner.skills:
                    raise NotFound(f"there is no release of {quote(name)}", where=self.url)
                skills[name] = owner.skills[name]
                admissions[owner.admission.publisher] = owner.admission
        return Index(skills, admissions)

    @contextmanager
    def _log_checked(self) -> Iterator[None]:
        """Fetch and check the newest entry of the log meanwhile, if there is one; its error precedes all others."""
        log = self.log
        if log is None or self._is_log_checked:
            yield
            return
        with _in_background(lambda: log.head) as head:
            try:
                yield
            except errors.SkillhubError:
                head.result()
                raise
            head.result()
        self._is_log_checked = True

    def listing(self, text: str = "") -> Index:
        """Return the newest release of every skill, to search in; its URLs are those of the public document.

        For a large registry, return only the releases closest to ``text``, with a warning. Only an online key signs
        the listing, so an install uses ``release_index``.

        Args:
            text: The words that the user searches for.

        Raises:
            SecurityError, SourceError, FormatError, StateError: as for ``open``.
        """
        if (found := self.document("index.json", discovery.parse_listing)) is not None:
            return found
        if (first := self.first_part()) is None:
            raise NotFound("the registry has no listing", where=self.url)
        skills: dict[str, tuple[Release, ...]] = {}
        warnings = []
        for word in registry_rules.searched(text) or [""]:
            part = registry_rules.walk(first, word, self.part)
            if part.prefix.startswith(word) and len(part.rows) < part.count:
                what = f"{part.count:,} entries {f'begin with {word}' if word else 'are listed'}"
                warnings.append(f"{what}, of which {len(part.rows)} were read: search for more words")
            for row in part.rows:
                url = f"{self.url}/{WELL_KNOWN}/{skill_path(row.name)}"
                skills[row.name] = (Release(url=url, **row.model_dump(exclude={"key", "document"})),)
        return Index(skills, warnings=tuple(warnings))

    def first_part(self) -> PartDocument | None:
        """Return the first part of the listing of a large registry; raises as ``listing``."""
        return self.document(roles.PARTS, partial(registry_rules.part_of, "", None))

    def part(self, prefix: str, pinned: PinnedPart) -> PartDocument:
        """Return a part that another one pins; raises as ``listing``."""
        return self.pinned(registry_rules.part_path(prefix), pinned, partial(registry_rules.part_of, prefix, pinned))

    def pinned(self, path: str, pinned: discovery.Pinned, parse: Callable[[bytes, str], _Parsed]) -> _Parsed:
        """Return a file that a signed document pins; raises as ``document``."""
        return self._content(registry_metadata.pinned_target(path, pinned), parse)

    def offers(self) -> Index:
        """Return every signed release, listed or not; for operators, since this reads all documents.

        Raises:
            NameNotOwned: a publisher offers a name that it does not own, or two publishers own one name.
            SecurityError, SourceError, FormatError, StateError: as for ``open``.
        """
        skills: dict[str, tuple[Release, ...]] = {}
        admissions: dict[str, Admission] = {}
        with translated(self.url, self._updater.time), lock(os.path.join(self._folder, "lock")):
            targets = [self._updater.get_targetinfo(path) for path in NAMESPACE_PATHS]
        for target in filter(None, targets):
            for publisher, pinned in self._content(target, discovery.parse_namespaces).items():
                admissions[publisher] = self._admission(publisher, pinned)
                releases = self.document(index_path(publisher), discovery.parse_releases)
                skills |= self._published(admissions[publisher], releases).skills
        registry_rules.refuse_shared(admissions.values())
        return Index(skills, admissions)

    def advisories(self) -> AdvisoryFeed:
        """Return the registry's advisories about skills that are known to be bad.

        Raises:
            SecurityError, SourceError, FormatError, StateError: as for ``open``.
        """
        with translated(self.url, self._updater.time), lock(os.path.join(self._folder, "lock")):
            target = self._updater.of_role(roles.RELEASES, ADVISORIES)
        if target is not None:
            return self._content(target, partial(AdvisoryFeed.parse, root=self.fingerprint))
        self._keep(kept(self._folder, ADVISORIES), None)
        return AdvisoryFeed(AdvisoriesDocument(), self.fingerprint)

    def artifact(self, release: Release) -> bytes:
        """Return the artifact of a release from ``release_index``.

        Raises:
            WrongBytes: the size or digest is not the signed one.
            BadLog: the registry has a log, and does not prove that it contains the release.
            SourceError: the artifact cannot be fetched.
        """
        if self.log is not None:
            self.log.require(release)
        cap = DOCUMENT_CAP if release.size is None else release.size
        return registry_rules.checked(release, self._fetcher.get(release.url, cap=cap).data)

    def cosigned_by(self, witnesses: Collection[str]) -> frozenset[str]:
        """Return the given witnesses that have cosigned the log's newest checkpoint; raises as the log does."""
        return self.log.cosigned_by(witnesses) if self.log is not None else frozenset()

    def _log_head(self) -> bytes:
        try:
            with translated(self.url, self._updater.time), lock(os.path.join(self._folder, "lock")):
                target = self._updater.of_role(roles.LOG, roles.LOG_HEAD)
            if target is not None:
                return self._content(target, lambda data, _: data)
        except SourceError as error:
            if not isinstance(error.__cause__, NotFound | exceptions.DownloadHTTPError):
                raise
        raise BadLog("the registry announces a log but does not serve it", where=self.url)

    def _owner(self, name: str) -> _Published:
        if name in self._owners:
            return self._owners[name]
        if not is_name(name):
            raise NotFound(f"{quote(name)} is not a valid name of a skill", where=self.url)
        if known := owners(self._folder).get(name):
            # If the name has a new owner since, the public listing names it.
            with suppress(NameNotOwned, NotFound):
                return self._load(name, known)
        asked = self._asked.get(name)
        return self._load(name, asked.result() if asked else _publisher_of(name, self.url, self._fetcher))

    def _load(self, name: str, publisher: str) -> _Published:
        """Return the signed admission and releases of ``publisher``, after the check that it owns ``name``.

        The releases are fetched meanwhile, and ignored if the check fails.
        """
        target = self._target(namespace_path(publisher))
        with _in_background(lambda: self.document(index_path(publisher), discovery.parse_releases)) as releases:
            pinned = self._content(target, discovery.parse_namespaces).get(publisher) if target else None
            known = {publisher: self._admission(publisher, pinned)} if pinned else {}
            admission = registry_rules.admission_of(name, publisher, known)
        found = self._published(admission, releases.result())
        with self._unless_newer(place := os.path.join(self._folder, HINTS)) as is_current:
            hints = owners(self._folder)
            learned = {**hints, **dict.fromkeys(found.admission.names, publisher)}
            if is_current and learned != hints:
                write_atomic(place, json.dumps(learned, sort_keys=True).encode(), mode=0o600, sync=False)
        return found

    def _admission(self, publisher: str, pinned: discovery.Pinned) -> Admission:
        return self._content(registry_metadata.publisher_target(publisher, pinned), partial(admitted, publisher))

    def _published(self, admission: Admission, releases: tuple[str, tuple[Release, ...]] | None) -> _Published:
        skills = registry_rules.released_by(admission, *releases) if releases else {}
        absolute = {
            name: tuple(replace(release, url=f"{self.url}/{release.url}") for release in offered)
            for name, offered in skills.items()
        }
        found = _Published(admission, absolute)
        self._owners |= dict.fromkeys(admission.names, found)
        return found

    def document(self, path: str, parse: Callable[[bytes, str], _Parsed]) -> _Parsed | None:
        """Return the parsed target ``path``; None if none is signed. A kept file with the signed digest is reused.

        Raises:
            SecurityError, SourceError, FormatError, StateError: as for ``open``, and as ``parse`` raises.
        """
        target = self._target(path)
        return None if target is None else self._content(target, parse)

    def _target(self, path: str) -> TargetFile | None:
        with translated(self.url, self._updater.time), lock(os.path.join(self._folder, "lock")):
            return self._updater.get_targetinfo(path)

    def _content(self, target: TargetFile, parse: Callable[[bytes, str], _Parsed]) -> _Parsed:
        """Return a target or a publisher's document, verified against its entry and parsed, and keep the file."""
        with translated(self.url):
            where = f"{self.url}/{registry_metadata.path_of(target)}"
            place = kept(self._folder, target.path)
            with suppress(FormatError, exceptions.LengthOrHashMismatchError):
                data = read(place, target.length) or b""
                target.verify_length_and_hashes(data)
                return parse(data, where)
            try:
                # The signed length is the registry's word alone; no document may be larger than the largest listing.
                data = self._fetcher.get(where, cap=min(target.length, discovery.LISTING_CAP)).data
            except NotFound as error:
                raise SourceError("a signed file is missing", where=where) from error
            target.verify_length_and_hashes(data)
            document = parse(data, where)
            self._keep(place, data)
            return document

    def _keep(self, place: str, data: bytes | None) -> None:
        """Keep a verified file, or none, unless another process has kept those of newer metadata."""
        with self._unless_newer(place) as is_current, suppress(FileNotFoundError):
            if is_current and data is None:
                os.remove(place)
            elif is_current and data is not None:
                write_atomic(place, data, mode=0o600, sync=False)

    @contextmanager
    def _unless_newer(self, place: str) -> Iterator[bool]:
        """Lock the folder, and return whether no other process has kept newer metadata since ``open``.

        An older file would hide a withdrawal or an advisory that this machine has seen.
        """
        with disk_errors(place), lock(os.path.join(self._folder, "lock")):
            yield self._kept_timestamp() == self._timestamp

    def _kept_timestamp(self) -> bytes | None:
        return read(os.path.join(self._folder, "timestamp.json"), DOCUMENT_CAP)


class _Client(Updater):
    """python-tuf's client, which judges expiry by ``time``."""

    def __init__(self, folder: str, url: str, fetcher: _Bridge, root: bytes, time: ShownTime | None = None) -> None:
        registry_metadata.refuse_other_keys(root, url)
        super().__init__(folder, url, fetcher=fetcher, config=_LIMITS, bootstrap=root)
        self.time = time
        if time is not None:
            # ``Updater`` has no argument for this; it checks the expiry of every role by this one attribute.
            self._trusted_set.reference_time = time.now()

    def _load_targets(self, role: str, parent_role: str) -> Targets:
        if not isinstance(role, str):  # python-tuf accepts any value as the name of a role
            raise exceptions.RepositoryError("expected text as the name of a role")
        targets = super()._load_targets(role, parent_role)
        delegated = (targets.delegations.roles or {}).values() if targets.delegations else ()
        patterns = [text for each in delegated for text in (*(each.paths or ()), *(each.path_hash_prefixes or ()))]
        if sum(map(len, patterns)) + len(delegated) > _PATTERNS_MAX:
            raise exceptions.RepositoryError("expected fewer or shorter paths of delegated roles")
        return targets

    def of_role(self, role: str, path: str) -> TargetFile | None:
        """Return the entry of a target in a role that targets delegates to; ignore the delegations of this role."""
        return self._load_targets(role, roles.TARGETS).targets.get(path)

    def keep_bundled(self, bridge: _Bridge) -> None:
        """Verify and keep the roles in the metadata bundle, so that the next command need not fetch them.

        An expired or invalid role is not kept; the command that needs it refuses it.
        """
        delegations = self._trusted_set.targets.delegations
        for role in (delegations.roles or ()) if delegations else ():
            found = self._trusted_set.snapshot.meta.get(f"{role}.json")
            if found is not None and f"{found.version}.{role}.json" in bridge.bundled:
                with suppress(exceptions.RepositoryError):
                    self._load_targets(role, roles.TARGETS)

    @property
    def log_key(self) -> PublicKey | None:
        """The key of the registry's log, signed by its offline keys; None if the registry announces no log."""
        delegations = self._trusted_set.targets.delegations
        role = (delegations.roles or {}).get(roles.LOG) if delegations else None
        if delegations is None or role is None:
            return None
        try:
            (key,) = (delegations.keys[each].keyval["public"] for each in role.keyids)
            return PublicKey.of(Ed25519PublicKey.from_public_bytes(bytes.fromhex(key)))
        except (ValueError, KeyError) as error:
            raise BadLog("expected one Ed25519 key of the registry's log") from error

    @property
    def shown(self) -> datetime:
        """The latest time that the verified metadata of the top roles shows."""
        top = (roles.ROOT, roles.TIMESTAMP, roles.SNAPSHOT, roles.TARGETS)
        return roles.signed_by({role: self._trusted_set[role].expires for role in top})


class _Bridge(FetcherInterface):
    """An adapter from ``Fetcher`` to python-tuf's interface.

    Args:
        fetcher: Fetches the documents.
        bundle_url: The URL of the metadata bundle; None for a client that is not new.
    """

    def __init__(self, fetcher: Fetcher, bundle_url: str | None) -> None:
        self._fetcher, self._bundle_url = fetcher, bundle_url

    def _fetch(self, url: str) -> Iterator[bytes]:
        # python-tuf's streams give no limit: no document may be larger than the bundle of several.
        return iter([self.download_bytes(url, _BUNDLE_CAP)])

    def download_bytes(self, url: str, max_length: int) -> bytes:
        name = url.rpartition("/")[2]
        data = self.bundled.get(name) if registry_metadata.is_in_metadata_bundle(name) else None
        if data is None or len(data) > max_length:
            try:
                data = self._fetcher.get(url, cap=max_length).data
            except NotFound as error:
                raise exceptions.DownloadHTTPError(str(error), 404) from error
        registry_metadata.refuse_other_keys(data, url)
        return data

    @cached_property
    def bundled(self) -> Mapping[str, bytes]:
        """The bundled documents by name, fetched with the first document that may be in it; empty on failure."""
        with suppress(SourceError, WrongBytes):
            if self._bundle_url:
                answer = self._fetcher.get(self._bundle_url, cap=_BUNDLE_CAP)
                return registry_metadata.read_metadata_bundle(answer.data)
        return {}

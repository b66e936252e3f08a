"""A registry on its operator's disk: folder, settings, private keys; opened under a lock for writing."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Self

from tuf.api.exceptions import LengthOrHashMismatchError
from tuf.api.metadata import TargetFile  # type: ignore[attr-defined]

from skillhub.disk import files
from skillhub.errors import (
    BadMetadata,
    FormatError,
    NotFound,
    Refused,
    Rollback,
    SecurityError,
    StateError,
    UsageError,
    WrongBytes,
)
from skillhub.formats import text as times
from skillhub.formats.digest import Digest
from skillhub.formats.document import (
    NAME,
    ExtensibleDocument,
    Read,
    integer,
    json_bytes,
    matching,
    name_that,
    version_of,
)
from skillhub.formats.text import as_command, is_name, quote
from skillhub.model.discovery import PartRow, Pinned, admitted, parse_listing, parse_namespaces, parse_releases
from skillhub.model.index import Admission, Index, Release, index_path, namespace_path
from skillhub.model.reference import check_port
from skillhub.registry import log_writer
from skillhub.registry.keys import RegistryKeys
from skillhub.trust import documents as written
from skillhub.trust.documents import LISTING_PATH, signed_documents
from skillhub.trust.keys import PrivateKey
from skillhub.trust.log import LogHead, entry, origin_of
from skillhub.trust.metadata import Dates, MetadataSet, keyid, path_of, publisher_target, verify
from skillhub.trust.registry import checked, part_of, refuse_shared
from skillhub.trust.roles import LOG, LOG_HEAD, NAMESPACES, PARTS, ROOT, SNAPSHOT, TARGETS, TIMESTAMP, skill_path

# DIR/site: what any web server may serve; DIR/keys: see ``registry.keys``; DIR/registry.json: the settings

_CAP = 64 * 1024 * 1024
_BIN_BITS_MAX = 12  # each bin is a row of the snapshot, which every client reads
_SITE_URL = re.compile(r"https?://(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\])(?::[0-9]{1,5})?(?:/[A-Za-z0-9._~+/-]*)?")


class RegistrySettings(ExtensibleDocument):
    """``registry.json`` in the folder of a registry: what an operator decided when it was made.

    Attributes:
        publisher: The publisher of the skills that ``add`` signs.
        bin_bits: Releases are spread over two to the power of this many documents.
        days: How long all metadata is valid; None for what each role's rule says.
        compress: Deflate archives, whose bytes then depend on the build of zlib.
        url: Where the site is published, for absolute links in its pages; None if nobody said.
        listed_whole: Up to so many skills are listed in one document; of more, the listing is in parts for good.
    """

    CAP = _CAP

    publisher: Annotated[str, Read(name_that(is_name, "publisher"), **NAME)]
    bin_bits: int
    days: int | None
    compress: bool
    version: Annotated[int, version_of("version", 1)]
    url: Annotated[str, matching(_SITE_URL, "the URL that the site is published at")] | None = None
    listed_whole: Annotated[int, integer("a number of skills")] = 20_000

    @classmethod
    def of(
        cls,
        publisher: str,
        bin_bits: int = 4,
        days: int | None = None,
        *,
        compress: bool = True,
        bins: int | None = None,
    ) -> Self:
        """Return the settings of a new registry; ``bins`` counts what ``bin_bits`` is the logarithm of.

        Raises:
            UsageError: the publisher's name is invalid, or ``bins`` no power of two that clients read.
        """
        if bins is not None:
            bin_bits = bins.bit_length() - 1
            if bins not in {1 << bits for bits in range(1, _BIN_BITS_MAX + 1)}:
                hint = "16 for some hundred publishers, 256 for 10,000, 512 for 100,000"
                raise UsageError(f"expected 2, 4, 8, … {1 << _BIN_BITS_MAX} bins, found {bins}", hint=hint)
        if not is_name(publisher):
            raise UsageError(f"expected a name of a-z, 0-9 and hyphens, found {quote(publisher)}")
        return cls(publisher=publisher, bin_bits=bin_bits, days=days, compress=compress, version=1)

    def at(self, url: str | None) -> Self:
        """Return the same settings for a site that is published at ``url``, if anybody says where.

        Raises:
            UsageError: it is more than scheme, host, port and path, or no http or https.
        """
        if url is None:
            return self
        if not _SITE_URL.fullmatch(url) or {".", ".."} & {*url.split("/")}:
            hint = "such as https://skills.example/registry"
            raise UsageError(f"expected the URL that the site is published at, found {quote(url)}", hint=hint)
        check_port(url)
        return self.model_copy(update={"url": url.rstrip("/")})


class RegistryDir:
    """The folder of a registry.

    Args:
        path: It; made by ``create``.
    """

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self.site = os.path.join(self.path, "site")
        self._settings = os.path.join(self.path, "registry.json")

    def locked(self) -> AbstractContextManager[None]:
        """Hold the registry against every other process that would change it.

        Raises:
            StateError: another one is at it.
        """
        return files.lock(os.path.join(self.path, ".lock"))

    def create(self, settings: RegistrySettings) -> None:
        """Write the settings, by which the folder is a registry from now on.

        Raises:
            StateError: the disk refuses.
        """
        files.write_atomic(self._settings, json_bytes(settings.model_dump()))

    @property
    def exists(self) -> bool:
        """Whether a registry is here."""
        return os.path.lexists(self._settings)

    def settings(self) -> RegistrySettings:
        """Return the settings.

        Raises:
            NotFound: no registry is here.
            FormatError: they are none.
        """
        data = files.read(self._settings, _CAP)
        if data is None:
            hint = as_command("skillhub", "registry", "init", self.path)
            if os.path.lexists(os.path.join(self.path, "metadata")):
                hint = "this is the site of one: name the folder that has it, or the URL that serves it"
            raise NotFound("there is no registry", where=self.path, hint=hint)
        return RegistrySettings.parse(data, self._settings)

    def metadata(self, keys: RegistryKeys | None = None) -> MetadataSet:
        """Return the metadata that is served now, every signature of it verified.

        Who signs the next state vouches for this one: were it not verified, whoever can write to the site could
        have offline keys sign what they please.

        Args:
            keys: They keep the first root, which the site's must be, and versions, which it may not fall behind.

        Raises:
            StateError: a document is gone.
            FormatError: one is no metadata.
            BadMetadata: one is not signed as its role wants it, or the first root is another.
            Rollback: one is older than what its offline keys signed last.
        """
        documents = {ROOT: self._last_root(keys), TIMESTAMP: self.served("metadata/timestamp.json")}
        top = MetadataSet.load(documents)
        documents[SNAPSHOT] = self.served(f"metadata/{top.snapshot_version}.snapshot.json")
        versions = MetadataSet.load(documents).target_versions
        for role, version in versions.items():
            documents[role] = self.served(f"metadata/{version}.{role}.json")
        found = MetadataSet.load(documents)
        found.verify()
        for role, version in {**versions, SNAPSHOT: top.snapshot_version}.items():
            if found.read(role).version != version:
                raise BadMetadata(f"expected version {version} of {role}", where=self.site)
        for role, version in keys.seen().items() if keys else ():
            if found.read(role).version < version:
                message = f"expected version {version} of {role} or a newer one, as was signed before"
                raise Rollback(message, where=self.site, hint="restore the last published version of the site")
        return found

    def _last_root(self, keys: RegistryKeys | None) -> bytes:
        last = self.served("metadata/1.root.json")
        pinned = keys.first_root() if keys else None
        if pinned not in (None, last):
            hint = "restore the site; clients trust only the first root of the registry"
            raise BadMetadata("the first root is not the one beside the offline keys", where=self.site, hint=hint)
        number = 1
        while (data := self.read(f"metadata/{(number := number + 1)}.root.json")) is not None:
            for root in (last, data):
                verify(ROOT, data, MetadataSet.load({ROOT: root}).read(ROOT))
            last = data
        return last

    def target(self, metadata: MetadataSet, path: str) -> bytes | None:
        """Return the content of a target as it is signed, or None if there is no such target.

        Raises:
            StateError: the file is gone.
            SecurityError: it is not what is signed.
        """
        found = metadata.find(path)
        return None if found is None else self.content(found)

    def content(self, target: TargetFile) -> bytes:
        """Return the content of a target file, or of a publisher's document, as it is vouched for.

        Raises:
            StateError: the file is gone.
            SecurityError: it is not what is signed.
        """
        data = self.served(path_of(target))
        try:
            target.verify_length_and_hashes(data)
        except LengthOrHashMismatchError as error:
            where = os.path.join(self.site, target.path)
            raise SecurityError("the file does not match its signed digest", where=where) from error
        return data

    def publish(self, site: Mapping[str, bytes | None]) -> None:
        """Write these files below the site, in their order; what is there already is not touched; None removes one.

        Raises:
            StateError: the disk refuses; what was written stays, and the next run goes on from there.
        """
        for path, data in site.items():
            full = os.path.join(self.site, *path.split("/"))
            if data is None:
                with files.disk_errors(full):
                    if os.path.lexists(full):
                        os.remove(full)
            elif files.read(full, max(len(data), _CAP)) != data:
                files.write_atomic(full, data, mode=0o644)

    def keys(self, passphrase: bytes | None = None, offline: str | None = None) -> RegistryKeys:
        """Return the keys; the offline ones may be in a folder of their own."""
        return RegistryKeys(os.path.join(self.path, "keys"), offline, passphrase)

    def fingerprint(self) -> Digest:
        """Return the SHA-256 of the first root, by which clients pin this registry.

        Raises:
            StateError: it is gone.
        """
        return Digest.of(self.served("metadata/1.root.json"))

    def served(self, path: str) -> bytes:
        """Return a file as the site has it.

        Raises:
            StateError: it is gone.
        """
        data = self.read(path)
        if data is None:
            raise StateError(f"expected the file {quote(path)}", where=self.site)
        return data

    def read(self, path: str) -> bytes | None:
        """Return a file as the site has it, or None; raises StateError if the disk refuses."""
        return files.read(os.path.join(self.site, *path.split("/")), _CAP)


# An operator's registry, opened for writing: its metadata verified, its folder locked against other processes.


@dataclass(frozen=True, slots=True, kw_only=True)
class Signing:
    """When and with what an operator signs.

    Attributes:
        now: The time, with its zone.
        passphrase: Of the keys, if they have one.
        keys: The folder of the offline keys, if they are not in the registry's own.
        dry_run: Do everything but write.
    """

    now: datetime
    passphrase: bytes | None = field(default=None, repr=False)
    keys: str | None = None
    dry_run: bool = False

    @property
    def time(self) -> str:
        """``now`` as documents have it."""
        return times.spell(self.now)


_Skills = Mapping[str, tuple[Release, ...]]
_NONE: _Skills = MappingProxyType({})


@dataclass(frozen=True)
class Opened:
    """A registry, what its documents say, and what to sign the next ones with."""

    registry: RegistryDir
    settings: RegistrySettings
    metadata: MetadataSet
    keys: RegistryKeys
    signing: Signing
    _read: dict[tuple[str, str], Admission] = field(default_factory=dict, compare=False, repr=False)

    @property
    def dates(self) -> Dates:
        """When what is signed now expires."""
        return Dates(self.signing.now, self.settings.days)

    def at_hand(self, role: str) -> frozenset[str]:
        """Return the keys that count for a role and whose private halves are here, by TUF's name for a key."""
        return frozenset(keyid(key.public) for key in self.keys.of(role)) & set(self.metadata.keyids(role))

    def publishers(self, names: Collection[str] = ()) -> Mapping[str, TargetFile]:
        """Return what is signed of each publisher's document, or of the documents of these.

        Raises:
            SecurityError: a document is not what is signed of it.
            StateError: one is gone.
        """
        return {
            publisher: publisher_target(publisher, pinned)
            for path in (sorted({*map(namespace_path, names)}) if names else self.metadata.namespaces)
            for publisher, pinned in self.pins(path).items()
            if publisher in names or not names
        }

    def pins(self, path: str) -> Mapping[str, Pinned]:
        """Return what is pinned by one of the targets that say who may publish what; raises what ``signed`` does."""
        return parse_namespaces(self.signed(path), path) if self.metadata.find(path) else {}

    @cached_property
    def large(self) -> written.LargeListing | None:
        """The listing in parts, if the registry is large; raises what ``signed`` does."""
        data = self.registry.target(self.metadata, PARTS)
        return None if data is None else written.LargeListing(part_of("", None, data, PARTS), self.registry.content)

    def index(
        self, names: Collection[str] | None = None, publishers: Collection[str] = (), listed: _Skills = _NONE
    ) -> Index:
        """Return what the registry offers, read from its documents; descriptions are in the listing alone.

        Args:
            names: Of a large registry, the releases of who may publish these skills are enough, and who else is
                admitted if one of them is new; there only these have a description.
            publishers: With ``names``, whose releases are needed besides.
            listed: Without, what is known to be in the documents of some skills, which are not read then.

        Raises:
            SecurityError: a document is not what is signed of it.
            StateError: one is gone.
        """
        if self.large is None:
            return self._offered(self._admitted(), parse_listing(self.signed(LISTING_PATH), LISTING_PATH).skills)
        if names is None:
            admissions = self._admitted()
            rest = {name for each in admissions.values() for name in each.names} - listed.keys()
            read = self.large.every() if len(rest) > len(listed) else {name: self.large.skill(name) for name in rest}
            return self._offered(admissions, {**read, **listed})
        described = {name: self.large.skill(name) for name in names}
        owners = {releases[0].publisher or "" for releases in described.values() if releases}
        owners |= {self.settings.publisher, *publishers}
        admissions = self._admitted(owners)
        if not {*names} <= {name for each in admissions.values() for name in each.names}:
            admissions = self._admitted()  # the name is new, or has moved: each publisher may have it
        owners |= {publisher for publisher, each in admissions.items() if not each.names.isdisjoint(names)}
        return self._offered(admissions, described, owners)

    def _admitted(self, publishers: Collection[str] = ()) -> dict[str, Admission]:
        """Return what these publishers are admitted to, or all; each document is read once."""
        found = {}
        for publisher, target in self.publishers(publishers).items():
            key = (publisher, path_of(target))
            if key not in self._read:
                self._read[key] = admitted(publisher, self.registry.content(target), target.path)
            found[publisher] = self._read[key]
        return found

    def _offered(
        self, admissions: Mapping[str, Admission], described: _Skills = _NONE, owners: Collection[str] | None = None
    ) -> Index:
        """Return the releases of these publishers, or of those of them that are ``owners``."""
        skills: dict[str, tuple[Release, ...]] = {}
        for publisher in admissions if owners is None else filter(owners.__contains__, admissions):
            path = index_path(publisher)
            data = self.registry.target(self.metadata, path)
            for release in parse_releases(data, path)[1] if data else ():
                found = described.get(release.name)
                text = found[0].description if found else ""
                skills[release.name] = (*skills.get(release.name, ()), replace(release, description=text))
        return Index(skills, admissions)

    def publish(
        self,
        index: Index,
        publishers: Collection[str],
        names: Collection[str],
        archives: Mapping[str, bytes] | None = None,
        state: MetadataSet | None = None,
    ) -> None:
        """Make this what the registry offers, as far as it is about these publishers and skills, and log it.

        ``state`` is what to build on instead of ``metadata``: another key of the log, or the first one.

        Raises:
            NameNotOwned: a name would have two publishers.
            Refused: too few keys are at hand of a role whose documents change, or one would be too large for clients.
            BadMetadata: the log on the disk is not the one that was signed.
            StateError: the disk refuses.
        """
        refuse_shared(index.admissions.values())
        state = state or self.metadata
        index, head, logged = self._logged(index, state, publishers) if LOG in state.documents else (index, {}, {})
        if self.large is None and len(index.skills) <= self.settings.listed_whole:
            targets, gone, parts = signed_documents(index, publishers, names), dict[str, None](), dict[str, bytes]()
            public = written.public_documents(index, targets, names)
        else:
            targets, public, parts = self._in_parts(index, publishers, names)
            gone = dict.fromkeys((LISTING_PATH, *map(skill_path, () if self.large else index.skills)))
        targets |= head
        revised = state.revise({**targets, **gone}, self.keys.of, self.dates)
        metadata = {f"metadata/{role}.json": data for role, data in revised.documents.items()}
        written.refuse_large({**targets, **parts, **metadata})
        found = ((revised.find(path), data) for path, data in targets.items())
        signed = {path_of(target): data for target, data in found if target}
        # Until then there are no lists: one of another skill was left by a call that was killed.
        left = dict.fromkeys(() if self.large else written.SHARD_PATHS)
        pinned = written.pinned_documents(index, publishers)
        first = {**(archives or {}), **logged, **pinned, **left, **parts, **signed}
        self.serve(revised, first, public)

    def _in_parts(
        self, index: Index, publishers: Collection[str], names: Collection[str]
    ) -> tuple[dict[str, bytes], dict[str, bytes], dict[str, bytes]]:
        """Return the targets of a large registry, what is public, and what is pinned; of all if it was small."""
        large = self.large or written.LargeListing(part_of("", None, written.NO_PARTS, PARTS), self.registry.content)
        names = names if self.large else index.skills
        signed = signed_documents(index, publishers, names, self.pins)
        documents = {skill_path(name): signed.pop(skill_path(name)) for name in names}
        # Lists say what these documents say, of which `check` and `push` make them again.
        index = Index({name: written.listed_releases(name, documents[skill_path(name)]) for name in names})
        public = written.public_documents(index, documents, names) | written.short_listing()
        before = (written.rows_of(name, data) for name in names if (data := large.document(name)) is not None)
        changes: dict[str, PartRow | None] = {key: None for rows in before for key in rows}
        for name in names:
            changes |= written.rows_of(name, documents[skill_path(name)])
        made = written.PartsWriter(large.read)
        first = made.revised(large.first, changes)
        pins = {path_of(TargetFile.from_data(path, data, ["sha256"])): data for path, data in documents.items()}
        if not self.large:
            # These lists come first: a call that finishes this one would make those of its own skills alone.
            lists = written.shards(index, names, lambda _: None)
            return {**signed, PARTS: first}, public, {**pins, **made.made, **lists}
        try:
            lists = written.shards(index, names, self.registry.served)
        except (FormatError, StateError):  # one is damaged or lost: all are made again of what is signed
            every = Index({**large.every(), **index.skills})
            lists = written.shards(every, every.skills, lambda _: None)
        return {**signed, PARTS: first}, public | lists, {**pins, **made.made}

    def _logged(
        self, index: Index, state: MetadataSet, publishers: Collection[str]
    ) -> tuple[Index, dict[str, bytes], dict[str, bytes]]:
        """Log what is new in ``index``: return it with positions, the new target, and the files that are new.

        Of the publishers in it, those that have releases there are compared, and ``publishers``.
        """
        head = self.log_head(self.metadata)
        owners = {*publishers, *(each.publisher or "" for releases in index.skills.values() for each in releases)}
        before = self._offered(self._admitted(index.admissions), owners=owners) if head else Index({})
        entries, index = log_writer.logged(before, index, head.checkpoint.size if head else 0, self.signing.time)
        key = self.log_key(state)
        if state.keyids(LOG) != self.metadata.keyids(LOG):
            entries.append(entry("log-key", fingerprint=key.public.fingerprint, time=self.signing.time))
        if head and not entries:
            return index, {}, {}  # who cosigned it goes on to do so
        origin = origin_of(self.registry.fingerprint())
        head, files = log_writer.extended(head, entries, origin, self.registry.served, key)
        return index, {LOG_HEAD: head.dump()}, files

    def log_key(self, state: MetadataSet) -> PrivateKey:
        """Return the key that signs the log in this state.

        Raises:
            Refused: it is not at hand.
        """
        for key in self.keys.of(LOG):
            if keyid(key.public) in state.keyids(LOG):
                return key
        raise Refused("the key of the registry's log is missing", hint="bring keys/online/log.pem")

    def log_head(self, state: MetadataSet) -> LogHead | None:
        """Return the newest checkpoint of the log in this state, or None; raises what ``target`` does."""
        data = self.registry.target(state, LOG_HEAD) if LOG in state.documents else None
        return None if data is None else LogHead.parse(data)

    def serve(
        self,
        state: MetadataSet,
        first: Mapping[str, bytes | None] = MappingProxyType({}),
        last: Mapping[str, bytes] = MappingProxyType({}),
    ) -> None:
        """Make this the state that is served, unless this is a dry run; other files come first or last.

        Raises:
            StateError: the disk refuses.
        """
        if self.signing.dry_run:
            return
        self.registry.publish({**first, **state.files(), **last})
        # What everybody may watch comes when clients see the same: a checkpoint never has to be taken back.
        if (head := self.log_head(state)) is not None:
            self.registry.publish({log_writer.CHECKPOINT: head.note.dump()})
        versions = {role: state.read(role).version for role in (ROOT, TARGETS, NAMESPACES)}
        if any(state.documents[role] != self.metadata.documents.get(role) for role in versions):
            self.keys.remember(versions)

    def signed(self, path: str) -> bytes:
        """Return the content of a target.

        Raises:
            WrongBytes: there is none of that name.
            SecurityError: it is not what is signed.
            StateError: the file is gone.
        """
        data = self.registry.target(self.metadata, path)
        if data is None:
            raise WrongBytes("expected a target that is signed", where=path)
        return data

    def artifact(self, release: Release) -> bytes:
        """Return the archive of a release.

        Raises:
            WrongBytes: it is another.
            StateError: it is gone.
        """
        return checked(release, self.registry.served(release.url))


@contextmanager
def opened(folder: str, signing: Signing) -> Iterator[Opened]:
    """Open a registry, and keep other processes from changing it meanwhile.

    Raises:
        NotFound: there is none.
        BadMetadata: its site is not what its keys have signed.
        FormatError: a document of it is malformed.
        StateError: one is gone, or another process is at it.
    """
    registry = RegistryDir(folder)
    settings = registry.settings()
    keys = registry.keys(signing.passphrase, signing.keys)
    with registry.locked():
        yield Opened(registry, settings, registry.metadata(keys), keys, signing)

"""A registry on its operator's disk: folder, settings and private keys, opened for writing under a lock."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Self

from tuf.api.exceptions import LengthOrHashMismatchError
from tuf.api.metadata import TargetFile  # type: ignore[attr-defined]

from skillhub import errors
from skillhub.archive.unpack import unpack
from skillhub.disk import files, folders
from skillhub.errors import BadMetadata, FormatError, MetadataExpired, NotFound, Refused, StateError, UsageError
from skillhub.formats import document
from skillhub.formats.digest import Digest
from skillhub.formats.document import NAME, ExtensibleDocument, Read, integer, json_bytes, matching, name_that
from skillhub.formats.text import NAME_RULE, as_command, grouped, is_name, quote, spell_time
from skillhub.model.discovery import PartRow, Pinned, admitted, parse_listing, parse_namespaces, parse_releases
from skillhub.model.index import Admission, Index, Release, Releases, index_path, namespace_path
from skillhub.model.reference import check_port
from skillhub.model.tree import SKILL_MD, Tree
from skillhub.registry import log_writer
from skillhub.registry.keys import RegistryKeys
from skillhub.trust import documents as written
from skillhub.trust.documents import LISTING_PATH, signed_documents
from skillhub.trust.keys import PrivateKey
from skillhub.trust.log import LogHead, entry, origin_of
from skillhub.trust.registry_metadata import Dates, MetadataSet, keyid, path_of, publisher_target, verify
from skillhub.trust.registry_rules import checked, part_of, refuse_shared
from skillhub.trust.roles import (
    LOG,
    LOG_HEAD,
    NAMESPACES,
    PARTS,
    ROLES,
    ROOT,
    SNAPSHOT,
    TARGETS,
    TIMESTAMP,
    skill_path,
)

# DIR/site: files for any web server; DIR/keys: see ``registry.keys``; DIR/registry.json: the settings

FIRST_ROOT = "metadata/1.root.json"  # below DIR/site
_CAP = 64 * 1024 * 1024
_BIN_BITS_MAX = 12  # each bin is a row of the snapshot, and every client reads the snapshot
_RESTORE = "copy the file back from the target or a backup"
_SITE_URL = re.compile(r"https?://(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\])(?::[0-9]{1,5})?(?:/[A-Za-z0-9._~+/-]*)?")


class RegistrySettings(ExtensibleDocument):
    """``registry.json`` in the folder of a registry: the settings that the operator chose at its creation.

    Attributes:
        publisher: The publisher of the skills that ``add`` signs.
        bin_bits: Releases are spread over two to the power of this many documents.
        days: The days for which all metadata is valid; None for the rule of each role.
        compress: Deflate archives; their bytes then depend on the build of zlib.
        url: The URL of the published site, for absolute links in its pages; None if it is unknown.
        listed_whole: The most skills that are listed in one document. A registry that once has more keeps its
            listing in parts for good.
    """

    CAP = _CAP

    publisher: Annotated[str, Read(name_that(is_name, "publisher"), **NAME)]
    bin_bits: int
    days: int | None
    compress: bool
    version: Annotated[int, document.version_of("version", 1)]
    url: Annotated[str, matching(_SITE_URL, "the URL that the site is published at")] | None = None
    listed_whole: Annotated[int, integer("a number of skills")] = 20_000

    @classmethod
    def of(cls, publisher: str, bins: int = 16, days: int | None = None, *, compress: bool = True) -> Self:
        """Return the settings of a new registry; ``bins`` is the number of documents that releases are spread over.

        Raises:
            UsageError: the publisher's name is invalid, or ``bins`` is not a power of two in the accepted range.
        """
        if bins not in {1 << bits for bits in range(1, _BIN_BITS_MAX + 1)}:
            hint = "16 for some hundred publishers, 256 for 10,000, 512 for 100,000"
            raise UsageError(f"expected 2, 4, 8, … {1 << _BIN_BITS_MAX} bins, found {bins}", hint=hint)
        if not is_name(publisher):
            raise UsageError(f"expected a name of {NAME_RULE}, found {quote(publisher)}")
        return cls(publisher=publisher, bin_bits=bins.bit_length() - 1, days=days, compress=compress, version=1)

    def at(self, url: str | None) -> Self:
        """Return the same settings for a site that is published at ``url``; unchanged for None.

        Raises:
            UsageError: the URL has more than scheme, host, port and path, or another scheme than http and https.
        """
        if url is None:
            return self
        if not _SITE_URL.fullmatch(url) or {".", ".."} & {*url.split("/")}:
            hint = "such as https://skills.example/registry"
            raise UsageError(f"expected the URL that the site is published at, found {quote(url)}", hint=hint)
        check_port(url)
        return self.model_copy(update={"url": url.rstrip("/")})


class RegistryDir:
    """The folder of a registry, at ``path``; ``create`` makes it."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self.site = os.path.join(self.path, "site")
        self.lock = os.path.join(self.path, ".lock")
        self._settings = os.path.join(self.path, "registry.json")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the registry against changes by other processes; remove what a killed one did not finish.

        Raises:
            StateError: another process has the lock, or the disk refuses.
        """
        with files.lock(self.lock), folders.swept(self.path):
            yield

    def create(self, settings: RegistrySettings) -> None:
        """Write the settings file, which makes the folder a registry.

        Raises:
            StateError: the disk refuses.
        """
        files.write_atomic(self._settings, json_bytes(settings.model_dump()))

    @property
    def exists(self) -> bool:
        """Whether the folder has a registry."""
        return os.path.lexists(self._settings)

    def settings(self) -> RegistrySettings:
        """Return the settings.

        Raises:
            NotFound: the folder has no registry.
            FormatError: the settings file is malformed.
        """
        data = files.read(self._settings, _CAP)
        if data is None:
            hint = as_command("skillhub", "registry", "init", self.path)
            if os.path.lexists(os.path.join(self.path, SKILL_MD)):
                hint = "this is a skill: name the registry's folder first"
            if os.path.lexists(os.path.join(self.path, "metadata")):
                hint = "this is the site of a registry: name the folder of its operator, or the URL of the site"
            raise NotFound("there is no registry", where=self.path, hint=hint)
        return RegistrySettings.parse(data, self._settings)

    @errors.hinting(_RESTORE)
    def metadata(self, keys: RegistryKeys | None = None) -> MetadataSet:
        """Return the current metadata of the site, with every signature verified.

        The next state is built on this one and signed. Without verification, an attacker with write access to the
        site could make the offline keys sign anything.

        Args:
            keys: They keep a copy of the first root, which must equal the site's, and the lowest accepted versions.

        Raises:
            StateError: a document is missing.
            FormatError: a document is not metadata.
            BadMetadata: a document lacks the signatures that its role requires, or the first root differs.
            Rollback: a document is older than the last one that its offline keys signed.
        """
        documents = {ROOT: self._last_root(keys), TIMESTAMP: self.served("metadata/timestamp.json")}
        top = MetadataSet.load(documents)
        documents[SNAPSHOT] = self.served(f"metadata/{top.snapshot_version}.snapshot.json")
        versions = MetadataSet.load(documents).target_versions
        for role, version in versions.items():
            documents[role] = self.served(f"metadata/{version}.{role}.json")
        loaded = MetadataSet(documents)
        found = loaded.verify()
        for role, version in {**versions, SNAPSHOT: top.snapshot_version}.items():
            if found[role] != version:
                raise BadMetadata(f"expected version {version} of {role}", where=self.site)
        for role, version in keys.signed_versions().items() if keys else ():
            if loaded.read(role).version < version:
                message = f"expected version {version} of {role} or a newer one, as was signed before"
                raise errors.Rollback(message, where=self.site, hint="restore the last published version of the site")
        return loaded

    def _last_root(self, keys: RegistryKeys | None) -> bytes:
        last = self.served(FIRST_ROOT)
        if keys and keys.first_root() not in (None, last):
            hint = "restore the site; clients trust only the first root of the registry"
            raise BadMetadata("the first root differs from the copy of the offline keys", where=self.site, hint=hint)
        number = 1
        while (data := self.read(f"metadata/{(number := number + 1)}.root.json")) is not None:
            for root in (last, data):
                verify(ROOT, data, MetadataSet.load({ROOT: root}).read(ROOT))
            last = data
        return last

    def target(self, metadata: MetadataSet, path: str) -> bytes | None:
        """Return the verified content of a target, or None if there is no such target; raises as ``content``."""
        target = metadata.find(path)
        return None if target is None else self.content(target)

    def content(self, target: TargetFile) -> bytes:
        """Return the verified content of a target file, or of a publisher's document.

        Raises:
            StateError: the file is missing.
            SecurityError: the file does not match its signed digest.
        """
        data = self.served(path_of(target))
        try:
            target.verify_length_and_hashes(data)
        except LengthOrHashMismatchError as error:
            where = os.path.join(self.site, target.path)
            raise errors.SecurityError("the file does not match its signed digest", where=where) from error
        return data

    def publish(self, site: Mapping[str, bytes | None]) -> None:
        """Write these files below the site, in this order; None removes a file, and an equal file is left alone.

        Raises:
            StateError: the disk refuses, or a folder is a link; the files so far stay, and the next run continues.
        """
        top = files.HeldFolder(self.site)
        for path, data in site.items():
            full_path = os.path.join(self.site, *path.split("/"))
            if data is None:
                folders.remove_below(full_path, top)
            elif files.read(full_path, max(len(data), _CAP), root=top) != data:
                files.write_atomic(full_path, data, mode=0o644, root=top)

    def keys(self, passphrase: bytes | None = None, offline: str | None = None) -> RegistryKeys:
        """Return the keys; the offline ones may be in another folder."""
        return RegistryKeys(os.path.join(self.path, "keys"), offline, passphrase)

    def fingerprint(self) -> Digest:
        """Return the SHA-256 of the first root, with which clients pin this registry.

        Raises:
            StateError: the first root is missing.
        """
        return Digest.of(self.served(FIRST_ROOT))

    def served(self, path: str) -> bytes:
        """Return a file of the site, unverified.

        Raises:
            StateError: the file is missing.
        """
        if (data := self.read(path)) is None:
            raise StateError("there is no such file", where=os.path.join(self.site, path), hint=_RESTORE)
        return data

    def read(self, path: str) -> bytes | None:
        """Return a file of the site, unverified, or None if it is missing; raises StateError if the disk refuses."""
        return files.read(os.path.join(self.site, *path.split("/")), _CAP)


# A registry that is open for writing: its metadata is verified, and its folder is locked.


@dataclass(frozen=True, slots=True, kw_only=True)
class Signing:
    """The time, keys and passphrase with which an operator signs.

    Attributes:
        now: The time, with its zone.
        passphrase: The passphrase of the keys, if they have one.
        keys: The folder of the offline keys, if it is outside the registry.
        dry_run: Do everything except writing.
    """

    now: datetime
    passphrase: bytes | None = field(default=None, repr=False)
    keys: str | None = None
    dry_run: bool = False

    @property
    def time(self) -> str:
        """``now`` in the form of documents."""
        return spell_time(self.now)


_NO_SKILLS: Releases = MappingProxyType({})


@dataclass(frozen=True)
class OpenRegistry:
    """A registry that is open for writing, with its verified metadata and the keys for the next state."""

    registry: RegistryDir
    settings: RegistrySettings
    metadata: MetadataSet
    keys: RegistryKeys
    signing: Signing
    _read: dict[tuple[str, str], Admission] = field(default_factory=dict, compare=False, repr=False)

    @property
    def dates(self) -> Dates:
        """The expiry dates of documents that are signed now."""
        return Dates(self.signing.now, self.settings.days)

    def at_hand(self, role: str) -> frozenset[str]:
        """Return the TUF key ids of a role whose private keys are available."""
        return frozenset(keyid(key.public) for key in self.keys.of(role)) & set(self.metadata.keyids(role))

    def refuse_without_keys(self, role: str, needing: str, hint: str) -> None:
        """Raise Refused if too few keys of a role are available; the message begins with what is ``needing`` them."""
        able, needed = len(self.at_hand(role)), ROLES[role].threshold
        if able < needed:
            raise Refused(f"{needing} {needed} keys of {role}, found {able}", hint=hint)

    def publishers(self, names: Collection[str] = ()) -> Mapping[str, TargetFile]:
        """Return the target file of each publisher's document; with ``names``, of these publishers only.

        Raises:
            SecurityError: a document does not match its signed digest.
            StateError: a document is missing.
        """
        paths = sorted({*map(namespace_path, names)}) if names else self.metadata.namespaces
        pins = (pin for path in paths for pin in self.pins(path).items() if not names or pin[0] in names)
        return {publisher: publisher_target(publisher, pinned) for publisher, pinned in pins}

    def pins(self, path: str) -> Mapping[str, Pinned]:
        """Return the publishers' documents that one target of ``namespaces`` pins; raises as ``signed``."""
        return parse_namespaces(self.signed(path), path) if self.metadata.find(path) else {}

    @cached_property
    def large(self) -> written.LargeListing | None:
        """The listing in parts; None if the registry is small. Raises as ``signed``."""
        data = self.registry.target(self.metadata, PARTS)
        return None if data is None else written.LargeListing(part_of("", None, data, PARTS), self.registry.content)

    def index(
        self, names: Collection[str] | None = None, publishers: Collection[str] = (), listed: Releases = _NO_SKILLS
    ) -> Index:
        """Return the releases and admissions of the registry, read from its documents.

        Args:
            names: Skills that suffice for the caller. For a large registry, the index then has only the releases of
                their publishers, only the descriptions of these skills, and all admissions only if a skill is new.
            publishers: With ``names``, further publishers whose releases are needed.
            listed: Without ``names``, the known contents of the documents of some skills, which are then not read.

        Raises:
            SecurityError: a document does not match its signed digest.
            StateError: a document is missing.
        """
        if self.large is None:
            return self._offered(self._admitted(), parse_listing(self.signed(LISTING_PATH), LISTING_PATH).skills)
        if names is None:
            admissions = self._admitted()
            rest = {name for admission in admissions.values() for name in admission.names} - listed.keys()
            read = self.large.every() if len(rest) > len(listed) else {name: self.large.skill(name) for name in rest}
            return self._offered(admissions, {**read, **listed})
        described = {name: self.large.skill(name) for name in names}
        owners = {releases[0].publisher or "" for releases in described.values() if releases}
        owners |= {self.settings.publisher, *publishers}
        admissions = self._admitted(owners)
        if not {*names} <= {name for admission in admissions.values() for name in admission.names}:
            admissions = self._admitted()  # a name is new, or was reassigned: any publisher may have it
        owners |= {publisher for publisher, admission in admissions.items() if not admission.names.isdisjoint(names)}
        return self._offered(admissions, described, owners)

    def _admitted(self, publishers: Collection[str] = ()) -> dict[str, Admission]:
        """Return the admissions of these publishers, by default of all; each document is read once."""
        admissions = {}
        for publisher, target in self.publishers(publishers).items():
            key = (publisher, path_of(target))
            if key not in self._read:
                self._read[key] = admitted(publisher, self.registry.content(target), target.path)
            admissions[publisher] = self._read[key]
        return admissions

    def _offered(
        self,
        admissions: Mapping[str, Admission],
        described: Releases = _NO_SKILLS,
        owners: Collection[str] | None = None,
    ) -> Index:
        """Return an index of these admissions with the releases of their publishers, or only of ``owners``."""
        offered: list[Release] = []
        for publisher in admissions if owners is None else filter(owners.__contains__, admissions):
            path = index_path(publisher)
            data = self.registry.target(self.metadata, path)
            for release in parse_releases(data, path)[1] if data else ():
                described_releases = described.get(release.name)
                text = described_releases[0].description if described_releases else ""
                offered.append(replace(release, description=text))
        return Index(grouped((release.name, release) for release in offered), admissions)

    def publish(
        self,
        index: Index,
        publishers: Collection[str],
        names: Collection[str],
        archives: Mapping[str, bytes] | None = None,
        state: MetadataSet | None = None,
    ) -> None:
        """Sign, log and serve an index.

        Args:
            index: The new index; only its changes about ``publishers`` and ``names`` are written.
            publishers: The publishers whose documents may change.
            names: The skills whose documents may change.
            archives: New archives, by path below the site.
            state: The metadata to revise instead of ``metadata``, if the log has a new key.

        Raises:
            NameNotOwned: a name would have two publishers.
            Refused: too few keys of a role whose documents change are available, or a document would be too large
                for clients.
            MetadataExpired: the clock is far behind the last signature, or another error of ``serve``.
            BadMetadata: the log on the disk does not match its signed head.
            StateError: the disk refuses.
        """
        refuse_shared(index.admissions.values())
        state = state or self.metadata
        index, head, logged = self._logged(index, state, publishers) if LOG in state.documents else (index, {}, {})
        if self.large is None and len(index.skills) <= self.settings.listed_whole:
            targets, gone, parts = (signed_documents(index, publishers, names), dict[str, None](), dict[str, bytes]())
            public = written.public_documents(index, targets, names)
        else:
            targets, public, parts = self._in_parts(index, publishers, names)
            gone = dict.fromkeys((LISTING_PATH, *map(skill_path, () if self.large else index.skills)))
        targets |= head
        revised = state.revise({**targets, **gone}, self.keys.of, self.dates)
        if revised.is_outlived(self.metadata, self.signing.now):
            refresh = as_command("skillhub", "registry", "refresh", self.registry.path, "--role", TIMESTAMP)
            message = f"signed at {self.signing.time}, this would have expired when the present state was signed"
            raise MetadataExpired(message, where=self.registry.path, hint=f"set the clock; if it is right: {refresh}")
        metadata = {f"metadata/{role}.json": data for role, data in revised.documents.items()}
        pinned = written.pinned_documents(index, publishers)
        written.refuse_large({**targets, **parts, **metadata, **pinned})
        signed = {path_of(target): data for path, data in targets.items() if (target := revised.find(path))}
        # A small registry has no such lists: if their folder exists, a killed call left it.
        lists = os.path.join(self.registry.site, os.path.dirname(written.SHARD_PATHS[0]))
        stale_lists = dict.fromkeys(written.SHARD_PATHS if not self.large and os.path.lexists(lists) else ())
        self.serve(revised, {**(archives or {}), **logged, **pinned, **stale_lists, **parts, **signed}, public)

    def _in_parts(
        self, index: Index, publishers: Collection[str], names: Collection[str]
    ) -> tuple[dict[str, bytes], dict[str, bytes], dict[str, bytes]]:
        """Return the targets of a large registry, its public files, and its pinned files.

        If the registry was small until now, these are the files of all skills.
        """
        large = self.large or written.LargeListing(part_of("", None, written.NO_PARTS, PARTS), self.registry.content)
        names = names if self.large else index.skills
        signed = signed_documents(index, publishers, names, self.pins)
        documents = {skill_path(name): signed.pop(skill_path(name)) for name in names}
        # The lists contain only what these documents say, since `check` and `push` generate them from the documents.
        index = Index({name: written.listed_releases(name, documents[skill_path(name)]) for name in names})
        public = written.public_documents(index, documents, names) | written.short_listing()
        before = (written.rows_of(name, data) for name in names if (data := large.document(name)) is not None)
        changes: dict[str, PartRow | None] = {key: None for rows in before for key in rows}
        for name in names:
            changes |= written.rows_of(name, documents[skill_path(name)])
        writer = written.PartsWriter(large.read)
        first_part = writer.revised(large.first, changes)
        pins = {path_of(TargetFile.from_data(path, data, ["sha256"])): data for path, data in documents.items()}
        if not self.large:
            # All lists are written first: if this call is killed, the next one writes only those of its own skills.
            lists = written.shards(index, names, lambda _: None)
            return {**signed, PARTS: first_part}, public, {**pins, **writer.made, **lists}
        try:
            lists = written.shards(index, names, self.registry.served)
        except (FormatError, StateError):  # a list is damaged or missing: generate all from the signed documents
            every = Index({**large.every(), **index.skills})
            lists = written.shards(every, every.skills, lambda _: None)
        return {**signed, PARTS: first_part}, public | lists, {**pins, **writer.made}

    def _logged(
        self, index: Index, state: MetadataSet, publishers: Collection[str]
    ) -> tuple[Index, dict[str, bytes], dict[str, bytes]]:
        """Log the changes of ``index``; return it with log positions, the target of the new head, and new files.

        Only publishers with releases in ``index``, and ``publishers``, are compared.
        """
        head = self.log_head(self.metadata)
        owners = {*publishers, *(each.publisher or "" for releases in index.skills.values() for each in releases)}
        before = self._offered(self._admitted(index.admissions), owners=owners) if head else Index({})
        entries, index = log_writer.log_changes(before, index, head.checkpoint.size if head else 0, self.signing.time)
        key = self.log_key(state)
        if state.keyids(LOG) != self.metadata.keyids(LOG):
            entries.append(entry("log-key", fingerprint=key.public.fingerprint, time=self.signing.time))
        if head and not entries:
            return index, {}, {}  # the checkpoint stays, and keeps its cosignatures
        origin = origin_of(self.registry.fingerprint())
        head, files = log_writer.append_entries(head, entries, origin, self.registry.served, key)
        return index, {LOG_HEAD: head.dump()}, files

    def log_key(self, state: MetadataSet) -> PrivateKey:
        """Return the key that signs the log in this state.

        Raises:
            Refused: the key is not available.
        """
        for key in self.keys.of(LOG):
            if keyid(key.public) in state.keyids(LOG):
                return key
        rotate = as_command("skillhub", "registry", "rotate", self.registry.path, LOG)
        hint = f"bring it to keys/online, or replace it with the offline keys: {rotate}"
        raise Refused("the key of the registry's log is missing", hint=hint)

    def log_head(self, state: MetadataSet) -> LogHead | None:
        """Return the head of the log in this state, or None if it has no log; raises as ``target``."""
        data = self.registry.target(state, LOG_HEAD) if LOG in state.documents else None
        return None if data is None else LogHead.parse(data)

    def serve(
        self,
        state: MetadataSet,
        first: Mapping[str, bytes | None] = MappingProxyType({}),
        last: Mapping[str, bytes] = MappingProxyType({}),
    ) -> None:
        """Write a state to the site, unless this is a dry run.

        Args:
            state: The state.
            first: Files to write before the metadata; None removes a file.
            last: Files to write after the metadata.

        Raises:
            MetadataExpired: the root has expired by the time of signing, which may be a clock far ahead: documents
                signed by it would stay valid for years. A state with a new root is served.
            Refused: the root is larger than clients read, which would end the registry for all of them.
            StateError: the disk refuses.
        """
        written.refuse_large({ROOT: state.documents[ROOT]})
        if (expired := state.expires(ROOT)) <= self.signing.now:
            message = f"the root expired {spell_time(expired)}, and the time of signing is {self.signing.time}"
            refresh = as_command("skillhub", "registry", "refresh", self.registry.path, "--role", ROOT)
            raise MetadataExpired(message, where=self.registry.path, hint=f"set the clock; if it is right: {refresh}")
        if self.signing.dry_run:
            return
        self.registry.publish({**first, **state.files(), **last})
        # Witnesses see the checkpoint only after clients see the same state, so it never has to be withdrawn.
        if (head := self.log_head(state)) is not None:
            self.registry.publish({log_writer.CHECKPOINT: head.note.dump()})
        versions = {role: state.read(role).version for role in (ROOT, TARGETS, NAMESPACES)}
        if any(state.documents[role] != self.metadata.documents.get(role) for role in versions):
            self.keys.save_signed_versions(versions)

    def sign(self, path: str, data: bytes) -> None:
        """Sign a target with these bytes and serve the new state; raises as ``serve``."""
        revised = self.metadata.revise({path: data}, self.keys.of, self.dates)
        self.serve(revised, {path_of(target): data} if (target := revised.find(path)) else {})

    def signed(self, path: str) -> bytes:
        """Return the verified content of a target.

        Raises:
            WrongBytes: there is no such target.
            SecurityError: the file does not match its signed digest.
            StateError: the file is missing.
        """
        data = self.registry.target(self.metadata, path)
        if data is None:
            raise errors.WrongBytes("expected a target that is signed", where=path)
        return data

    def artifact(self, release: Release) -> bytes:
        """Return the archive of a release.

        Raises:
            WrongBytes: the archive does not match its digest.
            StateError: the archive is missing.
        """
        return checked(release, self.registry.served(release.url))

    def tree(self, release: Release) -> Tree:
        """Return the files of a release; raises as ``artifact``."""
        return unpack(self.artifact(release), "zip", wrapper=False).tree


@contextmanager
def opened(folder: str, signing: Signing) -> Iterator[OpenRegistry]:
    """Open a registry for writing, with its folder locked against other processes.

    Raises:
        NotFound: the folder has no registry.
        BadMetadata: the metadata of the site fails verification.
        Rollback: the metadata is older than the last state that the offline keys signed.
        FormatError: a document is malformed.
        StateError: a document is missing, or another process has the lock.
    """
    registry = RegistryDir(folder)
    settings = registry.settings()
    keys = registry.keys(signing.passphrase, signing.keys)
    with registry.locked():
        yield OpenRegistry(registry, settings, registry.metadata(keys), keys, signing)

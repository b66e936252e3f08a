"""Files of a registry's site that are built from its signed ones: pages for people, other shapes for other clients.

They are unsigned, and skillhub reads none of them. Each ``Part`` makes one kind; ``build`` writes the changed files.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from hashlib import file_digest, sha256
from typing import Final

from skillhub import __version__
from skillhub.archive.limits import RESERVED
from skillhub.archive.unpack import packed_tar
from skillhub.disk import files, folders
from skillhub.errors import FormatError, StateError
from skillhub.formats.digest import Digest
from skillhub.formats.json import strict_json
from skillhub.formats.text import grouped, is_inner_path, packaged
from skillhub.model.advisory import AdvisoriesDocument, AdvisoryFeed, AdvisoryIndex
from skillhub.model.discovery import parse_listing
from skillhub.model.index import ADVISORIES, Admission, Index, Release
from skillhub.model.tree import Tree
from skillhub.registry import other_clients
from skillhub.registry.git_objects import Objects, is_sound
from skillhub.registry.log_writer import CHECKPOINT
from skillhub.registry.operator import OpenRegistry
from skillhub.registry.other_clients import FILE_CAP, REPOSITORY, ClientDocument, OfferedSkill
from skillhub.scan.results import ScanCache
from skillhub.trust.documents import SHARD_PATHS, bucket_of, shard_path, shards
from skillhub.trust.roles import OWN, SIGNED_FOLDERS

_CAP = 64 << 20
_LISTS = "lists"  # the name of the record of a large registry's public lists
_NAME_MAX = 255  # bytes of one name, the limit of common file systems

# Media types and cache times of the site's files, for every server. Some types are only for files that are not from
# a skill: a browser must never run a file of a skill.
_TYPES: Mapping[str, Mapping[str, str]] = packaged("registry/media_types.json")
# A name with a version or a hash: the content never changes.
_FIXED = re.compile(r"(?:[0-9]+\.[^/]+\.json|[0-9a-f]{64}\.[^/]+)", re.ASCII)
# A file of the log: a partial one has its width in the name, so the content never changes.
_LOGGED = re.compile(r"tile/(?:[0-9]+|entries|proof)/[x0-9/.p]+", re.ASCII)

# The Content-Security-Policy of a page, written in the page itself, since its server may send no headers.
WITH_STYLE = "default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'self'"
# For a page with a search: its one script reads the listing and makes no markup of text.
WITH_SEARCH = (
    f"{WITH_STYLE}; script-src 'self'; connect-src 'self'; require-trusted-types-for 'script'; trusted-types 'none'"
)

# Paths and contents; None as content leaves the present file as it is.
Files = Iterable[tuple[str, bytes | None]]


@dataclass(frozen=True)
class Offer:
    """The releases and admissions of a registry, as input of a build.

    Attributes:
        quick: Whether to read the unsigned public lists of a large registry, if they match the last build's record.
        built: The SHA-256 of each file that the last build of a part made from all skills together, by path; empty if
            the build reads each file.
        lists: The SHA-256 of the public lists that were read, by path.
    """

    hub: OpenRegistry
    scans: ScanCache
    quick: bool = False
    built: dict[str, str] = field(default_factory=dict)
    lists: dict[str, str] = field(default_factory=dict)

    @cached_property
    def index(self) -> Index:
        """Every release of every skill, and all admissions."""
        listed: dict[str, tuple[Release, ...]] = {}
        lists = record_path(self.hub.registry.path, _LISTS)
        built = read_build_digests(lists) if self.quick and self.hub.large else {}
        for path, digest in built.get("", ("", {}))[1].items():
            with suppress(FormatError):  # the file exceeds the size limit
                data = self.hub.registry.read(path) if path in SHARD_PATHS else None
                if data is not None and sha256(data).hexdigest() == digest:
                    listed |= parse_listing(data, path).skills
                    self.lists[path] = digest
        return self.hub.index(listed=listed)

    @cached_property
    def root(self) -> Digest:
        """The fingerprint with which clients pin the registry."""
        return self.hub.registry.fingerprint()

    @cached_property
    def advisories(self) -> AdvisoryIndex:
        """The registry's advisories about known bad releases."""
        data = self.hub.registry.target(self.hub.metadata, ADVISORIES) or b"{}"
        return advisory_index(AdvisoryFeed(AdvisoriesDocument.parse(data, ADVISORIES), self.root))

    @property
    def url(self) -> str | None:
        """The URL of the published site, without a slash at the end; None if it is unknown."""
        return self.hub.settings.url

    def read_built(self, path: str) -> bytes | None:
        """Return a file of the last build; None if it changed since, or is not in ``built``."""
        full_path = os.path.join(self.hub.registry.site, *path.split("/"))
        return files.read(full_path, _CAP) if path in self.built and _sha256(full_path) == self.built[path] else None

    def skill(self, name: str) -> OfferedSkill:
        """Return a skill with its releases."""
        return OfferedSkill(name, self.index.skills[name], self.hub.artifact, self.advisories, self.root)

    def skills(self) -> Iterator[OfferedSkill]:
        """Yield the skills in the order of their names."""
        yield from map(self.skill, self.index.names)

    def admission(self, skill: OfferedSkill) -> Admission:
        """Return the admission of the publisher of a skill's best release."""
        return self.index.admissions[skill.best.publisher or ""]


def advisory_index(feed: AdvisoryFeed) -> AdvisoryIndex:
    """Return the index of a registry's advisories, whatever the time: the same signed files have the same outputs.

    Every withdrawal counts, since ``registry advise`` publishes none of a future time.
    """
    return AdvisoryIndex([feed], datetime.max.replace(tzinfo=UTC))


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One kind of built files, by path below the site.

    Two parts never write the same path: a part writes below ``OWN``, below the names of skills, or files at the top
    with a dot in their names.

    Attributes:
        name: The name of the part's record.
        version: A digest of templates and other inputs; if it changes, all files are built again.
        of_skill: Makes the files of one skill; called only if the skill, its publisher or ``version`` changed.
        of_all: Makes the files about all skills together; called in each build.
    """

    name: str
    version: str = ""
    of_skill: Callable[[Offer, OfferedSkill], Files] = lambda *_: ()
    of_all: Callable[[Offer], Files] = lambda _: ()


@dataclass(slots=True)
class Built:
    """The result of a build, with paths below the site.

    Attributes:
        left_out: The paths that were not written, since a signed file may be there, or a name is too long.
    """

    written: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    skills: int = 0
    files: int = 0


def build(hub: OpenRegistry, parts: Sequence[Part], scans: ScanCache, *, quick: bool = False) -> Built:
    """Build the files of each part whose inputs changed, and remove obsolete files.

    If the process is killed, files of the old and the new state are mixed; the next call finishes the work.

    Args:
        hub: The registry.
        parts: The parts to build.
        scans: The cache of scan results.
        quick: Assume that the files of the last build are unchanged, if it was finished; otherwise read each file.

    Raises:
        SecurityError: an archive, or a document of the registry, does not match its signed digest.
        StateError: an archive or a document is missing, a folder of the site is a link, or the disk refuses.
    """
    offer, built = Offer(hub, scans, quick), Built()
    built.skills = len(offer.index.skills)
    for part in parts:
        _Build(offer, part, built, quick=quick).run()
    if hub.large and not hub.signing.dry_run:
        _record_lists(offer)
    return built


def _record_lists(offer: Offer) -> None:
    """Record the digests of the public lists by signed documents; a quick build reads the lists that match."""
    groups = grouped((shard_path(name), name) for name in offer.index.skills)
    digests = {path: offer.lists.get(path) or _list_digest(offer.index, names) for path, names in groups.items()}
    _write_record(record_path(offer.hub.registry.path, _LISTS), {"": ["", digests]})


def _list_digest(index: Index, names: Iterable[str]) -> str:
    (data,) = shards(index, names, lambda _: None).values()
    return sha256(data).hexdigest()


class _Build:
    """The build of one part. ``<registry>/outputs/<part>-<bucket>.json`` records the files of each skill of a bucket.

    ``<part>.json`` records the files about all skills together, and for each bucket a key that changes with any of
    its skills. ``<part>.begun`` has the new paths of an unfinished build; the next build removes obsolete ones.
    """

    def __init__(self, offer: Offer, part: Part, built: Built, *, quick: bool) -> None:
        self._part, self._built = part, built
        self._registry = registry = offer.hub.registry
        self._site, self._dry_run = registry.site, offer.hub.signing.dry_run
        self._top = files.HeldFolder(self._site)
        facts = (__version__, offer.scans.rules, part.version, offer.root, offer.url)
        self._rules = sha256(repr(facts).encode()).hexdigest()
        self._known = read_build_digests(record_path(registry.path, part.name))
        self._begun = record_path(registry.path, part.name).removesuffix(".json") + ".begun"
        self._before = {path for _, digests in self._known.values() for path in digests}
        begun = set[str]()
        with suppress(FormatError):
            begun.update(filter(None, (files.read(self._begun, _CAP) or b"").decode("utf-8", "replace").split("\n")))
        self._before |= begun
        rules, shared_files = self._known.get("", ("", {}))
        self._quick = quick and not begun and rules == self._rules
        self._offer = offer
        offer.built.clear()
        offer.built.update(shared_files if self._quick else {})
        self._now = set[str]()

    def run(self) -> None:
        buckets: dict[str, dict[str, str]] = {name: {} for name in self._known if name[:1] == "-"}
        for skill in self._offer.skills():
            buckets.setdefault(f"-{bucket_of(skill.name)}", {})[skill.name] = self._key(skill)
        rows: dict[str, list[object]] = {}
        for bucket, keys in sorted(buckets.items()):
            # No skill has an empty name, or one that begins with a hyphen.
            key = sha256(repr(keys).encode()).hexdigest()
            if not self._quick or self._known.get(bucket, ("",))[0] != key:
                self._make_bucket(bucket, keys)
            if keys:
                rows[bucket] = [key, {}]
        shared_files = self._write(self._part.of_all(self._offer))
        self._now.update(shared_files)
        self._built.files += len(self._now)
        for path in sorted(self._before - self._now):
            self._remove(path)
        self._save_rows("", {**rows, "": [self._rules, shared_files]})
        if not self._dry_run:
            with files.disk_errors(self._begun), suppress(FileNotFoundError):
                os.remove(self._begun)

    def _make_bucket(self, bucket: str, keys: Mapping[str, str]) -> None:
        records = self._known | read_build_digests(record_path(self._registry.path, self._part.name + bucket))
        self._before.update(path for _, digests in records.values() for path in digests)
        rows: dict[str, list[object]] = {}
        for name, key in keys.items():
            old_key, digests = records.get(name, ("", {}))
            if old_key != key or not (self._quick or not any(_differing(self._site, digests))):
                digests = self._write(self._part.of_skill(self._offer, self._offer.skill(name)))
            rows[name] = [key, digests]
            self._now.update(digests)
        self._save_rows(bucket, rows)

    def _save_rows(self, bucket: str, rows: Mapping[str, list[object]]) -> None:
        if not self._dry_run:
            _write_record(record_path(self._registry.path, self._part.name + bucket), rows)

    def _key(self, skill: OfferedSkill) -> str:
        admission = self._offer.admission(skill)
        publisher = (admission.publisher, admission.keys, admission.certificates, admission.revoked)
        bad = [skill.known_bad(release) for release in skill.releases]
        return sha256(repr((self._rules, skill.releases, publisher, bad)).encode()).hexdigest()

    def _write(self, outputs: Files) -> dict[str, str]:
        """Write the files that differ, and return the SHA-256 of all by path."""
        written = {}
        for path, data in outputs:
            if not _is_ours(path):
                self._built.left_out.append(path)
                continue
            full_path = self._full(path)
            written[path] = (
                sha256(data).hexdigest() if data is not None else self._offer.built.get(path) or _sha256(full_path)
            )
            if data is None or self._offer.built.get(path) == written[path]:
                continue
            with suppress(FormatError, StateError):  # the present file is larger, or is not a file
                if path not in self._offer.built and files.read(full_path, len(data), root=self._top) == data:
                    continue
            self._built.written.append(path)
            if not self._dry_run:
                self._make_room(path)
                if path not in self._before:
                    folders.append(self._begun, f"{path}\n", files.HeldFolder(self._registry.path))
                    self._before.add(path)
                files.write_atomic(full_path, data, mode=0o644, sync=False, root=self._top)
        return written

    def _make_room(self, path: str) -> None:
        """Remove earlier files where the new path needs a folder, and those below it where it needs a file."""
        names = path.split("/")
        obsolete = {"/".join(names[:count]) for count in range(1, len(names))} & self._before
        if os.path.isdir(self._full(path)):
            obsolete |= {old_path for old_path in self._before if old_path.startswith(f"{path}/")}
        for old_path in sorted(obsolete):
            self._remove(old_path)
            self._before.remove(old_path)

    def _remove(self, path: str) -> None:
        if not _is_ours(path):  # the record is damaged
            return
        self._built.removed.append(path)
        if self._dry_run:
            return
        folders.remove_below(self._full(path), self._top)

    def _full(self, path: str) -> str:
        return os.path.join(self._site, *path.split("/"))


def _is_ours(path: str) -> bool:
    """Return whether a part may write this path: it is below the site, not too long, and not of a signed file."""
    is_signed = path.partition("/")[0] in SIGNED_FOLDERS or "/.well-known/agent-skills/" in f"/{path}"
    is_short = all(len(os.fsencode(name)) <= _NAME_MAX for name in path.split("/"))
    return is_inner_path(path) and is_short and not is_signed


def built_files(registry: str) -> list[str]:
    """Return the paths of all built files below the site, in the order in which they may be published."""
    return sorted(_recorded(registry), key=lambda path: (_publication_rank(path), path))


def _recorded(registry: str) -> dict[str, str]:
    """Return the SHA-256 of all built files, by path below the site."""
    return {path: digest for record in records(registry).values() for path, digest in files_in(record).items()}


def records(registry: str) -> dict[str, bytes]:
    """Return the records of the last build, by the names of their files."""
    folder, found = os.path.dirname(record_path(registry, "")), dict[str, bytes]()
    for name in (name for name in files.names_in(folder) if name.endswith(".json")):
        with suppress(FormatError, StateError):
            found[name] = files.read(os.path.join(folder, name), _CAP) or b""
    return {name: data for name, data in found.items() if _parsed(data)}


def files_in(record: bytes) -> dict[str, str]:
    """Return the SHA-256 of each built file that a record names, by path below the site."""
    rows = _parsed(record).values()
    return {path: digest for _, digests in rows for path, digest in digests.items() if _is_ours(path)}


def changed_files(registry: str, site: str) -> tuple[list[str], list[str]]:
    """Return the paths of built files that changed since, and of other files in folders that only builds write to."""
    recorded = _recorded(registry)
    tops = {path.partition("/")[0] for path in recorded if "/" in path}
    present = set[str]()
    for top in tops:
        for folder, inner, names in os.walk(os.path.join(site, top)):
            links = (name for name in inner if os.path.islink(os.path.join(folder, name)))
            kept = (name for name in (*names, *links) if not folders.UNFINISHED_FILE.fullmatch(name))
            paths = (os.path.join(folder, name) for name in kept)
            present.update(os.path.relpath(path, site).replace(os.sep, "/") for path in paths)
    return sorted(_differing(site, recorded)), sorted(filter(_is_ours, present - recorded.keys()))


def _differing(site: str, digests: Mapping[str, str]) -> Iterator[str]:
    return (path for path, digest in digests.items() if _sha256(os.path.join(site, *path.split("/"))) != digest)


def _sha256(path: str) -> str:
    """Return the SHA-256 of a plain file; empty if there is none, or it cannot be read."""
    try:
        if os.path.islink(path) or not os.path.isfile(path):
            return ""
        with open(path, "rb") as file:
            return file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def _publication_rank(path: str) -> int:
    """Return the position of a file in the order of publication: a file comes after those that it names.

    In a git repository, the branch is last.
    """
    if path.startswith("skills.git/"):
        return 0 if "/pack/" in path else 1 if path.endswith("/packs") else 2
    return 0 if "/" in path else 2


def record_path(registry: str, part: str) -> str:
    """Return the path of a part's record in the folder of a registry."""
    return os.path.join(registry, "outputs", f"{part}.json")


def _write_record(path: str, rows: Mapping[str, list[object]]) -> None:
    data = json.dumps(rows, separators=(",", ":")).encode()
    if files.read(path, _CAP) != data:
        files.write_atomic(path, data, mode=0o644, root=files.HeldFolder(os.path.dirname(os.path.dirname(path))))


def read_build_digests(path: str) -> dict[str, tuple[str, dict[str, str]]]:
    """Return a record: by skill, its key, and the SHA-256 of each of its files by path.

    The empty name has the files about all skills together. The result is empty if there is no valid record.
    """
    with suppress(FormatError, StateError):
        return _parsed(files.read(path, _CAP) or b"")
    return {}


def _parsed(record: bytes) -> dict[str, tuple[str, dict[str, str]]]:
    try:
        return {
            name: (str(key), {str(path): str(digest) for path, digest in digests.items()})
            for name, (key, digests) in strict_json(record, "", _CAP).items()  # type: ignore[attr-defined]
        }
    except (FormatError, ValueError, TypeError, AttributeError):
        return {}


def is_fixed(path: str) -> bool:
    """Return whether the content at this path never changes; a name in the folder of a skill proves nothing."""
    top, slash, _ = path.lstrip("/").partition("/")
    if _LOGGED.fullmatch(path.lstrip("/")):
        return True
    return (top in SIGNED_FOLDERS or not slash) and _FIXED.fullmatch(path.rpartition("/")[2]) is not None


def media_type(path: str) -> str:
    """Return the media type of a file."""
    if path.lstrip("/") == CHECKPOINT:
        return "text/plain; charset=utf-8"
    ending = os.path.splitext(path)[1]
    own_type = _TYPES["only_of_own_files"].get(ending) if is_own(path) else None
    return own_type or _TYPES["of_any_file"].get(ending, "application/octet-stream")


def is_own(path: str) -> bool:
    """Return whether a path is below ``OWN`` or at the top of the site, where no file is from a skill."""
    top, slash, _ = path.lstrip("/").partition("/")
    return top == OWN or not slash


def cache_control(path: str) -> str:
    """Return the value of ``Cache-Control`` for a file."""
    return "public, max-age=31536000, immutable" if is_fixed(path) else "public, max-age=60"


# The part with the shapes of other clients; ``skillhub.registry.pages`` has that with the pages.


def files_of_skill(offer: Offer, skill: OfferedSkill) -> Files:
    """Yield the files about one skill of an operator's registry."""

    def pack(release: Release, tree: Tree) -> bytes:
        return packed_tar(other_clients.package_files(release, tree), offer.hub.settings.compress)

    return other_clients.skill_files(skill, offer.url, pack)


def files_of_all(offer: Offer) -> Files:
    """Yield the lists and the files of the git repository."""
    skills = {skill.name: skill for skill in offer.skills()}
    recorded: dict[str, ClientDocument] = {}
    for path in sorted({other_clients.list_path(name) for name in skills}):
        if data := offer.read_built(path):
            recorded |= {each.name: each for each in other_clients.ClientDocuments.parse(data, path).skills}
    all_documents = (document_for(offer, skill, recorded.get(name)) for name, skill in skills.items())
    documents = [document for document in all_documents if document is not None]
    yield from other_clients.lists(documents, offer.hub.settings.publisher, offer.url)

    def objects(document: ClientDocument) -> Objects:
        release_and_tree = other_clients.offered_tree(skills[document.name])
        return other_clients.plugin_objects(*release_and_tree)[0] if release_and_tree else Objects()

    folder = os.path.join(offer.hub.registry.site, REPOSITORY)

    def read(path: str) -> bytes | None:
        if (recorded := offer.read_built(f"{REPOSITORY}/{path}")) is not None:
            return recorded
        data = files.read(os.path.join(folder, *path.split("/")), FILE_CAP)
        if data is None or not path.endswith(".idx"):
            return data
        pack = files.read(os.path.join(folder, *f"{path.removesuffix('.idx')}.pack".split("/")), FILE_CAP) or b""
        return data if is_sound(pack, data, path) else None  # the objects of a damaged pack are packed again

    repository = other_clients.StaticRepository(read)
    when = int(offer.hub.signing.now.timestamp())
    catalogs = other_clients.plugin_catalogs(documents, offer.hub.settings.publisher)
    level = -1 if offer.hub.settings.compress else 0
    for path, data in repository.revised(documents, catalogs, objects, (when, level)):
        yield f"{REPOSITORY}/{path}", data


def document_for(offer: Offer, skill: OfferedSkill, built: ClientDocument | None = None) -> ClientDocument | None:
    """Return the document of a skill; None if it has no release for other clients.

    ``built``, from the last build, or else the written file, is returned if it matches the signed release; otherwise
    a new document is made.
    """
    release = other_clients.offered(skill)
    if release is None or RESERVED.match(skill.name):
        return None
    if built is not None and other_clients.is_proved(built, release):
        return built
    path = os.path.join(offer.hub.registry.site, *other_clients.document_path(skill.name).split("/"))
    try:
        served = ClientDocument.parse(files.read(path, FILE_CAP) or b"", path)
        if other_clients.is_proved(served, release):
            return served
    except FormatError:
        pass
    release_and_tree = other_clients.offered_tree(skill)
    return other_clients.document_of(*release_and_tree) if release_and_tree else None


SHAPES: Final = Part(name="shapes", of_skill=files_of_skill, of_all=files_of_all)

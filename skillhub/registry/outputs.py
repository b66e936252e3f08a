"""Files below a registry's site that are made of its signed ones: pages for people, other shapes for other clients.

None of them is signed, and no client of ours reads one. Each ``Part`` makes some; ``build`` writes what changed.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import file_digest, sha256

from skillhub import __version__
from skillhub.archive import unpack
from skillhub.audit.scan_cache import ScanCache, ScannedSkill
from skillhub.disk import files
from skillhub.errors import FormatError, StateError
from skillhub.formats.digest import Digest
from skillhub.formats.json import strict_json
from skillhub.formats.text import is_inner_path
from skillhub.model.advisory import AdvisoriesDocument, AdvisoryIndex, AdvisorySubject, Match, Said
from skillhub.model.discovery import parse_listing
from skillhub.model.index import ADVISORIES, Admission, Index, Release
from skillhub.model.tree import Tree
from skillhub.registry.log_writer import CHECKPOINT
from skillhub.registry.operator import Opened
from skillhub.trust.documents import SHARD_PATHS, best_release, shard_path, shards

# What no skill can be named, so that nothing of a skill is ever below it.
OWN = "-"
# The registry's own folders. A skill may be named so; then it has no files of its own outside of the archives.
SIGNED_FOLDERS = frozenset({"metadata", "targets", "archives", "tile"})
_CAP = 64 << 20
_LEFT = re.compile(r"\.skillhub-[0-9a-f]{16}\.tmp")  # by a build that was killed; nothing publishes it
_UNKNOWN = "?"  # a digest that an older record does not have
_LISTS = "lists"  # names the record of the public lists of a large registry
_NAME_MAX = 255  # bytes of one name, which no file system exceeds

# How a file of the site is served, by whichever server: as what, and how long it may be kept.
_TYPES = {
    ".json": "application/json",
    ".md": "text/markdown; charset=utf-8",
    ".zip": "application/zip",
    ".gz": "application/gzip",
}
# Of what we write ourselves: a file of a skill is never a document that a browser runs.
_OWN_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".xml": "application/xml",
}
# A version or a hash in the name: what is under it never changes.
_FIXED = re.compile(r"(?:[0-9]+\.[^/]+\.json|[0-9a-f]{64}\.[^/]+)", re.ASCII)
# A file of the log: its width is in the name.
_LOGGED = re.compile(r"tile/(?:[0-9]+|entries|proof)/[x0-9/.p]+", re.ASCII)

# Without bytes: what is there already stays.
Files = Iterable[tuple[str, bytes | None]]


@dataclass(frozen=True)
class Offer:
    """All that a registry offers, for those who make files of it.

    Attributes:
        quick: Whether the public lists of a large registry, which nobody signs, are read if they are as recorded.
        built: The SHA-256 of what the last build of a part made of all skills, by path; empty if each file is read.
        lists: The SHA-256 of those public lists, by path.
    """

    hub: Opened
    scans: ScanCache
    quick: bool = False
    built: dict[str, str] = field(default_factory=dict)
    lists: dict[str, str] = field(default_factory=dict)

    @cached_property
    def index(self) -> Index:
        """Every release of every skill, and who is admitted."""
        listed: dict[str, tuple[Release, ...]] = {}
        known = read_record(record_path(self.hub.registry.path, _LISTS)) if self.quick and self.hub.large else {}
        for path, digest in known.get("", ("", {}))[1].items():
            with suppress(FormatError):  # it is larger than any
                data = self.hub.registry.read(path) if path in SHARD_PATHS else None
                if data is not None and sha256(data).hexdigest() == digest:
                    listed |= parse_listing(data, path).skills
                    self.lists[path] = digest
        return self.hub.index(listed=listed)

    @cached_property
    def root(self) -> Digest:
        """The fingerprint by which clients pin the registry."""
        return self.hub.registry.fingerprint()

    @cached_property
    def advisories(self) -> AdvisoryIndex:
        """What it says is known to be bad."""
        data = self.hub.registry.target(self.hub.metadata, ADVISORIES) or b"{}"
        return AdvisoryIndex([Said(AdvisoriesDocument.parse(data, ADVISORIES), self.root)])

    @property
    def url(self) -> str | None:
        """Where the site is published, without a slash at the end; None if nobody said."""
        return self.hub.settings.url

    def read_built(self, path: str) -> bytes | None:
        """Return a file as the last build made it; None if it is another, or not to be relied on."""
        full = os.path.join(self.hub.registry.site, *path.split("/"))
        return files.read(full, _CAP) if path in self.built and _sha256(full) == self.built[path] else None

    def skills(self) -> Iterator[OfferedSkill]:
        """Yield the skills by name."""
        for name in self.index.names:
            yield OfferedSkill(self, name, self.index.skills[name])


@dataclass(frozen=True)
class OfferedSkill:
    """One skill: its releases, newest first, and their content, each archive proved as it is read."""

    offer: Offer
    name: str
    releases: tuple[Release, ...]
    _trees: dict[str, Tree | None] = field(default_factory=dict, repr=False)

    @property
    def best(self) -> Release:
        """The newest release that one may choose; of those taken back, too, the newest."""
        return best_release(self.releases)

    @property
    def admission(self) -> Admission:
        """What its publisher is admitted to."""
        return self.offer.index.admissions[self.best.publisher or ""]

    def tree(self, release: Release) -> Tree | None:
        """Return the content of a release; None of one that is withdrawn, of which nothing is shown or served.

        Raises:
            SecurityError: the archive is another than the signed one.
            StateError: it is gone.
        """
        if release.withdrawn is not None:
            return None
        if release.url not in self._trees:
            self._trees[release.url] = unpack(self.offer.hub.artifact(release), "zip", wrapper=False).tree
        return self._trees[release.url]

    def known_bad(self, release: Release) -> tuple[Match, ...]:
        """Return the registry's advisories about a release, by its version, its archive or its tree."""
        return known_bad(release, self.offer.advisories, self.offer.root)

    def scanned(self, tree: Tree) -> ScannedSkill:
        """Return what the scan reads off one of its trees."""
        return self.offer.scans.read(tree)


def known_bad(release: Release, advisories: AdvisoryIndex, root: Digest) -> tuple[Match, ...]:
    """Return what advisories of the registry with this root say about a release of it."""
    digests = {str(release.digest): "its artifact", str(release.tree): "its tree"}
    subject = AdvisorySubject(release.name, (release.version or "",), root, tuple, lambda: digests)
    return advisories.matches(subject)


def _nothing_of_skill(_: OfferedSkill) -> Files:
    return ()


def _nothing_of_all(_: Offer) -> Files:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One kind of files, by path below the site.

    What stands at the same path twice is a fault of the code: a part writes below ``OWN``, below the names of skills,
    or files at the top with a dot in their name.

    Attributes:
        name: Names the record of what was built.
        version: Of whatever else decides how the files look; where it differs, all are made again.
        of_skill: Makes those of one skill; asked only when the skill, its publisher or ``version`` has changed.
        of_all: Makes those of all together; asked each time.
    """

    name: str
    version: str = ""
    of_skill: Callable[[OfferedSkill], Files] = _nothing_of_skill
    of_all: Callable[[Offer], Files] = _nothing_of_all


@dataclass(slots=True)
class Built:
    """What a build came to: paths below the site; ``left_out`` are signed files, or of a name that no disk takes."""

    written: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    skills: int = 0
    files: int = 0


def build(hub: Opened, parts: Sequence[Part], scans: ScanCache, *, quick: bool = False) -> Built:
    """Make the files of each part anew where what they are made of has changed, and remove those that are no more.

    Whoever kills this leaves files of the old state beside new ones; the next call finishes it.

    Args:
        hub: The registry.
        parts: What to make.
        scans: What is known of the scan.
        quick: Take what the last build wrote for unchanged, if it was finished; else each file is read.

    Raises:
        SecurityError: an archive, or a document of the registry, is not what was signed.
        StateError: one is gone, or the disk refuses.
    """
    offer, built = Offer(hub, scans, quick), Built()
    built.skills = len(offer.index.skills)
    for part in parts:
        _Build(offer, part, built, quick=quick).run()
    if hub.large and not hub.signing.dry_run:
        _keep_lists(offer)
    return built


def _keep_lists(offer: Offer) -> None:
    """Record how the public lists are to be, by what is signed: a quick build believes those that are so."""
    groups: dict[str, list[str]] = {}
    for name in offer.index.skills:
        groups.setdefault(shard_path(name), []).append(name)
    made = {path: offer.lists.get(path) or _list_digest(offer.index, names) for path, names in groups.items()}
    _keep_record(record_path(offer.hub.registry.path, _LISTS), {"": ["", made]})


def _list_digest(index: Index, names: Iterable[str]) -> str:
    (data,) = shards(index, names, lambda _: None).values()
    return sha256(data).hexdigest()


class _Build:
    """The build of one part. ``<registry>/outputs/<part>-<bucket>.json`` records what it made of which skills.

    ``<part>.json`` records what it made of all, and by what to tell that no skill of a bucket has changed. Beside it
    stands what was begun: a build that was killed has perhaps written what the next one does not make.
    """

    def __init__(self, offer: Offer, part: Part, built: Built, *, quick: bool) -> None:
        self._part, self._built = part, built
        self._registry = registry = offer.hub.registry
        self._site, self._dry_run = registry.site, offer.hub.signing.dry_run
        facts = (__version__, offer.scans.rules, part.version, offer.root, offer.url)
        self._rules = sha256(repr(facts).encode()).hexdigest()
        self._known = read_record(record_path(registry.path, part.name))
        self._begun = record_path(registry.path, part.name).removesuffix(".json") + ".begun"
        self._before = {path for _, made in self._known.values() for path in made}
        begun = set[str]()
        with suppress(FormatError):
            begun.update(filter(None, (files.read(self._begun, _CAP) or b"").decode("utf-8", "replace").split("\n")))
        self._before |= begun
        rules, whole = self._known.get("", ("", {}))
        self._quick = quick and not begun and rules == self._rules
        self._offer = offer
        offer.built.clear()
        offer.built.update(whole if self._quick else {})
        self._now = set[str]()

    def run(self) -> None:
        buckets: dict[str, dict[str, str]] = {name: {} for name in self._known if name[:1] == "-"}
        for skill in self._offer.skills():
            buckets.setdefault(f"-{bucket_of(skill.name)}", {})[skill.name] = self._key(skill)
        rows: dict[str, list[object]] = {}
        for bucket, keys in sorted(buckets.items()):
            # An empty name is no skill's, nor does one begin with a hyphen.
            key = sha256(repr(keys).encode()).hexdigest()
            if not self._quick or self._known.get(bucket, ("",))[0] != key:
                self._make_bucket(bucket, keys)
            if keys:
                rows[bucket] = [key, {}]
        whole = self._write(self._part.of_all(self._offer))
        self._now.update(whole)
        self._built.files += len(self._now)
        for path in sorted(self._before - self._now):
            self._remove(path)
        self._keep("", {**rows, "": [self._rules, whole]})
        if not self._dry_run:
            with files.disk_errors(self._begun), suppress(FileNotFoundError):
                os.remove(self._begun)

    def _make_bucket(self, bucket: str, keys: Mapping[str, str]) -> None:
        known = self._known | read_record(record_path(self._registry.path, self._part.name + bucket))
        self._before.update(path for _, made in known.values() for path in made)
        rows: dict[str, list[object]] = {}
        for name, key in keys.items():
            had, made = known.get(name, ("", {}))
            if had != key or not (self._quick or not any(_differing(self._site, made))):
                made = self._write(
                    self._part.of_skill(OfferedSkill(self._offer, name, self._offer.index.skills[name]))
                )
            rows[name] = [key, made]
            self._now.update(made)
        self._keep(bucket, rows)

    def _keep(self, bucket: str, rows: Mapping[str, list[object]]) -> None:
        if not self._dry_run:
            _keep_record(record_path(self._registry.path, self._part.name + bucket), rows)

    def _key(self, skill: OfferedSkill) -> str:
        who = skill.admission
        publisher = (who.publisher, who.keys, who.certificates, who.revoked)
        bad = [skill.known_bad(each) for each in skill.releases]
        return sha256(repr((self._rules, skill.releases, publisher, bad)).encode()).hexdigest()

    def _write(self, made: Files) -> dict[str, str]:
        """Write what differs, and return the SHA-256 of each by its path."""
        written = {}
        for path, data in made:
            if not _is_ours(path):
                self._built.left_out.append(path)
                continue
            full = self._full(path)
            written[path] = (
                sha256(data).hexdigest() if data is not None else self._offer.built.get(path) or _sha256(full)
            )
            if data is None or self._offer.built.get(path) == written[path]:
                continue
            with suppress(FormatError, StateError):  # what is there is larger, or no file
                if path not in self._offer.built and files.read(full, len(data)) == data:
                    continue
            self._built.written.append(path)
            if not self._dry_run:
                self._make_room(path)
                self._begin(path)
                files.write_atomic(full, data, mode=0o644, sync=False)
        return written

    def _make_room(self, path: str) -> None:
        """Remove what was made before where a folder is to be now, or within what is to be a file."""
        names = path.split("/")
        found = {"/".join(names[:count]) for count in range(1, len(names))} & self._before
        if os.path.isdir(self._full(path)):
            found |= {each for each in self._before if each.startswith(f"{path}/")}
        for each in sorted(found):
            self._remove(each)
            self._before.remove(each)

    def _begin(self, path: str) -> None:
        if path not in self._before:
            with files.disk_errors(self._begun):
                os.makedirs(os.path.dirname(self._begun), exist_ok=True)
                with open(self._begun, "a", encoding="utf-8") as file:
                    file.write(f"{path}\n")
            self._before.add(path)

    def _remove(self, path: str) -> None:
        if not _is_ours(path):  # the record was damaged
            return
        self._built.removed.append(path)
        if self._dry_run:
            return
        full = self._full(path)
        with files.disk_errors(full), suppress(FileNotFoundError):
            os.remove(full)
        with suppress(OSError):  # the folders that are empty now
            while (full := os.path.dirname(full)) != self._site:
                os.rmdir(full)

    def _full(self, path: str) -> str:
        return os.path.join(self._site, *path.split("/"))


def _is_ours(path: str) -> bool:
    """Say whether a part may write there: below the site, and no signed file, which nothing else may replace."""
    is_signed = path.partition("/")[0] in SIGNED_FOLDERS or "/.well-known/agent-skills/" in f"/{path}"
    is_short = all(len(os.fsencode(name)) <= _NAME_MAX for name in path.split("/"))
    return is_inner_path(path) and is_short and not is_signed


def built_files(registry: str) -> list[str]:
    """Return the paths below the site of all that was built in the folder of a registry, as they may appear."""
    return sorted(_recorded(registry), key=lambda path: (_rank(path), path))


def _recorded(registry: str) -> dict[str, str]:
    """Return the SHA-256 of all that was built in the folder of a registry, by path below the site."""
    folder, found = os.path.dirname(record_path(registry, "")), dict[str, str]()
    for name in files.names_in(folder):
        for _, made in read_record(os.path.join(folder, name)).values():
            found.update((path, digest) for path, digest in made.items() if _is_ours(path))
    return found


def changed_files(registry: str, site: str) -> tuple[list[str], list[str]]:
    """Return what is no longer as it was built, and what nobody built where nothing but builds writes, by path."""
    made = _recorded(registry)
    tops = {path.partition("/")[0] for path in made if "/" in path}
    there = {
        os.path.relpath(os.path.join(folder, name), site).replace(os.sep, "/")
        for top in sorted(tops)
        for folder, folders, names in os.walk(os.path.join(site, top))
        for name in (*names, *(each for each in folders if os.path.islink(os.path.join(folder, each))))
        if not _LEFT.fullmatch(name)
    }
    known = {path: digest for path, digest in made.items() if digest != _UNKNOWN}
    return sorted(_differing(site, known)), sorted(filter(_is_ours, there - made.keys()))


def _differing(site: str, made: Mapping[str, str]) -> Iterator[str]:
    return (path for path, digest in made.items() if _sha256(os.path.join(site, *path.split("/"))) != digest)


def _sha256(path: str) -> str:
    """Return the SHA-256 of a plain file; empty if there is none that can be read."""
    try:
        if os.path.islink(path) or not os.path.isfile(path):
            return ""
        with open(path, "rb") as file:
            return file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def _rank(path: str) -> int:
    """Return when a file may appear: what names others comes after them, in a repository the branch last of all."""
    if path.startswith("skills.git/"):
        return 0 if "/pack/" in path else 1 if path.endswith("/packs") else 2
    return 0 if "/" in path else 2


def bucket_of(name: str) -> str:
    """Return in which of 256 groups a skill is, which a release of another one leaves as they are."""
    return sha256(name.encode()).hexdigest()[:2]


def record_path(registry: str, part: str) -> str:
    """Return where what a part made is recorded, in the folder of a registry."""
    return os.path.join(registry, "outputs", f"{part}.json")


def _keep_record(path: str, rows: Mapping[str, list[object]]) -> None:
    data = json.dumps(rows, separators=(",", ":")).encode()
    if files.read(path, _CAP) != data:
        files.write_atomic(path, data, mode=0o644)


def read_record(path: str) -> dict[str, tuple[str, dict[str, str]]]:
    """Return what was made of each skill, and under the empty name of all; empty if there is no sound record.

    Each path has the SHA-256 of what was written there; an older record has none, and all is made again.
    """
    try:
        found = strict_json(files.read(path, _CAP) or b"{}", path, _CAP)
        if not isinstance(found, dict):
            return {}
        rows = {
            name: (key, made if isinstance(made, dict) else dict.fromkeys(made, _UNKNOWN))
            for name, (key, made) in found.items()
        }
        return {
            name: (str(key), {str(path): str(digest) for path, digest in made.items()})
            for name, (key, made) in rows.items()
        }
    except (FormatError, StateError, ValueError, TypeError):
        return {}


def is_fixed(path: str) -> bool:
    """Say whether what is under this name is never to change; a skill may name a file of its own as it pleases."""
    first, slash, _ = path.lstrip("/").partition("/")
    if _LOGGED.fullmatch(path.lstrip("/")):
        return True
    return (first in SIGNED_FOLDERS or not slash) and _FIXED.fullmatch(path.rpartition("/")[2]) is not None


def media_type(path: str) -> str:
    """Return the media type of a file."""
    if path.lstrip("/") == CHECKPOINT:
        return "text/plain; charset=utf-8"
    ending = os.path.splitext(path)[1]
    return (is_own(path) and _OWN_TYPES.get(ending)) or _TYPES.get(ending, "application/octet-stream")


def is_own(path: str) -> bool:
    """Say whether a path is one at which no skill has a file."""
    first, slash, _ = path.lstrip("/").partition("/")
    return first == OWN or not slash


def cache_control(path: str) -> str:
    """Return how long others may keep it, as ``Cache-Control`` says it."""
    return "public, max-age=31536000, immutable" if is_fixed(path) else "public, max-age=60"

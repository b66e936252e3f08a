"""Verify a registry as a new client does: all metadata, every release of every skill, the log, and unsigned files."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha512
from itertools import chain, starmap
from typing import Any, cast
from urllib.parse import quote as percent_encode

from skillhub import errors
from skillhub.archive.unpack import packed_tar, unpack
from skillhub.disk.home import throwaway
from skillhub.errors import BadLog, FormatError, NotFound, SecurityError, SkillhubError, SourceError, UsageError
from skillhub.formats.document import json_bytes
from skillhub.formats.json import strict_json
from skillhub.formats.text import as_command, as_word, quote
from skillhub.model.discovery import LISTING_CAP, PartDocument, PartRow, Pinned, parse_listing, parse_namespaces
from skillhub.model.finding import Issue
from skillhub.model.index import Admission, Index, Release, namespace_path, offered_by
from skillhub.model.manifest import Manifest
from skillhub.model.reference import NO_SECRET, holds_secret
from skillhub.model.tree import Tree
from skillhub.net.fetch import PERSON, Fetcher, FolderFetcher, Requester, Response
from skillhub.registry import log_writer, other_clients
from skillhub.registry.git_objects import read_pack
from skillhub.registry.operator import RegistryDir
from skillhub.registry.other_clients import OfferedSkill
from skillhub.registry.outputs import advisory_index, changed_files
from skillhub.sources.history import ShownTime
from skillhub.sources.registry_client import TufRegistry, fetch_root
from skillhub.trust import documents
from skillhub.trust.documents import SHARD_PATHS
from skillhub.trust.log import leaf_hash, nodes_of
from skillhub.trust.log_client import RegistryLog, read_entry
from skillhub.trust.publishers import judge, publisher_of
from skillhub.trust.registry_metadata import METADATA_BUNDLE_PATH
from skillhub.trust.registry_rules import agrees, documents_of
from skillhub.trust.roles import CEREMONY_DAYS, RELEASES, ROLES, WELL_KNOWN, metadata_files, rule_of, skill_path

ONLINE_DAYS = 1
_FOLDER = "folder:"
_FILE_CAP = 128 << 20  # a package or a pack holds more than the largest skill


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of a check.

    Attributes:
        problems: What a client would refuse, or would see wrongly.
        warnings: One for each role that expires soon: offline roles early, online roles on the last day. Empty if
            there is a problem.
    """

    problems: tuple[Issue, ...]
    warnings: tuple[Issue, ...] = ()


def check(
    place: str, now: datetime, time: ShownTime | None = None, fetcher_for: Callable[[str], Fetcher] | None = None
) -> Checked:
    """Check everything that a registry offers.

    Args:
        place: The operator's folder, or the URL of a registry, whose own first root is trusted.
        now: The time at which signers' certificates must be valid.
        time: The time for the expiry of metadata; None for the machine's clock.
        fetcher_for: Returns the fetcher for a URL; needed only for one.

    Raises:
        UsageError: the URL holds a credential.
        SourceError: the folder has no registry, or the server cannot be reached, so the state is unknown.
        StateError: the disk refuses.
    """
    if "://" in place and holds_secret(place):
        raise UsageError("expected the URL of a registry without password or another credential", hint=NO_SECRET)
    with throwaway() as folder:
        opened = _opened(place, fetcher_for)
        # The built files are derived from the signed ones, and are checked only if the signed ones are sound.
        issues = tuple(_problems(place, opened, folder, now, time)) or _changed_since_build(place)
        problems = tuple(replace(issue, where=_display_place(issue.where, place)) for issue in issues)
        return Checked(problems, () if problems else tuple(_expiry_warnings(folder, now)))


def _display_place(where: str, place: str) -> str:
    """Return the place of an issue for display: a file in the operator's folder has its path there."""
    if not where.startswith(_FOLDER):
        return where
    path = where.removeprefix(_FOLDER).lstrip("/")
    return os.path.join(RegistryDir(place).site, *path.split("/")) if path else place


def _problems(
    place: str, opened: tuple[str, str | None, Fetcher], folder: str, now: datetime, time: ShownTime | None
) -> Iterator[Issue]:
    url, site_url, fetcher = opened
    try:
        registry = TufRegistry.open(url, fetch_root(url, fetcher), fetcher, folder, time)
        registry.advisories()
        first_part, where = registry.first_part(), f"{url}/{WELL_KNOWN}/index.json"
        if first_part is None:
            listing = registry.listing()
            public = parse_listing(fetcher.get(where, cap=LISTING_CAP).data, where)
            expected = {name: listing.skills[name] for name in documents.offered(listing, listing.skills)}
            differs = public != replace(listing, skills=expected)
        else:
            listing, differs = _in_parts(registry, first_part, fetcher), False
    except SkillhubError as error:
        if url == _FOLDER:
            yield _operators_issue(place) or _issue(error, url)
        elif isinstance(error, SourceError) and not isinstance(error, NotFound):
            raise
        else:
            yield _issue(error, url)
        return
    if differs:
        yield Issue("wrong-bytes", "the public index differs from the signed one", where)
        return
    issues = [issue for name in listing.names for issue in _skill(registry, name, now)]
    issues += _unlisted(registry, listing, now)
    if registry.log is not None:
        try:
            issues += _log(registry.log, registry.offers(), url, fetcher)
        except SkillhubError as error:
            issues.append(_issue(error, url))
    # Unsigned files are derived from the signed ones, and are compared only if the signed ones are sound.
    yield from issues or _Shapes(registry, fetcher, site_url, place if url == _FOLDER else "DIR").problems(listing)


def _operators_issue(place: str) -> Issue | None:
    """Return what the operator's commands report about the metadata, which names the file and the remedy, or None."""
    try:
        RegistryDir(place).metadata()
    except SkillhubError as error:
        return Issue(error.code, f"{error.message}; {error.hint}", error.where or place)
    return None


def _in_parts(registry: TufRegistry, first_part: PartDocument, fetcher: Fetcher) -> Index:
    """Return the best release of each skill of a large registry, and check the parts and public lists against them.

    Raises:
        BadMetadata: the parts of the listing differ from the documents of the skills.
        WrongBytes: a public file differs from the signed documents.
        SkillhubError: a part or a document cannot be fetched, or differs from its signed digest.
    """
    skills: dict[str, tuple[Release, ...]] = {}
    # Sums of digests do not depend on the order of rows; the rows themselves would not fit into memory.
    listed_sum, expected_sum = [0], 0
    for name, pinned in _documents_below(registry, first_part, listed_sum):
        path = skill_path(name)
        data = registry.pinned(path, pinned, lambda data, _: data)
        skills[name] = documents.listed_releases(name, data)
        expected_sum += sum(map(_row_number, documents.rows_of(name, data).values()))
        _refuse_other_files(registry, fetcher, {f"{WELL_KNOWN}/{path}": data})
    if listed_sum != [expected_sum]:
        raise errors.BadMetadata("the parts of the listing differ from the skills in it", where=registry.url)
    _refuse_other_files(registry, fetcher, documents.short_listing())
    lists: dict[str, list[str]] = {path: [] for path in SHARD_PATHS}
    for name in skills:
        lists[documents.shard_path(name)].append(name)
    for path, names in lists.items():
        _refuse_other_files(registry, fetcher, documents.shards(Index(skills), names, lambda _: None) or {path: None})
    return Index({name: (documents.best_release(releases),) for name, releases in skills.items()})


def _documents_below(registry: TufRegistry, part: PartDocument, listed: list[int]) -> Iterator[tuple[str, Pinned]]:
    """Yield each skill below a part with its pinned document; add the number of each row to ``listed``."""
    listed[0] += sum(map(_row_number, part.rows if not part.parts else ()))
    yield from documents_of(part)
    best: list[PartRow] = []
    for prefix, pinned in part.parts.items():
        below = registry.part(prefix, pinned)
        best += below.rows
        yield from _documents_below(registry, below, listed)
    if part.parts and documents.best_rows(best) != [*part.rows]:
        raise errors.BadMetadata("a part of the listing repeats other rows than the best", where=registry.url)


def _row_number(row: PartRow) -> int:
    return int.from_bytes(sha512(json.dumps(row.model_dump(), sort_keys=True).encode()).digest())


def _refuse_other_files(registry: TufRegistry, fetcher: Fetcher, files: Mapping[str, bytes | None]) -> None:
    """Raise WrongBytes if a public file differs from these; None stands for a file that must not exist."""
    for path, data in files.items():
        where = f"{registry.url}/{path}"
        try:
            served = fetcher.get(where, cap=len(data or b"")).data
        except NotFound:
            if data is None:
                continue
            raise
        if served != data:
            raise errors.WrongBytes("the public file differs from the signed one", where=where)


def _log(log: RegistryLog, offered: Index, url: str, fetcher: Fetcher) -> Iterator[Issue]:
    """Compare the log's files with its entries, and its entries with the releases and admissions of the registry."""
    head, numbered = log.head, [*log.entries()]
    entries = [data for _, data in numbered]
    expected_files = log_writer.files(entries, nodes_of([*map(leaf_hash, entries)]), 0, len(entries))
    for path, data in {**expected_files, log_writer.CHECKPOINT: head.note.dump()}.items():
        if fetcher.get(f"{url}/{path}", cap=len(data)).data != data:
            message = "the file differs from the log that clients see; if a command was stopped, run it again"
            yield Issue(BadLog.code, message, f"{url}/{path}")
    facts = [*map(read_entry, numbered)]
    logged = {(str(fact.get("name")), fact.get("version")) for fact in facts if fact["kind"] == "release"}
    for name, version in sorted(logged - {(each.name, each.version) for each in offered_by(offered)}, key=str):
        yield Issue(BadLog.code, "the log has this release, but the registry does not offer it", f"{name} {version}")
    for release in offered_by(offered):
        log.require(release)
    # The log must have each name and key that the offline keys admitted.
    names = {fact.get("name"): fact.get("publisher") for fact in facts if fact["kind"] == "name"}
    keys = {(fact.get("publisher"), fact.get("fingerprint")) for fact in facts if fact["kind"] == "key-added"}
    for publisher, admission in offered.admissions.items():
        unlogged = [name for name in sorted(admission.names) if names.get(name) != publisher]
        unlogged += [each for each in publisher_of(admission).fingerprints if (publisher, each) not in keys]
        for item in unlogged:
            yield Issue(BadLog.code, f"the log does not assign it to {publisher}", item)


def _expiry_warnings(folder: str, now: datetime) -> Iterator[Issue]:
    """Yield a warning for each role whose document, in the client's folder, expires soon."""
    names = sorted(name.removesuffix(".json") for name in os.listdir(folder))
    # The client keeps other files in that folder, too.
    roles = [role for role in names if role in ROLES or role.startswith(f"{RELEASES}-")]
    for document in metadata_files(folder, roles):
        online = rule_of(document.role).online
        if document.expires_within(ONLINE_DAYS if online else CEREMONY_DAYS, now):
            refresh = as_command("skillhub", "registry", "refresh", *(() if online else ("--role", document.role)))
            remedy = f"{refresh}, daily" if online else refresh
            message = f"the document of {document.role} expires {document.expires}: {remedy}"
            yield Issue("expires-soon", message, document.role)


def _unlisted(registry: TufRegistry, listing: Index, now: datetime) -> Iterator[Issue]:
    try:
        offered = registry.offers().names
    except SkillhubError as error:
        yield _issue(error, registry.url)
        return
    for name in offered:
        if name not in listing.skills:
            yield Issue("not-listed", "it has releases, but the listing lacks it", name)
            yield from _skill(registry, name, now)


def _skill(registry: TufRegistry, name: str, now: datetime) -> Iterator[Issue]:
    try:
        index = registry.release_index([name])
    except SkillhubError as error:
        yield _issue(error, name)
        return
    for release in index.releases(name):
        if release.withdrawn is not None:
            continue  # No client fetches it, and its archive may be deleted.
        try:
            _release(registry, release, index.admissions[release.publisher or ""], now)
        except SkillhubError as error:
            yield _issue(error, f"{name} {release.version}")


def _release(registry: TufRegistry, release: Release, admission: Admission, now: datetime) -> None:
    tree = unpack(registry.artifact(release), "zip", wrapper=False).tree
    verdict = judge(tree, [publisher_of(admission, release.published)], None, now)
    if verdict.status != "valid":
        raise SecurityError(f"expected a signature by {admission.publisher}", where=release.url)
    manifest = Manifest.read(verdict.tree, strict=True)
    agrees(release, name=manifest.name, version=manifest.version, tree=verdict.tree.digest)


def _opened(place: str, fetcher_for: Callable[[str], Fetcher] | None) -> tuple[str, str | None, Fetcher]:
    """Return the base URL for requests, the URL at which the site is published, if known, and the fetcher."""
    if fetcher_for and "://" in place:
        return place.rstrip("/"), place.rstrip("/"), _EachFile(fetcher_for(place))
    registry = RegistryDir(place)
    return _FOLDER, registry.settings().url, _EachFile(FolderFetcher(registry.site, _FOLDER))


class _EachFile:
    """A fetcher without the metadata bundle for new clients, which would hide that a single file is bad."""

    def __init__(self, fetcher: Fetcher) -> None:
        self._fetcher = fetcher

    def get(self, url: str, *, cap: int, named_by: Requester = PERSON) -> Response:
        if url.endswith(f"/{METADATA_BUNDLE_PATH}"):
            raise NotFound("not asked for", where=url)
        return self._fetcher.get(url, cap=cap, named_by=named_by)


def _changed_since_build(place: str) -> Iterator[Issue]:
    """Compare the built files in an operator's folder with the record of the last build."""
    if "://" in place:
        return
    remedy = f"to make it again: {as_command('skillhub', 'registry', 'build', place)}"
    changed, added = changed_files(place, RegistryDir(place).site)
    for path in changed:
        yield Issue("wrong-bytes", f"it is not what the last build wrote; {remedy}", f"{_FOLDER}/{path}")
    for path in added:
        yield Issue("wrong-bytes", "no build wrote it, and only builds write there: remove it", f"{_FOLDER}/{path}")


def _issue(error: SkillhubError, where: str) -> Issue:
    return Issue(error.code, error.message, error.where or where)


# The shapes for other clients are unsigned: each is generated again from signed files, and compared.


def _name_in(path: str, served: bytes) -> str:
    """Return the name in a catalog, or an empty text; the rest of the catalog is not read."""
    try:
        return str(cast(Any, strict_json(served, path, _FILE_CAP))["name"])
    except (FormatError, LookupError, TypeError):
        return ""


def _url_in(catalog: bytes) -> str:
    """Return the URL in a catalog of npm packages at which the site is said to be, or an empty text."""
    try:
        plugins = cast(Any, strict_json(catalog, "the catalog", _FILE_CAP))["plugins"]
        return str(plugins[0]["source"]["registry"]).removesuffix(f"/{other_clients.NPM}/")
    except (FormatError, LookupError, TypeError):
        return ""


class _Shapes:
    """The comparison of a site's unsigned files with its signed ones."""

    def __init__(self, registry: TufRegistry, fetcher: Fetcher, url: str | None, folder: str) -> None:
        self._registry, self._fetcher, self._url, self._folder = registry, fetcher, url, folder
        self._documents: list[other_clients.ClientDocument] = []
        self._objects: set[str] = set()

    def problems(self, listing: Index) -> Iterator[Issue]:
        """Yield an issue for each file that differs; none for a site without shapes."""
        repository = (f"{other_clients.REPOSITORY}/{path}" for path in ("HEAD", "info/refs"))
        marked = (other_clients.OPENCODE, *other_clients.MARKETPLACES, other_clients.SEARCH, *repository)
        of_skills = (path for name in listing.names for path in other_clients.marks_of(name))
        if all(self._read(path) is None for path in chain(marked, of_skills)):
            return
        try:
            for release_and_tree in filter(None, map(other_clients.offered_tree, self._skills(listing))):
                self._documents.append(other_clients.document_of(*release_and_tree))
                self._objects |= set(other_clients.plugin_objects(*release_and_tree)[0])
            name, url = self._catalog_name_and_url()
            if url not in (None, self._url):
                build = as_command("skillhub", "registry", "build", self._folder, "--url", self._url or "URL")
                message = f"it sends other clients to {quote(url)}; if the site is not there: {build}"
                yield Issue("wrong-bytes", message, f"{self._registry.url}/{other_clients.MARKETPLACES[0]}")
            for skill in self._skills(listing):
                yield from self._differences(other_clients.skill_files(skill, url, self._package))
            yield from self._differences(other_clients.lists(self._documents, name, url))
            yield from self._repository(other_clients.plugin_catalogs(self._documents, name))
        except (SecurityError, FormatError) as error:
            yield _issue(error, self._registry.url)

    def _skills(self, listing: Index) -> Iterator[OfferedSkill]:
        """Yield each skill; none is kept, since the trees of all would not fit into memory."""
        registry, advisories = self._registry, advisory_index(self._registry.advisories())
        for name, releases in sorted(registry.release_index(listing.names).skills.items()):
            text = listing.skills[name][0].description
            described = tuple(replace(release, description=text) for release in releases)
            yield OfferedSkill(name, described, registry.artifact, advisories, registry.fingerprint)

    def _read(self, path: str) -> bytes | None:
        url = self._registry.url
        try:
            return self._fetcher.get(f"{url}/{path if url == _FOLDER else percent_encode(path)}", cap=_FILE_CAP).data
        except NotFound:
            return None

    def _catalog_name_and_url(self) -> tuple[str, str | None]:
        """Return the name and the URL in the site's catalogs.

        Catalogs may have the name of any publisher; the URL is None if the catalogs have none.
        """
        served = {path: self._read(path) or b"" for path in other_clients.MARKETPLACES}
        name = next(filter(self._is_publisher, starmap(_name_in, served.items())), "")
        catalog = served[other_clients.MARKETPLACES[0]]
        for url in (None, _url_in(catalog)):
            if json_bytes(other_clients.marketplace(self._documents, name, url)) == catalog:
                return name, url
        return name, self._url

    def _is_publisher(self, name: str) -> bool:
        return name in (self._registry.document(namespace_path(name), parse_namespaces) or {})

    def _differences(self, files: Iterable[tuple[str, bytes]]) -> Iterator[Issue]:
        for path, data in files:
            if self._read(path) != data:
                yield self._difference_issue(path)

    def _difference_issue(self, path: str) -> Issue:
        built = [as_word(f"{self._folder}/{name}") for name in ("outputs", "site/skills.git")]
        remedy = f"delete {' and '.join(built)}, then: {as_command('skillhub', 'registry', 'build', self._folder)}"
        message = f"the file differs from the signed release; to write it again, {remedy}"
        return Issue("wrong-bytes", message, f"{self._registry.url}/{path}")

    def _package(self, release: Release, tree: Tree) -> bytes:
        """Return the served package if it holds the release, deflated in any way; else a package of the release."""
        expected = packed_tar(other_clients.package_files(release, tree), compress=False)
        served = self._read(f"{other_clients.NPM}/{other_clients.tarball_path(release.name, release.version)}") or b""
        content, inflater, inflated = zlib.decompress(expected, 31), zlib.decompressobj(31), b""
        with suppress(zlib.error):
            inflated = inflater.decompress(served, len(content) + 1)
        return served if inflated == content and inflater.eof and not inflater.unused_data else expected

    def _repository(self, catalogs: Mapping[str, bytes]) -> Iterator[Issue]:
        repository = other_clients.StaticRepository(lambda path: self._read(f"{other_clients.REPOSITORY}/{path}"))
        top, root = other_clients.top_objects(self._documents, catalogs)
        packed_ids: set[str] = set()
        for name, index in repository.indexes.items():
            objects, expected = read_pack(repository.pack(name), name)
            packed_ids |= set(objects)
            if index != expected:
                yield self._difference_issue(f"{other_clients.REPOSITORY}/objects/pack/pack-{name}.idx")
        if not (self._objects | set(top)) <= packed_ids or repository.root() != root:
            yield self._difference_issue(other_clients.REPOSITORY)
        pointers = other_clients.pointers(repository.tip)
        yield from self._differences((f"{other_clients.REPOSITORY}/{path}", data) for path, data in pointers)
        for path in ("config", "packed-refs", "objects/info/alternates", "objects/info/http-alternates"):
            if self._read(f"{other_clients.REPOSITORY}/{path}") is not None:
                yield self._difference_issue(f"{other_clients.REPOSITORY}/{path}")

"""Verify a registry as a new client does: all metadata, and every release of every skill."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime

from skillhub.archive import unpack
from skillhub.disk.home import throwaway
from skillhub.errors import NotFound, SecurityError, SkillhubError, SourceError, UsageError
from skillhub.formats.text import as_command
from skillhub.install.sources import metadata_files
from skillhub.model.finding import Issue
from skillhub.model.index import LISTING_CAP, Admission, Index, Release, parse_listing
from skillhub.model.manifest import Manifest
from skillhub.model.reference import NO_SECRET, holds_secret
from skillhub.net.client import Http
from skillhub.net.fetch import Fetcher, FolderFetcher, Response
from skillhub.net.target import PERSON, Requester
from skillhub.registry.operator import RegistryDir
from skillhub.sources.history import ShownTime
from skillhub.sources.registry import TufRegistry, fetch_root
from skillhub.trust.metadata import AHEAD_PATH
from skillhub.trust.publishers import judge
from skillhub.trust.registry import agrees, publisher_of
from skillhub.trust.roles import CEREMONY_DAYS, RELEASES, ROLES, WELL_KNOWN, rule_of

ONLINE_DAYS = 1
_FOLDER = "folder:"


@dataclass(frozen=True, slots=True)
class Checked:
    """What a client would stumble over, and where that is nothing, what waits for the operator.

    Attributes:
        warnings: For each role that expires soon: offline ones early, online ones at the last day.
    """

    problems: tuple[Issue, ...]
    warnings: tuple[Issue, ...] = ()


def check(place: str, now: datetime, time: ShownTime | None = None) -> Checked:
    """Look at everything that a registry offers; it is sound if there is no problem.

    Args:
        place: The operator's folder, or the URL of a registry, whose own first root is believed.
        now: The time at which signers' certificates must be valid.
        time: By what the expiry of metadata is judged; None for the machine's clock alone.

    Raises:
        SourceError: the folder is no registry, or the server cannot be reached, so that nobody knows how it is.
        StateError: the disk refuses.
    """
    if "://" in place and holds_secret(place):
        raise UsageError("expected the URL of a registry without password or another credential", hint=NO_SECRET)
    with _opened(place) as (url, fetcher), throwaway() as folder:
        found = _problems(url, fetcher, folder, now, time)
        problems = tuple(replace(each, where=_shown(each.where, place)) for each in found)
        return Checked(problems, () if problems else tuple(_aging(folder, now)))


def _shown(where: str, place: str) -> str:
    """Return where a person finds it: a file of the operator's folder by its path there."""
    if not where.startswith(_FOLDER):
        return where
    path = where.removeprefix(_FOLDER).lstrip("/")
    return os.path.join(RegistryDir(place).site, *path.split("/")) if path else place


def _problems(url: str, fetcher: Fetcher, folder: str, now: datetime, time: ShownTime | None) -> Iterator[Issue]:
    try:
        registry = TufRegistry.open(url, fetch_root(url, fetcher), fetcher, folder, time)
        registry.advisories()
        listing = registry.listing()
        where = f"{url}/{WELL_KNOWN}/index.json"
        public = parse_listing(fetcher.get(where, cap=LISTING_CAP).data, where)
    except SkillhubError as error:
        if isinstance(error, SourceError) and not isinstance(error, NotFound):
            raise
        yield _issue(error, url)
        return
    if public != listing:
        yield Issue("wrong-bytes", "the public index differs from the signed one", where)
        return
    for name in listing.names:
        yield from _skill(registry, name, now)
    yield from _unlisted(registry, listing, now)


def _aging(folder: str, now: datetime) -> Iterator[Issue]:
    """Yield a warning for each role of which the client's folder has a document that is to be signed anew."""
    kept = sorted(name.removesuffix(".json") for name in os.listdir(folder))
    # The client keeps other things there as well.
    roles = [role for role in kept if role in ROLES or role.startswith(f"{RELEASES}-")]
    for each in metadata_files(folder, roles):
        online = rule_of(each.role).online
        if each.expires_within(ONLINE_DAYS if online else CEREMONY_DAYS, now):
            refresh = as_command("skillhub", "registry", "refresh", *(() if online else ("--role", each.role)))
            remedy = f"{refresh}, daily" if online else refresh
            message = f"the document of {each.role} expires {each.expires}: {remedy}"
            yield Issue("expires-soon", message, each.role)


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
            continue  # Nobody fetches it; its archive may be gone.
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


@contextmanager
def _opened(place: str) -> Iterator[tuple[str, Fetcher]]:
    if "://" in place:
        with Http() as http:
            yield place.rstrip("/"), _EachFile(http)
    else:
        registry = RegistryDir(place)
        registry.settings()
        yield _FOLDER, _EachFile(FolderFetcher(registry.site, _FOLDER))


class _EachFile:
    """A fetcher that reads nothing ahead: what is packed for new clients would hide that the file itself is bad."""

    def __init__(self, fetcher: Fetcher) -> None:
        self._fetcher = fetcher

    def get(self, url: str, *, cap: int, named_by: Requester = PERSON) -> Response:
        if url.endswith(f"/{AHEAD_PATH}"):
            raise NotFound("not asked for", where=url)
        return self._fetcher.get(url, cap=cap, named_by=named_by)


def _issue(error: SkillhubError, where: str) -> Issue:
    return Issue(error.code, error.message, error.where or where)

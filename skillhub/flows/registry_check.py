"""Check a registry as a client that meets it for the first time, but for every skill and every version."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from skillhub.archive import unpack
from skillhub.errors import NotFound, SecurityError, SkillhubError
from skillhub.flows.registry_refresh import CEREMONY_DAYS
from skillhub.model.dataclass import replace
from skillhub.model.finding import Issue
from skillhub.model.index import LISTING_CAP, parse_listing
from skillhub.model.manifest import Manifest
from skillhub.model.release import Admission, Index, Release
from skillhub.trust.ahead import AHEAD_PATH
from skillhub.trust.judgement import judge
from skillhub.trust.registry import agrees, publisher_of
from skillhub.trust.roles import RELEASES, ROLES, WELL_KNOWN, rule_of
from skillhub.trust.root_view import view_expiry
from skillhub.world import files
from skillhub.world.embedded import FolderFetcher
from skillhub.world.fetch import Answer, Fetcher
from skillhub.world.http import Http
from skillhub.world.registry_dir import RegistryDir
from skillhub.world.throwaway import throwaway
from skillhub.world.tuf_client import Registry, fetch_root

ONLINE_DAYS = 1
_FOLDER = "folder:"


def check(place: str, now: datetime) -> tuple[Issue, ...]:
    """Return everything that a client would stumble over; empty if the registry is sound.

    Args:
        place: The operator's folder, or the URL of a registry, whose own first root is believed.
        now: The time at which signers' certificates must be valid.

    Raises:
        SourceError: there is no registry.
        StateError: the disk refuses.
    """
    return tuple(replace(each, where=_shown(each.where, place)) for each in _checked(place, now))


def _shown(where: str, place: str) -> str:
    """Return where a person finds it: a file of the operator's folder by its path there."""
    if not where.startswith(_FOLDER):
        return where
    path = where.removeprefix(_FOLDER).lstrip("/")
    return os.path.join(RegistryDir(place).site, *path.split("/")) if path else place


def _checked(place: str, now: datetime) -> tuple[Issue, ...]:
    with _opened(place) as (url, fetcher), throwaway() as folder:
        try:
            registry = Registry.open(url, fetch_root(url, fetcher), fetcher, folder)
            listing = registry.listing()
            where = f"{url}/{WELL_KNOWN}/index.json"
            if parse_listing(fetcher.get(where, cap=LISTING_CAP).data, where) != listing:
                return (Issue("wrong-bytes", "the public index is not the signed one", where),)
        except SkillhubError as error:
            return (_issue(error, place),)
        listed = [issue for name in listing.names for issue in _skill(registry, name, now)]
        return (*listed, *_unlisted(registry, listing, now))


def aging(place: str, now: datetime) -> tuple[Issue, ...]:
    """Return a warning for each role that waits for its operator: offline ones early, online ones at the last day.

    A registry that ``check`` finds unsound as a whole has none. Takes and raises what ``check`` does.
    """
    with _opened(place) as (url, fetcher), throwaway() as folder:
        try:
            registry = Registry.open(url, fetch_root(url, fetcher), fetcher, folder)
            registry.listing()
            registry.offers()
        except SkillhubError:
            return ()
        found = (_aged(os.path.join(folder, name), now) for name in sorted(os.listdir(folder)))
        return tuple(issue for issue in found if issue)


def _aged(path: str, now: datetime) -> Issue | None:
    """Return a warning about one document that the client keeps; its folder holds other things too."""
    role, suffix = os.path.splitext(os.path.basename(path))
    if suffix != ".json" or not (role in ROLES or role.startswith(f"{RELEASES}-")):
        return None
    # The client keeps every root it walked through and links to the last one.
    data = files.read(os.path.realpath(path), LISTING_CAP)
    expires = view_expiry(data or b"", role)[1]
    online = rule_of(role).online
    if datetime.fromisoformat(expires) - now > timedelta(days=ONLINE_DAYS if online else CEREMONY_DAYS):
        return None
    remedy = "skillhub registry refresh, daily" if online else f"skillhub registry refresh --role {role}"
    return Issue("expires-soon", f"what {role} has signed expires {expires}: {remedy}", role)


def _unlisted(registry: Registry, listing: Index, now: datetime) -> Iterator[Issue]:
    try:
        offered = registry.offers().names
    except SkillhubError as error:
        yield _issue(error, registry.url)
        return
    for name in offered:
        if name not in listing.skills:
            yield Issue("not-listed", "it has releases, and the listing does not show it", name)
            yield from _skill(registry, name, now)


def _skill(registry: Registry, name: str, now: datetime) -> Iterator[Issue]:
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


def _release(registry: Registry, release: Release, admission: Admission, now: datetime) -> None:
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

    def get(self, url: str, *, cap: int, named_by: str | None = None) -> Answer:
        if url.endswith(f"/{AHEAD_PATH}"):
            raise NotFound("not asked for", where=url)
        return self._fetcher.get(url, cap=cap, named_by=named_by)


def _issue(error: SkillhubError, where: str) -> Issue:
    return Issue(error.code, error.message, error.where or where)

"""Downloads: at most once a command, cached by SHA-256; and the memory of which sites offered digests before."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from typing import Annotated, ClassVar

from skillhub.archive.limits import Limits
from skillhub.disk import files
from skillhub.disk.state_file import StateDocument, StateFile
from skillhub.errors import FormatError, SourceError, StateError, TrustDowngrade, WrongBytes
from skillhub.formats.digest import Digest
from skillhub.formats.document import Items, Members, Sha256, integer, part
from skillhub.model.reference import holds_secret
from skillhub.net.fetch import OFFLINE, Requester, RequestOptions, Response, Web, whole

# The cache of fetched bytes, by SHA-256. It is not trusted: bytes are hashed again when they are read. It is safe to
# delete at any time and to share with other processes, and a full or read-only disk is no failure.

_TYPE_MAX = 256  # bytes of the line with the media type


class DownloadCache:
    """A folder of files, each named by the digest of its bytes, which follow a line with the media type.

    Nothing verifies the media type.

    Args:
        folder: The folder.
        fixed: Whether the cache is read-only.
    """

    def __init__(self, folder: str, *, fixed: bool = False) -> None:
        self._folder, self._fixed = folder, fixed

    def get(self, digest: Digest, url: str, limit: int) -> Response | None:
        """Return the bytes with this digest as an answer of ``url``; None if the cache has none up to ``limit``."""
        with suppress(FormatError, StateError):
            if (found := files.read(self._path(digest), limit + _TYPE_MAX + 1)) is None:
                return None
            content_type, _, data = found.partition(b"\n")
            if Digest.of(data) == digest:
                return Response(url, data, content_type.decode("latin-1")) if len(data) <= limit else None
            # A file that a power failure cut off, or that another party wrote, is removed and fetched again.
            with suppress(OSError):
                if not self._fixed:
                    os.unlink(self._path(digest))
        return None

    def put(self, digest: Digest, answer: Response) -> None:
        """Keep the bytes of an answer, which have this digest, unless the disk refuses."""
        if self._fixed:
            return
        content_type = answer.content_type.encode("latin-1", "replace").replace(b"\n", b" ")[:_TYPE_MAX]
        with suppress(StateError):
            files.write_atomic(self._path(digest), content_type + b"\n" + answer.data, mode=0o600, sync=False)

    def _path(self, digest: Digest) -> str:
        return os.path.join(self._folder, digest.hex[:2], digest.hex)


# The memory of sites, in ``<state>``: those that have offered digests, so that an index without digests is refused.

_HINT = "restore the file; without it skillhub cannot tell whether a site offered digests before"
_COPIES_MAX = 1000


@part
@dataclass(frozen=True, slots=True)
class Copy:
    """A fetched document whose bytes are in the cache: its digest and the validators of its server.

    Attributes:
        url: The URL after all redirects.
        fresh_until: The time until which the server allows use without a request, in seconds since the epoch.
    """

    NEEDED: ClassVar = ("etag", "modified", "fresh_until")

    url: str
    digest: Sha256
    etag: str = ""
    modified: str = ""
    fresh_until: Annotated[int, integer("a number of seconds")] = 0


class SitesFile(StateDocument):
    """``sites.json``: the sites that have offered digests, and ``copies`` by the requested URL, newest last.

    Attributes:
        sites: Each site by its origin and path.
    """

    copies: Members[str, Copy]
    sites: Items[str]


def _without_secrets(document: SitesFile | None) -> SitesFile:
    if document is None:
        return SitesFile(version=1, copies={}, sites=())
    # A URL with a credential that another program wrote is gone with the next write.
    kept = {url: copy for url, copy in document.copies.items() if not (holds_secret(url) or holds_secret(copy.url))}
    return document.model_copy(update={"copies": kept})


class SiteMemory:
    """The memory of sites: a small file, written only when an entry changes.

    Args:
        state: The folder of the file.
        remember: Whether to write changes; without it they are for this command alone.
    """

    def __init__(self, state: str, *, remember: bool = True) -> None:
        path = os.path.join(state, "sites.json")
        self._file = StateFile(path, "the sites that offered digests", _HINT, SitesFile, _without_secrets)
        self._remember = remember
        self._learned: SitesFile | None = None

    def copy(self, url: str) -> Copy | None:
        """Return the copy of the document at ``url``; None if there is none."""
        return self._read().copies.get(url)

    def keep(self, url: str, copy: Copy | None) -> None:
        """Remember the copy of the document at ``url``, or forget it for None or a URL that holds a credential.

        Raises:
            StateError: the disk refuses.
        """
        if holds_secret(url) or (copy and holds_secret(copy.url)):
            copy = None
        if self.copy(url) != copy:
            self._change(lambda known: {"copies": _put(known.copies, url, copy)})

    def promised(self, site: str) -> None:
        """Remember that this site, an origin and a path with a slash, offers digests.

        Raises:
            StateError: the disk refuses.
        """
        if site not in self._read().sites:
            self._change(lambda known: {"sites": tuple(dict.fromkeys((*known.sites, site)))})

    def refuse_weaker(self, sites: Iterable[str], where: str) -> None:
        """Raise if one of these sites, which now offer no digests, offered them before.

        Raises:
            TrustDowngrade: a site offered digests before.
        """
        known = self._read()
        for site in sites:
            if site in known.sites:
                message = f"expected skills with digests, as {site} offered them before, found them without"
                raise TrustDowngrade(message, where=where, hint="the index may have been replaced; ask its operator")

    def _read(self) -> SitesFile:
        return self._learned or self._file.read()

    def _change(self, change: Callable[[SitesFile], Mapping[str, object]]) -> None:
        if not self._remember:
            self._learned = self._read().model_copy(update=change(self._read()))
            return
        with self._file.locked():
            known = self._read()
            self._file.write(**dict(known.model_copy(update=change(known))))


def _put(copies: Mapping[str, Copy], url: str, copy: Copy | None) -> dict[str, Copy]:
    kept = {each: row for each, row in copies.items() if each != url} | ({url: copy} if copy else {})
    return dict(list(kept.items())[-_COPIES_MAX:])


# Downloads: each URL is fetched once a command, and not at all while the cached bytes can be verified.

ARTIFACT_CAP = Limits().stream
_FRESH_MAX = 300  # seconds; a server that allows a year would hide every update for a year
_VALIDATORS_MAX = 4096  # the bytes of a URL and its validators that are remembered


class Downloads:
    """Documents and artifacts from the network or from the cache; many threads may fetch artifacts.

    Args:
        web: Sends the requests; None for ``--offline``, which serves only cached bytes that can be verified.
        cache: The cache of fetched bytes.
        seen: The memory of sites, with the digests of cached documents.
        clock: Returns the seconds since the epoch.
    """

    def __init__(
        self, web: Web | None, cache: DownloadCache, seen: SiteMemory, clock: Callable[[], float] = time.time
    ) -> None:
        self._web, self._cache = web, cache
        self.seen, self._clock = seen, clock
        self._read: dict[str, Response] = {}

    def document(self, url: str, *, cap: int) -> Response:
        """Return the document at ``url``, which a person named, and which no digest pins.

        As in RFC 9111, a fresh copy (for at most five minutes) needs no request, and an older one is validated.

        Raises:
            NotFound, SourceError, WrongBytes, UnsafeTransfer: as for ``Fetcher.get``.
            StateError: the disk refuses.
        """
        if url not in self._read:
            self._read[url] = self._document(url, cap)
        return self._read[url]

    def artifact(self, url: str, digest: Digest, *, named_by: Requester) -> Response:
        """Return the bytes with this digest, from the cache or from ``url``.

        Raises:
            WrongBytes: the bytes have another digest, or are more than an archive may have.
            NotFound, SourceError, UnsafeTransfer: as for ``Fetcher.get``.
        """
        read = self._read.get(url)
        if read and Digest.of(read.data) == digest:
            self._cache.put(digest, read)
            return read
        cached = self._cache.get(digest, url, ARTIFACT_CAP)
        if cached is not None:
            return cached
        answer = self.unpinned(url, cap=ARTIFACT_CAP, named_by=named_by)
        found = Digest.of(answer.data)
        if found != digest:
            raise WrongBytes(f"expected {digest}, found {found}", where=url)
        self._cache.put(digest, answer)
        return answer

    def unpinned(self, url: str, *, cap: int, named_by: Requester) -> Response:
        """Return the answer of ``url``, which no digest pins; it is neither read from the cache nor kept.

        Raises:
            NotFound, SourceError, WrongBytes, UnsafeTransfer: as for ``Fetcher.get``.
        """
        if self._web is None:
            raise SourceError(OFFLINE, where=url)
        return self._web.get(url, cap=cap, named_by=named_by)

    def doubt(self) -> None:
        """Forget the copies of this command's documents, one of which was wrong: the next command fetches them."""
        for url in list(self._read):
            self.seen.keep(url, None)

    def _document(self, url: str, cap: int) -> Response:
        copy = self.seen.copy(url)
        cached = self._cache.get(copy.digest, copy.url, cap) if copy else None
        if self._web is None:
            if cached is None:
                raise SourceError(OFFLINE, where=url)
            return cached
        # A later ``fresh_until`` than the maximum means that the clock was set back.
        if copy and cached and 0 < copy.fresh_until - self._clock() <= _FRESH_MAX:
            return cached
        known = copy if cached else None
        # RFC 9110, 13.1; empty fields are not sent.
        validators = {"If-None-Match": known.etag, "If-Modified-Since": known.modified} if known else {}
        answer = self._web.ask(url, cap=cap, options=RequestOptions(headers=validators))
        if known and cached and answer.status == 304 and answer.url == known.url:
            answer = replace(cached, headers={"etag": known.etag, "last-modified": known.modified, **answer.headers})
        elif answer.status == 304:
            # The redirect leads elsewhere now, and the copy is not of that document.
            answer = self._web.ask(url, cap=cap)
        self._keep(url, whole(answer))
        return answer

    def _keep(self, url: str, answer: Response) -> None:
        parts = (part.strip().lower().partition("=") for part in answer.headers.get("cache-control", "").split(","))
        directives = {name: value.strip('"') for name, _, value in parts if name}
        etag, modified = answer.headers.get("etag", ""), answer.headers.get("last-modified", "")
        lifetime = _lifetime(answer, directives, self._clock())
        fresh_until = int(self._clock() + lifetime) if lifetime else 0
        is_too_long = len(etag + modified + answer.url) > _VALIDATORS_MAX
        if "no-store" in directives or is_too_long or not (etag or modified or fresh_until):
            self.seen.keep(url, None)
            return
        copy = Copy(answer.url, Digest.of(answer.data), etag, modified, fresh_until)
        self._cache.put(copy.digest, answer)
        self.seen.keep(url, copy)


def _lifetime(answer: Response, directives: dict[str, str], now: float) -> float:
    """Return the seconds for which the answer stays fresh (RFC 9111, 4.2), five minutes at most."""
    if "no-cache" in directives:
        return 0
    left = 0.0
    if "max-age" in directives:
        left = _number(directives["max-age"]) - _number(answer.headers.get("age", ""))
    else:
        with suppress(KeyError, ValueError, OverflowError):
            left = parsedate_to_datetime(answer.headers["expires"]).timestamp() - now
    return max(0, min(_FRESH_MAX, left))


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 12 else 0

"""Downloads: each thing once for a command, and not again while what is here can be proved."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from email.utils import parsedate_to_datetime

from skillhub.archive import Limits
from skillhub.errors import SourceError, WrongBytes
from skillhub.model.digest import Digest
from skillhub.world.cache import Cache
from skillhub.world.fetch import Answer, Web, whole
from skillhub.world.requester import Requester
from skillhub.world.site_seen import Copy, Seen

ARTIFACT_CAP = Limits().stream
_FRESH_MAX = 300  # seconds; a host that lets everything be kept for a year would hide each update for as long
_SAID_MAX = 4096  # of what a server has us remember of one document
_OFFLINE = "--offline keeps this command from the network"


class Downloads:
    """Documents and artifacts from the network or from the cache; artifacts by many threads at once.

    Args:
        web: Who asks; None for ``--offline``, where only what can be proved again is served.
        cache: Bytes that were fetched before.
        seen: What proves the documents among them.
        clock: Seconds since the epoch.
    """

    def __init__(
        self, web: Web | None, cache: Cache, seen: Seen, clock: Callable[[], float] = time.time
    ) -> None:
        self._web = web
        self._cache = cache
        self.seen = seen
        self._clock = clock
        self._read: dict[str, Answer] = {}

    def document(self, url: str, *, cap: int) -> Answer:
        """Return what is at ``url``, which a person named, and whose content nothing pins.

        As RFC 9111 has it: while the server said that it stays the same (five minutes at most) it is not asked, then
        it is asked whether it still does.

        Raises:
            NotFound, SourceError, WrongBytes, UnsafeTransfer: as ``Fetcher.get`` does.
            StateError: the disk refuses.
        """
        if url not in self._read:
            self._read[url] = self._document(url, cap)
        return self._read[url]

    def artifact(self, url: str, digest: Digest, *, named_by: Requester) -> Answer:
        """Return the bytes of this digest, from the cache or from ``url``.

        Raises:
            WrongBytes: they have another digest, or are more than any archive has.
            NotFound, SourceError, UnsafeTransfer: as ``Fetcher.get`` does.
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

    def unpinned(self, url: str, *, cap: int, named_by: Requester) -> Answer:
        """Return what is at ``url``, of which nothing is known and nothing is kept.

        Raises:
            NotFound, SourceError, WrongBytes, UnsafeTransfer: as ``Fetcher.get`` does.
        """
        if self._web is None:
            raise SourceError(_OFFLINE, where=url)
        return self._web.get(url, cap=cap, named_by=named_by)

    def doubt(self) -> None:
        """Ask for each document of this command anew next time, for what one of them says proved wrong."""
        for url in list(self._read):
            self.seen.keep(url, None)

    def _document(self, url: str, cap: int) -> Answer:
        held, fresh_until = self._held(url, cap)
        if self._web is None:
            if held is None:
                raise SourceError(_OFFLINE, where=url)
            return held
        # Further ahead than we ever look, a clock was set back.
        if held and 0 < fresh_until - self._clock() <= _FRESH_MAX:
            return held
        answer = self._web.ask(url, cap=cap, headers=_conditions(held) if held else None)
        if held and answer.status == 304 and answer.url == held.url:
            answer = replace(held, headers={**held.headers, **answer.headers})
        elif answer.status == 304:
            # Of something else, behind a redirect that now leads there: nothing here is known to be that.
            answer = self._web.ask(url, cap=cap)
        self._keep(url, whole(answer))
        return answer

    def _held(self, url: str, cap: int) -> tuple[Answer | None, int]:
        """Return the document that is here, its bytes proved by what was seen, and until when it counts as fresh."""
        copy = self.seen.copy(url)
        cached = self._cache.get(copy.digest, copy.url, cap) if copy else None
        if copy is None or cached is None:
            return None, 0
        return replace(cached, headers={"etag": copy.etag, "last-modified": copy.modified}), copy.fresh_until

    def _keep(self, url: str, answer: Answer) -> None:
        said = _directives(answer.headers.get("cache-control", ""))
        etag, modified = answer.headers.get("etag", ""), answer.headers.get("last-modified", "")
        lifetime = _lifetime(answer, said, self._clock())
        fresh_until = int(self._clock() + lifetime) if lifetime else 0
        if (
            "no-store" in said
            or not (etag or modified or fresh_until)
            or len(etag + modified + answer.url) > _SAID_MAX
        ):
            self.seen.keep(url, None)
            return
        copy = Copy(answer.url, Digest.of(answer.data), etag, modified, fresh_until)
        self._cache.put(copy.digest, answer)
        self.seen.keep(url, copy)


def _conditions(held: Answer) -> dict[str, str]:
    """Return the fields that ask for a document only if it is another by now (RFC 9110, 13.1)."""
    given = {"If-None-Match": held.headers["etag"], "If-Modified-Since": held.headers["last-modified"]}
    return {name: value for name, value in given.items() if value}


def _directives(cache_control: str) -> dict[str, str]:
    parts = (part.strip().lower().partition("=") for part in cache_control.split(","))
    return {name: value.strip('"') for name, _, value in parts if name}


def _lifetime(answer: Answer, said: dict[str, str], now: float) -> float:
    """Return for how many seconds the server vouches for its answer (RFC 9111, 4.2), five minutes at most."""
    if "no-cache" in said:
        return 0
    age = _number(answer.headers.get("age", ""))
    if "max-age" in said:
        return max(0, min(_FRESH_MAX, _number(said["max-age"]) - age))
    try:
        left = parsedate_to_datetime(answer.headers["expires"]).timestamp() - now
    except (KeyError, ValueError, OverflowError):
        return 0
    return max(0, min(_FRESH_MAX, left))


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 12 else 0

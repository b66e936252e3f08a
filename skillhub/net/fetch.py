"""The interface for fetching bytes: a request, its answer, who named the URL; and a folder in place of a server."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

from skillhub.errors import NotFound, RateLimited, SourceError, StateError, UnsafeTransfer, WrongBytes
from skillhub.formats.text import quote
from skillhub.model.reference import errors_masked

_ABSENT = frozenset({403, 404, 410})
Headers = Mapping[str, str]
# Called with the number of bytes that have arrived, on any thread; with zero once a wait takes ``LONG_WAIT`` seconds.
Arrived = Callable[[int], None]
LONG_WAIT: Final = 1.0
OFFLINE: Final = "--offline forbids the network, which this command needs"


def unheard(count: int) -> None:
    """Ignore the number of bytes."""


# Who named an address: ``skillhub.net.target`` decides by it which hosts the address may reach.

Who = Literal["person", "site", "redirect", "marketplace", "repository"]


@dataclass(frozen=True, slots=True)
class Requester:
    """The party that named an address.

    Attributes:
        who: A person, in a command or in their configuration; a site, index or registry that a person named; a
            redirect from an address that a person named; a marketplace of a repository that a person named; or a
            repository (its lock, its intent) and the places it leads to, to which the user has not agreed.
        site: The URL of the place whose document named the address; empty for the address of a place itself.
    """

    who: Who
    site: str = ""


PERSON: Final = Requester("person")


def by_agreement(is_agreed: bool) -> Who:
    """Return who named an address in a lock or an intent: a person, if the user agreed to it, else the repository."""
    return "person" if is_agreed else "repository"


@dataclass(frozen=True, slots=True)
class Response:
    """An answer: its whole body, and its URL after all redirects.

    Attributes:
        headers: The header fields, with names in lower case.
    """

    url: str
    data: bytes
    content_type: str = ""
    status: int = 200
    headers: Headers = field(default_factory=dict)

    @property
    def media_type(self) -> str:
        """The media type without its parameters, in lower case."""
        return self.content_type.partition(";")[0].strip().lower()


class Fetcher(Protocol):
    """Fetches bytes; safe for many threads."""

    def get(self, url: str, *, cap: int, named_by: Requester = PERSON) -> Response:
        """Return the answer of ``url``.

        Args:
            url: The absolute URL.
            cap: The limit on the bytes of the body.
            named_by: Who named ``url``, which decides the hosts that it may reach and whether credentials are sent.

        Raises:
            NotFound: there is no such file (404, 410), or access is denied (403).
            SourceError: the server cannot be reached, breaks off the answer or is too slow.
            WrongBytes: the body is longer than ``cap``.
            UnsafeTransfer: the URL or a redirect may not be followed, or the answer does not fit the request.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOptions:
    """The parts of a request besides its URL.

    Attributes:
        named_by: Who named the URL, as for ``Fetcher.get``.
        headers: Header fields. ``Authorization`` is sent to the origin of the URL alone; an empty one keeps the
            client from adding the user's credentials.
        body: The body of a POST, sent to that origin alone. A retry may send it again, so the request must be
            idempotent.
    """

    named_by: Requester = PERSON
    headers: Headers = field(default_factory=dict)
    body: bytes | None = None


PLAIN = RequestOptions()


class Web(Fetcher, Protocol):
    """A ``Fetcher`` over HTTP, for callers that need header fields and the status of an answer."""

    def get(self, url: str, *, cap: int, named_by: Requester = PERSON) -> Response:
        """Return the answer of ``url``, as ``Fetcher.get`` promises.

        Raises:
            NotFound, SourceError, WrongBytes, UnsafeTransfer: as for ``Fetcher.get``.
        """
        return whole(self.ask(url, cap=cap, options=RequestOptions(named_by=named_by)))

    def ask(self, url: str, *, cap: int, options: RequestOptions = PLAIN) -> Response:
        """Return the server's answer with any status, after redirects and retries.

        Args:
            url: The absolute URL.
            cap: The limit on the bytes of the body; the body of an error may be cut.
            options: Who named ``url``, the header fields and the body.

        Raises:
            SourceError, WrongBytes, UnsafeTransfer: as for ``get``, but not for the status.
        """


class FolderFetcher:
    """A ``Fetcher`` that reads the files of one site from a folder.

    Args:
        path: The folder; links in it are followed, so it must be trusted.
        base: The base URL of the files, before ``/``.
    """

    def __init__(self, path: str, base: str) -> None:
        self._path = path
        self._base = base.rstrip("/")

    def get(self, url: str, *, cap: int, named_by: Requester = PERSON) -> Response:
        """Return the file that ``url`` names below the base, as ``Fetcher.get`` promises.

        Raises:
            NotFound: there is no such file.
            WrongBytes: the file is longer than ``cap``.
            UnsafeTransfer: the URL is not below the base, or has an unsafe segment.
            StateError: the disk refuses.
        """
        base, _, path = url.partition(self._base + "/")
        segments = path.split("/")
        if base or not path or any(part in ("", ".", "..") or "\\" in part or "\0" in part for part in segments):
            raise UnsafeTransfer(f"expected a file of {self._base}, found {quote(url)}")
        try:
            with open(os.path.join(self._path, *segments), "rb") as file:
                data = file.read(min(cap, os.fstat(file.fileno()).st_size) + 1)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
            raise NotFound("there is no such file", where=url) from error
        except OSError as error:
            raise StateError(f"the disk refuses: {error.strerror}", where=url) from error
        if len(data) > cap:
            raise WrongBytes(f"expected at most {cap} bytes, found more", where=url)
        return Response(url, data)


@errors_masked()
def whole(answer: Response) -> Response:
    """Return an answer with status 200; raise for any other.

    Raises:
        NotFound: there is no such file (404, 410), or access is denied (403).
        RateLimited: the server accepts no more requests for a while.
        SourceError: the answer has any other status than 200.
    """
    if answer.status == 200:
        return answer
    message = f"the server answered {answer.status}"
    if is_limited(answer.status, answer.headers):
        raise RateLimited(f"too many requests: {message}", where=answer.url, resets=_resets(answer.headers))
    if answer.status in _ABSENT:
        raise NotFound(f"not found: {message}", where=answer.url)
    hint = None
    if answer.status == 401:
        hint = "it needs a login: set a token for this host in config.toml, or list the host in your netrc"
    raise SourceError(f"cannot fetch it: {message}", where=answer.url, hint=hint)


def is_limited(status: int, headers: Headers) -> bool:
    """Return whether a server refuses a request because of a rate limit, which a retry would only exceed further."""
    return status in (403, 429) and ("retry-after" in headers or headers.get("x-ratelimit-remaining") == "0")


def _resets(headers: Headers) -> int | None:
    """Return the time in ``Retry-After`` (RFC 9110, seconds alone) or ``X-RateLimit-Reset``; None without either."""
    pause, moment = headers.get("retry-after", ""), headers.get("x-ratelimit-reset", "")
    if pause.isdecimal() and len(pause) < 10:
        return int(time.time()) + int(pause)
    return int(moment) if moment.isdecimal() and len(moment) < 12 else None

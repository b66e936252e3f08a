"""How bytes from elsewhere come in: the interface, and clients for mirrors, trusted hosts and untrusted URLs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol
from urllib.parse import unquote

from skillhub.disk import files
from skillhub.errors import (
    FormatError,
    LinkLeavesProject,
    NotFound,
    RateLimited,
    SourceError,
    StateError,
    UnsafeTransfer,
    WrongBytes,
)
from skillhub.formats.text import as_command, is_inner_path, quote
from skillhub.model.reference import errors_masked
from skillhub.net.settings import Settings, base_of
from skillhub.net.target import PERSON, Requester, RequestTarget

_ABSENT = frozenset({403, 404, 410})
Headers = Mapping[str, str]
Arrived = Callable[[int], None]  # is told how many bytes came, on whatever thread they did


def unheard(count: int) -> None:
    """Tell nobody how many bytes came."""


@dataclass(frozen=True, slots=True)
class Response:
    """What a fetch brought: the whole body, and the URL it came from after all redirects.

    Attributes:
        headers: The fields of the answer, their names in lower case.
    """

    url: str
    data: bytes
    content_type: str = ""
    status: int = 200
    headers: Headers = field(default_factory=dict)


class Fetcher(Protocol):
    """Gets bytes; usable by many threads at once."""

    def get(self, url: str, *, cap: int, named_by: Requester = PERSON) -> Response:
        """Return what is at ``url``.

        Args:
            url: Absolute.
            cap: The bytes that the body may have at most.
            named_by: Who named ``url``, which decides where it may lead and who is told who asks.

        Raises:
            NotFound: there is nothing (404, 410), or nothing for us (403).
            SourceError: it cannot be reached, breaks off or is too slow.
            WrongBytes: the body is longer than ``cap``.
            UnsafeTransfer: it leads where it may not, or answers what was not asked.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOptions:
    """What a request says besides its URL.

    Attributes:
        named_by: Who named the URL, as for ``Fetcher.get``.
        headers: Fields to send: ``Authorization`` goes to the origin of the URL and no further, and an empty one says
            that nobody is told who asks.
        body: What to send by POST: it goes to that origin alone, and maybe more than once, for it changes nothing
            there.
    """

    named_by: Requester = PERSON
    headers: Headers = field(default_factory=dict)
    body: bytes | None = None


PLAIN = RequestOptions()


class Web(Fetcher, Protocol):
    """A ``Fetcher`` that speaks HTTP, for those who do too: conditional requests, challenges, limits."""

    def get(self, url: str, *, cap: int, named_by: Requester = PERSON) -> Response:
        """Return what is at ``url``, as ``Fetcher.get`` promises.

        Raises:
            NotFound, SourceError, WrongBytes, UnsafeTransfer: see there.
        """
        return whole(self.ask(url, cap=cap, options=RequestOptions(named_by=named_by)))

    def ask(self, url: str, *, cap: int, options: RequestOptions = PLAIN) -> Response:
        """Return what the server answers, whatever its status, once redirects and retries are done.

        Args:
            url: Absolute.
            cap: The bytes that the body may have at most; the body of an error may be cut.
            options: Who named ``url``, and what is sent.

        Raises:
            SourceError, WrongBytes, UnsafeTransfer: as for ``get``, but for the status.
        """
        ...


class FolderFetcher:
    """A ``Fetcher`` of the files of one site, read from a folder.

    Args:
        path: The folder, in which all links have been made by its owner.
        base: What the URLs of its files begin with, before ``/``.
    """

    def __init__(self, path: str, base: str) -> None:
        self._path = path
        self._base = base.rstrip("/")

    def get(self, url: str, *, cap: int, named_by: Requester = PERSON) -> Response:
        """Return the file that ``url`` names below the base, as ``Fetcher.get`` promises.

        Raises:
            NotFound: there is no such file.
            WrongBytes: it is longer than ``cap``.
            UnsafeTransfer: the URL is of another site, or has a segment that is none.
            StateError: the disk refuses.
        """
        base, _, path = url.partition(self._base + "/")
        segments = path.split("/")
        if base or not path or any(part in ("", ".", "..") or "\\" in part or "\0" in part for part in segments):
            raise UnsafeTransfer(f"expected a file of {self._base}, found {quote(url)}")
        try:
            with open(os.path.join(self._path, *segments), "rb") as file:
                data = file.read(cap + 1)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
            raise NotFound("there is no such file", where=url) from error
        except OSError as error:
            raise StateError(f"the disk refuses: {error.strerror}", where=url) from error
        if len(data) > cap:
            raise WrongBytes(f"expected at most {cap} bytes, found more", where=url)
        return Response(url, data)


class UntrustedClient(Web):
    """A ``Web`` for a place that only a repository names, and no person; so does whatever is asked for there.

    Args:
        web: The client that asks.
        place: What a person would give to ``install``, for the hint.
        hint: How a person names the place themselves, where it is not by that.
    """

    def __init__(self, web: Web, place: str, hint: str | None = None) -> None:
        self._web = web
        self._hint = hint or f"only this repository names it; to use it: {as_command('skillhub', 'install', place)}"

    def ask(self, url: str, *, cap: int, options: RequestOptions = PLAIN) -> Response:
        """Return what the server answers, as ``Web.ask`` promises.

        Raises:
            SourceError, WrongBytes, UnsafeTransfer: see there.
        """
        options = replace(options, named_by=Requester("repository", options.named_by.site))
        try:
            return self._web.ask(url, cap=cap, options=options)
        except UnsafeTransfer as error:
            error.hint = error.hint or self._hint
            raise


class Mirrors(Web):
    """A ``Web`` that asks where, and for whom, ``config.toml`` says.

    A mirror changes where bytes come from and never what is trusted: its answers bear the URL that they stand for. It
    may be where no document can lead, in a private network, and so may a trusted host: what a document names there is
    asked as if the person had named it. A redirect is none of theirs, and is judged like any other.

    Args:
        web: Who asks.
        settings: What this user has configured.
    """

    def __init__(self, web: Web, settings: Settings) -> None:
        self._web = web
        self._settings = settings

    def ask(self, url: str, *, cap: int, options: RequestOptions = PLAIN) -> Response:
        """Return what the mirror answers, or without one the server itself, as ``Web.ask`` promises.

        Raises:
            SourceError, WrongBytes, UnsafeTransfer: see there.
        """
        target = RequestTarget.parse(url)
        asked = f"{target.scheme}://{target.authority}{target.raw_path}"
        base = base_of(asked, self._settings.mirrors)
        if base is None:
            options = replace(options, named_by=PERSON) if self._settings.trusts(url) else options
            with _hinting_at_trust(url, options.named_by):
                return self._web.ask(url, cap=cap, options=options)
        _refuse_dots(url)
        mirror = self._settings.mirrors[base]
        if mirror.startswith("file:"):
            return _in_folder(mirror.removeprefix("file://"), base, asked, cap)
        # Who we are to the one is nobody else's business.
        sent = options.headers.items()
        told = {name: value for name, value in sent if name.lower() != "authorization" or not value}
        options = RequestOptions(headers=told, body=options.body)
        answer = self._web.ask(mirror + asked[len(base) :], cap=cap, options=options)
        is_there = base_of(answer.url, [mirror]) is not None  # else a redirect led out of the mirror
        return replace(answer, url=base + answer.url[len(mirror) :] if is_there else url)


def _in_folder(folder: str, base: str, url: str, cap: int) -> Response:
    """Return what a folder has for a URL below ``base``: the file of that path, whatever the query.

    Others may write there too: a pipe would never end, and a link may lead to anything.
    """
    path = unquote(url.partition("#")[0].partition("?")[0][len(base) :]).removeprefix("/")
    if not is_inner_path(path) or "\0" in path:
        raise UnsafeTransfer(f"expected a file of {base}, found {quote(url)}", where=url)
    top = os.path.realpath(folder)
    if not os.path.isfile(os.path.join(top, path)):
        return Response(url, b"", status=404)
    try:
        data = files.read(files.inside(top, path), cap, root=files.HeldFolder(top))
    except LinkLeavesProject as error:
        raise UnsafeTransfer(f"a link leads out of the mirror {quote(folder)}", where=url) from error
    except FormatError as error:
        raise WrongBytes(f"expected at most {cap} bytes, found more", where=url) from error
    return Response(url, data or b"", status=404 if data is None else 200)


@contextmanager
def _hinting_at_trust(url: str, named_by: Requester) -> Iterator[None]:
    try:
        yield
    except UnsafeTransfer as error:
        if named_by.who == "site" and error.where == url and url.startswith("https:"):
            error.hint = error.hint or "if the host is yours, add it to trusted-hosts in config.toml"
        raise


@errors_masked()
def whole(answer: Response) -> Response:
    """Return an answer that is what was asked for.

    Raises:
        NotFound: there is nothing (404, 410), or nothing for us (403).
        RateLimited: the server wants to be left alone for a while.
        SourceError: any other status than 200.
    """
    if answer.status == 200:
        return answer
    said = f"the server answered {answer.status}"
    if is_limited(answer.status, answer.headers):
        raise RateLimited(f"too many requests: {said}", where=answer.url, resets=_resets(answer.headers))
    if answer.status in _ABSENT:
        raise NotFound(f"not found: {said}", where=answer.url)
    hint = None
    if answer.status == 401:
        hint = "it needs a login: set a token for this host in config.toml, or list the host in your netrc"
    raise SourceError(f"cannot fetch it: {said}", where=answer.url, hint=hint)


def is_limited(status: int, headers: Headers) -> bool:
    """Say whether a server answers so because it was asked too often; asking again at once makes it worse."""
    return status in (403, 429) and ("retry-after" in headers or headers.get("x-ratelimit-remaining") == "0")


def _resets(headers: Headers) -> int | None:
    """Return the time that ``Retry-After`` (RFC 9110, seconds alone) or ``X-RateLimit-Reset`` tells, if one does."""
    pause, moment = headers.get("retry-after", ""), headers.get("x-ratelimit-reset", "")
    if pause.isdecimal() and len(pause) < 10:
        return int(time.time()) + int(pause)
    return int(moment) if moment.isdecimal() and len(moment) < 12 else None


def _refuse_dots(url: str) -> None:
    """Refuse a path that would lead out of the mirror, to what else its host has for those inside."""
    path = unquote(url.partition("#")[0].partition("?")[0])
    if any(part in (".", "..") for part in path.replace("\\", "/").split("/")):
        raise UnsafeTransfer("expected a path without dot segments", where=url)

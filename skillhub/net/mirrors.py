"""Clients before the one that sends requests: the user's mirrors, and places that only a repository names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from urllib.parse import unquote

from skillhub.disk import files
from skillhub.errors import FormatError, LinkLeavesProject, SourceError, UnsafeTransfer, WrongBytes, hinting
from skillhub.formats.text import as_command, is_inner_path, quote
from skillhub.net.fetch import PERSON, PLAIN, Requester, RequestOptions, Response, Web
from skillhub.net.settings import Settings, base_of
from skillhub.net.target import RequestTarget

_NAMED = "[mirrors] in config.toml names it: mount or copy it there"


class UntrustedClient(Web):
    """A ``Web`` for a place that only a repository names, and no person: all its requests count as named so.

    Args:
        web: Sends the requests.
        place: The reference of the place for ``skillhub install``, for the hint.
        hint: Another hint, if the user names the place by another command.
    """

    def __init__(self, web: Web, place: str, hint: str | None = None) -> None:
        self._web = web
        self._hint = hint or f"only this repository names it; to use it: {as_command('skillhub', 'install', place)}"

    def ask(self, url: str, *, cap: int, options: RequestOptions = PLAIN) -> Response:
        """Return the server's answer, as ``Web.ask`` promises.

        Raises:
            SourceError, WrongBytes, UnsafeTransfer: as for ``Web.ask``.
        """
        options = replace(options, named_by=Requester("repository", options.named_by.site))
        with hinting(self._hint, kinds=UnsafeTransfer):
            return self._web.ask(url, cap=cap, options=options)


class Mirrors(Web):
    """A ``Web`` that applies the mirrors and trusted hosts of ``config.toml``.

    A mirror changes the server that bytes come from, and not what is trusted: its answers have the original URL. A
    mirror or a trusted host may be in a private network: a URL there counts as named by the user, whoever named it.
    Redirects from either are judged like all others.

    Args:
        web: Sends the requests.
        settings: The user's settings.
    """

    def __init__(self, web: Web, settings: Settings) -> None:
        self._web, self._settings = web, settings

    def ask(self, url: str, *, cap: int, options: RequestOptions = PLAIN) -> Response:
        """Return the answer of the mirror, or of the server if it has no mirror, as ``Web.ask`` promises.

        Raises:
            SourceError, WrongBytes, UnsafeTransfer: as for ``Web.ask``.
        """
        target = RequestTarget.parse(url)
        requested = f"{target.scheme}://{target.authority}{target.raw_path}"
        base = base_of(requested, self._settings.mirrors)
        if base is None:
            options = replace(options, named_by=PERSON) if self._settings.trusts(url) else options
            with _hinting_at_trust(url, options.named_by):
                return self._web.ask(url, cap=cap, options=options)
        _refuse_dots(url)
        mirror = self._settings.mirrors[base]
        if mirror.startswith("file:"):
            return _in_folder(mirror.removeprefix("file://"), base, requested, cap)
        # Credentials for the original server are not sent to the mirror.
        fields = options.headers.items()
        headers = {name: value for name, value in fields if name.lower() != "authorization" or not value}
        options = RequestOptions(headers=headers, body=options.body)
        answer = self._web.ask(mirror + requested[len(base) :], cap=cap, options=options)
        is_there = base_of(answer.url, [mirror]) is not None  # else a redirect left the mirror
        return replace(answer, url=base + answer.url[len(mirror) :] if is_there else url)


def _in_folder(folder: str, base: str, url: str, cap: int) -> Response:
    """Return the file in a folder for a URL below ``base``; the query is ignored.

    Other users may write to the folder, so pipes, devices and links out of it are refused.
    """
    path = unquote(url.partition("#")[0].partition("?")[0][len(base) :]).removeprefix("/")
    if not is_inner_path(path) or "\0" in path:
        raise UnsafeTransfer(f"expected a file of {base}, found {quote(url)}", where=url)
    top = os.path.realpath(folder)
    if not os.path.isdir(top):
        raise SourceError(f"the folder of a mirror of {base} is missing", where=folder, hint=_NAMED)
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


def _refuse_dots(url: str) -> None:
    """Raise for a path that would leave the mirror, and reach other files of an internal host."""
    path = unquote(url.partition("#")[0].partition("?")[0])
    if any(part in (".", "..") for part in path.replace("\\", "/").split("/")):
        raise UnsafeTransfer("expected a path without dot segments", where=url)

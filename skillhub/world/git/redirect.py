"""Where a server sends git: each target is judged before it is made, for git follows and judges none.

Only what a person named is followed at all. Forges redirect a repository that was renamed or moved, and hosts that
have another name now; whoever serves the old name could as well lead into the network that we are in.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping

from skillhub.errors import SourceError, UnsafeTransfer, UsageError, WrongBytes
from skillhub.model.text import as_command, quote
from skillhub.world.fetch import Answer, Web
from skillhub.world.git.program import Bounds
from skillhub.world.git.remote import Remote, check, told
from skillhub.world.hop import RequestTarget

_ASKED = "/info/refs?service=git-upload-pack"  # what git asks first (gitprotocol-http)
_CAP = 16 << 20  # of an answer that lists all branches and tags; by version 2 of the protocol it is short
_V2 = {"Git-Protocol": "version=2"}


def redirected(remote: Remote, environ: Mapping[str, str], bounds: Bounds) -> Remote | None:
    """Return the repository as git is to be told of it after the server redirected it; None if that is not known.

    On its own origin it stays what a person named. Elsewhere it is reached over https, at the public addresses that
    were judged, and gets no token that was meant for the first.

    Raises:
        UnsafeTransfer: it leads to plain http, into a private network, or to no repository; the error names where.
    """
    if bounds.web is None or remote.named_by != "person" or not remote.place.startswith(("https:", "http:")):
        return None
    place = remote.place.rstrip("/")
    for headers in _ways(remote):
        try:
            answer = _asked(bounds.web, place, headers)
        except (SourceError, WrongBytes):
            return None
        if answer.url != place + _ASKED:
            return _at(answer.url, remote, environ)
    return None


def _ways(remote: Remote) -> Iterator[Mapping[str, str]]:
    """Yield what to send: nothing of who asks, and where that led nowhere what lets one in, as git is told it."""
    yield _V2
    if remote.token is not None:
        secret = b64encode(f"x-access-token:{remote.token}".encode()).decode()
        yield {**_V2, "Authorization": f"Basic {secret}"}


def _asked(web: Web, place: str, headers: Mapping[str, str]) -> Answer:
    try:
        return web.ask(place + _ASKED, cap=_CAP, headers=headers)
    except UnsafeTransfer as error:
        found = (error.where or "").removesuffix(_ASKED)
        meant = as_command("skillhub", "install", f"git+{found}")
        hint = f"if that is meant: {meant}" if found not in ("", place) else None
        message = f"the server sends one elsewhere: {error.message}"
        raise UnsafeTransfer(message, where=error.where, hint=hint) from error


def _at(url: str, remote: Remote, environ: Mapping[str, str]) -> Remote:
    place = url.removesuffix(_ASKED)
    try:
        if place == url:
            raise UsageError(f"expected a redirect to a repository, found {quote(url)}")
        check(place)
        is_same = RequestTarget.parse(place).origin == RequestTarget.parse(remote.place).origin
        return told(remote.url, place, "person" if is_same else "redirect", environ, remote.token)
    except UsageError as error:
        message = f"the server sends one elsewhere: {error.message}"
        raise UnsafeTransfer(message, where=remote.url, hint="name the repository where it is now") from error

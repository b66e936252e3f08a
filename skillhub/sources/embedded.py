"""The registry inside the package. Its keys are public test keys: it is read from nowhere but the package."""

from __future__ import annotations

import os
from functools import cache

from skillhub.errors import NotFound, StateError, UnsafeTransfer, WrongBytes
from skillhub.formats.digest import Digest
from skillhub.formats.text import quote
from skillhub.net.fetch import Response
from skillhub.net.target import PERSON, Requester

EMBEDDED_URL = "embedded:"
_FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "embedded")
_ROOT = "metadata/1.root.json"
_ROOT_CAP = 512_000


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
            raise StateError(f"the disk refused: {error.strerror}", where=url) from error
        if len(data) > cap:
            raise WrongBytes(f"expected at most {cap} bytes, found more", where=url)
        return Response(url, data)


def embedded() -> FolderFetcher:
    """Return the fetcher of the registry inside the package."""
    return FolderFetcher(_FOLDER, EMBEDDED_URL)


@cache
def root() -> bytes:
    """Return its first root.

    Raises:
        StateError: the package is not whole.
    """
    try:
        return embedded().get(f"{EMBEDDED_URL}/{_ROOT}", cap=_ROOT_CAP).data
    except NotFound as error:
        raise StateError("the embedded registry is gone", where=_FOLDER, hint="install skillhub again") from error


@cache
def root_fingerprint() -> Digest:
    """Return the SHA-256 of its first root, which no other source may have.

    Raises:
        StateError: the package is not whole.
    """
    return Digest.of(root())

"""A JSON file in ``<state>``, shared by all processes of the user and never read from a repository."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Generic, TypeVar

from skillhub.disk import files
from skillhub.disk.proved import Stamp, stamp_of
from skillhub.errors import FormatError, StateError
from skillhub.formats.document import Document, version_of

_T = TypeVar("_T")

_VERSION = 1


class StateDocument(Document):
    """A document in ``<state>``."""

    CAP = 16 << 20
    UNKNOWN = "a newer skillhub may have written it"

    version: Annotated[int, version_of("version", _VERSION)]


_D = TypeVar("_D", bound=StateDocument)


class StateFile(Generic[_D, _T]):
    """One JSON document: read within bounds, validated in full, and replaced atomically.

    Args:
        path: The path of the file.
        what: The name of its content, for the error.
        hint: The hint for a malformed file. Such a file is never read as empty: a refusal that it causes would be
            lifted.
        form: The class of the document.
        make: Makes the value that ``read`` returns from the document, or from None without a file.
    """

    def __init__(self, path: str, what: str, hint: str, form: type[_D], make: Callable[[_D | None], _T]) -> None:
        self._path, self._what = path, what
        self._hint, self._form, self._make = hint, form, make
        self._seen: tuple[Stamp | None, _T] | None = None

    def read(self) -> _T:
        """Return the value that the file has; an unchanged file is read once.

        Raises:
            StateError: the document is malformed, or the disk refuses.
        """
        stamp = _stamp(self._path)
        if self._seen is None or self._seen[0] != stamp:
            self._seen = stamp, self._read_file()
        return self._seen[1]

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of the file, so that no other process changes it between read and write.

        Raises:
            StateError: another process holds the lock for too long, or the disk refuses.
        """
        with files.lock(f"{self._path}.lock"):
            self._seen = None
            yield

    def write(self, **members: object) -> None:
        """Replace the file, under its lock, by a document with these members.

        Raises:
            FormatError: the document is not valid, so that ``read`` would refuse it.
            StateError: the disk refuses.
        """
        document = self._form.model_construct(None, **{**members, "version": _VERSION})
        # A path need not be UTF-8; other bytes become question marks, so that the file stays readable. Members keep
        # their order, the newest last.
        data = (json.dumps(document.plain(), indent=2, ensure_ascii=False) + "\n").encode("utf-8", "replace")
        self._form.parse(data, self._path)
        files.write_atomic(self._path, data, mode=0o600)
        self._seen = None

    def _read_file(self) -> _T:
        try:
            data = files.read(self._path, self._form.CAP)
            return self._make(None if data is None else self._form.parse(data, self._path))
        except FormatError as error:
            message = f"the file with {self._what} cannot be read: {error.message}"
            raise StateError(message, where=error.where, hint=error.hint or self._hint) from error


def _stamp(path: str) -> Stamp | None:
    """Return the stamp of a file; None if there is no file.

    Raises:
        StateError: the disk refuses.
    """
    try:
        return stamp_of(os.lstat(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise files.disk_error(error, path) from error

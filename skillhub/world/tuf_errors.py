"""What python-tuf raises, and what a registry's documents should not say, as errors of ours."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tuf.api import exceptions
from tuf.api.serialization import DeserializationError

from skillhub.errors import (
    BadMetadata,
    BadMetadataSignature,
    FormatError,
    MetadataExpired,
    Rollback,
    SkillhubError,
    SourceError,
    WrongBytes,
)
from skillhub.model.index import LeadsOut
from skillhub.model.text import quote
from skillhub.world.files import disk_error
from skillhub.world.shown_time import ShownTime

_MEANING: Mapping[type[Exception], tuple[type[SkillhubError], str]] = {
    exceptions.ExpiredMetadataError: (MetadataExpired, "the metadata has expired"),
    exceptions.BadVersionNumberError: (Rollback, "the metadata is older than what was seen before"),
    exceptions.UnsignedMetadataError: (BadMetadataSignature, "too few of the right keys have signed"),
    exceptions.LengthOrHashMismatchError: (WrongBytes, "the metadata is not what is signed of it"),
    exceptions.RepositoryError: (BadMetadata, "the metadata contradicts itself"),
    exceptions.DownloadLengthMismatchError: (WrongBytes, "the metadata is longer than it may be"),
    exceptions.DownloadError: (SourceError, "cannot fetch the metadata"),
}


@contextmanager
def translated(where: str, time: ShownTime | None = None) -> Iterator[None]:
    """Raise what python-tuf or the disk raises within as an error of ours, which names ``where``.

    A document of a plain site that leads out of its folder is malformed; one of a registry lies. Where metadata has
    expired by ``time``, and the clock is behind that, the hint says so.

    Raises:
        SecurityError: it trusts not what came.
        FormatError: it is no metadata.
        SourceError: it cannot be fetched.
        StateError: the disk refuses.
    """
    try:
        yield
    except LeadsOut as error:
        raise BadMetadata(error.message, where=error.where) from error
    except DeserializationError as error:
        raise FormatError("expected signed metadata, found something else", where=where) from error
    except OSError as error:
        raise disk_error(error, os.fsdecode(error.filename or where)) from error
    except tuple(_MEANING) as error:
        kind, message = next(_MEANING[cause] for cause in type(error).__mro__ if cause in _MEANING)
        behind = time.behind if time and kind is MetadataExpired else None
        hint = f"{behind}: {time.remedy}" if time and behind else None
        raise kind(f"{message}: {quote(str(error), 200)}", where=where, hint=hint) from error

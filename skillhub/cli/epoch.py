"""Reads ``SOURCE_DATE_EPOCH``, the time that documents bear (reproducible-builds.org/specs/source-date-epoch)."""

from __future__ import annotations

import os
from datetime import UTC, datetime

from skillhub.cli.common import now
from skillhub.errors import UsageError
from skillhub.model.text import quote


def epoch() -> datetime | None:
    """Return the time of ``SOURCE_DATE_EPOCH``; None without it.

    Raises:
        UsageError: it is no time.
    """
    text = os.environ.get("SOURCE_DATE_EPOCH")
    if not text:
        return None
    try:
        return datetime.fromtimestamp(int(text), UTC)
    except (ValueError, OverflowError, OSError) as error:
        message = f"expected SOURCE_DATE_EPOCH to be seconds since 1970, found {quote(text)}"
        raise UsageError(message) from error


def signing_time() -> datetime:
    """Return the time that what is signed is dated by; what is verified is held against the clock alone."""
    return epoch() or now()

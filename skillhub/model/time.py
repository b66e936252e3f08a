"""Times as documents have them: UTC, to the second, such as ``2026-01-02T03:04:05Z``."""

from __future__ import annotations

from datetime import UTC, datetime


def spell(time: datetime) -> str:
    """Return a time, which has a zone, as documents have it."""
    return f"{time.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def parse(text: str | None) -> datetime | None:
    """Return the time that ISO 8601 means by ``text``, None if it is no time.

    One without a zone is UTC; a day is its beginning.
    """
    try:
        found = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)

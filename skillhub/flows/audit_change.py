"""A lock under audit against an earlier one: whoever reviews a change sees what became of origins and signers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from urllib.parse import urlsplit

from skillhub.flows.audit_places import Places
from skillhub.flows.audit_rules import note
from skillhub.model.lock import Lock, Locked
from skillhub.model.report import Noted
from skillhub.model.signer import known_by


def changed(before: Lock, now: Lock, names: Iterable[str], places: Places) -> Iterator[Noted]:
    """Yield what comes from elsewhere now, what is signed by another or no longer, and what is patched otherwise."""
    for alias in sorted(before.sources.keys() & now.sources.keys()):
        old, new = before.sources[alias], now.sources[alias]
        if old != new:
            message = f"{alias} was {old}, and is {new}"
            yield note("origin-changed", message, None, places.source(alias))
    for name in names:
        earlier, entry = before.skills.get(name), now.skills[name]
        if earlier is None:
            continue
        if _origin(earlier) != _origin(entry):
            message = f"{name} came from {_spelled(earlier)}, and comes from {_spelled(entry)}"
            yield note("origin-changed", message, name, places.skill(name))
        if earlier.signed_by and known_by(earlier.signed_by) != known_by(entry.signed_by):
            found = ", ".join(entry.signed_by) or "nobody"
            message = f"{name} was signed by {', '.join(earlier.signed_by)}, and is signed by {found}"
            yield note("signer-changed", message, name, places.skill(name))
        if entry.patch is not None and entry.patch != earlier.patch:
            message = f"{name} is patched by {entry.patch.path} now, which nobody signed"
            yield note("patch-changed", message, name, places.skill(name))


def _origin(entry: Locked) -> tuple[str, str | None, str, str | None]:
    """Return the source, the host, and the place on it that no version changes."""
    url = entry.git or entry.url or ""
    return entry.source.partition("@")[0], entry.git, urlsplit(url).netloc, entry.path


def _spelled(entry: Locked) -> str:
    return f"{entry.source} ({entry.origin})"

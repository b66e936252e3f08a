"""Yank and withdraw releases: yanked ones are no longer chosen, withdrawn ones nobody may use any more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from skillhub.errors import NotFound, UsageError
from skillhub.flows.registry.opened import Signing, opened
from skillhub.model.release import Index, Release
from skillhub.model.text import clean, quote

_REASON_MAX = 1024


def yank(folder: str, wanted: str, reason: str | None, signing: Signing) -> Release:
    """Publish that nobody should newly choose the release ``NAME@VERSION``; who has it locked keeps it.

    Args:
        folder: The registry's.
        wanted: The release.
        reason: Why; None says that it may be chosen again.
        signing: When and with what.

    Raises:
        UsageError: ``wanted`` or ``reason`` is none, or the release was withdrawn.
        NotFound: there is no such registry or release.
        Refused: an online key is not at hand.
        SecurityError: the site is not what was signed.
        StateError: the disk refuses.
    """
    text = None if reason is None else _reason(reason)

    def yanked(release: Release) -> Release:
        if release.withdrawn is not None:
            message = f"{release.name} {release.version} was withdrawn, which says more: {release.withdrawn}"
            raise UsageError(message, hint="to offer it again, publish it under a new version")
        return replace(release, yanked=text)

    return _revise(folder, wanted, yanked, signing)


def withdraw(folder: str, wanted: str, reason: str, signing: Signing) -> Release:
    """Publish that nobody may use the release, not even who has it locked; there is no way back.

    Raises what ``yank`` does.
    """
    text = _reason(reason)
    return _revise(folder, wanted, lambda release: replace(release, withdrawn=text), signing)


def _revise(folder: str, wanted: str, change: Callable[[Release], Release], signing: Signing) -> Release:
    with opened(folder, signing) as hub:
        index = hub.index()
        release = _find(index, wanted)
        changed = change(release)
        releases = tuple(changed if each == release else each for each in index.skills[release.name])
        revised = Index({**index.skills, release.name: releases}, index.admissions)
        hub.publish(revised, [release.publisher or ""], [release.name])
    return changed


def _reason(text: str) -> str:
    """Return a reason that is going to be published."""
    reason = clean(text).strip()
    if not 0 < len(reason) <= _REASON_MAX:
        raise UsageError(f"expected a reason of 1 to {_REASON_MAX} characters, found {quote(text)}")
    return reason


def _find(index: Index, wanted: str) -> Release:
    """Return the release that ``NAME@VERSION`` names; the hint of the error lists the versions that are here."""
    name, _, version = wanted.partition("@")
    if not name or not version:
        raise UsageError(f"expected NAME@VERSION, found {quote(wanted)}")
    releases = index.skills.get(name, ())
    found = next((release for release in releases if release.version == version), None)
    if found is None:
        known = ", ".join(release.version or "" for release in releases[:8])
        hint = f"there are: {known}" if known else None
        raise NotFound(f"there is no release {quote(wanted)}", hint=hint)
    return found

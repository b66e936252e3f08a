"""Take releases back: yanked ones are no longer chosen, withdrawn ones nobody may use any more."""

from __future__ import annotations

from collections.abc import Callable

from skillhub.errors import UsageError
from skillhub.flows.registry_opened import Signing, find, opened, reason_of
from skillhub.model.dataclass import replace
from skillhub.model.release import Release
from skillhub.trust.registry_documents import Shelf


def yank(folder: str, wanted: str, reason: str, signing: Signing) -> Release:
    """Publish that nobody should newly choose the release ``NAME@VERSION``; who has it locked keeps it.

    Raises:
        UsageError: ``wanted`` or ``reason`` is none, or the release was withdrawn.
        NotFound: there is no such registry or release.
        Refused: an online key is not at hand.
        SecurityError: the site is not what was signed.
        StateError: the disk refuses.
    """
    text = reason_of(reason)

    def yanked(release: Release) -> Release:
        _still_offered(release)
        return replace(release, yanked=text)

    return _revise(folder, wanted, yanked, signing)


def unyank(folder: str, wanted: str, signing: Signing) -> Release:
    """Publish that the release may be chosen again; raises what ``yank`` does."""

    def kept(release: Release) -> Release:
        _still_offered(release)
        return replace(release, yanked=None)

    return _revise(folder, wanted, kept, signing)


def withdraw(folder: str, wanted: str, reason: str, signing: Signing) -> Release:
    """Publish that nobody may use the release, not even who has it locked; there is no way back.

    Raises what ``yank`` does.
    """
    text = reason_of(reason)
    return _revise(folder, wanted, lambda release: replace(release, withdrawn=text), signing)


def _revise(folder: str, wanted: str, change: Callable[[Release], Release], signing: Signing) -> Release:
    with opened(folder, signing) as hub:
        shelf = hub.shelf()
        release = find(shelf, wanted)
        changed = change(release)
        releases = tuple(changed if each == release else each for each in shelf.skills[release.name])
        revised = Shelf(shelf.admissions, {**shelf.skills, release.name: releases})
        hub.publish(revised, [release.publisher or ""], [release.name])
    return changed


def _still_offered(release: Release) -> None:
    if release.withdrawn is not None:
        message = f"{release.name} {release.version} was withdrawn, which says more: {release.withdrawn}"
        raise UsageError(message, hint="to offer it again, publish it under a new version")

"""From what is asked for to the release that is meant; pure, given what the sources offer."""

from __future__ import annotations

from skillhub.errors import NotFound, SourceError, UsageError
from skillhub.model.ref import Named
from skillhub.model.release import Release
from skillhub.model.version import Range


class TakenBack(SourceError):
    """What was asked for is there, but its registry says that nobody should choose it."""

    code = "taken-back"


def choose_source(ref: Named, having: tuple[str, ...], looked_into: tuple[str, ...]) -> str:
    """Return the alias of the one source that has ``ref.name``.

    Raises:
        NotFound: none has it.
        UsageError: several have it; the message lists them as ``source:name``.
    """
    if len(having) > 1:
        named = ", ".join(f"{alias}:{ref.name}" for alias in having)
        raise UsageError(
            f"{ref.name} is in several sources: {named}", hint=f"say which: {having[0]}:{ref.name}"
        )
    if not having:
        raise NotFound(
            f"no source has a skill named {ref.name}",
            where=", ".join(looked_into) or None,
            hint="skillhub source show NAME lists what a source has",
        )
    return having[0]


def choose_release(ref: Named, releases: tuple[Release, ...]) -> Release:
    """Return the newest of ``releases`` (newest first) that the range allows and nobody took back.

    Without a range, a pre-release is chosen only if there is nothing else.

    Raises:
        NotFound: no release is in the range; the hint names those there are.
        TakenBack: those in the range were yanked or withdrawn; the reason is told.
        UsageError: the range is none.
    """
    allowed = releases
    if ref.range is not None:
        wanted = Range(ref.range)
        allowed = tuple(release for release in releases if wanted.allows(release.version or "0.0.0"))
    if not allowed:
        known = ", ".join(release.version or "?" for release in releases[:8])
        raise NotFound(f"no release of {ref.name} is {ref.range}", where=str(ref), hint=f"there are: {known}")
    chosen = [release for release in allowed if release.yanked is None and release.withdrawn is None]
    if not chosen:
        gone = allowed[0]
        what, reason = (
            ("withdrawn", gone.withdrawn) if gone.withdrawn is not None else ("yanked", gone.yanked)
        )
        raise TakenBack(
            f"{ref.name} {gone.version} was {what}: {reason or 'no reason given'}", where=str(ref)
        )
    stable = [release for release in chosen if "-" not in (release.version or "").split("+")[0]]
    return (stable if ref.range is None and stable else chosen)[0]

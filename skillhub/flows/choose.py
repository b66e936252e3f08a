"""From what is asked for to the release that is meant; pure, given what the sources offer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from skillhub.errors import NotFound, SourceError, UsageError
from skillhub.model.lock import Locked
from skillhub.model.ref import Named
from skillhub.model.release import Index, Release
from skillhub.model.text import as_command, quote
from skillhub.model.version import Range, is_version


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
            hint=f"{as_command('skillhub', 'search', ref.name)} finds what is spelled alike",
        )
    return having[0]


def choose_release(ref: Named, releases: tuple[Release, ...], settled: str | None = None) -> Release:
    """Return the newest of ``releases`` (newest first) that the range allows and nobody took back.

    Without a range, a pre-release is chosen only if there is nothing else. With ``settled``, a time as in
    ``published``, so is what was published later.

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
        known = ", ".join(release.version or "one without a version" for release in releases[:8])
        raise NotFound(f"no release of {ref.name} is {ref.range}", where=str(ref), hint=f"there are: {known}")
    chosen = [release for release in allowed if not release.taken_back]
    if not chosen:
        gone = allowed[0]
        raise TakenBack(f"{ref.name} {gone.version} was {gone.taken_back}", where=str(ref))
    chosen = [each for each in chosen if settled is None or (each.published or "~") <= settled] or chosen
    stable = [release for release in chosen if "-" not in (release.version or "").split("+")[0]]
    return (stable if ref.range is None and stable else chosen)[0]


def is_within(entry: Locked, range_: str | None) -> bool:
    """Say whether what is locked is of a version that the range allows; what has none is in no range.

    Raises:
        UsageError: the range is none.
    """
    if range_ is None:
        return True
    return entry.version is not None and is_version(entry.version) and Range(range_).allows(entry.version)


Choose = Callable[[Sequence[Release]], Sequence[Release]]


def choose_skills(
    asked: str, index: Index, words: Sequence[str], *, every: bool, pick: Choose
) -> tuple[Release, ...]:
    """Return the skills of a place that are meant: all, those of ``words``, its only one, or those picked.

    Args:
        asked: The reference, for messages.
        index: What the place offers.
        words: Names, ``plugin:name``, or folders of the place.
        every: Take all of them.
        pick: Asks a person; with nobody there it returns nothing.

    Raises:
        NotFound: the place has no skill, or none of that name.
        UsageError: it has several, and none was chosen; or a name fits several.
    """
    offered = offered_by(index)
    if not offered:
        reasons = "; ".join(index.warnings[:3])
        hint = "a skill is a folder with a SKILL.md"
        raise NotFound("there is no skill here" + (f": {reasons}" if reasons else ""), where=asked, hint=hint)
    if words:
        return tuple(dict.fromkeys(_called(word, offered, asked) for word in words))
    if every or len(offered) == 1:
        return offered
    picked = tuple(pick(offered))
    if not picked:
        names = ", ".join(dict.fromkeys(words_for(offered).values()))
        hint = "say which: --skill NAME (repeatable), or --all"
        raise UsageError(f"there are {len(offered)} skills here: {names}", where=asked, hint=hint)
    return picked


def offered_by(index: Index) -> tuple[Release, ...]:
    """Return each skill of a place."""
    return tuple(release for name in index.names for release in index.skills[name])


def fitting(word: str, offered: Sequence[Release]) -> list[Release]:
    """Return the skills that a word fits: a name, ``plugin:name``, or else a folder."""
    plugin, _, name = word.rpartition(":")
    fits = [each for each in offered if each.name == name and (not plugin or each.plugin == plugin)]
    return fits or [each for each in offered if each.path and each.path == word.strip("/")]


def _called(word: str, offered: Sequence[Release], asked: str) -> Release:
    fits = fitting(word, offered)
    if not fits:
        raise none_of(word, [each.name for each in offered[:40]], asked)
    if len(fits) > 1:
        unique = words_for(offered)
        names = ", ".join(unique[each] for each in fits)
        raise UsageError(
            f"{word} fits several skills: {names}", where=asked, hint="--skill takes one of these"
        )
    return fits[0]


def none_of(word: str, names: Sequence[str], asked: str) -> NotFound:
    """Return the error about a word that none of these names fits."""
    hint = f"there are: {', '.join(dict.fromkeys(names))}"
    return NotFound(f"there is no skill {quote(word)} here", where=asked, hint=hint)


def words_for(offered: Sequence[Release]) -> dict[Release, str]:
    """Return what tells each release from all others of its name."""
    named = Counter(each.name for each in offered)
    of_plugin = Counter((each.name, each.plugin) for each in offered)

    def word(release: Release) -> str:
        if named[release.name] == 1:
            return release.name
        if release.plugin and of_plugin[release.name, release.plugin] == 1:
            return f"{release.plugin}:{release.name}"
        return release.path or release.name

    return {each: word(each) for each in offered}

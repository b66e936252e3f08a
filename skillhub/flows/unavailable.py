"""Skills that nothing newer can be had of, though whoever has them can be asked: an update of all goes on without."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from skillhub.errors import FormatError, NotFound, SkillhubError
from skillhub.flows.choose import offered_by
from skillhub.flows.hints import command, reinstall
from skillhub.flows.newer import wanted_under
from skillhub.flows.outcome import LeftOut
from skillhub.flows.ports import Ports
from skillhub.flows.state import State
from skillhub.model.intent import Wanted
from skillhub.model.lock import Locked
from skillhub.model.ref import Git, GitHub, Site
from skillhub.world.requester import by_agreement


def unavailable(name: str, error: SkillhubError, state: State, ports: Ports) -> SkillhubError:
    """Return what is wrong with this one skill, and the way out of it.

    Raises:
        SkillhubError: the error itself where it is not about one skill, or whoever has the skill cannot be asked.
    """
    if not isinstance(error, NotFound | FormatError):
        raise error
    entry = state.lock.skills[name]
    wanted = wanted_under(name, entry, state)
    try:
        now_at = _asked(name, entry, wanted, state, ports)
    except SkillhubError:
        raise error from None
    scope = ports.project.scope
    remove = command(scope, "remove", name)
    if isinstance(error, FormatError):
        message = f"{name} cannot be updated: {error.message}"
        hint = f"what is installed stays until that is mended; {remove} takes it out"
        return FormatError(message, where=error.where, hint=hint)
    message = f"nothing newer of {name} can be had: {error.message}"
    hint = f"{remove} takes it out; what is installed stays until then"
    if now_at is not None:
        hint = f"it is elsewhere now: {reinstall(scope, name, now_at)}"
    elif error.hint and not wanted.remote():
        hint = f"{hint}; {error.hint}"
    return NotFound(message, where=error.where, hint=hint)


def left_behind(error: SkillhubError, name: str) -> LeftOut:
    """Return how an update of all tells of it."""
    where = f" ({error.where})" if error.where else ""
    return LeftOut(name, error.code, f"{error.message}{where}; {error.hint}")


def _asked(name: str, entry: Locked, wanted: Wanted, state: State, ports: Ports) -> list[str] | None:
    """Ask whoever has a skill what it has, and return the words that name the skill there now, if that can be told.

    Raises:
        SourceError, FormatError, SecurityError, Refused: it cannot be asked.
    """
    ref = wanted.remote()
    if ref is None:
        source = ports.sources.all().get(wanted.source or entry.source)
        if wanted.path is None and source is not None and source.root is None:
            ports.reach(Site(source.url)).index((name,))
        elif wanted.path is None and source is not None:
            registry = ports.open(source)
            with suppress(NotFound):
                registry.release_index([name])
        return None
    whole = replace(ref, path=None) if isinstance(ref, Git | GitHub) else ref
    index = ports.reach(whole, named_by=by_agreement(state.is_known(name, ref.source))).index((name,))
    there = [each for each in offered_by(index) if each.name == name]
    if len(there) != 1 or there[0].path == entry.path or not isinstance(whole, Git | GitHub):
        return None
    (found,) = there
    if found.plugin:
        return [str(whole), "--skill", f"{found.plugin}:{name}"]
    return [str(replace(whole, path=found.path) if found.path else whole)]

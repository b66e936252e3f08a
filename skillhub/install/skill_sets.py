"""Profiles: named sets of enabled skills of one person and project, stored in ``<state>``, used as a whole."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from skillhub.command.ports import LeftOut, Options, Outcome, Ports
from skillhub.command.state import State, read_state, read_unchecked
from skillhub.disk.state_file import StateDocument, StateFile
from skillhub.errors import NotFound, UsageError
from skillhub.formats.document import Items, SkillName, part
from skillhub.formats.text import NAME_RULE, command, did_you_mean, is_name, quote, spelled_like
from skillhub.install.apply import enable
from skillhub.project.project import Project

_HINT = "move the file away, and save your profiles again with skillhub profile save"


@part
@dataclass(frozen=True, slots=True)
class SkillProfile:
    """A set of skills to enable in one project.

    Attributes:
        key: The key of the project, or of the user scope, in the state files of this machine.
        project: The project's folder, for display.
    """

    key: str
    project: str
    name: SkillName
    skills: Items[SkillName] = ()


class SkillProfilesFile(StateDocument):
    """``profiles.json`` in the state: the profiles that a user saved."""

    profiles: Items[SkillProfile]


class SavedProfile(NamedTuple):
    """A profile as commands show it; ``missing`` are those of its skills that are not installed."""

    name: str
    skills: tuple[str, ...]
    missing: tuple[str, ...]
    in_use: bool


class SkillProfiles:
    """The profiles of a user for one project; raises StateError if the file is damaged or the disk refuses."""

    def __init__(self, project: Project) -> None:
        self._project = project
        path, what = os.path.join(project.home.state, "profiles.json"), "the profiles of a user"
        self._file = StateFile(path, what, _HINT, SkillProfilesFile, lambda found: found.profiles if found else ())

    def all(self) -> Mapping[str, Sequence[str]]:
        """Return the skills of each profile, by its name."""
        return {each.name: each.skills for each in self._file.read() if each.key == self._project.key}

    def get(self, name: str) -> Sequence[str]:
        """Return the skills of a profile.

        Raises:
            NotFound: this project has no profile of this name.
        """
        known = self.all()
        if name not in known:
            listed = f"{command(self._project.scope, 'profile', 'list')} shows your profiles here"
            hint = did_you_mean(spelled_like(name, known), listed)
            raise NotFound(f"there is no profile {quote(name)} here", hint=hint)
        return known[name]

    def put(self, name: str, skills: Sequence[str] | None) -> None:
        """Store a profile, replacing one of its name; without skills, delete it."""
        with self._file.locked():
            kept = [each for each in self._file.read() if (each.key, each.name) != (self._project.key, name)]
            if skills is not None:
                kept.append(SkillProfile(self._project.key, self._project.base, name, tuple(sorted(skills))))
            kept.sort(key=lambda each: (each.project, each.key, each.name))
            self._file.write(profiles=tuple(kept))


def saved_profiles(ports: Ports) -> list[SavedProfile]:
    """Return the profiles of this project, by name; raises as ``SkillProfiles``."""
    state, found = read_unchecked(ports.project), []
    for name, skills in SkillProfiles(ports.project).all().items():
        missing = tuple(each for each in skills if each not in state.lock.skills)
        is_used = {*skills} - {*missing} == {*_enabled_now(state)}
        found.append(SavedProfile(name, tuple(skills), missing, is_used))
    return found


def _enabled_now(state: State) -> tuple[str, ...]:
    return tuple(sorted(state.records.enabled(state.lock.skills)))


def save_profile(name: str, ports: Ports, *, dry_run: bool = False) -> tuple[tuple[str, ...], bool]:
    """Store the enabled skills as a profile; return them, and whether they differ from the stored ones.

    Raises:
        UsageError: the name is not valid.
    """
    if not is_name(name):
        raise UsageError(f"{quote(name)} cannot name a profile", hint=NAME_RULE)
    profiles, skills = SkillProfiles(ports.project), _enabled_now(read_unchecked(ports.project))
    is_new = profiles.all().get(name) != skills
    if is_new and not dry_run:
        profiles.put(name, skills)
    return skills, is_new


def use_profile(name: str, options: Options, ports: Ports) -> Outcome:
    """Enable the skills of a profile and disable all others, all or none; ``left_out`` has those not installed.

    Raises:
        NotFound: there is no such profile.
        Refused, SecurityError, SourceError, StateError: as ``enable`` and ``disable`` raise them.
    """
    state, wanted = read_state(ports.project, ports.sources), SkillProfiles(ports.project).get(name)
    locked, records = state.lock.skills, state.records.skills
    coming = [each for each in wanted if each in locked and state.enabled(each) is None]
    # A skill that waits for a need, too: the next install would enable it otherwise.
    surplus = (each for each in records if each in locked and each not in wanted)
    going = [each for each in surplus if records[each].disabled_by != "user"]
    outcome = enable(coming, options, ports, disabling=going)
    why = f"it is in the profile {name}, and is not installed here"
    missing = [LeftOut(each, "not-installed", why) for each in wanted if each not in locked]
    return replace(outcome, left_out=(*outcome.left_out, *missing))

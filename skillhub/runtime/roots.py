"""Turns the places of an agent's profile into folders to look for skills in, in order of precedence."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from skillhub.model.hosts import absolute, expand
from skillhub.model.profile import Place, Profile
from skillhub.model.text import is_name
from skillhub.runtime.discover import Root

_DRIVE = re.compile(r"[A-Za-z]:")


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Where an agent runs.

    Attributes:
        cwd: The working folder, absolute.
        home: The user's home folder.
        environ: Where the variables that move an agent's folders are looked up, and ``SKILLHUB_HOME``; without any,
            that one is looked up in the variables of the process.
        state: The folder of skillhub's own state. With None the locks and records are still found, below
            ``SKILLHUB_HOME`` or in the platform's folder; how far skills reach is then in the host's files alone.
        extra: Folders of skills that the user names; relative ones are below ``cwd``.
        plugins: For each plugin that is installed, by its name, the folder of its skills.
        markers: What a project's root holds, beside what the profile says.
    """

    cwd: str
    home: str
    environ: Mapping[str, str] = field(default_factory=dict)
    state: str | None = None
    extra: tuple[str, ...] = ()
    plugins: Mapping[str, str] = field(default_factory=dict)
    markers: tuple[str, ...] = ()


def project_root(profile: Profile, around: Surroundings) -> str:
    """Return the folder that a variable names, else the nearest upwards with a marker, else the working folder."""
    if profile.root_env and (named := absolute(around.environ.get(profile.root_env, ""), around.home)):
        return os.path.normpath(named)
    markers = (*profile.markers, *around.markers)
    for folder in upwards(around.cwd):
        if any(os.path.lexists(os.path.join(folder, marker)) for marker in markers):
            return folder
    return os.path.normpath(around.cwd)


def roots(profile: Profile, around: Surroundings) -> tuple[Root, ...]:
    """Return the folders that this agent reads, each once; they need not be there."""
    found = (root for place in profile.places for root in _folders(place, profile, around))
    return tuple({root.path: root for root in reversed(tuple(found))}.values())[::-1]


def _folders(place: Place, profile: Profile, around: Surroundings) -> Iterator[Root]:
    if not place.path:
        yield from _named(place, around)
        return
    for path in _paths(place, profile, around):
        before, star, behind = path.partition(f"{os.sep}*{os.sep}")
        if not star:
            yield Root(path, place.scope)
            continue
        for name in _names(before):
            yield Root(os.path.join(before, name, behind), place.scope, name if is_name(name) else None)


def _named(place: Place, around: Surroundings) -> Iterator[Root]:
    """Yield the folders that the agent or its user names."""
    if place.scope == "plugin":
        for name, folder in sorted(around.plugins.items()):
            yield Root(os.path.abspath(folder), "plugin", name if is_name(name) else None)
    else:
        for folder in around.extra:
            path = absolute(folder, around.home) or os.path.join(around.cwd, folder)
            yield Root(os.path.normpath(path), "extra")


def _paths(place: Place, profile: Profile, around: Surroundings) -> Iterator[str]:
    path = place.path
    if path.startswith("~/"):
        yield expand(path, around.home, around.environ, place.env)
    elif os.path.isabs(path):
        yield path
    elif not _DRIVE.match(path):  # of another system
        for folder in _bases(place, project_root(profile, around), around.cwd):
            yield os.path.join(folder, *path.split("/"))


def _bases(place: Place, root: str, cwd: str) -> list[str]:
    if place.at == "root":
        return [root]
    if place.at == "cwd":
        return [os.path.normpath(cwd)]
    chain = []
    for folder in upwards(cwd):
        chain.append(folder)
        if folder == root:
            return chain if place.at == "inner" else chain[::-1]
    return [root]  # a variable names a root that the working folder is not in


def upwards(folder: str) -> Iterator[str]:
    """Yield the folder and each one above it."""
    folder = os.path.normpath(folder)
    while True:
        yield folder
        above = os.path.dirname(folder)
        if above == folder:
            return
        folder = above


def _names(folder: str) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if not name.startswith("."))
    except OSError:
        return []

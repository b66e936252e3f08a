"""Sources proposed by projects that the user agreed to, each for its project alone; in ``<state>``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from skillhub.disk.home import Home
from skillhub.disk.state_file import StateDocument, StateFile
from skillhub.formats.document import Absent, Items, Members, Read, Sha256, part, wrong
from skillhub.model.lock import LockedSource
from skillhub.model.provenance import is_same_source

_HINT = "put the file back, or move it away: then you are asked again"


@dataclass(frozen=True, slots=True)
class _Kept:
    """The file.

    Attributes:
        projects: By the key of a project its sources by alias.
        former: By the key of a project what its aliases meant before: pairs of alias, and root or URL.
        registries: Where any of them was seen to be a registry.
    """

    projects: Mapping[str, Mapping[str, LockedSource]] = field(default_factory=dict)
    former: Mapping[str, frozenset[tuple[str, str]]] = field(default_factory=dict)
    registries: frozenset[str] = frozenset()


@part
@dataclass(frozen=True, slots=True)
class _Row:
    url: str
    root: Absent[Sha256] = None


def pair(value: object) -> tuple[str, str]:
    """Read an alias and what it meant: a root or a URL."""
    match value:
        case [str() as alias, str() as meant]:
            return alias, meant
    wrong("an alias and what it meant", value)


class _File(StateDocument):
    projects: Members[str, Members[str, _Row]]
    former: Members[str, Items[Annotated[tuple[str, str], Read(pair, type="array")]]]
    registries: Items[str]


def _parse(document: _File | None) -> _Kept:
    if document is None:
        return _Kept()
    projects = {key: {alias: _source(row) for alias, row in rows.items()} for key, rows in document.projects.items()}
    former = {key: frozenset(pairs) for key, pairs in document.former.items()}
    return _Kept(projects, former, frozenset(document.registries))


def _source(row: _Row) -> LockedSource:
    return LockedSource(kind="registry" if row.root else "well-known", url=row.url, root=row.root)


class AgreedSources:
    """The agreements of a user: alias, URL and root of each source, by the project that proposes it."""

    def __init__(self, home: Home) -> None:
        path = os.path.join(home.state, "project-sources.json")
        self._file = StateFile(path, "the sources of projects that a user agreed to", _HINT, _File)

    def of(self, project: str) -> Mapping[str, LockedSource]:
        """Return what was agreed to for the project of this key."""
        return self._file.read(_parse).projects.get(project, {})

    def registries(self) -> frozenset[str]:
        """Return the places that were registries when they were agreed to."""
        return self._file.read(_parse).registries

    def former(self, project: str) -> frozenset[tuple[str, str]]:
        """Return what the aliases of the project meant before: pairs of alias, and root or URL."""
        return self._file.read(_parse).former.get(project, frozenset())

    def add(self, project: str, alias: str, source: LockedSource, registry: str | None) -> None:
        """Remember an agreement, instead of any other about that alias in that project.

        Raises:
            StateError: the disk refuses.
        """
        if self.of(project).get(alias) == source:
            return
        with self._file.locked():
            kept = self._file.read(_parse)
            here = {**kept.projects.get(project, {}), alias: source}
            places = kept.registries | ({registry} if registry else frozenset())
            self._write(kept, {**kept.projects, project: here}, places)

    def forget(self, alias: str, source: LockedSource, project: str | None = None) -> None:
        """Forget what was agreed to about that source by that alias: in that project, or in all.

        Raises:
            StateError: the disk refuses.
        """
        if not any(_without(here, alias, source) != here for here in self._file.read(_parse).projects.values()):
            return
        with self._file.locked():
            kept = self._file.read(_parse)
            left = {
                key: _without(here, alias, source) if project in (None, key) else here
                for key, here in kept.projects.items()
            }
            self._write(kept, left, kept.registries)

    def _write(
        self, kept: _Kept, projects: Mapping[str, Mapping[str, LockedSource]], registries: frozenset[str]
    ) -> None:
        """Write what is agreed to from now on, and of what no longer is that it was."""
        former = {key: {*pairs} for key, pairs in kept.former.items()}
        for key, here in kept.projects.items():
            gone = {alias: was for alias, was in here.items() if projects[key].get(alias) != was}
            former.setdefault(key, set()).update((alias, was.root or was.url) for alias, was in gone.items())
        rows = {
            key: {alias: _row(source) for alias, source in sorted(here.items())}
            for key, here in sorted(projects.items())
            if here
        }
        before = {key: sorted(pairs) for key, pairs in sorted(former.items()) if pairs}
        self._file.write({"projects": rows, "former": before, "registries": sorted(registries)})


def _without(here: Mapping[str, LockedSource], alias: str, source: LockedSource) -> Mapping[str, LockedSource]:
    """Return the agreements less the one about that alias, if it is about that source."""
    found = here.get(alias)
    if found is None or not is_same_source(found, source):
        return here
    return {name: each for name, each in here.items() if name != alias}


def _row(source: LockedSource) -> dict[str, str]:
    return {"url": source.url, **({"root": source.root} if source.root else {})}

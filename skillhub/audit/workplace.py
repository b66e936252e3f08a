"""What is installed here and what agents see of it, read anew for each question; nothing is changed, nothing run."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from threading import Lock
from typing import Any, NamedTuple

from skillhub.audit import show as shown
from skillhub.errors import NotFound, Refused, SkillhubError
from skillhub.formats.digest import Digest
from skillhub.formats.text import quote
from skillhub.install.context import Ports
from skillhub.model.finding import Finding
from skillhub.model.hosts import Profile, SkillScope, profile
from skillhub.model.manifest import Manifest
from skillhub.model.record import Skill
from skillhub.model.reference import Named
from skillhub.model.tree import Tree
from skillhub.project.store import Store
from skillhub.runtime.agent import catalog_of
from skillhub.runtime.catalog import Catalog
from skillhub.runtime.discover import Surroundings
from skillhub.runtime.walk import Cache
from skillhub.scan import capabilities_and_findings, scan
from skillhub.sources.local import read_local

_KEPT = 256  # trees of which is kept what they hold


class Contents(NamedTuple):
    """What was read off the files of a skill; ``fault`` is why something was not.

    Attributes:
        findings: What the scan sees, the worst first.
        capabilities: What the skill can do; None if nobody knows.
    """

    findings: tuple[Finding, ...]
    capabilities: tuple[str, ...] | None
    fault: str = ""


@dataclass(frozen=True)
class Workplace:
    """A project, or the user's scope, as a server shows it.

    Attributes:
        ports: Opens the world for one question about a scope, without a network.
        installed: Returns what is installed here, that of the user's scope beside a project's.
        around: Where agents run.
        error_json: Returns an error as ``--json`` prints it.
        warn: Tells whoever started the server.
    """

    ports: Callable[[SkillScope], AbstractContextManager[Ports]]
    installed: Callable[[], Sequence[Skill]]
    around: Surroundings
    error_json: Callable[[SkillhubError], Mapping[str, Any]]
    warn: Callable[[str], None]
    _cache: Cache = field(default_factory=Cache, init=False)
    _one_at_a_time: Lock = field(default_factory=Lock, init=False)

    def skills(self) -> list[Skill]:
        """Return what is installed, by name and scope."""
        return sorted(self.installed(), key=lambda skill: (skill.name, skill.scope, skill.path or ""))

    def seen(self, host: str, folder: str | None = None, reload: bool = False) -> tuple[Profile, Catalog]:
        """Return the profile of a host, and what it finds in a folder of this project.

        Raises:
            UsageError: there is no such host.
            Refused: the folder is not in the project.
        """
        row = profile(host)
        around = self.within(folder)
        with self._one_at_a_time:  # the cache is one
            return row, catalog_of(row, around, cache=self._cache, reload=reload)

    def within(self, folder: str | None) -> Surroundings:
        """Return where an agent runs that works in a folder of this project.

        Raises:
            Refused: the folder is no absolute path, or is not in the project.
        """
        if folder is None:
            return self.around
        base = os.path.realpath(self.around.cwd)
        real = os.path.realpath(folder) if os.path.isabs(folder) and "\0" not in folder else ""
        if real != base and not real.startswith(base + os.sep):
            message = f"expected a folder of this project, found {quote(folder)}"
            raise Refused(message, hint=f"an absolute path below {self.around.cwd}")
        return replace(self.around, cwd=folder)

    def show(self, name: str) -> dict[str, Any]:
        """Return everything about one installed skill; what is only offered by a source is not looked for.

        Raises:
            NotFound: it is not installed.
            SecurityError, FormatError, StateError: it cannot be read, or is not what was locked.
        """
        with self.ports(self.one(name).scope) as ports:
            return shown.show(Named(name), ports).to_json()

    def one(self, name: str) -> Skill:
        """Return an installed skill: the project's, if the user has one of that name too. Raises NotFound."""
        found = [skill for skill in self.skills() if skill.name == name]
        if not found:
            raise NotFound(f"there is no skill {quote(name)}", hint="GET /api/v1/skills lists the installed skills")
        return min(found, key=lambda skill: (not skill.managed, skill.scope == "user"))

    def contents(self, skill: Skill) -> Contents:
        """Return what a skill holds: of a locked one the tree of the lock, of another one what its folder has now."""
        try:
            if skill.managed and skill.tree is not None:
                with self.ports(skill.scope) as ports:
                    return _of_store(skill.tree, os.path.dirname(ports.store.root))
            return _contents(read_local(skill.path or "")[0].tree)
        except SkillhubError as error:
            return Contents((), None, error.message)


@lru_cache(_KEPT)
def _of_store(tree: Digest, data: str) -> Contents:
    found = Store(data).read(tree)
    if found is None:
        raise NotFound("the store does not hold it")
    return _contents(found)


def _contents(tree: Tree) -> Contents:
    try:
        can, findings = capabilities_and_findings(tree, Manifest.read(tree))
        return Contents(findings, can)
    except SkillhubError as error:
        return Contents(scan(tree), None, error.message)

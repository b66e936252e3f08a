"""Audit of sources: their answers about locked skills, their URLs and roots compared with the lock, their trust."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from skillhub.audit.report import Locations, note
from skillhub.audit.verify import StoredSkills
from skillhub.command.ports import Network, Place, Ports
from skillhub.command.state import State
from skillhub.disk import files
from skillhub.errors import (
    Forbidden,
    FormatError,
    NameNotOwned,
    NotFound,
    Refused,
    SecurityError,
    SkillhubError,
    SourceError,
    UnsafeTransfer,
    UsageError,
)
from skillhub.formats.text import as_command, command
from skillhub.install.candidates import ReleaseStatus, without_files
from skillhub.install.gather import is_fixed, newest_of
from skillhub.model.finding import Finding
from skillhub.model.lock import Lock, Locked, LockedSource
from skillhub.model.provenance import source_changes
from skillhub.model.reference import Local, Remote
from skillhub.model.tree import SIGNATURE
from skillhub.project.intent import sources_since
from skillhub.sources.configured import Source, Sources
from skillhub.sources.local import read_local
from skillhub.trust.roles import (
    CEREMONY_DAYS,
    LISTING,
    NAMESPACES,
    RELEASES,
    ROOT,
    SNAPSHOT,
    TARGETS,
    TIMESTAMP,
    MetadataExpiry,
    RootView,
    changes,
    kept_metadata,
    metadata_files,
    rule_of,
    view_root,
)


class Inquiry:
    """Asks the sources of the locked skills, and checks the sources themselves.

    Args:
        state: The lock and the intent.
        locations: The locations of findings.
        ports: What the command works with.
        refresh: Whether to ask; otherwise the last answers of registries count, and only local places are read.

    Attributes:
        statuses: The status of each skill from a registry, by the registry's present or last answer.
        findings: The findings from the answers.
        notes: The sources that were not asked or did not answer, and other remarks for the report.
    """

    def __init__(self, state: State, locations: Locations, ports: Ports, *, refresh: bool) -> None:
        self.state = state
        self.locations = locations
        self.ports = ports
        self.statuses: dict[str, ReleaseStatus] = {}
        self.findings: list[Finding] = []
        self.notes: list[str] = []
        self._refresh = refresh

    def ask_registries(self, names: Iterable[str]) -> None:
        """Ask the registries of these skills; for one that cannot or must not be asked, its last answer counts.

        Raises:
            StateError: their answers cannot be written to the disk.
        """
        lock, sources = self.state.lock, self.ports.sources
        by_source: dict[str, list[str]] = {}
        for name in names:
            by_source.setdefault(lock.skills[name].source, []).append(name)
        for alias, skills in by_source.items():
            locked = lock.sources.get(alias)
            if locked is None or locked.root is None:
                continue
            source = sources.all().get(alias)
            is_same = source is not None and source.is_meant(locked)
            if source is not None and is_same and (self._refresh or source.embedded):
                self._ask_registry(source, skills)
            elif is_same or self._refresh:
                self.notes.append(f"{alias} was not contacted: {self._last_answer(locked)}")
            for name in skills:
                if name not in self.statuses:
                    entry = lock.skills[name]
                    self.statuses[name] = ReleaseStatus.last_seen(name, entry, locked.root, sources)

    def _last_answer(self, locked: LockedSource) -> str:
        when = self.ports.sources.last_seen(locked.root).refreshed if locked.root else None
        return f"its last answer is used, {when}" if when else "no earlier answer of it is stored"

    def _ask_registry(self, source: Source, names: Iterable[str]) -> None:
        """Ask a registry about each of these skills, until one request fails."""
        try:
            registry = self.ports.open_registry(source)
            for name in names:
                try:
                    entry = self.state.lock.skills[name]
                    index = registry.release_index([entry.own_name(name)])
                    self.statuses[name] = ReleaseStatus(name, entry, index)
                except NotFound as error:
                    self._add_finding("release-gone", error.message, name)
                except NameNotOwned as error:
                    status = ReleaseStatus.last_seen(name, entry, source.root, self.ports.sources)
                    if not isinstance(status.objection, NameNotOwned):  # otherwise the check of the skill reports it
                        self._add_finding("name-not-owned", error.message, name)
        except Forbidden as error:
            self.notes.append(f"{source.alias} was not contacted, and its last answer is used: {error.message}")
        except SourceError as error:
            self.findings.append(self._finding(source.alias, "source-unreachable", error.message))
        except (SecurityError, FormatError) as error:
            self.findings.append(self._finding(source.alias, "source-refused", error.message))

    def ask_advisories(self) -> None:
        """Read the advisories; if that fails, it is a finding, and no skill is checked against them."""
        advisories = self.ports.advisories
        try:
            advisories.known()
        except SkillhubError as error:
            rule = "source-unreachable" if isinstance(error, SourceError) else "source-refused"
            message = f"the advisories cannot be read: {error.message} ({error.where})"
            finding = note(rule, message, None, (None, 0))
            self.findings.append(replace(finding, hint=error.hint) if error.hint else finding)
            self.ports.advisories.ignore_all()
        self.notes += advisories.warnings()
        for text in advisories.outdated:
            if self._refresh:
                self.findings.append(note("source-unreachable", text, None, (None, 0)))
            else:
                self.notes.append(text)

    def is_unchanged(self, name: str, stored: StoredSkills) -> bool:
        """Return whether a local folder still has exactly the files that are locked and stored, without a signature.

        The folder passes the checks of an install, and the manifest agrees with the lock. In every other case, also
        if an error occurs, ``ask_places`` reports the difference.
        """
        entry, project = self.state.lock.skills[name], self.ports.project
        if not entry.local or entry.patch or entry.signed_by or project.scope != "project":
            return False
        path = entry.path or "."
        if path == "." or os.path.isabs(path) or self.state.wanted(name).path != path:
            return False
        with suppress(SkillhubError):
            manifest, tree = stored.manifest(entry.tree), stored.tree(entry.tree)
            expected = (entry.own_name(name), entry.version)
            if manifest is None or tree is None or (manifest.name, manifest.version) != expected:
                return False
            return SIGNATURE not in tree and read_local(files.inside(project.base, path)).tree.digest == entry.tree
        return False

    def ask_places(self, names: Iterable[str]) -> None:
        """Ask sources that are not registries for newer versions, compared with the lock as an update would do.

        Raises:
            StateError: the disk prevents it.
        """
        ports = replace(self.ports, network=_PlaceNetwork(self.ports.network))
        for place, skills in self._by_place(names).items():
            if not self._refresh and not self.state.lock.skills[skills[0]].local:
                self.notes.append(f"{place} was not contacted: newer versions are unknown")
                continue
            try:
                self._ask_place(skills, ports)
            except (SourceError, UnsafeTransfer) as error:
                self.notes.append(f"{place} could not be asked for newer versions: {error.message}")

    def _by_place(self, names: Iterable[str]) -> dict[str, list[str]]:
        """Return the skills that may be outdated, by place, without those of registries, which were asked before."""
        lock, by_place = self.state.lock, dict[str, list[str]]()
        for name in names:
            entry = lock.skills[name]
            if entry.named:
                source, locked = self.ports.sources.all().get(entry.source), lock.sources.get(entry.source)
                if source is None or source.root is not None or source.locked() != locked:
                    continue
            if not is_fixed(self.state.wanted(name), entry):
                by_place.setdefault(f"./{entry.path}" if entry.local else entry.place, []).append(name)
        return by_place

    def _ask_place(self, names: Iterable[str], ports: Ports) -> None:
        locked = self.state.lock.skills
        unknown: dict[str, list[str]] = {}

        def on_error(name: str, error: SkillhubError) -> None:
            if isinstance(error, NotFound | UsageError | Refused):
                unknown.setdefault(error.message, []).append(name)
            elif isinstance(error, SecurityError | FormatError) and not isinstance(error, UnsafeTransfer):
                message = f"the present version at {locked[name].place} is refused: {error.message}"
                self._add_finding("newer-refused", message, name)
            else:
                raise error  # the place is unreachable, also for its other skills

        newer = newest_of(names, self.state, ports, describe=without_files, on_error=on_error)
        for newest in newer.found.values():
            before = locked[newest.name]
            old, new = _version_or_origin(before, newest.entry), _version_or_origin(newest.entry, before)
            message = f"{newest.name} is locked at {old}, {before.place} has {new}"
            diff, update = (command(ports.project.scope, verb, newest.name) for verb in ("diff", "update"))
            self._add_finding("outdated", message, newest.name, f"{diff} shows what it changes, {update} installs it")
        self.notes += newer.warnings
        self.notes += [
            f"newer versions are unknown for {', '.join(skills)}: {message}" for message, skills in unknown.items()
        ]

    def configured(self, aliases: Iterable[str]) -> Iterator[Finding]:
        """Yield the findings about sources in this user's configuration and in the lock."""
        own = self.ports.sources.all()
        for alias in aliases:
            source, locked, place = (own.get(alias), self.state.lock.sources.get(alias), self.locations.source(alias))
            if source is None:
                message = f"{alias} ({locked.url if locked else ''}) is not one of your sources"
                unknown = note("source-unknown", message, None, place)
                if locked is None:
                    yield unknown
                else:
                    add = as_command("skillhub", "source", "add", alias, locked.url)
                    yield replace(unknown, hint=f"remove what came from it, or if you trust it: {add}")
                continue
            if locked is not None and locked != source.locked():
                message = f"{alias} is {source.locked()}; the lock has {locked}"
                yield note("source-changed", message, None, place)
            if source.url.lower().startswith("http://"):
                yield note("source-http", f"{alias} is at {source.url}", None, place)
            if source.root is not None and not source.embedded:
                yield from self._expiry_findings(source)

    def _expiry_findings(self, source: Source) -> Iterator[Finding]:
        now = self.ports.clock()
        try:
            view = view_source(source, self.ports.sources, now)
        except SkillhubError as error:
            yield self._finding(source.alias, "source-refused", error.message)
            return
        for entry, warning in zip(view.late, view.warnings, strict=True):
            if entry.expires_within(0, now):
                yield self._finding(source.alias, "source-expired", f"{entry.role} expired {entry.expires}")
            else:
                yield self._finding(source.alias, "source-expiring", warning)

    def changed(self, before: Lock) -> Iterator[Finding]:
        """Yield the changes of sources since an earlier lock; sources that only skillhub.toml names count, too."""
        rules = {"added": "source-added", "removed": "source-removed", "changed": "origin-changed"}
        now = sources_since(before, self.state.lock, self.ports.project.intent())
        for change in source_changes(before.sources, now):
            location = self.locations.source(change.name) if change.after else (None, 0)
            yield note(rules[change.status], change.line, None, location)

    def _add_finding(self, rule: str, message: str, name: str, hint: str = "") -> None:
        finding = note(rule, message, name, self.locations.skill(name))
        self.findings.append(replace(finding, hint=hint or finding.hint))

    def _finding(self, alias: str, rule: str, message: str) -> Finding:
        return note(rule, f"{alias}: {message}", None, self.locations.source(alias))


class _PlaceNetwork:
    """Opens places; a place that does not exist is a ``SourceError``, since it fails for all of its skills."""

    def __init__(self, network: Network) -> None:
        self.open_registry, self._open_place = network.open_registry, network.open_place
        self.fetch_root, self.before_requests = network.fetch_root, network.before_requests

    def open_place(self, ref: Remote | Local, pin: str | None = None, **more: Any) -> Place:  # noqa: ANN401 - as `Network`
        try:
            return self._open_place(ref, pin, **more)
        except NotFound as error:
            raise SourceError(error.message, where=error.where) from error


def _version_or_origin(entry: Locked, other: Locked) -> str:
    """Return the version of an entry, or its origin in short if the other entry has the same version."""
    return entry.version if entry.version and entry.version != other.version else entry.short


# The trust in a source, as stored on this machine: its root, its keys, the expiry of its metadata; no network.

_ROLES = (ROOT, TARGETS, SNAPSHOT, TIMESTAMP, NAMESPACES, RELEASES, LISTING)


@dataclass(frozen=True, slots=True)
class SourceView:
    """The trust in a source.

    Attributes:
        root: The root that is trusted now.
        metadata: The metadata of each role at the last refresh of the source.
        late: The metadata signed by offline keys that has expired or soon will.
        refreshed: The time of the last refresh (UTC); None if never, or if the source is inside the package.
        changes: The changes of trust since the source was added, one line each.
    """

    root: RootView
    metadata: tuple[MetadataExpiry, ...]
    late: tuple[MetadataExpiry, ...]
    refreshed: str | None
    changes: tuple[str, ...]

    @property
    def warnings(self) -> tuple[str, ...]:
        """A line for each entry of ``late``."""
        return tuple(f"{entry.role} expires {entry.expires}; tell the registry's operator" for entry in self.late)


def view_source(source: Source, sources: Sources, now: datetime) -> SourceView:
    """Return the trust in a registry, as stored on this machine.

    Raises:
        FormatError: the stored metadata is damaged.
        StateError: it cannot be read.
    """
    first = view_root(sources.root(source), source.url)
    folder = sources.metadata(source)
    newest = kept_metadata(folder, ROOT)
    root = view_root(newest, folder) if newest else first
    metadata = metadata_files(folder, _ROLES)
    late = tuple(
        entry for entry in metadata if not rule_of(entry.role).online and entry.expires_within(CEREMONY_DAYS, now)
    )
    refreshed = sources.last_seen(source.root).refreshed if source.root else None
    return SourceView(root, metadata, late, refreshed, tuple(changes(first, root)))

"""``skillhub.toml``: the skills that a project wants, the sources that it proposes, the findings that it accepts."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from functools import lru_cache
from typing import Annotated, ClassVar, Literal, get_args

from pydantic import Field

from skillhub.disk.home import INTENT
from skillhub.errors import FormatError, UsageError, hinting
from skillhub.formats.document import (
    ALIAS,
    NAME,
    Absent,
    Alias,
    Before,
    Document,
    Items,
    Members,
    Read,
    Sha256,
    SkillName,
    Visible,
    name_that,
    part,
    text_that,
    visible,
    wrong,
)
from skillhub.formats.text import clean, is_alias, is_name, is_object_id, quote
from skillhub.formats.toml import spell_toml
from skillhub.model import reference
from skillhub.model.hosts import LinkKind
from skillhub.model.lock import Lock, Locked, LockedSource
from skillhub.model.reference import Git, GitHub, Local, Mcp, Oci, Remote, canonical, holds_secret, parse_remote
from skillhub.model.version import range_of

PlaceRef = Git | GitHub | Oci | Mcp | Local  # the targets of an alias besides a registry and a site
PlaceRefs = Mapping[str, PlaceRef]  # by alias
SourceKind = Literal["registry", "well-known", "git", "oci", "mcp", "folder"]
PLACE_KIND: Mapping[type[PlaceRef], SourceKind] = {Git: "git", GitHub: "git", Oci: "oci", Mcp: "mcp", Local: "folder"}
_URL = re.compile(r"https?://[^/?#\\]|embedded:\Z", re.ASCII | re.IGNORECASE)


def _range(value: object) -> str:
    try:
        range_of(text := visible(value))
    except UsageError as error:
        raise FormatError(error.message) from error
    return text


def _url(value: object) -> str:
    url = visible(value)
    place = place_at(url)
    if isinstance(place, Local) or (place is None and not _URL.match(url)) or holds_secret(url):
        # The message must not repeat a credential.
        raise FormatError("expected the URL of a source, https:// and no user in it, or a repository as owner/repo")
    return url if place is None else str(place)


def _place(value: object) -> str:
    place = visible(value)
    if "://" in place and holds_secret(place):
        raise FormatError("expected a place without password or another credential", hint=reference.NO_SECRET)
    return place


_PLACES = 'a place is a table: { source = "acme", version = "^1" }, { from = "owner/repo" } or { path = "skills/x" }'


def _short(value: object) -> object:
    # `name = "^1.2"` is the short form, as in cargo; an error in it has no key to name.
    if isinstance(value, str):
        with hinting(_PLACES if ":" in value or "/" in value else None):
            return {"version": _range(value)}
    return value if isinstance(value, dict) else wrong("a string or a table", value)


@lru_cache(maxsize=256)  # one command parses the URL of a source many times
def place_at(url: str) -> PlaceRef | None:
    """Return the reference in the URL of a source; None for a registry or a site."""
    try:
        ref = reference.parse_ref(url)
    except UsageError:
        return None
    return ref if isinstance(ref, PlaceRef) else None


_Source = Annotated[str, Read(name_that(is_alias, "source"), **ALIAS)]
_Plugin = Annotated[str, Read(name_that(is_name, "plugin"), **NAME)]
_RANGES = {"type": "string", "pattern": r"^[0-9A-Za-z.*^~<>=!,+ -]+$"}
_Range = Annotated[str, Read(_range, **_RANGES)]
_Url = Annotated[str, Read(_url, type="string", format="uri")]
_Place = Annotated[str, Read(_place, type="string", minLength=1)]
_LINKS = get_args(LinkKind)
_Link = Annotated[LinkKind, Read(text_that(_LINKS.__contains__, '"copy" or "symlink"'), enum=[*_LINKS])]


@part
@dataclass(frozen=True, slots=True)
class Wanted:
    """One line of ``[skills]``: a skill of a source within a range, of a location on the network, or a local skill.

    Attributes:
        path: The path of a local skill; beside ``git`` a folder in the repository.
        git: The URL of a repository, at ``rev`` if given.
        origin: Any reference to a location on the network; its key is ``from``.
        plugin: The plugin at that location that the skill is part of; for a local skill it is only shown.
        name: The skill's own name, if the key of the line differs.
    """

    UNKNOWN: ClassVar = "known: source, version, path, git, rev, from, plugin, name"

    source: Absent[_Source] = None
    version: Absent[_Range] = None
    path: Absent[Visible] = None
    git: Absent[_Place] = None
    rev: Absent[Visible] = None
    origin: Annotated[Absent[_Place], Field(validation_alias="from")] = None
    plugin: Absent[_Plugin] = None
    name: Absent[SkillName] = None

    @classmethod
    def of(cls, ref: Remote, path: str | None, plugin: str | None) -> Wanted:
        """Return the line for one skill at the location ``ref``."""
        if isinstance(ref, Git):
            return cls(git=ref.url, rev=ref.rev, path=path, plugin=plugin)
        if isinstance(ref, GitHub):
            return cls(origin=str(replace(ref, path=path)), plugin=plugin)
        if isinstance(ref, Mcp):
            ref = replace(ref, path=path)
        return cls(origin=str(ref), plugin=plugin)

    def check(self) -> None:
        """Refuse keys that contradict each other, and an invalid location.

        Raises:
            FormatError: the line has such keys or such a location.
        """
        _one_origin(self)
        try:
            place = self.remote()
            if place is not None and parse_remote(str(place)) != place:
                raise UsageError(f"{quote(str(place))} is not a path in a repository")
        except UsageError as error:
            raise FormatError(error.message, hint=error.hint) from error

    def remote(self) -> Remote | None:
        """Return the location on the network; None for a local skill and for a skill of an alias."""
        if self.git is not None:
            return Git(self.git, self.rev, self.path)
        return parse_remote(self.origin) if self.origin is not None else None

    def spell(self) -> dict[str, str]:
        """Return the keys and values of the line."""
        named = {"source": self.source, "version": self.version, "git": self.git, "rev": self.rev}
        values = {**named, "from": self.origin, "path": self.path, "plugin": self.plugin, "name": self.name}
        return {key: value for key, value in values.items() if value is not None}


@part
@dataclass(frozen=True, slots=True)
class ProposedSource:
    """A source that the project proposes; a registry that the user has not configured is a ``Question``.

    The alias of a repository, an OCI artifact or an MCP server, which prove nothing, is a name in this file only.
    """

    UNKNOWN: ClassVar = "known: url, root"

    url: _Url
    root: Absent[Sha256] = None

    def check(self) -> None:
        """Refuse a root for a source that is no registry.

        Raises:
            FormatError: there is one.
        """
        if self.root is not None and self.place is not None:
            raise FormatError("expected no root: this is not a registry", where=".root")

    @property
    def place(self) -> PlaceRef | None:
        """The target of the alias; None for a registry and for a site."""
        return place_at(self.url)

    def over(self, locked: LockedSource | None) -> LockedSource:
        """Return the proposed source, of the kind and root that the lock has; without the lock it is a registry."""
        kind, root = (locked.kind, locked.root) if locked else ("registry", None)
        return LockedSource(kind=kind, url=self.url.rstrip("/"), root=self.root or root)


@part
@dataclass(frozen=True, slots=True)
class _Install:
    UNKNOWN: ClassVar = "known: agents, link"

    agents: Items[Visible] = ()
    link: Absent[_Link] = None


def _day(value: object) -> date:
    try:
        day = value if type(value) is date else date.fromisoformat(value if isinstance(value, str) else "")
    except ValueError:
        wrong("a day such as 2027-01-31", value)
    return day


@part
@dataclass(frozen=True, slots=True)
class Suppression:
    """One ``[[audit.suppress]]``: a finding that a person accepted in exactly this tree, and the reason.

    Attributes:
        path: The file of the skill; None for all files.
        expires: The last day on which the suppression counts.
    """

    UNKNOWN: ClassVar = "known: rule, skill, path, tree, reason, expires"

    rule: Visible
    skill: SkillName
    tree: Sha256
    reason: Visible
    expires: Annotated[date, Read(_day, type="string", format="date")]
    path: Absent[Visible] = None

    def is_over(self, now: datetime) -> bool:
        """Return whether its last day has passed."""
        return now.date() > self.expires


@part
@dataclass(frozen=True, slots=True)
class _Audit:
    UNKNOWN: ClassVar = "known: [[audit.suppress]]"

    suppress: Items[Suppression] = ()


@part
@dataclass(frozen=True, slots=True)
class _Workspace:
    UNKNOWN: ClassVar = "known: members"

    members: Items[Visible]

    def check(self) -> None:
        """Refuse a pattern that could match anything but folders below this one."""
        if len(self.members) > 1000:  # each pattern is matched with all folders
            raise FormatError("expected at most 1000 patterns", where=".members")
        for each in self.members:
            if any(part in ("", ".", "..", "**") or "\\" in part or ":" in part for part in each.split("/")):
                hint = 'such as "packages/*"; ** is not known'
                raise FormatError(f"expected a folder in this one, found {quote(each)}", where=".members", hint=hint)


class IntentTables(Document):
    """The tables of ``skillhub.toml`` besides its policy."""

    OBJECT = "a table"
    UNKNOWN = "known: [audit], [install], [policy], [skills], [sources], [workspace]"

    audit: _Audit = _Audit()
    install: _Install = _Install()
    skills: Members[SkillName, Annotated[Wanted, Before(_short, **_RANGES)]] = Field(default_factory=dict)
    sources: Members[Alias, ProposedSource] = Field(default_factory=dict)
    workspace: Absent[_Workspace] = None


@dataclass(frozen=True, slots=True)
class Intent:
    """The whole file without its policy; an absent file is an empty one.

    Attributes:
        lists: Whether it has a table of skills; if so, a skill outside it is wanted only if another skill needs it.
        suppressions: Findings that an audit counts as accepted; an install does not.
        members: Patterns of the folders that are packages of this workspace; None if this is no workspace.
        packages: For each skill, the paths of the packages that want it; the path of the root is empty.
        package: The path of the package on which the command works.
    """

    skills: Mapping[str, Wanted] = field(default_factory=dict)
    sources: Mapping[str, ProposedSource] = field(default_factory=dict)
    agents: tuple[str, ...] = ()
    link: LinkKind | None = None
    lists: bool = False
    suppressions: tuple[Suppression, ...] = ()
    members: tuple[str, ...] | None = None
    packages: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    package: str = ""

    def range_of(self, name: str) -> str | None:
        """Return the range of versions that a skill may have; None without one."""
        return self.skills[name].version if name in self.skills else None

    @classmethod
    def of(cls, tables: IntentTables) -> Intent:
        """Return the intent in these tables."""
        rows = tables.skills.items()
        skills = {key: replace(each, name=None) if each.name == key else each for key, each in rows}
        agents, link, lists = tables.install.agents, tables.install.link, "skills" in tables.model_fields_set
        members = tables.workspace.members if tables.workspace else None
        return cls(skills, tables.sources, agents, link, lists, tables.audit.suppress, members)

    def is_here(self, name: str) -> bool:
        """Return whether the package on which the command works wants a skill."""
        return name in self.skills and self.package in self.packages.get(name, (self.package,))


def _one_origin(wanted: Wanted) -> None:
    """Refuse keys that contradict each other."""
    if wanted.path is not None and (wanted.source or wanted.version):
        raise FormatError("a path is not allowed with source or version")
    kinds = [wanted.source or wanted.version, wanted.path if wanted.git is None else None, wanted.git, wanted.origin]
    if sum(each is not None for each in kinds) > 1:
        raise FormatError("expected one of source, path, git and from")
    if wanted.rev is not None and wanted.git is None:
        raise FormatError("a rev is allowed only with git")
    if wanted.plugin is not None and (wanted.git, wanted.origin, wanted.path) == (None, None, None):
        raise FormatError("a plugin is allowed only with git, from or path")


def is_from(entry: Locked, place: Remote | Local, base: str = "") -> bool:
    """Return whether a locked skill is from this location at its revision; folders in it count."""
    if isinstance(place, Local):
        full = os.path.normpath(os.path.join(base, entry.path or ""))
        return entry.local and os.path.join(full, "").startswith(os.path.join(os.path.normpath(place.path), ""))
    folder = getattr(place, "path", None)
    inside = folder is None or entry.path == folder or (entry.path or "").startswith(f"{folder}/")
    return inside and canonical(entry.place) == canonical(place.source)


def is_at_place(entry: Locked, place: PlaceRef, base: str) -> bool:
    """Return whether a locked skill is from this location, at any revision."""
    if isinstance(place, Local):
        return is_from(entry, place, base)
    try:
        return not is_alias(entry.place) and canonical(parse_remote(entry.place).place) == canonical(place.place)
    except UsageError:
        return False


def in_full(intent: Intent, lock: Lock, known: PlaceRefs | None = None) -> Intent:
    """Return the intent with each alias of a location replaced by the location.

    Args:
        intent: The intent as written; its own definition of an alias takes precedence over the user's.
        lock: The lock, for the folder and the plugin of a locked skill.
        known: The locations for which this user has an alias.

    Raises:
        FormatError: the line has a range of versions, or the alias stands for a folder of this machine.
    """
    # The project's definition of an alias counts; another check compares it with the user's.
    own_aliases = {*lock.sources, *intent.sources}
    places = {alias: place for alias, place in (known or {}).items() if alias not in own_aliases}
    places |= {alias: each.place for alias, each in intent.sources.items() if each.place is not None}
    found = {}
    for name, wanted in intent.skills.items():
        place = places.get(wanted.source or "")
        if place is None:
            continue
        if wanted.version is not None or isinstance(place, Local):
            what = "a range of versions" if wanted.version else "a folder of this machine"
            hint = "a branch, tag or commit is pinned in the source: owner/repo@v2" if wanted.version else "path = …"
            raise FormatError(f"{wanted.source} is {place}: {what} is not allowed", where=f"skills.{name}", hint=hint)
        entry = lock.skills.get(name)
        if entry is not None and is_from(entry, place):
            line = Wanted.of(place, entry.path, entry.plugin)
        else:
            line = Wanted.of(place, getattr(place, "path", None), None)
        found[name] = replace(line, name=wanted.name)
    return replace(intent, skills={**intent.skills, **found}) if found else intent


def wanted_of(entry: Locked) -> Wanted:
    """Return the line for a locked skill that the intent does not have: the newest version from the same origin."""
    if entry.local:
        return Wanted(path=entry.path, plugin=entry.plugin, name=entry.name)
    if entry.named:
        return Wanted(source=entry.source, name=entry.name)
    return replace(Wanted.of(parse_remote(entry.place), entry.path, entry.plugin), name=entry.name)


def sources_since(before: Lock, lock: Lock, intent: Intent) -> dict[str, LockedSource]:
    """Return the sources of lock and intent, to compare them with those of an earlier lock.

    A source that changed in the lock is the lock's; another that is in both has the URL and root of the intent.
    """
    found = dict(lock.sources)
    for alias, wanted in intent.sources.items():
        locked = lock.sources.get(alias)
        if wanted.place is None and locked in (None, before.sources.get(alias)):
            found[alias] = wanted.over(locked)
    return found


def is_proposed(agreed: LockedSource, proposal: LockedSource) -> bool:
    """Return whether the agreed source is the proposed one: the same URL, and the same root if one is proposed."""
    if proposal.root is None and proposal.kind == "registry":
        return agreed.url == proposal.url
    return agreed == proposal


def moved(line: Wanted, old: str, new: str) -> Wanted:
    """Return the line, whose path is relative to the package ``new``, with the path relative to ``old``."""
    if old == new or line.path is None or line.git is not None or os.path.isabs(line.path) or line.path[0] == "~":
        return line
    path = posixpath.normpath(posixpath.join(new, line.path))
    return replace(line, path=posixpath.relpath(path, old) if old else path)


def two_lines(name: str, one: tuple[Wanted, str], other: tuple[Wanted, str]) -> FormatError:
    """Return the error for two different lines for one skill; each argument is a line and the path of its package."""
    both = (f"{f'{path}/' if path else ''}{INTENT}: {clean(spell_toml(line.spell()))}" for line, path in (one, other))
    message = f"two packages want different lines for {name}: {'; '.join(both)}"
    return FormatError(message, where=posixpath.join(one[1], INTENT), hint="write the same line into both files")


def is_fixed(wanted: Wanted, entry: Locked) -> bool:
    """Return whether the intent names exactly the locked commit or artifact, so that there is no newer one."""
    ref = wanted.remote()
    if isinstance(ref, Git | GitHub):
        return ref.rev is not None and is_object_id(ref.rev) and ref.rev == entry.rev
    return isinstance(ref, Oci) and ref.digest is not None and ref.source == entry.place

"""A repository that holds skills, seen as a place: what it offers, and the very files of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

from skillhub.archive import Unpacked
from skillhub.errors import Forbidden, FormatError, NotFound, SourceError, UnsafeTransfer, WrongBytes
from skillhub.model.layout import is_within, name_of_folder, skill_folders
from skillhub.model.marketplace import Elsewhere
from skillhub.model.release import Index, Release
from skillhub.model.text import is_object_id, quote
from skillhub.world.hop import may_lead
from skillhub.world.plugins import Rooted, listed_plugins, plugin_skills
from skillhub.world.snapshot import Folders, Snapshot
from skillhub.world.survey import Survey

_AT_ONCE = 8  # repositories that are opened side by side


OpenElsewhere = Callable[[str, str | None], Snapshot]
_Failure = SourceError | FormatError | UnsafeTransfer | Forbidden
_Where = tuple[str, str | None]


@dataclass(frozen=True, slots=True)
class _Here:
    """What a repository has without those that its marketplace names.

    Attributes:
        words: The names and folders of what was found.
    """

    found: Sequence[Release]
    words: Collection[str]
    elsewhere: Sequence[tuple[Rooted, Elsewhere]]
    index: Index

    def needed(self, words: Collection[str] | None) -> Sequence[tuple[Rooted, Elsewhere]]:
        """Return the plugins elsewhere that may hold what somebody is after and nothing here is."""
        if words is None or not all(word.strip("/") in self.words for word in words if ":" not in word):
            return self.elsewhere
        asked = {word.rpartition(":")[0] for word in words}
        return [(plugin, source) for plugin, source in self.elsewhere if plugin.name in asked]


class Repository:
    """A place: the skills of one snapshot, and of the plugins that its marketplace keeps in other repositories.

    Args:
        snapshot: What is in the repository.
        url: Where it is, absolute, as the lock will say it.
        path: Look only into this folder, which is a skill or holds several.
        elsewhere: Opens the repository at a URL, at a commit, branch or tag, or its newest commit, unless a policy
            forbids it; several threads may call it at once.
        leads: Raises for the URL of a repository that a marketplace here, at a URL, may not name.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        *,
        url: str,
        path: str | None = None,
        elsewhere: OpenElsewhere,
        leads: Callable[[str, str], None] = may_lead,
    ) -> None:
        self._own: _Where = (url, snapshot.rev)
        self._top = path or ""
        self._elsewhere = elsewhere
        self._leads = leads
        self._opened = {self._own: Folders(snapshot, url)}
        self._indexes: dict[frozenset[str] | None, Index] = {}

    def index(self, words: Collection[str] | None = None) -> Index:
        """Return the skills by name; those of one name that differ stand side by side, the foremost first.

        Args:
            words: Names, ``plugin:name`` or folders that somebody is after: plugins in other repositories are then
                only opened if it takes that. None is everything.

        Raises:
            NotFound: there is no folder ``path``.
            FormatError: there are too many skills.
            SourceError: files cannot be had, or a plugin that was asked for cannot be reached.
            SecurityError: files are not those of the commit.
            Forbidden: a policy forbids the repository that has what was asked for, or may have.
        """
        asked = None if words is None else frozenset(words)
        if asked not in self._indexes:
            self._indexes[asked] = self._index(asked)
        return self._indexes[asked]

    def unpacked(self, release: Release) -> Unpacked:
        """Return the files of a skill; its release may come from ``index`` or be built from a lock.

        Raises:
            NotFound: there is no such folder, commit or repository.
            WrongBytes: another commit came than the one that was pinned.
            UnsafeTransfer: the repository is one that no marketplace may name.
            Forbidden: a policy forbids it.
            SourceError, SecurityError, FormatError: as ``Folders.unpack`` says.
        """
        return self._folders(release).unpack(release.path or "")

    def committed(self, release: Release) -> str | None:
        """Return when the commit of a release was made, UTC, as whoever made it says; None of a folder.

        Raises:
            NotFound, WrongBytes, UnsafeTransfer, SourceError: as ``unpacked`` does.
        """
        return self._folders(release).snapshot.date

    @cached_property
    def _here(self) -> _Here:
        """What the repository itself has, looked for once however many ask."""
        url, _ = self._own
        folders = self._opened[self._own]
        if self._top and not any(is_within(path, self._top) for path in folders.snapshot.nodes):
            raise NotFound(f"there is no folder {quote(self._top)} here", where=url)
        survey = Survey.of(folders.snapshot, self._top)
        listed = listed_plugins(survey, self._top)
        warnings = list(listed.warnings)
        owners = plugin_skills(survey, listed.here)
        spots = {each: owners.get(each) for each in skill_folders(survey.heads, self._top, owners)}
        found = tuple(self._releases(self._own, spots, survey, warnings))
        words = frozenset(text for each in found for text in (each.name, each.path) if text)
        return _Here(found, words, listed.elsewhere, Index(self._told_apart(found), warnings=tuple(warnings)))

    def _index(self, words: Collection[str] | None) -> Index:
        here = self._here
        needed = here.needed(words)
        if not needed:
            return here.index
        found, warnings = list(here.found), list(here.index.warnings)
        forbidden = None
        for plugin, where in self._open_all(needed):
            if isinstance(where, Exception):
                if words is not None and any(word.startswith(f"{plugin.name}:") for word in words):
                    raise where
                warnings.append(f"plugin {plugin.name} was left out: {where}")
                forbidden = where if isinstance(where, Forbidden) else forbidden
                continue
            there = Survey.of(self._opened[where].snapshot, plugin.root)
            found += self._releases(where, plugin_skills(there, [plugin]), there, warnings)
        if forbidden is not None and words is not None and not _all_here(words, found):
            raise forbidden
        return Index(self._told_apart(found), warnings=tuple(warnings))

    def _folders(self, release: Release) -> Folders:
        where = (release.url, release.rev)
        if where not in self._opened:
            where = self._open(where)
        return self._opened[where]

    def _open(self, where: _Where) -> _Where:
        """Open another repository and return it with the commit that it is at."""
        url, rev = where
        self._leads(url, self._own[0])
        commit = self._elsewhere(url, rev)
        if rev is not None and is_object_id(rev) and commit.rev != rev:
            raise WrongBytes(f"expected the commit {rev}, found {commit.rev}", where=url)
        self._opened.setdefault((url, commit.rev), Folders(commit, url))
        return url, commit.rev

    def _open_all(
        self, plugins: Sequence[tuple[Rooted, Elsewhere]]
    ) -> Iterator[tuple[Rooted, _Where | _Failure]]:
        """Yield each plugin with its repository, opened once however many are in it, or with why it was not."""
        asked = dict.fromkeys((source.url, source.rev) for _, source in plugins)

        def opened(where: _Where) -> _Where | _Failure:
            try:
                return self._open(where)
            except (SourceError, FormatError, UnsafeTransfer, Forbidden) as error:
                return error

        if asked:
            with ThreadPoolExecutor(min(_AT_ONCE, len(asked))) as pool:
                found = dict(zip(asked, pool.map(opened, asked), strict=True))
            for plugin, source in plugins:
                yield plugin, found[source.url, source.rev]

    def _releases(
        self, where: _Where, spots: Mapping[str, str | None], survey: Survey, warnings: list[str]
    ) -> Iterator[Release]:
        """Yield the releases of these folders, which are parts of these plugins."""
        url, rev = where
        for folder, plugin in spots.items():
            head = survey.heads[folder]
            if head.internal and folder != self._top:
                warnings.append(f"{quote(folder)} was left out: its author marks it as internal")
                continue
            yield Release(
                name=head.name or name_of_folder(folder or url),
                url=url,
                type="tree",
                description=head.description,
                rev=rev,
                path=folder or None,
                plugin=plugin,
            )

    def _told_apart(self, found: Iterable[Release]) -> dict[str, tuple[Release, ...]]:
        """Return the releases by name; the same bytes twice are one skill."""
        skills: dict[str, list[Release]] = {}
        for release in found:
            skills.setdefault(release.name, []).append(release)
        return {name: self._distinct(releases) for name, releases in skills.items()}

    def _distinct(self, releases: Sequence[Release]) -> tuple[Release, ...]:
        """Return the first of each content, or the first in a plugin; bytes are read only where need be."""
        if len(releases) == 1:
            return tuple(releases)
        shapes = [self._folders(each).shape(each.path or "") for each in releases]
        often = Counter(shapes)
        kept: dict[object, Release] = {}
        for release, shape in zip(releases, shapes, strict=True):
            key: object = shape
            if often[shape] > 1:
                sums = self._folders(release).sums(release.path or "")
                key = (release.url, release.path) if sums is None else (shape, sums)
            first = kept.setdefault(key, release)
            if first.plugin is None and release.plugin is not None and first.url == release.url:
                kept[key] = release
        return tuple(kept.values())


def _all_here(words: Iterable[str], found: Iterable[Release]) -> bool:
    """Say whether each of the words is the name or the folder of a skill that was found."""
    here = {text for release in found for text in (release.name, release.path)}
    return all(word.rpartition(":")[2].strip("/") in here for word in words)

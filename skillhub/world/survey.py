"""What says which skills and plugins a repository holds, read in one go: each read may be a request to a server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from skillhub.errors import FormatError
from skillhub.model.layout import SKILLS_MAX, holders, is_within, join
from skillhub.model.marketplace import (
    CAP,
    MANIFESTS,
    MARKETPLACES,
    Plugin,
    PluginManifest,
    read_marketplace,
    read_plugin,
)
from skillhub.model.syntax.frontmatter import Glance, glance
from skillhub.model.tree import SKILL_MD
from skillhub.world.snapshot import Snapshot

_HEAD_MAX = 1024 * 1024  # bytes of a SKILL.md that is read to list it
_MANIFESTS_MAX = 4000


@dataclass(frozen=True, slots=True)
class Survey:
    """What says which skills and plugins there are below a folder.

    Attributes:
        heads: Of the ``SKILL.md`` of each folder that has one; empty where it could not be read.
        manifests: What the plugins in these folders say of themselves.
        plugins: What the marketplaces list; of two plugins with one name the first.
        warnings: Which marketplaces could not be read.
    """

    heads: Mapping[str, Glance]
    manifests: Mapping[str, PluginManifest]
    plugins: Mapping[str, Plugin]
    warnings: tuple[str, ...]

    @classmethod
    def of(cls, snapshot: Snapshot, top: str) -> Survey:
        """Return what ``top`` of a snapshot holds.

        Raises:
            FormatError: there are more skills than anybody could pick from.
            SourceError: files cannot be had.
            SecurityError: they are not those of the commit.
        """
        inside = [path for path in snapshot.nodes if is_within(path, top)]
        heads = dict.fromkeys(sorted(holders(inside)), Glance())
        if len(heads) > SKILLS_MAX:
            message = f"expected at most {SKILLS_MAX} skills in one place, found {len(heads)}"
            raise FormatError(message, hint="name a folder of it")
        markets = [join(top, path) for path in MARKETPLACES]
        roots = {path: root for path in inside if (root := _root_of(path)) is not None}
        wanted = [*markets, *list(roots)[:_MANIFESTS_MAX], *(join(folder, SKILL_MD) for folder in heads)]
        manifests: dict[str, PluginManifest] = {}
        listed: dict[str, tuple[Plugin, ...] | FormatError] = {}
        for path, data in _files(snapshot, wanted):
            if path in roots:
                manifests[roots[path]] = _joined(manifests.get(roots[path]), data, path)
            elif path in markets:
                listed[path] = _marketplace(data, path)
            else:
                heads[path.removesuffix(SKILL_MD).rstrip("/")] = glance(data)
        return cls(heads, manifests, *_in_turn([(path, listed.get(path, ())) for path in markets]))


def _root_of(path: str) -> str | None:
    """Return the folder of the plugin whose manifest this is; None of any other path."""
    for end in MANIFESTS:
        if path == end or path.endswith(f"/{end}"):
            return path.removesuffix(end).rstrip("/")
    return None


def _in_turn(
    marketplaces: Iterable[tuple[str, tuple[Plugin, ...] | FormatError]],
) -> tuple[Mapping[str, Plugin], tuple[str, ...]]:
    """Return the plugins of all marketplaces by name, and what is to be said of those that are none."""
    plugins: dict[str, Plugin] = {}
    warnings = []
    for path, found in marketplaces:
        if isinstance(found, FormatError):
            warnings.append(f"{path} was not read: {found.message}")
        else:
            plugins = {each.name: each for each in found} | plugins
    return plugins, tuple(warnings)


def _files(snapshot: Snapshot, paths: list[str]) -> Iterator[tuple[str, bytes]]:
    """Yield those of the files that are there, are files, and are not far too large."""
    nodes = snapshot.nodes
    regular = [path for path in paths if path in nodes and nodes[path].kind == "file"]
    limits = {path: _HEAD_MAX if path.endswith(SKILL_MD) else CAP for path in regular}
    small = [path for path in regular if nodes[path].size <= limits[path]]
    for path, data in zip(small, snapshot.read(small), strict=True):
        if len(data) <= limits[path]:
            yield path, data


def _marketplace(data: bytes, path: str) -> tuple[Plugin, ...] | FormatError:
    try:
        return read_marketplace(data, path)
    except FormatError as error:
        return error


def _joined(known: PluginManifest | None, data: bytes, path: str) -> PluginManifest:
    """Return what a plugin says in one manifest and another; one that is none says nothing."""
    known = known or PluginManifest(None)
    try:
        said = read_plugin(data, path)
    except FormatError:
        return known
    return PluginManifest(known.name or said.name, tuple(dict.fromkeys(known.skills + said.skills)))

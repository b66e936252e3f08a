"""The documents that a registry signs and serves, as bytes; ``model.discovery`` parses them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import groupby
from types import MappingProxyType

from tuf.api.metadata import TargetFile  # type: ignore[attr-defined]

from skillhub.errors import FormatError, Refused
from skillhub.formats.digest import Digest
from skillhub.formats.document import json_bytes
from skillhub.formats.text import collapsed, grouped
from skillhub.model import discovery
from skillhub.model.advisory import AdvisoriesDocument
from skillhub.model.discovery import LISTING_CAP, IndexEntry, IndexListing, PartDocument, PartRow, Pinned, PinnedPart
from skillhub.model.index import ADVISORIES, DOCUMENT_CAP, Admission, Index, Release, index_path, namespace_path
from skillhub.model.lock import ROOT_CAP
from skillhub.trust import registry_rules
from skillhub.trust.registry_metadata import path_of, pinned_target, publisher_target
from skillhub.trust.registry_rules import BEST_MAX, ROWS_MAX, documents_of, every_part, keys_of, part_path, skill_of
from skillhub.trust.roles import ROOT, WELL_KNOWN, skill_path

LISTING_PATH = "index.json"
SHARD_PATHS = tuple(f"{WELL_KNOWN}/lists/{number:02x}.json" for number in range(256))
_SHORT = 160  # characters of a description in a part of a large listing


def signed_documents(
    index: Index,
    publishers: Iterable[str],
    names: Iterable[str],
    pins: Callable[[str], Mapping[str, Pinned]] | None = None,
) -> dict[str, bytes]:
    """Return the signed documents of these publishers and skills, and the listing, by target path.

    For a large registry, ``index`` may lack other publishers; ``pins`` then returns the signed pins of a namespace
    document by its path, and there is no listing.
    """
    documents, chosen = dict[str, bytes](), set(publishers)
    releases = (release for name in sorted(index.skills) for release in index.skills[name])
    offered = grouped((each.publisher or "", each) for each in releases if each.publisher in chosen)
    admitted = dict[str, dict[str, bytes]]()
    for publisher, data in _publisher_documents(index, {*map(namespace_path, chosen)}).items():
        admitted.setdefault(namespace_path(publisher), {})[publisher] = data
    for publisher in sorted(chosen):
        path = namespace_path(publisher)
        documents[path] = documents.get(path) or _namespaces(pins(path) if pins else {}, admitted.get(path, {}))
        documents[index_path(publisher)] = _releases(publisher, offered.get(publisher, ()))
    for name in names:
        documents[skill_path(name)] = _skill(name, index.skills[name])
    if pins is None:
        documents[LISTING_PATH] = _listing(index, index.skills, "../../")
    return documents


def pinned_documents(index: Index, publishers: Collection[str]) -> Mapping[str, bytes]:
    """Return the publishers' documents that the namespace documents of these ones pin, by path below the site."""
    documents = _publisher_documents(index, {namespace_path(publisher) for publisher in publishers})
    pinned = ((publisher_target(publisher, _pin(data)), data) for publisher, data in documents.items())
    return MappingProxyType({path_of(target): data for target, data in pinned})


def public_documents(index: Index, signed: Mapping[str, bytes], names: Collection[str]) -> dict[str, bytes]:
    """Return the documents for clients without TUF, by their plain path below the site.

    Each skill has an index of its own, for clients that would otherwise read the whole listing. Most of these clients
    know no withdrawn and no yanked release: they would install it.
    """
    listings = ((name, _listing(index, offered(index, [name]), "../../../")) for name in names)
    documents = {f"{name}/{WELL_KNOWN}/{LISTING_PATH}": listing for name, listing in listings}
    documents |= {f"{WELL_KNOWN}/{path}": signed[path] for path in map(skill_path, names) if path in signed}
    if LISTING_PATH in signed:
        documents[f"{WELL_KNOWN}/{LISTING_PATH}"] = _listing(index, offered(index, index.skills), "../../")
    return documents


def offered(index: Index, names: Iterable[str]) -> list[str]:
    """Return the names of the skills with a release that is neither withdrawn nor yanked."""
    return [name for name in names if not best_release(index.skills[name]).taken_back]


def shards(index: Index, names: Iterable[str], read: Callable[[str], bytes | None]) -> dict[str, bytes]:
    """Return the lists of a large registry, for clients without TUF, that contain these skills, by path.

    Args:
        index: The releases of these skills.
        names: The skills that have changed.
        read: Returns the present list at a path.

    Raises:
        FormatError: a present list is not one that this function returns.
    """
    lists = {}
    for path, group in grouped((shard_path(name), name) for name in names).items():
        before = () if (data := read(path)) is None else _rows_before(data, path)
        others = (row for row in before if row.name not in group)
        rows = {row.name: row for row in (*others, *_entries(index, offered(index, group), "../../../"))}
        lists[path] = IndexListing.model_construct(skills=tuple(rows[name] for name in sorted(rows))).dump()
    return lists


def _rows_before(data: bytes, path: str) -> tuple[IndexEntry, ...]:
    listing = IndexListing.parse(data, path)
    names = [row.name for row in listing.skills]
    if (
        IndexListing.model_construct(skills=listing.skills).dump() != data
        or names != sorted({*names})
        or any(shard_path(name) != path for name in names)
    ):
        raise FormatError("expected a list of skills as a release writes it", where=path)
    return listing.skills


def short_listing() -> dict[str, bytes]:
    """Return the public listing of a large registry, which names its lists."""
    lists = [path.removeprefix(f"{WELL_KNOWN}/") for path in SHARD_PATHS]
    return {f"{WELL_KNOWN}/{LISTING_PATH}": json_bytes({"$schema": discovery.SCHEMA, "skills": [], "lists": lists})}


def bucket_of(name: str) -> str:
    """Return the bucket of a skill, one of 256; a release changes only the bucket of its skill."""
    return sha256(name.encode()).hexdigest()[:2]


def shard_path(name: str) -> str:
    """Return the path of the public list of a large registry that has this skill."""
    return SHARD_PATHS[sha256(name.encode()).digest()[0]]


_CAPS = {LISTING_PATH: LISTING_CAP, ADVISORIES: AdvisoriesDocument.CAP, ROOT: ROOT_CAP}


def refuse_large(documents: Mapping[str, bytes]) -> None:
    """Raise if a document is larger than clients read.

    Args:
        documents: The documents by path.

    Raises:
        Refused: a document is too large.
    """
    for path, data in documents.items():
        cap = _CAPS.get(path, DOCUMENT_CAP)
        if len(data) > cap:
            hint = "nothing was published; publish less in it, under another publisher, or in another registry"
            raise Refused(f"{path} would have {len(data):,} bytes; clients read at most {cap:,}", hint=hint)


def _publisher_documents(index: Index, paths: Collection[str]) -> Mapping[str, bytes]:
    """Return the documents of the publishers that the targets at ``paths`` name."""
    named = {name: admission for name, admission in index.admissions.items() if namespace_path(name) in paths}
    return {name: _publisher(admission) for name, admission in named.items()}


def _releases(publisher: str, releases: Iterable[Release]) -> bytes:
    rows = tuple(discovery.PublisherRelease.of(release, sha256=release.digest) for release in releases)
    return discovery.ReleasesDocument.model_construct(publisher=publisher, releases=rows).dump()


def _listing(index: Index, names: Iterable[str], home: str) -> bytes:
    return IndexListing.model_construct(skills=tuple(_entries(index, names, home))).dump()


def _entries(index: Index, names: Iterable[str], home: str) -> Iterator[IndexEntry]:
    for name in sorted(names):
        newest = best_release(index.skills[name])
        document = f"{home}{WELL_KNOWN}/{skill_path(name)}"
        yield IndexEntry.of(newest, name=name, url=home + newest.url, releases=document)


def listed_releases(name: str, document: bytes) -> tuple[Release, ...]:
    """Return the releases in the document of a skill, with the URLs that signed documents have.

    Raises:
        BadMetadata: the document is that of another skill.
        FormatError: the document is malformed.
    """
    releases = skill_of(name, document, skill_path(name))
    return tuple(replace(release, url=release.url.removeprefix("../../../")) for release in releases)


def best_release(releases: tuple[Release, ...]) -> Release:
    """Return the newest release that is neither withdrawn nor yanked, else the newest yanked, else withdrawn one."""
    return min(releases, key=lambda release: (release.withdrawn is not None, release.yanked is not None))


def _skill(name: str, releases: tuple[Release, ...]) -> bytes:
    newest = releases[0]
    return discovery.SkillDocument.model_construct(
        name=name,
        publisher=newest.publisher,
        description=newest.description,
        releases=tuple(discovery.SkillRelease.of(release, url=f"../../../{release.url}") for release in releases),
    ).dump()


def _namespaces(before: Mapping[str, Pinned], documents: Mapping[str, bytes]) -> bytes:
    pins = {**before, **{publisher: _pin(data) for publisher, data in documents.items()}}
    return discovery.NamespacesDocument.model_construct(publishers=pins).dump()


def _pin(document: bytes) -> Pinned:
    return Pinned(Digest.of(document), len(document))


def _publisher(admission: Admission) -> bytes:
    facts = {fact: getattr(admission, fact) for fact in discovery.ADMITTED}
    return discovery.PublisherDocument.model_construct(**facts, names=tuple(sorted(admission.names))).dump()


# The listing of a large registry, in parts. The same skills give the same parts, in any order of releases.

RowChanges = Mapping[str, PartRow | None]  # the rows by key; None for a removed one
_Below = PartDocument | tuple[str, PinnedPart]  # a new part, or the prefix and the pin of an unchanged one


NO_PARTS = PartDocument.model_construct(prefix="", count=0, rows=(), parts={}).dump()


def rows_of(name: str, document: bytes) -> dict[str, PartRow]:
    """Return the rows for the document of a skill, by key; the row of the whole name pins the document."""
    path = skill_path(name)
    best = best_release(skill_of(name, document, path))
    texts = {fact: getattr(best, fact) for fact in ("description", "yanked", "withdrawn")}
    short = {fact: text and _shorten(text) for fact, text in texts.items()}
    row = PartRow.model_construct(None, name=name, publisher=best.publisher, version=best.version, **short)
    keys = keys_of(name, best.description)
    pin = {"document": _pin(document)}
    return {key: row.model_copy(update={"key": key, **(pin if key == keys[0] else {})}) for key in keys}


def _shorten(text: str) -> str:
    text = collapsed(text)
    return f"{text[:_SHORT]}…" if len(text) > _SHORT else text


@dataclass(frozen=True, slots=True)
class LargeListing:
    """The listing of a large registry as it is signed now.

    Attributes:
        first: The part that a role signs.
        content: Returns the bytes of a pinned file, or raises.
    """

    first: PartDocument
    content: Callable[[TargetFile], bytes]

    def read(self, prefix: str, pinned: PinnedPart) -> PartDocument:
        """Return a part that another one pins; raises as ``part_of`` and ``content``."""
        target = pinned_target(part_path(prefix), pinned)
        return registry_rules.part_of(prefix, pinned, self.content(target), target.path)

    def document(self, name: str) -> bytes | None:
        """Return the document of a skill; None if there is no such skill."""
        key = f"{name}--{name}."
        part = registry_rules.walk(self.first, key, self.read, len(key))
        pinned = next((row.document for row in part.rows if row.key == key), None)
        return None if pinned is None else self.content(pinned_target(skill_path(name), pinned))

    def skill(self, name: str) -> tuple[Release, ...]:
        """Return the releases in the document of a skill, newest first; none if there is no such skill."""
        data = self.document(name)
        return () if data is None else listed_releases(name, data)

    def every(self) -> Mapping[str, tuple[Release, ...]]:
        """Return the releases of every skill, by name, as ``skill`` does."""
        pins = (pin for part in every_part(self.first, self.read) for pin in documents_of(part))
        return {name: listed_releases(name, self.content(pinned_target(skill_path(name), pin))) for name, pin in pins}

    def targets(self) -> Iterator[TargetFile]:
        """Yield all pinned files: the documents of skills, and the parts below the first."""
        for part in every_part(self.first, self.read):
            yield from (pinned_target(skill_path(name), pin) for name, pin in documents_of(part))
            yield from (pinned_target(part_path(prefix), pin) for prefix, pin in part.parts.items())


@dataclass
class PartsWriter:
    """A writer that applies changes to the parts of a listing.

    Attributes:
        read: Returns a present part by its prefix and pin.
        made: The new parts, by path below the site.
    """

    read: Callable[[str, PinnedPart], PartDocument]
    made: dict[str, bytes] = field(default_factory=dict)

    def revised(self, first: PartDocument, changes: RowChanges) -> bytes:
        """Return the bytes of the first part after these changes."""
        if not first.parts:
            part = self._of_rows(_apply(first.rows, changes), "")
        else:
            part = self._of_parts("", first, self._regroup("", [*first.parts.items()], changes), changes)
        return part.dump() if part else NO_PARTS

    def _of_rows(self, rows: Sequence[PartRow], prefix: str | None = None) -> PartDocument | None:
        """Return the part with these rows, sorted by key; its default ``prefix`` is the common one of the keys."""
        if not rows:
            return None
        # As the rows are sorted, the common prefix of the first and the last is that of all.
        prefix = _common([rows[0].key, rows[-1].key]) if prefix is None else prefix
        if len(rows) <= ROWS_MAX:
            return _part(prefix, len(rows), rows, {})
        groups = (list(group) for _, group in groupby(rows, key=lambda row: row.key[len(prefix)]))
        return self._of_parts(prefix, None, [part for group in groups if (part := self._of_rows(group))], {})

    def _of_parts(
        self, prefix: str, before: PartDocument | None, below: Sequence[_Below], changes: RowChanges
    ) -> PartDocument | None:
        """Return the part above these parts; if all rows fit into one part, that part; for one part, itself."""
        count = sum(part.count if isinstance(part, PartDocument) else part[1].count for part in below)
        if count <= ROWS_MAX:
            rows = sorted((row for part in below for row in self._load(part).rows), key=lambda row: row.key)
            return self._of_rows(rows, prefix and None)
        if len(below) == 1 and prefix:
            return self._load(below[0])
        best = [row for part in below if isinstance(part, PartDocument) for row in part.rows]
        unchanged = [row for row in before.rows if row.key not in changes] if before else []
        if before is None or any(_is_worse(changes[row.key], row) for row in before.rows if row.key in changes):
            # A row of a lower rank, which was not repeated here, may be among the best now.
            best, unchanged = [row for part in below for row in self._load(part).rows], []
        pins = {pinned[0]: pinned[1] for pinned in map(self._pin_part, below)}
        return _part(prefix, count, best_rows([*best, *unchanged]), dict(sorted(pins.items())))

    def _regroup(self, prefix: str, below: Sequence[tuple[str, PinnedPart]], changes: RowChanges) -> list[_Below]:
        """Return the parts below a part after these changes; all keys of these begin with its ``prefix``."""
        parts: dict[str, _Below] = {pinned[0][len(prefix)]: pinned for pinned in below}
        groups = groupby(sorted(changes.items(), key=lambda item: item[0]), key=lambda item: item[0][len(prefix)])
        for letter, group in groups:
            own = dict(group)
            old = parts.pop(letter, None)
            part = self._change(old, own) if isinstance(old, tuple) else self._of_rows(_apply((), own))
            if part is not None:
                parts[letter] = part
        return [parts[letter] for letter in sorted(parts)]

    def _change(self, old: tuple[str, PinnedPart], changes: RowChanges) -> PartDocument | None:
        """Return a part after these changes, whose keys may begin with another prefix than its own."""
        part = self._load(old)
        if not part.parts:
            return self._of_rows(_apply(part.rows, changes))
        common = _common([part.prefix, *(key for key, row in changes.items() if row is not None)])
        changes = {key: row for key, row in changes.items() if row is not None or key.startswith(part.prefix)}
        if common == part.prefix:
            return self._of_parts(common, part, self._regroup(common, [*part.parts.items()], changes), changes)
        return self._of_parts(common, None, self._regroup(common, [old], changes), changes)

    def _load(self, part: _Below) -> PartDocument:
        return part if isinstance(part, PartDocument) else self.read(*part)

    def _pin_part(self, part: _Below) -> tuple[str, PinnedPart]:
        if isinstance(part, tuple):
            return part
        data = part.dump()
        pin = PinnedPart(Digest.of(data), len(data), part.count)
        self.made[path_of(pinned_target(part_path(part.prefix), pin))] = data
        return part.prefix, pin


def _part(prefix: str, count: int, rows: Sequence[PartRow], parts: Mapping[str, PinnedPart]) -> PartDocument:
    return PartDocument.model_construct(prefix=prefix, count=count, rows=tuple(rows), parts=parts)


def _apply(rows: Iterable[PartRow], changes: RowChanges) -> list[PartRow]:
    by_key: dict[str, PartRow | None] = {**{row.key: row for row in rows}, **changes}
    return [row for _, row in sorted(by_key.items()) if row is not None]


def _common(texts: Sequence[str]) -> str:
    """Return the common prefix of these texts."""
    first, last = min(texts), max(texts)
    length = 0
    while length < len(first) and first[length] == last[length]:
        length += 1
    return first[:length]


def _rank(row: PartRow) -> tuple[object, ...]:
    """Return the sort key of a row, best first: neither withdrawn nor yanked, the word in the name, a short name."""
    is_named = f"-{row.name}".endswith(f"-{row.key.partition('--')[0]}")
    return (row.withdrawn is not None, row.yanked is not None, not is_named, len(row.name), row.key)


def _is_worse(now: PartRow | None, before: PartRow) -> bool:
    return now is None or _rank(now) > _rank(before)


def best_rows(rows: Iterable[PartRow]) -> list[PartRow]:
    """Return the best rows, at most ``BEST_MAX``, one for each skill."""
    best: dict[str, PartRow] = {}
    for row in sorted(rows, key=_rank):
        best.setdefault(row.name, row)
    return list(best.values())[:BEST_MAX]

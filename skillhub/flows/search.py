"""Search: in the listings of the sources, and in the skills that are here; by the same ranking."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, closing
from hashlib import sha256

from skillhub.errors import StateError
from skillhub.model.digest import Digest
from skillhub.model.release import Index
from skillhub.model.skill import Skill
from skillhub.runtime.ranking import Hits, rows_of
from skillhub.runtime.ranking import search as rank
from skillhub.runtime.search_index import SearchIndex, Stored
from skillhub.world.sources import Source


def search(
    query: str,
    skills: Sequence[Skill],
    limit: int,
    listed: Iterable[tuple[Source, Index]] = (),
    cache: str = "",
) -> Hits:
    """Return what is found in the skills that are here, and in what sources list.

    Args:
        query: What a person remembers.
        skills: Those that are here.
        limit: How many hits to return.
        listed: Sources with their listings.
        cache: Where the index of a listing is kept; always safe to delete.

    Raises:
        StateError: this Python's SQLite cannot index texts.
    """
    with ExitStack() as opened:
        indexes = [opened.enter_context(closing(SearchIndex.build(rows_of(skills))))]
        for source, listing in listed:
            indexes.append(opened.enter_context(closing(_listed(source, listing, cache))))
        return rank(query, indexes, limit)


def _listed(source: Source, listing: Index, cache: str) -> SearchIndex:
    """Return the index of a listing: the one that is kept if it was made of this very listing."""
    rows = [
        Stored(name=name, description=releases[0].description, source=source.alias)
        for name, releases in sorted(listing.skills.items())
        if releases and releases[0].withdrawn is None
    ]
    proof = sha256()
    for row in rows:
        proof.update(f"{row.name}\0{row.description}\0{row.source}\n".encode("utf-8", "replace"))
    path = os.path.join(cache, "search", f"{(source.root or Digest.of(source.url.encode())).hex}.db")
    found = SearchIndex.opened(path, proof.hexdigest())
    if found is not None:
        return found
    try:
        return SearchIndex.kept(path, proof.hexdigest(), rows)
    except StateError:  # what cannot be written, or not read again, is made for this search alone
        return SearchIndex.build(rows)

"""What the store has lost and an agent's folder still has, to the byte: nobody need be asked for it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress

from skillhub.errors import UnsafeArchive
from skillhub.model.digest import Digest
from skillhub.model.tree import Listing, Tree
from skillhub.world.folders import LARGEST, is_link, list_folder, walk


def listing_of_copy(places: Iterable[str], tree: Digest) -> Listing | None:
    """Return the listing of the first of these copies that is this very tree."""
    return next((listing for _, listing in _copies(places, tree)), None)


def tree_of_copy(places: Iterable[str], tree: Digest) -> Tree | None:
    """Return the tree if one of these copies is it."""
    for path, _ in _copies(places, tree):
        with suppress(OSError, UnsafeArchive):
            found = Tree({each.path: each.file for each in walk(path, largest=LARGEST) if each.file})
            if found.digest == tree:
                return found
    return None


def _copies(places: Iterable[str], tree: Digest) -> Iterator[tuple[str, Listing]]:
    for path in places:
        if os.path.isdir(path) and not is_link(path):
            with suppress(OSError):
                listing = list_folder(path)
                if listing is not None and listing.digest == tree:
                    yield path, listing

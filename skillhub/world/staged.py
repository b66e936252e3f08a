"""A tree that waits in the store, so that a command over very many skills need not hold them all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

from skillhub.errors import FormatError, StateError
from skillhub.model.digest import Digest
from skillhub.model.tree import File, Tree
from skillhub.world import files


class Listed(Tree):
    """A tree of which only the listing is left, for who has looked at its files and needs them no more."""

    def __init__(self, tree: Tree) -> None:
        self.listing = tree.listing
        self.size = tree.size

    def __getitem__(self, path: str) -> File:
        """Find nothing: no file is held."""
        raise KeyError(path)

    def __iter__(self) -> Iterator[str]:
        return iter(self.listing)

    def __len__(self) -> int:
        return len(self.listing)

    # What of a tree is a look into its dictionary is in those that hold none a file read, as it is come to.
    items, values = Mapping.items, Mapping.values


class Staged(Listed):
    """A stored tree of which only the listing is in memory; each file is read, and verified, when asked for.

    Args:
        folder: Where it is stored.
        tree: It, verified.
    """

    def __init__(self, folder: str, tree: Tree) -> None:
        super().__init__(tree)
        self._folder = folder

    def __getitem__(self, path: str) -> File:
        """Return the file at ``path``.

        Raises:
            StateError: the store no longer holds the file that was verified.
        """
        listed = self.listing[path]
        full = f"{self._folder}/{path}"
        data = None
        with suppress(FormatError):  # more bytes than all files together had
            data = files.read(full, self.size)
        if data is None or Digest.of(data).hex != listed.sha256:
            hint = "run the command again"
            raise StateError("the file changed since it was verified", where=full, hint=hint)
        return File(data, listed.executable)

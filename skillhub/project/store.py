"""The content-addressed store: each tree once, read-only; and trees staged for a large install."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress

from skillhub.disk import files
from skillhub.disk.folders import LARGEST, TreeProblem, compare, remove_tree, walk, write_file, write_tree
from skillhub.disk.proved import ProvedFolders
from skillhub.errors import FormatError, StateError, UnsafeArchive
from skillhub.formats.digest import Digest, is_hex
from skillhub.model.tree import File, Listing, Tree

# The content-addressed store: each tree once, read-only, shared by all projects of a user.
# A tree lies at ``<data>/store/<xx>/<64 hex>/`` with its listing beside it as ``<64 hex>.listing``. Nothing is
# trusted for being there: whoever relies on a tree compares it with a listing whose digest is the lock's.

# The listing goes first: who stores the same tree meanwhile then finds it not whole, and writes both anew.
_PARTS = (".listing", "")
_LISTING_CAP = 8 * 1024 * 1024  # 2,000 files whose paths have 1,024 bytes, and as much again


class Store:
    """The store below ``<data>``.

    Args:
        data: The ``data`` folder of a ``Home``.
        proved: What was hashed before, here and in agents' folders.
    """

    def __init__(self, data: str, proved: ProvedFolders | None = None) -> None:
        self.root = os.path.join(data, "store")
        self.proved = proved or ProvedFolders()

    def path(self, tree: Digest) -> str:
        """Return where this tree is or would be."""
        name = tree.hex
        return f"{self.root}{os.sep}{name[:2]}{os.sep}{name}"

    def has(self, tree: Digest) -> bool:
        """Return whether a folder of ours, and no link, is at the tree's place; ``check`` says if it is whole."""
        try:
            return stat.S_ISDIR(os.lstat(self.path(tree)).st_mode)
        except OSError:
            return False

    def put(self, tree: Tree) -> str:
        """Store ``tree`` and return its folder; what is there already and whole is left alone.

        The files are not fsynced one by one (0.3 ms each): a tree torn by a crash no longer equals its
        listing, which every reader checks, and ``sync`` fetches it again.

        Raises:
            StateError: the disk is full, read-only or not ours.
        """
        path = self.path(tree.digest)
        try:
            if os.path.lexists(path):
                if self.has(tree.digest) and self.lists(tree) and not self.compare(path, tree.listing, _PARTS[0]):
                    return path
                self.drop(tree.digest)
            self._write(path, tree)
        except OSError as error:
            hint = "free some space or fix the permissions, then run the command again"
            raise StateError(f"cannot write to the store: {error.strerror}", where=path, hint=hint) from error
        return path

    def _write(self, path: str, tree: Tree) -> None:
        shelf = os.path.dirname(path)
        if not os.path.isdir(shelf):
            os.makedirs(shelf, mode=0o755, exist_ok=True)
        staged = f"{path}.{os.urandom(4).hex()}.tmp"
        with ExitStack() as undo:
            undo.callback(self.discard, staged)
            write_tree(staged, tree.items(), read_only=True)
            write_file(f"{staged}.listing", tree.listing.text, 0o644)
            os.replace(f"{staged}.listing", f"{path}.listing")
            try:
                os.rename(staged, path)
                undo.pop_all()
            except OSError:
                if not os.path.isdir(path):  # else another process stored the same tree first: its copy is as good
                    raise

    def listing(self, tree: Digest) -> Listing | None:
        """Return the listing kept beside the tree if it is the one that the digest names, else None."""
        with suppress(FormatError, StateError, ValueError):
            text = files.read(f"{self.path(tree)}.listing", _LISTING_CAP)
            # The text itself is compared: a parse may be lenient where a digest is not.
            return Listing.parse(text) if text is not None and Digest.of(text) == tree else None
        return None

    def lists(self, tree: Tree) -> bool:
        """Return whether the listing kept beside a stored tree is the tree's."""
        with suppress(FormatError, StateError):
            return files.read(f"{self.path(tree.digest)}.listing", _LISTING_CAP) == tree.listing.text
        return False

    def check(self, tree: Digest) -> list[TreeProblem]:
        """Compare every byte of the stored tree with its digest and return what differs; see ``compare``."""
        path = self.path(tree)
        if not self.has(tree):
            return [TreeProblem("missing", path, "the store does not hold this tree")]
        if self.proved.holds(path, tree):
            return []
        listing = self.listing(tree)
        if listing is None:
            return [
                TreeProblem("listing", f"{path}.listing", "the list of the stored files is missing or was changed")
            ]
        return self.compare(path, listing, _PARTS[0])

    def compare(self, folder: str, listing: Listing, beside: str = "") -> list[TreeProblem]:
        """Return in what a folder differs from a listing; every byte is hashed, unless the same was proved before.

        Args:
            folder: One of the store, or the copy of a skill in an agent's folder.
            listing: What ought to be there.
            beside: The end of the name of a file beside it that has to stay as it is, too.
        """
        if self.proved.holds(folder, listing.digest):
            return []
        look = self.proved.before(folder, beside)
        problems = compare(folder, listing)
        if problems:
            self.proved.forget(folder)
        else:
            self.proved.keep(folder, listing.digest, look)
        return problems

    def read(self, tree: Digest) -> Tree | None:
        """Return the stored tree if it is whole, else None."""
        if not self.has(tree):
            return None
        whole: dict[str, File] = {}
        path = self.path(tree)
        look = self.proved.before(path, _PARTS[0])
        try:
            for found in walk(path, largest=LARGEST):
                if found.file is None:
                    return None
                whole[found.path] = found.file
        except (OSError, UnsafeArchive):
            return None
        read = Tree(whole)
        if read.digest != tree:
            self.proved.forget(path)
            return None
        if look is not None and self.listing(tree) is not None:
            self.proved.keep(path, tree, look)
        return read

    def trees(self) -> Iterator[Digest]:
        """Yield every tree that has a folder here, whole or not.

        Raises:
            StateError: the store cannot be read.
        """
        with files.disk_errors(self.root), suppress(FileNotFoundError):
            for first in sorted(os.listdir(self.root)):
                shelf = os.path.join(self.root, first)
                is_shelf = os.path.isdir(shelf) and not os.path.islink(shelf)
                names = sorted(os.listdir(shelf)) if is_shelf else []
                trees = (Digest(f"sha256:{name}") for name in names if is_hex(name))
                yield from (tree for tree in trees if tree.hex[:2] == first and self.has(tree))

    def set_aside(self, tree: Digest) -> str:
        """Take a tree and its listing out of their place, and return where they are for now.

        Raises:
            StateError: the disk refuses.
        """
        path = self.path(tree)
        aside = f"{path}.{os.urandom(4).hex()}.tmp"
        with files.disk_errors(path):
            for end in _PARTS:
                with suppress(FileNotFoundError):
                    os.rename(path + end, aside + end)
        return aside

    def put_back(self, tree: Digest, aside: str) -> None:
        """Bring a tree back that was set aside; where it was stored anew meanwhile, that one stays."""
        if not self.has(tree):
            for end in _PARTS:
                with suppress(OSError):
                    os.rename(aside + end, self.path(tree) + end)
        self.discard(aside)

    def discard(self, aside: str) -> None:
        """Remove a tree that was set aside; what of it cannot be removed is left."""
        for end in _PARTS:
            with suppress(OSError):
                remove_tree(aside + end)

    def drop(self, tree: Digest) -> None:
        """Remove the tree and its listing, whatever state they are in.

        Raises:
            OSError: something cannot be removed.
        """
        path = self.path(tree)
        gone = f"{path}.{os.urandom(4).hex()}.tmp"
        with suppress(FileNotFoundError):
            os.rename(path, gone)
        remove_tree(gone)
        remove_tree(f"{path}.listing")


# A tree that waits in the store, so that a command over very many skills need not hold them all.


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

    def loaded(self) -> Tree:
        """Return it with its files in memory, each read and verified once.

        Raises:
            StateError: as for one file.
        """
        whole = Tree(self.items())
        whole.listing = self.listing
        return whole

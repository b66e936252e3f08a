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
# A tree is at ``<data>/store/<xx>/<64 hex>/`` with its listing beside it as ``<64 hex>.listing``. A stored tree is
# not trusted: its reader compares it with a listing whose digest is in the lock.

# The listing is moved first: a process that stores the same tree then finds it incomplete and writes both again.
_PARTS = (".listing", "")
_LISTING_CAP = 8 * 1024 * 1024  # 2,000 files whose paths have 1,024 bytes, and as much again


class Store:
    """The store below ``<data>``.

    Args:
        data: The ``data`` folder of a ``Home``.
        proved: The folders that were hashed before, here and in agents' folders.
    """

    def __init__(self, data: str, proved: ProvedFolders | None = None) -> None:
        self.root = os.path.join(data, "store")
        self.proved = proved or ProvedFolders()

    def path(self, tree: Digest) -> str:
        """Return the path of this tree, stored or not."""
        name = tree.hex
        return f"{self.root}{os.sep}{name[:2]}{os.sep}{name}"

    def has(self, tree: Digest) -> bool:
        """Return whether a folder, and no link, is at the tree's path; ``check`` tells whether it is complete."""
        try:
            return stat.S_ISDIR(os.lstat(self.path(tree)).st_mode)
        except OSError:
            return False

    def put(self, tree: Tree) -> str:
        """Store ``tree`` and return its folder; a complete stored tree is left unchanged.

        The files are not fsynced one by one (0.3 ms each): a tree torn by a crash no longer equals its
        listing, which every reader checks, and ``sync`` fetches it again.

        Raises:
            StateError: the disk is full or read-only, or the user may not write.
        """
        path = self.path(tree.digest)
        with files.disk_errors(path):
            if os.path.lexists(path):
                if not self.check(tree.digest):
                    return path
                self.discard(self.set_aside(tree.digest))
            self._write(path, tree)
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
                if not os.path.isdir(path):  # otherwise another process stored the same tree first
                    raise

    def listing(self, tree: Digest) -> Listing | None:
        """Return the listing beside the stored tree if it has this digest, else None."""
        with suppress(FormatError, StateError, ValueError):
            text = files.read(f"{self.path(tree)}.listing", _LISTING_CAP)
            # The digest of the text is compared, not that of the parsed listing: the parser may be lenient.
            return Listing.parse(text) if text is not None and Digest.of(text) == tree else None
        return None

    def check(self, tree: Digest) -> list[TreeProblem]:
        """Return the differences between the stored tree and its digest; see ``compare``."""
        path = self.path(tree)
        if not self.has(tree):
            return [TreeProblem("missing", path, "the store does not hold this tree")]
        if self.proved.holds(path, tree):
            return []
        listing = self.listing(tree)
        if listing is None:
            return [TreeProblem("listing", f"{path}.listing", "the list of its files is missing or was changed")]
        return self.compare(path, listing, _PARTS[0])

    def compare(self, folder: str, listing: Listing, beside: str = "") -> list[TreeProblem]:
        """Return the differences between a folder and a listing; every byte is hashed, unless that was done before.

        Args:
            folder: A folder of the store, or the copy of a skill in an agent's folder.
            listing: The expected files.
            beside: The suffix of a file beside the folder whose change also makes a new hash necessary.
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
        """Return the stored tree if it is complete and unchanged, else None."""
        if not self.has(tree):
            return None
        found_files: dict[str, File] = {}
        path = self.path(tree)
        look = self.proved.before(path, _PARTS[0])
        like = None if files.keeps_modes(os.path.dirname(path)) else self.listing(tree)
        try:
            for inner, file in walk(path, largest=LARGEST, like=like):
                if file is None:
                    return None
                found_files[inner] = file
        except (OSError, UnsafeArchive):
            return None
        read = Tree(found_files)
        if read.digest != tree:
            self.proved.forget(path)
            return None
        if look is not None and self.listing(tree) is not None:
            self.proved.keep(path, tree, look)
        return read

    def trees(self) -> Iterator[Digest]:
        """Yield every tree that has a folder in the store, complete or not.

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
        """Rename a tree and its listing, and return their temporary path.

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
        """Restore a tree that was set aside; if it was stored again in between, the new one stays."""
        if not self.has(tree):
            for end in _PARTS:
                with suppress(OSError):
                    os.rename(aside + end, self.path(tree) + end)
        self.discard(aside)

    def discard(self, aside: str) -> None:
        """Remove a tree that was set aside; files that cannot be removed stay, without an error."""
        for end in _PARTS:
            with suppress(OSError):
                remove_tree(aside + end)


# Trees without their files in memory, for commands on very many skills.


class Listed(Tree):
    """A tree with only its listing, for callers that no longer need its files."""

    def __init__(self, tree: Tree) -> None:
        self.listing = tree.listing
        self.size = tree.size

    def __getitem__(self, path: str) -> File:
        """Raise ``KeyError``: no file is in memory."""
        raise KeyError(path)

    def __iter__(self) -> Iterator[str]:
        return iter(self.listing)

    def __len__(self) -> int:
        return len(self.listing)

    # `Tree` returns views of its dictionary of files; these call `__getitem__` for each path instead.
    items, values = Mapping.items, Mapping.values


class Staged(Listed):
    """A stored tree with only its listing in memory; ``__getitem__`` reads and verifies a file.

    Args:
        folder: The folder of the stored tree.
        tree: The verified tree.
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
        with suppress(FormatError):  # the file is larger than the whole tree
            data = files.read(full, self.size)
        if data is None or Digest.of(data).hex != listed.sha256:
            raise StateError("the file changed since it was verified", where=full, hint="run the command again")
        return File(data, listed.executable)

    def loaded(self) -> Tree:
        """Return the tree with its files in memory, each read and verified once.

        Raises:
            StateError: as for one file.
        """
        tree = Tree(self.items())
        tree.listing = self.listing
        return tree

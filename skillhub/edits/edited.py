"""Edited copies in agents' folders: read, saved as a patch, merged, or used to repair the store."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

from skillhub.disk import files
from skillhub.disk.folders import LARGEST, is_link, list_folder, walk, write_tree
from skillhub.edits.patch import difference, merge
from skillhub.errors import FormatError, NotFound, StateError, UnsafeArchive, WrongBytes
from skillhub.formats.digest import Digest
from skillhub.model.lock import Patch
from skillhub.model.tree import File, Listing, Tree
from skillhub.project.copies import EDITS
from skillhub.project.project import Project

# What a person edited in an agent's folder: read, kept as a patch, merged into a new version; never just lost.

_EDITS_MAX = 256 << 20  # bytes; a copy may have become somebody's build folder
_PATCH_CAP = 64 << 20


def save(name: str, edited: Iterable[Mapping[str, File]], base: Mapping[str, File], project: Project) -> None:
    """Write edits to ``skillhub-edits/``, once for equal ones: a patch, and beside it what no patch can hold.

    Raises:
        LinkLeavesProject: that folder is a link to somewhere outside of the project.
        StateError: the disk refuses.
    """
    saved: list[tuple[str, dict[str, File]]] = []
    for now in edited:
        edits = difference(base, now)
        if edits in saved or not any(edits):
            continue
        saved.append(edits)
        patch, whole = edits
        path = os.path.join(project.root, *free_path(name, project).split("/"))
        if whole:
            with files.disk_errors(path), project.hold(path, make=True) as (file, at):
                write_tree(file.removesuffix(".patch"), whole.items(), read_only=False, dir_fd=at)
        files.write_atomic(path, patch.encode("utf-8"), root=project.top)


def free_path(name: str, project: Project) -> str:
    """Return the path, below the project, of a patch that is not there yet; its folder is no way out of the project.

    Raises:
        LinkLeavesProject: that folder is a link to somewhere outside of the project.
    """
    folder = files.inside(project.root, EDITS)
    number = 1
    while any(os.path.lexists(os.path.join(folder, f"{name}-{number}{end}")) for end in ("", ".patch")):
        number += 1
    return f"{os.path.relpath(folder, project.root).replace(os.sep, '/')}/{name}-{number}.patch"


def read_edited(path: str, store: str, project: Project) -> dict[str, File]:
    """Return the files that a person has in place of a skill.

    Of a link of theirs there is nothing to lose but the link; one into ``store``, the store's folder, is ours, and
    what was edited through it lies behind it.

    Raises:
        LinkLeavesProject: a link is on the way to it by now.
        StateError: it cannot be read, or is too much to save.
    """
    if not os.path.lexists(path) or (is_link(path) and not is_under(path, store)):
        return {}
    try:
        if not os.path.isdir(path):
            there = os.path.realpath(path)  # a link here is ours, and in the store something else than a tree
            return {os.path.basename(path): File(files.read(there, _EDITS_MAX) or b"")}
        if is_link(path):
            return _read_folder(os.path.realpath(path), None)
        with project.hold(path) as (name, at):
            return _read_folder(path, at, name)
    except (FormatError, UnsafeArchive) as error:
        raise _too_much(path) from error
    except OSError as error:
        raise files.disk_error(error, path) from error


def is_under(path: str, store: str) -> bool:
    """Say whether the link at ``path`` leads to a tree of the store."""
    return os.path.dirname(os.path.dirname(os.path.realpath(path))) == os.path.realpath(store)


def _read_folder(path: str, at: int | None, name: str = "") -> dict[str, File]:
    edited, size = {}, 0
    for found in walk(name or path, largest=_EDITS_MAX, dir_fd=at):
        full = f"{path}/{found.path}"
        if found.file is not None:
            edited[found.path] = found.file
            size += len(found.file.data)
        elif os.path.islink(full):
            edited[f"{found.path}.link"] = File(os.fsencode(os.readlink(full)) + b"\n")
        if size > _EDITS_MAX:
            raise _too_much(path)
    return edited


def _too_much(path: str) -> StateError:
    hint = "move away what does not belong to the skill, then run the command again"
    return StateError(f"more than {_EDITS_MAX >> 20} MiB of edits to save", where=path, hint=hint)


def merged(base: Tree | None, path: str, theirs: Tree, project: Project) -> Tree | None:
    """Return ``theirs`` with what was edited in the copy at ``path``; None if that does not go, or not cleanly.

    Raises:
        LinkLeavesProject: a link is on the way to it by now.
        StateError: the copy cannot be read.
    """
    if base is None or is_link(path) or not os.path.isdir(path):
        return None
    try:
        with project.hold(path) as (name, at):
            mine = {found.path: found.file for found in walk(name, largest=_EDITS_MAX, dir_fd=at)}
    except UnsafeArchive:
        return None
    except OSError as error:
        raise files.disk_error(error, path) from error
    whole = {name: file for name, file in mine.items() if file is not None}
    return merge(base, whole, theirs) if len(whole) == len(mine) else None


def read_patch(patch: Patch, project: Project) -> bytes:
    """Return the bytes of a patch that the lock names.

    Raises:
        NotFound: it is not there.
        WrongBytes: it is another.
        LinkLeavesProject: a link leads to it out of the project.
    """
    path = files.inside(project.root, patch.path)
    data = files.read(path, _PATCH_CAP)
    if data is None:
        hint = "the patch belongs to the lock; whoever committed the one has to commit the other"
        raise NotFound("the patch that the lock names is not there", where=path, hint=hint)
    if Digest.of(data) != patch.digest:
        raise WrongBytes(f"expected a patch of digest {patch.digest}, found {Digest.of(data)}", where=path)
    return data


# What the store has lost and an agent's folder still has, to the byte: nobody need be asked for it.


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

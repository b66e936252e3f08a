"""A project's patch, carried over to another version of the skill where the two do not touch the same lines."""

from __future__ import annotations

from dataclasses import replace

from skillhub.flows.candidate import Candidate, read, spelled
from skillhub.flows.edits import free_path
from skillhub.flows.hints import command
from skillhub.flows.locked import from_lock
from skillhub.flows.outcome import LeftOut
from skillhub.flows.patched import gated, on_top
from skillhub.flows.ports import Ports
from skillhub.model.digest import Digest
from skillhub.model.lock import Locked, Patch
from skillhub.model.patch import difference
from skillhub.model.patch_merge import merge
from skillhub.model.tree import Tree


def carried(found: Candidate, entry: Locked | None, ports: Ports) -> Candidate | LeftOut:
    """Return the candidate with the patch that the lock has of its name; what cannot have it is to be left out.

    Args:
        found: What a source has now, or the lock.
        entry: The lock's word of the name.
        ports: The world.

    Raises:
        SourceError, SecurityError: what the lock names cannot be had, or is not that.
    """
    if entry is None or entry.patch is None or found.entry.patch is not None:
        return found
    base, mine = (
        ports.store.read(each.tree) or from_lock(found.name, each, ports, scanned=False).tree
        for each in (entry.original, entry)
    )
    merged = merge(base, mine, found.tree)
    if merged is None:
        message = f"{entry.patch.path} does not go with {found.entry.version or found.entry.short}"
        drop = command(ports.project.scope, "patch", found.name, "--drop")
        return LeftOut(found.name, "patch", f"{message}; {drop} gives it up")
    return with_edits(found, gated(merged), ports, entry)


def with_edits(
    found: Candidate, tree: Tree, ports: Ports, before: Locked | None = None
) -> Candidate | LeftOut:
    """Return the candidate with what ``tree`` has otherwise as the project's patch of it.

    Args:
        found: What the source has.
        tree: What agents are to have.
        ports: The world.
        before: The lock's word; a patch that is there already is not written anew.

    Raises:
        FormatError: the manifest is malformed.
        SecurityError: it asks for what no skill may have, or has another name.
        LinkLeavesProject: the folder for patches leads out of the project.
    """
    text, whole = difference(found.tree, tree)
    gone = [path for path in found.tree if path not in tree and path not in text]
    if whole or gone:
        files = ", ".join(sorted([*whole, *gone]))
        return LeftOut(found.name, "patch", f"a patch holds text alone, and these are none: {files}")
    if not text:
        return found
    content = read(tree)
    patch = Patch(
        base=found.tree.digest, digest=Digest.of(text.encode()), path=free_path(found.name, ports.project)
    )
    old = before.patch if before else None
    is_there = old is not None and (old.base, old.digest) == (patch.base, patch.digest)
    entry = replace(
        found.entry,
        tree=tree.digest,
        capabilities=content.can,
        requires=spelled(content.manifest),
        patch=old if is_there else patch,
    )
    data = None if is_there else text.encode()
    return replace(on_top(found, tree, content), entry=entry, patch=data)

"""The patch that a project agreed to, on top of what a skill's source has: applied in memory, held to the lock."""

from __future__ import annotations

from dataclasses import replace

from skillhub.archive import Entry, gather
from skillhub.errors import SourceMismatch, WrongBytes
from skillhub.flows.candidate import Candidate, Content, read
from skillhub.flows.edits import read_patch
from skillhub.flows.ports import Ports
from skillhub.model.lock import Locked
from skillhub.model.manifest import Manifest
from skillhub.model.patch_apply import apply
from skillhub.model.tree import Tree


def patched(found: Candidate, entry: Locked, ports: Ports, *, scanned: bool) -> Candidate:
    """Return the candidate as the lock has it: verified as its source has it, with the project's patch on top.

    Nobody signed the patch, so that nobody vouches for what comes of it.

    Args:
        found: What the source has, as the lock says.
        entry: The lock's word of it, with the patch.
        ports: The world.
        scanned: Whether what comes of it is scanned.

    Raises:
        NotFound: the patch is not there.
        WrongBytes: the patch, or what comes of it, is not what was locked.
        FormatError: it is no patch, or the manifest that comes of it is malformed.
        SecurityError: what comes of it is what no skill may be.
        LinkLeavesProject: a link leads to it out of the project.
    """
    stored = ports.store.read(entry.tree)
    tree = stored or _applied(found.tree, entry, ports)
    content = read(tree) if scanned else Content(Manifest.read(tree))
    whole = on_top(found, tree, content)
    return replace(whole, entry=entry, stored=found.stored and stored is not None)


def on_top(found: Candidate, tree: Tree, content: Content) -> Candidate:
    """Return a candidate with another tree, which is its own with a patch.

    Raises:
        SourceMismatch: the patch gives it another name.
    """
    if content.manifest.name != found.name:
        raise SourceMismatch(f"the patch renames {found.name} to {content.manifest.name}", where=found.name)
    return replace(
        found,
        tree=tree,
        base=None if found.stored else found.tree,
        manifest=content.manifest,
        can=content.can,
        findings=content.findings,
        trust="unsigned",
        stored=False,
    )


def gated(tree: Tree) -> Tree:
    """Return the tree of a patched skill, held to what archives are held to: a patch may name any path.

    Raises:
        SecurityError: it holds what no skill may.
    """
    return gather((Entry(path, file) for path, file in tree.items()), wrapper=False).tree


def _applied(base: Tree, entry: Locked, ports: Ports) -> Tree:
    patch = entry.patch
    if patch is None:
        return base
    tree = gated(apply(read_patch(patch, ports.project), base, patch.path))
    if tree.digest != entry.tree:
        raise WrongBytes(
            f"expected the patch to give the tree {entry.tree}, found {tree.digest}", where=patch.path
        )
    return tree

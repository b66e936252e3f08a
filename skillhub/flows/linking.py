"""Where a skill is to be enabled, what is in the way there, and what becomes of edits made by hand."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import unified_diff
from typing import Literal

from skillhub.model.question import Question
from skillhub.model.record import LinkKind, Record
from skillhub.model.tree import File, Listing, Tree
from skillhub.world import files, links
from skillhub.world.folders import walk, write_tree
from skillhub.world.project import Project
from skillhub.world.store import Store

EDITS = "skillhub-edits"
Do = Literal["keep", "make", "save"]  # save: keep the edits as a patch, then make


@dataclass(frozen=True, slots=True)
class Step:
    """One link of a skill, where it is, and what is to be done there."""

    link: str
    path: str
    do: Do


@dataclass(frozen=True, slots=True)
class Linking:
    """All links of one skill."""

    name: str
    kind: LinkKind
    steps: tuple[Step, ...]

    @property
    def edited(self) -> tuple[str, ...]:
        """The places where a person changed something."""
        return tuple(step.path for step in self.steps if step.do == "save")

    @property
    def done(self) -> bool:
        """Whether everything is in place already."""
        return all(step.do == "keep" for step in self.steps)

    @property
    def paths(self) -> tuple[str, ...]:
        """The places, absolute."""
        return tuple(step.path for step in self.steps)

    @property
    def links(self) -> tuple[str, ...]:
        """The links as a record spells them."""
        return tuple(step.link for step in self.steps)

    def questions(self) -> list[Question]:
        """Return what is to be asked before edits are taken away."""
        if not self.edited:
            return []
        message = f"{self.name} was edited by hand; save the edits as a patch and put back what is locked?"
        return [Question("local-edit", self.name, message, self.edited)]


class Linker:
    """Plans and makes links of one project out of one store."""

    def __init__(self, project: Project, store: Store) -> None:
        self._project = project
        self._store = store

    def plan(
        self, name: str, wanted: Iterable[str], kind: LinkKind, listing: Listing, record: Record | None
    ) -> Linking:
        """Compare each place with what ought to be there, by every byte.

        Args:
            name: The skill.
            wanted: The links, as a record spells them.
            kind: Copies, or links into the store.
            listing: The tree that is to be there.
            record: What we put there before, if we did.

        Raises:
            StateError: something is in the way that skillhub did not put there.
        """
        stored = self._store.path(listing.digest)
        steps = []
        for link in wanted:
            path = links.place(self._project, link)
            found, _ = links.inspect(path, listing, stored, kind)
            do: Do = "keep" if found == "equal" else "make"
            if found == "edited":
                do = self._theirs(path, link, record)
            steps.append(Step(link, path, do))
        return Linking(name, kind, tuple(steps))

    def plan_removal(self, name: str, record: Record) -> Linking:
        """Look at the places that a record names and that are to be cleared; edits in them are to be saved."""
        listing = self._store.listing(record.tree)
        stored = self._store.path(record.tree)
        steps = []
        for link in record.links:
            path = links.place(self._project, link)
            found = "edited" if os.path.lexists(path) else "absent"
            if listing is not None:
                found, _ = links.inspect(path, listing, stored, record.link)
            steps.append(Step(link, path, "save" if found == "edited" else "keep"))
        return Linking(name, record.link, tuple(steps))

    def _theirs(self, path: str, link: str, record: Record | None) -> Do:
        """Say what to do about a place that differs: an older copy of ours gives way, an edit is saved first."""
        if record is None or link not in record.links:
            raise links.foreign(path)
        before = self._store.listing(record.tree)
        if before is None:
            return "save"
        found, _ = links.inspect(path, before, self._store.path(record.tree), record.link)
        return "make" if found == "equal" else "save"

    def make(self, linking: Linking, tree: Tree, record: Record | None) -> None:
        """Do what is planned; ``record`` names the tree that edits are compared with.

        Raises:
            StateError: the disk refuses.
        """
        self.save_edits(linking, record)
        for step in linking.steps:
            if step.do != "keep":
                links.make(step.path, tree, self._store.path(tree.digest), linking.kind)

    def save_edits(self, linking: Linking, record: Record | None) -> None:
        """Write what a person edited in these places to ``skillhub-edits/``, once for equal edits.

        Args:
            linking: The places.
            record: Names the tree that was put there, which the edits are compared with.
        """
        base = self._store.read(record.tree) if record and linking.edited else None
        for path in linking.edited:
            self._save(linking.name, path, base or Tree({}))

    def _save(self, name: str, path: str, base: Tree) -> None:
        """Write the edits at ``path`` to ``skillhub-edits/``: a patch, and beside it what no patch can hold."""
        if not os.path.isdir(path) or os.path.islink(path):
            return  # a link or a file in place of the folder holds no edit of the skill's content
        now = {found.path: found.file for found in walk(path) if found.file is not None}
        patch, whole = difference(base, now)
        if not patch and not whole:
            return
        folder = files.inside(self._project.root, EDITS)
        os.makedirs(folder, exist_ok=True)
        number = 1
        while os.path.lexists(os.path.join(folder, f"{name}-{number}.patch")):
            number += 1
        files.write_atomic(os.path.join(folder, f"{name}-{number}.patch"), patch.encode("utf-8"))
        if whole:
            write_tree(os.path.join(folder, f"{name}-{number}"), whole.items(), read_only=False)


def difference(base: Tree, now: dict[str, File]) -> tuple[str, dict[str, File]]:
    """Return what was changed from ``base`` to ``now``: a patch for ``patch -p1``, and files it cannot hold."""
    patch: list[str] = []
    whole = {}
    for path in sorted({*base, *now}):
        old, new = base.get(path), now.get(path)
        if old == new:
            continue
        try:
            before = old.data.decode("utf-8") if old else ""
            after = new.data.decode("utf-8") if new else ""
        except UnicodeDecodeError:
            if new:
                whole[path] = new
            continue
        patch += _hunks(path, before, after, old, new)
    return "".join(patch), whole


def _hunks(path: str, before: str, after: str, old: File | None, new: File | None) -> list[str]:
    head = [f"diff --git a/{path} b/{path}\n"]
    if old is None and new is not None:
        head.append(f"new file mode {'100755' if new.executable else '100644'}\n")
    elif new is None:
        head.append(f"deleted file mode {'100755' if old and old.executable else '100644'}\n")
    elif old is not None and old.executable != new.executable:
        head.append(f"old mode {'100755' if old.executable else '100644'}\n")
        head.append(f"new mode {'100755' if new.executable else '100644'}\n")
    names = (f"a/{path}" if old else "/dev/null", f"b/{path}" if new else "/dev/null")
    lines = unified_diff(_lines(before), _lines(after), *names)
    return head + [
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    ]


def _lines(text: str) -> list[str]:
    # Not splitlines: a form feed or a Unicode line separator is no line end to `patch` and `git apply`.
    parts = text.split("\n")
    return [f"{part}\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])

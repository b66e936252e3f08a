"""Where a skill is to be enabled, what is in the way there, and what becomes of edits made by hand."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from skillhub.errors import StateError
from skillhub.model.patch import difference
from skillhub.model.question import Question
from skillhub.model.record import LinkKind, Record
from skillhub.model.tree import File, Listing, Tree
from skillhub.world import files, links
from skillhub.world.folders import list_folder, walk, write_tree
from skillhub.world.project import Project
from skillhub.world.store import Store

EDITS = "skillhub-edits"
_EDITS_MAX = 256 << 20  # bytes; a copy may have become somebody's build folder
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
                if record is None or link not in record.links:
                    raise links.foreign(path)
                do = "make" if self._is_stored(path) else "save"
            steps.append(Step(link, path, do))
        return Linking(name, kind, tuple(steps))

    def plan_removal(self, name: str, record: Record) -> Linking:
        """Look at the places that a record names and that are to be cleared; edits in them are to be saved.

        Raises:
            StateError: one of them cannot be looked at.
        """
        steps = []
        for link in record.links:
            path = links.place(self._project, link)
            is_edited = os.path.lexists(path) and not self._is_stored(path)
            steps.append(Step(link, path, "save" if is_edited else "keep"))
        return Linking(name, record.link, tuple(steps))

    def _is_stored(self, path: str) -> bool:
        """Say whether what is at ``path`` is, to the byte, a tree of the store, so that nothing is lost with it.

        Not only the recorded tree counts: a command that was cut off leaves some places at the tree before.
        """
        if os.path.islink(path):
            return os.path.dirname(os.path.dirname(os.readlink(path))) == self._store.root
        if not os.path.isdir(path):
            return False
        try:
            listing = list_folder(path)
        except OSError as error:
            raise files.disk_error(error, path) from error
        return listing is not None and self._store.listing(listing.digest) is not None

    def make(self, linking: Linking, tree: Tree, record: Record | None) -> None:
        """Do what is planned; ``record`` names the tree that edits are compared with.

        Raises:
            StateError: the disk refuses, or something came in the way since it was planned.
        """
        for step in linking.steps:
            if step.do == "make" and os.path.lexists(step.path) and not self._is_stored(step.path):
                raise links.foreign(step.path)
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
        saved: list[tuple[str, dict[str, File]]] = []
        for path in linking.edited:
            try:
                edits = difference(base or Tree({}), _edited(path))
                if edits not in saved and any(edits):
                    saved.append(edits)
                    self._save(linking.name, *edits)
            except OSError as error:
                raise files.disk_error(error, path) from error

    def _save(self, name: str, patch: str, whole: dict[str, File]) -> None:
        """Write edits to ``skillhub-edits/``: a patch, and beside it what no patch can hold."""
        folder = files.inside(self._project.root, EDITS)
        os.makedirs(folder, exist_ok=True)
        number = 1
        while any(os.path.lexists(os.path.join(folder, f"{name}-{number}{end}")) for end in ("", ".patch")):
            number += 1
        if whole:
            write_tree(os.path.join(folder, f"{name}-{number}"), whole.items(), read_only=False)
        files.write_atomic(os.path.join(folder, f"{name}-{number}.patch"), patch.encode("utf-8"))


def _edited(path: str) -> dict[str, File]:
    """Return the files that a person has in place of a skill; of a link there is nothing to lose but the link."""
    if os.path.islink(path) or not os.path.lexists(path):
        return {}
    if not os.path.isdir(path):
        with open(path, "rb") as file:
            return {os.path.basename(path): File(file.read())}
    edited, size = {}, 0
    for found in walk(path):
        full = f"{path}/{found.path}"
        if found.file is not None:
            edited[found.path] = found.file
            size += len(found.file.data)
        elif os.path.islink(full):
            edited[f"{found.path}.link"] = File(os.fsencode(os.readlink(full)) + b"\n")
        if size > _EDITS_MAX:
            hint = "move away what does not belong to the skill, then run the command again"
            raise StateError(f"more than {_EDITS_MAX >> 20} MiB of edits to save", where=path, hint=hint)
    return edited

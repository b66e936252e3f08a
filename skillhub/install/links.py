"""The places where a skill is enabled: links planned, made and removed; edits that were made by hand in them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from skillhub.command.ports import LeftOut, Ports
from skillhub.disk import files
from skillhub.disk.folders import TreeProblem, listing_of
from skillhub.edits import patch
from skillhub.errors import StateError
from skillhub.formats.digest import Digest
from skillhub.model.hosts import LinkKind
from skillhub.model.provenance import Record, Records
from skillhub.model.question import Asked, Question, Way, chosen_edit
from skillhub.model.tree import Listing, Tree
from skillhub.project import copies
from skillhub.project.project import Project, exclude
from skillhub.project.store import Store

# At each place: a link is ``in-place`` already or is to ``make``; a removal is to ``delete`` a copy without edits.
# Edits are first saved as a patch, merged or discarded (``take``); then the link is made or the copy deleted.
Action = Literal["in-place", "make", "delete", "save", "merge", "take"]
_MARKS = {"extra-file": "+", "missing-file": "-"}
_MOST = 10  # edited files of one copy that a question names


@dataclass(frozen=True, slots=True)
class Step:
    """One link of a skill, its path, and the action for it; ``edits`` are the edited files, ``seen`` is the copy."""

    link: str
    path: str
    do: Action
    edits: tuple[str, ...] = ()
    seen: Listing | None = None


@dataclass(frozen=True, slots=True)
class Linking:
    """The planned links of one skill, or the places that its removal clears.

    Attributes:
        ways: The choices for edits; ``--yes`` takes the first.
        previous_tree: The tree of the present copies; an exact copy of it is not edited, even if it is not stored.
        is_new: Whether the copies will have another tree than ``previous_tree``.
    """

    name: str
    kind: LinkKind
    steps: tuple[Step, ...]
    ways: tuple[Way, ...] = ("save", "take", "keep")
    previous_tree: Digest | None = None
    is_new: bool = False

    @property
    def edited(self) -> tuple[str, ...]:
        """The places with edits, which are saved unless the user chooses otherwise."""
        return tuple(step.path for step in self.steps if step.do == "save")

    @property
    def done(self) -> bool:
        """Whether every link is in place already."""
        return all(step.do == "in-place" for step in self.steps)

    @property
    def paths(self) -> tuple[str, ...]:
        """The absolute paths of the links."""
        return tuple(step.path for step in self.steps)

    @property
    def links(self) -> tuple[str, ...]:
        """The links in the form of a record."""
        return tuple(step.link for step in self.steps)

    def questions(self) -> list[Question]:
        """Return the question about edits, if there are any."""
        if not self.edited:
            return []
        then = "install the new version" if self.is_new else "restore the locked files"
        message = f"{self.name} was edited by hand; save the edits as a patch and {then}?"
        facts = (line for step in self.steps if step.do == "save" for line in (step.path, *step.edits))
        return [Question("local-edit", self.name, message, tuple(facts), ways=self.ways)]

    def answered(self, asked: Sequence[Asked]) -> Linking | None:
        """Return the linking with the user's choice for edits; None if the user keeps the skill unchanged."""
        if not self.edited:
            return self
        way: Way = "save"
        for question, answer in asked:
            if (question.kind, question.skill) == ("local-edit", self.name):
                way = chosen_edit(question, answer) or way
        if way == "keep":
            return None
        return replace(self, steps=tuple(replace(step, do=way) if step.do == "save" else step for step in self.steps))

    def without_merges(self) -> Linking:
        """Return the linking of a skill that will not be enabled: edits are saved instead of merged."""
        steps = (replace(step, do="save") if step.do == "merge" else step for step in self.steps)
        return replace(self, steps=tuple(steps))


def removal_questions(cleared: Iterable[Linking]) -> list[Question]:
    """Return the questions about edits in copies that will be deleted."""
    gone = "was edited by hand, and the copy will be deleted; save the edits as a patch first?"
    return [replace(question, message=f"{each.name} {gone}") for each in cleared for question in each.questions()]


def kept_edited(name: str) -> LeftOut:
    """Return the report of a skill left unchanged, whose edits the user keeps."""
    return LeftOut(name, "edited", "it was edited by hand, and the edits are kept")


class Linker:
    """Plans and makes the links of one project from one store; ``saved`` has the patches of ``save`` by skill."""

    def __init__(self, project: Project, store: Store) -> None:
        self.saved: dict[str, list[str]] = {}
        self._project, self._store = project, store
        self._folders: dict[str, str] = {}

    def plan(
        self, name: str, wanted: Iterable[str], kind: LinkKind, listing: Listing, record: Record | None
    ) -> Linking:
        """Plan the links of a skill; compare every byte of each place with the expected tree.

        Args:
            name: The skill.
            wanted: The links, in the form of a record.
            kind: Copies, or links into the store.
            listing: The listing of the expected tree.
            record: The present record of the skill, if it has one.

        Raises:
            StateError: a file is in the way that skillhub did not put there.
        """
        old = record.tree if record is not None else None
        steps = []
        for link in wanted:
            path = self._path_of(link)
            found, _ = copies.compare_copy(path, listing, self._store, kind)
            do: Action = "in-place" if found == "equal" else "make"
            if found == "edited":
                if record is None or link not in record.links:
                    raise copies.foreign_error(path, self._project.scope)
                do = "make" if self._is_stored(path, old) else "save"
            elif do == "in-place" and kind == "symlink":
                if files.is_link(path):  # the stored tree may have been edited through the link
                    do = "in-place" if self._is_stored(path) else "save"
                elif record is None or record.link != "symlink":  # a copy in place of a link
                    do = "make"
            edited = self._edits(path, record, listing) if record is not None and do == "save" else ()
            steps.append(Step(link, path, do, edited, listing_of(path) if edited else None))
        return Linking(name, kind, tuple(steps), previous_tree=old, is_new=old not in (None, listing.digest))

    def in_place(self, name: str, record: Record) -> Linking | None:
        """Return the linking of a skill that ``is_in_place``, else None; raises as ``is_in_place``."""
        steps = tuple(Step(link, self._path_of(link), "in-place") for link in record.links)
        return Linking(name, "copy", steps, previous_tree=record.tree) if self.is_in_place(record) else None

    def is_in_place(self, record: Record) -> bool:
        """Return whether all copies of a skill are proved unchanged since their last check; raises as ``plan``."""
        paths, holds = [*map(self._path_of, record.links)], self._store.proved.holds
        return record.link == "copy" and all(holds(path, record.tree) for path in paths)

    def _path_of(self, link: str) -> str:
        """Return the path of a link; its folder is checked once for all skills, before the first change.

        Raises:
            LinkLeavesProject: the folder is a link that leads out of the project.
            StateError: a file that skillhub did not put there is in the way of the folder.
        """
        folder, _, name = link.rpartition("/")
        if folder not in self._folders:
            path = copies.path_of(self._project, link)
            if not os.path.isdir(there := copies.first_there(path)):
                raise copies.foreign_error(there)
            self._folders[folder] = path.removesuffix(name)
        return self._folders[folder] + name

    def merging(self, linking: Linking, tree: Tree, record: Record | None) -> Linking:
        """Return the linking with a merge among its ways, if all edits merge with the new tree."""
        if record is None or not linking.edited or record.tree == tree.digest:
            return linking
        base = self._store.read(record.tree)
        if any(patch.merged(base, path, tree, self._project) is None for path in linking.edited):
            return linking
        first, *rest = linking.ways
        return replace(linking, ways=(first, "merge", *rest))

    def plan_removal(self, name: str, record: Record) -> Linking:
        """Return the linking that clears the places of a record, and saves edits in them.

        Raises:
            StateError: a place cannot be read.
        """
        steps = []
        for link in record.links:
            path = copies.path_of(self._project, link)
            is_there = not self._store.proved.holds(path, record.tree) and os.path.lexists(path)
            if not is_there or self._is_stored(path, record.tree):
                steps.append(Step(link, path, "delete"))
                continue
            steps.append(Step(link, path, "save", self._edits(path, record), listing_of(path)))
        return Linking(name, record.link, tuple(steps), previous_tree=record.tree)

    def _edits(self, path: str, record: Record, coming: Listing | None = None) -> tuple[str, ...]:
        """Return the files of a place that differ from the recorded tree; nothing if its listing is unknown."""
        is_back = coming is not None and coming.digest == record.tree
        base = coming if is_back else self._store.listing(record.tree)
        return _edits(copies.compare_copy(path, base, self._store, record.link)[1], path) if base is not None else ()

    def _is_stored(self, path: str, recorded: Digest | None = None) -> bool:
        """Return whether ``path`` holds exactly a tree of the store, so that its removal loses nothing.

        Any stored tree counts: after a crash, some places have the recorded tree and others the one before.
        ``recorded``, the tree of the record, counts even if the store lacks it: such a copy has no edits.
        """
        if files.is_link(path):
            # A dangling link has nothing to lose; a stored tree that is damaged was edited through the link.
            return patch.is_under(path, self._store.root) and (
                not os.path.lexists(real := os.path.realpath(path))
                or not self._store.check(Digest(f"sha256:{os.path.basename(real)}"))
            )
        listing = listing_of(path, self._store.listing(recorded) if recorded else None)
        if listing is None:
            return False
        return listing.digest == recorded or self._store.listing(listing.digest) is not None

    def make(self, linking: Linking, tree: Tree, record: Record | None) -> None:
        """Make the planned links; ``record`` has the tree that edits are compared with.

        Raises:
            StateError: the disk refuses, or since the plan a file has come in the way, or a copy was edited.
        """
        for step in linking.steps:
            is_replaced = step.do == "make" and os.path.lexists(step.path)
            if is_replaced and not self._is_stored(step.path, linking.previous_tree):
                is_ours = record is not None and step.link in record.links
                raise _edited_meanwhile(step.path) if is_ours else copies.foreign_error(step.path)
        base = self._store.read(record.tree) if record else None
        for step in linking.steps:
            if step.do != "in-place":
                new_tree = tree if step.do != "merge" else patch.merged(base, step.path, tree, self._project)
                if new_tree is None:
                    raise _edited_meanwhile(step.path)
                stored = self._store.path(new_tree.digest)
                copies.write_copy(self._project, step.path, new_tree, stored, linking.kind)

    def take_away(self, linking: Linking) -> None:
        """Remove the copies or links at these places; their edits were saved, or the user discards them.

        Raises:
            StateError: the disk refuses, or a copy that had no edits was edited since the plan.
        """
        for step in linking.steps:
            is_copy = os.path.lexists(step.path) and not files.is_link(step.path)
            was_unedited = step.do in ("in-place", "make", "delete")
            if was_unedited and is_copy and not self._is_stored(step.path, linking.previous_tree):
                raise _edited_meanwhile(step.path)
            copies.remove_copy(self._project, step.path)

    def save(self, linking: Linking, record: Record | None, tree: Tree | None = None) -> None:
        """Write the edits to ``skillhub-edits/`` unless the user discards them; called before any other change.

        Args:
            linking: The places.
            record: The record with the tree that the edits are compared with.
            tree: The new tree; if it is the recorded one, it replaces a stored tree that was edited through links.

        Raises:
            StateError: the disk refuses, the edits are too large, or discarded ones are others than the user saw.
        """
        for step in linking.steps:
            if step.do == "take" and step.seen != listing_of(step.path):
                raise _edited_meanwhile(step.path)
        if not linking.edited:
            return
        base = self._store.read(record.tree) if record else None
        if base is None and record is not None and tree is not None and tree.digest == record.tree:
            base = tree
        edited = (patch.read_edited(path, self._store.root, self._project, base or {}) for path in linking.edited)
        self.saved[linking.name] = patch.save(linking.name, edited, base or {}, self._project)


def _edits(problems: Sequence[TreeProblem], path: str) -> tuple[str, ...]:
    """Return a line for each changed file below ``path``, marked ``+``, ``-`` or ``~`` as in a plan."""
    inside = [each for each in problems if each.path != path]
    lines = [f"  {_MARKS.get(each.code, '~')} {each.path[len(path) + 1 :]}" for each in inside[:_MOST]]
    return (*lines, *([f"  and {len(inside) - _MOST} more"] if inside[_MOST:] else []))


def _edited_meanwhile(path: str) -> StateError:
    hint = "run the command again; it asks again"
    return StateError("the copy was edited again meanwhile", where=path, hint=hint)


def write_records(records: Records, ports: Ports) -> None:
    """Write the records if they changed, and exclude their links from git.

    Raises:
        StateError: the disk refuses.
    """
    if records != ports.project.records():
        ports.project.write_records(records)
    exclude(ports.project.around, [link for record in records.skills.values() for link in record.links])

"""Where a skill is enabled, local edits there, and the list of installed skills."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from skillhub.disk import files
from skillhub.disk.folders import TreeProblem, is_link, list_folder
from skillhub.edits import patch as edits
from skillhub.errors import NotFound, StateError
from skillhub.formats.digest import Digest
from skillhub.formats.text import did_you_mean, quote, spelled_like
from skillhub.install.context import LeftOut, command
from skillhub.model.question import Asked, Question, Way, way_of
from skillhub.model.record import LinkKind, Record, Scope
from skillhub.model.tree import Listing, Tree
from skillhub.project import copies
from skillhub.project.project import Project
from skillhub.project.store import Store

# Where a skill is to be enabled, what is in the way there, and what becomes of edits made by hand.

# Edits are saved as a patch, merged, or thrown away; in all three cases the place is then made.
Do = Literal["keep", "make", "save", "merge", "take"]
_MARKS = {"extra-file": "+", "missing-file": "-"}
_MOST = 10  # edited files of one copy that a question names


@dataclass(frozen=True, slots=True)
class Step:
    """One link of a skill, where it is, and what is to be done there; ``edits`` are the files that were edited."""

    link: str
    path: str
    do: Do
    edits: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Linking:
    """All links of one skill.

    Attributes:
        ways: What may become of edits, as a person may choose; the first is what ``--yes`` chooses.
        was: The tree that was put there before; a copy that is this to the byte is not edited, stored or not.
        is_new: Whether another tree than that one is to be there.
    """

    name: str
    kind: LinkKind
    steps: tuple[Step, ...]
    ways: tuple[Way, ...] = ("save", "take", "keep")
    was: Digest | None = None
    is_new: bool = False

    @property
    def edited(self) -> tuple[str, ...]:
        """The places where a person changed something that is to be saved, unless they choose otherwise."""
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
        then = "put the new version in" if self.is_new else "put back what is locked"
        message = f"{self.name} was edited by hand; save the edits as a patch and {then}?"
        facts = (line for step in self.steps if step.do == "save" for line in (step.path, *step.edits))
        return [Question("local-edit", self.name, message, tuple(facts), ways=self.ways)]

    def answered(self, asked: Sequence[Asked]) -> Linking | None:
        """Return what is to be done now that a person has chosen; None if their skill is to stay as it is."""
        if not self.edited:
            return self
        way: Way = "save"
        for question, answer in asked:
            if (question.kind, question.skill) == ("local-edit", self.name):
                way = way_of(question, answer) or way
        if way == "keep":
            return None
        return replace(self, steps=tuple(replace(step, do=way) if step.do == "save" else step for step in self.steps))

    def given_up(self) -> Linking:
        """Return the linking of a skill that is not to be enabled after all: what was to be merged is saved."""
        steps = (replace(step, do="save") if step.do == "merge" else step for step in self.steps)
        return replace(self, steps=tuple(steps))


def about_deleted(cleared: Iterable[Linking]) -> list[Question]:
    """Return what is to be asked about edits made by hand where links are to go."""
    gone = "was edited by hand, and the copy is to be deleted; save the edits as a patch first?"
    return [replace(question, message=f"{each.name} {gone}") for each in cleared for question in each.questions()]


def left_alone(name: str) -> LeftOut:
    """Return what is told of a skill whose edits a person wants to keep."""
    return LeftOut(name, "edited", "it was edited by hand, and is left as it is")


class Linker:
    """Plans and makes links of one project out of one store."""

    def __init__(self, project: Project, store: Store) -> None:
        self._project = project
        self._store = store
        self._folders: dict[str, str] = {}

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
        was = record.tree if record is not None else None
        steps = []
        for link in wanted:
            path = self._place(link)
            found, _ = copies.inspect(path, listing, stored, kind)
            do: Do = "keep" if found == "equal" else "make"
            if found == "edited":
                if record is None or link not in record.links:
                    raise copies.foreign(path)
                do = "make" if self._is_stored(path, was) else "save"
            elif do == "keep" and kind == "symlink":
                do = self._of_link(path, record)
            edited = self._edits(path, record, listing) if record is not None and do == "save" else ()
            steps.append(Step(link, path, do, edited))
        return Linking(name, kind, tuple(steps), was=was, is_new=was not in (None, listing.digest))

    def _place(self, link: str) -> str:
        """Return where a link is to be; its folder is looked at once for all skills, before anything is made.

        Raises:
            LinkLeavesProject: the folder is a link to somewhere outside of the project.
            StateError: something that skillhub did not put there is where the folder is to be.
        """
        folder, _, name = link.rpartition("/")
        if folder not in self._folders:
            path = copies.place(self._project, link)
            if not os.path.isdir(there := _first_there(path)):
                raise copies.foreign(there)
            self._folders[folder] = path.removesuffix(name)
        return self._folders[folder] + name

    def _of_link(self, path: str, record: Record | None) -> Do:
        """Return what to do where a link is to be, and is, or a copy in place of one."""
        if is_link(path):
            return "keep" if self._is_stored(path) else "save"  # edited through the link, in the store
        return "keep" if record is not None and record.link == "symlink" else "make"

    def merging(self, linking: Linking, tree: Tree, record: Record | None) -> Linking:
        """Return the linking with a merge among its ways, if all that was edited goes together with a new tree."""
        if record is None or not linking.edited or record.tree == tree.digest:
            return linking
        base = self._store.read(record.tree)
        if any(edits.merged(base, path, tree, self._project) is None for path in linking.edited):
            return linking
        first, *rest = linking.ways
        return replace(linking, ways=(first, "merge", *rest))

    def plan_removal(self, name: str, record: Record) -> Linking:
        """Look at the places that a record names and that are to be cleared; edits in them are to be saved.

        Raises:
            StateError: one of them cannot be looked at.
        """
        steps = []
        for link in record.links:
            path = copies.place(self._project, link)
            if not os.path.lexists(path) or self._is_stored(path, record.tree):
                steps.append(Step(link, path, "keep"))
                continue
            steps.append(Step(link, path, "save", self._edits(path, record)))
        return Linking(name, record.link, tuple(steps), was=record.tree)

    def _edits(self, path: str, record: Record, coming: Listing | None = None) -> tuple[str, ...]:
        """Return the files of a place that are not as the record says they were put there, if that is known."""
        is_back = coming is not None and coming.digest == record.tree
        base = coming if is_back else self._store.listing(record.tree)
        return _edits(copies.inspect(path, base, "", record.link)[1], path) if base is not None else ()

    def _is_stored(self, path: str, was: Digest | None = None) -> bool:
        """Say whether what is at ``path`` is, to the byte, a tree of the store, so that nothing is lost with it.

        Not only the recorded tree counts: a command that was cut off leaves some places at the tree before. That one,
        ``was``, counts though the store is gone: nobody edited it.
        """
        if is_link(path):
            # What is dangling has nothing to lose; what is not whole any more was edited through the link.
            return edits.is_under(path, self._store.root) and (
                not os.path.lexists(real := os.path.realpath(path))
                or not self._store.check(Digest(f"sha256:{os.path.basename(real)}"))
            )
        if not os.path.isdir(path):
            return False
        with files.disk_errors(path):
            listing = list_folder(path)
        if listing is None:
            return False
        return listing.digest == was or self._store.listing(listing.digest) is not None

    def make(self, linking: Linking, tree: Tree, record: Record | None) -> None:
        """Do what is planned; ``record`` names the tree that edits are compared with.

        Raises:
            StateError: the disk refuses, or something came in the way since it was planned.
        """
        for step in linking.steps:
            if step.do == "make" and os.path.lexists(step.path) and not self._is_stored(step.path, linking.was):
                raise copies.foreign(step.path)
        base = self._store.read(record.tree) if record else None
        for step in linking.steps:
            if step.do != "keep":
                whole = tree if step.do != "merge" else edits.merged(base, step.path, tree, self._project)
                if whole is None:
                    raise _edited_meanwhile(step.path)
                stored = self._store.path(whole.digest)
                copies.make(self._project, step.path, whole, stored, linking.kind)

    def take_away(self, linking: Linking) -> None:
        """Take away what is at these places; edits there were saved, or are not wanted.

        Raises:
            StateError: the disk refuses, or what had nothing to save was edited since it was looked at.
        """
        for step in linking.steps:
            is_copy = os.path.lexists(step.path) and not is_link(step.path)
            if step.do in ("keep", "make") and is_copy and not self._is_stored(step.path, linking.was):
                raise _edited_meanwhile(step.path)
            copies.unmake(self._project, step.path)

    def save(self, linking: Linking, record: Record | None, tree: Tree | None = None) -> None:
        """Write what a person edited in these places to ``skillhub-edits/``; before anything else is changed.

        Args:
            linking: The places.
            record: Names the tree that was put there, which the edits are compared with.
            tree: The tree that is to be there; where the store's own was edited, that one may be it.

        Raises:
            StateError: the disk refuses, or it is too much to save.
        """
        if not linking.edited:
            return
        base = self._store.read(record.tree) if record else None
        if base is None and record is not None and tree is not None and tree.digest == record.tree:
            base = tree
        now = (edits.read_edited(path, self._store.root, self._project) for path in linking.edited)
        edits.save(linking.name, now, base or {}, self._project)


def _edits(problems: Sequence[TreeProblem], path: str) -> tuple[str, ...]:
    """Return the files below ``path`` that are not as they were put there, marked as in a plan."""
    inside = [each for each in problems if each.path != path]
    lines = [f"  {_MARKS.get(each.code, '~')} {each.path[len(path) + 1 :]}" for each in inside[:_MOST]]
    return (*lines, *([f"  and {len(inside) - _MOST} more"] if inside[_MOST:] else []))


def _first_there(path: str) -> str:
    """Return the nearest of the folders above ``path`` that is there, or what is there in place of one."""
    path = os.path.dirname(path)
    while not os.path.lexists(path) and path != os.path.dirname(path):
        path = os.path.dirname(path)
    return path


def _edited_meanwhile(path: str) -> StateError:
    hint = "run the command again; it asks anew"
    return StateError("it was edited once more meanwhile", where=path, hint=hint)


# List: what the lock has, and what lies in agents' folders without it.


def refuse_unknown(names: Iterable[str], installed: Collection[str], scope: Scope) -> None:
    """Refuse names of skills that are not installed here, in a project or for the user.

    Raises:
        NotFound: one is none; the hint lists names that are spelled alike.
    """
    for name in names:
        if name not in installed:
            listed, adopt = command(scope, "list"), command(scope, "adopt")
            rest = f"{listed} shows what is; {adopt} takes in what is unmanaged there"
            hint = f"{did_you_mean(spelled_like(name, installed))} {rest}".lstrip()
            raise NotFound(f"no skill named {quote(name)} is installed here", hint=hint)

"""The places where agents read a skill: links planned, made and removed, edits in them, and copies in no record."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from skillhub.command.ports import LeftOut, Options, Ports, chosen_agents
from skillhub.command.state import State
from skillhub.disk import files
from skillhub.disk.folders import TreeProblem, list_folder, listing_of
from skillhub.disk.home import first_there
from skillhub.edits import patch
from skillhub.errors import StateError
from skillhub.formats.digest import NO_FILES, Digest
from skillhub.model.hosts import LinkKind
from skillhub.model.lock import LOCAL, Lock, place_of
from skillhub.model.provenance import Record, Records
from skillhub.model.question import Asked, Question, Way, chosen_edit
from skillhub.model.tree import SKILL_MD, Listing, Tree
from skillhub.project import copies
from skillhub.project.git_exclude import exclude
from skillhub.project.project import Project
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
            StateError: a file is in the way that skillhub did not put there, or the place is the skill's own source.
        """
        old = record.tree if record is not None else None
        steps = []
        for link in wanted:
            path = self._path_of(link)
            found, _ = copies.compare_copy(path, listing, self._store, kind)
            do: Action = "in-place" if found == "equal" else "make"
            if do != "in-place" and record is not None:
                refuse_source(self._project, link, path, record)
            if found == "edited":
                if record is None or link not in record.links:
                    raise copies.foreign_error(path, self._project)
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
            if not os.path.isdir(there := first_there(os.path.dirname(path))):
                raise copies.foreign_error(there, self._project)
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
            StateError: a place cannot be read, or is the skill's own source.
        """
        steps = []
        for link in record.links:
            path = copies.path_of(self._project, link)
            refuse_source(self._project, link, path, record)
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
        if base is None:
            return ()
        return _edit_lines(copies.compare_copy(path, base, self._store, record.link)[1], path)

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
                raise _edited_meanwhile(step.path) if is_ours else copies.foreign_error(step.path, self._project)
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

    def save(
        self, linking: Linking, record: Record | None, tree: Tree | None = None, taken: str | None = None
    ) -> None:
        """Write the edits to ``skillhub-edits/`` unless the user discards them; called before any other change.

        Args:
            linking: The places.
            record: The record with the tree that the edits are compared with.
            tree: The new tree; if it is the recorded one, it replaces a stored tree that was edited through links.
            taken: The path of a patch that the command will write.

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
        self.saved[linking.name] = patch.save(linking.name, edited, base or {}, self._project, taken)


def refuse_source(project: Project, link: str, path: str, record: Record) -> None:
    """Refuse a place that is the skill's own source; a link that the project got later makes it one.

    Raises:
        StateError: the place is the source.
    """
    origin = record.newest.provenance
    if origin is None or place_of(origin.source) != LOCAL:
        return
    if os.path.realpath(os.path.join(project.base, origin.path)) == os.path.realpath(path):
        message = f"a link of the project makes the copy for agents the skill's own source, {origin.path}"
        hint = "remove the link, then run the command again"
        raise StateError(message, where=copies.absolute(project.base, link), hint=hint)


def _edit_lines(problems: Sequence[TreeProblem], path: str) -> tuple[str, ...]:
    """Return a line for each changed file below ``path``, marked ``+``, ``-`` or ``~`` as in a plan."""
    inside = [each for each in problems if each.path != path]
    lines = [f"  {_MARKS.get(each.code, '~')} {each.path[len(path) + 1 :]}" for each in inside[:_MOST]]
    return (*lines, *([f"  and {len(inside) - _MOST} more"] if inside[_MOST:] else []))


def _edited_meanwhile(path: str) -> StateError:
    return StateError("the copy was edited again meanwhile", where=path, hint="run the command again; it asks again")


def write_records(records: Records, ports: Ports) -> None:
    """Write the records if they changed, and exclude their links from git.

    Raises:
        StateError: the disk refuses.
    """
    if records != ports.project.records():
        ports.project.write_records(records)
    exclude(ports.project.around, [link for record in records.skills.values() for link in record.links])


# Folders that agents read as a locked skill, and that no record lists.


def unmanaged_copies(lock: Lock, records: Records, ports: Ports) -> Mapping[str, Sequence[str]]:
    """Return by name the folders that agents read as a locked skill, and that skillhub does not manage."""
    project = ports.project
    kept: defaultdict[str, set[str]] = defaultdict(set)
    links = (link for record in records.skills.values() for link in record.links)
    for folder, names in copies.by_folder(project, links).items():
        kept[os.path.realpath(folder)] |= names  # the folders of two agents may be the same
    local = [entry.path for entry in lock.skills.values() if entry.local and entry.path]
    sources = [f"{os.path.realpath(os.path.join(project.base, each))}{os.sep}" for each in local]
    found: defaultdict[str, list[str]] = defaultdict(list)
    for folder in copies.agent_folders(project, ports.user_home, ports.environ):
        real = os.path.realpath(folder)
        if not (kept[real] or _is_for_agents(real, project)):
            continue
        try:
            locked_names = lock.skills.keys() & {*os.listdir(real)}
        except OSError:
            continue
        for name in sorted(locked_names - kept[real]):
            path = os.path.join(real, name)
            own = f"{os.path.realpath(path)}{os.sep}"
            holds_source = any(each.startswith(own) for each in sources)
            if os.path.isfile(os.path.join(path, SKILL_MD)) and not holds_source:
                found[name].append(path)
    return found


def name_collisions(lock: Lock, ports: Ports, name_in: Callable[[str], str | None]) -> Mapping[str, Sequence[str]]:
    """Return by name the folders, of another name or deeper, whose ``SKILL.md`` gives agents a locked name.

    ``name_in`` returns the name that agents read in a folder.

    Raises:
        FormatError, StateError: as for ``copies.unmanaged``.
    """
    found: defaultdict[str, list[str]] = defaultdict(list)
    tops = copies.agent_folders(ports.project, ports.user_home, ports.environ)
    # A linked folder counts by the place of the link, not of its target.
    of_agents = tuple(f"{top}{os.sep}" for top in tops if _is_for_agents(os.path.realpath(top), ports.project))
    for path in copies.unmanaged(ports.project, ports.user_home, ports.environ):
        folder, base = os.path.split(path)
        is_copy = base in lock.skills and folder in tops  # which ``unmanaged_copies`` returns
        if not is_copy and f"{path}{os.sep}".startswith(of_agents):
            name = name_in(path)  # agents may read a skill that cannot be installed
            if name is not None and name in lock.skills:
                found[name].append(path)
    return found


def _is_for_agents(real: str, project: Project) -> bool:
    """Return whether a folder of the project, or of one of its packages, is for agents alone, as hidden ones are.

    One agent reads ``skills``, where authors keep their own skills, too. In user scope, all folders that agents read
    are theirs, wherever links lead, as in managed dotfiles.
    """
    below = copies.portable(real, os.path.realpath(project.base))
    return "/." in f"/{below}" or os.path.isabs(below) or project.scope == "user"


def copies_to_remove(name: str, paths: Iterable[str], state: State, ports: Ports) -> tuple[list[Step], list[str]]:
    """Decide on unmanaged copies of a locked skill; if the skill is not enabled, no agent may read one.

    Returns:
        The copies to remove after their edits are saved; and those that skillhub never put there, which stay.

    Raises:
        FormatError, StateError: the chosen agents cannot be read.
    """
    tree, record = state.lock.skills[name].tree, state.records.skills.get(name)
    if state.enabled(name):
        return [], [path for path in paths if not _is_spare(path, tree, record, ports.store)]
    was_enabled = record is not None and record.disabled_by == "user" and record.tree != NO_FILES
    agents = chosen_agents(Options(), state.records, state.intent, ports) if was_enabled else ()
    # In the folder of an agent that was not chosen, a skill of that name belongs to the user.
    folders = {*map(os.path.realpath, copies.folders_of(ports.project, agents, ports.user_home, ports.environ))}
    base = os.path.realpath(ports.project.base)
    steps, left = [], []
    for path in paths:
        if ports.project.scope == "project" and os.path.isabs(copies.portable(path, base)):  # reached through a link
            left.append(path)
        elif _is_spare(path, tree, record, ports.store):
            steps.append(Step(path, path, "delete"))
        elif was_enabled and not files.is_link(path) and os.path.dirname(path) in folders:
            steps.append(Step(path, path, "save"))
        else:
            left.append(path)
    return steps, left


def _is_spare(path: str, tree: Digest, record: Record | None, store: Store) -> bool:
    """Return whether ``path``, or its target, is exactly the locked tree, or the one that this machine had enabled.

    Another tree of the store does not count: ``cache gc`` may remove it, and this copy would be the last one.
    """

    def is_copy_of(digest: Digest) -> bool:
        listing = list_folder(path, store.listing(digest))
        return listing is not None and listing.digest == digest

    try:
        former = record.tree if record is not None else tree
        return is_copy_of(tree) or (former != tree and is_copy_of(former) and not store.check(former))
    except OSError:
        return False

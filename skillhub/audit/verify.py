"""Verify: compares store, copies, lock and signatures, offline and byte for byte."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache

from skillhub.command.ports import Ports
from skillhub.command.state import State, refuse_unknown
from skillhub.disk.folders import TreeProblem, compare
from skillhub.edits.patch import listing_of_copy, read_patch
from skillhub.errors import FormatError, NotFound, Reasoned, SecurityError, SkillhubError, SourceMismatch
from skillhub.formats.digest import Digest
from skillhub.formats.text import as_command, collapsed, command, from_here
from skillhub.install import candidates, pins
from skillhub.install.links import copies_to_remove, name_collisions, unmanaged_copies
from skillhub.model.lock import Lock, Locked, Signer, shown_signers
from skillhub.model.manifest import Manifest
from skillhub.model.provenance import Record, Records
from skillhub.model.tree import SIGNATURE, SKILL_MD, Listing, Tree
from skillhub.project import copies
from skillhub.project.git_exclude import tracked_files
from skillhub.project.intent import Intent
from skillhub.project.last_seen import ReleaseStatus, SeenRegistries
from skillhub.project.project import Project
from skillhub.project.store import Store
from skillhub.runtime.discover import found_name
from skillhub.trust.publishers import Publisher, judge

# The codes of problems that ``sync`` cannot repair.
BEYOND_SYNC = frozenset(
    {
        *("signature", "signer-unknown", "patch", "withdrawn", "revoked", "name-not-owned", "not-enabled"),
        *("origin-changed", "other-skill", "other-tree", "unreadable", SourceMismatch.code),
    }
)
LEFT_THE_LOCK = "the skill left the lock, and agents still read it here"
LACKED = "the lock lacks the skill, and agents still read it here; sync keeps it until the lock is complete"
_UNKNOWN_SIGNER = "no key is known here to check version, source and signer of the lock"
NOT_AGREED = "not agreed to on this machine, so it is not stored here"
_NOT_ENABLED = "the skill is not enabled, and agents still read it here"


@dataclass(frozen=True, slots=True)
class Verified:
    """The result for one skill; without problems it is as locked, byte for byte.

    Attributes:
        notes: Facts that are not problems: a yanked release, an expired certificate.
    """

    name: str
    problems: tuple[TreeProblem, ...]
    notes: tuple[TreeProblem, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the skill has no problems."""
        return not self.problems


def verify(names: Sequence[str], ports: Ports) -> list[Verified]:
    """Compare the locked skills with the store and the enabled copies, and verify the stored signatures, offline.

    A release that its registry has withdrawn, or whose key it has revoked, is a problem if this machine knows of it.
    So is a skill that left the lock, and that agents still read.

    Args:
        names: The skills; none means all.
        ports: What the command works with; no registry is opened, and no question is asked.

    Raises:
        NotFound: a name is not locked.
        FormatError: the lock is malformed.
        StateError: the lock cannot be read, or a link leads out of the project.
    """
    lock = ports.project.lock()
    verifier = Verifier(ports, StoredSkills(ports.store), lock, ports.project.records().returned(lock.skills))
    known = dict.fromkeys((*verifier.lock.skills, *verifier.left))
    refuse_unknown(names, known, ports.project, verifier.state.unlocked)
    return [verifier.verify(name) for name in dict.fromkeys(names or known)]


class StoredSkills:
    """Reads skills from the store, and caches the last one, which all checks of an audit read."""

    def __init__(self, store: Store) -> None:
        self.tree = lru_cache(maxsize=1)(store.read)
        self.manifest = lru_cache(maxsize=1)(self._manifest)

    def _manifest(self, tree: Digest) -> Manifest | None:
        stored = self.tree(tree)
        return None if stored is None else Manifest.read(stored)


class Verifier:
    """Verifies the skills of a project one by one.

    Attributes:
        left: The problems of skills that left the lock, and that agents still read.
        state: Lock, intent and records.

    Raises:
        StateError: a link leads out of the project.
    """

    def __init__(self, ports: Ports, stored: StoredSkills, lock: Lock, records: Records) -> None:
        self._ports, self._stored = ports, stored
        self._folder = lru_cache(maxsize=64)(ports.project.folder)  # few folders contain the copies of many skills
        self.lock, self._records = lock, records
        self.state = _read_state(self.lock, self._records, ports.project)
        paths_by_name = copies.left_the_lock(ports.project, self.lock, self._records)
        self.left = {
            name: _still_there(paths, LACKED if name in self.state.kept else LEFT_THE_LOCK)
            for name, paths in paths_by_name.items()
        }
        self._unmanaged = unmanaged_copies(self.lock, self._records, ports)
        self._collisions = name_collisions(self.lock, ports, found_name)

    def verify(self, name: str, status: ReleaseStatus | None = None) -> Verified:
        """Verify a skill that is in the lock, or that left it.

        Args:
            name: The skill.
            status: The answer of its registry, if it was just asked; otherwise the last answer counts.
        """
        if name in self.left:
            return Verified(name, self.left[name])
        ports, project = self._ports, self._ports.project
        entry, record = self.lock.skills[name], self._records.skills.get(name)
        root, tree = self.lock.root_of(entry), self._stored.tree(entry.original.tree)
        status = status or ReleaseStatus.last_seen(name, entry, root, ports.seen)
        problems, notes = _check_release(status, tree, root, ports)
        if record is None or record.consent_to(entry) is None:
            problems = [replace(each, message=NOT_AGREED) if each.code == "missing" else each for each in problems]
        if record is None or record.tree != entry.tree:  # a tree that the user agreed to has the right name
            problems += self._check_name(name, entry)
        if tree is not None and not entry.signed_by:  # the pin of a signer is for this version
            problems += self._check_version(name, entry.original)
        problems += _check_patch(entry, ports)
        places = copies.paths_of(project, record.links, self._folder) if record else []
        unmanaged = self._unmanaged.get(name, ())
        listing = tree.listing if tree is not None and entry.patch is None else ports.store.listing(entry.tree)
        listing = listing or listing_of_copy([*places, *unmanaged], entry.tree)
        problems += _check_copies(entry, record, places, listing, ports)
        problems += _check_origin(name, entry, record, project)
        problems += _check_unmanaged(name, unmanaged, self.state, ports)
        is_enabled = self.state.enabled(name) is not None
        collisions = self._collisions.get(name, ())
        problems += [
            _other(path) for path in collisions if not is_enabled or listing is None or compare(path, listing)
        ]
        return Verified(name, tuple(problems), tuple(notes))

    def _check_name(self, name: str, entry: Locked) -> Iterator[TreeProblem]:
        """Yield a problem if the stored skill has another name than the lock."""
        try:
            manifest = self._stored.manifest(entry.tree)
        except FormatError as error:
            yield TreeProblem("malformed", error.where or self._ports.store.path(entry.tree), error.message)
            return
        own = entry.own_name(name)
        if manifest is not None and manifest.name != own:
            message = f"the lock names {own}, its SKILL.md {manifest.name}"
            yield TreeProblem(SourceMismatch.code, self._ports.project.lock_path, message)

    def _check_version(self, name: str, entry: Locked) -> Iterator[TreeProblem]:
        """Yield a problem if the lock states another version than the stored skill, by which advisories name it."""
        with suppress(FormatError, SecurityError):
            manifest = self._stored.manifest(entry.tree)
            if manifest is not None and manifest.version != entry.version:
                found, locked = manifest.version or "none", entry.version or "without a version"
                message = f"the lock has {name} {locked}, its SKILL.md says {found}"
                yield TreeProblem(SourceMismatch.code, self._ports.project.lock_path, message)


def _still_there(places: Sequence[str], message: str) -> tuple[TreeProblem, ...]:
    return tuple(TreeProblem("not-enabled", path, message) for path in places if os.path.lexists(path))


def _check_release(
    status: ReleaseStatus, tree: Tree | None, root: Digest | None, ports: Ports
) -> tuple[list[TreeProblem], list[TreeProblem]]:
    """Return the problems and the notes about the stored tree, its signature and its release."""
    problems, notes = [], []
    entry, place = status.entry.original, ports.project.lock_path
    if error := status.objection:
        problems.append(_problem(error, place))
    notes += [TreeProblem("yanked", place, text) for text in status.yanked]
    if tree is None or ports.store.listing(tree.digest) is None:
        problems += ports.store.check(entry.tree)
    if tree is not None and entry.signed_by:
        signature = f"{ports.store.path(entry.tree)}/{SIGNATURE}"
        try:
            known = pins.pinned(status.name, entry, root, ports.publishers)
            if not known:
                message = f"{_UNKNOWN_SIGNER}; {_install_command(ports.project)} fetches it, or reports the error"
                problems.append(TreeProblem("signer-unknown", signature, message))
            elif _is_expired(entry, tree, known, candidates.revoking(status), ports):
                notes.append(TreeProblem("certificate-expired", signature, candidates.EXPIRED))
        except (SecurityError, FormatError) as broken:
            problem = _problem(broken, signature, "signature")
            if problem.code not in {reported.code for reported in problems}:
                problems.append(problem)
    return problems, notes


def _check_patch(entry: Locked, ports: Ports) -> Iterator[TreeProblem]:
    """Yield the problems of the project's patch, and of the stored tree that results from it."""
    if entry.patch is None:
        return
    yield from ports.store.check(entry.tree)
    try:
        read_patch(entry.patch, ports.project)
    except (NotFound, SecurityError, FormatError) as error:
        yield TreeProblem("patch", error.where or entry.patch.path, error.message)


def _is_expired(
    entry: Locked, tree: Tree, known: Sequence[Publisher], revoking: Sequence[Publisher], ports: Ports
) -> bool:
    """Verify that a tree is signed by the locked signer, and return whether the certificate has expired.

    Raises:
        SecurityError: the tree is not signed by the locked signer.
        FormatError: a key, root or identity of a known publisher is malformed.
    """
    verdict = judge(tree, [*known, *revoking], None, ports.clock(), locked=(entry.tree,))
    locked = {signer.fingerprint for signer in map(Signer.parse, entry.signed_by)}
    if verdict.signer is None or verdict.signer.fingerprint not in locked:
        raise SecurityError(f"expected it to be signed by {shown_signers(entry.signed_by, ports.voucher(entry))}")
    return verdict.expired


def _problem(error: SecurityError | FormatError, path: str, code: str | None = None) -> TreeProblem:
    """Return an error as a problem; if its reason is ``revoked``, that is the code."""
    if isinstance(error, Reasoned) and error.reason == "revoked":
        code = error.reason
    return TreeProblem(code or error.code, path, error.message)


def _check_unmanaged(name: str, places: Sequence[str], state: State, ports: Ports) -> Iterator[TreeProblem]:
    """Yield the unmanaged copies that agents would take for the locked skill.

    ``sync`` removes the copies that skillhub made and leaves the others; if the chosen agents cannot be read, it
    fails, and then all copies count as others.
    """
    try:
        steps, others = copies_to_remove(name, places, state, ports) if places else ([], [])
    except SkillhubError:
        steps, others = [], [*places]
    yield from _still_there([step.path for step in steps], _NOT_ENABLED)
    yield from map(_other, others)


def removal_of(folder: str, ports: Ports) -> str:
    """Return the command that removes a skill in no lock, which no command of skillhub does.

    An agent's folder that is itself a skill loses only its ``SKILL.md``: other skills are in it.
    """
    path = from_here(folder)
    if folder in copies.agent_folders(ports.project, ports.user_home, ports.environ):
        return as_command("rm", f"{path}/{SKILL_MD}")
    if collapsed(path) == path:
        return as_command("rm", "-r", path)
    # Without its hidden characters, which no terminal shows, the path may be that of another skill.
    octets = "".join(f"\\{each:03o}" for each in os.fsencode(path))
    return f"rm -r \"$(printf '{octets}')\""


def _read_state(lock: Lock, records: Records, project: Project) -> State:
    """Return the state; a malformed skillhub.toml counts as empty, since ``install`` reports it."""
    try:
        return State(lock, project.intent(), records)
    except SkillhubError:
        return State(lock, Intent(), records)


def _other(path: str) -> TreeProblem:
    return TreeProblem("other-skill", path, "has the name of a locked skill, and skillhub did not put it there")


def _check_origin(name: str, entry: Locked, record: Record | None, project: Project) -> Iterator[TreeProblem]:
    """Yield a problem if the lock has another origin or signer than the user agreed to, even for the same tree."""
    if record is not None and (elsewhere := record.newest.elsewhere(entry)):
        message = "{} was agreed to {}; the lock now has it {}".format(name, *elsewhere)
        message = f"{message}; {_install_command(project)} asks about it, or reports the error"
        yield TreeProblem("origin-changed", project.lock_path, message)


def _check_copies(
    entry: Locked, record: Record | None, places: Sequence[str], listing: Listing | None, ports: Ports
) -> Iterator[TreeProblem]:
    if record is None:
        return
    if record.tree != entry.tree:
        yield from (TreeProblem("other-tree", path, "the enabled version is not the locked one") for path in places)
        return
    if not record.enabled:
        yield from _still_there(places, _NOT_ENABLED)
        return
    for path in places:
        if listing is None:
            yield TreeProblem("unknown", path, "differs from the lock, and the store no longer lists its files")
            continue
        yield from copies.compare_copy(path, listing, ports.store, record.link)[1]


def _install_command(project: Project) -> str:
    return command(project.scope, "install")


# Enabled copies that git tracks: others would get them without lock, consent or signature.


def tracked_copies(project: Project, links: Sequence[str]) -> list[str]:
    """Return the absolute paths in ``links`` that git tracks, also in part; empty without git or a repository.

    One agent reads ``skills``, where authors keep their own skills, too: one that is locked from there, or is in no
    lock, is no copy.

    Raises:
        StateError: there is a repository, and git cannot list its tracked files.
    """
    # With a path outside of its folder, git would fail for all paths.
    base, locked = project.base, project.lock().skills

    def is_own(link: str) -> bool:
        path, entry = copies.portable(link, base), locked.get(os.path.basename(link))
        return "/." not in f"/{path}" and (entry is None or (entry.local and entry.path == path))

    inside = [link for link in links if link.startswith(os.path.join(base, "")) and not is_own(link)]
    tracked = tracked_files(base, inside)
    # git lists a link itself, and a submodule by its folder.
    return [link for link in inside if any(f"{path}{os.sep}".startswith(link + os.sep) for path in tracked)]


def remedies(project: Project, seen: SeenRegistries) -> dict[str, str]:
    """Return the locked skills that their registries have recalled, as far as this machine knows, and what helps."""
    lock, found = project.lock(), {}
    for name, entry in lock.skills.items():
        status = ReleaseStatus.last_seen(name, entry, lock.root_of(entry), seen)
        if error := status.objection:
            found[name] = status.remedy(error, project.scope, project.intent).hint
    return found

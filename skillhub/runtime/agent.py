"""The catalogue of one agent: the skills in its folders, with the state that its settings and the locks give them.

The locks and this machine's record of them are found here, for every host. A skill that differs from its lock, was
not agreed to on this machine, or is disabled, is listed as held back and is not loaded.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from importlib import import_module
from itertools import islice
from threading import Event
from typing import Any, Final

from skillhub.disk.home import LOCK, upwards
from skillhub.disk.proved import Stamp, stamp_of
from skillhub.errors import Drifted, SkillhubError, UsageError
from skillhub.formats.digest import Digest
from skillhub.formats.text import as_command, quote, typed_flags, words
from skillhub.model.hosts import Profile, Scope, SkillScope
from skillhub.model.hosts import profile as profile_of
from skillhub.model.manifest import FOLDER_NAME
from skillhub.model.question import HoldReason
from skillhub.model.skill import Problem, Skill
from skillhub.model.tree import Listing
from skillhub.project.copies import NeedCheck, need_check, unmanaged
from skillhub.project.project import Project, root_markers
from skillhub.runtime.catalog import STORED, Catalog, Root, Session, alike, folded, holding, unreadable_lock_reason
from skillhub.runtime.discover import Search, Surroundings, discover, found_skill, roots
from skillhub.runtime.folder import Agreed, Folder, all_files, has_tree
from skillhub.runtime.locks import KnownLocks, Locks, NoLocks
from skillhub.runtime.state import layers, reach_files, state_folder, store_answer, stored_answers, with_reach
from skillhub.runtime.walk import Cache, declared

_CODEX_SCOPES: Final = {"project": "repo", "user": "user", "admin": "admin"}
_CODEX_PROVENANCE: Final = {"project": "project", "user": "personal", "admin": "admin"}


def unmanaged_skills(project: Project, user_home: str, environ: Mapping[str, str]) -> list[Skill]:
    """Return the skills in agents' folders that are in no lock; one that ``disable`` switched off is disabled."""
    if not (folders := [*unmanaged(project, user_home, environ)]):
        return []
    state, markers = project.home.state, root_markers(project.base)
    around = Surroundings(cwd=project.base, home=user_home, environ=environ, state=state, markers=markers)
    settings, _ = layers(profile_of("agents"), around)
    return [*with_reach((found_skill(folder, project.scope) for folder in folders), settings)]


def names_of(skill: Skill) -> set[str]:
    """Return the names of a skill in no lock: its own, as ``list`` shows it, and its folder's, as ``audit`` does."""
    return {skill.name, os.path.basename(skill.path or "")}


def catalog_of(
    profile: Profile | str,
    around: Surroundings,
    cache: Cache | None = None,
    reload: bool = False,
    ignore_locks: bool = False,
) -> Catalog:
    """Return the catalogue of an agent: its skills, sorted by scope, name and path.

    The folder that skillhub made for a locked skill is that skill, and no other skill has its name. A skill that is
    held back has the state ``disabled`` and the reason in ``Skill.held``, even if no folder holds it. While a lock
    cannot be read, every skill is held back.

    Args:
        profile: The agent, or its id.
        around: Where the agent runs; the locks of the project and of the user are found from there.
        cache: Keeps the results of earlier walks through folders.
        reload: Whether to read every folder again and ignore the cache.
        ignore_locks: Whether to show each skill as the host alone would, without locks and this machine's record.

    Raises:
        UsageError: there is no agent of that name.
    """
    profile = profile_of(profile)
    search = Search(rules=profile.rules, bounds=profile.bounds, cache=cache, reload=reload)
    return _catalog(profile, around, search, None if ignore_locks else {})


def catalog_after_writing(profile: Profile, around: Surroundings, written: Mapping[str, Digest]) -> Catalog:
    """Return the catalogue as ``catalog_of`` does, for the list at the end of a command; not for hosts.

    ``written`` has the tree of each folder that this process has just written; these folders are not hashed again.
    """
    return _catalog(profile, around, Search(rules=profile.rules, bounds=profile.bounds), written)


def catalog_naming(profile: Profile, around: Surroundings, name: str, cache: Cache | None = None) -> Catalog:
    """Return the catalogue as ``catalog_of`` does, for one load by name; not for hosts.

    Without the skills that the name cannot mean, whose files are not looked at; with them if it means none.
    """
    found = _catalog(profile, around, Search(rules=profile.rules, bounds=profile.bounds, cache=cache), {}, name)
    return found if found.named(name) else catalog_of(profile, around, cache=cache)


def _catalog(
    profile: Profile, around: Surroundings, search: Search, written: Mapping[str, Digest] | None, name: str = ""
) -> Catalog:
    """Return the catalogue, without locks if ``written`` is None, and with a ``name`` only of skills spelled so."""
    # Locks and records have absolute paths.
    around = replace(around, cwd=os.path.abspath(around.cwd), home=os.path.abspath(around.home))
    settings, problems = layers(profile, around)
    extra = (path for layer in settings for path in layer.extra)
    found_roots = roots(profile, replace(around, extra=(*around.extra, *extra)))
    locks = NoLocks() if written is None else _locks_near(found_roots, around, written)
    discovered = discover(found_roots, replace(search, locks=locks))
    link_folders = {os.path.dirname(skill.path or "") for skill in discovered.skills if skill.links != (skill.path,)}
    known_locks = locks.read(link_folders)
    found, locked = discovered.skills, known_locks.skills
    if name:
        names = {alike(name), alike(name.rpartition(":")[2])}
        found = tuple(each for each in found if not names.isdisjoint(map(alike, _names(each, known_locks))))
        locked = tuple(each for each in locked if alike(each.name) in names)
    namespaces = {root.path: root.namespace for root in found_roots}
    skills, mismatches, listed = _recognized(found, known_locks, locks, namespaces)
    skills = [_held_to_its_tree(skill, locks, namespaces) for skill in skills]
    if settings:
        skills = [_asked_if_changed(skill, locks) for skill in with_reach(skills, settings)]
    searched = _searched(found_roots, discovered.problems)
    unlisted = (_without_folder(skill, searched, locks) for skill in locked if id(skill) not in listed)
    waiting = [replace(skill, locks=locks) for skill in unlisted if skill is not None]
    unread = [Problem(error.where or around.cwd, error.message) for error in known_locks.errors]
    # The folder of an alias has another name than its skill, on purpose.
    aliases = [skill.path or "" for skill in skills if skill.own_name]
    all_problems = (*problems, *unread, *unnamed(discovered.problems, aliases), *mismatches)
    catalog = Catalog.of((*skills, *waiting), all_problems, profile.hides, known_locks.skills)
    shown = _with_needs(_in_order(catalog.skills, profile.listing), around.variables)
    return replace(catalog, skills=shown, host=profile.id, roots=found_roots, room=_room(profile, around))


def _locks_near(found_roots: Iterable[Root], around: Surroundings, written: Mapping[str, Digest]) -> Locks:
    """Return the locks of the working folder, and of the folders in which the agent looks for skills."""
    readable = [root for root in found_roots if not root.problem]
    holders = (root.path for root in readable if not root.is_commands)
    return Locks(around, (around.cwd, *map(_folder, readable)), holders=holders, written=written)


def _searched(found_roots: Iterable[Root], problems: Iterable[Problem]) -> set[str]:
    """Return the roots that were searched to their end, as they are spelled and without links."""
    cut = {problem.path for problem in problems if problem.is_cut}
    complete = [root.path for root in found_roots if root.path not in cut]
    return {folded(spelling) for path in complete for spelling in (path, os.path.realpath(path))}


def _in_order(skills: Iterable[Skill], scopes: Sequence[SkillScope]) -> list[Skill]:
    """Return the skills by scope, name and path; a waiting skill is in no folder, has no root, and comes last."""
    rank = {scope: number for number, scope in enumerate(scopes)}
    return sorted(
        skills,
        key=lambda skill: (not skill.root, rank.get(skill.scope, len(rank)), skill.full_name, skill.path or ""),
    )


def _with_needs(skills: Collection[Skill], variables: Mapping[str, str]) -> tuple[Skill, ...]:
    """Return the skills; of each in no lock the needs are marked as satisfied if this machine satisfies them."""
    is_met = need_check(variables, {skill.name for skill in skills if skill.state == "enabled"})
    return tuple(_marked(skill, is_met) if skill.requires and not skill.managed else skill for skill in skills)


def _room(profile: Profile, around: Surroundings) -> int | None:
    """Return the size that the user sets for the list of skills; None if it is unset or no number."""
    budget = around.variables.get(profile.budget.env or "", "").strip()
    return int(budget) if re.fullmatch("[1-9][0-9]{0,8}", budget) else None


def _names(skill: Skill, known_locks: KnownLocks) -> set[str]:
    """Return the names that a skill may have in the catalogue: its own, and that of the locked skill at its place."""
    owner = known_locks.at(skill)
    return {skill.name, skill.full_name, *((owner.skill.name,) if owner else ())}


# The defaults of a skill whose files do not set these fields. The name is known, and the record has the description.
_DEFAULTS: Final[Mapping[str, Any]] = {
    **{"invocation": "model", "user_invocable": True, "argument_hint": ""},
    **{"requires": (), "interface": {}, "permissions": ()},
}


def _as_agreed(skill: Skill, tree: Digest, locks: Locks, namespace: str | None) -> tuple[HoldReason | None, Skill]:
    """Return the reason why the folder of a skill differs from this tree, or the skill with the facts of the tree.

    The facts are read from the checked files, never from a cache, which may be forged.
    """
    place = skill.path or ""
    if locks.written.get(place) == tree:
        return None, skill
    try:
        try:
            facts = Folder(place).check(Agreed(tree, state=locks.state))
        except Drifted:  # the listing in the store names the file that differs
            facts = Folder(place).check(locks.agreed(tree))
    except SkillhubError as error:
        reason = error.message.removeprefix("the skill ")
        return HoldReason("drifted", reason, as_command("skillhub", "sync", *typed_flags(skill.scope))), skill
    fields = {**_DEFAULTS, "namespace": namespace, **declared(facts)}
    fields["description"] = fields.get("description") or skill.description
    return None, replace(skill, **fields)


def _without_folder(skill: Skill, searched: Collection[str], locks: Locks) -> Skill | None:
    """Return a locked skill that was not found, held back; None if it is enabled and in no fully searched folder.

    If it is enabled, its copy in a searched folder is missing or cannot be read.
    """
    if skill.state == "disabled":
        return skill
    for link in skill.links:
        if skill.tree is not None and folded(os.path.dirname(link)) in searched:
            copy = replace(skill, path=link, stored=skill.path)
            hold_reason, _ = _as_agreed(copy, skill.tree, locks, None)
            if hold_reason is not None:
                return holding(copy, hold_reason)
    return None


def _held_to_its_tree(skill: Skill, locks: Locks, namespaces: Mapping[str, str | None]) -> Skill:
    """Return the skill; it is held back if its folder is named for a tree and holds another one."""
    if skill.tree is None or skill.managed or skill.held is not None:
        return skill
    hold_reason, checked = _as_agreed(skill, skill.tree, locks, namespaces.get(skill.root))
    return holding(skill, HoldReason("drifted", hold_reason.reason, "")) if hold_reason else checked


def _asked_if_changed(skill: Skill, locks: Locks) -> Skill:
    """Return the skill; the user is asked again if their stored yes is for other files than it has now."""
    if skill.allowed is None or has_tree(skill, skill.allowed, locks.state):
        return skill
    return replace(skill, allowed=None, permission="ask")


def unnamed(problems: Iterable[Problem], aliases: Collection[str]) -> Iterator[Problem]:
    """Yield the problems, except that one of the folders ``aliases`` has another name than its skill."""
    for problem in problems:
        if not (os.path.dirname(problem.path) in aliases and problem.message.startswith(FOLDER_NAME)):
            yield problem


def _folder(root: Root) -> str:
    is_file = root.is_commands and root.path.endswith(".md") and os.path.isfile(root.path)
    return os.path.dirname(root.path) if is_file else root.path


def _marked(skill: Skill, is_met: NeedCheck) -> Skill:
    """Return a skill of no lock, its needs marked as satisfied if this machine satisfies them."""
    requires = tuple(replace(need, satisfied=is_met(need.kind, need.name)) for need in skill.requires)
    return replace(skill, requires=requires)


def _recognized(
    skills: Iterable[Skill], known_locks: KnownLocks, locks: Locks, namespaces: Mapping[str, str | None]
) -> tuple[list[Skill], list[Problem], set[int]]:
    """Return the skills, the problems with them, and the ``id`` of each locked skill that was found.

    A skill at the place of a locked one is the locked one. It has the name and the description that were agreed to,
    even if its ``SKILL.md`` was changed since, and the facts of the agreed files, even if a cache has others. A
    folder inside it is a part of it, and no skill of its own.
    """
    if known_locks.errors:
        hold_reason = unreadable_lock_reason(known_locks.errors[0])
        return [holding(skill, hold_reason) for skill in skills], [], set()
    if not (known_locks.places or known_locks.store):
        return list(skills), [], set()
    recognized: list[Skill] = []
    problems: list[Problem] = []
    listed: set[int] = set()
    for skill in skills:
        path, owner, namespace = skill.path or "", known_locks.at(skill), namespaces.get(skill.root)
        if owner is None:
            recognized.append(holding(skill, STORED) if known_locks.is_stored(path) else skill)
            continue
        locked = owner.skill
        if owner.how == "inside":
            problems.append(Problem(path, f"it is inside the folder of {locked.name}, which is locked as a whole"))
        elif owner.how == "gone":
            reason, as_agreed = _as_agreed(skill, locked.tree, locks, namespace) if locked.tree else (None, skill)
            reason = locked.held or reason
            recognized.append(holding(skill, reason) if reason else as_agreed)
        else:
            listed.add(id(locked))
            name, as_locked = _as_locked(skill, locked, locks, namespace)
            if name != (locked.own_name or locked.name):
                problems.append(Problem(path, f"expected the locked {locked.name}, found {quote(name)}"))
            recognized.append(as_locked)
    return recognized, problems, listed


# The facts of a locked skill that its folder states, and not the lock.
_OF_FOLDER: Final = words("path scope root namespace user_invocable argument_hint interface permissions rules")


def _as_locked(skill: Skill, locked: Skill, locks: Locks, namespace: str | None) -> tuple[str, Skill]:
    """Return the name in the skill's own files, and the locked skill at the place where it was found.

    Args:
        skill: The skill that was found, with the facts that files or a cache have now.
        locked: The skill of the lock.
        locks: The locks that it is checked against.
        namespace: The namespace of skills in this root that name none.
    """
    reason = locked.held
    if reason is None and locked.tree is not None:
        reason, skill = _as_agreed(skill, locked.tree, locks, namespace)
    servers = {(need.kind, need.name): need.server for need in skill.requires}
    requires = tuple(replace(need, server=servers.get((need.kind, need.name))) for need in locked.requires)
    found = {fact: getattr(skill, fact) for fact in _OF_FOLDER}
    found["invocation"] = "user" if "user" in (skill.invocation, locked.invocation) else "model"
    placed = replace(locked, **found, stored=locked.path, requires=requires, locks=locks)
    if reason is not None:
        # No one agreed to the present contents of its files.
        placed = replace(holding(placed, reason), namespace=None, argument_hint="", interface={}, permissions=())
    return skill.name, placed


# The answers to ``skills.list`` and ``context.inspect`` of a host's own protocol.


def skills_list(
    profile: Profile | str,
    folders: Iterable[Surroundings],
    cache: Cache | None = None,
    reload: bool = False,
    ignore_locks: bool = False,
) -> dict[str, Any]:
    """Return the answer to ``skills.list``: for each folder its skills, its roots and its errors.

    Args:
        profile: The host, or its id.
        folders: The working folders, each with the absolute roots that this host adds to it (``extra``).
        cache: Keeps the results of earlier walks through folders.
        reload: Whether to read every folder again and ignore the cache.
        ignore_locks: As for ``catalog_of``.

    Raises:
        UsageError: there is no such host, or an added root is relative; its meaning would depend on the caller.
    """
    rows = []
    for around in folders:
        for root in around.extra:
            if not os.path.isabs(root):
                raise UsageError(f"expected an added root to be absolute, found {quote(root)}")
        catalog = catalog_of(profile, around, cache=cache, reload=reload, ignore_locks=ignore_locks)
        errors = [problem.to_json() for problem in catalog.problems]
        skills = [record(skill, catalog) for skill in catalog.skills]
        rows.append({"cwd": around.cwd, "skills": skills, "roots": catalog.root_rows(), "errors": errors})
    return {"data": rows}


def context_inspect(
    catalog: Catalog, session: Session | None = None, include_skills: bool = True
) -> Mapping[str, Any]:
    """Return the skills of a catalogue and those that this session has loaded: the answer to ``context.inspect``.

    Args:
        catalog: The skills of the host.
        session: The conversation; None for one that has loaded no skill.
        include_skills: Whether to return them at all; otherwise the answer is empty, as the protocol has it.
    """
    if not include_skills:
        return {}
    loaded = session.versions if session else {}
    return {
        "skills": {
            "catalog": [record(skill, catalog) for skill in catalog.skills],
            "roots": catalog.root_rows(),
            "shadowed": [shadowed.to_json() for shadowed in catalog.shadowed],
            "errors": [problem.to_json() for problem in catalog.problems],
            "loaded": [{"path": path, "version": version} for path, version in sorted(loaded.items())],
        }
    }


def record(skill: Skill, catalog: Catalog) -> dict[str, Any]:
    """Return one skill as a row of ``skills.list``, with ``why`` if it is held back; its path determines ``id``."""
    path = skill.file
    return {
        **catalog.row(skill),
        "id": sha256(os.fsencode(path)).hexdigest()[:16],
        "path": None if skill.is_elsewhere else path,
        "dir": None if skill.is_elsewhere else os.path.dirname(path),
        "reach": skill.reach,
        "argument_hint": skill.argument_hint,
        "interface": dict(skill.interface),
        "permissions": list(skill.permissions),
        "mtime_ms": _modified_ms(path),
    }


def codex_rows(catalog: Catalog) -> list[dict[str, Any]]:
    """Return the skills of a catalogue in the form of Codex's ``skills/list``."""
    return [
        {
            "name": skill.full_name,
            "description": skill.description,
            "shortDescription": skill.interface.get("short_description"),
            "interface": {_camel(key): value for key, value in skill.interface.items()} or None,
            "path": skill.file,
            "scope": _CODEX_SCOPES.get(skill.scope, "system"),
            "provenance": _CODEX_PROVENANCE.get(skill.scope, "system"),
            "plugin": None,
            "enabled": skill.state == "enabled",
        }
        for skill in catalog.skills
        if not skill.is_elsewhere
    ]


def _camel(key: str) -> str:
    first, *others = key.split("_")
    return first + "".join(map(str.capitalize, others))


def _modified_ms(path: str) -> int | None:
    try:
        return os.stat(path).st_mtime_ns // 1_000_000
    except OSError:
        return None


# Changes of a catalogue: with the extra ``watch`` the system reports them at once, without it they are polled.

_QUIET = 10  # intervals between two reads of the catalogue where the system reports changes


def changes(
    profile: Profile | str,
    around: Surroundings,
    since: Catalog | None = None,
    stop: Event | None = None,
    interval: float = 2.0,
    cache: Cache | None = None,
) -> Iterator[Catalog]:
    """Wait for changes, and yield each catalogue that differs from the one before.

    A change of skills, their instructions and the entries of their folders and of those below them, of locks, this
    machine's record or the host's own settings counts. With the extra ``watch``, a change in a folder of skills is
    reported at once, and one of settings, locks and records within the interval. Every other change, such as one
    behind a link, is found when the catalogue is read again. An edit of a file of a skill
    other than ``SKILL.md`` is never found: a catalogue does not read it.

    Args:
        profile: The host, or its id.
        around: Where it runs.
        since: The catalogue that the host has; None for the one at the first call of ``next``.
        stop: Ends the wait once it is set.
        interval: Seconds between two reads of the catalogue; ten times that with the extra ``watch``.
        cache: Keeps the results of walks through folders; None keeps them in memory.

    Raises:
        UsageError: there is no such host.
    """
    profile, stop, cache = profile_of(profile), stop or Event(), cache or Cache()
    current = since or catalog_of(profile, around, cache=cache)
    while not stop.is_set():
        before = _stamps(_deciding_paths(profile, around))
        catalog = catalog_of(profile, around, cache=cache)
        if catalog != current:
            current = catalog
            yield catalog
        else:
            _wait(catalog.roots, stop, interval, before)


def _deciding_paths(profile: Profile, around: Surroundings) -> list[str]:
    """Return the roots, and the files and folders that decide which skills load; they may be absent."""
    state = state_folder(around) or around.home
    folders = (state, *upwards(os.path.abspath(around.cwd)))
    return [
        *(root.path for root in roots(profile, around)),
        *(file.path for file in reach_files(profile, around)),
        *(os.path.join(folder, LOCK) for folder in folders),
        os.path.join(state, "projects"),
    ]


def _stamps(paths: Iterable[str]) -> dict[str, Stamp | None]:
    stamps: dict[str, Stamp | None] = dict.fromkeys(paths)
    for path in stamps:
        with suppress(OSError):
            stamps[path] = stamp_of(os.stat(path))
    return stamps


def _wait(roots: Iterable[Root], stop: Event, interval: float, before: Mapping[str, Stamp | None]) -> None:
    paths = [root.path for root in roots if os.path.isdir(root.path)]
    try:
        watch = import_module("watchfiles").watch
    except ModuleNotFoundError:
        paths = []
    if not paths:
        stop.wait(interval)
        return
    wait = int(interval * 1000)
    events = watch(*paths, stop_event=stop, debounce=200, watch_filter=None, rust_timeout=wait, yield_on_timeout=True)
    try:
        for found in islice(events, _QUIET):
            if found or _stamps(before) != before:
                return
    except (OSError, RuntimeError):  # a folder is gone, or this system watches no more of them
        stop.wait(interval)


# The user's stored answers about skills for which a host's rules say ``ask``; a yes is for the files of then.


def answers(profile: Profile | str, around: Surroundings, skills: Iterable[Skill] = ()) -> dict[str, bool]:
    """Return the stored answers of the user about skills with the permission ``ask``, by full name.

    A no is for every skill of its name. A yes is for the files that the user allowed: it is returned if each of
    ``skills`` with this name, and at least one, has these files now.

    Args:
        profile: The agent, or its id.
        around: Where the agent runs.
        skills: The skills that may be loaded.

    Raises:
        FormatError: a file of skillhub's state is malformed.
        StateError: a file cannot be read.
        UsageError: there is no such agent.
    """
    stored, state = stored_answers(profile_of(profile), around), state_folder(around)
    allowed = [(skill, tree) for skill in skills if (tree := stored.get(skill.full_name))]
    changed = {skill.full_name for skill, tree in allowed if not has_tree(skill, tree, state)}
    unchanged = {skill.full_name for skill, _ in allowed} - changed
    return {name: name in unchanged for name, answer in stored.items() if answer is False or name in unchanged}


def remember(skill: Skill, allowed: bool, scope: Scope, profile: Profile | str, around: Surroundings) -> None:
    """Store the user's answer about a skill with the permission ``ask``, in skillhub's state alone.

    A yes is for the tree of the skill: once its files change, the user is asked again. Nothing is stored if there is
    no folder for the state.

    Args:
        skill: The skill; as ``Request.ask`` got it, it has the tree that the user was asked about. Otherwise the
            answer is about the files that its folder has now.
        allowed: Whether the user allows it to be loaded.
        scope: Whether the answer is for the project or for all of the user's projects.
        profile: The agent, or its id.
        around: Where the agent runs.

    Raises:
        Drifted: the skill changes meanwhile.
        FormatError: the file is malformed.
        StateError: the file cannot be read or written; the skill has a link, or more files than an installed one may.
        UsageError: there is no such scope or agent.
    """
    tree = (skill.tree or Listing(all_files(skill).hashed()).digest) if allowed else None
    store_answer(skill.full_name, tree or False, scope, profile_of(profile), around)

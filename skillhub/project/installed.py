"""What is installed in a project or for a user: each skill of the lock as this machine has it. Reads alone."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from skillhub.model.hosts import Host, hosts
from skillhub.model.lock import Locked, Signer
from skillhub.model.record import Facts, Need, Record, Skill
from skillhub.model.tree import SKILL_MD
from skillhub.project.copies import absolute, folders_of
from skillhub.project.project import Project
from skillhub.project.store import Store
from skillhub.project.user_state import voucher

NeedCheck = Callable[[str, str], bool]  # kind and name of a need -> whether it is met


def managed(project: Project, store: Store, environ: Mapping[str, str]) -> list[Skill]:
    """Return every locked skill, by name.

    Raises:
        FormatError: the lock is malformed.
        StateError: it cannot be read.
    """
    lock, records = project.lock(), project.records()
    is_satisfied = need_check(environ, records.enabled(lock.skills))
    return [
        view(name, entry, records.skills.get(name), is_satisfied, project, store)
        for name, entry in lock.skills.items()
    ]


def view(
    name: str, entry: Locked, record: Record | None, is_satisfied: NeedCheck, project: Project, store: Store
) -> Skill:
    """Return the skill as the lock has it and as this machine has it.

    A record of another tree than the lock's, or from elsewhere, is of no account: nobody agreed to this one yet.
    """
    record = record if record is not None and record.is_of(entry) else None
    facts = record.facts if record else Facts()
    enabled = record is not None and record.enabled
    return Skill(
        name=name,
        source=entry.source,
        version=entry.version,
        digest=entry.digest,
        tree=entry.tree,
        size=entry.size,
        url=entry.url,
        path=store.path(entry.tree),
        links=tuple(absolute(project.base, link) for link in record.links) if record and enabled else (),
        scope=project.scope,
        state="enabled" if enabled else "disabled",
        invocation="model" if facts.model_invocable else "user",
        signed_by=tuple(map(Signer.parse, entry.signed_by)),
        vouched_by=voucher(entry, project.last_lock(), project.home) if entry.signed_by else None,
        requires=needs_of(facts, record, with_stored_values(is_satisfied, name, project)) if facts.needs else (),
        capabilities=facts.capabilities if record else entry.capabilities,
        description=facts.description,
        patch=entry.patch.path if entry.patch else None,
    )


def need_check(environ: Mapping[str, str], enabled: Collection[str] = ()) -> NeedCheck:
    """Return the test of a need against this environment, these programs and these skills, which agents can have.

    An MCP server cannot be seen from here: whether it is configured stands in the skill's record.
    """
    programs: dict[str, bool] = {}

    def is_satisfied(kind: str, name: str) -> bool:
        if kind == "env":
            return bool(environ.get(name))
        if kind == "program":
            if name not in programs:
                from shutil import which  # noqa: PLC0415 - it brings three ways to compress, 3 ms for few skills

                programs[name] = which(name, path=environ.get("PATH")) is not None
            return programs[name]
        return kind == "skill" and name in enabled

    return is_satisfied


def with_stored_values(is_satisfied: NeedCheck, skill: str, project: Project) -> NeedCheck:
    """Return the test for one skill: a variable is met too if a value is stored that this skill may have."""

    def is_satisfied_for_it(kind: str, name: str) -> bool:
        return is_satisfied(kind, name) or (kind == "env" and name in project.secrets.names_for(project.key, skill))

    return is_satisfied_for_it


def needs_of(
    facts: Facts, record: Record | None, is_satisfied: NeedCheck, supplied: Collection[str] = ()
) -> tuple[Need, ...]:
    """Return every need of a skill; what a person answered for when it was enabled counts as they said.

    A value that was given to a command is gone with it: only ``supplied`` variables, of the command at work, count.
    """
    met = {*supplied, *(each for each in record.met if not each.startswith("env:"))} if record else {*supplied}
    waived = record.waived if record else ()
    servers = record.mcp if record else {}
    met |= {f"mcp:{name}" for name in servers}
    return tuple(
        Need(
            need.kind,
            need.name,
            need.description,
            need.required,
            satisfied=need.spell() in met or is_satisfied(need.kind, need.name),
            waived=need.spell() in waived,
        )
        for need in facts.needs
    )


_DEEPEST = 8  # levels of folders that an agent looks down, as far as any does
_FOLDERS_MAX = 2000  # to a root: as many as agents are known to look into


def not_agreed(project: Project) -> list[str]:
    """Return the locked skills that nobody agreed to on this machine, less those that their user disabled.

    Raises:
        FormatError: the lock is malformed.
        StateError: it cannot be read.
    """
    records = project.records().skills
    return [
        name
        for name, entry in project.lock().skills.items()
        for record in [records.get(name)]
        if record is None or (record.held != "user" and not record.is_of(entry))
    ]


def users_skills(project: Project, user_home: str, store: Store, environ: Mapping[str, str]) -> list[Skill]:
    """Return the user's own skills that agents find beside those of a project, as far as they are enabled.

    Raises:
        FormatError, StateError: as for ``managed``, of the user's own lock.
    """
    if project.scope == "user":
        return []
    skills = managed(project.users(user_home), store, environ)
    return [skill for skill in skills if skill.state == "enabled"]


def unmanaged(project: Project, user_home: str, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield each folder with a ``SKILL.md`` that agents find in their folders and that skillhub did not put there.

    They look into folders of folders as well, but for what is hidden; such a folder may be a skill itself.
    """
    ours: defaultdict[str, set[str]] = defaultdict(set)
    known = [*_ours(project).items()]
    if project.scope == "project" and os.path.realpath(project.base) == os.path.realpath(user_home):
        # Who works in their home meets their own skills there.
        known += _ours(project.users(user_home)).items()
    for folder, names in known:
        ours[os.path.realpath(folder)] |= names
    for top in agent_folders(project, user_home, environ):
        level, seen = [top], {os.path.realpath(top)}
        holder, name = os.path.split(top)
        if os.path.isfile(os.path.join(top, SKILL_MD)) and name not in ours[os.path.realpath(holder)]:
            yield top
        for _ in range(_DEEPEST):
            below: list[str] = []
            for folder in level:
                yield from _skills_in(folder, ours[os.path.realpath(folder)], below, seen)
            level = below


def _skills_in(folder: str, ours: Collection[str], below: list[str], seen: set[str]) -> Iterator[str]:
    """Yield the skills in a folder that are not ours, and note the folders in it that are to be looked into."""
    try:
        names = sorted({*os.listdir(folder)}.difference(ours))
    except OSError:
        return
    for name in names:
        path = os.path.join(folder, name)
        if os.path.isfile(os.path.join(path, SKILL_MD)):
            yield path
        elif not (name.startswith(".") or name == "node_modules") and os.path.isdir(path):
            real = os.path.realpath(path)
            if real not in seen and len(seen) < _FOLDERS_MAX:
                seen.add(real)
                below.append(path)


def _ours(project: Project) -> dict[str, set[str]]:
    """Return what the lock accounts for, names by folder: links of what is enabled, and folders of local skills.

    What left the lock or was disabled, and could not be taken away, agents still read: it is nobody's by now.
    """
    locked, records = project.lock().skills, project.records().skills
    links = [link for name, record in records.items() if record.enabled and name in locked for link in record.links]
    # Of what is not local, the path is in its repository and says nothing of folders here.
    links += [entry.path for entry in locked.values() if entry.local and entry.path]
    return by_folder(project, links)


def by_folder(project: Project, links: Iterable[str]) -> dict[str, set[str]]:
    """Return the names that links, as records spell them, have in each folder, which is absolute."""
    names: defaultdict[str, set[str]] = defaultdict(set)
    for link in links:
        folder, _, name = link.rpartition("/")
        names[folder].add(name)
    found: defaultdict[str, set[str]] = defaultdict(set)
    for folder, inside in names.items():
        found[os.path.join(project.base, folder.replace("/", os.sep))] |= inside
    return found


def agent_folders(
    project: Project, user_home: str, environ: Mapping[str, str], agents: Iterable[Host] | None = None
) -> list[str]:
    """Return the folders there are that these agents read skills from, or any agent; each place once."""
    every = hosts().values() if agents is None else agents
    there = filter(os.path.isdir, folders_of(project, every, user_home, environ))
    found: dict[str, str] = {}
    for folder in there:
        found.setdefault(os.path.realpath(folder), folder)
    return list(found.values())

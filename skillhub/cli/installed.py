"""``list``, ``verify``, ``sync`` and ``remove``; each imports the modules that only it needs when it runs."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

from skillhub.cli.common import UNREADABLE, Arg, Common, Names, Strings, Verify
from skillhub.cli.render import held_back, remember_idle, remember_outcome, show_outcome
from skillhub.cli.terminal import Terminal
from skillhub.disk.home import about_home
from skillhub.errors import BadSignature, NameNotOwned, NotFound, Refused, SkillhubError, Withdrawn
from skillhub.formats.text import as_command, command, from_here
from skillhub.model.tree import SIGNATURE
from skillhub.project import copies
from skillhub.project.intent import is_from
from skillhub.project.project import Project
from skillhub.project.store import Store

if TYPE_CHECKING:
    from skillhub.audit.verify import Verified
    from skillhub.command.ports import Ports
    from skillhub.install.admission import Known
    from skillhub.install.candidates import Candidate
    from skillhub.model.lock import Locked
    from skillhub.model.skill import Skill

_EDITED = frozenset({"changed-file", "changed-mode", "extra-file", "missing-file"})


@dataclass(frozen=True, slots=True)
class InstalledSkills:
    """The skills of a project, or of the user's scope, and beside a project's skills those of the user."""

    skills: tuple[Skill, ...]
    users: tuple[Skill, ...]
    known_bad: tuple[Known, ...]
    project: Project
    store: Store

    @property
    def hidden(self) -> list[tuple[str, str, str]]:
        """The user's skills that a skill of the project hides: the name, the hidden folder, the project's folder."""
        first = {skill.name: skill.links[0] for skill in self.skills if skill.links}
        return [(skill.name, skill.links[0], first[skill.name]) for skill in self.users if skill.name in first]

    def to_json(self) -> dict[str, Any]:
        """Return the JSON of ``skillhub list``."""
        return {
            "skills": [each.to_json() for each in self.skills],
            "user": [each.to_json() for each in self.users],
            "shadowed": [{"name": name, "path": path, "by": by} for name, path, by in self.hidden],
            "known_bad": [
                {"skill": name, "id": match.id, "severity": match.severity, "message": str(match)}
                for _, name, match in self.known_bad
            ],
        }


def installed(common: Common) -> InstalledSkills:
    """Return the installed skills, and the unmanaged skills in agents' folders."""
    project = common.open_project()
    store = common.proved_store(project, believed=True, kept=not common.dry_run)
    skills = _with_edits(copies.managed(project, store, os.environ), project, store)
    if any(copies.unmanaged(project, common.user_home, os.environ)):
        from skillhub.runtime.agent import unmanaged_skills

        skills += unmanaged_skills(project, common.user_home, os.environ)
    skills.sort(key=lambda skill: skill.name)
    if (chosen := common.chosen([])) is not None:
        skills = [
            each
            for each in skills
            if each.name in chosen or (not each.managed and copies.is_in_package(each.path, project))
        ]
    users = _with_edits(copies.users_skills(project, common.user_home, store, os.environ), project, store)
    left = _copies_that_left_the_lock(project)
    if os.path.isdir(common.home.registries):  # a registry was asked on this machine
        skills = _with_recalls(skills, left, project)
        users = _with_recalls(users, {}, project.users(common.user_home))
    if known := _known_bad(common, project, store):
        from skillhub.install.admission import with_known_bad

        skills, users = with_known_bad(skills, known, left), with_known_bad(users, known, {})
    return InstalledSkills(tuple(skills), tuple(users), tuple(known), project, store)


def _with_edits(skills: Sequence[Skill], project: Project, store: Store) -> list[Skill]:
    """Return the skills ``with_edits``, whose module is imported only if a copy may have changed since its hash."""
    changes = [copies.unproved(each, store) for each in skills]
    if not any(changes):
        return [replace(each, edited=()) for each in skills]
    from skillhub.runtime.loading import with_edits

    return [with_edits(each, changed, project) for each, changed in zip(skills, changes, strict=True)]


def _copies_that_left_the_lock(project: Project) -> dict[str | None, str]:
    """Return the name of the skill of each copy that skillhub made and whose skill is no longer in the lock."""
    records = project.records().skills
    gone = records.keys() - project.lock().skills
    return {copies.absolute(project.base, link): name for name in gone for link in records[name].links}


def _with_recalls(skills: Sequence[Skill], left: Mapping[str | None, str], project: Project) -> list[Skill]:
    """Return the skills with their registries' reasons to recall them; ``left`` has copies of those not locked."""
    from skillhub.project.last_seen import Recalls

    lock, records = project.lock(), project.records().skills
    recalls = Recalls(lock, project.home, project.key)
    agreed = {path: records[name].entry for path, name in left.items()}
    entries = [lock.skills[each.name] if each.managed else agreed.get(each.path) for each in skills]
    both = zip(skills, entries, strict=True)
    return [replace(each, withdrawn=recalls.reason(each.name, entry)) if entry else each for each, entry in both]


def _known_bad(common: Common, project: Project, store: Store) -> list[Known]:
    """Return the advisories that name locked skills; if they cannot be read, warn and return none."""
    if not (common.home.is_configured or os.path.isdir(common.home.registries)):
        return []  # no file, no mirror and no registry has any, so the module that reads them is not loaded
    from skillhub.project.last_seen import LoadCheck

    found: list[Known] = []
    scopes = {each.scope: each for each in (project, project.users(common.user_home))}
    try:
        for scope, each in scopes.items():
            lock, records = each.lock(), each.records()
            check = LoadCheck(lock, store, each.home, each.key, scope, each.intent)
            entries = {**{name: record.entry for name, record in records.skills.items()}, **lock.skills}
            for name, entry in entries.items():
                found += ((scope, name, match) for match in check.matches(name, entry, records.known(name)))
    except SkillhubError as error:
        common.terminal.warn(f"warning: {error.where}: {error.message}")
        return []
    return found


def list_(common: Common) -> None:
    """List installed skills, and unmanaged ones in agents' folders.

    skillhub audit also finds those in agents' folders of subfolders, which an agent reads that works there.
    An unmanaged skill is not scanned, so that --json names no capability of it; skillhub show NAME scans it.

    Example: skillhub list --json
    """
    from skillhub.command.state import State

    found = installed(common)
    wanted = common.wanted()
    if common.json:
        common.answer("list", found.to_json())
        _remember(found, common)
        return
    if about := about_home(found.project.scope, found.project.base, common.user_home):
        common.terminal.say(about)
    waiting = {skill.name for skill in found.skills if skill.managed and skill.state == "disabled"}
    held = held_back(waiting, found.project) if waiting else {}
    enabled = [skill for skill in found.skills if skill.managed and skill.state == "enabled" and skill.links]
    missing = [skill.name for skill in enabled if not any(map(os.path.lexists, skill.links))]
    present = (skill for skill in enabled if skill.name not in missing)
    lost = [path for skill in present for path in skill.links if not os.path.lexists(path)]
    held |= dict.fromkeys(missing, "missing")
    if found.skills:
        _skills_table(_as_shown(found.skills, common), common.terminal, held)
    elif wanted is not UNREADABLE and not wanted.skills:
        example = common.command("install", "github:code-review" if "github" in common.sources.all() else "REF")
        common.terminal.say(f"no skills are installed here; to install one: {example}")
    project = found.project
    state = State(project.last_lock(), wanted, project.records())
    for fact, way in state.disagreements(common.command("install")):
        common.terminal.out(f"{fact}: {way}", "yellow")
    if names := sorted(name for name in held if held[name] == "not agreed to"):
        common.terminal.out(_without_consent(names, common), "yellow")
    if names := sorted(name for name in held if held[name] == "needs open"):
        lists = f"{common.command('enable', *names)} lists them"
        common.terminal.out(f"with open needs: {', '.join(names)}; {lists}", "yellow")
    if missing or lost:
        restores = f"{common.command('sync')} restores them"
        gone = ", ".join((*missing, *map(from_here, lost)))
        common.terminal.out(f"enabled, but missing in the agents' folders: {gone}; {restores}", "yellow")
    for skill in found.skills:
        if not skill.managed and skill.name in waiting:
            message = f"{skill.name} is not enabled, but agents still read {skill.path}: {common.command('verify')}"
            common.terminal.out(message, "yellow")
    if found.users:
        common.terminal.out("")
        common.terminal.out("In the user scope, for every project (skillhub list --global):", "bold")
        _skills_table(found.users, common.terminal)
    _warn_of(found, common)
    _remember(found, common)


def _skills_table(skills: Sequence[Skill], terminal: Terminal, reasons: Mapping[str, str] | None = None) -> None:
    """Show skills as rows; ``reasons`` says by name why no agent reads a skill, unless the user disabled it.

    An unmanaged skill that shares its name with another row has its folder beside it.
    """
    rows_of_name = Counter(skill.name for skill in skills)
    rows = []
    for skill in skills:
        folder = f" {from_here(skill.path or '')}" if rows_of_name[skill.name] > 1 else ""
        source = skill.source or f"(unmanaged){folder}"
        signer = f"{_signer(skill)}{', patched' if skill.patch else ''}"
        state = _state(skill, reasons or {})
        rows.append((skill.name, skill.version or "-", source, state, signer, skill.description))
    terminal.table(("NAME", "VERSION", "SOURCE", "STATE", "SIGNED BY", "DESCRIPTION"), rows, is_short=True)


def _signer(skill: Skill) -> str:
    """Return the name of the signer, if this machine has verified it; ``list`` hashes no unmanaged skill."""
    if skill.signed_by:
        return skill.signed_by[0].named(skill.vouched_by)
    is_unchecked = not skill.managed and skill.path and os.path.lexists(os.path.join(skill.path, SIGNATURE))
    return "not checked" if is_unchecked or skill.claimed_by else "unsigned"


def _state(skill: Skill, reasons: Mapping[str, str]) -> str:
    conditions = {"known bad": skill.known_bad, "withdrawn": skill.withdrawn, "edited": skill.edited}
    for condition, why in conditions.items():
        if why:
            return condition
    return reasons.get(skill.name, skill.state) if skill.managed else skill.state  # a copy may have a locked name


def _without_consent(names: Sequence[str], common: Common) -> str:
    """Return the line that names skills without consent here, with the command that asks about them."""
    path = "agreement belongs to the path of the project, so it asks again after a move or a copy"
    asks = f"{common.command('install')} asks about them"
    return f"not agreed to on this machine: {', '.join(names)}; {asks} ({path})"


def _remember(found: InstalledSkills, common: Common) -> None:
    """Remember the list if it is of enabled skills without needs, and agents' folders have nothing else."""
    if common.idle is None or found.users or found.known_bad:
        return
    if not all(each.managed and each.state == "enabled" and not each.requires for each in found.skills):
        return
    trees = {path: each.tree for each in found.skills for path in (*each.links, each.path) if path and each.tree}
    with suppress(OSError, SkillhubError):
        for folder in copies.agent_folders(found.project, common.user_home, os.environ):
            paths = [os.path.join(folder, name) for name in os.listdir(folder)]
            # A link may lead to a folder that appears later.
            if any(os.path.isdir(path) or os.path.islink(path) for path in paths if path not in trees):
                return
        remember_idle(common, found.project, found.store, trees)


def _warn_of(found: InstalledSkills, common: Common) -> None:
    """Show edited, withdrawn, known bad and hidden skills, with the commands that help."""

    @cache
    def hints_of(scope: str) -> dict[str, str]:
        from skillhub.audit.verify import remedies
        from skillhub.project.last_seen import SeenRegistries

        project = found.project if scope == "project" else found.project.users(common.user_home)
        return remedies(project, SeenRegistries(common.home))

    for skill in (*found.skills, *found.users):
        if skill.edited:
            shows = command(skill.scope, "diff", skill.name)
            where, these = ", ".join(skill.edited), "these copies" if len(skill.edited) > 1 else "this copy"
            message = f"{skill.name} was edited: agents that read {where} load the edit; "
            message += f"catalog, load, mcp and serve leave {these} out"
            if others := set(skill.links).difference(skill.edited):
                message += f", and agents that read {', '.join(sorted(others))} load the locked files"
            common.terminal.out(f"{message}: {shows}", "yellow")
        if skill.withdrawn:
            hint = hints_of(skill.scope).get(skill.name) or f"{command(skill.scope, 'remove', skill.name)} removes it"
            common.terminal.out(f"{skill.name} {skill.version} was withdrawn: {skill.withdrawn}; {hint}", "red")
    for scope, name, match in found.known_bad:
        common.terminal.out(f"{name}: {match}; {command(scope, 'remove', name)}", "red")
    for name, path, by in found.hidden:
        common.terminal.out(f"{name}: {path} is hidden by {by}", "yellow")


def _as_shown(skills: Sequence[Skill], common: Common) -> list[Skill]:
    """Return the skills with the aliases of the user's sources instead of URLs, and without a version its commit."""
    project, places = common.open_project(), common.sources.places()
    locked, shown = project.lock().skills, []
    for each in skills:
        entry = locked.get(each.name) if each.managed else None
        if entry is None:
            shown.append(each)
            continue
        alias = next((alias for alias, place in places.items() if is_from(entry, place, project.base)), entry.place)
        shown.append(replace(each, source=alias, version=each.version or entry.short))
    return shown


SkillNames = Annotated[Strings, Arg("[NAME]...", "Installed skills (default: all).")]


def verify(common: Common, names: SkillNames = None) -> int:
    """Check every byte of the installed skills against the lock, and their signatures. Needs no network.

    Exits 1 if a file or a signature differs from the lock.

    Example: skillhub verify gh-fix-ci
    """
    from skillhub.audit.verify import NOT_AGREED
    from skillhub.audit.verify import verify as verify_flow
    from skillhub.cli.network import open_ports

    ports = open_ports(common)
    chosen = common.chosen(names or [])
    found = verify_flow(chosen or [], ports) if chosen != [] else []
    is_ok = all(each.ok for each in found)
    wanted = common.wanted().skills
    if common.json:
        common.answer("verify", {"ok": is_ok, "skills": found})
    else:
        for each in found:
            for note in each.notes:
                common.terminal.warn(f"warning: {each.name}: {note.message} [{note.code}]")
            for problem in each.problems:
                # A skill that is not here yet has no file that a person could look at.
                where = "" if problem.message == NOT_AGREED else f"{from_here(problem.path)}: "
                common.terminal.out(f"{each.name}: {where}{problem.message} [{problem.code}]", "red")
        if not found:
            common.say_nothing_locked("verify", wanted)
        elif is_ok:
            counted = "1 skill matches" if len(found) == 1 else f"{len(found)} skills match"
            common.terminal.did(f"{counted} the lock (every byte checked)", "green")
        else:
            for hint in _hints(found, ports, common):
                common.terminal.say(hint)
    return 0 if is_ok else 1


def _hints(found: Sequence[Verified], ports: Ports, common: Common) -> Iterator[str]:
    """Yield the commands that solve the problems."""
    from skillhub.audit.verify import BEYOND_SYNC, LACKED, remedies

    ways = remedies(ports.project, ports.seen).values()  # sync refuses until then
    then = "then " if ways else ""
    yield from ways
    unagreed = copies.not_agreed(ports.project)
    problems = [(one.name, each) for one in found for each in one.problems]
    if any(name in unagreed for name, problem in problems if problem.code == "missing"):
        yield f"{common.command('install')} asks about skills that you did not agree to here, and enables them"
    codes = {problem.code for name, problem in problems if problem.code != "missing" or name not in unagreed}
    in_store = os.path.join(ports.store.root, "")  # damage there is no edit: diff and patch look at the copies
    edits = (name for name, each in problems if each.code in _EDITED and not each.path.startswith(in_store))
    sync = common.command("sync")
    if codes - BEYOND_SYNC:
        yield f"{then}{sync} restores the locked files"
    if unreadable := [from_here(each.path) for _, each in problems if each.code == "unreadable"]:
        yield f"to make it readable: {as_command('chmod', '-R', 'u+rX', *unreadable)}"
    if "other-skill" in codes:
        yield f"move away the folder with the name of a locked skill; {sync} does not"
    if "other-tree" in codes:
        yield f"{then}{common.command('install')} enables the locked version"
    left = {each.message for _, each in problems if each.code == "not-enabled"}
    if LACKED in left:
        yield f"{then}{common.command('install')} completes the lock from skillhub.toml"
    if left - {LACKED}:
        yield f"{then}{sync} removes copies that are not enabled"
    if lost := [name for name, each in problems if each.code == "patch"]:
        yield f"restore the patch from version control, or {common.command('patch', *lost)} writes it again"
    if edited := [*dict.fromkeys(edits)]:
        yield f"{common.command('diff', *edited)} shows the edits"
        yield f"{common.command('patch', *edited)} keeps them as a patch in the project"


def sync(common: Common, verify: Verify = False) -> int:
    """Restore what differs from the lock, and finish interrupted work. Enables nothing new.

    Asks before it replaces edits made by hand; --yes first saves them as a patch in skillhub-edits/.

    Example: skillhub sync
    """
    from skillhub.cli.network import open_ports
    from skillhub.install.sync import sync as sync_flow

    ports = open_ports(common, believed=not verify)

    def obtain(name: str, entry: Locked, *, is_agreed: bool, scan: bool) -> Candidate:
        from skillhub.install.obtain import obtain_locked

        return obtain_locked(name, entry, ports, is_agreed=is_agreed, scan=scan)

    try:
        outcome = sync_flow(obtain, ports, dry_run=common.dry_run)
    except (Withdrawn, BadSignature, NameNotOwned) as error:
        from skillhub.audit.verify import remedies

        if ways := remedies(ports.project, ports.seen).values():
            error.hint = f"{'; '.join(ways)}; until then {common.command('sync')} restores no skill"
        raise
    waiting = copies.not_agreed(ports.project)
    show_outcome(common, outcome, "sync", "synced", dict.fromkeys(waiting, "not agreed to"))
    if waiting and not common.json:
        common.terminal.warn(_without_consent(waiting, common), "plain")
    if not (verify or waiting):
        remember_outcome(common, outcome, ports)
    return Refused.exit_code if outcome.left_out and not common.dry_run else 0


def remove(common: Common, names: Names) -> None:
    """Remove skills from the agents' folders, skillhub.lock and skillhub.toml.

    MCP entries go too, if they are still as skillhub wrote them.

    Example: skillhub remove gh-fix-ci
    """
    from skillhub.cli.network import open_ports
    from skillhub.install import apply

    ports = open_ports(common)
    locked = ports.project.lock().skills
    try:
        outcome = apply.remove(names, ports, dry_run=common.dry_run)
    except NotFound as error:
        records = ports.project.records()
        known = {*locked, *records.skills, *records.left, *common.wanted().skills}
        unknown = next((name for name in names if name not in known), "")
        error.hint = _removal_of_unmanaged(unknown, ports) or error.hint
        raise
    show_outcome(common, outcome, "remove", "removed")
    for name in (skill.name for skill in outcome.skills if skill.name in locked and not common.json):
        path = locked[name].path or ""
        if locked[name].local and os.path.lexists(os.path.join(ports.project.base, path)):
            common.terminal.say(f"{name} was installed from {path}; its files stay there")


def _removal_of_unmanaged(name: str, ports: Ports) -> str:
    """Return the commands that remove the unmanaged skills of this name; empty if there are none."""
    from skillhub.audit.verify import removal_of
    from skillhub.runtime.agent import names_of, unmanaged_skills

    found = unmanaged_skills(ports.project, ports.user_home, ports.environ)
    ways = " && ".join(removal_of(each.path or "", ports) for each in found if name in names_of(each))
    return f"an agent's folder has it, and no lock: {ways} removes it" if ways else ""

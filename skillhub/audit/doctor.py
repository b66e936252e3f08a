"""Doctor: finds problems of this machine and this project, and says what to do about each."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryFile

from skillhub.audit.verify import remedies, tracked_copies
from skillhub.command.ports import Ports
from skillhub.command.state import State, read_state
from skillhub.disk import files
from skillhub.disk.home import INTENT, LOCK, about_home, first_there
from skillhub.errors import SkillhubError
from skillhub.formats.digest import Digest
from skillhub.formats.text import amount, as_command, command
from skillhub.install.admission import advised_skills
from skillhub.install.questions import OTHER_PROJECT
from skillhub.install.resolve import satisfies
from skillhub.model.hosts import Host, detect, hosts, measured, profiles
from skillhub.model.reference import Local
from skillhub.model.skill import Need, Skill
from skillhub.net.settings import Settings
from skillhub.policy.policy import rows
from skillhub.project.copies import agent_folders, link_folders, managed, not_agreed, path_of, unmanaged, users_skills
from skillhub.project.git_exclude import unrelated_git
from skillhub.runtime.agent import catalog_after_writing, unnamed
from skillhub.runtime.catalog import Catalog, Root
from skillhub.runtime.discover import Surroundings, discover
from skillhub.runtime.overview import section
from skillhub.sources.configured import Source
from skillhub.sources.history import ShownTime

_ROOM = 1 << 20  # bytes that each folder of skillhub's own must have room for


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check; ``hint`` says what to do about a failed one, or one to note."""

    name: str
    ok: bool
    message: str
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The results of all checks, with the folders, agents and sources found here."""

    checks: tuple[Check, ...]
    roots: tuple[Root, ...]
    agents: tuple[Host, ...]
    sources: tuple[Source, ...]

    @property
    def ok(self) -> bool:
        """Whether every check passed."""
        return all(check.ok for check in self.checks)


def diagnose(ports: Ports, time: ShownTime | None = None) -> Diagnosis:
    """Check sources, lock, agents, skills and their needs; change nothing and use no network.

    Args:
        ports: What the command works with.
        time: The time by which expiry is judged, whose clock is checked; None to skip the clock.
    """
    agents = detect(ports.project.base, ports.user_home, ports.environ, os.path.exists)
    roots = tuple(_roots(agents, ports))
    sources, source_check = _sources(ports)
    checks = [source_check, *_home(ports), *_intent_and_policy(ports)]
    if about := about_home(ports.project.scope, ports.project.base, ports.user_home):
        checks.append(Check("project", True, about, OTHER_PROJECT))
    with _error_as_check("settings", checks):
        Settings.read(ports.project.home)
    with _error_as_check("clock", checks):
        if time is not None and time.behind:
            checks.append(Check("clock", False, time.behind, time.remedy))
    try:
        skills = managed(ports.project, ports.store, ports.environ)
    except SkillhubError as error:
        checks += [Check("lock", False, f"{error.where or ports.project.lock_path}: {error.message}", error.hint)]
        checks += [*_links(agents, ports), _agents(agents)]
    else:
        left = ports.project.lock().sources.keys() - {source.alias for source in sources} if source_check.ok else ()
        told, asks = "in the lock, and none of your sources", command(ports.project.scope, "install")
        checks += [Check(f"source {alias}", True, told, asks) for alias in sorted(left)]
        checks += _lock(skills, ports)
        with _error_as_check("skillhub.toml", checks):
            state = read_state(ports.project, ports.sources)
            differing = _wanted_otherwise(state, ports.project.base, asks)
            checks += (Check("lock", True, *each) for each in (*state.disagreements(asks), *differing))
            absent = {line.source for line in state.intent.skills.values() if line.source} - {*left}
            absent -= {source.alias for source in sources} if source_check.ok else absent
            told = "skillhub.toml names it, and it is none of your sources"
            for alias in sorted(absent):
                adds = as_command("skillhub", "source", "add", alias, "URL")
                checks.append(Check(f"source {alias}", False, told, f"{adds} adds it"))
        checks += [*_links(agents, ports), _agents(agents)]
        checks += _catalog(skills, roots, ports)
        with _error_as_check("lists", checks):
            checks += listing_checks(ports)
    with _error_as_check("advisories", checks):
        for name, match in advised_skills(ports):
            remedy = command(ports.project.scope, "remove", name)
            checks.append(Check(f"advisory on {name}", False, str(match), remedy))
    return Diagnosis(tuple(checks), roots, agents, sources)


def _wanted_otherwise(state: State, base: str, install: str) -> Iterator[tuple[str, str]]:
    """Yield a pair about the locked skills that the intent wants otherwise, as ``State.disagreements`` does."""
    wanted, locked = state.intent.skills, state.lock.skills
    names = [name for name in wanted if name in locked and not satisfies(locked[name], wanted[name], base)]
    if names:
        yield f"the lock does not have {', '.join(names)} as skillhub.toml wants it", install


@contextmanager
def _error_as_check(name: str, checks: list[Check]) -> Iterator[None]:
    """Turn an error into a failed check, unless an earlier one reported it."""
    try:
        yield
    except SkillhubError as error:
        message = f"{error.where}: {error.message}"
        if message not in {each.message for each in checks}:
            checks.append(Check(name, False, message, error.hint))


def _intent_and_policy(ports: Ports) -> Iterator[Check]:
    """Yield the checks of skillhub.toml and of the policies; a fault of skillhub.toml, which has one, only once."""
    fault = None
    try:
        ports.project.intent()
    except SkillhubError as error:
        fault = f"{error.where}: {error.message}"
        yield Check("skillhub.toml", False, fault, error.hint)
    try:
        lines = list(rows(ports.policies))
    except SkillhubError as error:
        message = f"{error.where}: {error.message}"
        if message != fault:
            yield Check("policy", False, message, error.hint)
        return
    summary = f"{amount(len(lines), 'line')}; {command(ports.project.scope, 'doctor', 'policy')} shows each"
    yield Check("policy", True, summary if lines else "no policy applies")


def _home(ports: Ports) -> Iterator[Check]:
    home, top = ports.project.home, ports.project.root
    is_project = ports.project.scope == "project" and not files.is_within(ports.user_home, top)
    if is_project and files.is_within(home.state, top):
        message = f"{home.state} lies in the project: who can change the repository can change whom you trust"
        yield Check("home", False, message, "let SKILLHUB_HOME name a folder outside of the project")
    for folder in (home.data, home.cache, home.state):
        try:
            with TemporaryFile(dir=first_there(folder)) as trial:  # a file without a name
                trial.write(bytes(_ROOM))
                trial.flush()
        except OSError as error:
            hint = "make it writable and make room in it, or set SKILLHUB_HOME to a folder that has both"
            yield Check("home", False, f"skillhub cannot write {folder}: {error.strerror}", hint)


def _roots(agents: tuple[Host, ...], ports: Ports) -> Iterator[Root]:
    """Yield the folders that agents read here, first those of the project, then the user's."""
    project, seen = ports.project, set[str]()
    for owner in (project, project.users(ports.user_home)):
        for folder in agent_folders(owner, ports.user_home, ports.environ, agents):
            if folder not in seen:
                seen.add(folder)
                yield Root(folder, owner.scope)


def _sources(ports: Ports) -> tuple[tuple[Source, ...], Check]:
    try:
        sources = tuple(ports.sources.all().values())
        registries = [source for source in sources if source.root is not None]
        for source in registries:
            ports.sources.root(source)
    except SkillhubError as error:
        return (), Check("sources", False, error.message, error.hint)
    for source in sources:
        if isinstance(source.place, Local) and not os.path.isdir(source.place.path):
            missing = f"{source.alias} is a folder that is not there: {source.place.path}"
            way = f"put it back, or: {as_command('skillhub', 'source', 'remove', source.alias)}"
            return sources, Check("sources", False, missing, way)
    others = len(sources) - len(registries)
    rest = f", and {others} without signatures" if others else ""
    return sources, Check("sources", True, f"{len(registries)} configured, each with its trusted root{rest}")


def _lock(skills: Sequence[Skill], ports: Ports) -> Iterator[Check]:
    yield Check("lock", True, f"{len(skills)} locked" if skills else "no skill is locked here")
    unagreed, recalled = not_agreed(ports.project), remedies(ports.project, ports.seen)
    for skill in skills:
        enabling = command(ports.project.scope, "enable", skill.name)
        if skill.name in recalled:
            message = "its registry withdrew it: it must not be used"
            yield Check(f"state of {skill.name}", False, message, recalled[skill.name])
        elif missing := [need for need in skill.requires if need.open]:
            hint = enabling
            if skill.state == "enabled":  # it stays enabled; only its agent lacks the value
                hint = "; ".join(dict.fromkeys(_supply_hint(need, ports) or enabling for need in missing))
            yield Check(f"needs of {skill.name}", False, f"missing: {', '.join(map(Need.spell, missing))}", hint)
        elif skill.name in unagreed:
            asks = command(ports.project.scope, "install")
            yield Check(f"state of {skill.name}", True, "not agreed to on this machine", asks)
        elif skill.state == "disabled":
            yield Check(f"state of {skill.name}", True, "disabled", enabling)
        for link in (path for path in skill.links if not os.path.lexists(path)):
            yield Check(f"copy of {skill.name}", False, f"it is enabled, but missing: {link}", _restore_hint(ports))
    folders = agent_folders(ports.project, ports.user_home, ports.environ)
    copies = dict.fromkeys(link for skill in skills for link in skill.links)
    # Including copies that the user did not agree to: agents read every skill in their folders.
    copies |= dict.fromkeys(os.path.join(folder, skill.name) for folder in folders for skill in skills)
    try:
        unrelated = unrelated_git(ports.project.around)
        if unrelated is not None:
            message = (
                f"{unrelated} leads to a repository of another work tree: enabled copies are not kept out of git"
            )
            yield Check("git", False, message, "git rev-parse --absolute-git-dir shows where it leads")
        for path in tracked_copies(ports.project, list(copies)):
            hint = as_command("git", "rm", "-r", "--cached", path)
            yield Check("git", False, f"an enabled copy is tracked by git: {path}", hint)
    except SkillhubError as error:
        yield Check("git", False, error.message, "git status shows more")


def _restore_hint(ports: Ports) -> str:
    """Return the commands that restore missing copies: ``sync`` refuses while a locked skill is recalled."""
    return "; then ".join((*remedies(ports.project, ports.seen).values(), command(ports.project.scope, "sync")))


def _supply_hint(need: Need, ports: Ports) -> str:
    """Return a hint that supplies a needed variable to agents, or an empty string for any other need."""
    if need.kind != "env":
        return ""
    keep = command(ports.project.scope, "env", "set", need.name)
    return f"export {need.name} where your agent runs, or store it: {keep}"


def listing_checks(ports: Ports, written: Mapping[str, Digest] | None = None) -> Iterator[Check]:
    """Yield the problems of the list of skills that each agent in use here shows to its model.

    Args:
        ports: What the command works with.
        written: The folders that this process has just written, each with its tree.

    Raises:
        SkillhubError: a lock, or a setting of the agent, cannot be read.
    """
    in_use = {host.id for host in detect(ports.project.base, ports.user_home, ports.environ, os.path.exists)}
    in_use.update(ports.project.records().agents)
    base, state, markers = ports.project.base, ports.project.home.state, (INTENT, LOCK)
    around = Surroundings(cwd=base, home=ports.user_home, environ=ports.environ, state=state, markers=markers)
    for known in dict.fromkeys((*profiles(), *hosts())):
        row = profiles().get(known) or measured(known)
        if row is None or known not in in_use:
            continue
        catalog = catalog_after_writing(row, around, written or {})
        for problem in catalog.unchecked:
            yield Check(f"list of {row.name}", False, f"{problem.path}: {problem.message}", "disable unneeded skills")
        seen = section(catalog, row)
        if seen.warning:
            hint = f"{command(ports.project.scope, 'catalog', '--host', row.id)} shows what each skill costs"
            yield Check(f"list of {row.name}", not seen.omitted, seen.warning, hint)
        for name, places in seen.repeated.items():
            message = f"{name} is listed {len(places)} times, from {', '.join(places)}"
            yield Check(f"list of {row.name}", True, message, "disable it in one of the scopes, or remove a copy")


def _links(agents: tuple[Host, ...], ports: Ports) -> Iterator[Check]:
    """Yield the first agent's folder that cannot be used, since it is a link that leads out of the project."""
    try:
        link_folders(ports.project, agents, ports.user_home, ports.environ)
        for record in ports.project.records().skills.values():
            for link in record.links:
                path_of(ports.project, link)
    except SkillhubError as error:
        hint = error.hint or "put a folder in its place; until then no skill is linked or verified"
        yield Check("links", False, f"{error.where}: {error.message}", hint)


def _agents(agents: tuple[Host, ...]) -> Check:
    names = ", ".join(host.name for host in agents)
    none = f"none of the {len(hosts())} known agents found; .agents/skills is used"
    return Check("agents", True, f"found: {names}" if names else none)


def _catalog(skills: Sequence[Skill], roots: tuple[Root, ...], ports: Ports) -> Iterator[Check]:
    strangers = set(unmanaged(ports.project, ports.user_home, ports.environ))
    try:
        users = users_skills(ports.project, ports.user_home, ports.store, ports.environ)
    except SkillhubError as error:
        users = []
        yield Check("your own lock", False, f"{error.where}: {error.message}", error.hint)
    discovered = discover(roots)
    ours = {link for skill in users for link in skill.links}
    loose = [
        skill
        for skill in discovered.skills
        if strangers.intersection(skill.links)
        or (skill.scope != ports.project.scope and not ours.intersection(skill.links))
    ]
    enabled = [skill for skill in skills if skill.state == "enabled"]
    aliases = [link for skill in (*skills, *users) if skill.own_name for link in skill.links]
    catalog = Catalog.of([*enabled, *users, *loose], unnamed(discovered.problems, aliases))
    waiting = {skill.name for skill in skills if skill.state == "disabled"}
    unagreed = not_agreed(ports.project)
    asks = f"{command(ports.project.scope, 'install')} asks about it: agreement belongs to the path of the project"
    for skill in discovered.skills:
        if strangers.intersection(skill.links) and skill.name in waiting:
            held, way = ("not agreed to here", asks) if skill.name in unagreed else ("disabled", "remove this folder")
            message = f"{skill.links[0]}: it has the name of {skill.name}, which is locked and {held}"
            yield Check("skill", False, message, way)
    for problem in catalog.problems:
        line = f":{problem.line}" if problem.line else ""
        is_ok = problem.level == "warning"
        yield Check("skill", is_ok, f"{problem.path}{line}: {problem.message}", "fix it, or remove it")
    for hidden in catalog.shadowed:
        path, by = ((*skill.links, skill.path)[0] for skill in (hidden.skill, hidden.by))
        yield Check("shadowed", True, f"{path} is hidden by {by}")

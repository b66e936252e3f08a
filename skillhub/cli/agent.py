"""``catalog``, ``resolve`` and ``load``: show what an agent that runs in the working folder sees, means and gets."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

from skillhub.cli.common import Common, Run
from skillhub.cli.options import argument, option
from skillhub.errors import Refused, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from skillhub.install.context import Outcome
    from skillhub.model.hosts import Profile
    from skillhub.model.record import Reach, Scope
    from skillhub.runtime.catalog import Catalog
    from skillhub.runtime.discover import Surroundings

HostName = Annotated[str, option("--host NAME", "The agent whose folders, rules and words count.")]
Window = Annotated[int | None, option("--window TOKENS", "How many tokens the model's context has.", min=1)]


def catalog(common: Common, host: HostName = "agents", window: Window = None) -> int:
    """Show what an agent's model sees of the skills first: the list, in its words and within its budget.

    Example: skillhub catalog --host codex
    """
    from skillhub.runtime.overview import section

    profile, found = seen_by(common, host)
    seen = section(found, profile, window)
    if common.json:
        return common.result("catalog", seen.to_json())
    for line in seen.text.splitlines():
        common.terminal.verbatim(line)
    if not (seen.text or seen.omitted):
        common.terminal.say(f"{profile.name} finds no skill here that its model may call")
    if seen.warning:
        common.terminal.warn(f"warning: {seen.warning}")
    for name in seen.omitted:
        common.terminal.warn(f"  left out: {name}")
    for skill in seen.held:
        why = skill.why
        common.terminal.warn("; ".join(filter(None, (why["message"], why["command"]))))
    for each in seen.shadowed:
        common.terminal.say(f"{each.skill.path} is hidden by {each.by.path}", "dim")
    for problem in seen.problems:
        line = f":{problem.line}" if problem.line else ""
        common.terminal.warn(f"{problem.path}{line}: {problem.message}")
    return 0


def resolve(
    common: Common,
    text: Annotated[str, argument("TEXT", "What a user would say to an agent.")],
    host: HostName = "agents",
) -> int:
    """Show which skills a message means, and what it asks for besides. Loads nothing, chooses nothing in doubt.

    Example: skillhub resolve '$release-notes since v1.2'
    """
    from skillhub.runtime.resolve import MentionRules, mentioned

    if not text.strip():
        raise UsageError("expected a message, found none", hint="skillhub resolve '$NAME and what it is to do'")
    profile, catalog = seen_by(common, host)
    leads = len(catalog.skills) if profile.many else 1
    rules = MentionRules(leads=leads)
    found = mentioned(text, catalog, rules=rules)
    if common.json:
        return common.result("resolve", found.to_json())
    for each in found.mentions:
        common.terminal.out(f"{each.text}: {each.message}", "green" if each.outcome == "activated" else "yellow")
    if not found.mentions:
        common.terminal.say("no skill is mentioned; a mention is written $NAME")
    common.terminal.out(f"task: {found.task}")
    return 0


def load(
    common: Common,
    name: Annotated[str | None, argument("[NAME]", "The skill.")] = None,
    path: Annotated[
        str | None, option("--path PATH", "Its folder, instead of NAME; where several have one name.")
    ] = None,
    arguments: Annotated[str, option("--arguments TEXT", "What the user adds, put into its instructions.")] = "",
    session: Annotated[str, option("--session ID", "The session that instructions may name.")] = "",
    host: HostName = "agents",
) -> int:
    """Show what an agent gets of a skill: its instructions in the agent's envelope. Runs nothing.

    A locked skill whose files are not the locked ones is refused.

    Example: skillhub load release-notes --host codex
    """
    from skillhub.runtime.envelope import inject, to_json
    from skillhub.runtime.loading import Request, Session, pick
    from skillhub.runtime.loading import load as read

    if name is None and path is None:
        shows = "skillhub catalog shows which there are"
        raise UsageError("expected the NAME of a skill, or its --path", hint=shows)
    profile, catalog = seen_by(common, host)
    skill = pick(catalog, name, os.path.abspath(os.path.expanduser(path)) if path else None)
    request = Request(arguments=arguments, session=Session(session), rules=profile.rules, ask=lambda _: True)
    loaded = read(skill, request)
    for note in loaded.notes:
        common.terminal.say(note, "dim")
    if common.json:
        common.terminal.answer("load", to_json(loaded, profile))
    else:
        for line in inject(loaded, profile).split("\n"):
            common.terminal.verbatim(line.expandtabs(4))
    return 0


def switched(common: Common, names: Sequence[str], host: str | None, reach: Reach) -> Outcome | None:
    """Set how far skills reach that agents find; None where these are skills of the lock, or are nowhere.

    Args:
        common: The flags; ``--global`` is about the user's files.
        names: The skills, as the agent names them.
        host: The agent whose own file is to say so, of locked skills too; with None only ours does, of the others.
        reach: ``active`` or ``disabled``.

    Raises:
        Refused: something else disables it still.
    """
    from skillhub.install.context import Outcome
    from skillhub.model.hosts import profile, profiles
    from skillhub.runtime.loading import pick
    from skillhub.runtime.state import set_reach

    locked = common.open_project().lock().skills
    if host is None and not locked.keys().isdisjoint(names):
        return None
    around = _surroundings(common, _worked_in(common))
    for each in (host,) if host is not None else profiles():
        row, catalog = seen_by(common, each, around)
        if host is not None or all(catalog.named(name) for name in names):
            break
    else:
        return None
    skills = [pick(catalog, name) for name in names]
    said = row if host is not None else profile("agents")
    # Codex has a file of the user's alone.
    has_own = not said.states or any(not file.path.startswith("~/") for file in said.states)
    scope: Scope = "project" if has_own and not common.user_scope else "user"
    if not common.dry_run:
        for skill in skills:
            set_reach(skill, reach, scope, said, around)
        _, catalog = seen_by(common, row.id, around)
        skills = [next(now for now in catalog.skills if now.path == skill.path) for skill in skills]
    for skill in skills if reach == "active" and not common.dry_run else ():
        if skill.held is not None:
            raise Refused(skill.why["message"], hint=skill.held.command or f"change {skill.held.file}")
    warnings = _still_held(common, names, around) if reach == "active" and host is None else ()
    return Outcome(skills=tuple(skills), changed=not common.dry_run, warnings=tuple(warnings))


def _still_held(common: Common, names: Sequence[str], around: Surroundings) -> Iterator[str]:
    """Yield for each agent that finds one of these skills what still disables it there."""
    from skillhub.model.hosts import profiles

    for each in profiles():
        row, catalog = seen_by(common, each, around)
        for skill in (skill for name in names for skill in catalog.named(name)):
            if skill.held is not None:
                yield "; ".join(filter(None, (f"{row.name}: {skill.why['message']}", skill.held.command)))


def seen_by(common: Common, host: str, around: Surroundings | None = None) -> tuple[Profile, Catalog]:
    """Return the profile of an agent, and what it finds here, with what the locks know of it.

    Raises:
        UsageError: there is no such agent.
    """
    from skillhub.model.hosts import profile
    from skillhub.runtime.agent import catalog_of

    row = profile(host)
    project = common.open_project()
    for each in (project, project.users(common.user_home)):
        each.lock(), each.records()  # whoever types a command is told of one that cannot be read
    return row, catalog_of(row, around or _surroundings(common, _folder(common)))


def _surroundings(common: Common, cwd: str) -> Surroundings:
    from skillhub.runtime.discover import Surroundings

    return Surroundings(
        cwd=cwd,
        home=common.user_home,
        environ=os.environ,
        state=common.home.state,
        markers=("skillhub.toml", "skillhub.lock"),
    )


def _folder(common: Common) -> str:
    return common.user_home if common.user_scope else _worked_in(common)


def _worked_in(common: Common) -> str:
    return os.path.abspath(common.project) if common.project is not None else os.getcwd()


COMMANDS: dict[str, Run] = {"catalog": catalog, "resolve": resolve, "load": load}

"""``enable``, ``disable`` and ``profile``: choose which installed skills are in agents' folders."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated

from skillhub.cli.common import Arg, Common, Enabling, Names
from skillhub.cli.network import open_ports
from skillhub.cli.render import finish, show_outcome
from skillhub.cli.show import seen_by, surroundings, worked_in
from skillhub.command.ports import Outcome
from skillhub.errors import Refused
from skillhub.formats.text import amount, from_here
from skillhub.install import apply
from skillhub.install.skill_sets import SkillProfiles, save_profile, saved_profiles, use_profile
from skillhub.model.hosts import Profile, Scope, profile, profiles
from skillhub.model.skill import Reach, Skill
from skillhub.runtime import loading
from skillhub.runtime.discover import Surroundings
from skillhub.runtime.state import FORMS, set_reach

Host = Annotated[
    str | None,
    Arg(
        "--host NAME",
        "Change the settings of this agent (codex, gencode, opencode) and of skillhub, for any skill that the agent "
        "finds; of another agent, skillhub changes none.",
    ),
]


def enable(common: Common, enabling: Enabling, names: Names, host: Host = None) -> int:
    """Check the needs of skills again, and copy the skills without open needs to the agents' folders.

    A skill in an agent's folder that is in no lock is switched on again.

    Example: skillhub enable gh-fix-ci --mcp configure
    """
    options = enabling.options(common)
    if (outcome := _switched(common, names, host, "active")) is not None:
        show_outcome(common, outcome, "enable", "enabled")
        return 0
    return finish(common, apply.enable(names, options, open_ports(common)), options, "enable", "enabled")


def disable(common: Common, names: Names, host: Host = None) -> None:
    """Remove skills from the agents' folders and change nothing else. They stay disabled until you enable them.

    A skill in an agent's folder that is in no lock stays there and is switched off.

    Example: skillhub disable gh-fix-ci
    """
    outcome = _switched(common, names, host, "disabled")
    if outcome is None:
        outcome = apply.disable(names, open_ports(common), dry_run=common.dry_run)
    show_outcome(common, outcome, "disable", "disabled")


ProfileName = Annotated[str, Arg("NAME", "The profile.")]


def profile_list(common: Common) -> None:
    """List the saved profiles, and which is in use.

    Example: skillhub profile list
    """
    rows = saved_profiles(open_ports(common))
    if common.json:
        return common.answer("profile list", {"profiles": [each._asdict() for each in rows]})
    if not rows:
        common.terminal.say(f"no profiles are saved here; {common.command('profile', 'save', 'NAME')} saves one")
    for each in rows:
        is_used = " (in use)" if each.in_use else ""
        common.terminal.out(f"{each.name}{is_used}: {', '.join(each.skills) or 'nothing'}")
        if each.missing:
            common.terminal.out(f"  not installed: {', '.join(each.missing)}", "yellow")


def profile_save(common: Common, name: ProfileName) -> None:
    """Save the skills that are enabled now as a profile.

    A profile of the same name is replaced. Profiles are stored for you alone, not in the project.

    Example: skillhub profile save review
    """
    skills, changed = save_profile(name, open_ports(common), dry_run=common.dry_run)
    value = {"name": name, "skills": [*skills], "changed": changed and not common.dry_run}
    text = f"{common.would('save', 'saved')} {name}: {amount(len(skills), 'skill')}"
    return common.done("profile save", value, text, "green")


def profile_use(common: Common, enabling: Enabling, name: ProfileName) -> int:
    """Enable the skills of a profile and disable all others.

    All or none. Asks the questions that `enable` asks. Lists skills of the profile that are not installed: exit
    status 6.

    Example: skillhub profile use review
    """
    options = enabling.options(common)
    outcome = use_profile(name, options, open_ports(common))
    if not common.json:
        for each in sorted(outcome.disabled):
            common.terminal.did(f"{common.would('disable', 'disabled')} {each}", "yellow")
        shown = tuple(skill for skill in outcome.skills if skill.name not in outcome.disabled)
        outcome = replace(outcome, skills=shown)
    return finish(common, outcome, options, "enable", "enabled")


def profile_remove(common: Common, name: ProfileName) -> None:
    """Remove a profile; its skills do not change.

    Example: skillhub profile remove review
    """
    saved = SkillProfiles(common.open_project())
    skills = saved.get(name)
    if not common.dry_run:
        saved.put(name, None)
    value = {"name": name, "skills": [*skills], "changed": not common.dry_run}
    return common.done("profile remove", value, f"{common.would('remove', 'removed')} the profile {name}")


def _switched(common: Common, names: Sequence[str], host: str | None, reach: Reach) -> Outcome | None:
    """Switch skills on or off in settings files; return None if a skill is locked, or if no agent finds all of them.

    Args:
        common: The flags; ``--global`` chooses the user's files.
        names: The skills, as the agent or their folders name them.
        host: The agent whose settings file to change, for locked skills too; None changes only skillhub's own file,
            and only for skills that are in no lock.
        reach: ``active`` or ``disabled``.

    Raises:
        Refused: another setting still disables a skill.
    """
    locked = common.open_project().lock().skills
    if host is None and not locked.keys().isdisjoint(names):
        return None
    around = surroundings(common, worked_in(common))
    for each in (host,) if host is not None else profiles():
        row, catalog = seen_by(common, each, around)
        folders = {os.path.basename(each.path or ""): each.full_name for each in catalog.skills}
        called = [name if catalog.named(name) else folders.get(name, name) for name in names]
        if host is not None or all(map(catalog.named, called)):
            break
    else:
        return None
    skills = [loading.pick(catalog, name) for name in called]
    if host is None and any(each.managed and each.scope == "project" for each in skills):
        return None  # the lock of another project, in a folder below, has it
    writer = row if host is not None else profile("agents")
    # Codex has no settings file in a project.
    has_own = not writer.states or any(not file.path.startswith("~/") for file in writer.states)
    scope: Scope = "project" if has_own and not common.user_scope else "user"
    written: dict[str, list[str]] = {}
    if not common.dry_run:
        for skill in skills:
            written[skill.name] = set_reach(skill, reach, scope, writer, around)
        _, catalog = seen_by(common, row.id, around)
        paths = [skill.path for skill in skills]  # another process may have removed one since
        skills = [now for path in paths for now in catalog.skills if now.path == path]
        for skill in skills:
            if skill.held is not None and reach == "active":
                raise Refused(skill.why["message"], hint=skill.held.command or f"change {skill.held.file}")
    warnings: Iterator[str] = iter(())
    if reach == "disabled":
        warnings = _still_read(common, skills, row if host is not None else None)
    elif host is None:
        warnings = _still_held(common, called, around)
    if not common.json:  # the copies stay as they are: the text names the files that were written instead
        whose = "your" if scope == "user" else "this project's"
        owners = f"{row.name} and skillhub" if host is not None and _has_settings(row) else "skillhub"
        common.terminal.did(f"in {whose} settings of {owners}:")
        skills = [replace(skill, links=()) for skill in skills]
    return Outcome(tuple(skills), changed=not common.dry_run, warnings=tuple(warnings), written=written)


def _has_settings(agent: Profile) -> bool:
    """Return whether skillhub writes a settings file of the agent."""
    return any(FORMS[file.form].edit for file in agent.states)


def _still_read(common: Common, skills: Sequence[Skill], agent: Profile | None) -> Iterator[str]:
    """Yield where agents still read each skill that was switched off in skillhub's own state alone.

    Args:
        common: The flags.
        skills: The skills.
        agent: The agent that they were switched off for; None if they were switched off for every agent.
    """
    if agent is not None and _has_settings(agent):
        return
    who = "agents that do not load skills through skillhub"
    for skill in skills:
        file = from_here(skill.file)
        if agent is not None:
            yield f"skillhub changes no settings of {agent.name}: {who} still read {file}"
        else:
            hosts = ", ".join(each for each in profiles() if _has_settings(profile(each)))
            own = common.command("disable", skill.name, "--host", "HOST")
            yield f"{who} still read {file}: {own} changes an agent's own settings (HOST: {hosts})"


def _still_held(common: Common, names: Sequence[str], around: Surroundings) -> Iterator[str]:
    """Yield, for each agent that finds one of these skills, the setting that still disables it."""
    for each in profiles():
        row, catalog = seen_by(common, each, around)
        for skill in (skill for name in names for skill in catalog.named(name)):
            if skill.held is not None:
                yield "; ".join(filter(None, (f"{row.name}: {skill.why['message']}", skill.held.command)))

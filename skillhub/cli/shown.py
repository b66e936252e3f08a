"""``list``, ``verify`` and ``sync``: one flow each, and how its result is shown. Typer is not needed for them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence, Set

from skillhub.cli.common import Common
from skillhub.errors import Refused
from skillhub.model.dataclass import replace
from skillhub.model.skill import Skill

TYPE_CHECKING = False  # as type checkers know it: without `typing` a command starts 2 ms sooner
if TYPE_CHECKING:
    from typing import Any

    from skillhub.flows.verify import Verified
    from skillhub.model.lock import Locked
    from skillhub.model.tree import Tree

_EDITED = frozenset({"changed-file", "changed-mode", "extra-file", "missing-file"})


def list_skills(common: Common) -> int:
    """Show what is installed here, and what lies in agents' folders without a lock."""
    from skillhub.flows.listing import beside, managed, unmanaged

    project = common.open_project()
    skills = managed(project, common.store, os.environ)
    folders = list(unmanaged(project, common.user_home, os.environ))
    if folders:
        from skillhub.runtime.discover import found_skill

        skills += [found_skill(folder, project.scope) for folder in folders]
    skills.sort(key=lambda skill: skill.name)
    _show(skills, beside(project, common.user_home, common.store, os.environ), common)
    return 0


def _show(skills: list[Skill], users: list[Skill], common: Common) -> None:
    first = {skill.name: skill.links[0] for skill in skills if skill.links}
    hidden = [(skill.name, skill.links[0], first[skill.name]) for skill in users if skill.name in first]
    if common.json:
        shadowed = [{"name": name, "path": path, "by": by} for name, path, by in hidden]
        found = {"skills": [each.to_json() for each in skills], "user": [each.to_json() for each in users]}
        common.terminal.json({**found, "shadowed": shadowed})
        return
    from skillhub.cli.render import skills_table

    if skills:
        skills_table(skills, common.terminal)
    else:
        common.terminal.say("no skills are installed here; for one: skillhub install github:gh-fix-ci")
    waiting = {skill.name for skill in skills if skill.managed and skill.state == "disabled"}
    for skill in skills:
        if not skill.managed and skill.name in waiting:
            message = f"{skill.name} is disabled, and agents read {skill.path}: skillhub verify"
            common.terminal.out(message, "yellow")
    if users:
        common.terminal.out("")
        common.terminal.out("Of your own, in every project (skillhub list --global):", "bold")
        skills_table(users, common.terminal)
    for name, path, by in hidden:
        common.terminal.out(f"{name}: {path} is hidden by {by}", "yellow")


def verify_skills(common: Common, names: Sequence[str]) -> int:
    """Check every byte of what is installed."""
    from skillhub.flows.verify import verify

    found = verify(names, common.ports())
    is_ok = not any(each.problems for each in found)
    if common.json:
        common.terminal.json({"ok": is_ok, "skills": [_verified_json(each) for each in found]})
    else:
        for each in found:
            for note in each.notes:
                common.terminal.warn(f"warning: {each.name}: {note.message} [{note.code}]")
            for problem in each.problems:
                common.terminal.out(f"{each.name}: {problem.path}: {problem.message} [{problem.code}]", "red")
        if not found:
            common.terminal.say("nothing is locked here, so there is nothing to verify")
        elif is_ok:
            common.terminal.did(f"{counted(len(found))} as locked, to the last byte", "green")
        else:
            for hint in _hints({problem.code for each in found for problem in each.problems}):
                common.terminal.say(hint)
    return 0 if is_ok else 1


def _hints(codes: Set[str]) -> Iterator[str]:
    """Yield what to do about problems with these codes."""
    from skillhub.flows.verify import BEYOND_SYNC

    if codes - BEYOND_SYNC:
        yield "skillhub sync puts back what is locked"
    if "other-skill" in codes:
        yield "move away what has the name of a locked skill: skillhub sync does not"
    if "not-enabled" in codes:
        yield "skillhub sync takes away what is not enabled"
    if codes & _EDITED:
        yield "skillhub diff NAME shows what was edited"
        yield "skillhub patch NAME makes edits a patch that the project agrees to"


def counted(number: int) -> str:
    """Return ``1 skill is`` or ``3 skills are``."""
    return "1 skill is" if number == 1 else f"{number} skills are"


def _verified_json(verified: Verified) -> dict[str, Any]:
    problems = [{"code": p.code, "path": p.path, "message": p.message} for p in verified.problems]
    return {"name": verified.name, "ok": not problems, "problems": problems}


def sync_skills(common: Common) -> int:
    """Make store, links and lock agree."""
    from skillhub.cli.render import show_outcome
    from skillhub.flows.sync import sync

    ports = common.ports()
    records, locked = ports.project.records().skills, ports.project.lock().skills
    notes: list[str] = []

    def obtain(name: str, entry: Locked) -> Tree:
        from skillhub.flows.locked import from_lock

        record = records.get(name)
        # Of a patched one the entry may be that of what its source has, which was agreed to with the patch.
        agreed = record is not None and record.is_of(locked[name])
        found = from_lock(name, entry, ports, agreed=agreed)
        notes.extend(f"{name}: {note}" for note in found.warnings)
        return found.tree

    outcome = sync(obtain, ports)
    outcome = replace(outcome, warnings=(*outcome.warnings, *notes))
    show_outcome(outcome, "synced", common.terminal, as_json=common.json)
    agreed = ports.project.records().skills
    unasked = [
        skill.name
        for skill in outcome.skills
        for record in [agreed.get(skill.name)]
        if record is None or (record.held != "user" and not record.is_of(locked[skill.name]))
    ]
    if unasked and not common.json:
        common.terminal.warn(
            f"nobody agreed to {', '.join(unasked)} on this machine: skillhub install asks", "plain"
        )
    return Refused.exit_code if outcome.left else 0

"""``doctor``: checks the setup of this machine and project, and shows the policy that is in force."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from skillhub.cli.common import Common
from skillhub.cli.options import argument
from skillhub.cli.terminal import members
from skillhub.errors import UsageError
from skillhub.model.text import quote
from skillhub.model.url import all_masked, masked


def doctor(
    common: Common,
    what: Annotated[str | None, argument("[policy]", "Show the policy that is in force here.")] = None,
) -> int:
    """Check sources, lock, agents, skills and their needs; change nothing. Exits 1 if something is wrong.

    `skillhub doctor policy` shows what machine, user and project permit together, and where each
    line of it stands.

    Example: skillhub doctor
    """
    if what is not None:
        if what != "policy":
            raise UsageError(
                f"expected nothing or policy, found {quote(what)}", hint="skillhub doctor policy"
            )
        return _policy(common)
    from skillhub.flows.doctor import diagnose

    found = diagnose(common.ports(), common.time())
    if common.json:
        common.terminal.answer(
            "doctor",
            {
                "ok": found.ok,
                "checks": [asdict(each) for each in found.checks],
                "roots": [members(root, "path", "scope") for root in found.roots],
                "agents": [members(host, "id", "name") for host in found.agents],
                "sources": [{"name": s.alias, "url": s.url, "root": s.root} for s in found.sources],
            },
        )
        return 0 if found.ok else 1
    for each in found.checks:
        if each.ok:
            common.terminal.did(f"ok  {each.name}: {each.message}", "green")
            continue
        common.terminal.out(f"NOT {each.name}: {each.message}", "red")
        if each.hint:
            common.terminal.out(f"    {each.hint}")
    for root in found.roots:
        common.terminal.did(f"    skills are read from {root.path} ({root.scope})", "dim")
    common.terminal.say("this is the setup alone; for what is in the skills: skillhub audit", "dim")
    return 0 if found.ok else 1


def _policy(common: Common) -> int:
    """Show every line of a policy that is in force, and where it stands."""
    from skillhub.model.policy_view import effective, rows
    from skillhub.world.policies import places

    ports = common.ports()
    every = list(rows(ports.policies))
    where = {**places(common.home), "project": ports.project.intent_path}
    if common.json:
        lines = [row._asdict() for row in every]
        return common.result(
            "doctor policy",
            all_masked({"effective": effective(ports.policies), "lines": lines, "places": where}),
        )
    for row in every:
        beaten = "" if row.in_force else "  (a stricter line holds)"
        common.terminal.out(f"{masked(row.text)}{beaten}", "plain" if row.in_force else "dim")
        common.terminal.out(f"    {row.level}: {row.where}", "dim")
    if not every:
        common.terminal.say("no policy is in force; these files would be read:")
        for level, path in where.items():
            common.terminal.out(f"{level}: {path}")
    return 0


COMMANDS = {"doctor": doctor}

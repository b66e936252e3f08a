"""``doctor``."""

from __future__ import annotations

import typer

from skillhub.cli.common import Common, command


def doctor(common: Common) -> int:
    """Check sources, lock, agents, skills and their needs; change nothing. Exits 1 if something is wrong.

    Example: skillhub doctor
    """
    from skillhub.flows.doctor import diagnose

    found = diagnose(common.ports())
    if common.json:
        common.terminal.json(
            {
                "ok": found.ok,
                "checks": [
                    {"name": each.name, "ok": each.ok, "message": each.message, "hint": each.hint}
                    for each in found.checks
                ],
                "roots": [{"path": root.path, "scope": root.scope} for root in found.roots],
                "agents": [{"id": host.id, "name": host.name} for host in found.agents],
                "sources": [{"name": s.alias, "url": s.url, "root": s.root} for s in found.sources],
            }
        )
        return 0 if found.ok else 1
    for each in found.checks:
        common.terminal.out(
            f"{'ok ' if each.ok else 'NOT'} {each.name}: {each.message}", "green" if each.ok else "red"
        )
        if each.hint and not each.ok:
            common.terminal.out(f"    {each.hint}")
    for root in found.roots:
        common.terminal.out(f"    skills are read from {root.path} ({root.scope})", "dim")
    return 0 if found.ok else 1


def register(app: typer.Typer, name: str) -> None:
    """Add the command to the app."""
    app.command(name)(command(doctor))

"""``show``."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from skillhub.cli.common import Common, command
from skillhub.cli.terminal import Terminal
from skillhub.flows.show import Shown


def show(
    common: Common,
    ref: Annotated[str, typer.Argument(metavar="NAME|REF", help="An installed skill, or a reference.")],
) -> int:
    """Show a skill: the installed one of that name, else what the reference finds. Installs nothing.

    Example: skillhub show github:gh-fix-ci
    """
    from skillhub.flows.show import manifest_json
    from skillhub.flows.show import show as flow
    from skillhub.model.ref import parse_ref

    shown = flow(parse_ref(ref), common.ports())
    if common.json:
        common.terminal.json(
            {
                **shown.skill.to_json(),
                "manifest": manifest_json(shown.manifest),
                "files": [_file(path, shown) for path in shown.tree],
                "releases": [_release(each.version, each.published, each.yanked) for each in shown.releases],
            }
        )
    else:
        _draw(shown, common.terminal)
    return 0


def _file(path: str, shown: Shown) -> dict[str, object]:
    file = shown.tree[path]
    listed = shown.tree.listing[path]
    return {"path": path, "size": len(file.data), "sha256": listed.sha256, "executable": file.executable}


def _release(version: str | None, published: str | None, yanked: str | None) -> dict[str, object]:
    return {"version": version, "published": published, "yanked": yanked}


def _draw(shown: Shown, terminal: Terminal) -> None:
    skill = shown.skill
    terminal.out(f"{skill.name} {skill.version or ''}", "bold")
    terminal.prose(skill.description, sys.stdout)
    signed = ", ".join(f"{one.identity} ({one.kind} {one.fingerprint})" for one in skill.signed_by)
    state = skill.state if skill.managed else "not installed"
    rows = [
        ("source", f"{skill.source}  {skill.url or ''}"),
        ("state", state),
        ("signed by", signed or "nobody"),
        ("tree", skill.tree or ""),
        ("can", ", ".join(skill.capabilities) or "give instructions"),
        *(
            (f"needs {need.kind}", f"{need.name}{'' if need.satisfied else ' (missing)'}")
            for need in skill.requires
        ),
        *(("link", link) for link in skill.links),
        *(("release", f"{each.version} {each.published or ''}") for each in shown.releases),
    ]
    for label, text in rows:
        terminal.out(f"  {label:<14}{text}")
    for path, file in shown.tree.items():
        terminal.out(f"  {'x' if file.executable else '-'} {len(file.data):>8}  {path}")


def register(app: typer.Typer, name: str) -> None:
    """Add the command to the app."""
    app.command(name)(command(show))

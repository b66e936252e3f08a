"""``source``: the registries that skills come from."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skillhub.cli.common import Common, Run, command
from skillhub.cli.table import COMMANDS
from skillhub.errors import NotFound

if TYPE_CHECKING:
    from skillhub.world.sources import Source

Name = Annotated[str, typer.Argument(metavar="NAME", help="The source's alias.")]
_ROOT_CAP = 512_000


def add(
    common: Common,
    name: Name,
    url: Annotated[str, typer.Argument(metavar="URL", help="Where the registry is.")],
    root: Annotated[
        str | None, typer.Option("--root", metavar="FILE", help="Its 1.root.json, had elsewhere.")
    ] = None,
    fingerprint: Annotated[
        str | None, typer.Option("--fingerprint", metavar="sha256:…", help="The SHA-256 of its 1.root.json.")
    ] = None,
) -> int:
    """Add a registry, pinned by its root. Without --root or --fingerprint you are shown it and asked.

    Example: skillhub source add acme https://skills.acme.example --fingerprint sha256:…
    """
    from skillhub.flows.trusting import add_source
    from skillhub.model.digest import Digest
    from skillhub.world import files

    data = files.read(os.path.realpath(root), _ROOT_CAP) if root else None
    if root and data is None:
        raise NotFound("there is no such file", where=root)
    pinned = Digest.parse(fingerprint, "--fingerprint") if fingerprint else None
    source = add_source(name, url, data, pinned, common.ports(), dry_run=common.dry_run)
    if common.json:
        common.terminal.json(_json(source))
    else:
        done = "would add" if common.dry_run else "added"
        common.terminal.out(f"{done} {source.alias}: {source.url}, root {source.root}", "green")
    return 0


def list_(common: Common) -> int:
    """List the sources.

    Example: skillhub source list
    """
    sources = list(common.sources.all().values())
    if common.json:
        common.terminal.json({"sources": [_json(source) for source in sources]})
    else:
        for source in sources:
            common.terminal.out(f"{source.alias}: {source.url}", "bold")
            common.terminal.out(f"  root {source.root}")
    return 0


def show(common: Common, name: Name) -> int:
    """Show a source and the skills that it lists.

    Example: skillhub source show github
    """
    source = common.sources.get(name)
    ports = common.ports()
    skills = ports.open(source).listing().skills
    newest = [releases[0] for _, releases in sorted(skills.items())]
    if common.json:
        rows = [
            {
                "name": each.name,
                "version": each.version,
                "publisher": each.publisher,
                "description": each.description,
            }
            for each in newest
        ]
        common.terminal.json({**_json(source), "skills": rows})
        return 0
    common.terminal.out(f"{source.alias}: {source.url}", "bold")
    common.terminal.out(f"  root {source.root}")
    if source.embedded:
        common.terminal.out("  inside the package; its keys are public test keys, valid for nothing else")
    cells = [(each.name, each.version or "-", each.publisher or "-", each.description) for each in newest]
    common.terminal.table(("NAME", "VERSION", "PUBLISHER", "DESCRIPTION"), cells)
    return 0


def remove(common: Common, name: Name) -> int:
    """Forget a source; what was installed from it stays.

    Example: skillhub source remove acme
    """
    gone = common.sources.get(name) if common.dry_run else common.sources.remove(name)
    if common.json:
        common.terminal.json(_json(gone))
    else:
        common.terminal.out(f"{'would remove' if common.dry_run else 'removed'} {gone.alias}: {gone.url}")
    return 0


def _json(source: Source) -> dict[str, Any]:
    return {"name": source.alias, "kind": "registry", "url": source.url, "root": source.root}


_COMMANDS: dict[str, Run] = {"add": add, "list": list_, "show": show, "remove": remove}


def register(app: typer.Typer, name: str) -> None:
    """Add the group to the app."""
    group = typer.Typer(help=COMMANDS[name].help, no_args_is_help=True, rich_markup_mode=None)
    for verb, run in _COMMANDS.items():
        group.command(verb)(command(run))
    app.add_typer(group, name=name)

"""``key``: the keys of who signs skills."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from skillhub.cli.common import Common, command
from skillhub.cli.passphrase import new_passphrase
from skillhub.cli.table import COMMANDS

if TYPE_CHECKING:
    from skillhub.world.keys import Key

Kind = Annotated[
    Literal["p256", "p384", "ed25519"],
    typer.Option("--kind", help="p256 is what every verifier knows; ed25519 few."),
]


def new(
    common: Common,
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="What you will call it.")] = "default",
    kind: Kind = "p256",
) -> int:
    """Make a key to sign skills with; give away its public half.

    A passphrase is asked for on a terminal, or taken from SKILLHUB_PASSPHRASE.

    Example: skillhub key new
    """
    from skillhub.world.keys import Keys

    key = Keys(common.home).new(name, kind, new_passphrase(f"key {name}", common))
    if common.json:
        common.terminal.json(_json(key))
    else:
        common.terminal.out(f"{key.name}: {key.kind} {key.fingerprint}", "green")
        common.terminal.out(f"  private, for you alone: {key.path}")
        common.terminal.out(f"  public, to give away:   {key.public_path}")
    return 0


def list_(common: Common) -> int:
    """List your keys.

    Example: skillhub key list
    """
    from skillhub.world.keys import Keys

    keys = Keys(common.home).all()
    if common.json:
        common.terminal.json({"keys": [_json(key) for key in keys]})
    else:
        rows = [(key.name, key.kind, key.fingerprint, key.public_path) for key in keys]
        common.terminal.table(("NAME", "KIND", "FINGERPRINT", "PUBLIC KEY"), rows)
    return 0


def _json(key: Key) -> dict[str, str]:
    return {
        "name": key.name,
        "kind": key.kind,
        "fingerprint": key.fingerprint,
        "path": key.path,
        "public_path": key.public_path,
    }


def register(app: typer.Typer, name: str) -> None:
    """Add the group to the app."""
    group = typer.Typer(help=COMMANDS[name].help, no_args_is_help=True, rich_markup_mode=None)
    group.command("new")(command(new))
    group.command("list")(command(list_))
    app.add_typer(group, name=name)

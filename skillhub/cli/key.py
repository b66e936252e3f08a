"""``key``: makes, lists, shows and imports the keys that skills are signed with."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Literal

from skillhub.cli.author import new_passphrase, with_passphrase
from skillhub.cli.common import Common, Run
from skillhub.cli.options import argument, option

if TYPE_CHECKING:
    from collections.abc import Callable

    from skillhub.project.keys import Key

Kind = Annotated[
    Literal["p256", "p384", "ed25519"], option("--kind", "p256 is what every verifier knows; ed25519 few.")
]


def new(
    common: Common,
    name: Annotated[str, argument("[NAME]", "What you will call it.")] = "default",
    kind: Kind = "p256",
) -> int:
    """Make a key to sign skills with; give away its public half.

    A passphrase is asked for on a terminal, or taken from SKILLHUB_PASSPHRASE.

    Example: skillhub key new
    """
    from skillhub.project.keys import Keys

    keys = Keys(common.home)
    if common.dry_run:
        keys.free(name)
        planned = {"name": name, "kind": kind, "fingerprint": None}
        return common.done("key new", planned, f"would make the key {name}: {kind}")
    return _made(keys.new(name, kind, new_passphrase(f"key {name}", common)), common)


def list_(common: Common) -> int:
    """List your keys.

    Example: skillhub key list
    """
    from skillhub.project.keys import Keys

    keys = Keys(common.home).all()
    if common.json:
        common.terminal.answer("key list", {"keys": [asdict(key) for key in keys]})
    else:
        for key in keys:
            common.terminal.out(f"{key.name}: {key.kind}", "bold")
            common.terminal.out(f"  {key.fingerprint}")
            common.terminal.out(f"  public, to give away: {key.public_path}")
        if not keys:
            common.terminal.say("no keys yet; to make one: skillhub key new")
    return 0


def show(common: Common, name: Annotated[str, argument("[NAME]", "Which of your keys.")] = "default") -> int:
    """Show a key. Its fingerprint, its files, and its public half to give away.

    Example: skillhub key show default
    """
    from skillhub.cli.common import read_file
    from skillhub.project.keys import Keys

    key = Keys(common.home).get(name)
    pem = read_file(key.public_path).decode("ascii", "replace")
    if common.json:
        common.terminal.answer("key show", {**asdict(key), "public_key": pem})
    else:
        _draw(key, common.terminal.out)
        for line in pem.splitlines():
            common.terminal.verbatim(line)
    return 0


def import_(
    common: Common,
    file: Annotated[str, argument("FILE", "A private key, PEM, encrypted or not.")],
    name: Annotated[str, option("--name NAME", "What you will call it.")] = "default",
) -> int:
    """Take over a private key from elsewhere; the file is left as it is.

    It is kept under the passphrase that is given for it, as with key new.

    Example: skillhub key import ./release.pem --name release
    """
    from skillhub.project.keys import Keys, read_key

    keys = Keys(common.home)
    keys.free(name)
    private = with_passphrase(f"passphrase of {file}", common, lambda given: read_key(file, given))
    if common.dry_run:
        return common.done(
            "key import", {"name": name, "kind": None, "fingerprint": None}, f"would make the key {name}"
        )
    return _made(keys.add(name, private, new_passphrase(f"key {name}", common)), common)


def _made(key: Key, common: Common) -> int:
    if common.json:
        common.terminal.answer("key new", asdict(key))
    else:
        _draw(key, common.terminal.did)
    return 0


def _draw(key: Key, write: Callable[..., None]) -> None:
    write(f"{key.name}: {key.kind} {key.fingerprint}", "green")
    write(f"  private, for you alone: {key.path}")
    write(f"  public, to give away:   {key.public_path}")


VERBS: dict[str, Run] = {"new": new, "list": list_, "show": show, "import": import_}

"""``env`` stores values that skills need in the system's keyring and runs programs with them; ``self uninstall``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

from skillhub.cli.common import Arg, Common, Strings, optional
from skillhub.errors import UsageError
from skillhub.exchange.uninstall import uninstall
from skillhub.exchange.values import Released, become, due, forget, intended, keep, release, remainder
from skillhub.formats.json import members
from skillhub.project.user_state import Secret

if TYPE_CHECKING:
    from skillhub.project.keyring import Keyring

_BYTES_MAX = 1 << 20


def env_list(common: Common) -> None:
    """List the variables with a stored value.

    Shows for each the skills that may use it, and the project.

    Example: skillhub env list
    """
    found = common.open_project().secrets.all()
    if common.json:
        return common.answer("env list", {"variables": [_json(secret) for secret in found]})
    if not found:
        common.terminal.say(f"no value is stored; to store one: {common.command('env', 'set', 'NAME')}")
        return
    rows = [(each.name, ", ".join(each.skills) or "(no skill)", _place(each)) for each in found]
    common.terminal.table(("NAME", "SKILLS", "PROJECT"), rows)


def env_set(
    common: Common,
    words: Annotated[list[str], Arg("NAME", "The variable.")],
    skill: Annotated[Strings, Arg("--skill SKILL", "A skill that gets the value (repeatable).")] = None,
) -> None:
    """Store a value in the system's keyring, for skills of this project. Type it at the prompt, or write it to stdin.

    Without --skill, the skills that may use the old value get the new one; if there are none, the one skill here that
    needs the variable.

    Example: skillhub env set GITHUB_TOKEN --skill gh-fix-ci
    """
    name, *more = words
    if more:  # may be a secret value, which an error of Typer would show
        message = "expected no value on the command line, where other users can read it"
        typed = common.command("env", "set", "NAME")
        raise UsageError(message, hint=f"type it at the prompt, or write it to stdin: {typed}")
    project = common.open_project()
    secret = intended(name, skill or (), project)
    vault = _vault()
    if not common.dry_run:
        vault.get(secret)  # raises before the prompt if the system has no keyring
        keep(secret, _value(name, common), project, vault)
    if common.json:
        return common.answer("env set", _json(secret))
    users = f"for {', '.join(secret.skills)}" if secret.skills else "for no skill yet"
    common.terminal.did(f"{common.would('store', 'stored')} {name} {users}, {_place(secret)}", "green")
    if not secret.skills:
        common.terminal.say(f"to give it to a skill: {common.command('env', 'set', name, '--skill', 'SKILL')}")
    common.terminal.say("skillhub env exec -- CMD runs CMD with the values of enabled skills", "dim")


def env_unset(
    common: Common,
    name: Annotated[str, Arg("NAME", "The variable.")],
    skill: Annotated[Strings, Arg("--skill SKILL", "Remove it from this skill only (repeatable).")] = None,
) -> None:
    """Remove a stored value of this project. Enabled skills stay enabled.

    Example: skillhub env unset GITHUB_TOKEN
    """
    project = common.open_project()
    left = remainder(name, skill or (), project)
    if not common.dry_run:
        forget(left, project, _vault())
    done = f"{common.would('remove', 'removed')} the value of {name}"
    if left.skills:
        done = f"the value of {name} {common.would('stay', 'stays')} for {', '.join(left.skills)}"
    return common.done("env unset", {**_json(left), "stored": bool(left.skills)}, done)


def env_exec(common: Common, words: Annotated[list[str], Arg("CMD...", "The program and its arguments.")]) -> int:
    """Run a program with the stored values of this project. No shell is used.

    The program gets the values that enabled skills may use, and the programs that it starts can read them too. A
    variable that is already set keeps its value. The secrets of skillhub's own commands, such as SKILLHUB_PASSPHRASE,
    are not passed on.

    Example: skillhub env exec -- claude
    """
    if common.json:
        raise UsageError("env exec prints the output of the program, so --json does not apply")
    secrets = due(common.open_project(), os.environ)
    if common.dry_run:
        names = ", ".join(secret.name for secret in secrets)
        common.terminal.out(f"would run {words[0]} with {names or 'no value added'}")
        return 0
    released = release(secrets, os.environ, _vault()) if secrets else Released(os.environ)
    for name in released.missing:
        store = common.command("env", "set", name)
        common.terminal.warn(f"warning: the keyring has no value of {name}; to store one: {store}")
    sys.stdout.flush()
    sys.stderr.flush()
    return become(words, released.environ)


def self_uninstall(common: Common) -> None:
    """Remove what skillhub wrote on this machine. Asks first.

    Removes copies of skills, MCP entries in agents' configuration, stored values, the store, settings and state.
    Edited copies, your signing keys, and skillhub.toml and skillhub.lock of projects stay. Prints the command that
    removes the program itself.

    Example: skillhub self uninstall --dry-run
    """
    from skillhub.cli.network import open_ports

    ports = open_ports(common, scratch=True)
    drop: Callable[[Secret], None] | None = None
    with suppress(UsageError):
        drop = _vault().drop
    found = uninstall(ports, drop, dry_run=common.dry_run)
    gone, kept = ([each for each in found.rows if bool(each.kept) == stays] for stays in (False, True))
    if common.json:
        value = {
            "removed": [members(each, "kind", "path", "name") for each in gone],
            "kept": [{**members(each, "kind", "path", "name"), "why": each.kept} for each in kept],
            **members(found, "left", "package"),
            "changed": bool(gone) and not common.dry_run,
            "questions": [question.to_json(answer) for question, answer in found.asked],
        }
        return common.answer("self uninstall", value)
    for each in gone:
        note = f" ({each.name})" if each.name else ""
        common.terminal.did(f"{common.would('remove', 'removed')} {each.kind}: {each.path}{note}")
    for each in kept:
        common.terminal.out(f"stays: {each.path}: {each.kept}", "yellow")
    for line in found.left:
        common.terminal.out(f"to do by hand: {line}")
    common.terminal.out(f"then, to remove the program: {found.package}")


def _vault() -> Keyring:
    """Return the keyring."""
    vault: Keyring = optional("skillhub.project.keyring", "keyring", "stored values need").Keyring()
    return vault


def _value(name: str, common: Common) -> str:
    """Return the value from a hidden prompt, else from stdin without its last line break.

    Raises:
        UsageError: the value is empty or not UTF-8, or stdin is a terminal at which no person can be asked.
    """
    if common.asks:
        return common.terminal.secret(f"value of {name} (not shown):")
    if sys.stdin.isatty():
        raise UsageError(f"no terminal to ask for the value of {name}", hint="write it to stdin")
    data = sys.stdin.buffer.read(_BYTES_MAX)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = ""
    value = text.removesuffix("\n").removesuffix("\r")
    if not value:
        raise UsageError(f"expected the value of {name} on stdin, as text")
    return value


def _place(secret: Secret) -> str:
    return "in all of your projects" if secret.scope == "user" else f"in {secret.project}"


def _json(secret: Secret) -> Mapping[str, Any]:
    project = secret.project if secret.scope == "project" else None
    return {"name": secret.name, "skills": list(secret.skills), "scope": secret.scope, "project": project}

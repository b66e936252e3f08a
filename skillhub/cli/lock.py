"""``lock``: imports other installers' locks, exports ours as a bill of materials, and resolves merges of it."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Literal

from skillhub.cli.common import Common, Run, epoch, optional, options_of, read_file
from skillhub.cli.options import Agents, AllowUnsigned, Env, EnvFile, Link, Mcp, NoEnable, argument, option
from skillhub.cli.render import finish
from skillhub.errors import Refused, UsageError

if TYPE_CHECKING:
    from skillhub.edits.merge import Choice, Side


def import_(
    common: Common,
    file: Annotated[str, argument("FILE", "The lock of another installer.")],
    agent: Agents = None,
    env: Env = None,
    env_file: EnvFile = None,
    mcp: Mcp = "ask",
    link: Link = None,
    no_enable: NoEnable = False,
    allow_unsigned: AllowUnsigned = False,
) -> int:
    """Install what the lock of another installer names, and pin it. What could not be pinned is told.

    Reads skills-lock.json, .skill-lock.json, apm.lock.yaml and .clawhub/lock.json. Exits 6 if something was left
    out. The file stays as it is.

    Example: skillhub lock import skills-lock.json
    """
    from skillhub.exchange.other_locks import CAP, import_lock, parse_other_lock

    data = read_file(file, CAP)
    folder = os.path.dirname(os.path.abspath(file))
    if os.path.basename(folder) == ".clawhub":
        folder = os.path.dirname(folder)
    other = parse_other_lock(data, folder.replace(os.sep, "/"), file)
    options = options_of(common, agent, env, env_file, mcp, link, no_enable)
    ports = common.ports(allow_unsigned=allow_unsigned)
    outcome = import_lock(other, options, ports)
    common.terminal.say(f"{file}: {other.format}")
    status = finish(common, outcome, options, "import", "imported")
    # What was left out counts also where the rest is not to be enabled.
    return Refused.exit_code if outcome.left and not common.dry_run else status


def export(
    common: Common,
    form: Annotated[
        Literal["cyclonedx", "spdx"], option("--format", "CycloneDX 1.6 or SPDX 2.3, both as JSON.")
    ] = "cyclonedx",
    output: Annotated[str | None, option("--output -o FILE", "Write here instead of to stdout.")] = None,
) -> int:
    """Write the lock as a bill of materials. The same lock gives the same bytes.

    The time in it is that of SOURCE_DATE_EPOCH.

    Example: skillhub lock export --format cyclonedx -o skills.cdx.json
    """
    from skillhub.disk import files

    module = optional("skillhub.exchange.sbom", "sbom", "bills of materials take")
    data: bytes = getattr(module, form)(common.open_project().lock(), epoch())
    if output is None:
        sys.stdout.write(data.decode("ascii"))
    elif not common.dry_run:
        files.write_atomic(os.path.realpath(output), data)
    return 0


def fix(
    common: Common,
    ours: Annotated[list[str] | None, option("--ours NAME", "Take our side of this skill or source.")] = None,
    theirs: Annotated[list[str] | None, option("--theirs NAME", "Take their side of this skill or source.")] = None,
) -> int:
    """Resolve a merge conflict in skillhub.lock. What skillhub.toml says decides; what was done is told.

    Where both sides changed a skill, the one that skillhub.toml allows is taken, of two the higher version. Sides
    that differ in signer or source are shown and refused, until you say which.

    Example: skillhub lock fix
    """
    from skillhub.edits.merge import fix as flow
    from skillhub.install.resolve import satisfies

    take: dict[str, Side] = {**dict.fromkeys(ours or (), "ours"), **dict.fromkeys(theirs or (), "theirs")}
    if both := set(ours or ()) & set(theirs or ()):
        raise UsageError(f"--ours and --theirs exclude each other: {', '.join(sorted(both))}")
    done = flow(common.open_project(), take, satisfies, dry_run=common.dry_run)
    if common.json:
        return common.result(
            "lock fix",
            {"skills": [asdict(each) for each in done.choices], "changed": done.changed and not common.dry_run},
        )
    for choice in done.choices:
        would = "would settle " if common.dry_run else ""
        common.terminal.did(f"{would}{_line(choice)}", "yellow" if choice.took is None else "plain")
    if done.changed and common.dry_run:
        common.terminal.say("the conflict would be resolved; nothing was written")
    elif done.changed:
        common.terminal.say("skillhub install asks about what is new here, and adds what else skillhub.toml wants")
    else:
        common.terminal.did("there is no conflict in the lock")
    return 0


def merge(
    common: Common,
    base: Annotated[str, argument("BASE", "%O: the version that both came from.")],
    ours: Annotated[str, argument("OURS", "%A: ours; the result is written here.")],
    theirs: Annotated[str, argument("THEIRS", "%B: theirs.")],
) -> int:
    """Merge three versions of skillhub.lock skill by skill. This is what git asks its merge drivers to do.

    Exits 0 with the merged lock in OURS, else 1 with a conflict in it that lock fix resolves.

    Example: skillhub lock merge %O %A %B
    """
    from skillhub.disk import files
    from skillhub.edits.merge import drive
    from skillhub.model.lock import CAP

    before = files.read(os.path.realpath(base), CAP) or b""
    done = drive(before, read_file(ours, CAP), read_file(theirs, CAP))
    if not common.dry_run:
        files.write_atomic(os.path.realpath(ours), done.data)
    if common.json:
        common.terminal.answer(
            "lock merge", {"skills": [asdict(each) for each in done.choices], "clean": done.error is None}
        )
    else:
        for choice in done.choices:
            common.terminal.say(_line(choice))
    if done.error is not None:
        common.terminal.error(done.error)
    return 0 if done.error is None else 1


def _line(choice: Choice) -> str:
    return f"{choice.name}: {choice.took or 'removed'}: {choice.why}"


VERBS: dict[str, Run] = {"import": import_, "export": export, "fix": fix, "merge": merge}

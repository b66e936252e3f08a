"""``adopt``, ``patch`` and ``lock``: add unmanaged skills, edits and other locks to the lock; export and merge it."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Literal

from skillhub.cli.common import (
    AllowUnsigned,
    Arg,
    Common,
    Enabling,
    Names,
    NoEnable,
    Strings,
    epoch,
    optional,
    read_file,
    write_output,
)
from skillhub.cli.network import open_ports
from skillhub.cli.render import finish
from skillhub.command.ports import Options
from skillhub.disk import files
from skillhub.edits import lock_merge as merging
from skillhub.edits.lock_merge import Choice, Side
from skillhub.errors import Refused, UsageError, hinting
from skillhub.exchange import adopt as adopting
from skillhub.exchange import other_locks
from skillhub.formats.text import amount
from skillhub.install import patches
from skillhub.install.resolve import satisfies
from skillhub.model.lock import CAP


def adopt(
    common: Common,
    enabling: Enabling,
    names: Annotated[Strings, Arg("[NAME]...", "Unmanaged skills in agents' folders (default: all).")] = None,
    into: Annotated[str, Arg("--into FOLDER", "The project folder for skills of unknown origin.")] = "skills",
    allow_unsigned: AllowUnsigned = False,
) -> int:
    """Add unmanaged skills in agents' folders to the lock: compare with their origin, scan, ask, lock.

    The origin is read from the locks of other installers and from the metadata that gh skill writes; else it is the
    configured source that offers the skill. A skill that equals its origin byte for byte is locked from there. Any
    other is copied to FOLDER, for you to commit, and locked from that copy.

    Example: skillhub adopt
    """
    options, ports = enabling.options(common), open_ports(common, allow_unsigned=allow_unsigned)
    outcome = adopting.adopt(names or [], into.removeprefix("./").rstrip("/") or into, options, ports)
    return finish(common, outcome, options, "adopt", "adopted")


# ``patch``: keeps edits of a skill as a patch that the project agrees to.


def patch(
    common: Common,
    names: Names,
    drop: Annotated[bool, Arg("--drop", "Drop the patch and restore the skill as its source has it.")] = False,
    allow_unsigned: AllowUnsigned = False,
) -> int:
    """Keep the edits in a skill's copy as a patch that the project agrees to.

    The patch is written to skillhub-edits/ and named in skillhub.lock; commit both. From then on install and
    sync write the patched skill, verify expects it, and update applies the patch to the new version
    unless both change the same lines.

    Example: skillhub patch gh-fix-ci
    """
    act, verb, done = (patches.drop, "unpatch", "unpatched") if drop else (patches.patch, "patch", "patched")
    options = Options(dry_run=common.dry_run)
    outcome = act(names, options, open_ports(common, allow_unsigned=allow_unsigned))
    status = finish(common, outcome, options, verb, done)
    if not common.json and not common.dry_run:
        for skill in outcome.skills:
            if skill.patch:
                common.terminal.say(f"{skill.patch} belongs to skillhub.lock: commit both")
    return status


# ``lock``: imports other installers' locks, exports ours as a bill of materials, and resolves merges of it.


def lock_import(
    common: Common,
    enabling: Enabling,
    file: Annotated[str, Arg("FILE", "The lock of another installer.")],
    no_enable: NoEnable = False,
    allow_unsigned: AllowUnsigned = False,
) -> int:
    """Install and pin the skills in the lock of another installer. Lists the skills that it could not pin.

    Reads skills-lock.json, .skill-lock.json, apm.lock.yaml and .clawhub/lock.json. Exits 6 if a skill was left
    out. The file does not change.

    Example: skillhub lock import skills-lock.json
    """
    data = read_file(file, other_locks.CAP, hint=other_locks.KNOWN)
    folder = os.path.dirname(os.path.abspath(file))
    if os.path.basename(folder) == ".clawhub":
        folder = os.path.dirname(folder)
    with hinting(other_locks.KNOWN):
        other = other_locks.parse_other_lock(data, folder.replace(os.sep, "/"), file)
    options = enabling.options(common, enable=not no_enable)
    ports = open_ports(common, allow_unsigned=allow_unsigned)
    outcome = adopting.import_lock(other, options, ports)
    common.terminal.say(f"{file} is read as {other.format}")
    status = finish(common, outcome, options, "import", "imported")
    # A skill that was left out counts also with --no-enable.
    return Refused.exit_code if outcome.left_out and not common.dry_run else status


def lock_export(
    common: Common,
    form: Annotated[
        Literal["cyclonedx", "spdx"], Arg("--format", "CycloneDX 1.6 or SPDX 2.3, both as JSON.")
    ] = "cyclonedx",
    output: Annotated[str | None, Arg("--output -o FILE", "Write here instead of to stdout.")] = None,
) -> None:
    """Write the lock as a bill of materials. The same lock gives the same bytes.

    Its creation time is SOURCE_DATE_EPOCH; without it, CycloneDX has no time and SPDX has 1970.

    Example: skillhub lock export --format cyclonedx -o skills.cdx.json
    """
    module = optional("skillhub.exchange.sbom", "sbom", "a bill of materials needs")
    lock = common.open_project().lock()
    data: bytes = getattr(module, form)(lock, epoch())
    if output is not None and not common.dry_run:
        write_output(output, data, common.open_project())
        common.terminal.say(f"wrote {output}: {amount(len(lock.skills), 'skill')}")
    if output is None or common.json:
        sys.stdout.write(data.decode("ascii"))


def lock_fix(
    common: Common,
    ours: Annotated[Strings, Arg("--ours NAME", "Take our side of this skill or source.")] = None,
    theirs: Annotated[Strings, Arg("--theirs NAME", "Take their side of this skill or source.")] = None,
) -> None:
    """Resolve a merge conflict in skillhub.lock. skillhub.toml decides; each merged skill is listed.

    If both sides changed a skill, the version that skillhub.toml allows is taken; if it allows both, the higher one.
    Sides that differ in signer or source are shown and refused until you choose with --ours or --theirs.

    Example: skillhub lock fix
    """
    take: dict[str, Side] = {**dict.fromkeys(ours or (), "ours"), **dict.fromkeys(theirs or (), "theirs")}
    if both := set(ours or ()) & set(theirs or ()):
        raise UsageError(f"--ours and --theirs exclude each other: {', '.join(sorted(both))}")
    done = merging.fix(common.open_project(), take, satisfies, dry_run=common.dry_run)
    if common.json:
        return common.answer("lock fix", {"skills": done.choices, "changed": done.changed and not common.dry_run})
    for choice in done.choices:
        would = "would resolve " if common.dry_run else ""
        common.terminal.did(f"{would}{_line(choice)}", "yellow" if choice.took is None else "plain")
    if done.changed and common.dry_run:
        common.terminal.say("the conflict would be resolved; nothing was written")
    elif done.changed:
        install = common.command("install")
        common.terminal.say(f"{install} asks about the new skills, and adds missing skills of skillhub.toml")
    else:
        common.terminal.did("there is no conflict in the lock")


def lock_merge(
    common: Common,
    base: Annotated[str, Arg("BASE", "%O: the common ancestor.")],
    ours: Annotated[str, Arg("OURS", "%A: ours; the result is written here.")],
    theirs: Annotated[str, Arg("THEIRS", "%B: theirs.")],
) -> int:
    """Merge three versions of skillhub.lock skill by skill. A merge driver for git.

    Exits 0 with the merged lock in OURS, or 1 with a conflict in OURS that lock fix resolves.

    Example: skillhub lock merge %O %A %B
    """
    before = files.read(os.path.realpath(base), CAP) or b""
    done = merging.drive(before, read_file(ours, CAP), read_file(theirs, CAP))
    if not common.dry_run:
        files.write_atomic(os.path.realpath(ours), done.data)
    if common.json:
        common.answer("lock merge", {"skills": done.choices, "clean": done.error is None})
    else:
        for choice in done.choices:
            common.terminal.say(_line(choice))
    if done.error is not None:
        common.terminal.error(done.error)
    return 0 if done.error is None else 1


def _line(choice: Choice) -> str:
    return f"{choice.name}: {choice.took or 'removed'}: {choice.why}"

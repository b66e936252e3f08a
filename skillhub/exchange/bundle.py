"""Export a lock with everything that its install needs, and compare a bundle with the lock of a project."""

from __future__ import annotations

import os
from collections.abc import Callable

from skillhub.archive.unpack import pack
from skillhub.command.ports import Ports
from skillhub.command.state import read_state
from skillhub.errors import FormatError, UsageError
from skillhub.formats.text import command
from skillhub.install.candidates import about_skill
from skillhub.install.obtain import by_lock, no_scan
from skillhub.model.reference import Mcp, parse_remote
from skillhub.project.project import Project
from skillhub.sources.bundle import CAP, SkillBundle
from skillhub.trust.roles import MetadataFile

__all__ = ["CAP", "export", "hold_to_lock", "usable_until"]
_TIMESTAMP = "/metadata/timestamp.json"


def export(
    ports: Ports,
    recorded: Ports,
    answers: dict[str, tuple[str, bytes]],
    proof: Callable[[str, str], dict[str, bytes]],
    replayed: Callable[[SkillBundle], Ports],
) -> SkillBundle:
    """Return the lock with everything that its install needs on an empty machine; each byte is verified twice.

    Args:
        ports: The ports of the command.
        recorded: The ports of an empty machine; they add each response of a source to ``answers``.
        answers: The recorded responses.
        proof: Returns the git objects that prove a folder at a commit.
        replayed: Returns the ports of an empty machine that has only a bundle.

    Raises:
        UsageError: nothing is locked.
        NotFound: the user has not configured a source of the lock.
        SourceError, SecurityError, FormatError, Refused: a locked skill cannot be fetched, or differs from the lock.
    """
    state = read_state(ports.project, ports.sources)
    if not state.lock.skills:
        install = command(ports.project.scope, "install")
        hint = f"{install} locks the skills of skillhub.toml" if state.unlocked else "install a skill first"
        raise UsageError("nothing is locked here", where=ports.project.lock_path, hint=hint)
    sources = map(ports.sources.get, state.lock.sources)
    registries = [(each, each.root) for each in sources if each.root is not None and not each.embedded]
    for source, root in registries:
        ports.open_registry(source)  # raises if it is older than what this machine saw before
        recorded.fetch_root(source.url, root, named_by=source.named_by)
    for name, entry in state.lock.skills.items():  # not scanned: a bundle contains no results of the scan
        original, is_agreed = entry.original, state.agreed(name) is not None
        with about_skill(name):
            # A registry, a commit or the digest of an artifact proves the files, besides the lock.
            if not original.local and (original.named or not isinstance(parse_remote(original.place), Mcp)):
                by_lock(name, original, recorded, is_agreed=is_agreed, scan=False).run(no_scan)
                objects = proof(original.rev, original.path or "") if original.rev else {}
                answers |= {f"git:{id_}": ("", data) for id_, data in objects.items()}
            else:
                tree = by_lock(name, original, ports, is_agreed=is_agreed, scan=False).run(no_scan).tree
                answers[f"tree:{original.tree}"] = "", pack(tree, compress=False)
    recorded.advisories.known()  # an install reads the advisories of the registries
    bundle = SkillBundle(state.lock, answers)
    replay = replayed(bundle)
    for source, root in registries:
        replay.fetch_root(source.url, root)
    for name, entry in state.lock.skills.items():
        with about_skill(name):
            by_lock(name, entry.original, replay, is_agreed=True, scan=False).run(no_scan)
    replay.advisories.known()
    # An install asks for no logins and redirects, so they are left out.
    needed = {key: answer for key, answer in answers.items() if key in bundle.asked or key.startswith("tree:")}
    return SkillBundle(state.lock, needed)


def hold_to_lock(bundle: SkillBundle, project: Project, *, frozen: bool) -> None:
    """Use the bundle's lock in a project without a lock; require it to equal the lock of any other project.

    Raises:
        FormatError: the locks differ, or the project has none and ``frozen`` is set.
        StateError: the lock of the project cannot be read.
    """
    if not (frozen or os.path.lexists(project.lock_path)):
        project.brought = bundle.lock
        return
    lock = project.lock()
    names = {*lock.skills, *bundle.lock.skills}
    differing = sorted(name for name in names if lock.skills.get(name) != bundle.lock.skills.get(name))
    if differing or lock != bundle.lock:
        about = ", ".join(differing) or "their sources"
        message = f"the bundle is of another lock than {project.lock_path}; they differ in: {about}"
        raise FormatError(message, where=bundle.where, hint="export a bundle of this lock")


def usable_until(bundle: SkillBundle) -> str | None:
    """Return the earliest expiry of registry metadata in the bundle (UTC); None if the bundle has none."""
    timestamps = ((key, data) for key, (_, data) in bundle.answers.items() if key.endswith(_TIMESTAMP))
    return min((MetadataFile.parse(data, key).signed.expires for key, data in timestamps), default=None)

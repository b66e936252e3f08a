"""``publish``: add a skill to a registry that one person runs, and push the registry's site."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

from skillhub.archive.unpack import unpack
from skillhub.disk.state_file import StateDocument, StateFile
from skillhub.errors import Refused, UsageError
from skillhub.formats.digest import Digest
from skillhub.formats.document import Items, part
from skillhub.formats.json import members
from skillhub.formats.text import as_command, as_local, quote, word
from skillhub.install.questions import about_findings
from skillhub.model.finding import Finding, capability_text, counted
from skillhub.model.index import Release
from skillhub.model.lock import Locked
from skillhub.model.manifest import Manifest
from skillhub.model.provenance import Changes
from skillhub.model.question import Question
from skillhub.model.tree import SIGNATURE, File, Tree
from skillhub.model.version import precedence
from skillhub.policy.policy import Policies
from skillhub.project.user_state import Publishers
from skillhub.registry import build
from skillhub.registry.operator import RegistryDir, Signing
from skillhub.scan import scan
from skillhub.trust import oms
from skillhub.trust.keys import PrivateKey
from skillhub.trust.registry_rules import checked

_SHOWN = 40  # files; a question is read on a screen
_NO_SIGNATURE = File(b"")  # replaces signatures in a comparison, since they always differ
_FIRST = "the first time, name the registry's folder too: skillhub publish FOLDER --to TARGET --registry DIR"
_HINT = "move the file away, and name the registry again with --registry DIR"


# The registry that is published at a target: the user names it once, and the user's state remembers it.


@part
@dataclass(frozen=True, slots=True)
class PublishTarget:
    """A target, and the folder of the registry that is published there."""

    address: str
    registry: str


class PublishTargetsFile(StateDocument):
    """``publish.json`` in the state folder: the targets of this user, each with its registry."""

    targets: Items[PublishTarget]


class PublishTargets:
    """The targets of a user; raises StateError if the file is damaged or the disk refuses.

    Args:
        state: The user's state folder.
    """

    def __init__(self, state: str) -> None:
        path, what = os.path.join(state, "publish.json"), "the targets that a user publishes to"
        self._file = StateFile(path, what, _HINT, PublishTargetsFile, lambda found: found.targets if found else ())

    def all(self) -> tuple[PublishTarget, ...]:
        """Return every target."""
        return self._file.read()

    def choose(self, address: str | None, registry: str | None) -> PublishTarget:
        """Return the target with this address, or the only known target.

        The address of a registry's own folder stands for that registry without a target.

        Raises:
            UsageError: no target is known, or several fit.
        """
        if address is not None and "://" not in address:
            address = os.path.abspath(os.path.expanduser(address))
            if RegistryDir(address).exists:
                return PublishTarget("", address)
        if address is not None and registry is not None:
            return PublishTarget(address, os.path.abspath(registry))
        targets = self.all()
        matches = [target for target in targets if address in (None, target.address)]
        if address is not None and not matches:
            hint = "add --registry DIR, its folder; to make one: skillhub registry init DIR"
            raise UsageError("no known registry publishes to this target", where=address, hint=hint)
        if len(matches) != 1:
            known = ", ".join(quote(target.address) for target in matches)
            raise UsageError("expected --to TARGET", hint=f"you published before to: {known}" if known else _FIRST)
        return matches[0]

    def remember(self, target: PublishTarget) -> None:
        """Store a target."""
        if target in self.all():
            return
        with self._file.locked():
            others = [other for other in self.all() if other.address != target.address]
            self._file.write(targets=(*others, target))


# The planned release, compared with the registry.


@dataclass(frozen=True, slots=True)
class ReleasePlan:
    """The release that ``publish`` would add.

    Attributes:
        submission: The release, with its artifact and tree.
        previous: The newest other release of the skill that was not withdrawn; None if there is none.
        withdrawn: The versions of the skill that were withdrawn.
        changes: The changes since ``previous``; None without one, and for a release that is already published.
        is_new: Whether the registry does not have the release yet.
        findings: The findings of the scan.
    """

    submission: build.Submission
    previous: Release | None
    withdrawn: tuple[str, ...]
    changes: Changes | None
    is_new: bool
    findings: tuple[Finding, ...]

    def questions(self, where: str, policies: Policies) -> list[Question]:
        """Return questions about grave findings that no policy accepts, and about the release; text is escaped."""
        release, validate_command = self.submission.release, as_command("skillhub", "validate", self.submission.path)
        open_findings = [finding for finding in self.findings if not policies.allows_finding(finding.rule)]
        lines = [f"signed by {release.publisher}, key {self.submission.key}"]
        if self.changes is not None:
            lines += self.changes.lines(_SHOWN, "--json --dry-run lists them")
        elif self.is_new:
            note = f"each earlier release of {release.name} was withdrawn: {', '.join(self.withdrawn)}"
            lines.append(note if self.withdrawn else f"the first release of {release.name}")
            if release.capabilities:
                lines.append(f"it can: {', '.join(map(capability_text, release.capabilities))}")
            lines += [f"it needs: {need}" for need in map(word, release.requires)]
        else:
            lines.append("the registry has this release already, and would be copied there for the first time")
        lines += self.submission.warnings
        if self.findings:
            lines.append(f"the scan found {counted(self.findings)}: {validate_command}")
        message = f"Publish {release.name} {release.version} {where}?"
        shows = as_command("skillhub", "show", as_local(self.submission.path))
        approvals = about_findings(release.name, self.submission.tree, open_findings, "agree?", shows)
        return [*approvals, Question("publish", release.name, message, tuple(lines))]


def plan(path: str, registry: str, signing: Signing, own: Publishers, prepare: build.Prepare | None) -> ReleasePlan:
    """Run ``add`` without writing, and compare the release with the previous one.

    Raises:
        Refused: the version is lower than a published one.
        SkillhubError: as for ``add``.
    """
    added = build.add(registry, [path], replace(signing, dry_run=True), own, prepare)
    (fresh,) = added.submissions
    release, earlier = fresh.release, added.before.skills.get(fresh.release.name, ())
    is_new = bool(added.releases)
    if is_new:
        _refuse_old(path, release, earlier)
    previous = next((old for old in earlier if old.withdrawn is None and old.version != release.version), None)
    withdrawn = tuple(old.version or "-" for old in earlier if old.withdrawn is not None)
    changes = None
    if is_new and previous is not None:
        data = checked(previous, RegistryDir(registry).served(previous.url))
        old, new = (Tree({**tree, SIGNATURE: _NO_SIGNATURE}) for tree in (unpack(data, "zip").tree, fresh.tree))
        entries = _entry(previous, old.digest), _entry(release, new.digest)
        changes = Changes.between(*entries, old.listing, new.listing)
    return ReleasePlan(fresh, previous, withdrawn, changes, is_new, tuple(scan(fresh.tree)))


def _refuse_old(path: str, release: Release, earlier: Sequence[Release]) -> None:
    version = release.version or ""
    newer = [other.version for other in earlier if other.version and precedence(other.version) >= precedence(version)]
    if newer:
        hint = f"raise metadata.version; a fix of an older line: {as_command('skillhub', 'registry', 'add')} DIR PATH"
        raise Refused(f"expected a version higher than {newer[0]}, found {version}", where=path, hint=hint)


def _entry(release: Release, tree: Digest) -> Locked:
    facts = members(release, "version", "capabilities", "requires")
    return Locked(source=release.publisher or "", tree=tree, size=0, **facts)


def signed_with(key: PrivateKey, tree: Tree) -> Tree:
    """Return a skill with a new signature by this key.

    Raises:
        FormatError: the tree is not a skill.
    """
    plain = {name: file for name, file in tree.items() if name != SIGNATURE}
    return Tree({**plain, SIGNATURE: File(oms.sign(Tree(plain), Manifest.read(tree, strict=True).name, key))})

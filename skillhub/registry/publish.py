"""``publish``: add a skill to a registry that one person runs, and push the registry's site."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal

from skillhub.archive import unpack
from skillhub.author.author import unfilled
from skillhub.disk import files
from skillhub.disk.state_file import StateDocument, StateFile
from skillhub.errors import Refused, StateError, UsageError
from skillhub.formats.digest import Digest
from skillhub.formats.document import Items, part
from skillhub.formats.text import as_command, quote, word
from skillhub.install.review import about_findings
from skillhub.model.finding import Finding, counted
from skillhub.model.index import Release
from skillhub.model.lock import Locked
from skillhub.model.manifest import Manifest
from skillhub.model.provenance import Changes
from skillhub.model.question import Question
from skillhub.model.tree import SIGNATURE, SKILL_MD, File, Tree
from skillhub.model.version import is_version, precedence
from skillhub.policy.policy import Policies
from skillhub.project.user_state import Publishers
from skillhub.registry import build
from skillhub.registry.operator import RegistryDir, Signing
from skillhub.scan import scan
from skillhub.trust import oms
from skillhub.trust.keys import PrivateKey
from skillhub.trust.registry import checked

Bump = Literal["major", "minor", "patch"]
BUMPS: tuple[Bump, ...] = ("major", "minor", "patch")
_SHOWN = 40  # files; a question is read on a screen
_CAP = 64 << 20
_NO_SIGNATURE = File(b"")  # replaces signatures in a comparison, since they always differ
_FIRST = "the first time, name the registry's folder too: skillhub publish --to TARGET --registry DIR"
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
        path = os.path.join(state, "publish.json")
        self._file = StateFile(path, "where a user publishes", _HINT, PublishTargetsFile)

    def all(self) -> tuple[PublishTarget, ...]:
        """Return every target."""
        return self._file.read(lambda found: found.targets if found else ())

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
        known = self.all()
        matches = [each for each in known if address in (None, each.address)]
        if address is not None and not matches:
            hint = "add --registry DIR, its folder; to make one: skillhub registry init DIR"
            raise UsageError("no known registry publishes to this target", where=address, hint=hint)
        if len(matches) != 1:
            hint = f"there are: {', '.join(quote(each.address) for each in matches)}" if matches else _FIRST
            raise UsageError("expected --to TARGET", hint=hint)
        return matches[0]

    def remember(self, target: PublishTarget) -> None:
        """Store a target."""
        if target in self.all():
            return
        with self._file.locked():
            others = [each for each in self.all() if each.address != target.address]
            self._file.write({"targets": [asdict(each) for each in (*others, target)]})


# The planned release, compared with the registry.


@dataclass(frozen=True, slots=True)
class ReleasePlan:
    """The release that ``publish`` would add.

    Attributes:
        made: The release, with its artifact and tree.
        previous: The newest other release of the skill that was not withdrawn; None if there is none.
        withdrawn: The versions of the skill that were withdrawn.
        changes: The changes since ``previous``; None without one, and for a release that is already published.
        is_new: Whether the registry does not have the release yet.
        findings: The findings of the scan.
        found: The contents of the files that ``write`` replaces, by path, when the plan was made; None for a missing
            file, or if the skill is an archive.
    """

    made: build.Submission
    previous: Release | None
    withdrawn: tuple[str, ...]
    changes: Changes | None
    is_new: bool
    findings: tuple[Finding, ...]
    found: Mapping[str, bytes | None]

    def questions(self, where: str, policies: Policies) -> list[Question]:
        """Return questions about grave findings that no policy accepts, and about the release; text is escaped."""
        release, validate_command = self.made.release, as_command("skillhub", "validate", self.made.path)
        open_findings = [each for each in self.findings if not policies.allows_finding(each.rule)]
        lines = [f"signed by {release.publisher}, key {self.made.key}"]
        if self.changes is not None:
            lines += self.changes.lines(_SHOWN, "--json --dry-run lists them")
        elif self.is_new:
            gone = f"each earlier release of {release.name} was withdrawn: {', '.join(self.withdrawn)}"
            lines.append(gone if self.withdrawn else f"the first release of {release.name}")
            lines += [f"it can: {each}" for each in map(word, release.capabilities)]
            lines += [f"it needs: {each}" for each in map(word, release.requires)]
        lines += [f"{each.where}: {each.message}" for each in unfilled(self.made.tree)]
        if self.findings:
            lines.append(f"the scan found {counted(self.findings)}: {validate_command}")
        message = f"Publish {release.name} {release.version} {where}?"
        finding_questions = about_findings(release.name, self.made.tree, open_findings, "agree?", validate_command)
        return [*finding_questions, Question("publish", release.name, message, tuple(lines))]

    def write(self) -> None:
        """Write ``SKILL.md`` with the raised version, and a renewed signature, into the folder of the skill.

        Raises:
            StateError: a file was edited since the plan was made, and the edit stays; or the disk refuses.
        """
        for path, file in ((SKILL_MD, self.made.tree[SKILL_MD]), (SIGNATURE, self.made.signature)):
            full, before = _full(self.made.path, path), self.found[path]
            if before not in (None, file.data) and not files.swap(full, before, file.data):
                hint = f"the release has the earlier text: set version {self.made.release.version} here, and raise it"
                raise StateError("the file was changed while its release was signed", where=full, hint=hint)


def _full(folder: str, path: str) -> str:
    return os.path.join(os.path.abspath(os.path.expanduser(folder)), path)


def plan(path: str, registry: str, signing: Signing, mine: Publishers, prepare: build.Prepare) -> ReleasePlan:
    """Run ``add`` without writing, and compare the release with the previous one.

    Raises:
        Refused: the version was withdrawn, or is lower than a published one.
        SkillhubError: as for ``add``.
    """
    added = build.add(registry, [path], replace(signing, dry_run=True), mine, prepare)
    (made,) = added.submissions
    is_folder = os.path.isdir(os.path.expanduser(path))
    found = {each: files.read(_full(path, each), _CAP) if is_folder else None for each in (SKILL_MD, SIGNATURE)}
    release, known = made.release, added.before.skills.get(made.release.name, ())
    is_new = bool(added.releases)
    _refuse_old(path, release, known, is_new=is_new)
    previous = next((each for each in known if each.withdrawn is None and each.version != release.version), None)
    withdrawn = tuple(each.version or "-" for each in known if each.withdrawn is not None)
    changes = None
    if is_new and previous is not None:
        data = checked(previous, RegistryDir(registry).served(previous.url))
        old, new = (Tree({**each, SIGNATURE: _NO_SIGNATURE}) for each in (unpack(data, "zip").tree, made.tree))
        entries = _entry(previous, old.digest), _entry(release, new.digest)
        changes = Changes.between(*entries, old.listing, new.listing)
    return ReleasePlan(made, previous, withdrawn, changes, is_new, tuple(scan(made.tree)), found)


def _refuse_old(path: str, release: Release, known: Sequence[Release], *, is_new: bool) -> None:
    version = release.version or ""
    if not is_new:
        reason = next((each.withdrawn for each in known if each.version == version), None)
        if reason is not None:
            message = f"{release.name} {version} was withdrawn: {quote(reason)}"
            raise Refused(message, where=path, hint=build.version_hint(path))
        return
    newer = [each.version for each in known if each.version and precedence(each.version) >= precedence(version)]
    if newer:
        hint = f"raise metadata.version; a fix of an older line: {as_command('skillhub', 'registry', 'add')} DIR PATH"
        raise Refused(f"expected a version higher than {newer[0]}, found {version}", where=path, hint=hint)


def _entry(release: Release, tree: Digest) -> Locked:
    same = {name: getattr(release, name) for name in ("version", "capabilities", "requires")}
    return Locked(source=release.publisher or "", tree=tree, size=0, **same)


# Raise the version in SKILL.md in place.

_FRONT = re.compile(rb"\A---\r?\n.*?^---\s*$", re.DOTALL | re.MULTILINE)


def prepared(path: str, bump: Bump | None, key: PrivateKey | None, tree: Tree) -> Tree:
    """Return a skill with its version raised if ``bump`` is given, and signed if ``key`` is given.

    Raises:
        UsageError: a version is to be raised, but the skill is not a folder, has a signature that would become
            invalid, or has a version that cannot be raised.
        FormatError: the tree is not a skill.
    """
    if bump is not None:
        if not os.path.isdir(os.path.expanduser(path)) or (SIGNATURE in tree and key is None):
            hint = "add --key NAME" if SIGNATURE in tree else "name the folder"
            raise UsageError("--bump expects an unsigned folder, or one to sign again", where=path, hint=hint)
        tree = Tree({**tree, SKILL_MD: replace(tree[SKILL_MD], data=raised(tree, bump))})
    if key is None:
        return tree
    plain = {name: file for name, file in tree.items() if name != SIGNATURE}
    signature = oms.sign(Tree(plain), Manifest.read(tree, strict=True).name, key)
    return Tree({**plain, SIGNATURE: File(signature)})


def raised(tree: Tree, bump: Bump) -> bytes:
    """Return ``SKILL.md`` with the next version; all other bytes stay.

    Raises:
        UsageError: ``SKILL.md`` has no version by SemVer 2.0.0, or has it in a form that is not recognized.
        FormatError: the tree is not a skill.
    """
    data, version = tree[SKILL_MD].data, Manifest.read(tree).version
    front = _FRONT.match(data)
    error = UsageError("expected metadata.version, by SemVer 2.0.0, once", where=SKILL_MD, hint="raise it by hand")
    if version is None or not is_version(version) or front is None:
        raise error
    numbers = [int(each) for each in re.split(r"[-+]", version)[0].split(".")]
    at = BUMPS.index(bump)
    # A pre-release precedes its version, so dropping its suffix may be enough.
    if "-" not in version.partition("+")[0] or any(numbers[at + 1 :]):
        numbers[at] += 1
    following = ".".join(map(str, [*numbers[: at + 1], *([0] * (2 - at))]))
    key = rb"((?:^[ \t]+|[{,]\s*)[\"']?version[\"']?\s*:\s*[\"']?)"
    line = re.compile(key + re.escape(version.encode()) + rb"(?=[\"'\s,}]|$)", re.M)
    text, count = line.subn(rb"\g<1>" + following.encode(), front[0])
    found = Tree({**tree, SKILL_MD: replace(tree[SKILL_MD], data=text + data[front.end() :])})
    if count != 1 or Manifest.read(found).version != following:
        raise error
    return found[SKILL_MD].data

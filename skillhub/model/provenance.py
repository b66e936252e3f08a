"""The origin and the signers of a skill, what each change of them means, and this machine's record of agreed skills.

A person agrees to origin and signers besides the bytes, since they decide about updates: an update comes from the
origin in the lock and must have the signer in the lock.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from operator import not_
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeAlias

from pydantic import Field, PlainSerializer

from skillhub.errors import UsageError, hinting
from skillhub.formats import document
from skillhub.formats.digest import NO_FILES, Digest
from skillhub.formats.document import Before, Document, Items, Members, Read, Sha256, SkillName, one_of, part, wrong
from skillhub.formats.text import is_alias, packaged, word
from skillhub.model.finding import Finding
from skillhub.model.hosts import LinkKind
from skillhub.model.lock import LOCAL, DeclaredNeed, Locked, LockedSource, place_of, shown_signers
from skillhub.model.reference import authority, canonical, parse_remote
from skillhub.model.tree import SIGNATURE, Listing
from skillhub.model.version import is_version, precedence

ProvenanceChange: TypeAlias = Literal[
    "source", "url", "host", "plugin", "path", "reference", "version", "commit", "root", "address", "signer", "signed"
]
# Columns: a new version against the lock (`install`, `update`, `diff`); the lock against this machine's record
# (`install`, `verify`); a merge of two locks; an audit against an earlier lock. `host` is the host of an artifact,
# for which its source vouches; `address` is the URL of a registry, whose root identifies it; `reference` is the
# requested branch, tag or digest, or another spelling of the place; `signed` is a first signature.
LOCK, RECORD, MERGE, AUDIT = range(4)
MEANING: Mapping[ProvenanceChange, Sequence[str]] = packaged("model/provenance.json")


@dataclass(frozen=True, slots=True)
class Provenance:
    """The origin and the signers of a skill; two versions from one place by one publisher are equal.

    Attributes:
        source: The source as in the lock; for the provenance of an alias, its kind.
        server: The URL of the repository or of the alias, or the host of the artifact.
        path: The folder in the repository, or the path on this machine; else the skill's own name if its key differs.
        signers: Kind and fingerprint of each signer, without its name.
        root: The root of the registry; only in the provenance of an alias.
        version: Unknown in a record, like ``commit``: a record pins the tree.
    """

    source: str
    server: str
    path: str
    signers: tuple[str, ...]
    root: str = ""
    version: str = field(default="", compare=False)
    commit: str = field(default="", compare=False)

    @classmethod
    def of(cls, entry: Locked) -> Provenance:
        """Return the provenance of a skill in the lock."""
        path = entry.path or entry.name or ""
        return _cached(entry.source, entry.git, entry.url or "", path, entry.signed_by, (entry.version, entry.rev))

    @classmethod
    def of_source(cls, source: LockedSource) -> Provenance:
        """Return the provenance of an alias in the lock."""
        return cls(source.kind, source.url, "", (), source.root or "")

    def changes(self, now: Provenance) -> frozenset[ProvenanceChange]:
        """Return the names of the facts that differ."""
        facts: tuple[ProvenanceChange, ...] = ("path", "root", "version", "commit")
        changed = {fact for fact in facts if getattr(self, fact) != getattr(now, fact)}
        if self.source != now.source:
            parts: tuple[ProvenanceChange, ...] = ("source", "reference", "plugin")
            rows = zip(parts, _parts(self.source), _parts(now.source), strict=True)
            differing = {fact for fact, before, after in rows if before != after}
            changed |= differing or {"reference"}  # of one place, in another spelling
        if self.server != now.server:
            changed.add(self._server_change(now))
        if self.signers != now.signers:
            changed.add("signer" if self.signers else "signed")
        return frozenset(changed)

    def means(self, now: Provenance, to: int) -> set[str]:
        """Return the meanings of the changes: the cells of ``MEANING`` in the column ``to`` that are not empty."""
        return set() if self == now else {MEANING[change][to] for change in self.changes(now)} - {""}

    def _server_change(self, now: Provenance) -> ProvenanceChange:
        if _one_spelling(self.server) == _one_spelling(now.server):
            return "reference"
        if self.root == now.root != "":
            return "address"
        return "url" if "://" in self.server + now.server else "host"

    def against(self, other: Provenance) -> tuple[str, str]:
        """Return the words for this and the other provenance: their origins, their signers, or both."""
        if (self.source, self.server, self.path) == (other.source, other.server, other.path):
            return self._signer_words(), other._signer_words()
        if self.signers == other.signers:
            return f"from {self.place}", f"from {other.place}"
        return f"from {self.place}, {self._signer_words()}", f"from {other.place}, {other._signer_words()}"

    @property
    def place(self) -> str:
        """The origin, for a person."""
        server = f" at {self.server}" if self.server else ""
        return f"{self.source}{server}{f' ({self.path})' if self.path else ''}"

    def _signer_words(self) -> str:
        return f"signed by {', '.join(self.signers)}" if self.signers else "unsigned"


def is_same_source(one: LockedSource, other: LockedSource) -> bool:
    """Return whether both are one source: the root identifies a registry, the URL a site."""
    return not Provenance.of_source(one).means(Provenance.of_source(other), LOCK)


@lru_cache(maxsize=1 << 14)  # one command computes the provenance of each skill many times
def _cached(
    source: str, git: str | None, url: str, path: str, signed_by: tuple[str, ...], at: tuple[str | None, str | None]
) -> Provenance:
    version, commit = at
    server = git or authority(url)
    return Provenance(source, server, path, signers_of(signed_by), "", version or "", commit or "")


@lru_cache(maxsize=256)  # few publishers sign the many skills of a lock
def signers_of(signed_by: tuple[str, ...]) -> tuple[str, ...]:
    """Return kind and fingerprint of each signer, which identify it whatever its name."""
    return tuple(sorted({":".join(signer.split(":", 3)[:3]) for signer in signed_by}))


@lru_cache(maxsize=256)  # the many skills of a lock are from few places
def _parts(source: str) -> tuple[str, str, str]:
    """Return the place, the requested branch, tag or digest, and the plugin."""
    place = place_of(source)
    plugin = source.removeprefix(place)
    if place == LOCAL or is_alias(place):
        return place, "", plugin
    try:
        ref = parse_remote(place)
    except UsageError:  # a record, unlike a lock, is not checked for a valid reference
        return place, "", plugin
    return canonical(ref.place), ref.source.removeprefix(ref.place), plugin


def place_at_any_revision(source: str) -> str:
    """Return the place of a ``source`` of the lock, without the plugin and the requested revision."""
    return _parts(source)[0]


def _one_spelling(server: str) -> str:
    """Return one spelling of a URL, or of a host."""
    return canonical(server) if "://" in server else authority(canonical(f"https://{server}"))


# The differences between two versions of a skill, which an update shows and `--json` has.


@dataclass(frozen=True, slots=True)
class Delta:
    """Names that were added, removed, or have changed content; each sorted."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    @classmethod
    def of_names(cls, before: Iterable[str], after: Iterable[str]) -> Delta:
        """Return the added and the removed names."""
        old, new = set(before), set(after)
        return cls(tuple(sorted(new - old)), tuple(sorted(old - new)))

    @classmethod
    def of_files(cls, before: Listing, after: Listing) -> Delta:
        """Return the differences between two trees, execute bits included."""
        names = cls.of_names(before, after)
        changed = (path for path in before if path in after and before[path] != after[path])
        return cls(names.added, names.removed, tuple(sorted(changed)))


@dataclass(frozen=True, slots=True)
class Changes:
    """The differences between one locked version and another.

    Attributes:
        files: None if the files of one version are unknown.
        vouchers: For each version, the registry that vouches for the names of its signers, if the user did not
            configure that registry.
        findings: The high and critical findings in the later version; None if they were not collected.
    """

    before: Locked
    after: Locked
    files: Delta | None
    capabilities: Delta
    requires: Delta
    vouchers: tuple[str | None, str | None] = (None, None)
    findings: tuple[Finding, ...] | None = None

    @classmethod
    def between(cls, before: Locked, after: Locked, old: Listing | None, new: Listing | None) -> Changes:
        """Return the differences between two entries, and between their listings if both are known."""
        files = Delta.of_files(old, new) if old is not None and new is not None else None
        capabilities = Delta.of_names(before.capabilities, after.capabilities)
        return cls(before, after, files, capabilities, Delta.of_names(before.requires, after.requires))

    @property
    def is_downgrade(self) -> bool:
        """Whether the version goes down, by SemVer's precedence."""
        old, new = self.before.version or "", self.after.version or ""
        return is_version(old) and is_version(new) and precedence(new) < precedence(old)

    def lines(self, most: int | None = None, more: str = "") -> list[str]:
        """Return the facts for a person, a line each, then at most ``most`` files; ``more`` tells how to see all."""
        return [*self.facts(), *self.paths(most, more)]

    def paths(self, most: int | None = None, more: str = "") -> list[str]:
        """Return at most ``most`` added, removed or changed files, then the number of others and ``more``."""
        files = self.files or Delta()
        # With any other file the signature changes too.
        is_alone = (*files.added, *files.removed, *files.changed) == (SIGNATURE,)
        changed = [path for path in files.changed if path != SIGNATURE or is_alone]
        marked = (("+", files.added), ("-", files.removed), ("~", changed))
        lines = [f"{mark} {word(path)}" for mark, paths in marked for path in paths]
        omitted = len(lines[most:]) if most is not None else 0
        return [*lines[:most], f"and {omitted} more: {more}"] if omitted else lines

    def facts(self) -> list[str]:
        """Return the differences besides the files."""
        lines = []
        if self.before.version != self.after.version:
            note = " (a downgrade)" if self.is_downgrade else ""
            lines.append(f"version {word(self.before.version or '-')} -> {word(self.after.version or '-')}{note}")
        if self.before.source != self.after.source:
            lines.append(f"source {word(self.before.source)} -> {word(self.after.source)}")
        if self.before.rev and self.after.rev and self.before.rev != self.after.rev:
            lines.append(f"commit {self.before.rev} -> {self.after.rev}")
        if self.before.patch != self.after.patch:
            lines.append(f"patch {_patch_path(self.before)} -> {_patch_path(self.after)}")
        if self.before.signed_by != self.after.signed_by:
            signed_before, signed_after = map(_signed, (self.before.signed_by, self.after.signed_by), self.vouchers)
            lines.append(f"{signed_before} -> {signed_after}")
        changed_names = {
            "it can now": self.capabilities.added,
            "it can no longer": self.capabilities.removed,
            "it needs now": self.requires.added,
            "it no longer needs": self.requires.removed,
        }
        return [
            *lines,
            *(f"{label}: {', '.join(map(word, names))}" for label, names in changed_names.items() if names),
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the keys that ``update --json`` adds to a skill."""
        row = {"from_version": self.before.version, "from_tree": self.before.tree, "changes": self}
        return row if self.findings is None else {**row, "findings": self.findings}


def _signed(signed_by: tuple[str, ...], voucher: str | None) -> str:
    return f"signed by {shown_signers(signed_by, voucher)}" if signed_by else "not signed"


def _patch_path(entry: Locked) -> str:
    return word(entry.patch.path) if entry.patch else "none"


# The differences between the sources of two locks.


@dataclass(frozen=True, slots=True)
class SourceChange:
    """One source before and after; None on the side where it is absent."""

    name: str
    before: LockedSource | None
    after: LockedSource | None

    @property
    def status(self) -> Literal["added", "removed", "changed"]:
        """The kind of the change."""
        if self.before is None or self.after is None:
            return "added" if self.before is None else "removed"
        return "changed"

    @property
    def line(self) -> str:
        """The change for a person, in one line."""
        if self.before is None or self.after is None:
            return f"source {self.name} {self.status}: {self.after or self.before}"
        differs = {"URL": self.before.url != self.after.url, "root": self.before.root != self.after.root}
        parts = [part for part, is_other in differs.items() if is_other]
        return f"source {self.name} has another {' and '.join(parts)}: {self.before} -> {self.after}"


def source_changes(before: Mapping[str, LockedSource], after: Mapping[str, LockedSource]) -> tuple[SourceChange, ...]:
    """Return the sources that differ, sorted by alias."""
    changed = (alias for alias in sorted({*before, *after}) if before.get(alias) != after.get(alias))
    return tuple(SourceChange(alias, before.get(alias), after.get(alias)) for alias in changed)


# The record of one project: the skills that a person agreed to, where each is enabled, and the facts of ``list``.
# It is a file in ``<state>``, belongs to the user and is never read from a repository. The install reads ``facts``
# from the stored files, so that ``list`` opens one file and not a thousand.

VERSION = 1


def _list_of_four(value: object) -> object:
    return value if isinstance(value, list) and len(value) == 4 else wrong("a list of four facts", value)


def _provenance(value: object) -> Provenance:
    match value:
        case [str() as source, str() as server, str() as path, *signers] if {*map(type, signers)} <= {str}:
            return Provenance(source, server, path, tuple(map(str, signers)))
    wrong("a source, a server, a path and signers", value)


def _as_list(place: Provenance) -> tuple[str, ...]:
    return (place.source, place.server, place.path, *place.signers)


class Facts(NamedTuple):
    """The facts of a skill's content that ``list`` shows: read from the tree, never from a declaration elsewhere.

    In the file they are a list, which makes the file a third smaller.
    """

    description: str = ""
    model_invocable: bool = True
    needs: Items[DeclaredNeed] = ()
    capabilities: Items[str] = ()


@part
@dataclass(frozen=True, slots=True, kw_only=True)
class Consent:
    """What a person agreed to: one tree of one origin.

    Attributes:
        tree: The tree; ``NO_FILES`` without consent.
        provenance: The origin and the signers, if recorded.
        rev: The commit, by which an advisory may name the tree; None if not from git.
        digest: The artifact, for the same reason; None if the source names none.
    """

    tree: Sha256
    provenance: Annotated[
        Provenance | None,
        Read(_provenance, type="array", items={"type": "string"}, minItems=3),
        PlainSerializer(_as_list),
        Field(alias="whence", exclude_if=not_),
    ] = None
    rev: Annotated[str | None, Field(exclude_if=not_)] = None
    digest: Annotated[Sha256 | None, Field(exclude_if=not_)] = None

    def is_of(self, entry: Locked) -> bool:
        """Return whether the person agreed to the lock's entry: its tree, its origin and its signers."""
        is_tree = self.tree == entry.tree != NO_FILES
        return is_tree and self.elsewhere(entry) is None

    @property
    def entry(self) -> Locked:
        """The facts of a lock's entry that the person agreed to, for a skill that no lock has any more."""
        agreed = self.provenance or Provenance(LOCAL, "", "", ())
        own_name, path = (agreed.path or None, None) if is_alias(agreed.source) else (None, agreed.path)
        return Locked(
            source=agreed.source,
            tree=self.tree,
            size=0,
            git=agreed.server if "://" in agreed.server else None,
            rev=self.rev,
            digest=self.digest,
            path=path,
            signed_by=tuple(f"{each}:{SIGNATURE}" for each in agreed.signers),  # the record has no names of signers
            name=own_name,
        )

    def elsewhere(self, entry: Locked) -> tuple[str, str] | None:
        """Return the words for the provenance that the person agreed to and for the entry's; None if both agree."""
        agreed, present = self.provenance, Provenance.of(entry)
        return agreed.against(present) if agreed is not None and agreed.means(present, RECORD) else None


_FORMER_MAX = 16


@part
@dataclass(frozen=True, slots=True, kw_only=True)
class Record(Consent):
    """The state of one skill on this machine, in this project. Its ``tree`` is the one in ``links``.

    Attributes:
        enabled: Whether the links should exist.
        disabled_by: Why the skill is disabled: ``user`` (by ``disable``), ``needs`` (one is open), ``asked``
            (``--no-enable``), or empty.
        links: The paths in agents' folders, relative to the project or the user's home, ``/`` between segments.
        link: Whether ``links`` are copies or symlinks into the store.
        satisfied: Needs (``env:NAME``, ``mcp:NAME``) that were satisfied when the skill was enabled and that skillhub
            cannot check later.
        waived: Needs for which a person took responsibility.
        mcp: Server name to agent to the entry that was written into that agent's configuration.
        former: The last consents before this one, newest first, for a lock that returns to such a version.
    """

    NEEDED: ClassVar = ("disabled_by", "links", "link", "satisfied", "waived", "mcp", "facts")

    enabled: bool
    disabled_by: Annotated[str, one_of("", "user", "needs", "asked"), Field(alias="held")] = ""
    links: Items[str] = ()
    link: Annotated[LinkKind, one_of("copy", "symlink")] = "copy"
    satisfied: Annotated[Items[str], Field(alias="met")] = ()
    waived: Items[str] = ()
    mcp: Members[str, Members[str, dict[str, Any]]] = field(default_factory=dict)
    facts: Annotated[Facts, Before(_list_of_four)] = field(default_factory=Facts)
    former: Annotated[Items[Consent], Field(exclude_if=not_)] = ()

    @property
    def consents(self) -> tuple[Consent, ...]:
        """This consent and the former ones, newest first."""
        return (self, *self.former)

    def consent_to(self, entry: Locked) -> Consent | None:
        """Return the consent to the lock's entry, this one or a former one; None without one."""
        return next((each for each in self.consents if each.is_of(entry)), None)

    def before(self, tree: Digest) -> tuple[Consent, ...]:
        """Return the ``former`` consents of the record that follows this one, with ``tree``."""
        own = Consent(tree=self.tree, provenance=self.provenance, rev=self.rev, digest=self.digest)
        # Without an origin, the consent would count for any other one once the lock returns to its tree.
        kept = (each for each in (own, *self.former) if each.provenance and each.tree not in (NO_FILES, tree))
        return tuple(kept)[:_FORMER_MAX]

    @property
    def newest(self) -> Consent:
        """The newest consent; with ``NO_FILES`` if there is none."""
        return next((each for each in self.consents if each.tree != NO_FILES), self)

    @property
    def remembered(self) -> Record:
        """What stays of the record when the skill leaves the lock: the consents, and the user's choices."""
        consents = self.before(NO_FILES)
        return replace(NO_CONSENT, disabled_by=self.disabled_by, link=self.link, former=consents)


NO_CONSENT = Record(tree=NO_FILES, enabled=False)


@dataclass(frozen=True, slots=True)
class Records:
    """All records of a project.

    Attributes:
        agents: The agents that a person chose for the project.
        pending: Records of skills that a person has agreed to and that the lock lacks; they count once it has them.
        created_paths: Folders and files of agents that skillhub created; paths as in ``links``.
        left: What is ``remembered`` of skills that left the lock; it counts once the lock has them again.
        project: The path of the project in the record file, for those who have the file alone; empty without a file.
    """

    skills: Mapping[str, Record] = field(default_factory=dict)
    agents: tuple[str, ...] = ()
    pending: Mapping[str, Record] = field(default_factory=dict)
    created_paths: tuple[str, ...] = ()
    left: Mapping[str, Record] = field(default_factory=dict)
    project: str = field(default="", compare=False)

    def known(self, name: str) -> Record | None:
        """Return the record of a skill, or what is remembered of it."""
        return self.skills.get(name) or self.left.get(name)

    def enabled(self, locked: Mapping[str, Locked]) -> set[str]:
        """Return the names of the locked skills that agents should read."""
        names = (name for name, record in self.skills.items() if record.enabled and name in locked)
        return {name for name in names if self.skills[name].is_of(locked[name])}

    def arrived(self, locked: Mapping[str, Digest]) -> Records:
        """Return the records with those of ``pending`` that the lock confirms, and without the others.

        A command may have been killed between the write of the records and that of the lock.

        Args:
            locked: The tree of each locked skill.
        """
        if not self.pending:
            return self
        skills = dict(self.skills)
        for name, record in self.pending.items():
            if locked.get(name) == record.tree:
                before = skills[name].links if name in skills else ()
                skills[name] = replace(record, links=tuple(dict.fromkeys((*record.links, *before))))
        return replace(self, skills=skills, pending={})

    def returned(self, locked: Collection[str]) -> Records:
        """Return the records with those of ``left`` that the lock has again."""
        back = {name: record for name, record in self.left.items() if name in locked}
        left = {name: record for name, record in self.left.items() if name not in locked}
        return replace(self, skills={**back, **self.skills}, left=left) if back else self

    def without(self, names: Collection[str]) -> Records:
        """Return the records without these skills."""
        skills = {name: record for name, record in self.skills.items() if name not in names}
        left = {name: record for name, record in self.left.items() if name not in names}
        return replace(self, skills=skills, left=left)

    def leaving(self, names: Collection[str]) -> Records:
        """Return the records without these skills, which are remembered for a lock that has them again.

        But not those of which ``left`` has nothing to remember: a killed command was about to forget them.
        """
        gone = {name: self.skills[name].remembered for name in names if name in self.skills}
        left = {name: each for name, each in {**gone, **self.left}.items() if each.former or each.disabled_by}
        return replace(self.without(names), left=left)

    def dump(self, project: str) -> bytes:
        """Return the bytes of the record file of the project at the path ``project``."""
        facts = {each.name: getattr(self, each.name) for each in fields(self)} | {"project": project}
        file = RecordsFile.model_construct(version=VERSION, **facts)
        text = json.dumps(file.model_dump(by_alias=True), sort_keys=True, ensure_ascii=False) + "\n"
        # A path may hold bytes that are not UTF-8; each becomes a question mark, so that the file can be read.
        return text.encode("utf-8", "replace")

    @classmethod
    def parse(cls, data: bytes, where: str) -> Records:
        """Return the records in these bytes, which ``dump`` wrote.

        Raises:
            FormatError: the bytes are no such file.
        """
        with hinting("move the file away; skillhub install creates it again and asks again"):
            file = RecordsFile.parse(data, where)
        return cls(file.skills, file.agents, file.pending, file.created_paths, file.left, file.project)


class RecordsFile(Document):
    """The record file of a project."""

    CAP = 256 * 1024 * 1024

    version: Annotated[int, document.version_of("state format", VERSION)]
    agents: Items[str]
    project: str = ""
    skills: Members[SkillName, Record]
    pending: Members[SkillName, Record] = Field(default_factory=dict, alias="coming", exclude_if=not_)
    created_paths: Items[str] = Field((), alias="made", exclude_if=not_)
    left: Members[SkillName, Record] = Field(default_factory=dict, exclude_if=not_)

"""The record of a project on this machine: consents and enabled copies; and each skill as ``list`` shows it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from operator import not_
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeAlias

from pydantic import Field, PlainSerializer

from skillhub.errors import FormatError, UsageError
from skillhub.formats.digest import NO_FILES, Digest
from skillhub.formats.document import (
    Before,
    Document,
    Items,
    Members,
    Read,
    Sha256,
    SkillName,
    one_of,
    part,
    version_of,
    wrong,
)
from skillhub.formats.text import clean, is_path, quote
from skillhub.model.hosts import LinkKind, SkillScope
from skillhub.model.lock import Locked, Signer
from skillhub.model.provenance import RECORD, Provenance
from skillhub.model.question import HoldReason

# The record of one project: the skills that a person agreed to, where each is enabled, and the facts of ``list``.
# It is a file in ``<state>``, belongs to the user and is never read from a repository. The install reads ``facts``
# from the stored files, so that ``list`` opens one file and not a thousand.

VERSION = 1


def _four(value: object) -> object:
    return value if isinstance(value, list) and len(value) == 4 else wrong("a list of four facts", value)


def _provenance(value: object) -> Provenance:
    match value:
        case [str() as source, str() as server, str() as path, *signers] if {*map(type, signers)} <= {str}:
            return Provenance(source, server, path, tuple(map(str, signers)))
    wrong("a source, a server, a path and signers", value)


def _spelled(place: Provenance) -> tuple[str, ...]:
    return (place.source, place.server, place.path, *place.signers)


@part
@dataclass(frozen=True, slots=True)
class DeclaredNeed:
    """A need as the skill declares it."""

    kind: str
    name: str
    description: str
    required: bool

    def spell(self) -> str:
        """Return ``kind:name``, as in the lock."""
        return f"{self.kind}:{self.name}"


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
class Record:
    """The state of one skill on this machine, in this project.

    Attributes:
        tree: The tree in ``links``, to which the person agreed; ``NO_FILES`` without consent.
        enabled: Whether the links should exist.
        disabled_by: Why the skill is disabled: ``user`` (by ``disable``), ``needs`` (one is open), ``asked``
            (``--no-enable``), or empty.
        links: The paths in agents' folders, relative to the project or the user's home, ``/`` between segments.
        link: Whether ``links`` are copies or symlinks into the store.
        satisfied: Needs (``env:NAME``, ``mcp:NAME``) that were satisfied when the skill was enabled and that skillhub
            cannot check later.
        waived: Needs for which a person took responsibility.
        mcp: Server name to agent to the entry that was written into that agent's configuration.
        provenance: The origin and the signers to which the person agreed, if recorded.
    """

    NEEDED: ClassVar = ("disabled_by", "links", "link", "satisfied", "waived", "mcp", "facts")

    tree: Sha256
    enabled: bool
    disabled_by: Annotated[str, one_of("", "user", "needs", "asked"), Field(alias="held")] = ""
    links: Items[str] = ()
    link: Annotated[LinkKind, one_of("copy", "symlink")] = "copy"
    satisfied: Annotated[Items[str], Field(alias="met")] = ()
    waived: Items[str] = ()
    mcp: Members[str, Members[str, dict[str, Any]]] = field(default_factory=dict)
    facts: Annotated[Facts, Before(_four)] = field(default_factory=Facts)
    provenance: Annotated[
        Provenance | None,
        Read(_provenance, type="array", items={"type": "string"}, minItems=3),
        PlainSerializer(_spelled),
        Field(alias="whence", exclude_if=not_),
    ] = None

    def is_of(self, entry: Locked) -> bool:
        """Return whether the person agreed to the lock's entry: its tree, its origin and its signers."""
        is_tree = self.tree == entry.tree != NO_FILES
        return is_tree and self.elsewhere(entry) is None

    def elsewhere(self, entry: Locked) -> tuple[str, str] | None:
        """Return the words for the provenance that the person agreed to and for the entry's; None if both agree."""
        was, now = self.provenance, Provenance.of(entry)
        return was.against(now) if was is not None and was.means(now, RECORD) else None


@dataclass(frozen=True, slots=True)
class Records:
    """All records of a project.

    Attributes:
        agents: The agents that a person chose for the project.
        pending: Records of skills that a person has agreed to and that the lock lacks; they count once it has them.
        created_paths: Folders and files of agents that skillhub created; paths as in ``links``.
    """

    skills: Mapping[str, Record] = field(default_factory=dict)
    agents: tuple[str, ...] = ()
    pending: Mapping[str, Record] = field(default_factory=dict)
    created_paths: tuple[str, ...] = ()

    def enabled(self, locked: Mapping[str, Locked]) -> set[str]:
        """Return the names of the locked skills that agents should read."""
        names = (name for name, record in self.skills.items() if record.enabled and name in locked)
        return {name for name in names if self.skills[name].is_of(locked[name])}

    def arrived(self, locked: Mapping[str, Digest]) -> Records:
        """Return the records with those of ``coming`` that the lock confirms, and without the others.

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

    def dump(self, project: str) -> bytes:
        """Return the bytes of the record file; it contains the path ``project`` for a person who reads it."""
        file = RecordsFile.model_construct(
            version=VERSION,
            agents=self.agents,
            project=project,
            skills=dict(self.skills),
            pending=dict(self.pending),
            created_paths=self.created_paths,
        )
        text = json.dumps(file.model_dump(by_alias=True), sort_keys=True, ensure_ascii=False) + "\n"
        # A path may hold bytes that are not UTF-8; each becomes a question mark, so that the file can be read.
        return text.encode("utf-8", "replace")

    @classmethod
    def parse(cls, data: bytes, where: str) -> Records:
        """Return the records in these bytes, which ``dump`` wrote.

        Raises:
            FormatError: the bytes are no such file.
        """
        try:
            found = RecordsFile.parse(data, where)
        except FormatError as error:
            error.hint = error.hint or "move the file away; skillhub install creates it again and asks again"
            raise
        return cls(found.skills, found.agents, found.pending, found.created_paths)


class RecordsFile(Document):
    """The record file of a project."""

    CAP = 256 * 1024 * 1024

    version: Annotated[int, version_of("state format", VERSION)]
    agents: Items[str]
    project: str = ""
    skills: Members[SkillName, Record]
    pending: Members[SkillName, Record] = Field(default_factory=dict, alias="coming", exclude_if=not_)
    created_paths: Items[str] = Field((), alias="made", exclude_if=not_)


# A skill on this machine: locked or found in an agent's folder, enabled or disabled.

State: TypeAlias = Literal["enabled", "disabled"]
# The rule of a host about loading a skill: load it, ask the person first, refuse.
Permission: TypeAlias = Literal["allow", "ask", "deny"]
# Who may load a skill: no one, only the user, or the model too.
Reach: TypeAlias = Literal["disabled", "enabled", "active"]


@dataclass(frozen=True, slots=True)
class Need(DeclaredNeed):
    """A need of a skill, required or optional, and whether it is satisfied."""

    satisfied: bool
    waived: bool = False  # a person took responsibility for it
    server: object = field(default=None, repr=False)  # for ``mcp``, the ``McpServer``, if the skill describes it

    @property
    def open(self) -> bool:
        """Whether the need prevents enabling the skill."""
        return self.required and not (self.satisfied or self.waived)

    def to_json(self) -> dict[str, Any]:
        """Return the need as an object of ``requires`` in ``--json``."""
        return {key: getattr(self, key) for key in ("kind", "name", "description", "required", "satisfied")}


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill as ``list`` shows it: the lock's entry, this machine's state, and the facts of its content.

    Attributes:
        path: The folder in the store; for a skill that was found in an agent's folder, that folder.
        vouched_by: The registry that vouches for the names of its signers, if it is none of the user's.
        stored: The folder in the store of a locked skill that was found in an agent's folder.
        links: The absolute paths in agents' folders where it is enabled.
        invocation: ``model`` if the model may call it by itself, ``user`` if only the user may.
        managed: Whether a lock has it.
        namespace: The part before ``:`` in its full name; for a plugin's skill, the plugin.
        root: The folder whose search found it; empty if no search did.
        user_invocable: Whether a user may invoke it by name; ``invocation`` is about the model.
        argument_hint: The arguments to type after its name, such as ``[issue-number]``.
        patch: The path of the project's patch of it, relative to the project; patches are not signed.
        held: Why it is not loaded, by the lock, the record or a host's file; then ``state`` is ``disabled``.
        is_command: Whether it is a single file, ``path``, and no folder.
        permission: The rule of its host about loading it; ``ask`` asks the person first.
        interface: How to show it: ``display_name``, ``short_description``, ``default_prompt``, icons.
        permissions: The permissions that it declares, each as ``path.to.key=value``; a declaration grants nothing.
        own_name: The name in its ``SKILL.md``, if it is installed under another name; else None.
        name_only: Whether its host shows the model only its name.
        locks: The ``Locks`` that apply where it was found; ``load`` checks them again.
        rules: The rules of the host that found it, ``Profile.rules``; ``load`` reads as strictly.
        edited: Those of ``links`` that differ from the agreed tree, and are not loaded; None if not checked.
        withdrawn: Why its registry withdrew this version, when last seen; None if not withdrawn, or not checked.
        known_bad: The worst advisory that refuses it; None if none does, or not checked.

    Raises:
        UsageError: ``path``, or one of ``links``, cannot be a path in a file system.
    """

    name: str
    path: str | None
    scope: SkillScope
    state: State
    source: str | None = None
    version: str | None = None
    digest: Digest | None = None
    tree: Digest | None = None
    size: int | None = None
    url: str | None = None
    links: tuple[str, ...] = ()
    invocation: Literal["user", "model"] = "model"
    managed: bool = True
    signed_by: tuple[Signer, ...] = ()
    requires: tuple[Need, ...] = ()
    capabilities: tuple[str, ...] = ()
    description: str = ""
    namespace: str | None = None
    root: str = ""
    user_invocable: bool = True
    argument_hint: str = ""
    patch: str | None = None
    vouched_by: str | None = None
    own_name: str | None = None
    stored: str | None = None
    held: HoldReason | None = None
    permission: Permission = "allow"
    is_command: bool = False
    interface: Mapping[str, str] = field(default_factory=dict, hash=False)
    permissions: tuple[str, ...] = ()
    name_only: bool = False
    locks: object = field(default=None, repr=False, compare=False)
    rules: object = field(default=None, repr=False, compare=False)
    edited: tuple[str, ...] | None = None
    withdrawn: str | None = None
    known_bad: str | None = None

    def __post_init__(self) -> None:
        check_paths(self.path, *self.links)

    @property
    def full_name(self) -> str:
        """``namespace:name``, or the name where there is no namespace."""
        return f"{self.namespace}:{self.name}" if self.namespace else self.name

    @property
    def file(self) -> str:
        """The file that holds its instructions."""
        path = self.path or ""
        return path if self.is_command else os.path.join(path, "SKILL.md")

    @property
    def is_elsewhere(self) -> bool:
        """Whether it is locked but was found in no searched folder, so that ``path`` is in the store."""
        return self.managed and not self.root

    @property
    def trust(self) -> Literal["signed", "unsigned"]:
        """``signed`` if its content is signed; a patched skill is ``unsigned``."""
        return "signed" if self.signed_by and not self.patch else "unsigned"

    @property
    def why(self) -> dict[str, str]:
        """``why``, ``message`` and ``command`` of a skill that is not loaded, for protocols; empty for others."""
        if self.held is None:
            return {}
        message = f"{self.full_name} {self.held.reason}"
        message += f" (in {clean(self.held.file)})" if self.held.file else ""
        return {"why": self.held.status, "message": message, "command": self.held.command}

    @property
    def reach(self) -> Reach:
        """``active`` if the model may call it, ``enabled`` if only the user may, else ``disabled``."""
        if self.state == "disabled":
            return "disabled"
        return "active" if self.invocation == "model" else "enabled"

    def to_json(self) -> dict[str, Any]:
        """Return the skill as an object of ``list --json``."""
        converted = {
            "path": self.stored or self.path,
            "links": list(self.links),
            "signed_by": [signer.to_json(self.vouched_by) for signer in self.signed_by],
            "requires": [need.to_json() for need in self.requires],
            "capabilities": list(self.capabilities),
            **({"edited": list(self.edited)} if self.edited is not None else {}),
            **({"withdrawn": self.withdrawn} if self.withdrawn is not None else {}),
            **({"known_bad": self.known_bad} if self.known_bad is not None else {}),
        }
        return {key: getattr(self, key) for key in _SKILL} | converted


# The keys of a skill in `--json`, in order.
_SKILL = (
    *("name", "source", "version", "digest", "tree", "size", "url", "path", "links", "scope", "state", "invocation"),
    *("managed", "signed_by", "trust", "patch", "own_name", "requires", "capabilities", "description"),
)


def check_paths(*paths: str | None) -> None:
    """Return if each of these can be a path; None is skipped.

    Raises:
        UsageError: one cannot.
    """
    for path in paths:
        if path is not None and not is_path(path):
            raise UsageError(f"expected a path, found {quote(path)}")

"""What this machine knows of a project: consents, enabled copies, and each skill as ``list`` shows it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
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
from skillhub.model.question import Held

# What this machine knows of one project: what a person agreed to, what is enabled where, and facts shown often.
# It lives in ``<state>``, belongs to the user and is never read from a repository. ``facts`` repeats what was
# read off the stored bytes when the skill was installed, so that ``list`` opens one file and not a thousand.

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


def _is_empty(value: object) -> bool:
    return not value


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
    """What ``list`` shows of a skill's content: read off the tree, never off a declaration elsewhere.

    The file has it as a list, which takes a third of its bytes less.
    """

    description: str = ""
    model_invocable: bool = True
    needs: Items[DeclaredNeed] = ()
    capabilities: Items[str] = ()


@part
@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One skill as it is on this machine, in this project.

    Attributes:
        tree: The tree that ``links`` hold, and that the person agreed to; ``NO_FILES`` where they agreed to none.
        enabled: Whether the links ought to be there.
        held: Why not: ``user`` (said ``disable``), ``needs`` (one is open), ``asked`` (``--no-enable``), or empty.
        links: Where, relative to the project or the user's home, ``/`` between segments.
        link: How: copies, or links into the store.
        met: Needs (``env:NAME``, ``mcp:NAME``) that were met when it was enabled and cannot be seen from here.
        waived: Needs that a person said they see to themselves.
        mcp: Server name to agent to the entry that was written into that agent's configuration.
        provenance: Where it was to come from and who had signed it when the person agreed, if that was kept.
    """

    NEEDED: ClassVar = ("held", "links", "link", "met", "waived", "mcp", "facts")

    tree: Sha256
    enabled: bool
    held: Annotated[str, one_of("", "user", "needs", "asked")] = ""
    links: Items[str] = ()
    link: Annotated[LinkKind, one_of("copy", "symlink")] = "copy"
    met: Items[str] = ()
    waived: Items[str] = ()
    mcp: Members[str, Members[str, dict[str, Any]]] = field(default_factory=dict)
    facts: Annotated[Facts, Before(_four)] = field(default_factory=Facts)
    provenance: Annotated[
        Provenance | None,
        Read(_provenance, type="array", items={"type": "string"}, minItems=3),
        PlainSerializer(_spelled),
        Field(alias="whence", exclude_if=_is_empty),
    ] = None

    def is_of(self, entry: Locked) -> bool:
        """Say whether the person agreed to what the lock's entry says: the tree, its place, its signers."""
        is_tree = self.tree == entry.tree != NO_FILES
        return is_tree and self.elsewhere(entry) is None

    def elsewhere(self, entry: Locked) -> tuple[str, str] | None:
        """Return where it was agreed to be from, or by whom, and where the entry has it from, if that differs."""
        was, now = self.provenance, Provenance.of(entry)
        return was.against(now) if was is not None and was.means(now, RECORD) else None


@dataclass(frozen=True, slots=True)
class Records:
    """All records of a project.

    Attributes:
        agents: The agents that a person chose for it.
        coming: What a person has just agreed to and the lock is about to say; counts once the lock does.
        made: Folders and files of agents that were not there before us, spelled as ``links`` are.
    """

    skills: Mapping[str, Record] = field(default_factory=dict)
    agents: tuple[str, ...] = ()
    coming: Mapping[str, Record] = field(default_factory=dict)
    made: tuple[str, ...] = ()

    def enabled(self, locked: Mapping[str, Locked]) -> set[str]:
        """Return the names of what is locked that agents are to read."""
        names = (name for name, record in self.skills.items() if record.enabled and name in locked)
        return {name for name in names if self.skills[name].is_of(locked[name])}

    def arrived(self, locked: Mapping[str, Digest]) -> Records:
        """Return the records once what was coming has come, or has not: a command may have been cut off between.

        Args:
            locked: The tree of each locked skill.
        """
        if not self.coming:
            return self
        skills = dict(self.skills)
        for name, record in self.coming.items():
            if locked.get(name) == record.tree:
                before = skills[name].links if name in skills else ()
                skills[name] = replace(record, links=tuple(dict.fromkeys((*record.links, *before))))
        return replace(self, skills=skills, coming={})

    def dump(self, project: str) -> bytes:
        """Return the bytes of the state file of ``project``, which is named in it for whoever reads it."""
        file = RecordsFile.model_construct(
            version=VERSION,
            agents=self.agents,
            project=project,
            skills=dict(self.skills),
            coming=dict(self.coming),
            made=self.made,
        )
        text = json.dumps(file.model_dump(by_alias=True), sort_keys=True, ensure_ascii=False) + "\n"
        # A path need not be UTF-8; what of it is not becomes a question mark, or nobody could read the file.
        return text.encode("utf-8", "replace")

    @classmethod
    def parse(cls, data: bytes, where: str) -> Records:
        """Return the records that these bytes, written by ``dump``, hold.

        Raises:
            FormatError: they are not what ``dump`` writes.
        """
        try:
            found = RecordsFile.parse(data, where)
        except FormatError as error:
            error.hint = error.hint or "move the file away; skillhub install creates it again and asks again"
            raise
        return cls(found.skills, found.agents, found.coming, found.made)


class RecordsFile(Document):
    """The file as it is written."""

    CAP = 256 * 1024 * 1024

    version: Annotated[int, version_of("state format", VERSION)]
    agents: Items[str]
    project: str = ""
    skills: Members[SkillName, Record]
    coming: Members[SkillName, Record] = Field(default_factory=dict, exclude_if=_is_empty)
    made: Items[str] = Field((), exclude_if=_is_empty)


# A skill as this machine has it: locked or merely found, enabled or waiting.

State: TypeAlias = Literal["enabled", "disabled"]
# What a host's rules say of loading it: do, ask the person first, do not.
Permission: TypeAlias = Literal["allow", "ask", "deny"]
# How far a skill reaches: no further than the disk, to the user who asks for it, to the model by itself.
Reach: TypeAlias = Literal["disabled", "enabled", "active"]


@dataclass(frozen=True, slots=True)
class Need(DeclaredNeed):
    """Something a skill cannot work without (``required``) or with less (not), and whether it is there."""

    satisfied: bool
    waived: bool = False  # a person said that they see to it themselves
    server: object = field(default=None, repr=False)  # of ``mcp`` the ``McpServer``, where the skill describes it

    @property
    def open(self) -> bool:
        """Whether it keeps the skill from being enabled."""
        return self.required and not (self.satisfied or self.waived)

    def to_json(self) -> dict[str, Any]:
        """Return the NEED of the contract."""
        return {key: getattr(self, key) for key in ("kind", "name", "description", "required", "satisfied")}


@dataclass(frozen=True, slots=True)
class Skill:
    """What ``list`` shows: the lock's entry, this machine's state, and the facts read off the content.

    Attributes:
        path: The folder in the store; of a skill that was found in an agent's folder, that one.
        vouched_by: The registry that says who its signers are, where it is none of the user's.
        stored: Of a locked skill that was found, the folder in the store.
        links: The places in agents' folders where it is enabled, absolute.
        invocation: Whether the model may call it by itself, or only the user.
        managed: Whether a lock knows it.
        namespace: What goes before ``:`` in its full name; of a plugin's skill, the plugin.
        root: The folder in which it was looked for; empty for what was not looked for.
        user_invocable: Whether a user may ask for it by name; ``invocation`` is about the model.
        argument_hint: What to type behind its name, such as ``[issue-number]``.
        patch: The project's patch of it, which nobody signed; relative to the project.
        held: Why it is not loaded, where the lock, this machine's record or a host's file says so; then ``state`` is
            ``disabled``.
        is_command: Whether it is a single file, ``path``, and no folder.
        permission: Whether the person is asked before it is loaded, by the rules of its host.
        interface: How to show it: ``display_name``, ``short_description``, ``default_prompt``, icons.
        permissions: What it declares to need, each as ``path.to.key=value``; nothing is granted by that.
        own_name: What its ``SKILL.md`` calls it, where it is installed under another name; else None.
        name_only: Whether its host lists it for the model by its name alone.
        locks: The ``Locks`` that count where it was found; ``load`` asks them again.
        rules: How strictly the host reads that found it, ``Profile.rules``; ``load`` reads as strictly.
        edited: Those of ``links`` that do not hold what was agreed to, and are held back; None if nobody looked.
        withdrawn: Why its registry withdrew this version, as it was last seen; None if it did not, or nobody looked.
        known_bad: The worst that advisories say of it, if that refuses it; None if they do not, or nobody looked.

    Raises:
        UsageError: ``path``, or one of ``links``, is none that a file system may have.
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
    held: Held | None = None
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
        """Whether it is locked and in no folder that was looked into, so that its path is that of the store."""
        return self.managed and not self.root

    @property
    def trust(self) -> Literal["signed", "unsigned"]:
        """Whether its content is signed; a patch of the project is not."""
        return "signed" if self.signed_by and not self.patch else "unsigned"

    @property
    def why(self) -> dict[str, str]:
        """``why``, ``message`` and ``command`` of a skill that is held back, for protocols; nothing of others."""
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
        """Return the SKILL of the contract."""
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


# The keys of SKILL, in the order of the contract.
_SKILL = (
    *("name", "source", "version", "digest", "tree", "size", "url", "path", "links", "scope", "state", "invocation"),
    *("managed", "signed_by", "trust", "patch", "own_name", "requires", "capabilities", "description"),
)


def check_paths(*paths: str | None) -> None:
    """Return if each of these may be a path.

    Raises:
        UsageError: one may not.
    """
    for path in paths:
        if path is not None and not is_path(path):
            raise UsageError(f"expected a path, found {quote(path)}")

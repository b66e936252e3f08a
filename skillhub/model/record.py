"""What this machine knows of one project: what a person agreed to, what is enabled where, and facts shown often.

It lives in ``<state>``, belongs to the user and is never read from a repository. ``facts`` repeats what was read
off the stored bytes when the skill was installed, so that ``list`` opens one file and not a thousand.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import Field

from skillhub.errors import FormatError
from skillhub.model.digest import NO_FILES, Digest
from skillhub.model.provenance import RECORD, Provenance
from skillhub.model.syntax.document import (
    Before,
    Document,
    Items,
    Members,
    Read,
    Sha256,
    name_that,
    one_of,
    part,
    version_of,
    wrong,
)
from skillhub.model.text import is_name

if TYPE_CHECKING:
    from skillhub.model.lock import Locked

VERSION = 1
LinkKind: TypeAlias = Literal["copy", "symlink"]


def _named(value: object) -> object:
    """Name what the file has as a list, which takes a third of its bytes less."""
    match value:
        case [description, model_invocable, needs, capabilities]:
            return {
                "description": description,
                "model_invocable": model_invocable,
                "needs": needs,
                "capabilities": capabilities,
            }
    wrong("a description, whether a model may call it, needs and capabilities", value)


def _need(value: object) -> Mapping[str, Any]:
    match value:
        case {
            "kind": str() as kind,
            "name": str() as name,
            "description": str() as description,
            "required": bool() as required,
        }:
            return {"kind": kind, "name": name, "description": description, "required": required}
    wrong("a need", value)


def _servers(value: object) -> Mapping[str, Mapping[str, Any]]:
    match value:
        case dict() if all(isinstance(entries, dict) for entries in value.values()):
            if all(isinstance(entry, dict) for entries in value.values() for entry in entries.values()):
                return value
    wrong("the entries of each server", value)


def _provenance(value: object) -> Provenance:
    match value:
        case [str() as source, str() as server, str() as path, *signers] if {*map(type, signers)} <= {str}:
            return Provenance(source, server, path, tuple(map(str, signers)))
    wrong("a source, a server, a path and signers", value)


_Name = Annotated[str, Read(name_that(is_name))]


@part
@dataclass(frozen=True, slots=True)
class Facts:
    """What ``list`` shows of a skill's content: read off the tree, never off a declaration elsewhere."""

    description: str = ""
    model_invocable: bool = True
    needs: Items[Annotated[Mapping[str, Any], Read(_need, type="object")]] = ()
    capabilities: Items[str] = ()


_NO_FACTS = Facts()


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
    mcp: Annotated[Mapping[str, Mapping[str, Any]], Read(_servers, type="object")] = field(
        default_factory=dict
    )
    facts: Annotated[Facts, Before(_named)] = _NO_FACTS
    provenance: Annotated[
        Provenance | None, Read(_provenance, type="array"), Field(validation_alias="whence")
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
        document: dict[str, Any] = {
            "agents": self.agents,
            "project": project,
            "skills": {name: _encode(record) for name, record in self.skills.items()},
            "version": VERSION,
        }
        if self.coming:
            document["coming"] = {name: _encode(record) for name, record in self.coming.items()}
        if self.made:
            document["made"] = self.made
        text = json.dumps(document, sort_keys=True, ensure_ascii=False) + "\n"
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
            error.hint = error.hint or "move the file away; skillhub install makes it anew and asks again"
            raise
        return cls(found.skills, found.agents, found.coming, found.made)


class RecordsFile(Document):
    """The file as it is written."""

    CAP = 256 * 1024 * 1024

    version: Annotated[int, version_of("state format", VERSION)]
    agents: Items[str]
    project: str = ""
    skills: Members[_Name, Record]
    coming: Members[_Name, Record] = Field(default_factory=dict)
    made: Items[str] = ()


def _encode(record: Record) -> dict[str, Any]:
    place = record.provenance
    return {
        "enabled": record.enabled,
        "facts": [
            record.facts.description,
            record.facts.model_invocable,
            [dict(n) for n in record.facts.needs],
            record.facts.capabilities,
        ],
        "held": record.held,
        "link": record.link,
        "links": record.links,
        "mcp": {name: dict(entries) for name, entries in record.mcp.items()},
        "met": record.met,
        "tree": record.tree,
        "waived": record.waived,
        **({"whence": (place.source, place.server, place.path, *place.signers)} if place else {}),
    }

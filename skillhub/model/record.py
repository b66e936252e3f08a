"""What this machine knows of one project: what a person agreed to, what is enabled where, and facts shown often.

It lives in ``<state>``, belongs to the user and is never read from a repository. ``facts`` repeats what was read
off the stored bytes when the skill was installed, so that ``list`` opens one file and not a thousand.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from skillhub.errors import FormatError
from skillhub.model.digest import Digest
from skillhub.model.json import strict_json

VERSION = 1
_CAP = 256 * 1024 * 1024
LinkKind = Literal["copy", "symlink"]


@dataclass(frozen=True, slots=True)
class Facts:
    """What ``list`` shows of a skill's content: read off the tree, never off a declaration elsewhere."""

    description: str = ""
    model_invocable: bool = True
    needs: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One skill as it is on this machine, in this project.

    Attributes:
        tree: The tree that ``links`` hold, and that the person agreed to.
        enabled: Whether the links ought to be there.
        held: Why not: ``user`` (said ``disable``), ``needs`` (one is open), ``asked`` (``--no-enable``), or empty.
        links: Where, relative to the project or the user's home, ``/`` between segments.
        link: How: copies, or links into the store.
        met: Needs (``env:NAME``, ``mcp:NAME``) that were met when it was enabled and cannot be seen from here.
        waived: Needs that a person said they see to themselves.
        mcp: Server name to agent to the entry that was written into that agent's configuration.
    """

    tree: Digest
    enabled: bool
    held: str = ""
    links: tuple[str, ...] = ()
    link: LinkKind = "copy"
    met: tuple[str, ...] = ()
    waived: tuple[str, ...] = ()
    mcp: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    facts: Facts = Facts()


@dataclass(frozen=True, slots=True)
class Records:
    """All records of a project, and the agents that a person chose for it."""

    skills: Mapping[str, Record] = field(default_factory=dict)
    agents: tuple[str, ...] = ()

    def dump(self, project: str) -> bytes:
        """Return the bytes of the state file of ``project``, which is named in it for whoever reads it."""
        document = {
            "agents": self.agents,
            "project": project,
            "skills": {name: _encode(record) for name, record in self.skills.items()},
            "version": VERSION,
        }
        return (json.dumps(document, sort_keys=True, indent=1) + "\n").encode()

    @classmethod
    def parse(cls, data: bytes, where: str) -> Records:
        """Return the records that these bytes, written by ``dump``, hold.

        Raises:
            FormatError: they are not what ``dump`` writes.
        """
        document = strict_json(data, where, _CAP)
        try:
            if document["version"] != VERSION:  # type: ignore[index]
                raise FormatError(f"expected state format {VERSION}", where=where, hint="upgrade skillhub")
            skills = {name: _decode(block) for name, block in document["skills"].items()}  # type: ignore[index]
            return cls(skills, tuple(document["agents"]))  # type: ignore[index]
        except (KeyError, TypeError, AttributeError) as error:
            hint = "move the file away; skillhub install makes it anew and asks again"
            raise FormatError("expected the state of a project", where=where, hint=hint) from error


def _encode(record: Record) -> dict[str, Any]:
    return {
        "enabled": record.enabled,
        "facts": [record.facts.description, record.facts.model_invocable, [dict(n) for n in record.facts.needs]],
        "held": record.held,
        "link": record.link,
        "links": record.links,
        "mcp": {name: dict(entries) for name, entries in record.mcp.items()},
        "met": record.met,
        "tree": record.tree,
        "waived": record.waived,
    }


def _decode(block: dict[str, Any]) -> Record:
    description, model_invocable, needs = block["facts"]
    return Record(
        tree=Digest.parse(block["tree"]),
        enabled=block["enabled"],
        held=block["held"],
        links=tuple(block["links"]),
        link=block["link"],
        met=tuple(block["met"]),
        waived=tuple(block["waived"]),
        mcp=block["mcp"],
        facts=Facts(description, model_invocable, tuple(needs)),
    )

"""What this machine knows of one project: what a person agreed to, what is enabled where, and facts shown often.

It lives in ``<state>``, belongs to the user and is never read from a repository. ``facts`` repeats what was read
off the stored bytes when the skill was installed, so that ``list`` opens one file and not a thousand.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from skillhub.errors import FormatError
from skillhub.model.digest import NO_FILES, Digest
from skillhub.model.provenance import RECORD, Provenance
from skillhub.model.syntax.json import strict_json
from skillhub.model.text import is_name, quote

if TYPE_CHECKING:
    from skillhub.model.lock import Locked

_T = TypeVar("_T")

VERSION = 1
_CAP = 256 * 1024 * 1024
LinkKind: TypeAlias = Literal["copy", "symlink"]
_LINKS = ("copy", "symlink")
_HELD = ("", "user", "needs", "asked")


@dataclass(frozen=True, slots=True)
class Facts:
    """What ``list`` shows of a skill's content: read off the tree, never off a declaration elsewhere."""

    description: str = ""
    model_invocable: bool = True
    needs: tuple[Mapping[str, Any], ...] = ()
    capabilities: tuple[str, ...] = ()


_NO_FACTS = Facts()


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

    tree: Digest
    enabled: bool
    held: str = ""
    links: tuple[str, ...] = ()
    link: LinkKind = "copy"
    met: tuple[str, ...] = ()
    waived: tuple[str, ...] = ()
    mcp: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    facts: Facts = _NO_FACTS
    provenance: Provenance | None = None

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
        document = strict_json(data, where, _CAP)
        hint = "move the file away; skillhub install makes it anew and asks again"
        if not isinstance(document, dict):
            raise FormatError(f"expected an object, found {quote(document)}", where=where, hint=hint)
        found = document.get("version")
        if type(found) is not int or found != VERSION:
            if type(found) is int and found > VERSION:
                hint = "a newer skillhub wrote it; upgrade skillhub"
            message = f"expected state format {VERSION}, found {quote(found)}"
            raise FormatError(message, where=f"{where}: version", hint=hint)
        try:
            agents, made = _texts(document["agents"]), _texts(document.get("made", []))
        except (KeyError, ValueError) as error:
            raise FormatError(f"expected agents: {error}", where=f"{where}: agents", hint=hint) from error
        coming = _all(document, "coming", where, hint) if "coming" in document else {}
        return cls(_all(document, "skills", where, hint), agents, coming, made)


_STR = frozenset({str})


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


def _all(document: dict[str, Any], key: str, where: str, hint: str) -> dict[str, Record]:
    blocks = document.get(key)
    if not isinstance(blocks, dict):
        raise FormatError(f"expected an object, found {quote(blocks)}", where=f"{where}: {key}", hint=hint)
    found = {}
    for name, block in blocks.items():
        if not is_name(name) or not isinstance(block, dict):
            raise FormatError(f"expected a skill, found {quote(name)}", where=f"{where}: {key}", hint=hint)
        try:
            found[name] = _decode(block)
        except (KeyError, ValueError, FormatError) as error:
            message = f"expected the state of a skill: {error}"
            raise FormatError(message, where=f"{where}: {key}.{name}", hint=hint) from error
    return found


def _decode(block: dict[str, Any]) -> Record:
    description, model_invocable, needs, capabilities = _as(list, block["facts"])
    mcp = _as(dict, block["mcp"])  # with most skills it is empty, and so are `needs`
    return Record(
        tree=Digest.parse(block["tree"]),
        enabled=_as(bool, block["enabled"]),
        held=_one_of(_HELD, block["held"]),
        links=_texts(block["links"]),
        link=_one_of(_LINKS, block["link"]),
        met=_texts(block["met"]),
        waived=_texts(block["waived"]),
        mcp={server: _entries(entries) for server, entries in mcp.items()} if mcp else {},
        facts=Facts(
            _as(str, description),
            _as(bool, model_invocable),
            tuple(map(_need, needs)) if _as(list, needs) else (),
            _texts(capabilities),
        ),
        provenance=_provenance(_texts(block["whence"])) if "whence" in block else None,
    )


def _entries(value: object) -> dict[str, Any]:
    return {agent: _as(dict, entry) for agent, entry in _as(dict, value).items()}


def _provenance(texts: tuple[str, ...]) -> Provenance:
    source, server, path, *signers = texts
    return Provenance(source, server, path, tuple(signers))


def _need(value: object) -> dict[str, Any]:
    row = _as(dict, value)
    texts = {key: _as(str, row[key]) for key in ("kind", "name", "description")}
    return {**texts, "required": _as(bool, row["required"])}


def _texts(value: object) -> tuple[str, ...]:
    texts: list[str] = _as(list, value)
    if not texts:
        return ()
    if {*map(type, texts)} != _STR:
        for text in texts:
            _as(str, text)
    return tuple(texts)


def _one_of(choices: tuple[Any, ...], value: object) -> Any:  # noqa: ANN401 - one of a Literal's texts
    if value not in choices:
        raise ValueError(f"expected one of {', '.join(map(repr, choices))}, found {quote(value)}")
    return value


def _as(kind: type[_T], value: object) -> _T:
    if not isinstance(value, kind):
        raise ValueError(f"expected {kind.__name__}, found {quote(value)}")
    return value

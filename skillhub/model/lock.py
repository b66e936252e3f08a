"""``skillhub.lock``: what a team agreed to, skill by skill; parsed whole or not at all.

Format 1 is JSON, two spaces deep, keys sorted, one block a skill, so that two branches that each add a skill
merge as text. It holds no time, no secret, and no path of a store, a home or a cache.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from operator import attrgetter, is_
from typing import Any

from pydantic import ConfigDict

from skillhub.errors import FormatError
from skillhub.model.digest import Digest
from skillhub.model.lock_entry import (
    LOCAL,
    Locked,
    LockedSource,
    Patch,
    check_origin,
    check_version,
    of_plugin,
    place_of,
)
from skillhub.model.lock_fields import ORIGINS, VERSION, Alias, FormatVersion, SkillName
from skillhub.model.syntax.document import Document, Members, json_bytes
from skillhub.model.text import line_of_marker

__all__ = ["CAP", "LOCAL", "Lock", "Locked", "LockedSource", "Patch", "of_plugin", "place_of"]

CAP = 8 * 1024 * 1024  # bytes: some 12,000 skills; what JSON makes of a hostile one may take 45 times that
_where = attrgetter("url", "digest", "version", "rev", "path")
_is_absent = partial(is_, None)


@dataclass(frozen=True)
class Lock:
    """The whole lock."""

    skills: Mapping[str, Locked] = field(default_factory=dict)
    sources: Mapping[str, LockedSource] = field(default_factory=dict)

    @cached_property
    def dependents(self) -> Mapping[str, tuple[str, ...]]:
        """For each name that a locked skill needs, the skills that need it, in the order of the lock."""
        found: dict[str, list[str]] = {}
        for name, entry in self.skills.items():
            for each in dict.fromkeys(entry.dependencies):
                found.setdefault(each, []).append(name)
        return {name: tuple(needing) for name, needing in found.items()}

    def root_of(self, entry: Locked) -> Digest | None:
        """Return the root of the registry that the entry is from, as it was when it was locked; None if from none."""
        source = self.sources.get(entry.source) if entry.named else None
        return source.root if source else None

    def dump(self) -> bytes:
        """Return the file's bytes; the same lock gives the same bytes.

        Raises:
            FormatError: the lock holds what ``parse`` would refuse, and is better not written.
        """
        file = LockFile.model_construct(version=VERSION, sources=dict(self.sources), skills=dict(self.skills))
        document = file.plain()
        LockFile.parse(document, "skillhub.lock")
        data = json_bytes(document)
        if len(data) > CAP:
            raise FormatError(
                f"expected a lock of at most {CAP} bytes, found {len(data)}", where="skillhub.lock"
            )
        return data

    @classmethod
    def parse(cls, data: bytes, where: str = "skillhub.lock") -> Lock:
        """Return the lock that these bytes spell.

        Raises:
            FormatError: they are not a lock of this format; ``where`` names the line and the key.
        """
        found = LockFile.parse(data, where)
        return cls(dict(sorted(found.skills.items())), dict(sorted(found.sources.items())))


# No skill is offered by a site where every source is a registry.
_WITHOUT_SITES: Any = {
    "if": {
        "properties": {"sources": {"additionalProperties": {"properties": {"kind": {"const": "registry"}}}}}
    },
    "then": {"properties": {"skills": {"additionalProperties": {"anyOf": list(ORIGINS)}}}},
}


class LockFile(Document):
    """What JSON Schema can say of the lock.

    What it cannot say (one key once, a source that is in sources, hidden characters, the bytes) is in
    docs/formats/lock.md.
    """

    model_config = ConfigDict(title="skillhub.lock, format 1", json_schema_extra=_WITHOUT_SITES)

    CAP = CAP
    NAMES_LINE = True
    UNKNOWN = "a newer skillhub may have written it"

    version: FormatVersion
    sources: Members[Alias, LockedSource]
    skills: Members[SkillName, Locked]

    @classmethod
    def read_json(cls, data: bytes, where: str) -> object:
        """Return the parsed JSON, as ``Document.read_json`` does; the hint says how a lock is had back."""
        if not data.strip():
            hint = "take it back out of version control, or delete it and install anew"
            raise FormatError("the lock is empty", where=where, hint=hint)
        try:
            return super().read_json(data, where)
        except FormatError as error:
            if line := line_of_marker(data):
                hint = "skillhub lock fix resolves it, skill by skill"
                raise FormatError(
                    "the lock holds a merge conflict", where=f"{where}:{line}", hint=hint
                ) from error
            error.hint = "git checkout skillhub.lock takes it back; after a merge: skillhub lock fix"
            raise

    def check(self) -> None:
        """Refuse an entry that says in no way, or in two, where its bytes come from.

        Raises:
            FormatError: there is one.
        """
        # All that decides it, so that a thousand skills of a source are one look.
        seen: set[tuple[object, ...]] = set()
        kinds = {alias: source.kind for alias, source in self.sources.items()}
        for name, entry in self.skills.items():
            shape = (entry.source, entry.git, entry.git and entry.path, *map(_is_absent, _where(entry)))
            if shape not in seen:
                check_origin(entry, kinds, f".skills.{name}")
                seen.add(shape)
            if entry.version is not None and entry.named and kinds[entry.source] == "registry":
                check_version(entry.version, f".skills.{name}.version")

"""The locks of other installers, read for what they name: pure, lenient, and never taken as integrity.

What comes out is where each skill may be had, as a reference that ``install`` resolves and pins, or a sentence why
there is no such place. Keys that are not known are passed over. Their hashes bind nothing here: each is computed in a
way of its own, and whoever could change the skill could change the lock beside it.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field

from skillhub.errors import FormatError
from skillhub.model.origin import (
    Absent,
    Found,
    NoOrigin,
    OtherEntry,
    OtherLock,
    at_path,
    at_site,
    folder_of,
    in_git,
)
from skillhub.model.other_locks_apm import entries
from skillhub.model.syntax.json import strict_json
from skillhub.model.syntax.yaml import parse
from skillhub.model.text import quote

CAP = 16 * 1024 * 1024
_YAML_CAP = 1024 * 1024  # APM lists every file of every package three times
_KNOWN = "known: skills-lock.json, .skill-lock.json, apm.lock.yaml and .clawhub/lock.json"
_Block = Mapping[str, Any]


class _SkillsCli(OtherEntry):
    """An entry of the ``skills`` CLI, of a project or of a user; ``gh skill`` writes the latter too."""

    BINDING: ClassVar = frozenset(
        {"sourceType", "source", "sourceUrl", "sourceBaseUrl", "skillPath", "ref", "pinnedRef"}
    )

    kind: Absent = Field("", alias="sourceType")
    source: Absent = ""
    url: Absent = Field("", alias="sourceUrl")
    base_url: Absent = Field("", alias="sourceBaseUrl")
    skill_path: Absent = Field("", alias="skillPath")
    ref: Absent = ""
    pinned_ref: Absent = Field("", alias="pinnedRef")

    def found(self, name: str, folder: str) -> Found:
        """Return where it is to be had."""
        kind, source, path = self.kind, self.source, folder_of(self.skill_path)
        skills = () if self.skill_path else (name,)
        if kind in ("github", "gitlab", "git"):
            place = self.url or source
            if kind == "gitlab" and "://" not in place and "@" not in place:
                place = f"https://gitlab.com/{place}.git"
            return in_git(name, place, self.ref or self.pinned_ref, path, skills)
        if kind == "local":
            return at_path(name, source and posixpath.join(source, path), folder, skills)
        if kind == "well-known":
            return at_site(name, self.base_url or self.url or source, (name,))
        return NoOrigin(name, f"it came by way of {quote(kind)}, which skillhub does not install from")


class _SkillsLock(OtherEntry):
    """An entry of the program ``skills-lock``, which writes the same file name with commits in it."""

    BINDING: ClassVar = frozenset({"resolved", "spec", "path", "commit", "ref"})

    resolved: Absent = ""
    spec: Absent = ""
    path: Absent = ""
    commit: Absent = ""
    ref: Absent = ""

    def found(self, name: str, folder: str) -> Found:
        """Return where it is to be had."""
        place, path = self.resolved or self.spec, folder_of(self.path)
        skills = () if "path" in self.model_fields_set else (name,)
        if place.startswith("file:"):
            return at_path(name, posixpath.join(place.removeprefix("file:"), path), folder, skills)
        return in_git(name, place, self.commit or self.ref, path, skills)


class _ClawHub(OtherEntry):
    version: Absent = ""

    def found(self, name: str, folder: str) -> Found:
        """Return that its lock says too little."""
        said = f"version {quote(self.version or 'unknown')}"
        return NoOrigin(name, f"its lock says {said}, and neither where to get it nor a hash of it")


def parse_other_lock(data: bytes, folder: str, where: str) -> OtherLock:
    """Return what a lock of another installer names; which installer's it is, is seen from its shape.

    Args:
        data: The file's bytes.
        folder: The absolute path of the folder that its own relative paths start from, ``/`` between segments.
        where: The file, for errors.

    Raises:
        FormatError: it is none of the locks that are known. An entry that makes no sense is told among what cannot
            be pinned.
    """
    if data.lstrip()[:1] != b"{":
        return _apm(data, folder, where)
    document = strict_json(data, where, CAP)
    skills = document.get("skills") if isinstance(document, dict) else None
    if isinstance(document, dict) and isinstance(document.get("sources"), dict):
        hint = "skillhub install installs what it says, in the folder that it is in"
        raise FormatError(
            "expected a lock of another installer, found skillhub's own", where=where, hint=hint
        )
    if not isinstance(document, dict) or not isinstance(skills, dict):
        raise _unknown(where, "an object without skills")
    name, kind = _kind(document, skills, where)
    return OtherLock.of(name, (kind.origin(skill, block, folder) for skill, block in skills.items()))


def _apm(data: bytes, folder: str, where: str) -> OtherLock:
    try:
        document = parse(data.decode("utf-8"), where, cap=_YAML_CAP)
    except UnicodeDecodeError as error:
        raise FormatError(f"expected UTF-8, found another byte at {error.start}", where=where) from error
    version = document.get("lockfile_version") if isinstance(document, dict) else None
    if not isinstance(document, dict) or version != "1":
        raise _unknown(
            where, f"lockfile_version {quote(version)}" if version else "neither JSON nor APM's YAML"
        )
    return OtherLock.of("apm.lock.yaml 1", entries(document, folder))


def _kind(document: _Block, skills: _Block, where: str) -> tuple[str, type[OtherEntry]]:
    """Return the name of the format and the class of its entries."""
    if document.get("lockfileVersion") == 1:
        return "skills-lock.json, lockfileVersion 1", _SkillsLock
    version = document.get("version")
    blocks = [block for block in skills.values() if isinstance(block, dict)]
    if version == 1 and any("version" in block and "sourceType" not in block for block in blocks):
        return ".clawhub/lock.json 1", _ClawHub
    if type(version) is int and version in (1, 3):
        return f"{'skills-lock.json' if version == 1 else '.skill-lock.json'} {version}", _SkillsCli
    raise _unknown(where, f"version {quote(version)}")


def _unknown(where: str, found: str) -> FormatError:
    return FormatError(f"expected a lock of another installer, found {found}", where=where, hint=_KNOWN)

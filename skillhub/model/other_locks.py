"""The locks of other installers, read for what they name: pure, lenient, and never taken as integrity.

What comes out is where each skill may be had, as a reference that ``install`` resolves and pins, or a sentence why
there is no such place. Keys that are not known are passed over. Their hashes bind nothing here: each is computed in a
way of its own, and whoever could change the skill could change the lock beside it.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from typing import Any

from skillhub.errors import FormatError
from skillhub.model.origin import Found, NoOrigin, OtherLock, at_path, at_site, folder_of, in_git, text
from skillhub.model.other_locks_apm import entries
from skillhub.model.syntax.json import strict_json
from skillhub.model.syntax.yaml import parse
from skillhub.model.text import quote

CAP = 16 * 1024 * 1024
_YAML_CAP = 1024 * 1024  # APM lists every file of every package three times
_KNOWN = "known: skills-lock.json, .skill-lock.json, apm.lock.yaml and .clawhub/lock.json"
_Block = Mapping[str, Any]
_Read = Callable[[str, _Block, str], Found]


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
    name, read = _reader(document, skills, where)
    return OtherLock.of(name, (_entry(skill, block, folder, read) for skill, block in skills.items()))


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


def _reader(document: _Block, skills: _Block, where: str) -> tuple[str, _Read]:
    """Return the name of the format and the reader of its entries."""
    if document.get("lockfileVersion") == 1:
        return "skills-lock.json, lockfileVersion 1", _skills_lock
    version = document.get("version")
    blocks = [block for block in skills.values() if isinstance(block, dict)]
    if version == 1 and any("version" in block and "sourceType" not in block for block in blocks):
        return ".clawhub/lock.json 1", _clawhub
    if type(version) is int and version in (1, 3):
        return f"{'skills-lock.json' if version == 1 else '.skill-lock.json'} {version}", _skills_cli
    raise _unknown(where, f"version {quote(version)}")


def _unknown(where: str, found: str) -> FormatError:
    return FormatError(f"expected a lock of another installer, found {found}", where=where, hint=_KNOWN)


def _entry(name: str, block: object, folder: str, read: _Read) -> Found:
    return read(name, block, folder) if isinstance(block, dict) else NoOrigin(name, "its entry is no object")


def _skills_cli(name: str, block: _Block, folder: str) -> Found:
    """Read an entry of the ``skills`` CLI, of a project or of a user; ``gh skill`` writes the latter too."""
    kind, source, url = (text(block, key) for key in ("sourceType", "source", "sourceUrl"))
    path = folder_of(text(block, "skillPath"))
    skills = () if text(block, "skillPath") else (name,)
    if kind in ("github", "gitlab", "git"):
        place = url or source
        if kind == "gitlab" and "://" not in place and "@" not in place:
            place = f"https://gitlab.com/{place}.git"
        return in_git(name, place, text(block, "ref") or text(block, "pinnedRef"), path, skills)
    if kind == "local":
        return at_path(name, source and posixpath.join(source, path), folder, skills)
    if kind == "well-known":
        return at_site(name, text(block, "sourceBaseUrl") or url or source, (name,))
    return NoOrigin(name, f"it came by way of {quote(kind)}, which skillhub does not install from")


def _skills_lock(name: str, block: _Block, folder: str) -> Found:
    """Read an entry of the program ``skills-lock``, which writes the same file name with commits in it."""
    place, path = text(block, "resolved") or text(block, "spec"), folder_of(text(block, "path"))
    skills = () if "path" in block else (name,)
    if place.startswith("file:"):
        local = place.removeprefix("file:")
        return at_path(name, posixpath.join(local, path), folder, skills)
    return in_git(name, place, text(block, "commit") or text(block, "ref"), path, skills)


def _clawhub(name: str, block: _Block, folder: str) -> Found:
    said = f"version {quote(text(block, 'version') or 'unknown')}"
    return NoOrigin(name, f"its lock says {said}, and neither where to get it nor a hash of it")

"""What is served: skills that are locked, agreed to and enabled here, held to the lock at every read; their URIs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from mimetypes import MimeTypes
from threading import RLock
from time import time_ns
from typing import Any, Final
from urllib.parse import quote as encode
from urllib.parse import unquote as decode

from skillhub.disk.proved import is_settled
from skillhub.errors import Drifted, FormatError, NotFound, SkillhubError
from skillhub.formats import yaml
from skillhub.formats.digest import Digest
from skillhub.formats.text import is_name, quote
from skillhub.model.hosts import profile
from skillhub.model.manifest import split
from skillhub.model.record import Skill
from skillhub.model.reference import all_masked
from skillhub.model.tree import SKILL_MD, Listing
from skillhub.runtime.agent import catalog_of
from skillhub.runtime.catalog import Catalog
from skillhub.runtime.discover import Surroundings
from skillhub.runtime.folder import Folder, Locks
from skillhub.runtime.loading import NOT_THE_SKILLS, Loaded, Request, held_error, load
from skillhub.runtime.meaning import Caller, may_invoke
from skillhub.runtime.walk import Cache

FILE_MAX: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ServedFile:
    """A file of a skill; ``path`` has ``/`` between segments, ``digest`` is SHA-256 of its bytes."""

    path: str
    digest: Digest
    size: int


@dataclass(frozen=True, slots=True)
class ServedSkill:
    """A skill with what it holds.

    Attributes:
        skill: As the catalogue has it: name, description, source, signers and the rest.
        tree: SHA-256 over the list of its files; of a locked skill the lock's, and every file was compared with it.
        files: All of them, sorted by path.
        front: The frontmatter as a parser of YAML 1.2 types it; None where it is YAML only to a lenient reader.
    """

    skill: Skill
    tree: Digest
    files: tuple[ServedFile, ...]
    front: Mapping[str, Any] | None = field(compare=False, hash=False)

    @property
    def name(self) -> str:
        """What it is asked for by: ``namespace:name``, or the name where there is no namespace."""
        return self.skill.full_name

    @property
    def is_locked(self) -> bool:
        """Whether a lock knows it and a person agreed to this tree."""
        return self.skill.managed

    def children(self, folder: str = "") -> tuple[tuple[str, ServedFile | None], ...]:
        """Return name and file of all that lies directly in a folder, sorted; of a folder, None as the file.

        Raises:
            NotFound: it has no such folder.
        """
        prefix = f"{folder}/" if folder else ""
        found: dict[str, ServedFile | None] = {}
        for file in self.files:
            if file.path.startswith(prefix):
                name, is_deeper, _ = file.path[len(prefix) :].partition("/")
                found[name] = None if is_deeper else file
        if not found:
            raise NotFound(f"{quote(self.name)} has no folder {quote(folder)}")
        return tuple(sorted(found.items()))


class ServedContent:
    """The skills of a project, and of the user, as they may be handed out; may be used by several threads.

    Nothing is handed out that differs from the lock, was not agreed to on this machine, or is disabled: locks and
    this machine's record are read anew each time, and bytes are hashed as they are read.

    Args:
        around: Where it runs; the project is found from its ``cwd``.
        everything: Hand out skills too that are in a folder of the project or the user, and in no lock.
    """

    title = "Skills of this project"
    instructions: str | None = None  # what MCP tells a model instead of the usual

    def __init__(self, around: Surroundings, everything: bool = False) -> None:
        self.around = around
        self._everything = everything
        self._profile = profile("agents")
        self._cache = Cache()
        self._lock = RLock()
        self._catalog = Catalog()
        # By folder: what was true of the files with these stamps, or of this tree.
        self._known: dict[str, tuple[object, ServedSkill]] = {}

    def skills(self) -> tuple[ServedSkill, ...]:
        """Return every skill that is served now, sorted by name. One that cannot be read is left out."""
        with self._lock:
            self._look()
            found = []
            for skill in self._catalog.skills:
                try:
                    served = self._described(skill) if self._is_served(skill) else None
                except SkillhubError:
                    continue
                if served is not None:
                    found.append(served)
            gone = self._known.keys() - {each.skill.path for each in found}
            for path in gone:
                del self._known[path]
        return tuple(sorted(found, key=lambda each: each.name))

    def get(self, name: str) -> ServedSkill:
        """Return one skill as it is now.

        Raises:
            NotFound: no such skill is served.
            Refused: it was not agreed to, or is disabled.
            Drifted: its files are not those of the lock.
            KnownBad, Withdrawn: as far as this machine has heard.
            FormatError, OutsideSkill, StateError: it cannot be read.
        """
        with self._lock:
            self._look()
            return self._opened(name)[0]

    def load(self, name: str, caller: Caller, arguments: str = "") -> tuple[ServedSkill, Loaded]:
        """Return a skill with its instructions for whoever asks for it, the arguments put in. Raises as ``get``.

        Raises:
            Refused: also if it is not for this caller.
        """
        return self._opened(name, Request(caller=caller, arguments=arguments))

    def read(self, name: str, path: str) -> tuple[ServedSkill, bytes]:
        """Return a skill and the bytes of one of its files; raises as ``get``.

        Raises:
            OutsideSkill: the path leads out of the skill, or over a link.
            NotFound: also if it has no such file.
            Drifted: also if the file was changed a moment ago.
        """
        served, loaded = self._opened(name)
        return served, loaded.folder.read(path, FILE_MAX)

    def _look(self) -> None:
        self._catalog = catalog_of(self._profile, self.around, cache=self._cache)

    def _is_served(self, skill: Skill) -> bool:
        is_here = skill.path is not None and not skill.is_elsewhere and not skill.is_command
        is_allowed = skill.state == "enabled" and skill.held is None and skill.permission == "allow"
        is_known = isinstance(skill.locks, Locks) and skill.tree is not None if skill.managed else self._everything
        return is_here and is_allowed and is_known

    def _opened(self, name: str, request: Request | None = None) -> tuple[ServedSkill, Loaded]:
        with self._lock:
            for is_last in (False, True):
                skill = next((each for each in self._catalog.named(name) if each.full_name == name), None)
                try:
                    if skill is not None and self._is_served(skill):
                        caller: Caller = "user" if may_invoke(skill, "user") else "model"
                        loaded = load(skill, request or Request(caller=caller))
                        is_same = loaded.skill.managed and loaded.version == skill.tree
                        if is_same or not skill.managed:
                            return self._described(skill, loaded.folder), loaded
                except SkillhubError:
                    if is_last:
                        raise
                if not is_last:
                    self._look()  # what was found before may be out of date
        if skill is not None and skill.held is not None:
            kind = Drifted if skill.held.status == "drifted" else held_error(skill)
            raise kind(skill.why["message"], hint=skill.why["command"] or None)
        raise NotFound(f"no skill {quote(name)} is served", hint="skillhub catalog lists the skills")

    def _described(self, skill: Skill, folder: Folder | None = None) -> ServedSkill:
        """Return a skill with its files, from memory where it was the same before."""
        path = skill.path or ""
        if folder is None and skill.managed and path in self._known:
            proof, known = self._known[path]
            if proof == skill.tree:  # the catalogue has just compared it
                return known if known.skill == skill else replace(known, skill=skill)
        began = None if folder is not None else time_ns()  # before it is looked at: what changes later is seen
        if folder is None:
            folder = Folder(path, () if skill.managed else NOT_THE_SKILLS)
            if isinstance(skill.locks, Locks) and skill.managed and skill.tree:
                folder.hold_to(skill.locks.agreed(skill.tree))
        proof = skill.tree if skill.managed else folder.stamps
        if path in self._known and self._known[path][0] == proof:
            return replace(self._known[path][1], skill=skill)
        listing = folder.listing or Listing(folder.hashed())
        files = tuple(
            ServedFile(name, Digest(f"sha256:{listed.sha256}"), int(folder.stamps[name].partition(" ")[0]))
            for name, listed in listing.items()
        )
        served = ServedSkill(skill, listing.digest, files, typed_front(folder.read(SKILL_MD, FILE_MAX)))
        stamps = folder.stamps.values()
        is_kept = skill.managed or (began is not None and all(is_settled(each, began) for each in stamps))
        if is_kept:
            self._known[path] = proof, served
        return served


def typed_front(skill_md: bytes) -> Mapping[str, Any] | None:
    """Return the frontmatter as a parser of YAML 1.2 types it; None where it is YAML only to a lenient reader."""
    try:
        front = yaml.typed(split(skill_md, SKILL_MD).yaml, SKILL_MD, line_offset=1)
        json.dumps(front, ensure_ascii=False).encode()
    except (FormatError, UnicodeEncodeError):
        return None
    return front if isinstance(front, dict) else None


# The URI of each file of a skill, and back; its media type, and what is said of where a skill comes from.

SCHEME: Final = "skill://"
FILES_MAX: Final = 512
SIZE_MAX: Final = 16 * 1024 * 1024
DIRECTORY: Final = "inode/directory"
PREFIX: Final = "io.github.skillhub/"
_MARKDOWN: Final = "text/markdown"
# No skill has a dot in its name, so these are no skill's folder.
_NAMESPACE, _ALIAS = "of.", "as."
_URI_MAX: Final = 8192
_OURS: Final = {
    **{".md": _MARKDOWN, ".markdown": _MARKDOWN, ".json": "application/json", ".yaml": "application/yaml"},
    **{".yml": "application/yaml", ".toml": "application/toml", ".sh": "text/x-shellscript", ".ts": "text/plain"},
}
# Of Python's own table alone: what this machine has of it would differ from others.
_TYPES: Final = MimeTypes(filenames=())


def why_not(served: ServedSkill) -> str | None:
    """Return why a skill is no resource, whose format and limits are stricter; None if it is one."""
    front = served.front
    if front is None:
        return "its frontmatter is not valid YAML"
    name, description = front.get("name"), front.get("description")
    if not (isinstance(name, str) and is_name(name)):
        return "its name is not of small letters, digits and single hyphens"
    if not (isinstance(description, str) and description):
        return "its description is no text"
    if len(served.files) > FILES_MAX:
        return f"it has more than {FILES_MAX} files"
    if sum(file.size for file in served.files) > SIZE_MAX:
        return f"its files have more than {SIZE_MAX} bytes"
    return None


def uri_of(served: ServedSkill, path: str = SKILL_MD) -> str:
    """Return the URI of a file, or of a folder; of the skill itself where ``path`` is empty."""
    skill = served.skill
    name = str((served.front or {}).get("name"))
    parts = [f"{_NAMESPACE}{skill.namespace}"] if skill.namespace else []
    parts += [f"{_ALIAS}{skill.name}"] if skill.name != name else []
    whole = "/".join([*parts, name, *([path] if path else [])])
    return SCHEME + encode(whole, safe="/!$&'()*+,;=:@~", errors="surrogateescape")


def located(uri: str) -> tuple[str, str]:
    """Return the name of the skill and the path in it that a URI is about; ``uri_of`` them is to give it again.

    Raises:
        NotFound: it is no such URI.
    """
    match = re.fullmatch(r"skill://(?:of\.([^/]+)/)?(?:as\.([^/]+)/)?([^/]+)((?:/[^/?#]+)*)", uri[:_URI_MAX])
    if match is None or len(uri) > _URI_MAX:
        raise NotFound(f"no skill is served at {quote(uri[:200])}")
    namespace, alias, name, path = match.groups()
    named = f"{namespace}:{alias or name}" if namespace else alias or name
    return named, decode(path[1:], errors="surrogateescape")


def mime_type_of(path: str, is_text: bool | None = None) -> str:
    """Return the media type of a file by its name; of an unknown one by whether it is text, if that is known."""
    name = path.rpartition("/")[2]
    ending = name[name.rfind(".") :].lower() if "." in name else ""
    found = _OURS.get(ending) or _TYPES.guess_type(f"x{ending}", strict=True)[0]
    return found or ("text/plain" if is_text else "application/octet-stream")


def provenance(served: ServedSkill) -> dict[str, Any]:
    """Return where a skill comes from, who signed it, and what was verified."""
    skill = served.skill
    is_signed = served.is_locked and skill.trust == "signed"
    said = {
        "locked": served.is_locked,
        "source": skill.source,
        "version": skill.version,
        "tree": served.tree,
        "signed_by": [signer.to_json(skill.vouched_by) for signer in skill.signed_by],
        "verified": {"tree": served.is_locked, "consent": served.is_locked, "signature": is_signed},
    }
    return all_masked(said)  # type: ignore[no-any-return]


def meta(served: ServedSkill) -> dict[str, Any]:
    """Return ``provenance`` under the keys of our own prefix, without what is not known."""
    return {PREFIX + key: value for key, value in provenance(served).items() if value is not None}

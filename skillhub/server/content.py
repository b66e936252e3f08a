"""The skills that the server offers, verified against the lock at each read; and the tools that read them."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from mimetypes import MimeTypes
from threading import RLock
from time import time_ns
from typing import Annotated, Any, Final, Literal, NamedTuple
from urllib.parse import quote as percent_encode
from urllib.parse import unquote as percent_decode

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from skillhub.disk.proved import is_settled
from skillhub.errors import Drifted, FormatError, NotFound, SkillhubError, UsageError
from skillhub.formats import yaml
from skillhub.formats.digest import Digest
from skillhub.formats.document import faults
from skillhub.formats.json import members
from skillhub.formats.text import clean, is_name, quote
from skillhub.model.hosts import profile
from skillhub.model.manifest import split
from skillhub.model.reference import all_masked
from skillhub.model.skill import Skill
from skillhub.model.tree import SKILL_MD, Listing
from skillhub.runtime.agent import catalog_of
from skillhub.runtime.catalog import Catalog
from skillhub.runtime.discover import Surroundings
from skillhub.runtime.envelope import inject, told_to_model
from skillhub.runtime.folder import Folder, Loaded
from skillhub.runtime.loading import NOT_THE_SKILLS, Request, held_error, load
from skillhub.runtime.locks import Locks
from skillhub.runtime.mention_resolver import Caller, may_invoke
from skillhub.runtime.overview import safe
from skillhub.runtime.ranking import LIMIT_MAX, SearchIndex, Stored, search
from skillhub.runtime.walk import Cache

FILE_MAX: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ServedFile:
    """A file of a skill; ``path`` has ``/`` between segments, ``digest`` is the SHA-256 of its bytes."""

    path: str
    digest: Digest
    size: int


@dataclass(frozen=True, slots=True)
class ServedSkill:
    """A skill with its files and frontmatter.

    Attributes:
        skill: The skill in the form of the catalogue: name, description, source, signers and more.
        tree: The digest of the list of its files. For a locked skill it is the lock's, and every file matches it.
        files: All files, sorted by path.
        front: The frontmatter with the types of YAML 1.2; None if only a lenient reader can parse it.
    """

    skill: Skill
    tree: Digest
    files: tuple[ServedFile, ...]
    front: Mapping[str, Any] | None = field(compare=False, hash=False)

    @property
    def name(self) -> str:
        """The name in requests: ``namespace:name``, or the name alone if there is no namespace."""
        return self.skill.full_name

    def children(self, folder: str = "") -> tuple[tuple[str, ServedFile | None], ...]:
        """Return the direct entries of a folder, sorted: name and file, or name and None for a subfolder.

        Raises:
            NotFound: the skill has no such folder.
        """
        prefix = f"{folder}/" if folder else ""
        entries: dict[str, ServedFile | None] = {}
        for file in self.files:
            if file.path.startswith(prefix):
                name, is_deeper, _ = file.path[len(prefix) :].partition("/")
                entries[name] = None if is_deeper else file
        if not entries:
            raise NotFound(f"{quote(self.name)} has no folder {quote(folder)}")
        return tuple(sorted(entries.items()))


class ServedContent:
    """The skills of a project and of the user that may be served; safe for several threads.

    A skill is not served if it differs from the lock, is not agreed to on this machine, or is disabled: locks and the
    record are read for each request, and bytes are hashed when they are read.

    Args:
        around: The surroundings; the project is found from their ``cwd``.
        everything: Also serve skills in folders of the project or the user that are in no lock.
    """

    title = "Skills of this project"
    instructions: str | None = None  # of the MCP server, for a model; None for the default ones

    def __init__(self, around: Surroundings, everything: bool = False) -> None:
        self.around, self._everything = around, everything
        self._profile = profile("agents")
        self._cache = Cache()
        self._lock = RLock()
        self._catalog = Catalog()
        # By folder: the tree, or the stamps of the files, and the skill that they had.
        self._known: dict[str, tuple[object, ServedSkill]] = {}

    def skills(self) -> tuple[ServedSkill, ...]:
        """Return every skill that is served now, sorted by name; unreadable ones are left out."""
        with self._lock:
            self._refresh()
            all_served = []
            for skill in self._catalog.skills:
                try:
                    served = self._described(skill) if self._is_served(skill) else None
                except SkillhubError:
                    continue
                if served is not None:
                    all_served.append(served)
            removed = self._known.keys() - {served.skill.path for served in all_served}
            for path in removed:
                del self._known[path]
        return tuple(sorted(all_served, key=lambda served: served.name))

    def get(self, name: str) -> ServedSkill:
        """Return the present state of one skill.

        Raises:
            NotFound: no such skill is served.
            Refused: the skill is not agreed to, or is disabled.
            Drifted: its files differ from the lock.
            KnownBad, Withdrawn: by the advisories and metadata that this machine has.
            FormatError, OutsideSkill, StateError: the skill cannot be read.
        """
        with self._lock:
            self._refresh()
            return self._find(name)[0]

    def load(self, name: str, caller: Caller, arguments: str = "") -> tuple[ServedSkill, Loaded]:
        """Return a skill with its instructions, with the arguments inserted; raises as ``get``.

        Raises:
            Refused: also if this caller may not invoke the skill.
        """
        return self._find(name, Request(caller=caller, arguments=arguments))

    def read(self, name: str, path: str) -> tuple[ServedSkill, bytes]:
        """Return a skill and the bytes of one of its files; raises as ``get``.

        Raises:
            OutsideSkill: the path leads out of the skill, or through a link.
            NotFound: also if the skill has no such file.
            Drifted: also if the file changed since the skill was verified.
        """
        served, loaded = self._find(name)
        return served, loaded.folder.read(path, FILE_MAX)

    def _refresh(self) -> None:
        self._catalog = catalog_of(self._profile, self.around, cache=self._cache)

    def _is_served(self, skill: Skill) -> bool:
        is_here = skill.path is not None and not skill.is_elsewhere and not skill.is_command
        is_allowed = skill.state == "enabled" and skill.held is None and skill.permission == "allow"
        is_known = isinstance(skill.locks, Locks) and skill.tree is not None if skill.managed else self._everything
        return is_here and is_allowed and is_known

    def _find(self, name: str, request: Request | None = None) -> tuple[ServedSkill, Loaded]:
        with self._lock:
            for is_last in (False, True):
                skill = next((skill for skill in self._catalog.named(name) if skill.full_name == name), None)
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
                    self._refresh()  # the catalogue may be out of date
        if skill is not None and skill.held is not None:
            kind = Drifted if skill.held.status == "drifted" else held_error(skill)
            raise kind(skill.why["message"], hint=skill.why["command"] or None)
        if skill is not None and not skill.managed and skill.state == "enabled" and not self._everything:
            hint = "the user can have it served with skillhub mcp --all, or lock it with skillhub adopt"
            raise NotFound(f"the skill {quote(name)} is in no lock, so it is not served", hint=hint)
        raise NotFound(f"no skill {quote(name)} is served", hint="skillhub catalog lists the skills")

    def _described(self, skill: Skill, folder: Folder | None = None) -> ServedSkill:
        """Return a skill with its files, from memory if it did not change."""
        path = skill.path or ""
        known_proof, remembered = self._known.get(path, (None, None))
        if remembered is not None and skill.managed and known_proof == skill.tree:
            return replace(remembered, skill=skill)  # the catalogue verified this tree just now
        began = None if folder is not None else time_ns()  # before the read, so that later changes are noticed
        if folder is None:
            folder = Folder(path, () if skill.managed else NOT_THE_SKILLS)
            if isinstance(skill.locks, Locks) and skill.managed and skill.tree:
                folder.hold_to(skill.locks.agreed(skill.tree))
        proof = skill.tree if skill.managed else folder.stamps
        if remembered is not None and known_proof == proof:
            return replace(remembered, skill=skill)
        listing = folder.listing or Listing(folder.hashed())
        files = tuple(
            ServedFile(name, Digest(f"sha256:{listed.sha256}"), int(folder.stamps[name].partition(" ")[0]))
            for name, listed in listing.items()
        )
        served = ServedSkill(skill, listing.digest, files, typed_front(folder.read(SKILL_MD, FILE_MAX)))
        stamps = folder.stamps.values()
        is_kept = skill.managed or (began is not None and all(is_settled(stamp, began) for stamp in stamps))
        if is_kept:
            self._known[path] = proof, served
        return served


def typed_front(skill_md: bytes) -> Mapping[str, Any] | None:
    """Return the frontmatter with the types of YAML 1.2; None if only a lenient reader can parse it."""
    try:
        front = yaml.typed(split(skill_md, SKILL_MD).yaml, SKILL_MD, line_offset=1)
        json.dumps(front, ensure_ascii=False).encode()
    except (FormatError, UnicodeEncodeError):
        return None
    return front if isinstance(front, dict) else None


# The URIs of a skill's files, their media types, and the provenance of a skill.

SCHEME: Final = "skill://"
FILES_MAX: Final = 512
SIZE_MAX: Final = 16 * 1024 * 1024
DIRECTORY: Final = "inode/directory"
PREFIX: Final = "io.github.skillhub/"
_MARKDOWN: Final = "text/markdown"
# No skill has a dot in its name, so these prefixes are no names of skills.
_NAMESPACE, _ALIAS = "of.", "as."
_URI_MAX: Final = 8192
_OURS: Final = {
    **{".md": _MARKDOWN, ".markdown": _MARKDOWN, ".json": "application/json", ".yaml": "application/yaml"},
    **{".yml": "application/yaml", ".toml": "application/toml", ".sh": "text/x-shellscript", ".ts": "text/plain"},
}
# Only Python's own table, since the files of the system differ between machines.
_TYPES: Final = MimeTypes(filenames=())


def why_not(served: ServedSkill) -> str | None:
    """Return why a skill does not meet the stricter format and limits of resources; None if it does."""
    front = served.front
    if front is None:
        return "its frontmatter is not valid YAML"
    name, description = front.get("name"), front.get("description")
    if not (isinstance(name, str) and is_name(name)):
        return "its name has other characters than a-z, 0-9 and single hyphens"
    if not (isinstance(description, str) and description):
        return "its description is not text"
    if len(served.files) > FILES_MAX:
        return f"it has more than {FILES_MAX} files"
    if sum(file.size for file in served.files) > SIZE_MAX:
        return f"its files have more than {SIZE_MAX} bytes"
    return None


def uri_of(served: ServedSkill, path: str = SKILL_MD) -> str:
    """Return the URI of a file or a folder of a skill; with an empty ``path``, of the skill's own folder."""
    skill = served.skill
    name = str((served.front or {}).get("name"))
    parts = [f"{_NAMESPACE}{skill.namespace}"] if skill.namespace else []
    parts += [f"{_ALIAS}{skill.name}"] if skill.name != name else []
    location = "/".join([*parts, name, *([path] if path else [])])
    return SCHEME + percent_encode(location, safe="/!$&'()*+,;=:@~", errors="surrogateescape")


def located(uri: str) -> tuple[str, str]:
    """Return the name of the skill, and the path in it, of a URI.

    The caller compares the URI with ``uri_of`` for both, since several URIs may lead to the same file.

    Raises:
        NotFound: the URI does not have the form of a skill's file.
    """
    match = re.fullmatch(r"skill://(?:of\.([^/]+)/)?(?:as\.([^/]+)/)?([^/]+)((?:/[^/?#]+)*)", uri[:_URI_MAX])
    if match is None or len(uri) > _URI_MAX:
        raise NotFound(f"no skill is served at {quote(uri[:200])}")
    namespace, alias, name, path = match.groups()
    full_name = f"{namespace}:{alias or name}" if namespace else alias or name
    return full_name, percent_decode(path[1:], errors="surrogateescape")


def mime_type_of(path: str, is_text: bool | None = None) -> str:
    """Return the media type of a file by its suffix; for an unknown suffix by ``is_text``, if the caller knows it."""
    name = path.rpartition("/")[2]
    ending = name[name.rfind(".") :].lower() if "." in name else ""
    guessed = _OURS.get(ending) or _TYPES.guess_type(f"x{ending}", strict=True)[0]
    return guessed or ("text/plain" if is_text else "application/octet-stream")


def provenance(served: ServedSkill) -> dict[str, Any]:
    """Return the source, version, tree and signers of a skill, and which of these facts were verified."""
    skill = served.skill
    is_signed = skill.managed and skill.trust == "signed"
    facts = {
        "locked": skill.managed,
        **members(skill, "source", "version"),
        "tree": served.tree,
        "signed_by": [signer.to_json(skill.vouched_by) for signer in skill.signed_by],
        "verified": {"tree": skill.managed, "consent": skill.managed, "signature": is_signed},
    }
    return all_masked(facts)  # type: ignore[no-any-return]


def meta(served: ServedSkill) -> dict[str, Any]:
    """Return ``provenance`` for ``_meta``: each key with skillhub's prefix, without unknown values."""
    return {PREFIX + key: value for key, value in provenance(served).items() if value is not None}


# The tools of the MCP server, for clients without support of resources: search, load, read a file; all read-only.

_TEXT_MAX: Final = 100_000  # characters of a file in one answer, the default of ``limit``
_BLOB_MAX: Final = 1024 * 1024

SkillRef = Annotated[str, Field(max_length=200, description="The name of the skill, as search_skills gives it.")]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SkillQuery(_Model):
    """Search the installed skills by name and purpose. Use it before a task that a skill may describe."""

    query: str = Field(max_length=2000, description="A name, the beginning of a name, or words about the task.")
    limit: int = Field(8, ge=1, le=LIMIT_MAX, description="The number of results.")


class SkillToLoad(_Model):
    """Load the instructions of a skill, to follow them in this conversation, and the list of its other files."""

    name: SkillRef
    arguments: str = Field("", max_length=20_000, description="The text for placeholders in the instructions.")


class FileToRead(_Model):
    """Read a file that the instructions of a skill refer to, by its path in the skill."""

    name: SkillRef
    path: str = Field(max_length=1024, description="The path in the skill, such as references/style.md.")
    offset: int = Field(0, ge=0, description="The first character of a text to return.")
    limit: int = Field(_TEXT_MAX, ge=1, le=1_000_000, description="The number of characters of a text to return.")


class SkillHit(_Model):
    """A skill in the results of a search."""

    name: str
    description: str
    uri: str | None = Field(description="The resource with its instructions.")
    score: float
    reason: str = Field(description="What matched: exact_name, prefix, token_overlap or spelling.")


class SkillHits(_Model):
    """The results of a search, the best first."""

    results: list[SkillHit]
    count: int
    truncated: bool = Field(description="Whether more skills match.")


class SkillInstructions(_Model):
    """A loaded skill."""

    name: str
    text: str = Field(description="The instructions, with the folder and the files of the skill.")
    uri: str | None
    files: list[str] = Field(description="The paths of its other files, for read_skill_file.")
    provenance: dict[str, Any] = Field(description="Source, version, tree, signers, and what was verified.")


class SkillFileContent(_Model):
    """A file of a skill, or a part of it: text, or base64 if it is not UTF-8."""

    name: str
    path: str
    uri: str | None
    mime_type: str
    size: int = Field(description="Bytes of the whole file.")
    digest: str = Field(description="SHA-256 of the whole file.")
    encoding: Literal["text", "base64"]
    content: str
    next_offset: int | None = Field(description="Where the rest of the text begins; null at its end.")


class _Tool(NamedTuple):
    takes: type[_Model]
    gives: type[_Model]
    run: Callable[[Any, ServedContent], tuple[_Model, str]]


def _search(params: SkillQuery, content: ServedContent) -> tuple[_Model, str]:
    served = {entry.name: entry for entry in content.skills() if may_invoke(entry.skill, "model")}
    rows = (
        Stored(name=name, description=entry.skill.description, path=f"/{name}", scope=entry.skill.scope)
        for name, entry in served.items()
    )
    with SearchIndex.build(rows) as index:
        result = search(params.query, [index], params.limit)
    hits = [
        SkillHit(name=hit.name, description=safe(hit.description), uri=uri, score=hit.score, reason=hit.reason)
        for hit, uri in ((hit, _uri(served[hit.name])) for hit in result.hits)
    ]
    answer = SkillHits(results=hits, count=len(hits), truncated=result.truncated)
    return answer, safe(answer.model_dump_json())


def _load(params: SkillToLoad, content: ServedContent) -> tuple[_Model, str]:
    served, loaded = content.load(params.name, "model", params.arguments)
    text = inject(loaded)
    files = [clean(name) for name in loaded.files]
    origin = provenance(served)
    answer = SkillInstructions(name=served.name, text=text, uri=_uri(served), files=files, provenance=origin)
    return answer, text


def _read(params: FileToRead, content: ServedContent) -> tuple[_Model, str]:
    if params.path == SKILL_MD:
        content.load(params.name, "model")  # raises if only the user may load these instructions
    served, data = content.read(params.name, params.path)
    (file,) = (file for file in served.files if file.path == params.path)
    end = params.offset + params.limit
    is_text = True
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        if len(data) > _BLOB_MAX:
            message = f"{quote(params.path)} is not text, and has more than {_BLOB_MAX} bytes"
            raise UsageError(message, hint="read it as a resource") from error
        text, is_text = b64encode(data).decode("ascii"), False
    part = text[params.offset : end] if is_text else text
    answer = SkillFileContent(
        name=served.name,
        path=params.path,
        uri=_uri(served, params.path),
        mime_type=mime_type_of(params.path, is_text),
        size=file.size,
        digest=file.digest,
        encoding="text" if is_text else "base64",
        content=part,
        next_offset=end if is_text and end < len(text) else None,
    )
    return answer, part


def _uri(served: ServedSkill, path: str = SKILL_MD) -> str | None:
    return uri_of(served, path) if why_not(served) is None else None


_TOOLS: Final[Mapping[str, _Tool]] = {
    "search_skills": _Tool(SkillQuery, SkillHits, _search),
    "load_skill": _Tool(SkillToLoad, SkillInstructions, _load),
    "read_skill_file": _Tool(FileToRead, SkillFileContent, _read),
}
_CHANGES_NOTHING: Final = {
    **{"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}
}


def tool_list() -> list[dict[str, Any]]:
    """Return the tools in the form of ``tools/list``."""
    return [
        {
            "name": name,
            "title": name.replace("_", " ").capitalize(),
            "description": tool.takes.__doc__,
            "inputSchema": tool.takes.model_json_schema(),
            "outputSchema": tool.gives.model_json_schema(mode="serialization"),
            "annotations": _CHANGES_NOTHING,
        }
        for name, tool in _TOOLS.items()
    ]


def run_tool(name: str, arguments: Mapping[str, Any], content: ServedContent) -> dict[str, Any]:
    """Return the result of a call; invalid arguments and errors are results with ``isError``.

    Raises:
        NotFound: there is no such tool.
    """
    tool = _TOOLS.get(name)
    if tool is None:
        raise NotFound(f"there is no tool {quote(name)}")
    try:
        answer, text = tool.run(tool.takes.model_validate(arguments), content)
    except ValidationError as error:
        return _failed(f"invalid arguments: {faults(error)}")
    except SkillhubError as error:
        return _failed(told_to_model(error))
    return {"content": [{"type": "text", "text": text}], "structuredContent": answer.model_dump(mode="json")}


def _failed(message: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": safe(clean(message))}], "isError": True}

"""The tools of the MCP server, for clients without support of resources: search, load, read a file; all read-only."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from skillhub.errors import NotFound, SkillhubError, UsageError
from skillhub.formats.document import faults
from skillhub.formats.text import clean, quote
from skillhub.model.tree import SKILL_MD
from skillhub.runtime.envelope import inject, told_to_model
from skillhub.runtime.mention_resolver import may_invoke
from skillhub.runtime.ranking import LIMIT_MAX, SearchIndex, Stored, search
from skillhub.server.content import ServedContent, ServedSkill, mime_type_of, provenance, uri_of, why_not

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
    with closing(SearchIndex.build(rows)) as index:
        result = search(params.query, [index], params.limit)
    hits = [
        SkillHit(
            name=hit.name, description=hit.description, uri=_uri(served[hit.name]), score=hit.score, reason=hit.reason
        )
        for hit in result.hits
    ]
    answer = SkillHits(results=hits, count=len(hits), truncated=result.truncated)
    return answer, answer.model_dump_json()


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
    return {"content": [{"type": "text", "text": clean(message)}], "isError": True}

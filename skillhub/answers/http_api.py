"""The HTTP API: the parameters of its routes and methods, its own answers, and its OpenAPI document."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter

from skillhub import __version__
from skillhub.answers.reading import ForkRow, HookRow
from skillhub.answers.setup import ErrorAnswer, ErrorRow
from skillhub.answers.skills import AnswerRow, Json, JsonAnswer, NeedRow, SkillRow, Text, Texts
from skillhub.formats.document import input_schema
from skillhub.model.hosts import SkillScope, profiles
from skillhub.model.skill import State
from skillhub.runtime.ranking import LIMIT, LIMIT_MAX

# The OpenAPI document.

_REF: Final = "#/components/schemas/{model}"


@dataclass(frozen=True, slots=True)
class DescribedRoute:
    """One route.

    Attributes:
        method: GET, or POST if the parameters may be long.
        path: The path, with fields of ``takes`` in braces.
        summary: One line that describes the answer.
        takes: The class of the parameters in path and query, or in the body; ``Any`` for any JSON in the body.
        gives: The type of the answer.
        media: The media types of an answer that is not JSON.
    """

    method: Literal["GET", "POST"]
    path: str
    summary: str
    takes: Any
    gives: Any
    media: tuple[str, ...] = ()


@cache
def adapter_of(kind: Any) -> TypeAdapter[Any]:  # noqa: ANN401 - any type
    """Return the adapter that reads and writes values of a type; each is made once."""
    return TypeAdapter(kind)


@lru_cache(8)
def openapi(routes: tuple[DescribedRoute, ...], url: str, *, has_token: bool) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of the routes of a server at this URL."""
    described = (kind for route in routes for kind in (route.gives, route.takes))
    kinds = {id(each): each for each in (ErrorAnswer, *described)}
    schemas, defined = TypeAdapter.json_schemas(
        [(key, "validation", adapter_of(kind)) for key, kind in kinds.items()], ref_template=_REF
    )
    by_kind = {key: schema for (key, _), schema in schemas.items()}
    paths: dict[str, Any] = {}
    for route in routes:
        operation = _operation(route, by_kind[id(route.takes)], by_kind[id(route.gives)])
        content = {"application/json": {"schema": by_kind[id(ErrorAnswer)]}}
        operation["responses"]["default"] = {"description": "An error", "content": content}
        paths.setdefault(route.path, {})[route.method.lower()] = operation
    scheme = {"token": {"type": "http", "scheme": "bearer"}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "skillhub", "version": __version__},
        "servers": [{"url": url}],
        "paths": paths,
        "components": {"schemas": defined["$defs"], **({"securitySchemes": scheme} if has_token else {})},
        "security": [{"token": []}] if has_token else [],
    }


def _operation(route: DescribedRoute, taken: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    bodies: dict[str, Any] = {each: {"schema": {}} for each in route.media} or {"application/json": {"schema": given}}
    responses: dict[str, Any] = {"200": {"description": route.summary, "content": bodies}}
    operation: dict[str, Any] = {"summary": route.summary, "operationId": _id_of(route), "responses": responses}
    if route.method == "POST":
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": taken}}}
        if route.takes is Any:
            responses["204"] = {"description": "Only notifications"}
        return operation
    schema = route.takes.model_json_schema()
    operation["parameters"] = [
        {
            "name": name,
            "in": "path" if f"{{{name}}}" in route.path else "query",
            "required": name in schema.get("required", ()),
            "schema": input_schema(field),
        }
        for name, field in schema.get("properties", {}).items()
    ]
    return operation


def _id_of(route: DescribedRoute) -> str:
    parts = route.path.replace("{", "").replace("}", "").split("/")
    words = [part for part in parts if part not in ("", "api", "v1")]
    return "-".join([route.method.lower(), *words])


# The answers that no command has: pages, tools, needs, changes, errors, other programs' forms.


class SkillsPageAnswer(JsonAnswer):
    """A page of the installed skills, sorted by name; ``next`` is the cursor of the next page."""

    skills: tuple[SkillRow, ...]
    total: int
    next: Text | None


class ToolRow(AnswerRow):
    """A tool for a model's API; ``parameters`` is JSON Schema."""

    name: Text
    description: Text
    parameters: dict[Text, Json]


class ToolsAnswer(JsonAnswer):
    """The tools of a host."""

    host: Text
    tools: tuple[ToolRow, ...]


class ToolResultAnswer(JsonAnswer):
    """The result of a tool call; after an error, ``text`` tells the model the reason.

    ``error`` is for the user: its ``hint`` may have the command that lifts a block, which the model does not get.
    """

    text: Text
    is_error: bool
    metadata: dict[Text, Json]
    tools: Texts | None
    fork: ForkRow | None
    hooks: tuple[HookRow, ...]
    error: ErrorRow | None


class SkillNeedsRow(AnswerRow):
    """The needs of one skill; ``open`` are the required needs that are not satisfied."""

    name: Text
    scope: SkillScope
    state: State
    requires: tuple[NeedRow, ...]
    open: Texts


class NeedsAnswer(JsonAnswer):
    """The needs of the installed skills."""

    skills: tuple[SkillNeedsRow, ...]


class ChangeAnswer(JsonAnswer):
    """The paths of the skills that were added, removed or changed in agents' folders since the last event."""

    added: Texts
    removed: Texts
    changed: Texts


class OpenCodeSkillRow(AnswerRow):
    """A skill in the form of OpenCode's ``GET /skill``."""

    name: Text
    description: Text
    location: Text
    content: Text


class RpcErrorRow(AnswerRow):
    """An error of JSON-RPC 2.0; ``data`` is the error of the API."""

    code: int
    message: Text
    data: dict[Text, Json] | None = None


class RpcResponseRow(AnswerRow):
    """A response of JSON-RPC 2.0: a result or an error."""

    jsonrpc: Literal["2.0"]
    id: str | int | float | None
    result: Any = None
    error: RpcErrorRow | None = None


# The parameters of each route, in URL or body, and of each method of RPC.

_PAGE = 100
_PAGE_MAX = 500
_TEXT_MAX = 100_000


def _known(host: str) -> str:
    if host not in profiles():
        raise ValueError(f"expected one of {', '.join(profiles())}")
    return host


_Host = Annotated[
    str,
    AfterValidator(_known),
    Field(
        description="The agent whose folders, rules and texts are used.", json_schema_extra={"enum": [*profiles()]}
    ),
]
_Name = Annotated[str, Field(min_length=1, max_length=200, description="The name of a skill.")]


class RouteParameters(BaseModel):
    """The parameters of a route: fields of its path and query, or of its body; others are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class NoParameters(RouteParameters):
    """No parameters."""


class PageParameters(RouteParameters):
    """A page of the skills."""

    limit: int = Field(_PAGE, ge=1, le=_PAGE_MAX, description="How many skills the page has at most.")
    cursor: str | None = Field(None, max_length=400, description="``next`` of the page before.")


class SkillParameters(RouteParameters):
    """One skill."""

    name: _Name


class FileParameters(SkillParameters):
    """One file of a skill."""

    path: str = Field(min_length=1, max_length=1024, description="The file, with / between segments.")


class SearchParameters(RouteParameters):
    """A search."""

    q: str = Field(min_length=1, max_length=1000, description="A name, its beginning, words of the text, or a path.")
    limit: int = Field(LIMIT, ge=1, le=LIMIT_MAX, description="How many hits to return at most.")
    host: _Host = "agents"


class CatalogParameters(RouteParameters):
    """The host of a catalogue."""

    host: _Host = "agents"
    window: int | None = Field(None, ge=1, le=100_000_000, description="The size of the model's context, in tokens.")


class CallParameters(RouteParameters):
    """A tool call of a model."""

    host: _Host = "agents"
    name: str = Field(min_length=1, max_length=200, description="The name of the tool.")
    arguments: dict[str, Any] = Field(default={}, description="As the model gave them.")
    session: str = Field("", max_length=200, description="The id of the conversation.")


class ResolveParameters(RouteParameters):
    """A user's message."""

    text: str = Field(max_length=_TEXT_MAX, description="A user's message to an agent.")
    host: _Host = "agents"


class LoadParameters(RouteParameters):
    """A skill that a user loads."""

    name: _Name
    path: str | None = Field(None, max_length=4096, description="Its folder, if several skills have the name.")
    arguments: str = Field("", max_length=_TEXT_MAX, description="What is inserted into its instructions.")
    session: str = Field("", max_length=200, description="The id of the conversation, inserted likewise.")
    host: _Host = "agents"


class OpenCodeParameters(RouteParameters):
    """A folder of the project."""

    directory: str | None = Field(None, max_length=4096, description="A folder of the project, absolute.")


class Params(BaseModel):
    """The parameters of a method; others are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ListParams(Params):
    """The parameters of ``skills.list``."""

    cwd: str | None = Field(None, max_length=4096)
    force_reload: bool = False


class SearchParams(Params):
    """The parameters of ``skills.search``."""

    query: str = Field(min_length=1, max_length=1000)
    limit: int = Field(LIMIT, ge=1, le=LIMIT_MAX)
    scope: Literal["repo", "user"] | None = None


class LoadParams(Params):
    """The parameters of ``skills.load``: a name or a path is required."""

    name: str | None = Field(None, min_length=1, max_length=200)
    path: str | None = Field(None, min_length=1, max_length=4096)
    arguments: str = Field("", max_length=100_000)
    session: str = Field("", max_length=200)


class InspectParams(Params):
    """The parameters of ``context.inspect``."""

    include_skills: bool = False


class CodexParams(Params):
    """The parameters of Codex's ``skills/list``."""

    cwds: list[str] = Field(default=[], max_length=16)
    thread_id: None = Field(None, alias="threadId")
    force_reload: bool = Field(False, alias="forceReload")

"""The routes of the HTTP API: what each takes and answers; the OpenAPI document is generated from these classes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from hashlib import sha256
from os import fsencode
from typing import Any, Final, Literal

from pydantic import TypeAdapter

from skillhub import __version__
from skillhub.answers import VERSION
from skillhub.answers.requests import (
    CallTaken,
    CatalogTaken,
    FileTaken,
    LoadTaken,
    NothingTaken,
    OneTaken,
    OpenCodeTaken,
    PageTaken,
    ResolveTaken,
    SearchTaken,
)
from skillhub.answers.served import (
    ChangeAnswer,
    NeedsAnswer,
    OpenCodeSkillRow,
    RpcResponseRow,
    SkillsPageAnswer,
    ToolResultAnswer,
    ToolsAnswer,
)
from skillhub.answers.setup import ErrorAnswer
from skillhub.answers.skills import CatalogAnswer, JsonAnswer, LoadAnswer, ResolveAnswer, SearchAnswer, ShowAnswer
from skillhub.audit.show import search
from skillhub.errors import NotFound, SkillhubError
from skillhub.formats.text import quote
from skillhub.model.record import Skill
from skillhub.runtime.envelope import to_json
from skillhub.runtime.loading import Request, Session, load, pick
from skillhub.runtime.overview import section
from skillhub.runtime.resolve import MentionRules, mentioned
from skillhub.runtime.toolset import call_tool, tools
from skillhub.server.rpc import answer_rpc
from skillhub.server.workplace import Workplace

_REF: Final = "#/components/schemas/{model}"


@dataclass(frozen=True, slots=True)
class Route:
    """One route; none changes anything.

    Attributes:
        method: GET, or POST where what it takes may be long.
        path: With the fields of ``takes`` that stand in it in braces.
        summary: What it answers, one line.
        takes: What stands in its path and query, or in its body; ``Any`` for a body that ``run`` reads itself.
        run: Returns the answer: as ``gives`` has it, or bytes; None where the answer is a stream.
        gives: The type of the answer.
        media: The types of what is no JSON.
    """

    method: Literal["GET", "POST"]
    path: str
    summary: str
    takes: Any
    run: Callable[[Workplace, Any], Any] | None
    gives: Any = bytes
    media: tuple[str, ...] = ()

    def answer(self, workplace: Workplace, taken: object) -> Any:  # noqa: ANN401 - JSON, or bytes
        """Return what the route answers, as the class of its answer has it."""
        value: Any = self.run(workplace, taken) if self.run else b""
        if self.media or value is None:
            return value
        if isinstance(self.gives, type) and issubclass(self.gives, JsonAnswer):
            value = dict(value) | {"schema": VERSION}
        adapter = adapter_of(self.gives)
        return adapter.dump_python(adapter.validate_python(value), by_alias=True, exclude_unset=True)


@cache
def adapter_of(kind: Any) -> TypeAdapter[Any]:  # noqa: ANN401 - any type
    """Return what reads and writes values of a type, made once."""
    return TypeAdapter(kind)


def _place_of(skill: Skill) -> str:
    """Return what skills are sorted by, and where a page ends: several may have one name."""
    return f"{skill.name} {skill.scope} {sha256(fsencode(skill.path or '')).hexdigest()[:8]}"


def _skills(workplace: Workplace, taken: PageTaken) -> dict[str, Any]:
    every = sorted(workplace.skills(), key=_place_of)
    rest = [skill for skill in every if taken.cursor is None or _place_of(skill) > taken.cursor]
    page = rest[: taken.limit]
    return {
        "skills": [skill.to_json() for skill in page],
        "total": len(every),
        "next": _place_of(page[-1]) if len(rest) > len(page) else None,
    }


def _show(workplace: Workplace, taken: OneTaken) -> dict[str, Any]:
    return workplace.show(taken.name)


def _search(workplace: Workplace, taken: SearchTaken) -> dict[str, Any]:
    skills = [skill for skill in workplace.seen(taken.host)[1].skills if skill.path]
    return search(taken.q, skills, taken.limit).to_json()


def _catalog(workplace: Workplace, taken: CatalogTaken) -> dict[str, Any]:
    row, catalog = workplace.seen(taken.host)
    return section(catalog, row, taken.window).to_json()


def _tools(workplace: Workplace, taken: CatalogTaken) -> dict[str, Any]:
    row, catalog = workplace.seen(taken.host)
    return {"host": row.id, "tools": [tool.to_json() for tool in tools(row, catalog, taken.window)]}


def _call(workplace: Workplace, taken: CallTaken) -> dict[str, Any]:
    row, catalog = workplace.seen(taken.host)
    known = [tool.name for tool in tools(row, catalog)]
    if taken.name not in known:
        raise NotFound(f"{row.name} has no tool {quote(taken.name)}", hint=f"its tools: {', '.join(known) or 'none'}")
    result = call_tool(row, catalog, taken.name, taken.arguments, Request(session=Session(taken.session)))
    loaded = result.loaded
    return {
        "text": result.text,
        "is_error": result.is_error,
        "metadata": dict(result.metadata),
        "tools": loaded.tools if loaded else None,
        "fork": result.fork.to_json() if result.fork else None,
        "hooks": [hook.to_json() for hook in loaded.hooks] if loaded else [],
    }


def _resolve(workplace: Workplace, taken: ResolveTaken) -> dict[str, Any]:
    row, catalog = workplace.seen(taken.host)
    return mentioned(taken.text, catalog, rules=MentionRules(leads=len(catalog.skills) if row.many else 1)).to_json()


def _load(workplace: Workplace, taken: LoadTaken) -> dict[str, Any]:
    row, catalog = workplace.seen(taken.host)
    request = Request(arguments=taken.arguments, session=Session(taken.session), rules=row.rules)
    return to_json(load(pick(catalog, taken.name, taken.path), request), row)


def _needs(workplace: Workplace, taken: NothingTaken) -> dict[str, Any]:
    rows = [
        {
            "name": skill.name,
            "scope": skill.scope,
            "state": skill.state,
            "requires": [need.to_json() for need in skill.requires],
            "open": [f"{need.kind}:{need.name}" for need in skill.requires if need.open],
        }
        for skill in workplace.skills()
    ]
    return {"skills": rows}


def _opencode(workplace: Workplace, taken: OpenCodeTaken) -> list[dict[str, Any]]:
    found = []
    for skill in workplace.seen("opencode", taken.directory)[1].skills:
        with suppress(SkillhubError):  # of what may not be loaded nothing is told
            row = {"name": skill.full_name, "description": skill.description, "location": skill.file}
            found.append({**row, "content": load(skill, Request(caller="model")).body})
    return found


def _file(workplace: Workplace, taken: FileTaken) -> bytes:
    return workplace.content.read(taken.name, taken.path)[1]


FILES, EVENTS = ("text/plain", "application/octet-stream"), ("text/event-stream",)
_Rpc = RpcResponseRow | list[RpcResponseRow]
ROUTES: Final = (
    Route("GET", "/api/v1/skills", "What is installed, in pages", PageTaken, _skills, SkillsPageAnswer),
    Route("GET", "/api/v1/skills/{name}", "One skill, its manifest and files", OneTaken, _show, ShowAnswer),
    Route("GET", "/api/v1/skills/{name}/files/{path}", "One file of a skill", FileTaken, _file, media=FILES),
    Route("GET", "/api/v1/search", "Search what is installed", SearchTaken, _search, SearchAnswer),
    Route(
        "GET", "/api/v1/catalog", "What an agent's model sees of the skills", CatalogTaken, _catalog, CatalogAnswer
    ),
    Route("GET", "/api/v1/tools", "An agent's tools, for its model's API", CatalogTaken, _tools, ToolsAnswer),
    Route("POST", "/api/v1/tools/call", "What such a tool returns", CallTaken, _call, ToolResultAnswer),
    Route("POST", "/api/v1/resolve", "Which skills a message names", ResolveTaken, _resolve, ResolveAnswer),
    Route("POST", "/api/v1/load", "What an agent gets of a skill", LoadTaken, _load, LoadAnswer),
    Route("GET", "/api/v1/needs", "What the skills need", NothingTaken, _needs, NeedsAnswer),
    Route("GET", "/api/v1/events", "Changes, as they happen", NothingTaken, None, ChangeAnswer, EVENTS),
    Route("GET", "/skill", "The skills, as OpenCode has them", OpenCodeTaken, _opencode, list[OpenCodeSkillRow]),
    Route("POST", "/rpc", "JSON-RPC 2.0", Any, answer_rpc, _Rpc),
)


@lru_cache(8)
def openapi(url: str, *, has_token: bool) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of the routes."""
    kinds = {
        id(each): each for each in (ErrorAnswer, *(kind for route in ROUTES for kind in (route.gives, route.takes)))
    }
    schemas, defined = TypeAdapter.json_schemas(
        [(key, "validation", adapter_of(kind)) for key, kind in kinds.items()], ref_template=_REF
    )
    by_kind = {key: schema for (key, _), schema in schemas.items()}
    paths: dict[str, Any] = {}
    for route in ROUTES:
        operation = _operation(route, by_kind[id(route.takes)], by_kind[id(route.gives)])
        operation["responses"]["default"] = {
            "description": "An error",
            "content": {"application/json": {"schema": by_kind[id(ErrorAnswer)]}},
        }
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


def _operation(route: Route, taken: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
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
            "schema": _plain(field),
        }
        for name, field in schema.get("properties", {}).items()
    ]
    return operation


def _id_of(route: Route) -> str:
    words = [
        word for word in route.path.replace("{", "").replace("}", "").split("/") if word not in ("", "api", "v1")
    ]
    return "-".join([route.method.lower(), *words])


def _plain(field: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a parameter; one that may be left out is not null besides."""
    options = [each for each in field.get("anyOf", ()) if each != {"type": "null"}]
    kept = {key: each for key, each in field.items() if key not in ("anyOf", "title", "default")}
    return {**options[0], **kept} if options else kept

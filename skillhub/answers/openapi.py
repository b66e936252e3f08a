"""The OpenAPI document of an HTTP API, generated from the classes of what its routes take and answer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Final, Literal

from pydantic import TypeAdapter

from skillhub import __version__
from skillhub.answers.setup import ErrorAnswer

_REF: Final = "#/components/schemas/{model}"


@dataclass(frozen=True, slots=True)
class DescribedRoute:
    """One route.

    Attributes:
        method: GET, or POST where what it takes may be long.
        path: With the fields of ``takes`` that stand in it in braces.
        summary: What it answers, one line.
        takes: What stands in its path and query, or in its body; ``Any`` for any JSON in the body.
        gives: The type of the answer.
        media: The types of an answer that is no JSON.
    """

    method: Literal["GET", "POST"]
    path: str
    summary: str
    takes: Any
    gives: Any
    media: tuple[str, ...] = ()


@cache
def adapter_of(kind: Any) -> TypeAdapter[Any]:  # noqa: ANN401 - any type
    """Return what reads and writes values of a type, made once."""
    return TypeAdapter(kind)


@lru_cache(8)
def openapi(routes: tuple[DescribedRoute, ...], url: str, *, has_token: bool) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of the routes that a server has at this URL."""
    kinds = {
        id(each): each for each in (ErrorAnswer, *(kind for route in routes for kind in (route.gives, route.takes)))
    }
    schemas, defined = TypeAdapter.json_schemas(
        [(key, "validation", adapter_of(kind)) for key, kind in kinds.items()], ref_template=_REF
    )
    by_kind = {key: schema for (key, _), schema in schemas.items()}
    paths: dict[str, Any] = {}
    for route in routes:
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
            "schema": _plain(field),
        }
        for name, field in schema.get("properties", {}).items()
    ]
    return operation


def _id_of(route: DescribedRoute) -> str:
    words = [
        word for word in route.path.replace("{", "").replace("}", "").split("/") if word not in ("", "api", "v1")
    ]
    return "-".join([route.method.lower(), *words])


def _plain(field: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a parameter; one that may be left out is not null besides."""
    options = [each for each in field.get("anyOf", ()) if each != {"type": "null"}]
    kept = {key: each for key, each in field.items() if key not in ("anyOf", "title", "default")}
    return {**options[0], **kept} if options else kept

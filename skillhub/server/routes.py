"""The routes of the HTTP API: what each takes and answers; the OpenAPI document is generated from these classes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from os import fsencode
from typing import Any, Final

from skillhub.answers import VERSION, http_api
from skillhub.answers.http_api import DescribedRoute, adapter_of
from skillhub.answers.reading import CatalogAnswer, LoadAnswer, ResolveAnswer, SearchAnswer, ShowAnswer
from skillhub.answers.skills import JsonAnswer
from skillhub.audit.show import found_json, search
from skillhub.audit.workplace import Workplace
from skillhub.errors import NotFound, SkillhubError
from skillhub.formats.text import quote
from skillhub.model.record import Skill
from skillhub.runtime.envelope import to_json
from skillhub.runtime.loading import Request, Session, load, pick
from skillhub.runtime.meaning import MentionRules, mentioned
from skillhub.runtime.overview import section
from skillhub.runtime.toolset import call_tool, tools
from skillhub.server.rpc import answer_rpc

FILE: Final = "/api/v1/skills/{name}/files/{path}"
EVENTS: Final = "/api/v1/events"


@dataclass(frozen=True, slots=True)
class Route(DescribedRoute):
    """A route of the API; ``run`` returns the answer as ``gives`` has it, and is None where that is no JSON."""

    run: Callable[[Workplace, Any], Any] | None = None

    def answer(self, workplace: Workplace, taken: object) -> Any:  # noqa: ANN401 - JSON
        """Return what the route answers, as the class of its answer has it; None for nothing."""
        value = None if self.run is None else self.run(workplace, taken)
        if value is None:
            return None
        if isinstance(self.gives, type) and issubclass(self.gives, JsonAnswer):
            value = dict(value) | {"schema": VERSION}
        adapter = adapter_of(self.gives)
        return adapter.dump_python(adapter.validate_python(value), by_alias=True, exclude_unset=True)


def _place_of(skill: Skill) -> str:
    """Return what skills are sorted by, and where a page ends: several may have one name."""
    return f"{skill.name} {skill.scope} {sha256(fsencode(skill.path or '')).hexdigest()[:8]}"


def _skills(workplace: Workplace, taken: http_api.PageTaken) -> dict[str, Any]:
    every = sorted(workplace.skills(), key=_place_of)
    rest = [skill for skill in every if taken.cursor is None or _place_of(skill) > taken.cursor]
    page = rest[: taken.limit]
    return {
        "skills": [skill.to_json() for skill in page],
        "total": len(every),
        "next": _place_of(page[-1]) if len(rest) > len(page) else None,
    }


def _show(workplace: Workplace, taken: http_api.OneTaken) -> dict[str, Any]:
    return workplace.show(taken.name)


def _search(workplace: Workplace, taken: http_api.SearchTaken) -> dict[str, Any]:
    skills = [skill for skill in workplace.seen(taken.host)[1].skills if skill.path]
    return found_json(search(taken.q, skills, taken.limit), kept={})  # no source is asked


def _catalog(workplace: Workplace, taken: http_api.CatalogTaken) -> dict[str, Any]:
    row, catalog = workplace.seen(taken.host)
    return section(catalog, row, taken.window).to_json()


def _tools(workplace: Workplace, taken: http_api.CatalogTaken) -> dict[str, Any]:
    row, catalog = workplace.seen(taken.host)
    return {"host": row.id, "tools": [tool.to_json() for tool in tools(row, catalog, taken.window)]}


def _call(workplace: Workplace, taken: http_api.CallTaken) -> dict[str, Any]:
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


def _resolve(workplace: Workplace, taken: http_api.ResolveTaken) -> dict[str, Any]:
    row, catalog = workplace.seen(taken.host)
    leads = len(catalog.skills) if row.many else 1
    rules = MentionRules(leads=leads, folder=workplace.within(None).cwd)
    return mentioned(taken.text, catalog, rules=rules).to_json()


def _load(workplace: Workplace, taken: http_api.LoadTaken) -> dict[str, Any]:
    row, catalog = workplace.seen(taken.host)
    request = Request(arguments=taken.arguments, session=Session(taken.session), rules=row.rules)
    return to_json(load(pick(catalog, taken.name, taken.path), request), row)


def _needs(workplace: Workplace, taken: http_api.NothingTaken) -> dict[str, Any]:
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


def _opencode(workplace: Workplace, taken: http_api.OpenCodeTaken) -> list[dict[str, Any]]:
    found = []
    for skill in workplace.seen("opencode", taken.directory)[1].skills:
        with suppress(SkillhubError):  # of what may not be loaded nothing is told
            row = {"name": skill.full_name, "description": skill.description, "location": skill.file}
            found.append({**row, "content": load(skill, Request(caller="model")).body})
    return found


ROUTES: Final = (
    Route("GET", "/api/v1/skills", "What is installed", http_api.PageTaken, http_api.SkillsPageAnswer, run=_skills),
    Route(
        "GET", "/api/v1/skills/{name}", "One skill, its manifest and files", http_api.OneTaken, ShowAnswer, run=_show
    ),
    Route("GET", FILE, "One file of a skill", http_api.FileTaken, bytes, ("text/plain", "application/octet-stream")),
    Route("GET", "/api/v1/search", "Search what is installed", http_api.SearchTaken, SearchAnswer, run=_search),
    Route("GET", "/api/v1/catalog", "What an agent's model sees", http_api.CatalogTaken, CatalogAnswer, run=_catalog),
    Route("GET", "/api/v1/tools", "An agent's tools", http_api.CatalogTaken, http_api.ToolsAnswer, run=_tools),
    Route(
        "POST", "/api/v1/tools/call", "What a tool returns", http_api.CallTaken, http_api.ToolResultAnswer, run=_call
    ),
    Route(
        "POST",
        "/api/v1/resolve",
        "The skills that a message names",
        http_api.ResolveTaken,
        ResolveAnswer,
        run=_resolve,
    ),
    Route("POST", "/api/v1/load", "What an agent gets of a skill", http_api.LoadTaken, LoadAnswer, run=_load),
    Route("GET", "/api/v1/needs", "What the skills need", http_api.NothingTaken, http_api.NeedsAnswer, run=_needs),
    Route(
        "GET", EVENTS, "Changes, as they happen", http_api.NothingTaken, http_api.ChangeAnswer, ("text/event-stream",)
    ),
    Route(
        "GET",
        "/skill",
        "The skills of OpenCode",
        http_api.OpenCodeTaken,
        list[http_api.OpenCodeSkillRow],
        run=_opencode,
    ),
    Route(
        "POST", "/rpc", "JSON-RPC 2.0", Any, http_api.RpcResponseRow | list[http_api.RpcResponseRow], run=answer_rpc
    ),
)

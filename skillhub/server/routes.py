"""The routes of the HTTP API and the methods of JSON-RPC 2.0; the OpenAPI document is generated from them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import sha256
from os import fsencode
from threading import Lock
from typing import Any, Final, Literal

from pydantic import ValidationError

from skillhub.answers import VERSION, error_json, http_api
from skillhub.answers.reading import CatalogAnswer, LoadAnswer, ResolveAnswer, SearchAnswer, ShowAnswer
from skillhub.answers.skills import JsonAnswer
from skillhub.audit import show as shown
from skillhub.audit.show import found_json, search
from skillhub.command.ports import Ports
from skillhub.disk import files
from skillhub.errors import FormatError, NotFound, Refused, SkillhubError, UsageError
from skillhub.formats.digest import Digest
from skillhub.formats.document import faults
from skillhub.formats.json import members, strict_json
from skillhub.formats.text import quote
from skillhub.model.hosts import Profile, SkillScope, profile
from skillhub.model.manifest import split
from skillhub.model.reference import Named
from skillhub.model.skill import Skill
from skillhub.model.tree import SKILL_MD
from skillhub.project.store import Store
from skillhub.runtime.agent import catalog_naming, catalog_of, codex_rows, context_inspect, record
from skillhub.runtime.catalog import Catalog, Session
from skillhub.runtime.discover import Surroundings
from skillhub.runtime.envelope import inject, to_json
from skillhub.runtime.loading import Request, load, pick
from skillhub.runtime.mention_resolver import MentionRules, mentioned
from skillhub.runtime.overview import section
from skillhub.runtime.toolset import call_tool, tools
from skillhub.runtime.walk import Cache
from skillhub.scan import ScannedSkill
from skillhub.server.guard import BODY_MAX
from skillhub.sources.local import read_local

# The installed skills, and the catalogues of agents, read for each request; nothing is changed, and nothing runs.

_KEPT = 256  # trees whose scan results are kept


@dataclass(frozen=True)
class Workplace:
    """The project or user scope that a server shows.

    Attributes:
        ports: Opens the ports of a scope for one request, without a network.
        installed: Returns the installed skills, of a project and of the user scope.
        around: The surroundings in which agents run.
        warn: Prints a warning for the person who started the server.
    """

    ports: Callable[[SkillScope], AbstractContextManager[Ports]]
    installed: Callable[[], Sequence[Skill]]
    around: Surroundings
    warn: Callable[[str], None]
    _cache: Cache = field(default_factory=Cache, init=False)
    _one_at_a_time: Lock = field(default_factory=Lock, init=False)

    def skills(self) -> list[Skill]:
        """Return the installed skills, sorted by name and scope."""
        return sorted(self.installed(), key=lambda skill: (skill.name, skill.scope, skill.path or ""))

    def catalog_for(
        self, host: str, folder: str | None = None, reload: bool = False, name: str = ""
    ) -> tuple[Profile, Catalog]:
        """Return the profile of a host, and the catalogue that it sees in a folder of this project.

        With a ``name``, the catalogue is for one load of that name.

        Raises:
            UsageError: the host is unknown.
            Refused: the folder is not in the project.
        """
        row = profile(host)
        around = self.within(folder)
        with self._one_at_a_time:  # all threads share the cache
            if name:
                return row, catalog_naming(row, around, name, self._cache)
            return row, catalog_of(row, around, cache=self._cache, reload=reload)

    def within(self, folder: str | None) -> Surroundings:
        """Return the surroundings of an agent that works in a folder of this project.

        Raises:
            Refused: the folder is not an absolute path, or is not in the project.
        """
        if folder is None:
            return self.around
        if not os.path.isabs(folder) or "\0" in folder or not files.is_within(folder, self.around.cwd):
            message = f"expected a folder of this project, found {quote(folder)}"
            raise Refused(message, hint=f"an absolute path below {self.around.cwd}")
        return replace(self.around, cwd=folder)

    def skill_named(self, name: str) -> Skill:
        """Return an installed skill, that of the project before that of the user; raises NotFound."""
        skills = [skill for skill in self.skills() if skill.name == name]
        if not skills:
            raise NotFound(f"there is no skill {quote(name)}", hint="GET /api/v1/skills lists the installed skills")
        return min(skills, key=lambda skill: (not skill.managed, skill.scope == "user"))

    def contents(self, skill: Skill) -> ScannedSkill:
        """Return the scan result of a skill: of its tree in the store if it is locked, or else of its folder."""
        try:
            if skill.managed and skill.tree is not None:
                with self.ports(skill.scope) as ports:
                    return _scan_stored(skill.tree, os.path.dirname(ports.store.root))
            return ScannedSkill.read(read_local(skill.path or "").tree)
        except SkillhubError as error:
            return ScannedSkill((), None, error.message)


@lru_cache(_KEPT)
def _scan_stored(tree: Digest, data: str) -> ScannedSkill:
    stored = Store(data).read(tree)
    if stored is None:
        raise NotFound("the store does not hold it")
    return ScannedSkill.read(stored)


BATCH_MAX: Final = 50
# JSON-RPC 2.0: ``skills.list``, ``skills.search``, ``skills.load``, ``context.inspect``; Codex's ``skills/list``.

_PARSE_ERROR, _INVALID_REQUEST, _NO_METHOD, _INVALID_PARAMS, _REFUSED = -32700, -32600, -32601, -32602, -32000
_HOST: Final = "codelia"  # the host whose protocol has these methods


def _list(workplace: Workplace, params: http_api.ListParams) -> dict[str, Any]:
    _, catalog = workplace.catalog_for(_HOST, params.cwd, params.force_reload)
    rows = [record(skill, catalog) for skill in catalog.skills]
    errors = [problem.to_json() for problem in catalog.problems]
    # The draft of the protocol names the time ``mtimeMs``, its tools ``mtime_ms``.
    return {"skills": [{**row, "mtimeMs": row["mtime_ms"]} for row in rows], "errors": errors, "truncated": False}


def _search_for_rpc(workplace: Workplace, params: http_api.SearchParams) -> dict[str, Any]:
    result = call_tool(_HOST, workplace.catalog_for(_HOST)[1], "skill_search", params.model_dump(exclude_none=True))
    if result.is_error:
        raise UsageError(result.text)
    return dict(result.metadata)


def _load_for_rpc(workplace: Workplace, params: http_api.LoadParams) -> dict[str, Any]:
    if not (params.name or params.path):
        raise UsageError("expected a name or a path, found neither")
    row, catalog = workplace.catalog_for(_HOST, name="" if params.path else params.name or "")
    request = Request(arguments=params.arguments, caller="model", session=Session(params.session))
    loaded = load(pick(catalog, params.name, params.path), request)
    facts = record(loaded.skill, catalog)
    metadata = {key: facts[key] for key in ("name", "path", "dir", "mtime_ms")}
    return {"text": inject(loaded, row), "metadata": {"skill_id": facts["id"], **metadata}}


def _inspect(workplace: Workplace, params: http_api.InspectParams) -> dict[str, Any]:
    return dict(context_inspect(workplace.catalog_for(_HOST)[1], include_skills=params.include_skills))


def _codex(workplace: Workplace, params: http_api.CodexParams) -> dict[str, Any]:
    data = []
    for cwd in params.cwds or [workplace.around.cwd]:
        _, catalog = workplace.catalog_for("codex", cwd, params.force_reload)
        errors = [{"path": problem.path, "message": problem.message} for problem in catalog.problems]
        data.append({"cwd": cwd, "skills": codex_rows(catalog), "errors": errors})
    return {"data": data}


METHODS: Final[Mapping[str, tuple[type[http_api.Params], Callable[[Workplace, Any], dict[str, Any]]]]] = {
    "skills.list": (http_api.ListParams, _list),
    "skills.search": (http_api.SearchParams, _search_for_rpc),
    "skills.load": (http_api.LoadParams, _load_for_rpc),
    "context.inspect": (http_api.InspectParams, _inspect),
    "skills/list": (http_api.CodexParams, _codex),
}


def answer_rpc(workplace: Workplace, body: bytes) -> dict[str, Any] | list[dict[str, Any]] | None:
    """Return the response to a request, or the responses to a batch; None if there are only notifications."""
    try:
        request = strict_json(body, "the body", BODY_MAX)
    except FormatError as error:
        return _failed(None, _PARSE_ERROR, error.message)
    if not isinstance(request, list):
        return _respond(workplace, request)
    if not 1 <= len(request) <= BATCH_MAX:
        return _failed(None, _INVALID_REQUEST, f"expected a batch of 1 to {BATCH_MAX} requests, found {len(request)}")
    return [response for item in request if (response := _respond(workplace, item)) is not None] or None


def _respond(workplace: Workplace, request: object) -> dict[str, Any] | None:
    if not isinstance(request, dict):
        return _failed(None, _INVALID_REQUEST, "expected an object")
    number, has_number = request.get("id"), "id" in request
    if isinstance(number, bool) or not isinstance(number, str | int | float | None):
        return _failed(None, _INVALID_REQUEST, "expected id to be a string, a number or null")
    method, params = request.get("method"), request.get("params", {})
    # Codex's own server omits the version.
    if request.get("jsonrpc", "2.0" if method == "skills/list" else None) != "2.0" or not isinstance(method, str):
        return _failed(number, _INVALID_REQUEST, 'expected "jsonrpc": "2.0" and a method')
    if not isinstance(params, dict | list):
        return _failed(number, _INVALID_REQUEST, "expected params to be an object")
    response = _result(workplace, number, method, params)
    return response if has_number else None


def _result(workplace: Workplace, number: object, method: str, params: object) -> dict[str, Any]:
    if method not in METHODS:
        return _failed(number, _NO_METHOD, f"expected one of {', '.join(METHODS)}")
    takes, run = METHODS[method]
    try:
        return {"jsonrpc": "2.0", "id": number, "result": run(workplace, takes.model_validate(params))}
    except ValidationError as error:
        return _failed(number, _INVALID_PARAMS, faults(error))
    except SkillhubError as error:
        facts = error_json(error)["error"]
        code = _INVALID_PARAMS if isinstance(error, UsageError) else _REFUSED
        return _failed(number, code, facts["message"], dict(facts))


def _failed(number: object, code: int, message: str, data: dict[str, Any] | None = None) -> dict[str, Any]:
    error = {"code": code, "message": message, **({"data": data} if data else {})}
    return {"jsonrpc": "2.0", "id": number, "error": error}


# The routes.

FILE: Final = "/api/v1/skills/{name}/files/{path}"
EVENTS: Final = "/api/v1/events"
_Run = Callable[[Workplace, Any], Any]


@dataclass(frozen=True, slots=True)
class Route(http_api.DescribedRoute):
    """A route of the API; ``run`` returns a value for ``gives``, and is None if the answer is not JSON."""

    run: _Run | None = None

    def answer(self, workplace: Workplace, params: object) -> Any:  # noqa: ANN401 - JSON
        """Return the answer of the route, validated by ``gives``; None for an empty answer."""
        value = None if self.run is None else self.run(workplace, params)
        if value is None:
            return None
        if isinstance(self.gives, type) and issubclass(self.gives, JsonAnswer):
            value = dict(value) | {"schema": VERSION}
        adapter = http_api.adapter_of(self.gives)
        return adapter.dump_python(adapter.validate_python(value), by_alias=True, exclude_unset=True)


ROUTES: list[Route] = []


def _route(
    method: Literal["GET", "POST"], path: str, summary: str, takes: object, gives: object
) -> Callable[[_Run], _Run]:
    """Return a decorator that adds a function to ``ROUTES``."""

    def add(run: _Run) -> _Run:
        ROUTES.append(Route(method, path, summary, takes, gives, run=run))
        return run

    return add


def _sort_key(skill: Skill) -> str:
    """Return the sort key of a skill, which is also the cursor of a page; several skills may have one name."""
    return f"{skill.name} {skill.scope} {sha256(fsencode(skill.path or '')).hexdigest()[:8]}"


@_route("GET", "/api/v1/skills", "Installed skills", http_api.PageParameters, http_api.SkillsPageAnswer)
def _skills(workplace: Workplace, params: http_api.PageParameters) -> dict[str, Any]:
    all_skills = sorted(workplace.skills(), key=_sort_key)
    remaining = [skill for skill in all_skills if params.cursor is None or _sort_key(skill) > params.cursor]
    page = remaining[: params.limit]
    cursor = _sort_key(page[-1]) if len(remaining) > len(page) else None
    return {"skills": [skill.to_json() for skill in page], "total": len(all_skills), "next": cursor}


@_route("GET", "/api/v1/skills/{name}", "One skill, its manifest and files", http_api.SkillParameters, ShowAnswer)
def _show(workplace: Workplace, params: http_api.SkillParameters) -> dict[str, Any]:
    with workplace.ports(workplace.skill_named(params.name).scope) as ports:
        return shown.show(Named(params.name), ports).to_json()


_FILE_TYPES = ("text/plain", "application/octet-stream")
ROUTES.append(Route("GET", FILE, "One file of a skill", http_api.FileParameters, bytes, _FILE_TYPES))


@_route("GET", "/api/v1/search", "Search the installed skills", http_api.SearchParameters, SearchAnswer)
def _search(workplace: Workplace, params: http_api.SearchParameters) -> dict[str, Any]:
    skills = [skill for skill in workplace.catalog_for(params.host)[1].skills if skill.path]
    return found_json(search(params.q, skills, params.limit), kept={})  # no source is asked


@_route("GET", "/api/v1/catalog", "The skills a model sees", http_api.CatalogParameters, CatalogAnswer)
def _catalog(workplace: Workplace, params: http_api.CatalogParameters) -> dict[str, Any]:
    row, catalog = workplace.catalog_for(params.host)
    return section(catalog, row, params.window).to_json()


@_route("GET", "/api/v1/tools", "An agent's tools", http_api.CatalogParameters, http_api.ToolsAnswer)
def _tools(workplace: Workplace, params: http_api.CatalogParameters) -> dict[str, Any]:
    row, catalog = workplace.catalog_for(params.host)
    return {"host": row.id, "tools": [tool.to_json() for tool in tools(row, catalog, params.window)]}


@_route("POST", "/api/v1/tools/call", "Call an agent's tool", http_api.CallParameters, http_api.ToolResultAnswer)
def _call(workplace: Workplace, call: http_api.CallParameters) -> dict[str, Any]:
    row, catalog = workplace.catalog_for(call.host)
    names = [tool.name for tool in tools(row, catalog)]
    if call.name not in names:
        raise NotFound(f"{row.name} has no tool {quote(call.name)}", hint=f"its tools: {', '.join(names) or 'none'}")
    result = call_tool(row, catalog, call.name, call.arguments, Request(session=Session(call.session)))
    loaded = result.loaded
    return {
        "text": result.text,
        "is_error": result.is_error,
        "metadata": dict(result.metadata),
        "tools": loaded.tools if loaded else None,
        "fork": result.fork.to_json() if result.fork else None,
        "hooks": [hook.to_json() for hook in loaded.hooks] if loaded else [],
        "error": error_json(result.error)["error"] if result.error else None,
    }


@_route("POST", "/api/v1/resolve", "The skills that a message names", http_api.ResolveParameters, ResolveAnswer)
def _resolve(workplace: Workplace, params: http_api.ResolveParameters) -> dict[str, Any]:
    row, catalog = workplace.catalog_for(params.host)
    leads = len(catalog.skills) if row.many else 1
    rules = MentionRules(leads=leads, folder=workplace.within(None).cwd)
    return mentioned(params.text, catalog, rules=rules).to_json()


@_route("POST", "/api/v1/load", "Load a skill for an agent", http_api.LoadParameters, LoadAnswer)
def _load(workplace: Workplace, params: http_api.LoadParameters) -> dict[str, Any]:
    row, catalog = workplace.catalog_for(params.host, name="" if params.path else params.name or "")
    request = Request(arguments=params.arguments, session=Session(params.session), rules=row.rules)
    return to_json(load(pick(catalog, params.name, params.path), request), row)


@_route("GET", "/api/v1/needs", "The needs of the skills", http_api.NoParameters, http_api.NeedsAnswer)
def _needs(workplace: Workplace, params: http_api.NoParameters) -> dict[str, Any]:
    rows = [
        {
            **members(skill, "name", "scope", "state", "requires"),
            "open": [need.spell() for need in skill.requires if need.open],
        }
        for skill in workplace.skills()
    ]
    return {"skills": rows}


_CHANGES = "Changes, as they happen"
ROUTES.append(Route("GET", EVENTS, _CHANGES, http_api.NoParameters, http_api.ChangeAnswer, ("text/event-stream",)))


@_route("GET", "/skill", "The skills of OpenCode", http_api.OpenCodeParameters, list[http_api.OpenCodeSkillRow])
def _opencode(workplace: Workplace, params: http_api.OpenCodeParameters) -> list[dict[str, Any]]:
    rows = []
    for skill in workplace.catalog_for("opencode", params.directory)[1].skills:
        with suppress(SkillhubError):  # a skill that may not be loaded is left out
            row = {"name": skill.full_name, "description": skill.description, "location": skill.file}
            # As written: OpenCode fills in the arguments itself, when the skill is used as a command.
            data = load(skill, Request(caller="model")).read(SKILL_MD)
            rows.append({**row, "content": split(data, SKILL_MD).body})
    return rows


_RPC_ANSWER = http_api.RpcResponseRow | list[http_api.RpcResponseRow]
ROUTES.append(Route("POST", "/rpc", "JSON-RPC 2.0", Any, _RPC_ANSWER, run=answer_rpc))

"""JSON-RPC 2.0: ``skills.list``, ``skills.search``, ``skills.load``, ``context.inspect``; Codex's ``skills/list``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pydantic import ValidationError

from skillhub.answers.http_api import CodexParams, InspectParams, ListParams, LoadParams, Params, SearchParams
from skillhub.audit.workplace import Workplace
from skillhub.errors import FormatError, SkillhubError, UsageError
from skillhub.formats.document import faults
from skillhub.formats.json import strict_json
from skillhub.runtime.agent import codex_rows, context_inspect, record
from skillhub.runtime.envelope import inject
from skillhub.runtime.loading import Request, Session, load, pick
from skillhub.runtime.toolset import call_tool
from skillhub.server.guard import BODY_MAX

BATCH_MAX: Final = 50
_PARSE_ERROR, _INVALID_REQUEST, _NO_METHOD, _INVALID_PARAMS, _REFUSED = -32700, -32600, -32601, -32602, -32000
_HOST: Final = "codelia"  # whose protocol has these methods


def _list(workplace: Workplace, params: ListParams) -> dict[str, Any]:
    _, catalog = workplace.seen(_HOST, params.cwd, params.force_reload)
    rows = [record(skill, catalog) for skill in catalog.skills]
    errors = [problem.to_json() for problem in catalog.problems]
    # The draft of the protocol spells the time in another way than its tools do.
    return {"skills": [{**row, "mtimeMs": row["mtime_ms"]} for row in rows], "errors": errors, "truncated": False}


def _search(workplace: Workplace, params: SearchParams) -> dict[str, Any]:
    given = params.model_dump(exclude_none=True)
    found = call_tool(_HOST, workplace.seen(_HOST)[1], "skill_search", given)
    if found.is_error:
        raise UsageError(found.text)
    return dict(found.metadata)


def _load(workplace: Workplace, params: LoadParams) -> dict[str, Any]:
    if not (params.name or params.path):
        raise UsageError("expected a name or a path, found neither")
    row, catalog = workplace.seen(_HOST)
    request = Request(arguments=params.arguments, caller="model", session=Session(params.session))
    loaded = load(pick(catalog, params.name, params.path), request)
    about = record(loaded.skill, catalog)
    known = {key: about[key] for key in ("name", "path", "dir", "mtime_ms")}
    return {"text": inject(loaded, row), "metadata": {"skill_id": about["id"], **known}}


def _inspect(workplace: Workplace, params: InspectParams) -> dict[str, Any]:
    return dict(context_inspect(workplace.seen(_HOST)[1], include_skills=params.include_skills))


def _codex(workplace: Workplace, params: CodexParams) -> dict[str, Any]:
    data = []
    for cwd in params.cwds or [workplace.around.cwd]:
        _, catalog = workplace.seen("codex", cwd, params.force_reload)
        errors = [{"path": each.path, "message": each.message} for each in catalog.problems]
        data.append({"cwd": cwd, "skills": codex_rows(catalog), "errors": errors})
    return {"data": data}


METHODS: Final[Mapping[str, tuple[type[Params], Callable[[Workplace, Any], dict[str, Any]]]]] = {
    "skills.list": (ListParams, _list),
    "skills.search": (SearchParams, _search),
    "skills.load": (LoadParams, _load),
    "context.inspect": (InspectParams, _inspect),
    "skills/list": (CodexParams, _codex),
}


def answer_rpc(workplace: Workplace, body: bytes) -> dict[str, Any] | list[dict[str, Any]] | None:
    """Return the response to a request, the responses to a batch; None if all of it is notifications."""
    try:
        asked = strict_json(body, "the body", BODY_MAX)
    except FormatError as error:
        return _failed(None, _PARSE_ERROR, error.message)
    if not isinstance(asked, list):
        return _one(workplace, asked)
    if not 1 <= len(asked) <= BATCH_MAX:
        return _failed(None, _INVALID_REQUEST, f"expected a batch of 1 to {BATCH_MAX} requests, found {len(asked)}")
    return [response for each in asked if (response := _one(workplace, each)) is not None] or None


def _one(workplace: Workplace, asked: object) -> dict[str, Any] | None:
    if not isinstance(asked, dict):
        return _failed(None, _INVALID_REQUEST, "expected an object")
    number, has_number = asked.get("id"), "id" in asked
    if isinstance(number, bool) or not isinstance(number, str | int | float | None):
        return _failed(None, _INVALID_REQUEST, "expected id to be a string, a number or null")
    method, params = asked.get("method"), asked.get("params", {})
    # Codex's own server leaves the version out.
    if asked.get("jsonrpc", "2.0" if method == "skills/list" else None) != "2.0" or not isinstance(method, str):
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
        said = workplace.error_json(error)["error"]
        code = _INVALID_PARAMS if isinstance(error, UsageError) else _REFUSED
        return _failed(number, code, said["message"], dict(said))


def _failed(number: object, code: int, message: str, data: dict[str, Any] | None = None) -> dict[str, Any]:
    error = {"code": code, "message": message, **({"data": data} if data else {})}
    return {"jsonrpc": "2.0", "id": number, "error": error}

"""The tools with which a model searches and loads skills, as each host defines them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import BaseModel, Field, ValidationError

from skillhub.errors import NotFound, SkillhubError, UsageError
from skillhub.formats.document import input_schema
from skillhub.formats.text import clean, quote
from skillhub.model.hosts import Profile, profile
from skillhub.model.skill import Skill
from skillhub.model.tree import SKILL_MD
from skillhub.runtime.agent import record
from skillhub.runtime.catalog import Catalog
from skillhub.runtime.envelope import inject, told_to_model
from skillhub.runtime.folder import Fork, Loaded
from skillhub.runtime.loading import Request, load, pick
from skillhub.runtime.overview import safe, section
from skillhub.runtime.ranking import LIMIT, LIMIT_MAX, SearchIndex, Stored, search

# The inputs of the tools. Descriptions are in the words of each host.


class _ByName(BaseModel):
    name: str = Field(description="The name of the skill")


class _OfOpenCode(_ByName):
    name: str = Field(description="The name of the skill from available_skills")


class _OfGenCode(_ByName):
    name: str = Field(alias="skill", description="The skill name (e.g., 'commit', 'git:pr', 'pdf')")
    args: str = Field("", description="Optional arguments for the skill")


class _OfPegasus(_ByName):
    name: str = Field(alias="skill", description="Skill name")
    args: str = Field("", description="Arguments to pass to the skill")


class _Search(BaseModel):
    query: str = Field(max_length=2000, description="A name, the beginning of one, words of a description, or a path")
    limit: Annotated[int, Field(ge=1, le=LIMIT_MAX)] = LIMIT
    scope: Literal["repo", "user"] | None = None


class _Load(BaseModel):
    name: str | None = Field(None, description="The name of the skill")
    path: str | None = Field(None, description="Its path; where several have one name")


@dataclass(frozen=True, slots=True)
class SkillTool:
    """A tool for a model's API; ``input_schema`` is JSON Schema."""

    name: str
    description: str
    input_schema: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Return the tool as JSON, its schema under ``parameters``; some APIs expect it under ``input_schema``."""
        return {"name": self.name, "description": self.description, "parameters": self.input_schema}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """The result of a tool call.

    Attributes:
        text: The text for the model.
        is_error: Whether the call failed; ``text`` then has the reason in the host's words.
        loaded: The loaded skill; the host shows its ``notes``, limits its ``tools`` and runs its ``hooks``.
        fork: The skill's request for a context of its own; ``text`` is then for that context, not for this model.
        metadata: The further values that the host's own tool returns with the text.
        error: Why the call failed, for the user: ``hint`` may have the command that lifts the block, which the model
            does not get; None unless the skill could not be loaded.
    """

    text: str
    is_error: bool = False
    loaded: Loaded | None = None
    fork: Fork | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    error: SkillhubError | None = None


class _Call(NamedTuple):
    """The context of one call."""

    row: Profile
    catalog: Catalog
    request: Request


class _Tool(NamedTuple):
    """A tool: its description, the class of its input, its function, and its message for an unknown skill."""

    name: str
    description: str
    takes: type[BaseModel]
    run: Callable[[Any, _Call], ToolResult]
    unknown: str = "Skill not found: {name}"
    lists: str = ""  # the dialect of the catalogue in the description; empty if it is not there
    enumerates: bool = False  # whether the schema names every skill


def tools(host: Profile | str, catalog: Catalog, window: int | None = None) -> tuple[SkillTool, ...]:
    """Return the tools of a host for its model's API; none if its model reads files instead.

    Args:
        host: The host, or its id.
        catalog: The skills of the host; those that the model may not call are not named to it.
        window: The size of the model's context in tokens; None if it is unknown.

    Raises:
        UsageError: there is no host of that name.
    """
    row = profile(host)
    return tuple(_skill_tool(tool, catalog, row, window) for tool in _TOOLS.get(row.dialect, ()))


def call_tool(
    host: Profile | str,
    catalog: Catalog,
    name: str,
    arguments: Mapping[str, Any] | str,
    request: Request | None = None,
) -> ToolResult:
    """Execute a model's tool call; every error in it becomes a result for the model.

    Args:
        host: The host, or its id.
        catalog: The skills of the host.
        name: The name of the tool.
        arguments: The model's arguments: an object, or its JSON.
        request: How to load the skill; the caller is always the model, and the arguments are those of the call.

    Raises:
        UsageError: there is no host of that name, or it has no tool of that name.
    """
    row = profile(host)
    tool = next((tool for tool in _TOOLS.get(row.dialect, ()) if tool.name == name), None)
    if tool is None:
        names = ", ".join(tool.name for tool in _TOOLS.get(row.dialect, ())) or "none"
        raise UsageError(f"{row.name} has no tool {quote(name)}", hint=f"its tools: {names}")
    try:
        values = tool.takes.model_validate_json(arguments) if isinstance(arguments, str) else None
        values = values or tool.takes.model_validate(arguments)
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, item['loc'])) or 'input'}: {item['msg']}" for item in error.errors())
        message = f"The {name} tool was called with invalid arguments: {clean(wrong)}"
        return ToolResult(text=f"{message}\nPlease rewrite the input so it satisfies the schema.", is_error=True)
    call = _Call(row, catalog, replace(request or Request(), caller="model", arguments=getattr(values, "args", "")))
    try:
        return tool.run(values, call)
    except NotFound as error:
        skill_name = getattr(values, "name", None)
        if skill_name is None:
            return _failed(error)
        names = ", ".join(clean(skill.full_name) for skill in _callable(catalog)) or "none"
        text = safe(tool.unknown.format(name=clean(skill_name), names=names))
        return ToolResult(text=text, is_error=True, error=error)
    except SkillhubError as error:
        return _failed(error)


def _failed(error: SkillhubError) -> ToolResult:
    return ToolResult(text=told_to_model(error), is_error=True, error=error)


def _callable(catalog: Catalog) -> list[Skill]:
    return [skill for skill in catalog.skills if skill.reach == "active"]


def _skill_tool(tool: _Tool, catalog: Catalog, row: Profile, window: int | None) -> SkillTool:
    description = tool.description
    if tool.lists:
        listed = section(catalog, replace(row, dialect=tool.lists), window)
        description = listed.text or f"{tool.description} No skill is available."
    schema = tool.takes.model_json_schema()
    properties = {key: input_schema(value) for key, value in schema["properties"].items()}
    if tool.enumerates:
        properties["name"]["enum"] = [skill.full_name for skill in _callable(catalog)]
    required = {"required": schema["required"]} if "required" in schema else {}
    return SkillTool(tool.name, description, {"type": "object", "properties": properties, **required})


def _by_name(parameters: _ByName, call: _Call) -> ToolResult:
    loaded = load(pick(call.catalog, parameters.name), call.request)
    # Pegasus's tool returns the instructions alone: the model knows which skill it called.
    text = safe(loaded.body).strip() if isinstance(parameters, _OfPegasus) else inject(loaded, call.row)
    name, metadata = loaded.skill.full_name, {}
    if isinstance(parameters, _OfOpenCode):
        metadata = {"title": f"Loaded skill: {name}", "name": name, "dir": loaded.folder.path}
    return ToolResult(text=text, loaded=loaded, fork=loaded.fork, metadata=metadata)


def _search(parameters: _Search, call: _Call) -> ToolResult:
    rows = [(skill, call.catalog.row(skill)) for skill in _callable(call.catalog)]
    in_scope = {skill.path: (skill, row) for skill, row in rows if parameters.scope in (None, row["scope"])}
    listed = (
        Stored(name=skill.full_name, description=skill.description, path=skill.path or "", scope=skill.scope)
        for skill, _ in in_scope.values()
    )
    with SearchIndex.build(listed) as index:
        results = search(parameters.query, [index], parameters.limit)
    hits = [
        {
            "name": hit.name,
            "description": hit.description,
            "path": os.path.join(hit.path, SKILL_MD),
            "scope": in_scope[hit.path][1]["scope"],
            "reason": hit.reason if hit.reason in ("exact_path", "exact_name", "prefix") else "token_overlap",
            "score": hit.score,
        }
        for hit in results.hits
    ]
    answer = {"results": hits, "count": len(hits), "truncated": results.truncated}
    return ToolResult(text=safe(json.dumps(answer, ensure_ascii=False)), metadata=answer)


def _load(parameters: _Load, call: _Call) -> ToolResult:
    if not (parameters.name or parameters.path):
        raise UsageError("expected a name or a path, found neither")
    loaded = load(pick(call.catalog, parameters.name, parameters.path), call.request)
    row = record(loaded.skill, call.catalog)
    metadata = {"skill_id": row["id"], **{key: row[key] for key in ("name", "path", "dir", "mtime_ms")}}
    return ToolResult(text=inject(loaded, call.row), loaded=loaded, fork=loaded.fork, metadata=metadata)


_LOADS: Final = "Load the instructions of a skill into this conversation, with its folder and its files."
_OPENCODE_UNKNOWN: Final = 'Skill "{name}" not found. Available skills: {names}'
_EXECUTES: Final = "Execute a skill within the main conversation"
_INVOKES: Final = "Invoke a skill by name. Use when a task matches an available skill."
_SEARCHES: Final = "Search the skills by name and description."
_PICKS: Final = "Load a skill by its path, or by its name where only one has it."
_TOOLS: Final[Mapping[str, tuple[_Tool, ...]]] = {
    "agents": (_Tool("activate_skill", _LOADS, _ByName, _by_name, lists="agents-tool", enumerates=True),),
    "codewhale": (_Tool("load_skill", _LOADS, _ByName, _by_name),),
    "opencode": (_Tool("skill", _LOADS, _OfOpenCode, _by_name, _OPENCODE_UNKNOWN, lists="opencode"),),
    "claude-code": (_Tool("Skill", _EXECUTES, _OfGenCode, _by_name, "Unknown skill: {name}", lists="claude-code"),),
    "gencode": (_Tool("Skill", _EXECUTES, _OfGenCode, _by_name),),
    "pegasus": (_Tool("use_skill", _INVOKES, _OfPegasus, _by_name, 'Skill "{name}" not found'),),
    "codelia": (_Tool("skill_search", _SEARCHES, _Search, _search), _Tool("skill_load", _PICKS, _Load, _load)),
}

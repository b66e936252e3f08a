"""What the HTTP API answers where no command does: pages, tools, needs, changes, errors, other programs' forms."""

from __future__ import annotations

from typing import Any, Literal

from skillhub.answers.reading import ForkRow, HookRow
from skillhub.answers.skills import AnswerRow, Json, JsonAnswer, NeedRow, SkillRow, Text, Texts
from skillhub.model.record import SkillScope, State


class SkillsPageAnswer(JsonAnswer):
    """A page of what is installed, by name; ``next`` is the cursor of the page behind it."""

    skills: tuple[SkillRow, ...]
    total: int
    next: Text | None


class ToolRow(AnswerRow):
    """A tool as a model's API takes it; ``parameters`` is JSON Schema."""

    name: Text
    description: Text
    parameters: dict[Text, Json]


class ToolsAnswer(JsonAnswer):
    """The tools of a host."""

    host: Text
    tools: tuple[ToolRow, ...]


class ToolResultAnswer(JsonAnswer):
    """What a call of a tool returned; of an error, ``text`` says to the model what was wrong."""

    text: Text
    is_error: bool
    metadata: dict[Text, Json]
    tools: Texts | None
    fork: ForkRow | None
    hooks: tuple[HookRow, ...]


class SkillNeedsRow(AnswerRow):
    """What one skill needs; ``open`` are the required needs that are not satisfied."""

    name: Text
    scope: SkillScope
    state: State
    requires: tuple[NeedRow, ...]
    open: Texts


class NeedsAnswer(JsonAnswer):
    """What the installed skills need."""

    skills: tuple[SkillNeedsRow, ...]


class ChangeAnswer(JsonAnswer):
    """How the skills that agents find here differ from what they were at the event before; paths of skills."""

    added: Texts
    removed: Texts
    changed: Texts


class OpenCodeSkillRow(AnswerRow):
    """A skill as OpenCode's ``GET /skill`` has it."""

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

"""The parts that several answers have: skills, questions, changes, issues.

A key that may be absent has a default here; every other is there, null where it has no value.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from skillhub.model.lock import Kind as SignerKind
from skillhub.model.question import Kind as QuestionKind
from skillhub.model.record import SkillScope, State


class _AnyText:
    """Any string; pydantic's own would refuse a path whose bytes are no UTF-8."""

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.is_instance_schema(str)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"type": "string"}


Text = Annotated[str, _AnyText()]
Texts = tuple[Text, ...]
Json = Any  # as a skill or a policy has it


class AnswerRow(BaseModel):
    """A part of an answer."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class JsonAnswer(AnswerRow):
    """The one JSON value of a command; ``schema`` is the version of its form."""

    version_of_form: Literal[1] = Field(alias="schema")


class SignerRow(AnswerRow):
    """Who signed; ``by`` is the registry that says so, where it is none of the user's."""

    kind: SignerKind
    identity: Text | None
    fingerprint: Text
    by: Text = ""


class NeedRow(AnswerRow):
    """What a skill needs, and whether it is there."""

    kind: Literal["env", "mcp", "program", "skill"]
    name: Text
    description: Text
    required: bool
    satisfied: bool


class QuestionRow(AnswerRow):
    """A question, and what was said to it."""

    kind: QuestionKind
    skill: Text
    message: Text
    details: Texts
    answer: Literal["yes", "no", "unanswered"]


class SkillRow(AnswerRow):
    """A skill as this machine has it."""

    name: Text
    source: Text | None
    version: Text | None
    digest: Text | None
    tree: Text | None
    size: int | None
    url: Text | None
    path: Text | None
    links: Texts
    scope: SkillScope
    state: State
    invocation: Literal["user", "model"]
    managed: bool
    signed_by: tuple[SignerRow, ...]
    trust: Literal["signed", "unsigned"]
    patch: Text | None
    requires: tuple[NeedRow, ...]
    capabilities: Texts
    description: Text


class NamesDelta(AnswerRow):
    """Names that came and went."""

    added: Texts
    removed: Texts


class FilesDelta(NamesDelta):
    """Files that came, went or changed."""

    changed: Texts


class ChangesRow(AnswerRow):
    """What differs between two versions of a skill."""

    files: FilesDelta
    capabilities: NamesDelta
    requires: NamesDelta


class UpdatedSkillRow(SkillRow):
    """A skill, and what differs from the version before where it had one."""

    from_version: Text | None = None
    from_tree: Text | None = None
    changes: ChangesRow | None = None


class ReasonRow(AnswerRow):
    """A skill that was left out, and why."""

    name: Text
    code: Text
    message: Text


class LockedSourceRow(AnswerRow):
    """Where an alias points."""

    kind: Literal["registry", "well-known"]
    url: Text
    root: Text | None


class SourceChangeRow(AnswerRow):
    """What became of a source of the lock."""

    name: Text
    status: Literal["added", "removed", "changed"]
    before: LockedSourceRow | None
    after: LockedSourceRow | None


class IssueRow(AnswerRow):
    """Something that is not as it should be."""

    code: Text
    message: Text
    where: Text


class ShadowedRow(AnswerRow):
    """A skill that another one of its name hides; ``by`` is the path of that one."""

    name: Text
    path: Text | None
    by: Text | None

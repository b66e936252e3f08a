"""The base class of answers, and the answers that list, change and verify installed skills.

A key with a default here may be absent from an answer; every other key is present, and null if it has no value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Annotated, Any, Literal, Self, Unpack

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, GetPydanticSchema, WithJsonSchema
from pydantic_core.core_schema import is_instance_schema

from skillhub.answers import VERSION
from skillhub.model.finding import Severity
from skillhub.model.hosts import SkillScope
from skillhub.model.lock import SignerKind
from skillhub.model.provenance import Delta
from skillhub.model.question import QuestionKind
from skillhub.model.skill import State

# Any string: `str` would refuse a path whose bytes are no UTF-8, and `InstanceOf` would call Python for each value.
Text = Annotated[str, GetPydanticSchema(lambda *_: is_instance_schema(str)), WithJsonSchema({"type": "string"})]
Texts = tuple[Text, ...]
Json = Any  # JSON of a skill or a policy


class AnswerRow(BaseModel):
    """A part of an answer, made from a mapping or from the attributes of a value."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True, from_attributes=True)


class JsonAnswer(AnswerRow):
    """The JSON value that a command prints; ``schema`` is the version of its form.

    A subclass lists the ``commands`` that it is the answer of, as they are typed.
    """

    version_of_form: Literal[1] = Field(alias="schema")

    def __init_subclass__(cls, *, commands: Iterable[str] = (), **config: Unpack[ConfigDict]) -> None:
        super().__init_subclass__(**config)
        CLASSES.update(dict.fromkeys(commands, cls))

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Self:
        """Return the answer with these values, in the present form."""
        return cls.model_validate({"schema": VERSION, **value})

    def to_json(self) -> dict[str, Any]:
        """Return the value that the command prints with ``--json``."""
        return self.model_dump(by_alias=True, exclude_unset=True)


CLASSES: dict[str, type[JsonAnswer]] = {}  # by the command as it is typed


def answer(command: str, value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON value that a command prints, checked by the class of its answer."""
    for module in ("reading", "setup"):  # each has dozens of classes, so only the needed modules are loaded
        if command not in CLASSES:
            import_module(f"skillhub.answers.{module}")
    return CLASSES[command].of(value).to_json()


class SignerRow(AnswerRow):
    """A signer; ``by`` is the registry that vouches for it, if that is none of the user's registries."""

    kind: SignerKind
    identity: Text | None
    fingerprint: Text
    by: Text = ""


class NeedRow(AnswerRow):
    """A need of a skill, and whether it is satisfied."""

    kind: Literal["env", "mcp", "program", "skill"]
    name: Text
    description: Text
    required: bool
    satisfied: bool


class QuestionRow(AnswerRow):
    """A question and its answer."""

    kind: QuestionKind
    skill: Text
    message: Text
    details: Texts
    answer: Literal["yes", "no", "unanswered"]


class SkillRow(AnswerRow):
    """A skill here.

    ``signed_by`` are the signers that this machine verified; ``claimed_by`` those that only the lock names, if you
    did not agree to the skill here. ``edited`` are its links whose files differ from the agreed ones, if they were
    compared; ``withdrawn`` and ``known_bad`` are reasons.
    """

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
    claimed_by: tuple[SignerRow, ...] = ()
    trust: Literal["signed", "unsigned"]
    patch: Text | None
    own_name: Text | None
    requires: tuple[NeedRow, ...]
    capabilities: Texts
    description: Text
    edited: Texts = ()
    withdrawn: Text | None = None
    known_bad: Text | None = None


class NamesDelta(AnswerRow):
    """Names that were added and removed."""

    added: Texts
    removed: Texts


class FilesDelta(NamesDelta):
    """Files that were added, removed or changed."""

    changed: Texts


class ChangesRow(AnswerRow):
    """The differences between two versions of a skill; ``files`` is empty if the files were not compared."""

    files: Annotated[FilesDelta, BeforeValidator(lambda found: found or Delta())]
    capabilities: NamesDelta
    requires: NamesDelta


class FindingRow(AnswerRow):
    """A finding of a rule of the audit or of the scan."""

    rule: Text
    severity: Severity
    skill: Text | None
    path: Text | None
    line: int
    message: Text
    hint: Text
    accepted: bool
    accepted_by: Text


class UpdatedSkillRow(SkillRow):
    """A skill, and the differences from its previous version, if it had one.

    ``findings`` of ``update --check`` are the high and critical ones in the newer version.
    """

    from_version: Text | None = None
    from_tree: Text | None = None
    changes: ChangesRow | None = None
    findings: tuple[FindingRow, ...] = ()


class ReasonRow(AnswerRow):
    """A skill that the command skipped, and the reason."""

    name: Text
    code: Text
    message: Text


class LockedSourceRow(AnswerRow):
    """A source in the lock."""

    kind: Literal["registry", "well-known"]
    url: Text
    root: Text | None


class SourceChangeRow(AnswerRow):
    """A change of a source in the lock."""

    name: Text
    status: Literal["added", "removed", "changed"]
    before: LockedSourceRow | None
    after: LockedSourceRow | None


class IssueRow(AnswerRow):
    """A fault that was found."""

    code: Text
    message: Text
    where: Text


class ShadowedRow(AnswerRow):
    """A skill that another skill of the same name hides; ``by`` is the path of the other."""

    name: Text
    path: Text | None
    by: Text | None


class SavedEditsRow(AnswerRow):
    """A skill whose edits made by hand were saved, and the patches that contain them, relative to the project."""

    name: Text
    patches: Texts


class OutcomeAnswer(
    JsonAnswer,
    commands=[
        *("adopt", "disable", "enable", "install", "lock import", "patch", "profile use", "remove", "sync", "update")
    ],
):
    """The result for each skill: of install, update, sync, enable, disable, remove, patch, adopt, lock import."""

    skills: tuple[UpdatedSkillRow, ...]
    changed: bool
    questions: tuple[QuestionRow, ...]
    refused: tuple[ReasonRow, ...]
    warnings: Texts
    sources: tuple[SourceChangeRow, ...]
    saved: tuple[SavedEditsRow, ...]


class AdvisedRow(AnswerRow):
    """An advisory about an installed skill."""

    skill: Text
    id: Text
    severity: Severity
    message: Text


class ListAnswer(JsonAnswer, commands=["list"]):
    """The installed skills of the project (``skills``), and those of the user (``user``)."""

    skills: tuple[SkillRow, ...]
    user: tuple[SkillRow, ...]
    shadowed: tuple[ShadowedRow, ...]
    known_bad: tuple[AdvisedRow, ...] = ()


class ProblemRow(AnswerRow):
    """A difference between a skill and the lock."""

    code: Text
    path: Text
    message: Text


class VerifiedRow(AnswerRow):
    """The result for one skill."""

    name: Text
    ok: bool
    problems: tuple[ProblemRow, ...]


class VerifyAnswer(JsonAnswer, commands=["verify"]):
    """Whether every skill matches the lock."""

    ok: bool
    skills: tuple[VerifiedRow, ...]

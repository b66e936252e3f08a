"""What every answer has, and the answers about skills: installed, changed, found, read by an agent.

A key that may be absent has a default here; every other is there, null where it has no value.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, Unpack

from pydantic import BaseModel, ConfigDict, Field, InstanceOf

from skillhub.model.finding import Severity
from skillhub.model.lock import Kind as SignerKind
from skillhub.model.question import Kind as QuestionKind
from skillhub.model.record import HeldStatus, SkillScope, State

Text = InstanceOf[str]  # any string: a `str` would refuse a path whose bytes are no UTF-8
Texts = tuple[Text, ...]
Json = Any  # as a skill or a policy has it


class AnswerRow(BaseModel):
    """A part of an answer, made from a mapping or from the attributes of a value."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True, from_attributes=True)


class JsonAnswer(AnswerRow):
    """The one JSON value of a command; ``schema`` is the version of its form.

    A class of answers names its ``commands``, as they are typed.
    """

    version_of_form: Literal[1] = Field(alias="schema")

    def __init_subclass__(cls, *, commands: Iterable[str] = (), **config: Unpack[ConfigDict]) -> None:
        super().__init_subclass__(**config)
        CLASSES.update(dict.fromkeys(commands, cls))


CLASSES: dict[str, type[JsonAnswer]] = {}  # by the command as it is typed


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
    """A skill here; ``edited``: its links that are not as agreed, if read; ``withdrawn``, ``known_bad``: why."""

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
    own_name: Text | None
    requires: tuple[NeedRow, ...]
    capabilities: Texts
    description: Text
    edited: Texts = ()
    withdrawn: Text | None = None
    known_bad: Text | None = None


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


class OutcomeAnswer(
    JsonAnswer,
    commands=[
        *("adopt", "disable", "enable", "install", "lock import", "patch", "profile use", "remove", "sync", "update")
    ],
):
    """What became of skills: install, update, sync, enable, disable, remove, patch, adopt, lock import."""

    skills: tuple[UpdatedSkillRow, ...]
    changed: bool
    questions: tuple[QuestionRow, ...]
    refused: tuple[ReasonRow, ...]
    warnings: Texts
    sources: tuple[SourceChangeRow, ...]


class AdvisedRow(AnswerRow):
    """What an advisory says of an installed skill."""

    skill: Text
    id: Text
    severity: Severity
    message: Text


class ListAnswer(JsonAnswer, commands=["list"]):
    """What is installed: in the project, and in the user's scope beside it."""

    skills: tuple[SkillRow, ...]
    user: tuple[SkillRow, ...]
    shadowed: tuple[ShadowedRow, ...]
    known_bad: tuple[AdvisedRow, ...] = ()


class FileRow(AnswerRow):
    """A file of a skill."""

    path: Text
    size: int
    sha256: Text
    executable: bool


class ReleaseRow(AnswerRow):
    """A release, and why it was taken back if it was."""

    version: Text | None
    published: Text | None
    yanked: Text | None
    withdrawn: Text | None


class ManifestRow(AnswerRow):
    """What a skill says of itself."""

    name: Text
    description: Text
    version: Text | None
    license: Text | None
    compatibility: Text | None
    allowed_tools: Texts
    user_invocable: bool
    model_invocable: bool
    hooks: Json
    fork: dict[Text, Json] | None
    metadata: dict[Text, Json]
    interface: dict[Text, Text]
    extra: dict[Text, Json]
    permissions: Texts
    warnings: tuple[Json, ...]


class ShowAnswer(SkillRow, JsonAnswer, commands=["show"]):
    """One skill, with what is in it and its releases."""

    manifest: ManifestRow
    files: tuple[FileRow, ...]
    releases: tuple[ReleaseRow, ...]
    patched: FilesDelta | None
    warnings: Texts


class ProblemRow(AnswerRow):
    """One way in which a skill is not as locked."""

    code: Text
    path: Text
    message: Text


class VerifiedRow(AnswerRow):
    """What was found about one skill."""

    name: Text
    ok: bool
    problems: tuple[ProblemRow, ...]


class VerifyAnswer(JsonAnswer, commands=["verify"]):
    """Whether everything is as locked."""

    ok: bool
    skills: tuple[VerifiedRow, ...]


class FindingRow(AnswerRow):
    """What a rule of the audit or of the scan saw."""

    rule: Text
    severity: Severity
    skill: Text | None
    path: Text | None
    line: int
    message: Text
    hint: Text
    accepted: bool
    accepted_by: Text


class ShownFileAnswer(FileRow, JsonAnswer, commands=["show file"]):
    """One file of a skill: its text, null if it is binary, and what the scan found in it."""

    skill: Text
    text: Text | None
    findings: tuple[FindingRow, ...]


class UseAnswer(JsonAnswer, commands=["use"]):
    """One skill for one use: the text of its ``SKILL.md``, and what is known of it."""

    name: Text
    version: Text | None
    source: Text | None
    tree: Text
    trust: Literal["signed", "unsigned"]
    signed_by: Text | None
    capabilities: Texts
    files: tuple[FileRow, ...]
    findings: tuple[FindingRow, ...]
    warnings: Texts
    text: Text


class AuditAnswer(JsonAnswer, commands=["audit"]):
    """The findings of an audit, the worst first."""

    ok: bool
    findings: tuple[FindingRow, ...]
    notes: Texts


class RuleAnswer(JsonAnswer, commands=["audit --explain"]):
    """A rule of the table."""

    id: Text
    severity: Severity
    confidence: Text
    category: Text
    title: Text
    why: Text
    hint: Text


class SignatureRow(AnswerRow):
    """What a signature is worth; nulls where there is none."""

    status: Literal["valid", "untrusted", "invalid", "unsigned"] | None
    identity: Text | None
    fingerprint: Text | None
    code: Text | None


class ValidatedRow(AnswerRow):
    """What was found about one path."""

    path: Text
    ok: bool
    name: Text | None
    tree: Text | None
    errors: tuple[IssueRow, ...]
    warnings: tuple[IssueRow, ...]
    signature: SignatureRow


class ValidateAnswer(JsonAnswer, commands=["validate"]):
    """Whether skills are as the specification wants them."""

    ok: bool
    skills: tuple[ValidatedRow, ...]


class NewAnswer(JsonAnswer, commands=["new"]):
    """A skill that was begun."""

    name: Text
    path: Text
    files: Texts


class PackAnswer(JsonAnswer, commands=["pack"]):
    """An archive that was written."""

    path: Text
    digest: Text
    tree: Text
    size: int


class SignAnswer(JsonAnswer, commands=["sign"]):
    """A signature that was written."""

    path: Text
    tree: Text
    fingerprint: Text
    identity: Text | None


class EditRow(AnswerRow):
    """What was edited by hand."""

    paths: Texts
    patch: Text
    binary: Texts


class LockedRow(AnswerRow):
    """What a lock says of a skill."""

    version: Text | None
    tree: Text
    source: Text
    origin: Text
    signed_by: Texts
    capabilities: Texts
    requires: Texts


class DiffRow(AnswerRow):
    """How one skill differs."""

    name: Text
    status: Literal["added", "removed", "changed", "same"]
    before: LockedRow | None
    after: LockedRow | None
    changes: ChangesRow | None
    patch: Text
    binary: Texts
    findings: tuple[FindingRow, ...]
    notes: Texts
    edits: tuple[EditRow, ...]


class DiffAnswer(JsonAnswer, commands=["diff"]):
    """How skills differ; ``sources`` where two locks were compared."""

    skills: tuple[DiffRow, ...]
    sources: tuple[SourceChangeRow, ...] = ()


class ChoiceRow(AnswerRow):
    """What was done about a skill in a merge; ``took`` is null where it is gone."""

    name: Text
    took: Literal["ours", "theirs"] | None
    why: Text


class LockFixAnswer(JsonAnswer, commands=["lock fix"]):
    """How a conflict in the lock was resolved."""

    skills: tuple[ChoiceRow, ...]
    changed: bool


class LockMergeAnswer(JsonAnswer, commands=["lock merge"]):
    """How three versions of a lock were merged."""

    skills: tuple[ChoiceRow, ...]
    clean: bool


class BundleExportAnswer(JsonAnswer, commands=["bundle export"]):
    """What was packed into a bundle, and until when it can be installed; null if no metadata in it expires."""

    path: Text
    skills: tuple[Text, ...]
    size: int
    digest: Text
    usable_until: Text | None


class CatalogRow(AnswerRow):
    """A skill of the catalogue; ``scope`` is spelled as by the host, the last three say why it is held back."""

    name: Text
    description: Text
    path: Text | None
    scope: Text
    root: Text | None
    source: Text | None
    trust: Literal["signed", "unsigned"]
    needs: tuple[NeedRow, ...]
    enabled: bool
    listed: bool
    cost: int | None = None
    why: HeldStatus = "disabled"
    message: Text = ""
    command: Text = ""


class SearchedRootRow(AnswerRow):
    """A folder that was looked into, and the names of what was found there."""

    path: Text
    scope: Text
    found: Texts
    shadowed: Texts


class ReadProblemRow(AnswerRow):
    """A skill that cannot be read, or should be mended."""

    path: Text
    line: int | None
    message: Text
    level: Literal["error", "warning"]


class RepeatedRow(AnswerRow):
    """A skill that is listed more than once, and the folders in which it is found."""

    name: Text
    paths: Texts


class CatalogAnswer(JsonAnswer, commands=["catalog"]):
    """What an agent's model sees of the skills."""

    host: Text
    text: Text
    skills: tuple[CatalogRow, ...]
    omitted: Texts
    shadowed: tuple[ShadowedRow, ...]
    problems: tuple[ReadProblemRow, ...]
    truncated: bool
    used: int
    budget: int | None
    unit: Literal["tokens", "characters", "bytes"]
    shortened: int
    warning: Text | None
    repeated: tuple[RepeatedRow, ...]
    roots: tuple[SearchedRootRow, ...]


class MentionRow(AnswerRow):
    """A mention in a message, and what it means."""

    text: Text
    outcome: Text
    skill: SkillRow | None
    candidates: Texts
    message: Text


class ResolveAnswer(JsonAnswer, commands=["resolve"]):
    """Which skills a message means, and what it asks for besides."""

    mentions: tuple[MentionRow, ...]
    task: Text


class ForkRow(AnswerRow):
    """The agent that a skill wants to run in."""

    agent: Text | None
    model: Text | None
    task: Text


class HookRow(AnswerRow):
    """A hook that a skill wants to have while it is in use."""

    event: Text
    matcher: Text
    type: Text
    command: Text
    once: bool
    lifetime: Text


class LoadAnswer(JsonAnswer, commands=["load"]):
    """What an agent gets of a skill."""

    name: Text
    path: Text
    text: Text
    files: Texts
    tools: Texts | None
    fork: ForkRow | None
    hooks: tuple[HookRow, ...]


class HitRow(AnswerRow):
    """A skill that was found: in a source, or on disk with its scope and path."""

    name: Text
    source: Text = ""
    scope: Text | None = None
    path: Text = ""
    description: Text
    score: float
    reason: Text


class ListingRow(AnswerRow):
    """When a repository or the like was last asked what it has, and at which commit."""

    source: Text
    refreshed: Text
    commit: Text | None


class SearchAnswer(JsonAnswer, commands=["search"]):
    """What was found, the best first; ``listings`` are the sources that are not asked each time."""

    hits: tuple[HitRow, ...]
    count: int
    truncated: bool
    listings: tuple[ListingRow, ...]

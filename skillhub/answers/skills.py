"""Answers about skills: what is installed, what differs, what was found, what an agent gets."""

from __future__ import annotations

from typing import Literal

from skillhub.answers.parts import (
    Answer,
    ChangesRow,
    FilesDelta,
    IssueRow,
    Json,
    QuestionRow,
    ReasonRow,
    Row,
    ShadowedRow,
    SkillRow,
    SourceChangeRow,
    Text,
    Texts,
    UpdatedSkillRow,
)
from skillhub.model.finding import Severity
from skillhub.model.record import HeldStatus, SkillScope


class OutcomeAnswer(Answer):
    """What became of skills: install, update, sync, enable, disable, remove, patch, adopt, lock import."""

    skills: tuple[UpdatedSkillRow, ...]
    changed: bool
    questions: tuple[QuestionRow, ...]
    refused: tuple[ReasonRow, ...]
    warnings: Texts
    sources: tuple[SourceChangeRow, ...]


class ListAnswer(Answer):
    """What is installed: in the project, and in the user's scope beside it."""

    skills: tuple[SkillRow, ...]
    user: tuple[SkillRow, ...]
    shadowed: tuple[ShadowedRow, ...]


class FileRow(Row):
    """A file of a skill."""

    path: Text
    size: int
    sha256: Text
    executable: bool


class ReleaseRow(Row):
    """A release, and why it was taken back if it was."""

    version: Text | None
    published: Text | None
    yanked: Text | None
    withdrawn: Text | None


class ManifestRow(Row):
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


class ShowAnswer(SkillRow, Answer):
    """One skill, with what is in it and its releases."""

    manifest: ManifestRow
    files: tuple[FileRow, ...]
    releases: tuple[ReleaseRow, ...]
    patched: FilesDelta | None
    warnings: Texts


class ProblemRow(Row):
    """One way in which a skill is not as locked."""

    code: Text
    path: Text
    message: Text


class VerifiedRow(Row):
    """What was found about one skill."""

    name: Text
    ok: bool
    problems: tuple[ProblemRow, ...]


class VerifyAnswer(Answer):
    """Whether everything is as locked."""

    ok: bool
    skills: tuple[VerifiedRow, ...]


class FindingRow(Row):
    """What a rule of the audit or of the scan saw."""

    rule: Text
    severity: Severity
    skill: Text | None
    path: Text | None
    line: int
    message: Text
    hint: Text


class AuditAnswer(Answer):
    """The findings of an audit, the worst first."""

    ok: bool
    findings: tuple[FindingRow, ...]
    notes: Texts


class SignatureRow(Row):
    """What a signature is worth; nulls where there is none."""

    status: Literal["valid", "untrusted", "invalid", "unsigned"] | None
    identity: Text | None
    fingerprint: Text | None
    code: Text | None


class ValidatedRow(Row):
    """What was found about one path."""

    path: Text
    ok: bool
    name: Text | None
    tree: Text | None
    errors: tuple[IssueRow, ...]
    warnings: tuple[IssueRow, ...]
    signature: SignatureRow


class ValidateAnswer(Answer):
    """Whether skills are as the specification wants them."""

    ok: bool
    skills: tuple[ValidatedRow, ...]


class NewAnswer(Answer):
    """A skill that was begun."""

    name: Text
    path: Text
    files: Texts


class PackAnswer(Answer):
    """An archive that was written."""

    path: Text
    digest: Text
    tree: Text
    size: int


class SignAnswer(Answer):
    """A signature that was written."""

    path: Text
    tree: Text
    fingerprint: Text
    identity: Text | None


class EditRow(Row):
    """What was edited by hand."""

    paths: Texts
    patch: Text
    binary: Texts


class LockedRow(Row):
    """What a lock says of a skill."""

    version: Text | None
    tree: Text
    source: Text
    origin: Text
    signed_by: Texts


class DiffRow(Row):
    """How one skill differs."""

    name: Text
    status: Literal["added", "removed", "changed", "same"]
    before: LockedRow | None
    after: LockedRow | None
    changes: ChangesRow | None
    patch: Text
    binary: Texts
    notes: Texts
    edits: tuple[EditRow, ...]


class DiffAnswer(Answer):
    """How skills differ; ``sources`` where two locks were compared."""

    skills: tuple[DiffRow, ...]
    sources: tuple[SourceChangeRow, ...] = ()


class ChoiceRow(Row):
    """What was done about a skill in a merge; ``took`` is null where it is gone."""

    name: Text
    took: Literal["ours", "theirs"] | None
    why: Text


class LockFixAnswer(Answer):
    """How a conflict in the lock was resolved."""

    skills: tuple[ChoiceRow, ...]
    changed: bool


class LockMergeAnswer(Answer):
    """How three versions of a lock were merged."""

    skills: tuple[ChoiceRow, ...]
    clean: bool


class CatalogRow(Row):
    """A skill of the catalogue; the last three say why it is held back, where it is."""

    name: Text
    description: Text
    path: Text | None
    scope: SkillScope
    source: Text | None
    enabled: bool
    listed: bool
    why: HeldStatus = "disabled"
    message: Text = ""
    command: Text = ""


class ReadProblemRow(Row):
    """A skill that cannot be read, or should be mended."""

    path: Text
    line: int | None
    message: Text
    level: Literal["error", "warning"]


class CatalogAnswer(Answer):
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


class MentionRow(Row):
    """A mention in a message, and what it means."""

    text: Text
    outcome: Text
    skill: SkillRow | None
    candidates: Texts
    message: Text


class ResolveAnswer(Answer):
    """Which skills a message means, and what it asks for besides."""

    mentions: tuple[MentionRow, ...]
    task: Text


class ForkRow(Row):
    """The agent that a skill wants to run in."""

    agent: Text | None
    model: Text | None
    task: Text


class HookRow(Row):
    """A hook that a skill wants to have while it is in use."""

    event: Text
    matcher: Text
    type: Text
    command: Text
    once: bool
    lifetime: Text


class LoadAnswer(Answer):
    """What an agent gets of a skill."""

    name: Text
    path: Text
    text: Text
    files: Texts
    tools: Texts | None
    fork: ForkRow | None
    hooks: tuple[HookRow, ...]


class HitRow(Row):
    """A skill that was found: in a source, or on disk with its scope and path."""

    name: Text
    source: Text = ""
    scope: Text | None = None
    path: Text = ""
    description: Text
    score: float
    reason: Text


class SearchAnswer(Answer):
    """What was found, the best first."""

    hits: tuple[HitRow, ...]
    count: int
    truncated: bool

"""Answers about skills that a command shows, audits, compares, makes, publishes, searches or loads."""

from __future__ import annotations

from typing import Literal

from skillhub.answers.skills import (
    AnswerRow,
    ChangesRow,
    FilesDelta,
    FindingRow,
    IssueRow,
    Json,
    JsonAnswer,
    NeedRow,
    QuestionRow,
    ShadowedRow,
    SkillRow,
    SourceChangeRow,
    Text,
    Texts,
)
from skillhub.model.finding import Severity
from skillhub.model.question import HeldStatus


class FileRow(AnswerRow):
    """A file of a skill."""

    path: Text
    size: int
    sha256: Text
    executable: bool


class ReleaseRow(AnswerRow):
    """A release, with the reason if it was yanked or withdrawn."""

    version: Text | None
    published: Text | None
    yanked: Text | None
    withdrawn: Text | None


class ManifestRow(AnswerRow):
    """The manifest of a skill."""

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
    """One skill, with its contents and its releases."""

    manifest: ManifestRow
    files: tuple[FileRow, ...]
    releases: tuple[ReleaseRow, ...]
    patched: FilesDelta | None
    warnings: Texts


class ShownFileAnswer(FileRow, JsonAnswer, commands=["show file"]):
    """One file of a skill: its text, null if it is binary, and its findings."""

    skill: Text
    text: Text | None
    findings: tuple[FindingRow, ...]


class UseAnswer(JsonAnswer, commands=["use"]):
    """One skill for one use: the text of its ``SKILL.md``, and its facts."""

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


class RuleRow(AnswerRow):
    """A rule of the audit."""

    id: Text
    severity: Severity
    confidence: Text
    category: Text
    title: Text
    why: Text
    hint: Text


class RuleAnswer(RuleRow, JsonAnswer, commands=["audit --explain"]):
    """A rule of the audit."""


class RulesAnswer(JsonAnswer, commands=["audit --explain all"]):
    """All rules of the audit, by id."""

    rules: tuple[RuleRow, ...]


class SignatureRow(AnswerRow):
    """The verdict on a signature; nulls if there is none."""

    status: Literal["valid", "untrusted", "invalid", "unsigned"] | None
    identity: Text | None
    fingerprint: Text | None
    code: Text | None


class ValidatedRow(AnswerRow):
    """The result for one path."""

    path: Text
    ok: bool
    name: Text | None
    tree: Text | None
    errors: tuple[IssueRow, ...]
    warnings: tuple[IssueRow, ...]
    signature: SignatureRow


class ValidateAnswer(JsonAnswer, commands=["validate"]):
    """Whether skills conform to the specification."""

    ok: bool
    skills: tuple[ValidatedRow, ...]


class NewAnswer(JsonAnswer, commands=["new"]):
    """A new skill, made from the template."""

    name: Text
    path: Text
    files: Texts


class PackAnswer(JsonAnswer, commands=["pack"]):
    """An archive that was written."""

    path: Text
    digest: Text
    tree: Text
    size: int
    warnings: Texts


class SignAnswer(JsonAnswer, commands=["sign"]):
    """A signature that was written."""

    path: Text
    tree: Text
    fingerprint: Text
    identity: Text | None
    warnings: Texts


class EditRow(AnswerRow):
    """Local edits."""

    paths: Texts
    patch: Text
    binary: Texts


class LockedRow(AnswerRow):
    """The entry of a skill in a lock."""

    version: Text | None
    tree: Text
    source: Text
    origin: Text
    signed_by: Texts
    capabilities: Texts
    requires: Texts


class DiffRow(AnswerRow):
    """The differences of one skill."""

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
    """The differences of skills; ``sources`` has entries only if two locks were compared."""

    skills: tuple[DiffRow, ...]
    sources: tuple[SourceChangeRow, ...] = ()


class ChoiceRow(AnswerRow):
    """The result of a merge for a skill, or for a changed source; ``took`` is null if the merge removed it."""

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
    """The contents of a bundle, and the time until which it installs; null if no metadata in it expires."""

    path: Text
    skills: tuple[Text, ...]
    size: int
    digest: Text
    usable_until: Text | None


class CatalogRow(AnswerRow):
    """A skill of the catalogue; ``scope`` is the host's name of it; the last three are the reason to hold it back."""

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
    why: HeldStatus | None = None
    message: Text = ""
    command: Text = ""


class SearchedRootRow(AnswerRow):
    """A searched folder, and the names of the skills in it."""

    path: Text
    scope: Text
    found: Texts
    shadowed: Texts


class ReadProblemRow(AnswerRow):
    """A skill that cannot be read (``error``), or a fault of one that can (``warning``)."""

    path: Text
    line: int | None
    message: Text
    level: Literal["error", "warning"]


class RepeatedRow(AnswerRow):
    """A skill that is listed more than once, and the folders in which it is found."""

    name: Text
    paths: Texts


class CatalogAnswer(JsonAnswer, commands=["catalog"]):
    """The list of skills for an agent's model."""

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
    """A mention in a message, and its meaning."""

    text: Text
    outcome: Text
    skill: SkillRow | None
    candidates: Texts
    message: Text


class ResolveAnswer(JsonAnswer, commands=["resolve"]):
    """The skills that a message names, and the rest of its text."""

    mentions: tuple[MentionRow, ...]
    task: Text


class ForkRow(AnswerRow):
    """The agent in which a skill wants to run."""

    agent: Text | None
    model: Text | None
    task: Text


class HookRow(AnswerRow):
    """A hook that a skill requests while it is in use."""

    event: Text
    matcher: Text
    type: Text
    command: Text
    once: bool
    lifetime: Text


class LoadAnswer(JsonAnswer, commands=["load"]):
    """A skill as it is loaded for an agent."""

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
    """The time of a source's stored listing, and its commit."""

    source: Text
    refreshed: Text
    commit: Text | None


class SearchAnswer(JsonAnswer, commands=["search"]):
    """The hits, best first; ``listings`` are the sources whose stored listing was searched."""

    hits: tuple[HitRow, ...]
    count: int
    truncated: bool
    listings: tuple[ListingRow, ...]


class PublishAnswer(JsonAnswer, commands=["publish"]):
    """A published release, or a dry run.

    ``changes`` are those since the version ``previous``, ``written`` are the pushed files; ``pages`` says whether
    people and other clients can read the target.
    """

    name: Text
    version: Text
    tree: Text
    publisher: Text
    key: Text
    previous: Text | None
    changes: ChangesRow | None
    findings: tuple[FindingRow, ...]
    target: Text | None
    registry: Text
    changed: bool
    written: Texts
    pages: bool
    questions: tuple[QuestionRow, ...]

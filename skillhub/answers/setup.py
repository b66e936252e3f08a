"""Answers about this machine, agents, policies, sources, publishers, keys and registries; and errors."""

from __future__ import annotations

from typing import Literal

from skillhub.answers.skills import AnswerRow, IssueRow, Json, JsonAnswer, QuestionRow, ReasonRow, Text, Texts
from skillhub.model.hosts import Scope, SkillScope
from skillhub.model.lock import SignerKind
from skillhub.policy.policy import Level
from skillhub.project.intent import SourceKind


class KeyRow(AnswerRow):
    """A key; after a dry run without fingerprint and files, since it makes no key."""

    name: Text
    kind: Text | None
    fingerprint: Text | None
    path: Text = ""
    public_path: Text = ""


class KeyAnswer(KeyRow, JsonAnswer, commands=["key import", "key new", "key show"]):
    """A key that was made, imported or shown."""

    public_key: Text = ""


class KeysAnswer(JsonAnswer, commands=["key list"]):
    """Your keys."""

    keys: tuple[KeyRow, ...]


class VariableRow(AnswerRow):
    """A variable with a stored value, and the skills that may have it."""

    name: Text
    skills: Texts
    scope: Scope
    project: Text | None


class VariableAnswer(VariableRow, JsonAnswer, commands=["env set", "env unset"]):
    """A variable whose value was stored or removed; ``stored`` says whether a value is stored now."""

    stored: bool = False


class VariablesAnswer(JsonAnswer, commands=["env list"]):
    """The variables with a stored value."""

    variables: tuple[VariableRow, ...]


class ProfileAnswer(JsonAnswer, commands=["profile save", "profile remove"]):
    """A profile that was saved, or removed."""

    name: Text
    skills: Texts
    changed: bool


class ProfileRow(AnswerRow):
    """A set of skills that a person has saved; ``missing`` are those that are not installed."""

    name: Text
    skills: Texts
    missing: Texts
    in_use: bool


class ProfilesAnswer(JsonAnswer, commands=["profile list"]):
    """The profiles of a project, or of the user scope."""

    profiles: tuple[ProfileRow, ...]


class PlaceRow(AnswerRow):
    """The contents of one place on this disk."""

    name: Text
    path: Text
    files: int
    size: int


class CacheAnswer(JsonAnswer, commands=["cache info"]):
    """The files of skillhub on this disk."""

    places: tuple[PlaceRow, ...]
    size: int


class WasteRow(AnswerRow):
    """A stored item that nothing needs."""

    kind: Literal["tree", "signer", "leftover", "download", "repository", "scan"]
    path: Text
    size: int
    name: Text | None
    tree: Text | None


class CollectedAnswer(JsonAnswer, commands=["cache gc"]):
    """The items that were removed from this disk."""

    removed: tuple[WasteRow, ...]
    size: int
    changed: bool
    gone: Texts
    questions: tuple[QuestionRow, ...]


class CheckRow(AnswerRow):
    """One check of this machine."""

    name: Text
    ok: bool
    message: Text
    hint: Text | None


class RootRow(AnswerRow):
    """A folder from which agents read skills."""

    path: Text
    scope: SkillScope


class AgentRow(AnswerRow):
    """An agent that is in use here."""

    id: Text
    name: Text


class SourceSpotRow(AnswerRow):
    """The name, URL and root of a source."""

    name: Text
    url: Text
    root: Text | None


class KnownAgentRow(AnswerRow):
    """An agent for which skills can be enabled; ``mcp`` lists the scopes in which it has a file for MCP servers."""

    id: Text
    name: Text
    aliases: Texts
    project_dir: Text | None
    user_dir: Text | None
    in_use: bool
    mcp: tuple[Literal["project", "user"], ...]


class AgentsAnswer(JsonAnswer, commands=["agents"]):
    """Every agent that skillhub supports."""

    agents: tuple[KnownAgentRow, ...]


class DoctorAnswer(JsonAnswer, commands=["doctor"]):
    """Whether the checks of this machine and this project passed."""

    ok: bool
    checks: tuple[CheckRow, ...]
    roots: tuple[RootRow, ...]
    agents: tuple[AgentRow, ...]
    sources: tuple[SourceSpotRow, ...]


class PolicyRow(AnswerRow):
    """One line of a policy."""

    level: Level
    key: Text
    value: Json
    where: Text
    in_force: bool


class PolicyAnswer(JsonAnswer, commands=["doctor policy"]):
    """The policy that is in force."""

    effective: dict[Text, Json]
    lines: tuple[PolicyRow, ...]
    places: dict[Text, Text]


class SourceRow(AnswerRow):
    """A source and its alias; ``scope`` is ``project`` for a source that this project names."""

    name: Text
    kind: SourceKind
    url: Text
    root: Text | None
    scope: Scope = "user"


class SourceAnswer(SourceRow, JsonAnswer, commands=["source add", "source remove", "source trust"]):
    """A source that was added, trusted or removed."""


class SuggestedAnswer(JsonAnswer, commands=["source add suggested"]):
    """The suggested sources that were added; ``left`` has, by alias, the reason why others were not."""

    sources: tuple[SourceRow, ...]
    left: dict[Text, Text]


class RefreshRow(AnswerRow):
    """The listing of a source, the names added and removed, and a repository's commits before and now."""

    name: Text
    skills: int
    from_commit: Text | None
    commit: Text | None
    added: Texts
    removed: Texts


class RefreshAnswer(JsonAnswer, commands=["source refresh"]):
    """The sources that were asked again."""

    sources: tuple[RefreshRow, ...]


class RoleRow(AnswerRow):
    """A role of a registry's metadata."""

    role: Text
    threshold: int
    keys: Texts


class MetadataRow(AnswerRow):
    """One metadata file, and when it expires."""

    role: Text
    version: int
    expires: Text


class SourceFactsRow(SourceRow):
    """A source and its trust; ``refreshed`` is the time of its stored listing, ``commit`` the commit at that time."""

    root_version: int | None
    expires: Text | None
    roles: tuple[RoleRow, ...]
    metadata: tuple[MetadataRow, ...]
    refreshed: Text | None
    commit: Text | None = None
    changes: Texts
    warnings: Texts


class SourcesAnswer(JsonAnswer, commands=["source list"]):
    """The sources that apply here."""

    sources: tuple[SourceFactsRow, ...]


class OfferRow(AnswerRow):
    """A skill that a source lists."""

    name: Text
    version: Text | None
    publisher: Text | None
    description: Text


class SourceShowAnswer(SourceFactsRow, JsonAnswer, commands=["source show"]):
    """A source, and the skills that it lists."""

    skills: tuple[OfferRow, ...]


class TrustedSignerRow(AnswerRow):
    """A key, a certificate root, or an identity with its OpenID provider."""

    kind: SignerKind
    fingerprint: Text
    identity: Text = ""
    issuer: Text = ""


class PublisherRow(AnswerRow):
    """A publisher whom you trust to sign skills of ``sources``; an empty list means every source."""

    name: Text
    signers: tuple[TrustedSignerRow, ...]
    sources: Texts


class PublisherAnswer(PublisherRow, JsonAnswer, commands=["publisher remove", "publisher trust"]):
    """A publisher that was trusted or removed."""


class PublishersAnswer(JsonAnswer, commands=["publisher list"]):
    """The publishers whom you trust to sign skills."""

    publishers: tuple[PublisherRow, ...]


class RegistryAnswer(JsonAnswer, commands=["registry init"]):
    """A registry that was made, and the workflow that publishes it; a dry run makes no root."""

    path: Text
    site: Text
    fingerprint: Text | None
    workflow: Text | None = None


class PublishedRow(AnswerRow):
    """A release in a registry."""

    name: Text
    version: Text | None
    digest: Text | None
    tree: Text | None


class AddedAnswer(JsonAnswer, commands=["registry add"]):
    """The releases that were added, and those that were there before."""

    added: tuple[PublishedRow, ...]
    unchanged: tuple[PublishedRow, ...]


class BuiltAnswer(JsonAnswer, commands=["registry build"]):
    """The files derived from a registry's signed files, by path below the site."""

    site: Text
    url: Text | None
    skills: int
    files: int
    written: Texts
    removed: Texts
    left_out: Texts


class RecalledRow(AnswerRow):
    """A release that was yanked, offered again, or withdrawn."""

    name: Text
    version: Text | None
    yanked: Text | None
    withdrawn: Text | None


class RecalledAnswer(RecalledRow, JsonAnswer, commands=["registry withdraw", "registry yank"]):
    """A release that was yanked, offered again, or withdrawn."""


class AdvisedAnswer(JsonAnswer, commands=["registry advise"]):
    """The ids of a registry's advisories, and its known-bad digests."""

    advisories: Texts
    digests: Texts


class RevokedRow(AnswerRow):
    """A revoked key of a publisher."""

    fingerprint: Text
    since: Text


class DelegatedAnswer(JsonAnswer, commands=["registry delegate"]):
    """The present names and keys of a publisher."""

    publisher: Text
    keys: Texts
    names: Texts
    revoked: tuple[RevokedRow, ...]
    withdrawn: tuple[RecalledRow, ...]


class RotatedAnswer(JsonAnswer, commands=["registry rotate"]):
    """The keys of a role before and after."""

    role: Text
    gone: Texts
    new: Texts
    kept: Texts
    at_hand: Texts


class ExpiryRow(AnswerRow):
    """The expiry of a role's document."""

    role: Text
    expires: Text


class RefreshedAnswer(JsonAnswer, commands=["registry refresh"]):
    """The documents that were signed again, and those that need offline keys."""

    renewed: tuple[ExpiryRow, ...]
    waiting: tuple[ExpiryRow, ...]


class RegistryCheckAnswer(JsonAnswer, commands=["registry check"]):
    """Whether a registry is sound."""

    ok: bool
    problems: tuple[IssueRow, ...]
    warnings: tuple[IssueRow, ...]


class CosignedAnswer(JsonAnswer, commands=["registry cosign"]):
    """The key of a registry's log, in the form for witnesses, and the signers of its newest checkpoint.

    ``request``: what to send to a witness, with ``--request``.
    """

    key: Text
    signers: Texts
    request: Text | None


class LogEntryRow(AnswerRow):
    """An entry of a registry's log: a release, or a change of keys or names."""

    source: Text
    position: int
    kind: Text
    publisher: Text | None
    name: Text | None
    version: Text | None
    digest: Text | None
    fingerprint: Text | None
    former: Text | None
    reason: Text | None
    time: Text | None


class WatchedAnswer(JsonAnswer, commands=["registry watch"]):
    """New entries for a name in the logs of registries; ``ok`` is true if there are none."""

    ok: bool
    entries: tuple[LogEntryRow, ...]


class ServedAnswer(JsonAnswer, commands=["registry serve", "serve"]):
    """The URL at which a registry, or the installed skills, are served."""

    url: Text


class PushedAnswer(JsonAnswer, commands=["registry push"]):
    """The files that a push wrote and removed; ``pages``: whether people and other clients can read the target.

    ``is_new``: whether the folder or the branch did not exist before; false for other targets.
    """

    target: Text
    written: Texts
    removed: Texts
    unchanged: int
    is_new: bool
    pages: bool


class UnsafeRow(ReasonRow):
    """A skill that is refused as unsafe."""

    reason: Text | None


class ErrorRow(AnswerRow):
    """An error; ``skills`` has one row for each of several refused skills, ``reason`` refines ``code``."""

    code: Text
    message: Text
    where: Text | None
    hint: Text | None
    reason: Text = ""
    skills: tuple[UnsafeRow, ...] = ()


class ErrorAnswer(JsonAnswer, commands=["error"]):
    """The error that ended a command, the questions that it asked, and the skills that it had left out before."""

    error: ErrorRow
    questions: tuple[QuestionRow, ...]
    refused: tuple[ReasonRow, ...] = ()


class VersionAnswer(JsonAnswer, commands=["--version"]):
    """The version of the program."""

    version: Text


class SchemaAnswer(JsonAnswer, commands=["schema"]):
    """The names of the documents and answers that have a JSON Schema."""

    documents: Texts
    answers: Texts


class McpEntryRow(AnswerRow):
    """The entry of an agent's configuration that runs ``skillhub mcp``."""

    agent: Text
    path: Text
    entry: Json = None
    changed: bool


class McpEntriesAnswer(JsonAnswer, commands=["mcp install", "mcp remove"]):
    """The entries that were written into agents' configurations, or removed."""

    entries: tuple[McpEntryRow, ...]
    changed: bool
    questions: tuple[QuestionRow, ...]


class McpConfigAnswer(JsonAnswer, commands=["mcp"]):
    """The entry for an agent, and the file to put it into."""

    agent: Text
    path: Text
    entry: Json


class McpNeedRow(AnswerRow):
    """The tools of the server that a skill names, those that are missing, and another server that it describes."""

    skill: Text
    tools: Texts
    missing: Texts
    describes: Text | None


class UninstallRow(AnswerRow):
    """A file or entry of skillhub's on this machine."""

    kind: Literal["copy", "mcp", "value", "folder"]
    path: Text
    name: Text
    why: Text = ""


class UninstallAnswer(JsonAnswer, commands=["self uninstall"]):
    """The removed files, or those of a dry run; the kept files, with reasons; the remaining steps."""

    removed: tuple[UninstallRow, ...]
    kept: tuple[UninstallRow, ...]
    left: Texts
    package: Text
    changed: bool
    questions: tuple[QuestionRow, ...]


class McpCheckAnswer(JsonAnswer, commands=["mcp check"]):
    """The tools and skills of an MCP server; ``skills`` is null if it serves none."""

    name: Text
    place: Text
    server: Text
    protocol: Text
    tools: Texts
    skills: Texts | None
    needs: tuple[McpNeedRow, ...]
    ok: bool

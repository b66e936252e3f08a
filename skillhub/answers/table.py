"""Which class each document and the answer of each command has, and the JSON Schemas of these classes."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

from pydantic import BaseModel

from skillhub.answers import reading, setup
from skillhub.answers.skills import CLASSES, JsonAnswer

__all__ = ["ANSWERS", "DIALECT", "DOCUMENTS", "reading", "schema_of", "setup"]

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
# Every document that is read or written, and the class that does it, imported when its schema is asked for. What the
# TOML or YAML of one holds is described as the JSON of the same shape.
DOCUMENTS: Final[Mapping[str, str]] = {
    "advisories": "skillhub.model.advisory.AdvisoriesDocument",
    "agent-file": "skillhub.model.needs.AgentFile",
    "agreed-sources": "skillhub.sources.configured.AgreedSourcesFile",
    "apm-package": "skillhub.exchange.other_locks.ApmPackage",
    "clawhub-entry": "skillhub.exchange.other_locks.ClawHubEntry",
    "baseline": "skillhub.audit.accepting.BaselineFile",
    "bundle": "skillhub.sources.bundle.BundleFile",
    "clients": "skillhub.registry.shapes.ClientDocument",
    "clients-list": "skillhub.registry.shapes.ClientDocuments",
    "config": "skillhub.net.settings.Settings",
    "discovery": "skillhub.model.discovery.DiscoveryListing",
    "discovery-0.1": "skillhub.model.discovery.LegacyDiscoveryListing",
    "discovery-files": "skillhub.model.discovery.FilesListing",
    "docker-config": "skillhub.sources.oci.DockerConfig",
    "first-seen": "skillhub.sources.history.FirstSeenFile",
    "log-seen": "skillhub.trust.log_client.LogSeenFile",
    "log-watched": "skillhub.trust.log_client.LogWatchedFile",
    "github-commit": "skillhub.sources.github.GitHubCommit",
    "github-tree": "skillhub.sources.github.GitHubTree",
    "index": "skillhub.model.index.IndexListing",
    "intent": "skillhub.project.intent.IntentFile",
    "known-agents": "skillhub.model.hosts.AgentsFile",
    "listing": "skillhub.sources.history.ListingFile",
    "lock": "skillhub.model.lock.LockFile",
    "marketplace": "skillhub.sources.layout.MarketplaceFile",
    "mcp-entries": "skillhub.install.mcp_entry.McpEntriesFile",
    "mcp-skill": "skillhub.sources.mcp.McpSkill",
    "namespaces": "skillhub.model.index.NamespacesDocument",
    "oci-index": "skillhub.sources.oci.OciIndex",
    "oci-manifest": "skillhub.sources.oci.OciManifest",
    "openclaw": "skillhub.model.needs.OpenClawMetadata",
    "owners": "skillhub.project.user_state.OwnersFile",
    "plugin": "skillhub.sources.layout.PluginFile",
    "policy": "skillhub.policy.policy.PolicyFile",
    "profiles": "skillhub.model.hosts.ProfilesFile",
    "publish-targets": "skillhub.registry.publish.PublishTargetsFile",
    "publisher": "skillhub.model.index.PublisherDocument",
    "publishers": "skillhub.project.user_state.PublishersFile",
    "records": "skillhub.model.record.RecordsFile",
    "registry": "skillhub.registry.operator.RegistrySettings",
    "releases": "skillhub.model.index.ReleasesDocument",
    "root": "skillhub.trust.roles.RootFile",
    "secrets": "skillhub.project.user_state.SecretsFile",
    "skill-profiles": "skillhub.install.profiles.SkillProfilesFile",
    "shown-time": "skillhub.sources.history.ShownTimeFile",
    "sites": "skillhub.net.download.SitesFile",
    "skill": "skillhub.model.index.SkillDocument",
    "skills-cli-entry": "skillhub.exchange.other_locks.SkillsCliEntry",
    "skills-lock-entry": "skillhub.exchange.other_locks.SkillsLockEntry",
    "sources": "skillhub.sources.configured.SourcesFile",
    "tuf-metadata": "skillhub.trust.roles.MetadataFile",
}
ANSWERS: Final[Mapping[str, type[JsonAnswer]]] = dict(sorted(CLASSES.items()))  # those of `reading` and `setup` too


def schema_of(name: str) -> dict[str, Any]:
    """Return the JSON Schema of a document, or of what a command answers.

    Raises:
        KeyError: there is none of that name.
    """
    module, _, kind = DOCUMENTS.get(name, "").rpartition(".")
    found: type[BaseModel] = getattr(import_module(module), kind) if module else ANSWERS[name]
    return {"$schema": DIALECT, **found.model_json_schema()}

"""What a skill needs, held against this machine: is it there, and does its absence keep the skill disabled."""

from __future__ import annotations

from skillhub.flows.hints import command
from skillhub.model.record import Facts
from skillhub.model.skill import Need, SkillScope

TYPE_CHECKING = False  # as type checkers know it: without `typing` a command starts 2 ms sooner
if TYPE_CHECKING:  # a manifest is parsed with PyYAML, which `list` has no use for
    from skillhub.model.manifest import Manifest


def facts_of(manifest: Manifest, capabilities: tuple[str, ...]) -> Facts:
    """Return what ``list`` will show of a skill's content without reading it again."""
    rows = tuple(
        {"kind": need.kind, "name": need.name, "description": need.description, "required": need.required}
        for need in manifest.requires
    )
    return Facts(manifest.description, manifest.model_invocable, rows, capabilities)


def how_to_meet(skill: str, need: Need, scope: SkillScope) -> tuple[str, ...]:
    """Return what to type or do about an open need, a line for each way; a command ends its line."""
    enable = command(scope, "enable", skill)
    if need.kind == "env":
        return (
            f"export {need.name}=…, then: {enable}",
            f"or at once: {enable} --env {need.name}=…",
            f"or to keep it, by the extra keyring: {command(scope, 'env', 'set', need.name)}",
        )
    if need.kind == "program":
        return (f"install the program {need.name}, then: {enable}",)
    if need.kind == "mcp":
        return f"to have it configured: {enable} --mcp configure", or_skip(enable)
    return (
        f"once it can be found: {command(scope, 'install')}",
        f"or have it from elsewhere ({command(scope, 'install', 'REF')}), then: {enable}",
    )


def or_skip(enable: str) -> str:
    """Return the last way to meet the need of an MCP server, given the command that enables the skill."""
    return f"or if you see to it yourself: {enable} --mcp skip"

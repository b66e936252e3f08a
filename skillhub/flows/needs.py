"""What a skill needs, held against this machine: is it there, and does its absence keep the skill disabled."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from skillhub.flows.hints import command
from skillhub.model.record import Facts, Record
from skillhub.model.skill import Need, SkillScope
from skillhub.world.project import Project

TYPE_CHECKING = False  # as type checkers know it: without `typing` a command starts 2 ms sooner
if TYPE_CHECKING:  # a manifest is parsed with PyYAML, which `list` has no use for
    from typing import Any

    from skillhub.model.manifest import Manifest

Given = Callable[[str, str], bool]  # kind and name of a need -> whether it is met


def given(environ: Mapping[str, str], enabled: Collection[str] = ()) -> Given:
    """Return the test of a need against this environment, these programs and these skills, which agents can have.

    An MCP server cannot be seen from here: whether it is configured stands in the skill's record.
    """
    programs: dict[str, bool] = {}

    def is_met(kind: str, name: str) -> bool:
        if kind == "env":
            return bool(environ.get(name))
        if kind == "program":
            if name not in programs:
                from shutil import which  # noqa: PLC0415 - it brings three ways to compress, 3 ms for few skills

                programs[name] = which(name, path=environ.get("PATH")) is not None
            return programs[name]
        return kind == "skill" and name in enabled

    return is_met


def or_stored(is_met: Given, skill: str, project: Project) -> Given:
    """Return the test for one skill: a variable is met too if a value is stored that this skill may have."""

    def is_met_for_it(kind: str, name: str) -> bool:
        return is_met(kind, name) or (kind == "env" and name in project.secrets.names_for(project.key, skill))

    return is_met_for_it


def facts_of(manifest: Manifest, capabilities: tuple[str, ...]) -> Facts:
    """Return what ``list`` will show of a skill's content without reading it again."""
    rows = tuple(
        {"kind": need.kind, "name": need.name, "description": need.description, "required": need.required}
        for need in manifest.requires
    )
    return Facts(manifest.description, manifest.model_invocable, rows, capabilities)


def needs_of(facts: Facts, record: Record | None, is_met: Given) -> tuple[Need, ...]:
    """Return every need of a skill; what a person answered for when it was enabled counts as they said."""
    met = record.met if record else ()
    waived = record.waived if record else ()
    servers = record.mcp if record else {}
    return tuple(
        _need(row, is_met, {*met, *(f"mcp:{name}" for name in servers)}, waived) for row in facts.needs
    )


def _need(row: Mapping[str, Any], is_met: Given, met: Collection[str], waived: Collection[str]) -> Need:
    spelled = f"{row['kind']}:{row['name']}"
    return Need(
        row["kind"],
        row["name"],
        row["description"],
        row["required"],
        satisfied=spelled in met or is_met(row["kind"], row["name"]),
        waived=spelled in waived,
    )


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

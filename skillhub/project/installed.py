"""What is installed in a project or for a user: each skill of the lock as this machine has it. Reads alone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from skillhub.model.lock import Locked, Signer
from skillhub.model.record import DeclaredNeed, Facts, Need, Record, Skill
from skillhub.project.copies import absolute
from skillhub.project.project import Project
from skillhub.project.publishers import voucher
from skillhub.project.store import Store

Given = Callable[[str, str], bool]  # kind and name of a need -> whether it is met


def managed(project: Project, store: Store, environ: Mapping[str, str]) -> list[Skill]:
    """Return every locked skill, by name.

    Raises:
        FormatError: the lock is malformed.
        StateError: it cannot be read.
    """
    lock, records = project.lock(), project.records()
    is_met = given(environ, records.enabled(lock.skills))
    return [
        view(name, entry, records.skills.get(name), is_met, project, store) for name, entry in lock.skills.items()
    ]


def view(name: str, entry: Locked, record: Record | None, is_met: Given, project: Project, store: Store) -> Skill:
    """Return the skill as the lock has it and as this machine has it.

    A record of another tree than the lock's, or from elsewhere, is of no account: nobody agreed to this one yet.
    """
    record = record if record is not None and record.is_of(entry) else None
    facts = record.facts if record else Facts()
    enabled = record is not None and record.enabled
    return Skill(
        name=name,
        source=entry.source,
        version=entry.version,
        digest=entry.digest,
        tree=entry.tree,
        size=entry.size,
        url=entry.url,
        path=store.path(entry.tree),
        links=tuple(absolute(project.base, link) for link in record.links) if record and enabled else (),
        scope=project.scope,
        state="enabled" if enabled else "disabled",
        invocation="model" if facts.model_invocable else "user",
        signed_by=tuple(map(Signer.parse, entry.signed_by)),
        vouched_by=voucher(entry, project.last_lock(), project.home) if entry.signed_by else None,
        requires=needs_of(facts, record, or_stored(is_met, name, project)) if facts.needs else (),
        capabilities=facts.capabilities if record else entry.capabilities,
        description=facts.description,
        patch=entry.patch.path if entry.patch else None,
    )


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


def needs_of(facts: Facts, record: Record | None, is_met: Given) -> tuple[Need, ...]:
    """Return every need of a skill; what a person answered for when it was enabled counts as they said."""
    met = record.met if record else ()
    waived = record.waived if record else ()
    servers = record.mcp if record else {}
    return tuple(_need(row, is_met, {*met, *(f"mcp:{name}" for name in servers)}, waived) for row in facts.needs)


def _need(need: DeclaredNeed, is_met: Given, met: Collection[str], waived: Collection[str]) -> Need:
    spelled = need.spell()
    satisfied = spelled in met or is_met(need.kind, need.name)
    return Need(need.kind, need.name, need.description, need.required, satisfied, spelled in waived)

"""From lock, record and environment to the ``Skill`` that is shown."""

from __future__ import annotations

from skillhub.flows.needs import Given, needs_of, or_stored
from skillhub.model.lock import Locked
from skillhub.model.record import Facts, Record
from skillhub.model.signer import Signer
from skillhub.model.skill import Skill
from skillhub.world.links import absolute
from skillhub.world.project import Project
from skillhub.world.store import Store


def view(
    name: str, entry: Locked, record: Record | None, is_met: Given, project: Project, store: Store
) -> Skill:
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
        requires=needs_of(facts, record, or_stored(is_met, name, project)) if facts.needs else (),
        capabilities=facts.capabilities if record else entry.capabilities,
        description=facts.description,
        patch=entry.patch.path if entry.patch else None,
    )

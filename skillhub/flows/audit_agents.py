"""Agents under audit: those that have skills in a folder of their own, and by a policy may have none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from skillhub.flows.audit_places import Places
from skillhub.flows.audit_rules import note
from skillhub.flows.ports import Ports
from skillhub.model.hosts import hosts
from skillhub.model.policy import Objection
from skillhub.model.report import Noted
from skillhub.world.links import link_folders, place


def agents(names: Iterable[str], places: Places, ports: Ports) -> Iterator[Noted]:
    """Yield each place where an enabled skill is in the folder of such an agent, and of no other.

    Raises:
        LinkLeavesProject: a folder of the project is a link to somewhere outside of it.
    """
    closed = _closed(ports)
    records = ports.project.records().skills if closed else {}
    for name in names:
        for link in records[name].links if name in records and records[name].enabled else ():
            if objection := closed.get(link.rpartition("/")[0]):
                at = places.shown(place(ports.project, link)), 0
                yield note("policy", f"{objection.message} ({objection.where})", name, at)


def _closed(ports: Ports) -> Mapping[str, Objection]:
    """Return the folders that no agent which may have skills reads as its own."""
    found: dict[str, Objection | None] = {}
    is_asked = any(policy.agents is not None for policy in ports.policies.each)
    for host in hosts().values() if is_asked else ():
        objection = ports.policies.against_agent(host.id)
        # The first is the shared one, which is no agent's own.
        for folder in link_folders(ports.project, [host], ports.user_home, ports.environ)[1:]:
            found[folder] = found.get(folder, objection) and objection
    return {folder: objection for folder, objection in found.items() if objection is not None}

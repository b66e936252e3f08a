"""What a person asked of an install beside the references: where to enable, and how needs are to be met."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from skillhub.errors import FormatError, UsageError
from skillhub.flows.ports import Ports
from skillhub.model.digest import Digest
from skillhub.model.hosts import Host, detect, host, hosts
from skillhub.model.intent import Intent
from skillhub.model.record import LinkKind, Records

McpChoice = Literal["ask", "configure", "skip"]


@dataclass(frozen=True, slots=True)
class Options:
    """The flags of install and enable, as values.

    Attributes:
        agents: Ids of the agents to enable for; empty means those chosen before, or wanted, or found here.
        env: Variables given for this command alone; never stored, never shown.
        mcp: What to do about MCP servers that a skill needs.
        link: Copies or links; None leaves it to the intent.
        enable: False leaves what is installed in the store.
        frozen: The lock as it stands, or fail.
        skills: Of places that hold several: these, by name, ``plugin:name`` or folder.
        every: Of such places all skills; what is malformed or critical is left out.
        excepted: Of all skills, not these, by the same words: nothing of them is fetched.
        trusted: By alias the root of each registry that the project may propose, said beforehand.
        dry_run: Work everything out, ask nothing, change nothing.
    """

    agents: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    mcp: McpChoice = "ask"
    link: LinkKind | None = None
    enable: bool = True
    frozen: bool = False
    skills: tuple[str, ...] = ()
    every: bool = False
    excepted: tuple[str, ...] = ()
    trusted: Mapping[str, Digest] = field(default_factory=dict)
    dry_run: bool = False


def chosen_agents(options: Options, records: Records, intent: Intent, ports: Ports) -> tuple[Host, ...]:
    """Return the agents to enable for: as asked, else as chosen before, else as wanted, else as found here.

    Of those, the ones that the policies let have skills.

    Raises:
        UsageError: an id that is no agent's; of the intent's it is a FormatError.
        Forbidden: a policy forbids one that was asked for by name.
    """
    chosen = _chosen(options, records, intent, ports)
    allowed = []
    for each in chosen:
        objection = ports.policies.against_agent(each.id)
        if objection is None:
            allowed.append(each)
        elif options.agents and "all" not in options.agents:
            raise objection.error
    return tuple(allowed)


def _chosen(options: Options, records: Records, intent: Intent, ports: Ports) -> tuple[Host, ...]:
    for ids in (options.agents, records.agents, intent.agents):
        if "all" in ids:
            return tuple(hosts().values())
        if ids:
            try:
                return tuple(host(each) for each in ids)
            except UsageError as error:
                if ids is not intent.agents:
                    raise
                where = f"{ports.project.intent_path}: install.agents"
                raise FormatError(error.message, where=where, hint=error.hint) from error
    return detect(ports.project.base, ports.user_home, ports.environ, os.path.exists)

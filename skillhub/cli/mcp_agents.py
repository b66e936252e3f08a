"""``mcp install``, ``remove`` and ``check``: our entry in an agent's configuration, and servers, looked at."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Annotated, Final

from skillhub.cli.common import Arg, Common, Strings, optional
from skillhub.cli.network import OpenNetwork
from skillhub.cli.prompts import Flags, Person
from skillhub.cli.render import question_json
from skillhub.cli.terminal import is_interactive
from skillhub.errors import UsageError
from skillhub.formats.text import as_command
from skillhub.install.context import Ports, ask_person
from skillhub.install.mcp_entry import OwnEntry
from skillhub.model.hosts import detect, host
from skillhub.project.mcp import DIALECTS, agents_with_file

_MISSING = "to serve skills needs"
HOME: Final = "SKILLHUB_HOME"


def show_entry(common: Common, agent: str) -> int:
    """Show the entry of an agent, and the file that it belongs in."""
    entry = OwnEntry(_known(agent), common.ports())
    path = entry.file.path
    if common.json:
        return common.answer("mcp", {"agent": entry.agent, "path": path, "entry": entry.spelled})
    common.terminal.say(f"{entry.agent} reads it from {path}", "dim")
    for line in entry.text.splitlines():
        common.terminal.verbatim(line)
    return 0


def mcp_install(
    common: Common, agent: Annotated[Strings, Arg("--agent NAME", "The agent (repeatable).")] = None
) -> int:
    """Write the entry that runs `skillhub mcp` into an agent's configuration. You are asked first.

    With --global it is written for all of your projects.

    Example: skillhub mcp install --agent claude-code
    """
    optional("skillhub.server.mcp", "server", _MISSING)
    ports, rows, asked = common.ports(), [], []
    entries = [OwnEntry(each, ports) for each in _agents(agent, ports)]
    # Before the first question it is known that each can be written.
    rows_of = {each.agent: {"agent": each.agent, "path": each.file.path, "entry": each.spelled} for each in entries}
    for each in entries:
        changed, answers = each.write(dry_run=common.dry_run)
        asked += answers
        rows.append({**rows_of[each.agent], "changed": changed})
    if common.json:
        questions = [question_json(question, answer) for question, answer in asked]
        changed = any(row["changed"] for row in rows) and not common.dry_run
        return common.answer("mcp install", {"entries": rows, "changed": changed, "questions": questions})
    for row in rows:
        done = "would write" if common.dry_run else "wrote"
        told = f"{done} {row['path']}: the MCP server skillhub" if row["changed"] else f"{row['path']} has it already"
        common.terminal.did(told, "green" if row["changed"] else "plain")
    if HOME in ports.environ:
        common.terminal.warn(f"note: the agent has to start with the same {HOME}, or it finds no skills", "plain")
    return 0


def mcp_remove(
    common: Common, agent: Annotated[Strings, Arg("--agent NAME", "The agent (repeatable).")] = None
) -> int:
    """Remove the entry that `mcp install` wrote into an agent's configuration, unless it was changed since.

    Example: skillhub mcp remove --agent claude-code
    """
    ports = common.ports()
    entries = [OwnEntry(each, ports) for each in _agents(agent, ports)]
    removed = {each.file.path: each.remove(dry_run=common.dry_run) for each in entries}
    if common.json:
        rows = [{"agent": each.agent, "path": each.file.path, "changed": removed[each.file.path]} for each in entries]
        changed = any(removed.values()) and not common.dry_run
        return common.answer("mcp remove", {"entries": rows, "changed": changed, "questions": []})
    for path, changed in removed.items():
        done = "would remove" if common.dry_run else "removed"
        common.terminal.did(f"{done} the MCP server skillhub: {path}" if changed else f"{path} does not have it")
    return 0


def mcp_check(
    common: Common,
    name: Annotated[str, Arg("NAME", "The server, as an agent or a skill calls it.")],
    agent: Annotated[str | None, Arg("--agent NAME", "The agent that has this server in its configuration.")] = None,
    file: Annotated[str | None, Arg("--file FILE", "The agent's file, if several define the server.")] = None,
) -> int:
    """Start an MCP server, or call it, and list its tools and skills. A person is asked first; no flag answers.

    Compares them with the tools that installed skills name. Exits 1 if one is missing.

    Example: skillhub mcp check github
    """
    checking = optional("skillhub.audit.mcp_check", "server", "to look at an MCP server needs")
    ports = common.ports()
    checked = checking.to_check(name, None if agent is None else _known(agent), file, ports)
    question = checked.question()
    if common.dry_run:
        common.terminal.did(f"would ask: {question.message}")
        for line in question.details:
            common.terminal.did(f"  {line}")
        return 0
    if is_interactive():  # also with --json: the question goes to stderr
        ports = replace(ports, approver=Person(common.terminal, Flags()))
    ask_person(question, ports)
    network = OpenNetwork(common.home, ports.sources, common.user_home, offline=common.offline)
    common.undo.callback(network.close)
    found = checking.look(checked, network.web(checked.url) if checked.url else None)
    needs = checking.compared(checked, found, ports)
    is_fine = not any(row["missing"] for row in needs)
    is_ours = found.server.startswith("skillhub") and found.skills == () and not checked.url
    if is_ours and HOME in ports.environ and HOME not in checked.given:
        message = f"{HOME} is set here, and the server does not get it: it looks for skills elsewhere"
        common.terminal.warn(f"warning: {name}: {message}")
    if common.json:
        facts = {"name": name, "place": checked.place, "server": found.server, "protocol": found.protocol}
        shown = {**facts, "tools": found.tools, "skills": found.skills, "needs": needs, "ok": is_fine}
        common.answer("mcp check", shown)
        return 0 if is_fine else 1
    common.terminal.out(f"{name}: {found.server or 'without a name'}, MCP {found.protocol}")
    common.terminal.out(f"tools: {', '.join(found.tools) or 'none'}")
    if found.skills is not None:
        common.terminal.out(f"skills: {', '.join(found.skills) or 'none are listed'}")
    for row in needs:
        missing = ", ".join(row["missing"])
        told = f"names tools that it lacks: {missing}" if missing else "finds what it needs"
        common.terminal.out(f"{row['skill']} {told}", "yellow" if missing else "plain")
        if row["describes"]:
            common.terminal.out(f"{row['skill']} describes another server: {row['describes']}", "yellow")
    return 0 if is_fine else 1


def _agents(named: list[str] | None, ports: Ports) -> list[str]:
    if not named or "all" in named:
        scope, used = ports.project.scope, detect(ports.project.base, ports.user_home, ports.environ, os.path.exists)
        here = {each.id for each in used} & {*agents_with_file(scope)} or agents_with_file(scope)
        hint = as_command(*(word for each in sorted(here) for word in ("--agent", each)))
        raise UsageError("expected the name of each agent", hint=hint)
    return [*dict.fromkeys(map(_known, named))]


def _known(agent: str) -> str:
    """Return the id of an agent that has a file for MCP servers.

    Raises:
        UsageError: there is none of that name, or it has none.
    """
    name = host(agent).id
    if name not in DIALECTS:
        hint = f"agents with such a file: {', '.join(DIALECTS)}"
        raise UsageError(f"{name} has no file for MCP servers that skillhub knows", hint=hint)
    return name

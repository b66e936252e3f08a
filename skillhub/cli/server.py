"""``mcp`` and ``serve``: serve skills to agents, edit skillhub's entry in their configuration, check MCP servers."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Annotated, Any, BinaryIO, Final, cast

from skillhub.cli.common import Arg, Common, Strings, optional, read_file
from skillhub.cli.installed import installed as installed_skills
from skillhub.cli.network import OpenNetwork, open_ports
from skillhub.cli.prompts import Person
from skillhub.cli.show import surroundings
from skillhub.cli.terminal import is_interactive
from skillhub.command.ports import Ports, ask_person
from skillhub.errors import UsageError
from skillhub.exchange.own_mcp_entry import OwnEntry
from skillhub.formats.json import members
from skillhub.formats.text import as_command, as_word, command, did_you_mean, quote, spelled_like
from skillhub.model.hosts import SkillScope, detect, host
from skillhub.model.question import Flags
from skillhub.model.skill import Skill
from skillhub.project.mcp_config import DIALECTS, agents_with_file

HOME: Final = "SKILLHUB_HOME"
Agents = Annotated[Strings, Arg("--agent NAME", "The agent (repeatable).")]


# skillhub's entry in an agent's configuration, and the check of MCP servers.


def show_entry(common: Common, agent: str) -> None:
    """Show skillhub's entry for an agent's configuration, and the path of the file."""
    entry = OwnEntry(_known(agent), open_ports(common))
    path = entry.file.path
    if common.json:
        return common.answer("mcp", {"agent": entry.agent, "path": path, "entry": entry.spelled})
    common.terminal.say(f"{entry.agent} reads it from {path}", "dim")
    common.terminal.lines(entry.text)


def mcp_install(common: Common, agent: Agents = None) -> None:
    """Write the entry of `skillhub mcp` for an agent. Asks first.

    The entry in the agent's configuration runs `skillhub mcp`. With --global, it applies to all of your projects.

    Example: skillhub mcp install --agent claude-code
    """
    optional("skillhub.server.mcp", "server", _MISSING)
    ports, rows, asked = open_ports(common), [], []
    entries = [OwnEntry(each, ports) for each in _agents(agent, "install", ports)]
    # An entry that cannot be written is an error before the first question.
    rows_of = {each.agent: {"agent": each.agent, "path": each.file.path, "entry": each.spelled} for each in entries}
    for each in entries:
        changed, answers = each.write(dry_run=common.dry_run)
        asked += answers
        rows.append({**rows_of[each.agent], "changed": changed})
    if common.json:
        questions = [question.to_json(answer) for question, answer in asked]
        changed = any(row["changed"] for row in rows) and not common.dry_run
        return common.answer("mcp install", {"entries": rows, "changed": changed, "questions": questions})
    for row in rows:
        done = common.would("write", "wrote")
        text = f"{done} {row['path']}: the MCP server skillhub" if row["changed"] else f"{row['path']} has it already"
        common.terminal.did(text, "green" if row["changed"] else "plain")
    if HOME in ports.environ:
        common.terminal.say(f"note: the agent has to start with the same {HOME}, or it finds no skills")


def mcp_remove(common: Common, agent: Agents = None) -> None:
    """Remove the entry that `mcp install` wrote. One that was changed since stays in the agent's configuration.

    Example: skillhub mcp remove --agent claude-code
    """
    ports = open_ports(common)
    entries = [OwnEntry(each, ports) for each in _agents(agent, "remove", ports)]
    removed = {each.file.path: each.remove(dry_run=common.dry_run) for each in entries}
    if common.json:
        rows = [{"agent": each.agent, "path": each.file.path, "changed": removed[each.file.path]} for each in entries]
        changed = any(removed.values()) and not common.dry_run
        return common.answer("mcp remove", {"entries": rows, "changed": changed, "questions": []})
    for path, changed in removed.items():
        done = common.would("remove", "removed")
        text = f"{done} the MCP server skillhub: {path}" if changed else f"{path} has no MCP server skillhub"
        common.terminal.did(text)


def mcp_check(
    common: Common,
    name: Annotated[str, Arg("NAME", "The server, as an agent or a skill calls it.")],
    agent: Annotated[str | None, Arg("--agent NAME", "The agent that has this server in its configuration.")] = None,
    file: Annotated[str | None, Arg("--file FILE", "The agent's file, if several define the server.")] = None,
) -> int:
    """Start or reach an MCP server, and list its tools. Asks a person first; no flag answers.

    Also lists its skills, and compares the tools with those that installed skills name. Exits 1 if one is missing.

    Example: skillhub mcp check github
    """
    checking = optional("skillhub.audit.mcp_check", "server", "checking an MCP server needs")
    ports = open_ports(common)
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
    web = cast("OpenNetwork", ports.network).web(checked.url) if checked.url else None
    found = checking.inspect_server(checked, web)
    needs = checking.compared(checked, found, ports)
    is_fine = not any(row["missing"] for row in needs)
    is_ours = found.server.startswith("skillhub") and found.skills == () and not checked.url
    if is_ours and HOME in ports.environ and HOME not in checked.process_environ:
        message = f"{HOME} is set here, and the server does not get it: it looks for skills elsewhere"
        common.terminal.warn(f"warning: {name}: {message}")
    if common.json:
        facts = {"name": name, "place": checked.place, **members(found, "server", "protocol", "tools", "skills")}
        common.answer("mcp check", {**facts, "needs": needs, "ok": is_fine})
        return 0 if is_fine else 1
    common.terminal.out(f"{name}: {found.server or 'without a name'}, MCP {found.protocol}")
    common.terminal.out(f"tools: {', '.join(found.tools) or 'none'}")
    if found.skills is not None:
        common.terminal.out(f"skills: {', '.join(found.skills) or 'none are listed'}")
    for row in needs:
        missing = ", ".join(row["missing"])
        text = f"names tools that it lacks: {missing}" if missing else "finds what it needs"
        common.terminal.out(f"{row['skill']} {text}", "yellow" if missing else "plain")
        if row["describes"]:
            common.terminal.out(f"{row['skill']} describes another server: {row['describes']}", "yellow")
    return 0 if is_fine else 1


def _agents(named: list[str] | None, verb: str, ports: Ports) -> list[str]:
    if not named or "all" in named:
        scope, used = ports.project.scope, detect(ports.project.base, ports.user_home, ports.environ, os.path.exists)
        known = agents_with_file(scope)
        here = {each.id for each in used} & {*known}
        flags = (word for each in sorted(here or ["AGENT"]) for word in ("--agent", each))
        hint = command(scope, "mcp", verb, *flags)
        known_too = "" if here else f"; AGENT is one of {', '.join(sorted(known))}"
        raise UsageError("expected the name of each agent", hint=f"{hint}{known_too}")
    return [*dict.fromkeys(map(_known, named))]


def _known(agent: str) -> str:
    """Return the id of an agent that has a file for MCP servers.

    Raises:
        UsageError: there is no agent of this name, or it has no such file.
    """
    hint = f"agents with a file for MCP servers: {', '.join(DIALECTS)}"
    try:
        name = host(agent).id
    except UsageError as error:
        raise UsageError(error.message, hint=did_you_mean(spelled_like(agent, DIALECTS)) or hint) from error
    if name not in DIALECTS:
        raise UsageError(f"{name} has no file for MCP servers that skillhub knows", hint=hint)
    return name


# The servers of skills: over stdio, and over HTTP.

_MISSING = "serving skills needs"
_TOKEN_MIN, _TOKEN_MAX = 20, 512
_MAKE_ONE = "umask 077; openssl rand -hex 32 > "  # and the file
NoTools = Annotated[bool, Arg("--no-tools", "Offer no tools, only the MCP extension for skills.")]
Everything = Annotated[bool, Arg("--all", "Also serve skills that are in no lock, marked as not locked.")]
PrintConfig = Annotated[
    str | None, Arg("--print-config AGENT", "Print the configuration entry for this agent; serve nothing.")
]


def mcp(
    common: Common, no_tools: NoTools = False, all_: Everything = False, print_config: PrintConfig = None
) -> None:
    """Serve the skills of this project, and of the user, to an agent over MCP, on stdin and stdout.

    Serves only skills that are locked, agreed to and enabled, with the files of the lock. Agents start this command.

    Example: skillhub mcp
    """
    if print_config is not None:
        return show_entry(common, print_config)
    common.open_project()
    is_typed = sys.stdin.isatty()
    with _taken() as ends:
        server = optional("skillhub.server.mcp", "server", _MISSING)
        content = optional("skillhub.server.content", "server", _MISSING).ServedContent(surroundings(common), all_)
        if is_typed:
            common.terminal.say("waiting for an agent's requests on stdin (stop with Ctrl-C)")
        server.serve_stdio(content, ends, with_tools=not no_tools)


@contextmanager
def _taken() -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Return stdin and stdout for the protocol; meanwhile stdin is empty, and all other output goes to stderr.

    This includes the output of child processes, and of libraries that write to the descriptor.
    """
    sys.stdout.flush()
    ends = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    try:
        # They stay open: at the end a thread may still wait for the client.
        yield open(ends[0], "rb", closefd=False), open(ends[1], "wb", buffering=0, closefd=False)  # noqa: SIM115
    finally:
        sys.stdout.flush()
        os.dup2(ends[0], 0)
        os.dup2(ends[1], 1)


def serve(
    common: Common,
    host: Annotated[str, Arg("--host ADDRESS", "The address to listen on; other machines need a token.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, Arg("--port N", "The port; 0 takes a free one.", min=0)] = 8580,
    token_file: Annotated[
        str | None, Arg("--token-file FILE", "Answer only requests that carry the token in FILE.")
    ] = None,
    allow_host: Annotated[
        Strings, Arg("--allow-host NAME", "Accept requests for this host name too (repeatable).")
    ] = None,
) -> None:
    """Serve the skills of this project over HTTP: a page, an API, JSON-RPC. Changes nothing; Ctrl-C ends it.

    Example: skillhub serve --port 8580
    """
    application = optional("skillhub.server.application", "server", _MISSING)
    guard = optional("skillhub.server.guard", "server", _MISSING)
    address = application.Address.of(host, port)
    if not (address.is_local or token_file):
        names = [word for name in allow_host or () for word in ("--allow-host", name)]
        again = as_command("skillhub", "serve", "--host", host, *(("--port", str(port)) if port else ()), *names)
        hint = f"{_MAKE_ONE}token; {again} --token-file token"
        raise UsageError(f"other machines reach {quote(host)}, so a token is needed", hint=hint)
    token = read_token(token_file) if token_file else None
    workplace = workplace_of(common)
    workplace.skills()  # an unreadable lock is an error now, and not in each answer
    listener = address.listen()
    port = listener.getsockname()[1]
    url = address.url(port)

    def announce() -> None:
        if common.json:
            common.answer("serve", {"url": url})
        else:
            common.terminal.out(url)
            common.terminal.say("stop with Ctrl-C")
        sys.stdout.flush()  # a program may wait for the address on a pipe

    access = guard.AccessRules(address.host, address.ip, port, allow_host or (), token)
    application.run(application.server_of(workplace, access), listener, announce)
    common.terminal.say("stopped")


def read_token(path: str) -> str:
    """Return the token in a file: one line of 20 to 512 visible ASCII characters that only the owner can read.

    Raises:
        NotFound: the file does not exist.
        UsageError: the file has other content, or other users can read it.
    """
    data = read_file(path, _TOKEN_MAX + 2, hint=_MAKE_ONE + as_word(path))
    if os.name == "posix" and stat.S_IMODE(os.stat(os.path.expanduser(path)).st_mode) & 0o077:
        raise UsageError("other users can read the token", where=path, hint=f"chmod 600 {path}")
    token = data.decode("ascii", "replace").removesuffix("\n").removesuffix("\r")
    if not (_TOKEN_MIN <= len(token) <= _TOKEN_MAX and all("!" <= char <= "~" for char in token)):
        message = f"expected one line of {_TOKEN_MIN} to {_TOKEN_MAX} visible ASCII characters"
        raise UsageError(message, where=path, hint=_MAKE_ONE + as_word(path))
    return token


def workplace_of(common: Common) -> Any:  # noqa: ANN401 - of a module that an extra brings
    """Return the workplace of the server: the project or scope of the flags, read again for each request, offline."""

    def installed() -> Sequence[Skill]:
        found = installed_skills(common)
        return (*found.skills, *found.users)

    @contextmanager
    def ports(scope: SkillScope) -> Iterator[Ports]:
        is_user = common.user_scope or scope == "user"
        project = None if is_user else common.project
        asked = replace(common, offline=True, quiet=True, user_scope=is_user, project=project, undo=ExitStack())
        with asked.undo:
            yield open_ports(asked, scratch=True)

    made = optional("skillhub.server.routes", "server", _MISSING).Workplace
    return made(ports, installed, surroundings(common), common.terminal.warn)

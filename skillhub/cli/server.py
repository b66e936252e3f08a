"""``mcp`` and ``serve``: skills for agents, served."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Annotated, Any, BinaryIO

from skillhub.cli.common import Arg, Common, Strings, optional
from skillhub.cli.installed import installed as installed_skills
from skillhub.cli.mcp_agents import mcp_check, mcp_install, mcp_remove, show_entry
from skillhub.cli.render import error_json
from skillhub.cli.show import surroundings
from skillhub.disk import files
from skillhub.errors import NotFound, UsageError
from skillhub.formats.text import as_command, as_word, quote
from skillhub.install.context import Ports
from skillhub.model.record import Skill, SkillScope

__all__ = ["mcp", "mcp_check", "mcp_install", "mcp_remove", "serve"]

_MISSING = "to serve skills needs"
_TOKEN_MIN, _TOKEN_MAX = 20, 512
_MAKE_ONE = "umask 077; openssl rand -hex 32 > "  # and the file
NoTools = Annotated[bool, Arg("--no-tools", "Offer no tools, only the extension for skills.")]
Everything = Annotated[bool, Arg("--all", "Serve skills too that no lock knows, marked as not locked.")]
PrintConfig = Annotated[
    str | None, Arg("--print-config AGENT", "Show the entry of an agent that runs this, and serve nothing.")
]


def mcp(common: Common, no_tools: NoTools = False, all_: Everything = False, print_config: PrintConfig = None) -> int:
    """Serve the skills of this project, and of the user, to an agent over MCP, on stdin and stdout.

    Only skills that are locked, agreed to and enabled are served, each as its lock has it. An agent starts this.

    Example: skillhub mcp
    """
    if print_config is not None:
        return show_entry(common, print_config)
    common.open_project()
    if sys.stdin.isatty():
        common.terminal.say("waiting for an agent's requests on stdin (stop with Ctrl-C)")
    with _taken() as ends:
        server = optional("skillhub.server.mcp", "server", _MISSING)
        content = optional("skillhub.server.content", "server", _MISSING).ServedContent(surroundings(common), all_)
        server.serve_stdio(content, ends, with_tools=not no_tools)
    return 0


@contextmanager
def _taken() -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Take stdin and stdout: meanwhile stdin is empty, and what else is printed goes to stderr.

    Programs that are started here, and libraries that write to the descriptor, are diverted likewise.
    """
    sys.stdout.flush()
    ends = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    try:
        # Nobody closes them: a thread may still wait for the client at the end.
        yield open(ends[0], "rb", closefd=False), open(ends[1], "wb", buffering=0, closefd=False)  # noqa: SIM115
    finally:
        sys.stdout.flush()
        os.dup2(ends[0], 0)
        os.dup2(ends[1], 1)


def serve(
    common: Common,
    host: Annotated[str, Arg("--host ADDRESS", "The address to listen on; one that others reach needs a token.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, Arg("--port N", "The port; 0 takes a free one.", min=0)] = 8580,
    token_file: Annotated[
        str | None, Arg("--token-file FILE", "Answer only requests that carry the token in FILE.")
    ] = None,
    allow_host: Annotated[
        Strings, Arg("--allow-host NAME", "Another name by which this server is reached (repeatable).")
    ] = None,
) -> int:
    """Serve the skills of this project over HTTP: a page, an API, JSON-RPC. Changes nothing; Ctrl-C ends it.

    Example: skillhub serve --port 8580
    """
    listen = optional("skillhub.server.listen", "server", _MISSING)
    guard = optional("skillhub.server.guard", "server", _MISSING)
    address = listen.Address.of(host, port)
    if not (address.is_local or token_file):
        names = [word for name in allow_host or () for word in ("--allow-host", name)]
        again = as_command("skillhub", "serve", "--host", host, *(("--port", str(port)) if port else ()), *names)
        hint = f"{_MAKE_ONE}token; {again} --token-file token"
        raise UsageError(f"other machines reach {quote(host)}, so a token is needed", hint=hint)
    token = read_token(token_file) if token_file else None
    workplace = workplace_of(common)
    workplace.skills()  # what cannot be read is told now, and not to each request
    listener = address.listen()
    port = listener.getsockname()[1]
    url = address.url(port)

    def announce() -> None:
        if common.json:
            common.terminal.answer("serve", {"url": url})
        else:
            common.terminal.out(url)
            common.terminal.say("stop with Ctrl-C")
        sys.stdout.flush()  # whoever reads a pipe waits for the address

    access = guard.AccessRules.of(address.host, address.ip, port, allow_host or (), token)
    listen.run(listen.server_of(workplace, access), listener, announce)
    common.terminal.say("stopped")
    return 0


def read_token(path: str) -> str:
    """Return the token that a file holds: one line of 20 to 512 visible ASCII characters, for its owner alone.

    Raises:
        NotFound: there is no such file.
        UsageError: it holds something else, or others can read it.
    """
    real = os.path.realpath(os.path.expanduser(path))
    data = files.read(real, _TOKEN_MAX + 2)
    if data is None:
        raise NotFound("there is no such file", where=path, hint=_MAKE_ONE + as_word(path))
    if os.name == "posix" and stat.S_IMODE(os.stat(real).st_mode) & 0o077:
        raise UsageError("other users can read the token", where=path, hint=f"chmod 600 {path}")
    token = data.decode("ascii", "replace").removesuffix("\n").removesuffix("\r")
    if not (_TOKEN_MIN <= len(token) <= _TOKEN_MAX and all("!" <= char <= "~" for char in token)):
        message = f"expected one line of {_TOKEN_MIN} to {_TOKEN_MAX} visible ASCII characters"
        raise UsageError(message, where=path, hint=_MAKE_ONE + as_word(path))
    return token


def workplace_of(common: Common) -> Any:  # noqa: ANN401 - of a module that an extra brings
    """Return what the server answers about: what the flags name, read anew each time and without a network."""

    def installed() -> Sequence[Skill]:
        found = installed_skills(common)
        return (*found.skills, *found.users)

    @contextmanager
    def ports(scope: SkillScope) -> Iterator[Ports]:
        is_user = common.user_scope or scope == "user"
        project = None if is_user else common.project
        asked = replace(common, offline=True, quiet=True, user_scope=is_user, project=project, undo=ExitStack())
        with asked.undo:
            yield asked.ports(scratch=True)

    made = optional("skillhub.audit.workplace", "server", _MISSING).Workplace
    return made(ports, installed, surroundings(common), error_json, common.terminal.warn)

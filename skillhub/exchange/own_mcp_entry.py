"""The entry of an agent's configuration that runs ``skillhub mcp``: shown, written, removed."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from pydantic import Field

from skillhub.command.ports import Ports, ask
from skillhub.disk.home import Home
from skillhub.disk.state_file import StateDocument, StateFile
from skillhub.errors import FormatError, SkillhubError, StateError, UsageError
from skillhub.formats.document import Items, Members, Visible
from skillhub.formats.text import command, quote
from skillhub.model import mcp_server
from skillhub.model.hosts import host
from skillhub.model.needs import McpServer
from skillhub.model.question import Asked, Question
from skillhub.project import copies, mcp_config

NAME: Final = "skillhub"
_START = 30.0  # seconds
_HINT = "restore the file, or move it away and remove the entries yourself"


class McpEntriesFile(StateDocument):
    """``mcp-entries.json`` in the state: by an agent's file, our entry there, and the paths we created for it."""

    entries: Members[Visible, dict[str, object]]
    created: Members[Visible, Items[str]] = Field(default_factory=dict)


@dataclass(frozen=True)
class OwnEntry:
    """The entry of one agent, in the scope of a project or of the user."""

    agent: str
    ports: Ports

    @cached_property
    def file(self) -> mcp_config.ConfigFile:
        """The file that holds the entry.

        Raises:
            UsageError: the agent has no such file in this scope.
        """
        project, ports = self.ports.project, self.ports
        found = mcp_config.config_file(self.agent, project.scope, project.base, ports.user_home, ports.environ)
        if found is None:
            agents = ", ".join(mcp_config.agents_with_file(project.scope))
            message = f"{host(self.agent).id} has no file for MCP servers in this scope that skillhub knows"
            raise UsageError(message, hint=f"agents with such a file: {agents}")
        return found

    @cached_property
    def server(self) -> McpServer:
        """The command of the entry: this Python with this skillhub, without modules of a folder or a variable.

        Raises:
            StateError: the command does not start, or the agent would expand the path of the project.
        """
        project = self.ports.project
        of_project = ("--project", project.base) if project.scope == "project" else ()
        try:
            return McpServer("stdio", (*_start(), "mcp", *of_project))
        except FormatError as error:
            everywhere = command("user", "mcp", "install", "--agent", self.agent)
            hint = f"rename the folder, or for all projects: {everywhere}"
            raise StateError(error.message, where=project.base, hint=hint) from error

    @property
    def spelled(self) -> mcp_config.ConfigEntry:
        """The entry in the agent's format."""
        return mcp_config.entry(self.agent, self.server, self.file.scope)

    @property
    def text(self) -> str:
        """The text of a file that has only this entry."""
        return self.file.dialect.insert("", NAME, self.spelled, self.file.path)

    def write(self, *, dry_run: bool) -> tuple[bool, list[Asked]]:
        """Ask, then write the entry; return whether anything changed, and the questions with their answers.

        An entry that we wrote before and that no one changed is replaced.

        Raises:
            Refused: the question was not answered, or with no.
            StateError: another server has the name, or the disk refuses.
            FormatError: the file is malformed.
        """
        there, before = mcp_config.servers(self.file).get(NAME), self._written
        if there is not None and mcp_config.is_equal(there, self.spelled):
            return False, []
        if there is not None and (before is None or not mcp_config.is_equal(there, before)):
            theirs, ours = ("; ".join(each) for each in (mcp_server.facts(there), self.server.facts()))
            message = f"expected no other MCP server called {NAME}, found one"
            hint = f"rename or remove it; theirs: {theirs}; ours: {ours}"
            raise StateError(message, where=self.file.path, hint=hint)
        details = (*self.server.facts(), f"{self.file.agent}: {self.file.path}")
        if self.file.scope == "project":
            details += ("it names folders of this machine: do not commit it for others",)
        target = f"the configuration of {self.file.agent}"
        message = f"Write the MCP server {NAME}, which serves your skills, into {target}?"
        asked = ask([Question("mcp-serve", NAME, message, details, self.file.agent)], self.ports, dry_run)
        if not dry_run:
            created = (*self._created, *copies.missing_paths(self.ports.project, [self.file.path]))
            self._remember(self.spelled, created)
            try:
                mcp_config.write(self.file, NAME, self.server, self.ports.project, there)
            except SkillhubError:
                if before is not None:
                    self._remember(before, created)  # the file still has it, and no other entry is ours
                raise
        return True, asked

    def remove(self, *, dry_run: bool) -> bool:
        """Remove the entry if we wrote it and no one changed it; return whether it was there.

        Raises:
            StateError: the entry differs from the one that we wrote.
            FormatError: the file is malformed.
        """
        there, before = mcp_config.servers(self.file).get(NAME), self._written
        if there is None:
            return False
        if before is None or not mcp_config.is_equal(there, before):
            message = f"expected the MCP server {NAME} as skillhub wrote it, found a different entry"
            raise StateError(message, where=self.file.path, hint="to remove it anyway, edit the file")
        if not dry_run:
            mcp_config.remove(self.file, NAME, before, self.ports.project)
            mcp_config.remove_created(self.ports.project, self._created)
            self._remember(None)
        return True

    @property
    def _written(self) -> mcp_config.ConfigEntry | None:
        return entries_file(self.ports.project.home).entries.get(self.file.path)

    @property
    def _created(self) -> tuple[str, ...]:
        return entries_file(self.ports.project.home).created.get(self.file.path, ())

    def _remember(self, entry: mcp_config.ConfigEntry | None, created: tuple[str, ...] = ()) -> None:
        path = self.file.path
        state = _state_file(self.ports.project.home)
        with state.locked():
            known = state.read()
            entries, made = dict(known.entries), dict(known.created)
            entries.pop(path, None)
            made.pop(path, None)
            if entry is not None:
                entries[path], made[path] = entry, created
            state.write(entries=entries, created=made)


def _state_file(home: Home) -> StateFile[McpEntriesFile, McpEntriesFile]:
    path, what = os.path.join(home.state, "mcp-entries.json"), "the entries that skillhub wrote for agents"
    empty = McpEntriesFile.model_construct(entries={}, created={})
    return StateFile(path, what, _HINT, McpEntriesFile, lambda found: found or empty)


def entries_file(home: Home) -> McpEntriesFile:
    """Return the entries that skillhub wrote, by agents' files. Raises StateError: the file cannot be read."""
    return _state_file(home).read()


def _start() -> tuple[str, ...]:
    """Return a command that starts this skillhub from any folder.

    ``-I`` is tried first; it does not find a skillhub in the user's own site-packages, ``-P`` does.
    """
    rest = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    for flag in ("-I", "-P"):
        words = (sys.executable, flag, "-m", "skillhub")
        try:
            done = subprocess.run(
                [*words, "--version"], cwd=os.sep, env=rest, capture_output=True, timeout=_START, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:
            return words
    hint = "install skillhub into an environment: pipx or uv tool"
    raise StateError(f"skillhub does not start by {quote(sys.executable)} alone", hint=hint)

"""Defines the flags of every command, and builds from them what a command works with."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from skillhub.cli.streams import is_interactive
from skillhub.cli.terminal import Terminal, Tone
from skillhub.errors import NotFound, UsageError
from skillhub.flows.hints import command
from skillhub.world.home import Home, user_home
from skillhub.world.project import Project
from skillhub.world.store import Store

TYPE_CHECKING = False  # as type checkers know it: without `typing` a command starts 2 ms sooner
if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any

    import typer

    from skillhub.flows.ports import Ports
    from skillhub.model.question import Accept, Approver
    from skillhub.model.release import Release
    from skillhub.world.publishers import Publishers
    from skillhub.world.shown_time import ShownTime
    from skillhub.world.sources import Sources


@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """The common flags, as values; what they lead to is made when it is asked for.

    Attributes:
        undo: Closes, at the end of the command, what the command opened.
    """

    json: bool = False
    user_scope: bool = False
    project: str | None = None
    yes: bool = False
    accept: Sequence[Accept] | None = None
    dry_run: bool = False
    offline: bool = False
    quiet: bool = False
    verbose: bool = False
    undo: ExitStack = field(default_factory=ExitStack, repr=False, compare=False)

    @property
    def terminal(self) -> Terminal:
        """Where this command writes."""
        return Terminal(quiet=self.quiet, verbose=self.verbose, planning=self.dry_run)

    @property
    def home(self) -> Home:
        """Where skillhub keeps its own things."""
        return Home.of(os.environ)

    @property
    def user_home(self) -> str:
        """The user's home folder."""
        return user_home()

    def command(self, *words: str) -> str:
        """Return what to type, in the scope that this command is about."""
        return command("user" if self.user_scope else "project", *words)

    def result(self, command: str, value: Mapping[str, Any]) -> int:
        """Print what a command answers as JSON, and return the exit status of what went well."""
        self.terminal.answer(command, value)
        return 0

    def done(self, command: str, value: Mapping[str, Any], text: str, tone: Tone = "plain") -> int:
        """Show what a command did, as its JSON value or in a line, and return the exit status of what went well."""
        if self.json:
            return self.result(command, value)
        self.terminal.did(text, tone)
        return 0

    @property
    def asks(self) -> bool:
        """Whether a person is there to be asked, and wants more than one JSON value."""
        return not self.json and is_interactive()

    def open_project(self) -> Project:
        """Return the project, or the user's scope, that the flags name.

        Raises:
            UsageError: they name both.
            NotFound: the project's folder, or the working folder, is not there.
        """
        if self.user_scope and self.project is not None:
            raise UsageError("--global and --project exclude each other")
        if self.user_scope:
            return Project.of_user(self.user_home, self.home)
        if self.project is None:
            return Project.find(working_folder(), self.home)
        if not os.path.isdir(self.project):
            raise NotFound("the project's folder is not there", where=self.project)
        return Project(os.path.abspath(self.project), "project", self.home)

    @property
    def store(self) -> Store:
        """The user's store."""
        return Store(self.home.data)

    @property
    def sources(self) -> Sources:
        """The user's sources."""
        from skillhub.world.sources import Sources  # here, for `list` has no use for it

        return Sources(self.home)

    @property
    def publishers(self) -> Publishers:
        """Whom the user trusts."""
        from skillhub.world.publishers import Publishers

        return Publishers(self.home)

    def time(self, *, remember: bool = False) -> ShownTime:
        """Return the time by which expiry is judged: the clock's, or a later one that metadata has shown."""
        from skillhub.world.shown_time import ShownTime

        return ShownTime(self.home, now, remember=remember)

    def approver(self, *, allow_unsigned: bool = False) -> Approver:
        """Return who answers: a person if one is there and the flags leave it to them; a dry run asks nobody."""
        from skillhub.cli.approver import Flags, Person

        given = {"--yes": self.yes, "--allow-unsigned": allow_unsigned}
        given |= {f"--accept {each}": True for each in self.accept or ()}
        flags = Flags(frozenset(flag for flag, is_given in given.items() if is_given))
        return Person(self.terminal, flags) if self.asks and not (self.yes or self.dry_run) else flags

    def ports(self, *, allow_unsigned: bool = False, scratch: bool = False) -> Ports:
        """Return the world for a flow; nothing of the network is loaded before a registry is opened.

        With ``scratch``, and for a dry run, what sources say is learned for this command alone: nothing is written to
        remember it.
        """
        from skillhub.cli.network import Network
        from skillhub.flows.ports import Ports
        from skillhub.world.first_seen import FirstSeen
        from skillhub.world.policies import read_policies

        scratch = scratch or self.dry_run
        project = self.open_project()
        project.waiting = lambda: self.terminal.say("another skillhub is at work here; waiting for it to end")
        sources = self.sources.within(project)
        time = self.time(remember=not scratch)
        network = Network(
            self.home, sources, self.user_home, offline=self.offline, scratch=scratch, time=time
        )
        self.undo.callback(network.close)
        return Ports(
            project=project,
            store=self.store,
            sources=sources,
            publishers=self.publishers,
            network=network,
            pick=self._pick,
            approver=self.approver(allow_unsigned=allow_unsigned),
            environ=os.environ,
            user_home=self.user_home,
            policies=read_policies(self.home, project),
            first_seen=FirstSeen(self.home, remember=not scratch),
            clock=time.now,
            report=self.terminal.progress,
        )

    def _pick(self, offered: Sequence[Release]) -> Sequence[Release]:
        """Let a person pick; with nobody there nothing is picked."""
        if self.yes or not self.asks:
            return ()
        from skillhub.cli.picker import pick

        return pick(self.terminal, offered)


def working_folder() -> str:
    """Return where the person is.

    Raises:
        NotFound: the folder is gone.
    """
    try:
        return os.getcwd()
    except OSError as error:
        raise NotFound("the working folder is gone", hint="cd to one that is there") from error


def now() -> datetime:
    """Return the time, UTC."""
    from datetime import UTC, datetime

    return datetime.now(UTC)


# What every command takes: by the attribute of ``Common`` how it is typed, and its line of help.
FLAGS: Mapping[str, tuple[str, str]] = {
    "json": ("--json", "Print one JSON value on stdout and nothing else there."),
    "user_scope": ("--global -g", "The user's own scope instead of the project's."),
    "project": ("--project DIR", "The project's folder, instead of the one around the working folder."),
    "yes": ("--yes -y", "Answer yes to what needs no decision of its own."),
    "accept": ("--accept KIND", "Agree to findings or mcp, or exit 0 with open needs (repeatable)."),
    "dry_run": ("--dry-run", "Show what would be done; change nothing."),
    "offline": ("--offline", "Use no network."),
    "quiet": ("--quiet -q", "Say only what you asked for and what is missing or wrong."),
    "verbose": ("--verbose -v", "Say more."),
}
Run = Callable[..., int]


def perform(run: Run, common: Common, **values: Any) -> int:  # noqa: ANN401 - whatever it takes
    """Run a command, and close what it opened."""
    # Much of what a command makes stays, and hardly any of it is cyclic: the searches were 6 % of an install.
    gc.freeze()
    gc.set_threshold(400_000, 50)
    gc.enable()
    with common.undo:
        return run(common, **values)


def with_flags(run: Run) -> Run:
    """Give a command the common flags: it takes a ``Common`` first, Typer sees the flags after its own."""
    import inspect
    from enum import StrEnum
    from typing import Annotated, get_args

    from skillhub.cli import options
    from skillhub.model.question import Accept

    accepted = StrEnum("Accept", {each: each for each in get_args(Accept)})  # type: ignore[misc]
    takes_value: dict[str, Any] = {"project": str | None, "accept": list[accepted] | None}
    # What is served without Typer as well imports these names for type checkers alone.
    names = {**vars(options), **run.__globals__}
    own = list(inspect.signature(run, globals=names, eval_str=True).parameters.values())[1:]
    flags = []
    for name, (spelled, about) in FLAGS.items():
        takes = Annotated[takes_value.get(name, bool), options.option(spelled, about)]  # type: ignore[valid-type]
        default = None if name in takes_value else False
        flags.append(
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=takes)
        )

    def wrapped(**values: Any) -> int:  # noqa: ANN401 - whatever Typer parsed
        common = Common(**{name: values.pop(name) for name in FLAGS})
        return perform(run, common, **values)

    parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own] + flags
    wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {each.name: each.annotation for each in parameters}
    wrapped.__doc__, wrapped.__name__ = run.__doc__, run.__name__
    return wrapped


def add_group(
    app: typer.Typer, name: str, commands: Mapping[str, Run], settings: Mapping[str, dict[str, Any]]
) -> None:
    """Add a command that has commands of its own, each by its verb, some with settings for their parser."""
    import inspect

    import typer

    from skillhub.cli.table import COMMANDS

    shown = next(run for verb, run in commands.items() if verb not in ("list", "info"))
    example = (inspect.getdoc(shown) or "").partition("Example: ")[2]
    about = f"{COMMANDS[name].help}\n\nExample: {example}"
    group = typer.Typer(help=about, no_args_is_help=True, rich_markup_mode=None)
    for verb, run in commands.items():
        group.command(verb, context_settings=settings.get(verb))(with_flags(run))
    app.add_typer(group, name=name)

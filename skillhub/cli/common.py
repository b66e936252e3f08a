"""The flags of every command, files and options from the command line, extras, SOURCE_DATE_EPOCH."""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

from skillhub.cli.streams import is_interactive
from skillhub.cli.terminal import Terminal, Tone
from skillhub.disk import files
from skillhub.disk.home import Home, user_home
from skillhub.errors import FormatError, NotFound, UsageError, extra
from skillhub.formats.text import quote
from skillhub.install.context import McpChoice, Options, command
from skillhub.project.project import Project
from skillhub.project.store import Store

if TYPE_CHECKING:
    from typing import Any

    import typer

    from skillhub.formats.digest import Digest
    from skillhub.install.context import Ports
    from skillhub.model.index import Release
    from skillhub.model.lock import Lock
    from skillhub.model.question import Accept, Approver
    from skillhub.model.record import LinkKind
    from skillhub.project.user_state import Publishers
    from skillhub.sources.configured import Sources
    from skillhub.sources.history import ShownTime


# Defines the flags of every command, and builds from them what a command works with.


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
        from skillhub.sources.configured import Sources  # here, for `list` has no use for it

        return Sources(self.home)

    @property
    def publishers(self) -> Publishers:
        """Whom the user trusts."""
        from skillhub.project.user_state import Publishers

        return Publishers(self.home)

    def time(self, *, remember: bool = False) -> ShownTime:
        """Return the time by which expiry is judged: the clock's, or a later one that metadata has shown."""
        from skillhub.sources.history import ShownTime

        return ShownTime(self.home, now, remember=remember)

    def approver(self, *, allow_unsigned: bool = False) -> Approver:
        """Return who answers: a person if one is there and the flags leave it to them; a dry run asks nobody."""
        from skillhub.cli.prompts import Flags, Person

        given = {"--yes": self.yes, "--allow-unsigned": allow_unsigned}
        given |= {f"--accept {each}": True for each in self.accept or ()}
        flags = Flags(frozenset(flag for flag, is_given in given.items() if is_given))
        return Person(self.terminal, flags) if self.asks and not (self.yes or self.dry_run) else flags

    def ports(self, *, allow_unsigned: bool = False, scratch: bool = False) -> Ports:
        """Return the world for a flow; nothing of the network is loaded before a registry is opened.

        With ``scratch``, and for a dry run, what sources say is learned for this command alone: nothing is written to
        remember it.
        """
        from skillhub.cli.network import OpenNetwork
        from skillhub.install.context import Ports
        from skillhub.project.intent import read_policies
        from skillhub.sources.history import FirstSeen

        scratch = scratch or self.dry_run
        project = self.open_project()
        project.waiting = lambda: self.terminal.say("another skillhub is at work here; waiting for it to end")
        sources = self.sources.within(project)
        time = self.time(remember=not scratch)
        network = OpenNetwork(self.home, sources, self.user_home, offline=self.offline, scratch=scratch, time=time)
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
            policies=read_policies(self.home, project.intent),
            first_seen=FirstSeen(self.home, remember=not scratch),
            clock=time.now,
            report=self.terminal.progress,
        )

    def _pick(self, offered: Sequence[Release]) -> Sequence[Release]:
        """Let a person pick; with nobody there nothing is picked."""
        if self.yes or not self.asks:
            return ()
        from skillhub.cli.prompts import pick

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
        flags.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=takes))

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


# Reads what a person gives on the command line: files, and the options of a flow.

_T = TypeVar("_T")

_PEM_CAP = 1 << 16
_ENV_FILE_CAP = 1 << 20
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_A_NAME = "NAME=VALUE; a name has letters, digits and _, and no digit first"


def read_file(path: str, cap: int = _PEM_CAP) -> bytes:
    """Return the bytes of a file, by default of at most 64 KiB, which no key or certificate exceeds; a link will do.

    Raises:
        NotFound: there is none.
        FormatError: it is larger.
        StateError: it cannot be read.
    """
    data = files.read(os.path.realpath(os.path.expanduser(path)), cap)
    if data is None:
        raise NotFound("there is no such file", where=path)
    return data


def read_as(path: str, parse: Callable[[bytes], _T]) -> _T:
    """Return what ``parse`` makes of a file.

    Raises:
        NotFound, StateError: as for ``read_file``.
        FormatError: it is something else; the file is named.
    """
    try:
        return parse(read_file(path))
    except FormatError as error:
        error.where = error.where or path
        raise


def read_lock(path: str) -> Lock:
    """Return the lock at a path that a person named; ``-`` is what comes on stdin."""
    from skillhub.model.lock import CAP, Lock

    if path == "-":
        return Lock.parse(sys.stdin.buffer.read(CAP + 1), "stdin")
    return Lock.parse(read_file(path, CAP), path)


def options_of(
    common: Common,
    agent: list[str] | None,
    env: list[str] | None,
    env_file: str | None,
    mcp: McpChoice,
    link: LinkKind | None,
    no_enable: bool = False,
) -> Options:
    """Return what these options spell, for a flow.

    Raises:
        UsageError: a variable without a value, or a file that is none.
    """
    values = _read_env_file(env_file) if env_file else {}
    for number, word in enumerate(env or [], 1):
        # The word is not shown: it may be a value, with = in it or not, that lost its name.
        name, has_value, value = word.partition("=")
        if has_value and not _VARIABLE.fullmatch(name):
            message = f"--env number {number} does not begin with the name of a variable and ="
            raise UsageError(message, hint=_A_NAME)
        if not has_value and name not in os.environ:
            message = f"--env number {number} has no value, and the process has no variable of that name"
            raise UsageError(message, hint="--env NAME=VALUE, or export NAME first and give --env NAME")
        values[name] = value if has_value else os.environ[name]
    return Options(
        agents=tuple(agent or ()), env=values, mcp=mcp, link=link, enable=not no_enable, dry_run=common.dry_run
    )


def trusted_sources(given: list[str] | None) -> Mapping[str, Digest]:
    """Return what ``--trust-source NAME=sha256:…`` says, by alias.

    Raises:
        UsageError: one is not of that form, or one alias has two roots.
    """
    from skillhub.formats.digest import Digest
    from skillhub.formats.text import is_alias, quote

    found: dict[str, Digest] = {}
    for word in given or ():
        alias, _, text = word.partition("=")
        try:
            root = Digest.parse(text)
        except FormatError as error:
            message = f"--trust-source expects NAME=sha256:…, found {quote(word)}"
            raise UsageError(message, hint="the SHA-256 of its 1.root.json, in 64 digits") from error
        if not is_alias(alias):
            raise UsageError(f"--trust-source: {quote(alias)} cannot name a source")
        if found.setdefault(alias, root) != root:
            raise UsageError(f"--trust-source gives {alias} two roots")
    return found


def _read_env_file(path: str) -> dict[str, str]:
    data = files.read(os.path.realpath(path), _ENV_FILE_CAP)
    if data is None:
        raise UsageError("--env-file names no file", where=path)
    values = {}
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        text = line.strip().removeprefix("export ").strip()
        if not text or text.startswith("#"):
            continue
        name, has_value, value = text.partition("=")
        if not has_value or not _VARIABLE.fullmatch(name.strip()):
            # The line is not shown: it may be a value that lost its name.
            raise UsageError("expected NAME=VALUE", where=f"{path}:{number}", hint=_A_NAME)
        bare = value.strip()
        is_quoted = len(bare) > 1 and bare[0] == bare[-1] and bare[0] in "\"'"
        values[name.strip()] = bare[1:-1] if is_quoted else bare
    return values


# Imports the parts of skillhub that come with extras, when they are asked for.


def optional(module: str, name: str, what: str) -> ModuleType:
    """Return a module that the extra ``name`` brings; ``what`` begins the sentence that says it is not there.

    Raises:
        UsageError: the extra is not installed.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("skillhub"):  # ours are always there
            raise
        raise UsageError(f"{what} a part of skillhub that is not installed", hint=extra(name)) from error


# Reads ``SOURCE_DATE_EPOCH``, the time that documents bear (reproducible-builds.org/specs/source-date-epoch).


def epoch() -> datetime | None:
    """Return the time of ``SOURCE_DATE_EPOCH``; None without it.

    Raises:
        UsageError: it is no time.
    """
    text = os.environ.get("SOURCE_DATE_EPOCH")
    if not text:
        return None
    try:
        return datetime.fromtimestamp(int(text), UTC)
    except (ValueError, OverflowError, OSError) as error:
        message = f"expected SOURCE_DATE_EPOCH to be seconds since 1970, found {quote(text)}"
        raise UsageError(message) from error


def signing_time() -> datetime:
    """Return the time that what is signed is dated by; what is verified is held against the clock alone."""
    return epoch() or now()

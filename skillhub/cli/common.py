"""The flags of every command, options of several commands, and readers of files, extras and SOURCE_DATE_EPOCH."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar, get_args

from skillhub.cli.terminal import Terminal, Tone, is_interactive
from skillhub.disk import files
from skillhub.disk.home import Home, user_home
from skillhub.disk.proved import IdleCommand, ProvedFolders
from skillhub.errors import FormatError, NotFound, SkillhubError, StateError, UsageError, hinting
from skillhub.formats.digest import Digest
from skillhub.formats.text import as_command, command, deferred, did_you_mean, is_alias, quote, spelled_like
from skillhub.model.hosts import LinkKind, host
from skillhub.model.lock import CAP, Lock
from skillhub.model.question import Accept, McpChoice
from skillhub.project.intent import Intent
from skillhub.project.project import Project, refuse_other_owner, workspace_around
from skillhub.project.store import Store
from skillhub.project.user_state import Publishers
from skillhub.sources.configured import Sources

if TYPE_CHECKING:
    from skillhub.command.ports import Options
    from skillhub.disk.files import HeldFolder
    from skillhub.sources.history import ShownTime

_T = TypeVar("_T")
_PEM_CAP = 1 << 16
_ENV_FILE_CAP = 1 << 20
_VARIABLE = deferred(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_ASK_FOR_PEM = "expected a PEM file: ask the publisher for it; of your own key: skillhub key show"
_A_NAME = "NAME=VALUE; a name has letters, digits and _, and no digit first"
_Accepted = StrEnum("_Accepted", get_args(Accept))  # type: ignore[misc]  # Typer takes no list of literals
Run = Callable[..., int | None]  # a command; its exit status is 0 if it returns none
Strings: TypeAlias = list[str] | None


@dataclass(frozen=True, slots=True)
class Arg:
    """The spelling of an option or an argument, and its line of help; ``skillhub.cli.app`` translates it for Typer.

    Attributes:
        typed: ``--output -o FILE`` for an option, ``[NAME]...`` for an argument.
        envvar: The environment variable with the value of an option that the user did not type.
        min: The least value of a number.
    """

    typed: str
    help: str
    envvar: str | None = None
    min: float | None = None


UNREADABLE = Intent()  # of a file that has errors: nothing is known of it


@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """The values of the flags of every command; the properties create objects that need no network.

    Attributes:
        undo: Closes everything that the command opened, at its end.
        idle: Remembers the output of a command that had nothing to do; None if this command is never remembered.
    """

    json: Annotated[bool, Arg("--json", "Print only one JSON value on stdout.")] = False
    user_scope: Annotated[bool, Arg("--global -g", "Use the user scope instead of the project.")] = False
    project: Annotated[
        str | None, Arg("--project DIR", "The project's folder (default: found from the working folder).")
    ] = None
    package: Annotated[str | None, Arg("--package NAME", "Use this package of the workspace.")] = None
    yes: Annotated[bool, Arg("--yes -y", "Answer yes, except to questions that need a flag of their own.")] = False
    accept: Annotated[
        list[_Accepted] | None,
        Arg("--accept KIND", "Accept findings, or unpinned mcp servers; needs: exit 0 with open needs (repeatable)."),
    ] = None
    dry_run: Annotated[bool, Arg("--dry-run", "Show what would be done; change nothing.")] = False
    offline: Annotated[bool, Arg("--offline", "Use no network.")] = False
    quiet: Annotated[bool, Arg("--quiet -q", "Print only results, warnings and errors.")] = False
    verbose: Annotated[bool, Arg("--verbose -v", "Print more detail.")] = False
    undo: ExitStack = field(default_factory=ExitStack, repr=False, compare=False)
    idle: IdleCommand | None = field(default=None, repr=False, compare=False)

    @property
    def terminal(self) -> Terminal:
        """The terminal that this command writes to."""
        return Terminal(quiet=self.quiet, verbose=self.verbose, planning=self.dry_run)

    @property
    def home(self) -> Home:
        """The folders of skillhub's own files."""
        return Home.of(os.environ)

    @property
    def user_home(self) -> str:
        """The user's home folder."""
        return user_home()

    def command(self, *words: str) -> str:
        """Return a command line for the user to type, in the scope of this command."""
        return command("user" if self.user_scope else "project", *words)

    def would(self, verb: str, done: str) -> str:
        """Return what the command did, such as ``added``; in a dry run, ``would`` and the ``verb``."""
        return f"would {verb}" if self.dry_run else done

    def answer(self, command: str, value: Mapping[str, Any]) -> None:
        """Print the JSON answer of a command."""
        self.terminal.answer(command, value)

    def done(self, command: str, value: Mapping[str, Any], text: str, tone: Tone = "plain") -> None:
        """Print the result of a command, as its JSON value or as a line."""
        if self.json:
            self.answer(command, value)
        else:
            self.terminal.did(text, tone)

    def say_nothing_locked(self, verb: str, wanted: object) -> None:
        """Say that no skill is locked, with the command that installs the skills of ``skillhub.toml``, if any."""
        hint = f"; {self.command('install')} installs the skills of skillhub.toml" if wanted else ""
        self.terminal.say(f"nothing to {verb}: no skill is locked here{hint}")

    @property
    def asks(self) -> bool:
        """Whether a person can be asked: at a terminal, and without ``--json``."""
        return not self.json and is_interactive()

    def open_project(self) -> Project:
        """Return the project, or the user's scope, that the flags name.

        Raises:
            UsageError: the flags name both, or a package that the workspace does not have.
            NotFound: the project's folder, or the working folder, does not exist.
        """
        if self.user_scope:
            if (self.project, self.package) != (None, None):
                other = "project" if self.package is None else "package"
                raise UsageError(f"--global and --{other} exclude each other")
            return Project.of_user(self.user_home, self.home)
        if self.project is not None and not os.path.isdir(self.project):
            raise NotFound("there is no such folder", where=self.project, hint="--project names the project's folder")
        at = os.path.abspath(self.project or working_folder())
        real = os.path.realpath(at)
        is_own = self.project and workspace_around(real) == real  # a package of a workspace is no project of its own
        found = Project(at, "project", self.home) if is_own else Project.find(real, self.home)
        if self.package is not None:
            there = found.packages()
            typed = os.path.normpath(self.package)
            fit = [each for each in there if typed in (each, each.rpartition("/")[2])]
            if len(fit) != 1:
                message = f"--package: {'two packages are' if fit else 'no package is'} named {quote(self.package)}"
                known = f"there are: {', '.join(there)}" if there else "this project has no packages"
                hint = did_you_mean(spelled_like(typed, [*there, *map(os.path.basename, there)]), known)
                raise UsageError(message, where=found.intent_path, hint=hint)
            found.package = fit[0]
        return found

    def chosen(self, names: Sequence[str]) -> list[str] | None:
        """Return ``names``; if empty, the names of the skills of ``--package``; None for all skills."""
        if names or self.package is None:
            return [*names] or None
        from skillhub.command.state import State
        from skillhub.install.admission import packages_of

        project = self.open_project()
        found = packages_of(State(project.lock(), project.intent(), project.records()))
        return sorted(name for name in project.lock().skills if project.package in found.get(name, ()))

    def in_scope(self) -> Common:
        """Return the flags with ``--global`` added if no flag or project names a scope and it is the user's default.

        Raises:
            FormatError, StateError: ``config.toml`` is malformed or cannot be read, and no project decides the scope.
        """
        home = self.home
        is_named = self.user_scope or (self.project, self.package) != (None, None)
        if is_named or not home.is_configured:
            return self
        from skillhub.net.settings import Settings

        try:
            is_user = Settings.read(home).install.scope == "user"
        except (FormatError, StateError):
            if not self.open_project().has_lock_or_intent():
                raise
            return self  # what needs a setting reads the file again, and doctor names its fault
        return replace(self, user_scope=True) if is_user and not self.open_project().has_lock_or_intent() else self

    def wanted(self) -> Intent:
        """Return the intent, for commands that only read; warn about an unreadable one and return ``UNREADABLE``."""
        try:
            return self.open_project().intent()
        except SkillhubError as error:
            at = f"{error.where}: " if error.where else ""
            hint = f"; {error.hint}" if error.hint else ""
            self.terminal.warn(f"warning: {at}{error.message}{hint}")
            return UNREADABLE

    @property
    def store(self) -> Store:
        """The user's store."""
        return Store(self.home.data)

    def proved_store(self, project: Project, *, believed: bool, kept: bool) -> Store:
        """Return the user's store with the proved folders of a project; the flags are those of ``ProvedFolders``."""
        path = os.path.join(self.home.state, "proved", f"{project.key}.json")
        proved = ProvedFolders(path, believed=believed, kept=kept)
        self.undo.callback(proved.save)
        return Store(self.home.data, proved)

    @property
    def sources(self) -> Sources:
        """The user's sources."""
        return Sources(self.home)

    @property
    def publishers(self) -> Publishers:
        """The publishers that the user trusts."""
        return Publishers(self.home)

    def time(self, *, remember: bool = False) -> ShownTime:
        """Return the time to judge expiry by: the clock's, or a later time that metadata has shown."""
        from skillhub.sources.history import ShownTime

        return ShownTime(self.home, remember=remember)


def working_folder() -> str:
    """Return the working folder.

    Raises:
        NotFound: the folder no longer exists.
    """
    try:
        return os.getcwd()
    except OSError as error:
        raise NotFound("the working folder no longer exists", hint="cd to an existing folder") from error


def now() -> datetime:
    """Return the time, UTC."""
    return datetime.now(UTC)


# The options of the commands that enable skills.

Names = Annotated[list[str], Arg("NAME...", "Names of installed skills.")]
NoEnable = Annotated[bool, Arg("--no-enable", "Store and lock only; enable nothing.")]
TrustSource = Annotated[
    Strings, Arg("--trust-source NAME=sha256:…", "Trust this registry of the project, by its root (repeatable).")
]
AllowUnsigned = Annotated[bool, Arg("--allow-unsigned", "Accept unsigned skills.")]
Verify = Annotated[bool, Arg("--verify", "Hash every file again, even if it looks unchanged since the last time.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Enabling:
    """The options of every command that enables skills."""

    agent: Annotated[Strings, Arg("--agent NAME", "Also enable for this agent (repeatable, or all).")] = None
    env: Annotated[
        Strings, Arg("--env NAME[=VALUE]", "A variable for this command; NAME alone takes it from the environment.")
    ] = field(default=None, repr=False)
    env_file: Annotated[
        str | None, Arg("--env-file FILE", "A file of variables for this command, one NAME=VALUE per line.")
    ] = None
    mcp: Annotated[McpChoice, Arg("--mcp", "Needed MCP servers: ask, configure them, or skip them.")] = "ask"
    link: Annotated[
        LinkKind | None, Arg("--link", "Copy to the agents' folders, or symlink to the store (edits are shared).")
    ] = None

    def options(self, common: Common, **more: Any) -> Options:  # noqa: ANN401 - more of them
        """Return the options of a flow.

        Raises:
            UsageError: a variable has no value, ``--env-file`` names no file, or there is no such agent.
        """
        from skillhub.command.ports import Options

        agents = tuple(self.agent or ())
        for each in agents:
            if each != "all":
                host(each)
        values = _read_env_file(self.env_file) if self.env_file else {}
        for number, word in enumerate(self.env or [], 1):
            # The word is not shown: it may be a secret value that was typed without its name.
            name, has_value, value = word.partition("=")
            if has_value and not _VARIABLE.fullmatch(name):
                raise UsageError(f"--env number {number} is not of the form NAME=VALUE", hint=_A_NAME)
            if not has_value and name not in os.environ:
                message = f"--env number {number} is no NAME=VALUE, and no variable of that name is set"
                raise UsageError(message, hint="--env NAME=VALUE, or export NAME first and give --env NAME")
            values[name] = value if has_value else os.environ[name]
        more = {"mcp": self.mcp, "link": self.link, "dry_run": common.dry_run, **more}
        return Options(agents=agents, env=values, **more)


def trusted_sources(words: list[str] | None) -> Mapping[str, Digest]:
    """Return the root of each ``--trust-source NAME=sha256:…``, by alias.

    Raises:
        UsageError: a value is malformed, or an alias has two roots.
    """
    found: dict[str, Digest] = {}
    for word in words or ():
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


def _refuse_tracked(path: str) -> None:
    """Raise ``UsageError`` for a ``.env`` that git tracks: whoever can push could set its values, or reads them."""
    from skillhub.project.git_exclude import tracked_files

    named = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    for each in dict.fromkeys((named, os.path.realpath(path))):
        is_env = os.path.basename(each).casefold().startswith(".env")
        if is_env and tracked_files(os.path.dirname(each), [each]):
            hint = "remove it from git with git rm --cached, change its values, and add its name to .gitignore"
            raise UsageError("expected a .env file that git does not track", where=path, hint=hint)


def _read_env_file(path: str) -> dict[str, str]:
    _refuse_tracked(path)
    data = files.read(os.path.realpath(path), _ENV_FILE_CAP)
    if data is None:
        raise UsageError("--env-file names no file", where=path)
    values = {}
    for number, line in enumerate(data.decode("utf-8-sig", "replace").splitlines(), 1):
        text = line.strip().removeprefix("export ").strip()
        if not text or text.startswith("#"):
            continue
        name, has_value, value = text.partition("=")
        if not has_value or not _VARIABLE.fullmatch(name.strip()):
            # The line is not shown: it may be a secret value without its name.
            raise UsageError("expected NAME=VALUE", where=f"{path}:{number}", hint=_A_NAME)
        bare = value.strip()
        is_quoted = len(bare) > 1 and bare[0] == bare[-1] and bare[0] in "\"'"
        values[name.strip()] = bare[1:-1] if is_quoted else bare
    return values


# Files, extras and variables that commands read.


def read_file(path: str, cap: int = _PEM_CAP, *, hint: str | None = None) -> bytes:
    """Return the bytes of a file of at most ``cap`` bytes, 64 KiB by default, enough for keys; links are followed.

    ``hint`` is the hint if the file does not exist or is no file.

    Raises:
        NotFound: the file does not exist.
        FormatError: the file is larger.
        StateError: the file cannot be read.
    """
    with hinting(hint):
        data = files.read(os.path.realpath(os.path.expanduser(path)), cap)
        if data is None:
            raise NotFound("there is no such file", where=path)
        return data


def output_place(path: str, project: Project) -> tuple[str, HeldFolder | None]:
    """Return the path to write a file to that the user named, and the folder that the path must not leave, if any.

    In a project, no link may lead out of it. Elsewhere, no link of another user is followed.

    Raises:
        UsageError: the path is that of the project's lock or intent.
        LinkLeavesProject: a link in the project leads out of it.
        StateError: the path is a folder, pipe or device, or a link of another user.
    """
    full, root = os.path.abspath(os.path.expanduser(path)), None
    if project.scope == "project" and project.around.covers(full):
        root = project.around
        full = files.inside(project.base, os.path.relpath(full, project.base).replace(os.sep, "/"))
    elif os.path.islink(full):
        refuse_other_owner(os.lstat(full), full)
        full = os.path.realpath(full)
    if any(is_one_place(full, each) for each in (project.lock_path, project.intent_path)):
        raise UsageError("expected a file other than skillhub.toml and skillhub.lock", where=path)
    if os.path.exists(full) and not os.path.isfile(full):
        raise StateError("expected a file, found a folder, pipe or device", where=full)
    return full, root


def is_one_place(path: str, other: str) -> bool:
    """Return whether two paths name one file, existing or not: through links, or if only the case differs."""
    one, two = os.path.realpath(path), os.path.realpath(other)
    folders = os.path.dirname(one), os.path.dirname(two)
    is_alike = os.path.basename(one).lower() == os.path.basename(two).lower()
    return is_alike and all(map(os.path.isdir, folders)) and os.path.samefile(*folders)


def write_output(path: str, data: bytes, project: Project) -> None:
    """Write a file that the user named; raises as ``output_place``."""
    full, root = output_place(path, project)
    files.write_atomic(full, data, root=root)


def read_pem(path: str, parse: Callable[[bytes], _T]) -> _T:
    """Return the parsed content of a file with keys or certificates.

    Raises:
        NotFound, StateError: as for ``read_file``.
        FormatError: the content is malformed; the error names the file.
    """
    with hinting(where=path, kinds=FormatError):
        return parse(read_file(path, hint=_ASK_FOR_PEM))


def read_lock(path: str, command: str) -> Lock:
    """Return the lock that the user named for ``command``; ``-`` reads stdin, ``/dev/null`` means an empty lock.

    git names a missing file ``/dev/null``. Empty stdin is refused: the command before the pipe may have failed.
    """
    if path in ("/dev/null", os.devnull):
        return Lock()
    if path == "-":
        data = sys.stdin.buffer.read(CAP + 1)
        if not data:
            hint = "the command before the pipe wrote nothing; if there was no lock: --from-lock /dev/null"
            raise FormatError("the lock is empty", where="stdin", hint=hint)
        return Lock.parse(data, "stdin")
    reader = as_command("skillhub", command, "--from-lock", "-")
    return Lock.parse(read_file(path, CAP, hint=f"- reads stdin: git show HEAD:skillhub.lock | {reader}"), path)


def optional(module: str, name: str, what: str) -> ModuleType:
    """Return a module that needs the extra ``name``.

    ``what`` is the subject and the verb of the error: ``serving skills needs``.

    Raises:
        UsageError: the extra is not installed.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("skillhub"):  # a bug: no extra has modules of skillhub
            raise
        from skillhub.disk.installer import extra_command

        raise UsageError(f"{what} the extra {name}, which is not installed", hint=extra_command(name)) from error


def epoch() -> datetime | None:
    """Return the time of ``SOURCE_DATE_EPOCH`` (reproducible-builds.org/specs/source-date-epoch); None without it.

    Raises:
        UsageError: the value is not a number of seconds.
    """
    text = os.environ.get("SOURCE_DATE_EPOCH")
    if not text:
        return None
    try:
        return datetime.fromtimestamp(int(text), UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise UsageError(f"expected SOURCE_DATE_EPOCH to be seconds since 1970, found {quote(text)}") from error


def signing_time() -> datetime:
    """Return the date of new signatures. Verification uses the clock instead."""
    return epoch() or now()

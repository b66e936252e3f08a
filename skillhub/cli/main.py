"""The entry point. Answers ``--version`` and ``--help`` at once, else imports and runs the one command named."""

from __future__ import annotations

import atexit
import gc
import os
import sys

from skillhub import import_path
from skillhub.cli import streams

TYPE_CHECKING = False  # as type checkers know it; `typing` itself would take a third of `skillhub --version`
if TYPE_CHECKING:
    from typing import Any, NoReturn

    import typer

_STATE = 7  # `StateError.exit_code`
_INTERRUPTED = 130  # as a shell has it
_COMPLETE = "_SKILLHUB_COMPLETE"
_SHELLS = ("bash", "zsh", "fish", "powershell", "pwsh")
_PLAIN = ("json", "user_scope", "yes", "offline", "quiet", "verbose")  # of the flags of every command
# What each calls the words that it takes, if it takes any.
_WORDS = {"list": "", "verify": "names", "sync": "", "install": "refs"}
_SWITCHES = {"--all": "every", "--allow-unsigned": "allow_unsigned"}  # of `install`
_WITH_A_NAME = {"--agent": "agent", "--skill": "skill", "--trust-source": "trust_source"}  # of `install`, too


def run(*, working_folder_leads: bool = False) -> NoReturn:
    """Run the command line of this process, and end it.

    What is left in memory the system takes back at once, and Python object by object, which is 5 of the 40 ms of a
    ``list``.
    """
    status = main(way_in=import_path.way_in(working_folder_leads=working_folder_leads))
    atexit._run_exitfuncs()  # what libraries want done at the end; the command has closed its own
    os._exit(status)


def main(argv: list[str] | None = None, *, way_in: str | None = None) -> int:
    """Run a command line and return its exit status; the only place that renders errors.

    With a ``way_in``, by which modules would come from the working folder, nothing is run, and that is the error.
    """
    # What others could write would be theirs to decide; containers often start with a umask of 0.
    os.umask(os.umask(0o022) | 0o022)
    streams.ready()
    try:
        status = _rendered(sys.argv[1:] if argv is None else argv, way_in)
        sys.stdout.flush()
        sys.stderr.flush()
        return status
    except KeyboardInterrupt:
        return _stopped("stopped", _INTERRUPTED)
    except BrokenPipeError:
        streams.drop_output()  # whoever read it has seen enough
        return 141
    except OSError as error:
        streams.drop_output()
        return _stopped(f"cannot write the output: {error.strerror}", _STATE)


def _rendered(args: list[str], way_in: str | None) -> int:
    """Run a command line and tell of its errors."""
    try:
        if way_in:
            import_path.refuse(way_in)
        return _answer(args)
    except Exception as error:  # the one broad except: nobody is shown a traceback
        if isinstance(error, BrokenPipeError) or streams.is_full(error):
            raise
        from skillhub.cli.failure import fail

        return fail(error, args)


def _answer(args: list[str]) -> int:
    if [each for each in args if each != "--json"] in (["--version"], ["-V"]):
        from skillhub import __version__

        text = f'{{"schema": 1, "version": "{__version__}"}}' if "--json" in args else f"skillhub {__version__}"
        sys.stdout.write(text + "\n")
        return 0
    if args in (["--help"], ["-h"], ["help"], []) and _COMPLETE not in os.environ:
        from skillhub.cli.table import top_help

        columns = None
        if sys.stdout.isatty():
            from shutil import get_terminal_size

            columns = get_terminal_size().columns
        sys.stdout.write(top_help(columns))
        return 0 if args else 2
    if args[:1] == ["--show-completion"] and args[1:]:
        # Typer would guess the shell from the process that started this one; here it was named.
        if args[1] not in _SHELLS:
            from skillhub.errors import UsageError
            from skillhub.formats.text import quote

            raise UsageError(f"there is no completion for {quote(args[1])}", hint=f"for {', '.join(_SHELLS)}")
        os.environ[_COMPLETE] = f"source_{args[1]}"
        args = []
    return _run(_behind_command(args))


def _behind_command(args: list[str]) -> list[str]:
    """Return ``args`` with the common flags that stand before a command behind it, and behind its verb.

    Of no command they are nothing: what stands in its place is what the parser is to tell of.
    """
    if not args or not args[0].startswith("-"):
        return args
    from skillhub.cli.common import FLAGS

    common = {flag for spelled, _ in FLAGS.values() for flag in spelled.split() if flag.startswith("-")}
    at = 0
    while at < len(args) and (flag := args[at].partition("=")[0]) in common:
        at += 2 if flag == args[at] in ("--project", "--accept") else 1
    behind = at
    while behind < min(at + 2, len(args)) and not args[behind].startswith("-"):
        behind += 1
    if at > len(args):
        from skillhub.errors import UsageError
        from skillhub.formats.text import as_command

        wanted, hint = ("a folder", "DIR") if args[-1] == "--project" else ("a kind", "KIND")
        raise UsageError(f"{args[-1]} expects {wanted}", hint=as_command("skillhub", "COMMAND", args[-1], hint))
    return [*args[at:behind], *(args[:at] if behind > at else ()), *args[behind:]]


def _stopped(message: str, status: int) -> int:
    from contextlib import suppress

    with suppress(OSError):  # if it is this stream that takes no more, nobody can be told
        sys.stderr.write(f"\nskillhub: {message}\n")
    return status


def _run(args: list[str]) -> int:
    gc.disable()  # modules are no garbage: neither while they load nor at the end of the process
    try:
        status = run_plain(args)
        return _by_typer(args) if status is None else status
    finally:
        gc.freeze()


def _by_typer(args: list[str]) -> int:
    import typer

    try:
        result = build(args)(args=args, prog_name="skillhub", standalone_mode=False)
    except typer.Exit as stop:
        return stop.exit_code
    except SystemExit as stop:
        if isinstance(stop.__context__, BrokenPipeError):  # of which Typer makes an exit of 1
            raise stop.__context__ from None
        raise
    if result == _INTERRUPTED:  # what Typer makes of Ctrl-C, without a word
        raise KeyboardInterrupt
    return result if isinstance(result, int) else 0


def build(args: list[str]) -> typer.Typer:
    """Return the Typer app: with the one command that ``args`` name, else with all."""
    from importlib import import_module

    import typer

    from skillhub.cli.common import add_group, with_flags
    from skillhub.cli.table import COMMANDS

    one = args[:1] if args and args[0] in COMMANDS and _COMPLETE not in os.environ else []
    # Rich stays out: its markup would read text from outside as its own, and it costs 50 ms.
    app = typer.Typer(
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        no_args_is_help=True,
        context_settings={"help_option_names": ["--help", "-h"]},  # of every command below it, too
    )

    @app.callback(help="The secure registry and installer for agent skills.")
    def _top() -> None: ...

    for name in one or COMMANDS:
        module = import_module(f"skillhub.cli.{COMMANDS[name].module}")
        if hasattr(module, "VERBS"):
            add_group(app, name, module.VERBS, getattr(module, "SETTINGS", {}))
        else:
            app.command(name)(with_flags(module.COMMANDS[name]))
    return app


def run_plain(args: list[str]) -> int | None:
    """Run a plain ``list``, ``verify``, ``sync`` or ``install`` without Typer, whose import takes longer than it.

    Return None for anything else (``--help``, a flag not named here, ``--``): Typer runs the same functions then.
    """
    if not args or args[0] not in _WORDS:
        return None
    from skillhub.cli.common import FLAGS, Common, perform
    from skillhub.cli.table import COMMANDS

    flags = {word: name for name in _PLAIN for word in FLAGS[name][0].split()}
    command, *rest = args
    common: dict[str, Any] = {}
    own: dict[str, Any] = {}
    words = iter(rest)
    for word in words:
        if word in flags:
            common[flags[word]] = True
        elif command == "install" and word in _SWITCHES:
            own[_SWITCHES[word]] = True
        elif command == "install" and word in _WITH_A_NAME:
            name = next(words, "-")
            if name.startswith("-"):
                return None
            own.setdefault(_WITH_A_NAME[word], []).append(name)
        elif word.startswith("-") or not _WORDS[command]:
            return None
        else:
            own.setdefault(_WORDS[command], []).append(word)
    from importlib import import_module

    module = import_module(f"skillhub.cli.{COMMANDS[command].module}")
    return perform(module.COMMANDS[command], Common(**common), **own)

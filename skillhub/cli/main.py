"""The entry point. Answers ``--version`` and ``--help`` at once, else has ``skillhub.cli.app`` run the command.

It refuses to start if Python would import modules from the working folder, whose files may be an attacker's.
"""

from __future__ import annotations

import atexit
import errno
import gc
import io
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skillhub.disk.proved import IdleCommand

_STATE = 7  # `StateError.exit_code`
_INTERRUPTED = 130  # as a shell has it
_OF_SHELL = ("_", "OLDPWD", "SHLVL")  # variables that change with each line typed, and decide nothing
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


def run(*, working_folder_leads: bool = False) -> None:
    """Run the command line of this process, and end the process.

    It ends without Python's clean-up, which frees memory object by object: 5 of the 40 ms of a ``list``.
    """
    status = main(way_in=_find_way_in(working_folder_leads=working_folder_leads))
    atexit._run_exitfuncs()  # exit functions of libraries; the command has closed its own resources
    os._exit(status)


def main(argv: list[str] | None = None, *, way_in: str | None = None) -> int:
    """Run a command line and return its exit status; the only place that renders errors.

    A ``way_in`` describes how Python would import modules from the working folder; then the command line is refused.
    """
    # No other user may write skillhub's files; containers often start with a umask of 0.
    os.umask(os.umask(0o022) | 0o022)
    ready()
    try:
        status = _rendered(sys.argv[1:] if argv is None else argv, way_in)
        sys.stdout.flush()
        sys.stderr.flush()
        return status
    except KeyboardInterrupt:
        return _stopped("\nskillhub: stopped", _INTERRUPTED)
    except BrokenPipeError:
        _drop_output()  # the reader has closed the pipe
        return 141
    except OSError as error:
        _drop_output()
        hint = "make room where the output goes, or write it elsewhere"
        return _stopped(f"error: cannot write the output: {error.strerror} [state]\n  hint: {hint}", _STATE)


def _rendered(args: list[str], way_in: str | None) -> int:
    """Run a command line and print its error, if any."""
    try:
        if way_in:
            _refuse_to_start(way_in)
        return _answer(args)
    except Exception as error:  # no user sees a traceback
        if isinstance(error, BrokenPipeError) or _is_full(error):
            raise
        from skillhub.cli.app import command_of, usage_of_typer
        from skillhub.cli.render import fail

        return fail(usage_of_typer(error, args) or error, args, command_of)


def _find_way_in(*, working_folder_leads: bool) -> str | None:
    """Return why Python would import modules from the working folder, or None.

    Relative entries of PYTHONPATH are removed from ``sys.path``. Entries of an installer or a ``.pth`` file are
    accepted: each names one fixed folder, not the current working folder.
    """
    named = "" if sys.flags.ignore_environment else os.environ.get("PYTHONPATH", "")
    relative = [each for each in named.split(os.pathsep) if not os.path.isabs(each)] if named else []
    if relative:
        away = {*relative, *map(_absolute, relative)}
        sys.path[:] = [each for each in sys.path if each not in away]
    if working_folder_leads:
        return "-m"
    return "PYTHONPATH" if relative else None


def _refuse_to_start(way: str) -> None:
    """Raise the error for ``way``, with the command to type instead."""
    from skillhub.errors import UsageError
    from skillhub.formats.text import as_command

    isolated = as_command(sys.executable or "python", "-I", "-m", "skillhub")
    if way == "PYTHONPATH":
        hint = f"use only absolute paths in PYTHONPATH (an empty one is the working folder), or type: {isolated}"
        raise UsageError("PYTHONPATH names the working folder: its files would run as a part of skillhub", hint=hint)
    message = "without -I, python -m takes modules from the working folder: its files would run as a part of skillhub"
    raise UsageError(message, hint=f"type: {isolated}")


def _absolute(path: str) -> str:
    try:
        return os.path.abspath(path)
    except OSError:  # the working folder no longer exists
        return path


def _answer(args: list[str]) -> int:
    if args[:1] in (["help"], ["--help"], ["-h"]):
        args = [*args[1:], "--help"]
    if [each for each in args if each != "--json"] in (["--version"], ["-V"]):
        from skillhub import __version__

        text = f'{{"schema": 1, "version": "{__version__}"}}' if "--json" in args else f"skillhub {__version__}"
        sys.stdout.write(text + "\n")
        return 0
    if args == ["--man"]:
        with open(os.path.join(os.path.dirname(__file__), "skillhub.1"), encoding="utf-8") as page:
            sys.stdout.write(page.read())
        return 0
    if os.environ.get("_SKILLHUB_COMPLETE", "").startswith("complete_"):
        from skillhub.cli.complete import answer

        text, status = answer(os.environ)
        sys.stdout.write(f"{text}\n" if text else "")
        return status
    if args in (["--help"], []) and "_SKILLHUB_COMPLETE" not in os.environ:
        from skillhub.cli.table import top_help

        columns = None
        if sys.stdout.isatty():
            from shutil import get_terminal_size

            columns = get_terminal_size().columns
        sys.stdout.write(top_help(columns))
        return 0 if args else 2
    idle = _idle(args)
    known = idle.output() if idle is not None else None
    if known is not None:
        for stream, text in known:
            if stream == "stderr":
                sys.stdout.flush()
            getattr(sys, stream).write(text)
        return 0
    # Otherwise pydantic would run the plugins of other packages, and it takes 8 ms to look for them.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    gc.disable()  # modules are no garbage: neither while they load nor at the end of the process
    try:
        from skillhub.cli import app

        return app.run(args, idle)
    finally:
        gc.freeze()


def _idle(args: list[str]) -> IdleCommand | None:
    """Return the memory of a command line that often has nothing to do; None for another, or without a home."""
    if args[:1] not in (["install"], ["list"], ["sync"]):
        return None
    from contextlib import suppress

    import skillhub
    from skillhub.disk.home import Home, user_home
    from skillhub.disk.proved import IdleCommand, code_stamps
    from skillhub.errors import SkillhubError

    with suppress(SkillhubError, OSError):  # the command reports it
        environ = {name: value for name, value in os.environ.items() if name not in _OF_SHELL}
        streams = [(each.isatty(), each.encoding) for each in (sys.stdin, sys.stdout, sys.stderr)]
        columns = [os.get_terminal_size(each) for each, (is_terminal, _) in enumerate(streams) if is_terminal]
        here = skillhub.__file__, code_stamps(), sys.version, os.geteuid() if os.name == "posix" else 0
        folder = os.path.join(Home.around(os.environ, user_home()).state, "proved")
        return IdleCommand(folder, [os.getcwd(), *args], (here, sorted(environ.items()), streams, columns))
    return None


def _stopped(message: str, status: int) -> int:
    from contextlib import suppress

    with suppress(OSError):  # stderr itself may be closed or full
        sys.stderr.write(f"{message}\n")
    return status


def ready() -> None:
    """Open closed standard streams, and replace characters that the locale cannot encode.

    The next file that is opened would get a closed descriptor, and output would be written into it.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - open until the process ends
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _drop_output() -> None:
    """Redirect stdout to the null device, so that the interpreter's last flush does not fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _is_full(error: BaseException) -> bool:
    """Return whether writing to a stream failed because its disk is full or its terminal is gone."""
    return isinstance(error, OSError) and error.errno in _FULL and error.filename is None

"""The program in a fork of the process of the tests: a process of its own, without an interpreter's start."""

from __future__ import annotations

import fcntl
import gc
import os
import pkgutil
import signal
import sys
import tempfile
import termios
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module

import skillhub


def fork(
    run: Callable[[], int], folder: object, environ: Mapping[str, str], streams: Sequence[int], seconds: int
) -> int:
    """Start a process and return its number.

    Args:
        run: What it does; returns its exit status.
        folder: Where it works.
        environ: All of its environment; what an interpreter reads when it starts has no effect.
        streams: Its standard input, output and error; a terminal is made the one that controls it.
        seconds: When it is ended, if it has not ended.
    """
    _load()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # later Pythons warn of forks beside threads; the child uses none
        child = os.fork()
    if child:
        return child
    status = 1
    try:
        _become(folder, environ, streams, seconds)
        status = run()
        gc.collect()  # temporary folders go with what holds them
    except SystemExit as stop:
        status = stop.code if isinstance(stop.code, int) else stop.code is not None
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def wait(child: int) -> int:
    """Return how a process ended, as ``subprocess`` does."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@cache
def _load() -> None:
    """Import all of the program, so that no child has to; what needs an extra may be absent."""
    for each in pkgutil.walk_packages(skillhub.__path__, "skillhub."):
        if not each.name.endswith("__main__"):
            with suppress(ImportError):
                import_module(each.name)


def _become(folder: object, environ: Mapping[str, str], streams: Sequence[int], seconds: int) -> None:
    """Make of this process what a new one would be."""
    gc.freeze()
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.alarm(seconds)
    if os.isatty(streams[0]):
        os.setsid()
        fcntl.ioctl(streams[0], termios.TIOCSCTTY, 0)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        file = open(number, "r" if number == 0 else "w", encoding="utf-8", errors="replace")  # noqa: SIM115
        setattr(sys, name, file)
        setattr(sys, f"__{name}__", file)
    sys.stderr.reconfigure(line_buffering=True)
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(folder)
    tempfile.tempdir = None

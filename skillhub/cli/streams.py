"""Makes the three standard streams usable whatever the program was started with, and says who is at them."""

from __future__ import annotations

import errno
import io
import os
import sys

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


def ready() -> None:
    """Open what was closed, and let no character that the locale does not know stop a command.

    A closed descriptor would be taken by the next file that is opened, and output would end up in it.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - as long as we live
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def drop_output() -> None:
    """Write nowhere from now on, so that the interpreter does not complain when it flushes at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def is_full(error: BaseException) -> bool:
    """Say whether this is what writing to a stream raises when its disk, or its terminal, takes no more."""
    return isinstance(error, OSError) and error.errno in _FULL and error.filename is None


def is_interactive() -> bool:
    """Say whether a person can be asked: their keyboard and their screen are both there, and no CI is."""
    return sys.stdin.isatty() and sys.stderr.isatty() and not is_ci()


def is_ci() -> bool:
    """Say whether an automaton runs this, whose terminal, if it has one, nobody sits at."""
    return os.environ.get("CI", "").lower() not in ("", "0", "false", "no")

"""Replacing this process by another program."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence

from skillhub.errors import NotFound
from skillhub.model.text import quote
from skillhub.world import files


def become(words: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run a program in the place of this one, by no shell; return its exit status where a system cannot do that.

    Raises:
        NotFound: there is no such program.
        StateError: it cannot be run.
    """
    try:
        if sys.platform == "win32":
            return subprocess.run(words, env=dict(environ), check=False).returncode
        # Python ignores these, and whatever it starts would as well.
        for name in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(name, signal.SIG_DFL)
        os.execvpe(words[0], list(words), dict(environ))  # noqa: S606 - no shell is just what is wanted
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFound(f"there is no program {quote(words[0])}", hint="give its path, or see PATH") from error
    except OSError as error:
        raise files.disk_error(error, words[0]) from error

"""A Python that has loaded nothing yet, to see what a program loads."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping

import skillhub

# In the code, for the variable could hold no folder with a colon in its name.
_PATH = [os.path.dirname(os.path.dirname(skillhub.__file__)), *filter(None, sys.path)]


def run_bare(code: str, *words: str, environ: Mapping[str, str] = os.environ, cwd: object = None) -> str:
    """Run this code without ``site`` and return what it prints.

    An editable install, among others, loads ``re`` and more there, before any program has begun.
    """
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {_PATH}\n{code}", *words],
        cwd=None if cwd is None else str(cwd),
        env={**environ},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout

"""Enabled copies that git tracks: they would travel to others without lock, consent or signature."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence

# Of the user's environment git gets what it needs to run, and no setting that could make it run something.
_PASSED = ("PATH", "HOME", "SYSTEMROOT", "LANG")
# A repository may lack a tree that its index needs and name a program as the place to fetch it from; and a
# folder's name may look like a pattern.
_SET = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none", "GIT_LITERAL_PATHSPECS": "1"}


def copies(base: str, links: Sequence[str]) -> list[str]:
    """Return those of ``links`` (absolute) with a file that git tracks; empty where there is no git."""
    if not links:
        return []
    environ = {name: os.environ[name] for name in _PASSED if name in os.environ} | _SET
    # A repository may set a program to watch its files; this asks git not to run one.
    words = ["git", "-C", base, "-c", "core.fsmonitor=false", "ls-files", "-z", "--", *links]
    try:
        done = subprocess.run(words, env=environ, capture_output=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    tracked = [os.path.join(base, os.fsdecode(path)) for path in done.stdout.split(b"\0") if path]
    return [link for link in links if any(path.startswith(link + os.sep) for path in tracked)]

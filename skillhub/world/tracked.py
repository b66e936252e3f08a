"""Enabled copies that git tracks: they would travel to others without lock, consent or signature."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence

from skillhub.disk import disk_error
from skillhub.errors import StateError
from skillhub.model.text import quote

# Of the user's environment git gets what it needs to run, and no setting that could make it run something.
_PASSED = ("PATH", "HOME", "SYSTEMROOT")
# A repository may lack a tree that its index needs and name a program as the place to fetch it from; and a
# folder's name may look like a pattern.
_SET = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none", "GIT_LITERAL_PATHSPECS": "1", "LC_ALL": "C"}


def copies(base: str, links: Sequence[str]) -> list[str]:
    """Return those of ``links`` (absolute) that git tracks, or a file in them; empty where there is no git.

    Raises:
        StateError: there is a repository, and git cannot say what it tracks.
    """
    # Of anything outside of its folder git says nothing at all.
    asked = [link for link in links if link.startswith(os.path.join(base, ""))]
    if not asked:
        return []
    environ = {name: os.environ[name] for name in _PASSED if name in os.environ} | _SET
    # A relative folder of the path, or an empty one, may be a clone's, and what is in it called `git`.
    folders = filter(os.path.isabs, environ.get("PATH", os.defpath).split(os.pathsep))
    environ["PATH"] = os.pathsep.join(folders) or os.defpath
    # A repository may set a program to watch its files; this asks git not to run one.
    words = ["git", "-C", base, "-c", "core.fsmonitor=false", "ls-files", "-z", "--", *asked]
    try:
        done = subprocess.run(words, env=environ, capture_output=True, timeout=20, check=False)
    except FileNotFoundError:
        return []
    except OSError as error:  # more places than a command line holds, too
        raise disk_error(error, base) from error
    except subprocess.TimeoutExpired as error:
        raise StateError("git does not say what it tracks: it took too long", where=base) from error
    if done.returncode and not done.stderr.startswith(b"fatal: not a git repository"):
        said = (done.stderr.decode("utf-8", "replace").splitlines() or ["nothing"])[-1]
        raise StateError(f"git cannot say what it tracks: {quote(said, 300)}", where=base)
    tracked = [os.path.join(base, os.fsdecode(path)) for path in done.stdout.split(b"\0") if path]
    # A link is tracked itself, and so is the folder of a submodule.
    return [link for link in asked if any(f"{path}{os.sep}".startswith(link + os.sep) for path in tracked)]

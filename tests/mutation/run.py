"""Mutation testing: break one place of a module at a time, and see whether a test fails.

Run it at the root of a copy of the repository, for it writes to the module itself::

    python -m tests.mutation.run skillhub/archive/zip.py tests/archive/test_zip.py tests/archive

The tests are tried in the order given, each path by itself, until one fails. A change that none of them notices is
printed. Each is tried in a process of its own, with 3 GB and some seconds, so that what loops or eats is noticed too.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import signal
import sys
import time
from pathlib import Path

import cryptography.x509  # noqa: F401 - what the tests import, once for all of them
import hypothesis
import pytest
import tuf.ngclient  # noqa: F401

from tests.mutation.changes import changes

# A failure is enough; the smallest failing input is not needed. `conftest.py` uses this profile.
_QUICK = [hypothesis.Phase.explicit, hypothesis.Phase.generate]
hypothesis.settings.register_profile("quick", phases=_QUICK, database=None)
hypothesis.settings.load_profile("quick")
_SECONDS = 60
_BYTES = 3_000_000 << 10
_OPTIONS = ["-x", "-q", "--assert=plain", "--hypothesis-seed=0", "-p", "no:cacheprovider", "-p", "no:randomly"]


def _pass(tests: str, seconds: float) -> bool:
    """Return whether these tests pass in a child process that has not imported the package."""
    child = os.fork()
    if child == 0:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_AS, (_BYTES, _BYTES))
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(nowhere, stream)
        os._exit(int(pytest.main([*_OPTIONS, *tests.split(",")])) != 0)
    ends = time.monotonic() + seconds
    done = status = 0
    while not done and time.monotonic() < ends:
        done, status = os.waitpid(child, os.WNOHANG)
        time.sleep(0.005)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    if not done:
        os.waitpid(child, 0)
    return done != 0 and status == 0


def main() -> None:
    """Try every change of a module, and print those that no test detects."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("module", type=Path)
    parser.add_argument("tests", nargs="+", help="paths; those joined by commas are run together")
    parser.add_argument("--among", type=Path, help="try only what an earlier run has printed to this file")
    given = parser.parse_args()
    source = given.module.read_text()
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    limits = {}
    for tests in given.tests:
        began = time.monotonic()
        if not _pass(tests, 10 * _SECONDS):
            sys.exit(f"{tests}: they fail without any change")
        limits[tests] = min(_SECONDS, 5 + 4 * (time.monotonic() - began))
    sys.dont_write_bytecode = True
    for cached in given.module.parent.glob(f"__pycache__/{given.module.stem}.*"):
        cached.unlink()
    again = given.among.read_text() if given.among else None
    tried = [one for one in changes(source) if again is None or one.shown(source).partition(":")[2] in again]
    unnoticed = 0
    try:
        for one in tried:
            given.module.write_text(one.made(source))
            if all(_pass(tests, seconds) for tests, seconds in limits.items()):
                unnoticed += 1
                print(f"{given.module}:{one.shown(source)}", flush=True)
    finally:
        given.module.write_text(source)
    print(f"{given.module}: {len(tried)} changes, {unnoticed} not noticed")


if __name__ == "__main__":
    main()

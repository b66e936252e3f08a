"""The program in the process of the tests, where a new process for each command line would take ten times as long."""

from __future__ import annotations

import gc
import io
import os
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout

import pytest

from skillhub.cli.main import main
from tests.support.cli import Done, Shell


@pytest.fixture
def let_go() -> Iterator[None]:
    """Close, after a test that lets ResourceWarnings pass, what commands keep open: elsewhere their process ends."""
    yield
    gc.collect()


def _keep() -> None:
    """Freeze nothing."""


class Here(Shell):
    """A machine as ``Shell`` has it, with nobody at its terminal.

    Not for the registry inside the package: its metadata is thrown away when the process ends.
    """

    def run(self, *args: object, cwd: object = None, **environ: str) -> Done:
        """Run a command line with this machine's environment alone."""
        before = dict(os.environ)
        freeze, threshold = gc.freeze, gc.get_threshold()
        out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
        try:
            gc.freeze = _keep  # this process goes on, and finds what a command left
            os.environ.clear()
            os.environ.update(self.having(environ))
            with chdir(cwd or self.project), redirect_stdout(out), redirect_stderr(err):
                status = main([str(each) for each in args])
        finally:
            os.environ.clear()
            os.environ.update(before)
            gc.freeze = freeze
            gc.set_threshold(*threshold)
            gc.enable()
        return Done(status, out.buffer.getvalue(), err.buffer.getvalue())

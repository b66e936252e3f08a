"""A command that waits for another process reports it."""

from __future__ import annotations

from contextlib import contextmanager

from skillhub.disk.home import Home
from skillhub.project.project import Project


@contextmanager
def at_work(shell):
    """Hold the lock of the project like another skillhub process."""
    home = Home.of({"SKILLHUB_HOME": str(shell.hub)})
    with Project(str(shell.project), "project", home).exclusively():
        yield


def test_a_command_that_waits_for_another_reports_the_wait_once(shell):
    with at_work(shell):
        process = shell.start("sync", "--json")
        silent = shell.start("sync", "--quiet")
        assert process.stderr.readline() == b"another skillhub process uses this project; waiting for it\n"
        assert process.poll() is None
    out, err = process.communicate()
    assert (process.returncode, err) == (0, b"")
    assert b'"changed": false' in out
    assert silent.communicate() == (b"", b"")
    assert silent.returncode == 0


def test_a_command_without_wait_reports_nothing(shell):
    assert b"another" not in shell.run("sync").raw_err

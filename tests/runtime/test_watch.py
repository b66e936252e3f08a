"""That an agent that waits is told of a change, and of nothing else."""

from __future__ import annotations

import threading

import pytest

pytest.importorskip("watchfiles", reason="the extra `watch`")

from skillhub.runtime.discover import Root
from skillhub.runtime.watch import changes
from tests.runtime.test_discover import write


def test_a_change_is_told_with_its_root(tmp_path):
    one, two = Root(str(tmp_path / "one"), "project"), Root(str(tmp_path / "two"), "user")
    for root in (one, two):
        write(tmp_path.__class__(root.path) / "demo")
    stop = threading.Event()
    # Again and again, for nobody says when the watching has begun.
    writer = threading.Thread(target=_keep_writing, args=(tmp_path / "two/demo/SKILL.md", stop))
    writer.start()
    try:
        told = next(changes([one, two, Root(str(tmp_path / "none"), "user")], stop))
    finally:
        stop.set()
        writer.join()
    assert told == (two,)


def _keep_writing(path, stop):
    while not stop.wait(0.05):
        path.write_text("---\nname: demo\ndescription: Now.\n---\n")


def test_without_a_root_there_is_nothing_to_wait_for(tmp_path):
    assert list(changes([Root(str(tmp_path / "none"), "user")])) == []

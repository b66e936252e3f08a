"""A push writes many files in parallel, keeps the required order, and continues after an interruption."""

from __future__ import annotations

import io
import threading
from collections import Counter
from hashlib import md5

import pytest

from skillhub.disk.home import Home
from skillhub.errors import Refused, SkillhubError, SourceError
from skillhub.registry.operator import Signing, opened
from skillhub.registry.outputs import SHAPES, build
from skillhub.registry.push import push
from skillhub.registry.push_targets import SiteFile, in_stages
from skillhub.registry.upkeep import withdraw
from skillhub.scan.results import ScanCache
from tests.support.registry import now

TIMESTAMP = "metadata/timestamp.json"
AT_ONCE = 8


def file(path):
    return SiteFile(path, path.encode)


def site(count):
    fixed = [file(f"archives/a/{number:064x}.zip") for number in range(count)]
    other = [file(f"a{number}/SKILL.md") for number in range(count)]
    lists = [file(".well-known/agent-skills/index.json")]
    return [*fixed, *lists, *other, file(TIMESTAMP), file("metadata/2.root.json"), file("metadata/3.root.json")]


def test_eight_files_are_written_in_parallel():
    """No write ends before seven others have begun, so that eight files take the time of one."""
    rounds = []
    barrier = threading.Barrier(AT_ONCE, action=lambda: rounds.append(1), timeout=300)
    files = [file(f"archives/a/{number:064x}.zip") for number in range(5 * AT_ONCE)]
    in_stages(files, lambda _: barrier.wait() and None)
    assert len(rounds) == 5


def test_files_are_written_in_stages_that_end_with_timestamp_and_roots():
    lock, begun, ended = threading.Lock(), [], []

    def write(each):
        with lock:
            begun.append((each.path, frozenset(ended)))
        with lock:
            ended.append(each.path)

    files = site(30)
    in_stages(files, write)
    assert Counter(ended) == Counter(each.path for each in files)
    before = dict(begun)
    fixed, other = ({each.path for each in files if each.path.startswith(start)} for start in ("archives/", "a"))
    assert all(fixed <= before[path] for path in other - fixed)
    assert other <= before[".well-known/agent-skills/index.json"]
    assert {*ended[:-3]} <= before[TIMESTAMP]
    assert ended[-3:] == [TIMESTAMP, "metadata/2.root.json", "metadata/3.root.json"]


@pytest.mark.parametrize("at", [0, 29, 30, 45, 60])
def test_failed_write_prevents_all_later_stages(at):
    files, written = site(30), []
    ordered = [each.path for each in files]

    def write(each):
        if each.path == ordered[at]:
            raise SourceError("the store is gone")
        written.append(each.path)

    with pytest.raises(SkillhubError, match="gone"):
        in_stages(files, write)
    assert TIMESTAMP not in written
    assert at >= 30 or not [path for path in written if not path.startswith("archives/")]


class Bucket:
    """A client of boto3 for S3 in memory, whose ``cut``-th write and all later ones fail."""

    def __init__(self):
        self.objects, self.asked, self.cut, self._lock = {}, Counter(), None, threading.Lock()

    def _tag(self, key):
        return f'"{md5(self.objects[key], usedforsecurity=False).hexdigest()}"'

    def get_paginator(self, _):
        return self

    def paginate(self, **_):
        self.asked["list"] += 1
        yield {"Contents": [{"Key": key, "ETag": self._tag(key)} for key in sorted(self.objects)]}

    def get_object(self, *, Key, **_):  # noqa: N803 - as boto3 has it
        self.asked["get"] += 1
        return {"Body": io.BytesIO(self.objects[Key]), "ETag": self._tag(Key)}

    def put_object(self, *, Key, Body, IfMatch=None, IfNoneMatch=None, **_):  # noqa: N803
        with self._lock:
            if self.cut is not None and self.asked["put"] >= self.cut:
                raise OSError("the connection is cut")
            self.asked["put"] += 1
            assert (IfNoneMatch == "*") == (Key not in self.objects)
            assert IfMatch is None or IfMatch == self._tag(Key)
            self.objects[Key] = Body

    def delete_object(self, *, Key, **_):  # noqa: N803
        del self.objects[Key]

    def close(self):
        """Do nothing."""


def test_interrupted_push_to_s3_sends_only_missing_files(hub):
    module = pytest.importorskip("skillhub.registry.push_s3", reason="takes the extra s3", exc_type=ImportError)
    bucket = Bucket()

    def pushed(**more):
        return push(hub.dir.path, "s3://bucket", lambda _: module.S3Target(bucket, "bucket", ""), now=now(), **more)

    total = len(
        push(hub.dir.path, "s3://x", lambda _: module.S3Target(Bucket(), "x", ""), now=now(), dry_run=True).written
    )
    for cut in (0, 1, total // 3, total // 2, total - 2, total - 1):
        bucket.cut = cut
        with pytest.raises(SourceError):
            pushed()
        assert TIMESTAMP not in bucket.objects
        assert len(bucket.objects) == bucket.asked["put"] == cut
    bucket.cut = None
    pushed()
    assert bucket.asked["put"] == total  # none was sent twice
    assert bucket.objects == {path: hub.files[path] for path in bucket.objects}
    before = Counter(bucket.asked)
    assert pushed().written == ()
    assert bucket.asked - before == Counter(list=1, get=3)


def test_files_of_a_withdrawn_release_are_removed_from_s3_and_others_stay(hub, tmp_path):
    module = pytest.importorskip("skillhub.registry.push_s3", reason="takes the extra s3", exc_type=ImportError)
    bucket = Bucket()
    bucket.objects = {"index.json": b"mine", "hello/notes.txt": b"mine"}

    def pushed():
        with opened(hub.dir.path, Signing(now=hub.when)) as registry:
            build(registry, [SHAPES], ScanCache(Home.of({"SKILLHUB_HOME": str(tmp_path / "home")})))
        return push(hub.dir.path, "s3://bucket", lambda _: module.S3Target(bucket, "bucket", ""), now=now())

    with pytest.raises(Refused, match=r"index\.json"):
        pushed()
    assert len(bucket.objects) == 2
    del bucket.objects["index.json"]
    pushed()
    withdraw(hub.dir.path, "hello@1.0.0", "steals", Signing(now=hub.when))
    assert "hello/SKILL.md" in pushed().removed
    assert "hello/SKILL.md" not in bucket.objects and bucket.objects["hello/notes.txt"] == b"mine"
    assert pushed().written == ()

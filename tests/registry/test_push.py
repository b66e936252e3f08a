import json
import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from skillhub.disk.home import Home
from skillhub.errors import (
    BadMetadata,
    LinkLeavesProject,
    NotFound,
    Refused,
    Rollback,
    SkillhubError,
    StateError,
    UsageError,
)
from skillhub.registry.check import check
from skillhub.registry.operator import Signing, opened
from skillhub.registry.outputs import SHAPES, build
from skillhub.registry.push import push
from skillhub.registry.push_targets import FolderTarget
from skillhub.registry.upkeep import rotate, withdraw
from skillhub.scan.results import ScanCache
from skillhub.trust.registry_metadata import path_of
from tests.support.faults import EVERY, KILLED, forbidden, in_child, kill, no_space
from tests.support.published import change, offered, tree_of, twin
from tests.support.registry import Simulator, long_ago, now

TIMESTAMP = "metadata/timestamp.json"
PUBLIC = ".well-known/agent-skills/index.json"


@pytest.fixture
def place(tmp_path):
    return tmp_path / "public"


def pushed(hub, place, connect=FolderTarget, **more):
    return push(hub.dir.path, str(place), connect, now=now(), **more)


def another(hub, folder):
    folder.mkdir()
    return hub.copy(folder)


def test_pushed_files_equal_the_site_and_serve_a_client(hub, place, tmp_path):
    done = pushed(hub, place)
    files = tree_of(place)
    assert sorted(done.written) == sorted(files)
    assert files == {path: hub.files[path] for path in files}
    assert offered(place, tmp_path / "client", hub.root) == ("1.0.0",)
    shutil.rmtree(hub.dir.site)
    os.rename(place, hub.dir.site)
    assert check(hub.dir.path, now()).problems == ()


def test_registry_without_the_archive_of_a_withdrawn_release_is_pushed(hub, place):
    hub.publish("other")
    withdraw(hub.dir.path, "other@1.0.0", "steals", Signing(now=hub.when))
    shutil.rmtree(Path(hub.dir.site) / "archives/other")
    assert not [path for path in pushed(hub, place).written if path.startswith("archives/other/")]


def test_repeated_push_writes_no_file(hub, place):
    first = pushed(hub, place)
    assert pushed(hub, place) == type(first)((), (), len(first.written), is_new=False)


@pytest.fixture
def built(hub, tmp_path):
    """Return a function that builds the files for other clients; it was called once."""

    def call():
        with opened(hub.dir.path, Signing(now=hub.when)) as registry:
            build(registry, [SHAPES], ScanCache(Home.of({"SKILLHUB_HOME": str(tmp_path / "home")})))

    call()
    return call


def recalled(hub, built, place):
    """Return what a push removes after the one release is withdrawn, and the files that are left."""
    withdraw(hub.dir.path, "hello@1.0.0", "steals", Signing(now=hub.when))
    built()
    planned, done = pushed(hub, place, dry_run=True), pushed(hub, place)
    assert planned == done
    return done.removed, tree_of(place)


def test_attack_files_of_a_withdrawn_release_are_removed_from_the_target(hub, place, built):
    pushed(hub, place)
    assert {*recalled(hub, built, place)[0]} == {
        "-/clients/hello.json",
        "-/lists/2c.json",
        "-/npm/-/hello-1.0.0.tgz",
        "-/npm/hello",
        "hello/SKILL.md",
        "hello/skill.oms.sig",
    }
    left = {path for path in tree_of(place) if not path.startswith(".skillhub/")}
    assert left & {"hello/SKILL.md", "-/npm/hello"} == set()
    assert left <= {*hub.files, *tree_of(hub.dir.site)}
    assert (pushed(hub, place).written, pushed(hub, place).removed) == ((), ())
    hub.publish(version="1.1.0")
    built()
    pushed(hub, place)
    assert json.loads((place / "-/npm/hello").read_bytes())["dist-tags"] == {"latest": "1.1.0"}


def test_attack_a_package_that_an_earlier_version_pushed_is_removed(hub, place, built):
    pushed(hub, place)
    shutil.rmtree(place / ".skillhub")
    assert recalled(hub, built, place)[0] == ("-/npm/hello",)


def test_files_of_somebody_else_are_not_removed(hub, place, built):
    pushed(hub, place)
    change(place / "hello/SKILL.md", b"mine")
    change(place / "hello/notes.txt", b"mine")
    removed, left = recalled(hub, built, place)
    assert "hello/skill.oms.sig" in removed
    assert [path for path, data in left.items() if data == b"mine"] == ["hello/SKILL.md", "hello/notes.txt"]


@pytest.mark.parametrize("path", ["index.json", "hello/SKILL.md", PUBLIC])
def test_a_push_names_the_files_of_somebody_else_and_changes_nothing(hub, place, built, path):
    change(place / path, b"mine")
    change(place / "README.md", b"mine too")
    before = tree_of(place)
    with pytest.raises(Refused) as caught:
        pushed(hub, place)
    assert path in caught.value.message or path == PUBLIC
    assert tree_of(place) == before
    (place / path).unlink()
    pushed(hub, place)
    assert (place / "README.md").read_bytes() == b"mine too"


def test_a_later_push_replaces_only_files_that_an_earlier_one_wrote(hub, place, built):
    pushed(hub, place)
    change(place / "index.json", b"spoiled")
    change(place / "other/SKILL.md", b"mine")
    assert "index.json" in pushed(hub, place).written
    hub.publish("other")
    built()
    with pytest.raises(Refused, match=r"other/SKILL\.md"):
        pushed(hub, place)
    assert (place / "other/SKILL.md").read_bytes() == b"mine"


def test_a_killed_push_is_continued_with_other_content(hub, place, built):
    pushed(hub, place)
    hub.publish("other")
    built()

    class Killed(FolderTarget):
        def publish(self, site, changed, *rest):
            super().publish(site, [file for file in changed if not file.path.startswith("metadata/")])
            raise StateError("killed")

    with pytest.raises(StateError, match="killed"):
        pushed(hub, place, Killed)
    assert "other/SKILL.md" in tree_of(place)
    hub.publish("other", "1.1.0", **{"notes.txt": "new"})
    built()
    withdraw(hub.dir.path, "hello@1.0.0", "steals", Signing(now=hub.when))
    built()
    assert "hello/SKILL.md" in pushed(hub, place).removed
    assert b"1.1.0" in (place / "-/npm/other").read_bytes()


def test_attack_a_link_in_the_folder_leads_no_write_out_of_it(hub, place, tmp_path):
    pushed(hub, place)
    (place / "archives").rename(tmp_path / "outside")
    (place / "archives").symlink_to(tmp_path / "outside")
    before = tree_of(tmp_path / "outside")
    hub.publish("other")
    with pytest.raises(LinkLeavesProject):
        pushed(hub, place)
    assert tree_of(tmp_path / "outside") == before
    assert offered(place, tmp_path / "client", hub.root) == ("1.0.0",)


@pytest.mark.parametrize("name", [".begun", "outputs"])
def test_attack_a_link_in_the_registry_makes_a_command_write_to_no_other_file(hub, place, tmp_path, name):
    (tmp_path / "outside").mkdir()
    precious = tmp_path / "outside/precious"
    precious.write_bytes(b"mine")
    (Path(hub.dir.path) / name).symlink_to(precious if name == ".begun" else precious.parent)
    before = tree_of(tmp_path / "outside")
    with suppress(LinkLeavesProject):
        pushed(hub, place)
    assert tree_of(tmp_path / "outside") == before


def test_dry_run_lists_the_files_of_a_push_and_writes_none(hub, place):
    planned = pushed(hub, place, dry_run=True)
    assert not place.exists()
    assert pushed(hub, place) == planned


def test_only_changes_are_pushed_fixed_files_first_and_the_timestamp_last(hub, place):
    pushed(hub, place)
    hub.publish(version="1.1.0")
    written = pushed(hub, place).written
    public = [path for path in written if ".well-known" in path]
    assert written[-len(public) - 1 :] == (*public, TIMESTAMP)
    assert public[-1] == PUBLIC
    assert len([path for path in written if path.startswith("archives/")]) == 1
    assert not any("root" in path for path in written)
    hub.publish("another")
    written = pushed(hub, place).written
    document, bucket = (
        next(path for path in written if path.startswith(f"targets/{kind}/")) for kind in ("publishers", "ns")
    )
    assert written.index(document) < written.index(bucket)


class Renames:
    """Counts renames below a folder, and calls ``happen`` in place of the ``at``-th one."""

    def __init__(self, folder, at, happen):
        self.folder, self.left, self.happen = str(folder), at, happen

    def hook(self, event, args):
        held = f"/proc/self/fd/{args[3]}" if event == "os.rename" else ""
        if held and os.path.join(os.readlink(held) if args[3] >= 0 else "", args[1]).startswith(self.folder):
            self.left -= 1
            if self.left == 0:
                self.happen()


def test_killed_push_shows_the_old_or_new_state_and_is_completed_later(hub, place, tmp_path):
    pushed(hub, place)
    offered(place, tmp_path / "client", hub.root)
    hub.publish(version="1.1.0")
    start, seen, steps = twin(place, "start"), [], len(pushed(hub, place, dry_run=True).written)
    # The first and the last ones, by which the new state becomes visible, and each third of the others.
    for step in range(1, steps + 1) if EVERY else sorted({*range(1, steps, 3), steps - 2, steps - 1, steps}):
        shutil.rmtree(place)
        twin(start, place.name)
        cut = Renames(place, step, kill).hook
        assert in_child(lambda: pushed(hub, place), lambda hook=cut: sys.addaudithook(hook)) == KILLED
        old = twin(tmp_path / "client", "old")
        seen.append(offered(place, old, hub.root))
        assert seen[-1] == offered(place, tmp_path / f"new-{step}", hub.root)
        pushed(hub, place)
        assert tree_of(place) == {path: hub.files[path] for path in tree_of(place)}
        assert offered(place, old, hub.root) == ("1.1.0", "1.0.0")
    assert set(seen) == {("1.0.0",)}  # the timestamp is renamed last
    assert steps > 8


@pytest.mark.parametrize("happen", [no_space, forbidden])
def test_disk_error_leaves_the_old_state_and_no_temporary_file(hub, place, tmp_path, happen):
    pushed(hub, place)
    hub.publish(version="1.1.0")
    for step in (1, 2, 6):
        cut = Renames(place, step, happen).hook
        done = in_child(lambda: pushed(hub, place), lambda hook=cut: sys.addaudithook(hook))
        assert done == StateError.exit_code
        assert not [path for path in tree_of(place) if path.endswith(".tmp")]
        assert offered(place, tmp_path / f"client-{step}", hub.root) == ("1.0.0",)


@pytest.mark.parametrize("role", ["timestamp", "snapshot", "targets", "root", "namespaces", "releases"])
def test_client_stays_valid_at_each_step_of_a_push_of_new_keys(hub, place, tmp_path, role):
    pushed(hub, place)
    offered(place, tmp_path / "client", hub.root)
    rotate(hub.dir.path, role, Signing(now=now()))
    client = twin(tmp_path / "client", "walker")

    class Watched(FolderTarget):
        def publish(self, site, changed, *rest):
            for file in changed:
                super().publish(site, [file])
                if not file.path.startswith("metadata/"):
                    continue
                assert offered(place, client, hub.root) == ("1.0.0",)
                fresh = tmp_path / "fresh"
                shutil.rmtree(fresh, ignore_errors=True)
                assert offered(place, fresh, hub.root) == ("1.0.0",)

    pushed(hub, place, Watched)
    assert pushed(hub, place).written == ()


def test_push_of_an_old_copy_is_refused_as_a_rollback(hub, place, tmp_path):
    stale = another(hub, tmp_path / "stale")
    hub.publish(version="1.1.0")
    pushed(hub, place)
    before = tree_of(place)
    with pytest.raises(Rollback, match="timestamp"):
        pushed(stale, place)
    assert tree_of(place) == before


def test_push_of_a_copy_without_the_newest_root_is_refused(hub, place, tmp_path):
    stale = another(hub, tmp_path / "stale")
    rotate(hub.dir.path, "root", Signing(now=now()))
    pushed(hub, place)
    stale.publish(version="1.1.0")
    before = tree_of(place)
    with pytest.raises(Rollback, match="root"):
        pushed(stale, place)
    assert tree_of(place) == before


@pytest.mark.parametrize("more", [0, 1])
def test_push_of_a_diverged_copy_is_refused(hub, place, tmp_path, more):
    fork = another(hub, tmp_path / "fork")
    hub.publish(version="1.1.0")
    for number in range(1 + more):
        fork.publish(version=f"1.2.{number}")
    pushed(hub, place)
    before = tree_of(place)
    with pytest.raises(StateError, match=r"never changes|same version|never created it"):
        pushed(fork, place)
    assert tree_of(place) == before


def test_parallel_pushes_lose_no_release(hub, place, tmp_path):
    pushed(hub, place)
    late = another(hub, tmp_path / "late")
    hub.publish(version="1.1.0")
    shutil.rmtree(late.dir.path)
    shutil.copytree(hub.dir.path, late.dir.path)
    late.publish(version="1.2.0")

    class Overtaken(FolderTarget):
        def publish(self, site, changed, *rest):
            pushed(late, place)
            super().publish(site, changed, *rest)

    with pytest.raises(StateError, match="another writer"):
        pushed(hub, place, Overtaken)
    assert offered(place, tmp_path / "client", hub.root) == ("1.2.0", "1.1.0", "1.0.0")
    with pytest.raises(Rollback):
        pushed(hub, place)
    assert pushed(late, place).written == ()


def test_another_registry_is_not_overwritten(hub, place, tmp_path):
    (tmp_path / "other").mkdir()
    other = Simulator(tmp_path / "other", label="other")
    pushed(other, place)
    before = tree_of(place)
    with pytest.raises(Refused, match="something else"):
        pushed(hub, place)
    assert tree_of(place) == before


@pytest.mark.parametrize("path", [PUBLIC, TIMESTAMP])
def test_foreign_site_is_not_overwritten(hub, place, path):
    change(place / path, b'{"skills":[]}')
    with pytest.raises(Refused, match="something else"):
        pushed(hub, place)
    assert tree_of(place) == {path: b'{"skills":[]}'}


def test_forged_timestamp_at_the_target_is_reported_and_kept(hub, place, tmp_path):
    (tmp_path / "thief").mkdir()
    thief = Simulator(tmp_path / "thief", label="thief")
    pushed(hub, place)
    change(place / TIMESTAMP, thief.files[TIMESTAMP])
    with pytest.raises(BadMetadata, match="not signed by this registry"):
        pushed(hub, place)
    assert (place / TIMESTAMP).read_bytes() == thief.files[TIMESTAMP]
    (place / TIMESTAMP).unlink()
    assert pushed(hub, place).written == (TIMESTAMP,)


@pytest.mark.parametrize("forged", [b"evil", None])
def test_forged_root_at_the_target_is_reported_and_kept(hub, place, tmp_path, forged):
    (tmp_path / "thief").mkdir()
    thief = Simulator(tmp_path / "thief", label="thief")
    pushed(hub, place)
    change(place / "metadata/2.root.json", forged or thief.root)
    before = tree_of(place)
    with pytest.raises(BadMetadata, match=r"2\.root\.json .* not signed by this registry"):
        pushed(hub, place)
    assert tree_of(place) == before


@pytest.mark.parametrize("data", [b"", b"{}", b"\xff", b"<html>"])
def test_invalid_timestamp_at_the_target_is_refused(hub, place, data):
    pushed(hub, place)
    change(place / TIMESTAMP, data)
    with pytest.raises(SkillhubError):
        pushed(hub, place)
    assert (place / TIMESTAMP).read_bytes() == data


def test_changed_archive_at_the_target_is_refused(hub, place):
    pushed(hub, place)
    archive = next((place / "archives").rglob("*.zip"))
    change(archive, b"evil")
    hub.publish(version="1.1.0")
    before = tree_of(place)
    with pytest.raises(StateError, match="other content"):
        pushed(hub, place)
    assert tree_of(place) == before


def test_changed_public_index_at_the_target_is_restored(hub, place):
    pushed(hub, place)
    change(place / PUBLIC, b"{}")
    assert pushed(hub, place).written == (PUBLIC,)
    assert (place / PUBLIC).read_bytes() == hub.files[PUBLIC]


def current(hub, kind):
    metadata = hub.dir.metadata()
    if kind == "snapshot":
        return f"metadata/{metadata.snapshot_version}.snapshot.json"
    if kind == "idx":
        return path_of(metadata.find("idx/acme.json"))
    if kind == "publishers":
        return hub.publisher("acme")
    return next(path for path in hub.files if path.startswith(kind))


@pytest.mark.parametrize("kind", ["archives", "idx", "publishers", "snapshot", ".well-known/agent-skills/index"])
def test_invalid_registry_is_not_pushed(hub, place, kind):
    path = current(hub, kind)
    change(Path(hub.dir.site, path), hub.files[path].replace(b"1.0.0", b"6.6.6") + b" ")
    with pytest.raises(SkillhubError):
        pushed(hub, place)
    assert not place.exists()


def test_public_index_is_pushed_from_signed_documents(hub, place):
    path = "hello/.well-known/agent-skills/index.json"
    change(Path(hub.dir.site, path), b"evil")
    pushed(hub, place)
    assert (place / path).read_bytes() == hub.files[path]


def test_expired_registry_is_not_pushed(tmp_path, place):
    hub = Simulator(tmp_path, when=long_ago(30))
    with pytest.raises(Refused, match="is invalid"):
        pushed(hub, place)
    assert not place.exists()


def test_leftovers_of_an_interrupted_publication_are_not_pushed(hub, place):
    for path in ("metadata/9.snapshot.json", "targets/notes.txt", f"archives/x/1.0.0/{'0' * 64}.zip", ".env"):
        change(Path(hub.dir.path) / "site" / path, b"secret")
    pushed(hub, place)
    assert b"secret" not in tree_of(place).values()


def test_push_into_the_folder_of_the_keys_is_refused(hub, tmp_path):
    before = tree_of(tmp_path)
    for place in (hub.dir.path, hub.dir.site, os.path.join(hub.dir.path, "new"), str(tmp_path)):
        with pytest.raises(UsageError, match="keys") as caught:
            pushed(hub, place)
        assert caught.value.hint.startswith("name a folder that is not in the registry's")
    link = tmp_path / "link"
    link.symlink_to(hub.dir.path)
    with pytest.raises(UsageError, match="keys"):
        pushed(hub, link / "site")
    link.unlink()
    assert tree_of(tmp_path) == before


def test_push_into_the_folder_of_another_registry_is_refused(hub, tmp_path_factory):
    other = Simulator(tmp_path_factory.mktemp("other")).dir.path
    before = tree_of(Path(other))
    with pytest.raises(UsageError, match="keys"):
        pushed(hub, other)
    assert tree_of(Path(other)) == before


def test_push_without_a_registry_is_not_found(tmp_path, place):
    with pytest.raises(NotFound):
        push(str(tmp_path / "none"), str(place), FolderTarget, now=now())

"""Files built from signed files: only changes are written, and no signed file is replaced."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from skillhub.disk.home import Home
from skillhub.errors import LinkLeavesProject
from skillhub.model.advisory import AdvisoriesDocument
from skillhub.registry.build import add
from skillhub.registry.check import check
from skillhub.registry.operator import Signing, opened
from skillhub.registry.outputs import SHAPES, Part, build, record_path
from skillhub.registry.pages import PAGES
from skillhub.registry.upkeep import advise, withdraw, yank
from skillhub.scan.results import ScanCache
from skillhub.server.registry_api import RegistryApi
from skillhub.trust.documents import bucket_of, shard_path
from tests.support.effort import files_read
from tests.support.killing import kill_everywhere
from tests.support.published import tree_of
from tests.support.registry import Simulator, write_skill


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    return Simulator(tmp_path_factory.mktemp("empty"))


@pytest.fixture
def hub(empty, tmp_path):
    """A registry without a skill."""
    return empty.copy(tmp_path)


def unpacked(_, skill):
    tree = skill.tree(skill.best)
    for path, file in tree.items() if tree else ():
        yield f"{skill.name}/{path}", file.data


def named(offer):
    yield "names.txt", "\n".join(offer.index.names).encode()


SHAPE = Part(name="shape", of_skill=unpacked, of_all=named)


def built(hub, *parts, dry_run=False, quick=False):
    home = Home.of({"SKILLHUB_HOME": str(Path(hub.dir.path).parent / "home")})
    with opened(hub.dir.path, Signing(now=hub.when, dry_run=dry_run)) as found:
        return build(found, parts or (SHAPE,), ScanCache(home), quick=quick)


def test_only_changed_files_are_built_and_written(hub):
    hub.publish("hello")
    hub.publish("other")
    assert {"hello/SKILL.md", "other/SKILL.md", "names.txt"} <= {*built(hub).written}
    assert built(hub).written == []
    asked = []
    counting = Part(name="shape", of_skill=lambda _, it: asked.append(it.name) or unpacked(_, it), of_all=named)
    hub.publish("hello", "1.1.0")
    assert set(built(hub, counting).written) == {"hello/SKILL.md", "hello/skill.oms.sig"}
    assert asked == ["hello"]
    yank(hub.dir.path, "other@1.0.0", "broken", Signing(now=hub.when))
    built(hub, counting)
    assert asked == ["hello", "other"]
    newer = Part(name="shape", version="2", of_skill=counting.of_skill, of_all=named)
    assert (built(hub, newer).written, asked[2:]) == ([], ["hello", "other"])


def test_advisory_rebuilds_only_the_files_of_its_skill(hub):
    hub.publish("hello")
    hub.publish("other")
    built(hub)
    asked = []
    part = Part(name="shape", of_skill=lambda _, it: asked.append(it.name) or unpacked(_, it), of_all=named)
    with opened(hub.dir.path, Signing(now=hub.when)) as found:
        digest = found.index().skills["other"][0].tree
    advise(hub.dir.path, [AdvisoriesDocument(digests={digest: "steals"})], Signing(now=hub.when))
    built(hub, part)
    assert asked == ["other"]


def test_files_of_a_withdrawn_skill_are_removed(hub):
    hub.publish("hello")
    built(hub)
    site = Path(hub.dir.site)
    withdraw(hub.dir.path, "hello@1.0.0", "steals", Signing(now=hub.when))
    assert built(hub, dry_run=True).removed
    assert (site / "hello/SKILL.md").exists()
    assert built(hub).removed == ["hello/SKILL.md", "hello/skill.oms.sig"]
    assert not (site / "hello/SKILL.md").exists()
    assert (site / "hello/.well-known/agent-skills/index.json").exists()
    assert check(hub.dir.path, hub.when).problems == ()


def test_attack_files_of_a_killed_build_are_removed_after_withdrawal(hub):
    hub.publish("hello")
    built(hub)
    hub.publish("hello", "1.1.0", **{"extra.txt": "secret"})
    site = Path(hub.dir.site)

    def killed(offer, skill):
        yield from unpacked(offer, skill)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        built(hub, Part(name="shape", of_skill=killed, of_all=named))
    assert (site / "hello/extra.txt").exists()
    withdraw(hub.dir.path, "hello@1.1.0", "steals", Signing(now=hub.when))
    assert "hello/extra.txt" in built(hub).removed
    assert not (site / "hello/extra.txt").exists()
    assert built(hub).written == []
    (site / "hello/SKILL.md").unlink()
    assert built(hub).written == ["hello/SKILL.md"]


@pytest.mark.parametrize("data", [b"", b"x", None, "same size"])
def test_attack_a_changed_built_file_is_found_and_built_again(hub, data):
    hub.publish("hello")
    hub.publish("other")
    built(hub)
    for path in ("hello/SKILL.md", "names.txt"):
        file = Path(hub.dir.site, path)
        before = file.read_bytes()
        if data is None:
            file.unlink()
        else:
            file.write_bytes(before.swapcase() if isinstance(data, str) else data)
        assert [each.where for each in check(hub.dir.path, hub.when).problems] == [str(file)]
        assert (built(hub).written, file.read_bytes()) == ([path], before)
        assert check(hub.dir.path, hub.when).problems == ()


def test_attack_a_foreign_file_among_those_of_a_skill_is_found(hub):
    hub.publish("hello")
    built(hub)
    added = Path(hub.dir.site, "hello", "scripts", "extra.sh")
    added.parent.mkdir()
    Path(added.parent, ".skillhub-0123456789abcdef.tmp").write_text("")  # of a killed build
    assert check(hub.dir.path, hub.when).problems == ()
    added.write_text("#!/bin/sh\n")
    Path(hub.dir.site, "robots.txt").write_text("")  # the operator's own
    assert [each.where for each in check(hub.dir.path, hub.when).problems] == [str(added)]
    added.unlink()
    os.symlink("/etc", added)
    assert [each.where for each in check(hub.dir.path, hub.when).problems] == [str(added)]


def test_attack_a_record_without_digests_counts_as_none(hub):
    hub.publish("hello")
    built(hub)
    record = Path(record_path(hub.dir.path, f"shape-{bucket_of('hello')}"))
    now = json.loads(record.read_bytes())
    record.write_text(json.dumps({name: [key, [*made]] for name, (key, made) in now.items()}))
    Path(hub.dir.site, "hello/SKILL.md").write_bytes(b"x")
    assert built(hub).written == ["hello/SKILL.md"]
    assert json.loads(record.read_bytes()) == now


def test_file_can_become_a_folder_and_a_file_again(hub):
    hub.publish("hello")
    for paths in (["a"], ["a/b", "a/c"], ["a"], ["a/b/c"], []):
        part = Part(
            name="shape", version=str(paths), of_skill=lambda *_, paths=paths: [(each, b"x") for each in paths]
        )
        built(hub, part)
        found = [
            each.relative_to(hub.dir.site).as_posix() for each in Path(hub.dir.site, "a").rglob("*") if each.is_file()
        ]
        assert sorted(found) == [each for each in paths if "/" in each]
        assert Path(hub.dir.site, "a").is_file() == (paths == ["a"])


@pytest.mark.parametrize("name", ["metadata", "targets", "archives", "tile"])
def test_attack_a_skill_named_like_a_signed_folder_is_left_out(hub, name):
    hub.publish(name, **{"1.root.json": "{}", "timestamp.json": "{}"})
    before = Path(hub.dir.site, "metadata", "1.root.json").read_bytes()
    done = built(hub)
    assert f"{name}/timestamp.json" in done.left_out
    assert not any(path.startswith(f"{name}/") for path in done.written)
    assert Path(hub.dir.site, "metadata", "1.root.json").read_bytes() == before
    assert check(hub.dir.path, hub.when).problems == ()


@pytest.mark.parametrize(
    "path",
    [
        "metadata/timestamp.json",
        ".well-known/agent-skills/index.json",
        "hello/.well-known/agent-skills/index.json",
        "../registry.json",
        "a/../../keys/x",
        "/etc/x",
        "a//b",
        "",
        "a" * 256,
    ],
)
def test_attack_a_path_of_a_signed_file_or_outside_of_the_site_is_left_out(hub, path):
    hub.publish()
    done = built(hub, Part(name="bad", of_all=lambda _: [(path, b"x")]))
    assert (done.written, done.left_out) == ([], [path])
    assert check(hub.dir.path, hub.when).problems == ()


@pytest.mark.parametrize(
    "record",
    [
        b"not json",
        b"[]",
        b'{"hello": 3}',
        b'{"hello": ["", ["metadata/timestamp.json", "../registry.json", "gone.txt"]]}',
    ],
)
def test_attack_a_damaged_record_removes_no_signed_file(hub, record):
    hub.publish()
    built(hub)
    whole = Path(record_path(hub.dir.path, "shape"))
    before = json.loads(whole.read_bytes())
    whole.write_bytes(record)
    assert {*built(hub).removed} <= {"gone.txt"}
    assert json.loads(whole.read_bytes()) == before
    assert check(hub.dir.path, hub.when).problems == ()


@pytest.mark.parametrize("linked", ["hello", "archives", "metadata"])
def test_attack_a_link_in_the_site_leads_no_write_and_no_removal_out_of_it(hub, tmp_path, linked):
    hub.publish()
    built(hub)
    place, outside = Path(hub.dir.site, linked), tmp_path / "outside"
    place.rename(outside)
    place.symlink_to(outside)
    before = tree_of(outside)
    with pytest.raises(LinkLeavesProject):
        hub.publish("hello", "2.0.0")  # signed files
        built(hub)
    with suppress(LinkLeavesProject):
        withdraw(hub.dir.path, "hello@1.0.0", "bad", Signing(now=hub.when))
        built(hub)  # removes the files of the release
    assert tree_of(outside) == before


# A release builds only changed files and reads no others.


@pytest.mark.parametrize("damage", [None, b"{}", b"", b"cut"])
def test_build_of_a_large_registry_reads_only_changed_lists(tmp_path, damage):
    hub = Simulator(tmp_path)
    hub.dir.create(hub.dir.settings().model_copy(update={"listed_whole": 0}))
    names = [f"skill-{number:03}" for number in range(24)]
    add(hub.dir.path, [write_skill(tmp_path, name) for name in names], Signing(now=hub.when))
    built(hub, *EVERY)
    before = tree_of(hub.dir.site)
    hub.publish("skill-007", "1.1.0")
    if damage is not None:
        hub.dir.publish({shard_path("skill-009"): damage})
    done = []
    read = files_read(lambda: done.append(built(hub, *EVERY, quick=True)), hub.dir.path)
    documents = {path.rpartition("/")[2].split(".", 1)[1] for path in read if path.startswith("site/targets/skills/")}
    lists = {shard_path("skill-007"), shard_path("skill-007" if damage is None else "skill-009")}
    assert documents - {"_all.json"} == {f"{name}.json" for name in names if shard_path(name) in lists}
    assert {path for path in done[0].written if "skill-009" in path} == set()
    assert before["-/skill/skill-009.html"] == tree_of(hub.dir.site)["-/skill/skill-009.html"]


@pytest.mark.parametrize("is_released", [False, True])
@pytest.mark.parametrize("record", ["whole", "damaged", "gone"])
def test_attack_a_changed_public_list_is_not_used_by_a_build(tmp_path, is_released, record):
    """No build uses the changed row, even after a release writes another row of that list."""
    hub = Simulator(tmp_path)
    hub.dir.create(hub.dir.settings().model_copy(update={"listed_whole": 0}))
    beside = next(name for name in map("n{}".format, range(9_999)) if shard_path(name) == shard_path("two"))
    add(hub.dir.path, [write_skill(tmp_path, name) for name in ("one", "two", beside)], Signing(now=hub.when))
    built(hub, *EVERY)
    before = tree_of(hub.dir.site)
    hub.dir.publish({shard_path("two"): before[shard_path("two")].replace(b"Says hello.", b"Runs curl.")})
    recorded = Path(record_path(hub.dir.path, "lists"))
    if record == "damaged":
        recorded.write_text(recorded.read_text().replace('{"', '{"x'))
    elif record == "gone":
        recorded.unlink()
    if is_released:
        hub.publish(beside, "1.1.0")
    for _ in range(2):
        built(hub, *EVERY, quick=True)
        changed = [path for path, data in tree_of(hub.dir.site).items() if b"Runs curl." in data]
        assert changed == [shard_path("two")]
    api = RegistryApi(hub.dir.path, ScanCache(Home.of({"SKILLHUB_HOME": str(tmp_path)}), remember=False))
    assert {each.description for skill in api.state().skills.values() for each in skill.releases} == {"Says hello."}


EVERY = (SHAPES, PAGES)


def sized(folder, count):
    """Return a built registry of ``count`` skills, and the files that a build after one release writes and reads."""
    hub = Simulator(folder)
    names = [f"skill-{number:03}" for number in range(count)]
    skills = [write_skill(folder, name, **{"data.txt": name * 4_000}) for name in names]
    add(hub.dir.path, skills, Signing(now=hub.when))
    built(hub, *EVERY)
    hub.publish("skill-007", "1.1.0")
    done = []
    read = files_read(lambda: done.append(built(hub, *EVERY, quick=True)), hub.dir.path)
    return hub, done[0].written, read


def test_release_reads_and_writes_equally_many_files_of_any_registry(tmp_path):
    (_, few, small), (hub, many, large) = (sized(tmp_path / str(count), count) for count in (20, 60))
    assert len(few) <= len(many) <= len(few) + 3
    # Signed lists, and those of skillhub in 256 parts, are read completely; of skills only those of the new release.
    of_skills = [{path for path in read if "/lists/" not in path} for read in (small, large)]
    assert abs(len(of_skills[0]) - len(of_skills[1])) <= 2
    assert sum(path.startswith("site/-/lists/") for path in large) <= 256
    assert sum(large.values()) - sum(small.values()) < 40 * 6_000  # of 36 kB that each skill has
    assert not any("data.txt" in path and "skill-007" not in path for path in large)
    # The result equals that of a full build.
    before = tree_of(hub.dir.site)
    assert built(hub, *EVERY).written == []
    for record in Path(hub.dir.path, "outputs").glob("[!h]*"):  # of all but the history
        record.unlink()
    built(hub, *EVERY)
    assert tree_of(hub.dir.site) == before
    assert check(hub.dir.path, hub.when).problems == ()


def quickly(hub, change):
    """Build, apply ``change``, publish another skill, and build quickly."""
    hub.publish("hello")
    hub.publish("other")
    built(hub, SHAPES)
    change(hub)
    hub.publish("third")
    built(hub, SHAPES, quick=True)


def listed(hub):
    rows = [json.loads(file.read_bytes())["skills"] for file in sorted(Path(hub.dir.site, "-", "lists").iterdir())]
    return {each["name"]: each["plugin"] for row in rows for each in row}


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace('"plugin":"', '"plugin":"0'),
        lambda text: text.replace("hello", "jello"),
        lambda text: text[:-9],
        lambda _: "{}",
        lambda _: '{"skills": [{}]}',
        lambda _: "",
        None,
    ],
)
def test_attack_a_changed_part_of_a_list_is_found_and_built_again(hub, change):
    path = Path(hub.dir.site, "-", "lists", f"{bucket_of('hello')}.json")

    def spoil(_):
        if change is None:
            path.unlink()
        else:
            path.write_text(change(path.read_text()))

    quickly(hub, spoil)
    offered = {each["name"] for each in json.loads(Path(hub.dir.site, "index.json").read_bytes())["skills"]}
    assert offered == {"hello", "other", "third"}
    # No list uses its content; check finds the part, and a build replaces it.
    assert [each.where for each in check(hub.dir.path, hub.when).problems] == [str(path)]
    built(hub, SHAPES)
    assert {*listed(hub)} == offered
    assert check(hub.dir.path, hub.when).problems == ()


@pytest.mark.parametrize("damage", ["the record", "a bucket's", "both", "begun", "of an older version"])
def test_attack_a_damaged_record_of_a_quick_build_is_repaired(hub, damage):
    record = Path(record_path(hub.dir.path, "shapes"))

    def spoil(_):
        if damage in ("the record", "both"):
            record.write_text("[")
        if damage in ("a bucket's", "both"):
            Path(record_path(hub.dir.path, f"shapes-{bucket_of('hello')}")).write_text("{}")
        if damage == "begun":
            record.with_suffix(".begun").write_text("hello/extra.txt\nhello/SKILL.md\n")
            Path(hub.dir.site, "hello", "extra.txt").write_text("x")
        if damage == "of an older version":
            rows = json.loads(record.read_bytes())
            rows[""][0] = "another"
            record.write_text(json.dumps(rows))

    quickly(hub, spoil)
    assert {*listed(hub)} == {"hello", "other", "third"}
    assert not Path(hub.dir.site, "hello", "extra.txt").exists()
    built(hub, SHAPES)
    assert check(hub.dir.path, hub.when).problems == ()


def test_attack_two_parallel_builds_give_a_valid_site(hub):
    hub.publish("hello")
    with ThreadPoolExecutor(2) as pool:
        done = [*pool.map(lambda quick: built(hub, SHAPES, quick=quick), (True, False))]
    assert min(len(each.written) for each in done) == 0
    assert check(hub.dir.path, hub.when).problems == ()


def test_killed_quick_build_is_completed_by_the_next(hub, tmp_path):
    hub.publish("hello")
    built(hub, SHAPES)
    hub.publish("hello", "1.1.0", **{"extra.txt": "more"})
    hub.publish("other")
    healed = []

    def look(_, done):
        if done:
            files = tree_of(hub.dir.site).items()
            healed.append({path: data for path, data in files if "skills.git" not in path and path[-4:] != ".tmp"})
            assert check(hub.dir.path, hub.when).problems == ()

    assert kill_everywhere(hub.dir.path, lambda: built(hub, SHAPES, quick=True), look) > 10
    assert all(each == healed[0] for each in healed)

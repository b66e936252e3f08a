"""What is made of a registry's signed files: only what changed is written, and no signed file is ever replaced."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from skillhub.audit.scan_cache import ScanCache
from skillhub.disk.home import Home
from skillhub.model.advisory import AdvisoriesDocument
from skillhub.registry.check import check
from skillhub.registry.operator import Signing, opened
from skillhub.registry.outputs import Part, build, record_path
from skillhub.registry.upkeep import advise, withdraw, yank
from tests.support.registry import Simulator


@pytest.fixture
def hub(tmp_path):
    return Simulator(tmp_path)


def unpacked(skill):
    tree = skill.tree(skill.best)
    for path, file in tree.items() if tree else ():
        yield f"{skill.name}/{path}", file.data


def named(offer):
    yield "names.txt", "\n".join(offer.index.names).encode()


SHAPE = Part(name="shape", of_skill=unpacked, of_all=named)


def built(hub, *parts, dry_run=False):
    home = Home.of({"SKILLHUB_HOME": str(Path(hub.dir.path).parent / "home")})
    with opened(hub.dir.path, Signing(now=hub.when, dry_run=dry_run)) as found:
        return build(found, parts or (SHAPE,), ScanCache(home))


def test_only_what_changed_is_made_and_written(hub):
    hub.publish("hello")
    hub.publish("other")
    assert {"hello/SKILL.md", "other/SKILL.md", "names.txt"} <= {*built(hub).written}
    assert built(hub).written == []
    asked = []
    counting = Part(name="shape", of_skill=lambda skill: asked.append(skill.name) or unpacked(skill), of_all=named)
    hub.publish("hello", "1.1.0")
    assert set(built(hub, counting).written) == {"hello/SKILL.md", "hello/skill.oms.sig"}
    assert asked == ["hello"]
    yank(hub.dir.path, "other@1.0.0", "broken", Signing(now=hub.when))
    built(hub, counting)
    assert asked == ["hello", "other"]
    newer = Part(name="shape", version="2", of_skill=counting.of_skill, of_all=named)
    assert (built(hub, newer).written, asked[2:]) == ([], ["hello", "other"])


def test_an_advisory_makes_the_files_of_the_skill_it_names_anew(hub):
    hub.publish("hello")
    hub.publish("other")
    built(hub)
    asked = []
    part = Part(name="shape", of_skill=lambda skill: asked.append(skill.name) or unpacked(skill), of_all=named)
    with opened(hub.dir.path, Signing(now=hub.when)) as found:
        digest = found.index().skills["other"][0].tree
    advise(hub.dir.path, [AdvisoriesDocument(digests={digest: "steals"})], Signing(now=hub.when))
    built(hub, part)
    assert asked == ["other"]


def test_what_is_withdrawn_is_removed(hub):
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


def test_attack_a_build_is_killed_and_leaves_what_is_withdrawn_then(hub):
    hub.publish("hello")
    built(hub)
    hub.publish("hello", "1.1.0", **{"extra.txt": "secret"})
    site = Path(hub.dir.site)

    def killed(skill):
        yield from unpacked(skill)
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
def test_attack_a_file_that_was_built_is_changed_and_found_and_made_again(hub, data):
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


def test_attack_a_file_that_nobody_built_lies_among_those_of_a_skill(hub):
    hub.publish("hello")
    built(hub)
    added = Path(hub.dir.site, "hello", "scripts", "extra.sh")
    added.parent.mkdir()
    Path(added.parent, ".skillhub-0123456789abcdef.tmp").write_text("")  # of a build that was killed
    assert check(hub.dir.path, hub.when).problems == ()
    added.write_text("#!/bin/sh\n")
    Path(hub.dir.site, "robots.txt").write_text("")  # the operator's own
    assert [each.where for each in check(hub.dir.path, hub.when).problems] == [str(added)]
    added.unlink()
    os.symlink("/etc", added)
    assert [each.where for each in check(hub.dir.path, hub.when).problems] == [str(added)]


def test_a_record_without_digests_accuses_nobody_and_is_replaced(hub):
    hub.publish("hello")
    built(hub)
    record = Path(record_path(hub.dir.path, "shape"))
    now = json.loads(record.read_bytes())
    record.write_text(json.dumps({name: [key, [*made]] for name, (key, made) in now.items()}))
    Path(hub.dir.site, "hello/SKILL.md").write_bytes(b"x")
    assert check(hub.dir.path, hub.when).problems == ()
    assert built(hub).written == ["hello/SKILL.md"]
    assert json.loads(record.read_bytes()) == now


def test_a_file_becomes_a_folder_and_a_file_again(hub):
    hub.publish("hello")
    for paths in (["a"], ["a/b", "a/c"], ["a"], ["a/b/c"], []):
        part = Part(
            name="shape", version=str(paths), of_skill=lambda _, paths=paths: [(each, b"x") for each in paths]
        )
        built(hub, part)
        found = [
            each.relative_to(hub.dir.site).as_posix() for each in Path(hub.dir.site, "a").rglob("*") if each.is_file()
        ]
        assert sorted(found) == [each for each in paths if "/" in each]
        assert Path(hub.dir.site, "a").is_file() == (paths == ["a"])


@pytest.mark.parametrize("name", ["metadata", "targets", "archives", "tile"])
def test_attack_a_skill_is_named_as_a_folder_of_signed_files(hub, name):
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
def test_attack_a_path_is_that_of_a_signed_file_or_leads_out_of_the_site(hub, path):
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
def test_attack_a_damaged_record_removes_signed_files(hub, record):
    hub.publish()
    built(hub)
    whole = Path(record_path(hub.dir.path, "shape"))
    before = json.loads(whole.read_bytes())
    whole.write_bytes(record)
    assert {*built(hub).removed} <= {"gone.txt"}
    assert json.loads(whole.read_bytes()) == before
    assert check(hub.dir.path, hub.when).problems == ()

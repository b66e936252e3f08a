"""A cache is used only while the files on the disk are unchanged."""

from __future__ import annotations

import json
import os
import shutil
import time

import pytest

from skillhub.model.hosts import Rules, profile, profiles
from skillhub.runtime.agent import catalog_of
from skillhub.runtime.discover import Root, Search, Surroundings, discover
from skillhub.runtime.walk import Cache
from tests.runtime.test_discover import write
from tests.support.effort import files_read


@pytest.fixture
def skills(tmp_path):
    for name in ("one", "two", "group/three"):
        write(tmp_path / "skills" / name)
    settle()
    return tmp_path / "skills"


def settle():
    time.sleep(0.07)  # the cache does not trust younger files


class Agent:
    """An agent that searches twice: in a running process and in a new one."""

    def __init__(self, folder, root, **search):
        self.folder, self.root, self.search = str(folder), Root(str(root), "project"), search
        self.cache = Cache(self.folder)

    def names(self, **more):
        old, new = (
            [s.name for s in discover([self.root], Search(cache=cache, **self.search, **more)).skills]
            for cache in (self.cache, Cache(self.folder))
        )
        assert old == new
        return old


@pytest.fixture
def agent(tmp_path, skills):
    agent = Agent(tmp_path / "cache", skills)
    assert agent.names() == ["one", "two", "three"]
    return agent


def test_unchanged_skill_is_not_read_again(agent, skills):
    assert set(files_read(lambda: agent.names(reload=True), str(skills))) == {
        f"{name}/SKILL.md" for name in ("one", "two", "group/three")
    }
    assert files_read(agent.names, str(skills)) == {}


def test_added_removed_and_renamed_skills_are_seen(agent, skills):
    write(skills / "four")
    write(skills / "group/five")
    assert agent.names() == ["four", "one", "two", "five", "three"]
    shutil.rmtree(skills / "one")
    assert agent.names() == ["four", "two", "five", "three"]
    os.rename(skills / "four", skills / "zero")
    (skills / "zero/SKILL.md").write_text("---\nname: zero\ndescription: Now.\n---\n")
    assert agent.names() == ["two", "zero", "five", "three"]


def test_edit_that_keeps_size_and_time_is_seen(agent, skills):
    place = skills / "one/SKILL.md"
    old = place.stat()
    place.write_text(place.read_text().replace("name: one", "name: eno"))
    os.utime(place, ns=(old.st_atime_ns, old.st_mtime_ns))
    assert place.stat().st_size == old.st_size
    assert agent.names() == ["eno", "two", "three"]


def test_edit_within_a_tick_of_the_clock_is_seen(tmp_path, skills):
    agent = Agent(tmp_path / "cache", skills)
    for number in range(20):
        (skills / "one/SKILL.md").write_text(f"---\nname: n{number:02}\ndescription: Yes.\n---\n")
        assert agent.names()[0] == f"n{number:02}"


def test_added_declaration_is_seen(agent, skills):
    (skills / "one/agents").mkdir()
    (skills / "one/agents/openai.yaml").write_text("policy: {allow_implicit_invocation: false}\n")
    (skill, *_) = discover([agent.root], Search(cache=agent.cache)).skills
    assert skill.reach == "enabled"
    settle()
    agent.names()
    (skills / "one/agents/skillhub.yaml").write_text("policy: {allow_implicit_invocation: true}\n")
    (skill, *_) = discover([agent.root], Search(cache=agent.cache)).skills
    assert skill.reach == "active"


def test_changed_link_is_seen(tmp_path, skills):
    write(tmp_path / "a/x")
    write(tmp_path / "b/y")
    (skills / "link").symlink_to(tmp_path / "a")
    agent = Agent(tmp_path / "cache", skills)
    assert "x" in agent.names()
    (skills / "link").unlink()
    (skills / "link").symlink_to(tmp_path / "b")
    assert "y" in agent.names()
    assert "x" not in agent.names()


def test_reload_reads_the_disk(agent, skills):
    for name in os.listdir(agent.folder):
        path = os.path.join(agent.folder, name)
        with open(path, "r+", encoding="ascii") as file:
            text = file.read().replace('"one"', '"lie"')
            file.seek(0)
            file.write(text)
    assert next(s.name for s in discover([agent.root], Search(cache=Cache(agent.folder))).skills) == "lie"
    assert agent.names(reload=True) == ["one", "two", "three"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        "[]",
        '{"version":2}',
        '{"version":2,"folders":3,"finds":[],"problems":[]}',
        '{"version":2,"folders":{},"problems":[],"finds":[["","",{},3,[],6,7]]}',
    ],
)
def test_damaged_cache_is_ignored(agent, text):
    for name in os.listdir(agent.folder):
        with open(os.path.join(agent.folder, name), "w", encoding="ascii") as file:
            file.write(text)
    assert agent.names() == ["one", "two", "three"]


@pytest.mark.parametrize("value", [None, 0, "x", [], ["x"], [[]], [[None, 1, 2, 3, 4]]])
def test_attack_a_cache_with_a_value_of_another_type_is_ignored(tmp_path, skills, value):
    write(skills / "broken", text="no frontmatter")
    settle()
    around = Surroundings(cwd=str(tmp_path), home=str(tmp_path), extra=(str(skills),))
    (folder := tmp_path / "cache").mkdir()
    expected = [each.full_name for each in catalog_of("agents", around, cache=Cache(str(folder))).skills]
    whole = {path: json.loads(path.read_text()) for path in folder.iterdir()}
    for index in (2, 4):  # the stamps and the problems of a folder
        for path, block in whole.items():
            finds = [[*find[:index], value, *find[index + 1 :]] for find in block["finds"]]
            path.write_text(json.dumps({**block, "finds": finds}))
        catalog = catalog_of("agents", around, cache=Cache(str(folder)))
        assert [each.full_name for each in catalog.skills] == expected


def test_strict_and_lenient_readers_do_not_share_a_cache(tmp_path, skills):
    write(skills / "four", "other")
    settle()
    assert len(Agent(tmp_path / "cache", skills).names()) == 4
    assert len(Agent(tmp_path / "cache", skills, rules=Rules(strict=True)).names()) == 3


def test_unwritable_cache_is_no_error(tmp_path, skills):
    (tmp_path / "file").write_text("")
    assert Agent(tmp_path / "file/cache", skills).names() == ["one", "two", "three"]


@pytest.mark.parametrize("host", sorted(profiles()))
def test_every_host_finds_the_same_with_a_cache(tmp_path, host):
    """Includes hosts with a ``*`` in their folders, with a machine-wide folder, and with missing folders."""
    (tmp_path / "repo/.git").mkdir(parents=True)
    around = Surroundings(
        cwd=str(tmp_path / "repo"), home=str(tmp_path / "home"), environ={"SKILLHUB_HOME": str(tmp_path / "hub")}
    )
    for number, place in enumerate(profile(host).places):
        if place.path and not place.path.startswith(("/", "C:")):
            base = tmp_path / ("home" if place.path.startswith("~/") else "repo")
            write(base / place.path.removeprefix("~/").replace("*", "tools") / f"demo-{number}")
    plain = catalog_of(profile(host), around)
    assert plain.skills
    for _ in range(2):
        found = catalog_of(profile(host), around, cache=Cache(str(tmp_path / "cache")))
        assert (found.skills, found.problems, found.shadowed) == (plain.skills, plain.problems, plain.shadowed)
    in_memory = Cache()
    assert [catalog_of(profile(host), around, cache=in_memory) for _ in range(2)] == [plain, plain]

"""Several commands at once in one project: each takes effect, and none damages another's work."""

from __future__ import annotations

import os
import warnings

import pytest

from skillhub.command.ports import Options
from skillhub.disk import files
from skillhub.errors import Refused, StateError
from skillhub.install.apply import disable, enable, remove
from tests.install.test_open_needs import needy, servers
from tests.support.registry import URL
from tests.support.world import AGENT_FOLDERS, STDIO, Answers, World, skill

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="each command runs in a forked child")


def at_once(*acts):
    """Start a process for each act, release them together, and return their exit statuses."""
    gate, opened = os.pipe()
    children = []
    for act in acts:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            child = os.fork()
        if not child:
            status = 70
            try:
                os.close(opened)
                os.read(gate, 1)  # all processes wake when the last writer closes the pipe
                act()
                status = 0
            except StateError:
                status = 7
            except BaseException as error:
                os.write(2, f"\n{error!r}\n".encode())
            finally:
                os._exit(status)
        children.append(child)
    os.close(opened)
    os.close(gate)
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


def test_eight_installs_of_different_skills_are_all_in_the_lock(world):
    names = [f"skill-{number}" for number in range(8)]
    paths = [str(skill(world.base / "src", name)) for name in names]
    acts = [lambda path=path: world.install(path, agents=("claude-code",)) for path in paths]
    assert at_once(*acts) == [0] * 8
    assert sorted(world.lock().skills) == names
    assert sorted(world.project.intent().skills) == names
    assert sorted(world.project.records().skills) == names
    assert world.problems() == []
    for folder in AGENT_FOLDERS:
        assert sorted(os.listdir(world.base / folder)) == names
    assert not list(world.base.rglob(".skillhub-*"))


def test_simultaneous_installs_of_one_skill_succeed(world):
    path = str(skill(world.base / "src"))
    assert at_once(*[lambda: world.install(path)] * 4) == [0] * 4
    assert world.problems() == []
    assert world.install(answers=Answers()).changed is False


def test_simultaneous_installs_of_two_versions_leave_one_intact(world):
    one, two = str(skill(world.base / "one")), str(skill(world.base / "one", body="Two.\n"))
    ended = at_once(lambda: world.install(one), lambda: world.install(two))
    assert set(ended) <= {0, 7}
    assert 0 in ended
    world.sync()
    assert world.problems() == []


@pytest.mark.parametrize(("before", "verb"), [("enabled", "disable"), ("disabled", "enable")])
def test_an_update_keeps_the_switch_of_another_process_during_its_question(world, before, verb):
    path = skill(world.base / "src")
    world.install(str(path), enable=before == "enabled")
    (path / "notes.md").write_text("A newer version.\n")
    answers = Answers("yes")
    answers.meanwhile = lambda: getattr(World(world.folder), verb)("plain")
    with pytest.raises(StateError, match="changed plain meanwhile"):
        world.update(answers=answers, enable=before == "enabled")
    assert world.copy("plain").exists() is (verb == "enable")
    assert world.record("plain").disabled_by == {"disable": "user", "enable": ""}[verb]


@pytest.mark.parametrize(
    "act",
    [
        lambda ports: remove(["plain"], ports),
        lambda ports: disable(["plain"], ports),
        lambda ports: enable(["other"], Options(), ports, disabling=["plain"]),
    ],
    ids=["remove", "disable", "another profile"],
)
def test_a_copy_that_another_process_adds_during_the_question_is_not_forgotten(world, act):
    world.install(str(skill(world.base / "src")))
    world.install(str(skill(world.base / "src", "other")), enable=False)
    (world.copy("plain") / "SKILL.md").write_text("Written by hand.\n")
    answers = Answers("yes")
    answers.meanwhile = lambda: World(world.folder).install(agents=("claude-code",))
    with pytest.raises(StateError, match="another process changed plain meanwhile"):
        act(world.ports(answers))
    assert world.record("plain").links == tuple(f"{folder}/plain" for folder in AGENT_FOLDERS)
    assert world.problems() == []


def test_an_mcp_entry_that_another_process_writes_during_the_question_keeps_its_owner(world):
    folder = needy(world, STDIO)
    answers = Answers("yes")
    answers.meanwhile = lambda: World(world.folder).install(folder, agents=("codex",), mcp="configure")
    with pytest.raises(StateError, match="another process changed plain meanwhile"):
        world.install(folder, agents=("claude-code",), mcp="configure", answers=answers)
    assert servers(world) == {}
    world.remove("plain")
    assert not (world.base / ".codex").exists()


def test_a_skill_that_another_process_needs_since_the_question_stays(world):
    world.install(str(skill(world.base / "src")))
    (world.copy("plain") / "SKILL.md").write_text("Written by hand.\n")
    answers = Answers("yes")
    needing = needy(world, "type: skill, value: plain", name="needing")
    answers.meanwhile = lambda: World(world.folder).install(needing)
    with pytest.raises(Refused, match="needing needs plain"):
        world.remove("plain", answers=answers)
    assert sorted(world.lock().skills) == ["needing", "plain"]


@pytest.mark.parametrize("is_added_again", [False, True])
def test_a_source_changed_during_its_question_is_not_written_to_the_lock(world, hub, is_added_again):
    def change():
        world.sources.remove("github")
        if is_added_again:
            world.sources.add("github", URL, hub.root)

    answers = Answers("yes")
    answers.meanwhile = change
    with pytest.raises(StateError, match="the source github changed meanwhile"):
        world.install("github:release-notes", answers=answers)
    assert not (world.base / "skillhub.lock").exists()
    assert not world.copy("release-notes").exists()


def test_projects_with_a_shared_store_do_not_disturb_each_other(world, tmp_path):
    path = str(skill(tmp_path / "src"))
    worlds = []
    for number in range(6):
        each = World(tmp_path)
        each.base = tmp_path / f"project-{number}"
        each.base.mkdir()
        worlds.append(each)
    assert at_once(*[lambda each=each: each.install(path) for each in worlds]) == [0] * 6
    assert all(each.problems() == [] for each in worlds)


def test_install_remove_sync_and_verify_at_once_leave_the_project_sound(world):
    first, second = (str(skill(world.base / "src", name)) for name in ("first", "second"))
    world.install(first)
    ended = at_once(
        lambda: world.install(second),
        lambda: world.remove("first"),
        world.sync,
        lambda: world.problems() and None,
        world.sync,
    )
    assert set(ended) <= {0, 7}
    world.sync()
    assert sorted(world.lock().skills) == ["second"]
    assert world.problems() == []
    assert os.listdir(world.base / ".agents/skills") == ["second"]


def test_a_lock_held_beyond_the_patience_is_an_error(world):
    path = str(skill(world.base / "src"))
    world.install(path)
    held = f"{world.project._state}.lock"
    before = (world.base / "skillhub.lock").read_bytes()
    world.patience = 0.1
    with files.lock(held):
        for act in (lambda: world.install(path, link="symlink"), world.sync, lambda: world.remove("plain")):
            with pytest.raises(StateError, match=r"another skillhub .* more than 0\.1 s"):
                act()
    assert (world.base / "skillhub.lock").read_bytes() == before
    assert world.remove("plain").changed

"""Notices to a host about changes of its catalogue, and about nothing else."""

from __future__ import annotations

import shutil
import sys
import threading
from itertools import islice
from types import SimpleNamespace

import pytest

from skillhub.runtime import Cache, Surroundings, catalog_of, changes, profile, set_reach
from tests.runtime.test_discover import write
from tests.runtime.test_locks import Machine

HOST = profile("opencode")


@pytest.fixture(params=["polled", "watched"])
def around(request, tmp_path, monkeypatch):
    if request.param == "watched":
        pytest.importorskip("watchfiles", reason="the extra `watch`")
    else:
        monkeypatch.setitem(sys.modules, "watchfiles", None)
    (tmp_path / "repo/.git").mkdir(parents=True)
    (tmp_path / "home").mkdir()
    write(tmp_path / "repo/.opencode/skills/demo")
    environ = {"SKILLHUB_HOME": str(tmp_path / "hub")}
    return Surroundings(cwd=str(tmp_path / "repo"), home=str(tmp_path / "home"), environ=environ)


def catalogue_after(around, change, host=HOST):
    """Return the catalogue that a host gets after a change."""
    since = catalog_of(host, around)
    change()
    return next(changes(host, around, since, interval=0.05))


def state(catalog):
    return {skill.name: skill.state for skill in catalog.skills}


CHANGES = {
    "a skill comes": (lambda repo: write(repo / ".opencode/skills/new"), {"demo": "enabled", "new": "enabled"}),
    "a skill goes": (lambda repo: shutil.rmtree(repo / ".opencode/skills/demo"), {}),
    "a folder comes": (lambda repo: write(repo / ".claude/skills/new"), {"demo": "enabled", "new": "enabled"}),
    "a folder goes": (lambda repo: shutil.rmtree(repo / ".opencode"), {}),
    "settings come": (
        lambda repo: (repo / "opencode.json").write_text('{"permission": {"skill": {"demo": "deny"}}}'),
        {"demo": "disabled"},
    ),
    "settings break": (lambda repo: (repo / "opencode.json").write_text("{"), {"demo": "disabled"}),
    "a lock breaks": (lambda repo: (repo / "skillhub.lock").write_text("<<<<<<<"), {"demo": "disabled"}),
    "a description changes": (
        lambda repo: write(repo / ".opencode/skills/demo", description="Now another one."),
        {"demo": "enabled"},
    ),
}


@pytest.mark.parametrize("what", CHANGES)
def test_change_gives_a_new_catalogue(tmp_path, around, what):
    change, expected = CHANGES[what]
    assert state(catalogue_after(around, lambda: change(tmp_path / "repo"))) == expected


@pytest.mark.parametrize("error", [RuntimeError("Too many open files (os error 24)"), FileNotFoundError("gone")])
def test_changes_are_polled_where_the_system_watches_no_more_folders(tmp_path, around, monkeypatch, error):
    def watch(*_, **__):
        raise error
        yield

    monkeypatch.setitem(sys.modules, "watchfiles", SimpleNamespace(watch=watch))
    since, found = catalog_of(HOST, around), []
    waiting = changes(HOST, around, since, interval=0.05)
    host = threading.Thread(target=lambda: found.append(next(waiting)))
    host.start()
    host.join(0.2)
    write(tmp_path / "repo/.opencode/skills/new")
    host.join(300)
    assert [state(each) for each in found] == [{"demo": "enabled", "new": "enabled"}]


def test_edited_instructions_and_a_new_file_give_a_new_catalogue(tmp_path, around):
    demo, text = tmp_path / "repo/.opencode/skills/demo", "---\nname: demo\ndescription: Does demo.\n---\n{}\n"
    (demo / "SKILL.md").write_text(text.format("A zebra."))
    before = catalog_of(HOST, around)
    assert catalog_of(HOST, around) == before
    edited = catalogue_after(around, lambda: (demo / "SKILL.md").write_text(text.format("A giraffe.")))
    first = catalogue_after(around, lambda: (demo / "more.md").write_text("x"))
    assert len({before.stamp, edited.stamp, first.stamp}) == 3
    below = catalogue_after(around, lambda: (demo / "scripts/deep").mkdir(parents=True))
    more = catalogue_after(around, lambda: (demo / "scripts/deep/run.py").write_text("x"))
    gone = catalogue_after(around, lambda: (demo / "scripts/deep/run.py").unlink())
    assert len({first.stamp, below.stamp, more.stamp, gone.stamp}) == 4
    more = gone
    assert catalog_of(HOST, around, cache=Cache(str(tmp_path / "cache"))) == more
    assert catalog_of(HOST, around, cache=Cache(str(tmp_path / "cache"))).stamp == more.stamp


def test_attack_a_skill_of_many_folders_is_asked_for_few_of_them(tmp_path, around):
    demo = tmp_path / "repo/.opencode/skills/demo"
    for number in range(500):
        (demo / f"scripts/{number:03}").mkdir(parents=True)
    (skill,) = catalog_of(HOST, around).skills
    assert len(skill.stamp.split()) == 6 * 40  # each stamp has six words


def test_a_watching_host_sees_a_skill_disabled_before_the_next_read(around, monkeypatch):
    pytest.importorskip("watchfiles", reason="the extra `watch`")
    monkeypatch.setattr("skillhub.runtime.agent._QUIET", 10**6)
    (skill,) = catalog_of(HOST, around).skills
    stop, found = threading.Event(), []
    waiting = changes(HOST, around, catalog_of(HOST, around), stop, interval=0.05)
    host = threading.Thread(target=lambda: found.extend(islice(waiting, 1)))
    host.start()
    threading.Timer(0.5, lambda: set_reach(skill, "disabled", "user", HOST, around)).start()
    host.join(60)
    stop.set()
    host.join()
    assert [state(catalog) for catalog in found] == [{"demo": "disabled"}]


def test_waiting_host_gets_a_new_catalogue(tmp_path, around):
    stop, found = threading.Event(), []
    waiting = changes(HOST, around, catalog_of(HOST, around), stop, interval=0.05)
    # A poll can come between the new folder and its file.
    host = threading.Thread(target=lambda: found.append(next(each for each in waiting if "new" in state(each))))
    host.start()
    write(tmp_path / "repo/.opencode/skills/new")
    host.join()
    assert "new" in state(found[0])


def test_no_change_gives_no_catalogue(around):
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    assert list(changes(HOST, around, catalog_of(HOST, around), stop, interval=0.01)) == []


def test_changed_locked_skill_is_blocked_in_the_new_catalogue(tmp_path):
    here = Machine(tmp_path)
    (here.project / ".git").mkdir()
    here.write("project/mine/demo/SKILL.md", "---\nname: demo\ndescription: Good.\n---\nGood.\n")
    assert here.run("install", "./mine/demo", "--yes", "--allow-unsigned").status == 0
    catalog = catalogue_after(here.around(), lambda: here.evil(".agents/skills/demo"), profile("agents"))
    assert {skill.name: skill.held.status for skill in catalog.skills} == {"demo": "drifted"}

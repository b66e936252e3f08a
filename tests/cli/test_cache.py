"""``cache`` for a user at a terminal and for a script."""

from __future__ import annotations

import os

ASK = "[N]o: "


def removed(shell):
    """Leave a stored tree that no project needs; return its folder."""
    shell.skill("project/mine")
    assert shell.run("install", "./mine", "--yes", "--allow-unsigned").status == 0
    path = shell.run("list", "--json").json["skills"][0]["path"]
    assert shell.run("remove", "mine", "--yes").status == 0
    return path


def test_cache_info_and_gc_list_places_and_removals_as_json(shell):
    path = removed(shell)
    found = shell.run("cache", "info", "--json")
    assert (found.status, [each["name"] for each in found.json["places"]]) == (0, ["store", "downloads", "git"])
    assert found.json["size"] == sum(each["size"] for each in found.json["places"]) > 0
    would = shell.run("cache", "gc", "--dry-run", "--json").json
    assert (would["changed"], [each["path"] for each in would["removed"]]) == (False, [path])
    refused = shell.run("cache", "gc", "--json")
    assert (refused.status, refused.error["code"], refused.json["questions"][0]["kind"]) == (6, "refused", "unused")
    assert os.path.isdir(path)
    done = shell.run("cache", "gc", "--yes", "--json")
    assert (done.status, done.json["changed"], done.json["removed"][0]["name"]) == (0, True, "mine")
    assert not os.path.lexists(path)
    assert shell.run("cache", "gc", "--json").json["removed"] == []


def test_gc_at_a_terminal_asks_first(shell):
    path = removed(shell)
    done = shell.at_terminal("cache", "gc", say=[(ASK, "n\n")])
    assert (done.status, os.path.isdir(path)) == (6, True)
    assert "mine: sha256:" in done.out
    done = shell.at_terminal("cache", "gc", say=[(ASK, "y\n")])
    assert (done.status, os.path.isdir(path)) == (0, False)
    assert "in all" in done.out


def test_results_of_the_scan_are_listed_and_collected(shell):
    shell.skill("project/.agents/skills/loose")
    assert shell.run("audit").status == 0
    (place,) = [each for each in shell.run("cache", "info", "--json").json["places"] if each["name"] == "scan"]
    assert place["files"] == 1
    assert shell.run("cache", "gc", "--json").json["removed"] == []
    (entry,) = [path for path in (shell.hub / "cache/scan").rglob("*") if path.is_file()]
    os.utime(entry, (1, 1))
    assert [each["kind"] for each in shell.run("cache", "gc", "--json").json["removed"]] == ["scan"]
    assert not entry.exists()
    assert shell.run("audit").status == 0
    assert entry.exists()


def test_unused_signers_are_removed_after_a_day(shell):
    for name in ("release-notes", "code-review"):
        assert shell.run("install", f"github:{name}", "--yes").status == 0
    folder = shell.hub / "state/signers"
    assert len(os.listdir(folder)) == 2
    assert shell.run("remove", "code-review", "--yes").status == 0
    for name in os.listdir(folder):
        os.utime(folder / name, (1, 1))
    kinds = [each["kind"] for each in shell.run("cache", "gc", "--yes", "--json").json["removed"]]
    assert (kinds, len(os.listdir(folder))) == (["tree", "signer"], 1)
    assert shell.run("verify").status == 0

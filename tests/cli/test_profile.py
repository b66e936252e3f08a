"""``profile``: its output and its exit statuses."""

from __future__ import annotations

A, B = "code-review", "release-notes"


def test_profiles_are_saved_listed_used_and_removed(shell):
    assert "no profiles are saved here" in shell.run("profile", "list").err
    assert shell.run("install", f"github:{A}", f"github:{B}", "--yes").status == 0
    assert shell.run("profile", "save", "both", "--json").json == {
        "schema": 1,
        "name": "both",
        "skills": [A, B],
        "changed": True,
    }
    shell.run("disable", A)
    assert shell.run("profile", "save", "notes").out == "saved notes: 1 skill\n"
    assert shell.run("profile", "list").out == f"both: {A}, {B}\nnotes (in use): {B}\n"
    done = shell.run("profile", "use", "both", "--json")
    assert (done.status, done.json["changed"], done.json["refused"]) == (0, True, [])
    assert [(each["name"], each["state"]) for each in done.json["skills"]] == [(A, "enabled")]
    assert f"would disable {A}" in shell.run("profile", "use", "notes", "--dry-run").out
    assert shell.run("profile", "use", "notes").out == f"disabled {A}\n"
    assert not (shell.project / ".agents/skills" / A).exists()
    assert "already up to date" in shell.run("profile", "use", "notes").err
    shell.run("remove", A)
    done = shell.run("profile", "use", "both")
    assert (done.status, "not installed here [not-installed]" in done.err) == (6, True)
    assert shell.run("profile", "list", "--json").json["profiles"][0]["missing"] == [A]
    assert shell.run("profile", "list", "--global", "--json").json["profiles"] == []
    assert shell.run("profile", "remove", "both", "--dry-run").out == "would remove the profile both\n"
    assert shell.run("profile", "remove", "both").status == 0
    done = shell.run("profile", "use", "both", "--json")
    assert (done.status, done.error["code"]) == (3, "not-found")

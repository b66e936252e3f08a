"""Edits that a team agrees to, from one machine to the other, by the program itself."""

from __future__ import annotations

from skillhub.disk.folders import remove_tree

REF = "github:release-notes"


def test_a_patch_goes_from_one_machine_to_the_other(shell):
    assert shell.run("install", REF, "--yes").status == 0
    copy = shell.project / ".agents/skills/release-notes/SKILL.md"
    copy.write_text(copy.read_text() + "\nAlways thank who helped.\n")
    done = shell.run("verify")
    assert done.status == 1
    assert "skillhub patch release-notes keeps" in done.err
    done = shell.run("patch", "release-notes", "--dry-run")
    assert (done.status, (shell.project / "skillhub-edits").exists()) == (0, False)
    done = shell.run("patch", "release-notes")
    assert (done.status, (shell.project / "skillhub-edits").exists()) == (6, False)  # nobody was there to ask
    done = shell.run("patch", "release-notes", "--yes")
    assert done.status == 0, done.err
    assert "skillhub-edits/release-notes-1.patch belongs to skillhub.lock: commit both" in done.err
    assert shell.run("verify").status == 0
    assert "skillhub-examples, patched" in shell.run("list").out
    assert shell.run("audit").status in (0, 1)

    other = shell.copy(shell.folder.parent / f"{shell.folder.name}-other")
    for folder in (other.hub, other.home, other.project / ".agents"):
        remove_tree(str(folder))
    for folder in (other.hub, other.home):
        folder.mkdir()
    done = other.run("install", "--frozen", "--yes", "--json")
    assert (done.status, done.error["code"]) == (6, "refused")
    assert [each["kind"] for each in done.json["questions"] if each["answer"] == "unanswered"] == ["unsigned"]
    done = other.run("install", "--frozen", "--yes", "--allow-unsigned", "--json")
    assert done.status == 0, done.err
    (skill,) = done.json["skills"]
    assert (skill["trust"], skill["patch"]) == ("unsigned", "skillhub-edits/release-notes-1.patch")
    assert skill["tree"] == shell.lock()["skills"]["release-notes"]["tree"]
    assert "thank" in (other.project / ".agents/skills/release-notes/SKILL.md").read_text()
    assert other.run("verify").status == 0
    done = other.run("patch", "release-notes", "--drop", "--dry-run")
    assert (done.status, done.out.split()[:3]) == (0, ["would", "unpatch", "release-notes"])
    assert other.run("patch", "release-notes", "--drop", "--yes").status == 0
    assert "patch" not in other.lock()["skills"]["release-notes"]
    assert other.run("verify").status == 0

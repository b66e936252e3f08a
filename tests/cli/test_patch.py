"""A patch of a team's edits goes from one machine to another by the program."""

from __future__ import annotations

import shlex
import shutil

import pytest

from skillhub.disk.folders import remove_tree
from tests.support.gitrepos import files

REF = "github:release-notes"


def test_a_patch_is_written_on_one_machine_and_applied_on_another(shell):
    assert shell.run("install", REF, "--yes").status == 0
    copy = shell.project / ".agents/skills/release-notes/SKILL.md"
    copy.write_text(copy.read_text() + "\nAlways thank who helped.\n")
    done = shell.run("verify")
    assert done.status == 1
    assert "skillhub patch release-notes keeps" in done.err
    done = shell.run("patch", "release-notes", "--dry-run")
    assert (done.status, (shell.project / "skillhub-edits").exists()) == (0, False)
    done = shell.run("patch", "release-notes")
    assert (done.status, (shell.project / "skillhub-edits").exists()) == (6, False)  # no user was there to answer
    done = shell.run("patch", "release-notes", "--yes")
    assert done.status == 0, done.err
    assert "skillhub-edits/release-notes-1.patch belongs to skillhub.lock: commit both" in done.err
    assert shell.run("verify").status == 0
    assert "skillhub-examples, patched" in shell.run("list").out
    assert shell.run("audit").status == 0

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


def test_an_update_saves_later_edits_beside_the_patch_of_the_new_version(shell, repo):
    repo.commit(files("One.\n\nTwo.\n\nThree.\n"))
    assert shell.run("install", f"git+{repo.url}", "--yes", "--allow-unsigned").status == 0
    name = next(iter(shell.lock()["skills"]))
    copy = shell.project / f".agents/skills/{name}/SKILL.md"
    copy.write_text(copy.read_text().replace("One.", "One, patched."))
    assert shell.run("patch", name, "--yes", "--allow-unsigned").status == 0
    copy.write_text(copy.read_text().replace("Two.", "Two, edited."))
    repo.commit(files("One.\n\nTwo.\n\nFour.\n"))
    done = shell.run("update", "--yes", "--allow-unsigned", "--json")
    assert done.status == 0, done.err
    patch = shell.lock()["skills"][name]["patch"]["path"]
    [saved] = done.json["saved"][0]["patches"]
    assert saved != patch
    assert "+One, patched." in (shell.project / patch).read_text()
    assert "+Two, edited." in (shell.project / saved).read_text()
    assert "One, patched.\n\nTwo.\n\nFour.\n" in copy.read_text()
    assert shell.run("verify").status == 0


def test_a_copy_without_its_skill_md_is_restored_and_not_patched(shell):
    assert shell.run("install", REF, "--yes").status == 0
    copy = shell.project / ".agents/skills/release-notes/SKILL.md"
    copy.unlink()
    done = shell.run("patch", "release-notes", "--json")
    assert (done.status, done.error["hint"]) == (3, "skillhub sync restores the copy")
    assert shell.run("sync", "--yes").status == 0
    assert copy.exists()


DEPLOYER = "dependencies:\n  tools:\n    - type: env_var\n      value: DEPLOY_TOKEN\n"


@pytest.fixture
def deployer(shell):
    """A machine with an enabled skill that needs a variable, and an edited copy."""
    shell.skill("project/src/deployer")
    shell.write("project/src/deployer/agents/openai.yaml", DEPLOYER)
    words = ("install", "./src/deployer", "--yes", "--allow-unsigned", "--env", "DEPLOY_TOKEN=x")
    assert shell.run(*words).status == 0
    copy = shell.project / ".agents/skills/deployer/SKILL.md"
    copy.write_text(copy.read_text() + "\nAsk first.\n")
    return shell


def test_hints_of_patch_name_only_flags_of_their_command(deployer):
    done = deployer.run("patch", "deployer", columns=400)
    assert done.status == 6
    assert "[afterwards: skillhub enable deployer --env DEPLOY_TOKEN=VALUE]" in done.err
    assert done.err.count("--env") == done.err.count("skillhub enable deployer --env"), done.err
    assert deployer.run("patch", "deployer", "--yes").status == 6
    assert deployer.run("enable", "deployer", "--env", "DEPLOY_TOKEN=x").status == 0
    assert deployer.run("verify").status == 0


def test_the_hint_for_binary_edits_makes_a_skill_of_the_users_own(shell):
    assert shell.run("install", REF, "--yes").status == 0
    shell.write("project/.agents/skills/release-notes/logo.png", b"\x89PNG\0")
    done = shell.run("patch", "release-notes", "--json")
    assert (done.status, done.error["code"]) == (4, "format")
    _, _, own = done.error["hint"].partition("a skill of your own: ")
    copy, unsign, remove, install = own.split("; ")
    assert shlex.split(copy)[:2] == ["cp", "-R"]
    shutil.copytree(shlex.split(copy)[2], shell.project / shlex.split(copy)[3])
    assert shlex.split(unsign)[0] == "rm"
    (shell.project / shlex.split(unsign)[1]).unlink()
    assert shell.run(*shlex.split(remove)[1:], "--yes").status == 0
    done = shell.run(*shlex.split(install)[1:], "--yes", "--allow-unsigned")
    assert done.status == 0, done.err
    assert (shell.project / ".agents/skills/release-notes/logo.png").exists()
    assert shell.run("verify").status == 0


def test_a_patch_that_cannot_remove_a_file_is_refused_though_its_lines_name_the_file(shell):
    folder = shell.skill("project/skills/greet", **{"logo.png": b"\x89PNG\0"})
    (folder / "SKILL.md").write_text((folder / "SKILL.md").read_text() + "\n![A logo](logo.png)\n")
    assert shell.run("install", "./skills/greet", "--yes", "--allow-unsigned").status == 0
    copy = shell.project / ".agents/skills/greet"
    (copy / "logo.png").unlink()
    (copy / "SKILL.md").write_text((copy / "SKILL.md").read_text().replace("![A logo](logo.png)\n", ""))
    error = shell.run("patch", "greet", "--yes", "--allow-unsigned", "--json").error
    assert (error["code"], "logo.png" in error["message"]) == ("format", True)


def test_the_hint_of_patch_restores_missing_copies_first(shell):
    assert shell.run("install", REF, "--yes").status == 0
    remove_tree(str(shell.project / ".agents/skills/release-notes"))
    error = shell.run("patch", "release-notes", "--json").error
    assert error["hint"] == "skillhub sync restores the copies; edit a copy in an agent's folder"
    assert shell.run("sync").status == 0
    assert shell.run("patch", "release-notes", "--json").error["hint"] == "edit a copy in an agent's folder"


def test_the_hint_of_verify_writes_a_lost_patch_again(shell):
    assert shell.run("install", REF, "--yes").status == 0
    copy = shell.project / ".agents/skills/release-notes/SKILL.md"
    copy.write_text(copy.read_text() + "\nAlways thank who helped.\n")
    assert shell.run("patch", "release-notes", "--yes").status == 0
    remove_tree(str(shell.project / "skillhub-edits"))
    done = shell.run("verify")
    hint = "restore the patch from version control, or skillhub patch release-notes writes it again\n"
    assert (done.status, done.err) == (1, hint)
    synced = shell.run("sync")
    assert synced.status == 0 and "nothing was changed" in synced.err and "up to date" not in synced.err
    assert shell.run("install", "--frozen", "--yes", "--json").error["code"] == "not-found"
    assert shell.run("patch", "release-notes").status == 0
    assert "up to date" in shell.run("sync").err
    assert shell.run("verify").status == 0

"""``adopt`` locks skills that another installer, or a person, put into agents' folders."""

import json
import os
import shutil

import pytest

from tests.support.cli import Shell
from tests.support.here import Here

YES = ("--yes", "--allow-unsigned")


def names(rows):
    return {each["name"] for each in rows}


@pytest.fixture
def shell(tmp_path):
    """An empty machine."""
    return Here(tmp_path)


@pytest.fixture
def found(shell):
    """A project where Claude Code has a skill outside the lock."""
    shell.skill("project/.claude/skills/loose")
    return shell


def test_an_unlocked_skill_is_copied_into_the_project_and_locked_from_there(found):
    done = found.run("adopt", *YES, "--json")
    assert done.status == 0, done.err
    assert names(done.json["skills"]) == {"loose"}
    assert found.lock()["skills"]["loose"]["path"] == "skills/loose"
    assert 'loose = { path = "skills/loose" }' in (found.project / "skillhub.toml").read_text("utf-8")
    text = (found.project / "skills/loose/SKILL.md").read_bytes()
    for folder in (".claude/skills", ".agents/skills"):
        assert (found.project / folder / "loose/SKILL.md").read_bytes() == text
    assert "its origin is unknown" in " ".join(done.json["warnings"])
    assert found.run("verify").status == 0
    assert found.run("install", "--frozen", "--json").json["changed"] is False
    (skill,) = found.run("list", "--json").json["skills"]
    assert (skill["managed"], skill["state"]) == (True, "enabled")


def test_the_question_names_each_place_that_will_have_the_files(found):
    done = found.run("adopt", "--dry-run")
    assert "its files will be in skills/loose, .agents/skills/loose, .claude/skills/loose" in " ".join(
        done.err.split()
    )
    assert "its files will be" not in found.run("adopt", *YES).err


def test_a_colleague_installs_an_adopted_skill_from_the_repository(found, tmp_path):
    assert found.run("adopt", *YES).status == 0
    clone = type(found)(tmp_path / "colleague")
    for name in ("skillhub.toml", "skillhub.lock", "skills"):
        source, target = found.project / name, clone.project / name
        shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)
    assert clone.run("install", "--frozen", *YES).status == 0
    assert (clone.project / ".agents/skills/loose/SKILL.md").is_file()


def test_nothing_is_adopted_without_consent(found):
    before = {path: data for path, data in found.files().items() if "/hub/" not in path}
    done = found.run("adopt", "--json")
    assert done.status == 6
    assert {each["kind"] for each in done.json["questions"]} == {"install", "unsigned"}
    details = " ".join(line for each in done.json["questions"] for line in each["details"])
    assert "skills/loose" in details
    assert "tree sha256:" in details
    assert {path: data for path, data in found.files().items() if "/hub/" not in path} == before
    assert found.run("adopt", "--dry-run", "--json").status == 0
    assert not (found.project / "skills").exists()


def test_a_no_leaves_out_its_skill_alone(tmp_path):
    shell = Shell(tmp_path)
    for name in ("one", "three", "two"):
        shell.skill(f"project/.claude/skills/{name}")
    say = [("Adopt one without a signature?", ""), *(("[N]o: ", f"{answer}\n") for answer in "nyn")]
    done = shell.at_terminal("adopt", say=say)
    assert (done.status, "Install" in done.out) == (6, False)
    assert {*shell.lock()["skills"]} == {"three"}
    assert "left out one: the answer was no [refused]" in done.out
    assert (shell.project / ".claude/skills/two/SKILL.md").is_file()
    assert not (shell.project / "skills/two").exists()


def test_a_dry_run_reports_missing_needs(found):
    needs = "dependencies:\n  tools:\n    - type: env_var\n      value: TRACKER_TOKEN\n"
    found.write("project/.claude/skills/loose/agents/skillhub.yaml", needs)
    done = found.run("adopt", "--dry-run")
    assert done.status == 0, done.err
    assert "would adopt loose: disabled" in done.out
    assert "loose would be stored and locked, and stay disabled; missing:" in done.err


def test_a_skill_identical_to_its_origin_is_locked_from_its_origin(found):
    origin = found.skill("project/team/loose")
    lock = {"version": 1, "skills": {"loose": {"source": "./team/loose", "sourceType": "local"}}}
    found.write("project/skills-lock.json", json.dumps(lock))
    done = found.run("adopt", *YES, "--json")
    assert done.status == 0, done.err
    assert found.lock()["skills"]["loose"]["path"] == "team/loose"
    assert f"it is identical to {origin}" in " ".join(done.json["warnings"])
    assert not (found.project / "skills").exists()


def test_a_skill_that_a_configured_source_offers_is_locked_from_there(shell, tmp_path):
    other = Here(tmp_path / "other")
    assert other.run("install", "github:release-notes", "--yes").status == 0
    for name in ("release-notes", "code-review"):
        shutil.copytree(other.project / ".agents/skills/release-notes", shell.project / ".claude/skills" / name)
    path = shell.project / ".claude/skills/code-review/SKILL.md"
    path.write_text(path.read_text().replace("release-notes", "code-review"))
    (path.parent / "skill.oms.sig").unlink()
    done = shell.run("adopt", *YES, "--json")
    assert done.status == 0, done.err
    locked = shell.lock()["skills"]
    assert locked == {**other.lock()["skills"], "code-review": locked["code-review"]}
    assert locked["code-review"]["path"] == "skills/code-review"
    assert "release-notes: it is identical to github:release-notes" in done.json["warnings"]


def test_a_source_that_cannot_be_compared_is_named(shell, repo):
    repo.commit({"SKILL.md": b"---\nname: plain\ndescription: Does it.\n---\n"})
    assert shell.run("source", "add", "damaged", f"git+{repo.url}", "--yes", "--allow-unsigned").status == 0
    repo.point("refs/heads/main", "1" * 40)
    shell.skill("project/.claude/skills/plain")
    done = shell.run("adopt", *YES, "--json")
    assert (done.status, shell.lock()["skills"]["plain"]["path"]) == (0, "skills/plain"), done.err
    assert any(each.startswith("plain: damaged:plain could not be compared: ") for each in done.json["warnings"])


def test_a_skill_that_differs_from_its_origin_is_adopted_with_a_warning(found):
    found.skill("project/team/loose", **{"scripts/new.py": "print()\n"})
    lock = {"version": 1, "skills": {"loose": {"source": "./team/loose", "sourceType": "local"}}}
    found.write("project/skills-lock.json", json.dumps(lock))
    done = found.run("adopt", *YES, "--json")
    assert done.status == 0, done.err
    assert found.lock()["skills"]["loose"]["path"] == "skills/loose"
    assert "differs from" in " ".join(done.json["warnings"])
    assert "scripts/new.py" in " ".join(done.json["warnings"])
    assert not (found.project / ".claude/skills/loose/scripts").exists()


def test_an_unreachable_origin_is_reported(shell):
    head = "metadata:\n  github-repo: acme/gone\n  github-ref: refs/tags/v1\n  github-path: skills/x\n"
    shell.skill("project/.claude/skills/x", head=head)
    done = shell.run("adopt", *YES, "--json", "--offline")
    assert done.status == 0, done.err
    warnings = " ".join(done.json["warnings"])
    assert "its recorded origin is github:acme/gone/skills/x@v1, which could not be compared" in warnings


def test_a_link_to_a_copy_in_another_agents_folder_becomes_a_copy(shell):
    shell.skill("project/.agents/skills/one")
    (shell.project / ".claude/skills").mkdir(parents=True)
    link = shell.project / ".claude/skills/one"
    link.symlink_to("../../.agents/skills/one")
    done = shell.run("adopt", "one", *YES)
    assert done.status == 0, done.err
    assert link.is_dir()
    assert not link.is_symlink()
    assert shell.run("verify").status == 0


def test_a_link_out_of_the_project_is_refused_and_left(shell):
    shell.skill("dev/mine")
    (shell.project / ".claude/skills").mkdir(parents=True)
    link = shell.project / ".claude/skills/mine"
    link.symlink_to(shell.folder / "dev/mine")
    done = shell.run("adopt", *YES, "--json")
    assert done.status == 6
    (left,) = done.json["refused"]
    assert (left["code"], "adopt" in shell.run("install", shell.folder / "dev/mine", *YES).err) == ("link", False)
    assert os.readlink(link) == str(shell.folder / "dev/mine")
    assert not (shell.project / "skillhub.lock").exists()
    away, again = left["message"].partition("to install that skill: ")[2].split(", then skillhub ")
    assert away == f"rm {link}"
    link.unlink()
    assert shell.run(*again.split(), *YES).status == 0


def test_copies_that_differ_are_refused_and_the_others_adopted(found):
    found.skill("project/.agents/skills/two")
    found.skill("project/.claude/skills/two", **{"extra.md": "x"})
    before = (found.project / ".claude/skills/two/extra.md").read_bytes()
    done = found.run("adopt", *YES, "--json")
    assert done.status == 6
    assert [(each["name"], each["code"]) for each in done.json["refused"]] == [("two", "differs")]
    assert names(done.json["skills"]) == {"loose"}
    assert (found.project / ".claude/skills/two/extra.md").read_bytes() == before


def test_invalid_skills_are_refused_and_left(found):
    found.write("project/.claude/skills/bad-format/SKILL.md", "no frontmatter")
    found.skill("project/.claude/skills/bad-name", name="other")
    (found.skill("project/.claude/skills/bad-link") / "x").symlink_to("/nowhere")
    found.skill("project/.claude/skills/bad-place")
    found.write("project/skills/bad-place/mine", "x")
    before = {path: data for path, data in found.files().items() if "/bad-" in path}
    done = found.run("adopt", *YES, "--json")
    assert done.status == 6, done.err
    assert {each["name"]: each["code"] for each in done.json["refused"]} == {
        "bad-format": "format",
        "bad-name": "name",
        "bad-link": "unsafe-archive",
        "bad-place": "in-the-way",
    }
    assert names(done.json["skills"]) == {"loose"}
    assert {path: data for path, data in found.files().items() if "/bad-" in path} == before


def test_adopt_disables_a_skill_with_an_open_need(shell):
    need = "dependencies:\n  tools:\n    - type: env_var\n      value: NEEDED_KEY\n"
    shell.skill("project/.claude/skills/needy", **{"agents/openai.yaml": need})
    done = shell.run("adopt", *YES, "--json")
    assert done.status == 6, done.err
    assert done.json["skills"][0]["state"] == "disabled"
    assert not (shell.project / ".claude/skills/needy").exists()
    assert shell.run("enable", "needy", "--env", "NEEDED_KEY=x").status == 0
    assert (shell.project / ".claude/skills/needy/SKILL.md").is_file()


def test_a_managed_skill_is_not_adopted_again(found):
    assert found.run("adopt", "absent", *YES).status == 3
    assert "did you mean loose? skillhub list shows all" in found.run("adopt", "lose", *YES).err
    assert found.run("adopt", "loose", *YES).status == 0
    assert found.run("adopt", "loose", *YES).status == 2
    again = found.run("adopt", *YES, "--json")
    assert (again.status, again.json["changed"]) == (0, False)


def test_a_target_folder_outside_of_the_project_is_refused(found):
    for into in ("a/../..", str(found.folder / "elsewhere")):
        assert found.run("adopt", *YES, "--into", into).status == 2
    (found.folder / "outside").mkdir()
    (found.project / "skills").symlink_to(found.folder / "outside")
    assert found.run("adopt", *YES).status == 7
    assert not list((found.folder / "outside").iterdir())


def test_adopt_into_an_agents_folder_keeps_the_skill_there(found):
    assert found.run("adopt", *YES, "--into", ".claude/skills/").status == 0
    assert found.lock()["skills"]["loose"]["path"] == ".claude/skills/loose"
    assert (found.project / ".agents/skills/loose/SKILL.md").is_file()
    assert found.run("verify").status == 0
    assert found.run("disable", "loose").status == 0
    assert (found.project / ".claude/skills/loose/SKILL.md").is_file()


def test_adopt_with_global_stores_the_users_skills_in_the_hub(shell):
    shell.skill("home/.claude/skills/mine")
    done = shell.run("adopt", "-g", *YES, "--json")
    assert done.status == 0, done.err
    assert (shell.home / "skills/mine/SKILL.md").is_file()
    assert shell.run("verify", "-g").status == 0


def test_remove_says_that_the_adopted_files_stay_in_the_project(found):
    assert found.run("adopt", *YES).status == 0
    for words in (("--dry-run",), ()):
        done = found.run("remove", "loose", *words)
        assert (done.status, "skills/loose; its files stay there" in done.err) == (0, True)
    assert (found.project / "skills/loose/SKILL.md").is_file()


def test_a_skill_that_the_lock_lost_is_not_adopted_without_its_signer(shell):
    assert shell.run("install", "github:code-review", "--yes").status == 0
    lock, intent = shell.project / "skillhub.lock", shell.project / "skillhub.toml"
    lock.unlink()
    for status, *words in ((6, "adopt", *YES), (3, "patch"), (3, "diff"), (3, "update")):
        done = shell.run(*words, "code-review")
        assert (done.status, "skillhub.toml names" in done.err) == (status, True), done.err
        assert "skillhub install locks it" in done.err
    intent.unlink()
    done = shell.run("adopt", *YES)
    assert (done.status, lock.exists()) == (6, False)
    assert "left out code-review: it is signed, and the lock does not name it any more" in done.err
    assert "skillhub install github:code-review locks it [not-locked]" in done.err
    assert shell.run("install", "github:code-review", "--yes").status == 0


def test_adopt_says_that_it_found_no_skill(shell):
    assert shell.run("install", "github:code-review", "--yes").status == 0
    done = shell.run("adopt", *YES)
    assert (done.status, done.err) == (0, "nothing to adopt: no agent's folder has an unmanaged skill\n")

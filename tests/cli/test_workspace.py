"""A monorepo: one lock at the root, packages with their own skills."""

from __future__ import annotations

import os
import re
from shutil import rmtree

import pytest

from skillhub.errors import FormatError, LinkLeavesProject
from skillhub.project.intent import Wanted, moved
from skillhub.project.project import parse_intent
from tests.support.cli import REPO
from tests.support.here import Here

YES = ("--yes", "--allow-unsigned")


@pytest.fixture
def machine(tmp_path):
    found = Here(tmp_path)
    found.write("project/skillhub.toml", '[workspace]\nmembers = ["packages/*"]\n')
    (found.project / ".git").mkdir()
    for name in ("one", "two"):
        (found.project / "packages" / name / "src").mkdir(parents=True)
        found.skill(f"project/skills/{name}-skill")
    found.skill("project/skills/shared")
    return found


def line(machine, package, text):
    machine.write(f"project/packages/{package}/skillhub.toml", f"[skills]\n{text}\n")


def copies(machine):
    links = machine.project.rglob(".agents/skills/*")
    return sorted(str(each.relative_to(machine.project)) for each in links)


def test_another_line_than_that_of_another_package_is_refused_with_the_file_that_has_it(machine):
    for package in ("one", "two"):
        line(machine, package, 'release-notes = "^1.0.0"')
    assert machine.run("install", *YES).status == 0
    done = machine.run("install", "github:release-notes@1.0.0", "--package", "one", *YES, "--json")
    assert (done.status, done.error["where"]) == (4, "packages/two/skillhub.toml")
    assert "two packages want different lines for release-notes: packages/two" in done.error["message"]


def test_a_package_gets_its_skills_and_the_root_the_lock(machine):
    one = machine.project / "packages/one"
    assert machine.run("install", "../../skills/one-skill", *YES, cwd=one).status == 0
    assert machine.run("install", "./skills/shared", *YES).status == 0
    done = machine.run("install", "./skills/two-skill", "--package", "two", *YES)
    assert done.status == 0, done.err
    shared = ".agents/skills/shared"
    mine = [f"packages/{each}/.agents/skills/{each}-skill" for each in ("one", "two")]
    assert copies(machine) == sorted([shared, *mine])
    assert {*machine.lock()["skills"]} == {"one-skill", "two-skill", "shared"}
    assert (one / "skillhub.toml").read_text() == '[skills]\none-skill = { path = "../../skills/one-skill" }\n'
    assert not (one / "skillhub.lock").exists()
    excluded = (machine.project / ".git/info/exclude").read_text()
    assert all(f"/{each}\n" in excluded for each in (shared, *mine))
    for words in (("verify",), ("sync", "--yes"), ("list",), ("doctor",), ("install", "--frozen", "--yes")):
        done = machine.run(*words, cwd=one / "src")
        assert done.status == 0, (words, done.err)
    assert [each["name"] for each in machine.run("list", "--json", cwd=one).json["skills"]] == sorted(
        machine.lock()["skills"]
    )
    found = machine.run("catalog", "--host", "codex", "--json", cwd=one / "src").json["skills"]
    assert {each["name"] for each in found} == {"one-skill", "shared"}
    for words, gone in ((("disable", "one-skill"), True), (("enable", "one-skill"), False)):
        assert machine.run(*words, cwd=one).status == 0
        assert (mine[0] not in copies(machine)) == gone
    assert machine.run("remove", "two-skill").status == 0
    assert copies(machine) == sorted([shared, mine[0]])
    assert (machine.project / "packages/two/skillhub.toml").read_text() == "[skills]\n"


def test_a_skill_of_two_packages_is_locked_once_and_removed_from_one(machine):
    for package in ("one", "two"):
        assert machine.run("install", "./skills/shared", "--package", f"packages/{package}", *YES).status == 0
    both = [f"packages/{each}/.agents/skills/shared" for each in ("one", "two")]
    assert copies(machine) == both
    done = machine.run("remove", "shared", "--package", "one", "--json")
    assert (done.status, done.error["code"]) == (6, "refused")
    assert copies(machine) == both
    line(machine, "one", "")
    removed = f"shared loses the copies that no line asks for any more: {both[0]}"
    assert removed in machine.run("install", *YES, "--dry-run", "--json").json["warnings"]
    edited = machine.project / both[0] / "SKILL.md"
    before = edited.read_bytes()
    edited.write_bytes(before + b"mine\n")
    machine.run("install", *YES)
    assert both[1] in copies(machine)
    if both[0] in copies(machine):  # the edited copy is saved first
        assert removed in machine.run("install", *YES, "--json").json["warnings"]
    assert copies(machine) == both[1:]
    assert b"mine" in b"".join(each.read_bytes() for each in (machine.project / "skillhub-edits").iterdir())
    assert machine.run("remove", "shared", "--package", "two").status == 0
    assert (copies(machine), machine.lock()["skills"]) == ([], {})


def test_a_package_does_not_remove_a_skill_that_only_another_package_or_the_root_wants(machine):
    for words, wanting in ((("--package", "two"), "packages/two"), ((), "the root")):
        assert machine.run("install", "./skills/shared", *words, *YES).status == 0
        before = machine.files()
        error = machine.run("remove", "shared", "--json", cwd=machine.project / "packages/one").error
        assert (error["code"], error["message"]) == ("refused", f"shared is wanted by {wanting}")
        assert machine.files() == before
        typed = error["hint"].removeprefix("from all packages: skillhub ").split()
        assert machine.run(*typed, cwd=machine.project / "packages/one").status == 0
        assert (copies(machine), machine.lock()["skills"]) == ([], {})


def test_uninstall_removes_the_copies_of_packages_also_of_one_that_left_the_workspace(machine):
    for package in ("one", "two"):
        assert machine.run("install", "./skills/shared", "--package", package, *YES).status == 0
    machine.write("project/skillhub.toml", '[workspace]\nmembers = ["packages/one"]\n')
    done = machine.run("self", "uninstall", "--yes", "--json").json
    assert (done["kept"], copies(machine)) == ([], [])


def test_a_skill_that_a_package_adopts_is_copied_into_its_folders(machine):
    hand = machine.skill("project/packages/one/.claude/skills/hand")
    assert machine.run("adopt", "hand", *YES, cwd=machine.project / "packages/one").status == 0
    assert copies(machine) == ["packages/one/.agents/skills/hand"]
    before = machine.files()
    assert machine.run("install").status == 0
    assert (machine.files(), hand.is_dir()) == (before, True)


def test_load_at_the_root_names_the_package_of_the_skill(machine):
    assert machine.run("install", "./skills/shared", "--package", "one", *YES).status == 0
    error = machine.run("load", "shared", "--json").error
    assert error["message"].endswith("; it is in the package packages/one")
    assert error["hint"] == "skillhub load shared --project packages/one"
    assert machine.run(*error["hint"].split()[1:]).status == 0
    assert "package" not in machine.run("load", "other", "--json").error["message"]


def test_verify_list_and_doctor_work_with_a_broken_workspace_file(machine):
    assert machine.run("install", "./skills/shared", "--package", "one", *YES).status == 0
    whole = (machine.project / "skillhub.toml").read_text()
    (machine.project / "skillhub.toml").write_text(f"{whole}[broken\n")
    for words, status in (("verify", 0), ("list", 0), ("doctor", 1)):
        done = machine.run(words)
        assert (done.status, "not TOML" in done.out + done.err) == (status, True), (words, done.out, done.err)
    copy = machine.project / "packages/two/.agents/skills/shared"
    copy.mkdir(parents=True)
    (copy / "SKILL.md").write_text("---\nname: shared\ndescription: Another.\n---\nX.\n")
    done = machine.run("verify")  # packages are still searched
    assert (done.status, "packages/two/.agents/skills/shared" in done.out) == (1, True), done.out
    rmtree(copy)
    (machine.project / "packages/one/skillhub.lock").touch()
    (machine.project / "skillhub.toml").write_text(whole)
    assert machine.run("verify").status == 4  # the lock of a package makes the folders to search ambiguous


@pytest.mark.parametrize(
    "broken", ["[workspace]\n", '[workspace]\nmembers = ["packages/*"]\n<<<<<<< ours\n', "workspace = 1"]
)
def test_attack_a_workspace_file_that_cannot_be_read_makes_no_package_a_project_of_its_own(machine, broken):
    """The package would escape the lock and the policy of the root."""
    one = machine.project / "packages/one"
    assert machine.run("install", "../../skills/shared", *YES, cwd=one).status == 0
    machine.write("project/skillhub.toml", broken)
    done = machine.run("install", "../../skills/one-skill", *YES, "--json", cwd=one)
    assert (done.status, done.error["where"].startswith(str(machine.project / "skillhub.toml"))) == (4, True)
    assert not (one / "skillhub.lock").exists()
    assert machine.run("verify", "--json", cwd=one).json["skills"][0]["name"] == "shared"
    machine.write("project/skillhub.toml", "[skills")  # broken, but of no workspace
    assert machine.run("install", "../../skills/one-skill", *YES, cwd=one).status == 0


def test_a_required_skill_is_enabled_in_the_package(machine):
    machine.skill("project/skills/needing", head="metadata:\n  requires: [github:code-review]\n")
    done = machine.run("install", "./skills/needing", "--package", "one", *YES)
    assert done.status == 0, done.err
    needed = [f"packages/one/.agents/skills/{each}" for each in ("code-review", "needing")]
    assert copies(machine) == needed
    assert machine.run("install", "./skills/needing", "--package", "two", *YES).status == 0
    assert copies(machine) == [*needed, *(each.replace("one", "two") for each in needed)]


def test_attack_conflicting_versions_of_two_packages_are_refused(machine):
    line(machine, "one", 'pdf = "^1.0"')
    line(machine, "two", 'pdf = "^2.0"')
    for words in (("install",), ("install", "--frozen"), ("update",)):
        done = machine.run(*words, "--json")
        assert (done.status, done.error["code"]) == (4, "format"), words
        for part in ("packages/one/skillhub.toml: ", "packages/two/skillhub.toml: ", "^1.0", "^2.0"):
            assert part in done.error["message"]
    line(machine, "two", "")
    line(machine, "one", 'shared = { path = "../../skills/shared" }')
    assert machine.run("install", *YES).status == 0
    machine.skill("project/other/shared", more="x")
    before = machine.files()
    done = machine.run("install", "./other/shared", "--package", "two", *YES, "--json")
    assert done.status == 5, done.out
    changed = {path for path, data in machine.files().items() if before.get(path) != data}
    assert not {path for path in changed if "/project/" in path}


@pytest.mark.parametrize(
    "members",
    [
        '"../x"',
        '"/etc"',
        '"packages/../../x"',
        '"."',
        '"packages//x"',
        '"**"',
        '"a\\\\b"',
        '"C:x"',
        "1",
        '""',
        '"x/"',
    ],
)
def test_attack_members_outside_of_the_workspace_are_refused(members):
    with pytest.raises(FormatError):
        parse_intent(f"[workspace]\nmembers = [{members}]\n".encode())


def test_a_named_package_without_a_folder_is_refused_with_a_hint(machine):
    machine.write("project/skillhub.toml", '[workspace]\nmembers = ["packages/*", "tools/release"]\n')
    done = machine.run("list", "--json")
    assert (done.status, done.error["message"]) == (4, "the workspace names tools/release, which is no folder")
    assert done.error["hint"] == "create the folder, or take it out of members"


def test_attack_a_package_behind_a_link_out_of_the_project_is_refused(machine, tmp_path):
    (tmp_path / "outside").mkdir()
    os.symlink(tmp_path / "outside", machine.project / "packages/three")
    done = machine.run("install", "./skills/shared", *YES, "--json")
    assert (done.status, done.error["code"]) == (7, LinkLeavesProject.code)
    (machine.project / "packages/three").unlink()
    os.symlink(tmp_path / "outside", machine.project / "packages/one/.agents")
    done = machine.run("install", "./skills/shared", "--package", "one", *YES, "--json")
    assert (done.status, done.error["code"]) == (7, LinkLeavesProject.code)
    assert list((tmp_path / "outside").iterdir()) == []


def test_attack_a_package_with_settings_of_the_root_is_refused(machine):
    for text in (
        '[policy]\nsigned = "ask"\n',
        '[sources.acme]\nurl = "https://acme.example"\n',
        "[install]\nagents = []\nlink = 'symlink'\n",
        '[workspace]\nmembers = ["x"]\n',
    ):
        machine.write("project/packages/one/skillhub.toml", text)
        done = machine.run("install", "./skills/shared", *YES, "--json")
        assert (done.status, done.error["where"]) == (4, "packages/one/skillhub.toml"), text
    line(machine, "one", "")
    machine.write("project/packages/two/skillhub.lock", "{}")
    assert machine.run("install", "./skills/shared", *YES).status == 4
    assert copies(machine) == []


PATHS = {"../../skills/a": "skills/a", "x": "packages/one/x", "../../../a": "../a", "~/a": "~/a"}


def test_a_path_is_relative_to_its_package(machine):
    for path, moved_to in PATHS.items():
        inner = moved(Wanted(path=path), "", "packages/one")
        assert inner.path == moved_to
        assert moved(inner, "packages/one", "").path == path
    assert moved(Wanted(git="https://a.example", path="x"), "", "one").path == "x"


def test_attack_a_package_named_as_project_uses_the_lock_of_the_workspace(machine, tmp_path):
    one = machine.project / "packages/one"
    os.symlink(one, tmp_path / "elsewhere")
    for named in (one, f"{one}/", one / "../one", tmp_path / "elsewhere"):
        done = machine.run("install", machine.project / "skills/one-skill", *YES, "--project", named)
        assert done.status == 0, done.err
        assert not (one / "skillhub.lock").exists()
        assert {*machine.lock()["skills"]} == {"one-skill"}
        assert copies(machine) == ["packages/one/.agents/skills/one-skill"]
        assert machine.run("list").status == machine.run("remove", "one-skill", "--project", named).status == 0
    opened = machine.project / "opened"
    machine.write("project/opened/skillhub.toml", "[skills]\n")
    assert machine.run("install", machine.project / "skills/shared", *YES, "--project", opened).status == 0
    assert (opened / "skillhub.lock").exists()


def test_a_folder_belongs_to_the_nearest_project(machine):
    """A folder that is no member is a project of its own; so is another repository."""
    for words in (("--package", "nope"), ("--package", "../one")):
        assert machine.run("list", *words).status == 2
    machine.write("project/elsewhere/skillhub.toml", "[skills]\n")
    assert machine.run("install", "../skills/shared", *YES, cwd=machine.project / "elsewhere").status == 0
    assert (machine.project / "elsewhere/skillhub.lock").exists()
    machine.write("project/packages/one/.git/HEAD", "ref: refs/heads/main\n")
    machine.write("project/packages/one/skillhub.toml", "[skills]\n")
    assert machine.run("install", "../../skills/shared", *YES, cwd=machine.project / "packages/one").status == 0
    assert (machine.project / "packages/one/skillhub.lock").exists()
    assert machine.run("list", "--package", "one", cwd=machine.project / "elsewhere").status == 2


@pytest.mark.parametrize("pattern", ["*/*/*/*/*/*/*/*", "a/b/*/c/*/*/*/*/*/*"])
def test_attack_links_back_into_the_workspace_are_not_followed(tmp_path, pattern):
    """Twelve links in a clone would give 12 to the power of 8 packages for every command to search."""
    machine = Here(tmp_path)
    for name in "abcdefghijkl":
        (machine.project / name).symlink_to(".")
    machine.write("project/skillhub.toml", f'[workspace]\nmembers = ["{pattern}"]\n')
    done = machine.run("list", "--json")
    assert (done.status, done.json["skills"]) == (0, [])


def test_attack_a_workspace_with_too_many_patterns_is_refused(tmp_path):
    machine = Here(tmp_path)
    machine.write("project/skillhub.toml", f"[workspace]\nmembers = {['*'] * 1001}\n")
    assert machine.run("sync").status == 4


@pytest.mark.parametrize("name", [b"b\xff", b"b\n", b"b\x1b[31m", ".hidden", "node_modules"])
def test_attack_a_folder_with_a_name_unfit_for_a_package_is_no_package(tmp_path, name):
    """A record could not hold its name, so the copy would go elsewhere, or no line would name the skill."""
    machine = Here(tmp_path)
    machine.skill("project/skills/mine")
    machine.write("project/skillhub.toml", '[workspace]\nmembers = ["*"]\n')
    folder = os.path.join(machine.project, os.fsdecode(name))
    os.mkdir(folder)
    assert machine.run("install", "../skills/mine", "--yes", "--allow-unsigned", cwd=folder).status == 0
    assert os.listdir(folder) == []
    assert machine.run("install", "--json").json["skills"][0]["links"] == [
        str(machine.project / ".agents/skills/mine")
    ]


def test_attack_another_skill_with_a_locked_name_in_a_package_is_reported(machine):
    assert machine.run("install", "./skills/shared", "--package", "one", *YES, "--no-enable").status == 0
    for package in ("one", "two"):
        machine.skill(f"project/packages/{package}/.claude/skills/shared")
        machine.write(f"project/packages/{package}/.claude/skills/shared/more.md", "Please.")
    (machine.project / "packages/two/.agents").mkdir()
    done = machine.run("verify")
    assert done.status == 1
    places = [f"packages/{each}/.claude/skills/shared: has the name of a locked skill" for each in ("one", "two")]
    assert all(each in done.err + done.out for each in places), done.err
    done = machine.run("audit", "--json")
    assert [each["rule"] for each in done.json["findings"] if each["severity"] == "high"] == ["other-skill"] * 2


@pytest.fixture
def shared_out(machine):
    """Skills of two packages, one of the root, and a package without skills."""
    assert machine.run("install", "./skills/one-skill", "./skills/shared", "--package", "one", *YES).status == 0
    assert machine.run("install", "./skills/two-skill", "--package", "two", *YES).status == 0
    machine.skill("project/skills/root-skill")
    assert machine.run("install", "./skills/root-skill", *YES).status == 0
    (machine.project / "packages/none").mkdir()
    return machine


def test_the_package_option_narrows_reading_commands(shared_out):
    machine = shared_out
    machine.skill("project/packages/two/.claude/skills/loose")
    for package, own in (("one", ["one-skill", "shared"]), ("packages/two", ["two-skill"]), ("none", [])):
        here = ("--package", package, "--json")
        listed = [each["name"] for each in machine.run("list", *here).json["skills"]]
        assert listed == (["loose", *own] if package == "packages/two" else own)
        assert [each["name"] for each in machine.run("verify", *here).json["skills"]] == own
        done = machine.run("audit", *here, "--fail-on", "low")
        assert {each["skill"] for each in done.json["findings"]} <= {*own, *listed}
        found = machine.run("catalog", "--host", "codex", *here).json["skills"]
        assert {each["name"] for each in found} == {*own, "root-skill"} - {"loose"}, package
    assert {each["name"] for each in machine.run("verify", "--json").json["skills"]} >= {"one-skill", "root-skill"}
    assert machine.run("verify", "root-skill", "--package", "none").status == 0  # a name goes before a package
    for name in ("one", "two", "root"):
        machine.skill(f"project/skills/{name}-skill", more="more\n")
    for words in (("update", "--check"), ("update", "--dry-run", *YES)):
        for package, own in (("two", ["two-skill"]), ("none", [])):
            done = machine.run(*words, "--package", package, "--json")
            assert [each["name"] for each in done.json["skills"]] == own, (words, done.out)
    assert machine.run("update", "--package", "none", *YES).status == 0
    assert machine.run("update", "--package", "two", *YES).status == 0
    assert {each["name"] for each in machine.run("update", "--check", "--json").json["skills"]} >= {"root-skill"}


def test_attack_a_package_without_skills_does_not_stand_for_all_packages(shared_out):
    machine = shared_out
    (machine.project / "packages/two/.agents/skills/two-skill/SKILL.md").write_text("changed")
    statuses = {each: machine.run("verify", "--package", each).status for each in ("one", "two", "none")}
    assert statuses == {"one": 0, "two": 1, "none": 0}
    statuses = {each: machine.run("audit", "--package", each).status for each in ("one", "two", "none")}
    assert statuses == {"one": 0, "two": 1, "none": 0}
    assert machine.run("verify", "--package", "three").status == 2
    assert machine.run("verify", "--package", "one", "--global").status == 2  # the user's scope has no packages


def test_completion_in_a_package_uses_the_lock_of_the_workspace(shared_out):
    machine = shared_out
    pressed = {"_SKILLHUB_COMPLETE": "complete_bash", "COMP_WORDS": "skillhub\nverify\n", "COMP_CWORD": "2"}
    for folder in ("packages/one/src", "packages/none", "."):
        found = machine.run(cwd=machine.project / folder, **pressed).out.split()
        assert "one-skill" in found and "root-skill" in found, folder
    (machine.project / "packages/none/.git").mkdir()  # a repository of its own
    assert machine.run(cwd=machine.project / "packages/none", **pressed).out == ""


def test_the_hooks_run_for_the_file_of_a_package():
    hooks = (REPO / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
    patterns = [line.split(": ", 1)[1] for line in hooks.splitlines() if line.strip().startswith("files: ")]
    assert len(patterns) == 2
    for pattern in patterns:
        names = (
            "skillhub.toml",
            "skillhub.lock",
            "packages/web/skillhub.toml",
            "my-skillhub.toml",
            "skillhub.toml.md",
        )
        assert [bool(re.search(pattern, name)) for name in names] == [True, True, True, False, False]


@pytest.mark.parametrize("command", ["list", "verify", "update", "catalog", "audit"])
def test_a_package_is_selected_by_path_or_name_with_a_suggestion(shell, command):
    assert "this project has no packages" in shell.run(command, "--package", "one").err
    shell.write("project/skillhub.toml", '[workspace]\nmembers = ["packages/*"]\n')
    shell.write("project/packages/website/skillhub.toml", "")
    for typed in ("website", "packages/website", "./packages/website/", "packages//website"):
        assert shell.run(command, "--package", typed).status == 0
    for typed in ("webste", "Website", "packages/webste"):
        done = shell.run(command, "--package", typed)
        assert done.status == 2 and "did you mean" in done.err, typed
    for typed in (".", "..", "packages", "../packages/website", "packages/website/..", "\x00"):
        done = shell.run(command, "--package", typed)
        assert (done.status, "no package is named" in done.err) == (2, True), typed

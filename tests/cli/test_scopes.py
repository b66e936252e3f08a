"""The project that a command works on; a dry run changes nothing."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

REF = "github:release-notes"


def links(done):
    return done.json["skills"][0]["links"]


def test_the_users_scope_lies_below_home_and_state(shell):
    done = shell.run("install", REF, "--yes", "--global", "--json")
    assert done.status == 0
    assert done.json["skills"][0]["scope"] == "user"
    assert links(done) == [str(shell.home / ".agents/skills/release-notes")]
    assert (shell.hub / "state/skillhub.lock").exists()
    assert (shell.hub / "state/skillhub.toml").exists()
    assert list(shell.project.iterdir()) == []
    assert [each["name"] for each in shell.run("list", "-g", "--json").json["skills"]] == ["release-notes"]
    assert shell.run("list", "--json").json["skills"] == []
    assert shell.run("verify", "-g", "--json").json["skills"][0]["ok"] is True
    assert shell.run("remove", "release-notes", "-g").status == 0
    assert not (shell.home / ".agents/skills/release-notes").exists()


def test_a_folder_for_the_user_scope_is_outside_no_project(shell):
    path = shell.skill("beside/mine")
    for scope, is_noted in ((["--global"], False), ([], True)):
        done = shell.run("install", path, "--yes", "--allow-unsigned", *scope)
        assert done.status == 0
        assert ("is outside the project" in done.err.replace("\n", " ")) is is_noted


def test_list_shows_both_scopes_and_the_shadowed_skill(shell):
    for scope in ((), ("--global",)):
        assert shell.run("install", REF, "--yes", *scope).status == 0
    assert shell.run("install", "github:code-review", "--yes", "--global").status == 0
    mine, ours = (str(place / ".agents/skills/release-notes") for place in (shell.home, shell.project))
    found = shell.run("list", "--json").json
    assert [(each["name"], each["scope"]) for each in found["skills"]] == [("release-notes", "project")]
    assert [(each["name"], each["scope"]) for each in found["user"]] == [
        ("code-review", "user"),
        ("release-notes", "user"),
    ]
    assert found["shadowed"] == [{"name": "release-notes", "path": mine, "by": ours}]
    assert f"release-notes: {mine} is hidden by {ours}" in shell.run("list").out
    done = shell.run("doctor")
    assert f"shadowed: {mine} is hidden by {ours}" in done.out
    assert done.status == 0, done.out
    assert shell.run("list", "-g", "--json").json["shadowed"] == []


def test_catalog_names_the_folders_of_a_hidden_skill_and_not_the_store(shell):
    for flags in (("--link", "symlink"), ("--global",)):
        assert shell.run("install", REF, "--yes", *flags).status == 0
    mine, ours = (str(place / ".agents/skills/release-notes") for place in (shell.home, shell.project))
    assert f"{mine} is hidden by {ours}\n" in shell.run("catalog").err
    row = {"name": "release-notes", "path": mine, "by": ours}
    assert shell.run("catalog", "--json").json["shadowed"] == [row]


def test_the_project_option_names_the_project(shell):
    done = shell.run("install", REF, "--yes", "--json", "--project", shell.project, cwd=shell.folder)
    assert done.status == 0
    assert links(done) == [str(shell.project / ".agents/skills/release-notes")]
    assert shell.run("verify", "--project", "project", "--json", cwd=shell.folder).json["skills"]
    assert not (shell.folder / "skillhub.lock").exists()


def test_a_missing_project_is_not_created(shell):
    done = shell.run("install", REF, "--yes", "--json", "--project", shell.folder / "nope")
    assert (done.status, done.error["code"]) == (3, "not-found")
    assert not (shell.folder / "nope").exists()
    shell.write("file", "x")
    assert shell.run("list", "--project", shell.folder / "file").status == 3


def test_global_and_project_exclude_each_other(shell):
    assert shell.run("list", "--global", "--project", shell.project).status == 2


def test_hints_name_the_scope_of_their_command(shell):
    words = ("--global", "--yes")
    assert "skillhub enable release-notes --global" in shell.run("install", REF, *words, "--no-enable").err
    assert "skillhub enable release-notes --global" in shell.run("resolve", "$release-notes").out
    refused = shell.run("load", "release-notes", "--json").error
    assert refused["hint"] == "enable it with: skillhub enable release-notes --global"
    assert shell.run("enable", "release-notes", *words).status == 0
    copy = shell.folder / "home/.agents/skills/release-notes/SKILL.md"
    copy.chmod(0o644)
    copy.write_text("mine")
    shows = "skillhub verify --global shows what differs, skillhub sync --global restores the locked files"
    assert shell.run("load", "release-notes", "--json").error["hint"] == shows
    err = shell.run("verify", "--global").err
    assert "skillhub sync --global restores the locked files" in err
    assert "skillhub diff release-notes --global shows the edits" in err
    unknown = shell.run("remove", "--global", "release-note", "--json").error["hint"]
    assert unknown.startswith(
        "did you mean release-notes? skillhub list --global shows installed skills; skillhub adopt --global "
    )
    assert shell.run("env", "list", "--global").err.endswith("skillhub env set NAME --global\n")
    hint = shell.run("env", "unset", "X", "--global", "--json").error["hint"]
    assert hint == "skillhub env list --global shows the stored names"
    lock = json.loads((shell.hub / "state/skillhub.lock").read_text())
    skill = lock["skills"]["release-notes"]
    texts = [json.dumps(lock | {"skills": {"release-notes": skill | {"tree": f"sha256:{x * 64}"}}}) for x in "12"]
    shell.write("hub/state/skillhub.lock", "<<<<<<< a\n{}\n=======\n{}\n>>>>>>> b\n".format(*texts))
    hint = shell.run("lock", "fix", "--global", "--json").error["hint"]
    assert hint.endswith("skillhub lock fix --ours NAME --global or --theirs NAME")


def test_a_skill_of_the_user_scope_is_named_by_each_command_that_lacks_it(shell):
    assert shell.run("install", shell.skill("mine"), "--global", "--yes", "--allow-unsigned").status == 0
    hint = "the user scope has it: add --global to the command"
    for words in (["diff"], ["update"], ["remove"], ["verify"], ["audit"], ["patch"], ["show"]):
        error = shell.run(*words, "mine", "--json").error
        assert (error["code"], error["hint"]) == ("not-found", hint), words
    assert shell.run("env", "set", "X", "--skill", "mine", "--json").error["hint"] == hint
    error = shell.run("diff", "mine", "--project", shell.project, "--json", cwd=shell.folder).error
    assert error["hint"] == "the user scope has it: put --global in place of --project"
    assert shell.run("diff", "mine", "--global").status == 0
    assert "--global" not in shell.run("diff", "nope", "--json").error["hint"]


def test_the_hint_for_a_lock_with_a_conflict_names_the_scope_and_the_project(shell):
    for path in ("hub/state/skillhub.lock", "project/skillhub.lock"):
        shell.write(path, "<<<<<<< HEAD\n")
    for flags in ((), ("--global",), ("--project", str(shell.project))):
        error = shell.run("verify", *flags, "--json", cwd=shell.project if len(flags) < 2 else shell.folder).error
        assert error["hint"].startswith(" ".join(("skillhub lock fix", *flags, "resolves it"))), flags


def test_damage_of_the_store_is_not_called_an_edit(shell):
    assert shell.run("install", REF, "--yes").status == 0
    stored = Path(shell.run("show", "release-notes", "--json").json["path"])
    stored.chmod(0o755)
    (stored / "extra").write_text("mine")
    err = shell.run("verify").err
    assert "skillhub sync restores the locked files" in err
    assert "skillhub diff" not in err


def test_a_folder_inside_a_project_is_the_project(shell):
    shell.write("project/skillhub.toml", "")
    (shell.project / "deep/er").mkdir(parents=True)
    done = shell.run("install", REF, "--yes", "--json", cwd=shell.project / "deep/er")
    assert links(done) == [str(shell.project / ".agents/skills/release-notes")]
    assert sorted(each.name for each in (shell.project / "deep").rglob("*")) == ["er"]


def test_the_root_of_a_git_work_tree_is_the_project(shell):
    subprocess.run(["git", "init", "-q", shell.project], env=shell.environ, check=True)
    (shell.project / "src").mkdir()
    done = shell.run("install", REF, "--yes", "--json", cwd=shell.project / "src")
    assert links(done) == [str(shell.project / ".agents/skills/release-notes")]
    assert ".agents/skills/release-notes" in (shell.project / ".git/info/exclude").read_text()
    seen = subprocess.run(
        ["git", "status", "--porcelain"], cwd=shell.project, env=shell.environ, capture_output=True, check=True
    )
    assert sorted(seen.stdout.decode().split()) == ["??", "??", "skillhub.lock", "skillhub.toml"]


def test_a_path_is_relative_to_the_working_folder(shell):
    shell.write("project/skillhub.toml", "")
    shell.skill("project/deep/mine")
    done = shell.run("install", "./mine", "--yes", "--allow-unsigned", "--json", cwd=shell.project / "deep")
    assert done.status == 0, done.err
    assert shell.lock()["skills"]["mine"]["path"] == "deep/mine"


def dry(shell, *words):
    done = shell.run(*words, "--dry-run")
    assert done.status == 0, done.err
    return shell.run(*words, "--dry-run", "--json").json


def test_a_dry_run_of_an_install_changes_nothing(shell):
    before = {path for path in shell.files() if "/state/tuf" not in path}
    found = dry(shell, "install", "github:gh-fix-ci")
    assert found["changed"] is False
    assert {each["answer"] for each in found["questions"]} == {"unanswered"}
    assert {path for path in shell.files() if "/state/tuf" not in path} == before


def test_a_dry_run_of_commands_on_skills_changes_nothing(shell):
    shell.run("install", REF, "--yes")
    shell.write("project/.agents/skills/release-notes/SKILL.md", "edited")
    before = shell.files()
    for words in (("remove", "release-notes"), ("disable", "release-notes"), ("enable", "release-notes"), ("sync",)):
        assert dry(shell, *words)["changed"] is False
    assert shell.run("remove", "nope", "--dry-run").status == 3
    assert shell.files() == before


def test_a_dry_run_of_authors_commands_changes_nothing(shell):
    shell.skill("project/mine")
    shell.run("key", "new")
    before = shell.files()
    dry(shell, "key", "new", "second")
    dry(shell, "sign", "mine")
    dry(shell, "pack", "mine")
    dry(shell, "registry", "init", "there")
    assert shell.run("key", "new", "--dry-run").status == 2  # the name is in use
    assert shell.files() == before


def test_a_dry_run_of_trust_changes_nothing(offered, served, tmp_path):
    shell = offered.copy(tmp_path / "twin")
    shell.run("key", "new")
    key = shell.hub / "state/keys/default.pub.pem"
    before = shell.files()
    assert shell.run("publisher", "remove", "you", "--dry-run").status == 3
    assert shell.files() == before
    assert shell.run("publisher", "trust", "me", "--key", key).status == 0
    before = shell.files()
    dry(shell, "source", "add", "there", served)
    dry(shell, "source", "remove", "github")
    dry(shell, "publisher", "trust", "you", "--key", key)
    dry(shell, "publisher", "remove", "me")
    shell.skill("src/second", head='metadata:\n  version: "1.0.0"\n')
    added = shell.files()
    dry(shell, "registry", "add", shell.folder / "registry", shell.folder / "src/second")
    assert {path for path in shell.files() if not path.endswith(".lock")} == {
        path for path in added if not path.endswith(".lock")
    }
    assert {path: added[path] for path in before} == before


def test_in_the_home_folder_skills_of_the_user_are_listed_once(shell):
    assert shell.run("install", REF, "--global", "--yes").status == 0
    listed = shell.run("list", "--json", cwd=shell.home).json
    assert ([each["name"] for each in listed["user"]], listed["skills"], listed["shadowed"]) == (
        ["release-notes"],
        [],
        [],
    )
    assert shell.run("doctor", cwd=shell.home).status == 0
    assert shell.run("audit", "--json", cwd=shell.home).json["findings"] == []
    shell.skill("home/.agents/skills/loose")
    assert [each["name"] for each in shell.run("list", "--json", cwd=shell.home).json["skills"]] == ["loose"]


def test_the_users_defaults_yield_to_flags_and_the_project(shell):
    def config(text):
        shell.write(str(shell.hub / "config/config.toml"), f"[install]\n{text}")

    config('agents = ["claude-code"]\nlink = "symlink"\nscope = "user"')
    done = shell.run("install", REF, "--yes", "--json")
    assert done.json["skills"][0]["scope"] == "user"
    copies = [shell.home / folder / "skills/release-notes" for folder in (".agents", ".claude")]
    assert links(done) == [*map(str, copies)]
    assert all(each.is_symlink() for each in copies)
    assert [each["scope"] for each in shell.run("list", "--json").json["skills"]] == ["user"]
    # A flag, and a folder that is a project, override the default.
    done = shell.run("install", REF, "--yes", "--json", "--project", ".", "--link", "copy", "--agent", "codex")
    assert links(done) == [str(shell.project / ".agents/skills/release-notes")]
    assert [each["scope"] for each in shell.run("list", "--json").json["skills"]] == ["project"]
    shell.run("remove", "release-notes")
    shell.write(str(shell.project / "skillhub.toml"), '[install]\nagents = ["roo"]\nlink = "copy"\n[skills]\n')
    done = shell.run("install", REF, "--yes", "--json")
    assert links(done) == [str(shell.project / place / "skills/release-notes") for place in (".agents", ".roo")]
    assert not (shell.project / ".roo/skills/release-notes").is_symlink()


def test_attack_invalid_defaults_stop_the_program(shell):
    for text in ('scope = "root"', 'agents = ["nobody"]', 'link = "../x"', "yes = true"):
        shell.write(str(shell.hub / "config/config.toml"), f"[install]\n{text}\n")
        done = shell.run("install", REF, "--yes", "--json")
        assert (done.status, done.error["code"]) == (4, "format")
        assert "config.toml: install" in done.error["where"]
        assert list(shell.project.iterdir()) == []


def test_a_project_in_the_home_folder_is_named_before_the_question(shell):
    """Agents read its skills in every project, and commands in folders below take it for theirs."""
    note = f"the project is your home folder, {shell.home}: agents read its skills in every project"
    ways = "to have that, use --global; else run git init, or create skillhub.toml, in the folder that you mean"
    (below := shell.home / "below").mkdir()
    for name, folder in (("release-notes", shell.home), ("code-review", below)):
        asked = shell.run("install", f"github:{name}", "--json", cwd=folder)
        assert asked.json["questions"][0]["details"].count(f"note: {note}; {ways}") == 1
        done = shell.run("install", f"github:{name}", "--yes", "--json", cwd=folder)
        assert (done.status, done.json["warnings"]) == (0, [f"{name}: {note}; {ways}"])
        assert links(done) == [str(shell.home / f".agents/skills/{name}")]
        assert note in shell.run("list", cwd=folder).err
        assert f"note  project: {note}\n    {ways}\n" in shell.run("doctor", cwd=folder).out
    assert shell.run("install", "--json", cwd=below).json["warnings"] == []  # agreed to
    assert shell.run("install", "github:gh-fix-ci", "--yes", "--global", "--json", cwd=below).json["warnings"] == []
    (below / "skillhub.toml").touch()
    done = shell.run("install", REF, "--yes", "--json", cwd=below)
    assert (done.status, done.json["warnings"]) == (0, [])
    assert note not in shell.run("list", cwd=below).err + shell.run("doctor", cwd=below).out

"""``lock``: import of other installers' locks, export of a bill of materials, repair of conflicts."""

import importlib.util
import json
import shutil
import subprocess

import pytest

from skillhub.disk.installer import extra_command
from skillhub.edits.lock_merge import conflict
from skillhub.model.index import Index
from tests.edits.test_lock_merge import HIS, ONE, THREE, TWO, lock, released
from tests.support.effort import calls
from tests.support.gitserver import served
from tests.support.here import Here

YES = ("--yes", "--allow-unsigned")
HAS_SBOM = importlib.util.find_spec("cyclonedx") is not None


@pytest.fixture
def shell(tmp_path):
    """An empty machine."""
    return Here(tmp_path)


@pytest.fixture
def others(shell):
    """A project with another installer's lock: a local skill, a missing one, and skills of unusable origin."""
    shell.skill("project/skills/near")
    shell.skill("team/far")
    shell.write(
        "project/skills-lock.json",
        json.dumps(
            {
                "version": 1,
                "skills": {
                    "near": {"source": "./skills/near", "sourceType": "local", "computedHash": "ab" * 32},
                    "far": {"source": "../team", "sourceType": "local", "skillPath": "far/SKILL.md"},
                    "gone": {"source": "./skills/gone", "sourceType": "local"},
                    "npm": {"source": "left-pad", "sourceType": "node_modules"},
                    "plain": {"source": "x", "sourceUrl": "http://host.example/x.git", "sourceType": "git"},
                },
            }
        ),
    )
    return shell


def names(rows):
    return {each["name"] for each in rows}


def test_import_pins_available_skills_and_reports_the_others(others):
    done = others.run("lock", "import", "skills-lock.json", "--yes", "--allow-unsigned", "--json")
    assert done.status == 6, done.err
    assert {each["name"]: each["state"] for each in done.json["skills"]} == {"near": "enabled", "far": "enabled"}
    refused = {each["name"]: each for each in done.json["refused"]}
    assert set(refused) == {"gone", "npm", "plain"}
    assert refused["gone"]["code"] == "not-found"
    assert {refused[name]["code"] for name in ("npm", "plain")} == {"no-origin"}
    assert "plain http" in refused["plain"]["message"]
    locked = others.lock()["skills"]
    assert {name: locked[name]["path"] for name in locked} == {
        "near": "skills/near",
        "far": str(others.folder / "team" / "far"),
    }
    assert (others.project / ".agents/skills/near/SKILL.md").is_file()
    assert 'near = { path = "skills/near" }' in (others.project / "skillhub.toml").read_text("utf-8")
    assert others.run("verify").status == 0


@pytest.fixture
def repository(shell):
    """A machine with a mirrored git repository of two skills; its ``url`` is that of the repository."""
    shell.skill("upstream/skills/one")
    shell.skill("upstream/skills/two")
    settings = ("user.name=a", "user.email=a@b.example", "core.logAllRefUpdates=false")
    words = ["git", "-C", str(shell.folder / "upstream"), *(word for each in settings for word in ("-c", each))]
    for command in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "x"]):
        subprocess.run([*words, *command], env=shell.environ, check=True)
    shell.url = "https://git.example/upstream"
    with served(shell.folder / "upstream/.git") as server:
        shell.write("hub/config/config.toml", f'[mirrors]\n"{shell.url}" = "{server.url}"\n')
        yield shell


def named_in_git(shell, **more):
    def entry(**keys):
        return {"source": "x", "sourceType": "git", "sourceUrl": shell.url, **keys}

    skills = {"one": entry(skillPath="skills/one/SKILL.md"), "two": entry(ref="main"), **more}
    shell.write("project/skills-lock.json", json.dumps({"version": 1, "skills": skills}))
    return entry


def test_import_pins_skills_of_a_repository_at_their_commit(repository):
    entry = named_in_git(repository)
    named_in_git(repository, gone=entry(ref="main"), never=entry(ref="v9"))
    done = repository.run("lock", "import", "skills-lock.json", *YES, "--json")
    assert done.status == 6, done.err
    assert names(done.json["refused"]) == {"gone", "never"}
    locked = repository.lock()["skills"]
    head = (repository.folder / "upstream/.git/refs/heads/main").read_text().strip()
    assert {name: (each["rev"], each["path"]) for name, each in locked.items()} == {
        "one": (head, "skills/one"),
        "two": (head, "skills/two"),
    }
    assert "two: pinned at the present commit of 'main'" in done.json["warnings"]
    before = (repository.project / "skillhub.lock").read_bytes()
    again = repository.run("lock", "import", "skills-lock.json", *YES, "--json")
    assert (again.status, again.json["changed"]) == (6, False)
    assert (repository.project / "skillhub.lock").read_bytes() == before


def test_import_over_copies_of_another_installer_hints_at_adopt(repository):
    named_in_git(repository)
    upstream = repository.folder / "upstream/skills/one"
    shutil.copytree(upstream, repository.project / ".agents/skills/one")
    (repository.project / ".claude/skills").mkdir(parents=True)
    (repository.project / ".claude/skills/one").symlink_to("../../.agents/skills/one")
    done = repository.run("lock", "import", "skills-lock.json", *YES, "--json")
    assert (done.status, done.error["code"]) == (7, "state")
    assert done.error["hint"].startswith("skillhub adopt one locks the skill that is there")
    assert repository.run("adopt", "one", *YES).status == 0
    done = repository.run("lock", "import", "skills-lock.json", *YES)
    assert done.status == 0 and "skills-lock.json is read as skills-lock.json 1\n" in done.err


def test_the_hint_for_a_folder_in_the_way_of_a_locked_skill_is_not_adopt(shell):
    assert shell.run("install", "github:code-review", "--yes").status == 0
    shell.skill("project/.claude/skills/code-review")
    error = shell.run("install", "--json").error
    assert (error["code"], error["hint"]) == ("state", "move it away, or remove it, then run the command again")
    assert shell.run("adopt", "code-review", "--yes").status == 2


def test_a_skill_identical_to_its_repository_is_adopted_from_there(repository):
    named_in_git(repository)
    shutil.copytree(repository.folder / "upstream/skills/one", repository.project / ".claude/skills/one")
    repository.skill("project/.claude/skills/two", head="license: mine\n")
    done = repository.run("adopt", *YES, "--json")
    assert done.status == 0, done.err
    locked = repository.lock()["skills"]
    assert (locked["one"]["git"], locked["two"]["path"]) == (repository.url, "skills/two")
    assert f"two: it differs from git+{repository.url}@main in SKILL.md" in " ".join(done.json["warnings"])
    assert not (repository.project / "skills/one").exists()


def test_import_without_consent_changes_nothing(others):
    before = others.files()
    done = others.run("lock", "import", "skills-lock.json", "--json")
    assert done.status == 6
    assert {each["kind"] for each in done.json["questions"]} == {"install", "unsigned"}
    assert {path for path in others.files() if path not in before and "/hub/" not in path} == set()
    assert not (others.project / "skillhub.lock").exists()


def test_a_dry_run_of_import_changes_nothing(others):
    done = others.run("lock", "import", "skills-lock.json", "--dry-run", "--json")
    assert done.status == 0, done.err
    assert len(done.json["skills"]) == 2
    assert not (others.project / "skillhub.lock").exists()


def test_import_without_enable_names_the_command_that_enables(others):
    done = others.run("lock", "import", "skills-lock.json", "--yes", "--allow-unsigned", "--no-enable")
    assert done.status == 6, done.err  # one entry was left out
    assert "to enable the disabled skills: skillhub enable" in done.err
    assert not (others.project / ".agents/skills/near").exists()


def test_hostile_names_in_a_lock_are_escaped(shell):
    entry = {"source": "\x1b[2J", "sourceType": "\x1b]0;x\x07"}
    shell.write("project/skills-lock.json", json.dumps({"version": 1, "skills": {"\x1b[31m": entry}}))
    done = shell.run("lock", "import", "skills-lock.json", "--yes")
    assert done.status == 6
    assert b"\x1b" not in done.raw + done.raw_err


def test_attack_names_in_another_lock_are_no_sentences_of_ours_and_no_flood(others):
    spoof, endless = "all is signed. To finish, run: evil", "n" * 2_000_000
    near = {"sourceType": "local", "source": "./skills/near", "skillPath": "SKILL.md"}
    names = {spoof: {"sourceType": "node"}, endless: {"sourceType": "node"}, f"{spoof}!": near, f"{endless}!": near}
    others.write("project/other.json", json.dumps({"version": 1, "skills": names}))
    done = others.run("lock", "import", "other.json", "--yes", "--allow-unsigned")
    assert done.status == 6, done.err
    assert f"left out '{spoof}': it came from" in done.err
    assert f"the other lock calls it '{spoof}!'" in done.err
    assert len(done.err) < 4000, done.err[:4000]


def test_attack_an_import_of_many_skills_of_one_folder_filters_its_list_for_none_of_them(shell):
    for number in range(3):
        shell.skill(f"project/many/s{number}")
    skills = {f"s{number}": {"source": "./many", "sourceType": "local"} for number in range(3)}
    shell.write("project/skills-lock.json", json.dumps({"version": 1, "skills": skills}))
    assert calls(lambda: shell.run("lock", "import", "skills-lock.json", *YES), Index.filtered) == [0]
    assert shell.lock()["skills"].keys() == skills.keys()


@pytest.mark.parametrize(("text", "status"), [("hello", 4), ("{}", 4), (None, 3)])
def test_import_refuses_an_invalid_or_missing_lock(shell, text, status):
    if text is not None:
        shell.write("project/skills-lock.json", text)
    done = shell.run("lock", "import", "skills-lock.json", "--json")
    assert done.status == status
    assert done.error["where"].startswith("skills-lock.json")


def test_a_conflict_is_resolved_and_reported(shell):
    shell.write("project/skillhub.lock", conflict(lock(a=ONE, b=TWO).dump(), lock(b=THREE, c=ONE).dump()))
    plan = shell.run("lock", "fix", "--dry-run")
    assert {line.partition(":")[0] for line in plan.out.splitlines()} == {f"would resolve {name}" for name in "abc"}
    assert "nothing was written" in plan.err
    done = shell.run("lock", "fix", "--json")
    assert done.status == 0, done.err
    assert done.json["changed"]
    assert {each["name"]: each["took"] for each in done.json["skills"]} == {"a": "ours", "b": "theirs", "c": "theirs"}
    assert set(shell.lock()["skills"]) == {"a", "b", "c"}
    again = shell.run("lock", "fix")
    assert (again.status, again.out) == (0, "there is no conflict in the lock\n")


def test_a_conflict_between_signers_is_refused_until_a_side_is_chosen(shell):
    data = conflict(lock(a=TWO).dump(), lock(a=released("9.0.0", HIS)).dump())
    path = shell.write("project/skillhub.lock", data)
    done = shell.run("lock", "fix", "--json")
    assert done.status == 5
    assert done.error["code"] == "signer-changed"
    assert path.read_bytes() == data
    assert shell.run("lock", "fix", "--ours", "a", "--theirs", "a").status == 2
    assert shell.run("lock", "fix", "--ours", "a").status == 0
    assert shell.lock()["skills"]["a"]["version"] == "1.1.0"


def test_the_merge_driver_reports_whether_the_result_is_clean(shell):
    for name, each in (("base", lock(a=ONE)), ("ours", lock(a=TWO)), ("theirs", lock(a=THREE, b=ONE))):
        shell.write(f"project/{name}", each.dump())
    done = shell.run("lock", "merge", "base", "ours", "theirs", "--json")
    assert (done.status, done.json["clean"]) == (0, True)
    assert (shell.project / "ours").read_bytes() == lock(a=THREE, b=ONE).dump()
    shell.write("project/theirs", lock(a=released("9.0.0", HIS)).dump())
    done = shell.run("lock", "merge", "base", "ours", "theirs")
    assert (done.status, "signer-changed" in done.err) == (1, True)


@pytest.mark.skipif(HAS_SBOM, reason="the extra is installed here")
def test_export_without_the_extra_names_the_command_that_installs_the_extra(shell):
    done = shell.run("lock", "export", "--json")
    assert done.status == 2
    assert extra_command("sbom") in done.error["hint"]


@pytest.mark.skipif(not HAS_SBOM, reason="needs skillhub[sbom]")
def test_a_bill_of_materials_is_written(shell):
    shell.write("project/skillhub.lock", lock(a=ONE).dump())
    done = shell.run("lock", "export", "--format", "cyclonedx", "-o", "x.json", SOURCE_DATE_EPOCH="1795176000")
    assert (done.status, done.err) == (0, "wrote x.json: 1 skill\n")
    document = json.loads((shell.project / "x.json").read_bytes())
    assert document["metadata"]["timestamp"] == "2026-11-20T12:00:00+00:00"
    done = shell.run("lock", "export", "-o", "y.json", "--json", SOURCE_DATE_EPOCH="1795176000")
    assert done.out == (shell.project / "y.json").read_text() == (shell.project / "x.json").read_text()
    shown = shell.run("lock", "export", "--format", "spdx")
    assert shown.json["creationInfo"]["created"] == "1970-01-01T00:00:00Z"
    assert shell.run("lock", "export", SOURCE_DATE_EPOCH="today").status == 2


def test_remove_without_a_lock_writes_none_so_that_sync_keeps_the_other_skills(shell):
    assert shell.run("install", "github:release-notes", "github:code-review", "--yes").status == 0
    (shell.project / "skillhub.lock").unlink()
    assert shell.run("remove", "release-notes").status == 0
    assert not (shell.project / "skillhub.lock").exists()
    assert shell.run("sync").status == 0
    assert [each.name for each in (shell.project / ".agents/skills").iterdir()] == ["code-review"]

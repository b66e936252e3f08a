"""``sync`` and the states that it restores or leaves: what it, ``list``, ``verify`` and ``remove`` say of them."""

import json
import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from skillhub.disk import proved
from tests.support.cli import Shell, run_code


def test_sync_warns_about_a_skill_read_from_outside_of_the_project(shell):
    path = shell.skill("beside/plain")
    shell.run("install", path, "-y", "--allow-unsigned")
    assert "warning" not in shell.run("sync").err
    shell.run("cache", "gc")
    for each in (shell.hub / "data" / "store").iterdir():
        each.rename(shell.folder / each.name)
    for each in (".agents", ".claude"):  # without copies, which sync would store again
        shutil.rmtree(shell.project / each, ignore_errors=True)
    done = shell.run("sync")
    assert done.status == 0
    assert f"warning: plain: {path} is outside the project" in done.err.replace("\n", " ")


def test_a_list_says_of_each_locked_skill_whether_it_is_edited(shell, monkeypatch):
    monkeypatch.setattr(proved, "GRAIN", 0)
    for name in ("code-review", "release-notes"):
        assert shell.run("install", f"github:{name}", "--yes").status == 0
    edits = []
    for _ in range(3):  # hashed, then known from the index
        edits.append({each["name"]: each["edited"] for each in shell.run("list", "--json").json["skills"]})
        shell.run("sync")
    assert edits == [{"code-review": [], "release-notes": []}] * 3
    shell.write("project/.agents/skills/code-review/SKILL.md", "edited")
    rows = shell.run("list", "--json").json["skills"]
    assert [len(each["edited"]) for each in rows] == [1, 0]


def test_many_warnings_of_one_kind_are_counted(shell):
    for number in range(14):
        shell.skill(f"beside/some/s{number}")
    some, names = str(shell.folder / "beside/some"), [f"s{number}" for number in range(14)]
    said = {}
    for flag in ("--project=.", "--verbose", "--quiet"):
        done = shell.run("install", some, "--all", "-y", "--allow-unsigned", flag)
        assert done.status == 0 and shell.run("remove", *names).status == 0
        said[flag] = done.err
    counts = {flag: text.count("is outside the project") for flag, text in said.items()}
    assert counts == {"--project=.": 10, "--verbose": 14, "--quiet": 1}
    assert "warning: 4 more of this kind, which --verbose lists\n" in said["--project=."]
    assert "of this kind" not in said["--verbose"] and "warning: 13 more of this kind" in said["--quiet"]


def test_verify_names_the_command_that_completes_a_lock_which_sync_leaves_alone(shell):
    for name in ("code-review", "release-notes"):
        assert shell.run("install", f"github:{name}", "--yes").status == 0
    path = shell.project / "skillhub.lock"
    whole = path.read_bytes()
    lock = json.loads(whole)
    del lock["skills"]["code-review"]
    path.write_text(json.dumps(lock, indent=2, sort_keys=True) + "\n")
    done = shell.run("verify")
    assert (done.status, done.err) == (1, "skillhub install completes the lock from skillhub.toml\n")
    assert "the lock lacks the skill" in done.out and "[not-enabled]" in done.out
    assert shell.run("sync").status == 0
    assert shell.run("verify").status == 1
    assert shell.run("install", "--yes").status == 0
    assert (shell.run("verify").status, path.read_bytes()) == (0, whole)
    intent = shell.project / "skillhub.toml"
    intent.write_text("".join(line for line in intent.read_text().splitlines(True) if "code-review" not in line))
    path.write_text(json.dumps(lock, indent=2, sort_keys=True) + "\n")
    done = shell.run("verify")
    assert (done.status, done.err) == (1, "skillhub sync removes copies that are not enabled\n")
    assert shell.run("sync").status == 0
    assert shell.run("verify").status == 0


def test_a_skill_that_only_the_intent_names_is_listed_and_removed(shell):
    intent = shell.write("project/skillhub.toml", '[skills]\ncode-review = "*"\nrelease-notes = "*"\n')
    assert shell.run("list").out == (
        "skillhub.toml names code-review, release-notes, and the lock does not: skillhub install\n"
    )
    assert shell.run("remove", "code-review", "--dry-run").status == 0
    assert "code-review" in intent.read_text()
    done = shell.run("remove", "code-review")
    assert (done.status, "code-review" in intent.read_text()) == (0, False)
    assert "code-review, which skillhub.lock does not name, was removed" in done.err
    assert sorted(path.name for path in shell.project.iterdir()) == ["skillhub.toml"]
    assert shell.run("install", "--yes").status == 0
    assert "names" not in shell.run("list").out.splitlines()[-1]


def test_the_hint_about_an_unknown_name_is_about_that_name(shell):
    assert shell.run("install", "github:code-review", "--yes").status == 0
    (shell.project / "skillhub.lock").unlink()
    for command in ("verify", "diff", "update", "patch"):
        assert shell.run(command, "code-review", "--json").error["hint"] == "skillhub install locks it", command
    error = shell.run("remove", "code-review", "nope", "--json").error
    assert error["message"] == "no skill named 'nope' is installed here"
    assert error["hint"].startswith("skillhub list shows")


def test_what_verify_cannot_read_is_made_readable_first():
    """``sync`` exits 7 until then."""
    with TemporaryDirectory() as folder:  # pytest's own can be reached by its user alone
        shell = Shell(Path(folder))
        assert shell.run("install", "github:code-review", "--yes").status == 0
        if os.getuid() == 0:  # permissions do not hold root back
            for path in (shell.folder, *shell.folder.rglob("*")):
                os.chown(path, 65534, 65534)
        code = """
import os, sys
from skillhub.cli.main import main
if os.getuid() == 0:
    os.setuid(65534)
os.chmod(".agents/skills/code-review", 0)
status = main(["verify"])
os.chmod(".agents/skills/code-review", 0o755)
sys.exit(status)
"""
        done = run_code(code, cwd=shell.project, environ=shell.environ)
    assert (done.status, done.err) == (1, "to make it readable: chmod -R u+rX .agents/skills/code-review\n"), done.out

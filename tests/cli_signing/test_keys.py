"""``key`` as a person or a script uses it."""

import os
import stat
import subprocess

import pytest

from skillhub.trust.keys import PrivateKey

SECRET = "SKILLHUB_PASSPHRASE"


@pytest.fixture
def locked(shell):
    """A key that ``openssl`` made under the passphrase ``secret``."""
    path = shell.folder / "their.pem"
    how = ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-aes256", "-pass", "pass:secret"]
    subprocess.run(["openssl", "genpkey", *how, "-out", path], check=True, capture_output=True)
    return path


def test_show_gives_the_public_half_and_nothing_private(shell):
    made = shell.run("key", "new", "work", "--json").json
    shown = shell.run("key", "show", "work", "--json").json
    with open(made["public_path"]) as file:
        assert shown == {**made, "public_key": file.read()}
    talked = shell.run("key", "show", "work")
    assert talked.status == 0
    assert made["fingerprint"] in talked.out
    assert shown["public_key"] in talked.out
    assert "PRIVATE KEY" not in talked.out + str(shown)


def test_show_of_no_key(shell):
    done = shell.run("key", "show", "none", "--json")
    assert (done.status, done.error["code"]) == (3, "not-found")


def test_a_folder_of_keys_that_cannot_be_read_is_told(shell):
    folder = os.path.dirname(shell.run("key", "new", "work", "--json").json["public_path"])
    os.rename(folder, f"{folder}-before")
    os.symlink("keys", folder)
    done = shell.run("key", "list", "--json")
    assert (done.status, done.error["code"], done.error["where"]) == (7, "state", folder)


def test_import_then_sign(shell):
    key = PrivateKey.generate("p384")
    path = shell.write("release.pem", key.pem())
    skill = shell.skill("skill")
    taken = shell.run("key", "import", path, "--name", "release", "--json").json
    assert (taken["name"], taken["kind"], taken["fingerprint"]) == ("release", "p384", key.public.fingerprint)
    assert stat.S_IMODE(os.stat(taken["path"]).st_mode) == 0o600
    assert [{"schema": 1, **each} for each in shell.run("key", "list", "--json").json["keys"]] == [taken]
    signed = shell.run("sign", skill, "--key", "release", "--json").json
    assert signed["fingerprint"] == key.public.fingerprint


def test_import_keeps_a_key_under_the_passphrase_that_is_given(shell, locked):
    taken = shell.run("key", "import", locked, "--json", **{SECRET: "secret"}).json
    with open(taken["path"]) as file:
        assert "ENCRYPTED" in file.read()
    skill = shell.skill("skill")
    without = shell.run("sign", skill, "--json").error
    assert (without["code"], "SKILLHUB_PASSPHRASE" in without["hint"]) == ("passphrase-needed", True)
    assert shell.run("sign", skill, **{SECRET: "secret"}).status == 0


def test_import_asks_for_the_old_passphrase_and_for_a_new_one(shell, locked):
    say = [
        ("passphrase of", "secret\n"),
        ("a passphrase (empty for none)", "new\n"),
        ("repeat the passphrase", "new\n"),
    ]
    assert shell.at_terminal("key", "import", locked, say=say).status == 0
    skill = shell.skill("skill")
    assert shell.run("sign", skill, **{SECRET: "secret"}).status == 4
    assert shell.run("sign", skill, **{SECRET: "new"}).status == 0


@pytest.mark.parametrize(("given", "status"), [({}, 2), ({SECRET: "wrong"}, 4)])
def test_import_without_the_passphrase_keeps_nothing(shell, locked, given, status):
    before = shell.files()
    done = shell.run("key", "import", locked, "--json", **given)
    assert done.status == status
    assert shell.files() == before


def test_import_never_goes_over_another(shell):
    path = shell.write("other.pem", PrivateKey.generate().pem())
    shell.run("key", "new")
    before = shell.files()
    done = shell.run("key", "import", path, "--json")
    assert (done.status, done.error["code"]) == (2, "usage")
    assert shell.files() == before


def test_dry_run_of_import_keeps_nothing(shell):
    path = shell.write("other.pem", PrivateKey.generate().pem())
    before = shell.files()
    assert shell.run("key", "import", path, "--dry-run").status == 0
    assert shell.files() == before

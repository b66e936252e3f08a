"""``key`` for a user at a terminal and for a script."""

import os
import stat
import subprocess

import pytest

from skillhub.trust.keys import PrivateKey

SECRET = "SKILLHUB_PASSPHRASE"


@pytest.fixture
def locked(shell):
    """A key that ``openssl`` created with the passphrase ``secret``."""
    path = shell.folder / "their.pem"
    how = ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-aes256", "-pass", "pass:secret"]
    subprocess.run(["openssl", "genpkey", *how, "-out", path], check=True, capture_output=True)
    return path


def test_show_prints_the_public_half_only(shell):
    made = shell.run("key", "new", "work", "--json").json
    shown = shell.run("key", "show", "work", "--json").json
    with open(made["public_path"]) as file:
        assert shown == {**made, "public_key": file.read()}
    shown_as_text = shell.run("key", "show", "work")
    assert shown_as_text.status == 0
    assert made["fingerprint"] in shown_as_text.out
    assert shown["public_key"] in shown_as_text.out
    assert "PRIVATE KEY" not in shown_as_text.out + str(shown)


def test_show_of_a_missing_key_is_not_found(shell):
    done = shell.run("key", "show", "none", "--json")
    assert (done.status, done.error["code"]) == (3, "not-found")


def test_an_unreadable_folder_of_keys_is_reported(shell):
    folder = os.path.dirname(shell.run("key", "new", "work", "--json").json["public_path"])
    os.rename(folder, f"{folder}-before")
    os.symlink("keys", folder)
    done = shell.run("key", "list", "--json")
    assert (done.status, done.error["code"], done.error["where"]) == (7, "state", folder)


def test_an_imported_key_signs(shell):
    key = PrivateKey.generate("p384")
    path = shell.write("release.pem", key.pem())
    skill = shell.skill("skill")
    taken = shell.run("key", "import", path, "--name", "release", "--json").json
    assert (taken["name"], taken["kind"], taken["fingerprint"]) == ("release", "p384", key.public.fingerprint)
    assert stat.S_IMODE(os.stat(taken["path"]).st_mode) == 0o600
    assert [{"schema": 1, **each} for each in shell.run("key", "list", "--json").json["keys"]] == [taken]
    signed = shell.run("sign", skill, "--key", "release", "--json").json
    assert signed["fingerprint"] == key.public.fingerprint


def test_import_encrypts_the_key_with_the_given_passphrase(shell, locked):
    taken = shell.run("key", "import", locked, "--json", **{SECRET: "secret"}).json
    with open(taken["path"]) as file:
        assert "ENCRYPTED" in file.read()
    skill = shell.skill("skill")
    without = shell.run("sign", skill, "--json").error
    assert (without["code"], "SKILLHUB_PASSPHRASE" in without["hint"]) == ("passphrase-needed", True)
    assert shell.run("sign", skill, **{SECRET: "secret"}).status == 0


def test_import_asks_for_the_old_and_a_new_passphrase(shell, locked):
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
def test_import_without_the_passphrase_stores_nothing(shell, locked, given, status):
    before = shell.files()
    done = shell.run("key", "import", locked, "--json", **given)
    assert done.status == status
    assert ("the passphrase is wrong" in done.error["message"]) == bool(given)
    assert shell.files() == before


def test_import_of_an_absent_file_says_what_to_name(shell):
    error = shell.run("key", "import", "nope", "--json").error
    assert (error["code"], error["hint"]) == (
        "not-found",
        "name the PEM file of a private key; skillhub key new creates a key",
    )


def test_import_does_not_overwrite_a_key(shell):
    path = shell.write("other.pem", PrivateKey.generate().pem())
    shell.run("key", "new")
    before = shell.files()
    done = shell.run("key", "import", path, "--json")
    assert (done.status, done.error["code"]) == (2, "usage")
    assert shell.files() == before


def test_a_dry_run_of_import_stores_nothing(shell):
    path = shell.write("other.pem", PrivateKey.generate().pem())
    before = shell.files()
    assert shell.run("key", "import", path, "--dry-run").status == 0
    assert shell.files() == before

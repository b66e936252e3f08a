"""Keys of the user on disk: made, imported from ``openssl``, loaded; private keys are readable only by the user."""

import os
import stat
import subprocess
import threading
from pathlib import Path

import pytest

from skillhub.disk.home import Home
from skillhub.errors import FormatError, NotFound, PassphraseNeeded, UsageError
from skillhub.project.keys import Keys, read_key
from skillhub.trust.keys import PrivateKey
from tests.support.hearing import heard_by

FORMS = {
    "pkcs8": "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256",
    "sec1 with its parameters": "openssl ecparam -name prime256v1 -genkey",
    "p384": "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-384",
    "ed25519": "openssl genpkey -algorithm ED25519",
}
LOCKED = {
    "pkcs8": "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -aes256 -pass pass:secret",
    "proc-type": "openssl ecparam -name prime256v1 -genkey -noout | openssl ec -aes256 -passout pass:secret",
    "ed25519": "openssl genpkey -algorithm ED25519 -aes256 -pass pass:secret",
}


@pytest.fixture
def keys(tmp_path):
    return Keys(Home.of({"SKILLHUB_HOME": str(tmp_path / "hub")}))


def made_by(command, folder):
    done = subprocess.run(command, shell=True, check=True, capture_output=True)
    path = folder / "their.pem"
    path.write_bytes(done.stdout)
    return path


def public_by_openssl(path, passphrase="none"):
    ask = ["openssl", "pkey", "-in", path, "-pubout", "-passin", f"pass:{passphrase}"]
    return subprocess.run(ask, check=True, capture_output=True).stdout


@pytest.mark.parametrize("form", FORMS)
def test_key_of_openssl_is_imported(keys, tmp_path, form):
    path = made_by(FORMS[form], tmp_path)
    before = path.read_bytes()
    key = keys.add("work", read_key(str(path), None), None)
    public = public_by_openssl(path)
    assert Path(key.public_path).read_bytes() == public
    assert public_by_openssl(key.path) == public
    assert keys.load("work", None).public.fingerprint == key.fingerprint
    assert path.read_bytes() == before
    assert (keys.all(), keys.get("work")) == ([key], key)


@pytest.mark.parametrize("form", LOCKED)
def test_encrypted_key_of_openssl_is_imported_with_a_new_passphrase(keys, tmp_path, form):
    path = made_by(LOCKED[form], tmp_path)
    assert b"ENCRYPTED" in path.read_bytes()
    with pytest.raises(PassphraseNeeded):
        read_key(str(path), None)
    with pytest.raises(FormatError):
        read_key(str(path), b"another")
    key = keys.add("work", read_key(str(path), b"secret"), b"new")
    assert Path(key.path).read_bytes().startswith(b"-----BEGIN ENCRYPTED PRIVATE KEY-----")
    assert public_by_openssl(key.path, "new") == public_by_openssl(path, "secret")
    with pytest.raises(FormatError):
        keys.load("work", b"secret")
    assert keys.load("work", b"new").public.fingerprint == key.fingerprint


@pytest.mark.skipif(os.name == "nt", reason="Windows has no permission bits")
def test_private_key_is_readable_only_by_its_owner(keys):
    key = keys.add("work", PrivateKey.generate(), None)
    assert stat.S_IMODE(os.stat(key.path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(key.public_path).st_mode) == 0o644


@pytest.mark.parametrize("left", ["both", "private", "public"])
def test_key_never_overwrites_another(keys, left):
    old = keys.new("work", "p256", None)
    if left != "both":
        os.unlink(old.public_path if left == "private" else old.path)
    kept = {path: path.read_bytes() for path in (Path(old.path), Path(old.public_path)) if path.exists()}
    for take in (lambda: keys.add("work", PrivateKey.generate(), None), lambda: keys.new("work", "p256", None)):
        with pytest.raises(UsageError):
            take()
    assert {path: path.read_bytes() for path in kept} == kept
    assert len(kept) == len(os.listdir(os.path.dirname(old.path)))


def test_attack_two_commands_that_make_one_key_leave_halves_that_belong_together(keys):
    refused = []

    def make():
        try:
            keys.new("work", "p256", None)
        except UsageError as error:
            refused.append(error)

    second = threading.Thread(target=make)

    def begin_second(event, arguments):
        if event == "os.rename" and not second.ident:
            second.start()
            second.join(1)  # without the lock it makes its whole key meanwhile

    with heard_by(begin_second):
        make()
    second.join()
    assert len(refused) == 1
    assert keys.load("work", None).public.fingerprint == keys.get("work").fingerprint


@pytest.mark.parametrize("name", ["", "../work", "Work", "a/b", "work.pub", "-"])
def test_invalid_name_writes_no_file(keys, tmp_path, name):
    with pytest.raises(UsageError):
        keys.add(name, PrivateKey.generate(), None)
    with pytest.raises(NotFound):
        keys.get(name)
    assert list(tmp_path.rglob("*.pem")) == []


def test_path_is_read_as_a_file_despite_a_key_of_its_name(keys, tmp_path, monkeypatch):
    keys.new("work", "p256", None)
    their = PrivateKey.generate()
    (tmp_path / "work").write_bytes(their.pem())
    monkeypatch.chdir(tmp_path)
    assert read_key("work", None).public == their.public
    assert keys.load("work", None).public != their.public


def test_file_may_be_a_link_to_the_key(tmp_path):
    their = PrivateKey.generate()
    (tmp_path / "mounted").write_bytes(their.pem())
    (tmp_path / "key.pem").symlink_to("mounted")
    assert read_key(str(tmp_path / "key.pem"), None).public == their.public


@pytest.mark.parametrize("command", ["openssl genrsa 2048", "openssl ecparam -name secp521r1 -genkey -noout"])
def test_unsupported_key_is_refused(tmp_path, command):
    with pytest.raises(FormatError):
        read_key(str(made_by(command, tmp_path)), None)


@pytest.mark.parametrize("data", [b"", b"-----BEGIN PRIVATE KEY-----\n", b"\xff" * 99, b"x" * (1 << 17)])
def test_file_without_a_key_is_refused(tmp_path, data):
    (tmp_path / "key").write_bytes(data)
    with pytest.raises(FormatError):
        read_key(str(tmp_path / "key"), None)
    with pytest.raises(NotFound):
        read_key(str(tmp_path / "none"), None)

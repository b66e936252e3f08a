"""A private key in a skill's folder: no command packs, signs or publishes it."""

from __future__ import annotations

import base64
import json
import shutil
import sys
import textwrap

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from skillhub.trust.keys import PrivateKey, has_private_key
from tests.support.published import tree_of

KEY = PrivateKey.from_seed(b"\7" * 32)
PLAIN = KEY.pem()
LOCKED = KEY.pem(b"opensesame")
EDWARDS = PrivateKey.from_seed(b"\7" * 32, "ed25519").pem()
CURVE = KEY._key.private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
)
OLD = KEY._key.private_bytes(
    serialization.Encoding.PEM,
    serialization.PrivateFormat.TraditionalOpenSSL,
    serialization.BestAvailableEncryption(b"opensesame"),
)
HIDDEN = {
    "plain": PLAIN,
    "encrypted": LOCKED,
    "Ed25519": EDWARDS,
    "P-384": PrivateKey.generate("p384").pem(),
    "an older form": CURVE,
    "an older form, encrypted": OLD,
    "behind other text": b"# notes\n" * 999 + LOCKED + b"\nmore",
    "without its last line": PLAIN.rpartition(b"-----END")[0],
    "Windows": PLAIN.replace(b"\n", b"\r\n"),
    "one line": PLAIN.replace(b"\n", b""),
    "blanks": PLAIN.replace(b"\n", b" "),
    "JSON": json.dumps({"key": PLAIN.decode()}).encode(),
    "YAML": b"key: |\n" + textwrap.indent(PLAIN.decode(), "    ").encode(),
    "comment": textwrap.indent(PLAIN.decode(), "# ").encode(),
    "shell": b'KEY="' + LOCKED.replace(b"\n", b"\\n") + b'"',
    "UTF-16": PLAIN.decode().encode("utf-16"),
    "after an example": b"-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----\n" + PLAIN,
    "after a public key": KEY.public.pem + PLAIN,
}
HARMLESS = {
    "a public key": KEY.public.pem,
    "an example": b"-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49...\n-----END PRIVATE KEY-----\n",
    "a header": b"grep -r -e '-----BEGIN PRIVATE KEY-----' .",
    "a key that signs no skills": rsa.generate_private_key(65537, 1024).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ),
    "noise": b"-----BEGIN PRIVATE KEY-----" + base64.b64encode(b"\1" * 999),
}


@pytest.mark.parametrize("form", HIDDEN)
def test_attack_a_private_key_in_any_form_is_found(form):
    assert has_private_key(HIDDEN[form])


@pytest.mark.parametrize("form", HARMLESS)
def test_public_keys_and_other_text_are_not_taken_for_a_private_key(form):
    assert not has_private_key(HARMLESS[form])


def test_attack_a_key_that_signs_no_skills_is_not_read():
    """To read a long one, whose numbers are tested for primality, takes minutes."""
    read, before = [], sys.getprofile()
    sys.setprofile(lambda frame, event, function: event == "c_call" and read.append(function.__name__))
    try:
        for form in ("a key that signs no skills", "an example"):
            has_private_key(HARMLESS[form])
    finally:
        sys.setprofile(before)
    assert "sub" in read
    assert "load_der_private_key" not in read


@pytest.mark.parametrize("data", [PLAIN, LOCKED], ids=["plain", "encrypted"])
def test_attack_no_command_packs_signs_or_publishes_a_private_key(shell, data):
    registry = shell.folder / "registry"
    assert shell.run("registry", "init", registry).status == 0
    assert shell.run("key", "new").status == 0
    path = shell.skill("src/greeting", head='metadata:\n  version: "1.0.0"\n')
    assert shell.run("registry", "init", path / "own").status == 0
    (path / "own/keys").rename(shell.folder / "kept")
    (path / "notes").mkdir()
    (path / "notes/of mine.txt").write_bytes(data)
    before = tree_of(shell.folder)
    for words in (
        ["pack", path],
        ["pack", path, "--format", "tar.gz", "--dry-run"],
        ["sign", path],
        ["registry", "add", registry, path],
        ["publish", path, "--to", registry, "--yes", "--accept", "findings"],
        ["publish", path, "--to", registry, "--yes", "--key", "default"],
    ):
        done = shell.run(*words, "--json")
        assert (done.status, done.error["code"], "notes/of mine.txt" in done.error["message"]) == (2, "usage", True)
        assert tree_of(shell.folder) == before, words
    (path / "notes/of mine.txt").unlink()
    assert shell.run("pack", path).status == 0


def test_attack_registry_add_refuses_an_archive_with_a_private_key(shell, tmp_path):
    registry = shell.folder / "registry"
    assert shell.run("registry", "init", registry).status == 0
    path = shell.skill("src/greeting", head='metadata:\n  version: "1.0.0"\n', **{"key.pem": PLAIN.decode()})
    packed = shutil.make_archive(str(tmp_path / "greeting"), "zip", path)
    done = shell.run("registry", "add", registry, packed, "--json")
    assert (done.status, "key.pem" in done.error["message"]) == (2, True), done.err

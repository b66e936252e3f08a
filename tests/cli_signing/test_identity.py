"""``publisher trust --identity``, with the package ``sigstore`` or without it."""

import json
import sys

import pytest

from fixtures.attacks_oms.forge import statement
from skillhub import trust
from skillhub.disk.installer import extra_command
from skillhub.model.tree import SIGNATURE, File, Tree
from skillhub.trust.keys import Identity
from tests.support.sigstore import ISSUER, NAME, Sigstore

OWN = Sigstore()
WHO = ("--identity", NAME, "--issuer", ISSUER)


@pytest.fixture
def bare(shell, monkeypatch):
    """The same machine without an importable ``sigstore``, even if it was imported already."""
    for name in [each for each in sys.modules if each.startswith(("sigstore.", "skillhub.trust.sigstore"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr(trust, "sigstore", raising=False)
    monkeypatch.setitem(sys.modules, "sigstore", None)
    return shell


def test_identity_is_trusted_listed_and_removed(bare):
    root = bare.write("root.json", OWN.trusted_root())
    trusted = bare.run("publisher", "trust", "acme", *WHO, "--json").json
    public = Identity(NAME, ISSUER)
    named = {"kind": "sigstore", "identity": NAME, "issuer": ISSUER}
    assert trusted["signers"] == [{**named, "fingerprint": public.fingerprint}]
    trusted = bare.run("publisher", "trust", "acme", *WHO, "--trusted-root", root, "--json").json
    own = Identity(NAME, ISSUER, OWN.trusted_root())
    assert [each["fingerprint"] for each in trusted["signers"]] == [public.fingerprint, own.fingerprint]
    assert [{"schema": 1, **each} for each in bare.run("publisher", "list", "--json").json["publishers"]] == [trusted]
    shown = bare.run("publisher", "list").out
    assert f"{NAME} ({ISSUER})" in shown
    assert bare.run("publisher", "remove", "acme", "--json").json == trusted


BAD = {
    "no issuer": (("--identity", NAME), 2),
    "no identity": (("--issuer", ISSUER), 2),
    "a root alone": (("--trusted-root", "root.json"), 2),
    "a root beside a key": (("--key", "key.pem", "--trusted-root", "root.json"), 2),
    "both a key and an identity": (("--key", "key.pem", *WHO), 2),
    "an empty identity": (("--identity", "", "--issuer", ISSUER), 2),
    "an issuer that is no URL": (("--identity", NAME, "--issuer", "github"), 4),
    "an identity that hides": (("--identity", NAME + "\u202e", "--issuer", ISSUER), 4),
    "no such root": ((*WHO, "--trusted-root", "none.json"), 3),
    "a root that is another document": ((*WHO, "--trusted-root", "other.json"), 4),
    "a root that is no text": ((*WHO, "--trusted-root", "noise"), 4),
}


@pytest.mark.parametrize("how", BAD)
def test_an_invalid_identity_is_refused_and_not_trusted(shell, how):
    shell.run("key", "new")
    shell.write("project/key.pem", (shell.hub / "state/keys/default.pub.pem").read_bytes())
    shell.write("project/root.json", OWN.trusted_root())
    shell.write("project/other.json", "{}")
    shell.write("project/noise", b"\xff\xfe\x00")
    words, status = BAD[how]
    before = shell.files()
    done = shell.run("publisher", "trust", "acme", *words, "--json")
    assert done.status == status, done.out
    assert done.error["message"]
    assert shell.files() == before


def test_without_the_extra_a_sigstore_signature_is_refused(bare):
    skill = bare.skill("skill")
    signed = statement(Tree({"SKILL.md": File((skill / "SKILL.md").read_bytes())}))
    (skill / SIGNATURE).write_text(json.dumps(OWN.sign(json.dumps(signed).encode())))
    bare.run("publisher", "trust", "acme", *WHO)
    before = bare.files()
    for flags in ((), ("--yes",), ("--yes", "--allow-unsigned")):
        done = bare.run("install", skill, *flags, "--json")
        assert (done.status, done.error["code"], done.error["reason"]) == (5, "bad-signature", "sigstore")
        assert extra_command("sigstore") in done.error["hint"]
    assert bare.files() == before
    [found] = bare.run("validate", skill, "--json").json["skills"]
    assert found["signature"] == {"status": "invalid", "identity": None, "fingerprint": None, "code": "sigstore"}

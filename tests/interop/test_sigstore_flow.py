"""A Sigstore identity from ``publisher trust`` to a changed signer; and the reference's verdict on our test data."""

import json
import os
import subprocess

import pytest
from cryptography import x509

from fixtures.attacks_oms.forge import signed, statement
from skillhub.model.tree import SIGNATURE, File, Tree
from skillhub.trust.keys import Identity
from tests.support.sigstore import ISSUER, NAME, Account, Sigstore, key_of

pytestmark = pytest.mark.interop
OWN = Sigstore()
PAYLOAD = json.dumps(statement()).encode()
MAIL = Account(names=(x509.RFC822Name("ann@acme.example"),))


@pytest.mark.parametrize("thief", [None, "promise", "witness", "signer"])
def test_the_reference_accepts_only_a_genuine_signature(tmp_path, thief):
    program = os.environ.get("SKILLHUB_MODEL_SIGNING")
    assert program, "SKILLHUB_MODEL_SIGNING names the program of model-signing"
    made = OWN.sign(PAYLOAD, **({thief: key_of("thief")} if thief else {}))
    for path, file in signed(made).items():
        place = tmp_path / "skill" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(file.data)
    (tmp_path / "trust.json").write_text(OWN.trust_config())
    who = ("--identity", NAME, "--identity_provider", ISSUER, "--trust_config", "trust.json")
    command = [program, "verify", "sigstore", "--signature", "skill/" + SIGNATURE, *who, "skill"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ("succeeded" in done.stdout + done.stderr) == (thief is None), done.stdout + done.stderr


def written(shell, account=None, **more):
    """Write a skill signed by an account of our Sigstore."""
    skill = shell.skill("forged", **more)
    tree = Tree({path: File(skill.joinpath(path).read_bytes()) for path in ("SKILL.md", *more)})
    content = statement(tree)
    (skill / SIGNATURE).write_text(json.dumps(OWN.sign(json.dumps(content).encode(), account or Account())))
    return skill


def trust(shell, name, who):
    root = shell.write("root.json", OWN.trusted_root())
    done = shell.run(
        "publisher", "trust", name, "--identity", who, "--issuer", ISSUER, "--trusted-root", root, "--json"
    )
    assert done.status == 0, done.err
    return done.json


def test_a_sigstore_signer_from_trust_to_a_refused_change(shell):
    skill = written(shell)
    assert shell.run("install", skill, "--yes", "--json").error["code"] == "bad-signature"
    [signer] = trust(shell, "acme", NAME)["signers"]
    fingerprint = Identity(NAME, ISSUER, OWN.trusted_root()).fingerprint
    assert signer == {"kind": "sigstore", "fingerprint": fingerprint, "identity": NAME, "issuer": ISSUER}
    done = shell.run("install", skill, "--yes", "--json")
    assert done.status == 0, done.err
    assert shell.lock()["skills"]["forged"]["signed_by"] == [f"sigstore:{fingerprint}:acme"]
    assert shell.run("verify").status == 0
    assert shell.run("sync").status == 0

    # An installed skill stays valid, proven by the root pinned with it.
    assert shell.run("publisher", "remove", "acme").status == 0
    for command in ("verify", "sync", "install"):
        assert shell.run(command, "--offline").status == 0, command

    trust(shell, "mallory", "ann@acme.example")
    written(shell, MAIL, more="changed")
    before = (shell.project / "skillhub.lock").read_bytes()
    done = shell.run("install", skill, "--yes", "--json")
    assert (done.status, done.error["code"]) == (5, "signer-changed")
    assert (shell.project / "skillhub.lock").read_bytes() == before


def test_another_account_of_the_same_publisher_is_accepted(shell):
    skill = written(shell)
    trust(shell, "acme", NAME)
    assert shell.run("install", skill, "--yes").status == 0
    trust(shell, "acme", "ann@acme.example")
    written(shell, MAIL, more="changed")
    done = shell.run("install", skill, "--yes", "--json")
    assert done.status == 0, done.out

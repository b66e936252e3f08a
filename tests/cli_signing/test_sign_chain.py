"""``sign --chain``: signatures with a certificate, and only those that skillhub itself accepts."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from fixtures.attacks_oms.forge import LEAF, MIDDLE, ROOT, chain, leaf_key
from skillhub.model.tree import SIGNATURE
from skillhub.trust import x509
from skillhub.trust.keys import PrivateKey

NOW = datetime.now(UTC)


def around(cert):
    """Return ``cert`` made valid around the present."""
    return replace(cert, start=NOW - timedelta(days=9), end=NOW + timedelta(days=9))


SOUND = tuple(map(around, (LEAF, MIDDLE, ROOT)))


def pem(certificates):
    return b"".join(x509.parse(der).pem for der in certificates)


def sign(shell, data, key=None):
    paths = shell.write("key.pem", (key or leaf_key()).pem()), shell.write("chain.pem", data)
    return shell.run("sign", shell.skill("skill"), "--key", paths[0], "--chain", paths[1], "--json")


def test_signature_with_a_chain_is_trusted_by_its_root(shell):
    made = chain(*SOUND)
    signed = sign(shell, pem(made)).json
    assert signed["identity"] == "CN=leaf,O=Forge"
    root = shell.write("root.pem", pem(made[-1:]))
    shell.run("publisher", "trust", "acme", "--certificate", root)
    [found] = shell.run("validate", shell.folder / "skill", "--json").json["skills"]
    assert found["signature"]["status"] == "valid"
    assert found["signature"]["identity"] == "acme"
    assert found["signature"]["fingerprint"] == x509.parse(made[-1]).fingerprint
    assert found["tree"] == signed["tree"]


def test_a_chain_without_its_root_is_trusted_by_the_root(shell):
    made = chain(*SOUND)
    assert sign(shell, pem(made[:2])).status == 0
    root = shell.write("root.pem", pem(made[-1:]))
    shell.run("publisher", "trust", "acme", "--certificate", root)
    [found] = shell.run("validate", shell.folder / "skill", "--json").json["skills"]
    assert found["signature"]["status"] == "valid"


def test_attack_a_clock_set_back_does_not_accept_an_expired_certificate(shell):
    """Signed metadata has shown a time later than the clock, and by that time the chain has expired."""
    made = chain(*SOUND)
    assert sign(shell, pem(made)).status == 0
    shell.run("publisher", "trust", "acme", "--certificate", shell.write("root.pem", pem(made[-1:])))
    shown = {"version": 1, "latest": "2100-01-01T00:00:00Z", "by": "https://registry.example"}
    (shell.hub / "state/shown-time.json").write_text(json.dumps(shown))
    [found] = shell.run("validate", shell.folder / "skill", "--json").json["skills"]
    assert found["signature"]["status"] == "invalid"
    assert found["signature"]["code"] == "certificate-expired"
    done = shell.run("install", shell.folder / "skill", "--yes", "--json")
    assert (done.status, done.error["code"]) == (5, "bad-signature")


LEAF_NOW, MIDDLE_NOW, ROOT_NOW = SOUND
YESTERDAY, TOMORROW = NOW - timedelta(days=1), NOW + timedelta(days=1)
UNSOUND = {
    "expired leaf": (replace(LEAF_NOW, end=YESTERDAY), MIDDLE_NOW, ROOT_NOW),
    "expired root": (LEAF_NOW, MIDDLE_NOW, replace(ROOT_NOW, end=YESTERDAY)),
    "not yet valid": (replace(LEAF_NOW, start=TOMORROW), MIDDLE_NOW, ROOT_NOW),
    "CA as leaf": (replace(LEAF_NOW, ca=True), MIDDLE_NOW, ROOT_NOW),
    "leaf for key agreement": (replace(LEAF_NOW, usage="agree"), MIDDLE_NOW, ROOT_NOW),
    "issuer that is no CA": (LEAF_NOW, replace(MIDDLE_NOW, ca=False, path_length=None), ROOT_NOW),
}


@pytest.mark.parametrize("flaw", UNSOUND)
@pytest.mark.parametrize("extra", [(), ("--dry-run",)], ids=["for real", "dry run"])
def test_no_signature_is_written_with_an_unsound_chain(shell, flaw, extra):
    skill = shell.skill("skill")
    key = shell.write("key.pem", leaf_key().pem())
    path = shell.write("chain.pem", pem(chain(*UNSOUND[flaw])))
    before = shell.files()
    done = shell.run("sign", skill, "--key", key, "--chain", path, "--json", *extra)
    assert (done.status, done.error["code"]) == (5, "bad-signature")
    assert shell.files() == before


def test_issuers_out_of_order_are_refused(shell):
    leaf, middle, root = chain(*SOUND)
    done = sign(shell, pem((leaf, root, middle)))
    assert (done.status, done.error["code"]) == (5, "bad-signature")
    assert not (shell.folder / "skill" / SIGNATURE).exists()


def test_a_certificate_of_another_key_is_refused(shell):
    done = sign(shell, pem(chain(*SOUND)), PrivateKey.generate())
    assert (done.status, done.error["code"]) == (2, "usage")
    assert not (shell.folder / "skill" / SIGNATURE).exists()


def test_the_old_signature_stays_if_the_new_one_is_refused(shell):
    skill = shell.skill("skill")
    shell.run("key", "new")
    assert shell.run("sign", skill).status == 0
    before = (skill / SIGNATURE).read_bytes()
    key = shell.write("key.pem", leaf_key().pem())
    path = shell.write("chain.pem", pem(chain(*UNSOUND["expired leaf"])))
    assert shell.run("sign", skill, "--key", key, "--chain", path).status == 5
    assert (skill / SIGNATURE).read_bytes() == before


@pytest.mark.parametrize("data", [b"", b"no certificate", leaf_key().public.pem])
def test_an_invalid_chain_is_refused(shell, data):
    assert sign(shell, data).status == 4
    assert not (shell.folder / "skill" / SIGNATURE).exists()


def test_a_dry_run_prints_the_answer_of_sign_and_writes_nothing(shell):
    made = pem(chain(*SOUND))
    key, path = shell.write("key.pem", leaf_key().pem()), shell.write("chain.pem", made)
    skill = shell.skill("skill")
    before = shell.files()
    dry = shell.run("sign", skill, "--key", key, "--chain", path, "--json", "--dry-run").json
    assert shell.files() == before
    assert shell.run("sign", skill, "--key", key, "--chain", path, "--json").json == dry

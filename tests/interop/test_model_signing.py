"""Against ``model-signing``, the reference of OpenSSF Model Signing: each side verifies the other's signatures.

It has many dependencies, so it has a virtual environment of its own; ``SKILLHUB_MODEL_SIGNING`` names its program.
"""

import importlib.util
import os
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from fixtures.attacks_oms.forge import KEY, LEAF, MIDDLE, ROOT, bundle, chain, leaf_key, signed
from fixtures.attacks_oms.forge import TREE as SKILL
from skillhub.errors import BadSignature
from skillhub.model.tree import SIGNATURE, File, Tree
from skillhub.trust import oms, x509
from skillhub.trust.keys import PrivateKey
from skillhub.trust.publishers import Publisher, judge
from tests.support.cli import Shell

pytestmark = pytest.mark.interop
NOW = datetime.now(UTC)
KEYS = {kind: PrivateKey.from_seed(bytes(31) + b"\x2a", kind) for kind in ("p256", "p384")}


def years(cert):
    """Return ``cert`` made valid around the present, since the reference knows no other time for some of it."""
    return replace(cert, start=NOW - timedelta(days=9), end=NOW + timedelta(days=9))


CHAIN = chain(years(LEAF), years(MIDDLE), years(ROOT))


@pytest.fixture(scope="session")
def program():
    named = os.environ.get("SKILLHUB_MODEL_SIGNING")
    if named:
        return [named]
    if importlib.util.find_spec("model_signing"):
        return [sys.executable, "-m", "model_signing"]
    pytest.fail(
        "model-signing is not here: python3 -m venv V && V/bin/pip install model-signing pyopenssl, "
        "then SKILLHUB_MODEL_SIGNING=V/bin/model_signing"
    )


@pytest.fixture
def reference(program, tmp_path):
    """Run the reference on a folder ``skill`` beside key and certificate files; return whether it succeeded."""

    def run(verb, how, *options):
        command = [*program, verb, how, "--signature", "skill/" + SIGNATURE, *options, "skill"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        output = done.stdout + done.stderr
        assert ("succeeded" in output) == (done.returncode == 0), output
        return done.returncode == 0

    return run


def write(folder, tree):
    for path, file in tree.items():
        place = folder / "skill" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(file.data)


def read(folder):
    root = folder / "skill"
    files = [path for path in root.rglob("*") if path.is_file()]
    return Tree((path.relative_to(root).as_posix(), File(path.read_bytes())) for path in files)


def write_keys(folder, key=KEY, made=CHAIN):
    pems = [x509.parse(der).pem for der in made]
    (folder / "key.pem").write_bytes(key.pem())
    (folder / "key.pub").write_bytes(key.public.pem)
    (folder / "leaf.pem").write_bytes(pems[0])
    (folder / "others.pem").write_bytes(b"".join(pems[1:]))
    (folder / "root.pem").write_bytes(pems[-1])


def with_signature(tree, data):
    return Tree({**tree, SIGNATURE: File(data)})


def pinned(key=KEY):
    return [Publisher("acme", keys=(key.public,), roots=(x509.parse(CHAIN[-1]),))]


BY_KEY = ("key", "--public_key", "key.pub")
BY_CERTIFICATE = ("certificate", "--certificate_chain", "root.pem")


@pytest.mark.parametrize("kind", KEYS)
def test_the_reference_verifies_our_signature_with_a_key(reference, tmp_path, kind):
    write_keys(tmp_path, KEYS[kind])
    litter = Tree({**SKILL, ".gitignore": File(b"*.pyc"), ".github/ci.yml": File(b"on: push")})
    write(tmp_path, with_signature(litter, oms.sign(litter, "skill", KEYS[kind])))
    assert reference("verify", *BY_KEY)


def test_the_reference_verifies_our_signature_with_a_certificate(reference, tmp_path):
    write_keys(tmp_path)
    made = tuple(x509.parse(der) for der in CHAIN)
    write(tmp_path, with_signature(SKILL, oms.sign(SKILL, "skill", leaf_key(), made)))
    assert reference("verify", *BY_CERTIFICATE)


def test_the_reference_verifies_a_signature_with_an_imported_key_and_chain(reference, tmp_path):
    write_keys(tmp_path, leaf_key())
    write(tmp_path, SKILL)
    (tmp_path / "chain.pem").write_bytes(b"".join(x509.parse(der).pem for der in CHAIN[:2]))
    shell = Shell(tmp_path)
    assert shell.run("key", "import", tmp_path / "key.pem", "--name", "release").status == 0
    done = shell.run("sign", tmp_path / "skill", "--key", "release", "--chain", tmp_path / "chain.pem")
    assert done.status == 0, done.err
    assert reference("verify", *BY_CERTIFICATE)


@pytest.mark.parametrize("kind", KEYS)
def test_we_verify_the_references_signature_with_a_key(reference, tmp_path, kind):
    write_keys(tmp_path, KEYS[kind])
    write(tmp_path, Tree({**SKILL, ".gitignore": File(b"*.pyc"), "cache/a": File(b"a")}))
    options = ("--private_key", "key.pem", "--ignore-paths", "skill/cache")
    assert reference("sign", "key", *options)
    verdict = judge(read(tmp_path), pinned(KEYS[kind]), None, NOW)
    assert verdict.status == "valid"
    assert verdict.tree.keys() == {*SKILL, SIGNATURE}


def test_we_verify_the_references_signature_with_a_certificate(reference, tmp_path):
    write_keys(tmp_path, leaf_key())
    write(tmp_path, SKILL)
    options = ("--private_key", "key.pem", "--signing_certificate", "leaf.pem")
    assert reference("sign", "certificate", *options, "--certificate_chain", "others.pem")
    verdict = judge(read(tmp_path), pinned(), None, NOW)
    assert (verdict.status, verdict.signer.kind) == ("valid", "certificate")
    stranger = judge(read(tmp_path), (), None, NOW)
    assert (stranger.status, stranger.signer.fingerprint) == ("untrusted", verdict.signer.fingerprint)


TAMPERED = {
    "changed byte": Tree({**SKILL, "SKILL.md": File(SKILL["SKILL.md"].data + b" ")}),
    "extra file": Tree({**SKILL, "scripts/evil.py": File(b"")}),
    "extra signature in a folder": Tree({**SKILL, "scripts/skill.oms.sig": File(b"{}")}),
    "missing file": SKILL.without(["scripts/run.py"]),
}


@pytest.mark.parametrize("how", TAMPERED)
@pytest.mark.parametrize("signer", ["ours", "reference"])
def test_tampered_skill_is_rejected_by_both(reference, tmp_path, how, signer):
    write_keys(tmp_path)
    write(tmp_path, SKILL)
    if signer == "ours":
        (tmp_path / "skill" / SIGNATURE).write_bytes(oms.sign(SKILL, "skill", KEY))
    else:
        assert reference("sign", "key", "--private_key", "key.pem")
    for path in set(SKILL) - set(TAMPERED[how]):
        (tmp_path / "skill" / path).unlink()
    write(tmp_path, TAMPERED[how])
    assert not reference("verify", *BY_KEY)
    with pytest.raises(BadSignature):
        judge(read(tmp_path), pinned(), None, NOW)


def test_a_signature_by_another_key_is_rejected_by_both(reference, tmp_path):
    write_keys(tmp_path, KEYS["p256"])
    write(tmp_path, signed(bundle()))
    assert not reference("verify", *BY_KEY)
    assert judge(read(tmp_path), pinned(KEYS["p256"]), None, NOW).signer is None


def expired():
    leaf = replace(years(LEAF), end=NOW - timedelta(days=1))
    return bundle(key=leaf_key(), chain=chain(leaf, years(MIDDLE), years(ROOT)))


def authority_as_leaf():
    leaf, middle = replace(years(LEAF), ca=True), replace(years(MIDDLE), path_length=None)
    return bundle(key=leaf_key(), chain=chain(leaf, middle, years(ROOT)))


def two_signatures():
    made = bundle(key=leaf_key(), chain=CHAIN)
    made["dsseEnvelope"]["signatures"].append({"sig": "AAAA", "keyid": ""})
    return made


@pytest.mark.parametrize(
    ("make", "reason"),
    [(expired, "certificate-expired"), (authority_as_leaf, "leaf-is-ca"), (two_signatures, "signature-count")],
)
def test_known_defects_that_only_we_reject(reference, tmp_path, make, reason):
    made = make()
    write_keys(tmp_path)
    write(tmp_path, signed(made))
    assert reference("verify", *BY_CERTIFICATE), "the reference has become stricter: say so in the documents"
    with pytest.raises(BadSignature) as caught:
        judge(read(tmp_path), pinned(), None, NOW)
    assert caught.value.reason == reason

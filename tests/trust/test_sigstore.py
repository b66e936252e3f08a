"""Sigstore identities without the package ``sigstore``; ``tests/interop`` tests them with it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.attacks_oms.forge import NOW, changed, signed, statement
from skillhub.disk.home import Home
from skillhub.errors import BadSignature, FormatError, SkillhubError
from skillhub.formats.digest import Digest
from skillhub.model.lock import Signer
from skillhub.model.tree import File, Tree
from skillhub.project.user_state import Publishers, Trusted
from skillhub.trust import oms
from skillhub.trust.keys import Identity
from skillhub.trust.publishers import judge
from tests.support.sigstore import ISSUER, NAME, Sigstore

OWN = Sigstore()
BUNDLE = OWN.sign(json.dumps(statement()).encode())
ROOT = OWN.trusted_root()
REPO = Path(__file__).resolve().parents[2]


def material(change):
    return changed(lambda made: change(made["verificationMaterial"]), BUNDLE)


def test_bundle_of_an_identity_is_read():
    envelope = oms.read(signed(BUNDLE))
    assert json.loads(envelope.bundle) == BUNDLE
    assert (envelope.hint, envelope.chain, envelope.tree) == (None, (), signed(BUNDLE))


def test_signature_of_an_identity_must_match_the_tree():
    with pytest.raises(BadSignature) as caught:
        judge(Tree({**signed(BUNDLE), "evil.py": File(b"")}), (), None, NOW)
    assert caught.value.reason == "extra-file"


ODD = {
    "certificate without log entries": material(lambda m: m.update(tlogEntries=[])),
    "certificate and no word of a log": material(lambda m: m.pop("tlogEntries")),
    "certificate beside a key": material(lambda m: m.update(publicKey={})),
    "certificate beside a chain": material(lambda m: m.update(x509CertificateChain={"certificates": []})),
    "log entries beside a key": material(lambda m: m.update(publicKey={}) or m.pop("certificate")),
    "log entries alone": material(lambda m: m.pop("certificate")),
}


@pytest.mark.parametrize("how", ODD)
def test_incomplete_sigstore_bundle_is_refused(how):
    with pytest.raises(BadSignature) as caught:
        oms.read(signed(ODD[how]))
    assert caught.value.reason == "sigstore"


def test_second_spelling_of_a_field_is_refused():
    made = {**BUNDLE, "dsse_envelope": BUNDLE["dsseEnvelope"]}
    with pytest.raises(BadSignature) as caught:
        oms.read(signed(made))
    assert caught.value.reason == "field-unknown"


WITHOUT = """
import sys
sys.modules["sigstore"] = None  # as where it is not installed
from fixtures.attacks_oms.forge import NOW, signed
from skillhub.errors import BadSignature
from skillhub.trust.publishers import judge
try:
    judge(signed(open(sys.argv[1], "rb").read()), (), None, NOW)
except BadSignature as error:
    print(error.code, error.reason, error.exit_code, error.hint)
"""


def test_missing_extra_for_identities_is_named_in_the_hint(tmp_path):
    path = tmp_path / "bundle"
    path.write_text(json.dumps(BUNDLE))
    run = [sys.executable, "-c", WITHOUT, path]
    done = subprocess.run(run, cwd=REPO, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("bad-signature sigstore 5 ")
    assert "pip install 'sigstore" in done.stdout


def test_extra_is_not_loaded_without_an_identity():
    code = "import sys, skillhub.trust.publishers, skillhub.install.obtain; print('sigstore' in sys.modules)"
    run = [sys.executable, "-c", code]
    assert subprocess.run(run, cwd=REPO, capture_output=True, text=True, check=True).stdout == "False\n"


def test_fingerprint_covers_name_issuer_and_root():
    known = [
        Identity(NAME, ISSUER),
        Identity(NAME, ISSUER, ROOT),
        Identity(NAME, ISSUER, Sigstore("other").trusted_root()),
        Identity(NAME, "https://accounts.google.com"),
        Identity("ann@acme.example", ISSUER),
    ]
    assert len({each.fingerprint for each in known}) == len(known)
    spelled = f'{{"identity":"{NAME}","issuer":"{ISSUER}","root":null}}'
    assert known[0].fingerprint == Digest.of(spelled.encode())


@pytest.mark.parametrize("root", [None, ROOT])
def test_identity_is_read_back(root):
    identity = Identity("jürgen@acme.example", ISSUER, root)
    assert identity.dump().isascii()
    assert Identity.parse(identity.dump()) == identity


BAD = [
    ("", ISSUER, None),
    ("ann @acme.example", ISSUER, None),
    ("ann@acme.example\u202e", ISSUER, None),
    ("a" * 513, ISSUER, None),
    (NAME, "", None),
    (NAME, "accounts.google.com", None),
    (NAME, ISSUER + "\x1b[2J", None),
    (NAME, ISSUER, ""),
    (NAME, ISSUER, "[]"),
    (NAME, ISSUER, '{"mediaType": "application/json"}'),
    (NAME, ISSUER, json.dumps({**json.loads(ROOT), "more": "x" * (1 << 16)})),
]


@pytest.mark.parametrize(("name", "issuer", "root"), BAD)
def test_invalid_identity_is_refused(name, issuer, root):
    with pytest.raises(FormatError):
        Identity(name, issuer, root)


def test_shortest_and_longest_names_are_accepted():
    for name in ("a", "a" * 512):
        assert Identity(name, "http://sso.acme.example").name == name


def test_size_of_an_identity_is_limited():
    """A stored identity has at most 64 KiB in total."""

    def pinned(size):
        return Identity(NAME, ISSUER, json.dumps({**json.loads(ROOT), "more": "x" * size}))

    most = (1 << 16) - len(pinned(0).dump())
    assert len(pinned(most).dump()) == 1 << 16
    with pytest.raises(FormatError):
        pinned(most + 1)


@pytest.mark.parametrize("text", ["{}", "[]", "null", '{"identity": "a", "issuer": "https://b"}', "\ud800"])
def test_invalid_text_of_an_identity_is_refused(text):
    with pytest.raises(FormatError):
        Identity.parse(text)
    with pytest.raises(FormatError):
        Identity(NAME, ISSUER, text)


texts = st.text() | st.sampled_from([NAME, ISSUER, ROOT])


@given(st.text() | st.fixed_dictionaries({"identity": texts, "issuer": texts, "root": texts}).map(json.dumps))
def test_any_text_of_an_identity_raises_only_errors_of_skillhub(text):
    try:
        found = Identity.parse(text)
    except SkillhubError:
        return
    assert Identity.parse(found.dump()) == found


def test_signer_with_an_identity_is_read_back():
    identity = Identity(NAME, ISSUER)
    signer = Signer("sigstore", identity.fingerprint, str(identity))
    assert Signer.parse(signer.spell()) == signer
    with pytest.raises(FormatError):
        Signer.parse(signer.spell().replace("sigstore:", "keyless:", 1))


def test_identities_of_a_publisher_are_stored(tmp_path):
    publishers = Publishers(Home.of({"SKILLHUB_HOME": str(tmp_path)}))
    first, second = (Identity(NAME, ISSUER, root).dump() for root in (None, ROOT))
    publishers.trust(Trusted(keys=("a key",), identities=(first,), name="acme"))
    publishers.trust(Trusted(identities=(first, second), name="acme"))
    assert publishers.all()["acme"] == Trusted(keys=("a key",), identities=(first, second), name="acme")


def test_file_of_publishers_without_identities_is_read(tmp_path):
    publishers = Publishers(Home.of({"SKILLHUB_HOME": str(tmp_path)}))
    publishers.trust(Trusted(keys=("a key",), name="acme"))
    [path] = tmp_path.rglob("publishers.json")
    rows = json.loads(path.read_text())
    del rows["publishers"]["acme"]["identities"]
    path.write_text(json.dumps(rows))
    assert publishers.all() == {"acme": Trusted(keys=("a key",), name="acme")}

"""Sigstore identities with the package ``sigstore``, against a Sigstore that the test makes; without network."""

import importlib.util
import json
import os
import socket
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.attacks_oms.forge import NOW, changed, signed, statement
from skillhub.errors import BadSignature, FormatError, SkillhubError
from skillhub.model.tree import SIGNATURE, File, Tree
from skillhub.trust import oms
from skillhub.trust.keys import Identity
from skillhub.trust.publishers import Publisher, judge
from tests.support.sigstore import AT, ISSUER, NAME, Account, Sigstore, encode, key_of

pytestmark = pytest.mark.interop
OWN, OTHER = Sigstore(), Sigstore("other")
PAYLOAD = json.dumps(statement()).encode()
PINNED = Identity(NAME, ISSUER, OWN.trusted_root())
ACME = Publisher("acme", identities=(PINNED,))
MAIL = Account(names=(x509.RFC822Name("ann@acme.example"),))


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    assert importlib.util.find_spec("sigstore"), "the package sigstore is not here: pip install '.[all]'"

    def refuse(*_):
        raise AssertionError("a test opened a connection")

    for verb in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, verb, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def refused(made, publishers=(ACME,)):
    with pytest.raises(BadSignature) as caught:
        judge(signed(made), publishers, None, NOW)
    return caught.value.reason


def test_the_identity_of_a_trusted_publisher_is_valid():
    tree = signed(OWN.sign(PAYLOAD))
    verdict = judge(tree, [ACME], None, NOW)
    assert (verdict.status, verdict.tree, verdict.expired) == ("valid", tree, False)
    assert verdict.signer.spell() == f"sigstore:{PINNED.fingerprint}:acme"
    assert Identity.parse(verdict.pem) == PINNED


def test_a_signature_is_valid_years_after_its_certificate():
    assert judge(signed(OWN.sign(PAYLOAD)), [ACME], None, AT + timedelta(days=2000)).status == "valid"


@pytest.mark.parametrize("account", [replace(MAIL, old_issuer=None), replace(MAIL, issuer=None)])
def test_a_mail_address_and_both_spellings_of_the_issuer_are_valid(account):
    publisher = Publisher("ann", identities=(Identity("ann@acme.example", ISSUER, PINNED.root),))
    assert judge(signed(OWN.sign(PAYLOAD, account)), [publisher], None, NOW).signer.identity == "ann"


def test_a_user_name_of_a_private_sigstore_is_valid():
    name = x509.OtherName(x509.ObjectIdentifier("1.3.6.1.4.1.57264.1.7"), b"\x0c\x07ann!own")
    publisher = Publisher("ann", identities=(Identity("ann!own", ISSUER, PINNED.root),))
    assert judge(signed(OWN.sign(PAYLOAD, Account(names=(name,)))), [publisher], None, NOW).status == "valid"


def test_attack_another_kind_of_name_with_the_same_text_is_refused():
    name = x509.OtherName(x509.ObjectIdentifier("1.3.6.1.4.1.311.20.2.3"), b"\x0c\x07ann!own")
    publisher = Publisher("ann", identities=(Identity("ann!own", ISSUER, PINNED.root),))
    assert refused(OWN.sign(PAYLOAD, Account(names=(name,))), [publisher]) == "sigstore"


NOT_THEM = {
    "same name, other issuer": Account(issuer="https://evil.example", old_issuer="https://evil.example"),
    "other name, same issuer": MAIL,
    "name with more behind it": Account(names=(x509.UniformResourceIdentifier(NAME + "2"),)),
    "name in capitals": Account(names=(x509.UniformResourceIdentifier(NAME.upper()),)),
}


@pytest.mark.parametrize("who", NOT_THEM)
def test_a_pinned_root_proves_only_the_identity_pinned_with_it(who):
    assert refused(OWN.sign(PAYLOAD, NOT_THEM[who])) == "sigstore"


def test_a_pinned_root_proves_no_identity_of_another_publisher():
    public = Publisher("public", identities=(Identity("ann@acme.example", ISSUER),))
    assert refused(OWN.sign(PAYLOAD, MAIL), [ACME, public]) == "sigstore"


def test_a_private_sigstore_that_is_not_pinned_is_refused():
    assert refused(OWN.sign(PAYLOAD), []) == "sigstore"
    narrowed = replace(ACME, sources=("hub",))
    assert refused(OWN.sign(PAYLOAD), [narrowed]) == "sigstore"
    assert judge(signed(OWN.sign(PAYLOAD)), [narrowed], "hub", NOW).status == "valid"


def test_every_pinned_root_is_tried():
    other = Publisher("other", identities=(Identity(NAME, ISSUER, OTHER.trusted_root()),))
    for publishers in ([other, ACME], [ACME, other]):
        assert judge(signed(OWN.sign(PAYLOAD)), publishers, None, NOW).signer.identity == "acme"
        assert judge(signed(OTHER.sign(PAYLOAD)), publishers, None, NOW).signer.identity == "other"


def test_a_broken_pinned_root_is_a_format_error():
    broken = json.dumps({**json.loads(OWN.trusted_root()), "tlogs": []})
    with pytest.raises(FormatError):
        judge(signed(OWN.sign(PAYLOAD)), [Publisher("x", identities=(Identity(NAME, ISSUER, broken),))], None, NOW)


def replay():
    """An old, honest log entry and certificate under a new statement of an attacker."""
    made = OWN.sign(PAYLOAD + b" ", replace(Account(), key=key_of("thief")))
    made["verificationMaterial"] = OWN.sign(PAYLOAD)["verificationMaterial"]
    return made


def entry(change):
    def flawed():
        return changed(lambda m: change(m["verificationMaterial"]["tlogEntries"][0]), OWN.sign(PAYLOAD))

    return flawed


BACKDATED = replace(Account(), start=AT + timedelta(hours=1))
TWO = Account(names=(*Account().names, x509.RFC822Name("ann@acme.example")))
THIEF = key_of("thief")
ATTACKS = {
    "certificate of another authority": lambda: OWN.sign(PAYLOAD, authority=THIEF),
    "certificate that no log has seen": lambda: OWN.sign(PAYLOAD, scts=0),
    "certificate in the log of a thief": lambda: OWN.sign(PAYLOAD, witness=THIEF),
    "certificate for web servers": lambda: OWN.sign(
        PAYLOAD, replace(Account(), purposes=(ExtendedKeyUsageOID.SERVER_AUTH,))
    ),
    "certificate of two": lambda: OWN.sign(PAYLOAD, TWO),
    "certificate without an issuer": lambda: OWN.sign(PAYLOAD, Account(issuer=None, old_issuer=None)),
    "certificate with two issuers": lambda: OWN.sign(PAYLOAD, Account(old_issuer="https://evil.example")),
    "signed after the certificate had expired": lambda: OWN.sign(PAYLOAD, at=AT + timedelta(hours=1)),
    "signed before the certificate was made": lambda: OWN.sign(PAYLOAD, BACKDATED),
    "signed with another key": lambda: OWN.sign(PAYLOAD, signer=THIEF),
    "log of a thief": lambda: OWN.sign(PAYLOAD, log=THIEF),
    "promise of a thief": lambda: OWN.sign(PAYLOAD, promise=THIEF),
    "checkpoint of a thief": lambda: OWN.sign(PAYLOAD, checkpoint=THIEF),
    "log entry of another statement": lambda: OWN.sign(PAYLOAD, logged=b"another"),
    "certificate and log entry of another signature": replay,
    "no promise": entry(lambda e: e.pop("inclusionPromise")),
    "no proof": entry(lambda e: e.pop("inclusionProof")),
    "no checkpoint": entry(lambda e: e["inclusionProof"].pop("checkpoint")),
    "proof cut short": entry(lambda e: e["inclusionProof"]["hashes"].pop()),
    "proof of another place": entry(lambda e: e["inclusionProof"].update(logIndex="0")),
    "another time": entry(lambda e: e.update(integratedTime=str(int(AT.timestamp()) + 1))),
    "no time": entry(lambda e: e.pop("integratedTime")),
    "an invalid time": entry(lambda e: e.update(integratedTime="99999999999999999")),
    "another kind of entry": entry(lambda e: e.update(kindVersion={"kind": "intoto", "version": "0.0.2"})),
    "a body that is no entry": entry(lambda e: e.update(canonicalizedBody=encode(b"{}"))),
    "two log entries": lambda: changed(
        lambda m: m["verificationMaterial"]["tlogEntries"].append(m["verificationMaterial"]["tlogEntries"][0]),
        OWN.sign(PAYLOAD),
    ),
    "invalid certificate": lambda: changed(
        lambda m: m["verificationMaterial"]["certificate"].update(rawBytes="AAAA"), OWN.sign(PAYLOAD)
    ),
    "all of another Sigstore": lambda: OTHER.sign(PAYLOAD),
}


# The messages of the package, so that each attack is refused for its own reason; the errno differs between systems.
SAID = {
    "certificate of another authority": "signature does not match",
    "certificate that no log has seen": "does not contain a signed certificate timestamp",
    "certificate in the log of a thief": "SCT verify failed",
    "certificate for web servers": "code signing",
    "certificate of two": "found 2 and 1",
    "certificate without an issuer": "found 1 and 0",
    "certificate with two issuers": "found 1 and 2",
    "signed after the certificate had expired": "not valid at validation time",
    "signed before the certificate was made": "not valid at validation time",
    "signed with another key": "DSSE: invalid signature",
    "log of a thief": "checkpoint: invalid signature",
    "promise of a thief": "SET: invalid inclusion promise",
    "checkpoint of a thief": "checkpoint: invalid signature",
    "log entry of another statement": "payload hash does not match",
    "certificate and log entry of another signature": "DSSE: invalid signature",
    "no promise": "must contain an inclusion promise",
    "no proof": "inclusionProof",
    "no checkpoint": "with checkpoint",
    "proof cut short": "wrong size",
    "proof of another place": "invalid root hash",
    "another time": "SET: invalid inclusion promise",
    "no time": "not enough sources of verified time",
    "another kind of entry": "only supported for",
    "a body that is no entry": "invalid root hash",
    "two log entries": "exactly one log entry",
    "invalid certificate": "parsing",
    "all of another Sigstore": "signature does not match",
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_unproven_statement_is_refused(attack):
    from skillhub.trust import sigstore

    made = ATTACKS[attack]()
    with pytest.raises(BadSignature) as caught:
        envelope = oms.read(signed(made))
        sigstore.prove(envelope.bundle, envelope.signed, PINNED.root)
    assert caught.value.reason == "sigstore"
    assert SAID.get(attack, "") in caught.value.message
    assert refused(made) == "sigstore"


def test_a_proven_statement_for_another_tree_is_refused():
    tree = signed(OWN.sign(PAYLOAD))
    for other in (Tree({**tree, "evil.py": File(b"")}), tree.without(["scripts/run.py"])):
        with pytest.raises(BadSignature):
            judge(other, [ACME], None, NOW)


SOUND = json.dumps(OWN.sign(PAYLOAD)).encode()


@settings(max_examples=300, deadline=None)
@given(st.integers(0, len(SOUND) - 1), st.integers(1, 255))
def test_any_changed_byte_is_harmless_or_refused(place, flip):
    data = bytearray(SOUND)
    data[place] ^= flip
    try:
        verdict = judge(signed(bytes(data)), [ACME], None, NOW)
    except SkillhubError:
        return
    assert verdict.signer.fingerprint == PINNED.fingerprint


leaves = st.none() | st.booleans() | st.integers() | st.text() | st.sampled_from(["", "AAAA", "1", "-1"])
values = st.recursive(leaves, lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(), each, max_size=3))


@settings(max_examples=300, deadline=None)
@given(st.data(), values)
def test_any_replaced_value_raises_only_our_errors(data, value):
    made = json.loads(SOUND)
    node = made["verificationMaterial"]
    while True:
        at = data.draw(st.sampled_from(sorted(node) if isinstance(node, dict) else range(len(node))))
        if not isinstance(node[at], dict | list) or not node[at] or data.draw(st.booleans()):
            node[at] = value
            break
        node = node[at]
    try:
        verdict = judge(signed(made), [ACME], None, NOW)
    except SkillhubError:
        return
    assert verdict.signer.fingerprint == PINNED.fingerprint


def test_the_public_sigstores_root_is_in_the_package_and_proves_nothing_false():
    public = Publisher("public", identities=(Identity(NAME, ISSUER),))
    assert refused(OWN.sign(PAYLOAD), [public]) == "sigstore"


@pytest.mark.parametrize("version", ["v1.0.0", "v1.0.1", "v1.1.0"])
def test_signatures_of_the_reference_with_the_public_sigstore_are_verified(version):
    checkout = os.environ.get("SKILLHUB_MODEL_TRANSPARENCY")
    if not checkout:
        pytest.skip("SKILLHUB_MODEL_TRANSPARENCY names a checkout of sigstore/model-transparency")
    folder = Path(checkout) / "scripts" / "tests" / f"{version}-sigstore"
    tree = Tree((path.name, File(path.read_bytes())) for path in folder.glob("signme-*"))
    tree = Tree({**tree, SIGNATURE: File((folder / "model.sig").read_bytes())})
    stranger = judge(tree, (), None, NOW)
    assert stranger.status == "untrusted"
    identity = Identity.parse(stranger.pem)
    assert stranger.signer.identity == str(identity) == "stefanb@us.ibm.com (https://sigstore.verify.ibm.com/oauth2)"
    verdict = judge(tree, [Publisher("them", identities=(identity,))], None, NOW)
    assert (verdict.status, verdict.signer.identity) == ("valid", "them")
    assert verdict.signer.fingerprint == stranger.signer.fingerprint
    with pytest.raises(BadSignature):
        judge(Tree({**tree, "signme-1": File(b"")}), (), None, NOW)

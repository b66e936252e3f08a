from dataclasses import replace
from datetime import timedelta

import pytest

from fixtures.attacks_oms.forge import (
    CODE,
    KEY,
    LEAF,
    MIDDLE,
    NOW,
    OTHER_KEY,
    ROOT,
    TREE,
    bundle,
    chain,
    leaf_key,
    signed,
)
from skillhub.errors import BadSignature
from skillhub.model.lock import Signer
from skillhub.model.tree import File, Tree
from skillhub.trust import oms, x509
from skillhub.trust.keys import PublicKey
from skillhub.trust.publishers import Publisher, judge

CHAIN = chain(LEAF, MIDDLE, ROOT)
ROOT_CERTIFICATE = x509.parse(CHAIN[-1])
BY_KEY = signed(bundle())
BY_CERTIFICATE = signed(bundle(key=leaf_key(), chain=CHAIN))
SUBJECT = "CN=leaf,O=Forge"


def reason(tree, publishers=(), source=None, now=NOW, locked=()):
    with pytest.raises(BadSignature) as caught:
        judge(tree, publishers, source, now, locked)
    return caught.value.reason


def test_unsigned_skill_has_no_signer():
    verdict = judge(TREE, (), None, NOW)
    assert (verdict.status, verdict.signer, verdict.tree) == ("unsigned", None, TREE)


def test_key_of_a_trusted_publisher_is_valid():
    verdict = judge(BY_KEY, [Publisher("acme", keys=(OTHER_KEY.public, KEY.public))], None, NOW)
    assert (verdict.status, verdict.expired) == ("valid", False)
    assert verdict.signer == Signer("key", KEY.public.fingerprint, "acme")
    assert PublicKey.load(verdict.pem.encode()) == KEY.public


def test_unknown_key_is_a_claim_without_a_signer():
    verdict = judge(BY_KEY, [Publisher("acme", keys=(OTHER_KEY.public,))], None, NOW)
    assert (verdict.status, verdict.signer, verdict.pem) == ("untrusted", None, None)
    assert verdict.claim == KEY.public.hint


def test_signature_of_an_unknown_key_must_match_the_tree():
    assert reason(Tree({**BY_KEY, "evil.py": File(b"")})) == "extra-file"


def test_root_of_a_trusted_publisher_is_valid():
    verdict = judge(BY_CERTIFICATE, [Publisher("acme", roots=(ROOT_CERTIFICATE,))], None, NOW)
    assert verdict.status == "valid"
    assert verdict.signer == Signer("certificate", ROOT_CERTIFICATE.fingerprint, "acme")


def test_unpinned_chain_is_untrusted_with_its_subject_and_root():
    verdict = judge(BY_CERTIFICATE, (), None, NOW)
    assert verdict.status == "untrusted"
    assert verdict.signer == Signer("certificate", ROOT_CERTIFICATE.fingerprint, SUBJECT)
    assert x509.load(verdict.pem.encode()) == (ROOT_CERTIFICATE,)


def test_root_with_the_name_of_a_pinned_one_is_untrusted():
    false = chain(LEAF, MIDDLE, replace(ROOT, seed="thief"))
    tree = signed(bundle(key=leaf_key(), chain=false))
    verdict = judge(tree, [Publisher("acme", roots=(ROOT_CERTIFICATE,))], None, NOW)
    assert verdict.status == "untrusted"
    assert verdict.signer.fingerprint == x509.parse(false[-1]).fingerprint != ROOT_CERTIFICATE.fingerprint


@pytest.mark.parametrize("length", [1, 2])
def test_chain_without_its_root_is_valid_with_a_pinned_root(length):
    tree = signed(bundle(key=leaf_key(), chain=chain(LEAF, MIDDLE, ROOT)[:length]))
    pinned = (Publisher("acme", roots=(ROOT_CERTIFICATE, x509.parse(CHAIN[1]))),)
    assert judge(tree, pinned, None, NOW).status == "valid"
    stranger = judge(tree, (), None, NOW)
    assert (stranger.status, stranger.signer) == ("untrusted", None)


def test_intermediate_may_be_pinned_as_root():
    middle = x509.parse(CHAIN[1])
    verdict = judge(BY_CERTIFICATE, [Publisher("acme", roots=(middle,))], None, NOW)
    assert (verdict.status, verdict.signer.fingerprint) == ("valid", middle.fingerprint)


@pytest.mark.parametrize("tree", [BY_KEY, BY_CERTIFICATE], ids=["key", "certificate"])
def test_limited_publisher_is_trusted_only_for_its_sources(tree):
    acme = Publisher("acme", keys=(KEY.public,), roots=(ROOT_CERTIFICATE,), sources=("github", "hub"))
    assert judge(tree, [acme], "hub", NOW).status == "valid"
    assert judge(tree, [acme], "elsewhere", NOW).status == "untrusted"
    assert judge(tree, [acme], None, NOW).status == "untrusted"


def test_unlimited_publisher_is_trusted_for_a_local_path():
    assert judge(BY_KEY, [Publisher("acme", keys=(KEY.public,))], None, NOW).status == "valid"


def test_first_matching_publisher_names_the_signer():
    first, second = Publisher("first", keys=(KEY.public,)), Publisher("second", keys=(KEY.public,))
    assert judge(BY_KEY, [first, second], None, NOW).signer.identity == "first"
    narrowed = replace(first, sources=("hub",))
    assert judge(BY_KEY, [narrowed, second], None, NOW).signer.identity == "second"


def test_revoked_key_is_refused_despite_trust():
    acme = Publisher("acme", keys=(KEY.public,))
    gone = Publisher("ns", revoked=(KEY.public,), sources=("elsewhere",))
    assert reason(BY_KEY, [acme, gone]) == "revoked"
    assert reason(BY_KEY, [gone]) == "revoked"


@pytest.mark.parametrize("place", [0, 1, 2])
def test_revoked_key_in_a_chain_is_refused(place):
    revoked = x509.parse(CHAIN[place]).key
    acme = Publisher("acme", roots=(ROOT_CERTIFICATE,), revoked=(revoked,))
    assert reason(BY_CERTIFICATE, [acme]) == "revoked"


def test_revoked_key_of_an_omitted_root_is_refused():
    tree = signed(bundle(key=leaf_key(), chain=CHAIN[:2]))
    acme = Publisher("acme", roots=(ROOT_CERTIFICATE,))
    assert judge(tree, [acme], None, NOW).status == "valid"
    assert reason(tree, [replace(acme, revoked=(ROOT_CERTIFICATE.key,))]) == "revoked"


def test_changed_file_under_a_certificate_is_refused():
    assert reason(Tree({**BY_CERTIFICATE, "SKILL.md": File(b"evil")})) == "changed-file"


def test_signature_by_another_key_than_the_leaf_is_refused():
    tree = signed(bundle(key=leaf_key("thief"), chain=CHAIN))
    assert reason(tree, [Publisher("acme", roots=(ROOT_CERTIFICATE,))]) == "wrong-signature"
    assert reason(tree) == "wrong-signature"


def test_chain_beside_a_signature_of_a_trusted_key_is_refused():
    tree = signed(bundle(key=KEY, chain=CHAIN))
    assert reason(tree, [Publisher("acme", keys=(KEY.public,))]) == "wrong-signature"


def test_expired_certificate_is_accepted_only_for_the_locked_tree():
    acme = [Publisher("acme", roots=(ROOT_CERTIFICATE,))]
    late = NOW + timedelta(days=31)
    assert reason(BY_CERTIFICATE, acme, now=late) == "certificate-expired"
    assert reason(BY_CERTIFICATE, acme, now=late, locked=(TREE.digest,)) == "certificate-expired"
    verdict = judge(BY_CERTIFICATE, acme, None, late, locked=(BY_CERTIFICATE.digest,))
    assert (verdict.status, verdict.expired) == ("valid", True)


def test_validity_ends_with_its_last_second():
    acme = [Publisher("acme", roots=(ROOT_CERTIFICATE,))]
    assert judge(BY_CERTIFICATE, acme, None, NOW + timedelta(days=30)).expired is False
    assert reason(BY_CERTIFICATE, acme, now=NOW + timedelta(days=30, seconds=1)) == "certificate-expired"
    assert judge(BY_CERTIFICATE, acme, None, NOW - timedelta(days=30)).expired is False
    early = NOW - timedelta(days=30, seconds=1)
    assert reason(BY_CERTIFICATE, acme, now=early) == "certificate-not-yet-valid"


def test_tree_of_the_verdict_has_no_dropped_files():
    tree = Tree({**TREE, ".gitignore": File(b"*.pyc")})
    whole = signed(oms.sign(tree, "forged", KEY), tree)
    verdict = judge(whole, [Publisher("acme", keys=(KEY.public,))], None, NOW)
    assert ".gitignore" not in verdict.tree
    assert verdict.tree.digest == judge(verdict.tree, (), None, NOW).tree.digest


def test_certificate_for_code_signing_is_valid():
    made = chain(replace(LEAF, purposes=CODE), MIDDLE, ROOT)
    tree = signed(bundle(key=leaf_key(), chain=made))
    assert judge(tree, [Publisher("acme", roots=(ROOT_CERTIFICATE,))], None, NOW).status == "valid"

"""Every hostile signature of ``fixtures/attacks_oms`` is refused for its own flaw."""

import json
from collections import Counter

import pytest

from fixtures.attacks_oms import bundles, chains, statements
from fixtures.attacks_oms.forge import KEY, LEAF, MIDDLE, NOW, ROOT, TREE, bundle, chain, leaf_key, signed
from skillhub.errors import BadSignature
from skillhub.formats.text import is_hidden
from skillhub.trust import x509
from skillhub.trust.publishers import Publisher, judge

BUNDLES = [*bundles.cases(), *statements.cases()]
CHAINS = list(chains.cases())
BY_KEY = (Publisher("forge", keys=(KEY.public,)),)


def test_base_of_the_attacks_is_valid():
    assert judge(signed(bundle()), BY_KEY, None, NOW).status == "valid"
    made = chain(LEAF, MIDDLE, ROOT)
    verdict = judge(signed(bundle(key=leaf_key(), chain=made)), _pinned(made[-1]), None, NOW)
    assert verdict.status == "valid"


@pytest.mark.parametrize("case", BUNDLES, ids=lambda case: case.name)
def test_hostile_bundle_is_refused(case):
    with pytest.raises(BadSignature) as caught:
        judge(case.tree, BY_KEY, None, NOW)
    assert caught.value.reason == case.reason
    assert not any(map(is_hidden, f"{caught.value.message}{caught.value.where}"))


@pytest.mark.parametrize("case", CHAINS, ids=lambda case: case.name)
def test_hostile_chain_is_refused(case):
    tree = signed(bundle(key=leaf_key(case.seed), chain=case.chain))
    with pytest.raises(BadSignature) as caught:
        judge(tree, _pinned(case.root), None, NOW)
    assert caught.value.reason == case.reason
    assert not any(map(is_hidden, f"{caught.value.message}{caught.value.where}"))


@pytest.mark.parametrize("case", CHAINS, ids=lambda case: case.name)
def test_hostile_chain_is_refused_without_a_pinned_root(case):
    tree = signed(bundle(key=leaf_key(case.seed), chain=case.chain))
    with pytest.raises(BadSignature) as caught:
        judge(tree, (), None, NOW)
    assert caught.value.reason == case.reason


def test_tables_of_attacks_are_complete_without_duplicates():
    names = Counter(case.name for case in (*BUNDLES, *CHAINS))
    assert names.most_common(1)[0][1] == 1
    assert len(names) >= 45


def test_attacks_are_reproducible():
    again = [*bundles.cases(), *statements.cases()]
    assert [case.tree.digest for case in again] == [case.tree.digest for case in BUNDLES]
    assert list(chains.cases()) == CHAINS


@pytest.mark.parametrize("keyid", ["", None, "some hint", ...])
def test_key_id_of_the_envelope_is_ignored(keyid):
    made = bundle()
    made["dsseEnvelope"]["signatures"][0]["keyid"] = keyid
    if keyid is ...:
        del made["dsseEnvelope"]["signatures"][0]["keyid"]
    assert judge(signed(json.dumps(made).encode()), BY_KEY, None, NOW).status == "valid"


@pytest.mark.parametrize("material", [{}, {"hint": ""}, {"hint": None}, {"rawBytes": "eA==", "keyDetails": "x"}])
def test_signature_without_a_hint_is_tried_with_every_pinned_key(material):
    made = bundle()
    made["verificationMaterial"] = {"publicKey": material}
    tree = signed(json.dumps(made).encode())
    verdict = judge(tree, BY_KEY, None, NOW)
    assert (verdict.status, verdict.signer.fingerprint) == ("valid", KEY.public.fingerprint)
    stranger = judge(tree, (), None, NOW)
    assert (stranger.status, stranger.signer, stranger.claim) == ("untrusted", None, None)


def test_key_inside_of_a_bundle_is_not_trusted():
    made = bundle(key=leaf_key("thief"))
    made["verificationMaterial"]["publicKey"] = {"rawBytes": "eA=="}
    assert judge(signed(made), BY_KEY, None, NOW).signer is None


def test_attacks_do_not_change_their_base_tree():
    before = TREE.digest
    for case in BUNDLES:
        with pytest.raises(BadSignature):
            judge(case.tree, BY_KEY, None, NOW)
    assert TREE.digest == before


def _pinned(der):
    try:
        return (Publisher("forge", roots=(x509.parse(der),)),)
    except BadSignature:
        return ()

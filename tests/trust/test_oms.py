import json
from base64 import b64decode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.attacks_oms.forge import KEY, LEAF, MIDDLE, ROOT, TREE, bundle, chain, leaf_key, signed, statement
from skillhub.errors import BadSignature, UsageError
from skillhub.formats.text import is_hidden
from skillhub.model.tree import SIGNATURE, File, Tree
from skillhub.trust import oms, x509
from skillhub.trust.keys import PrivateKey
from skillhub.trust.oms import Bundle
from tests.support.effort import at_most, calls, steps


def with_signature(tree, data):
    return Tree({**tree, SIGNATURE: File(data)})


def payload_of(data):
    return json.loads(b64decode(json.loads(data)["dsseEnvelope"]["payload"]))


def test_unsigned_skill_has_no_envelope():
    assert oms.read(TREE) is None


def test_signature_in_a_subfolder_is_ignored():
    assert oms.read(Tree({**TREE, "scripts/skill.oms.sig": File(b"{}")})) is None


@pytest.mark.parametrize("kind", ["p256", "p384", "ed25519"])
def test_signature_is_valid_only_with_its_key(kind):
    key = PrivateKey.from_seed(bytes(31) + b"\7", kind)
    tree = with_signature(TREE, oms.sign(TREE, "forged", key))
    envelope = oms.read(tree)
    envelope.prove(key.public)
    assert envelope.tree is tree
    assert envelope.hint == key.public.hint
    with pytest.raises(BadSignature):
        envelope.prove(PrivateKey.from_seed(bytes(31) + b"\x08", kind).public)


def test_signing_again_gives_the_same_bytes():
    first = oms.sign(TREE, "forged", KEY)
    assert first == oms.sign(TREE, "forged", KEY)
    assert first == oms.sign(with_signature(TREE, first), "forged", KEY)


def test_statement_matches_the_specification():
    data = oms.sign(TREE, "forged", KEY)
    assert payload_of(data) == statement()
    assert set(json.loads(data)) == {"mediaType", "verificationMaterial", "dsseEnvelope"}
    assert json.loads(data)["dsseEnvelope"]["signatures"][0]["keyid"] == ""


def test_bundle_without_key_or_certificate_is_read_back():
    made = Bundle(b"payload", b"signature")
    assert Bundle.parse(made.dump()) == made


def test_bundle_with_certificates_has_no_hint():
    made = tuple(x509.parse(der) for der in chain(LEAF, MIDDLE, ROOT))
    tree = with_signature(TREE, oms.sign(TREE, "forged", leaf_key(), made))
    envelope = oms.read(tree)
    assert (envelope.chain, envelope.hint) == (made, None)
    envelope.prove(made[0].key)


def test_chain_of_a_bundle_may_have_eight_certificates():
    made = bundle(key=leaf_key(), chain=chain(LEAF, MIDDLE, ROOT)[:1] * x509.LONGEST)
    assert len(Bundle.parse(json.dumps(made).encode()).chain) == 8


def test_signing_with_a_certificate_of_another_key_is_refused():
    made = tuple(x509.parse(der) for der in chain(LEAF, MIDDLE, ROOT))
    with pytest.raises(UsageError, match="certificate of the signing key"):
        oms.sign(TREE, "forged", KEY, made)


def test_signing_a_tree_without_skill_md_is_refused():
    with pytest.raises(UsageError, match=r"SKILL\.md"):
        oms.sign(TREE.without(["SKILL.md"]), "forged", KEY)


def test_ignored_files_are_dropped():
    litter = {".gitignore": File(b"*.pyc"), ".github/workflows/ci.yml": File(b"on: push")}
    tree = Tree({**TREE, **litter})
    envelope = oms.read(with_signature(tree, oms.sign(tree, "forged", KEY)))
    assert set(envelope.tree) == {*TREE, SIGNATURE}


def test_only_ignored_paths_are_dropped():
    made = statement()
    made["predicate"]["serialization"]["ignore_paths"] = ["cache", "skill.oms.sig"]
    tree = signed(bundle(made), Tree({**TREE, "cache/a/b": File(b""), "cache": File(b"")}))
    assert set(oms.read(tree).tree) == {*TREE, SIGNATURE}
    for path in ("cached", "scripts/cache", "Cache", ".gitignore"):
        with pytest.raises(BadSignature) as caught:
            oms.read(signed(bundle(made), Tree({**TREE, path: File(b"")})))
        assert (caught.value.reason, caught.value.where) == ("extra-file", f"'{path}'")


def test_attack_a_signature_with_very_many_ignored_paths_is_read_in_linear_time():
    tree = Tree({**TREE, **{f"file{number}": File(b"") for number in range(5000)}})
    made = statement(tree)
    made["predicate"]["serialization"]["ignore_paths"] = [f"z{number}" for number in range(150_000)]
    with at_most(3):
        assert len(oms.read(signed(bundle(made), tree)).tree) == len(tree) + 1


def test_statement_without_ignored_paths_drops_no_file():
    made = statement()
    del made["predicate"]["serialization"]["ignore_paths"]
    assert oms.read(signed(bundle(made))).tree.keys() == {*TREE, SIGNATURE}


def test_statement_with_allowed_symlinks_is_accepted():
    made = statement()
    made["predicate"]["serialization"]["allow_symlinks"] = True
    assert oms.read(signed(bundle(made))) is not None


def test_resources_may_have_further_fields():
    made = statement()
    made["predicate"]["resources"][0]["annotations"] = {"a": 1}
    assert oms.read(signed(bundle(made))) is not None


def test_signature_does_not_cover_the_execute_bit():
    tree = signed(bundle())
    flipped = Tree({path: File(file.data, not file.executable) for path, file in tree.items()})
    assert oms.read(flipped).tree.digest != tree.digest


def test_largest_signature_is_read():
    largest = json.dumps(bundle()).encode().ljust(4 * 1024 * 1024)
    assert oms.read(signed(largest)).hint == KEY.public.hint


def test_largest_skill_can_be_signed():
    many = {f"{'é' * 500}/{i}.md": File(b"%d" % i) for i in range(1999)}
    tree = Tree({"SKILL.md": TREE["SKILL.md"], **many})
    assert oms.read(with_signature(tree, oms.sign(tree, "big", KEY))) is not None


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_as_a_bundle_are_refused(data):
    with pytest.raises(BadSignature):
        oms.read(signed(data))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def places(value, path=()):
    """Yield the path of every value in a JSON document."""
    yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from places(child, (*path, key))


def put(document, path, value):
    copy = json.loads(json.dumps(document))
    spot = copy
    for key in path[:-1]:
        spot = spot[key]
    if not path:
        return value
    spot[path[-1]] = value
    return copy


@settings(deadline=None)
@given(st.data())
def test_any_replaced_value_is_refused_or_has_no_effect(data):
    """A document with one replaced value gives BadSignature or the complete tree."""
    if data.draw(st.booleans()):
        document = put(bundle(), data.draw(st.sampled_from(list(places(bundle())))), data.draw(JSON))
    else:
        changed = put(statement(), data.draw(st.sampled_from(list(places(statement())))), data.draw(JSON))
        document = bundle(changed if isinstance(changed, dict) else json.dumps(changed).encode())
    tree = signed(json.dumps(document).encode())
    try:
        envelope = oms.read(tree)
    except BadSignature as error:
        assert not any(map(is_hidden, error.message))
    else:
        assert envelope.tree == tree


def test_nesting_near_the_limit_of_the_parser_is_refused():
    for depth in (10, *range(700, 1000, 7)):
        deep = "[" * depth + "]" * depth
        text = json.dumps(bundle()).replace('"application/vnd.in-toto+json"', deep)
        with pytest.raises(BadSignature, match=r"found an array|nesting too deep"):
            oms.read(signed(text.encode()))


def test_proving_small_skills_costs_little_more_than_their_signatures():
    trees = []
    for number in range(20):
        files = {f"f{i}.md": File(b"%d %d" % (number, i)) for i in range(4)}
        tree = Tree({"SKILL.md": TREE["SKILL.md"], **files})
        trees.append(with_signature(tree, oms.sign(tree, "small", KEY)))
    for tree in trees:
        assert tree.listing

    def prove():
        for tree in trees:
            oms.read(tree).prove(KEY.public)

    assert calls(prove, type(KEY.public).verify) == [len(trees)]
    assert steps(prove) < 600 * len(trees)  # today 364 for each

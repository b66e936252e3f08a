"""Name constraints of a CA for every form of a name, and optional parts of a certificate."""

from dataclasses import replace

import pytest
from cryptography import x509 as c
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding

from fixtures.attacks_oms.forge import LEAF, MIDDLE, NOW, ROOT, chain, key_of
from skillhub.errors import BadSignature
from skillhub.trust import x509

DNS, MAIL, URI = c.DNSName, c.RFC822Name, c.UniformResourceIdentifier


def verified(names, permitted=None, excluded=None):
    """Verify a chain whose leaf bears these names and whose root has these constraints."""
    bears = ((c.SubjectAlternativeName(names), False),) if names else ()
    root = replace(ROOT, extra=((c.NameConstraints(permitted, excluded), True),))
    made = tuple(x509.parse(der) for der in chain(replace(LEAF, extra=bears), MIDDLE, root))
    return x509.verify(made, [made[2]], NOW).root == made[2]


@pytest.mark.parametrize(
    ("names", "permitted", "excluded"),
    [
        ([], [DNS("good.example")], None),
        ([DNS("good.example")], [DNS("good.example")], None),
        ([DNS("a.good.example")], [DNS("good.example")], None),
        ([DNS("good.example")], None, [MAIL("good.example")]),
        ([MAIL("a@good.example")], [MAIL("good.example")], [DNS("good.example")]),
        ([MAIL("a@b.good.example")], [MAIL(".good.example")], None),
        ([URI("https://evil.example/")], [DNS("good.example")], [MAIL("evil.example")]),
    ],
)
def test_constraint_applies_only_to_names_of_its_form(names, permitted, excluded):
    assert verified(names, permitted, excluded)


@pytest.mark.parametrize(
    ("names", "permitted", "excluded"),
    [
        ([DNS("evilgood.example")], [DNS("good.example")], None),
        ([DNS("any.example")], None, [DNS("")]),
        ([DNS("evil.example")], None, [DNS("evil.example")]),
        ([MAIL("a@evilgood.example")], [MAIL("good.example")], None),
        ([MAIL("a@b.good.example")], [MAIL("good.example")], None),
        ([MAIL("a@good.example")], [MAIL(".good.example")], None),
        ([URI("https://good.example/")], [URI("good.example")], None),
        ([URI("https://good.example/")], [URI("https://good.example/")], None),
        ([URI("https://evil.example/")], None, [URI("good.example")]),
    ],
)
def test_attack_a_name_outside_of_the_constraints_is_refused(names, permitted, excluded):
    with pytest.raises(BadSignature) as caught:
        verified(names, permitted, excluded)
    assert caught.value.reason == "name-constraints"


@pytest.mark.parametrize(("names", "excluded"), [([DNS("a")] * 64, [DNS("b")]), ([], [DNS("b")] * 65)])
def test_attack_a_certificate_with_thousands_of_names_or_constraints_is_refused(names, excluded):
    with pytest.raises(BadSignature, match="at most 64 names"):
        verified(names, None, excluded)


def test_unknown_uncritical_extension_is_accepted():
    leaf = replace(LEAF, extra=((c.SubjectKeyIdentifier(bytes(20)), False),))
    made = tuple(x509.parse(der) for der in chain(leaf, MIDDLE, ROOT))
    assert x509.verify(made, [made[2]], NOW).root == made[2]


def test_leaf_without_basic_constraints_is_no_ca():
    usage = dict.fromkeys(("content_commitment", "key_encipherment", "data_encipherment", "key_agreement"), False)
    rest = dict.fromkeys(("key_cert_sign", "crl_sign", "encipher_only", "decipher_only"), False)
    middle = x509.parse(chain(MIDDLE, ROOT)[0])
    made = c.CertificateBuilder(
        issuer_name=middle.name,
        subject_name=c.Name([c.NameAttribute(c.NameOID.COMMON_NAME, "leaf")]),
        public_key=key_of("leaf").public_key(),
        serial_number=1,
        not_valid_before=LEAF.start,
        not_valid_after=LEAF.end,
    ).add_extension(c.KeyUsage(digital_signature=True, **usage, **rest), critical=True)
    leaf = x509.parse(made.sign(key_of("middle"), hashes.SHA256()).public_bytes(Encoding.DER))
    assert (leaf.is_ca, leaf.path_length, leaf.may_sign, leaf.may_certify) == (False, None, True, False)
    assert x509.verify((leaf, middle), [middle], NOW).root == middle


def test_oversized_certificate_is_refused():
    der = chain(ROOT)[0]
    for size, message in ((16 * 1024, "in DER"), (16 * 1024 + 1, "at most 16384 bytes")):
        with pytest.raises(BadSignature, match=message) as caught:
            x509.parse(der.ljust(size, b"\0"))
        assert caught.value.reason == "certificate"

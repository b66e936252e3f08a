import contextlib
import subprocess
import warnings
from dataclasses import replace
from datetime import timedelta
from ssl import DER_cert_to_PEM_cert

import pytest
from cryptography import x509 as c
from cryptography.hazmat.primitives import serialization as s
from cryptography.x509.oid import NameOID
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.attacks_oms import chains
from fixtures.attacks_oms.forge import LEAF, MIDDLE, NOW, ROOT, chain
from skillhub.errors import BadSignature, FormatError, SkillhubError
from skillhub.trust import x509
from tests.trust.test_keys import DIFFIE_HELLMAN

SOUND = chain(LEAF, MIDDLE, ROOT)
BEGIN, END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
# RFC 5280 leaves these open; OpenSSL accepts these chains, skillhub refuses them.
STRICTER = {
    "intermediate for web servers",
    "certificate of a web server",
    "leaf for key agreement",
    "leaf without key usage",
    "intermediate without key usage",
    "leaf on another curve",
    "RSA leaf",
    "subject that steers the terminal",
    "subject with an escape",
    "leaf without a subject",
    "CA as leaf",
    "root as leaf",
    "SHA-224 in the leaf's signature",
    "issuers out of order",
    "stranger after the root",
    "chain of ten",
    "leaf that certifies itself",
    "bytes after the leaf",
    "policy constraints in the intermediate",
}


def certificates(*made):
    return tuple(x509.parse(der) for der in made)


def test_valid_chain_ends_at_the_pinned_root():
    made = certificates(*SOUND)
    assert x509.verify(made, [made[2]], NOW) == x509.Path(made[2], expired=False)


@pytest.mark.parametrize("length", [0, 9])
def test_chain_has_one_to_eight_certificates(length):
    with pytest.raises(BadSignature) as caught:
        x509.verify(certificates(*SOUND[:1]) * length, (), NOW)
    assert caught.value.reason == "chain-length"


def test_chain_of_eight_certificates_is_valid():
    between = [replace(MIDDLE, name=f"middle {i}", seed=f"middle {i}", path_length=None) for i in range(6)]
    made = certificates(*chain(LEAF, *between, ROOT))
    assert len(made) == 8
    assert x509.verify(made, [made[-1]], NOW).root == made[-1]


def test_pinned_leaf_is_no_root():
    made = certificates(*SOUND[:1])
    assert x509.verify(made, made, NOW).root is None


def test_chain_may_mix_ed25519_and_p256():
    made = certificates(*chain(LEAF, replace(MIDDLE, seed="ed:middle"), ROOT))
    assert x509.verify(made, [made[2]], NOW).root == made[2]


def test_fingerprint_matches_openssl():
    certificate = x509.parse(SOUND[0])
    ask = ["openssl", "x509", "-noout", "-fingerprint", "-sha256"]
    shown = subprocess.run(ask, input=certificate.pem, check=True, capture_output=True).stdout.decode()
    assert shown.strip().rpartition("=")[2].replace(":", "").lower() == certificate.fingerprint.hex


def test_certificates_are_read_from_pem_in_order():
    made = certificates(*SOUND)
    assert x509.load(b"".join(certificate.pem for certificate in made)) == made


@pytest.mark.parametrize("pem", [b"", b"not PEM", SOUND[0], f"{BEGIN}\nAA==\n{END}\n".encode()])
def test_invalid_pem_is_a_format_error(pem):
    with pytest.raises(FormatError, match="certificates in PEM"):
        x509.load(pem)


@pytest.mark.parametrize("mail", [".good.example", "mail.good.example", "a@mail.good.example"])
def test_permitted_names_are_permitted(mail):
    forge = c.DirectoryName(c.Name([c.NameAttribute(NameOID.ORGANIZATION_NAME, "forge")]))
    bears = c.SubjectAlternativeName([c.RFC822Name("a@Mail.good.example"), c.DNSName("x.good.example")])
    permitted = [forge, c.RFC822Name(mail), c.DNSName("good.example")]
    constraints = c.NameConstraints(permitted, [c.UniformResourceIdentifier("other.example")])
    made = certificates(
        *chain(replace(LEAF, extra=((bears, False),)), MIDDLE, replace(ROOT, extra=((constraints, True),)))
    )
    assert x509.verify(made, [made[2]], NOW).expired is False


def test_name_constraints_do_not_apply_to_their_own_certificate():
    forge = c.DirectoryName(c.Name([c.NameAttribute(NameOID.ORGANIZATION_NAME, LEAF.organisation)]))
    constraints = c.NameConstraints([forge], None)
    elsewhere = replace(ROOT, organisation="Elsewhere", extra=((constraints, True),))
    made = certificates(*chain(LEAF, MIDDLE, elsewhere))
    assert x509.verify(made, [made[2]], NOW).root == made[2]


def test_name_constraints_of_the_direct_issuer_apply():
    forge = c.DirectoryName(c.Name([c.NameAttribute(NameOID.ORGANIZATION_NAME, LEAF.organisation)]))
    closed = replace(MIDDLE, extra=((c.NameConstraints(None, [forge]), True),))
    made = certificates(*chain(LEAF, closed, ROOT))
    for roots in ([made[2]], [made[1]], []):
        with pytest.raises(BadSignature) as caught:
            x509.verify(made, roots, NOW)
        assert caught.value.reason == "name-constraints"


def test_path_length_counts_intermediate_certificates():
    made = certificates(*chain(LEAF, MIDDLE, replace(ROOT, path_length=1)))
    assert x509.verify(made, [made[2]], NOW).root == made[2]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_each_certificate_of_the_path_can_expire(place):
    certs = [LEAF, MIDDLE, ROOT]
    certs[place] = replace(certs[place], end=NOW - timedelta(seconds=1))
    made = certificates(*chain(*certs))
    assert x509.verify(made, [made[2]], NOW).expired is True


@pytest.mark.parametrize("order", [1, -1])
def test_valid_one_of_a_root_and_its_renewal_is_used(order):
    old = chain(replace(ROOT, end=NOW - timedelta(days=1)))
    made = certificates(SOUND[0], SOUND[1])
    roots = certificates(*old, SOUND[2])
    assert x509.verify(made, roots[::order], NOW) == x509.Path(roots[1], expired=False)


def test_certificates_above_the_pinned_one_may_be_expired():
    made = certificates(*chain(LEAF, MIDDLE, replace(ROOT, end=NOW - timedelta(days=1))))
    assert x509.verify(made, [made[1]], NOW) == x509.Path(made[1], expired=False)


def test_malformed_extension_is_refused():
    purposes = c.UnrecognizedExtension(c.ObjectIdentifier("2.5.29.37"), b"\x30\x03\x01\x01")
    der = chain(replace(LEAF, extra=((purposes, False),)))
    with pytest.raises(BadSignature) as caught:
        x509.parse(der[0])
    assert caught.value.reason == "certificate"


@pytest.mark.parametrize("read", [x509.parse, lambda der: x509.load(DER_cert_to_PEM_cert(der).encode())])
def test_negative_serial_is_refused_without_a_printed_warning(read):
    place = SOUND[0].index(b"\x02\x02\x01") + 2
    # The suite makes errors of warnings; a user's Python does not.
    with warnings.catch_warnings(record=True) as printed, pytest.raises(BadSignature) as caught:
        warnings.simplefilter("always")
        read(SOUND[0][:place] + b"\x80" + SOUND[0][place + 1 :])
    assert (caught.value.reason, printed) == ("certificate", [])


def test_attack_a_certificate_with_a_strange_country_is_refused_without_a_printed_warning():
    organisation, country = b"\x06\x03\x55\x04\x0a", b"\x06\x03\x55\x04\x06"
    assert organisation in SOUND[0]
    with warnings.catch_warnings(record=True) as printed, pytest.raises(BadSignature) as caught:
        warnings.simplefilter("always")
        x509.parse(SOUND[0].replace(organisation, country))
    assert (caught.value.reason, printed) == ("certificate", [])


def test_subject_has_at_most_256_characters():
    fill = 256 - len(x509.parse(SOUND[0]).subject) + len(LEAF.organisation)
    longest = chain(replace(LEAF, organisation="o" * fill))
    assert len(x509.parse(longest[0]).subject) == 256
    with pytest.raises(BadSignature) as caught:
        x509.parse(chain(replace(LEAF, organisation="o" * (fill + 1)))[0])
    assert caught.value.reason == "certificate-subject"


def test_huge_certificate_is_refused_before_parsing():
    with pytest.raises(BadSignature, match="at most"):
        x509.parse(SOUND[0] + bytes(70_000))


def test_attack_a_certificate_of_a_diffie_hellman_key_is_refused_unread():
    key = c.load_der_x509_certificate(SOUND[0]).public_key()
    honest = key.public_bytes(s.Encoding.DER, s.PublicFormat.SubjectPublicKeyInfo)
    with pytest.raises(BadSignature, match="another kind") as caught:
        x509.parse(SOUND[0].replace(honest, DIFFIE_HELLMAN))
    assert caught.value.reason == "certificate-key"


@settings(deadline=None)
@given(st.data())
def test_any_changed_byte_of_a_certificate_is_refused(data):
    made = bytearray(SOUND[0])
    for _ in range(data.draw(st.integers(1, 3))):
        made[data.draw(st.integers(0, len(made) - 1))] = data.draw(st.integers(0, 255))
    if bytes(made) == SOUND[0]:
        return
    with pytest.raises(SkillhubError):
        x509.verify((x509.parse(bytes(made)), *certificates(*SOUND[1:])), certificates(SOUND[2]), NOW)


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_as_a_certificate_are_refused(data):
    with pytest.raises(SkillhubError):
        x509.parse(data)
    with contextlib.suppress(SkillhubError):
        x509.load(data)


@pytest.mark.parametrize("case", list(chains.cases()), ids=lambda case: case.name)
def test_openssl_refuses_the_same_chains(case, tmp_path):
    accepted = openssl_accepts(tmp_path, case.chain, case.root)
    assert accepted == (case.name in STRICTER) or case.name == "SHA-3 in the leaf's signature"  # from 3.5 on


def test_openssl_accepts_the_valid_chain(tmp_path):
    assert openssl_accepts(tmp_path, SOUND, SOUND[-1])


def openssl_accepts(folder, made, root):
    (folder / "leaf.pem").write_text(DER_cert_to_PEM_cert(made[0]))
    (folder / "root.pem").write_text(DER_cert_to_PEM_cert(root))
    (folder / "others.pem").write_text("".join(DER_cert_to_PEM_cert(der) for der in made[1:]))
    when = str(int(NOW.timestamp()))
    command = ["openssl", "verify", "-no-CApath", "-no-CAstore", "-attime", when]
    command += ["-CAfile", "root.pem", "-untrusted", "others.pem", "leaf.pem"]
    if len(made) == 1:
        command = [part for part in command if part not in ("-untrusted", "others.pem")]
    return subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode == 0

import contextlib
import subprocess
from hashlib import sha256
from ssl import DER_cert_to_PEM_cert

import pytest
from cryptography.hazmat.primitives import serialization as s
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed448, rsa, x25519
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from hypothesis import given, settings
from hypothesis import strategies as st

from skillhub.errors import BadSignature, FormatError, SkillhubError, UsageError
from skillhub.trust.keys import PrivateKey, PublicKey, takes_long

KINDS = ("p256", "p384", "ed25519")
SEED = sha256(b"public test key").digest()
# Finding parameters takes between 0.1 and 15 seconds.
_P = (
    "ea7a6a74a0b53c88e6aa49d1cbaf52f7401f18c6724bde4f6c74974a1517ec73842b76640e1a661577c470f6"
    "b593663e8a4d8f7469911ff473f2523562a43efc80d6b57a55eae59923fbdf755ebcb9cddc7d1aca81a4f635"
    "485c0a7efabca616f85de7447f5a2d7e2e1a85f00b378faff71d9451f73b5448b6b011d95ed98be9"
)
_Q = "8c12c84ec5d7a67804072b862034b17f1bf7065b"
_G = (
    "c9deb38cc0cea1184f555e5710eacd1952883df78c8bb1eb53bc348a291de372567bbc8c08aa0e7ed8a018f6"
    "d34ef5317e7dec83c7b9c679ae1ca85c33540d7aca7b538344dd2a35c5ac572ba11a14e41932348b25653735"
    "210ae17c43805088d86d99bf7010a23fdaffd47a265028dbf0e71bd5c9d1d590c42e7ea53c454647"
)
DSA = dsa.DSAParameterNumbers(*(int(number, 16) for number in (_P, _Q, _G))).parameters()
# A Diffie-Hellman key as long as one on P-256. To read a longer one, whose number is prime, takes minutes.
DIFFIE_HELLMAN = bytes.fromhex(
    f"30593051 06092a864886f70d010301 3044 023f{'7f' * 63} 020102 0304 00020105".replace(" ", "")
)
STRANGERS = {
    "rsa": rsa.generate_private_key(65537, 2048),
    "p521": ec.generate_private_key(ec.SECP521R1()),
    "secp256k1": ec.generate_private_key(ec.SECP256K1()),
    "ed448": ed448.Ed448PrivateKey.generate(),
    "x25519": x25519.X25519PrivateKey.generate(),
    "dsa": DSA.generate_private_key(),
}


@pytest.mark.parametrize("kind", KINDS)
def test_generated_key_signs_and_survives_its_pem(kind):
    key = PrivateKey.generate(kind)
    again = PrivateKey.load(key.pem(b"correct horse"), b"correct horse")
    assert again.public == key.public
    assert again.public.kind == kind
    assert key.sign(b"data") == again.sign(b"data")
    PublicKey.load(key.public.pem).verify(key.sign(b"data"), b"data")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("data", [b"datA", b"", b"data\0"])
def test_other_data_is_refused(kind, data):
    key = PrivateKey.from_seed(SEED, kind)
    with pytest.raises(BadSignature) as caught:
        key.public.verify(key.sign(b"data"), data)
    assert caught.value.reason == "wrong-signature"


@pytest.mark.parametrize("kind", KINDS)
def test_signature_by_another_key_is_refused(kind):
    with pytest.raises(BadSignature, match="expected a signature by the key"):
        PrivateKey.generate(kind).public.verify(PrivateKey.from_seed(SEED, kind).sign(b"x"), b"x")


def test_keys_are_equal_only_to_themselves():
    assert PrivateKey.generate().public != PrivateKey.generate().public
    assert len({PrivateKey.from_seed(SEED).public, PrivateKey.from_seed(SEED).public}) == 1


def test_p256_signature_matches_rfc_6979():
    # RFC 6979, A.2.5, P-256 with SHA-256, message "sample".
    key = PrivateKey.from_seed(bytes.fromhex("C9AFA9D845BA75166B5C215767B1D6934E50C3DB36E89B127B8A622B120F6721"))
    r, s = decode_dss_signature(key.sign(b"sample"))
    assert f"{r:064X}" == "EFD48B2AACB6A8FD1140DD9CD45E81D69D2C877B56AAF991C34D0EA84EAF3716"
    assert f"{s:064X}" == "F7CB1C942D657C41D436C7A1B6E29F65F3E900DBB9AFF4064DC4AB2F843ACDA8"


def test_p384_signature_matches_rfc_6979_with_sha_384():
    # RFC 6979, A.2.6, P-384 with SHA-384, message "sample".
    key = PrivateKey.from_seed(
        bytes.fromhex(
            "6B9D3DAD2E1B8C1C05B19875B6659F4DE23C3B667BF297BA9AA47740787137D896D5724E4C70A825F872C9EA60D2EDF5"
        ),
        "p384",
    )
    r, _ = decode_dss_signature(key.sign(b"sample"))
    assert f"{r:096X}" == (
        "94EDBB92A5ECB8AAD4736E56C691916B3F88140666CE9FA73D64C4EA95AD133C81A648152E44ACF96E36DD1E80FABE46"
    )


def test_ed25519_signature_matches_rfc_8032():
    # RFC 8032, 7.1, test 1: the empty message.
    seed = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    assert PrivateKey.from_seed(seed, "ed25519").sign(b"").hex()[:16] == "e5564300c360ac72"


def test_fingerprint_and_hint_match_openssl_and_sha256sum(tmp_path):
    public = PrivateKey.from_seed(SEED).public
    (tmp_path / "key.pem").write_bytes(public.pem)
    ask = ["openssl", "pkey", "-pubin", "-in", "key.pem", "-outform"]
    der = subprocess.run([*ask, "DER"], cwd=tmp_path, check=True, capture_output=True).stdout
    pem = subprocess.run([*ask, "PEM"], cwd=tmp_path, check=True, capture_output=True).stdout
    assert public.fingerprint == "sha256:" + sha256(der).hexdigest()
    assert public.hint == "sha256:" + sha256(pem).hexdigest()


def test_compressed_point_is_the_same_key():
    key = ec.derive_private_key(int.from_bytes(SEED), ec.SECP256R1()).public_key()
    point = key.public_bytes(s.Encoding.X962, s.PublicFormat.CompressedPoint)
    der = bytes.fromhex("3039301306072a8648ce3d020106082a8648ce3d030107032200") + point
    pem = s.load_der_public_key(der)
    assert PublicKey.of(pem) == PrivateKey.from_seed(SEED).public


def test_both_values_of_s_are_valid():
    key = PrivateKey.from_seed(SEED)
    r, value = decode_dss_signature(key.sign(b"x"))
    order = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
    key.public.verify(encode_dss_signature(r, order - value), b"x")


@pytest.mark.parametrize("name", STRANGERS)
def test_unsupported_kind_is_refused(name):
    key = STRANGERS[name]
    pem = key.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.NoEncryption())
    with pytest.raises(FormatError, match="another kind"):
        PrivateKey.load(pem)
    public = key.public_key().public_bytes(s.Encoding.PEM, s.PublicFormat.SubjectPublicKeyInfo)
    with pytest.raises(FormatError, match="another kind"):
        PublicKey.load(public)


def test_attack_a_key_of_diffie_hellman_is_refused_unread():
    with pytest.raises(FormatError, match="another kind"):
        PublicKey.load(DER_cert_to_PEM_cert(DIFFIE_HELLMAN).replace("CERTIFICATE", "PUBLIC KEY").encode())


def test_only_elliptic_and_rsa_keys_are_read_quickly():
    def pem(key):
        return key.public_key().public_bytes(s.Encoding.PEM, s.PublicFormat.SubjectPublicKeyInfo)

    quick = [pem(ec.generate_private_key(ec.SECP256R1())), pem(rsa.generate_private_key(65537, 2048))]
    assert [takes_long(each) for each in (*quick, b"ab" * 32)] == [False, False, False]
    slow = DER_cert_to_PEM_cert(DIFFIE_HELLMAN).replace("CERTIFICATE", "PUBLIC KEY").encode()
    for each in (
        slow,
        quick[0] + slow,
        slow + quick[0],
        slow.replace(b"PUBLIC", b"DH PUBLIC"),
        slow.replace(b"M", b"*"),
    ):
        assert takes_long(each)


def test_unknown_kind_is_a_usage_error():
    with pytest.raises(UsageError, match="p256, p384, ed25519"):
        PrivateKey.generate("rsa")


@pytest.mark.parametrize("seed", [b"", b"\0" * 32, b"\xff" * 32])
def test_seed_off_the_curve_is_refused(seed):
    with pytest.raises(ValueError):
        PrivateKey.from_seed(seed)


def test_passphrase_is_required_only_for_encrypted_keys():
    key = PrivateKey.from_seed(SEED)
    with pytest.raises(UsageError, match="found none for an encrypted key"):
        PrivateKey.load(key.pem(b"secret"))
    with pytest.raises(UsageError, match="found one for an unencrypted key"):
        PrivateKey.load(key.pem(), b"secret")
    with pytest.raises(FormatError) as caught:
        PrivateKey.load(key.pem(b"secret"), b"wrong")
    assert "the passphrase is wrong" in caught.value.message
    assert "SKILLHUB_PASSPHRASE" in caught.value.hint


def test_traditional_form_of_openssl_is_read():
    pem = ec.derive_private_key(int.from_bytes(SEED), ec.SECP256R1()).private_bytes(
        s.Encoding.PEM, s.PrivateFormat.TraditionalOpenSSL, s.NoEncryption()
    )
    assert PrivateKey.load(pem).public == PrivateKey.from_seed(SEED).public


def test_repr_shows_no_secret():
    key = PrivateKey.from_seed(SEED)
    assert SEED.hex() not in f"{key!r}{vars(key)!r}"
    assert repr(key.public) == "PublicKey(kind='p256')"


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_as_a_key_are_refused(data):
    for load in (PublicKey.load, PrivateKey.load):
        with pytest.raises(SkillhubError):
            load(data)


@settings(deadline=None)
@given(st.binary(max_size=80), st.sampled_from(KINDS))
def test_any_bytes_as_a_signature_are_refused(data, kind):
    with contextlib.suppress(BadSignature):
        PrivateKey.from_seed(SEED, kind).public.verify(data, b"x")
        raise AssertionError("a random signature was accepted")

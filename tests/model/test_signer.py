import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillhub.errors import FormatError
from skillhub.formats.digest import Digest
from skillhub.formats.text import clean
from skillhub.model.lock import Signer

PRINT = Digest.of(b"key")


@given(st.sampled_from(["key", "certificate"]), st.text(min_size=1).map(clean).filter(bool))
def test_signer_is_read_back(kind, identity):
    signer = Signer(kind, PRINT, identity)
    assert Signer.parse(signer.spell()) == signer
    assert signer.to_json() == {"kind": kind, "identity": identity, "fingerprint": PRINT}


def test_identity_may_have_colons():
    assert Signer.parse(f"certificate:{PRINT}:CN=a:b,O=c").identity == "CN=a:b,O=c"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "key",
        f"key:{PRINT}",
        f"key:{PRINT}:",
        f"key:{PRINT}x:acme",
        f"Key:{PRINT}:acme",
        f"pgp:{PRINT}:acme",
        f"key:{PRINT.hex}:acme",
        f"key:{PRINT.upper()}:acme",
        f"key: {PRINT}:acme",
        f"key:{PRINT}:acme\n",
        f"key:{PRINT}:ac\u200bme",
        f"key:{PRINT}:\x1b[31macme",
        f"key:{PRINT}:\ud800",
    ],
)
def test_invalid_signer_is_refused(text):
    with pytest.raises(FormatError) as caught:
        Signer.parse(text)
    assert caught.value.message.isprintable()


@given(st.text(max_size=100) | st.text(max_size=9).map(f"key:{PRINT}:".__add__))
def test_any_text_of_a_signer_is_read_back_or_refused(text):
    with contextlib.suppress(FormatError):
        assert Signer.parse(text).spell() == text

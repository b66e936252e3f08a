import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillhub.errors import FormatError
from skillhub.formats.digest import Digest


@given(st.binary(max_size=50))
def test_the_digest_of_bytes_is_their_sha256(data):
    digest = Digest.of(data)
    assert digest == "sha256:" + digest.hex == Digest.parse(digest)
    assert digest.hex == hashlib.sha256(data).hexdigest()


HEX = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    "text",
    [
        *("", HEX, "sha256:" + HEX[1:], "sha256:" + HEX + "0", "sha256:" + HEX.upper(), "SHA256:" + HEX),
        *("sha512:" + HEX, f"sha256:{HEX}\n", f" sha256:{HEX}", f"sha256:{HEX[1:]}g", f"sha256:{HEX[1:]}０"),
        *(None, 1, b"sha256:" + HEX.encode(), ["sha256:" + HEX]),
    ],
)
def test_an_invalid_digest_is_refused(text):
    with pytest.raises(FormatError) as caught:
        Digest.parse(text, "lock: tree")
    assert caught.value.where == "lock: tree"


@given(st.text(max_size=80))
def test_any_invalid_text_raises_only_our_error(text):
    with pytest.raises(FormatError):
        Digest.parse(text)

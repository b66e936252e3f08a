"""Signatures of one document of the metadata of a registry."""

from datetime import UTC, datetime

import pytest
from tuf.api.metadata import Metadata, Root

from skillhub.errors import BadMetadataSignature, FormatError, Refused
from skillhub.trust.keys import PrivateKey
from skillhub.trust.registry_metadata import Dates, MetadataSet, keyid, sign, verify
from tests.support.registry import role_keys

KEYS = role_keys("signing")
MADE = MetadataSet.create(KEYS, 1, Dates(datetime(2026, 1, 1, tzinfo=UTC)))
ROOT = MADE.signed("root", Root)
STRANGER = PrivateKey.from_seed(bytes(31) + b"\5")


def signers(role, *keys):
    data = sign(role, MADE.read(role), [ROOT], lambda _: keys)
    verify(role, data, ROOT)
    return set(Metadata.from_bytes(data).signatures)


def test_only_needed_keys_of_the_role_sign():
    (online,) = KEYS("timestamp")
    assert signers("timestamp", STRANGER, online) == {keyid(online.public)}
    first, second, third = KEYS("targets")
    assert signers("targets", STRANGER, third, second, first) == {keyid(key.public) for key in (third, second)}


def test_attack_a_duplicate_and_a_foreign_key_do_not_reach_the_threshold():
    first, *_ = KEYS("targets")
    with pytest.raises(Refused, match="needs signatures of 2 keys, found 1"):
        signers("targets", first, first, STRANGER)
    with pytest.raises(Refused, match="needs signatures of 1 key, found 0") as caught:
        signers("timestamp", STRANGER)
    assert caught.value.hint.endswith("; if they are lost: skillhub registry rotate DIR timestamp")


def test_every_document_of_a_set_is_verified_with_its_delegator():
    MADE.verify()
    for role in MADE.documents:
        changed = MADE.documents[role].replace(b'"version":1', b'"version":2')
        assert changed != MADE.documents[role]
        with pytest.raises(BadMetadataSignature) as caught:
            MetadataSet.load({**MADE.documents, role: changed}).verify()
        assert caught.value.where == f"{role}.json"


@pytest.mark.parametrize("data", [b"", b"{}", b"<html>"])
def test_invalid_metadata_is_not_verified(data):
    with pytest.raises(FormatError):
        verify("timestamp", data, ROOT)

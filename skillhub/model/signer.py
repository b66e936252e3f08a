"""Who signed a skill, as the lock spells it: ``<kind>:<fingerprint>:<identity>``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, TypeAlias

from skillhub.errors import FormatError
from skillhub.model.digest import Digest
from skillhub.model.text import clean, quote, word

Kind: TypeAlias = Literal["key", "certificate", "sigstore"]
_KINDS: tuple[Kind, ...] = ("key", "certificate", "sigstore")


@dataclass(frozen=True, slots=True)
class Signer:
    """A publisher by its key, certificate root or Sigstore identity.

    Attributes:
        fingerprint: SHA-256 of the key's SubjectPublicKeyInfo, of the root certificate's DER, or of all that
            names a Sigstore identity.
        identity: The publisher's name, or where it has none the certificate's subject or the account.
    """

    kind: Kind
    fingerprint: Digest
    identity: str

    def spell(self) -> str:
        """Return the text that ``parse`` reads."""
        return f"{self.kind}:{self.fingerprint}:{self.identity}"

    @classmethod
    @lru_cache(maxsize=256)  # few publishers sign the many skills of a lock
    def parse(cls, text: str) -> Signer:
        """Return the signer that ``text`` spells.

        Raises:
            FormatError: it is not of the form, or its identity holds what nobody can see.
        """
        kind, _, rest = text.partition(":")
        fingerprint, identity = rest[:71], rest[72:]
        if kind not in _KINDS or rest[71:72] != ":" or not identity or clean(identity) != identity:
            raise FormatError(f"expected <kind>:<fingerprint>:<identity>, found {quote(text)}")
        return cls(kind, Digest.parse(fingerprint), identity)

    def named(self, voucher: str | None) -> str:
        """Return who it is: ``NAME by SOURCE`` where a source that is none of the user's is all that says so."""
        return f"{word(self.identity)} by {voucher}" if voucher else word(self.identity)

    def to_json(self, voucher: str | None = None) -> dict[str, Any]:
        """Return it as in SKILL of the contract; ``by`` is there as in ``named``."""
        facts = {"kind": self.kind, "identity": self.identity, "fingerprint": self.fingerprint}
        return {**facts, "by": voucher} if voucher else facts


def spelled(signed_by: Iterable[str], voucher: str | None) -> str:
    """Return signers as the lock spells them, and by whose word they are; ``nobody`` if there is none."""
    told = (f"{word(each)} by {voucher}" if voucher else word(each) for each in signed_by)
    return ", ".join(told) or "nobody"

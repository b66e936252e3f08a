"""Who signs with an account instead of a key: a name that an OpenID provider vouched for, through Sigstore."""

from __future__ import annotations

import json
from dataclasses import dataclass

from skillhub.errors import FormatError
from skillhub.model.digest import Digest
from skillhub.model.syntax.json import strict_json
from skillhub.model.text import clean, quote

_CAP = 1 << 16
_LONGEST = 512
_ROOT_TYPE = "application/vnd.dev.sigstore.trustedroot"


@dataclass(frozen=True, slots=True)
class Identity:
    """A name, who vouched for it, and the Sigstore that wrote it down; neither of them alone says who it is.

    Attributes:
        name: The mail address or URI that the certificate bears as its subject alternative name.
        issuer: The URL of the OpenID provider.
        root: The text of the ``trusted_root.json`` that a person pinned, as of a Sigstore that a company runs;
            None is the public one, whose root the package ``sigstore`` carries.
    """

    name: str
    issuer: str
    root: str | None = None

    def __post_init__(self) -> None:
        """Refuse what no person could tell apart.

        Raises:
            FormatError: a name or issuer that is empty, too long or holds what nobody can see; an issuer that
                is no URL; a root that is none.
        """
        for what, text in (("identity", self.name), ("issuer", self.issuer)):
            if not 1 <= len(text) <= _LONGEST or clean(text) != text or " " in text:
                message = (
                    f"expected as {what} 1 to {_LONGEST} characters, all of them visible and none a space"
                )
                raise FormatError(f"{message}, found {quote(text)}")
        if not self.issuer.startswith(("https://", "http://")):
            raise FormatError(f"expected the URL of an OpenID provider as issuer, found {quote(self.issuer)}")
        if self.root is not None:
            _check_root(self.root)
        if len(self.dump()) > _CAP:
            raise FormatError(f"expected a trusted root of some kilobytes, found {len(self.root or '')}")

    @property
    def fingerprint(self) -> Digest:
        """SHA-256 of ``dump``: of all that a person pins.

        The certificate's root would not do: the whole world shares that of the public Sigstore.
        """
        return Digest.of(self.dump().encode())

    def dump(self) -> str:
        """Return the one spelling of it: JSON in ASCII, its keys sorted, without spaces."""
        fields = {"identity": self.name, "issuer": self.issuer, "root": self.root}
        return json.dumps(fields, sort_keys=True, separators=(",", ":"))

    @classmethod
    def parse(cls, text: str) -> Identity:
        """Return what ``dump`` spelled.

        Raises:
            FormatError: it is not of the form.
        """
        match strict_json(text.encode("utf-8", "replace"), "identity", _CAP):
            case {"identity": str(name), "issuer": str(issuer), "root": str() | None as root}:
                return cls(name, issuer, root)
        raise FormatError(f"expected an identity, its issuer and its root, found {quote(text)}")

    def __str__(self) -> str:
        return f"{self.name} ({self.issuer})"


def _check_root(text: str) -> None:
    match strict_json(text.encode("utf-8", "replace"), "the trusted root", _CAP):
        case {"mediaType": str(kind)} if kind.startswith(_ROOT_TYPE):
            return
    raise FormatError("expected the trusted_root.json of a Sigstore, found another document")

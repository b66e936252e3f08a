"""Name constraints (RFC 5280, 4.2.1.10): for which names a CA may speak.

Directory, DNS and mail names are compared; where a constraint is on any other form of name, a certificate
that bears a name of that form is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self
from unicodedata import normalize

from cryptography import x509
from cryptography.x509.oid import NameOID

from skillhub.errors import BadSignature
from skillhub.model.text import quote


@dataclass(frozen=True)
class NameConstraints:
    """What a CA may and may not certify; without constraints, everything."""

    permitted: tuple[x509.GeneralName, ...] = ()
    excluded: tuple[x509.GeneralName, ...] = ()

    @classmethod
    def of(cls, extension: object) -> Self:
        """Return the constraints of the extension, none if there is no extension."""
        if not isinstance(extension, x509.NameConstraints):
            return cls()
        return cls(tuple(extension.permitted_subtrees or ()), tuple(extension.excluded_subtrees or ()))

    def check(self, names: tuple[x509.GeneralName, ...], where: str) -> None:
        """Return if all ``names`` are permitted and none excluded.

        Raises:
            BadSignature: ``name-constraints``.
        """
        for name in names:
            permitted = [base for base in self.permitted if type(base) is type(name)]
            excluded = [base for base in self.excluded if type(base) is type(name)]
            comparable = isinstance(name, x509.DirectoryName | x509.DNSName | x509.RFC822Name)
            if (
                (not comparable and (permitted or excluded))
                or (permitted and not any(_within(name, base) for base in permitted))
                or any(_within(name, base) for base in excluded)
            ):
                message = f"a name that its CA may not certify: {quote(str(name.value))}"
                raise BadSignature("name-constraints", message, where=where)


def names_of(subject: x509.Name, alternative: object) -> tuple[x509.GeneralName, ...]:
    """Return every name that a certificate bears: its subject, mail addresses in it, alternative names."""
    mails = subject.get_attributes_for_oid(NameOID.EMAIL_ADDRESS)
    others = alternative if isinstance(alternative, x509.SubjectAlternativeName) else ()
    return (x509.DirectoryName(subject), *(x509.RFC822Name(str(mail.value)) for mail in mails), *others)


def _within(name: x509.GeneralName, base: x509.GeneralName) -> bool:
    if isinstance(name, x509.DirectoryName) and isinstance(base, x509.DirectoryName):
        prefix = [_folded(part) for part in base.value.rdns]
        return [_folded(part) for part in name.value.rdns][: len(prefix)] == prefix
    found, wanted = _host(name), _host(base)
    if isinstance(name, x509.DNSName):
        return wanted in ("", found) or found.endswith("." + wanted.lstrip("."))
    if "@" in wanted:
        return found == wanted
    host = found.rpartition("@")[2]
    return host.endswith(wanted) if wanted.startswith(".") else host == wanted


def _host(name: x509.GeneralName) -> str:
    return str(name.value).lower().rstrip(".")


def _folded(part: x509.RelativeDistinguishedName) -> frozenset[tuple[str, str]]:
    # Without case, width and spacing (RFC 4518), or an exclusion would miss `Evil` for `EVIL`.
    return frozenset(
        (attribute.oid.dotted_string, " ".join(normalize("NFKC", str(attribute.value)).casefold().split()))
        for attribute in part
    )

"""Signatures with a Sigstore identity, verified offline, from their bundle alone, by the package ``sigstore``.

This package is an extra: this module is imported only to verify such a signature.
It verifies the chain to the certificate authority at the time of signing, the entries of the certificate and the
signature in the transparency logs, the signature, and that all of these are about the same bytes.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from struct import error as StructError  # noqa: N812 - as an exception is named
from urllib.parse import quote as percent_encode
from warnings import catch_warnings, simplefilter

from cryptography import x509
from cryptography.hazmat.asn1 import decode_der
from cryptography.utils import CryptographyDeprecationWarning
from sigstore.errors import Error
from sigstore.models import Bundle, TrustedRoot
from sigstore.verify import Verifier
from sigstore_models.trustroot.v1 import TrustedRoot as TrustedRootDocument

from skillhub.errors import BadSignature, FormatError
from skillhub.formats.text import quote
from skillhub.model.tree import SIGNATURE
from skillhub.trust.keys import PAYLOAD_TYPE, Identity, pae
from skillhub.trust.x509 import MALFORMED

_PUBLIC = "https://tuf-repo-cdn.sigstore.dev"
_HINT = "a Sigstore that is not the public one: skillhub publisher trust NAME --identity … --trusted-root FILE"
# Fulcio's extensions: https://github.com/sigstore/fulcio/blob/main/docs/oid-info.md
_ISSUER_RAW = x509.ObjectIdentifier("1.3.6.1.4.1.57264.1.1")
_OTHER_NAME = x509.ObjectIdentifier("1.3.6.1.4.1.57264.1.7")
_ISSUER = x509.ObjectIdentifier("1.3.6.1.4.1.57264.1.8")
# The exceptions of the package and of `cryptography` for malformed bytes.
_MALFORMED = (
    *MALFORMED,
    Error,
    ArithmeticError,
    AttributeError,
    LookupError,
    OSError,
    RuntimeError,
    StructError,
    x509.ExtensionNotFound,
)


def prove(signature: bytes, signed: bytes, root: str | None) -> Identity:
    """Return the identity that made the signature, as this trusted root proves it.

    Args:
        signature: The bytes of the signature's file, a bundle of Sigstore.
        signed: The bytes that it must be a signature of.
        root: The text of a ``trusted_root.json``; None for that of the public Sigstore in the installed package.

    Raises:
        BadSignature: ``sigstore``: nothing is proven.
        FormatError: the text is no trusted root.
    """
    verifier = _verifier(root)
    try:
        with catch_warnings():
            simplefilter("ignore", UserWarning)
            simplefilter("error", CryptographyDeprecationWarning)
            bundle = Bundle.from_json(signature)
            kind, payload = verifier.verify_dsse(bundle, _Anybody())
            identity = _named(bundle.signing_certificate, root)
    except (*_MALFORMED, FormatError) as error:
        message = f"expected a Sigstore identity that its bundle proves: {quote(str(error), 200)}"
        raise BadSignature("sigstore", message, where=SIGNATURE, hint=_HINT) from error
    if kind != PAYLOAD_TYPE or pae(payload) != signed:
        raise BadSignature("sigstore", "expected one statement in the bundle", where=SIGNATURE)
    return identity


class _Anybody:
    """A policy for the package that accepts every identity, since the caller compares it with those it trusts."""

    def verify(self, cert: x509.Certificate) -> None:
        """Accept any certificate."""


@lru_cache(maxsize=8)
def _verifier(root: str | None) -> Verifier:
    try:
        text = _packaged() if root is None else root
        return Verifier(trusted_root=TrustedRoot(TrustedRootDocument.from_json(text)))
    except _MALFORMED as error:
        message = f"expected the trusted root of a Sigstore: {quote(str(error), 200)}"
        raise FormatError(message, hint="update it, or the package sigstore if you pinned none") from error


def _packaged() -> str:
    # The package's own function would read a folder that other programs may write to.
    store = files("sigstore._store") / percent_encode(_PUBLIC, safe="") / "trusted_root.json"
    return store.read_text(encoding="utf-8")


def _named(certificate: x509.Certificate, root: str | None) -> Identity:
    extensions = certificate.extensions
    names = list(extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    issuers = {_text(extension) for extension in extensions if extension.oid in (_ISSUER, _ISSUER_RAW)}
    if len(names) != 1 or len(issuers) != 1:
        raise ValueError(f"expected one name and one issuer, found {len(names)} and {len(issuers)}")
    return Identity(_name(names[0]), issuers.pop(), root)


def _text(extension: x509.Extension[x509.ExtensionType]) -> str:
    if not isinstance(extension.value, x509.UnrecognizedExtension):
        raise ValueError("expected an issuer that is text")
    data = extension.value.value
    return decode_der(str, data) if extension.oid == _ISSUER else data.decode()


def _name(name: x509.GeneralName) -> str:
    if isinstance(name, x509.RFC822Name | x509.UniformResourceIdentifier):
        return name.value
    if isinstance(name, x509.OtherName) and name.type_id == _OTHER_NAME:
        return decode_der(str, name.value)
    raise ValueError("expected a mail address or a URI as the certificate's name")

"""From the certificate that signed a skill to a root that a person pinned (RFC 5280, 6), and no further.

Smaller than a general verifier and stricter: every certificate of a chain has an elliptic key, names its
issuer next to it, carries key usage, and is held to the present time, the root among them. Revocation lists
are not asked; a publisher's keys are revoked by whoever pinned it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from itertools import pairwise

from skillhub.errors import BadSignature
from skillhub.model.text import quote
from skillhub.trust.certificate import Certificate

__all__ = ["LONGEST", "Certificate", "Path", "load", "parse", "verify"]
LONGEST = 8


def load(pem: bytes) -> tuple[Certificate, ...]:
    """Return the certificates in ``pem``, in its order.

    Raises:
        FormatError: there is none, or something that is no certificate in PEM.
        BadSignature: one is of a kind that no chain of ours may hold (see ``parse``).
    """
    # 30 ms, and few skills are signed with a certificate.
    from skillhub.trust import x509_reader  # noqa: PLC0415

    return tuple(map(parse, x509_reader.split(pem)))


@lru_cache(maxsize=64)  # the skills of one publisher share their chain
def parse(der: bytes) -> Certificate:
    """Return the certificate that ``der`` holds.

    Raises:
        BadSignature: ``certificate`` (malformed), or by its flaw ``certificate-algorithm``,
            ``certificate-critical``, ``certificate-key``, ``certificate-subject``.
    """
    from skillhub.trust import x509_reader  # noqa: PLC0415 - as above

    return x509_reader.read(der)


@dataclass(frozen=True)
class Path:
    """A sound chain.

    Attributes:
        root: Where it ends: a pinned root, else the chain's own self-signed certificate, else nothing known.
        expired: A certificate of it is past its time; whether that is tolerated is for the caller to say.
    """

    root: Certificate | None
    expired: bool


def verify(chain: tuple[Certificate, ...], roots: Iterable[Certificate], now: datetime) -> Path:
    """Return the path from the leaf ``chain[0]`` to the nearest of ``roots``, or to the chain's own end.

    Every certificate of the chain must be issued by the next one, whether or not the path needs it.

    Raises:
        BadSignature: ``chain-length``, ``chain-order``, ``certificate-signature``, ``leaf-is-root``,
            ``leaf-is-ca``, ``leaf-usage``, ``issuer-not-ca``, ``path-length``, ``name-constraints``,
            ``certificate-not-yet-valid``.
    """
    if not 1 <= len(chain) <= LONGEST:
        raise BadSignature(
            "chain-length", f"expected a chain of 1 to {LONGEST} certificates, found {len(chain)}"
        )
    for certificate, issuer in pairwise(chain):
        _check_issued(certificate, issuer)
    # Of two roots with one key, as after a renewal, the one that lasts.
    path, root = _anchor(chain, tuple(sorted(roots, key=lambda root: root.not_after, reverse=True)))
    _check_leaf(path[0], root)
    for below, authority in enumerate(path[1:]):
        _check_authority(authority, below)
        for certificate in path[: below + 1]:
            authority.constraints.check(certificate.names, where=quote(certificate.subject))
    for certificate in path:
        if now < certificate.not_before:
            message = f"expected a certificate valid by now, found one from {certificate.not_before} on"
            raise BadSignature("certificate-not-yet-valid", message, where=quote(certificate.subject))
    return Path(root, expired=any(now > certificate.not_after for certificate in path))


def _anchor(
    chain: tuple[Certificate, ...], roots: tuple[Certificate, ...]
) -> tuple[tuple[Certificate, ...], Certificate | None]:
    for length, certificate in enumerate(chain, 1):
        for root in roots:
            if root.issued(certificate):
                return (*chain[:length], root), root
    top = chain[-1]
    if top.issuer != top.name:
        return chain, None
    _check_issued(top, top)
    return chain, top


def _check_issued(certificate: Certificate, issuer: Certificate) -> None:
    if issuer.issued(certificate):
        return
    where = quote(certificate.subject)
    if certificate.issuer != issuer.name:
        message = f"expected its issuer next in the chain, found {quote(issuer.subject)}"
        raise BadSignature("chain-order", message, where=where)
    message = "expected it to be signed by the next certificate of the chain"
    raise BadSignature("certificate-signature", message, where=where)


def _check_leaf(leaf: Certificate, root: Certificate | None) -> None:
    where = quote(leaf.subject)
    if leaf == root:
        raise BadSignature("leaf-is-root", "expected a CA above the certificate that signs", where=where)
    if leaf.is_ca:
        raise BadSignature("leaf-is-ca", "expected a certificate that signs skills, found a CA", where=where)
    if not leaf.may_sign:
        message = "expected a certificate for digital signatures on code, found another usage"
        raise BadSignature("leaf-usage", message, where=where)


def _check_authority(authority: Certificate, below: int) -> None:
    where = quote(authority.subject)
    if not authority.may_certify:
        raise BadSignature("issuer-not-ca", "expected a CA that may sign certificates", where=where)
    if authority.path_length is not None and below > authority.path_length:
        message = (
            f"expected at most {authority.path_length} certificates between it and the leaf, found {below}"
        )
        raise BadSignature("path-length", message, where=where)

"""``publisher``: lists, trusts and removes those who may sign skills."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from skillhub.cli.common import Common, Run
from skillhub.cli.options import argument, option
from skillhub.errors import FormatError, UsageError

if TYPE_CHECKING:
    from skillhub.project.user_state import Trusted

Name = Annotated[str, argument("NAME", "What you call the publisher.")]
KeyFile = Annotated[str | None, option("--key FILE", "A public key, PEM.")]
RootFile = Annotated[str | None, option("--certificate FILE", "A root certificate, PEM.")]
Account = Annotated[str | None, option("--identity NAME", "A Sigstore identity: mail address or URI.")]
Issuer = Annotated[str | None, option("--issuer URL", "The OpenID provider of the identity.")]
TrustedRoot = Annotated[str | None, option("--trusted-root FILE", "Of a Sigstore that is not the public one.")]
Only = Annotated[list[str] | None, option("--source NAME", "Only for skills of this source (repeatable).")]


def list_(common: Common) -> int:
    """List whom you trust to sign skills.

    Example: skillhub publisher list
    """
    rows = [_json(one) for one in common.publishers.all().values()]
    if common.json:
        return common.result("publisher list", {"publishers": rows})
    for row in rows:
        common.terminal.out(f"{row['name']}: for {', '.join(row['sources']) or 'every source'}", "bold")
        for each in row["signers"]:
            common.terminal.out(f"  {each['kind']} {each['fingerprint']}")
            if "issuer" in each:
                common.terminal.out(f"  {each['identity']} ({each['issuer']})")
    if not rows:
        common.terminal.say("nobody yet; to trust somebody: skillhub publisher trust NAME --key FILE")
    return 0


def trust(
    common: Common,
    name: Name,
    key: KeyFile = None,
    certificate: RootFile = None,
    identity: Account = None,
    issuer: Issuer = None,
    trusted_root: TrustedRoot = None,
    source: Only = None,
) -> int:
    """Trust a publisher's key or certificate root. A second key of the same name is trusted beside the first.

    A Sigstore identity takes the extra sigstore.

    Example: skillhub publisher trust acme --key acme.pub.pem
    """
    from skillhub.cli.common import read_as
    from skillhub.project.user_state import Trusted
    from skillhub.trust import x509
    from skillhub.trust.keys import PublicKey

    if [key, certificate, identity].count(None) != 2 or (identity is None) != (issuer is None):
        expected = "one of --key FILE, --certificate FILE, and --identity NAME with --issuer URL"
        raise UsageError(f"expected {expected}")
    if trusted_root is not None and identity is None:
        raise UsageError("--trusted-root FILE goes with --identity")
    keys = (read_as(key, PublicKey.load).pem.decode(),) if key else ()
    roots = tuple(each.pem.decode() for each in read_as(certificate, x509.load)) if certificate else ()
    identities = (_identity(identity, issuer or "", trusted_root),) if identity is not None else ()
    for alias in source or ():
        common.sources.get(alias)
    added = Trusted(name, keys, roots, tuple(source or ()), identities)
    trusted = added if common.dry_run else common.publishers.trust(added)
    _show_trusted(_json(trusted), common)
    return 0


def _show_trusted(trusted: dict[str, Any], common: Common) -> None:
    if common.json:
        common.terminal.answer("publisher trust", trusted)
        return
    may = "might" if common.dry_run else "may"
    for each in trusted["signers"]:
        common.terminal.did(f"{trusted['name']} {may} sign with the {each['kind']} {each['fingerprint']}", "green")


def remove(common: Common, name: Name) -> int:
    """Trust a publisher no longer. What is installed stays, and is not taken again.

    Example: skillhub publisher remove acme
    """
    gone = common.publishers.get(name) if common.dry_run else common.publishers.remove(name)
    return common.done(
        "publisher remove", _json(gone), f"{gone.name} {'would be' if common.dry_run else 'is'} no longer trusted"
    )


def _json(one: Trusted) -> dict[str, Any]:
    from skillhub.trust import x509
    from skillhub.trust.keys import Identity, PublicKey

    signers = [{"kind": "key", "fingerprint": PublicKey.load(pem.encode()).fingerprint} for pem in one.keys]
    signers += [
        {"kind": "certificate", "fingerprint": each.fingerprint}
        for pem in one.certificates
        for each in x509.load(pem.encode())
    ]
    for identity in map(Identity.parse, one.identities):
        named = {"identity": identity.name, "issuer": identity.issuer}
        signers.append({"kind": "sigstore", "fingerprint": identity.fingerprint, **named})
    return {"name": one.name, "signers": signers, "sources": list(one.sources)}


def _identity(name: str, issuer: str, trusted_root: str | None) -> str:
    from skillhub.cli.common import read_file
    from skillhub.trust.keys import Identity

    try:
        root = read_file(trusted_root).decode() if trusted_root else None
    except UnicodeDecodeError as error:
        raise FormatError("expected the trusted_root.json of a Sigstore", where=trusted_root) from error
    return Identity(name, issuer, root).dump()


VERBS: dict[str, Run] = {"list": list_, "trust": trust, "remove": remove}

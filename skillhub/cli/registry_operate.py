"""``registry yank``, ``withdraw``, ``delegate``, ``rotate``, ``refresh``: what operators sign besides releases."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from skillhub.cli.common import Common
from skillhub.cli.epoch import signing_time
from skillhub.cli.given import read_file
from skillhub.cli.options import argument, option
from skillhub.cli.passphrase import with_passphrase
from skillhub.cli.terminal import members
from skillhub.errors import FormatError, UsageError
from skillhub.model import time as times
from skillhub.model.text import quote

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from skillhub.flows.registry.delegate import Delegated
    from skillhub.flows.registry.opened import Signing
    from skillhub.flows.registry.refresh import Expiry
    from skillhub.model.release import Release

    _T = TypeVar("_T")

KEYS_VARIABLE = "SKILLHUB_REGISTRY_KEYS"

Dir = Annotated[str, argument("DIR", "The registry's folder.")]
KeysDir = Annotated[
    str | None,
    option(
        "--keys DIR", "Where the offline keys are, if not in the registry's own folder.", envvar=KEYS_VARIABLE
    ),
]
Wanted = Annotated[str, argument("NAME@VERSION", "The release.")]
PublicKeys = Annotated[
    list[str] | None, option("--key FILE", "A public key that it signs with (PEM; repeatable).")
]
Roots = Annotated[list[str] | None, option("--certificate FILE", "A root of its signers (PEM; repeatable).")]
Names = Annotated[list[str] | None, option("--name SKILL", "A skill that it may publish (repeatable).")]
Since = Annotated[str | None, option("--since TIME", "What it signed before stays good; else nothing does.")]
Revoked = Annotated[
    list[str] | None,
    option("--revoke FINGERPRINT|FILE", "A key or certificate that is not its own any more."),
]


def signed(common: Common, keys: str | None, use: Callable[[Signing], _T]) -> _T:
    """Return what ``use`` returns, given what to sign with; a passphrase is asked for where one is needed."""
    from skillhub.flows.registry.opened import Signing

    def with_keys(passphrase: bytes | None) -> _T:
        return use(Signing(now=signing_time(), passphrase=passphrase, keys=keys, dry_run=common.dry_run))

    return with_passphrase("passphrase of the registry's keys", common, with_keys)


def yank(
    common: Common,
    folder: Dir,
    wanted: Wanted,
    reason: Annotated[str | None, option("--reason TEXT", "Why; users read it.")] = None,
    undo: Annotated[bool, option("--undo", "Offer it again.")] = False,
) -> int:
    """Tell clients not to choose a release any more. Who has it locked can still install it, with a warning.

    Example: skillhub registry yank ./registry my-skill@1.2.0 --reason "breaks on Windows"
    """
    from skillhub.flows.registry import recall

    if undo == (reason is not None):
        raise UsageError("expected either --reason TEXT or --undo")
    release = signed(common, None, lambda signing: recall.yank(folder, wanted, reason, signing))
    return _recalled(common, "registry yank", release, "offered again" if undo else "yanked")


def withdraw(
    common: Common,
    folder: Dir,
    wanted: Wanted,
    reason: Annotated[str, option("--reason TEXT", "Why; users read it.")],
) -> int:
    """Take a release back for good. Clients refuse it, also from a lock; there is no way back.

    Example: skillhub registry withdraw ./registry my-skill@1.2.0 --reason "sends tokens away"
    """
    from skillhub.flows.registry import recall

    release = signed(common, None, lambda signing: recall.withdraw(folder, wanted, reason, signing))
    return _recalled(common, "registry withdraw", release, "withdrawn")


def _recalled(common: Common, command: str, release: Release, verb: str) -> int:
    would = "would be " if common.dry_run else ""
    return common.done(command, _row(release), f"{release.name} {release.version} {would}{verb}", "green")


def _row(release: Release) -> dict[str, str | None]:
    return members(release, "name", "version", "yanked", "withdrawn")


def delegate(
    common: Common,
    folder: Dir,
    publisher: Annotated[str, argument("PUBLISHER", "Whom; admitted if it is new.")],
    key: PublicKeys = None,
    certificate: Roots = None,
    name: Names = None,
    move: Annotated[bool, option("--move", "Take the names from whoever has them.")] = False,
    revoke: Revoked = None,
    since: Since = None,
    keys: KeysDir = None,
) -> int:
    """Say who may publish what. Admit a publisher, give it keys and names, revoke keys. Takes the offline keys.

    Releases that are left without a valid signature by this are withdrawn, and named.

    Example: skillhub registry delegate ./registry acme --key acme.pub.pem --name my-skill
    """
    from skillhub.flows.registry import delegate as flow

    mandate = flow.Mandate(
        publisher=publisher,
        keys=tuple(map(read_file, key or ())),
        certificates=tuple(map(read_file, certificate or ())),
        names=tuple(name or ()),
        move=move,
        revoke=tuple(each if each.startswith("sha256:") else _pem_text(each) for each in revoke or ()),
        since=_time(since) if since else flow.ALWAYS,
    )
    _show_delegated(signed(common, keys, lambda signing: flow.delegate(folder, mandate, signing)), common)
    return 0


def _show_delegated(done: Delegated, common: Common) -> None:
    from skillhub.flows.registry.delegate import ALWAYS, fingerprints

    admission, did = done.admission, common.terminal.did
    if common.json:
        revoked = [members(each, "fingerprint", "since") for each in admission.revoked]
        common.terminal.answer(
            "registry delegate",
            {
                "publisher": admission.publisher,
                "keys": list(fingerprints(admission)),
                "names": sorted(admission.names),
                "revoked": revoked,
                "withdrawn": [_row(release) for release in done.withdrawn],
            },
        )
        return
    did(f"{admission.publisher}{' (dry run)' if common.dry_run else ''}", "bold")
    for fingerprint in fingerprints(admission):
        did(f"  signs with {fingerprint}")
    for gone in admission.revoked:
        did(f"  revoked    {gone.fingerprint} since {'ever' if gone.since == ALWAYS else gone.since}")
    for name in sorted(admission.names):
        did(f"  publishes  {name}")
    for release in done.withdrawn:
        common.terminal.out(f"withdrawn: {release.name} {release.version}: {release.withdrawn}", "yellow")


def rotate(
    common: Common,
    folder: Dir,
    role: Annotated[str, argument("ROLE", "root, targets, namespaces, releases, …")],
    lost: Annotated[
        list[str] | None,
        option("--lost KEYID", "Replace this key alone, lost or stolen (repeatable; 8 digits do)."),
    ] = None,
    keys: KeysDir = None,
) -> int:
    """Give a role new keys; clients follow by themselves. --dry-run lists the keys, and which are at hand.

    Takes the keys of root, or for namespaces, releases and listing those of targets.

    Example: skillhub registry rotate ./registry timestamp
    """
    from skillhub.flows.registry.rotate import rotate as flow

    done = signed(common, keys, lambda signing: flow(folder, role, signing, lost or ()))
    if common.json:
        return common.result("registry rotate", {**asdict(done), "at_hand": sorted(done.at_hand)})
    for verb, ids in (("would go" if common.dry_run else "gone", done.gone), ("kept", done.kept)):
        for each in ids:
            common.terminal.did(f"{verb}: {each}{'' if each in done.at_hand else ' (not at hand)'}")
    for each in done.new:
        common.terminal.did(f"new: {each}", "green")
    if done.gone and not common.dry_run:
        common.terminal.say("the old keys are in keys/retired; once the site is published, destroy them")
    return 0


def refresh(
    common: Common,
    folder: Dir,
    within: Annotated[float, option("--within DAYS", "Sign anew what expires so soon.", min=0)] = 2,
    role: Annotated[
        list[str] | None, option("--role ROLE", "Sign for this role in any case (repeatable).")
    ] = None,
    keys: KeysDir = None,
) -> int:
    """Sign anew what expires soon, with online keys alone. For cron, once a day; it signs nothing if nothing does.

    What waits for offline keys is told 30 days ahead; bring them, and name the role.

    Example: skillhub registry refresh ./registry --quiet
    """
    from skillhub.flows.registry.refresh import refresh as flow

    done = signed(common, keys, lambda signing: flow(folder, signing, within, role or ()))
    for each in done.waiting:
        text = (
            f"what {each.role} has signed expires {_shown(each)}; with the offline keys: --role {each.role}"
        )
        common.terminal.warn(f"warning: {text}")
    if common.json:
        rows = {"renewed": done.renewed, "waiting": done.waiting}
        common.terminal.answer(
            "registry refresh",
            {
                part: [{"role": each.role, "expires": _shown(each)} for each in found]
                for part, found in rows.items()
            },
        )
    elif done.renewed:
        verb = "would sign anew" if common.dry_run else "signed anew"
        first = min(done.renewed, key=lambda each: each.when)
        common.terminal.did(
            f"{verb}: {len(done.renewed)} documents; the first expires {_shown(first)}", "green"
        )
    return 0


def _shown(expiry: Expiry) -> str:
    return times.spell(expiry.when)


def _pem_text(path: str) -> str:
    data = read_file(path)
    if not data.startswith(b"-----BEGIN "):
        raise FormatError("expected a public key or a certificate in PEM", where=path)
    return data.decode("ascii", "replace")


def _time(text: str) -> str:
    """Return a time as documents have it; one without a zone is UTC, a day is its beginning."""
    found = times.parse(text)
    if found is None:
        raise UsageError(f"expected a time such as 2026-01-02T03:04:05Z, found {quote(text)}")
    return times.spell(found)

"""One locked skill under audit: a check is a function from a ``Case`` to what it finds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from skillhub.errors import BadSignature, FormatError, NotFound, SkillhubError
from skillhub.flows import recalled, signers
from skillhub.flows.admission import since
from skillhub.flows.audit_places import Places
from skillhub.flows.audit_rules import note, seen
from skillhub.flows.choose import TakenBack, choose_release
from skillhub.flows.locked import root_of, unsaid
from skillhub.flows.policy import of_entry
from skillhub.flows.ports import Ports
from skillhub.flows.provenance import anew, asking
from skillhub.model.capability import capabilities
from skillhub.model.dataclass import dataclass, replace
from skillhub.model.lock import Locked
from skillhub.model.manifest import Manifest
from skillhub.model.policy import LASTING
from skillhub.model.ref import Named
from skillhub.model.release import Admission, Index
from skillhub.model.report import Noted
from skillhub.model.signer import Signer
from skillhub.model.text import is_name
from skillhub.model.tree import Tree
from skillhub.model.version import is_version, precedence
from skillhub.scan import scan
from skillhub.trust.publishers import Publisher
from skillhub.trust.registry import publisher_of


@dataclass(frozen=True, slots=True)
class Case:
    """A locked skill, and all that is known of it.

    Attributes:
        tree: What the store holds of it, if that is whole.
        folder: Where a person finds its files.
        said: What its registry says of it, or last said.
    """

    name: str
    entry: Locked
    tree: Tree | None
    folder: str
    said: Index
    places: Places
    ports: Ports


_HTTP = ("http://", "git+http://")
Check = Callable[[Case], Iterator[Noted]]


def release(case: Case) -> Iterator[Noted]:
    """Hold the lock's release against what its registry says of it."""
    at = case.places.skill(case.name)
    if not case.entry.named and case.entry.place.startswith(_HTTP):
        yield note("source-http", f"{case.name} comes from {case.entry.place}", case.name, at)
    if error := recalled.objection(case.name, case.entry, case.said):
        rule = error.reason if isinstance(error, BadSignature) else error.code
        yield note(rule, error.message, case.name, at)
    locked = recalled.locked_release(case.name, case.entry, case.said)
    for text in recalled.yanked(locked):
        yield note("yanked", text, case.name, at)
    offered = case.said.skills.get(case.name, ())
    if locked is None and offered:
        twin = next((each for each in offered if each.version == case.entry.version), None)
        found = f"{case.name} {case.entry.version}"
        if twin is None:
            yield note("release-gone", f"its registry no longer has {found}", case.name, at)
        else:
            message = f"the lock has {found} as {case.entry.digest}, its registry as {twin.digest}"
            yield note("release-changed", message, case.name, at)


def signer(case: Case) -> Iterator[Noted]:
    """Hold the lock's signer against those whom its registry admits today, and whom the user trusts."""
    at = case.places.skill(case.name)
    is_patched = case.entry.patch is not None
    if not case.entry.signed_by:
        as_patch = ", and neither is this project's patch of it" if is_patched else ""
        yield note("unsigned", f"{case.name} is signed by nobody{as_patch}", case.name, at)
        return
    if is_patched:
        yield note(
            "unsigned", f"{case.name} is patched by this project, and nobody signed the patch", case.name, at
        )
    locked = recalled.locked_release(case.name, case.entry, case.said)
    admitted = recalled.admission(locked, case.said) if locked else None
    if admitted is None:
        return
    try:
        known = _fingerprints(admitted, case.ports)
    except FormatError as error:
        yield note("source-refused", f"{case.entry.source}: {error.message}", case.name, at)
        return
    for each in map(Signer.parse, case.entry.signed_by):
        if each.fingerprint not in known:
            message = (
                f"{each.identity} signed it with {each.fingerprint}, which is no key of {admitted.publisher}, "
                "who has the name today"
            )
            yield note("signer-retired", message, case.name, at)


def publisher(case: Case) -> Iterator[Noted]:
    """Hold the signer of what no registry vouches for against those whom the user trusts by now.

    Who was never trusted, and was agreed to in a question, has lost nothing.
    """
    entry, ports = case.entry, case.ports
    root = root_of(entry, ports)
    accepted = signers.pinned(case.name, entry.original, root, ports.publishers) if root is None else []
    if not accepted or signers.is_own(accepted[0], ports.publishers):
        return
    source, trusted = None if entry.local else entry.source, signers.trusted(ports.publishers)
    known, narrowed = _vouched(each for each in trusted if each.covers(source)), _vouched(trusted)
    for signed in map(Signer.parse, entry.signed_by):
        if is_name(signed.identity) and signed.fingerprint not in known:
            here = f" for {source or 'local paths'}" if signed.fingerprint in narrowed else ""
            message = f"{signed.identity} signed it with {signed.fingerprint}, whom you no longer trust{here}"
            yield note("signer-untrusted", message, case.name, case.places.skill(case.name))


def _fingerprints(admitted: Admission, ports: Ports) -> set[str]:
    """Return the keys and roots that anybody vouches for today; a revoked one is told of as such."""
    vouched = _vouched([publisher_of(admitted), *signers.trusted(ports.publishers)])
    return {each.fingerprint for each in admitted.revoked} | vouched


def _vouched(publishers: Iterable[Publisher]) -> set[str]:
    found: set[str] = set()
    for each in publishers:
        found |= {key.fingerprint for key in each.keys}
        found |= {root.fingerprint for root in each.roots}
        found |= {identity.fingerprint for identity in each.identities}
    return found


def age(case: Case) -> Iterator[Noted]:
    """Look for a newer version."""
    version = case.entry.version or ""
    offered = case.said.skills.get(case.name, ())
    if not offered or not is_version(version):
        return
    with suppress(NotFound, TakenBack):
        newest = choose_release(Named(case.name, case.entry.source), offered).version or ""
        if precedence(newest) > precedence(version):
            message = f"{case.name} is locked at {version}, {newest} is the newest"
            yield note("outdated", message, case.name, case.places.skill(case.name))


def content(case: Case) -> Iterator[Noted]:
    """Scan what is stored, and hold what it can do against the lock."""
    if case.tree is None:
        return
    for found in scan(case.tree):
        yield seen(found, case.name, case.folder)
    try:
        can = capabilities(case.tree, Manifest.read(case.tree))
    except SkillhubError as error:
        yield note("malformed", error.message, case.name, (f"{case.folder}/SKILL.md", 0))
        return
    if message := unsaid(can, case.entry):
        noted = note("capability-unsaid", message, case.name, case.places.skill(case.name))
        again = anew(case.name, asking(case.name, case.entry, case.ports), case.ports)
        hint = f"if it may: {again}; the lock says so then"
        yield noted if case.entry.patch else replace(noted, hint=hint)


def policy(case: Case) -> Iterator[Noted]:
    """Hold it against the policies of machine, user and project, as if it were installed today."""
    policies, tree, entry = case.ports.policies, case.tree, case.entry
    if not policies:
        return
    subject = of_entry(case.name, entry, entry.capabilities, case.ports)
    keys = LASTING
    if tree is not None:
        with suppress(SkillhubError):  # a manifest that cannot be read is told of by ``content``
            subject = replace(subject, can=capabilities(tree, Manifest.read(tree)))
        subject, keys = replace(subject, findings=scan(tree)), keys | {"fail-on"}
    locked = recalled.locked_release(case.name, entry, case.said)
    if locked is not None and (out := since(locked.published, case.ports)) is not None:
        subject, keys = replace(subject, age=out), keys | {"min-age-days"}
    for found in policies.objections(subject, keys):
        yield note("policy", f"{found.message} ({found.where})", case.name, case.places.skill(case.name))


# Of where a skill came from and who signed it, and of all else.
TRUST: tuple[Check, ...] = (release, signer, publisher)
CHECKS: tuple[Check, ...] = (*TRUST, age, content, policy)

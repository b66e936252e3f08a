"""Yank and withdraw releases, publish advisories, refresh metadata, rotate keys, admit and revoke publishers."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from skillhub.errors import BadLog, BadSignature, FormatError, NameNotOwned, NotFound, Refused, UsageError
from skillhub.formats.digest import NO_FILES, Digest
from skillhub.formats.text import (
    NAME_RULE,
    as_command,
    clean,
    did_you_mean,
    is_name,
    parse_time,
    quote,
    spell_time,
    spelled_like,
)
from skillhub.model.advisory import ECOSYSTEM, AdvisoriesDocument, OsvAdvisory
from skillhub.model.index import ADVISORIES, ALWAYS, Admission, Index, Release, Revocation
from skillhub.model.version import is_version
from skillhub.registry.log_writer import consistency
from skillhub.registry.operator import OpenRegistry, Signing, opened
from skillhub.trust import oms, registry_metadata, x509
from skillhub.trust.documents import refuse_large
from skillhub.trust.keys import PrivateKey, PublicKey
from skillhub.trust.log import NOTE_CAP, LogHead, Note, NoteKey
from skillhub.trust.publishers import judge, publisher_of
from skillhub.trust.registry_metadata import MetadataSet, Rotation, keyid
from skillhub.trust.roles import CEREMONY_DAYS, LOG, LOG_HEAD, RELEASES, ROLES, MetadataExpiry, delegator_of, rule_of
from skillhub.trust.x509 import Certificate

# Yank and withdraw: a yanked release is not chosen for new installs, and a withdrawn one is never used.

_REASON_MAX = 1024


def yank(folder: str, reference: str, reason: str | None, signing: Signing) -> Release:
    """Yank the release ``NAME@VERSION``: clients no longer choose it, but keep it where it is locked.

    Args:
        folder: The folder of the registry.
        reference: The release.
        reason: The reason, which is published; None undoes a yank.
        signing: When and with which keys to sign.

    Raises:
        UsageError: ``reference`` or ``reason`` is malformed, or the release was withdrawn.
        NotFound: the registry or the release does not exist.
        Refused: an online key is missing.
        SecurityError: the site differs from its signed state.
        StateError: the disk refuses.
    """
    text = None if reason is None else _reason(reason)

    def yanked(release: Release) -> Release:
        if release.withdrawn is not None:
            message = f"{release.name} {release.version} was withdrawn, which cannot be undone: {release.withdrawn}"
            raise UsageError(message, hint="to offer it again, publish it under a new version")
        return replace(release, yanked=text)

    return _revise(folder, reference, yanked, signing)


Agree = Callable[[Sequence[Release]], None]  # raises Refused if these releases are not to be withdrawn


def _unasked(withdrawn: Sequence[Release]) -> None:
    """Agree to it."""


def withdraw(folder: str, reference: str, reason: str, signing: Signing, agree: Agree = _unasked) -> Release:
    """Withdraw a release for good: clients refuse it even where it is locked; raises as ``yank`` and ``agree``."""
    text = _reason(reason)
    return _revise(folder, reference, lambda release: replace(release, withdrawn=text), signing, agree)


def _revise(
    folder: str, reference: str, change: Callable[[Release], Release], signing: Signing, agree: Agree = _unasked
) -> Release:
    with opened(folder, signing) as hub:
        index = hub.index([reference.partition("@")[0]])
        release = _find(index, reference)
        changed = change(release)
        agree([changed] if changed.withdrawn is not None else [])
        releases = tuple(changed if old == release else old for old in index.skills[release.name])
        revised = Index({**index.skills, release.name: releases}, index.admissions)
        hub.publish(revised, [release.publisher or ""], [release.name])
    return changed


def _reason(text: str) -> str:
    """Return a reason in the form in which it is published; raise UsageError if it is empty or too long."""
    reason = clean(text).strip()
    if not 0 < len(reason) <= _REASON_MAX:
        raise UsageError(f"expected a reason of 1 to {_REASON_MAX} characters, found {quote(text)}")
    return reason


def _find(index: Index, reference: str) -> Release:
    """Return the release ``NAME@VERSION``; raise NotFound with the versions of the skill if there is none."""
    name, _, version = reference.partition("@")
    if not name or not version:
        raise UsageError(f"expected NAME@VERSION, found {quote(reference)}")
    releases = index.skills.get(name, ())
    match = next((release for release in releases if release.version == version), None)
    if match is None:
        known = ", ".join([release.version or "" for release in releases][:8] or [*index.skills][:8]) or "none yet"
        meant = "" if releases else did_you_mean(spelled_like(name, index.skills))
        raise NotFound(f"there is no release {quote(reference)}", hint=meant or f"there are: {known}")
    return match


# Advise: publish known bad skills and digests of this registry or of other sources, signed by online keys.


def advise(
    folder: str, advisories: Sequence[AdvisoriesDocument], signing: Signing, withdrawn: Sequence[str] = ()
) -> AdvisoriesDocument:
    """Publish advisories and digests in addition to the present ones; a new advisory replaces one with the same id.

    Args:
        folder: The folder of the registry.
        advisories: The advisories and digests to add.
        signing: When and with which keys to sign.
        withdrawn: The ids and digests to remove.

    Raises:
        UsageError: an advisory would match honest skills or nothing, or is older than the one with its id.
        NotFound: the registry does not exist, or has no such advisory or digest to remove.
        Refused: an online key is missing, or all advisories together would be too large for clients.
        SecurityError: the site differs from its signed state.
        StateError: the disk refuses.
    """
    with opened(folder, signing) as hub:
        before = AdvisoriesDocument.parse(hub.registry.target(hub.metadata, ADVISORIES) or b"{}", ADVISORIES)
        by_id = {advisory.id: advisory for advisory in before.advisories}
        for new in (advisory for document in advisories for advisory in document.advisories):
            by_id[new.id] = _later(by_id.get(new.id, new), new)
        digests = {digest: why for document in (before, *advisories) for digest, why in document.digests.items()}
        for id_ in withdrawn:
            if by_id.pop(id_, None) is None and digests.pop(Digest(id_), None) is None:
                known = ", ".join((*by_id, *digests)[:8]) or "none in this registry"
                raise NotFound(f"there is no advisory {quote(id_)}", where=folder, hint=f"there are: {known}")
        _refuse_loose(by_id.values(), digests, signing.now)
        after = AdvisoriesDocument(advisories=tuple(by_id[id_] for id_ in sorted(by_id)), digests=digests)
        refuse_large({ADVISORIES: (data := after.dump())})
        hub.sign(ADVISORIES, data)
    return after


def _later(earlier: OsvAdvisory, new: OsvAdvisory) -> OsvAdvisory:
    """Return the new advisory if it may replace the earlier one: of two with one id, OSV takes the later modified."""
    before, after = parse_time(earlier.modified), parse_time(new.modified)
    if before is not None and (after is None or after < before):
        fault = f"expected a time not before {earlier.modified}, found {quote(new.modified)}"
        raise UsageError(f"{new.id}: modified: {fault}", hint="the registry has a later version of this advisory")
    return new


def _refuse_loose(advisories: Iterable[OsvAdvisory], digests: Mapping[Digest, str], now: datetime) -> None:
    """Raise UsageError for an advisory that clients would ignore, or that would match honest skills."""
    advisories = [*advisories]
    for advisory in advisories:
        if (withdrawn := parse_time(advisory.withdrawn)) is not None and withdrawn > now:
            fault = f"expected a past time, found {quote(advisory.withdrawn)}; clients apply it until then"
            raise UsageError(f"{advisory.id}: withdrawn: {fault}")
    pairs = [(advisory, affected) for advisory in advisories for affected in advisory.affected or ()]
    every = {*digests, *(digest for advisory, affected in pairs for digest in affected.database_specific.digests)}
    if NO_FILES in every | {digest for advisory in advisories for digest in advisory.database_specific.digests}:
        raise UsageError("the digest of an empty file matches honest skills")
    for advisory, affected in pairs:
        if affected.package and affected.package.ecosystem.partition(":")[0] != ECOSYSTEM:
            message = f"{advisory.id}: expected the ecosystem {ECOSYSTEM}, found {quote(affected.package.ecosystem)}"
            raise UsageError(message)
        for version in affected.versions or ():
            if not is_version(version):
                fault = f"expected a release's version such as 1.2.0, found {quote(version)}"
                raise UsageError(f"{advisory.id}: versions: {fault}")
        for fault in affected.faults():
            raise UsageError(f"{advisory.id}: {fault}")


# Refresh: renew metadata that expires soon, the only regular work for a registry without changes.

WITHIN_DAYS = 2.0
DAYS_MAX = 3650


@dataclass(frozen=True, slots=True)
class Refreshed:
    """The result of ``refresh``.

    Attributes:
        renewed: The roles whose documents were signed again.
        waiting: The offline roles whose documents expire soon, and need a ceremony.
    """

    renewed: tuple[MetadataExpiry, ...]
    waiting: tuple[MetadataExpiry, ...]


def refresh(folder: str, signing: Signing, within: float = WITHIN_DAYS, roles: Sequence[str] = ()) -> Refreshed:
    """Sign the documents of online roles again that expire within ``within`` days.

    Args:
        folder: The folder of the registry.
        signing: When and with which keys to sign.
        within: The days.
        roles: The roles to renew in any case, online or offline.

    Raises:
        UsageError: a role does not exist, or the days are out of range.
        NotFound: the registry does not exist.
        Refused: a key is missing.
        SecurityError: the site differs from its signed state.
        StateError: the disk refuses.
    """
    for role in roles:
        _refuse_unknown_role(role)
    if not 0 <= within <= DAYS_MAX:
        raise UsageError(f"expected 0 to {DAYS_MAX} days, found {within}")
    with opened(folder, signing) as hub:
        expiring_roles = (each.role for each in expiring(hub.metadata, signing.now, within))
        renewable = [role for role in expiring_roles if rule_of(role).online and _general_role(role) not in roles]
        chosen = [role for role in hub.metadata.documents if _general_role(role) in roles]
        after = hub.metadata.renewed([*chosen, *renewable], hub.keys.of, hub.dates)
        hub.serve(after)
    before = hub.metadata.documents
    renewed = tuple(_expiry(role, after) for role, data in after.documents.items() if before[role] != data)
    waiting = expiring(after, signing.now, CEREMONY_DAYS)
    return Refreshed(renewed, tuple(expiry for expiry in waiting if not rule_of(expiry.role).online))


def expiring(metadata: MetadataSet, now: datetime, within: float) -> list[MetadataExpiry]:
    """Return the roles whose documents have expired or expire within these days, the earliest first."""
    expiries = [_expiry(role, metadata) for role in metadata.documents]
    soon = [expiry for expiry in expiries if expiry.expires_within(within, now)]
    return sorted(soon, key=lambda expiry: (expiry.expires, expiry.role))


def _expiry(role: str, metadata: MetadataSet) -> MetadataExpiry:
    return MetadataExpiry(role, metadata.read(role).version, spell_time(metadata.expires(role)))


def _general_role(role: str) -> str:
    return role if role in ROLES else RELEASES


# Rotate: new keys for a role, as a routine or after a loss or theft.

_ID_MIN = 8


@dataclass(frozen=True, slots=True)
class Rotated:
    """The key ids of a role after a rotation.

    Attributes:
        gone: The replaced keys.
        new: The new keys; empty in a dry run that would have to make them.
        kept: The old keys that stay.
        at_hand: The old keys whose private keys are available.
    """

    role: str
    gone: tuple[str, ...]
    new: tuple[str, ...]
    kept: tuple[str, ...]
    at_hand: frozenset[str]


def rotate(folder: str, role: str, signing: Signing, lost: Sequence[str] = ()) -> Rotated:
    """Replace all keys of ``role``, or only its lost ones; clients follow without action.

    Private keys are stored before any document lists them, and moved away only after no document does. If the process
    is killed, the registry stays valid, and the same call finishes the work.

    Args:
        folder: The folder of the registry.
        role: The role.
        signing: When and with which keys to sign.
        lost: The TUF key ids of lost or stolen keys, or prefixes of them.

    Raises:
        UsageError: the role or a key does not exist.
        NotFound: the registry does not exist.
        Refused: too few keys of the delegating role are available: ``root``, or ``targets`` for a role below it.
        SecurityError: the site differs from its signed state.
        StateError: the disk refuses.
    """
    _refuse_unknown_role(role)
    with opened(folder, signing) as hub:
        current = hub.metadata.keyids(role)
        # Pending keys are from an earlier call that was killed.
        pending = list(hub.keys.pending(role))
        old = [name for name in current if name not in map(_keyid, pending)]
        kept = _kept_keys(old, lost, finished=len(old) < len(current))
        at_hand = hub.at_hand(role)
        new_keys = pending[: ROLES[role].keys - len(kept)]
        if not signing.dry_run:
            hint = "give the folder of the offline keys with --keys DIR, and their passphrase"
            hub.refuse_without_keys(delegator_of(role), f"new keys for {role} need", hint)
            for _ in range(ROLES[role].keys - len(kept) - len(new_keys)):
                new_keys.append(PrivateKey.generate("ed25519"))
                hub.keys.add(role, new_keys[-1])
            _apply_rotation(hub, role, kept, new_keys)
        new = tuple(map(_keyid, new_keys))
    return Rotated(role, tuple(name for name in current if name not in (*kept, *new)), new, kept, at_hand)


def _keyid(key: PrivateKey) -> str:
    return keyid(key.public)


def _kept_keys(old: Sequence[str], lost: Sequence[str], *, finished: bool) -> tuple[str, ...]:
    """Return the old keys that stay: all except the lost ones; without lost keys, none stays.

    Each id in ``lost`` must identify one old key; after a rotation that was ``finished``, it may identify none.
    """
    if not lost:
        return ()
    lost_keys = set()
    for start in lost:
        matches = [name for name in old if name.startswith(start)]
        if len(start) < _ID_MIN or len(matches) > 1 or not (matches or finished):
            hint = f"the keys are: {', '.join(old)}"
            raise UsageError(f"expected a key of the role, found {quote(start)}", hint=hint)
        lost_keys |= set(matches)
    return tuple(name for name in old if name not in lost_keys)


def _apply_rotation(hub: OpenRegistry, role: str, kept_ids: Sequence[str], new_keys: Sequence[PrivateKey]) -> None:
    keyids = {*kept_ids, *map(_keyid, new_keys)}
    current = set(hub.metadata.keyids(role))
    if keyids != current:
        change = Rotation(role, frozenset(current - keyids), tuple(key.public for key in new_keys))
        for state in registry_metadata.states(hub.metadata, change, hub.keys.of, hub.dates):
            if role == LOG:  # the same state has a checkpoint that the new key signed
                index = hub.index()
                everything = ([], []) if current else ([*index.admissions], [*index.skills])
                hub.publish(index, *everything, state=state)
            else:
                hub.serve(state)
    elif role == LOG:
        hub.serve(hub.metadata)  # an earlier call may have been killed before it wrote the checkpoint
    hub.keys.settle(role, keyids)


# Cosign: add the cosignatures of witnesses to the newest checkpoint of the log.


def cosign(folder: str, lines: bytes, signing: Signing, seen: int = 0) -> tuple[NoteKey, tuple[str, ...], str]:
    """Publish cosignatures of the newest checkpoint.

    Returns the log's key in the form for witnesses, the names of all signers, and a request to a witness.

    Args:
        folder: The folder of the registry.
        lines: The answers of witnesses; empty if only the key or the request is wanted.
        signing: When and with which keys to sign.
        seen: The number of entries that the witness of the request knows (C2SP ``tlog-witness``).

    Raises:
        UsageError: ``seen`` exceeds the number of entries.
        NotFound: the registry does not exist, or has no log.
        FormatError: the lines are not signatures of a note.
        BadLog: a line claims to be the log's own signature, but is invalid.
        Refused: an online key is missing, or clients would not read that many cosignatures.
        SecurityError: the site differs from its signed state.
        StateError: the disk refuses.
    """
    with opened(folder, signing) as hub:
        head = hub.log_head(hub.metadata)
        if head is None:
            hint = as_command("skillhub", "registry", "rotate", folder, LOG)
            raise NotFound("the registry has no log", where=folder, hint=hint)
        if not 0 <= seen <= head.checkpoint.size:
            raise UsageError(f"expected at most {head.checkpoint.size} entries, found {seen}")
        proof = [b64encode(hash_).decode() for hash_ in consistency(head, seen, hub.registry.served)]
        try:
            new = Note.parse(f"{head.note.text}\n".encode() + lines).signatures if lines else ()
        except BadLog as error:
            hint = "each begins with —; --request N prints what to send to a witness, who answers with such a line"
            raise FormatError("expected the lines of cosignatures", where=folder, hint=hint) from error
        # A new signature replaces an older one by the same key, which may be for an earlier checkpoint.
        by_key = {(name, data[:4]): (name, data) for name, data in (*head.note.signatures, *new)}
        note = Note(head.note.text, tuple(by_key.values()))
        if (size := len(note.dump())) > NOTE_CAP:
            hint = "nothing was published; the checkpoint of the next release takes new cosignatures"
            raise Refused(f"expected at most {NOTE_CAP:,} bytes of a checkpoint, found {size:,}", hint=hint)
        key = hub.log_key(hub.metadata).public
        head = LogHead(note, head.checkpoint, head.nodes)
        head.verify(head.checkpoint.origin, key)
        hub.sign(LOG_HEAD, head.dump())
    request = "\n".join((f"old {seen}", *proof, "", note.dump().decode()))
    return NoteKey.of_log(head.checkpoint.origin, key), tuple(name for name, _ in note.signatures), request


# Delegate: admit a publisher, give it keys and names, revoke keys, move names.


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionChange:
    """A change of a publisher's admission.

    Attributes:
        keys: PEM of further public keys.
        certificates: PEM of further root certificates for its signers.
        names: The names of further skills that it may publish.
        move: Whether to take a name from the publisher that owns it.
        revoke: Fingerprints, or PEM, of keys and certificates to revoke.
        since: The time of the revocation (UTC, ``2026-01-02T03:04:05Z``); it voids the signatures of releases that
            were published since, with ``ALWAYS`` of all releases.
    """

    publisher: str
    keys: tuple[bytes, ...] = ()
    certificates: tuple[bytes, ...] = ()
    names: tuple[str, ...] = ()
    move: bool = False
    revoke: tuple[str, ...] = ()
    since: str = ALWAYS


@dataclass(frozen=True, slots=True)
class ChangedAdmission:
    """The new admission of a publisher, and the releases that were withdrawn because their signatures became void."""

    admission: Admission
    withdrawn: tuple[Release, ...]


def delegate(folder: str, change: AdmissionChange, signing: Signing, agree: Agree = _unasked) -> ChangedAdmission:
    """Admit a publisher, or change its keys and names.

    Raises:
        UsageError: a name is invalid, a time is in the future or without a key to revoke, or a new publisher gets no
            key.
        NameNotOwned: a name belongs to another publisher, and ``move`` is not set.
        NotFound: the registry, or a key to revoke, does not exist.
        Refused: a key to add was revoked before, or offline keys are missing.
        FormatError: a key or certificate is malformed, or may not sign skills.
        SecurityError: the site differs from its signed state.
        StateError: the disk refuses.
    """
    _check_change(change, signing)
    with opened(folder, signing) as hub:
        before = hub.index(change.names if hub.large else None, [change.publisher])
        if hub.large:  # the documents of all skills of the publisher are written again, with their descriptions
            before = hub.index([*change.names, *_released_skills(before, change.publisher)], [change.publisher])
        admission = before.admissions.get(change.publisher, Admission(publisher=change.publisher))
        if not (admission.keys or admission.certificates or change.keys or change.certificates):
            known, then = sorted(hub.publishers()), "to admit it: --key FILE or --certificate FILE"
            if change.revoke:
                then = f"there are: {', '.join(known[:8])}"
            hint = did_you_mean(spelled_like(change.publisher, known), then)
            raise UsageError(f"{change.publisher} is not admitted, and has no key", hint=hint)
        admission = _with_revocations(_with_keys(admission, change), change, before, hub)
        index, former = _assign_names(before, replace(admission, names=admission.names | set(change.names)))
        if former and not change.move:
            name, owner = next(iter(former.items()))
            ends = f"whose releases that {change.publisher} did not sign are then withdrawn for good"
            hint = f"to take it from {owner}, {ends}: --move (with --dry-run, it lists them)"
            raise NameNotOwned(f"the name {quote(name)} belongs to {quote(owner)}", hint=hint)
        changed = {**index.skills}
        if change.revoke or former:
            changed |= {name: tuple(_rejudge(name, index, hub)) for name in _released_skills(index, change.publisher)}
        index = Index(changed, index.admissions)
        names = _released_skills(index, change.publisher)
        pairs = (pair for name in names for pair in zip(before.skills[name], index.skills[name], strict=True))
        withdrawn = tuple(release for old, release in pairs if release.withdrawn != old.withdrawn)
        agree(withdrawn)
        hub.publish(index, dict.fromkeys([change.publisher, *former.values()]), names)
    return ChangedAdmission(index.admissions[change.publisher], withdrawn)


def _check_change(change: AdmissionChange, signing: Signing) -> None:
    for name in (change.publisher, *change.names):
        if not is_name(name):
            raise UsageError(f"expected a name of {NAME_RULE}, found {quote(name)}")
    if change.since > signing.time:
        raise UsageError(f"expected a time in the past, found {change.since}")
    if change.since != ALWAYS and not change.revoke:
        raise UsageError("a time is given only with a revoked key", hint="--revoke FINGERPRINT")


def _with_keys(admission: Admission, change: AdmissionChange) -> Admission:
    """Return the admission with further keys and roots, in canonical PEM; refuse keys that were revoked before."""
    keys = [PublicKey.load(pem) for pem in change.keys]
    roots = [root for pem in change.certificates for root in x509.load(pem)]
    for root in roots:
        if not root.may_certify:
            message = f"expected a root that may sign certificates, found {quote(root.subject)}"
            raise FormatError(message, hint="give a publisher's own key with --key")
    revoked = {revocation.fingerprint for revocation in admission.revoked}
    for fingerprint in (*(key.fingerprint for key in keys), *(root.fingerprint for root in roots)):
        if fingerprint in revoked:
            raise Refused(f"{fingerprint} was revoked; it is not admitted again")
    all_keys = dict.fromkeys([*admission.keys, *(key.pem.decode() for key in keys)])
    all_roots = dict.fromkeys([*admission.certificates, *(root.pem.decode() for root in roots)])
    return replace(admission, keys=tuple(all_keys), certificates=tuple(all_roots))


def _with_revocations(admission: Admission, change: AdmissionChange, index: Index, hub: OpenRegistry) -> Admission:
    """Return the admission with further revocations; revoked keys stay listed for their earlier signatures."""
    revoked = {revocation.fingerprint: revocation for revocation in admission.revoked}
    for key_text in change.revoke:
        key = key_or_certificate(key_text.encode()) if key_text.startswith("-----BEGIN ") else None
        for candidate in () if key else _known_keys(admission, index, hub):
            if key_text in (candidate.fingerprint, getattr(candidate, "key", candidate).fingerprint):
                key = candidate
                break
        if key is None:
            hint = "to revoke a key that the registry never saw, give its PEM file"
            raise NotFound(f"{change.publisher} has no key {quote(key_text)}", hint=hint)
        earlier = revoked.get(key.fingerprint)
        since = min(change.since, earlier.since) if earlier else change.since
        revoked[key.fingerprint] = Revocation(key.fingerprint, since, key.pem.decode())
    return replace(admission, revoked=tuple(revoked[key] for key in sorted(revoked)))


def _known_keys(admission: Admission, index: Index, hub: OpenRegistry) -> Iterator[PublicKey | Certificate]:
    """Yield the keys and certificates of a publisher: admitted and revoked ones, then those in chains of releases."""
    for pem in (*admission.keys, *admission.certificates, *(revocation.pem for revocation in admission.revoked)):
        yield key_or_certificate(pem.encode())
    for name in _released_skills(index, admission.publisher):
        for release in index.skills[name]:
            if release.publisher == admission.publisher and release.withdrawn is None:
                envelope = oms.read(hub.tree(release))
                yield from envelope.chain if envelope else ()


def key_or_certificate(pem: bytes) -> PublicKey | Certificate:
    """Return the public key, or the first of the certificates; raises as their ``load``."""
    return x509.load(pem)[0] if b"CERTIFICATE" in pem.partition(b"\n")[0] else PublicKey.load(pem)


def _assign_names(index: Index, admission: Admission) -> tuple[Index, dict[str, str]]:
    """Return the index with all names of the admission moved to its publisher, and their former owners."""
    others = ((owner, other) for owner, other in index.admissions.items() if owner != admission.publisher)
    former = {name: owner for owner, other in others for name in sorted(other.names & admission.names)}
    admissions = {owner: replace(other, names=other.names - set(former)) for owner, other in index.admissions.items()}
    skills = {
        name: tuple(replace(each, publisher=admission.publisher) for each in releases) if name in former else releases
        for name, releases in index.skills.items()
    }
    return Index(skills, {**admissions, admission.publisher: admission}), former


def _released_skills(index: Index, publisher: str) -> list[str]:
    """Return the skills of the publisher that have a release, sorted."""
    return sorted(index.admissions[publisher].names & set(index.skills)) if publisher in index.admissions else []


def _rejudge(name: str, index: Index, hub: OpenRegistry) -> Iterator[Release]:
    """Yield the releases of a skill; one without a valid signature by its present publisher is withdrawn."""
    for release in index.skills[name]:
        if release.withdrawn is not None:
            yield release
            continue
        publisher = publisher_of(index.admissions[release.publisher or ""], release.published)
        try:
            locked = (release.tree,) if release.tree else ()
            verdict = judge(hub.tree(release), [publisher], None, hub.signing.now, locked)
            reason = f"it is not signed by {publisher.name}, the present owner of the name"
            yield release if verdict.status == "valid" else replace(release, withdrawn=reason)
        except BadSignature as error:
            if error.reason != "revoked":
                raise
            yield replace(release, withdrawn=error.message)


def _refuse_unknown_role(role: str) -> None:
    """Raise UsageError for an unknown role."""
    if role not in ROLES:
        raise UsageError(f"there is no role {quote(role)}", hint=f"there are: {', '.join(ROLES)}")

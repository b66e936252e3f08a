"""What a person agreed to before, held against what comes under the same name now, whatever a lock says of either."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from skillhub.errors import BadSignature, SignerChanged
from skillhub.flows import signers
from skillhub.flows.candidate import Candidate
from skillhub.flows.locked import root_of
from skillhub.flows.needs import flag
from skillhub.flows.ports import Ports
from skillhub.flows.recalled import admission, locked_release
from skillhub.flows.state import State
from skillhub.model.dataclass import replace
from skillhub.model.digest import Digest
from skillhub.model.lock import Locked
from skillhub.model.record import Facts, Record
from skillhub.model.text import as_command
from skillhub.model.tree import SIGNATURE
from skillhub.model.whence import Whence
from skillhub.trust.registry import publisher_of


def as_agreed(before: Locked, record: Record, after: Locked) -> Locked:
    """Return the entry of the version before with all that is known of what the person agreed to.

    Their record was read off its bytes and says whence it was; the lock may have been changed since.
    """
    if before.tree != record.tree:
        before = replace(before, version=None, rev=None, signed_by=())
    needs = tuple(f"{need['kind']}:{need['name']}" for need in record.facts.needs)
    before = replace(before, tree=record.tree, capabilities=record.facts.capabilities, requires=needs)
    if record.whence is None:
        return before
    # A record knows signers by kind and fingerprint; whoever is still there is spelled as now.
    spelled = next(
        (each.signed_by for each in (after, before) if Whence.of(each).signers == record.whence.signers),
        record.whence.signers,
    )
    return replace(before, source=record.whence.source, signed_by=spelled)


def refuse_other(candidate: Candidate, state: State, ports: Ports) -> None:
    """Refuse what comes under the name of something agreed to, and its signature does not allow for.

    Raises:
        SignerChanged, BadSignature, SourceError, FormatError: as for the two below.
    """
    refuse_other_signer(candidate, state.records.skills.get(candidate.name), ports)
    _refuse_expired(candidate, state)


def refuse_other_signer(candidate: Candidate, record: Record | None, ports: Ports) -> None:
    """Refuse what is not signed by the publisher whose signature the person agreed to, or is so no longer.

    Raises:
        SignerChanged: no flag and no answer lifts this.
        SourceError, FormatError: whether the two are one publisher's is its registry's word, which cannot be had.
    """
    entry, signer = candidate.entry, candidate.signer
    if record is None or record.whence is None or not record.whence.signers or record.is_of(entry):
        return
    was = {*record.whence.signers}
    # A lock may name others beside whoever signed: what is agreed to now would let them sign the next version.
    now = {*Whence.of(entry).signers}
    if signer is not None and now:
        now.add(f"{signer.kind}:{signer.fingerprint}")
        if now <= was:
            return
        known, kin = _fingerprints(was), _kin(candidate, record.whence.source, ports)
        if known & kin and _fingerprints(now) <= known | kin:
            return  # another key of the same publisher, says whoever vouches for both
    raise SignerChanged(
        f"expected {candidate.name} to be signed by {', '.join(sorted(was))}, as when it was agreed to here; "
        f"it is signed by {', '.join(entry.signed_by) or 'nobody'} now",
        where=entry.origin,
        hint=f"if that is meant: {anew(candidate.name, asking(candidate.name, entry, ports), ports)}",
    )


def _refuse_expired(candidate: Candidate, state: State) -> None:
    """Refuse what is signed with an expired certificate and is not what the person agreed to, though it is locked.

    A lock comes with a repository: whoever changes it, and has the key of a certificate that is past its time, would
    have new bytes taken for those of its publisher. Where nobody agreed to any yet, the lock is all there is.

    Raises:
        BadSignature: no flag and no answer lifts this.
    """
    record = state.records.skills.get(candidate.name)
    if signers.EXPIRED not in candidate.warnings or record is None or record.facts == Facts():
        return
    entry, before = candidate.entry, state.lock.skills.get(candidate.name)
    known = {record.tree, before.original.tree} if before and record.is_of(before) else {record.tree}
    if known.isdisjoint((entry.tree, entry.original.tree)):
        message = (
            f"expected the tree that was agreed to here, {record.tree}, or a certificate that is still valid"
        )
        hint = "its publisher may sign it anew"
        raise BadSignature("certificate-expired", message, where=f"{candidate.name}: {SIGNATURE}", hint=hint)


def but_other_signers(
    candidates: Mapping[str, Candidate], state: State, ports: Ports
) -> tuple[dict[str, Candidate], list[str]]:
    """Return the candidates that nobody asked for by name, and what is told of those that are left out.

    What a person does without holds up nothing that they use: its record stays as it is, so that ``enable`` refuses
    another signer as ever. Were it to stop the command, the way on would be to agree to what was disabled.

    Raises:
        SourceError, FormatError: as ``refuse_other``.
    """
    found, notes = dict(candidates), []
    for name, candidate in candidates.items():
        record = state.records.skills.get(name)
        if record is None or record.held != "user":
            continue
        try:
            refuse_other(candidate, state, ports)
        except (SignerChanged, BadSignature) as error:
            del found[name]
            notes.append(f"{name} stays disabled, in the version agreed to: {error.message}; {error.hint}")
    return found, notes


def _fingerprints(spelled: Iterable[str]) -> set[str]:
    return {each.partition(":")[2] for each in spelled}


def _kin(candidate: Candidate, source: str, ports: Ports) -> frozenset[Digest]:
    """Return the keys of the candidate's publisher: of what is in the store, its registry alone knows them all.

    Of whoever signed what came from another source, be it under the same alias, a registry says nothing that counts.

    Raises:
        SourceError, SecurityError, FormatError: that cannot be asked.
    """
    name, entry = candidate.name, candidate.entry
    if entry.source != source or ports.sources.had_another(source):
        return signers.kin(candidate.signer, signers.trusted(ports.publishers))
    if root_of(entry, ports) is None:
        return candidate.kin
    index = ports.open(ports.sources.get(entry.source)).release_index([name])
    release = locked_release(name, entry, index)
    admitted = admission(release, index) if release else None
    if release is None or admitted is None:
        return candidate.kin
    return candidate.kin | signers.kin(candidate.signer, [publisher_of(admitted, release.published)])


def asking(name: str, entry: Locked, ports: Ports) -> list[str]:
    """Return the words that ask for what the lock names, once the lock no longer does."""
    if entry.named:
        version = f"@{entry.version}" if root_of(entry, ports) else ""
        return [f"{entry.source}:{name}{version}"]
    if entry.local:
        path = entry.path or ""
        return [path if os.path.isabs(path) else f"./{path}"]
    return [entry.place, "--skill", f"{entry.plugin}:{name}" if entry.plugin else name]


def removing(name: str, ports: Ports) -> str:
    """Return what to type to take a skill out."""
    return f"skillhub remove {name}{flag(ports.project.scope)}"


def anew(name: str, words: Iterable[str], ports: Ports) -> str:
    """Return what to type to have the skill that these words ask for in place of the one that is installed."""
    return f"{removing(name, ports)}, then skillhub install {as_command(*words)}{flag(ports.project.scope)}"

"""Whether what comes under a name is from where, and by whom, it was before: as the lock has it, as a person agreed.

``hold_to_lock`` holds it against the lock, ``hold_to_record`` against this machine's record, whatever the lock says.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping

from skillhub.errors import BadSignature, SignerChanged, SourceMismatch
from skillhub.flows import signers
from skillhub.flows.candidate import Candidate
from skillhub.flows.hints import command, reinstall
from skillhub.flows.ports import Ports
from skillhub.flows.standing import Standing
from skillhub.flows.state import State
from skillhub.model.digest import Digest
from skillhub.model.lock import Locked
from skillhub.model.provenance import LOCK, MEANING, Provenance, signers_of
from skillhub.model.record import Facts, Record
from skillhub.model.ref import canonical
from skillhub.model.skill import Scope
from skillhub.model.text import as_command, as_word
from skillhub.model.tree import SIGNATURE
from skillhub.trust.registry import publisher_of


def hold_to_lock(candidate: Candidate, entry: Locked | None, scope: Scope) -> None:
    """Refuse a candidate that is not from where the lock has its name from, or not by the same publisher.

    Raises:
        SourceMismatch: it is from elsewhere.
        SignerChanged: it is signed by another, or no longer.
    """
    if entry is None:
        return
    theirs = candidate.entry
    changes = Provenance.of(entry).changes(Provenance.of(theirs))
    if entry.local:
        changes -= {"plugin"}  # the path says it all, and older locks do not name the plugin
    if any(MEANING[each][LOCK] == SourceMismatch.code for each in changes):
        there = (
            theirs.origin if theirs.origin != entry.origin else f"{theirs.origin}, by way of {theirs.source}"
        )
        error = elsewhere(candidate.name, entry, there, scope)
        if _loosely(entry.git) == _loosely(theirs.git) is not None:
            error.hint = f"if that is the same repository, name it as the lock does: {as_word(entry.source)}"
        raise error
    same_signer(candidate, entry, scope)


def elsewhere(name: str, entry: Locked, found: str, scope: Scope) -> SourceMismatch:
    """Return the refusal of a skill whose name the lock has from somewhere else."""
    return SourceMismatch(
        f"{name} is locked from {entry.source} ({entry.origin}); found another skill of that name at {found}",
        where=name,
        hint=f"if that is meant: {command(scope, 'remove', name)}, then install the other one",
    )


def _loosely(url: str | None) -> str | None:
    """Return what two spellings have in common that may be one repository's, and need not be."""
    return canonical(url).removesuffix(".git").casefold() if url else None


def same_signer(after: Candidate, before: Locked, scope: Scope) -> None:
    """Refuse ``after`` if it is not signed by the publisher that signed ``before``.

    Raises:
        SignerChanged: another signer, or none where there was one; no flag lifts this.
    """
    was = {*signers_of(before.signed_by)}
    if was and not _is_same_publisher(was, _proven(after), lambda: after.kin):
        raise _another_signer(after, before, scope)


def _proven(candidate: Candidate) -> set[str]:
    return {*signers_of((candidate.signer.spell(),))} if candidate.signer else set()


def _is_same_publisher(was: set[str], now: set[str], kin: Callable[[], frozenset[Digest]]) -> bool:
    """Say whether what is signed now is signed by whoever signed before, be it with another key of theirs.

    Args:
        was: The signers before.
        now: Those of now, all of whom have to be the same publisher's.
        kin: Returns the keys of one publisher, by the word of whoever vouches for the signer.
    """
    if not now or now <= was:
        return bool(now)
    known, same = _fingerprints(was), kin()
    return bool(known & same) and _fingerprints(now) <= known | same


def _another_signer(after: Candidate, before: Locked, scope: Scope) -> SignerChanged:
    expected = f"expected {after.name} to be signed by {', '.join(before.signed_by)}"
    if after.signer is None and after.trust == "untrusted":
        # It may well be theirs: nothing is proven without the key, which the lock does not hold.
        option = "--certificate" if before.signed_by[0].startswith("certificate:") else "--key"
        trust = as_command("skillhub", "publisher", "trust", "NAME", option, "FILE")
        return SignerChanged(
            f"{expected}, found a signature by a key that nobody here knows",
            hint=f"with the publisher's public key at hand: {trust}",
        )
    found = after.signer.spell() if after.signer else "no signature"
    hint = f"if that is meant: {command(scope, 'remove', after.name)}, then install it anew"
    return SignerChanged(f"{expected}, found {found}", hint=hint)


def hold_to_record(candidate: Candidate, state: State, ports: Ports) -> None:
    """Refuse what is not by the publisher whom the person agreed to, or has new bytes under an expired certificate.

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
    entry, before = candidate.entry, record.provenance if record else None
    if record is None or before is None or not before.signers or record.is_of(entry):
        return
    # A lock may name others beside whoever signed: what is agreed to now would let them sign the next version.
    was, named, proven = {*before.signers}, {*signers_of(entry.signed_by)}, _proven(candidate)
    now = named | proven if named and proven else set()
    if _is_same_publisher(was, now, lambda: _kin(candidate, before.source, ports)):
        return
    scope = ports.project.scope
    raise SignerChanged(
        f"expected {candidate.name} to be signed by {', '.join(sorted(was))}, as when it was agreed to here; "
        f"it is signed by {', '.join(entry.signed_by) or 'nobody'} now",
        where=entry.origin,
        hint=f"if that is meant: {reinstall(scope, candidate.name, asking_for(candidate.name, entry, ports))}",
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


def without_other_signers(
    candidates: Mapping[str, Candidate], state: State, ports: Ports
) -> tuple[dict[str, Candidate], list[str]]:
    """Return the candidates less those that stay disabled and that another signs now, and what is told of these.

    They hold up nothing that the person uses: the record stays as it is, so that ``enable`` refuses another signer
    as ever. Were they to stop the command, the way on would be to agree to what was disabled.

    Raises:
        SourceError, FormatError: as ``hold_to_record``.
    """
    found, notes = dict(candidates), []
    for name, candidate in candidates.items():
        record = state.records.skills.get(name)
        if record is None or record.held != "user":
            continue
        try:
            hold_to_record(candidate, state, ports)
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
    if ports.root_of(entry) is None:
        return candidate.kin
    standing = Standing.now(name, entry, ports)
    release, admitted = standing.release, standing.admitted
    if release is None or admitted is None:
        return candidate.kin
    return candidate.kin | signers.kin(candidate.signer, [publisher_of(admitted, release.published)])


def asking_for(name: str, entry: Locked, ports: Ports) -> list[str]:
    """Return the words that ask ``install`` for what the lock names, once the lock no longer does."""
    if entry.named:
        version = f"@{entry.version}" if ports.root_of(entry) else ""
        return [f"{entry.source}:{name}{version}"]
    if entry.local:
        path = entry.path or ""
        return [path if os.path.isabs(path) else f"./{path}"]
    return [entry.place, "--skill", f"{entry.plugin}:{name}" if entry.plugin else name]

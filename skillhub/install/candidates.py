"""A verified skill in memory: the choice of its release, its status at the registry, its signer."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from skillhub.errors import FormatError, NotFound, SecurityError, SignerChanged, SourceMismatch, WrongBytes
from skillhub.formats.digest import Digest
from skillhub.formats.text import as_word, command, quote, reinstall
from skillhub.model.finding import Finding, is_kept_for_documentation
from skillhub.model.hosts import Scope
from skillhub.model.lock import RESTORE, Lock, Locked, Signer, shown_signers
from skillhub.model.provenance import LOCK, MEANING, Provenance, signers_of
from skillhub.model.reference import canonical
from skillhub.model.tree import Tree
from skillhub.model.version import range_of
from skillhub.project.intent import Wanted
from skillhub.project.last_seen import ReleaseStatus
from skillhub.project.project import Project
from skillhub.project.store import Listed, Staged, Store
from skillhub.project.user_state import OwnKey
from skillhub.sources.configured import Source, Sources
from skillhub.trust.publishers import Publisher, Verdict, how_to_trust, keys_of_publisher, publisher_of

if TYPE_CHECKING:
    from skillhub.model.manifest import Manifest

_allows = lru_cache(maxsize=256)(lambda range_, version: range_of(range_).allows(version))  # a project has few pairs


def is_within(entry: Locked, range_: str | None) -> bool:
    """Return whether the locked version is in the range; an entry without a version is in no range.

    Raises:
        UsageError: the range is malformed.
    """
    if range_ is None:
        return True
    return entry.version is not None and bool(_allows(range_, entry.version))


def revoking(status: ReleaseStatus) -> list[Publisher]:
    """Return the publisher of a locked release if it revoked a key: a certificate of the chain may have that key.

    Raises:
        FormatError: a key or certificate of the registry is malformed.
    """
    release, admitted = status.release, status.admitted
    return [publisher_of(admitted, release.published)] if release and admitted and admitted.revoked else []


# A skill in memory, verified, read and scanned: the result of every kind of source, and the subject of each question.

EXPIRED = "its certificate has expired; accepted only because this exact tree is locked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A skill in memory, every byte of it verified.

    Attributes:
        name: Its name in this project: its alias, or its own name.
        entry: Its entry for the lock.
        trust: ``untrusted`` is a valid signature whose signer is neither trusted nor pinned.
        manifest: Its manifest; ``TreeBudget`` and ``without_files`` drop the body.
        pem: The key or certificate root behind the signature, to be pinned.
        publisher_keys: The keys and roots of the signer's publisher, as whoever vouches for the signer lists them.
        capabilities: Its capabilities, determined from its bytes; like ``findings`` empty if it was not scanned.
        wanted: The line to write into the intent; None leaves the intent unchanged.
        warnings: Harmless irregularities.
        published: The time of its release in its registry, or of its commit, UTC.
        stored: Whether every byte was just read from the store.
        base: The unpatched tree of a patched skill, if it is to be stored too.
        patch: The project's patch, if it is to be written to the path that ``entry`` names.
        own: The user's own key that signed it, if they have not trusted that key.
        voucher: The registry that names the signer, if the signer is no publisher of the user's.
        bundle: The bundle that alone states its origin.
        claim: The SHA-256 of the PEM file of the claimed signing key, if that is all that the signature tells.
    """

    name: str
    entry: Locked
    tree: Tree
    manifest: Manifest
    trust: Literal["signed", "untrusted", "unsigned"]
    signer: Signer | None
    pem: str | None
    publisher_keys: frozenset[Digest]
    capabilities: tuple[str, ...]
    findings: tuple[Finding, ...]
    wanted: Wanted | None = None
    warnings: tuple[str, ...] = ()
    published: str | None = None
    stored: bool = False
    base: Tree | None = None
    patch: bytes | None = None
    own: OwnKey | None = None
    claim: Digest | None = None
    voucher: str | None = None
    bundle: str | None = None

    @property
    def signed_by(self) -> str | None:
        """The signer's name for display: ``NAME``, or ``NAME by SOURCE``; None without a known signer."""
        return self.signer.named(self.voucher) if self.signer else None

    def renamed(self, name: str) -> Candidate:
        """Return the candidate under this name; the entry keeps its own name if that is another."""
        own = self.manifest.name
        return replace(self, name=name, entry=replace(self.entry, name=None if own == name else own))

    def noted(self, *notes: str) -> Candidate:
        """Return the candidate with these warnings added."""
        return replace(self, warnings=(*self.warnings, *notes)) if notes else self

    def stated_by(self, bundle: str | None) -> Candidate:
        """Return the candidate whose origin only this bundle states; None stands for no bundle."""
        note = "only the bundle states where it came from; no registry proves it"
        return self if bundle is None else replace(self.noted(note), bundle=bundle)


@dataclass(frozen=True, slots=True)
class Content:
    """The manifest of a skill, and its capabilities and findings from the scan."""

    manifest: Manifest
    capabilities: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()


def read_manifest(tree: Tree) -> Manifest:
    """Return ``Manifest.read(tree)``, imported only here: a command with nothing to do does not load it."""
    from skillhub.model.manifest import Manifest  # noqa: PLC0415

    return Manifest.read(tree)


def candidate_of(
    content: Content, entry: Locked, verdict: Verdict, warnings: tuple[str, ...], publishers: Sequence[Publisher]
) -> Candidate:
    """Return the candidate; ``publishers`` are those among whom the signer's publisher and its keys are found."""
    return Candidate(
        name=content.manifest.name,
        entry=entry,
        tree=verdict.tree,
        manifest=content.manifest,
        trust="signed" if verdict.status == "valid" else verdict.status,
        signer=verdict.signer,
        pem=verdict.pem,
        publisher_keys=keys_of_publisher(verdict.signer, publishers),
        claim=verdict.claim,
        capabilities=content.capabilities,
        findings=content.findings,
        warnings=(*warnings, *([EXPIRED] if verdict.expired else ()), *content.manifest.warnings),
    )


def entry_of(content: Content, verdict: Verdict, source: str, origin: dict[str, Any]) -> Locked:
    """Return the lock's entry for a verified skill; ``origin`` has the fields about the origin of its bytes."""
    return Locked(
        **{"size": verdict.tree.size, **origin},
        source=source,
        version=content.manifest.version,
        tree=verdict.tree.digest,
        signed_by=(verdict.signer.spell(),) if verdict.signer else (),
        capabilities=content.capabilities,
        requires=spelled(content.manifest),
    )


def with_patched_tree(found: Candidate, tree: Tree, content: Content) -> Candidate:
    """Return the candidate with the patched tree, which has no signature, in place of its own.

    Raises:
        SourceMismatch: the patch changes the skill's name.
    """
    if content.manifest.name != found.manifest.name:
        raise SourceMismatch(f"the patch renames {found.manifest.name} to {content.manifest.name}", where=found.name)
    facts = {each.name: getattr(content, each.name) for each in fields(content)}
    base = None if found.stored else found.tree
    return replace(found, **facts, tree=tree, base=base, trust="unsigned", stored=False)


def check_folder_name(found: Candidate, folder: str | None) -> Candidate:
    """Return the candidate, with a warning if its folder has another name, which the specification forbids."""
    name = os.path.basename(folder or "")
    if name in ("", found.name):
        return found
    return found.noted(f"its folder is named {quote(name)}, the skill {found.name}")


def spelled(manifest: Manifest) -> tuple[str, ...]:
    """Return the needs as the lock spells them."""
    return tuple(sorted(requirement.spell() for requirement in manifest.requires))


def check_against_lock(candidate: Candidate, entry: Locked | None, scope: Scope) -> None:
    """Refuse a candidate of another origin, or of another publisher, than the lock has for its name.

    Raises:
        SourceMismatch: it has another origin.
        SignerChanged: another publisher signed it, or no one.
    """
    if entry is None:
        return
    found = candidate.entry
    changes = Provenance.of(entry).changes(Provenance.of(found))
    if entry.local:
        changes -= {"plugin"}  # the path identifies the skill, and older locks do not name the plugin
    if any(MEANING[each][LOCK] == SourceMismatch.code for each in changes):
        found_at = found.origin if found.origin != entry.origin else f"{found.origin}, through {found.source}"
        error = locked_elsewhere(candidate.name, entry, found_at, scope)
        if entry.git and found.git and _normal_form(entry.git) == _normal_form(found.git):
            error.hint = f"if that is the same repository, name it as the lock does: {as_word(entry.source)}"
        raise error
    check_same_signer(candidate, entry, scope)


def undeclared(capabilities: Iterable[str], entry: Locked) -> str | None:
    """Return the warning of capabilities that the lock leaves out; None if there are none."""
    if not (found := sorted(set(capabilities) - set(entry.capabilities))):
        return None
    message = f"the lock does not list these capabilities: {', '.join(found)}"
    hosts = (each.removeprefix("network:") for each in found if not each.startswith("env:"))
    if all(each.endswith("?") or is_kept_for_documentation(each) for each in hosts):
        # Older versions recorded neither variables nor such hosts, nor that anything is unknown.
        return f"{message}; an older version of skillhub wrote it, or they were removed"
    return message


def check_claims(found: Candidate, scope: Scope, *, scan: bool) -> Candidate:
    """Return the candidate if it has all needs and capabilities of the lock; warn of needs that the lock leaves out.

    Hosts and variables are not compared: older versions of skillhub recorded fewer, and the rules for them changed.
    An agreed skill was scanned before: the record has its capabilities.

    Raises:
        WrongBytes: the lock lists more than the files show, so that an update could add it without being noticed.
    """
    entry, needs = found.entry, {*spelled(found.manifest)}
    surplus = [f"needs {each}" for each in entry.requires if each not in needs]
    if scan:
        comparable = (each for each in entry.capabilities if not each.startswith(("env:", "network:")))
        surplus += [f"can do {each}" for each in comparable if each not in found.capabilities]
    if surplus:
        message = f"the files of {found.name} do not show what the lock lists: {', '.join(surplus)}"
        remove = command(scope, "remove", found.name)
        raise WrongBytes(message, where=found.name, hint=f"restore the lock, or {remove} and install it again")
    if missing_needs := sorted(needs - {*entry.requires}):
        return found.noted(f"the lock does not list these needs: {', '.join(missing_needs)}")
    return found


def locked_elsewhere(name: str, entry: Locked, found: str, scope: Scope) -> SourceMismatch:
    """Return the refusal of a skill whose name the lock has from another origin."""
    keep_both = f"to have both, install it with another name: --as {name[:62].rstrip('-')}-2"
    message = f"{name} is locked from {entry.source} ({entry.origin}); found another skill of that name at {found}"
    hint = f"{keep_both}; to replace it: {command(scope, 'remove', name)}, then install the other one; "
    hint += "or, if skillhub.toml names the other one, correct its line"
    return SourceMismatch(message, where=name, hint=hint)


def _normal_form(url: str) -> str:
    """Return a normal form of a git URL; two URLs with the same form may name one repository, but need not."""
    return canonical(url).removesuffix(".git").casefold()


def how_to_mend_lock(name: str, entry: Locked, scope: Scope, *, is_of_registry: bool = True) -> str:
    """Return what to do about a locked skill that its source has with other bytes."""
    if not is_of_registry:
        return f"if it changed there, this shows the difference and installs it: {command(scope, 'update', name)}"
    own = entry.own_name(name)
    words = (f"{entry.source}:{own}", *(("--as", name) if own != name else ()))
    differs = f"skillhub.lock differs from {entry.source}, whose releases never change"
    return f"{differs}: {RESTORE}; otherwise: {reinstall(scope, name, words)}"


def stale_lock(message: str, project: Project, verb: str = "install") -> FormatError:
    """Return the error for a lock that ``--frozen`` keeps, and that this command without it would change."""
    hint = f"run {command(project.scope, verb)} without --frozen and commit the lock"
    return FormatError(message, where=project.lock_path, hint=hint)


def missing_release(status: ReleaseStatus, source: Source, scope: Scope) -> NotFound | WrongBytes:
    """Return the error for a locked release that its registry does not have, or has with other bytes."""
    offered = next((each for each in status.offered if each.version == status.entry.version), None)
    if offered is None:
        return NotFound(f"{source.alias} no longer has {status.name} {status.entry.version}", where=source.url)
    message = f"expected {status.name} {status.entry.version} to be {status.entry.digest}, found {offered.digest}"
    return WrongBytes(message, where=source.url, hint=how_to_mend_lock(status.name, status.entry, scope))


def check_same_signer(after: Candidate, before: Locked, scope: Scope, root: Digest | None = None) -> None:
    """Refuse ``after`` if the publisher of ``before`` did not sign it; with ``root``, also if that has another name.

    Raises:
        SignerChanged: another signer, or none where there was one; no flag overrides this.
    """
    old, new = {*signers_of(before.signed_by)}, proven_signers(after)
    is_renamed = root is not None and new <= old and {*after.entry.signed_by}.isdisjoint(before.signed_by)
    if old and (is_renamed or not is_same_publisher(old, new, lambda: after.publisher_keys)):
        raise _another_signer(after, before, scope)


def proven_signers(candidate: Candidate) -> set[str]:
    """Return the verified signers of a candidate, each as kind and fingerprint."""
    return {*signers_of((candidate.signer.spell(),))} if candidate.signer else set()


def is_same_publisher(old: set[str], new: set[str], keys: Callable[[], frozenset[Digest]]) -> bool:
    """Return whether the publisher that signed before signed now, with the same or another of its keys.

    Args:
        old: The former signers.
        new: The present signers; each must belong to the same publisher.
        keys: Returns the keys of the signer's publisher, as whoever vouches for the signer lists them.
    """
    if not new or new <= old:
        return bool(new)
    known, same = _fingerprints(old), keys()
    return bool(known & same) and _fingerprints(new) <= known | same


def _another_signer(after: Candidate, before: Locked, scope: Scope) -> SignerChanged:
    expected = f"expected {after.name} to be signed by {shown_signers(before.signed_by, before.voucher)}"
    if after.signer is None and after.trust == "untrusted":
        # The expected publisher may have signed it: without the key, which the lock does not hold, nothing proves it.
        hint = how_to_trust(Signer.parse(before.signed_by[0]))
        return SignerChanged(f"{expected}, found a signature by an unknown key", hint=hint)
    found = shown_signers(after.entry.signed_by, before.voucher) if after.signer else "no signature"
    hint = f"if that is intended: {command(scope, 'remove', after.name)}, then install it again"
    return SignerChanged(f"{expected}, found {found}", hint=hint)


def _fingerprints(spelled: Iterable[str]) -> set[str]:
    return {each.partition(":")[2] for each in spelled}


def is_same_place(found: Locked, entry: Locked, sources: Sources, lock: Lock) -> bool:
    """Return whether a registry's release has the URL of the lock, or had it before the registry moved."""
    if found.url == entry.url:
        return True
    source, locked_source = sources.all().get(entry.source), lock.sources.get(entry.source)
    if source is None or locked_source is None or not source.is_meant(locked_source):
        return False
    return found.url == relocated(source.url, entry.url, locked_source.url)


def relocated(url: str, old_url: str | None, former_url: str) -> str | None:
    """Return ``old_url`` moved from below ``former_url`` to below ``url``; a URL elsewhere stays unchanged."""
    below = f"{former_url}/"
    return f"{url}/{old_url.removeprefix(below)}" if old_url and old_url.startswith(below) else old_url


# The trees held in memory at once.

_HELD_MAX = 20 * 1024 * 1024


class TreeBudget:
    """A limit on the trees in memory: once they pass ``held_max`` bytes, further trees are staged in the store."""

    def __init__(self, store: Store, held_max: int = _HELD_MAX) -> None:
        self._store = store
        self._left = held_max

    def keep(self, candidate: Candidate) -> Candidate:
        """Return the candidate, its tree in memory or staged in the store.

        Raises:
            StateError: the disk is full or refuses.
        """
        tree = candidate.tree
        self._left -= tree.size
        return _with_tree(candidate, tree if self._left >= 0 else Staged(self._store.put(tree), tree))


def without_files(candidate: Candidate) -> Candidate:
    """Return the candidate without its files, for callers that only describe it."""
    return _with_tree(replace(candidate, base=None), Listed(candidate.tree))


def _with_tree(candidate: Candidate, tree: Tree) -> Candidate:
    # The body is part of the tree, and may be most of its bytes.
    return replace(candidate, tree=tree, manifest=replace(candidate.manifest, body=""))


@contextmanager
def about_skill(name: str) -> Iterator[None]:
    """Name the skill in each SecurityError raised in the block."""
    try:
        yield
    except SecurityError as error:
        if error.where is None:
            error.where = name
        elif error.where != name and not error.where.startswith(f"{name}: "):
            error.where = f"{name}: {error.where}"
        raise

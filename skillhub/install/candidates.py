"""A verified skill in memory: the chosen release, its status at the registry, its signer."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, TypeAlias

from skillhub.errors import NameNotOwned, NotFound, SecurityError, SignerChanged, SourceError, SourceMismatch
from skillhub.formats.digest import Digest
from skillhub.formats.text import as_command, as_word, command
from skillhub.install.context import Ports
from skillhub.model.finding import Finding
from skillhub.model.hosts import Scope
from skillhub.model.index import Admission, Index, Release
from skillhub.model.lock import Locked, Signer, shown_signers
from skillhub.model.provenance import LOCK, MEANING, Provenance, signers_of
from skillhub.model.reference import Named, canonical
from skillhub.model.tree import Tree
from skillhub.model.version import Range, range_of
from skillhub.project.intent import Wanted
from skillhub.project.last_seen import recalled
from skillhub.project.project import Project
from skillhub.project.store import Listed, Staged, Store
from skillhub.project.user_state import OWN_SUFFIX, Publishers, Trusted
from skillhub.scan import capabilities_and_findings
from skillhub.sources.configured import Sources
from skillhub.trust.publishers import Publisher, Verdict, certificates_of, judge
from skillhub.trust.registry import publisher_of

if TYPE_CHECKING:
    from skillhub.model.manifest import Manifest

# From what is asked for to the release that is meant; pure, given what the sources offer.


class TakenBack(SourceError):
    """The requested version exists, but its registry has yanked or withdrawn it."""

    code = "taken-back"


def choose_release(ref: Named, releases: tuple[Release, ...], settled: str | None = None) -> Release:
    """Return the newest of ``releases`` (newest first) that the range allows and nobody took back.

    Without a range, a pre-release is chosen only if there is nothing else. With ``settled``, a time as in
    ``published``, so is what was published later.

    Raises:
        NotFound: no release is in the range; the hint names those there are.
        TakenBack: those in the range were yanked or withdrawn; the reason is told.
        UsageError: the range is none.
    """
    allowed = releases
    if ref.range is not None:
        wanted = Range(ref.range)
        allowed = tuple(release for release in releases if wanted.allows(release.version or "0.0.0"))
    if not allowed:
        known = ", ".join(release.version or "one without a version" for release in releases[:8])
        raise NotFound(f"no release of {ref.name} is {ref.range}", where=str(ref), hint=f"there are: {known}")
    chosen = [release for release in allowed if not release.taken_back]
    if not chosen:
        gone, other = allowed[0], [each.version for each in releases if each.version and not each.taken_back][:8]
        hint = f"there are: {', '.join(other)}" if other else "no other release of it is offered"
        raise TakenBack(f"{ref.name} {gone.version} was {gone.taken_back}", where=str(ref), hint=hint)
    chosen = [each for each in chosen if settled is None or (each.published or "~") <= settled] or chosen
    stable = [release for release in chosen if "-" not in (release.version or "").split("+")[0]]
    return (stable if ref.range is None and stable else chosen)[0]


_allows = lru_cache(maxsize=256)(lambda range_, version: range_of(range_).allows(version))  # few differ in a project


def is_within(entry: Locked, range_: str | None) -> bool:
    """Return whether what is locked is of a version that the range allows; what has none is in no range.

    Raises:
        UsageError: the range is none.
    """
    if range_ is None:
        return True
    return entry.version is not None and bool(_allows(range_, entry.version))


# The status of a locked release at its registry: available, yanked, withdrawn, its key revoked, its name moved.
# No signature is looked at here, so that whoever only compares hashes need not load what verifies them.

_NOTHING = Index({})


@dataclass(frozen=True, slots=True)
class ReleaseStatus:
    """What its registry says of a locked skill; of one that is from no registry nothing is said.

    Attributes:
        said: All that the registry says, or last said, under the name.
    """

    name: str
    entry: Locked
    said: Index = _NOTHING

    @classmethod
    def last_seen(cls, name: str, entry: Locked, root: Digest | None, sources: Sources) -> ReleaseStatus:
        """Return its last known status at the registry of this root."""
        return cls(name, entry, sources.last_seen(root).index([entry.own_name(name)]) if root else _NOTHING)

    @classmethod
    def now(cls, name: str, entry: Locked, ports: Ports) -> ReleaseStatus:
        """Ask its registry for its status.

        Raises:
            NotFound: it no longer has the name.
            SourceError, SecurityError, FormatError: it cannot be asked.
        """
        if ports.root_of(entry) is None:
            return cls(name, entry)
        own = entry.own_name(name)
        return cls(name, entry, ports.open(ports.sources.get(entry.source)).release_index([own]))

    @property
    def offered(self) -> tuple[Release, ...]:
        """Every release of the name, newest first."""
        return self.said.skills.get(self.entry.own_name(self.name), ())

    @property
    def release(self) -> Release | None:
        """The very release that is locked; None if the registry is not known to have it."""
        return next((each for each in self.offered if each.digest == self.entry.digest), None)

    @property
    def admitted(self) -> Admission | None:
        """What the registry admits the publisher of the release to; None if that is not at hand."""
        release = self.release
        return self.said.admissions.get(release.publisher or "") if release else None

    @property
    def yanked(self) -> tuple[str, ...]:
        """The warning that it was yanked, if no more than that: a lock still gives it."""
        release = self.release
        if release is None or release.yanked is None or release.withdrawn is not None:
            return ()
        return (f"version {release.version} was {release.taken_back}",)

    @property
    def objection(self) -> SecurityError | None:
        """Why it may not be used any more, or None."""
        return recalled(self.name, self.entry, self.said)

    def other(self, range_: str | None = None, settled: str | None = None) -> Release | None:
        """Return what ``choose_release`` chooses of all releases but the locked one, or None."""
        others = tuple(each for each in self.offered if each.digest != self.entry.digest)
        try:
            return choose_release(Named(self.name, None, range_), others, settled)
        except SourceError:
            return None

    def install_command(self, release: Release, scope: Scope) -> str:
        """Return the command that installs this release of it or a later one, whatever skillhub.toml says."""
        return install_command(self.name, self.entry, f"^{release.version}", scope)

    def refuse(self, project: Project) -> None:
        """Refuse what its registry has recalled.

        Raises:
            Withdrawn: the registry has withdrawn it.
            BadSignature: the registry has revoked the key or root that the lock says signed it.
            NameNotOwned: the registry has taken the name from its publisher.
        """
        if error := self.objection:
            error.hint = self._hint(error, project)
            raise error

    def _hint(self, error: SecurityError, project: Project) -> str:
        scope = project.scope
        remove = f"{command(scope, 'remove', self.name)} removes it"
        if isinstance(error, NameNotOwned):
            return f"{remove}; then the skill of the name's new owner may be installed"
        newest = self.other()
        if newest is None:
            return f"{remove}; its registry has no other version yet"
        wanted = project.intent().skills.get(self.name)
        if wanted is not None and self.other(wanted.version) is None:
            what = f"installs {newest.version}, which skillhub.toml does not allow yet"
            return f"{self.install_command(newest, scope)} {what}, {remove}"
        return f"{command(scope, 'update', self.name)} installs another version, {remove}"


def install_command(name: str, entry: Locked, version: str | None, scope: Scope) -> str:
    """Return the command that installs another version of what the lock has under this name from a source."""
    alias = ("--as", name) if entry.name else ()
    return command(scope, "install", f"{entry.source}:{entry.own_name(name)}@{version}", *alias)


# The publishers that a signature is judged by: those a user trusts, and those pinned with what is installed.

EXPIRED = "its certificate has expired; accepted only because this exact tree is locked"
AGREED = "agreed to: "  # before what is pinned of a signer whom a person took for one skill and never trusted
_KEPT_AS = {"key": "keys", "certificate": "certificates", "sigstore": "identities"}


def trusted_publishers(publishers: Publishers) -> list[Publisher]:
    """Return whom the user trusts.

    Raises:
        FormatError: a key, certificate or identity is none that may sign skills.
    """
    return list(map(_parsed, publishers.all().values()))


@dataclass(frozen=True, slots=True)
class OwnKey:
    """A key of the user's own that signed, though they have not trusted it: its name, and its public half, a file."""

    name: str
    path: str

    @property
    def trusting(self) -> str:
        """What to type to trust it."""
        return as_command("skillhub", "publisher", "trust", self.name, "--key", self.path)


def judge_with_own_keys(
    tree: Tree, publishers: Publishers, source: str | None, now: datetime, locked: Collection[Digest] = ()
) -> tuple[Verdict, OwnKey | None]:
    """Return what a signature is worth to the user, as ``judge`` does, and which key of their own made it.

    A bare key proves nothing unless it is at hand. Their own is, so that it is named and may be pinned; yet nobody
    trusts it before they say so.

    Raises:
        BadSignature, FormatError: as for ``judge``; it is said to be by a key of theirs, and is not.
    """
    known = trusted_publishers(publishers)
    verdict = judge(tree, known, source, now, locked)
    own = own_key(verdict.claim, publishers)
    if own is None:
        return verdict, None
    mine = _parsed(Trusted(own.name, keys=(publishers.read_own(own.path),)))
    return replace(judge(tree, [*known, mine], source, now, locked), status="untrusted"), own


def own_key(claim: Digest | None, publishers: Publishers) -> OwnKey | None:
    """Return the user's own key that a signature claims to be by; ``judge_with_own_keys`` proves it."""
    path = publishers.own(claim) if claim else None
    if path is None:
        return None
    name, pem = os.path.basename(path).removesuffix(OWN_SUFFIX), publishers.read_own(path)
    trusted = [each.name for each in publishers.all().values() if pem in each.keys]
    return OwnKey(trusted[0] if trusted else publishers.name_of_user() if name == "default" else name, path)


def pin_name(name: str, entry: Locked, root: Digest | None) -> Digest:
    """Return the name that a verified signer is pinned under: a digest of the entry, and of its registry's root.

    A signer pinned for one skill must not vouch for what a lock claims of another.
    """
    origin = [entry.url, entry.digest] if entry.git is None else [entry.git, entry.rev, entry.path]
    facts = [name, entry.source, root, entry.version, *origin, entry.tree, *entry.signed_by]
    return Digest.of(json.dumps(facts).encode())


def pinned(name: str, entry: Locked, root: Digest | None, publishers: Publishers) -> list[Publisher]:
    """Return the entry's signer, if this very entry was verified on this machine before."""
    pem = publishers.pinned(pin_name(name, entry, root))
    if pem is None or not entry.signed_by:
        return []
    signer = Signer.parse(entry.signed_by[0])
    return [_parsed(Trusted(signer.identity, **{_KEPT_AS[signer.kind]: (pem.removeprefix(AGREED),)}))]


def revoking(status: ReleaseStatus) -> list[Publisher]:
    """Return who published a locked release, if they revoked a key: a certificate of the chain may bear that.

    Raises:
        FormatError: a key or certificate that the registry names is none.
    """
    release, admitted = status.release, status.admitted
    return [publisher_of(admitted, release.published)] if release and admitted and admitted.revoked else []


def keys_of_publisher(signer: Signer | None, publishers: Iterable[Publisher]) -> frozenset[Digest]:
    """Return the keys, roots and identities that belong to the same publisher as the signer's, its own among them."""
    found: set[Digest] = set()
    for publisher in publishers:
        if signer is not None and signer.fingerprint in publisher.fingerprints:
            found |= {*publisher.fingerprints, *publisher.former}
    return frozenset(found)


@lru_cache  # each skill of a command is judged by the same
def _parsed(one: Trusted) -> Publisher:
    # Where nobody is trusted yet, cryptography stays out.
    from skillhub.trust.keys import Identity, PublicKey  # noqa: PLC0415

    return Publisher(
        one.name,
        tuple(PublicKey.load(pem.encode()) for pem in one.keys),
        certificates_of(one.certificates),
        one.sources,
        identities=tuple(map(Identity.parse, one.identities)),
    )


# A skill in memory, verified, read and scanned: what every kind of source gives, and every question is about.


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A skill in memory, every byte of it verified.

    Attributes:
        name: What it is called here: its alias, or what it calls itself.
        entry: What the lock will say of it.
        trust: ``untrusted`` is a sound signature of somebody whom nobody has pinned.
        manifest: What its author says of it; without the body where the tree is not in memory either.
        pem: The key or certificate root behind the signature, to be pinned.
        publisher_keys: The keys and roots of the signer's publisher, by the word of whoever vouches for the signer.
        capabilities: What it can do, read off its bytes; like ``findings`` empty where nobody is asked again.
        wanted: The line to write into the intent; None leaves what is there.
        warnings: What is odd and harmless.
        published: When its registry says that it was published, or its commit that it was made, UTC.
        stored: Whether every byte was read from the store just now.
        base: Of a patched one, what its source has, if that is to be stored too.
        patch: The project's patch, if it is to be written anew where ``entry`` says.
        own: The user's own key that signed, where they have not trusted it.
        voucher: The registry that says who the signer is, where it is none of the user's.
        claim: Where that is all there is, the SHA-256 of the PEM file of the key that is said to have signed.
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

    @property
    def signed_by(self) -> str | None:
        """Who signed it, for a person: ``NAME``, or ``NAME by SOURCE``; None if nobody is known to."""
        return self.signer.named(self.voucher) if self.signer else None

    def called(self, name: str) -> Candidate:
        """Return the same under the name that it is to have here; its own stays in the entry where it is another."""
        own = self.manifest.name
        return replace(self, name=name, entry=replace(self.entry, name=None if own == name else own))

    def noted(self, *notes: str) -> Candidate:
        """Return the same with more warnings."""
        return replace(self, warnings=(*self.warnings, *notes)) if notes else self


@dataclass(frozen=True, slots=True)
class Content:
    """What the bytes of a skill say: its manifest, what it can do, what the scan saw."""

    manifest: Manifest
    capabilities: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()


# Returns what a process beside this one saw in a tree, its capabilities and findings, if it saw that very tree.
SeenAhead: TypeAlias = Callable[[Tree], tuple[tuple[str, ...], tuple[Finding, ...]] | None]


def nothing_seen(_: Tree) -> None:
    """Return nothing: no other process has looked."""


SEEN_AHEAD: ContextVar[SeenAhead] = ContextVar("seen ahead", default=nothing_seen)
_IS_SCANNED = ContextVar("is scanned", default=True)


@contextmanager
def scanning(is_scanned: bool) -> Iterator[None]:
    """Let ``read`` scan, or leave it where nothing will come of the scan."""
    token = _IS_SCANNED.set(is_scanned)
    try:
        yield
    finally:
        _IS_SCANNED.reset(token)


def read(tree: Tree, *, scanned: bool = True, known: Locked | None = None) -> Content:
    """Read the manifest and, if it is to be ``scanned`` and is not the tree and version of ``known``, the whole tree.

    Raises:
        FormatError: the manifest is malformed.
        SecurityError: it asks for a forbidden variable.
    """
    manifest = read_manifest(tree)
    if known is not None and (known.tree, known.version) == (tree.digest, manifest.version):
        scanned = False
    if not (scanned and _IS_SCANNED.get()):
        return Content(manifest)
    seen = SEEN_AHEAD.get()(tree)
    return Content(manifest, *(seen or capabilities_and_findings(tree, manifest)))


def read_manifest(tree: Tree) -> Manifest:
    """Do ``Manifest.read``, which a command that has nothing to do never loads. Raises as it does."""
    from skillhub.model.manifest import Manifest  # noqa: PLC0415

    return Manifest.read(tree)


def candidate(
    content: Content, entry: Locked, verdict: Verdict, warnings: tuple[str, ...], publishers: Sequence[Publisher]
) -> Candidate:
    """Return the candidate of what was read and judged; ``publishers`` vouch for the keys of one publisher."""
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


def spelled(manifest: Manifest) -> tuple[str, ...]:
    """Return the needs as the lock spells them."""
    return tuple(sorted(requirement.spell() for requirement in manifest.requires))


def check_against_lock(candidate: Candidate, entry: Locked | None, scope: Scope) -> None:
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
        there = theirs.origin if theirs.origin != entry.origin else f"{theirs.origin}, through {theirs.source}"
        error = locked_elsewhere(candidate.name, entry, there, scope)
        if _loosely(entry.git) == _loosely(theirs.git) is not None:
            error.hint = f"if that is the same repository, name it as the lock does: {as_word(entry.source)}"
        raise error
    check_same_signer(candidate, entry, scope)


def locked_elsewhere(name: str, entry: Locked, found: str, scope: Scope) -> SourceMismatch:
    """Return the refusal of a skill whose name the lock has from somewhere else."""
    both = f"to have both, install it with another name: --as {name[:62].rstrip('-')}-2"
    return SourceMismatch(
        f"{name} is locked from {entry.source} ({entry.origin}); found another skill of that name at {found}",
        where=name,
        hint=f"{both}; to replace it: {command(scope, 'remove', name)}, then install the other one",
    )


def _loosely(url: str | None) -> str | None:
    """Return what two spellings have in common that may be one repository's, and need not be."""
    return canonical(url).removesuffix(".git").casefold() if url else None


def check_same_signer(after: Candidate, before: Locked, scope: Scope, root: Digest | None = None) -> None:
    """Refuse ``after`` if it is not signed by the publisher of ``before``; with ``root``, under its registry's name.

    Raises:
        SignerChanged: another signer, or none where there was one; no flag lifts this.
    """
    was, now = {*signers_of(before.signed_by)}, proven_signers(after)
    is_renamed = root is not None and now <= was and {*after.entry.signed_by}.isdisjoint(before.signed_by)
    if was and (is_renamed or not is_same_publisher(was, now, lambda: after.publisher_keys)):
        raise _another_signer(after, before, scope)


def proven_signers(candidate: Candidate) -> set[str]:
    """Return who is proven to have signed a candidate, by kind and fingerprint."""
    return {*signers_of((candidate.signer.spell(),))} if candidate.signer else set()


def is_same_publisher(was: set[str], now: set[str], keys: Callable[[], frozenset[Digest]]) -> bool:
    """Return whether what is signed now is signed by whoever signed before, be it with another key of theirs.

    Args:
        was: The signers before.
        now: Those of now, all of whom have to be the same publisher's.
        keys: Returns the keys of one publisher, by the word of whoever vouches for the signer.
    """
    if not now or now <= was:
        return bool(now)
    known, same = _fingerprints(was), keys()
    return bool(known & same) and _fingerprints(now) <= known | same


def _another_signer(after: Candidate, before: Locked, scope: Scope) -> SignerChanged:
    expected = f"expected {after.name} to be signed by {shown_signers(before.signed_by, before.voucher)}"
    if after.signer is None and after.trust == "untrusted":
        # It may well be theirs: nothing is proven without the key, which the lock does not hold.
        option = "--certificate" if before.signed_by[0].startswith("certificate:") else "--key"
        trust = as_command("skillhub", "publisher", "trust", "NAME", option, "FILE")
        return SignerChanged(
            f"{expected}, found a signature by an unknown key",
            hint=f"if you have the publisher's public key: {trust}",
        )
    found = shown_signers(after.entry.signed_by, before.voucher) if after.signer else "no signature"
    hint = f"if that is intended: {command(scope, 'remove', after.name)}, then install it again"
    return SignerChanged(f"{expected}, found {found}", hint=hint)


def _fingerprints(spelled: Iterable[str]) -> set[str]:
    return {each.partition(":")[2] for each in spelled}


def is_same_place(found: Locked, entry: Locked, ports: Ports) -> bool:
    """Return whether what a registry gave is where the lock has it, or would have it had the registry not moved."""
    if found.url == entry.url:
        return True
    mine, locked = ports.sources.all().get(entry.source), ports.project.lock().sources.get(entry.source)
    if mine is None or locked is None or not mine.is_meant(locked):
        return False
    return found.url == relocated(mine.url, entry.url, locked.url)


def relocated(url: str, place: str | None, was: str) -> str | None:
    """Return ``place``, which is below where a registry was, below where it is."""
    below = f"{was}/"
    return f"{url}/{place.removeprefix(below)}" if place and place.startswith(below) else place


# How many trees are held in memory at once.

_HELD_MAX = 12 * 1024 * 1024


class TreeBudget:
    """What is held in memory: once the trees pass ``held_max`` bytes, further ones wait in the store, unlinked."""

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
    """Return the candidate with no file of it in memory, for who only tells of it."""
    return _with_tree(replace(candidate, base=None), Listed(candidate.tree))


def _with_tree(candidate: Candidate, tree: Tree) -> Candidate:
    # The body is in the tree as well, and may be as large.
    return replace(candidate, tree=tree, manifest=replace(candidate.manifest, body=""))


@contextmanager
def about_skill(name: str) -> Iterator[None]:
    """Let a SecurityError that is about one of many skills say which."""
    try:
        yield
    except SecurityError as error:
        if error.where is None:
            error.where = name
        elif error.where != name and not error.where.startswith(f"{name}: "):
            error.where = f"{name}: {error.where}"
        raise

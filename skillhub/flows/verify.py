"""Verify: store, links, lock and signatures against each other, offline, every byte."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from skillhub.errors import FormatError, NotFound, SecurityError
from skillhub.flows import signers
from skillhub.model.lock import Locked
from skillhub.model.record import Record
from skillhub.model.signer import Signer
from skillhub.model.tree import SIGNATURE, SKILL_MD, Listing, Tree
from skillhub.trust.publishers import Publisher, judge
from skillhub.world import links
from skillhub.world.folders import Problem, compare
from skillhub.world.project import Project
from skillhub.world.publishers import Publishers
from skillhub.world.store import Store


@dataclass(frozen=True, slots=True)
class Verified:
    """What was found about one skill; no problems means that it is as locked, to the last byte."""

    name: str
    problems: tuple[Problem, ...]


def verify(
    names: Sequence[str],
    project: Project,
    store: Store,
    publishers: Publishers,
    folders: Sequence[str],
    now: datetime,
) -> list[Verified]:
    """Compare what is locked with what is stored and enabled, and check the stored signatures again.

    Args:
        names: The skills; none means all.
        project: Its lock, and where its links are.
        store: Where the trees are.
        publishers: The keys and roots pinned when skills were installed.
        folders: Where agents read skills; what has a locked name there is compared, whoever put it there.
        now: The time that certificates are judged by.

    Raises:
        NotFound: a name that is not locked.
        FormatError: the lock is malformed.
        StateError: the lock cannot be read, or a link leads out of the project.
    """
    lock, records = project.lock(), project.records()
    for name in names:
        if name not in lock.skills:
            raise NotFound(f"no skill named {name} is installed here", hint="skillhub list shows what is")
    found = []
    for name in names or lock.skills:
        entry, record = lock.skills[name], records.skills.get(name)
        source = lock.sources.get(entry.source)
        known = signers.pinned(name, entry, source.root if source else None, publishers)
        problems = [*_stored(entry, store, known, now), *_linked(entry, record, project, store)]
        places = {links.place(project, link) for link in record.links} if record else set()
        elsewhere = {os.path.join(os.path.realpath(folder), name) for folder in folders} - places
        problems += _namesakes(sorted(elsewhere), store.listing(entry.tree))
        found.append(Verified(name, tuple(problems)))
    return found


def _stored(entry: Locked, store: Store, known: Sequence[Publisher], now: datetime) -> Iterator[Problem]:
    tree = store.read(entry.tree)
    if tree is None or store.listing(entry.tree) is None:
        yield from store.check(entry.tree)  # tells what is wrong with it
    if tree is not None and (problem := _signature(entry, tree, known, now)):
        yield Problem("signature", f"{store.path(entry.tree)}/{SIGNATURE}", problem)


def _signature(entry: Locked, tree: Tree, known: Sequence[Publisher], now: datetime) -> str | None:
    """Return what is wrong with the signature of a whole tree, or None."""
    if not entry.signed_by:
        return None
    if not known:
        return "its signer's key is not known on this machine; skillhub install gets it"
    try:
        found = judge(tree, known, None, now, locked=entry.tree).signer
    except (SecurityError, FormatError) as error:
        return error.message
    locked = {signer.fingerprint for signer in map(Signer.parse, entry.signed_by)}
    if found is None or found.fingerprint not in locked:
        return f"expected it to be signed by {', '.join(entry.signed_by)}"
    return None


def _namesakes(places: Sequence[str], listing: Listing | None) -> Iterator[Problem]:
    """Yield what agents would take for the locked skill, was put there by somebody else, and is not it."""
    for path in places:
        if os.path.isfile(os.path.join(path, SKILL_MD)) and (listing is None or compare(path, listing)):
            yield Problem(
                "other-skill", path, "has the name of a locked skill, and skillhub did not put it there"
            )


def _linked(entry: Locked, record: Record | None, project: Project, store: Store) -> Iterator[Problem]:
    if record is None:
        return
    if record.tree != entry.tree:
        message = "the lock has another version than the one enabled here; skillhub install asks about it"
        yield from (Problem("other-tree", links.place(project, link), message) for link in record.links)
        return
    listing = store.listing(entry.tree)
    for link in record.links if record.enabled else ():
        path = links.place(project, link)
        if listing is None:
            yield Problem("unknown", path, "cannot be compared: the store no longer lists its files")
            continue
        yield from links.inspect(path, listing, store.path(entry.tree), record.link)[1]

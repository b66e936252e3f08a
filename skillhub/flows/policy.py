"""What policies say of where skills come from and of what is locked: before anything is asked, fetched or made.

Nothing here needs the bytes of a skill; ``admission`` judges those.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from urllib.parse import quote as escaped

from skillhub.errors import Forbidden
from skillhub.flows.ports import May, Place, Ports, Registry
from skillhub.model.dataclass import dataclass, replace
from skillhub.model.digest import Digest
from skillhub.model.intent import Intent
from skillhub.model.lock import Locked, LockedSource
from skillhub.model.policy import ORIGIN, Objection, Policies, Subject
from skillhub.model.question import YES, Answer, Approver, Question
from skillhub.model.ref import Local, Remote, parse_remote
from skillhub.model.signer import Signer
from skillhub.world.ref_url import url_of
from skillhub.world.sources import Source

_HINT = "skillhub doctor policy shows every line that is in force, and where it stands"


def under(intent: Intent, ports: Ports) -> Ports:
    """Return the world as the policies of machine, user and project leave it.

    No source that they forbid is opened, and what they agree to is asked of nobody.
    """
    policies = ports.policies.tightened(intent.policy)
    if not policies:
        return ports
    guard = _Guard(policies, ports)
    return replace(
        ports,
        policies=policies,
        open=guard.open,
        reach=guard.reach,
        approver=_Agreeing(policies, ports.approver),
    )


def forbidden(objection: Objection) -> Forbidden:
    """Return the error that an objection makes."""
    return Forbidden(objection.message, where=objection.where, hint=_HINT)


def refuse(subject: Subject, keys: Collection[str], policies: Policies) -> None:
    """Refuse what a policy forbids by a line of these keys.

    Raises:
        Forbidden: a line of a policy.
    """
    for objection in policies.objections(subject, keys):
        raise forbidden(objection)


def refuse_source(url: str, root: Digest | None, policies: Policies) -> None:
    """Refuse a source that nothing may come from.

    Raises:
        Forbidden: a line of a policy.
    """
    refuse(Subject(name="a skill", root=root, urls=(url,)), ORIGIN, policies)


def of_entry(name: str, entry: Locked, can: Sequence[str], ports: Ports) -> Subject:
    """Return what policies may know of a locked skill without its bytes; ``can`` is what it was seen to be able to.

    The name of its signer counts: whoever agreed to the lock was shown whose it is.
    """
    signers = [Signer.parse(each) for each in entry.signed_by]
    return Subject(
        name=name,
        root=_root(entry, ports),
        urls=(*urls_of(entry, ports), *_artifact(entry, ports)),
        signer=signers[0] if signers else None,
        vouched=True,
        can=tuple(can),
    )


def urls_of(entry: Locked, ports: Ports) -> tuple[str, ...]:
    """Return every place that a skill comes from: what was asked for, and the repository that this led to."""
    if entry.named:
        source = _source(entry, ports)
        return (source.url,) if source is not None else ()
    if entry.local:
        return (_url(Local(os.path.join(ports.project.base, entry.path or "")), ports.environ),)
    asked = _url(parse_remote(entry.place), ports.environ)
    return tuple(dict.fromkeys((asked, entry.git or asked)))


def _artifact(entry: Locked, ports: Ports) -> tuple[str, ...]:
    """Return where a lock says that the artifact of a site is: nobody proves that the site ever named that place."""
    is_web = (entry.url or "").startswith(("https://", "http://"))
    return (entry.url,) if entry.url and is_web and _root(entry, ports) is None else ()


def _root(entry: Locked, ports: Ports) -> Digest | None:
    source = _source(entry, ports) if entry.named else None
    return source.root if source is not None else None


def _source(entry: Locked, ports: Ports) -> Source | LockedSource | None:
    """Return the source of a named entry as this user has it, else as the lock does."""
    return ports.sources.all().get(entry.source) or ports.project.lock().sources.get(entry.source)


def _url(ref: Remote | Local, environ: Mapping[str, str]) -> str:
    if isinstance(ref, Local):
        path = os.path.realpath(os.path.expanduser(ref.path)).replace(os.sep, "/")
        return f"file:///{escaped(path.lstrip('/'), safe='/:')}"
    return url_of(ref, environ)


@dataclass(frozen=True, slots=True)
class _Guard:
    """Opens what the policies let anything come from, and nothing else."""

    policies: Policies
    ports: Ports

    def open(self, source: Source, root: bytes | None = None) -> Registry:
        refuse_source(source.url, source.root, self.policies)
        return self.ports.open(source, root)

    def reach(
        self, ref: Remote | Local, pin: str | None = None, *, guarded: bool = False, may: May | None = None
    ) -> Place:
        self.may(_url(ref, self.ports.environ))
        return self.ports.reach(ref, pin, guarded=guarded, may=may or self.may)

    def may(self, url: str) -> None:
        refuse_source(url, None, self.policies)


@dataclass(frozen=True, slots=True)
class _Agreeing:
    """Answers what the policies agree to, and leaves the rest to somebody else."""

    policies: Policies
    rest: Approver

    def answer(self, questions: Sequence[Question]) -> list[Answer]:
        open_ = [each for each in questions if not self.policies.agrees(each.kind)]
        answers: Iterator[Answer] = iter(self.rest.answer(open_) if open_ else [])
        return [YES if self.policies.agrees(each.kind) else next(answers) for each in questions]

"""Whether a skill may be installed, by policies and provenance; and what a person is asked first."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from skillhub.errors import BadSignature, Forbidden, SignerChanged
from skillhub.formats import text as times
from skillhub.formats.digest import Digest
from skillhub.formats.text import Quoted, as_command, quoted, shown, word
from skillhub.install import candidates
from skillhub.install.candidates import (
    Candidate,
    ReleaseStatus,
    is_same_publisher,
    proven_signers,
    read_manifest,
    relocated,
    spelled,
)
from skillhub.install.context import Ports, State, reinstall
from skillhub.install.known_bad import names_of, of_entry, urls_of
from skillhub.model.finding import NETWORK_UNKNOWN, Finding, at_least, counted, in_words, undeclared_variables
from skillhub.model.index import Release
from skillhub.model.lock import Lock, Locked, LockedSource, shown_signers
from skillhub.model.provenance import Changes, Provenance, signers_of
from skillhub.model.question import Kind, Question
from skillhub.model.record import Facts, Record
from skillhub.model.reference import authority, repository
from skillhub.model.tree import SIGNATURE, Tree
from skillhub.net.target import by_agreement
from skillhub.policy.policy import EVERYTHING, LASTING, Subject
from skillhub.scan import capabilities_and_findings, masked
from skillhub.sources.configured import EMBEDDED_URL
from skillhub.trust.registry import publisher_of

# The questions asked before a skill is written to disk; the text of each Question stands here.

_LINE_MAX = 160  # characters of a line that is shown
_SAID_MAX = 480  # characters of what a skill says of itself
_NOTES_MAX = 6
_FILES_MAX = 12
_PLACES_MAX = 3  # of what one rule found
_TRYING_OUT = "the registry inside this package is only for tests: its keys are public"


def consent(
    candidate: Candidate, record: Record | None, changes: Changes | None = None, programs: Sequence[str] = ()
) -> list[Question]:
    """Return the questions that a candidate raises; none if this person agreed to this very tree, from there, before.

    Args:
        candidate: What is to be installed.
        record: What the person agreed to before.
        changes: What differs from that, if there was something before.
        programs: Those that are not there, which keeps it disabled whatever is answered.
    """
    if record is not None and record.is_of(candidate.entry):
        return []
    # What speaks against it comes before what asks for a yes.
    said = candidate.name, candidate.tree, candidate.findings
    questions = about_findings(*said, "install it anyway?", _where(candidate))
    install = _install(candidate, record, changes, programs)
    if candidate.trust == "unsigned":
        questions.append(_unsigned(candidate, install.message))
    elif candidate.trust == "untrusted":
        questions.append(_publisher(candidate))
    if changes is not None:
        questions += _new(candidate, changes)
    return [*questions, install]


def _undeclared(candidate: Candidate) -> Iterator[str]:
    declared = (need.name for need in candidate.manifest.requires if need.kind == "env")
    names = [word(each) for each in undeclared_variables(candidate.capabilities, declared)]
    if names:
        more = f" and {len(names) - _FILES_MAX} more" if len(names) > _FILES_MAX else ""
        told = "any variable" if "*" in names else f"{', '.join(names[:_FILES_MAX])}{more}"
        yield f"its scripts read, though it does not declare: {told}"


def _new(candidate: Candidate, changes: Changes) -> list[Question]:
    """Ask by name for each capability and need that this version has and the previous one did not."""
    name, by = candidate.name, _by(candidate)
    version, was = (
        candidate.entry.version or "in its present version",
        changes.before.version or "the previous version",
    )
    asked: list[tuple[Kind, str, str]] = [
        *(("capability", each, f"gains the capability {word(each)}") for each in changes.capabilities.added),
        *(("need", each, f"has a new need, {word(each)}") for each in changes.requires.added),
    ]
    # Whether the version before stayed offline is not known either: an older lock does not say it.
    unsure = f"may use the network ({NETWORK_UNKNOWN}), which the lock does not say of {was}; agree?"
    return [
        Question(
            kind,
            name,
            f"{name} {version} {unsure if each == NETWORK_UNKNOWN else f'{text}, which {was} did not have; agree?'}",
            ("if you answer no, nothing changes: the skill stays as you agreed to it before",),
            each,
            alike=f"{word(each)} {by}",
        )
        for kind, each, text in asked
    ]


def _install(
    candidate: Candidate, record: Record | None, changes: Changes | None, programs: Sequence[str]
) -> Question:
    entry = candidate.entry
    version = f" {word(entry.version)}" if entry.version else ""
    can, needs = (", ".join(map(word, each)) for each in (candidate.capabilities, spelled(candidate.manifest)))
    patched = f", and patched by this project: {word(entry.patch.path)}" if entry.patch else ""
    details = [
        "its description:",
        *quoted(candidate.manifest.description, _SAID_MAX, _where(candidate)),
        *_notes(candidate),
        *(changes.paths(_FILES_MAX, _where(candidate)) if changes else ()),
        *(changes.facts() if changes else ()),
        *([_TRYING_OUT] if (entry.url or "").startswith(EMBEDDED_URL) else ()),
        *(["it will stay disabled; missing: program " + ", program ".join(programs)] if programs else ()),
        f"it needs: {needs or 'nothing'}",
        *_undeclared(candidate),
        f"it can: {in_words(candidate.capabilities)}",
        _content(candidate),
        # A place without a name of its own is spelled by its URL already.
        f"from {'' if entry.origin.startswith(entry.source) else f'{word(entry.source)}: '}{word(entry.origin)}",
        f"{_signed(candidate)}{patched}",
        *([f"it calls itself {entry.name}, and is called {candidate.name} here"] if entry.name else ()),
    ]
    verb = "Change" if record else "Install"
    if changes is not None and changes.before.version != entry.version:
        verb, version = "Downgrade" if changes.is_downgrade else "Update", f" to {word(str(entry.version))}"
    row = (
        candidate.name,
        word(entry.version or entry.short),
        _from(entry),
        (candidate.signed_by or "unsigned") + (", patched" if entry.patch else ""),
        can or "none seen",
        needs or "-",
    )
    message = f"{verb} {f'{entry.name} as ' if entry.name else ''}{candidate.name}{version}?"
    if record is not None and (elsewhere := record.elsewhere(entry)):
        was, now = elsewhere
        details.append(f"you agreed to it {was}; now it is {now}")
        if record.tree == entry.tree:
            message = f"{candidate.name} was agreed to {was}; the lock now has it {now}; agree?"
    by = _by(candidate)
    return Question("install", candidate.name, message, tuple(details), row=row, alike=by, tree=candidate.tree)


def _signed(candidate: Candidate) -> str:
    if candidate.signer:
        return f"signed by {candidate.signed_by} ({candidate.signer.fingerprint})"
    return "not signed" if candidate.trust == "unsigned" else "signed by an unknown key"


def _by(candidate: Candidate) -> str:
    """Return who signed a skill and where it is from: what a yes to all of them holds for."""
    signer = candidate.signer
    unproven = "unsigned" if candidate.trust == "unsigned" else _signed(candidate)
    by = f"by {candidate.signed_by} ({signer.fingerprint})" if signer else unproven
    return f"{by} from {_from(candidate.entry)}{', patched' if candidate.entry.patch else ''}"


def _content(candidate: Candidate) -> str:
    files = len(candidate.tree)
    return f"{files} {'file' if files == 1 else 'files'}, {candidate.tree.size} bytes, tree {candidate.tree.digest}"


def _notes(candidate: Candidate) -> Iterator[str]:
    """Yield what is odd about it, in as many lines as leave room for the facts below."""
    notes = candidate.warnings
    for note in notes[:_NOTES_MAX]:
        line, *rest = quoted(f"note: {note}", _LINE_MAX * 2, _where(candidate))
        yield from (str(line), *rest)
    if left := len(notes[_NOTES_MAX:]):
        yield f"and {left} more {'note' if left == 1 else 'notes'}: {_where(candidate)}"


def _where(candidate: Candidate) -> str:
    """Return the command that shows all of a skill before it is installed."""
    entry = candidate.entry
    ref = f"{entry.place}:{candidate.manifest.name}" if entry.named else entry.path or entry.url or entry.source
    if entry.git is not None:
        ref = f"git+{entry.git.removeprefix('git+')}@{entry.rev}{f'#{entry.path}' if entry.path else ''}"
    elif entry.url and entry.path:
        ref = f"{entry.place}#{entry.path}"
    elif entry.local and not os.path.isabs(ref):
        ref = f"./{ref}"
    return as_command("skillhub", "show", ref)


def _from(entry: Locked) -> str:
    """Return the source, and the server that the bytes are really from where that is another."""
    if entry.local or entry.named:
        return word(entry.source)
    server = authority(entry.git or entry.url or "")
    said = authority(entry.place) or "github.com"
    return word(entry.source) if server == said else f"{word(entry.source)} (at {word(server or entry.origin)})"


def _unsigned(candidate: Candidate, install: str) -> Question:
    """Return ``install``, the question whether to install it, as one about what nobody signed."""
    patch = candidate.entry.patch
    lacks = "with this project's unsigned patch" if patch else "without a signature"
    return Question(
        "unsigned",
        candidate.name,
        f"{install.removesuffix('?')}, {lacks}?" if install.endswith("agree?") else f"{install[:-1]} {lacks}?",
        (
            *((f"the patch is {word(patch.path)}",) if patch else ()),
            "no signature proves its author; the digest in the lock reveals any later change",
        ),
        alike=_by(candidate),
    )


def _publisher(candidate: Candidate) -> Question:
    signer, own, claim = candidate.signer, candidate.own, candidate.claim
    if signer is None:
        # Nothing is proven without the key, which does not come with the signature: there is nothing to pin.
        return Question(
            "publisher",
            candidate.name,
            f"{candidate.name} is signed by an unknown key; install it as if unsigned?",
            (
                *((f"the signature claims the key in a PEM file of {claim}",) if claim else ()),
                "without it nothing is proven: no key is pinned, and the lock will name no signer",
                "with it the signature is checked: skillhub publisher trust NAME --key FILE",
            ),
        )
    if own is not None:
        return Question(
            "publisher",
            candidate.name,
            f"{candidate.name} is signed by {word(own.name)}, a key of yours; trust it for this skill?",
            (f"{signer.kind} {signer.fingerprint}", f"to trust it for every skill: {own.trusting}"),
            own.trusting,
        )
    return Question(
        "publisher",
        candidate.name,
        f"{candidate.name} is signed by {candidate.signed_by}, who is not trusted yet; trust them for this skill?",
        ("compare it with the key that the publisher publishes elsewhere", f"{signer.kind} {signer.fingerprint}"),
        alike=_by(candidate),
    )


def about_findings(name: str, tree: Tree, found: Sequence[Finding], asking: str, where: str) -> list[Question]:
    """Return the question about what the scan found to be high or critical; none if nothing is.

    ``asking`` is what is asked about high findings, ``where`` the command that shows all of the skill.
    """
    grave = [finding for finding in found if at_least(finding.severity, "high")]
    if not grave:
        return []
    critical = dict.fromkeys(finding.rule for finding in grave if finding.severity == "critical")
    lines = tuple(_lines(grave, name, tree, where))
    seen = f"The scan of {name} has findings: {counted(grave)}; "
    if critical:
        message = f"{seen}only a policy can accept {', '.join(critical)}"
        return [Question("critical-finding", name, message, lines, '", "'.join(critical))]
    return [Question("finding", name, f"{seen}{asking}", lines)]


def _lines(grave: Sequence[Finding], name: str, tree: Tree, where: str) -> Iterator[str]:
    """Yield what was found, in its order, with the first few places of each rule."""
    places: dict[str, list[Finding]] = {}
    for each in grave:
        places.setdefault(each.rule, []).append(each)
    for rule, found in places.items():
        for each in found[:_PLACES_MAX]:
            yield from _seen(each, name, tree)
        if left := len(found[_PLACES_MAX:]):
            yield f"and {left} more {'place' if left == 1 else 'places'} of {rule}: {where}"


def _seen(finding: Finding, name: str, tree: Tree) -> Iterator[str]:
    """Yield what was found, and the line that it was found in, whose secrets are not repeated."""
    place = word(finding.path or name) + (f":{finding.line}" if finding.line else "")
    yield f"{finding.severity}: {place}: {finding.message} [{finding.rule}]"
    file = tree.get(finding.path or "")
    lines = file.data.split(b"\n") if file is not None and finding.line else []
    if finding.line and finding.line <= len(lines):
        line = masked(lines[finding.line - 1]).decode("utf-8", "replace")
        yield Quoted(shown(line.strip()[:_LINE_MAX])[:_LINE_MAX])


# Whether a candidate may be installed, by the policies of machine, user and project.

_AGE = frozenset({"min-age-days"})


def admit(candidate: Candidate, state: State, ports: Ports) -> Candidate:
    """Return the candidate, less the findings that a policy agrees to, of which it is warned instead.

    What is enabled already is held to where it comes from, who signed it and what it can do; it was held to all
    else when it was enabled. What is locked, and its user keeps disabled, is held to nothing: so one may do with
    a team's lock without what one's own policy forbids.

    Raises:
        Forbidden: a line of a policy.
        SourceError: nobody can say how old it is, for its repository cannot be reached.
    """
    policies, record = ports.policies, state.records.skills.get(candidate.name)
    is_out = record is not None and record.held == "user"
    if not policies or (is_out and state.lock.skills.get(candidate.name) == candidate.entry):
        return candidate
    known = record if record is not None and record.is_of(candidate.entry) else None
    subject = _subject(candidate, known, ports)
    if known is not None and known.enabled:
        policies.refuse(subject, LASTING)
        return candidate
    if policies.min_age is not None:
        entry = candidate.entry
        agreed_to = known is not None or state.is_known(candidate.name, entry.place, entry.git)
        subject = replace(subject, age=_age(candidate, ports, agreed=agreed_to))
    policies.refuse(subject, EVERYTHING)
    agreed = [each for each in candidate.findings if policies.allows_finding(each.rule)]
    notes = [f"a policy agrees to {each.rule} at {each.path}:{each.line}: {each.message}" for each in agreed]
    left = tuple(each for each in candidate.findings if each not in agreed)
    return replace(candidate, findings=left, warnings=(*candidate.warnings, *notes))


def too_young(candidate: Candidate, ports: Ports) -> Forbidden | None:
    """Return why a candidate has to be waited for, or None.

    Raises:
        SourceError: as for ``admit``.
    """
    if ports.policies.min_age is None:
        return None
    subject = Subject(name=candidate.name, age=_age(candidate, ports, agreed=True))
    return next((each.error for each in ports.policies.objections(subject, _AGE)), None)


def _subject(candidate: Candidate, known: Record | None, ports: Ports) -> Subject:
    can, findings = candidate.capabilities, candidate.findings
    if known is not None and known.enabled:
        can = known.facts.capabilities
    elif known is not None:  # nobody read all of its bytes again
        can, findings = capabilities_and_findings(candidate.tree, read_manifest(candidate.tree))
    subject = of_entry(candidate.name, candidate.entry, can, ports)
    is_vouched = candidate.trust == "signed"
    signer, entry = candidate.signer, candidate.entry
    known_as = names_of(signer, entry, ports) if signer else frozenset()
    return replace(subject, signer=signer, vouched=is_vouched, known_as=known_as, findings=findings)


def _age(candidate: Candidate, ports: Ports, *, agreed: bool) -> timedelta | None:
    """Return how long a skill has been out; None if nobody knows.

    A registry signs when a release was published. Of a commit its maker chooses the date, so that the first sight
    of it counts if that is later; of a repository that is met for the first time nothing but the date is known.
    """
    now, entry = ports.clock(), candidate.entry
    subject = of_entry(candidate.name, entry, (), ports)
    published = times.parse(candidate.published)
    if subject.root is not None:
        return since(candidate.published, ports)
    if published is None and entry.git is not None:
        commit = Release(name=candidate.name, url=entry.git, type="tree", rev=entry.rev, path=entry.path)
        place = ports.reach(repository(entry.git), entry.rev, named_by=by_agreement(agreed))
        published = times.parse(place.committed(commit))
    where = urls_of(entry, ports)[-1:] or (entry.source,)
    sight = ports.first_seen.of(where[0], entry.rev or entry.tree, now)
    if published is None:
        return now - sight.time
    return now - (published if sight.at_first else max(published, sight.time))


def since(published: str | None, ports: Ports) -> timedelta | None:
    """Return how long ago that was; None if it is no time."""
    time = times.parse(published)
    return ports.clock() - time if time is not None else None


# Whether a skill is from the same publisher as the one of its name that the person agreed to, whatever the lock says.


def check_against_record(candidate: Candidate, state: State, ports: Ports) -> None:
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
    was, named, proven = {*before.signers}, {*signers_of(entry.signed_by)}, proven_signers(candidate)
    now = named | proven if named and proven else set()
    if is_same_publisher(was, now, lambda: _publisher_keys(candidate, before.source, ports)):
        return
    scope = ports.project.scope
    raise SignerChanged(
        f"expected {candidate.name} to be signed by {', '.join(sorted(was))}, as when it was agreed to here; "
        f"it is signed by {shown_signers(entry.signed_by, ports.voucher(entry))} now",
        where=entry.origin,
        hint=f"if that is intended: {reinstall(scope, candidate.name, install_words(candidate.name, entry, ports))}",
    )


def _refuse_expired(candidate: Candidate, state: State) -> None:
    """Refuse what is signed with an expired certificate and is not what the person agreed to, though it is locked.

    A lock comes with a repository: whoever changes it, and has the key of a certificate that is past its time, would
    have new bytes taken for those of its publisher. Where nobody agreed to any yet, the lock is all there is.

    Raises:
        BadSignature: no flag and no answer lifts this.
    """
    record = state.records.skills.get(candidate.name)
    if candidates.EXPIRED not in candidate.warnings or record is None or record.facts == Facts():
        return
    entry, before = candidate.entry, state.lock.skills.get(candidate.name)
    known = {record.tree, before.original.tree} if before and record.is_of(before) else {record.tree}
    if known.isdisjoint((entry.tree, entry.original.tree)):
        message = f"expected the tree that was agreed to here, {record.tree}, or a certificate that is still valid"
        hint = "its publisher can sign it again"
        raise BadSignature("certificate-expired", message, where=f"{candidate.name}: {SIGNATURE}", hint=hint)


def without_other_signers(
    candidates: Mapping[str, Candidate], state: State, ports: Ports
) -> tuple[dict[str, Candidate], list[str]]:
    """Return the candidates less those that stay disabled and that another signs now, and what is told of these.

    They hold up nothing that the person uses: the record stays as it is, so that ``enable`` refuses another signer
    as ever. Were they to stop the command, the way on would be to agree to what was disabled.

    Raises:
        SourceError, FormatError: as ``check_against_record``.
    """
    found, notes = dict(candidates), []
    for name, candidate in candidates.items():
        record = state.records.skills.get(name)
        if record is None or record.held != "user":
            continue
        try:
            check_against_record(candidate, state, ports)
        except (SignerChanged, BadSignature) as error:
            del found[name]
            notes.append(f"{name} stays disabled, in the version agreed to: {error.message}; {error.hint}")
    return found, notes


def _publisher_keys(candidate: Candidate, source: str, ports: Ports) -> frozenset[Digest]:
    """Return the keys of the candidate's publisher: of what is in the store, its registry alone knows them all.

    Of whoever signed what came from another source, be it under the same alias, a registry says nothing that counts.

    Raises:
        SourceError, SecurityError, FormatError: that cannot be asked.
    """
    name, entry = candidate.name, candidate.entry
    if entry.source != source or ports.sources.had_another(source):
        return candidates.keys_of_publisher(candidate.signer, candidates.trusted_publishers(ports.publishers))
    if ports.root_of(entry) is None:
        return candidate.publisher_keys
    status = ReleaseStatus.now(name, entry, ports)
    release, admitted = status.release, status.admitted
    if release is None or admitted is None:
        return candidate.publisher_keys
    return candidate.publisher_keys | candidates.keys_of_publisher(
        candidate.signer, [publisher_of(admitted, release.published)]
    )


def install_words(name: str, entry: Locked, ports: Ports) -> list[str]:
    """Return the words that ask ``install`` for what the lock names, once the lock no longer does."""
    own, alias = entry.own_name(name), ["--as", name] if entry.name else []
    if entry.named:
        version = f"@{entry.version}" if ports.root_of(entry) else ""
        return [f"{entry.source}:{own}{version}", *alias]
    if entry.local:
        path = entry.path or ""
        return [path if os.path.isabs(path) else f"./{path}", *alias]
    return [entry.place, "--skill", f"{entry.plugin}:{own}" if entry.plugin else own, *alias]


# A relocated registry: it is known by its root, so that the lock follows it to its new URL.


def rebased_lock(lock: Lock, sources: Mapping[str, LockedSource]) -> Lock:
    """Return the lock with these sources; what it has of a registry that moved is where that is now."""
    skills = dict(lock.skills)
    for alias, now in sources.items():
        was = lock.sources.get(alias)
        if was is None or was.root is None or was == now or was.root != now.root:
            continue
        for name, entry in lock.skills.items():
            if entry.named and entry.source == alias:
                skills[name] = replace(entry, url=relocated(now.url, entry.url, was.url))
    return Lock(skills, {**lock.sources, **sources})


def sources_with(candidates: Iterable[Candidate], lock: Lock, ports: Ports) -> Mapping[str, LockedSource]:
    """Return the sources that a lock names once it has the candidates."""
    known = ports.sources.all()
    used = {each.entry.source for each in candidates if each.entry.named} & known.keys()
    return {**lock.sources, **{alias: known[alias].locked() for alias in used}}


def moved_records(records: Mapping[str, Record], before: Lock, after: Lock, ports: Ports) -> dict[str, Record]:
    """Return the records with what was agreed to, and proven, in ``before`` where ``after``, rebased, has it.

    Raises:
        StateError: the disk refuses.
    """
    found = dict(records)
    for name, was in before.skills.items():
        now, record = after.skills.get(name), records.get(name)
        root = after.sources[was.source].root if was.named else None
        if root is None or now is None or now is was or replace(was, url=now.url) != now:
            continue
        pem = ports.publishers.pinned(candidates.pin_name(name, was.original, root))
        if pem is not None:
            ports.publishers.pin(candidates.pin_name(name, now.original, root), pem)
        if record is not None and record.is_of(was):
            found[name] = replace(record, provenance=Provenance.of(now))
    return found

"""The questions before a skill is installed; whether policies permit it, and whether its publisher is the same."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from skillhub.command.ports import Ports
from skillhub.command.state import State
from skillhub.errors import BadSignature, Forbidden, SignerChanged
from skillhub.formats.digest import Digest
from skillhub.formats.text import Quoted, as_command, collapsed, command, parse_time, quoted, reinstall, shown, word
from skillhub.install import candidates
from skillhub.install.candidates import (
    Candidate,
    ReleaseStatus,
    is_same_publisher,
    proven_signers,
    read_manifest,
    relocated,
    spelled,
    without_files,
)
from skillhub.install.locked_facts import names_of, policy_subject, urls_of, with_advisories
from skillhub.model.finding import NETWORK_UNKNOWN, Finding, at_least, counted, in_words, undeclared_variables
from skillhub.model.index import Release
from skillhub.model.lock import Lock, Locked, LockedSource, shown_signers
from skillhub.model.provenance import Changes, Facts, Provenance, Record, signers_of
from skillhub.model.question import Kind, Question
from skillhub.model.reference import authority, repository
from skillhub.model.tree import SIGNATURE, Tree
from skillhub.net.target import by_agreement
from skillhub.policy.policy import EVERYTHING, LASTING, Subject
from skillhub.project.copies import left_the_lock
from skillhub.scan import capabilities_and_findings, masked, scan
from skillhub.sources.configured import EMBEDDED_URL
from skillhub.trust.publishers import publisher_of

# The questions before a skill is written to disk, with their texts.

_LINE_MAX = 160  # characters of a shown line
_SAID_MAX = 480  # characters of a skill's description
_NOTES_MAX = 6
_FILES_MAX = 12
_PLACES_MAX = 3  # of the findings of one rule
_TRYING_OUT = "the registry inside this package is only for tests: its keys are public"


def consent_questions(
    candidate: Candidate, record: Record | None, changes: Changes | None = None, programs: Sequence[str] = ()
) -> list[Question]:
    """Return the questions about a candidate; none if this person agreed to this tree from this origin before.

    Args:
        candidate: The skill to install.
        record: The record of what the person agreed to before.
        changes: The differences from the version before, if there was one.
        programs: The missing programs, which keep the skill disabled whatever the answers.
    """
    if record is not None and record.is_of(candidate.entry):
        return []
    # The reasons against the install come before the question whether to install.
    subject = candidate.name, candidate.tree, candidate.findings
    questions = about_findings(*subject, "install it anyway?", _show_command(candidate))
    install = _install(candidate, record, changes, programs)
    if candidate.trust == "unsigned":
        questions.append(_unsigned(candidate, install.message))
    elif candidate.trust == "untrusted":
        questions.append(_publisher(candidate))
    if changes is not None:
        questions += _new_facts(candidate, changes)
    return [*questions, install]


def _undeclared(candidate: Candidate) -> Iterator[str]:
    declared = (need.name for need in candidate.manifest.requires if need.kind == "env")
    names = [word(each) for each in undeclared_variables(candidate.capabilities, declared)]
    if names:
        more = f" and {len(names) - _FILES_MAX} more" if len(names) > _FILES_MAX else ""
        variables = "any variable" if "*" in names else f"{', '.join(names[:_FILES_MAX])}{more}"
        yield f"its scripts read undeclared variables: {variables}"


def _new_facts(candidate: Candidate, changes: Changes) -> list[Question]:
    """Return a question for each capability and need that this version has and the previous one did not."""
    name, by = candidate.name, _signer_and_source(candidate)
    version, was = (candidate.entry.version or "in the new version", changes.before.version or "the previous version")
    asked: list[tuple[Kind, str, str]] = [
        *(("capability", each, f"gains the capability {word(each)}") for each in changes.capabilities.added),
        *(("need", each, f"has a new need, {word(each)}") for each in changes.requires.added),
    ]
    # An older lock does not say whether the version before used the network.
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
    capabilities, needs = (
        ", ".join(map(word, each)) for each in (candidate.capabilities, spelled(candidate.manifest))
    )
    patched = f", and patched by this project: {word(entry.patch.path)}" if entry.patch else ""
    details = [
        "its description:",
        *quoted(candidate.manifest.description, _SAID_MAX, _show_command(candidate)),
        *_notes(candidate),
        *(changes.paths(_FILES_MAX, _show_command(candidate)) if changes else ()),
        *(changes.facts() if changes else ()),
        *([_TRYING_OUT] if (entry.url or "").startswith(EMBEDDED_URL) else ()),
        *(["it will stay disabled; missing: program " + ", program ".join(programs)] if programs else ()),
        f"it needs: {needs or 'nothing'}",
        *_undeclared(candidate),
        f"it can: {in_words(candidate.capabilities)}",
        _content(candidate),
        # The origin of a place without an alias begins with its reference already.
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
        _source_words(entry),
        (candidate.signed_by or "unsigned") + (", patched" if entry.patch else ""),
        capabilities or "none seen",
        needs or "-",
    )
    message = f"{verb} {f'{entry.name} as ' if entry.name else ''}{candidate.name}{version}?"
    if record is not None and (elsewhere := record.elsewhere(entry)):
        was, now = elsewhere
        details.append(f"you agreed to it {was}; now it is {now}")
        if record.tree == entry.tree:
            message = f"{candidate.name} was agreed to {was}; the lock now has it {now}; agree?"
    by = _signer_and_source(candidate)
    return Question("install", candidate.name, message, tuple(details), row=row, alike=by, tree=candidate.tree)


def _signed(candidate: Candidate) -> str:
    if candidate.signer:
        return f"signed by {candidate.signed_by} ({candidate.signer.fingerprint})"
    return "not signed" if candidate.trust == "unsigned" else "signed by an unknown key"


def _signer_and_source(candidate: Candidate) -> str:
    """Return the signer and the source of a skill; one answer may cover questions about skills that share both."""
    signer = candidate.signer
    unproven = "unsigned" if candidate.trust == "unsigned" else _signed(candidate)
    by = f"by {candidate.signed_by} ({signer.fingerprint})" if signer else unproven
    return f"{by} from {_source_words(candidate.entry)}{', patched' if candidate.entry.patch else ''}"


def _content(candidate: Candidate) -> str:
    files = len(candidate.tree)
    return f"{files} {'file' if files == 1 else 'files'}, {candidate.tree.size} bytes, tree {candidate.tree.digest}"


def _notes(candidate: Candidate) -> Iterator[str]:
    """Yield the candidate's warnings, few enough to leave room for the facts below."""
    notes = candidate.warnings
    for note in notes[:_NOTES_MAX]:
        line, *rest = quoted(f"note: {note}", _LINE_MAX * 2, _show_command(candidate))
        yield from (str(line), *rest)
    if left := len(notes[_NOTES_MAX:]):
        yield f"and {left} more {'note' if left == 1 else 'notes'}: {_show_command(candidate)}"


def _show_command(candidate: Candidate) -> str:
    """Return the command that shows the whole skill before it is installed."""
    entry = candidate.entry
    ref = f"{entry.place}:{candidate.manifest.name}" if entry.named else entry.path or entry.url or entry.source
    if entry.git is not None:
        ref = f"git+{entry.git.removeprefix('git+')}@{entry.rev}{f'#{entry.path}' if entry.path else ''}"
    elif entry.url and entry.path:
        ref = f"{entry.place}#{entry.path}"
    elif entry.local and not os.path.isabs(ref):
        ref = f"./{ref}"
    return as_command("skillhub", "show", ref)


def _source_words(entry: Locked) -> str:
    """Return the source, and the server of the bytes if that is another."""
    if entry.local or entry.named:
        return word(entry.source)
    server = authority(entry.git or entry.url or "")
    said = authority(entry.place) or "github.com"
    return word(entry.source) if server == said else f"{word(entry.source)} (at {word(server or entry.origin)})"


def _unsigned(candidate: Candidate, install: str) -> Question:
    """Return the question about a missing signature; ``install`` is the message of the question to install."""
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
        alike=_signer_and_source(candidate),
    )


def _publisher(candidate: Candidate) -> Question:
    signer, own, claim = candidate.signer, candidate.own, candidate.claim
    if signer is None:
        # A signature does not contain its key; without the key nothing is proven, and there is nothing to pin.
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
        alike=_signer_and_source(candidate),
    )


def about_findings(name: str, tree: Tree, found: Sequence[Finding], asking: str, where: str) -> list[Question]:
    """Return the question about high and critical findings; none without such a finding.

    ``asking`` is the text of the question about high findings, ``where`` the command that shows the whole skill.
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
    """Yield the lines of the findings in their order, with the first few places of each rule."""
    places: dict[str, list[Finding]] = {}
    for each in grave:
        places.setdefault(each.rule, []).append(each)
    for rule, found in places.items():
        for each in found[:_PLACES_MAX]:
            yield from _seen(each, name, tree, where)
        if left := len(found[_PLACES_MAX:]):
            yield f"and {left} more {'place' if left == 1 else 'places'} of {rule}: {where}"


def _seen(finding: Finding, name: str, tree: Tree, where: str) -> Iterator[str]:
    """Yield the finding, and its line of the file, with secrets masked."""
    place = word(finding.path or name) + (f":{finding.line}" if finding.line else "")
    yield f"{finding.severity}: {place}: {finding.message} [{finding.rule}]"
    file = tree.get(finding.path or "")
    lines = file.data.split(b"\n") if file is not None and finding.line else []
    if finding.line and finding.line <= len(lines):
        line = masked(lines[finding.line - 1]).decode("utf-8", "replace").strip()
        text = shown(line[:_LINE_MAX])
        yield Quoted(collapsed(text[:_LINE_MAX]))
        if len(line) > _LINE_MAX or len(text) > _LINE_MAX:
            yield f"its line goes on: {where}"


# Whether a candidate may be installed, by the policies of machine, user and project.

_AGE = frozenset({"min-age-days"})


def admit(candidate: Candidate, state: State, ports: Ports) -> Candidate:
    """Return the candidate, with a warning in place of each finding that a policy agrees to.

    An enabled skill is checked for origin, signer and capabilities; it was checked for all else when it was enabled.
    A locked skill that the user keeps disabled is not checked: the user can work with a team's lock although their
    own policy forbids one of its skills.

    Raises:
        Forbidden: a line of a policy.
        SourceError: its age is unknown, since its repository cannot be reached.
    """
    policies, record = ports.policies, state.records.skills.get(candidate.name)
    is_disabled = record is not None and record.disabled_by == "user"
    if not policies or (is_disabled and state.lock.skills.get(candidate.name) == candidate.entry):
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
    """Return the refusal of a candidate that is younger than a policy allows, or None.

    Raises:
        SourceError: as for ``admit``.
    """
    if ports.policies.min_age is None:
        return None
    subject = Subject(name=candidate.name, age=_age(candidate, ports, agreed=True))
    return next((each.error for each in ports.policies.objections(subject, _AGE)), None)


def _subject(candidate: Candidate, known: Record | None, ports: Ports) -> Subject:
    capabilities, findings = candidate.capabilities, candidate.findings
    if known is not None and known.enabled:
        capabilities = known.facts.capabilities
    elif known is not None:  # an agreed candidate was not scanned
        capabilities, findings = capabilities_and_findings(candidate.tree, read_manifest(candidate.tree))
    subject = policy_subject(candidate.name, candidate.entry, capabilities, ports)
    is_vouched = candidate.trust == "signed"
    signer, entry = candidate.signer, candidate.entry
    known_as = names_of(signer, entry, ports) if signer else frozenset()
    return replace(subject, signer=signer, vouched=is_vouched, known_as=known_as, findings=findings)


def _age(candidate: Candidate, ports: Ports, *, agreed: bool) -> timedelta | None:
    """Return the time since a skill was published; None if unknown.

    A registry signs the time of a release. The maker of a commit chooses its date, so the time when this machine
    first saw the commit counts if that is later; for a repository seen for the first time, only the date is known.
    """
    now, entry = ports.clock(), candidate.entry
    subject = policy_subject(candidate.name, entry, (), ports)
    published = parse_time(candidate.published)
    if subject.root is not None:
        return since(candidate.published, ports)
    if published is None and entry.git is not None:
        commit = Release(name=candidate.name, url=entry.git, type="tree", rev=entry.rev, path=entry.path)
        place = ports.reach(repository(entry.git), entry.rev, named_by=by_agreement(agreed))
        published = parse_time(place.committed(commit))
    where = urls_of(entry, ports)[-1:] or (entry.source,)
    first_sight = ports.first_seen.of(where[0], entry.rev or entry.tree, now)
    if published is None:
        return now - first_sight.time
    return now - (published if first_sight.at_first else max(published, first_sight.time))


def since(published: str | None, ports: Ports) -> timedelta | None:
    """Return the time since ``published``; None if that is no time."""
    time = parse_time(published)
    return ports.clock() - time if time is not None else None


# Whether the publisher is the one that the user agreed to for this name, whatever the lock says.


def check_against_record(candidate: Candidate, state: State, ports: Ports) -> None:
    """Refuse a skill of another publisher than the user agreed to, and new bytes under an expired certificate.

    Raises:
        SignerChanged, SourceError, FormatError: as for ``refuse_other_signer``.
        BadSignature: as for ``_refuse_expired``.
    """
    refuse_other_signer(candidate, state.records.skills.get(candidate.name), ports)
    _refuse_expired(candidate, state)


def refuse_other_signer(candidate: Candidate, record: Record | None, ports: Ports) -> None:
    """Refuse a skill whose signer is not the publisher that the user agreed to, or that has no signature any more.

    Raises:
        SignerChanged: another publisher; no flag and no answer overrides this.
        SourceError, FormatError: the registry, which knows the publisher's other keys, cannot be asked.
    """
    entry, before = candidate.entry, record.provenance if record else None
    if record is None or before is None or not before.signers or record.is_of(entry):
        return
    # A lock may name other signers besides the proven one; the record would then let them sign the next version.
    old, named, proven = {*before.signers}, {*signers_of(entry.signed_by)}, proven_signers(candidate)
    now = named | proven if named and proven else set()
    if is_same_publisher(old, now, lambda: _publisher_keys(candidate, before.source, ports)):
        return
    scope = ports.project.scope
    raise SignerChanged(
        f"expected {candidate.name} to be signed by {', '.join(sorted(old))}, as when it was agreed to here; "
        f"it is signed by {shown_signers(entry.signed_by, ports.voucher(entry))} now",
        where=entry.origin,
        hint=f"if that is intended: {reinstall(scope, candidate.name, install_words(candidate.name, entry, ports))}",
    )


def _refuse_expired(candidate: Candidate, state: State) -> None:
    """Refuse a locked skill with an expired certificate unless the user agreed to its tree.

    A lock comes with a repository: with write access to it and the key of an expired certificate, an attacker could
    pass off new bytes as the publisher's. Without any former consent, only the lock can vouch for the tree.

    Raises:
        BadSignature: no flag and no answer overrides this.
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


def left_behind(state: State, ports: Ports) -> Iterator[str]:
    """Yield a warning for each skill that left the lock, such as by a merge, and that agents still read.

    Raises:
        LinkLeavesProject: as for ``left_the_lock``.
    """
    sync = command(ports.project.scope, "sync")
    for name in left_the_lock(ports.project, state.lock, state.records):
        yield f"{name} left the lock, and agents still read it: {sync} removes it"


def without_other_signers(
    candidates: Mapping[str, Candidate], state: State, ports: Ports
) -> tuple[dict[str, Candidate], list[str]]:
    """Return the candidates without disabled skills that another publisher signs now, and a line for each of these.

    Such a skill does not stop the command, or the user would have to agree to a skill that they disabled. Its record
    stays unchanged, so that ``enable`` refuses the other signer.

    Raises:
        SourceError, FormatError: as ``check_against_record``.
    """
    found, notes = dict(candidates), []
    for name, candidate in candidates.items():
        record = state.records.skills.get(name)
        if record is None or record.disabled_by != "user":
            continue
        try:
            check_against_record(candidate, state, ports)
        except (SignerChanged, BadSignature) as error:
            del found[name]
            notes.append(f"{name} stays disabled, in the version agreed to: {error.message}; {error.hint}")
    return found, notes


def _publisher_keys(candidate: Candidate, source: str, ports: Ports) -> frozenset[Digest]:
    """Return the keys of the candidate's publisher; for a stored skill, only its registry knows them all.

    A registry does not vouch for the signers of skills from another source, even one that had the same alias.

    Raises:
        SourceError, SecurityError, FormatError: the registry cannot be asked.
    """
    name, entry = candidate.name, candidate.entry
    if entry.source != source or ports.sources.had_another(source):
        return candidates.keys_of_publisher(candidate.signer, candidates.trusted_publishers(ports.publishers))
    if ports.root_of(entry) is None:
        return candidate.publisher_keys
    status = ReleaseStatus(name, entry, ports.index_of(name, entry))
    release, admitted = status.release, status.admitted
    if release is None or admitted is None:
        return candidate.publisher_keys
    return candidate.publisher_keys | candidates.keys_of_publisher(
        candidate.signer, [publisher_of(admitted, release.published)]
    )


def install_words(name: str, entry: Locked, ports: Ports) -> list[str]:
    """Return the words that make ``install`` install the locked skill after it was removed from the lock."""
    own, alias = entry.own_name(name), ["--as", name] if entry.name else []
    if entry.named:
        version = f"@{entry.version}" if ports.root_of(entry) else ""
        return [f"{entry.source}:{own}{version}", *alias]
    if entry.local:
        path = entry.path or ""
        return [path if os.path.isabs(path) else f"./{path}", *alias]
    return [entry.place, "--skill", f"{entry.plugin}:{own}" if entry.plugin else own, *alias]


def new_first(candidate: Candidate, record: Record | None, ports: Ports) -> Candidate:
    """Return the candidate with its new findings first; the others say that the version before has them, too."""
    is_grave = any(at_least(each.severity, "high") for each in candidate.findings)
    before = ports.store.read(record.tree) if record is not None and is_grave else None
    if before is None:
        return candidate
    old_keys = {*_finding_keys(scan(before), before)}
    keyed = [*zip(_finding_keys(candidate.findings, candidate.tree), candidate.findings, strict=True)]
    note = "(the version before has it, too)"
    repeated = [replace(each, message=f"{each.message} {note}") for key, each in keyed if key in old_keys]
    return replace(candidate, findings=(*(each for key, each in keyed if key not in old_keys), *repeated))


def described(candidate: Candidate, record: Record | None, ports: Ports) -> Candidate:
    """Return the candidate without its files, and with the findings that ``update`` would ask about.

    Raises:
        KnownBad, SourceError, SecurityError, FormatError, StateError: as for ``with_advisories``.
    """
    candidate = new_first(with_advisories(candidate, ports), record, ports)
    grave = tuple(each for each in candidate.findings if at_least(each.severity, "high"))
    return without_files(replace(candidate, findings=grave))


def _finding_keys(findings: Iterable[Finding], tree: Tree) -> Iterator[tuple[str, str, object]]:
    """Yield the identity of each finding across versions: rule, path, and the line's text or the file's digest."""
    lines: dict[str, list[bytes]] = {}
    for each in findings:
        path = each.path or ""
        if path not in lines:
            lines[path] = tree[path].data.split(b"\n") if path in tree else []
        row = b"".join(lines[path][each.line - 1 : each.line])
        yield each.rule, path, row if each.line else tree.listing.get(path)


# A relocated registry: its root identifies it, so that the lock follows it to its new URL.


def rebased_lock(lock: Lock, sources: Mapping[str, LockedSource]) -> Lock:
    """Return the lock with these sources; the URLs of skills from a registry that moved are below its new URL."""
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
    """Return the sources of the lock with those of the candidates added."""
    known = ports.sources.all()
    used = {each.entry.source for each in candidates if each.entry.named} & known.keys()
    return {**lock.sources, **{alias: known[alias].locked() for alias in used}}


def moved_records(records: Mapping[str, Record], before: Lock, after: Lock, ports: Ports) -> dict[str, Record]:
    """Return the records with consent and pins of ``before`` carried over to ``after``, the rebased lock.

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

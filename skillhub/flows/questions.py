"""What is asked of a person before a skill may reach a disk; the words of each Question stand here."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from skillhub.flows.candidate import Candidate, spelled
from skillhub.model.changes import Changes
from skillhub.model.digest import Digest
from skillhub.model.finding import Finding, at_least, counted
from skillhub.model.lock import Locked, LockedSource
from skillhub.model.question import Kind, Question
from skillhub.model.record import Record
from skillhub.model.text import Quoted, as_command, quoted, shown, word
from skillhub.model.url import authority
from skillhub.scan.secrets import masked
from skillhub.world.embedded import EMBEDDED_URL

_LINE_MAX = 160  # characters of a line that is shown
_SAID_MAX = 480  # characters of what a skill says of itself
_NOTES_MAX = 6
_FILES_MAX = 12
_PLACES_MAX = 3  # of what one rule found
_INSTRUCTS = "it can: give instructions, which an agent follows with your rights"
_TRYING_OUT = "the registry inside this package is for trying out: its keys are public"


def consent(
    candidate: Candidate,
    record: Record | None,
    changes: Changes | None = None,
    programs: Sequence[str] = (),
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
    questions = _findings(candidate)
    if candidate.trust == "unsigned":
        questions.append(_unsigned(candidate))
    elif candidate.trust == "untrusted":
        questions.append(_publisher(candidate))
    if changes is not None:
        questions += _new(candidate, changes)
    return [*questions, _install(candidate, record, changes, programs)]


def _new(candidate: Candidate, changes: Changes) -> list[Question]:
    """Ask by name for all that another version can do or needs and the one before did not."""
    name, by = candidate.name, _by(candidate)
    version, was = candidate.entry.version or "as it is now", changes.before.version or "the one before"
    asked: list[tuple[Kind, str, str, tuple[str, ...]]] = [
        ("capability", "can", "could not", changes.capabilities.added),
        ("need", "needs", "did not", changes.requires.added),
    ]
    return [
        Question(
            kind,
            name,
            f"{name} {version} {verb} {word(each)}, which {was} {did}; agree?",
            (),
            each,
            alike=f"{word(each)} {by}",
        )
        for kind, verb, did, added in asked
        for each in added
    ]


def _install(
    candidate: Candidate, record: Record | None, changes: Changes | None, programs: Sequence[str]
) -> Question:
    entry = candidate.entry
    version = f" {word(entry.version)}" if entry.version else ""
    can, needs = (", ".join(map(word, each)) for each in (candidate.can, spelled(candidate.manifest)))
    patched = f", and patched by this project: {word(entry.patch.path)}" if entry.patch else ""
    details = [
        "it says of itself:",
        *quoted(candidate.manifest.description, _SAID_MAX, _where(candidate)),
        *_notes(candidate),
        *(changes.paths(_FILES_MAX, _where(candidate)) if changes else ()),
        *(changes.facts() if changes else ()),
        *([_TRYING_OUT] if (entry.url or "").startswith(EMBEDDED_URL) else ()),
        *(["it will stay disabled; missing: program " + ", program ".join(programs)] if programs else ()),
        f"it needs: {needs or 'nothing'}",
        "; ".join(filter(None, (_INSTRUCTS, can, _unseen(candidate)))),
        _content(candidate),
        f"from {word(entry.source)}: {word(entry.origin)}",
        f"{_signed(candidate)}{patched}",
    ]
    verb = "Change" if record else "Install"
    if changes is not None and changes.before.version != entry.version:
        verb, version = "Downgrade" if changes.is_downgrade else "Update", f" to {word(str(entry.version))}"
    row = (
        candidate.name,
        word(entry.version or entry.short),
        _from(entry),
        (candidate.signed_by or "nobody") + (", patched" if entry.patch else ""),
        can or "-",
        needs or "-",
    )
    message = f"{verb} {candidate.name}{version}?"
    if record is not None and (elsewhere := record.elsewhere(entry)):
        was, now = elsewhere
        details.append(f"it was agreed to {was}; it is {now} now")
        if record.tree == entry.tree:
            message = f"{candidate.name} was agreed to {was}; the lock has it {now} now; agree?"
    return Question("install", candidate.name, message, tuple(details), row=row, alike=_by(candidate))


def _signed(candidate: Candidate) -> str:
    if candidate.signer:
        return f"signed by {candidate.signed_by} ({candidate.signer.fingerprint})"
    return "not signed" if candidate.trust == "unsigned" else "signed by a key that nobody here knows"


def _by(candidate: Candidate) -> str:
    """Return who signed a skill and where it is from: what a yes to all of them holds for."""
    signer = candidate.signer
    by = f"by {candidate.signed_by} ({signer.fingerprint})" if signer else _signed(candidate)
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
    ref = (
        f"{entry.place}:{candidate.manifest.name}" if entry.named else entry.path or entry.url or entry.source
    )
    if entry.git is not None:
        ref = f"git+{entry.git.removeprefix('git+')}@{entry.rev}{f'#{entry.path}' if entry.path else ''}"
    elif entry.local and not os.path.isabs(ref):
        ref = f"./{ref}"
    return as_command("skillhub", "show", ref)


def _unseen(candidate: Candidate) -> str:
    """Return what to know where no network was seen: that is no proof that there is none."""
    return "" if any(each.startswith("network:") for each in candidate.can) else "network: none seen"


def _from(entry: Locked) -> str:
    """Return the source, and the server that the bytes are really from where that is another."""
    if entry.local or entry.named:
        return word(entry.source)
    server = authority(entry.git or entry.url or "")
    said = authority(entry.place) or "github.com"
    return (
        word(entry.source) if server == said else f"{word(entry.source)} (at {word(server or entry.origin)})"
    )


def _unsigned(candidate: Candidate) -> Question:
    patch = candidate.entry.patch
    message = f"Nobody signed {candidate.name}; take it as it is?"
    if patch is not None:
        message = f"This project patches {candidate.name}, and nobody signed the patch; take it as it is?"
    return Question(
        "unsigned",
        candidate.name,
        message,
        (
            *((f"the patch is {word(patch.path)}",) if patch else ()),
            "only its digest, which the lock keeps, will tell whether it is the same next time",
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
            f"{candidate.name} is signed by a key that nobody here knows; take it as if unsigned?",
            (
                *((f"the key is said to be the one in a PEM file of {claim}",) if claim else ()),
                "without it nothing is proven: nobody is pinned, and the lock will name no signer",
                "with it the signature is checked: skillhub publisher trust NAME --key FILE",
            ),
        )
    if own is not None:
        return Question(
            "publisher",
            candidate.name,
            f"{candidate.name} is signed by {word(own.name)}, a key of yours, not trusted yet; trust it for this?",
            (f"{signer.kind} {signer.fingerprint}", f"to trust it for every skill: {own.trusting}"),
            own.trusting,
        )
    return Question(
        "publisher",
        candidate.name,
        f"{candidate.name} is signed by {word(signer.identity)}, whom nobody has trusted yet; trust them for it?",
        ("compare it with what the publisher tells elsewhere", f"{signer.kind} {signer.fingerprint}"),
        alike=_by(candidate),
    )


def _findings(candidate: Candidate) -> list[Question]:
    grave = [finding for finding in candidate.findings if at_least(finding.severity, "high")]
    if not grave:
        return []
    critical = dict.fromkeys(finding.rule for finding in grave if finding.severity == "critical")
    lines = tuple(_lines(grave, candidate))
    seen = f"The scan found in {candidate.name}: {counted(grave)}; "
    if critical:
        message = f"{seen}only a policy may agree to {', '.join(critical)}"
        return [Question("critical-finding", candidate.name, message, lines, '", "'.join(critical))]
    return [Question("finding", candidate.name, f"{seen}have you read it, and agree?", lines)]


def _lines(grave: Sequence[Finding], candidate: Candidate) -> Iterator[str]:
    """Yield what was found, the worst first, with the first few places of each rule."""
    places: dict[str, list[Finding]] = {}
    for each in sorted(grave, key=lambda each: each.severity != "critical"):
        places.setdefault(each.rule, []).append(each)
    for rule, found in places.items():
        for each in found[:_PLACES_MAX]:
            yield from _seen(each, candidate)
        if left := len(found[_PLACES_MAX:]):
            yield f"and {left} more {'place' if left == 1 else 'places'} of {rule}: {_where(candidate)}"


def _seen(finding: Finding, candidate: Candidate) -> Iterator[str]:
    """Yield what was found, and the line that it was found in, whose secrets are not repeated."""
    place = word(finding.path or candidate.name) + (f":{finding.line}" if finding.line else "")
    yield f"{finding.severity}: {place}: {finding.message} [{finding.rule}]"
    file = candidate.tree.get(finding.path or "")
    lines = file.data.split(b"\n") if file is not None and finding.line else []
    if finding.line and finding.line <= len(lines):
        line = masked(lines[finding.line - 1]).decode("utf-8", "replace")
        yield Quoted(shown(line.strip()[:_LINE_MAX])[:_LINE_MAX])


def propose_source(alias: str, source: LockedSource) -> Question:
    """Return the question about a registry that a project brings and this user does not have."""
    root = f"root {source.root}" if source.root else "the project names no root to know it by"
    return Question(
        "source" if source.root else "root",
        alias,
        f"This project brings the registry {alias}, which is none of yours; trust it in this project?",
        (
            "who signs its skills is its word; compare the root with what whoever runs it tells elsewhere",
            f"url {word(source.url)}",
            root,
        ),
        f"--trust-source {alias}={source.root or 'sha256:…'}",
    )


def first_root(alias: str, url: str, root: Digest, subject: str = "") -> Question:
    """Return the question about a registry's root that nobody named beforehand; ``subject`` is what would name it."""
    message = f"Trust the registry at {word(url)} as {alias}, by the root that it shows now?"
    details = ("compare it with what whoever runs it tells elsewhere", f"root {root}")
    return Question("root", alias, message, details, subject)
